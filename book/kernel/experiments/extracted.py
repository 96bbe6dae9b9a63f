"""Kernels extracted from models: how exact, how circulant, how alike over seeds (kernel paper, section 3)."""

from __future__ import annotations

import itertools
import math

import numpy as np

from book.kernel import theory
from book.kernel.experiments import models
from book.kernel.experiments.models import Trained
from book.ledger import findings
from book.ledger.cells import Cell
from book.ledger.findings import Finding
from book.ledger.studies import Study
from embviz import kernels

LEAST_SCORE = 0.85  # below, the paper calls a model not converged
N_RANDOM = 50  # Gram matrices, and orders of the vocabulary
N_RESAMPLED = 2_000
READINGS = "sets of readings"  # a largest or least of several is one number


def round_trip(trained: Trained, W: np.ndarray) -> np.ndarray:
    """Relative error of W (..., V, V) after extraction and reconstruction, (...)."""
    extraction = kernels.extract_kernel(W, trained.spectrum.matrix, zeros="drop")
    back = theory.reconstruct(trained.spectrum.matrix, extraction.kernel)
    return np.linalg.norm(back - W, axis=(-2, -1)) / np.linalg.norm(W, axis=(-2, -1))


LEAST_ERROR = -12  # power of ten below which an error is rounding, and its digits depend on the machine


def error_power(error: float) -> int:
    """The power of ten that bounds an error, :data:`LEAST_ERROR` at least."""
    return max(LEAST_ERROR, math.ceil(math.log10(error))) if error else LEAST_ERROR


def random_symmetric(V: int, n: int, *, seed: int = 0) -> np.ndarray:
    """Matrices of independent entries, (n, V, V), symmetrized."""
    entries = np.random.default_rng(seed).standard_normal((n, V, V))
    return entries + entries.swapaxes(1, 2)


def random_embeddings(V: int, dim: int, n: int, *, seed: int = 0) -> np.ndarray:
    """Rows from N(0, 1), (n, V, D)."""
    return np.random.default_rng(seed).standard_normal((n, V, dim))


def permuted_scores(
    trained: Trained, n: int = N_RANDOM, *, seed: int = 0, embeddings: np.ndarray | None = None
) -> np.ndarray:
    """Circulant scores with words, of W and D alike, in n random orders, (n, R).

    Of the trained embeddings, or of others (R, V, D) if given.
    """
    rng, scores = np.random.default_rng(seed), []
    rows = trained.last if embeddings is None else embeddings
    for _ in range(n):
        order = rng.permutation(trained.spectrum.vocab_size)
        W = models.gram(rows[:, order])
        extraction = kernels.extract_kernel(W, trained.spectrum.permuted(order).matrix, zeros="drop")
        scores.append(theory.circulant_scores(extraction.kernel))
    return np.array(scores)


def between_seeds(rows: np.ndarray) -> np.ndarray:
    """Cosines of every two of rows (R, V): (R, R)."""
    unit = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    product: np.ndarray = unit @ unit.T
    return product


def mean_between(rows: np.ndarray) -> float:
    """Their mean over pairs; 1 for a single row."""
    if len(rows) == 1:
        return 1.0
    return float(between_seeds(rows)[np.triu_indices(len(rows), 1)].mean())


def off_diagonal(W: np.ndarray) -> np.ndarray:
    """Entries above the diagonal of a stack (..., V, V), as rows."""
    rows, columns = np.triu_indices(W.shape[-1], 1)
    entries: np.ndarray = W[..., rows, columns]
    return entries


def resampled(rows: np.ndarray, corpus: str, controls: dict[str, float]) -> Finding:
    """Mean cosine over pairs of rows (R, ...), its interval by drawing seeds again; no pairs of one seed."""
    table, n = between_seeds(rows), len(rows)
    value = mean_between(rows)
    if n < 3:
        return findings.once(value, controls=controls, corpus=corpus)
    rng, drawn = np.random.default_rng(0), []
    for _ in range(N_RESAMPLED):
        chosen = rng.integers(n, size=n)
        different = [(i, j) for i, j in itertools.combinations(chosen, 2) if i != j]
        if different:
            drawn.append(np.mean([table[i, j] for i, j in different]))
    return findings.resampled(value, drawn, n, controls=controls, corpus=corpus)


# --- claims -----------------------------------------------------------------------------------------


def _exact(preset: str) -> dict[str, Finding]:
    trained = models.trained(preset)
    corpus, W = trained.corpus, models.gram(trained.last)
    random = random_symmetric(len(W[0]), len(W))
    bounds = {
        name: [float(f"1e{error_power(error)}") for error in round_trip(trained, matrices)]
        for name, matrices in (("error", W), ("error_random", random))
    }
    zeros = trained.extraction.n_zeros + trained.extraction.n_near_zeros
    controls = {"random": max(bounds["error_random"])}
    return {
        "error_of_any": findings.extreme(bounds["error"], largest=True, controls=controls, corpus=corpus),
        "zeros": findings.exact(zeros, corpus=corpus),
    }


def _circulant(preset: str) -> dict[str, Finding]:
    trained = models.trained(preset)
    corpus, scores = trained.corpus, trained.scores(trained.last)
    V, dim = trained.last.shape[1:]
    controls = {
        "untrained": float(trained.scores(trained.first).mean()),
        "identity": float(trained.scores(np.eye(V))),
        "random": float(trained.scores(random_embeddings(V, dim, N_RANDOM)).mean()),
        "permuted": float(permuted_scores(trained).mean()),
        "untrained permuted": float(permuted_scores(trained, embeddings=trained.first).mean()),
    }
    return {
        "score": models.of_cosines(scores, controls=controls, corpus=corpus),
        "loss": findings.over_seeds(models.final_losses(trained), corpus=corpus),
        "kept": findings.share(int((scores >= LEAST_SCORE).sum()), len(scores), corpus=corpus),
    }


def _cells(preset: str) -> list[Cell]:
    return models.cells_of(models.main(preset), models.shuffled(preset))


STUDIES: dict[str, Study] = {
    "kernel.exact": Study(models.main_cells, _exact),
    "kernel.circulant": Study(
        lambda preset: (
            _cells(preset) + models.cells_of(models.untied(preset), *models.readings(preset).values())
        ),
        _circulant,
        beside=lambda preset: (
            models.cells_of(*models.grid(preset)) + list(models.other_windows(preset).values())
        ),
    ),
}
