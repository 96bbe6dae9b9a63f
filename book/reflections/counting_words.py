"""Counts of the embedded corpus, kept once counted: an explorer of the spectrum asks for many."""

from __future__ import annotations

import functools

import scipy.sparse

from embviz.corpora import corpus as corpora
from embviz.words import cooccurrence, spectra


@functools.lru_cache(maxsize=8)
def frequent_words(min_count: int) -> corpora.Corpus:
    """The embedded corpus with a hole in place of every word rarer than `min_count` tokens."""
    return corpora.load_corpus("embedded").restrict(min_count=min_count, rare="hole")


@functools.lru_cache(maxsize=40)
def embedded_counts(window: int, min_count: int, shuffled: bool = False) -> scipy.sparse.csr_array:
    """Co-occurrence counts of the embedded corpus, kept once counted; don't write into them.

    Parameters
    ----------
    window : int, in places to each side
    min_count : int, in tokens
        Rarer words leave holes.
    shuffled : bool, default False
        Put the tokens, holes too, in random order first (seed 0).

    Returns
    -------
    csr_array, shape (V, V)
    """
    corpus = frequent_words(min_count)
    ids = spectra.shuffle_tokens(corpus.ids, seed=0) if shuffled else corpus.ids
    return cooccurrence.count_pairs(
        ids, len(corpus.vocabulary), window=window, document_starts=corpus.document_starts
    )
