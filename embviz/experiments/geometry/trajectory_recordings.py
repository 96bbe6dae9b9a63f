"""Language models recorded while they train: whose weights section 4 of the geometry paper draws.

A run is a byte model, recorded every few steps. Its recording is too large to be kept with results: it lies
in the cache folder, and is made again where it is missing.
"""

from __future__ import annotations

import contextlib
import dataclasses
import fcntl
import functools
import json
import shutil
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from embviz.autoencoders import Autoencoder
from embviz.cells import experiment
from embviz.experiments.geometry.steering_language import Setting
from embviz.language import TextConfig, draw_batch, load_streams, next_token_losses, score
from embviz.models.transformer import Transformer, TransformerConfig
from embviz.phases import Clustering
from embviz.recorder import Recorder, Recording, read_recording
from embviz.storage import cache_folder, whole_file
from embviz.training import train
from embviz.trajectories import Layout, Recipe

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

    def shape(self, n_symbols: int) -> TransformerConfig:
        """The model's shape for so many tokens."""
        shape = self.setting.shape(n_symbols, tied=False, start="small")
        return dataclasses.replace(shape, attention="no_q" if self.variant == NO_Q else "standard")


# --- recordings -------------------------------------------------------------------------------------


def recorded(run: TrajectoryRun) -> Recording:
    """The recording of a run, from the cache folder; made first where it is missing.

    It has a snapshot of the weights before training, too. The loss is that of the same training sequences
    at each snapshot, as many as in a batch: of changing batches, differences would be noise.
    """
    folder = _folder(run)
    if not folder.is_dir():  # it is there whole or not at all
        with _alone(folder):
            if not folder.is_dir():
                partial = folder.with_name(f"{folder.name}.partial")
                shutil.rmtree(partial, ignore_errors=True)  # a kill left it
                _record(run, partial)
                partial.rename(folder)
    return read_recording(folder, load=True)


@contextlib.contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """One process makes a recording; others wait for it."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    with open(folder.with_name(f"{folder.name}.lock"), "w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)  # until the file is closed, however that comes about
        yield


def _folder(run: TrajectoryRun) -> Path:
    return cache_folder() / "trajectories" / recordings.cell(without_pipeline(run)).key


def without_pipeline(run: TrajectoryRun) -> TrajectoryRun:
    return dataclasses.replace(run, pipeline=FULL)


def _record(run: TrajectoryRun, folder: Path) -> None:
    streams, setting = load_streams(run.source), run.setting
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    model = Transformer(run.shape(streams.vocab_size), seed=run.seed).to(device)
    draw = functools.partial(draw_batch, streams.train, batch_size=setting.batch_size, length=setting.length)
    sample = draw(seed=SAMPLE_SEED, step=0).to(device)

    def losses(step: int) -> Tensor:
        if run.variant == DECAY:  # gradients of zero: AdamW's decay alone moves the weights
            return torch.stack([parameter.sum() for parameter in model.parameters()]).sum() * 0.0
        batch = draw(seed=run.seed, step=step).to(device)
        with torch.autocast(device.type, torch.bfloat16, enabled=setting.bfloat16):
            return next_token_losses(model, batch).mean()

    def measure_loss(step: int) -> dict[str, float]:
        return {"loss": next_token_losses(model, sample).mean().item()}

    snapshots = train(
        model,
        losses,
        setting.training.optimizer,
        n_steps=setting.n_steps,
        snapshot_every=run.every,
        measure=measure_loss,
        weights=dict,
        names=[run.name],
    )
    names = tuple(run.parameters(JOINT).values())
    about = {"run": dataclasses.asdict(without_pipeline(run)), "data": streams.checksum}
    with Recorder(model, folder, every=run.every, tensors=names, sketch=run.sketch, about=about) as recorder:
        for snapshot in snapshots:
            recorder.step(step=snapshot.step, loss=snapshot.metrics["loss"])  # type: ignore[arg-type]
    bits = score(model, streams.held_out, length=setting.length).bits_per_byte
    with whole_file(folder / "score.json") as temporary:
        temporary.write_text(json.dumps({"bits_per_byte": bits}))


@experiment("geometry.trajectory_recordings")
def recordings(config: TrajectoryRun) -> pd.DataFrame:
    """Record one run.

    Returns
    -------
    DataFrame
        A row a snapshot: step; loss, nats a token of the same training sequences; and bits_per_byte of the
        held-out text at the end, the same in all rows.
    """
    recording = recorded(config)
    bits = json.loads((recording.folder / "score.json").read_text())["bits_per_byte"]
    table = pd.DataFrame(
        {"step": recording.steps, "loss": recording.losses.astype(np.float32), "bits_per_byte": bits}
    )
    table.attrs["data"] = {config.source.corpus: load_streams(config.source).checksum}
    return table
