"""What the chapter on random projections draws: clouds of distances, worst pairs, angles, sets, counts.

Source: the resizing paper, sections 2.2, 4.2, 5 and 8, Appendix A.
"""

from __future__ import annotations

import functools
import itertools
import math
from typing import Any

import altair as alt
import numpy as np
import pandas as pd

from book.resizing import story
from book.resizing.experiments import bases, geometry
from book.resizing.experiments.geometry import COORDINATES, DELTA, EMBEDDINGS, HIDDEN, PCA, C, Vectors
from embviz import metrics, projections
from embviz.ledger import studies
from embviz.ledger.cells import table_of
from embviz.projections import FAMILIES, Projection, draw
from embviz.view import charts, theme

KINDS = (*FAMILIES, COORDINATES)
VECTORS = (EMBEDDINGS, HIDDEN)
NAMES = {
    "gaussian": "Gaussian",
    "rademacher": "Rademacher",
    "sparse": "sparse",
    "hadamard": "Hadamard",
    "orthonormal": "row-orthonormal",
    PCA: "PCA of hidden states",
}
N_POINTS, DIMS, WIDTHS = (8, 32, 128), (64, 256, 1024), (16, 64, 256, 1024)  # of the cloud
N_PAIRS = 90  # of a cloud, drawn
N_ANGLES = 3  # draws of a curve of angles
PAIR, EQUAL, UPPER, LOWER, SAID = range(5)  # what a row of a cloud is


def stored_preset(claim: str = "resizing.jl_bound") -> str:
    """The largest preset at which a claim is stored; else "quick", which is computed on the spot."""
    return studies.find_study(claim).largest_stored() or "quick"


@functools.cache
def model_vectors(preset: str) -> Vectors:
    """Embeddings of a preset's base model, and hidden states on the bundled text; loaded once."""
    run = bases.base(preset)
    return geometry.vectors(run, streams=story.streams_for(bases.load(run)))


def data_note(preset: str) -> str:
    """Model, vectors and width, for a caption."""
    run, found = bases.base(preset), model_vectors(preset)
    n, d = found.embeddings.shape
    layers = run.shape.n_layers
    return f"{run.text.corpus} in bytes, {layers} layers, N = {n} vectors, d = {d}"


def name(family: str) -> str:
    """What a reader is shown of a family: ``name("gaussian")`` is ``"Gaussian"``."""
    return NAMES.get(family, family)


# --- one cloud --------------------------------------------------------------------------------------


@functools.cache
def points(n: int, d: int) -> np.ndarray:
    """Made points (n, d): normal, axis k of variance 1 / k; distances have a mean square of 1."""
    rng = np.random.default_rng([n, d])
    x = rng.normal(size=(n, d)) / np.sqrt(np.arange(1, d + 1))
    scale = math.sqrt(float(np.mean(_squares(x))))
    x /= scale
    x.flags.writeable = False
    return x


def _squares(x: np.ndarray) -> np.ndarray:
    """Squared distances of rows i < j, (n (n - 1) / 2,)."""
    return metrics.pairwise_distances(x)[np.triu_indices(len(x), 1)] ** 2


def made_map(family: str, m: int, d: int, seed: int = 0) -> Projection:
    """An isometric map; a Hadamard map pads d to m where that is more than it allows."""
    if family == COORDINATES:
        return projections.coordinates(m, d, seed)
    if m > projections.largest_width(family, d):
        wide = draw(family, m, m, seed=seed)
        return projections.given(wide.matrix[:, :d])
    return draw(family, m, d, seed=seed)


def cloud(n: int, d: int, m: int, family: str) -> pd.DataFrame:
    """Distances of pairs before and after one map, for :func:`plot_cloud`.

    Returns
    -------
    DataFrame
        part (PAIR: a pair, at most 90 of them, the two that change most among them; EQUAL, UPPER, LOWER: ends
        of the line of equals and of the lemma's, whose slopes are the roots of 1 + eps and 1 - eps at 95% and
        C = 8, if it has any below 1; SAID: that eps, and the largest change of a squared distance), before,
        after.
    """
    x = points(n, d)
    before, after = _squares(x), _squares(made_map(family, m, d).apply(x))
    moved = (after / before - 1).round(12)  # rounding doesn't choose the pairs of an exact map
    shown = {int(moved.argmin()), int(moved.argmax())}
    shown |= set(np.linspace(0, len(moved) - 1, min(len(moved), N_PAIRS)).astype(int).tolist())
    ids = sorted(shown)
    eps = lemma_eps(m, n)
    slopes = {EQUAL: 1.0}
    if eps < 1:
        slopes |= {UPPER: math.sqrt(1 + eps), LOWER: math.sqrt(1 - eps)}
    lines = [(part, at, at * slope) for part, slope in slopes.items() for at in (0.0, 3.0)]
    rows = [(PAIR, *pair) for pair in zip(np.sqrt(before[ids]), np.sqrt(after[ids]), strict=True)]
    return pd.DataFrame(
        [*rows, *lines, (SAID, eps, float(np.abs(moved).max()))], columns=["part", "before", "after"]
    )


def lemma_eps(m: int, n_vectors: int, constant: float = C) -> float:
    """The change of squared distances that the lemma allows at width m; from 1 on it says nothing."""
    return math.sqrt(constant * (math.log(n_vectors) + math.log(1 / DELTA)) / m)


def plot_cloud(data: charts.Data) -> alt.LayerChart:
    """Distances after the map against those before, the lemma's lines, and both numbers in words."""
    top = 2.2
    scale = alt.Scale(domain=[0, top], nice=False)
    base = alt.Chart(data).encode(
        x=alt.X("before:Q", axis=theme.axis("distance_before", tick_count=5), scale=scale),
        y=alt.Y("after:Q", axis=theme.axis("distance_after", tick_count=5), scale=scale),
    )
    pairs = base.transform_filter(f"datum.part === {PAIR}").mark_point(
        size=26, opacity=0.6, clip=True, color=theme.CATEGORIES[0]
    )
    layers = [
        base.transform_filter(f"datum.part === {part}").mark_line(
            clip=True, color=colour, strokeDash=list(dash), strokeWidth=1.5
        )
        for part, colour, dash in (
            (EQUAL, theme.INK, theme.DASHES[0]),
            (UPPER, theme.CATEGORIES[1], theme.DASHES[1]),
            (LOWER, theme.CATEGORIES[1], theme.DASHES[1]),
        )
    ]
    number = alt.Chart(data).transform_filter(f"datum.part === {SAID}")
    allowed = (
        "datum.before < 1 ? 'the lemma allows ' + format(datum.before, '.0%') : 'the lemma is silent here'"
    )
    said = [
        number.transform_calculate(text=text)
        .mark_text(align="left", baseline="bottom")
        .encode(x=alt.value(0), y=alt.value(above), text="text:N")
        for text, above in (
            ("'largest change of a squared distance ' + format(datum.after, '.0%')", -22),
            (allowed, -7),
        )
    ]
    return alt.LayerChart(layer=[*layers, pairs, *said]).properties(width=300, height=300)


# --- the worst pair ---------------------------------------------------------------------------------


def worst_table(preset: str) -> pd.DataFrame:
    """The worst pair of token embeddings at each width: the value that 95% of the draws stay below.

    Returns
    -------
    DataFrame
        family (as shown), new_width, worst. Widths at which a family turns the space and drops nothing are
        left out: every distance is kept there.
    """
    run = geometry.lemma_run(preset)
    table = table_of(geometry.lemma.cell(run))
    own = table[(table["quantity"] == "worst") & (table["value"] > projections.ROUNDING)]
    groups = own.groupby(["family", "m"], sort=False)["value"].quantile(1 - run.delta)
    found = groups.rename("worst").reset_index().rename(columns={"m": "new_width"})
    return found.assign(family=found["family"].map(name))


def worst_finding(preset: str) -> str:
    """How far the worst pair moves at m = d and at the lemma's width, true of the table."""
    run = geometry.lemma_run(preset)
    n, d = model_vectors(preset).embeddings.shape
    table = worst_table(preset).set_index(["family", "new_width"])["worst"]
    asked = projections.bound(run.eps, n, run.delta, run.C)
    return (
        f"At m = d a Gaussian map moves the worst of {n * (n - 1) // 2:,} pairs by "
        f"{table['Gaussian', d]:.0%}, a rotation by nothing; for {run.eps:.0%} the lemma asks for "
        f"{asked / d:.1f} d"
    )


def plot_worst(preset: str) -> alt.LayerChart:
    """The worst pair against the width, a line a family; what the lemma allows, and d."""
    n, d = model_vectors(preset).embeddings.shape
    table = worst_table(preset)
    names = [name(family) for family in FAMILIES]
    colour, dash = theme.line_styles("family", names)
    key = alt.Legend(title=None, symbolType="stroke", symbolStrokeWidth=2.5, columns=3)
    widths = geometry.widths(d)
    across = alt.X("new_width:Q", **_log(widths[::2], "new_width", ","))
    up = alt.Y("worst:Q", **_log([0.1, 0.2, 0.5, 1, 2, 5], "worst_change", "%"))
    lines = alt.Chart(table.round(4)).encode(x=across, y=up, color=colour.legend(key))
    least = math.floor(lemma_eps(1, n) ** 2) + 1  # where its tolerance falls below 1, and it begins to speak
    spoken = [least, *(m for m in widths if m > least)]
    allowed = pd.DataFrame({"new_width": spoken, "worst": [lemma_eps(m, n) for m in spoken]})
    of_lemma = alt.Chart(allowed.round(4)).encode(x=across, y=up)
    place = allowed[allowed["new_width"] > d].head(1).assign(text="the lemma, C = 8")
    word = alt.Chart(place.round(4)).mark_text(dx=26, dy=-16).encode(x=across, y=up, text="text:N")
    at_d = alt.Chart(alt.Data(values=[{"d": d, "text": "m = d"}]))
    layers = [
        at_d.mark_rule(strokeDash=list(theme.DASHES[2]), opacity=0.7).encode(x=alt.X("d:Q")),
        at_d.mark_text(align="left", dx=4, dy=8).encode(x=alt.X("d:Q"), y=alt.value(0), text="text:N"),
        of_lemma.mark_line(color=theme.INK, strokeWidth=1.5, strokeDash=list(theme.DASHES[4])),
        word,
        lines.mark_line(strokeWidth=2.2).encode(strokeDash=dash.legend(key)),
        lines.mark_point(size=24).encode(tooltip=["family:N", "new_width:Q", "worst:Q"]),
    ]
    return alt.LayerChart(layer=layers).properties(width="container", height=320)


def _log(values: list[int] | list[float], label: str, number_format: str) -> dict[str, Any]:
    """Axis and scale of a logarithmic encoding."""
    axis = alt.Axis(title=theme.title(label), values=values, format=number_format, labelOverlap="greedy")
    return {"axis": axis, "scale": alt.Scale(type="log", nice=False, padding=8)}


def constants(preset: str) -> pd.DataFrame:
    """The least width at which 95% of the draws keep every pair, and the constant that it means."""
    run = geometry.lemma_run(preset)
    table = table_of(geometry.lemma.cell(run))
    n, d = model_vectors(preset).embeddings.shape
    least = table[table["quantity"] == "smallest"].set_index("family")["m"]
    rows = {
        name(family): {
            "least m": int(least[family]),
            "m / d": round(float(least[family]) / d, 2),
            "C": round(projections.constant(int(least[family]), run.eps, n, run.delta), 2),
        }
        for family in FAMILIES
    }
    asked = projections.bound(run.eps, n, run.delta, run.C)
    proved = proved_width(run.eps, n, run.delta)
    implied = round(projections.constant(proved, run.eps, n, run.delta), 2)
    for label, m, value in (("asked for", asked, run.C), ("proved for Gaussian maps", proved, implied)):
        rows[label] = {"least m": m, "m / d": round(m / d, 2), "C": value}
    return pd.DataFrame.from_dict(rows, orient="index").rename_axis("family")


def proved_width(eps: float, n_vectors: int, delta: float) -> int:
    """The width at which the union of all pairs' tails is below `delta`, for Gaussian maps.

    A pair leaves 1 +- eps with a probability of 2 exp(-m (eps^2 / 4 - eps^3 / 6)) at most, and there are
    fewer than N^2 / 2 pairs (Dasgupta & Gupta, 2003).
    """
    return math.ceil((2 * math.log(n_vectors) + math.log(1 / delta)) / (eps**2 / 4 - eps**3 / 6))


# --- families ---------------------------------------------------------------------------------------


def length_spread(family: str, m: int, d: int, fourth: float) -> float:
    """Standard deviation of |Tx|^2 over draws of an isometric map, |x| = 1, where `fourth` sums x_i^4.

    A Hadamard map's is that of a d without padding.
    """
    kept = 1 - fourth
    variance = {
        "gaussian": 2 / m,
        "rademacher": 2 / m * kept,
        "sparse": 2 / m,  # its entries have a normal's fourth moment
        "hadamard": 2 / m * kept * (d - m) / (d - 1),
        "orthonormal": 2 / m * (d - m) / (d + 2),
    }
    return math.sqrt(variance[family])


def length_table(preset: str) -> pd.DataFrame:
    """|Tx|^2 / |x|^2 of token embeddings at half the width: mean, spread, and the spread's closed form."""
    run = geometry.maps_run(preset)
    table = table_of(geometry.maps.cell(run))
    x = model_vectors(preset).embeddings
    d, m = x.shape[1], round(run.ratio * x.shape[1])
    fourth = float(np.mean((x**4).sum(axis=1) / (x**2).sum(axis=1) ** 2))
    rows = {}
    for family in FAMILIES:
        own = table[(table["quantity"] == "length") & (table["family"] == family)]["value"].to_numpy(float)
        rows[name(family)] = {
            "mean": round(float(own.mean()), 3),
            "spread": round(float(own.std()), 3),
            "spread, closed form": round(length_spread(family, m, d, fourth), 3),
        }
    return pd.DataFrame.from_dict(rows, orient="index").rename_axis("family")


def error_table(preset: str) -> pd.DataFrame:
    """Angular error of each family over the Gaussian's.

    Returns
    -------
    DataFrame
        family (as shown), error_ratio, low, high: the ledger's findings.
    """
    found = studies.find_study("resizing.maps").findings(preset)
    rows = [
        (name(family), *(getattr(found[f"error_{family}"], end) for end in ("value", "low", "high")))
        for family in (*FAMILIES[1:], PCA)
    ]
    return pd.DataFrame(rows, columns=["family", "error_ratio", "low", "high"])


def error_finding(table: pd.DataFrame) -> str:
    """Which of the maps turn angles least and most, true of the table."""
    order = table.sort_values("error_ratio")
    least, most = order.iloc[0], order.iloc[-1]
    return (
        f"At half the width {least['family']} turns angles {least['error_ratio']:.2f} times as much as a "
        f"Gaussian map, {most['family']} {most['error_ratio']:.2f} times"
    )


def plot_errors(table: pd.DataFrame, ratio: float) -> alt.LayerChart:
    """Angular errors over the Gaussian's with their intervals; at 1, and at sqrt(1 - m / d), a rule."""
    most = max(1.25, float(table["high"].max()) + 0.05)
    scale = alt.Scale(domain=[0, most], nice=False)
    across = alt.X("error_ratio:Q", axis=theme.axis("error_ratio", tick_count=6), scale=scale)
    up = alt.Y("family:N", sort=None, axis=alt.Axis(title=None, labelLimit=200, ticks=False, domain=False))
    base = alt.Chart(table.round(4)).encode(y=up)
    levels = [
        {"at": 1.0, "text": "Gaussian", "above": -7},
        {"at": math.sqrt(1 - ratio), "text": "√(1 − m/d)", "above": -20},
    ]
    of_levels = alt.Chart(alt.Data(values=levels)).encode(x=alt.X("at:Q", scale=scale))
    layers = [
        of_levels.mark_rule(strokeDash=list(theme.DASHES[1]), opacity=0.8),
        of_levels.mark_text(fontSize=11).encode(y=alt.Y("above:Q", scale=None, axis=None), text="text:N"),
        base.mark_rule(strokeWidth=2.5, color=theme.CATEGORIES[0]).encode(
            x=alt.X("low:Q", scale=scale), x2="high:Q"
        ),
        base.mark_point(size=70).encode(x=across, tooltip=["family:N", "error_ratio:Q", "low:Q", "high:Q"]),
    ]
    return alt.LayerChart(layer=layers).properties(width="container", height=34 * len(table))


def conventions(preset: str, *, n_draws: int = 200) -> pd.DataFrame:
    """What is left of a squared length after T, T+ T and T' T at half the width, a mean over embeddings."""
    x = model_vectors(preset).embeddings
    squares = (x**2).sum(axis=1)
    d = x.shape[1]
    m = d // 2
    rows = {}
    for label, family, scaling in (
        ("Gaussian, N(0, 1/m)", "gaussian", "isometric"),
        ("row-orthonormal, times √(d/m)", "orthonormal", "isometric"),
        ("row-orthonormal, T T' = I", "orthonormal", "unit"),
    ):
        kept = []
        for i in range(n_draws):
            found = draw(family, m, d, seed=[0, i], scaling="unit" if scaling == "unit" else "isometric")
            image = found.apply(x)
            back, transposed = image @ found.pseudo_inverse().T, image @ found.matrix
            kept.append([np.mean((y**2).sum(axis=1) / squares) for y in (image, back, transposed)])
        means = np.mean(kept, axis=0).round(2)
        rows[label] = dict(zip(("T x", "T⁺T x", "T'T x"), means.tolist(), strict=True))
    return pd.DataFrame.from_dict(rows, orient="index").rename_axis("map")


# --- measures ---------------------------------------------------------------------------------------


def measure_table(preset: str) -> pd.DataFrame:
    """The four measures where their values are known, means over draws; a dash where none is defined."""
    run = geometry.measures_run(preset)
    table = table_of(geometry.measures.cell(run))
    cases = {
        "identity": "nothing changed",
        "scale": "three times as long",
        "reflection": "reflected through the origin",
        "rotation": "turned at random",
        "independent": f"other vectors, d = {run.other_dim}",
    }
    own = table[table["case"].isin(cases)]
    wide = own.pivot_table(index="case", columns="quantity", values="value", aggfunc="mean")
    wide = wide.loc[list(cases)].rename(index=cases).rename_axis("change").round(3) + 0.0  # no minus zero
    columns = ["angular error", "concordance", "feature alignment", "kurtosis shift"]
    return wide[columns].astype(object).where(wide[columns].notna(), "–").rename_axis(columns=None)


# --- angles against the width -----------------------------------------------------------------------


def angles(preset: str, which: str, family: str) -> pd.DataFrame:
    """Angular error and concordance against the width, for :func:`plot_angles`.

    Parameters
    ----------
    which : str
        EMBEDDINGS or HIDDEN.
    family : str
        One of KINDS.

    Returns
    -------
    DataFrame
        series ("measured", three draws at each width; "expected", a Gaussian map's in closed form; "PCA" of
        these very vectors), new_width, angular_error in radians, concordance. Rounding errors are left out.
    """
    x = dict(model_vectors(preset).items())[which]
    d = x.shape[1]
    rows = []
    for m in geometry.widths(d):
        rows.append(("expected", m, metrics.expected_angular_error(x, m), metrics.expected_concordance(x, m)))
        maps = [("measured", made_map(family, m, d, seed=i)) for i in range(N_ANGLES)]
        if m < d:
            maps.append(("PCA", projections.pca(x, m)))
        for series, found in maps:
            y = found.apply(x)
            if (error := metrics.angular_error(x, y)) > projections.ROUNDING:
                rows.append((series, m, error, metrics.concordance(x, y)))
    return pd.DataFrame(rows, columns=["series", "new_width", "angular_error", "concordance"])


def plot_angles(data: charts.Data, *, dim: int) -> alt.VConcatChart:
    """Both measures against the width: draws as marks, the closed form and PCA as lines."""
    names = ["measured", "expected", "PCA"]
    widths = geometry.widths(dim)
    across = alt.X("new_width:Q", **_log(widths[::2], "new_width", ","))
    down = [0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5]
    parts = []
    for field, scale in (
        ("angular_error", _log(down, "angular_error", "~g")),
        (
            "concordance",
            {
                "axis": theme.axis("concordance", tick_count=5),
                "scale": alt.Scale(zero=False),
            },
        ),
    ):
        colour, shape = theme.point_styles("series", names)
        key = alt.Legend(title=None) if field == "concordance" else None
        base = alt.Chart(data).encode(
            x=across, y=alt.Y(f"{field}:Q", **scale), color=colour.legend(key), shape=shape.legend(key)
        )
        marks = [
            base.transform_filter(f"{sign}(datum.series === 'measured')").mark_point(size=size, opacity=0.85)
            for sign, size in (("!", 26), ("", 45))
        ]
        lines = [
            base.transform_filter(f"datum.series === '{series}'")
            .mark_line(strokeDash=list(dash), strokeWidth=1.8)
            .encode(shape=alt.Undefined)
            for series, dash in (("expected", theme.DASHES[1]), ("PCA", theme.DASHES[2]))
        ]
        parts.append(alt.LayerChart(layer=[*lines, *marks]).properties(width=320, height=210))
    both = alt.VConcatChart(vconcat=parts, spacing=22)
    return both.resolve_scale(color="independent", shape="independent")


def slope_note(preset: str) -> str:
    """The slopes that the ledger judges, for a title."""
    found = studies.find_study("resizing.geometry_curves").findings(preset)
    of = {key: found[f"slope_{key}"].value for key in ("embeddings", "hidden")}
    said = (
        f"Under Gaussian maps angular errors fall as m to the power of {of['embeddings']:.2f} (embeddings) "
        f"and {of['hidden']:.2f} (hidden states); one over the root is -0.5"
    )
    return said.replace("-", "−")


# --- out of support ---------------------------------------------------------------------------------


def support_table(preset: str) -> pd.DataFrame:
    """Root mean squared changes of squared distances, inside and outside the calibration set.

    Returns
    -------
    DataFrame
        map_kind ("Gaussian" or "PCA of the calibration set"), draw, inside_change, outside_change.
    """
    table = table_of(geometry.support.cell(geometry.support_run(preset)))
    parts = []
    for family, shown in (("gaussian", "Gaussian"), (PCA, "PCA of the calibration set")):
        pairs = np.sqrt(geometry.ratios(table, "mean square", family))
        part = pd.DataFrame(pairs, columns=["outside_change", "inside_change"])
        parts.append(part.assign(map_kind=shown, draw=np.arange(len(part))))
    return pd.concat(parts, ignore_index=True)


def support_finding(preset: str) -> str:
    """Distortion outside over inside, of both maps, as the ledger has it."""
    found = studies.find_study("resizing.out_of_support").findings(preset)
    return (
        f"Outside the calibration set distances change {found['ratio'].value:.2f} times as much as inside "
        f"under a Gaussian map, {found['ratio_pca'].value:.2f} times under PCA of that set"
    )


def support_note(preset: str) -> str:
    """Both texts, for a caption."""
    run = geometry.support_run(preset)
    other = f"{run.text.corpus} read backwards" if run.backwards else run.text.corpus
    return (
        f"{run.n_vectors} hidden states of the training text ({run.base.text.corpus}) against as many of "
        f"{other}, m = d / {round(1 / run.ratio)}"
    )


def plot_support(table: pd.DataFrame) -> alt.LayerChart:
    """Change outside against change inside, a mark a draw of map and sets, over the line of equals."""
    names = list(dict.fromkeys(table["map_kind"]))
    colour, shape = theme.point_styles("map_kind", names)
    key = alt.Legend(title=None)
    changes = table[["inside_change", "outside_change"]].to_numpy()
    low, high = float(changes.min()) / 1.15, float(changes.max()) * 1.15
    scale = alt.Scale(type="log", domain=[low, high], nice=False)
    ticks = [tick for tick in (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0) if low < tick < high]
    ends = alt.Chart(pd.DataFrame({"inside_change": [low, high], "outside_change": [low, high]}))
    place = {
        "x": alt.X("inside_change:Q", axis=_percents("inside_change", ticks), scale=scale),
        "y": alt.Y("outside_change:Q", axis=_percents("outside_change", ticks), scale=scale),
    }
    line = ends.mark_line(strokeDash=list(theme.DASHES[1]), strokeWidth=1.5, color=theme.INK).encode(**place)
    marks = (
        alt.Chart(table.round(5))
        .mark_point(size=55, opacity=0.75)
        .encode(
            **place,
            color=colour.legend(key),
            shape=shape.legend(key),
            tooltip=["map_kind:N", "draw:Q", "inside_change:Q", "outside_change:Q"],
        )
    )
    return alt.LayerChart(layer=[line, marks]).properties(width="container", height=320)


def _percents(label: str, ticks: list[float]) -> alt.Axis:
    return alt.Axis(title=theme.title(label), values=ticks, format="~%")


# --- counts -----------------------------------------------------------------------------------------


def count_table(sizes: tuple[int, ...] = (3, 4, 8, 15, 16, 32, 64)) -> pd.DataFrame:
    """The appendix's sum, its formula's error, what it leaves out, and lines of centred patterns; by n."""
    table = table_of(geometry.capacity.cell(geometry.CountsRun())).set_index("n").loc[list(sizes)]
    both = table["formula"], table["counted"]
    shown = {
        "sum of C(n, k)": table["counted"].map(_grouped),
        "formula off by": [_grouped(str(int(a) - int(b))) for a, b in zip(*both, strict=True)],
        "patterns left out": table["left_out"].map(_grouped),
        "lines": table["lines"].map(_grouped),
        "middle / Stirling": table["stirling"].round(4).where(table.index % 2 == 0, "–"),
    }
    return pd.DataFrame(shown)


def _grouped(digits: str) -> str:
    return f"{int(digits):,}"


@functools.cache
def pattern_cosines(n: int = 128, n_patterns: int = 60) -> pd.DataFrame:
    """Cosines between random patterns of n zeros and ones, as they are and less their mean.

    Returns
    -------
    DataFrame
        kind ("0 and 1", "less their mean", "random directions"), mean, spread, largest of |cosine|.
    """
    rng = np.random.default_rng(0)
    patterns = rng.integers(2, size=(n_patterns, n)).astype(float)
    made = {
        "0 and 1": patterns,
        "less their mean": patterns - patterns.mean(axis=1, keepdims=True),
        "random directions": rng.normal(size=(n_patterns, n)),
    }
    rows = {}
    for kind, x in made.items():
        unit = x / np.linalg.norm(x, axis=1, keepdims=True)
        cosines = np.array([float(a @ b) for a, b in itertools.combinations(unit, 2)])
        rows[kind] = {
            "mean cosine": round(float(cosines.mean()), 2) + 0.0,
            "spread": round(float(cosines.std()), 2),
            "largest |cosine|": round(float(np.abs(cosines).max()), 2),
        }
    return pd.DataFrame.from_dict(rows, orient="index").rename_axis("patterns")
