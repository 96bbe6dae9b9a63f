"""Gradients into a tied matrix: both parts against autograd's, and what the findings make of stored cells."""

import numpy as np
import pytest
import torch

from book.tying.experiments import gradients as study
from book.tying.models.masked import MaskedConfig, MaskedLanguageModel
from embviz.training.loop import AdamW, train

SHAPE = MaskedConfig(vocab_size=9, n_layers=1, embedding_dim=8, n_heads=2, hidden_dim=8)
TOKENS = torch.from_numpy(np.random.default_rng(0).integers(9, size=(4, 5)))
ASKED = torch.zeros(4, 5, dtype=torch.bool).index_fill(1, torch.tensor([1]), True)


def loss_of(model):
    answers = torch.arange(4)
    return torch.nn.functional.cross_entropy(model(TOKENS, ASKED), answers)


def learned(factor, n_steps=5):
    model = MaskedLanguageModel(SHAPE, tied=False, seed=3)
    parts = study.GradientParts(model.input_embedding, model.output_embedding, factor, n_steps)
    adam = AdamW(0.01, weight_decay=0.1)
    options = {"n_steps": n_steps, "snapshot_at": n_steps, "weights": "none", "after_backward": parts}
    list(train(model, lambda step: loss_of(model), adam, **options))
    return model, parts


def test_an_untied_model_with_joined_gradients_learns_as_the_tied_one():
    tied = MaskedLanguageModel(SHAPE, tied=True, seed=3)
    list(train(tied, lambda step: loss_of(tied), AdamW(0.01, weight_decay=0.1), n_steps=5, snapshot_at=5))
    model, _ = learned(1.0)
    torch.testing.assert_close(model.input_embedding, tied.input_embedding, rtol=1e-5, atol=1e-6)
    torch.testing.assert_close(model.input_embedding, model.output_embedding, rtol=0, atol=0)


def test_the_norms_are_those_of_the_two_uses_of_the_matrix():
    model = MaskedLanguageModel(SHAPE, tied=True, seed=3)
    E = model.input_embedding
    encodings = model.encode(TOKENS)[ASKED]
    through_input = torch.autograd.grad(
        torch.nn.functional.cross_entropy(encodings @ E.detach().mT, torch.arange(4)), E, retain_graph=True
    )[0]
    through_output = torch.autograd.grad(
        torch.nn.functional.cross_entropy(encodings.detach() @ E.mT, torch.arange(4)), E
    )[0]
    _, parts = learned(1.0, n_steps=1)
    expected = [through_input.norm().item(), through_output.norm().item()]
    np.testing.assert_allclose(parts.norms[0, :, 0], expected, rtol=1e-5)
    assert parts.ratios()[0, 0] == pytest.approx(np.log(expected[1] / expected[0]), rel=1e-5)


def test_a_factor_scales_the_inputs_gradient_and_untied_matrices_part():
    scaled, _ = learned(50.0)
    plain, _ = learned(1.0)
    assert (scaled.input_embedding - plain.input_embedding).abs().max() > 1e-3
    torch.testing.assert_close(scaled.input_embedding, scaled.output_embedding, rtol=0, atol=0)
    free, _ = learned(None)
    assert (free.input_embedding - free.output_embedding).abs().max() > 0.1
