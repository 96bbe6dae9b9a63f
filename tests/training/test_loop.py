"""The training loop: its optimizer against the equations, what it yields, and resumption to the bit."""

import math
import os
import subprocess
import sys
import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from torch import Tensor, nn

from embviz.runs import Run, read_run
from embviz.training.loop import AdamW, Snapshot, train

NAMES = ["seed 0, untied", "seed 0, tied"]
OPTIMIZER = AdamW(5e-3, 1e-4, half_period=16, weight_decay=0.1)
DESCRIPTION = {"task": {"n_bits": 7}, "learning_rate": 5e-3, "seeds": [0]}
N_STEPS, EVERY = 20, 5


pytestmark = pytest.mark.usefixtures("one_thread")


@pytest.fixture(autouse=True)
def a_state_at_each_snapshot(monkeypatch):
    """However long the last one took."""
    monkeypatch.setattr("embviz.training.loop.STATE_SHARE", math.inf)


class Pair(nn.Module):
    """Two members side by side, each with two layers of its own, on numbers that follow from the step."""

    def __init__(self) -> None:
        super().__init__()
        draw = torch.Generator().manual_seed(0)
        self.up = nn.Parameter(torch.randn(2, 6, 9, generator=draw))
        self.down = nn.Parameter(torch.randn(2, 9, 6, generator=draw))

    def losses(self, step: int) -> Tensor:
        x = torch.randn(16, 6, generator=torch.Generator().manual_seed(step))
        return (torch.tanh(x @ self.up) @ self.down - x.flip(1)).square().mean((1, 2))


def training(
    run: Run | None = None,
    *,
    n_steps: int = N_STEPS,
    every: int = EVERY,
    spoil: Callable | None = None,
    optimizer: AdamW = OPTIMIZER,
) -> Iterator[Snapshot]:
    """A pair of models; `spoil` may change a step's losses."""
    model = Pair()
    spoil = spoil or (lambda step, losses: losses)
    return train(
        model,
        lambda step: spoil(step, model.losses(step)),
        optimizer,
        n_steps=n_steps,
        snapshot_at=every,
        measure=lambda step: {"loss": model.losses(0).tolist(), "half": step / 2},
        names=NAMES,
        run=run,
    )


def finished(folder: Path, **options) -> Run:
    """The run in `folder`, begun or resumed, and brought to its end."""
    with Run.open(folder, config=DESCRIPTION) as run:
        for _ in training(run, **options):
            pass
    return read_run(folder)


def assert_same_bits(one: Run, other: Run) -> None:
    """Metrics, weights of every snapshot, the state; and the files themselves."""
    assert one.steps == other.steps
    pd.testing.assert_frame_equal(one.metrics(), other.metrics(), check_exact=True)
    for step in one.steps:
        assert_same_tensors(one.weights(step), other.weights(step))
    assert one.load_state()[0] == other.load_state()[0]
    states = [run.load_state()[1] for run in (one, other)]
    assert_same_tensors(states[0]["model"], states[1]["model"])
    files = [
        {p.relative_to(run.folder): p.read_bytes() for p in run.folder.rglob("*") if p.is_file()}
        for run in (one, other)
    ]
    for contents in files:
        contents.pop(Path("writer.lock"), None)  # holds a process's number
    assert files[0] == files[1]


def assert_same_tensors(one: dict[str, Tensor], other: dict[str, Tensor]) -> None:
    assert list(one) == list(other)
    assert all(torch.equal(tensor, other[name]) for name, tensor in one.items())


@pytest.fixture(scope="module")
def unbroken(tmp_path_factory) -> Run:
    torch.set_num_threads(1)
    return finished(tmp_path_factory.mktemp("unbroken") / "run")


class Point(nn.Module):
    """Three numbers, float64, that are drawn toward a moving goal."""

    def __init__(self) -> None:
        super().__init__()
        self.place = nn.Parameter(torch.tensor([3.0, -2.0, 0.5], dtype=torch.float64))

    def losses(self, step: int) -> Tensor:
        goal = torch.tensor([math.sin(step), 1.0, -1.0], dtype=torch.float64)
        return ((self.place - goal) ** 2).sum()


# --- the optimizer ----------------------------------------------------------------------------------


@pytest.mark.parametrize("optimizer", [AdamW(1e-3, 1e-5, 12), AdamW(0.3, 0.3, 7), AdamW(1.0, 1e-6, 1)])
def test_the_rate_is_that_of_pytorchs_cosine_annealing_over_three_periods(optimizer):
    adam = torch.optim.AdamW([nn.Parameter(torch.zeros(1))], lr=optimizer.learning_rate)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(
        adam, T_max=optimizer.half_period, eta_min=optimizer.min_learning_rate
    )
    for step in range(6 * optimizer.half_period + 1):
        # PyTorch goes from rate to rate, and its rounding adds up
        assert optimizer.rate(step) == pytest.approx(schedule.get_last_lr()[0], rel=1e-9, abs=1e-14)
        adam.step()
        schedule.step()


def test_updates_follow_the_equations_of_adamw_at_the_rate_of_their_step():
    model = Point()
    optimizer = AdamW(0.1, 0.01, half_period=9, weight_decay=0.2, beta1=0.8, beta2=0.95, eps=1e-3)
    snapshots = list(train(model, model.losses, optimizer, n_steps=30, snapshot_at=1))
    x, m, v = np.array([3.0, -2.0, 0.5]), np.zeros(3), np.zeros(3)
    for step in range(30):
        np.testing.assert_allclose(snapshots[step].weights["place"], x, rtol=1e-12)  # float64
        gradient = 2 * (x - np.array([math.sin(step), 1.0, -1.0]))
        m, v = 0.8 * m + 0.2 * gradient, 0.95 * v + 0.05 * gradient**2
        unbiased = m / (1 - 0.8 ** (step + 1)), v / (1 - 0.95 ** (step + 1))
        rate = optimizer.rate(step)
        x = x * (1 - rate * 0.2) - rate * unbiased[0] / (np.sqrt(unbiased[1]) + 1e-3)


def test_what_does_not_decay_moves_by_its_gradient_alone():
    model = nn.Sequential(nn.Linear(3, 3), nn.Linear(3, 3))
    before = {name: tensor.detach().clone() for name, tensor in model.named_parameters()}
    optimizer = AdamW(0.1, 0.1, weight_decay=0.5, undecayed=("1.weight",))
    for _ in train(model, lambda step: 0.0 * model(torch.ones(3)).sum(), optimizer, n_steps=2, snapshot_at=2):
        pass
    for name, tensor in model.named_parameters():
        factor = 1.0 if name == "1.weight" else 0.95**2
        torch.testing.assert_close(tensor.detach(), factor * before[name])


def test_what_is_called_after_the_backward_pass_sees_the_gradient_and_changes_the_update():
    model, seen = Point(), []

    def keep_first(step: int) -> None:
        seen.append((step, model.place.grad.tolist()))
        model.place.grad[1:] = 0

    undecayed = AdamW(weight_decay=0.0)
    projected = list(
        train(model, model.losses, undecayed, n_steps=5, snapshot_at=1, after_backward=keep_first)
    )
    assert [step for step, _ in seen] == list(range(5))
    np.testing.assert_allclose(seen[0][1], [6.0, -6.0, 3.0])  # 2 (place - goal) at step 0
    plain = Point()
    whole = list(train(plain, plain.losses, undecayed, n_steps=5, snapshot_at=1))
    for one, other in zip(projected, whole, strict=True):
        assert one.weights["place"][0] == other.weights["place"][0]  # Adam treats each number by itself
        assert one.weights["place"][1:].tolist() == [-2.0, 0.5]


def test_a_frozen_parameter_stays_and_its_run_resumes_to_the_same_bits(tmp_path):
    def half_frozen(folder: Path, n_steps: int) -> Run:
        model = Shared()
        model.inner.weight.requires_grad_(False)  # the outer one's too: first among the parameters
        with Run.open(folder) as run:
            list(train(model, model.losses, OPTIMIZER, n_steps=n_steps, snapshot_at=2, run=run))
        return read_run(folder)

    unbroken = half_frozen(tmp_path / "unbroken", 6)
    half_frozen(tmp_path / "broken", 4)
    assert_same_bits(half_frozen(tmp_path / "broken", 6), unbroken)
    first, last = (unbroken.weights(step) for step in (0, 6))
    assert torch.equal(first["inner.weight"], last["inner.weight"])
    assert not torch.equal(first["square"], last["square"])


# --- what is yielded --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("n_steps", "every", "steps"),
    [
        (11, 4, [0, 4, 8, 11]),
        (3, 100, [0, 3]),
        (0, 1, [0]),
        (10, {0, 3, 7}, [0, 3, 7]),
        (10, lambda step: step in (0, 3, 7), [0, 3, 7]),
    ],
)
def test_snapshots_come_every_so_many_and_after_the_last_or_at_the_steps_asked_for(n_steps, every, steps):
    model = Point()
    asked: list[int] = []

    def losses(step: int) -> Tensor:
        asked.append(step)
        return model.losses(step)

    found = train(model, losses, OPTIMIZER, n_steps=n_steps, snapshot_at=every)
    assert [snapshot.step for snapshot in found] == steps
    assert asked == list(range(n_steps))


def test_training_waits_for_the_caller_and_leaves_earlier_snapshots_alone():
    model = Point()
    snapshots, texts = [], []
    for snapshot in train(model, model.losses, OPTIMIZER, n_steps=6, snapshot_at=2):
        assert torch.equal(model.place.detach(), snapshot.weights["place"])
        snapshots.append(snapshot)
        texts.append(str(snapshot.weights))
        assert not snapshot.weights["place"].requires_grad
    assert [str(snapshot.weights) for snapshot in snapshots] == texts
    assert len(set(texts)) == 4
    snapshots[-1].weights["place"].zero_()
    assert (model.place != 0).all()


class Shared(nn.Module):
    """A table used twice under two names, and a square matrix."""

    def __init__(self) -> None:
        super().__init__()
        self.inner, self.outer = nn.Linear(3, 4, bias=False), nn.Linear(3, 4, bias=False)
        with torch.no_grad():
            self.inner.weight.copy_(torch.arange(12.0).view(4, 3))
        self.outer.weight = self.inner.weight
        self.square = nn.Parameter(torch.arange(9.0).view(3, 3))

    def losses(self, step: int) -> Tensor:
        return (self.outer.weight * self.inner.weight).sum() + self.square.sum()


def test_tied_tensors_stay_tied_in_a_snapshot_and_on_disk(tmp_path):
    model = Shared()
    with Run.open(tmp_path / "run") as run:
        for snapshot in train(model, model.losses, OPTIMIZER, n_steps=2, snapshot_at=1, run=run):
            for weights in (snapshot.weights, run.weights(snapshot.step)):
                names = ("inner.weight", "outer.weight", "square")
                inner, outer, square = (weights[name] for name in names)
                assert inner.data_ptr() == outer.data_ptr()
                assert inner.data_ptr() not in (model.inner.weight.data_ptr(), square.data_ptr())
                assert torch.equal(inner, model.inner.weight.detach())


def test_a_matrix_and_its_transpose_share_memory_and_are_kept_apart():
    model = Shared()
    views = {"weights": lambda: {"one": model.square, "other": model.square.mT}}
    weights = next(train(model, model.losses, OPTIMIZER, n_steps=0, snapshot_at=1, **views)).weights
    assert torch.equal(weights["one"], model.square.detach())
    assert torch.equal(weights["other"], model.square.detach().mT)


def test_what_is_measured_and_kept_is_what_was_asked_for():
    model = Point()
    seen: list[bool] = []

    def measure(step: int) -> dict[str, float]:
        seen.append(torch.is_grad_enabled())
        return {"double": 2.0 * step}

    found = list(
        train(
            model, model.losses, OPTIMIZER, n_steps=4, snapshot_at=2, measure=measure,
            weights=lambda: {"first": model.place[0]},
        )
    )  # fmt: skip
    assert [snapshot.metrics for snapshot in found] == [{"double": 0.0}, {"double": 4.0}, {"double": 8.0}]
    assert [list(snapshot.weights) for snapshot in found] == [["first"]] * 3
    assert seen == [False] * 3
    plain = next(train(model, model.losses, OPTIMIZER, n_steps=0, snapshot_at=1))
    assert plain.metrics == {}
    assert list(plain.weights) == ["place"]
    assert next(train(model, model.losses, OPTIMIZER, n_steps=1, snapshot_at=1, weights="none")).weights == {}


def test_two_runs_give_the_same_bits_and_storing_changes_none(unbroken):
    for snapshot in training():
        assert_same_tensors(snapshot.weights, unbroken.weights(snapshot.step))
        table = unbroken.metrics().query("step == @snapshot.step")
        assert table["loss"].tolist() == snapshot.metrics["loss"]
        assert table["half"].tolist() == [snapshot.metrics["half"]] * 2


# --- resumption -------------------------------------------------------------------------------------


@pytest.mark.parametrize("n_taken", [1, 3])
def test_a_run_broken_after_a_snapshot_resumes_to_the_same_bits(tmp_path, unbroken, n_taken):
    with Run.open(tmp_path / "run", config=DESCRIPTION) as run:
        for _ in zip(range(n_taken), training(run), strict=False):
            pass
    assert_same_bits(finished(tmp_path / "run"), unbroken)


@pytest.mark.parametrize("at", [0, 17])
def test_a_run_broken_by_an_error_at_any_step_resumes_to_the_same_bits(tmp_path, unbroken, at):
    def fail(step: int, losses: Tensor) -> Tensor:
        if step == at:
            raise KeyboardInterrupt
        return losses

    with Run.open(tmp_path / "run", config=DESCRIPTION) as run, pytest.raises(KeyboardInterrupt):
        list(training(run, spoil=fail))
    assert read_run(tmp_path / "run").steps == list(range(0, at + 1, EVERY))
    assert_same_bits(finished(tmp_path / "run"), unbroken)


def test_an_old_state_is_replaced_between_snapshots(tmp_path, monkeypatch, unbroken):
    def fail(step: int, losses: Tensor) -> Tensor:
        if step == EVERY + 2:
            raise KeyboardInterrupt
        return losses

    for seconds, reached in ((3600.0, EVERY), (0.0, EVERY + 2)):
        monkeypatch.setattr("embviz.training.loop.STATE_SECONDS", seconds)
        folder = tmp_path / str(seconds)
        with Run.open(folder, config=DESCRIPTION) as run, pytest.raises(KeyboardInterrupt):
            list(training(run, spoil=fail))
        state = read_run(folder).load_state()
        assert state is not None
        assert state[0] == reached
        assert_same_bits(finished(folder), unbroken)


@pytest.mark.parametrize("lost", ["append", "save_state"])
@pytest.mark.parametrize("at", [0, 10])
def test_a_run_broken_while_it_stores_resumes_to_the_same_bits(tmp_path, unbroken, monkeypatch, lost, at):
    store = getattr(Run, lost)

    def break_off(run: Run, step: int, *rest: object) -> None:
        if step == at:
            raise KeyboardInterrupt
        store(run, step, *rest)

    with monkeypatch.context() as patch:
        patch.setattr(Run, lost, break_off)
        with Run.open(tmp_path / "run", config=DESCRIPTION) as run, pytest.raises(KeyboardInterrupt):
            list(training(run))
    assert_same_bits(finished(tmp_path / "run"), unbroken)


def test_a_finished_run_yields_nothing_more_and_can_be_lengthened(tmp_path, unbroken):
    with Run.open(tmp_path / "run", config=DESCRIPTION) as run:
        assert [snapshot.step for snapshot in training(run, n_steps=10)] == [0, 5, 10]
        assert [snapshot.step for snapshot in training(run, n_steps=10)] == []
        assert [snapshot.step for snapshot in training(run)] == [15, 20]
    assert_same_bits(read_run(tmp_path / "run"), unbroken)


KILLED = """
    import os, random, signal, sys, time
    from pathlib import Path
    sys.path.insert(0, {root!r})
    from tests.training.test_loop import finished
    import torch
    torch.set_num_threads(1)
    folder, parent, chance = Path({folder!r}), os.getpid(), random.Random({seed})

    def n_stored():
        log = folder / "metrics.jsonl"
        return log.read_bytes().count(b"\\n") if log.exists() else 0

    for _ in range(6):
        wanted = n_stored() + chance.randrange(0, 3)
        child = os.fork()  # torch is imported once
        if child == 0:
            orphan = lambda step, losses: losses if os.getppid() == parent else os._exit(1)
            finished(folder, n_steps=10**6, every=1, spoil=orphan)
        while n_stored() < wanted:
            time.sleep(0.001)
        time.sleep(chance.uniform(0, 0.03))  # into the midst of an update, or of a file
        os.kill(child, signal.SIGKILL)
        assert os.WIFSIGNALED(os.waitpid(child, 0)[1])
"""


@pytest.mark.slow
def test_a_run_killed_again_and_again_at_random_moments_resumes_to_the_same_bits(tmp_path):
    root, folder = str(Path(__file__).resolve().parents[2]), tmp_path / "run"
    script = KILLED.format(root=root, folder=str(folder), seed=os.getpid())
    subprocess.run([sys.executable, "-c", textwrap.dedent(script)], check=True, timeout=1_200)
    stored = read_run(folder).steps
    assert len(stored) >= 2, "it was killed before it stored anything"
    resumed = finished(folder, n_steps=stored[-1] + 3, every=1)
    whole = finished(tmp_path / "whole", n_steps=stored[-1] + 3, every=1)
    assert_same_bits(resumed, whole)


# --- refusals ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(("bad", "member", "who"), [(math.nan, 0, NAMES[0]), (-math.inf, 1, NAMES[1])])
def test_a_loss_that_is_not_finite_stops_names_step_and_member_and_keeps_what_was_stored(
    tmp_path, unbroken, bad, member, who
):
    def spoil(step: int, losses: Tensor) -> Tensor:
        return losses * torch.tensor([bad if r == member else 1.0 for r in range(2)]) if step == 7 else losses

    with Run.open(tmp_path / "run", config=DESCRIPTION) as run:
        with pytest.raises(
            FloatingPointError, match=f"no longer finite at step 7 for {who}: lower the learning rate"
        ):
            list(training(run, spoil=spoil))
        assert run.steps == [0, 5]
    assert_same_bits(finished(tmp_path / "run"), unbroken)  # the cause removed, it goes on


def test_all_members_whose_loss_is_not_finite_are_named():
    with pytest.raises(FloatingPointError, match="at step 2 for seed 0, untied, seed 0, tied: lower"):
        list(training(spoil=lambda step, losses: losses / (step != 2)))
    model = Point()
    with pytest.raises(FloatingPointError, match="at step 0 for model: lower the learning rate"):
        list(train(model, lambda step: model.place.sum() * math.nan, OPTIMIZER, n_steps=1, snapshot_at=1))


def test_a_run_longer_than_asked_for_is_refused_and_kept(tmp_path):
    before = finished(tmp_path / "run", n_steps=20)
    with pytest.raises(ValueError, match=r"run has 20 steps, more than n_steps = 15"):
        finished(tmp_path / "run", n_steps=15)
    assert read_run(tmp_path / "run").steps == before.steps == [0, 5, 10, 15, 20]


def test_names_that_no_parameter_has_are_refused():
    with pytest.raises(ValueError, match=r"ends in 'query'; there are"):
        next(training(optimizer=AdamW(undecayed=("query",))))
