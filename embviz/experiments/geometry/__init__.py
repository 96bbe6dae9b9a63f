"""The geometry paper: grokking under projected gradients, attention without queries, weight trajectories."""

from embviz.experiments.geometry import (
    hammer_language,
    hammer_modular,
    language_models,
    queries,
    steering,
    steering_language,
    trajectory_findings,
)

STUDIES = {
    **steering.STUDIES,
    **hammer_modular.STUDIES,
    **hammer_language.STUDIES,
    **steering_language.STUDIES,
    **queries.STUDIES,
    **language_models.STUDIES,
    **trajectory_findings.STUDIES,
}
