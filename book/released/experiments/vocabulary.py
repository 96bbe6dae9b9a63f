"""Gemma's whole vocabulary: kinds of neighbours, a plane, translations, tokens that training never saw."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd

from book.ledger import findings
from book.ledger.cells import Cell, experiment, load
from book.ledger.findings import Finding
from book.ledger.studies import Part
from book.released.experiments.isotropy import study
from book.released.experiments.nouns import LANGUAGES, TRANSLATIONS
from book.released.models import GEMMA, origin, unit, vectors
from embviz.corpora.tokens import token_kinds, token_texts
from embviz.files.weights import StoredArray
from embviz.inspection.tables import nearest_rows, table_moments
from embviz.inspection.vocabulary import undertrained_tokens
from embviz.inspection.weight_files import read_weights
from embviz.metrics import neighbors_kept
from embviz.neighbors import find_neighbors, lay_out_neighbors, neighbors_in_plane
from embviz.words.wordvectors import WordVectors

K = 8  # neighbours of a token on the map
OWN, RANDOM_ORDER, UNTRAINED = "as released", "rows in random order", "untrained"


@dataclass(frozen=True)
class Rows:
    """Rows of a model's embedding."""

    model: str = GEMMA
    center: bool = True  # less the mean of all rows
    seed: int = 0


def table_of(made: WordVectors, *, center: bool = True) -> StoredArray:
    """All rows (V, D) of word vectors at length 1, less their mean first or not, as instruments read them."""
    return read_weights({"embedding.weight": unit(made.word, center=center)}).arrays["embedding.weight"]


def nearest(table: StoredArray, rows: np.ndarray, n: int = 1) -> np.ndarray:
    """The n nearest rows (n_rows, n) of some rows of a table, each left out itself; `rows` in any order."""
    asked = np.unique(rows)
    found = nearest_rows(table, table.read(asked), asked, np.zeros(table.shape[1]), n).rows
    answer: np.ndarray = found[np.searchsorted(asked, rows)]
    return answer


# --- kinds ------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class KindsRun(Rows):
    """The kind of the nearest token, for tokens drawn at random."""

    n_tokens: int = 5_000


@experiment("released.kinds", threads=2)
def kinds(config: KindsRun) -> pd.DataFrame:
    """Kinds of a token and of its nearest: rows (as released, in random order), kind, nearest, n."""
    made = vectors(config.model)
    rng = np.random.default_rng(config.seed)
    rows = np.sort(rng.choice(len(made.vocabulary), size=config.n_tokens, replace=False))
    near = nearest(table_of(made, center=config.center), rows)[:, 0]
    kind = np.array(token_kinds(made.vocabulary))
    counted = []
    for name, of in ((OWN, kind), (RANDOM_ORDER, rng.permutation(kind))):
        pairs = pd.DataFrame({"rows": name, "kind": of[rows], "nearest": of[near]})
        counted.append(pairs.value_counts(sort=False).rename("n").reset_index())
    table = pd.concat(counted)
    table.attrs["data"] = origin(config.model)
    return table


def same_kind(table: pd.DataFrame) -> pd.Series:
    """Share of tokens whose nearest is of the same kind, by `rows`."""
    same = table["n"].where(table["kind"] == table["nearest"], 0)
    shares: pd.Series = same.groupby(table["rows"]).sum() / table.groupby("rows")["n"].sum()
    return shares


def kinds_cells() -> list[Cell]:
    """Centred, then raw."""
    return [kinds.cell(KindsRun(center=center)) for center in (True, False)]


def _kinds_finding(preset: str) -> dict[str, Finding]:
    table = load(kinds_cells()[:1])
    n, share = int(table.loc[table["rows"] == OWN, "n"].sum()), same_kind(table)
    controls = {"random_order": float(share[RANDOM_ORDER])}
    return {"same_kind": findings.share(round(share[OWN] * n), n, repeats="tokens", controls=controls)}


# --- the plane --------------------------------------------------------------------------------------


@dataclass(frozen=True)
class PlaneRun(Rows):
    """A layout of some tokens: the first of the vocabulary, the most frequent, and some of the rest."""

    n_first: int = 8_000
    n_others: int = 8_000


@experiment("released.plane", threads=2)
def plane(config: PlaneRun) -> pd.DataFrame:
    """The layout of the chosen tokens by neighbours: row, token, kind, x, y (thousandths of its unit), kept
    (how many of 8 true neighbours are among the 8 nearest in the plane), near_0 to near_7 (places in this
    table) and cosine_0 to cosine_7 (in thousandths), the nearest first.
    """
    made = vectors(config.model)
    rng = np.random.default_rng(config.seed)
    rest = np.arange(config.n_first, len(made.vocabulary))
    others = np.sort(rng.choice(rest, size=config.n_others, replace=False))
    rows = np.concatenate([np.arange(config.n_first), others])
    found = find_neighbors(made.word[rows], K, center=config.center, recall=1.0, seed=config.seed)
    points = lay_out_neighbors(found, principal_plane(made.word[rows]), seed=config.seed)
    kept = neighbors_kept(found.ids, neighbors_in_plane(points, K))
    steps = np.rint((points - np.median(points, axis=0)) * 1_000).astype(np.int32)
    table = pd.DataFrame(
        {
            "row": rows,
            "token": [made.vocabulary[row] for row in rows],
            "kind": np.array(token_kinds(made.vocabulary))[rows],
            "x": steps[:, 0],
            "y": steps[:, 1],
            "kept": np.rint(kept * K).astype(np.int8),
            **{f"near_{i}": found.ids[:, i] for i in range(K)},
            **{f"cosine_{i}": np.rint(found.cosines[:, i] * 1_000).astype(np.int32) for i in range(K)},
        }
    )
    table.attrs["data"] = origin(config.model)
    return table


def principal_plane(rows: np.ndarray) -> np.ndarray:
    """The two leading principal coordinates (V, 2) of rows (V, D)."""
    centred = rows - rows.mean(axis=0)
    axes = np.linalg.eigh(centred.T @ centred)[1][:, :-3:-1]
    points: np.ndarray = centred @ axes
    return points


@dataclass(frozen=True)
class KeptRun(Rows):
    """How much of the neighbours of some tokens a plane keeps."""

    rows: str = OWN  # or RANDOM_ORDER, UNTRAINED
    n_tokens: int = 3_000


@experiment("released.kept", threads=2)
def kept(config: KeptRun) -> pd.DataFrame:
    """Share of 8 true neighbours that a plane of some tokens keeps: layout ("neighbours", "principal"), kept.

    Rows in random order: the plane of the released rows, held against the neighbours of other tokens.
    """
    made = vectors(config.model)
    rng = np.random.default_rng(config.seed)
    chosen = np.sort(rng.choice(len(made.vocabulary), size=config.n_tokens, replace=False))
    rows = made.word[chosen]
    if config.rows == UNTRAINED:
        rows = rng.normal(size=rows.shape).astype(np.float32)
    found = find_neighbors(rows, K, center=config.center, recall=1.0)
    start = principal_plane(rows)
    points = {"neighbours": lay_out_neighbors(found, start, seed=config.seed), "principal": start}
    order = rng.permutation(len(rows)) if config.rows == RANDOM_ORDER else np.arange(len(rows))
    share = {name: neighbors_kept(found.ids, neighbors_in_plane(at[order], K)) for name, at in points.items()}
    table = pd.DataFrame({"layout": list(share), "kept": [float(one.mean()) for one in share.values()]})
    table.attrs["data"] = origin(config.model)
    return table


def kept_cells() -> list[Cell]:
    """As released, in random order, untrained."""
    return [kept.cell(KeptRun(rows=rows)) for rows in (OWN, RANDOM_ORDER, UNTRAINED)]


# --- languages --------------------------------------------------------------------------------------


@experiment("released.languages", version=2, threads=2)
def languages(config: Rows) -> pd.DataFrame:
    """Where a noun's translation lies among all tokens of its script, by cosine, 1 the nearest.

    Returns
    -------
    DataFrame
        noun, language, translation, rank, next_rank (of the next noun's translation), n (tokens of the
        script), first (the nearest of them). Nouns and translations that are no single token are left out.
    """
    made = vectors(config.model)
    rows = unit(made.word, center=config.center)
    texts, kind = token_texts(made.vocabulary), np.array(token_kinds(made.vocabulary))
    found = []
    for language, script in LANGUAGES.items():
        among = np.flatnonzero(kind == script)
        row_of: dict[str, int] = {}
        for row in among:  # a token that begins a word goes before the same letters without a space
            text = texts[row]
            if text.startswith(" ") or text not in row_of:
                row_of[text.removeprefix(" ")] = int(row)
        known = {
            noun: row_of[of[language]]
            for noun, of in TRANSLATIONS.items()
            if of[language] in row_of and f"▁{noun}" in made.index
        }
        nouns = list(known)
        for noun, following in zip(nouns, nouns[1:] + nouns[:1], strict=True):
            cosine = rows[among] @ rows[made.index[f"▁{noun}"]]
            ranks = {
                word: 1 + int((cosine > cosine[np.searchsorted(among, known[word])]).sum())
                for word in (noun, following)
            }
            first = texts[among[int(cosine.argmax())]].strip()
            found.append(
                (
                    noun,
                    language,
                    TRANSLATIONS[noun][language],
                    ranks[noun],
                    ranks[following],
                    len(among),
                    first,
                )
            )
    columns = ["noun", "language", "translation", "rank", "next_rank", "n", "first"]
    table = pd.DataFrame(found, columns=columns)
    table.attrs["data"] = origin(config.model)
    return table


def language_cells() -> list[Cell]:
    """Centred, then raw."""
    return [languages.cell(Rows(center=center)) for center in (True, False)]


def hits(table: pd.DataFrame, column: str = "rank") -> pd.Series:
    """Share of translations among the ten nearest tokens of their script, by language."""
    shares: pd.Series = (table[column] <= 10).groupby(table["language"], sort=False).mean()
    return shares


def _language_findings(preset: str) -> dict[str, Finding]:
    table = load(language_cells()[:1])
    controls = {"next_noun": float(hits(table, "next_rank").mean())}
    found = hits(table).to_numpy()
    return {"hits": findings.over_seeds(found, repeats="languages", controls=controls, within=(0.0, 1.0))}


@dataclass(frozen=True)
class NeighboursRun(Rows):
    """The nearest tokens of some tokens, among all."""

    tokens: tuple[str, ...] = (
        "▁king", "▁water", "▁Monday", "▁seven", "▁running", "▁Paris", "▁def", "▁вода", "水", "▁ماء", "ing",
    )  # fmt: skip
    n: int = 8


@experiment("released.neighbours", threads=2)
def neighbours(config: NeighboursRun) -> pd.DataFrame:
    """token, place (from 1), nearest, kind, cosine."""
    made = vectors(config.model)
    table = table_of(made, center=config.center)
    rows = np.array([made.index[token] for token in config.tokens if token in made.index])
    near = nearest(table, rows, config.n)
    kind, unit_rows = token_kinds(made.vocabulary), table.read()
    found = [
        (
            made.vocabulary[row],
            place,
            made.vocabulary[other],
            kind[other],
            float(unit_rows[row] @ unit_rows[other]),
        )
        for row, others in zip(rows, near, strict=True)
        for place, other in enumerate(others, 1)
    ]
    answer = pd.DataFrame(found, columns=["token", "place", "nearest", "kind", "cosine"])
    answer.attrs["data"] = origin(config.model)
    return answer


# --- tokens that training never saw -----------------------------------------------------------------


@experiment("released.undertrained")
def undertrained(config: Rows) -> pd.DataFrame:
    """How well the distance from half of the unused tokens tells the other half: auc, control, threshold,
    candidates (tokens in use as near as 95% of the held-out ones).
    """
    made = vectors(config.model)
    array = read_weights(made).arrays["embedding.weight"]
    kind = token_kinds(made.vocabulary)
    found = undertrained_tokens(array, table_moments(array), kind, n_draws=20, seed=config.seed)
    table = pd.DataFrame(
        {
            "auc": [found.auc.value],
            "control": [float(found.auc.null.mean())],
            "threshold": [found.threshold],
            "candidates": [len(found.candidates)],
            "unused": [kind.count("unused")],
        }
    )
    table.attrs["data"] = origin(config.model)
    return table


@experiment("released.distances")
def distances(config: Rows) -> pd.DataFrame:
    """Distances from the mean of half of the unused tokens: tokens (the other half, all in use, the nearest
    200 in use), token (of the last), distance. Of tokens in use 4,000 quantiles are stored.
    """
    made = vectors(config.model)
    array = read_weights(made).arrays["embedding.weight"]
    found = undertrained_tokens(
        array, table_moments(array), token_kinds(made.vocabulary), n_draws=1, seed=config.seed
    )
    in_use = np.flatnonzero(found.in_use)
    order = in_use[np.argsort(found.distances[in_use], kind="stable")[:200]]
    quantiles = (np.arange(4_000) + 0.5) / 4_000
    parts = [
        pd.DataFrame({"tokens": "unused", "token": "", "distance": np.sort(found.distances[found.held_out])}),
        pd.DataFrame(
            {"tokens": "in use", "token": "", "distance": np.quantile(found.distances[in_use], quantiles)}
        ),
        pd.DataFrame(
            {
                "tokens": "nearest in use",
                "token": [made.vocabulary[row] for row in order],
                "distance": found.distances[order],
            }
        ),
    ]
    table = pd.concat(parts).astype({"distance": np.float32})
    table.attrs["data"] = origin(config.model)
    return table


def undertrained_cells() -> list[Cell]:
    """Five ways to halve the unused tokens."""
    return [undertrained.cell(Rows(seed=seed)) for seed in range(5)]


def _undertrained_findings(preset: str) -> dict[str, Finding]:
    table = load(undertrained_cells())
    controls = {"tokens_in_use": float(table["control"].mean())}
    return {
        "auc": findings.over_seeds(
            table["auc"].to_numpy(), repeats="halves", controls=controls, within=(0.0, 1.0)
        ),
        "candidates": findings.over_seeds(table["candidates"].to_numpy(dtype=float), repeats="halves"),
    }


STUDIES = {
    "released.kinds": study(
        kinds_cells()[:1],
        _kinds_finding,
        [plane.cell(PlaneRun()), *kept_cells(), neighbours.cell(NeighboursRun())],
    ),
    "released.languages": study(language_cells(), _language_findings),
    "released.undertrained": study(undertrained_cells(), _undertrained_findings, [distances.cell(Rows())]),
}
