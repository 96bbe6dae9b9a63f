"""Small encoders: sizes, tying, seeds, and each architecture against its equations written out in numpy."""

import math

import numpy as np
import pytest
import torch
from scipy import special

from book.tying.models.encoders import Encoder, EncoderConfig

SMALL = EncoderConfig()
CONFIGS = [
    EncoderConfig(architecture, n_layers, *dims, positions=positions)
    for architecture in ("transformer", "lstm", "mixer")
    for n_layers, *dims in ((1, 4, 4, 4), (2, 6, 5, 3))
    for positions in (False, True)
]
EVERY_CONFIG = pytest.mark.parametrize(
    "config", CONFIGS, ids=lambda c: f"{c.architecture}-{c.n_layers}{'-positions' * c.positions}"
)


def made_tokens(config: EncoderConfig, n: int = 5, seed: int = 0) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(config.vocab_size, (n, config.length), generator=generator)


def n_parameters(model: Encoder) -> int:
    return sum(parameter.numel() for parameter in model.parameters())


# --- sizes and tying --------------------------------------------------------------------------------


def test_the_papers_small_transformer_has_192_parameters_untied_and_164_tied():
    assert n_parameters(Encoder(SMALL, tied=False, seed=0)) == 192
    assert n_parameters(Encoder(SMALL, tied=True, seed=0)) == 164


@EVERY_CONFIG
def test_tied_stores_one_table_and_both_uses_pull_on_it(config):
    tied, untied = (Encoder(config, tied=tied, seed=0) for tied in (True, False))
    assert tied.output_embedding is tied.input_embedding
    assert untied.output_embedding is not untied.input_embedding
    assert "free_output" not in tied.state_dict()
    assert set(untied.state_dict()) - set(tied.state_dict()) == {"free_output"}
    with torch.no_grad():
        untied.output_embedding.copy_(untied.input_embedding)
    tokens = made_tokens(config)
    for model in (tied, untied):
        model(tokens).logsumexp(-1).sum().backward()
    both = untied.input_embedding.grad + untied.output_embedding.grad
    # float32 sums in another order
    torch.testing.assert_close(tied.input_embedding.grad, both, rtol=1e-4, atol=1e-5)


# --- seeds ------------------------------------------------------------------------------------------


@EVERY_CONFIG
def test_tied_and_untied_models_of_one_seed_share_all_weights_that_both_have(config):
    tied, untied, other = (
        Encoder(config, tied=tied, seed=seed).state_dict()
        for tied, seed in ((True, 3), (False, 3), (True, 4))
    )
    for name, weights in tied.items():
        assert torch.equal(weights, untied[name]), name
    assert not torch.equal(tied["input_embedding"], other["input_embedding"])
    assert not torch.equal(untied["input_embedding"], untied["free_output"])


def test_initial_embeddings_are_standard_normal():
    large = EncoderConfig(embedding_dim=64, vocab_size=1000)
    model = Encoder(large, tied=False, seed=0)
    for table in (model.input_embedding.detach(), model.output_embedding.detach()):
        # 64,000 numbers: standard errors 0.004 of the mean and 0.003 of the deviation
        assert abs(float(table.mean())) < 0.016
        assert float(table.std()) == pytest.approx(1, abs=0.012)


# --- the equations in numpy -------------------------------------------------------------------------


class Written:
    """One string at a time, float64, from the equations."""

    def __init__(self, model: Encoder) -> None:
        self.config = model.config
        self.weights = {name: array.double().numpy() for name, array in model.state_dict().items()}

    def encode(self, tokens: np.ndarray) -> np.ndarray:
        """Encodings (T, D) of one string (T,)."""
        x = self.weights["input_embedding"][tokens]
        if self.config.positions:
            x = x + self.weights["position"]
        return getattr(self, self.config.architecture)(x)

    def linear(self, name: str, x: np.ndarray) -> np.ndarray:
        return x @ self.weights[f"{name}.weight"].T + self.weights[f"{name}.bias"]

    def norm(self, name: str, x: np.ndarray) -> np.ndarray:
        centred = x - x.mean(-1, keepdims=True)
        scaled = centred / np.sqrt(centred.var(-1, keepdims=True) + 1e-5)
        return scaled * self.weights[f"{name}.weight"] + self.weights[f"{name}.bias"]

    def transformer(self, x: np.ndarray) -> np.ndarray:
        for layer in range(self.config.n_layers):
            name = f"body.layers.{layer}"
            weight = self.weights[f"{name}.self_attn.in_proj_weight"]
            bias = self.weights[f"{name}.self_attn.in_proj_bias"]
            query, key, value = np.split(x @ weight.T + bias, 3, axis=1)
            attention = special.softmax(query @ key.T / math.sqrt(x.shape[1]), axis=1)
            x = self.norm(f"{name}.norm1", x + self.linear(f"{name}.self_attn.out_proj", attention @ value))
            up = self.linear(f"{name}.linear1", x)
            gelu = up * (1 + special.erf(up / math.sqrt(2))) / 2
            x = self.norm(f"{name}.norm2", x + self.linear(f"{name}.linear2", gelu))
        return x

    def lstm(self, x: np.ndarray) -> np.ndarray:
        for layer in range(self.config.n_layers):
            forward = self.lstm_direction(f"l{layer}", x)
            backward = self.lstm_direction(f"l{layer}_reverse", x[::-1])[::-1]
            x = np.concatenate([forward, backward], axis=1)
        return self.linear("body.project", x)

    def lstm_direction(self, name: str, x: np.ndarray) -> np.ndarray:
        w_in, w_state, b_in, b_state = (
            self.weights[f"body.lstm.{kind}_{name}"]
            for kind in ("weight_ih", "weight_hh", "bias_ih", "bias_hh")
        )
        hidden = cell = np.zeros(self.config.hidden_dim)
        states = []
        for row in x:
            i, f, g, o = np.split(w_in @ row + b_in + w_state @ hidden + b_state, 4)
            cell = special.expit(f) * cell + special.expit(i) * np.tanh(g)
            hidden = special.expit(o) * np.tanh(cell)
            states.append(hidden)
        return np.array(states)

    def mixer(self, x: np.ndarray) -> np.ndarray:
        for layer in range(self.config.n_layers):
            name = f"body.{layer}"
            mixed = self.linear(f"{name}.token_in", self.norm(f"{name}.token_norm", x).T)
            x = x + self.linear(f"{name}.token_out", np.maximum(mixed, 0)).T
            mixed = self.linear(f"{name}.channel_in", self.norm(f"{name}.channel_norm", x))
            x = x + self.linear(f"{name}.channel_out", np.maximum(mixed, 0))
        return x


@EVERY_CONFIG
def test_encodings_and_logits_are_what_the_equations_give(config):
    model = Encoder(config, tied=False, seed=1).double()
    written, tokens = Written(model), made_tokens(config)
    expected = np.array([written.encode(row) for row in tokens.numpy()])
    np.testing.assert_allclose(model.encode(tokens).detach(), expected, rtol=1e-9, atol=1e-11)  # float64
    logits = expected @ written.weights["free_output"].T  # no bias
    np.testing.assert_allclose(model(tokens).detach(), logits, rtol=1e-9, atol=1e-11)


# --- rank -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("architecture", ["transformer", "lstm", "mixer"])
@pytest.mark.parametrize("rank", [1, 3])
def test_rank_puts_the_other_coordinates_of_the_encodings_to_zero_and_keeps_the_first(architecture, rank):
    full, limited = (EncoderConfig(architecture, rank=r) for r in (0, rank))
    tokens = made_tokens(full, n=20)
    whole, cut = (Encoder(config, tied=False, seed=0).encode(tokens) for config in (full, limited))
    assert torch.equal(cut[..., :rank], whole[..., :rank])
    assert (cut[..., rank:] == 0).all()
    assert torch.linalg.matrix_rank(cut.flatten(0, 1)) == rank
