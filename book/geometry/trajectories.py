"""The quick run of the chapter on trajectories: its drawings and numbers, and panels to guess at."""

from __future__ import annotations

import numpy as np
import pandas as pd

from book.geometry.experiments import path_panels as panels
from book.geometry.experiments.path_panels import KINDS, TRAINING, VIEWS, WALK, PanelRun
from embviz.ledger.cells import table_of

PRESET = "laptop"  # of the quick run: seconds, and stored where somebody has stored it
N_DEALS, PANELS = 8, "ABCD"
DEALT = (VIEWS[0], VIEWS[2])


# --- the quick run --------------------------------------------------------------------------------------


def _table() -> pd.DataFrame:
    return table_of(panels.panel_cell(PRESET))


def drawings() -> pd.DataFrame:
    """Every drawing of the quick run: tensor, kind, shown (the view), step, loss, x, y."""
    table = _table()
    return table[table["step"] >= 0].reset_index(drop=True)


def numbers() -> pd.DataFrame:
    """Every number of the quick run: one row per tensor and kind, a column a number."""
    table = _table()
    told = table[table["step"] < 0].pivot(index=["tensor", "kind"], columns="shown", values="x")
    return told.rename_axis(None, axis="columns").reset_index()


def tensors() -> list[str]:
    """The matrices of the quick run, in order."""
    return list(dict.fromkeys(drawings()["tensor"]))


def run_note() -> str:
    """Data, sizes and seed of the quick run, for a caption."""
    config: PanelRun = panels.panel_cell(PRESET).config
    setting, table = config.film.run.setting, drawings()
    return (
        f"Bytes of the embedded text, {setting.n_layers} layers of width {setting.embedding_dim}, "
        f"{setting.n_steps} steps, {table['step'].nunique()} snapshots, seed {config.film.run.seed}. "
        "Walks have a matrix's step lengths, its number of weights and the momentum of successive steps."
    )


def stage_grid() -> pd.DataFrame:
    """Rows of an explorer over tensor, view and path: `step`, `loss`, `x`, `y`, signs as in training."""
    parts = []
    for _, both in drawings().groupby(["tensor", "shown"], sort=False):
        by_kind = {kind: both[both["kind"] == kind] for kind in KINDS}
        reference = by_kind[TRAINING]
        for part in by_kind.values():
            parts.append(_turned(part, reference))
    table = pd.concat(parts, ignore_index=True).rename(columns={"shown": "view", "kind": "path"})
    return table.assign(loss=table["loss"].round(3), x=table["x"].round(3), y=table["y"].round(3))


def _turned(part: pd.DataFrame, reference: pd.DataFrame) -> pd.DataFrame:
    """Points turned or mirrored, not stretched, to lie as near as they can to the reference's."""
    points, goal = part[["x", "y"]].to_numpy(), reference[["x", "y"]].to_numpy()
    left, _, right = np.linalg.svd(points.T @ goal)
    x, y = (points @ left @ right).T
    return part.assign(x=x, y=y)


# --- guess which ----------------------------------------------------------------------------------------


def deal(number: int) -> list[tuple[str, str]]:
    """Four panels: tensor and kind of each, of both kinds at least one; no path twice."""
    rng = np.random.default_rng([1933, number])
    names, n_panels = tensors(), len(PANELS)
    n_training = int(rng.integers(1, n_panels))
    kinds = rng.permutation([TRAINING] * n_training + [WALK] * (n_panels - n_training))
    chosen = rng.permutation(len(names))[:n_panels]
    return [(names[place], str(kind)) for place, kind in zip(chosen, kinds, strict=True)]


def dealt(deal_number: int, view: str, answers: bool) -> dict[str, pd.DataFrame]:
    """Panels of a deal, each turned and mirrored at random, so that no sign gives it away.

    Returns
    -------
    dict
        `paths`: `panel` ("A" to "D"), `step`, `x`, `y`; `told`: `panel` and `answer`, in words or "?".
    """
    rng = np.random.default_rng([2018, deal_number])
    table, cards = drawings(), dict(zip(PANELS, deal(deal_number), strict=True))
    parts = []
    for name, (tensor, kind) in cards.items():
        chosen = (table["tensor"] == tensor) & (table["kind"] == kind) & (table["shown"] == view)
        part = table[chosen]
        matrix = np.linalg.qr(rng.standard_normal((2, 2))).Q
        x, y = (part[["x", "y"]].to_numpy() @ matrix).round(3).T
        parts.append(pd.DataFrame({"panel": name, "step": part["step"], "x": x, "y": y}))
    words = [f"{'is' if kind == TRAINING else 'walks like'} {tensor}" for tensor, kind in cards.values()]
    return {
        "paths": pd.concat(parts, ignore_index=True),
        "told": pd.DataFrame({"panel": list(cards), "answer": words if answers else "?"}),
    }
