"""What the chapter on rounding weights measures and draws: grids, kurtosis, rotations, planted outliers."""

from __future__ import annotations

import functools
from collections.abc import Mapping

import altair as alt
import numpy as np
import pandas as pd

from book.resizing.experiments import bases, quantized
from book.resizing.experiments.quantized import BITS, FLOAT, NONE, PERMUTATION, ROTATION, Treatment
from embviz import projections
from embviz.ledger import studies
from embviz.ledger.cells import table_of
from embviz.models import quantization
from embviz.models.decoder import Decoder
from embviz.models.quantization import Per
from embviz.view import charts, plot_histogram, theme

CLAIM = "resizing.quantization"
TREATED: Mapping[Treatment, str] = {
    NONE: "as trained",
    ROTATION: "rotated",
    PERMUTATION: "permuted",
}
PERS: Mapping[Per, str] = {"tensor": "a scale a matrix", "channel": "a scale a row"}
MATRICES = {  # shown one by one
    "embedding": "token embeddings",
    "blocks.0.attention.query.weight": "queries, layer 1",
    "blocks.1.up.weight": "MLP in, layer 2",
    "blocks.1.down.weight": "MLP out, layer 2",
    "free_head": "output embedding",
}
N_BINS = 41
PLANTED_SIZE = (256, 64)  # outputs, inputs
FACTORS = (1, 2, 4, 8, 16, 32)
FOUND_PLAIN, FOUND_ROTATED = PLANTED = ("as planted", "rotated")


def shown_preset() -> str:
    """The largest stored preset of the claim, or the quick one, which is computed where it is asked for."""
    return studies.find_study(CLAIM).largest_stored() or "quick"


def data_note(preset: str) -> str:
    """Model, text and seeds, for a caption."""
    run = bases.base(preset)
    source = "bundled documentation" if run.text.corpus == "embedded" else "short stories"
    n_seeds = len(quantized.runs(preset, ROTATION))
    shape = run.shape
    return (
        f"Base model with LayerNorm, {shape.n_layers} layers, {shape.embedding_dim} dimensions, trained on "
        f"{source} in bytes, folded; {n_seeds} rotations and {n_seeds} permutations"
    )


# --- one matrix and its grid ----------------------------------------------------------------------------


@functools.lru_cache(maxsize=6)
def model(preset: str, treatment: Treatment) -> Decoder:
    """The base model, folded, after a treatment of seed 0."""
    return quantized.treated(quantized.folded(bases.base(preset)), treatment, 0)


def on_the_grid(preset: str, matrix: str, basis: str, per: str, bits: int) -> pd.DataFrame:
    """Weights of a matrix as bins, in steps of the grid they are rounded to, and what the rounding costs.

    Parameters
    ----------
    preset : str
    matrix : str
        A key of MATRICES.
    basis : str
        A key of TREATED.
    per : str
        "tensor" or "channel": then each row is divided by its own step.
    bits : int
        2 or more.

    Returns
    -------
    DataFrame
        left, right (1: the last level), share_of_weights; and in the first row kurtosis, error, times and
        cost, in words.
    """
    kind, scale = _treatment(basis), _per(per)
    weights = quantization.matrices(model(preset, kind))[matrix].double().numpy()
    rounded = quantization.round_to_grid(weights, bits, scale)
    step = np.where(rounded.scale > 0, rounded.scale, 1.0)
    places = (weights / step / quantization.n_levels(bits)).ravel()  # 1: the last level
    places = np.clip(places, -1, 1)  # the largest weight may come out a rounding above
    bins = charts.bin_counts(places, n_bins=N_BINS, limits=(-1, 1)).drop(columns="count")
    error = quantization.relative_error(weights, bits, scale)
    crest = quantization.crest_factor(weights, scale)
    return _noted(
        bins.rename(columns={"share": "share_of_weights"}),
        kurtosis=f"excess kurtosis {quantization.excess_kurtosis(weights):+.2f}, crest factor {crest:.1f}",
        error=f"squared error {error:.2%} of the squared weights,",
        times=f"{error / quantization.uniform_error(bits):.1f} times that of evenly spread ones",
        cost=cost_words(preset, kind, bits, scale),
    )


def _noted(table: pd.DataFrame, **notes: str) -> pd.DataFrame:
    """Words as columns: in the first row alone, since a page holds every row."""
    first = np.arange(len(table)) == 0
    return table.assign(**{name: np.where(first, text, "") for name, text in notes.items()})


def _treatment(name: str) -> Treatment:
    return next(kind for kind in TREATED if kind == name)


def _per(name: str) -> Per:
    return next(per for per in PERS if per == name)


def cost_words(preset: str, treatment: Treatment, bits: int, per: Per) -> str:
    """What it costs to round the whole model so; the mean over seeds, where it is stored."""
    if bits not in BITS:
        return f"whole model, {bits} bits: not measured"
    found = costs(preset)
    own = found[
        (found["basis"] == TREATED[treatment]) & (found["bits"] == bits) & (found["per"] == PERS[per])
    ]
    return f"whole model, {bits} bits: {own['rounding_cost'].mean():+.4f} nats a token"


def plot_grid(data: charts.Data) -> alt.LayerChart:
    """Bars over the grid's extent, its levels as ticks below as long as they can be told apart."""
    bars = plot_histogram(data, "weight_place", value="share_of_weights")
    levels = (
        alt.Chart(alt.sequence(-127, 128, as_="level"))
        .transform_filter("abs(datum.level) <= pow(2, bits - 1) - 1")
        .transform_calculate(place="datum.level / (pow(2, bits - 1) - 1)")
        .mark_tick(thickness=1.5, size=14, color=theme.CATEGORIES[1])
        .encode(x="place:Q", y=alt.value(theme.HEIGHT - 7))
    )
    notes = [
        alt.Chart(data)
        .transform_filter(f"datum.{name} !== ''")
        .mark_text(align="left", fontSize=12)
        .encode(x=alt.value(0), y=alt.value(-60 + 16 * line), text=f"{name}:N")
        for line, name in enumerate(("kurtosis", "error", "times", "cost"))
    ]
    return alt.LayerChart(layer=[bars, levels, *notes]).properties(width="container", height=theme.HEIGHT)


# --- the whole model ------------------------------------------------------------------------------------


@functools.cache
def costs(preset: str) -> pd.DataFrame:
    """Log perplexity after rounding less before: basis, seed, per, bits, rounding_cost (nats a token)."""
    rows = []
    for kind, name in TREATED.items():
        for run in quantized.runs(preset, kind):
            table = table_of(quantized.quantized.cell(run))
            losses = table[table["quantity"] == "log_perplexity"]
            exact = float(losses.loc[losses["bits"] == FLOAT, "value"].iloc[0])
            for row in losses[losses["bits"] != FLOAT].itertuples():
                cost = float(row.value) - exact  # type: ignore[arg-type]
                rows.append(
                    {
                        "basis": name,
                        "seed": run.seed,
                        "per": PERS[_per(str(row.per))],
                        "bits": row.bits,
                        "rounding_cost": cost,
                    }
                )
    return pd.DataFrame(rows)


def plot_costs(preset: str) -> alt.FacetChart:
    """Costs over bits, a mark a seed, lines through means; logarithmic but for costs below a thousandth."""
    table = costs(preset)
    colour, shape = theme.point_styles("basis", list(TREATED.values()))
    x = alt.X("bits:Q", axis=alt.Axis(title=theme.title("bits"), values=list(BITS), format="d"))
    y = alt.Y(
        "rounding_cost:Q",
        axis=alt.Axis(title=theme.title("rounding_cost"), format="~g", values=[0, 0.001, 0.01, 0.1, 1]),
        scale=alt.Scale(type="symlog", constant=0.001, nice=False),
    )
    line = alt.Chart().mark_line(strokeWidth=1.5).encode(x=x, y=alt.Y("mean(rounding_cost):Q"), color=colour)
    tooltip = ["basis:N", "bits:Q", "seed:N", alt.Tooltip("rounding_cost:Q", format=".4g")]
    marks = alt.Chart().mark_point(size=50).encode(x=x, y=y, color=colour, shape=shape, tooltip=tooltip)
    return (
        alt.LayerChart(data=table.round(7), layer=[line, marks])
        .properties(width=270, height=theme.HEIGHT)
        .facet(column=alt.Column("per:N", title=None, sort=list(PERS.values())))
    )


def costs_finding(preset: str, bits: int = 4) -> str:
    """Mean costs with and without a rotation."""
    own = costs(preset)
    mean = own[own["bits"] == bits].groupby(["per", "basis"])["rounding_cost"].mean()
    said = [
        f"{mean[per, TREATED[NONE]]:.4f} as trained and {mean[per, TREATED[ROTATION]]:.4f} rotated ({per})"
        for per in PERS.values()
    ]
    return f"{bits} bits cost, in nats a token: {'; '.join(said)}"


def rescue_table(preset: str) -> pd.DataFrame:
    """Mean costs, with a scale a matrix or a row, rotated or not: a row for each number of bits."""
    mean = costs(preset).groupby(["bits", "per", "basis"])["rounding_cost"].mean()
    rows = {}
    for bits in BITS:
        plain = mean[bits, PERS["tensor"], TREATED[NONE]]
        rows[bits] = {
            "a scale a matrix": f"{plain:.4f}",
            "and rotated": f"{mean[bits, PERS['tensor'], TREATED[ROTATION]]:.4f}",
            "a scale a row": f"{mean[bits, PERS['channel'], TREATED[NONE]]:.4f}",
            "both": f"{mean[bits, PERS['channel'], TREATED[ROTATION]]:.4f}",
        }
    return pd.DataFrame.from_dict(rows, orient="index").rename_axis("bits")


# --- kurtosis -------------------------------------------------------------------------------------------

WEIGHTS, STATES = KINDS = ("weights", "hidden states")
MEASURED, AFTER, EXPECT = POINTS = ("as trained", "rotated", "expected of a rotation")


@functools.cache
def kurtoses(preset: str) -> pd.DataFrame:
    """Excess kurtosis of matrices and hidden states: kind, name, series (one of POINTS), seed, value."""
    rows = []
    names = {
        WEIGHTS: ("excess_kurtosis", "expected_kurtosis"),
        STATES: ("hidden_kurtosis", "hidden_expected"),
    }
    for treatment, point in ((NONE, MEASURED), (ROTATION, AFTER)):
        for run in quantized.runs(preset, treatment):
            table = table_of(quantized.quantized.cell(run))
            for kind, (found, expected) in names.items():
                wanted = ((found, point),) if treatment == ROTATION else ((found, point), (expected, EXPECT))
                for quantity, label in wanted:
                    own = table[table["quantity"] == quantity]
                    rows += [
                        {
                            "kind": kind,
                            "name": _name(str(row.part)),
                            "series": label,
                            "seed": run.seed,
                            "excess_kurtosis": float(row.value),  # type: ignore[arg-type]
                        }
                        for row in own.itertuples()
                    ]
    return pd.DataFrame(rows)


def _name(part: str) -> str:
    """What a figure calls a matrix, or the number of a layer."""
    if part.isdigit():
        return "embedded tokens" if part == "0" else f"after layer {part}"
    words = part.removesuffix(".weight").split(".")
    if words[0] != "blocks":
        return {"embedding": "token embeddings", "free_head": "output embedding", "position": "positions"}[
            part
        ]
    names = {"query": "queries", "key": "keys", "value": "values", "out": "attention out"}
    names |= {"up": "MLP in", "down": "MLP out"}
    return f"{names[words[-1]]}, layer {int(words[1]) + 1}"


def plot_kurtosis(data: charts.Data) -> alt.LayerChart:
    """A row a matrix: as trained, rotated, and what a rotation is expected to leave."""
    colour, shape = theme.point_styles("series", list(POINTS))
    key = alt.Legend(title=None)
    y = alt.Y("name:N", sort=None, axis=alt.Axis(title=None, labelLimit=170))
    places = [-2, -1, 0, 1, 2, 5, 10, 20, 50, 100]
    x = alt.X(
        "excess_kurtosis:Q",
        axis=alt.Axis(title=theme.title("excess_kurtosis"), values=places),
        scale=alt.Scale(type="symlog"),
    )
    tooltip = ["name:N", "series:N", "seed:N", alt.Tooltip("excess_kurtosis:Q", format=".2f")]
    marks = (
        alt.Chart(data)
        .mark_point(size=60, opacity=0.8)
        .encode(x=x, y=y, color=colour.legend(key), shape=shape.legend(key), tooltip=tooltip)
    )
    zero = (
        alt.Chart(alt.Data(values=[{}])).mark_rule(strokeDash=list(theme.DASHES[2])).encode(x=alt.XDatum(0))
    )
    return alt.LayerChart(layer=[zero, marks]).properties(width="container", height=330)


def kurtosis_finding(preset: str) -> str:
    """Means before, after and expected."""
    mean = kurtoses(preset).groupby(["kind", "series"])["excess_kurtosis"].mean()
    said = [
        f"{kind} {mean[kind, MEASURED]:+.2f} as trained, {mean[kind, AFTER]:+.2f} rotated, "
        f"{mean[kind, EXPECT]:+.2f} expected"
        for kind in KINDS
    ]
    return f"Mean excess kurtosis: {'; '.join(said)}"


# --- error against crest factor -------------------------------------------------------------------------


@functools.cache
def errors(preset: str) -> pd.DataFrame:
    """Squared error of every matrix, and what its crest factor predicts: bits, per, basis, name, and both.

    Returns
    -------
    DataFrame
        bits, per, basis, name, predicted_error, squared_error; of seed 0.
    """
    rows = []
    for kind, name in TREATED.items():
        table = table_of(quantized.quantized.cell(quantized.runs(preset, kind)[0]))
        found = {(str(row.quantity), str(row.part)): float(row.value) for row in table.itertuples()}  # type: ignore[arg-type]
        for row in table[table["quantity"] == "relative_error"].itertuples():
            crest = found[f"crest_{row.per}", str(row.part)]
            rows.append(
                {
                    "bits": row.bits,
                    "per": PERS[_per(str(row.per))],
                    "basis": name,
                    "name": _name(str(row.part)),
                    "predicted_error": crest**2 / 12 / quantization.n_levels(int(row.bits)) ** 2,  # type: ignore[arg-type]
                    "squared_error": row.value,
                }
            )
    return pd.DataFrame(rows)


def plot_errors(data: charts.Data) -> alt.LayerChart:
    """A mark a matrix and basis, the line of equals."""
    colour, shape = theme.point_styles("basis", list(TREATED.values()))
    scale = alt.Scale(type="log", nice=False, padding=12)
    places = [a * b for b in (1e-6, 1e-5, 1e-4, 1e-3, 0.01, 0.1) for a in (1, 2, 5)] + [1]
    x = alt.X(
        "predicted_error:Q",
        axis=alt.Axis(title=theme.title("predicted_error"), format="~g", values=places),
        scale=scale,
    )
    y = alt.Y(
        "squared_error:Q",
        axis=alt.Axis(title=theme.title("squared_error"), format="~g", values=places),
        scale=scale,
    )
    tooltip = [
        "name:N",
        "basis:N",
        *(alt.Tooltip(f"{n}:Q", format=".3g") for n in ("predicted_error", "squared_error")),
    ]
    marks = (
        alt.Chart(data)
        .mark_point(size=60, opacity=0.8)
        .encode(x=x, y=y, color=colour, shape=shape, tooltip=tooltip)
    )
    line = (
        alt.Chart(data)
        .transform_aggregate(least="min(predicted_error)", most="max(predicted_error)")
        .mark_rule(strokeDash=list(theme.DASHES[2]))
        .encode(x=alt.X("least:Q", scale=scale), y=alt.Y("least:Q", scale=scale), x2="most:Q", y2="most:Q")
    )
    return alt.LayerChart(layer=[line, marks]).properties(width="container", height=theme.HEIGHT)


def errors_finding(preset: str) -> str:
    """How far measured errors are from predicted ones at four bits, a scale a matrix."""
    own = errors(preset)
    own = own[(own["bits"] == 4) & (own["per"] == PERS["tensor"])]
    ratio = own["squared_error"] / own["predicted_error"]
    halved = own.pivot(index="name", columns="basis", values="squared_error")
    lower = int((halved[TREATED[ROTATION]] < halved[TREATED[NONE]]).sum())
    return (
        f"Four bits, a scale a matrix: errors are {ratio.min():.2f} to {ratio.max():.2f} times what the "
        f"crest factor predicts, and lower in {lower} of {len(halved)} matrices when rotated"
    )


# --- a planted outlier ----------------------------------------------------------------------------------


def planted(factor: float, bits: int, per: str) -> pd.DataFrame:
    """Errors of a random map with one coordinate's weights `factor` times larger, its inputs as much smaller.

    Outputs are the same as without a factor; what is rounded is not.

    Returns
    -------
    DataFrame
        series (one of PLANTED), column_factor, output_error over all FACTORS: squared error of outputs over
        their squares, both expected over normal inputs; `chosen`, the factor; note, on kurtosis, in words.
    """
    rows = []
    for each in sorted({*FACTORS, factor}):
        for name, (weights, inputs) in zip(PLANTED, _planted(float(each)), strict=True):
            error = output_error(weights, inputs, bits, _per(per))
            rows.append({"series": name, "column_factor": each, "output_error": error})
    kurtosis = [quantization.excess_kurtosis(weights) for weights, _ in _planted(float(factor))]
    note = f"kurtosis at {factor:g}: {kurtosis[0]:+.1f} as planted, {kurtosis[1]:+.1f} rotated"
    return pd.DataFrame(rows).assign(chosen=float(factor), note=note)


def output_error(weights: np.ndarray, inputs: np.ndarray, bits: int, per: Per) -> float:
    """Squared error of W x over its square when W (n, d) is rounded, expected over x of covariance (d, d)."""
    missed = weights - quantization.round_to_grid(weights, bits, per).values
    lost, whole = (np.einsum("ij,jk,ik->", array, inputs, array) for array in (missed, weights))
    return float(lost / whole)


@functools.lru_cache(maxsize=64)
def _planted(factor: float) -> tuple[tuple[np.ndarray, np.ndarray], tuple[np.ndarray, np.ndarray]]:
    """Weights and covariance of the inputs, as planted and rotated."""
    n, d = PLANTED_SIZE
    weights = np.random.default_rng(0).normal(size=(n, d))
    weights[:, 0] *= factor
    inputs = np.diag(np.where(np.arange(d) == 0, 1 / factor**2, 1.0))
    T = projections.draw("orthonormal", d, d, seed=1).matrix
    return (weights, inputs), (weights @ T.T, T @ inputs @ T.T)


def plot_planted(data: charts.Data) -> alt.LayerChart:
    """Errors over the factor, both scales logarithmic, the chosen factor a line across."""
    colour, dash = theme.line_styles("series", [FOUND_PLAIN, FOUND_ROTATED])
    x = alt.X(
        "column_factor:Q",
        axis=alt.Axis(title=theme.title("column_factor"), values=list(FACTORS)),
        scale=alt.Scale(type="log", domain=[1, FACTORS[-1]], nice=False),
    )
    y = alt.Y(
        "output_error:Q",
        axis=alt.Axis(
            title=theme.title("output_error"), format="~g", values=[1e-5, 1e-4, 0.001, 0.01, 0.1, 1]
        ),
        scale=alt.Scale(type="log", nice=True),
    )
    tooltip = ["series:N", "column_factor:Q", alt.Tooltip("output_error:Q", format=".3g")]
    lines = (
        alt.Chart(data)
        .mark_line(strokeWidth=2.5, point=True)
        .encode(x=x, y=y, color=colour, strokeDash=dash, tooltip=tooltip)
    )
    rule = (
        alt.Chart(data)
        .transform_aggregate(n="count()", groupby=["chosen"])
        .mark_rule(strokeDash=list(theme.DASHES[2]))
        .encode(x="chosen:Q")
    )
    note = (
        alt.Chart(data)
        .transform_aggregate(n="count()", groupby=["note"])
        .mark_text(align="right", fontSize=12)
        .encode(x=alt.value("width"), y=alt.value(-10), text="note:N")
    )
    return alt.LayerChart(layer=[lines, rule, note]).properties(width="container", height=theme.HEIGHT)
