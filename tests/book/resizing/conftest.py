"""A base model that is trained in a moment."""

from book.language import TextConfig
from book.resizing.decoder import DecoderConfig
from book.resizing.experiments import bases

BASE = bases.BaseRun(
    TextConfig("embedded", n_documents=40, n_held_out=1),
    DecoderConfig(1, 16, 8, 1, 2, mlp_dim=16, norm_biases=True),
    bases.training(30, 4, 16, 1e-2),
    n_scores=1,
)
