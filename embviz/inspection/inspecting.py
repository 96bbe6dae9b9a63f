"""Your model in one call: a table of measurements of its weights, each beside its control."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import torch
from torch import Tensor, nn
from tqdm.auto import tqdm

from embviz.arrays import check_int
from embviz.corpora.tokens import token_kinds
from embviz.files.pretrained import evaluating
from embviz.files.weights import Weights
from embviz.inspection import causal_models, measures, roles, vocabulary
from embviz.inspection.findings import NOT, Inspection
from embviz.inspection.measures import Measured
from embviz.inspection.tables import MeasuredTable, measure_table
from embviz.inspection.token_kernels import kernel_of
from embviz.inspection.weight_files import (
    ModelText,
    cut_strings,
    first_token,
    model_text,
    read_weights,
    tokens_per_byte,
)
from embviz.metrics import bootstrap_interval
from embviz.words.wordvectors import token_names

EMBEDDING, OUTPUT, POSITIONS, BOTH = "embedding", "output", "positions", "embedding and output"
UNDERTRAINED, TOLD_APART = "under-trained tokens", "unused tokens told apart"
N_DRAWS = 5  # of each control that is drawn
N_SHOWN = 12  # tokens whose neighbours are shown
N_EXTREMES = 10  # rows of each end
N_TWINS = 100  # pairs of each sort
N_NEIGHBORS = 5  # nearest rows of a token that are shown
LONGEST = 60  # letters of a token that are shown
TYING = ("LMHeadModel", "ForCausalLM", "ForMaskedLM", "ForConditionalGeneration", "ForPreTraining")


def inspect(
    model: Any,
    tokenizer: Any = None,
    corpus: Any = None,
    *,
    n_heads: int | None = None,
    max_rows: int = 500,
    n_batches: int = 8,
    n_tokens: int = 256,
    seed: int = 0,
    progress: bool = False,
) -> Inspection:
    """The weights of a model: what is there beyond numbers in random places?

    Parameters
    ----------
    model : nn.Module, mapping of names to arrays, or path
        As for :func:`~embviz.inspection.weight_files.read_weights`: a module of any kind, a folder of Hugging
        Face, a file of safetensors, of GGUF, of PyTorch.
    tokenizer : a tokenizer of Hugging Face or ``tokenizers``, or a list of tokens, optional
        Names the rows; neighbours are shown with it.
    corpus : text, path or Corpus, optional
        For the kernel of tied embeddings, and for the next-token loss where the model is a causal language
        model: a module from ids to logits, or a folder of Hugging Face with safetensors or a GGUF file, which
        Transformers loads, in the precision in which it is stored. A text needs a tokenizer that cuts it, a
        Corpus one that knows its words.
    n_heads : int, optional
        Heads of queries, where neither configuration nor module says.
    max_rows : int
        Rows whose nearest rows are looked for among all rows; of larger tables so many are drawn. All else is
        measured on all rows.
    n_batches, n_tokens : int
        Strings of the text, evenly spread, whose next-token loss is taken, and tokens of each. Its control is
        the loss of the tokens' shares of the text. Where the tokenizer puts a token before a text
        (Gemma's ``<bos>``), every string begins with it.
    seed : int
        Of drawn rows, of controls and of intervals.
    progress : bool, default False
        Whether bars show how far it is.

    Returns
    -------
    Inspection

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> found = inspect({"wte.weight": rng.normal(size=(50, 8)), "lm_head.weight": rng.normal(size=(50, 8))})
    >>> found.tied, found.table.loc[0, "quantity"]
    (False, 'beyond the edge')
    """
    weights = read_weights(model)
    embedding = roles.find_embedding(weights)
    names = {EMBEDDING: embedding, OUTPUT: roles.find_output(weights, embedding)}
    V, D = weights.arrays[embedding].shape if embedding else (0, 0)
    rows = _sample(V, check_int(max_rows, "max_rows", low=4), seed)
    tied, why = _tied(weights, embedding, names[OUTPUT], rows)
    tokens = None if tokenizer is None or embedding is None else token_names(tokenizer, V)
    labels = [f"[row {row}]" for row in range(V)] if tokens is None else _legible(tokens)
    n_batches, n_tokens = check_int(n_batches, "n_batches", low=1), check_int(n_tokens, "n_tokens", low=2)
    heads, n_kv = roles.heads_of(weights)
    heads, n_kv = n_heads or heads, n_kv or n_heads or heads
    with tqdm(total=4, disable=not progress, leave=False, desc="all rows of the embedding") as bar:
        tables, measured = _measure_tables(weights, names, rows, tied, seed)
        measured += _measure_positions(weights, seed)
        _next(bar, "layers")
        layers = _measure_layers(weights, heads, n_kv, seed, progress)
        measured += layers
        _next(bar, "kinds of tokens, twins")
        own = tables.get(EMBEDDING)
        shown: dict[str, Any] = {}
        if tokens is None or own is None:
            none = "no embedding found" if embedding is None else "no tokenizer was given"
            measured.append(_missing("tokens", "neighbours", none))
        else:
            of_tokens, shown = _measure_vocabulary(weights, names, tables, tokens, labels, seed)
            measured += of_tokens
        _next(bar, "text")
        text = model_text(weights, embedding, tokenizer, corpus)
        measured += _measure_kernel(weights, embedding, tied, text, seed)
        measured += _measure_text(weights, model, text, tokenizer, n_batches, n_tokens, seed, progress)
    lengths = np.empty(0) if own is None else own.moments.lengths
    n_layers = 1 + max((one.layer for one in layers if one.layer is not None), default=-1)
    return Inspection(
        weights.name, V, D, tied, why, measured,
        neighbors=shown.pop("neighbors", pd.DataFrame(columns=NEIGHBORS)),
        extremes=_extremes(lengths, labels),
        spectra={
            part if kind == "raw" else f"{part}, {kind}": values
            for part, one in tables.items()
            for kind, values in one.spectra.items()
        },
        lengths=lengths,
        rows=np.empty(0, dtype=int) if own is None else own.rows,
        vocabulary=labels if tokens else [],
        counts=np.empty(0, dtype=np.int64) if isinstance(text, str) else text.counts,
        facts=_facts(weights, n_layers, heads, n_kv),
        weights=weights,
        names=names,
        **shown,
    )  # fmt: skip


def _next(bar: Any, name: str) -> None:
    bar.update()
    bar.set_description(name)


def _sample(n: int, most: int, seed: int) -> np.ndarray:
    """Sorted rows, all of them or so many drawn."""
    if n <= most:
        return np.arange(n)
    return np.sort(np.random.default_rng(seed).choice(n, size=most, replace=False))


def _legible(tokens: list[str]) -> list[str]:
    """Tokens that a page can show: a long one is cut, half a character is spelled out."""
    found = []
    for row, token in enumerate(tokens):
        spelled = token.encode("utf-8", "backslashreplace").decode()
        whole = spelled == token and len(token) <= LONGEST
        found.append(token if whole else f"{spelled[:LONGEST]}… [row {row}]")
    return found


def _tied(
    weights: Weights, embedding: str | None, output: str | None, rows: np.ndarray
) -> tuple[bool | None, str]:
    if embedding is None:
        return None, roles.no_embedding(weights)
    if output is not None:
        first, second = weights.arrays[embedding], weights.arrays[output]
        if first is second or (first.key is not None and first.key == second.key):
            return True, "one array in memory"
        if first.shape != second.shape:
            return False, f"shapes {first.shape} and {second.shape} differ"
        same = np.array_equal(first.read(rows), second.read(rows))
        return same, f"the {len(rows):,} rows looked at are {'equal' if same else 'different'}"
    if (said := weights.config.get("tie_word_embeddings")) is not None and _has_head(weights):
        if said:
            return True, "the configuration says so"
        return None, "the configuration says it is not tied, and no output matrix was found"
    if _has_head(weights):
        return True, "the architecture has a head, the weights hold no matrix for it"
    return None, "no output matrix was found"


def _has_head(weights: Weights) -> bool:
    architectures = weights.config.get("architectures") or [type(weights.module).__name__]
    if "architectures" not in weights.config and weights.module is None:
        return weights.config.get("tie_word_embeddings") is True  # GGUF
    return any(name.endswith(TYING) for name in architectures)


def _facts(weights: Weights, n_layers: int, n_heads: int | None, n_kv: int | None) -> dict[str, Any]:
    """What configuration and arrays say of a model."""
    config = weights.config
    architectures = config.get("architectures") or [type(weights.module).__name__]
    sizes = {array.key or name: math.prod(array.shape) for name, array in weights.arrays.items()}
    return {
        "n_numbers": sum(sizes.values()),
        "family": config.get("model_type", ""),
        "causal": any(str(name).endswith(causal_models.CAUSAL) for name in architectures)
        or config.get("tie_word_embeddings") is True,
        "n_layers": n_layers,
        "n_heads": n_heads,
        "n_kv": n_kv,
    }


# --- rows of the report -----------------------------------------------------------------------------


def _missing(part: str, quantity: str, why: object, *, layer: int | None = None) -> Measured:
    """A number that isn't there, and why."""
    return Measured(quantity, part=part, layer=layer, note=f"{NOT}{why}")


def _attempt(
    part: str,
    name: str,
    measure: Callable[[], list[Measured]],
    n_rows: int,
    *,
    layer: int | None = None,
    head: int | None = None,
) -> list[Measured]:
    """Rows of one part, or what is wrong with it alone, such as NaN: all others are measured."""
    try:
        found = measure()
    except (ValueError, MemoryError) as error:
        return [_missing(part, name, error, layer=layer)]
    return [replace(one, part=part, layer=layer, head=head, n_rows=n_rows) for one in found]


def _measure_spectrum(
    part: str, matrix: np.ndarray, seed: int, *, layer: int | None = None, head: int | None = None
) -> list[Measured]:
    def measure() -> list[Measured]:
        return measures.spectrum_measures(matrix, n_draws=N_DRAWS, seed=seed, with_control=False)[0]

    return _attempt(part, "spectrum", measure, len(matrix), layer=layer, head=head)


def _measure_tables(
    weights: Weights, names: dict[str, str | None], rows: np.ndarray, tied: bool | None, seed: int
) -> tuple[dict[str, MeasuredTable], list[Measured]]:
    """Embedding and output matrix, of all rows."""
    tables: dict[str, MeasuredTable] = {}
    found: list[Measured] = []
    for part, name in names.items():
        if name is None or (part == OUTPUT and tied):
            why = "the model is tied, see the embedding" if tied else f"no {part} matrix found"
            found.append(_missing(part, "all", why))
            continue
        V = weights.arrays[name].shape[0]
        # rows of the same numbers in both, as far as there are as many, so that they can be compared
        first = weights.arrays[names[EMBEDDING] or name]
        own = rows if first.shape[0] == V else _sample(V, max(len(rows), 4), seed)
        try:
            table = measure_table(
                weights.arrays[name], own, n_draws=N_DRAWS, seed=seed, n_neighbors=N_NEIGHBORS
            )
        except (ValueError, MemoryError) as error:
            found.append(_missing(part, "all", error))
            continue
        tables[part] = table
        for label, rows_of in ((part, table.raw), (f"{part}, centred", table.centred)):
            for one in rows_of:
                sampled = one.quantity == "cosine with the nearest"
                found.append(replace(one, part=label, n_rows=len(table.rows) if sampled else V))
    if len(tables) < 2:
        return tables, [*found, _missing(BOTH, "rows compared", "there are no two matrices")]
    shared = tables[EMBEDDING].rows
    x, y = (weights.arrays[str(name)].read(shared) for name in names.values())
    paired = _attempt(
        BOTH, "rows compared", lambda: measures.paired_measures(x, y, n_draws=N_DRAWS, seed=seed), len(x)
    )
    return tables, found + paired


def _measure_positions(weights: Weights, seed: int) -> list[Measured]:
    name = roles.find_positions(weights)
    if name is None:
        return [_missing(POSITIONS, "all", "no table of positions found")]
    table = weights.arrays[name].read()
    smooth = _attempt(
        POSITIONS,
        "smoothness",
        lambda: measures.order_measures(table, n_draws=N_DRAWS, seed=seed),
        len(table),
    )
    return _measure_spectrum(POSITIONS, table, seed) + smooth


def _measure_layers(
    weights: Weights, n_heads: int | None, n_kv: int | None, seed: int, progress: bool
) -> list[Measured]:
    """Queries, keys and values, a layer at a time and by head, then the other matrices of each layer."""
    try:
        maps = roles.layer_maps(weights, n_heads, n_kv)
    except ValueError as error:
        return [_missing("Q, K, V", "all", error)]
    if not maps:
        return [_missing("Q, K, V", "all", "no queries, keys and values recognised by their names")]
    found = []
    for one in tqdm(maps, desc="matrices", disable=not progress, leave=False):
        matrix = one.array.read()
        found += _measure_spectrum(one.kind, matrix, seed, layer=one.layer)
        if one.kind not in roles.SEPARATE:
            continue
        if not one.n_heads or len(matrix) % one.n_heads:
            why = "the number of heads is not known: give n_heads"
            found.append(_missing(one.kind, "by head", why, layer=one.layer))
        elif one.n_heads > 1:
            for head, part in enumerate(np.split(matrix, one.n_heads)):
                found += _measure_spectrum(one.kind, part, seed, layer=one.layer, head=head)
    return found


# --- tokens, kernel, loss ---------------------------------------------------------------------------

NEIGHBORS = ["token", "neighbor", "cosine", "control"]


def _neighbors(table: MeasuredTable, tokens: list[str], labels: list[str], seed: int) -> pd.DataFrame:
    """Nearest rows of some tokens among all rows, beside the mean of the control."""
    rows = table.rows.tolist()
    words = [place for place, row in enumerate(rows) if sum(map(str.isalpha, tokens[row])) >= 4]
    words = words or list(range(len(rows)))
    rng = np.random.default_rng(seed)
    asked = np.sort(rng.choice(words, size=min(N_SHOWN, len(words)), replace=False)).tolist()
    near, cosines = table.nearest.rows.tolist(), table.nearest.cosines.tolist()
    control = float(table.control.cosines[:, 0].mean())
    found = [
        (labels[rows[place]], labels[other], cosine, control)
        for place in asked
        for other, cosine in zip(near[place], cosines[place], strict=True)
    ]
    return pd.DataFrame(found, columns=NEIGHBORS)


def _measure_vocabulary(
    weights: Weights,
    names: dict[str, str | None],
    tables: dict[str, MeasuredTable],
    tokens: list[str],
    labels: list[str],
    seed: int,
) -> tuple[list[Measured], dict[str, Any]]:
    """Kinds of tokens, under-trained tokens and twins: rows, and fields of an `Inspection`."""
    array, moments = weights.arrays[str(names[EMBEDDING])], tables[EMBEDDING].moments
    kinds, found = token_kinds(tokens), []
    shown: dict[str, Any] = {
        "neighbors": _neighbors(tables[EMBEDDING], tokens, labels, seed),
        "kinds": vocabulary.kinds_table(array, moments, kinds),
    }
    output = tables.get(OUTPUT)
    fitting = output is not None and output.moments.n_rows == moments.n_rows
    judged = (weights.arrays[str(names[OUTPUT])], output.moments) if output and fitting else (array, moments)
    try:
        rare = vocabulary.undertrained_tokens(*judged, kinds, n_draws=N_DRAWS, seed=seed)
    except ValueError as error:
        found.append(_missing(UNDERTRAINED, TOLD_APART, error))
    else:
        note, n_held_out = f"{len(rare.candidates):,} tokens in use are as near", int(rare.held_out.sum())
        found.append(replace(rare.auc, part=UNDERTRAINED, n_rows=n_held_out, note=note))
        shown["distances"] = {
            "tokens in use": rare.distances[rare.in_use],
            "unused tokens, held out": rare.distances[rare.held_out],
        }
        rows = rare.candidates.tolist()
        shown["undertrained"] = pd.DataFrame(
            {
                "token": [labels[row] for row in rows],
                "row": rare.candidates,
                "kind": [kinds[row] for row in rows],
                "distance": rare.distances[rare.candidates],
            }
        )
    pairs = vocabulary.twin_pairs(tokens, most=N_TWINS, seed=seed)
    shares, twins = vocabulary.twin_measures(array, moments, pairs)
    found += [replace(one, part="twins") for one in shares]
    named = {
        column: [labels[row] for row in twins[place].tolist()]
        for column, place in (("token", "first"), ("twin", "second"))
    }
    shown["twins"] = twins.assign(**named)[["sort", "token", "twin", "cosine", "mutual"]]
    return found, shown


def _extremes(lengths: np.ndarray, labels: list[str]) -> pd.DataFrame:
    """The shortest and the longest rows, and how far their lengths are from the median."""
    order = np.argsort(lengths, kind="stable")
    rows = np.concatenate([order[:N_EXTREMES], order[max(N_EXTREMES, len(order) - N_EXTREMES) :]])[
        : len(order)
    ]
    middle = float(np.median(lengths)) if len(lengths) else math.nan
    scale = float(np.median(np.abs(lengths - middle))) if len(lengths) else math.nan
    return pd.DataFrame(
        {
            "token": [labels[row] for row in rows.tolist()],
            "row": rows,
            "length": lengths[rows],
            "deviation": (lengths[rows] - middle) / scale if scale else np.zeros(len(rows)),
        }
    )


def _measure_kernel(
    weights: Weights, name: str | None, tied: bool | None, text: ModelText | str, seed: int
) -> list[Measured]:
    """The kernel between log counts and the Gram matrix of the most frequent tokens."""
    if name is None or tied is False:
        text = "the kernel is defined for tied embeddings"
    if isinstance(text, str):
        return [_missing("kernel", "circulant score", text)]
    try:
        found = kernel_of(text, weights.arrays[str(name)], seed=seed)
    except (ValueError, MemoryError) as error:
        return [_missing("kernel", "circulant score", error)]
    n_rows = len(found.rows)
    return [Measured("circulant score", found.score, found.controls, part="kernel", n_rows=n_rows)]


def _measure_text(
    weights: Weights,
    source: Any,
    text: ModelText | str,
    tokenizer: Any,
    n_batches: int,
    n_tokens: int,
    seed: int,
    progress: bool,
) -> list[Measured]:
    """The next-token loss on a text, and as a control the loss of the tokens' frequencies in the text."""
    try:
        if isinstance(text, str):
            raise ValueError(text)
        causal_models.require_room(weights, n_tokens)
        first = first_token(tokenizer)
        strings = cut_strings(text, weights, n_batches, n_tokens, first)
        module = causal_models.causal_model(weights, source, stored_precision=True)
        bits = np.array(_losses_of(module, strings, progress)) / math.log(2)
    except Exception as error:
        why = (str(error).strip() or type(error).__name__).splitlines()[0]
        return [_missing("next token", "loss", why)]
    targets = torch.cat([string[0, 1:] for string in strings]).numpy()
    null = np.array([-np.log2(text.counts[targets] / text.counts.sum()).mean()])
    value, (low, high) = float(bits.mean()), (math.nan, math.nan)
    if len(bits) > 1:
        low, high = bootstrap_interval(bits, seed=seed)
    note = "no first token was given"
    if first is not None:
        note = f"each string begins with {token_names(tokenizer, first + 1)[first]!r}, as the tokenizer asks"
    note += f"; perplexity {2**value:.1f} a token"
    per_byte = tokens_per_byte(tokenizer, strings)
    scales = {"next-token loss, bits a token": 1.0}
    if per_byte:
        scales["next-token loss, bits a byte"] = per_byte
    where: dict[str, Any] = {"part": "next token", "n_rows": len(targets), "note": note}
    return [
        Measured(quantity, value * scale, null * scale, (low * scale, high * scale), **where)
        for quantity, scale in scales.items()
    ]


def _losses_of(module: nn.Module, strings: list[Tensor], progress: bool) -> list[float]:
    """The next-token loss of each string, in nats."""
    device = next(module.parameters()).device
    with evaluating(module):
        causal_models.require_causal(module, strings[0][:, 1:].to(device))
        with torch.no_grad():
            return [
                causal_models.next_token_loss(module, string.to(device)).item()
                for string in tqdm(strings, desc="loss", disable=not progress, leave=False)
            ]
