"""Who carries the circuit of a model that has grokked: its embedding, or all the rest?

A model learns; a second one, with the same training pairs and other weights, is given the first one's
embedding, frozen, or everything but the embedding. What it is given decides how soon it groks.

Source: geometry paper, section 2.1: attention does not carry the structure independently, it inherits it.
"""

from __future__ import annotations

import dataclasses

import numpy as np
import pandas as pd
import torch

from book.geometry.experiments.grokking import GrokkingRun, Members
from book.geometry.experiments.steering import BASE, GROKKED, at_preset
from embviz.ledger.cells import Cell, experiment, read
from embviz.ledger.findings import Finding, over_seeds
from embviz.ledger.studies import Study
from embviz.models.transformer import Transformer
from embviz.training.fourier import power_spectrum

GIVEN = (NOTHING, EMBEDDING, REST) = ("nothing", "embedding", "all but the embedding")
ATTENTION = ("query", "key", "value", "out")
TOP = 5  # strongest modes
N_SEEDS = {"quick": 2, "laptop": 3, "paper": 3}
OTHER = 1_000  # what is added to a donor's seed for the weights of those who receive


@dataclasses.dataclass(frozen=True)
class Transplant:
    """A donor of one seed."""

    donor: GrokkingRun


@experiment("geometry.transplant")
def transplant(config: Transplant) -> pd.DataFrame:
    """Train a donor, then the two who are given a part of it, frozen.

    Returns
    -------
    DataFrame
        given, quantity, name, value. Quantities: "epoch" (the first at 95% of validation, or the limit),
        "grokked" (0 or 1); of the donor, by tensor, "share" and "permuted": the part of power in the 5
        strongest modes along its input axis, mode 0 left out, as it is and with its rows in a random order.
    """
    donor = Members(config.donor, [config.donor.first_seed])
    rows = [(NOTHING, *row) for row in _train(donor)]
    assert isinstance(donor.model, Transformer)
    for given in (EMBEDDING, REST):
        receiver = Members(config.donor, [config.donor.first_seed])
        receiver.model = _with_part(donor.model, given, config.donor.first_seed + OTHER)
        rows += [(given, *row) for row in _train(receiver)]
    rows += [(NOTHING, *row) for row in _shares(donor.model, config.donor)]
    return pd.DataFrame(rows, columns=["given", "quantity", "name", "value"])


def _with_part(donor: Transformer, given: str, seed: int) -> Transformer:
    """A model of another seed with a part of the donor's weights, frozen."""
    model = Transformer(donor.config, seed=seed)
    theirs = dict(donor.named_parameters())
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if (name == "embedding") == (given == EMBEDDING):
                parameter.copy_(theirs[name])
                parameter.requires_grad_(False)
    return model


def _train(members: Members) -> list[tuple[str, str, float]]:
    """Train until the model groks or its epochs are over."""
    for epoch in range(members.config.n_epochs + 1):
        (frame,) = members.frames(epoch)
        if (frame.validation_accuracy or 0.0) >= GROKKED:
            return [("epoch", "", float(max(1, epoch))), ("grokked", "", 1.0)]
    return [("epoch", "", float(epoch)), ("grokked", "", 0.0)]


def _shares(model: Transformer, run: GrokkingRun) -> list[tuple[str, str, float]]:
    tensors = {"embedding": model.embedding[: run.p]} | {
        f"{layer}.{name}": getattr(block.attention, name).weight.T  # its inputs along axis 0
        for layer, block in enumerate(model.blocks)
        for name in ATTENTION
    }
    rng = np.random.default_rng(run.first_seed)
    rows = []
    for name, tensor in tensors.items():
        array = tensor.detach()
        order = torch.from_numpy(rng.permutation(len(array)))
        rows += [("share", name, top_share(array)), ("permuted", name, top_share(array[order]))]
    return rows


def top_share(tensor: torch.Tensor) -> float:
    """Part of a tensor's power along axis 0 in its 5 strongest modes, the mean left out."""
    power = np.sort(power_spectrum(tensor)[1:])
    return float(power[-TOP:].sum() / power.sum())


# --- findings -------------------------------------------------------------------------------------------


def cells_of(preset: str) -> list[Cell]:
    """One cell per donor."""
    return [transplant.cell(Transplant(at_preset(BASE, preset, seed))) for seed in range(N_SEEDS[preset])]


def transplants(preset: str) -> pd.DataFrame:
    """Stored results: seed, and the columns of :func:`transplant`."""
    parts = [read(cell)[0].assign(seed=cell.config.donor.first_seed) for cell in cells_of(preset)]
    return pd.concat(parts, ignore_index=True)


def _findings(preset: str) -> dict[str, Finding]:
    table = transplants(preset)
    epochs = table[table["quantity"] == "epoch"].pivot(index="seed", columns="given", values="value")
    saved = {given: (100 * (1 - epochs[given] / epochs[NOTHING])).to_numpy() for given in (EMBEDDING, REST)}
    shares = table[table["quantity"].isin(["share", "permuted"])]
    wide = shares.pivot(index=["seed", "name"], columns="quantity", values="value")
    excess = (wide["share"] - wide["permuted"]).unstack("name")  # one row per seed, one column per tensor
    return {
        "difference": over_seeds(saved[EMBEDDING] - saved[REST]),
        "embedding_excess": over_seeds(excess["embedding"].to_numpy()),
        "embedding_given": over_seeds(saved[EMBEDDING]),
        "rest_given": over_seeds(saved[REST]),
        "donor": over_seeds(epochs[NOTHING].to_numpy()),
    }


STUDIES = {"geometry.carrier": Study(cells_of, _findings)}
