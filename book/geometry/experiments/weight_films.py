"""Films of small language models and their weights, recorded on the way: loss, bits, how far each moves.

The same pictures are drawn from a model that trains while the reader watches.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from book.geometry.experiments.language_models import BASELINE, NO_Q, LanguageRun
from book.geometry.experiments.steering_language import Setting
from embviz.ledger.cells import Cell, experiment
from embviz.models.transformer import Transformer
from embviz.runs import Run, read_run, select_weights
from embviz.training.language import TextConfig, draw_batch, load_streams, next_token_losses, score
from embviz.training.loop import train

# a second a hundred updates on one core
SETTING = Setting(32, 2, 4, 128, 32, 16, 400, 5e-3)
TEXT = TextConfig("embedded", n_documents=600, n_held_out=5)
SHOWN = (BASELINE, NO_Q)
# ends of the names of matrices, and what they are called
PARTS: Mapping[str, str] = {
    "embedding": "embedding",
    "position": "positions",
    "query.weight": "query",
    "key.weight": "key",
    "value.weight": "value",
    "out.weight": "attention out",
    "up.weight": "MLP up",
    "down.weight": "MLP down",
    "free_head": "head",
}
WALKERS: Mapping[str, Sequence[str]] = {  # whose paths are drawn as curves
    "embedding": ("embedding",),
    "query": ("query",),
    "key": ("key",),
    "value": ("value",),
    "MLP": ("MLP up", "MLP down"),
}
ABSENT = -1.0  # the path of a matrix that the model hasn't


@dataclass(frozen=True)
class WeightFilm:
    """A small language model, recorded while it trains."""

    run: LanguageRun
    record_every: int = 2  # updates between two snapshots
    frame_every: int = 10  # updates between two pictures, a multiple
    sketch: int = 256  # numbers kept of a matrix; 0: all

    def __post_init__(self) -> None:
        if min(self.record_every, self.frame_every) < 1 or self.frame_every % self.record_every:
            raise ValueError(
                f"pictures are taken at snapshots: frame_every must be a multiple of record_every: {self}"
            )


def part_of(name: str) -> tuple[str, int]:
    """What a matrix of a transformer is, and of which layer, from 1; 0 where it belongs to none.

    >>> part_of("blocks.1.attention.query.weight")
    ('query', 2)
    """
    part = next((words for end, words in PARTS.items() if name.endswith(end)), name)
    return part, int(name.split(".")[1]) + 1 if name.startswith("blocks.") else 0


def label_of(name: str) -> str:
    """Words for a matrix: part and layer.

    >>> label_of("blocks.0.up.weight")
    'MLP up 1'
    """
    part, layer = part_of(name)
    return f"{part} {layer}" if layer else part


# --- training, recorded -----------------------------------------------------------------------------


def watch(film: WeightFilm, folder: Path) -> Iterator[tuple[int, Transformer, float]]:
    """Train, record into `folder`, and stop at each picture.

    Yields
    ------
    tuple
        Updates made; the model; the mean loss of the batches since the last picture, in nats, at first that
        of the first batch.
    """
    run, setting = film.run, film.run.setting
    streams = load_streams(run.text)
    model = Transformer(run.shape(streams.vocab_size), seed=run.seed)
    told: list[float] = []

    def losses(step: int) -> Tensor:
        batch = draw_batch(
            streams.train, seed=run.seed, step=step, batch_size=setting.batch_size, length=setting.length
        )
        loss = next_token_losses(model, batch).mean()
        told.append(loss.item())
        return loss

    with Run.open(folder, config=run.variant, sketch=film.sketch or None) as stored:
        with torch.no_grad():
            losses(0)
        for snapshot in train(
            model,
            losses,
            run.training.optimizer,
            n_steps=setting.n_steps,
            snapshot_at=film.record_every,
            weights="none",
        ):
            loss = float(np.mean(told[-film.record_every :]))
            stored.append(snapshot.step, select_weights(model), {"loss": loss})
            if snapshot.step % film.frame_every == 0:
                yield snapshot.step, model, float(np.mean(told))
                told.clear()


class Walked:
    """How far each matrix has walked, and how far from its start it is, in norms that it had there."""

    def __init__(self) -> None:
        self.n_read = 0
        self.starts: dict[str, np.ndarray] = {}
        self.last: dict[str, np.ndarray] = {}
        self.lengths: dict[str, float] = {}

    def read(self, run: Run) -> None:
        """Go on with the snapshots that came since the last time."""
        added = [run.weights(step) for step in run.steps[self.n_read :]]
        for name in added[0] if added else ():
            fresh = np.stack([weights[name].numpy().ravel() for weights in added]).astype(float)
            if name not in self.last:
                self.starts[name] = self.last[name] = fresh[0]
                self.lengths[name] = 0.0
            moves = np.diff(np.concatenate([self.last[name][None], fresh]), axis=0)
            self.lengths[name] += float(np.linalg.norm(moves, axis=1).sum())
            self.last[name] = fresh[-1]
        self.n_read = len(run.steps)

    def table(self) -> pd.DataFrame:
        """One row per matrix: `name`, `walked`, `away`."""
        norms = {name: float(np.linalg.norm(start)) for name, start in self.starts.items()}
        rows = [
            (
                name,
                self.lengths[name] / norm,
                float(np.linalg.norm(self.last[name] - self.starts[name])) / norm,
            )
            for name, norm in norms.items()
        ]
        return pd.DataFrame(rows, columns=["name", "walked", "away"])


# --- pictures ---------------------------------------------------------------------------------------


def pictures(film: WeightFilm) -> Iterator[pd.DataFrame]:
    """Train a model, record it into a folder that goes away, and picture it.

    Yields
    ------
    DataFrame
        `frame`, the step. Of the model as a whole: `loss` in nats a byte, of training batches;
        `bits_per_character` of held-out text; `key_share`, the leading singular value of W_K over the sum of
        all, mean of the layers; `walked_*` by :data:`WALKERS`, mean over its matrices, -1 where there is
        none. Rows of two kinds: `shown` "singular values" has `name`, the layer, `x` the rank and `y` the
        value; "moved" has a matrix's `name`, `x` its distance from the start and `y` the length of its path,
        both over its norm at the start.
    """
    streams, walked = load_streams(film.run.text), Walked()
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder) / "recording"
        for step, model, loss in watch(film, place):
            walked.read(read_run(place))
            moved = walked.table()
            bits = score(
                model, streams.held_out, length=film.run.setting.length, stride=film.run.setting.length
            )
            values = [_singular_values(model, layer) for layer in range(len(model.blocks))]
            told = {
                "frame": step,
                "loss": round(loss, 4),
                "bits_per_character": round(bits.bits_per_character, 4),
                "key_share": round(float(np.mean([own[0] / own.sum() for own in values])), 5),
                **_walks(moved),
            }
            yield pd.concat([_value_rows(values), _moved_rows(moved)], ignore_index=True).assign(**told)


@torch.no_grad()
def _singular_values(model: Transformer, layer: int) -> np.ndarray:
    weight = model.blocks[layer].attention.key.weight  # type: ignore[union-attr, union-attr]
    return torch.linalg.svdvals(weight).double().numpy()  # type: ignore[no-any-return, arg-type]


def _value_rows(values: Sequence[np.ndarray]) -> pd.DataFrame:
    rows = [
        ("singular values", f"layer {layer}", float(rank), round(float(value), 4))
        for layer, own in enumerate(values, start=1)
        for rank, value in enumerate(own, start=1)
    ]
    return pd.DataFrame(rows, columns=["shown", "name", "x", "y"])


def _moved_rows(moved: pd.DataFrame) -> pd.DataFrame:
    return pd.DataFrame(
        {
            "shown": "moved",
            "name": [label_of(name) for name in moved["name"]],
            "x": moved["away"].round(4),
            "y": moved["walked"].round(4),
        }
    )


def _walks(moved: pd.DataFrame) -> dict[str, float]:
    parts = pd.Series([part_of(name)[0] for name in moved["name"]])
    walks = {}
    for walker, own in WALKERS.items():
        lengths = moved.loc[parts.isin(own).to_numpy(), "walked"]
        walks[f"walked_{walker}"] = round(float(lengths.mean()), 4) if len(lengths) else ABSENT
    return walks


# --- cells ------------------------------------------------------------------------------------------


@experiment("geometry.weight_film")
def weight_film(config: WeightFilm) -> pd.DataFrame:
    """The pictures of a run, as :func:`pictures` has them."""
    table = pd.concat(list(pictures(config)), ignore_index=True)
    table.attrs["data"] = {config.run.text.corpus: load_streams(config.run.text).checksum}
    return table


def film_of(variant: str, *, n_steps: int = SETTING.n_steps) -> WeightFilm:
    """The film of a variant of :mod:`~.geometry.language_models`."""
    return WeightFilm(LanguageRun(TEXT, variant, setting=replace(SETTING, n_steps=n_steps)))


def film_cells(preset: str) -> list[Cell]:
    """A cell for each variant shown; `quick` ones are 60 updates long."""
    n_steps = 60 if preset == "quick" else SETTING.n_steps
    return [weight_film.cell(film_of(variant, n_steps=n_steps)) for variant in SHOWN]
