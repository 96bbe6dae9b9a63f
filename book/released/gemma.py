"""Gemma as a language model, its tokenizer and MiniLM's, and strings of a text in its tokens."""

from __future__ import annotations

import functools
from typing import Any

import torch
from torch import Tensor

from book.released import models
from embviz.inspection.causal_models import causal_model
from embviz.inspection.weight_files import read_tokenizer, read_weights, text_strings


@functools.lru_cache(maxsize=1)
def language_model() -> Any:
    """Gemma as Transformers reads it from its GGUF file, float32, without dropout.

    Raises
    ------
    DataMissingError
        If it is not on this machine.
    """
    return causal_model(read_weights(models.GEMMA), models.GEMMA).eval()


@functools.lru_cache(maxsize=2)
def tokenizer(name: str) -> Any:
    """The tokenizer of Gemma or MiniLM, of the library ``tokenizers``.

    Raises
    ------
    DataMissingError
        If the model is not on this machine.
    """
    return read_tokenizer(name, for_text=True)


@functools.lru_cache(maxsize=4)
def text_parts(text: str, n_parts: int, n_strings: int, n_tokens: int) -> list[Tensor]:
    """Strings of equal parts of a text in Gemma's tokens, (n_strings, 1 + n_tokens) each, <bos> first."""
    size, cut = len(text) // n_parts, tokenizer(models.GEMMA)
    weights = read_weights(language_model())
    return [
        torch.cat(text_strings(text[part * size : (part + 1) * size], cut, weights, n_strings, n_tokens))
        for part in range(n_parts)
    ]
