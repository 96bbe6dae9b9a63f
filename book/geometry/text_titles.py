"""What a caption calls the text that a language model was trained on."""

from __future__ import annotations

from typing import TYPE_CHECKING

from embviz.corpora import registry

if TYPE_CHECKING:
    from book.language import TextConfig


def titled(text: TextConfig) -> str:
    """A text in words, by what the registry says of it, its name in brackets.

    >>> from book.language import TextConfig
    >>> titled(TextConfig("tinystories_5mb"))
    '6,235 distinct TinyStories, 5 MB of text (tinystories_5mb)'
    >>> titled(TextConfig("tinystories", n_documents=200_000))
    '200,000 documents of TinyStories (tinystories)'
    """
    if text.corpus == registry.EMBEDDED:
        words = "docstrings of installed libraries"
    else:
        words = registry.data_set(text.corpus).title.partition(": ")[0]
    many = f"{text.n_documents:,} documents of " if text.n_documents else ""
    return f"{many}{words} ({text.corpus})"
