"""Models of Hugging Face made from configurations: carried into decoders and back with their logits."""

import copy
import dataclasses

import numpy as np
import pytest
import torch

from embviz.imports import import_transformers
from embviz.models.decoder import Decoder, DecoderConfig
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
    tf = import_transformers()
    sizes = dict(vocab_size=11, n_positions=5, n_embd=12, n_layer=2, n_head=3, bos_token_id=0, eos_token_id=0)
    return livened(tf.GPT2LMHeadModel(tf.GPT2Config(**sizes, **options)))


def llama(**options):
    tf = import_transformers()
    return livened(tf.LlamaForCausalLM(tf.LlamaConfig(**{**ROTARY, "num_key_value_heads": 3, **options})))


def mistral(**options):
    tf = import_transformers()
    config = tf.MistralConfig(**{**ROTARY, "num_key_value_heads": 1, "head_dim": 4, **options})
    return livened(tf.MistralForCausalLM(config))


def neox(**options):
    tf = import_transformers()
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


def test_a_subclass_of_a_decoder_is_known_unless_it_computes_something_else():
    class Named(Decoder):
        pass

    class Other(Decoder):
        def forward(self, tokens):
            return -super().forward(tokens)

    assert as_decoder(Named(SMALL, seed=0)) is not None
    with pytest.raises(ValueError, match="is a Other"):
        as_decoder(Other(SMALL, seed=0))


def test_a_shorter_window_bounds_the_length():
    assert from_hf(mistral(sliding_window=3)).config.length == 3
    assert from_hf(mistral(sliding_window=None)).config.length == 5


def test_dropout_is_off_while_logits_are_compared_and_on_again_after():
    model = gpt2().train()
    from_hf(model)
    assert model.training
    assert model.transformer.drop.training


class Adapter(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.scale = torch.nn.Parameter(torch.ones(()))


def test_what_a_decoder_does_not_have_is_refused_by_name():
    model = gpt2()
    model.transformer.h[1].mlp.adapter = Adapter()
    with pytest.raises(ValueError, match=r"array transformer\.h\.1\.mlp\.adapter\.scale is of a part"):
        from_hf(model)
    model = llama()
    model.model.layers[0].mlp.act_fn = torch.nn.Tanh()
    with pytest.raises(ValueError, match=r"gives logits .* away.*LlamaForCausalLM has a part or an option"):
        from_hf(model)
    with pytest.raises(ValueError, match="scale_attn_by_inverse_layer_idx=True"):
        from_hf(gpt2(scale_attn_by_inverse_layer_idx=True))
    with pytest.raises(ValueError, match=r"rotary positions are scaled \(linear\)"):
        from_hf(llama(rope_parameters={"rope_type": "linear", "factor": 2.0, "rope_theta": 100.0}))
    with pytest.raises(ValueError, match=r"a Linear is not known here: give one of GPT2LMHeadModel, Llama"):
        from_hf(torch.nn.Linear(1, 1))
    with pytest.raises(ValueError, match="activation 'tanh' is not known here: choose from gelu_new"):
        from_hf(gpt2(activation_function="tanh"))
    with pytest.raises(ValueError, match="has no weights yet: some of its arrays are on 'meta'"):
        from_hf(llama().to("meta"))


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


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"placement": "peri"}, "has placement='peri': these models have 'pre'"),
        ({"head_bias": True}, "has head_bias=True"),
        ({"gains": "dense"}, r"gains are matrices: fold\(\)"),
        ({"positions": "alibi"}, "has positions='alibi'"),
        ({"norm": "rms"}, "has norm='rms', a GPT-2 'layer'"),
        ({"gated": True}, "has gated=True, a GPT-2 False"),
        ({"head_dim": 6}, "a GPT-2's heads share its width: 3 of 6 don't"),
        ({"positions": "rotary", "norm": "rms"}, "has norm='rms', a GPT-NeoX 'layer'"),
        ({"positions": "rotary", "head_dim": 6}, "a GPT-NeoX's heads share its width"),
    ],
)
def test_a_decoder_that_is_none_of_them_is_refused_by_its_part(options, message):
    with pytest.raises(ValueError, match=message):
        to_hf(Decoder(dataclasses.replace(SMALL, **options), seed=0))


def test_a_share_of_a_head_that_is_no_even_number_is_refused():
    with pytest.raises(
        ValueError, match=r"rotary_share 0\.3 of a head's 4 coordinates is no even number of them"
    ):
        NeoXConfig(11, 5, 12, 2, 3, positions="rotary", rotary_share=0.3)


def test_stored_settings_of_decoders_did_not_change():
    names = {field.name for field in dataclasses.fields(DecoderConfig)}
    assert not names & {"parallel", "rotary_share"}
    assert np.isclose(DecoderConfig(2, 2).rotary_width, 32)
    assert copy.copy(NeoXConfig(2, 2)).parallel
