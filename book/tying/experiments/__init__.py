"""Experiments on "By Tying Embeddings You Are Assuming the Distributional Hypothesis"."""

from book.tying.experiments import amended, exor, natural, theorems

STUDIES = {**exor.STUDIES, **theorems.STUDIES, **natural.STUDIES, **amended.STUDIES}
