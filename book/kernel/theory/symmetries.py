"""What must not change k0, the circulant score and their cosine, measured."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import get_args

import numpy as np
import pandas as pd

from book.kernel.theory.rows import EPS, Form, alpha_scan, k0_eigen, k0_fft
from book.kernel.theory.spectrum import Given, Spectrum, spectrum_of
from embviz.kernels import Matrix, circulant_scores, extract_kernel, log_counts

SAME = 1e-8  # departures below are none: rounding times a condition of 1e7 stays under it


def invariances(
    counts: Matrix,
    E: np.ndarray,
    *,
    eps: float = EPS,
    words: Sequence[str] | None = None,
    n_random: int = 10,
    seed: int = 0,
) -> pd.DataFrame:
    """What k0, the circulant score and their cosine depend on beside the text and the model.

    `counts` are pair counts (V, V), sparse or dense; E (V, D) tied embeddings, one row per word; `words` the
    vocabulary, to put it in alphabetical order. Of `n_random` orders the largest departure counts.

    Returns
    -------
    table with columns
        property: what is changed; quantity: what is looked at; departure: by how much that then differs at
        most (1 - cosine for rows, the difference for the score and the cosine); holds: below 1e-8
    """
    D = log_counts(counts)
    counts = counts if isinstance(counts, np.ndarray) else counts.toarray()
    base = _Measured.of(D, E, eps)
    rows: list[tuple[str, str, float]] = []
    for name, order in _orders(base.spectrum.matrix, words, n_random, seed):
        rows += _reordered(name, order, base, E, eps)
    rows += _changed_model(base, E, eps, seed)
    rows += _changed_counts(counts, base, E, eps)
    for form in get_args(Form):
        scan = alpha_scan(base.spectrum, [0.001, 0.003, 0.005, 0.01, 0.02], form=form)
        furthest = max(_departure(scan[0], other) for other in scan[1:])
        rows.append(("eps from 0.001 to 0.02", f"k0, {form} form", furthest))
    table = pd.DataFrame(rows, columns=["property", "quantity", "departure"])
    table = table.groupby(["property", "quantity"], sort=False, as_index=False).max()
    return table.assign(holds=table.departure < SAME)


@dataclass(frozen=True, eq=False)
class _Measured:
    """What is compared before and after a change."""

    spectrum: Spectrum
    k0: dict[str, np.ndarray]  # by name: derived in both forms, and extracted
    score: float
    cosine: dict[str, float]  # of each derived k0 with the extracted one

    @classmethod
    def of(cls, D: Given, E: np.ndarray, eps: float, *, row: int = 0) -> _Measured:
        spectrum = spectrum_of(D)
        extraction = extract_kernel(E @ E.T, spectrum.matrix, zeros="drop")
        rows = {
            "eigen form": k0_eigen(spectrum, eps, row=row),
            "fft form": k0_fft(spectrum, eps, row=row),
            "extracted": extraction.kernel[row],
        }
        cosine = {name: 1 - _departure(rows[name], rows["extracted"]) for name in ("eigen form", "fft form")}
        return cls(spectrum, rows, float(circulant_scores(extraction.kernel)), cosine)

    def against(
        self, other: _Measured, property_: str, order: np.ndarray | None = None
    ) -> Iterator[tuple[str, str, float]]:
        """Departures of `other`, whose words are in that order, from this."""
        for name, values in self.k0.items():
            expected = values if order is None else values[order]
            yield property_, f"k0, {name}", _departure(expected, other.k0[name])
        yield property_, "circulant score", abs(self.score - other.score)
        for name, value in self.cosine.items():
            yield property_, f"cosine, {name}", abs(value - other.cosine[name])


def _departure(x: np.ndarray, y: np.ndarray) -> float:
    """1 - cosine, without the rounding of a difference of nearly equal numbers."""
    x, y = x / np.linalg.norm(x), y / np.linalg.norm(y)
    return float(((x - y) ** 2).sum() / 2)


def _orders(
    D: np.ndarray, words: Sequence[str] | None, n_random: int, seed: int
) -> Iterator[tuple[str, np.ndarray]]:
    yield "words by falling frequency", np.argsort(-np.expm1(D).sum(axis=1), kind="stable")
    if words is not None:
        yield "words in alphabetical order", np.argsort(np.asarray(words), kind="stable")
    yield "words moved on by one place", np.roll(np.arange(len(D)), 1)
    yield "words in reverse order", np.arange(len(D))[::-1].copy()
    rng = np.random.default_rng(seed)
    for _ in range(n_random):
        yield "words in random order", rng.permutation(len(D))


def _reordered(
    name: str, order: np.ndarray, base: _Measured, E: np.ndarray, eps: float
) -> Iterator[tuple[str, str, float]]:
    """One word's row wherever it went; and the first row, which becomes another word's."""
    spectrum = base.spectrum.permuted(order)
    place = int(np.flatnonzero(order == 0)[0])  # of the word that was first
    yield from base.against(
        _Measured.of(spectrum, E[order], eps, row=place), f"{name}, same word's row", order
    )
    yield from base.against(_Measured.of(spectrum, E[order], eps), f"{name}, first row")


def _changed_model(base: _Measured, E: np.ndarray, eps: float, seed: int) -> Iterator[tuple[str, str, float]]:
    rng = np.random.default_rng(seed)
    rotation, _ = np.linalg.qr(rng.standard_normal((E.shape[1], E.shape[1])))
    yield from base.against(_Measured.of(base.spectrum, E @ rotation, eps), "embeddings rotated")
    yield from base.against(_Measured.of(base.spectrum, 10 * E, eps), "embeddings ten times as long")
    kernel = extract_kernel(E @ E.T, base.spectrum.matrix, zeros="drop").kernel
    yield "row for column", "k0, extracted", _departure(kernel[0], kernel[:, 0])
    last = len(E) - 1
    rolled = _Measured.of(base.spectrum, E, eps, row=last)
    for key, values in rolled.k0.items():
        yield "last row, rolled back", f"k0, {key}", _departure(base.k0[key], np.roll(values, -last))


def _changed_counts(
    counts: Matrix, base: _Measured, E: np.ndarray, eps: float
) -> Iterator[tuple[str, str, float]]:
    D = base.spectrum.matrix
    for name, other in (
        ("logarithm to base 2", D / math.log(2)),
        ("counts doubled", log_counts(2 * counts)),
        ("diagonal of D left out", D - np.diag(D.diagonal())),
    ):
        if other.any(axis=1).all():  # a word that meets itself alone has no row without the diagonal
            yield from base.against(_Measured.of(other, E, eps), name)
