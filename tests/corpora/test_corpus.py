import lzma
import multiprocessing
from collections import Counter
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import safetensors
from hypothesis import given
from hypothesis import strategies as st

from embviz import memory, storage
from embviz.corpora import corpus as corpora
from embviz.corpora import docstrings, registry, texts
from tests.made_registry import stored, toml_entry, whole, write

WORDS = st.lists(st.sampled_from(["a", "b", "c", "dd", "e1", "F"]), min_size=1, max_size=30)
DOCUMENTS = st.lists(WORDS.map(" ".join), min_size=1, max_size=5)
SEPARATOR = corpora.DOCUMENT_SEPARATOR
EMPTY = ("", "  \n", "?!", SEPARATOR, "\u5b57")


def made(*documents):
    return corpora.text8_corpus(SEPARATOR.join(documents), name="made")


def spelled(corpus):
    """Documents as lists of words, None at holes."""
    words = list(corpus.words())
    ends = [*corpus.document_starts[1:], len(words)]
    return [words[start:end] for start, end in zip(corpus.document_starts, ends, strict=True)]


def same(first, second):
    return (
        first.vocabulary == second.vocabulary
        and first.checksum == second.checksum
        and all(
            np.array_equal(getattr(first, field), getattr(second, field))
            and getattr(first, field).dtype == getattr(second, field).dtype
            for field in ("ids", "counts", "document_starts")
        )
    )


@pytest.fixture
def folders(monkeypatch, tmp_path):
    """Empty cache and mirror; returns a function that registers a made corpus in the mirror."""
    monkeypatch.setenv("EMBVIZ_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setenv("EMBVIZ_DATA_DIR", str(tmp_path / "mirror"))
    monkeypatch.setattr(storage, "registry_file", lambda: tmp_path / "registry.toml")
    entries = []

    def register(name, *contents, parts=("all",), **fields):
        files = []
        for part, content in zip(parts, contents, strict=True):
            packed = lzma.compress(content)
            files.append(whole(stored(f"{name}.{part}.xz", packed), text=content, part=part))
            write(tmp_path / "mirror", f"{name}.{part}.xz", packed)
        entries.append(toml_entry(name, *files, **fields))
        (tmp_path / "registry.toml").write_text("\n".join(entries))
        return tmp_path

    return register


# numbering


@given(DOCUMENTS)
def test_ids_spell_the_text_and_the_vocabulary_goes_by_count_then_first_appearance(documents):
    corpus = made(*documents)
    expected = [texts.normalize_words(document).decode().split() for document in documents]
    assert spelled(corpus) == expected
    # Counter keeps the order of first appearance, and its sort is stable
    counted = Counter(word for document in expected for word in document).most_common()
    assert list(zip(corpus.vocabulary, corpus.counts.tolist(), strict=True)) == counted
    assert corpus.document_starts.dtype == corpus.counts.dtype == np.int64


def test_the_checksum_is_that_of_the_raw_text():
    assert corpora.text8_corpus("abc", name="x").checksum.startswith("ba7816bf8f01cfea414140de5dae2223")
    assert corpora.text8_corpus(b"abc", name="x").checksum == corpora.text8_corpus("abc", name="y").checksum


@pytest.mark.parametrize(
    ("n_words", "dtype"), [(255, np.uint8), (256, np.uint16), (65_535, np.uint16), (65_536, np.uint32)]
)
def test_ids_have_the_smallest_type_that_also_holds_the_hole(n_words, dtype):
    letters = "abcdefghijklmnopqrstuvwxyz"
    words = [a + b + c + d for a in "ab" for b in letters for c in letters for d in letters for _ in "ab"]
    text = " ".join(f"{word}{'x' * (i % 2)}" for i, word in enumerate(words))
    text = " ".join(dict.fromkeys(text.split()[:n_words]))
    corpus = corpora.text8_corpus(text, name="many")
    assert len(corpus.vocabulary) == n_words
    assert corpus.ids.dtype == dtype


# cutting and restricting


@given(DOCUMENTS, st.integers(1, 40))
def test_the_head_of_a_corpus_is_the_corpus_of_the_head(documents, n_tokens):
    whole_text = made(*documents)
    head = whole_text.head(n_tokens)
    kept, left = [], n_tokens
    for document in spelled(whole_text):
        if left > 0:
            kept.append(" ".join(document[:left]))
            left -= len(document)
    assert same(replace(head, checksum=""), replace(made(*kept), checksum=""))


def slow_frequent(corpus, min_count, max_vocab):
    pairs = zip(corpus.vocabulary, corpus.counts.tolist(), strict=True)
    return [word for word, count in pairs if count >= min_count][:max_vocab]


@given(DOCUMENTS, st.integers(1, 4), st.none() | st.integers(1, 6), st.sampled_from(["hole", "drop", "unk"]))
def test_restricting_is_what_a_word_by_word_reading_gives(documents, min_count, max_vocab, rare):
    corpus = made(*documents)
    frequent = slow_frequent(corpus, min_count, max_vocab)
    if not frequent:
        with pytest.raises(ValueError, match="lower min_count"):
            corpus.restrict(min_count=min_count, max_vocab=max_vocab, rare=rare)
        return
    restricted = corpus.restrict(min_count=min_count, max_vocab=max_vocab, rare=rare)
    instead = {"hole": [None], "drop": [], "unk": ["UNK"]}[rare]
    expected = []
    for document in spelled(corpus):
        places = [[word] if word in frequent else instead for word in document]
        expected.append([word for place in places for word in place])
    assert spelled(restricted) == [document for document in expected if document]
    assert restricted.vocabulary == [*["UNK"] * (rare == "unk"), *frequent]
    counted = Counter(word for document in expected for word in document)
    assert restricted.counts.tolist() == [counted[word] for word in restricted.vocabulary]
    assert restricted.ids.dtype == np.min_scalar_type(len(restricted.vocabulary))


def test_holes_are_dropped_become_unk_and_survive_a_cut():
    corpus = made("a a b a", "b c").restrict(min_count=2)
    assert spelled(corpus) == [["a", "a", "b", "a"], ["b", None]]
    assert spelled(corpus.restrict(rare="drop")) == [["a", "a", "b", "a"], ["b"]]
    assert spelled(corpus.restrict(rare="unk")) == [["a", "a", "b", "a"], ["b", "UNK"]]
    assert spelled(corpus.head(6)) == spelled(corpus)
    assert spelled(made("c a").restrict(max_vocab=1).head(2)) == [["c", None]]
    fewer = made("a b a b", "c", "?", "b a", "d").restrict(min_count=2, rare="drop")
    assert spelled(fewer) == [["a", "b", "a", "b"], ["b", "a"]]  # documents without words are none


AB = made("a b")


@pytest.mark.parametrize(
    ("call", "message"),
    [
        *((lambda text=text: made(text), "the text 'made' is empty: it has no word") for text in EMPTY),
        (lambda: AB.restrict(min_count=9), r"no word of 'made' occurs 9 times or more.*'a', occurs 1 times"),
        (lambda: AB.restrict(rare="keep"), "rare is 'keep'"),
        (lambda: AB.restrict(max_vocab=0), "max_vocab is 0"),
        (lambda: AB.restrict(max_vocab=1, rare="unk").restrict(max_vocab=1), '"UNK" already'),
        (lambda: AB.head(0), "n_tokens is 0"),
    ],
)
def test_what_leaves_no_text_is_refused(call, message):
    with pytest.raises(ValueError, match=message):
        call()


# loading


def test_a_corpus_read_from_the_cache_is_the_one_that_was_made(folders, monkeypatch):
    content = f"One rose. {SEPARATOR}\nTwo roses, one {SEPARATOR}".encode()
    folders("rose", content, form="text")
    first = corpora.load_corpus("rose")
    assert same(first, corpora.text8_corpus(content, name="rose"))
    monkeypatch.setattr(corpora, "text8_corpus", None)  # the second time nothing is made
    assert same(corpora.load_corpus("rose"), first)


@pytest.mark.parametrize("damage", ["cut short", "one bit", "no file of ours"])
def test_a_damaged_cache_is_noticed_and_made_anew(folders, damage):
    folder = folders("rose", b"a rose is a rose", form="words")
    first = corpora.load_corpus("rose")
    (path,) = (folder / "cache" / "tokens").iterdir()
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    damaged = {"cut short": content[:-5], "one bit": content, "no file of ours": b"{}"}[damage]
    path.write_bytes(bytes(damaged))
    assert same(corpora.load_corpus("rose"), first)
    assert path.read_bytes() != bytes(damaged)


def test_a_cached_corpus_is_not_used_when_its_data_file_is_wrong(folders):
    folder = folders("rose", b"a rose is a rose", form="words")
    corpora.load_corpus("rose")
    path = folder / "mirror" / "rose.all.xz"
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(registry.ChecksumError, match="truncated or altered"):
        corpora.load_corpus("rose")


def _load_rose(folder, queue):
    corpora.storage.registry_file = lambda: folder / "registry.toml"
    queue.put(corpora.load_corpus("rose").ids.tolist())


def test_two_processes_may_make_the_same_corpus_at_once(folders):
    folder = folders("rose", b"a rose is a rose " * 1000, form="words")
    context = multiprocessing.get_context("spawn")
    queue = context.Queue()
    processes = [context.Process(target=_load_rose, args=(folder, queue)) for _ in range(2)]
    for process in processes:
        process.start()
    first, second = queue.get(timeout=600), queue.get(timeout=600)
    for process in processes:
        process.join()
    assert first == second == corpora.load_corpus("rose").ids.tolist()


def test_a_dump_of_wikipedia_is_filtered_into_an_article_a_document(folders):
    dump = b"<page><text x>A [[bird|Bird]].</text></page><page><text x>Two</text></page>"
    folders("dump", dump, form="wikipedia xml")
    assert spelled(corpora.load_corpus("dump")) == [["a", "bird"], ["two"]]


def test_the_first_tokens_and_a_part_can_be_asked_for(folders):
    folders("rose", b"a b c", b"d e f", parts=("train", "valid"), form="text")
    assert corpora.load_corpus("rose").vocabulary == ["a", "b", "c"]
    assert corpora.load_corpus("rose", n_tokens=2).vocabulary == ["a", "b"]
    assert corpora.load_text("rose", part="valid") == "d e f"
    with pytest.raises(registry.RegistryError, match="has no part 'test'"):
        corpora.load_text("rose", part="test")


def test_a_corpus_too_large_for_memory_is_refused_before_it_is_read(folders, monkeypatch):
    folders("rose", b"a rose", form="text")
    monkeypatch.setattr(memory, "available_memory", lambda: 10)
    monkeypatch.setattr(memory, "NEVER_REFUSED", 0)
    with pytest.raises(
        MemoryError, match=r"numbering the words of 'rose' needs about .* use a smaller corpus"
    ):
        corpora.load_corpus("rose")


@pytest.mark.parametrize(
    ("load", "name", "message"),
    [
        (corpora.load_corpus, "pairs", "'pairs' is a word test, not a corpus"),
        (corpora.load_text, "pairs", "'pairs' is a word test, not a corpus"),
        (corpora.load_corpus, "lines", "registry.read_bytes gives its parts"),
        (corpora.load_word_test, "lines", "'lines' is a corpus, not a word test"),
    ],
)
def test_what_is_of_another_kind_is_refused_with_what_reads_it(folders, load, name, message):
    folders("pairs", b"a b 1", kind="word test", form="similarity")
    folders("lines", b"a b", form="tokens")
    with pytest.raises(registry.RegistryError, match=message):
        load(name)


@pytest.fixture
def gathered(monkeypatch, tmp_path):
    """The embedded corpus over a made library."""
    monkeypatch.setenv("EMBVIZ_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(docstrings, "gather_docstrings", lambda: ["Some words.", "More words, and more."])


def test_the_embedded_corpus_has_a_docstring_a_document_and_its_fingerprint(gathered):
    corpus = corpora.load_corpus("embedded")
    assert spelled(corpus) == [["some", "words"], ["more", "words", "and", "more"]]
    assert corpus.checksum == docstrings.fingerprint()
    assert same(corpora.load_corpus("embedded"), corpus)
    assert corpora.load_text("embedded") == f"Some words.\n{SEPARATOR}\nMore words, and more."


def test_the_embedded_corpus_needs_no_cache_that_can_be_written(gathered, monkeypatch, tmp_path):
    before = corpora.load_corpus("embedded")
    (tmp_path / "file").touch()
    monkeypatch.setenv("EMBVIZ_CACHE_DIR", str(tmp_path / "file" / "cache"))
    assert same(corpora.load_corpus("embedded"), before)


def test_a_disk_that_fills_while_words_are_kept_costs_nothing_but_time(gathered, monkeypatch):
    def full(arrays, file, metadata):
        file.write_bytes(b"half")
        raise safetensors.SafetensorError("I/O error: No space left on device")

    monkeypatch.setattr(safetensors.numpy, "save_file", full)
    assert corpora.load_corpus("embedded").n_tokens == 6
    assert not list(storage.cache_folder().glob("tokens/*"))


def test_the_stand_in_for_text8_has_its_known_figures():
    if storage.mirror_folder() is None:
        pytest.skip("EMBVIZ_DATA_DIR is not set: real corpora were NOT counted")
    corpus = corpora.load_corpus("text8_prefix")
    assert corpus.n_tokens == 2_139_749
    assert len(corpus.vocabulary) == 80_982


# word tests


def test_similarity_scores_are_numbers_and_words_are_lower_case(folders):
    folders("pairs", b"Tiger\tcat\t7.35\r\nbook paper 10.0\r\n", kind="word test", form="similarity")
    table = corpora.load_word_test("pairs")
    expected = pd.DataFrame({"word1": ["tiger", "book"], "word2": ["cat", "paper"], "score": [7.35, 10.0]})
    pd.testing.assert_frame_equal(table, expected)


def test_analogies_keep_their_sections(folders):
    content = b": Capitals\nAthens Greece Oslo Norway\n: verbs\ngo went see saw\n"
    folders("questions", content, kind="word test", form="analogy")
    table = corpora.load_word_test("questions")
    assert table.values.tolist() == [
        ["athens", "greece", "oslo", "norway", "capitals"],
        ["go", "went", "see", "saw", "verbs"],
    ]
    assert list(table.columns) == ["a", "b", "c", "d", "section"]


N_ROWS = {"wordsim353": 353, "wordsim353_similarity": 203, "wordsim353_relatedness": 252, "men": 3000}
N_ROWS |= {"mturk": 287, "rare_words": 2034, "simlex999": 999, "google_analogy": 19_544, "msr_analogy": 8000}


def test_word_tests_have_their_published_sizes():
    if storage.mirror_folder() is None:
        pytest.skip("EMBVIZ_DATA_DIR is not set: word tests were NOT read")
    tables = {name: corpora.load_word_test(name) for name in N_ROWS}
    assert {name: len(table) for name, table in tables.items()} == N_ROWS
    assert not any(table.isna().any(axis=None) for table in tables.values())
    assert tables["google_analogy"]["section"].nunique() == 14
