"""The slope of a byte model's gradient spectrum: log power against log mode, along the 256 bytes.

Source: geometry paper, section 3.3, "consistent with a flat gradient power spectrum (beta about -0.35)".
"""

from __future__ import annotations

import dataclasses

import numpy as np
import pandas as pd
import torch

from book.geometry.experiments.hammer_language import (
    MOMENTS,
    HammerRun,
    byte_runs,
    mean_gradients,
    train_and_visit,
)
from book.ledger.cells import Cell, experiment, read
from book.ledger.findings import Finding, over_seeds
from book.ledger.studies import Study
from embviz.training.fourier import power_spectrum


@experiment("geometry.byte_slope")
def byte_slope(config: HammerRun) -> pd.DataFrame:
    """Spectra of the mean gradient of the token embedding, before training and after it.

    Returns
    -------
    DataFrame
        moment, quantity ("gradient", or "permuted": its rows in a random order), mode, power.
    """
    rows: list[tuple[str, str, int, float]] = []
    for moment, model, streams, _ in train_and_visit(config):
        losses = config.hammer.losses(model, streams.held_out, next(model.parameters()).device)
        (gradient,) = mean_gradients(model, losses, ["embedding"])
        order = torch.from_numpy(np.random.default_rng(config.seed).permutation(len(gradient)))
        for name, tensor in (("gradient", gradient), ("permuted", gradient[order])):
            power = power_spectrum(tensor.cpu()).tolist()
            rows += [(moment, name, mode, value) for mode, value in enumerate(power)]
    table = pd.DataFrame(rows, columns=["moment", "quantity", "mode", "power"])
    table.attrs["data"] = {config.text.corpus: streams.checksum}
    return table


def cells_of(preset: str) -> list[Cell]:
    """Models of bytes with a separate head, as the parameters of the paper's say; one cell per seed."""
    return [byte_slope.cell(dataclasses.replace(run, tied=False)) for run in byte_runs(preset)]


def slope(power: np.ndarray) -> float:
    """beta of P(k) ~ k^beta, fitted to log power against log mode by least squares, the mean left out.

    >>> round(slope(np.array([9.0, 1.0, 1 / 2, 1 / 3])), 6)
    -1.0
    """
    modes = np.arange(1, len(power))
    return float(np.polyfit(np.log(modes), np.log(power[1:]), 1)[0])


def slopes(preset: str = "laptop") -> pd.DataFrame:
    """Stored slopes: seed, moment, quantity, beta."""
    rows = []
    for cell in cells_of(preset):
        for (moment, quantity), part in read(cell)[0].groupby(["moment", "quantity"]):
            beta = slope(part.sort_values("mode")["power"].to_numpy())
            rows.append((cell.config.seed, moment, quantity, beta))
    return pd.DataFrame(rows, columns=["seed", "moment", "quantity", "beta"])


def _findings(preset: str) -> dict[str, Finding]:
    table, corpus = slopes(preset), cells_of(preset)[0].config.text.corpus
    of = {key: part["beta"].to_numpy(float) for key, part in table.groupby(["moment", "quantity"])}
    found = {}
    for moment, name in zip(MOMENTS, ("beta", "beta_trained"), strict=True):
        controls = {"permuted": float(of[moment, "permuted"].mean())}
        found[name] = over_seeds(of[moment, "gradient"], controls=controls, corpus=corpus)
    return found


STUDIES = {"geometry.byte_slope": Study(cells_of, _findings)}
