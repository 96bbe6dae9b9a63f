"""Projecting the token embedding's gradient in language models: of byte pairs, and of bytes.

Source: geometry paper, section 3.3 and Table 4. Its sizes for byte pairs are not stated. Its "bits per
character" is the loss over ln 2 (section 5.1): of byte pairs, bits a token, some four characters. Here a
character is a character.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np
import pandas as pd
import scipy
import torch
from torch import Tensor, nn

from book.language import (
    LanguageTraining,
    Streams,
    TextConfig,
    load_streams,
    score_unigrams,
    train_language_model,
)
from book.ledger import findings
from book.ledger.cells import Cell, experiment, read, training_run
from book.ledger.findings import Finding
from book.ledger.studies import Study
from book.projected import Adaptive, GradientProjection, Prescribed, RandomSubspace
from book.transformer import Start, Transformer, TransformerConfig
from embviz.training.loop import AdamW
from embviz.words.cooccurrence import count_pairs, ppmi

BASELINE, NEAR_NYQUIST, TOP_5, SUBSPACE, FROZEN = VARIANTS = (
    "baseline",
    "near-Nyquist",  # the five highest modes: {25124, ..., 25128} of GPT-2's 50,257 tokens
    "top 5",  # the gradient's strongest modes, chosen anew at each step
    "subspace of 10",  # a random one
    "frozen",  # the embedding is not trained
)
ON_HEAD = "near-Nyquist, head alone"  # the embedding is trained as ever
LOWEST = "lowest modes"  # five, without the mean; byte pairs are numbered by how often they were merged
BY_FREQUENCY = "lowest modes by frequency"  # along the tokens as :func:`token_order` sorts them
BY_NEIGHBORS = "lowest modes by neighbours"
REORDERED = (BY_FREQUENCY, BY_NEIGHBORS)
POSITIONS = "positions, "  # before a variant: of the positions' gradient, the tokens' is left as it is
ON_POSITIONS = tuple(POSITIONS + name for name in (TOP_5, LOWEST, NEAR_NYQUIST, FROZEN))
N_POINTS = 10  # scores of a run
# of byte pairs, and of bytes: heads of their own, tied, and heads of their own beside a small start
N_SEEDS = {"quick": (2, 2), "laptop": (2, 8), "paper": (3, 3)}
N_TIED_SEEDS = {"quick": (1, 1), "laptop": (5, 2), "paper": (3, 3)}
N_LOOKED_AT = {"quick": 0, "laptop": 2, "paper": 0}  # tied seeds known when tied pairs came to be judged
N_SMALL_SEEDS = {"quick": (1, 1), "laptop": (1, 1), "paper": (1, 1)}
ON_BYTES = (BASELINE, NEAR_NYQUIST, FROZEN)
TIED = (BASELINE, NEAR_NYQUIST, TOP_5, FROZEN)
SMALL = (BASELINE, NEAR_NYQUIST, ON_HEAD)


@dataclass(frozen=True)
class Setting:
    """Sizes of a language model, and how it is trained. The defaults are the laptop's.

    The sum of the learning rates bounds how far Adam moves a number, about 1.5 in the paper's 10,000 steps
    at 3e-4 with a cosine; fewer steps make up for it by a higher rate.
    """

    embedding_dim: int = 64
    n_layers: int = 2
    n_heads: int = 4
    mlp_dim: int = 256
    length: int = 64  # tokens that a sequence reads
    batch_size: int = 16  # sequences
    n_steps: int = 1_200
    learning_rate: float = 2.5e-3  # falls to a tenth by a cosine
    weight_decay: float = 0.1
    bfloat16: bool = False

    def shape(self, n_symbols: int, *, tied: bool, start: Start) -> TransformerConfig:
        """The model's shape for so many tokens."""
        return TransformerConfig(
            n_symbols,
            self.length,
            self.embedding_dim,
            self.n_layers,
            self.n_heads,
            self.mlp_dim,
            tied=tied,
            start=start,
        )

    @property
    def training(self) -> LanguageTraining:
        """The same for the training loop."""
        rate = self.learning_rate
        optimizer = AdamW(rate, rate / 10, self.n_steps, self.weight_decay, eps=1e-8)
        return LanguageTraining(self.n_steps, self.batch_size, self.length, optimizer, self.bfloat16)


@dataclass(frozen=True)
class SteeringRun:
    """One language model; its seed is of weights, batches and random subspaces."""

    text: TextConfig
    variant: str = BASELINE
    seed: int = 0
    tied: bool = False  # the paper's has a head of its own; tied, the head's gradient is projected as well
    start: Start = "pytorch"  # embeddings N(0, 1); "small": N(0, 0.02^2), as GPT-2's
    setting: Setting = Setting()

    def __post_init__(self) -> None:
        known = (*VARIANTS, ON_HEAD, LOWEST, *REORDERED, *ON_POSITIONS)
        if self.variant not in known:
            raise ValueError(f"variant is {self.variant!r}: choose one of {', '.join(known)}")

    @property
    def kind(self) -> str:
        """How its weights are set up, in words."""
        if self.tied:
            return "tied"
        return "own head" if self.start == "pytorch" else "own head, small start"

    @property
    def on_positions(self) -> bool:
        """Whether it is the positions that are steered."""
        return self.variant.startswith(POSITIONS)

    def projection(self, n_symbols: int) -> GradientProjection | None:
        """What the gradient of the embedding, of the head or of the positions is projected onto."""
        highest = (self.setting.length if self.on_positions else n_symbols) // 2
        near_nyquist = Prescribed(tuple(range(highest - 4, highest + 1)))
        projections: dict[str, GradientProjection] = {
            NEAR_NYQUIST: near_nyquist,
            ON_HEAD: near_nyquist,
            **dict.fromkeys((LOWEST, *REORDERED), Prescribed((1, 2, 3, 4, 5))),
            TOP_5: Adaptive(5),
            SUBSPACE: RandomSubspace(10, self.seed),
        }
        return projections.get(self.variant.removeprefix(POSITIONS))


# --- one run ----------------------------------------------------------------------------------------


def make_model(run: SteeringRun, streams: Streams) -> tuple[Transformer, Callable[[int], None] | None]:
    """The run's model before training, and what happens between its backward pass and its update."""
    shape = run.setting.shape(streams.vocab_size, tied=run.tied, start=run.start)
    model = Transformer(shape, seed=run.seed).to("cuda" if torch.cuda.is_available() else "cpu")
    weights, projection = steered_weights(run, model), run.projection(streams.vocab_size)
    if run.variant.endswith(FROZEN):
        weights.requires_grad_(False)
    if projection is None:
        return model, None
    order = torch.arange(len(weights))
    if run.variant in REORDERED:
        order = torch.from_numpy(token_order(streams, run.variant))
    return model, functools.partial(_project, weights, projection, order.to(weights.device))


def token_order(streams: Streams, variant: str) -> np.ndarray:
    """Tokens sorted by frequency, or so that neighbours in text are near each other.

    Neighbours: by the second eigenvector of the normalized Laplacian of positive PMI within two places, which
    puts tokens with high PMI near each other.
    """
    ids, size = streams.train.ids.astype(np.int64), streams.vocab_size
    counts = np.bincount(ids, minlength=size)
    if variant == BY_FREQUENCY:
        return np.argsort(-counts, kind="stable")
    seen = np.flatnonzero(counts)  # the others come last
    pairs = count_pairs(ids, size, window=2)[seen][:, seen]
    graph = ppmi(pairs).toarray() + 1e-6  # so that all tokens are connected
    scale = 1 / np.sqrt(graph.sum(axis=0))
    n = len(seen)
    _, vectors = scipy.linalg.eigh(scale[:, None] * graph * scale, subset_by_index=[n - 2, n - 1])
    order = np.argsort(scale * vectors[:, 0], kind="stable")
    return np.concatenate([seen[order], np.flatnonzero(counts == 0)])


def steered_weights(run: SteeringRun, model: Transformer) -> nn.Parameter:
    """Whose gradient a run projects or drops: the embedding's, the head's, or the positions'."""
    if run.on_positions:
        assert isinstance(model.position, nn.Parameter)
        return model.position
    if run.variant == ON_HEAD and model.free_head is not None:
        return model.free_head
    return model.embedding


def _project(weights: nn.Parameter, projection: GradientProjection, order: Tensor, step: int) -> None:
    """Project a gradient whose rows are put in `order`, after any backward pass."""
    assert weights.grad is not None
    weights.grad = projection.apply(weights.grad[order])[order.argsort()]


@experiment("geometry.steering_language")
def steering_language(config: SteeringRun) -> pd.DataFrame:
    """Train one model and score it ten times on the way.

    Returns
    -------
    DataFrame
        One row per score: step, bits_per_token, bits_per_character, bits_per_byte of the held-out text, moved
        (Frobenius norm of the embedding's change over that of its start), and unigram (bits per character
        that the tokens' frequencies alone need).
    """
    streams, setting = load_streams(config.text), config.setting
    model, after_backward = make_model(config, streams)
    start = model.embedding.detach().clone()
    data = {config.text.corpus: streams.checksum}
    with training_run(steering_language.cell(config), data) as (run, slices):
        steps = train_language_model(
            model,
            streams,
            setting.training,
            seed=config.seed,
            snapshot_at=max(1, setting.n_steps // N_POINTS),
            after_backward=after_backward,
            weights=lambda: {"embedding": model.embedding},
            run=run,
        )
        for _ in steps:
            pass
        table = run.metrics()
        weights = [run.weights(step)["embedding"].to(start) for step in run.steps]
    table["moved"] = [float((embedding - start).norm() / start.norm()) for embedding in weights]
    table["unigram"] = score_unigrams(streams).bits_per_character
    table.attrs |= {"data": data, "slices": slices}
    return table


# --- cells ------------------------------------------------------------------------------------------


def steering_runs(preset: str) -> list[SteeringRun]:
    """What the claim quotes: untied models of byte pairs and of bytes, each variant and seed."""
    return _runs(preset, N_SEEDS[preset], (VARIANTS, ON_BYTES), SteeringRun(texts_and_setting(preset)[0]))


def tied_runs(preset: str) -> list[SteeringRun]:
    """Models whose head is the embedding, so that one gradient holds what both learn."""
    n_seeds, like = N_TIED_SEEDS[preset], SteeringRun(texts_and_setting(preset)[0], tied=True, start="small")
    runs = _runs(preset, n_seeds, (TIED, ON_BYTES), like)
    return runs + [
        run
        for run in _runs(preset, (n_seeds[0], 0), ((SUBSPACE,), ()), like)
        if run.seed >= N_LOOKED_AT[preset]
    ]


def small_runs(preset: str) -> list[SteeringRun]:
    """Beside the tied ones: embeddings that start as small, with a separate head."""
    like = SteeringRun(texts_and_setting(preset)[0], start="small")
    return _runs(preset, N_SMALL_SEEDS[preset], (SMALL, SMALL), like)


def _runs(
    preset: str, n_seeds: tuple[int, int], variants: tuple[tuple[str, ...], ...], like: SteeringRun
) -> list[SteeringRun]:
    """Runs on byte pairs, then on bytes, with so many seeds of these variants."""
    *texts, setting = texts_and_setting(preset)
    return [
        dataclasses.replace(like, text=text, variant=variant, seed=seed, setting=setting)
        for text, n, own in zip(texts, n_seeds, variants, strict=True)
        for seed in range(n)
        for variant in own
    ]


def all_runs(preset: str = "laptop") -> list[SteeringRun]:
    """Runs that the claim judges, and runs that are shown beside them."""
    return steering_runs(preset) + tied_runs(preset) + small_runs(preset)


def texts_and_setting(preset: str = "laptop") -> tuple[TextConfig, TextConfig, Setting]:
    """One text in byte pairs and in bytes, and the size of model for both."""
    if preset == "quick":
        text, n_pairs = TextConfig("embedded", n_documents=600, n_held_out=10), 512
        setting = Setting(32, 1, 2, 64, 32, 8, 150, 1e-2)
    elif preset == "laptop":
        text, n_pairs, setting = TextConfig("tinystories_5mb", n_held_out=100), 4_096, Setting()
    else:
        text = TextConfig("tinystories", n_held_out=500)
        setting = Setting(256, 4, 4, 1_024, 256, 64, 10_000, 3e-4, bfloat16=True)
        return dataclasses.replace(text, tokens="gpt2"), text, setting
    return dataclasses.replace(text, tokens="byte pairs", vocab_size=n_pairs), text, setting


def steering_cells(preset: str) -> list[Cell]:
    """Cells of the claim and of the runs beside it."""
    return [steering_language.cell(run) for run in all_runs(preset)]


# --- findings ---------------------------------------------------------------------------------------


def steering_curves(runs: Iterable[SteeringRun]) -> pd.DataFrame:
    """Stored scores of runs, such as :func:`all_runs`.

    Returns
    -------
    DataFrame
        corpus, tokens ("byte pairs", "gpt2" or "bytes"), kind (as :attr:`SteeringRun.kind`), variant, seed,
        then the columns of the cells.
    """
    tables = []
    for run in runs:
        table, _ = read(steering_language.cell(run))
        fields = {
            "corpus": run.text.corpus,
            "tokens": run.text.tokens,
            "kind": run.kind,
            "variant": run.variant,
            "seed": run.seed,
        }
        tables.append(pd.DataFrame(fields, index=table.index).join(table))
    return pd.concat(tables, ignore_index=True)


def losses_to_baseline(table: pd.DataFrame, unit: str = "bits_per_character") -> pd.DataFrame:
    """How much more each run pays at the end than the baseline of its tokens, kind and seed.

    Parameters
    ----------
    table : DataFrame
        As :func:`steering_curves`.
    unit : column of the table

    Returns
    -------
    DataFrame
        corpus, tokens, kind, variant, seed, difference; the baseline is left out.
    """
    end = table[table["step"] == table.groupby("tokens")["step"].transform("max")]
    keys = ["corpus", "tokens", "kind", "seed"]
    baseline = end[end["variant"] == BASELINE].set_index(keys)[unit].rename("baseline")
    joined = end[end["variant"] != BASELINE].join(baseline, on=keys)
    return joined.assign(difference=joined[unit] - joined["baseline"])[
        [*keys[:3], "variant", "seed", "difference"]
    ].reset_index(drop=True)


def _steering_findings(preset: str) -> dict[str, Finding]:
    _, whole = _differences(steering_runs(preset), "bits_per_character")
    tied_pairs, _ = _differences(tied_runs(preset), "bits_per_token")
    tied_pairs = tied_pairs.loc[N_LOOKED_AT[preset] :]
    controls = {"byte_near_nyquist": {"frozen": float(whole[FROZEN].mean())}}
    differences = {
        "byte_near_nyquist": whole[NEAR_NYQUIST],
        "tied_bpe_near_nyquist": tied_pairs[NEAR_NYQUIST],
        "tied_bpe_top5": tied_pairs[TOP_5],
        "tied_bpe_order": tied_pairs[NEAR_NYQUIST] - tied_pairs[TOP_5],
        "tied_bpe_subspace": tied_pairs[SUBSPACE],
    }
    corpus = texts_and_setting(preset)[0].corpus
    return {
        name: findings.over_seeds(values.to_numpy(), controls=controls.get(name), corpus=corpus)
        for name, values in differences.items()
    }


def _differences(runs: list[SteeringRun], unit: str) -> list[pd.DataFrame]:
    """Of byte pairs and of bytes: differences to the baseline, one row per seed, one column per variant."""
    table = losses_to_baseline(steering_curves(runs), unit)
    on_bytes = table["tokens"] == "bytes"
    return [
        part.pivot(index="seed", columns="variant", values="difference")
        for part in (table[~on_bytes], table[on_bytes])
    ]


STUDIES = {
    "geometry.fgp_language": Study(
        steering_cells,
        _steering_findings,
        needs="the paper's setting needs all of TinyStories, GPT-2's 50,257 tokens and a GPU",
    )
}


# --- what the chapter shows of stored runs --------------------------------------------------------------

UNITS = ("token", "character", "byte")


def differences(table: pd.DataFrame) -> pd.DataFrame:
    """What each run pays at its end more than the baseline of its tokens, kind and seed, in every unit.

    Parameters
    ----------
    table : DataFrame
        As :func:`steering_curves`.

    Returns
    -------
    DataFrame
        `per` (a unit), `row` (tokens and variant), `tokens`, `variant`, `kind`, `seed`, `cost_difference`.
    """
    parts = [losses_to_baseline(table, f"bits_per_{unit}").assign(per=unit) for unit in UNITS]
    table = pd.concat(parts, ignore_index=True).rename(columns={"difference": "cost_difference"})
    short = table["tokens"].replace("byte pairs", "BPE")  # for a telephone
    names = table["variant"].replace(ON_HEAD, "head alone")
    table["row"] = short + ": " + names
    return table[["per", "row", "tokens", "variant", "kind", "seed", "cost_difference"]]
