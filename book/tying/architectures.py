"""What the chapter on other architectures measures and draws: six models on EXor, pairs, speed, order."""

from __future__ import annotations

import functools
import json
from collections.abc import Mapping, Sequence
from typing import Any

import altair as alt
import numpy as np
import pandas as pd
import torch

from book.tying.experiments import exor
from book.tying.experiments.exor_runs import SIZES, EXorRun, load_model
from embviz.ledger import findings
from embviz.ledger.cells import read
from embviz.ledger.studies import PRESETS
from embviz.models.encoders import Encoder, EncoderConfig
from embviz.models.members import Member
from embviz.models.stacked import StackedEncoder
from embviz.storage import results_folder
from embviz.tasks.exor import MASK, ONE_A, ONE_B, EXor
from embviz.view import charts, plot_curves, sentences, theme

# The models of appendix C, and the one of section 5 that they are held against.
MODELS = {
    "transformer": exor.MAIN,
    "LSTM": exor.LSTM,
    "Mixer": exor.MIXER,
    "larger transformer": exor.LARGER,
    "larger LSTM": exor.BIGGER_LSTM,
    "larger Mixer": exor.BIGGER_MIXER,
}
ARCHITECTURES = ("transformer", "LSTM", "Mixer")
MATRICES = ("untied input", "untied output", "tied")
PAIRS = {"11": "1A-1B", "00": "0A-0B", "01": "0A-1B, unrelated"}
JUDGED = (PAIRS["11"], PAIRS["00"])
CLOSE, APART = exor.CLOSE, 0.5  # of the distance of the unrelated pair
PAPER_STEPS = 150_000  # of the text, for every model
N_STRINGS = 127  # all but 1111111, which the authors' program leaves out; 114 of them are trained on
NEAR = 0.01  # of the best accuracy
N_SEEDS = 5  # of the figures; the smallest transformer was run with more

# Panels lie one below the other in one drawing, PANEL apart and 1 high, so that it fills the page's width.
PANEL = 1.25
PANEL_HEIGHT = 135  # pixels
RELATIVE_TOP = 2.0  # end of a panel's axis; what lies higher is drawn there


# --- the models ---------------------------------------------------------------------------------------


def models_table() -> pd.DataFrame:
    """The six models: their shapes, parameters counted from the code, and what the text leaves out."""
    rows = {}
    for name, run in MODELS.items():
        shape = SIZES[run.architecture, run.size]
        rows[name] = {
            "where": {"transformer": "5, C.3", "lstm": "C.4, C.6", "mixer": "C.5, C.6"}[
                run.architecture
            ].split(", ")[run.size != "small"],
            "layers": shape.n_layers,
            "d": shape.embedding_dim,
            "parameters, untied": f"{count_parameters(shape, tied=False):,}",
            "tied": f"{count_parameters(shape, tied=True):,}",
            "not in the text": _left_out(shape),
        }
    return pd.DataFrame.from_dict(rows, orient="index").rename_axis("model")


def count_parameters(shape: EncoderConfig, *, tied: bool) -> int:
    """Numbers that training changes in one model.

    >>> count_parameters(SIZES["transformer", "small"], tied=False)
    192
    """
    model = Encoder(shape, tied=tied, seed=0)
    return sum(parameter.numel() for parameter in model.parameters())


def _left_out(shape: EncoderConfig) -> str:
    if shape.architecture == "lstm":
        return f"state of {shape.hidden_dim} a direction"
    if shape.architecture == "mixer":
        return f"widths: tokens {shape.token_dim}, channels {shape.hidden_dim}; relu"
    return f"feed-forward width {shape.hidden_dim}"


def settings_table() -> pd.DataFrame:
    """Learning rate and steps: the text, the authors' program, and what is stored of ours."""
    program = {
        "larger transformer": (1e-4, "300,000 or 500,000"),
        "larger LSTM": (5e-4, "150,000 or 500,000"),
        "larger Mixer": (5e-4, "300,000 or 500,000"),
    }
    rows = {}
    for name, run in MODELS.items():
        rate, steps = program.get(name, (5e-4, f"{PAPER_STEPS:,}"))
        ours = exor.at_preset(run, stored_preset(name)) if name in stored_models() else None
        rows[name] = {
            "rate, text": "5e-4",
            "program": f"{rate:.0e}".replace("e-0", "e-"),
            "ours": f"{ours.learning_rate:.0e}".replace("e-0", "e-") if ours else "–",
            "steps, text": f"{PAPER_STEPS:,}",
            "steps, program": steps,
            "steps, ours": f"{ours.n_steps:,}" if ours else "not run",
            "seeds, ours": str(ours.n_seeds) if ours else "–",
        }
    return pd.DataFrame.from_dict(rows, orient="index").rename_axis("model")


# --- stored runs --------------------------------------------------------------------------------------


def stored_preset(model: str) -> str:
    """The largest preset at which a model's runs are stored.

    Parameters
    ----------
    model : str
        A key of MODELS.

    Raises
    ------
    ValueError
        If there is no such model, or none of its runs is stored.
    """
    if model not in MODELS:
        raise ValueError(f"no model {model!r}: choose one of {', '.join(MODELS)}")
    stored = [preset for preset in PRESETS if exor.cell_of(MODELS[model], preset).stored()]
    if not stored:
        raise ValueError(
            f"no run of the {model} is stored: `embviz run tying.larger --preset quick`, or tying.lstm, "
            "tying.mixer, tying.bigger"
        )
    return stored[-1]


def stored_models() -> list[str]:
    """Keys of MODELS whose runs are stored at any preset."""
    return [
        model
        for model, run in MODELS.items()
        if any(exor.cell_of(run, preset).stored() for preset in PRESETS)
    ]


def scale_note(model: str) -> str:
    """Data, seeds and steps of a model's stored runs, for a caption; says where they stop short."""
    run = exor.at_preset(MODELS[model], stored_preset(model))
    seeds = f"{N_SEEDS} seeds" if run.n_seeds >= N_SEEDS else f"{run.n_seeds} of the paper's {N_SEEDS} seeds"
    if run.n_steps >= PAPER_STEPS:
        return f"EXor, {seeds}, the paper's {run.n_steps:,} steps"
    return f"EXor, {seeds}, the first {run.n_steps:,} of the paper's {PAPER_STEPS:,} steps"


@functools.cache
def _curves(model: str, preset: str) -> pd.DataFrame:
    return exor.curves(MODELS[model], preset)


def curves(model: str, *, n_seeds: int | None = N_SEEDS, n_points: int | None = None) -> pd.DataFrame:
    """Curves of :func:`book.tying.experiments.exor.curves` of a model's largest stored runs.

    Parameters
    ----------
    model : str
        A key of MODELS.
    n_seeds : int or None, default 5
        Seeds kept; None keeps all.
    n_points : int, optional
        Snapshots kept, evenly spread with both ends among them; by default all.
    """
    table = _curves(model, stored_preset(model))
    if n_seeds is not None:
        table = table[table["seed"] < n_seeds]
    return thinned(table, n_points) if n_points else table


def thinned(table: pd.DataFrame, n_points: int) -> pd.DataFrame:
    """Rows of about `n_points` snapshots, evenly spread, the first and the last always among them.

    >>> thinned(pd.DataFrame({"step": range(0, 110, 10)}), 3)["step"].tolist()
    [0, 50, 100]
    """
    steps = np.unique(table["step"])
    kept = np.unique(np.linspace(0, len(steps) - 1, min(n_points, len(steps))).round().astype(int))
    return table[table["step"].isin(steps[kept])]


def accuracy_table(model: str, *, n_points: int = 51) -> pd.DataFrame:
    """Expected accuracy on all strings and masks: step, seed, tying ("tied" or "untied"), accuracy."""
    table = curves(model, n_points=n_points)
    tying = np.where(table["tied"], "tied", "untied")
    shown = table.assign(tying=tying, accuracy=table["accuracy"].round(4))
    return shown.sort_values(["tying", "seed", "step"])[["step", "seed", "tying", "accuracy"]].reset_index(
        drop=True
    )


def distance_table(model: str, *, n_points: int | None = 51, n_seeds: int | None = N_SEEDS) -> pd.DataFrame:
    """Euclidean distances of three pairs in the untied input and output and in the tied matrix.

    Returns
    -------
    DataFrame
        `matrix` (of MATRICES), `seed`, `step`, and a column for each pair of PAIRS: 11, 00, 01.
    """
    table = curves(model, n_points=n_points, n_seeds=n_seeds)
    parts = []
    for matrix in MATRICES:
        rows = table[table["tied"] == (matrix == "tied")]
        name = "output" if matrix == "untied output" else "input"
        parts.append(
            pd.DataFrame(
                {
                    "matrix": matrix,
                    **{column: rows[column] for column in ("seed", "step")},
                    **{pair: rows[f"{name}_{pair}"] for pair in PAIRS},
                }
            )
        )
    return pd.concat(parts).sort_values(["matrix", "seed", "step"], ignore_index=True)


# --- what the curves come to ----------------------------------------------------------------------------


def final_ratios(model: str) -> pd.DataFrame:
    """Relative distances at the last step, mean over seeds: a row for each matrix, a column for each pair."""
    table = distance_table(model, n_points=None)
    last = table[table["step"] == table["step"].max()]
    ratios = last[["11", "00"]].div(last["01"], axis=0)
    means = ratios.groupby(last["matrix"]).mean().reindex(list(MATRICES))
    return means.rename(columns=PAIRS)


def ratios_table() -> pd.DataFrame:
    """:func:`final_ratios` of all models beside each other, with the steps that they were given."""
    rows = {}
    for model in stored_models():
        ratios = final_ratios(model)
        steps = int(curves(model)["step"].max())
        row = {(pair, matrix): ratios[pair][matrix] for pair in JUDGED for matrix in MATRICES}
        rows[model] = {("", "steps"): f"{steps:,}", **row}
    return _two_headed(rows).round(2)


def _two_headed(rows: Mapping[str, Mapping[tuple[str, str], object]]) -> pd.DataFrame:
    """A row a model, under columns named by two words."""
    table = pd.DataFrame(
        [list(row.values()) for row in rows.values()], index=pd.Index(list(rows), name="model")
    )
    table.columns = pd.MultiIndex.from_tuples(list(next(iter(rows.values()))))
    return table


def distances_finding(model: str) -> str:
    """One sentence that says in which matrices each pair ended close or apart, true of the drawn data."""
    ratios = final_ratios(model)
    parts = []
    for pair in JUDGED:
        close = [matrix for matrix in MATRICES if ratios[pair][matrix] <= CLOSE]
        apart = [matrix for matrix in MATRICES if ratios[pair][matrix] >= APART]
        said = [f"close in {_listed(close)}"] if close else []
        said += [f"apart in {_listed(apart)}"] if apart else []
        parts.append(f"{pair} {' and '.join(said) or 'neither close nor apart anywhere'}")
    return f"{model[0].upper()}{model[1:]}, at the end: " + "; ".join(parts)


def _listed(matrices: Sequence[str]) -> str:
    if len(matrices) == len(MATRICES):
        return "all three matrices"
    return " and ".join(f"the {matrix} matrix" for matrix in matrices)


def accuracy_finding(model: str) -> str:
    """One sentence that compares tied and untied over the last tenth of training, paired by seed."""
    table = curves(model)
    late = {tied: exor.late_accuracy(table[table["tied"] == tied]).to_numpy(float) for tied in (False, True)}
    difference = findings.over_seeds(late[True] - late[False])
    gap = best_accuracy() - max(late[False].mean(), late[True].mean())
    if difference.low > 0:
        said = "tied ends ahead of untied"
    elif difference.high < 0:
        said = "tied ends behind untied"
    else:
        said = "the seeds do not tell tied from untied at the end"
    near = "the better mean comes" if gap < NEAR else "neither mean comes"
    reach = f"{near} within {NEAR} of the best possible"
    return f"{model[0].upper()}{model[1:]}: {said}; {reach}"


def best_accuracy() -> float:
    """What the exact distribution scores on the strings of the runs; on all 128 it is 0.7.

    >>> round(best_accuracy(), 4)
    0.7016
    """
    task = EXor()
    return task.optimal_accuracy(task.strings()[:N_STRINGS])


# --- panels of distances --------------------------------------------------------------------------------


def plot_accuracy(model: str) -> alt.LayerChart:
    """Accuracy of the tied and the untied model, every seed, with the best possible one dashed."""
    if model not in stored_models():
        return _not_measured(model)
    chart = plot_curves(
        accuracy_table(model),
        "step",
        "accuracy",
        kind="tying",
        names=["tied", "untied"],
        reference={"best possible": best_accuracy()},
        limits=(0.0, 0.8),
        height="short",
    )
    return theme.captioned(
        chart,
        finding=accuracy_finding(model),
        caption=f"Expected accuracy on the {N_STRINGS} strings, at every mask. {scale_note(model)}. Thin: a "
        "seed; thick: the mean; band: its 95% interval (Student).",
    )


def plot_distances(model: str) -> alt.LayerChart:
    """Distances of three pairs in three matrices, one panel each; raw, or relative to the unrelated pair."""
    if model not in stored_models():
        return _not_measured(model)
    table = distance_table(model)
    pairs = [*PAIRS]
    chart = plot_panels(
        table,
        by="pair",
        names=[PAIRS[pair] for pair in pairs],
        transforms=[
            {"fold": pairs, "as": ["code", "distance"]},
            {"calculate": f"{json.dumps(PAIRS)}[datum.code]", "as": "pair"},
        ],
        raw_top=str(raw_top(model)),
    ).add_params(_shown())
    return theme.captioned(
        chart,
        finding=distances_finding(model),
        caption=f"{scale_note(model)}. Relative: divided by the distance of 0A and 1B in the same matrix at "
        "the same step; close means at most 0.2, apart at least 0.5. Thin: a seed; thick: the mean; band: "
        "its 95% interval. What lies above a panel is drawn on its upper edge.",
    )


def _not_measured(model: str) -> alt.LayerChart:
    text = alt.Chart(alt.Data(values=[{"text": "not measured"}])).mark_text().encode(text="text:N")
    chart = alt.LayerChart(layer=[text]).properties(width="container", height=60)
    finding = f"{model[0].upper()}{model[1:]}: not measured"
    return theme.captioned(chart, finding=finding, caption="No run of it is stored.")


def raw_top(model: str) -> float:
    """End of the axis for raw distances: what holds nearly all of them, by the embedding's width."""
    return 4.0 if MODELS[model].size == "small" else 12.0


def _shown() -> alt.Parameter:
    options = alt.binding_radio(
        options=["relative", "raw"],
        labels=["relative to 0A-1B", "raw"],
        name="distance ",
    )
    return alt.param(name="shown", value="relative", bind=options)


def plot_panels(
    data: charts.Data,
    *,
    by: str,
    names: Sequence[str],
    transforms: Sequence[Mapping[str, Any]],
    raw_top: str,
) -> alt.LayerChart:
    """Distances over the steps, a panel for each matrix, one below the other in a single drawing.

    Thin lines are seeds, thick ones their means, bands Student's 95% intervals of the means. A parameter
    ``shown``, "relative" or "raw", must be added by the caller.

    Parameters
    ----------
    data : DataFrame, or the data of an explorer
        Columns `step`, `seed`, `matrix`, 01 (distance of the unrelated pair) and what `transforms` read.
    by : str
        The kind of a line: a column, or made by `transforms`. A key of ``theme.LABELS``.
    names : sequence of str
        The kinds in the order of their colours and dashes.
    transforms : sequence of Vega-Lite transforms
        They make `distance` (and `by`, where it's no column).
    raw_top : str
        Vega expression: end of the axis where raw distances are shown.
    """
    top = f"(shown === 'relative' ? {RELATIVE_TOP} : {raw_top})"
    offsets = {matrix: PANEL * (len(MATRICES) - 1 - row) for row, matrix in enumerate(MATRICES)}
    before: list[Mapping[str, Any]] = [
        *transforms,
        {
            "calculate": f"(shown === 'relative' ? datum.distance / datum['01'] : datum.distance) / {top}",
            "as": "level",
        },
        {"calculate": f"{json.dumps(offsets)}[datum.matrix]", "as": "base"},
    ]
    layers = [*_curve_layers(by, names, offsets, top), *_guide_layers(offsets, top)]
    chart = charts.layered(data, layers, transforms=before)
    height = round(PANEL_HEIGHT * (len(MATRICES) * PANEL + 0.2) / PANEL)
    return chart.properties(width="container", height=height)


def _curve_layers(by: str, names: Sequence[str], offsets: Mapping[str, float], top: str) -> list[alt.Chart]:
    """Band, seeds and mean; `level` is a share of the panel's height, cut off only where it's drawn."""
    key = alt.Legend(title=theme.title(by), symbolType="stroke", symbolOpacity=1, symbolStrokeWidth=2.5)
    colour, dash = (style.legend(key) for style in theme.line_styles(by, list(names)))
    ticks = [offset + part / 4 for offset in sorted(offsets.values()) for part in range(5)]
    labels = f"format((datum.value % {PANEL}) * {top}, '.2~f')"
    # the upper gap has room for the axis' title
    scale = alt.Scale(domain=[0, PANEL * len(offsets) + 0.2], nice=False)
    # without a count of its own, Vega would thin the ticks out
    axis = alt.Axis(
        title=None, values=ticks, tickCount=len(ticks), labelExpr=labels, labelOverlap=False, grid=False
    )
    x = alt.X("step:Q", axis=theme.axis("step", tick_count=6), scale=alt.Scale(nice=False))
    looks = {"color": colour, "strokeDash": dash}
    thin = (
        alt.Chart()
        .transform_calculate(y="datum.base + clamp(datum.level, 0, 1)")
        .mark_line(strokeWidth=0.8, opacity=0.35)
        .encode(x=x, y=alt.Y("y:Q", axis=axis, scale=scale), detail=["seed:N", "matrix:N"], **looks)
    )
    mean = (
        alt.Chart()
        .transform_aggregate(
            centre="mean(level)",
            spread="stdev(level)",
            n="count(level)",
            groupby=["step", by, "matrix", "base"],
        )
        .transform_calculate(
            half=charts.student_half("n", "spread"),
            low="datum.base + clamp(datum.centre - datum.half, 0, 1)",
            high="datum.base + clamp(datum.centre + datum.half, 0, 1)",
            y="datum.base + clamp(datum.centre, 0, 1)",
            mean=f"datum.centre * {top}",
        )
    )
    band = mean.mark_area(opacity=0.18).encode(x=x, y="low:Q", y2="high:Q", color=colour, detail="matrix:N")
    tooltip = ["matrix:N", f"{by}:N", alt.Tooltip("step:Q", format=","), alt.Tooltip("mean:Q", format=".3~g")]
    thick = mean.mark_line(strokeWidth=2.5).encode(x=x, y="y:Q", detail="matrix:N", tooltip=tooltip, **looks)
    return [band, thin, thick]


def _guide_layers(offsets: Mapping[str, float], top: str) -> list[alt.Chart]:
    """Names and floors of the panels, the axis' title, and the levels of close and apart."""
    rows = [{"matrix": matrix, "base": base} for matrix, base in offsets.items()]
    panels = alt.Chart(alt.Data(values=rows))
    floors = panels.mark_rule(strokeWidth=1).encode(y="base:Q")
    lifted = panels.transform_calculate(y="datum.base + 1.02")
    names = lifted.mark_text(align="right", baseline="bottom", fontWeight="bold", dx=-3).encode(
        x=alt.value("width"), y="y:Q", text="matrix:N"
    )
    levels = [
        {"base": base, "name": name, "level": level}
        for base in offsets.values()
        for name, level in (("close", CLOSE), ("apart", APART))
    ]
    lines = (
        alt.Chart(alt.Data(values=levels))
        .transform_filter("shown === 'relative'")
        .transform_calculate(y=f"datum.base + datum.level / {top}")
    )
    rules = lines.mark_rule(strokeDash=list(theme.DASHES[2]), opacity=0.7).encode(y="y:Q")
    marks = lines.mark_text(align="right", baseline="bottom", dx=-3, fontSize=10).encode(
        x=alt.value("width"), y="y:Q", text="name:N"
    )
    titles = f"shown === 'relative' ? '{theme.title('relative_distance')}' : '{theme.title('distance')}'"
    head = (
        alt.Chart(alt.Data(values=[{"y": PANEL * len(offsets) + 0.2}]))
        .transform_calculate(title=titles)
        .mark_text(align="left", baseline="top", dx=4, dy=5)
        .encode(x=alt.value(0), y="y:Q", text="title:N")
    )
    return [floors, names, rules, marks, head]


# --- the explorer ---------------------------------------------------------------------------------------


def architectures_curves(size: str, *, n_points: int = 41) -> pd.DataFrame:
    """Distances of all three architectures of one size.

    Parameters
    ----------
    size : {"small", "medium"}
        Embeddings of 4 or of 32 numbers.
    n_points : int, default 41
        Snapshots kept of each run.

    Returns
    -------
    DataFrame as from :func:`distance_table`, with `architecture`; those that are not stored are left out
    """
    parts = []
    for architecture, model in zip(ARCHITECTURES, models_of(size), strict=True):
        if model in stored_models():
            table = distance_table(model, n_points=n_points)
            parts.append(table.assign(architecture=architecture))
    return pd.concat(parts, ignore_index=True)


def models_of(size: str) -> list[str]:
    """Keys of MODELS of one size, in the order of ARCHITECTURES.

    Raises
    ------
    ValueError
        If there is no such size.
    """
    found = [model for model, run in MODELS.items() if run.size == size]
    if not found:
        raise ValueError(f"no size {size!r}: choose small or medium")
    return found


def plot_architectures(data: charts.Data) -> alt.LayerChart:
    """One pair's distance in three matrices, a line for each architecture; the pair is chosen in the page."""
    pair = alt.param(
        name="pair",
        value="11",
        bind=alt.binding_radio(options=["11", "00", "01"], labels=list(PAIRS.values()), name="pair "),
    )
    tops = {"small": raw_top("transformer"), "medium": raw_top("larger transformer")}
    chart = plot_panels(
        data,
        by="architecture",
        names=ARCHITECTURES,
        transforms=[{"calculate": "datum[pair]", "as": "distance"}],
        raw_top=f"{json.dumps(tops)}[size]",
    )
    return chart.add_params(pair, _shown())


# --- how soon -------------------------------------------------------------------------------------------


def closing_table() -> pd.DataFrame:
    """Steps until a pair is close, for every model, matrix and seed that is stored, measured in two ways.

    Returns
    -------
    DataFrame
        `model`, `matrix`, `pair`, `measure`, `seed`, `steps_until` (updates) and `reached`. Measured as
        "relative", a pair is close at a fifth of the distance of the unrelated pair; as "raw", at a fifth of
        its own distance before training. `reached` is False where it was never close by the run's end;
        `steps_until` then is all its steps, a lower bound.
    """
    parts = []
    for model in stored_models():
        table = distance_table(model, n_points=None, n_seeds=None)
        start = table.groupby(["matrix", "seed"])[list(PAIRS)].transform("first")  # at step 0
        for pair, name in PAIRS.items():
            shares = {"relative": table[pair] / table["01"], "raw": table[pair] / start[pair]}
            for measure, share in shares.items():
                for matrix, rows in table.assign(share=share).groupby("matrix", sort=False):
                    part = _closing_steps(rows)
                    parts.append(part.assign(model=model, matrix=matrix, pair=name, measure=measure))
    columns = ["model", "matrix", "pair", "measure", "seed", "steps_until", "reached"]
    return pd.concat(parts, ignore_index=True)[columns]


def _closing_steps(rows: pd.DataFrame) -> pd.DataFrame:
    """Seed, steps until `share` is close, and whether it ever was."""
    steps = exor.steps_until(rows, ["share"])
    end = rows["step"].max()
    last = rows[rows["step"] == end].set_index("seed")["share"].reindex(steps.index)
    reached = (steps < end) | (last <= CLOSE)
    return pd.DataFrame({"seed": steps.index, "steps_until": steps, "reached": reached})


def closing_summary(table: pd.DataFrame, *, measure: str = "relative") -> pd.DataFrame:
    """Of :func:`closing_table`: how many seeds became close, and the median of their steps.

    A median is written with a > where half the seeds or more never became close. The unrelated pair is
    left out of the relative measure, which is 1 for it by definition.
    """
    table = table[table["measure"] == measure]
    if measure == "relative":
        table = table[table["pair"] != PAIRS["01"]]
    rows: dict[str, dict[tuple[str, str], str]] = {}
    for (model, pair, matrix), part in table.groupby(["model", "pair", "matrix"], sort=False):
        reached, n_seeds = int(part["reached"].sum()), len(part)
        # a seed that is not close yet is later than all that are
        order = part.sort_values(["steps_until", "reached"], ascending=[True, False])
        middle = order.iloc[n_seeds // 2]
        sign = "" if middle["reached"] else ">"
        words = f"{sign}{middle['steps_until']:,.0f} ({reached}/{n_seeds})"
        rows.setdefault(str(model), {})[str(pair), str(matrix)] = words
    return _two_headed(rows)[[(pair, matrix) for pair in dict.fromkeys(table["pair"]) for matrix in MATRICES]]


def plot_closing_steps(table: pd.DataFrame) -> alt.LayerChart:
    """A dot for every seed of :func:`closing_table`, open where the pair was not close by the end.

    Pair and measure are chosen in the page; the tick is the median over seeds.
    """
    names = list(dict.fromkeys(table["pair"]))
    pair = alt.param(name="pair", value=names[0], bind=alt.binding_radio(options=names, name="pair "))
    labels = ["at a fifth of the unrelated pair's distance", "at a fifth of its own distance before training"]
    options = alt.binding_radio(options=["relative", "raw"], labels=labels, name="close ")
    measure = alt.param(name="measure", value="relative", bind=options)
    colour, shape = theme.point_styles("matrix", list(MATRICES))
    outline = alt.Scale(domain=list(MATRICES), range=list(theme.CATEGORIES[: len(MATRICES)]))
    axis = alt.Axis(title=None, ticks=False, labelLimit=140)
    place = {
        "y": alt.Y("model:N", sort=list(MODELS), axis=axis),
        "yOffset": alt.YOffset("matrix:N", sort=list(MATRICES)),
    }
    steps = alt.X(
        "steps_until:Q",
        axis=theme.axis("steps_until", tick_count=6),
        scale=alt.Scale(domain=[0, int(table["steps_until"].max())], nice=False, padding=8),
    )
    end = "datum.reached ? 'close' : 'not close by the end'"
    chosen = [{"filter": "datum.pair === pair && datum.measure === measure"}, {"calculate": end, "as": "end"}]
    shown = alt.Chart()
    median = shown.mark_tick(thickness=2, size=14, opacity=0.8).encode(
        x=alt.X("median(steps_until):Q"), color=alt.value(theme.INK), **place
    )
    dots = shown.mark_point(size=40, filled=True, strokeWidth=1.2).encode(
        x=steps,
        color=colour,
        stroke=alt.Stroke("matrix:N", scale=outline, legend=theme.legend("matrix")),
        shape=shape,
        fillOpacity=alt.condition("datum.reached", alt.value(0.75), alt.value(0.0)),
        tooltip=["model:N", "matrix:N", "seed:N", alt.Tooltip("steps_until:Q", format=","), "end:N"],
        **place,
    )
    chart = charts.layered(table, [median, dots], transforms=chosen)
    return chart.add_params(pair, measure).properties(width="container", height=360)


def closing_finding(table: pd.DataFrame) -> str:
    """One sentence: who is first to bring 1A-1B close in the untied input, true of the drawn data."""
    drawn = table[(table["measure"] == "relative") & (table["pair"] == PAIRS["11"])]
    drawn = drawn[drawn["matrix"] == "untied input"]
    drawn = drawn[drawn["model"].isin(models_of("small"))]
    medians = drawn.groupby("model")["steps_until"].median().sort_values()
    late = [model for model in medians.index if not drawn.loc[drawn["model"] == model, "reached"].any()]
    order = [model for model in medians.index if model not in late]
    if not order:
        return "No small model brings 1A-1B close in its untied input within its steps"
    said = (
        f"Of the small models the {order[0]} is first to bring 1A-1B close in its untied input (median seed)"
    )
    said += "".join(f", then the {model}" for model in order[1:])
    return said + (f"; never: {' and '.join(f'the {model}' for model in late)}" if late else "")


# --- what the order of the bits does --------------------------------------------------------------------


def small_encoder(model: str, *, trained: bool, tied: bool = False) -> Encoder:
    """One small model of seed 0: as it starts, or as its longest stored run left it.

    Raises
    ------
    ValueError
        If the model isn't a small one, of which alone the whole is kept.
    """
    run: EXorRun = MODELS[model]
    if run.size != "small":
        raise ValueError(f"the {model} is not kept whole: choose one of {', '.join(models_of('small'))}")
    if not trained:
        return Encoder(SIZES[run.architecture, run.size], tied=tied, seed=0)
    cell = exor.cell_of(run, stored_preset(model))
    return load_model(cell.config, read(cell)[0], seed=0, tied=tied)


def probability_of_one(encoder: Encoder, tokens: np.ndarray) -> np.ndarray:
    """Probability that the masked bit is 1, in either spelling: (n,), for tokens (n, T) with a mask each."""
    rows = torch.from_numpy(tokens.astype(np.int64))
    with torch.no_grad():
        probability = encoder(rows).softmax(-1)  # (n, T, V)
    asked = probability[torch.arange(len(rows)), (rows == MASK).long().argmax(1)]  # (n, V)
    return asked[:, ONE_A : ONE_B + 1].sum(1).numpy()


def shuffled_strings(n_strings: int, n_orders: int, *, seed: int = 0) -> np.ndarray:
    """Masked strings, each with its bits in several orders; the mask moves along, the parity stays last.

    Returns
    -------
    uint8 array, shape (n_strings, n_orders, T); the first order is the string's own
    """
    task, rng = EXor(), np.random.default_rng(seed)
    tokens, _ = task.sample_contexts(n_strings, rng)  # (n, T)
    bits = np.repeat(tokens[:, None, :-1], n_orders, axis=1)  # (n, n_orders, N)
    shuffled = rng.permuted(bits, axis=2)
    shuffled[:, 0] = tokens[:, :-1]
    parity = np.repeat(tokens[:, None, -1:], n_orders, axis=1)
    return np.concatenate([shuffled, parity], axis=2)


def order_table(n_strings: int = 8, n_orders: int = 24) -> pd.DataFrame:
    """What three small models say of a masked bit when the same string comes in other orders.

    Returns
    -------
    DataFrame
        `model`, `state` ("untrained" or "trained"), `string` (from 0) and `probability` that the bit is 1,
        one row an order.
    """
    tokens = shuffled_strings(n_strings, n_orders)
    parts = []
    for model in models_of("small"):
        for trained in (False, True):
            encoder = small_encoder(model, trained=trained)
            answers = probability_of_one(encoder, tokens.reshape(-1, tokens.shape[-1]))
            part = {
                "model": model,
                "state": "trained" if trained else "untrained",
                "string": np.repeat(np.arange(n_strings), n_orders),
                "probability": answers.astype(float).round(2),
            }
            parts.append(pd.DataFrame(part))
    return pd.concat(parts, ignore_index=True)


def order_summary(table: pd.DataFrame) -> pd.DataFrame:
    """Largest difference that the order of a string's bits makes to :func:`order_table`'s probabilities."""
    answers = table.groupby(["model", "state", "string"], sort=False)["probability"]
    span = (answers.max() - answers.min()).groupby(level=["model", "state"], sort=False).max()
    return span.unstack("state")[["untrained", "trained"]].reindex(models_of("small")).round(2)


def order_finding(table: pd.DataFrame) -> str:
    """One sentence that says for whom order matters, true of the drawn data."""
    spans = order_summary(table)
    free = [model for model in spans.index if (spans.loc[model] < 0.005).all()]
    bound = [model for model in spans.index if model not in free]
    said = f"No order of the bits changes the {' and the '.join(free)}'s answer" if free else ""
    owners = " and ".join(f"the {model}'s" for model in bound)
    other = f"it does change {owners}" if bound else ""
    return "; ".join(part for part in (said, other) if part)


def plot_orders(table: pd.DataFrame) -> alt.LayerChart:
    """For every string, a model's answers to all its orders; untrained or trained, chosen in the page."""
    states = ["untrained", "trained"]
    state = alt.param(name="state", value=states[0], bind=alt.binding_radio(options=states, name="model "))
    names = models_of("small")
    colour, shape = theme.point_styles("model", names)
    place = {
        "y": alt.Y("string:O", axis=alt.Axis(title="string", ticks=False, labels=False)),
        "yOffset": alt.YOffset("model:N", sort=names),
    }
    x = alt.X("probability:Q", axis=theme.axis("probability", tick_count=5), scale=alt.Scale(domain=[0, 1]))
    shown = alt.Chart()
    spans = shown.mark_rule(strokeWidth=1.5).encode(
        x="min(probability):Q", x2="max(probability):Q", color=colour, **place
    )
    dots = shown.mark_point(size=22, opacity=0.7).encode(x=x, color=colour, shape=shape, **place)
    chart = charts.layered(table, [spans, dots], transforms=[{"filter": "datum.state === state"}])
    return chart.add_params(state).properties(width="container", height=300)


# --- side by side ---------------------------------------------------------------------------------------


def side_by_side(n_members: int = 6, *, size: str = "small") -> pd.DataFrame:
    """Whether models side by side are what each is by itself, checked now with untrained ones.

    Returns
    -------
    DataFrame
        For each architecture, yes or no: the logits agree with those of the models one by one, and the loss
        of the first member has no gradient in the others' weights.
    """
    rows = {}
    for model in models_of(size):
        run = MODELS[model]
        shape = SIZES[run.architecture, run.size]
        members = [Member(seed, tied) for seed in range(n_members // 2) for tied in (False, True)]
        stacked = StackedEncoder(shape, members)
        tokens = torch.from_numpy(EXor().sample_contexts(40, np.random.default_rng(0))[0].astype(np.int64))
        places = (tokens == MASK).long().argmax(1)
        many = stacked(tokens.expand(n_members, -1, -1), places.expand(n_members, -1)).logits
        alone = [stacked.member(row)(tokens)[torch.arange(40), places] for row in range(n_members)]
        difference = float((many - torch.stack(alone)).detach().abs().max())
        many[0].square().sum().backward()
        first_alone = all(
            float(array.grad[1:].abs().max()) == 0
            for array in stacked.arrays.values()
            if array.grad is not None
        )
        rows[model] = {
            "same logits as one by one": "yes" if difference < 1e-4 else "no",
            "one member's loss moves only its own weights": "yes" if first_alone else "no",
        }
    return pd.DataFrame.from_dict(rows, orient="index").rename_axis("model")


def speed_rows() -> pd.DataFrame:
    """Stored rows of the speed table about EXor: models side by side against one after the other."""
    rows = {}
    for path in sorted((results_folder() / "bench").glob("EXor*.json")):
        row = json.loads(path.read_text(encoding="utf-8"))
        peer, _, note = row["peer_name"].partition("; ours: ")
        rows[row["job"]] = {
            "ours": sentences.number(row["ours"], row["unit"]) + (f" ({note})" if note else ""),
            "beside": sentences.number(row["peer"], row["unit"]),
            "which is": peer,
            "ratio": sentences.number(row["ratio"]),
            "wanted": row["bar"],
        }
    if not rows:
        return pd.DataFrame({"EXor, side by side": ["not measured: `make bench` does"]}).set_index(
            "EXor, side by side"
        )
    return pd.DataFrame.from_dict(rows, orient="index").rename_axis("job")
