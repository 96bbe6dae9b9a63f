"""EXor: what the embeddings of two spellings do, tied and untied, in three architectures.

Source: tying paper, section 5 and appendices C.1-C.6.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from book.ledger.cells import experiment, training_run
from book.members import Member
from book.tying.languages import exor as tasks
from book.tying.languages.exor import MASK, ONE_A, ONE_B, SYMBOLS, ZERO_A, ZERO_B, EXor, EXorStream
from book.tying.models.encoders import Encoder, EncoderConfig
from book.tying.models.stacked import StackedEncoder
from embviz.training.loop import AdamW, train

SYMBOL_SETS = {"both": EXor(), "ones": EXor(p_0a=1.0), "zeros": EXor(p_1a=1.0)}
SPLIT_SEED = 14  # one split of the strings for all runs
N_SHOWN = 2  # seeds whose embeddings are kept at every snapshot, for the player

# The hidden widths that the text leaves out are those of the authors' program.
SIZES = {
    ("transformer", "small"): EncoderConfig(),
    ("transformer", "medium"): EncoderConfig(n_layers=2, embedding_dim=32, hidden_dim=32),
    ("lstm", "small"): EncoderConfig("lstm", n_layers=2, hidden_dim=8),
    ("lstm", "one layer"): EncoderConfig("lstm", n_layers=1, hidden_dim=8),
    ("lstm", "medium"): EncoderConfig("lstm", n_layers=4, embedding_dim=32, hidden_dim=32),
    ("mixer", "small"): EncoderConfig("mixer", hidden_dim=8),
    ("mixer", "medium"): EncoderConfig("mixer", n_layers=2, embedding_dim=32, hidden_dim=32, token_dim=32),
}


@dataclasses.dataclass(frozen=True)
class Reading:
    """One way to read what the text leaves open; the defaults are what the authors' program does."""

    positions: bool = False
    all_ones: bool = False  # 128 strings instead of 127
    redraw_spelling: bool = True  # at each step, or once
    redraw_mask: bool = True


READINGS = {
    "program": Reading(),
    "fixed": Reading(redraw_spelling=False, redraw_mask=False),
    "fixed spelling": Reading(redraw_spelling=False),
    "128 strings": Reading(all_ones=True),
    "positions": Reading(positions=True),
}


@dataclasses.dataclass(frozen=True)
class EXorRun:
    """Models of one kind, tied and untied, of seeds 0 to `n_seeds` - 1, side by side."""

    architecture: str = "transformer"
    size: str = "small"
    symbols: str = "both"  # which pairs of spellings there are: "both", "ones" or "zeros"
    n_steps: int = 150_000
    n_seeds: int = 5
    learning_rate: float = 5e-4
    weight_decay: float = 0.1
    rank: int = 0  # of the encodings; 0: full
    reading: str = "program"

    @property
    def seeds(self) -> range:
        """Seeds of the models."""
        return range(self.n_seeds)

    @property
    def least_rate(self) -> float:
        """Learning rate at the bottom of the schedule: the paper's 1e-5 for its 5e-4."""
        return self.learning_rate / 50

    def start(self, member: Member) -> Encoder | None:
        """The model that a member starts from; None for ``Encoder(seed=member.seed)``."""
        return None


@dataclasses.dataclass(frozen=True)
class FreshRun(EXorRun):
    """Models of seeds that nobody had looked at when a claim was amended: `first_seed` and following."""

    first_seed: int = 20
    drawn: str = "ours"  # initial weights; "program": both embeddings before all else, tied or not

    @property
    def seeds(self) -> range:
        return range(self.first_seed, self.first_seed + self.n_seeds)

    @property
    def least_rate(self) -> float:
        return min(1e-5, self.learning_rate)  # of the program, whatever the rate at the top

    def start(self, member: Member) -> Encoder | None:
        return None if self.drawn == "ours" else start_of_program(_shape(self), member)


def start_of_program(config: EncoderConfig, member: Member) -> Encoder:
    """A transformer before training with its weights drawn in the order of the authors' program.

    Input embedding, output embedding (also where it is then replaced by the input embedding), layers. The
    program draws on a GPU, whose generator gives other numbers for the same seed.
    """
    model = Encoder(config, tied=member.tied, seed=member.seed)
    shape = (config.vocab_size, config.embedding_dim)
    with torch.random.fork_rng(devices=[]), torch.no_grad():
        torch.manual_seed(member.seed)
        model.input_embedding.copy_(torch.randn(shape))
        output = torch.randn(shape)
        if model.free_output is not None:
            model.free_output.copy_(output)
        layer = torch.nn.TransformerEncoderLayer(
            config.embedding_dim, 1, config.hidden_dim, dropout=0.0, activation="gelu", batch_first=True
        )
        for index in range(config.n_layers):  # copies of one layer
            own = model.body.get_submodule(f"layers.{index}")
            own.load_state_dict(layer.state_dict())
    return model


@experiment("tying.exor")
def exor(config: EXorRun) -> pd.DataFrame:
    """Train, and tabulate every snapshot.

    Returns
    -------
    DataFrame
        seed, tied, step, quantity, value: what :class:`Gauge` measures; coordinates of the embeddings,
        those of all seeds but the first two at the last step alone; every weight of the first small models
        at the end.
    """
    session = prepare(config)
    shown = range(len(session.members))[: 2 * N_SHOWN]
    with training_run(exor.cell(config), {}) as (run, slices):
        for _ in session.snapshots(snapshot_at=max(1, config.n_steps // 150), run=run):
            pass
        rows = [run.metrics().melt(["step", "member"], var_name="quantity")]
        every = 1 if session.model.config.embedding_dim <= 8 else 5
        for step in run.steps[::every]:
            rows += [_arrays(run.weights(step), index, step) for index in shown]
        weights = run.weights(config.n_steps)
        rows += [_arrays(weights, index, config.n_steps) for index in range(len(session.members))]
    if config.size == "small":
        rows += [_whole_model(session.model, index, config.n_steps) for index in shown]
    table = pd.concat(rows, ignore_index=True).drop_duplicates(["step", "member", "quantity"])
    members = pd.DataFrame([dataclasses.asdict(member) for member in session.members])
    table = (
        members.loc[table["member"]].reset_index(drop=True).join(table.drop(columns="member").reset_index())
    )
    table = table.drop(columns="index").astype({"value": np.float32, "seed": np.int16, "step": np.int32})
    table.attrs["slices"] = slices
    return table


@experiment("tying.exor_ends")
def exor_ends(config: FreshRun) -> pd.DataFrame:
    """Train untied models alone, and keep their last step: many seeds in little room.

    Returns
    -------
    DataFrame
        seed, and a column for each number that :class:`Gauge` measures.
    """
    session = prepare(config, tyings=(False,))
    with training_run(exor_ends.cell(config), {}) as (run, slices):
        for _ in session.snapshots(snapshot_at=max(1, config.n_steps // 30), run=run):
            pass
        table = run.metrics()
    table = table[table["step"] == config.n_steps].sort_values("member")
    table.insert(0, "seed", [member.seed for member in session.members])
    table = table.drop(columns=["step", "member"]).reset_index(drop=True)
    table.attrs["slices"] = slices
    return table


def _arrays(weights: Mapping[str, Tensor], member: int, step: int) -> pd.DataFrame:
    """Embeddings (R, V, D) of one member, one row per coordinate, called ``input/0A/0``."""
    parts = []
    for name, array in weights.items():
        table = array[member].numpy()  # (V, D)
        names = [f"{name}/{symbol}/{axis}" for symbol in SYMBOLS for axis in range(table.shape[1])]
        parts.append(pd.DataFrame({"quantity": names, "value": table.ravel()}))
    return pd.concat(parts).assign(step=step, member=member)


def _whole_model(model: StackedEncoder, member: int, step: int) -> pd.DataFrame:
    """Every weight of one member, a row a number, called ``weights/NAME/0``; see :func:`load_model`."""
    parts = []
    for name, array in model.member(member).state_dict().items():
        values = array.numpy().ravel()
        names = [f"weights/{name}/{index}" for index in range(len(values))]
        parts.append(pd.DataFrame({"quantity": names, "value": values}))
    return pd.concat(parts).assign(step=step, member=member)


def load_model(config: EXorRun, table: pd.DataFrame, *, seed: int, tied: bool) -> Encoder:
    """A stored small model as it was after its last step, from the table of its cell.

    Raises
    ------
    ValueError
        If the cell keeps no whole model of that seed.
    """
    rows = table[(table["seed"] == seed) & (table["tied"] == tied)]
    rows = rows[rows["quantity"].str.startswith("weights/")]
    if rows.empty:
        raise ValueError(f"whole models are kept of small runs, seeds 0 to {N_SHOWN - 1}, not of {config}")
    model = Encoder(_shape(config), tied=tied, seed=seed)
    names = rows["quantity"].str.extract(r"^weights/(.+)/(\d+)$")
    values = rows.assign(name=names[0], at=names[1].astype(int)).sort_values("at").groupby("name")["value"]
    arrays = {name: torch.tensor(part.to_numpy()) for name, part in values}
    shapes = {name: array.shape for name, array in model.state_dict().items()}
    model.load_state_dict({name: arrays[name].reshape(shape) for name, shape in shapes.items()})
    return model.eval()


def prepare(config: EXorRun, *, task: EXor | None = None, tyings: Sequence[bool] = (False, True)) -> Session:
    """A run made ready, nothing trained yet; `tyings` of each seed.

    Raises
    ------
    ValueError
        If the architecture, size, set of symbols or reading is unknown; the message lists those there are.
    """
    for value, known in (
        ((config.architecture, config.size), SIZES),
        (config.symbols, SYMBOL_SETS),
        (config.reading, READINGS),
    ):
        if value not in known:
            raise ValueError(f"no {value!r}: choose one of {', '.join(map(str, known))}")
    reading = READINGS[config.reading]
    members = [Member(seed, tied) for seed in config.seeds for tied in tyings]
    model = StackedEncoder(_shape(config), members)
    starts = [config.start(member) for member in members]
    if None not in starts:
        model.stack(starts)  # type: ignore[arg-type]
    return Session(
        model,
        task or SYMBOL_SETS[config.symbols],
        reading,
        AdamW(
            learning_rate=config.learning_rate,
            min_learning_rate=config.least_rate,
            weight_decay=config.weight_decay,
            eps=1e-12,  # the authors' program
        ),
        n_steps=config.n_steps,
    )


def _shape(config: EXorRun) -> EncoderConfig:
    size, reading = SIZES[config.architecture, config.size], READINGS[config.reading]
    return dataclasses.replace(size, positions=reading.positions, rank=config.rank)


class Session:
    """Members, their batches, and what is measured on them."""

    def __init__(
        self, model: StackedEncoder, task: EXor, reading: Reading, optimizer: AdamW, *, n_steps: int
    ) -> None:
        self.model, self.optimizer, self.n_steps = model, optimizer, n_steps
        self.train_strings, self.held_out = tasks.split_strings(
            task, seed=SPLIT_SEED, all_ones=reading.all_ones
        )
        stream = EXorStream(
            task,
            self.train_strings,
            redraw_spelling=reading.redraw_spelling,
            redraw_mask=reading.redraw_mask,
        )
        self.batches = StackedBatches(stream, model.members)
        self.gauge = Gauge(model, task, self.train_strings, self.held_out)

    @property
    def members(self) -> tuple[Member, ...]:
        """Members in the order of the stacked axis."""
        return self.model.members

    def snapshots(self, *, snapshot_at: int, run=None):  # type: ignore[no-untyped-def]
        """Train from the beginning, or from where `run` stopped; yields snapshots."""
        return train(
            self.model,
            lambda step: self.model.losses(*self.batches.at(step)),
            self.optimizer,
            n_steps=self.n_steps,
            snapshot_at=snapshot_at,
            measure=self.gauge.measure,
            weights=self.gauge.embeddings,
            names=[f"seed {m.seed}, {'tied' if m.tied else 'untied'}" for m in self.members],
            run=run,
        )


def used_pairs(task: EXor) -> dict[str, tuple[int, int]]:
    """Pairs of symbols in use: both spellings of 1, of 0, and an unrelated pair, the paper's where it exists.

    >>> used_pairs(EXor(p_0a=1.0))
    {'11': (2, 3), '01': (0, 3)}
    """
    pairs = {}
    if 0 < task.p_1a < 1:
        pairs["11"] = (ONE_A, ONE_B)
    if 0 < task.p_0a < 1:
        pairs["00"] = (ZERO_A, ZERO_B)
    return {**pairs, "01": (ZERO_A if task.p_0a > 0 else ZERO_B, ONE_B if task.p_1a < 1 else ONE_A)}


class StackedBatches:
    """The batches of all members at a step; tied and untied members of a seed see the same ones."""

    def __init__(self, stream: EXorStream, members: Sequence[Member]) -> None:
        self.stream = stream
        self.seeds = sorted({member.seed for member in members})
        self.rows = torch.tensor([self.seeds.index(member.seed) for member in members])
        self._block: tuple[int, list[Tensor]] | None = None

    def at(self, step: int) -> tuple[Tensor, Tensor, Tensor]:
        """Tokens (R, B, T), places (R, B) and targets (R, B) of update `step`, counted from 0."""
        index, offset = divmod(step, self.stream.block)
        if self._block is None or self._block[0] != index:
            drawn = [self.stream.batches(seed, index) for seed in self.seeds]
            stacked = [
                torch.from_numpy(np.stack(parts, 1).astype(np.int64)) for parts in zip(*drawn, strict=True)
            ]
            self._block = index, stacked  # each (block, seeds, B, ...)
        tokens, places, targets = (part[offset].index_select(0, self.rows) for part in self._block[1])
        return tokens, places, targets


class Gauge:
    """What is measured on the members at a snapshot.

    Scores are expectations under the exact conditional distribution, on every string masked at every
    place in two random spellings; `sampled_accuracy` is the fraction right on the held-out strings in one
    fixed spelling, masked once, as the authors' program plots it, and `sampled_loss` the cross entropy
    there, in nats.
    """

    def __init__(self, model: StackedEncoder, task: EXor, train: np.ndarray, held_out: np.ndarray) -> None:
        self.model, self.pairs = model, used_pairs(task)
        self.bits = [symbol for symbol in range(4) if task.spellings.ravel()[symbol] > 0]
        rng = np.random.default_rng([SPLIT_SEED, 1])
        strings = np.concatenate([train, held_out, train, held_out])
        contexts = task.every_mask(strings, rng)
        self.contexts = torch.from_numpy(contexts.astype(np.int64))
        self.exact = torch.from_numpy(task.conditional(contexts)).float()  # (n, V)
        n_train = len(train) * task.n_bits
        half = len(contexts) // 2
        self.is_train = torch.arange(len(contexts)) % half < n_train
        self.floor = -torch.special.xlogy(self.exact, self.exact).sum(
            1
        )  # the exact distribution's loss, (n,)
        places = rng.integers(task.n_bits, size=len(held_out) - 1)
        sample, answers = tasks.hide(task.spell(held_out[:-1], rng), places)
        self.sample, self.answers = (
            torch.from_numpy(sample.astype(np.int64)),
            torch.from_numpy(answers.astype(np.int64)),
        )

    def embeddings(self) -> dict[str, Tensor]:
        """Input and output embeddings, each (R, V, D)."""
        return {"input": self.model.input_embedding, "output": self.model.output_embedding}

    def measure(self, step: int) -> dict[str, list[float]]:
        """Metrics of the members as they are now, a list of R numbers each."""
        found = {**self.scores(), **self.distances(), **self.bounds()}
        return {name: values.tolist() for name, values in found.items()}

    def scores(self) -> dict[str, Tensor]:
        """Expected accuracies, losses above the optimum (nats), differences of the logits of two spellings,
        and the encodings' smallest relative axis."""
        encoded = self._read(self.contexts)
        right = self._expected_accuracy(encoded.logits)
        above = -(self.exact * encoded.logits.log_softmax(-1)).sum(-1) - self.floor  # (R, n)
        singular_values = torch.linalg.svdvals(encoded.encodings)
        sampled = self._read(self.sample).logits.log_softmax(-1)  # (R, 12, V)
        said = sampled.gather(-1, self.answers.expand(len(sampled), -1)[..., None])[..., 0]
        return {
            "accuracy": right.mean(1),
            "train_accuracy": right[:, self.is_train].mean(1),
            "held_accuracy": right[:, ~self.is_train].mean(1),
            "sampled_accuracy": (sampled.argmax(-1) == self.answers).float().mean(1),
            "sampled_loss": -said.mean(1),
            **self._logit_gaps(encoded.logits),
            "loss_gap": above.mean(1),
            "train_loss_gap": above[:, self.is_train].mean(1),
            "held_loss_gap": above[:, ~self.is_train].mean(1),
            "span": singular_values[:, -1] / singular_values[:, 0],
        }

    def _logit_gaps(self, logits: Tensor) -> dict[str, Tensor]:
        """Logit of spelling B minus logit of spelling A, mean over contexts of that bit, (R,)."""
        gaps = {}
        for name, (a, b) in self.pairs.items():
            if name != "01":
                asked = self.exact[:, a] > 0
                gaps[f"logit_{name}"] = (logits[:, asked, b] - logits[:, asked, a]).mean(1)
        return gaps

    def distances(self) -> dict[str, Tensor]:
        """Euclidean distances of pairs and mean norms, in each matrix."""
        found = {}
        for matrix, rows in self.embeddings().items():
            for name, (u, v) in self.pairs.items():
                found[f"{matrix}_{name}"] = (rows[:, u] - rows[:, v]).norm(dim=1)
            zeros = [rows[:, symbol] for symbol in self.bits if symbol <= ZERO_B]
            ones = [rows[:, symbol] for symbol in self.bits if symbol >= ONE_A]
            apart = [(zero - one).norm(dim=1) for zero in zeros for one in ones]
            found[f"{matrix}_unrelated"] = torch.stack(apart).mean(0)
            found[f"{matrix}_norm"] = rows[:, self.bits].norm(dim=2).mean(1)
        return found

    def bounds(self) -> dict[str, Tensor]:
        """Theorem 4.2's bound on the input distance of each pair; before its last steps, where it applies."""
        found = {}
        for name, pair in self.pairs.items():
            strings = [_strings_with(symbol, tuple(self.bits)) for symbol in pair]
            sizes = [context_norms(self.model.input_embedding, tokens) for tokens in strings]  # (R, n)
            found[f"bound_{name}"] = 2 * torch.maximum(*sizes).amin(1)
            if self.model.config.architecture == "transformer" and self.model.config.n_layers == 1:
                found[f"tight_{name}"] = self._tight_bound(strings, sizes)
        return found

    def _tight_bound(self, strings: Sequence[Tensor], sizes: Sequence[Tensor]) -> Tensor:
        """Equation 37: what the attention weights say, smallest over contexts, (R,)."""
        attention = [self._read(tokens).attention for tokens in strings]
        assert attention[0] is not None
        assert attention[1] is not None
        change = (attention[0] - attention[1]).norm(dim=2)  # (R, n)
        here = [
            part[:, :, 1].clamp(min=1e-20) for part in attention if part is not None
        ]  # the attention that u and v get
        bounds = torch.minimum(change * sizes[0] / here[1], change * sizes[1] / here[0])
        return bounds.amin(1)

    def _read(self, tokens: Tensor):  # type: ignore[no-untyped-def]
        """All members read the same tokens (n, T)."""
        tokens = tokens.expand(len(self.model.members), -1, -1)
        return self.model(tokens, (tokens == MASK).long().argmax(2))

    def _expected_accuracy(self, logits: Tensor) -> Tensor:
        """Probability that each guess is right, (R, n), for logits (R, n, V)."""
        exact = self.exact.expand(len(logits), -1, -1)
        return exact.gather(2, logits.argmax(-1, keepdim=True))[..., 0]


@functools.cache
def _strings_with(symbol: int, bits: tuple[int, ...]) -> Tensor:
    """Every string of 7 bits up to its order, as [?, symbol, five others, parity]: (112, 8) for 4 bits."""
    others = itertools.combinations_with_replacement(bits, 5)
    parities = (tasks.EVEN, tasks.ODD)
    return torch.tensor([[MASK, symbol, *five, parity] for five in others for parity in parities])


def context_norms(embedding: Tensor, tokens: Tensor) -> Tensor:
    """Spectral norm of the matrix that stacks the embeddings of a string: (R, V, D), (n, T) to (R, n)."""
    rows = embedding[:, tokens]  # (R, n, T, D)
    return torch.linalg.matrix_norm(rows, ord=2)
