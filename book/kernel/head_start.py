"""What the chapter on derived beginnings measures and draws: curves, steps saved, what such a start is."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import get_args

import altair as alt
import numpy as np
import pandas as pd
import torch

from book.kernel.experiments import models, starts
from book.kernel.experiments.runs import KernelRun, prepare
from book.kernel.experiments.starts import Beginning
from book.kernel.orthogonal import shown_preset, visible
from embviz import kernels, view
from embviz.ledger import findings
from embviz.ledger.findings import Finding
from embviz.view import charts, sentences, theme
from embviz.view.text_titles import in_short
from embviz.words.cooccurrence import pmi
from embviz.words.wordvectors import factorize_pmi

CLAIM = "kernel.initialization"
# those that a chapter trains on the spot; skip-gram vectors would take as long as all of these together
QUICK_KINDS: tuple[Beginning, ...] = (
    "random",
    "derived",
    "derived, FFT form",
    "permuted",
    "log counts",
    "PMI",
)
NAMES: dict[str, str] = {
    "random": "random",
    "derived": "derived",
    "derived, FFT form": "derived, FFT form",
    "permuted": "derived, rows permuted",
    "log counts": "log counts",
    "PMI": "PMI",
    "skip-gram": "skip-gram",
}
SHOWN = ("random", "as chosen", NAMES["permuted"])
PARTS = (10, 5, 3, 2, 1)  # the target: the random start's loss after one of so many parts of its steps
DERIVED, DERIVED_FFT, FACTORS = METHODS = ("derived", "derived, FFT form", "log counts")
N_PAIRS_DRAWN = 8
N_POINTS = 21  # of a curve that an explorer draws
N_WORDS = 30  # of the explorer of neighbours
N_NEIGHBOURS = 5


# --- curves and what is saved ---------------------------------------------------------------------------


def kinds(preset: str) -> tuple[Beginning, ...]:
    """Beginnings that are shown: all, or those that a chapter can train while a reader waits."""
    return QUICK_KINDS if preset == "quick" else get_args(Beginning)


@functools.cache
def curves(preset: str) -> pd.DataFrame:
    """Held-out losses of the small models: beginning, seed, step, held_out_loss."""
    return starts.curves(starts.small(preset), kinds(preset))


def data_note(preset: str) -> str:
    """Text, sizes and seeds, for a caption."""
    run = starts.small(preset)
    vocab_size = models.spectrum_of(run).vocab_size  # of symbols that the text has
    source = in_short(run.text.corpus, "Bundled documentation")
    return (
        f"{source}, {models.SYMBOLS[run.text.symbols]}, {run.text.n_tokens:,} tokens; V = "
        f"{vocab_size}, d = {run.shape.embedding_dim}, {curves(preset)['step'].max():,} updates, "
        f"{run.n_seeds} seeds, every beginning of the norm of the random one"
    )


def savings_at(table: pd.DataFrame, kind: str, parts: int) -> np.ndarray:
    """Steps saved in percent, (R,), to the random start's loss after one of `parts` parts of its steps.

    :func:`.starts.savings` is this at its own target. A start that never gets there has used all its steps.
    """
    saved = []
    for _, own in table.groupby("seed"):
        random, other = (own[own["beginning"] == name] for name in ("random", kind))
        budget = random["step"].max() / parts
        target = float(np.interp(budget, random["step"], random["held_out_loss"]))
        saved.append(100 * (1 - starts.steps_to(other, target) / budget))
    return np.array(saved)


def saving(table: pd.DataFrame, kind: str, parts: int = starts.TARGET) -> Finding:
    """Their mean with Student's interval, cut where no saving can be: all steps needed, or none."""
    return findings.over_seeds(savings_at(table, kind, parts), within=(100 * (1 - parts), 100))


def shown_curves(preset: str, kind: str, parts: int) -> pd.DataFrame:
    """Curves of the random start, of `kind` and of the permuted null, with the target and what is saved.

    Returns
    -------
    DataFrame
        beginning (one of SHOWN), seed, step (some of them), held_out_loss; target (mean over seeds, nats); in
        the first row text and null, the savings of `kind` and of the permuted rows in words.
    """
    table = curves(preset)
    random = table[table["beginning"] == "random"]
    means = random.groupby("step")["held_out_loss"].mean()
    target = float(np.interp(means.index.max() / parts, means.index, means))
    shown = table[table["beginning"].isin(["random", kind, "permuted"])]
    kept = np.unique(np.linspace(0, len(means) - 1, N_POINTS).round().astype(int))
    shown = shown[shown["step"].isin(means.index[kept])].reset_index(drop=True)
    shown = shown.assign(
        beginning=shown["beginning"].map({"random": SHOWN[0], kind: SHOWN[1], "permuted": SHOWN[2]}),
        target=target,
        text=_once(f"{NAMES[kind]} saves {said(saving(table, kind, parts))}", len(shown)),
        null=_once(f"{NAMES['permuted']}: {said(saving(table, 'permuted', parts))}", len(shown)),
    )
    return shown[["beginning", "seed", "step", "held_out_loss", "target", "text", "null"]]


def _once(text: str, n_rows: int) -> list[str]:
    """A text in the first row and nothing in the others: with it in all a page would weigh twice as much."""
    return [text, *[""] * (n_rows - 1)]


def said(found: Finding) -> str:
    """A saving with its interval, such as "12% [8, 16]"."""
    value, low, high = (round(end) for end in (found.value, found.low, found.high))  # no -0
    return f"{value}% [{low}, {high}]" if found.n_seeds > 1 else f"{value}%"


def plot_curves(data: charts.Data) -> alt.LayerChart:
    """A line a seed; the target dashed across, the saving written above."""
    key = alt.Legend(  # below, since words stand above
        title=None, symbolType="stroke", symbolOpacity=1, symbolStrokeWidth=2.5, orient="bottom"
    )
    colour = alt.Scale(domain=list(SHOWN), range=[theme.INK, theme.CATEGORIES[0], theme.CATEGORIES[1]])
    dash = alt.Scale(domain=list(SHOWN), range=[list(theme.DASHES[place]) for place in (1, 0, 2)])
    line = (
        alt.Chart(data)
        .mark_line(strokeWidth=1.8, opacity=0.8)
        .encode(
            x=alt.X("step:Q", axis=theme.axis("step", tick_count=6), scale=alt.Scale(nice=False)),
            y=alt.Y("held_out_loss:Q", axis=theme.axis("held_out_loss"), scale=alt.Scale(zero=False)),
            color=alt.Color("beginning:N", scale=colour, legend=key),
            strokeDash=alt.StrokeDash("beginning:N", scale=dash, legend=key),
            detail="seed:N",
            tooltip=["beginning:N", "seed:N", "step:Q", alt.Tooltip("held_out_loss:Q", format=".3f")],
        )
    )
    level = (
        alt.Chart(data).transform_aggregate(level="mean(target)").mark_rule(opacity=0.5).encode(y="level:Q")
    )
    texts = [
        alt.Chart(data)
        .transform_filter(f"datum.{name} !== ''")
        .mark_text(align="left", fontSize=12)
        .encode(x=alt.value(2), y=alt.value(-24 + 16 * place), text=f"{name}:N")
        for place, name in enumerate(("text", "null"))
    ]
    return alt.LayerChart(layer=[level, line, *texts]).properties(width="container", height=theme.HEIGHT)


@functools.cache
def savings_grid(preset: str) -> pd.DataFrame:
    """Steps saved by every beginning for every target: parts, beginning, seed, saving, mean, low, high."""
    table, rows = curves(preset), []
    for parts in PARTS:
        for kind in kinds(preset)[1:]:
            saved = savings_at(table, kind, parts)
            found = saving(table, kind, parts)
            ends = {"mean": found.value, "low": found.low, "high": found.high}
            rows.append(
                pd.DataFrame(
                    {
                        "parts": parts,
                        "beginning": NAMES[kind],
                        "seed": range(len(saved)),
                        "saving": saved,
                        **ends,
                    }
                )
            )
    return pd.concat(rows, ignore_index=True)


def plot_savings(data: charts.Data) -> alt.LayerChart:
    """A mark a seed and the mean with Student's interval, a row a beginning; the null in another colour."""
    null = f"datum.beginning === '{NAMES['permuted']}'"
    look = alt.condition(null, alt.value(theme.CATEGORIES[1]), alt.value(theme.CATEGORIES[0]))
    base = alt.Chart(data).encode(
        y=alt.Y("beginning:N", sort=None, axis=alt.Axis(title=None, labelLimit=160)), color=look
    )
    x = alt.X("saving:Q", axis=theme.axis("saving", tick_count=6))
    seeds = base.mark_point(size=35, opacity=0.6).encode(x=x, tooltip=["beginning:N", "seed:N", "saving:Q"])
    span = base.mark_rule(strokeWidth=2, clip=True).encode(x="low:Q", x2="high:Q")
    mean = base.mark_tick(thickness=3, size=20).encode(x="mean:Q")
    zero = alt.Chart(alt.Data(values=[{}])).mark_rule(strokeDash=[2, 2]).encode(x=alt.XDatum(0))
    return alt.LayerChart(layer=[zero, span, seeds, mean]).properties(width="container", height=230)


def savings_finding(preset: str) -> str:
    """What the derived beginning and its null save at the study's own target, and which saves most."""
    table = curves(preset)
    found = {kind: saving(table, kind) for kind in kinds(preset)[1:]}
    most = max(found, key=lambda kind: found[kind].value)
    first = f"The derived beginning saves {said(found['derived'])} of the steps, with its rows permuted "
    best = f"most is saved by {NAMES[most]}, {said(found[most])}"
    return f"{first}{said(found['permuted'])}; {best}"


def plot_large() -> alt.TopLevelMixin | sentences.Quotation:
    """Curves of the large vocabulary where they are stored, else a sentence that says they are not."""
    preset = shown_preset(CLAIM)
    if preset == "quick":
        return sentences.Quotation("Curves of the larger vocabulary are not stored yet.")
    run = starts.large(preset)
    table = starts.curves(run, starts.LARGE_BEGINNINGS)
    drawn = table[table["beginning"] != "permuted"]
    # five kinds of line can be told apart; the null's is near the derived one's
    names = [NAMES[kind] for kind in starts.LARGE_BEGINNINGS if kind != "permuted"]
    saved = {kind: saving(table, kind) for kind in starts.LARGE_BEGINNINGS[1:]}
    return theme.captioned(
        view.plot_curves(
            drawn.assign(beginning=drawn["beginning"].map(NAMES)),
            "step",
            "held_out_loss",
            kind="beginning",
            names=names,
        ),
        finding="Steps saved: " + ", ".join(f"{NAMES[kind]} {said(found)}" for kind, found in saved.items()),
        caption=f"V = {run.text.vocab_size:,}, d = {run.shape.embedding_dim}, {run.text.n_tokens:,} tokens "
        f"of English Wikipedia, {run.n_epochs} epochs, {run.n_seeds} seeds; a line a seed, thick their mean.",
    )


# --- a smaller random start -----------------------------------------------------------------------------


@functools.cache
def two_starts() -> pd.DataFrame:
    """The two random starts of the main reading at each snapshot: beginning, seed, step, held_out_loss."""
    preset = shown_preset("kernel.orthogonal")
    parts = [
        models.load(run)
        .measures[["seed", "step", "held_out_loss"]]
        .assign(beginning=f"random, {models.STARTS[run.shape.start]}")
        for run in (models.main(preset), models.other_start(preset))
    ]
    return pd.concat(parts, ignore_index=True)


def levels() -> dict[str, float]:
    """Losses that need no model: every word alike, and each word by its own frequency (nats)."""
    counts, _ = models.met_counts(models.main(shown_preset("kernel.orthogonal")))
    share = counts.pairs.sum(axis=1) / counts.pairs.sum()
    found = {
        "equal probabilities": np.log(len(share)),
        "the words' frequencies": -(share * np.log(share)).sum(),
    }
    return {name: round(float(level), 4) for name, level in found.items()}


def plot_two_starts() -> alt.LayerChart:
    """Held-out losses of both random starts; updates on a scale that is logarithmic beyond the first ones."""
    table = two_starts()
    names = list(dict.fromkeys(table["beginning"]))
    key = alt.Legend(title=None, symbolType="stroke", symbolOpacity=1, symbolStrokeWidth=2.5)
    colour, dash = theme.line_styles("beginning", names)
    first = int(table.loc[table["step"] > 0, "step"].min())
    across = alt.Scale(type="symlog", constant=first, nice=False)
    line = (
        alt.Chart(table.round(4))
        .mark_line(strokeWidth=1.5, opacity=0.8, point=True)
        .encode(
            x=alt.X("step:Q", axis=theme.axis("step", tick_count=6), scale=across),
            y=alt.Y("held_out_loss:Q", axis=theme.axis("held_out_loss"), scale=alt.Scale(zero=False)),
            color=colour.legend(key),
            strokeDash=dash.legend(key),
            detail="seed:N",
            tooltip=["beginning:N", "seed:N", "step:Q", "held_out_loss:Q"],
        )
    )
    rows = [{"level": level} for level in levels().values()]
    rule = alt.Chart(alt.Data(values=rows)).mark_rule(strokeDash=list(theme.DASHES[2]), opacity=0.8)
    return alt.LayerChart(layer=[rule.encode(y="level:Q"), line]).properties(
        width="container", height=theme.HEIGHT
    )


def two_starts_finding() -> str:
    """The losses of both random starts before the first update, and how long one needs to the other's."""
    table = two_starts()
    means = table.groupby(["beginning", "step"], sort=False)["held_out_loss"].mean()
    wide, small = (means[name] for name in dict.fromkeys(table["beginning"]))
    names = [name.removeprefix("random, ") for name in dict.fromkeys(table["beginning"])]
    if wide.iloc[0] < small.iloc[0]:
        wide, small, names = small, wide, names[::-1]
    curve = wide.rename("held_out_loss").reset_index()
    target, last = float(small.iloc[0]), float(curve["step"].iloc[-1])
    needed = starts.steps_to(curve, target)
    reached = bool((curve["held_out_loss"] <= target).any())
    when = (
        f"takes {needed:,.0f} updates to get there" if reached else f"isn't there after {last:,.0f} updates"
    )
    return (
        f"Before the first update the {names[1]} start has a held-out loss of {target:.2f} nats, "
        f"the {names[0]} start one of {wide.iloc[0]:.2f}, and {when}"
    )


# --- words in their places, or anywhere -----------------------------------------------------------------


def first_losses(*, n_orders: int = 5, run: KernelRun | None = None) -> pd.DataFrame:
    """Held-out loss before any training of each beginning, its rows in place and in random orders.

    Parameters
    ----------
    n_orders : int
        Random orders of the rows, of which the mean is taken.
    run : KernelRun, optional
        By default the quick one, whose text comes with the package.

    Returns
    -------
    DataFrame
        Index beginning; in place, permuted (nats, mean over seeds), gained (their difference).
    """
    session, rows = prepare(run or starts.small("quick")), {}
    made = {kind: starts.beginnings(session, kind) for kind in QUICK_KINDS if kind != "permuted"}
    for kind, embeddings in made.items():
        rng = np.random.default_rng(0)
        drawn = [
            embeddings[:, torch.from_numpy(rng.permutation(embeddings.shape[1]))] for _ in range(n_orders)
        ]
        found = []
        for rows_of_words in (embeddings, *drawn):
            session.model.set_embeddings(rows_of_words)
            found.append(float(session.held_out_losses().mean()))
        rows[NAMES[kind]] = {"in place": found[0], "permuted": float(np.mean(found[1:]))}
    table = pd.DataFrame.from_dict(rows, orient="index").rename_axis("beginning")
    return table.assign(gained=table["permuted"] - table["in place"])


# --- what a derived embedding is ------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Waves:
    """A derived embedding in cosines and sines: the same products as the listing's, in a fixed basis."""

    E: np.ndarray  # (V, D)
    frequencies: list[int]  # of each column, in turns around the vocabulary
    values: np.ndarray  # (D,), eigenvalues of W


def waves(spectrum: kernels.Spectrum, dim: int, form: kernels.Form = "eigen") -> Waves:
    """The training-free embedding of D, by the eigenvectors that every symmetric circulant has.

    ``eigh`` may return any rotation of a cosine and its sine; E E' is the same, but for a pair that the last
    column parts.
    """
    k0 = kernels.k0_eigen(spectrum) if form == "eigen" else kernels.k0_fft(spectrum)
    W = kernels.reconstruct_from_row(spectrum, k0)
    first, V = ((W + W.T) / 2)[0], len(W)
    values = np.fft.rfft(first).real  # (V // 2 + 1,)
    angles = 2 * np.pi * np.arange(V) / V
    columns, frequencies, kept = [], [], []
    for k in np.argsort(-values, kind="stable"):
        single = k == 0 or 2 * k == V
        scale = np.sqrt(max(values[k], 0) * (1 if single else 2) / V)
        for wave in (np.cos,) if single else (np.cos, np.sin):
            columns.append(scale * wave(k * angles))
            frequencies.append(int(k))
            kept.append(values[k])
    return Waves(np.stack(columns[:dim], axis=1), frequencies[:dim], np.array(kept[:dim]))


@functools.cache
def _counts() -> tuple[models.Counts, kernels.Spectrum]:
    run = models.main(shown_preset("kernel.orthogonal"))
    counts, _ = models.met_counts(run)
    return counts, models.spectrum_of(run)


def tokens() -> list[str]:
    """Words by id, blanks made visible."""
    return [visible(token) for token in _counts()[0].tokens]


@functools.cache
def embedding(method: str) -> np.ndarray:
    """One of METHODS on the main text's counts, (V, D)."""
    counts, spectrum = _counts()
    dim = min(models.main(shown_preset("kernel.orthogonal")).shape.embedding_dim, spectrum.vocab_size - 1)
    if method == FACTORS:
        return factorize_pmi(spectrum.matrix, dim, seed=0).word.astype(float)
    if method == "PMI":
        return factorize_pmi(pmi(counts.pairs), dim, seed=0).word.astype(float)
    return waves(spectrum, dim, "fft" if method == DERIVED_FFT else "eigen").E


def two_columns(method: str, pair: int) -> pd.DataFrame:
    """Columns 2 pair - 1 and 2 pair of an embedding: word_id, word, column, value; text, what they are."""
    _, spectrum = _counts()
    E = embedding(method)[:, 2 * pair - 2 : 2 * pair]
    E = E / np.linalg.norm(E, axis=0).clip(min=1e-300)
    text = "no wave: each word has its own"
    if method != FACTORS:
        own = waves(spectrum, 2 * pair, "fft" if method == DERIVED_FFT else "eigen")
        turns = sorted(set(own.frequencies[2 * pair - 2 :]))
        text = " and ".join(f"{k} turn{'s' * (k != 1)}" for k in turns) + " around the vocabulary"
    parts = [
        pd.DataFrame(
            {
                "word_id": range(len(E)),
                "word": tokens(),
                "column": f"{('first', 'second')[place]} column",
                "value": E[:, place],
            }
        )
        for place in range(E.shape[1])
    ]
    return pd.concat(parts, ignore_index=True).assign(text=_once(text, sum(map(len, parts))))


def plot_two_columns(data: charts.Data) -> alt.LayerChart:
    """Two coordinates of every word over its id."""
    across = alt.X("word_id:Q", axis=theme.axis("word_id", tick_count=6), scale=alt.Scale(nice=False))
    up = alt.Y("value:Q", axis=theme.axis("coordinate", tick_count=5))
    key = alt.Legend(title=None)
    base = alt.Chart(data).encode(x=across, y=up)
    line = base.mark_line(strokeWidth=1, color=theme.INK, opacity=0.4).encode(detail="column:N")
    points = base.mark_point(size=36).encode(
        color=alt.Color("column:N", legend=key),
        shape=alt.Shape("column:N", legend=key),
        tooltip=["word:N", "word_id:Q", alt.Tooltip("value:Q", format=".3f")],
    )
    text = (
        alt.Chart(data)
        .transform_filter("datum.text !== ''")
        .mark_text(align="right", dx=-6, fontSize=12)
        .encode(x=alt.value("width"), y=alt.value(10), text="text:N")
    )
    return alt.LayerChart(layer=[line, points, text]).properties(width="container", height=theme.HEIGHT)


def similar(E: np.ndarray) -> np.ndarray:
    """Cosines of all words, (V, V)."""
    unit = E / np.linalg.norm(E, axis=1, keepdims=True)
    found: np.ndarray = unit @ unit.T
    return found


def neighbours(method: str, chosen: int) -> pd.DataFrame:
    """Cosines of a word with all others.

    Returns
    -------
    DataFrame
        word_id, word, similarity, rank (1 is nearest), own (the chosen id); in the first row its name.
    """
    names = tokens()
    found = np.round(similar(embedding(method))[chosen], 6)  # cosines that are alike but for rounding tie
    others = np.delete(np.arange(len(found)), chosen)
    ranks = pd.Series(-found[others]).rank(method="first").astype(int)
    return pd.DataFrame(
        {
            "word_id": others,
            "word": [names[index] for index in others],
            "similarity": found[others],
            "rank": ranks.to_numpy(),
            "own": chosen,
            "name": _once(names[chosen], len(others)),
        }
    )


def plot_neighbours(data: charts.Data) -> alt.LayerChart:
    """Cosines over word ids, the chosen word's id dashed, its nearest words written at their places."""
    across = alt.X("word_id:Q", axis=theme.axis("word_id", tick_count=6), scale=alt.Scale(nice=False))
    up = alt.Y(
        "similarity:Q", axis=theme.axis("similarity", tick_count=5), scale=alt.Scale(domain=[-1, 1.15])
    )
    base = alt.Chart(data).encode(x=across, y=up)
    line = base.mark_line(strokeWidth=1, opacity=0.6)
    points = base.mark_point(size=28).encode(
        tooltip=["word:N", "word_id:Q", alt.Tooltip("similarity:Q", format=".3f"), "rank:Q"]
    )
    near = base.transform_filter(f"datum.rank <= {N_NEIGHBOURS}")
    marks = near.mark_point(size=70, shape="square", color=theme.CATEGORIES[1])
    words = near.mark_text(dy=-12, fontSize=12).encode(text="word:N")
    own = alt.Chart(data).transform_filter("datum.name !== ''")
    rule = own.mark_rule(strokeDash=list(theme.DASHES[1])).encode(x="own:Q")
    name = own.mark_text(dx=5, align="left", baseline="bottom", fontWeight="bold").encode(
        x="own:Q", y=alt.value(theme.HEIGHT - 4), text="name:N"
    )
    return alt.LayerChart(layer=[line, rule, points, marks, words, name]).properties(
        width="container", height=theme.HEIGHT
    )


def neighbour_table(words: int = 6) -> pd.DataFrame:
    """Nearest words of the most frequent ones by each method, with the distances of ids of the derived."""
    names, V = tokens(), len(tokens())
    rows = []
    for word in range(min(words, V)):
        near = {
            method: neighbours(method, word).sort_values("rank")["word_id"].head(4).tolist()
            for method in METHODS
        }
        away = sorted({min((index - word) % V, (word - index) % V) for index in near[DERIVED]})
        rows.append(
            {"word": names[word], "id": word}
            | {method: " ".join(names[index] for index in ids) for method, ids in near.items()}
            | {"derived: ids away": ", ".join(map(str, away))}
        )
    return pd.DataFrame(rows).set_index("word")
