"""Experiments on "By Tying Embeddings You Are Assuming the Distributional Hypothesis"."""

from book.tying.experiments import exor, gradients, natural, natural_words, theorems

STUDIES = {
    **exor.STUDIES,
    **theorems.STUDIES,
    **natural.STUDIES,
    **natural_words.STUDIES,
    **gradients.STUDIES,
}
