"""Languages whose optimum is known exactly: EXor, finite languages, and equivalences of their symbols."""

from book.tying.languages.equivalences import (
    FiniteLanguage,
    conditional_distance,
    equivalence_table,
    even_language,
    exor_language,
    make_language,
    masked_contexts,
    proportional_distance,
    semantic_distance,
    split_symbol,
)
from book.tying.languages.exor import EXor, EXorStream, hide, split_strings

__all__ = [
    "EXor",
    "EXorStream",
    "FiniteLanguage",
    "conditional_distance",
    "equivalence_table",
    "even_language",
    "exor_language",
    "hide",
    "make_language",
    "masked_contexts",
    "proportional_distance",
    "semantic_distance",
    "split_strings",
    "split_symbol",
]
