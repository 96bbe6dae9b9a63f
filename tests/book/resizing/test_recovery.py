"""The chapter on recovery: what its tables say of runs, and what a model writes."""

import math

import numpy as np
import pandas as pd
import pytest
import torch

from book.resizing import recovery as chapter
from book.resizing.experiments import bases, recovery
from book.resizing.experiments.recovery import PCA, PROJECTION, SCRATCH, TRUNCATED
from embviz.models.decoder import Decoder, DecoderConfig
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
        table = chapter.steps("quick", percent)
        rows = table[(table["ratio"] == "0.5") & (table["seed"] == 0)].set_index("treatment")
        for kind in (PROJECTION, PCA):
            wanted = 40 * (1 - math.log1p(percent / 100)) / (1 - LAST[kind])
            reached = wanted <= 40
            assert rows["back"][kind] == reached
            # rounded to a tenth
            assert rows["steps_back"][kind] == pytest.approx(min(wanted, 40.0), abs=0.051)
        assert not rows["back"][SCRATCH]
    assert list(dict.fromkeys(table["ratio"])) == ["0.5", "0.75", "2"]


def test_perplexities_are_exponentials_over_the_original():
    table = chapter.widths("quick").set_index(["moment", "treatment", "ratio", "seed"])
    found = table["perplexity_ratio"]
    assert found[chapter.AFTER_PORT, PROJECTION, 0.5, 0] == pytest.approx(math.e, abs=1e-4)
    assert found[chapter.AT_END, PROJECTION, 0.5, 0] == pytest.approx(math.exp(0.1), abs=1e-4)
    assert found[chapter.AFTER_PORT, recovery.ZEROS, 2.0, 1] == 1.0


def test_the_ends_of_architectures_are_those_of_their_runs():
    table = chapter.architecture_ends("quick", 10)
    assert list(dict.fromkeys(table["architecture"])) == list(recovery.COMPARED)
    found = table.groupby("architecture", sort=False)
    assert found["back"].sum().tolist() == [0, 2, 2, 2, 2]
    assert found["lost"].max().tolist() == [1.0] * 5
    assert found["left"].mean()["peri-norm"] == pytest.approx(0.04, abs=0.0011)  # seeds differ by 0.001
    wanted = 40 * (1 - math.log1p(0.1)) / (1 - 0.08)
    assert found["steps_back"].mean()["RMSNorm"] == pytest.approx(wanted, abs=0.1)


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


def test_text_is_drawn(small_base):
    assert compiled(chapter.plot_written(chapter.written("quick", 0.5, TRUNCATED)).to_dict())


def test_other_rates_and_bases_become_tables(monkeypatch):
    runs = [recovery.run_of("quick", (0.5,), learning_rate=rate) for rate in (1e-5, 5e-5)]
    other = recovery.OtherBase(bases.base("quick"), (0.5,))
    monkeypatch.setattr(recovery, "stored_beside", lambda preset: (runs, [other]))
    made_table = made_run(recovery.run_of("quick", (0.5,)))
    monkeypatch.setattr(chapter, "read", lambda cell: (made_table, {}))
    rates = chapter.rates("quick")
    assert rates["rate"].tolist()[:2] == ["1e-05", "5e-05"]
    assert rates.set_index(["rate", "treatment"])["left"]["1e-05", PROJECTION] == pytest.approx(0.1)
    others = chapter.others("quick")
    assert others["steps_back"].tolist() == [40.0]
    assert not others["back"].any()
    assert others["left"].tolist() == [pytest.approx(0.1)]
