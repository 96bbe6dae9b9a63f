"""The lemmas, simulated: quadratic forms, the partition function, the involution, PMI as a random matrix.

Source: Assylbekov & Takhanov (2019), sections 1 and 2.
"""

from __future__ import annotations

import dataclasses
import itertools
import math

import numpy as np
import pandas as pd
from scipy import stats

from book.ledger import findings
from book.ledger.cells import Cell, Experiment, experiment, load
from book.ledger.findings import Finding
from book.ledger.studies import Study

THRESHOLDS = (1.5, 2.0, 3.0, 5.0)
ALPHAS = (0.25, 0.5, 1.0)
SIMULATIONS = "simulations"  # what is repeated, a seed each


# --- what the assumptions say ------------------------------------------------------------------------


def draw_vectors(n: int, d: int, rng: np.random.Generator, *, distribution: str = "gaussian") -> np.ndarray:
    """Word vectors of Assumption 1, or heavy-tailed ones of the same variance.

    Parameters
    ----------
    n, d : int
        Words and dimensions.
    distribution : {"gaussian", "student_t"}
        Entries N(0, 1/d), or Student's t with 3 degrees of freedom scaled to variance 1/d.

    Returns
    -------
    array, shape (n, d)
    """
    if distribution == "gaussian":
        return rng.standard_normal((n, d)) / math.sqrt(d)
    if distribution == "student_t":
        return rng.standard_t(3, (n, d)) / math.sqrt(3 * d)  # t with 3 degrees has variance 3
    raise ValueError(f"distribution must be 'gaussian' or 'student_t', not {distribution!r}")


def draw_orthogonal(d: int, kind: str, rng: np.random.Generator) -> np.ndarray:
    """An orthogonal matrix, shape (d, d): "identity", "signature" (half -1), "involution" or "orthogonal".

    An involution is a signature in a random basis; "orthogonal" is uniform over all (Haar).
    """
    if kind == "identity":
        return np.eye(d)
    signs = np.where(np.arange(d) < d // 2, 1.0, -1.0)
    if kind == "signature":
        return np.diag(signs)
    basis = stats.ortho_group.rvs(d, random_state=rng)
    if kind == "involution":
        return (basis * signs) @ basis.T
    if kind == "orthogonal":
        return basis
    raise ValueError(f"kind must be identity, signature, involution or orthogonal, not {kind!r}")


def unigram(n: int, alpha: float) -> np.ndarray:
    """Word probabilities of eq. 4: inversely proportional to rank ** (1 - alpha); shape (n,), sum 1.

    >>> unigram(2, 1.0)
    array([0.5, 0.5])
    """
    weights = np.arange(1, n + 1, dtype=float) ** (alpha - 1)
    return weights / weights.sum()


def simulated_pmi(
    n: int, d: int, n_positive: int, *, seed: int, distribution: str = "gaussian"
) -> np.ndarray:
    """PMI of section 2.3: W diag(+1, ..., -1, ...) W' with the first `n_positive` signs +1.

    Returns
    -------
    array, shape (n, n), in nats

    Raises
    ------
    ValueError
        If `n_positive` is not in 0..d.
    """
    if not 0 <= n_positive <= d:
        raise ValueError(f"n_positive must lie in 0..{d}, not {n_positive}")
    vectors = draw_vectors(n, d, np.random.default_rng(seed), distribution=distribution)
    signs = np.where(np.arange(d) < n_positive, 1.0, -1.0)
    return (vectors * signs) @ vectors.T


# --- Lemma 1 ----------------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class QuadraticForm:
    """One cell of Lemma 1."""

    d: int  # dimensions
    kind: str  # of Q, as in draw_orthogonal
    distribution: str  # of w, as in draw_vectors
    n_draws: int
    seed: int


@experiment("reflections.quadratic_form")
def quadratic_form(config: QuadraticForm) -> pd.DataFrame:
    """Share of draws with |w'Qw - Tr(Q)/d| > t sqrt(2/d), for each t (eq. 10)."""
    rng = np.random.default_rng(config.seed)
    q = draw_orthogonal(config.d, config.kind, rng)
    w = draw_vectors(config.n_draws, config.d, rng, distribution=config.distribution)
    deviation = np.abs(np.einsum("nd,nd->n", w @ q, w) - np.trace(q) / config.d)
    scale = math.sqrt(2 / config.d)
    return pd.DataFrame({"t": THRESHOLDS, "exceedance": [(deviation > t * scale).mean() for t in THRESHOLDS]})


def _quadratic_cells(preset: str) -> list[Cell]:
    dims, n_draws, n_seeds = {
        "quick": ((50, 100, 200), 4_000, 3),
        "laptop": ((50, 100, 200, 1000), 20_000, 10),
        "paper": ((50, 100, 200, 1000), 20_000, 10),
    }[preset]
    grid = itertools.product(
        dims, ("orthogonal", "signature", "identity"), ("gaussian", "student_t"), range(n_seeds)
    )
    return [quadratic_form.cell(QuadraticForm(d, kind, dist, n_draws, seed)) for d, kind, dist, seed in grid]


def _quadratic_findings(preset: str) -> dict[str, Finding]:
    table = load(_quadratic_cells(preset))
    table["ratio"] = table["exceedance"] * table["t"] ** 2
    worst = table.groupby(["distribution", "seed"])["ratio"].max()
    null = float(worst["student_t"].mean())
    return {
        "worst_ratio": findings.over_seeds(
            worst["gaussian"].to_numpy(), repeats=SIMULATIONS, controls={"student_t": null}
        )
    }


# --- Lemma 2 ----------------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class Partition:
    """One cell of Lemma 2."""

    n: int  # words
    d: int  # dimensions
    alpha: float  # smoothing of ranks, eq. 4
    case: str  # "uniform": signature Q, word drawn uniformly; "tied_frequent": Q = I, the first word
    n_draws: int
    seed: int


@experiment("reflections.partition")
def partition(config: Partition) -> pd.DataFrame:
    """Mean and variances of Z_j over draws (eq. 12, 25).

    Given w_j, the other terms' exponents are independent N(0, |w_j|^2 / d), so Z_j is drawn exactly
    without the other words' vectors. The conditional variance uses eight fixed words.
    """
    rng = np.random.default_rng(config.seed)
    p = unigram(config.n, config.alpha)
    words = [_draw_word(config, rng) for _ in range(config.n_draws)]
    fresh = [draw_partition(p, config.d, word, 1, rng)[0] for word in words]
    fixed = [draw_partition(p, config.d, word, config.n_draws // 8, rng) for word in words[:8]]
    conditional = [z.var(ddof=1) for z in fixed]
    return pd.DataFrame(
        {
            "mean": [np.mean(fresh)],
            "standard_error": [np.std(fresh, ddof=1) / math.sqrt(config.n_draws)],
            "total_variance": [np.var(fresh, ddof=1)],
            "conditional_variance": [np.mean(conditional)],
        }
    )


def _draw_word(config: Partition, rng: np.random.Generator) -> tuple[int, float, float]:
    """Index j, |w_j|^2 and w_j'Qw_j of a word."""
    w = draw_vectors(1, config.d, rng)[0]
    half = config.d // 2
    if config.case == "tied_frequent":
        return 0, float(w @ w), float(w @ w)
    return int(rng.integers(config.n)), float(w @ w), float(w[:half] @ w[:half] - w[half:] @ w[half:])


def draw_partition(
    p: np.ndarray, d: int, word: tuple[int, float, float], n_draws: int, rng: np.random.Generator
) -> np.ndarray:
    """Partition function of one word, the other words' vectors drawn again each time.

    Parameters
    ----------
    p : array, shape (n,)
        Word probabilities.
    d : int
        Dimensions.
    word : tuple
        Index j, |w_j|^2 and w_j'Qw_j.

    Returns
    -------
    array, shape (n_draws,)
        Z_j = sum_i p_i exp(w_j'c_i), by the exact law of its terms given w_j.
    """
    index, norm2, own = word
    z = np.empty(n_draws)
    for i in range(n_draws):
        terms = np.exp(rng.standard_normal(len(p)) * math.sqrt(norm2 / d))
        terms[index] = math.exp(own)
        z[i] = p @ terms
    return z


def _partition_cells(preset: str) -> list[Cell]:
    sizes, n_draws, n_seeds = {
        "quick": ((300, 1_000, 3_000), 400, 3),
        "laptop": ((1_000, 3_000, 10_000, 30_000, 100_000), 800, 5),
        "paper": ((1_000, 3_000, 10_000, 30_000, 100_000), 800, 5),
    }[preset]
    first = 0 if preset == "quick" else 5  # 0 to 4 were seen before the amendment
    grid = itertools.product(sizes, ALPHAS, ("uniform", "tied_frequent"), range(first, first + n_seeds))
    return [partition.cell(Partition(n, 100, alpha, case, n_draws, seed)) for n, alpha, case, seed in grid]


def _partition_findings(preset: str) -> dict[str, Finding]:
    table = load(_partition_cells(preset))
    table["excess"] = (table["mean"] - 1) * 2 * table["d"]
    worst = {case: _farthest_from_1(rows) for case, rows in table.groupby("case")}
    found = {
        "excess_ratio": findings.over_seeds(
            worst["uniform"],
            repeats=SIMULATIONS,
            controls={"tied_frequent": float(worst["tied_frequent"].mean())},
        )
    }
    uniform = table[table["case"] == "uniform"]
    for alpha in ALPHAS:
        slopes = _slopes(uniform[uniform["alpha"] == alpha], "conditional_variance")
        found[f"slope_{round(alpha * 100):03d}"] = findings.over_seeds(slopes, repeats=SIMULATIONS)
    return found


def _farthest_from_1(table: pd.DataFrame) -> np.ndarray:
    """How much more than 1 the mean is, over 1/(2d), by seed: where n and alpha bring its average farthest
    from 1, on a logarithmic scale.
    """
    by_setting = table.pivot(index=["n", "alpha"], columns="seed", values="excess")
    off = np.log(by_setting.mean(axis=1)).abs()
    return by_setting.loc[off.idxmax()].to_numpy()


def _slopes(table: pd.DataFrame, column: str) -> list[float]:
    """Slope of log `column` in log n, one a seed."""
    groups = table.groupby("seed")
    return [float(np.polyfit(np.log(rows["n"]), np.log(rows[column]), 1)[0]) for _, rows in groups]


# --- Lemma 3 ----------------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class RecoveredMap:
    """One cell of Lemma 3."""

    n: int  # words
    d: int  # dimensions
    alpha: float  # smoothing of ranks, eq. 4
    kind: str  # of the true Q: "involution", or the null "orthogonal"
    seed: int


@experiment("reflections.recovered_map")
def recovered_map(config: RecoveredMap) -> pd.DataFrame:
    """Generate the joint distribution, take its exact PMI, solve for Q, measure |Q^2 - I|_F / sqrt(d).

    p(i, j) is proportional to p_i p_j exp(w_j'c_i), averaged with its transpose, as a symmetric window
    does. Q is solved from PMI = W Q' W' by the pseudo-inverse of W.
    """
    rng = np.random.default_rng(config.seed)
    w = draw_vectors(config.n, config.d, rng)
    q = draw_orthogonal(config.d, config.kind, rng)
    p = unigram(config.n, config.alpha)
    joint = np.exp(w @ q.T @ w.T) * p[:, None] * p
    joint = (joint + joint.T) / (2 * joint.sum())
    marginal = joint.sum(axis=1)
    pmi = np.log(joint / marginal[:, None] / marginal)
    inverse = np.linalg.pinv(w)
    recovered = inverse @ pmi @ inverse.T
    distance = np.linalg.norm(recovered - q) / np.linalg.norm(q)
    error = np.linalg.norm(recovered @ recovered - np.eye(config.d)) / math.sqrt(config.d)
    return pd.DataFrame({"involution_error": [error], "distance_to_truth": [distance]})


@experiment("reflections.joint_asymmetry")
def joint_asymmetry(config: RecoveredMap) -> pd.DataFrame:
    """How far p(i | j) p_j of Assumption 3 is from its own transpose, as a symmetric window's must not be.

    Returns
    -------
    DataFrame
        asymmetry: the total variation distance between the two joint distributions, in 0..1.
    """
    rng = np.random.default_rng(config.seed)
    w = draw_vectors(config.n, config.d, rng)
    q = draw_orthogonal(config.d, config.kind, rng)
    p = unigram(config.n, config.alpha)
    weights = np.exp(w @ q.T @ w.T) * p[:, None]  # row i, column j: p_i exp(w_j'c_i)
    joint = weights / weights.sum(axis=0) * p
    return pd.DataFrame({"asymmetry": [np.abs(joint - joint.T).sum() / 2]})


def _recovered_cells(preset: str) -> list[Cell]:
    return [*_map_cells(recovered_map, preset), *_map_cells(joint_asymmetry, preset)]


def _map_cells(of: Experiment, preset: str) -> list[Cell]:
    sizes, n_seeds = {
        "quick": ((200, 400, 800), 3),
        "laptop": ((200, 400, 800, 1600, 3200, 6400), 5),
        "paper": ((200, 400, 800, 1600, 3200, 6400), 5),
    }[preset]
    grid = itertools.product(sizes, ("involution", "orthogonal"), range(n_seeds))
    return [of.cell(RecoveredMap(n, 50, 0.25, kind, seed)) for n, kind, seed in grid]


def recovered_errors(preset: str = "paper") -> pd.DataFrame:
    """Stored maps: n, kind, seed, involution_error, asymmetry."""
    fields = ["n", "kind", "seed"]
    errors = load(_map_cells(recovered_map, preset))
    asymmetries = load(_map_cells(joint_asymmetry, preset))[[*fields, "asymmetry"]]
    return errors[[*fields, "involution_error"]].merge(asymmetries, on=fields, validate="one_to_one")


def _recovered_findings(preset: str) -> dict[str, Finding]:
    table = recovered_errors(preset)
    shares = table.pivot_table(index=["kind", "seed"], columns="n", values="asymmetry")
    first, last = shares.columns.min(), shares.columns.max()
    falls = shares[last] / shares[first]
    null_falls = {"random_orthogonal": float(falls["orthogonal"].mean())}
    return {
        "asymmetry_ratio": findings.over_seeds(
            falls["involution"].to_numpy(), repeats=SIMULATIONS, controls=null_falls
        ),
    }


# --- PMI as a random matrix -------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class RandomPMI:
    """One cell of section 2.3."""

    n: int  # words
    d: int  # dimensions
    distribution: str  # of the word vectors, as in draw_vectors
    positive: float  # share l/d of +1 in the signature
    n_draws: int
    seed: int


@experiment("reflections.random_pmi", version=2)
def random_pmi(config: RandomPMI) -> pd.DataFrame:
    """Moments of the entries of W signature W', and where its trace crosses zero; one row per draw."""
    rows = []
    for draw in range(config.n_draws):
        rng = np.random.default_rng([config.seed, draw])
        w = draw_vectors(config.n, config.d, rng, distribution=config.distribution)
        signs = np.where(np.arange(config.d) < round(config.positive * config.d), 1.0, -1.0)
        rows.append({"draw": draw, **entry_moments((w * signs) @ w.T), "zero_trace": _zero_trace(w)})
    return pd.DataFrame(rows)


def entry_moments(matrix: np.ndarray) -> dict[str, float]:
    """Moments about zero of a symmetric matrix, shape (n, n): off and on the diagonal, within rows, and the
    mean product of the three entries of three distinct words.
    """
    off = matrix[np.triu_indices_from(matrix, 1)]
    hollow = matrix - np.diag(np.diag(matrix))
    diagonal = np.diag(matrix)
    n = len(matrix)
    first, second = matrix[np.arange(n), (np.arange(n) + 1) % n], matrix[np.arange(n), (np.arange(n) + 2) % n]
    return {
        "offdiag_mean": float(off.mean()),
        "offdiag_variance": float((off**2).mean()),
        "diag_mean": float(diagonal.mean()),
        "diag_variance": float((diagonal**2).mean()),
        "correlation": float((first * second).mean() / (off**2).mean()),
        "triples": float(np.einsum("ij,ji->", hollow @ hollow, hollow) / (n * (n - 1) * (n - 2))),
    }


def _zero_trace(w: np.ndarray) -> float:
    """Share l/d at which the trace of W signature W' crosses zero, interpolated over l = 0..d."""
    energy = (w**2).sum(axis=0)
    trace = 2 * np.concatenate([[0.0], np.cumsum(energy)]) - energy.sum()  # rises with l
    return float(np.interp(0.0, trace, np.arange(len(trace)))) / w.shape[1]


def _random_pmi_cells(preset: str) -> list[Cell]:
    n_draws = {"quick": 40, "laptop": 200, "paper": 200}[preset]
    kinds = (("gaussian", 0.5), ("student_t", 0.5), ("gaussian", 1.0))
    seed = 0 if preset == "quick" else 1  # the matrices of seed 0 were seen before the amendment
    return [random_pmi.cell(RandomPMI(400, 100, *kind, n_draws, seed)) for kind in kinds]


def _random_pmi_findings(preset: str) -> dict[str, Finding]:
    table = load(_random_pmi_cells(preset))
    d = int(table["d"].iloc[0])
    units = {  # by finding: the moment, and its unit
        "offdiag_mean_sd": ("offdiag_mean", math.sqrt(1 / d)),
        "offdiag_variance_ratio": ("offdiag_variance", 1 / d),
        "diag_mean_sd": ("diag_mean", math.sqrt(2 / d)),
        "diag_variance_ratio": ("diag_variance", 2 / d),
        "row_correlation": ("correlation", 1.0),
        "triples_sd": ("triples", d**-1.5),
    }
    half = table["positive"] == 0.5
    gaussian = table[half & (table["distribution"] == "gaussian")]
    controls = {"student_t": table[table["distribution"] == "student_t"], "plain": table[~half]}
    found = {}
    for name, (moment, unit) in units.items():
        found[name] = findings.over_seeds(
            (gaussian[moment] / unit).to_numpy(),
            repeats="simulated matrices",
            controls={control: float(rows[moment].mean()) / unit for control, rows in controls.items()},
        )
    found["zero_trace"] = findings.over_seeds(gaussian["zero_trace"].to_numpy(), repeats="simulated matrices")
    return found


STUDIES = {
    "reflections.lemma1": Study(_quadratic_cells, _quadratic_findings),
    "reflections.lemma2": Study(_partition_cells, _partition_findings),
    "reflections.lemma3": Study(_recovered_cells, _recovered_findings),
    "reflections.pmi_random": Study(_random_pmi_cells, _random_pmi_findings),
}
