"""Grokking (a op b) mod p: how many epochs until the validation pairs are right, under one change at a time.

Source: geometry paper, sections 2.2, 2.3 and 6.5.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
import torch
from torch import Tensor, nn

from book.geometry.experiments.pairs import read_pairs
from book.geometry.grokfast import amplify_slow_gradients
from book.geometry.modular import ModularArithmetic, Operation
from book.ledger.cells import experiment
from book.projected import Adaptive, GradientProjection, Prescribed, RandomSubspace, Shuffled, stretched
from book.transformer import (
    Activation,
    Attending,
    Norm,
    Positions,
    StackedTransformers,
    Start,
    Transformer,
    TransformerConfig,
)
from embviz.training.fourier import power_spectrum
from embviz.training.loop import AdamW, keep_freed_memory

MEMORIZED = 0.99  # training accuracy
SHUFFLED, MATCHED, SWITCHED, DECAY, GROKFAST = CONTROLS = (
    "shuffled",  # the projection as if the residues stood in a random order
    "matched norm",  # what is kept has the norm of the full gradient
    "switched off after memorization",
    "decay on embedding only",
    "GrokFast",  # another way to change gradients, of all parameters
)
EVERY = 5  # epochs between two validations
SAMPLE, NEAR = 512, 0.4  # validation pairs looked at in each epoch; share right from which all are
N_KEPT = 2  # seeds whose embedding is kept at the end
PATIENCE = 20  # epochs at SOLVED before a seed stops
SOLVED = 0.999


@dataclass(frozen=True)
class Setting:
    """What the text leaves open, or fixes once for all runs."""

    batch_size: int = 0  # pairs; 0: all of them, one update an epoch
    n_layers: int = 2
    norm: Norm = "pre"
    positions: Positions = "learned"
    equals: bool = True  # strings end with "="
    biases: bool = False
    activation: Activation = "gelu"
    start: Start = "small"
    embedding_sd: float = 0.0  # of embedding and positions at the start; 0: as `start` has it
    learning_rate: float = 1e-3
    warm_up: int = 0  # updates
    weight_decay: float = 1.0
    beta2: float = 0.999
    bfloat16: bool = False  # products in half precision, by autocast


@dataclass(frozen=True)
class GrokkingRun:
    """Models of seeds `first_seed` to `first_seed` + `n_seeds` - 1; a seed is of weights, split and batches.

    At most one of `modes`, `top_k` and `subspace` says onto what the embedding's gradient is projected.
    """

    p: int = 97
    op: Operation = "+"
    train_share: float = 0.4
    attention: Attending = "standard"
    modes: tuple[int, ...] = ()  # prescribed
    top_k: int = 0  # adaptive: the gradient's strongest modes
    every: int = 1  # updates between two choices of them
    subspace: int = 0  # dimensions of a random one
    control: str = ""  # one of CONTROLS
    n_epochs: int = 1500
    first_seed: int = 0
    n_seeds: int = 1
    setting: Setting = Setting()

    def __post_init__(self) -> None:
        object.__setattr__(self, "modes", tuple(self.modes))
        n_projections = sum(map(bool, (self.modes, self.top_k, self.subspace)))
        if n_projections > 1:
            raise ValueError(f"give modes, top_k or subspace, one of them at most: {self}")
        if self.control not in ("", *CONTROLS):
            raise ValueError(f"control is {self.control!r}: choose one of {', '.join(CONTROLS)}, or none")
        if self.control in (SHUFFLED, MATCHED, SWITCHED) and not n_projections:
            raise ValueError(f"{self.control!r} changes a projection: give modes, top_k or subspace too")
        if min(self.n_epochs, self.n_seeds) < 1 or self.setting.batch_size < 0:
            raise ValueError(f"n_epochs and n_seeds must be at least 1, batch_size at least 0: {self}")
        _ = self.shape  # refuses options and shares that there are not
        if self.modes:
            Prescribed(self.modes).n_directions(self.p)  # refuses modes outside 0..p//2

    @property
    def task(self) -> ModularArithmetic:
        """The task, with its split."""
        return ModularArithmetic(self.p, self.op, self.train_share, self.setting.equals)

    @property
    def shape(self) -> TransformerConfig:
        """The model's shape."""
        chosen = self.setting
        return TransformerConfig(
            self.task.n_symbols,
            self.task.length,
            n_layers=chosen.n_layers,
            attention=self.attention,
            norm=chosen.norm,
            positions=chosen.positions,
            biases=chosen.biases,
            activation=chosen.activation,
            start=chosen.start,
            embedding_sd=chosen.embedding_sd,
        )

    @property
    def optimizer(self) -> AdamW:
        """A constant rate; warm-up comes on top."""
        rate = self.setting.learning_rate
        return AdamW(
            learning_rate=rate,
            min_learning_rate=rate,
            weight_decay=self.setting.weight_decay,
            beta2=self.setting.beta2,
            eps=1e-8,
        )

    @property
    def seeds(self) -> range:
        """Seeds of the run."""
        return range(self.first_seed, self.first_seed + self.n_seeds)

    @property
    def steps_per_epoch(self) -> int:
        """Updates in an epoch; the last batch of an epoch may be smaller."""
        return math.ceil(self.task.n_train / (self.setting.batch_size or self.task.n_train))

    def projection(self, seed: int) -> GradientProjection | None:
        """What the embedding's gradient is projected onto; random choices follow from the member's seed."""
        kept: GradientProjection
        if self.modes:
            kept = Prescribed(self.modes)
        elif self.top_k:
            kept = Adaptive(self.top_k, self.every)
        elif self.subspace:
            kept = RandomSubspace(self.subspace, seed)
        else:
            return None
        return Shuffled(kept, seed) if self.control == SHUFFLED else kept


@dataclass(frozen=True)
class Frame:
    """One seed after one epoch."""

    seed: int
    epoch: int  # epochs made so far
    step: int  # updates made so far
    train_accuracy: float  # in the epoch's batches, each before its update; of all pairs at epoch 0
    train_loss: float  # nats, likewise
    validation_accuracy: float | None  # None where it was not measured
    validation_loss: float | None  # nats
    embedding: np.ndarray  # of the residues, (p, D)

    @property
    def scores(self) -> dict[str, float]:
        """What was measured, by name."""
        names = ("train_accuracy", "train_loss", "validation_accuracy", "validation_loss")
        return {name: value for name in names if (value := getattr(self, name)) is not None}

    @property
    def spectrum(self) -> np.ndarray:
        """Power of each mode of the embedding along the residues, (p//2 + 1,)."""
        return power_spectrum(torch.from_numpy(self.embedding))


def grok(config: GrokkingRun, *, device: str | None = None) -> Iterator[Frame]:
    """Train, a frame each epoch and seed, from epoch 0 on: the caller's ``for`` loop goes on when it likes.

    Validation accuracy is measured every 5 epochs, and in each where 40% of a sample are right, so that no
    epoch is missed from 50% on. A seed stops once it had 99.9% for 20 epochs.

    Parameters
    ----------
    config : GrokkingRun
    device : str, optional
        By default "cuda" where there is one, with all seeds in one program, else "cpu", with the seeds in
        turn, which is as fast a seed there. On one device the same seed gives the same numbers to the bit.

    Raises
    ------
    FloatingPointError
        If a loss stops being finite: names the epoch and the seeds.
    ValueError
        If a split leaves an answer unseen in training.
    """
    keep_freed_memory()
    device = device or ("cuda" if torch.cuda.is_available() else "cpu")
    seeds: Sequence[Sequence[int]] = [[seed] for seed in config.seeds] if device == "cpu" else [config.seeds]
    groups = [Members(config, group, device) for group in seeds]
    for epoch in range(config.n_epochs + 1):
        for group in groups:
            if group.going:
                yield from group.frames(epoch)


class Members:
    """Seeds that train side by side, one or many: every tensor has a leading axis R, one row per seed."""

    def __init__(self, config: GrokkingRun, seeds: Sequence[int], device: str = "cpu") -> None:
        self.config, self.seeds, self.device = config, list(seeds), device
        self.going = set(self.seeds)
        self.step = 0
        singles = [Transformer(config.shape, seed=seed) for seed in seeds]
        self.model = (singles[0] if len(singles) == 1 else StackedTransformers(singles)).to(device)
        self.projections = [config.projection(seed) for seed in seeds]
        self._slow: dict[str, Tensor] = {}
        self._n_solved = dict.fromkeys(seeds, 0)  # epochs in a row
        task = config.task
        splits = [task.split(seed) for seed in seeds]
        self.train, self.validation = (
            torch.from_numpy(np.stack(parts)).to(device) for parts in zip(*splits, strict=True)
        )  # (R, pairs)
        self.strings = torch.from_numpy(task.strings()).to(device)
        self.answers = torch.from_numpy(task.answers()).to(device)

    @functools.cached_property
    def adam(self) -> torch.optim.AdamW:
        """Made at the first update: PyTorch takes a second to load its optimizers, after the first frame."""
        chosen = self.config.optimizer
        groups: list[list[Tensor]] = [[], []]  # the embedding, all others
        for name, parameter in self.model.named_parameters():
            groups[name not in ("embedding", "arrays.embedding")].append(parameter)
        decays = chosen.weight_decay, 0.0 if self.config.control == DECAY else chosen.weight_decay
        return torch.optim.AdamW(
            [{"params": group, "weight_decay": decay} for group, decay in zip(groups, decays, strict=True)],
            lr=chosen.learning_rate,
            betas=(chosen.beta1, chosen.beta2),
            eps=chosen.eps,
            fused=True,
        )

    @property
    def embeddings(self) -> Tensor:
        """Of the input symbols, (R, V, D)."""
        if isinstance(self.model, Transformer):
            return self.model.embedding[None]
        return self.model.weights["embedding"]

    def logits(self, rows: Tensor) -> Tensor:
        """Answers (R, B, V) to the pairs numbered `rows` (R, B)."""
        a, b = self.strings[rows, 0], self.strings[rows, 1]
        with torch.autocast(self.device, torch.bfloat16, enabled=self.config.setting.bfloat16):
            if isinstance(self.model, Transformer):
                return read_pairs(self.model, a[0], b[0])[None].float()
            return self.model.each(read_pairs, a, b).float()

    def scores(self, rows: Tensor) -> tuple[Tensor, Tensor]:
        """Mean cross entropy, nats, and share right of the pairs numbered `rows` (R, B), (R,) each."""
        logits, answers = self.logits(rows), self.answers[rows]
        losses = nn.functional.cross_entropy(logits.flatten(0, 1), answers.flatten(), reduction="none")
        right = logits.detach().argmax(-1) == answers
        return losses.view(rows.shape).mean(1), right.float().mean(1)

    def batches(self, epoch: int) -> Sequence[Tensor]:
        """The epoch's batches of pairs, (R, B) each; they follow from seed and epoch alone."""
        size = self.config.setting.batch_size
        if not size:
            return [self.train]
        n_train = self.train.shape[1]
        orders = [np.random.default_rng([seed, epoch, 1]).permutation(n_train) for seed in self.seeds]
        return self.train.gather(1, torch.from_numpy(np.stack(orders)).to(self.device)).split(size, dim=1)

    def train_epoch(self, epoch: int) -> tuple[Tensor, Tensor]:
        """Update on each batch; mean loss and share right (R,), each batch's from before its update."""
        totals = torch.zeros(2, len(self.seeds), device=self.device)
        for rows in self.batches(epoch):
            self.adam.zero_grad(set_to_none=True)
            losses, right = self.scores(rows)
            losses.sum().backward()
            self._project()
            if self.config.control == GROKFAST:
                amplify_slow_gradients(dict(self.model.named_parameters()), self._slow)
            for group in self.adam.param_groups:
                group["lr"] = self._rate()
            self.adam.step()
            self.step += 1
            totals += torch.stack([losses.detach(), right]) * (rows.shape[1] / self.train.shape[1])
        return totals[0], totals[1]

    def _rate(self) -> float:
        warm = min(1.0, (self.step + 1) / max(1, self.config.setting.warm_up))
        return self.config.optimizer.rate(self.step) * warm

    def _project(self) -> None:
        """Project the embedding's gradient, each member's by itself."""
        if not any(self.projections):
            return
        gradients = self.embedding_gradients()[:, : self.config.p]
        for gradient, projection in zip(gradients, self.projections, strict=True):
            if projection is not None:
                kept = projection.apply(gradient)
                gradient.copy_(stretched(kept, gradient) if self.config.control == MATCHED else kept)

    def embedding_gradients(self) -> Tensor:
        """Of the last backward pass, (R, V, D), to be changed in place."""
        if isinstance(self.model, Transformer):
            gradient = self.model.embedding.grad
            assert gradient is not None
            return gradient[None]
        gradient = self.model.arrays["embedding"].grad
        assert gradient is not None
        return gradient

    def frames(self, epoch: int) -> Iterator[Frame]:
        """Make an epoch, none if it is number 0, and tell how the seeds do that have not stopped."""
        if epoch == 0:
            with torch.no_grad():
                losses, right = self.scores(self.train)
        else:
            losses, right = self.train_epoch(epoch)
        train = list(zip(losses.tolist(), right.tolist(), strict=True))
        if lost := [
            seed for seed, (loss, _) in zip(self.seeds, train, strict=True) if not math.isfinite(loss)
        ]:
            raise FloatingPointError(
                f"the loss is no longer finite in epoch {epoch} for seed {lost}: lower the learning rate"
            )
        measured = self._validate(epoch)
        embeddings = self.embeddings.detach().cpu()
        for index, seed in enumerate(self.seeds):
            if self.config.control == SWITCHED and train[index][1] >= MEMORIZED:
                self.projections[index] = None
            if seed in self.going:
                self._count(seed, measured[index], epoch)
                residues = embeddings[index, : self.config.p].numpy().copy()
                yield Frame(seed, epoch, self.step, *train[index][::-1], *measured[index], residues)

    @torch.no_grad()
    def _validate(self, epoch: int) -> list[tuple[float | None, float | None]]:
        """Accuracy and loss of each seed on its validation pairs, where they are due."""
        due = [epoch % EVERY == 0 or epoch == self.config.n_epochs] * len(self.seeds)
        if not all(due):
            due = (self.scores(self.validation[:, :SAMPLE])[1] >= NEAR).tolist()
        if not any(due):
            return [(None, None)] * len(due)
        losses, right = (part.tolist() for part in self.scores(self.validation))
        return [(right[i], losses[i]) if due[i] else (None, None) for i in range(len(due))]

    def _count(self, seed: int, measured: tuple[float | None, float | None], epoch: int) -> None:
        accuracy = measured[0]
        if accuracy is not None:
            self._n_solved[seed] = self._n_solved[seed] + 1 if accuracy >= SOLVED else 0
        if self._n_solved[seed] >= PATIENCE:
            self.going.discard(seed)


# --- tables -----------------------------------------------------------------------------------------


@experiment("geometry.grokking", version=2)
def grokking(config: GrokkingRun) -> pd.DataFrame:
    """Train, and tabulate.

    Returns
    -------
    DataFrame
        seed, epoch, quantity, value. Quantities: train_accuracy and train_loss of every epoch,
        validation_accuracy and validation_loss where measured, power/MODE of the embedding at some 30
        epochs and at a seed's last; where modes are prescribed, embedding/RESIDUE of seeds 0 and 1 at the
        last, one row per coordinate in their order.
    """
    shown = set(spectrum_epochs(config.n_epochs))
    rows: list[tuple[int, int, str, float]] = []
    last: dict[int, Frame] = {}
    for frame in grok(config):
        rows += [(frame.seed, frame.epoch, name, value) for name, value in frame.scores.items()]
        if frame.epoch in shown:
            rows += _spectrum_rows(frame)
        last[frame.seed] = frame
    for seed, frame in last.items():
        if frame.epoch not in shown:
            rows += _spectrum_rows(frame)
        if config.modes and seed < N_KEPT:
            rows += [
                (seed, frame.epoch, f"embedding/{residue}", float(value))
                for (residue, _), value in np.ndenumerate(frame.embedding)
            ]
    return tabulated(rows)


def tabulated(rows: list[tuple[int, int, str, float]]) -> pd.DataFrame:
    """Rows of seed, epoch, quantity and value as a table."""
    table = pd.DataFrame(rows, columns=["seed", "epoch", "quantity", "value"])
    table = table.sort_values(["quantity", "seed", "epoch"], kind="stable", ignore_index=True)  # a small file
    return table.astype({"seed": np.int16, "epoch": np.int32, "value": np.float32})


def _spectrum_rows(frame: Frame) -> list[tuple[int, int, str, float]]:
    powers = enumerate(frame.spectrum.tolist())
    return [(frame.seed, frame.epoch, f"power/{mode}", power) for mode, power in powers]


def spectrum_epochs(n_epochs: int) -> list[int]:
    """Epochs at which spectra are kept: 0, and up to 30 from 1 to the last in equal ratios."""
    return [0, *np.unique(np.geomspace(1, n_epochs, 30).round().astype(int)).tolist()]


def first_epochs(
    table: pd.DataFrame, threshold: float, quantity: str = "validation_accuracy"
) -> list[tuple[int, int, bool]]:
    """The first epoch at which each seed was at `threshold` or above.

    Parameters
    ----------
    table : DataFrame
        Of :func:`grokking`, or several with further columns that tell the runs apart left out.
    threshold : float
        0.95 and 0.99 are the paper's two; at p = 97 and 113 no accuracy is 0.95 exactly, so that "above"
        and "at least" agree.
    quantity : str
        "train_accuracy" for the epoch of memorization.

    Returns
    -------
    list of (seed, epoch, reached)
        Where `reached` is false the seed never was there, and `epoch` is the last that was looked at. That is
        a censored time, not a time.
    """
    rows = (table["quantity"] == quantity).to_numpy()
    seeds, epochs, values = (table[column].to_numpy()[rows] for column in ("seed", "epoch", "value"))
    found = []
    for seed in np.unique(seeds).tolist():
        measured, there = epochs[seeds == seed], epochs[(seeds == seed) & (values >= threshold)]
        found.append((seed, int(there.min() if there.size else measured.max()), there.size > 0))
    return found


def spectra(table: pd.DataFrame) -> pd.DataFrame:
    """The embedding's power by seed, epoch and mode: columns seed, epoch, mode, power."""
    rows = table[table["quantity"].str.startswith("power/")]
    modes = rows["quantity"].str.removeprefix("power/").astype(int)
    return rows.drop(columns="quantity").rename(columns={"value": "power"}).assign(mode=modes)


def circle(embedding: np.ndarray, mode: int) -> np.ndarray:
    """Each residue's place in the two dimensions of the mode's cosine and sine components, (p, 2).

    The components are directions of the embedding space; the first axis is the cosine's, the second what
    the sine's adds at a right angle. A mode that the embedding has learned shows as a circle, on which
    residue a stands at the angle 2 pi `mode` a / p.
    """
    angles = 2 * np.pi * mode * np.arange(len(embedding)) / len(embedding)
    waves = np.stack([np.cos(angles), np.sin(angles)])  # (2, p)
    axes, triangle = np.linalg.qr((waves @ embedding).T)  # (D, 2)
    return embedding @ (axes * np.sign(np.diag(triangle)))
