"""Models on the texts that the scan chose: both starts, batches of three sizes, seeds of their own."""

from __future__ import annotations

import dataclasses
import itertools

from book.kernel.experiments.models import QUICK, STARTS
from book.kernel.experiments.runs import KernelRun
from book.kernel.experiments.texts import Slice
from embviz.models.minigpt import MiniGPTConfig, Start

TEXTS = (  # see tests: the scan's three nearest
    Slice("enwiki2018", "unk", 100, 10_000, offset=3_795_000),
    Slice("enwiki2018", "unk", 100, 3_000, offset=13_860_000),
    Slice("enwiki2018", "drop", 100, 1_500, offset=10_230_000),
)
TEXT = TEXTS[1]  # which decides: nearly as near as the first, and a third as long
BATCH_SIZES = (4, 8, 32)  # blocks
CHOOSING, JUDGED = (100, 3), (200, 5)  # first seed and how many
SETTINGS: list[tuple[Start, int]] = list(itertools.product(STARTS, BATCH_SIZES))


def run(text: Slice, start: Start, batch_size: int, seeds: tuple[int, int] = JUDGED) -> KernelRun:
    """V = 100, d = 64, 200 epochs on a slice."""
    first_seed, n_seeds = seeds
    shape = MiniGPTConfig(text.vocab_size, start=start)
    return KernelRun(text, shape, batch_size=batch_size, n_seeds=n_seeds, first_seed=first_seed)


def choosing(preset: str) -> dict[tuple[Start, int], KernelRun]:
    """The settings on the text that decides, on the seeds that choose among them."""
    if preset == "quick":
        text = Slice("embedded", "unk", QUICK.text.vocab_size, 1_500, offset=400)
        own = dataclasses.replace(QUICK, text=text, first_seed=CHOOSING[0], keep_all=False)
        return {(own.shape.start, own.batch_size): own}
    return {setting: run(TEXT, *setting, CHOOSING) for setting in SETTINGS}
