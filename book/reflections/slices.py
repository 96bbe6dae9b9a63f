"""Texts for word language models: published splits, and slices that are cut like the Penn Treebank."""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np

from embviz.corpora import docstrings, registry
from embviz.corpora.corpus import DOCUMENT_SEPARATOR, load_text

UNK_TOKEN, EOS_TOKEN = "<unk>", "<eos>"  # ids 0 and 1


@dataclass(frozen=True, eq=False)
class LanguageModelSlice:
    """Three streams of token ids over one vocabulary, no document in two of them."""

    train: np.ndarray  # (N,), the smallest unsigned integer type that fits
    valid: np.ndarray
    test: np.ndarray
    vocabulary: list[str]  # (V,) "<unk>", "<eos>", then by falling count in `train`, ties by first appearance
    checksum: str  # SHA-256 of the raw text; of the embedded corpus its fingerprint


def make_language_model_slice(
    name: str, *, n_train: int, n_valid: int, n_test: int, vocab_size: int
) -> LanguageModelSlice:
    """A slice of a corpus of the registry, or of "embedded".

    Documents are taken in a random order, their sentences tokenized by :func:`ptb_sentences` and closed by
    "<eos>". Training takes whole sentences until the next one would exceed `n_train` tokens; the rest of
    that document is left out, and validation, then test, go on with the next document. The vocabulary is
    the most frequent training words; all others are "<unk>" in all three.
    """
    text = load_text(name)
    documents = text.split(DOCUMENT_SEPARATOR)
    order = iter(np.random.default_rng(0).permutation(len(documents)))
    streams = [
        _take_sentences((documents[i] for i in order), n_tokens) for n_tokens in (n_train, n_valid, n_test)
    ]
    checksum = (
        docstrings.fingerprint() if name == registry.EMBEDDED else hashlib.sha256(text.encode()).hexdigest()
    )
    return _number_streams(streams, vocab_size, checksum)


def load_language_model_data(name: str) -> LanguageModelSlice:
    """A data set that is published as tokens in three splits (PTB, WikiText-2), as it is.

    Every line is closed by "<eos>", empty ones too, as is usual for these sets; the vocabulary is all
    training words.
    """
    streams = []
    digest = hashlib.sha256()
    for part in ("train", "valid", "test"):
        content = registry.read_bytes(name, part=part)
        digest.update(content)
        lines = content.decode().removesuffix("\n").split("\n")
        streams.append([word for line in lines for word in (*line.split(), EOS_TOKEN)])
    return _number_streams(streams, len({*streams[0], UNK_TOKEN}), digest.hexdigest())


def _take_sentences(documents: Iterable[str], n_tokens: int) -> list[str]:
    """Sentences closed by "<eos>", up to `n_tokens` tokens; the document that reaches it is used up."""
    stream: list[str] = []
    for document in documents:
        for sentence in ptb_sentences(document):
            if len(stream) + len(sentence) + 1 > n_tokens and stream:
                return stream
            stream += [*sentence, EOS_TOKEN]
    raise ValueError(f"the documents left have {len(stream):,} tokens where {n_tokens:,} are asked for")


def _number_streams(streams: list[list[str]], vocab_size: int, checksum: str) -> LanguageModelSlice:
    counts = Counter(streams[0])  # equal counts stay in order of first appearance
    for special in (UNK_TOKEN, EOS_TOKEN):
        del counts[special]
    vocabulary = [UNK_TOKEN, EOS_TOKEN, *(word for word, _ in counts.most_common(vocab_size - 2))]
    ids = {word: i for i, word in enumerate(vocabulary)}
    dtype = np.min_scalar_type(len(vocabulary) - 1)
    train, valid, test = (np.array([ids.get(word, 0) for word in words], dtype=dtype) for words in streams)
    return LanguageModelSlice(train, valid, test, vocabulary, checksum)


# --- sentences --------------------------------------------------------------------------------------


def _sentence_pattern() -> re.Pattern[str]:
    """A sentence's end: its mark, closing quotes, space, before a capital, a digit or an opening quote."""
    # titles, initials and the like, whose period ends no sentence
    short = "Mr|Dr|St|Mt|No|vs|ca|Jr|Sr|Ms|Lt|Fr|cf|pp|Mrs|Gen|Col|Sgt|Rev|Hon|etc|Vol|Prof|Capt|e\\.g|i\\.e"
    behind = "".join(rf"(?<!\b{word}\.)" for word in short.split("|"))
    return re.compile(rf"(?:(?<=[!?])|(?<=\.)(?<!\b[A-Z]\.){behind})[\"')\]”’]*\s+(?=[A-Z0-9\"'(\[“‘])")


_SENTENCE_END = _sentence_pattern()
_PARAGRAPH_END = re.compile(r"\n\s*\n")
_CLITIC = re.compile(r"(n't|'(?:s|re|ve|ll|d|m))(?![^\W_])")
_PTB_TOKEN = re.compile(
    r"(?P<number>\d+(?:[.,:]\d+)*)(?![^\W_])"
    r"|(?:[^\W\d_]\.){2,}"  # u.s.
    r"|n't(?![^\W_])|'(?:s|re|ve|ll|d|m)(?![^\W_])"
    r"|[^\W_]+(?:[-&/][^\W_]+)*"  # words, hyphened ones whole
    r"|[$%&#]"
)


def ptb_sentences(text: str) -> Iterator[list[str]]:
    """Sentences of a text, their tokens in the manner of the Penn Treebank as language models read it.

    Words are lower-cased, numbers become "N" ("1990s" and "b-52" stay words), punctuation is dropped
    except ``$ % & #``, "n't" and "'s" are tokens of their own. A paragraph (between blank lines) that
    does not end in a sentence's mark is left out: titles, captions, lists, code.

    Source
    ------
    T. Mikolov et al., "Empirical evaluation and combination of advanced language modeling techniques"
    (2011), section 3, describes the form; the rules here are ours and are not the treebank's own.

    Examples
    --------
    >>> list(ptb_sentences("It isn't Dr. Who's. In 1905, he paid $3.50!"))
    [['it', 'is', "n't", 'dr', 'who', "'s"], ['in', 'N', 'he', 'paid', '$', 'N']]
    """
    for paragraph in _PARAGRAPH_END.split(text):
        paragraph = " ".join(paragraph.split())
        if not paragraph.rstrip("\"')]”’").endswith((".", "!", "?")):
            continue
        for sentence in _SENTENCE_END.split(paragraph):
            spaced = _CLITIC.sub(r" \1", sentence.lower().replace("’", "'"))
            tokens = ["N" if found["number"] else found[0] for found in _PTB_TOKEN.finditer(spaced)]
            if tokens:
                yield tokens
