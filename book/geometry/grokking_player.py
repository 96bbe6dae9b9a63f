"""The player of the chapter on grokking: live runs, and how a frame is drawn.

A frame is a table of :func:`~.experiments.films.picture`: the embedding's spectrum and three planes of it.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import altair as alt
import pandas as pd

from book.geometry.experiments import films
from book.geometry.experiments.films import NEAR, NOT_MEASURED, RMS, SETTING, SHARES
from book.geometry.experiments.grokking import MEMORIZED, GrokkingRun, grok
from book.geometry.experiments.steering import GROKKED
from embviz.view import Axis, plot_bars, plot_curves, theme
from embviz.view.explorers import Choice, Control, Range
from embviz.view.player import HISTORY, NOTE, Number, Numbers

LIMIT = 400  # epochs of a live run
ANSWERS = {"+": "a + b", "-": "a - b", "*": "a · b"}
ORDERS = ("0, 1, 2, ...", "1, g, g², ...")
SPLITS = {"train": "training", "validation": "validation"}
CURVES = ["train_accuracy", "train_loss", "validation_accuracy", "validation_loss"]
CURVES += ["kept", "n_places", "mode_0", "mode_1", "mode_2"]
KEPT, OTHER = "kept in the gradient", "other modes"
LARGE, SMALL = 330, 200  # pixels: sides of the first circle and of the others
BESIDE, WHOLE = 218, 610  # pixels: width of the curves, and of the spectrum
REACH = 1.75  # of a plane, root mean square radii; what lies beyond stands at the edge
LOW, HIGH = 112, 100  # pixels: height of a curve, and of the spectrum


def when_reached(frames: pd.DataFrame) -> Callable[[str], str]:
    """The title of a recording: the first frames with 99% of the training, 95% of the other pairs right."""
    last = frames["frame"].max()
    goals = {"training accuracy 99%": ("train_accuracy", MEMORIZED)}
    goals |= {"validation accuracy 95%": ("validation_accuracy", GROKKED)}

    def title(run: str) -> str:
        own = frames[frames["run"] == run]
        first = {goal: own[own[column] >= level]["frame"].min() for goal, (column, level) in goals.items()}
        when = [
            f"{goal} {f'not by epoch {last}' if pd.isna(frame) else f'at epoch {frame}'}"
            for goal, frame in first.items()
        ]
        return f"{run}: {', '.join(when)}"

    return title


# --- live runs ------------------------------------------------------------------------------------------


def live_controls() -> dict[str, Control]:
    """What a reader may choose before a live run; first what a click on the spectrum changes."""
    return {
        "modes": Numbers(
            "modes kept (click bars; none: all)",
            initial=" ".join(map(str, NEAR)),
            click="mode",
            recorded="kept",
        ),
        "p": Number(7, 199, "modulus p", initial=97),
        "op": Choice(list(ANSWERS), "answer", format=lambda op: ANSWERS[op]),
        "train_share": Range(0.05, 0.9, 0.05, "share to train on", initial=0.4),
        "weight_decay": Range(0.0, 2.0, 0.25, "weight decay", initial=1.0),
        "seed": Number(0, 999, "seed", initial=0),
        "order": Choice(list(ORDERS), "residues drawn in the order"),
    }


def live_frames(
    p: int, op: str, train_share: float, weight_decay: float, modes: str, order: str, seed: int
) -> Iterator[pd.DataFrame]:
    """Train in this kernel, and yield a picture after each epoch, with a note on what has happened.

    Parameters are those of :func:`live_controls`.
    """
    chosen = tuple(map(int, modes.split()))
    if outside := [mode for mode in chosen if mode > p // 2]:
        raise ValueError(f"{p} residues have the modes 0 to {p // 2}; take out {outside[0]}")
    run = GrokkingRun(
        p=p,
        op=op,  # type: ignore[arg-type]
        train_share=train_share,
        modes=chosen,
        n_epochs=LIMIT,
        first_seed=seed,
        setting=replace(SETTING, weight_decay=weight_decay),
    )
    notes = about(run)
    memorized = grokked = False
    for frame in grok(run, device="cpu"):
        table = films.picture(frame, run, by_powers=order == ORDERS[1])
        if not memorized and frame.train_accuracy >= MEMORIZED:
            memorized = True
            notes.append(f"Epoch {frame.epoch}: {MEMORIZED:.0%} of the training pairs are right.")
        if not grokked and (frame.validation_accuracy or 0.0) >= GROKKED:
            grokked = True
            notes.append(f"Epoch {frame.epoch}: {GROKKED:.0%} of the validation pairs are right.")
        if frame.epoch == LIMIT and not grokked:
            notes.append(f"Not grokked within {LIMIT} epochs; it may still do so later.")
        table.attrs[NOTE] = " ".join(notes)
        yield table


def about(run: GrokkingRun) -> list[str]:
    """Notes for the reader before a run starts, a sentence each."""
    if films.is_prime(run.p):
        return []
    factor = next(d for d in range(2, run.p) if run.p % d == 0)
    if run.op == "*":
        return [f"p = {run.p} is not prime: products have divisors of zero, and some answers are frequent."]
    return [f"p = {run.p} is not prime: a wave of mode {factor} takes each value {factor} times."]


# --- the picture ----------------------------------------------------------------------------------------


def plot_frame(data: alt.NamedData) -> alt.VConcatChart:
    """The player's chart: the strongest circle and the curves, the spectrum, two circles."""
    curves = alt.vconcat(
        _curve("accuracy", alt.Scale(domain=[0, 1.02], nice=False)),
        _curve("loss", alt.Scale(type="sqrt", domain=[0, 10], nice=False, clamp=True)),
        spacing=10,
    )
    rows = (
        _apart(alt.hconcat(_circle(data, 0, LARGE), curves)),
        _apart(_spectrum(data)),
        _apart(alt.hconcat(_circle(data, 1, SMALL), _circle(data, 2, SMALL))),
    )
    whole: alt.VConcatChart = _apart(alt.vconcat(*rows, spacing=14))
    return whole


def _apart(chart: Any) -> Any:
    """Panels with their own colours and dashes."""
    return chart.resolve_scale(color="independent", strokeDash="independent")


def _curve(score: str, scale: alt.Scale) -> alt.LayerChart:
    """Training and validation over the epochs so far; the axis doubles where they no longer fit."""
    names = {f"{split}_{score}": words for split, words in SPLITS.items()}
    end = {"expr": "25 * pow(2, max(0, ceil(log(max(frame, 1) / 25) / LN2)))"}
    curve = plot_curves(
        HISTORY,
        Axis("frame", alt.Scale(domainMin=0, domainMax=end, nice=False), title="epoch"),
        Axis(score, scale),
        kind="split",
        names=list(names.values()),
        seed=None,
        interval=False,
        kind_title="",
    )
    so_far = (
        curve.transform_filter("datum.frame <= frame")
        .transform_fold(list(names), as_=["which", score])
        .transform_filter(f"datum.{score} > {NOT_MEASURED / 2}")
        .transform_calculate(split=f"{json.dumps(names)}[datum.which]")
    )
    return so_far.properties(width=BESIDE, height=LOW)


def _spectrum(data: alt.NamedData) -> alt.LayerChart:
    """Power by mode, those kept by colour; an open mark above those picked for the next live run."""
    up = alt.Scale(type="sqrt", domain=[0, 1], nice=False)
    rows = {
        "mode": "datum.place",
        "power_share": f"datum.v / {SHARES}",
        "role": f"indexof(split(datum.kept, ' '), '' + datum.place) >= 0 ? '{KEPT}' : '{OTHER}'",
    }
    bars = plot_bars(data, "mode", Axis("power_share", up), kind="role", names=[OTHER, KEPT], kind_title="")
    picked = "indexof(split(modes, regexp('[ ,;]+')), '' + datum.place) >= 0"
    mark = alt.Chart().mark_point(shape="triangle-down", strokeWidth=theme.WIDTHS["step"])
    # hidden marks, not fewer rows: of none the axis would have no extent
    marks = mark.encode(
        x="mode:Q",
        y=alt.value(7),
        opacity=alt.when(picked).then(alt.value(1)).otherwise(alt.value(0)),
        fill=alt.value("transparent"),
        stroke=alt.value(theme.INK),
        size=alt.value(theme.SIZES["large"]),
    )
    target = (
        alt.Chart()
        .transform_calculate(left="datum.place - 0.5", right="datum.place + 0.5")
        .mark_rect(opacity=0, cursor="pointer")
        .encode(
            x="left:Q",
            x2="right:Q",
            y=alt.value(0),
            y2=alt.value(HIGH),
            tooltip=["mode:Q", alt.Tooltip("power_share:Q", format=".1%")],
        )
    )
    chart = alt.LayerChart(data=data, layer=[*bars.layer, marks, target])
    chart = chart.transform_filter("datum.rank === -1").transform_calculate(**rows)
    return chart.properties(width=WHOLE, height=HIGH)


def _circle(data: alt.NamedData, rank: int, side: int) -> alt.LayerChart:
    """The residues in the two dimensions of one mode, joined and coloured in their order on its circle."""
    scale = alt.Scale(domain=[-REACH, REACH], nice=False, clamp=True)
    place = {
        "x": alt.X("cosine_part:Q", scale=scale, axis=theme.layout_axis("cosine_part")),
        "y": alt.Y("sine_part:Q", scale=scale, axis=theme.layout_axis("sine_part")),
    }
    turn = f"(datum.mode_{rank} * datum.place) % datum.n_places"
    joined = alt.Chart().mark_line(
        color=theme.INK, strokeWidth=theme.WIDTHS["seed"], opacity=theme.OPACITY["seed"]
    )
    looks: dict[str, Any] = {"stroke": theme.INK, "strokeWidth": theme.WIDTHS["outline"], "opacity": 1}
    size = theme.SIZES["mark" if side == LARGE else "dot"]
    points = alt.Chart().mark_point(size=size, filled=True, **looks)
    name = alt.Chart().transform_filter("datum.place === 0").mark_text(align="left", fontSize=12)
    layers = [
        joined.encode(order="turn:Q", **place),
        points.encode(
            color=alt.Color("turn:Q", scale=theme.sequential_scale(), legend=None),
            tooltip=[alt.Tooltip("place:Q", title="residue")],
            **place,
        ),
        name.encode(x=alt.value(6), y=alt.value(12), text="words:N"),
    ]
    calculated = {
        "cosine_part": f"datum.u / {RMS}",
        "sine_part": f"datum.v / {RMS}",
        "turn": turn,
        "words": f"'mode ' + datum.mode_{rank}",
    }
    chart = alt.LayerChart(data=data, layer=layers).transform_filter(f"datum.rank === {rank}")
    return chart.transform_calculate(**calculated).properties(width=side, height=side)
