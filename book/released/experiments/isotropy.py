"""In which directions the vectors point: spectra, cosines, lengths and frequency, with Gaussian controls."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pandas as pd
from scipy.stats import spearmanr

from book.ledger import findings
from book.ledger.cells import Cell, experiment, load
from book.ledger.findings import Finding
from book.ledger.studies import Part, Study
from book.released.experiments import slices
from book.released.models import (
    GEMMA,
    GLOVE,
    MINILM,
    N_RANKED,
    TITLES,
    WORD,
    origin,
    ranked_words,
    unit,
    vectors,
)
from embviz.corpora.tokens import token_kinds
from embviz.inspection.measures import normal_spectrum
from embviz.inspection.tables import table_moments
from embviz.inspection.vocabulary import kinds_table
from embviz.inspection.weight_files import read_weights

MODELS = (GEMMA, MINILM, GLOVE)
NEEDS = "the weights are not on this machine: `embviz data fetch gemma3_270m minilm_l6 glove_6b_100d`"
BANDS = (0, 300, 1_000, 3_000, 10_000, N_RANKED)  # ranks that end a band of frequency
N_SHOWN = 600  # words of a picture


@dataclass(frozen=True)
class Model:
    """A released model's input embedding."""

    model: str
    seed: int = 0


def words_of(model: str) -> tuple[pd.DataFrame, np.ndarray]:
    """A model's words with their ranks, as of :func:`ranked_words`, and their rows (n, D)."""
    ranking = vectors(GLOVE).vocabulary[:N_RANKED]
    made = vectors(model)
    words = ranked_words(made.vocabulary, ranking)
    return words, made.word[words["row"]]


def mean_cosine(rows: np.ndarray) -> float:
    """Mean cosine of two different rows of (n, D), exactly, by the sum of the rows at length 1."""
    units = unit(rows, center=False)
    total, n = units.sum(axis=0, dtype=np.float64), int(rows.any(axis=1).sum())
    return float((total @ total - n) / (n * (n - 1)))


def effective_dimension(variances: np.ndarray) -> float:
    """(sum of variances)² / sum of squares: D where all are equal, 1 where one is all.

    >>> effective_dimension(np.array([2.0, 2.0, 0.0]))
    2.0
    """
    return float(variances.sum() ** 2 / (variances**2).sum())


@dataclass(frozen=True)
class FrequentRun:
    """The most frequent words of a model whose vocabulary is in the order of frequency."""

    model: str = GLOVE
    n_words: int = 2_000


@experiment("released.frequent_rows")
def frequent_rows(config: FrequentRun) -> pd.DataFrame:
    """Rows of the most frequent words of three or more letters a to z, at length 1, in 16 bits: as of
    :func:`book.released.experiments.slices.stored`.
    """
    made = vectors(config.model)
    words = [word for word in made.vocabulary[:N_RANKED] if WORD.fullmatch(word)][: config.n_words]
    rows = made.word[[made.index[word] for word in words]]
    table = slices.stored(words, unit(rows, center=False))
    table.attrs["data"] = origin(config.model)
    return table


@experiment("released.spectrum")
def spectrum(config: Model) -> pd.DataFrame:
    """Variances along principal directions, the largest first: place, raw (about 0), centred (about the
    mean), gaussian (of a table of independent normal numbers); each over the mean of its column.
    """
    moments = table_moments(read_weights(vectors(config.model)).arrays["embedding.weight"])
    n, D = moments.n_rows, len(moments.mean)
    columns = {
        "raw": np.linalg.eigvalsh(moments.gram)[::-1],
        "centred": np.linalg.eigvalsh(moments.centred_gram)[::-1],
        "gaussian": normal_spectrum(n, D, 1.0, seed=config.seed) ** 2,
    }
    table = pd.DataFrame({name: values / values.mean() for name, values in columns.items()})
    table.insert(0, "place", np.arange(1, D + 1))
    table.attrs["data"] = origin(config.model)
    return table


@experiment("released.cosines")
def cosines(config: Model) -> pd.DataFrame:
    """Mean cosine and mean length of groups of vectors: group ("all", "gaussian", a band of ranks such as
    "1 to 300", or Gemma's kinds), tokens, raw, centred (less the mean of all vectors), length, with the
    spread of lengths (standard deviation over mean).
    """
    made = vectors(config.model)
    mean = made.word.mean(axis=0, dtype=np.float64).astype(np.float32)
    rng = np.random.default_rng(config.seed)
    drawn = rng.standard_normal(made.word.shape, dtype=np.float32)
    words, rows = words_of(config.model)
    bands = {
        f"{low + 1:,} to {high:,}": rows[((words["rank"] > low) & (words["rank"] <= high)).to_numpy()]
        for low, high in itertools.pairwise(BANDS)
    }
    found = []
    for group, some in {"all": made.word, "gaussian": drawn, **bands}.items():
        off = some.mean(axis=0) if group == "gaussian" else mean
        length = np.linalg.norm(some, axis=1)
        found.append(
            (group, len(some), mean_cosine(some), mean_cosine(some - off), length.mean(), length.std())
        )
    table = pd.DataFrame(found, columns=["group", "tokens", "raw", "centred", "length", "spread"])
    table["spread"] /= table["length"]
    table.attrs["data"] = origin(*dict.fromkeys((config.model, GLOVE)))
    return table


@experiment("released.kinds_of_rows")
def kinds_of_rows(config: Model) -> pd.DataFrame:
    """Mean cosine of two tokens of one kind, raw and centred: kind, tokens, length, mean_cosine,
    centred_mean_cosine. Kinds of fewer than 200 tokens are left out.
    """
    made = vectors(config.model)
    array = read_weights(made).arrays["embedding.weight"]
    table = kinds_table(array, table_moments(array), token_kinds(made.vocabulary))
    table = table[table["tokens"] >= 200].reset_index(drop=True)
    table.attrs["data"] = origin(config.model)
    return table


@experiment("released.directions")
def directions(config: Model) -> pd.DataFrame:
    """The leading principal directions of a model's words, centred among themselves.

    Returns
    -------
    DataFrame
        quantity, direction (from 1), value: "rho" is Spearman's of the coordinate with the rank; "length rho"
        that of the length; "random rho" the mean of 20 random directions' absolute values; "permuted rho"
        that of the lengths with the ranks in random order, mean of 20 absolute values; "share" of variance.
    """
    words, rows = words_of(config.model)
    rank, rng = words["rank"].to_numpy(), np.random.default_rng(config.seed)
    variances, coordinates, centred = _principal(rows)
    drawn = rng.normal(size=(20, rows.shape[1]))
    at_random = np.mean([abs(_rho(centred @ one, rank)) for one in drawn])
    length = np.linalg.norm(rows, axis=1)
    permuted = np.mean([abs(_rho(length, rng.permutation(rank))) for _ in range(20)])
    found = [
        ("random rho", 0, at_random),
        ("permuted rho", 0, permuted),
        ("length rho", 0, _rho(length, rank)),
    ]
    for place in range(5):
        found.append(("rho", place + 1, _rho(coordinates[:, place], rank)))
        found.append(("share", place + 1, variances[place] / variances.sum()))
    table = pd.DataFrame(found, columns=["quantity", "direction", "value"])
    table.attrs["data"] = origin(*dict.fromkeys((config.model, GLOVE)))
    return table


@experiment("released.ends")
def ends(config: Model) -> pd.DataFrame:
    """The ten words at either end of each of the five leading directions, among the 10,000 most frequent, and
    600 words drawn at random: group ("low", "high", "drawn"), direction (0 of a drawn word), word, rank,
    length, first, second (coordinates on the first two directions).
    """
    words, rows = words_of(config.model)
    _, coordinates, _ = _principal(rows)
    words = words.assign(
        length=np.linalg.norm(rows, axis=1), first=coordinates[:, 0], second=coordinates[:, 1]
    )
    frequent = np.flatnonzero(words["rank"] <= 10_000)
    rng = np.random.default_rng(config.seed)
    some = np.sort(rng.choice(len(words), size=min(N_SHOWN, len(words)), replace=False))
    parts = [words.iloc[some].assign(group="drawn", direction=0)]
    for place in range(5):
        order = frequent[np.argsort(coordinates[frequent, place], kind="stable")]
        for group, chosen in (("low", order[:10]), ("high", order[-10:])):
            parts.append(words.iloc[chosen].assign(group=group, direction=place + 1))
    table = pd.concat(parts)[["group", "direction", "word", "rank", "length", "first", "second"]]
    table = table.astype(dict.fromkeys(["length", "first", "second"], np.float32))
    table.attrs["data"] = origin(*dict.fromkeys((config.model, GLOVE)))
    return table


def _principal(rows: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Variances, the largest first, coordinates on the five leading directions, and the centred rows; the
    coordinate that is largest in size is positive.
    """
    centred = rows.astype(np.float64) - rows.mean(axis=0, dtype=np.float64)
    values, axes = np.linalg.eigh(centred.T @ centred)
    coordinates = centred @ axes[:, :-6:-1]
    extreme = coordinates[np.abs(coordinates).argmax(axis=0), np.arange(5)]
    return values[::-1], coordinates * np.sign(extreme), centred


def _rho(x: np.ndarray, y: np.ndarray) -> float:
    return float(spearmanr(x, y).statistic)


# --- findings ---------------------------------------------------------------------------------------


def of_models(what: Callable[[Model], Cell]) -> list[Cell]:
    """A cell of each of the three models."""
    return [what(Model(model)) for model in MODELS]


def _by_model(
    what: Callable[[Model], Cell], read: Callable[[pd.DataFrame], tuple[float, float]], control: str
) -> Callable[[str], dict[str, Finding]]:
    """Findings of all models from a value and its control in each one's table."""

    def measure(preset: str) -> dict[str, Finding]:
        found = {}
        for model in MODELS:
            value, other = read(load([what(Model(model))]))
            found[TITLES[model].lower()] = findings.exact(value, controls={control: other})
        return found

    return measure


def _group(table: pd.DataFrame, group: str, column: str) -> float:
    return float(table.set_index("group")[column][group])


def _quantity(table: pd.DataFrame, quantity: str, direction: int = 0) -> float:
    return float(table.set_index(["quantity", "direction"])["value"][quantity, direction])


def _dimensions(table: pd.DataFrame) -> tuple[float, float]:
    values = [effective_dimension(table[name].to_numpy()) / len(table) for name in ("centred", "gaussian")]
    return values[0], values[1]


def _length_findings(preset: str) -> dict[str, Finding]:
    found = {}
    for model in (MINILM, GLOVE):
        table = load([directions.cell(Model(model))])
        found[TITLES[model].lower()] = findings.exact(
            abs(_quantity(table, "length rho")),
            controls={"random_order": _quantity(table, "permuted rho")},
        )
    return found


def study(
    cells: list[Cell],
    measure: Callable[[str], dict[str, Finding]],
    beside: list[Cell] | None = None,
    parts: tuple[Part, ...] = (),
) -> Study:
    """A study that needs the weights, so that only the largest preset has cells."""
    return Study(
        lambda preset: cells if preset == "paper" else [],
        measure,
        beside=lambda preset: (beside or []) if preset == "paper" else [],
        needs=NEEDS,
        parts=parts,
    )


STUDIES = {
    "released.cone": study(
        of_models(cosines.cell),
        _by_model(
            cosines.cell,
            lambda table: (_group(table, "all", "raw"), _group(table, "gaussian", "raw")),
            "gaussian",
        ),
        [kinds_of_rows.cell(Model(GEMMA)), frequent_rows.cell(FrequentRun())],
    ),
    "released.one_direction": study(
        of_models(cosines.cell),
        _by_model(
            cosines.cell, lambda table: (_group(table, "all", "centred"), _group(table, "all", "raw")), "raw"
        ),
    ),
    "released.dimension": study(of_models(spectrum.cell), _by_model(spectrum.cell, _dimensions, "gaussian")),
    "released.lengths": study([directions.cell(Model(model)) for model in (MINILM, GLOVE)], _length_findings),
    "released.leading": study(
        of_models(directions.cell),
        _by_model(
            directions.cell,
            lambda table: (abs(_quantity(table, "rho", 1)), _quantity(table, "random rho")),
            "random_direction",
        ),
        of_models(ends.cell),
    ),
}
