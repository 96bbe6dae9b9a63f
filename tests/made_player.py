"""A made run for the player's tests: seven points that move, two pairs that come together, a falling loss."""

from __future__ import annotations

import functools
import math
from collections.abc import Iterator

import altair as alt
import numpy as np
import pandas as pd

from embviz.view import theme
from embviz.view.explorers import Toggle
from embviz.view.player import HISTORY, Player

SYMBOLS = ["0A", "0B", "1A", "1B", "E", "D", "?"]
PAIRS = ["0", "0", "1", "1", "parity", "parity", "mask"]
N_FRAMES, EVERY = 150, 20  # frames; steps from one to the next


def positions(share: float, tied: bool) -> np.ndarray:
    """Where the seven points are, shape (7, 2), when a share of the run is over."""
    angle = 2 * np.pi * np.arange(7) / 7
    start = np.stack([np.cos(angle), np.sin(angle)], axis=1)
    goal = np.array(
        [[-0.8, 0.5], [-0.7, 0.4], [0.6, 0.7], [0.7, 0.6], [0.1, -0.9], [-0.9, -0.7], [0.9, -0.4]]
    )
    if not tied:
        goal = goal[[2, 6, 4, 0, 1, 3, 5]]
    turn = np.array([[math.cos(share), math.sin(share)], [-math.sin(share), math.cos(share)]])
    return ((1 - share) * start + share * goal) @ turn


def frame_of(place: int, tied: bool, n_frames: int = N_FRAMES) -> pd.DataFrame:
    """One frame: a row for each symbol, and the loss and accuracy of the step."""
    share = place / max(n_frames - 1, 1)
    x, y = positions(share, tied).T
    loss = 0.3 + 0.6 * math.exp(-5 * share) + 0.02 * math.sin(place) * (1 - share)
    table = {"frame": EVERY * place, "symbol": SYMBOLS, "pair": PAIRS, "x": x, "y": y}
    return pd.DataFrame({**table, "loss": loss, "accuracy": 1 - 0.8 * loss})


@functools.cache
def recording(n_frames: int = N_FRAMES) -> pd.DataFrame:
    """Two runs, tied and not, of some frames each."""
    frames = [
        frame_of(place, tied, n_frames).assign(tied=tied)
        for tied in (False, True)
        for place in range(n_frames)
    ]
    return pd.concat(frames, ignore_index=True)


def train(tied: bool) -> Iterator[pd.DataFrame]:
    """The same run, computed as it's asked for; it ends after five frames."""
    for place in range(5):
        yield frame_of(place, tied, n_frames=5)


def draw(data: alt.NamedData) -> alt.HConcatChart:
    """Points joined by pairs beside the curves up to now."""
    x, y = (
        alt.X("x:Q", axis=theme.layout_axis("x")).scale(domain=[-1.3, 1.3]),
        alt.Y("y:Q", axis=theme.layout_axis("y")).scale(domain=[-1.3, 1.3]),
    )
    base = alt.Chart(data).encode(x=x, y=y)
    pairs = base.mark_line(color=theme.FAINT, strokeWidth=3).encode(detail="pair:N")
    points = base.mark_point().encode(
        color=alt.Color("pair:N", legend=None), shape=alt.Shape("pair:N", legend=None), tooltip="symbol:N"
    )
    names = base.mark_text(dx=11, dy=-9).encode(text="symbol:N")
    embedding = alt.layer(pairs, points, names).properties(width=290, height=290)
    step = theme.axis("step", tick_count=4)
    span = [0, EVERY * (N_FRAMES - 1)]
    history = alt.Chart(HISTORY).transform_filter("datum.frame <= frame")
    over = alt.X("frame:Q", axis=step).scale(domain=span)
    share = alt.Y("value:Q", title=None).scale(domain=[0, 1])
    color, dash = theme.line_styles("quantity", ["loss", "accuracy"])
    curve = history.transform_fold(["loss", "accuracy"], as_=["quantity", "value"]).mark_line()
    curve = curve.encode(
        x=over,
        y=share,
        color=color,
        strokeDash=dash,
    )
    rule = alt.Chart(data).mark_rule(opacity=0.5).encode(x="min(frame):Q")
    curves = alt.layer(curve, rule).properties(width=290, height=290)
    return alt.hconcat(embedding, curves).resolve_scale(
        color="independent", shape="independent", strokeDash="independent"
    )


def make_player(n_frames: int = N_FRAMES, **changes) -> Player:
    """A player of the made run."""
    arguments = {
        "frames": recording(n_frames),
        "draw": draw,
        "title": "Pairs that mean the same come together; tied: {tied}",
        "caption": "Made points, made curves.",
        "controls": {"tied": Toggle("tied", initial=True)},
        "curves": ["loss", "accuracy"],
    } | changes
    return Player(arguments.pop("frames"), arguments.pop("draw"), **arguments)
