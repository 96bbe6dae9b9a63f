"""Stored runs as the chapters on steered gradients show them: times, savings, accuracies, spectra."""

import numpy as np
import pandas as pd
import pytest
import torch

from book.geometry.experiments import steering
from book.geometry.experiments.grokking import spectrum_epochs
from embviz.ledger import cells
from embviz.ledger.cells import Cell, Experiment
from embviz.models.transformer import Transformer
from embviz.training.fourier import Prescribed, power_spectrum

LIMIT = steering.LIMITS["quick"]
# epochs to grok and to memorize by seed, None where it never happens
MADE = {
    "near-Nyquist": [(3, 2), (4, 3)],
    "adaptive 5": [(6, 2)],
    "{1, 14, 41}": [(5, 4), (7, 4)],
    "baseline": [(9, 5), (None, 6)],
}


@pytest.fixture(scope="module", autouse=True)
def results(tmp_path_factory):
    """Made-up runs of the quick size, stored as if they were the paper's; of some variants only."""
    folder = tmp_path_factory.mktemp("results")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("EMBVIZ_RESULTS_DIR", str(folder))
        patch.setattr(steering, "SHOWN", "quick")
        patch.setattr(steering, "EPOCHS", list(range(1, LIMIT + 1)))
        for name, times in MADE.items():
            made = zip(steering.cells_of(steering.RUNS[name], "quick"), times, strict=False)
            for cell, (grok, memorize) in made:
                store(cell, made_table(cell.config, grok, memorize))
        yield folder


def made_table(config, grok, memorize) -> pd.DataFrame:
    seed, rows = config.first_seed, []
    rng = np.random.default_rng([seed, config.top_k, *config.modes])
    for epoch in range(LIMIT + 1):
        accuracies = [
            (0.97 if event is not None and epoch >= event else 0.2) + 0.001 * epoch
            for event in (grok, memorize)
        ]
        accuracies[1] += 0.02  # above 0.99 once memorized
        for name, value in zip(("validation_accuracy", "train_accuracy"), accuracies, strict=True):
            if epoch % 2 or epoch in (0, grok) or name == "train_accuracy":  # not validated every epoch
                rows.append((seed, epoch, name, value))
        if epoch in spectrum_epochs(LIMIT):
            embedding = embedding_of(config, rng)
            powers = power_spectrum(torch.from_numpy(embedding))
            rows += [(seed, epoch, f"power/{mode}", float(power)) for mode, power in enumerate(powers)]
    rows += [(seed, LIMIT, f"embedding/{i}", float(x)) for (i, _), x in np.ndenumerate(embedding)]
    return pd.DataFrame(rows, columns=["seed", "epoch", "quantity", "value"])


def embedding_of(config, rng) -> np.ndarray:
    """What decay left of the start, and something random that the projection keeps."""
    start = Transformer(config.shape, seed=config.first_seed).embedding.detach()[: config.p]
    added = 3 * start.std().double() * torch.from_numpy(rng.normal(size=tuple(start.shape)))
    if config.modes:
        added = Prescribed(config.modes).apply(added)
    updates = LIMIT * config.steps_per_epoch
    return ((1 - 1e-3) ** updates * start + added).numpy()


def store(cell: Cell, table: pd.DataFrame) -> None:
    made = Experiment(cell.experiment.name, cell.experiment.version, lambda config: table)
    cells.compute(Cell(made, cell.config))


def test_runs_that_are_not_stored_are_left_out():
    found = steering.stored([*steering.VARIANTS, *steering.NAMED_CONTROLS, steering.RANDOM])
    assert {name: len(own) for name, own in found.items()} == {name: len(own) for name, own in MADE.items()}
    with pytest.raises(KeyError, match="no such run"):
        steering.stored(["no such run"])


def test_kinds_follow_from_the_modes():
    kinds = {name: steering.kind_of(name) for name in [*steering.RUNS, steering.RANDOM]}
    assert set(kinds.values()) == set(steering.KINDS)
    for name in ("near-Nyquist", "{48}", "{44, ..., 48}", "p = 113, near-Nyquist"):
        assert kinds[name] == "high modes"
    for name in ("{1}", "{1, 14, 41}", "{8, 16, ..., 40}", "{22, ..., 26}"):
        assert kinds[name] == "other modes"


# --- times ----------------------------------------------------------------------------------------------


def test_savings_are_on_the_baseline_of_the_same_seed_and_censored_runs_count_with_the_limit():
    table = steering.stored_times(steering.MAIN).set_index(["run", "seed"])
    for name, times in MADE.items():
        for seed, (grok, memorize) in enumerate(times):
            row, base = table.loc[name, seed], MADE["baseline"][seed][0] or LIMIT
            assert (row["grok"], row["grokked"]) == (grok or LIMIT, grok is not None)
            assert row["memorize"] == memorize
            assert row["saved"] == pytest.approx(100 * (1 - (grok or LIMIT) / base))


def test_a_run_without_a_baseline_of_its_seed_saves_nothing_known():
    table = pd.DataFrame(
        {"run": ["baseline", "steered", "steered"], "seed": [0, 0, 1], "grok": [200, 50, 50]}
    )
    assert steering.saved(table, "baseline").tolist() == pytest.approx([0, 75, np.nan], nan_ok=True)


def test_under_several_readings_pairs_share_reading_and_seed():
    rows = [("as used", "baseline", 200), ("as used", "steered", 50), ("ReLU", "baseline", 100)]
    rows += [("ReLU", "steered", 150), ("biases", "steered", 10)]
    table = pd.DataFrame(rows, columns=["reading", "run", "grok"]).assign(seed=0)
    saved = steering.saved(table, "baseline", on=["reading", "seed"])
    assert saved.tolist() == pytest.approx([0, 75, 0, -50, np.nan], nan_ok=True)


# --- accuracies and spectra -----------------------------------------------------------------------------


def test_accuracies_hold_what_was_last_measured():
    table = steering.accuracies(steering.stored(MADE))
    for (name, seed, which), rows in table.groupby(["run", "seed", "which"]):
        assert rows["epoch"].tolist() == list(range(1, LIMIT + 1))
        event = MADE[name][seed][0 if which == "validation" else 1] or LIMIT + 1
        assert ((rows["accuracy"] > 0.9) == (rows["epoch"] >= event)).all()


def test_power_shares_are_of_all_modes_but_the_mean():
    (cell, _) = steering.stored(["near-Nyquist"])["near-Nyquist"]
    rng = np.random.default_rng([0, 0, *cell.config.modes])
    for _ in spectrum_epochs(LIMIT):
        embedding = embedding_of(cell.config, rng)
    slow = (np.abs(np.fft.rfft(embedding, axis=0)) ** 2).sum(1)[1:]
    end = steering.powers(cell).iloc[-1]
    np.testing.assert_allclose(end, slow / slow.sum(), rtol=1e-4)  # stored in single precision
    assert end.index.tolist() == list(range(1, 12))


def test_frames_are_the_same_for_every_run():
    frames = steering.frames(MADE)
    for _, rows in frames.groupby("run"):
        assert rows["frame"].unique().tolist() == spectrum_epochs(LIMIT)
        assert rows.groupby("frame")["power_share"].sum().to_numpy() == pytest.approx(1)
        assert len(rows) == 11 * rows["frame"].nunique()
    near = frames[frames["run"] == "near-Nyquist"]
    modes = steering.stored(["near-Nyquist"])["near-Nyquist"][0].config.modes
    assert set(near.loc[near["chosen"] == "prescribed", "mode"]) == set(modes)
    assert ((near["validation"] > 0.9) == (near["frame"] >= 3)).all()
