"""Weights of any model, an array at a time: modules, folders of Hugging Face, safetensors, llama2.c, PyTorch.

Nothing is read before it is asked for, and rows of a large table without the others. No pickle runs code.
"""

from __future__ import annotations

import json
import math
import os
import struct
import zipfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor, nn

from embviz.arrays import checked

LLAMA2C_VERSION_1 = 0x616B3432  # "ak42"
WRAPPERS = ("_orig_mod.", "module.")  # of torch.compile, of DataParallel


@dataclass(frozen=True, eq=False)
class StoredArray:
    """An array that is read when it is asked for.

    Parameters
    ----------
    shape : tuple of int
    load : function of rows (sorted numbers, or None for all) that returns the float32 array
    key : object
        Equal for two names of one array in memory.
    """

    shape: tuple[int, ...]
    load: Callable[[np.ndarray | None], np.ndarray]
    key: object = None

    def read(self, rows: np.ndarray | None = None) -> np.ndarray:
        """All of it or some rows, float32."""
        if rows is not None:
            rows = checked(rows, "rows", 1, kind="integer", low=0, high=self.shape[0] - 1)
        return np.asarray(self.load(rows), dtype=np.float32)


@dataclass(frozen=True, eq=False)
class Weights:
    """Arrays of a model by name, with what its configuration says.

    Parameters
    ----------
    name : str
        Of the model, for titles.
    arrays : dict of str to StoredArray
        Floating numbers only; prefixes of torch.compile and DataParallel are taken off.
    config : dict
        Of Hugging Face or llama2.c, empty where there is none.
    module : nn.Module, optional
        The model itself, where it was one.
    """

    name: str
    arrays: dict[str, StoredArray]
    config: dict[str, Any] = field(default_factory=dict)
    module: nn.Module | None = None


def read_weights(source: Any) -> Weights:
    """The arrays of a model.

    Parameters
    ----------
    source : nn.Module, mapping of names to arrays, or path
        A module of any kind, compiled or not; a folder of Hugging Face (safetensors, in one file or in
        shards, or pytorch_model.bin); a file: safetensors, llama2.c's .bin (float32), a state_dict.

    Raises
    ------
    ValueError
        If a module's weights are on the meta device, or the file is of no such kind, damaged or a pickle of
        more than weights.
    FileNotFoundError
        If there is no such file, or no weights in the folder.

    Examples
    --------
    >>> weights = read_weights({"wte.weight": np.eye(3)})
    >>> weights.arrays["wte.weight"].read(np.array([1])).tolist()
    [[0.0, 1.0, 0.0]]
    """
    if isinstance(source, Weights):
        return source
    if isinstance(source, nn.Module):
        return _of_module(source)
    if isinstance(source, Mapping):
        return Weights("weights", _of_mapping(source))
    if not isinstance(source, str | os.PathLike):
        raise ValueError(f"a {type(source).__name__} is no model: give a module, a dict of arrays, or a path")
    path = Path(source)
    if path.is_dir():
        return _of_folder(path)
    if not path.is_file():
        raise FileNotFoundError(f"there is no file or folder {path}; models are read from disk alone")
    if path.suffix == ".safetensors":
        return Weights(path.stem, _of_safetensors(path))
    return _of_llama2c(path) or Weights(path.stem, _of_mapping(_state_dict(path)))


def read_tokenizer(source: str | os.PathLike[str]) -> Any:
    """The tokenizer beside a model's files (tokenizer.json, of Hugging Face), or None.

    Parameters
    ----------
    source : path
        The model's folder, or a file in it.

    Raises
    ------
    ValueError
        If there is one that cannot be read.
    """
    folder = Path(source) if Path(source).is_dir() else Path(source).parent
    if not (file := folder / "tokenizer.json").is_file():
        return None
    from tokenizers import Tokenizer

    try:
        return Tokenizer.from_file(str(file))
    except Exception as error:  # the library raises no other kind
        raise ValueError(f"{file} is no tokenizer that can be read ({error})") from error


def plain_name(name: str) -> str:
    """A parameter's name without what wrappers put before it.

    >>> plain_name("_orig_mod.module.h.0.weight")
    'h.0.weight'
    """
    while name.startswith(WRAPPERS):
        name = name.partition(".")[2]
    return name


def _of_tensor(tensor: Tensor) -> StoredArray:
    def load(rows: np.ndarray | None) -> np.ndarray:
        part = tensor.detach()
        part = part if rows is None else part[torch.from_numpy(rows).to(part.device)]
        found: np.ndarray = part.float().cpu().numpy()
        return found

    return StoredArray(tuple(tensor.shape), load, (tensor.data_ptr(), tuple(tensor.shape)))


def _of_module(module: nn.Module) -> Weights:
    module = getattr(module, "_orig_mod", module)
    named = {plain_name(key): value for key, value in module.named_parameters(remove_duplicate=False)}
    if any(tensor.is_meta for tensor in named.values()):
        raise ValueError(
            f"weights of the {type(module).__name__} are on the meta device, where there are no numbers: "
            "load them first (to_empty and load_state_dict, or from_pretrained without device_map='meta')"
        )
    config: Any = getattr(module, "config", None)
    options = config.to_dict() if hasattr(config, "to_dict") else vars(config) if config is not None else {}
    arrays = {name: _of_tensor(value) for name, value in named.items() if value.is_floating_point()}
    return Weights(type(module).__name__, arrays, dict(options), module)


def _of_mapping(source: Mapping[str, Any]) -> dict[str, StoredArray]:
    found = {}
    for name, value in source.items():
        if not isinstance(value, Tensor):
            value = torch.from_numpy(np.ascontiguousarray(checked(value, name, kind="floating")))
        if value.is_meta:
            raise ValueError(f"{name} is on the meta device, where there are no numbers: load it first")
        if value.is_floating_point():
            found[plain_name(name)] = _of_tensor(value)
    return found


# --- files ------------------------------------------------------------------------------------------


def _of_folder(folder: Path) -> Weights:
    config = folder / "config.json"
    options = json.loads(config.read_text(encoding="utf-8")) if config.is_file() else {}
    index = folder / "model.safetensors.index.json"
    if index.is_file():
        parts = sorted(set(json.loads(index.read_text(encoding="utf-8"))["weight_map"].values()))
        files = [folder / part for part in parts]
        if missing := [file.name for file in files if not file.is_file()]:
            raise FileNotFoundError(f"{folder} lacks {', '.join(missing)}, which its index names")
    else:
        files = sorted(folder.glob("*.safetensors"))
    if files:
        arrays: dict[str, StoredArray] = {}
        for file in files:
            arrays |= _of_safetensors(file)
    elif (file := folder / "pytorch_model.bin").is_file():
        arrays = _of_mapping(_state_dict(file))
    else:
        raise FileNotFoundError(f"{folder} has neither *.safetensors nor pytorch_model.bin")
    return Weights(folder.resolve().name, arrays, options)


def _of_safetensors(path: Path) -> dict[str, StoredArray]:
    try:
        file = safe_open(path, framework="pt")
        slices = {name: file.get_slice(name) for name in file.keys()}  # noqa: SIM118
    except SafetensorError as error:
        raise ValueError(f"{path} is not a whole safetensors file ({error})") from error

    def loader(part: Any) -> Callable[[np.ndarray | None], np.ndarray]:
        def load(rows: np.ndarray | None) -> np.ndarray:
            whole = part[:] if rows is None else torch.cat([part[row : row + 1] for row in rows.tolist()])
            found: np.ndarray = whole.float().numpy()
            return found

        return load

    return {
        plain_name(name): StoredArray(tuple(part.get_shape()), loader(part))
        for name, part in slices.items()
        if part.get_dtype() in ("F64", "F32", "F16", "BF16")
    }


def _state_dict(path: Path) -> Mapping[str, Any]:
    """A PyTorch file of weights alone; inside of "state_dict" or "model", where training loops put them."""
    try:
        lazily = zipfile.is_zipfile(path)  # all but the format of before PyTorch 1.6
        found = torch.load(path, map_location="cpu", weights_only=True, mmap=lazily)
    except Exception as error:  # pickle's, zip's and PyTorch's own, of many kinds
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise ValueError(
            f"{path} is neither llama2.c's float32 format nor a PyTorch file of weights alone ({reason}): "
            "save model.state_dict(), or safetensors"
        ) from error
    for inner in ("state_dict", "model"):
        if isinstance(found, Mapping) and isinstance(found.get(inner), Mapping):
            found = found[inner]
    if not isinstance(found, Mapping):
        raise ValueError(f"{path} holds a {type(found).__name__}: save model.state_dict()")
    return {name: value for name, value in found.items() if isinstance(value, Tensor)}


# --- llama2.c -----------------------------------------------------------------------------------------


def _of_llama2c(path: Path) -> Weights | None:
    """A model of llama2.c, version 0 (no magic number) or 1; None if its size does not fit."""
    with open(path, "rb") as file:
        head = file.read(256)
    if len(head) < 28:
        return None
    magic, version = struct.unpack("<Ii", head[:8])
    if magic == LLAMA2C_VERSION_1:
        if version != 1:
            raise ValueError(f"{path} is llama2.c's version {version}, whose weights are rounded: export 1")
        numbers, shared, start = struct.unpack("<7i", head[8:36]), bool(head[36]), 256
    else:
        numbers, start = struct.unpack("<7i", head[:28]), 28
        shared = numbers[5] > 0
    dim, hidden, n_layers, n_heads, n_kv, vocab, length = numbers
    if min(dim, hidden, n_layers, n_heads, n_kv, abs(vocab), length) < 1 or dim % n_heads:
        return None
    sizes = (dim, hidden, n_layers, n_kv * (dim // n_heads), abs(vocab))
    arrays, n_bytes = _llama2c_arrays(path, start, sizes, shared, length * (dim // n_heads), start == 256)
    if n_bytes != path.stat().st_size:
        if start == 256:
            raise ValueError(
                f"{path} has {path.stat().st_size} bytes, its header asks for {n_bytes}: damaged"
            )
        return None
    config = {"num_attention_heads": n_heads, "num_key_value_heads": n_kv, "tie_word_embeddings": shared}
    return Weights(path.stem, arrays, config)


def _llama2c_arrays(
    path: Path, start: int, sizes: tuple[int, ...], shared: bool, n_rotary: int, norms_first: bool
) -> tuple[dict[str, StoredArray], int]:
    """Arrays with their places in the file, and the bytes that it must have."""
    dim, hidden, n_layers, kv, vocab = sizes
    shapes = {
        "attention_norm": (dim,), "wq": (dim, dim), "wk": (kv, dim), "wv": (kv, dim), "wo": (dim, dim),
        "ffn_norm": (dim,), "w1": (hidden, dim), "w2": (dim, hidden), "w3": (hidden, dim),
    }  # fmt: skip
    order = [
        (f"layers.{layer}.{name}.weight", shape)
        for name, shape in shapes.items()
        for layer in range(n_layers)
    ]
    tables = [("tok_embeddings.weight", (vocab, dim))]
    if norms_first:
        norms = [item for item in order if "norm" in item[0]]
        maps = [item for item in order if "norm" not in item[0]]
        order = [*norms, ("norm.weight", (dim,)), *tables, *maps]
    else:
        order = [*tables, *order, ("norm.weight", (dim,)), ("rotary", (n_rotary,))]
    if not shared:
        order.append(("output.weight", (vocab, dim)))
    found, place = {}, start
    for name, shape in order:
        found[name] = _of_bytes(path, place, shape)
        place += 4 * math.prod(shape)
    found.pop("rotary", None)
    return found, place


def _of_bytes(path: Path, place: int, shape: tuple[int, ...]) -> StoredArray:
    def load(rows: np.ndarray | None) -> np.ndarray:
        table = np.memmap(path, dtype="<f4", mode="r", offset=place, shape=shape)
        return np.array(table if rows is None else table[rows])

    return StoredArray(shape, load)
