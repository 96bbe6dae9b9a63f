"""Streams of tokens, bits of held-out text against loops, and a language model that is trained on it."""

import dataclasses
import math
import os
import subprocess
import sys

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from book import language
from book.language import (
    LanguageTraining,
    Stream,
    Streams,
    TextConfig,
    draw_batch,
    load_streams,
    next_token_losses,
    score,
    score_unigrams,
    split_documents,
    train_byte_pairs,
    train_language_model,
    windows,
)
from book.transformer import Transformer, TransformerConfig
from embviz import storage
from embviz.corpora import corpus as corpora
from embviz.corpora import registry
from embviz.runs import Run
from embviz.training.loop import AdamW

STORIES = [f"Once a cat sat on {n} mats. Ünlike the dog, it was glad{'!' * n}" for n in range(1, 41)]
TEXT = " <|endoftext|>\n".join([*STORIES, "  "])
BYTES, PAIRS = TextConfig("made"), TextConfig("made", "byte pairs", 300)
OPTIMIZER = AdamW(1e-2, 1e-3, 30, eps=1e-8)


pytestmark = pytest.mark.usefixtures("one_thread")


@pytest.fixture(autouse=True)
def made_text(monkeypatch):
    """A corpus "made" without parts, and "parted", whose own validation part is held out."""
    texts = {
        ("made", None): TEXT,
        ("parted", "train"): TEXT,
        ("parted", "valid"): "A dog.<|endoftext|>A cow.",
    }
    parts = {"made": ["all"], "parted": ["train", "valid"]}
    real = registry.data_set("tinystories_5mb")
    monkeypatch.setattr(corpora, "load_text", lambda name, *, part=None: texts[name, part])
    monkeypatch.setattr(
        registry,
        "data_set",
        lambda name: dataclasses.replace(
            real, files=tuple(dataclasses.replace(real.files[0], part=part) for part in parts[name])
        ),
    )
    load_streams.cache_clear()
    yield
    load_streams.cache_clear()


class Counter(nn.Module):
    """Predicts by a fixed table of the token before, and of how many tokens it has read."""

    def __init__(self, n_symbols: int = 256, length: int = 64) -> None:
        super().__init__()
        generator = torch.Generator().manual_seed(0)
        self.table = nn.Parameter(torch.randn(n_symbols, n_symbols, generator=generator))
        self.place = nn.Parameter(torch.randn(length, n_symbols, generator=generator))

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        return self.table[tokens] + self.place[: tokens.shape[1]]


def text_of(ids: np.ndarray) -> str:
    return bytes(ids.tolist()).decode()


# --- streams ----------------------------------------------------------------------------------------


def test_every_twentieth_document_is_held_out_whatever_the_tokens():
    streams = load_streams(BYTES)
    held_out, rest = [STORIES[19], STORIES[39]], [*STORIES[:19], *STORIES[20:39]]
    assert text_of(streams.held_out.ids) == "\0" + "\0".join(held_out) + "\0"
    assert text_of(streams.train.ids) == "\0" + "\0".join(rest) + "\0"
    assert streams.vocab_size == 256
    pairs = load_streams(PAIRS)
    assert pairs.vocab_size == 300
    encoding = train_byte_pairs("\n".join(rest), vocab_size=300)
    for stream, documents in ((pairs.held_out, held_out), (pairs.train, rest)):
        decoded = encoding.decode(stream.ids.tolist(), skip_special_tokens=False)
        assert decoded == "".join(["<|endoftext|>", *(f"{document}<|endoftext|>" for document in documents)])


@pytest.mark.parametrize("config", [BYTES, PAIRS])
def test_the_text_is_counted_in_characters_and_bytes_whatever_the_tokens(config):
    held_out = load_streams(config).held_out
    documents = [STORIES[19], STORIES[39]]
    assert held_out.n_characters.tolist() == [len(document) + 1 for document in documents]
    assert held_out.n_bytes.tolist() == [len(document) + 2 for document in documents]  # the Ü has two


def test_documents_run_from_the_end_before_to_their_own():
    stream = load_streams(PAIRS).held_out
    documents = list(stream.documents())
    assert len(documents) == 2
    np.testing.assert_array_equal(np.concatenate([documents[0], documents[1][1:]]), stream.ids)
    assert {int(document[i]) for document in documents for i in (0, -1)} == {0}
    assert all((document[1:-1] != 0).all() for document in documents)


def test_the_head_of_a_stream_is_the_stream_of_its_first_documents():
    few = load_streams(dataclasses.replace(BYTES, n_documents=40, n_held_out=1)).held_out
    head = load_streams(BYTES).held_out.head(1)
    for field in dataclasses.fields(Stream):
        np.testing.assert_array_equal(getattr(few, field.name), getattr(head, field.name))
    first = load_streams(dataclasses.replace(BYTES, n_documents=21))  # taken before any is held out
    assert text_of(first.held_out.ids) == f"\0{STORIES[19]}\0"
    assert len(first.train.starts) == 20
    parted = load_streams(TextConfig("parted"))  # its own validation part is held out
    assert text_of(parted.held_out.ids) == "\0A dog.\0A cow.\0"
    assert len(parted.train.starts) == 40


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: load_streams(dataclasses.replace(BYTES, n_documents=3)), "3 documents to train on, 0 held"),
        (lambda: split_documents("one\0two"), "NUL"),
        (lambda: TextConfig("made", "words"), "tokens is 'words': choose one of bytes, byte pairs, gpt2"),
        (lambda: train_byte_pairs("abc", vocab_size=256), "and the end of a document alone need 257"),
    ],
)
def test_what_makes_no_text_is_refused(call, message):
    with pytest.raises(ValueError, match=message):
        call()


# --- byte pairs -------------------------------------------------------------------------------------


@given(st.text())
def test_every_text_is_decoded_as_it_was_and_the_separator_stays_whole(text):
    tokenizer = train_byte_pairs(TEXT, vocab_size=270)
    assert tokenizer.decode(tokenizer.encode(text).ids, skip_special_tokens=False) == text
    assert tokenizer.encode("<|endoftext|>").ids == [0]


def test_byte_pairs_are_the_same_on_any_number_of_threads():
    code = "import sys; from book.language import train_byte_pairs as train\n"
    code += "print(train(sys.stdin.read(), vocab_size=280).to_str(), end='')"
    environment = {**os.environ, "RAYON_NUM_THREADS": "2", "PYTHONHASHSEED": "1"}
    command = [sys.executable, "-c", code]
    found = subprocess.run(command, input=TEXT, capture_output=True, text=True, check=True, env=environment)
    assert found.stdout == train_byte_pairs(TEXT, vocab_size=280).to_str()


def test_gpt2_encodes_hello_world_as_published():
    if storage.mirror_folder() is None:
        pytest.skip("EMBVIZ_DATA_DIR is not set: GPT-2's encoding was NOT tested")
    tokenizer = language.load_gpt2()
    assert tokenizer.encode("Hello world<|endoftext|>").ids == [15496, 995, 50256]
    assert tokenizer.get_vocab_size() == 50257


# --- batches ----------------------------------------------------------------------------------------


def test_a_batch_holds_pieces_of_the_stream_and_follows_from_seed_and_step_alone():
    stream = load_streams(BYTES).train
    batch = draw_batch(stream, seed=3, step=7, batch_size=50, length=9)
    assert batch.shape == (50, 10)
    assert batch.dtype == torch.int64
    whole = text_of(stream.ids).encode()
    assert all(bytes(row) in whole for row in batch.tolist())
    assert torch.equal(batch, draw_batch(stream, seed=3, step=7, batch_size=50, length=9))
    for seed, step in ((4, 7), (3, 8)):
        assert not torch.equal(batch, draw_batch(stream, seed=seed, step=step, batch_size=50, length=9))


def test_every_place_can_be_drawn_the_last_token_among_them():
    stream = load_streams(BYTES).held_out.head(1)
    n = stream.n_predicted
    assert draw_batch(stream, seed=0, step=0, batch_size=1, length=n)[0].tolist() == stream.ids.tolist()
    rows = draw_batch(stream, seed=0, step=0, batch_size=200, length=n - 1)
    assert {tuple(row) for row in rows.tolist()} == {tuple(stream.ids[:-1]), tuple(stream.ids[1:])}


# --- bits -------------------------------------------------------------------------------------------


@given(st.integers(1, 40), st.integers(1, 12))
def test_windows_predict_each_token_once_with_half_a_window_before_it(n, length):
    starts, width, fresh = windows(n, length)
    assert width == min(n, length)
    assert fresh.shape == (len(starts), width)
    places = (starts[:, None] + np.arange(width))[fresh]
    assert sorted(places.tolist()) == list(range(n))
    before = np.broadcast_to(np.arange(width), fresh.shape)[fresh]  # tokens read before each prediction's own
    half = length - max(1, length // 2)
    assert all(seen >= min(place, half) for seen, place in zip(before, places, strict=True))


@pytest.mark.parametrize("batch_size", [1, 16])
def test_a_score_is_the_sum_over_windows_one_by_one(batch_size):
    stream, model = load_streams(BYTES).held_out, Counter().double()
    found = score(model, stream, length=10, batch_size=batch_size)
    ids = torch.from_numpy(stream.ids.astype(np.int64))
    start, nats, done = 0, 0.0, 0
    while done < len(ids) - 1:
        start = min(start, len(ids) - 11)
        log = (model.table[ids[start : start + 10]] + model.place[:10]).detach().log_softmax(1)
        for place in range(10):
            if start + place >= done:
                nats -= float(log[place, ids[start + place + 1]])
                done += 1
        start += 5
    assert found.nats == pytest.approx(nats, rel=1e-6)  # losses are float32
    assert found.n_tokens == done == len(ids) - 1


def test_a_model_that_knows_nothing_pays_eight_bits_a_byte():
    model = Counter()
    for parameter in model.parameters():
        nn.init.zeros_(parameter)
    found = score(model, load_streams(BYTES).held_out, length=16).as_metrics()
    n_characters = len(STORIES[19]) + len(STORIES[39]) + 2
    assert found["bits_per_token"] == pytest.approx(8)
    assert found["bits_per_byte"] == pytest.approx(8)
    assert found["bits_per_character"] == pytest.approx(8 * (n_characters + 2) / n_characters)


def test_windows_longer_than_the_text_read_all_of_it():
    stream, model = load_streams(BYTES).held_out.head(1), Counter(length=500)
    whole = score(model, stream, length=400)
    tokens = torch.from_numpy(stream.ids[None].astype(np.int64))
    assert whole.nats == pytest.approx(float(next_token_losses(model, tokens).detach().sum()), rel=1e-6)


def test_unigrams_pay_the_cross_entropy_of_the_training_counts():
    streams = load_streams(PAIRS)
    counts = {token: 1 for token in range(300)}
    for token in streams.train.ids[1:].tolist():
        counts[token] += 1
    total = sum(counts.values())
    nats = -sum(math.log(counts[token] / total) for token in streams.held_out.ids[1:].tolist())
    found = score_unigrams(streams)
    assert found.nats == pytest.approx(nats)
    assert found.n_tokens == len(streams.held_out.ids) - 1
    assert found.n_characters == len(STORIES[19]) + len(STORIES[39]) + 2


# --- training ---------------------------------------------------------------------------------------


def trained(
    streams: Streams, *, seed: int = 0, n_steps: int = 30, bfloat16: bool = False, run=None, **options
):
    model = Transformer(TransformerConfig(streams.vocab_size, 16, 16, 1, 2, 32, start="small"), seed=seed)
    training = LanguageTraining(n_steps, 8, 16, OPTIMIZER, bfloat16)
    return model, list(
        train_language_model(model, streams, training, seed=seed, snapshot_at=10, run=run, **options)
    )


def test_a_language_model_starts_at_uniform_and_beats_unigrams_after_training():
    streams = load_streams(PAIRS)
    sample = streams.train.head(2)
    _, snapshots = trained(streams, n_steps=60, train_sample=sample)
    first, last = snapshots[0].metrics, snapshots[-1].metrics
    assert first["bits_per_token"] == pytest.approx(math.log2(streams.vocab_size), rel=0.01)  # small weights
    assert last["bits_per_token"] < score_unigrams(streams).bits_per_token
    assert last["train_bits_per_token"] < first["train_bits_per_token"]
    assert [snapshot.step for snapshot in snapshots] == list(range(0, 61, 10))


def test_scores_in_a_run_are_those_of_the_model_then():
    streams = load_streams(BYTES)
    sample = streams.train.head(1)
    model, snapshots = trained(streams, n_steps=10, train_sample=sample)
    wanted = score(model, streams.held_out, length=16).as_metrics()
    wanted |= score(model, sample, length=16).as_metrics("train_")
    assert snapshots[-1].metrics == wanted


def test_a_run_resumes_to_the_same_bits(tmp_path):
    streams = load_streams(PAIRS)
    _, unbroken = trained(streams)
    with Run.open(tmp_path / "run") as run:
        trained(streams, n_steps=10, run=run)
        _, rest = trained(streams, run=run)
    assert [snapshot.step for snapshot in rest] == [20, 30]
    for one, other in zip(rest, unbroken[2:], strict=True):
        assert one.metrics == other.metrics
        assert all(torch.equal(array, other.weights[name]) for name, array in one.weights.items())


def test_half_precision_changes_training_a_little_and_scores_stay_exact():
    streams = load_streams(BYTES)
    (_, exact), (model, half) = trained(streams), trained(streams, bfloat16=True)
    assert half[0].metrics == exact[0].metrics
    assert half[-1].metrics != exact[-1].metrics
    # bfloat16 keeps eight bits of a product
    assert half[-1].metrics["bits_per_byte"] == pytest.approx(exact[-1].metrics["bits_per_byte"], rel=0.02)
    assert half[-1].metrics == score(model, streams.held_out, length=16).as_metrics()
    assert all(array.dtype == torch.float32 for array in half[-1].weights.values())
