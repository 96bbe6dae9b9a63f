"""Word pieces against a greedy search written out, documents, and the store on disk."""

import unicodedata

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from book.tying import wordpieces
from embviz import storage
from embviz.corpora.corpus import DOCUMENT_SEPARATOR
from tests.made_registry import stored, toml_entry, whole, write

PIECES = "[PAD] [UNK] [MASK] the glass cup un ##es ##s ##e ##full full cafe caf ##ed a b ##a ##b ##ab ab"
VOCABULARY = [*PIECES.split(), *".,'-!$月", "straße"]


def split_words(text: str) -> list[str]:
    """Lower-cased words without accents; a mark of punctuation, or a Chinese character, is a word."""
    plain = [c for c in unicodedata.normalize("NFD", text.lower()) if unicodedata.category(c) != "Mn"]
    spaced = []
    for c in plain:
        symbol = c in "$+<=>^`|~" or unicodedata.category(c).startswith("P") or "一" <= c <= "鿿"
        spaced.append(f" {c} " if symbol else c)
    return "".join(spaced).split()


def greedy_pieces(word: str, vocabulary: list[str]) -> list[str]:
    """The longest piece that the word starts with, then of the rest; a word that gets stuck is unknown."""
    pieces, start = [], 0
    while start < len(word):
        for end in range(len(word), start, -1):
            piece = ("##" if start else "") + word[start:end]
            if piece in vocabulary:
                break
        else:
            return ["[UNK]"]
        pieces.append(piece)
        start = end
    return pieces if len(word) <= 100 else ["[UNK]"]


def expected_pieces(text: str) -> list[str]:
    return [piece for word in split_words(text) for piece in greedy_pieces(word, VOCABULARY)]


@given(st.text(st.sampled_from("abAB éÉs.,-$'\t\n月cfuldx"), max_size=40))
@settings(max_examples=150)
def test_pieces_are_those_of_the_greedy_search_written_out(text):
    assert wordpieces.make_word_pieces(VOCABULARY).encode(text).tokens == expected_pieces(text)


@pytest.mark.parametrize(
    ("text", "pieces"),
    [
        ("The glasses", ["the", "glass", "##es"]),
        ("CAFÉ, cafés!", ["cafe", ",", "cafe", "##s", "!"]),
        ("unfull glasse", ["un", "##full", "glass", "##e"]),
        ("abab aab", ["ab", "##ab", "a", "##ab"]),  # the longest piece, not the shortest
        ("glassy", ["[UNK]"]),  # the whole word, not its rest
        ("the-cup's", ["the", "-", "cup", "'", "[UNK]"]),
        ("a月b", ["a", "月", "b"]),
        ("a" * 100, ["a", *["##a"] * 99]),
        ("a" * 101, ["[UNK]"]),
    ],
)
def test_a_few_words_by_hand(text, pieces):
    vocabulary = [piece for piece in VOCABULARY if piece != "s"]
    assert wordpieces.make_word_pieces(vocabulary).encode(text).tokens == pieces


# --- documents --------------------------------------------------------------------------------------


def test_documents_start_where_the_separator_says_and_empty_ones_are_left_out():
    text = DOCUMENT_SEPARATOR.join(["the cup.\n\nThe glasses", "", " \n", "a b"])
    ids, starts = wordpieces.encode_documents(text, wordpieces.make_word_pieces(VOCABULARY))
    assert [VOCABULARY[i] for i in ids] == ["the", "cup", ".", "the", "glass", "##es", "a", "b"]
    assert starts.tolist() == [0, 6]
    assert (ids.dtype, starts.dtype) == (np.int32, np.int64)


# --- on disk ----------------------------------------------------------------------------------------


@pytest.fixture
def made_novels(monkeypatch, tmp_path):
    """A registry with a text and a vocabulary, and an empty cache."""
    monkeypatch.setenv("EMBVIZ_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setenv("EMBVIZ_DATA_DIR", str(tmp_path / "mirror"))
    monkeypatch.setattr(storage, "registry_file", lambda: tmp_path / "registry.toml")
    text = f"The glasses.{DOCUMENT_SEPARATOR}A cup, a cup".encode()
    words = "\n".join(VOCABULARY).encode()
    entries = [
        toml_entry("made", whole(stored("made.txt", text)), form="text"),
        toml_entry(
            "bert_vocabulary", whole(stored("words.txt", words)), kind="vocabulary", form="word pieces"
        ),
    ]
    (tmp_path / "registry.toml").write_text("\n".join(entries))
    write(tmp_path / "mirror", "made.txt", text)
    write(tmp_path / "mirror", "words.txt", words)


def test_the_second_load_reads_the_first_ones_pieces_from_disk(made_novels, monkeypatch):
    first = wordpieces.load_pieces("made")
    assert [VOCABULARY[i] for i in first.ids] == ["the", "glass", "##es", ".", "a", "cup", ",", "a", "cup"]
    assert first.vocabulary == VOCABULARY
    assert first.counts.tolist() == np.bincount(first.ids, minlength=len(VOCABULARY)).tolist()
    assert first.document_starts.tolist() == [0, 4]

    monkeypatch.setattr(wordpieces, "encode_documents", lambda *_: pytest.fail("split again"))
    stored_one = wordpieces.load_pieces("made")
    np.testing.assert_array_equal(stored_one.ids, first.ids)
    assert stored_one.vocabulary == first.vocabulary
