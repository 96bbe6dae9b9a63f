"""Language models of Hugging Face as decoders, and decoders as models of Hugging Face.

GPT-2, Llama, Mistral and GPT-NeoX (Pythia), their subclasses and what ``torch.compile`` makes of them. Each
time it is checked that every array was used and that both models give the same logits.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from embviz.files.pretrained import evaluating
from embviz.imports import require
from embviz.models.decoder import Activation, Decoder, DecoderConfig, with_weights

FAMILIES = {  # by what a configuration calls itself: the class with a head
    "gpt2": "GPT2LMHeadModel",
    "llama": "LlamaForCausalLM",
    "mistral": "MistralForCausalLM",
    "gpt_neox": "GPTNeoXForCausalLM",
}
ACTIVATIONS: dict[str, Activation] = {
    "gelu_new": "gelu_tanh",
    "gelu_pytorch_tanh": "gelu_tanh",
    "gelu_fast": "gelu_tanh",
    "gelu": "gelu",
    "relu": "relu",
    "silu": "silu",
    "swish": "silu",
}
HEADS = ("lm_head.weight", "embed_out.weight")  # the second of GPT-NeoX in earlier releases
THEIRS: dict[Activation, str] = {"gelu_tanh": "gelu_new", "gelu": "gelu", "relu": "relu", "silu": "silu"}
UNUSED = ("attn.bias", "attn.masked_bias", "rotary_emb.inv_freq")  # masks and angles that files carry along
GPT2_END = 50_256  # the token that a GPT-2 begins and ends with, where there are so many
TRIED = 12  # tokens whose logits are compared


@dataclass(frozen=True)
class NeoXConfig(DecoderConfig):
    """A decoder whose attention and MLP read the same stream, and whose positions turn a share of each head.

    It stands apart from :class:`embviz.models.decoder.DecoderConfig` so that no stored setting changes.
    """

    # x + attention(norm(x)) + mlp(norm(x)); False: one after the other
    parallel: bool = True  # type: ignore[misc]
    rotary_share: float = 0.25  # type: ignore[misc]  # of a head's coordinates, the first ones

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 < self.rotary_share <= 1 or self.rotary_width % 2 or self.rotary_width < 2:
            raise ValueError(
                f"rotary_share {self.rotary_share} of a head's {self.head_width} coordinates is no even "
                "number of them"
            )


def unwrapped(model: nn.Module) -> nn.Module:
    """The model inside ``torch.compile`` or DataParallel."""
    while (inside := getattr(model, "_orig_mod", None) or _parallel(model)) is not None:
        model = inside
    return model


def _parallel(model: nn.Module) -> nn.Module | None:
    known = (nn.DataParallel, nn.parallel.DistributedDataParallel)
    return model.module if isinstance(model, known) else None


def family(model: nn.Module) -> str | None:
    """Which of the families a model with a head belongs to, None if it is of none.

    A subclass belongs to its parent's family.
    """
    classes = {parent.__name__ for parent in type(unwrapped(model)).__mro__}
    return next((name for name, known in FAMILIES.items() if known in classes), None)


def from_hf(model: nn.Module) -> Decoder:
    """The same function as a language model of Hugging Face without its dropout.

    Grouped queries become as many keys and values as queries. A window of attention that is shorter than the
    longest string bounds the decoder's length.

    Parameters
    ----------
    model : GPT2LMHeadModel, LlamaForCausalLM, MistralForCausalLM or GPTNeoXForCausalLM
        Of any size and type of numbers; a subclass, or compiled.

    Returns
    -------
    Decoder, in the model's type of numbers

    Raises
    ------
    ValueError
        If it is of another family, or has an array or an option that a decoder doesn't have: names it; or if
        its logits come out differently for another reason, such as a layer that was put in.
    """
    model = unwrapped(model)
    which = family(model)
    if which is None:
        known = ", ".join(FAMILIES.values())
        raise ValueError(f"a {type(model).__name__} is not known here: give one of {known}, or a subclass")
    if any(array.is_meta for array in model.state_dict().values()):
        raise ValueError(f"the {type(model).__name__} has no weights yet: some of its arrays are on 'meta'")
    theirs = _Arrays(model.state_dict())
    make = {"gpt2": _from_gpt2, "gpt_neox": _from_neox}.get(which, _from_llama)
    config, weights = make(model.config, theirs)
    if left := theirs.left():
        raise ValueError(f"the array {left[0]} is of a part that a decoder doesn't have")
    decoder = with_weights(config, weights)
    _require_same(decoder, model)
    return decoder


class _Arrays:
    """Arrays by name, which remember who was asked for."""

    def __init__(self, arrays: Mapping[str, Tensor]) -> None:
        self.arrays, self.used = arrays, set[str]()

    def __call__(self, name: str) -> Tensor:
        self.used.add(name)
        return self.arrays[name].detach().clone()

    def has(self, name: str) -> bool:
        return name in self.arrays

    def left(self) -> list[str]:
        return [name for name in self.arrays if name not in self.used and not name.endswith(UNUSED)]

    def affine(self, ours: str, theirs: str) -> dict[str, Tensor]:
        """A map or a norm under another name, with its bias where there is one."""
        kinds = [kind for kind in ("weight", "bias") if self.has(f"{theirs}.{kind}")]
        return {f"{ours}.{kind}": self(f"{theirs}.{kind}") for kind in kinds}

    def head(self, tokens: str) -> dict[str, Tensor]:
        """Embedding, and a head of its own where it differs from it."""
        found = {"embedding": self(tokens)}
        free = next((self(name) for name in HEADS if self.has(name)), found["embedding"])
        tied = free.shape == found["embedding"].shape and torch.equal(free, found["embedding"])
        return found if tied else {**found, "free_head": free}


def _activation(name: str) -> Activation:
    if name not in ACTIVATIONS:
        raise ValueError(f"the activation {name!r} is not known here: choose from {', '.join(ACTIVATIONS)}")
    return ACTIVATIONS[name]


def _refuse(own: Any, *options: str) -> None:
    for option in options:
        if getattr(own, option, False):
            raise ValueError(f"the model has {option}=True, which a decoder doesn't have")


def _rotary(own: Any) -> dict[str, Any]:
    """Their parameters of rotary positions, of which only plain ones are known."""
    found: dict[str, Any] = own.rope_parameters
    if found.get("rope_type", "default") != "default":
        raise ValueError(f"rotary positions are scaled ({found['rope_type']}), which a decoder doesn't do")
    return found


def _from_gpt2(own: Any, theirs: _Arrays) -> tuple[DecoderConfig, dict[str, Tensor]]:
    _refuse(own, "scale_attn_by_inverse_layer_idx", "add_cross_attention")
    weights = theirs.head("transformer.wte.weight")
    weights["position"] = theirs("transformer.wpe.weight")
    weights |= theirs.affine("norm", "transformer.ln_f")
    for layer in range(own.n_layer):
        here, there = f"blocks.{layer}", f"transformer.h.{layer}"
        for place in (0, 1):
            weights |= theirs.affine(f"{here}.before.{place}", f"{there}.ln_{place + 1}")
        for kind in ("weight", "bias"):  # maps are stored as (inputs, outputs)
            three = theirs(f"{there}.attn.c_attn.{kind}").t().chunk(3, dim=0)
            for name, part in zip(("query", "key", "value"), three, strict=True):
                weights[f"{here}.attention.{name}.{kind}"] = part.contiguous()
            for name, their in (("attention.out", "attn.c_proj"), ("up", "mlp.c_fc"), ("down", "mlp.c_proj")):
                weights[f"{here}.{name}.{kind}"] = theirs(f"{there}.{their}.{kind}").t().contiguous()
    config = DecoderConfig(
        own.vocab_size,
        own.n_positions,
        own.n_embd,
        own.n_layer,
        own.n_head,
        mlp_dim=own.n_inner or 4 * own.n_embd,
        norm_biases=True,
        tied="free_head" not in weights,
        biases=True,
        activation=_activation(own.activation_function),
        attention_scale=0.0 if getattr(own, "scale_attn_weights", True) else 1.0,
        norm_eps=own.layer_norm_epsilon,
    )
    return config, weights


def _from_llama(own: Any, theirs: _Arrays) -> tuple[DecoderConfig, dict[str, Tensor]]:
    width = getattr(own, "head_dim", None) or own.hidden_size // own.num_attention_heads
    maps = {
        "attention.query": "self_attn.q_proj",
        "attention.key": "self_attn.k_proj",
        "attention.value": "self_attn.v_proj",
        "attention.out": "self_attn.o_proj",
        "gate": "mlp.gate_proj",
        "up": "mlp.up_proj",
        "down": "mlp.down_proj",
    }
    weights = theirs.head("model.embed_tokens.weight")
    weights |= theirs.affine("norm", "model.norm")
    biases = False
    for layer in range(own.num_hidden_layers):
        here, there = f"blocks.{layer}", f"model.layers.{layer}"
        weights |= theirs.affine(f"{here}.before.0", f"{there}.input_layernorm")
        weights |= theirs.affine(f"{here}.before.1", f"{there}.post_attention_layernorm")
        for name, their in maps.items():
            found = theirs.affine(f"{here}.{name}", f"{there}.{their}")
            if name in ("attention.key", "attention.value"):
                found = {
                    key: _repeated(array, own.num_attention_heads, width) for key, array in found.items()
                }
            weights |= found
            biases = biases or len(found) > 1
    if biases:  # of attention or of the MLP alone: the others are zero
        for layer in range(own.num_hidden_layers):
            for name in maps:
                rows = weights[f"blocks.{layer}.{name}.weight"]
                weights.setdefault(f"blocks.{layer}.{name}.bias", rows.new_zeros(len(rows)))
    window = getattr(own, "sliding_window", None)
    config = DecoderConfig(
        own.vocab_size,
        min(own.max_position_embeddings, window or own.max_position_embeddings),
        own.hidden_size,
        own.num_hidden_layers,
        own.num_attention_heads,
        head_dim=width if width * own.num_attention_heads != own.hidden_size else 0,
        mlp_dim=own.intermediate_size,
        gated=True,
        norm="rms",
        positions="rotary",
        rotary_base=float(_rotary(own)["rope_theta"]),
        tied="free_head" not in weights,
        biases=biases,
        activation=_activation(own.hidden_act),
        norm_eps=own.rms_norm_eps,
    )
    return config, weights


def _repeated(array: Tensor, n_heads: int, width: int) -> Tensor:
    """Keys or values of groups, once for each query of a group."""
    groups = array.unflatten(0, (-1, width))
    return groups.repeat_interleave(n_heads // len(groups), dim=0).flatten(0, 1)


def _from_neox(own: Any, theirs: _Arrays) -> tuple[DecoderConfig, dict[str, Tensor]]:
    heads, rotary = own.num_attention_heads, _rotary(own)
    weights = theirs.head("gpt_neox.embed_in.weight")
    weights |= theirs.affine("norm", "gpt_neox.final_layer_norm")
    for layer in range(own.num_hidden_layers):
        here, there = f"blocks.{layer}", f"gpt_neox.layers.{layer}"
        weights |= theirs.affine(f"{here}.before.0", f"{there}.input_layernorm")
        weights |= theirs.affine(f"{here}.before.1", f"{there}.post_attention_layernorm")
        for name, array in theirs.affine("", f"{there}.attention.query_key_value").items():
            three = array.unflatten(0, (heads, 3, -1)).unbind(1)  # (H, W, D) or (H, W) each
            for ours, part in zip(("query", "key", "value"), three, strict=True):
                weights[f"{here}.attention.{ours}{name}"] = part.flatten(0, 1).contiguous()
        weights |= theirs.affine(f"{here}.attention.out", f"{there}.attention.dense")
        weights |= theirs.affine(f"{here}.up", f"{there}.mlp.dense_h_to_4h")
        weights |= theirs.affine(f"{here}.down", f"{there}.mlp.dense_4h_to_h")
        for name in ("query", "key", "value", "out"):  # attention_bias=False: the MLP has biases all the same
            rows = weights[f"{here}.attention.{name}.weight"]
            weights.setdefault(f"{here}.attention.{name}.bias", rows.new_zeros(len(rows)))
    config = NeoXConfig(
        own.vocab_size,
        own.max_position_embeddings,
        own.hidden_size,
        own.num_hidden_layers,
        heads,
        mlp_dim=own.intermediate_size,
        norm_biases=True,
        positions="rotary",
        rotary_base=float(rotary["rope_theta"]),
        tied="free_head" not in weights,
        biases=True,
        activation=_activation(own.hidden_act),
        norm_eps=own.layer_norm_eps,
        parallel=own.use_parallel_residual,
        rotary_share=rotary.get("partial_rotary_factor", 1.0),
    )
    return config, weights


@torch.no_grad()
def _require_same(decoder: Decoder, model: nn.Module, allowed: float | None = None) -> None:
    """Compare logits of some tokens in 32 bits at least, the model's dropout switched off meanwhile.

    In bfloat16 rounding alone would move them by a tenth of their spread.
    """
    if model.get_input_embeddings().weight.dtype not in (torch.float32, torch.float64):  # type: ignore[operator]
        decoder, model = copy.deepcopy(decoder).float(), in_float32(model)
    n = min(TRIED, decoder.config.length)
    generator = torch.Generator().manual_seed(0)
    tokens = torch.randint(decoder.config.n_symbols, (1, n), generator=generator).to(decoder.embedding.device)
    with evaluating(model):
        expected = model(tokens).logits
    if not bool(expected.isfinite().all()):
        raise ValueError(
            f"the {type(model).__name__} gives NaN or infinite logits in float32: its weights are too large "
            "or damaged; take an earlier checkpoint"
        )
    spread = float(expected.double().std()) or 1.0
    apart = float((decoder(tokens).double() - expected.double()).abs().max())
    allowed = allowed or (1e-4 if expected.dtype == torch.float64 else 1e-3)  # their angles are float32
    if not apart <= allowed * spread:
        raise ValueError(
            f"a decoder with the same weights gives logits {apart:.2g} away, which vary by {spread:.2g}: the "
            f"{type(model).__name__} has a part or an option that is not known here"
        )


def in_float32(model: nn.Module) -> nn.Module:
    """A copy in 32 bits, the angles of its positions computed again: a cast model has rounded those too."""
    copied = copy.deepcopy(model).float()
    for part in copied.modules():
        if "inv_freq" in dict(part.named_buffers(recurse=False)):
            exact = type(part)(config=part.config)
            for name, buffer in exact.named_buffers(recurse=False):
                setattr(part, name, buffer.to(getattr(part, name).device))
    return copied


# --- and back ----------------------------------------------------------------------------------------


def to_hf(decoder: Decoder, *, allowed: float | None = None) -> Any:
    """A model of Hugging Face of the same function, to be saved with ``save_pretrained``.

    Parameters
    ----------
    decoder : Decoder
        With positions learned, or none, it becomes a GPT2LMHeadModel; with rotary ones a LlamaForCausalLM
        where it has RMSNorm and gates, else a GPTNeoXForCausalLM. Gains of one number and missing biases are
        written out; a norm's divisor and the scale of attention move into gains and queries.
    allowed : float, optional
        The largest difference of logits over their spread; by default 1e-4 in float64, else 1e-3.

    Returns
    -------
    transformers.PreTrainedModel, in the decoder's type of numbers

    Raises
    ------
    ValueError
        If none of the three has one of the decoder's parts: names it.
    MissingExtraError
        If Transformers isn't installed.
    """
    config = decoder.config
    for option, wanted in (("placement", "pre"), ("head_bias", False)):
        if getattr(config, option) != wanted:
            raise ValueError(
                f"the decoder has {option}={getattr(config, option)!r}: these models have {wanted!r}"
            )
    if config.gains == "dense":
        raise ValueError(
            "the decoder's gains are matrices: fold() moves the gains of norms into later weights"
        )
    if config.positions == "alibi":
        raise ValueError("the decoder has positions='alibi': these models have learned or rotary ones")
    weights = _written_out(decoder)
    rotary = config.positions == "rotary"
    require("adapters", "transformers", purpose="a model of Hugging Face")
    make = (_to_llama if config.norm == "rms" and config.gated else _to_neox) if rotary else _to_gpt2
    arrays, model = make(config, weights)
    dtype = decoder.embedding.dtype
    arrays[next(name for name in HEADS if name in model.state_dict())] = weights.get(
        "free_head", weights["embedding"]
    )
    model.load_state_dict({name: array.to(dtype) for name, array in arrays.items()})
    model = model.to(device=decoder.embedding.device, dtype=dtype).eval()
    _require_same(decoder, model, allowed)
    return model


def _require(config: DecoderConfig, model: str, **wanted: Any) -> None:
    for name, value in wanted.items():
        if getattr(config, name) != value:
            raise ValueError(f"the decoder has {name}={getattr(config, name)!r}, a {model} {value!r}")


def _written_out(decoder: Decoder) -> dict[str, Tensor]:
    """Weights in float64 with a gain for each dimension, plain divisors and plain scales of attention."""
    config, D = decoder.config, decoder.config.embedding_dim
    weights = {name: array.detach().double() for name, array in decoder.state_dict().items()}
    device = decoder.embedding.device
    norms = ["norm", *(f"blocks.{layer}.before.{k}" for layer in range(config.n_layers) for k in (0, 1))]
    for name in norms:
        gain = weights.get(f"{name}.weight", torch.ones((), dtype=torch.float64, device=device))
        weights[f"{name}.weight"] = gain.expand(D) * (config.divisor / D) ** 0.5
        if config.norm == "layer":
            weights.setdefault(f"{name}.bias", torch.zeros(D, dtype=torch.float64, device=device))
    for layer in range(config.n_layers):
        for part in ("query", "key", "value", "out"):
            _with_bias(weights, f"blocks.{layer}.attention.{part}", wanted=config.biases or not config.gated)
        for part in ("up", "down"):
            _with_bias(weights, f"blocks.{layer}.{part}", wanted=config.biases or not config.gated)
        for kind in ("weight", "bias"):
            if (name := f"blocks.{layer}.attention.query.{kind}") in weights:
                weights[name] = weights[name] * (config.scale * config.head_width**0.5)
    return weights


def _with_bias(weights: dict[str, Tensor], name: str, *, wanted: bool) -> None:
    if wanted:
        rows = weights[f"{name}.weight"]
        weights.setdefault(f"{name}.bias", rows.new_zeros(len(rows)))


def _eps(config: DecoderConfig) -> float:
    return config.norm_eps * config.divisor / config.embedding_dim


def _renamed(
    weights: Mapping[str, Tensor], layer: int, names: Mapping[str, str], into: str
) -> dict[str, Tensor]:
    return {
        f"{into}.{theirs}.{kind}": weights[f"blocks.{layer}.{ours}.{kind}"]
        for ours, theirs in names.items()
        for kind in ("weight", "bias")
        if f"blocks.{layer}.{ours}.{kind}" in weights
    }


def _to_gpt2(config: DecoderConfig, weights: dict[str, Tensor]) -> tuple[dict[str, Tensor], Any]:
    _require(config, "GPT-2", norm="layer", gated=False)
    if config.head_width * config.n_heads != config.embedding_dim:
        raise ValueError(f"a GPT-2's heads share its width: {config.n_heads} of {config.head_width} don't")
    import transformers as theirs

    ends = {} if config.n_symbols > GPT2_END else {"bos_token_id": None, "eos_token_id": None}
    model = theirs.GPT2LMHeadModel(
        theirs.GPT2Config(
            **ends,
            vocab_size=config.n_symbols,
            n_positions=config.length,
            n_embd=config.embedding_dim,
            n_layer=config.n_layers,
            n_head=config.n_heads,
            n_inner=config.mlp_dim,
            activation_function=THEIRS[config.activation],
            layer_norm_epsilon=_eps(config),
            tie_word_embeddings=config.tied,
        )
    )
    embedding = weights["embedding"]
    found = {
        "transformer.wte.weight": embedding,
        "transformer.wpe.weight": weights.get(
            "position", embedding.new_zeros(config.length, config.embedding_dim)
        ),
        "transformer.ln_f.weight": weights["norm.weight"],
        "transformer.ln_f.bias": weights["norm.bias"],
    }
    for layer in range(config.n_layers):
        there = f"transformer.h.{layer}"
        found |= _renamed(weights, layer, {"before.0": "ln_1", "before.1": "ln_2"}, there)
        for kind in ("weight", "bias"):
            here = f"blocks.{layer}.attention"
            three = torch.cat([weights[f"{here}.{name}.{kind}"] for name in ("query", "key", "value")])
            found[f"{there}.attn.c_attn.{kind}"] = three.t() if three.dim() == 2 else three
        maps = {"attention.out": "attn.c_proj", "up": "mlp.c_fc", "down": "mlp.c_proj"}
        for name, array in _renamed(weights, layer, maps, there).items():
            found[name] = array.t() if array.dim() == 2 else array
    return found, model


def _to_llama(config: DecoderConfig, weights: dict[str, Tensor]) -> tuple[dict[str, Tensor], Any]:
    _require(config, "Llama", norm="rms", gated=True, norm_biases=False)
    import transformers as theirs

    model = theirs.LlamaForCausalLM(
        theirs.LlamaConfig(
            vocab_size=config.n_symbols,
            max_position_embeddings=config.length,
            hidden_size=config.embedding_dim,
            num_hidden_layers=config.n_layers,
            num_attention_heads=config.n_heads,
            num_key_value_heads=config.n_heads,
            head_dim=config.head_width,
            intermediate_size=config.mlp_dim,
            hidden_act=THEIRS[config.activation],
            rms_norm_eps=_eps(config),
            rope_parameters={"rope_type": "default", "rope_theta": config.rotary_base},
            attention_bias=config.biases,
            mlp_bias=config.biases,
            tie_word_embeddings=config.tied,
        )
    )
    found = {
        "model.embed_tokens.weight": weights["embedding"],
        "model.norm.weight": weights["norm.weight"],
    }
    names = {
        "before.0": "input_layernorm",
        "before.1": "post_attention_layernorm",
        "attention.query": "self_attn.q_proj",
        "attention.key": "self_attn.k_proj",
        "attention.value": "self_attn.v_proj",
        "attention.out": "self_attn.o_proj",
        "gate": "mlp.gate_proj",
        "up": "mlp.up_proj",
        "down": "mlp.down_proj",
    }
    for layer in range(config.n_layers):
        found |= _renamed(weights, layer, names, f"model.layers.{layer}")
    return found, model


def _to_neox(config: DecoderConfig, weights: dict[str, Tensor]) -> tuple[dict[str, Tensor], Any]:
    _require(config, "GPT-NeoX", norm="layer", gated=False)
    if config.head_width * config.n_heads != config.embedding_dim:
        raise ValueError(f"a GPT-NeoX's heads share its width: {config.n_heads} of {config.head_width} don't")
    import transformers as theirs

    model = theirs.GPTNeoXForCausalLM(
        theirs.GPTNeoXConfig(
            vocab_size=config.n_symbols,
            max_position_embeddings=config.length,
            hidden_size=config.embedding_dim,
            num_hidden_layers=config.n_layers,
            num_attention_heads=config.n_heads,
            intermediate_size=config.mlp_dim,
            hidden_act=THEIRS[config.activation],
            layer_norm_eps=_eps(config),
            rope_parameters={
                "rope_type": "default",
                "rope_theta": config.rotary_base,
                "partial_rotary_factor": config.rotary_share,
            },
            use_parallel_residual=config.parallel,
            tie_word_embeddings=config.tied,
        )
    )
    found = {
        "gpt_neox.embed_in.weight": weights["embedding"],
        "gpt_neox.final_layer_norm.weight": weights["norm.weight"],
        "gpt_neox.final_layer_norm.bias": weights["norm.bias"],
    }
    names = {
        "before.0": "input_layernorm",
        "before.1": "post_attention_layernorm",
        "attention.out": "attention.dense",
        "up": "mlp.dense_h_to_4h",
        "down": "mlp.dense_4h_to_h",
    }
    for layer in range(config.n_layers):
        there = f"gpt_neox.layers.{layer}"
        found |= _renamed(weights, layer, names, there)
        for kind in ("weight", "bias"):
            here = f"blocks.{layer}.attention"
            three = [
                weights[f"{here}.{name}.{kind}"].unflatten(0, (config.n_heads, -1))
                for name in ("query", "key", "value")
            ]
            found[f"{there}.attention.query_key_value.{kind}"] = torch.stack(three, dim=1).flatten(0, 2)
    return found, model
