"""What the chapter on steered gradients measures and draws: times, survival, spectra, Adam's first steps."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Mapping, Sequence

import altair as alt
import numpy as np
import pandas as pd
import torch

from book.geometry.experiments import queries, steering
from book.geometry.experiments.grokking import (
    N_KEPT,
    GrokkingRun,
    Members,
    Setting,
    last_embedding,
    spectra,
    spectrum_epochs,
)
from book.geometry.experiments.pairs import read_pairs
from book.geometry.experiments.steering import GROKKED, LIMITS, MAIN, STRICT, VARIANTS
from embviz.ledger.cells import Cell, read
from embviz.ledger.studies import PRESETS
from embviz.models.transformer import Transformer
from embviz.training.fourier import Prescribed, Projection, RandomSubspace, power_spectrum, project_gradients
from embviz.view import charts, theme
from embviz.view.player import HISTORY

NOT_MEASURED = "not measured"
NEAR, BASELINE = "near-Nyquist", "baseline"
CONTROLS = {
    "random subspace": steering.CONTROLS["subspace"],
    "shuffled axis": steering.CONTROLS["shuffled"],
    "matched norm": steering.CONTROLS["matched_norm"],
    "switched off": steering.MORE_CONTROLS["switched_off"],
    "decay on embedding": steering.MORE_CONTROLS["decay_on_embedding"],
    "renamed {6, 7, 11, 19, 20}": steering.MORE_CONTROLS["renamed"],
}
RANDOM = "random modes"  # 20 sets, a seed each
OTHER_P = {"p = 113, near-Nyquist": steering.NEAR_113, "p = 113, baseline": steering.BASE_113}
RUNS = {**VARIANTS, **CONTROLS, **OTHER_P}
# Table 1 and Table 2 of the paper: epochs to grok, to memorize where it says.
PAPER = {
    NEAR: (57, 9),
    "adaptive 5": (97, 38),
    "{1, 14, 41}": (191, 32),
    "{1, ..., 5}": (261, 90),
    BASELINE: (782, 451),
    "p = 113, near-Nyquist": (75, None),
    "p = 113, baseline": (321, None),
    "{48}": (None, None),
}
KINDS = ("no projection", "high modes", "other modes", "adaptive", "control")
HIGH = 2 / 3  # mean mode over p/2, from which a set counts as high
SCORES = {"train_accuracy": "training", "validation_accuracy": "validation"}


# --- stored runs ----------------------------------------------------------------------------------------


def stored_preset() -> str:
    """The largest preset at which a run of Table 1 is stored, one seed or more.

    Raises
    ------
    FileNotFoundError
        If none is; the message has the command.
    """
    for preset in reversed(PRESETS):
        if any(stored(name, preset) for name in MAIN):
            return preset
    raise FileNotFoundError(
        "no run of Table 1 is stored: `embviz run geometry.pfft_speed --preset quick` does it"
    )


def cells_of(name: str, preset: str) -> list[Cell]:
    """All cells of a run, a key of RUNS or RANDOM, stored or not.

    Raises
    ------
    ValueError
        If there is no such run.
    """
    if name == RANDOM:
        return steering.random_cells(97, preset)
    if name not in RUNS:
        raise ValueError(f"no run {name!r}: choose one of {', '.join(RUNS)}, {RANDOM}")
    return steering.cells_of(RUNS[name], preset)


def stored(name: str, preset: str | None = None) -> list[Cell]:
    """Those cells of a run that are stored."""
    return [cell for cell in cells_of(name, preset or stored_preset()) if cell.stored()]


def stored_names(names: Iterable[str]) -> list[str]:
    """Those of `names` of which a seed is stored."""
    return [name for name in names if stored(name)]


def limit() -> int:
    """Epochs after which a stored run is given up."""
    return LIMITS[stored_preset()]


@functools.cache
def _table(cell: Cell) -> pd.DataFrame:
    return read(cell)[0]


def kind_of(name: str) -> str:
    """To which of KINDS a run belongs."""
    if name == RANDOM or name in CONTROLS:
        return "control"
    run = RUNS[name]
    if run.top_k:
        return "adaptive"
    if not run.modes:
        return "no projection"
    return KINDS[1] if np.mean(run.modes) > HIGH * (run.p // 2) else KINDS[2]


def found(names: Iterable[str]) -> dict[str, list[Cell]]:
    """Stored cells of each run, those of which none is stored left out."""
    return {name: cells for name in dict.fromkeys(names) if (cells := stored(name))}


def times_of(found: Mapping[str, Sequence[Cell]], threshold: float = GROKKED) -> pd.DataFrame:
    """Times of stored cells: run, and the columns of :func:`~.geometry.steering.times`, a row a seed."""
    parts = [steering.times(cells, threshold).assign(run=name) for name, cells in found.items()]
    table = pd.concat(parts or [steering.times([]).assign(run="")], ignore_index=True)
    return table.astype({"grokked": bool, "memorized": bool})


def times(names: Iterable[str], threshold: float = GROKKED) -> pd.DataFrame:
    """Times of all stored seeds of runs, by name, with the `kind` of run."""
    table = times_of(found(names), threshold)
    return table.assign(kind=table["run"].map(kind_of))


def seeds_note(names: Iterable[str]) -> str:
    """How many seeds of the runs are stored, for a caption, and at which size."""
    n_seeds = [len(stored(name)) for name in names]
    have = sorted({n for n in n_seeds if n})
    text = {0: "no seed"}.get(len(have), f"{have[0] if have else 0} seeds")
    if len(have) > 1:
        text = f"{have[0]} to {have[-1]} seeds"
    if have == [1]:
        text = "1 seed"
    absent = f"; {n_seeds.count(0)} of {len(n_seeds)} runs {NOT_MEASURED} yet" if 0 in n_seeds else ""
    batch = steering.SETTINGS[stored_preset()].batch_size
    size = f"batches of {batch} pairs" if batch else "one full batch an epoch"
    return f"{text} each, {size}, at most {limit():,} epochs{absent}."


# --- medians and tables ---------------------------------------------------------------------------------


def median_time(table: pd.DataFrame, column: str = "grok") -> str:
    """Median over seeds, in epochs, as text; "> 1,500" where half of the runs never got there."""
    if table.empty:
        return NOT_MEASURED
    median = float(table[column].median())
    return f"> {limit():,}" if median >= limit() else f"{median:,.0f}"


def spread(table: pd.DataFrame, column: str) -> str:
    if table.empty:
        return ""
    ends = [
        f"> {limit():,}" if end >= limit() else f"{end:,.0f}" for end in table[column].agg(["min", "max"])
    ]
    return ends[0] if ends[0] == ends[1] else f"{ends[0]} to {ends[1]}"


def paired_speedup(table: pd.DataFrame, base: pd.DataFrame, column: str = "grok") -> str:
    """Mean speed-up over the seeds that have a baseline, in percent; a censored time counts as its limit."""
    pairs = table[table["seed"].isin(base["seed"])]
    if pairs.empty:
        return NOT_MEASURED
    return f"{steering.speedups(pairs, base, column).mean():.1f}"


def table_of_times(names: Sequence[str], *, base: str = BASELINE) -> pd.DataFrame:
    """Epochs to grok and to memorize beside the paper's: a row a run, medians over stored seeds.

    Parameters
    ----------
    names : sequence of str
        Keys of RUNS, or RANDOM.
    base : str
        The run that speed-ups are paired with.
    """
    loose, strict = (times([*names, base], threshold) for threshold in (GROKKED, STRICT))
    rows = {}
    for name in names:
        own, hard = (table[table["run"] == name] for table in (loose, strict))
        published = PAPER.get(name, (None, None))
        rows[name] = {
            "seeds": len(own),
            "to grok, paper": published[0] or ("never" if name == "{48}" else ""),
            "to grok": median_time(own),
            "all seeds": spread(own, "grok"),
            "to grok, 0.99": median_time(hard),
            "to memorize, paper": published[1] or "",
            "to memorize": median_time(own, "memorize"),
            "speed-up %": "" if name == base else paired_speedup(own, loose[loose["run"] == base]),
        }
    return pd.DataFrame.from_dict(rows, orient="index").rename_axis("run")


def updates_table(names: Sequence[str] = tuple(MAIN)) -> pd.DataFrame:
    """Epochs and updates to grok, medians over stored seeds, at every preset that has one: a row a run."""
    rows = []
    for preset in PRESETS[1:]:
        for name in names:
            if found := stored(name, preset):
                table, config = steering.times(found), found[0].config
                median = float(table["grok"].median())
                late = "> " if median >= LIMITS[preset] else ""
                row = {
                    "batch": config.setting.batch_size or "all pairs",
                    "run": name,
                    "seeds": len(table),
                    "updates an epoch": config.steps_per_epoch,
                    "epochs to grok": f"{late}{median:,.0f}",
                    "updates to grok": f"{late}{median * config.steps_per_epoch:,.0f}",
                }
                rows.append(row)
    columns = ["batch", "run", "seeds", "updates an epoch", "epochs to grok", "updates to grok"]
    return pd.DataFrame(rows, columns=columns).set_index(["batch", "run"])


# --- sentences true of the drawn data -------------------------------------------------------------------


def order_finding() -> str:
    """The order of Table 1's rows by median epochs to grok, as far as they are stored."""
    table = times(MAIN)
    if table["run"].nunique() < 2:
        return "Fewer than two rows of Table 1 are measured yet"
    medians = table.groupby("run", sort=False)["grok"].median().sort_values(kind="stable")
    ours = [name for name in MAIN if name in medians.index]
    same = "the paper's order" if list(medians.index) == ours else "not the paper's order"
    said = ", ".join(f"{name} {median_time(table[table['run'] == name])}" for name in medians.index)
    return f"Median epochs to grok: {said}; {same}"


def slower_finding() -> str:
    """In how many pairs of one seed each projection of Table 1 was slower than none, as far as stored."""
    table = times(MAIN)
    base = table[table["run"] == BASELINE].set_index("seed")["grok"]
    said = []
    for name, own in table[table["run"] != BASELINE].groupby("run", sort=False):
        pairs = own.set_index("seed")["grok"].to_frame().join(base.rename("base"), how="inner")
        if len(pairs):
            said.append(f"{name} {int((pairs['grok'] > pairs['base']).sum())} of {len(pairs)}")
    if not said:
        return f"Pairs with a baseline are {NOT_MEASURED} yet"
    return f"Slower than the baseline of its own seed: {', '.join(said)}"


def strict_finding() -> str:
    """How many epochs lie between the two thresholds, median over the stored runs of Table 1."""
    loose, strict = (times(MAIN, threshold) for threshold in (GROKKED, STRICT))
    both = loose["grokked"] & strict["grokked"]
    if not both.any():
        return "No run reached both thresholds"
    gap = (strict["grok"] - loose["grok"])[both]
    said = f"{gap.median():.0f} epochs more, at most {gap.max():,}"
    return f"From 95% to 99% of the validation pairs it takes {said}"


def control_finding() -> str:
    """Median epochs to grok of the controls beside the near-Nyquist modes, as far as they are stored."""
    table = times([NEAR, *CONTROLS, RANDOM])
    said = [f"{name} {median_time(table[table['run'] == name])}" for name in dict.fromkeys(table["run"])]
    if len(said) < 2:
        return f"The controls are {NOT_MEASURED} yet"
    return f"Median epochs to grok beside the controls: {', '.join(said)}"


def memorization_finding() -> str:
    """By how many epochs near-Nyquist runs memorize before they grok, median over seeds."""
    table = times([NEAR])
    if table.empty:
        return f"Near-Nyquist modes are {NOT_MEASURED} yet"
    memorized, grokked = table["memorize"].median(), table["grok"].median()
    return (
        f"With near-Nyquist modes 99% of the training pairs are right at epoch {memorized:.0f}, 95% of the "
        f"validation pairs at epoch {grokked:.0f}"
    )


def rank_finding() -> str:
    """The variants with the fewest epochs to grok and to memorize, by median."""
    table = times(VARIANTS)
    if table["run"].nunique() < 2:
        return "Fewer than two variants are measured yet"
    medians = table.groupby("run", sort=False)[["grok", "memorize"]].median()
    first = {column: medians[column].idxmin() for column in medians}
    n = len(medians)
    if first["grok"] == first["memorize"]:
        return f"Of {n} variants {first['grok']} has the fewest epochs both to memorize and to grok"
    return f"Of {n} variants {first['grok']} groks first, {first['memorize']} memorizes first"


# --- Figure 1 -------------------------------------------------------------------------------------------


def plot_times(names: Sequence[str], threshold: float = GROKKED) -> alt.LayerChart:
    """Figure 1a: :func:`plot_time_marks` of runs by name; those that aren't stored have an empty row."""
    published = {name: float(known) for name in names if (known := PAPER.get(name, (None, None))[0])}
    return plot_time_marks(times(names, threshold), names, by="kind", kinds=KINDS, published=published)


def plot_time_marks(
    table: pd.DataFrame,
    names: Sequence[str],
    *,
    by: str,
    kinds: Sequence[str],
    published: Mapping[str, float],
) -> alt.LayerChart:
    """A mark for each seed at its epochs to grok; open triangles at the limit are censored.

    Parameters
    ----------
    table : DataFrame
        Of :func:`times_of`, with a column `by`.
    names : sequence of str
        Runs in the order of their rows.
    by : str
        Column told apart by colour and shape, a key of ``theme.LABELS``; `kinds` are its values.
    published : mapping of str to float
        The paper's epochs by run, drawn as crosses.
    """
    table = table.assign(label=np.where(table["grokked"], table["grok"].astype(str), f"> {limit()}"))
    colour, shape = theme.point_styles(by, list(kinds))
    ends = alt.Scale(type="log", domain=[_floor(table["grok"]), 1.4 * limit()], nice=False)
    rows = alt.Y("run:N", scale=alt.Scale(domain=list(names)), axis=alt.Axis(title=None, labelLimit=200))
    across = alt.X("grok:Q", scale=ends, axis=theme.axis("grok", tick_count=6))
    fields = {
        "run:N": "run",
        "seed:N": "seed",
        "label:N": "epochs to grok",
        "memorize:Q": "epochs to memorize",
    }
    tooltip = [alt.Tooltip(field, title=title) for field, title in fields.items()]
    shown = alt.Chart(table).encode(x=across, y=rows, color=colour, tooltip=tooltip)
    reached = shown.transform_filter("datum.grokked").mark_point(size=50, opacity=0.75).encode(shape=shape)
    censored = shown.transform_filter("!datum.grokked").mark_point(
        shape="triangle-right", size=70, filled=False, strokeWidth=1.5
    )
    medians = (
        alt.Chart(table)
        .transform_aggregate(middle="median(grok)", groupby=list(dict.fromkeys(["run", by])))
        .mark_tick(thickness=3, size=16)
        .encode(x="middle:Q", y=rows, color=colour)
    )
    theirs = (
        alt.Chart(alt.Data(values=[{"run": name, "grok": epochs} for name, epochs in published.items()]))
        .mark_point(shape="cross", angle=45, size=55, filled=True)
        .encode(x=across, y=rows, color=alt.value(theme.INK))
    )
    return alt.LayerChart(layer=[medians, reached, censored, theirs]).properties(
        width="container", height=24 * len(names)
    )


def _floor(values: pd.Series) -> float:
    """Where a logarithmic axis of epochs begins."""
    return max(1.0, 0.7 * float(values.min())) if len(values) else 10.0


def plot_memorization(names: Sequence[str]) -> alt.LayerChart:
    """Figure 1b: epochs to memorize against epochs to grok, every seed; on the diagonal both come at once."""
    table = times(names)
    low, high = _floor(table[["grok", "memorize"]].min(axis=1)), 1.4 * limit()
    ends = alt.Scale(type="log", domain=[low, high], nice=False)
    colour, shape = theme.point_styles("kind", list(KINDS))
    marks = alt.Chart(table).encode(
        x=alt.X("memorize:Q", scale=ends, axis=theme.axis("memorize", tick_count=5)),
        y=alt.Y("grok:Q", scale=ends, axis=theme.axis("grok", tick_count=5)),
        color=colour,
        tooltip=["run:N", "seed:N", "memorize:Q", "grok:Q", "grokked:N"],
    )
    reached = marks.transform_filter("datum.grokked").mark_point(size=55, opacity=0.75).encode(shape=shape)
    censored = marks.transform_filter("!datum.grokked").mark_point(
        shape="triangle-up", size=70, filled=False, strokeWidth=1.5
    )
    diagonal = alt.Chart(alt.Data(values=[{"at": low}, {"at": high}]))
    line = diagonal.mark_line(strokeDash=list(theme.DASHES[1]), color=theme.INK, strokeWidth=1).encode(
        x=alt.X("at:Q", scale=ends), y=alt.Y("at:Q", scale=ends)
    )
    return alt.LayerChart(layer=[line, reached, censored]).properties(width="container", height=320)


def survival_table(table: pd.DataFrame) -> pd.DataFrame:
    """Kaplan-Meier curves of :func:`times`, as :func:`~.geometry.queries.survival` has them, by `run`."""
    curves = [queries.survival(own).assign(run=name) for name, own in table.groupby("run", sort=False)]
    if not curves:
        return pd.DataFrame(columns=["epoch", "waiting", "low", "high", "run"])
    return pd.concat(curves, ignore_index=True).rename(columns={"share": "waiting"})


def plot_survival(table: pd.DataFrame, names: Sequence[str]) -> alt.LayerChart:
    """Share of runs that have not grokked yet, over the epochs, with pointwise 95% intervals.

    Parameters
    ----------
    table : DataFrame
        Of :func:`survival_table`.
    names : sequence of str
        Runs in the order of their colours, at most five.
    """
    key = alt.Legend(title=None, symbolType="stroke", symbolStrokeWidth=2.5, columns=3)
    colour, dash = theme.line_styles("run", list(names))
    first = float(table.loc[table["epoch"] > 0, "epoch"].min()) if len(table) else 10.0
    ends = alt.Scale(type="log", domain=[0.7 * first, limit()], nice=False, clamp=True)
    base = alt.Chart(table).encode(
        x=alt.X("epoch:Q", scale=ends, axis=theme.axis("epoch", tick_count=6)),
        color=colour.legend(key),
    )
    up = alt.Y("waiting:Q", axis=theme.axis("waiting"), scale=alt.Scale(domain=[0, 1], nice=False))
    band = base.mark_area(interpolate="step-after", opacity=0.12).encode(
        y=alt.Y("low:Q", scale=alt.Scale(domain=[0, 1], nice=False)), y2="high:Q"
    )
    tooltip = [alt.Tooltip("run:N"), alt.Tooltip("epoch:Q"), alt.Tooltip("waiting:Q", format=".2f")]
    line = base.mark_line(interpolate="step-after", strokeWidth=2.5).encode(
        y=up, strokeDash=dash.legend(key), tooltip=tooltip
    )
    return alt.LayerChart(layer=[band, line]).properties(width="container", height=280)


# --- accuracy over the epochs ---------------------------------------------------------------------------


def accuracy_curves(found: Mapping[str, Sequence[Cell]], *, n_points: int = 70) -> pd.DataFrame:
    """Training and validation accuracy of stored cells, at epochs in about equal ratios.

    Returns
    -------
    DataFrame
        `run`, `seed`, `epoch` (from 1), `which` (of SCORES' values), `accuracy`.
    """
    grid = np.geomspace(1, limit(), n_points)
    parts = []
    for name, cell in ((name, cell) for name, cells in found.items() for cell in cells):
        table = _table(cell)
        for quantity, which in SCORES.items():
            rows = table[(table["quantity"] == quantity) & (table["epoch"] > 0)].sort_values("epoch")
            bins = pd.Series(np.searchsorted(grid, rows["epoch"]), index=rows.index)
            kept = rows[~bins.duplicated(keep="last")]
            part = {"run": name, "seed": kept["seed"], "epoch": kept["epoch"], "which": which}
            parts.append(pd.DataFrame(part | {"accuracy": kept["value"].astype(float)}))
    return pd.concat(parts, ignore_index=True)


def plot_accuracy(data: charts.Data) -> alt.LayerChart:
    """Accuracies of one run over the epochs, a line a seed, both thresholds dashed."""
    key = alt.Legend(title=None, symbolType="stroke", symbolOpacity=1, symbolStrokeWidth=2.5)
    colour, dash = (style.legend(key) for style in theme.line_styles("which", list(SCORES.values())))
    ends = alt.Scale(type="log", domain=[1, limit()], nice=False)
    lines = (
        alt.Chart(data)
        .mark_line(strokeWidth=1.5, opacity=0.75, clip=True)
        .encode(
            x=alt.X("epoch:Q", scale=ends, axis=theme.axis("epoch", tick_count=6)),
            y=alt.Y("accuracy:Q", axis=theme.axis("accuracy"), scale=alt.Scale(domain=[0, 1.02], nice=False)),
            color=colour,
            strokeDash=dash,
            detail="seed:N",
            tooltip=["seed:N", "which:N", "epoch:Q", "accuracy:Q"],
        )
    )
    levels = alt.Chart(alt.Data(values=[{"level": level} for level in (GROKKED, STRICT)]))
    rules = levels.mark_rule(strokeDash=list(theme.DASHES[2]), opacity=0.6).encode(y="level:Q")
    return alt.LayerChart(layer=[rules, lines]).properties(width="container", height=theme.HEIGHT)


# --- modes of the embedding -----------------------------------------------------------------------------


def power_shares(name: str, seed: int = 0) -> pd.DataFrame:
    """Share of each mode above 0 in the embedding's power, at the epochs where it was stored.

    Returns
    -------
    DataFrame
        `epoch`, `mode`, `power_share`.
    """
    (cell,) = [cell for cell in stored(name) if cell.config.first_seed == seed]
    table = spectra(_table(cell))
    table = table[table["mode"] > 0].sort_values(["epoch", "mode"])
    whole = table.groupby("epoch")["power"].transform("sum")
    return table[["epoch", "mode"]].assign(power_share=table["power"] / whole).reset_index(drop=True)


def strongest_modes(names: Sequence[str], *, top: int = 5) -> pd.DataFrame:
    """The strongest modes of trained embeddings, strongest first: a row a run, a column a seed."""
    columns = {}
    for name, cells in found(names).items():
        for seed in (cell.config.first_seed for cell in cells):
            table = power_shares(name, seed)
            end = table[table["epoch"] == table["epoch"].max()].nlargest(top, "power_share")
            columns[name, f"seed {seed}"] = ", ".join(map(str, end["mode"]))
    table = pd.Series(columns).unstack().reindex(list(dict.fromkeys(name for name, _ in columns)))
    return table.fillna("").rename_axis("run")


def names_with_seed(names: Iterable[str], seed: int = 0) -> list[str]:
    """Those of `names` of which this seed is stored."""
    return [name for name in names if any(cell.config.first_seed == seed for cell in stored(name))]


def spectrum_frames(names: Sequence[str], seed: int = 0) -> pd.DataFrame:
    """Frames of a player: one seed's embedding spectrum and accuracies, for each run.

    All runs have the same frames; after a run's last epoch its last spectrum stays.

    Returns
    -------
    DataFrame
        `run`, `frame` (epochs), `mode`, `power_share`, `chosen` (whether the projection keeps the mode),
        `training` and `validation` accuracy.
    """
    shares = {name: power_shares(name, seed) for name in names}
    last = max(int(table["epoch"].max()) for table in shares.values())
    epochs = [epoch for epoch in spectrum_epochs(limit()) if epoch < last] + [last]
    parts = []
    for name, table in shares.items():
        (cell,) = [cell for cell in stored(name) if cell.config.first_seed == seed]
        wide = table.pivot(index="epoch", columns="mode", values="power_share")
        held = wide.reindex(wide.index.union(epochs)).ffill().loc[epochs]
        part = held.rename_axis("frame").reset_index().melt("frame", value_name="power_share")
        part = part.astype({"mode": int}).sort_values(["frame", "mode"], ignore_index=True)
        part["chosen"] = np.where(part["mode"].isin(cell.config.modes), "prescribed", "other")
        for quantity, which in SCORES.items():
            rows = _table(cell)[_table(cell)["quantity"] == quantity].set_index("epoch")["value"]
            seen = rows.reindex(rows.index.union(epochs)).ffill().loc[epochs]
            part[which] = part["frame"].map(seen).astype(float)
        parts.append(part.assign(run=name))
    return pd.concat(parts, ignore_index=True)


def plot_spectrum_frames(frames: pd.DataFrame) -> Callable[[alt.NamedData], alt.HConcatChart]:
    """Drawing function of a player over :func:`spectrum_frames`."""
    return functools.partial(
        _draw_spectrum, top=float(frames["power_share"].max()), last=int(frames["frame"].max())
    )


def _draw_spectrum(data: alt.NamedData, *, top: float, last: int) -> alt.HConcatChart:
    colour = alt.Color(
        "chosen:N",
        scale=alt.Scale(domain=["prescribed", "other"], range=[theme.CATEGORIES[1], theme.CATEGORIES[0]]),
        legend=alt.Legend(title=None, orient="top"),
    )
    bars = (
        alt.Chart(data)
        .mark_bar(width=4)
        .encode(
            x=alt.X("mode:Q", axis=theme.axis("mode", tick_count=6), scale=alt.Scale(nice=False, padding=4)),
            y=alt.Y(
                "power_share:Q",
                axis=theme.axis("power_share", tick_count=5),
                scale=alt.Scale(domain=[0, 1.05 * top], nice=False),
            ),
            color=colour,
            tooltip=["mode:Q", alt.Tooltip("power_share:Q", format=".3f")],
        )
        .properties(width=300, height=215)
    )
    colours, dash = theme.line_styles("which", list(SCORES.values()))
    key = alt.Legend(title=None, orient="top", symbolType="stroke")
    curve = (
        alt.Chart(HISTORY)
        .transform_filter("datum.frame <= frame")
        .transform_fold(list(SCORES.values()), as_=["which", "value"])
        .mark_line(clip=True)
        .encode(
            x=alt.X(
                "frame:Q",
                axis=theme.axis("epoch", tick_count=4),
                scale=alt.Scale(type="symlog", constant=10, domain=[0, last], nice=False),
            ),
            y=alt.Y("value:Q", axis=theme.axis("accuracy"), scale=alt.Scale(domain=[0, 1.02], nice=False)),
            color=colours.legend(key),
            strokeDash=dash.legend(key),
        )
        .properties(width=230, height=215)
    )
    return alt.hconcat(bars, curve).resolve_scale(color="independent", strokeDash="independent")


def kept_shares() -> pd.DataFrame:
    """Power that the trained embedding has in prescribed modes, steered with them and not.

    Returns
    -------
    DataFrame
        `run` (variants with prescribed modes), `seed`, `model` ("steered" or "baseline, same modes"),
        `power_share`, and `flat`, what equal power in all modes would give.
    """
    rows = []
    for name in stored_names(VARIANTS):
        modes = stored(name)[0].config.modes
        for model, which in (("steered", name), ("baseline, same modes", BASELINE)):
            for cell in stored(which) if modes else []:
                seed = cell.config.first_seed
                table = power_shares(which, seed)
                end = table[table["epoch"] == table["epoch"].max()].set_index("mode")["power_share"]
                share = float(end.reindex(list(modes), fill_value=0.0).sum())  # mode 0 has no share
                rows.append((name, seed, model, share, len(modes) / len(end)))
    return pd.DataFrame(rows, columns=["run", "seed", "model", "power_share", "flat"])


def plot_kept_shares(table: pd.DataFrame) -> alt.LayerChart:
    """A mark for each seed of :func:`kept_shares`; a bar marks what a flat spectrum has."""
    names = list(dict.fromkeys(table["run"]))
    colour, shape = theme.point_styles("model", ["steered", "baseline, same modes"])
    rows = alt.Y("run:N", scale=alt.Scale(domain=names), axis=alt.Axis(title=None, labelLimit=200))
    ends = alt.Scale(domain=[0, 1], nice=False)
    across = alt.X("power_share:Q", axis=theme.axis("power_share", tick_count=6), scale=ends)
    marks = (
        alt.Chart(table.round(4))
        .mark_point(size=55, opacity=0.75)
        .encode(
            x=across,
            y=rows,
            color=colour,
            shape=shape,
            tooltip=["run:N", "seed:N", "model:N", "power_share:Q"],
        )
    )
    flat = (
        alt.Chart(table.drop_duplicates("run").round(4))
        .mark_tick(thickness=2, size=16)
        .encode(x=alt.X("flat:Q", scale=ends), y=rows, color=alt.value(theme.INK))
    )
    return alt.LayerChart(layer=[flat, marks]).properties(width="container", height=26 * max(len(names), 1))


def kept_finding(table: pd.DataFrame) -> str:
    """One sentence on :func:`kept_shares` of the near-Nyquist modes, true of the drawn data."""
    own = table[table["run"] == NEAR]
    if own.empty:
        return f"Near-Nyquist modes are {NOT_MEASURED} yet"
    steered = own.loc[own["model"] == "steered", "power_share"].mean()
    said = f"Steered embeddings end with {steered:.0%} of their power in the near-Nyquist modes"
    plain = own.loc[own["model"] != "steered", "power_share"]
    return f"{said}, the baseline's with {plain.mean():.0%}" if len(plain) else said


# --- Adam's steps ---------------------------------------------------------------------------------------

FEW_MODES = {  # of a small model, by their place below p/2
    "near-Nyquist": (10, 11, 13, 14, 15),
    "lowest five": (1, 2, 3, 4, 5),
    "one mode": (15,),
    "random subspace": (),
}
SMALL = GrokkingRun(p=31, train_share=0.6, setting=Setting(n_layers=1))
OPTIMIZERS = ("gradient descent", "Adam")


@functools.cache
def first_gradient(p: int = 97, seed: int = 0) -> torch.Tensor:
    """The embedding's gradient over all training pairs before the first update, (p, D), float64."""
    config = GrokkingRun(p=p)
    model = Transformer(config.shape, seed=seed).double()
    _loss(model, Members(config, [seed])).backward()
    assert model.embedding.grad is not None
    return model.embedding.grad[:p].clone()


def _loss(model: Transformer, members: Members) -> torch.Tensor:
    """Cross entropy over all training pairs."""
    rows = members.train[0]
    logits = read_pairs(model, members.strings[rows, 0], members.strings[rows, 1])
    return torch.nn.functional.cross_entropy(logits, members.answers[rows])


def first_update(kept: int) -> pd.DataFrame:
    """Spectrum of Adam's first update when the gradient is projected onto the mode `kept`, p = 97.

    Adam's first update is the sign of each coordinate, since both its averages hold one gradient. The sign
    of a wave is a square wave, which has the odd multiples of the mode.

    Returns
    -------
    DataFrame
        `mode`, `power_share`, `source`: "the mode", "odd multiples" (3 to 11 times it, folded back into
        0..p//2), "others".
    """
    gradient = Prescribed((kept,)).apply(first_gradient())
    power = power_spectrum(torch.sign(gradient))
    p = len(gradient)
    odd = {min(n * kept % p, -n * kept % p) for n in range(3, 12, 2)}
    names = [
        "the mode" if k == kept else "odd multiples" if k in odd else "others" for k in range(len(power))
    ]
    return pd.DataFrame({"mode": range(len(power)), "power_share": power / power.sum(), "source": names})


def plot_first_update(data: charts.Data) -> alt.Chart:
    """Bars of :func:`first_update`, on a scale of ratios: harmonics fall as one over their square."""
    names = ["the mode", "odd multiples", "others"]
    colours = alt.Scale(domain=names, range=[theme.CATEGORIES[1], theme.CATEGORIES[0], "#888888"])
    ends = alt.Scale(type="log", domain=[1e-4, 1], nice=False, clamp=True)
    return (
        alt.Chart(data)
        .mark_bar()
        .encode(
            x=alt.X(
                "mode:O", axis=alt.Axis(title=theme.title("mode"), values=list(range(0, 49, 6)), labelAngle=0)
            ),
            y=alt.Y("power_share:Q", axis=theme.axis("power_share", number_format="~g"), scale=ends),
            y2=alt.datum(1e-4),
            color=alt.Color("source:N", scale=colours, legend=alt.Legend(title=None)),
            tooltip=["mode:O", alt.Tooltip("power_share:Q", format=".4f")],
        )
        .properties(width="container", height=240)
    )


def first_shares() -> pd.DataFrame:
    """Share of gradient and first update that lie in the subspace, p = 97: a row a projection."""
    gradient = first_gradient()
    kept: dict[str, Projection] = {name: Prescribed(run.modes) for name, run in VARIANTS.items() if run.modes}
    kept["random subspace"] = RandomSubspace(10, 0)
    rows = {}
    for name, projection in kept.items():
        projected = projection.apply(gradient)
        rows[name] = {
            "gradient before": _inside(gradient, projection),
            "gradient after": _inside(projected, projection),
            "Adam's first update": _inside(torch.sign(projected), projection),
        }
    return pd.DataFrame.from_dict(rows, orient="index").round(3).rename_axis("projection")


def _inside(step: torch.Tensor, projection: Projection) -> float:
    """Share of a step's squared length that the projection keeps."""
    return float(projection.apply(step).square().sum() / step.square().sum())


def added_shares() -> pd.DataFrame:
    """Share of what all updates of a stored run added to the embedding that lies in the prescribed modes.

    What is left of the start, which weight decay shrinks at a known rate, is subtracted.

    Returns
    -------
    DataFrame
        Indexed by run: `updates` and the share, means over seeds 0 and 1, whose embeddings are stored.
    """
    rows = []
    for name in stored_names(VARIANTS):
        for cell in stored(name) if RUNS[name].modes else []:
            config, seed = cell.config, cell.config.first_seed
            if seed >= N_KEPT:
                continue
            table = _table(cell)
            updates = int(table["epoch"].max()) * config.steps_per_epoch
            start = Transformer(config.shape, seed=seed).embedding.detach()[: config.p]
            left = (1 - config.setting.learning_rate * config.setting.weight_decay) ** updates
            added = torch.from_numpy(last_embedding(table, seed)) - left * start
            rows.append((name, updates, _inside(added.double(), Prescribed(config.modes))))
    table = pd.DataFrame(rows, columns=["run", "updates", "share inside"])
    means = table.groupby("run", sort=False).agg({"updates": "mean", "share inside": "mean"})
    return means.round({"updates": 0, "share inside": 3}).astype({"updates": int})


def leaving(projection: str, *, n_updates: int = 30) -> pd.DataFrame:
    """Share of each update of the embedding inside the subspace its gradient was projected onto.

    A small model (p = 31, one layer) in double precision, without weight decay, whose step is no function
    of the gradient.

    Parameters
    ----------
    projection : str
        A key of FEW_MODES.

    Returns
    -------
    DataFrame
        `optimizer`, `update` (from 1), `inside`.
    """
    modes = FEW_MODES[projection]
    kept: Projection = Prescribed(modes) if modes else RandomSubspace(10, 0)
    members = Members(SMALL, [0])
    rows = []
    for name in OPTIMIZERS:
        model = Transformer(SMALL.shape, seed=0).double()
        parameters = list(model.parameters())
        optimizer = torch.optim.Adam(parameters, 1e-3) if name == "Adam" else torch.optim.SGD(parameters, 0.1)
        for update in range(1, n_updates + 1):
            optimizer.zero_grad()
            _loss(model, members).backward()
            project_gradients(model.embedding, kept, n_rows=SMALL.p)
            before = model.embedding.detach().clone()
            optimizer.step()
            moved = (model.embedding.detach() - before)[: SMALL.p]
            rows.append((name, update, _inside(moved, kept)))
    return pd.DataFrame(rows, columns=["optimizer", "update", "inside"])


def plot_leaving(data: charts.Data) -> alt.LayerChart:
    """Lines of :func:`leaving`, with the share of a sign's update that a spread of many waves would keep."""
    colour, dash = theme.line_styles("optimizer", list(OPTIMIZERS))
    lines = (
        alt.Chart(data)
        .mark_line(strokeWidth=2.5)
        .encode(
            x=alt.X("update:Q", axis=theme.axis("update"), scale=alt.Scale(nice=False)),
            y=alt.Y("inside:Q", axis=theme.axis("inside"), scale=alt.Scale(domain=[0, 1.02], nice=False)),
            color=colour,
            strokeDash=dash,
            tooltip=["optimizer:N", "update:Q", alt.Tooltip("inside:Q", format=".2f")],
        )
    )
    rows = [{"level": 10 / SMALL.p, "name": "any direction, 10 of 31"}, {"level": 2 / np.pi, "name": "2/π"}]
    base = alt.Chart(alt.Data(values=rows)).encode(y="level:Q")
    rules = base.mark_rule(strokeDash=list(theme.DASHES[2]), opacity=0.7)
    names = base.mark_text(align="right", baseline="bottom", dx=-3, dy=-2, fontSize=11).encode(
        x=alt.value("width"), text="name:N"
    )
    return alt.LayerChart(layer=[rules, names, lines]).properties(width="container", height=240)
