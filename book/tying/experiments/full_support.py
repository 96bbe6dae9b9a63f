"""Theorem 4.1 as an inequality, on a language whose optimum exists and is reached.

Encodings H (n, D) of all contexts times the difference of two output embeddings is the difference of two
logits in every context. So the distance is at most |difference of the logits| / smallest singular value of H.

Source: tying paper, Theorem 4.1.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

import numpy as np
import pandas as pd
from scipy import optimize, special

from book.ledger import findings
from book.ledger.cells import Cell, experiment, read
from book.ledger.findings import Finding

EQUIVALENT, OTHER = (0, 1), (2, 3)  # symbols with the same logits; two with different ones


@dataclasses.dataclass(frozen=True)
class FullSupport:
    """Languages in which every symbol may stand in every context, and a model of each, trained to the end."""

    n_seeds: int = 20
    n_contexts: int = 24
    n_symbols: int = 8
    rank: int = 3  # of the language's logits
    embedding_dim: int = 4  # of the model
    kept_dims: int = 4  # of the encodings, the others being 0
    n_iterations: int = 20_000  # of L-BFGS, at most


def draw_language(config: FullSupport, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Probabilities of symbols in each context, (n, V), all above 0, and of the contexts, (n,).

    The logits have rank `config.rank`, so that a model can reach them; the first two symbols have the same.
    """
    contexts = rng.normal(size=(config.n_contexts, config.rank))
    symbols = rng.normal(size=(config.n_symbols, config.rank))
    symbols[EQUIVALENT[1]] = symbols[EQUIVALENT[0]]
    weights: np.ndarray = rng.dirichlet(np.full(config.n_contexts, 2.0))
    return special.softmax(contexts @ symbols.T, axis=1), weights


def trained(
    exact: np.ndarray,
    weights: np.ndarray,
    *,
    dims: int,
    kept: int,
    n_iterations: int,
    rng: np.random.Generator,
) -> Iterator[tuple[int, np.ndarray, np.ndarray]]:
    """Encodings H (n, D) and output embedding E (V, D): at first, at iterations 1, 2, 4, ..., at the end.

    Parameters
    ----------
    exact : array, shape (n, V)
        The language's probabilities in each context.
    weights : array, shape (n,)
        Of the contexts.
    dims, kept : int
        D; and how many coordinates of H are free, the others being 0.
    n_iterations : int
        Of L-BFGS on the exact loss, at most; it ends when no gradient exceeds 1e-11.
    rng : Generator
        Of the start, N(0, 1).
    """
    n, n_symbols = exact.shape
    free = np.arange(dims) < kept

    def split(flat: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        H, E = flat[: n * dims].reshape(n, dims), flat[n * dims :].reshape(n_symbols, dims)
        return H * free, E

    def loss(flat: np.ndarray) -> tuple[float, np.ndarray]:
        H, E = split(flat)
        logits = H @ E.T
        error = weights[:, None] * (special.softmax(logits, axis=1) - exact)  # the logits' gradient
        return _loss(logits, exact, weights), np.concatenate(
            [((error @ E) * free).ravel(), (error.T @ H).ravel()]
        )

    at = rng.normal(size=(n + n_symbols) * dims)
    count, taken = 0, [(0, at)]

    def look(state: np.ndarray) -> None:
        nonlocal count
        count += 1
        if count & (count - 1) == 0:  # a power of two
            taken.append((count, state.copy()))

    limits = {"maxiter": n_iterations, "maxfun": 2 * n_iterations, "gtol": 1e-11, "ftol": 0.0, "maxcor": 30}
    found = optimize.minimize(loss, at, jac=True, method="L-BFGS-B", callback=look, options=limits)
    for step, flat in [*taken, (int(found.nit), found.x)]:
        yield (step, *split(flat))


def _loss(logits: np.ndarray, exact: np.ndarray, weights: np.ndarray) -> float:
    """Cross entropy above the optimum, nats."""
    gaps = (exact * (np.log(exact) - special.log_softmax(logits, axis=1))).sum(axis=1)
    return float(weights @ gaps)


def bound_terms(H: np.ndarray, E: np.ndarray, pair: tuple[int, int]) -> dict[str, float]:
    """Both sides of the inequality for a pair of symbols: distance, |difference of the logits|, and the
    encodings' smallest and largest singular value."""
    difference = E[pair[0]] - E[pair[1]]
    sizes = np.linalg.svd(H, compute_uv=False)
    return {
        "distance": float(np.linalg.norm(difference)),
        "logits": float(np.linalg.norm(H @ difference)),
        "smallest": float(sizes[-1]),
        "largest": float(sizes[0]),
    }


@experiment("tying.full_support", threads=1)
def full_support(config: FullSupport) -> pd.DataFrame:
    """Train a model of each language, and tabulate both sides of the inequality along the way.

    Returns
    -------
    DataFrame
        seed, step, pair ("equivalent", "other"), loss above the optimum in nats, unrelated (mean distance of
        all pairs but the equivalent one), and what :func:`bound_terms` names.
    """
    rows = []
    for seed in range(config.n_seeds):
        rng = np.random.default_rng([41, seed])
        exact, weights = draw_language(config, rng)
        models = trained(
            exact,
            weights,
            dims=config.embedding_dim,
            kept=config.kept_dims,
            n_iterations=config.n_iterations,
            rng=rng,
        )
        for step, H, E in models:
            u, v = np.triu_indices(config.n_symbols, 1)
            distances = np.linalg.norm(E[u] - E[v], axis=1)
            shared = {
                "seed": seed,
                "step": step,
                "loss": max(_loss(H @ E.T, exact, weights), 0.0),
                "unrelated": distances[(u != EQUIVALENT[0]) | (v != EQUIVALENT[1])].mean(),
            }
            for name, pair in (("equivalent", EQUIVALENT), ("other", OTHER)):
                rows.append({**shared, "pair": name, **bound_terms(H, E, pair)})
    return pd.DataFrame(rows)


# --- from stored cells to findings ------------------------------------------------------------------------


def support_cells(preset: str) -> dict[str, Cell]:
    """Models whose encodings may span the space, and those that keep 3 of 4 dimensions."""
    base = FullSupport(n_seeds=3, n_iterations=200) if preset == "quick" else FullSupport()
    return {
        "spanning": full_support.cell(base),
        "rank_3": full_support.cell(dataclasses.replace(base, kept_dims=3)),
    }


def support_table(preset: str = "paper") -> pd.DataFrame:
    """Both kinds of models along the way: `encodings` ("spanning", "rank_3") and the experiment's columns.

    `bound` is the right side of the inequality, infinite where the encodings don't span.
    """
    parts = [read(cell)[0].assign(encodings=name) for name, cell in support_cells(preset).items()]
    table = pd.concat(parts, ignore_index=True)
    spans = table["smallest"] > 1e-12 * table["largest"]
    return table.assign(bound=(table["logits"] / table["smallest"].where(spans)).fillna(np.inf))


def support_findings(preset: str) -> dict[str, Finding]:
    """The largest share of the bound that any distance reaches, and the distance at the optimum."""
    table = support_table(preset)
    end = table[(table["pair"] == "equivalent")].groupby(["encodings", "seed"]).last().reset_index()
    end = end.assign(ratio=end["distance"] / end["unrelated"])
    spanning, rank_3 = (end[end["encodings"] == name] for name in ("spanning", "rank_3"))
    return {
        "bound_share": findings.exact(float((table["distance"] / table["bound"]).max())),
        "optimum_ratio": findings.over_seeds(
            spanning["ratio"].to_numpy(), controls={"rank_3": float(rank_3["ratio"].mean())}
        ),
        "optimum_loss": findings.exact(float(end["loss"].max())),
    }
