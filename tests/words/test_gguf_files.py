"""GGUF files, written and read by the library of llama.cpp, against what is read here."""

from __future__ import annotations

import json

import numpy as np
import pytest

from embviz.corpora import registry
from embviz.corpora.registry import DataMissingError, resolve_path
from embviz.files.gguf import read_gguf
from embviz.words import WordVectors

gguf = pytest.importorskip("gguf", reason="gguf is an extra")

TOKENS = ["<bos>", "▁king", "▁queen", "dom", "<0x41>", "\U0001f642", "▁", "a\nb"]
RNG = np.random.default_rng(0)
TABLES = {
    "token_embd.weight": (RNG.normal(size=(8, 64)).astype(np.float32), "Q8_0"),
    "blk.0.attn_q.weight": (RNG.normal(size=(64, 64)).astype(np.float32), "Q4_0"),
    "blk.0.attn_k.weight": (RNG.normal(size=(32, 64)).astype(np.float32), "F16"),
    "blk.0.attn_v.weight": (RNG.normal(size=(32, 64)).astype(np.float32), "F32"),
    "output_norm.weight": (RNG.normal(size=64).astype(np.float32), "F32"),
}


def write(path, *, head=False, kinds=None):
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_block_count(1)
    writer.add_head_count(4)
    writer.add_head_count_kv(2)
    writer.add_embedding_length(64)
    writer.add_tokenizer_model("llama")
    writer.add_token_list(TOKENS)
    writer.add_token_scores([0.5] * len(TOKENS))
    writer.add_tokenizer_pre("default")
    tables = TABLES | (
        {"output.weight": (RNG.normal(size=(8, 64)).astype(np.float32), "F32")} if head else {}
    )
    for name, (table, kind) in tables.items():
        kind = (kinds or {}).get(name, kind)
        form = gguf.GGMLQuantizationType[kind]
        if kind == "I32":
            writer.add_tensor(name, table.astype(np.int32))
        else:
            writer.add_tensor(name, gguf.quants.quantize(table, form), raw_dtype=form)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def test_fields_tokens_and_numbers_are_those_of_the_library(tmp_path):
    found = read_gguf(write(tmp_path / "tiny.gguf"))
    theirs = gguf.GGUFReader(tmp_path / "tiny.gguf")
    for name, field in theirs.fields.items():
        if not name.startswith("GGUF."):
            np.testing.assert_array_equal(found.fields[name], field.contents())
    assert found.tokens == TOKENS
    assert [one.name for one in theirs.tensors] == list(found.tensors)
    for one in theirs.tensors:
        exact = gguf.quants.dequantize(one.data, one.tensor_type).reshape(TABLES[one.name][0].shape)
        np.testing.assert_array_equal(found.read(one.name), exact)
    rows = np.array([0, 3, 7])
    whole = found.read("token_embd.weight")
    np.testing.assert_array_equal(found.read("token_embd.weight", rows), whole[rows])
    np.testing.assert_array_equal(found.read("token_embd.weight", np.arange(2, 5)), whole[2:5])
    assert np.abs(whole - TABLES["token_embd.weight"][0]).max() < 0.02  # rounded to eight bits


def test_a_file_that_is_cut_short_anywhere_is_refused(tmp_path):
    content = write(tmp_path / "tiny.gguf").read_bytes()
    for size in [*range(4, 900, 13), len(content) - 1]:
        (tmp_path / "cut.gguf").write_bytes(content[:size])
        with pytest.raises(ValueError, match=r"not a whole GGUF|cut short|version"):
            read_gguf(tmp_path / "cut.gguf")
    (tmp_path / "new.gguf").write_bytes(b"GGUF\x09\0\0\0" + content[8:])
    with pytest.raises(ValueError, match="version 9"):
        read_gguf(tmp_path / "new.gguf")
    huge = content[:8] + (2**60).to_bytes(8, "little") * 2 + content[24:]
    (tmp_path / "huge.gguf").write_bytes(huge)
    with pytest.raises(ValueError, match=r"not a whole GGUF file \(past the end"):
        read_gguf(tmp_path / "huge.gguf")


def test_inspect_reads_weights_tokens_and_configuration(tmp_path):
    pytest.importorskip("torch")
    from embviz.inspection import inspect, model_vectors, read_tokenizer, read_weights

    path = write(tmp_path / "tiny.gguf")
    vectors = model_vectors(path)
    assert vectors.vocabulary == TOKENS
    np.testing.assert_allclose(vectors.word, TABLES["token_embd.weight"][0], atol=0.02)
    assert read_tokenizer(path) == TOKENS
    report = inspect(path, read_tokenizer(path))
    assert (report.vocab_size, report.embedding_dim, report.tied) == (8, 64, True)
    attention = report.table[report.table["part"].isin(["Q", "K", "V"])]
    assert attention.groupby("part")["head"].max().to_dict() == {"K": 1, "Q": 3, "V": 1}
    assert inspect(write(tmp_path / "head.gguf", head=True)).tied is False
    odd = read_weights(write(tmp_path / "odd.gguf", kinds={"blk.0.attn_k.weight": "I32"}))
    assert odd.left_out == {"blk.0.attn_k.weight": "I32"}


# --- names of released models, and files of packages -----------------------------------------------------


def wink(words, rows, **changed):
    records = {word: [*row, 1.0, place] for place, (word, row) in enumerate(zip(words, rows, strict=True))}
    header = {"precision": 8, "l2NormIndex": 3, "wordIndex": 4, "dimensions": 3, "words": words}
    return json.dumps(header | changed | {"vectors": records, "unkVector": [0, 0, 0, 0, -1]}).replace(
        ", ", ","
    )


def test_vectors_of_winks_packages_are_read(tmp_path):
    words, rows = ["the", '"', "a\\b", "é"], np.arange(12.0).reshape(4, 3) - 5.5
    path = tmp_path / "vectors.json"
    path.write_text(wink(words, rows.tolist()).replace(": ", ":"), encoding="utf-8")
    vectors = WordVectors.load(path)
    assert vectors.vocabulary == words
    np.testing.assert_array_equal(vectors.word, rows)
    assert WordVectors.load(path, limit=2).vocabulary == words[:2]
    path.write_text(wink(["x", *words[1:]], rows.tolist()).replace(": ", ":").replace('"x":[', '"y":['))
    with pytest.raises(ValueError, match="another word"):
        WordVectors.load(path)
    path.write_text('{"model": 1}')
    with pytest.raises(ValueError, match="not of wink's"):
        WordVectors.load(path)


def test_a_name_of_the_registry_is_a_path_once_its_files_are_there(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("EMBVIZ_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.delenv("EMBVIZ_DATA_DIR", raising=False)
    assert resolve_path("no_such_model").name == "no_such_model"
    assert resolve_path("text8") == registry.Path("text8")  # a corpus is no model
    with pytest.raises(DataMissingError, match="embviz data fetch glove_6b_100d"):
        WordVectors.load("glove_6b_100d")
    (tmp_path / "minilm_l6").mkdir()
    assert resolve_path("minilm_l6").is_dir()  # what lies here goes before a name


# --- a language model in a file ---------------------------------------------------------------------------

LETTERS = [*"abcdefghij", "Ġ", "ab", "Ġa"]
NAMES = {
    "attn_q": "self_attn.q_proj", "attn_k": "self_attn.k_proj", "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj", "ffn_gate": "mlp.gate_proj", "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj", "attn_norm": "input_layernorm", "ffn_norm": "post_attention_layernorm",
}  # fmt: skip


def tiny_qwen():
    import torch
    import transformers as tf

    torch.manual_seed(0)
    config = tf.Qwen2Config(
        vocab_size=len(LETTERS), hidden_size=32, intermediate_size=48, num_hidden_layers=2,
        num_attention_heads=4, num_key_value_heads=2, max_position_embeddings=64, tie_word_embeddings=True,
    )  # fmt: skip
    return tf.Qwen2ForCausalLM(config).eval()


def write_model(model, path):
    writer = gguf.GGUFWriter(path, "qwen2")
    writer.add_name("tiny")
    writer.add_block_count(2)
    writer.add_context_length(64)
    writer.add_embedding_length(32)
    writer.add_feed_forward_length(48)
    writer.add_head_count(4)
    writer.add_head_count_kv(2)
    writer.add_layer_norm_rms_eps(1e-6)
    writer.add_rope_freq_base(10_000.0)
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("qwen2")
    writer.add_token_list(LETTERS)
    writer.add_token_merges(["a b", "Ġ a"])
    state = {name: value.numpy() for name, value in model.state_dict().items()}
    writer.add_tensor("token_embd.weight", state["model.embed_tokens.weight"])
    writer.add_tensor("output_norm.weight", state["model.norm.weight"])
    for layer in range(2):
        for short, name in NAMES.items():
            for end in ("weight", "bias"):
                if (key := f"model.layers.{layer}.{name}.{end}") in state:
                    writer.add_tensor(f"blk.{layer}.{short}.{end}", state[key])
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


@pytest.mark.usefixtures("one_thread")
def test_loss_states_and_patches_of_a_file_are_those_of_the_model_in_it(tmp_path):
    torch = pytest.importorskip("torch")
    from embviz.inspection import hidden_states, inspect, patch, read_tokenizer

    model = tiny_qwen()
    path = write_model(model, tmp_path / "tiny.gguf")
    strings = torch.randint(len(LETTERS), (3, 12), generator=torch.Generator().manual_seed(0))
    for measure in (hidden_states, lambda source, strings: patch(source, "layers.1.q_proj", strings=strings)):
        own, found = measure(model, strings=strings), measure(path, strings=strings)
        numbers = own.select_dtypes("number").columns
        np.testing.assert_allclose(found[numbers], own[numbers], rtol=1e-4, atol=1e-5)
    tokenizer = read_tokenizer(path, for_text=True)
    assert tokenizer.encode("ab ac").tokens == ["ab", "Ġa", "c"]
    text = "ab ac ad ja bc " * 40
    losses = [
        one.table.query("quantity == 'next-token loss, bits a token'")["value"].item()
        for one in (inspect(path, tokenizer, text), inspect(model, tokenizer, text))
    ]
    assert losses[0] == pytest.approx(losses[1], rel=1e-5)


def test_a_copy_without_tokens_has_the_same_tensors_and_other_fields(tmp_path):
    path = write(tmp_path / "tiny.gguf")
    read_gguf(path).write_without_tokens(tmp_path / "copy.gguf")
    own, copy = read_gguf(path), read_gguf(tmp_path / "copy.gguf")
    assert copy.fields.pop("llama.vocab_size") == len(TOKENS)
    assert copy.fields == {name: one for name, one in own.fields.items() if "tokenizer.ggml" not in name}
    for name in own.tensors:
        np.testing.assert_array_equal(copy.read(name), own.read(name))
    assert {name for name in gguf.GGUFReader(tmp_path / "copy.gguf").fields if "ggml" in name} == set()
