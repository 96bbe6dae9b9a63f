"""A model's embedding and output matrix as word and context vectors."""

from __future__ import annotations

import os
from typing import Any

import numpy as np

from embviz.files.weights import StoredArray
from embviz.inspection import roles
from embviz.inspection.weight_files import read_tokenizer, read_weights
from embviz.words.wordvectors import WordVectors, token_names


def model_vectors(source: Any, tokenizer: Any = None) -> WordVectors:
    """A model's input embedding as word vectors, its output matrix as context vectors.

    Parameters
    ----------
    source : Any
        As of :func:`read_weights`.
    tokenizer : a tokenizer or a list of tokens, optional
        By default the one beside the model's files.

    Returns
    -------
    WordVectors
        Without context vectors where the model is tied, or has no output matrix of the embedding's shape.

    Examples
    --------
    >>> model_vectors({"wte.weight": np.eye(3)}, ["a", "b", "c"]).vocabulary
    ['a', 'b', 'c']
    """
    weights = read_weights(source)
    name = roles.find_embedding(weights)
    if name is None:
        raise ValueError(roles.no_embedding(weights))
    if tokenizer is None and isinstance(source, str | os.PathLike):
        tokenizer = read_tokenizer(source)
    if tokenizer is None:
        raise ValueError(f"{weights.name} has no tokenizer.json: the rows of its embedding have no names")
    array, output = weights.arrays[name], weights.arrays.get(str(roles.find_output(weights, name)))
    untied = output is not None and output.shape == array.shape and not same_rows(array, output)
    return WordVectors(
        token_names(tokenizer, array.shape[0]), array.read(), output.read() if output and untied else None
    )


def same_rows(first: StoredArray, second: StoredArray) -> bool:
    """Whether two tables are one, by their first rows."""
    if first.shape != second.shape:
        return False
    rows = np.arange(min(first.shape[0], 500))
    return first is second or np.array_equal(first.read(rows), second.read(rows))
