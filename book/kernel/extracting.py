"""What the chapter on extracting kernels draws: scores of models and of controls, seeds, readings, sizes."""

from __future__ import annotations

import functools
import json
import math

import altair as alt
import numpy as np
import pandas as pd

from book.kernel import algebra
from book.kernel.algebra import ORDERS, order_of, trained
from book.kernel.experiments import extracted, fits, models
from book.kernel.experiments.models import STARTS, Trained
from book.kernel.experiments.runs import KernelRun
from book.kernel.experiments.texts import N_COUNTED, Symbols
from embviz import kernels
from embviz.ledger import findings
from embviz.ledger.cells import missing
from embviz.models.minigpt import Start
from embviz.view import charts, theme

CORNER = 24  # words of a picture
SHOWN = ("K", "W")
N_SEEDS = 2  # that a reader can choose
N_DRAWN = extracted.N_RANDOM  # random Gram matrices, and orders, as the claim takes them
N_PAIRED = 60  # orders of the vocabulary under which models are compared before and after training
MARKS = {" ": "␣", "\n": "↵", "\t": "⇥"}  # of characters that leave no mark


def stored_preset() -> str:
    """The largest preset at which the models of `kernel.circulant` are stored; else "quick"."""
    return algebra.stored_preset("kernel.circulant")


@functools.cache
def _loaded(run: KernelRun) -> Trained:
    return models.load(run)


def shuffled(preset: str) -> Trained:
    """Models of the main reading on its tokens in random order."""
    return _loaded(models.shuffled(preset))


def untied(preset: str) -> Trained:
    """Those with an output embedding of their own."""
    return _loaded(models.untied(preset))


# --- one kernel -----------------------------------------------------------------------------------------


def row_cosines(K: np.ndarray, direction: int = 1) -> np.ndarray:
    """Cosines of rows of K (V, V) with the first one rolled to their places; their median is the score."""
    return fits.cosines(kernels.circulant(K[0], direction=1 if direction == 1 else -1), K)


def seen(preset: str, snapshot: int, seed: int, order: str, shown: str) -> pd.DataFrame:
    """A kernel or its W at one moment of training, for :func:`plot_seen`.

    Returns
    -------
    DataFrame
        `shade` alone: the first words' corner as :func:`.kernel_algebra.shades` by rows; the cosines of V
        rows rolled to the right and of V rolled to the left, thousandths; the step; the training loss,
        thousandths of a nat.
    """
    found, ids = trained(preset), order_of(preset, order)
    W = models.gram(found.path[snapshot, seed][ids])
    K = kernels.extract_kernel(W, found.spectrum.permuted(ids), zeros="drop").kernel
    corner = algebra.shades(W if shown == "W" else K)[:CORNER, :CORNER]
    cosines = [np.rint(1000 * row_cosines(K, direction)).astype(int).tolist() for direction in (1, -1)]
    step = found.steps[snapshot]
    own = found.measures[found.measures["step"] == step].sort_values("seed").iloc[seed]
    rest = [step, round(1000 * float(own["train_loss"]))]
    return pd.DataFrame({"shade": [*corner.ravel().tolist(), *cosines[0], *cosines[1], *rest]})


def words_by_order(preset: str) -> dict[str, list[str]]:
    """The words of a picture's corner in each order, blanks made visible."""
    tokens = [MARKS.get(token, token) for token in trained(preset).counts.tokens]
    return {name: [tokens[place] for place in order_of(preset, name)[:CORNER]] for name in ORDERS}


def plot_seen(data: charts.Data, *, preset: str) -> alt.VConcatChart:
    """The corner with its words, and below it the cosine of every row with the first, in both directions."""
    V = trained(preset).spectrum.vocab_size
    n = min(CORNER, V)
    square = _with_words(algebra.plot_square(data, n), words_by_order(preset))
    both = alt.VConcatChart(vconcat=[square, _plot_row_cosines(data, n, V)], spacing=26)
    return both.resolve_scale(color="independent", shape="independent")


def _with_words(square: alt.Chart, words: dict[str, list[str]]) -> alt.Chart:
    names = f"({json.dumps(words)})[order]"
    said = f"{names}[datum.value]"
    across = alt.Axis(
        title=None, orient="top", labelAngle=-90, labelExpr=said, labelFontSize=9, ticks=False, domain=False
    )
    down = alt.Axis(title=None, labelExpr=said, labelFontSize=9, ticks=False, domain=False)
    return square.transform_calculate(pair=f"{names}[datum.row] + ' / ' + {names}[datum.column]").encode(
        x=alt.X("column:O", axis=across),
        y=alt.Y("row:O", axis=down),
        tooltip=[
            alt.Tooltip("pair:N", title="row / column"),
            alt.Tooltip("entry:Q", title="entry / largest", format=".2f"),
        ],
    )


def _plot_row_cosines(data: charts.Data, n: int, V: int) -> alt.LayerChart:
    first = n * n
    names = ["to the right", "to the left"]
    colour, shape = theme.point_styles("rolled", names)
    key = alt.Legend(title=theme.title("rolled"), orient="bottom")  # words stand above
    rows = (
        alt.Chart(data)
        .transform_window(place="row_number()")
        .transform_filter(f"datum.place > {first} && datum.place <= {first + 2 * V}")
        .transform_calculate(
            rolled=f"datum.place <= {first + V} ? '{names[0]}' : '{names[1]}'",
            row_number=f"(datum.place - {first} - 1) % {V}",
            cosine="datum.shade / 1000",
        )
    )
    up = alt.Y(
        "cosine:Q",
        axis=alt.Axis(title=theme.title("rolled_cosine"), values=[-1, -0.5, 0, 0.5, 1]),
        scale=alt.Scale(domain=[-1.05, 1.05], nice=False),
    )
    across = alt.X("row_number:Q", axis=theme.axis("row_number"), scale=alt.Scale(domain=[0, V], nice=False))
    marks = rows.mark_point(size=22, opacity=0.75).encode(
        x=across, y=up, color=colour.legend(key), shape=shape.legend(key)
    )
    medians = rows.transform_aggregate(score="median(cosine)", groupby=["rolled"])
    lines = [  # by plain colours: a legend of lines wouldn't merge with that of marks
        medians.transform_filter(f"datum.rolled === '{name}'")
        .mark_rule(strokeWidth=1.5, color=theme.CATEGORIES[place])
        .encode(y="score:Q")
        for place, name in enumerate(names)
    ]
    texts = medians.transform_calculate(text="format(datum.score, '.3f')").mark_text(
        align="right", baseline="bottom", dx=-2, dy=-2, fontWeight="bold"
    )
    said = _said_of_training(data, first + 2 * V)
    layers = [*lines, marks, texts.encode(y="score:Q", x=alt.value("width"), text="text:N"), said]
    return alt.LayerChart(layer=layers).properties(width=n * max(1, algebra.SIDE // n), height=150)


def _said_of_training(data: charts.Data, before: int) -> alt.Chart:
    """The step and the loss, in words above the rows."""
    return (
        alt.Chart(data)
        .transform_window(place="row_number()")
        .transform_filter(f"datum.place > {before}")
        .transform_calculate(
            step=f"datum.place === {before + 1} ? datum.shade : null",
            loss=f"datum.place === {before + 2} ? datum.shade / 1000 : null",
        )
        .transform_aggregate(step="max(step)", loss="max(loss)")
        .transform_calculate(
            text="'after ' + format(datum.step, ',') + ' updates, training loss '"
            " + format(datum.loss, '.3f') + ' nats'"
        )
        .mark_text(align="left", baseline="bottom")
        .encode(x=alt.value(0), y=alt.value(-18), text="text:N")
    )


# --- scores of models, and of what is none ----------------------------------------------------------------

LEARNED, NOT_LEARNED, RENUMBERED = "trained", "nothing learned", "words renumbered"


def score_table(preset: str) -> pd.DataFrame:
    """Circulant scores of models and controls.

    Returns
    -------
    DataFrame
        control, kind (what a row is: LEARNED, NOT_LEARNED, RENUMBERED), score; a row a seed, a draw or an
        order of the words.
    """
    found = trained(preset)
    _, V, dim = found.last.shape
    other = shuffled(preset)
    made: dict[str, tuple[str, np.ndarray]] = {
        "trained": (LEARNED, found.scores(found.last)),
        "trained, rolled left": (LEARNED, found.scores(found.last, direction=-1)),
        "trained, not tied": (LEARNED, _own_scores(untied(preset))),
        "trained on shuffled text": (LEARNED, _own_scores(other)),
        "before training": (NOT_LEARNED, found.scores(found.first)),
        "random embeddings": (NOT_LEARNED, found.scores(extracted.random_embeddings(V, dim, N_DRAWN))),
        "identity": (NOT_LEARNED, np.atleast_1d(found.scores(np.eye(V)))),
        "trained, random orders": (RENUMBERED, extracted.permuted_scores(found, N_DRAWN).ravel()),
    }
    parts = [pd.DataFrame({"control": n, "kind": g, "score": scores}) for n, (g, scores) in made.items()]
    return pd.concat(parts, ignore_index=True)


def _own_scores(found: Trained) -> np.ndarray:
    return found.scores(found.last)


def score_finding(table: pd.DataFrame) -> str:
    """Mean scores of trained models, of the same before training, and under renumbering."""
    means = table.groupby("control")["score"].mean()
    return (
        f"Mean circulant score {means['trained']:.3f} after training, {means['before training']:.3f} before, "
        f"{means['random embeddings']:.3f} of random embeddings, and "
        f"{means['trained, random orders']:.2f} after training with the words renumbered"
    )


def plot_strips(
    table: pd.DataFrame, value: str, *, title: str, rules: dict[str, float], low: float = 0.0
) -> alt.LayerChart:
    """A row a control, a mark a seed or a draw, a thick tick the mean; named rules across.

    Parameters
    ----------
    table : DataFrame
        Columns control, kind and `value`.
    value : str
        Column drawn.
    title : str
        Key of ``theme.LABELS``.
    rules : dict of str to float
        Levels that everything is held against, named at the top.
    low : float
        Left end of the axis, lowered where a value lies below.
    """
    names, groups = list(dict.fromkeys(table["control"])), list(dict.fromkeys(table["kind"]))
    colour, shape = theme.point_styles("kind", groups)
    key = alt.Legend(title=None, columns=1)
    least = math.floor(10 * min(low, float(table[value].min()))) / 10
    scale = alt.Scale(domain=[least, 1.02], nice=False)
    up = alt.Y("control:N", sort=names, axis=alt.Axis(title=None, labelLimit=200, ticks=False, domain=False))
    across = alt.X(f"{value}:Q", axis=theme.axis(title, tick_count=6), scale=scale)
    base = alt.Chart(table.round(4)).encode(y=up)
    marks = base.mark_point(size=50, opacity=0.6).encode(
        x=across,
        color=colour.legend(key),
        shape=shape.legend(key),
        tooltip=["control:N", alt.Tooltip(f"{value}:Q", format=".3f")],
    )
    means = base.mark_tick(thickness=3, size=18, color=theme.INK).encode(x=f"mean({value}):Q")
    levels = [
        {"level": round(level, 4), "name": name, "above": -7 - 13 * place}
        for place, (name, level) in enumerate(rules.items())
    ]
    of_levels = alt.Chart(alt.Data(values=levels)).encode(x=alt.X("level:Q", scale=scale))
    lines = of_levels.mark_rule(strokeDash=list(theme.DASHES[1]), opacity=0.8)
    labels = of_levels.mark_text(align="right", dx=3, fontSize=11).encode(
        y=alt.Y("above:Q", scale=None, axis=None), text="name:N"
    )
    return alt.LayerChart(layer=[lines, marks, means, labels]).properties(
        width="container", height=27 * len(names)
    )


def paired_orders(preset: str, n: int = N_PAIRED, *, seed: int = 0) -> pd.DataFrame:
    """Scores of the same models before and after training under random orders of the words.

    Returns
    -------
    DataFrame
        kind ("as stored" for the order by frequency, or "random order"), untrained, trained: means over
        seeds.
    """
    found, rng = trained(preset), np.random.default_rng(seed)
    V = found.spectrum.vocab_size
    orders = [np.arange(V), *(rng.permutation(V) for _ in range(n))]
    rows = []
    for ids in orders:
        W = models.gram(found.path[[0, -1]][:, :, ids])  # (2, R, V, V)
        K = kernels.extract_kernel(W, found.spectrum.permuted(ids), zeros="drop").kernel
        rows.append(kernels.circulant_scores(K).mean(axis=1))
    table = pd.DataFrame(rows, columns=["untrained", "trained"])
    table.insert(0, "kind", ["by frequency", *["random order"] * n])
    return table


def paired_finding(table: pd.DataFrame) -> str:
    """By how much training changes the score, over orders, true of the table."""
    own = table[table["kind"] == "random order"]
    change = own["trained"] - own["untrained"]
    middle = round(float(change.median()), 3) + 0.0  # no minus before a zero
    spread = own["untrained"].quantile([0.05, 0.95])
    return (
        f"Over {len(own)} orders of the words training changes the score by {middle:+.3f} in the "
        f"median; untrained, nine orders in ten lie between {spread.iloc[0]:.2f} and {spread.iloc[1]:.2f}"
    )


def _line_of_equals(least: float, scale: alt.Scale) -> alt.Chart:
    """Where what lies along both axes is the same."""
    ends = alt.Chart(alt.Data(values=[{"at": least}, {"at": 1}]))
    return ends.mark_line(strokeDash=list(theme.DASHES[1]), strokeWidth=1.5, color=theme.INK).encode(
        x=alt.X("at:Q", scale=scale), y=alt.Y("at:Q", scale=scale)
    )


def plot_paired(table: pd.DataFrame) -> alt.LayerChart:
    """Score after training against score before, a mark an order, over the line of equals."""
    names = ["random order", "by frequency"]
    colour, shape = theme.point_styles("kind", names)
    key = alt.Legend(title=theme.title("order"))
    least = min(-0.05, float(table[["untrained", "trained"]].min().min()))
    scale = alt.Scale(domain=[least, 1.02], nice=False)
    line = _line_of_equals(least, scale)
    marks = (
        alt.Chart(table.round(4))
        .mark_point(size=60, opacity=0.75)
        .encode(
            x=alt.X("untrained:Q", axis=theme.axis("untrained", tick_count=6), scale=scale),
            y=alt.Y("trained:Q", axis=theme.axis("trained", tick_count=6), scale=scale),
            color=colour.legend(key),
            shape=shape.legend(key),
            tooltip=["kind:N", "untrained:Q", "trained:Q"],
        )
    )
    return alt.LayerChart(layer=[line, marks]).properties(width="container", height=320)


# --- through training ---------------------------------------------------------------------------------------


def training_path(preset: str) -> pd.DataFrame:
    """Score and held-out loss at every kept snapshot, of the main run and, where stored, of the other start.

    Returns
    -------
    DataFrame
        run, seed, step, held_out_loss, score.
    """
    runs = [models.main(preset), models.other_start(preset)]
    parts = []
    for place, run in enumerate(runs):
        if place and preset != "quick" and missing(models.cells_of(run)):
            continue
        found = trained(preset) if place == 0 else _loaded(run)
        scores = found.scores(found.path)  # (S, R)
        seeds = sorted(found.measures["seed"].unique())
        for step, of_seeds in zip(found.steps, scores, strict=True):
            own = found.measures[found.measures["step"] == step].set_index("seed")["held_out_loss"]
            parts.append(
                pd.DataFrame(
                    {
                        "run": f"start {STARTS[run.shape.start]}",
                        "seed": seeds,
                        "step": step,
                        "held_out_loss": own.loc[seeds].to_numpy(float),
                        "score": of_seeds,
                    }
                )
            )
    return pd.concat(parts, ignore_index=True)


def path_finding(table: pd.DataFrame) -> str:
    """How far loss and score move from the first snapshot to the last, by start."""
    said = []
    for start, own in table.groupby("run", sort=False):
        first, last = (own[own["step"] == step] for step in (own["step"].min(), own["step"].max()))
        said.append(
            f"{start}: loss {first['held_out_loss'].mean():.2f} to {last['held_out_loss'].mean():.2f} nats, "
            f"score {first['score'].mean():.3f} to {last['score'].mean():.3f}"
        )
    return "From beginning to end: " + "; ".join(said)


def plot_path(table: pd.DataFrame) -> alt.LayerChart:
    """Score against held-out loss, a line a seed through its snapshots; a ring where training begins."""
    names = list(dict.fromkeys(table["run"]))
    colour, dash = theme.line_styles("run", names)
    key = alt.Legend(title=None, symbolType="stroke", symbolStrokeWidth=2.5)
    low = min(0.8, math.floor(20 * float(table["score"].min())) / 20)
    base = alt.Chart(table.round(4)).encode(
        x=alt.X(
            "held_out_loss:Q",
            axis=theme.axis("held_out_loss", tick_count=6),
            scale=alt.Scale(type="log", reverse=True, nice=False, padding=12),
        ),
        y=alt.Y(
            "score:Q", axis=theme.axis("circulant_score"), scale=alt.Scale(domain=[low, 1.0], nice=False)
        ),
        color=colour.legend(key),
    )
    tooltip = ["run:N", "seed:N", "step:Q", alt.Tooltip("held_out_loss:Q", format=".3f"), "score:Q"]
    lines = base.mark_line(strokeWidth=1.5, opacity=0.8).encode(
        strokeDash=dash.legend(key), detail="seed:N", order="step:Q"
    )
    marks = base.transform_filter("datum.step > 0").mark_point(size=22).encode(tooltip=tooltip)
    rings = base.transform_filter("datum.step === 0").mark_point(filled=False, size=90, strokeWidth=2)
    layers = [lines, marks, rings.encode(tooltip=tooltip)]
    return alt.LayerChart(layer=layers).properties(width="container", height=theme.HEIGHT)


# --- between seeds ------------------------------------------------------------------------------------------

OFF_DIAGONAL = "W off the diagonal"


def agreement_table(preset: str) -> pd.DataFrame:
    """Cosines between the rows of every two seeds.

    Returns
    -------
    DataFrame
        control, kind ("k0" or "W off the diagonal"), cosine; a row a pair of seeds, or of draws.
    """
    found, other = trained(preset), shuffled(preset)
    n_seeds, V, dim = found.last.shape
    random = extracted.random_embeddings(V, dim, max(n_seeds, 5))
    rows = {
        "trained": ("k0", found.k0),
        "before training": ("k0", found.k0_of(found.first)),
        "random embeddings": ("k0", found.k0_of(random)),
        "trained on shuffled text": ("k0", other.k0),
        "W, trained": (OFF_DIAGONAL, extracted.off_diagonal(models.gram(found.last))),
        "W, before training": (OFF_DIAGONAL, extracted.off_diagonal(models.gram(found.first))),
    }
    parts = []
    for control, (group, of_seeds) in rows.items():
        table = extracted.between_seeds(of_seeds)
        pairs = table[np.triu_indices(len(table), 1)]
        parts.append(pd.DataFrame({"control": control, "kind": group, "cosine": pairs}))
    return pd.concat(parts, ignore_index=True)


def agreement_finding(table: pd.DataFrame) -> str:
    """Mean cosines between seeds, after and before training, true of the table."""
    means = table.groupby("control")["cosine"].mean()
    return (
        f"Mean cosine of k0 between seeds {means['trained']:.3f} after training, "
        f"{means['before training']:.3f} before, {means['random embeddings']:.3f} of random embeddings; of W "
        f"off the diagonal {means['W, trained']:+.3f} after training"
    )


def expected_agreement(preset: str) -> float:
    """Cosine of two k0 of independent embeddings, in closed form: it is the expected score once more."""
    found = trained(preset)
    return float(kernels.expected_score(found.spectrum, found.embedding_dim**-0.5))


# --- readings and sizes -------------------------------------------------------------------------------


def reading_table(preset: str) -> pd.DataFrame:
    """What the paper leaves open, the nearest loss first: means over seeds.

    Returns
    -------
    DataFrame
        By reading: seeds, loss (the final one, nats); score, formula (the better form at its best epsilon, as
        Table 4 is judged) and identity, the cosines of both with k0; score and formula of the untrained
        models; root of the score.
    """
    rows = {
        label: _reading_row(_loaded(run))
        for label, run in models.readings(preset).items()
        if preset == "quick" or not missing(models.cells_of(run))
    }
    table = pd.DataFrame.from_dict(rows, orient="index").rename_axis("reading")
    return table.sort_values("loss", key=lambda loss: (loss - models.PAPER_LOSS).abs())


BRIEFLY: dict[Symbols, str] = {"drop": "words", "unk": "words + 1", "characters": "characters"}
SPREADS: dict[Start, str] = {"pytorch": "1", "small": "0.02"}


def readings_shown(preset: str) -> pd.DataFrame:
    """The same with a reading's parts in columns of their own, narrow enough to read: by text."""
    table, runs = reading_table(preset), models.readings(preset)
    parts = pd.DataFrame(
        {
            "text": [BRIEFLY[runs[label].text.symbols] for label in table.index],
            "tokens": [f"{runs[label].text.n_tokens:,}" for label in table.index],
            "start's sd": [SPREADS[runs[label].shape.start] for label in table.index],
            "batch": [runs[label].batch_size for label in table.index],
        },
        index=table.index,
    )
    return parts.join(table).set_index("text")


def _reading_row(found: Trained) -> dict[str, float]:
    score = float(found.scores(found.last).mean())
    first = found.k0_of(found.first)
    row = {
        "loss": float(models.final_losses(found).mean()),
        "score": score,
        "untrained score": float(found.scores(found.first).mean()),
        "formula": float(fits.better_form(found.spectrum, found.k0).mean()),
        "identity": float(fits.cosines(found.identity, found.k0).mean()),
        "untrained formula": float(fits.better_form(found.spectrum, first).mean()),
        "root of the score": math.sqrt(max(0.0, score)),
    }
    return {"seeds": len(found.last)} | {name: round(value, 3) for name, value in row.items()}


def reading_finding(preset: str) -> str:
    """How far scores and fits reach over readings of words and of characters, from each start."""
    table, parts = reading_table(preset), []
    groups: dict[str, list[str]] = {}
    for label, run in models.readings(preset).items():
        if label in table.index:
            what = "characters" if run.text.symbols == "characters" else "words"
            groups.setdefault(f"{what}, start {STARTS[run.shape.start]}", []).append(label)
    for name, labels in groups.items():
        own = table.loc[labels]
        passed = int((own["score"] >= extracted.LEAST_SCORE).sum())
        over = own["formula"] - own["identity"]
        parts.append(
            f"{name}: scores from {own['score'].min():.2f} to {own['score'].max():.2f}, {passed} of "
            f"{len(own)} pass the paper's filter; formula {own['formula'].min():.2f} to "
            f"{own['formula'].max():.2f}, by {over.min():+.2f} to {over.max():+.2f} above the identity, "
            f"before training {own['untrained formula'].min():.2f} to {own['untrained formula'].max():.2f}"
        )
    return ". ".join(part[0].upper() + part[1:] for part in parts) + "."


def vocabulary_note(preset: str) -> str:
    """How many symbols the vocabulary has and how many of them the text has."""
    text, found = models.main(preset).text, trained(preset)
    beginning = (
        f"counted on the first {N_COUNTED:,} characters of the corpus"
        if text.symbols == "characters"
        else "counted on the text itself"
    )
    return (
        f"The vocabulary has the {text.vocab_size} most frequent symbols, {beginning}; V = "
        f"{found.spectrum.vocab_size} of them occur in the {text.n_tokens:,} tokens that are read, and $D$ "
        "and $W$ have rows for these."
    )


def reading_note(preset: str) -> str:
    """Which reading lies nearest to the paper's losses, which one is judged, and how many are measured."""
    table, runs = reading_table(preset), models.readings(preset)
    judged = next(label for label, run in runs.items() if run == models.main(preset))
    return (
        f"{len(table)} of {len(runs)} readings measured. Nearest to the paper's {models.PAPER_LOSS} nats: "
        f"{table.index[0]}, {table['loss'].iloc[0]:.3f}. The claims judge: {judged}."
    )


def size_table(preset: str) -> pd.DataFrame:
    """Scores of every stored run of the paper's sizes and readings, beside the closed form.

    Returns
    -------
    DataFrame
        setting, kind ("trained" or "before training"), expected, score, cosine (of k0 with the identity's):
        means over seeds.
    """
    runs = [*models.readings(preset).values(), *models.grid(preset)]
    rows = []
    for run in dict.fromkeys(runs):
        if preset != "quick" and missing(models.cells_of(run)):
            continue
        found = _loaded(run)
        expected = float(kernels.expected_score(found.spectrum, found.embedding_dim**-0.5))
        for kind, embeddings in (("trained", found.last), ("before training", found.first)):
            extraction = found.extracted(embeddings)
            score = float(kernels.circulant_scores(extraction.kernel).mean())
            cosine = float(fits.cosines(found.identity, extraction.k0).mean())
            rows.append((_setting(run, found.spectrum.vocab_size), kind, expected, score, cosine))
    return pd.DataFrame(rows, columns=["setting", "kind", "expected", "score", "cosine"])


def _setting(run: KernelRun, vocab_size: int) -> str:
    shape, text = run.shape, run.text
    return (
        f"V = {vocab_size}, d = {shape.embedding_dim}, {shape.n_layers} layers, {shape.n_heads} heads, "
        f"{run.n_epochs} epochs, batches of {run.batch_size}, {text.n_tokens:,} tokens ({text.symbols}), "
        f"start {STARTS[shape.start]}"
    )


def size_finding(table: pd.DataFrame) -> str:
    """How far scores are from the closed form, before and after training, true of the table."""
    off = (table["score"] - table["expected"]).groupby(table["kind"]).agg(lambda gaps: gaps.abs().median())
    own = table[table["kind"] == "trained"]
    passed = int((own["score"] >= extracted.LEAST_SCORE).sum())
    return (
        f"Scores are {off['trained']:.3f} from the closed form after training and "
        f"{off['before training']:.3f} before, in the median; {passed} of {len(own)} settings pass the "
        "paper's filter"
    )


def plot_sizes(table: pd.DataFrame) -> alt.LayerChart:
    """Score against the closed form, a mark a setting, over the line of equals; the paper's filter dotted."""
    names = ["trained", "before training"]
    colour, shape = theme.point_styles("kind", names)
    key = alt.Legend(title=None)
    least = min(0.0, round(float(table["score"].min()) - 0.05, 2))
    scale = alt.Scale(domain=[least, 1.02], nice=False)
    line = _line_of_equals(least, scale)
    level = alt.Chart(alt.Data(values=[{"at": extracted.LEAST_SCORE}]))
    rule = level.mark_rule(strokeDash=list(theme.DASHES[2])).encode(y=alt.Y("at:Q", scale=scale))
    marks = (
        alt.Chart(table.round(4))
        .mark_point(size=60, opacity=0.75)
        .encode(
            x=alt.X("expected:Q", axis=theme.axis("expected_score", tick_count=6), scale=scale),
            y=alt.Y("score:Q", axis=theme.axis("circulant_score", tick_count=6), scale=scale),
            color=colour.legend(key),
            shape=shape.legend(key),
            tooltip=["setting:N", "kind:N", "expected:Q", "score:Q", "cosine:Q"],
        )
    )
    return alt.LayerChart(layer=[line, rule, marks]).properties(width="container", height=320)


def direct_finding(preset: str) -> str:
    """The change of the score by training, seed by seed, with its interval."""
    found = trained(preset)
    change = findings.over_seeds(found.scores(found.last) - found.scores(found.first))
    span = f" ({change.low:+.4f} to {change.high:+.4f})" if len(found.last) > 1 else ""
    return f"Training changes a model's score by {change.value:+.4f}{span} in the order by frequency."
