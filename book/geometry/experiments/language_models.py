"""Language models with and without a query projection: Tables 5 to 7, Figures 3 and 4 of the geometry paper.

Every variant of one seed starts from the same weights where it has them, and reads the same batches. Scores
are those of :mod:`~book.language`; the training text is scored by the same protocol,
on as many documents.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from book.geometry.experiments.steering_language import Setting
from book.language import LanguageTraining, Streams, TextConfig, load_streams, train_language_model
from book.ledger import findings
from book.ledger.cells import Cell, experiment, missing, read, table_of, training_run
from book.ledger.findings import Finding
from book.ledger.studies import Part, Study, largest_stored
from book.transformer import Attending, Attention, Transformer, TransformerConfig, n_parameters
from embviz.training.loop import Snapshot

if TYPE_CHECKING:
    from embviz.runs import Run

BASELINE, NO_Q, NO_K, FROZEN_Q, IDENTITY_Q, THIN, UNDECAYED_Q, WIDE, HALVED = VARIANTS = (
    "baseline",
    "no Q",
    "no K",
    "frozen Q",
    "identity Q",
    "thin MLP",  # as many parameters as without Q, and as many products: its MLPs are D / 2 narrower
    "Q without decay",
    "no Q, wider MLP",  # as many parameters as the baseline: its MLPs are D / 2 wider
    "no Q, scores halved",
)
ATTENDING: Mapping[str, Attending] = {
    NO_Q: "no_q",
    WIDE: "no_q",
    HALVED: "half_no_q",
    NO_K: "no_k",
    FROZEN_Q: "frozen_q",
    IDENTITY_Q: "identity_q",
}
LAPTOP = Setting(128, 4, 4, 512, 128, 16, 2_500, 1e-3)
PAPER = Setting(256, 4, 4, 1_024, 256, 64, 5_000, 3e-4, bfloat16=True)


@dataclass(frozen=True)
class LanguageRun:
    """One language model; its seed is of weights and batches."""

    text: TextConfig
    variant: str = BASELINE
    seed: int = 0
    key_rank: int = 0  # of a change that is added to the hidden state for keys; 0: a full projection
    setting: Setting = LAPTOP
    n_scores: int = 12  # besides the one before the first update

    def __post_init__(self) -> None:
        if self.variant not in VARIANTS:
            raise ValueError(f"variant is {self.variant!r}: choose one of {', '.join(VARIANTS)}")

    def shape(self, n_symbols: int) -> TransformerConfig:
        """The model's shape for so many tokens."""
        shape = self.setting.shape(n_symbols, tied=False, start="small")
        wider = {THIN: -1, WIDE: 1}.get(self.variant, 0) * (shape.embedding_dim // 2)
        return dataclasses.replace(
            shape,
            attention=ATTENDING.get(self.variant, "standard"),
            key_rank=self.key_rank,
            mlp_dim=shape.mlp_dim + wider,
        )

    @property
    def training(self) -> LanguageTraining:
        """How it is trained."""
        training = self.setting.training
        if self.variant != UNDECAYED_Q:
            return training
        optimizer = dataclasses.replace(training.optimizer, undecayed=("query.weight",))
        return dataclasses.replace(training, optimizer=optimizer)

    def train(
        self, streams: Streams, run: Run | None = None, *, shape: TransformerConfig | None = None
    ) -> Iterator[Snapshot]:
        """Train, scored before the first update and so many times more; `run` keeps what was reached.

        `shape`, if given, replaces the model's own.
        """
        setting = self.setting
        model = Transformer(shape or self.shape(streams.vocab_size), seed=self.seed)
        model.to("cuda" if torch.cuda.is_available() else "cpu")
        return train_language_model(
            model,
            streams,
            self.training,
            seed=self.seed,
            snapshot_at=max(1, math.ceil(setting.n_steps / self.n_scores)),
            train_sample=streams.train.head(len(streams.held_out.starts)),
            also=functools.partial(attention_measures, model),
            weights="none",
            run=run,
        )


@experiment("geometry.language_models")
def language_models(config: LanguageRun) -> pd.DataFrame:
    """Train one model and score it on the way.

    Returns
    -------
    DataFrame
        One row per score: step, bits_per_token, bits_per_character and bits_per_byte of the held-out text,
        the same of as many training documents with "train_" before, and the columns of
        :func:`attention_measures`; n_parameters.
    """
    streams = load_streams(config.text)
    data = {config.text.corpus: streams.checksum}
    with training_run(language_models.cell(config), data) as (run, slices):
        for _ in config.train(streams, run):
            pass
        table = run.metrics()
    table["n_parameters"] = count_parameters(config.shape(streams.vocab_size))
    table.attrs |= {"data": data, "slices": slices}
    return table


def count_parameters(shape: TransformerConfig) -> int:
    """Numbers that training changes in a model of that shape, without making it."""
    with torch.device("meta"):
        return n_parameters(Transformer(shape, seed=0))


def products_a_token(shape: TransformerConfig) -> int:
    """Multiplications for one token on its way through a model: its maps, and scores and sums over T places.

    Causal attention is counted in full. Training takes about three times as many.
    """
    dim, rank = shape.embedding_dim, shape.key_rank
    projections = {"no_q": 3, "half_no_q": 3, "no_k": 3}.get(shape.attention, 4) * dim**2
    if rank:
        projections += 2 * dim * rank - dim**2
    a_layer = projections + 2 * dim * shape.mlp_dim + 2 * shape.length * dim
    return shape.n_layers * a_layer + dim * shape.n_symbols


# --- what attention looks like ----------------------------------------------------------------------


@torch.no_grad()
def attention_measures(model: Transformer) -> dict[str, float]:
    """Spread of the key and query projections, and how their leading directions lie; means over layers.

    Returns
    -------
    dict
        key_share: the largest singular value over the sum of all, of W_K as a map from hidden state to
        keys (1/D at least); key_power: the same of their squares; key_multiple: the learned multiple of the
        hidden state in keys of low rank; query_share; alignment: |cosine| of the leading right singular
        vectors of W_Q and W_K. Missing where the model has no such projection.

    Source
    ------
    Geometry paper, section 6.2 and Figure 3, which names "leading singular value ratio" and "rank-1 Q-K
    cosine similarity" without a formula; both readings of the ratio are here.
    """
    rows = [_of_layer(block.attention) for block in model.blocks]  # type: ignore[arg-type]
    return {name: float(np.mean([row[name] for row in rows])) for name in rows[0]}


def _of_layer(attention: Attention) -> dict[str, float]:
    found = {}
    leading = {}
    for name in ("key", "query"):
        projection = getattr(attention, name)
        if isinstance(projection, torch.nn.Identity):
            continue
        matrix = _matrix(projection, attention.out.in_features).float()
        _, values, right = torch.linalg.svd(matrix.cpu())
        leading[name] = right[0]
        if not values.any():  # a map to zero, as keys without a multiple start: no value leads
            values = torch.ones_like(values)
        found[f"{name}_share"] = float(values[0] / values.sum())
        if name == "key":
            found["key_power"] = float(values[0] ** 2 / values.square().sum())
            if (multiple := getattr(projection, "multiple", None)) is not None:
                found["key_multiple"] = float(multiple)
    if len(leading) == 2:
        found["alignment"] = float((leading["key"] @ leading["query"]).abs())
    return found


def _matrix(projection: torch.nn.Module, dim: int) -> Tensor:
    """A linear map (D, D) as a matrix, its rows the outputs."""
    (weight, *_) = projection.state_dict().values()
    result: Tensor = projection(torch.eye(dim, device=weight.device))
    return result.T


# --- cells ------------------------------------------------------------------------------------------

N_SEEDS = {"quick": 2, "laptop": 5, "paper": 3}
N_CONTROL_SEEDS = {"quick": 1, "laptop": 3, "paper": 3}
CONTROLS = (THIN, NO_K, FROZEN_Q, IDENTITY_Q, UNDECAYED_Q)
KEY_RANKS = {"quick": (4,), "laptop": (4, 16, 64), "paper": (8, 32, 128)}
SMALL_VOCABULARY = 1_024
VOCABULARIES = {
    "quick": (512,),
    "laptop": (SMALL_VOCABULARY, 4_096),
    "paper": (SMALL_VOCABULARY, 4_096, 16_384),
}


def stories(preset: str = "laptop") -> LanguageRun:
    """The baseline on short stories in bytes."""
    if preset == "quick":
        text = TextConfig("embedded", n_documents=200, n_held_out=5)
        return LanguageRun(text, setting=Setting(32, 2, 2, 64, 32, 8, 60, 1e-2), n_scores=2)
    if preset == "laptop":
        return LanguageRun(TextConfig("tinystories_5mb", n_held_out=100))
    # of 2 million; 180 MB, of which 5,000 steps read less than half
    return LanguageRun(TextConfig("tinystories", n_documents=200_000, n_held_out=500), setting=PAPER)


def web(preset: str) -> LanguageRun:
    """The baseline on English Wikipedia, which stands in for FineWeb: a layer more, longer sequences."""
    if preset == "quick":
        return dataclasses.replace(stories(preset), setting=Setting(32, 3, 2, 64, 64, 4, 60, 1e-2))
    text = TextConfig("enwiki2018_raw", n_held_out=20 if preset == "laptop" else 200)
    if preset == "laptop":
        return LanguageRun(text, setting=dataclasses.replace(LAPTOP, n_layers=5, length=256, batch_size=8))
    setting = dataclasses.replace(PAPER, n_layers=5, length=512, batch_size=32, n_steps=10_000)
    return LanguageRun(text, setting=setting)


def few_stories(preset: str) -> LanguageRun:
    """The baseline on so few stories that every one is read many times."""
    run = stories(preset)
    return dataclasses.replace(
        run, text=dataclasses.replace(run.text, n_documents=20 if preset == "quick" else 700)
    )


def in_byte_pairs(preset: str, vocab_size: int) -> LanguageRun:
    """The baseline on short stories in byte pairs."""
    run = stories(preset)
    text = dataclasses.replace(run.text, tokens="byte pairs", vocab_size=vocab_size)
    return dataclasses.replace(run, text=text)


def of_seeds(run: LanguageRun, variants: Iterable[str], n_seeds: int) -> list[LanguageRun]:
    """Runs of all variants, seed by seed, so that a sweep that stops leaves whole seeds."""
    return [
        dataclasses.replace(run, variant=variant, seed=seed)
        for seed in range(n_seeds)
        for variant in variants
    ]


def _pairs(run: LanguageRun, preset: str, n_seeds: int | None = None) -> list[LanguageRun]:
    return of_seeds(run, (BASELINE, NO_Q), n_seeds or N_CONTROL_SEEDS[preset])


def _cells(runs: Iterable[LanguageRun]) -> list[Cell]:
    return [language_models.cell(run) for run in runs]


def story_runs(preset: str) -> list[LanguageRun]:
    """Tables 5 and 7 with its missing rows."""
    run = stories(preset)
    pairs = of_seeds(run, (BASELINE, NO_Q), N_SEEDS[preset])
    return pairs + of_seeds(run, CONTROLS, N_CONTROL_SEEDS[preset])


def rank_runs(preset: str) -> list[LanguageRun]:
    """Keys of low rank beside full ones, without queries."""
    run = dataclasses.replace(stories(preset), variant=NO_Q)
    return [
        dataclasses.replace(run, key_rank=rank, seed=seed)
        for seed in range(N_CONTROL_SEEDS[preset])
        for rank in (0, *KEY_RANKS[preset])
    ]


def vocabulary_runs(preset: str) -> list[LanguageRun]:
    """Pairs with and without queries, in byte pairs of several vocabularies and in bytes."""
    runs = [in_byte_pairs(preset, size) for size in VOCABULARIES[preset]]
    return [pair for run in (stories(preset), *runs) for pair in _pairs(run, preset)]


# --- findings ---------------------------------------------------------------------------------------


def curves(runs: Iterable[LanguageRun]) -> pd.DataFrame:
    """Stored scores of runs.

    Returns
    -------
    DataFrame
        corpus, tokens, vocab_size, documents (0: all), variant, key_rank, seed; the columns of the cells.
    """
    return pd.concat([_stored(run) for run in runs], ignore_index=True)


def _stored(run: LanguageRun) -> pd.DataFrame:
    table, _ = read(language_models.cell(run))
    return with_fields(run, table)


def with_fields(run: LanguageRun, table: pd.DataFrame) -> pd.DataFrame:
    """A run's table with what was run before it: the first columns of :func:`curves`."""
    fields = {
        "corpus": run.text.corpus,
        "tokens": run.text.tokens,
        "vocab_size": run.text.vocab_size,
        "documents": run.text.n_documents,
        "variant": run.variant,
        "key_rank": run.key_rank,
        "seed": run.seed,
    }
    return pd.DataFrame(fields, index=table.index).join(table)


def last_scores(table: pd.DataFrame, unit: str = "bits_per_byte") -> pd.DataFrame:
    """Scores at the end, one row per seed and one column per variant, of a table of one text and key rank."""
    end = table[table["step"] == table["step"].max()]
    return end.pivot(index="seed", columns="variant", values=unit)


def gains(table: pd.DataFrame, variant: str = NO_Q, against: str = BASELINE) -> np.ndarray:
    """Bits that a variant saves, in percent of another variant's with the same seed; seeds that have both."""
    scores = last_scores(table)[[variant, against]].dropna()
    return (100 * (1 - scores[variant] / scores[against])).to_numpy()


def early_gains(table: pd.DataFrame) -> np.ndarray:
    """The same of the model without queries at the first score after a sixth of the training."""
    steps = np.sort(table["step"].unique())
    early = steps[np.searchsorted(steps, steps[-1] / 6)]
    return gains(table[table["step"] <= early])


def published_counts(n_layers: int, length: int) -> dict[str, Finding]:
    """Parameters of the paper's models, which need no training."""
    setting = dataclasses.replace(PAPER, n_layers=n_layers, length=length)
    counts = {}
    for name, variant in (("n_baseline", BASELINE), ("n_no_q", NO_Q)):
        run = LanguageRun(TextConfig("tinystories"), variant, setting=setting)
        counts[name] = findings.exact(count_parameters(run.shape(256)) / 1e6)
    return counts


def story_findings(preset: str) -> dict[str, Finding]:
    """Of Tables 5 and 7."""
    table = curves(story_runs(preset))
    corpus = stories(preset).text.corpus
    controls = {"thin": float(gains(table, THIN).mean())}
    end = last_scores(table)
    return published_counts(4, 256) | {
        "gain": findings.over_seeds(gains(table, NO_Q), controls=controls, corpus=corpus),
        "gain_early": findings.over_seeds(early_gains(table), corpus=corpus),
        "baseline": findings.over_seeds(end[BASELINE].to_numpy(), corpus=corpus),
        "no_q": findings.over_seeds(end[NO_Q].to_numpy(), corpus=corpus),
    }


def _web_findings(preset: str) -> dict[str, Finding]:
    run = web(preset)
    table = curves(_pairs(run, preset))
    end = last_scores(table)
    found = {
        "gain": findings.over_seeds(gains(table), corpus=run.text.corpus),
        "baseline": findings.over_seeds(end[BASELINE].to_numpy(), corpus=run.text.corpus),
        "no_q": findings.over_seeds(end[NO_Q].to_numpy(), corpus=run.text.corpus),
    }
    return found | published_counts(5, 512)


def _alignment_findings(preset: str) -> dict[str, Finding]:
    run = stories(preset)
    table = curves(of_seeds(run, (BASELINE, NO_Q), N_SEEDS[preset]))
    first, last = (table[table["step"] == step] for step in (table["step"].min(), table["step"].max()))
    start, end = (part.pivot(index="seed", columns="variant", values="key_share") for part in (first, last))
    grown = end / start
    values = {
        "share_over_untrained": grown[NO_Q],
        "share_over_untrained_with_q": grown[BASELINE],
    }
    controls = {"share_over_untrained": {"untrained": 1.0}}
    return {
        name: findings.over_seeds(series.to_numpy(), controls=controls.get(name), corpus=run.text.corpus)
        for name, series in values.items()
    }


def _generalization_findings(preset: str) -> dict[str, Finding]:
    found: dict[str, Finding] = {}
    for suffix, run, n_seeds in (
        ("", stories(preset), N_SEEDS[preset]),
        ("_few", few_stories(preset), N_CONTROL_SEEDS[preset]),
    ):
        table = curves(_pairs(run, preset, n_seeds))
        gaps, before = score_gaps(table), score_gaps(table, untrained=True)
        shares = (gaps < 0).groupby(level="seed").mean()  # of the scores, one row per seed
        ends = gaps.groupby(level="seed").last()
        controls = {"with_queries": float(shares[BASELINE].mean())}
        corpus = run.text.corpus
        below = findings.over_seeds(shares[NO_Q].to_numpy(), controls=controls, corpus=corpus, within=(0, 1))
        found |= {
            f"below{suffix}": below,
            f"gap{suffix}": findings.over_seeds((ends[NO_Q] - ends[BASELINE]).to_numpy(), corpus=corpus),
        }
        if not suffix:
            found["gap_untrained"] = findings.over_seeds(before[NO_Q].abs().to_numpy(), corpus=corpus)
    return found


def score_gaps(table: pd.DataFrame, *, untrained: bool = False) -> pd.DataFrame:
    """Bits per byte of training documents minus bits per byte of held-out ones, at every score but the first.

    Or, `untrained`, at the first alone.

    Below zero the model fits its training text better. Some documents are harder than others, which is the
    same for all models of one text: a difference of two models' gaps is free of it.

    Returns
    -------
    DataFrame
        Index seed and step, one column per variant.
    """
    trained = table[(table["step"] > 0) ^ untrained]
    gap = trained["train_bits_per_byte"] - trained["bits_per_byte"]
    return trained.assign(gap=gap).pivot(index=["seed", "step"], columns="variant", values="gap")


def _vocabulary_findings(preset: str) -> dict[str, Finding]:
    corpus, sizes = stories(preset).text.corpus, VOCABULARIES[preset]
    of_bytes = gains(curves(_pairs(stories(preset), preset)))
    of_pairs = [gains(curves(_pairs(in_byte_pairs(preset, size), preset))) for size in sizes]
    return {
        "gain_largest": findings.over_seeds(of_pairs[-1], corpus=corpus),
        "growth": findings.over_seeds(of_pairs[-1] - of_bytes, corpus=corpus),
    }


def _rank_findings(preset: str) -> dict[str, Finding]:
    table = curves(rank_runs(preset))
    corpus = stories(preset).text.corpus
    end = table[table["step"] == table["step"].max()]
    scores = end.pivot(index="seed", columns="key_rank", values="bits_per_byte")
    costs = scores.sub(scores[0], axis=0).div(scores[0], axis=0) * 100
    names = ("cost_low", "cost_middle", "cost_high")
    return {
        name: findings.over_seeds(costs[rank].to_numpy(), corpus=corpus)
        for name, rank in zip(names, KEY_RANKS[preset], strict=False)
    }


# --- a reading: keys of low rank whose multiple of the hidden state is learned -----------------------------


@dataclass(frozen=True)
class MultipleRun:
    """A model with keys of low rank, and where the learned multiple of the hidden state starts."""

    run: LanguageRun
    start: float = 0.0

    def shape(self, n_symbols: int) -> TransformerConfig:
        """The model's shape for so many tokens."""
        return dataclasses.replace(self.run.shape(n_symbols), key_multiple=self.start)


@experiment("geometry.language_multiples")
def language_multiples(config: MultipleRun) -> pd.DataFrame:
    """Train one model and score it on the way: the columns of :func:`language_models`, and key_multiple."""
    streams = load_streams(config.run.text)
    data = {config.run.text.corpus: streams.checksum}
    shape = config.shape(streams.vocab_size)
    with training_run(language_multiples.cell(config), data) as (run, slices):
        for _ in config.run.train(streams, run, shape=shape):
            pass
        table = run.metrics()
    table["n_parameters"] = count_parameters(shape)
    table.attrs |= {"data": data, "slices": slices}
    return table


def multiple_runs(preset: str) -> list[MultipleRun]:
    """Keys of the rank that is judged, with a multiple that is learned from 0 on."""
    ranks = KEY_RANKS[preset]
    rank = ranks[len(ranks) // 2]
    return [MultipleRun(run) for run in rank_runs(preset) if run.key_rank == rank]


def multiple_scores(preset: str = "laptop") -> pd.DataFrame:
    """Scores of those runs that are stored: seed, and the columns of :func:`language_multiples`."""
    every = [language_multiples.cell(run) for run in multiple_runs(preset)]
    absent = set(missing(every))
    parts = [table_of(cell).assign(seed=cell.config.run.seed) for cell in every if cell not in absent]
    return pd.concat(parts, ignore_index=True) if parts else pd.DataFrame()


def _multiple_cells(preset: str) -> list[Cell]:
    full = [run for run in rank_runs(preset) if not run.key_rank]
    return [*_cells(full), *(language_multiples.cell(run) for run in multiple_runs(preset))]


def _multiple_findings(preset: str) -> dict[str, Finding]:
    table = curves([run for run in rank_runs(preset) if not run.key_rank])
    learned, corpus = multiple_scores(preset), stories(preset).text.corpus
    end = learned[learned["step"] == learned["step"].max()].set_index("seed")
    full = table[table["step"] == table["step"].max()].set_index("seed")["bits_per_byte"]
    costs = 100 * (end["bits_per_byte"] / full - 1)
    return {
        "cost_multiple": findings.over_seeds(costs.to_numpy(), corpus=corpus),
        "multiple": findings.over_seeds(end["key_multiple"].to_numpy(), corpus=corpus),
    }


NEEDS = "the paper's setting needs 200,000 stories of TinyStories and a GPU"
WEB_NEEDS = "the paper's setting needs a GPU"
STUDIES: dict[str, Study] = {
    "geometry.noq_fineweb": Study(
        lambda preset: _cells(_pairs(web(preset), preset)), _web_findings, WEB_NEEDS
    ),
    "geometry.k_alignment": Study(
        lambda preset: _cells(of_seeds(stories(preset), (BASELINE, NO_Q), N_SEEDS[preset])),
        _alignment_findings,
        NEEDS,
    ),
    "geometry.train_above_val": Study(
        lambda preset: _cells(
            _pairs(stories(preset), preset, N_SEEDS[preset]) + _pairs(few_stories(preset), preset)
        ),
        _generalization_findings,
        NEEDS,
    ),
    "geometry.open_bpe": Study(lambda preset: _cells(vocabulary_runs(preset)), _vocabulary_findings, NEEDS),
    "geometry.open_lowrank_k": Study(
        lambda preset: _cells(rank_runs(preset)),
        _rank_findings,
        NEEDS,
        parts=(Part(_multiple_cells, _multiple_findings),),
    ),
}


# --- what the chapters show of stored runs -----------------------------------------------------------------

BITS = "bits_per_byte"
STEPS, PARAMETERS, PRODUCTS = EQUAL = ("steps", "parameters", "products")
Runs = Callable[[str], list[LanguageRun]]  # of a preset


def web_runs(preset: str) -> list[LanguageRun]:
    """With and without queries on web text."""
    return of_seeds(web(preset), (BASELINE, NO_Q), N_CONTROL_SEEDS[preset])


def stored_runs(runs: Runs) -> list[LanguageRun]:
    """Runs of the largest preset that is stored completely, or the stored runs of the preset `laptop`."""
    preset = largest_stored(lambda name: [language_models.cell(run) for run in runs(name)]) or "laptop"
    return [run for run in runs(preset) if language_models.cell(run).stored()]


@functools.cache
def scores(runs: Runs) -> pd.DataFrame:
    """Scores of stored runs on their way: the columns of :func:`curves`, and products.

    Those are 10^12 multiplications so far, forward and backward.
    """
    own = stored_runs(runs)
    table = curves(own)
    keys = ["vocab_size", "variant", "key_rank", "seed"]
    spent = {}
    for run in own:
        shape = run.shape(256 if run.text.tokens == "bytes" else run.text.vocab_size)
        products = 3 * products_a_token(shape) * run.setting.batch_size * run.setting.length
        spent[run.text.vocab_size, run.variant, run.key_rank, run.seed] = products / 1e12
    a_step = pd.Series(spent).rename_axis(keys).rename("products").reset_index()
    table = table.merge(a_step, on=keys)
    return table.assign(products=table["step"] * table["products"])


def gain_curves(table: pd.DataFrame, variant: str = NO_Q, equal: str = STEPS) -> pd.DataFrame:
    """Bits that a variant saves after so many steps, or products, in percent of a reference of its seed.

    The reference is the baseline; at equal parameters the thin one. At equal products the reference is read
    between its scores, where it has used as many as the variant, over the logarithm, in which curves are
    nearly straight, and from its first score after training began.

    Returns
    -------
    DataFrame
        seed, step, spent (steps, or 10^12 products), gain.
    """
    against = THIN if equal == PARAMETERS else BASELINE
    parts = [pd.DataFrame({"seed": [], "step": [], "spent": [], "gain": []})]
    for seed, own in table.groupby("seed"):
        one, other = (own[own["variant"] == name].sort_values("step") for name in (variant, against))
        if one.empty or other.empty:
            continue
        if equal == PRODUCTS:
            one, other = one[one["step"] > 0], other[other["step"] > 0]
            known, wanted = (np.log(part["products"].to_numpy()) for part in (other, one))
            reference = np.interp(wanted, known, other[BITS], left=np.nan, right=np.nan)
        else:
            reference = one["step"].map(other.set_index("step")[BITS]).to_numpy()
        spent = one["products" if equal == PRODUCTS else "step"].to_numpy(float)
        gain = 100 * (1 - one[BITS].to_numpy() / reference)
        part = pd.DataFrame({"seed": seed, "step": one["step"], "spent": spent, "gain": gain})
        parts.append(part.dropna())
    return pd.concat(parts[1:] or parts, ignore_index=True)
