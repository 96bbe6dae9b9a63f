"""Released models at three quarters and half of their width: neighbours kept, and the loss right after."""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from book.released import models
from book.released.experiments import slices
from embviz import projections
from embviz.corpora.corpus import load_text
from embviz.corpora.registry import model_path
from embviz.imports import import_transformers
from embviz.inspection import gradients
from embviz.ledger import findings
from embviz.ledger.cells import Cell, experiment, table_of
from embviz.ledger.findings import Finding
from embviz.ledger.studies import Study
from embviz.metrics import nearest_neighbors, neighbors_kept
from embviz.words.wordvectors import WordVectors

Map = Literal["random", "principal"]
NAMES = (models.GEMMA, models.MINILM, models.GLOVE)
WIDTH = {models.GEMMA: 640, models.MINILM: 384, models.GLOVE: 100}
SHARES = (0.75, 0.5)
N_WORDS, N_NEIGHBORS, N_DRAWS = 5_000, 8, 5
N_SHOWN = 300  # words whose rows are stored
TEXT, N_PARTS, N_STRINGS, N_TOKENS = "wikitext2", 3, 2, 128
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
    """Neighbours kept by random and principal directions, and those of normal vectors.

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


@torch.no_grad()
def sentence_vectors(lines: list[str], n_tokens: int = 64) -> np.ndarray:
    """Means of MiniLM's last states over word pieces, (n, 384), of the first 64 pieces of each line."""

    folder = model_path(models.MINILM).parent
    model = import_transformers().AutoModel.from_pretrained(folder, local_files_only=True).eval()
    cut, found = models.tokenizer(models.MINILM), []
    for line in lines:
        encoded = cut.encode(line)
        n_pieces = min(sum(encoded.attention_mask), n_tokens)  # the rest is padding
        ids = torch.tensor([encoded.ids[:n_pieces]])
        found.append(model(ids).last_hidden_state[0].mean(dim=0).double().numpy())
    return np.stack(found)


# --- the loss -----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class ShrunkRun:
    """Gemma with its residual stream on fewer directions, on one part of a text; the part seeds the draws."""

    part: int


@experiment("released.shrunk_loss")
def shrunk_loss(config: ShrunkRun) -> pd.DataFrame:
    """Loss with the stream projected after the embedding and after each layer.

    Returns
    -------
    DataFrame
        map ("unchanged", "permuted", "random", "principal", "frequencies": the entropy of the part's
        tokens), share (of the width), loss (bits a token).
    """
    text = load_text(TEXT, part="test")
    ids = models.text_parts(text, N_PARTS, N_STRINGS, N_TOKENS)[config.part]
    size = len(text) // N_PARTS
    own = text[config.part * size : (config.part + 1) * size]
    encoded = models.tokenizer(models.GEMMA).encode(own, add_special_tokens=False).ids
    shares = np.unique(encoded, return_counts=True)[1] / len(encoded)
    rows = [{"map": "frequencies", "share": 1.0, "loss": float(-(shares * np.log2(shares)).sum())}]
    model, D = models.language_model(), WIDTH[models.GEMMA]
    rows.append({"map": "unchanged", "share": 1.0, "loss": bits(model, ids)})
    order = torch.from_numpy(np.random.default_rng(config.part).permutation(D))
    with on_stream(model, lambda x: x[..., order]):
        rows.append({"map": "permuted", "share": 1.0, "loss": bits(model, ids)})
    basis = stream_directions(model)
    for share in SHARES:
        m = int(share * D)
        drawn = projections.draw("orthonormal", m, D, seed=config.part, scaling="unit").matrix
        for how, T in (("random", drawn), ("principal", basis[:m])):
            onto = torch.from_numpy(T.T @ T).float()
            with on_stream(model, lambda x, onto=onto: x @ onto):
                rows.append({"map": how, "share": share, "loss": bits(model, ids)})
    table = pd.DataFrame(rows)
    checksums = {f"{TEXT} {part}": models.text_checksum(TEXT, part) for part in ("test", "valid")}
    table.attrs["data"] = models.origin(models.GEMMA) | checksums
    return table


@contextmanager
def on_stream(model: Any, change: Callable[[Tensor], Tensor]) -> Iterator[None]:
    """The residual stream is changed after the embedding and after each layer, inside this block."""

    def hook(module: Any, given: Any, output: Any) -> Any:
        return (change(output[0]), *output[1:]) if isinstance(output, tuple) else change(output)

    places = [model.model.embed_tokens, *model.model.layers]
    handles = [place.register_forward_hook(hook) for place in places]
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()


@torch.no_grad()
def bits(model: Any, ids: Tensor) -> float:
    """Mean next-token loss of strings (B, T + 1), bits a token."""
    losses = [gradients.next_token_loss(model, one[None]).item() for one in ids]
    return float(np.mean(losses)) / math.log(2)


@torch.no_grad()
def stream_directions(model: Any) -> np.ndarray:
    """Principal directions of the stream on WikiText-2's validation text, (D, D), the strongest first.

    Each state is taken at length 1, as norms see it, at the embedding and after each layer but the last.
    """
    total: Any = 0
    for ids in models.text_parts(load_text(TEXT, part="valid"), 1, 2 * N_STRINGS, N_TOKENS)[0]:
        for state in model.model(ids[None, :-1], output_hidden_states=True).hidden_states[:-1]:
            x = state[0].double().numpy()
            x = x / np.linalg.norm(x, axis=1, keepdims=True)
            total = total + x.T @ x
    return np.ascontiguousarray(np.linalg.eigh(total)[1][:, ::-1].T)


# --- cells and findings -----------------------------------------------------------------------------


def _cells(preset: str) -> list[Cell]:
    return [neighbors.cell(ShrinkRun(name)) for name in NAMES] if preset == "laptop" else []


def _row_cells(preset: str) -> list[Cell]:
    return [principal_rows.cell(ShrinkRun(name)) for name in NAMES] if preset == "laptop" else []


def _loss_cells(preset: str) -> list[Cell]:
    return [shrunk_loss.cell(ShrunkRun(part)) for part in range(N_PARTS)] if preset == "laptop" else []


def _sentence_cells(preset: str) -> list[Cell]:
    return [sentences.cell(SentencesRun())] if preset == "laptop" else []


def kept() -> pd.DataFrame:
    """Neighbours kept of all three models: model (title), of, share, map, draw, kept."""
    every = [table_of(neighbors.cell(ShrinkRun(name))).assign(model=models.TITLES[name]) for name in NAMES]
    return pd.concat(every, ignore_index=True)


def sentences_kept() -> pd.DataFrame:
    """Neighbours kept of sentences: of, share, map, draw, kept."""
    return table_of(sentences.cell(SentencesRun()))


def losses() -> pd.DataFrame:
    """Loss of each part of the text: part, map, share, loss."""
    every = [table_of(shrunk_loss.cell(ShrunkRun(part))).assign(part=part) for part in range(N_PARTS)]
    return pd.concat(every, ignore_index=True)


@functools.lru_cache(maxsize=4)
def rows_of(name: str) -> WordVectors:
    """A model's stored rows along its words' principal directions, at length 1."""
    return slices.vectors_of(table_of(principal_rows.cell(ShrinkRun(name))))


def _chosen(table: pd.DataFrame, column: str, **chosen: Any) -> np.ndarray:
    for name, value in chosen.items():
        table = table[table[name] == value]
    return table[column].to_numpy()


def _random(preset: str) -> dict[str, Finding]:
    table, found = kept(), {}
    for name, (share, suffix) in itertools.product(NAMES, ((0.5, ""), (0.75, "_three_quarters"))):
        own, control = (
            _chosen(table, "kept", model=models.TITLES[name], of=of, share=share, map="random")
            for of in ("words", "gaussian")
        )
        found[models.TITLES[name].lower() + suffix] = findings.over_seeds(
            own, repeats="draws", controls={} if suffix else {"gaussian": float(control.mean())}
        )
    return found


def _principal(preset: str) -> dict[str, Finding]:
    table, found = kept(), {}
    for name in NAMES:
        own, control = (
            _chosen(table, "kept", model=models.TITLES[name], of=of, share=0.5, map="principal")
            - _chosen(table, "kept", model=models.TITLES[name], of=of, share=0.5, map="random")
            for of in ("words", "gaussian")
        )
        found[models.TITLES[name].lower()] = findings.over_seeds(
            own, repeats="draws", controls={"gaussian": float(control.mean())}
        )
    return found


def _loss(preset: str) -> dict[str, Finding]:
    table = losses()
    frequencies = _chosen(table, "loss", map="frequencies")

    def above(how: str, share: float) -> np.ndarray:
        return _chosen(table, "loss", map=how, share=share) - frequencies

    control = {"permuted": float(above("permuted", 1.0).mean())}
    asked = {
        "random_three_quarters": ("random", 0.75),
        "principal_three_quarters": ("principal", 0.75),
        "random_half": ("random", 0.5),
        "principal_half": ("principal", 0.5),
        "unchanged": ("unchanged", 1.0),
    }
    return {
        name: findings.over_seeds(
            above(*how), repeats="parts of the text", corpus=TEXT,
            controls=control if name.endswith("quarters") else {},
        )
        for name, how in asked.items()
    }  # fmt: skip


def _sentences(preset: str) -> dict[str, Finding]:
    table, found = sentences_kept(), {}
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
    "released.shrink_loss": Study(_loss_cells, _loss, models.NEEDS),
    "released.shrink_sentences": Study(_sentence_cells, _sentences, models.NEEDS),
}
