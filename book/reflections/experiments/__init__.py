"""Experiments on "Context Vectors Are Reflections of Word Vectors in Half the Dimensions"."""

from book.reflections.experiments import language, spectrum, theory, vectors

STUDIES = {**theory.STUDIES, **spectrum.STUDIES, **vectors.STUDIES, **language.STUDIES}
