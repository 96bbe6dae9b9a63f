"""Experiments on "Context Vectors Are Reflections of Word Vectors in Half the Dimensions"."""

from embviz.experiments.reflections import language, spectrum, theory, vectors

STUDIES = {**theory.STUDIES, **spectrum.STUDIES, **vectors.STUDIES, **language.STUDIES}
