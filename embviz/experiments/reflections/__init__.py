"""Experiments on "Context Vectors Are Reflections of Word Vectors in Half the Dimensions"."""

from embviz.experiments.reflections import theory

STUDIES = {**theory.STUDIES}
