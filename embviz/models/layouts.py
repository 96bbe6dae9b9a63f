"""Where the classes of Hugging Face have their residual stream, and a class at another width.

A :class:`Layout` names the modules of a class that read and write the stream. With it a model is carried
inside its own class: grouped queries, scaled rotary positions, norms within heads, windows of attention and
caps on logits stay as they are, because none of them lies along the stream. It also names the places at which
two models are compared part by part.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

Tap = tuple[
    str, int, str, str
]  # part, layer (-1: none), module whose input is x, module whose output is f(x)


@dataclass(frozen=True)
class Branch:
    """Attention or the MLP of a layer, by the names of its modules within the layer."""

    start: str  # the norm that reads the stream; in an encoder the module that the stream enters
    end: str  # the module whose output is added to the stream; in an encoder the norm after that sum
    readers: tuple[str, ...] = ()
    writer: str = ""


@dataclass(frozen=True)
class Layout:
    """A class of Hugging Face; without readers it can be compared, and not carried here."""

    name: str  # of the class
    layers: str
    embedding: str  # the module whose output is the first state
    branches: tuple[Branch, Branch]  # attention, MLP
    norm: str = "model.norm"  # the last one; "" in an encoder
    head: str = "lm_head"
    offset: float = 0.0  # gains are weight + offset
    scaled: bool = False  # embeddings are multiplied by the root of the width
    centered: bool = False  # LayerNorm
    after: tuple[str, ...] = ()  # norms, within a layer, whose output is in the stream, gains and all
    encoder: bool = False
    arrays: tuple[str, ...] = field(default=("model.embed_tokens.weight",))  # (n, D), added to the stream


_QKV = ("self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj")
_UP = ("mlp.gate_proj", "mlp.up_proj")
_ATTENTION = Branch("input_layernorm", "self_attn", _QKV, "self_attn.o_proj")
_MLP = Branch("post_attention_layernorm", "mlp", _UP, "mlp.down_proj")
_SANDWICH = (  # Gemma 2 and 3: a norm after each part, too
    Branch("input_layernorm", "post_attention_layernorm", _QKV, "self_attn.o_proj"),
    Branch("pre_feedforward_layernorm", "post_feedforward_layernorm", _UP, "mlp.down_proj"),
)
_FUSED = (
    Branch("input_layernorm", "self_attn", ("self_attn.qkv_proj",), "self_attn.o_proj"),
    Branch("post_attention_layernorm", "mlp", ("mlp.gate_up_proj",), "mlp.down_proj"),
)


def _like_llama(name: str, branches: tuple[Branch, Branch] = (_ATTENTION, _MLP), **options: Any) -> Layout:
    return Layout(name, "model.layers", "model.embed_tokens", branches, **options)


def _bert(name: str, prefix: str = "", head: str = "") -> Layout:
    attention = Branch(
        "attention",
        "attention",
        ("attention.self.query", "attention.self.key", "attention.self.value"),
        "attention.output.dense",
    )
    kinds = ("word", "position", "token_type")
    return Layout(
        name,
        f"{prefix}encoder.layer",
        f"{prefix}embeddings",
        (attention, Branch("intermediate", "output", ("intermediate.dense",), "output.dense")),
        norm="",
        head=head,
        centered=True,
        after=("attention.output.LayerNorm", "output.LayerNorm"),
        encoder=True,
        arrays=tuple(f"{prefix}embeddings.{kind}_embeddings.weight" for kind in kinds),
    )


_AFTER = ("post_attention_layernorm", "post_feedforward_layernorm")
LAYOUTS: Mapping[str, Layout] = {  # by the class's name
    layout.name: layout
    for layout in (
        Layout(
            "GPT2LMHeadModel",
            "transformer.h",
            "transformer.drop",
            (Branch("ln_1", "attn"), Branch("ln_2", "mlp")),
            norm="transformer.ln_f",
            centered=True,
        ),
        Layout(
            "GPTNeoXForCausalLM",
            "gpt_neox.layers",
            "gpt_neox.emb_dropout",
            (Branch("input_layernorm", "attention"), Branch("post_attention_layernorm", "mlp")),
            norm="gpt_neox.final_layer_norm",
            centered=True,
        ),
        _like_llama("LlamaForCausalLM"),
        _like_llama("MistralForCausalLM"),
        _like_llama("Qwen2ForCausalLM"),
        _like_llama("Qwen3ForCausalLM"),
        _like_llama("Phi3ForCausalLM", _FUSED),
        _like_llama("GemmaForCausalLM", offset=1.0, scaled=True),
        _like_llama("Gemma2ForCausalLM", _SANDWICH, offset=1.0, scaled=True, after=_AFTER),
        _like_llama("Gemma3ForCausalLM", _SANDWICH, offset=1.0, scaled=True, after=_AFTER),
        _bert("BertModel"),
        _bert("BertForMaskedLM", "bert.", "cls"),
    )
}
KINDS: Mapping[str, tuple[str, ...]] = {  # by what a configuration calls itself
    "gpt2": ("GPT2LMHeadModel",),
    "gpt_neox": ("GPTNeoXForCausalLM",),
    "llama": ("LlamaForCausalLM",),
    "mistral": ("MistralForCausalLM",),
    "qwen2": ("Qwen2ForCausalLM",),
    "qwen3": ("Qwen3ForCausalLM",),
    "phi3": ("Phi3ForCausalLM",),
    "gemma": ("GemmaForCausalLM",),
    "gemma2": ("Gemma2ForCausalLM",),
    "gemma3_text": ("Gemma3ForCausalLM",),
    "bert": ("BertModel", "BertForMaskedLM"),
}


def layout_of(model: nn.Module) -> Layout:
    """The layout of a model's class, or of the class that it is derived from."""
    classes = [parent.__name__ for parent in type(model).__mro__]
    found = next((LAYOUTS[name] for name in classes if name in LAYOUTS), None)
    if found is None:
        raise ValueError(f"a {type(model).__name__} is not known here: give one of {', '.join(LAYOUTS)}")
    return found


# --- a class at another width -------------------------------------------------------------------------


def configured(model: Any, **options: Any) -> Any:
    """A copy of a model's configuration with other options, tried on the class.

    Raises
    ------
    ValueError
        If Transformers refuses it: gives its reason.
    """
    config = copy.deepcopy(model.config)
    try:
        for name, value in options.items():
            setattr(config, name, value)
        type(config).from_dict(config.to_dict())
        with torch.device("meta"):
            type(model)(config)
    except Exception as error:  # of any type: checks of configurations and classes differ
        reason = " ".join(str(error).split())[:200].rstrip(". ")
        raise ValueError(f"Transformers makes no {type(model).__name__} of {options}: {reason}") from error
    return config


def carry(model: Any, layout: Layout, T: Tensor, inverse: Tensor, heads: Mapping[str, Tensor]) -> Any:
    """A model in its own class, its stream x replaced by T x.

    What writes to the stream is multiplied by T, what reads it by its pseudo-inverse. Gains of norms that
    read are folded into the readers. A gain g of a norm that writes becomes the vector g~ that minimizes
    |diag(g~) T - T diag(g)|: exact where T repeats coordinates or appends zeros, and where all gains are
    equal.

    Parameters
    ----------
    T : float64 tensor, shape (m, D)
        Scaled so that the mean square of a stream's coordinates stays: norms then divide by the same number.
    inverse : float64 tensor, shape (D, m)
    heads : mapping of names to tensors
        Arrays of an encoder's attention that were given other heads, before the stream is carried.

    Returns
    -------
    transformers.PreTrainedModel, float32

    Raises
    ------
    ValueError
        If the class cannot have this width, or an array has no place in it.
    """
    old = {**model.state_dict(), **heads}
    write, read = T, inverse
    m, d = write.shape
    new: dict[str, Tensor] = {}
    squares = write.square()

    def reads(name: str, gain: Tensor | float = 1.0) -> None:
        new[f"{name}.weight"] = (old[f"{name}.weight"].double() * gain) @ read

    def writes(name: str) -> None:
        for kind in ("weight", "bias"):
            if (full := f"{name}.{kind}") in old:
                new[full] = write @ new.get(full, old[full]).double()

    def norm_after(name: str) -> None:
        total = squares.sum(1)
        gain = squares @ (old[f"{name}.weight"].double() + layout.offset) / total.clamp_min(1e-30)
        new[f"{name}.weight"] = torch.where(total > 0, gain, 1.0) - layout.offset
        if f"{name}.bias" in old:
            new[f"{name}.bias"] = write @ old[f"{name}.bias"].double()

    def norm_before(name: str) -> Tensor:
        new[f"{name}.weight"] = torch.full((m,), 1.0 - layout.offset)
        return old[f"{name}.weight"].double() + layout.offset

    for name in layout.arrays:
        new[name] = old[name].double() @ write.T * ((d / m) ** 0.5 if layout.scaled else 1.0)
    for layer in range(model.config.num_hidden_layers):
        here = f"{layout.layers}.{layer}"
        for branch in layout.branches:
            gain = 1.0 if layout.encoder else norm_before(f"{here}.{branch.start}")
            for name in branch.readers:
                reads(f"{here}.{name}", gain)
            writes(f"{here}.{branch.writer}")
        for name in layout.after:
            norm_after(f"{here}.{name}")
    if layout.encoder:
        norm_after(f"{layout.embedding}.LayerNorm")
        _carry_top(old, reads, writes, norm_after)
    else:
        reads(layout.head, norm_before(layout.norm))
    return _made(model, {**old, **new}, m, layout)


def _carry_top(old: Mapping[str, Tensor], reads: Any, writes: Any, norm_after: Any) -> None:
    """What a BERT has above its layers: maps of the stream into a space as wide, and a head that reads it."""
    for name in ("pooler.dense", "cls.predictions.transform.dense"):
        if f"{name}.weight" in old:
            reads(name)
            writes(name)
    if "cls.predictions.decoder.weight" in old:
        norm_after("cls.predictions.transform.LayerNorm")
        reads("cls.predictions.decoder")


def width_options(model: Any, m: int, layout: Layout) -> dict[str, Any]:
    """Options of a configuration of width m: heads of a width apart from the stream's stay as they are."""
    options: dict[str, Any] = {"hidden_size": m, "tie_word_embeddings": False}
    if not layout.encoder:
        own = model.config
        options["head_dim"] = getattr(own, "head_dim", None) or own.hidden_size // own.num_attention_heads
    return options


def _made(model: Any, arrays: Mapping[str, Tensor], m: int, layout: Layout) -> Any:
    made = type(model)(configured(model, **width_options(model, m, layout))).eval()
    wanted = made.state_dict()
    if left := [name for name in arrays if name not in wanted]:
        raise ValueError(f"the array {left[0]} has no place in a {type(model).__name__}")
    made.load_state_dict({name: arrays[name].to(array.dtype) for name, array in wanted.items()})
    made.generation_config = copy.deepcopy(getattr(model, "generation_config", None))
    return made


# --- two models, part by part -------------------------------------------------------------------------


def taps(layout: Layout, model: Any) -> list[Tap]:
    """The places at which a model is recorded and compared, in the order of the forward pass."""
    found: list[Tap] = [("embedding", -1, "", layout.embedding)]
    for layer in range(model.config.num_hidden_layers):
        here = f"{layout.layers}.{layer}"
        for part, branch in zip(("attention", "MLP"), layout.branches, strict=True):
            start = "" if layout.encoder else f"{here}.{branch.start}"
            found.append((part, layer, start, f"{here}.{branch.end}"))
    modules = dict(model.named_modules())
    if layout.encoder:
        tops = [("pooler", "pooler"), ("head", layout.head)]
        found += [(part, -1, "", name) for part, name in tops if name and modules.get(name) is not None]
    else:
        head = layout.head if layout.head in modules else "embed_out"  # GPT-NeoX in earlier releases
        found.append(("last norm and head", -1, layout.norm, head))
    return found


def _first(output: Any) -> Tensor:
    tensor: Tensor = output[0] if isinstance(output, tuple) else output
    return tensor


@torch.no_grad()
def recorded(model: Any, places: list[Tap], tokens: Tensor) -> dict[str, Tensor]:
    """Inputs of the modules where parts start and outputs of those where they end, by ">name" and "name>"."""
    modules, found = dict(model.named_modules()), dict[str, Tensor]()
    hooks = []
    for _part, _layer, start, end in places:
        if start:
            hooks.append(
                modules[start].register_forward_pre_hook(
                    lambda _module, given, name=f">{start}": found.__setitem__(name, given[0])
                )
            )
        hooks.append(
            modules[end].register_forward_hook(
                lambda _module, _given, output, name=f"{end}>": found.__setitem__(name, _first(output))
            )
        )
    try:
        model(tokens)
    finally:
        for hook in hooks:
            hook.remove()
    return found


@torch.no_grad()
def part_errors(old: Any, new: Any, layout: Layout, T: Tensor, tokens: Tensor) -> list[float]:
    """|f~(T x) - T f(x)| / |T f(x)| of each part f, for the old model's states x, in the order of `taps`.

    While the new model runs, each part is given the image of what that part of the old model was given.

    Parameters
    ----------
    T : float64 tensor, shape (m, D)
    tokens : integer tensor, shape (B, T)

    Source
    ------
    The resizing paper, eq. 1, part by part.
    """
    places = taps(layout, new)
    states = recorded(old, places, tokens)
    along = T.T.to(next(iter(states.values())))
    modules, errors = dict(new.named_modules()), dict[str, float]()
    hooks = []

    def given(name: str) -> Any:
        return lambda _module, _given: (states[f">{name}"] @ along,)

    def measured(name: str, in_stream: bool) -> Any:
        def hook(_module: Any, _given: Any, output: Any) -> Any:
            image = states[f"{name}>"]
            image = image @ along if in_stream else image
            difference = (_first(output).double() - image.double()).norm()
            errors[name] = float(difference / image.double().norm().clamp_min(1e-30))
            if not layout.encoder or not in_stream:
                return None
            return (image, *output[1:]) if isinstance(output, tuple) else image

        return hook

    for part, _layer, start, end in places:
        if start:
            hooks.append(modules[start].register_forward_pre_hook(given(start)))
        hooks.append(modules[end].register_forward_hook(measured(end, "head" not in part)))
    try:
        new(tokens)
    finally:
        for one in hooks:
            one.remove()
    return [errors[end] for *_rest, end in places]
