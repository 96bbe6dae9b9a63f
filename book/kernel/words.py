"""Where a text tells formulas for k0 from the identity: words, not characters, before and after training.

Shown are the stored models of the word-level readings; where none are stored, the quick ones, trained on the
spot.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping

import altair as alt
import numpy as np
import pandas as pd

from book.kernel.experiments import fits, models
from book.kernel.experiments.models import Trained
from book.kernel.formulas import AFTER, BEFORE, plot_strips, text_note
from embviz import kernels
from embviz.kernels import Spectrum
from embviz.ledger.cells import missing
from embviz.view import charts, theme
from embviz.words.cooccurrence import pmi

N_ORDERS = 40
LEAST_GAIN = 0.05  # of a median; below, candidates are not compared
FFT, EIGEN, IDENTITY, ONE = ROWS = ("FFT", "eigen", "identity", "a single 1")
OVER, REST = "FFT less identity", "eigen, first entry left out"
QUANTITIES = {OVER: "FFT form less identity", EIGEN: "eigen form", ONE: ONE, REST: REST}
PLUS_PMI, ON_PMI, OTHER_PMI = "identity + PMI", "untrained + PMI", "untrained + PMI of other words"
PLUS_D, LESS_D, PLUS_MEAN = "identity + D", "identity - D", "identity + mean direction"
CANDIDATES = (PLUS_PMI, ON_PMI, PLUS_D, LESS_D, PLUS_MEAN, OTHER_PMI)
GROUPS = {AFTER: "a model", BEFORE: "a model"} | dict.fromkeys(CANDIDATES, "made")


# --- models ---------------------------------------------------------------------------------------------


def stored_preset() -> str:
    """The preset at which a word-level reading is stored; "quick", made on the spot, if none is."""
    runs = models.words("paper").values()
    return "quick" if all(missing(models.cells_of(run)) for run in runs) else "paper"


@functools.cache
def readings(preset: str) -> dict[str, Trained]:
    """Models of the word-level readings that are stored, by a short name."""
    return {
        short(label): models.load(run)
        for label, run in models.words(preset).items()
        if preset == "quick" or not missing(models.cells_of(run))
    }


def short(label: str) -> str:
    """A reading's label without what the caption tells.

    >>> short("words, others dropped; 50,000 tokens; start N(0, 0.02²)")
    'others dropped'
    """
    return label.split("; ")[0].split(", ", 1)[-1]


def data_note(preset: str) -> str:
    """Texts and seeds, for a caption."""
    runs = {short(label): run for label, run in models.words(preset).items()}
    parts = [
        f"{name}: {text_note(runs[name], found.spectrum.vocab_size)}, {len(found.last)} "
        f"seed{'s' * (len(found.last) > 1)}"
        for name, found in readings(preset).items()
    ]
    return "; ".join(parts)


# --- what training could have put into W ----------------------------------------------------------------


def off_ratio(W: np.ndarray) -> np.ndarray:
    """Frobenius norm of W (..., V, V) beside the diagonal over that on it, (...)."""
    on = (np.diagonal(W, axis1=-2, axis2=-1) ** 2).sum(-1)
    return np.sqrt((W**2).sum(axis=(-2, -1)) / on - 1)


def with_ratio(base: np.ndarray, part: np.ndarray, ratio: float) -> np.ndarray:
    """base + a part, (V, V), with the least a above 0 for that :func:`off_ratio`; a = 0 if there is none."""
    on = np.eye(len(base), dtype=bool)

    def product(x: np.ndarray, y: np.ndarray) -> float:  # 0 where the ratio of x = y is as asked
        return float((x * y)[~on].sum() - ratio**2 * (x * y)[on].sum())

    roots = np.roots([product(part, part), 2 * product(base, part), product(base, base)])
    above = roots.real[(abs(roots.imag) < 1e-9) & (roots.real > 0)]
    return base + (float(above.min()) if above.size else 0.0) * part


def candidates(found: Trained) -> dict[str, np.ndarray]:
    """Gram matrices (R, V, V) or (1, V, V) of models and of what is made, by name.

    Made ones have as much beside their diagonal as the trained models, by :func:`off_ratio`.
    """
    V, counts = found.spectrum.vocab_size, found.counts.pairs
    W, first = models.gram(found.last), models.gram(found.first)
    first = first / np.trace(first, axis1=1, axis2=2)[:, None, None] * V
    ratio, one = float(off_ratio(W).mean()), np.eye(V)
    D = found.spectrum.matrix / np.linalg.norm(found.spectrum.matrix)
    beside = pmi(counts) * (1 - one)
    other = np.random.default_rng(0).permutation(V)
    made = {
        PLUS_PMI: with_ratio(one, beside, ratio)[None],
        ON_PMI: np.stack([with_ratio(own, beside, ratio) for own in first]),
        PLUS_D: with_ratio(one, D, ratio)[None],
        LESS_D: with_ratio(one, -D, ratio)[None],
        PLUS_MEAN: with_ratio(one, np.full((V, V), 1 / V), ratio)[None],
        OTHER_PMI: np.stack([with_ratio(own, beside[np.ix_(other, other)], ratio) for own in first]),
    }
    return {AFTER: W, BEFORE: first, **made}


# --- how formulas fit them ------------------------------------------------------------------------------


def rows_of(spectrum: Spectrum) -> dict[str, np.ndarray]:
    """ROWS, (V,) each; the last one has no text in it."""
    forms = {FFT: kernels.k0_fft(spectrum), EIGEN: kernels.k0_eigen(spectrum)}
    return forms | {IDENTITY: kernels.row_identity(spectrum), ONE: np.eye(spectrum.vocab_size)[0]}


def fitted(spectrum: Spectrum, grams: Mapping[str, np.ndarray]) -> dict[str, dict[str, np.ndarray]]:
    """Cosines (R,) of ROWS with first rows of kernels of W (R, V, V), and QUANTITIES, by name of W."""
    rows, found = rows_of(spectrum), {}
    for name, W in grams.items():
        k0 = kernels.extract_kernel(W, spectrum, zeros="drop").k0
        own = {row: fits.cosines(values, k0) for row, values in rows.items()}
        own[OVER] = own[FFT] - own[IDENTITY]
        found[name] = own | {REST: fits.cosines(rows[EIGEN][1:], k0[:, 1:])}
    return found


@functools.cache
def seed_table(preset: str) -> pd.DataFrame:
    """Words by frequency, a row a seed: `formula` (reading and row), `kind`, `label`, `k0_cosine`."""
    rows = []
    for reading, found in readings(preset).items():
        grams = {AFTER: models.gram(found.last), BEFORE: models.gram(found.first)}
        for kind, own in fitted(found.spectrum, grams).items():
            rows += [
                {"formula": f"{reading}: {name}", "kind": kind, "label": f"seed {seed}", "k0_cosine": value}
                for name in ROWS
                for seed, value in enumerate(own[name])
            ]
    return pd.DataFrame(rows).round({"k0_cosine": 4})


def seed_strips(preset: str) -> alt.LayerChart:
    """A row a reading and formula, a mark a seed, open before training."""
    table = seed_table(preset)
    return plot_strips(table, list(dict.fromkeys(table["formula"])), (AFTER, BEFORE))


def seed_finding(preset: str) -> str:
    """Both forms and the identity, trained and untrained, means over seeds."""
    means = seed_table(preset).groupby(["formula", "kind"])["k0_cosine"].mean()
    parts = []
    for reading in readings(preset):
        own = [
            f"{name} {means[f'{reading}: {name}', AFTER]:.2f} ({means[f'{reading}: {name}', BEFORE]:.2f})"
            for name in (FFT, EIGEN, IDENTITY)
        ]
        parts.append(f"{reading}: {', '.join(own)}")
    return f"Cosines with k0 after training (before): {'; '.join(parts)}"


@functools.cache
def order_table(preset: str, n: int = N_ORDERS) -> pd.DataFrame:
    """Models and candidates under n random orders of the words, means over seeds.

    Returns
    -------
    DataFrame
        `reading`, `quantity` (of QUANTITIES), `kind` (of GROUPS), `order`, `value`.
    """
    rows = []
    for reading, found in readings(preset).items():
        rng, grams = np.random.default_rng(0), candidates(found)
        for order in range(n):
            place = rng.permutation(found.spectrum.vocab_size)
            moved = {kind: W[:, place][:, :, place] for kind, W in grams.items()}
            for kind, own in fitted(found.spectrum.permuted(place), moved).items():
                rows += [(reading, name, kind, order, float(own[name].mean())) for name in QUANTITIES]
    return pd.DataFrame(rows, columns=["reading", "quantity", "kind", "order", "value"])


def medians(preset: str) -> pd.Series:
    """Medians over orders by reading, quantity and kind."""
    middle: pd.Series = order_table(preset).groupby(["reading", "quantity", "kind"])["value"].median()
    return middle


def order_finding(preset: str) -> str:
    """The eigen form and the single 1 over orders, after and before training."""
    middle = medians(preset)
    parts = [
        f"{reading}: eigen form {middle[reading, EIGEN, AFTER]:.2f} after training and "
        f"{middle[reading, EIGEN, BEFORE]:.2f} before, {ONE} {middle[reading, ONE, AFTER]:.2f} and "
        f"{middle[reading, ONE, BEFORE]:.2f}"
        for reading in readings(preset)
    ]
    return f"Medians over {order_table(preset)['order'].nunique()} orders: {'; '.join(parts)}"


def matched(preset: str, reading: str) -> list[str]:
    """Candidates that bring both the eigen form and FFT less identity nearer to trained than to untrained."""
    middle = medians(preset)

    def near(kind: str, quantity: str) -> bool:
        after, before, own = (middle[reading, quantity, name] for name in (AFTER, BEFORE, kind))
        return bool(abs(own - after) < abs(own - before))

    return [kind for kind in CANDIDATES if all(near(kind, quantity) for quantity in (EIGEN, OVER))]


def explained(preset: str) -> str:
    """What training adds by reading, which candidates add as much, and what is left without one entry."""
    middle, parts = medians(preset), []
    for reading in readings(preset):
        gains = {name: middle[reading, name, AFTER] - middle[reading, name, BEFORE] for name in QUANTITIES}
        parts.append(
            f"**{reading}**: training changes the eigen form's median by {gains[EIGEN]:+.2f} and that of the "
            f"FFT form less the identity by {gains[OVER]:+.3f}; {_explanation(preset, reading, gains[EIGEN])}"
            f"; with the first entry left out, the eigen form has {middle[reading, REST, AFTER] + 0.0:.2f}"
        )
    return ". ".join(parts) + "."


def _explanation(preset: str, reading: str, gain: float) -> str:
    if abs(gain) < LEAST_GAIN:
        return "too little to ask what it is"
    found = matched(preset, reading)
    others = [kind for kind in CANDIDATES if kind not in found]
    if not found:
        return "none of the candidates comes near, and what it is stays open"
    return (
        f"nearer to the trained models than to the untrained ones come {', '.join(found)}"
        f"{', but not ' if others else ''}{', '.join(others)}"
    )


def grid(preset: str) -> pd.DataFrame:
    """:func:`order_table` for an explorer: `reading`, `quantity`, `formula`, `value`."""
    table = order_table(preset).drop(columns="order").rename(columns={"kind": "formula"})
    return table.round({"value": 3})


def plot_orders(data: charts.Data) -> alt.LayerChart:
    """A row a model or candidate, a mark an order, a thick tick the median; a rule at 0."""
    names = list(dict.fromkeys(GROUPS.values()))
    colour, shape = theme.point_styles("kind", names)
    key = alt.Legend(title=None, symbolOpacity=1)
    of_models = f"indexof({[AFTER, BEFORE]}, datum.formula) >= 0"
    base = (
        alt.Chart(data)
        .transform_calculate(kind=f"{of_models} ? '{names[0]}' : '{names[1]}'")
        .encode(y=alt.Y("formula:N", sort=list(GROUPS), axis=alt.Axis(title=None, labelLimit=190)))
    )
    across = alt.X("value:Q", axis=theme.axis("over_orders", tick_count=6))
    marks = base.mark_point(size=40, opacity=0.5).encode(
        x=across, color=colour.legend(key), shape=shape.legend(key), tooltip=["formula:N", "value:Q"]
    )
    middle = base.mark_tick(thickness=3, size=18, color=theme.INK).encode(x=alt.X("median(value):Q"))
    zero = alt.Chart(alt.Data(values=[{"level": 0}])).mark_rule(strokeDash=list(theme.DASHES[2]))
    layers = [zero.encode(x="level:Q"), marks, middle]
    return alt.LayerChart(layer=layers).properties(width="container", height=27 * len(GROUPS))
