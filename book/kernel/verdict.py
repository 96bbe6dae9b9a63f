"""What the last chapter on the kernel paper shows: larger vocabularies, and what would change our mind."""

from __future__ import annotations

import functools

import altair as alt
import numpy as np
import pandas as pd

from book.kernel.experiments import models, scale
from book.kernel.experiments.fits import better_form, cosines, with_counts
from book.kernel.experiments.texts import TextReading, load
from book.kernel.orthogonal import main, shown_preset
from embviz import kernels, ledger
from embviz.ledger.cells import read, table_of
from embviz.view import charts, theme, verdicts
from embviz.view.sentences import number
from embviz.view.text_titles import in_short
from embviz.view.verdicts import Change, between_nulls, over
from embviz.words.cooccurrence import count_pairs

PAPER = "kernel"
FIT, NO_FORMULA, SUM, SCORE = SERIES = ("the formula", "the identity", "aI + bD", "circulant score")
SIZES = (25, 50, 100, 200, 300)  # of the explorer, words of the bundled text
LENGTHS = (5_000, 10_000, 20_000)  # its tokens


# --- the ledger -----------------------------------------------------------------------------------------


entries = functools.partial(verdicts.entries, PAPER)
claims_table = functools.partial(verdicts.claims_table, PAPER)
tally = functools.partial(verdicts.tally, PAPER)
plot_figures = functools.partial(verdicts.plot_figures, PAPER)


def table_4() -> pd.DataFrame:
    """The paper's circulant scores, their roots, its cosines with the formula, and differences, by seed.

    The root is what W = I + noise gives, see :func:`embviz.kernels.expected_score`.
    """
    scores, found = (np.array(ledger.published("kernel.seeds", name)) for name in ("score", "cosine"))
    table = pd.DataFrame(
        {"circulant score": scores, "its root": np.sqrt(scores), "cosine of the formula": found}
    )
    table["difference"] = found - table["its root"]
    table.index.name = "seed"
    return table.round(3)


# --- what would change our mind -------------------------------------------------------------------------


CHANGES = (
    Change("circulant", "score", "circulant score, trained less untrained", 0.05, of=over("untrained")),
    Change(
        "circulant",
        "score",
        "circulant score with the words in random order, trained less untrained",
        0.05,
        of=between_nulls("permuted", "untrained permuted"),
    ),
    Change(
        "data_determined",
        "cosine",
        "agreement of k0 between seeds, trained less untrained",
        0.02,
        of=over("untrained"),
    ),
    Change("table4", "cosine", "fit of the formula less that of the identity", 0.02, of=over("identity")),
    Change(
        "table4",
        "over_dropped",
        "words, others dropped: the same, trained less untrained",
        0.02,
        of=over("untrained"),
    ),
    Change(
        "table4",
        "over_one_symbol",
        "words, others one symbol: the same, trained less untrained",
        0.02,
        of=over("untrained"),
    ),
    Change("listings", "cosine", "cosine of the two listings", 0.99),
    Change("orthogonal", "change", "mean |cosine|, after over before", most=0.9),
    Change("diagnostic", "advantage", "advantage of the diagnostic over the best plain one", 0.0),
    Change(
        "initialization",
        "saving",
        "steps saved (%), words in place less permuted",
        5.0,
        of=over("permuted"),
    ),
    Change(
        "open_scale",
        "cosine_5000",
        "fit at V = 5,000, the formula less the identity",
        0.02,
        of=over("identity"),
    ),
    Change(
        "table4",
        "cosine_dropped",
        "words, others dropped: fit of the formula less that of aI + bD",
        0.02,
        of=over("counts"),
    ),
    Change(
        "open_scale",
        "cosine_5000",
        "fit at V = 5,000, the formula less aI + bD",
        0.02,
        of=over("counts"),
    ),
)


changes_table = functools.partial(verdicts.changes_table, CHANGES, PAPER)
changes_finding = functools.partial(verdicts.changes_finding, CHANGES, PAPER)


# --- larger vocabularies --------------------------------------------------------------------------------


@functools.cache
def sizes() -> pd.DataFrame:
    """SERIES by vocabulary, before and after training.

    Returns
    -------
    DataFrame
        vocab_size, when ("before training", "after training"), series (one of SERIES), seed, value, words
        (whether the text's symbols are words).
    """
    preset = shown_preset("kernel.open_scale")
    rows: list[dict[str, object]] = []
    trained = main(shown_preset())
    for when, embeddings in (("before training", trained.first), ("after training", trained.last)):
        k0 = trained.k0_of(embeddings)
        values: tuple[np.ndarray, ...] = (
            better_form(trained.spectrum, k0),
            cosines(trained.identity, k0),
            with_counts(trained.spectrum, k0),
            trained.scores(embeddings),
        )
        rows += _rows(trained.spectrum.vocab_size, when, values, models.main(shown_preset()))
    table = scale.table(preset)
    table = table[table["order"] == 0]
    runs = scale.runs(preset)
    for name, run in runs.items():
        for when in ("before training", "after training"):
            own = table[(table["name"] == name) & ((table["step"] == 0) == (when == "before training"))]
            found = own.assign(better=own[["eigen", "fft"]].max(axis=1))
            columns = ("better", "identity", "with_counts", "score")
            values = tuple(found[name].to_numpy() for name in columns)
            rows += _rows(run.text.vocab_size, when, values, run)
    return pd.DataFrame(rows)


def _rows(
    vocab_size: int, when: str, values: tuple[np.ndarray, ...], run: models.KernelRun
) -> list[dict[str, object]]:
    shared = {"vocab_size": vocab_size, "when": when, "words": not _of_characters(run)}
    return [
        shared | {"series": series, "seed": seed, "value": float(value)}
        for series, own in zip(SERIES, values, strict=True)
        for seed, value in enumerate(own)
    ]


def plot_sizes() -> alt.LayerChart:
    """SERIES over the vocabulary, a mark a seed, lines through means; open before training.

    Texts of characters stand alone: lines join texts of words, which differ in their number.
    """
    table = sizes().round(4)
    colour, shape = theme.point_styles("series", list(SERIES))
    key = alt.Legend(title=None)
    places = sorted(table["vocab_size"].unique().tolist())
    x = alt.X(
        "vocab_size:Q",
        axis=alt.Axis(title=theme.title("vocab_size"), values=places, format=",d"),
        scale=alt.Scale(type="log", nice=False, padding=20),
    )
    y = alt.Y("value:Q", axis=theme.axis("cosine_or_score"))
    base = alt.Chart(table).encode(color=colour.legend(key))
    looks = alt.Scale(domain=["after training", "before training"], range=[[1, 0], [4, 3]])
    when = alt.StrokeDash("when:N", scale=looks, legend=None)
    words = base.transform_filter("datum.words")
    line = words.mark_line(strokeWidth=1.5).encode(x=x, y=alt.Y("mean(value):Q"), strokeDash=when)
    tooltip = ["vocab_size:Q", "series:N", "when:N", "seed:N", "value:Q"]
    place = {"shape": shape.legend(key), "tooltip": tooltip}
    after = base.transform_filter("datum.when === 'after training'").mark_point(size=60)
    before = base.transform_filter("datum.when !== 'after training'").mark_point(size=50, filled=False)
    return alt.LayerChart(
        layer=[line, before.encode(x=x, y=y, **place), after.encode(x=x, y=y, **place)]
    ).properties(width="container", height=theme.HEIGHT)


def sizes_finding() -> str:
    """The formula, the identity and its sum with the counts at each vocabulary, after training."""
    after = sizes()[sizes()["when"] == "after training"]
    means = after.pivot_table(index="vocab_size", columns="series", values="value", aggfunc="mean")
    shown = (FIT, NO_FORMULA, SUM)
    said = [f"V = {V:,}: {', '.join(f'{own[name]:.2f}' for name in shown)}" for V, own in means.iterrows()]
    return f"Cosines of the formula, the identity and aI + bD with trained kernels: {'; '.join(said)}"


def sizes_note() -> str:
    """Data, sizes and seeds, for a caption."""
    first = models.main(shown_preset())
    runs = [(main(shown_preset()).spectrum.vocab_size, first)]
    runs += [(own.text.vocab_size, own) for own in scale.runs(shown_preset("kernel.open_scale")).values()]
    said = [
        f"V = {V:,}: {run.text.n_tokens:,} {'characters' if _of_characters(run) else 'words'} of "
        f"{in_short(run.text.corpus)}, "
        f"{run.n_epochs} epochs, {run.n_seeds} seeds"
        for V, run in runs
    ]
    return f"{'; '.join(said)}; d = {first.shape.embedding_dim}; each mark a seed"


def _of_characters(run: models.KernelRun) -> bool:
    return run.text.symbols == "characters"


def costs() -> pd.DataFrame:
    """What the formula takes and what D is like, by vocabulary.

    Returns
    -------
    DataFrame
        Index "words"; tokens, seconds (from the tokens to both listings), memory (GB, the process's peak),
        condition (largest / smallest |fft2(D)|), zeros (frequencies left out), negative (share of the
        eigenvalues), clamped (their share of k0, eigen form), listings (cosine of the two).
    """
    rows = []
    preset = shown_preset("kernel.open_scale")
    for text, cell in zip(scale.formula_texts(preset), scale.formula_cells(preset), strict=True):
        known = read(cell)[1] if cell.stored() else {}
        own = table_of(cell).iloc[0]
        rows.append(
            {
                "words": f"{text.vocab_size:,}",
                "tokens": f"{text.n_tokens:,}",
                "seconds": f"{known['wall_seconds']:.1f}" if known else "–",
                "memory (GB)": f"{known['peak_memory_bytes'] / 1e9:.1f}" if known else "–",
                "condition": f"{own['condition']:.1e}",
                "zeros": f"{own['n_zeros']:.0f}",
                "negative eigenvalues": f"{own['n_negative'] / own['vocab_size']:.0%}",
                "clamped share of k0": f"{own['clamped']:.3f}",
                "cosine of the listings": f"{own['listings']:.3f}",
            }
        )
    return pd.DataFrame(rows).set_index("words")


# --- the formula alone, live ----------------------------------------------------------------------------

PARTS = {
    "fft_identity": "FFT form, identity",
    "eigen_identity": "eigen form, identity",
    "listings": "eigen form, FFT form",
    "expected": "random E, expected",
    "random": "random E, measured",
    "clamped": "clamped share",
}


def formula_alone(n_words: int, n_tokens: int, dim: int) -> pd.DataFrame:
    """What the formula does on the bundled text, with no model: name, value; condition, negative (in words).

    Parameters
    ----------
    n_words : int
        V.
    n_tokens : int
        Of the text, after the vocabulary's cut.
    dim : int
        d of the random embeddings.
    """
    spectrum = _spectrum(n_words, n_tokens)
    found = scale.formula_measures(spectrum)
    rng = np.random.default_rng(0)
    made = rng.standard_normal((4, spectrum.vocab_size, dim))
    extraction = kernels.extract_kernel(models.gram(made), spectrum, zeros="drop")
    found |= {
        "expected": float(kernels.expected_score(spectrum, dim**-0.5)),
        "random": float(kernels.circulant_scores(extraction.kernel).mean()),
    }
    return pd.DataFrame(
        {
            "name": list(PARTS.values()),
            "value": [found[name] for name in PARTS],
            "condition": f"largest / smallest |fft2(D)|: {number(round(found['condition']))}",
            "negative": f"{spectrum.n_negative} of {spectrum.vocab_size} eigenvalues below 0",
        }
    )


@functools.lru_cache(maxsize=32)
def _spectrum(n_words: int, n_tokens: int) -> kernels.Spectrum:
    text = load(TextReading("embedded", vocab_size=n_words, n_tokens=n_tokens))
    counts = count_pairs(text.ids, len(text.vocabulary), window=scale.WINDOW).toarray()
    met = counts.sum(axis=1) > 0
    return kernels.decompose(kernels.log_counts(counts[np.ix_(met, met)]))


def plot_formula(data: charts.Data) -> alt.LayerChart:
    """Bars from 0, the values at their ends, what they come from above."""
    scale_of = alt.Scale(domain=[-1, 1.5], nice=False)
    base = alt.Chart(data).encode(
        y=alt.Y("name:N", sort=None, axis=alt.Axis(title=None, labelLimit=190)),
        x=alt.X(
            "value:Q",
            axis=alt.Axis(title=theme.title("cosine_or_score"), values=[-1, -0.5, 0, 0.5, 1]),
            scale=scale_of,
        ),
    )
    bars = base.mark_bar(size=16)
    texts = base.mark_text(align="left", dx=4).encode(
        x=alt.X("place:Q"), text=alt.Text("value:Q", format=".2f")
    )
    texts = texts.transform_calculate(place="max(datum.value, 0)")
    notes = [
        alt.Chart(data)
        .transform_aggregate(n="count()", groupby=[name])
        .mark_text(align="right", fontSize=12)
        .encode(x=alt.value("width"), y=alt.value(-24 + 16 * place), text=f"{name}:N")
        for place, name in enumerate(("condition", "negative"))
    ]
    return alt.LayerChart(layer=[bars, texts, *notes]).properties(width="container", height=190)
