"""A checkpoint of Hugging Face at another width, in the same class, and a report of what it cost.

LayerNorm subtracts the mean over coordinates: there the map takes the direction of ones to the direction of
ones, and so commutes with it. The heads of GPT-2, GPT-NeoX and BERT share the width: wider ones get
coordinates of 0, narrower ones keep their strongest directions. In the other classes the width of a head is
an option of the configuration, and stays.
"""

from __future__ import annotations

import copy
import json
import os
import shutil
import tempfile
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, cast, get_args

import numpy as np
import pandas as pd
import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from embviz import projections
from embviz.files.pretrained import load_pretrained, quietly
from embviz.memory import require_memory
from embviz.models.layouts import (
    KINDS,
    Layout,
    carry,
    configured,
    fit_heads,
    in_class,
    layout_of,
    part_errors,
    recorded,
    taps,
)
from embviz.projections import Projection

Map = Literal["orthonormal", "gaussian", "rademacher", "sparse", "hadamard", "pca", "repeat", "zeros"]
EXACT = 1e-4  # relative error in float32 under which a part counts as carried exactly
N_TRIED = 32  # tokens of a string, drawn at random, where no text is given
HALF = (torch.float16, torch.bfloat16)
TYPES = {name: getattr(torch, name) for name in ("float64", "float32", "float16", "bfloat16")}
SIZES = (  # of a configuration
    *("vocab_size", "n_embd", "hidden_size", "n_head", "num_attention_heads", "n_layer", "num_hidden_layers"),
    *("n_positions", "intermediate_size", "max_position_embeddings"),
)
BESIDE = (  # what a tokenizer consists of, taken along as it is
    *("tokenizer.json", "tokenizer_config.json", "special_tokens_map.json", "added_tokens.json"),
    *("vocab.json", "merges.txt", "tokenizer.model", "chat_template.jinja"),
)


@dataclass(frozen=True, eq=False)
class ResizedCheckpoint:
    """A checkpoint at another width, and what became of it.

    Parameters
    ----------
    model : transformers.PreTrainedModel
        Of the original's class.
    projection : Projection
        T (m x D), by which the residual stream was mapped.
    parts : DataFrame
        part, layer (-1: none), error, exact, of the file as it is written. For the original's stream x,
        |f~(T x) - T f(x)| / |T f(x)| of each part f, the last one's output being logits; exact: below 1e-4.
        In half precision there is the error before rounding beside it, as unrounded.
    logit_error : float
        Relative error of the logits of the whole model; without a head, of its last states.
    losses : tuple of two floats, nats a token, or None
        Before and after, on the text that was given.
    n_bytes, n_parameters : tuple of two ints
        Before and after.
    notes : tuple of str
        What is not carried, or changed its form, and why.
    """

    model: Any
    projection: Projection
    parts: pd.DataFrame
    logit_error: float
    losses: tuple[float, float] | None
    n_bytes: tuple[int, int]
    n_parameters: tuple[int, int]
    notes: tuple[str, ...]

    def as_record(self) -> dict[str, Any]:
        """The report as plain numbers and texts, for a file."""
        names = ("logit_error", "losses", "n_bytes", "n_parameters", "notes")
        own = {name: getattr(self, name) for name in names}
        m, d = self.projection.shape
        return {"width": [d, m], **own, "parts": self.parts.to_dict("records")}

    def summary(self) -> pd.DataFrame:
        """One row per kind of part: part, layers, largest error, exact."""
        found = self.parts.groupby("part", sort=False).agg(
            layers=("layer", "size"), error=("error", "max"), exact=("exact", "all")
        )
        return found.reset_index()


# --- reading and writing ------------------------------------------------------------------------------


def load_checkpoint(folder: str | os.PathLike[str]) -> Any:
    """The language model of a folder, in float32: from safetensors only, without custom code or network.

    Refused are families that are not known here, rounded weights, adapters, and files that do not fit their
    config.json or hold NaN.
    """
    path = Path(folder)
    if (path / "adapter_config.json").is_file():
        raise ValueError(f"{path} holds an adapter: merge it into its model first (merge_and_unload)")
    if not (path / "config.json").is_file():
        raise FileNotFoundError(f"{path} is no folder of a model: there is no config.json")
    try:
        config = json.loads((path / "config.json").read_text(encoding="utf-8"))
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{path / 'config.json'} is not valid JSON: get it again") from error
    if not isinstance(config, dict):
        raise ValueError(
            f"{path / 'config.json'} holds a {type(config).__name__}, not an object: get it again"
        )
    kind = config.get("model_type")
    if not isinstance(kind, str) or kind not in KINDS:
        raise ValueError(f"{path} holds a {kind!r}: known are {', '.join(KINDS)}")
    loader, named = "AutoModelForCausalLM", config.get("architectures")
    if len(known := KINDS[kind]) > 1:
        if named not in [[name] for name in known]:
            raise ValueError(f"{path} holds a {named!r}: known of {kind!r} are {' and '.join(known)}")
        (loader,) = named
    if "quantization_config" in config:
        raise ValueError(f"the weights in {path} are rounded: products of them are not; give the original")
    if not any(path.glob("*.safetensors")):
        raise FileNotFoundError(
            f"{path} has no safetensors; other files may hold code that runs when they are read: convert them"
        )
    _refuse_sizes(path, config)
    model, unused = load_pretrained(path, loader, use_safetensors=True, dtype=torch.float32)
    if unused:
        message = (
            f"{path} has {len(unused)} arrays without a place in the model, such as {unused[0]}: left out"
        )
        warnings.warn(message, stacklevel=2)
    for name, array in model.state_dict().items():
        if array.is_floating_point() and not bool(array.isfinite().all()):
            raise ValueError(f"{name} in {path} has NaN or infinite values: take an earlier checkpoint")
    model.config.dtype = _type_of(config, path)
    return model.eval()


def _refuse_sizes(path: Path, config: dict[str, Any]) -> None:
    """Hold the sizes that a configuration gives against the files, before anything of such a size is made."""
    n_arrays = n_numbers = 0
    for file in path.glob("*.safetensors"):
        try:
            with safe_open(file, "pt") as arrays:
                n_arrays += len(arrays.keys())
        except SafetensorError as error:
            raise ValueError(f"{file} is no whole safetensors file ({error}): get it again") from error
        n_numbers += file.stat().st_size  # a number takes a byte at least
    layers = config.get("num_hidden_layers", config.get("n_layer", 0))
    if isinstance(layers, int) and layers > n_arrays:
        raise ValueError(
            f"config.json in {path} gives {layers:,} layers, and its files have {n_arrays} arrays"
        )
    for name in SIZES:
        size = config.get(name, 1)
        if isinstance(size, bool) or not isinstance(size, int) or size < 1:
            raise ValueError(
                f"config.json in {path} gives {size!r} for {name}: it is a whole number from 1 on"
            )
        if size > n_numbers and name != "max_position_embeddings":  # rotary positions have no array
            raise ValueError(
                f"config.json in {path} gives {size:,} for {name}, and its files have {n_numbers:,} bytes"
            )


def _type_of(config: dict[str, Any], path: Path) -> torch.dtype:
    """The type in which the checkpoint is written; "auto" keeps the type of its files."""
    name = str(config.get("dtype") or config.get("torch_dtype") or "float32").removeprefix("torch.")
    if name == "auto":
        with safe_open(min(path.glob("*.safetensors")), "pt") as arrays:
            stored: torch.dtype = arrays.get_tensor(next(iter(arrays.keys()))).dtype
        return stored
    if name not in TYPES:
        raise ValueError(f"config.json in {path} has the dtype {name!r}: known are {', '.join(TYPES)}, auto")
    return TYPES[name]


def require_free(folder: str | os.PathLike[str]) -> Path:
    """The path of a folder to write to; a FileExistsError if there is something in it, or it is a link."""
    path = Path(folder)
    if path.is_symlink():
        raise FileExistsError(f"{path} is a link: name the folder itself")
    if path.exists() and (not path.is_dir() or any(path.iterdir())):
        raise FileExistsError(f"{path} is there already, and not empty: name another folder")
    return path


def save_checkpoint(
    found: ResizedCheckpoint,
    folder: str | os.PathLike[str],
    *,
    tokenizer_of: str | os.PathLike[str] | None = None,
) -> Path:
    """Write a checkpoint, with its report in ``resizing.json``: the folder is complete, or it is not there.

    Parameters
    ----------
    folder : path
        Not there yet, or empty.
    tokenizer_of : path, optional
        A folder whose tokenizer is copied.
    """
    path = require_free(folder)
    path.parent.mkdir(parents=True, exist_ok=True)
    unfinished = Path(tempfile.mkdtemp(prefix=f".{path.name}.", dir=path.parent))
    try:
        with quietly():
            found.model.save_pretrained(unfinished)
        report = json.dumps(found.as_record(), indent=2, allow_nan=False)
        (unfinished / "resizing.json").write_text(report + "\n", encoding="utf-8")
        for name in BESIDE if tokenizer_of is not None else ():
            if (file := Path(cast(str, tokenizer_of)) / name).is_file():
                shutil.copyfile(file, unfinished / name)
        unfinished.chmod(0o755)
        if path.exists():
            path.rmdir()
        unfinished.rename(path)
    except BaseException:
        shutil.rmtree(unfinished, ignore_errors=True)
        raise
    return path


# --- carrying -----------------------------------------------------------------------------------------


def resize_checkpoint(
    model: Any,
    m: int,
    *,
    how: Map = "orthonormal",
    seed: int = 0,
    tokens: Tensor | None = None,
) -> ResizedCheckpoint:
    """A language model of Hugging Face at another width, in its own class.

    Every state x of its stream becomes T x. Gains and biases of norms that read it are folded into the maps
    behind them. Grouped queries stay grouped, and scaled rotary positions, norms within heads, caps on logits
    and hidden units of the MLPs stay as they are.

    Parameters
    ----------
    model : one of the classes in :data:`embviz.models.layouts.LAYOUTS`, or a subclass, or compiled
    m : int
        The new width: what the class allows, often a multiple of its heads; of GPT-NeoX at least the old one.
    how : str
        A random map, "orthonormal" (rows, or columns where m is above the old width), "gaussian",
        "rademacher", "sparse" or "hadamard"; "pca": the leading principal directions of the stream on
        `tokens`; "repeat": each coordinate m / D times; "zeros": zeros appended.
    seed : int
        Of the random map.
    tokens : integer tensor, shape (B, T + 1), optional
        Two strings of a text at least. Principal directions and narrower heads see every other one; errors
        and losses are measured on the others. Without them errors are those of tokens drawn at random.

    Raises
    ------
    MemoryError
        If it doesn't fit, with the estimate.
    """
    if how not in get_args(Map):
        raise ValueError(f"no map {how!r}: choose one of {', '.join(get_args(Map))}")
    model = _inside(model)
    layout = layout_of(model)
    _require_width(model, layout, m, how)
    n_parameters = sum(array.numel() for array in model.parameters())
    # the original in float32, perhaps twice; its arrays at the new width in float64, and a model of them
    n_bytes = 8 * n_parameters + 12 * n_parameters * m // model.config.hidden_size
    require_memory(
        n_bytes,
        what=f"carrying {n_parameters:,} parameters",
        instead="take a smaller model, or a machine with more memory",
    )
    dtype = getattr(model.config, "dtype", None) or torch.float32
    plain = next(model.parameters()).dtype == torch.float32 and not model.training
    old = model if plain else _in_float32(model)
    _require_answers(old)
    if tokens is None and how == "pca":
        raise ValueError("principal components need a text: give one, or choose the map 'orthonormal'")
    seen, held_out = _halves(_tokens(old) if tokens is None else tokens, old)
    projection = _map(old, layout, m, how, seed, seen)
    T = torch.from_numpy(np.ascontiguousarray(projection.matrix))
    inverse = torch.from_numpy(np.ascontiguousarray(projection.pseudo_inverse()))
    arrays = fit_heads(carry(old, layout, T, inverse), old, layout, T, seen)
    new = in_class(old, layout, m, arrays)
    notes = _notes(old, new, layout, how, text=tokens is not None)
    unrounded = part_errors(old, new, layout, T, held_out[:1, :-1]) if dtype in HALF else None
    for parameter in new.parameters():  # as a file holds them; angles of rotary positions are in no file
        parameter.data = parameter.data.to(dtype).float()
    table = pd.DataFrame([place[:2] for place in taps(layout, new)], columns=["part", "layer"])
    table["error"] = part_errors(old, new, layout, T, held_out[:1, :-1])
    if unrounded is not None:
        table["unrounded"] = unrounded
        notes.append(
            f"the file is in {str(dtype).removeprefix('torch.')}: before rounding to it the largest error of "
            f"a part was {max(unrounded):.1g}"
        )
    sizes = n_parameters, sum(array.numel() for array in new.parameters())
    error, losses = _errors_and_losses(old, new, layout, T, held_out)
    return ResizedCheckpoint(
        new.to(dtype),
        projection,
        table.assign(exact=table["error"] < EXACT),
        error,
        None if tokens is None or layout.encoder else losses,
        (sizes[0] * dtype.itemsize, sizes[1] * dtype.itemsize),
        sizes,
        tuple(notes),
    )


def _inside(model: Any) -> Any:
    """The model inside ``torch.compile`` or DataParallel."""
    parallel = (nn.DataParallel, nn.parallel.DistributedDataParallel)
    while hasattr(model, "_orig_mod") or isinstance(model, parallel):
        model = getattr(model, "_orig_mod", None) or model.module
    return model


def _in_float32(model: Any) -> Any:
    """A copy in 32 bits for use, the angles of its positions computed again: a cast model rounds them."""
    copied = copy.deepcopy(model).float().eval()
    for part in copied.modules():
        if "inv_freq" in dict(part.named_buffers(recurse=False)):
            exact = type(part)(config=part.config)
            for name, buffer in exact.named_buffers(recurse=False):
                setattr(part, name, buffer.to(getattr(part, name).device))
    return copied


def _require_answers(model: Any) -> None:
    """Refuse a model whose logits do not vary, or are not finite: no error is relative to them."""
    with torch.no_grad():
        logits = _answer(model, _tokens(model)[:1, :-1])
    if not bool(logits.isfinite().all()):
        raise ValueError(
            f"the {type(model).__name__} gives NaN or infinite logits in float32: its weights are too large "
            "or damaged; take an earlier checkpoint"
        )
    if not bool((logits - logits.mean(-1, keepdim=True)).any()):
        raise ValueError(
            "all logits of the model are equal, so no error can be relative to them: are its weights zeros, "
            "or too large for float32?"
        )


def _answer(model: Any, tokens: Tensor) -> Tensor:
    """Logits, or the last states where there is no head."""
    output = model(tokens)
    answer: Tensor = output.logits if hasattr(output, "logits") else output.last_hidden_state
    return answer


@torch.no_grad()
def _errors_and_losses(
    old: Any, new: Any, layout: Layout, T: Tensor, ids: Tensor
) -> tuple[float, tuple[float, float]]:
    """Relative error of logits (of last states without a head), and losses; a string at a time."""
    apart = spread = 0.0
    losses: list[list[Tensor]] = []
    for string in ids:
        expected, found = (_answer(one, string[None, :-1])[0] for one in (old, new))
        if layout.head:
            losses.append([cross_entropy(one, string[1:], reduction="none") for one in (expected, found)])
            expected = expected.double()
            centered = expected - expected.mean(-1, keepdim=True)
        else:
            centered = expected = expected.double() @ T.T
        apart += float((found.double() - expected).square().sum())
        spread += float(centered.square().sum())
    means = [float(torch.cat(one).mean()) for one in zip(*losses, strict=True)] or [0.0, 0.0]
    return (apart / spread) ** 0.5, (means[0], means[1])


def _tokens(model: Any) -> Tensor:
    n = min(N_TRIED, model.config.max_position_embeddings - 1)
    generator = torch.Generator().manual_seed(0)
    return torch.randint(model.config.vocab_size, (2, n + 1), generator=generator)


def _halves(ids: Tensor, model: Any) -> tuple[Tensor, Tensor]:
    """Every other string, which principal directions see, and those between, which errors are measured on."""
    length, n_symbols = model.config.max_position_embeddings, model.config.vocab_size
    if ids.ndim != 2 or len(ids) < 2 or not 3 <= ids.shape[1] <= length + 1:
        raise ValueError(
            f"tokens have shape {tuple(ids.shape)}: give two strings at least, of 3 to {length + 1}"
        )
    if not 0 <= int(ids.min()) <= int(ids.max()) < n_symbols:
        raise ValueError(f"tokens are {int(ids.min())} to {int(ids.max())}, and must be 0 to {n_symbols - 1}")
    return ids[::2], ids[1::2]


def _require_width(model: Any, layout: Layout, m: int, how: Map) -> None:
    """Refuse a width that the map or the class does not allow, before any work."""
    name, heads, d = layout.name, model.config.num_attention_heads, model.config.hidden_size
    if m < 2:
        raise ValueError(f"the width is {m}: two dimensions are the least")
    if (how == "repeat" and m % d) or (how == "zeros" and m < d):
        allowed = f"a multiple of {d}" if how == "repeat" else f"{d} or more"
        raise ValueError(f"the map {how!r} makes no width of {m}: take {allowed}")
    below = m // heads * heads
    multiples = f"{below} or {below + heads}" if below else f"{heads}"
    if layout.shared and m % heads:
        raise ValueError(
            f"a {name} wants a width that its {heads} heads divide, and {m} is none: take {multiples}"
        )
    if layout.shared == "by head" and m < d:
        raise ValueError(
            f"a {name} of width {m} would have heads of {m // heads} coordinates instead of "
            f"{d // heads}, and rotary positions turn fixed pairs of them: take a width from {d} on"
        )
    try:
        configured(model, m, layout)
    except ValueError as error:
        raise ValueError(f"{error}; its {heads} heads divide {multiples}") from error


# --- the map ------------------------------------------------------------------------------------------


def _ones_kept(inner: np.ndarray) -> Projection:
    """A map (m, D) that keeps the direction of ones and acts on its complement by `inner`.

    LayerNorm's centering commutes with it: the mean over dimensions is the coordinate along ones.

    Parameters
    ----------
    inner : array, shape (m - 1, D - 1)

    >>> T = _ones_kept(np.eye(2)).matrix
    >>> np.allclose(T @ np.ones(3), np.ones(3)), np.allclose(T @ T.T, np.eye(3))
    (True, True)
    """
    m, d = inner.shape[0] + 1, inner.shape[1] + 1
    rows, columns = (_complement(n) for n in (m, d))
    return projections.Projection.from_matrix(np.full((m, d), 1 / np.sqrt(m * d)) + rows @ inner @ columns.T)


def _complement(n: int) -> np.ndarray:
    """An orthonormal basis (n, n - 1) of what is orthogonal to ones."""
    return np.linalg.qr(np.column_stack([np.ones(n), np.eye(n)[:, : n - 1]]))[0][:, 1:]


def _map(model: Any, layout: Layout, m: int, how: Map, seed: int, seen: Tensor) -> Projection:
    """T, scaled so that the stream's mean square stays as it is: norms divide by it.

    Where norms center, it keeps the direction of ones, and acts on the complement as asked.
    """
    d, less = model.config.hidden_size, int(layout.centered)
    if how == "repeat":
        return projections.Projection.from_matrix(np.tile(np.eye(d), (m // d, 1)))
    gram = _gram(model, layout, seen) if how == "pca" and m < d else None
    if gram is not None:
        basis = _complement(d) if less else np.eye(d)
        values, vectors = np.linalg.eigh(basis.T @ gram @ basis)
        inner = projections.pca(np.sqrt(values.clip(0))[:, None] * vectors.T, m - less)
    elif how == "zeros":
        inner = projections.Projection.from_matrix(np.eye(m - less, d - less))
    else:
        drawn = "orthonormal" if how == "pca" else how
        inner = projections.draw(drawn, m - less, d - less, seed=seed, scaling="unit")
    T = _ones_kept(inner.matrix).matrix if less else inner.matrix
    energy = inner.scale**2 * min(m - less, d - less) / (d - less)  # |T x|^2 / |x|^2, as norms see it
    if gram is not None:
        energy = float(np.trace(T @ gram @ T.T) / np.trace(gram))
    scale = (m / (d * energy)) ** 0.5
    family = "given" if less else inner.family
    return Projection(family, T * scale, inner.scale * scale)


def _gram(model: Any, layout: Layout, ids: Tensor) -> np.ndarray:
    """Second moments (D, D) of the stream's states, at the start of each layer and after the last.

    They are as norms see them: centered where the norms center, and each state over its length.
    """
    places, starts, ends = taps(layout, model), list[str](), list[str]()
    if layout.encoder:
        ends = [end for part, _, _, end in places if part not in ("pooler", "head")]
    else:
        starts = [start for part, _, start, _ in places if start and part != "MLP"]
    total = np.zeros((model.config.hidden_size,) * 2)
    for string in ids:
        for states in recorded(model, starts, ends, string[None, :-1]).values():
            x = states[0].double().numpy()
            x = x - x.mean(axis=1, keepdims=True) if layout.centered else x
            x = x / np.maximum(np.linalg.norm(x, axis=1, keepdims=True), 1e-12)
            total += x.T @ x
    return total


# --- the report ---------------------------------------------------------------------------------------


def _notes(old: Any, new: Any, layout: Layout, how: Map, *, text: bool) -> list[str]:
    """What is not carried, or changed its form."""
    d, m, heads = old.config.hidden_size, new.config.hidden_size, old.config.num_attention_heads
    notes = []
    if m < d:
        notes.append(
            f"{d - m} of {d} directions of the stream are gone: what is written there is not read any more"
        )
    if m < d and how != "pca" and not layout.after:
        notes.append(
            "a random map loses far more than principal directions do: take the map 'pca'"
            + ("" if text else ", which needs a text")
        )
    if how == "pca" and m >= d:
        notes.append("no direction is left out, so that the map is a random one")
    if not text:
        notes.append("there are no losses, since no text was given: errors are on tokens drawn at random")
    elif layout.encoder:
        notes.append("there are no losses: an encoder does not predict the next token")
    if layout.encoder and not layout.head:
        notes.append(
            f"there are no logits: the error is measured on the last states, which have {m} coordinates"
        )
    if layout.head and old.config.tie_word_embeddings and not new.config.tie_word_embeddings:
        notes.append("the head is an array of its own now: the last norm's gains are folded into it")
    if layout.shared and m < d:
        notes.append(
            f"heads share the width: of {d // heads} coordinates each keeps {m // heads}, "
            "those that matter most to its products"
        )
    if layout.shared and m > d:
        notes.append(f"heads share the width: each has {(m - d) // heads} more, of 0")
    if how == "repeat" and m > d:
        notes.append("copies of a coordinate have equal gradients, so that fine-tuning leaves them equal")
    if how == "zeros" and m > d:
        notes.append("the appended coordinates are 0 and get no gradient from what reads them")
    if layout.after and how != "repeat" and (how != "zeros" or layout.centered):
        notes.append(
            "the gains of norms that write to the stream have no exact form in another basis: the nearest "
            "vectors stand in for them; the map 'repeat' carries them exactly"
        )
    if m < d and layout.centered and not layout.encoder:
        notes.append("the last norm's bias, which no narrower head can read in full, is fitted to it")
    if getattr(old.config, "sliding_window", None):
        notes.append("the window of attention stays")
    notes.append("hidden units of the MLPs stay, and an optimizer's state is not carried")
    return notes
