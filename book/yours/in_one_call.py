"""What a reader with a text, vectors, a model or a run asks for: the script as it is now.

Each function has its twin in :mod:`book.yours.by_hand`, which gives the same numbers without the doors.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from torch import Tensor

from embviz.corpora import make_corpus
from embviz.inspection import inspect
from embviz.models.huggingface import from_hf
from embviz.trajectories import read_checkpoints
from embviz.view import map_of
from embviz.words import WordVectors, reflection_test, spectrum_report


def spectrum(path: Path) -> pd.DataFrame:
    """Text: is its PMI spectrum closer to its mirror image than shuffled tokens?"""
    return spectrum_report(make_corpus(path)).scores


def nearest(path: Path, word: str) -> list[str]:
    """Vectors: the ten nearest words in a file of GloVe's"""
    return [near for near, _ in WordVectors.load(path).most_similar(word)]


def reflections(model: Any) -> pd.DataFrame:
    """Vectors: are the context vectors of a gensim model reflections?"""
    return reflection_test(WordVectors.from_gensim(model))


def word_map(path: Path) -> np.ndarray:
    """Vectors: a map of the first 3,000 words of a file"""
    return map_of(WordVectors.load(path)).placed[0].plane


def heads(folder: Path) -> np.ndarray:
    """Model: singular values of each head of GPT-2 beyond chance, beside the same numbers in random order"""
    table = inspect(folder).table.query("quantity == 'beyond the edge' and head.notna()")
    return table[["value", "null"]].to_numpy(float)


def logits(model: Any, tokens: Tensor) -> Tensor:
    """Model: a Llama as a decoder that can be resized"""
    return from_hf(model)(tokens)


def path_of(folder: Path, tensor: str) -> tuple[np.ndarray, np.ndarray]:
    """Run: the path of a matrix through Trainer's checkpoints, with its losses"""
    found = read_checkpoints(folder, tensor)[tensor]
    return found.weights, found.losses
