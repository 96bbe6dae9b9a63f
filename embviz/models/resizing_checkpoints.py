"""A checkpoint of Hugging Face at another width, in the same class, and a report of what it cost.

LayerNorm subtracts the mean over coordinates: there the map takes the direction of ones to the direction of
ones, and so commutes with it. The heads of GPT-2, GPT-NeoX and BERT share the width: wider ones get
coordinates of 0, narrower ones keep their strongest directions. In the other classes the width of a head is
an option of the configuration, and stays.
"""

from __future__ import annotations

import copy
import dataclasses
import json
import os
import shutil
import tempfile
import warnings
from collections.abc import Mapping
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
from embviz.models.decoder import Decoder, DecoderBlock, nearest_multiples, with_weights
from embviz.models.huggingface import FAMILIES, HEADS, family, from_hf, in_float32, to_hf, unwrapped
from embviz.models.layouts import (
    KINDS,
    Layout,
    carry,
    configured,
    layout_of,
    part_errors,
    recorded,
    taps,
    width_options,
)
from embviz.models.resizing import Resized, resize
from embviz.projections import Projection

Map = Literal["orthonormal", "gaussian", "rademacher", "sparse", "hadamard", "pca", "repeat", "zeros"]
Rules = Literal["exact", "printed"]
BY_DECODER = ("gpt2", "gpt_neox")  # families whose heads or norms a decoder has to change first
EXACT = 1e-4  # relative error in float32 under which a part counts as carried exactly
N_TRIED = 32  # tokens of a string, drawn at random, where no text is given
BYTES_A_PARAMETER = 28  # the original, two decoders in float32, and one in float64
HALF = (torch.float16, torch.bfloat16)
TYPES = {name: getattr(torch, name) for name in ("float64", "float32", "float16", "bfloat16")}
SIZES = (  # of a configuration
    *("vocab_size", "n_embd", "hidden_size", "n_head", "num_attention_heads", "n_layer", "num_hidden_layers"),
    *("n_positions", "intermediate_size", "max_position_embeddings"),
)
UNSTORED = ("max_position_embeddings",)  # rotary positions have no array
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

    Raises
    ------
    ValueError
        If it is of a family that is not known here, or rounded, or an adapter, or lacks arrays; if an array
        has NaN or another size than its config.json gives, or this is none; says which.
    FileNotFoundError
        If there is no such folder, or no config.json or safetensors in it.
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
    known, named = KINDS[kind], config.get("architectures")
    loader = (
        "AutoModelForCausalLM" if len(known) == 1 else next((name for name in known if named == [name]), "")
    )
    if not loader:
        raise ValueError(f"{path} holds a {named!r}: known of {kind!r} are {' and '.join(known)}")
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
        if size > n_numbers and name not in UNSTORED:
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
    """The path of a folder to write to.

    Raises
    ------
    FileExistsError
        If there is something in it, or it is a link.
    """
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
    """Write a checkpoint, with its report in ``resizing.json``: the folder is whole, or it is not there.

    Parameters
    ----------
    folder : path
        Not there yet, or empty.
    tokenizer_of : path, optional
        A folder whose tokenizer is copied.

    Raises
    ------
    FileExistsError
        If there is something in the folder, or it is a link.
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
    model: nn.Module,
    m: int,
    *,
    how: Map = "orthonormal",
    rules: Rules = "exact",
    seed: int = 0,
    tokens: Tensor | None = None,
) -> ResizedCheckpoint:
    """Carry a language model of Hugging Face to another width, in its own class.

    By the exact rules gains and biases of norms are folded into the maps that read them, and heads keep their
    coordinates. Grouped queries stay grouped, and scaled rotary positions, norms within heads and caps on
    logits stay as they are. Hidden units of the MLPs stay under both rules.

    Parameters
    ----------
    model : one of the classes in :data:`embviz.models.layouts.LAYOUTS`, or a subclass
    m : int
        The new width: what the class allows, often a multiple of its heads; of GPT-NeoX at least the old one.
    how : str
        A random map, "orthonormal" (rows, or columns where m is above the old width), "gaussian",
        "rademacher", "sparse" or "hadamard"; "pca": the leading principal directions of the stream on
        `tokens`; "repeat": each coordinate m / D times; "zeros": zeros appended.
    rules : "exact" or "printed"
        "printed" is Algorithm 1 of the resizing paper: plain heads, gains dropped, centering kept, maps of
        the MLP as written. It is for GPT-2, Llama, Mistral and GPT-NeoX.
    seed : int
        Of the random map.
    tokens : integer tensor, shape (B, T + 1), optional
        Two strings of a text at least. Principal directions and narrower heads see every other one; errors
        and losses are measured on the others. Without them errors are those of tokens drawn at random.

    Raises
    ------
    ValueError
        If the family or an option of it is not known here, or can't have this width, or `tokens` don't fit;
        if its logits are all equal (weights of zeros), or NaN or infinite.
    MemoryError
        If it doesn't fit, with the estimate.
    """
    for name, given, known in (("map", how, Map), ("rules", rules, Rules)):
        if given not in get_args(known):
            raise ValueError(f"no {name} {given!r}: choose one of {', '.join(get_args(known))}")
    model = unwrapped(model)
    layout = layout_of(model)
    n_parameters = sum(array.numel() for array in model.parameters())
    require_memory(
        BYTES_A_PARAMETER * n_parameters,
        what=f"carrying {n_parameters:,} parameters",
        instead="take a smaller model, or a machine with more memory",
    )
    dtype = getattr(model.config, "dtype", None) or torch.float32
    own = next(model.parameters()).dtype
    old = model if own == torch.float32 else in_float32(model)
    _require_width(old, layout, m, how, rules)
    _require_answers(old)
    if tokens is None and how == "pca":
        raise ValueError("principal components need a text: give one, or choose the map 'orthonormal'")
    seen, held_out = _halves(_tokens(old) if tokens is None else tokens, old)
    if rules == "printed" or not layout.branches[0].readers:
        projection, new, notes = _by_decoder(old, layout, m, how, rules, seed, seen)
    else:
        projection, new, notes = _in_class(old, layout, m, how, seed, seen)
    notes = [*_notes(old, new, layout, how, rules, text=tokens is not None), *notes]
    T = projection.matrix
    across = torch.from_numpy(np.ascontiguousarray(T))
    unrounded = part_errors(old, new, layout, across, held_out[:1, :-1]) if dtype in HALF else None
    _round(new, dtype)
    table = pd.DataFrame([place[:2] for place in taps(layout, new)], columns=["part", "layer"])
    table["error"] = part_errors(old, new, layout, across, held_out[:1, :-1])
    if unrounded is not None:
        table["unrounded"] = unrounded
        notes.append(
            f"the file is in {str(dtype).removeprefix('torch.')}: before rounding to it the largest error of "
            f"a part was {max(unrounded):.1g}"
        )
    error, losses = _errors_and_losses(old, new, layout, T, held_out)
    return ResizedCheckpoint(
        new.to(dtype),
        projection,
        table.assign(exact=table["error"] < EXACT),
        error,
        None if tokens is None or layout.encoder else losses,
        (_n_bytes(old, dtype), _n_bytes(new, dtype)),
        (n_parameters, sum(array.numel() for array in new.parameters())),
        tuple(notes),
    )


def _in_class(
    old: Any, layout: Layout, m: int, how: Map, seed: int, seen: Tensor
) -> tuple[Projection, Any, list[str]]:
    """A model carried in its own class; T is scaled so that norms, which divide by m, need no other gain."""
    d = old.config.hidden_size
    gram = _gram(old, layout, seen) if how == "pca" and m < d else None
    drawn, energy = _map(how, m, d, seed, gram, layout.centered)
    scale = (m / (d * energy)) ** 0.5
    projection = Projection(drawn.family, drawn.matrix * scale, drawn.scale * scale)
    heads = _encoder_heads(old, layout, m, seen) if layout.encoder else {}
    T, inverse = (
        torch.from_numpy(np.ascontiguousarray(matrix))
        for matrix in (projection.matrix, projection.pseudo_inverse())
    )
    new = carry(old, layout, T, inverse, heads)
    exact = how == "repeat" or (how == "zeros" and not layout.centered)
    notes = []
    if layout.after and not exact:
        notes.append(
            "the gains of norms that write to the stream have no exact form in another basis: the nearest "
            "vectors stand in for them; the map 'repeat' carries them exactly"
        )
    return projection, new, notes


def _by_decoder(
    old: Any, layout: Layout, m: int, how: Map, rules: Rules, seed: int, seen: Tensor
) -> tuple[Projection, Any, list[str]]:
    """A model carried as a decoder, and put back into its class."""
    kind, decoder = cast(str, family(old)), from_hf(old)
    decoder = decoder if rules == "exact" else decoder.double()  # T+ of a square Gaussian map is large
    d, exact = decoder.config.embedding_dim, rules == "exact"
    gram = _gram(old, layout, seen) if how == "pca" and m < d else None
    projection, energy = _map(how, m, d, seed, gram, layout.centered and exact)
    options: dict[str, Any] = {} if exact else {"attention": "plain", "gains": "drop", "reading": "written"}
    found: Resized = resize(
        decoder, m, projection=projection, seed=seed, energy=energy, centering="keep", **options
    )
    new = found.model
    if exact:
        new = _fit_heads(_bias_into_norm(new), m, kind, seen)
    narrower = exact and m < d
    bias = "the last norm's bias, which no narrower head can read in full, is fitted to it"
    notes = [bias] if narrower else [] if exact else list(found.notes)
    return projection, _in_class_of(old, new, kind).float(), notes


def _round(model: nn.Module, dtype: torch.dtype) -> None:
    """Parameters as a file of that type holds them; angles of rotary positions are in no file."""
    for parameter in model.parameters():
        parameter.data = parameter.data.to(dtype).float()


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
    old: Any, new: Any, layout: Layout, T: np.ndarray, ids: Tensor
) -> tuple[float, tuple[float, float]]:
    """Relative error of logits (of last states without a head), and losses; a string at a time."""
    along = torch.from_numpy(np.ascontiguousarray(T.T)).double()
    apart = spread = 0.0
    losses: list[tuple[Tensor, Tensor]] = []
    for string in ids:
        expected, found = (_answer(one, string[None, :-1])[0] for one in (old, new))
        if layout.head:
            expected_loss, found_loss = (
                cross_entropy(logits, string[1:], reduction="none") for logits in (expected, found)
            )
            losses.append((expected_loss, found_loss))
            expected = expected.double()
            centered = expected - expected.mean(-1, keepdim=True)
        else:
            centered = expected = expected.double() @ along
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


def _n_bytes(model: nn.Module, dtype: torch.dtype) -> int:
    return sum(array.numel() for array in model.parameters()) * torch.empty((), dtype=dtype).element_size()


def _require_width(model: Any, layout: Layout, m: int, how: Map, rules: Rules) -> None:
    """Refuse a width that the map, the rules or the class does not allow, before any work."""
    config, name = model.config, layout.name
    heads, d = config.num_attention_heads, config.hidden_size
    if m < 2:
        raise ValueError(f"the width is {m}: two dimensions are the least")
    if (how == "repeat" and m % d) or (how == "zeros" and m < d):
        allowed = f"a multiple of {d}" if how == "repeat" else f"{d} or more"
        raise ValueError(f"the map {how!r} makes no width of {m}: take {allowed}")
    if rules == "printed" and family(model) is None:
        raise ValueError(
            f"the printed rules are known for {', '.join(FAMILIES.values())}, and this is a {name}: take the "
            "rules 'exact'"
        )
    if (rules == "printed" or family(model) in BY_DECODER) and m % heads:
        raise ValueError(
            f"a {name} wants a width that its {heads} heads divide, and {m} is none: take "
            f"{nearest_multiples(m, heads)}"
        )
    if family(model) == "gpt_neox" and m < d:
        raise ValueError(
            f"a {name} of width {m} would have heads of {m // heads} coordinates instead of "
            f"{d // heads}, and rotary positions turn fixed pairs of them: take a width from {d} on"
        )
    if layout.branches[0].readers:
        try:
            configured(model, **width_options(model, m, layout))
        except ValueError as error:
            raise ValueError(f"{error}; its {heads} heads divide {nearest_multiples(m, heads)}") from error


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


def _map(
    how: Map, m: int, d: int, seed: int, gram: np.ndarray | None, centered: bool
) -> tuple[Projection, float]:
    """T, and the share of the stream's energy that it keeps, as norms see it.

    With `centered` it keeps the direction of ones, and acts on the complement as asked.
    """
    if how == "repeat":
        return projections.Projection.from_matrix(np.tile(np.eye(d), (m // d, 1)) / np.sqrt(m // d)), 1.0
    less = int(centered)
    if gram is not None:
        basis = _complement(d) if centered else np.eye(d)
        values, vectors = np.linalg.eigh(basis.T @ gram @ basis)
        inner = projections.pca(np.sqrt(values.clip(0))[:, None] * vectors.T, m - less)
    elif how == "zeros":
        inner = projections.Projection.from_matrix(np.eye(m - less, d - less))
    else:
        drawn = "orthonormal" if how == "pca" else how
        inner = projections.draw(drawn, m - less, d - less, seed=seed, scaling="unit")
    projection = _ones_kept(inner.matrix) if centered else inner
    energy = inner.scale**2 * min(m - less, d - less) / (d - less)
    if gram is not None:
        T = projection.matrix
        energy = float(np.trace(T @ gram @ T.T) / np.trace(gram))
    return projection, energy


def _gram(model: Any, layout: Layout, ids: Tensor) -> np.ndarray:
    """Second moments (D, D) of the stream's states, at the start of each layer and after the last.

    They are as norms see them: centered where the norms center, and each state over its length.
    """
    places = taps(layout, model)
    if layout.encoder:
        names = [f"{end}>" for part, _, _, end in places if part not in ("pooler", "head")]
    else:
        names = [f">{start}" for part, _, start, _ in places if start and part != "MLP"]
    total = np.zeros((model.config.hidden_size,) * 2)
    for string in ids:
        states = recorded(model, places, string[None, :-1])
        for name in names:
            x = states[name][0].double().numpy()
            x = x - x.mean(axis=1, keepdims=True) if layout.centered else x
            x = x / np.maximum(np.linalg.norm(x, axis=1, keepdims=True), 1e-12)
            total += x.T @ x
    return total


# --- what a class has no place for --------------------------------------------------------------------


def _bias_into_norm(model: Decoder) -> Decoder:
    """A bias of logits as one of the last norm, as near as the head can give it: exact where it can."""
    if not model.config.head_bias:
        return model
    config = dataclasses.replace(model.config, head_bias=False, norm_biases=True)
    weights = dict(model.state_dict())
    bias, head = weights.pop("head_bias").double(), model.head.detach().double()
    for name, array in Decoder(config, seed=0).state_dict().items():
        weights.setdefault(name, torch.zeros_like(array))
    weights["norm.bias"] = torch.linalg.lstsq(head, bias[:, None], driver="gelsd").solution[:, 0].float()
    return with_weights(config, weights)


def _fit_heads(model: Decoder, m: int, kind: str, ids: Tensor) -> Decoder:
    """Heads of m / H coordinates, where the class has no others."""
    config = model.config
    width, new = config.head_width, m // config.n_heads
    if kind not in ("gpt2", "gpt_neox") or new == width:
        return model
    weights = dict(model.state_dict())
    for layer in range(config.n_layers):
        here = f"blocks.{layer}.attention"
        if new > width:
            weights |= _widened(weights, here, config.n_heads, new)
        else:
            weights |= _narrowed(weights, here, config.n_heads, new, _read_by(model, layer, ids))
    more: dict[str, Any] = {"head_dim": 0, "attention_scale": config.scale}
    if kind == "gpt_neox":  # as many coordinates turn as before; half of one more, against rounding
        more["rotary_share"] = min(1.0, (config.rotary_width + 0.5) / new)
    return with_weights(dataclasses.replace(config, **more), weights)


@torch.no_grad()
def _read_by(model: Decoder, layer: int, ids: Tensor) -> Tensor:
    """What a layer's attention reads, (n, m + 1) float64: its norm's answers, and a 1 for biases."""
    block = model.blocks[layer]
    assert isinstance(block, DecoderBlock)
    found = [block.before[0](model.hidden(string[None, :-1], layer))[0] for string in ids]
    x = torch.cat(found).double()
    return torch.cat([x, x.new_ones(len(x), 1)], dim=1)


def _widened(weights: Mapping[str, Tensor], here: str, n_heads: int, new: int) -> dict[str, Tensor]:
    """Each head with coordinates of 0 after its own."""
    found = {}
    for name in ("query.weight", "query.bias", "key.weight", "key.bias", "value.weight", "value.bias"):
        if (full := f"{here}.{name}") in weights:
            by_head = weights[full].unflatten(0, (n_heads, -1))
            more = by_head.new_zeros(n_heads, new - by_head.shape[1], *by_head.shape[2:])
            found[full] = torch.cat([by_head, more], dim=1).flatten(0, 1)
    out = weights[f"{here}.out.weight"].unflatten(1, (n_heads, -1))
    more = out.new_zeros(*out.shape[:2], new - out.shape[2])
    return found | {f"{here}.out.weight": torch.cat([out, more], dim=2).flatten(1, 2)}


def _narrowed(
    weights: Mapping[str, Tensor], here: str, n_heads: int, new: int, x: Tensor
) -> dict[str, Tensor]:
    """Each head's products, of queries with keys and of values with what writes them, at a lower rank.

    The rank is the best for what is read, x (n, m + 1). Of keys the mean is left out: a product that is the
    same with all keys takes no part in a softmax.
    """

    def read(name: str) -> Tensor:  # (H, W, m + 1): a bias is one more input, which is 1
        rows = weights[f"{here}.{name}.weight"]
        bias = weights.get(f"{here}.{name}.bias", rows.new_zeros(len(rows)))
        both = torch.cat([rows, bias[:, None]], dim=1)
        return both.unflatten(0, (n_heads, -1)).double()

    out = weights[f"{here}.out.weight"].unflatten(1, (n_heads, -1)).movedim(1, 0).mT.double()  # (H, W, m)
    query, key, value = (read(name) for name in ("query", "key", "value"))
    to_query, to_key = _lower_rank(query @ x.T, key @ (x - x.mean(0)).T, new)
    to_out, to_value = _lower_rank(out, value @ x.T, new)
    found = {}
    for name, both in (("query", to_query @ query), ("key", to_key @ key), ("value", to_value @ value)):
        rows = both.flatten(0, 1).to(weights[f"{here}.query.weight"])
        found[f"{here}.{name}.weight"], found[f"{here}.{name}.bias"] = rows[:, :-1].contiguous(), rows[:, -1]
    narrow = (to_out @ out).movedim(-1, 0).flatten(1, 2)  # (m, H w)
    return found | {f"{here}.out.weight": narrow.to(rows).contiguous()}


def _lower_rank(a: Tensor, b: Tensor, rank: int) -> tuple[Tensor, Tensor]:
    """Maps (H, rank, W) of a (H, W, p) and of b (H, W, q) that leave the best products a'b of that rank."""
    r_a, r_b = (torch.linalg.qr(part.mT)[1] for part in (a, b))  # (H, W, W)
    left, values, right = torch.linalg.svd(r_a @ r_b.mT)
    roots = values[:, None, :rank].sqrt()
    of_a = torch.linalg.pinv(r_a, rtol=1e-9) @ (left[..., :rank] * roots)
    of_b = torch.linalg.pinv(r_b, rtol=1e-9) @ (right.mT[..., :rank] * roots)
    return of_a.mT, of_b.mT


def _encoder_heads(model: Any, layout: Layout, m: int, ids: Tensor) -> dict[str, Tensor]:
    """Arrays of an encoder's attention with heads of m / H coordinates, queries scaled for that width."""
    heads = model.config.num_attention_heads
    width, new = model.config.hidden_size // heads, m // heads
    if new == width:
        return {}
    places, arrays = taps(layout, model), model.state_dict()
    read = [recorded(model, places, string[None, :-1]) for string in ids] if new < width else []
    found: dict[str, Tensor] = {}
    for layer in range(model.config.num_hidden_layers):
        here = f"{layout.layers}.{layer}.attention"
        theirs = {"out": f"{here}.output.dense", **{n: f"{here}.self.{n}" for n in ("query", "key", "value")}}
        own = {f"a.{n}.{k}": arrays[f"{name}.{k}"] for n, name in theirs.items() for k in ("weight", "bias")}
        if new > width:
            own |= _widened(own, "a", heads, new)
        else:
            x = torch.cat([states[f"{places[2 * layer][3]}>"][0] for states in read]).double()
            own |= _narrowed(own, "a", heads, new, torch.cat([x, x.new_ones(len(x), 1)], dim=1))
        for kind in ("weight", "bias"):
            own[f"a.query.{kind}"] = own[f"a.query.{kind}"] * (new / width) ** 0.5
        found |= {f"{name}.{k}": own[f"a.{n}.{k}"] for n, name in theirs.items() for k in ("weight", "bias")}
    return found


# --- back into the class ------------------------------------------------------------------------------


def _in_class_of(original: Any, decoder: Decoder, kind: str) -> Any:
    """A model of the original's class and options, at the decoder's width."""
    made = to_hf(decoder, allowed=1e-2)  # large queries and keys enlarge what float32 leaves of an angle
    m = decoder.config.embedding_dim
    options: dict[str, Any] = {"tie_word_embeddings": decoder.config.tied}
    if kind == "gpt2":
        options |= {"n_embd": m, "n_inner": decoder.config.mlp_dim, "scale_attn_weights": True}
        options["layer_norm_epsilon"] = made.config.layer_norm_epsilon
    elif kind == "gpt_neox":
        options |= {"hidden_size": m, "attention_bias": True, "rope_parameters": made.config.rope_parameters}
        options["layer_norm_eps"] = made.config.layer_norm_eps
    else:
        heads = {"head_dim": decoder.config.head_width, "num_key_value_heads": decoder.config.n_heads}
        options |= {"hidden_size": m, "rms_norm_eps": made.config.rms_norm_eps, **heads}
    model = type(original)(configured(original, **options)).eval()
    arrays = made.state_dict()
    wanted = model.state_dict()
    left = [name for name in arrays if name not in wanted and arrays[name].any()]
    if left:
        raise ValueError(f"the array {left[0]} has no place in a {type(original).__name__}")
    head = next(name for name in HEADS if name in wanted)
    arrays.setdefault(head, decoder.head.detach())
    model.load_state_dict({name: arrays[name] for name in wanted})
    model.generation_config = copy.deepcopy(original.generation_config)
    return model


# --- the report ---------------------------------------------------------------------------------------


def _notes(old: Any, new: Any, layout: Layout, how: Map, rules: Rules, *, text: bool) -> list[str]:
    """What is not carried, or changed its form."""
    (d, width), (m, new_width) = ((one.config.hidden_size, _head_width(one.config)) for one in (old, new))
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
    if new_width < width and rules == "exact":
        notes.append(
            f"heads share the width: of {width} coordinates each keeps {new_width}, "
            "those that matter most to its products"
        )
    if new_width > width and rules == "exact":
        notes.append(f"heads share the width: each has {new_width - width} more, of 0")
    if how == "repeat" and m > d:
        notes.append("copies of a coordinate have equal gradients, so that fine-tuning leaves them equal")
    if how == "zeros" and m > d:
        notes.append("the appended coordinates are 0 and get no gradient from what reads them")
    if getattr(old.config, "sliding_window", None):
        notes.append("the window of attention stays")
    notes.append("hidden units of the MLPs stay, and an optimizer's state is not carried")
    return notes


def _head_width(config: Any) -> int:
    return getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
