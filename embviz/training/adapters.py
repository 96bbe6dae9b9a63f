"""The recorder in other people's loops: callbacks for Hugging Face's Trainer and for Lightning.

Both make a :class:`~embviz.training.Recorder` when training begins, and go on with the recording in
the folder when it begins at a later step, from a checkpoint. The libraries are loaded when a callback is
asked for.
"""

from __future__ import annotations

import functools
import os
import warnings
from collections.abc import Mapping, Sequence
from typing import Any

from torch import Tensor, nn

from embviz import imports
from embviz.training.recorder import Recorder, Sketch


class _Recording:
    """What both callbacks do: a recorder from the first step to the last."""

    def __init__(self, make: functools.partial[Recorder]) -> None:
        self.make = make
        self.recorder: Recorder | None = None

    def begin(self, model: nn.Module, step: int) -> None:
        self.end()  # of a training that broke off
        self.recorder = self.make(model, resume_at=step or None)

    def end(self) -> None:
        if self.recorder is not None:
            self.recorder.close()
        self.recorder = None


def trainer_callback(
    folder: str | os.PathLike[str],
    *,
    every: int = 1,
    tensors: str | Sequence[str] | None = None,
    sketch: int | Sketch | None = None,
    about: Any = None,
) -> Any:
    """A ``transformers.TrainerCallback`` that records; parameters as of :class:`~embviz.training.Recorder`.

    ``Trainer(..., callbacks=[trainer_callback("recording", every=10, sketch=256)])``. Losses are those that
    the Trainer logs, means since it last did: with ``logging_steps`` equal to `every` each snapshot has one,
    and a warning says so where it hasn't. In distributed training the first process records.

    Raises
    ------
    MissingExtraError
        If `transformers` is not installed.
    """
    base: Any = imports.import_transformers().TrainerCallback
    recording = _Recording(
        functools.partial(Recorder, folder=folder, every=every, tensors=tensors, sketch=sketch, about=about)
    )

    class RecorderCallback(base):
        """Records weights after updates; where the Trainer logs, a moment later, with the loss."""

        def on_train_begin(self, args: Any, state: Any, control: Any, model: Any = None, **_: Any) -> None:
            self.waits_for_loss = False
            recording.end()
            if not state.is_world_process_zero:
                return
            recording.begin(model, state.global_step)
            if args.logging_strategy != "steps" or every % state.logging_steps:
                warnings.warn(
                    f"most snapshots will have no loss, since the Trainer seldom logs one: set "
                    f"logging_strategy='steps' and logging_steps={every}",
                    stacklevel=2,
                )

        def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
            self.waits_for_loss = control.should_log  # which comes next
            if recording.recorder and not self.waits_for_loss:
                recording.recorder.step(step=state.global_step)

        def on_log(self, args: Any, state: Any, control: Any, logs: Any = None, **_: Any) -> None:
            if recording.recorder and self.waits_for_loss and "loss" in logs:
                self.waits_for_loss = False
                recording.recorder.step(step=state.global_step, loss=logs["loss"])

        def on_train_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
            recording.end()

    return RecorderCallback()


def lightning_callback(
    folder: str | os.PathLike[str],
    *,
    every: int = 1,
    tensors: str | Sequence[str] | None = None,
    sketch: int | Sketch | None = None,
    about: Any = None,
) -> Any:
    """A ``lightning.pytorch.Callback`` that records; parameters as of :class:`~embviz.training.Recorder`.

    ``Trainer(..., callbacks=[lightning_callback("recording", every=10, sketch=256)])``. Losses are those that
    `training_step` returns, means over accumulated batches. In distributed training the first process
    records.

    Raises
    ------
    MissingExtraError
        If `lightning` is not installed.
    """
    base: Any = imports.import_lightning().pytorch.Callback
    recording = _Recording(
        functools.partial(Recorder, folder=folder, every=every, tensors=tensors, sketch=sketch, about=about)
    )

    class RecorderCallback(base):
        """Records weights after batches that an update came from."""

        def on_train_start(self, trainer: Any, pl_module: Any) -> None:
            recording.end()
            self.step, self.losses = trainer.global_step, list[Tensor]()
            if trainer.is_global_zero:
                recording.begin(pl_module, self.step)

        def on_train_batch_end(
            self, trainer: Any, pl_module: Any, outputs: Any, batch: Any, batch_idx: int
        ) -> None:
            if isinstance(outputs, Mapping) and "loss" in outputs:
                self.losses.append(outputs["loss"].detach())  # divided by the number of batches already
            if trainer.global_step == self.step:
                return
            self.step, losses, self.losses = trainer.global_step, self.losses, []
            if recording.recorder:
                recording.recorder.step(step=self.step, loss=sum(losses) if losses else None)

        def on_train_end(self, trainer: Any, pl_module: Any) -> None:
            recording.end()

        def on_exception(self, trainer: Any, pl_module: Any, exception: BaseException) -> None:
            recording.end()

    return RecorderCallback()
