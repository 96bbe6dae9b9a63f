"""Word pieces: a text split by BERT's vocabulary, kept on disk once it was."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

import numpy as np

from embviz.corpora import corpus as corpora
from embviz.corpora import registry
from embviz.corpora.corpus import DOCUMENT_SEPARATOR, Corpus

if TYPE_CHECKING:
    from tokenizers import Tokenizer

UNKNOWN, MASK = "[UNK]", "[MASK]"


def make_word_pieces(vocabulary: list[str]) -> Tokenizer:
    """A tokenizer over `vocabulary`, in the order of its ids, as BERT's uncased one.

    Lower-cases, strips accents, splits at blanks and punctuation, then takes the longest piece of a word
    that the vocabulary has, again and again; pieces inside a word start with ``##``.

    Source
    ------
    Devlin et al. (2019); the algorithm is WordPiece's greedy one.
    """
    from tokenizers import Tokenizer, models, normalizers, pre_tokenizers

    ids = {piece: index for index, piece in enumerate(vocabulary)}
    tokenizer = Tokenizer(models.WordPiece(ids, unk_token=UNKNOWN, max_input_chars_per_word=100))
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=True)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    return tokenizer


def encode_documents(text: str, tokenizer: Tokenizer) -> tuple[np.ndarray, np.ndarray]:
    """Ids of a text, (N,) int32, and where its documents start, (n,) int64.

    Documents are separated by ``<|endoftext|>``; one without a piece is left out.
    """
    parts, starts, n_ids = [], [], 0
    for document in text.split(DOCUMENT_SEPARATOR):
        paragraphs = [line for line in document.splitlines() if line.strip()]
        encoded = tokenizer.encode_batch_fast(paragraphs, add_special_tokens=False)
        ids = [np.array(paragraph.ids, dtype=np.int32) for paragraph in encoded]
        if sum(map(len, ids)):
            starts.append(n_ids)
            parts += ids
            n_ids += sum(map(len, ids))
    return np.concatenate([np.empty(0, np.int32), *parts]), np.array(starts, dtype=np.int64)


def load_pieces(name: str) -> Corpus:
    """A corpus of the registry, such as "novels", in word pieces; ids from BERT's published vocabulary."""
    pieces = registry.read_bytes("bert_vocabulary").decode().removesuffix("\n").split("\n")
    text = corpora.load_text(name)
    checksum = hashlib.sha256(text.encode()).hexdigest()
    key = hashlib.sha256(f"{checksum} {hashlib.sha256(chr(10).join(pieces).encode()).hexdigest()}".encode())
    path = corpora.tokens_path(key.hexdigest())
    stored = corpora.read_tokens(path, name)
    if stored is not None:
        return stored
    ids, starts = encode_documents(text, make_word_pieces(pieces))
    corpus = Corpus(name, ids, pieces, np.bincount(ids, minlength=len(pieces)), starts, checksum)
    corpora.write_tokens(path, corpus)
    return corpus
