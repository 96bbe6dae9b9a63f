"""Tasks whose optimum is known exactly."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach(
    __name__,
    submodules=["equivalences", "exor", "modular"],
    submod_attrs={
        "equivalences": [
            "FiniteLanguage",
            "PairEquivalence",
            "conditional_distance",
            "equivalence_table",
            "exor_language",
            "make_language",
            "masked_contexts",
            "proportional_distance",
            "semantic_distance",
            "split_symbol",
        ],
        "exor": ["EXor", "EXorStream", "hide", "split_strings"],
        "modular": ["ModularArithmetic"],
    },
)
