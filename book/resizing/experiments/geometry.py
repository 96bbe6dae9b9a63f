"""What random maps do to the vectors of a trained model: distances, angles, out of support; and the appendix.

Source: the resizing paper, sections 2.2, 4.2, 5 and 8, Appendix A.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import torch

from book.language import Streams, TextConfig, draw_batch, load_streams
from book.ledger import findings
from book.ledger.cells import Cell, Experiment, experiment, table_of
from book.ledger.findings import Finding
from book.ledger.studies import Part, Study
from book.resizing import angles
from book.resizing.experiments import bases
from book.resizing.experiments.bases import BaseRun
from book.resizing.lemma import bound, distortions, smallest_width
from embviz import projections
from embviz.metrics import kurtosis
from embviz.projections import FAMILIES, Projection, draw

EPS, DELTA, C = 0.5, 0.05, 8.0
EMBEDDINGS, HIDDEN = "embeddings", "hidden states"
COORDINATES, PCA, EXPECTED = "coordinates", "pca", "expected"
SHARES = (1 / 8, 3 / 16, 1 / 4, 3 / 8, 1 / 2, 3 / 4, 1, 3 / 2, 2, 3, 4)  # m / d


# --- vectors ----------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Vectors:
    """What is mapped: of one model, (n, d) each."""

    embeddings: np.ndarray  # of all tokens
    hidden: np.ndarray  # as many states of all layers, on training text

    @property
    def dim(self) -> int:
        """d."""
        return int(self.embeddings.shape[1])

    def items(self) -> tuple[tuple[str, np.ndarray], ...]:
        """Both by their names."""
        return (EMBEDDINGS, self.embeddings), (HIDDEN, self.hidden)


def vectors(run: BaseRun, seed: int = 0, *, streams: Streams | None = None) -> Vectors:
    """Token embeddings of a base model and as many of its hidden states, float64, on its text or another."""
    base = bases.load(run)
    embeddings = base.model.embedding.detach().double().numpy()
    return Vectors(embeddings, bases.calibration(base, len(embeddings), seed, streams=streams))


def widths(dim: int) -> list[int]:
    """The widths of a curve, from d / 8 to 4 d, at least 2.

    >>> widths(32)
    [4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128]
    """
    return sorted({max(2, round(share * dim)) for share in SHARES})


def _table(rows: Iterator[Mapping[str, Any]], run: BaseRun, **data: str) -> pd.DataFrame:
    """Rows as a table that says what it read."""
    table = pd.DataFrame(list(rows))
    kinds = {"m": np.int32, "draw": np.int32, "value": np.float32}  # half the file: no verdict needs more
    table = table.astype(kinds)
    table.attrs["data"] = {run.text.corpus: bases.load(run).streams.checksum} | data
    return table


# --- the lemma --------------------------------------------------------------------------------------


@dataclass(frozen=True)
class LemmaRun:
    """Draws of maps of a model's vectors, all pairs held against the lemma."""

    base: BaseRun
    n_draws: int = 200  # at the lemma's width, and at each width that is tried for the smallest constant
    n_curve: int = 50  # draws at each width of the curve
    eps: float = EPS
    delta: float = DELTA
    C: float = C
    seed: int = 0


@experiment("resizing.lemma")
def lemma(config: LemmaRun) -> pd.DataFrame:
    """How far the worst pair moves.

    Returns
    -------
    DataFrame
        vectors, quantity, family, m, draw, value. "at bound": the largest |ratio of squared distances - 1|
        over all pairs, at the lemma's width, of a Gaussian map and of coordinates; "worst": the same of each
        family at the widths of a curve, on embeddings; "smallest": the least m at which a share of 1 - delta
        of the draws keeps every pair, on embeddings; value and m are the same there.
    """
    return _table(_lemma_rows(config, vectors(config.base)), config.base)


def _lemma_rows(config: LemmaRun, found: Vectors) -> Iterator[dict[str, Any]]:
    n_vectors, dim = found.embeddings.shape
    at_bound = bound(config.eps, n_vectors, config.delta, config.C)
    for (name, x), family in itertools.product(found.items(), ("gaussian", COORDINATES)):
        for i, value in enumerate(_worst(x, family, at_bound, config.n_draws, config.seed)):
            yield _row(name, "at bound", family, at_bound, i, value)
    for family, m in itertools.product(FAMILIES, widths(dim)):
        if m <= projections.largest_width(family, dim):
            for i, value in enumerate(_worst(found.embeddings, family, m, config.n_curve, config.seed)):
                yield _row(EMBEDDINGS, "worst", family, m, i, value)
    for family in FAMILIES:
        m = smallest_width(
            found.embeddings,
            family,
            eps=config.eps,
            delta=config.delta,
            n_draws=config.n_draws,
            seed=config.seed,
        )
        yield _row(EMBEDDINGS, "smallest", family, m, 0, m)


def _row(
    vectors: str, quantity: str, family: str, m: int, draw: int, value: float, **more: Any
) -> dict[str, Any]:
    return {
        "vectors": vectors,
        "quantity": quantity,
        "family": family,
        "m": m,
        "draw": draw,
        "value": float(value),
        **more,
    }


def _worst(x: np.ndarray, family: str, m: int, n_draws: int, seed: int) -> list[float]:
    """Largest |ratio of squared distances - 1| of each draw; draw i has the seed (seed, i)."""
    maps = (_drawn(family, m, x.shape[1], [seed, i]) for i in range(n_draws))
    return [float(np.abs(distortions(x, found) - 1).max()) for found in maps]


def _drawn(family: str, m: int, dim: int, seed: list[int]) -> Projection:
    make: Callable[..., Projection] = functools.partial(draw, family)
    if family == COORDINATES:
        make = projections.coordinates
    return make(m, dim, seed=seed)


def _lemma_findings(preset: str) -> dict[str, Finding]:
    run = lemma_run(preset)
    table = table_of(lemma.cell(run))
    corpus = run.base.text.corpus
    at_bound = table[table["quantity"] == "at bound"]
    found = {}
    for name, key in ((EMBEDDINGS, "failures_embeddings"), (HIDDEN, "failures_hidden")):
        lost = {
            family: (part["value"] > run.eps).to_numpy()
            for family, part in at_bound[at_bound["vectors"] == name].groupby("family")
        }
        null = {COORDINATES: float(lost[COORDINATES].mean())}
        found[key] = findings.share(
            int(lost["gaussian"].sum()), run.n_draws, repeats=bases.DRAWS, controls=null, corpus=corpus
        )
    return found


# --- families ---------------------------------------------------------------------------------------


@dataclass(frozen=True)
class MapsRun:
    """Families of maps at one width."""

    base: BaseRun
    n_lengths: int = 2_000  # draws, each of one token's embedding
    n_errors: int = 50  # draws, each of all pairs
    ratio: float = 0.5  # m / d
    seed: int = 0


@experiment("resizing.maps")
def maps(config: MapsRun) -> pd.DataFrame:
    """Lengths and angles under each family.

    Returns
    -------
    DataFrame
        vectors, quantity, family, m, draw, value. Of embeddings: "length", |Tx|^2 over |x|^2 of one token's,
        the tokens in turn, in isometric scaling; "angular error" of all of them, radians. Family "pca" is
        that of the hidden states, in one draw.
    """
    return _table(_maps_rows(config, vectors(config.base)), config.base)


def _maps_rows(config: MapsRun, found: Vectors) -> Iterator[dict[str, Any]]:
    x, dim = found.embeddings, found.dim
    m = max(1, round(config.ratio * dim))
    for family in FAMILIES:
        for i in range(config.n_lengths):
            token = x[i % len(x)]
            image = draw(family, m, dim, seed=[config.seed, i]).apply(token)
            kept = float((image**2).sum() / (token**2).sum())
            yield _row(EMBEDDINGS, "length", family, m, i, kept)
        for i in range(config.n_errors):
            error = angles.angular_error(x, draw(family, m, dim, seed=[config.seed, i]).apply(x))
            yield _row(EMBEDDINGS, "angular error", family, m, i, error)
    seen = projections.pca(found.hidden, m)
    yield _row(EMBEDDINGS, "angular error", PCA, m, 0, angles.angular_error(x, seen.apply(x)))


def _maps_findings(preset: str) -> dict[str, Finding]:
    run = maps_run(preset)
    table = table_of(maps.cell(run))
    corpus = run.base.text.corpus
    of = {key: part["value"].to_numpy() for key, part in table.groupby(["quantity", "family"])}
    found = {}
    for family in FAMILIES:
        lengths = of["length", family]
        # rows of unit length on average are those of an isometric map times sqrt(m / d)
        controls = {"unscaled": run.ratio * float(lengths.mean())}
        found[family] = findings.over_seeds(lengths, repeats=bases.DRAWS, controls=controls, corpus=corpus)
    return found


# --- measures ---------------------------------------------------------------------------------------


@dataclass(frozen=True)
class MeasuresRun:
    """Vectors whose measures are known beforehand; no model is needed."""

    n_vectors: int = 256
    dim: int = 128
    other_dim: int = 64  # of the vectors that have nothing to do with the first
    n_draws: int = 20
    seed: int = 0


@experiment("resizing.measures")
def measures(config: MeasuresRun) -> pd.DataFrame:
    """The four measures where their values are known.

    Returns
    -------
    DataFrame
        case, quantity, draw, value, closed (what it should be).
    """
    rows = []
    for i in range(config.n_draws):
        rng = np.random.default_rng([config.seed, i])
        x = rng.normal(size=(config.n_vectors, config.dim))
        turn = draw("orthonormal", config.dim, config.dim, seed=rng)
        other = rng.normal(size=(config.n_vectors, config.other_dim))
        rows += [(*row[:2], i, *row[2:]) for row in _closed_forms(x, turn)]
        error = angles.random_angular_error(config.dim, config.other_dim)
        rows += [
            ("rotation", "feature alignment", i, angles.feature_alignment(x, turn.apply(x)), np.nan),
            ("independent", "angular error", i, angles.angular_error(x, other), error),
            ("independent", "concordance", i, angles.concordance(x, other), 0.0),
        ]
    table = pd.DataFrame(rows, columns=["case", "quantity", "draw", "value", "closed"])
    # the trace of the rotation over d is what features in all directions come to, 0 on average over rotations
    return table.fillna({"closed": 0.0})


def _closed_forms(x: np.ndarray, turn: Projection) -> list[tuple[str, str, float, float]]:
    """Case, quantity, value and closed form, of changes that keep or reverse everything."""
    rows = []
    for case, image, aligned in (("identity", x, 1.0), ("scale", 3 * x, 1.0), ("reflection", -x, -1.0)):
        rows += [
            (case, "angular error", angles.angular_error(x, image), 0.0),
            (case, "concordance", angles.concordance(x, image), 1.0),
            (case, "feature alignment", angles.feature_alignment(x, image), aligned),
            (case, "kurtosis shift", angles.kurtosis_shift(x, image), 0.0),
        ]
    turned, n = turn.apply(x), x.shape[1]
    coin = (1 - 1 / n) / n  # variance of an entry of a one-hot vector
    one_hot = np.eye(n)
    return [
        *rows,
        ("rotation", "angular error", angles.angular_error(x, turned), 0.0),
        ("rotation", "concordance", angles.concordance(x, turned), 1.0),
        ("one-hot", "angular error", angles.angular_error(one_hot, turn.apply(one_hot)), 0.0),
        (
            "one-hot",
            "feature alignment",
            angles.feature_alignment(one_hot, turn.apply(one_hot)),
            float(np.trace(turn.matrix) / n),
        ),
        ("one-hot", "kurtosis", kurtosis(one_hot.ravel()), 1 / coin - 3),
    ]


def departures(table: pd.DataFrame) -> pd.Series:
    """|value - closed form| where there is one for each draw; relative to a closed form above 1."""
    aligned = (table["case"] == "rotation") & (table["quantity"] == "feature alignment")
    exact = table[(table["case"] != "independent") & ~aligned]  # a rotation turns features
    return (exact["value"] - exact["closed"]).abs() / exact["closed"].abs().clip(lower=1)


def _measures_findings(preset: str) -> dict[str, Finding]:
    table = table_of(measures.cell(measures_run(preset)))
    independent = table[table["case"] == "independent"].set_index("quantity")
    errors, concordances = independent.loc["angular error"], independent.loc["concordance"]
    draws = "draws of vectors and rotations"
    return {
        "departure": findings.extreme(
            departures(table).groupby(table["draw"]).max().to_numpy(), largest=True, repeats=draws
        ),
        "random_error": findings.over_seeds((errors["value"] / errors["closed"]).to_numpy(), repeats=draws),
        "random_concordance": findings.over_seeds(
            concordances["value"].to_numpy(), repeats=draws, within=(-1, 1)
        ),
    }


# --- curves -----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class CurvesRun:
    """Angular error and concordance against the width."""

    base: BaseRun
    n_draws: int = 20
    seed: int = 0


@experiment("resizing.geometry_curves")
def geometry_curves(config: CurvesRun) -> pd.DataFrame:
    """Gaussian maps at widths from d / 8 to 4 d.

    Returns
    -------
    DataFrame
        vectors, quantity ("angular error", radians, or "concordance"), family, m, draw, value. Family "pca"
        is that of the mapped vectors themselves, up to m = d; "expected" what
        :func:`book.resizing.angles.expected_angular_error` and its like say of a Gaussian map.
    """
    return _table(_curve_rows(config, vectors(config.base)), config.base)


def _curve_rows(config: CurvesRun, found: Vectors) -> Iterator[dict[str, Any]]:
    for name, x in found.items():
        for m in widths(found.dim):
            yield _row(name, "angular error", EXPECTED, m, 0, angles.expected_angular_error(x, m))
            yield _row(name, "concordance", EXPECTED, m, 0, angles.expected_concordance(x, m))
            own = [
                ("gaussian", i, draw("gaussian", m, found.dim, seed=[config.seed, m, i]))
                for i in range(config.n_draws)
            ]
            if m <= found.dim:
                own.append((PCA, 0, projections.pca(x, m)))
            for family, i, projection in own:
                image = projection.apply(x)
                yield _row(name, "angular error", family, m, i, angles.angular_error(x, image))
                yield _row(name, "concordance", family, m, i, angles.concordance(x, image))


def slopes(table: pd.DataFrame, dim: int) -> dict[tuple[str, str], np.ndarray]:
    """Slope of log angular error on log m by vectors and family, one a draw; PCA's below d, where it errs."""
    errors = table[table["quantity"] == "angular error"]
    errors = errors[(errors["family"] != PCA) | (errors["m"] < dim)]
    found: dict[tuple[str, str], list[float]] = {}
    for (name, family, _), part in errors.groupby(["vectors", "family", "draw"]):
        slope = np.polyfit(np.log(part["m"]), np.log(part["value"]), 1)[0]
        found.setdefault((str(name), str(family)), []).append(float(slope))
    return {key: np.array(values) for key, values in found.items()}


def _curves_findings(preset: str) -> dict[str, Finding]:
    found = {}
    dim = bases.base(preset).shape.embedding_dim
    of = [slopes(table_of(geometry_curves.cell(run)), dim) for run in curves_runs(preset)]
    for name, kind in (("embeddings", EMBEDDINGS), ("hidden", HIDDEN)):
        null = {PCA: float(np.mean([one[kind, PCA] for one in of]))}
        found[f"slope_{name}_bases"] = bases.over_bases(
            [one[kind, "gaussian"] for one in of], preset, controls=null
        )
    return found


# --- out of support ---------------------------------------------------------------------------------


@dataclass(frozen=True)
class SupportRun:
    """A calibration set of one text, and as many hidden states of another."""

    base: BaseRun
    text: TextConfig  # the other text
    backwards: bool = False  # read from its end to its beginning
    n_vectors: int = 256
    n_draws: int = 20  # each of a map and of both sets
    ratio: float = 0.5  # m / d
    seed: int = 0


@experiment("resizing.support")
def support(config: SupportRun) -> pd.DataFrame:
    """Distortion of the calibration set's pairs and of another text's.

    Returns
    -------
    DataFrame
        vectors ("inside" or "outside"), quantity, family ("gaussian" or "pca" of the calibration set), m,
        draw, value. "mean square" and "largest" of |ratio of squared distances - 1| over all pairs.
    """
    other = other_streams(config)
    rows = _support_rows(config, other)
    return _table(rows, config.base, **{config.text.corpus: other.checksum})


def other_streams(config: SupportRun) -> Streams:
    """The other text, in bytes or whatever the base model reads."""
    streams = load_streams(config.text)
    if not config.backwards:
        return streams
    turned = dataclasses.replace(streams.train, ids=streams.train.ids[::-1].copy())
    return dataclasses.replace(streams, train=turned)


def _support_rows(config: SupportRun, other: Streams) -> Iterator[dict[str, Any]]:
    base = bases.load(config.base)
    dim = base.config.shape.embedding_dim
    m = max(1, round(config.ratio * dim))
    for i in range(config.n_draws):
        seed = config.seed + i
        sets = {
            "inside": bases.calibration(base, config.n_vectors, seed),
            "outside": bases.calibration(base, config.n_vectors, seed, streams=other),
        }
        for family, projection in (
            ("gaussian", draw("gaussian", m, dim, seed=[config.seed, i])),
            (PCA, projections.pca(sets["inside"], m)),
        ):
            for name, x in sets.items():
                moved = np.abs(distortions(x, projection) - 1)
                yield _row(name, "mean square", family, m, i, np.mean(moved**2))
                yield _row(name, "largest", family, m, i, moved.max())


def ratios(table: pd.DataFrame, quantity: str, family: str) -> np.ndarray:
    """Values outside and inside, (n_draws, 2)."""
    own = table[(table["quantity"] == quantity) & (table["family"] == family)]
    return own.pivot(index="draw", columns="vectors", values="value")[["outside", "inside"]].to_numpy()


def _support_findings(preset: str) -> dict[str, Finding]:
    def outside_inside(family: str) -> list[float]:
        tables = [table_of(support.cell(run)) for run in support_runs(preset)]
        pairs = [ratios(table, "mean square", family).mean(axis=0) for table in tables]
        return [math.sqrt(outside / inside) for outside, inside in pairs]

    runs = sizes_runs(preset)
    tables, sizes = [table_of(support_sizes.cell(run)) for run in runs], runs[0].sizes
    null = {"gaussian": float(np.mean(outside_inside("gaussian")))}
    smaller = sizes[1] if len(sizes) > 2 else sizes[0]
    return {
        "ratio_seen": bases.over_bases(outside_inside(PCA), preset, controls=null),
        "larger": _outside(tables, ("own", sizes[-1]), ("own", smaller), preset),
    }


def _outside(
    tables: Sequence[pd.DataFrame], one: tuple[str, int], other: tuple[str, int], preset: str
) -> Finding:
    """Distortion on the other text by one calibration set, over another's; sets by kind and size."""
    of = {
        family: [math.sqrt(_square(table, family, *one) / _square(table, family, *other)) for table in tables]
        for family in (PCA, "gaussian")
    }
    null = {"gaussian": float(np.mean(of["gaussian"]))}
    return bases.over_bases(of[PCA], preset, controls=null, within=(0.0, math.inf))


def _square(table: pd.DataFrame, family: str, which: str, size: int) -> float:
    own = table[(table["vectors"] == "outside") & (table["family"] == family)]
    return float(own.loc[(own["set"] == which) & (own["size"] == size), "value"].mean())


def _representative(preset: str) -> dict[str, Finding]:
    runs = sizes_runs(preset, unseen=True)
    tables, size = [table_of(support_sizes.cell(run)) for run in runs], runs[0].sizes[-2]
    return {"representative_fresh": _outside(tables, ("mixed", size), ("own", size), preset)}


# --- a larger calibration set -------------------------------------------------------------------------


@dataclass(frozen=True)
class SizesRun:
    """Maps made from calibration sets of several sizes and of two texts, and distances under them."""

    base: BaseRun
    text: TextConfig  # the other text
    backwards: bool = False
    sizes: tuple[int, ...] = (128, 256, 1_024, 4_096)
    n_vectors: int = 512  # whose distances are measured, of each text
    n_directions: int = 24  # steering directions
    n_draws: int = 5
    ratio: float = 0.5  # m / d
    seed: int = 0


@experiment("resizing.support_sizes")
def support_sizes(config: SizesRun) -> pd.DataFrame:
    """Distortion of distances under maps that have seen a calibration set.

    Returns
    -------
    DataFrame
        vectors ("inside": others of the calibration set's text; "outside": of the other text; "steering":
        directions of the first), quantity ("mean square" of |ratio of squared distances - 1|), family ("pca"
        of the set, or "gaussian", which sees none), set ("own", or "mixed": half of it of the other text),
        size, m, draw, value.
    """
    other = other_streams(SupportRun(config.base, config.text, config.backwards))
    return _table(_sizes_rows(config, other), config.base, **{config.text.corpus: other.checksum})


def _sizes_rows(config: SizesRun, other: Streams) -> Iterator[dict[str, Any]]:
    base = bases.load(config.base)
    dim = base.config.shape.embedding_dim
    m = max(1, round(config.ratio * dim))
    for i in range(config.n_draws):
        seed = config.seed + i
        apart = seed + 1_000  # no vector is measured that a map was made from
        sets = {
            "inside": bases.calibration(base, config.n_vectors, apart),
            "outside": bases.calibration(base, config.n_vectors, apart, streams=other),
            "steering": steering(base, config.n_directions, apart),
        }
        blind = draw("gaussian", m, dim, seed=[config.seed, i])
        for size in config.sizes:
            own = bases.calibration(base, size, seed)
            half = bases.calibration(base, size - size // 2, seed, streams=other)
            for name, x in (("own", own), ("mixed", np.concatenate([own[: size // 2], half]))):
                for family, projection in (("gaussian", blind), (PCA, projections.pca(x, m))):
                    for vectors_of, y in sets.items():
                        moved = np.abs(distortions(y, projection) - 1)
                        more = {"set": name, "size": size}
                        yield _row(vectors_of, "mean square", family, m, i, np.mean(moved**2), **more)


def steering(base: bases.Base, n: int, seed: int = 0) -> np.ndarray:
    """Directions (n, D) from the mean of all last states to the mean before a frequent token."""
    tokens = draw_batch(base.streams.train, seed=seed, step=0, batch_size=4 * bases.BATCH, length=base.length)
    with torch.no_grad():
        states = base.model.states(tokens[:, :-1])[-1].flatten(0, 1).double().numpy()
    following = tokens[:, 1:].flatten().numpy()
    frequent = np.bincount(following).argsort(kind="stable")[::-1][:n]
    return np.stack([states[following == token].mean(axis=0) for token in frequent]) - states.mean(axis=0)


# --- many vectors -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class ManyRun:
    """All pairs of many hidden states held against the lemma at its own width."""

    base: BaseRun
    n_vectors: int = 10_000
    n_draws: int = 40
    eps: float = EPS
    delta: float = DELTA
    C: float = C
    seed: int = 0


@experiment("resizing.many_vectors")
def many_vectors(config: ManyRun) -> pd.DataFrame:
    """How far the worst pair of many different hidden states moves: family, m, draw, value."""
    base = bases.load(config.base)
    x = different_states(base, config.n_vectors, config.seed + 1)
    m, dim = bound(config.eps, config.n_vectors, config.delta, config.C), x.shape[1]
    rows = []
    for family in ("gaussian", COORDINATES):
        for i in range(config.n_draws if family == "gaussian" else max(1, config.n_draws // 4)):
            image = _drawn(family, m, dim, [config.seed, i]).apply(x).astype(np.float32)
            rows.append({"family": family, "m": m, "draw": i, "value": worst_pair(x, image)})
    table = pd.DataFrame(rows).astype({"m": np.int32, "draw": np.int32, "value": np.float32})
    table.attrs["data"] = {config.base.text.corpus: base.streams.checksum}
    return table


def different_states(base: bases.Base, n: int, seed: int) -> np.ndarray:
    """Hidden states (n, D) of training text, float32, no two the same: before the first layer some are.

    Raises
    ------
    ValueError
        If twice as many states have fewer different ones.
    """
    drawn = bases.calibration(base, 2 * n, seed).astype(np.float32)
    _, first = np.unique(drawn, axis=0, return_index=True)
    if len(first) < n:
        raise ValueError(f"{2 * n} states have {len(first)} different ones, not {n}")
    return drawn[np.sort(first)[:n]]


def worst_pair(x: np.ndarray, image: np.ndarray, block: int = 1_000) -> float:
    """Largest |ratio of squared distances - 1| over all pairs of rows, a block of rows at a time.

    Distances of centered float32 rows by products; of the pairs that come out worst the distances are taken
    again from differences, in float64.
    """
    (a, b), worst = ((one - one.mean(axis=0)).astype(np.float32) for one in (x, image)), 0.0
    squares = [(one.astype(float) ** 2).sum(1).astype(np.float32) for one in (a, b)]
    for first in range(0, len(a), block):
        rows = slice(first, first + block)
        old, new = (
            own[rows, None] + own[None, first:] - 2 * (one[rows] @ one[first:].T)
            for one, own in ((a, squares[0]), (b, squares[1]))
        )
        near = np.tri(*old.shape) > 0  # a pair once, and none with itself
        moved = np.where(near, 0.0, np.abs(new / np.where(near, 1.0, np.maximum(old, 1e-12)) - 1))
        for place in np.argpartition(moved.ravel(), -8)[-8:]:
            i, j = divmod(int(place), moved.shape[1])
            if i != j:
                exact = [
                    float(((one[first + i].astype(float) - one[first + j]) ** 2).sum()) for one in (x, image)
                ]
                worst = max(worst, abs(exact[1] / exact[0] - 1) if exact[0] else 0.0)
    return worst


def _many_findings(preset: str) -> dict[str, Finding]:
    table = pd.concat([table_of(many_vectors.cell(run)) for run in many_runs(preset)])
    missed = {family: own["value"] > EPS for family, own in table.groupby("family")}
    share = findings.share(
        int(missed["gaussian"].sum()),
        len(missed["gaussian"]),
        repeats="draws of a map on three models",
        controls={COORDINATES: float(missed[COORDINATES].mean())},
        corpus=bases.base(preset).text.corpus,
    )
    return {"failures_many": share}


# --- the appendix's counts --------------------------------------------------------------------------


@dataclass(frozen=True)
class CountsRun:
    """Patterns of n zeros and ones, up to the largest n."""

    largest: int = 64


@experiment("resizing.capacity")
def capacity(config: CountsRun) -> pd.DataFrame:
    """The appendix's counts in exact integers, which are written out: they pass what a float holds.

    Returns
    -------
    DataFrame
        n; as digits: counted (the sum over k from 1 to n / 2), formula, left_out (patterns of more than half
        ones), middle (C(n, n / 2), n / 2 rounded down), lines (directions through patterns less their mean, a
        pattern and its complement being one line); stirling: middle over the approximation.
    """
    rows = []
    for n in range(1, config.largest + 1):
        middle = math.comb(n, n // 2)
        counted = sum(math.comb(n, k) for k in range(1, n // 2 + 1))
        formula = 2 ** (n - 1) - 1 + (middle // 2 if n % 2 == 0 else 0)
        left_out = sum(math.comb(n, k) for k in range(n // 2 + 1, n + 1))
        stirling = middle / 2**n * math.sqrt(math.pi * n / 2)
        whole = (counted, formula, left_out, middle, 2 ** (n - 1) - 1)
        rows.append((n, *map(str, whole), stirling))
    columns = ["n", "counted", "formula", "left_out", "middle", "lines", "stirling"]
    return pd.DataFrame(rows, columns=columns)


def _capacity_findings(preset: str) -> dict[str, Finding]:
    table = table_of(capacity.cell(CountsRun()))
    off = table["counted"] != table["formula"]
    odd = table["n"] % 2 == 1
    return {
        "odd": findings.exact(int(off[odd].sum())),
        "even": findings.exact(int(off[~odd].sum())),
        "stirling": findings.exact(float(table["stirling"].iloc[-1])),
    }


# --- presets ----------------------------------------------------------------------------------------


def lemma_run(preset: str) -> LemmaRun:
    """The lemma on a preset's base model."""
    base = bases.base(preset)
    return LemmaRun(base, n_draws=20, n_curve=5) if preset == "quick" else LemmaRun(base)


def maps_run(preset: str) -> MapsRun:
    """Families on a preset's base model."""
    base = bases.base(preset)
    return MapsRun(base, n_lengths=200, n_errors=5) if preset == "quick" else MapsRun(base)


def measures_run(preset: str) -> MeasuresRun:
    """Closed forms, which need no model."""
    return MeasuresRun(64, 32, 16, n_draws=5) if preset == "quick" else MeasuresRun()


def curves_runs(preset: str) -> list[CurvesRun]:
    """Angles against the width, a run a base model."""
    n_draws = 5 if preset == "quick" else CurvesRun.n_draws
    return [CurvesRun(base, n_draws) for base in bases.fresh(preset)]


def other_text(preset: str) -> tuple[TextConfig, bool]:
    """Wikipedia; for `quick` the text of the training, which is read backwards."""
    quick = preset == "quick"
    text = bases.base(preset).text if quick else TextConfig("enwiki2018_raw", n_documents=400, n_held_out=1)
    return text, quick


def support_runs(preset: str) -> list[SupportRun]:
    """Base models on a text of another kind."""
    few: dict[str, Any] = {"n_vectors": 64, "n_draws": 5} if preset == "quick" else {}
    return [SupportRun(base, *other_text(preset), **few) for base in bases.fresh(preset)]


def sizes_runs(preset: str, *, unseen: bool = False) -> list[SizesRun]:
    """Calibration sets of several sizes on fresh base models, or on those that later ranges are judged on."""
    few = {"sizes": (64, 256), "n_vectors": 64, "n_directions": 8, "n_draws": 2} if preset == "quick" else {}
    of = bases.unseen(preset) if unseen else bases.fresh(preset)
    return [SizesRun(base, *other_text(preset), **few) for base in of]  # type: ignore[arg-type]


def many_runs(preset: str) -> list[ManyRun]:
    """Ten thousand vectors of each fresh base model."""
    if preset == "quick":
        return [ManyRun(base, 300, 4) for base in bases.fresh(preset)]
    return [ManyRun(base) for base in bases.fresh(preset)]


def _cells(*runs_of: tuple[Experiment, Callable[[str], Sequence[Any]]]) -> Callable[[str], list[Cell]]:
    """Cells of experiments on runs of a preset, after the base models that they read while one is missing."""

    def cells(preset: str) -> list[Cell]:
        pairs = [(of, run) for of, runs in runs_of for run in runs(preset)]
        return bases.with_bases([run.base for _, run in pairs], [of.cell(run) for of, run in pairs])

    return cells


def _one_model(of: Experiment, run: Callable[[str], Any]) -> Callable[[str], list[Cell]]:
    return lambda preset: [*bases.base_cells(bases.base(preset)), of.cell(run(preset))]


STUDIES: dict[str, Study] = {
    "resizing.jl_bound": Study(
        _one_model(lemma, lemma_run),
        _lemma_findings,
        parts=(Part(_cells((many_vectors, many_runs)), _many_findings),),
    ),
    "resizing.maps": Study(_one_model(maps, maps_run), _maps_findings),
    "resizing.metrics": Study(lambda preset: [measures.cell(measures_run(preset))], _measures_findings),
    "resizing.geometry_curves": Study(_cells((geometry_curves, curves_runs)), _curves_findings),
    "resizing.out_of_support": Study(
        _cells((support, support_runs), (support_sizes, sizes_runs)),
        _support_findings,
        parts=(
            Part(_cells((support_sizes, lambda preset: sizes_runs(preset, unseen=True))), _representative),
        ),
    ),
    "resizing.capacity": Study(lambda preset: [capacity.cell(CountsRun())], _capacity_findings),
}
