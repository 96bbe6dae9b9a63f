"""The chapter on recovery: what its tables say of runs, its sentences, what a model writes, its drawings."""

import functools
import math

import numpy as np
import pandas as pd
import pytest
import torch

from book.resizing import recovery as chapter
from book.resizing.experiments import bases, recovery, throughput
from book.resizing.experiments.recovery import PCA, PROJECTION, SCRATCH, TRUNCATED
from embviz.models.decoder import Decoder, DecoderConfig
from embviz.view.explorers import Choice, Explorer
from tests.drawing import compiled

STEPS = np.array([0, 10, 20, 40])
LAST = {PROJECTION: 0.1, SCRATCH: 1.0, PCA: -0.05, TRUNCATED: 0.2, recovery.ZEROS: 0.0}
pytestmark = pytest.mark.usefixtures("one_thread")
CACHED = (chapter.curves, chapter.runs_of, chapter.architecture_curves, chapter.staged_curves)


def made_run(run: recovery.RecoveryRun) -> pd.DataFrame:
    """Losses on a line from 1 to the treatment's last; of architectures the later, the less is left."""
    ratio, kind = run.ratios[-1], run.treatment
    start = 0.0 if ratio >= 1 and kind != SCRATCH else 1.0
    place = next(
        place for place, name in enumerate(recovery.COMPARED) if run.base == bases.base("quick", name)
    )
    end = (LAST[kind] if start else 0.0) - 0.02 * place + 0.001 * run.seed
    end += 0.3 * (len(run.ratios) - 1) * (1 if ratio == 0.25 else -1)
    lost = start + (end - start) * STEPS / STEPS[-1]
    table = pd.DataFrame({"step": STEPS, "stage": 0, "width": run.widths[-1], "lost": lost})
    fields = {"ratio": ratio, "n_stages": len(run.ratios), "treatment": kind, "seed": run.seed}
    fields |= {"learning_rate": run.learning_rate, "original": 2.0}
    return table.assign(log_perplexity=2.0 + lost, **fields)


@pytest.fixture(autouse=True)
def made(monkeypatch):
    """Made runs in place of trained ones."""
    monkeypatch.setattr(
        recovery, "curves", lambda runs, stored=True: pd.concat([made_run(run) for run in runs])
    )
    for cached in CACHED:
        cached.cache_clear()
    yield
    for cached in CACHED:
        cached.cache_clear()


def test_steps_to_recover_are_those_of_the_line_at_every_tolerance():
    for percent in chapter.TOLERANCES:
        table = chapter.steps_rows("quick", percent)
        rows = table[(table["ratio"] == "0.5") & (table["seed"] == 0)].set_index("treatment")
        for kind in (PROJECTION, PCA):
            wanted = 40 * (1 - math.log1p(percent / 100)) / (1 - LAST[kind])
            reached = wanted <= 40
            assert (rows["end"][kind] == chapter.BACK) == reached
            # rounded to a tenth
            assert rows["steps_back"][kind] == pytest.approx(min(wanted, 40.0), abs=0.051)
        assert rows["end"][SCRATCH] == chapter.NOT_BACK
    assert list(dict.fromkeys(table["ratio"])) == ["0.5", "0.75", "2"]


def test_perplexities_are_exponentials_over_the_original():
    table = chapter.widths_rows("quick").set_index(["moment", "treatment", "ratio", "seed"])
    found = table["perplexity_ratio"]
    assert found[chapter.AFTER_PORT, PROJECTION, 0.5, 0] == pytest.approx(math.e, abs=1e-4)
    assert found[chapter.AT_END, PROJECTION, 0.5, 0] == pytest.approx(math.exp(0.1), abs=1e-4)
    assert found[chapter.AFTER_PORT, recovery.ZEROS, 2.0, 1] == 1.0


def test_sentences_follow_the_data():
    assert chapter.curves_finding("quick", 0.5) == (
        "At 0.5 of the width a random map costs 1.00 [1.00, 1.00] nats at first and 0.10 [0.09, 0.11] after "
        "40 updates; of the ways to that width, PCA slice ends lowest, at -0.05 [-0.06, -0.04]"
    )
    assert chapter.steps_finding("quick").startswith(
        "2 of 6 random maps get back to within 2% in 40 updates, 0 of the 4 that shrink, and 0 of 6 models"
    )
    assert "right after the port 2.72 times the original's at 0.5" in chapter.widths_finding("quick")
    assert "0.300 [0.300, 0.300] nats at d / 4: higher" in chapter.staged_finding("quick")
    assert "-0.600 [-0.600, -0.600] nats at d / 8: lower" in chapter.staged_finding("quick")
    assert "normalized GPT has least left at the end (0.02; LayerNorm 0.10)" in (
        chapter.architecture_finding("quick")
    )


def test_the_table_of_architectures_says_what_its_runs_do():
    table = chapter.architecture_table("quick", 10)
    assert list(table.index) == list(recovery.COMPARED)
    assert table["recovered"].tolist() == ["0 of 2", "2 of 2", "2 of 2", "2 of 2", "2 of 2"]
    assert table["lost"].tolist() == [1.0] * 5
    assert table["left"]["peri-norm"] == pytest.approx(0.04, abs=0.0011)  # seeds differ by 0.001
    wanted = 40 * (1 - math.log1p(0.1)) / (1 - 0.08)
    assert table["steps"]["RMSNorm"] == pytest.approx(wanted, abs=0.1)
    steps = chapter.steps_by_tolerance("quick", 10)
    own = steps[steps["architecture"] == "RMSNorm"]["steps_back"]
    assert own.mean() == pytest.approx(table["steps"]["RMSNorm"], abs=0.1)


# --- writing ------------------------------------------------------------------------------------------


def test_a_model_writes_the_likeliest_bytes_one_after_the_other():
    model = Decoder(DecoderConfig(256, 8, 8, 1, 2, mlp_dim=8, start="pytorch"), seed=0)
    text = chapter.write(model, "ab", 12)
    assert text.startswith("ab")
    assert len(text) == 14
    tokens = list(b"ab")
    for _ in range(12):  # windows of eight at most
        with torch.no_grad():
            tokens.append(int(model(torch.tensor([tokens[-8:]]))[0, -1].argmax()))
    assert text == "".join(chr(token) if 32 <= token < 127 else "·" for token in tokens)


@pytest.fixture
def small_base(monkeypatch):
    model = Decoder(DecoderConfig(256, 16, 8, 1, 2, mlp_dim=8, start="pytorch"), seed=0)
    run = bases.base("quick")
    base = bases.Base(run, model, 1.0, 1, pd.DataFrame())
    monkeypatch.setattr(chapter, "text_base", lambda preset: base)
    chapter.written_by_original.cache_clear()
    yield base
    chapter.written_by_original.cache_clear()


def test_a_rotated_model_writes_what_the_original_writes_and_a_new_one_does_not(small_base):
    def lines(treatment: str) -> tuple[str, str]:
        table = chapter.written("quick", 1.0, treatment)
        (_, first), (_, second) = table[table["heading"]].iloc[[0, -1]][["place", "line"]].to_numpy()
        texts = table[~table["heading"]]
        split = int(table[table["line"] == second]["place"].iloc[0])
        own = "".join(texts[texts["place"] < split]["line"])
        other = "".join(texts[texts["place"] > split]["line"])
        assert first == chapter.ORIGINAL
        assert second == f"{treatment}, m = 8"
        return own, other

    own, rotated = lines(PROJECTION)
    assert own == rotated
    own, fresh = lines(SCRATCH)
    assert own != fresh


# --- drawings -----------------------------------------------------------------------------------------


def test_every_figure_compiles_and_every_explorer_answers():
    kinds = chapter.names("quick")
    explorers = [
        Explorer(
            functools.partial(chapter.curve_rows, "quick"),
            {"ratio": Choice(chapter.ratios("quick"), "m / d")},
            functools.partial(chapter.plot_curves, kinds=kinds),
            title="t",
            caption="c",
        ),
        Explorer(
            functools.partial(chapter.steps_rows, "quick"),
            {"percent": Choice(chapter.TOLERANCES, "within")},
            functools.partial(chapter.plot_steps, kinds=kinds, n_steps=40),
            title="t",
            caption="c",
        ),
        Explorer(
            functools.partial(chapter.steps_by_tolerance, "quick"),
            {"percent": Choice(chapter.TOLERANCES, "within")},
            functools.partial(chapter.plot_steps_by_tolerance, n_steps=40),
            title="t",
            caption="c",
        ),
        Explorer(
            functools.partial(chapter.staged_rows, "quick"),
            {"goal": Choice(["d / 4", "d / 8"], "to")},
            chapter.plot_stages,
            title="t",
            caption="c",
        ),
        Explorer(
            None,
            {"moment": Choice(chapter.MOMENTS, "measured")},
            functools.partial(chapter.plot_widths, kinds=kinds),
            grid=chapter.widths_rows("quick"),
            title="t",
            caption="c",
        ),
    ]
    for explorer in explorers:
        assert compiled(explorer.static_spec())
        (name, control), *_ = explorer.controls.items()
        assert explorer.answer({name: control.values[-1]})


def test_text_and_speed_are_drawn(small_base, monkeypatch):
    table = pd.DataFrame(
        {
            "rule": ["original", throughput.KEPT, throughput.PLAIN],
            "ratio": [1.0, 0.5, 0.5],
            **{name: [1.0, 1.5, 3.0] for name in chapter.QUANTITIES},
        }
    )
    monkeypatch.setattr(chapter, "speed_ratios", lambda preset: table)
    assert chapter.speed_rows("quick", "memory")["over_original"].tolist() == [1.5, 3.0]
    assert "plain rule: 3.00 times the tokens a second" in chapter.speed_finding("quick")
    assert compiled(chapter.plot_speed(chapter.speed_rows("quick", "training")).to_dict())
    assert compiled(chapter.plot_written(chapter.written("quick", 0.5, TRUNCATED)).to_dict())
    assert chapter.speed_table("quick").shape == (3, 4)


def test_what_is_not_stored_yet_is_said(monkeypatch):
    monkeypatch.setattr(chapter, "shown_preset", lambda claim="": "quick")
    assert "not stored yet" in repr(chapter.rates_table())
    assert "not stored yet" in repr(chapter.others_table())


def test_other_rates_and_bases_become_tables(monkeypatch):
    runs = [recovery.run_of("quick", (0.5,), learning_rate=rate) for rate in (1e-5, 5e-5)]
    other = recovery.OtherBase(bases.base("quick"), (0.5,))
    monkeypatch.setattr(chapter, "shown_preset", lambda claim="": "quick")
    monkeypatch.setattr(recovery, "stored_beside", lambda preset: (runs, [other]))
    made_table = made_run(recovery.run_of("quick", (0.5,)))
    monkeypatch.setattr(chapter, "read", lambda cell: (made_table, {}))
    rates = chapter.rates_table()
    assert rates.loc[("1e-05", PROJECTION)].tolist() == [0.1, 1.0]
    others = chapter.others_table()
    assert others["steps"].tolist() == ["over 40"]
    assert others["left"].tolist() == [0.1]
