"""A language model's text, how it is trained on it, and bits that compare across kinds of tokens.

The protocol, once for all models:

- Documents lose the blanks at their ends, and are dropped if nothing is left. Where a corpus is published
  with a validation part, that is held out; of any other corpus every twentieth document is, whatever the
  tokens. A byte-pair encoding is learned from the training documents.
- A stream is one document after the other, each closed by the token `end`, which opens the stream too. Of
  bytes it is the byte 0, so that a model of bytes has 256 symbols.
- Every held-out token but the opening one is predicted once, in windows as long as the model was trained
  on, moved by half of that: but at the start of the stream half a window at least stands before it.
  Windows reach over the ends of documents, as in training.
- The sum of -log2 of the probabilities is divided by the number of tokens, of characters, or of UTF-8 bytes;
  the end of a document counts as one of each.

Half precision is for GPUs, and nothing is compiled: on one thread of an AMD EPYC of 2025 an update of a model
with 1.07 million parameters takes 120 ms, by autocast to bfloat16 133 ms, and 178 ms after ``torch.compile``,
which needs 20 s to begin with.
"""

from __future__ import annotations

import functools
import hashlib
import itertools
import json
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, get_args

import numpy as np
import torch
from torch import Tensor, nn

from embviz.corpora import corpus as corpora
from embviz.corpora import docstrings, registry
from embviz.corpora.corpus import DOCUMENT_SEPARATOR
from embviz.training.loop import AdamW, Schedule, Snapshot, SnapshotWeights, train

if TYPE_CHECKING:
    from tokenizers import Tokenizer, models

    from embviz.runs import Run

Tokens = Literal["bytes", "byte pairs", "gpt2"]
_BATCH = 1 << 10  # documents encoded at a time
_PIECE = 1 << 16  # characters of a text that byte pairs are learned from, handed over at a time
END_OF_BYTES = 0


@dataclass(frozen=True)
class TextConfig:
    """A named corpus in tokens of some kind, and which documents of it."""

    corpus: str  # of the registry, or "embedded"
    tokens: Tokens = "bytes"  # "byte pairs": an encoding learned here; "gpt2": GPT-2's own
    vocab_size: int = 256  # of byte pairs: asked for, the 256 bytes and `end` among them
    n_documents: int = 0  # the first ones; 0: all
    n_held_out: int = 0  # of those held out the first ones; 0: all
    held_out_every: int = 20  # documents; where the corpus has no validation part

    def __post_init__(self) -> None:
        if self.tokens not in get_args(Tokens):
            raise ValueError(f"tokens is {self.tokens!r}: choose one of {', '.join(get_args(Tokens))}")


@dataclass(frozen=True, eq=False)
class Stream:
    """Documents as token ids, one after the other; `end` opens the stream and closes every document."""

    ids: np.ndarray  # (N,), the smallest unsigned integer type that fits
    starts: np.ndarray  # (n,), where each document starts, the first at 1
    n_characters: np.ndarray  # (n,), of each document with its end
    n_bytes: np.ndarray  # (n,), likewise

    @property
    def n_predicted(self) -> int:
        """Tokens that have one before them."""
        return len(self.ids) - 1

    def head(self, n_documents: int) -> Stream:
        """The first `n_documents` documents."""
        if n_documents >= len(self.starts):
            return self
        return Stream(
            self.ids[: self.starts[n_documents]],
            self.starts[:n_documents],
            self.n_characters[:n_documents],
            self.n_bytes[:n_documents],
        )

    def documents(self) -> Iterator[np.ndarray]:
        """Each document from the `end` before it to its own, (n + 2,)."""
        for start, after in itertools.pairwise([*self.starts.tolist(), len(self.ids)]):
            yield self.ids[start - 1 : after]


@dataclass(frozen=True, eq=False)
class Streams:
    """A text for language models, no document in both streams."""

    train: Stream
    held_out: Stream
    vocab_size: int
    checksum: str  # SHA-256 of the raw text; of the embedded corpus its fingerprint


@functools.lru_cache(maxsize=2)
def load_streams(config: TextConfig) -> Streams:
    """The text of a configuration, in its tokens."""
    documents, held_out, checksum = _split(config)
    tokenizer = None
    if config.tokens != "bytes":
        learn = functools.partial(train_byte_pairs, "\n".join(documents))
        tokenizer = load_gpt2() if config.tokens == "gpt2" else learn(vocab_size=config.vocab_size)
    vocab_size = tokenizer.get_vocab_size() if tokenizer else 256
    train, held = make_stream(documents, tokenizer), make_stream(held_out, tokenizer)
    return Streams(train, held, vocab_size, checksum)


def _split(config: TextConfig) -> tuple[list[str], list[str], str]:
    """Training documents, held-out ones, and the checksum of the text they come from."""
    name, embedded = config.corpus, config.corpus == registry.EMBEDDED
    parts = set() if embedded else {file.part for file in registry.data_set(name).files}
    text = corpora.load_text(name, part="train" if "valid" in parts else None)
    checksum = docstrings.fingerprint() if embedded else hashlib.sha256(text.encode()).hexdigest()
    documents = split_documents(text)[: config.n_documents or None]
    if "valid" in parts:
        held_out = split_documents(corpora.load_text(name, part="valid"))
    else:
        every = config.held_out_every
        held_out = documents[every - 1 :: every]
        documents = [document for i, document in enumerate(documents) if i % every != every - 1]
    if not documents or not held_out:
        raise ValueError(
            f"{name}: {len(documents)} documents to train on, {len(held_out)} held out: take more documents, "
            f"or hold out one of fewer than {config.held_out_every} (documents are separated by "
            f"{DOCUMENT_SEPARATOR})"
        )
    return documents, held_out[: config.n_held_out or None], checksum


def split_documents(text: str) -> list[str]:
    """Documents of a text, stripped; empty ones are left out.

    >>> split_documents("One.<|endoftext|> <|endoftext|> Two. ")
    ['One.', 'Two.']
    """
    if "\0" in text:
        raise ValueError("the text holds NUL, which stands for the end of a document: take it out")
    return [document for part in text.split(DOCUMENT_SEPARATOR) if (document := part.strip())]


# --- byte pairs -------------------------------------------------------------------------------------


def train_byte_pairs(text: str, *, vocab_size: int) -> Tokenizer:
    """Learn a byte-pair encoding from a text; the same text gives the same encoding.

    Of `vocab_size` tokens one is the end of a document, 0, and 256 are bytes. Pairs that occur once are not
    merged, so that the vocabulary may end up smaller.

    Source
    ------
    R. Sennrich, B. Haddow and A. Birch (2016), algorithm 1; bytes as symbols, words split as by GPT-2.
    """
    from tokenizers import models, pre_tokenizers, trainers

    if vocab_size < 257:
        raise ValueError(f"vocab_size is {vocab_size}: bytes and the end of a document alone need 257")
    tokenizer = _byte_level(models.BPE())
    trainer = trainers.BpeTrainer(
        vocab_size=vocab_size,
        min_frequency=2,
        special_tokens=[DOCUMENT_SEPARATOR],
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
        show_progress=False,
    )
    # the separator separates documents: pairs are not learned from its own letters
    tokenizer.train_from_iterator(_pieces(text.replace(DOCUMENT_SEPARATOR, "")), trainer)
    return tokenizer


def _byte_level(model: models.BPE) -> Tokenizer:
    from tokenizers import Tokenizer, decoders, pre_tokenizers

    tokenizer = Tokenizer(model)
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    return tokenizer


def _pieces(text: str) -> Iterator[str]:
    """The text cut at line ends, so that its words stay whole and memory small."""
    start = 0
    while start < len(text):
        end = text.find("\n", start + _PIECE) + 1 or len(text)
        yield text[start:end]
        start = end


def load_gpt2() -> Tokenizer:
    """GPT-2's own encoding, from the registry's files."""
    from tokenizers import models

    vocabulary = json.loads(registry.read_bytes("gpt2_vocabulary", part="encoder"))
    lines = registry.read_bytes("gpt2_vocabulary", part="merges").decode().splitlines()
    merges = [(left, right) for left, right in (line.split(" ") for line in lines[1:])]  # line 0: version
    tokenizer = _byte_level(models.BPE(vocab=vocabulary, merges=merges))
    tokenizer.add_special_tokens([DOCUMENT_SEPARATOR])
    return tokenizer


# --- streams ----------------------------------------------------------------------------------------


def make_stream(documents: Sequence[str], tokenizer: Tokenizer | None = None) -> Stream:
    """A stream of documents: of byte pairs with ``<|endoftext|>`` at their ends, or by default of bytes."""
    end = tokenizer.get_vocab()[DOCUMENT_SEPARATOR] if tokenizer else END_OF_BYTES
    dtype = np.min_scalar_type(tokenizer.get_vocab_size() - 1 if tokenizer else 255)
    closing = np.array([end], dtype=dtype)
    parts, lengths = [closing], []
    for first in range(0, len(documents), _BATCH):
        for ids in _encode(documents[first : first + _BATCH], tokenizer):
            parts += [ids.astype(dtype), closing]
            lengths.append(len(ids) + 1)
    starts = 1 + np.concatenate([[0], np.cumsum(lengths[:-1])]).astype(np.int64)
    n_characters = np.array([len(document) + 1 for document in documents])
    n_bytes = np.array([len(document.encode()) + 1 for document in documents])
    return Stream(np.concatenate(parts), starts, n_characters, n_bytes)


def _encode(documents: Sequence[str], tokenizer: Tokenizer | None) -> list[np.ndarray]:
    if tokenizer is None:
        return [np.frombuffer(document.encode(), dtype=np.uint8) for document in documents]
    return [np.array(encoded.ids) for encoded in tokenizer.encode_batch_fast(list(documents))]


def draw_batch(stream: Stream, *, seed: int, step: int, batch_size: int, length: int) -> Tensor:
    """Pieces of the stream from random places, (B, T + 1); a pure function of seed and step.

    The first T tokens of a row are read, the last T predicted.
    """
    starts = np.random.default_rng([seed, step]).integers(len(stream.ids) - length, size=batch_size)
    return torch.from_numpy(stream.ids[starts[:, None] + np.arange(length + 1)].astype(np.int64))


# --- bits -------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Score:
    """What a model's predictions of a stream cost."""

    nats: float  # in all
    n_tokens: int
    n_characters: int
    n_bytes: int

    @property
    def bits_per_token(self) -> float:
        return self.nats / math.log(2) / self.n_tokens

    @property
    def bits_per_character(self) -> float:
        return self.nats / math.log(2) / self.n_characters

    @property
    def bits_per_byte(self) -> float:
        return self.nats / math.log(2) / self.n_bytes

    def as_metrics(self, prefix: str = "") -> dict[str, float]:
        """The three by name."""
        return {
            f"{prefix}bits_per_{unit}": getattr(self, f"bits_per_{unit}")
            for unit in ("token", "character", "byte")
        }


def next_token_losses(model: Callable[[Tensor], Tensor], tokens: Tensor) -> Tensor:
    """Cross entropy of each prediction (B, T), nats, for tokens (B, T + 1); the model gives (B, T, V)."""
    logits = model(tokens[:, :-1]).float()
    losses = nn.functional.cross_entropy(logits.flatten(0, 1), tokens[:, 1:].flatten(), reduction="none")
    return losses.view(len(tokens), -1)


def score(model: nn.Module, stream: Stream, *, length: int, batch_size: int = 16) -> Score:
    """What `model`, from tokens (B, T) to logits (B, T, V), pays for a stream, in float32.

    Every token but the first is predicted once, in windows of `length` tokens moved by half of that,
    `batch_size` of them at a time.
    """
    starts, length, fresh = windows(stream.n_predicted, length)
    device, nats = next(model.parameters()).device, 0.0
    with torch.no_grad():
        for first in range(0, len(starts), batch_size):
            places = starts[first : first + batch_size, None] + np.arange(length + 1)
            tokens = torch.from_numpy(stream.ids[places].astype(np.int64)).to(device)
            losses = next_token_losses(model, tokens).cpu().numpy().astype(float)
            nats += float(losses[fresh[first : first + batch_size]].sum())
    return Score(nats, stream.n_predicted, int(stream.n_characters.sum()), int(stream.n_bytes.sum()))


def windows(n_predicted: int, length: int) -> tuple[np.ndarray, int, np.ndarray]:
    """Windows over a stream: their starts (W,), their length T, and which predictions count, (W, T).

    >>> starts, length, fresh = windows(7, 4)
    >>> starts.tolist(), fresh.sum(1).tolist()
    ([0, 2, 3], [4, 2, 1])
    """
    stride = max(1, length // 2)
    length = min(length, n_predicted)
    last = n_predicted - length  # the start of the last window
    starts = np.append(np.arange(0, last, stride), last)
    done = np.concatenate([[0], starts[:-1] + length])  # predictions made before each window
    return starts, length, starts[:, None] + np.arange(length) >= done[:, None]


def score_unigrams(streams: Streams) -> Score:
    """What the training text's token frequencies alone pay for the held-out text, 1 added to each count."""
    counts = 1.0 + np.bincount(streams.train.ids[1:], minlength=streams.vocab_size)
    held_out = streams.held_out
    nats = -np.log(counts / counts.sum())[held_out.ids[1:]].sum()
    n_characters, n_bytes = int(held_out.n_characters.sum()), int(held_out.n_bytes.sum())
    return Score(float(nats), held_out.n_predicted, n_characters, n_bytes)


# --- training ---------------------------------------------------------------------------------------


@dataclass(frozen=True)
class LanguageTraining:
    """How long a language model is trained, on how much at a time."""

    n_steps: int
    batch_size: int  # sequences
    length: int  # tokens that a sequence reads, in training and when it is scored
    optimizer: AdamW
    bfloat16: bool = False  # products in half precision, by autocast; scores are in float32


def train_language_model(
    model: nn.Module,
    streams: Streams,
    training: LanguageTraining,
    *,
    seed: int,
    snapshot_at: Schedule,
    train_sample: Stream | None = None,
    also: Callable[[], Mapping[str, float]] | None = None,
    after_backward: Callable[[int], None] | None = None,
    weights: SnapshotWeights = "all",
    run: Run | None = None,
) -> Iterator[Snapshot]:
    """Train on the device that the model is on, and score held-out text at each snapshot.

    Models of one `seed` see the same batches. `train_sample` is a part of the training text to be scored too,
    ``streams.train.head(n)``, and `also` gives more metrics; the other options are those of
    :func:`embviz.training.loop.train`.

    Yields
    ------
    Snapshot
        Metrics: bits_per_token, bits_per_character, bits_per_byte; those of the sample with "train_" before;
        those of `also`.
    """
    device, pieces = next(model.parameters()).device, (training.batch_size, training.length)

    def losses(step: int) -> Tensor:
        batch = draw_batch(streams.train, seed=seed, step=step, batch_size=pieces[0], length=pieces[1])
        with torch.autocast(device.type, torch.bfloat16, enabled=training.bfloat16):
            return next_token_losses(model, batch.to(device)).mean()

    def measure(step: int) -> dict[str, float]:
        measured = score(model, streams.held_out, length=training.length).as_metrics()
        if train_sample is not None:
            measured |= score(model, train_sample, length=training.length).as_metrics("train_")
        return measured | dict(also() if also else {})

    return train(
        model,
        losses,
        training.optimizer,
        n_steps=training.n_steps,
        snapshot_at=snapshot_at,
        measure=measure,
        weights=weights,
        names=[f"seed {seed}"],
        run=run,
        after_backward=after_backward,
    )
