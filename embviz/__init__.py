"""embviz: instruments for the geometry of embeddings."""

import lazy_loader

__version__ = "0.3.0"

__getattr__, __dir__, __all__ = lazy_loader.attach(
    __name__,
    submodules=[
    ],
    submod_attrs={"inspection": ["compare", "inspect", "patch"]},
)  # fmt: skip
