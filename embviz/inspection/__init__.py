"""The weights of your model: spectra, isotropy and neighbours, each number beside its control."""

import lazy_loader

from embviz.imports import require

require("torch", "torch", purpose="embviz.inspection")

__getattr__, __dir__, __all__ = lazy_loader.attach(
    __name__,
    submodules=[
        "comparing",
        "findings",
        "gradients",
        "inspecting",
        "measures",
        "patching",
        "roles",
        "states",
        "tables",
        "vocabulary",
        "weight_files",
    ],
    submod_attrs={
        "comparing": ["Comparison", "compare"],
        "inspecting": ["Inspection", "inspect"],
        "patching": ["patch"],
        "states": ["hidden_states"],
        "weight_files": ["StoredArray", "Weights", "read_tokenizer", "read_weights"],
    },
)
