"""Does Gemma need what is in its query matrices? One of them is replaced, and the loss is taken again."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd

from book.ledger import findings
from book.ledger.cells import Cell, experiment
from book.ledger.findings import Finding
from book.ledger.stored import load_runs
from book.ledger.studies import Study
from book.released import gemma, models
from embviz.corpora.corpus import load_text
from embviz.inspection import patch

LAYERS = tuple(range(18))  # 5, 11 and 17 attend to all positions
N_PARTS, N_STRINGS, N_TOKENS = 3, 2, 128
TEXT = "wikitext2"
HOWS = ("identity", "key", "zero", "permuted", "other_places")  # of W_Q
KEYS = "keys permuted"
PARTS = "parts of the text"


@dataclass(frozen=True)
class QueryRun:
    """One layer of Gemma, whose W_Q is replaced in each way, and whose W_K is permuted."""

    layer: int


def other_places(matrix: np.ndarray) -> np.ndarray:
    """The same entries in random places, not the places of "permuted"."""
    return np.random.default_rng(1).permutation(matrix.ravel()).reshape(matrix.shape)


@experiment("released.queries")
def queries(config: QueryRun) -> pd.DataFrame:
    """Replace a layer's query matrix, then its key matrix, and measure the loss on parts of a text.

    Returns
    -------
    DataFrame
        layer, part, how ("unchanged", a replacement of W_Q, or "keys permuted"), loss (bits a token), cost
        (loss less the unchanged model's).
    """
    model = gemma.language_model()
    strings = gemma.text_parts(load_text(TEXT, part="test"), N_PARTS, N_STRINGS, N_TOKENS)
    name, tables = f"layers.{config.layer}.self_attn", []
    for part, ids in enumerate(strings):
        hows = ["identity", "key", "zero", "permuted", other_places]
        of_queries = patch(model, f"{name}.q_proj", hows, strings=ids)
        of_keys = patch(model, f"{name}.k_proj", "permuted", strings=ids).iloc[1:].assign(how=KEYS)
        tables.append(pd.concat([of_queries, of_keys]).assign(layer=config.layer, part=part))
    table = pd.concat(tables, ignore_index=True).rename(columns={"difference": "cost"})
    table = table[["layer", "part", "how", "loss", "cost"]]
    table.attrs["data"] = models.origin(models.GEMMA) | {TEXT: models.text_checksum(TEXT, "test")}
    return table


# --- cells and findings -----------------------------------------------------------------------------


def _cells(preset: str) -> list[Cell]:
    return [queries.cell(QueryRun(layer)) for layer in LAYERS] if preset == "paper" else []


def _mean_costs() -> pd.DataFrame:
    """Cost averaged over layers, a row a part, a column a replacement."""
    return load_runs("released.queries").pivot_table("cost", "part", "how", aggfunc="mean")


def _queries(preset: str) -> dict[str, Finding]:
    means = _mean_costs()
    control = {"permuted": float(means["permuted"].mean())}
    return {
        how: findings.over_seeds(
            means[how].to_numpy(), repeats=PARTS, corpus=TEXT, controls={} if how == "zero" else control
        )
        for how in ("identity", "key", "zero")
    }


def _content(preset: str) -> dict[str, Finding]:
    means = _mean_costs()
    saved = {how: 1 - (means[how] / means["zero"]).to_numpy() for how in HOWS}
    control = {"permuted": float(saved["permuted"].mean())}
    return {
        how: findings.over_seeds(saved[how], repeats=PARTS, corpus=TEXT, controls=control)
        for how in ("identity", "key")
    }


def _keys(preset: str) -> dict[str, Finding]:
    means = _mean_costs()
    ratio, control = (means[how] / means["permuted"] for how in (KEYS, "other_places"))
    controls = {"other_places": float(control.mean())}
    return {"ratio": findings.over_seeds(ratio.to_numpy(), repeats=PARTS, corpus=TEXT, controls=controls)}


STUDIES: dict[str, Study] = {
    "released.queries": Study(_cells, _queries, models.NEEDS),
    "released.queries_content": Study(_cells, _content, models.NEEDS),
    "released.keys": Study(_cells, _keys, models.NEEDS),
}
