"""The behavioural autoencoder: snapshots through a bottleneck that also predicts the training loss."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor, nn
from tqdm.auto import tqdm

from embviz.trajectories.weight_paths import WeightPath, rotate


@dataclass(frozen=True)
class Autoencoder:
    """Encoder, bottleneck, decoder, and a head that predicts the loss; sizes of our choice."""

    bottleneck: int = 8
    hidden: int = 64  # tanh units between snapshot and bottleneck, and back; a quarter for the loss
    n_components: int = 256  # rotated coordinates it sees; what the rest hold counts as not reconstructed
    loss_weight: float = 1.0  # of the prediction; the reconstruction's is 1
    n_epochs: int = 300  # updates, each on all snapshots
    learning_rate: float = 3e-3  # of Adam; a cosine down to 0


@dataclass(frozen=True)
class Errors:
    """Both terms of an autoencoder, each the share of variance it misses: 1 is no better than the mean.

    Their sum, the prediction times `loss_weight`, is what was minimized.
    """

    reconstruction: float
    prediction: float | None  # None where the loss is constant: then it has no variance to explain
    loss_weight: float


@dataclass(frozen=True, eq=False)
class Behaviour:
    """A path as its autoencoder sees it."""

    bottleneck: np.ndarray  # (S, E)
    predicted: np.ndarray | None  # (S,) loss read off the bottleneck; None where the loss is constant
    errors: Errors
    principal: float  # the reconstruction error of E principal components: what any autoencoder must beat
    left_out: float  # share of variance beyond `n_components`, part of both
    notes: tuple[str, ...] = ()


class _Network(nn.Module):
    """Starts as E principal components, which its tanh units then bend.

    The linear parts read off E coordinates and put them back, and the units' last layers start at 0.
    """

    def __init__(self, width: int, config: Autoencoder, seed: int) -> None:
        super().__init__()
        size, hidden = config.bottleneck, config.hidden
        self.linear_in, self.linear_out = _layer(width, size), _layer(size, width)
        nn.init.eye_(self.linear_in.weight)
        nn.init.eye_(self.linear_out.weight)
        draw = torch.Generator().manual_seed(seed)
        self.encoder = _bend(width, hidden, size, draw)
        self.decoder = _bend(size, hidden, width, draw)
        self.head = _bend(size, hidden // 4, 1, draw)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Bottleneck (S, E), reconstruction (S, K), predicted loss (S,) of snapshots x (S, K)."""
        z = self.linear_in(x) + self.encoder(x)
        return z, self.linear_out(z) + self.decoder(z), self.head(z)[:, 0]


def _bend(n_in: int, hidden: int, n_out: int, draw: torch.Generator) -> nn.Sequential:
    """A layer of tanh units that begins as 0; inputs have norms of about 1, so entries have variance 1."""
    first, last = _layer(n_in, hidden), _layer(hidden, n_out)
    nn.init.normal_(first.weight, generator=draw)
    nn.init.normal_(first.bias, generator=draw)
    return nn.Sequential(first, nn.Tanh(), last)


def _layer(n_in: int, n_out: int) -> nn.Linear:
    """A layer of zeros, made without drawing from the global generator."""
    layer = nn.utils.skip_init(nn.Linear, n_in, n_out)
    nn.init.zeros_(layer.weight)
    nn.init.zeros_(layer.bias)
    return layer


@dataclass(frozen=True, eq=False)
class _Standardized:
    """What the network sees: one shift and one scale for all weights, so that no direction is favoured."""

    x: Tensor  # (S, K) of mean 0 and mean squared norm 1 - left_out
    y: Tensor | None  # (S,) loss of mean 0 and variance 1
    left_out: float


def _standardize(path: WeightPath, config: Autoencoder, device: str) -> _Standardized:
    scores = rotate(path, device=device).weights
    scores = scores / math.sqrt((scores**2).sum() / len(scores))
    left_out = float((scores[:, config.n_components :] ** 2).sum() / len(scores))
    x = torch.tensor(scores[:, : config.n_components], dtype=torch.float32, device=device)
    if not path.has_losses:
        return _Standardized(x, None, left_out)
    y = (path.losses - path.losses.mean()) / path.losses.std()
    return _Standardized(x, torch.tensor(y, dtype=torch.float32, device=device), left_out)


def encode(
    path: WeightPath,
    config: Autoencoder | None = None,
    *,
    seed: int,
    device: str = "cpu",
    progress: bool = False,
) -> Behaviour:
    """Train a behavioural autoencoder on a path.

    Standardized beforehand: weights by their mean snapshot and one number, the root mean squared distance
    from it (not weight by weight, which would make still weights as loud as moving ones); losses to mean 0
    and variance 1. Both terms are then shares of variance, and `loss_weight` weighs like against like.

    Parameters
    ----------
    path : WeightPath, rotated or not
    config : Autoencoder, optional
    seed : int
        Of the initial weights; there are no batches to draw.
    device : str
    progress : bool
        Show a bar.

    Returns
    -------
    Behaviour
        On one machine with one number of threads, the same bits for the same seed.

    Source
    ------
    Geometry paper, section 4.1, which names the two terms and gives no size, weight or standardization.
    """
    return encode_together([path], config, seed=seed, device=device, progress=progress)[0]


def encode_together(
    paths: Sequence[WeightPath],
    config: Autoencoder | None = None,
    *,
    seed: int,
    device: str = "cpu",
    progress: bool = False,
) -> list[Behaviour]:
    """Train one behavioural autoencoder on several paths, so that their bottlenecks share their axes.

    Each path is standardized as :func:`encode` does, about its own mean and in its own principal axes, the
    widest first: matrices of any shapes go in, and which of them a snapshot is of isn't told.

    Parameters
    ----------
    paths : sequence of WeightPath
        Such as all matrices of a run.
    config, seed, device, progress
        As of :func:`encode`.

    Returns
    -------
    list of Behaviour, one a path
        Of a single path, that of :func:`encode`.
    """
    config = config or Autoencoder()
    if len({path.has_losses for path in paths}) > 1:
        odd = next(path for path in paths if not path.has_losses)
        raise ValueError(
            f"{odd.name} has no loss that changes, and others have one: give losses for all, or for none"
        )
    parts = [_standardize(path, config, device) for path in paths]
    width = max(part.x.shape[1] for part in parts)
    parts = [replace(part, x=nn.functional.pad(part.x, (0, width - part.x.shape[1]))) for part in parts]
    losses = [part.y for part in parts if part.y is not None]
    stacked = _Standardized(torch.cat([part.x for part in parts]), torch.cat(losses) if losses else None, 0.0)
    everyone = torch.ones(len(stacked.x), dtype=torch.bool, device=device)
    network = _fit(stacked, everyone, config, seed, progress=progress)
    return [_behaviour(network, path, part, config) for path, part in zip(paths, parts, strict=True)]


@torch.no_grad()
def _behaviour(network: _Network, path: WeightPath, data: _Standardized, config: Autoencoder) -> Behaviour:
    bottleneck, _, predicted = network(data.x)
    everyone = torch.ones(len(data.x), dtype=torch.bool, device=data.x.device)
    constant = data.y is None
    predicted_losses = predicted.cpu().numpy().astype(float) * path.losses.std() + path.losses.mean()
    first = path.losses[0]
    what = "no loss was told" if np.isnan(first) else f"the loss is {first:g} at every snapshot"
    flat = f"{what}: there is no prediction, only reconstruction"
    kept = data.x[:, : config.bottleneck]
    return Behaviour(
        bottleneck.cpu().numpy().astype(float),
        None if constant else predicted_losses,
        _errors(*_missed(network, data, everyone), data, config),
        max(0.0, 1 - float(kept.double().square().sum() / len(kept))),
        data.left_out,
        (flat,) if constant else (),
    )


def _fit(
    data: _Standardized, seen: Tensor, config: Autoencoder, seed: int, *, progress: bool = False
) -> _Network:
    """Train on the snapshots marked in `seen`, (S,) bool."""
    network = _Network(data.x.shape[1], config, seed).to(data.x.device)
    adam = torch.optim.Adam(network.parameters(), lr=config.learning_rate, fused=True)
    x, y = data.x[seen], None if data.y is None else data.y[seen]
    for epoch in tqdm(range(config.n_epochs), desc="autoencoder", disable=not progress):
        adam.param_groups[0]["lr"] = (
            config.learning_rate * (1 + math.cos(math.pi * epoch / config.n_epochs)) / 2
        )
        adam.zero_grad(set_to_none=True)
        _, again, predicted = network(x)
        total = (again - x).square().sum(1).mean()
        if y is not None:
            total = total + config.loss_weight * (predicted - y).square().mean()
        total.backward()
        adam.step()
    return network


@torch.no_grad()
def _missed(network: _Network, data: _Standardized, which: Tensor) -> tuple[float, float]:
    """Squared errors of both terms, summed over the snapshots marked in `which`; 0 where there is no loss."""
    _, again, predicted = network(data.x)
    wrong = 0.0 if data.y is None else float((predicted - data.y)[which].square().sum())
    return float((again - data.x)[which].square().sum()), wrong


def _errors(missed: float, wrong: float, data: _Standardized, config: Autoencoder) -> Errors:
    """Sums over all snapshots as shares of the path's variance."""
    n = len(data.x)
    return Errors(missed / n + data.left_out, None if data.y is None else wrong / n, config.loss_weight)


def held_out_errors(
    path: WeightPath,
    config: Autoencoder | None = None,
    *,
    seed: int,
    block: int = 1,
) -> Errors:
    """Errors on unseen snapshots: two autoencoders see every second block of them, and not the others.

    Squared errors are pooled over all snapshots, so that 1 is no better than the mean snapshot and the mean
    loss here too. Of one part of a path they would be held against a variance that may lie elsewhere, as a
    loss's does that falls at the start.

    A loss can be remembered snapshot by snapshot. With single ones held out, neighbours in time were seen:
    a small error then says that the loss is a smooth function of the bottleneck, as of anything that
    changes slowly. With longer blocks, the gap must be bridged; at a path's ends there is none to bridge,
    only a way to guess on.

    Parameters
    ----------
    path, config, seed
        As of :func:`encode`.
    block : int, in snapshots
    """
    config = config or Autoencoder()
    data = _standardize(path, config, "cpu")
    if not 1 <= block < len(data.x):
        raise ValueError(
            f"block = {block} holds out none, or all, of {len(data.x)} snapshots: take a shorter"
        )
    fold = torch.arange(len(data.x)) // block % 2
    missed, wrong = 0.0, 0.0
    for i in (0, 1):
        network = _fit(data, fold != i, config, seed)
        more = _missed(network, data, fold == i)
        missed, wrong = missed + more[0], wrong + more[1]
    return _errors(missed, wrong, data, config)
