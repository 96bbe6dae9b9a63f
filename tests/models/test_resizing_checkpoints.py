"""Checkpoints of tiny models, built from configurations: resized, written, and read again by Transformers."""

import argparse
import itertools
import json
import math

import pytest
import torch

from embviz.cli import _read_tokens, main
from embviz.models import resizing_checkpoints
from embviz.models.huggingface import from_hf
from embviz.models.resizing import logit_error, resize
from embviz.models.resizing_checkpoints import load_checkpoint, resize_checkpoint, save_checkpoint
from tests.models.test_decoder import livened
from tests.models.test_huggingface import MODELS, ROTARY, gpt2, llama, mistral, neox

pytest.importorskip("transformers", reason="transformers is an extra")
tokenizers = pytest.importorskip("tokenizers")

TOKENS = torch.randint(11, (8, 6), generator=torch.Generator().manual_seed(3))
STRING = TOKENS[1:2, :-1]
KINDS = {
    name: MODELS[name] for name in ("gpt2", "gpt2, a free head, unscaled", "mistral", "neox", "neox, tied")
}
KINDS |= {name: MODELS[name] for name in MODELS if name.startswith("llama")}
SCALED = {"rope_type": "llama3", "rope_theta": 500.0, "factor": 8.0, "low_freq_factor": 1.0}
SCALED |= {"high_freq_factor": 4.0, "original_max_position_embeddings": 4}


def made(kind, config, **options):
    import transformers as tf

    return livened(getattr(tf, kind)(getattr(tf, config)(**{**ROTARY, "num_key_value_heads": 1, **options})))


def qwen2():
    return made("Qwen2ForCausalLM", "Qwen2Config")


def gemma2():
    return made("Gemma2ForCausalLM", "Gemma2Config", head_dim=4, sliding_window=3)


def gemma3():
    kinds = ["sliding_attention", "full_attention"]
    return made("Gemma3ForCausalLM", "Gemma3TextConfig", head_dim=4, sliding_window=3, layer_types=kinds)


def bert():
    return made("BertModel", "BertConfig")


KINDS |= {
    "llama 3, scaled positions": lambda: llama(rope_parameters=SCALED, tie_word_embeddings=True),
    "qwen2": qwen2,
    "qwen3, wide heads": lambda: made("Qwen3ForCausalLM", "Qwen3Config", head_dim=6),
    "phi3": lambda: made("Phi3ForCausalLM", "Phi3Config"),
    "gemma": lambda: made("GemmaForCausalLM", "GemmaConfig", head_dim=4),
}
AFTER = {  # their gains are exact only where coordinates are repeated, or zeros appended
    "gemma2": gemma2,
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


def written(model, folder, width, **options):
    found = resize_checkpoint(model, width, tokens=TOKENS, **options)
    return found, read_again(save_checkpoint(found, folder / "small"))


@pytest.mark.parametrize(("name", "width"), list(zip(KINDS, itertools.cycle([12, 18]))))
def test_at_its_own_width_and_above_a_model_read_again_gives_the_same_logits(name, width, tmp_path):
    model = KINDS[name]().float()
    found, again = written(model, tmp_path, width)
    assert type(again) is type(model)
    assert again.config.hidden_size == width
    assert logit_error(again(STRING).logits, model(STRING).logits) < 1e-5
    assert found.logit_error < 1e-5
    assert found.parts["exact"].all()
    assert found.losses[1] == pytest.approx(found.losses[0], abs=1e-5)


@pytest.mark.parametrize("name", ["gpt2", "llama, wide heads", "mistral", "qwen2", "phi3", "gemma"])
def test_below_its_width_a_model_is_written_and_read_again_and_the_report_tells_what_is_lost(name, tmp_path):
    model = KINDS[name]().float()
    found, again = written(model, tmp_path, 9)
    torch.testing.assert_close(again(STRING).logits, found.model.float()(STRING).logits)
    assert found.n_parameters[1] == sum(array.numel() for array in again.parameters())
    exact = found.summary().set_index("part")["exact"]
    assert exact["embedding"]
    assert not exact.drop("embedding").any()
    assert found.logit_error > 0.1
    assert "3 of 12 directions of the stream are gone" in found.notes[0]


@pytest.mark.parametrize("name", AFTER)
def test_gains_that_write_to_the_stream_are_carried_by_repeating_coordinates_alone(name, tmp_path):
    model = AFTER[name]().float()
    found, again = written(model, tmp_path, 24, how="repeat")
    expected = answer(model)
    if name == "bert":  # its answer is the stream
        expected = expected @ torch.from_numpy(found.projection.matrix.T).float()
    assert type(again) is type(model)
    assert logit_error(answer(again), expected) < 1e-5
    assert found.logit_error < 1e-5
    assert found.parts["exact"].all()
    assert again.config.hidden_size == 24
    turned = resize_checkpoint(model, 12, tokens=TOKENS)
    assert turned.logit_error > 0.1
    assert not turned.summary().set_index("part")["exact"]["attention"]
    assert any("no exact form in another basis" in note for note in turned.notes)


@pytest.mark.parametrize("name", AFTER)
def test_equal_gains_that_write_to_the_stream_are_carried_by_every_rotation(name):
    model = AFTER[name]().float()
    with torch.no_grad():
        for full, array in model.named_parameters():
            if "LayerNorm.weight" in full or "layernorm.weight" in full:
                array.fill_(0.7)
    parts = resize_checkpoint(model, 12 if "bert" in name else 18, tokens=TOKENS).parts
    inexact = parts.loc[~parts["exact"], "part"].tolist()  # GELU or tanh acts on single coordinates there
    assert inexact == {"bert": ["pooler"], "bert with a head": ["head"]}.get(name, [])


def test_appended_zeros_carry_the_gains_of_a_gemma():
    found = resize_checkpoint(gemma3().float(), 18, how="zeros", tokens=TOKENS)
    assert found.logit_error < 1e-5
    assert found.parts["exact"].all()
    assert torch.equal(found.model.model.embed_tokens.weight[:, 12:], torch.zeros(11, 6))


def test_a_narrower_encoder_is_written_and_read_again(tmp_path):
    found, again = written(bert().float(), tmp_path, 9, how="pca")
    torch.testing.assert_close(answer(again), answer(found.model.float()))
    assert found.losses is None
    assert any("each keeps" in note for note in found.notes)
    assert any("last states, which have 9 coordinates" in note for note in found.notes)


@pytest.mark.parametrize("name", ["gpt2", "llama, grouped and tied", "mistral"])
def test_the_printed_rules_are_those_of_the_paper(name, tmp_path):
    torch.manual_seed(0)  # in one of twelve float32 leaves too little of an angle
    model = MODELS[name]().float()
    found, again = written(model, tmp_path, 12, how="gaussian", rules="printed")
    rules = {"attention": "plain", "gains": "drop", "centering": "keep", "reading": "written"}
    expected = resize(from_hf(model).double(), 12, projection=found.projection, **rules).model
    assert logit_error(answer(again), expected(STRING)) < 1e-2
    assert found.logit_error > 0.5
    assert "gains are dropped" in found.notes


@pytest.mark.parametrize("how", ["gaussian", "rademacher", "sparse", "hadamard"])
def test_each_random_map_can_be_chosen_and_without_a_text_the_report_says_why_there_are_no_losses(how):
    found = resize_checkpoint(llama().float(), 6, how=how, seed=3)
    assert found.projection.family == how
    assert found.parts.set_index("part")["exact"]["embedding"]
    assert found.losses is None
    assert any("no losses, since no text was given" in note for note in found.notes)
    assert any("'pca', which needs a text" in note for note in found.notes)


def test_a_tied_head_comes_apart_and_the_report_says_so_and_counts_it(tmp_path):
    model = gpt2().float()
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
    ids = resizing_checkpoints._halves(resizing_checkpoints._tokens(old), old)[1][:, :-1]
    assert logit_error(again(ids).logits, old(ids).logits) == pytest.approx(found.logit_error, rel=1e-3)


def test_wide_heads_of_low_rank_are_narrowed_without_loss():
    model = gpt2().double()
    with torch.no_grad():  # each head's maps use two of their four coordinates
        for block in model.transformer.h:
            attention = block.attn
            dead = torch.arange(12) % 4 >= 2
            for part in range(3):
                attention.c_attn.weight[:, part * 12 : (part + 1) * 12][:, dead] = 0
                attention.c_attn.bias[part * 12 : (part + 1) * 12][dead] = 0
    decoder = from_hf(model)
    narrow = resizing_checkpoints._narrowed(
        dict(decoder.state_dict()),
        "blocks.0.attention",
        decoder.config.n_heads,
        2,
        resizing_checkpoints._read_by(decoder, 0, TOKENS),
    )
    x = decoder.blocks[0].before[0](decoder.embed(STRING))
    small = {name.removeprefix("blocks.0.attention."): array for name, array in narrow.items()}
    assert small["query.weight"].shape == (6, 12)
    query, key, value = (
        (x @ small[f"{part}.weight"].T + small[f"{part}.bias"]).unflatten(-1, (3, 2)).transpose(1, 2)
        for part in ("query", "key", "value")
    )
    later = torch.ones(5, 5, dtype=torch.bool).triu(1)
    shares = (query @ key.mT * decoder.config.scale).masked_fill(later, -torch.inf).softmax(-1)
    found = (shares @ value).transpose(1, 2).flatten(2) @ small["out.weight"].T
    found = found + decoder.blocks[0].attention.out.bias
    torch.testing.assert_close(found, decoder.blocks[0].attention(x))


def test_principal_directions_carry_a_stream_of_low_rank_without_loss(tmp_path):
    model = llama().double()
    with torch.no_grad():  # nothing is written to the last three dimensions
        model.model.embed_tokens.weight[:, 9:] = 0
        for layer in model.model.layers:
            layer.self_attn.o_proj.weight[9:] = 0
            layer.mlp.down_proj.weight[9:] = 0
    seen = resize_checkpoint(model.float(), 9, how="pca", tokens=TOKENS)
    blind = resize_checkpoint(model.float(), 9, tokens=TOKENS)
    assert seen.logit_error < 1e-4 < 0.1 < blind.logit_error


def test_losses_are_of_strings_that_principal_directions_have_not_seen():
    model = llama().float()
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
        (neox, 12, {"rules": "printed"}, "rotary positions turn 2 of a head's 4"),
        (llama, 1, {}, "two dimensions are the least"),
        (llama, 6, {"how": "svd"}, "choose one of orthonormal, gaussian"),
        (llama, 6, {"rules": "other"}, "choose one of exact, printed"),
        (llama, 10, {}, r"no LlamaForCausalLM of .*10.* not a multiple .*; its 3 heads divide 9 or 12"),
        (qwen2, 10, {"rules": "printed"}, "the printed rules are known for GPT2LMHeadModel, Llama"),
        (llama, 18, {"how": "repeat"}, "makes no width of 18: take a multiple of 12"),
        (llama, 9, {"how": "zeros"}, "makes no width of 9: take 12 or more"),
        (bert, 10, {}, r"no BertModel of .*10.*; its 3 heads divide 9 or 12"),
        (llama, 6, {"how": "pca"}, "principal components need a text"),
        (llama, 6, {"tokens": TOKENS[:1]}, "two strings at least"),
        (llama, 6, {"tokens": TOKENS + 5}, "must be 0 to 10"),
        (lambda: torch.nn.Linear(2, 2), 2, {}, "a Linear is not known here"),
        (lambda: llama(rope_parameters=SCALED), 6, {"rules": "printed"}, "rotary positions are scaled"),
    ],
)
def test_what_cannot_be_carried_is_refused_with_the_reason(make, width, options, why):
    with pytest.raises(ValueError, match=why):
        resize_checkpoint(make(), width, **options)


def test_a_model_that_does_not_fit_is_refused_with_its_size(monkeypatch):
    monkeypatch.setattr("embviz.memory.available_memory", lambda: 10)
    monkeypatch.setattr("embviz.memory.NEVER_REFUSED", 0)
    with pytest.raises(MemoryError, match="carrying 2,196 parameters needs about"):
        resize_checkpoint(llama().float(), 6)


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
    llama().float().save_pretrained(tmp_path)
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
    gpt2().float().save_pretrained(tmp_path)
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
    model = make().float()
    for array in model.parameters():
        array.data.mul_(factor)
    model.save_pretrained(tmp_path / "model")
    assert main(["resize", str(tmp_path / "model"), "--width", "9", "--out", str(tmp_path / "out")]) == 1
    assert why in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_a_link_is_refused_before_any_work(tmp_path, monkeypatch, capsys):
    (tmp_path / "there").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "there")
    monkeypatch.setattr(resizing_checkpoints, "load_checkpoint", pytest.fail)
    assert main(["resize", str(tmp_path), "--width", "8", "--out", str(tmp_path / "link")]) == 1
    assert "is a link: name the folder itself" in capsys.readouterr().err


def test_a_folder_with_something_in_it_is_left_alone_and_nothing_half_written_stays(tmp_path, monkeypatch):
    found = resize_checkpoint(llama().float(), 6)
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
    livened(tf.LlamaForCausalLM(tf.LlamaConfig(**sizes))).float().save_pretrained(folder)
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
    mistral().float().save_pretrained(tmp_path / "model")
    (tmp_path / "mine.txt").write_text("a rose")
    for arguments, why in (
        (["--width", "6", "--text", str(tmp_path / "mine.txt")], "its vocabulary of 11 is not bytes"),
        (["--width", "0"], "two dimensions are the least"),
    ):
        assert main(["resize", str(tmp_path / "model"), "--out", str(tmp_path / "new"), *arguments]) == 1
        assert why in capsys.readouterr().err
    assert not (tmp_path / "new").exists()
