"""The loop, callbacks for the loops of others; language models, and the spectra of gradients."""

import lazy_loader

from embviz.imports import require

require("torch", "torch", purpose="embviz.training")

__getattr__, __dir__, __all__ = lazy_loader.attach(
    __name__,
    submodules=["adapters", "fourier", "language", "loop"],
    submod_attrs={
        "adapters": ["lightning_callback", "trainer_callback"],
        "fourier": ["Sounding", "noise_share", "power_spectrum", "sound", "strike", "tabulate"],
        "language": [
            "LanguageTraining",
            "Stream",
            "Streams",
            "TextConfig",
            "draw_batch",
            "load_streams",
            "make_stream",
            "next_token_losses",
            "score",
            "score_unigrams",
            "split_documents",
            "train_language_model",
            "windows",
        ],
        "loop": ["AdamW", "Snapshot", "keep_freed_memory", "train"],
    },
)
