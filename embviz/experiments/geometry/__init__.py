"""The geometry paper: grokking under projected gradients, and attention without queries."""

from embviz.experiments.geometry import hammer_modular, queries, steering
from embviz.studies import Study

STUDIES = {
    **steering.STUDIES,
    **queries.STUDIES,
    **hammer_modular.STUDIES,
    "geometry.fgp_language": Study(lambda preset: [], lambda preset: {}),
    "geometry.hammer_gpt2": Study(lambda preset: [], lambda preset: {}),
}
