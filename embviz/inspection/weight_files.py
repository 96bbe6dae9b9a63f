"""Weights and tokens of any model: what :mod:`embviz.files` reads, and word vectors too."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import Any

from embviz.corpora.registry import resolve_path
from embviz.files.gguf import MAGIC, read_gguf
from embviz.files.weights import Weights, first_bytes, name_of, weights_of
from embviz.imports import require
from embviz.words.wordvectors import WordVectors


def read_weights(source: Any) -> Weights:
    """The arrays of a model.

    Parameters
    ----------
    source : nn.Module, WordVectors, mapping of names to arrays, path, or name of a released model
        A module of any kind, compiled or not; a folder of Hugging Face (safetensors or pytorch_model.bin, in
        one file or in shards); a file: safetensors, GGUF, a state_dict, .npz, or .npy with one matrix, which
        is taken for the embedding. ``"gemma3_270m"`` and the other models of ``embviz data list`` are taken
        from what ``embviz data fetch`` fetched.

    Raises
    ------
    ValueError
        If a module's weights are on the meta device; the file is of no such kind, damaged, a Git LFS pointer,
        or a pickle of more than weights; or the folder holds several models, or an adapter alone.
    FileNotFoundError
        If there is no such file, or no weights in the folder.

    Examples
    --------
    >>> weights = read_weights({"wte.weight": np.eye(3)})
    >>> weights.arrays["wte.weight"].read(np.array([1])).tolist()
    [[0.0, 1.0, 0.0]]
    """
    if isinstance(source, WordVectors):
        tables = {"embedding.weight": source.word, "output.weight": source.context}
        weights = weights_of({name: table for name, table in tables.items() if table is not None})
        return replace(weights, name="word vectors")
    if isinstance(source, str | os.PathLike) and first_bytes(path := resolve_path(source), 1) == b"{":
        return replace(read_weights(WordVectors.load(path)), name=name_of(source, path.stem))
    return weights_of(source)


def read_tokenizer(source: str | os.PathLike[str], *, for_text: bool = False) -> Any:
    """The tokenizer beside a model's files (tokenizer.json, of Hugging Face), its tokens, or None.

    Parameters
    ----------
    source : path, or name of a released model
        The model's folder, or a file in it. Word vectors give the list of their tokens, which cuts no text.
    for_text : bool, default False
        Whether a GGUF file gives the tokenizer that Transformers makes of it, in seconds, instead of the list
        of its tokens.

    Raises
    ------
    ValueError
        If there is one that cannot be read.
    """
    path = resolve_path(source)
    first = first_bytes(path, 4)
    if first == MAGIC:
        return _gguf_tokenizer(path) if for_text else read_gguf(path).tokens
    if first.startswith(b"{"):
        return WordVectors.load(path).vocabulary
    folder = path if path.is_dir() else path.parent
    if not (file := folder / "tokenizer.json").is_file():
        return None
    from tokenizers import Tokenizer

    try:
        return Tokenizer.from_file(str(file))
    except Exception as error:  # the library raises no other kind
        raise ValueError(f"{file} is no tokenizer that can be read ({error})") from error


def _gguf_tokenizer(path: Path) -> Any:
    require("adapters", "transformers", purpose="a tokenizer of a GGUF file")
    from transformers import PreTrainedTokenizerFast

    try:
        return PreTrainedTokenizerFast.from_pretrained(
            path.parent, gguf_file=path.name, local_files_only=True
        ).backend_tokenizer
    except Exception as error:  # of many kinds, where a field is missing or of a form that it does not know
        raise ValueError(f"Transformers makes no tokenizer of {path} ({error})") from error
