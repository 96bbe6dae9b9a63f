"""What EXor's models have learned: stored models that answer, strings to ask, readings of the text."""

from __future__ import annotations

import dataclasses
import functools
import itertools
from collections.abc import Callable

import numpy as np
import pandas as pd
import torch

from book.ledger.cells import Cell, read
from book.tying import exor_charts as chapter
from book.tying.experiments import exor
from book.tying.experiments.exor_runs import READINGS, load_model, prepare
from book.tying.languages.exor import MASK, SYMBOLS, EXor

READING_SEEDS = 5  # as many as the paper has; the main task was run with more


def scores(task: str = "both pairs") -> pd.DataFrame:
    """Mean accuracy over the last tenth of training: one row per seed, columns untied and tied."""
    table = chapter.curves(task)
    return pd.DataFrame({name: exor.late_accuracy(rows) for name, rows in table.groupby("tying")})[
        list(chapter.TYINGS)
    ]


def sampled_answers() -> np.ndarray:
    """What the paper's way of scoring asks for: the masked symbols of 12 held-out strings, spelled once."""
    answers: np.ndarray = prepare(dataclasses.replace(exor.MAIN, n_seeds=1)).gauge.answers.numpy()
    return answers


@functools.cache
def stored_model(seed: int, tied: bool) -> Callable[[np.ndarray], np.ndarray]:
    """A stored model of the main task as it was at the end: from tokens (n, T) to probabilities (n, V)."""
    cell = exor.cell_of(exor.MAIN)
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
    """Tokens (1, 8) of a masked string such as ``"1A 0B ? 0B 0B 1B 1A E"``; ValueError if it is none."""
    symbols = text.split()
    unknown = [symbol for symbol in symbols if symbol not in SYMBOLS]
    if unknown:
        raise ValueError(f"{unknown[0]!r} is no symbol of EXor: write {', '.join(SYMBOLS)}, with spaces")
    tokens = np.array([[SYMBOLS.index(symbol) for symbol in symbols]], dtype=np.uint8)
    EXor().conditional(tokens)  # refuses what is none of the task's strings
    return tokens


# --- readings of the text -------------------------------------------------------------------------------


def reading_cell(reading: str) -> Cell | None:
    """The stored cell of a reading: the main task, with as many seeds as were run."""
    run = dataclasses.replace(exor.MAIN, reading=reading)
    cells = [exor.exor.cell(dataclasses.replace(run, n_seeds=n)) for n in (run.n_seeds, READING_SEEDS)]
    return next((cell for cell in cells if cell.stored()), None)


def readings() -> pd.DataFrame:
    """Where each reading of the text ends, tidy: `reading`, `seed`, `quantity`, `value`; none if not stored.

    Quantities are the best possible accuracy minus that of the last tenth of training, by tying, and the
    relative distance of each pair in each matrix at the last step.
    """
    parts = []
    for reading, options in READINGS.items():
        cell = reading_cell(reading)
        if cell is None:
            continue
        table = exor.curves(cell.config)
        best = EXor().optimal_accuracy(EXor().strings()[: None if options.all_ones else -1])
        for tied, rows in table.groupby("tied"):
            gap = (best - exor.late_accuracy(rows)).rename("value").reset_index()
            parts.append(gap.assign(quantity=f"accuracy gap, {chapter.TYINGS[bool(tied)]}", reading=reading))
        ends = chapter.distances(chapter.last(table))
        ends = ends[ends["pair"] != chapter.PAIRS["01"]]
        words = ends["pair"] + ", " + ends["matrix"]
        part = pd.DataFrame({"seed": ends["seed"], "value": ends["relative_distance"], "quantity": words})
        parts.append(part.assign(reading=reading))
    return pd.concat(parts, ignore_index=True)
