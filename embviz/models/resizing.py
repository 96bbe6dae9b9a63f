"""A trained transformer carried to another width of its residual stream, and what of it commutes with a map.

A map T (m x D) sends the stream x to T x. What writes to the stream (embeddings, positions, the maps out of
attention and MLP) is multiplied by T; what reads it (queries, keys, values, the maps into the MLP, the head)
by T+, its pseudo-inverse. Which axis of which array that concerns is known by its role, never by its size.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np
import torch
from torch import Tensor, nn

from embviz import projections
from embviz.arrays import check_array
from embviz.models.decoder import (
    Decoder,
    DecoderConfig,
    initial_value,
    nearest_multiples,
    unit,
    with_weights,
)
from embviz.models.huggingface import FAMILIES, family, from_hf, unwrapped
from embviz.projections import Projection

AttentionRule = Literal["kept", "within", "plain"]
GainRule = Literal["fold", "drop", "one", "project", "dense"]
CenteringRule = Literal["fold", "keep"]
Reading = Literal["inverse", "written", "transpose"]
MLPRule = Literal["kept", "plain"]
Growth = Literal["zeros", "orthogonal", "gaussian"]
Role = Literal["vocabulary", "position", "residual", "head", "hidden"]
Tensors = dict[str, Tensor]

_KNOWN_LAYERS = {  # of decoders; a layer of another class is refused
    *("Decoder", "DecoderBlock", "DecoderAttention", "DecoderNorm", "Gain", "Linear", "SphereLinear"),
    *("ModuleList", "GELU", "ReLU", "SiLU"),
}


@dataclass(frozen=True, eq=False)
class Resized:
    """A model after a map of its residual stream."""

    model: Decoder
    projection: Projection  # T
    notes: tuple[str, ...] = ()  # what was done beyond products with T and T+, and what doesn't commute


# --- which axis is what -------------------------------------------------------------------------------

_ROLES: dict[str, tuple[Role, ...]] = {
    "embedding": ("vocabulary", "residual"),
    "free_head": ("vocabulary", "residual"),
    "position": ("position", "residual"),
    "head_bias": ("vocabulary",),
    "scales": ("vocabulary",),
    "attention.query": ("head", "residual"),
    "attention.key": ("head", "residual"),
    "attention.value": ("head", "residual"),
    "attention.out": ("residual", "head"),
    "attention.scales": ("head",),
    "up": ("hidden", "residual"),
    "gate": ("hidden", "residual"),
    "down": ("residual", "hidden"),
    "mlp scales": ("hidden",),
}
_NORMS = ("before", "after", "steps", "norm")
_READERS = ("attention.query", "attention.key", "attention.value", "up", "gate", "free_head")


def _part(name: str) -> str:
    """Which part of a model a parameter belongs to: a key of _ROLES, or of _NORMS."""
    inner = name.split(".", 2)[2] if name.startswith("blocks.") else name
    if name.startswith("blocks.") and inner == "scales":
        return "mlp scales"
    first = inner.split(".")[0]
    return first if first in _NORMS else inner.removesuffix(".weight").removesuffix(".bias")


def axes(model: Decoder) -> Mapping[str, tuple[Role, ...]]:
    """The role of each axis of each parameter, by its name.

    Returns
    -------
    mapping from name to roles
        "vocabulary", "position", "residual", "head" (coordinates of queries, keys and values, heads one
        after the other) or "hidden" (units of an MLP). Sizes play no part: with as many heads' coordinates
        as dimensions, or as many symbols, the roles are the same.

    >>> axes(Decoder(DecoderConfig(8, 8, 8, 1, 2, mlp_dim=8), seed=0))["blocks.0.down.weight"]
    ('residual', 'hidden')
    """
    return {name: _roles(name, array) for name, array in model.state_dict().items()}


def _roles(name: str, array: Tensor) -> tuple[Role, ...]:
    part = _part(name)
    if part in _NORMS:
        along: tuple[Role, ...] = ("residual", "residual")
        return along[: array.dim()]
    return _ROLES[part][: array.dim()]  # a bias has the first axis of its map


def _flows(name: str, array: Tensor) -> list[tuple[int, Literal["write", "read"]]]:
    """Axes of a parameter that lie along the residual stream, and whether they write to it or read it.

    A vector of gains counts as written: that is how a program carries it that projects it like any other.
    """
    part, last = _part(name), array.dim() - 1
    if part in _NORMS:
        both: list[tuple[int, Literal["write", "read"]]] = [(0, "write"), (1, "read")]
        return both[: array.dim()]
    if part in _READERS:
        return [(1, "read")] if last == 1 else []
    return [(axis, "write") for axis, role in enumerate(_roles(name, array)) if role == "residual"]


# --- from other programs ------------------------------------------------------------------------------


def as_decoder(model: nn.Module) -> Decoder:
    """A decoder of the same function: itself, or one made of a model of Hugging Face.

    GPT-2, Llama, Mistral and GPT-NeoX are known (:func:`embviz.models.huggingface.from_hf`), subclasses and
    compiled models included.
    """
    model = unwrapped(model)
    if family(model) is not None:
        return from_hf(model)
    if not isinstance(model, Decoder):
        raise ValueError(
            f"a {type(model).__name__} can't be carried: give a Decoder, or of Hugging Face's "
            f"models a {' or '.join(FAMILIES.values())}"
        )
    for name, layer in model.named_modules():
        if not _is_known(layer):
            raise ValueError(
                f"layer {name} is a {type(layer).__name__}: which of its axes lie along the residual stream "
                "is not known here"
            )
    return model


def _is_known(layer: nn.Module) -> bool:
    """Whether a layer is of a known class, or of a subclass that computes the same."""
    known = next((cls for cls in type(layer).__mro__ if cls.__name__ in _KNOWN_LAYERS), None)
    return known is not None and type(layer).forward is known.forward  # type: ignore[attr-defined]


@dataclass
class _Parts:
    """A model taken apart: what the rules change one after the other."""

    config: DecoderConfig
    weights: Tensors
    notes: list[str]
    dtype: torch.dtype  # that of the model, which the result gets again

    def change(self, **options: Any) -> None:
        """Other options of the shape."""
        self.config = dataclasses.replace(self.config, **options)

    def note(self, text: str) -> None:
        """Add a note, once."""
        if text not in self.notes:
            self.notes.append(text)

    def free_head(self, why: str) -> None:
        """Untie a model: its output embedding becomes a copy of its input embedding."""
        if self.config.tied:
            self.change(tied=False)
            self.weights["free_head"] = self.weights["embedding"].clone()
            self.note(f"the head is no longer tied, because {why}")

    def model(self) -> Decoder:
        """Put together again."""
        return with_weights(self.config, {name: array.to(self.dtype) for name, array in self.weights.items()})


def _take_apart(model: nn.Module) -> _Parts:
    own = as_decoder(model)
    dtype = own.embedding.dtype
    # half precision is computed in float32 and rounded once, at the end; other types in float64
    working = torch.float32 if torch.finfo(dtype).bits == 16 else torch.float64
    weights = {name: array.detach().to(working) for name, array in own.state_dict().items()}
    config = own.config
    if config.placement == "peri" and config.after_gains is None:
        config = dataclasses.replace(config, after_gains=config.gains)  # the two kinds may part below
    if config.placement == "sphere":
        for name in weights:  # the vectors that the forward pass makes of the parameters
            for axis, _flow in _flows(name, weights[name]):
                if _part(name) not in (*_NORMS, "position"):
                    weights[name] = unit(weights[name], axis)
    return _Parts(config, weights, [], dtype)


# --- folding ------------------------------------------------------------------------------------------


def fold(model: nn.Module) -> Decoder:
    """The same function without what belongs to a basis of the residual stream.

    LayerNorm becomes RMSNorm: its centering is folded into what writes to the stream. Gains and biases of
    norms that read are folded into the maps that read them. A vector of gains that no map can take in, after
    a part in peri-norm or of the steps on the sphere, becomes a matrix. What remains commutes with every
    rotation of the stream.

    Parameters
    ----------
    model : Decoder, or a language model of Hugging Face
    """
    parts = _take_apart(model)
    _fold_norm_biases(parts)
    _fold_gains(parts)
    _fold_centering(parts)
    return parts.model()


def _reading_norms(parts: _Parts) -> Iterator[tuple[str, list[str]]]:
    """Norms that read the stream, with the arrays that read them: "blocks.1.before.0" or "norm"."""
    if parts.config.placement == "sphere":
        return
    for layer in range(parts.config.n_layers):
        for index, part in enumerate(
            (("attention.query", "attention.key", "attention.value"), ("up", "gate"))
        ):
            names = [f"blocks.{layer}.{name}.weight" for name in part]
            yield f"blocks.{layer}.before.{index}", [name for name in names if name in parts.weights]
    yield "norm", ["embedding" if parts.config.tied else "free_head"]


def _fold_norm_biases(parts: _Parts) -> None:
    """Move the biases of norms into the biases of the layers that follow."""
    if not parts.config.norm_biases:
        return
    weights, stays = parts.weights, parts.config.placement == "peri"  # the norms after a part keep theirs
    parts.change(biases=True, head_bias=True, norm_biases=stays)
    skeleton = Decoder(parts.config, seed=0).state_dict()
    for name, array in skeleton.items():
        if name.endswith("bias") and name not in weights:
            weights[name] = torch.zeros_like(array).to(weights["embedding"])
    for norm, readers in _reading_norms(parts):
        bias = weights.pop(f"{norm}.bias")
        if stays:
            weights[f"{norm}.bias"] = torch.zeros_like(bias)
        for reader in readers:
            name = "head_bias" if norm == "norm" else reader.replace("weight", "bias")
            weights[name] = weights[name] + weights[reader] @ bias


def _fold_gains(parts: _Parts) -> None:
    """Gains of the norms that read into their readers, for biases of norms that are folded already."""
    config, weights = parts.config, parts.weights
    if config.placement == "sphere":
        if config.gains == "each":
            _make_dense(parts, "steps")
            parts.change(gains="dense")
        return
    if config.after_gains == "each":
        _make_dense(parts, "after")
        parts.change(after_gains="dense")
    if config.gains not in ("each", "dense"):
        return
    parts.free_head("the last norm's gains are folded into the head alone")
    for norm, readers in _reading_norms(parts):
        gain = weights.pop(f"{norm}.weight")
        for reader in readers:
            array = weights[reader]
            weights[reader] = array @ gain if gain.dim() == 2 else array * gain
    parts.change(gains="none")


def _gains_of(parts: _Parts, *kinds: str) -> list[str]:
    """Names of the vectors of gains of norms "before", "after", "norm", or of "steps"."""
    return [
        name
        for name, array in parts.weights.items()
        if _part(name) in kinds and name.endswith("weight") and array.dim() == 1
    ]


def _make_dense(parts: _Parts, *kinds: str) -> None:
    """Vectors of gains as diagonal matrices."""
    for name in _gains_of(parts, *kinds):
        parts.weights[name] = torch.diag(parts.weights[name])
    parts.note(f"gains of {' and '.join(kinds)} are matrices: no map takes them in")


def _fold_centering(parts: _Parts) -> None:
    """LayerNorm as RMSNorm of a stream whose mean over dimensions is 0 from the start."""
    config, weights = parts.config, parts.weights
    if config.norm != "layer":
        return
    if config.gains in ("each", "dense") or config.norm_biases:
        parts.free_head("it reads a stream of another mean than 0 after the last norm's gains or biases")
    if config.after_gains == "each":  # centered after the gain: no vector does both
        _make_dense(parts, "after")
        parts.change(after_gains="dense")
    for name, array in weights.items():
        if _part(name) in ("embedding", "position", "attention.out", "down", "after"):
            for axis, flow in _flows(name, array):
                if flow == "write" and array.dim():
                    weights[name] = array - array.mean(axis, keepdim=True)
    parts.change(norm="rms")


# --- gains that are not folded ------------------------------------------------------------------------


def _treat_gains(parts: _Parts, rule: GainRule) -> None:
    """Vectors of gains by a rule; one number for all dimensions commutes, and stays under each."""
    if rule == "fold":
        _fold_norm_biases(parts)
        _fold_gains(parts)
        return
    config, own = parts.config, _gains_of(parts, *_NORMS)
    if not own or rule == "project":
        if own:
            parts.note("gains are projected as vectors, which has no meaning in the new basis")
        return
    if rule == "dense":
        _make_dense(parts, *_NORMS)
    kind: Literal["none", "one", "dense"] = "none" if rule == "drop" else rule
    if config.placement == "sphere" and kind == "none":
        kind = "one"  # without a length there is no step
    for name in own:
        if kind == "none":
            del parts.weights[name]
        elif kind == "one":
            parts.weights[name] = parts.weights[name].mean()
    if kind != "dense":
        parts.note("gains are dropped" if kind == "none" else "gains are replaced by their means")
    if config.gains == "each":
        parts.change(gains=kind)
    if config.after_gains == "each":
        parts.change(after_gains=kind)


# --- carrying -----------------------------------------------------------------------------------------


def resize(
    model: nn.Module,
    m: int,
    *,
    projection: Projection | str = "orthonormal",
    seed: int = 0,
    attention: AttentionRule = "kept",
    gains: GainRule = "fold",
    centering: CenteringRule = "fold",
    reading: Reading = "inverse",
    mlp: MLPRule = "kept",
    energy: float | None = None,
) -> Resized:
    """Carry a model to a residual stream of m dimensions.

    Parameters
    ----------
    model : Decoder, or a language model of Hugging Face
        Not changed. Products are made in float64, of half precision in float32; the result has its type.
    m : int
        The new width, at least 1.
    projection : Projection or str
        T (m x D), or a family of :data:`embviz.projections.FAMILIES`, drawn in unit scaling.
    seed : int
        Of that draw, and of the maps within heads or MLPs.
    attention : "kept", "within" or "plain"
        "kept": queries, keys and values stay in their own coordinates, and heads keep their width. "plain":
        the sandwich T W T+ for each of the four maps, with heads of m / H coordinates. "within": each head's
        coordinates by a map of their own to m / H of them. The scale of products follows the head's width.
    gains : "fold", "drop", "one", "project" or "dense"
        Of norms, one for each dimension: folded into the maps that read, with the norms' biases; dropped;
        replaced by their mean; multiplied by T as if they were vectors; or carried as T diag(gain) T+.
    centering : "fold" or "keep"
        LayerNorm's mean over dimensions: folded into what writes, or taken in the new basis.
    reading : "inverse", "written" or "transpose"
        "inverse": T writes, T+ reads. "written": the text's formulas by the letter, whose maps of the MLP
        have T' and T+ the other way round. "transpose": T' reads. Equal for orthonormal rows of unit length.
    mlp : "kept" or "plain"
        "plain": hidden units are mapped too, to m / D of their number, by a map of their own.
    energy : float, optional
        |T x|^2 / |x|^2 of the stream: norms divide by so much less, to give T x the length that x had. By
        default what a random map keeps on average, m / D for rows of unit length.

    Returns
    -------
    Resized
        The decoder, T, and notes on what was done beyond products and what doesn't commute.

    Raises
    ------
    ValueError
        If m is below 1, more than the family allows, or no multiple of the heads where it must be; T has not
        full rank or another shape; or a rule or a layer is not known.

    Source
    ------
    The resizing paper, section 4.1 and Algorithm 1: its own reading is attention="plain", reading="written",
    gains="drop" or "one", centering="keep".
    """
    _require_known(attention, gains, centering, reading, mlp)
    parts = _take_apart(model)
    d = parts.config.embedding_dim
    if m < 1:
        raise ValueError(f"m is {m}: a model needs one dimension at least")
    head_width = _head_width(parts.config, m, attention)
    if isinstance(projection, str):
        projection = projections.draw(projection, m, d, seed=seed, scaling="unit")
    if projection.shape != (m, d):
        raise ValueError(f"T is {projection.shape[0]} x {projection.shape[1]}, and must be {m} x {d}")
    inverse = projection.pseudo_inverse()  # refuses a T without full rank
    _treat_gains(parts, gains)
    if centering == "fold":
        _fold_centering(parts)
    elif parts.config.norm == "layer":
        parts.note("centering is kept: the direction of ones is another in the new basis")
    if reading != "transpose" and not np.allclose(inverse, projection.matrix.T, rtol=0, atol=1e-9):
        parts.free_head("what reads is multiplied by T+, which is not T'")
    maps = _Maps(parts.weights["embedding"], projection.matrix, inverse, reading)
    _carry_heads(parts, maps, head_width, attention, seed)
    _carry_hidden(parts, m, mlp, seed)
    _carry_stream(parts, maps)
    energy = energy or projection.scale**2 * min(m, d) / d
    _set_width(parts, m, energy, head_width)
    return Resized(parts.model(), projection, tuple(parts.notes))


def _require_known(*rules: str) -> None:
    for rule, known in zip(rules, (AttentionRule, GainRule, CenteringRule, Reading, MLPRule), strict=True):
        if rule not in get_args(known):
            raise ValueError(f"no rule {rule!r}: choose one of {', '.join(get_args(known))}")


def _head_width(config: DecoderConfig, m: int, attention: AttentionRule) -> int:
    """Coordinates of a head of a model of width m."""
    own = config.n_heads
    if attention == "kept":
        return config.head_width
    step = own * (2 if config.positions == "rotary" else 1)  # rotary positions turn pairs
    if m % step:
        pairs = " in pairs of coordinates" if step > own else ""
        raise ValueError(
            f"m = {m} can't be divided among {own} heads{pairs}: take m = {nearest_multiples(m, step)}, or "
            "attention='kept', which needs no division"
        )
    if attention == "plain" and own * config.head_width != config.embedding_dim:
        raise ValueError(
            f"the plain rule T W T+ is for square maps, and the {own} heads of {config.head_width} are not "
            f"{config.embedding_dim} wide: use attention='kept' or 'within'"
        )
    return m // own


class _Maps:
    """T and what reads after it, as tensors; by the reading, which of the two stands where."""

    def __init__(self, like: Tensor, T: np.ndarray, inverse: np.ndarray, reading: Reading) -> None:
        self.write = torch.from_numpy(np.ascontiguousarray(T)).to(like)  # (m, D)
        self.inverse = torch.from_numpy(np.ascontiguousarray(inverse.T)).to(like)  # T+ transposed, (m, D)
        self.reading = reading

    def of(self, name: str, array: Tensor, flow: Literal["write", "read"]) -> Tensor:
        """(m, D), by which an axis of a parameter along the stream is multiplied."""
        if self.reading == "transpose":
            return self.write
        if self.reading == "written" and array.dim() == 2:
            swapped = {"up": self.write, "gate": self.write, "down": self.inverse}
            if _part(name) in swapped:
                return swapped[_part(name)]
        return self.write if flow == "write" else self.inverse

    @property
    def read(self) -> Tensor:
        """What reads a map's own outputs, (m, D)."""
        return self.write if self.reading == "transpose" else self.inverse


def _along(array: Tensor, axis: int, matrix: Tensor) -> Tensor:
    """array with an axis (n,) multiplied by a matrix (k, n)."""
    return torch.tensordot(matrix, array, dims=([1], [axis])).movedim(0, axis)


def _carry_stream(parts: _Parts, maps: _Maps) -> None:
    """Everything that lies along the residual stream."""
    for name, array in parts.weights.items():
        for axis, flow in _flows(name, array):
            array = _along(array, axis, maps.of(name, array, flow))
        parts.weights[name] = array


def _carry_heads(parts: _Parts, maps: _Maps, head_width: int, rule: AttentionRule, seed: int) -> None:
    """Coordinates of queries, keys and values."""
    if rule == "kept":
        return
    config = parts.config
    parts.note(
        "heads are mixed: products of queries and keys are summed over other groups of coordinates"
        if rule == "plain" and config.n_heads > 1
        else "each head's coordinates are mapped"
    )
    if config.rotary_share < 1:
        raise ValueError(
            f"rotary positions turn {config.rotary_width} of a head's {config.head_width} coordinates: other "
            "heads would turn others, so use attention='kept'"
        )
    if config.positions == "rotary":
        parts.note("rotary positions turn other pairs of coordinates than before")
    for layer in range(config.n_layers):
        write, read = maps.write, maps.read
        if rule == "within":
            own = [
                projections.draw(
                    "orthonormal", head_width, config.head_width, seed=[seed, layer, head], scaling="unit"
                )
                for head in range(config.n_heads)
            ]
            like = parts.weights["embedding"]
            write = torch.block_diag(*(torch.from_numpy(one.matrix) for one in own)).to(like)
            read = torch.block_diag(*(torch.from_numpy(one.pseudo_inverse().T) for one in own)).to(like)
        _carry_role(parts, f"blocks.{layer}.", "head", write, read)


def _carry_hidden(parts: _Parts, m: int, rule: MLPRule, seed: int) -> None:
    """Hidden units of the MLPs."""
    if rule == "kept":
        return
    old = parts.config.mlp_dim
    new = max(1, round(old * m / parts.config.embedding_dim))
    parts.note("hidden units are mixed before their activation, which acts on each of them")
    for layer in range(parts.config.n_layers):
        drawn = projections.draw("orthonormal", new, old, seed=[seed, layer, 1 << 20], scaling="unit")
        like = parts.weights["embedding"]
        write, read = (
            torch.from_numpy(np.ascontiguousarray(matrix)).to(like)
            for matrix in (drawn.matrix, drawn.pseudo_inverse().T)
        )
        _carry_role(parts, f"blocks.{layer}.", "hidden", write, read)
    parts.change(mlp_dim=new)


def _carry_role(parts: _Parts, start: str, role: Role, write: Tensor, read: Tensor) -> None:
    """Axes of a role within a layer: written by the maps in, read by the maps out."""
    for name, array in parts.weights.items():
        if not name.startswith(start):
            continue
        for axis, own in enumerate(_roles(name, array)):
            if own == role and _part(name) in ("attention.scales", "mlp scales"):
                parts.weights[name] = array.mean().expand(len(write)).clone()
                parts.note(f"the {role} coordinates' scales on the sphere are replaced by their means")
            elif own == role:
                out = _part(name) in ("attention.out", "down")
                parts.weights[name] = _along(array, axis, read if out else write)


def _set_width(parts: _Parts, m: int, energy: float, head_width: int) -> None:
    """The configuration of the new arrays."""
    old = parts.config
    on_sphere = old.placement == "sphere"
    if on_sphere and "position" in parts.weights:  # added to embeddings whose length is 1 at every width
        parts.weights["position"] = parts.weights["position"] / math.sqrt(energy)
    # cosines keep their size, sums of squares shrink with the stream's energy
    divisor = old.divisor if on_sphere else max(1, round(old.divisor * energy))
    square = old.n_heads * head_width == m
    scale = old.attention_scale * math.sqrt(old.head_width / head_width)
    parts.change(
        embedding_dim=m,
        head_dim=0 if square else head_width,
        norm_width=0 if divisor == m else divisor,
        attention_scale=scale,
    )


# --- other ways to another width ----------------------------------------------------------------------


def truncate(model: nn.Module, dims: int | Sequence[int]) -> Resized:
    """Keep some dimensions of the residual stream, by default the first ones: nothing is mixed.

    Gains stay with their dimensions; centering is over those that are left.

    Parameters
    ----------
    model : Decoder, or a language model of Hugging Face
    dims : int or sequence of int
        How many, or which, each once.
    """
    own = as_decoder(model)
    d = own.config.embedding_dim
    kept = list(range(dims)) if isinstance(dims, int) else list(dims)
    if not kept or len(set(kept)) < len(kept) or not 0 <= min(kept) <= max(kept) < d:
        raise ValueError(f"dimensions to keep must be different ones of 0 to {d - 1}, one at least: {dims}")
    found = resize(
        own,
        len(kept),
        projection=projections.Projection.from_matrix(np.eye(d)[kept]),
        gains="project",
        centering="keep",
    )
    return Resized(found.model, found.projection, ("dimensions are left out, none is mixed",))


def pca_slice(model: nn.Module, m: int, states: np.ndarray) -> Resized:
    """Keep the m leading principal directions of hidden states, everything folded first.

    Directions are those of the states' unit vectors: a norm takes their length away before they are read.

    Parameters
    ----------
    model : Decoder, or a language model of Hugging Face
    m : int, 1 to D
    states : array, shape (n, D)
        Hidden states of the model itself; where it has LayerNorm they are centered here.
    """
    own = as_decoder(model)
    states = check_array(states, "states", 2)
    if states.shape[1] != own.config.embedding_dim:
        raise ValueError(f"states has shape {states.shape}: give (n, {own.config.embedding_dim})")
    if own.config.norm == "layer":
        states = states - states.mean(axis=1, keepdims=True)
    lengths = np.linalg.norm(states, axis=1, keepdims=True)
    states = states / np.where(lengths > 0, lengths, 1.0)
    projection = projections.pca(states, m)
    energy = float((projection.apply(states) ** 2).sum() / (states**2).sum())
    return resize(own, m, projection=projection, energy=energy)


def grow(
    model: nn.Module, m: int, how: Growth = "orthogonal", seed: int = 0, *, fresh: bool = False
) -> Resized:
    """Widen the residual stream, everything folded first.

    Parameters
    ----------
    model : Decoder, or a language model of Hugging Face
    m : int
        At least the model's width.
    how : "zeros", "orthogonal" or "gaussian"
        Zeros appended, or T with orthonormal columns: logits stay the same. Gaussian columns: they don't, for
        lengths change, and norms see them.
    seed : int
        Of T, and of fresh weights.
    fresh : bool
        Let what reads the new directions start as it does in a new model: nothing writes there yet, so logits
        stay the same. Without this no gradient reaches weights of appended zeros.
    """
    own = as_decoder(model)
    d = own.config.embedding_dim
    if m < d:
        raise ValueError(f"m = {m} is below the model's width {d}: resize() shrinks")
    makers: dict[Growth, Callable[[], Projection]] = {
        "zeros": lambda: projections.Projection.from_matrix(np.eye(m)[:, :d]),
        "orthogonal": lambda: projections.draw("orthonormal", m, d, seed=seed, scaling="unit"),
        "gaussian": lambda: projections.draw("gaussian", m, d, seed=seed, scaling="unit"),
    }
    if how not in makers:
        raise ValueError(f"no growth {how!r}: choose one of {', '.join(makers)}")
    if fresh and own.config.placement == "sphere":
        raise ValueError("on the sphere fresh weights would change the lengths of old ones: use fresh=False")
    found = resize(own, m, projection=makers[how](), seed=seed)
    return _with_fresh_readers(found, seed) if fresh else found


def _with_fresh_readers(found: Resized, seed: int) -> Resized:
    """Random weights for what reads directions that T doesn't reach."""
    parts = _take_apart(found.model)
    T = torch.from_numpy(found.projection.matrix).to(parts.weights["embedding"])
    basis = torch.linalg.qr(T)[0]  # (m, D) orthonormal columns
    for name, array in parts.weights.items():
        if _part(name) in _READERS and array.dim() == 2:
            start = initial_value(parts.config, name, tuple(array.shape), seed).to(array)
            parts.weights[name] = array + start - (start @ basis) @ basis.T
    note = "what reads the new directions starts as in a new model"
    return Resized(parts.model(), found.projection, (*found.notes, note))


def from_scratch(model: nn.Module, m: int, seed: int) -> Decoder:
    """A new model of another width with the model's heads and hidden units, its weights random.

    Parameters
    ----------
    model : Decoder, or a language model of Hugging Face
        Whose shape is meant: give a folded one for a shape without gains.
    m : int
        Its width.
    seed : int
    """
    config = as_decoder(model).config
    head_dim = 0 if config.n_heads * config.head_width == m else config.head_width
    shape = dataclasses.replace(config, embedding_dim=m, head_dim=head_dim, norm_width=0)
    return Decoder(shape, seed=seed).to(as_decoder(model).embedding)


# --- how near two models are --------------------------------------------------------------------------


def logit_error(new: Tensor, old: Tensor) -> float:
    """|new - old| / |old - mean|, the mean over symbols, lengths over all positions, in float64.

    Parameters
    ----------
    new, old : tensor, shape (..., V)
        Logits of the same tokens.
    """
    new, old = new.detach().double(), old.detach().double()
    return float((new - old).norm() / (old - old.mean(-1, keepdim=True)).norm())
