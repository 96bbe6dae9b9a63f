"""The same numbers as :mod:`book.yours.in_one_call`, by the instruments that each function calls."""

from __future__ import annotations

import json
import re
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from safetensors.numpy import load_file
from torch import Tensor

from embviz.metrics import cosines, mirror_distance, positive_share
from embviz.models.decoder import Decoder, DecoderConfig
from embviz.view import embedding_map
from embviz.words import count_pairs, eigenvalues, pmi, ppmi, shuffle_tokens


def spectrum(path: Path) -> pd.DataFrame:
    tokens = re.findall(r"\w+", path.read_text(encoding="utf-8").lower())
    frequent = [word for word, n in Counter(tokens).most_common(2_000) if n >= 5]
    place = {word: row for row, word in enumerate(frequent)}
    ids = np.array([place.get(token, len(frequent)) for token in tokens])
    counts = count_pairs(ids, len(frequent), window=5)
    matrices = {("PMI", 0): pmi(counts), ("positive PMI", 0): ppmi(counts)}
    for seed in range(3):
        shuffled = shuffle_tokens(ids, seed=seed)
        matrices["tokens shuffled", seed] = pmi(count_pairs(shuffled, len(frequent), window=5))
    rows = []
    for (name, seed), matrix in matrices.items():
        x = eigenvalues(matrix, dtype="float64").round(6)
        rows.append((name, seed, positive_share(x), mirror_distance(x)))
    return pd.DataFrame(rows, columns=["matrix", "seed", "positive_share", "mirror_distance"])


def nearest(path: Path, word: str) -> list[str]:
    words, rows = [], []
    with path.open(encoding="utf-8") as lines:
        for line in lines:
            first, *numbers = line.rstrip("\n").split(" ")
            words.append(first)
            rows.append([float(number) for number in numbers])
    table = np.array(rows, dtype=np.float32)
    table /= np.linalg.norm(table, axis=1, keepdims=True)
    best = np.argsort(-table @ table[words.index(word)])[1:11]
    return [words[row] for row in best]


def reflections(model: Any) -> pd.DataFrame:
    word, context = model.wv.vectors, model.syn1neg
    V, D = word.shape
    rng = np.random.default_rng(0)
    rotation, _ = np.linalg.qr(rng.standard_normal((D, D)))
    kinds = {
        "word and context": (word, context),
        "contexts in random order": (word, rng.permutation(context)),
        "word and its rotation": (word, word @ rotation),
        "random vectors": (rng.standard_normal(word.shape), rng.standard_normal(word.shape)),
    }
    rows = {}
    for kind, tables in kinds.items():
        x, y = (table.astype(float) for table in tables)
        Q = np.linalg.pinv(x) @ y
        squared, values = Q @ Q, np.linalg.eigvals(Q)
        diagonal = np.diag(squared).mean()
        i, j = np.random.default_rng(0).integers(V, size=(2, 200_000))
        i, j = i[i != j], j[i != j]
        rows[kind] = {
            "diagonal": diagonal,
            "offdiagonal": squared[~np.eye(D, dtype=bool)].std() / abs(diagonal),
            "negative_share": (values.real < 0).mean(),
            "reflected_share": (values.real < -5 * abs(values.imag)).mean(),
            "similarity_correlation": np.corrcoef(cosines(x[i], x[j]), cosines(y[i], y[j]))[0, 1],
            "norm_correlation": np.corrcoef(np.linalg.norm(x, axis=1), np.linalg.norm(y, axis=1))[0, 1],
        }
    return pd.DataFrame.from_dict(rows, orient="index")


def word_map(path: Path) -> np.ndarray:
    words, rows = [], []
    with path.open(encoding="utf-8") as lines:
        for line in lines:
            first, *numbers = line.rstrip("\n").split(" ")
            words.append(first)
            rows.append([float(number) for number in numbers])
    table = np.array(rows[:3_000], dtype=np.float32)
    return embedding_map(table, words[:3_000], title="The first 3,000 words", caption="").placed[0].plane


def heads(folder: Path) -> np.ndarray:
    config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    arrays, shares = load_file(folder / "model.safetensors"), []
    for layer in range(config["n_layer"]):
        fused = arrays[f"transformer.h.{layer}.attn.c_attn.weight"].T.astype(float)
        for part in np.split(fused, 3):  # queries, keys, values
            for head in np.split(part, config["n_head"]):
                n, m = head.shape
                edge = head.std() * (np.sqrt(n) + np.sqrt(m))
                rng = np.random.default_rng(0)
                nulls = [rng.permutation(head.ravel()).reshape(n, m) for _ in range(5)]
                beyond = [(np.linalg.svd(x, compute_uv=False) > edge).mean() for x in (head, *nulls)]
                shares.append((beyond[0], np.mean(beyond[1:])))
    return np.array(shares)


def logits(model: Any, tokens: Tensor) -> Tensor:
    own, theirs = model.config, model.state_dict()
    config = DecoderConfig(
        own.vocab_size,
        own.max_position_embeddings,
        own.hidden_size,
        own.num_hidden_layers,
        own.num_attention_heads,
        mlp_dim=own.intermediate_size,
        gated=True,
        norm="rms",
        positions="rotary",
        rotary_base=own.rope_parameters["rope_theta"],
        tied=own.tie_word_embeddings,
        activation="silu",
        norm_eps=own.rms_norm_eps,
    )
    width, n_groups = own.hidden_size // own.num_attention_heads, own.num_key_value_heads
    names = {
        r"model\.embed_tokens\.weight": "embedding",
        r"lm_head\.weight": "free_head",
        r"model\.norm\.weight": "norm.weight",
        r"model\.layers\.(\d+)\.input_layernorm\.weight": r"blocks.\1.before.0.weight",
        r"model\.layers\.(\d+)\.post_attention_layernorm\.weight": r"blocks.\1.before.1.weight",
        r"model\.layers\.(\d+)\.self_attn\.q_proj": r"blocks.\1.attention.query",
        r"model\.layers\.(\d+)\.self_attn\.k_proj": r"blocks.\1.attention.key",
        r"model\.layers\.(\d+)\.self_attn\.v_proj": r"blocks.\1.attention.value",
        r"model\.layers\.(\d+)\.self_attn\.o_proj": r"blocks.\1.attention.out",
        r"model\.layers\.(\d+)\.mlp\.(gate|up|down)_proj": r"blocks.\1.\2",
    }
    decoder = Decoder(config, seed=0)
    weights = {}
    for name, array in theirs.items():
        for old, new in names.items():
            name = re.sub(f"^{old}", new, name)
        if name.endswith(("key.weight", "value.weight")):  # a group's, once for each of its queries
            groups = array.unflatten(0, (n_groups, width))
            array = groups.repeat_interleave(own.num_attention_heads // n_groups, 0).flatten(0, 1)
        weights[name] = array
    decoder.load_state_dict({name: weights[name] for name in decoder.state_dict()})
    return decoder(tokens)


def path_of(folder: Path, tensor: str) -> tuple[np.ndarray, np.ndarray]:
    steps = sorted(int(path.name.removeprefix("checkpoint-")) for path in folder.glob("checkpoint-*"))
    rows = []
    for step in steps:
        arrays = load_file(folder / f"checkpoint-{step}" / "model.safetensors")
        rows.append(arrays[tensor].ravel())
    state = json.loads(
        (folder / f"checkpoint-{steps[-1]}" / "trainer_state.json").read_text(encoding="utf-8")
    )
    logged = {entry["step"]: entry["loss"] for entry in state["log_history"] if "loss" in entry}
    losses = np.interp(steps, list(logged), list(logged.values()))
    return np.stack(rows), losses
