"""The chapter on watching weights: parameters, windows, units, sketches, films and the live player."""

import ast
import dataclasses
import inspect
import json
import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from torch import nn

from book.geometry import watching_weights as chapter
from book.geometry.experiments import weight_films as films
from book.geometry.experiments.language_models import BASELINE
from embviz.models.transformer import Transformer, TransformerConfig, n_parameters
from embviz.training import adapters
from embviz.training.language import load_streams, score_unigrams
from embviz.training.recorder import Recorder, Sketch, read_recording
from embviz.view.explorers import Choice, Explorer
from embviz.view.player import NOTE, Player
from tests.drawing import compiled


@pytest.fixture(scope="module", autouse=True)
def quick(tmp_path_factory):
    """Films of 60 updates, made here: none is stored in an empty folder."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(chapter, "PRESET", "quick")
        patch.setenv("EMBVIZ_RESULTS_DIR", str(tmp_path_factory.mktemp("results")))
        yield


# --- counts ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("change", [{}, {"tied": True}, {"biases": True}, {"positions": "sines"}])
@pytest.mark.parametrize("attention", ["standard", "no_q"])
def test_parts_add_up_to_the_parameters_of_the_model(change, attention):
    shape = TransformerConfig(11, 7, 8, 3, 2, 20, attention=attention, **change)
    assert sum(chapter.parts_of(shape).values()) == n_parameters(Transformer(shape, seed=0))


def test_the_papers_models_have_the_printed_numbers_of_parameters():
    table = chapter.parameter_table()
    assert table["short stories", "baseline"]["all"] == "3,346,944"
    for column in table:
        total = int(table[column]["all"].replace(",", ""))
        assert f"{total / 1e6:.3f} M" == table[column]["published"]


def test_readings_that_round_to_other_totals_dont_fit():
    fits = chapter.conventions_table()["fits"]
    assert fits["as read here"] == "yes"
    assert fits["head tied to the embedding"] == fits["linear maps with biases"] == "no"


def test_matrices_are_those_that_a_recorder_takes(tmp_path):
    shape = TransformerConfig(11, 7, 8, 2, 2, 20)
    with Recorder(Transformer(shape, seed=0), tmp_path / "recording") as recorder:
        recorder.step()
    recording = read_recording(tmp_path / "recording")
    assert sorted(rows.shape[1] for rows in recording.tensors.values()) == sorted(chapter.matrix_sizes(shape))


# --- scores ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("stride", [1, 2, 4])
def test_every_token_is_counted_once_whatever_the_stride(stride):
    table = chapter.window_table(16, stride)
    counted = table[table["role"] == "counted"]
    assert sorted(counted["token"]) == list(range(chapter.SHOWN_WINDOWS))
    first = table.groupby("window_number")["token"].transform("min")
    context = (counted["token"] - first[counted.index] + 1).mean()
    assert table["context"].unique() == pytest.approx([context])


def test_windows_side_by_side_read_nothing_twice():
    assert set(chapter.window_table(16, 1)["role"]) == {"counted"}
    assert chapter.window_table(16, 1)["context"][0] == pytest.approx(8.5)  # 1 to 16


def test_units_are_bytes_and_characters_of_the_text_itself():
    table = chapter.units_of_sentences()
    for name, sentence in chapter.SENTENCES.items():
        assert table.loc[name, "characters"] == len(sentence) + 1
        assert table.loc[name, "bytes"] == len(sentence.encode()) + 1


def test_byte_pairs_pay_more_a_token_for_the_same_text():
    table = chapter.units_of_tokens().map(lambda text: float(text.replace(",", "")))
    ratio = table["tokens"] * table["bits a token"] / table["bits a byte"]
    np.testing.assert_allclose(ratio, ratio.iloc[0], rtol=0.01)  # bytes, but for two digits
    assert table["bits a token"].is_monotonic_increasing


def test_the_table_of_strides_names_each_and_the_sentence_agrees():
    table = chapter.stride_table()["bits a character"].astype(float)
    assert list(table.index) == [f"{stride} of 32" for stride in (32, 16, 8, 4)]
    said = chapter.stride_finding()
    assert ("cost" in said) == (table.iloc[0] > table.iloc[-1]) or table.iloc[0] == table.iloc[-1]


# --- paths and sketches ---------------------------------------------------------------------------------


def test_a_straight_path_is_as_long_as_it_gets_and_one_back_is_twice_as_long(tmp_path):
    model = nn.Linear(3, 2, bias=False)
    with torch.no_grad():
        model.weight.fill_(1.0)
    walked = films.Walked()
    with Recorder(model, tmp_path / "recording") as recorder:
        for step, value in enumerate([1.0, 1.5, 2.0, 3.0, 1.0]):
            with torch.no_grad():
                model.weight.fill_(value)
            recorder.step(step=step)
            walked.read(read_recording(tmp_path / "recording"))  # in pieces
            if step == 3:
                row = walked.table().iloc[0]
                assert row["walked"] == pytest.approx(2.0)
                assert row["away"] == pytest.approx(2.0)
    row = walked.table().iloc[0]
    assert (row["walked"], row["away"]) == pytest.approx((4.0, 0.0))


def test_sketch_errors_are_those_of_projected_differences_and_none_for_large_sketches(tmp_path):
    model = nn.Linear(12, 9)
    with Recorder(model, tmp_path / "recording", tensors="*") as recorder:
        for _ in range(4):
            with torch.no_grad():
                for tensor in model.parameters():
                    tensor.add_(torch.randn(tensor.shape, generator=torch.Generator().manual_seed(_)))
            recorder.step()
    recording = read_recording(tmp_path / "recording", load=True)
    np.testing.assert_allclose(films.sketch_errors(recording, Sketch(200)), 0, atol=1e-6)
    found = films.sketch_errors(recording, Sketch(8))
    true = sketched = 0.0
    for name, rows in recording.tensors.items():
        difference = torch.from_numpy(rows[2] - rows[0])
        shape = recording.metadata["tensors"][name]["shape"]
        true += float(difference.square().sum())
        sketched += float(Sketch(8).projection(name, shape)(difference).square().sum())
    assert found[1] == pytest.approx(np.sqrt(sketched / true) - 1, abs=1e-5)  # pairs 01, 02, 03, 12, ...


def test_histograms_of_sketches_hold_every_pair_and_narrow_with_size():
    grid = chapter.sketch_grid()
    np.testing.assert_allclose(grid.groupby("size")["share"].sum(), 1, atol=0.01)  # four digits
    spread = grid.drop_duplicates("size").set_index("size")["measured"]
    assert spread[16] > spread[512]
    compiled(
        Explorer(
            None,
            {"size": Choice(list(films.SIZES), "n")},
            chapter.plot_sketch,
            title="t",
            caption="c",
            grid=grid,
        )
    )


def test_storage_is_told_in_bytes():
    table = chapter.storage_table()
    assert table.loc["in full", "a snapshot"] == "13.4 MB"
    sizes = chapter.matrix_sizes(chapter.paper_shape("short stories"))
    assert table.loc["256 numbers a matrix", "a snapshot"] == f"{4 * 256 * len(sizes) / 1e3:.1f} kB"


# --- films ----------------------------------------------------------------------------------------------


def test_frames_have_what_the_model_has():
    frames = chapter.recorded_frames()
    assert sorted(frames["frame"].unique()) == list(range(0, 61, 10))
    without = frames[frames["variant"] == films.NO_Q]
    assert (without["walked_query"] == films.ABSENT).all()
    assert not without["name"].str.startswith("query").any()
    moved = frames[frames["shown"] == "moved"]
    assert (moved["y"] >= moved["x"] - 1e-3).all()  # no path is shorter than its way, but for rounding
    first = frames[(frames["frame"] == 0) & (frames["shown"] == "singular values")]
    assert (np.diff(first[first["name"] == "layer 1"]["y"].to_numpy()[:32]) <= 0).all()


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


def test_findings_and_tables_of_films_quote_the_last_frame():
    frames = chapter.recorded_frames().query("variant == 'baseline' and frame == 60")
    assert (
        f"to {frames['bits_per_character'].iloc[0]:.2f}"
        in chapter.film_table().loc["baseline", "bits a character"]
    )
    moved = frames[frames["shown"] == "moved"]
    assert f"{(moved['y'] / moved['x']).max():.1f} times" in chapter.film_finding()


def test_pictures_that_fall_between_snapshots_are_refused():
    with pytest.raises(ValueError, match="multiple"):
        dataclasses.replace(chapter.film(), record_every=4, frame_every=10)


def test_matrices_are_named_by_part_and_layer():
    model = Transformer(TransformerConfig(5, 4, 8, 2, 2, 8), seed=0)
    labels = [films.label_of(name) for name, tensor in model.named_parameters() if tensor.ndim > 1]
    assert len(set(labels)) == len(labels)
    assert {"embedding", "head", "positions", "query 1", "MLP down 2"} <= set(labels)


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


def test_the_sentence_on_tempo_adds_up_what_the_frames_have(monkeypatch):
    frames = pd.DataFrame({"frame": range(0, 90, 10), "variant": BASELINE, "shown": "moved"})
    frames = frames.assign(loss=6 * 0.5 ** (frames["frame"] / 10), walked_query=np.sqrt(frames["frame"]))
    monkeypatch.setattr(chapter, "recorded_frames", lambda: frames.sample(frac=1, random_state=0))
    assert chapter.tempo_finding() == (
        "Loss and length of the query paths: from step 0 to 10 -3.00 nats and +3.2, "
        "from step 10 to 20 -1.50 nats and +1.3, from step 70 to 80 -0.02 nats and +0.6"
    )


def test_recording_is_told_in_processor_time_as_it_was_measured(tmp_path, monkeypatch):
    monkeypatch.setattr(chapter, "results_folder", lambda: tmp_path)
    (tmp_path / "bench").mkdir()
    row = {
        "job": "a training step of 9 parameters, recorded every step",
        "ratio": 0.998,
        "device": "a machine",
    }
    (tmp_path / "bench" / "a_training_step_of_9.json").write_text(json.dumps(row))
    assert chapter.cost_table().loc["every step", "processor time of a step"] == "-0.2%"
