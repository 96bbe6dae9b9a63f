"""One training loop as a generator, for one model or for many side by side."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from embviz.pausing import Paused, time_is_over

if TYPE_CHECKING:
    from embviz.training.snapshots import Run

Metrics = Mapping[str, float | Sequence[float]]
STATE_SECONDS = 60.0  # at most between two states of a run, so that a kill costs no more than that


@dataclass(frozen=True)
class AdamW:
    """AdamW with a cosine schedule; the defaults are those of the tying paper's EXor runs.

    Its moments are all that it remembers: the learning rate is a function of the step.
    """

    learning_rate: float = 5e-4  # at step 0
    min_learning_rate: float = 1e-5  # half a period later; equal to learning_rate for a constant rate
    half_period: int = 10_000  # steps: down for as many, up for as many, without a restart
    weight_decay: float = 0.1
    beta1: float = 0.9
    beta2: float = 0.999
    eps: float = 1e-12  # the authors' program; PyTorch's default is 1e-8
    undecayed: tuple[str, ...] = ()  # ends of the names of parameters that don't decay

    def __post_init__(self) -> None:
        if not 0 < self.min_learning_rate <= self.learning_rate or self.half_period < 1:
            raise ValueError(
                f"rates must be above 0, the least at most the first, the period at least 1: {self}"
            )
        if self.weight_decay < 0 or not (0 <= self.beta1 < 1 and 0 <= self.beta2 < 1) or self.eps <= 0:
            raise ValueError(f"weight decay must not be negative, betas below 1, eps above 0: {self}")

    def rate(self, step: int) -> float:
        """Learning rate of update `step`, counted from 0 (PyTorch's CosineAnnealingLR in closed form)."""
        half = (self.learning_rate - self.min_learning_rate) / 2
        return self.min_learning_rate + half * (1 + math.cos(math.pi * step / self.half_period))


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
    snapshot_every: int,
    measure: Callable[[int], Metrics] | None = None,
    weights: Callable[[], Mapping[str, Tensor]] | None = None,
    names: Sequence[str] = ("model",),
    run: Run | None = None,
    after_backward: Callable[[int], None] | None = None,
) -> Iterator[Snapshot]:
    """Train, and stop at each snapshot: the caller's ``for`` loop goes on when it likes.

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
    snapshot_every : int
        Updates between two snapshots. The first is taken before any, the last after all.
    measure : function of the step, optional
        Metrics of a snapshot; numbers, or lists of R numbers.
    weights : function, optional
        What a snapshot keeps; by default the model's parameters and persistent buffers.
    names : sequence of str
        What the members are called, for error messages.
    run : Run, optional
        Where snapshots are stored as they are taken, and a state every minute. A run that was stopped goes
        on from its last state and, on one machine with the same number of threads, ends with the bits of
        an unbroken one.
    after_backward : function of the step, optional
        Called between the backward pass and the update; it may change the parameters' gradients in place,
        as :func:`~embviz.training.project_gradients` does. The run doesn't store what it remembers from one
        step to the next.

    Yields
    ------
    Snapshot
        Those that `run` does not hold yet.

    Raises
    ------
    FloatingPointError
        If a loss stops being finite: names the step and the member. Stored snapshots are kept.
    ValueError
        If `snapshot_every` is below 1, or the run is already longer than `n_steps`.
    Paused
        If there is a `run` and the time is over, see :mod:`embviz.pausing`: after an update at least.
    """
    if snapshot_every < 1:
        raise ValueError(f"snapshot_every must be at least 1, got {snapshot_every}")
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
    taken, saved = set(run.steps) if run else set(), time.monotonic()
    while True:
        if (step % snapshot_every == 0 or step == n_steps) and step not in taken:
            yield _take_snapshot(step, model, adam, measure, weights, run)
            saved = time.monotonic()
        if step == n_steps:
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
        if run is not None:
            saved = _save_at_times(run, step, model, adam, saved)


def _save_at_times(run: Run, step: int, model: nn.Module, adam: torch.optim.AdamW, saved: float) -> float:
    """Save the state if the last one is old or the time is over; when the last one was saved."""
    over = time_is_over()
    if not over and time.monotonic() - saved < STATE_SECONDS:
        return saved
    run.save_state(step, _state(model, adam))
    if over:
        raise Paused(f"{run.folder} has paused after {step} steps: the same call goes on from there")
    return time.monotonic()


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
    adam: torch.optim.AdamW,
    measure: Callable[[int], Metrics] | None,
    weights: Callable[[], Mapping[str, Tensor]] | None,
    run: Run | None,
) -> Snapshot:
    with torch.no_grad():
        metrics = dict(measure(step)) if measure else {}
        kept = weights() if weights else model.state_dict()
        # clones of tied tensors would come apart: one clone for each storage
        clones: dict[tuple[object, ...], Tensor] = {}
        copies = {
            name: clones.setdefault(_view(tensor), tensor.detach().clone()) for name, tensor in kept.items()
        }
    if run is not None:
        run.append(step, metrics, copies)
        run.save_state(step, _state(model, adam))
    return Snapshot(step, metrics, copies)


def _view(tensor: Tensor) -> tuple[object, ...]:
    """What two names of one tensor share, and a matrix and its transpose don't."""
    return tensor.data_ptr(), tensor.dtype, tensor.shape, tensor.stride()


def _state(model: nn.Module, adam: torch.optim.AdamW) -> dict[str, Tensor]:
    """All that the next update depends on, apart from the step."""
    state = {f"model.{name}": tensor for name, tensor in model.state_dict().items()}
    for index, moments in adam.state_dict()["state"].items():
        state |= {f"optimizer.{index}.{name}": tensor for name, tensor in moments.items()}
    return state


def _resume(run: Run | None, model: nn.Module, adam: torch.optim.AdamW) -> int:
    """Bring model and optimizer to the run's last state; its step, 0 for a new run."""
    stored = run.load_state() if run else None
    if run is None or stored is None:
        if run is not None:
            run.truncate(-1)
        return 0
    step, state = stored
    model.load_state_dict({name[6:]: value for name, value in state.items() if name.startswith("model.")})
    moments: dict[int, dict[str, Tensor]] = {}
    for name, value in state.items():
        if name.startswith("optimizer."):
            _, index, moment = name.split(".", 2)
            moments.setdefault(int(index), {})[moment] = value
    adam.load_state_dict({**adam.state_dict(), "state": moments})
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
    """Let glibc keep what a step frees for the next step, instead of faulting it in anew.

    Freeing one large block raises its thresholds for good, to twice the block's size: 64 MB.
    """
    torch.empty(32_000_000, dtype=torch.uint8)
