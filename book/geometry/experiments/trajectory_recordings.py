"""Language models recorded while they train: whose weights section 4 of the geometry paper draws.

A run is a byte model, recorded every few steps. Its recording is too large to be kept with results: it lies
in the cache folder, and is made again where it is missing.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import json
import shutil
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from filelock import lock_descriptor
from torch import Tensor

from book.geometry.experiments.steering_language import Setting
from embviz.ledger.cells import experiment, training_run
from embviz.models.transformer import Transformer, TransformerConfig
from embviz.pausing import Paused, time_is_over
from embviz.storage import cache_folder, whole_file
from embviz.training.language import Streams, TextConfig, draw_batch, load_streams, next_token_losses, score
from embviz.training.loop import train
from embviz.training.recorder import Recorder, Recording, read_recording
from embviz.training.snapshots import DamagedRunError, Run
from embviz.trajectories.autoencoders import Autoencoder
from embviz.trajectories.phases import Clustering
from embviz.trajectories.traces import Layout, Recipe

STORIES, WEB = TEXTS = ("short stories", "web text")
STANDARD, NO_Q, DECAY = VARIANTS = ("standard", "no Q", "decay only")
PARAMETERS: Mapping[str, str] = {  # of block l
    "Q": "blocks.{}.attention.query.weight",
    "K": "blocks.{}.attention.key.weight",
    "V": "blocks.{}.attention.value.weight",
    "MLP-up": "blocks.{}.up.weight",
    "MLP-down": "blocks.{}.down.weight",
}
EMBEDDING, JOINT = "embedding", "all"  # the token embedding; all tensors as one path
KINDS = (*PARAMETERS, EMBEDDING, JOINT)
SCORE = "score.json"  # of a recording: bits per byte of the held-out text at the end
BATCHES = "batches.txt"  # of a recording: step and loss of the next batch, one line per snapshot
SAMPLE_SEED = 1_000_003  # of the training sequences whose loss is followed: the same for all runs of a text


@dataclass(frozen=True)
class Pipeline:
    """From recorded weights to numbers; of several settings the first is the one that is judged."""

    neighbors: tuple[int, ...] = (15, 8, 30)  # of PyMDE
    sizes: tuple[int, ...] = (25, 15, 50)  # snapshots, the smallest phase of HDBSCAN
    n_walks: int = 3
    n_epochs: int = 300  # of the autoencoder
    max_iter: int = 300  # of PyMDE
    n_permutations: int = 999  # behind each p-value
    alternatives: bool = True  # UMAP, a hidden Markov model, held-out snapshots, shuffled losses

    @property
    def recipe(self) -> Recipe:
        """The judged one."""
        layout = Layout(n_neighbors=self.neighbors[0], max_iter=self.max_iter)
        return Recipe(Autoencoder(n_epochs=self.n_epochs), layout, Clustering(self.sizes[0]))


FULL = Pipeline()
LEAN = Pipeline(neighbors=(15,), alternatives=False)
LAPTOP = Setting(128, 5, 4, 512, 128, 16, 2_000, 1e-3)
PAPER = Setting(256, 5, 4, 1_024, 256, 64, 5_000, 3e-4, bfloat16=True)


@dataclass(frozen=True)
class TrajectoryRun:
    """A language model that is recorded while it trains; its seed is of weights, batches and pipeline."""

    source: TextConfig
    text: str = STORIES
    variant: str = STANDARD
    seed: int = 0
    setting: Setting = LAPTOP
    every: int = 2  # steps between two snapshots
    sketch: int = 256  # numbers that stand for a tensor
    pipeline: Pipeline = FULL

    def __post_init__(self) -> None:
        for name, value, known in (("text", self.text, TEXTS), ("variant", self.variant, VARIANTS)):
            if value not in known:
                raise ValueError(f"{name} is {value!r}: choose one of {', '.join(known)}")
        if self.setting.n_steps % self.every:
            raise ValueError(
                f"snapshots every {self.every} steps would miss the last of {self.setting.n_steps}"
            )

    @property
    def name(self) -> str:
        """What a reader is told."""
        variant = "" if self.variant == STANDARD else f", {self.variant}"
        return f"{self.text}{variant}, seed {self.seed}"

    @property
    def kinds(self) -> tuple[str, ...]:
        """Kinds of paths; of a run that only decays all tensors draw the same line."""
        if self.variant == DECAY:
            return (JOINT,)
        return tuple(kind for kind in KINDS if not (kind == "Q" and self.variant == NO_Q))

    def parameters(self, kind: str) -> dict[str, str]:
        """Names of parameters by tensor, such as "Q 1" for the first layer's; of all for the joint path."""
        if kind == JOINT:
            kinds = [one for one in KINDS[:-1] if not (one == "Q" and self.variant == NO_Q)]
            return {name: known for one in kinds for name, known in self.parameters(one).items()}
        if kind == EMBEDDING:
            return {EMBEDDING: EMBEDDING}
        return {f"{kind} {i + 1}": PARAMETERS[kind].format(i) for i in range(self.setting.n_layers)}

    @property
    def tensors(self) -> tuple[str, ...]:
        """Names of all paths, kind by kind: "Q 1", ..., "embedding", "all"."""
        one_by_one = [name for kind in self.kinds if kind != JOINT for name in self.parameters(kind)]
        return (*one_by_one, JOINT)

    def shape(self, n_symbols: int) -> TransformerConfig:
        """The model's shape for so many tokens."""
        shape = self.setting.shape(n_symbols, tied=False, start="small")
        return dataclasses.replace(shape, attention="no_q" if self.variant == NO_Q else "standard")


def kind_of(tensor: str) -> str:
    """The kind of matrix, "Q" of "Q 1"; the embedding and all tensors are kinds of their own."""
    return tensor.partition(" ")[0]


def layer_of(tensor: str) -> int:
    """From 1; 0 for the embedding and for all tensors."""
    return int(tensor.partition(" ")[2] or 0)


# --- recordings -------------------------------------------------------------------------------------


def recorded(run: TrajectoryRun) -> Recording:
    """The recording of a run, from the cache folder; made first where it is missing.

    Making it pauses when the time is over, see :mod:`embviz.pausing`, and goes on where it stopped, also
    after a kill. It has a snapshot of the weights before training, too. The loss is that of the same
    training sequences at each snapshot, as many as in a batch: of changing batches, differences would be
    noise.
    """
    folder = _folder(run)
    if not folder.is_dir():  # it is there whole or not at all
        with _alone(folder):
            if not folder.is_dir():
                partial = folder.with_name(f"{folder.name}.partial")
                _record(run, partial)
                partial.rename(folder)
    return _read_once(folder)


@functools.lru_cache(maxsize=1)
def _read_once(folder: Path) -> Recording:
    """Tensors of one run are drawn one after another; its distortion takes seconds."""
    return read_recording(folder, load=True)


@contextlib.contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """One process makes a recording; others wait for it, or pause when the time is over."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    with open(folder.with_name(f"{folder.name}.lock"), "w", encoding="utf-8") as file:
        while True:
            if lock_descriptor(file.fileno(), blocking=False):  # until the file is closed, whatever happens
                break
            if time_is_over():
                raise Paused(f"{folder} is being made by another process")
            time.sleep(0.1)
        yield


def _folder(run: TrajectoryRun) -> Path:
    return cache_folder() / "trajectories" / recordings.cell(without_pipeline(run)).key


def without_pipeline(run: TrajectoryRun) -> TrajectoryRun:
    return dataclasses.replace(run, pipeline=FULL)


def _record(run: TrajectoryRun, folder: Path) -> None:
    """Train and record, or go on with what was begun."""
    streams = load_streams(run.source)
    model = Transformer(run.shape(streams.vocab_size), seed=run.seed)
    model.to("cuda" if torch.cuda.is_available() else "cpu")
    cell = recordings.cell(without_pipeline(run))
    with training_run(cell, {run.source.corpus: streams.checksum}) as (training, slices):
        if not _goes_on(training, folder, run.every):
            training.truncate(-1)
            shutil.rmtree(folder, ignore_errors=True)
        _train(run, model, streams, training, folder)
        bits = score(model, streams.held_out, length=run.setting.length).bits_per_byte
    with whole_file(folder / SCORE) as temporary:
        temporary.write_text(json.dumps({"bits_per_byte": bits, "slices": slices}), encoding="utf-8")


def _goes_on(training: Run, folder: Path, every: int) -> bool:
    """Whether all snapshots before the state that training goes on from are there."""
    state = training.load_state()
    if state is None:
        return False
    try:
        steps = read_recording(folder).steps
    except (FileNotFoundError, DamagedRunError):
        return False
    return np.array_equal(steps[steps < state[0]], np.arange(0, state[0], every))


def _train(run: TrajectoryRun, model: Transformer, streams: Streams, training: Run, folder: Path) -> None:
    """Train, and take the snapshots that are due: before an update, and after the last."""
    setting, device = run.setting, next(model.parameters()).device
    draw = functools.partial(draw_batch, streams.train, batch_size=setting.batch_size, length=setting.length)
    sample = draw(seed=SAMPLE_SEED, step=0).to(device)
    about = {"run": dataclasses.asdict(without_pipeline(run)), "data": streams.checksum}

    with _Taker(run, model, sample, folder, about) as taker:

        def losses(step: int) -> Tensor:
            if step % run.every == 0:
                taker.take(step)
            if run.variant == DECAY:  # gradients of zero: AdamW's decay alone moves the weights
                return torch.stack([parameter.sum() for parameter in model.parameters()]).sum() * 0.0
            batch = draw(seed=run.seed, step=step).to(device)
            with torch.autocast(device.type, torch.bfloat16, enabled=setting.bfloat16):
                loss = next_token_losses(model, batch).mean()
            if step % run.every == 0:
                taker.note(step, loss)
            return loss

        states = train(
            model,
            losses,
            setting.training.optimizer,
            n_steps=setting.n_steps,
            snapshot_every=setting.n_steps,
            weights=dict,  # none: the recorder has them
            names=[run.name],
            run=training,
        )
        for _ in states:
            pass
        taker.take(setting.n_steps)
        with torch.no_grad():
            last = draw(seed=run.seed, step=setting.n_steps).to(device)
            taker.note(setting.n_steps, next_token_losses(model, last).mean())


class _Taker:
    """Takes snapshots; its recorder is made at the first, when the model is where training goes on from."""

    def __init__(
        self, run: TrajectoryRun, model: Transformer, sample: Tensor, folder: Path, about: Mapping[str, Any]
    ) -> None:
        self._run, self._model, self._sample = run, model, sample
        self._folder, self._about = folder, about
        self._recorder: Recorder | None = None

    def __enter__(self) -> _Taker:
        return self

    def __exit__(self, *exception: object) -> None:
        if self._recorder is not None:
            self._recorder.close()

    @torch.no_grad()
    def take(self, step: int) -> None:
        """Record the weights after `step` updates, unless they are recorded already."""
        if self._recorder is None:
            self._recorder = Recorder(
                self._model,
                self._folder,
                every=self._run.every,
                tensors=tuple(self._run.parameters(JOINT).values()),
                sketch=self._run.sketch,
                about=self._about,
                resume_at=step,
            )
        if self._recorder.n_snapshots <= step // self._run.every:
            loss = next_token_losses(self._model, self._sample).mean()
            self._recorder.step(step=step, loss=loss)

    def note(self, step: int, loss: Tensor) -> None:
        """Write the batch's loss down; of a step that is trained again after a kill, the last line counts."""
        with open(self._folder / BATCHES, "a", encoding="utf-8") as file:
            file.write(f"{step} {loss.item():.6f}\n")


def batch_losses(run: TrajectoryRun) -> np.ndarray:
    """Loss of the batch that is trained on next, at each snapshot, (S,); made with the recording.

    Raises
    ------
    ValueError
        If the recording has none, as of a run that only decays, or one made before they were noted.
    """
    recording = recorded(run)
    file = recording.folder / BATCHES
    lines = file.read_text(encoding="utf-8").splitlines() if file.is_file() else []
    known = {int(step): float(loss) for step, loss in (line.split(" ") for line in lines)}
    if missing := [step for step in recording.steps.tolist() if step not in known]:
        raise ValueError(
            f"{run.name}: the batch's loss is not known at {len(missing)} snapshots, the first at step "
            f"{missing[0]}: delete {recording.folder} to record it again"
        )
    return np.array([known[step] for step in recording.steps.tolist()])


@experiment("geometry.trajectory_recordings")
def recordings(config: TrajectoryRun) -> pd.DataFrame:
    """Record one run.

    Returns
    -------
    DataFrame
        One row per snapshot: step; loss, nats a token of the same training sequences; and bits_per_byte of
        the held-out text at the end, the same in all rows.
    """
    recording = recorded(config)
    about = json.loads((recording.folder / SCORE).read_text(encoding="utf-8"))
    table = pd.DataFrame(
        {
            "step": recording.steps,
            "loss": recording.losses.astype(np.float32),
            "bits_per_byte": about["bits_per_byte"],
        }
    )
    table.attrs |= {"data": data_of(config, recording), "slices": about.get("slices", [])}
    return table


def data_of(run: TrajectoryRun, recording: Recording) -> dict[str, str]:
    """What a recording was trained on: the corpus, and its checksum. The text needn't be at hand."""
    return {run.source.corpus: recording.metadata["about"]["data"]}
