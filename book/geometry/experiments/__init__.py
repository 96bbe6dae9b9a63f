"""The geometry paper: grokking under projected gradients, attention without queries, weight trajectories."""

from book.geometry.experiments import (
    asymmetry,
    byte_slope,
    crossed,
    hammer_language,
    hammer_modular,
    language_models,
    language_readings,
    natural_order,
    queries,
    query_geometry,
    steering,
    steering_language,
    steps,
    trajectory_findings,
    transplant,
    variants,
)

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
    **language_readings.STUDIES,
    **language_models.STUDIES,
    **query_geometry.STUDIES,
    **trajectory_findings.STUDIES,
}
