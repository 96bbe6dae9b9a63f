"""Texts of the kernel paper's models: every reading against slow loops, and refusals."""

import dataclasses
from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from book.kernel.experiments import texts
from book.kernel.experiments.texts import TextReading, load
from embviz.corpora import make_corpus

RNG = np.random.default_rng(0)
ALPHABET = [first + second for first in "abcdefgh" for second in "xyz"]
WORDS = [ALPHABET[i] for i in np.minimum(RNG.geometric(0.15, 400) - 1, 23)]  # few often, many seldom
TEXT = " ".join(WORDS[:90]) + "\n<|endoftext|>\n" + " ".join(WORDS[90:]) + "\n<|endoftext|>\n"
READING = TextReading("made", vocab_size=7, n_tokens=60)


@pytest.fixture(autouse=True)
def made_corpus(monkeypatch):
    """A corpus of 400 words in two documents, 10 tokens of it held out."""
    monkeypatch.setattr(texts, "load_corpus", lambda name: make_corpus(TEXT, name=name))
    monkeypatch.setattr(texts, "load_text", lambda name: TEXT)
    monkeypatch.setattr(texts, "LEAST_HELD_OUT", 10)
    load.cache_clear()
    yield
    load.cache_clear()


def spelled(text: texts.Text, ids: np.ndarray) -> list[str]:
    return [text.vocabulary[i] for i in ids]


def most_common(words: list[str], n: int) -> list[str]:
    return [word for word, _ in Counter(words).most_common(n)]  # ties: in order of first appearance


# --- readings -----------------------------------------------------------------------------------------


def test_dropping_keeps_the_most_frequent_words_of_the_shortest_beginning_that_is_long_enough():
    for n_read in range(len(WORDS)):
        known = most_common(WORDS[:n_read], 7)
        kept = [word for word in WORDS[:n_read] if word in known]
        if len(kept) == 60:
            break
    text = load(READING)
    assert spelled(text, text.ids) == kept
    assert list(text.vocabulary) == most_common(kept, 7)
    rest = [word for word in WORDS[n_read:] if word in known]
    assert spelled(text, text.held_out) == rest[:10]


def test_one_symbol_for_other_words_leaves_every_word_its_place():
    text = load(dataclasses.replace(READING, symbols="unk"))
    known = most_common(WORDS[:60], 6)
    expected = [word if word in known else "UNK" for word in WORDS[:70]]
    assert spelled(text, text.ids) == expected[:60]
    assert spelled(text, text.held_out) == expected[60:]
    assert sorted(text.vocabulary) == sorted([*known, "UNK"])


def test_characters_are_those_of_the_text_with_its_blanks():
    text = load(dataclasses.replace(READING, symbols="characters", vocab_size=5))
    whole = " ".join(WORDS[:90]) + "\n" + " ".join(WORDS[90:]) + "\n"
    known = most_common(list(whole), 5)
    expected = [character for character in whole if character in known]
    assert " " in known
    assert spelled(text, text.ids) == expected[:60]
    assert spelled(text, text.held_out) == expected[60:70]


@pytest.mark.parametrize("symbols", ["drop", "unk", "characters"])
def test_counts_are_of_the_training_text_and_ids_go_by_them(symbols):
    text = load(dataclasses.replace(READING, symbols=symbols))
    assert text.counts.tolist() == [np.sum(text.ids == word) for word in range(7)]
    assert (np.diff(text.counts) <= 0).all()
    assert text.counts.sum() == 60
    assert text.ids.dtype == text.held_out.dtype == np.uint8
    assert text.name == "made"


@pytest.mark.parametrize("symbols", ["drop", "unk", "characters"])
def test_other_orders_rename_the_same_tokens(symbols):
    reading = dataclasses.replace(READING, symbols=symbols)
    by_count, by_name, by_place = (
        load(dataclasses.replace(reading, order=order))
        for order in ("frequency", "alphabetical", "appearance")
    )
    for other in (by_name, by_place):
        assert spelled(other, other.ids) == spelled(by_count, by_count.ids)
        assert spelled(other, other.held_out) == spelled(by_count, by_count.held_out)
    assert list(by_name.vocabulary) == sorted(by_count.vocabulary)
    assert list(by_place.vocabulary) == list(dict.fromkeys(spelled(by_place, by_place.ids)))


def test_shuffling_moves_tokens_of_the_training_text_alone():
    plain = load(READING)
    shuffled = load(dataclasses.replace(READING, shuffled=True))
    other = load(dataclasses.replace(READING, shuffled=True, seed=1))
    assert shuffled.ids.tolist() != plain.ids.tolist() != other.ids.tolist() != shuffled.ids.tolist()
    for text in (shuffled, other):
        assert text.counts.tolist() == plain.counts.tolist()
        assert text.held_out.tolist() == plain.held_out.tolist()


def test_documents_start_where_their_first_token_kept_stands():
    reading = dataclasses.replace(READING, n_tokens=200)
    text = load(reading)
    known = set(text.vocabulary)
    n_before = sum(word in known for word in WORDS[:90])
    assert text.document_starts.tolist() == [0, n_before]
    assert load(dataclasses.replace(reading, symbols="unk")).document_starts.tolist() == [0, 90]
    assert load(READING).document_starts.tolist() == [0]  # the second one starts later


@settings(max_examples=25)
@given(st.integers(2, 9), st.integers(40, 80), st.sampled_from(["drop", "unk"]))
def test_no_symbol_of_a_text_of_words_is_absent_from_it(vocab_size, n_tokens, symbols):
    text = load(TextReading("made", symbols, vocab_size=vocab_size, n_tokens=n_tokens))
    assert len(text.ids) == n_tokens
    assert len(text.vocabulary) == vocab_size
    assert text.counts.min() > 0


# --- refusals -----------------------------------------------------------------------------------------


def test_a_corpus_that_is_too_short_is_refused_with_the_number_of_its_tokens():
    for symbols in ("drop", "unk"):
        reading = dataclasses.replace(READING, symbols=symbols, n_tokens=395)
        with pytest.raises(
            ValueError, match=r"has \d+ tokens in 7 symbols .* not 395 to train on and 39 held"
        ):
            load(reading)
    with pytest.raises(ValueError, match="has 400 tokens"):
        load(dataclasses.replace(READING, symbols="unk", n_tokens=395))
    with pytest.raises(ValueError, match="lower n_tokens or take a larger corpus"):
        load(dataclasses.replace(READING, symbols="characters", n_tokens=5_000))


@pytest.mark.parametrize(("symbols", "vocab_size"), [("drop", 40), ("unk", 40), ("characters", 300)])
def test_too_few_different_symbols_are_refused_with_their_number(symbols, vocab_size):
    reading = dataclasses.replace(READING, symbols=symbols, vocab_size=vocab_size)
    with pytest.raises(ValueError, match=r"have \d+ different symbols: lower vocab_size"):
        load(reading)
