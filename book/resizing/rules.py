"""A trained decoder carried to another width of its residual stream, by the paper's rules or by exact ones.

A map T (m x D) sends the stream x to T x. What writes to the stream (embeddings, positions, the maps out of
attention and MLP) is multiplied by T; what reads it (queries, keys, values, the map into the MLP, the head)
by T+, its pseudo-inverse. Which axis of which array that concerns is known by its role, never by its size.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np
import torch
from torch import Tensor

from book.resizing.decoder import Decoder, DecoderConfig, initial_value, unit, with_weights
from embviz import projections
from embviz.projections import Projection

AttentionRule = Literal["kept", "within", "plain"]
GainRule = Literal["fold", "drop", "one", "project", "dense"]
CenteringRule = Literal["fold", "keep"]
Reading = Literal["inverse", "written"]
MLPRule = Literal["kept", "plain"]
Growth = Literal["zeros", "orthogonal", "gaussian"]
Role = Literal["vocabulary", "position", "residual", "head", "hidden"]
Flow = Literal["write", "read"]


@dataclass(frozen=True, eq=False)
class Resized:
    """A model after a map of its residual stream."""

    model: Decoder
    projection: Projection  # T


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
    "down": ("residual", "hidden"),
    "mlp scales": ("hidden",),
}
_NORMS = ("before", "after", "steps", "norm")
_READERS = ("attention.query", "attention.key", "attention.value", "up", "free_head")


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


def _flows(name: str, array: Tensor) -> list[tuple[int, Flow]]:
    """Axes of a parameter that lie along the residual stream, and whether they write to it or read it.

    A vector of gains counts as written: that is how a program carries it that projects it like any other.
    """
    part = _part(name)
    if part in _NORMS:
        both: list[tuple[int, Flow]] = [(0, "write"), (1, "read")]
        return both[: array.dim()]
    flow: Flow = "read" if part in _READERS else "write"
    return [(axis, flow) for axis, role in enumerate(_roles(name, array)) if role == "residual"]


# --- folding ------------------------------------------------------------------------------------------


@dataclass
class _Parts:
    """A model taken apart: what the rules change one after the other, in float64."""

    config: DecoderConfig
    weights: dict[str, Tensor]
    dtype: torch.dtype  # that of the model, which the result gets again

    @classmethod
    def of(cls, model: Decoder) -> _Parts:
        weights = {name: array.detach().double() for name, array in model.state_dict().items()}
        if model.config.placement == "sphere":
            for name in weights:  # the vectors that the forward pass makes of the parameters
                for axis, _flow in _flows(name, weights[name]):
                    if _part(name) not in (*_NORMS, "position"):
                        weights[name] = unit(weights[name], axis)
        return cls(model.config, weights, model.embedding.dtype)

    def change(self, **options: Any) -> None:
        """Other options of the shape."""
        self.config = dataclasses.replace(self.config, **options)

    def free_head(self) -> None:
        """Untie a model: its output embedding becomes a copy of its input embedding."""
        if self.config.tied:
            self.change(tied=False)
            self.weights["free_head"] = self.weights["embedding"].clone()

    def reading_norms(self) -> list[tuple[str, list[str]]]:
        """Norms that read the stream, with the arrays that read them: "blocks.1.before.0" or "norm"."""
        if self.config.placement == "sphere":
            return []
        parts = (("attention.query", "attention.key", "attention.value"), ("up",))
        found = [
            (f"blocks.{layer}.before.{index}", [f"blocks.{layer}.{name}.weight" for name in part])
            for layer in range(self.config.n_layers)
            for index, part in enumerate(parts)
        ]
        return [*found, ("norm", ["embedding" if self.config.tied else "free_head"])]

    def model(self) -> Decoder:
        """Put together again."""
        return with_weights(self.config, {name: array.to(self.dtype) for name, array in self.weights.items()})


def fold(model: Decoder) -> Decoder:
    """The same function without what belongs to a basis of the residual stream.

    LayerNorm becomes RMSNorm: its centering is folded into what writes to the stream. Gains and biases of
    norms that read are folded into the maps that read them. What remains commutes with every rotation of the
    stream.
    """
    parts = _Parts.of(model)
    _fold_norm_biases(parts)
    _fold_gains(parts)
    _fold_centering(parts)
    return parts.model()


def _fold_norm_biases(parts: _Parts) -> None:
    """Move the biases of norms into the biases of the layers that follow."""
    if not parts.config.norm_biases:
        return
    weights = parts.weights
    parts.change(biases=True, head_bias=True, norm_biases=False)
    for name, array in Decoder(parts.config, seed=0).state_dict().items():
        if name.endswith("bias") and name not in weights:
            weights[name] = torch.zeros_like(array).to(weights["embedding"])
    for norm, readers in parts.reading_norms():
        bias = weights.pop(f"{norm}.bias")
        for reader in readers:
            name = "head_bias" if norm == "norm" else reader.replace("weight", "bias")
            weights[name] = weights[name] + weights[reader] @ bias


def _fold_gains(parts: _Parts) -> None:
    """Gains of the norms that read into their readers, for biases of norms that are folded already."""
    if parts.config.gains not in ("each", "dense"):
        return
    parts.free_head()  # the last norm's gains are folded into the head alone
    for norm, readers in parts.reading_norms():
        gain = parts.weights.pop(f"{norm}.weight")
        for reader in readers:
            array = parts.weights[reader]
            parts.weights[reader] = array @ gain if gain.dim() == 2 else array * gain
    parts.change(gains="none")


def _fold_centering(parts: _Parts) -> None:
    """LayerNorm as RMSNorm of a stream whose mean over dimensions is 0 from the start."""
    config, weights = parts.config, parts.weights
    if config.norm != "layer":
        return
    if config.gains in ("each", "dense") or config.norm_biases:
        parts.free_head()  # it reads a stream of another mean than 0
    for name, array in weights.items():
        if _part(name) in ("embedding", "position", "attention.out", "down"):
            for axis, _flow in _flows(name, array):
                weights[name] = array - array.mean(axis, keepdim=True)
    parts.change(norm="rms")


def _treat_gains(parts: _Parts, rule: GainRule) -> None:
    """Vectors of gains by a rule; one number for all dimensions commutes, and stays under each."""
    if rule == "fold":
        _fold_norm_biases(parts)
        _fold_gains(parts)
        return
    if rule == "project" or parts.config.gains != "each":
        return
    for norm, _readers in parts.reading_norms():
        gain = parts.weights.pop(f"{norm}.weight")
        if rule != "drop":
            parts.weights[f"{norm}.weight"] = gain.mean() if rule == "one" else torch.diag(gain)
    parts.change(gains="none" if rule == "drop" else rule)


# --- carrying -----------------------------------------------------------------------------------------


def resize(
    model: Decoder,
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
    model : Decoder
        Not changed. Products are made in float64; the result has the model's type.
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
    reading : "inverse" or "written"
        "inverse": T writes, T+ reads. "written": the text's formulas by the letter, whose maps of the MLP
        have T' and T+ the other way round. Equal for orthonormal rows of unit length.
    mlp : "kept" or "plain"
        "plain": hidden units are mapped too, to m / D of their number, by a map of their own.
    energy : float, optional
        |T x|^2 / |x|^2 of the stream: norms divide by so much less, to give T x the length that x had. By
        default what a random map keeps on average, m / D for rows of unit length.

    Source
    ------
    The resizing paper, section 4.1 and Algorithm 1: its own reading is attention="plain", reading="written",
    gains="drop" or "one", centering="keep".
    """
    rules = (attention, gains, centering, reading, mlp)
    for rule, known in zip(rules, (AttentionRule, GainRule, CenteringRule, Reading, MLPRule), strict=True):
        if rule not in get_args(known):
            raise ValueError(f"no rule {rule!r}: choose one of {', '.join(get_args(known))}")
    parts, head_width = _Parts.of(model), model.config.head_width
    d = parts.config.embedding_dim
    if attention != "kept":
        if m % parts.config.n_heads:
            raise ValueError(f"m = {m} can't be divided among {parts.config.n_heads} heads: keep them")
        head_width = m // parts.config.n_heads
    if parts.config.placement == "sphere" and (attention, mlp) != ("kept", "kept"):
        raise ValueError("on the sphere each coordinate of heads and each hidden unit has a scale: keep them")
    if isinstance(projection, str):
        projection = projections.draw(projection, m, d, seed=seed, scaling="unit")
    if projection.shape != (m, d):
        raise ValueError(f"T is {projection.shape[0]} x {projection.shape[1]}, and must be {m} x {d}")
    inverse = projection.pseudo_inverse()  # refuses a T without full rank
    _treat_gains(parts, gains)
    if centering == "fold":
        _fold_centering(parts)
    if not np.allclose(inverse, projection.matrix.T, rtol=0, atol=1e-9):
        parts.free_head()  # what reads is multiplied by T+, which is not T'
    T, plus = _tensor(projection.matrix), _tensor(inverse.T)  # (m, D) both
    if attention != "kept":
        _carry_heads(parts, T, plus, head_width, attention, seed)
    if mlp == "plain":
        _carry_hidden(parts, m, seed)
    for name, array in parts.weights.items():
        for axis, flow in _flows(name, array):
            array = _along(array, axis, T if _writes(name, array, flow, reading) else plus)
        parts.weights[name] = array
    _set_width(parts, m, energy or projection.scale**2 * min(m, d) / d, head_width)
    return Resized(parts.model(), projection)


def _writes(name: str, array: Tensor, flow: Flow, reading: Reading) -> bool:
    """Whether an axis along the stream is multiplied by T, and not by T+."""
    if reading == "written" and array.dim() == 2 and _part(name) in ("up", "down"):
        return _part(name) == "up"  # as the text prints the maps of the MLP
    return flow == "write"


def _tensor(matrix: np.ndarray) -> Tensor:
    return torch.from_numpy(np.ascontiguousarray(matrix))


def _along(array: Tensor, axis: int, matrix: Tensor) -> Tensor:
    """array with an axis (n,) multiplied by a matrix (k, n)."""
    return torch.tensordot(matrix, array, dims=([1], [axis])).movedim(0, axis)


def _carry_heads(
    parts: _Parts, T: Tensor, plus: Tensor, head_width: int, rule: AttentionRule, seed: int
) -> None:
    """Coordinates of queries, keys and values: all by T, or each head's by another map."""
    config = parts.config
    for layer in range(config.n_layers):
        if rule == "within":
            own = [
                projections.draw(
                    "orthonormal", head_width, config.head_width, seed=[seed, layer, head], scaling="unit"
                )
                for head in range(config.n_heads)
            ]
            T = torch.block_diag(*(_tensor(one.matrix) for one in own))
            plus = torch.block_diag(*(_tensor(one.pseudo_inverse().T) for one in own))
        _carry_role(parts, f"blocks.{layer}.", "head", T, plus)


def _carry_hidden(parts: _Parts, m: int, seed: int) -> None:
    """Hidden units of the MLPs."""
    old = parts.config.mlp_dim
    new = max(1, round(old * m / parts.config.embedding_dim))
    for layer in range(parts.config.n_layers):
        drawn = projections.draw("orthonormal", new, old, seed=[seed, layer, 1 << 20], scaling="unit")
        maps = _tensor(drawn.matrix), _tensor(drawn.pseudo_inverse().T)
        _carry_role(parts, f"blocks.{layer}.", "hidden", *maps)
    parts.change(mlp_dim=new)


def _carry_role(parts: _Parts, start: str, role: Role, write: Tensor, read: Tensor) -> None:
    """Axes of a role within a layer: written by the maps in, read by the maps out."""
    for name, array in parts.weights.items():
        for axis, own in enumerate(_roles(name, array)):
            if own == role and name.startswith(start):
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
    parts.change(
        embedding_dim=m,
        head_dim=0 if old.n_heads * head_width == m else head_width,
        norm_width=0 if divisor == m else divisor,
        attention_scale=old.attention_scale * math.sqrt(old.head_width / head_width),
    )


# --- other ways to another width ----------------------------------------------------------------------


def truncate(model: Decoder, dims: Sequence[int]) -> Resized:
    """Keep some dimensions of the residual stream: nothing is mixed.

    Gains stay with their dimensions; centering is over those that are left.
    """
    T = Projection.from_matrix(np.eye(model.config.embedding_dim)[list(dims)])
    return resize(model, len(dims), projection=T, gains="project", centering="keep")


def pca_slice(model: Decoder, m: int, states: np.ndarray) -> Resized:
    """Keep the m leading principal directions of hidden states, everything folded first.

    Directions are those of the states' unit vectors: a norm takes their length away before they are read.

    Parameters
    ----------
    model : Decoder
    m : int, 1 to D
    states : array, shape (n, D)
        Hidden states of the model itself; where it has LayerNorm they are centered here.
    """
    if model.config.norm == "layer":
        states = states - states.mean(axis=1, keepdims=True)
    lengths = np.linalg.norm(states, axis=1, keepdims=True)
    states = states / np.where(lengths > 0, lengths, 1.0)
    projection = projections.pca(states, m)
    energy = float((projection.apply(states) ** 2).sum() / (states**2).sum())
    return resize(model, m, projection=projection, energy=energy)


def grow(
    model: Decoder, m: int, how: Growth = "orthogonal", seed: int = 0, *, fresh: bool = False
) -> Resized:
    """Widen the residual stream, everything folded first.

    Parameters
    ----------
    model : Decoder
    m : int
        At least the model's width.
    how : "zeros", "orthogonal" or "gaussian"
        Zeros appended, or T with orthonormal columns: logits stay the same. Gaussian columns: they don't, for
        lengths change, and norms see them.
    seed : int
        Of T, and of fresh weights.
    fresh : bool
        Let what reads the new directions start as it does in a new model: nothing writes there yet, so logits
        stay the same. Without this no gradient reaches weights of appended zeros. Not for the sphere, where
        fresh weights would change the lengths of old ones.
    """
    d = model.config.embedding_dim
    makers: dict[Growth, Callable[[], Projection]] = {
        "zeros": lambda: Projection.from_matrix(np.eye(m)[:, :d]),
        "orthogonal": lambda: projections.draw("orthonormal", m, d, seed=seed, scaling="unit"),
        "gaussian": lambda: projections.draw("gaussian", m, d, seed=seed, scaling="unit"),
    }
    found = resize(model, m, projection=makers[how](), seed=seed)
    if not fresh:
        return found
    parts = _Parts.of(found.model)
    basis = torch.linalg.qr(_tensor(found.projection.matrix))[0]  # (m, D): what T reaches
    for name, array in parts.weights.items():
        if _part(name) in _READERS and array.dim() == 2:
            start = initial_value(parts.config, name, tuple(array.shape), seed).to(array)
            parts.weights[name] = array + start - (start @ basis) @ basis.T
    return Resized(parts.model(), found.projection)


def from_scratch(model: Decoder, m: int, seed: int) -> Decoder:
    """A new model of width m with the model's heads and hidden units, its weights random.

    For a shape without gains give a folded model.
    """
    config = model.config
    head_dim = 0 if config.n_heads * config.head_width == m else config.head_width
    shape = dataclasses.replace(config, embedding_dim=m, head_dim=head_dim, norm_width=0)
    return Decoder(shape, seed=seed).to(model.embedding)


def logit_error(new: Tensor, old: Tensor) -> float:
    """|new - old| / |old - mean|, the mean over symbols, lengths over all positions, in float64.

    Parameters
    ----------
    new, old : tensor, shape (..., V)
        Logits of the same tokens.
    """
    new, old = new.detach().double(), old.detach().double()
    return float((new - old).norm() / (old - old.mean(-1, keepdim=True)).norm())
