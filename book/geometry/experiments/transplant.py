"""Which part of a model that has grokked makes another one grok: its embedding, attention, or MLPs and head?

A donor learns until it has finished; other models, with the same training pairs and other weights, are each
given one part of it, frozen. The part decides how soon they grok.

Source: geometry paper, section 2.1: attention does not carry the structure independently, it inherits it.
"""

from __future__ import annotations

import dataclasses

import numpy as np
import pandas as pd
import torch

from book.geometry.experiments.grokking import GrokkingRun, Members, Setting
from book.geometry.experiments.steering import BASE, GROKKED, at_preset
from book.ledger.cells import Cell, experiment, read
from book.ledger.findings import Finding, over_seeds
from book.ledger.studies import Study
from book.transformer import Transformer
from embviz.training.fourier import power_spectrum

GIVEN = (NOTHING, EMBEDDING, ATTENTION, REST) = ("nothing", "embedding", "attention", "MLPs and head")
UNTRAINED = {part: f"untrained {part}" for part in (EMBEDDING, ATTENTION)}  # controls: frozen as they begin
TOP = 5  # strongest modes
SEEDS = {"quick": range(2), "laptop": range(30, 40), "paper": range(25, 28)}
SMALL = GrokkingRun(  # of the laptop preset; groks within some 150 epochs, in seconds
    p=29,
    train_share=0.7,
    n_epochs=400,
    setting=Setting(n_layers=1, learning_rate=2e-3, weight_decay=3.0, beta2=0.98),
)
OTHER = 1_000  # what is added to a donor's seed for the weights of those who receive


@dataclasses.dataclass(frozen=True)
class Transplant:
    """A donor of one seed, and the most epochs of a receiver."""

    donor: GrokkingRun
    n_epochs: int = 750


@experiment("geometry.transplant", version=3)
def transplant(config: Transplant) -> pd.DataFrame:
    """Train a donor until it has finished, then three models that are each given a part of it, frozen.

    As controls, two more models keep their own untrained embedding or attention, frozen.

    Returns
    -------
    DataFrame
        given, quantity, value. Quantities: "epoch" (the first at 95% of validation, or the limit), "grokked"
        (0 or 1); of the donor's embedding "share" and "permuted": the part of power in the 5 strongest modes,
        mode 0 left out, as it is and with its rows in a random order.
    """
    donor = Members(config.donor, [config.donor.first_seed])
    rows = [(NOTHING, *row) for row in _train(donor, to_the_end=True)]
    assert isinstance(donor.model, Transformer)
    shorter = dataclasses.replace(config.donor, n_epochs=min(config.n_epochs, config.donor.n_epochs))
    other = config.donor.first_seed + OTHER
    untrained = Transformer(donor.model.config, seed=other)
    for source, names in (
        (donor.model, dict(zip(GIVEN[1:], GIVEN[1:], strict=True))),
        (untrained, UNTRAINED),
    ):
        for part, given in names.items():
            receiver = Members(shorter, [config.donor.first_seed])
            receiver.model = _with_part(source, part, other)
            rows += [(given, *row) for row in _train(receiver)]
    residues = donor.model.embedding[: config.donor.p].detach()
    order = torch.from_numpy(np.random.default_rng(config.donor.first_seed).permutation(len(residues)))
    rows += [(NOTHING, "share", top_share(residues)), (NOTHING, "permuted", top_share(residues[order]))]
    return pd.DataFrame(rows, columns=["given", "quantity", "value"])


def part_of(name: str) -> str:
    """The part to which a parameter belongs; norms and positions belong to none.

    >>> part_of("embedding"), part_of("blocks.0.attention.key.weight"), part_of("position")
    ('embedding', 'attention', '')
    """
    if name == "embedding":
        return EMBEDDING
    if ".attention." in name:
        return ATTENTION
    return REST if name == "free_head" or ".up." in name or ".down." in name else ""


def _with_part(donor: Transformer, given: str, seed: int) -> Transformer:
    """A model of another seed with a part of the donor's weights, frozen."""
    model = Transformer(donor.config, seed=seed)
    theirs = dict(donor.named_parameters())
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if part_of(name) == given:
                parameter.copy_(theirs[name])
                parameter.requires_grad_(False)
    return model


def _train(members: Members, *, to_the_end: bool = False) -> list[tuple[str, float]]:
    """Train until the model groks, or until it has 99.9% for 20 epochs, or its epochs are over."""
    first = 0
    for epoch in range(members.config.n_epochs + 1):
        (frame,) = members.frames(epoch)
        if not first and (frame.validation_accuracy or 0.0) >= GROKKED:
            first = max(1, epoch)
        if first and not (to_the_end and members.going):
            break
    return [("epoch", float(first or epoch)), ("grokked", float(first > 0))]


def top_share(tensor: torch.Tensor) -> float:
    """Part of a tensor's power along axis 0 in its 5 strongest modes, the mean left out."""
    power = np.sort(power_spectrum(tensor)[1:])
    return float(power[-TOP:].sum() / power.sum())


# --- findings -------------------------------------------------------------------------------------------


def cells_of(preset: str) -> list[Cell]:
    """One cell per donor."""
    seeds = SEEDS[preset]
    if preset == "laptop":
        return [transplant.cell(Transplant(dataclasses.replace(SMALL, first_seed=seed))) for seed in seeds]
    return [transplant.cell(Transplant(at_preset(BASE, preset, seed))) for seed in seeds]


def transplants(preset: str = "laptop") -> pd.DataFrame:
    """Stored results: seed, and the columns of :func:`transplant`."""
    parts = [read(cell)[0].assign(seed=cell.config.donor.first_seed) for cell in cells_of(preset)]
    return pd.concat(parts, ignore_index=True)


def _findings(preset: str) -> dict[str, Finding]:
    table = transplants(preset)
    epochs = table[table["quantity"] == "epoch"].pivot(index="seed", columns="given", values="value")
    given = (*GIVEN[1:], *UNTRAINED.values())
    saved = {name: (100 * (1 - epochs[name] / epochs[NOTHING])).to_numpy() for name in given}
    untrained = float((saved[UNTRAINED[EMBEDDING]] - saved[UNTRAINED[ATTENTION]]).mean())
    shares = table[table["quantity"].isin(["share", "permuted"])]
    wide = shares.pivot(index="seed", columns="quantity", values="value")
    return {
        "embedding_minus_attention": over_seeds(
            saved[EMBEDDING] - saved[ATTENTION], controls={"untrained": untrained}
        ),
        "embedding_excess": over_seeds((wide["share"] - wide["permuted"]).to_numpy()),
        "embedding_given": over_seeds(saved[EMBEDDING]),
        "attention_given": over_seeds(saved[ATTENTION]),
        "rest_given": over_seeds(saved[REST]),
        "untrained_embedding": over_seeds(saved[UNTRAINED[EMBEDDING]]),
        "untrained_attention": over_seeds(saved[UNTRAINED[ATTENTION]]),
    }


STUDIES = {"geometry.carrier": Study(cells_of, _findings)}
