"""What captions say of stored runs: which model and text they are of."""

from __future__ import annotations

from typing import Any

CORPORA = {
    "embedded": "Bundled documentation",
    "tinystories_5mb": "TinyStories",
    "enwiki2018_raw": "Wikipedia",
}


def note_of(run: Any, tokens: str = "bytes") -> str:
    """Text and sizes of a language model's run, for a caption.

    A run has its `text` (or its `source`), and its sizes in a `setting`, or in a `shape` and its `training`.
    `tokens` says of several runs what they read.
    """
    text = getattr(run, "source", run.text)
    shape, training = (run.setting, run.setting) if hasattr(run, "setting") else (run.shape, run.training)
    return (
        f"{CORPORA.get(text.corpus, text.corpus)} in {tokens}, {shape.n_layers} layers, "
        f"{shape.n_heads} heads of {shape.embedding_dim // shape.n_heads}, d = {shape.embedding_dim}, "
        f"{training.n_steps:,} updates"
    )
