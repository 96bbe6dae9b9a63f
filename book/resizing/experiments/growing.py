"""A model trained at one width, mapped to twice that width, and trained on: what is kept, and what is saved.

The narrow model is trained first, then mapped, then trained on as long as a model of the new width from
random initialization, on the same batches with the same schedule and a fresh optimizer.
"""

from __future__ import annotations

import copy
import dataclasses
import functools
import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, get_args

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from book.language import Streams, draw_batch, load_streams, train_language_model
from book.ledger import findings
from book.ledger.cells import Cell, experiment, table_of, training_run
from book.ledger.findings import Finding
from book.ledger.studies import Part, Study
from book.resizing import rules
from book.resizing.decoder import Decoder, DecoderConfig
from book.resizing.experiments import bases
from book.resizing.experiments.bases import BaseRun
from book.resizing.rules import Resized

if TYPE_CHECKING:
    from embviz.runs import Run

# "fresh": zeros, but what reads the new directions starts at random; nothing writes there yet
How = Literal["orthogonal", "zeros", "fresh", "scratch"]
ORTHOGONAL, ZEROS, FRESH, SCRATCH = HOWS = get_args(How)
GAUSSIAN = "gaussian"  # the null: columns that are not orthonormal
N_SEEDS = {"quick": 2, "laptop": 3, "paper": 3}
N_STEPS = {"quick": 120, "laptop": 1_000}  # at the old width, and as many at the new one; else the base's
OTHER_BATCHES = 10_000  # added to the seed: the text read at the new width is not the one read before


@dataclass(frozen=True)
class GrowRun:
    """One way to a wide model; the seed is of the narrow model, the map, and both kinds of batches."""

    base: BaseRun  # the narrow model; the wide one is trained as long, at the same rates
    how: How
    width: int  # D of the wide model
    n_scores: int = 20  # besides the one right after growing

    def __post_init__(self) -> None:
        if self.how not in HOWS:
            raise ValueError(f"how is {self.how!r}: choose one of {', '.join(HOWS)}")
        if self.width <= self.base.shape.embedding_dim:
            raise ValueError(
                f"a model of width {self.base.shape.embedding_dim} does not grow to {self.width}: take more"
            )

    @property
    def score_every(self) -> int:
        """Steps between two scores."""
        return max(1, math.ceil(self.base.training.n_steps / self.n_scores))


@experiment("resizing.growing")
def growing(config: GrowRun) -> pd.DataFrame:
    """Train narrow, grow, train on; or train the wide model from random initialization.

    Returns
    -------
    DataFrame
        width, step, quantity, value. Of both widths "log_perplexity", nats a token of held-out text, at
        every score. Of a grown model at step 0 "logit_error_orthogonal", "logit_error_zeros" and
        "logit_error_gaussian", relative errors of its logits in float64; and at every score "outside", the
        share of the hidden states' energy in directions that the map does not reach. Of each width
        "products", multiplications for a token, at step 0.
    """
    streams = load_streams(config.base.text)
    data = {config.base.text.corpus: streams.checksum}
    with training_run(growing.cell(config), data) as (run, slices):
        parts: list[pd.DataFrame] = []
        if config.how == SCRATCH:
            narrow = Decoder(config.base.shape, seed=0)  # its shape alone is meant
            model, basis = rules.from_scratch(narrow, config.width, config.base.seed), None
        else:
            narrow, scores = train_narrow(config.base, config.score_every)
            model, basis = grown(narrow, config)
            parts.append(scores)
            errors = logit_errors(narrow, config, streams)
            parts += [_rows(config.width, [0], f"logit_error_{how}", [e]) for how, e in errors.items()]
        parts.append(_rows(config.width, [0], "products", [products_a_token(model.config)]))
        parts.append(train_wide(model, config, streams, run, basis))
    table = pd.concat(parts, ignore_index=True)
    table.attrs |= {"data": data, "slices": slices}
    return table


@functools.lru_cache(maxsize=4)
def train_narrow(base: BaseRun, score_every: int) -> tuple[Decoder, pd.DataFrame]:
    """The narrow model, trained, on the CPU, and its rows; kept for the other ways to grow it."""
    model = Decoder(base.shape, seed=base.seed).to(_device())
    snapshots = train_language_model(
        model,
        load_streams(base.text),
        base.training,
        seed=base.seed,
        snapshot_at=score_every,
        weights="none",
    )
    scores = pd.DataFrame([{"step": shot.step, **shot.metrics} for shot in snapshots])
    width, nats = base.shape.embedding_dim, scores["bits_per_token"] * math.log(2)
    products = _rows(width, [0], "products", [products_a_token(base.shape)])
    rows = pd.concat([_rows(width, scores["step"], "log_perplexity", nats), products])
    return model.cpu().eval(), rows


def train_wide(
    model: Decoder, config: GrowRun, streams: Streams, run: Run, basis: Tensor | None
) -> pd.DataFrame:
    """Train on at the new width; the rows of its scores."""
    base = config.base
    model.to(_device())
    probe = draw_batch(
        streams.train, seed=base.seed, step=0, batch_size=bases.BATCH, length=base.training.length
    )[:, :-1].to(_device())
    snapshots = train_language_model(
        model,
        streams,
        base.training,
        seed=base.seed + OTHER_BATCHES,
        snapshot_at=config.score_every,
        also=(lambda: {"outside": outside_share(model, probe, basis)}) if basis is not None else None,
        weights="none",
        run=run,
    )
    for _ in snapshots:
        pass
    metrics = run.metrics()
    nats = metrics["bits_per_token"] * math.log(2)
    parts = [_rows(config.width, metrics["step"], "log_perplexity", nats)]
    if basis is not None:
        parts.append(_rows(config.width, metrics["step"], "outside", metrics["outside"]))
    return pd.concat(parts)


def _device() -> str:
    return "cuda" if torch.cuda.is_available() else "cpu"


def _rows(width: int, steps: Iterable[int], quantity: str, values: Iterable[float]) -> pd.DataFrame:
    table = pd.DataFrame(
        {"step": np.asarray(list(steps), np.int32), "value": np.asarray(list(values), float)}
    )
    table.insert(0, "width", np.int32(width))
    table.insert(2, "quantity", quantity)
    return table


# --- growing ----------------------------------------------------------------------------------------


def grown(narrow: Decoder, config: GrowRun) -> tuple[Decoder, Tensor]:
    """The narrow model at the new width, and an orthonormal basis (D, d) of what the map reaches."""
    fresh = config.how == FRESH
    result = _grow(narrow, config, ZEROS if fresh else config.how, fresh=fresh)
    basis, _ = np.linalg.qr(result.projection.matrix)
    return result.model, torch.from_numpy(basis).float()


def _grow(narrow: Decoder, config: GrowRun, how: str, *, fresh: bool = False) -> Resized:
    kind: rules.Growth = {ZEROS: "zeros", GAUSSIAN: "gaussian"}.get(how, "orthogonal")  # type: ignore[assignment]
    return rules.grow(narrow, config.width, kind, config.base.seed, fresh=fresh)


def logit_errors(narrow: Decoder, config: GrowRun, streams: Streams) -> dict[str, float]:
    """Relative errors of logits right after growing in each way, float64, on a batch of training text.

    Of the Gaussian null too, whose readers have the pseudo-inverse: it is the lengths that it doesn't keep,
    and the norms see them.
    """
    exact, base = copy.deepcopy(narrow).double(), config.base
    tokens = draw_batch(streams.train, seed=base.seed, step=0, batch_size=4, length=base.training.length)
    found = {}
    with torch.no_grad():
        old = exact(tokens[:, :-1])
        for how in (ORTHOGONAL, ZEROS, GAUSSIAN):
            found[how] = rules.logit_error(_grow(exact, config, how).model(tokens[:, :-1]), old)
    return found


@torch.no_grad()
def outside_share(model: Decoder, tokens: Tensor, basis: Tensor) -> float:
    """Share of hidden states' squared length outside the columns of `basis` (D, d), all layers together."""
    states = torch.stack(model.states(tokens)).flatten(0, -2)  # (n, D)
    own = basis.to(states)
    return max(0.0, 1 - float((states @ own).square().sum() / states.square().sum()))


def products_a_token(shape: DecoderConfig) -> int:
    """Multiplications for one token on its way through a model: its maps, and scores and sums over T places.

    Causal attention is counted in full. Training takes about three times as many.
    """
    dim, inner = shape.embedding_dim, shape.n_heads * shape.head_width
    a_layer = 4 * dim * inner + (3 if shape.gated else 2) * dim * shape.mlp_dim + 2 * shape.length * inner
    return shape.n_layers * a_layer + dim * shape.n_symbols


# --- cells ------------------------------------------------------------------------------------------


def narrow_base(preset: str, seed: int = 0) -> BaseRun:
    """Half as wide as the preset's base models; norms without gains, so that nothing has to be folded."""
    run = bases.base(preset, bases.NO_GAINS, seed)
    wide = run.shape
    shape = dataclasses.replace(wide, embedding_dim=wide.embedding_dim // 2, head_dim=wide.head_width)
    old, n_steps = run.training, N_STEPS.get(preset, run.training.n_steps)
    optimizer = dataclasses.replace(old.optimizer, half_period=n_steps)
    training = dataclasses.replace(old, n_steps=n_steps, optimizer=optimizer)
    return dataclasses.replace(run, shape=shape, training=training)


def runs(preset: str = bases.SHOWN, how: How = ORTHOGONAL) -> list[GrowRun]:
    """One way to the wide model, one run per seed."""
    width = bases.base(preset).shape.embedding_dim
    n_scores = {"quick": 6}.get(preset, 20)
    return [GrowRun(narrow_base(preset, seed), how, width, n_scores) for seed in range(N_SEEDS[preset])]


def _cells_of(*ways: list[GrowRun]) -> list[Cell]:
    """Seed by seed, so that a sweep that stops leaves whole seeds."""
    return [growing.cell(run) for of_seed in zip(*ways, strict=True) for run in of_seed]


def fresh_runs(preset: str, how: How) -> list[GrowRun]:
    """Runs of seeds that the first claim did not see, two at preset `quick` and five at others."""
    first, seeds = runs(preset, how)[0], range(3, 5 if preset == "quick" else 8)
    return [dataclasses.replace(first, base=narrow_base(preset, seed)) for seed in seeds]


# --- findings ---------------------------------------------------------------------------------------


def curve(table: pd.DataFrame, width: int, quantity: str = "log_perplexity") -> pd.Series:
    """A quantity of one width over steps."""
    own = table[(table["width"] == width) & (table["quantity"] == quantity)]
    return own.set_index("step")["value"].sort_index()


def steps_to(losses: pd.Series, target: float) -> float:
    """Step at which a curve over steps is at `target` for the first time, between two scores on a line.

    Infinity where it never is.

    >>> steps_to(pd.Series([3.0, 2.0, 1.0], index=[0, 10, 20]), 1.5)
    15.0
    """
    steps, values = losses.index.to_numpy(dtype=float), losses.to_numpy(dtype=float)
    reached = np.flatnonzero(values <= target)
    if not len(reached):
        return math.inf
    first = int(reached[0])
    if first == 0:
        return float(steps[0])
    share = (values[first - 1] - target) / (values[first - 1] - values[first])
    return float(steps[first - 1] + share * (steps[first] - steps[first - 1]))


@dataclass(frozen=True)
class Saving:
    """What a grown model of one seed has over one from random initialization."""

    steps: float  # share of steps at the new width, 0 where the grown one never gets as far
    products: float  # share of multiplications, those of the narrow model counted


def saving(grown_table: pd.DataFrame, scratch_table: pd.DataFrame, run: GrowRun) -> Saving:
    """Steps and multiplications until the grown model has the other's last held-out loss.

    The grown model's steps are at most all of them: where it never gets as far it has saved none.
    """
    own, other = curve(grown_table, run.width), curve(scratch_table, run.width)
    n_steps, narrow = run.base.training.n_steps, run.base.shape.embedding_dim
    taken = min(steps_to(own, float(other.iloc[-1])), n_steps)
    a_step = {width: float(curve(grown_table, width, "products").iloc[0]) for width in (narrow, run.width)}
    spent = n_steps * a_step[narrow] + taken * a_step[run.width]
    return Saving(1 - taken / n_steps, 1 - spent / (n_steps * a_step[run.width]))


def errors(preset: str, how: str) -> np.ndarray:
    """Relative logit errors right after growing, one number per seed."""
    tables = [(run, table_of(growing.cell(run))) for run in runs(preset, ORTHOGONAL)]
    return np.array([curve(table, run.width, f"logit_error_{how}").iloc[0] for run, table in tables])


def _findings(preset: str) -> dict[str, Finding]:
    corpus = bases.base(preset).text.corpus
    of_seeds = functools.partial(findings.over_seeds, corpus=corpus)
    controls = {GAUSSIAN: float(errors(preset, GAUSSIAN).mean())}
    return {
        how: of_seeds(errors(preset, how), controls=controls, within=(0.0, math.inf))
        for how in (ZEROS, ORTHOGONAL)
    }


def _saved(preset: str) -> dict[str, Finding]:
    """On seeds that no range was fixed on."""
    pairs = zip(*(fresh_runs(preset, how) for how in (ORTHOGONAL, SCRATCH)), strict=True)
    own = [saving(table_of(growing.cell(a)), table_of(growing.cell(b)), a) for a, b in pairs]
    of_seeds = functools.partial(
        findings.over_seeds, corpus=bases.base(preset).text.corpus, within=(-math.inf, 1.0)
    )
    return {
        "saved_fresh": of_seeds([one.steps for one in own]),
        "saved_flops_fresh": of_seeds([one.products for one in own]),
    }


STUDIES: dict[str, Study] = {
    "resizing.grow": Study(
        lambda preset: _cells_of(runs(preset, ORTHOGONAL), runs(preset, SCRATCH)),
        _findings,
        "the paper's setting needs 200,000 stories of TinyStories and a GPU",
        beside=lambda preset: _cells_of(runs(preset, ZEROS), runs(preset, FRESH)),
        parts=(
            Part(
                lambda preset: _cells_of(fresh_runs(preset, ORTHOGONAL), fresh_runs(preset, SCRATCH)), _saved
            ),
        ),
    ),
}
