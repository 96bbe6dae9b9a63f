"""Corpora of one's own: texts in any script, files, documents, tokenizers, tokens."""

import gzip
import hashlib
import shutil
import tracemalloc
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from embviz.arrays import in_blocks
from embviz.corpora import corpus as corpus_file
from embviz.corpora import corpus_from_tokens, make_corpus, making
from embviz.corpora.corpus import DOCUMENT_SEPARATOR, text8_corpus
from embviz.corpora.making import unicode_words

TEXTS = {
    "Cyrillic": ("Съешь ещё этих мягких булок", ["съешь", "ещё", "этих", "мягких", "булок"]),
    "German": ("Die Straße, größer!", ["die", "straße", "größer"]),
    "Chinese": ("我爱北京", ["我", "爱", "北", "京"]),
    "Arabic": ("مرحبا بالعالم", ["مرحبا", "بالعالم"]),
    "Hindi": ("नमस्ते दुनिया", ["नमस्ते", "दुनिया"]),
    "emoji between words": ("good 🙂👩‍👩‍👧 day", ["good", "day"]),
    "an apostrophe and a number": ("Don't pay 1,000.50!", ["don't", "pay", "1,000.50"]),
    "Windows line ends": ("one\r\ntwo\r\n", ["one", "two"]),
    "an accent by itself": ("cafe\u0301 café", ["café"]),
}


def spelled(corpus):
    return [corpus.vocabulary[i] for i in corpus.ids]


@pytest.mark.parametrize("kind", TEXTS)
def test_words_of_any_script_are_kept_whole(kind):
    text, words = TEXTS[kind]
    assert list(dict.fromkeys(unicode_words(text))) == words
    assert make_corpus(text).vocabulary == words


@given(st.lists(st.text("abcXYZé ß.,'1я字\n", max_size=20), max_size=5), st.integers(2, 12))
def test_blocks_cut_no_word_and_lose_none(documents, block):
    text = DOCUMENT_SEPARATOR.join(documents)
    words = [unicode_words(document) for document in documents]
    if not any(words):
        return
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(making, "BLOCK", 40 * block)
        blocks = [text[i : i + block] for i in range(0, len(text), block)]  # as a file gives them
        found = list(making._pieces(blocks))
    assert [word for _, piece in found for word in unicode_words(piece)] == [
        word for part in words for word in part
    ]
    assert sum(begins for begins, _ in found) == len(documents)


@given(st.lists(st.text("abc 12.\n", min_size=1, max_size=30), min_size=1, max_size=4))
def test_text8s_form_is_that_of_the_registrys_corpora(documents):
    text = DOCUMENT_SEPARATOR.join(documents)
    if not any(character in "abc12" for character in text):
        return
    mine, theirs = make_corpus(text, name="x", tokenizer="text8"), text8_corpus(text, name="x")
    assert mine.vocabulary == theirs.vocabulary
    assert mine.checksum == theirs.checksum
    for name in ("ids", "counts", "document_starts"):
        np.testing.assert_array_equal(getattr(mine, name), getattr(theirs, name))
    assert mine.ids.dtype == theirs.ids.dtype


def test_text8s_form_tells_which_letters_it_drops():
    with pytest.warns(UserWarning, match=r"drops 86% of the letters of 'mine', such as 'п'.*unicode"):
        assert make_corpus("привет a", tokenizer="text8").vocabulary == ["a"]
    make_corpus("a " * 500 + "é", tokenizer="text8")  # 0.2% is not worth a warning, which would be an error


def test_a_file_is_read_in_blocks_and_gives_what_its_text_gives(tmp_path, monkeypatch):
    text = "Größe und Maß, sagt sie. " * 50 + DOCUMENT_SEPARATOR + "Ende gut " * 30
    plain, packed = tmp_path / "mein.txt", tmp_path / "mein.txt.gz"
    plain.write_text(text, encoding="utf-8")
    packed.write_bytes(gzip.compress(text.encode()))
    whole = make_corpus(text)
    monkeypatch.setattr(making, "BLOCK", 64)
    for path in (plain, packed):
        corpus = make_corpus(path)
        assert spelled(corpus) == spelled(whole)
        assert corpus.document_starts.tolist() == whole.document_starts.tolist() == [0, 250]
    assert make_corpus(plain).name == "mein"
    assert whole.checksum != hashlib.sha256(b"").hexdigest()


def test_ids_of_a_long_text_lie_in_a_file_and_are_the_same(monkeypatch):
    text = "a b a c " * 200
    whole = make_corpus(text)
    monkeypatch.setattr(making, "ON_DISK", 100)
    paged = make_corpus(text)
    assert isinstance(paged.ids.base, np.memmap)
    np.testing.assert_array_equal(paged.ids, whole.ids)
    assert paged.restrict(min_count=300).vocabulary == ["a"]


@given(st.lists(st.sampled_from("abcdefg"), min_size=1), st.integers(1, 4), st.integers(1, 4))
def test_types_in_many_parts_and_rare_ones_left_out_are_those_of_a_whole_list(words, n_types, kept):
    whole = corpus_from_tokens(words)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(making, "N_TYPES", n_types)
        parts = [corpus_from_tokens(words[i : i + 1]) for i in range(len(words))]
        assert [spelled(part) for part in parts] == [[word] for word in words]
        in_parts = make_corpus(words, name="mine", tokenizer=str.split)
        frequent = make_corpus(words, tokenizer=str.split, max_vocab=kept)
    for found, expected in ((in_parts, whole), (frequent, whole.restrict(max_vocab=kept))):
        assert found.vocabulary == expected.vocabulary
        np.testing.assert_array_equal(found.counts, expected.counts)
        np.testing.assert_array_equal(found.ids, expected.ids)
        assert found.ids.dtype == expected.ids.dtype


def test_rare_words_become_holes():
    corpus = make_corpus("a b a c a b", min_count=2)
    assert (corpus.vocabulary, corpus.ids.tolist()) == (["a", "b"], [0, 1, 0, 2, 0, 1])


def test_memory_does_not_grow_with_the_text(tmp_path, monkeypatch):
    """Three times as many tokens, types and documents, each with blocks and parts of the same size."""
    for name, size in (("BLOCK", 1 << 12), ("ON_DISK", 1 << 14), ("N_TYPES", 4_000), ("N_CHUNKS", 4_000)):
        monkeypatch.setattr(making, name, size)
    monkeypatch.setattr(corpus_file, "in_blocks", lambda ids, _: in_blocks(ids, 1 << 12))
    making._CUT.clear()
    peaks = []
    for n_words in (20_000, 60_000):
        lines = (f"word{i} the and\n" + DOCUMENT_SEPARATOR * (i % 500 == 0) for i in range(n_words))
        (tmp_path / "long.txt").write_text("".join(lines))
        tracemalloc.start()
        corpus = make_corpus(tmp_path / "long.txt", max_vocab=100)
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
        assert corpus.n_tokens == 3 * n_words
    assert peaks[1] < 1.3 * peaks[0], peaks  # all ids and types at once: three times as much


def test_a_full_disk_is_told_with_what_is_left(monkeypatch):
    monkeypatch.setattr(making, "ON_DISK", 100)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: SimpleNamespace(free=20))
    with pytest.raises(OSError, match=r"0\.02 kB left, and the ids of 'mine' take 0\.40 kB.*TMPDIR"):
        make_corpus("a b " * 200)


word_like = st.text("aZ9_'.,:;-é’\u0301中א\u200d\u00ad", max_size=8)


@given(word_like | st.text(max_size=8))
def test_the_short_way_for_ascii_cuts_as_the_rule_does(chunk):
    for part in chunk.split():
        assert making._Cut()[part] == making._words_of(part)


def test_texts_and_files_that_come_one_by_one_are_documents(tmp_path):
    (tmp_path / "a.txt").write_text("x y")
    corpus = make_corpus(iter(["one two", "", "three", tmp_path / "a.txt"]))
    assert spelled(corpus) == ["one", "two", "three", "x", "y"]
    assert corpus.document_starts.tolist() == [0, 2, 3]
    assert (
        make_corpus(f"one two{DOCUMENT_SEPARATOR}three").checksum
        == make_corpus(["one two", "three"]).checksum
    )


def test_latin_1_is_named_and_then_read(tmp_path):
    path = tmp_path / "alt.txt"
    path.write_bytes("größer als".encode("latin-1"))
    with pytest.raises(ValueError, match=r"alt\.txt is not utf-8: byte 0xf6.*\"replace\".*\"latin-1\""):
        make_corpus(path)
    assert make_corpus(path, encoding="latin-1").vocabulary == ["größer", "als"]
    with pytest.raises(ValueError, match="no encoding is called 'latin-l'"):
        make_corpus(path, encoding="latin-l")
    path.write_bytes("\ufeffa b".encode())  # a byte order mark is no letter
    assert make_corpus(path).vocabulary == ["a", "b"]


def test_the_name_of_a_file_is_not_taken_for_a_text(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("mine.txt").write_text("a b", encoding="utf-8")
    with pytest.raises(ValueError, match=r"'mine.txt' is the name of a file: give pathlib.Path"):
        make_corpus("mine.txt")
    assert make_corpus(Path("mine.txt")).n_tokens == 2
    with pytest.raises(FileNotFoundError):
        make_corpus(Path("absent.txt"))


def test_a_tokenizer_of_hugging_face_cuts_as_it_does_anywhere():
    tokenizers = pytest.importorskip("tokenizers")
    text = "low lower lowest new newer newest " * 5
    tokenizer = tokenizers.Tokenizer(tokenizers.models.BPE())
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.train_from_iterator([text], tokenizers.trainers.BpeTrainer(vocab_size=40, show_progress=False))
    corpus = make_corpus(text, tokenizer=tokenizer)
    assert spelled(corpus) == tokenizer.encode(text).tokens

    class Like:
        """As those of transformers."""

        def tokenize(self, text):
            return tokenizer.encode(text).tokens

    assert spelled(make_corpus(text, tokenizer=Like())) == spelled(corpus)
    tokenizer.enable_truncation(4)
    tokenizer.enable_padding(length=8)
    assert spelled(make_corpus(text, tokenizer=tokenizer)) == spelled(corpus)
    assert tokenizer.truncation["max_length"] == 4  # the given one stays as it is


def test_an_endless_line_in_a_packed_file_is_read_in_pieces_and_its_cuts_are_told(tmp_path, monkeypatch):
    monkeypatch.setattr(making, "BLOCK", 100)
    with gzip.open(tmp_path / "one.txt.gz", "wb") as file:
        file.write(b"a" * 10_000)
    lengths = []
    with pytest.warns(UserWarning, match="no white space in .* characters: a word may be cut there"):
        make_corpus(tmp_path / "one.txt.gz", tokenizer=lambda text: lengths.append(len(text)) or [text])
    assert sum(lengths) == 10_000
    assert max(lengths) <= 2 * making.BLOCK


@pytest.mark.parametrize("content", [gzip.compress(b"a b " * 50, mtime=0)[:-12], b"\x1f\x8b" + bytes(50)])
def test_a_packed_text_that_is_damaged_is_named(tmp_path, content):
    (tmp_path / "text.gz").write_bytes(content)
    with pytest.raises(ValueError, match=r"text\.gz is cut short or damaged .*: get it again"):
        make_corpus(tmp_path / "text.gz")


def test_a_function_is_a_tokenizer():
    assert make_corpus("ab ba", tokenizer=list).vocabulary == ["a", "b", " "]


# --- tokens -----------------------------------------------------------------------------------------


@given(st.lists(st.lists(st.integers(0, 5), max_size=8), min_size=1, max_size=4))
def test_tokens_keep_their_order_and_are_numbered_by_count(documents):
    flat = [str(token) for document in documents for token in document]
    if not flat:
        return
    corpus = corpus_from_tokens(documents)
    assert spelled(corpus) == flat
    assert (np.diff(corpus.counts) <= 0).all()
    lengths = [len(document) for document in documents if document]
    assert corpus.document_starts.tolist() == [0, *np.cumsum(lengths)[:-1].tolist()]


DEVICE = pytest.mark.skipif(not Path("/dev/zero").is_char_device(), reason="this system has no such device")


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: make_corpus("a", tokenizer="words"), 'use "unicode", "text8"'),
        (lambda: make_corpus("a", max_vocab=0), "max_vocab"),
        (lambda: make_corpus("a b a", min_count=4), "no word of 'mine' occurs 4 times: lower min_count"),
        (lambda: make_corpus(5), "source is int: give a text"),
        (lambda: make_corpus([["a", "b"]]), "document 0 is list.*corpus_from_tokens"),
        (lambda: make_corpus("?! 🙂"), "the text 'mine' is empty"),
        (lambda: make_corpus([]), "the text 'mine' is empty"),
        (lambda: make_corpus(b"a b"), "document 0 is int: give strings or paths"),
        (lambda: make_corpus("ab", tokenizer=lambda _: [97]), "the tokenizer gave 97, which is no string"),
        (lambda: corpus_from_tokens("a b"), "documents is one string"),
        (lambda: corpus_from_tokens([[1.5]]), r"1\.5 is no token"),
        pytest.param(
            lambda: make_corpus(Path("/dev/zero")),
            "/dev/zero is a device, which may have no end",
            marks=DEVICE,
        ),
    ],
)
def test_what_is_no_text_is_refused_with_what_to_do(call, message):
    with pytest.raises(ValueError, match=message):
        call()
