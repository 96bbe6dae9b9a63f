"""What the chapter on attention without queries measures and draws: pairs of runs, survival, controls."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Mapping, Sequence

import altair as alt
import numpy as np
import pandas as pd

from book.geometry import steering as steered
from book.geometry.experiments import queries, steering
from book.geometry.experiments.steering import GROKKED, STRICT
from book.geometry.steering import NOT_MEASURED, limit, median_time, stored_preset
from embviz.ledger import findings
from embviz.ledger.cells import Cell
from embviz.view import charts, theme

WITH, WITHOUT = PAIR = ("with queries", "without queries")
NEAR, BOTH = "near-Nyquist", "near-Nyquist, without queries"
RUNS = {
    WITH: steering.BASE,
    WITHOUT: queries.NO_Q,
    "without keys": queries.CONTROLS["no_k"],
    "frozen queries": queries.CONTROLS["frozen_q"],
    "queries start as identity": queries.CONTROLS["identity_q"],
    NEAR: steering.NEAR,
    BOTH: queries.BOTH,
}
ATTENTIONS = tuple(RUNS)[:5]
TOGETHER = (WITH, WITHOUT, NEAR, BOTH)
# Table 8: epochs to grok at 0.99 and their seeds, epochs to memorize. Figure 5 has 933 for the first.
PAPER = {WITH: (782, "", 50), WITHOUT: (383, "325, 350, 475", 50), NEAR: (57, "", 9)}
THRESHOLDS = (STRICT, GROKKED)  # the first is Table 8's


# --- stored runs ----------------------------------------------------------------------------------------


def cells_of(name: str, preset: str) -> list[Cell]:
    """All cells of a run, a key of RUNS: ten seeds with and without queries, five of the others.

    Raises
    ------
    ValueError
        If there is no such run.
    """
    if name not in RUNS:
        raise ValueError(f"no run {name!r}: choose one of {', '.join(RUNS)}")
    n_seeds = queries.N_PAIRS[preset] if name in PAIR else None
    return steering.cells_of(RUNS[name], preset, n_seeds)


def found(names: Iterable[str]) -> dict[str, list[Cell]]:
    """Stored cells of each run, those of which none is stored left out."""
    preset = stored_preset()
    cells = {name: [cell for cell in cells_of(name, preset) if cell.stored()] for name in names}
    return {name: own for name, own in cells.items() if own}


def times(names: Iterable[str], threshold: float = STRICT) -> pd.DataFrame:
    """Times of all stored seeds, as :func:`.steering.times_of`."""
    return steered.times_of(found(names), threshold)


def seeds_note(names: Iterable[str]) -> str:
    """How many seeds of each run are stored, for a caption."""
    cells = found(names)
    counts = ", ".join(f"{name} {len(cells.get(name, []))}" for name in names)
    batch = steering.SETTINGS[stored_preset()].batch_size
    size = f"batches of {batch} pairs" if batch else "one full batch an epoch"
    return f"Seeds: {counts}; {size}, at most {limit():,} epochs."


def pairs(threshold: float = STRICT, names: tuple[str, str] = PAIR) -> pd.DataFrame:
    """Seeds that both runs have: indexed by seed, the columns of times twice, ending in _with and _without.

    Parameters
    ----------
    threshold : float
    names : pair of str
        Keys of RUNS; by default with and without queries.
    """
    first, second = (times([name], threshold).set_index("seed").drop(columns="run") for name in names)
    return first.add_suffix("_with").join(second.add_suffix("_without"), how="inner").sort_index()


# --- numbers --------------------------------------------------------------------------------------------


def table_8(threshold: float = STRICT) -> pd.DataFrame:
    """Epochs to grok and to memorize beside the paper's: a row a run, over stored seeds."""
    whole, base = times(RUNS, threshold), times([WITH], threshold)
    rows = {}
    for name in RUNS:
        own = whole[whole["run"] == name]
        published = PAPER.get(name, ("", "", ""))
        rows[name] = {
            "seeds": len(own),
            "to grok, paper": published[0],
            "its seeds": published[1],
            "to grok": median_time(own),
            "mean up to the limit": f"{own['grok'].mean():,.0f}" if len(own) else NOT_MEASURED,
            "never": int((~own["grokked"]).sum()) if len(own) else "",
            "to memorize, paper": published[2],
            "to memorize": median_time(own, "memorize"),
            "speed-up %": "" if name == WITH else steered.paired_speedup(own, base),
        }
    return pd.DataFrame.from_dict(rows, orient="index").rename_axis("run")


def pair_finding(threshold: float = STRICT) -> str:
    """In how many pairs the run without queries is sooner, and by how much, true of the stored pairs."""
    table = pairs(threshold)
    if table.empty:
        return f"No pair of runs is measured yet, with and without queries: {NOT_MEASURED}"
    sooner = int((table["grok_without"] < table["grok_with"]).sum())
    difference = findings.over_seeds((table["grok_without"] - table["grok_with"]).to_numpy(float))
    span = f" ({difference.low:+.0f} to {difference.high:+.0f})" if len(table) > 1 else ""
    return (
        f"Without queries runs grok sooner in {sooner} of {len(table)} pairs; mean difference "
        f"{difference.value:+.0f} epochs{span}"
    )


def memorization_finding() -> str:
    """The mean ratio of memorization epochs, without over with queries, true of the stored pairs."""
    table = pairs()
    if table.empty:
        return f"The epochs to memorize are {NOT_MEASURED} yet"
    ratio = findings.over_seeds((table["memorize_without"] / table["memorize_with"]).to_numpy(float))
    span = f" ({ratio.low:.2f} to {ratio.high:.2f})" if len(table) > 1 else ""
    return f"Epochs to memorize, without queries over with: {ratio.value:.2f} on average{span}"


def control_finding(names: Sequence[str], threshold: float = STRICT) -> str:
    """Median epochs to grok of runs, those that are stored, in rising order."""
    table = times(names, threshold)
    if table.empty:
        return f"None of these runs is stored: {NOT_MEASURED}"
    order = table.groupby("run", sort=False)["grok"].median().sort_values(kind="stable").index
    said = ", ".join(f"{name} {median_time(table[table['run'] == name])}" for name in order)
    return f"Median epochs to grok: {said}"


def logrank_finding(threshold: float = STRICT) -> str:
    """The log-rank test of runs with and without queries, in words."""
    first, second = (times([name], threshold) for name in PAIR)
    if min(len(first), len(second)) < 2:
        return f"The log-rank test needs two seeds with and two without queries: {NOT_MEASURED} yet"
    p = queries.logrank_p(first, second)
    return f"Log-rank test that both take equally long: p = {p:.2g}, {len(first)} and {len(second)} seeds"


def parameter_table() -> pd.DataFrame:
    """Numbers of parameters of each kind of attention, at p = 97."""
    rows = {}
    for name in ATTENTIONS:
        model = steered.Transformer(RUNS[name].shape, seed=0)
        learned = sum(tensor.numel() for tensor in model.parameters() if tensor.requires_grad)
        rows[name] = {"parameters that learn": f"{learned:,}"}
    return pd.DataFrame.from_dict(rows, orient="index").rename_axis("run")


# --- a limit that the reader moves ----------------------------------------------------------------------


def given_up(limit: float, threshold: float) -> pd.DataFrame:
    """Survival with and without queries, had all runs been given up after `limit` epochs.

    Returns
    -------
    DataFrame
        `run`, `epoch`, `waiting`, `low`, `high` of the curves, in which a run that grokked later is censored;
        and `mean`, the run's mean of epochs up to the limit, which is the area under its curve.
    """
    table = cut(_pair_times(threshold), limit)
    curves = steered.survival_table(table)
    means = table.groupby("run")["grok"].mean()
    return curves.assign(mean=curves["run"].map(means))[["run", "epoch", "waiting", "low", "high", "mean"]]


@functools.cache
def _pair_times(threshold: float) -> pd.DataFrame:
    return times(PAIR, threshold)


def cut(table: pd.DataFrame, limit: float) -> pd.DataFrame:
    """The same runs, given up after `limit` epochs."""
    return table.assign(
        grok=np.minimum(table["grok"], limit), grokked=table["grokked"] & (table["grok"] <= limit)
    )


def plot_given_up(data: charts.Data) -> alt.LayerChart:
    """Curves of :func:`given_up` on a linear axis, with the mean up to the limit written above."""
    colour, dash = theme.line_styles("run", list(PAIR))
    key = alt.Legend(title=None, symbolType="stroke", symbolStrokeWidth=2.5)
    ends = alt.Scale(domain=[0, limit()], nice=False)
    whole = alt.Scale(domain=[0, 1], nice=False)
    base = alt.Chart(data).encode(
        x=alt.X("epoch:Q", scale=ends, axis=theme.axis("epoch", tick_count=6)), color=colour.legend(key)
    )
    band = base.mark_area(interpolate="step-after", opacity=0.15).encode(
        y=alt.Y("low:Q", scale=whole), y2="high:Q"
    )
    line = base.mark_line(interpolate="step-after", strokeWidth=2.5).encode(
        y=alt.Y("waiting:Q", axis=theme.axis("waiting"), scale=whole), strokeDash=dash.legend(key)
    )
    means = [
        alt.Chart(data)
        .transform_filter(f"datum.run === '{name}'")
        .transform_aggregate(mean="mean(mean)")
        .transform_calculate(text=f"'{name}: mean ' + format(datum.mean, ',.0f') + ' epochs'")
        .mark_text(align="right", dx=-6, fontSize=12)
        .encode(x=alt.value("width"), y=alt.value(14 + 16 * place), text="text:N")
        for place, name in enumerate(PAIR)
    ]
    return alt.LayerChart(layer=[band, line, *means]).properties(width="container", height=260)


# --- charts ---------------------------------------------------------------------------------------------


def others() -> list[str]:
    """Stored runs but the one with queries; that one if there is no other."""
    return [name for name in found(RUNS) if name != WITH] or [WITH]


def accuracies() -> pd.DataFrame:
    """Accuracy of every stored seed of the other kinds of attention beside the one with queries.

    Returns
    -------
    DataFrame
        `other` (a run but WITH), `which` ("training", "validation"), `run`, `seed`, `epoch`, `accuracy`.
    """
    curves = steered.accuracy_curves(found(RUNS))
    parts = [curves[curves["run"].isin([WITH, other])].assign(other=other) for other in others()]
    return pd.concat(parts, ignore_index=True)[["other", "which", "run", "seed", "epoch", "accuracy"]]


def plot_accuracies(data: charts.Data) -> alt.LayerChart:
    """Accuracy over the epochs, a line a seed, with queries beside another run; both thresholds dotted."""
    kinds = (WITH, "the other")
    colour, dash = theme.line_styles("run", list(kinds))
    key = alt.Legend(title=None, symbolType="stroke", symbolOpacity=1, symbolStrokeWidth=2.5)
    ends = alt.Scale(type="log", domain=[10, limit()], nice=False, clamp=True)
    lines = (
        alt.Chart(data)
        .transform_calculate(named="datum.run", run=f"datum.run === '{WITH}' ? '{WITH}' : 'the other'")
        .mark_line(strokeWidth=1.5, opacity=0.75, clip=True)
        .encode(
            x=alt.X("epoch:Q", scale=ends, axis=theme.axis("epoch", tick_count=6)),
            y=alt.Y("accuracy:Q", axis=theme.axis("accuracy"), scale=alt.Scale(domain=[0, 1.02], nice=False)),
            color=colour.legend(key),
            strokeDash=dash.legend(key),
            detail="seed:N",
            tooltip=["named:N", "seed:N", "epoch:Q", "accuracy:Q"],
        )
    )
    levels = alt.Chart(alt.Data(values=[{"level": level} for level in THRESHOLDS]))
    rules = levels.mark_rule(strokeDash=list(theme.DASHES[2]), opacity=0.6).encode(y="level:Q")
    return alt.LayerChart(layer=[rules, lines]).properties(width="container", height=theme.HEIGHT)


def pair_grid() -> pd.DataFrame:
    """Every pair's times for an explorer: `threshold`, `moment`, `seed`, `run`, `epochs`, `reached`."""
    parts = []
    for threshold in THRESHOLDS:
        table = times(PAIR, threshold)
        for moment, done in (("grok", "grokked"), ("memorize", "memorized")):
            part = table[["seed", "run"]].assign(epochs=table[moment], reached=table[done])
            parts.append(part.assign(threshold=threshold, moment=moment))
    return pd.concat(parts, ignore_index=True)


def plot_pairs(data: charts.Data) -> alt.LayerChart:
    """A row a seed, its run with queries and its run without joined; open marks are censored."""
    colour, shape = theme.point_styles("run", list(PAIR))
    ends = alt.Scale(domain=[0, 1.03 * limit()], nice=False)
    base = alt.Chart(data).encode(
        x=alt.X("epochs:Q", scale=ends, axis=theme.axis("epochs", tick_count=6)),
        y=alt.Y("seed:O", axis=alt.Axis(title=theme.title("seed"))),
    )
    lines = base.mark_line(strokeWidth=1.5, opacity=0.6, color=theme.INK).encode(detail="seed:N")
    shown = base.encode(color=colour, shape=shape, tooltip=["run:N", "seed:O", "epochs:Q", "reached:N"])
    reached = shown.transform_filter("datum.reached").mark_point(size=70)
    censored = shown.transform_filter("!datum.reached").mark_point(size=70, filled=False, strokeWidth=1.5)
    n_seeds = queries.N_PAIRS[stored_preset()]
    return alt.LayerChart(layer=[lines, reached, censored]).properties(width="container", height=24 * n_seeds)


def plot_runs(names: Sequence[str], threshold: float = STRICT) -> alt.LayerChart:
    """Marks of all stored seeds of runs, with the paper's figures for the threshold of Table 8."""
    table = times(names, threshold)
    published: Mapping[str, float] = {name: PAPER[name][0] for name in names if name in PAPER}
    kind = {name: _kind(name) for name in names}
    return steered.plot_time_marks(
        table.assign(kind=table["run"].map(kind)),
        names,
        by="kind",
        kinds=list(dict.fromkeys(kind.values())),
        published=published,
    )


def _kind(name: str) -> str:
    if RUNS[name].modes:
        return "steered"
    return name if name in PAIR else "control"


def both_finding(threshold: float = GROKKED) -> str:
    """Whether both changes together are sooner than the sooner one of each seed, true of what is stored."""
    whole = {name: times([name], threshold).set_index("seed")["grok"] for name in (NEAR, WITHOUT, BOTH)}
    table = pd.DataFrame(whole).dropna()
    if table.empty:
        return f"Both changes together are {NOT_MEASURED} yet"
    ratio = findings.over_seeds((table[BOTH] / table[[NEAR, WITHOUT]].min(axis=1)).to_numpy(float))
    span = f" ({ratio.low:.2f} to {ratio.high:.2f})" if len(table) > 1 else ""
    return f"Both together need {ratio.value:.2f} of the epochs of the sooner one alone{span}"
