"""Models of Hugging Face made from configurations: carried into decoders and back with their logits."""

import dataclasses

import pytest
import torch

from embviz.models.decoder import Decoder
from embviz.models.huggingface import NeoXConfig, family, from_hf, to_hf
from embviz.models.resizing import as_decoder, fold, resize
from tests.models.test_decoder import FLOAT64, SMALL, livened, made_tokens

pytest.importorskip("transformers", reason="transformers is an extra")

ROTARY = dict(vocab_size=11, hidden_size=12, num_hidden_layers=2, num_attention_heads=3, intermediate_size=10)
ROTARY |= dict(max_position_embeddings=5, bos_token_id=0, eos_token_id=0, pad_token_id=0)
TOKENS = made_tokens(SMALL)
# angles of theirs are float32, whatever the model's numbers are
NEARLY = {"rtol": 1e-5, "atol": 1e-5}


def gpt2(**options):
    import transformers as tf

    sizes = dict(vocab_size=11, n_positions=5, n_embd=12, n_layer=2, n_head=3, bos_token_id=0, eos_token_id=0)
    return livened(tf.GPT2LMHeadModel(tf.GPT2Config(**sizes, **options)))


def llama(**options):
    import transformers as tf

    return livened(tf.LlamaForCausalLM(tf.LlamaConfig(**{**ROTARY, "num_key_value_heads": 3, **options})))


def mistral(**options):
    import transformers as tf

    config = tf.MistralConfig(**{**ROTARY, "num_key_value_heads": 1, "head_dim": 4, **options})
    return livened(tf.MistralForCausalLM(config))


def neox(**options):
    import transformers as tf

    rope = {"rope_type": "default", "rope_theta": 500.0, "partial_rotary_factor": 0.5}
    return livened(tf.GPTNeoXForCausalLM(tf.GPTNeoXConfig(**{**ROTARY, "rope_parameters": rope, **options})))


MODELS = {
    "gpt2": gpt2,
    **{
        f"gpt2, {name}": lambda name=name: gpt2(activation_function=name) for name in ("relu", "silu", "gelu")
    },
    "gpt2, a free head, unscaled": lambda: gpt2(
        tie_word_embeddings=False, scale_attn_weights=False, n_inner=7
    ),
    "llama": llama,
    "llama, grouped and tied": lambda: llama(num_key_value_heads=1, tie_word_embeddings=True),
    "llama, wide heads": lambda: llama(head_dim=6),
    "llama, biases of attention": lambda: llama(attention_bias=True),
    "llama, another base": lambda: llama(rope_parameters={"rope_type": "default", "rope_theta": 50.0}),
    "mistral": mistral,
    "neox": neox,
    "neox, one after the other": lambda: neox(use_parallel_residual=False, attention_bias=False),
    "neox, tied": lambda: neox(tie_word_embeddings=True),
}
EVERY_MODEL = pytest.mark.parametrize("name", MODELS)


@EVERY_MODEL
def test_a_model_becomes_a_decoder_with_its_logits(name):
    model = MODELS[name]()
    torch.testing.assert_close(from_hf(model)(TOKENS), model(TOKENS).logits, **NEARLY)


@EVERY_MODEL
def test_a_decoder_goes_back_with_its_logits_and_through_a_file(name, tmp_path):
    model = MODELS[name]()
    back = to_hf(from_hf(model))
    assert family(back) == {"mistral": "llama"}.get(family(model), family(model))
    torch.testing.assert_close(back(TOKENS).logits, model(TOKENS).logits, **NEARLY)
    back.save_pretrained(tmp_path)
    again = type(back).from_pretrained(tmp_path, dtype=torch.float64)
    torch.testing.assert_close(again(TOKENS).logits, back(TOKENS).logits, **FLOAT64)


@pytest.mark.parametrize(
    "name", ["llama, grouped and tied", "neox", "neox, one after the other", "neox, tied"]
)
def test_a_rotated_stream_changes_no_logit_once_folded(name):
    model = MODELS[name]()
    for moved in (fold(model), resize(model, 12).model):
        torch.testing.assert_close(moved(TOKENS), model(TOKENS).logits, **NEARLY)


def test_each_type_of_numbers_is_kept():
    for dtype in (torch.bfloat16, torch.float32):
        decoder = from_hf(llama().to(dtype))
        assert {parameter.dtype for parameter in decoder.parameters()} == {dtype}
        assert next(to_hf(decoder).parameters()).dtype == dtype


@pytest.mark.parametrize("name", ["llama", "mistral", "neox", "gpt2"])
def test_models_in_16_bits_are_compared_in_32(name):
    make = {"llama": llama, "mistral": mistral, "neox": neox, "gpt2": gpt2}[name]
    for seed in range(8):
        torch.manual_seed(seed)
        for dtype in (torch.bfloat16, torch.float16):
            from_hf(make().to(dtype))  # whatever is drawn
    changed = make().bfloat16()
    changed.register_forward_hook(lambda module, given, output: scaled(output, 1.02))
    with pytest.raises(ValueError, match="has a part or an option that is not known"):
        from_hf(changed)


def scaled(output, factor):
    output.logits = output.logits * factor
    return output


def test_subclasses_compiled_and_parallel_models_are_known():
    model = llama()

    class Mine(type(model)):
        pass

    mine = Mine(model.config).double().eval()
    mine.load_state_dict(model.state_dict())
    expected = model(TOKENS).logits
    for made in (mine, torch.compile(model, backend="eager"), torch.nn.DataParallel(model)):
        assert family(made) == "llama"
        torch.testing.assert_close(as_decoder(made)(TOKENS), expected, **NEARLY)
    assert as_decoder(type("Named", (Decoder,), {})(SMALL, seed=0)) is not None


def test_dropout_is_off_while_logits_are_compared_and_on_again_after():
    model = gpt2().train()
    from_hf(model)
    assert model.training
    assert model.transformer.drop.training
    assert from_hf(mistral(sliding_window=3)).config.length == 3  # a shorter window bounds the length


# --- back ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "becomes"),
    [
        ({"gains": "one"}, "gpt2"),
        ({"gains": "none", "positions": "none"}, "gpt2"),
        ({"biases": True, "norm_biases": True, "tied": False, "attention_scale": 0.3}, "gpt2"),
        ({"norm_width": 9, "norm_eps": 1e-2}, "gpt2"),
        ({"positions": "rotary", "norm": "rms", "gated": True, "norm_width": 20, "norm_eps": 1e-2}, "llama"),
        ({"positions": "rotary", "norm": "rms", "gated": True, "head_dim": 6, "biases": True}, "llama"),
        ({"positions": "rotary", "attention_scale": 0.2}, "gpt_neox"),
    ],
)
def test_other_decoders_are_written_out(options, becomes):
    decoder = livened(Decoder(dataclasses.replace(SMALL, **options), seed=3))
    model = to_hf(decoder)
    assert family(model) == becomes
    torch.testing.assert_close(model(TOKENS).logits, decoder(TOKENS), **NEARLY)


def with_an_adapter():
    model = gpt2()
    model.transformer.h[1].mlp.adapter = torch.nn.ParameterDict({"scale": torch.ones(())})
    return model


def with_another_activation():
    model = llama()
    model.model.layers[0].mlp.act_fn = torch.nn.Tanh()
    return model


class Negated(Decoder):
    def forward(self, tokens):
        return -super().forward(tokens)


def back(**options):
    return to_hf(Decoder(dataclasses.replace(SMALL, **options), seed=0))


LINEAR = {"rope_type": "linear", "factor": 2.0, "rope_theta": 100.0}


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: from_hf(with_an_adapter()), r"array transformer\.h\.1\.mlp\.adapter\.scale is of a part"),
        (lambda: from_hf(with_another_activation()), "gives logits .* away.*has a part or an option"),
        (lambda: from_hf(gpt2(scale_attn_by_inverse_layer_idx=True)), "scale_attn_by_inverse_layer_idx=True"),
        (lambda: from_hf(llama(rope_parameters=LINEAR)), r"rotary positions are scaled \(linear\)"),
        (lambda: from_hf(torch.nn.Linear(1, 1)), "Linear is not known here: give one of GPT2LMHeadModel"),
        (lambda: from_hf(gpt2(activation_function="tanh")), "'tanh' is not known here: choose from gelu_new"),
        (lambda: from_hf(llama().to("meta")), "has no weights yet: some of its arrays are on 'meta'"),
        (lambda: as_decoder(Negated(SMALL, seed=0)), "is a Negated"),
        (lambda: back(placement="peri"), "has placement='peri': these models have 'pre'"),
        (lambda: back(head_bias=True), "has head_bias=True"),
        (lambda: back(gains="dense"), r"gains are matrices: fold\(\)"),
        (lambda: back(positions="alibi"), "has positions='alibi'"),
        (lambda: back(norm="rms"), "has norm='rms', a GPT-2 'layer'"),
        (lambda: back(gated=True), "has gated=True, a GPT-2 False"),
        (lambda: back(head_dim=6), "a GPT-2's heads share its width: 3 of 6 don't"),
        (lambda: back(positions="rotary", norm="rms"), "has norm='rms', a GPT-NeoX 'layer'"),
        (lambda: back(positions="rotary", head_dim=6), "a GPT-NeoX's heads share its width"),
        (lambda: NeoXConfig(11, 5, 12, 2, 3, positions="rotary", rotary_share=0.3), "is no even number of"),
    ],
)
def test_what_has_no_counterpart_is_refused_by_its_part(call, message):
    with pytest.raises(ValueError, match=message):
        call()
