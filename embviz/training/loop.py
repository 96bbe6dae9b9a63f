"""One training loop as a generator, for one model or for many side by side."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import torch
from torch import Tensor, nn

if TYPE_CHECKING:
    from embviz.runs import Run

Metrics = Mapping[str, float | Sequence[float]]
Schedule = int | Container[int] | Callable[[int], bool]  # of snapshots, by the updates made
SnapshotWeights = Callable[[], Mapping[str, Tensor]] | Literal["all", "none"]  # of a snapshot
STATE_SECONDS = 60.0  # at most between two states of a run, so that a kill costs no more than that
STATE_SHARE = 0.05  # of the time is spent on states at snapshots, at most


@dataclass(frozen=True)
class AdamW:
    """AdamW with PyTorch's defaults, at a constant rate or with a cosine schedule.

    Its moments are all that it remembers: the learning rate is a function of the step.
    """

    learning_rate: float = 1e-3  # at step 0
    min_learning_rate: float | None = None  # half a period later; None: the rate is constant
    half_period: int = 10_000  # steps: down for as many, up for as many, without a restart
    weight_decay: float = 0.01
    beta1: float = 0.9
    beta2: float = 0.999
    eps: float = 1e-8
    undecayed: tuple[str, ...] = ()  # ends of the names of parameters that don't decay

    def __post_init__(self) -> None:
        if not 0 < self._least_rate <= self.learning_rate:
            raise ValueError(f"rates must be above 0, the least at most the first: {self}")

    @property
    def _least_rate(self) -> float:
        return self.learning_rate if self.min_learning_rate is None else self.min_learning_rate

    def rate(self, step: int) -> float:
        """Learning rate of update `step`, counted from 0 (PyTorch's CosineAnnealingLR in closed form)."""
        half = (self.learning_rate - self._least_rate) / 2
        return self._least_rate + half * (1 + math.cos(math.pi * step / self.half_period))


@dataclass(frozen=True)
class Snapshot:
    """A training run at one moment."""

    step: int  # updates made so far
    metrics: Metrics  # a number, or a list with a number for each member
    weights: dict[str, Tensor]  # copies


def train(
    model: nn.Module,
    losses: Callable[[int], Tensor],
    optimizer: AdamW,
    *,
    n_steps: int,
    snapshot_at: Schedule,
    measure: Callable[[int], Metrics] | None = None,
    weights: SnapshotWeights = "all",
    names: Sequence[str] = ("model",),
    run: Run | None = None,
    after_backward: Callable[[int], None] | None = None,
) -> Iterator[Snapshot]:
    """Train, and stop at each snapshot: the caller's ``for`` loop measures, stores and goes on when it likes.

    Parameters
    ----------
    model : nn.Module
        Changed in place.
    losses : function of the step, from 0
        Its batch's loss for each member, (R,), or one loss, (). It draws from the step alone, so that a
        resumed run sees what an unbroken one sees.
    optimizer : AdamW
    n_steps : int
        Updates in all, those of a resumed run included.
    snapshot_at : int, set of steps, or function from a step to bool
        Updates made at each snapshot. An int n: before the first update, every n, and after the last.
    measure : function of the step, optional
        Metrics of a snapshot; numbers, or lists of R numbers.
    weights : function, "all" or "none"
        Weights of a snapshot; "all": the model's parameters and persistent buffers.
    names : sequence of str
        What the members are called, for error messages.
    run : Run, optional
        Stores each snapshot, and at least once a minute a state. A run that was stopped goes on from its last
        state and, on one machine with the same number of threads, ends with the bits of an unbroken one.
        Without it the caller may store what is yielded, by :meth:`embviz.runs.Run.append`.
    after_backward : function of the step, optional
        Called between the backward pass and the update; it may change the parameters' gradients. The run
        doesn't store what it remembers from one step to the next.

    Yields
    ------
    Snapshot
        Those that `run` does not hold yet.

    Raises
    ------
    FloatingPointError
        If a loss stops being finite: names the step and the member. Stored snapshots are kept.
    """
    is_due = _is_due(snapshot_at, n_steps)
    keep_freed_memory()
    adam = torch.optim.AdamW(
        _groups(model, optimizer),
        betas=(optimizer.beta1, optimizer.beta2),
        eps=optimizer.eps,
        weight_decay=optimizer.weight_decay,
        fused=True,  # one call for all parameters
    )
    step = _resume(run, model, adam)
    if step > n_steps:
        raise ValueError(
            f"{run.folder if run else 'the run'} has {step} steps, more than n_steps = {n_steps}"
        )
    taken = set(run.steps) if run else set()
    keeper = None if run is None else _StateKeeper(run, model, adam)
    while True:
        if is_due(step) and step not in taken:
            snapshot = _take_snapshot(step, model, measure, weights)
            if run is not None and keeper is not None:
                run.append(step, snapshot.weights, snapshot.metrics)
                keeper.after_snapshot(step)
            yield snapshot
        if step == n_steps:
            if keeper is not None:
                keeper.at_the_end(step)
            return
        for group in adam.param_groups:
            group["lr"] = optimizer.rate(step)
        adam.zero_grad(set_to_none=True)
        loss = losses(step)
        total = loss.sum()
        if not math.isfinite(total.item()):
            raise FloatingPointError(_not_finite(loss.detach(), step, names))
        total.backward()
        if after_backward is not None:
            after_backward(step)
        adam.step()
        step += 1
        if keeper is not None:
            keeper.after_update(step)


def _is_due(snapshot_at: Schedule, n_steps: int) -> Callable[[int], bool]:
    """Whether a snapshot is due after so many updates."""
    if isinstance(snapshot_at, int):
        every = snapshot_at
        return lambda step: step % every == 0 or step == n_steps
    return snapshot_at if callable(snapshot_at) else snapshot_at.__contains__


class _StateKeeper:
    """Saves a run's states: often enough that a kill costs little, seldom enough to cost little time."""

    def __init__(self, run: Run, model: nn.Module, adam: torch.optim.AdamW) -> None:
        self.run, self.model, self.adam = run, model, adam
        self.saved, self.cost = time.monotonic(), 0.0  # when the last was saved, and what it took, in seconds
        self.step = -1  # that it is of

    def after_snapshot(self, step: int) -> None:
        if time.monotonic() - self.saved >= min(self.cost / STATE_SHARE, STATE_SECONDS):
            self._save(step)

    def after_update(self, step: int) -> None:
        if time.monotonic() - self.saved >= STATE_SECONDS:
            self._save(step)

    def at_the_end(self, step: int) -> None:
        if self.step != step:
            self._save(step)

    def _save(self, step: int) -> None:
        start = time.monotonic()
        moments = self.adam.state_dict()["state"]
        self.run.save_state(step, {"model": self.model.state_dict(), "optimizer": moments})
        self.saved = time.monotonic()
        self.cost, self.step = self.saved - start, step


def _groups(model: nn.Module, optimizer: AdamW) -> list[dict[str, Any]]:
    """Parameters that decay, and those that don't; ValueError if none has such a name."""
    named = dict(model.named_parameters())
    for end in optimizer.undecayed:
        if not any(name.endswith(end) for name in named):
            raise ValueError(f"no parameter's name ends in {end!r}; there are {', '.join(named)}")
    kept = [tensor for name, tensor in named.items() if name.endswith(optimizer.undecayed)]
    others = [tensor for name, tensor in named.items() if not name.endswith(optimizer.undecayed)]
    return [{"params": others}, *([{"params": kept, "weight_decay": 0.0}] if kept else [])]


def _take_snapshot(
    step: int,
    model: nn.Module,
    measure: Callable[[int], Metrics] | None,
    weights: SnapshotWeights,
) -> Snapshot:
    with torch.no_grad():
        metrics = dict(measure(step)) if measure else {}
        kept: Mapping[str, Tensor] = {}
        if weights != "none":
            kept = model.state_dict() if weights == "all" else weights()
        # clones of tied tensors would come apart: one clone for all names of the same memory, which a matrix
        # and its transpose share too, but with other strides
        clones: dict[tuple[object, ...], Tensor] = {}
        copies = {
            name: clones.setdefault((t.data_ptr(), t.dtype, t.shape, t.stride()), t.detach().clone())
            for name, t in kept.items()
        }
    return Snapshot(step, metrics, copies)


def _resume(run: Run | None, model: nn.Module, adam: torch.optim.AdamW) -> int:
    """Bring model and optimizer to the run's last state; its step, 0 for a new run."""
    stored = run.load_state() if run else None
    if run is None or stored is None:
        if run is not None:
            run.truncate(-1)
        return 0
    step, state = stored
    model.load_state_dict(state["model"])
    adam.load_state_dict({**adam.state_dict(), "state": state["optimizer"]})
    run.truncate(step)
    return step


def _not_finite(loss: Tensor, step: int, names: Sequence[str]) -> str:
    """Which members lost their way at `step`."""
    wrong = [index for index, value in enumerate(loss.reshape(-1).tolist()) if not math.isfinite(value)]
    who = ", ".join(names[index] if index < len(names) else f"member {index}" for index in wrong)
    return (
        f"the loss is no longer finite at step {step} for {who}: lower the learning rate. "
        "What was stored before is kept"
    )


def keep_freed_memory() -> None:
    """Let glibc keep what a step frees for the next step, instead of requesting it again.

    Freeing one large block raises its thresholds for good, to twice the block's size: 64 MB.
    """
    torch.empty(32_000_000, dtype=torch.uint8)
