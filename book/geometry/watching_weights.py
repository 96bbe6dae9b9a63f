"""What the chapter on watching weights draws of stored and live films of a model's weights."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace

import altair as alt
import pandas as pd

from book.geometry.experiments import language_models as language
from book.geometry.experiments import weight_films as films
from book.geometry.experiments.language_models import BASELINE, NO_Q, LanguageRun
from book.geometry.experiments.weight_films import ABSENT, SETTING, WALKERS, WeightFilm
from embviz.ledger.cells import table_of
from embviz.storage import results_folder
from embviz.training.language import load_streams, score_unigrams
from embviz.view import theme
from embviz.view.explorers import Choice, Control, Number, Range
from embviz.view.player import HISTORY, NOTE

PRESET = "laptop"  # of the films: seconds, and stored where somebody has stored them


def cost_table() -> pd.DataFrame:
    """What recording adds to a training step, from the stored speed table: one row per way."""
    rows = {}
    for path in sorted((results_folder() / "bench").glob("a_training_step_of_*.json")):
        row = json.loads(path.read_text(encoding="utf-8"))
        way = row["job"].partition("recorded ")[2]
        more = f"{100 * (row['ratio'] - 1):+.1f}%"
        rows[way] = {"processor time of a step": more, "measured on": row["device"]}
    return pd.DataFrame.from_dict(rows, orient="index").rename_axis("recorded")


# --- films ----------------------------------------------------------------------------------------------

CURVES = ["loss", "bits_per_character", "key_share", *(f"walked_{name}" for name in WALKERS)]
ROW, HIGH = 580, 150  # pixels


def recorded_frames() -> pd.DataFrame:
    """The films for a player, by `variant`."""
    cells = films.film_cells(PRESET)
    parts = [table_of(cell).assign(variant=cell.config.run.variant) for cell in cells]
    return pd.concat(parts, ignore_index=True)


def film() -> WeightFilm:
    """The film of the baseline."""
    config: WeightFilm = films.film_cells(PRESET)[0].config
    return config


def film_note() -> str:
    """Data, sizes and seed of the films, for a caption."""
    setting = film().run.setting
    return (
        f"Recorded: bytes of the embedded text, {setting.n_layers} layers of {setting.embedding_dim} "
        f"dimensions, {setting.n_steps} steps of {setting.batch_size} x {setting.length} bytes, seed "
        f"{film().run.seed}; a snapshot every {film().record_every} steps, {film().sketch} numbers a matrix."
    )


def live_controls() -> dict[str, Control]:
    """What a reader may choose before a live run."""
    return {
        "attention": Choice([BASELINE, NO_Q, language.NO_K, language.FROZEN_Q], "variant"),
        "rate": Choice([5e-3, 2e-3, 1e-3, 2e-2], "learning rate", format="{:g}"),
        "decay": Range(0.0, 1.0, 0.1, "weight decay", initial=0.1),
        "n_steps": Number(10, 5_000, "steps", initial=SETTING.n_steps),
        "seed": Number(0, 999, "seed", initial=0),
    }


def live_frames(attention: str, rate: float, decay: float, n_steps: int, seed: int) -> Iterator[pd.DataFrame]:
    """Train in this kernel, record, and picture every 10 steps; parameters as of :func:`live_controls`."""
    setting = replace(SETTING, n_steps=n_steps, learning_rate=rate, weight_decay=decay)
    run = LanguageRun(films.TEXT, attention, seed, setting=setting)
    alone = score_unigrams(load_streams(films.TEXT)).bits_per_character
    for frame in films.pictures(WeightFilm(run)):
        bits = frame["bits_per_character"].iloc[0]
        frame.attrs[NOTE] = (
            f"Step {frame['frame'].iloc[0]}: {bits:.2f} bits a character; bytes' frequencies pay {alone:.2f}."
        )
        yield frame


def plot_frames(data: alt.NamedData) -> alt.VConcatChart:
    """A player's chart: loss, bits, W_K's share and trajectories so far; spectra, and distance moved."""
    rows = [
        alt.hconcat(_curve("loss", [0, 6]), _curve("bits_per_character", [2, 8.2])),
        alt.hconcat(_curve("key_share", [0, 0.5]), _walked()),
        alt.hconcat(_spectra(data), _way(data)),
    ]
    apart = [
        row.resolve_scale(color="independent", strokeDash="independent", shape="independent") for row in rows
    ]
    chart: alt.VConcatChart = alt.vconcat(*apart, spacing=14).resolve_scale(
        color="independent", strokeDash="independent", shape="independent"
    )
    return chart


def _across() -> alt.X:
    """Steps; the axis doubles where a live run is longer."""
    end = {"expr": f"{SETTING.n_steps} * pow(2, max(0, ceil(log(max(frame, 1) / {SETTING.n_steps}) / LN2)))"}
    return alt.X(
        "frame:Q",
        axis=theme.axis("step", tick_count=4),
        scale=alt.Scale(domainMin=0, domainMax=end, nice=False),
    )


def _curve(field: str, limits: list[float]) -> alt.Chart:
    """One number over the steps so far."""
    return (
        alt.Chart(HISTORY)
        .transform_filter("datum.frame <= frame")
        .mark_line(clip=True, point=alt.OverlayMarkDef(size=9))
        .encode(
            x=_across(),
            y=alt.Y(
                f"{field}:Q", axis=theme.axis(field, tick_count=4), scale=alt.Scale(domain=limits, nice=False)
            ),
        )
        .properties(width=ROW // 2 - 31, height=HIGH)
    )


def _walked() -> alt.Chart:
    """Lengths of paths so far, by kind of matrix; a kind that the model hasn't is left out."""
    folded = [f"walked_{name}" for name in WALKERS]
    colour, dash = theme.line_styles("matrix", folded)
    key = alt.Legend(
        title=None,
        orient="top",
        columns=3,
        symbolType="stroke",
        symbolStrokeWidth=2.5,
        labelExpr=f"slice(datum.label, {len('walked_')})",
    )
    return (
        alt.Chart(HISTORY)
        .transform_fold([*folded], as_=["matrix", "walked"])
        .transform_filter(f"datum.frame <= frame && datum.walked > {ABSENT / 2}")
        .mark_line(clip=True)
        .encode(
            x=_across(),
            y=alt.Y("walked:Q", axis=theme.axis("walked", tick_count=4)),
            color=colour.legend(key),
            strokeDash=dash.legend(key),
        )
        .properties(width=ROW // 2 - 31, height=HIGH)
    )


def _spectra(data: alt.NamedData) -> alt.Chart:
    """Singular values of W_K by rank, one line per layer."""
    colour, dash = theme.line_styles("name", ["layer 1", "layer 2"])
    key = alt.Legend(title=None, orient="top", symbolType="stroke", symbolStrokeWidth=2.5)
    return (
        alt.Chart(data)
        .transform_filter("datum.shown === 'singular values'")
        .mark_line(clip=True, point=alt.OverlayMarkDef(size=12))
        .encode(
            x=alt.X(
                "x:Q", axis=theme.axis("rank"), scale=alt.Scale(domain=[1, SETTING.embedding_dim], nice=False)
            ),
            y=alt.Y(
                "y:Q", axis=theme.axis("key_value", tick_count=4), scale=alt.Scale(domain=[0, 3], nice=False)
            ),
            color=colour.legend(key),
            strokeDash=dash.legend(key),
        )
        .properties(width=ROW // 2 - 31, height=HIGH + 20)
    )


def _way(data: alt.NamedData) -> alt.LayerChart:
    """One mark per matrix: how far from its start it is and how far it walked; the rule is a straight way."""
    limits = alt.Scale(type="symlog", constant=0.1, domain=[0, 40], nice=False)
    values = [0, 0.1, 0.3, 1, 3, 10, 30]
    points = (
        alt.Chart(data)
        .transform_filter("datum.shown === 'moved'")
        .mark_point(size=45, clip=True)
        .encode(
            x=alt.X(
                "x:Q",
                axis=alt.Axis(title=theme.title("away"), values=values, labelExpr="datum.value"),
                scale=limits,
            ),
            y=alt.Y(
                "y:Q",
                axis=alt.Axis(title=theme.title("walked"), values=values, labelExpr="datum.value"),
                scale=limits,
            ),
            tooltip=[
                alt.Tooltip("name:N", title="matrix"),
                alt.Tooltip("x:Q", title="away", format=".2f"),
                alt.Tooltip("y:Q", title="walked", format=".2f"),
            ],
        )
    )
    ends = alt.Data(values=[{"x": 0, "y": 0}, {"x": 40, "y": 40}])
    straight = (
        alt.Chart(ends)
        .mark_line(color=theme.INK, strokeDash=list(theme.DASHES[2]), strokeWidth=1.2)
        .encode(x=alt.X("x:Q", scale=limits), y=alt.Y("y:Q", scale=limits))
    )
    return alt.LayerChart(layer=[straight, points]).properties(width=ROW // 2 - 31, height=HIGH + 20)
