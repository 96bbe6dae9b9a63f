"""The geometry paper: grokking under projected gradients, attention without queries, weight trajectories."""

import dataclasses

from book.geometry.experiments import (
    asymmetry,
    byte_slope,
    covariance_walks,
    crossed,
    films,
    hammer_language,
    hammer_modular,
    language_models,
    language_readings,
    natural_order,
    queries,
    query_geometry,
    readings,
    steering,
    steering_language,
    steps,
    trajectory_findings,
    trajectory_runs,
    transplant,
    variants,
)
from book.ledger.cells import Cell


def _grokking_readings(preset: str) -> list[Cell]:
    seeded = [cell for row in readings.seeded_cells().values() for cell in row]
    peers = steering.peer_cells(preset)
    more = [*readings.reading_cells(), *seeded, *films.film_cells(preset)]
    return [*more, *peers] if preset == "paper" else peers


def _language_readings(preset: str) -> list[Cell]:
    if preset == "paper":
        return []
    n_rate_seeds = language_models.N_CONTROL_SEEDS[preset]
    return language_readings.cells(language_models.stories(preset), n_rate_seeds=n_rate_seeds)


def _trajectories(preset: str) -> list[Cell]:
    first = trajectory_runs.story_runs(preset)[0]
    return [] if preset == "quick" else trajectory_runs.code_cells(first)


STUDIES = {
    **steering.STUDIES,
    **variants.STUDIES,
    **crossed.STUDIES,
    **steps.STUDIES,
    **transplant.STUDIES,
    **hammer_modular.STUDIES,
    **hammer_language.STUDIES,
    **byte_slope.STUDIES,
    **steering_language.STUDIES,
    **natural_order.STUDIES,
    **queries.STUDIES,
    **asymmetry.STUDIES,
    **language_models.STUDIES,
    **query_geometry.STUDIES,
    **trajectory_findings.STUDIES,
}
for claim, beside in (
    ("geometry.pfft_speed", _grokking_readings),
    ("geometry.noq_tinystories", _language_readings),
    ("geometry.trajectories_q", _trajectories),
):
    STUDIES[claim] = dataclasses.replace(STUDIES[claim], beside=beside)
for claim, part in (
    ("geometry.noq_tinystories", language_readings.PART),
    ("geometry.trajectories_q", covariance_walks.PART),
):
    STUDIES[claim] = dataclasses.replace(STUDIES[claim], parts=(*STUDIES[claim].parts, part))
