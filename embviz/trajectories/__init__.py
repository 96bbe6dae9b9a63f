"""Trajectories of weights: the behavioural autoencoder, layouts, clusters and controls."""

import lazy_loader

from embviz.imports import require

require("trajectories", "torch", "sklearn", purpose="embviz.trajectories")

__getattr__, __dir__, __all__ = lazy_loader.attach(
    __name__,
    submodules=["autoencoders", "checkpoints", "nulls", "phases", "reports", "traces", "weight_paths"],
    submod_attrs={
        "autoencoders": ["Autoencoder", "Behaviour", "encode", "encode_together", "held_out_errors"],
        "checkpoints": ["read_checkpoints"],
        "nulls": [
            "Left",
            "disparities",
            "measure",
            "random_walk",
            "share_left",
            "shuffled_losses",
            "step_correlations",
            "through_nulls",
        ],
        "phases": [
            "Clustering",
            "Phases",
            "couple",
            "find_phases",
            "path_steps",
            "phase_grid",
            "sharpness",
            "transition_activity",
            "transitions",
            "visits",
        ],
        "reports": ["RunReport", "run_report"],
        "traces": [
            "Layout",
            "Recipe",
            "Trace",
            "lay_out",
            "principal_coordinates",
            "trace",
            "trace_together",
        ],
        "weight_paths": ["WeightPath", "cosine_share", "join", "rotate", "weight_path"],
    },
)
