"""The masked language model: sizes, tying, seeds, its equations written out in numpy, refusals."""

import dataclasses

import numpy as np
import pytest
import torch
from scipy import special

from book.tying.models.masked import MaskedConfig, MaskedLanguageModel

SMALL = MaskedConfig(
    vocab_size=11, n_layers=2, embedding_dim=8, n_heads=2, hidden_dim=12, positions=True, length=6
)
TYINGS = pytest.mark.parametrize("tied", [True, False], ids=["tied", "untied"])


def made_tokens(config: MaskedConfig, n: int = 4, seed: int = 0) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(config.vocab_size, (n, config.length), generator=generator)


def made_asked(config: MaskedConfig, n: int = 4, seed: int = 1) -> torch.Tensor:
    return torch.rand((n, config.length), generator=torch.Generator().manual_seed(seed)) < 0.4


def all_logits(model: MaskedLanguageModel, tokens: torch.Tensor) -> np.ndarray:
    """Logits (B, T, V) from the equations of a post-norm transformer, in float64."""
    weights = {name: tensor.detach().double().numpy() for name, tensor in model.state_dict().items()}
    config = model.config
    x = weights["input_embedding"][tokens.numpy()]
    if config.positions:
        x = x + weights["position"][: tokens.shape[1]]
    for layer in range(config.n_layers):
        w = {
            name.removeprefix(f"body.layers.{layer}."): value
            for name, value in weights.items()
            if name.startswith(f"body.layers.{layer}.")
        }
        x = norm(x + attention(x, w, config.n_heads), w, "norm1")
        hidden = x @ w["linear1.weight"].T + w["linear1.bias"]
        hidden = hidden * special.ndtr(hidden)  # GELU
        x = norm(x + hidden @ w["linear2.weight"].T + w["linear2.bias"], w, "norm2")
    return x @ weights.get("free_output", weights["input_embedding"]).T


def norm(x: np.ndarray, w: dict[str, np.ndarray], name: str) -> np.ndarray:
    centred = x - x.mean(-1, keepdims=True)
    return centred / np.sqrt(x.var(-1, keepdims=True) + 1e-5) * w[f"{name}.weight"] + w[f"{name}.bias"]


def attention(x: np.ndarray, w: dict[str, np.ndarray], n_heads: int) -> np.ndarray:
    """Every token looks at every token, itself and the masked ones included."""
    queries, keys, values = np.split(
        x @ w["self_attn.in_proj_weight"].T + w["self_attn.in_proj_bias"], 3, axis=-1
    )
    heads = []
    for q, k, v in zip(*(np.split(part, n_heads, axis=-1) for part in (queries, keys, values)), strict=True):
        scores = q @ k.transpose(0, 2, 1) / np.sqrt(q.shape[-1])
        heads.append(special.softmax(scores, axis=-1) @ v)
    return np.concatenate(heads, -1) @ w["self_attn.out_proj.weight"].T + w["self_attn.out_proj.bias"]


# --- sizes, tying, seeds ----------------------------------------------------------------------------


def test_the_defaults_are_the_papers_sizes_and_parameters_those_of_the_equations():
    config = MaskedConfig(vocab_size=1_000)
    assert (config.n_layers, config.embedding_dim, config.n_heads, config.hidden_dim) == (3, 128, 4, 512)
    assert (config.init_sd, config.positions) == (0.3, False)
    D, M = 128, 512
    body = 3 * (4 * D * (D + 1) + 4 * D + M * (D + 1) + D * (M + 1))
    for tied, n_tables in ((True, 1), (False, 2)):
        model = MaskedLanguageModel(config, tied=tied, seed=0)
        assert sum(p.numel() for p in model.parameters()) == body + n_tables * 1_000 * D


def test_tied_and_untied_models_of_a_seed_share_all_weights_that_both_have_and_another_seed_none():
    before = torch.random.get_rng_state()
    tied, untied, other = (
        MaskedLanguageModel(SMALL, tied=tied, seed=seed).state_dict()
        for tied, seed in ((True, 3), (False, 3), (True, 4))
    )
    assert torch.equal(torch.random.get_rng_state(), before)
    assert set(untied) - set(tied) == {"free_output"}
    assert all(torch.equal(untied[name], tied[name]) for name in tied)
    assert not torch.equal(untied["free_output"], untied["input_embedding"])
    assert not torch.equal(tied["input_embedding"], other["input_embedding"])


def test_embeddings_start_with_the_standard_deviation_asked_for():
    model = MaskedLanguageModel(MaskedConfig(vocab_size=2_000), tied=False, seed=0)
    for matrix in (model.input_embedding, model.output_embedding):
        entries = matrix.detach().numpy()
        # 256,000 draws: standard errors are 0.0004 (of the s.d.) and 0.0006 (of the mean)
        assert entries.std() == pytest.approx(0.3, abs=0.002)
        assert entries.mean() == pytest.approx(0, abs=0.003)


# --- what it computes -------------------------------------------------------------------------------


@TYINGS
@pytest.mark.parametrize("positions", [True, False], ids=["positions", "no positions"])
def test_logits_at_the_asked_places_are_those_of_the_equations_row_by_row(tied, positions):
    config = dataclasses.replace(SMALL, positions=positions)
    model = MaskedLanguageModel(config, tied=tied, seed=5)
    tokens, asked = made_tokens(config), made_asked(config)
    found = model(tokens, asked).detach().numpy()
    assert found.shape == (int(asked.sum()), config.vocab_size)
    # float32 against float64: logits are about 1
    np.testing.assert_allclose(found, all_logits(model, tokens)[asked.numpy()], rtol=1e-4, atol=2e-5)
