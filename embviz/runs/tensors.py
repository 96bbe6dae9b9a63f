"""Tensors as safetensors bytes: tied ones once, nested states with their structure."""

from __future__ import annotations

import difflib
import fnmatch
import json
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from safetensors.torch import load, save
from torch import Tensor, nn


def select_weights(model: nn.Module, names: str | Sequence[str] | None = None) -> dict[str, Tensor]:
    """A model's parameters by name: all matrices, or those that match.

    Parameters
    ----------
    model : nn.Module
        Compiled or not is the same.
    names : str or sequence of str, optional
        Names, or patterns such as ``"blocks.*.query.weight"``, each of which must match; "*" is all. What is
        a name means that parameter alone. By default all parameters with two axes or more.

    Returns
    -------
    dict of str to Tensor
        The parameters themselves, in the model's order; one with two names under the first of these.

    Examples
    --------
    >>> list(select_weights(nn.Sequential(nn.Linear(2, 3), nn.Linear(3, 2))))
    ['0.weight', '1.weight']
    """
    named: dict[str, Tensor] = {
        name.replace("_orig_mod.", ""): tensor for name, tensor in model.named_parameters()
    }
    if names is not None:
        return {name: named[name] for name in matching(list(named), names)}
    matrices = {name: tensor for name, tensor in named.items() if tensor.ndim >= 2}
    if not matrices:
        raise ValueError("the model has no matrix: select_weights(model, '*') gives all of its parameters")
    return matrices


def matching(names: Sequence[str], patterns: str | Sequence[str]) -> list[str]:
    """Names that match one of the patterns, each of which must match; ValueError says what there is.

    What is a name means itself alone, whatever it holds.

    >>> matching(["w[0]", "w0", "b"], "w[0]"), matching(["w[0]", "w0", "b"], "w*")
    (['w[0]'], ['w[0]', 'w0'])
    """
    patterns = [patterns] if isinstance(patterns, str) else patterns
    chosen: set[str] = set()
    for pattern in patterns:
        found = [pattern] if pattern in names else [n for n in names if fnmatch.fnmatchcase(n, pattern)]
        if not found:
            near = difflib.get_close_matches(pattern, names, n=3, cutoff=0.3) or names[:3]
            raise ValueError(f"no tensor is called {pattern!r}: there are {', '.join(near)}, ...")
        chosen.update(found)
    return [name for name in names if name in chosen]


def find_ties(tensors: Mapping[str, Tensor]) -> dict[str, str]:
    """For each name the first name of the same tensor: the same memory, type, shape and strides."""
    first: dict[tuple[object, ...], str] = {}
    ties = {}
    for name, tensor in tensors.items():
        dense = isinstance(tensor, Tensor) and tensor.layout == torch.strided and not tensor.is_meta
        if not (isinstance(name, str) and dense):
            raise ValueError(f"{name!r} can't be stored: give dense tensors by name, got {type(tensor)}")
        view = (tensor.device, tensor.dtype, tensor.shape, tensor.stride())
        place = (tensor.data_ptr(), tensor.is_conj(), tensor.is_neg())
        ties[name] = first.setdefault((*view, *place), name) if tensor.numel() else name
    return ties


def pack(tensors: Mapping[str, Tensor], header: Mapping[str, Any]) -> bytes:
    """Safetensors bytes; `header`, anything JSON can say, before the data.

    Raises
    ------
    ValueError
        If a tensor has a type that safetensors lacks.
    """
    plain = {
        name: tensor.detach().cpu().resolve_conj().resolve_neg().contiguous()
        for name, tensor in tensors.items()
    }
    storages = [tensor.untyped_storage().data_ptr() for tensor in plain.values()]
    # a view of another tensor's memory, such as a transpose, is content of its own in a file
    apart = {
        name: tensor.clone() if storages.count(tensor.untyped_storage().data_ptr()) > 1 else tensor
        for name, tensor in plain.items()
    }
    try:
        # one entry: several would be written in an order that varies
        return save(apart, metadata={"embviz": json.dumps(header, separators=(",", ":"))})
    except KeyError as error:
        wrong = [name for name, tensor in plain.items() if tensor.dtype in error.args]
        raise ValueError(f"{wrong} can't be stored: safetensors has no {error}") from error


def unpack(data: bytes) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """Header and tensors of :func:`pack`'s bytes."""
    size = int.from_bytes(data[:8], "little")
    return json.loads(json.loads(data[8 : 8 + size])["__metadata__"]["embviz"]), load(data)


def flatten(state: Any) -> tuple[Any, dict[str, Tensor]]:
    """A nested state as JSON without its tensors, and the tensors by number; :func:`unflatten` reverses it.

    It holds tensors, numbers, text, None, and dicts, lists and tuples of them.
    """
    tensors: dict[str, Tensor] = {}

    def encode(value: Any) -> Any:
        if isinstance(value, Tensor):
            tensors[str(len(tensors))] = value
            return {"tensor": str(len(tensors) - 1)}
        if isinstance(value, Mapping):
            return {"dict": [[scalar(key), encode(inner)] for key, inner in value.items()]}
        if isinstance(value, list | tuple):
            return {"tuple" if isinstance(value, tuple) else "list": [encode(inner) for inner in value]}
        return scalar(value)

    def scalar(value: Any) -> Any:
        if value is None or isinstance(value, bool | int | float | str):
            return value
        raise ValueError(f"a state holds tensors, numbers and text, not {value!r}: convert it")

    return encode(state), tensors


def unflatten(encoded: Any, tensors: Mapping[str, Tensor]) -> Any:
    """The state of :func:`flatten`; tensors that were tied share one tensor again."""
    if not isinstance(encoded, dict):
        return encoded
    ((kind, value),) = encoded.items()
    if kind == "tensor":
        return tensors[value]
    if kind == "dict":
        return {key: unflatten(inner, tensors) for key, inner in value}
    return (tuple if kind == "tuple" else list)(unflatten(inner, tensors) for inner in value)
