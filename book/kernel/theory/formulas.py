"""Fourteen formulas for k0, each in every reading that the text leaves open."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import scipy.fft

from book.kernel.theory.circulants import cyclic_diagonals
from book.kernel.theory.rows import (
    SAFE,
    alpha_scan,
    deconvolved_row,
    divisors,
    impulse_row,
    phases,
    responses,
    row_identity,
)
from book.kernel.theory.spectrum import (
    Given,
    Spectrum,
    eigenpairs,
    log_values,
    matrix_power,
    spectrum_of,
)
from embviz.kernels import Matrix, log_counts
from embviz.words.cooccurrence import pmi, ppmi

TABLE_2 = (1.0, 0.5, 0.1, 0.05, 0.01, 0.005, 0.003, 0.001)


@dataclass(frozen=True, eq=False)
class Candidate:
    """One reading of a formula of Table 1."""

    id: str  # the paper's
    reading: str  # what was read into it; "as written" where the text defines it
    values: np.ndarray  # (V,)

    @property
    def label(self) -> str:
        """Name and reading."""
        return f"{self.id} ({self.reading})"


@dataclass(frozen=True, eq=False)
class _Source:
    """What the formulas draw on."""

    counts: np.ndarray  # (V, V)
    spectrum: Spectrum
    ranks: dict[str, int]  # by what they are called in labels
    alphas: tuple[float, ...]
    safe: float | None

    def deconvolved(self, M: np.ndarray) -> np.ndarray:
        return deconvolved_row(M, self.spectrum, safe=self.safe)

    def truncated(self, matrix: Spectrum, rank: int, power: float = 1.0) -> np.ndarray:
        """The eigenpairs largest in magnitude, as the SVD of a symmetric matrix keeps them."""
        kept = np.argsort(-np.abs(matrix.values), kind="stable")[:rank]
        values = matrix.values[kept]
        weights = np.sign(values) * np.abs(values) ** power
        return (matrix.vectors[:, kept] * weights) @ matrix.vectors[:, kept].T


Readings: TypeAlias = Iterator[tuple[str, np.ndarray]]


def candidates(
    counts: Matrix,
    D: Given | None = None,
    *,
    embedding_dim: int = 64,
    alphas: Sequence[float] = TABLE_2,
    safe: float | None = None,
) -> dict[str, Candidate]:
    """All fourteen formulas of Table 1, each in every reading that we could think of.

    Where the text fixes a formula its reading is "as written". A cosine doesn't see a factor: the d of H_cI
    is left out. "deconvolved" is the row of ifft2(fft2(.) / fft2(D)), divided as in the second listing.

    ====== ======================================================================================
    id     what the text leaves open
    ====== ======================================================================================
    H1     one transform of the first row, or two of D; amplitudes whitened by half or in full
    H2     norms as they are, about their mean, inverted
    H3     diagonal entries of 0; whether a word's own frequency is meant
    H4     "see section 4": the power D^(alpha - 1) itself, without any transform (the first listing)
    H5     whether PMI below 0 is cut off; whether it is deconvolved at all
    H6     the rank; the truncated D deconvolved, inverted (pseudo-inverse), or its row
    H7     how many frequencies pass; whether of D's row or of the identity's deconvolution
    H8     rows as they stand, or rolled back first
    H9     the rank; the residual's row or its deconvolution
    H10    about the mean or not; whether the eigenvalues go round
    H11    ranks; division by D as a deconvolution or entry by entry
    H12    the power's deconvolution (section 4.1, second listing), or its own row
    H_cI   1 as the transform of the identity or, as written, of an impulse
    H_logD the logarithm of negative eigenvalues; of the matrix or of its entries
    ====== ======================================================================================

    `counts` are symmetric pair counts (V, V), sparse or dense; D, if it is at hand, is theirs.
    `embedding_dim` is d, one of the ranks (the others: 10, V / 2, at the largest gap). `safe` as for
    :func:`k0_fft`. Labels are such as "H6 (rank 10, deconvolved)".

    The kernel paper, section 3.4, Table 1.
    """
    log_of_counts = log_counts(counts)
    spectrum = spectrum_of(log_of_counts if D is None else D)
    V = spectrum.vocab_size
    if log_of_counts.shape != spectrum.matrix.shape:
        raise ValueError(
            f"counts have {len(log_of_counts)} words and D has {V}: give counts and D of the same text"
        )
    dense = counts if isinstance(counts, np.ndarray) else counts.toarray()
    dense = dense.astype(float)
    ranks = {"10": 10, "d": embedding_dim, "V/2": V // 2, "at the largest gap": _gap_rank(spectrum)}
    ranks = {name: rank for name, rank in ranks.items() if 0 < rank < V}
    source = _Source(dense, spectrum, ranks, tuple(alphas), safe)
    found: dict[str, Candidate] = {}
    for name, readings in _FORMULAS.items():
        for reading, values in readings(source):
            candidate = Candidate(name, reading, values)
            found[candidate.label] = candidate
    return found


def _gap_rank(spectrum: Spectrum) -> int:
    """Eigenvalues before the largest fall in magnitude, from the second on: the first is the mean's."""
    sizes = np.sort(np.abs(spectrum.values))[::-1]
    return int(np.argmax(-np.diff(sizes[1:]))) + 2 if len(sizes) > 2 else 1


def _standardized(values: np.ndarray) -> np.ndarray:
    spread = values.std()
    return (values - values.mean()) / (spread if spread > 0 else 1.0)


def _whitened(s: _Source) -> Readings:
    V = s.spectrum.vocab_size
    sizes = divisors(np.abs(scipy.fft.rfft(s.spectrum.matrix[0])), V, s.safe, "fft of D's row")
    yield "as written", scipy.fft.irfft(1 / np.sqrt(sizes), n=V)
    yield "1 / amplitude", scipy.fft.irfft(1 / sizes, n=V)
    planes = divisors(np.abs(s.spectrum.transform), V, s.safe)
    yield "two-dimensional", scipy.fft.irfft(phases(V, 0) @ (1 / np.sqrt(planes)) / V, n=V)


def _row_energy(s: _Source) -> Readings:
    norms = np.linalg.norm(s.spectrum.matrix, axis=1)
    yield "as written", norms
    yield "standardized", _standardized(norms)
    yield "inverted", 1 / norms


def _log_frequency(s: _Source) -> Readings:
    diagonal = s.spectrum.matrix.diagonal()
    met = diagonal > 0
    logs = -np.log(np.where(met, diagonal, 1.0))
    yield "as written, zeros kept 0", logs
    yield "as written, zeros clamped", np.where(met, logs, -np.log(SAFE))
    yield "standardized", _standardized(logs)
    frequency = -np.log(s.counts.sum(axis=1) / s.counts.sum())
    yield "frequency of the words", frequency
    yield "frequency, standardized", _standardized(frequency)


def _matrix_powers(s: _Source) -> Readings:
    for alpha, values in zip(s.alphas, alpha_scan(s.spectrum, s.alphas, form="eigen"), strict=True):
        yield f"alpha {alpha:g}", values


def _pmi_kernel(s: _Source) -> Readings:
    cut = ppmi(s.counts)
    yield "as written", s.deconvolved(cut)
    yield "PMI of both signs", s.deconvolved(pmi(s.counts))
    yield "not deconvolved", cut[0]


def _truncations(s: _Source) -> Readings:
    for name, rank in s.ranks.items():
        kept = s.truncated(s.spectrum, rank)
        yield f"rank {name}, deconvolved", s.deconvolved(kept)
        yield f"rank {name}, pseudo-inverse", s.truncated(s.spectrum, rank, power=-1.0)[0]
        yield f"rank {name}, row", kept[0]


def _low_passes(s: _Source) -> Readings:
    V = s.spectrum.vocab_size
    own = scipy.fft.rfft(s.spectrum.matrix[0])
    identity = scipy.fft.rfft(row_identity(s.spectrum, safe=s.safe))
    for name, n_kept in (("quarter", len(own) // 4), ("half", len(own) // 2)):
        passed = np.arange(len(own)) < max(1, n_kept)
        yield f"{name} kept", scipy.fft.irfft(np.where(passed, own, 0), n=V)
        yield f"{name} kept, identity deconvolution", scipy.fft.irfft(np.where(passed, identity, 0), n=V)


def _mean_rows(s: _Source) -> Readings:
    mean = s.spectrum.matrix.mean(axis=0)
    aligned = cyclic_diagonals(s.spectrum.matrix) / s.spectrum.vocab_size
    yield "as written", mean
    yield "standardized", _standardized(mean)
    yield "rows rolled back", aligned
    yield "rows rolled back, standardized", _standardized(aligned)


def _residuals(s: _Source) -> Readings:
    for name, rank in {"1": 1, **s.ranks}.items():
        residual = s.spectrum.matrix - s.truncated(s.spectrum, rank)
        yield f"rank {name}, row", residual[0]
        yield f"rank {name}, deconvolved", s.deconvolved(residual)


def _autocorrelations(s: _Source) -> Readings:
    falling = s.spectrum.values[::-1]
    V = len(falling)
    for name, values in (("as written", falling), ("about the mean", _standardized(falling))):
        lagged = scipy.fft.irfft(np.abs(scipy.fft.rfft(values, n=2 * V)) ** 2, n=2 * V)[:V]
        yield name, lagged
        yield f"{name}, going round", scipy.fft.irfft(np.abs(scipy.fft.rfft(values)) ** 2, n=V)


def _truncated_pmi(s: _Source) -> Readings:
    own, D = eigenpairs(ppmi(s.counts)), s.spectrum.matrix
    for name, rank in s.ranks.items():
        if name != "at the largest gap":
            kept = s.truncated(own, rank)
            yield f"rank {name}, deconvolved", s.deconvolved(kept)
            met = D[0] > 0
            yield f"rank {name}, entry by entry", np.where(met, kept[0] / np.where(met, D[0], 1), 0.0)


def _powers(s: _Source) -> Readings:
    rows = alpha_scan(s.spectrum, s.alphas, form="fft", safe=s.safe)
    for alpha, values in zip(s.alphas, rows, strict=True):
        yield f"alpha {alpha:g}", values
        yield f"alpha {alpha:g}, not deconvolved", matrix_power(s.spectrum, alpha)[0]


def _identities(s: _Source) -> Readings:
    yield "identity matrix", row_identity(s.spectrum, safe=s.safe)
    yield "as written: an impulse", impulse_row(s.spectrum, safe=s.safe)


def _logarithms(s: _Source) -> Readings:
    columns = responses(s.spectrum, "fft", safe=s.safe)
    yield "clamped", columns @ log_values(s.spectrum.values, "clamp")
    logs = columns @ log_values(s.spectrum.values, "complex")
    yield "complex, real part", logs.real
    yield "complex, imaginary part", logs.imag
    met = s.spectrum.matrix > 0
    yield "of the entries", s.deconvolved(np.log(np.where(met, s.spectrum.matrix, 1.0)))


_FORMULAS = {
    "H1": _whitened,
    "H2": _row_energy,
    "H3": _log_frequency,
    "H4": _matrix_powers,
    "H5": _pmi_kernel,
    "H6": _truncations,
    "H7": _low_passes,
    "H8": _mean_rows,
    "H9": _residuals,
    "H10": _autocorrelations,
    "H11": _truncated_pmi,
    "H12": _powers,
    "H_cI": _identities,
    "H_logD": _logarithms,
}
