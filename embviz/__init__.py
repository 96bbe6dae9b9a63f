"""embviz: instruments for the geometry of embeddings."""

import lazy_loader

__version__ = "0.3.0"

__getattr__, __dir__, __all__ = lazy_loader.attach(
    __name__,
    submodules=[
        "corpora", "words", "files", "models", "runs", "training", "inspection", "trajectories", "kernels",
        "view", "metrics", "neighbors", "projections", "storage", "memory", "imports",
    ],
    submod_attrs={"inspection": ["compare", "inspect", "patch"]},
)  # fmt: skip
