"""Runs on disk: the weights of a training run over time, full or sketched, and a state to resume from."""

import lazy_loader

from embviz.imports import require

require("torch", "torch", purpose="embviz.runs")

__getattr__, __dir__, __all__ = lazy_loader.attach(
    __name__,
    submodules=["run", "sketches", "tensors"],
    submod_attrs={
        "run": ["DamagedRunError", "Run", "delete_run", "read_run"],
        "sketches": ["Sketch", "run_bytes"],
        "tensors": ["select_weights"],
    },
)
