"""What the forms share: a checked table, packed; axes and scales; levels across; the interval over seeds.

A form takes a tidy table (or the data of an explorer) and returns an Altair chart, as wide as the page. What
it computes (means, intervals) it writes into the chart, so that it is right for whatever rows an
explorer puts there. Encodings name their types, since an explorer's data has no values to guess them from.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias, TypeVar

import altair as alt
import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray
from scipy import special

from embviz import arrays
from embviz.view import named_tables, theme

Data: TypeAlias = pd.DataFrame | alt.NamedData
# A number, or numbers by their names.
Levels: TypeAlias = float | Mapping[str, float]
# A control: numbers as above, the two ends of its range, or the kind that is one.
Null: TypeAlias = Levels | tuple[float, float] | str
# "linear", "log", "symlog" or "sqrt", or a scale of Altair's.
Scale: TypeAlias = str | alt.Scale
PATH = re.compile(r"""[.\[\]\\'"]""")  # read as a path in the data, in the name of a Vega field
AnyData = TypeVar("AnyData", bound=Data)
Channel = TypeVar("Channel", alt.X, alt.Y)


@dataclass(frozen=True)
class Axis:
    """A column along an axis, such as ``Axis("count", "log", (1, 1e6))``; its name alone is a linear axis.

    Parameters
    ----------
    column : str
        Column of numbers.
    scale : {"linear", "log", "symlog", "sqrt"} or a scale of Altair's
    limits : pair of float, optional
        Ends of the axis; what lies outside is cut off. By default all is shown.
    title : str, optional
        By default the column's of ``embviz.labels``; empty for none.
    """

    column: str
    scale: Scale = "linear"
    limits: tuple[float, float] | None = None
    title: str | None = None

    @property
    def words(self) -> str:
        """The title as it is written."""
        return theme.title(self.column) if self.title is None else self.title


Along: TypeAlias = str | Axis  # of a form's parameter


def as_axis(given: Along) -> Axis:
    """An axis, of a column's name too."""
    return given if isinstance(given, Axis) else Axis(given)


# --- tables ---------------------------------------------------------------------------------------------


def check_columns(
    data: AnyData,
    *,
    numbers: Sequence[str | None],
    words: Sequence[str | None] = (),
    more: Sequence[str] = (),
) -> AnyData:
    """The columns that a chart draws, kinds as text; an explorer's data as it is. None stands for no column.

    Raises ``ValueError`` if the table is empty, or a column is missing, has a hole, words for numbers, or a
    name that a chart would read as a path in the data.
    """
    wanted = list(dict.fromkeys(field for field in (*numbers, *words, *more) if field is not None))
    for field in wanted:
        if PATH.search(str(field)):
            raise ValueError(
                f"column {field!r}: a chart takes no . [ ] \\ ' or \" in a name: rename the column"
            )
    if not isinstance(data, pd.DataFrame):
        return data
    for field in wanted:
        if field not in data:  # type: ignore[union-attr]
            hint = ": name the column of repetitions, or seed=None" if field == "seed" else ""
            raise ValueError(f"no column {field!r} in the table, which has {', '.join(map(str, data))}{hint}")
    if data.empty:
        raise ValueError("the table is empty: there is nothing to draw")
    for field in wanted:
        if field in numbers and not pd.api.types.is_numeric_dtype(data[field].dtype):
            raise ValueError(f"column {field!r} holds {data[field].dtype} values: numbers are drawn there")
    named_tables.refuse_holes(data[wanted])
    kinds = {field: data[field].astype(str) for field in words if field is not None}
    return data[wanted].assign(**kinds)  # type: ignore[return-value]


def kind_names(data: Data, kind: str | None, names: Sequence[str] | None) -> list[str]:
    """The kinds in a column: as given, or as they come; none without a column.

    Raises ``ValueError`` if an explorer's data comes without names, or the table has a kind that none names.
    """
    if kind is None:
        return []
    if not isinstance(data, pd.DataFrame):
        if names is None:
            raise ValueError(
                f"name the kinds of {kind!r} (names=...): an explorer's data are not known in advance"
            )
        return list(names)
    found = list(dict.fromkeys(data[kind].astype(str)))
    if names is None:
        return found
    if strange := [name for name in found if name not in set(map(str, names))]:
        raise ValueError(f"{kind!r} has {strange[0]!r}, which is none of names={list(names)}")
    return list(map(str, names))


def null_kind(null: Null | None, kinds: Sequence[str]) -> str | None:
    """The control, if it is one of the kinds; raises ``ValueError`` if it is named, but is none of them."""
    if not isinstance(null, str):
        return None
    if null not in kinds:
        raise ValueError(f"null={null!r} is none of the kinds: {', '.join(kinds) or 'there is one line'}")
    return null


def refuse_repeats(data: Data, fields: Sequence[str | None], advice: str) -> None:
    """Raise if two rows agree in all `fields`: a mean would count one of them twice."""
    if isinstance(data, pd.DataFrame):
        keys = [field for field in fields if field is not None]
        if keys and (twice := data.duplicated(keys)).any():
            row = data.loc[twice, keys].iloc[0]
            where = ", ".join(f"{field} = {value}" for field, value in row.items())
            raise ValueError(f"more than one row at {where}: {advice}")


def pack_layers(data: Data, layers: Sequence[alt.Chart]) -> alt.LayerChart:
    """Layers over one data set, of which a page holds the columns as lists: a quarter of rows' size."""
    if not isinstance(data, pd.DataFrame):
        return alt.LayerChart(data=data, layer=list(layers))
    lists = alt.Data(values=[{str(name): _listed(data[name]) for name in data}])
    flat = [{"flatten": [str(name) for name in data]}]
    return alt.LayerChart(data=lists, transform=flat, layer=list(layers))


def _listed(column: pd.Series) -> list[Any]:
    """Plain values for JSON, floats rounded to four digits, more where they differ in later ones."""
    if pd.api.types.is_float_dtype(column.dtype):
        span, most = column.max() - column.min(), column.abs().max()
        digits = 4 + (int(np.floor(np.log10(most / span))) if 0 < span < most else 0)
        return [None if np.isnan(value) else float(f"{value:.{digits}g}") for value in column]
    return column.tolist()


# --- bins -----------------------------------------------------------------------------------------------


def bin_counts(
    values: ArrayLike, *, n_bins: int = 60, limits: tuple[float, float] | None = None
) -> pd.DataFrame:
    """Histogram as a table, so that a chart holds the bins and not the values.

    Parameters
    ----------
    values : array of float, any shape
        Finite numbers, one at least.
    n_bins : int, default 60
        Bins of equal width.
    limits : pair of float, optional
        Ends of the first and last bin; values outside are left out of the bins but stay in the total of
        `share`. By default the smallest and largest value.

    Returns
    -------
    DataFrame with `left`, `right` (the unit of `values`), `count` and `share` (of all values), one row a bin
    """
    flat = arrays.check_array(values, "values").ravel()
    counts, edges = np.histogram(flat, bins=n_bins, range=limits)
    return _bin_table(counts, edges, flat.size)


def _bin_table(counts: NDArray[np.int64], edges: NDArray[np.float64], total: int) -> pd.DataFrame:
    return pd.DataFrame({"left": edges[:-1], "right": edges[1:], "count": counts, "share": counts / total})


def mirrored_bins(values: ArrayLike, *, n_bins: int = 60, reach: float | None = None) -> pd.DataFrame:
    """Histogram over limits symmetric about zero, with the share of the mirrored bin beside each.

    Parameters
    ----------
    values : array of float
        Such as eigenvalues; a spectrum symmetric about zero has `share` equal to `mirrored` in every bin.
    n_bins : int, default 60
        Must be even, so that zero is a bin's edge and no bin mixes signs.
    reach : float, optional
        End of the last bin; by default the largest magnitude.

    Returns
    -------
    DataFrame with `left`, `right`, `count`, `share`, `mirrored`, one row a bin
    """
    if n_bins % 2:
        raise ValueError(f"{n_bins} bins: an even number is needed, so that zero is an edge")
    flat = arrays.check_array(values, "values").ravel()
    reach = float(np.abs(flat).max()) if reach is None else reach
    half = np.linspace(0.0, reach or 1.0, n_bins // 2 + 1)
    edges = np.concatenate([-half[:0:-1], half])  # exactly symmetric, with 0 itself among them
    counts, _ = np.histogram(flat, bins=edges)
    table = _bin_table(counts, edges, flat.size)
    return table.assign(mirrored=table["share"].to_numpy()[::-1])


# --- axes, scales, tooltips -----------------------------------------------------------------------------


def make_scale(axis: Axis, *, zero: bool = False) -> alt.Scale:
    """The scale of an axis that ends a little beyond the data, or at its limits."""
    if isinstance(axis.scale, alt.Scale):
        return axis.scale
    linear = (
        {"nice": True, "zero": zero} if axis.scale == "linear" else {"nice": False, "padding": theme.PADDING}
    )
    ends = {} if axis.limits is None else {"domain": list(axis.limits), "nice": False, "padding": 0}
    return alt.Scale(type=axis.scale, **(linear | ends))  # type: ignore[arg-type]


def tight_scale(axis: Axis) -> alt.Scale:
    """A scale that ends where the data do, as an axis of time should."""
    if isinstance(axis.scale, alt.Scale):
        return axis.scale
    ends: Any = alt.Undefined if axis.limits is None else list(axis.limits)
    zero = False if axis.scale == "linear" else alt.Undefined
    return alt.Scale(type=axis.scale, nice=False, domain=ends, zero=zero)  # type: ignore[arg-type]


def fill_width(chart: alt.LayerChart, description: str, height: float | alt.Step) -> alt.LayerChart:
    """As wide as the page; with words for a reader who hears it, until it gets its finding."""
    whole: alt.LayerChart = chart.properties(width="container", height=height, description=description)
    return whole


def refuse_logarithms(data: Data, *axes: Axis) -> None:
    """Raise if a logarithmic axis would lose rows that are not above 0."""
    for axis in axes:
        kind = axis.scale.to_dict().get("type") if isinstance(axis.scale, alt.Scale) else axis.scale
        if kind == "log" and isinstance(data, pd.DataFrame) and (lost := int((data[axis.column] <= 0).sum())):
            raise ValueError(
                f"{lost} of {len(data)} values in column {axis.column!r} are not above 0 and have no "
                'place on a logarithmic axis: take the scale "symlog", or leave them out'
            )


def position(channel: type[Channel], axis: Axis, scale: alt.Scale) -> Channel:
    """Where a number stands."""
    return channel(f"{axis.column}:Q", scale=scale, axis=alt.Axis(title=axis.words, tickCount=6))


def column(channel: alt.SchemaBase) -> str:
    """The column behind an encoding, such as ``alt.X("step:Q")``."""
    return str(channel["shorthand"]).rpartition(":")[0]


def same_axis(channel: Channel, field: str) -> Channel:
    """Another column on the same axis."""
    return type(channel)(f"{field}:Q", scale=channel["scale"], axis=channel["axis"])


def tooltips(
    fields: Iterable[str | None],
    data: Data,
    numbers: Iterable[str],
    words: Mapping[str, str | None] | None = None,
) -> list[alt.Tooltip]:
    """What hovering shows: columns under their titles, those in `numbers` to four digits.

    `words` are a chart's own titles, for columns that have one there.
    """
    words = {field: text for field, text in (words or {}).items() if text and text.strip()}
    whole = set(numbers)
    if isinstance(data, pd.DataFrame):
        whole |= {str(name) for name in data if pd.api.types.is_float_dtype(data[name].dtype)}
    return [
        alt.Tooltip(f"{field}:Q", title=words.get(field, theme.title(field)), format=",.4~g")
        if field in whole
        else alt.Tooltip(f"{field}:N", title=words.get(field, theme.title(field)))
        for field in dict.fromkeys(fields)
        if field is not None
    ]


# --- marks ----------------------------------------------------------------------------------------------

PART = "part"  # what a published value's kind is called, since its look is that of the published
ROLE = "mark"  # the legend's column where no column of the table has colours


def mark_looks(
    by: str | None, names: Sequence[str], null: Null | None, *, words: str | None, one: str, paper: bool
) -> dict[str, Any]:
    """Colour and shape of marks; where nothing is coloured, a legend only if the paper's mark needs one."""
    if by == ROLE:
        raise ValueError(f"a column called {ROLE!r} can't be coloured, since legends use the name: rename it")
    if by is not None:
        control = null_kind(null, names)
        looks = theme.point_styles(by, names, null=control, published=paper, words=words)
    elif paper:
        looks = theme.point_styles(ROLE, [f"one {one}"], published=True, words="")
    else:
        return {}
    return dict(zip(("color", "shape"), looks, strict=True))


def marks(
    place: Mapping[str, Any],
    looks: Mapping[str, Any],
    event: str | None,
    tooltip: list[alt.Tooltip],
    *,
    size: str = "mark",
    beyond: str = "triangle-right",
) -> list[alt.Chart]:
    """A mark each row of the table, open where its event didn't come and the true value lies beyond."""
    base = alt.Chart()
    if looks and column(looks["color"]) == ROLE:  # the looks only tell measured marks from the paper's
        base = base.transform_calculate(**{ROLE: json.dumps(looks["color"]["scale"]["domain"][0])})
    colour, shape = (
        {name: look for name, look in looks.items() if name == which} for which in ("color", "shape")
    )
    base = base.encode(tooltip=tooltip, **place, **colour)
    full = base.mark_point(size=theme.SIZES[size], opacity=theme.OPACITY["mark"], clip=True).encode(**shape)
    if event is None:
        return [full]
    # not filtered, since a scale of no rows at all has no ends
    came, area = f"datum[{event!r}]", alt.value(theme.SIZES[size])
    open_marks = base.mark_point(shape=beyond, filled=False, strokeWidth=theme.WIDTHS["step"], clip=True)
    return [
        full.encode(size=alt.when(came).then(area).otherwise(alt.value(0))),
        open_marks.encode(size=alt.when(came).then(alt.value(0)).otherwise(area)),
    ]


def crosses(table: pd.DataFrame, place: Mapping[str, Any], looks: Mapping[str, Any]) -> alt.Chart:
    """The paper's values, with their own mark in the legend; in a strip amid a row, or in its part."""
    kind = column(looks["color"])
    part = PART if PART not in table or kind == PART else f"{PART}, published"
    rows = table.rename(columns={kind: part}).assign(**{kind: theme.PUBLISHED})
    mark = alt.Chart(alt.Data(values=rows.to_dict("records"))).mark_point(size=theme.SIZES["mark"], clip=True)
    where = {"x": place["x"], "y": place["y"]}
    if part in rows and "yOffset" in place:
        where["yOffset"] = alt.YOffset(f"{part}:N", scale=place["yOffset"]["scale"])
    fields = {name: part if name == kind and part in rows else name for name in table}
    tooltip = [alt.Tooltip(f"{field}:N", title=theme.title(str(name))) for name, field in fields.items()]
    return mark.encode(tooltip=tooltip, **where, **looks)


# --- levels across --------------------------------------------------------------------------------------


def named_levels(values: Levels | None, name: str = "") -> dict[str, float]:
    """Levels by name; a bare number is called `name`."""
    if values is None:
        return {}
    return (
        {str(key): float(value) for key, value in values.items()}
        if isinstance(values, Mapping)
        else {name: float(values)}
    )


def levels(
    *,
    reference: Levels | None,
    null: Null | None = None,
    published: Levels | None = None,
    upright: bool = False,
) -> list[alt.Chart]:
    """Rules across at references (dashed), controls (dotted, grey) and the paper's values, each named.

    A pair of nulls is a grey band; a null that is text is a kind and no level. Upright: along the x axis.
    """
    layers, grey = [], theme.NULL_COLOUR
    numbers = None if isinstance(null, str | tuple) else null
    if isinstance(null, tuple):
        ends = [{"level": null[0], "high": null[1], "name": "null"}]
        base = alt.Chart(alt.Data(values=ends))
        area = base.mark_rect(color=grey, opacity=theme.OPACITY["band"], clip=True)
        shown = area.encode(x="level:Q", x2="high:Q") if upright else area.encode(y="level:Q", y2="high:Q")
        layers += [shown, _level_names(base, upright)]
    layers += _rules(named_levels(numbers, "null"), theme.NULL_DASH, grey, upright)
    layers += _rules(named_levels(reference), theme.DASHES[1], theme.INK, upright)
    layers += _rules(named_levels(published, theme.PUBLISHED), theme.DASHES[3], theme.INK, upright)
    return layers


def _rules(values: Mapping[str, float], dash: Sequence[int], colour: str, upright: bool) -> list[alt.Chart]:
    if not values:
        return []
    rows = [{"level": level, "name": name} for name, level in values.items()]
    base = alt.Chart(alt.Data(values=rows))
    rules = base.mark_rule(
        strokeDash=list(dash),
        color=colour,
        opacity=theme.OPACITY["rule"],
        strokeWidth=theme.WIDTHS["rule"],
        clip=True,
    )
    layers = [rules.encode(x="level:Q") if upright else rules.encode(y="level:Q")]
    if any(values):
        layers.append(_level_names(base, upright))
    return layers


def _level_names(base: alt.Chart, upright: bool) -> alt.Chart:
    small = theme.TEXT["small"]
    if upright:  # above the plot, so that no mark hides them
        above = base.mark_text(align="center", baseline="bottom", dy=-4, fontSize=small)
        return above.encode(x="level:Q", y=alt.value(0), text="name:N")
    right = base.mark_text(align="right", baseline="bottom", dx=-3, dy=-2, fontSize=small)
    return right.encode(x=alt.value("width"), y="level:Q", text="name:N")


# --- Student's interval of the mean over seeds, computed by the chart -------------------------------------

# Student's 97.5% quantile by the number of seeds, for expressions of Vega. One seed has no interval; more
# than 40 get 40's, which is 3% too wide at most.
_QUANTILES = [0.0, 0.0, *(round(float(special.stdtrit(n - 1, 0.975)), 4) for n in range(2, 41))]


@dataclass(frozen=True)
class OverSeeds:
    """One row a group, of a chart's own making, and what its columns are called."""

    chart: alt.Chart
    centre: str
    low: str
    high: str
    n_seeds: str


def over_seeds(
    value: str, groupby: Sequence[str], *, centre: str = "mean", interval: bool | tuple[str, str] = True
) -> OverSeeds:
    """Centre ("mean" or "median") and interval of a column over its seeds, by groups.

    The interval is Student's of the mean, or lies between two columns that hold its ends.
    """
    # Vega-Lite makes one of two sums over the same groups: equal names would show one panel's numbers in both
    own = re.sub(r"\W", "_", value)
    at = {name: f"{name}_{own}" for name in ("centre", "low", "high", "n_seeds", "spread", "half")}
    ends = () if isinstance(interval, bool) else interval
    sums: dict[str, Any] = {
        at[end]: f"mean({column})" for end, column in zip(("low", "high"), ends, strict=False)
    }
    sums |= {at["centre"]: f"{centre}({value})", at["spread"]: f"stdev({value})"}
    sums |= {at["n_seeds"]: f"count({value})"}
    chart = alt.Chart().transform_aggregate(groupby=list(groupby), **sums)
    if not ends:
        n, spread = f"datum.{at['n_seeds']}", f"datum.{at['spread']}"
        quantile = f"{_QUANTILES}[min({n}, {len(_QUANTILES) - 1})]"
        half = f"{n} < 2 ? 0 : {quantile} * {spread} / sqrt({n})"
        middle, width = f"datum.{at['centre']}", f"datum.{at['half']}"
        chart = chart.transform_calculate(
            **{at["half"]: half, at["low"]: f"{middle} - {width}", at["high"]: f"{middle} + {width}"}
        )
    return OverSeeds(chart, at["centre"], at["low"], at["high"], at["n_seeds"])
