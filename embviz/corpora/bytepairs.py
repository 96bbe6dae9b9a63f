"""Byte-pair encodings: trained on a text, or GPT-2's.

The encoding is byte-level, so that every text can be encoded and decoded again without loss.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import TYPE_CHECKING

from embviz.corpora import registry
from embviz.imports import require

if TYPE_CHECKING:
    from tokenizers import Tokenizer, models

_PIECE = 1 << 16  # characters handed over at a time


def train_byte_pairs(
    text: str, *, vocab_size: int, min_count: int = 2, special_tokens: tuple[str, ...] = ("<|endoftext|>",)
) -> Tokenizer:
    """Learn a byte-pair encoding from a text; the same text gives the same encoding.

    Parameters
    ----------
    text : str
    vocab_size : int
        Special tokens and the 256 bytes included.
    min_count : int, default 2
        A pair that occurs less often is not merged, so that the vocabulary may end up smaller.
    special_tokens : never split, with ids from 0

    Raises
    ------
    ValueError
        If the text is empty, or `vocab_size` has no room for the bytes and special tokens.
    MissingExtraError
        If the library tokenizers isn't there.

    Source
    ------
    R. Sennrich, B. Haddow and A. Birch (2016), algorithm 1; bytes as symbols, words split as by GPT-2.
    """
    if not text:
        raise ValueError("the text to train byte pairs on is empty")
    smallest = 256 + len(special_tokens)
    if vocab_size < smallest:
        raise ValueError(f"vocab_size is {vocab_size}: bytes and special tokens alone need {smallest}")
    _require_tokenizers()
    from tokenizers import models, pre_tokenizers, trainers

    tokenizer = _byte_level(models.BPE())
    trainer = trainers.BpeTrainer(
        vocab_size=vocab_size,
        min_frequency=min_count,
        special_tokens=list(special_tokens),
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
        show_progress=False,
    )
    # special tokens separate documents: pairs are not learned from their own letters
    tokenizer.train_from_iterator(_without(text, special_tokens), trainer)
    return tokenizer


def _require_tokenizers() -> None:
    require("tokenizers", "tokenizers", purpose="a byte-pair encoding")


def _byte_level(model: models.BPE) -> Tokenizer:
    from tokenizers import Tokenizer, decoders, pre_tokenizers

    tokenizer = Tokenizer(model)
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    return tokenizer


def _without(text: str, special_tokens: tuple[str, ...]) -> Iterator[str]:
    """The text in pieces of whole lines, special tokens taken out."""
    for token in special_tokens:
        text = text.replace(token, "")
    yield from _pieces(text)


def _pieces(text: str) -> Iterator[str]:
    """The text cut at line ends, so that its words stay whole and memory small."""
    start = 0
    while start < len(text):
        end = text.find("\n", start + _PIECE) + 1 or len(text)
        yield text[start:end]
        start = end


def load_gpt2() -> Tokenizer:
    """GPT-2's own encoding, from the registry's files.

    Raises
    ------
    registry.DataMissingError, registry.ChecksumError
        If its two files are not at hand, or wrong.
    """
    _require_tokenizers()
    from tokenizers import models

    vocabulary = json.loads(registry.read_bytes("gpt2_vocabulary", part="encoder"))
    lines = registry.read_bytes("gpt2_vocabulary", part="merges").decode().splitlines()
    merges = [(left, right) for left, right in (line.split(" ") for line in lines[1:])]  # line 0: version
    tokenizer = _byte_level(models.BPE(vocab=vocabulary, merges=merges))
    tokenizer.add_special_tokens(["<|endoftext|>"])
    return tokenizer
