"""Which array is the embedding, the output matrix, the positions; which are queries, keys and values."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from torch import nn

from embviz.files.weights import StoredArray, Weights, plain_name

# Last part of a name before ".weight", the likeliest first; a module's own answer goes before.
# fmt: off
EMBEDDINGS = (
    "wte", "embed_tokens", "embed_in", "word_embeddings", "tok_embeddings", "token_embedding_table",
    "token_embeddings", "token_embedding", "tok_embedding", "tok_emb", "token_emb", "word_embedding",
    "embedding", "embeddings", "embed", "shared", "emb", "encoder", "token_embd", "W_E",
)
OUTPUTS = (
    "lm_head", "embed_out", "free_head", "output", "output_projection", "unembed", "unembedding", "decoder",
    "head", "proj_out", "fc_out", "generator", "linear", "fc", "out",
)
POSITIONS = (
    "wpe", "embed_positions", "position_embeddings", "position_embedding_table", "position_embedding",
    "position", "pos_emb", "pos_embed", "pos_embedding", "positional_embedding", "positions",
    "position_embd", "W_pos",
)
SEPARATE = {
    "Q": ("q_proj", "query", "wq", "q_lin", "to_q", "attn_q", "query_proj", "q_proj_weight", "W_Q", "q"),
    "K": ("k_proj", "key", "wk", "k_lin", "to_k", "attn_k", "key_proj", "k_proj_weight", "W_K", "k"),
    "V": ("v_proj", "value", "wv", "v_lin", "to_v", "attn_v", "value_proj", "v_proj_weight", "W_V", "v"),
}
FUSED = (
    "c_attn", "query_key_value", "qkv_proj", "qkv", "Wqkv", "W_pack", "in_proj_weight", "in_proj", "att_proj",
    "attn_qkv",
)
# fmt: on


@dataclass(frozen=True, eq=False)
class AttentionMap:
    """Queries, keys or values of one attention, rows by head, (H W, D)."""

    kind: str  # Q, K or V
    layer: int  # by order in the model
    place: str  # name of the attention, or of the fused array
    array: StoredArray
    n_heads: int | None


def last_part(name: str) -> str:
    """The last part of a parameter's name that says what it is.

    >>> last_part("transformer.wte.weight"), last_part("attn.in_proj_weight")
    ('wte', 'in_proj_weight')
    """
    return name.removesuffix(".weight").rpartition(".")[2]


def _by_name(weights: Weights, names: Iterable[str]) -> list[str]:
    """Names of tables outside of layers, the likeliest first, the largest first among equals."""
    order = {name: place for place, name in enumerate(names)}
    tables = [
        name
        for name, array in weights.arrays.items()
        if len(array.shape) == 2 and last_part(name) in order and not re.search(r"\.\d+\.", name)
    ]
    return sorted(tables, key=lambda name: (order[last_part(name)], -weights.arrays[name].shape[0]))


def _of_layer(weights: Weights, layer: Any) -> str | None:
    """Name of a layer's weight."""
    wanted = getattr(layer, "weight", None)
    if wanted is None or weights.module is None:
        return None
    named = weights.module.named_parameters(remove_duplicate=False)
    # of a tied table the name that is met first
    return next((plain_name(name) for name, value in named if value is wanted), None)


def _asked(weights: Weights, question: str) -> str | None:
    """What a module of Hugging Face answers itself."""
    ask = getattr(weights.module, question, None)
    try:
        return _of_layer(weights, ask()) if callable(ask) else None
    except NotImplementedError:  # a model of Hugging Face without tokens
        return None


def find_embedding(weights: Weights) -> str | None:
    """Name of the input embedding, (V, D): by the module's answer, by its name, by its kind."""
    if (found := _asked(weights, "get_input_embeddings")) is not None:
        return found
    if named := _by_name(weights, EMBEDDINGS):
        return named[0]
    if weights.config.get("tie_word_embeddings") and (named := _by_name(weights, OUTPUTS)):
        return named[0]  # a tied matrix may be stored under the name of its other use
    if weights.module is None:
        return None
    tables = [m for m in weights.module.modules() if isinstance(m, nn.Embedding | nn.EmbeddingBag)]
    named = [name for table in tables if (name := _of_layer(weights, table)) is not None]
    named = [name for name in named if last_part(name) not in POSITIONS]
    return max(named, key=lambda name: weights.arrays[name].shape[0], default=None)


def no_embedding(weights: Weights) -> str:
    """That there is none, and which arrays were left out for their type."""
    if not weights.left_out:
        return "no embedding was found"
    named = [f"{name} ({kind})" for name, kind in weights.left_out.items()]
    more = f" and {len(named) - 4} more" if len(named) > 4 else ""
    return (
        f"no embedding was found among the floating numbers; not read: {', '.join(named[:4])}{more}. "
        "Of a rounded model give the one that it was made from"
    )


def find_output(weights: Weights, embedding: str | None) -> str | None:
    """Name of the output matrix, (V, D): the embedding's own where it is tied by name."""
    if (found := _asked(weights, "get_output_embeddings")) is not None:
        return found
    if embedding is None:
        return None
    V = weights.arrays[embedding].shape[0]
    named = [name for name in _by_name(weights, OUTPUTS) if weights.arrays[name].shape[0] == V]
    return next((name for name in named if name != embedding), None)


def find_positions(weights: Weights) -> str | None:
    """Name of the table of learned positions."""
    return next(iter(_by_name(weights, POSITIONS)), None)


# --- attention --------------------------------------------------------------------------------------


def option(config: dict[str, Any], names: str) -> int | None:
    config = {**config, **(config.get("text_config") or {})}
    for name in names.split():
        if isinstance(config.get(name), int) and not isinstance(config[name], bool):
            return int(config[name])
    return None


def heads_of(weights: Weights) -> tuple[int | None, int | None]:
    """Heads of queries, and of keys and values: by the configuration, or by an attribute of a layer."""
    n_heads = option(weights.config, "num_attention_heads n_head n_heads num_heads")
    if n_heads is None and weights.module is not None:
        owners = (
            getattr(module, name, None)
            for module in weights.module.modules()
            for name in ("num_heads", "n_heads", "n_head", "num_attention_heads")
        )
        n_heads = next((value for value in owners if isinstance(value, int)), None)
    if weights.config.get("multi_query") and not weights.config.get("new_decoder_architecture"):
        return n_heads, 1
    n_kv = option(
        weights.config, "num_key_value_heads num_kv_heads n_kv_heads n_head_kv multi_query_group_num"
    )
    return n_heads, n_kv or n_heads


def _split_fused(matrix: np.ndarray, part: str, n_heads: int | None, n_kv: int | None) -> list[np.ndarray]:
    """Q, K and V of one array.

    Parameters
    ----------
    matrix : array, shape (out, D) or GPT-2's (D, 3 D)
    part : str
        Its name, of FUSED: "query_key_value" has them head by head, the others one after the other.
    n_heads, n_kv : int, optional
        Heads of queries, and of keys and values.
    """
    if part == "c_attn" and matrix.shape[1] == 3 * matrix.shape[0]:
        matrix = matrix.T
    n_rows = len(matrix)
    if part == "query_key_value":
        if n_heads is None or n_kv is None:
            raise ValueError("queries, keys and values alternate by head: give n_heads")
        groups = n_heads + 2 * n_kv
        if n_rows % groups or n_heads % n_kv:
            raise ValueError(f"{n_rows} rows are no {n_heads} heads of queries and {n_kv} of keys and values")
        parts = matrix.reshape(n_kv, n_heads // n_kv + 2, n_rows // groups, -1)
        split = (parts[:, :-2], parts[:, -2], parts[:, -1])
        return [one.reshape(-1, matrix.shape[1]) for one in split]
    shares = (n_heads, n_kv, n_kv) if n_heads and n_kv else (1, 1, 1)
    if n_rows % sum(shares):
        raise ValueError(f"{n_rows} rows cannot be divided into queries, keys and values of {shares} heads")
    ends = np.cumsum(shares) * (n_rows // sum(shares))
    return list(np.split(matrix, ends[:2]))


def attention_maps(weights: Weights, n_heads: int | None, n_kv: int | None) -> list[AttentionMap]:
    """All queries, keys and values, one attention block after the other, as in the model."""
    kinds = {part: kind for kind, parts in SEPARATE.items() for part in parts}
    places: dict[str, dict[str, StoredArray]] = {}
    for name, array in weights.arrays.items():
        part, place = last_part(name), name.removesuffix(".weight").rpartition(".")[0]
        if len(array.shape) != 2 or name.endswith("bias"):
            continue
        if part in FUSED:
            shapes = _split_shapes(array, part, n_heads, n_kv)
            places[name] = {kind: _part_of(array, part, i, shape, n_heads, n_kv)
                            for i, (kind, shape) in enumerate(zip("QKV", shapes, strict=True))}  # fmt: skip
        elif part in kinds:
            places.setdefault(place, {})[kinds[part]] = array
    found = []
    whole = {place: parts for place, parts in places.items() if set(parts) == set("QKV")}
    for layer, (place, parts) in enumerate(sorted(whole.items(), key=lambda item: _natural(item[0]))):
        for kind in "QKV":
            heads = n_heads if kind == "Q" else n_kv
            found.append(AttentionMap(kind, layer, place, parts[kind], heads))
    return found


# Ends of the names of a layer's other matrices, without ".weight".
OTHERS = {
    "O": r"attn_output|o_proj|wo|W_O|(?:attn|attention)\.(?:c_proj|out_proj|dense|output\.dense)",
    "MLP gate": r"gate_proj|ffn_gate|w1",
    "MLP in": r"up_proj|ffn_up|w3|c_fc|fc1|dense_h_to_4h|intermediate\.dense|lin1",
    "MLP out": r"down_proj|ffn_down|w2|mlp\.c_proj|fc2|dense_4h_to_h|(?<!attention\.)output\.dense|lin2",
}


def layer_maps(weights: Weights, n_heads: int | None, n_kv: int | None) -> list[AttentionMap]:
    """Queries, keys and values of all layers, then the other matrices of their attentions and MLPs.

    A kind of which there are more or fewer than attentions, as of experts, is left out.
    """
    maps = attention_maps(weights, n_heads, n_kv)
    n_layers = 1 + max((one.layer for one in maps), default=-1)
    found = []
    for kind, ends in OTHERS.items():
        form = re.compile(rf"(.*?\d+)\.(?:.*\.)?(?:{ends})$")
        named = {
            name: match[1]
            for name, array in weights.arrays.items()
            if len(array.shape) == 2 and (match := form.match(name.removesuffix(".weight")))
        }
        places = sorted(set(named.values()), key=_natural)
        if len(named) == len(places) == n_layers:
            layers = {place: layer for layer, place in enumerate(places)}
            found += [
                AttentionMap(kind, layers[place], name, weights.arrays[name], None)
                for name, place in named.items()
            ]
    return maps + sorted(found, key=lambda one: one.layer)


def _natural(name: str) -> list[tuple[int, str]]:
    """Numbers in a name by their value: layer 10 after layer 9."""
    return [(int(part), "") if part.isdigit() else (-1, part) for part in re.split(r"(\d+)", name)]


def _split_shapes(
    array: StoredArray, part: str, n_heads: int | None, n_kv: int | None
) -> list[tuple[int, ...]]:
    outline = np.broadcast_to(np.float32(0), array.shape)  # no memory
    rows = np.arange(max(array.shape))[:, None]
    if part == "c_attn" and array.shape[1] == 3 * array.shape[0]:
        outline = outline.T
    parts = _split_fused(rows[: len(outline)], part if part != "c_attn" else "qkv", n_heads, n_kv)
    return [(len(one), outline.shape[1]) for one in parts]


def _part_of(
    array: StoredArray, part: str, index: int, shape: tuple[int, ...], n_heads: int | None, n_kv: int | None
) -> StoredArray:
    def load(rows: np.ndarray | None) -> np.ndarray:
        found = _split_fused(array.read(), part, n_heads, n_kv)[index]
        return found if rows is None else found[rows]

    return StoredArray(shape, load)
