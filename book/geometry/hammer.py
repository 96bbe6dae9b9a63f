"""What the chapter on the Sounding Hammer measures and draws: baselines, modes, strikes of any tensor."""

from __future__ import annotations

import functools
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import altair as alt
import numpy as np
import pandas as pd
import torch
from scipy import stats

from book.geometry.experiments import hammer_language, hammer_modular, soundings
from book.geometry.experiments.films import SETTING
from book.geometry.experiments.grokking import GrokkingRun, Members
from book.geometry.experiments.hammer_language import MLP, POSITIONS, TOKENS, TRAINED
from book.geometry.experiments.hammer_modular import END, MEMORY, MOMENTS, NANDA, START, TOP
from book.geometry.experiments.steering import BASE
from book.geometry.grokking import about, renamed, with_new_names
from embviz.ledger.cells import Cell, missing, read
from embviz.ledger.studies import PRESETS, largest_stored
from embviz.training.fourier import Sounding, sound, tabulate
from embviz.view import charts, theme
from embviz.view.explorers import Choice, Control, Number, Range
from embviz.view.player import HISTORY, NOTE

NOT_MEASURED = "not measured"
CLAIM = "geometry.hammer_modular"
WIDTHS = (1, 2, 4, 8, 16, 32, 64, 128, 256)  # columns of tensors of noise
N_DRAWS = 10
PAPER = {POSITIONS: 0.82, MLP: 0.495, TOKENS: 0.42}  # Table 3; MLP outputs: 0.45 to 0.54 over the layers
NULL_Z = 4.0  # z-scores within are what chance gives: they are many, and skewed
LIMIT = 300  # epochs of a live run
ROW = 580  # pixels: width of the player
SIDES = ("gradient", "embedding")  # of a film
STRONG, OTHER = "K strongest", "other modes"
REST = "other modes"
KINDS = {
    "gradient": "gradient",
    "embedding": "embedding itself",
    "permuted": "gradient, rows permuted",
}
MODULAR_MOMENTS = {START: "before training", MEMORY: "memorized", END: "at the end"}


# --- the baselines --------------------------------------------------------------------------------------


def noise_regularity(rows: int, top: int) -> pd.DataFrame:
    """Regularity of white noise of so many rows, by the number of its columns.

    Returns
    -------
    DataFrame
        `columns`, `regularity`, and what it is, `kind`: "drawn", 10 tensors each; "expected", what
        :class:`embviz.training.fourier.Sounding` has as `noise`; "flat", the share of the modes counted.
    """
    table = []
    for columns in WIDTHS:
        for draw in range(N_DRAWS):
            rng = np.random.default_rng([rows, columns, draw])
            noise = torch.from_numpy(rng.standard_normal((rows, columns)))
            heard = sound(noise, top=top, n_permutations=2)
            table.append((columns, heard.regularity, "drawn"))
        table += [(columns, heard.noise, "expected"), (columns, heard.flat, "flat")]
    return pd.DataFrame(table, columns=["columns", "regularity", "kind"])


def plot_noise(data: charts.Data) -> alt.LayerChart:
    """Draws as points, what is expected as a line, the flat baseline dashed."""
    across = alt.X(
        "columns:Q",
        scale=alt.Scale(type="log", base=2, nice=False, padding=8),
        axis=alt.Axis(title=theme.title("columns"), values=list(WIDTHS), format="d"),
    )
    up = alt.Y("regularity:Q", axis=theme.axis("regularity"))
    key = alt.Legend(title=None, symbolType="stroke", symbolStrokeWidth=2.5)
    names = ["expected", "flat"]
    colour, dash = (style.legend(key) for style in theme.line_styles("kind", names))
    base = alt.Chart(data).encode(x=across, y=up)
    lines = base.transform_filter("datum.kind !== 'drawn'").mark_line(strokeWidth=2.5)
    tooltip = ["kind:N", "columns:Q", alt.Tooltip("regularity:Q", format=".3f")]
    drawn = base.transform_filter("datum.kind === 'drawn'").mark_point(size=26, opacity=0.55)
    layers = [
        lines.encode(color=colour, strokeDash=dash, tooltip=tooltip),
        drawn.encode(color=alt.value(theme.INK), tooltip=tooltip),
    ]
    return alt.LayerChart(layer=layers).properties(width="container", height=theme.HEIGHT)


def made_tensors(*, rows: int = 512, columns: int = 64, top: int = 16, seed: int = 0) -> pd.DataFrame:
    """Five tensors of which the answer is known: regularity and baselines, a row a tensor.

    "columns move together": 64 mixtures of the first 3 columns; "a common mean": one row added to all; "a
    wave": mode 7 added; "neighbours alike": means of 9 rows.
    """
    rng = np.random.default_rng(seed)
    noise = rng.standard_normal((rows, columns))
    places = 2 * np.pi * np.arange(rows) / rows
    smooth = sum(np.roll(noise, shift, axis=0) for shift in range(9)) / 3
    made = {
        "white noise": noise,
        "columns move together": noise[:, :3] @ rng.standard_normal((3, columns)),
        "a common mean": noise + 0.7 * rng.standard_normal(columns),
        "a wave": noise + np.outer(np.cos(7 * places), rng.standard_normal(columns)),
        "neighbours alike": smooth,
    }
    heard = {name: sound(torch.from_numpy(array), top=top) for name, array in made.items()}
    return heard_table(heard)


def heard_table(heard: Mapping[str, Sounding], *, n_modes: int = 4) -> pd.DataFrame:
    """:func:`embviz.training.fourier.tabulate`, rounded, with the first few modes."""
    table = tabulate(heard).set_index("tensor")
    table["modes"] = [" ".join(text.split()[:n_modes]) for text in table["modes"]]
    digits = {"regularity": 3, "flat": 3, "noise": 3, "permuted": 3, "z": 1, "p": 3}
    return table.round(digits)[["regularity", *list(digits)[1:], "modes"]]


# --- modular arithmetic: what is stored -----------------------------------------------------------------


def stored_preset() -> str:
    """The largest preset at which a seed of the claim's runs is stored.

    Raises
    ------
    FileNotFoundError
        If none is; the message has the command.
    """
    for preset in reversed(PRESETS):
        if stored_cells(preset):
            return preset
    raise FileNotFoundError(f"no struck run is stored: `embviz run {CLAIM} --preset quick` does it")


def stored_cells(preset: str | None = None) -> list[Cell]:
    """Stored cells of the claim, a cell a seed."""
    cells = hammer_modular.STUDIES[CLAIM].preset_cells(preset or stored_preset())
    return [cell for cell in cells if cell.stored()]


@functools.cache
def _table(cell: Cell) -> pd.DataFrame:
    return read(cell)[0]


def struck() -> dict[int, pd.DataFrame]:
    """Stored tables of :func:`~.geometry.hammer_modular.strikes`, by seed."""
    return {cell.config.run.first_seed: _table(cell) for cell in stored_cells()}


def moments() -> list[str]:
    """Moments that every stored seed has."""
    return [moment for moment in MOMENTS if all((t["moment"] == moment).any() for t in struck().values())]


def modular_note() -> str:
    """Data, seeds and batch of the stored runs, for a caption."""
    cells = stored_cells()
    run: GrokkingRun = cells[0].config.run
    batch = f"batches of {run.setting.batch_size}" if run.setting.batch_size else "one full batch an epoch"
    wanted = len(hammer_modular.STUDIES[CLAIM].preset_cells(stored_preset()))
    absent = f"; {wanted - len(cells)} more {NOT_MEASURED} yet" if len(cells) < wanted else ""
    return f"(a + b) mod {run.p}, {batch}, {len(cells)} seed{'s' * (len(cells) > 1)}{absent}."


def epochs_struck() -> pd.DataFrame:
    """In which epoch each stored seed was struck, and how far its regularity stood above permuted rows."""
    rows = {}
    for seed, table in struck().items():
        single = table[table["mode"] == -1].set_index(["moment", "quantity"])["value"]
        for moment in moments():
            rows[f"seed {seed}", MODULAR_MOMENTS[moment]] = {
                "epoch": int(single[moment, "epoch"]),
                "regularity": round(float(single[moment, "regularity"]), 3),
                "flat": round(float(single[moment, "flat"]), 3),
                "noise": round(float(single[moment, "noise"]), 3),
                "z": round(float(single[moment, "z"]), 1),
            }
    return pd.DataFrame.from_dict(rows, orient="index").rename_axis(["run", "struck"])


# --- modular arithmetic: modes named, modes used --------------------------------------------------------


def mode_grid() -> pd.DataFrame:
    """Spectra for an explorer, mode 0 left out.

    Returns
    -------
    DataFrame
        `seed`, `moment`, `side` ("gradient", or "trained embedding", whose shares are negative, to hang
        down), `mode`, `power_share`, `rank` (0: the strongest), `shared` (1 if among the `TOP` of both).
    """
    parts = []
    for seed, table in struck().items():
        end = _share(table, END, "embedding")
        for moment in moments():
            named, used = _share(table, moment, "gradient"), end
            both = {*_first(named)} & {*_first(used)}
            for side, shares, sign in (("gradient", named, 1), ("trained embedding", used, -1)):
                part = shares.rename("power_share").rename_axis("mode").reset_index()
                part["rank"] = part["power_share"].rank(ascending=False, method="first").astype(int) - 1
                part["shared"] = part["mode"].isin(both).astype(int)
                part["power_share"] *= sign
                parts.append(part.assign(seed=seed, moment=MODULAR_MOMENTS[moment], side=side))
    return pd.concat(parts, ignore_index=True)


def _share(table: pd.DataFrame, moment: str, quantity: str) -> pd.Series:
    """Shares of power by mode, mode 0 left out."""
    rows = table[(table["moment"] == moment) & (table["quantity"] == quantity) & (table["mode"] > 0)]
    powers = rows.sort_values("mode").set_index("mode")["value"]
    shares: pd.Series = powers / powers.sum()
    return shares


def _first(shares: pd.Series, top: int = TOP) -> list[int]:
    modes: list[int] = shares.sort_values(ascending=False, kind="stable").index[:top].tolist()
    return modes


def plot_modes(data: charts.Data) -> alt.LayerChart:
    """The gradient's spectrum upwards, the trained embedding's downwards; the strongest five coloured."""
    names = ["strongest 5 of both", "strongest 5", "other modes"]
    colours = alt.Scale(domain=names, range=[theme.CATEGORIES[1], theme.CATEGORIES[0], "#999999"])
    base = (
        alt.Chart(data)
        .transform_calculate(
            left="datum.mode - 0.4",
            right="datum.mode + 0.4",
            role=f"datum.shared ? '{names[0]}' : datum.rank < {TOP} ? '{names[1]}' : '{names[2]}'",
            size="abs(datum.power_share)",
        )
        .encode(
            y=alt.Y(
                "power_share:Q",
                axis=alt.Axis(
                    title="trained embedding  |  gradient", labelExpr="format(abs(datum.value), '.0%')"
                ),
                scale=alt.Scale(nice=False, padding=16),
            )
        )
    )
    bars = base.mark_rect().encode(
        x=alt.X("left:Q", axis=theme.axis("mode", tick_count=8), scale=alt.Scale(nice=False, zero=False)),
        x2="right:Q",
        y2=alt.datum(0),
        color=alt.Color("role:N", scale=colours, legend=alt.Legend(title=None)),
        tooltip=["side:N", "mode:Q", alt.Tooltip("size:Q", title="share of power", format=".3f")],
    )
    place = {"x": alt.X("mode:Q"), "text": "mode:Q"}
    labels = [
        base.transform_filter(f"datum.rank < {TOP} && datum.side === '{side}'")
        .mark_text(dy=dy, fontSize=10)
        .encode(**place)
        for side, dy in (("gradient", -7), ("trained embedding", 8))
    ]
    zero = alt.Chart(alt.Data(values=[{}])).mark_rule().encode(y=alt.datum(0))
    return alt.LayerChart(layer=[bars, zero, *labels]).properties(width="container", height=300)


def strongest_table() -> pd.DataFrame:
    """The five strongest modes, strongest first: a row a seed and moment; those shared are in brackets."""
    rows = {}
    for seed, table in struck().items():
        used = _first(_share(table, END, "embedding"))
        for moment in moments():
            named = _first(_share(table, moment, "gradient"))
            rows[f"seed {seed}", MODULAR_MOMENTS[moment]] = {
                "strongest in the gradient": " ".join(f"[{k}]" if k in used else f"{k}" for k in named),
                "strongest in the trained embedding": " ".join(map(str, used)),
                "shared": len({*named} & {*used}),
            }
    return pd.DataFrame.from_dict(rows, orient="index").rename_axis(["run", "struck"])


def overlaps() -> pd.DataFrame:
    """Modes shared with the trained embedding, all stored seeds together.

    Returns
    -------
    DataFrame
        `moment`; `kind`, whose five strongest modes: "gradient", "gradient, rows permuted", or "embedding
        itself" (as it was then; not at the end, where it shares all); `shared_modes`, `log10_p` of as many
        or more by chance.
    """
    tables = list(struck().values())
    n_modes = int(tables[0]["mode"].max())
    rows = []
    for moment in moments():
        for quantity, kind in KINDS.items():
            if (moment, quantity) != (END, "embedding"):
                shared = [
                    len({*_first(_share(t, moment, quantity))} & {*_first(_share(t, END, "embedding"))})
                    for t in tables
                ]
                p = hammer_modular.log_overlap_p(shared, n_modes)
                rows.append((MODULAR_MOMENTS[moment], kind, sum(shared), p))
    return pd.DataFrame(rows, columns=["moment", "kind", "shared_modes", "log10_p"])


def chance_of_overlaps() -> pd.Series:
    """Probability of each number of shared modes if sets of five are drawn at random, all seeds together."""
    tables = list(struck().values())
    one = stats.hypergeom(int(tables[0]["mode"].max()), TOP, TOP).pmf(np.arange(TOP + 1))
    total = functools.reduce(np.convolve, [one] * len(tables))
    return pd.Series(total, name="probability").rename_axis("shared_modes")


def plot_overlaps() -> alt.LayerChart:
    """Shared modes by moment; the band has the lowest 95% of what chance gives, dashed its mean."""
    found, chance = overlaps(), chance_of_overlaps()
    most = int((chance.cumsum() < 0.95).sum())
    colour, shape = theme.point_styles("kind", list(KINDS.values()))
    key = alt.Legend(title=None)
    ends = alt.Scale(domain=[-0.6, len(chance) - 0.4], nice=False)
    across = alt.X("shared_modes:Q", scale=ends, axis=theme.axis("shared_modes", tick_count=12))
    tooltip = ["moment:N", "kind:N", "shared_modes:Q", alt.Tooltip("log10_p:Q", title="log10 p")]
    marks = (
        alt.Chart(found.round(3))
        .mark_point(size=110, opacity=0.85)
        .encode(
            x=across,
            y=alt.Y("moment:N", sort=None, axis=alt.Axis(title=None, labelLimit=200)),
            color=colour.legend(key),
            shape=shape.legend(key),
            tooltip=tooltip,
        )
    )
    level = alt.Chart(alt.Data(values=[{"low": -0.5, "high": most + 0.5, "mean": _expected_overlap()}]))
    band = level.mark_rect(opacity=0.15, color=theme.INK).encode(x=alt.X("low:Q", scale=ends), x2="high:Q")
    line = level.mark_rule(strokeDash=list(theme.DASHES[1])).encode(x=alt.X("mean:Q", scale=ends))
    return alt.LayerChart(layer=[band, line, marks]).properties(width="container", height=150)


def overlap_finding() -> str:
    """How many modes the gradient shares at each moment, beside chance; true of the drawn data."""
    table = overlaps()
    heard = table[table["kind"] == KINDS["gradient"]]
    said = ", ".join(f"{row.moment} {row.shared_modes}" for row in heard.itertuples())
    n_seeds = len(struck())
    return (
        f"Of {TOP * n_seeds} modes that {n_seeds} trained embeddings use, the gradient names {said}; chance "
        f"{_expected_overlap():.1f}"
    )


def _expected_overlap() -> float:
    chance = chance_of_overlaps()
    return float((chance * chance.index).sum())


def verdicts() -> str:
    """A sentence a moment on whether the gradient names the modes, in words that fit the numbers."""
    table = overlaps()
    said = []
    for row in table[table["kind"] == KINDS["gradient"]].itertuples():
        p = 10.0 ** float(row.log10_p)  # type: ignore[arg-type]
        words = "as chance might" if p > 0.05 else "more than chance would"
        said.append(f"{row.moment} {row.shared_modes}, {words} (p = {p:.2g})")
    all_used = TOP * len(struck())
    return f"Of {all_used} modes used the gradient names {'; '.join(said)}."


def early_finding() -> str:
    """What gradient and embedding name when the training pairs are known, if every seed got there."""
    if MEMORY not in moments():
        return "Not every seed memorized its training pairs"
    shared = overlaps().set_index(["kind", "moment"])["shared_modes"].to_dict()
    heard, own = (shared[KINDS[name], MODULAR_MOMENTS[MEMORY]] for name in ("gradient", "embedding"))
    first, last = ([_epoch(table, moment) for table in struck().values()] for moment in (MEMORY, END))
    return (
        f"Memorized, at epochs {min(first)} to {max(first)} of {min(last)} to {max(last)}, the gradient "
        f"names {heard} of {TOP * len(struck())} modes that will be used, the embedding itself {own}"
    )


def _epoch(table: pd.DataFrame, moment: str) -> int:
    rows = table[(table["moment"] == moment) & (table["quantity"] == "epoch")]
    return int(rows["value"].iloc[0])


# --- modular arithmetic: no mode is special -------------------------------------------------------------


def start_counts(*, top: int = 3) -> pd.DataFrame:
    """How often each mode is among the strongest before training, over many seeds.

    Returns
    -------
    DataFrame
        `mode` (1 to p//2), `times`, `named` ("{1, 14, 41}" or "other modes"); in `attrs` the number of
        seeds, `expected`, and `low` and `high`, between which 95% of binomial counts lie.
    """
    table = _starts()
    shown = table[table["mode"] > 0]
    first = shown.sort_values("power", ascending=False).groupby("seed").head(top)
    n_modes, n_seeds = int(shown["mode"].max()), shown["seed"].nunique()
    times = first["mode"].value_counts().reindex(range(1, n_modes + 1), fill_value=0)
    found = times.rename("times").rename_axis("mode").reset_index()
    found["named"] = np.where(found["mode"].isin(NANDA), _braces(NANDA), REST)
    chance = stats.binom(n_seeds, top / n_modes)
    found.attrs = {
        "n_seeds": n_seeds,
        "expected": n_seeds * top / n_modes,
        "low": float(chance.ppf(0.025)),
        "high": float(chance.ppf(0.975)),
    }
    return found


def _braces(modes: Sequence[int]) -> str:
    return f"{{{', '.join(map(str, modes))}}}"


def _starts() -> pd.DataFrame:
    return _table(soundings.starts.cell(soundings.start_run(sounding_preset())))


def plot_start_counts(table: pd.DataFrame) -> alt.LayerChart:
    """Bars of :func:`start_counts`; the band has 95% of what chance gives."""
    names = [_braces(NANDA), REST]
    colours = alt.Scale(domain=names, range=[theme.CATEGORIES[1], theme.CATEGORIES[0]])
    bars = (
        alt.Chart(table)
        .transform_calculate(left="datum.mode - 0.4", right="datum.mode + 0.4")
        .mark_rect()
        .encode(
            x=alt.X("left:Q", axis=theme.axis("mode", tick_count=8), scale=alt.Scale(nice=False, zero=False)),
            x2="right:Q",
            y=alt.Y("times:Q", axis=theme.axis("times_strong")),
            y2=alt.datum(0),
            color=alt.Color("named:N", scale=colours, legend=alt.Legend(title=None)),
            tooltip=["mode:Q", "times:Q"],
        )
    )
    ends = alt.Chart(alt.Data(values=[table.attrs]))
    band = ends.mark_rect(opacity=0.15, color=theme.INK).encode(y="low:Q", y2="high:Q")
    line = ends.mark_rule(strokeDash=list(theme.DASHES[1])).encode(y="expected:Q")
    return alt.LayerChart(layer=[band, bars, line]).properties(width="container", height=220)


def start_finding(table: pd.DataFrame) -> str:
    """Whether some modes come first more often than chance has it, from :func:`start_counts`."""
    own = int(table.loc[table["named"] != REST, "times"].sum())
    expected = len(NANDA) * table.attrs["expected"]
    outside = int(((table["times"] < table.attrs["low"]) | (table["times"] > table.attrs["high"])).sum())
    return (
        f"{_braces(NANDA)} are among the 3 strongest {own} times where chance has {expected:.0f}; "
        f"{outside} of {len(table)} modes lie outside the band"
    )


@functools.cache
def _start_gradient(factor: int, p: int, seed: int) -> np.ndarray:
    """Power shares before training of a model whose residue a is called `factor` a."""
    members = Members(replace(BASE, p=p), [seed])
    if factor != 1:
        members = with_new_names(members, factor)
    power = sound(soundings.gradients_now(members)["embedding"], top=1, n_permutations=2).power
    shares: np.ndarray = power[1:] / power[1:].sum()
    return shares


def renamed_start(factor: int, *, p: int = 97, seed: int = 0) -> pd.DataFrame:
    """Gradient before training of one model under other names of its residues, really computed anew.

    Returns
    -------
    DataFrame
        `mode` under the new names, `power_share` without mode 0, `was`: the mode that it is under the old
        names, `strong`: 1 if that is one of the old five strongest.
    """
    shares, old = _start_gradient(factor, p, seed), _start_gradient(1, p, seed)
    was = {renamed((mode,), factor, p)[0]: mode for mode in range(1, p // 2 + 1)}
    first = {*(1 + np.argsort(-old, kind="stable")[:TOP]).tolist()}
    modes = np.arange(1, p // 2 + 1)
    names = [was[int(mode)] for mode in modes]
    strong = [int(name in first) for name in names]
    return pd.DataFrame({"mode": modes, "power_share": shares, "was": names, "strong": strong})


def plot_renamed(data: charts.Data) -> alt.LayerChart:
    """Bars of :func:`renamed_start`; those that were strongest under the old names have these above them."""
    names = ["strongest 5 under the old names", REST]
    colours = alt.Scale(domain=names, range=[theme.CATEGORIES[1], theme.CATEGORIES[0]])
    base = alt.Chart(data).transform_calculate(
        left="datum.mode - 0.4",
        right="datum.mode + 0.4",
        role=f"datum.strong ? '{names[0]}' : '{names[1]}'",
        words="'was ' + datum.was",
    )
    up = alt.Y("power_share:Q", axis=theme.axis("power_share"), scale=alt.Scale(domain=[0, 0.06], nice=False))
    bars = base.mark_rect(clip=True).encode(
        x=alt.X("left:Q", axis=theme.axis("mode", tick_count=8), scale=alt.Scale(nice=False, zero=False)),
        x2="right:Q",
        y=up,
        y2=alt.datum(0),
        color=alt.Color("role:N", scale=colours, legend=alt.Legend(title=None)),
        tooltip=["mode:Q", "was:Q", alt.Tooltip("power_share:Q", format=".4f")],
    )
    texts = base.transform_filter("datum.strong === 1").mark_text(dy=-8, fontSize=10)
    labels = texts.encode(x="mode:Q", y=up, text="words:N")
    return alt.LayerChart(layer=[bars, labels]).properties(width="container", height=220)


# --- modular arithmetic: along the way ------------------------------------------------------------------


def sounding_preset() -> str:
    """The largest preset at which all soundings and films are stored.

    Raises
    ------
    FileNotFoundError
        If there is none; the message says how to get one.
    """
    if preset := largest_stored(soundings.all_cells, ("quick", "laptop")):
        return preset
    raise FileNotFoundError(
        "no soundings are stored: run embviz.ledger.run(soundings.all_cells('quick')), or 'laptop' in minutes"
    )


def film_frames() -> pd.DataFrame:
    """Recordings for a player, by `run`: a row a mode but 0, shares of power without mode 0.

    Returns
    -------
    DataFrame
        `run`, `frame`, `mode`, `gradient`, `embedding`, `training`, `validation`, `shared`: how many of the
        five strongest modes both have in this frame.
    """
    cells = soundings.film_cells(sounding_preset())
    return pd.concat(
        [_filmed(_table(cell)).assign(run=name) for name, cell in cells.items()], ignore_index=True
    )


def _filmed(table: pd.DataFrame) -> pd.DataFrame:
    table = table[table["mode"] > 0].copy()
    for column in ("gradient", "embedding"):
        shares = table[column].astype(float)
        table[column] = shares / shares.groupby(table["frame"]).transform("sum")
    ranks = {name: table.groupby("frame")[name].rank(ascending=False, method="first") for name in SIDES}
    both = (ranks["gradient"] <= TOP) & (ranks["embedding"] <= TOP)
    table["shared"] = both.groupby(table["frame"]).transform("sum").astype(int)
    return table.astype({"training": float, "validation": float}).reset_index(drop=True)


def film_note() -> str:
    """Data of the films, for a caption."""
    run = next(iter(soundings.film_runs(sounding_preset()).values()))
    return (
        f"(a + b) mod {run.p}, {run.train_share:.0%} of the pairs to train on, batches of "
        f"{run.setting.batch_size}, up to {run.n_epochs} epochs."
    )


def live_controls() -> dict[str, Control]:
    """What a reader may choose before a live run."""
    return {
        "p": Number(7, 199, "modulus p", initial=23),
        "train_share": Range(0.2, 0.9, 0.1, "share to train on", initial=0.6),
        "weight_decay": Range(0.0, 2.0, 0.25, "weight decay", initial=1.0),
        "seed": Number(0, 999, "seed", initial=0),
    }


def live_film(p: int, train_share: float, weight_decay: float, seed: int) -> Iterator[pd.DataFrame]:
    """Train in this kernel and strike after each epoch; parameters are those of :func:`live_controls`."""
    batch = 512 if p > 50 else 64
    setting = replace(SETTING, batch_size=batch, weight_decay=weight_decay)
    run = GrokkingRun(p=p, train_share=train_share, n_epochs=LIMIT, first_seed=seed, setting=setting)
    told = about(run)
    for frame in soundings.film_frames(run, range(LIMIT + 1)):
        table = _filmed(frame)
        table.attrs[NOTE] = " ".join(told)
        yield table


def plot_film(data: alt.NamedData) -> alt.VConcatChart:
    """Drawing function of a player: both spectra, mirrored; accuracies and shared modes so far."""
    names = ["gradient", "embedding"]
    colours = alt.Scale(domain=names, range=list(theme.CATEGORIES[:2]))
    reach = alt.Scale(type="sqrt", domain=[-0.75, 0.75], nice=False)
    bars = (
        alt.Chart(data)
        .transform_fold(["gradient", "embedding"], as_=["side", "value"])
        .transform_calculate(
            left="datum.mode - 0.4",
            right="datum.mode + 0.4",
            power_share="datum.side === 'gradient' ? datum.value : -datum.value",
        )
        .mark_rect(clip=True)
        .encode(
            x=alt.X("left:Q", axis=theme.axis("mode", tick_count=6), scale=alt.Scale(nice=False, zero=False)),
            x2="right:Q",
            y=alt.Y(
                "power_share:Q",
                axis=alt.Axis(
                    title="embedding  |  gradient",
                    values=[-0.6, -0.3, -0.1, 0, 0.1, 0.3, 0.6],
                    labelExpr="format(abs(datum.value), '.0%')",
                ),
                scale=reach,
            ),
            y2=alt.datum(0),
            color=alt.Color("side:N", scale=colours, legend=alt.Legend(title=None, orient="top")),
            tooltip=["side:N", "mode:Q", alt.Tooltip("value:Q", format=".3f")],
        )
        .properties(width=ROW, height=210)
    )
    history = _apart(alt.hconcat(_accuracies(), _shared_so_far()))
    film: alt.VConcatChart = _apart(alt.vconcat(bars, history, spacing=14))
    return film


def _apart(chart: Any) -> Any:
    """Panels with their own colours and dashes."""
    return chart.resolve_scale(color="independent", strokeDash="independent")


def _epochs() -> alt.X:
    end = {"expr": "25 * pow(2, max(0, ceil(log(max(frame, 1) / 25) / LN2)))"}
    scale = alt.Scale(domainMin=0, domainMax=end, nice=False)
    return alt.X("frame:Q", axis=theme.axis("epoch", tick_count=4), scale=scale)


def _accuracies() -> alt.Chart:
    names = ["training", "validation"]
    colour, dash = theme.line_styles("which", names)
    key = alt.Legend(title=None, orient="top", symbolType="stroke")
    return (
        alt.Chart(HISTORY)
        .transform_filter("datum.frame <= frame")
        .transform_fold(["training", "validation"], as_=["which", "accuracy"])
        .mark_line(clip=True)
        .encode(
            x=_epochs(),
            y=alt.Y(
                "accuracy:Q", axis=theme.axis("accuracy", tick_count=3), scale=alt.Scale(domain=[0, 1.02])
            ),
            color=colour.legend(key),
            strokeDash=dash.legend(key),
        )
        .properties(width=ROW // 2 - 31, height=110)
    )


def _shared_so_far() -> alt.Chart:
    return (
        alt.Chart(HISTORY)
        .transform_filter("datum.frame <= frame")
        .mark_line(interpolate="step-after", clip=True, color=theme.INK)
        .encode(
            x=_epochs(),
            y=alt.Y(
                "shared:Q",
                axis=alt.Axis(title="shared of 5", values=list(range(TOP + 1)), format="d"),
                scale=alt.Scale(domain=[0, TOP + 0.2], nice=False),
            ),
        )
        .properties(width=ROW // 2 - 31, height=110)
    )


# --- language models ------------------------------------------------------------------------------------


def language_preset() -> str:
    """The largest preset at which the models of byte pairs are stored.

    Raises
    ------
    FileNotFoundError
        If there is none; the message has the command.
    """
    for preset in reversed(PRESETS):
        if not missing(
            [hammer_language.hammer_language.cell(r) for r in hammer_language.hammer_runs(preset)]
        ):
            return preset
    raise FileNotFoundError(
        "no language model was struck: `embviz run geometry.hammer_gpt2 --preset quick` does it"
    )


def regularities() -> pd.DataFrame:
    """Regularities of the stored language models, a row a tensor and seed.

    Returns
    -------
    DataFrame
        `text` ("byte pairs", "bytes" where stored), `seed`, `moment`, `part` (what is struck, such as
        "tokens, all 4,096"), `role`, `reading`, `bits_per_character`, `regularity`, `flat`, `noise`,
        `permuted`, `permuted_sd`.
    """
    preset = language_preset()
    texts = {soundings.PAIRS: hammer_language.hammer_runs(preset)}
    bytes_ = hammer_language.byte_runs(preset)
    if not missing([hammer_language.hammer_language.cell(run) for run in bytes_]):
        texts[soundings.BYTES] = bytes_
    parts = [hammer_language.regularities(preset, runs).assign(text=text) for text, runs in texts.items()]
    table = pd.concat(parts, ignore_index=True)
    table["part"] = [_part_name(row) for row in table.itertuples()]
    return table


def _part_name(row: Any) -> str:
    if row.role == MLP:
        layer = int(row.tensor.split(".")[1]) + 1
        name = f"{MLP}, layer {layer}"
        return name if row.reading == "first rows" else f"{name}, all {row.rows:,}"
    return f"{row.role}, {'first' if row.reading == 'first rows' else 'all'} {row.rows:,}"


def regularity_grid() -> pd.DataFrame:
    """:func:`regularities` for an explorer over `text` and `moment`: `part`, `seed`, `kind`, `regularity`.

    `kind` is "gradient", "rows permuted", "white noise", "flat", or "GPT-2, paper" (of seed -1).
    """
    table = regularities()
    rows = []
    for row in table.itertuples():
        key = (row.text, row.moment, row.part)
        rows += [
            (*key, row.seed, "gradient", row.regularity),
            (*key, row.seed, "rows permuted", row.permuted),
        ]
        if row.seed == 0:
            rows += [(*key, -1, "white noise", row.noise), (*key, -1, "flat", row.flat)]
            if row.reading == "first rows":
                rows.append((*key, -1, "GPT-2, paper", PAPER[str(row.role)]))
    return pd.DataFrame(rows, columns=["text", "moment", "part", "seed", "kind", "regularity"])


def plot_regularities(data: charts.Data) -> alt.LayerChart:
    """Marks for each seed of :func:`regularity_grid`, ticks for baselines, crosses for the paper's GPT-2."""
    names = ["gradient", "rows permuted"]
    colour, shape = theme.point_styles("kind", names)
    key = alt.Legend(title=None)
    base = alt.Chart(data).encode(
        y=alt.Y("part:N", sort=None, axis=alt.Axis(title=None, labelLimit=200)),
        x=alt.X(
            "regularity:Q",
            axis=theme.axis("regularity", tick_count=6),
            scale=alt.Scale(domain=[0, 1], nice=False),
        ),
    )
    tooltip = ["part:N", "kind:N", "seed:N", alt.Tooltip("regularity:Q", format=".3f")]
    marks = (
        base.transform_filter("datum.kind === 'gradient' || datum.kind === 'rows permuted'")
        .mark_point(size=60, opacity=0.65)
        .encode(color=colour.legend(key), shape=shape.legend(key), tooltip=tooltip)
    )
    baselines = (
        base.transform_filter("datum.kind === 'white noise' || datum.kind === 'flat'")
        .mark_tick(thickness=2, size=18)
        .encode(
            opacity=alt.when("datum.kind === 'flat'").then(alt.value(0.45)).otherwise(alt.value(1)),
            color=alt.value(theme.INK),
            tooltip=tooltip,
        )
    )
    theirs = (
        base.transform_filter("datum.kind === 'GPT-2, paper'")
        .mark_point(shape="cross", angle=45, size=70, filled=True)
        .encode(color=alt.value(theme.INK), tooltip=tooltip)
    )
    return alt.LayerChart(layer=[baselines, theirs, marks]).properties(width="container", height=170)


def excess_table() -> pd.DataFrame:
    """Regularity above permuted rows, mean over seeds and range: a row a tensor."""
    table = regularities()
    table["excess"] = table["regularity"] - table["permuted"]
    rows: dict[tuple[str, str], dict[str, str]] = {}
    for (text, part, moment), own in table.groupby(["text", "part", "moment"], sort=False):
        row = rows.setdefault((str(text), str(part)), {})
        row[f"{moment}: regularity"] = f"{own['regularity'].mean():.3f}"
        low, high = own["excess"].min(), own["excess"].max()
        row[f"{moment}: above permuted"] = f"{own['excess'].mean():+.3f} ({low:+.3f} to {high:+.3f})"
    return pd.DataFrame.from_dict(rows, orient="index").rename_axis(["text", "tensor"])


def scores_note() -> str:
    """Seeds and scores of the language models, for a caption."""
    table = regularities().drop_duplicates(["text", "seed", "moment"])
    said = []
    for text, own in table[table["moment"] == TRAINED].groupby("text", sort=False):
        low, high = own["bits_per_character"].min(), own["bits_per_character"].max()
        said.append(f"{text} {low:.2f} to {high:.2f}")
    n_seeds = table["seed"].nunique()
    return f"{n_seeds} seeds; held-out bits per character once trained: {', '.join(said)}."


def order_finding(moment: str = TRAINED) -> str:
    """Table 3's order on our byte-pair models, and what is left of it above permuted rows."""
    table = regularities()
    own = table[
        (table["moment"] == moment) & (table["reading"] == "first rows") & (table["text"] == soundings.PAIRS)
    ]
    heard = own.groupby("role")["regularity"].mean()
    left = (own["regularity"] - own["permuted"]).groupby(own["role"]).mean()
    names = {POSITIONS: "positions", MLP: "MLP outputs", TOKENS: "tokens"}
    order = sorted(names, key=lambda role: -heard[role])
    said = ", ".join(f"{names[role]} {heard[role]:.2f}" for role in order)
    rest = ", ".join(f"{left[role]:+.2f}" for role in order)
    return f"Regularity, {moment}: {said}; above permuted rows {rest}"


# --- any tensor of a stored model -----------------------------------------------------------------------


def sounded() -> dict[str, pd.DataFrame]:
    """Stored soundings by what a reader calls the model and the moment, such as "bytes, trained"."""
    found = {}
    for model, cell in soundings.sounding_cells(sounding_preset()).items():
        name = model.replace(" p", f" {cell.config.run.p}") if model == soundings.MODULAR else model
        for moment, table in _table(cell).groupby("moment", sort=False):
            found[f"{name}, {moment}"] = table.drop(columns="moment")
    return found


TENSORS = {
    "embedding": "embedding",
    "free_head": "output embedding",
    "position": "positions",
    **{
        f"blocks.{layer}.{inner}.weight": f"layer {layer + 1}, {words}"
        for layer in range(2)
        for inner, words in {
            "attention.query": "query",
            "attention.key": "key",
            "attention.value": "value",
            "attention.out": "attention's way out",
            "up": "MLP's way in",
            "down": "MLP's way out",
        }.items()
    },
}
AXES = {0: "rows", 1: "columns"}


def sounding_grid() -> pd.DataFrame:
    """:func:`sounded` for an explorer over `model`, `tensor` and `axis`.

    Only tensors that all models have; a tied model's output embedding is its embedding, struck once.

    Returns
    -------
    DataFrame
        The controls' columns, then those of :func:`book.geometry.experiments.soundings.spectra`, with
        `null` and `null_sd` called `expected` and `spread`.
    """
    parts = []
    for model, table in sounded().items():
        parts.append(_named(table, model))
        if "free_head" not in set(table["tensor"]):
            tied = table[table["tensor"] == "embedding"].assign(tensor="free_head")
            parts.append(_named(tied, model))
    grid = pd.concat(parts, ignore_index=True)
    everywhere = grid.groupby("tensor")["model"].nunique() == grid["model"].nunique()
    grid = grid[grid["tensor"].map(everywhere)]
    grid = grid.rename(columns={"null": "expected", "null_sd": "spread"})
    kept = ["model", "tensor", "axis", "mode", "power", "permuted", "expected", "spread", "noise"]
    return grid[kept].reset_index(drop=True)


def _named(table: pd.DataFrame, model: str) -> pd.DataFrame:
    known = table[table["tensor"].isin(TENSORS)]
    return known.assign(model=model, tensor=known["tensor"].map(TENSORS), axis=known["dim"].map(AXES))


def sounding_controls(grid: pd.DataFrame) -> dict[str, Control]:
    """Controls of an explorer over :func:`sounding_grid`."""
    tensors = [name for name in TENSORS.values() if name in set(grid["tensor"])]
    return {
        "model": Choice(list(dict.fromkeys(grid["model"])), "model"),
        "tensor": Choice(tensors, "tensor"),
        "axis": Choice(list(AXES.values()), "along its"),
    }


def plot_sounding(data: charts.Data) -> alt.LayerChart:
    """A spectrum with the K strongest modes coloured; the page has controls for K and the order of rows."""
    names = [STRONG, OTHER]
    colours = alt.Scale(domain=names, range=[theme.CATEGORIES[1], theme.CATEGORIES[0]])
    ranked = (
        alt.Chart(data)
        .transform_calculate(shown="shuffled ? datum.permuted : datum.power")
        .transform_window(rank="row_number()", sort=[alt.SortField("shown", order="descending")])
        .transform_calculate(
            left="datum.mode - 0.45",
            right="datum.mode + 0.45",
            role=f"datum.rank <= few ? '{STRONG}' : '{OTHER}'",
        )
    )
    power = alt.Y(
        "shown:Q",
        axis=alt.Axis(title=theme.title("power_share"), format=".0%", values=[0.01, 0.05, 0.1, 0.3, 0.6, 1]),
        scale=alt.Scale(type="sqrt", domainMin=0, nice=False),
    )
    bars = ranked.mark_rect().encode(
        x=alt.X("left:Q", axis=theme.axis("mode", tick_count=8), scale=alt.Scale(nice=False, zero=False)),
        x2="right:Q",
        y=power,
        y2=alt.datum(0),
        color=alt.Color("role:N", scale=colours, legend=alt.Legend(title=None)),
        tooltip=["mode:Q", alt.Tooltip("shown:Q", title="share of power", format=".4f")],
    )
    level = (
        ranked.transform_aggregate(n_modes="count()")
        .transform_calculate(flat="1 / datum.n_modes")
        .mark_rule(strokeDash=list(theme.DASHES[1]))
        .encode(y="flat:Q")
    )
    few = alt.param(
        name="few", value=16, bind=alt.binding_range(min=1, max=64, step=1, name="strongest modes K")
    )
    shuffled = alt.param(name="shuffled", value=False, bind=alt.binding_checkbox(name="rows permuted"))
    chart = alt.LayerChart(layer=[bars, level, _verdict(ranked)]).add_params(few, shuffled)
    return chart.properties(width="container", height=280)


def _verdict(ranked: alt.Chart) -> alt.Chart:
    """The regularity of what is shown and its baselines, as text in the corner."""
    last = "datum.mode === min(few, datum.n_modes) - 1"
    return (
        ranked.transform_joinaggregate(n_modes="count()")
        .transform_calculate(
            counted="datum.rank <= few ? datum.shown : 0",
            **{f"own_{name}": f"{last} ? datum.{name} : 0" for name in ("expected", "spread", "noise")},
        )
        .transform_aggregate(
            rho="sum(counted)",
            expected="sum(own_expected)",
            spread="sum(own_spread)",
            noise="sum(own_noise)",
            n_modes="count()",
        )
        .transform_calculate(
            words="few >= datum.n_modes ? 'all ' + datum.n_modes + ' modes count: ρ = 1' : "
            "'ρ = ' + format(datum.rho, '.3f') + ', K = ' + few + ' of ' + datum.n_modes + ' modes|'"
            " + 'flat ' + format(few / datum.n_modes, '.3f') + '|white noise ' + format(datum.noise, '.3f')"
            " + '|rows permuted ' + format(datum.expected, '.3f') + ' ± ' + format(datum.spread, '.3f')"
            " + (shuffled ? '' : '|z = ' + format((datum.rho - datum.expected) / datum.spread, '.1f'))"
        )
        .mark_text(align="right", baseline="top", fontSize=12, lineBreak="|", lineHeight=16)
        .encode(x=alt.value("width"), y=alt.value(4), text="words:N")
    )


def z_scores(top: int) -> pd.DataFrame:
    """How far every tensor's regularity stands above permuted rows, along both axes.

    Returns
    -------
    DataFrame
        `model`, `when` (the moment), `tensor` (with its axis), `z`, `regularity`, `permuted`; axes of too
        few modes left out.
    """
    rows = []
    for name, table in sounded().items():
        model, when = name.rsplit(", ", 1)
        named = table.assign(axis=table["dim"].map(AXES))
        for (tensor, axis), own in named.groupby(["tensor", "axis"], sort=False):
            if tensor in TENSORS and len(own) > top:
                rho = float(own["power"].nlargest(top).sum())
                at = own[own["mode"] == top - 1].iloc[0]
                z = (rho - at["null"]) / at["null_sd"]
                label = f"{TENSORS[str(tensor)]}, {axis}"
                rows.append((model, when, label, z, rho, float(at["null"])))
    return pd.DataFrame(rows, columns=["model", "when", "tensor", "z", "regularity", "permuted"])


def plot_z_scores(data: charts.Data) -> alt.LayerChart:
    """A mark for each tensor, axis and moment of the chosen model; the band has what permuted rows give."""
    colour, shape = theme.point_styles("when", [START, MEMORY, END, TRAINED])
    own: dict[str, list[str]] = {}
    for model, when in (name.rsplit(", ", 1) for name in sounded()):
        own.setdefault(model, []).append(when)
    key = alt.Legend(title=theme.title("when"), values=alt.ExprRef(f"({json.dumps(own)})[model]"))
    ends = alt.Scale(type="symlog", constant=3, nice=False, padding=10)
    ticks = alt.Axis(title=theme.title("z"), values=[-10, -3, 0, 3, 10, 30, 100, 300])
    marks = (
        alt.Chart(data)
        .mark_point(size=50, opacity=0.8)
        .encode(
            x=alt.X("z:Q", axis=ticks, scale=ends),
            y=alt.Y("tensor:N", sort=None, axis=alt.Axis(title=None, labelLimit=220)),
            color=colour.legend(key),
            shape=shape.legend(key),
            tooltip=[
                "tensor:N",
                "when:N",
                alt.Tooltip("z:Q", format=".1f"),
                alt.Tooltip("regularity:Q", format=".3f"),
                alt.Tooltip("permuted:Q", format=".3f"),
            ],
        )
    )
    band = (
        alt.Chart(alt.Data(values=[{"low": -NULL_Z, "high": NULL_Z}]))
        .mark_rect(opacity=0.15, color=theme.INK)
        .encode(x=alt.X("low:Q", scale=ends), x2="high:Q")
    )
    return alt.LayerChart(layer=[band, marks]).properties(width="container", height=430)


def ring_finding(table: pd.DataFrame) -> str:
    """How many spectra of each model stand out of the band at any moment."""
    said = []
    for model, own in table.groupby("model", sort=False):
        highest = own.groupby("tensor")["z"].max()
        said.append(f"{(highest > NULL_Z).sum()} of {len(highest)} spectra of {model}")
    return f"Out of permuted rows stand {', '.join(said)}"


def z_finding(table: pd.DataFrame, model: str) -> str:
    """Which tensors of a model stand out of the band at any moment, in words."""
    own = table[table["model"] == model]
    out = own[own["z"] > NULL_Z].groupby("tensor", sort=False)["z"].max().sort_values(ascending=False)
    n_spectra = own["tensor"].nunique()
    if out.empty:
        return f"Not one of {n_spectra} spectra of {model} stands out of permuted rows"
    said = ", ".join(f"{name} (z = {z:.0f})" for name, z in out.head(4).items())
    more = f" and {len(out) - 4} more" if len(out) > 4 else ""
    stand = "stands" if len(out) == 1 else "stand"
    return f"Of {n_spectra} spectra of {model}, {len(out)} {stand} out of permuted rows: {said}{more}"


def mean_mode_table(*, top: int = 16) -> pd.DataFrame:
    """What mode 0, the mean of all rows, has of the regularity in language models.

    Returns
    -------
    DataFrame
        Indexed by model and tensor: regularity of the first 512 rows, that of permuted rows, the share of
        mode 0 alone, and the regularity of the other modes among themselves beside white noise's.
    """
    axes = {"positions": "rows", "layer 1, MLP's way out": "columns", "layer 2, MLP's way out": "columns"}
    rows = {}
    language = (name for name in sounded() if name.startswith((soundings.PAIRS, soundings.BYTES)))
    for name in language:
        own = _named(sounded()[name], name)
        for tensor, axis in {**axes, "embedding": "rows"}.items():
            shares = own.loc[(own["tensor"] == tensor) & (own["axis"] == axis)].sort_values("mode")
            if len(shares) <= top:
                continue
            power = shares["power"].to_numpy(dtype=float)
            rest = np.sort(power[1:] / power[1:].sum())[::-1]
            rows[name, tensor] = {
                "regularity": round(float(np.sort(power)[-top:].sum()), 3),
                "permuted": round(float(shares["null"].iloc[top - 1]), 3),
                "share of mode 0": round(float(power[0]), 3),
                "regularity without mode 0": round(float(rest[:top].sum()), 3),
                "white noise": round(float(shares["noise"].iloc[top - 1]), 3),
            }
    return pd.DataFrame.from_dict(rows, orient="index").rename_axis(["model", "tensor"])


def renumbered_units(*, p: int = 23, top: int = 16, seed: int = 0) -> pd.DataFrame:
    """A model as it is, and with its hidden units renumbered: loss, and regularity along these units.

    Hidden units have no names that a model could know. With rows of an MLP's way in and columns of its way
    out renumbered alike it computes what it did, and the gradients' rows are the same ones in another order.
    """
    run = GrokkingRun(p=p, train_share=0.6)
    rows = {}
    for name in ("as it is", "units renumbered"):
        members = Members(run, [seed])
        if name != "as it is":
            _renumber(members, np.random.default_rng(seed))
        with torch.no_grad():
            loss = members.scores(members.train)[0].item()
        heard = sound(soundings.gradients_now(members)["blocks.0.down.weight"], dim=1, top=top)
        rows[name] = {
            "loss": round(loss, 4),
            "regularity": round(heard.regularity, 3),
            "rows permuted": round(float(heard.permuted.mean()), 3),
        }
    return pd.DataFrame.from_dict(rows, orient="index").rename_axis("model")


@torch.no_grad()
def _renumber(members: Members, rng: np.random.Generator) -> None:
    weights = dict(members.model.named_parameters())
    for layer in range(members.config.setting.n_layers):
        up, down = (weights[f"blocks.{layer}.{part}.weight"] for part in ("up", "down"))
        order = torch.from_numpy(rng.permutation(len(up)))
        up.copy_(up[order].clone())
        down.copy_(down[:, order].clone())
