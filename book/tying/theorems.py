"""What the chapter on the two theorems measures and draws: bounds, spans, weight decay, resemblance."""

from __future__ import annotations

import dataclasses
import functools
import itertools
import json
import math
from collections.abc import Mapping, Sequence

import altair as alt
import numpy as np
import pandas as pd
import torch
from scipy import optimize, stats

from book.tying.architectures import thinned
from book.tying.experiments import exor, natural, theorems
from book.tying.experiments.exor_runs import N_SHOWN, load_model, prepare
from embviz.ledger import findings
from embviz.ledger.cells import read
from embviz.tasks.exor import EVEN, MASK, ODD, ONE_A, ONE_B, SYMBOLS, ZERO_A, ZERO_B, EXor
from embviz.view import charts, theme

RUNS = {
    "weight decay": exor.MAIN,
    "no weight decay": theorems.NO_DECAY,
    "no decay, 3 of 4 dimensions": theorems.RANK_3,
}
PAIRS = {"11": "1A-1B", "00": "0A-0B", "01": "0A-1B, unrelated"}
CODES = {"1A-1B": (ONE_A, ONE_B), "0A-0B": (ZERO_A, ZERO_B), "0A-1B": (ZERO_A, ONE_B)}
KINDS = {"distance": "distance", "bound": "Theorem 4.2", "tight": "equation 37"}
ASKED = {"a 1 is masked": 1, "a 0 is masked": 0}
N_SEEDS = 5  # of a figure that compares runs; the runs with weight decay have more
BITS = 6  # beside the mask in a string
DIM = 4  # of the embeddings
N_POINTS = 51  # snapshots drawn of a run's 151
GAP_FLOOR, SPAN_FLOOR, BOUND_FLOOR = 1e-5, 1e-6, 1e-5  # ends of logarithmic axes


# --- stored runs --------------------------------------------------------------------------------------


def stored_preset() -> str:
    """The largest preset at which all three kinds of run are stored.

    Raises
    ------
    ValueError
        If there is none; the message has the command.
    """
    preset = theorems.STUDIES["tying.theorem_output"].largest_stored()
    if preset is None:
        raise ValueError("no runs are stored: `embviz run tying.theorem_output --preset quick` makes them")
    return preset


@functools.cache
def _curves(run: str, preset: str) -> pd.DataFrame:
    return exor.curves(RUNS[run], preset)


def curves(
    run: str, preset: str, *, tied: bool = False, n_seeds: int | None = None, n_points: int | None = N_POINTS
) -> pd.DataFrame:
    """Curves of :func:`book.tying.experiments.exor.curves`, tied or untied, as far as they are drawn.

    Parameters
    ----------
    run : str
        A key of RUNS.
    preset : str
    tied : bool, default False
    n_seeds, n_points : int or None
        Seeds and snapshots kept; None keeps all.

    Raises
    ------
    ValueError
        If there is no such run; the message lists those there are.
    """
    if run not in RUNS:
        raise ValueError(f"no run {run!r}: choose one of {', '.join(RUNS)}")
    table = _curves(run, preset)
    table = table[table["tied"] == tied]
    if n_seeds is not None:
        table = table[table["seed"] < n_seeds]
    return table if n_points is None else thinned(table, n_points)


def data_note(preset: str, *, run: str = "weight decay", n_seeds: int | None = None) -> str:
    """Data, seeds and steps, for a caption."""
    config = exor.at_preset(RUNS[run], preset)
    seeds = min(config.n_seeds, n_seeds or config.n_seeds)
    return f"EXor, transformer, d = 4, {seeds} seeds, {config.n_steps:,} steps"


# --- curves on a logarithmic axis -----------------------------------------------------------------------


def log_bands(table: pd.DataFrame, y: str, *, by: str, x: str = "step") -> pd.DataFrame:
    """Geometric mean over seeds with Student's 95% interval of the mean logarithm.

    Parameters
    ----------
    table : DataFrame
        Columns `x`, `by` and `y`, which must be above 0; one row a seed.

    Returns
    -------
    DataFrame with `x`, `by`, centre, low, high, in the unit of `y`

    Raises
    ------
    ValueError
        If a value isn't above 0: give it a floor first.
    """
    if not (table[y] > 0).all():
        raise ValueError(f"{y} has values that are not above 0: clip them at the axis' lower end first")
    logs = np.log(table[y]).groupby([table[by], table[x]], sort=False)
    n = logs.count()
    half = stats.t.ppf(0.975, np.maximum(n - 1, 1)) * logs.std(ddof=1).fillna(0) / np.sqrt(n)
    columns = {"centre": np.exp(logs.mean()), "low": np.exp(logs.mean() - half)}
    return pd.DataFrame({**columns, "high": np.exp(logs.mean() + half)}).reset_index()


def log_axis(field: str, low: float, high: float) -> alt.Axis:
    """Axis of a logarithmic scale with a tick and a line at each power of ten from `low` to `high`."""
    axis = theme.axis(field)
    powers = range(math.ceil(math.log10(low) - 1e-9), math.floor(math.log10(high) + 1e-9) + 1)
    axis.values = [10.0**power for power in powers]
    axis.labelExpr = "datum.value < 0.001 ? format(datum.value, '.0e') : format(datum.value, '~g')"
    return axis


def _log_scale(low: float, high: float) -> alt.Scale:
    return alt.Scale(type="log", domain=[low, high], nice=False, clamp=True)


def plot_log_curves(
    table: pd.DataFrame,
    y: str,
    *,
    by: str,
    names: Sequence[str],
    limits: tuple[float, float],
    reference: pd.DataFrame | None = None,
    height: int = theme.HEIGHT,
) -> alt.LayerChart:
    """Every seed thin, their geometric mean thick with a band, on a logarithmic axis.

    Parameters
    ----------
    table : DataFrame
        Columns step, seed, `by` and `y`; what lies below the axis is drawn on its lower end.
    y, by : str
        Columns, and keys of ``theme.LABELS``.
    names : sequence of str
        The kinds in the order of their colours and dashes.
    limits : pair of float
        Ends of the vertical axis.
    reference : DataFrame, optional
        Columns step, `y` and name, which is written where it isn't empty: a dashed curve to hold the
        others against.
    """
    table = table.assign(**{y: table[y].clip(lower=limits[0])})
    key = alt.Legend(title=theme.title(by), symbolType="stroke", symbolOpacity=1, symbolStrokeWidth=2.5)
    colour, dash = (style.legend(key) for style in theme.line_styles(by, list(names)))
    across = alt.X("step:Q", axis=theme.axis("step", tick_count=6), scale=alt.Scale(nice=False))
    scale, axis = _log_scale(*limits), log_axis(y, *limits)
    thin = (
        alt.Chart()
        .mark_line(strokeWidth=0.8, opacity=0.35, clip=True)
        .encode(
            x=across,
            y=alt.Y(f"{y}:Q", axis=axis, scale=scale),
            color=colour,
            strokeDash=dash,
            detail="seed:N",
        )
    )
    lines = charts.layered(table[["step", "seed", by, y]], [thin])
    mean = alt.Chart()
    band = mean.mark_area(opacity=0.18, clip=True).encode(
        x=across, y=alt.Y("low:Q", scale=scale), y2="high:Q", color=colour
    )
    thick = mean.mark_line(strokeWidth=2.5, clip=True).encode(
        x=across,
        y=alt.Y("centre:Q", scale=scale),
        color=colour,
        strokeDash=dash,
        tooltip=[
            "step:Q",
            f"{by}:N",
            *(alt.Tooltip(f"{f}:Q", format=".3~g") for f in ("centre", "low", "high")),
        ],
    )
    layers = [lines, charts.layered(log_bands(table, y, by=by), [band, thick])]
    if reference is not None:
        layers.append(_reference(reference, y, scale))
    return alt.LayerChart(layer=layers).properties(width="container", height=height)


def _reference(reference: pd.DataFrame, y: str, scale: alt.Scale) -> alt.LayerChart:
    base = alt.Chart().encode(x="step:Q", y=alt.Y(f"{y}:Q", scale=scale))
    line = base.mark_line(strokeDash=list(theme.DASHES[1]), strokeWidth=2, color=theme.INK, clip=True)
    names = (
        base.transform_filter("datum.name !== ''")
        .mark_text(align="left", baseline="bottom", dx=2, dy=-5, fontSize=11)
        .encode(text="name:N")
    )
    return charts.layered(reference, [line, names])


def level(y: str, value: float, name: str, *, n_steps: int) -> pd.DataFrame:
    """A reference for :func:`plot_log_curves` that stays at one value."""
    return pd.DataFrame({"step": [0, 0.6 * n_steps, n_steps], y: value, "name": ["", name, ""]})


# --- Theorem 4.1 ----------------------------------------------------------------------------------------


def paths(preset: str) -> pd.DataFrame:
    """1A-1B's relative output distance beside the loss, as training goes on.

    Returns
    -------
    DataFrame
        run (of RUNS), seed, step, loss_gap (nats, at least 1e-5), relative_distance; the same five seeds
        in every run.
    """
    parts = []
    for run in RUNS:
        table = curves(run, preset, n_seeds=N_SEEDS)
        part = {
            "loss_gap": table["loss_gap"].clip(lower=GAP_FLOOR),
            "relative_distance": table["relative_output_11"],
        }
        parts.append(table[["seed", "step"]].assign(run=run, **part))
    return pd.concat(parts).sort_values(["run", "seed", "step"], ignore_index=True)


def _run_styles() -> tuple[alt.Color, alt.Shape, dict]:
    """Colour and shape, which share a legend, and dashes, which have none: a point has no dash to show."""
    names = list(RUNS)
    colour, shape = theme.point_styles("run", names)
    key = alt.Legend(title=theme.title("run"), symbolStrokeWidth=0, symbolOpacity=1)
    # values instead of a scale: Vega-Lite joins legends of one domain, and warns if one of them is none
    dashes = [
        {"test": f"datum.run === {json.dumps(name)}", "value": list(dash)}
        for name, dash in zip(names, theme.DASHES, strict=False)
    ]
    return colour.legend(key), shape.legend(key), {"condition": dashes, "value": [1, 0]}


def plot_paths(table: pd.DataFrame) -> alt.LayerChart:
    """A path for each seed of :func:`paths`, its end marked; both axes logarithmic."""
    colour, shape, dash = _run_styles()
    last = table["step"].max()
    x = alt.X("loss_gap:Q", axis=log_axis("loss_gap", GAP_FLOOR, 10), scale=_log_scale(GAP_FLOOR, 10))
    y = alt.Y("relative_distance:Q", axis=log_axis("relative_distance", 1e-3, 4), scale=_log_scale(1e-3, 4))
    line = (
        alt.Chart()
        .mark_line(strokeWidth=1.2, opacity=0.6, clip=True)
        .encode(x=x, y=y, color=colour, strokeDash=dash, detail="seed:N", order="step:Q")
    )
    tooltip = [
        "run:N",
        "seed:N",
        *(alt.Tooltip(f"{f}:Q", format=".2~g") for f in ("loss_gap", "relative_distance")),
    ]
    end = (
        alt.Chart()
        .transform_filter(f"datum.step === {last}")
        .mark_point(size=90, opacity=1, clip=True)
        .encode(x=x, y=y, color=colour, shape=shape, tooltip=tooltip)
    )
    chart = charts.layered(table, [line, end], digits=3)
    return chart.properties(width="container", height=320)


def near_the_optimum(table: pd.DataFrame, *, within: float = 0.01) -> pd.DataFrame:
    """How the paths of :func:`paths` end: seeds, those near the optimum, those of them with a close pair.

    Parameters
    ----------
    within : float, default 0.01, in nats
        Loss above the optimum that counts as near.
    """
    end = table[table["step"] == table["step"].max()]
    near, close = end["loss_gap"] <= within, end["relative_distance"] <= exor.CLOSE
    counts = pd.DataFrame(
        {"seeds": 1, "near the optimum": near, "close": close, "near and close": near & close}
    )
    return counts.astype(int).groupby(end["run"]).sum().reindex(list(RUNS))


def paths_finding(table: pd.DataFrame) -> str:
    """One sentence on how the paths of :func:`paths` end, true of the drawn data."""
    counts = near_the_optimum(table)
    said = ", ".join(f"{run}: {row['close']} of {row['seeds']}" for run, row in counts.iterrows())
    free = counts.drop(index="weight decay").sum()
    near, both = free["near the optimum"], free["near and close"]
    return (
        f"Seeds that end with 1A and 1B close: {said}. Without decay, {near} runs end within 0.01 nats of "
        f"the optimum, {both} of them with a close pair"
    )


def tracking_table(preset: str) -> pd.DataFrame:
    """Rank correlation of 1A-1B's relative output distance with the loss, and with the step, by run.

    Returns
    -------
    DataFrame
        Indexed by run: means over all seeds. Two curves that both fall agree in rank whatever makes them
        fall; the second column is what agreeing by time alone looks like.
    """
    rows = {}
    for run in RUNS:
        by_seed = curves(run, preset, n_points=None).groupby("seed")
        rows[run] = {
            "with the loss": _mean_rank_correlation(by_seed, "loss_gap"),
            "with the step, sign turned": -_mean_rank_correlation(by_seed, "step"),
        }
    return pd.DataFrame.from_dict(rows, orient="index").rename_axis("run").round(2)


def _mean_rank_correlation(by_seed: pd.api.typing.DataFrameGroupBy, column: str) -> float:
    found = [stats.spearmanr(rows["relative_output_11"], rows[column]).statistic for _, rows in by_seed]
    return float(np.mean(found))


def spans(preset: str) -> pd.DataFrame:
    """Smallest over largest singular value of the encodings, of the runs without a limit on their rank.

    Returns
    -------
    DataFrame with run, seed, step, span
    """
    parts = [
        curves(run, preset, n_seeds=N_SEEDS)[["seed", "step", "span"]].assign(run=run)
        for run in list(RUNS)[:2]
    ]
    return pd.concat(parts, ignore_index=True)


def counted_contexts(task: EXor | None = None) -> tuple[np.ndarray, np.ndarray]:
    """Every masked string up to its order, with its probability.

    A model without positions can't tell strings apart that differ in order alone, so 168 strings stand
    for EXor's 57,344.

    Returns
    -------
    tokens : array of int, shape (168, 8)
        The mask, six spelled bits in ascending order, the parity.
    probability : array of float, shape (168,)
    """
    task = task or EXor()
    chance = task.spellings.ravel() / 2  # of 0A, 0B, 1A, 1B at one place
    tokens, probability = [], []
    for bits in itertools.combinations_with_replacement(range(4), BITS):
        counts = np.bincount(bits, minlength=4)
        orders = math.factorial(BITS) / math.prod(map(math.factorial, counts))
        for parity in (EVEN, ODD):
            tokens.append([MASK, *bits, parity])
            probability.append(orders * np.prod(chance**counts) / 2)
    return np.array(tokens), np.array(probability)


@dataclasses.dataclass(frozen=True)
class Trained:
    """A stored model read on every context: encodings (n, D), output embedding (V, D)."""

    encodings: np.ndarray
    output: np.ndarray


@functools.cache
def trained(run: str, preset: str, seed: int) -> Trained:
    """The untied model of a seed below 2 after its last step, read on :func:`counted_contexts`."""
    cell = exor.cell_of(RUNS[run], preset)
    model = load_model(cell.config, read(cell)[0], seed=seed, tied=False)
    tokens, _ = counted_contexts()
    with torch.no_grad():
        encodings = model.encode(torch.from_numpy(tokens))[:, 0]  # the mask comes first
    return Trained(encodings.double().numpy(), model.output_embedding.detach().double().numpy())


def asked_weights(value: int) -> np.ndarray:
    """Probability of each of :func:`counted_contexts`, given that a 0 or a 1 is masked, (168,)."""
    tokens, probability = counted_contexts()
    is_one = EXor().conditional(tokens)[:, [ONE_A, ONE_B]].sum(axis=1)
    weights = probability * (is_one if value else 1 - is_one)
    return weights / weights.sum()


def weak_directions(preset: str) -> pd.DataFrame:
    """What is left between 1A and 1B in the output matrix, along the encodings' own axes.

    Returns
    -------
    DataFrame
        run, seed, direction (1: where encodings are largest, to 4), size (root mean square of the
        encodings along it where a 1 is masked), distance (of 1A and 1B along it).
    """
    weights = asked_weights(1)
    rows = []
    for run, seed in itertools.product(RUNS, range(N_SHOWN)):
        model = trained(run, preset, seed)
        _, sizes, axes = np.linalg.svd(np.sqrt(weights)[:, None] * model.encodings, full_matrices=False)
        parts = np.abs(axes @ (model.output[ONE_A] - model.output[ONE_B]))
        rows += [(run, seed, k + 1, sizes[k], parts[k]) for k in range(len(sizes))]
    return pd.DataFrame(rows, columns=["run", "seed", "direction", "size", "distance"])


def plot_weak_directions(table: pd.DataFrame) -> alt.LayerChart:
    """The difference of 1A and 1B along the encodings' axes, a line for each model."""
    colour, shape, dash = _run_styles()
    ends = {1: "1, strongest", DIM: f"{DIM}, weakest"}
    said = {str(k): ends.get(k, str(k)) for k in range(1, DIM + 1)}
    axis = alt.Axis(
        title="direction of the encodings where a 1 is masked",
        labelAngle=0,
        labelExpr=f"{json.dumps(said)}[datum.label]",
        grid=False,
    )
    base = alt.Chart().encode(
        x=alt.X("direction:O", axis=axis),
        y=alt.Y(
            "distance:Q",
            axis=log_axis("distance", 1e-4, 1),
            scale=_log_scale(1e-4, 2),
        ),
        color=colour,
        detail="seed:N",
    )
    sizes = [alt.Tooltip("distance:Q", format=".2~g"), alt.Tooltip("size:Q", format=".2~g")]
    line = base.mark_line(strokeWidth=1.5, opacity=0.7).encode(strokeDash=dash)
    points = base.mark_point(size=70).encode(shape=shape, tooltip=["run:N", "seed:N", *sizes])
    return charts.layered(table, [line, points], digits=2).properties(width="container", height=theme.HEIGHT)


def largest_along_weakest(table: pd.DataFrame) -> str:
    """In how many models the difference is largest along the weakest direction, as ``"5 of 6"``."""
    largest = table.loc[table.groupby(["run", "seed"])["distance"].idxmax(), "direction"]
    return f"{int((largest == DIM).sum())} of {len(largest)}"


def left_over(preset: str) -> pd.DataFrame:
    """How far the logits of 1A and 1B are from equal, where a 1 is masked and where a 0 is.

    Returns
    -------
    DataFrame
        Indexed by run and seed: loss above the optimum (nats), length of E_O(1A) - E_O(1B), mean absolute
        difference of the two logits where a 1 and where a 0 is masked.
    """
    rows = {}
    for run, seed in itertools.product(RUNS, range(N_SHOWN)):
        model = trained(run, preset, seed)
        difference = model.output[ONE_A] - model.output[ONE_B]
        end = exor.last(curves(run, preset, n_points=None)).set_index("seed")
        gaps = np.abs(model.encodings @ difference)
        rows[run, seed] = {
            "loss above the optimum": end.loc[seed, "loss_gap"],
            "|1A - 1B|": np.linalg.norm(difference),
            **{f"logits differ, {name}": gaps @ asked_weights(value) for name, value in ASKED.items()},
        }
    table = pd.DataFrame.from_dict(rows, orient="index").rename_axis(["run", "seed"])
    return table.map(lambda value: f"{value:.2g}")


def outside_the_plane(preset: str) -> pd.DataFrame:
    """The coordinate that the deficient encoder never uses: E_O(1A) - E_O(1B) in it, first and last."""
    run = theorems.RANK_3
    rows = {}
    for seed in range(N_SHOWN):
        ends = [exor.embeddings(run, preset, step=step)[seed, False, "output"][:, -1] for step in (0, None)]
        rows[seed] = dict(
            zip(("before training", "at the end"), (end[ONE_A] - end[ONE_B] for end in ends), strict=True)
        )
    return pd.DataFrame.from_dict(rows, orient="index").rename_axis("seed").round(4)


# --- weight decay alone ---------------------------------------------------------------------------------


def decay_alone(steps: Sequence[int] | np.ndarray, preset: str = "paper") -> np.ndarray:
    """What is left of a weight that gets no gradient, after each number of updates, over its first value.

    AdamW multiplies every weight by one minus learning rate times weight decay at each update.

    >>> decay_alone([0, 150_000]).round(3).tolist()
    [1.0, 0.022]
    """
    config = dataclasses.replace(exor.at_preset(exor.MAIN, preset), n_seeds=1)
    optimizer = prepare(config).optimizer
    updates = range(max(int(np.max(steps)), 1))
    factors = [1 - optimizer.rate(step) * optimizer.weight_decay for step in updates]
    left = np.concatenate([[1.0], np.cumprod(factors)])
    return left[np.asarray(steps, dtype=int)]


def shrinking(preset: str) -> pd.DataFrame:
    """1A-1B's distance in the untied input matrix over its first value, with weight decay and without.

    Returns
    -------
    DataFrame with run, seed, step, kept
    """
    parts = []
    for run in list(RUNS)[:2]:
        table = curves(run, preset, n_seeds=N_SEEDS)
        start = table[table["step"] == 0].set_index("seed")["input_11"]
        kept = table["input_11"] / table["seed"].map(start)
        parts.append(table[["seed", "step"]].assign(run=run, kept=kept))
    return pd.concat(parts, ignore_index=True)


def closing_table(preset: str) -> pd.DataFrame:
    """What is left of 1A-1B's distance at the end, geometric means over seeds of :func:`shrinking`.

    Returns
    -------
    DataFrame
        A row for each of: weight decay alone (no gradient), gradient alone (no weight decay), both.
    """
    table = shrinking(preset)
    end = table[table["step"] == table["step"].max()]
    means = np.exp(np.log(end["kept"]).groupby(end["run"]).mean())
    rows = {
        "weight decay alone, no gradient": decay_alone([end["step"].max()], preset)[0],
        "gradient alone, no weight decay": means["no weight decay"],
        "both": means["weight decay"],
    }
    found = pd.DataFrame({"share of the distance kept": rows})
    return found.map(lambda value: f"{value:.2g}")


def decay_curve(preset: str) -> pd.DataFrame:
    """:func:`decay_alone` as a reference for a chart of :func:`shrinking`."""
    steps = np.unique(curves("weight decay", preset)["step"])
    name = np.where(np.arange(len(steps)) == len(steps) // 2, "weight decay alone", "")
    return pd.DataFrame({"step": steps, "kept": decay_alone(steps, preset), "name": name})


def shrink_rates(preset: str) -> pd.DataFrame:
    """How fast distances shrink in the second half of training, in units of weight decay's own rate.

    Returns
    -------
    DataFrame
        Indexed by matrix and pair: mean over seeds, and the ends of its 95% interval. 1: as if the pair
        got no gradient; 0: it stays where it is.
    """
    rows = {}
    for matrix, tied, name in (
        ("untied input", False, "input"),
        ("untied output", False, "output"),
        ("tied", True, "input"),
    ):
        table = curves("weight decay", preset, tied=tied, n_points=None)
        for pair, words in PAIRS.items():
            finding = findings.over_seeds(_rates(table, f"{name}_{pair}", preset))
            rows[matrix, words] = {"rate": finding.value, "low": finding.low, "high": finding.high}
    table = pd.DataFrame.from_dict(rows, orient="index").rename_axis(["matrix", "pair"])
    return table.round(2)


def _rates(table: pd.DataFrame, column: str, preset: str) -> np.ndarray:
    """Of each seed: logarithm of the column's fall over that of decay alone, from the middle to the end."""
    wide = table.pivot(index="step", columns="seed", values=column)
    steps = wide.index.to_numpy()
    middle = steps[len(steps) // 2]
    fall = np.log(wide.loc[middle] / wide.iloc[-1]).to_numpy()
    before, after = decay_alone([middle, steps[-1]], preset)
    return fall / np.log(before / after)


# --- Theorem 4.2 ----------------------------------------------------------------------------------------


def theorem_bound(embedding: np.ndarray, u: int, v: int) -> float:
    """Twice the least, over contexts, of the larger spectral norm of the two input matrices.

    Parameters
    ----------
    embedding : array of float, shape (7, D)
        A row a symbol, in the order of ``tasks.SYMBOLS``.
    u, v : int
        Symbols of bits. Contexts hold the mask, five more bits in every spelling, and the parity.

    Source
    ------
    Tying paper, Theorem 4.2.
    """
    return 2 * float(np.maximum(*(_context_norms(embedding, symbol) for symbol in (u, v))).min())


def _context_norms(embedding: np.ndarray, symbol: int) -> np.ndarray:
    rows = embedding[_strings_with(symbol)]  # (112, 8, D)
    gram = rows @ rows.transpose(0, 2, 1) if rows.shape[2] > 8 else rows.transpose(0, 2, 1) @ rows
    return np.sqrt(np.linalg.eigvalsh(gram)[:, -1])


@functools.cache
def _strings_with(symbol: int) -> np.ndarray:
    """Every string with `symbol` in it up to its order, (112, 8)."""
    fives = itertools.combinations_with_replacement(range(4), BITS - 1)
    return np.array([[MASK, symbol, *five, parity] for five in fives for parity in (EVEN, ODD)])


def random_bounds(dimension: int, moved: float, size: float, *, n_draws: int = 5) -> pd.DataFrame:
    """Distance and bound of all pairs of bit symbols in embeddings that no model was trained for.

    Parameters
    ----------
    dimension : int
        D, of the embeddings.
    moved : float from 0 to below 1
        How much of the way 1B is moved toward 1A.
    size : float
        Standard deviation of a coordinate.
    n_draws : int
        Matrices drawn, of seeds 0, 1, ...

    Returns
    -------
    DataFrame with pair ("1A-1B" or "other pairs"), distance, bound
    """
    rows = []
    for seed in range(n_draws):
        embedding = size * np.random.default_rng(seed).standard_normal((len(SYMBOLS), dimension))
        embedding[ONE_B] += moved * (embedding[ONE_A] - embedding[ONE_B])
        for u, v in itertools.combinations(range(4), 2):
            name = "1A-1B" if (u, v) == (ONE_A, ONE_B) else "other pairs"
            distance = float(np.linalg.norm(embedding[u] - embedding[v]))
            rows.append((name, distance, theorem_bound(embedding, u, v)))
    return pd.DataFrame(rows, columns=["pair", "distance", "bound"])


def _line_of_equals(ends: list[float], scale: alt.Scale) -> alt.Chart:
    """Where both axes say the same, dashed."""
    return (
        alt.Chart(alt.Data(values=[{"at": end} for end in ends]))
        .mark_line(strokeDash=list(theme.DASHES[1]), color=theme.INK)
        .encode(x=alt.X("at:Q", scale=scale), y=alt.Y("at:Q", scale=scale))
    )


def plot_random_bounds(data: charts.Data) -> alt.LayerChart:
    """Bound against distance, both logarithmic, over the line where they are equal."""
    colour, shape = theme.point_styles("pair", ["1A-1B", "other pairs"])
    ends = [1e-2, 1e2]
    scale = _log_scale(*ends)
    line = _line_of_equals(ends, scale)
    points = (
        alt.Chart(data)
        .mark_point(size=60, opacity=0.8, clip=True)
        .encode(
            x=alt.X("distance:Q", axis=log_axis("distance", *ends), scale=scale),
            y=alt.Y("bound:Q", axis=log_axis("bound", *ends), scale=scale),
            color=colour,
            shape=shape,
            tooltip=[alt.Tooltip("distance:Q", format=".3~g"), alt.Tooltip("bound:Q", format=".3~g")],
        )
    )
    return alt.LayerChart(layer=[line, points]).properties(width="container", height=theme.HEIGHT)


def looseness(preset: str) -> pd.DataFrame:
    """Bound over distance in untied models: step, seed, pair (of PAIRS), bound_ratio."""
    table = curves("weight decay", preset, n_points=31)
    parts = [
        table[["step", "seed"]].assign(pair=name, bound_ratio=table[f"bound_{code}"] / table[f"input_{code}"])
        for code, name in PAIRS.items()
    ]
    return pd.concat(parts, ignore_index=True)


def bound_curves(preset: str) -> pd.DataFrame:
    """Distance, bound and equation 37's bound of each pair over training, for the explorer.

    Returns
    -------
    DataFrame
        pair (of CODES), tied, seed, step, and a column for each of KINDS, at least 1e-5.
    """
    parts = []
    for tied, (name, code) in itertools.product((False, True), zip(CODES, PAIRS, strict=True)):
        table = curves("weight decay", preset, tied=tied, n_seeds=N_SEEDS)
        columns = zip(KINDS, ("input", "bound", "tight"), strict=True)
        values = {kind: table[f"{column}_{code}"].clip(lower=BOUND_FLOOR) for kind, column in columns}
        parts.append(table[["tied", "seed", "step"]].assign(pair=name, **values))
    return pd.concat(parts, ignore_index=True).sort_values(["pair", "tied", "seed", "step"])


def bounds_finding(table: pd.DataFrame) -> str:
    """One sentence on :func:`bound_curves`, true of all its rows."""
    reached = (table["distance"] > table["bound"]).sum()
    exceeded = (table["distance"] > table["tight"]).mean()
    often = "nowhere" if reached == 0 else f"{reached} times"
    return f"Theorem 4.2's bound is exceeded {often}, equation 37's at {exceeded:.0%} of the snapshots"


def plot_bounds(data: charts.Data) -> alt.Chart:
    """One pair's distance between its two bounds, on a logarithmic axis."""
    colour, dash = theme.line_styles("kind", list(KINDS.values()))
    key = alt.Legend(title=theme.title("kind"), symbolType="stroke", symbolStrokeWidth=2.5)
    return (
        alt.Chart(data)
        .transform_fold(list(KINDS), as_=["code", "value"])
        .transform_calculate(kind=f"{json.dumps(KINDS)}[datum.code]")
        .mark_line(strokeWidth=2)
        .encode(
            x=alt.X("step:Q", axis=theme.axis("step", tick_count=6), scale=alt.Scale(nice=False)),
            y=alt.Y(
                "value:Q",
                axis=log_axis("distance", BOUND_FLOOR, 10),
                scale=_log_scale(BOUND_FLOOR, 20),
            ),
            color=colour.legend(key),
            strokeDash=dash.legend(key),
            tooltip=["kind:N", "step:Q", alt.Tooltip("value:Q", format=".3~g")],
        )
        .properties(width="container", height=theme.HEIGHT)
    )


# --- the theorem's own architecture -----------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class Attention:
    """Theorem 4.2's model, fitted."""

    loss_gap: float  # above the optimum, in nats
    accuracy: float  # expected
    embeddings: np.ndarray  # input and output, (2, V, D)


def _bare_attention(embeddings: torch.Tensor, counts: torch.Tensor) -> torch.Tensor:
    """Logits (n, V) of strings of which `counts` (n, V) says how often each symbol occurs."""
    read, answer = embeddings
    attended = counts * (read @ read[MASK]).exp()  # a symbol's weight is that of one, times its count
    return attended @ read / attended.sum(1, keepdim=True) @ answer.mT


def fit_attention(seed: int, *, task: EXor | None = None, dimension: int = DIM) -> Attention:
    """Fit softmax(X_t X') X between two embeddings, nothing else, to all contexts at once.

    Parameters
    ----------
    seed : int
        Of the first embeddings, N(0, 1).
    task : EXor, optional
        By default both pairs of spellings.
    dimension : int, default 4

    Returns
    -------
    Attention
        After L-BFGS on the exact expected loss, at most 300 iterations.

    Source
    ------
    Tying paper, equations 3 to 5.
    """
    task = task or EXor()
    tokens, probability = counted_contexts(task)
    exact, weights = (torch.from_numpy(array) for array in (task.conditional(tokens), probability))
    counts = torch.from_numpy((tokens[..., None] == np.arange(len(SYMBOLS))).sum(axis=1)).double()  # (n, V)
    floor = -float(torch.special.xlogy(exact, exact).sum(1) @ weights)
    shape = (2, len(SYMBOLS), dimension)

    def loss(flat: np.ndarray) -> tuple[float, np.ndarray]:
        embeddings = torch.from_numpy(flat.reshape(shape).copy()).requires_grad_()
        value = -((exact * _bare_attention(embeddings, counts).log_softmax(1)).sum(1) @ weights)
        (gradient,) = torch.autograd.grad(value, embeddings)
        return value.item(), gradient.numpy().ravel()

    start = np.random.default_rng(seed).standard_normal(shape).ravel()
    found = optimize.minimize(loss, start, jac=True, method="L-BFGS-B", options={"maxiter": 300})
    embeddings = torch.from_numpy(found.x.reshape(shape))
    guess = _bare_attention(embeddings, counts).argmax(1, keepdim=True)
    accuracy = float(exact.gather(1, guess)[:, 0] @ weights)
    return Attention(float(found.fun) - floor, accuracy, found.x.reshape(shape))


def attention_table(n_seeds: int = 3, *, dimensions: Sequence[int] = (DIM, 16)) -> pd.DataFrame:
    """What the theorem's own model reaches on EXor, beside the best there is and the best constant answer."""
    rows = {}
    for dimension, seed in itertools.product(dimensions, range(n_seeds)):
        fit = fit_attention(seed, dimension=dimension)
        rows[f"attention alone, d = {dimension}, seed {seed}"] = (fit.accuracy, fit.loss_gap)
    task = EXor()
    # whoever knows the spellings' frequencies and nothing of the bit is one bit above the optimum
    rows["frequencies alone"] = (task.spellings.max() / 2, math.log(2))
    rows["optimum"] = (task.optimal_accuracy(), 0.0)
    table = pd.DataFrame.from_dict(rows, orient="index", columns=["accuracy", "loss above the optimum, nats"])
    return table.round(2)


# --- which matrix a tied one resembles --------------------------------------------------------------------


def resemblance(preset: str) -> pd.DataFrame:
    """Procrustes disparity of each tied matrix to the untied input and output matrices of other seeds.

    Returns
    -------
    DataFrame
        seed, to_input, to_output and case: EXor at the end, EXor before training (two seeds), and natural
        text where it is stored.
    """
    parts = {
        "EXor, trained": theorems.exor_resemblance(preset),
        "EXor, before training": theorems.exor_resemblance(preset, step=0),
    }
    text = natural.STUDIES["tying.natural"].largest_stored()
    if text is not None:
        parts["natural text, trained"] = natural.resemblance(text)
    tables = [
        table[table["measure"] == "procrustes"].assign(comparison=name) for name, table in parts.items()
    ]
    columns = ["comparison", "seed", "to_input", "to_output"]
    return pd.concat(tables, ignore_index=True)[columns].round(4)


def plot_resemblance(table: pd.DataFrame) -> alt.LayerChart:
    """A mark a seed: disparity to the output against that to the input, over the line of equals."""
    names = list(dict.fromkeys(table["comparison"]))
    colour, shape = theme.point_styles("comparison", names)
    ends = [0.01, 1.0]
    scale = _log_scale(*ends)
    line = _line_of_equals(ends, scale)
    marks = (
        alt.Chart(table)
        .mark_point(size=70, opacity=0.85, clip=True)
        .encode(
            x=alt.X("to_input:Q", axis=log_axis("to_input", *ends), scale=scale),
            y=alt.Y("to_output:Q", axis=log_axis("to_output", *ends), scale=scale),
            color=colour,
            shape=shape,
            tooltip=["comparison:N", "seed:N", "to_input:Q", "to_output:Q"],
        )
    )
    return alt.LayerChart(layer=[line, marks]).properties(width="container", height=300)


def nearer_output(table: pd.DataFrame) -> Mapping[str, str]:
    """By comparison: how many seeds lie nearer to the output, as ``"12 of 20"``."""
    nearer = (table["to_output"] < table["to_input"]).groupby(table["comparison"], sort=False)
    return {str(name): f"{int(part.sum())} of {len(part)}" for name, part in nearer}
