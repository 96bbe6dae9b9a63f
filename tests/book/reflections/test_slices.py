"""Slices for language models: sizes, vocabulary, splits that share no document, sentences."""

import numpy as np
import pytest

from book.reflections import slices
from embviz.corpora import registry
from embviz.corpora.corpus import DOCUMENT_SEPARATOR

PARAGRAPH = "\n\n".join(f"A title {i}\n\nThe cat {i} sat on mat{i}. It isn't a hat!" for i in range(5))
STORY = [f"{PARAGRAPH}\n\nWord{i} is here." for i in range(12)]


@pytest.fixture
def cut(monkeypatch):
    """Cuts a slice from documents."""

    def made(documents=STORY, **changes):
        monkeypatch.setattr(slices, "load_text", lambda name: DOCUMENT_SEPARATOR.join(documents))
        arguments = {"n_train": 300, "n_valid": 60, "n_test": 60, "vocab_size": 12, **changes}
        return slices.make_language_model_slice("made", **arguments)

    return made


def test_a_slice_has_whole_sentences_and_the_sizes_asked_for(cut):
    story = cut()
    for ids, n_tokens in ((story.train, 300), (story.valid, 60), (story.test, 60)):
        assert n_tokens - 10 < len(ids) <= n_tokens
        assert ids[-1] == 1
        assert ids.dtype == np.uint8
    assert len(story.vocabulary) == 12
    assert "n't" in story.vocabulary
    assert "title" not in story.vocabulary
    with pytest.raises(ValueError, match=r"the documents left have \d+ tokens where 9,000"):
        cut(n_test=9_000)


def test_the_vocabulary_of_a_slice_is_the_most_frequent_training_words(cut):
    small, full = cut(vocab_size=6), cut()
    assert small.vocabulary == full.vocabulary[:6]
    counts = np.bincount(full.train)[2:]
    assert (np.diff(counts) <= 0).all()
    np.testing.assert_array_equal(small.train, np.where(full.train < 6, full.train, 0))


def test_no_document_is_in_two_splits(cut):
    documents = [f"This is document{i} here. And document{i} ends." for i in range(40)]
    found, again = (cut(documents, n_train=60, vocab_size=12) for _ in range(2))
    np.testing.assert_array_equal(found.train, again.train)
    # documents of the training split are words of its vocabulary: none may occur in the others
    known = [i for i, word in enumerate(found.vocabulary) if word.startswith("document")]
    assert np.isin(found.train, known).any()
    assert not np.isin(found.valid, known).any()
    assert not np.isin(found.test, known).any()


def test_published_splits_are_read_as_they_are(monkeypatch):
    parts = {"train": b" the <unk> sat \n \n the N end \n", "valid": b" the dog \n", "test": b" end <unk> \n"}
    monkeypatch.setattr(registry, "read_bytes", lambda name, *, part: parts[part])
    found = slices.load_language_model_data("ptb")
    assert found.vocabulary == ["<unk>", "<eos>", "the", "sat", "N", "end"]
    assert found.train.tolist() == [2, 0, 3, 1, 1, 2, 4, 5, 1]
    assert found.valid.tolist() == [2, 0, 1]
    assert found.test.tolist() == [5, 0, 1]


@pytest.mark.parametrize(
    ("text", "sentences"),
    [
        ("One here. Two there!", [["one", "here"], ["two", "there"]]),
        ("Mr. Smith met J. R. Brown.", [["mr", "smith", "met", "j", "r", "brown"]]),
        ("It cost $3.50, or 40%.", [["it", "cost", "$", "N", "or", "N", "%"]]),
        ("The 1990s and 1,000 B-52s.", [["the", "1990s", "and", "N", "b-52s"]]),
        ("They don\u2019t; it's Tom's.", [["they", "do", "n't", "it", "'s", "tom", "'s"]]),
        ('He said "Go." Then left.', [["he", "said", "go"], ["then", "left"]]),
        ("A title\n\nA line that\ngoes on.", [["a", "line", "that", "goes", "on"]]),
        ("No end", []),
        ("...", []),
        ("", []),
    ],
)
def test_sentences_are_cut_and_tokenized_as_in_the_penn_treebank(text, sentences):
    assert list(slices.ptb_sentences(text)) == sentences
