"""The chapter on natural text: its tables against the stored curves and rows, its charts, its refusals."""

import itertools
import math

import numpy as np
import pandas as pd
import pytest
import vl_convert

from book.tying import natural_text as chapter
from book.tying.experiments import natural
from book.tying.experiments.natural import UNDECAYED, NaturalRun
from embviz import ledger
from embviz.view.explorers import Choice, Explorer, Toggle
from tests.drawing import compiled

STEPS = (0, 10, 20, 30, 40)
WORDS = ("the", "and", "of")  # with twins, tokens 1, 2, 4
TOKENS = [",", "the", "and", ".", "of", "sea"]
TWINS = {1: 6, 2: 7, 4: 8}
KINDS = ("twins", "matched", "unrelated")


def made_value(run: NaturalRun, step: int, matrix: str, kind: str) -> float:
    """A made mean distance: twins fall where they are mixed, others rise; every run has its own."""
    start = 2 + 0.1 * run.seed + {"input": 0.0, "tied": 0.2, "output": 0.4}[matrix]
    slope = {"twins": -0.02 if run.spelling == "mixed" else 0.03, "matched": 0.01, "unrelated": 0.02}[kind]
    return start + slope * step + (0 if run.setting.weight_decay else 1.0)


def made_curves(runs) -> pd.DataFrame:
    rows = []
    for run in runs:
        for step in (s for s in STEPS if s <= run.n_steps):
            row = {"corpus": run.corpus, "spelling": run.spelling, "tied": run.tied, "seed": run.seed}
            row |= {"step": step, "loss": 6 - step / 100, "accuracy": 0.1 + run.tied * 0.02 + step / 1000}
            row["accuracy_either"] = row["accuracy"] + 0.01
            for matrix in ("tied",) if run.tied else ("input", "output"):
                for kind in KINDS:
                    row[f"{matrix}_{kind}"] = made_value(run, step, matrix, kind)
                    row[f"{matrix}_{kind}_cosine"] = made_value(run, step, matrix, kind) / 4
            rows.append(row)
    return pd.DataFrame(rows)


def made_rows(run: NaturalRun) -> dict[str, np.ndarray]:
    """Rows of six tokens and three twins; mixed twins lie beside their words, but for that of "of"."""
    rows = np.random.default_rng(run.seed).normal(size=(9, 5))
    if run.spelling == "mixed":
        rows[[6, 7]] = 3 * rows[[1, 2]] + 0.01
        rows[8] = -rows[4]
    return {"tied": rows} if run.tied else {"input": rows, "output": rows[:, ::-1] * 2}


def made_pairs(run: NaturalRun) -> pd.DataFrame:
    rows = [
        (matrix, kind, i, {"twins": 1.0, "matched": 3.0, "unrelated": 4.0}[kind] + i)
        for matrix in (("tied",) if run.tied else ("input", "output"))
        for kind in KINDS
        for i in range(2 if kind == "matched" else 3)
    ]
    return pd.DataFrame(rows, columns=["matrix", "kind", "index", "distance"])


def made_runs() -> list[NaturalRun]:
    return [
        NaturalRun("embedded", tied, seed, spelling, n_steps=40, batch_size=8, length=32, learning_rate=1e-2)
        for seed, spelling in ((0, "mixed"), (1, "mixed"), (0, "fixed"))
        for tied in (False, True)
    ]


@pytest.fixture(autouse=True)
def made(monkeypatch):
    """Stored results that are made up; the chapter reads no file."""
    words = pd.DataFrame({"token": range(6), "word": TOKENS, "count": [50, 20, 10, 9, 6, 5]})
    words["twin"] = [TWINS.get(token, -1) for token in range(6)]
    monkeypatch.setattr(chapter, "_words", lambda preset: words)
    monkeypatch.setattr(chapter, "largest_stored", lambda: "quick")
    monkeypatch.setattr(natural, "natural_runs", lambda preset: made_runs())
    monkeypatch.setattr(natural, "curves_of", made_curves)
    monkeypatch.setattr(natural, "natural_curves", lambda preset: made_curves(made_runs()))
    monkeypatch.setattr(natural, "stored_rows", made_rows)
    monkeypatch.setattr(natural, "stored_tokens", lambda run: np.arange(9))
    monkeypatch.setattr(natural, "stored_pairs", made_pairs)
    chapter._all_distances.cache_clear()
    yield
    chapter._all_distances.cache_clear()


# --- tables -----------------------------------------------------------------------------------------


def test_distances_are_the_stored_ones_by_name_and_ratios_are_to_unrelated_pairs_of_the_same_moment():
    table = chapter.distance_table("quick")
    keys = ["spelling", "matrix", "pair", "seed", "step"]
    assert len(table) == 3 * 3 * 3 * len(STEPS)
    assert not table.duplicated(keys).any()
    assert not table.isna().any(axis=None)
    runs = {(run.tied, run.spelling, run.seed): run for run in made_runs()}
    for row in table.itertuples():
        matrix = chapter.MATRICES[row.matrix]
        run = runs[matrix == "tied", chapter.SPELLINGS[row.spelling], row.seed]
        value = made_value(run, row.step, matrix, chapter.PAIRS[row.pair])
        unrelated = made_value(run, row.step, matrix, "unrelated")
        assert row.distance == pytest.approx(value)
        assert row.cosine_distance == pytest.approx(value / 4)
        assert row.twin_ratio == row.cosine_ratio == pytest.approx(value / unrelated)


def test_a_panel_has_one_matrix_and_mixed_twins_alone():
    panel = chapter.matrix_distances("quick", "untied output")
    assert len(panel) == 2 * 3 * len(STEPS)
    expected = made_value(made_runs()[0], 20, "output", "twins")
    chosen = panel[(panel["step"] == 20) & (panel["pair"] == "twins") & (panel["seed"] == 0)]
    assert chosen["distance"].item() == pytest.approx(expected)
    with pytest.raises(ValueError, match="no matrix 'output': choose one of untied input, tied, untied"):
        chapter.matrix_distances("quick", "output")


def test_accuracies_are_those_of_mixed_twins_and_scores_those_of_the_end():
    table = chapter.accuracy_table("quick")
    assert len(table) == 2 * 2 * len(STEPS)
    last = table[table["step"] == 40].groupby("tying")["accuracy"].mean()
    assert last.to_dict() == pytest.approx({"tied": 0.16, "untied": 0.14})
    scores = chapter.scores_table("quick")
    assert scores.loc[("mixed", "tied")].tolist() == [5.6, 16.0, 1.0]
    assert len(scores) == 4


def test_what_coins_cost_is_half_of_the_twinned_tokens_and_log_2_for_each():
    row = chapter.coin_table("quick").iloc[0]
    assert chapter.twinned_share("quick") == pytest.approx(0.36)
    assert row.tolist() == [36.0, 82.0, round(0.36 * math.log(2), 2)]


def test_ratios_at_the_end_are_of_twins_and_of_both_nulls():
    table = chapter.final_ratios("quick")
    found = table[table["matrix"] == "tied"].set_index(["comparison", "seed"])["twin_ratio"]
    unrelated = 2.2 + 0.02 * 40
    assert found["twins", 0] == pytest.approx((2.2 - 0.8) / unrelated, abs=1e-4)
    assert found["matched", 0] == pytest.approx((2.2 + 0.4) / unrelated, abs=1e-4)
    assert found["never mixed", 0] == pytest.approx((2.2 + 1.2) / unrelated, abs=1e-4)
    assert table.groupby("comparison").size().to_dict() == {"twins": 6, "matched": 6, "never mixed": 3}


def test_runs_without_decay_stand_beside_those_with_it_after_the_same_steps():
    table = chapter.decay_table("quick")
    assert list(table.index) == [(matrix, decay) for matrix in chapter.MATRICES for decay in (0.01, 0.0)]
    for (matrix, decay), row in table.iterrows():
        shift = {"untied input": 0.0, "tied": 0.2, "untied output": 0.4}[matrix] + (decay == 0)
        assert (row["twins"], row["unrelated"]) == pytest.approx((1.2 + shift, 2.8 + shift), abs=1e-3)
        assert row["ratio"] == pytest.approx((1.2 + shift) / (2.8 + shift), abs=1e-3)
    assert {run.corpus for run in natural.undecayed_runs("quick")} == {"embedded" + UNDECAYED}


def test_the_settings_say_what_was_run():
    table = chapter.settings_table("quick")
    here = table["here"]
    # 40 steps of 8 sequences of 32; rates fall from 0.01 to a tenth of it
    assert (here["steps"], here["tokens read"], here["seeds"]) == ("40", "0.0 million", "2")
    assert here["decay x sum of rates"] == f"{0.01 * 40 * 0.01 * 0.55:.2g}"
    assert here["rate"] == "0.01, falling"
    assert not table.isna().any(axis=None)


def test_the_authors_product_is_that_of_their_steps_and_rates():
    # 74,004,228 sentences, 70% of them for training, in batches of 128, three times; the cosine's mean rate
    steps = 3 * 0.7 * 74_004_228 / 128
    product = 0.01 * steps * (1e-4 + 1e-5) / 2
    assert chapter.settings_table("quick")["its program"]["decay x sum of rates"] == f"{product:.2f}"


# --- words ------------------------------------------------------------------------------------------


def test_a_words_nearest_rows_are_those_of_the_largest_cosine_and_twins_have_a_prime():
    table = chapter.nearest_words("quick", ["the", "of"], n_nearest=8)
    rows = made_rows(made_runs()[1])["tied"]
    names = [*TOKENS, "the′", "and′", "of′"]
    for word in ("the", "of"):
        here = names.index(word)
        cosines = {
            name: rows[i] @ rows[here] / np.linalg.norm(rows[i]) / np.linalg.norm(rows[here])
            for i, name in enumerate(names)
            if i != here
        }
        assert table.loc[word, "tied"].split() == sorted(cosines, key=lambda name: -cosines[name])
    assert table.loc["the", "tied"].split()[0] == "the′"
    assert table.loc["of", "tied"].split()[-1] == "of′"
    with pytest.raises(ValueError, match="no twin of sea: choose among the, and, of"):
        chapter.nearest_words("quick", ["the", "sea"])


def test_the_share_of_twins_that_come_first_is_two_in_three_where_two_of_three_do():
    table = chapter.twin_ranks("quick")
    assert table.loc[("tied", "mixed"), "the nearest row, %"] == pytest.approx(66.7)
    assert table.loc[("tied", "mixed"), "among the nearest ten, %"] == 100  # there are nine rows
    assert list(table.index) == list(itertools.product(chapter.MATRICES, chapter.SPELLINGS))


# --- explorers and charts ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("distance", "relative", "column"),
    [
        ("Euclidean", False, "distance"),
        ("Euclidean", True, "twin_ratio"),
        ("cosine", False, "cosine_distance"),
        ("cosine", True, "cosine_ratio"),
    ],
)
def test_the_curves_explorer_shows_the_table_that_its_controls_name(distance, relative, column):
    found = chapter.measured_curves("tied", distance, chapter.FIXED, relative)
    table = chapter.distance_table("quick")
    expected = table[(table["matrix"] == "tied") & (table["spelling"] == chapter.FIXED)]
    assert found["measured"].tolist() == expected[column].tolist()
    assert found["pair"].tolist() == expected["pair"].tolist()


def test_the_pairs_explorer_names_each_pair_and_measures_by_unrelated_ones():
    table = chapter.measured_pairs("untied input", chapter.MIXED)
    assert table["word"].tolist() == ["the – the′", "and – and′", "of – of′", "the – and", "and – of"]
    assert table["rank"].tolist() == [1, 2, 3, 1, 2]
    assert table["twin_ratio"].tolist() == pytest.approx([0.2, 0.4, 0.6, 0.6, 0.8])  # over a mean of 5


def test_both_explorers_have_a_static_twin_that_compiles():
    pairs = Explorer(
        chapter.measured_pairs,
        {
            "matrix": Choice(list(chapter.MATRICES), "table"),
            "spelling": Choice(list(chapter.SPELLINGS), "t"),
        },
        chapter.plot_measured_pairs,
        title="made",
        caption="made",
    )
    curves = Explorer(
        chapter.measured_curves,
        {
            "matrix": Choice(list(chapter.MATRICES), "table"),
            "distance": Choice([chapter.EUCLIDEAN, chapter.COSINE], "distance"),
            "spelling": Choice(list(chapter.SPELLINGS), "twins"),
            "relative": Toggle("relative"),
        },
        chapter.plot_measured_curves,
        title="made",
        caption="made",
    )
    for explorer, n_rows in ((pairs, 6 * 5), (curves, 3 * 2 * 2 * (2 + 1) * 3 * len(STEPS))):
        assert len(explorer.grid()) == n_rows
        vl_convert.vegalite_to_vega(explorer.static_spec(), vl_version="6.4")


def test_charts_compile_and_name_every_kind_by_colour_and_dash_or_shape():
    panel = chapter.plot_lines(
        chapter.matrix_distances("quick", "tied"), "distance", by="pair", names=list(chapter.PAIRS)
    )
    accuracy = chapter.plot_lines(
        chapter.accuracy_table("quick"), "accuracy", by="tying", names=["tied", "untied"]
    )
    ratios = chapter.plot_final_ratios(chapter.final_ratios("quick"))
    for chart in (panel, accuracy, ratios):
        compiled(chart)
        assert chart.to_dict()["width"] == "container"
    for chart, n_kinds in ((panel, 3), (accuracy, 2)):
        thick = chart.to_dict()["layer"][1]["encoding"]
        for channel in ("color", "strokeDash"):
            assert len(thick[channel]["scale"]["range"]) == n_kinds
            assert len({str(look) for look in thick[channel]["scale"]["range"]}) == n_kinds
    assert ratios.to_dict()["layer"][0]["data"]["values"] == [{"low": 0, "high": chapter.ACCEPTED}]


def test_the_shaded_range_is_the_one_that_the_ledger_accepts():
    claim = ledger.find_claim("tying.natural")
    accepted = {figure.accept for figure in claim.figures if figure.name.startswith("ratio_")}
    assert accepted == {(0.0, chapter.ACCEPTED)}
