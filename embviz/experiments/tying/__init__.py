"""Experiments on "By Tying Embeddings You Are Assuming the Distributional Hypothesis"."""

from embviz.experiments.tying import exor

STUDIES = {**exor.STUDIES}
