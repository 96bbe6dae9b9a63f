"""Released models: their vectors where the weights are available, and what is stored of them."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pandas as pd

from embviz.corpora.registry import DataMissingError, data_set, model_path
from embviz.corpora.tokens import token_texts
from embviz.words.wordvectors import WordVectors

GEMMA, MINILM, GLOVE = "gemma3_270m", "minilm_l6", "glove_6b_100d"
NEEDS = "the weights are not on this machine: `embviz data fetch gemma3_270m minilm_l6 glove_6b_100d`"
TITLES = {GEMMA: "Gemma", MINILM: "MiniLM", GLOVE: "GloVe"}
N_RANKED = 50_000  # words of GloVe's file whose ranks are taken
WORD = re.compile(r"[a-z]{3,}")


def at_hand(*names: str) -> bool:
    """Whether the weights of all these models are on this machine, with the registry's checksum."""
    try:
        for name in names:
            model_path(name)
    except DataMissingError:
        return False
    return True


@functools.lru_cache(maxsize=3)
def vectors(name: str) -> WordVectors:
    """All rows of a model's input embedding, with their tokens; those read stay in memory.

    Raises
    ------
    DataMissingError
        If the model is not on this machine; the message has the command that fetches it.
    """
    from embviz.inspection import model_vectors  # brings torch

    return WordVectors.load(name) if name == GLOVE else model_vectors(name)


def origin(*names: str) -> dict[str, str]:
    """SHA-256 of what was read of each model, with its licence, for a stored table's ``attrs["data"]``."""
    found = {}
    for name in names:
        entry = data_set(name)
        forms = [form for file in entry.files if file.part in ("all", "weights") for form in file.forms]
        found[name] = f"{forms[0].checksum}; {entry.licence}"
    return found


def ranked_words(known: Sequence[str], ranking: Sequence[str]) -> pd.DataFrame:
    """Words that are one token of a vocabulary, in the order of their frequency.

    Parameters
    ----------
    known : sequence of str, length V
        A vocabulary with its tokenizer's marks.
    ranking : sequence of str
        Words, the most frequent first.

    Returns
    -------
    DataFrame
        word, row (in the vocabulary), rank (from 1, in `ranking`). Words are of three or more letters a to z.
    """
    texts = token_texts(known)
    marked = any(text.startswith(" ") for text in texts)
    row_of: dict[str, int] = {}
    for row, text in enumerate(texts):
        if not marked or text.startswith(" "):
            row_of.setdefault(text.removeprefix(" "), row)
    found = [
        (word, row_of[word], rank)
        for rank, word in enumerate(ranking, 1)
        if WORD.fullmatch(word) and word in row_of
    ]
    return pd.DataFrame(found, columns=["word", "row", "rank"])


def with_weights(
    stored: pd.DataFrame,
    compute: Callable[..., pd.DataFrame],
    *names: str,
    within: float = 1e-3,
) -> pd.DataFrame:
    """What is stored; where the weights are available, `compute` makes it again and both are compared.

    Parameters
    ----------
    stored : DataFrame
    compute : callable
        From the vectors of each named model, in this order, to a table with columns of `stored`, and as many
        rows.
    *names : str
        Names of models.
    within : float
        Largest difference of two numbers, absolute and relative.

    Returns
    -------
    DataFrame
        `stored`, in both cases, so that a page is the same with and without the weights.

    Raises
    ------
    AssertionError
        If what is computed is not what is stored; the message has the column and the numbers.
    """
    if not at_hand(*names):
        return stored
    computed = compute(*(vectors(name) for name in names))
    expected = stored[list(computed.columns)].reset_index(drop=True)
    pd.testing.assert_frame_equal(
        computed.reset_index(drop=True), expected, check_dtype=False, rtol=within, atol=within
    )
    return stored


def sources(*names: str) -> Any:
    """A sentence that says of which weights the page's numbers are, and how to compute them again."""
    from book.view.sentences import Quotation  # the experiments of this module need no charts

    said = [
        f"{re.split('[,:]', data_set(name).title)[0]} (SHA-256 {origin(name)[name].partition(':')[2][:8]}…; "
        f"{data_set(name).licence})"
        for name in names
    ]
    return Quotation(
        f"**Where the numbers come from.** They were computed from {_listed(said)}, and are stored with the "
        "book. This page shows the stored numbers. With the weights "
        f"(`embviz data fetch {' '.join(names)}`) the cells that call `with_weights` compute theirs again "
        "and compare."
    )


def _listed(words: Sequence[str]) -> str:
    return " and ".join([", ".join(words[:-1]), words[-1]] if len(words) > 1 else words)


def unit(rows: np.ndarray, *, center: bool) -> np.ndarray:
    """Rows (n, D) at length 1, less their mean first; a row without a direction stays 0."""
    rows = rows - rows.mean(axis=0, dtype=np.float64).astype(rows.dtype) if center else rows
    lengths = np.linalg.norm(rows, axis=1, keepdims=True)
    found: np.ndarray = rows / np.where(lengths > 0, lengths, 1)
    return found


def unit_rows(made: WordVectors, words: Sequence[str]) -> np.ndarray:
    """Rows of some words (n, D), less the mean of the whole vocabulary, at length 1; float64."""
    rows = made.word[[made.index[word] for word in words]].astype(np.float64)
    return unit(rows - made.word.mean(axis=0, dtype=np.float64), center=False)


def text_checksum(name: str, part: str) -> str:
    """SHA-256 of a part of a text of the registry, as it is published."""
    checksum = data_set(name).file(part).forms[0].checksum
    assert checksum is not None, f"{name} is not registered with a checksum"
    return checksum
