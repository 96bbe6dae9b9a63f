"""What the chapter on fourteen formulas measures and draws: Tables 1 to 4 of the kernel paper, section 6.

The largest stored models are shown; where none are stored, the quick ones are trained on the spot.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterator, Mapping, Sequence

import altair as alt
import numpy as np
import pandas as pd

from book.kernel.experiments import fits, models
from book.kernel.experiments.extracted import off_diagonal, random_embeddings
from book.kernel.experiments.models import KernelRun, Trained
from embviz import kernels
from embviz.ledger import published
from embviz.ledger.studies import find_study
from embviz.view import charts, theme
from embviz.view.text_titles import in_short
from embviz.words.cooccurrence import pmi

NAMES = {
    "H1": "H1 whitening",
    "H2": "H2 row energy",
    "H3": "H3 log frequency",
    "H4": "H4 power, no transform",
    "H5": "H5 PMI kernel",
    "H6": "H6 spectral gap",
    "H7": "H7 low pass",
    "H8": "H8 mean row",
    "H9": "H9 residual",
    "H10": "H10 autocorrelation",
    "H11": "H11 low-rank PMI",
    "H12": "H12 power law",
    "H_cI": "H_cI identity",
    "H_logD": "H_logD log matrix",
}
PAPER, AFTER, BEFORE, OTHER = "paper", "trained", "untrained", "other readings"
SHUFFLED = "trained on shuffled text"
TABLE_1_KINDS = (AFTER, BEFORE, PAPER, OTHER)
ALPHAS = np.unique(np.r_[np.geomspace(0.001, 1.0, 25), kernels.TABLE_2])
RANDOM = "random vectors, no model"
TRANSFORMER, VECTORS = "transformer", "word vectors"
N_RANDOM, N_DRAWN = 40, 500  # Gram matrices a setting; pairs of words in a scatter


def paper_powers() -> dict[float, float]:
    """Table 2's cosines by the power alpha."""
    figures = published("kernel.table2")
    return {alpha: figures[f"power_{alpha:g}_text"] for alpha in kernels.TABLE_2}


# --- models -------------------------------------------------------------------------------------------


def preset_of(claim: str) -> str:
    """The largest preset at which all that a claim needs is stored; "quick", made on the spot, if none is."""
    return find_study(f"kernel.{claim}").largest_stored() or "quick"


@functools.cache
def trained(preset: str) -> Trained:
    """The main reading's models, read or trained once."""
    return models.trained(preset)


def text_note(run: KernelRun, vocab_size: int | None = None) -> str:
    """A run's text, for a caption."""
    text = run.text
    what = "characters" if text.symbols == "characters" else "words"
    origin = in_short(text.corpus, "the package's own docstrings")
    return f"{text.n_tokens:,} tokens of {origin} in {vocab_size or text.vocab_size} {what}"


def data_note(preset: str) -> str:
    """Text, size and seeds of the main models, for a caption."""
    run = models.main(preset)
    text = text_note(run, trained(preset).spectrum.vocab_size)
    return f"{text}; d = {run.shape.embedding_dim}, {run.n_epochs} epochs, {run.n_seeds} seeds"


def spread(values: np.ndarray) -> str:
    """A mean and the ends of what it was taken over, such as ``0.95 (0.94 to 0.97)``."""
    low, high = float(values.min()), float(values.max())
    span = "" if len(values) == 1 else f" ({low:.3f} to {high:.3f})"
    return f"{float(values.mean()):.3f}{span}"


def unit(row: np.ndarray) -> np.ndarray:
    """A row (V,) of length 1; zeros stay zeros."""
    length = float(np.linalg.norm(row))
    return row / length if length else row


# --- Table 1 ------------------------------------------------------------------------------------------


@functools.cache
def candidates(preset: str) -> dict[str, kernels.Candidate]:
    """Every reading of every formula on the main text, by label."""
    found = trained(preset)
    return kernels.candidates(found.counts.pairs, found.spectrum, embedding_dim=found.embedding_dim)


@functools.cache
def table_1(preset: str) -> pd.DataFrame:
    """Cosines of all readings with the extracted rows of models after and before training.

    Returns
    -------
    DataFrame
        `id` (the paper's), `formula` (its name here), `label` (with the reading), `seed`, `after`, `before`,
        and `nearest`: whether the reading's mean after training is the formula's nearest to the paper's.
    """
    found = trained(preset)
    start, end = found.k0_of(found.first), found.k0
    rows = [
        {
            "id": candidate.id,
            "formula": NAMES[candidate.id],
            "label": label,
            "seed": seed,
            "after": float(fits.cosines(candidate.values, end[seed])),
            "before": float(fits.cosines(candidate.values, start[seed])),
        }
        for label, candidate in candidates(preset).items()
        for seed in range(len(end))
    ]
    table = pd.DataFrame(rows)
    own = {str(label): group["after"].to_numpy() for label, group in table.groupby("label", sort=False)}
    nearest = set(fits.nearest_readings(own).values())
    return table.assign(nearest=table["label"].isin(nearest))


def readings_table(preset: str) -> pd.DataFrame:
    """Every formula's readings: how many, how far apart, the nearest one after and before training."""
    rows = {}
    for name, group in table_1(preset).groupby("id", sort=False):
        means = group.groupby("label", sort=False)[["after", "before"]].mean()
        published = fits.PAPER_TABLE_1.get(str(name))
        row = {
            "readings": len(means),
            "least": f"{means['after'].min():.3f}",
            "largest": f"{means['after'].max():.3f}",
            "paper": "" if published is None else f"{published:.3f}",
        }
        near = group[group["nearest"]]
        if len(near):
            row["nearest reading"] = str(near["label"].iloc[0]).split(" (", 1)[1].removesuffix(")")
            row["after training"] = spread(near["after"].to_numpy())
            row["before training"] = spread(near["before"].to_numpy())
        rows[NAMES[str(name)]] = row
    return pd.DataFrame.from_dict(rows, orient="index").fillna("").rename_axis("formula")


def chance(vocab_size: int) -> float:
    """2 / sqrt(V), which the |cosine| of two unrelated rows of V entries exceeds one time in twenty."""
    return 2 / math.sqrt(vocab_size)


def table_1_finding(preset: str) -> str:
    """How many formulas come near the paper's figure, and what the identity alone gives, as measured."""
    table = table_1(preset)
    means = table[table["nearest"]].groupby("id", sort=False)["after"].mean()
    near = sum(abs(means[name] - paper) <= 0.05 for name, paper in fits.PAPER_TABLE_1.items())
    found = trained(preset)
    identity = fits.cosines(found.identity, found.k0).mean()
    return (
        f"{near} of {len(means)} formulas have a reading within 0.05 of the paper's cosine; the power law "
        f"has {means['H12']:.3f}, the identity matrix without any power {identity:.3f}"
    )


def chance_finding() -> str:
    """How many of the paper's cosines two unrelated rows would reach."""
    bound = chance(100)
    small = sum(abs(value) < bound for value in fits.PAPER_TABLE_1.values())
    return (
        f"With V = 100, {small} of the {len(fits.PAPER_TABLE_1)} cosines of the paper's Table 1 are smaller "
        f"than {bound:.1f}, which two unrelated rows exceed one time in twenty"
    )


def plot_table_1(preset: str) -> alt.LayerChart:
    """A row a formula: all readings faint, the nearest one by seed and before training, the paper's."""
    table = table_1(preset)
    near = table[table["nearest"]]
    means = table.groupby(["formula", "label"], sort=False)["after"].mean().reset_index()
    before = near.groupby(["formula", "label"], sort=False)["before"].mean().reset_index()
    published = pd.DataFrame(
        [
            {"formula": NAMES[name], "label": "", "k0_cosine": value}
            for name, value in fits.PAPER_TABLE_1.items()
        ]
    )
    drawn = pd.concat(
        [
            means.rename(columns={"after": "k0_cosine"}).assign(kind=OTHER),
            near[["formula", "label", "after"]].rename(columns={"after": "k0_cosine"}).assign(kind=AFTER),
            before.rename(columns={"before": "k0_cosine"}).assign(kind=BEFORE),
            published.assign(kind=PAPER),
        ]
    )
    band = chance(trained(preset).spectrum.vocab_size)
    return plot_strips(
        drawn.round({"k0_cosine": 4}), list(NAMES.values()), TABLE_1_KINDS, faint=OTHER, band=band
    )


def plot_strips(
    table: charts.Data,
    rows: Sequence[str],
    kinds: Sequence[str],
    *,
    field: str = "k0_cosine",
    left: float | None = None,
    faint: str = "",
    band: float = 0.0,
) -> alt.LayerChart:
    """Cosines as marks, a row a `formula`, kinds told apart by colour and shape.

    Parameters
    ----------
    table : DataFrame, or the data of an explorer
        `formula`, `label`, `kind` and `field`.
    rows, kinds : sequence of str
        In the order drawn.
    field : str
        The cosine: a column, and a key of ``theme.LABELS``.
    left : float, optional
        Where the axis begins; by default 0, or below the least cosine of a DataFrame.
    faint : str
        A kind that is drawn small, below the others.
    band : float
        Half the width of a shaded band about 0; none where 0.
    """
    colour, shape = theme.point_styles("kind", list(kinds))
    key = alt.Legend(title=None, symbolOpacity=1, columns=2)
    if left is None:
        assert isinstance(table, pd.DataFrame)  # an explorer's data has no least value to read
        left = min(0.0, math.floor(5 * float(table[field].min())) / 5)
    base = alt.Chart(table).encode(
        x=alt.X(f"{field}:Q", axis=theme.axis(field), scale=alt.Scale(domain=[left, 1], nice=False)),
        y=alt.Y("formula:N", sort=list(rows), axis=alt.Axis(title=None, labelLimit=170)),
        color=colour.legend(key),
        shape=shape.legend(key),
        tooltip=["formula:N", "label:N", "kind:N", alt.Tooltip(f"{field}:Q", format=".3f")],
    )
    layers: list[alt.Chart] = []
    if band:
        ends = alt.Chart(alt.Data(values=[{"low": -band, "high": band}]))
        layers.append(ends.mark_rect(color=theme.FAINT, opacity=0.5).encode(x="low:Q", x2="high:Q"))
    special = (faint, BEFORE)  # the latter drawn open, around what it coincides with
    layers += [
        base.transform_filter(f"datum.kind === '{faint}'").mark_point(size=22, opacity=0.65),
        base.transform_filter(f"indexof({list(special)}, datum.kind) < 0").mark_point(size=60, opacity=0.9),
        base.transform_filter(f"datum.kind === '{BEFORE}'").mark_point(
            size=130, filled=False, strokeWidth=1.6
        ),
    ]
    height = 24 * len(rows) if len(rows) > 5 else 36 * len(rows)
    return alt.LayerChart(layer=layers).properties(width="container", height=height)


# --- rows, formula by formula ---------------------------------------------------------------------------


def model_choices(preset: str) -> list[str]:
    """Models whose rows the explorer shows: up to two seeds, and the first of them before training."""
    return [*(f"seed {seed}" for seed in range(min(2, len(trained(preset).k0)))), "seed 0, before training"]


def fitted_rows(preset: str, label: str, model: str) -> pd.DataFrame:
    """A formula's row beside a model's, both of length 1: `predicted`, `extracted`, a row a word."""
    found = trained(preset)
    seed = int(model.split(",")[0].removeprefix("seed "))
    k0 = found.k0_of(found.first[seed]) if "before" in model else found.k0[seed]
    return pd.DataFrame({"predicted": unit(candidates(preset)[label].values), "extracted": unit(k0)})


def row_measure(preset: str) -> Callable[[str, str], pd.DataFrame]:
    """:func:`fitted_rows` of one preset, for an explorer."""
    return functools.partial(fitted_rows, preset)


def shown(token: str) -> str:
    """A token as a tooltip can show it."""
    return token if token.strip() and token.isprintable() else repr(token)


def draw_rows(tokens: Sequence[str]) -> Callable[[charts.Data], alt.LayerChart]:
    """A drawing function for rows of words by their ids."""
    return functools.partial(plot_rows, tokens=tuple(map(shown, tokens)))


def plot_rows(data: charts.Data, *, tokens: tuple[str, ...]) -> alt.LayerChart:
    """Extracted row as marks, predicted row as line, their cosine written above."""
    names = [{"word_id": place, "token": token} for place, token in enumerate(tokens)]
    base = (
        alt.Chart(data)
        .transform_window(place="row_number()")
        .transform_calculate(word_id="datum.place - 1")
        .transform_lookup("word_id", alt.LookupData(alt.InlineData(values=names), "word_id", ["token"]))
        .encode(x=alt.X("word_id:Q", axis=theme.axis("word_id", tick_count=6), scale=alt.Scale(nice=False)))
    )
    tooltip = ["word_id:Q", "token:N", "extracted:Q", "predicted:Q"]
    marks = base.mark_point(size=38, shape=theme.SHAPES[1]).encode(
        y=alt.Y("extracted:Q", axis=theme.axis("row_entry")),
        color=alt.ColorDatum("extracted from the model", type="nominal"),
        tooltip=tooltip,
    )
    line = base.mark_line(strokeWidth=1.6, clip=True).encode(
        y="predicted:Q", color=alt.ColorDatum("from the formula", type="nominal"), tooltip=tooltip
    )
    return alt.LayerChart(
        layer=[line, marks, written_cosine(data, "predicted", "extracted", "cosine")]
    ).properties(width="container", height=theme.HEIGHT)


def written_cosine(data: charts.Data, first: str, second: str, words: str, *, line: int = 0) -> alt.Chart:
    """The cosine of two columns of length 1 as text at the top right; lines are counted downward."""
    return (
        alt.Chart(data)
        .transform_calculate(product=f"datum.{first} * datum.{second}")
        .transform_aggregate(total="sum(product)")
        .transform_calculate(text=f"'{words} ' + format(datum.total, '.3f')")
        .mark_text(align="right", dx=-6, fontSize=13, fontWeight="bold")
        .encode(x=alt.value("width"), y=alt.value(12 + 17 * line), text="text:N")
    )


# --- Table 2 ------------------------------------------------------------------------------------------


def power_curves(preset: str, form: kernels.Form, negative: kernels.Negative) -> pd.DataFrame:
    """Cosines over powers of D: `alpha`, `seed`, `kind` (after, before training), `k0_cosine`."""
    found = trained(preset)
    scan = kernels.alpha_scan(found.spectrum, ALPHAS, form=form, negative=negative)  # (n, V)
    parts = []
    for kind, k0 in ((AFTER, found.k0), (BEFORE, found.k0_of(found.first))):
        cosines = fits.cosines(scan[:, None], k0[None])  # (n, R)
        for seed, values in enumerate(cosines.T):
            parts.append(pd.DataFrame({"alpha": ALPHAS, "seed": seed, "kind": kind, "k0_cosine": values}))
    return pd.concat(parts, ignore_index=True)


def power_measure(preset: str) -> Callable[[kernels.Form, kernels.Negative], pd.DataFrame]:
    """:func:`power_curves` of one preset, for an explorer."""
    return functools.partial(power_curves, preset)


def draw_powers(preset: str) -> Callable[[charts.Data], alt.LayerChart]:
    """A drawing function with the identity's level of one preset's models."""
    found = trained(preset)
    return functools.partial(plot_powers, identity=float(fits.cosines(found.identity, found.k0).mean()))


def plot_powers(data: charts.Data, *, identity: float) -> alt.LayerChart:
    """Cosine against the power, a line a seed; the paper's Table 2 and the identity's level beside."""
    kinds = [AFTER, BEFORE]
    colour, dash = theme.line_styles("kind", kinds)
    key = alt.Legend(title=None, symbolType="stroke", symbolOpacity=1, symbolStrokeWidth=2.5)
    x = alt.X("alpha:Q", scale=alt.Scale(type="log", nice=False), axis=theme.axis("alpha", tick_count=4))
    y = alt.Y("k0_cosine:Q", axis=theme.axis("k0_cosine"), scale=alt.Scale(domain=[-1, 1]))
    lines = (
        alt.Chart(data)
        .mark_line(strokeWidth=1.8, opacity=0.8)
        .encode(
            x=x, y=y, color=colour.legend(key), strokeDash=dash.legend(key), detail="seed:N",
            tooltip=["kind:N", "seed:N", "alpha:Q", "k0_cosine:Q"],
        )
    )  # fmt: skip
    paper = [{"alpha": alpha, "k0_cosine": value} for alpha, value in paper_powers().items()]
    marks = (
        alt.Chart(alt.Data(values=paper))
        .mark_point(shape=theme.SHAPES[4], size=70, color=theme.INK)
        .encode(x="alpha:Q", y="k0_cosine:Q", tooltip=["alpha:Q", "k0_cosine:Q"])
    )
    rule = (
        alt.Chart(alt.Data(values=[{"level": identity}]))
        .mark_rule(strokeDash=list(theme.DASHES[2]), strokeWidth=1.5)
        .encode(y="level:Q")
    )
    return alt.LayerChart(layer=[rule, lines, marks]).properties(width="container", height=theme.HEIGHT)


def power_finding(preset: str) -> str:
    """Where the FFT form is at the paper's ends of the scan, and where the identity is."""
    found = trained(preset)
    scan = kernels.alpha_scan(found.spectrum, [1.0, kernels.EPS], form="fft")
    at_one, at_eps = fits.cosines(scan[:, None], found.k0[None]).mean(axis=1)
    identity = fits.cosines(found.identity, found.k0).mean()
    return (
        f"From {at_one:.3f} at a power of 1 to {at_eps:.3f} at 0.003; the identity matrix, no power at all, "
        f"has {identity:.3f}"
    )


def power_of_one_finding(preset: str) -> str:
    """A power of 1 with signs kept, which is an impulse, and clamped, which is not; means over seeds."""
    found = trained(preset)
    kinds: tuple[kernels.Negative, ...] = ("signed", "clamp")
    rows = [kernels.alpha_scan(found.spectrum, [1.0], form="fft", negative=kind)[0] for kind in kinds]
    signed, clamped = (float(fits.cosines(row, found.k0).mean()) for row in rows)
    return (
        f"At a power of 1 the cosine with extracted rows is {signed:.2f} with signs kept, where $k_0$ is an "
        f"impulse, and {clamped:.2f} as listed: with {found.spectrum.n_negative} of "
        f"{found.spectrum.vocab_size} eigenvalues clamped, $k_0$ has a cosine of {unit(rows[1])[0]:.2f} with "
        "the impulse"
    )


# --- section 4.2: which identity ------------------------------------------------------------------------

WRITTEN, MATRIX, POWER = "identity as written", "identity matrix", "D^0.003, FFT form"
IDENTITIES = (WRITTEN, MATRIX, POWER)


def identity_rows(preset: str) -> dict[str, np.ndarray]:
    """The rows that section 4.2 compares, the two identities apart."""
    spectrum = trained(preset).spectrum
    return {
        WRITTEN: kernels.impulse_row(spectrum),
        MATRIX: kernels.row_identity(spectrum),
        POWER: kernels.k0_fft(spectrum),
        "D^0.003, eigen form": kernels.k0_eigen(spectrum),
    }


def identity_table(preset: str) -> pd.DataFrame:
    """Standard deviations, and the cosines of all of them with each other and with trained models."""
    rows, found = identity_rows(preset), trained(preset)
    table = {}
    for name, row in rows.items():
        with_others = {f"with {other}": f"{fits.cosines(row, rows[other]):.3f}" for other in IDENTITIES}
        table[name] = {
            "standard deviation": f"{row.std():.2g}",
            **with_others,
            "with trained models": spread(fits.cosines(row, found.k0)),
        }
    return pd.DataFrame.from_dict(table, orient="index").rename_axis("k0 from")


def identity_finding(preset: str) -> str:
    """Both identities against the power law, as measured."""
    rows = identity_rows(preset)
    power = rows[POWER]
    parts = [
        f"{float(fits.cosines(rows[name], power)):.3f} and {power.std() / rows[name].std():.2g} times its "
        f"spread with the {name}"
        for name in (WRITTEN, MATRIX)
    ]
    return f"The power law has a cosine of {parts[0]}, and of {parts[1]}"


def plot_identities(preset: str) -> alt.LayerChart:
    """The three rows over word ids, each of length 1."""
    rows = identity_rows(preset)
    tokens = [shown(token) for token in trained(preset).counts.tokens]
    table = pd.concat(
        [
            pd.DataFrame(
                {"word_id": range(len(tokens)), "token": tokens, "row_entry": unit(rows[name]), "kind": name}
            )
            for name in IDENTITIES
        ]
    ).round({"row_entry": 4})
    colour, dash = theme.line_styles("kind", [MATRIX, WRITTEN, POWER])
    key = alt.Legend(title=None, symbolType="stroke", symbolStrokeWidth=2.5)
    base = alt.Chart(table).encode(
        x=alt.X("word_id:Q", axis=theme.axis("word_id", tick_count=6), scale=alt.Scale(nice=False)),
        y=alt.Y("row_entry:Q", axis=theme.axis("row_entry")),
        color=colour.legend(key),
        strokeDash=dash.legend(key),
        tooltip=["kind:N", "word_id:Q", "token:N", "row_entry:Q"],
    )
    # the identity broad and pale, so that what lies on it stays in sight
    broad = base.transform_filter(f"datum.kind === '{MATRIX}'").mark_line(strokeWidth=6, opacity=0.4)
    thin = base.transform_filter(f"datum.kind !== '{MATRIX}'").mark_line(strokeWidth=1.8)
    return alt.LayerChart(layer=[broad, thin]).properties(width="container", height=theme.HEIGHT)


# --- Table 3: which cosines go together -----------------------------------------------------------------


def least_log_cosine(identity: float, both: float) -> float:
    """The least cosine with k that b can have, if a has `identity` and a + b has `both`.

    All lengths and directions are allowed. b = s - a lies between s and -a, whatever their lengths; where
    s = a + b leans toward k more than a does, the farthest from k on the way is one of the two, and otherwise
    -k itself can lie on it.

    Parameters
    ----------
    identity, both : float
        Cosines of a and of a + b with k, the first in -1..1, the second in 0..1.

    Examples
    --------
    >>> least_log_cosine(0.25, 0.97), least_log_cosine(0.99, 0.97)
    (-0.25, -1.0)
    """
    return min(-identity, both) if identity <= both else -1.0


def term_cosines(preset: str) -> pd.DataFrame:
    """Table 3's pairs of cosines, by seed: `kind`, `seed`, `identity_cosine`, `log_cosine`, `both`."""
    found = trained(preset)
    terms = kernels.taylor_terms(found.spectrum)
    log, both = fits.cosines(terms.log, found.k0), fits.cosines(terms.both, found.k0)
    rows = []
    for kind, row in ((WRITTEN, kernels.impulse_row(found.spectrum)), (MATRIX, terms.identity)):
        own = fits.cosines(row, found.k0)
        rows += [
            {
                "kind": kind,
                "seed": seed,
                "identity_cosine": own[seed],
                "log_cosine": log[seed],
                "both": both[seed],
            }
            for seed in range(len(own))
        ]
    return pd.DataFrame(rows)


def terms_finding(preset: str) -> str:
    """Which pairs of cosines are impossible together, given the sums' own."""
    paper = published("kernel.table3")
    said = {True: "no three vectors can have", False: "three vectors can have"}
    impossible = paper["log_text"] < least_log_cosine(paper["identity_text"], paper["both_text"]) - 1e-9
    table = term_cosines(preset)
    least = [least_log_cosine(*pair) for pair in zip(table["identity_cosine"], table["both"], strict=True)]
    outside = (table["log_cosine"] < np.array(least) - 1e-9).groupby(table["kind"]).agg(["sum", "size"])
    counts = [
        f"{outside['sum'][kind]} of {outside['size'][kind]} with the {kind}" for kind in (WRITTEN, MATRIX)
    ]
    return (
        f"Table 3 has cosines that {said[impossible]}; of our seeds' own, impossible are {counts[0]} and "
        f"{counts[1]}"
    )


def plot_terms(preset: str) -> alt.LayerChart:
    """The log term's cosine against the identity term's; shaded is what no vectors can have, sum 0.967."""
    printed = published("kernel.table3")
    ours = term_cosines(preset)[["kind", "identity_cosine", "log_cosine"]].round(4)
    paper = pd.DataFrame(
        [{"kind": "Table 3", "identity_cosine": printed["identity_text"], "log_cosine": printed["log_text"]}]
    )
    ends = [-1.0, -printed["both_text"], printed["both_text"]]
    region = pd.DataFrame(
        {"x": ends, "low": -1.0, "high": [least_log_cosine(x, printed["both_text"]) for x in ends]}
    )
    whole = alt.Scale(domain=[-1, 1])
    shade = (
        alt.Chart(region).mark_area(color=theme.FAINT, opacity=0.6).encode(x="x:Q", y="low:Q", y2="high:Q")
    )
    colour, shape = theme.point_styles("kind", [MATRIX, WRITTEN, "Table 3"])
    key = alt.Legend(title=None)
    marks = (
        alt.Chart(pd.concat([ours, paper]))
        .mark_point(size=80)
        .encode(
            x=alt.X("identity_cosine:Q", axis=theme.axis("identity_cosine"), scale=whole),
            y=alt.Y("log_cosine:Q", axis=theme.axis("log_cosine"), scale=whole),
            color=colour.legend(key),
            shape=shape.legend(key),
            tooltip=["kind:N", "identity_cosine:Q", "log_cosine:Q"],
        )
    )
    return alt.LayerChart(layer=[shade, marks]).properties(width="container", height=theme.HEIGHT)


# --- Table 4: every seed, and what nearly orthogonal rows give ------------------------------------------


def table_4_strips(preset: str) -> pd.DataFrame:
    """Cosines by kind of row and of model: `formula`, `label`, `kind`, `k0_cosine`."""
    found, other = trained(preset), models.load(models.shuffled(preset))
    rows: list[dict[str, object]] = [
        {"formula": "power law, best epsilon", "label": f"seed {seed}", "kind": PAPER, "k0_cosine": cosine}
        for seed, cosine in enumerate(published("kernel.seeds", "cosine"))
    ]
    groups = (
        (AFTER, found, found.k0),
        (BEFORE, found, found.k0_of(found.first)),
        (SHUFFLED, other, other.k0),
    )
    for kind, model, k0 in groups:
        for name, values in _table_4_rows(model, k0):
            rows += [
                {"formula": name, "label": f"seed {seed}", "kind": kind, "k0_cosine": value}
                for seed, value in enumerate(values)
            ]
    return pd.DataFrame(rows).round({"k0_cosine": 4})


TABLE_4_ROWS = ("power law, best epsilon", "FFT form, 0.003", "eigen form, 0.003", "identity matrix")
TABLE_4_KINDS = (AFTER, BEFORE, SHUFFLED, PAPER)


def _table_4_rows(model: Trained, k0: np.ndarray) -> Iterator[tuple[str, np.ndarray]]:
    yield TABLE_4_ROWS[0], fits.better_form(model.spectrum, k0)
    yield TABLE_4_ROWS[1], fits.cosines(kernels.k0_fft(model.spectrum), k0)
    yield TABLE_4_ROWS[2], fits.cosines(kernels.k0_eigen(model.spectrum), k0)
    yield TABLE_4_ROWS[3], fits.cosines(model.identity, k0)


def table_4_finding(preset: str) -> str:
    """Best power law, identity matrix and untrained models, means over seeds."""
    means = table_4_strips(preset).groupby(["formula", "kind"])["k0_cosine"].mean()
    best, _, _, identity = TABLE_4_ROWS
    return (
        f"Best power law {means[best, AFTER]:.3f}, identity matrix {means[identity, AFTER]:.3f}; before any "
        f"training {means[best, BEFORE]:.3f} and {means[identity, BEFORE]:.3f}"
    )


def order_of(order: str, vocab_size: int) -> np.ndarray:
    """A random order of the vocabulary by its number, "random 3"; any other name leaves it as it is."""
    if not order.startswith("random "):
        return np.arange(vocab_size)
    return np.random.default_rng(int(order.removeprefix("random "))).permutation(vocab_size)


def random_scores(preset: str, embedding_dim: int, order: str) -> pd.DataFrame:
    """Random vectors without a model, on the counts of the main text.

    Returns
    -------
    DataFrame
        `score` (circulant score), `identity_cosine` (of the first row with the identity matrix') of each of
        40 drawings, and `expected`, the score of the closed form.
    """
    spectrum = trained(preset).spectrum
    V = spectrum.vocab_size
    spectrum = spectrum.permuted(order_of(order, V))
    gram = models.gram(random_embeddings(V, embedding_dim, N_RANDOM))
    kernel = kernels.extract_kernel(gram, spectrum, zeros="drop").kernel
    expected = float(kernels.expected_score(spectrum, 1 / math.sqrt(embedding_dim)))
    return pd.DataFrame(
        {
            "score": kernels.circulant_scores(kernel),
            "identity_cosine": fits.cosines(kernels.row_identity(spectrum), kernel[:, 0]),
            "expected": expected,
        }
    )


def random_measure(preset: str) -> Callable[[int, str], pd.DataFrame]:
    """:func:`random_scores` of one preset, for an explorer."""
    return functools.partial(random_scores, preset)


def score_marks(preset: str) -> pd.DataFrame:
    """Score and cosine of trained models and of the paper's: `kind`, `score`, `identity_cosine`."""
    found = trained(preset)
    ours = pd.DataFrame(
        {"score": found.scores(found.last), "identity_cosine": fits.cosines(found.identity, found.k0)}
    )
    paper = pd.DataFrame(published("kernel.seeds"))[["score", "cosine"]]
    paper = paper.rename(columns={"cosine": "identity_cosine"})
    return pd.concat([ours.assign(kind="our trained models"), paper.assign(kind="Table 4")]).round(4)


def draw_scores(preset: str) -> Callable[[charts.Data], alt.LayerChart]:
    """A drawing function with one preset's trained models."""
    return functools.partial(plot_scores, fixed=score_marks(preset))


def plot_scores(data: charts.Data, *, fixed: pd.DataFrame) -> alt.LayerChart:
    """Cosine against circulant score; the curve is a square root, the rule the closed form's score."""
    kinds = [RANDOM, "our trained models", "Table 4"]
    colour, shape = theme.point_styles("kind", kinds)
    key = alt.Legend(title=None, symbolOpacity=1, columns=2)
    x = alt.X("score:Q", axis=theme.axis("circulant_score"), scale=alt.Scale(domain=[0, 1]))
    y = alt.Y("identity_cosine:Q", axis=theme.axis("row_cosine"), scale=alt.Scale(domain=[0, 1]))
    place = np.linspace(0, 1, 101)
    root = (
        alt.Chart(pd.DataFrame({"score": place, "identity_cosine": np.sqrt(place)}).round(4))
        .mark_line(strokeDash=list(theme.DASHES[1]), strokeWidth=1.5, color=theme.INK)
        .encode(x=x, y=y)
    )
    drawn = (
        alt.Chart(data)
        .transform_filter("datum.score >= 0 && datum.identity_cosine >= 0")
        .transform_calculate(kind=f"'{RANDOM}'")
        .mark_point(size=40, opacity=0.6)
        .encode(x=x, y=y, color=colour.legend(key), shape=shape.legend(key))
    )
    marks = (
        alt.Chart(fixed)
        .mark_point(size=75, opacity=0.95)
        .encode(
            x=x, y=y, color=colour.legend(key), shape=shape.legend(key),
            tooltip=["kind:N", "score:Q", "identity_cosine:Q"],
        )
    )  # fmt: skip
    rule = (
        alt.Chart(data)
        .transform_aggregate(expected="mean(expected)")
        .mark_rule(strokeDash=list(theme.DASHES[2]))
        .encode(x="expected:Q")
    )
    return alt.LayerChart(layer=[root, rule, drawn, marks]).properties(width="container", height=theme.HEIGHT)


def paper_roots() -> pd.DataFrame:
    """Table 4's circulant scores, their roots, and its cosines."""
    table = pd.DataFrame(published("kernel.seeds"))[["score", "cosine"]]
    table = table.rename(columns={"score": "circulant score"})
    table.insert(1, "square root of it", np.sqrt(table["circulant score"]).map("{:.3f}".format))
    return table.rename_axis("seed")


def paper_slips() -> pd.DataFrame:
    """Where the paper's figures disagree with each other, with the arithmetic."""
    cosine, ratio = published("kernel.table3", "both_text"), 40
    printed = fits.PRINTED[0]
    powers = dict(sorted(paper_powers().items()))
    falls = [(a, b) for (a, b) in zip(powers, list(powers)[1:], strict=False) if powers[b] > powers[a]]
    low, high = falls[0]
    rows = {
        "8.4": (
            f"a cosine of {cosine} explains {cosine:.1%} of the variance",
            f"its square does: {cosine**2:.1%}",
        ),
        "4.2": (
            f"{ratio} times the variance",
            f"of standard deviations; of variances {ratio**2:,}",
        ),
        "4.4": (
            "98.9% suppressed, beside a weight of " + f"{printed}",
            f"1 - {printed} is {1 - printed:.2%}",
        ),
        "Table 2": ("the fit rises as the power falls", f"{powers[low]} at {low}, {powers[high]} at {high}"),
    }
    return pd.DataFrame.from_dict(rows, orient="index", columns=["the paper", "arithmetic"]).rename_axis(
        "where"
    )


# --- section 6: PMI -------------------------------------------------------------------------------------

PMI_ROWS = {  # and the candidate, where it is one of Table 1's
    "PPMI kernel": "H5 (as written)",
    "PMI kernel": "H5 (PMI of both signs)",
    "PPMI itself": "H5 (not deconvolved)",
    "power law": "H12 (alpha 0.003)",
    "identity matrix": "H_cI (identity matrix)",
}
PAPER_PMI = {"PPMI kernel": "pmi_text", "power law": "power_text"}  # figures of kernel.pmi_fit


@functools.cache
def products(preset: str) -> Mapping[str, np.ndarray]:
    """Gram matrices (R, V, V) of transformers, and products of word and context vectors."""
    found = trained(preset)
    return {TRANSFORMER: models.gram(found.last), VECTORS: fits.vector_products(preset, found)}


def pmi_strips(preset: str) -> pd.DataFrame:
    """Cosines of five rows with those extracted from transformers and from word vectors."""
    found = trained(preset)
    table = []
    for kind, W in products(preset).items():
        k0 = kernels.extract_kernel(W, found.spectrum, zeros="drop").k0
        for name, label in PMI_ROWS.items():
            table += [
                {"formula": name, "label": f"seed {seed}", "kind": kind, "k0_cosine": value}
                for seed, value in enumerate(fits.cosines(candidates(preset)[label].values, k0))
            ]
    table += [
        {"formula": name, "label": "", "kind": PAPER, "k0_cosine": published("kernel.pmi_fit", figure)}
        for name, figure in PAPER_PMI.items()
    ]
    return pd.DataFrame(table).round({"k0_cosine": 4})


def pmi_pairs(preset: str) -> pd.DataFrame:
    """Products against PMI for pairs of words, of the first seed: `model`, `pmi`, `product`, `pair`.

    Products are in units of their standard deviation. Of more than 500 pairs a random 500 are drawn.
    """
    found = trained(preset)
    tokens = [shown(token) for token in found.counts.tokens]
    first, second = np.triu_indices(len(tokens), 1)
    kept = np.sort(np.random.default_rng(0).permutation(len(first))[:N_DRAWN])
    of_pmi = off_diagonal(pmi(found.counts.pairs))[kept]
    parts = []
    for model, W in products(preset).items():
        values = off_diagonal(W[0])
        part = {"pmi": of_pmi, "product": (values / values.std())[kept]}
        names = [f"{tokens[first[place]]} {tokens[second[place]]}" for place in kept]
        parts.append(pd.DataFrame(part).round(3).assign(pair=names, model=model))
    return pd.concat(parts, ignore_index=True)


def plot_pmi_pairs(data: charts.Data) -> alt.Chart:
    """A mark a pair of words: product against PMI."""
    return (
        alt.Chart(data)
        .mark_point(size=28, opacity=0.6)
        .encode(
            x=alt.X("pmi:Q", axis=theme.axis("pmi")),
            y=alt.Y("product:Q", axis=theme.axis("product"), scale=alt.Scale(domain=[-4, 4], clamp=True)),
            tooltip=["pair:N", "pmi:Q", "product:Q"],
        )
        .properties(width="container", height=theme.HEIGHT)
    )


def pmi_finding(preset: str) -> str:
    """Correlations of products with PMI off the diagonal, means over seeds."""
    found = trained(preset)
    of_pmi = pmi(found.counts.pairs)
    every = {**products(preset), BEFORE: models.gram(found.first)}
    means = {name: float(fits.off_diagonal_correlations(W, of_pmi).mean()) for name, W in every.items()}
    return (
        f"Correlation of products with PMI: {means[TRANSFORMER]:.2f} for the transformer's embeddings, "
        f"{means[BEFORE]:.2f} before training, {means[VECTORS]:.2f} for skip-gram vectors"
    )


def pmi_fit_finding(preset: str) -> str:
    """What fits the transformer and what fits the vectors, means over seeds."""
    means = pmi_strips(preset).groupby(["kind", "formula"])["k0_cosine"].mean()
    shown_rows = ("PPMI kernel", "power law", "identity matrix")
    parts = [
        f"{kind}: " + ", ".join(f"{row} {means[kind, row]:.2f}" for row in shown_rows)
        for kind in (TRANSFORMER, VECTORS)
    ]
    return f"Cosines, {'; '.join(parts)}"
