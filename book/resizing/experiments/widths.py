"""Two conjectures of the paper: larger models are carried better; geometry that is kept keeps the language.

The first is asked of base models of several widths, each carried to half of its own; the second of one base
model, carried by many maps to many widths, and by maps that keep every angle under rules that do not commute.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from scipy.stats import rankdata

from book.ledger.cells import Cell, experiment, table_of
from book.ledger.findings import Finding, over_seeds
from book.ledger.studies import Part, Study
from book.resizing import angles, rules
from book.resizing.experiments import bases
from book.resizing.experiments.bases import Base, BaseRun, with_bases
from book.resizing.experiments.porting import Treatment
from book.resizing.experiments.recovery import (
    PROJECTION,
    SCRATCH,
    WITHIN,
    RecoveryRun,
    curves,
    recovery,
    when_recovered,
)
from book.resizing.experiments.tuned import PRINTED
from embviz import projections
from embviz.projections import Projection

WIDTHS: Mapping[str, tuple[int, ...]] = {
    "quick": (32, 64),
    "laptop": (64, 128, 256),
    "paper": (64, 128, 256, 512, 1_024),
}
SEEDS = (1, 2, 3)  # of base models, none of which was looked at when the ranges were fixed
N_STEPS = {"quick": 40, "laptop": 1_200, "paper": 1_200}


# --- the law of width ---------------------------------------------------------------------------------


def base(preset: str, width: int, seed: int) -> BaseRun:
    """A base model of another width: heads of one size, MLPs four times as wide, as many updates.

    At the preset's own width it is the preset's own base model.
    """
    run = bases.base(preset, seed=seed)
    if width == run.shape.embedding_dim:
        return run
    n_heads = max(1, width * run.shape.n_heads // run.shape.embedding_dim)
    mlp_dim = width * run.shape.mlp_dim // run.shape.embedding_dim
    shape = dataclasses.replace(run.shape, embedding_dim=width, n_heads=n_heads, mlp_dim=mlp_dim)
    return dataclasses.replace(run, shape=shape)


def run_of(preset: str, width: int, seed: int, treatment: str = PROJECTION) -> RecoveryRun:
    """A base model at half its width, fine-tuned."""
    rate = 1e-2 if preset == "quick" else 1e-3
    return RecoveryRun(base(preset, width, seed), (0.5,), treatment, seed, N_STEPS[preset], rate)


def _width_cells(preset: str) -> list[Cell]:
    """Seed by seed, so that a sweep that stops leaves whole laws.

    Weights of other widths than the preset's own are not kept, 7 MB that nothing reads: a recovery trains its
    original where none is stored, and holds what the law is made of.
    """
    cells = []
    for seed in SEEDS:
        for width in WIDTHS[preset]:
            runs = [recovery.cell(run_of(preset, width, seed, how)) for how in (PROJECTION, SCRATCH)]
            own = width == bases.base(preset).shape.embedding_dim
            cells += with_bases([base(preset, width, seed)], runs) if own else runs
    return cells


@dataclass(frozen=True)
class Carried:
    """What a base model of one width lost."""

    lost: float  # nats above the original right after the port
    tuned: float  # after 400 updates, or the last if there are fewer


def carried(run: RecoveryRun) -> Carried:
    """From a stored cell."""
    table = curves([run], stored=False)
    tuned = table[table["step"] <= 400]["lost"].iloc[-1]
    return Carried(float(table["lost"].iloc[0]), float(tuned))


def slope(values: Mapping[int, float]) -> float:
    """Slope of a quantity on the logarithm of the width to base 2.

    >>> slope({64: 3.0, 128: 2.0, 256: 1.0})
    -1.0
    """
    widths = np.log2(list(values))
    return round(float(np.polyfit(widths, list(values.values()), 1)[0]), 12)


def laws(preset: str, quantity: str, treatment: str = PROJECTION) -> np.ndarray:
    """Slope of lost or tuned nats, one a seed of base models."""
    found = []
    for seed in SEEDS:
        own = {width: carried(run_of(preset, width, seed, treatment)) for width in WIDTHS[preset]}
        values = {width: getattr(one, quantity) for width, one in own.items()}
        found.append(slope(values))
    return np.array(found)


def _width_findings(preset: str) -> dict[str, Finding]:
    corpus = bases.base(preset).text.corpus
    several: dict[str, Any] = {"repeats": "base models of each width", "corpus": corpus}
    found = {
        f"slope_{quantity}": over_seeds(
            laws(preset, quantity),
            controls={"scratch": float(laws(preset, quantity, SCRATCH).mean())},
            **several,
        )
        for quantity in ("lost", "tuned")
    }
    return found


# --- geometry against loss ----------------------------------------------------------------------------

ORTHONORMAL, PCA, COORDINATES = "orthonormal", "pca", "coordinates"
KINDS = ("gaussian", "rademacher", "sparse", "hadamard", ORTHONORMAL, PCA, COORDINATES)
ROTATED: Mapping[str, Treatment] = {  # at m = d by a rotation, which keeps every angle
    "commuting rules": Treatment(),
    "as printed": PRINTED,
    "plain heads": Treatment(attention="plain"),
    "gains dropped": Treatment(gains="drop"),
    "centering kept": Treatment(centering="keep"),
}


@dataclass(frozen=True)
class LanguageRun:
    """One base model carried by many maps, without fine-tuning."""

    base: BaseRun
    quarters: tuple[float, ...] = (1.0, 1.5, 2.0, 2.5, 3.0, 3.5)  # m in quarters of d
    n_draws: int = 3
    n_calibration: int = 4_096  # hidden states that PCA sees
    n_probes: int = 512  # hidden states that angles are taken of, beside the embeddings
    seed: int = 0


@experiment("resizing.language")
def language(config: LanguageRun) -> pd.DataFrame:
    """Angles and loss of ports.

    Returns
    -------
    DataFrame
        rule, family, m, draw, error (mean angular error of embeddings and hidden states, radians),
        concordance (mean of both), lost (nats above the original right after the port).
    """
    own = bases.load(config.base)
    table = pd.DataFrame(_language_rows(config, own))
    table.attrs["data"] = {config.base.text.corpus: own.streams.checksum}
    return table


def _language_rows(config: LanguageRun, own: Base) -> Iterator[dict[str, Any]]:
    d = config.base.shape.embedding_dim
    folded = rules.fold(own.model)
    seen = _centered(bases.calibration(own, config.n_calibration, config.seed))
    probes = (
        folded.embedding.detach().double().numpy(),
        _centered(bases.calibration(own, config.n_probes, config.seed + 1)),
    )
    for quarters in config.quarters:
        m = max(1, round(d * quarters / 4))
        for family in KINDS:
            for draw in range(1 if family == PCA else config.n_draws):
                projection = _drawn(family, m, d, [config.seed, m, draw], seen)
                energy = float((projection.apply(seen) ** 2).sum() / (seen**2).sum())
                model = rules.resize(folded, m, projection=projection, energy=energy).model
                yield _row("commuting rules", family, m, draw, probes, projection, model, own)
    for rule, treatment in ROTATED.items():
        for draw in range(config.n_draws):
            projection = projections.draw("orthonormal", d, d, seed=[config.seed, d, draw], scaling="unit")
            model = treatment.carry(own.model, d, projection, draw).model
            yield _row(rule, ORTHONORMAL, d, draw, probes, projection, model, own)


def _centered(states: np.ndarray) -> np.ndarray:
    """States as a folded model has them."""
    return states - states.mean(axis=1, keepdims=True)


def _drawn(family: str, m: int, d: int, seed: list[int], seen: np.ndarray) -> Projection:
    if family == PCA:
        return projections.pca(seen / np.linalg.norm(seen, axis=1, keepdims=True), m)
    if family == COORDINATES:
        return projections.coordinates(m, d, seed, scaling="unit")
    return projections.draw(family, m, d, seed=seed, scaling="unit")


def _row(
    rule: str, family: str, m: int, draw: int, probes: Any, projection: Projection, model: Any, own: Base
) -> dict[str, Any]:
    images = [projection.apply(x) for x in probes]
    pairs = list(zip(probes, images, strict=True))
    return {
        "rule": rule,
        "family": family,
        "m": m,
        "draw": draw,
        "error": float(np.mean([angles.angular_error(x, image) for x, image in pairs])),
        "concordance": float(np.mean([angles.concordance(x, image) for x, image in pairs])),
        "lost": bases.held_out_loss(model, own) - own.log_perplexity,
    }


def rank_correlation(x: Any, y: Any) -> float:
    """Spearman's; 0 where one of them does not vary.

    >>> rank_correlation([1, 2, 3], [10, 30, 20])
    0.5
    """
    ranks = [rankdata(values) for values in (x, y)]
    if min(np.std(rank) for rank in ranks) == 0:
        return 0.0
    return round(float(np.corrcoef(*ranks)[0, 1]), 12)


def within_widths(table: pd.DataFrame, measure: str = "error", seed: int | None = None) -> float:
    """Mean over widths of the rank correlation of a measure with the loss; with a seed, losses exchanged."""
    ports = table[(table["rule"] == "commuting rules") & (table["m"] < table["m"].max())]
    rng = None if seed is None else np.random.default_rng(seed)
    found = []
    for _, own in ports.groupby("m"):
        lost = own["lost"].to_numpy() if rng is None else rng.permutation(own["lost"].to_numpy())
        found.append(rank_correlation(own[measure], lost))
    return float(np.mean(found))


def language_runs(preset: str, *, unseen: bool = False) -> list[LanguageRun]:
    """One run per base model: of seeds 1 to 3, or of those that later ranges are judged on."""
    of = bases.unseen(preset) if unseen else [bases.base(preset, seed=seed) for seed in SEEDS]
    runs = [LanguageRun(base) for base in of]
    if preset == "quick":
        runs = [
            dataclasses.replace(run, quarters=(1.0, 2.0), n_draws=1, n_calibration=512, n_probes=64)
            for run in runs
        ]
    return runs


def _shown(preset: str) -> list[Cell]:
    runs = language_runs(preset)
    return with_bases([run.base for run in runs], [language.cell(run) for run in runs])


def _unseen_cells(preset: str) -> list[Cell]:
    runs = language_runs(preset, unseen=True)
    return with_bases([run.base for run in runs], [language.cell(run) for run in runs])


def _random_findings(preset: str) -> dict[str, Finding]:
    """The five random families alone, on base models that were not looked at."""
    tables = [table_of(language.cell(run)) for run in language_runs(preset, unseen=True)]
    tables = [table[~table["family"].isin((PCA, COORDINATES))] for table in tables]
    exchanged = [within_widths(table, seed=i) for table in tables for i in range(20)]
    found = over_seeds(
        [within_widths(table) for table in tables],
        controls={"exchanged": float(np.mean(exchanged))},
        within=(-1, 1),
        repeats=bases.MODELS,
        corpus=bases.base(preset).text.corpus,
    )
    return {"within_width_random": found}


GAPS: Mapping[str, float] = {"quarter": 1.0, "3_8": 1.5, "half": 2.0, "5_8": 2.5, "0.75": 3.0, "7_8": 3.5}


def _principal_findings(preset: str) -> dict[str, Finding]:
    """Nats lost right after the port: random maps beside principal directions, draws averaged."""
    runs = language_runs(preset, unseen=True)
    several: dict[str, Any] = {"repeats": bases.MODELS, "corpus": bases.base(preset).text.corpus}
    lost = {
        (family, quarters): np.array(
            [lost_of(table_of(language.cell(run)), family, quarters) for run in runs]
        )
        for quarters in runs[0].quarters
        for family in (ORTHONORMAL, PCA, COORDINATES)
    }
    found = {
        f"gap_{name}": over_seeds(
            lost[ORTHONORMAL, quarters] - lost[PCA, quarters],
            controls={COORDINATES: float((lost[ORTHONORMAL, quarters] - lost[COORDINATES, quarters]).mean())},
            **several,
        )
        for name, quarters in GAPS.items()
        if quarters in runs[0].quarters
    }
    return found


def lost_of(table: pd.DataFrame, family: str, quarters: float) -> float:
    """Nats that the ports of a family lost at a width in quarters of d, by the rules that commute."""
    ports = table[(table["rule"] == "commuting rules") & (table["family"] == family)]
    return float(ports.loc[ports["m"] == round(table["m"].max() * quarters / 4), "lost"].mean())


STUDIES: dict[str, Study] = {
    "resizing.principal": Study(_unseen_cells, _principal_findings),
    "resizing.width_law": Study(
        _width_cells, _width_findings, "widths of 512 and 1,024 need a GPU for their base models"
    ),
    "resizing.language": Study(_unseen_cells, _random_findings, beside=_shown),
}
