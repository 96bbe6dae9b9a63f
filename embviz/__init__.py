"""embviz: instruments for the geometry of embeddings, and the book written with them."""

import lazy_loader

__version__ = "0.1.0"

__getattr__, __dir__, __all__ = lazy_loader.attach(
    __name__,
    submodules=[
        "storage", "registry", "texts", "docstrings", "corpora", "bytepairs", "metrics", "cooccurrence",
        "models", "wordvectors", "wordtests", "skipgram", "training", "spectra", "cells", "findings",
        "studies", "experiments", "ledger", "theme", "charts", "ledger_view", "explorers", "player",
        "tasks", "equivalences", "wordpieces", "snapshots", "recurrent_training",
        "fourier", "language", "imports", "memory", "phases", "weight_paths", "autoencoders", "trajectories",
        "trajectory_nulls", "recorder", "adapters", "kernels", "projections", "resizing",
        "quantization",
    ],
)  # fmt: skip
