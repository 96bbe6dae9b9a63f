"""Released models at three quarters and half of their width: neighbours kept, and the loss right after."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import pandas as pd

from book.ledger import findings
from book.ledger.cells import Cell, experiment
from book.ledger.findings import Finding
from book.ledger.stored import load_runs
from book.ledger.studies import Study
from book.released import models
from book.released.experiments import slices
from embviz import projections
from embviz.corpora.corpus import load_text
from embviz.corpora.registry import resolve_path
from embviz.metrics import nearest_neighbors, neighbors_kept
from embviz.words.wordvectors import WordVectors

Map = Literal["random", "principal"]
NAMES = (models.GEMMA, models.MINILM, models.GLOVE)
WIDTH = {models.GEMMA: 640, models.MINILM: 384, models.GLOVE: 100}
SHARES = (0.75, 0.5)
N_WORDS, N_NEIGHBORS, N_DRAWS = 5_000, 8, 5
N_SHOWN = 300  # words whose rows are stored
TEXT = "wikitext2"
N_LINES, LEAST_WORDS = 1_000, 8


# --- neighbours ---------------------------------------------------------------------------------------


def principal(points: np.ndarray) -> np.ndarray:
    """Centred points (n, D) along their principal directions, the largest variance first."""
    centred = points - points.mean(axis=0)
    return centred @ np.linalg.eigh(centred.T @ centred)[1][:, ::-1]


def nearest(points: np.ndarray) -> np.ndarray:
    """The eight nearest rows by cosine of each row, (n, 8)."""
    return nearest_neighbors(_unit(points), N_NEIGHBORS)[0]


def _unit(points: np.ndarray) -> np.ndarray:
    return points / np.linalg.norm(points, axis=1, keepdims=True)


def kept_rows(points: np.ndarray, *, center: bool = True) -> Iterator[dict[str, Any]]:
    """Neighbours kept of points (n, D) at each share of the width, by both maps: share, map, draw, kept."""
    D = points.shape[1]
    points = points - points.mean(axis=0) if center else points
    turned = points @ np.linalg.eigh(points.T @ points)[1][:, ::-1]
    true = nearest(points)
    for share in SHARES:
        m = int(share * D)
        drawn = [projections.draw("orthonormal", m, D, seed=draw).apply(points) for draw in range(N_DRAWS)]
        images = [("principal", 0, turned[:, :m]), *(("random", draw, y) for draw, y in enumerate(drawn))]
        for how, draw, image in images:
            kept = float(neighbors_kept(true, nearest(image)).mean())
            yield {"share": share, "map": how, "draw": draw, "kept": kept}


@dataclass(frozen=True)
class ShrinkRun:
    """The words of one released model."""

    model: str


@functools.lru_cache(maxsize=1)
def ranking() -> list[str]:
    """GloVe's first words, in the order of their frequency."""
    return models.vectors(models.GLOVE).vocabulary[: models.N_RANKED]


def words_of(name: str) -> tuple[list[str], np.ndarray]:
    """The first 5,000 words of a model by frequency, and their rows (n, D), float64."""
    ranked = ranking()  # first, since one table of vectors stays in memory
    made = models.vectors(name)
    words = models.ranked_words(made.vocabulary, ranked).iloc[:N_WORDS]
    return words["word"].tolist(), made.word[words["row"]].astype(np.float64)


@experiment("released.neighbors_kept")
def neighbors(config: ShrinkRun) -> pd.DataFrame:
    """Neighbours kept by random and principal directions, of words and of normal vectors.

    Returns
    -------
    DataFrame
        of ("words", "gaussian"), share (of the width), map, draw, kept.
    """
    _, rows = words_of(config.model)
    tables = {"words": rows, "gaussian": np.random.default_rng(0).normal(size=rows.shape)}
    table = pd.DataFrame([{"of": of} | row for of, one in tables.items() for row in kept_rows(one)])
    table.attrs["data"] = models.origin(*dict.fromkeys((config.model, models.GLOVE)))
    return table


@experiment("released.principal_rows")
def principal_rows(config: ShrinkRun) -> pd.DataFrame:
    """The most frequent 300 words along the principal directions of all 5,000, at length 1, in 16 bits.

    Returns
    -------
    DataFrame
        As of :func:`book.released.experiments.slices.stored`.
    """
    words, rows = words_of(config.model)
    table = slices.stored(words[:N_SHOWN], _unit(principal(rows))[:N_SHOWN])
    table.attrs["data"] = models.origin(*dict.fromkeys((config.model, models.GLOVE)))
    return table


@dataclass(frozen=True)
class SentencesRun:
    """Sentences as MiniLM encodes them."""

    n_lines: int = N_LINES


@experiment("released.sentences_kept")
def sentences(config: SentencesRun) -> pd.DataFrame:
    """Neighbours kept among sentence vectors: of ("sentences", "gaussian"), share, map, draw, kept."""
    text = "\n".join(load_text(TEXT, part=part) for part in ("test", "valid"))
    lines = [line for line in text.splitlines() if len(line.split()) >= LEAST_WORDS][: config.n_lines]
    points = sentence_vectors(lines)
    tables = {"sentences": points, "gaussian": np.random.default_rng(0).normal(size=points.shape)}
    table = pd.DataFrame(
        [{"of": of} | row for of, one in tables.items() for row in kept_rows(one, center=False)]
    )
    checksums = {f"{TEXT} {part}": models.text_checksum(TEXT, part) for part in ("test", "valid")}
    table.attrs["data"] = models.origin(models.MINILM) | checksums
    return table


def sentence_vectors(lines: list[str], n_tokens: int = 64) -> np.ndarray:
    """Means of MiniLM's last states over word pieces, (n, 384), of the first 64 pieces of each line."""

    import torch  # pages read stored cells, and need no model
    from transformers import AutoModel

    from book.released import gemma

    folder = resolve_path(models.MINILM)
    model = AutoModel.from_pretrained(folder, local_files_only=True).eval()
    cut, found = gemma.tokenizer(models.MINILM), []
    for line in lines:
        encoded = cut.encode(line)
        n_pieces = min(sum(encoded.attention_mask), n_tokens)  # the rest is padding
        ids = torch.tensor([encoded.ids[:n_pieces]])
        with torch.no_grad():
            found.append(model(ids).last_hidden_state[0].mean(dim=0).double().numpy())
    return np.stack(found)


# --- cells and findings -----------------------------------------------------------------------------


def _cells(preset: str) -> list[Cell]:
    return [neighbors.cell(ShrinkRun(name)) for name in NAMES] if preset == "paper" else []


def _row_cells(preset: str) -> list[Cell]:
    return [principal_rows.cell(ShrinkRun(name)) for name in NAMES] if preset == "paper" else []


def _sentence_cells(preset: str) -> list[Cell]:
    return [sentences.cell(SentencesRun())] if preset == "paper" else []


@functools.lru_cache(maxsize=4)
def rows_of(name: str) -> WordVectors:
    """A model's stored rows along its words' principal directions, at length 1."""
    return slices.vectors_of(load_runs("released.principal_rows", model=name))


def _chosen(table: pd.DataFrame, column: str, **chosen: Any) -> np.ndarray:
    for name, value in chosen.items():
        table = table[table[name] == value]
    return table[column].to_numpy()


def _random(preset: str) -> dict[str, Finding]:
    table, found = load_runs("released.neighbors_kept"), {}
    for name in NAMES:
        own, control = (
            _chosen(table, "kept", model=name, of=of, share=0.5, map="random") for of in ("words", "gaussian")
        )
        controls = {"gaussian": float(control.mean())}
        found[models.TITLES[name].lower()] = findings.over_seeds(own, repeats="draws", controls=controls)
    return found


def _principal(preset: str) -> dict[str, Finding]:
    table, found = load_runs("released.neighbors_kept"), {}
    for name in NAMES:
        own, control = (
            _chosen(table, "kept", model=name, of=of, share=0.5, map="principal")
            - _chosen(table, "kept", model=name, of=of, share=0.5, map="random")
            for of in ("words", "gaussian")
        )
        found[models.TITLES[name].lower()] = findings.over_seeds(
            own, repeats="draws", controls={"gaussian": float(control.mean())}
        )
    return found


def _sentences(preset: str) -> dict[str, Finding]:
    table, found = load_runs("released.sentences_kept"), {}
    for how in ("random", "principal"):
        own, control = (_chosen(table, "kept", of=of, share=0.5, map=how) for of in ("sentences", "gaussian"))
        controls = {"gaussian": float(control.mean())}
        found[how] = (
            findings.over_seeds(own, repeats="draws", controls=controls, corpus=TEXT)
            if how == "random"
            else findings.exact(own.item(), controls=controls, corpus=TEXT)
        )
    return found


STUDIES: dict[str, Study] = {
    "released.shrink_random": Study(_cells, _random, models.NEEDS, beside=_row_cells),
    "released.shrink_principal": Study(_cells, _principal, models.NEEDS),
    "released.shrink_sentences": Study(_sentence_cells, _sentences, models.NEEDS),
}
