import os
import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from embviz import storage
from embviz.corpora import bytepairs, registry

TEXT = "the cat sat on the mat; the hat is that of the cat\n" * 20 + "<|endoftext|>\nthe end\n"


@pytest.fixture(scope="module")
def tokenizer():
    return bytepairs.train_byte_pairs(TEXT, vocab_size=280)


@given(st.text())
def test_every_text_is_decoded_as_it_was(text):
    tokenizer = bytepairs.train_byte_pairs(TEXT, vocab_size=270)
    assert tokenizer.decode(tokenizer.encode(text).ids, skip_special_tokens=False) == text


def test_frequent_words_become_one_token_and_the_special_token_stays_whole(tokenizer):
    ids = tokenizer.encode(" the<|endoftext|>").ids
    assert len(ids) == 2
    assert ids[1] == 0


def test_training_gives_the_same_encoding_in_every_process_and_on_any_number_of_threads(tokenizer):
    code = (
        "import sys; from embviz.corpora import bytepairs;"
        "print(bytepairs.train_byte_pairs(sys.stdin.read(), vocab_size=280).to_str(), end='')"
    )
    for threads, hash_seed in (("1", "0"), ("2", "1")):
        environment = {**os.environ, "RAYON_NUM_THREADS": threads, "PYTHONHASHSEED": hash_seed}
        command = [sys.executable, "-c", code]
        result = subprocess.run(
            command, input=TEXT, capture_output=True, text=True, check=True, env=environment
        )
        assert result.stdout == tokenizer.to_str()


def test_an_empty_text_and_too_small_a_vocabulary_are_refused():
    with pytest.raises(ValueError, match="text to train byte pairs on is empty"):
        bytepairs.train_byte_pairs("", vocab_size=300)
    with pytest.raises(ValueError, match="vocab_size is 256: bytes and special tokens alone need 257"):
        bytepairs.train_byte_pairs("abc", vocab_size=256)


def test_gpt2_encodes_hello_world_as_published():
    if storage.mirror_folder() is None:
        pytest.skip("EMBVIZ_DATA_DIR is not set: GPT-2's encoding was NOT tested")
    tokenizer = bytepairs.load_gpt2()
    assert tokenizer.encode("Hello world<|endoftext|>").ids == [15496, 995, 50256]
    assert tokenizer.get_vocab_size() == 50257


def test_gpt2_without_its_files_says_where_to_put_them(monkeypatch, tmp_path):
    monkeypatch.delenv("EMBVIZ_DATA_DIR", raising=False)
    monkeypatch.setenv("EMBVIZ_CACHE_DIR", str(tmp_path))
    with pytest.raises(registry.DataMissingError, match="embviz data fetch gpt2_vocabulary"):
        bytepairs.load_gpt2()
