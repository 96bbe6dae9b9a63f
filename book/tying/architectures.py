"""Other architectures: the stored runs of appendix C's six models, as far as they go."""

from __future__ import annotations

import functools

import pandas as pd

from book.ledger.cells import Cell, read
from book.tying.experiments import exor
from book.tying.experiments.exor_runs import EXorRun, load_model
from book.tying.models.encoders import Encoder

# The model of section 5 and those of appendix C: first seeds, and those that were not looked at before.
MODELS: dict[str, tuple[EXorRun, ...]] = {
    "transformer": (exor.MAIN, exor.FRESH_MAIN),
    "LSTM": (exor.LSTM, exor.FRESH_LSTM),
    "Mixer": (exor.MIXER, exor.FRESH_MIXER),
    "larger transformer": (exor.LARGER, exor.FRESH_LARGER),
    "larger LSTM": (exor.BIGGER_LSTM,),
    "larger Mixer": (exor.BIGGER_MIXER,),
}
SMALL = ("transformer", "LSTM", "Mixer")
PRESETS = ("paper", "laptop", "quick")  # the longest runs first


def stored_cells(model: str) -> list[Cell]:
    """Cells of a key of MODELS: the longest of its runs that are stored, and its further seeds."""
    first, *more = MODELS[model]
    found: list[Cell] = []
    for preset in PRESETS:
        cells = [exor.cell_of(run, preset) for run in (first, *more)]
        found = [cell for cell in cells if cell.stored()]
        if preset == "paper" and found and not cells[0].stored():
            before = exor.cell_of(first, "laptop")  # fewer seeds, as many steps
            found += [before] if before.stored() else []
        if found:
            break
    return found


@functools.cache
def curves(model: str) -> pd.DataFrame:
    """:func:`book.tying.experiments.exor.curves` of all stored seeds of a model.

    Raises
    ------
    ValueError
        If there is no such model, or none of its runs is stored.
    """
    if model not in MODELS:
        raise ValueError(f"no model {model!r}: choose one of {', '.join(MODELS)}")
    cells = stored_cells(model)
    if not cells:
        raise ValueError(
            f"no run of the {model} is stored: `python -m book run tying.lstm --preset quick`, or larger"
        )
    return pd.concat([exor.curves(cell.config, "paper") for cell in cells], ignore_index=True)  # as they are


def about(model: str) -> str:
    """Data, seeds and steps of a model's stored runs, for a caption."""
    table = curves(model)
    return (
        f"EXor, {table['seed'].nunique()} seeds, {table['step'].max():,} steps. Thin: a seed; thick: their "
        "mean; band: its 95% interval."
    )


@functools.cache
def trained(model: str) -> Encoder:
    """The untied model of seed 0 as its longest stored run left it; ValueError if none is kept whole."""
    cell = stored_cells(model)[0]
    return load_model(cell.config, read(cell)[0], seed=0, tied=False)
