"""Runs of other people's training loops: callbacks for Hugging Face's Trainer and for Lightning.

Both open a :class:`~embviz.runs.Run` when training begins, and go on with the run in the folder when training
begins at a later step, from a checkpoint. The libraries are loaded when a callback is asked for.
"""

from __future__ import annotations

import math
import os
import shutil
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from torch import Tensor, nn

from embviz.imports import require
from embviz.memory import format_bytes
from embviz.runs import Run, Sketch, run_bytes, select_weights


class _Recording:
    """What both callbacks do: a run from the first step to the last."""

    def __init__(
        self,
        folder: str | os.PathLike[str],
        every: int,
        tensors: str | Sequence[str] | None,
        sketch: int | Sketch | None,
        config: Any,
    ) -> None:
        self.folder, self.every, self.tensors = Path(folder), every, tensors
        self.sketch, self.config = sketch, config
        self.run: Run | None = None

    def begin(self, model: nn.Module, step: int, n_steps: int) -> None:
        self.end()  # of a training that broke off
        self.model, self.last = model, step
        self.run = Run.open(self.folder, config=self.config, sketch=self.sketch)
        if (steps := self.run.steps) and not step:
            self.end()
            raise ValueError(
                f"{self.folder} holds a run of steps {steps[0]} to {steps[-1]}: resume from a checkpoint "
                "to go on with it, or choose another folder"
            )
        self.run.truncate(step)
        self._warn_of_size(n_steps - step)

    def _warn_of_size(self, n_steps: int) -> None:
        """Say beforehand what will not fit on the disk."""
        n_snapshots = max(0, n_steps) // self.every
        n_bytes = run_bytes(select_weights(self.model, self.tensors), n_snapshots, sketch=self.sketch)
        free = shutil.disk_usage(self.folder).free
        if n_bytes > free:
            warnings.warn(
                f"{n_snapshots:,} snapshots will take {format_bytes(n_bytes)} in {self.folder}, where "
                f"{format_bytes(free)} are free: record seldom (every=), fewer tensors (tensors=), or "
                "sketches (sketch=Sketch(256, full=False))",
                stacklevel=3,
            )

    def store(self, step: int, loss: float | Tensor | None = None) -> None:
        """Store the weights after so many updates, if that is due."""
        if self.run is None or step // self.every <= self.last // self.every:
            return
        self.last = step
        self.run.append(
            step, select_weights(self.model, self.tensors), {} if loss is None else {"loss": loss}
        )

    def end(self) -> None:
        if self.run is not None:
            self.run.close()
        self.run = None


def trainer_callback(
    folder: str | os.PathLike[str],
    *,
    every: int = 1,
    tensors: str | Sequence[str] | None = None,
    sketch: int | Sketch | None = None,
    config: Any = None,
) -> Any:
    """A ``transformers.TrainerCallback`` that stores a run.

    Parameters
    ----------
    folder, sketch, config
        As of :meth:`embviz.runs.Run.open`.
    every : int
        Updates between two snapshots, which are of the steps that it divides.
    tensors : str or sequence of str, optional
        As of :func:`embviz.runs.select_weights`: by default all matrices.

    Notes
    -----
    ``Trainer(..., callbacks=[trainer_callback("recording", every=10, sketch=256)])``. Losses are those that
    the Trainer logs, means since it last did: with ``logging_steps`` equal to `every` each snapshot has one,
    and a warning says so where it hasn't. In distributed training the first process records.
    """
    require("adapters", "transformers", purpose="recording within Transformers")
    import transformers

    base: Any = transformers.TrainerCallback
    recording = _Recording(folder, every, tensors, sketch, config)

    class RunCallback(base):
        """Records weights after updates; where the Trainer logs, a moment later, with the loss."""

        def on_train_begin(self, args: Any, state: Any, control: Any, model: Any = None, **_: Any) -> None:
            self.waits_for_loss = False
            recording.end()
            if not state.is_world_process_zero:
                return
            recording.begin(model, state.global_step, state.max_steps)
            if args.logging_strategy != "steps" or every % state.logging_steps:
                warnings.warn(
                    f"most snapshots will have no loss, since the Trainer seldom logs one: set "
                    f"logging_strategy='steps' and logging_steps={every}",
                    stacklevel=2,
                )

        def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
            self.waits_for_loss = control.should_log  # which comes next
            if not self.waits_for_loss:
                recording.store(state.global_step)

        def on_log(self, args: Any, state: Any, control: Any, logs: Any = None, **_: Any) -> None:
            if self.waits_for_loss and "loss" in logs:
                self.waits_for_loss = False
                recording.store(state.global_step, logs["loss"])

        def on_train_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
            recording.end()

    return RunCallback()


def lightning_callback(
    folder: str | os.PathLike[str],
    *,
    every: int = 1,
    tensors: str | Sequence[str] | None = None,
    sketch: int | Sketch | None = None,
    config: Any = None,
) -> Any:
    """A ``lightning.pytorch.Callback`` that stores a run; parameters as of :func:`trainer_callback`.

    ``Trainer(..., callbacks=[lightning_callback("recording", every=10, sketch=256)])``. Losses are those that
    `training_step` returns, means over accumulated batches. In distributed training the first process
    records.
    """
    require("adapters", "lightning", purpose="recording within Lightning")
    import lightning

    base: Any = lightning.pytorch.Callback
    recording = _Recording(folder, every, tensors, sketch, config)

    class RunCallback(base):
        """Records weights after batches that an update came from."""

        def on_train_start(self, trainer: Any, pl_module: Any) -> None:
            recording.end()
            self.step, self.losses = trainer.global_step, list[Tensor]()
            if trainer.is_global_zero:
                n_steps = trainer.estimated_stepping_batches  # infinite, or -1, where Lightning cannot tell
                recording.begin(pl_module, self.step, int(n_steps) if 0 < n_steps < math.inf else 0)

        def on_train_batch_end(
            self, trainer: Any, pl_module: Any, outputs: Any, batch: Any, batch_idx: int
        ) -> None:
            if isinstance(outputs, Mapping) and "loss" in outputs:
                self.losses.append(outputs["loss"].detach())  # divided by the number of batches already
            if trainer.global_step == self.step:
                return
            self.step, losses, self.losses = trainer.global_step, self.losses, []
            recording.store(self.step, sum(losses) if losses else None)

        def on_train_end(self, trainer: Any, pl_module: Any) -> None:
            recording.end()

        def on_exception(self, trainer: Any, pl_module: Any, exception: BaseException) -> None:
            recording.end()

    return RunCallback()
