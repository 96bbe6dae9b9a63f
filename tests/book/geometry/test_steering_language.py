"""The chapter on steered language models: differences, courses and films from what is stored."""

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
    NEAR_NYQUIST,
    ON_HEAD,
    SUBSPACE,
    TOP_5,
    SteeringRun,
    steering_language,
)
from embviz.ledger import cells
from embviz.ledger.cells import Cell, Experiment
from embviz.view.explorers import Choice
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


def test_a_difference_is_to_the_baseline_of_its_seed_and_kind_in_each_unit():
    table = chapter.differences().set_index(["per", "row", "kind", "seed"])["cost_difference"].sort_index()
    own = table["character", "BPE: near-Nyquist", "own head"]
    assert own.tolist() == pytest.approx([0.5, 0.52])
    assert table["token", "BPE: top 5", "tied"].tolist() == pytest.approx([PER_TOKEN * 1.0])
    assert table["token", "bytes: near-Nyquist", "tied"].tolist() == pytest.approx([2.0])
    assert table["byte", "BPE: head alone", "own head, small start"].tolist() == pytest.approx([1.75])
    assert "BPE: baseline" not in table.index.get_level_values("row")


def test_a_caption_counts_the_seeds_of_each_kind():
    assert "own head 2 of byte pairs, 2 of bytes; tied 1 of byte pairs" in chapter.note()
    assert (chapter.ends()["step"] == 150).all()


def test_courses_are_of_one_unit_less_their_baseline_and_beside_frequencies():
    table = chapter.courses()
    whole = table[(table["tokens"] == "byte pairs") & (table["kind"] == "tied") & (table["per"] == "token")]
    cost, more = (whole[whole["shown"] == shown] for shown in (chapter.COST, chapter.MORE))
    last = cost[cost["step"] == 150].set_index("variant")["cost"]
    assert last[NEAR_NYQUIST] == pytest.approx(PER_TOKEN * 4)
    assert last[chapter.FREQUENCIES] == pytest.approx(PER_TOKEN * 2.5)
    assert (more.loc[more["variant"] == BASELINE, "cost"] == 0).all()
    assert more.loc[more["variant"] == FROZEN, "cost"].tolist() == pytest.approx([0, 3, 6])
    assert chapter.FREQUENCIES not in set(more["variant"])
    assert set(table["variant"]) <= set(chapter.CURVES)
    keys = ["tokens", "kind", "per", "shown", "variant", "seed", "step"]
    assert not table.duplicated(keys).any()


def test_without_stored_runs_the_command_is_named(monkeypatch, tmp_path):
    monkeypatch.setenv("EMBVIZ_RESULTS_DIR", str(tmp_path))
    with pytest.raises(FileNotFoundError, match=r"run geometry\.fgp_language --preset quick"):
        chapter.stored_preset()
    with pytest.raises(FileNotFoundError, match="no films are stored"):
        chapter.film_preset()


# --- films --------------------------------------------------------------------------------------------


def test_films_make_a_player_of_a_cloud_and_three_lines():
    frames = chapter.recorded_frames()
    assert set(frames["head"]) == {"own head", "tied"}
    player = Player(
        frames,
        chapter.plot_frame,
        title="t",
        caption="c",
        controls={
            "head": Choice(["own head", "tied"], "head", initial="tied"),
            "variant": Choice(list(films.SHOWN), "variant", initial=NEAR_NYQUIST),
        },
        live=chapter.live_frames,
        live_controls=chapter.live_controls(),
        curves=chapter.PLAYER_CURVES,
        initial=STEPS[-1],
    )
    assert player.steps == STEPS
    compiled(player)
    spec = player.static_spec()
    assert len(drawn(spec, "symbol")) == N_TOKENS
    assert len([line for line in drawn(spec, "line") if len(line.get("items", [line])) > 0]) >= 3 * len(STEPS)


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
