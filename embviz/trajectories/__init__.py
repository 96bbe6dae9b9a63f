"""Trajectories of weights: the behavioural autoencoder, layouts, clusters and controls."""

import lazy_loader

from embviz.imports import require

require("trajectories", "torch", "sklearn", purpose="embviz.trajectories")

__getattr__, __dir__, __all__ = lazy_loader.attach(
    __name__,
    submodules=["autoencoders", "checkpoints", "nulls", "phases", "reports", "traces", "weight_paths"],
    submod_attrs={
        "autoencoders": ["Autoencoder", "encode"],
        "checkpoints": ["read_checkpoints"],
        "nulls": ["disparities", "random_walk"],
        "phases": ["Clustering", "couple", "find_phases", "phase_grid", "transition_activity"],
        "reports": ["RunReport", "run_report"],
        "traces": ["Layout", "Recipe", "Trace", "lay_out", "principal_coordinates", "trace"],
        "weight_paths": ["WeightPath", "rotate", "weight_path"],
    },
)
