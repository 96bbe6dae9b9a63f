"""Steps of skip-gram training in torch, for a GPU, or as a second opinion on the compiled kernels."""

from __future__ import annotations

import numpy as np
import torch

from embviz.words.skipgram_numba import TRANSFORM_SHARE, Tables


class TorchSteps:
    """Steps that take the gradients of several batches at the same weights.

    Parameters
    ----------
    tables : Tables
        The weights to start from; they are copied to the device.
    batch_size : int
        Pairs that share their noise words.
    device : str
        On "cuda" sums over repeated words come in no fixed order, so runs differ in the last bits.
    batches_at_once : int
    """

    def __init__(self, tables: Tables, batch_size: int, *, device: str, batches_at_once: int) -> None:
        self.device, self.batch_size, self.batches_at_once = torch.device(device), batch_size, batches_at_once
        self.word = self._tensor(tables.word)
        self.context = self.word if tables.context is tables.word else self._tensor(tables.context)
        self.bias, self.signature = self._tensor(tables.bias), self._tensor(tables.signature)
        self.transform = self._tensor(tables.transform)

    def _tensor(self, array: np.ndarray) -> torch.Tensor:
        return torch.tensor(array, device=self.device)

    def train(self, centers: np.ndarray, targets: np.ndarray, negatives: np.ndarray, rate: float) -> None:
        """Step through a block's pairs, `batches_at_once` batches a step."""
        shape = (len(negatives), self.batch_size)  # the last batch may be short: the rest weighs nothing
        center, target = np.zeros(shape, dtype=np.int64), np.zeros(shape, dtype=np.int64)
        rates = np.zeros(shape, dtype=np.float32)
        for whole, part in ((center, centers), (target, targets), (rates, np.float32(rate))):
            whole.reshape(-1)[: centers.size] = part
        examples = [self._tensor(part) for part in (center, target, negatives.astype(np.int64), rates)]
        for batches in zip(*(part.split(self.batches_at_once) for part in examples), strict=True):
            self._step(*batches)

    def _reflect(self, rows: torch.Tensor, back: bool = False) -> torch.Tensor:
        """Rows (..., D) times q or Q', which makes contexts rows of the table; `back` for gradients."""
        if self.transform.numel() == 0:
            return rows * self.signature
        return rows @ (self.transform.T if back else self.transform)

    def _step(
        self, center: torch.Tensor, target: torch.Tensor, noise: torch.Tensor, rate: torch.Tensor
    ) -> None:
        """One step; `center`, `target` and `rate` are (M, B), `noise` is (M, K)."""
        D = self.word.shape[1]
        vectors = self.word[center]  # (M, B, D)
        reflected = self._reflect(vectors)
        hits, misses = self.context[target], self.context[noise]  # (M, B, D), (M, K, D)
        hit_logits = (reflected * hits).sum(dim=-1)
        miss_logits = reflected @ misses.mT  # (M, B, K)
        if self.bias.numel():
            hit_logits = hit_logits + self.bias[target]
            miss_logits = miss_logits + self.bias[noise][:, None]
        pulls = rate * torch.sigmoid(-hit_logits)
        pushes = -rate[..., None] * torch.sigmoid(miss_logits)
        sums = pulls[..., None] * hits + pushes @ misses
        moved = self._reflect(sums, back=True)
        if self.transform.numel():
            change = vectors.reshape(-1, D).T @ sums.reshape(-1, D)
            self.transform.add_(change, alpha=TRANSFORM_SHARE)
        self.context.index_add_(0, noise.reshape(-1), (pushes.mT @ reflected).reshape(-1, D))
        self.context.index_add_(0, target.reshape(-1), (pulls[..., None] * reflected).reshape(-1, D))
        self.word.index_add_(0, center.reshape(-1), moved.reshape(-1, D))
        if self.bias.numel():
            self.bias.index_add_(0, noise.reshape(-1), pushes.sum(dim=1).reshape(-1))
            self.bias.index_add_(0, target.reshape(-1), pulls.reshape(-1))

    def tables(self) -> Tables:
        """The present weights, a copy."""
        word = self.word.cpu().numpy().copy()
        context = word if self.context is self.word else self.context.cpu().numpy().copy()
        bias, signature, transform = (
            part.cpu().numpy().copy() for part in (self.bias, self.signature, self.transform)
        )
        return Tables(word, context, bias, signature, transform)
