"""Numbers, months and days of the week: is their order in their vectors, as a circle, an arc or a period?"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from scipy.signal import detrend

from book.ledger import findings
from book.ledger.cells import Cell, experiment
from book.ledger.findings import Finding
from book.ledger.stored import load_runs
from book.ledger.studies import Study
from book.released import models
from book.released.experiments import slices
from embviz.words.groups import probe_groups
from embviz.words.wordvectors import WordVectors

MONTHS = (
    *("January", "February", "March", "April", "May", "June"),
    *("July", "August", "September", "October", "November", "December"),
)
WEEKDAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
NUMBER_WORDS = (
    *("one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve"),
    *("thirteen", "fourteen", "fifteen", "sixteen", "seventeen", "eighteen", "nineteen", "twenty"),
)
SHORT: Mapping[str, Sequence[str]] = {
    "months": MONTHS,
    "days of the week": WEEKDAYS,
    "digits": tuple("0123456789"),
    "number words": NUMBER_WORDS,
    "letters": tuple("abcdefghijklmnopqrstuvwxyz"),
}
LONG: Mapping[str, Sequence[str]] = {
    "numbers": tuple(map(str, range(300))),
    "years": tuple(map(str, range(1820, 2020))),
}
NAMES = (models.GEMMA, models.MINILM, models.GLOVE)
WITH_NUMBERS = (models.MINILM,)
WITHOUT_CHARACTERS = (models.GLOVE,)  # its package leaves out numbers and single letters
N_ORDERS, N_ORDERS_LONG = 9_999, 999
PERIOD = 10


# --- what is measured -------------------------------------------------------------------------------


def tokens_of(name: str, words: Sequence[str]) -> list[str]:
    """The words as a model's tokens: Gemma's begin with a mark, unless they are digits."""
    if name == models.GEMMA:
        return [word if word.isdigit() else f"▁{word}" for word in words]
    return [word.lower() for word in words]


def lists_of(name: str) -> dict[str, list[str]]:
    """The lists that a model has, in its tokens, in their natural order."""
    chosen = {**SHORT, **(LONG if name in WITH_NUMBERS else {})}
    if name in WITHOUT_CHARACTERS:
        chosen = {label: words for label, words in chosen.items() if len(words[-1]) > 1}
    return {label: tokens_of(name, words) for label, words in chosen.items()}


def mode_power(points: np.ndarray) -> np.ndarray:
    """Share of each Fourier mode 1..n//2 in the variance of points (n, D) without a linear trend."""
    rest = detrend(points, axis=0)
    power = np.square(np.abs(np.fft.rfft(rest, axis=0))).sum(axis=1)[1:] * 2
    if len(points) % 2 == 0:
        power[-1] /= 2  # the last mode has no conjugate
    return power / power.sum()


def lowest_tenth(power: np.ndarray) -> float:
    """Share of power in the lowest tenth of the modes."""
    return float(power[: len(power) // 10].sum())


def peak(power: np.ndarray, n: int) -> tuple[float, float]:
    """Power at a period of ten over the median of the modes around it, and the same of the next strongest."""
    mode = n // PERIOD
    first, last = int(np.ceil(mode * 2 / 3)), int(mode * 4 / 3)
    others = np.delete(power[first - 1 : last], mode - first)
    return float(power[mode - 1] / np.median(others)), float(others.max() / np.median(others))


# --- experiments --------------------------------------------------------------------------------------


@dataclass(frozen=True)
class NumbersRun:
    """One released model."""

    model: str


@experiment("released.orders", version=2)
def orders(config: NumbersRun) -> pd.DataFrame:
    """Probe ordered lists of words, in their own order and in alphabetical order.

    Returns
    -------
    DataFrame
        list, order ("natural", "alphabet"), n (words), shape, quantity, value, control, low, high, p: as of
        :func:`embviz.words.groups.probe_groups`, with 9,999 permuted orders, and of numbers and years in
        their own order alone, with 999; of these also "lowest tenth", the share of power in the lowest tenth
        of the modes.
    """
    vectors = models.vectors(config.model)
    rows: list[dict[Hashable, Any]] = []
    for label, words in lists_of(config.model).items():
        long = label in LONG
        n_controls = N_ORDERS_LONG if long else N_ORDERS
        for order in ("natural",) if long else ("natural", "alphabet"):
            own = words if order == "natural" else sorted(words)
            found = probe_groups(vectors, {label: own}, n_controls=n_controls)[label]
            head: dict[Hashable, Any] = {
                "list": label,
                "order": order,
                "n": len(found.words),
                "shape": found.shape,
            }
            rows += [head | row for row in found.table.to_dict("records")]
            if long:
                rows.append(head | _lowest(models.unit_rows(vectors, found.words)))
    table = pd.DataFrame(rows)
    table.attrs["data"] = models.origin(config.model)
    return table


def _lowest(points: np.ndarray) -> dict[str, float | str]:
    random = np.random.default_rng(0)
    controls = [
        lowest_tenth(mode_power(points[random.permutation(len(points))])) for _ in range(N_ORDERS_LONG)
    ]
    value = lowest_tenth(mode_power(points))
    low, high = np.quantile(controls, [0.025, 0.975])
    p = (1 + int(np.greater_equal(controls, value).sum())) / (1 + len(controls))
    found = {"value": value, "control": float(np.mean(controls)), "low": low, "high": high, "p": p}
    return {"quantity": "lowest tenth", **found}


@experiment("released.number_rows")
def number_rows(config: NumbersRun) -> pd.DataFrame:
    """The rows of all lists, centred and at length 1, in 16 bits: what the chapter computes with.

    Returns
    -------
    DataFrame
        As of :func:`book.released.experiments.slices.stored`.
    """
    words = list(dict.fromkeys(itertools.chain(*lists_of(config.model).values())))
    vectors = models.vectors(config.model)
    present = [word for word in words if word in vectors.index]
    table = slices.stored(present, models.unit_rows(vectors, present))
    table.attrs["data"] = models.origin(config.model)
    return table


# --- cells and findings -----------------------------------------------------------------------------


def _cells(preset: str) -> list[Cell]:
    return [orders.cell(NumbersRun(name)) for name in NAMES] if preset == "paper" else []


def _row_cells(preset: str) -> list[Cell]:
    return [number_rows.cell(NumbersRun(name)) for name in NAMES] if preset == "paper" else []


@functools.lru_cache(maxsize=4)
def rows_of(name: str) -> WordVectors:
    """A model's stored rows of the lists, centred and at length 1."""
    return slices.vectors_of(load_runs("released.number_rows", model=name))


def _value(table: pd.DataFrame, column: str, **chosen: str) -> float:
    for name, value in chosen.items():
        table = table[table[name] == value]
    return float(table[column].item())


def _circle(label: str) -> dict[str, Finding]:
    table, found = load_runs("released.orders"), {}
    for name, (measure, quantity) in itertools.product(NAMES, (("mode", "first mode"), ("ends", "closing"))):
        own, control = (
            _value(table, "p", model=name, list=label, order=order, quantity=quantity)
            for order in ("natural", "alphabet")
        )
        key = f"{measure}_{models.TITLES[name].lower()}"
        found[key] = findings.exact(own, controls={"alphabet": control})
    return found


def _smooth(preset: str) -> dict[str, Finding]:
    table, found = load_runs("released.orders"), {}
    for label, name in itertools.product(LONG, WITH_NUMBERS):
        own, high = (
            _value(table, column, model=name, list=label, quantity="lowest tenth")
            for column in ("value", "high")
        )
        found[f"{label}_{models.TITLES[name].lower()}"] = findings.exact(own, controls={"permuted": high})
    return found


def points_of(name: str, label: str) -> np.ndarray:
    """Stored rows (n, D) of one list, in its order."""
    vectors = rows_of(name)
    places = [vectors.index[word] for word in lists_of(name)[label] if word in vectors.index]
    return vectors.word[places].astype(float)


def _period(preset: str) -> dict[str, Finding]:
    found = {}
    for label, name in itertools.product(LONG, WITH_NUMBERS):
        points = points_of(name, label)
        value, other = peak(mode_power(points), len(points))
        key = f"{label}_{models.TITLES[name].lower()}"
        found[key] = findings.exact(value, controls={"other_modes": other})
    return found


STUDIES: dict[str, Study] = {
    "released.months": Study(_cells, lambda preset: _circle("months"), models.NEEDS),
    "released.weekdays": Study(_cells, lambda preset: _circle("days of the week"), models.NEEDS),
    "released.smooth": Study(_cells, _smooth, models.NEEDS),
    "released.period_ten": Study(_row_cells, _period, models.NEEDS),
}
