"""What captions say of stored runs: which model and text they are of."""

from __future__ import annotations

from typing import Any

CORPORA = {"embedded": "Bundled documentation", "tinystories_5mb": "TinyStories"}


def note_of(run: Any) -> str:
    """Text and sizes of a language model's run, which has `text`, `shape` and `training`, for a caption."""
    shape, text = run.shape, CORPORA.get(run.text.corpus, run.text.corpus)
    return (
        f"{text} in bytes, {shape.n_layers} layers, {shape.n_heads} heads of {shape.head_width}, "
        f"d = {shape.embedding_dim}, {run.training.n_steps:,} updates"
    )
