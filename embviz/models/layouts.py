"""Where the classes of Hugging Face have their residual stream, and a class at another width.

A :class:`Layout` names the modules of a class that read and write the stream. With it a model is carried
inside its own class: grouped queries, scaled rotary positions, norms within heads, windows of attention and
caps on logits stay as they are, because none of them lies along the stream. It also names the places at which
two models are compared part by part.
"""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor, nn
from torch.nn.functional import layer_norm, pad

Tap = tuple[str, int, str, str]  # part, layer (-1: none), module whose input is x, module that gives f(x)


@dataclass(frozen=True)
class Branch:
    """Attention or the MLP of a layer, by the names of its modules within the layer."""

    start: str  # the norm that reads the stream; in an encoder the module that the stream enters
    end: str  # the module whose output is added to the stream; in an encoder the norm after that sum
    readers: tuple[str, ...]
    writer: str


@dataclass(frozen=True)
class Layout:
    """Where a class of Hugging Face has its stream."""

    kind: str  # what a configuration calls itself
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
    arrays: tuple[str, ...] = ("model.embed_tokens.weight",)  # (n, D), added to the stream
    shared: Literal["", "by part", "by head"] = ""  # heads share the width: how q, k, v lie in the readers
    conv1d: bool = False  # maps of layers are kept as (inputs, outputs)


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


def _like_llama(
    kind: str, name: str, branches: tuple[Branch, Branch] = (_ATTENTION, _MLP), **options: Any
) -> Layout:
    return Layout(kind, name, "model.layers", "model.embed_tokens", branches, **options)


def _bert(name: str, prefix: str = "", head: str = "") -> Layout:
    attention = Branch(
        "attention",
        "attention",
        ("attention.self.query", "attention.self.key", "attention.self.value"),
        "attention.output.dense",
    )
    kinds = ("word", "position", "token_type")
    return Layout(
        "bert",
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
        shared="by part",
    )


_AFTER = ("post_attention_layernorm", "post_feedforward_layernorm")
LAYOUTS: Mapping[str, Layout] = {  # by the class's name
    layout.name: layout
    for layout in (
        Layout(
            "gpt2",
            "GPT2LMHeadModel",
            "transformer.h",
            "transformer.drop",
            (
                Branch("ln_1", "attn", ("attn.c_attn",), "attn.c_proj"),
                Branch("ln_2", "mlp", ("mlp.c_fc",), "mlp.c_proj"),
            ),
            norm="transformer.ln_f",
            centered=True,
            arrays=("transformer.wte.weight", "transformer.wpe.weight"),
            shared="by part",
            conv1d=True,
        ),
        Layout(
            "gpt_neox",
            "GPTNeoXForCausalLM",
            "gpt_neox.layers",
            "gpt_neox.emb_dropout",
            (  # both read the same stream where the residual is parallel, each through its own norm
                Branch("input_layernorm", "attention", ("attention.query_key_value",), "attention.dense"),
                Branch("post_attention_layernorm", "mlp", ("mlp.dense_h_to_4h",), "mlp.dense_4h_to_h"),
            ),
            norm="gpt_neox.final_layer_norm",
            centered=True,
            arrays=("gpt_neox.embed_in.weight",),
            shared="by head",
        ),
        _like_llama("llama", "LlamaForCausalLM"),
        _like_llama("mistral", "MistralForCausalLM"),
        _like_llama("qwen2", "Qwen2ForCausalLM"),
        _like_llama("qwen3", "Qwen3ForCausalLM"),
        _like_llama("phi3", "Phi3ForCausalLM", _FUSED),
        _like_llama("gemma", "GemmaForCausalLM", offset=1.0, scaled=True),
        _like_llama("gemma2", "Gemma2ForCausalLM", _SANDWICH, offset=1.0, scaled=True, after=_AFTER),
        _like_llama("gemma3_text", "Gemma3ForCausalLM", _SANDWICH, offset=1.0, scaled=True, after=_AFTER),
        _bert("BertModel"),
        _bert("BertForMaskedLM", "bert.", "cls"),
    )
}
KINDS: Mapping[str, tuple[str, ...]] = {  # classes by what their configurations call themselves
    kind: tuple(name for name, one in LAYOUTS.items() if one.kind == kind)
    for kind in dict.fromkeys(layout.kind for layout in LAYOUTS.values())
}


def layout_of(model: nn.Module) -> Layout:
    """The layout of a model's class, or of the class that it is derived from."""
    classes = [parent.__name__ for parent in type(model).__mro__]
    found = next((LAYOUTS[name] for name in classes if name in LAYOUTS), None)
    if found is None:
        raise ValueError(f"a {type(model).__name__} is not known here: give one of {', '.join(LAYOUTS)}")
    old_head = found.head == "lm_head" and hasattr(model, "embed_out")  # GPT-NeoX in earlier releases
    return dataclasses.replace(found, head="embed_out") if old_head else found


# --- a class at another width -------------------------------------------------------------------------


def _turned(arrays: Mapping[str, Tensor], layout: Layout) -> dict[str, Tensor]:
    """Maps of Conv1D as (outputs, inputs); those as (inputs, outputs) again."""

    def is_conv1d(name: str, array: Tensor) -> bool:
        return layout.conv1d and name.startswith(f"{layout.layers}.") and array.dim() == 2

    return {name: array.T if is_conv1d(name, array) else array for name, array in arrays.items()}


def carry(model: Any, layout: Layout, T: Tensor, inverse: Tensor) -> dict[str, Tensor]:
    """Arrays of a model whose stream x is T x, maps as (outputs, inputs).

    What writes to the stream is multiplied by T, what reads it by its pseudo-inverse. Gains and biases of
    norms that read are folded into the readers. A gain g of a norm that writes becomes the vector g~ that
    minimizes |diag(g~) T - T diag(g)|: exact where T repeats coordinates or appends zeros, and where all
    gains are equal.

    Parameters
    ----------
    T : float64 tensor, shape (m, D)
        Scaled so that the mean square of a stream's coordinates stays: norms then divide by the same number.
        Where they center, it takes the direction of ones to the direction of ones.
    inverse : float64 tensor, shape (D, m)
    """
    old = _turned(model.state_dict(), layout)
    new: dict[str, Tensor] = {}
    m, d = T.shape

    def reads(name: str, norm: str = "") -> None:
        # W (g * n + b) = (W diag(g) T+) T n + W b, for n what the norm makes of x before its gains g
        weight, bias = old[f"{name}.weight"].double(), f"{name}.bias"
        gain: Tensor | float = 1.0
        if norm:
            gain = old[f"{norm}.weight"].double() + layout.offset
            new[f"{norm}.weight"] = torch.full((m,), 1.0 - layout.offset)
        new[f"{name}.weight"] = (weight * gain) @ inverse
        if f"{norm}.bias" in old:
            new[f"{norm}.bias"] = torch.zeros(m)
            new[bias] = old.get(bias, torch.zeros(len(weight))) + weight @ old[f"{norm}.bias"].double()

    def writes(name: str) -> None:
        for kind in ("weight", "bias"):
            if (full := f"{name}.{kind}") in old:
                new[full] = T @ new.get(full, old[full]).double()

    for name in layout.arrays:
        new[name] = old[name].double() @ T.T * ((d / m) ** 0.5 if layout.scaled else 1.0)
    for layer in range(model.config.num_hidden_layers):
        here = f"{layout.layers}.{layer}"
        for branch in layout.branches:
            for name in branch.readers:
                reads(f"{here}.{name}", "" if layout.encoder else f"{here}.{branch.start}")
            writes(f"{here}.{branch.writer}")
        for name in layout.after:
            new |= _norm_after(old, f"{here}.{name}", T, layout.offset)
    if layout.encoder:  # above its layers: maps of the stream into a space as wide, and a head that reads it
        new |= _norm_after(old, f"{layout.embedding}.LayerNorm", T, layout.offset)
        for name in ("pooler.dense", "cls.predictions.transform.dense"):
            if f"{name}.weight" in old:
                reads(name)
                writes(name)
        if "cls.predictions.decoder.weight" in old:
            new |= _norm_after(old, "cls.predictions.transform.LayerNorm", T, layout.offset)
            reads("cls.predictions.decoder")
        return {**old, **new}
    reads(layout.head, layout.norm)
    if (bias := new.pop(f"{layout.head}.bias", None)) is not None:
        # logits have no bias: the last norm gets one that the head reads as the same, where m < D nearly so
        head = new[f"{layout.head}.weight"]
        new[f"{layout.norm}.bias"] = torch.linalg.lstsq(head, bias[:, None], driver="gelsd").solution[:, 0]
    return {**old, **new}


def _norm_after(old: Mapping[str, Tensor], name: str, T: Tensor, offset: float) -> dict[str, Tensor]:
    """Gains and bias of a norm behind a branch: a new coordinate's gain is the mean of the gains it mixes."""
    squares, bias = T.square(), f"{name}.bias"
    total = squares.sum(1)
    gain = squares @ (old[f"{name}.weight"].double() + offset) / total.clamp_min(1e-30)
    new = {f"{name}.weight": torch.where(total > 0, gain, 1.0) - offset}
    return new | ({bias: T @ old[bias].double()} if bias in old else {})


def configured(model: Any, m: int, layout: Layout) -> Any:
    """A copy of a model's configuration at width m, tried on the class.

    Hidden units stay, and so do heads of a width apart from the stream's, and how many of a head's
    coordinates rotary positions turn. What Transformers refuses is a ValueError with its reason.
    """
    own = model.config
    d, heads = own.hidden_size, own.num_attention_heads
    options: dict[str, Any] = {"hidden_size": m, "tie_word_embeddings": False}
    if not layout.shared:
        options["head_dim"] = getattr(own, "head_dim", None) or d // heads
    if getattr(own, "n_inner", 0) is None:  # of GPT-2: four times the width
        options["n_inner"] = 4 * d
    if hasattr(own, "use_parallel_residual"):  # of GPT-NeoX: biases of norms are folded into its attention
        options["attention_bias"] = True
        turned = int(d // heads * own.rope_parameters.get("partial_rotary_factor", 1.0))
        share = min(1.0, (turned + 0.5) / max(1, m // heads))  # half of one more, against rounding
        options["rope_parameters"] = {**own.rope_parameters, "partial_rotary_factor": share}
    config = copy.deepcopy(own)
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


def in_class(model: Any, layout: Layout, m: int, arrays: Mapping[str, Tensor]) -> Any:
    """A float32 model of another's class and options at width m; biases without an array are 0."""
    made = type(model)(configured(model, m, layout)).eval()
    wanted, arrays = made.state_dict(), _turned(arrays, layout)
    for name, array in arrays.items():
        if name not in wanted or wanted[name].shape != array.shape:
            raise ValueError(f"the array {name} has no place in a {type(model).__name__} of another width")
    new = {name: arrays.get(name, torch.zeros_like(array)) for name, array in wanted.items()}
    made.load_state_dict({name: array.to(wanted[name].dtype) for name, array in new.items()})
    made.generation_config = copy.deepcopy(getattr(model, "generation_config", None))
    return made


# --- heads that share the width -----------------------------------------------------------------------


def fit_heads(
    arrays: dict[str, Tensor], model: Any, layout: Layout, T: Tensor, ids: Tensor
) -> dict[str, Tensor]:
    """Carried arrays with heads of m / H coordinates, where the class has no others.

    Wider heads get coordinates of 0; narrower ones keep those that matter most to their products on the
    strings of tokens `ids` (B, T + 1).
    """
    heads, (m, d) = model.config.num_attention_heads, T.shape
    width, new = d // heads, m // heads
    if not layout.shared or new == width:
        return arrays
    branch = layout.branches[0]
    layers = [f"{layout.layers}.{layer}" for layer in range(model.config.num_hidden_layers)]
    starts = [f"{here}.{branch.start}" for here in layers]
    states = [recorded(model, starts, [], string[None, :-1]) for string in ids] if new < width else []
    # softmax divides by the root of a head's width: its queries make up for that
    rescaled = (new / width) ** 0.5 if getattr(model.config, "scale_attn_weights", True) else 1.0
    found = {}
    for here, start in zip(layers, starts, strict=True):
        qkv, out = _by_head(arrays, layout, here, heads)
        if new > width:
            qkv, out = (pad(one, (0, 0, 0, new - width)) for one in (qkv, out))
        else:
            x = torch.cat([one[f">{start}"][0] for one in states]).double() @ T.T
            x = x if layout.encoder else layer_norm(x, (m,))
            qkv, out = narrowed(qkv, out, new, torch.cat([x, x.new_ones(len(x), 1)], dim=1))
        qkv[0] *= rescaled
        rows = (qkv.transpose(0, 1) if layout.shared == "by head" else qkv).flatten(0, 2)
        for name, part in zip(branch.readers, rows.chunk(len(branch.readers)), strict=True):
            found[f"{here}.{name}.weight"], found[f"{here}.{name}.bias"] = part[:, :-1], part[:, -1]
        found[f"{here}.{branch.writer}.weight"] = out.flatten(0, 1).T
    return arrays | found


def _by_head(arrays: Mapping[str, Tensor], layout: Layout, here: str, heads: int) -> tuple[Tensor, Tensor]:
    """Queries, keys and values of a layer (3, H, W, m + 1), biases last, and what writes them (H, W, m)."""
    branch = layout.branches[0]
    weights, biases = (
        torch.cat([arrays[f"{here}.{name}.{kind}"].double() for name in branch.readers])
        for kind in ("weight", "bias")
    )
    rows = torch.cat([weights, biases[:, None]], dim=1)  # a bias is one more input, which is 1
    if layout.shared == "by head":
        qkv = rows.unflatten(0, (heads, 3, -1)).transpose(0, 1)
    else:
        qkv = rows.unflatten(0, (3, heads, -1))
    return qkv, arrays[f"{here}.{branch.writer}.weight"].double().T.unflatten(0, (heads, -1))


def narrowed(qkv: Tensor, out: Tensor, new: int, x: Tensor) -> tuple[Tensor, Tensor]:
    """Each head's products, of queries with keys and of values with what writes them, at a lower rank.

    The rank is the best for what is read, x (n, m + 1). Of keys the mean is left out: a product that is the
    same with all keys takes no part in a softmax.
    """
    query, key, value = qkv  # (H, W, m + 1) each
    to_query, to_key = _lower_rank(query @ x.T, key @ (x - x.mean(0)).T, new)
    to_out, to_value = _lower_rank(out, value @ x.T, new)
    return torch.stack([to_query @ query, to_key @ key, to_value @ value]), to_out @ out


def _lower_rank(a: Tensor, b: Tensor, rank: int) -> tuple[Tensor, Tensor]:
    """Maps (H, rank, W) of a (H, W, p) and of b (H, W, q) that leave the best products a'b of that rank."""
    r_a, r_b = (torch.linalg.qr(part.mT)[1] for part in (a, b))  # (H, W, W)
    left, values, right = torch.linalg.svd(r_a @ r_b.mT)
    roots = values[:, None, :rank].sqrt()
    of_a = torch.linalg.pinv(r_a, rtol=1e-9) @ (left[..., :rank] * roots)
    of_b = torch.linalg.pinv(r_b, rtol=1e-9) @ (right.mT[..., :rank] * roots)
    return of_a.mT, of_b.mT


# --- two models, part by part -------------------------------------------------------------------------


def taps(layout: Layout, model: Any) -> list[Tap]:
    """The places at which a model is recorded and compared, in the order of the forward pass."""
    found: list[Tap] = [("embedding", -1, "", layout.embedding)]
    for layer in range(model.config.num_hidden_layers):
        here = f"{layout.layers}.{layer}"
        for part, branch in zip(("attention", "MLP"), layout.branches, strict=True):
            start = "" if layout.encoder else f"{here}.{branch.start}"
            found.append((part, layer, start, f"{here}.{branch.end}"))
    if not layout.encoder:
        return [*found, ("last norm and head", -1, layout.norm, layout.head)]
    modules = dict(model.named_modules())
    tops = [("pooler", "pooler"), ("head", layout.head)]
    return found + [(part, -1, "", name) for part, name in tops if name and modules.get(name) is not None]


def _first(output: Any) -> Any:
    return output[0] if isinstance(output, tuple) else output


@torch.no_grad()
def recorded(model: Any, starts: Sequence[str], ends: Sequence[str], tokens: Tensor) -> dict[str, Tensor]:
    """Inputs of modules `starts` and outputs of modules `ends`, by ">name" and "name>"."""
    modules, found = dict(model.named_modules()), dict[str, Tensor]()
    hooks = [
        modules[name].register_forward_pre_hook(
            lambda _module, given, name=name: found.__setitem__(f">{name}", given[0])
        )
        for name in starts
    ]
    hooks += [
        modules[name].register_forward_hook(
            lambda _module, _given, output, name=name: found.__setitem__(f"{name}>", _first(output))
        )
        for name in ends
    ]
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
    starts, ends = [one for *_, one, _ in places if one], [one for *_, one in places]
    states = recorded(old, starts, ends, tokens)
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
