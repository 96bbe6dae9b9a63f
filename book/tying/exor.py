"""What the chapter on EXor measures and draws: pairs of spellings in three matrices, accuracy, players."""

from __future__ import annotations

import dataclasses
import functools
import itertools
import json
from collections.abc import Callable, Iterator, Mapping, Sequence

import altair as alt
import numpy as np
import pandas as pd
import torch
from scipy import special

from book.tying import architectures
from book.tying.experiments import exor, spellings
from book.tying.experiments.exor_runs import READINGS, SYMBOL_SETS, load_model, prepare
from embviz import metrics
from embviz.ledger import findings
from embviz.ledger.cells import Cell, read
from embviz.ledger.studies import PRESETS
from embviz.tasks.exor import EVEN, MASK, ODD, ONE_A, ONE_B, SYMBOLS, ZERO_A, ZERO_B, EXor
from embviz.view import charts, explorers, theme
from embviz.view.player import HISTORY

# The tasks of sections 5, C.1 and C.2.
TASKS = {"both pairs": exor.MAIN, "only 1A and 1B": exor.ONES, "only 0A and 0B": exor.ZEROS}
MATRICES = architectures.MATRICES  # in the order of Figures 1a, 1b, 1c
TYINGS = ("untied", "tied")
PAIRS = {"11": "1A and 1B", "00": "0A and 0B", "01": "a 0 and a 1"}
CLOSE, UNRELATED = {"close": exor.CLOSE}, {"a 0 and a 1": 1.0}
READING_SEEDS = 5  # as many as the paper has; the main task was run with more
APART = 0.5  # of the distance of unrelated symbols
EVERY = 5  # snapshots, of which one is drawn in a curve
PACKED = alt.NamedData(name="packed")


# --- stored runs ----------------------------------------------------------------------------------------


def stored_preset(task: str = "both pairs") -> str:
    """The largest preset at which a task's runs are stored.

    Parameters
    ----------
    task : str
        A key of TASKS.

    Raises
    ------
    ValueError
        If there is no such task, or none of its runs is stored; the message has the command.
    """
    if task not in TASKS:
        raise ValueError(f"no task {task!r}: choose one of {', '.join(TASKS)}")
    stored = [preset for preset in PRESETS if exor.cell_of(TASKS[task], preset).stored()]
    if not stored:
        claims = dict(zip(TASKS, ("tied", "dh_holds", "dh_fails"), strict=True))
        raise ValueError(
            f"no run with {task} is stored: `embviz run tying.{claims[task]} --preset quick` does it"
        )
    return stored[-1]


@functools.cache
def _curves(task: str, preset: str) -> pd.DataFrame:
    return exor.curves(TASKS[task], preset)


def curves(task: str = "both pairs", *, thin: bool = True) -> pd.DataFrame:
    """Curves of :func:`book.tying.experiments.exor.curves`, from the largest stored runs.

    Parameters
    ----------
    task : str
        A key of TASKS.
    thin : bool, default True
        Keep every fifth snapshot, and the last.
    """
    table = _curves(task, stored_preset(task))
    steps = np.unique(table["step"])
    kept = np.union1d(steps[::EVERY] if thin else steps, steps[-1:])
    return table[table["step"].isin(kept)].sort_values(["seed", "tied", "step"], ignore_index=True)


def data_note(task: str = "both pairs") -> str:
    """Data, seeds and steps of a task's stored runs, for a caption."""
    run = exor.at_preset(TASKS[task], stored_preset(task))
    text = f"EXor, {task}; {run.n_seeds} seeds, {run.n_steps:,} steps"
    if run.n_steps < TASKS[task].n_steps:
        text += f" of the paper's {TASKS[task].n_steps:,}"
    return f"{text}. Thin: a seed; thick: their mean; band: its 95% interval (Student)."


def _named(tied: pd.Series) -> np.ndarray:
    return np.where(tied, "tied", "untied")


# --- curves, packed -------------------------------------------------------------------------------------


def plot_curves(
    table: pd.DataFrame,
    y: str,
    *,
    by: str,
    names: Sequence[str],
    reference: Mapping[str, float] | None = None,
    limits: tuple[float, float] | None = None,
    x: str = "step",
) -> alt.LayerChart:
    """:func:`~embviz.view.plot_seed_curves` over a table packed into lists, a fifth of the page's bytes.

    Parameters are those of the function named.
    """
    code = table[by].map({name: code for code, name in enumerate(names)})
    if code.isna().any():
        raise ValueError(f"{by} has values that are none of {list(names)}: {sorted(set(table[by]))}")
    columns = pd.DataFrame({"seed": table["seed"], x: table[x], "code": code.astype(int), y: table[y]})
    row = explorers.compact_row(columns, digits=4)
    chart = charts.plot_seed_curves(PACKED, y, by=by, names=names, x=x, reference=reference, limits=limits)
    for layer in chart.layer:
        if layer.data == PACKED:
            layer.data = alt.Undefined
    chart.data = alt.Data(values=[row])
    return chart.transform_flatten(list(row)).transform_calculate(
        **{by: f"{json.dumps(list(names))}[datum.code]"}
    )


def relative_distances(matrix: str, task: str = "both pairs") -> pd.DataFrame:
    """Each pair's distance over that of unrelated symbols: step, seed, pair, relative_distance.

    Parameters
    ----------
    matrix : str
        One of MATRICES.
    task : str
        A key of TASKS.
    """
    table, name = _of_matrix(curves(task), matrix)
    parts = [
        table[["step", "seed"]].assign(pair=PAIRS[pair], relative_distance=table[f"relative_{name}_{pair}"])
        for pair in ("11", "00")
        if f"relative_{name}_{pair}" in table
    ]
    return pd.concat(parts, ignore_index=True)


def _of_matrix(table: pd.DataFrame, matrix: str) -> tuple[pd.DataFrame, str]:
    """Rows of the models that have such a matrix, and what it is called in the cells."""
    if matrix not in MATRICES:
        raise ValueError(f"no matrix {matrix!r}: choose one of {', '.join(MATRICES)}")
    rows = table[table["tied"] == (matrix == "tied")]
    return rows, "output" if matrix == "untied output" else "input"


def one_pair(pair: str, task: str = "both pairs") -> pd.DataFrame:
    """One pair's relative distance in all three matrices: step, seed, matrix, relative_distance."""
    parts = [relative_distances(matrix, task).assign(matrix=matrix) for matrix in MATRICES]
    table = pd.concat(parts, ignore_index=True)
    return table[table["pair"] == PAIRS[pair]].drop(columns="pair")


def plot_relative(table: pd.DataFrame, *, by: str) -> alt.LayerChart:
    """Relative distances over the steps, with the null at 1 and the border of *close* dashed."""
    names = [name for name in (*PAIRS.values(), *MATRICES) if name in set(table[by])]
    return plot_curves(
        table,
        "relative_distance",
        by=by,
        names=names,
        reference={**CLOSE, **UNRELATED},
        limits=(0.0, 2.0),
    )


def accuracies(task: str = "both pairs", *, sampled: bool = False) -> pd.DataFrame:
    """Accuracy over the steps: step, seed, tying, accuracy.

    Parameters
    ----------
    task : str
        A key of TASKS.
    sampled : bool, default False
        Right answers among the authors' kind of sample, 12 held-out strings spelled and masked once;
        by default the expected accuracy on all strings and masks.
    """
    table = curves(task)
    value = table["sampled_accuracy" if sampled else "accuracy"]
    return table[["step", "seed"]].assign(tying=_named(table["tied"]), accuracy=value)


def plot_accuracy(table: pd.DataFrame, *, best: float) -> alt.LayerChart:
    """Accuracy over the steps, tied and untied, with the best possible one dashed."""
    top = round(1.1 * best, 1)
    chart = plot_curves(
        table, "accuracy", by="tying", names=TYINGS, reference={"best possible": best}, limits=(0.0, top)
    )
    return chart.properties(height=300)


def best_accuracy(task: str = "both pairs") -> float:
    """The best possible accuracy on the strings of the runs, exactly."""
    return spellings.best_accuracy(SYMBOL_SETS[TASKS[task].symbols])


# --- raw distances --------------------------------------------------------------------------------------


def raw_distances() -> pd.DataFrame:
    """Distances of all pairs in all matrices and tasks, for the explorer.

    Returns
    -------
    DataFrame
        `task`, `code` (of MATRICES), `seed`, `step`, and a column for each of PAIRS; -1 where a task has no
        such pair.
    """
    parts = []
    for task in TASKS:
        for code, matrix in enumerate(MATRICES):
            rows, name = _of_matrix(curves(task), matrix)
            pairs = {pair: rows.get(f"{name}_{pair}", -1.0) for pair in PAIRS}
            parts.append(rows[["seed", "step"]].assign(task=task, code=code, **pairs))
    return pd.concat(parts, ignore_index=True)


def plot_raw(data: charts.Data) -> alt.LayerChart:
    """Panels of Figure 1, of :func:`raw_distances`: one a matrix; raw or relative, chosen in the page."""
    shown = alt.param(
        name="shown",
        value="raw",
        bind=alt.binding_radio(
            options=["raw", "relative"], labels=["Euclidean", "relative to a 0 and a 1"], name="distance "
        ),
    )
    chart = architectures.plot_panels(
        data,
        by="pair",
        names=list(PAIRS.values()),
        transforms=[
            {"fold": list(PAIRS), "as": ["which", "distance"]},
            {"filter": "datum.distance >= 0"},
            {"calculate": f"{json.dumps(PAIRS)}[datum.which]", "as": "pair"},
            {"calculate": f"{json.dumps(list(MATRICES))}[datum.code]", "as": "matrix"},
        ],
        raw_top="4",
    )
    return chart.add_params(shown)


# --- what the seeds come to -----------------------------------------------------------------------------


def final_table(task: str = "both pairs") -> pd.DataFrame:
    """Relative distances at the last step: seed, matrix, pair, relative_distance."""
    last = exor.last(curves(task))
    parts = []
    for matrix, pair in itertools.product(MATRICES, ("11", "00")):
        rows, name = _of_matrix(last, matrix)
        if f"relative_{name}_{pair}" in rows:
            value = rows[f"relative_{name}_{pair}"]
            part = {"seed": rows["seed"], "matrix": matrix, "pair": PAIRS[pair], "relative_distance": value}
            parts.append(pd.DataFrame(part))
    return pd.concat(parts, ignore_index=True)


def plot_final(task: str = "both pairs") -> alt.Chart:
    """A mark for each seed at its final relative distance, both pairs in each matrix."""
    table = final_table(task).round(4)
    colour, shape = theme.point_styles(
        "pair", [name for name in PAIRS.values() if name in set(table["pair"])]
    )
    return (
        alt.Chart(table)
        .mark_point(size=55, opacity=0.75)
        .encode(
            x=alt.X("relative_distance:Q", axis=theme.axis("relative_distance", tick_count=6)),
            y=alt.Y("matrix:N", sort=list(MATRICES), axis=alt.Axis(title=None, ticks=False)),
            yOffset=alt.YOffset("pair:N"),
            color=colour,
            shape=shape,
            tooltip=["seed:N", "matrix:N", "pair:N", "relative_distance:Q"],
        )
        .properties(width="container", height=190)
    )


def closed(matrix: str, pair: str, task: str = "both pairs") -> str:
    """How many seeds end with a pair close, as ``"19 of 20"``.

    Parameters
    ----------
    matrix : str
        One of MATRICES.
    pair : str
        A key of PAIRS.
    """
    return _count(final_table(task), matrix, pair, lambda ratio: ratio <= exor.CLOSE)


def parted(matrix: str, pair: str, task: str = "both pairs") -> str:
    """How many seeds end with a pair apart, at least half as far as unrelated symbols: ``"7 of 20"``."""
    return _count(final_table(task), matrix, pair, lambda ratio: ratio >= APART)


def _count(table: pd.DataFrame, matrix: str, pair: str, test: Callable[[pd.Series], pd.Series]) -> str:
    ratio = table.loc[(table["matrix"] == matrix) & (table["pair"] == PAIRS[pair]), "relative_distance"]
    return f"{int(test(ratio).sum())} of {len(ratio)}"


def accuracy_finding(task: str = "both pairs") -> str:
    """One sentence on accuracy over the last tenth of training, paired by seed, true of the drawn data."""
    late, near = final_accuracies(task), near_best(task)
    difference = findings.over_seeds((late["tied"] - late["untied"]).to_numpy())
    said = "the seeds do not tell tied from untied"
    if difference.low > 0 or difference.high < 0:
        said = f"tied ends {'above' if difference.low > 0 else 'below'} untied"
    reached = near["near the optimum"]
    return (
        f"Of {len(late)} seeds {reached['untied']} end within 0.01 of the best possible accuracy untied, "
        f"{reached['tied']} tied; {said}"
    )


def final_accuracies(task: str = "both pairs") -> pd.DataFrame:
    """Mean accuracy over the last tenth of training: a row a seed, columns untied and tied."""
    table = curves(task, thin=False)
    late = {name: exor.late_accuracy(table[_named(table["tied"]) == name]) for name in TYINGS}
    return pd.DataFrame(late)


def plot_final_accuracies(task: str = "both pairs") -> alt.LayerChart:
    """A mark for each seed at its accuracy after the last step, with the best possible one dashed."""
    last = exor.last(curves(task))
    table = last[["seed", "accuracy"]].assign(tying=_named(last["tied"])).round(4)
    table["rank"] = table.groupby("tying")["accuracy"].rank(method="first")
    colour, shape = theme.point_styles("tying", list(TYINGS))
    marks = (
        alt.Chart(table.sort_values(["tying", "rank"]))
        .mark_point(size=50, opacity=0.75)
        .encode(
            x=alt.X("rank:Q", axis=theme.axis("rank", tick_count=5), scale=alt.Scale(nice=False, padding=8)),
            y=alt.Y("accuracy:Q", axis=theme.axis("accuracy"), scale=alt.Scale(zero=False)),
            color=colour,
            shape=shape,
            tooltip=["seed:N", "tying:N", "accuracy:Q"],
        )
    )
    best = alt.Chart(alt.Data(values=[{"best": round(best_accuracy(task), 4)}]))
    rule = best.mark_rule(strokeDash=list(theme.DASHES[1])).encode(y="best:Q")
    return alt.LayerChart(layer=[rule, marks]).properties(width="container", height=240)


def near_best(task: str = "both pairs", *, within: float = 0.01) -> pd.DataFrame:
    """How many seeds end within `within` of the best possible accuracy, untied and tied."""
    late = final_accuracies(task)
    reached = (best_accuracy(task) - late <= within).sum()
    return pd.DataFrame({"near the optimum": reached, "seeds": len(late)}).rename_axis("model")


def differences_of_five(*, n_seeds: int = 5) -> np.ndarray:
    """Mean of tied - untied accuracy over every choice of `n_seeds` of the stored seeds, sorted.

    The paper repeats its experiment five times; this is what it could have seen.

    Raises
    ------
    ValueError
        If there are fewer stored seeds.
    """
    late = final_accuracies()
    difference = (late["tied"] - late["untied"]).to_numpy()
    if len(difference) < n_seeds:
        raise ValueError(f"{len(difference)} seeds are stored, fewer than {n_seeds}: choose fewer")
    chosen = np.array(list(itertools.combinations(difference, n_seeds)))
    return np.sort(chosen.mean(axis=1))


def plot_differences(differences: np.ndarray) -> alt.LayerChart:
    """Histogram of :func:`differences_of_five`, with a rule at 0."""
    bins = charts.bin_counts(differences, n_bins=40).drop(columns="count").round(5)
    bars = (
        alt.Chart(bins)
        .mark_bar(binSpacing=0)
        .encode(
            x=alt.X(
                "left:Q", bin="binned", axis=alt.Axis(title="tied - untied accuracy, mean of five seeds")
            ),
            x2="right:Q",
            y=alt.Y("share:Q", axis=alt.Axis(title="share of choices", format=".0%")),
        )
    )
    rule = (
        alt.Chart(alt.Data(values=[{}])).mark_rule(strokeDash=list(theme.DASHES[1])).encode(x=alt.XDatum(0))
    )
    return alt.LayerChart(layer=[bars, rule]).properties(width="container", height=180)


def alignment_table() -> pd.DataFrame:
    """When 1A and 1B are close in both matrices, and when the held-out loss was lowest.

    Returns
    -------
    DataFrame
        `seed`, `tying`, `steps_until` (updates until close, there and at the next snapshot), `lowest` (step
        of the lowest held-out loss), `overfit` (nats, loss at the end minus its lowest).
    """
    table = curves(thin=False)
    parts = []
    for name in TYINGS:
        rows = table[_named(table["tied"]) == name].reset_index(drop=True)
        by_seed = rows.groupby("seed")["held_loss_gap"]
        lowest = rows.loc[by_seed.idxmin()].set_index("seed")
        aligned = exor.steps_until(rows, ["relative_input_11", "relative_output_11"])
        overfit = by_seed.last() - lowest["held_loss_gap"]
        part = {"steps_until": aligned, "lowest": lowest["step"], "overfit": overfit, "tying": name}
        parts.append(pd.DataFrame(part).rename_axis("seed").reset_index())
    return pd.concat(parts, ignore_index=True)


def plot_alignment(table: pd.DataFrame) -> alt.LayerChart:
    """A mark for each seed of :func:`alignment_table`; above the diagonal, alignment comes later."""
    end = int(table[["steps_until", "lowest"]].to_numpy().max())
    scale = alt.Scale(domain=[0, end], nice=False, padding=8)
    colour, shape = theme.point_styles("tying", list(TYINGS))
    marks = (
        alt.Chart(table.round(4))
        .mark_point(size=60, opacity=0.75)
        .encode(
            x=alt.X(
                "lowest:Q", scale=scale, axis=alt.Axis(title="step of the lowest held-out loss", tickCount=6)
            ),
            y=alt.Y(
                "steps_until:Q",
                scale=scale,
                axis=alt.Axis(title="steps until 1A and 1B are close", tickCount=6),
            ),
            color=colour,
            shape=shape,
            tooltip=[
                "seed:N",
                "tying:N",
                "lowest:Q",
                "steps_until:Q",
                alt.Tooltip("overfit:Q", format=".3f"),
            ],
        )
    )
    corner = pd.DataFrame({"lowest": [0, end], "steps_until": [0, end]})
    line = alt.Chart(corner).mark_line(strokeDash=list(theme.DASHES[1]), strokeWidth=1, color=theme.INK)
    diagonal = line.encode(x="lowest:Q", y="steps_until:Q")
    return alt.LayerChart(layer=[diagonal, marks]).properties(width="container", height=300)


def plot_torn(task: str = "both pairs") -> alt.Chart:
    """A mark a seed: its loss above the optimum at the end, and how far apart 0A and 0B are."""
    last = exor.last(curves(task))
    parts = []
    for matrix in MATRICES[1:]:
        rows, name = _of_matrix(last, matrix)
        value = rows[f"relative_{name}_00"]
        part = {"seed": rows["seed"], "loss_gap": rows["loss_gap"], "relative_distance": value}
        parts.append(pd.DataFrame({**part, "matrix": matrix}))
    colour, shape = theme.point_styles("matrix", list(MATRICES[1:]))
    return (
        alt.Chart(pd.concat(parts).round(4))
        .mark_point(size=55, opacity=0.75)
        .encode(
            x=alt.X("loss_gap:Q", axis=theme.axis("loss_gap")),
            y=alt.Y("relative_distance:Q", axis=theme.axis("relative_distance")),
            color=colour,
            shape=shape,
            tooltip=["seed:N", "matrix:N", "loss_gap:Q", "relative_distance:Q"],
        )
        .properties(width="container", height=240)
    )


# --- which strings --------------------------------------------------------------------------------------


@functools.cache
def stored_model(seed: int, tied: bool) -> Callable[[np.ndarray], np.ndarray]:
    """A stored model of the main task as it was at the end: from tokens (n, T) to probabilities (n, V)."""
    cell = exor.cell_of(exor.MAIN, stored_preset())
    # in double precision, so that two digits are the same on every processor
    model = load_model(cell.config, read(cell)[0], seed=seed, tied=tied).double()

    def predict(tokens: np.ndarray) -> np.ndarray:
        rows = torch.from_numpy(np.asarray(tokens, dtype=np.int64))
        with torch.no_grad():
            logits = model(rows)  # (n, T, V)
        asked = logits[torch.arange(len(rows)), (rows == MASK).long().argmax(1)]
        answers: np.ndarray = asked.softmax(-1).numpy()
        return answers

    return predict


def right_bits() -> pd.DataFrame:
    """What stored models say of the masked bit, by the number of ones that the rest of the string shows.

    Returns
    -------
    DataFrame
        `model`, `seed`, `ones` (seen beside the mask, one more where the parity is D), `parity`, and
        `probability` of the right bit in either spelling, the mean over contexts weighted as they occur.
    """
    strings = EXor().strings()[:-1]
    tokens, weight = EXor().contexts(strings)
    exact = EXor().conditional(tokens)
    is_one = exact[:, ONE_A : ONE_B + 1].sum(1) > 0
    odd = tokens[:, -1] == ODD
    ones = np.isin(tokens, (ONE_A, ONE_B)).sum(1) + odd
    parts = []
    for tied, seed in itertools.product((False, True), (0, 1)):
        answers = stored_model(seed, tied)(tokens)
        right = np.where(is_one, answers[:, ONE_A : ONE_B + 1].sum(1), answers[:, : ZERO_B + 1].sum(1))
        rows = pd.DataFrame({"ones": ones, "parity": np.where(odd, "D", "E"), "weight": weight})
        rows["weighted"] = right * weight
        sums = rows.groupby(["ones", "parity"])[["weighted", "weight"]].sum()
        probability = (sums["weighted"] / sums["weight"]).rename("probability").reset_index()
        parts.append(probability.assign(model=f"{TYINGS[tied]}, seed {seed}", seed=seed))
    return pd.concat(parts, ignore_index=True)


def count_levels() -> pd.DataFrame:
    """Accuracy of a model that answers by the number of ones it sees, for every set of counts gone wrong.

    D is counted as one. Of the 127 strings' contexts, binomial(7, m) in 127 show m ones, 0 to 6; the
    answer is a one where m is odd. Elsewhere the model gives the likelier spelling of the right bit.

    Returns
    -------
    DataFrame
        `accuracy`, from the best down, and `wrong`: the counts; "or" between sets of equal cost.
    """
    share = special.comb(7, np.arange(7)) / 127
    right = share * np.where(np.arange(7) % 2, EXor().spellings[1].max(), EXor().spellings[0].max())
    sets: dict[float, list[str]] = {}
    for n_wrong in range(8):
        for wrong in itertools.combinations(range(7), n_wrong):
            accuracy = round(float(right.sum() - right[list(wrong)].sum()), 9)
            sets.setdefault(accuracy, []).append(", ".join(map(str, wrong)) or "none")
    rows = [(accuracy, " or ".join(sets[accuracy])) for accuracy in sorted(sets, reverse=True)]
    return pd.DataFrame(rows, columns=["accuracy", "wrong"])


def levels_table() -> pd.DataFrame:
    """On which level of :func:`count_levels` each run of the main task stands after its last step.

    Returns
    -------
    DataFrame
        Indexed by accuracy, best first: counts that are wrong, and runs untied and tied. Runs that stand
        between levels, where a count is right in some spellings alone, share the last row.
    """
    levels, last = count_levels(), exor.last(curves())
    gaps = np.abs(last["accuracy"].to_numpy()[:, None] - levels["accuracy"].to_numpy())
    # accuracies are stored in single precision; levels lie farther apart than this
    nearest, on_level = gaps.argmin(axis=1), gaps.min(axis=1) < 1e-4
    text = levels["accuracy"].map("{:.4f}".format)
    found = pd.DataFrame(
        {
            "accuracy": np.where(on_level, text.to_numpy()[nearest], "between levels"),
            "wrong": np.where(on_level, levels["wrong"].to_numpy()[nearest], ""),
            "tying": _named(last["tied"]),
        }
    )
    counted = found.groupby(["accuracy", "wrong"])["tying"].value_counts().unstack(fill_value=0)
    counted = counted.reindex(columns=list(TYINGS), fill_value=0).reset_index("wrong")
    order = sorted(counted.index, key=lambda name: (name[0] != "b", name), reverse=True)
    return counted.rename_axis(columns=None).rename(columns={"wrong": "counts gone wrong"}).loc[order]


def plot_right_bits(table: pd.DataFrame) -> alt.LayerChart:
    """Lines of :func:`right_bits`, with a point for each parity, and a rule at one half, a coin's throw."""
    names = list(dict.fromkeys(table["model"]))
    key = alt.Legend(title=theme.title("model"), symbolType="stroke", symbolStrokeWidth=2.5, columns=2)
    colour, dash = theme.line_styles("model", names)
    base = alt.Chart(table.round(4)).encode(
        x=alt.X("ones:Q", axis=alt.Axis(title="ones seen, D counted as one", tickMinStep=1)),
        color=colour.legend(key),
        tooltip=["model:N", "ones:Q", "parity:N", alt.Tooltip("probability:Q", format=".2f")],
    )
    y = alt.Y("probability:Q", axis=theme.axis("probability"), scale=alt.Scale(domain=[0, 1]))
    lines = base.mark_line().encode(y=alt.Y("mean(probability):Q"), strokeDash=dash.legend(key))
    # one within the other, since they often coincide
    dots = base.transform_filter("datum.parity === 'D'").mark_point(size=25).encode(y=y)
    squares = base.transform_filter("datum.parity === 'E'").mark_point(size=110, filled=False, shape="square")
    half = alt.Chart(alt.Data(values=[{}])).mark_rule(strokeDash=list(theme.DASHES[2]))
    layers = [half.encode(y=alt.YDatum(0.5)), lines, dots, squares.encode(y=y)]
    return alt.LayerChart(layer=layers).properties(width="container", height=280)


# --- the context editor ---------------------------------------------------------------------------------


def masked_strings() -> list[str]:
    """Masked strings with each number of ones and each parity, in two spellings: the first is the commoner.

    >>> len(masked_strings()), masked_strings()[4]
    (28, '1B 0B ? 0B 0B 0B 0B E')
    """
    found = []
    for ones, parity in itertools.product(range(7), "ED"):
        for one, zero in (("1B", "0B"), ("1A", "0A")):
            bits = [one] * ones + [zero] * (6 - ones)
            found.append(" ".join([*bits[:2], "?", *bits[2:], parity]))
    return found


def read_string(text: str) -> np.ndarray:
    """Tokens (1, 8) of a masked string such as ``"1A 0B ? 0B 0B 1B 1A E"``.

    Raises
    ------
    ValueError
        If a symbol is none of EXor's, or the string is none of the task's.
    """
    symbols = text.split()
    unknown = [symbol for symbol in symbols if symbol not in SYMBOLS]
    if unknown:
        raise ValueError(f"{unknown[0]!r} is no symbol of EXor: write {', '.join(SYMBOLS)}, with spaces")
    tokens = np.array([[SYMBOLS.index(symbol) for symbol in symbols]], dtype=np.uint8)
    EXor().conditional(tokens)  # refuses what is none of the task's strings
    return tokens


def context_table(text: str) -> pd.DataFrame:
    """The exact distribution of a masked symbol beside each stored model's, two digits: a row a symbol."""
    tokens = read_string(text)
    columns = {"exact": EXor().conditional(tokens)[0]}
    for tied, seed in itertools.product((False, True), (0, 1)):
        columns[f"{TYINGS[tied]}, seed {seed}"] = stored_model(seed, tied)(tokens)[0]
    return pd.DataFrame(columns, index=pd.Index(SYMBOLS, name="symbol")).round(2)


def measured_context(string: str, seed: int) -> pd.DataFrame:
    """:func:`context_table` of one seed for the explorer: `symbol`, `exact`, `untied`, `tied`.

    E, D and ? are one row, since they are never right.
    """
    table = context_table(string)
    table = table.rename(columns={f"{name}, seed {seed}": name for name in TYINGS})[["exact", *TYINGS]]
    bits = table[: ONE_B + 1]
    rest = (1 - bits.sum()).clip(lower=0).round(2).rename("other")
    return pd.concat([bits, rest.to_frame().T]).rename_axis("symbol").reset_index()


def plot_context(data: charts.Data) -> alt.LayerChart:
    """Bars of :func:`measured_context` side by side."""
    names = ["exact", *TYINGS]
    scale = alt.Scale(domain=names, range=[theme.INK, *theme.CATEGORIES[:2]])
    base = alt.Chart(data).encode(
        x=alt.X("symbol:N", sort=None, axis=alt.Axis(title=theme.title("symbol"), labelAngle=0)),
        xOffset=alt.XOffset("model:N", sort=names),
        y=alt.Y(
            "probability:Q", axis=theme.axis("probability"), scale=alt.Scale(domain=[0, 1.05], nice=False)
        ),
    )
    bars = base.mark_bar(opacity=0.85).encode(
        color=alt.Color("model:N", scale=scale, legend=theme.legend("model")),
        tooltip=["model:N", "symbol:N", "probability:Q"],
    )
    values = base.mark_text(dy=-6, fontSize=10).transform_filter("datum.probability >= 0.01")
    chart = alt.LayerChart(layer=[bars, values.encode(text=alt.Text("probability:Q", format=".2f"))])
    folded = chart.transform_fold([*names], as_=["model", "probability"])
    return folded.properties(width="container", height=theme.HEIGHT)


# --- other coins ----------------------------------------------------------------------------------------


def coins_note() -> str:
    """Data, seeds and steps of the stored sweep over coins, for a caption."""
    sweep = spellings.sweep_cells(spellings.stored_preset())[0].config
    return (
        f"EXor, both pairs; {sweep.n_seeds} seeds a coin, {sweep.n_steps:,} steps, the rate falling once "
        f"from {sweep.learning_rate:g}. Thin: a seed; thick: their mean; band: its 95% interval (Student)."
    )


@functools.cache
def _sweep(preset: str) -> pd.DataFrame:
    return spellings.sweep_curves(preset)


def coins() -> list[float]:
    """Stored coins, from the fair one down."""
    return sorted(_sweep(spellings.stored_preset())["p_0a"].unique().tolist(), reverse=True)


def coins_at_the_end(quantity: str, pair: str = "00") -> pd.DataFrame:
    """Where each coin led: p_0a, seed, and a value for each kind.

    Parameters
    ----------
    quantity : {"relative_distance", "accuracy_gap"}
        Relative distance of `pair` by `matrix`, or best possible minus reached accuracy by `tying`.
    pair : {"00", "11"}
    """
    table = exor.last(_sweep(spellings.stored_preset()))
    if quantity == "accuracy_gap":
        return table[["p_0a", "seed", "accuracy_gap"]].assign(tying=_named(table["tied"]))
    parts = []
    for matrix in MATRICES:
        rows, name = _of_matrix(table, matrix)
        value = rows[f"relative_{name}_{pair}"]
        parts.append(rows[["p_0a", "seed"]].assign(matrix=matrix, relative_distance=value))
    return pd.concat(parts, ignore_index=True)


def coins_closed_finding() -> str:
    """How many seeds end with 0A and 0B close, under the fairest and the least fair stored coin."""
    ends = coins_at_the_end("relative_distance")
    close = (ends["relative_distance"] <= exor.CLOSE).groupby([ends["p_0a"], ends["matrix"]]).sum()
    n_seeds = ends["seed"].nunique()
    parts = [
        f"under p(0A) = {coin:g} "
        + ", ".join(f"{matrix.removeprefix('untied ')} {close[coin, matrix]}" for matrix in MATRICES)
        for coin in (max(coins()), min(coins()))
    ]
    return f"Seeds of {n_seeds} that end with 0A and 0B close: {'; '.join(parts)}"


def coins_finding() -> str:
    """One sentence on the accuracy of :func:`coins_at_the_end`, paired by seed, true of the drawn data."""
    gaps = coins_at_the_end("accuracy_gap").set_index(["p_0a", "seed", "tying"])["accuracy_gap"].unstack()
    behind = (gaps["tied"] - gaps["untied"]).unstack("p_0a")  # (seeds, coins)
    every = findings.over_seeds(behind.mean(axis=1).to_numpy())
    fair = findings.over_seeds(behind[0.5].to_numpy())
    return (
        f"Over all coins the tied model is {every.value:.2f} farther from the best accuracy "
        f"({every.low:.2f} to {every.high:.2f}), under the fair one {fair.value:.2f} "
        f"({fair.low:.2f} to {fair.high:.2f})"
    )


def plot_at_the_end(table: pd.DataFrame, *, by: str) -> alt.LayerChart:
    """Where each coin led, of :func:`coins_at_the_end`: every seed, mean and band over the coins."""
    if by == "tying":
        chart = plot_curves(table, "accuracy_gap", by=by, names=TYINGS, x="p_0a", limits=(-0.01, 0.4))
    else:
        reference = {**CLOSE, **UNRELATED}
        chart = plot_curves(
            table,
            "relative_distance",
            by=by,
            names=MATRICES,
            x="p_0a",
            reference=reference,
            limits=(0.0, 2.0),
        )
    return chart.properties(height=240)


def coin_curves() -> pd.DataFrame:
    """Relative distances under every stored coin, for the explorer.

    Returns
    -------
    DataFrame
        `p_0a`, `matrix`, `seed`, `step`, `code` (of PAIRS) and `relative_distance`.
    """
    table = _sweep(spellings.stored_preset())
    steps = np.unique(table["step"])
    table = table[table["step"].isin(steps[::3])]
    parts = []
    for matrix, code in itertools.product(MATRICES, (0, 1)):
        rows, name = _of_matrix(table, matrix)
        value = rows[f"relative_{name}_{list(PAIRS)[code]}"]
        part = rows[["p_0a", "seed", "step"]].assign(matrix=matrix, code=code, relative_distance=value)
        parts.append(part)
    return pd.concat(parts, ignore_index=True)


def plot_coin(data: charts.Data) -> alt.LayerChart:
    """Both pairs' relative distance over the steps, of :func:`coin_curves`."""
    names = list(PAIRS.values())[:2]
    chart = charts.plot_seed_curves(
        data,
        "relative_distance",
        by="pair",
        names=names,
        reference={**CLOSE, **UNRELATED},
        limits=(0.0, 2.0),
    )
    return chart.transform_calculate(pair=f"{json.dumps(names)}[datum.code]")


# --- players --------------------------------------------------------------------------------------------

EDGE = 2.2  # of the square that shows an embedding, in root mean square distances of the four bit symbols
KINDS = ("0", "0", "1", "1", "E", "D", "?")  # a line joins symbols of one kind
# Where a symbol's name stands, pixels right and down, so that symbols in one place can be read.
BESIDE = {
    **{"0A": (-12, -10), "0B": (12, -10), "1A": (-12, -10), "1B": (12, -10)},
    **{"E": (-9, 13), "D": (9, 13), "?": (0, -12)},
}
CURVES = {"accuracy": "accuracy", "loss_gap": "loss above the optimum"}


def plane_frames(
    planes: Mapping[str, np.ndarray], steps: Sequence[int], curves: pd.DataFrame
) -> pd.DataFrame:
    """Frames of a player: symbols in two planes, each scaled so that its bits have the same spread.

    Parameters
    ----------
    planes : mapping of "input" and "output" to arrays, shape (S, V, 2)
        Coordinates of the 7 symbols at each step.
    steps : sequence of int, length S
    curves : DataFrame
        `accuracy` and `loss_gap` at each step, in order.

    Returns
    -------
    DataFrame
        `frame`, `symbol`, `kind`, `x_input`, `y_input`, `x_output`, `y_output`, in root mean square
        distances of 0A, 0B, 1A and 1B from their mean, which is at 0, cut off at EDGE; and the curves.
    """
    n_symbols = len(SYMBOLS)
    columns: dict[str, object] = {
        "frame": np.repeat(list(steps), n_symbols),
        "symbol": np.tile(SYMBOLS, len(steps)),
        "kind": np.tile(KINDS, len(steps)),
    }
    for name, plane in planes.items():
        bits = plane[:, : ONE_B + 1]
        centred = plane - bits.mean(axis=1, keepdims=True)
        spread = np.sqrt((centred[:, : ONE_B + 1] ** 2).sum(axis=2).mean(axis=1))
        scaled = np.clip(centred / spread[:, None, None], -EDGE, EDGE)
        columns[f"x_{name}"], columns[f"y_{name}"] = scaled[..., 0].ravel(), scaled[..., 1].ravel()
    for name in CURVES:
        columns[name] = np.repeat(curves[name].to_numpy(float), n_symbols)
    return pd.DataFrame(columns)


def recorded_frames(*, every: int = 2) -> pd.DataFrame:
    """The stored runs of the main task's first two seeds, each in its own planes, by `seed` and `tied`.

    Parameters
    ----------
    every : int, default 2
        Snapshots, of which one is a frame; the last always is.
    """
    preset = stored_preset()
    table, _ = read(exor.cell_of(exor.MAIN, preset))
    table = table[table["quantity"].str.match("(input|output)/") & (table["seed"] < 2)]
    measured = curves(thin=False)
    parts = []
    for seed, tied in itertools.product((0, 1), (False, True)):
        rows = table[(table["seed"] == seed) & (table["tied"] == tied)]
        planes = {}
        for matrix in ("input", "output"):
            # a cell stores coordinates symbol by symbol, axis by axis
            own = rows[rows["quantity"].str.startswith(matrix)].sort_values("step", kind="stable")
            arrays = own["value"].to_numpy(float).reshape(-1, len(SYMBOLS), 4)
            planes[matrix] = metrics.principal_plane(arrays[::-1][::every][::-1])
        part = measured[(measured["seed"] == seed) & (measured["tied"] == tied)]
        part = part.iloc[::-1].iloc[::every].iloc[::-1]
        parts.append(plane_frames(planes, part["step"].tolist(), part).assign(seed=seed, tied=tied))
    return pd.concat(parts, ignore_index=True)


def coin_frames(coins: Sequence[float]) -> pd.DataFrame:
    """The stored sweep's first seed under some of its coins, by `p_0a` and `tied`."""
    preset = spellings.stored_preset()
    measured = _sweep(preset)
    pictures = spellings.sweep_pictures(preset)
    parts = []
    for coin, tied in itertools.product(coins, (False, True)):
        planes = {
            name: metrics.principal_plane(pictures[coin, tied, name][1]) for name in ("input", "output")
        }
        own = (measured["p_0a"] == coin) & (measured["tied"] == tied) & (measured["seed"] == 0)
        steps = pictures[coin, tied, "input"][0]
        parts.append(plane_frames(planes, steps, measured[own]).assign(p_0a=coin, tied=tied))
    return pd.concat(parts, ignore_index=True)


def live_frames(p_0a: float, tied: bool, *, every: int = 100) -> Iterator[pd.DataFrame]:
    """Train in this kernel as the sweep does, and yield a frame every hundred steps.

    The end isn't known yet, so each frame has its own principal plane, turned to match the frame before.
    """
    live = spellings.sweep_session(spellings.Sweep(p_0a, n_seeds=1))
    before: dict[str, np.ndarray] = {}
    for snapshot in live.snapshots(snapshot_every=every):
        planes = {}
        for name in ("input", "output"):
            plane = metrics.principal_plane(snapshot.weights[name][int(tied)][None].numpy())
            before[name] = plane if name not in before else turned_to(plane, before[name])
            planes[name] = before[name]
        measured = pd.DataFrame({name: [snapshot.metrics[name][int(tied)]] for name in CURVES})
        yield plane_frames(planes, [snapshot.step], measured)


def turned_to(plane: np.ndarray, before: np.ndarray) -> np.ndarray:
    """Points (..., V, 2) turned or mirrored about 0 to lie as near as they can to those of `before`."""
    left, _, right = np.linalg.svd(plane.reshape(-1, 2).T @ before.reshape(-1, 2))
    turned: np.ndarray = plane @ (left @ right)
    return turned


def plot_frames(n_steps: int) -> Callable[[alt.NamedData], alt.HConcatChart]:
    """Drawing function of a player: both planes, pairs joined, beside the curves up to the step shown."""
    return functools.partial(_draw_frames, n_steps=n_steps)


def _draw_frames(data: alt.NamedData, *, n_steps: int) -> alt.HConcatChart:
    kinds = sorted(set(KINDS), key=KINDS.index)
    colours = alt.Scale(domain=kinds, range=[*theme.CATEGORIES[:2], *[theme.INK] * 3])
    colour = alt.Color("kind:N", scale=colours, legend=None)
    scale = alt.Scale(domain=[-EDGE - 0.15, EDGE + 0.15], nice=False)
    panels = []
    for name in ("input", "output"):
        base = alt.Chart(data).encode(
            x=alt.X(f"x_{name}:Q", scale=scale, axis=theme.layout_axis("principal_1")),
            y=alt.Y(f"y_{name}:Q", scale=scale, axis=theme.layout_axis("principal_2")),
        )
        lines = base.mark_line(strokeWidth=3, opacity=0.5).encode(detail="kind:N", color=colour)
        points = base.mark_point(size=60).encode(color=colour, tooltip=["symbol:N"])
        names = [
            base.transform_filter(f"datum.symbol === '{symbol}'")
            .mark_text(dx=dx, dy=dy, fontSize=11)
            .encode(text="symbol:N")
            for symbol, (dx, dy) in BESIDE.items()
        ]
        heading = alt.Title(f"{name} embedding", fontSize=12, offset=4)
        layers = alt.LayerChart(layer=[lines, points, *names])
        panels.append(layers.properties(width=215, height=215, title=heading))
    return alt.hconcat(*panels, _history(n_steps)).resolve_scale(
        color="independent", strokeDash="independent"
    )


def _history(n_steps: int) -> alt.LayerChart:
    """Accuracy and loss up to the frame shown."""
    names = json.dumps(CURVES)
    colour, dash = theme.line_styles("quantity", list(CURVES.values()))
    key = alt.Legend(title=None, orient="top", direction="vertical", symbolType="stroke")
    curve = (
        alt.Chart(HISTORY)
        .transform_filter("datum.frame <= frame")
        .transform_fold(list(CURVES), as_=["which", "value"])
        .transform_calculate(quantity=f"{names}[datum.which]")
        .mark_line(clip=True)
        .encode(
            x=alt.X(
                "frame:Q",
                axis=theme.axis("step", tick_count=3),
                scale=alt.Scale(domain=[0, n_steps], nice=False),
            ),
            y=alt.Y("value:Q", axis=alt.Axis(title=None), scale=alt.Scale(domain=[0, 1.2], nice=False)),
            color=colour.legend(key),
            strokeDash=dash.legend(key),
        )
    )
    return alt.LayerChart(layer=[curve]).properties(width=170, height=215)


# --- the parity symbols ---------------------------------------------------------------------------------


def parity_table(task: str = "both pairs") -> pd.DataFrame:
    """Distances of E from the zeros and of D from the ones at the end, over that of zeros and ones.

    Returns
    -------
    DataFrame
        Indexed by matrix: medians over seeds for E and the mean of the zeros, D and the mean of the ones,
        and for the null E with the ones, D with the zeros.
    """
    weights = exor.embeddings(TASKS[task], stored_preset(task))
    used = SYMBOL_SETS[TASKS[task].symbols].spellings > 0  # (bit, spelling)
    rows = []
    for (seed, tied, name), matrix in weights.items():
        if tied and name == "output":
            continue
        zero = matrix[[ZERO_A, ZERO_B]][used[0]].mean(axis=0)
        one = matrix[[ONE_A, ONE_B]][used[1]].mean(axis=0)
        distances = {
            "E and 0": matrix[EVEN] - zero,
            "D and 1": matrix[ODD] - one,
            "E and 1": matrix[EVEN] - one,
            "D and 0": matrix[ODD] - zero,
        }
        kind = "tied" if tied else f"untied {name}"
        unit = np.linalg.norm(one - zero)
        row = {pair: np.linalg.norm(vector) / unit for pair, vector in distances.items()}
        rows.append({"matrix": kind, "seed": seed, **row})
    table = pd.DataFrame(rows).drop(columns="seed")
    return table.groupby("matrix").median().reindex(list(MATRICES)).round(2)


# --- the authors' way of scoring ------------------------------------------------------------------------


def sample_scores() -> pd.DataFrame:
    """What the best guesses score on the 12 held-out strings, once spelled and masked, as `n` right.

    The best guess for a zero is 0B; for a one, 1A and 1B are equally good.

    Returns
    -------
    DataFrame
        Indexed by the guess for ones: right answers, of how many, and as a share.
    """
    gauge = prepare(dataclasses.replace(exor.MAIN, n_seeds=1)).gauge
    answers = gauge.answers.numpy()
    ones = np.isin(answers, (ONE_A, ONE_B))
    zeros_right = int((answers == ZERO_B).sum())
    rows = {
        "1A": zeros_right + int((answers == ONE_A).sum()),
        "1B": zeros_right + int((answers == ONE_B).sum()),
        "the better one each time": zeros_right + int(ones.sum()),
    }
    table = pd.DataFrame({"right": rows, "strings": len(answers)}).rename_axis(
        "an optimal model that prefers"
    )
    return table.assign(share=(table["right"] / table["strings"]).round(3))


# --- readings -------------------------------------------------------------------------------------------


def reading_cell(reading: str, preset: str) -> Cell | None:
    """The stored cell of a reading: the main task at a preset, with as many seeds as were run."""
    run = exor.at_preset(dataclasses.replace(exor.MAIN, reading=reading), preset)
    cells = [exor.exor.cell(dataclasses.replace(run, n_seeds=n)) for n in (run.n_seeds, READING_SEEDS)]
    return next((cell for cell in cells if cell.stored()), None)


def readings_table(preset: str) -> pd.DataFrame:
    """What each reading of the text comes to, at the end, means over seeds: a row a reading.

    Returns
    -------
    DataFrame
        Best possible minus reached accuracy, untied and tied; relative distances of both pairs in the
        untied output and the tied matrix; seeds and steps. "not stored" where no cell is.
    """
    rows = {}
    for reading in READINGS:
        cell = reading_cell(reading, preset)
        rows[reading] = {"seeds": "not stored"} if cell is None else _reading_row(cell)
    return pd.DataFrame.from_dict(rows, orient="index").fillna("").rename_axis("reading")


def _reading_row(cell: Cell) -> dict[str, object]:
    table, run = exor.curves(cell.config, "paper"), cell.config  # as it is, whatever its size
    strings = EXor().strings()[: None if READINGS[run.reading].all_ones else -1]
    late = {name: exor.late_accuracy(table[_named(table["tied"]) == name]).mean() for name in TYINGS}
    row: dict[str, object] = {"seeds": run.n_seeds, "steps": f"{run.n_steps:,}"}
    for name in TYINGS:
        row[f"accuracy gap, {name}"] = f"{EXor().optimal_accuracy(strings) - late[name]:.3f}"
    for matrix, pair in itertools.product(MATRICES, ("11", "00")):
        rows, name = _of_matrix(exor.last(table), matrix)
        row[f"{PAIRS[pair]}, {matrix}"] = f"{rows[f'relative_{name}_{pair}'].mean():.2f}"
    return row
