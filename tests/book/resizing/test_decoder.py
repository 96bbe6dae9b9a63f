"""The decoder against slow loops, and its refusals."""

import dataclasses
import math

import pytest
import torch
from torch import Tensor
from torch.nn.functional import gelu

from book.resizing.decoder import Decoder, DecoderConfig, alibi

SMALL = DecoderConfig(n_symbols=11, length=5, embedding_dim=12, n_layers=2, n_heads=3, mlp_dim=20)
FLOAT64 = {"rtol": 1e-10, "atol": 1e-11}  # sums of some dozen terms in another order
CONFIGS = {
    "LayerNorm": dataclasses.replace(SMALL, biases=True, norm_biases=True),
    "rotary": dataclasses.replace(SMALL, norm="rms", positions="rotary", tied=False, rotary_base=100.0),
    "ALiBi, wide heads": dataclasses.replace(SMALL, norm="rms", gains="none", positions="alibi", head_dim=6),
    "peri": dataclasses.replace(SMALL, placement="peri", norm="rms", after_gains="one"),
    "options": dataclasses.replace(
        SMALL, attention_scale=0.7, norm_eps=0.1, norm_width=7, gains="dense", head_bias=True
    ),
    "sphere": dataclasses.replace(SMALL, placement="sphere", norm="rms", gains="one"),
}
EVERY_CONFIG = pytest.mark.parametrize("config", CONFIGS.values(), ids=CONFIGS.keys())


def made_tokens(config: DecoderConfig, n_strings: int = 2) -> Tensor:
    generator = torch.Generator().manual_seed(0)
    return torch.randint(config.n_symbols, (n_strings, config.length), generator=generator)


def livened(model: torch.nn.Module) -> torch.nn.Module:
    """With biases, gains and scales that aren't at their start, in float64."""
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn(parameter.shape, generator=generator), alpha=0.3)
    return model.double().eval()


# --- the definition ---------------------------------------------------------------------------------


class Slow:
    """Logits of one string, a position, a head and a vector at a time."""

    def __init__(self, model: Decoder) -> None:
        self.config, self.weights = model.config, model.state_dict()

    @property
    def on_sphere(self) -> bool:
        return self.config.placement == "sphere"

    def one(self, x: Tensor) -> Tensor:
        return x / math.sqrt(float((x * x).sum()))

    def mapped(self, name: str, x: Tensor) -> Tensor:
        weight = self.weights[f"{name}.weight"]
        if self.on_sphere and name.endswith(("out", "down")):
            weight = torch.stack([self.one(column) for column in weight.T]).T
        elif self.on_sphere:
            weight = torch.stack([self.one(row) for row in weight])
        return weight @ x + self.weights.get(f"{name}.bias", torch.zeros(()))

    def gained(self, name: str, x: Tensor) -> Tensor:
        gain = self.weights.get(f"{name}.weight", torch.ones(()))
        return gain @ x if gain.dim() == 2 else gain * x

    def normed(self, name: str, x: Tensor) -> Tensor:
        if self.config.norm == "layer":
            x = x - x.sum() / len(x)
        divisor = self.config.norm_width or len(x)
        x = x / math.sqrt(float((x * x).sum()) / divisor + self.config.norm_eps)
        return self.gained(name, x) + self.weights.get(f"{name}.bias", torch.zeros(()))

    def placed(self, x: Tensor, place: int) -> Tensor:
        """A query or key (W,) of some place, turned if positions are rotary."""
        if self.config.positions != "rotary":
            return x
        half = len(x) // 2
        pairs = [torch.complex(x[i], x[i + half]) for i in range(half)]
        turned = [
            pair * complex(math.cos(angle), math.sin(angle))
            for i, pair in enumerate(pairs)
            for angle in [place * self.config.rotary_base ** (-i / half)]
        ]
        return torch.stack([z.real for z in turned] + [z.imag for z in turned])

    def attended(self, block: str, hidden: list[Tensor], here: int) -> Tensor:
        config, width = self.config, self.config.head_width
        read = torch.zeros(config.n_heads * width, dtype=torch.float64)
        for head in range(config.n_heads):
            part = slice(head * width, (head + 1) * width)

            def vector(kind: str, place: int, part: slice = part) -> Tensor:
                x = self.placed(self.mapped(f"{block}.attention.{kind}", hidden[place])[part], place)
                if not self.on_sphere:
                    return x
                return self.one(x) * 10 * self.weights[f"{block}.attention.scales"][part]

            scale = config.attention_scale or (math.sqrt(width) if self.on_sphere else 1 / math.sqrt(width))
            scores = [vector("query", here) @ vector("key", s) * scale for s in range(here + 1)]
            if config.positions == "alibi":
                slope = 2.0 ** (-8 * (head + 1) / config.n_heads)
                scores = [score - slope * (here - s) for s, score in enumerate(scores)]
            for s, share in enumerate(torch.stack(scores).softmax(0)):
                read[part] += share * self.mapped(f"{block}.attention.value", hidden[s])[part]
        return self.mapped(f"{block}.attention.out", read)

    def mlp(self, block: str, x: Tensor) -> Tensor:
        up = self.mapped(f"{block}.up", x)
        if self.on_sphere:
            up = up * math.sqrt(len(x)) * self.weights[f"{block}.scales"]
        return self.mapped(f"{block}.down", gelu(up))

    def added(self, block: str, index: int, x: Tensor, answer: Tensor) -> Tensor:
        if self.on_sphere:
            step = self.gained(f"{block}.steps.{index}", self.one(answer) - x)
            return self.one(x + step * 10 / self.config.n_layers)
        if self.config.placement == "peri":
            answer = self.normed(f"{block}.after.{index}", answer)
        return x + answer

    def before(self, block: str, index: int, x: Tensor) -> Tensor:
        return x if self.on_sphere else self.normed(f"{block}.before.{index}", x)

    def logits(self, tokens: list[int]) -> Tensor:
        weights = self.weights
        maybe = self.one if self.on_sphere else lambda x: x
        stream = [maybe(weights["embedding"][token]) for token in tokens]
        if "position" in weights:
            stream = [maybe(x + weights["position"][place]) for place, x in enumerate(stream)]
        for layer in range(self.config.n_layers):
            block = f"blocks.{layer}"
            hidden = [self.before(block, 0, x) for x in stream]
            stream = [
                self.added(block, 0, x, self.attended(block, hidden, here)) for here, x in enumerate(stream)
            ]
            stream = [self.added(block, 1, x, self.mlp(block, self.before(block, 1, x))) for x in stream]
        head = weights.get("free_head", weights["embedding"])
        bias = weights.get("head_bias", torch.zeros(()))
        if self.on_sphere:
            cosines = [torch.stack([self.one(row) @ x for row in head]) for x in stream]
            return torch.stack([100 * weights["scales"] * row for row in cosines])
        return torch.stack([head @ self.normed("norm", x) + bias for x in stream])


@EVERY_CONFIG
def test_logits_are_those_of_slow_loops_over_positions_and_heads(config):
    model, tokens = livened(Decoder(config, seed=3)), made_tokens(config)
    slow = torch.stack([Slow(model).logits(string.tolist()) for string in tokens])
    torch.testing.assert_close(model(tokens), slow, **FLOAT64)


@EVERY_CONFIG
def test_logits_follow_from_the_residual_stream_after_the_last_layer(config):
    model, tokens = livened(Decoder(config, seed=3)), made_tokens(config)
    states = model.states(tokens)
    assert len(states) == config.n_layers + 1
    assert torch.equal(model.read_out(states[-1]), model(tokens))


# --- positions --------------------------------------------------------------------------------------


def test_alibi_of_eight_heads_has_the_slopes_of_the_publication():
    added = alibi(8, 3)
    assert added[:, 1, 0].tolist() == [-(2.0**-h) for h in range(1, 9)]
    assert added[0, 2].tolist() == [-1.0, -0.5, 0.0]
    assert added[0, 0, 1] == -math.inf


# --- refusals ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"embedding_dim": 13}, "no multiple of 3 heads: name a head_dim"),
        ({"norm": "batch"}, "norm is 'batch': choose one of layer, rms"),
        ({"gains": "two"}, "gains is 'two'"),
        ({"placement": "sphere"}, "on the sphere norm is 'rms'"),
        ({"placement": "peri", "norm": "rms"}, "after_gains in peri-norm, are 'one'"),
    ],
)
def test_a_shape_that_no_decoder_has_is_refused(options, message):
    with pytest.raises(ValueError, match=message):
        dataclasses.replace(SMALL, **options)
