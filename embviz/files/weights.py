"""Weights of any model, an array at a time: modules, folders of Hugging Face, safetensors, GGUF, PyTorch.

Nothing is read before it is asked for, and rows of a large table without the others. No pickle runs code.
"""

from __future__ import annotations

import contextlib
import functools
import json
import os
import re
import zipfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor, nn

from embviz.arrays import check_array
from embviz.corpora.registry import resolve_path
from embviz.files.gguf import MAGIC, read_gguf

WRAPPERS = ("_orig_mod.", "module.")  # of torch.compile, of DataParallel
NESTS = ("state_dict", "model_state_dict", "model", "module", "net")  # where training loops put the weights
READ_AS_FLOAT = ("F64", "F32", "F16", "BF16", "F8_E4M3", "F8_E5M2")  # safetensors' names of types
SCALES = ("_scale", "_scale_inv")  # after the name of a matrix in 8 bits: what multiplies it
LARGEST_CONFIG = 1 << 24  # bytes of a configuration or index
SHARD = re.compile(r"-\d+-of-\d+\.(safetensors|bin)$")


@dataclass(frozen=True, eq=False)
class StoredArray:
    """An array that is read when it is asked for."""

    shape: tuple[int, ...]
    load: Callable[[np.ndarray | None], np.ndarray]  # of sorted rows, or None for all: float32
    key: object = None  # equal for two names of one array in memory

    def read(self, rows: np.ndarray | None = None) -> np.ndarray:
        """All of it or some rows, in rising order, float32."""
        if rows is not None:
            rows = check_array(rows, "rows", 1, kind="integer", low=0, high=self.shape[0] - 1)
            if (np.diff(rows) <= 0).any():
                raise ValueError("the numbers of the rows do not rise: sort them, each once")
        return np.asarray(self.load(rows), dtype=np.float32)


@dataclass(frozen=True, eq=False)
class Weights:
    """Arrays of a model by name, with what its configuration says."""

    name: str  # of the model, for titles
    arrays: dict[str, StoredArray]  # floating numbers; prefixes of torch.compile and DataParallel are off
    config: dict[str, Any] = field(default_factory=dict)  # by Hugging Face's names, empty where there is none
    module: nn.Module | None = None  # the model itself, where it was one
    left_out: dict[str, str] = field(default_factory=dict)  # arrays that are not read, with their types


def weights_of(source: Any) -> Weights:
    """The arrays of a module, of a mapping of names to arrays, or of the files of a model.

    Parameters and errors are those of :func:`embviz.inspection.weight_files.read_weights`, which takes word
    vectors too.
    """
    if isinstance(source, Weights):
        return source
    if isinstance(source, nn.Module):
        return _of_module(source)
    if isinstance(source, Mapping):
        return Weights("weights", *_of_mapping(source))
    if not isinstance(source, str | os.PathLike):
        raise ValueError(f"a {type(source).__name__} is no model: give a module, a dict of arrays, or a path")
    path = resolve_path(source)
    if path.is_dir():
        return replace(_of_folder(path), name=name_of(source, path.resolve().name))
    if not path.is_file():
        raise FileNotFoundError(
            f"there is no file or folder {path}; models are read from disk alone, and `embviz data list` has "
            "the names of those that can be fetched"
        )
    return replace(_of_file(path), name=name_of(source, path.stem))


def name_of(source: str | os.PathLike[str], otherwise: str) -> str:
    """The name of a released model as it was given, or the name of its file."""
    return otherwise if os.path.exists(source) else os.fspath(source)


def first_bytes(path: Path, n: int = 32) -> bytes:
    """How a file begins; nothing of a folder, or where there is none."""
    if not path.is_file():
        return b""
    with open(path, "rb") as file:
        return file.read(n)


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
    others = {name: str(value.dtype) for name, value in named.items() if name not in arrays}
    return Weights(type(module).__name__, arrays, dict(options), module, others)


def _of_mapping(
    source: Mapping[str, Any],
) -> tuple[dict[str, StoredArray], dict[str, Any], None, dict[str, str]]:
    """Fields of a `Weights` after its name."""
    found: dict[str, StoredArray] = {}
    left_out: dict[str, str] = {}
    for key, value in source.items():
        name = str(key)
        if not isinstance(value, Tensor):
            array = np.asarray(value)
            if array.dtype.kind != "f":
                left_out[name] = str(array.dtype)
                continue
            value = torch.from_numpy(np.ascontiguousarray(check_array(value, name, kind="floating")))
        if value.is_meta:
            raise ValueError(f"{name} is on the meta device, where there are no numbers: load it first")
        if value.is_floating_point() and value.layout == torch.strided:
            found[plain_name(name)] = _of_tensor(value)
        else:
            kind = value.dtype if value.layout == torch.strided else value.layout
            left_out[plain_name(name)] = str(kind).removeprefix("torch.")
    return found, {}, None, left_out


# --- files ------------------------------------------------------------------------------------------


def _of_file(path: Path) -> Weights:
    first = first_bytes(path)
    _refuse_foreign(path, first)
    if path.suffix == ".safetensors":
        return _of_safetensors([path], path.stem)
    if first.startswith(MAGIC):
        return _of_gguf(path)
    if first.startswith(b"\x93NUMPY"):
        return Weights(path.stem, {"embedding.weight": _of_npy(path)})
    if path.suffix == ".npz":
        with open(path, "rb") as file, _numpy_read(path), np.load(file, allow_pickle=False) as packed:
            arrays = {name: packed[name] for name in packed.files}
        return Weights(path.stem, *_of_mapping(arrays))
    return Weights(path.stem, *_of_mapping(_state_dict(path)))


def _refuse_foreign(path: Path, first: bytes) -> None:
    """Say what to do with files that hold weights in a form that is not read."""
    if first.startswith(b"version https://git-lfs"):
        raise ValueError(f"{path} is a Git LFS pointer, not the file itself: run `git lfs pull`")
    if path.suffix == ".onnx":
        raise ValueError(f"{path} is an ONNX graph, which is not read: give the model that it was made from")


def _of_gguf(path: Path) -> Weights:
    found = read_gguf(path)
    arrays: dict[str, StoredArray] = {}
    left_out: dict[str, str] = {}
    for name, tensor in found.tensors.items():
        if found.is_known(name):
            arrays[name] = StoredArray(tensor.shape, functools.partial(found.read, name))
        else:
            left_out[name] = found.kind_of(name)
    return Weights(path.stem, arrays, found.config, None, left_out)


@contextlib.contextmanager
def _numpy_read(path: Path) -> Iterator[None]:
    """What NumPy says of a file that it cannot read, with the file's name."""
    try:
        yield
    except (ValueError, EOFError, zipfile.BadZipFile) as error:
        raise ValueError(f"{path} is cut short, or holds no plain numbers ({error})") from error


def _of_npy(path: Path) -> StoredArray:
    with _numpy_read(path):
        table = np.load(path, mmap_mode="r", allow_pickle=False)
    if table.ndim != 2 or table.dtype.kind != "f":
        raise ValueError(f"{path} holds {table.dtype} of shape {table.shape}: a matrix of floats is needed")
    return StoredArray(table.shape, lambda rows: np.array(table if rows is None else table[rows], np.float32))


def _object(path: Path) -> dict[str, Any]:
    """A JSON object from a file of bounded size."""
    if path.stat().st_size > LARGEST_CONFIG:
        raise ValueError(f"{path} has {path.stat().st_size:,} bytes: it is no configuration")
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{path} is not valid JSON ({type(error).__name__}): get it again") from error
    if not isinstance(found, dict):
        raise ValueError(f"{path} holds a {type(found).__name__}, where an object is needed: get it again")
    return found


def _of_folder(folder: Path) -> Weights:
    config = folder / "config.json"
    options = _object(config) if config.is_file() else {}
    files = _files_of(folder)
    for file in files:
        _refuse_foreign(file, first_bytes(file))
    name = folder.resolve().name
    if files[0].suffix == ".safetensors":
        return replace(_of_safetensors(files, name), config=options)
    tensors: dict[str, Any] = {}
    for file in files:
        part = _state_dict(file)
        if twice := tensors.keys() & part.keys():
            raise ValueError(f"{min(twice)} is in two files of {folder}: name the one file that is meant")
        tensors |= part
    return replace(Weights(name, *_of_mapping(tensors)), config=options)


def _files_of(folder: Path) -> list[Path]:
    """The files of a folder's one model: in its index, of the usual name, or the only one there."""
    for index in ("model.safetensors.index.json", "pytorch_model.bin.index.json"):
        if (folder / index).is_file():
            return _indexed(folder / index)
    for usual in (
        "model.safetensors",
        "pytorch_model.bin",
        "consolidated.safetensors",
        "consolidated.00.pth",
    ):
        if (folder / usual).is_file():
            if usual.endswith("pth") and (folder / "consolidated.01.pth").is_file():
                raise ValueError(
                    f"{folder} holds slices of each matrix (consolidated.*.pth): merge them first"
                )
            return [folder / usual]
    if (folder / "adapter_config.json").is_file() or list(folder.glob("adapter_model.*")):
        raise ValueError(
            f"{folder} holds an adapter (LoRA), not a model: merge it into its model "
            "(peft: merge_and_unload) and save that"
        )
    found = sorted([*folder.glob("*.safetensors"), *folder.glob("*.bin"), *folder.glob("*.pth")])
    if not found:
        raise FileNotFoundError(
            f"{folder} has no weights: no *.safetensors, *.bin or *.pth (it has "
            f"{', '.join(sorted(file.name for file in folder.iterdir())[:6]) or 'nothing'})"
        )
    if len(found) > 1 and not all(SHARD.search(file.name) for file in found):
        names = ", ".join(file.name for file in found[:6])
        raise ValueError(f"{folder} has several files of weights ({names}): name the one that is meant")
    return found


def _indexed(index: Path) -> list[Path]:
    """The files that an index names, all of its own folder."""
    places = _object(index).get("weight_map")
    if not isinstance(places, dict) or not all(isinstance(part, str) for part in places.values()):
        raise ValueError(f"{index} has no weight_map of names to files: get it again")
    parts = sorted(set(places.values()))
    if outside := [part for part in parts if Path(part).name != part]:
        raise ValueError(f"{index} names {outside[0]!r}, which is not in its folder: it is not followed")
    if missing := [part for part in parts if not (index.parent / part).is_file()]:
        raise FileNotFoundError(f"{index.parent} lacks {', '.join(missing)}, which its index names")
    return [index.parent / part for part in parts]


def _of_safetensors(paths: Sequence[Path], name: str) -> Weights:
    arrays: dict[str, StoredArray] = {}
    left_out: dict[str, str] = {}
    for path in paths:
        slices = _slices(path)
        for key, part in slices.items():
            plain = plain_name(key)
            if plain in arrays or plain in left_out:
                raise ValueError(f"{plain} is twice in {path.parent}: name the one file that is meant")
            kind, scale = part.get_dtype(), _scale(path, slices, key)
            if kind not in READ_AS_FLOAT:
                left_out[plain] = kind
            elif (
                kind.startswith("F8") and scale is not None and scale.numel() not in (1, part.get_shape()[0])
            ):
                left_out[plain] = f"{kind} with a scale for each block"
            else:
                scale = scale if kind.startswith("F8") else None
                arrays[plain] = StoredArray(tuple(part.get_shape()), _loader(part, scale))
    return Weights(name, arrays, {}, None, left_out)


def _slices(path: Path) -> dict[str, Any]:
    try:
        file = safe_open(path, framework="pt")
        return {name: file.get_slice(name) for name in file.keys()}  # noqa: SIM118
    except SafetensorError as error:
        raise ValueError(f"{path} is not a whole safetensors file ({error})") from error


def _scale(path: Path, slices: Mapping[str, Any], name: str) -> Tensor | None:
    """The factors that a matrix rounded to eight bits is to be multiplied by, where its file has them."""
    found = next((name + end for end in SCALES if name + end in slices), None)
    if found is None:
        return None
    with safe_open(path, framework="pt") as file:
        scale: Tensor = file.get_tensor(found)
    return scale.float().reshape(-1)


def _loader(part: Any, scale: Tensor | None = None) -> Callable[[np.ndarray | None], np.ndarray]:
    def load(rows: np.ndarray | None) -> np.ndarray:
        if rows is None:
            whole = part[:]
        elif rows[-1] - rows[0] + 1 == len(rows):  # one piece of the file
            whole = part[int(rows[0]) : int(rows[-1]) + 1]
        else:
            whole = torch.cat([part[row : row + 1] for row in rows.tolist()])
        whole = whole.float()
        if scale is not None:
            own = scale if rows is None or scale.numel() == 1 else scale[torch.from_numpy(rows)]
            whole *= own.reshape(-1, *[1] * (whole.ndim - 1))
        found: np.ndarray = whole.numpy()
        return found

    return load


def _state_dict(path: Path) -> Mapping[str, Any]:
    """A PyTorch file of weights alone; inside of "state_dict" or "model", where training loops put them."""
    try:
        lazily = zipfile.is_zipfile(path)  # all but the format of before PyTorch 1.6
        found = torch.load(path, map_location="cpu", weights_only=True, mmap=lazily)
    except Exception as error:  # pickle's, zip's and PyTorch's own, of many kinds
        instead = "give llama2.c's ckpt.pt, or " if path.suffix == ".bin" else ""
        raise ValueError(
            f"{path} is no PyTorch file of weights alone ({type(error).__name__}): {instead}save "
            "model.state_dict(), or safetensors"
        ) from error
    for inner in NESTS:
        if isinstance(found, Mapping) and isinstance(found.get(inner), Mapping):
            found = found[inner]
    if not isinstance(found, Mapping):
        raise ValueError(f"{path} holds a {type(found).__name__}: save model.state_dict()")
    return {name: value for name, value in found.items() if isinstance(value, Tensor)}
