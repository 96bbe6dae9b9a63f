"""Tensors of a model by name, and as safetensors bytes in which a tied one lies once."""

from __future__ import annotations

import difflib
import fnmatch
import json
from collections.abc import Mapping, Sequence

import numpy as np
import safetensors.torch
import torch
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
    named = {name.replace("_orig_mod.", ""): tensor for name, tensor in model.named_parameters()}
    if names is not None:
        return {name: named[name] for name in matching(list(named), names)}
    matrices: dict[str, Tensor] = {name: tensor for name, tensor in named.items() if tensor.ndim >= 2}
    if not matrices:
        raise ValueError("the model has no matrix: select_weights(model, '*') gives all of its parameters")
    return matrices


def matching(names: Sequence[str], patterns: str | Sequence[str]) -> list[str]:
    """Names that match one of the patterns, each of which must match; what is a name means itself alone.

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
        view = (tensor.device, tensor.dtype, tensor.shape, tensor.stride())
        place = (tensor.data_ptr(), tensor.is_conj(), tensor.is_neg())
        ties[name] = first.setdefault((*view, *place), name) if tensor.numel() else name
    return ties


def pack(tensors: Mapping[str, Tensor], ties: Mapping[str, str]) -> bytes:
    """Safetensors bytes; the metadata's "names" give, in their order, the name that each one lies under."""
    # cloned, since safetensors refuses two tensors in one memory, such as a matrix and its transpose
    plain = {
        name: tensor.detach().cpu().resolve_conj().resolve_neg().clone(memory_format=torch.contiguous_format)
        for name, tensor in tensors.items()
    }
    return safetensors.torch.save(plain, metadata={"names": json.dumps(ties)})


def unpack(data: bytes) -> tuple[dict[str, str], dict[str, Tensor]]:
    """Ties and tensors of :func:`pack`'s bytes."""
    header = json.loads(data[8 : 8 + int.from_bytes(data[:8], "little")])
    return json.loads(header["__metadata__"]["names"]), safetensors.torch.load(data)


def to_numpy(tensor: Tensor) -> np.ndarray:
    """The tensor's numbers; of types that NumPy lacks, bfloat16 and eight bits, as float32."""
    tensor = tensor.detach().cpu()
    lacking = tensor.dtype == torch.bfloat16 or (tensor.is_floating_point() and tensor.element_size() == 1)
    array: np.ndarray = (tensor.float() if lacking else tensor.resolve_conj().resolve_neg()).numpy()
    return array
