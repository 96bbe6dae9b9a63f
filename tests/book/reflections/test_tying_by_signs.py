"""Tying by signs: what signs can reproduce against slow definitions, and tables of made results."""

from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
import vl_convert

from book.reflections import tying_by_signs as signs
from embviz.view import theme
from embviz.view.explorers import Choice, Explorer, Range
from tests.drawing import compiled

N_WORDS = 40


@pytest.fixture(autouse=True)
def made_pmi(monkeypatch):
    """A symmetric matrix in place of the corpus' PMI, so that no test reads a text."""
    noise = np.random.default_rng(3).standard_normal((N_WORDS, N_WORDS))
    matrix = noise + noise.T + 2 * np.eye(N_WORDS)
    caches = (signs._eigenpairs, signs._pairs, signs.best_scores)
    for cached in caches:
        cached.cache_clear()
    monkeypatch.setattr(signs, "_frequent_pmi", lambda n_words: matrix)
    yield matrix
    for cached in caches:
        cached.cache_clear()


def made_results(signature="free", seeds=(0, 1), score=0.5) -> pd.DataFrame:
    """Rows as a trained model stores them, for two tests."""
    rows = []
    for seed in seeds:
        for test in ("wordsim", "men"):
            rows.append((signature, seed, "score", "", test, score + 0.1 * seed))
            rows += [
                (signature, seed, "score_replicate", test, str(i), score + 0.01 * (i - 50))
                for i in range(101)
            ]
        rows.append((signature, seed, "men_as_text", "", "men", 0.2))
    columns = ["signature", "seed", "quantity", "control", "item", "value"]
    return pd.DataFrame(rows, columns=columns)


@pytest.fixture
def made_cells(monkeypatch):
    table = pd.concat([made_results("free"), made_results("ones", score=0.3)])
    monkeypatch.setattr(signs, "load", lambda cells: table)
    return [SimpleNamespace(stored=lambda: True)]


# --- what signs can reproduce ---------------------------------------------------------------------------


@pytest.mark.parametrize("n_positive", [0, 3, 6])
def test_the_reproduced_share_is_one_minus_the_relative_squared_error(made_pmi, n_positive):
    target = made_pmi - np.log(5)
    values, vectors = np.linalg.eigh(target)
    kept = [*range(6 - n_positive), *range(N_WORDS - n_positive, N_WORDS)]
    best = sum(values[at] * np.outer(vectors[:, at], vectors[:, at]) for at in kept)
    expected = 1 - ((target - best) ** 2).sum() / (target**2).sum()
    reproduced, _ = signs.best_scores(n_positive, 6, 5, n_words=N_WORDS)
    assert reproduced == pytest.approx(expected)


def test_no_random_matrix_with_the_same_signs_comes_closer(made_pmi):
    reproduced, _ = signs.best_scores(3, 6, 1, n_words=N_WORDS)
    least = (1 - reproduced) * (made_pmi**2).sum()
    rng = np.random.default_rng(0)
    values, vectors = np.linalg.eigh(made_pmi)
    kept = [0, 1, 2, N_WORDS - 3, N_WORDS - 2, N_WORDS - 1]
    best = vectors[:, kept] * np.sqrt(np.abs(values[kept]))
    q = np.sign(values[kept])
    for scale in (1e-3, 1e-2, 1e-1):
        word = best + scale * rng.standard_normal(best.shape)
        assert ((made_pmi - (word * q) @ word.T) ** 2).sum() > least


def test_without_a_minus_sign_a_constant_below_zero_cannot_be_reproduced(monkeypatch):
    rng = np.random.default_rng(0)
    noise = 0.1 * rng.standard_normal((N_WORDS, N_WORDS))
    monkeypatch.setattr(signs, "_frequent_pmi", lambda n_words: noise + noise.T)
    none, _ = signs.best_scores(6, 6, 100, n_words=N_WORDS)
    one, _ = signs.best_scores(5, 6, 100, n_words=N_WORDS)
    assert none < 0.05
    assert one > 0.95


def test_all_dimensions_with_their_own_signs_reproduce_everything(made_pmi):
    n_positive = int((np.linalg.eigvalsh(made_pmi) > 0).sum())
    reproduced, _ = signs.best_scores(n_positive, N_WORDS, 1, n_words=N_WORDS)
    assert reproduced == pytest.approx(1.0)


def test_more_plus_signs_than_dimensions_are_refused():
    with pytest.raises(ValueError, match="7 plus signs of 6: choose between 0 and 6"):
        signs.best_scores(7, 6, 1, n_words=N_WORDS)


def test_more_signs_than_eigenvalues_of_that_sign_are_refused():
    with pytest.raises(ValueError, match="fewer dimensions than 39"):
        signs.best_scores(39, 39, 1, n_words=N_WORDS)


def test_the_explorer_over_signs_draws_every_combination(monkeypatch):
    monkeypatch.setattr(signs, "best_scores", lambda plus, d, k: (plus / d, 1 / k))
    monkeypatch.setattr(signs, "_trained_mean", lambda: pd.DataFrame({"plus": [0.5], "score": [1.0]}))
    controls = {
        "share": Range(0, 1, 0.5, "share"),
        "dimension": Choice([20], "d"),
        "n_negative": Choice([1, 5], "k"),
    }
    explorer = Explorer(
        signs.sign_scores, controls, signs.plot_sign_scores, title="a title", caption="a caption"
    )
    grid = explorer.grid()
    chosen = grid[grid["chosen"] & (grid["kind"] == signs.REPRODUCED)]
    assert list(chosen["score"]) == [0.0, 0.0, 0.5, 0.5, 1.0, 1.0]
    assert vl_convert.vegalite_to_vega(explorer.static_spec(), vl_version="6.4")


def test_words_that_meet_themselves_by_chance_alone_have_the_same_bins_as_pairs(monkeypatch):
    monkeypatch.setattr(signs, "_frequent_pmi", lambda n_words: np.full((n_words, n_words), 0.1))
    table = signs.self_association(30)
    one, other = (rows["share"].to_numpy() for _, rows in table.groupby("kind"))
    np.testing.assert_array_equal(one, other)
    assert compiled(signs.plot_self_association(table))


def test_few_minus_signs_are_drawn_in_order(monkeypatch):
    monkeypatch.setattr(signs, "best_scores", lambda plus, d, k: (plus / d, 0.0))
    table = signs.few_minus_signs(100, (1,))
    assert table["reproduced"].tolist() == [1.0, 0.99, 0.98, 0.95, 0.9, 0.8, 0.5]
    assert compiled(signs.plot_few_minus_signs(table))


# --- stored results -----------------------------------------------------------------------------------


def test_a_score_is_the_mean_over_seeds_with_the_replicates_spread_about_it(made_cells):
    table = signs.word_scores(made_cells)
    row = table[(table["test"] == "WordSim-353") & (table["model"] == "SGNS (free)")].iloc[0]
    assert (row["score"], row["n_seeds"], row["paper"]) == (pytest.approx(0.55), 2, 0.681)
    # replicates run evenly over 0.5 to either side: the middle 95% of them
    assert row["high"] - row["score"] == pytest.approx(0.475)
    assert row["score"] - row["low"] == pytest.approx(0.475)


def test_plain_tying_has_no_value_of_the_paper(made_cells):
    table = signs.word_scores(made_cells)
    assert table[table["model"] == "plain (all +1)"]["paper"].isna().all()


def test_scores_are_drawn_with_the_papers(made_cells):
    spec = compiled(signs.plot_word_scores(signs.word_scores(made_cells)))
    assert theme.title("score") in {axis.get("title") for axis in spec["axes"]}
    (colours,) = [scale["domain"] for scale in spec["scales"] if scale["name"] == "color"]
    assert colours[-1] == theme.PUBLISHED


def test_men_is_shown_both_ways(made_cells):
    shown = signs.men_two_ways(made_cells)
    assert shown.loc["SGNS (free)"].tolist() == [0.55, 0.2, "0.241"]


def test_both_ways_of_unknown_words_stand_under_each_other(made_cells):
    shown = signs.compare_ways(made_cells)
    assert shown.columns.tolist() == ["SGNS (free)", "plain (all +1)"]
    assert shown.index[0] == ("WordSim-353", "all items, unknown words wrong")


def test_nothing_stored_gives_empty_tables_and_a_note():
    absent = [SimpleNamespace(stored=lambda: False)]
    assert signs.word_scores(absent).empty
    assert signs.men_two_ways(absent).empty
    assert signs.compare_ways(absent).empty
    assert "No result is stored yet" in str(signs.plot_word_scores(signs.word_scores(absent)).to_dict())


def test_the_null_of_the_sweep_holds_the_same_scores_at_other_shares(monkeypatch):
    shares = [0.0, 0.5, 1.0]
    table = pd.DataFrame(
        [
            (share, seed, test, share, share)
            for share in shares
            for seed in (0, 1)
            for test in ("wordsim", "google", "mean")
        ],
        columns=["share", "seed", "test", "score", "relative"],
    )
    study = SimpleNamespace(largest_stored=lambda: "laptop")
    monkeypatch.setattr(signs.studies, "find_study", lambda claim: study)
    monkeypatch.setattr(signs.vectors, "sweep_scores", lambda: table)
    curves = signs.sweep_curves()
    for line, rows in curves[curves["kind"] == signs.NULL].groupby("line"):
        assert sorted(rows["relative"]) == shares, line
    assert set(curves["kind"]) == {signs.SIMILARITIES, signs.ANALOGIES, signs.MEAN, signs.NULL}
    assert compiled(signs.plot_sweep(curves))


def test_differences_without_a_range_or_a_measurement_are_left_out(monkeypatch):
    finding = SimpleNamespace(value=0.1, low=0.0, high=0.2, nulls={"plain": -0.3})
    figures = [
        SimpleNamespace(label="MEN, WT - SGNS", accept=(-0.1, 0.1), null="plain", paper=-0.025),
        SimpleNamespace(label="MEN, SGNS", accept=None, null=None, paper=0.241),
    ]
    rows = [SimpleNamespace(figure=figure, finding=finding) for figure in figures]
    rows.append(SimpleNamespace(figure=figures[0], finding=None))
    monkeypatch.setattr(signs.ledger, "find_claim", lambda claim: claim)
    monkeypatch.setattr(signs.ledger, "entry", lambda claim: SimpleNamespace(rows=rows))
    table = signs.claim_differences("any")
    assert table[["test", "comparison", "null"]].values.tolist() == [["MEN", "WT - SGNS", -0.3]]
    assert compiled(signs.plot_differences(table))


def test_a_tied_model_has_half_the_parameters():
    assert signs.parameter_counts(10_000, 1_000)["millions"].tolist() == [20.0, 10.0]
