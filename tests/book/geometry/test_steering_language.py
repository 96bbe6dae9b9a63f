"""The chapter on steered language models: differences, units, levels and films from what is stored."""

import math

import numpy as np
import pandas as pd
import pytest

from book.geometry import steering_language as chapter
from book.geometry.experiments import language_films as films
from book.geometry.experiments import steering_language as steering
from book.geometry.experiments.steering_language import (
    BASELINE,
    FROZEN,
    LOWEST,
    NEAR_NYQUIST,
    ON_HEAD,
    SUBSPACE,
    TOP_5,
    SteeringRun,
    steering_language,
)
from embviz.ledger import cells
from embviz.ledger.cells import Cell, Experiment
from embviz.view.explorers import Choice, Explorer
from embviz.view.player import NOTE, Player
from tests.drawing import compiled, drawn

PER_TOKEN = 4.0  # characters of a byte pair, in the scores made up
EXTRA = {  # bits a character that a variant costs, by kind
    "own head": {NEAR_NYQUIST: 0.5, TOP_5: 0.4, SUBSPACE: 0.45, FROZEN: 0.3},
    "tied": {NEAR_NYQUIST: 2.0, TOP_5: 1.0, FROZEN: 1.5},
    "own head, small start": {NEAR_NYQUIST: 0.2, ON_HEAD: 1.75},
}
N_TOKENS, STEPS = 6, [0, 30, 60]


@pytest.fixture(scope="module", autouse=True)
def results(tmp_path_factory):
    """Made-up runs and films, stored where the quick ones belong."""
    folder = tmp_path_factory.mktemp("results")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("EMBVIZ_RESULTS_DIR", str(folder))
        for run in steering.all_runs("quick"):
            store(steering_language.cell(run), made_scores(run))
        for cell in films.film_cells("quick"):
            store(cell, made_film(cell.config))
        chapter._curves.cache_clear()
        yield folder
    chapter._curves.cache_clear()


def made_scores(run: SteeringRun) -> pd.DataFrame:
    """Falls from 8 bits a character to 2, plus what the variant costs and the seed's own."""
    last = 2.0 + EXTRA[run.kind].get(run.variant, 0.0) + 0.1 * run.seed
    if run.variant == NEAR_NYQUIST and run.kind == "own head":
        last += 0.02 * run.seed
    bits = np.linspace(8, last, 3)
    per_token = 1.0 if run.text.tokens == "bytes" else PER_TOKEN
    moved = np.linspace(0, run.variant != FROZEN, 3)
    return pd.DataFrame(
        {
            "step": [0, 75, 150],
            "bits_per_token": per_token * bits,
            "bits_per_character": bits,
            "bits_per_byte": bits,
            "moved": moved,
            "unigram": 4.5 if run.text.tokens == "bytes" else 2.5,
        }
    )


def made_film(run: SteeringRun) -> pd.DataFrame:
    """Points that turn towards the diagonal, all the way unless tied and projected."""
    stuck = run.tied and run.variant != BASELINE
    frequency = np.arange(N_TOKENS) + 1.0
    parts = [
        pd.DataFrame(
            {
                "frame": step,
                "expected": 3 + (0.1 if stuck else 1.0) * step / STEPS[-1] * (frequency - 3),
                "bits_per_token": 3.0 - (0.0 if stuck else step / 60),
                "text": [f"'{token}'" for token in range(N_TOKENS)],
                "frequency": frequency,
                "unigram": 2.5,
                "uniform": math.log2(N_TOKENS),
            }
        )
        for step in STEPS
    ]
    return pd.concat(parts, ignore_index=True)


def store(cell: Cell, table: pd.DataFrame) -> None:
    made = Experiment(cell.experiment.name, cell.experiment.version, lambda config: table)
    cells.compute(Cell(made, cell.config))


# --- numbers ------------------------------------------------------------------------------------------


def test_a_difference_is_to_the_baseline_of_its_seed_and_kind():
    found = chapter.difference_of("character", "byte pairs", "own head", NEAR_NYQUIST)
    assert found.value == pytest.approx(0.51)  # 0.50 and 0.52
    assert found.n_seeds == steering.N_SEEDS["quick"][0]
    tied = chapter.difference_of("token", "byte pairs", "tied", TOP_5)
    assert tied.value == pytest.approx(PER_TOKEN * 1.0)
    assert chapter.difference_of("token", "bytes", "tied", TOP_5) is None


def test_a_difference_is_said_with_its_interval_or_its_one_seed():
    found = chapter.difference_of("character", "byte pairs", "own head", NEAR_NYQUIST)
    assert chapter.said(found) == f"+0.510 ({found.low:+.3f} to {found.high:+.3f})"
    one = chapter.difference_of("token", "byte pairs", "own head, small start", ON_HEAD)
    assert chapter.said(one) == "+7.00 (one seed)"
    assert chapter.said(None) == "not measured"


def test_rules_without_a_model_cost_logarithms_and_stored_unigrams():
    whole, pairs = chapter.rules_of_thumb("bytes"), chapter.rules_of_thumb("byte pairs")
    assert whole.loc["all tokens alike"].tolist() == pytest.approx([8, 8, 8])
    vocab_size = steering.texts_and_setting("quick")[0].vocab_size
    assert pairs.loc["all tokens alike", "token"] == pytest.approx(math.log2(vocab_size))
    assert pairs.loc["all tokens alike", "character"] == pytest.approx(math.log2(vocab_size) / PER_TOKEN)
    assert pairs.loc["frequencies alone"].tolist() == pytest.approx([2.5, 2.5 * PER_TOKEN, 2.5])
    assert chapter.characters_a_token() == pytest.approx(PER_TOKEN)


def test_costs_are_said_in_the_unit_they_have():
    table = chapter.table_4("token")
    assert table.loc[("byte pairs", NEAR_NYQUIST), "paper"] == "9.47"
    assert table.loc[("byte pairs", NEAR_NYQUIST), "tied"] == f"{PER_TOKEN * 4:.2f}"
    assert table.loc[("bytes", NEAR_NYQUIST), "tied"] == "4.00"
    assert table.loc[("byte pairs", ON_HEAD), "tied"] == ""
    assert chapter.table_4("character").loc[("byte pairs", NEAR_NYQUIST), "tied"] == "4.00"
    units = chapter.units_table()
    assert units.loc["byte pairs: frequencies alone"].tolist() == ["2.50", "10.00", "2.50"]
    assert units["character"].astype(float).is_monotonic_decreasing


def test_sentences_are_of_the_stored_runs():
    assert "near-Nyquist +0.510" in chapter.own_finding()
    assert "frozen +0.300" in chapter.own_finding()
    assert "near-Nyquist +8.00 (one seed), published +6.57; top 5 +4.00" in chapter.tied_finding()
    assert "projected +0.800 (one seed), the head's +7.00 (one seed)" in chapter.head_finding()
    assert "own head, small start +0.200" in chapter.byte_finding()
    assert "of its own: +0.060" in chapter.order_finding()  # 0.51 - 0.45
    assert "2.90, the published baseline, are more than the 2.50" in chapter.unit_finding()
    assert "own head 2 of byte pairs, 2 of bytes; tied 1" in chapter.note()


def test_how_far_embeddings_moved_stands_beside_what_it_cost():
    table = chapter.moved_table()
    assert table.loc[("tied", FROZEN)].tolist() == ["0.00", "+6.00"]
    assert table.loc[("tied", BASELINE)].tolist() == ["1.00", ""]


def test_without_stored_runs_the_command_is_named(monkeypatch, tmp_path):
    monkeypatch.setenv("EMBVIZ_RESULTS_DIR", str(tmp_path))
    with pytest.raises(FileNotFoundError, match=r"run geometry\.fgp_language --preset quick"):
        chapter.stored_preset()
    with pytest.raises(FileNotFoundError, match="no films are stored"):
        chapter.film_preset()


# --- charts -------------------------------------------------------------------------------------------


def test_the_papers_marks_stay_where_they_are_in_every_unit():
    grid = chapter.difference_grid()
    paper = grid[grid["kind"] == "paper"]
    assert len(paper) == 3 * len(chapter.PAPER)
    assert (paper.groupby("row")["cost_difference"].nunique() == 1).all()
    assert set(paper["cost_difference"].round(3)) == {6.57, 1.1, -0.002}
    tied = grid[(grid["kind"] == "tied") & (grid["row"] == "BPE: near-Nyquist")]
    assert tied.set_index("per")["cost_difference"].to_dict() == pytest.approx(
        {"character": 2.0, "token": 8.0, "byte": 2.0}
    )
    units = {"per": Choice(chapter.UNITS, "bits a")}
    explorer = Explorer(None, units, chapter.plot_differences, title="t", caption="c", grid=grid)
    compiled(explorer)
    marks = drawn(explorer.static_spec(), "symbol")
    assert len(marks) == len(grid[grid["per"] == "character"])


def test_curves_are_of_one_unit_and_levels_are_named():
    grid = chapter.curve_grid()
    whole = grid[(grid["tokens"] == "byte pairs") & (grid["kind"] == "tied") & (grid["per"] == "token")]
    own = whole[(whole["shown"] == "cost") & (whole["level"] == "")]
    assert own.groupby("variant")["cost"].last()[NEAR_NYQUIST] == pytest.approx(PER_TOKEN * 4)
    less = whole[whole["shown"] != "cost"]
    assert less.loc[less["level"] != "", "level"].tolist() == ["the baseline"]
    assert (less.loc[less["variant"] == BASELINE, "cost"] == 0).all()
    assert less.loc[less["variant"] == FROZEN, "cost"].tolist() == pytest.approx([0, 3, 6])
    assert set(grid["variant"]) <= set(chapter.CURVES)
    controls = {
        "tokens": Choice(["byte pairs", "bytes"], "tokens"),
        "kind": Choice(list(chapter.KINDS), "output layer"),
        "per": Choice(list(chapter.UNITS), "bits a"),
        "shown": Choice(list(chapter.SHOWN), "shown"),
    }
    explorer = Explorer(None, controls, chapter.plot_curves, title="t", caption="c", grid=grid)
    compiled(explorer)
    words = [mark["text"] for mark in drawn(explorer.static_spec(), "text")]
    assert {"all tokens alike", "frequencies alone"} <= set(words)


# --- first steps --------------------------------------------------------------------------------------


def test_a_projected_gradient_reaches_tokens_that_are_not_in_the_batch():
    own, tied = (chapter.first_step(NEAR_NYQUIST, tied=tied) for tied in (False, True))
    assert own["tokens with a gradient"] < 0.6
    assert own["after projection"] == tied["tokens with a gradient"] == 1
    for step in (own, tied):
        assert 0 < step["gradient kept"] < 0.1
        assert 0.55 < step["Adam's step inside"] < 0.85  # between noise's 2 / pi and a wave's 8 / pi²


def test_shares_of_frequencies_are_squared_lengths():
    table = chapter.frequency_shares()
    shares = {name: float(text.rstrip("%")) for name, text in table["frequencies kept"].items()}
    assert shares[LOWEST] > 10 * shares[NEAR_NYQUIST]
    # near-Nyquist: four modes of a cosine and a sine, and the highest, which is a cosine alone
    assert table["noise kept"].tolist() == ["1.8%", "2.0%", "2.0%"]


# --- films --------------------------------------------------------------------------------------------


def test_films_make_a_player_and_a_table_of_slopes():
    frames = chapter.recorded_frames()
    assert set(frames["head"]) == {"own head", "tied"}
    player = Player(
        frames,
        chapter.plot_frames,
        title="t",
        caption="c",
        controls={
            "head": Choice(["own head", "tied"], "head"),
            "variant": Choice(list(films.SHOWN), "variant"),
        },
        live=chapter.live_frames,
        live_controls=chapter.live_controls(),
        curves=chapter.PLAYER_CURVES,
    )
    assert player.steps == STEPS
    compiled(player)
    table = chapter.film_table()
    assert table.loc[NEAR_NYQUIST].tolist() == ["2.00", "1.00", "3.00", "0.10"]
    assert chapter.film_finding() == (
        "Bits a token with near-Nyquist modes and without: own head 2.0 against 2.0, tied 3.0 against 2.0; "
        "frequencies alone pay 2.5"
    )


def test_a_live_run_starts_before_the_first_step_and_says_what_it_costs():
    controls = chapter.live_controls()
    for text in chapter.LIVE_TOKENS:
        values = {name: control.initial for name, control in controls.items()} | {"text": text}
        frame = next(chapter.live_frames(**values))
        assert (frame["frame"] == 0).all()
        assert set(frame) == set(chapter.recorded_frames()) - {"head", "variant"}
        assert frame.attrs[NOTE].startswith("Step 0: ")
        assert "above the" in frame.attrs[NOTE]
    tied = next(chapter.live_frames("bytes", "tied", ON_HEAD, 30, 0))
    assert tied.attrs[NOTE].startswith("The head is the embedding: this is near-Nyquist. Step 0")


def test_a_live_run_is_the_one_chosen():
    run = chapter.live_run("bytes", "own head, small start", TOP_5, 90, 7)
    assert (run.kind, run.variant, run.seed, run.setting.n_steps) == ("own head, small start", TOP_5, 7, 90)
    assert run.text.tokens == "bytes"
    assert chapter.live_run("byte pairs", "tied", TOP_5, 90, 7).tied
