"""A GPT-2 of Hugging Face in a module of Lightning: what a reader's own training program may look like."""

from __future__ import annotations

from typing import Any

import lightning
import torch
from torch import Tensor
from transformers import GPT2Config, GPT2LMHeadModel


class Writer(lightning.LightningModule):
    """Two layers of 64 dimensions, trained to predict the next of 64 tokens."""

    def __init__(self, vocab_size: int) -> None:
        super().__init__()
        sizes: dict[str, Any] = {
            "vocab_size": vocab_size,
            "n_positions": 64,
            "n_embd": 64,
            "n_layer": 2,
            "n_head": 4,
        }
        config = GPT2Config(**sizes, bos_token_id=0, eos_token_id=0)
        self.gpt2 = GPT2LMHeadModel(config)

    def training_step(self, batch: list[Tensor], _: int) -> Tensor:
        loss: Tensor = self.gpt2(input_ids=batch[0], labels=batch[0]).loss
        return loss

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.AdamW(self.parameters(), lr=3e-3)
