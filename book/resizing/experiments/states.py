"""How near hidden states of a resized model are to the original's, before and after it is fine-tuned."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd
import torch

from book.language import draw_batch
from book.ledger.cells import Cell, experiment
from book.resizing import angles, rules
from book.resizing.decoder import Decoder
from book.resizing.experiments import bases, recovery
from book.resizing.experiments.bases import Base
from book.resizing.experiments.recovery import PCA, PROJECTION, SCRATCH, RecoveryRun

ORIGINAL, PORTED, TUNED = MOMENTS = ("original", "right after the port", "after fine-tuning")
TREATMENTS = (PROJECTION, PCA, SCRATCH)
N_STATES = 512  # of held-out text, in a layer
SYMBOLS = " etaohnisrdlumyw.g,fcbpvkTHSI\"'"  # whose mean states are compared one by one


@dataclass(frozen=True)
class StatesRun:
    """A model that is carried to another width at once and fine-tuned."""

    run: RecoveryRun


@experiment("resizing.states")
def states(config: StatesRun) -> pd.DataFrame:
    """Carry, fine-tune, and compare hidden states on one batch of held-out text.

    Returns
    -------
    DataFrame
        moment, quantity, layer, index, value. Of models that were carried "concordance" and "angular_error"
        (rad) with the original's states of each layer, 0 being the embedding's; at every moment
        "log_perplexity" (nats) and "cosine" of mean states after the last layer, less their mean, of
        SYMBOLS i < j at index i n + j.
    """
    run, base = config.run, bases.load(config.run.base)
    whole = rules.fold(base.model)
    before = probed(whole, base)
    (width,) = run.widths
    model = recovery.resized(base, base.model, width, run.treatment, run.seed)
    parts = [_rows(ORIGINAL, whole, before, base)]
    parts.append(_rows(PORTED, model, before, base))
    for _ in recovery.fine_tune(model, base, run, 0, run.n_steps):
        pass
    parts.append(_rows(TUNED, model.cpu().eval(), before, base))
    table = pd.concat(parts, ignore_index=True)
    table.attrs["data"] = {run.base.text.corpus: base.streams.checksum}
    return table


def _tokens(base: Base) -> torch.Tensor:
    return draw_batch(base.streams.held_out, seed=0, step=0, batch_size=bases.BATCH, length=base.length)[
        :, :-1
    ]


@torch.no_grad()
def probed(model: Decoder, base: Base) -> np.ndarray:
    """States (L + 1, n, D) of a model on that batch, float64."""
    found: np.ndarray = torch.stack(model.states(_tokens(base))).flatten(1, 2).double().numpy()
    return found


def cosines_of_symbols(last: np.ndarray, tokens: np.ndarray) -> dict[tuple[int, int], float]:
    """Cosines of mean states less their mean, by pair i < j of SYMBOLS; states (n, D) at `tokens` (n,)."""
    there = [i for i, symbol in enumerate(SYMBOLS) if (tokens == ord(symbol)).any()]
    means = np.stack([last[tokens == ord(SYMBOLS[i])].mean(axis=0) for i in there])
    means -= means.mean(axis=0)
    unit = means / np.linalg.norm(means, axis=1, keepdims=True)
    pairs = zip(*np.triu_indices(len(there), 1), strict=True)
    return {(there[i], there[j]): float(unit[i] @ unit[j]) for i, j in pairs}


def _rows(moment: str, model: Decoder, before: np.ndarray, base: Base) -> pd.DataFrame:
    own, tokens = probed(model, base), _tokens(base).flatten().numpy()
    chosen = np.random.default_rng(0).permutation(before.shape[1])[:N_STATES]
    rows = [("log_perplexity", -1, 0, bases.held_out_loss(model, base))]
    of_pairs = cosines_of_symbols(own[-1], tokens).items()
    rows += [("cosine", len(own) - 1, i * len(SYMBOLS) + j, one) for (i, j), one in of_pairs]
    if moment != ORIGINAL:
        for layer, (x, y) in enumerate(zip(before[:, chosen], own[:, chosen], strict=True)):
            rows.append(("concordance", layer, 0, angles.concordance(x, y)))
            rows.append(("angular_error", layer, 0, angles.angular_error(x, y)))
    table = pd.DataFrame(rows, columns=["quantity", "layer", "index", "value"])
    table.insert(0, "moment", moment)
    return table.astype({"layer": "int8", "index": "int16", "value": "float32"})


# --- which, and reading them --------------------------------------------------------------------------


def runs(preset: str) -> list[StatesRun]:
    """Half the width, three ways, with the map and the batches of the recovery sweep's first seed."""
    return [StatesRun(recovery.run_of(preset, (0.5,), treatment)) for treatment in TREATMENTS]


def cells(preset: str) -> list[Cell]:
    """Of these runs, and of their base model."""
    listed = runs(preset)
    return bases.base_cells(listed[0].run.base) + [states.cell(one) for one in listed]


def similarities(table: pd.DataFrame, moment: str) -> pd.DataFrame:
    """The cosines of one run at a moment, both halves: one, other (characters, ␣ for the space), cosine."""
    own = table[(table["quantity"] == "cosine") & (table["moment"] == moment)]
    names = np.array([symbol.replace(" ", "␣") for symbol in SYMBOLS])
    pair = own["index"].to_numpy()
    first, second = names[pair // len(names)], names[pair % len(names)]
    half = {"one": first, "other": second, "cosine": own["value"].to_numpy(float)}
    return pd.concat(
        [pd.DataFrame(half), pd.DataFrame({**half, "one": second, "other": first})], ignore_index=True
    )
