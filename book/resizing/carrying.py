"""What the chapter on carrying a transformer measures and draws: components, heads, ports, gains, bases."""

from __future__ import annotations

import copy
import functools
from collections.abc import Sequence
from typing import get_args

import altair as alt
import numpy as np
import pandas as pd
import torch
from torch import Tensor

from book.resizing import story
from book.resizing.experiments import bases, porting
from book.resizing.experiments.bases import NO_GAINS, Base
from book.resizing.experiments.porting import (
    COMPONENTS,
    GAIN_RULES,
    HEAD_RULES,
    MAPS,
    MORE_COMPONENTS,
    PERMUTATION,
    ROTATION,
    Component,
    Treatment,
)
from embviz import metrics, projections
from embviz.ledger import studies
from embviz.ledger.cells import missing, table_of
from embviz.models.decoder import Decoder
from embviz.models.resizing import AttentionRule, logit_error, resize
from embviz.view import charts, theme

CLAIMS = ("resizing.porting", "resizing.gains", "resizing.heads", "resizing.rope")
EXACT = 1e-10  # float64: below it an error is the order of a sum
FLOOR = 1e-16  # where such an error is drawn
LIMIT = 1e-5  # of the claim
NAMES = {
    "commuting": "RMSNorm without gains, heads kept",
    "one_head": "one head, plain rule",
    "folded": "LayerNorm and gains, all folded",
    "alibi": "ALiBi, heads kept",
    "rotary_kept": "rotary positions, heads kept",
    "peri": "peri-norm",
    "sphere": "normalized GPT",
    "within": "a map within each head",
    "gains_dense": "gains as dense matrices",
    "as_written": "MLP and head as written",
    "plain_heads": "four heads, plain rule",
    "folded_plain": "LayerNorm folded, four heads, plain rule",
    "rotary": "rotary positions, one head, plain rule",
    "rotary_within": "rotary positions, a map within each head",
    "centering": "LayerNorm's centering kept",
    "gains_dropped": "trained gains dropped",
    "gains_one": "trained gains replaced by their mean",
    "gains_projected": "trained gains projected as a vector",
    "hidden": "hidden units of the MLP mapped",
}
RULES: dict[AttentionRule, str] = {"kept": "heads kept", "within": "within heads", "plain": "plain"}
FAMILIES = {"orthonormal": "row-orthonormal", "gaussian": "Gaussian", "rademacher": "random signs"}
NORMS = {"fold": "folded", "drop": "gains dropped", "project": "gains projected"}
WIDTHS = (0.25, 0.5, 0.75, 1.0, 1.5, 2.0)  # m / d of the explorer
BEFORE, AFTER = "before", "after"
N_PLACES = 14  # characters whose attention and similarity are drawn
PANEL = 260  # pixels


def shown_preset(claim: str = CLAIMS[0]) -> str:
    """The largest stored preset of a claim, or the quick one, which is computed where it is asked for."""
    return studies.find_study(claim).largest_stored() or "quick"


def data_note(preset: str) -> str:
    """Text and sizes, for a caption."""
    run = bases.base(preset)
    shape = run.shape
    source = "Bundled documentation" if run.text.corpus == "embedded" else "Short stories"
    return (
        f"{source} in bytes, {shape.n_layers} layers, {shape.n_heads} heads of {shape.head_width}, "
        f"d = {shape.embedding_dim}; {porting.n_draws(preset)} draws of the map"
    )


# --- components -----------------------------------------------------------------------------------------


def components(preset: str) -> dict[str, Component]:
    """Those that are measured, by the names of the claim's figures; others beside it where stored."""
    found = dict(COMPONENTS)
    for name, component in MORE_COMPONENTS.items():
        if preset == "quick" or not missing([porting.ports.cell(component.port(preset))]):
            found[name] = component
    return {name: found[name] for name in NAMES if name in found}


@functools.cache
def component_errors(preset: str) -> pd.DataFrame:
    """Relative logit errors at m = d: part, map_kind, draw, error, drawn (the error, or FLOOR below it)."""
    rows = [
        {"part": NAMES[name], "map_kind": kind, "draw": draw, "error": error, "drawn": max(error, FLOOR)}
        for name in components(preset)
        for kind in MAPS
        for draw, error in enumerate(porting.errors(preset, name, kind).tolist())
    ]
    return pd.DataFrame(rows)


def component_table(preset: str) -> pd.DataFrame:
    """Mean errors by component and map, "exact" where they are roundings, and why they are not."""
    table = component_errors(preset)
    means = table.groupby(["part", "map_kind"])["error"].max().unstack()  # the worst draw
    shown = means.map(lambda error: "exact" if error < EXACT else f"{error:.2g}")
    causes = {NAMES[name]: component.cause for name, component in components(preset).items()}
    order = [part for part in causes if part in shown.index]
    shown = shown.loc[order, list(MAPS)]
    return shown.assign(cause=[causes[part] for part in order]).rename_axis(index=None, columns=None)


def components_finding(preset: str) -> str:
    """How many components commute with which kind of map."""
    table = component_errors(preset)
    exact = table.groupby(["part", "map_kind"])["error"].max() < EXACT
    counts = {kind: int(exact.xs(kind, level="map_kind").sum()) for kind in MAPS}
    n = table["part"].nunique()
    return (
        f"Of {n} ways to port, {counts[ROTATION]} keep the logits under a rotation, "
        f"{counts[PERMUTATION]} under another order of the coordinates, "
        f"{counts[MAPS[-1]]} under a Gaussian map"
    )


def plot_components(preset: str) -> alt.LayerChart:
    """A row a component, a point a draw, by kind of map; left of the line is what the claim calls exact."""
    table = component_errors(preset)
    colour, shape = theme.point_styles("map_kind", list(MAPS))
    y = alt.Y("part:N", sort=None, axis=alt.Axis(title=None, labelLimit=260))
    x = alt.X(
        "drawn:Q",
        axis=theme.axis("logit_error", number_format=".0e", tick_count=6),
        scale=alt.Scale(type="log", domain=[FLOOR / 2, 100]),
    )
    points = (
        alt.Chart(table)
        .mark_point(size=45)
        .encode(
            x=x,
            y=y,
            yOffset=alt.YOffset("map_kind:N", sort=list(MAPS)),
            color=colour,
            shape=shape,
            tooltip=["part:N", "map_kind:N", "draw:O", alt.Tooltip("error:Q", format=".2e")],
        )
    )
    line = (
        alt.Chart(alt.Data(values=[{}]))
        .mark_rule(strokeDash=list(theme.DASHES[1]))
        .encode(x=alt.XDatum(LIMIT))
    )
    height = 30 * table["part"].nunique()
    return alt.LayerChart(layer=[points, line]).properties(width="container", height=height)


# --- what the plain rule mixes --------------------------------------------------------------------------


@functools.cache
def base(preset: str, architecture: str = bases.LAYER) -> Base:
    """A base model."""
    return bases.load(bases.base(preset, architecture))


def model_of(preset: str, architecture: str = bases.LAYER) -> Decoder:
    """A base model in float64."""
    return copy.deepcopy(base(preset, architecture).model).double()


def places(preset: str) -> tuple[Tensor, list[str]]:
    """The first N_PLACES characters (1, T) of a text that the model hasn't read, and as they are shown."""
    streams = story.streams_for(base(preset))
    ids = streams.held_out.ids[1 : 1 + N_PLACES].astype(np.int64)
    return torch.from_numpy(ids)[None], [streams.text(int(token)).strip("'") for token in ids]


def mixed(preset: str, rule: str, ratio: float, layer: int, head: int) -> pd.DataFrame:
    """What a rule does to the heads, and to one head's attention.

    Parameters
    ----------
    rule : str
        A value of :data:`RULES`.
    ratio : float
        m / d.
    layer, head : int
        From 1.

    Returns
    -------
    DataFrame
        panel, row, column, value, pair: "before" and "after", what each place takes from each; "heads", the
        share of a new head's coordinates (row) that comes from an old head's (column).
    """
    own = {name: key for key, name in RULES.items()}[rule]
    model = model_of(preset, NO_GAINS)
    config = model.config
    m = round(config.embedding_dim * ratio)
    carried = resize(model, m, attention=own, seed=0)
    tokens, names = places(preset)
    parts = []
    with torch.no_grad():
        for panel, found in ((BEFORE, model), (AFTER, carried.model)):
            shares = found.shares(tokens, layer - 1)[0, head - 1].numpy()
            parts.append(_matrix_rows(panel, shares, names, lower=True))
    shares = head_shares(own, config.n_heads, carried.projection.matrix)
    numbers = [f"head {1 + index}" for index in range(config.n_heads)]
    return pd.concat([*parts, _matrix_rows("heads", shares, numbers)], ignore_index=True)


def head_shares(rule: AttentionRule, n_heads: int, T: np.ndarray) -> np.ndarray:
    """Share of the coordinates of each new head that comes from each old one, (H, H), under a map T (m, d).

    Heads that are kept, or mapped each by itself, come from themselves alone. Under the plain rule new head
    h holds rows of T, and these have entries at the coordinates of all old heads.
    """
    if rule != "plain":
        return np.eye(n_heads)
    m, d = T.shape
    energy = (T**2).reshape(n_heads, m // n_heads, n_heads, d // n_heads).sum((1, 3))  # (H, H)
    shares: np.ndarray = energy / energy.sum(1, keepdims=True)
    return shares


def _matrix_rows(
    panel: str, values: np.ndarray, names: Sequence[str], *, lower: bool = False
) -> pd.DataFrame:
    rows, columns = (part.ravel() for part in np.indices(values.shape))
    table = pd.DataFrame({"panel": panel, "row": rows, "column": columns, "value": values.ravel()})
    table["pair"] = [f"{names[i]} ← {names[j]}" for i, j in zip(rows.tolist(), columns.tolist(), strict=True)]
    return table[table["column"] <= table["row"]] if lower else table


def mixed_finding(preset: str) -> str:
    """How much of a new head is its own under the plain rule, true of the map drawn."""
    config = base(preset, NO_GAINS).model.config
    T = resize(model_of(preset, NO_GAINS), config.embedding_dim, attention="plain", seed=0).projection.matrix
    own = float(np.diag(head_shares("plain", config.n_heads, T)).mean())
    return (
        f"Under the plain rule {own:.0%} of a new head comes from the old head of its number, "
        f"where {config.n_heads} equal parts would be {1 / config.n_heads:.0%}"
    )


def plot_mixed(data: charts.Data) -> alt.HConcatChart:
    """Attention before and after, and the heads' origin."""
    titles = {
        BEFORE: "attention before",
        AFTER: "attention after",
        "heads": "new head ← old",
    }
    panels = []
    for panel, title in titles.items():
        size = PANEL // 2 if panel == "heads" else PANEL - 30
        scale = theme.sequential_scale()
        scale.domain = [0, 1]
        panels.append(
            alt.Chart(data, title=alt.TitleParams(title, fontSize=12))
            .transform_filter(f"datum.panel === '{panel}'")
            .mark_rect()
            .encode(
                x=alt.X("column:O", axis=None),
                y=alt.Y("row:O", axis=None),
                color=alt.Color("value:Q", scale=scale, legend=alt.Legend(title="share")),
                tooltip=["pair:N", alt.Tooltip("value:Q", format=".3f")],
            )
            .properties(width=size, height=size)
        )
    return alt.hconcat(*panels)


# --- the explorer of ports ------------------------------------------------------------------------------


def port(preset: str, family: str, ratio: float, norms: str, rule: str) -> pd.DataFrame:
    """Carry the model with LayerNorm, and compare hidden states and logits before and after.

    Parameters
    ----------
    family : str
        A value of :data:`FAMILIES`, drawn in unit scaling.
    ratio : float
        m / d.
    norms, rule : str
        Values of :data:`NORMS` and :data:`RULES`; centering is folded.

    Returns
    -------
    DataFrame
        i, j, pair, before, after: cosines of the streams after the last layer at two places of a string, i
        below j; in the first row error (relative, of logits) and concordance, 0 in the others.
    """
    keys = [
        {name: key for key, name in names.items()}[chosen]
        for names, chosen in ((FAMILIES, family), (NORMS, norms), (RULES, rule))
    ]
    model, (tokens, names) = model_of(preset), places(preset)
    m = round(model.config.embedding_dim * ratio)
    treatment = Treatment(attention=_rule(keys[2]), gains=_gains(keys[1]))
    carried = treatment.carry(model, m, keys[0], 0).model
    last = model.config.n_layers
    with torch.no_grad():
        x, z = model.hidden(tokens, last)[0], carried.hidden(tokens, last)[0]
        x = x - x.mean(-1, keepdim=True)  # what the folded model's stream is
        error = logit_error(carried(tokens), model(tokens))
    i, j = np.triu_indices(len(names), 1)
    before, after = (_cosines(states.numpy())[i, j] for states in (x, z))
    table = pd.DataFrame({"i": i, "j": j, "before": before, "after": after})
    table["pair"] = [f"{1 + a} {names[a]}, {1 + b} {names[b]}" for a, b in zip(i, j, strict=True)]
    table[["error", "concordance"]] = 0.0  # in each row they would weigh more than the cosines
    table.loc[0, "error"] = error if error > EXACT else 0.0
    table.loc[0, "concordance"] = metrics.concordance(x.numpy(), z.numpy())
    return table


def port_finding(preset: str) -> str:
    """What a rotation and half the width leave of cosines and logits, of the draw that is shown."""
    said = []
    for ratio, width in ((1.0, "m = d"), (0.5, "m = d / 2")):
        row = port(preset, "row-orthonormal", ratio, "folded", "heads kept").iloc[0]
        said.append(
            f"at {width} cosines of hidden states have a concordance of {row['concordance']:.2f}, "
            f"logits an error of {row['error']:.2f}"
        )
    return f"Everything folded, heads kept: {said[0]}; {said[1]}"


def _rule(key: str) -> AttentionRule:
    return next(rule for rule in HEAD_RULES if rule == key)


def _gains(key: str) -> porting.GainRule:
    return next(rule for rule in get_args(porting.GainRule) if rule == key)


def _cosines(states: np.ndarray) -> np.ndarray:
    unit = states / np.linalg.norm(states, axis=1, keepdims=True)
    found: np.ndarray = unit @ unit.T
    return found


def plot_port(data: charts.Data) -> alt.VConcatChart:
    """Cosines before above the diagonal, after below it; and one over the other, with what both come to."""
    scale = theme.sequential_scale()
    scale.zero = False
    legend = alt.Legend(title="cosine", orient="bottom")
    axes = {"x": alt.X("right:O", axis=None), "y": alt.Y("down:O", axis=None)}
    halves = [
        alt.Chart(data)
        .transform_calculate(right=f"datum.{right}", down=f"datum.{down}")
        .mark_rect()
        .encode(
            **axes,
            color=alt.Color(f"{field}:Q", scale=scale, legend=legend),
            tooltip=["pair:N", alt.Tooltip("before:Q", format=".3f"), alt.Tooltip("after:Q", format=".3f")],
        )
        for field, right, down in (("before", "j", "i"), ("after", "i", "j"))
    ]
    title = alt.TitleParams("above the diagonal: before, below: after", fontSize=12)
    matrix = alt.LayerChart(layer=halves, title=title).properties(width=PANEL, height=PANEL)
    return alt.vconcat(_port_words(data), alt.hconcat(matrix, _port_points(data)))


def _port_points(data: charts.Data) -> alt.LayerChart:
    """Cosines after over those before, with the line of equals."""
    x = alt.X("before:Q", axis=theme.axis("cosine_before", tick_count=5), scale=alt.Scale(zero=False))
    y = alt.Y("after:Q", axis=theme.axis("cosine_after", tick_count=5), scale=alt.Scale(zero=False))
    tooltip = ["pair:N", alt.Tooltip("before:Q", format=".3f"), alt.Tooltip("after:Q", format=".3f")]
    points = alt.Chart(data).mark_circle(size=22, opacity=0.6).encode(x=x, y=y, tooltip=tooltip)
    line = alt.Chart(data).mark_line(strokeDash=list(theme.DASHES[1]), color=theme.INK, strokeWidth=1.2)
    equal = line.encode(x="before:Q", y="before:Q")
    return alt.LayerChart(layer=[points, equal]).properties(width=PANEL, height=PANEL)


def _port_words(data: charts.Data) -> alt.Chart:
    """Logit error and concordance in words."""
    sums = [
        alt.AggregatedFieldDef(op="sum", field=field, **{"as": field}) for field in ("error", "concordance")
    ]
    error = "(datum.error == 0 ? '0 (rounding)' : format(datum.error, '.2f'))"
    return (
        alt.Chart(data)
        .transform_aggregate(sums)
        .transform_calculate(
            text=f"'relative logit error ' + {error} + ', concordance of cosines ' + "
            "format(datum.concordance, '.2f')"
        )
        .mark_text(align="left", fontSize=14)
        .encode(x=alt.value(0), text="text:N")
        .properties(width=2 * PANEL, height=20, view=alt.ViewBackground(stroke=None))
    )


# --- gains ----------------------------------------------------------------------------------------------


def gain_losses(preset: str) -> pd.DataFrame:
    """Nats lost by a port: rule, width, draw, lost; the model trained without gains beside."""
    rows = []
    runs = {rule: porting.gain_run(preset, rule) for rule in GAIN_RULES}
    runs["trained without gains"] = porting.gain_run(preset, "folded", NO_GAINS)
    for rule, run in runs.items():
        original = bases.load(run.base).log_perplexity
        for quarters, width in ((4, "m = d"), (2, "m = d / 2")):
            for draw, loss in enumerate((porting.losses(run, quarters) - original).tolist()):
                rows.append({"rule": rule, "width": width, "draw": draw, "lost": loss})
    return pd.DataFrame(rows)


def gains_finding(preset: str) -> str:
    """Which treatment loses least and most at either width."""
    table = gain_losses(preset)
    own = table[table["rule"].isin(list(GAIN_RULES))]
    said = []
    for width, part in own.groupby("width", sort=False):
        means = part.groupby("rule", sort=False)["lost"].mean()
        best = [rule for rule, lost in means.items() if lost < means.min() + 1e-4]
        words = " and ".join(f"{rule}" for rule in best)
        said.append(
            f"at {width} the least is lost by gains {words} ({_two_digits(means.min())} nats), "
            f"the most by gains {means.idxmax()} ({_two_digits(means.max())})"
        )
    text = "; ".join(said)
    return text[0].upper() + text[1:]


def _two_digits(value: float) -> str:
    """A loss as it is said, without the sign of a rounded 0."""
    return f"{round(value, 2) + 0.0:.2f}"


def plot_losses(table: pd.DataFrame, field: str) -> alt.LayerChart:
    """A point a draw, a tick at the mean; kinds in rows, colour and shape by width."""
    names = list(dict.fromkeys(table["width"]))
    colour, shape = theme.point_styles("width", names)
    rows = list(dict.fromkeys(table[field]))
    y = alt.Y(f"{field}:N", sort=rows, axis=alt.Axis(title=None, labelLimit=180))
    x = alt.X("lost:Q", axis=theme.axis("lost"))
    base_chart = alt.Chart(table).encode(y=y, yOffset=alt.YOffset("width:N", sort=names), color=colour)
    tooltip = [f"{field}:N", "width:N", "draw:O", alt.Tooltip("lost:Q", format=".3f")]
    points = base_chart.mark_point(size=40).encode(x=x, shape=shape, tooltip=tooltip)
    ticks = base_chart.mark_tick(thickness=2.5, size=14).encode(x="mean(lost):Q")
    return alt.LayerChart(layer=[points, ticks]).properties(width="container", height=44 * len(rows))


# --- heads ----------------------------------------------------------------------------------------------


def head_losses(preset: str) -> pd.DataFrame:
    """Nats lost by a port at every width: ratio (m / d), rule, seed (the draw), lost."""
    rows = []
    for rule in HEAD_RULES:
        run = porting.head_run(preset, rule)
        table = table_of(porting.ported_losses.cell(run))
        lost = table["log_perplexity"] - bases.load(run.base).log_perplexity
        rows.append(
            pd.DataFrame(
                {"ratio": table["quarters"] / 4, "rule": RULES[rule], "seed": table["draw"], "lost": lost}
            )
        )
    return pd.concat(rows, ignore_index=True)


def heads_finding(preset: str) -> str:
    """What each rule loses at m = d and at d / 2, and whether some width needs a multiple of the heads."""
    table = head_losses(preset)
    means = table.groupby(["ratio", "rule"], sort=False)["lost"].mean()
    said = [
        "; ".join(f"{rule} {_two_digits(means[ratio, rule])}" for rule in RULES.values())
        for ratio in (1.0, 0.5)
    ]
    return f"Nats lost at m = d: {said[0]}; at m = d / 2: {said[1]}"


def widths_note(preset: str) -> str:
    """How many widths that are no multiple of the heads were tried with heads kept, and work."""
    run = bases.base(preset)
    table = table_of(porting.head_widths.cell(porting.HeadWidths(run)))
    return (
        f"Of {len(table)} widths m from {table['m'].min()} to {table['m'].max()} that "
        f"{run.shape.n_heads} heads don't divide, {int(table['works'].sum())} have a model "
        "that keeps its heads."
    )


# --- rotary positions -----------------------------------------------------------------------------------


def rotary_losses(preset: str) -> pd.DataFrame:
    """Held-out loss by rotary base after a port within heads: factor, width, seed (the draw), lost."""
    original = bases.load(bases.base(preset, bases.ROTARY)).log_perplexity
    table = porting.rotary_table(preset)
    names = {1: "m = d / 4", 2: "m = d / 2", 3: "m = 3 d / 4"}
    return pd.DataFrame(
        {
            "factor": table["factor"],
            "width": table["quarters"].map(names),
            "seed": table["draw"],
            "lost": table["held_out"] - original,
        }
    )


def rotary_finding(preset: str) -> str:
    """What the best base gains at each width, on average over draws."""
    table = porting.rotary_table(preset)
    said = ", ".join(
        f"{name}: {porting.gains_of_best(table[table['quarters'] == quarters]).mean():.3f}"
        for quarters, name in ((3, "m = 3 d / 4"), (2, "m = d / 2"), (1, "m = d / 4"))
    )
    return f"Nats gained by the base that is best on training text, after maps within heads: {said}"


def kept_note(preset: str) -> str:
    """What keeping heads, and with them the rotary dimension, loses at half the width, and maps within."""
    run = porting.kept_rotary_run(preset)
    original = bases.load(run.base).log_perplexity
    kept = float(table_of(porting.rotary_bases.cell(run))["held_out"].mean()) - original
    table = porting.rotary_table(preset)
    own = table[(table["quarters"] == 2) & (table["factor"] == 1.0)]
    within = float(own["held_out"].mean()) - original
    return (
        f"At m = d / 2 a port that keeps the heads, and so every pair of coordinates that positions turn, "
        f"loses {kept:.2f} nats; one with a map within each head {within:.2f}."
    )


def plot_rotary(table: pd.DataFrame) -> alt.LayerChart:
    """Loss by base, a thin line a draw, the mean thick."""
    names = list(dict.fromkeys(table["width"]))
    colour, dash = theme.line_styles("width", names)
    x = alt.X(
        "factor:Q",
        axis=theme.axis("rotary_factor"),
        scale=alt.Scale(type="log", base=2, nice=False),
    )
    y = alt.Y("lost:Q", axis=theme.axis("lost"), scale=alt.Scale(zero=False))
    line = alt.Chart(table).encode(x=x, color=colour, strokeDash=dash)
    thin = line.mark_line(strokeWidth=0.8, opacity=0.35).encode(y=y, detail="seed:N")
    thick = line.mark_line(strokeWidth=2.5).encode(y="mean(lost):Q")
    dots = line.mark_point(size=35, filled=True).encode(
        y="mean(lost):Q", tooltip=["width:N", "factor:Q", alt.Tooltip("mean(lost):Q", format=".3f")]
    )
    return alt.LayerChart(layer=[thin, thick, dots]).properties(width="container", height=theme.HEIGHT)


# --- Gaussian and orthonormal, in one line --------------------------------------------------------------


def projected_twice(m: int, d: int, *, n_draws: int = 200) -> pd.DataFrame:
    """What T+ T and T'T leave of a unit vector, for maps in isometric scaling.

    Returns
    -------
    DataFrame
        family, product, along (the part that points where the vector did) and its standard deviation over
        draws, beside (root mean square of the length of the rest).
    """
    rows = []
    for family, name in FAMILIES.items():
        found: dict[str, list[tuple[float, float]]] = {"T⁺T": [], "TᵀT": []}
        for draw in range(n_draws):
            x = np.random.default_rng([draw, m, d]).standard_normal(d)  # not the numbers of the map itself
            x /= np.linalg.norm(x)
            T = projections.draw(family, m, d, seed=draw)
            for product, back in (("T⁺T", T.pseudo_inverse()), ("TᵀT", T.matrix.T)):
                y = back @ T.apply(x)
                found[product].append((float(x @ y), float(y @ y - (x @ y) ** 2)))
        for product, values in found.items():
            along, beside = np.array(values).T
            row = {"along": along.mean(), "sd": along.std(ddof=1), "beside": np.sqrt(beside.mean())}
            rows.append({"family": name, "product": product, **row})
    return pd.DataFrame(rows)
