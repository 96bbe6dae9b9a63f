"""The weights of your model: spectra, isotropy and neighbours, each number beside its control."""

import lazy_loader

from embviz.imports import require

require("torch", "torch", purpose="embviz.inspection")

__getattr__, __dir__, __all__ = lazy_loader.attach(
    __name__,
    submodules=[
        "causal_models",
        "comparing",
        "findings",
        "inspecting",
        "measures",
        "patching",
        "roles",
        "states",
        "tables",
        "token_kernels",
        "vocabulary",
        "weight_files",
    ],
    submod_attrs={
        "comparing": ["compare"],
        "inspecting": ["inspect"],
        "patching": ["patch"],
        "states": ["hidden_states", "nearest_states"],
        "token_kernels": ["token_kernel"],
        "weight_files": ["model_vectors", "read_tokenizer", "read_weights"],
    },
)
