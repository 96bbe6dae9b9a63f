"""Word vectors in the formats of others, against their own programs where those are at hand."""

import bz2
import gzip
import lzma
import pickle
import struct
import sys
import zipfile

import numpy as np
import pandas as pd
import pytest
from safetensors.numpy import save

from embviz.imports import MissingExtraError
from embviz.inspection import model_vectors
from embviz.words import WordVectors

ROWS = np.arange(12, dtype=np.float32).reshape(4, 3) / 8 - 0.5
WORDS = ["the", "größer", "猫", "at name@domain.com"]
GLOVE = "".join(f"{word} {' '.join(map(str, row))}\n" for word, row in zip(WORDS, ROWS.tolist(), strict=True))


def same(vectors, words=WORDS, rows=ROWS):
    assert vectors.vocabulary == list(words)
    assert vectors.word.dtype == np.float32
    np.testing.assert_array_equal(vectors.word, rows)


def binary(words, *numbers):
    """word2vec's binary format: each record ends with a newline."""
    record = struct.pack("<2f", *(numbers or (1, 2)))
    return f"{len(words)} 2\n".encode() + b"".join(word + b" " + record + b"\n" for word in words)


# --- text -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("header", ["", "4 3\n"], ids=["GloVe", "fastText's .vec"])
@pytest.mark.parametrize("packed", [False, True])
def test_text_is_read_with_or_without_header_packed_or_not_and_words_may_hold_blanks(
    tmp_path, header, packed
):
    path, content = tmp_path / "vectors.txt", (header + GLOVE).encode()
    path.write_bytes(gzip.compress(content) if packed else content)
    same(WordVectors.load(path))
    same(WordVectors.load(path, limit=2), WORDS[:2], ROWS[:2])
    same(WordVectors.load(path, limit=9))


@pytest.mark.parametrize(
    ("content", "warning", "words"),
    [
        ("a 1 2\nb 3 4", "the last line has no end", ["a", "b"]),
        ("a 1 2\nb 3 4\na 5 6\n", "1 words came a second time", ["a", "b"]),
        (b"2 2\na 1 2\ngr\xf6\xdfer 3 4\n", "1 words are not UTF-8", ["a", "gr\ufffd\ufffder"]),
    ],
)
def test_what_is_odd_in_a_file_is_said(tmp_path, content, warning, words):
    (tmp_path / "v").write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.warns(UserWarning, match=warning):
        same(WordVectors.load(tmp_path / "v"), words, [[1, 2], [3, 4]])


def test_words_of_a_text_without_header_may_be_empty_or_hold_blanks_and_numbers(tmp_path):
    (tmp_path / "v").write_text("a 1 2\nb 3 4\n 5 6\n. . 7 8\n\nb 3 9 1\n2020 1 2\n")
    rows = [[1, 2], [3, 4], [5, 6], [7, 8], [9, 1], [1, 2]]
    same(WordVectors.load(tmp_path / "v"), ["a", "b", "", ". .", "b 3", "2020"], rows)


@pytest.mark.parametrize("header", ["", "2 2\n", "2 2\n\n"])
def test_a_byte_order_mark_and_an_empty_line_are_no_part_of_a_word(tmp_path, header):
    (tmp_path / "v").write_text(f"{header}the 1 2\nb 3 4\n", encoding="utf-8-sig")
    same(WordVectors.load(tmp_path / "v"), ["the", "b"], [[1, 2], [3, 4]])


@pytest.mark.parametrize("pack", [bz2.compress, lzma.compress])
def test_other_compressions_are_unpacked(tmp_path, pack):
    (tmp_path / "v").write_bytes(pack(GLOVE.encode()))
    same(WordVectors.load(tmp_path / "v"))


def test_an_archive_is_read_if_it_holds_one_file(tmp_path):
    with zipfile.ZipFile(tmp_path / "v.zip", "w") as archive:
        archive.writestr("vectors.txt", GLOVE)
    same(WordVectors.load(tmp_path / "v.zip"))
    with zipfile.ZipFile(tmp_path / "v.zip", "a") as archive:
        archive.writestr("more.txt", GLOVE)
    with pytest.raises(ValueError, match="is an archive of 2 files: unpack it and name one"):
        WordVectors.load(tmp_path / "v.zip")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "is no file of word vectors that is known here"),
        (b"only words here\nand here too\n", "is no file of word vectors that is known here"),
        (b"a 1 2\nb 3 x\n", "is no file of word vectors that is known here"),
        (b"a 1 2\n" * 21 + b"b 3\n", "record 22 is not a word and 2 numbers"),
        (b"a 1 2 3\n" * 9 + b"short 1 2\n", "record 10 is not a word and 3 numbers"),
        (b"2 2\na 1 2\n\n", "record 2 of 2 is missing"),
        (b"0 0\n", "has 0 words in 0 dimensions by its header"),
        (pickle.dumps({"a": [1.0]}), r"is a pickle, which can run code.*save_word2vec_format"),
        (gzip.compress(GLOVE.encode(), mtime=0)[:-20], "is cut short or damaged"),
        (b"3 2\nthe 0,1 0,2\nof 0,3 0,4\nand 0,5 0,6\n", "record 1 is not a word and 2 numbers"),
        (b"2 3\na 1 2\nb 3 4 5\n", "record 1 is not a word and 3 numbers"),
        (b"2 2\na 1 2\nb 3 4\nc 5 6\n", "goes on after the 2 records that its header names"),
        (
            b"1 2\na " + struct.pack("<2f", 1, 2) + b"\nb " + struct.pack("<2f", 1, 2),
            "goes on after the 1 rec",
        ),
        (binary([b"a", b"New York", b"c"]), "the word of record 3 of 3 holds bytes of no text"),
        (b"a 1 2\nb nan 4\nc 5 6\n", "word has 1 NaN or infinite"),
        (binary([b"a", b"b"], 1, float("inf")), "word has 2 NaN or infinite"),
        (b"GGUF\3\0\0\0", r"is a model: embviz\.inspection\.model_vectors\('.*v'\) reads its embedding"),
        (save({"wte": ROWS}), "is a model"),
        (b"version https://git-lfs.github.com/spec/v1\noid sha256:0\n", "is a Git LFS pointer"),
    ],
)
def test_what_is_no_file_of_vectors_is_refused_with_what_to_do(tmp_path, content, message):
    (tmp_path / "v").write_bytes(content)
    with pytest.raises(ValueError, match=message):
        WordVectors.load(tmp_path / "v")


def test_a_folder_is_a_model(tmp_path):
    with pytest.raises(ValueError, match="is a model"):
        WordVectors.load(tmp_path)


# --- gensim, fastText -------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def sentences():
    rng = np.random.default_rng(0)
    words = ["größer", "kleiner", "猫", "hund", "haus", "a"]
    return [[words[i] for i in rng.integers(len(words), size=12)] for _ in range(60)]


def test_a_model_of_gensim_keeps_its_words_and_contexts_and_its_pickle_is_refused(sentences, tmp_path):
    gensim = pytest.importorskip("gensim.models")
    model = gensim.Word2Vec(sentences, vector_size=6, min_count=1, workers=1, epochs=1, seed=1)
    found = WordVectors.from_gensim(model)
    same(found, model.wv.index_to_key, model.wv.vectors)
    np.testing.assert_array_equal(found.context, model.syn1neg)
    assert WordVectors.from_gensim(model.wv).context is None
    model.wv.save(str(tmp_path / "vectors.kv"))
    with pytest.raises(ValueError, match=r"KeyedVectors\.load\(.*vectors\.kv"):
        WordVectors.load(tmp_path / "vectors.kv")


def test_fasttexts_binary_file_is_read_by_gensim(sentences, tmp_path, monkeypatch):
    fasttext = pytest.importorskip("gensim.models.fasttext")
    model = fasttext.FastText(sentences, vector_size=5, min_count=1, min_n=2, max_n=4, bucket=50, epochs=1)
    path = tmp_path / "model.bin"
    fasttext.save_facebook_model(model, str(path))
    found = WordVectors.load(path)
    assert found.vocabulary == model.wv.index_to_key
    expected = np.stack([model.wv[word] for word in found.vocabulary])
    np.testing.assert_allclose(found.word, expected, rtol=1e-5, atol=1e-7)  # sums in another order
    same(WordVectors.load(path, limit=2), found.vocabulary[:2], found.word[:2])
    monkeypatch.setitem(sys.modules, "gensim", None)
    with pytest.raises(MissingExtraError, match=r'pip install "embviz\[fasttext\]"'):
        WordVectors.load(path)


# --- models -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("tied", [False, True])
def test_input_and_output_rows_of_a_language_model_are_words_and_contexts(tied):
    import transformers

    config = transformers.LlamaConfig(
        vocab_size=7, hidden_size=4, intermediate_size=4, num_hidden_layers=1, num_attention_heads=1,
        tie_word_embeddings=tied,
    )  # fmt: skip
    model = transformers.LlamaForCausalLM(config)
    found = model_vectors(model, ["a", "b", "a", "d"])
    assert found.vocabulary == ["a", "b", "a [row 2]", "d", "[row 4]", "[row 5]", "[row 6]"]
    np.testing.assert_array_equal(found.word, model.model.embed_tokens.weight.detach().numpy())
    if tied:
        assert found.context is None
    else:
        np.testing.assert_array_equal(found.context, model.lm_head.weight.detach().numpy())


# --- out --------------------------------------------------------------------------------------------


def test_what_is_written_for_others_is_what_they_read(tmp_path):
    vectors = WordVectors(["a", "größer", "猫"], ROWS[:3], -ROWS[:3])
    vectors.save_glove(tmp_path / "glove.txt")
    same(WordVectors.load(tmp_path / "glove.txt"), vectors.vocabulary, vectors.word)
    vectors.save_projector(tmp_path / "projector")
    table = pd.read_csv(tmp_path / "projector/vectors.tsv", sep="\t", header=None)
    np.testing.assert_array_equal(table.to_numpy(np.float32), vectors.word)
    lines = (tmp_path / "projector/metadata.tsv").read_text(encoding="utf-8").splitlines()
    assert lines == vectors.vocabulary
    vectors.save_parquet(tmp_path / "v.parquet")
    frame = pd.read_parquet(tmp_path / "v.parquet")
    assert frame["word"].tolist() == vectors.vocabulary
    np.testing.assert_array_equal(np.stack(frame["vector"]), vectors.word)
    np.testing.assert_array_equal(np.stack(frame["context"]), vectors.context)


# --- neighbours -------------------------------------------------------------------------------------


def test_most_similar_words_are_those_of_a_slow_loop():
    rng = np.random.default_rng(0)
    words, rows = [f"w{i}" for i in range(30)], rng.normal(size=(30, 4)).astype(np.float32)
    rows[7] = 0  # a word without a direction is like none
    vectors = WordVectors(words, rows)

    def cosine(i, j):
        lengths = np.linalg.norm(rows[i]) * np.linalg.norm(rows[j])
        return rows[i] @ rows[j] / lengths if lengths else 0.0

    expected = sorted(((cosine(3, i), i) for i in range(30) if i != 3), reverse=True)[:5]
    found = vectors.most_similar("w3", n=5)
    assert [word for word, _ in found] == [f"w{i}" for _, i in expected]
    assert [value for _, value in found] == pytest.approx([value for value, _ in expected], abs=1e-6)
    assert vectors.most_similar(rows[3], n=1)[0][0] == "w3"
    assert len(vectors.most_similar("w3", n=99)) == 29


def test_an_unknown_word_is_told_with_its_like():
    vectors = WordVectors(["king", "kind", "queen"], ROWS[:3])
    with pytest.raises(ValueError, match=r"'Kin' is not among the 3 words: there are 'king', 'kind'"):
        vectors.most_similar("Kin")
    with pytest.raises(ValueError, match="3 are needed"):
        vectors.most_similar(np.zeros(3))
