"""What the chapter on the kernel's algebra draws: any W and its kernel, noise, orders, five eigenvalues."""

from __future__ import annotations

import functools
import json
import math
from collections.abc import Sequence

import altair as alt
import numpy as np
import pandas as pd

from book.kernel.experiments import extracted, fits, models
from book.kernel.experiments.models import Trained
from embviz import kernels
from embviz.kernels import Spectrum
from embviz.ledger import published, studies
from embviz.view import charts, theme
from embviz.view.text_titles import in_short

TRAINED, BEFORE, IDENTITY = "a trained model", "the same, untrained", "the identity"
GRAM, NOISE, DRAWING = "random embeddings", "independent noise", "a drawing"
MATRICES = (TRAINED, BEFORE, IDENTITY, GRAM, NOISE, DRAWING)
SHOWN = ("W", "K", "W from K")

FREQUENCY, ALPHABET = "frequency", "alphabetical"
N_ORDERS = 3  # random ones that a reader can choose
ORDERS = (FREQUENCY, ALPHABET, *(f"random {k}" for k in range(1, N_ORDERS + 1)))
DIMENSIONS = (4, 8, 16, 32, 64, 128, 256)
N_DRAWN = 40  # random embeddings a dimension
N_SHUFFLED = 1_000  # orders in a histogram

PAPER_DIM = 64  # of Table 4

SIDE = 300  # pixels of a square picture, at least


# --- data ---------------------------------------------------------------------------------------------


def stored_preset(claim: str = "kernel.exact") -> str:
    """The largest preset at which a claim's models are stored; else "quick", which is trained on the spot."""
    return studies.find_study(claim).largest_stored() or "quick"


@functools.cache
def trained(preset: str) -> Trained:
    """The main reading's models, loaded once."""
    return models.trained(preset)


def data_note(preset: str) -> str:
    """Text, vocabulary, dimension and seeds, for a caption."""
    found = trained(preset)
    n_seeds, V, dim = found.last.shape
    n_tokens = models.main(preset).text.n_tokens
    seeds = f"{n_seeds} seeds" if n_seeds > 1 else "seed 0"
    origin = in_short(found.corpus, "the package's own docstrings")
    return f"{n_tokens:,} tokens of {origin}, V = {V}, d = {dim}, {seeds}"


def order_of(preset: str, name: str) -> np.ndarray:
    """Ids in one of ORDERS, shape (V,); the stored ids fall by frequency.

    Raises
    ------
    ValueError
        If there is no such order.
    """
    tokens = trained(preset).counts.tokens
    if name == FREQUENCY:
        return np.arange(len(tokens))
    if name == ALPHABET:
        return np.array(sorted(range(len(tokens)), key=tokens.__getitem__))
    if name not in ORDERS:
        raise ValueError(f"no order {name!r}: choose one of {', '.join(ORDERS)}")
    return np.random.default_rng(int(name.split()[-1])).permutation(len(tokens))


def in_order(preset: str, name: str) -> Spectrum:
    """The spectrum of D, its words in one of ORDERS."""
    return trained(preset).spectrum.permuted(order_of(preset, name))


# --- any W at all ---------------------------------------------------------------------------------------


def face(side: int) -> np.ndarray:
    """A drawing in a square of numbers, (side, side): nothing that a model could have learned."""
    y, x = np.mgrid[1 : -1 : side * 1j, -1 : 1 : side * 1j]
    radius = np.hypot(x, y)
    line = 2.2 / side
    head = np.abs(radius - 0.85) < 1.5 * line
    eyes = np.hypot(np.abs(x) - 0.35, y - 0.3) < 0.12
    mouth = (np.abs(radius - 0.5) < 1.2 * line) & (y < -0.15)
    drawn: np.ndarray = np.where(head | eyes | mouth, 1.0, 0.0)
    return drawn


def matrix(preset: str, name: str) -> np.ndarray:
    """One of MATRICES, (V, V): Gram matrices, or what is none."""
    found = trained(preset)
    _, V, dim = found.last.shape
    if name in (TRAINED, BEFORE):
        return models.gram((found.last if name == TRAINED else found.first)[0])
    if name == IDENTITY:
        return np.eye(V)
    if name == GRAM:
        return models.gram(extracted.random_embeddings(V, dim, 1)[0])
    if name == NOISE:
        return extracted.random_symmetric(V, 1)[0]
    if name == DRAWING:
        return face(V)
    raise ValueError(f"no matrix {name!r}: choose one of {', '.join(MATRICES)}")


def shades(entries: np.ndarray) -> np.ndarray:
    """Signed roots of the shares of the largest entry, in whole percent: small entries stay visible."""
    share = entries / (np.abs(entries).max() or 1.0)
    whole: np.ndarray = np.rint(100 * np.sign(share) * np.sqrt(np.abs(share))).astype(int)
    return whole


def pictured(preset: str, which: str, shown: str) -> pd.DataFrame:
    """W, its kernel, or W from its kernel, for :func:`plot_pictured`.

    Returns
    -------
    DataFrame
        `shade` alone, so that a page holds one list: V x V :func:`shades` by rows, then the circulant score
        of K to the right and to the left in thousandths, then the power of ten that bounds the relative
        error of W from K.
    """
    W, spectrum = matrix(preset, which), trained(preset).spectrum
    K = kernels.extract_kernel(W, spectrum, zeros="drop").kernel
    back = kernels.reconstruct(spectrum, K)
    error = np.linalg.norm(back - W) / np.linalg.norm(W)
    bound = extracted.error_power(float(error))
    scores = [_thousandths(K, direction) for direction in (1, -1)]
    entries = {"W": W, "K": K, "W from K": back}[shown]
    return pd.DataFrame({"shade": [*shades(entries).ravel().tolist(), *scores, bound]})


def _thousandths(K: np.ndarray, direction: int) -> int:
    return round(1000 * float(kernels.circulant_scores(K, direction=1 if direction == 1 else -1)))


def plot_square(data: charts.Data, n: int, *, tooltip: Sequence[str] = ()) -> alt.Chart:
    """The first n x n shades of a list as a square of coloured cells.

    Parameters
    ----------
    data : DataFrame, or the data of an explorer
        Column `shade`, whole percent as from :func:`shades`, row by row.
    n : int
        Rows of the square.
    tooltip : sequence of str, optional
        What row and column stand for, by id; by default the ids themselves.
    """
    names = json.dumps(list(tooltip) or [str(place) for place in range(n)])
    legend = alt.Legend(
        title=theme.title("entry_share"),
        values=[-100, -50, 0, 50, 100],
        labelExpr="format((datum.value < 0 ? -1 : 1) * pow(datum.value / 100, 2), '~g')",
        gradientLength=200,
        orient="bottom",  # words stand above
    )
    side = alt.Axis(title=None, labels=False, ticks=False)
    return (
        alt.Chart(data)
        .transform_window(place="row_number()")
        .transform_filter(f"datum.place <= {n * n}")
        .transform_calculate(
            row=f"floor((datum.place - 1) / {n})",
            column=f"(datum.place - 1) % {n}",
            words=f"{names}[datum.row] + ' / ' + {names}[datum.column]",
            entry="(datum.shade < 0 ? -1 : 1) * pow(datum.shade / 100, 2)",
        )
        .mark_rect()
        .encode(
            x=alt.X("column:O", axis=side),
            y=alt.Y("row:O", axis=side),
            color=alt.Color("shade:Q", scale=theme.signed_scale(100), legend=legend),
            tooltip=[
                alt.Tooltip("words:N", title="row / column"),
                alt.Tooltip("entry:Q", title="entry / largest", format=".2f"),
            ],
        )
        .properties(width=n * max(1, SIDE // n), height=n * max(1, SIDE // n))
    )


def plot_pictured(data: charts.Data, *, n: int) -> alt.LayerChart:
    """The square of :func:`pictured`, and above it scores and error in words."""
    side = n * max(1, SIDE // n)
    numbers = (
        alt.Chart(data)
        .transform_window(place="row_number()")
        .transform_filter(f"datum.place > {n * n}")
        .transform_calculate(
            right=f"datum.place === {n * n + 1} ? datum.shade / 1000 : null",
            left=f"datum.place === {n * n + 2} ? datum.shade / 1000 : null",
            bound=f"datum.place === {n * n + 3} ? datum.shade : null",
        )
        .transform_aggregate(right="max(right)", left="max(left)", bound="max(bound)")
    )
    said = (
        "'circulant score of K: ' + format(datum.right, '.3f') + ' right, '"
        " + format(datum.left, '.3f') + ' left'",
        "'W from K: relative error below 1e' + datum.bound",
    )
    lines = [
        numbers.transform_calculate(text=text)
        .mark_text(align="left", baseline="bottom", fontSize=12)
        .encode(x=alt.value(0), y=alt.value(17 * place - 23), text="text:N")
        for place, text in enumerate(said)
    ]
    return alt.LayerChart(layer=[plot_square(data, n), *lines]).properties(width=side, height=side)


# --- circulant in, circulant out ------------------------------------------------------------------------

CIRCULANTS, SHUFFLED_CIRCULANTS = "circulants", "circulants, words shuffled"
NEAR_IDENTITY, OF_MODELS, UNRELATED = "identity + noise", "models", "independent noise"
KINDS = (CIRCULANTS, SHUFFLED_CIRCULANTS, NEAR_IDENTITY, OF_MODELS, UNRELATED)


def share_table(preset: str, n: int = 8, *, seed: int = 0) -> pd.DataFrame:
    """How much of W and of its kernel the nearest circulant keeps.

    Returns
    -------
    DataFrame
        kind (of KINDS), share_w, share_k, in 0..1; a row a matrix.
    """
    found, rng = trained(preset), np.random.default_rng(seed)
    V = found.spectrum.vocab_size
    rows = rng.standard_normal((n, V))
    rows += np.roll(rows[:, ::-1], 1, axis=1)  # r[m] = r[-m]: symmetric
    rolled = np.stack([kernels.circulant(row) for row in rows])
    orders = [rng.permutation(V) for _ in range(n)]
    noise = extracted.random_symmetric(V, n, seed=seed)
    spreads = np.geomspace(0.01, 1, n)[:, None, None] / math.sqrt(2)  # two normal numbers are added
    path = models.gram(found.path.reshape(-1, *found.path.shape[2:]))
    made = {
        CIRCULANTS: rolled,
        SHUFFLED_CIRCULANTS: np.stack([W[np.ix_(o, o)] for W, o in zip(rolled, orders, strict=True)]),
        NEAR_IDENTITY: np.eye(V) + spreads * noise,
        OF_MODELS: path,
        UNRELATED: noise,
    }
    parts = []
    for kind, W in made.items():
        K = kernels.extract_kernel(W, found.spectrum, zeros="drop").kernel
        shares = {"share_w": kernels.circulant_share(W), "share_k": kernels.circulant_share(K)}
        parts.append(pd.DataFrame({"kind": kind, **shares}))
    return pd.concat(parts, ignore_index=True)


def share_finding(table: pd.DataFrame) -> str:
    """Which kernels are circulant, and how nearly others are, true of the table's rows."""
    whole = 1 - 1e-9  # rounding
    of_w, of_k = table["share_w"] > whole, table["share_k"] > whole
    if not (of_w == of_k).all():
        return (
            f"{int((of_w != of_k).sum())} of {len(table)} kernels are circulant where W is not, or reversed"
        )
    rest = table[~of_w]
    best = rest.iloc[int((rest["share_k"] - rest["share_w"]).argmax())]
    return (
        f"{int(of_k.sum())} of {len(table)} kernels are circulant, those whose W is; of the others, a W "
        f"that is so to {best['share_w']:.0%} has a kernel that is so to {best['share_k']:.0%}"
    )


def plot_shares(table: pd.DataFrame) -> alt.Chart:
    """Share of K that the nearest circulant keeps against that of W, a mark a matrix."""
    colour, shape = theme.point_styles("kind", list(KINDS))
    whole = alt.Scale(domain=[0, 1.03], nice=False)
    key = alt.Legend(title=None, columns=2)
    return (
        alt.Chart(table.round(4))
        .mark_point(size=65, opacity=0.75)
        .encode(
            x=alt.X("share_w:Q", axis=theme.axis("share_w", tick_count=6), scale=whole),
            y=alt.Y("share_k:Q", axis=theme.axis("share_k", tick_count=6), scale=whole),
            color=colour.legend(key),
            shape=shape.legend(key),
            tooltip=["kind:N", "share_w:Q", "share_k:Q"],
        )
        .properties(width="container", height=300)
    )


# --- the identity and noise -----------------------------------------------------------------------------


def random_rows(preset: str, order: str, dim: int, n: int = N_DRAWN, *, seed: int = 0) -> pd.DataFrame:
    """Embeddings of N(0, 1) that no text has touched: their score and k0's cosine with the identity's.

    Returns
    -------
    DataFrame
        score, cosine; a row a draw.
    """
    spectrum = in_order(preset, order)
    W = models.gram(extracted.random_embeddings(spectrum.vocab_size, dim, n, seed=seed))
    K = kernels.extract_kernel(W, spectrum, zeros="drop").kernel
    identity = kernels.row_identity(spectrum)
    scores, cosines = kernels.circulant_scores(K), fits.cosines(identity, K[:, 0])
    return pd.DataFrame({"score": scores, "cosine": cosines})


def by_dimension(preset: str, orders: Sequence[str] = ORDERS) -> pd.DataFrame:
    """Mean circulant score of random embeddings by dimension and order, measured and in closed form.

    Returns
    -------
    DataFrame
        order, dimension, score (mean of 40 draws), expected.
    """
    rows = []
    for order in orders:
        expected = kernels.expected_score(in_order(preset, order), np.array(DIMENSIONS) ** -0.5)
        for dim, value in zip(DIMENSIONS, expected, strict=True):
            rows.append((order, dim, random_rows(preset, order, dim)["score"].mean(), float(value)))
    return pd.DataFrame(rows, columns=["order", "dimension", "score", "expected"])


def dimension_finding(table: pd.DataFrame) -> str:
    """How near the closed form comes, and how far orders lie apart, true of the table."""
    off = (table["score"] - table["expected"]).abs().median()
    dim = min(table["dimension"], key=lambda d: abs(d - PAPER_DIM))
    own = table.loc[table["dimension"] == dim, "score"]
    return (
        f"At d = {dim} embeddings that know nothing score {own.min():.2f} to {own.max():.2f}, by the order "
        f"of the words; the closed form is off by {off:.2f} in the median"
    )


def plot_by_dimension(table: pd.DataFrame) -> alt.LayerChart:
    """Score against dimension: curves the closed form, marks random embeddings, the paper's mean a cross."""
    orders = list(dict.fromkeys(table["order"]))
    key = alt.Legend(title=theme.title("order"), columns=3)
    colour, shape = theme.point_styles("order", orders)
    ends = alt.Scale(type="log", domain=[DIMENSIONS[0] * 0.9, DIMENSIONS[-1] * 1.1], nice=False)
    axis = alt.Axis(title=theme.title("dimension"), values=list(DIMENSIONS), format="d")
    base = alt.Chart(table.round(4)).encode(
        x=alt.X("dimension:Q", scale=ends, axis=axis), color=colour.legend(key)
    )
    whole = alt.Scale(domain=[0, 1], nice=False)
    up = alt.Y("score:Q", axis=theme.axis("circulant_score"), scale=whole)
    lines = base.mark_line(strokeWidth=1.5, opacity=0.8).encode(y=alt.Y("expected:Q", scale=whole))
    tooltip = ["order:N", "dimension:Q", "score:Q", "expected:Q"]
    marks = base.mark_point(size=55).encode(y=up, shape=shape.legend(key), tooltip=tooltip)
    paper = [
        {
            "dimension": PAPER_DIM,
            "score": round(float(np.mean(published("kernel.seeds", "score"))), 3),
            "text": "paper",
        }
    ]
    of_paper = alt.Chart(alt.Data(values=paper)).encode(x=alt.X("dimension:Q", scale=ends), y="score:Q")
    cross = of_paper.mark_point(shape="cross", size=130, angle=45, color=theme.INK)
    name = of_paper.mark_text(dx=10, dy=-9, align="left").encode(text="text:N")
    return alt.LayerChart(layer=[lines, marks, cross, name]).properties(
        width="container", height=theme.HEIGHT
    )


@functools.cache
def order_scores(preset: str, dim: int = PAPER_DIM, n: int = N_SHUFFLED) -> np.ndarray:
    """Expected scores of random embeddings under n random orders of the vocabulary, (n,)."""
    spectrum, rng = trained(preset).spectrum, np.random.default_rng(0)
    orders = (rng.permutation(spectrum.vocab_size) for _ in range(n))
    return np.array([float(kernels.expected_score(spectrum.permuted(o), dim**-0.5)) for o in orders])


def named_scores(preset: str, dim: int = PAPER_DIM) -> dict[str, float]:
    """Expected scores under the two orders that one would choose, and the paper's mean score."""
    chosen = {
        name: float(kernels.expected_score(in_order(preset, name), dim**-0.5))
        for name in (FREQUENCY, ALPHABET)
    }
    return {**chosen, "paper": float(np.mean(published("kernel.seeds", "score")))}


def order_finding(preset: str) -> str:
    """Where frequency and the paper's mean lie among random orders."""
    scores, named = order_scores(preset), named_scores(preset)
    low, middle, high = np.quantile(scores, [0.05, 0.5, 0.95])
    above = float((scores >= named["paper"]).mean())
    return (
        f"One text, {len(scores):,} orders of its words: nine expected scores in ten lie between {low:.2f} "
        f"and {high:.2f}, median {middle:.2f}; {above:.0%} reach the paper's mean"
    )


def plot_orders(preset: str) -> alt.LayerChart:
    """Histogram of :func:`order_scores` with the named ones as rules."""
    bins = charts.bin_counts(order_scores(preset), n_bins=40, limits=(0.0, 1.0))
    whole = alt.Scale(domain=[0, 1], nice=False)
    share = alt.Y("share:Q", axis=alt.Axis(title=theme.title("share_of_orders"), format="%"), stack=None)
    share = share.scale(domainMax=round(1.35 * float(bins["share"].max()), 3))  # room for names
    bars = (
        alt.Chart(bins[["left", "right", "share"]].round(4))
        .mark_bar(binSpacing=0, opacity=0.7)
        .encode(
            x=alt.X("left:Q", axis=theme.axis("expected_score"), bin="binned", scale=whole),
            x2="right:Q",
            y=share,
            tooltip=["left:Q", "right:Q", alt.Tooltip("share:Q", format=".1%")],
        )
    )
    named = sorted(named_scores(preset).items(), key=lambda item: item[1])
    marked = [
        {"score": round(value, 4), "name": name, "high": 12 + 16 * place}
        for place, (name, value) in enumerate(named)
    ]
    base = alt.Chart(alt.Data(values=marked)).encode(x=alt.X("score:Q", scale=whole))
    rules = base.mark_rule(strokeWidth=2)
    names = base.mark_text(align="right", dx=-5).encode(
        y=alt.Y("high:Q", scale=None, axis=None), text="name:N"
    )
    return alt.LayerChart(layer=[bars, rules, names]).properties(width="container", height=theme.HEIGHT)


def gain_note(preset: str) -> str:
    """Noise gains of two orders of the text, and the one that the paper's mean score would take."""
    own = {name: kernels.noise_gain(in_order(preset, name)) for name in (FREQUENCY, ALPHABET)}
    mean = float(np.mean(published("kernel.seeds", "score")))
    return (
        f"Noise gain of this text: {own[FREQUENCY]:.1f} with its words in order of frequency, "
        f"{own[ALPHABET]:.1f} in alphabetical order. At d = {PAPER_DIM} a gain of "
        f"{PAPER_DIM * (1 / mean - 1):.1f} gives random embeddings the paper's mean score, {mean:.3f}."
    )


def drawn(preset: str, order: str, dim: int) -> pd.DataFrame:
    """Random embeddings for the explorer: score, cosine and kind; "expected" is the closed form of both."""
    expected = float(kernels.expected_score(in_order(preset, order), dim**-0.5))
    cloud = random_rows(preset, order, dim).assign(kind="random embeddings")
    mean = pd.DataFrame({"score": [expected], "cosine": [math.sqrt(expected)], "kind": ["expected"]})
    return pd.concat([cloud, mean], ignore_index=True)


def plot_drawn(data: charts.Data) -> alt.LayerChart:
    """Cosine with the identity against score: draws, their expectation, the root, and the paper's seeds."""
    names = ["random embeddings", "expected", "paper, Table 4"]
    key = alt.Legend(title=None)
    styles = theme.point_styles("kind", names)
    colour, shape = styles[0].legend(key), styles[1].legend(key)
    whole = alt.Scale(domain=[-0.1, 1.02], nice=False)
    fifths = [0, 0.2, 0.4, 0.6, 0.8, 1]
    across = alt.X("score:Q", axis=alt.Axis(title=theme.title("circulant_score"), values=fifths), scale=whole)
    up = alt.Y("cosine:Q", axis=alt.Axis(title=theme.title("cosine_identity"), values=fifths), scale=whole)
    at = np.linspace(0, 1, 26) ** 2
    curve = pd.DataFrame({"score": at, "cosine": np.sqrt(at)}).round(4)
    root = alt.Chart(curve).mark_line(strokeDash=list(theme.DASHES[1]), strokeWidth=1.5, color=theme.INK)
    paper = pd.DataFrame(published("kernel.seeds"))[["score", "cosine"]].assign(kind=names[-1])
    place = {"x": across, "y": up, "color": colour, "shape": shape}
    tooltip = ["kind:N", alt.Tooltip("score:Q", format=".3f"), alt.Tooltip("cosine:Q", format=".3f")]
    own = alt.Chart(data).transform_filter(f"datum.kind === '{names[0]}'")
    mean = alt.Chart(data).transform_filter(f"datum.kind === '{names[1]}'")
    layers = [
        root.encode(x=across, y=up),
        own.mark_point(size=35, opacity=0.6, clip=True).encode(**place, tooltip=tooltip),
        alt.Chart(paper).mark_point(size=70).encode(**place, tooltip=tooltip),
        mean.mark_point(size=150, filled=False, strokeWidth=2.5).encode(**place, tooltip=tooltip),
    ]
    return alt.LayerChart(layer=layers).properties(width="container", height=320)


def table_4() -> pd.DataFrame:
    """The paper's Table 4 with the root of its own scores, and how far its cosines lie from that."""
    table = pd.DataFrame(published("kernel.seeds"))[["score", "cosine"]]
    table = table.rename(columns={"score": "circulant score"})
    table.insert(1, "root of the score", np.sqrt(table["circulant score"]).round(3))
    table["cosine - root"] = (table["cosine"] - table["root of the score"]).round(3)
    return table.rename_axis("seed of the paper")


def table_4_finding() -> str:
    """How near the paper's cosines are to what identity and noise would give."""
    table = table_4()
    off = table["cosine - root"].abs()
    return (
        f"The paper's five cosines differ from the roots of its five scores by {off.mean():.3f} on average "
        f"and {off.max():.3f} at most; from 1, a perfect fit, by {1 - table['cosine'].mean():.3f} on average."
    )


def formula_note(preset: str) -> str:
    """How near the paper's formula is to the identity's row on the text at hand."""
    spectrum = trained(preset).spectrum
    cosine = float(fits.cosines(kernels.k0_fft(spectrum), kernels.row_identity(spectrum)))
    return (
        f"On our text the formula's k0 (FFT form, epsilon {kernels.EPS:g}) has a cosine of {cosine:.4f} with "
        "the identity's."
    )


# --- five eigenvalues -------------------------------------------------------------------------------------

HALF_UNITS = (0.00005, 0.00005, 0.00005, 0.00005, 0.0005)  # of the last digit that the paper prints
AGREES, DIFFERS = "agrees to its last digit", "differs"


def eigenvalues(eps: float) -> pd.DataFrame:
    """The paper's five printed values against l^(eps - 1).

    Returns
    -------
    DataFrame
        eigenvalue (as text), printed, computed; off, low and high: printed over computed less 1, in percent,
        and the same for half a unit of the last digit to either side; kind, AGREES or DIFFERS.
    """
    values, printed = fits.eigenvalue_table(eps), np.array(fits.PRINTED)
    half = np.array(HALF_UNITS)
    ends = {
        name: 100 * ((printed + sign * half) / values - 1)
        for name, sign in (("low", -1), ("off", 0), ("high", 1))
    }
    agrees = (ends["low"] <= 0) & (ends["high"] >= 0)
    return pd.DataFrame(
        {
            "eigenvalue": [f"{value:g}" for value in fits.EIGENVALUES.values()],
            "printed": [f"{value:g}" for value in printed],
            "computed": [f"{value:.5g}" for value in values],
            **ends,
            "kind": np.where(agrees, AGREES, DIFFERS),
        }
    )


def plot_eigenvalues(data: charts.Data) -> alt.LayerChart:
    """How far each printed value is off, with half a unit of its last digit."""
    colour, shape = theme.point_styles("kind", [AGREES, DIFFERS])
    key = alt.Legend(title=None)
    names = [f"{value:g}" for value in fits.EIGENVALUES.values()]
    up = alt.Y("eigenvalue:N", sort=names, axis=alt.Axis(title=theme.title("eigenvalue_of_d")))
    across = alt.X("off:Q", axis=theme.axis("off", tick_count=6), scale=alt.Scale(domain=[-7, 7], nice=False))
    zero = alt.Chart(alt.Data(values=[{}])).mark_rule(strokeDash=list(theme.DASHES[1])).encode(x=alt.datum(0))
    base = alt.Chart(data).encode(y=up, color=colour.legend(key))
    spans = base.mark_rule(strokeWidth=5, opacity=0.35, clip=True).encode(x=alt.X("low:Q"), x2="high:Q")
    tooltip = ["eigenvalue:N", "printed:N", "computed:N", alt.Tooltip("off:Q", format="+.2f"), "kind:N"]
    marks = base.mark_point(size=90, clip=True).encode(x=across, shape=shape.legend(key), tooltip=tooltip)
    texts = (
        alt.Chart(data)
        .transform_calculate(text="datum.printed + ' printed, ' + datum.computed + ' computed'")
        .mark_text(align="right", dy=-11, fontSize=11)
        .encode(y=up, x=alt.value("width"), text="text:N")
    )
    return alt.LayerChart(layer=[zero, spans, marks, texts]).properties(width="container", height=220)


def eps_ranges() -> pd.DataFrame:
    """Which epsilon each printed value asks for, from half a unit of its last digit below to above."""
    rows = {}
    for value, printed, half in zip(fits.EIGENVALUES.values(), fits.PRINTED, HALF_UNITS, strict=True):
        if value == 1:
            rows["1"] = {"printed": f"{printed:g}", "from": "any", "epsilon": "any", "to": "any"}
            continue
        ends = sorted(1 + math.log(printed + shift) / math.log(value) for shift in (-half, half))
        exact = 1 + math.log(printed) / math.log(value)
        rows[f"{value:g}"] = {
            "printed": f"{printed:g}",
            "from": f"{ends[0]:.5f}",
            "epsilon": f"{exact:.5f}",
            "to": f"{ends[1]:.5f}",
        }
    return pd.DataFrame.from_dict(rows, orient="index").rename_axis("eigenvalue of D")
