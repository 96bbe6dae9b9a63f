"""The chapter on watching weights: parameters, windows, units, sketches, films and the live player."""

import ast
import dataclasses
import inspect
import json
import re
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

from book.geometry import watching_weights as chapter
from book.geometry.experiments import weight_films as films
from embviz.runs import Run, read_run
from embviz.training import adapters
from embviz.training.language import load_streams, score_unigrams
from embviz.view.explorers import Choice
from embviz.view.player import NOTE, Player
from tests.drawing import compiled


@pytest.fixture(scope="module", autouse=True)
def quick(tmp_path_factory):
    """Films of 60 updates, made here: none is stored in an empty folder."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(chapter, "PRESET", "quick")
        patch.setenv("EMBVIZ_RESULTS_DIR", str(tmp_path_factory.mktemp("results")))
        yield


# --- paths and sketches ---------------------------------------------------------------------------------


def test_a_straight_path_is_as_long_as_it_gets_and_one_back_is_twice_as_long(tmp_path):
    model = nn.Linear(3, 2, bias=False)
    with torch.no_grad():
        model.weight.fill_(1.0)
    walked = films.Walked()
    with Run.open(tmp_path / "run") as run:
        for step, value in enumerate([1.0, 1.5, 2.0, 3.0, 1.0]):
            with torch.no_grad():
                model.weight.fill_(value)
            run.append(step, model)
            walked.read(read_run(tmp_path / "run"))  # in pieces
            if step == 3:
                row = walked.table().iloc[0]
                assert row["walked"] == pytest.approx(2.0)
                assert row["away"] == pytest.approx(2.0)
    row = walked.table().iloc[0]
    assert (row["walked"], row["away"]) == pytest.approx((4.0, 0.0))


# --- films ----------------------------------------------------------------------------------------------


def test_a_model_before_training_pays_eight_bits_a_byte():
    first = chapter.recorded_frames().query("frame == 0")
    assert first["bits_per_character"].iloc[0] == pytest.approx(8, abs=0.05)  # a head of small weights
    assert first["loss"].iloc[0] == pytest.approx(np.log(256), abs=0.05)


def test_the_player_plays_static_and_live(one_thread):
    frames = chapter.recorded_frames()
    player = Player(
        frames,
        chapter.plot_frames,
        title="t",
        caption=chapter.film_note(),
        curves=chapter.CURVES,
        controls={"variant": Choice(list(films.SHOWN), "v")},
        live=chapter.live_frames,
        live_controls=chapter.live_controls(),
    )
    compiled(player.static_spec())
    run = player.begin({"attention": "no Q", "rate": 5e-3, "decay": 0.0, "n_steps": 20, "seed": 3})
    notes = []
    while row := run.next_row():
        notes.append(row[NOTE])
    assert [note.split(":")[0] for note in notes] == ["Step 0", "Step 10", "Step 20"]
    alone = score_unigrams(load_streams(films.TEXT)).bits_per_character
    assert f"{alone:.2f}" in notes[0]


def test_pictures_that_fall_between_snapshots_are_refused():
    with pytest.raises(ValueError, match="multiple"):
        dataclasses.replace(chapter.film(), record_every=4, frame_every=10)


def test_the_lines_for_trainer_and_lightning_call_what_there_is():
    """As text: tests/test_adapters.py runs them, where the libraries are."""
    chapter_file = Path(__file__).resolve().parents[3] / "book/geometry/watching_weights.ipynb"
    cells = json.loads(chapter_file.read_text(encoding="utf-8"))["cells"]
    prose = "\n".join("".join(cell["source"]) for cell in cells if cell["cell_type"] == "markdown")
    called = set()
    for fence in re.findall(r"```python\n(.*?)```", prose, re.DOTALL):
        for call in (node for node in ast.walk(ast.parse(fence)) if isinstance(node, ast.Call)):
            if isinstance(call.func, ast.Name) and call.func.id.endswith("_callback"):
                named = {one.arg: ast.literal_eval(one.value) for one in call.keywords}
                adapter = getattr(adapters, call.func.id)
                inspect.signature(adapter).bind(*map(ast.literal_eval, call.args), **named)
                called.add(call.func.id)
    assert called == {"trainer_callback", "lightning_callback"}
