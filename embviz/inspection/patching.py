"""Replace one matrix of a language model, and measure what that costs: is its content needed?"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pandas as pd
import torch
from torch import Tensor, nn
from tqdm.auto import tqdm

from embviz.files.pretrained import evaluating
from embviz.files.weights import plain_name
from embviz.inspection import causal_models, roles
from embviz.inspection.weight_files import given_strings, read_weights
from embviz.metrics import bootstrap_interval

How = str | Callable[[np.ndarray], np.ndarray]
UNCHANGED, PERMUTED = "unchanged", "permuted"
FORM = re.compile(r"(rank|without head) (\d+)$")


def patch(
    model: Any,
    name: str,
    how: How | Sequence[How] = ("zero", "identity"),
    *,
    text: Any = None,
    tokenizer: Any = None,
    strings: Tensor | None = None,
    n_strings: int = 8,
    progress: bool = False,
) -> pd.DataFrame:
    """The next-token loss of a model with one matrix replaced; afterwards the model is as it was.

    Parameters
    ----------
    model : nn.Module, folder of Hugging Face, GGUF file, or name of a released model
        A causal language model. Names of a GGUF file's matrices are those of Hugging Face.
    name : str
        Of the matrix, or parts of its name in their order: ``"layers.5.q_proj"``. They fit one matrix only.
    how : str, function of the matrix, or several of them
        "zero"; "identity" (ones on the diagonal, at the matrix's norm); "key" (the layer's key matrix, its
        heads repeated where they are fewer); "permuted" (the same entries in random places); "rank 8" (its
        best approximation of that rank); "without head 3" (this head's rows, or columns of an output matrix,
        at zero). "permuted" is always measured too, as the control.
    text, tokenizer : text, path or Corpus, and a tokenizer
        What the loss is taken on. The tokenizer's first token stands before each string.
    strings : integer tensor, (B, T + 1), optional
        Tokens instead of a text.
    n_strings : int
        Strings of the text, evenly spread, of 256 tokens each.
    progress : bool, default False
        Whether a bar shows how many strings of how many replacements are done.

    Returns
    -------
    DataFrame
        how; loss in bits a token; difference from the unchanged model with its 95% interval over strings
        (low, high).

    Examples
    --------
    >>> from transformers import GPT2Config, GPT2LMHeadModel
    >>> tiny = GPT2LMHeadModel(GPT2Config(vocab_size=20, n_positions=8, n_embd=8, n_layer=1, n_head=2))
    >>> found = patch(tiny, "h.0.mlp.c_fc", "zero", strings=torch.arange(16).view(2, 8))
    >>> found["how"].tolist()
    ['unchanged', 'zero', 'permuted']
    """
    weights = read_weights(model)
    strings = given_strings(strings, text, tokenizer, weights, n_strings)
    if strings.ndim != 2 or strings.shape[1] < 3:
        raise ValueError(
            f"strings of shape {tuple(strings.shape)}: (B, T + 1) with T of at least 2 is needed"
        )
    module = causal_models.causal_model(weights, model)
    parameter_name, parameter = _parameter(module, name)
    asked = [how] if isinstance(how, str) or callable(how) else list(how)
    asked = [*asked, *([] if PERMUTED in asked else [PERMUTED])]
    before = parameter.detach().float().cpu().numpy().copy()
    made = {
        one if isinstance(one, str) else one.__name__: _replaced(before, one, parameter_name, module)
        for one in asked
    }
    bar = tqdm(total=(1 + len(made)) * len(strings), desc="loss, strings", disable=not progress, leave=False)
    with bar, evaluating(module), torch.no_grad():
        kept = parameter.detach().clone()
        own = _bits(module, strings, bar)
        rows = [(UNCHANGED, own.mean(), 0.0, 0.0, 0.0)]
        try:
            for label, matrix in made.items():
                parameter.copy_(torch.from_numpy(matrix))
                losses = _bits(module, strings, bar)
                change = losses - own
                low, high = bootstrap_interval(change, seed=0) if len(own) > 1 else (np.nan, np.nan)
                rows.append((label, losses.mean(), change.mean(), low, high))
                parameter.copy_(kept)
        finally:
            parameter.copy_(kept)
    return pd.DataFrame(rows, columns=["how", "loss", "difference", "low", "high"])


def _bits(module: nn.Module, strings: Tensor, bar: Any) -> np.ndarray:
    """Next-token loss of each string, bits a token."""
    device = next(module.parameters()).device
    losses = []
    for one in strings:
        losses.append(causal_models.next_token_loss(module, one[None].to(device)).item())
        bar.update()
    return np.array(losses) / np.log(2)


def _parameter(module: nn.Module, name: str) -> tuple[str, nn.Parameter]:
    """The one matrix whose name has these parts in their order."""
    every = {plain_name(key): value for key, value in module.named_parameters() if value.ndim == 2}
    if name in every:
        return name, every[name]
    parts = name.removesuffix(".weight").split(".")
    form = re.compile(r"(?:^|.*\.)" + r"\.(?:.*\.)?".join(map(re.escape, parts)) + r"(?:\.weight)?$")
    fitting = [key for key in every if form.match(key)]
    if len(fitting) != 1:
        shown = ", ".join((fitting or list(every))[:6])
        raise ValueError(f"{len(fitting)} matrices fit the name {name!r}; such are {shown}")
    return fitting[0], every[fitting[0]]


def _replaced(matrix: np.ndarray, how: How, name: str, module: nn.Module) -> np.ndarray:
    """The matrix in the place of another."""
    if not isinstance(how, str):
        found = np.asarray(how(matrix.copy()), dtype=np.float32)
        if found.shape != matrix.shape:
            raise ValueError(f"the function gives {found.shape}, and {name} is {matrix.shape}")
        return found
    if how == "zero":
        return np.zeros_like(matrix)
    if how == PERMUTED:
        return np.random.default_rng(0).permutation(matrix.ravel()).reshape(matrix.shape)
    if how == "identity":
        eye = np.eye(*matrix.shape, dtype=np.float32)
        return eye * np.float32(np.linalg.norm(matrix) / np.linalg.norm(eye))
    if how == "key":
        return _keys(matrix, name, module)
    if (match := FORM.match(how)) is None:
        raise ValueError(
            f"{how!r} is no replacement: zero, identity, key, permuted, rank N, without head N, or a function"
        )
    number = int(match[2])
    if match[1] == "without head":
        return _headless(matrix, number, name, module)
    left, values, right = np.linalg.svd(matrix, full_matrices=False)
    best: np.ndarray = (left[:, :number] * values[:number]) @ right[:number]
    return best


def _heads_of(name: str, module: nn.Module) -> tuple[str, Any, int, int]:
    """Q, K, V or O, the layer's matrices, and the heads of queries and of keys, for a separate matrix."""
    weights = read_weights(module)
    n_heads, n_kv = roles.heads_of(weights)
    if n_heads is None or n_kv is None:
        raise ValueError("the number of heads is not known")
    every = roles.layer_maps(weights, n_heads, n_kv)
    own = [one for one in every if weights.arrays.get(name) is one.array]
    if not own or own[0].kind not in ("Q", "K", "V", "O"):
        raise ValueError(f"{name} is no separate matrix of queries, keys, values or outputs: it has no heads")
    layer = {one.kind: one.array for one in every if one.layer == own[0].layer}
    return own[0].kind, layer, n_heads, n_kv


def _keys(matrix: np.ndarray, name: str, module: nn.Module) -> np.ndarray:
    kind, layer, n_heads, n_kv = _heads_of(name, module)
    keys = np.repeat(layer["K"].read().reshape(n_kv, -1, matrix.shape[1]), n_heads // n_kv, axis=0)
    keys = keys.reshape(-1, matrix.shape[1])
    if kind != "Q" or keys.shape != matrix.shape:
        raise ValueError(f"keys of shape {keys.shape} do not fit {name} of shape {matrix.shape}")
    return keys.astype(np.float32)


def _headless(matrix: np.ndarray, head: int, name: str, module: nn.Module) -> np.ndarray:
    kind, _, n_heads, n_kv = _heads_of(name, module)
    n = n_heads if kind in ("Q", "O") else n_kv
    if head >= n:
        raise ValueError(f"{name} has {n} heads, and no head {head}")
    found = matrix.copy()
    axis = 1 if kind == "O" else 0
    np.split(found, n, axis=axis)[head][:] = 0  # a view
    return found
