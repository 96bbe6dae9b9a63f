"""The geometry paper: grokking under projected gradients, and attention without queries."""

from embviz.experiments.geometry import (
    hammer_language,
    hammer_modular,
    language_models,
    queries,
    steering,
    steering_language,
)

STUDIES = {
    **steering.STUDIES,
    **hammer_modular.STUDIES,
    **hammer_language.STUDIES,
    **steering_language.STUDIES,
    **queries.STUDIES,
    **language_models.STUDIES,
}
