"""Word vectors on disk and by factorization."""

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from safetensors.numpy import save_file

from embviz.words.formats import CONTROL, context_path
from embviz.words.wordvectors import SEPARATORS, WordVectors, chosen_rows, factorize_pmi

ODD_WORDS = [
    "naïve",
    "日本",
    "🦉",
    "<script>",
    'quo"te',
    "שלום",
    "a\u00a0b",
    "\u2028",
    "</s>",
    "1.5",
    "é\u0301",
]


def made_vectors(words: list[str], D: int = 5, seed: int = 0, **parts) -> WordVectors:
    rng = np.random.default_rng(seed)
    word, context = rng.normal(size=(2, len(words), D)).astype(np.float32)
    word *= np.float32(10.0) ** rng.integers(-30, 30, size=word.shape)  # digits at every scale survive
    return WordVectors(words, word, context, **parts)


def assert_same(first: WordVectors, second: WordVectors) -> None:
    assert first.vocabulary == second.vocabulary
    for name in ("word", "context", "signature", "transform", "bias"):
        one, two = getattr(first, name), getattr(second, name)
        assert (one is None) == (two is None)
        if one is not None:
            assert one.dtype == two.dtype
            np.testing.assert_array_equal(one, two)


def test_a_safetensors_file_keeps_everything(tmp_path):
    signature = np.array([1, -1, 1, 1, -1], dtype=np.int8)
    vectors = made_vectors(
        [*ODD_WORDS, "with space", "\n"], signature=signature, bias=np.ones(13, np.float32)
    )
    vectors.save(tmp_path / "v.safetensors")
    assert_same(WordVectors.load(tmp_path / "v.safetensors"), vectors)


@pytest.mark.parametrize("harm", ["nested", "cut short"])
def test_a_damaged_safetensors_file_is_refused(tmp_path, harm):
    path = tmp_path / "v.safetensors"
    made_vectors(["a", "b"]).save(path)
    if harm == "nested":
        deep = np.frombuffer(b"[" * 20_000 + b"]" * 20_000, dtype=np.uint8)
        save_file({"vocabulary": deep, "word": np.zeros((1, 2), np.float32)}, path)
    else:
        path.write_bytes(path.read_bytes()[:-8])
    with pytest.raises(ValueError, match="not a whole file of word vectors"):
        WordVectors.load(path)


@pytest.mark.parametrize("binary", [False, True])
def test_a_word2vec_file_keeps_words_and_contexts_to_the_bit(tmp_path, binary):
    vectors = made_vectors(ODD_WORDS, D=300)  # eight digits would fail for some of so many
    vectors.save_word2vec(tmp_path / "v", binary=binary)
    assert context_path(tmp_path / "v").is_file()
    assert_same(WordVectors.load(tmp_path / "v"), vectors)


@settings(max_examples=30, deadline=None)
@given(
    words=st.lists(
        st.text(min_size=1).filter(lambda w: not set(w) & set(SEPARATORS) and w.isprintable()),
        min_size=1,
        max_size=6,
        unique=True,
    ),
    numbers=st.lists(
        st.floats(width=32, allow_nan=False, allow_infinity=False, allow_subnormal=False),
        min_size=6,
        max_size=6,
    ),
    binary=st.booleans(),
)
def test_any_words_and_numbers_come_back(tmp_path_factory, words, numbers, binary):
    word = np.tile(np.array(numbers, dtype=np.float32), (len(words), 1))
    # so few numbers may hold no byte that text cannot hold: read as text, with a wrong record, and refused
    assume(not binary or CONTROL.search(word.tobytes()))
    path = tmp_path_factory.mktemp("w2v") / "v"
    WordVectors(words, word).save_word2vec(path, binary=binary)
    found = WordVectors.load(path)
    assert found.vocabulary == words
    np.testing.assert_array_equal(found.word, word)


@pytest.mark.parametrize("binary", [False, True])
def test_gensim_reads_what_is_written_and_what_it_writes_is_read(tmp_path, binary):
    gensim = pytest.importorskip("gensim.models")
    vectors = made_vectors(ODD_WORDS)
    vectors.save_word2vec(tmp_path / "v", binary=binary)
    for path, expected in ((tmp_path / "v", vectors.word), (context_path(tmp_path / "v"), vectors.context)):
        theirs = gensim.KeyedVectors.load_word2vec_format(str(path), binary=binary)
        assert theirs.index_to_key == vectors.vocabulary
        np.testing.assert_array_equal(theirs.vectors, expected)
    theirs.save_word2vec_format(str(tmp_path / "theirs"), binary=binary)
    found = WordVectors.load(tmp_path / "theirs")
    assert_same(found, WordVectors(vectors.vocabulary, vectors.context))


@pytest.mark.parametrize("word", ["two words", "tab\tbed", "", "line\nbreak"])
def test_a_word_that_the_format_cannot_hold_is_refused(tmp_path, word):
    with pytest.raises(ValueError, match=r"is empty or has white space in it.*use save\(\)"):
        made_vectors(["fine", word]).save_word2vec(tmp_path / "v")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("binary", [False, True])
def test_a_word2vec_file_cut_short_is_refused(tmp_path, binary):
    path = tmp_path / "v"
    made_vectors(ODD_WORDS).save_word2vec(path, binary=binary)
    content = path.read_bytes()
    path.write_bytes(content[: len(content) // 2])
    with pytest.raises(ValueError, match=r"record [0-9]+ (of 11|is not a word)"):
        WordVectors.load(path)
    path.write_bytes(content[: len(content) - 6])
    if binary:
        with pytest.raises(ValueError, match="record 11 of 11 is cut short"):
            WordVectors.load(path)
    else:
        with pytest.warns(UserWarning, match="the last line has no end, so that its last number may be cut"):
            WordVectors.load(path)


def test_contexts_of_another_vocabulary_are_refused(tmp_path):
    made_vectors(["a", "b"]).save_word2vec(tmp_path / "v")
    made_vectors(["a", "c"]).save_word2vec(tmp_path / "w")
    context_path(tmp_path / "w").replace(context_path(tmp_path / "v"))
    with pytest.raises(ValueError, match="has other words than"):
        WordVectors.load(tmp_path / "v")


def test_neighbours_of_all_words_are_those_of_each():
    rng = np.random.default_rng(0)
    made = WordVectors([f"w{place}" for place in range(30)], rng.normal(size=(30, 6)).astype(np.float32))
    found = made.neighbors(4)
    assert found.columns.tolist() == ["word", "rank", "neighbor", "cosine"]
    for word in made.vocabulary:
        own = found[found.word == word]
        names, cosines = zip(*made.most_similar(word, 4), strict=True)
        assert tuple(own.neighbor) == names
        np.testing.assert_allclose(own.cosine, cosines, atol=1e-6)
        assert own["rank"].tolist() == [1, 2, 3, 4]


ONES, EYE = np.ones((2, 3), np.float32), np.eye(3, 2, dtype=np.float32)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: WordVectors(list("abc"), ONES), r"shape \(2, 3\); 3 words in 3 dimensions need \(3, 3\)"),
        (lambda: WordVectors(list("aba"), EYE), "the word 'a' is in the vocabulary twice"),
        (lambda: chosen_rows(WordVectors(["a", "b"], ONES), "sum"), "'sum' needs context vectors"),
        (lambda: WordVectors(list("abc"), EYE).neighbors(1), "vector of 'c' is zero and has no direction"),
        (lambda: WordVectors(list("abc"), EYE).head(2).neighbors(3), "3"),
    ],
)
def test_vectors_that_do_not_fit_or_are_not_there_are_refused(call, message):
    with pytest.raises(ValueError, match=message):
        call()


# --- factorization ----------------------------------------------------------------------------------


def made_symmetric(V: int, seed: int = 0) -> np.ndarray:
    matrix = np.random.default_rng(seed).normal(size=(V, V))
    return matrix + matrix.T


def test_word_signature_word_is_the_best_approximation_of_its_rank():
    matrix = made_symmetric(40)
    vectors = factorize_pmi(matrix, 7, seed=0)
    product = (vectors.word * vectors.signature) @ vectors.word.T
    left, values, right = np.linalg.svd(matrix)
    best = (left[:, :7] * values[:7]) @ right[:7]
    # a solver in float32 may stop a little early
    np.testing.assert_allclose(product, best, atol=1e-3 * np.abs(best).max())
    np.testing.assert_array_equal(vectors.context, vectors.word * vectors.signature)
    eigenvalues = np.linalg.eigvalsh(matrix)
    largest = eigenvalues[np.argsort(-np.abs(eigenvalues))[:7]]
    np.testing.assert_array_equal(vectors.signature, np.sign(largest))
