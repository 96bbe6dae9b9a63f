"""Language models recorded while they train: whose weights section 4 of the geometry paper draws.

A run is a byte model, recorded every few steps. Its recording is too large to be kept with results: it lies
in the cache folder, and is made again where it is missing.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
import json
import shutil
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
import safetensors.torch
import torch
from torch import Tensor

from book.geometry.experiments.steering_language import Setting
from book.language import Streams, TextConfig, draw_batch, load_streams, next_token_losses, score
from book.ledger.cells import experiment, sliced_run
from book.transformer import Transformer, TransformerConfig
from embviz.runs import Run, read_run, select_weights
from embviz.runs.run import FORMAT, STATE, WEIGHTS
from embviz.storage import BusyRunError, cache_folder, whole_file
from embviz.training.loop import train
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
SIDE_BY_SIDE = "(all)"  # the tensors of a recording as one vector
KINDS = (*PARAMETERS, EMBEDDING, JOINT)
SCORE = "score.json"  # of a recording: bits per byte of the held-out text at the end
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
    """The kind of matrix, "Q" of "Q 1"; the embedding is a kind, and so are all tensors together."""
    return tensor.partition(" ")[0]


def layer_of(tensor: str) -> int:
    """From 1; 0 for the embedding and for all tensors."""
    return int(tensor.partition(" ")[2] or 0)


# --- recordings -------------------------------------------------------------------------------------


class Recording:
    """A finished run, with its tensors in memory once they were asked for.

    Attributes
    ----------
    run : Run
    folder : Path
    steps : array of int, shape (S,)
    losses : array, shape (S,), nats a token of the same training sequences
    """

    def __init__(self, folder: Path) -> None:
        self.run, self.folder = read_run(folder), folder
        self.metrics = self.run.metrics()
        self.steps, self.losses = self.metrics["step"].to_numpy(), self.metrics["loss"].to_numpy()

    @functools.cached_property
    def tensors(self) -> dict[str, np.ndarray]:
        """Sketches by name, (S, P) each."""
        return self.run.tensors()

    @functools.cached_property
    def distortion(self) -> pd.DataFrame:
        return distortion(self.run)


def distortion(run: Run) -> pd.DataFrame:
    """How far a run's sketches are off, measured between the few snapshots that are stored in full too.

    Returns
    -------
    DataFrame, one row per tensor and one, called "(all)", for all side by side
        ``tensor``; ``median``, ``q95`` and ``worst`` of the relative error of a pair's distance,
        ``abs(sketched / true - 1)``; NaN where no pair has any.
    """
    files = sorted((run.folder / WEIGHTS).glob("*.safetensors"))
    full = [safetensors.torch.load_file(file) for file in files]
    kept = [run.weights(int(file.stem)) for file in files]
    # squared distances (2, pairs), true and sketched; of tensors side by side they add up
    squares = {
        name: np.array([_squared_distances([one[name] for one in stored]) for stored in (full, kept)])
        for name in full[0]
    }
    squares[SIDE_BY_SIDE] = np.sum(list(squares.values()), axis=0)
    rows = []
    for name, (true, sketched) in squares.items():
        apart = true > 0
        errors = np.abs(np.sqrt(sketched[apart] / true[apart]) - 1)
        quantiles = np.quantile(errors, [0.5, 0.95, 1.0]) if len(errors) else np.full(3, np.nan)
        rows.append((name, *quantiles))
    return pd.DataFrame(rows, columns=["tensor", "median", "q95", "worst"])


def _squared_distances(snapshots: Sequence[Tensor]) -> list[float]:
    """Of all pairs."""
    pairs = itertools.combinations([one.double().flatten() for one in snapshots], 2)
    return [float((one - other).square().sum()) for one, other in pairs]


def recorded(run: TrajectoryRun) -> Recording:
    """The recording of a run, from the cache folder; made first where it is missing.

    Making it goes on where it stopped, also after a kill. It has a snapshot of the weights before training,
    too. The loss is that of the same training sequences at each snapshot, as many as in a batch: of changing
    batches, differences would be noise.
    """
    folder = _folder(run)
    while not folder.is_dir():  # it is there whole or not at all
        try:
            _record(run, folder)
        except BusyRunError:  # another process makes it
            time.sleep(0.1)
    return _read_once(folder)


@functools.lru_cache(maxsize=1)
def _read_once(folder: Path) -> Recording:
    """Tensors of one run are drawn one after another; its distortion takes seconds."""
    return Recording(folder)


def _folder(run: TrajectoryRun) -> Path:
    return cache_folder() / f"recordings-{FORMAT}" / recordings.cell(without_pipeline(run)).key


def without_pipeline(run: TrajectoryRun) -> TrajectoryRun:
    return dataclasses.replace(run, pipeline=FULL)


def _record(run: TrajectoryRun, folder: Path) -> None:
    """Train and record, or go on with what was begun; the folder is there at the end."""
    streams = load_streams(run.source)
    about = {"run": dataclasses.asdict(without_pipeline(run)), "data": streams.checksum}
    partial = folder.with_name(f"{folder.name}.partial")
    with sliced_run(partial, about, sketch=run.sketch) as (stored, slices):
        if folder.is_dir():  # another process has made it meanwhile
            shutil.rmtree(partial)
            return
        model = Transformer(run.shape(streams.vocab_size), seed=run.seed)
        model.to("cuda" if torch.cuda.is_available() else "cpu")
        _train(run, model, streams, stored)
        bits = score(model, streams.held_out, length=run.setting.length).bits_per_byte
        with whole_file(partial / SCORE) as temporary:
            temporary.write_text(json.dumps({"bits_per_byte": bits, "slices": slices}), encoding="utf-8")
        partial.rename(folder)
        (folder / STATE).unlink()  # it is over


def _train(run: TrajectoryRun, model: Transformer, streams: Streams, stored: Run) -> None:
    """Train; snapshots are stored before an update, and after the last."""
    setting, device = run.setting, next(model.parameters()).device
    draw = functools.partial(draw_batch, streams.train, batch_size=setting.batch_size, length=setting.length)
    sample = draw(seed=SAMPLE_SEED, step=0).to(device)

    def losses(step: int) -> Tensor:
        if run.variant == DECAY:  # gradients of zero: AdamW's decay alone moves the weights
            return torch.stack([parameter.sum() for parameter in model.parameters()]).sum() * 0.0
        with torch.autocast(device.type, torch.bfloat16, enabled=setting.bfloat16):
            return next_token_losses(model, draw(seed=run.seed, step=step).to(device)).mean()

    def measure(step: int) -> dict[str, float]:
        return {"loss": next_token_losses(model, sample).mean().item()}

    for _ in train(
        model,
        losses,
        setting.training.optimizer,
        n_steps=setting.n_steps,
        snapshot_at=run.every,
        measure=measure,
        weights=lambda: select_weights(model, tuple(run.parameters(JOINT).values())),
        names=[run.name],
        run=stored,
    ):
        pass


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
    """What a recording was trained on: the corpus, and its checksum. The text needn't be available."""
    return {run.source.corpus: recording.run.config["data"]}
