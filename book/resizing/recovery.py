"""What the chapter on recovery measures and draws: curves, steps, architectures, stages, speed, text."""

from __future__ import annotations

import functools
import math
import textwrap
from collections.abc import Sequence

import altair as alt
import numpy as np
import pandas as pd
import torch

from book.resizing import story
from book.resizing.experiments import bases, recovery, throughput
from book.resizing.experiments.recovery import PCA, PROJECTION, SCRATCH, TREATMENTS, when_recovered
from embviz.ledger import findings, studies
from embviz.ledger.cells import read, table_of
from embviz.models import resizing
from embviz.models.decoder import Decoder
from embviz.view import sentences, theme
from embviz.view.charts import Data

CLAIM = "resizing.perplexity"
TOLERANCES = (1, 2, 5, 10, 20, 50)  # percent of a perplexity
AFTER_PORT, AT_END = MOMENTS = ("right after the port", "after fine-tuning")
BACK, NOT_BACK = "recovered", "not recovered: at least"
OPENING = {"embedded": "Return ", "tinystories_5mb": "Once upon a time, there was a little girl named "}
N_STATES = 1_024  # that PCA sees before a model writes
N_WRITTEN, LINE = 120, 42  # characters that a model writes, and in a line
N_LINES = 14  # of two texts of that length, with headings
ORIGINAL = "the original"
ANY_SCALE = ("training", "scoring", "parameters", "memory")


def shown_preset(claim: str = CLAIM) -> str:
    """The largest preset of a claim that is stored; else the quick one, computed where it is asked for."""
    return studies.find_study(claim).largest_stored() or "quick"


def ratios(preset: str) -> list[float]:
    """Widths m / d of the sweep."""
    return list(recovery.FEWER[preset])


@functools.cache
def curves(preset: str) -> pd.DataFrame:
    """All runs of the sweep, see :func:`.recovery.curves`."""
    return recovery.curves(recovery.sweep(preset), stored=preset != "quick")


def data_note(preset: str, n_steps: int = 0) -> str:
    """Text, sizes, steps (by default those of the sweep) and seeds, for a caption."""
    run = bases.base(preset)
    source = {"embedded": "Bundled documentation", "tinystories_5mb": "TinyStories"}.get(
        run.text.corpus, run.text.corpus
    )
    shape, rate = run.shape, recovery.run_of(preset, (0.5,)).learning_rate
    return (
        f"{source} in bytes; the original: d = {shape.embedding_dim}, {shape.n_layers} layers, "
        f"{run.training.n_steps:,} updates; fine-tuning: {n_steps or recovery.N_STEPS[preset]:,} updates, "
        f"rate {rate:g}; {recovery.N_SEEDS[preset]} seeds of map and batches"
    )


def names(preset: str) -> list[str]:
    """Treatments that the sweep has, in the order in which they are drawn."""
    return [name for name in TREATMENTS if name in set(curves(preset)["treatment"])]


# --- curves -------------------------------------------------------------------------------------------


def curve_rows(preset: str, ratio: float) -> pd.DataFrame:
    """Curves of one width.

    Returns
    -------
    DataFrame
        treatment, seed, step, lost (nats above the original).
    """
    table = curves(preset)
    table = table[table["ratio"] == ratio]
    return table[["treatment", "seed", "step", "lost"]].reset_index(drop=True)


def _ticks(field: str, values: Sequence[float]) -> alt.Axis:
    """An axis of a symlog scale, whose own ticks lie too close; those in its domain are drawn."""
    axis = theme.axis(field, number_format="," if field.startswith("step") else "~g")
    axis["values"] = list(values)
    return axis


STEP_TICKS = (0, 1, 2, 5, 10, 20, 40, 80, 160, 400, 1_600)
BACK_TICKS = (0, 10, 20, 30, 40, 80, 120, 200, 300, 400, 600, 800, 1_200, 1_600)
LOST_TICKS = (-0.1, -0.05, 0, 0.05, 0.1, 0.2, 0.5, 1, 2, 4)


def _line_key() -> alt.Legend:
    return alt.Legend(title=None, symbolType="stroke", symbolOpacity=1, symbolStrokeWidth=2.5, columns=2)


def _rules(levels: Sequence[float], dash: int = 2) -> alt.Chart:
    values = [{"level": level} for level in levels]
    rule = alt.Chart(alt.Data(values=values)).mark_rule(strokeDash=list(theme.DASHES[dash]), opacity=0.8)
    return rule.encode(y="level:Q")


def plot_curves(data: Data, kinds: Sequence[str], *, by: str = "treatment") -> alt.LayerChart:
    """A thin line a seed and a thick one for their mean; dotted the original, and 2% above it."""
    colour, dash = theme.line_styles(by, list(kinds))
    key = _line_key()
    place = {
        "x": alt.X(
            "step:Q",
            axis=_ticks("step", STEP_TICKS),
            scale=alt.Scale(type="symlog", constant=4, nice=False),
        ),
        "color": colour.legend(key),
        "strokeDash": dash.legend(key),
    }
    scale = alt.Scale(type="symlog", constant=0.1, nice=False)
    y = alt.Y("lost:Q", axis=_ticks("lost", LOST_TICKS), scale=scale)
    base = alt.Chart(data)
    tooltip = [f"{by}:N", "seed:N", "step:Q", alt.Tooltip("lost:Q", format=".3f")]
    thin = base.mark_line(strokeWidth=1, opacity=0.4).encode(y=y, detail="seed:N", tooltip=tooltip, **place)
    thick = (
        base.transform_aggregate(lost="mean(lost)", groupby=[by, "step"])
        .mark_line(strokeWidth=2.5)
        .encode(y=y, **place)
    )
    return alt.LayerChart(layer=[_rules([0.0, recovery.WITHIN]), thin, thick]).properties(
        width="container", height=theme.HEIGHT
    )


def said(found: findings.Finding, digits: int = 2) -> str:
    """A number with its interval, such as "0.15 [0.12, 0.18]"."""
    value, low, high = (
        f"{round(end, digits) + 0.0:.{digits}f}" for end in (found.value, found.low, found.high)
    )
    return f"{value} [{low}, {high}]" if found.n_seeds > 1 else value


def lost_finding(preset: str, ratio: float, treatment: str, *, end: bool) -> findings.Finding:
    """Log perplexity above the original's right after a port or at the end, over seeds."""
    table = curve_rows(preset, ratio)
    own = table[table["treatment"] == treatment]
    step = own["step"].max() if end else own["step"].min()
    return findings.over_seeds(own[own["step"] == step]["lost"].to_numpy())


def curves_finding(preset: str, ratio: float = 0.5) -> str:
    """What the port to one width loses, and what is left of that after fine-tuning."""
    ends = {name: lost_finding(preset, ratio, name, end=True) for name in recovery.treatments_at(ratio)}
    best = min(ends, key=lambda name: ends[name].value)
    first = lost_finding(preset, ratio, PROJECTION, end=False)
    return (
        f"At {ratio:g} of the width a random map costs {said(first)} nats at first and "
        f"{said(ends[PROJECTION])} after {recovery.N_STEPS[preset]} updates; of the ways to that width, "
        f"{best} ends lowest, at {said(ends[best])}"
    )


# --- steps to recover ---------------------------------------------------------------------------------


@functools.cache
def runs_of(preset: str) -> dict[tuple[float, str, int], pd.DataFrame]:
    """Tables of the sweep by ratio, treatment and seed."""
    groups = curves(preset).groupby(["ratio", "treatment", "seed"], sort=False)
    return {(ratio, treatment, seed): part for (ratio, treatment, seed), part in groups}  # type: ignore[misc]


def steps_rows(preset: str, percent: float, for_good: bool = False) -> pd.DataFrame:
    """Updates until each run's perplexity is within so many percent of the original's, first or for good.

    Returns
    -------
    DataFrame
        ratio (text, in order), treatment, seed, steps_back (the last update where that is not reached), end.
    """
    rows = []
    for (ratio, treatment, seed), table in runs_of(preset).items():
        found = when_recovered(table, math.log1p(percent / 100), for_good=for_good)
        rows.append(
            (f"{ratio:g}", treatment, seed, round(found.steps, 1), BACK if found.reached else NOT_BACK)
        )
    table = pd.DataFrame(rows, columns=["ratio", "treatment", "seed", "steps_back", "end"])
    return table.sort_values("ratio", key=lambda column: column.astype(float), kind="stable")


def plot_steps(data: Data, kinds: Sequence[str], n_steps: int) -> alt.LayerChart:
    """A mark a run: filled where it came back, hollow at the last update where it did not."""
    colour, shape = theme.point_styles("treatment", list(kinds))
    key = alt.Legend(title=None, columns=2, symbolOpacity=1)
    base = alt.Chart(data).encode(
        x=alt.X("ratio:O", sort=None, axis=alt.Axis(title=theme.title("ratio"), labelAngle=0)),
        xOffset=alt.XOffset("treatment:N", sort=list(kinds)),
        y=alt.Y(
            "steps_back:Q",
            axis=_ticks("steps_back", BACK_TICKS),
            scale=alt.Scale(type="symlog", constant=n_steps / 8, domain=[0, n_steps * 1.15]),
        ),
        shape=shape.legend(key),
        tooltip=["treatment:N", "ratio:O", "seed:N", "end:N", "steps_back:Q"],
    )
    back = base.transform_filter(f"datum.end === '{BACK}'").mark_point(filled=True, size=55, opacity=0.85)
    lost = base.transform_filter(f"datum.end !== '{BACK}'").mark_point(filled=False, size=45, opacity=0.8)
    drawn = [part.encode(color=colour.legend(key)) for part in (lost, back)]
    return alt.LayerChart(layer=[_rules([n_steps]), *drawn]).properties(
        width="container", height=theme.HEIGHT
    )


def steps_finding(preset: str) -> str:
    """How many ports by a random map come back at all, and how many models from random weights."""
    table = steps_rows(preset, 2)
    counts = {
        name: (table[table["treatment"] == name]["end"] == BACK).agg(["sum", "size"])
        for name in (PROJECTION, SCRATCH)
    }
    (own, all_own), (null, all_null) = (counts[name] for name in (PROJECTION, SCRATCH))
    narrow = table[(table["treatment"] == PROJECTION) & (table["ratio"].astype(float) < 1)]
    return (
        f"{own} of {all_own} random maps get back to within 2% in {recovery.N_STEPS[preset]} updates, "
        f"{(narrow['end'] == BACK).sum()} of the {len(narrow)} that shrink, and {null} of {all_null} models "
        "from random weights"
    )


def shock_finding(preset: str) -> str:
    """What fine-tuning does to a model that lost nothing: the projection at m = d, or at the least above."""
    found = [key for key in runs_of(preset) if key[0] >= 1 and key[1] == PROJECTION]
    ratio = min(key[0] for key in found)
    tables = [runs_of(preset)[key] for key in found if key[0] == ratio]
    lost = [float(table["lost"].iloc[place]) for table in tables for place in (0, 1)]
    before, after = (float(np.mean(lost[place::2])) for place in (0, 1))
    back = [when_recovered(table, for_good=True) for table in tables]
    steps = np.mean([one.steps for one in back])
    when = (
        f"it takes {steps:.0f} updates to be within 2% for good"
        if all(one.reached for one in back)
        else f"{sum(one.reached for one in back)} of {len(back)} runs are within 2% at the end"
    )
    return (
        f"At {ratio:g} of the width the port costs {before:.3f} nats; the first update after it "
        f"brings that to {after:.2f}, and {when}"
    )


# --- perplexity against width -------------------------------------------------------------------------


def widths_rows(preset: str) -> pd.DataFrame:
    """Perplexity over the original's at each width.

    Returns
    -------
    DataFrame
        moment (one of MOMENTS), treatment, ratio, seed, perplexity_ratio.
    """
    rows = []
    for (ratio, treatment, seed), table in runs_of(preset).items():
        for moment, place in zip(MOMENTS, (0, -1), strict=True):
            value = math.exp(table["lost"].iloc[place])
            rows.append((moment, treatment, ratio, seed, round(value, 4)))
    return pd.DataFrame(rows, columns=["moment", "treatment", "ratio", "seed", "perplexity_ratio"])


def plot_widths(data: Data, kinds: Sequence[str]) -> alt.LayerChart:
    """Perplexity over the original's against m / d: thin lines seeds, thick ones means; 1 is dotted."""
    colour, dash = theme.line_styles("treatment", list(kinds))
    key = _line_key()
    y = alt.Y(
        "perplexity_ratio:Q",
        axis=theme.axis("perplexity_ratio"),
        scale=alt.Scale(type="log", nice=False),
    )
    place = {
        "x": alt.X(
            "ratio:Q", axis=theme.axis("ratio", tick_count=6), scale=alt.Scale(zero=False, nice=False)
        ),
        "color": colour.legend(key),
        "strokeDash": dash.legend(key),
    }
    base = alt.Chart(data)
    tooltip = ["treatment:N", "ratio:Q", "seed:N", "perplexity_ratio:Q"]
    thin = base.mark_point(size=25, opacity=0.6).encode(
        x=place["x"], y=y, color=place["color"], tooltip=tooltip
    )
    thick = (
        base.transform_aggregate(perplexity_ratio="mean(perplexity_ratio)", groupby=["treatment", "ratio"])
        .mark_line(strokeWidth=2)
        .encode(y=y, **place)
    )
    return alt.LayerChart(layer=[_rules([1.0]), thin, thick]).properties(
        width="container", height=theme.HEIGHT
    )


def widths_finding(preset: str) -> str:
    """The least and the largest cost of a random map among the widths that shrink."""
    table = widths_rows(preset)
    own = table[(table["treatment"] == PROJECTION) & (table["ratio"] < 1)]
    means = own.groupby(["moment", "ratio"])["perplexity_ratio"].mean()
    parts = []
    for moment in MOMENTS:
        of = means[moment]
        parts.append(
            f"{moment} {of.iloc[0]:.2f} times the original's at {of.index[0]:g} of the width "
            f"and {of.iloc[-1]:.2f} times at {of.index[-1]:g}"
        )
    return "Perplexity of a random map: " + "; ".join(parts)


# --- architectures ------------------------------------------------------------------------------------


@functools.cache
def architecture_curves(preset: str) -> pd.DataFrame:
    """Runs of all architectures at half the width: architecture, and the columns of the sweep's curves."""
    parts = []
    for architecture in recovery.COMPARED:
        base = bases.base(preset, architecture)
        own = [run for run in recovery.architecture_runs(preset) if run.base == base]
        table = recovery.curves(own, stored=preset != "quick")
        table.insert(0, "architecture", architecture)
        parts.append(table)
    return pd.concat(parts, ignore_index=True)


def architecture_table(preset: str, percent: float = 2) -> pd.DataFrame:
    """What each architecture starts from, loses and gets back; means over seeds.

    Returns
    -------
    DataFrame
        Index architecture; updates (that trained the original), original (its held-out loss, nats), lost
        (right after the port), left (at the end), steps (to within `percent` of the perplexity), recovered
        (runs of all).
    """
    rows = []
    table = architecture_curves(preset)
    for architecture in recovery.COMPARED:
        own = [part for _, part in table[table["architecture"] == architecture].groupby("seed")]
        found = [when_recovered(part, math.log1p(percent / 100)) for part in own]
        rows.append(
            {
                "architecture": architecture,
                "updates": bases.base(preset, architecture).training.n_steps,
                "original": round(float(own[0]["original"].iloc[0]), 3),
                "lost": round(float(recovery.lost_at(own, end=False).mean()), 3),
                "left": round(float(recovery.lost_at(own, end=True).mean()), 3),
                "steps": round(float(np.mean([one.steps for one in found])), 1),
                "recovered": f"{sum(one.reached for one in found)} of {len(found)}",
            }
        )
    return pd.DataFrame(rows).set_index("architecture")


def architecture_rows(preset: str) -> pd.DataFrame:
    """The curves as drawn: architecture, seed, step, lost."""
    return architecture_curves(preset)[["architecture", "seed", "step", "lost"]]


def architecture_finding(preset: str) -> str:
    """Which architecture loses least in a port, and which has least to make good at the end."""
    table = architecture_table(preset)
    lost, left = (dict(zip(table.index, table[name], strict=True)) for name in ("lost", "left"))
    least, nearest = (min(values, key=lambda name: values[name]) for values in (lost, left))
    lost_there, left_there = (
        "" if name == bases.LAYER else f"; LayerNorm {values[bases.LAYER]:.2f}"
        for name, values in ((least, lost), (nearest, left))
    )
    return (
        f"Least is lost by the port of {least} ({lost[least]:.2f} nats{lost_there}), and {nearest} has least "
        f"left at the end ({left[nearest]:.2f}{left_there})"
    )


def steps_by_tolerance(preset: str, percent: float) -> pd.DataFrame:
    """Updates of every architecture's runs to within so many percent: architecture, seed, steps_back, end."""
    rows = []
    groups = architecture_curves(preset).groupby(["architecture", "seed"], sort=False)
    for (architecture, seed), part in groups:  # type: ignore[misc]
        found = when_recovered(part, math.log1p(percent / 100))
        rows.append((architecture, seed, round(found.steps, 1), BACK if found.reached else NOT_BACK))
    return pd.DataFrame(rows, columns=["architecture", "seed", "steps_back", "end"])


def plot_steps_by_tolerance(data: Data, n_steps: int) -> alt.LayerChart:
    """A row an architecture, a mark a seed; hollow at the last update where it did not come back."""
    base = alt.Chart(data).encode(
        x=alt.X(
            "steps_back:Q",
            axis=_ticks("steps_back", BACK_TICKS),
            scale=alt.Scale(type="symlog", constant=n_steps / 8, domain=[0, n_steps * 1.15]),
        ),
        y=alt.Y("architecture:N", sort=None, axis=alt.Axis(title=None, labelLimit=160)),
        tooltip=["architecture:N", "seed:N", "end:N", "steps_back:Q"],
        color=alt.value(theme.CATEGORIES[0]),
    )
    back = base.transform_filter(f"datum.end === '{BACK}'").mark_point(filled=True, size=70)
    lost = base.transform_filter(f"datum.end !== '{BACK}'").mark_point(filled=False, size=60)
    mean = (
        alt.Chart(data)
        .transform_aggregate(middle="mean(steps_back)", groupby=["architecture"])
        .mark_tick(thickness=2, size=22, color=theme.INK)
        .encode(x="middle:Q", y=alt.Y("architecture:N", sort=None))
    )
    return alt.LayerChart(layer=[mean, lost, back]).properties(width="container", height=190)


# --- stages -------------------------------------------------------------------------------------------


@functools.cache
def staged_curves(preset: str) -> pd.DataFrame:
    """Runs in stages and at once to a quarter and an eighth: way, goal, and the sweep's columns."""
    table = recovery.curves(recovery.staged_runs(preset), stored=preset != "quick")
    goal = table["ratio"].map(lambda ratio: f"d / {round(1 / ratio)}")
    way = np.where(table["n_stages"] > 1, "in stages", "at once")
    return table.assign(goal=goal, way=way)


def staged_rows(preset: str, goal: str) -> pd.DataFrame:
    """Curves to one width: way, seed, step, stage, lost."""
    table = staged_curves(preset)
    kept = table[table["goal"] == goal]
    return kept[["way", "seed", "step", "stage", "lost"]].reset_index(drop=True)


def plot_stages(data: Data) -> alt.LayerChart:
    """A line a seed and stage; the jumps are ports."""
    colour, dash = theme.line_styles("way", ["at once", "in stages"])
    line = (
        alt.Chart(data)
        .transform_calculate(line="datum.way + datum.seed + datum.stage")
        .mark_line(strokeWidth=1.6, opacity=0.8, point=alt.OverlayMarkDef(size=14))
        .encode(
            x=alt.X("step:Q", axis=theme.axis("step", tick_count=6), scale=alt.Scale(nice=False)),
            y=alt.Y(
                "lost:Q",
                axis=_ticks("lost", LOST_TICKS),
                scale=alt.Scale(type="symlog", constant=0.1, nice=False),
            ),
            color=colour.legend(_line_key()),
            strokeDash=dash.legend(_line_key()),
            detail="line:N",
            tooltip=["way:N", "seed:N", "stage:Q", "step:Q", alt.Tooltip("lost:Q", format=".3f")],
        )
    )
    return alt.LayerChart(layer=[_rules([0.0]), line]).properties(width="container", height=theme.HEIGHT)


def staged_finding(preset: str) -> str:
    """How far stages end above or below one step, paired by seed."""
    parts = []
    for goal in dict.fromkeys(staged_curves(preset)["goal"]):
        table = staged_rows(preset, goal)
        ends = table.groupby(["way", "seed"])["lost"].last()
        gap = findings.over_seeds((ends["in stages"] - ends["at once"]).to_numpy())
        where = "lower" if gap.high < 0 else "higher" if gap.low > 0 else "not clearly apart"
        parts.append(f"{said(gap, 3)} nats at {goal}: {where}")
    return "In stages less at once: " + "; ".join(parts)


# --- throughput ---------------------------------------------------------------------------------------


@functools.cache
def speed_ratios(preset: str) -> pd.DataFrame:
    """See :func:`.throughput.ratios_to_original`; rule, ratio, training, scoring, parameters, memory."""
    cell = throughput.throughput.cell(throughput.run_of(preset))
    table = table_of(cell) if preset == "quick" else read(cell)[0]
    found = throughput.ratios_to_original(table)
    return found[["rule", "ratio", *ANY_SCALE]]


def speed_table(preset: str) -> pd.DataFrame:
    """Ratios to the original as a table: index rule and m / d."""
    table = speed_ratios(preset).rename(
        columns={"ratio": "m / d", "training": "tokens/s, training", "scoring": "tokens/s, scoring"}
    )
    return table.set_index(["rule", "m / d"]).round(2)


QUANTITIES = {
    "training": "tokens/s in training",
    "scoring": "tokens/s in scoring",
    "parameters": "parameters",
    "memory": "peak memory in training",
}


def speed_rows(preset: str, quantity: str) -> pd.DataFrame:
    """One quantity at each width: rule, ratio, over_original."""
    table = speed_ratios(preset)
    table = table[table["rule"] != throughput.ORIGINAL]
    return table[["rule", "ratio"]].assign(over_original=table[quantity].round(4)).reset_index(drop=True)


def plot_speed(data: Data) -> alt.LayerChart:
    """A line a rule over m / d; dotted: the original."""
    colour, dash = theme.line_styles("rule", [throughput.KEPT, throughput.PLAIN])
    line = (
        alt.Chart(data)
        .mark_line(strokeWidth=2, point=True)
        .encode(
            x=alt.X("ratio:Q", axis=theme.axis("ratio", tick_count=6), scale=alt.Scale(zero=False)),
            y=alt.Y("over_original:Q", axis=theme.axis("over_original")),
            color=colour.legend(_line_key()),
            strokeDash=dash.legend(_line_key()),
            tooltip=["rule:N", "ratio:Q", "over_original:Q"],
        )
    )
    return alt.LayerChart(layer=[_rules([1.0]), line]).properties(width="container", height=260)


def speed_finding(preset: str) -> str:
    """What half the width saves, by both rules."""
    table = speed_ratios(preset).set_index(["rule", "ratio"])
    parts = []
    for rule in (throughput.KEPT, throughput.PLAIN):
        row = table.xs((rule, 0.5))
        parts.append(
            f"{rule}: {row['training']:.2f} times the tokens a second in training, "
            f"{row['parameters']:.2f} of the parameters, {row['memory']:.2f} of the memory"
        )
    return "Half the width, " + "; ".join(parts)


# --- beside the claims --------------------------------------------------------------------------------


def rates_table() -> pd.DataFrame | sentences.Quotation:
    """Half the width at other learning rates, where stored: lost at the end, nats; means over seeds."""
    preset = shown_preset()
    stored, _ = recovery.stored_beside(preset)
    if not stored:
        return sentences.Quotation("Runs at other learning rates are not stored yet.")
    own = [run for run in recovery.sweep(preset) if run.ratios == (0.5,)]
    table = recovery.curves([*stored, *(run for run in own if run.treatment in (PROJECTION, SCRATCH))])
    last = table[table["step"] == table["step"].max()]
    grouped = last.groupby(["learning_rate", "treatment"])["lost"].agg(["mean", "size"]).reset_index()
    grouped["learning_rate"] = [f"{rate:g}" for rate in grouped["learning_rate"]]
    named = grouped.rename(columns={"learning_rate": "rate", "mean": "left (nats)", "size": "seeds"})
    return named.set_index(["rate", "treatment"]).round(3)


def others_table() -> pd.DataFrame | sentences.Quotation:
    """Other base models, where stored: what is lost, what is left, and steps to within 2%."""
    preset = shown_preset()
    _, stored = recovery.stored_beside(preset)
    if not stored:
        return sentences.Quotation("Runs of other base models are not stored yet.")
    rows = []
    for run in stored:
        table, _ = read(recovery.other_bases.cell(run))
        text, shape = run.base.text, run.base.shape
        name = f"{text.corpus}, {text.tokens}, d = {shape.embedding_dim}"
        for (ratio, treatment), part in table.groupby(["ratio", "treatment"], sort=False):
            part = part.assign(lost=part["log_perplexity"] - part["original"])
            found = when_recovered(part)
            rows.append(
                {
                    "base model": name,
                    "m / d": ratio,
                    "treatment": treatment,
                    "original (nats a token)": round(float(part["original"].iloc[0]), 3),
                    "lost": round(float(part["lost"].iloc[0]), 3),
                    "left": round(float(part["lost"].iloc[-1]), 3),
                    "steps": f"{found.steps:.0f}" if found.reached else f"over {found.steps:.0f}",
                }
            )
    return pd.DataFrame(rows).set_index(["base model", "m / d", "treatment"])


# --- what it writes -----------------------------------------------------------------------------------


def text_base(preset: str) -> bases.Base:
    """The base model that writes."""
    return bases.load(bases.base(preset))


@torch.no_grad()
def write(model: Decoder, opening: str, n_bytes: int = N_WRITTEN) -> str:
    """The opening and the likeliest next byte, again and again; bytes that are no ASCII text as a dot."""
    tokens = list(opening.encode())
    for _ in range(n_bytes):
        seen = torch.tensor([tokens[-model.config.length :]])
        tokens.append(int(model(seen)[0, -1].argmax()))
    return "".join(chr(token) if 32 <= token < 127 else "·" for token in tokens)


@functools.cache
def written_by_original(preset: str) -> str:
    """What the original writes."""
    base = text_base(preset)
    return write(base.model, OPENING.get(base.config.text.corpus, "The "))


def written(preset: str, ratio: float, treatment: str, seed: int = 0) -> pd.DataFrame:
    """What a model writes right after its port, beside what the original writes.

    Returns
    -------
    DataFrame
        who, place (of the line), line; a row a line of text.
    """
    base = text_base(preset)
    width = round(ratio * base.model.config.embedding_dim)
    if treatment == PCA:  # of hidden states on the bundled text, so that no data set is needed
        states = bases.calibration(base, N_STATES, seed, streams=story.streams_for(base))
        model = resizing.pca_slice(base.model, width, states).model.eval()
    else:
        model = recovery.resized(base, base.model, width, treatment, seed).eval()
    text = write(model, OPENING.get(base.config.text.corpus, "The "))
    who = f"{treatment}, m = {width}"
    rows = []
    for name, whole in ((ORIGINAL, written_by_original(preset)), (who, text)):
        rows.append((name, True))
        rows += [(line, False) for line in textwrap.wrap(whole, LINE)]
        rows.append(("", False))
    return pd.DataFrame(
        [(place, line, heading) for place, (line, heading) in enumerate(rows)],
        columns=["place", "line", "heading"],
    )


def plot_written(data: Data) -> alt.LayerChart:
    """Lines of text, in letters of one width."""
    down = alt.Scale(domain=[-0.5, N_LINES - 0.5], reverse=True, nice=False)
    base = alt.Chart(data).encode(x=alt.value(0), y=alt.Y("place:Q", axis=None, scale=down), text="line:N")
    body = base.transform_filter("!datum.heading").mark_text(
        align="left", fontSize=12, limit=600, font="monospace"
    )
    head = base.transform_filter("datum.heading").mark_text(
        align="left", fontSize=12, limit=600, fontWeight="bold"
    )
    return alt.LayerChart(layer=[body, head]).properties(width="container", height=19 * N_LINES)
