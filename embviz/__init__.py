"""embviz: instruments for the geometry of embeddings, and the book written with them."""

import lazy_loader

__version__ = "0.1.0"

__getattr__, __dir__, __all__ = lazy_loader.attach(
    __name__,
    submodules=[
        "corpora", "metrics", "cooccurrence", "wordvectors", "spectra", "training", "models",
        "experiments", "ledger", "theme", "charts", "explorers",
    ],
)  # fmt: skip
