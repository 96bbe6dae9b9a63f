"""The gradient of Gemma's embedding on a text: is it regular along the token ids?"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from book.ledger import findings
from book.ledger.cells import Cell, experiment, table_of
from book.ledger.findings import Finding
from book.ledger.studies import Study
from book.released import gemma, models
from embviz.corpora.corpus import load_text
from embviz.training.fourier import strike

N_PARTS, N_STRINGS, N_TOKENS, N_PERMUTATIONS = 3, 4, 128, 2
TEXT, PARTS = "wikitext2", "parts of the text"


@dataclass(frozen=True)
class HammerRun:
    """The gradient of Gemma's embedding on one part of a text, with or without the first token."""

    part: int
    first: bool


@experiment("released.hammer")
def hammer(config: HammerRun) -> pd.DataFrame:
    """Regularity of the gradient along the token ids.

    Returns
    -------
    DataFrame
        One row: regularity, permuted (one order of the ids), once (another order), flat, noise,
        loss (bits a token), modes (the eight strongest).
    """
    ids = gemma.text_parts(load_text(TEXT, part="test"), N_PARTS, N_STRINGS, N_TOKENS)[config.part]
    model, losses = gemma.language_model(), []

    def loss(module: nn.Module, string: Tensor) -> Tensor:
        """Of the same tokens with and without the first one: from the third place on."""
        logits = module(string[:, :-1] if config.first else string[:, 1:-1]).logits
        targets = string[0, 2:]
        value = cross_entropy(logits[0, -len(targets) :], targets)
        losses.append(value.item() / np.log(2))
        return value

    name = "model.embed_tokens.weight"
    batches = [one[None] for one in ids]
    one = strike(model, loss, batches, tensors=[name], n_permutations=N_PERMUTATIONS)[name]
    row = {
        "regularity": one.regularity,
        "permuted": float(one.permuted[1]),
        "once": float(one.permuted[0]),
        "flat": one.flat,
        "noise": one.noise,
        "loss": float(np.mean(losses)),
        "modes": " ".join(map(str, one.modes[:8])),
    }
    table = pd.DataFrame([row])
    table.attrs["data"] = models.origin(models.GEMMA) | {TEXT: models.text_checksum(TEXT, "test")}
    return table


HAMMER_RUNS = (*(HammerRun(part, first=True) for part in range(N_PARTS)), HammerRun(0, first=False))


def _hammer_cells(preset: str) -> list[Cell]:
    if preset != "paper":
        return []
    return [hammer.cell(run) for run in HAMMER_RUNS]


def strikes() -> pd.DataFrame:
    """All gradients: part, first, and the columns of :func:`hammer`."""
    every = [table_of(hammer.cell(run)).assign(part=run.part, first=run.first) for run in HAMMER_RUNS]
    return pd.concat(every, ignore_index=True)


def _hammer(preset: str) -> dict[str, Finding]:
    table = strikes()
    own = table[table["first"]].set_index("part")
    once = {"permuted": float((own["once"] - own["permuted"]).mean())}
    return {
        "excess": findings.over_seeds(
            (own["regularity"] - own["permuted"]).to_numpy(), controls=once, repeats=PARTS, corpus=TEXT
        ),
    }


STUDIES: dict[str, Study] = {"released.hammer": Study(_hammer_cells, _hammer, models.NEEDS)}
