"""What the chapter on the clamp, the order and the row measures and draws: what decides a derived k0.

The largest stored models are shown; where none are stored, the quick ones are trained on the spot.
"""

from __future__ import annotations

import dataclasses
import functools
import html
import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, get_args

import altair as alt
import numpy as np
import pandas as pd

from book.kernel.experiments import fits, hyperparameters, models
from book.kernel.experiments.counts import load_counts
from book.kernel.experiments.models import STARTS, KernelRun
from book.kernel.experiments.texts import TextReading, load
from book.kernel.formulas import (
    data_note,
    order_of,
    plot_strips,
    preset_of,
    shown,
    text_note,
    trained,
    unit,
    written_cosine,
)
from embviz import kernels
from embviz.kernels import Form, Negative, Spectrum
from embviz.ledger import published
from embviz.ledger.cells import missing
from embviz.view import charts, theme
from embviz.view.explorers import Choice

__all__ = ["data_note", "preset_of"]  # and what is defined here

FORMS: dict[Form, str] = {"eigen": "eigen form", "fft": "FFT form"}
IDENTITY = "identity matrix"
ROWS = {"first": 0.0, "second": None, "middle": 0.5, "last": 1.0}  # place in the vocabulary, as a share
ORDERS = ("frequency", "alphabetical", "random 1")
MORE_ORDERS = tuple(f"random {k}" for k in range(2, 10))
LENGTHS = {500: 10, 4_500: 3}  # of texts beside the quick one, tokens: epochs, for about as many updates
N_ORDERS = 100
STATIC_EPS, MORE_EPS = (0.003, 0.05, 1.0), (0.0003, 0.001, 0.01, 0.02, 0.1, 0.3)
LEAST_SCORE = 0.85  # the paper's filter
LOG_CLAMPS = np.linspace(-15.0, 1.0, 33)
CLAMPS = 10.0**LOG_CLAMPS
FEWER_CLAMPS = np.geomspace(1e-15, 1.0, 16)
EPSILONS = (0.001, 0.003, 0.02, 0.1, 0.5)
LEAST_LOG_DISTANCE = -16  # end of an axis; what is nearer is drawn there


# --- texts of several lengths ---------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Ground:
    """A text's D, and the embeddings of a model trained on it."""

    spectrum: Spectrum
    tokens: tuple[str, ...]  # (V,)
    embeddings: np.ndarray  # (V, D), of the first seed


@functools.cache
def grounds(preset: str) -> dict[str, Ground]:
    """The main text, those of other lengths, and texts of words, each with its own model, by label."""
    main = models.main(preset)
    lengths = {main.text.n_tokens: main} | _other_lengths(preset)
    runs = {_length_label(n_tokens): run for n_tokens, run in sorted(lengths.items())}
    found = {}
    for label, run in (runs | _word_texts(preset)).items():
        own = trained(preset) if run == main else models.load(run)
        found[label] = Ground(own.spectrum, tuple(own.counts.tokens), own.last[0])
    return found


def _length_label(n_tokens: int) -> str:
    return f"{n_tokens:,} tokens"


def _other_lengths(preset: str) -> dict[int, KernelRun]:
    main = models.main(preset)
    if preset == "quick":
        texts = {n: dataclasses.replace(main.text, n_tokens=n) for n in LENGTHS}
        return {
            n: dataclasses.replace(main, text=text, n_epochs=LENGTHS[n], n_seeds=1, keep_all=False)
            for n, text in texts.items()
        }
    found = {}
    for run in models.readings(preset).values():
        same = dataclasses.replace(run.text, n_tokens=main.text.n_tokens) == main.text
        alike = (run.shape, run.batch_size) == (main.shape, main.batch_size)
        if same and alike and run.text != main.text and not missing(models.cells_of(run)):
            found[run.text.n_tokens] = run
    return found


def _word_texts(preset: str) -> dict[str, KernelRun]:
    """Models of the main shape on words, as far as they are stored, by the size of their vocabulary."""
    main = models.main(preset)
    return {
        f"{run.text.vocab_size} words": run
        for run in models.grid(preset)
        if run.shape == dataclasses.replace(main.shape, vocab_size=run.text.vocab_size)
        and run.n_epochs == main.n_epochs
        and not missing(models.cells_of(run))
    }


def main_label(preset: str) -> str:
    """What the main text is called among :func:`grounds`."""
    return _length_label(models.main(preset).text.n_tokens)


def order_for(order: str, tokens: Sequence[str]) -> np.ndarray:
    """Old ids in the new order: "frequency" (as they are), "alphabetical", or "random k"."""
    if order == "alphabetical":
        return np.array(sorted(range(len(tokens)), key=tokens.__getitem__))
    return order_of(order, len(tokens))


def place_of(row: str, vocab_size: int) -> int:
    """The place that a name of ROWS stands for."""
    if row not in ROWS:
        raise ValueError(f"no row {row!r}: choose one of {', '.join(ROWS)}")
    share = ROWS[row]
    return 1 if share is None else round(share * (vocab_size - 1))


# --- the explorer ---------------------------------------------------------------------------------------


@dataclass(frozen=True)
class LiveChoice(Choice):
    """A choice that has more values where a kernel measures than in the static grid.

    Parameters
    ----------
    more : sequence
        Those values, shown after the others.
    """

    more: Sequence[Any] = ()

    def binding(self, *, live: bool) -> dict[str, Any]:
        """Vega's description of the input element."""
        if not live or not self.more:
            return super().binding(live=live)
        return Choice([*self.values, *self.more], self.label, self.format).binding(live=True)

    def read(self, sent: object) -> Any:
        """The value that the page sent, one of ours."""
        return Choice([*self.values, *self.more], self.label).read(sent)


def eps_choice() -> LiveChoice:
    """The paper's epsilon, a larger one and 1, as powers of ten; with a kernel more of them."""
    values, more = ([round(float(np.log10(eps)), 6) for eps in own] for own in (STATIC_EPS, MORE_EPS))
    return LiveChoice(values, "epsilon", format=lambda power: f"{10.0**power:.4g}", more=more)


def length_choice(preset: str) -> LiveChoice:
    """The main text, and with a kernel those of other lengths and of words."""
    own = main_label(preset)
    return LiveChoice([own], "text", more=[label for label in grounds(preset) if label != own])


@functools.lru_cache(maxsize=64)
def _turned(preset: str, text: str, order: str) -> tuple[Spectrum, np.ndarray]:
    """D's spectrum in an order of its words, and the extracted kernel (V, V)."""
    ground = grounds(preset)[text]
    place = order_for(order, ground.tokens)
    spectrum, E = ground.spectrum.permuted(place), ground.embeddings[place]
    return spectrum, kernels.extract_kernel(E @ E.T, spectrum, zeros="drop").kernel


@functools.lru_cache(maxsize=64)
def _columns(preset: str, text: str, order: str, row: str, form: Form) -> np.ndarray:
    spectrum, _ = _turned(preset, text, order)
    return kernels.responses(spectrum, form, row=place_of(row, spectrum.vocab_size))


def derived_row(
    preset: str,
    log_eps: float,
    log_clamp: float,
    negative: Negative,
    form: Form,
    order: str,
    text: str,
    row: str,
) -> pd.DataFrame:
    """One row of kernels, derived from a text and extracted from a model.

    Parameters
    ----------
    preset : str
    log_eps, log_clamp : float
        Powers of ten.
    negative : what stands for a power of a negative eigenvalue, see :func:`.kernels.spectral_power`
    form : "eigen" or "fft"
    order : of the vocabulary
    text : a key of :func:`grounds`
    row : a key of ROWS

    Returns
    -------
    DataFrame
        `derived`, `extracted` and `identity` (of the identity's deconvolution), each of length 1, V rows.
    """
    spectrum, kernel = _turned(preset, text, order)
    place = place_of(row, spectrum.vocab_size)
    power = 10.0**log_eps - (1 if form == "eigen" else 0)
    weights = kernels.spectral_power(spectrum.values, power, negative=negative, floor=10.0**log_clamp)
    derived = _columns(preset, text, order, row, form) @ weights
    identity = _columns(preset, text, order, row, "fft").sum(axis=1)
    return pd.DataFrame(
        {"derived": unit(derived), "extracted": unit(kernel[place]), "identity": unit(identity)}
    )


def row_measure(preset: str) -> Callable[..., pd.DataFrame]:
    """:func:`derived_row` of one preset, for an explorer."""
    return functools.partial(derived_row, preset)


def plot_derived_row(data: charts.Data) -> alt.LayerChart:
    """Derived row as a line, extracted row as marks, identity broad and pale; two cosines written above."""
    base = (
        alt.Chart(data)
        .transform_window(place="row_number()")
        .transform_calculate(word_id="datum.place - 1")
        .encode(x=alt.X("word_id:Q", axis=theme.axis("word_id", tick_count=6), scale=alt.Scale(nice=False)))
    )
    tooltip = ["word_id:Q", "derived:Q", "extracted:Q", "identity:Q"]
    ends = alt.Scale(domain=[-1, 1])
    y = alt.Y("derived:Q", axis=theme.axis("row_entry"), scale=ends)
    identity = base.mark_line(strokeWidth=6, opacity=0.3).encode(
        y=alt.Y("identity:Q", axis=theme.axis("row_entry"), scale=ends),
        color=alt.ColorDatum("identity matrix", type="nominal"),
    )
    line = base.mark_line(strokeWidth=1.8).encode(
        y=y, color=alt.ColorDatum("derived", type="nominal"), tooltip=tooltip
    )
    marks = base.mark_point(size=36, shape=theme.SHAPES[1]).encode(
        y=alt.Y("extracted:Q", axis=theme.axis("row_entry"), scale=ends),
        color=alt.ColorDatum("extracted", type="nominal"),
        tooltip=tooltip,
    )
    written = [
        written_cosine(data, "derived", "extracted", "cosine with the extracted row"),
        written_cosine(data, "derived", "identity", "with the identity matrix", line=1),
    ]
    layers = [identity, line, marks, *written]
    return alt.LayerChart(layer=layers).properties(width="container", height=300)


# --- negative eigenvalues and what is put in their place ------------------------------------------------


def spectrum_finding(preset: str) -> str:
    """How many eigenvalues are negative, and how large they are."""
    values = trained(preset).spectrum.values
    negative = values[values < 0]
    return (
        f"{len(negative)} of {len(values)} eigenvalues of D are negative, down to {values.min():.1f}; the "
        f"smallest magnitude is {np.abs(values).min():.2g}, far above the clamp"
    )


def plot_spectrum(preset: str) -> alt.LayerChart:
    """Eigenvalues of D by rank, on a scale that has both signs."""
    values = trained(preset).spectrum.values[::-1]
    signs = np.where(values < 0, "negative", "positive")
    table = pd.DataFrame({"rank": np.arange(1, len(values) + 1), "eigenvalue": values, "sign": signs})
    colour, shape = theme.point_styles("sign", ["positive", "negative"])
    key = alt.Legend(title=None)
    marks = (
        alt.Chart(table.round(4))
        .mark_point(size=45)
        .encode(
            x=alt.X("rank:Q", axis=theme.axis("rank"), scale=alt.Scale(nice=False)),
            y=alt.Y(
                "eigenvalue:Q", axis=theme.axis("eigenvalue"), scale=alt.Scale(type="symlog", constant=1)
            ),
            color=colour.legend(key),
            shape=shape.legend(key),
            tooltip=["rank:Q", "eigenvalue:Q"],
        )
    )
    zero = (
        alt.Chart(alt.Data(values=[{}])).mark_rule(strokeDash=list(theme.DASHES[2])).encode(y=alt.YDatum(0))
    )
    return alt.LayerChart(layer=[zero, marks]).properties(width="container", height=theme.HEIGHT)


SHARES = {"eigen": "eigen form: share of |k0|²", "fft": "FFT form: distance from the identity's row"}


def clamped_shares(preset: str) -> pd.DataFrame:
    """What the clamped eigenvalues make of k0: `form`, `epsilon`, `log_clamp` (power of ten), `value`.

    Of the eigen form the share of |k0|^2 that they contribute; of the FFT form the distance of k0 from the
    identity's row, in units of that row's length.
    """
    eps, floor = np.array(EPSILONS)[:, None], CLAMPS[None]
    found = kernels.clamped_share(trained(preset).spectrum, eps, floor=floor)
    parts = [
        pd.DataFrame({"form": form, "epsilon": f"{own:g}", "log_clamp": LOG_CLAMPS, "value": values})
        for form, table in (("eigen", found.eigen), ("fft", found.departure))
        for own, values in zip(EPSILONS, table, strict=True)
    ]
    return pd.concat(parts, ignore_index=True)


def share_finding(preset: str) -> str:
    """What the eigenvalues that are not clamped are left with, at the listing's clamp and at best."""
    spectrum = trained(preset).spectrum
    rest = [unclamped_share(spectrum, clamp) for clamp in CLAMPS]
    best = int(np.argmax(rest))
    return (
        f"In the eigen form the eigenvalues that are not clamped give {rest[0]:.0e} of |k0|² at the "
        f"listing's clamp, and {rest[best]:.0%} at the clamp that leaves them most, {CLAMPS[best]:.1g}"
    )


def unclamped_share(spectrum: Spectrum, clamp: float, eps: float = kernels.EPS) -> float:
    """1 - the clamped share of the eigen form, exact where that is 1 to rounding."""
    energy = (kernels.spectral_power(spectrum.values, eps - 1, floor=clamp) * spectrum.vectors[0]) ** 2
    return float(energy[spectrum.values >= clamp].sum() / energy.sum())


def plot_shares(data: charts.Data) -> alt.Chart:
    """Shares against the clamp, a line an epsilon."""
    colour, dash = theme.line_styles("epsilon", [f"{eps:g}" for eps in EPSILONS])
    key = alt.Legend(title="epsilon", symbolType="stroke", symbolStrokeWidth=2.5)
    return (
        alt.Chart(data)
        .mark_line(strokeWidth=2)
        .encode(
            x=decades("log_clamp", -15, 1, 3),
            y=alt.Y("value:Q", axis=theme.axis("value")),
            color=colour.legend(key),
            strokeDash=dash.legend(key),
            tooltip=["epsilon:N", "log_clamp:Q", "value:Q"],
        )
        .properties(width="container", height=theme.HEIGHT)
    )


def decades(field: str, low: int, high: int, every: int) -> alt.X:
    """A power of ten along x, labelled as a number: beside 1, explorers write 1e-15 itself as 0."""
    axis = alt.Axis(
        title=theme.title(field),
        values=list(range(low, high + 1, every)),
        labelExpr="datum.value === 0 ? '1' : '1e' + datum.value",
    )
    return alt.X(f"{field}:Q", scale=alt.Scale(domain=[low, high], clamp=True, nice=False), axis=axis)


def clamp_curves(preset: str, order: str, eps: float) -> pd.DataFrame:
    """Cosines with the extracted rows against the clamp: `log_clamp`, `seed`, `kind`, `k0_cosine`."""
    found = trained(preset)
    place = order_for(order, found.counts.tokens)
    spectrum = found.spectrum.permuted(place)
    gram = models.gram(found.last[:, place])
    k0 = kernels.extract_kernel(gram, spectrum, zeros="drop").k0  # (R, V)
    parts = []
    for form, name in FORMS.items():
        power = eps - (1 if form == "eigen" else 0)
        weights = kernels.spectral_power(spectrum.values, power, floor=CLAMPS)  # (n, V)
        rows = weights @ kernels.responses(spectrum, form).T
        for seed, values in enumerate(fits.cosines(rows[:, None], k0[None]).T):
            parts.append(
                pd.DataFrame({"log_clamp": LOG_CLAMPS, "seed": seed, "kind": name, "k0_cosine": values})
            )
    level = fits.cosines(kernels.row_identity(spectrum), k0)
    for seed, value in enumerate(level):
        ends = LOG_CLAMPS[[0, -1]]
        parts.append(pd.DataFrame({"log_clamp": ends, "seed": seed, "kind": IDENTITY, "k0_cosine": value}))
    return pd.concat(parts, ignore_index=True)


def clamp_measure(preset: str) -> Callable[[str, float], pd.DataFrame]:
    """:func:`clamp_curves` of one preset, for an explorer."""
    return functools.partial(clamp_curves, preset)


def plot_clamp_curves(data: charts.Data) -> alt.Chart:
    """Cosine against the clamp, a line a seed and form."""
    colour, dash = theme.line_styles("kind", [*FORMS.values(), IDENTITY])
    key = alt.Legend(title=None, symbolType="stroke", symbolOpacity=1, symbolStrokeWidth=2.5)
    return (
        alt.Chart(data)
        .mark_line(strokeWidth=1.6, opacity=0.8)
        .encode(
            x=decades("log_clamp", -15, 1, 3),
            y=alt.Y("k0_cosine:Q", axis=theme.axis("k0_cosine"), scale=alt.Scale(domain=[-1, 1])),
            color=colour.legend(key),
            strokeDash=dash.legend(key),
            detail="seed:N",
            tooltip=["kind:N", "seed:N", "log_clamp:Q", "k0_cosine:Q"],
        )
        .properties(width="container", height=theme.HEIGHT)
    )


def clamp_finding(preset: str) -> str:
    """Both forms at the listing's clamp and where they are largest, the identity beside; means over seeds."""
    curves = clamp_curves(preset, "frequency", kernels.EPS)
    means = curves.groupby(["kind", "log_clamp"])["k0_cosine"].mean()
    parts = []
    for name in FORMS.values():
        own = means[name]
        best = f"{own.max():.2f} (at {10.0 ** own.idxmax():.0e})"
        parts.append(f"{name} {own.iloc[0]:.2f} at 1e-15, at most {best}")
    return f"Cosines: {'; '.join(parts)}; identity matrix {means[IDENTITY].iloc[0]:.2f}"


# --- Table 5 --------------------------------------------------------------------------------------------

PAIR_NAMES = [f"{a:g} and {b:g}" for a, b in fits.PAIRS_OF_EPS]


def mutual_distances(spectrum: Spectrum, form: Form, negative: Negative, floor: float) -> np.ndarray:
    """1 - cosine of k0 for Table 5's pairs of epsilons, (5,), exact for small ones too."""
    scan = kernels.alpha_scan(
        spectrum, np.array(fits.PAIRS_OF_EPS).ravel(), form=form, negative=negative, floor=floor
    )
    rows = scan / np.linalg.norm(scan, axis=1, keepdims=True)
    distances: np.ndarray = ((rows[::2] - rows[1::2]) ** 2).sum(axis=1) / 2
    return distances


def table_5(preset: str, log_clamp: float, negative: Negative) -> pd.DataFrame:
    """Distances of Table 5 in both forms: `pair`, `kind`, `log_distance` (power of ten, at least -16)."""
    spectrum = trained(preset).spectrum
    parts = []
    for form, name in FORMS.items():
        own = mutual_distances(spectrum, form, negative, 10.0**log_clamp)
        logs = np.log10(np.maximum(own, 10.0**LEAST_LOG_DISTANCE))
        parts.append(pd.DataFrame({"pair": PAIR_NAMES, "kind": name, "log_distance": logs}))
    return pd.concat(parts, ignore_index=True)


def table_5_measure(preset: str) -> Callable[[float, Negative], pd.DataFrame]:
    """:func:`table_5` of one preset, for an explorer."""
    return functools.partial(table_5, preset)


def plot_table_5(data: charts.Data) -> alt.LayerChart:
    """Distances on a logarithmic axis, the paper's as crosses."""
    kinds = [*FORMS.values(), "paper"]
    colour, shape = theme.point_styles("kind", kinds)
    key = alt.Legend(title=None)
    place = {
        "x": decades("log_distance", LEAST_LOG_DISTANCE, 0, 4),
        "y": alt.Y("pair:N", sort=PAIR_NAMES, axis=alt.Axis(title="epsilons")),
        "color": colour.legend(key),
        "shape": shape.legend(key),
    }
    paper = pd.DataFrame(
        {
            "pair": PAIR_NAMES,
            "kind": "paper",
            "log_distance": np.log10(1 - np.array(paper_table_5())),
        }
    ).round(4)
    tooltip = ["kind:N", "pair:N", "log_distance:Q"]
    marks = [
        alt.Chart(source).mark_point(size=75).encode(tooltip=tooltip, **place) for source in (data, paper)
    ]
    return alt.LayerChart(layer=marks).properties(width="container", height=200)


def paper_table_5() -> list[float]:
    """The paper's cosines, of the pairs of epsilons in `fits`."""
    cosines = published("kernel.table5")
    return [cosines[f"text_{first:.3f}-{second:.3f}"] for first, second in fits.PAIRS_OF_EPS]


@functools.cache
def table_5_readings(preset: str) -> pd.DataFrame:
    """How far each reading is from Table 5's five distances.

    Returns
    -------
    DataFrame
        `form`, `negative`, `clamp` and `factor`: by which the five distances differ from the paper's, the
        root mean square of their logarithms, nearest first. A row a form and kind, at its best clamp.
    """
    paper, spectrum = np.log(1 - np.array(paper_table_5())), trained(preset).spectrum
    rows = []
    for form, negative in itertools.product(FORMS, get_args(Negative)):
        for clamp in FEWER_CLAMPS:
            own = np.log(np.maximum(mutual_distances(spectrum, form, negative, clamp), 1e-300))
            factor = float(f"{np.exp(np.sqrt(((own - paper) ** 2).mean())):.6g}")  # equal ones in their order
            rows.append({"form": form, "negative": negative, "clamp": clamp, "factor": factor})
    table = pd.DataFrame(rows).sort_values("factor", kind="stable")
    return table.drop_duplicates(["form", "negative"]).reset_index(drop=True)


def table_5_shown(preset: str) -> pd.DataFrame:
    """The same, as text."""
    table = table_5_readings(preset)
    return pd.DataFrame(
        {
            "form": table["form"].map(FORMS),
            "negative eigenvalues": table["negative"],
            "best clamp": table["clamp"].map("{:.0e}".format),
            "off by a factor of": table["factor"].map(lambda x: f"{x:.1f}" if x < 1000 else f"{x:.0e}"),
        }
    )


def table_5_scales(preset: str) -> pd.DataFrame:
    """Distances over squared differences of epsilons: one number wherever k0 moves steadily with epsilon."""
    squares = np.array([(b - a) ** 2 for a, b in fits.PAIRS_OF_EPS])
    spectrum = trained(preset).spectrum
    table = {"paper": (1 - np.array(paper_table_5())) / squares}
    for form, name in FORMS.items():
        table[name] = mutual_distances(spectrum, form, "clamp", kernels.FLOOR) / squares
    shown_table = pd.DataFrame(table, index=pd.Index(PAIR_NAMES, name="epsilons"))
    return shown_table.map(lambda x: f"{x:.1f}" if x > 0.05 else f"{x:.0e}" if x > 1e-10 else "below 1e-10")


def table_5_finding(preset: str) -> str:
    """What the listings give as they stand, and the reading that comes nearest."""
    spectrum, nearest = trained(preset).spectrum, table_5_readings(preset).iloc[0]
    least = min(paper_table_5())
    parts = []
    for form, name in FORMS.items():
        largest = float(mutual_distances(spectrum, form, "clamp", kernels.FLOOR).max())
        tiny = f"1 - {largest:.0e}" if largest > 1e-16 else "1, to rounding"
        parts.append(f"{name} {1 - largest:.4f}" if largest > 5e-5 else f"{name} {tiny}")
    return (
        f"The least cosine of Table 5 is {least}; the listings give: {', '.join(parts)}. "
        f"Nearest of all readings: {FORMS[nearest['form']]}, {nearest['negative']}, off by a factor of "
        f"{nearest['factor']:.1f}"
    )


def listings_table(preset: str) -> pd.DataFrame:
    """Cosines of the two listings with each other on texts of several lengths, and what of D decides it."""
    rows = {}
    for label, ground in grounds(preset).items():
        spectrum = ground.spectrum
        eigen, fft = kernels.k0_eigen(spectrum), kernels.k0_fft(spectrum)
        clamped = kernels.negative_projector(spectrum)[0]
        identity = kernels.row_identity(spectrum)
        rows[label] = {
            "V": spectrum.vocab_size,
            "negative eigenvalues": spectrum.n_negative,
            "the two listings": f"{float(fits.cosines(eigen, fft)):.3f}",
            "eigen form and P": f"{float(fits.cosines(eigen, clamped)):.6f}",
            "FFT form and identity matrix": f"{float(fits.cosines(fft, identity)):.3f}",
        }
    return pd.DataFrame.from_dict(rows, orient="index").rename_axis("text")


# --- order and row --------------------------------------------------------------------------------------


@functools.cache
def order_table(preset: str) -> pd.DataFrame:
    """One model in many orders of its words: `order`, `kind`, `score`, `k0_cosine` (FFT form)."""
    found, V = trained(preset), trained(preset).spectrum.vocab_size
    named = {name: order_for(name, found.counts.tokens) for name in ("frequency", "alphabetical")}
    drawn = {f"random {k}": order_of(f"random {k}", V) for k in range(1, N_ORDERS + 1)}
    rows = []
    for name, order in (named | drawn).items():
        spectrum, E = found.spectrum.permuted(order), found.last[0][order]
        kernel = kernels.extract_kernel(E @ E.T, spectrum, zeros="drop").kernel
        rows.append(
            {
                "order": name,
                "kind": name if name in named else "random orders",
                "score": float(kernels.circulant_scores(kernel)),
                "k0_cosine": float(fits.cosines(kernels.k0_fft(spectrum), kernel[0])),
            }
        )
    return pd.DataFrame(rows).round(4)


def order_finding(preset: str) -> str:
    """The range over orders, and how many pass the paper's filter."""
    table = order_table(preset)
    drawn = table[table["kind"] == "random orders"]
    passed = int((drawn["score"] >= LEAST_SCORE).sum())
    low, high = drawn["k0_cosine"].min(), drawn["k0_cosine"].max()
    named = table.set_index("order")["k0_cosine"]
    return (
        f"One model, one text, {len(drawn)} orders of its words: a cosine of anything from {low:.2f} to "
        f"{high:.2f}; by frequency it is {named['frequency']:.2f}. {passed} of them would pass as converged"
    )


def plot_orders(preset: str) -> alt.LayerChart:
    """Cosine against circulant score, a mark an order; the paper's filter as a rule."""
    colour, shape = theme.point_styles("kind", ["random orders", "frequency", "alphabetical"])
    key = alt.Legend(title=None, symbolOpacity=1)
    table = order_table(preset)
    left = min(0.0, float(table[["score", "k0_cosine"]].min().min()))
    ends = alt.Scale(domain=[round(left - 0.05, 1) if left < 0 else 0, 1], nice=False)
    base = alt.Chart(table).encode(
        x=alt.X("score:Q", axis=theme.axis("circulant_score"), scale=ends),
        y=alt.Y("k0_cosine:Q", axis=theme.axis("k0_cosine"), scale=ends),
        color=colour.legend(key),
        shape=shape.legend(key),
        tooltip=["order:N", "score:Q", "k0_cosine:Q"],
    )
    drawn = base.transform_filter("datum.kind === 'random orders'").mark_point(size=40, opacity=0.55)
    named = base.transform_filter("datum.kind !== 'random orders'").mark_point(size=110)
    rule = (
        alt.Chart(alt.Data(values=[{"level": LEAST_SCORE}]))
        .mark_rule(strokeDash=list(theme.DASHES[2]))
        .encode(x="level:Q")
    )
    return alt.LayerChart(layer=[rule, drawn, named]).properties(width="container", height=theme.HEIGHT)


@functools.cache
def row_table(preset: str) -> pd.DataFrame:
    """Every word's row taken as the first: `word_id`, `token`, `kind`, `k0_cosine`, mean over seeds."""
    found = trained(preset)
    spectrum, kernel = found.spectrum, found.extraction.kernel  # (R, V, V)
    V = spectrum.vocab_size
    weights = kernels.spectral_power(spectrum.values, kernels.EPS - 1)
    matrices = {
        FORMS["eigen"]: (spectrum.vectors * weights) @ spectrum.vectors.T,
        FORMS["fft"]: kernels.deconvolve(kernels.matrix_power(spectrum, kernels.EPS), spectrum),
        IDENTITY: kernels.deconvolve(np.eye(V), spectrum),
    }
    parts = [
        pd.DataFrame(
            {
                "word_id": range(V),
                "token": [shown(token) for token in found.counts.tokens],
                "kind": name,
                "k0_cosine": fits.cosines(matrix[None], kernel).mean(axis=0),
            }
        )
        for name, matrix in matrices.items()
    ]
    return pd.concat(parts, ignore_index=True).round({"k0_cosine": 4})


def row_finding(preset: str) -> str:
    """The first row's cosine among all rows', for both forms."""
    parts = []
    for name, own in row_table(preset).groupby("kind", sort=False)["k0_cosine"]:
        if name != IDENTITY:
            first, low, high = own.iloc[0], own.min(), own.max()
            parts.append(f"{name}: {first:.2f} in the first row, {low:.2f} to {high:.2f} over all")
    return f"Cosines: {'; '.join(parts)}"


def plot_row_cosines(preset: str) -> alt.Chart:
    """Cosine of each row's derived and extracted values."""
    kinds = [*FORMS.values(), IDENTITY]
    colour, shape = theme.point_styles("kind", kinds)
    key = alt.Legend(title=None, symbolOpacity=1)
    return (
        alt.Chart(row_table(preset))
        .mark_point(size=36, opacity=0.8)
        .encode(
            x=alt.X("word_id:Q", axis=theme.axis("word_id", tick_count=6), scale=alt.Scale(nice=False)),
            y=alt.Y("k0_cosine:Q", axis=theme.axis("k0_cosine"), scale=alt.Scale(domain=[-1, 1])),
            color=colour.legend(key),
            shape=shape.legend(key),
            tooltip=["kind:N", "word_id:Q", "token:N", "k0_cosine:Q"],
        )
        .properties(width="container", height=theme.HEIGHT)
    )


# --- invariances ----------------------------------------------------------------------------------------


class InvariancePanel:
    """What changes k0, the circulant score and their cosine, as a table with a mark a cell.

    Parameters
    ----------
    table : DataFrame
        Of :func:`embviz.kernels.invariances`.
    """

    def __init__(self, table: pd.DataFrame) -> None:
        self.table = table
        self.quantities = list(dict.fromkeys(table["quantity"]))
        self.properties = list(dict.fromkeys(table["property"]))

    def __repr__(self) -> str:
        held = int(self.table["holds"].sum())
        return f"<invariances: {held} of {len(self.table)} hold>"

    def cell(self, property_: str, quantity: str) -> str:
        """Words for one cell; empty where nothing is compared."""
        own = self.table[(self.table["property"] == property_) & (self.table["quantity"] == quantity)]
        if own.empty:
            return ""
        holds, departure = bool(own["holds"].iloc[0]), float(own["departure"].iloc[0])
        return "✓ same" if holds else f"✗ {departure:.1g}"

    def _repr_html_(self) -> str:
        head = "".join(f"<th>{html.escape(name)}</th>" for name in ("what is changed", *self.quantities))
        lines = []
        for name in self.properties:
            texts = [self.cell(name, quantity) for quantity in self.quantities]
            cells = "".join(self._cell_html(text) for text in texts)
            lines.append(f"<tr><td>{html.escape(name)}</td>{cells}</tr>")
        body = "".join(lines)
        table = f"<table class='ev-figures'><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
        return f"<div style='overflow-x:auto'>{table}</div>"

    @staticmethod
    def _cell_html(text: str) -> str:
        if not text:
            return "<td></td>"
        colour = theme.VERDICT_COLOURS["holds" if text[0] == "✓" else "fails"]
        mark = f"<b style='color:{colour}'>{text[0]}</b>"
        return f"<td style='white-space:nowrap'>{mark}{text[1:]}</td>"


def invariance_panel(preset: str) -> InvariancePanel:
    """Measured on the main text and the first seed."""
    found = trained(preset)
    table = kernels.invariances(found.counts.pairs, found.last[0], words=found.counts.tokens)
    return InvariancePanel(table)


# --- ways to count ----------------------------------------------------------------------------------------

BUNDLED = {
    "bundled words": TextReading("embedded", "drop", vocab_size=100, n_tokens=9_000),
    "bundled characters": TextReading("embedded", "characters", vocab_size=100, n_tokens=9_000),
}
AS_LISTED = "window 5"
COUNTED_KINDS = (*FORMS.values(), IDENTITY)


@functools.cache
def counted_ways(text: str) -> dict[str, np.ndarray]:
    """D of a bundled text under every way to count."""
    found = load(BUNDLED[text])
    ids = np.unique(found.ids, return_inverse=True)[1]  # of symbols that the text has, in their order
    return kernels.conventions(ids, int(ids.max()) + 1, document_starts=found.document_starts)


def convention_rows() -> pd.DataFrame:
    """k0 under other ways to count, against k0 as the listing counts, on the bundled texts.

    Returns
    -------
    DataFrame
        `text`, `formula` (the way to count), `label`, `kind` (form, or the identity), `counting_cosine`.
    """
    rows = []
    for text in BUNDLED:
        derived = {name: _derived(kernels.decompose(D)) for name, D in counted_ways(text).items()}
        for name, own in derived.items():
            if name == AS_LISTED:
                continue
            for kind in COUNTED_KINDS:
                cosine = float(fits.cosines(own[kind], derived[AS_LISTED][kind]))
                rows.append(
                    {"text": text, "formula": name, "label": text, "kind": kind, "counting_cosine": cosine}
                )
    return pd.DataFrame(rows).round({"counting_cosine": 4})


def _derived(spectrum: Spectrum) -> dict[str, np.ndarray]:
    rows = (kernels.k0_eigen(spectrum), kernels.k0_fft(spectrum), kernels.row_identity(spectrum))
    return dict(zip(COUNTED_KINDS, rows, strict=True))


def plot_conventions(data: charts.Data) -> alt.LayerChart:
    """A row a way to count, a mark a form."""
    names = [name for name in counted_ways(next(iter(BUNDLED))) if name != AS_LISTED]
    return plot_strips(data, names, COUNTED_KINDS, field="counting_cosine", left=-1.0)


def convention_table(preset: str) -> pd.DataFrame:
    """The main models under other ways to count the same text: cosines with the extracted rows."""
    found = trained(preset)
    pairs = found.counts.pairs
    diagonal = np.diag(pairs.diagonal())
    ways = {
        "as the listing": pairs,
        "each pair once": pairs / 2,
        "diagonal once": pairs - diagonal / 2,
        "no diagonal": pairs - diagonal,
    }
    for window, cell in models.other_windows(preset).items():
        ways[f"window of {window}"] = load_counts(cell).pairs[np.ix_(found.met, found.met)]
    rows = {}
    for name, counts in ways.items():
        spectrum = kernels.decompose(kernels.log_counts(counts))
        extraction = kernels.extract_kernel(models.gram(found.last), spectrum, zeros="drop")
        rows[name] = {
            "negative eigenvalues": spectrum.n_negative,
            "circulant score": f"{kernels.circulant_scores(extraction.kernel).mean():.3f}",
            **{
                kind: f"{fits.cosines(row, extraction.k0).mean():.3f}"
                for kind, row in _derived(spectrum).items()
            },
        }
    return pd.DataFrame.from_dict(rows, orient="index").rename_axis("counted")


# --- the open question ------------------------------------------------------------------------------------


@functools.cache
def best_eps(preset: str) -> pd.DataFrame:
    """Best epsilons of every setting and seed, with a name for each rate and decay."""
    table = hyperparameters.best_eps(preset)
    pairs = zip(table["learning_rate"], table["weight_decay"], strict=True)
    names = [f"rate {rate:g}, decay {decay:g}" for rate, decay in pairs]
    return table.assign(name=names)


def eps_finding(preset: str) -> str:
    """The share of variance between settings beside seeds dealt at random, and how flat the fit is."""
    table = best_eps(preset)
    logs, groups = np.log(table["eps"].to_numpy()), table["setting"].to_numpy()
    share, null = hyperparameters.explained(logs, groups), hyperparameters.dealt(logs, groups)
    at_end = float(table["at_end"].mean())
    return (
        f"{share:.0%} of the variance of log epsilon lies between settings (95th percentile of random deals: "
        f"{null:.0%}); {at_end:.0%} of the best epsilons lie at an end of the range"
    )


def plot_best_eps(preset: str) -> alt.LayerChart:
    """The best epsilon of each run by setting; open marks lie at an end of the range."""
    table = best_eps(preset)[["name", "seed", "start", "eps", "cosine", "range", "at_end"]]
    table = table.assign(kind=table["start"].map(STARTS)).drop(columns="start").round(6)
    colour, shape = theme.point_styles("kind", list(STARTS.values()))
    key = alt.Legend(title="start", symbolOpacity=1)
    ends = [float(hyperparameters.EPS[0]) * 0.8, float(hyperparameters.EPS[-1]) * 1.25]
    base = alt.Chart(table).encode(
        x=alt.X(
            "eps:Q",
            scale=alt.Scale(type="log", domain=ends, nice=False),
            axis=alt.Axis(title=theme.title("eps"), values=[1e-4, 1e-3, 1e-2, 1e-1], format=".0e"),
        ),
        y=alt.Y("name:N", sort=list(dict.fromkeys(table["name"])), axis=alt.Axis(title=None, labelLimit=170)),
        color=colour.legend(key),
        shape=shape.legend(key),
        tooltip=["name:N", "seed:N", "eps:Q", "cosine:Q", "range:Q"],
    )
    inside = base.transform_filter("!datum.at_end").mark_point(size=70)
    outside = base.transform_filter("datum.at_end").mark_point(size=70, filled=False, strokeWidth=1.6)
    height = 36 * table["name"].nunique()
    return alt.LayerChart(layer=[inside, outside]).properties(width="container", height=height)


def eps_note(preset: str) -> str:
    """Text and seeds of the settings, for a caption."""
    run = hyperparameters.settings(preset)[0]
    V = models.spectrum_of(run).vocab_size  # symbols that the text has, not all of the vocabulary's
    return f"{text_note(run, V)}; {run.n_epochs} epochs, {run.n_seeds} seeds a setting"
