"""MiniGPTs trained on a short text, seeds side by side, as the kernel paper's section 3 has it.

The text is cut into blocks of T tokens, each with the token after it; what is left at the end is not read. An
epoch reads every block once in an order of its own, a batch at a time, the last batch with what is left.
Measures are taken on the finished run, from the weights that it kept.
"""

from __future__ import annotations

import dataclasses
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from book.kernel.experiments.texts import Text, TextReading, load
from book.kernel.minigpt import MiniGPTConfig, StackedMiniGPT
from book.ledger.cells import experiment, training_run
from book.members import Member
from embviz.training.loop import AdamW, Metrics, Snapshot, SnapshotWeights, train

if TYPE_CHECKING:
    from embviz.runs import Run

SHAPE = MiniGPTConfig(vocab_size=100)
N_SCORED = 512  # blocks of the training text at most, evenly spaced
SCORE_STEP = 1 << 40  # where scores under dropout draw their masks: no update comes that far


@dataclass(frozen=True)
class KernelRun:
    """Models of one shape on one text, of `n_seeds` seeds from `first_seed` on, side by side."""

    text: TextReading = field(default_factory=TextReading)
    shape: MiniGPTConfig = SHAPE  # its vocab_size is made the text's
    n_epochs: int = 200
    batch_size: int = 32  # blocks
    learning_rate: float = 3e-4  # constant
    weight_decay: float = 0.01  # of every parameter, as PyTorch's AdamW has it
    n_seeds: int = 5
    first_seed: int = 0
    tied: bool = True
    n_snapshots: int = 12
    keep_all: bool = False  # embeddings of every snapshot, not of the first and the last alone

    def __post_init__(self) -> None:
        if min(self.n_epochs, self.batch_size, self.n_seeds) < 1 or self.n_snapshots < 2:
            raise ValueError(f"epochs, batches and seeds must be at least 1, snapshots 2: {self}")
        shape = dataclasses.replace(self.shape, vocab_size=self.text.vocab_size)
        object.__setattr__(self, "shape", shape)  # so that one text and one model go by one key

    @property
    def members(self) -> tuple[Member, ...]:
        """In the order of the stacked axis."""
        seeds = range(self.first_seed, self.first_seed + self.n_seeds)
        return tuple(Member(seed, self.tied) for seed in seeds)

    @property
    def optimizer(self) -> AdamW:
        """AdamW with PyTorch's betas and epsilon."""
        return AdamW(
            learning_rate=self.learning_rate,
            min_learning_rate=self.learning_rate,
            weight_decay=self.weight_decay,
            eps=1e-8,
        )


@experiment("kernel.minigpt")
def minigpt(config: KernelRun) -> pd.DataFrame:
    """Train, and tabulate what :func:`measures` and :func:`embedding` read.

    Returns
    -------
    DataFrame
        seed, step, quantity, index, value. At every snapshot, index 0: "train_loss" and "held_out_loss",
        mean cross entropy without dropout, nats, the former on at most 512 blocks; "dropout_loss", that of
        the same blocks with dropout, which a training log shows; "weight_norm", of all weights;
        "update_norm", by how much the last update moved the input embedding (none at step 0). Of the first
        snapshot and the last, or of all: "embedding", index i D + j for coordinate j of word i, and of
        untied models "head", their output embedding. Once, of the first seed, "vocab_size".
    """
    session = prepare(config)
    data = {config.text.corpus: session.text.checksum}
    with training_run(minigpt.cell(config), data) as (run, slices):
        session.train(run)
        table = session.table(run)
    table.attrs |= {"data": data, "slices": slices}
    return table


def prepare(config: KernelRun, *, embeddings: Tensor | None = None) -> Session:
    """A run made ready, nothing trained yet; `embeddings` (R, V, D) replace the random ones.

    Raises
    ------
    ValueError
        If the training text is shorter than one block, or as :func:`book.kernel.experiments.texts.load`.
    """
    return Session(config, load(config.text), embeddings)


class Session:
    """Members, their batches, and what is measured on them."""

    def __init__(self, config: KernelRun, text: Text, embeddings: Tensor | None = None) -> None:
        self.config, self.text = config, text
        self.device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
        self.model = StackedMiniGPT(config.shape, config.members)
        if embeddings is not None:
            self.model.set_embeddings(embeddings)
        self.model.to(self.device)
        self.blocks = cut_blocks(text.ids, config.shape.length).to(self.device)  # (n, T + 1)
        self.held_out = cut_blocks(text.held_out, config.shape.length).to(self.device)
        self._orders: tuple[int, Tensor] | None = None

    @property
    def n_steps_an_epoch(self) -> int:
        """Updates."""
        return -(-len(self.blocks) // self.config.batch_size)

    @property
    def n_steps(self) -> int:
        """Updates in all."""
        return self.config.n_epochs * self.n_steps_an_epoch

    @property
    def snapshot_steps(self) -> list[int]:
        """Updates made at each snapshot."""
        return geometric_steps(self.n_steps, self.config.n_snapshots)

    def batches(self, step: int) -> Tensor:
        """Tokens (R, B, T + 1) of update `step`, from 0; a seed's are the same whoever else is there."""
        epoch, offset = divmod(step, self.n_steps_an_epoch)
        if self._orders is None or self._orders[0] != epoch:
            tag = zlib.crc32(b"order of blocks")
            orders = [
                np.random.default_rng([member.seed, epoch, tag]).permutation(len(self.blocks))
                for member in self.config.members
            ]
            self._orders = epoch, torch.from_numpy(np.stack(orders)).to(self.device)
        size = self.config.batch_size
        return self.blocks[self._orders[1][:, offset * size : (offset + 1) * size]]

    def losses(self, step: int) -> Tensor:
        """Of each member on its batch of update `step`, with dropout, (R,), nats."""
        return self.model.losses(self.batches(step), step)

    def train(self, run: Run) -> None:
        """Train from the beginning, or from where `run` stopped; it keeps all weights at every snapshot.

        And of the update before each, to know by how much one update moves the embedding.
        """
        ends = {end for step in self.snapshot_steps for end in (step - 1, step) if end >= 0}
        for _ in train(
            self.model,
            self.losses,
            self.config.optimizer,
            n_steps=self.n_steps,
            snapshot_at=ends,
            names=[f"seed {member.seed}" for member in self.config.members],
            run=run,
        ):
            pass

    def snapshots(
        self,
        every: int,
        *,
        measure: Callable[[int], Metrics] | None = None,
        weights: SnapshotWeights = "none",
    ) -> Iterator[Snapshot]:
        """Train from the beginning and keep nothing but what the caller takes, every so many updates."""
        names = [f"seed {member.seed}" for member in self.config.members]
        yield from train(
            self.model,
            self.losses,
            self.config.optimizer,
            n_steps=self.n_steps,
            snapshot_at=every,
            measure=measure,
            weights=weights,
            names=names,
        )

    def table(self, run: Run) -> pd.DataFrame:
        """The cell's table of a finished run."""
        steps, seeds = self.snapshot_steps, [member.seed for member in self.config.members]
        parts = [rows_of(seeds[:1], 0, "vocab_size", torch.tensor([[self.config.shape.vocab_size]]))]
        for step in steps:
            self.model.load_state_dict(run.weights(step))
            found = self.measure()
            if step > 0:
                before = run.weights(step - 1)
                moved = self.model.embedding.detach().cpu() - before["arrays.embedding"]
                found["update_norm"] = moved.flatten(1).norm(dim=1)
            parts += [rows_of(seeds, step, name, values[:, None]) for name, values in found.items()]
            if self.config.keep_all or step in (steps[0], steps[-1]):
                parts.append(rows_of(seeds, step, "embedding", self.model.embedding))
                if not self.config.tied:
                    parts.append(rows_of(seeds, step, "head", self.model.head))
        return pd.concat(parts, ignore_index=True)

    @torch.no_grad()
    def measure(self) -> dict[str, Tensor]:
        """Losses and norm of the members as they are now, (R,) each; see :func:`minigpt`."""
        n_scored = min(N_SCORED, len(self.blocks))
        sample = self.blocks[torch.linspace(0, len(self.blocks) - 1, n_scored).long()]
        squares = [array.flatten(1).square().sum(1) for array in self.model.weights.values()]
        return {
            "train_loss": self._score(sample),
            "dropout_loss": self._score(sample, dropout=True),
            "held_out_loss": self.held_out_losses(),
            "weight_norm": torch.stack(squares).sum(0).sqrt().cpu(),
        }

    @torch.no_grad()
    def held_out_losses(self) -> Tensor:
        """Of the members as they are now, without dropout, (R,), nats."""
        return self._score(self.held_out)

    def _score(self, blocks: Tensor, *, dropout: bool = False) -> Tensor:
        """Mean loss of each member on blocks (n, T + 1), a batch at a time, (R,)."""
        total = torch.zeros(len(self.config.members))
        for index, part in enumerate(blocks.split(self.config.batch_size)):
            tokens = part.expand(len(total), -1, -1)
            losses = self.model.losses(tokens, SCORE_STEP + index if dropout else None)
            total += losses.cpu() * len(part) / len(blocks)
        return total


def cut_blocks(ids: np.ndarray, length: int) -> Tensor:
    """Blocks (n, T + 1) of a text (N,), each beginning with the last token of the one before.

    Raises
    ------
    ValueError
        If the text has no whole block.
    """
    n_blocks = (len(ids) - 1) // length
    if n_blocks < 1:
        raise ValueError(
            f"a text of {len(ids)} tokens has no block of {length + 1}: lower the shape's length"
        )
    places = np.arange(n_blocks)[:, None] * length + np.arange(length + 1)
    return torch.from_numpy(ids.astype(np.int64)[places])


def geometric_steps(n_steps: int, n_snapshots: int) -> list[int]:
    """Step 0, then steps that grow by a constant factor, from a 200th of all to the last.

    >>> geometric_steps(2_000, 5)
    [0, 10, 58, 342, 2000]
    """
    first = max(1, round(n_steps / 200))
    later = np.geomspace(first, n_steps, n_snapshots - 1) if n_snapshots > 2 else [n_steps]
    return sorted({0, *(round(float(step)) for step in later)})


def rows_of(seeds: list[int], step: int, quantity: str, values: Tensor) -> pd.DataFrame:
    """Values (R, ...) as a long table."""
    flat = values.detach().cpu().flatten(1).numpy().astype(np.float32)
    table = pd.DataFrame({"seed": np.repeat(seeds, flat.shape[1]).astype(np.int16)})
    table["step"] = np.int32(step)
    table["quantity"] = quantity
    table["index"] = np.tile(np.arange(flat.shape[1], dtype=np.int32), len(flat))
    table["value"] = flat.ravel()
    return table


# --- reading a table ----------------------------------------------------------------------------------


def measures(table: pd.DataFrame) -> pd.DataFrame:
    """What was measured, wide.

    Returns
    -------
    DataFrame
        seed, step, train_loss, dropout_loss, held_out_loss, weight_norm, update_norm (NaN at step 0), see
        :func:`minigpt`; one row per seed and step.
    """
    measured = table[~table["quantity"].isin(("embedding", "head", "vocab_size"))]
    names = list(dict.fromkeys(measured["quantity"]))
    wide = measured.pivot(index=["seed", "step"], columns="quantity", values="value")[names]
    wide.columns.name = None
    return wide.reset_index()


def embedding(
    table: pd.DataFrame,
    seed: int,
    step: int | Literal["first", "last"] = "last",
    *,
    output: bool = False,
) -> np.ndarray:
    """A model's embedding, (V, D), float64: the input embedding, or an untied model's output embedding.

    Raises
    ------
    ValueError
        If the table doesn't hold it; the message names the seeds and steps that it holds.
    """
    quantity = "head" if output else "embedding"
    rows = table[table["quantity"] == quantity]
    steps, seeds = sorted(set(rows["step"].tolist())), sorted(set(rows["seed"].tolist()))
    if not steps:
        raise ValueError("only untied models have a separate output embedding: leave out `output`")
    wanted = {"first": steps[0], "last": steps[-1]}.get(step, step) if isinstance(step, str) else step
    if seed not in seeds or wanted not in steps:
        raise ValueError(
            f"no {quantity} of seed {seed} at step {step} is stored: there are seeds {seeds}, steps {steps}; "
            "a run with keep_all=True keeps every snapshot's"
        )
    own = rows[(rows["seed"] == seed) & (rows["step"] == wanted)].sort_values("index")["value"]
    n_words = int(table.loc[table["quantity"] == "vocab_size", "value"].iloc[0])
    return own.to_numpy(dtype=np.float64).reshape(n_words, -1)
