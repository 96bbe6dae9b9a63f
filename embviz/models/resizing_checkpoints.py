"""A checkpoint of Hugging Face at another width, in the same class, and a report of what it cost.

Two things that a family's class cannot hold are gone around. GPT-2 and GPT-NeoX have LayerNorm, whose
centering turns with the basis: the map takes the direction of ones to the direction of ones, and so
commutes with it. Their heads share the width: wider ones get coordinates of 0, narrower ones keep their
strongest directions. A Llama's heads have a width of their own and stay.
"""

from __future__ import annotations

import copy
import dataclasses
import json
import os
import shutil
import tempfile
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
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
from embviz.imports import import_transformers
from embviz.memory import require_memory
from embviz.models.decoder import Decoder, DecoderBlock, DecoderConfig, nearest_multiples, with_weights
from embviz.models.huggingface import FAMILIES, HEADS, family, from_hf, to_hf
from embviz.models.resizing import logit_error, resize
from embviz.projections import Projection

Map = Literal["orthonormal", "pca"]
EXACT = 1e-4  # relative error in float32 under which a part counts as carried exactly
N_TRIED = 32  # tokens of a string, drawn at random, where no text is given
BYTES_A_PARAMETER = 28  # the original, two decoders in float32, and one in float64
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
        part, layer (-1: none), error, exact. For the original's stream x, |f~(T x) - T f(x)| / |T f(x)| of
        each part f, the last one's output being logits; exact: below 1e-4.
    logit_error : float
        Relative error of the logits, of the whole model.
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
    if not isinstance(kind, str) or kind not in FAMILIES:
        raise ValueError(f"{path} holds a {kind!r}: known are {', '.join(FAMILIES)}")
    if "quantization_config" in config:
        raise ValueError(f"the weights in {path} are rounded: products of them are not; give the original")
    if not any(path.glob("*.safetensors")):
        raise FileNotFoundError(
            f"{path} has no safetensors; other files may hold code that runs when they are read: convert them"
        )
    _refuse_sizes(path, config)
    tf = import_transformers()
    try:
        with _quietly(tf):
            model, loading = tf.AutoModelForCausalLM.from_pretrained(
                path, local_files_only=True, trust_remote_code=False, use_safetensors=True,
                dtype=torch.float32, output_loading_info=True, ignore_mismatched_sizes=True,
            )  # fmt: skip
    except (MemoryError, ImportError):
        raise
    except Exception as error:  # of any type, from the configuration or the files
        reason = " ".join(str(error).split())[:200] or "no reason is given"
        raise ValueError(
            f"Transformers makes no model of {path} ({type(error).__name__}: {reason}): mend config.json, or "
            "get the files again"
        ) from error
    _require_all(path, loading)
    for name, array in model.state_dict().items():
        if array.is_floating_point() and not bool(array.isfinite().all()):
            raise ValueError(f"{name} in {path} has NaN or infinite values: take an earlier checkpoint")
    model.config.dtype = _type_of(config, path)
    return model.eval()


def _require_all(path: Path, loading: dict[str, Any]) -> None:
    """Refuse arrays that are missing or of another shape; tell those that have no place."""
    if misfits := sorted(map(_name_of, loading["mismatched_keys"])):
        raise ValueError(f"{misfits[0]} in {path} has another shape than its config.json gives: mend that")
    if missing := sorted(loading["missing_keys"]):
        raise ValueError(f"{path} lacks {missing[0]}, and others perhaps: it would start at random")
    if unused := sorted(loading["unexpected_keys"]):
        message = (
            f"{path} has {len(unused)} arrays without a place in the model, such as {unused[0]}: left out"
        )
        warnings.warn(message, stacklevel=3)


def _name_of(key: Any) -> str:
    return key if isinstance(key, str) else str(key[0])  # Transformers gives shapes beside it


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


@contextmanager
def _quietly(transformers: Any) -> Iterator[None]:
    """No bars of progress, and no reports of what is told in our words."""
    logging = transformers.utils.logging
    shown, level = logging.is_progress_bar_enabled(), logging.get_verbosity()
    logging.disable_progress_bar()
    logging.set_verbosity_error()
    try:
        yield
    finally:
        logging.set_verbosity(level)
        if shown:
            logging.enable_progress_bar()


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
        with _quietly(import_transformers()):
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
    seed: int = 0,
    tokens: Tensor | None = None,
) -> ResizedCheckpoint:
    """Carry a language model of Hugging Face to another width, in its own class.

    Gains and biases of norms are folded into the maps that read them, and hidden units of the MLPs stay. What
    was grouped stays grouped: keys and values are not touched along their own axis.

    Parameters
    ----------
    model : GPT2LMHeadModel, LlamaForCausalLM, MistralForCausalLM or GPTNeoXForCausalLM
    m : int
        The new width, a multiple of the heads but of Mistral; of GPT-NeoX not below the old one.
    how : "orthonormal" or "pca"
        Random orthonormal rows (columns where m is above the old width), or the leading principal directions
        of the stream on `tokens`.
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
    if how not in get_args(Map):
        raise ValueError(f"no map {how!r}: choose one of {', '.join(get_args(Map))}")
    if (kind := family(model)) is None:
        known = ", ".join(FAMILIES.values())
        raise ValueError(f"a {type(model).__name__} is not known here: give one of {known}")
    n_parameters = sum(array.numel() for array in model.parameters())
    require_memory(
        BYTES_A_PARAMETER * n_parameters,
        what=f"carrying {n_parameters:,} parameters",
        instead="take a smaller model, or a machine with more memory",
    )
    dtype = getattr(model.config, "dtype", None) or torch.float32
    old = from_hf(model).float()
    _require_width(kind, old.config, m)
    _require_logits(old)
    if tokens is None and how == "pca":
        raise ValueError("principal components need a text: give one, or choose the map 'orthonormal'")
    seen, held_out = _halves(_tokens(old.config) if tokens is None else tokens, old.config)
    projection, energy = _map(old, m, how, seed, seen)
    found = resize(old, m, projection=projection, energy=energy, centering="keep")
    new = _fit_heads(_bias_into_norm(found.model), m, kind, seen)
    carried = _in_class_of(model, new, kind).to(dtype)
    with torch.no_grad():
        before, after = (_by_string(one, held_out) for one in (old, _Logits(carried.float())))
        error = logit_error(torch.cat([logits for logits, _ in after]), torch.cat([one for one, _ in before]))
        parts = commuting_errors(old, new, projection, held_out[:1, :-1])
    losses = tuple(float(torch.cat([loss for _, loss in one]).mean()) for one in (before, after))
    return ResizedCheckpoint(
        carried.to(dtype),
        projection,
        parts,
        error,
        None if tokens is None else cast(tuple[float, float], losses),
        (_n_bytes(model, dtype), _n_bytes(carried, dtype)),
        (n_parameters, sum(array.numel() for array in carried.parameters())),
        tuple(_notes(model, old.config, new, kind, how)),
    )


def _require_logits(model: Decoder) -> None:
    """Refuse a model whose logits do not vary: no error is relative to them."""
    with torch.no_grad():
        logits = model(_tokens(model.config)[:1, :-1])
    if not bool((logits - logits.mean(-1, keepdim=True)).any()):
        raise ValueError(
            "all logits of the model are equal, so no error can be relative to them: are its weights zeros, "
            "or too large for float32?"
        )


class _Logits(nn.Module):
    """A model of Hugging Face from tokens to logits."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, tokens: Tensor) -> Tensor:
        logits: Tensor = self.model(tokens).logits
        return logits


def _by_string(model: nn.Module, ids: Tensor) -> list[tuple[Tensor, Tensor]]:
    """Logits and losses, a string of the text at a time."""
    found = [model(string[None, :-1])[0] for string in ids]
    return [
        (logits, cross_entropy(logits, string[1:], reduction="none"))
        for logits, string in zip(found, ids, strict=True)
    ]


def _tokens(config: DecoderConfig) -> Tensor:
    n = min(N_TRIED, config.length)
    return torch.randint(config.n_symbols, (2, n + 1), generator=torch.Generator().manual_seed(0))


def _halves(ids: Tensor, config: DecoderConfig) -> tuple[Tensor, Tensor]:
    """Every other string, which principal directions see, and those between, which errors are measured on."""
    if ids.ndim != 2 or len(ids) < 2 or not 3 <= ids.shape[1] <= config.length + 1:
        raise ValueError(
            f"tokens have shape {tuple(ids.shape)}: give two strings at least, of 3 to {config.length + 1}"
        )
    if not 0 <= int(ids.min()) <= int(ids.max()) < config.n_symbols:
        raise ValueError(
            f"tokens are {int(ids.min())} to {int(ids.max())}, and must be 0 to {config.n_symbols - 1}"
        )
    return ids[::2], ids[1::2]


def _n_bytes(model: nn.Module, dtype: torch.dtype) -> int:
    return sum(array.numel() for array in model.parameters()) * torch.empty((), dtype=dtype).element_size()


def _require_width(kind: str, config: DecoderConfig, m: int) -> None:
    heads, d = config.n_heads, config.embedding_dim
    if m < 2:
        raise ValueError(f"the width is {m}: two dimensions are the least")
    if kind != "mistral" and m % heads:  # a Llama's heads are free of its width, but its class asks for it
        raise ValueError(
            f"a {FAMILIES[kind]} wants a width that its {heads} heads divide, and {m} is none: take "
            f"{nearest_multiples(m, heads)}"
        )
    if kind == "gpt_neox" and m < d:
        raise ValueError(
            f"a {FAMILIES[kind]} of width {m} would have heads of {m // heads} coordinates instead of "
            f"{config.head_width}, and rotary positions turn fixed pairs of them: take a width from {d} on"
        )


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
    return projections.given(np.full((m, d), 1 / np.sqrt(m * d)) + rows @ inner @ columns.T)


def _complement(n: int) -> np.ndarray:
    """An orthonormal basis (n, n - 1) of what is orthogonal to ones."""
    return np.linalg.qr(np.column_stack([np.ones(n), np.eye(n)[:, : n - 1]]))[0][:, 1:]


def _map(model: Decoder, m: int, how: Map, seed: int, ids: Tensor) -> tuple[Projection, float]:
    """T, and the share of the stream's energy that it keeps, as norms see it."""
    d, centered = model.config.embedding_dim, model.config.norm == "layer"
    states = np.empty((0, d))
    if how == "pca" and m < d:
        with torch.no_grad():
            found = [torch.stack(model.states(string[None, :-1])).flatten(0, 2) for string in ids]
        states = torch.cat(found).double().numpy()
        states = states - states.mean(axis=1, keepdims=True) if centered else states
        states = states / np.maximum(np.linalg.norm(states, axis=1, keepdims=True), 1e-12)
    if centered:  # in the complement of ones
        inner = _inner(m - 1, d - 1, seed, states @ _complement(d))
        projection, energy = _ones_kept(inner.matrix), min(m - 1, d - 1) / (d - 1)
    else:
        projection = _inner(m, d, seed, states)
        energy = min(m, d) / d
    if len(states):
        energy = float((projection.apply(states) ** 2).sum() / (states**2).sum())
    return projection, energy


def _inner(m: int, d: int, seed: int, states: np.ndarray) -> Projection:
    if len(states):
        return projections.pca(states, m)
    return projections.draw("orthonormal", m, d, seed=seed, scaling="unit")


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
            weights |= _widened(weights, here, config, new)
        else:
            weights |= _narrowed(weights, here, config, new, _read_by(model, layer, ids))
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


def _widened(weights: dict[str, Tensor], here: str, config: DecoderConfig, new: int) -> dict[str, Tensor]:
    """Each head with coordinates of 0 after its own."""
    found = {}
    for name in ("query.weight", "query.bias", "key.weight", "key.bias", "value.weight", "value.bias"):
        if (full := f"{here}.{name}") in weights:
            by_head = weights[full].unflatten(0, (config.n_heads, -1))
            more = by_head.new_zeros(config.n_heads, new - by_head.shape[1], *by_head.shape[2:])
            found[full] = torch.cat([by_head, more], dim=1).flatten(0, 1)
    out = weights[f"{here}.out.weight"].unflatten(1, (config.n_heads, -1))
    more = out.new_zeros(*out.shape[:2], new - out.shape[2])
    return found | {f"{here}.out.weight": torch.cat([out, more], dim=2).flatten(1, 2)}


def _narrowed(
    weights: dict[str, Tensor], here: str, config: DecoderConfig, new: int, x: Tensor
) -> dict[str, Tensor]:
    """Each head's products, of queries with keys and of values with what writes them, at a lower rank.

    The rank is the best for what is read, x (n, m + 1). Of keys the mean is left out: a product that is the
    same with all keys takes no part in a softmax.
    """

    def read(name: str) -> Tensor:  # (H, W, m + 1): a bias is one more input, which is 1
        rows = weights[f"{here}.{name}.weight"]
        bias = weights.get(f"{here}.{name}.bias", rows.new_zeros(len(rows)))
        both = torch.cat([rows, bias[:, None]], dim=1)
        return both.unflatten(0, (config.n_heads, -1)).double()

    out = (
        weights[f"{here}.out.weight"].unflatten(1, (config.n_heads, -1)).movedim(1, 0).mT.double()
    )  # (H, W, m)
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


# --- back into the class ------------------------------------------------------------------------------


def _in_class_of(original: Any, decoder: Decoder, kind: str) -> Any:
    """A model of the original's class and options, at the decoder's width."""
    made = to_hf(decoder)
    m = decoder.config.embedding_dim
    options: dict[str, Any] = {"tie_word_embeddings": decoder.config.tied}
    if kind == "gpt2":
        options |= {"n_embd": m, "n_inner": decoder.config.mlp_dim, "scale_attn_weights": True}
        options["layer_norm_epsilon"] = made.config.layer_norm_epsilon
    elif kind == "gpt_neox":
        options |= {"hidden_size": m, "attention_bias": True, "rope_parameters": made.config.rope_parameters}
        options["layer_norm_eps"] = made.config.layer_norm_eps
    else:
        options |= {"hidden_size": m, "head_dim": decoder.config.head_width}
        options["rms_norm_eps"] = made.config.rms_norm_eps
    config = copy.deepcopy(original.config)
    for name, value in options.items():
        setattr(config, name, value)
    model = type(original)(config).eval()
    arrays = made.state_dict()
    if kind in ("llama", "mistral"):
        arrays = _regrouped(arrays, config)
    wanted = model.state_dict()
    left = [name for name in arrays if name not in wanted and arrays[name].any()]
    if left:
        raise ValueError(f"the array {left[0]} has no place in a {type(original).__name__}")
    head = next(name for name in HEADS if name in wanted)
    arrays.setdefault(head, decoder.head.detach())
    model.load_state_dict({name: arrays[name] for name in wanted})
    model.generation_config = copy.deepcopy(original.generation_config)
    return model


def _regrouped(arrays: dict[str, Tensor], config: Any) -> dict[str, Tensor]:
    """Keys and values once for each group of queries, as they were."""
    heads, groups = config.num_attention_heads, config.num_key_value_heads
    if heads == groups:
        return arrays
    found = dict(arrays)
    for name, array in arrays.items():
        if "k_proj" in name or "v_proj" in name:
            by_head = array.unflatten(0, (groups, heads // groups, -1))
            found[name] = by_head[:, 0].flatten(0, 1).contiguous()
    return found


# --- the report ---------------------------------------------------------------------------------------


@torch.no_grad()
def commuting_errors(old: Decoder, new: Decoder, projection: Projection, tokens: Tensor) -> pd.DataFrame:
    """How far each part of the new model is from the map of the old one's.

    Parameters
    ----------
    old, new : Decoder
        Pre-norm.
    projection : Projection
        T (m x D).
    tokens : integer tensor, shape (B, T)

    Returns
    -------
    DataFrame
        part, layer, error, exact; see :class:`ResizedCheckpoint`.

    Source
    ------
    The resizing paper, eq. 1, part by part.
    """
    T = torch.from_numpy(np.ascontiguousarray(projection.matrix)).to(old.embedding)
    states = old.states(tokens)
    rows: list[tuple[str, int, float]] = [("embedding", -1, _relative(new.embed(tokens), states[0] @ T.T))]
    for layer, (ours, theirs) in enumerate(zip(old.blocks, new.blocks, strict=True)):
        assert isinstance(ours, DecoderBlock)
        assert isinstance(theirs, DecoderBlock)
        x = states[layer]
        for index, (part, name) in enumerate((("attention", "attention"), ("mlp", "MLP"))):
            answer = getattr(ours, part)(ours.before[index](x))
            image = getattr(theirs, part)(theirs.before[index](x @ T.T))
            rows.append((name, layer, _relative(image, answer @ T.T)))
            x = x if ours.config.parallel else x + answer
    last = states[-1]
    rows.append(("last norm and head", -1, _relative(new.read_out(last @ T.T), old.read_out(last))))
    table = pd.DataFrame(rows, columns=["part", "layer", "error"])
    return table.assign(exact=table["error"] < EXACT)


def _relative(new: Tensor, old: Tensor) -> float:
    return float((new.double() - old.double()).norm() / old.double().norm().clamp_min(1e-30))


def _notes(model: Any, old: DecoderConfig, new: Decoder, kind: str, how: Map) -> list[str]:
    d, m = old.embedding_dim, new.config.embedding_dim
    notes = []
    if m < d:
        notes.append(
            f"{d - m} of {d} directions of the stream are gone: what is written there is not read any more"
        )
    if how == "pca" and m >= d:
        notes.append("no direction is left out, so that the map is a random one")
    if old.tied and not new.config.tied:
        notes.append("the head is an array of its own now: the last norm's gains are folded into it")
    if new.config.head_width < old.head_width:
        notes.append(
            f"heads share the width: of {old.head_width} coordinates each keeps {new.config.head_width}, "
            "those that matter most to its products"
        )
    elif new.config.head_width > old.head_width:
        notes.append(f"heads share the width: each has {new.config.head_width - old.head_width} more, of 0")
    if kind in ("gpt2", "gpt_neox") and m < d:
        notes.append("the last norm's bias, which no narrower head can read in full, is fitted to it")
    if kind == "mistral" and getattr(model.config, "sliding_window", None):
        notes.append("the window of attention stays; errors are measured on strings within it")
    notes.append(f"hidden units of the MLPs stay: {old.mlp_dim}")
    notes.append("an optimizer's state is not carried: fine-tuning starts afresh")
    return notes
