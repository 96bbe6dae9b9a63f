"""Projecting the token embedding's gradient in language models: of byte pairs, and of bytes.

Source: geometry paper, section 3.3 and Table 4. Its sizes for byte pairs are not stated. Its "bits per
character" is the loss over ln 2 (section 5.1): of byte pairs, bits a token, some four characters. Here a
character is a character.
"""

from __future__ import annotations

import dataclasses
import functools
import shutil
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
import torch
from torch import nn

from embviz import findings
from embviz.cells import Cell, experiment, read
from embviz.findings import Finding
from embviz.fourier import Adaptive, Prescribed, Projection, RandomSubspace, project_gradients
from embviz.language import (
    LanguageTraining,
    Streams,
    TextConfig,
    load_streams,
    score_unigrams,
    train_language_model,
)
from embviz.models.transformer import Start, Transformer, TransformerConfig
from embviz.snapshots import open_or_create_run
from embviz.storage import cache_folder
from embviz.studies import Study
from embviz.training import AdamW

BASELINE, NEAR_NYQUIST, TOP_5, SUBSPACE, FROZEN = VARIANTS = (
    "baseline",
    "near-Nyquist",  # the five highest modes: {25124, ..., 25128} of GPT-2's 50,257 tokens
    "top 5",  # the gradient's strongest modes, chosen anew at each step
    "subspace of 10",  # a random one
    "frozen",  # the embedding is not trained
)
N_POINTS = 10  # scores of a run
ON_BYTES = (BASELINE, NEAR_NYQUIST, FROZEN)


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
        if self.variant not in VARIANTS:
            raise ValueError(f"variant is {self.variant!r}: choose one of {', '.join(VARIANTS)}")

    @property
    def kind(self) -> str:
        """How its weights are set up, in words."""
        if self.tied:
            return "tied"
        return "own head" if self.start == "pytorch" else "own head, small start"

    def projection(self, n_symbols: int) -> Projection | None:
        """What the embedding's gradient is projected onto."""
        highest = n_symbols // 2
        projections: dict[str, Projection] = {
            NEAR_NYQUIST: Prescribed(tuple(range(highest - 4, highest + 1))),
            TOP_5: Adaptive(5),
            SUBSPACE: RandomSubspace(10, self.seed),
        }
        return projections.get(self.variant)


# --- one run ----------------------------------------------------------------------------------------


def make_model(run: SteeringRun, streams: Streams) -> tuple[Transformer, Callable[[int], None] | None]:
    """The run's model before training, and what happens between its backward pass and its update."""
    shape = run.setting.shape(streams.vocab_size, tied=run.tied, start=run.start)
    model = Transformer(shape, seed=run.seed).to("cuda" if torch.cuda.is_available() else "cpu")
    if run.variant == FROZEN:
        model.embedding.requires_grad_(False)
    projection = run.projection(streams.vocab_size)
    return model, None if projection is None else functools.partial(_project, model.embedding, projection)


def _project(embedding: nn.Parameter, projection: Projection, step: int) -> None:
    project_gradients(embedding, projection, step=step)


@experiment("geometry.steering_language")
def steering_language(config: SteeringRun) -> pd.DataFrame:
    """Train one model and score it ten times on the way.

    Returns
    -------
    DataFrame
        A row a score: step, bits_per_token, bits_per_character, bits_per_byte of the held-out text, moved
        (Frobenius norm of the embedding's change over that of its start), and unigram (bits per character
        that the tokens' frequencies alone need).
    """
    streams, setting = load_streams(config.text), config.setting
    model, after_backward = make_model(config, streams)
    start = model.embedding.detach().clone()
    folder = cache_folder() / "runs" / steering_language.cell(config).key
    run = open_or_create_run(folder, {**dataclasses.asdict(config), "data": streams.checksum})
    steps = train_language_model(
        model,
        streams,
        setting.training,
        seed=config.seed,
        snapshot_every=max(1, setting.n_steps // N_POINTS),
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
    run.close()
    shutil.rmtree(folder)
    table.attrs["data"] = {config.text.corpus: streams.checksum}
    return table


# --- cells ------------------------------------------------------------------------------------------


def steering_runs(preset: str) -> list[SteeringRun]:
    """What the claim quotes: untied models of byte pairs and of bytes, each variant and seed."""
    pairs, whole = _texts(preset)
    return [
        SteeringRun(text, variant, seed, setting=setting)
        for (text, setting), variants in ((pairs, VARIANTS), (whole, ON_BYTES))
        for seed in range(_n_seeds(preset))
        for variant in variants
    ]


def control_runs(preset: str) -> list[SteeringRun]:
    """Beside the claim: embeddings that start small, with a head of their own and tied; two seeds each."""
    pairs, whole = _texts(preset)
    kinds: list[tuple[tuple[TextConfig, Setting], bool, Sequence[str]]] = [
        (pairs, False, (BASELINE, NEAR_NYQUIST)),
        (whole, False, (BASELINE, NEAR_NYQUIST)),
        (pairs, True, (BASELINE, NEAR_NYQUIST, TOP_5)),
        (whole, True, (BASELINE, NEAR_NYQUIST, TOP_5)),
    ]
    return [
        SteeringRun(text, variant, seed, tied, "small", setting)
        for (text, setting), tied, variants in kinds
        for seed in range(2)
        for variant in variants
    ]


def _n_seeds(preset: str) -> int:
    return 2 if preset == "quick" else 3


def _texts(preset: str) -> list[tuple[TextConfig, Setting]]:
    """Byte pairs, then bytes, of one text and one size of model."""
    if preset == "quick":
        text = TextConfig("embedded", n_documents=600, n_held_out=10)
        size, n_pairs = Setting(32, 1, 2, 64, 32, 8, 150, 1e-2), 512
    elif preset == "laptop":
        text, size, n_pairs = TextConfig("tinystories_5mb", n_held_out=100), Setting(), 4_096
    else:
        text = TextConfig("tinystories", n_held_out=500)
        size, n_pairs = Setting(256, 4, 4, 1_024, 256, 64, 10_000, 3e-4, bfloat16=True), 0
    learned = {"tokens": "byte pairs", "vocab_size": n_pairs} if n_pairs else {"tokens": "gpt2"}
    # a character is a token of bytes and a quarter of a byte pair: twice the length, a like time a step
    return [
        (dataclasses.replace(text, **learned), size),
        (text, size if preset == "paper" else dataclasses.replace(size, length=2 * size.length)),
    ]


def steering_cells(preset: str) -> list[Cell]:
    """Cells of the claim and of the runs beside it."""
    return [steering_language.cell(run) for run in steering_runs(preset) + control_runs(preset)]


# --- findings ---------------------------------------------------------------------------------------


def steering_curves(preset: str, runs: Iterable[SteeringRun] | None = None) -> pd.DataFrame:
    """Stored scores of all runs of a preset, or of `runs`.

    Returns
    -------
    DataFrame
        corpus, tokens ("byte pairs", "gpt2" or "bytes"), kind (as :attr:`SteeringRun.kind`), variant, seed,
        then the columns of the cells.
    """
    tables = []
    for run in runs or steering_runs(preset) + control_runs(preset):
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
    table = losses_to_baseline(steering_curves(preset, steering_runs(preset)))
    corpus = str(table["corpus"].iloc[0])
    by_seed = table.assign(on_bytes=table["tokens"] == "bytes").pivot(
        index="seed", columns=["on_bytes", "variant"], values="difference"
    )
    pairs, whole = by_seed[False], by_seed[True]
    frozen = {"frozen": float(whole[FROZEN].mean())}
    differences: dict[str, np.ndarray] = {
        "bpe_near_nyquist": pairs[NEAR_NYQUIST].to_numpy(),
        "bpe_top5": pairs[TOP_5].to_numpy(),
        "bpe_order": (pairs[NEAR_NYQUIST] - pairs[TOP_5]).to_numpy(),
        "byte_near_nyquist": whole[NEAR_NYQUIST].to_numpy(),
        "bpe_frozen": pairs[FROZEN].to_numpy(),
        "bpe_subspace": pairs[SUBSPACE].to_numpy(),
    }
    return {
        name: findings.over_seeds(
            values, nulls=frozen if name == "byte_near_nyquist" else None, corpus=corpus
        )
        for name, values in differences.items()
    }


STUDIES = {
    "geometry.fgp_language": Study(
        steering_cells,
        _steering_findings,
        needs="the paper's setting needs all of TinyStories, GPT-2's 50,257 tokens and a GPU",
    )
}
