"""A reflection in half the dimensions: the lemmas' tables and charts, and PMI simulated for the explorers.

Source: Assylbekov & Takhanov (2019), sections 1 to 3.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import altair as alt
import numpy as np
import pandas as pd
from numpy.typing import NDArray

from book.reflections.experiments import theory
from book.reflections.simulated import nonzero_eigenvalues
from embviz.ledger.cells import load
from embviz.ledger.studies import find_study
from embviz.view import charts, plot_curves, plot_strip, theme

# of (Q + Q')/2: the root of the mean of sin^4 over the angles of Q
RANDOM_INVOLUTION_ERROR = math.sqrt(3 / 8)
CONTROLS = {
    "": "trained",
    "shuffled_rows": "C with its rows shuffled",
    "random_rotation": "C = W R, R a random rotation",
    "random": "W and C random",
}
RIDGE = 0.8  # height of the tallest bar, where ridges stand 1 apart


def stored_cells(claim_id: str) -> pd.DataFrame:
    """Every row of a claim's largest stored preset, each led by its configuration.

    Raises
    ------
    FileNotFoundError
        If no preset of the claim is stored whole; the message gives the command that computes one.
    """
    study = find_study(claim_id)
    preset = study.largest_stored()
    if preset is None:
        raise FileNotFoundError(
            f"{claim_id} has no stored preset ({study.why_not_measured()}): "
            f"run `embviz run {claim_id} --preset quick`"
        )
    return load(study.preset_cells(preset))


# --- Lemma 1 ----------------------------------------------------------------------------------------

FORMS = {
    ("gaussian", "orthogonal"): "Gaussian, random Q",
    ("gaussian", "signature"): "Gaussian, signature Q",
    ("gaussian", "identity"): "Gaussian, Q = I",
    ("student_t", "identity"): "Student t, Q = I",
}


def exceedances() -> pd.DataFrame:
    """Share of draws beyond t sqrt(2/d), times t^2, for each kind of w and Q.

    Returns
    -------
    DataFrame with `t`, `d`, `variant` and `scaled_exceedance` (mean over seeds; the lemma's bound is 1)
    """
    table = stored_cells("reflections.lemma1")
    known = pd.DataFrame(
        [(*key, name) for key, name in FORMS.items()], columns=["distribution", "kind", "variant"]
    )
    means = table.groupby(["distribution", "kind", "d", "t"], as_index=False)["exceedance"].mean()
    means["scaled_exceedance"] = (means["exceedance"] * means["t"] ** 2).round(4)
    return means.merge(known)[["t", "d", "variant", "scaled_exceedance"]]


def plot_exceedances(table: pd.DataFrame) -> alt.LayerChart:
    """Scaled exceedances against t, a thin line for each d, and the bound as a rule at 1."""
    return plot_curves(
        table, "t", "scaled_exceedance", kind="variant", seed="d", interval=False, reference={"bound": 1.0}
    )


def _with_rule(chart: alt.LayerChart, *, y: float) -> alt.LayerChart:
    """The chart, as wide as its page, with a dotted horizontal line at `y`."""
    rule = (
        alt.Chart(alt.Data(values=[{}])).mark_rule(strokeDash=list(theme.DASHES[2])).encode(y=alt.YDatum(y))
    )
    return (chart + rule).properties(width="container", height=theme.HEIGHT)


def log_ticks(low: float, high: float) -> list[float]:
    """Ticks for a logarithmic axis: powers of ten, and twice and five times them where these are few.

    >>> log_ticks(0.5, 20), log_ticks(0.001, 100)
    ([0.5, 1.0, 2.0, 5.0, 10.0, 20.0], [0.001, 0.01, 0.1, 1.0, 10.0, 100.0])
    """
    steps = (1, 2, 5) if high / low < 100 else (1,)
    powers = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    ticks = [float(f"{step}e{power}") for power in powers for step in steps]
    return [tick for tick in ticks if low <= tick <= high]


def _log_axis(label: str, values: Sequence[float], number_format: str) -> dict[str, Any]:
    """Axis and scale of a logarithmic encoding."""
    axis = alt.Axis(
        title=theme.title(label), values=list(values), format=number_format, labelOverlap="greedy"
    )
    return {"axis": axis, "scale": alt.Scale(type="log", nice=False, padding=10)}


def _sizes(table: pd.DataFrame) -> alt.X:
    """Vocabulary sizes on a logarithmic axis, a tick at each that was measured."""
    return alt.X("n:Q", **_log_axis("vocab_size", sorted(int(n) for n in table["n"].unique()), ","))


# --- Lemma 2 ----------------------------------------------------------------------------------------

CASES = {
    "uniform": "typical word, l = d/2",
    "tied_frequent": "most frequent word, Q = I",
}


def partition_means() -> pd.DataFrame:
    """Mean of Z - 1 with three standard errors, for each n, alpha and case.

    Returns
    -------
    DataFrame with `n`, `alpha`, `case`, `excess`, `low`, `high`, `d`
    """
    table = stored_cells("reflections.lemma2")
    groups = table.groupby(["case", "n", "alpha"], as_index=False)
    pooled = groups.agg(
        excess=("mean", lambda means: means.mean() - 1),
        error=("standard_error", lambda errors: math.sqrt((errors**2).sum()) / len(errors)),
        d=("d", "first"),
    )
    pooled["low"], pooled["high"] = (
        pooled["excess"] - 3 * pooled["error"],
        pooled["excess"] + 3 * pooled["error"],
    )
    pooled["case"] = pooled["case"].map(CASES)
    return pooled.drop(columns="error").round({"excess": 6, "low": 6, "high": 6})


def plot_partition_means(table: pd.DataFrame) -> alt.LayerChart:
    """Mean of Z - 1 against n on logarithmic axes, a line for each alpha, with 1/(2d) as a rule."""
    names = list(CASES.values())
    colour, dash = theme.line_styles("case", names)
    shape = theme.point_styles("case", names)[1]
    x = _sizes(table)
    floor = 0.5 / int(table["d"].iloc[0])
    ticks = log_ticks(min(floor, table["low"].min()), table["high"].max())
    y = alt.Y("excess:Q", **_log_axis("partition_excess", ticks, "~g"))
    base = alt.Chart(table).encode(x=x, color=colour, detail="alpha:N")
    layers = [
        base.mark_line(strokeWidth=1).encode(y=y, strokeDash=dash),
        base.mark_rule(strokeWidth=2).encode(y="low:Q", y2="high:Q"),
        base.mark_point(size=60).encode(
            y=y, shape=shape, tooltip=["n:Q", "alpha:N", "case:N", "excess:Q", "low:Q", "high:Q"]
        ),
        _end_labels(table, "excess"),
    ]
    return _with_rule(alt.LayerChart(layer=layers), y=floor)


def _end_labels(table: pd.DataFrame, y: str) -> alt.Chart:
    """Name of each alpha at the left end of the tied lines, which lie apart."""
    tied = table[(table["case"] == CASES["tied_frequent"]) & (table["n"] == table["n"].min())]
    text = tied.assign(words="alpha " + tied["alpha"].astype(str))
    return alt.Chart(text).mark_text(align="left", dx=6, dy=-8).encode(x="n:Q", y=f"{y}:Q", text="words:N")


def squared_probabilities(n: int, alpha: float) -> float:
    """Sum of p_i^2 for the probabilities of eq. 4, exactly.

    >>> squared_probabilities(4, 1.0)
    0.25
    """
    return float((theory.unigram(n, alpha) ** 2).sum())


def partition_variances() -> pd.DataFrame:
    """Variance of Z against n: given the word, and (at alpha = 1) with the word redrawn, beside prediction.

    Returns
    -------
    DataFrame with `n`, `variant`, `variance` (mean over seeds) and `predicted`: eq. 23's own sum of p^2 at
    |w| = 1, and for the redrawn word 1/(2 d^3) more, the variance of exp(|w|^2 / (2d))
    """
    table = stored_cells("reflections.lemma2")
    table = table[table["case"] == "uniform"]
    means = table.groupby(["n", "alpha", "d"], as_index=False)[
        ["conditional_variance", "total_variance"]
    ].mean()
    spread = np.exp(2 / means["d"]) - np.exp(1 / means["d"])
    sums = [squared_probabilities(n, alpha) for n, alpha in zip(means["n"], means["alpha"], strict=True)]
    means["predicted"] = spread * sums
    given = means.assign(
        variant="alpha " + means["alpha"].astype(str), variance=means["conditional_variance"]
    )
    redrawn = means[means["alpha"] == 1.0]
    redrawn = redrawn.assign(
        variant="alpha 1.0, word redrawn",
        variance=redrawn["total_variance"],
        predicted=redrawn["predicted"] + 0.5 / redrawn["d"] ** 3,
    )
    both = pd.concat([given, redrawn], ignore_index=True)[["n", "d", "variant", "variance", "predicted"]]
    return both.assign(
        **{name: [float(f"{x:.4g}") for x in both[name]] for name in ("variance", "predicted")}
    )


def plot_partition_variances(table: pd.DataFrame) -> alt.LayerChart:
    """Measured variances as points on predicted lines, with the floor 1/(2 d^3) as a rule; both axes log."""
    names = sorted(table["variant"].unique())
    colour, dash = theme.line_styles("variant", names)
    shape = theme.point_styles("variant", names)[1]
    x = _sizes(table)
    floor = 0.5 / int(table["d"].iloc[0]) ** 3
    lowest, highest = min(floor, table["variance"].min()), table["variance"].max()
    y = _log_axis("partition_variance", log_ticks(lowest, highest), ".0e")
    base = alt.Chart(table).encode(x=x, color=colour)
    lines = base.mark_line(strokeWidth=1).encode(y=alt.Y("predicted:Q", **y), strokeDash=dash)
    points = base.mark_point(size=60).encode(
        y=alt.Y("variance:Q", **y),
        shape=shape,
        tooltip=["n:Q", "variant:N", "variance:Q", "predicted:Q"],
    )
    return _with_rule(alt.LayerChart(layer=[lines, points]), y=floor)


def local_slopes(alphas: Sequence[float] = theory.ALPHAS, *, n_decades: int = 6) -> pd.DataFrame:
    """Slope of log sum p^2 in log n, decade by decade, beside the exponent of eq. 24.

    Parameters
    ----------
    alphas : sequence of float in (0, 1]
        Smoothing of ranks, eq. 4.
    n_decades : int, default 6
        The largest n is 10 to this power.

    Returns
    -------
    DataFrame
        A row an alpha: `eq. 24`, then a column for each decade from 100 upwards.
    """
    rows = []
    for alpha in alphas:
        sums = [squared_probabilities(10**power, alpha) for power in range(2, n_decades + 1)]
        slopes = np.diff(np.log10(sums))
        names = [f"10^{power} to 10^{power + 1}" for power in range(2, n_decades)]
        rows.append({"alpha": alpha, "eq. 24": -min(1.0, 2 * alpha), **dict(zip(names, slopes, strict=True))})
    return pd.DataFrame(rows).round(2).set_index("alpha")


# --- Lemma 3 ----------------------------------------------------------------------------------------

MAPS = {"involution": "Q an involution", "orthogonal": "Q random orthogonal"}


def recovered_errors() -> pd.DataFrame:
    """Involution error of the map recovered from simulated PMI; also `n`, `true_map` and `seed`."""
    table = stored_cells("reflections.lemma3")
    table = table.assign(
        true_map=table["kind"].map(MAPS), involution_error=table["involution_error"].round(5)
    )
    return table[["n", "true_map", "seed", "involution_error"]]


def plot_recovered_errors(table: pd.DataFrame) -> alt.LayerChart:
    """Involution error against n on logarithmic axes, with what a random rotation tends to as a rule."""
    names = list(MAPS.values())
    colour, dash = theme.line_styles("true_map", names)
    x = _sizes(table)
    base = alt.Chart(table).encode(x=x, color=colour, strokeDash=dash)
    errors = table["involution_error"]
    y = _log_axis("involution_error", log_ticks(errors.min(), errors.max()), "~g")
    thin = base.mark_line(strokeWidth=1, opacity=0.35).encode(
        y=alt.Y("involution_error:Q", **y), detail="seed:N"
    )
    thick = base.mark_line(strokeWidth=3).encode(y=alt.Y("mean(involution_error):Q", **y))
    return _with_rule(alt.LayerChart(layer=[thin, thick]), y=RANDOM_INVOLUTION_ERROR)


def joint_asymmetries(*, n: int = 400, d: int = 50, alpha: float = 0.25, seed: int = 0) -> pd.DataFrame:
    """How far the joint distribution of Assumption 3 is from its transpose, for each kind of Q.

    Parameters
    ----------
    n, d : int
        Words and dimensions.
    alpha : float
        Smoothing of ranks, eq. 4.

    Returns
    -------
    DataFrame
        A row a kind: `orthogonality error` |Q'Q - I| and `involution error` |Q^2 - I|, both Frobenius over
        sqrt(d), and `asymmetry`, the total variation distance between p(i, j) and p(j, i), in 0..1.
    """
    p = theory.unigram(n, alpha)
    rows = []
    for kind in ("identity", "signature", "involution", "orthogonal"):
        rng = np.random.default_rng(seed)
        w = theory.draw_vectors(n, d, rng)
        q = theory.draw_orthogonal(d, kind, rng)
        weights = p[:, None] * np.exp(w @ q.T @ w.T)  # row i, column j: p_i exp(w_j'c_i)
        joint = weights / weights.sum(axis=0) * p  # p(i | j) p_j
        errors = [np.linalg.norm(square - np.eye(d)) / math.sqrt(d) for square in (q.T @ q, q @ q)]
        rows.append([kind, *errors, np.abs(joint - joint.T).sum() / 2])
    names = ["Q", "orthogonality error", "involution error", "asymmetry"]
    return pd.DataFrame(rows, columns=names).round(3).set_index("Q")


# --- PMI as a random matrix -------------------------------------------------------------------------

ENTRIES = {"offdiag_variance": "off the diagonal", "diag_variance": "on the diagonal"}
DRAWS = {
    ("gaussian", 0.5): "Gaussian, l = d/2",
    ("gaussian", 1.0): "Gaussian, l = d",
    ("student_t", 0.5): "Student t, l = d/2",
}
STATISTICS = {
    "trace": "trace / n",
    "offdiag_variance": "variance, times d",
    "correlation": "row correlation",
    "triangles": "triples, times d²",
}


def entry_variances() -> pd.DataFrame:
    """Mean square of the entries of simulated PMI over the variance of eqs. 31 and 32, a row a draw.

    Returns
    -------
    DataFrame with `entries`, `variant`, `draw` and `relative_variance` (the paper's is 1, for l = d/2)
    """
    table = stored_cells("reflections.pmi_random").rename(columns=ENTRIES)
    scales = {ENTRIES["offdiag_variance"]: table["d"], ENTRIES["diag_variance"]: table["d"] / 2}
    scaled = table.assign(
        variant=[DRAWS[key] for key in zip(table["distribution"], table["positive"], strict=True)],
        **{name: table[name] * scale for name, scale in scales.items()},
    )
    long = scaled.melt(["variant", "draw"], list(scales), "entries", "relative_variance")
    return long.round({"relative_variance": 3})


def plot_entry_variances(table: pd.DataFrame) -> alt.Chart:
    """A tick a draw on a logarithmic axis, a row for each kind of entry and of draw."""
    colour, shape = theme.point_styles("variant", list(DRAWS.values()))
    ticks = log_ticks(table["relative_variance"].min(), table["relative_variance"].max())
    return (
        alt.Chart(table)
        .mark_point(size=35, opacity=0.5)
        .encode(
            x=alt.X("relative_variance:Q", **_log_axis("relative_variance", ticks, "~g")),
            y=alt.Y("entries:N", title=None, sort=list(ENTRIES.values()), axis=alt.Axis(labelLimit=110)),
            yOffset=alt.YOffset("variant:N", sort=list(DRAWS.values())),
            color=colour,
            shape=shape,
        )
        .properties(width="container", height=200)
    )


def signature_sweep(
    n: int = 300, d: int = 50, *, n_seeds: int = 3, shares: Sequence[float] = tuple(np.linspace(0, 1, 11))
) -> pd.DataFrame:
    """What the entries of simulated PMI say about the share of plus signs, and what they don't.

    Parameters
    ----------
    n, d : int
        Words and dimensions.
    n_seeds : int
        Draws of the word vectors, the same for every share.
    shares : sequence of float in 0..1
        l / d.

    Returns
    -------
    DataFrame with `positive`, `seed`, `quantity` and `moment`, where `quantity` is one of ``STATISTICS``;
    "triples" are the mean of P_ij P_jk P_ki over distinct i, j, k, whose expectation is (2l - d) / d^3
    """
    rows = []
    for seed in range(n_seeds):
        for share in shares:
            matrix = theory.simulated_pmi(n, d, round(share * d), seed=seed)
            moments = theory.entry_moments(matrix)
            off = matrix - np.diag(np.diag(matrix))
            triangles = np.einsum("ij,ji->", off @ off, off) / (n * (n - 1) * (n - 2))
            values = (
                np.trace(matrix) / n,
                moments["offdiag_variance"] * d,
                moments["correlation"],
                triangles * d**2,
            )
            for quantity, moment in zip(STATISTICS.values(), values, strict=True):
                rows.append((float(share), seed, quantity, round(float(moment), 4) + 0.0))
    return pd.DataFrame(rows, columns=["positive", "seed", "quantity", "moment"])


# --- the explorer -------------------------------------------------------------------------------------


PORTRAIT = (
    "eigenvalues, times d/n",
    "diagonal entries",
    "off-diagonal entries, times √d",
)  # from top to bottom
PORTRAIT_LIMIT, PORTRAIT_BINS = 3.6, 60


def pmi_portrait(dimension: int, positive: float, *, n_words: int = 300, seed: int = 0) -> pd.DataFrame:
    """Spectrum, diagonal and off-diagonal of a simulated PMI matrix as three ridges over one axis.

    Parameters
    ----------
    dimension, positive, n_words, seed
        As for :func:`book.reflections.simulated.simulated_pmi_spectrum`.

    Returns
    -------
    DataFrame with `left` (of a bin; each ridge's values are scaled as its name says), `base` (height the
    ridge stands on: 2, 1, 0), `top`, and `mirrored`, the top of the bin's mirror image
    """
    matrix = theory.simulated_pmi(n_words, dimension, round(positive * dimension), seed=seed)
    eigenvalues = nonzero_eigenvalues(matrix, dimension) * dimension / n_words
    off = matrix[np.triu_indices_from(matrix, 1)] * math.sqrt(dimension)
    parts = (eigenvalues, np.diag(matrix), off)
    edges = np.linspace(-PORTRAIT_LIMIT, PORTRAIT_LIMIT, PORTRAIT_BINS + 1)
    ridges = [ridge(part, edges, base) for part, base in zip(parts, (2, 1, 0), strict=True)]
    return pd.concat(ridges, ignore_index=True)


def ridge(values: NDArray[np.float64], edges: NDArray[np.float64], base: float) -> pd.DataFrame:
    """Histogram over symmetric edges that stands on `base`, its tallest bar ``RIDGE`` high; clipped values
    fall into the end bins.
    """
    counts, _ = np.histogram(np.clip(values, edges[0], edges[-1]), bins=edges)
    heights = RIDGE * counts / counts.max()
    return pd.DataFrame(
        {"left": edges[:-1].round(4), "base": base, "top": base + heights, "mirrored": base + heights[::-1]}
    ).round(3)


def plot_portrait(data: charts.Data) -> alt.LayerChart:
    """Ridges as bars, each with its mirror image as a stepped line and its name at the left."""
    width = 2 * PORTRAIT_LIMIT / PORTRAIT_BINS
    names = [
        {"y": base + 0.92, "x": -PORTRAIT_LIMIT, "name": name}
        for base, name in zip((2, 1, 0), PORTRAIT, strict=True)
    ]
    y_axis = alt.Axis(title=None, labels=False, ticks=False, grid=False)
    height = alt.Y("base:Q", axis=y_axis, scale=alt.Scale(domain=[0, 3]))
    bars = (
        alt.Chart(data)
        .transform_calculate(right=f"datum.left + {width}")
        .mark_bar(binSpacing=0)
        .encode(
            x=alt.X("left:Q", axis=theme.axis("portrait"), scale=alt.Scale(nice=False)),
            x2="right:Q",
            y=height,
            y2="top:Q",
            color=alt.ColorDatum("histogram", type="nominal"),
        )
    )
    mirror = (
        alt.Chart(data)
        .mark_line(interpolate="step-after", strokeDash=list(theme.DASHES[1]))
        .encode(
            x="left:Q",
            y="mirrored:Q",
            detail="base:N",
            color=alt.ColorDatum("its mirror image", type="nominal"),
        )
    )
    zero = (
        alt.Chart(alt.Data(values=[{}])).mark_rule(strokeDash=list(theme.DASHES[2])).encode(x=alt.XDatum(0))
    )
    words = (
        alt.Chart(alt.Data(values=names))
        .mark_text(align="left", dx=4)
        .encode(x="x:Q", y="y:Q", text="name:N")
    )
    return alt.LayerChart(layer=[bars, mirror, zero, words]).properties(width="container", height=330)


# --- trained vectors --------------------------------------------------------------------------------


def trained_maps() -> pd.DataFrame:
    """Everything stored about the map between word and context vectors of free skip-gram.

    Returns
    -------
    DataFrame
        `run` (corpus, epochs and dimension in words), `seed`, `control` in words, `quantity`, `item` and
        `value`; runs of the largest stored preset, and of text8's first eighth where it is stored.

    Raises
    ------
    FileNotFoundError
        If nothing is stored; the message gives the command.
    """
    table = stored_cells("reflections.involution")
    table = table[table["quantity"].isin(["map", "square_diagonal", "square_offdiagonal"])]
    names = (
        table["corpus"]
        + ", "
        + table["n_epochs"].astype(str)
        + " epochs, d = "
        + table["embedding_dim"].astype(str)
    )
    known = table.assign(run=names, control=table["control"].map(CONTROLS)).dropna(subset="control")
    return known[["run", "corpus", "seed", "control", "quantity", "item", "value"]].reset_index(drop=True)


def map_entries(table: pd.DataFrame, *, limit: float = 1.5, n_bins: int = 60) -> pd.DataFrame:
    """Histograms of the squared map's entries for one run of :func:`trained_maps`, averaged over seeds.

    Parameters
    ----------
    table : DataFrame
        As from :func:`trained_maps`; its first run is taken.

    Returns
    -------
    DataFrame with `control`, `entries` ("diagonal" or "off-diagonal"), `left`, `right`, `base`, `top`:
    ridges 1 apart, in the order of ``CONTROLS`` from the top; entries beyond `limit` are in the end bins
    """
    edges = np.linspace(-limit, limit, n_bins + 1)
    own = table[table["run"] == table["run"].iloc[0]]
    ridges = []
    for place, control in enumerate(CONTROLS.values()):
        rows = own[own["control"] == control]
        base = float(len(CONTROLS) - 1 - place)
        diagonal = rows.loc[rows["quantity"] == "square_diagonal", "value"].to_numpy()
        bins = rows[rows["quantity"] == "square_offdiagonal"]
        counted, _ = np.histogram(bins["item"].astype(float), bins=edges, weights=bins["value"])
        parts = {
            "diagonal": np.histogram(np.clip(diagonal, -limit, limit), bins=edges)[0],
            "off-diagonal": counted,
        }
        for entries, counts in parts.items():
            heights = RIDGE * counts / counts.max()
            ridges.append(
                pd.DataFrame(
                    {"left": edges[:-1], "right": edges[1:], "base": base, "top": base + heights}
                ).assign(control=control, entries=entries)
            )
    return pd.concat(ridges, ignore_index=True).round(4)


def plot_map_entries(table: pd.DataFrame, *, published: float = 0.68) -> alt.LayerChart:
    """Figure 3 with its nulls: a ridge for each control, diagonal and off-diagonal entries in two colours."""
    names = ["diagonal", "off-diagonal"]
    colour, dash = theme.line_styles("entries", names)
    y_axis = alt.Axis(title=None, labels=False, ticks=False, grid=False)
    base = alt.Chart(table[table["top"] > table["base"]]).encode(
        x=alt.X("left:Q", axis=theme.axis("square_entry"), scale=alt.Scale(nice=False)), color=colour
    )
    height = alt.Y("base:Q", axis=y_axis, scale=alt.Scale(domain=[0, len(CONTROLS)]))
    bars = base.mark_bar(opacity=0.45, binSpacing=0).encode(
        x2="right:Q", y=height, y2="top:Q", tooltip=["control:N", "entries:N", "left:Q", "right:Q"]
    )
    outline = (
        alt.Chart(table)
        .mark_line(interpolate="step-after", strokeWidth=1.5)
        .encode(x="left:Q", y="top:Q", color=colour, strokeDash=dash, detail="control:N")
    )
    paper = (
        alt.Chart(alt.Data(values=[{}]))
        .mark_rule(strokeDash=list(theme.DASHES[2]))
        .encode(x=alt.XDatum(published))
    )
    heads = table.groupby("control", as_index=False)["base"].first().assign(left=table["left"].min())
    heads["base"] += 0.92
    words = alt.Chart(heads).mark_text(align="left", dx=4).encode(x="left:Q", y="base:Q", text="control:N")
    return alt.LayerChart(layer=[bars, outline, paper, words]).properties(width="container", height=380)


COMPARISONS = {"similarity_correlation": "cosines of pairs", "norm_correlation": "norms"}


def map_correlations(table: pd.DataFrame) -> pd.DataFrame:
    """Correlations of similarities and of norms, each beside its controls, for the first run of a table.

    Parameters
    ----------
    table : DataFrame
        As from :func:`trained_maps`.

    Returns
    -------
    DataFrame with `comparison`, `control`, `correlation`, and `low` and `high`, the extremes over seeds
    """
    rows = table[(table["run"] == table["run"].iloc[0]) & table["item"].isin(list(COMPARISONS))]
    rows = rows.assign(comparison=rows["item"].map(COMPARISONS))
    spans = rows.groupby(["comparison", "control"], as_index=False, sort=False)["value"].agg(
        ["mean", "min", "max"]
    )
    return spans.rename(columns={"mean": "correlation", "min": "low", "max": "high"}).round(3)


def plot_map_correlations(spans: pd.DataFrame) -> alt.LayerChart:
    """Correlations from :func:`map_correlations`, the trained vectors' beside the controls'."""
    return plot_strip(spans, "correlation", "comparison", by="control", seed=None, interval=("low", "high"))


def map_summary(table: pd.DataFrame) -> pd.DataFrame:
    """What was measured of the trained vectors, a row a run, averaged over seeds.

    Parameters
    ----------
    table : DataFrame
        As from :func:`trained_maps`.
    """
    rows = table[(table["quantity"] == "map") & (table["control"] == CONTROLS[""])]
    wide = rows.pivot_table(index="run", columns="item", values="value", sort=False)
    names = {
        "diag_mean": "diagonal",
        "offdiag_mean": "off the diagonal",
        "offdiag_spread": "spread / diagonal",
        **COMPARISONS,
    }
    return wide[list(names)].rename(columns=names).rename_axis(columns=None).round(3)


EIGENVALUE_CONTROLS = {
    "": "trained",
    "shuffled_rows": "C with its rows shuffled",
    "random_rotation": "C = W R",
}


def map_eigenvalues() -> pd.DataFrame:
    """Eigenvalues of pinv(W) C at the largest stored scale, beside the controls.

    Returns
    -------
    DataFrame with `control`, `real`, `imaginary`, `seed`, `corpus`
    """
    table = stored_cells("reflections.half_reflected")
    parts = {
        name: table.loc[table["quantity"] == f"eigenvalue_{name}"].reset_index(drop=True)
        for name in ("real", "imaginary")
    }
    table = parts["real"].assign(real=parts["real"]["value"], imaginary=parts["imaginary"]["value"])
    table = table[table["control"].isin(list(EIGENVALUE_CONTROLS))]
    table["control"] = table["control"].map(EIGENVALUE_CONTROLS)
    return table[["control", "real", "imaginary", "seed", "corpus"]].round(3)


def plot_map_eigenvalues(table: pd.DataFrame) -> alt.LayerChart:
    """Eigenvalues from :func:`map_eigenvalues` in the plane; left of the line dimensions turn around."""
    colour, shape = theme.point_styles("control", list(EIGENVALUE_CONTROLS.values()))
    points = (
        alt.Chart(table)
        .mark_point(size=28, opacity=0.8)
        .encode(
            x=alt.X("real:Q", axis=theme.axis("real")),
            y=alt.Y("imaginary:Q", axis=theme.axis("imaginary")),
            color=colour,
            shape=shape,
            tooltip=["control:N", "real:Q", "imaginary:Q", "seed:Q"],
        )
    )
    zero = (
        alt.Chart(alt.Data(values=[{}])).mark_rule(strokeDash=list(theme.DASHES[2])).encode(x=alt.XDatum(0))
    )
    return alt.LayerChart(layer=[zero, points]).properties(width="container", height=theme.HEIGHT)


def reflection_shares(matrix: NDArray[np.float64]) -> dict[str, float]:
    """What squaring a map hides: the share of dimensions it reflects, and its trace per dimension.

    Returns
    -------
    dict
        "reflected": share of eigenvalues with negative real part, 1/2 under Theorem 1 and 0 for a copy;
        "trace": Tr(Q)/d, 0 under Theorem 1 and 1 for a copy; both to one decimal, so that another
        processor's last bits don't show.

    >>> reflection_shares(np.diag([1.0, 1.0, -1.0, -1.0]))
    {'reflected': 0.5, 'trace': 0.0}
    """
    reflected = float((np.linalg.eigvals(matrix).real < 0).mean())
    return {"reflected": round(reflected, 1), "trace": round(float(np.trace(matrix)) / len(matrix), 1) + 0.0}
