"""Hidden states of a language model by layer: isotropy, nearest states, and what each layer predicts."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy
from tqdm.auto import tqdm

from embviz.corpora.tokens import token_texts
from embviz.files.pretrained import evaluating
from embviz.inspection import causal_models
from embviz.inspection.weight_files import given_strings, read_weights
from embviz.metrics import bootstrap_interval, mean_cosine, nearest_neighbors, normalize
from embviz.words.wordvectors import token_names

N_TOKENS = 128  # of a string
N_PLACES, N_NEIGHBORS = 3, 5  # of a token, and of each of its places
NORMS = ("norm", "ln_f", "final_layer_norm", "final_layernorm")  # names of the norm before the output matrix
COLUMNS = ["layer", "quantity", "value", "low", "high", "control"]


def hidden_states(
    model: Any,
    *,
    text: Any = None,
    tokenizer: Any = None,
    strings: Tensor | None = None,
    n_strings: int = 8,
    progress: bool = False,
) -> pd.DataFrame:
    """Measure the hidden states of a causal language model after each layer, on a text.

    Parameters
    ----------
    model : nn.Module of Transformers, folder of Hugging Face, GGUF file, or name of a released model
    text, tokenizer : text, path or Corpus, and a tokenizer
        The tokenizer's first token stands before each string, and its state is left out.
    strings : integer tensor, (B, T + 1), optional
        Tokens instead of a text.
    n_strings : int
        Strings of the text, evenly spread, of 128 tokens each.
    progress : bool, default False
        Whether a bar shows how far the layers are.

    Returns
    -------
    DataFrame
        layer (0: the embedding), quantity, value, its 95% interval over strings (low, high), and the control:

        - "mean cosine" of two states of one string, and "mean cosine, centred" (the mean of all states is
          taken off); the control has the states' entries in random places.
        - "nearest state is of the same token": share of the states whose nearest among all, centred, comes
          from the same token at another place; only tokens that come at least twice. The control is a random
          state.
        - "logit lens, bits a token": the next-token loss if the model ended after this layer; "logit lens,
          agreement": the share of positions at which it predicts what the last layer does. The control has
          the states in random order, on one string.

    Source
    ------
    Ethayarajh (2019) for cosines by layer; nostalgebraist (2020), interpreting GPT: the logit lens.
    """
    module, strings = _read(model, text, tokenizer, strings, n_strings)
    with evaluating(module), torch.no_grad():
        ids, states, logits = _states_of(module, strings)
        last = logits[:, 1:].argmax(-1)
        rows: list[tuple[Any, ...]] = []
        bar = tqdm(states, desc="layers", disable=not progress, leave=False)
        for layer, state in enumerate(bar):
            rng = np.random.default_rng(0)
            kept = state[:, 1:].float()  # the first token's state is unlike all others in most models
            every = kept.cpu().numpy().astype(np.float64)
            measured = [*_cosines(every, rng), _same_token(every, ids[:, 1:-1].cpu().numpy())]
            if (lens := _lens(module, ended=layer == len(states) - 1)) is not None:
                measured += _predictions(lens, kept.to(state.dtype), ids[:, 2:], last, rng)
            rows += [(layer, name, *_with_interval(values), control) for name, values, control in measured]
    return pd.DataFrame(rows, columns=COLUMNS)


def nearest_states(model: Any, token: str, *, text: Any, tokenizer: Any, n_strings: int = 8) -> pd.DataFrame:
    """The states nearest to a token's in a text, after each layer: what the model takes for alike.

    Parameters
    ----------
    model, text, tokenizer, n_strings
        As of :func:`hidden_states`; a text and a tokenizer are needed.
    token : str
        As the tokenizer writes it, or without its sign for a blank (``bank`` for ``▁bank``).

    Returns
    -------
    DataFrame
        layer (0: the embedding), place (the first three, with the text around), rank, neighbor (another place
        with the text around it), cosine of the two states with the mean of all states taken off, and the
        control: the largest cosine of a state with the same numbers in random places.
    """
    module, strings = _read(model, text, tokenizer, None, n_strings)
    rng = np.random.default_rng(0)
    with evaluating(module), torch.no_grad():
        every, states, _ = _states_of(module, strings)
    ids = every[:, 1:-1].cpu().numpy()  # without the first token, as there is no state of the last
    names = token_names(tokenizer, int(ids.max()) + 1)
    texts = token_texts(names)
    asked = [row for row, name in enumerate(names) if token in (name, texts[row], texts[row].strip())]
    places = np.flatnonzero(np.isin(ids.ravel(), asked))[:N_PLACES]
    if not len(places):
        raise ValueError(f"{token!r} is no token of the {ids.size:,} that were read: give more n_strings")
    around = [_around(texts, ids, place) for place in range(ids.size)]
    rows = []
    for layer, state in enumerate(states):
        table = state[:, 1:].float().cpu().numpy().astype(np.float64).reshape(ids.size, -1)
        unit = normalize(table - table.mean(axis=0))
        near, distances = nearest_neighbors(
            unit, min(N_NEIGHBORS, len(unit) - 1), asked=places, metric="cosine"
        )
        for place, others, far in zip(places, near, distances, strict=True):
            control = (unit @ rng.permutation(unit[place])).max()
            rows += [
                (layer, around[place], rank + 1, around[other], 1 - far[rank], control)
                for rank, other in enumerate(others)
            ]
    return pd.DataFrame(rows, columns=["layer", "place", "rank", "neighbor", "cosine", "control"])


def _around(texts: list[str], ids: np.ndarray, place: int) -> str:
    """A token in brackets, with the tokens around it in its string."""
    string, at = divmod(place, ids.shape[1])
    words = [texts[i] for i in ids[string]]
    before, after = "".join(words[max(0, at - 4) : at]), "".join(words[at + 1 : at + 5])
    return " ".join(f"{before} [{words[at].strip()}] {after}".split())


def _read(
    model: Any, text: Any, tokenizer: Any, strings: Tensor | None, n_strings: int
) -> tuple[nn.Module, Tensor]:
    """The module, and the strings that are given or cut from the text."""
    weights = read_weights(model)
    strings = given_strings(strings, text, tokenizer, weights, n_strings, N_TOKENS)
    return causal_models.causal_model(weights, model), strings


def _states_of(module: nn.Module, strings: Tensor) -> tuple[Tensor, Any, Tensor]:
    """The strings' ids, the states of all layers, and the logits."""
    ids = strings.to(next(module.parameters()).device)
    found = module(ids[:, :-1], output_hidden_states=True)
    if not (states := getattr(found, "hidden_states", None)):
        raise ValueError(f"{type(module).__name__} gives no hidden states")
    return ids, states, found.logits


def _with_interval(values: np.ndarray) -> tuple[float, float, float]:
    values = values[np.isfinite(values)]
    if len(values) < 2:
        return (float(values.mean()) if len(values) else np.nan), np.nan, np.nan
    return float(values.mean()), *bootstrap_interval(values, seed=0)


Quantity = tuple[str, np.ndarray, float]


def _cosines(states: np.ndarray, rng: np.random.Generator) -> list[Quantity]:
    """Mean cosine of two states of one string, (B,), as they are and centred."""
    found = []
    for name, table in (
        ("mean cosine", states),
        ("mean cosine, centred", states - states.mean(axis=(0, 1))),
    ):
        permuted = rng.permutation(table.ravel()).reshape(table.shape)
        found.append((name, mean_cosine(table), float(mean_cosine(permuted).mean())))
    return found


def _same_token(states: np.ndarray, ids: np.ndarray) -> Quantity:
    """Of each string the share of states whose nearest is of the same token, and the chance."""
    table = (states - states.mean(axis=(0, 1))).reshape(-1, states.shape[-1])
    near, tokens = nearest_neighbors(table, 1, metric="cosine")[0][:, 0], ids.ravel()
    _, inverse, counts = np.unique(tokens, return_inverse=True, return_counts=True)
    several = counts[inverse] > 1
    same = np.where(several, tokens[near] == tokens, np.nan).reshape(ids.shape)
    with_several = ~np.isnan(same).all(axis=1)
    shares = np.array([np.nanmean(row) for row in same[with_several]])
    chance = (counts[inverse][several] - 1) / (len(tokens) - 1)
    return "nearest state is of the same token", shares, float(chance.mean()) if several.any() else np.nan


def _lens(module: nn.Module, *, ended: bool) -> Any:
    """What turns states into logits: the last norm, unless the state has passed it, and the output matrix."""
    given: Any = module  # nn.Module declares every attribute a tensor
    head = given.get_output_embeddings() if hasattr(given, "get_output_embeddings") else None
    base = getattr(module, getattr(module, "base_model_prefix", ""), None)
    norm: Any = next((getattr(base, name) for name in NORMS if hasattr(base, name)), None)
    if head is None or norm is None:
        return None
    return head if ended else lambda states: head(norm(states))


def _predictions(
    lens: Any, states: Tensor, targets: Tensor, last: Tensor, rng: np.random.Generator
) -> list[Quantity]:
    """Loss in bits and agreement with the last layer of each string, and of states in random order."""
    order = torch.from_numpy(rng.permutation(states.shape[0] * states.shape[1]))
    mixed = states.flatten(0, 1)[order.to(states.device)].view_as(states)
    found = []
    for each in (states, mixed[:1]):  # the control on one string, since a large vocabulary takes its time
        losses, agreements = [], []
        for state, target, final in zip(each, targets, last, strict=False):  # a string at a time
            logits = lens(state).float()
            losses.append(cross_entropy(logits, target).item() / np.log(2))
            agreements.append(float((logits.argmax(-1) == final).float().mean()))
        found.append((np.array(losses), np.array(agreements)))
    (bits, agree), (null_bits, null_agree) = found
    return [
        ("logit lens, bits a token", bits, float(null_bits.mean())),
        ("logit lens, agreement", agree, float(null_agree.mean())),
    ]
