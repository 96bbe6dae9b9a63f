"""What the chapter on natural text measures and draws: twins in a text, their distances, their neighbours."""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence

import altair as alt
import numpy as np
import pandas as pd

from book.tying.experiments import natural
from book.tying.experiments.natural import NaturalRun
from embviz.ledger.cells import read
from embviz.ledger.studies import find_study
from embviz.view import charts, theme

# The matrices of the stored runs, and whether the model that has one is tied.
MATRICES = {"untied input": "input", "tied": "tied", "untied output": "output"}
MIXED, FIXED = "mixed", "one spelling a document"
SPELLINGS = {MIXED: "mixed", FIXED: "fixed"}
PAIRS = {"twins": "twins", "matched in count": "matched", "unrelated": "unrelated"}
EUCLIDEAN, COSINE = "Euclidean", "cosine"
PRIME = "\u2032"  # marks a twin's name
ACCEPTED = 0.5  # end of the range that the ledger accepts, of the distance of unrelated pairs
PANEL_HEIGHT = 190  # pixels


def largest_stored() -> str:
    """The largest preset that is stored.

    Raises
    ------
    ValueError
        If none is; the message says how to run one.
    """
    preset = find_study("tying.natural").largest_stored()
    if preset is None:
        raise ValueError("no natural text is stored: run `embviz run tying.natural --preset quick`")
    return preset


def settings_table(preset: str) -> pd.DataFrame:
    """What the paper says, what its authors' program does, and what was run here."""
    run = natural.natural_runs(preset)[0]
    model, rates = run.setting, run.n_steps * run.learning_rate * (1 + run.setting.last_rate) / 2
    here = {
        "text": run.setting.source,
        "vocabulary": f"{model.max_vocab or 30_522:,} tokens",
        "layers, width": f"{model.n_layers}, {model.embedding_dim}",
        "batch, length": f"{run.batch_size}, {run.length}",
        "rate": f"{run.learning_rate:g}" + (", constant" if model.last_rate == 1 else ", falling"),
        "steps": f"{run.n_steps:,}",
        "tokens read": f"{run.n_steps * run.batch_size * run.length / 1e6:.1f} million",
        "decay x sum of rates": f"{model.weight_decay * rates:.2g}",
        "seeds": str(len({run.seed for run in natural.natural_runs(preset)})),
    }
    paper = {
        "text": "BookCorpus",
        "vocabulary": "30,522 tokens",
        "layers, width": "3, 128",
        "batch, length": "not given",
        "rate": "1e-4",
        "steps": "10 passes",
        "tokens read": "10 billion words",
        "decay x sum of rates": "not given",
        "seeds": "not given",
    }
    program = paper | {
        "batch, length": "128, 128",
        "rate": "1e-4 to 1e-5, a cosine",
        "steps": "3 passes, 1.2 million",
        "tokens read": "2 billion words",
        "decay x sum of rates": "0.67",
        "seeds": "1",
    }
    return pd.DataFrame({"paper": paper, "its program": program, "here": here}).rename_axis("")


# --- curves -----------------------------------------------------------------------------------------


def accuracy_table(preset: str) -> pd.DataFrame:
    """Validation accuracy along the way: step, seed, tying, accuracy; twins mixed."""
    table = natural.natural_curves(preset)
    table = table[table["spelling"] == "mixed"]
    tying = np.where(table["tied"], "tied", "untied")
    return table.assign(tying=tying)[["step", "seed", "tying", "accuracy"]].reset_index(drop=True)


def scores_table(preset: str) -> pd.DataFrame:
    """Scores at the end, means over seeds, indexed by spelling and tying.

    The last column is the share of guesses that named the right word in the wrong spelling.
    """
    table = natural.natural_curves(preset)
    end = table[table["step"] == table["step"].max()]
    end = end.assign(
        tying=np.where(end["tied"], "tied", "untied"),
        spelling=end["spelling"].map({name: words for words, name in SPELLINGS.items()}),
        wrong_spelling=100 * (end["accuracy_either"] - end["accuracy"]),
        accuracy=100 * end["accuracy"],
    )
    means = end.groupby(["spelling", "tying"])[["loss", "accuracy", "wrong_spelling"]].mean()
    words = {"loss": "loss, nats", "accuracy": "right, %", "wrong_spelling": "right but for the spelling, %"}
    return means.rename(columns=words).astype(float).round(2)


def distance_table(preset: str) -> pd.DataFrame:
    """Mean distances along the way, of all runs and kinds of pairs.

    Returns
    -------
    DataFrame
        spelling, matrix, pair (keys of SPELLINGS, MATRICES, PAIRS), seed, step, distance,
        cosine_distance, and each over that of unrelated pairs of the same moment, twin_ratio and
        cosine_ratio.
    """
    return _distances(natural.natural_runs(preset))


def _distances(runs: Sequence[NaturalRun]) -> pd.DataFrame:
    table = natural.curves_of(runs)
    names = {name: words for words, name in SPELLINGS.items()}
    parts = []
    for matrix, name in MATRICES.items():
        rows = table[table["tied"] == (name == "tied")]
        for pair, kind in PAIRS.items():
            columns = {
                "spelling": rows["spelling"].map(names),
                "matrix": matrix,
                "pair": pair,
                "seed": rows["seed"],
                "step": rows["step"],
                "distance": rows[f"{name}_{kind}"],
                "cosine_distance": rows[f"{name}_{kind}_cosine"],
                "twin_ratio": rows[f"{name}_{kind}"] / rows[f"{name}_unrelated"],
                "cosine_ratio": rows[f"{name}_{kind}_cosine"] / rows[f"{name}_unrelated_cosine"],
            }
            parts.append(pd.DataFrame(columns))
    return pd.concat(parts, ignore_index=True)


def matrix_distances(preset: str, matrix: str) -> pd.DataFrame:
    """Rows of :func:`distance_table` of one matrix, twins mixed, for a panel of Figure 11.

    Raises
    ------
    ValueError
        If there is no such matrix; the message lists those there are.
    """
    if matrix not in MATRICES:
        raise ValueError(f"no matrix {matrix!r}: choose one of {', '.join(MATRICES)}")
    table = distance_table(preset)
    kept = table[(table["matrix"] == matrix) & (table["spelling"] == MIXED)]
    return kept[["step", "seed", "pair", "distance"]].round(4).reset_index(drop=True)


def plot_lines(
    data: charts.Data,
    y: str,
    *,
    by: str,
    names: Sequence[str],
    height: int = theme.HEIGHT,
    zero: bool = True,
) -> alt.LayerChart:
    """Every seed as a thin line over the steps, the mean over seeds as a thick one.

    No band: two seeds would give Student's interval 1 degree of freedom, and a band over everything.

    Parameters
    ----------
    data : DataFrame, or the data of an explorer
        Columns step, seed, `y` and `by`.
    y, by : str
        Columns, and keys of ``theme.LABELS``.
    names : sequence of str
        Kinds in `by`, in the order of their colours.
    """
    colour, dash = theme.line_styles(by, list(names))
    across = alt.X("step:Q", axis=theme.axis("step", tick_count=3), scale=alt.Scale(nice=False))
    scale, axis = alt.Scale(zero=zero), theme.axis(y)
    thin = (
        alt.Chart(data)
        .mark_line(strokeWidth=0.9, opacity=0.45)
        .encode(x=across, y=alt.Y(f"{y}:Q", axis=axis, scale=scale), color=colour, detail="seed:N")
    )
    tooltip = [
        alt.Tooltip("step:Q", format=","),
        f"{by}:N",
        alt.Tooltip(f"mean({y}):Q", title="mean", format=".3g"),
    ]
    thick = (
        alt.Chart(data)
        .mark_line(strokeWidth=2.5)
        .encode(x=across, y=f"mean({y}):Q", color=colour, strokeDash=dash, tooltip=tooltip)
    )
    return alt.LayerChart(layer=[thin, thick]).properties(width="container", height=height)


# --- at the end -------------------------------------------------------------------------------------


def final_ratios(preset: str) -> pd.DataFrame:
    """Distance at the end over that of unrelated pairs: twins, and both nulls, a row a matrix and seed."""
    table = distance_table(preset)
    end = table[table["step"] == table["step"].max()]
    wanted = {
        "twins": (end["pair"] == "twins") & (end["spelling"] == MIXED),
        "matched": (end["pair"] == "matched in count") & (end["spelling"] == MIXED),
        "never mixed": (end["pair"] == "twins") & (end["spelling"] == FIXED),
    }
    parts = [end[rows].assign(comparison=name) for name, rows in wanted.items()]
    columns = ["matrix", "comparison", "seed", "twin_ratio", "cosine_ratio"]
    return pd.concat(parts, ignore_index=True)[columns].round(4)


def plot_final_ratios(table: pd.DataFrame) -> alt.LayerChart:
    """A point a matrix, comparison and seed; shaded: what the ledger accepts for twins."""
    names = list(dict.fromkeys(table["comparison"]))
    colour, shape = theme.point_styles("comparison", names)
    across = theme.axis("matrix")
    across.labelAngle = 0
    scale = alt.Scale(domain=[0, max(1.2, float(table["twin_ratio"].max()) * 1.05)], nice=False)
    accepted = (
        alt.Chart(alt.Data(values=[{"low": 0, "high": ACCEPTED}]))
        .mark_rect(opacity=0.12, color=theme.VERDICT_COLOURS["holds"])
        .encode(y=alt.Y("low:Q", scale=scale), y2="high:Q")
    )
    start = (
        alt.Chart(alt.Data(values=[{}])).mark_rule(strokeDash=list(theme.DASHES[2])).encode(y=alt.YDatum(1))
    )
    points = (
        alt.Chart(table)
        .mark_point(size=75, opacity=0.85)
        .encode(
            x=alt.X("matrix:N", sort=list(MATRICES), axis=across),
            xOffset=alt.XOffset("comparison:N", sort=names),
            y=alt.Y("twin_ratio:Q", scale=scale, axis=theme.axis("twin_ratio")),
            color=colour,
            shape=shape,
            tooltip=["matrix:N", "comparison:N", "seed:N", alt.Tooltip("twin_ratio:Q", format=".3f")],
        )
    )
    return alt.LayerChart(layer=[accepted, start, points]).properties(width="container", height=theme.HEIGHT)


# --- weight decay -----------------------------------------------------------------------------------


def decay_table(preset: str) -> pd.DataFrame:
    """Distances of twins with and without weight decay, in one seed's runs after the same steps.

    Returns
    -------
    DataFrame
        Indexed by matrix and weight decay: distance of twins and of unrelated pairs, their ratio, and the
        ratio of the cosine distances.
    """
    undecayed = natural.undecayed_runs(preset)
    decayed = [run for run in natural.natural_runs(preset) if _is_paired(run)]
    step, parts = min(run.n_steps for run in undecayed), []
    for runs in (decayed, undecayed):
        table = _distances(runs)
        moments = table["step"].unique()
        moment = moments[np.abs(moments - step).argmin()]
        table = table[table["step"] == moment].round(3)
        means = table.pivot(index="matrix", columns="pair", values="distance")
        ratios = table[table["pair"] == "twins"].set_index("matrix")
        columns = {
            "weight decay": runs[0].setting.weight_decay,
            "twins": means["twins"],
            "unrelated": means["unrelated"],
            "ratio": ratios["twin_ratio"],
            "cosine ratio": ratios["cosine_ratio"],
        }
        parts.append(pd.DataFrame(columns).reset_index())
    order = [(matrix, float(part["weight decay"].iloc[0])) for matrix in MATRICES for part in parts]
    return pd.concat(parts).set_index(["matrix", "weight decay"]).loc[order]


def _is_paired(run: NaturalRun) -> bool:
    """Whether a run has a counterpart without weight decay."""
    return run.seed == 0 and run.spelling == "mixed"


# --- words ------------------------------------------------------------------------------------------


@functools.lru_cache(maxsize=4)
def _words(preset: str) -> pd.DataFrame:
    corpus = natural.natural_runs(preset)[0].corpus
    return read(natural.natural_words.cell(natural.Words(corpus)))[0]


def twinned_words(preset: str) -> list[str]:
    """The words that have a twin, the most frequent first."""
    table = _words(preset)
    return [str(word) for word in table.loc[table["twin"] >= 0, "word"]]


def twinned_share(preset: str) -> float:
    """Share of the kept tokens of the training text that have a twin."""
    table = _words(preset)
    return float(table.loc[table["twin"] >= 0, "count"].sum() / table["count"].sum())


def coin_table(preset: str) -> pd.DataFrame:
    """What the coins cost a model that knows everything else: a fair coin can't be predicted.

    Returns
    -------
    DataFrame
        One row: share of the training tokens that have a twin, in percent; the accuracy that nobody can
        exceed, half of those lost, in percent; and the loss nobody can save, log 2 for each of them, in
        nats a masked token.
    """
    share = twinned_share(preset)
    row = {
        "tokens with a twin, %": 100 * share,
        "highest accuracy, %": 100 * (1 - share / 2),
        "cost of the coins, nats": share * math.log(2),
    }
    return pd.DataFrame(row, index=[natural.natural_runs(preset)[0].corpus]).round(2)


def _run_of(preset: str, matrix: str, spelling: str, seed: int) -> NaturalRun:
    """The stored run that has a matrix."""
    tied = MATRICES[matrix] == "tied"
    wanted = (tied, SPELLINGS[spelling], seed)
    return next(run for run in natural.natural_runs(preset) if (run.tied, run.spelling, run.seed) == wanted)


def _named_rows(preset: str, matrix: str, spelling: str, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Unit rows (n, D) of one stored matrix, and their names (n,), twins primed."""
    run, words = _run_of(preset, matrix, spelling, seed), _words(preset)
    names = dict(zip(words["token"].tolist(), words["word"], strict=True))
    twins = words[words["twin"] >= 0]
    names |= {twin: word + PRIME for twin, word in zip(twins["twin"].tolist(), twins["word"], strict=True)}
    tokens = natural.stored_tokens(run).tolist()
    rows = natural.stored_rows(run)[MATRICES[matrix]]
    known = [i for i, token in enumerate(tokens) if token in names]
    rows = rows[known] / np.linalg.norm(rows[known], axis=1, keepdims=True)
    return rows, np.array([names[tokens[i]] for i in known])


def nearest_words(
    preset: str, words: Sequence[str], *, n_nearest: int = 4, spelling: str = MIXED, seed: int = 0
) -> pd.DataFrame:
    """The rows nearest to some words by cosine, in each matrix, as text; a prime marks a twin.

    Raises
    ------
    ValueError
        If a word has no twin; the message names it.
    """
    known = twinned_words(preset)
    if missing := [word for word in words if word not in known]:
        raise ValueError(f"no twin of {', '.join(missing)}: choose among {', '.join(known[:20])}, ...")
    columns = {}
    for matrix in MATRICES:
        rows, names = _named_rows(preset, matrix, spelling, seed)
        column = []
        for word in words:
            cosines = rows @ rows[names.tolist().index(word)]
            order = [i for i in np.argsort(-cosines, kind="stable") if names[i] != word]
            column.append(" ".join(names[order[:n_nearest]]))
        columns[matrix] = column
    return pd.DataFrame(columns, index=pd.Index(words, name="word"))


def twin_ranks(preset: str) -> pd.DataFrame:
    """Share of words whose twin is the nearest of all rows by cosine, and among the nearest ten, in percent.

    Returns
    -------
    DataFrame
        Indexed by spelling: for each matrix both shares, means over seeds, and what a guess would give.
    """
    rows = []
    for run in natural.natural_runs(preset):
        spelling = next(words for words, name in SPELLINGS.items() if name == run.spelling)
        for matrix, name in MATRICES.items():
            if (name == "tied") == run.tied:
                rank = _rank_of_twins(preset, matrix, spelling, run.seed)
                row = {"spelling": spelling, "matrix": matrix, "n": len(_words(preset))}
                rows.append(row | {"nearest": (rank == 0).mean(), "in ten": (rank < 10).mean()})
    means = 100 * pd.DataFrame(rows).groupby(["matrix", "spelling"])[["nearest", "in ten"]].mean()
    order = [(matrix, spelling) for matrix in MATRICES for spelling in SPELLINGS]
    words = {"nearest": "the nearest row, %", "in ten": "among the nearest ten, %"}
    return means.loc[order].rename(columns=words).round(1)


def _rank_of_twins(preset: str, matrix: str, spelling: str, seed: int) -> np.ndarray:
    """How many rows lie nearer to a word than its twin does, by cosine, for each twinned word."""
    rows, names = _named_rows(preset, matrix, spelling, seed)
    place = {name: i for i, name in enumerate(names)}
    words = [word for word in twinned_words(preset) if word + PRIME in place]
    here = np.array([place[word] for word in words])
    there = np.array([place[word + PRIME] for word in words])
    cosines = rows[here] @ rows.T  # (words, n)
    cosines[np.arange(len(here)), here] = -np.inf
    return (cosines > cosines[np.arange(len(here)), there][:, None]).sum(axis=1)


# --- explorers --------------------------------------------------------------------------------------


def measured_curves(matrix: str, distance: str, spelling: str, relative: bool) -> pd.DataFrame:
    """Distances along the way of one matrix, for an explorer.

    Parameters
    ----------
    matrix : key of MATRICES
    distance : {"Euclidean", "cosine"}
    spelling : key of SPELLINGS
    relative : bool
        Over the distance of unrelated pairs at the same moment.

    Returns
    -------
    DataFrame with step, seed, pair, measured
    """
    table = _all_distances(largest_stored())
    kept = table[(table["matrix"] == matrix) & (table["spelling"] == spelling)]
    column = {
        (EUCLIDEAN, False): "distance",
        (EUCLIDEAN, True): "twin_ratio",
        (COSINE, False): "cosine_distance",
        (COSINE, True): "cosine_ratio",
    }[distance, relative]
    return kept.rename(columns={column: "measured"})[["step", "seed", "pair", "measured"]].reset_index(
        drop=True
    )


@functools.lru_cache(maxsize=4)
def _all_distances(preset: str) -> pd.DataFrame:
    return distance_table(preset)


def plot_measured_curves(data: charts.Data) -> alt.LayerChart:
    """Lines of :func:`measured_curves`."""
    return plot_lines(data, "measured", by="pair", names=list(PAIRS))


def measured_pairs(matrix: str, spelling: str) -> pd.DataFrame:
    """Every pair at the end by the rank of its first word, seed 0, for an explorer.

    Returns
    -------
    DataFrame
        rank (1: the most frequent of the twinned words), pair, word, twin_ratio (over the mean distance of
        unrelated pairs).
    """
    preset = largest_stored()
    pairs = natural.stored_pairs(_run_of(preset, matrix, spelling, 0))
    pairs = pairs[pairs["matrix"] == MATRICES[matrix]]
    words, scale = twinned_words(preset), pairs.loc[pairs["kind"] == "unrelated", "distance"].mean()
    parts = []
    for pair, kind in PAIRS.items():
        kept = pairs[pairs["kind"] == kind].sort_values("index")
        if kind == "unrelated":  # paired at random: no word of a pair comes first
            continue
        first = [words[i] for i in kept["index"]]
        second = (
            [word + PRIME for word in first] if kind == "twins" else [words[i + 1] for i in kept["index"]]
        )
        columns = {
            "rank": kept["index"].to_numpy() + 1,
            "pair": pair,
            "word": [f"{u} – {v}" for u, v in zip(first, second, strict=True)],
            "twin_ratio": (kept["distance"] / scale).to_numpy(),
        }
        parts.append(pd.DataFrame(columns))
    return pd.concat(parts, ignore_index=True)


def plot_measured_pairs(data: charts.Data) -> alt.LayerChart:
    """Points of :func:`measured_pairs`, with a rule where unrelated pairs are on average."""
    colour, shape = theme.point_styles("pair", [name for name in PAIRS if name != "unrelated"])
    points = (
        alt.Chart(data)
        .mark_point(size=40, opacity=0.8)
        .encode(
            x=alt.X("rank:Q", axis=theme.axis("rank", tick_count=6), scale=alt.Scale(nice=False, padding=6)),
            y=alt.Y("twin_ratio:Q", axis=theme.axis("twin_ratio"), scale=alt.Scale(domainMin=0)),
            color=colour,
            shape=shape,
            tooltip=["word:N", "pair:N", "rank:Q", "twin_ratio:Q"],
        )
    )
    rule = alt.Chart(alt.Data(values=[{}])).mark_rule(strokeDash=list(theme.DASHES[2]))
    return alt.LayerChart(layer=[rule.encode(y=alt.YDatum(1)), points]).properties(
        width="container", height=theme.HEIGHT
    )
