"""Many small encoders side by side in one program: every parameter has a leading axis R, one row a member.

The mathematics is :class:`book.tying.models.encoders.Encoder`'s. Operations on models of a few hundred
weights cost what calling them costs, so a call that serves R models saves nearly all of it; and what does
not reach the loss isn't computed: the last layer works at the masked place alone.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import gelu

from book.members import Member, affine, inner, looked_up, normed, output_rows
from book.tying.models.encoders import Encoder, EncoderConfig, kept_coordinates


@dataclass(frozen=True)
class Encoded:
    """What the members made of their batches."""

    encodings: Tensor  # at the masked place, (R, B, D)
    logits: Tensor  # (R, B, V)
    attention: Tensor | None = None  # of the last layer from the masked place, (R, B, T); transformers only


class StackedEncoder(nn.Module):
    """R encoders of one shape, each with its own weights.

    Parameters
    ----------
    config : EncoderConfig
    members : sequence of Member
        Each starts from the weights of ``Encoder(config, tied=member.tied, seed=member.seed)``.

    Raises
    ------
    ValueError
        If there is no member, or one is named twice.

    Notes
    -----
    ``weights`` maps an encoder's parameter names to stacked arrays (R, ...); ``free_output`` has a row for
    each untied member only, in their order, so that nothing tied is stored twice.
    """

    kept: Tensor | None
    output_rows: Tensor

    def __init__(self, config: EncoderConfig, members: Sequence[Member]) -> None:
        super().__init__()
        self.config, self.members = config, tuple(members)
        self.arrays = nn.ParameterDict()
        singles = [Encoder(config, tied=member.tied, seed=member.seed) for member in members]
        self.stack(singles)
        self.register_buffer("kept", kept_coordinates(config), persistent=False)

    def stack(self, singles: Sequence[Encoder]) -> None:
        """Take over the weights of `singles`, one a member."""
        states = [single.state_dict() for single in singles]
        names = dict.fromkeys(name for state in states for name in state)
        for name in names:
            rows = [state[name].detach() for state in states if name in state]
            self.arrays[inner(name)] = nn.Parameter(torch.stack(rows))
        self.register_buffer("output_rows", output_rows(self.members), persistent=False)

    @property
    def weights(self) -> dict[str, Tensor]:
        """Stacked arrays by an encoder's parameter names."""
        return {name.replace("/", "."): array for name, array in self.arrays.items()}

    @property
    def input_embedding(self) -> Tensor:
        """E_I (R, V, D)."""
        return self.arrays["input_embedding"]

    @property
    def output_embedding(self) -> Tensor:
        """E_O (R, V, D): a tied member's row is its input embedding."""
        if "free_output" not in self.arrays:
            return self.input_embedding
        return torch.cat([self.input_embedding, self.arrays["free_output"]])[self.output_rows]

    def member(self, index: int) -> Encoder:
        """A single model with the weights of member `index`."""
        member = self.members[index]
        single = Encoder(self.config, tied=member.tied, seed=member.seed)
        n_untied_before = sum(not other.tied for other in self.members[:index])
        rows = {name: n_untied_before if name == "free_output" else index for name in single.state_dict()}
        single.load_state_dict({name: self.weights[name][row].detach() for name, row in rows.items()})
        return single

    def forward(self, tokens: Tensor, places: Tensor) -> Encoded:
        """Read tokens (R, B, T) and answer at `places` (R, B), each member its own."""
        body = {"transformer": self._transformer, "lstm": self._lstm, "mixer": self._mixer}
        encodings, attention = body[self.config.architecture](tokens, places)
        if self.kept is not None:
            encodings = encodings * self.kept
        return Encoded(encodings, encodings @ self.output_embedding.mT, attention)

    def losses(self, tokens: Tensor, places: Tensor, targets: Tensor) -> Tensor:
        """Mean cross entropy of targets (R, B) at the masked places, nats, (R,)."""
        logits = self(tokens, places).logits
        flat = nn.functional.cross_entropy(logits.flatten(0, 1), targets.flatten(), reduction="none")
        return flat.view(targets.shape).mean(1)

    def _embed(self, tokens: Tensor) -> Tensor:
        """Input embeddings (R, B, T, D)."""
        x = looked_up(self.input_embedding, tokens)
        return x + self.arrays["position"][:, None] if self.config.positions else x

    def _part(self, *names: str) -> list[Tensor]:
        return [self.arrays[inner(name)] for name in names]

    # --- transformer ---------------------------------------------------------------------------------

    def _transformer(self, tokens: Tensor, places: Tensor) -> tuple[Tensor, Tensor]:
        asked = tokens.gather(2, places[..., None])  # the symbols at the masked places, (R, B, 1)
        if self.config.positions or self.config.vocab_size > self.config.length:
            x, log_counts, query = self._embed(tokens), None, places[..., None]
        else:
            x = self.input_embedding[:, None]  # (R, 1, V, D)
            # Without positions a transformer can't tell equal symbols apart: one state for each symbol
            # instead of each token, attended to as often as the symbol occurs, gives the same numbers.
            counts = x.new_zeros(*tokens.shape[:2], self.config.vocab_size)
            counts.scatter_add_(2, tokens, torch.ones_like(tokens, dtype=x.dtype))  # (R, B, V)
            log_counts, query = counts.log()[:, :, None], asked
        for layer in range(self.config.n_layers - 1):
            x, _ = self._transformer_layer(layer, x, x, log_counts)
        here = _take(x.expand(-1, tokens.shape[1], -1, -1), query[..., 0])[:, :, None]  # (R, B, 1, D)
        x, attention = self._transformer_layer(self.config.n_layers - 1, here, x, log_counts)
        if log_counts is not None:  # from symbols back to the tokens that share them
            attention = (attention[:, :, 0] / counts.clamp(min=1)).gather(2, tokens)
            return x[:, :, 0], attention
        return x[:, :, 0], attention[:, :, 0]

    def _transformer_layer(
        self, layer: int, x: Tensor, context: Tensor, log_counts: Tensor | None
    ) -> tuple[Tensor, Tensor]:
        """Post-norm layer: x (R, B or 1, Q, D) attends to context (R, B or 1, K, D) and its counts' log.

        Returns the new x (R, B, Q, D) and the attention (R, B, Q, K).
        """
        name = f"body.layers.{layer}."
        in_weight, in_bias = self._part(name + "self_attn.in_proj_weight", name + "self_attn.in_proj_bias")
        dim = self.config.embedding_dim
        query = affine(x, in_weight[:, :dim], in_bias[:, :dim])
        key, value = affine(context, in_weight[:, dim:], in_bias[:, dim:]).split(dim, dim=-1)
        scores = _each_to_all(query * dim**-0.5, key.mT)  # (R, B or 1, Q, K)
        attention = (scores if log_counts is None else scores + log_counts).softmax(-1)
        out = self._part(name + "self_attn.out_proj.weight", name + "self_attn.out_proj.bias")
        x = x + affine(_each_to_all(attention, value), *out)
        x = normed(x, *self._part(name + "norm1.weight", name + "norm1.bias"))
        up = self._part(name + "linear1.weight", name + "linear1.bias")
        down = self._part(name + "linear2.weight", name + "linear2.bias")
        x = x + affine(gelu(affine(x, *up)), *down)
        return normed(x, *self._part(name + "norm2.weight", name + "norm2.bias")), attention

    # --- bidirectional LSTM ---------------------------------------------------------------------------

    def _lstm(self, tokens: Tensor, places: Tensor) -> tuple[Tensor, None]:
        # the batch comes last, so that each gate is one piece of memory
        x = self._embed(tokens).permute(0, 3, 2, 1)  # (R, D, T, B)
        for layer in range(self.config.n_layers):
            x = self._lstm_layer(layer, x)
        here = _take(x.permute(0, 3, 2, 1), places)
        return affine(here, *self._part("body.project.weight", "body.project.bias")), None

    def _lstm_layer(self, layer: int, x: Tensor) -> Tensor:
        """Both directions at once, as 2R members: x (R, I, T, B) to (R, 2 H, T, B)."""
        both = [
            torch.stack(self._part(f"body.lstm.{kind}_l{layer}", f"body.lstm.{kind}_l{layer}_reverse"), 1)
            for kind in ("weight_ih", "weight_hh", "bias_ih", "bias_hh")
        ]
        w_in, w_state, b_in, b_state = (part.flatten(0, 1) for part in both)  # (2 R, 4 H, ...)
        n_members, width, length, batch = x.shape
        directions = torch.stack([x, x.flip(2)], 1).view(2 * n_members, width, -1)  # (2 R, I, T B)
        gates = torch.baddbmm((b_in + b_state)[..., None], w_in, directions)
        hidden: Tensor = _LSTMScan.apply(
            gates.view(*gates.shape[:2], length, batch), w_state
        )  # (T, 2 R, H, B)
        both_ways = hidden.view(length, n_members, 2, -1, batch)
        forward, backward = both_ways[:, :, 0], both_ways[:, :, 1].flip(0)
        return torch.cat([forward, backward], 2).permute(1, 2, 0, 3)  # (R, 2 H, T, B)

    # --- MLP-Mixer -------------------------------------------------------------------------------------

    def _mixer(self, tokens: Tensor, places: Tensor) -> tuple[Tensor, None]:
        x = self._embed(tokens)
        for layer in range(self.config.n_layers):
            part = functools.partial(self._mixer_part, layer)
            by_channel = normed(x, *part("token_norm")).mT  # (R, B, D, T)
            x = x + affine(affine(by_channel, *part("token_in")).relu(), *part("token_out")).mT
            if layer == self.config.n_layers - 1:
                x = _take(x, places)
            read = normed(x, *part("channel_norm"))
            x = x + affine(affine(read, *part("channel_in")).relu(), *part("channel_out"))
        return x, None

    def _mixer_part(self, layer: int, name: str) -> list[Tensor]:
        return self._part(f"body.{layer}.{name}.weight", f"body.{layer}.{name}.bias")


def _take(x: Tensor, places: Tensor) -> Tensor:
    """x (R, B, T, D) at places (R, B): (R, B, D)."""
    index = places[:, :, None, None].expand(-1, -1, 1, x.shape[-1])
    return x.gather(2, index)[:, :, 0]


def _each_to_all(x: Tensor, shared: Tensor) -> Tensor:
    """x (R, B, Q, I) times shared (R, B or 1, I, O): (R, B, Q, O)."""
    if shared.shape[1] == 1:
        return (x.flatten(1, 2) @ shared[:, 0]).view(*x.shape[:-1], -1)
    return x @ shared


class _LSTMScan(torch.autograd.Function):
    """LSTM cells over T steps, with the backward pass written out: a third of autograd's calls."""

    @staticmethod
    def forward(ctx: Any, steps: Tensor, w_state: Tensor) -> Tensor:  # type: ignore[override]
        """Gate inputs (R, 4 H, T, B), state weights (R, 4 H, H): hidden states (T, R, H, B)."""
        width = w_state.shape[-1]
        # (T, R, 4 H, B), gates in PyTorch's order i, f, g, o; overwritten, so a copy even of one step
        gates = steps.permute(2, 0, 1, 3).clone(memory_format=torch.contiguous_format)
        n_steps, n_members, _, batch = gates.shape
        hidden, cell, squashed = (gates.new_empty(n_steps, n_members, width, batch) for _ in range(3))
        for t in range(n_steps):
            if t:
                gates[t].baddbmm_(w_state, hidden[t - 1])
            i, f, g, o = gates[t].split(width, 1)
            gates[t, :, : 2 * width].sigmoid_()
            g.tanh_()
            o.sigmoid_()
            torch.mul(i, g, out=cell[t])
            if t:
                cell[t].addcmul_(f, cell[t - 1])
            torch.tanh(cell[t], out=squashed[t])
            torch.mul(o, squashed[t], out=hidden[t])
        ctx.save_for_backward(gates, hidden, cell, squashed, w_state)
        return hidden

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, Tensor]:  # type: ignore[override]
        gates, hidden, cell, squashed, w_state = ctx.saved_tensors
        width, n_steps = w_state.shape[-1], len(gates)
        i, f, g, o = gates.split(width, 2)
        # slopes of the gates at all steps at once
        slope = torch.addcmul(gates, gates, gates, value=-1)  # s - s^2
        torch.addcmul(torch.ones((), dtype=g.dtype), g, g, value=-1, out=slope[:, :, 2 * width : 3 * width])
        into_cell = torch.addcmul(o, o, squashed * squashed, value=-1)  # d hidden / d cell
        d_gates = torch.empty_like(gates)
        d_hidden, d_cell = grad[-1], torch.zeros_like(cell[0])
        for t in reversed(range(n_steps)):
            d_cell = torch.addcmul(d_cell, d_hidden, into_cell[t])
            parts = d_gates[t].split(width, 1)
            torch.mul(d_cell, g[t], out=parts[0])
            torch.mul(d_cell, cell[t - 1] if t else torch.zeros_like(d_cell), out=parts[1])
            torch.mul(d_cell, i[t], out=parts[2])
            torch.mul(d_hidden, squashed[t], out=parts[3])
            d_gates[t].mul_(slope[t])
            if t:
                d_hidden = torch.baddbmm(grad[t - 1], w_state.mT, d_gates[t])
                d_cell.mul_(f[t])
        d_steps = d_gates.permute(1, 2, 0, 3)  # (R, 4 H, T, B)
        before = hidden[:-1].permute(1, 2, 0, 3).flatten(2)  # (R, H, (T - 1) B)
        return d_steps, d_steps[:, :, 1:].flatten(2) @ before.mT
