"""Numbers that judge claims on tying, each against its definition on made data."""

import math

import numpy as np
import pandas as pd
import pytest

from book.tying.experiments import exor as study
from book.tying.experiments import natural
from tests.book.tying.experiments.test_exor import frame

SEEDS, STEPS = range(3), range(0, 101, 5)


def test_a_ratio_of_medians_has_an_interval_of_95_percent():
    rng = np.random.default_rng(1)
    mine, theirs = (pd.Series(rng.uniform(1, 9, 15)) for _ in range(2))
    draws = np.random.default_rng(7)
    again = [np.median(draws.choice(mine, 15)) / np.median(draws.choice(theirs, 15)) for _ in range(8_000)]
    found = study.ratio_of_medians(mine, theirs)
    ends = [(np.array(again) < end).mean() for end in (found.low, found.high)]
    assert ends == pytest.approx([0.025, 0.975], abs=0.013)


def test_late_is_the_last_tenth_of_training():
    table = frame({"accuracy": lambda seed, tied, step: float(step >= 90)}, seeds=SEEDS, steps=STEPS)
    assert study.late_accuracy(table).tolist() == [1, 1, 1]


def test_a_wobble_is_a_samples_spread_over_the_last_third_of_those_that_solve_the_task():
    def accuracy(seed, tied, step):
        late = {70: 0.1, 75: 0.2, 80: 0.6}.get(step, 0.3)
        return (1 + seed / 10) * (late if tied else late / 10) if step >= 67 else 99.0

    table = frame({"accuracy": accuracy, "loss_gap": 0.0}, seeds=SEEDS, steps=STEPS)
    late = np.array([0.1, 0.2, 0.6, *[0.3] * 4])
    spread = np.sqrt(((late - late.mean()) ** 2).sum() / 6)
    logs = [[math.log10((1 + seed / 10) * spread * share + 1e-6) for seed in SEEDS] for share in (1, 0.1)]
    found = study._of_those_that_solve(table)["instability_solved"]
    assert found.value == pytest.approx(np.mean(logs[0]) - np.mean(logs[1]), abs=1e-9)


def overfits(rise: float, *, from_step: int = 90, only_at: int | None = None) -> bool:
    """Whether a run overfits whose loss on the twelve strings is higher at the end of training."""

    def strings(seed, tied, step):
        return 1 + rise * (step >= from_step if only_at is None else step == only_at)

    values = {"sampled_loss": strings, "train_loss_gap": lambda seed, tied, step: 1 - step / 200}
    values |= dict.fromkeys(("relative_input_11", "relative_output_11"), 1.0)
    steps = range(0, 1001, 5) if from_step > 100 else STEPS
    table = frame(values, seeds=[0], steps=steps)
    return bool(study.overfitting(table[table["tied"]])["overfits"].all())


def test_a_run_overfits_by_the_mean_of_its_last_tenth():
    assert not overfits(3.4 * study.RISE, only_at=100)  # 0.89 of the rise; the highest of them is 1.1
    assert not overfits(0.9 * study.RISE)
    assert overfits(1.5 * study.RISE, from_step=880)
    assert overfits(1.05 * study.RISE, from_step=880)  # from 0.5 on the mean would be a fifth of it


def test_untied_is_behind_where_it_is_on_average(monkeypatch):
    table = pd.DataFrame({"step": [0, 10, 20], "corpus": "made", "spelling": "mixed"})
    gains = pd.DataFrame({0: [5.0, 3, -1], 1: [-1.0, -1, -1], 2: [-1.0, -1, -1]}, index=[0, 10, 20])
    monkeypatch.setattr(natural, "curves_of", lambda runs: table)
    monkeypatch.setattr(natural, "_gains", lambda table: gains)
    assert natural._crossing([])["crossing"].value == 1
