"""What the chapter on trajectories measures and draws: random walks, cosines, and panels to guess at."""

from __future__ import annotations

import json

import altair as alt
import numpy as np
import pandas as pd
from scipy.stats import hypergeom, rankdata

from book.geometry.experiments import path_panels as panels
from book.geometry.experiments.path_panels import KINDS, TRAINING, VIEWS, WALK, PanelRun
from embviz.ledger.cells import table_of
from embviz.trajectories.traces import principal_coordinates
from embviz.trajectories.weight_paths import cosine_share
from embviz.view import charts, theme

PRESET = "laptop"  # of the quick run: seconds, and stored where somebody has stored it
N_POINTS = 80  # snapshots of a made walk
N_COMPONENTS = 4
N_DEALS, N_PANELS = 10, 4
HIDDEN = -1  # the answer that isn't shown
DEALT = (VIEWS[0], VIEWS[2])
SIDE, TALL, CARD = 250, 290, 150  # pixels: panels side by side, one above another, and of the game


# --- walks ----------------------------------------------------------------------------------------------


def walk(dimension: int, momentum: float = 0.0, *, n: int = N_POINTS, seed: int = 0) -> np.ndarray:
    """A random walk of n points, (n, D): Gaussian steps, each `momentum` times the last and a new part."""
    rng = np.random.default_rng(seed)
    fresh = rng.standard_normal((n - 1, dimension))
    steps = np.empty_like(fresh)
    steps[0] = fresh[0]
    for i in range(1, n - 1):
        steps[i] = momentum * steps[i - 1] + np.sqrt(1 - momentum**2) * fresh[i]
    return np.concatenate([np.zeros((1, dimension)), steps.cumsum(axis=0)])


def cosine(component: int, n: int = N_POINTS) -> np.ndarray:
    """The k-th principal component of an infinitely wide walk of n points, over time: root mean square 1."""
    return np.sqrt(2) * np.cos(np.pi * component * (np.arange(n) + 0.5) / n)


def expected_shares(n: int = N_POINTS) -> np.ndarray:
    """Shares of variance of the principal components of such a walk, (n - 1,).

    Inner products of its points about their mean are, but for a factor, the pseudo-inverse of the Laplacian
    of a path of n places, whose eigenvectors are the cosines, and whose eigenvalues are 4 sin²(pi k / 2n).

    Source
    ------
    Antognini & Sohl-Dickstein (2018), where n is infinite too: 6 / (pi k)².
    """
    sizes = 1 / np.sin(np.pi * np.arange(1, n) / (2 * n)) ** 2
    return sizes / sizes.sum()


def components_of_a_walk(dimension: int, momentum: float, seed: int) -> pd.DataFrame:
    """The first principal components of a walk over time, and the cosines that a wide walk would have.

    Returns
    -------
    DataFrame
        `component`; `time`, 0 to 1; `walk` and `cosine`, each of root mean square 1; and of the component
        `explained` and `expected`, the shares of variance of the walk and of the closed form.
    """
    points = walk(dimension, momentum, seed=seed)
    n_axes = min(N_COMPONENTS, dimension)
    scores = principal_coordinates(points, n_axes)
    total = float(((points - points.mean(axis=0)) ** 2).sum())
    time, expected = (np.arange(N_POINTS) + 0.5) / N_POINTS, expected_shares()
    parts = []
    for k in range(1, n_axes + 1):
        own, wave = scores[:, k - 1], cosine(k)
        share = float((own**2).sum()) / total
        own = own / np.sqrt(np.mean(own**2)) * (1 if own @ wave >= 0 else -1)
        part = pd.DataFrame({"time": time, "walk": own.round(2), "cosine": wave.round(2)})
        parts.append(part.assign(component=k, explained=round(share, 3), expected=round(expected[k - 1], 3)))
    return pd.concat(parts, ignore_index=True)


def plot_components(data: charts.Data) -> alt.VConcatChart:
    """A panel a component: the walk's over time, the cosine dashed, the shares of variance above."""
    rows = [alt.hconcat(*(_component(data, k) for k in pair)) for pair in ((1, 2), (3, 4))]
    apart = [row.resolve_scale(color="independent", strokeDash="independent") for row in rows]
    chart: alt.VConcatChart = alt.vconcat(*apart, spacing=10).resolve_scale(
        color="independent", strokeDash="independent"
    )
    return chart


def _component(data: charts.Data, k: int) -> alt.LayerChart:
    colour, dash = theme.line_styles("line", ["walk", "cosine"])
    key = alt.Legend(title=None, orient="top") if k == 1 else None
    base = alt.Chart(data).transform_filter(f"datum.component === {k}")
    lines = (
        base.transform_fold(["walk", "cosine"], as_=["line", "height"])
        .mark_line(clip=True)
        .encode(
            x=alt.X("time:Q", axis=theme.axis("walk_time", tick_count=3), scale=alt.Scale(domain=[0, 1])),
            y=alt.Y(
                "height:Q", axis=theme.axis("score_of_walk", tick_count=3), scale=alt.Scale(domain=[-3, 3])
            ),
            color=colour.legend(key),
            strokeDash=dash.legend(key),
        )
    )
    words = (
        base.transform_aggregate(explained="mean(explained)", expected="mean(expected)")
        .transform_calculate(
            words=f"'k = {k}: ' + format(datum.explained, '.0%') + ' of variance (closed form '"
            " + format(datum.expected, '.0%') + ')'"
        )
        .mark_text(align="left", fontSize=11)
        .encode(x=alt.value(4), y=alt.value(8), text="words:N")
    )
    return alt.LayerChart(layer=[lines, words]).properties(width=SIDE, height=120)


def plane_of_a_walk(dimension: int, axes: str, seed: int) -> pd.DataFrame:
    """A walk in the plane of two of its principal components, and the curve of two cosines.

    Returns
    -------
    DataFrame
        `time`, `line` ("walk", "two cosines"), `x`, `y`, each root mean square 1.
    """
    points = walk(dimension, seed=seed)
    first, second = (int(axis) for axis in axes.split(" and "))
    scores = principal_coordinates(points, max(first, second))
    time = (np.arange(N_POINTS) + 0.5) / N_POINTS
    parts = []
    for line in ("walk", "two cosines"):
        columns = {}
        for name, k in (("x", first), ("y", second)):
            own = scores[:, k - 1] if line == "walk" else cosine(k)
            own = own * (1 if own @ cosine(k) >= 0 else -1)
            size = np.sqrt(np.mean(own**2))
            columns[name] = (own / (size or 1)).round(3)
        parts.append(pd.DataFrame({"time": time, "line": line, **columns}))
    return pd.concat(parts, ignore_index=True)


def plot_plane(data: charts.Data) -> alt.LayerChart:
    """The walk as points coloured by time, the curve of cosines as a line."""
    scale = alt.Scale(domain=[-2, 2], nice=False)
    base = alt.Chart(data).encode(
        x=alt.X("x:Q", axis=theme.layout_axis("layout_x"), scale=scale),
        y=alt.Y("y:Q", axis=theme.layout_axis("layout_y"), scale=scale),
    )
    curve = (
        base.transform_filter("datum.line === 'two cosines'")
        .mark_line(strokeWidth=1.5, strokeDash=list(theme.DASHES[1]), color=theme.INK, clip=True)
        .encode(order="time:Q")
    )
    points = (
        base.transform_filter("datum.line === 'walk'")
        .mark_point(size=30, clip=True)
        .encode(
            color=alt.Color(
                "time:Q", scale=theme.sequential_scale(), legend=alt.Legend(title=theme.title("walk_time"))
            )
        )
    )
    return alt.LayerChart(layer=[curve, points]).properties(width=300, height=300)


def share_table(*, n_draws: int = 20) -> pd.DataFrame:
    """How much of walks' variance two cosines of time hold, by dimension and momentum.

    Returns
    -------
    DataFrame
        A row a number of dimensions, a column a momentum: means over draws. The last row is the closed form.
    """
    momenta = (0.0, 0.5, 0.9)
    rows: dict[str, dict[str, str]] = {}
    for dimension in (2, 10, 100, 1_000):
        shares = {
            f"momentum {momentum:g}": np.mean(
                [cosine_share(walk(dimension, momentum, seed=seed)) for seed in range(n_draws)]
            )
            for momentum in momenta
        }
        rows[f"{dimension:,}"] = {name: f"{share:.2f}" for name, share in shares.items()}
    limit = expected_shares()[:2].sum()
    rows["infinitely many"] = {f"momentum {momenta[0]:g}": f"{limit:.2f}"} | {
        f"momentum {momentum:g}": "" for momentum in momenta[1:]
    }
    return pd.DataFrame.from_dict(rows, orient="index").rename_axis("dimensions")


# --- the quick run --------------------------------------------------------------------------------------


def _table() -> pd.DataFrame:
    return table_of(panels.panel_cell(PRESET))


def drawings() -> pd.DataFrame:
    """Every drawing of the quick run: tensor, kind, shown (the view), step, loss, x, y."""
    table = _table()
    return table[table["step"] >= 0].reset_index(drop=True)


def numbers() -> pd.DataFrame:
    """Every number of the quick run: a row a tensor and kind, a column a number."""
    table = _table()
    told = table[table["step"] < 0].pivot(index=["tensor", "kind"], columns="shown", values="x")
    return told.rename_axis(None, axis="columns").reset_index()


def tensors() -> list[str]:
    """The matrices of the quick run, in order."""
    return list(dict.fromkeys(drawings()["tensor"]))


def run_note() -> str:
    """Data, sizes and seed of the quick run, for a caption."""
    config: PanelRun = panels.panel_cell(PRESET).config
    setting, table = config.film.run.setting, drawings()
    return (
        f"Bytes of the embedded text, {setting.n_layers} layers of width {setting.embedding_dim}, "
        f"{setting.n_steps} steps, {table['step'].nunique()} snapshots, seed {config.film.run.seed}. "
        "Walks have a matrix's step lengths, its number of weights and the momentum of successive steps."
    )


def stage_grid() -> pd.DataFrame:
    """Rows of an explorer over tensor, view and path: `step`, `loss`, `x`, `y`, signs as in training."""
    parts = []
    for _, both in drawings().groupby(["tensor", "shown"], sort=False):
        by_kind = {kind: both[both["kind"] == kind] for kind in KINDS}
        reference = by_kind[TRAINING]
        for part in by_kind.values():
            parts.append(_turned(part, reference))
    table = pd.concat(parts, ignore_index=True).rename(columns={"shown": "view", "kind": "path"})
    return table.assign(loss=table["loss"].round(3), x=table["x"].round(3), y=table["y"].round(3))


def _turned(part: pd.DataFrame, reference: pd.DataFrame) -> pd.DataFrame:
    """Points turned or mirrored, not stretched, to lie as near as they can to the reference's."""
    points, goal = part[["x", "y"]].to_numpy(), reference[["x", "y"]].to_numpy()
    left, _, right = np.linalg.svd(points.T @ goal)
    x, y = (points @ left @ right).T
    return part.assign(x=x, y=y)


def plot_stage(data: charts.Data) -> alt.VConcatChart:
    """The path in the plane and the loss over the steps, both coloured by step; a brush in one marks both."""
    brush = alt.selection_interval(name="marked", encodings=["x"])
    colour = alt.Color("step:Q", scale=theme.sequential_scale(), legend=alt.Legend(title=theme.title("step")))
    scale = alt.Scale(domain=[-2.1, 2.1], nice=False)
    on = alt.when(brush).then(alt.value(1)).otherwise(alt.value(0.12))
    plane = alt.Chart(data).encode(
        x=alt.X("x:Q", axis=theme.layout_axis("layout_x"), scale=scale),
        y=alt.Y("y:Q", axis=theme.layout_axis("layout_y"), scale=scale),
    )
    line = plane.mark_line(strokeWidth=0.8, opacity=0.4, color=theme.INK, clip=True).encode(order="step:Q")
    points = plane.mark_point(size=34, clip=True).encode(
        color=colour, opacity=on, tooltip=["step:Q", alt.Tooltip("loss:Q", format=".2f")]
    )
    loss = (
        alt.Chart(data)
        .mark_point(size=18)
        .encode(
            x=alt.X("step:Q", axis=theme.axis("step", tick_count=4)),
            y=alt.Y("loss:Q", axis=theme.axis("loss", tick_count=4), scale=alt.Scale(zero=False)),
            color=colour,
            opacity=on,
        )
        .add_params(brush)
    )
    layout = alt.LayerChart(layer=[line, points]).properties(width=TALL, height=TALL)
    chart: alt.VConcatChart = alt.vconcat(layout, loss.properties(width=TALL, height=110), spacing=12)
    return chart


def numbers_table() -> pd.DataFrame:
    """What numbers say of training and of walks: a row a number, ranges over the matrices.

    Returns
    -------
    DataFrame
        Ranges as text; `tells them apart`: the chance that a matrix of training has the larger number than a
        walk, both drawn at random. A half is no help.
    """
    table = numbers()
    names = {
        "two cosines in the layout": ("cosine_share", ".2f"),
        "two cosines in the weights": ("weight_cosine_share", ".2f"),
        "loss not predicted from the bottleneck": ("prediction", ".2f"),
        "phases": ("n_phases", ".0f"),
        "longest 5% of the layout's steps": ("layout_sharpness", ".2f"),
        "rank correlation with drops of the loss": ("loss_correlation", ".2f"),
    }
    rows = {}
    for words, (column, spec) in names.items():
        by_kind = {kind: table.loc[table["kind"] == kind, column].dropna().to_numpy() for kind in KINDS}
        rows[words] = {
            kind: f"{values.min():{spec}} to {values.max():{spec}}" if len(values) else "not measured"
            for kind, values in by_kind.items()
        } | {"tells them apart": f"{larger_chance(*by_kind.values()):.0%}"}
    return pd.DataFrame.from_dict(rows, orient="index").rename_axis("number")


def larger_chance(first: np.ndarray, second: np.ndarray) -> float:
    """Chance that one of the first is larger than one of the second, ties halved; a half where one is empty.

    >>> larger_chance(np.array([1.0, 3.0]), np.array([2.0]))
    0.5
    """
    if not len(first) or not len(second):
        return 0.5
    ranks = rankdata(np.concatenate([first, second]))[: len(first)]
    return float((ranks.sum() - len(first) * (len(first) + 1) / 2) / (len(first) * len(second)))


def shape_finding() -> str:
    """How far a walk's layout is from its matrix's, on average over matrices."""
    far = numbers().query("kind == @WALK")["disparity"]
    return (
        f"A random walk's layout is its matrix's own but for {far.mean():.1%} of its variance "
        f"({far.min():.1%} to {far.max():.1%} over {len(far)} matrices)"
    )


def phase_finding() -> str:
    """How many phases HDBSCAN finds in training's layouts and in walks', true of the quick run."""
    table = numbers()
    means = {kind: table.loc[table["kind"] == kind, "n_phases"].mean() for kind in KINDS}
    return (
        f"Phases found, on average: {means[TRAINING]:.1f} in a matrix of training, {means[WALK]:.1f} in a "
        "random walk"
    )


def spread_finding() -> str:
    """What chance alone may make of the last column of :func:`numbers_table`, two standard deviations."""
    n, m = (int((numbers()["kind"] == kind).sum()) for kind in KINDS)
    spread = 2 * np.sqrt((n + m + 1) / (12 * n * m))  # of Mann and Whitney's statistic, over n m
    return f"Of {n} matrices and {m} walks that don't differ, the last column has 50% ± {spread:.0%}"


# --- guess which ----------------------------------------------------------------------------------------


def deal(number: int) -> list[tuple[str, str]]:
    """Four panels: tensor and kind of each, of both kinds at least one; no path twice."""
    rng = np.random.default_rng([1933, number])
    names = tensors()
    n_training = int(rng.integers(1, N_PANELS))
    kinds = rng.permutation([TRAINING] * n_training + [WALK] * (N_PANELS - n_training))
    chosen = rng.permutation(len(names))[:N_PANELS]
    return [(names[place], str(kind)) for place, kind in zip(chosen, kinds, strict=True)]


def in_words(tensor: str, kind: str) -> str:
    """What a path is, for the answer."""
    return f"{kind}, {tensor}" if kind == TRAINING else f"walk like {tensor}"


def answers_in_words() -> list[str]:
    """Every answer that there is."""
    return [in_words(tensor, kind) for tensor in tensors() for kind in KINDS]


def dealt(deal_number: int, view: str, answers: bool) -> pd.DataFrame:
    """Panels of a deal, each turned and mirrored at random, so that no sign gives it away.

    Returns
    -------
    DataFrame
        `panel` ("A" to "D"), `time` (0 to 1), `x`, `y`, and `answer`, a place in :func:`answers_in_words` if
        wanted, else -1.
    """
    rng = np.random.default_rng([2018, deal_number])
    table = drawings()
    parts = []
    for name, (tensor, kind) in zip("ABCD", deal(deal_number), strict=True):
        part = table.query("tensor == @tensor and kind == @kind and shown == @view")
        matrix = np.linalg.qr(rng.standard_normal((2, 2))).Q
        x, y = (part[["x", "y"]].to_numpy() @ matrix).T
        own = answers_in_words().index(in_words(tensor, kind)) if answers else HIDDEN
        time = (np.arange(len(part)) + 0.5) / len(part)
        panel = pd.DataFrame({"time": time.round(3), "x": x.round(3), "y": y.round(3)})
        parts.append(panel.assign(panel=name, answer=own))
    return pd.concat(parts, ignore_index=True)


def plot_dealt(data: charts.Data) -> alt.VConcatChart:
    """Four panels, each a path coloured by time."""
    rows = [alt.hconcat(*(_panel(data, name) for name in pair)) for pair in ("AB", "CD")]
    chart: alt.VConcatChart = alt.vconcat(*rows, spacing=10)
    return chart


def _panel(data: charts.Data, name: str) -> alt.LayerChart:
    scale = alt.Scale(domain=[-2.1, 2.1], nice=False)
    base = alt.Chart(data).transform_filter(f"datum.panel === '{name}'")
    place = {
        "x": alt.X("x:Q", axis=None, scale=scale),
        "y": alt.Y("y:Q", axis=None, scale=scale),
    }
    line = base.mark_line(strokeWidth=0.8, opacity=0.4, color=theme.INK, clip=True).encode(
        order="time:Q", **place
    )
    points = base.mark_point(size=26, clip=True).encode(
        color=alt.Color("time:Q", scale=theme.sequential_scale(), legend=None), **place
    )
    words = (
        base.transform_aggregate(answer="min(answer)")
        .transform_calculate(
            words=f"'{name}: ' + (datum.answer < 0 ? '?' : {json.dumps(answers_in_words())}[datum.answer])"
        )
        .mark_text(align="left", fontSize=11)
        .encode(x=alt.value(5), y=alt.value(11), text="words:N")
    )
    return alt.LayerChart(layer=[line, points, words]).properties(width=CARD, height=CARD)


def rule_table() -> pd.DataFrame:
    """How a program fares at the game, by rules that look at one number: shares of right guesses.

    A rule says "training" of the paths whose number is beyond the median of all; which side, it is told.
    Beside it what it gets on average where the number means nothing, and how often as many as here.
    """
    table = numbers()
    is_training = (table["kind"] == TRAINING).to_numpy()
    rows = {}
    for words, column in (
        ("two cosines in the layout", "cosine_share"),
        ("two cosines in the weights", "weight_cosine_share"),
        ("longest steps of the layout", "layout_sharpness"),
        ("loss not predicted", "prediction"),
    ):
        beyond = table[column].to_numpy() > table[column].median()
        right = float(np.mean(beyond == is_training))
        expected, as_many = by_chance(max(right, 1 - right), is_training, beyond)
        rows[words] = {
            "right": f"{max(right, 1 - right):.0%}",
            "by chance": f"{expected:.0%}",
            "chance of as many": f"{as_many:.0%}",
            "paths": len(table),
        }
    return pd.DataFrame.from_dict(rows, orient="index").rename_axis("rule: beyond the median of")


def by_chance(right: float, is_training: np.ndarray, beyond: np.ndarray) -> tuple[float, float]:
    """Of a rule that may choose its side: the mean share of right guesses, and how often so many or more.

    That is if as many paths as now are beyond the median, and which ones is drawn at random.

    >>> expected, as_many = by_chance(1.0, np.array([True, False]), np.array([True, False]))
    >>> round(expected, 2), round(as_many, 2)
    (1.0, 1.0)
    """
    n, n_training, n_beyond = len(is_training), int(is_training.sum()), int(beyond.sum())
    hits = np.arange(n_training + 1)  # matrices of training beyond the median
    chances = hypergeom.pmf(hits, n, n_training, n_beyond)
    shares = (hits + n - n_training - (n_beyond - hits)) / n
    better = np.maximum(shares, 1 - shares)
    return float(chances @ better), float(chances[better > right - 1e-9].sum())


def rule_finding() -> str:
    """The best rule beside chance."""
    table = rule_table()
    best = str(table["right"].str.rstrip("%").astype(int).idxmax())
    row = table.loc[best]
    return (
        f"The best of {len(table)} rules, {best}, is right in {row['right']} of {row['paths']} paths; chance "
        f"gets {row['by chance']} on average, and any one rule as many in {row['chance of as many']} of draws"
    )
