"""A causal language model of weights, and its next-token loss on a text."""

from __future__ import annotations

import math
import os
import tempfile
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from embviz.corpora.registry import resolve_path
from embviz.files.gguf import is_gguf, read_gguf
from embviz.files.pretrained import load_pretrained
from embviz.files.weights import Weights
from embviz.memory import require_memory

CAUSAL = ("LMHeadModel", "ForCausalLM")
MOST_RISE = 1e-3  # of a logit, of their largest, when a later token changes: rounding


def next_token_loss(module: nn.Module, ids: Tensor) -> Tensor:
    """Mean cross-entropy of each token but the first, in nats.

    Parameters
    ----------
    module : nn.Module
        From ids (B, T) to logits (B, T, V), or to an output of Hugging Face with such.
    ids : integer tensor, shape (B, T + 1)
    """
    return cross_entropy(_logits(module, ids[:, :-1]).flatten(0, 1).float(), ids[:, 1:].flatten())


def _logits(module: nn.Module, ids: Tensor) -> Tensor:
    found = module(ids)
    found = getattr(found, "logits", found)
    if not isinstance(found, Tensor) or found.ndim != 3 or found.shape[:2] != ids.shape:
        shape = tuple(found.shape) if isinstance(found, Tensor) else type(found).__name__
        raise ValueError(
            f"the module gives {shape} for ids {tuple(ids.shape)}, not one row of logits for each position"
        )
    return found


def require_causal(module: nn.Module, ids: Tensor) -> None:
    """Refuse a model whose logits at a place of `ids`, (B, T), change with a later token."""
    other = ids.clone()
    other[:, -1] = ids[:, 0] if (ids[:, 0] != ids[:, -1]).any() else (ids[:, -1] + 1) % (int(ids.max()) + 1)
    with torch.no_grad():
        first, second = (_logits(module, one)[:, :-1] for one in (ids, other))
    if (first - second).abs().max() > MOST_RISE * first.abs().max():
        raise ValueError("its logits at a position depend on later tokens: it is not a causal language model")


def require_room(weights: Weights, n_tokens: int) -> None:
    """MemoryError for a model that does not fit, in its stored precision, with the logits of a string."""
    shapes = [array.shape for array in weights.arrays.values()]
    rows = max((shape[0] for shape in shapes), default=0)
    stored = str(weights.config.get("dtype") or weights.config.get("torch_dtype"))
    loaded = 0 if weights.module is not None else sum(map(math.prod, shapes))
    n_bytes = (2 if stored.endswith("float16") else 4) * loaded + 16 * n_tokens * rows
    require_memory(n_bytes, what="the next-token loss", instead="take a smaller model")


def causal_model(weights: Weights, source: Any, *, stored_precision: bool = False) -> nn.Module:
    """The module that gives a model's logits: itself, or what Transformers makes of a folder or a GGUF file.

    `source` is what the weights were read from. Of a folder safetensors alone are read, no code of the
    model's runs, and nothing is asked of the network; with `stored_precision` its weights stay in the
    precision in which they are stored, as of 16 bits, instead of float32.
    """
    if weights.module is not None:
        return weights.module
    path = resolve_path(source) if isinstance(source, str | os.PathLike) else None
    if path is not None and path.is_file() and is_gguf(path):
        return _of_gguf(path)
    if path is None or not path.is_dir():
        raise ValueError(
            "weights alone have no loss: give a module, a folder of Hugging Face, or a GGUF file"
        )
    kinds = weights.config.get("architectures") or []
    if not any(kind.endswith(CAUSAL) for kind in kinds):
        raise ValueError(f"{', '.join(kinds) or 'a model of no architecture'} is no causal language model")
    if "quantization_config" in weights.config:
        raise ValueError("its weights are quantized: take the model in 16 or 32 bits")
    dtype = "auto" if stored_precision else torch.float32
    return _loaded(path, dtype=dtype, use_safetensors=True)


def _of_gguf(path: Path) -> nn.Module:
    """A GGUF file's causal language model, float32.

    Transformers reads it from a copy without its tokens, in seconds instead of minutes.
    """
    found = read_gguf(path)
    if "tie_word_embeddings" not in found.config:
        raise ValueError(f"{found.config['model_type']} is no causal language model")
    with tempfile.TemporaryDirectory() as folder:
        found.write_without_tokens(Path(folder, "model.gguf"))
        return _loaded(Path(folder), dtype=torch.float32, gguf_file="model.gguf")


def _loaded(folder: Path, **options: Any) -> nn.Module:
    module: nn.Module
    module, _ = load_pretrained(folder, "AutoModelForCausalLM", attn_implementation="eager", **options)
    return module
