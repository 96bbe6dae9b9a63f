"""Texts, and the ids of their words."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach(
    __name__,
    submodules=[
        "corpus",
        "docstrings",
        "making",
        "registry",
        "texts",
        "tokens",
    ],
    submod_attrs={
        "corpus": ["Corpus", "load_corpus", "load_word_test"],
        "making": ["corpus_from_tokens", "make_corpus"],
        "tokens": ["token_kinds"],
    },
)
