"""A training loop, callbacks for the loops of others, and the spectra of gradients."""

import lazy_loader

from embviz.imports import require

require("torch", "torch", purpose="embviz.training")

__getattr__, __dir__, __all__ = lazy_loader.attach(
    __name__,
    submodules=["adapters", "fourier", "loop"],
    submod_attrs={
        "adapters": ["lightning_callback", "trainer_callback"],
        "fourier": ["Sounding", "power_spectrum", "sound", "strike"],
        "loop": ["AdamW", "Snapshot", "train"],
    },
)
