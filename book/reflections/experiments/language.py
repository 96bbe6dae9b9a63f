"""LSTM language models tied plainly or through random signs.

Source: Assylbekov & Takhanov (2019), Remark 4.3 and Table 3.
"""

from __future__ import annotations

import dataclasses
import itertools
from typing import Any

import pandas as pd

from book.ledger import findings
from book.ledger.cells import Cell, experiment, load
from book.ledger.findings import Finding
from book.ledger.studies import Study
from book.reflections import slices
from book.reflections.experiments import twins
from book.reflections.lstm import LSTMConfig
from book.reflections.lstm_training import LanguageModelTraining, language_model_perplexity
from embviz.storage import cache_folder

DROPOUT = {50: 0.2, 200: 0.2, 650: 0.5}  # by embedding dimension, as the paper's reference code does
PAPER_CORPORA = ("ptb", "wikitext2")


@dataclasses.dataclass(frozen=True)
class LanguageModelRun:
    """One language model."""

    corpus: str  # "ptb" or "wikitext2" as published, or a text that is cut like PTB
    tying: str  # "plain" or "signs"
    embedding_dim: int
    n_epochs: int
    seed: int
    n_flat_epochs: int = 0  # annealed after every epoch from this one on; 0: when validation stops improving
    annealing: float = 4.0  # divides the learning rate
    precision: str = "float32"  # of matrix products


def slice_sizes(corpus: str) -> dict[str, Any]:
    """Tokens and words of the slice that is cut from `corpus`."""
    if corpus == "embedded":
        return {"n_train": 30_000, "n_valid": 4_000, "n_test": 4_000, "vocab_size": 1_000}
    return {"n_train": 930_000, "n_valid": 74_000, "n_test": 82_000, "vocab_size": 10_000}


@experiment("reflections.language_model")
def language_model(config: LanguageModelRun) -> pd.DataFrame:
    """Train one model; one row per epoch, the last row's test perplexity being the result."""
    if config.corpus in PAPER_CORPORA:
        data = slices.load_language_model_data(config.corpus)
    else:
        data = slices.make_language_model_slice(config.corpus, **slice_sizes(config.corpus))
    model = LSTMConfig(
        vocab_size=len(data.vocabulary),
        embedding_dim=config.embedding_dim,
        dropout=DROPOUT[config.embedding_dim],
        tying=config.tying,  # type: ignore[arg-type]
    )
    training = LanguageModelTraining(
        n_epochs=config.n_epochs,
        n_flat_epochs=config.n_flat_epochs or None,
        annealing=config.annealing,
        precision=config.precision,  # type: ignore[arg-type]
    )
    # a run of hours goes on from its last epoch; the cell's key keeps other runs' checkpoints apart
    checkpoint = cache_folder() / "checkpoints" / f"{language_model.cell(config).key}.safetensors"
    checkpoint.parent.mkdir(parents=True, exist_ok=True)
    table = language_model_perplexity(data, model, training, seed=config.seed, checkpoint=checkpoint)
    table.attrs["data"] = {config.corpus: data.checksum}
    checkpoint.unlink(missing_ok=True)
    return table.drop(columns="seconds")


def language_model_cells(preset: str) -> list[Cell]:
    """Cells of a preset: both tyings, paired seeds."""
    tyings = ("plain", "signs")
    if preset == "paper":
        grid = itertools.product(PAPER_CORPORA, (200, 650), range(3), tyings)
        return [language_model.cell(LanguageModelRun(c, t, d, 40, seed)) for c, d, seed, t in grid]
    if preset == "laptop":
        runs = [
            LanguageModelRun("enwiki2018_raw", tying, 200, 6, seed, 3, 2.0, "bfloat16")
            for seed, tying in itertools.product(range(3), tyings)
        ]
    else:
        runs = [
            LanguageModelRun("embedded", tying, 50, 2, seed)
            for seed, tying in itertools.product(range(2), tyings)
        ]
    return [language_model.cell(run) for run in runs]


def final_perplexities(table: pd.DataFrame) -> pd.DataFrame:
    """Test perplexity of every run of a table: corpus, embedding_dim, tying, seed, perplexity."""
    last = (
        table.sort_values("epoch")
        .groupby(["corpus", "embedding_dim", "tying", "seed"], as_index=False)
        .last()
    )
    last = last.rename(columns={"test_perplexity": "perplexity"})
    return last[["corpus", "embedding_dim", "tying", "seed", "perplexity"]]


def _language_findings(preset: str) -> dict[str, Finding]:
    gaps = twins.held_out_gaps()
    null = {twins.SAME_START: gaps[twins.SAME_START]}
    found = {"reflected_gap": findings.exact(gaps[twins.REFLECTED], controls=null)}
    if preset == "paper":
        names = {"plain": "wt", "signs": "wtq"}
        of_kind = final_perplexities(load(language_model_cells(preset))).groupby(
            ["corpus", "embedding_dim", "tying"]
        )
        for (corpus, dim, tying), rows in of_kind:
            name = f"{corpus}_{dim}_{names[str(tying)]}"
            found[name] = findings.over_seeds(rows["perplexity"].to_numpy(), corpus=str(corpus))
    return found


STUDIES = {
    "reflections.lstm": Study(
        lambda preset: [*language_model_cells(preset), *twins.twin_cells()],
        _language_findings,
        needs="PTB and WikiText-2's training part are not available",
    )
}
