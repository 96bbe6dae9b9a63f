"""Checkpoints of tiny models, built from configurations: resized, written, and read again by Transformers."""

import argparse
import functools
import json
import math

import numpy as np
import pytest
import torch

from embviz.cli import _read_tokens, main
from embviz.models import layouts, resizing
from embviz.models.resizing import load_checkpoint, resize_checkpoint, save_checkpoint

pytest.importorskip("transformers", reason="transformers is an extra")
tokenizers = pytest.importorskip("tokenizers")

SIZES = dict(vocab_size=11, hidden_size=12, num_hidden_layers=2, num_attention_heads=3, intermediate_size=10)
SIZES |= dict(max_position_embeddings=5, bos_token_id=0, eos_token_id=0, pad_token_id=0)
TOKENS = torch.randint(11, (8, 6), generator=torch.Generator().manual_seed(3))
STRING = TOKENS[1:2, :-1]
EXACT = 1e-5  # float32: some dozen sums after one another in another order
SCALED = {"rope_type": "llama3", "rope_theta": 500.0, "factor": 8.0, "low_freq_factor": 1.0}
SCALED |= {"high_freq_factor": 4.0, "original_max_position_embeddings": 4}
ROPE = {"rope_type": "default", "rope_theta": 500.0, "partial_rotary_factor": 0.5}


def livened(model):
    """With biases, gains and scales that aren't at their start, in float32."""
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn(parameter.shape, generator=generator), alpha=0.3)
    return model.eval()


def made(kind, config, **options):
    import transformers as tf

    return livened(getattr(tf, kind)(getattr(tf, config)(**{**SIZES, **options})))


def gpt2(**options):
    import transformers as tf

    sizes = dict(vocab_size=11, n_positions=5, n_embd=12, n_layer=2, n_head=3, bos_token_id=0, eos_token_id=0)
    return livened(tf.GPT2LMHeadModel(tf.GPT2Config(**sizes, **options)))


def llama(**options):
    return made("LlamaForCausalLM", "LlamaConfig", **{"num_key_value_heads": 3, **options})


def neox(**options):
    return made("GPTNeoXForCausalLM", "GPTNeoXConfig", **{"rope_parameters": ROPE, **options})


def gemma3():
    kinds = ["sliding_attention", "full_attention"]
    return made(
        "Gemma3ForCausalLM", "Gemma3TextConfig", **GROUPED, head_dim=4, sliding_window=3, layer_types=kinds
    )


def bert():
    return made("BertModel", "BertConfig")


GROUPED = {"num_key_value_heads": 1}
MODELS = {
    "gpt2": gpt2,
    "gpt2, a free head, unscaled": lambda: gpt2(
        tie_word_embeddings=False, scale_attn_weights=False, scale_attn_by_inverse_layer_idx=True, n_inner=7
    ),
    "neox": neox,
    "neox, one after the other": lambda: neox(use_parallel_residual=False, attention_bias=False),
    "neox, tied, scaled positions": lambda: neox(
        tie_word_embeddings=True, rope_parameters={**ROPE, "rope_type": "linear", "factor": 2.0}
    ),
    "llama": llama,
    "llama, grouped and tied": lambda: llama(num_key_value_heads=1, tie_word_embeddings=True),
    "llama, wide heads, biases": lambda: llama(head_dim=6, attention_bias=True),
    "llama 3, scaled positions": lambda: llama(rope_parameters=SCALED, tie_word_embeddings=True),
    "mistral": lambda: made("MistralForCausalLM", "MistralConfig", **GROUPED, head_dim=4),
    "qwen2": lambda: made("Qwen2ForCausalLM", "Qwen2Config", **GROUPED),
    "qwen3, wide heads": lambda: made("Qwen3ForCausalLM", "Qwen3Config", **GROUPED, head_dim=6),
    "phi3": lambda: made("Phi3ForCausalLM", "Phi3Config", **GROUPED),
    "gemma": lambda: made("GemmaForCausalLM", "GemmaConfig", **GROUPED, head_dim=4),
}
AFTER = {  # their gains are exact only where coordinates are repeated, or zeros appended, or all are equal
    "gemma2": lambda: made("Gemma2ForCausalLM", "Gemma2Config", **GROUPED, head_dim=4, sliding_window=3),
    "gemma3": gemma3,
    "bert": bert,
    "bert with a head": lambda: made("BertForMaskedLM", "BertConfig"),
}


def read_again(folder):
    import transformers as tf

    (name,) = json.loads((folder / "config.json").read_text())["architectures"]
    return getattr(tf, name).from_pretrained(folder, dtype=torch.float32).eval()


def answer(model, ids=None):
    output = model(STRING if ids is None else ids)
    return output.logits if hasattr(output, "logits") else output.last_hidden_state


def logit_error(new, old):
    new, old = new.detach().double(), old.detach().double()
    return float((new - old).norm() / (old - old.mean(-1, keepdim=True)).norm())


def written(model, folder, width, **options):
    found = resize_checkpoint(model, width, tokens=TOKENS, **options)
    return found, read_again(save_checkpoint(found, folder / "small"))


def assert_exact(model, found, again):
    expected = answer(model)
    if type(model).__name__ == "BertModel":  # its answer is the stream
        expected = expected @ torch.from_numpy(found.projection.matrix.T).float()
    assert type(again) is type(model)
    assert again.config.hidden_size == found.projection.m
    assert logit_error(answer(again), expected) < EXACT
    assert found.logit_error < EXACT


# --- exactness ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "width", [12, 18, 24]
)  # a rotation, and orthonormal columns of up to twice the length
@pytest.mark.parametrize("name", [*MODELS, "gemma2", "gemma3", "bert"])
def test_a_rotation_and_a_doubling_of_the_width_keep_every_family_exactly(name, width, tmp_path):
    model = {**MODELS, **AFTER}[name]()
    if name in AFTER:
        with torch.no_grad():
            for full, array in model.named_parameters():
                if "LayerNorm.weight" in full or "layernorm.weight" in full:
                    array.fill_(0.7)
    found, again = written(model, tmp_path, width)
    T = found.projection.matrix * (12 / width) ** 0.5
    np.testing.assert_allclose(T.T @ T, np.eye(12), atol=1e-12)
    assert not np.allclose(T[:12], np.eye(12), atol=0.5)
    assert_exact(model, found, again)
    inexact = found.parts.loc[~found.parts["exact"], "part"].tolist()
    assert inexact == (["pooler"] if name == "bert" else [])  # a tanh acts on single coordinates
    assert found.losses is None or found.losses[1] == pytest.approx(found.losses[0], abs=EXACT)


@pytest.mark.parametrize("name", AFTER)
def test_gains_that_write_to_the_stream_are_carried_by_repeating_coordinates_alone(name, tmp_path):
    model = AFTER[name]()
    found, again = written(model, tmp_path, 24, how="repeat")
    assert_exact(model, found, again)
    assert found.parts["exact"].all()
    turned = resize_checkpoint(model, 12, tokens=TOKENS)
    assert turned.logit_error > 0.1
    assert not turned.summary().set_index("part")["exact"]["attention"]
    assert any("no exact form in another basis" in note for note in turned.notes)


@pytest.mark.parametrize("name", ["gpt2", "llama, wide heads, biases", "mistral", "qwen2", "phi3", "gemma"])
def test_below_its_width_a_model_is_written_and_read_again_and_the_report_tells_what_is_lost(name, tmp_path):
    model = MODELS[name]()
    found, again = written(model, tmp_path, 9)
    torch.testing.assert_close(again(STRING).logits, found.model(STRING).logits)
    assert found.n_parameters[1] == sum(array.numel() for array in again.parameters())
    exact = found.summary().set_index("part")["exact"]
    assert exact["embedding"]
    assert not exact.drop("embedding").any()
    assert found.logit_error > 0.1
    assert "3 of 12 directions of the stream are gone" in found.notes[0]


def test_appended_zeros_carry_the_gains_of_a_gemma():
    found = resize_checkpoint(gemma3(), 18, how="zeros", tokens=TOKENS)
    assert found.logit_error < 1e-5
    assert found.parts["exact"].all()
    assert torch.equal(found.model.model.embed_tokens.weight[:, 12:], torch.zeros(11, 6))


def test_a_narrower_encoder_is_written_and_read_again(tmp_path):
    found, again = written(bert(), tmp_path, 9, how="pca")
    torch.testing.assert_close(answer(again), answer(found.model))
    assert found.losses is None
    assert any("each keeps" in note for note in found.notes)
    assert any("last states, which have 9 coordinates" in note for note in found.notes)


@pytest.mark.parametrize("how", ["gaussian", "rademacher", "sparse", "hadamard"])
def test_each_random_map_can_be_chosen_and_without_a_text_the_report_says_why_there_are_no_losses(how):
    found = resize_checkpoint(llama(), 6, how=how, seed=3)
    assert found.projection.family == how
    assert found.parts.set_index("part")["exact"]["embedding"]
    assert found.losses is None
    assert any("no losses, since no text was given" in note for note in found.notes)
    assert any("'pca', which needs a text" in note for note in found.notes)


def test_a_tied_head_comes_apart_and_the_report_says_so_and_counts_it(tmp_path):
    model = gpt2()
    found, again = written(model, tmp_path, 12)
    assert not torch.equal(again.lm_head.weight, again.transformer.wte.weight)
    assert any("the head is an array of its own" in note for note in found.notes)
    assert found.n_parameters[1] - found.n_parameters[0] == 11 * 12
    assert found.n_bytes[1] == 4 * found.n_parameters[1]


def test_half_precision_is_written_in_half_precision(tmp_path):
    folder = tmp_path / "model"
    llama().bfloat16().save_pretrained(folder)
    found = resize_checkpoint(load_checkpoint(folder), 18)
    save_checkpoint(found, tmp_path / "small")
    assert json.loads((tmp_path / "small/config.json").read_text())["dtype"] == "bfloat16"
    assert found.n_bytes[0] == 2 * found.n_parameters[0]
    assert 1e-4 < found.logit_error < 0.05  # what rounding to eight bits costs
    assert not found.parts["exact"].all()  # of the file, and the file is rounded
    assert found.parts["unrounded"].max() < 1e-5
    assert any("the file is in bfloat16: before rounding" in note for note in found.notes)
    again = read_again(tmp_path / "small")
    old = read_again(folder)
    ids = resizing._halves(resizing._tokens(old), old)[1][:, :-1]
    assert logit_error(again(ids).logits, old(ids).logits) == pytest.approx(found.logit_error, rel=1e-3)


def test_heads_whose_products_have_a_low_rank_are_narrowed_without_loss():
    draw = functools.partial(torch.randn, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    qkv = draw(3, 3, 4, 2) @ draw(2, 13)  # queries, keys and values of 3 heads, four coordinates of rank two
    out, x = draw(3, 4, 12), torch.cat([draw(20, 12), torch.ones(20, 1, dtype=torch.float64)], dim=1)

    def attended(qkv, out):
        query, key, value = x @ qkv.mT
        return (query @ key.mT).softmax(-1) @ value @ out

    small = layouts.narrowed(qkv, out, 2, x)
    assert [one.shape for one in small] == [(3, 3, 2, 13), (3, 2, 12)]
    torch.testing.assert_close(attended(*small), attended(qkv, out))


def test_a_compiled_model_in_training_is_carried_as_it_is_without_dropout_and_left_in_training():
    model = gpt2().train()
    found = resize_checkpoint(torch.compile(model, backend="eager"), 12, tokens=TOKENS)
    assert type(found.model) is type(model)
    assert found.logit_error < EXACT
    assert model.training


def test_principal_directions_carry_a_stream_of_low_rank_without_loss(tmp_path):
    model = llama()
    with torch.no_grad():  # nothing is written to the last three dimensions
        model.model.embed_tokens.weight[:, 9:] = 0
        for layer in model.model.layers:
            layer.self_attn.o_proj.weight[9:] = 0
            layer.mlp.down_proj.weight[9:] = 0
    seen = resize_checkpoint(model, 9, how="pca", tokens=TOKENS)
    blind = resize_checkpoint(model, 9, tokens=TOKENS)
    assert seen.logit_error < 1e-4 < 0.1 < blind.logit_error


def test_losses_are_of_strings_that_principal_directions_have_not_seen():
    model = llama()
    other = TOKENS.clone()
    other[::2] = (other[::2] + 1) % 11
    first, second = (resize_checkpoint(model, 6, how="pca", tokens=ids) for ids in (TOKENS, other))
    assert first.losses[0] == second.losses[0]
    assert first.losses[1] != second.losses[1]


# --- refusals -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("make", "width", "options", "why"),
    [
        (gpt2, 13, {}, "its 3 heads divide, and 13 is none: take 12 or 15"),
        (neox, 9, {}, "rotary positions turn fixed pairs"),
        (llama, 1, {}, "two dimensions are the least"),
        (llama, 6, {"how": "svd"}, "choose one of orthonormal, gaussian"),
        (llama, 10, {}, r"no LlamaForCausalLM of .*10.* not a multiple .*; its 3 heads divide 9 or 12"),
        (llama, 18, {"how": "repeat"}, "makes no width of 18: take a multiple of 12"),
        (llama, 9, {"how": "zeros"}, "makes no width of 9: take 12 or more"),
        (bert, 10, {}, "its 3 heads divide, and 10 is none: take 9 or 12"),
        (llama, 6, {"how": "pca"}, "principal components need a text"),
        (llama, 6, {"tokens": TOKENS[:1]}, "two strings at least"),
        (llama, 6, {"tokens": TOKENS + 5}, "must be 0 to 10"),
        (lambda: torch.nn.Linear(2, 2), 2, {}, "a Linear is not known here"),
        (lambda: gpt2(add_cross_attention=True), 6, {}, r"crossattention\.c_attn\.weight has no place"),
    ],
)
def test_what_cannot_be_carried_is_refused_with_the_reason(make, width, options, why):
    with pytest.raises(ValueError, match=why):
        resize_checkpoint(make(), width, **options)


def test_a_model_that_does_not_fit_is_refused_with_its_size(monkeypatch):
    monkeypatch.setattr("embviz.memory.available_memory", lambda: 10)
    monkeypatch.setattr("embviz.memory.NEVER_REFUSED", 0)
    with pytest.raises(MemoryError, match="carrying 2,196 parameters needs about"):
        resize_checkpoint(llama(), 6)


@pytest.mark.parametrize(
    ("files", "why"),
    [
        ({}, r"no config\.json"),
        ({"config.json": '{"model_type": "t5"}'}, "holds a 't5': known are gpt2, gpt_neox, llama"),
        ({"config.json": '{"model_type": "llama", "quantization_config": {}}'}, "are rounded"),
        ({"config.json": '{"model_type": "llama"}', "pytorch_model.bin": ""}, "no safetensors"),
        ({"config.json": '{"model_type": "llama"}', "adapter_config.json": "{}"}, "an adapter"),
    ],
)
def test_folders_that_hold_no_model_of_these_are_refused_with_the_reason(tmp_path, files, why):
    for name, content in files.items():
        (tmp_path / name).write_text(content)
    with pytest.raises((ValueError, FileNotFoundError), match=why):
        load_checkpoint(tmp_path)


def altered(folder, **options):
    """The folder of a checkpoint whose config.json has these options."""
    path = folder / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text(encoding="utf-8")) | options), encoding="utf-8")
    return folder


def test_arrays_that_are_missing_or_too_many_are_told_in_our_words_alone(tmp_path, capfd):
    llama().save_pretrained(tmp_path)
    with pytest.raises(ValueError, match=r"lacks model\.layers\.2"):
        load_checkpoint(altered(tmp_path, num_hidden_layers=3))
    with pytest.warns(UserWarning, match=r"9 arrays without a place in the model, such as model\.layers\.1"):
        load_checkpoint(altered(tmp_path, num_hidden_layers=1))
    assert "REPORT" not in capfd.readouterr().err


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ("[]", r"config\.json holds a list, not an object: get it again"),
        ("[" * 100_000, r"config\.json is not valid JSON: get it again"),
        ({"dtype": "load"}, "has the dtype 'load': known are float64"),
        ({"n_layer": 10**6}, r"gives 1,000,000 layers, and its files have \d+ arrays"),
        ({"vocab_size": 7}, r"has another shape than its config\.json gives"),
        ({"vocab_size": 10**9}, r"gives 1,000,000,000 for vocab_size, and its files have [\d,]+ bytes"),
        ({"n_positions": 10**9}, r"gives 1,000,000,000 for n_positions, and its files have"),
        ({"n_embd": "12"}, r"gives '12' for n_embd: it is a whole number from 1 on"),
        ({"n_head": 0}, r"gives 0 for n_head: it is a whole number from 1 on"),
        ({"n_embd": 13}, r"no model of .* \(ValueError: .* must be divisible .*: mend config\.json"),
        ({"layer_norm_epsilon": "x"}, r"no model of .* \(\w+: .*layer_norm_epsilon.*: mend config\.json"),
        ({"activation_function": "swirl"}, r"no model of .* \(KeyError: 'swirl'\): mend config\.json"),
        ({"model_type": ["gpt2"]}, r"holds a \['gpt2'\]: known are gpt2"),
    ],
)
def test_a_configuration_that_does_not_fit_is_refused_with_the_reason(change, why, tmp_path):
    gpt2().save_pretrained(tmp_path)
    if isinstance(change, dict):
        altered(tmp_path, **change)
    else:
        (tmp_path / "config.json").write_text(change, encoding="utf-8")
    with pytest.raises(ValueError, match=why):
        load_checkpoint(tmp_path)


@pytest.mark.parametrize("name", ["auto", "torch.bfloat16"])
def test_other_names_of_a_type_are_understood(name, tmp_path):
    gpt2().bfloat16().save_pretrained(tmp_path)
    assert load_checkpoint(altered(tmp_path, dtype=name)).config.dtype == torch.bfloat16


@pytest.mark.parametrize(
    ("make", "factor", "why"),
    [
        (gpt2, 0, "all logits of the model are equal, so no error can be"),
        (gpt2, 1e30, "gives NaN or infinite logits in float32"),
        (gpt2, math.nan, "has NaN or infinite values"),
        (llama, 1e30, "are its weights zeros, or too large for float32?"),  # RMSNorm divides by infinity
    ],
)
def test_weights_that_give_no_logits_are_refused_and_nothing_is_written(make, factor, why, tmp_path, capsys):
    model = make()
    for array in model.parameters():
        array.data.mul_(factor)
    model.save_pretrained(tmp_path / "model")
    assert main(["resize", str(tmp_path / "model"), "--width", "9", "--out", str(tmp_path / "out")]) == 1
    assert why in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_a_link_is_refused_before_any_work(tmp_path, monkeypatch, capsys):
    (tmp_path / "there").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "there")
    monkeypatch.setattr(resizing, "load_checkpoint", pytest.fail)
    assert main(["resize", str(tmp_path), "--width", "8", "--out", str(tmp_path / "link")]) == 1
    assert "is a link: name the folder itself" in capsys.readouterr().err


def test_a_folder_with_something_in_it_is_left_alone_and_nothing_half_written_stays(tmp_path, monkeypatch):
    found = resize_checkpoint(llama(), 6)
    full = tmp_path / "full"
    full.mkdir()
    (full / "mine.txt").write_text("mine")
    with pytest.raises(FileExistsError, match="not empty"):
        save_checkpoint(found, full)
    monkeypatch.setattr(type(found), "as_record", lambda self: {"a set": {1}})
    with pytest.raises(TypeError):
        save_checkpoint(found, tmp_path / "new")
    assert [path.name for path in tmp_path.iterdir()] == ["full"]


# --- from the command line ----------------------------------------------------------------------------


def byte_model(folder):
    import transformers as tf

    sizes = dict(vocab_size=256, hidden_size=12, num_hidden_layers=2, num_attention_heads=3)
    sizes |= dict(intermediate_size=10, max_position_embeddings=16, num_key_value_heads=3)
    livened(tf.LlamaForCausalLM(tf.LlamaConfig(**sizes))).save_pretrained(folder)
    return folder


def test_embviz_resize_writes_a_checkpoint_and_prints_what_it_cost(tmp_path, capsys):
    model, small, text = byte_model(tmp_path / "model"), tmp_path / "small", tmp_path / "mine.txt"
    text.write_text("A rose is a rose is a rose. " * 8)
    (model / "tokenizer_config.json").write_text("{}")
    arguments = ["--width", "9", "--out", str(small), "--text", str(text), "--map", "pca"]
    assert main(["resize", str(model), *arguments]) == 0
    printed = capsys.readouterr().out
    report = json.loads((small / "resizing.json").read_text())
    assert f"relative logit error on the text: {report['logit_error']:.2g}" in printed
    assert "nats a token: {:.4f} before, {:.4f} after".format(*report["losses"]) in printed
    assert "3 of 12 directions" in printed
    assert report["width"] == [12, 9]
    assert (small / "tokenizer_config.json").is_file()
    assert read_again(small).config.hidden_size == 9


def test_embviz_resize_reads_a_text_by_the_tokenizer_beside_the_model(tmp_path, capsys):
    model, text = byte_model(tmp_path / "model"), tmp_path / "mine.txt"
    words = {"rose": 0, "is": 1, "a": 2, "[UNK]": 3}
    tokenizer = tokenizers.Tokenizer(tokenizers.models.WordLevel(words, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    tokenizer.save(str(model / "tokenizer.json"))
    arguments = ["resize", str(model), "--width", "12", "--text", str(text), "--out"]
    text.write_text("a rose is a rose is a rose")
    assert main([*arguments, str(tmp_path / "b")]) == 0
    assert "nats a token" in capsys.readouterr().out
    text.write_text("a rose")
    assert main([*arguments, str(tmp_path / "c")]) == 1
    assert "has 2 tokens: at least six are needed" in capsys.readouterr().err


def test_a_tokenizer_that_truncates_and_pads_reads_the_whole_text(tmp_path):
    tokenizer = tokenizers.Tokenizer(tokenizers.models.WordLevel({"a": 0, "b": 1, "[PAD]": 2}, unk_token="b"))
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.WhitespaceSplit()
    tokenizer.enable_truncation(8)
    tokenizer.enable_padding(length=64, pad_id=2)
    tokenizer.save(str(tmp_path / "tokenizer.json"))
    (tmp_path / "mine.txt").write_text("a b " * 30)
    config = argparse.Namespace(vocab_size=3, max_position_embeddings=16)
    tokens = _read_tokens(str(tmp_path), str(tmp_path / "mine.txt"), config)
    assert tokens.shape == (3, 17)
    assert sorted(set(tokens.ravel().tolist())) == [0, 1]
    (tmp_path / "mine.txt").write_bytes(b"a \xff")
    with pytest.raises(ValueError, match=r"is not utf-8: byte 0xff.*errors=.replace."):
        _read_tokens(str(tmp_path), str(tmp_path / "mine.txt"), config)
    with pytest.raises(ValueError, match="is a device, which may have no end: give a file"):
        _read_tokens(str(tmp_path), "/dev/zero", config)


def test_embviz_resize_refuses_in_one_line(tmp_path, capsys):
    MODELS["mistral"]().save_pretrained(tmp_path / "model")
    (tmp_path / "mine.txt").write_text("a rose")
    for arguments, why in (
        (["--width", "6", "--text", str(tmp_path / "mine.txt")], "its vocabulary of 11 is not bytes"),
        (["--width", "0"], "two dimensions are the least"),
    ):
        assert main(["resize", str(tmp_path / "model"), "--out", str(tmp_path / "new"), *arguments]) == 1
        assert why in capsys.readouterr().err
    assert not (tmp_path / "new").exists()
