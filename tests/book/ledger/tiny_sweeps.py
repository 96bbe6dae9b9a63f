"""Experiments of a few milliseconds, for sweeps over processes."""

import dataclasses
import os
import time

import numpy as np
import pandas as pd

from book.ledger import cells


@dataclasses.dataclass(frozen=True)
class Tiny:
    seed: int
    seconds: float = 0.0


def _table(config: Tiny) -> pd.DataFrame:
    time.sleep(config.seconds)
    value = np.linalg.svd(np.random.default_rng(config.seed).normal(size=(20, 20)))[1].sum()
    return pd.DataFrame({"value": [value], "process": [os.getpid()]})


@cells.experiment("tiny.one_thread")
def tiny(config: Tiny) -> pd.DataFrame:
    return _table(config)


@cells.experiment("tiny.two_threads", threads=2)
def two_threads(config: Tiny) -> pd.DataFrame:
    return _table(config)


@cells.experiment("tiny.failing")
def failing(config: Tiny) -> pd.DataFrame:
    if config.seed % 2:
        raise ArithmeticError(f"{config.seed} is odd")
    return _table(config)
