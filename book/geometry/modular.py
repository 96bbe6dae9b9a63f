"""Modular arithmetic: every pair of residues, and its answer."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np

Operation = Literal["+", "-", "*"]


@dataclass(frozen=True)
class ModularArithmetic:
    """(a op b) mod p: every pair of residues, part of them to train on, the rest to validate on.

    Where p is not prime, addition and subtraction still are a group, but a wave over the residues whose
    mode shares a factor with p repeats within them and leaves some apart from none; multiplication then has
    divisors of zero, so the answers are far from equally frequent.

    Parameters
    ----------
    p : int
        Modulus; the residues 0 to p - 1 are their own symbols.
    op : "+", "-" or "*"
    train_share : float
        Share of the p^2 pairs to train on, rounded to whole pairs.
    equals : bool
        Whether each string ends with the sign "=", whose id is p.

    Raises
    ------
    ValueError
        If the modulus, operation or share is none, or the share leaves no pair to train or to validate on.

    Source
    ------
    Geometry paper, section 2.1 and Table 1; the sign "=" as in the work on progress measures it builds on.

    Examples
    --------
    >>> ModularArithmetic(p=5, op="-").answers().reshape(5, 5)[1]  # 1 - b
    array([1, 0, 4, 3, 2])
    """

    p: int = 97
    op: Operation = "+"
    train_share: float = 0.4
    equals: bool = True

    def __post_init__(self) -> None:
        if self.p < 2:
            raise ValueError(f"p must be at least 2, so that there is something to tell apart: {self.p}")
        if self.op not in get_args(Operation):
            raise ValueError(f"op is {self.op!r}: choose one of {', '.join(get_args(Operation))}")
        if not 0 < self.n_train < self.p**2:
            raise ValueError(
                f"train_share {self.train_share} puts {self.n_train} of {self.p**2} pairs into training: "
                "choose one between 0 and 1 that leaves at least one pair to train and one to validate on"
            )

    @property
    def n_train(self) -> int:
        """Pairs to train on."""
        return round(self.train_share * self.p**2)

    @property
    def n_symbols(self) -> int:
        """Residues, and "=" where strings have it."""
        return self.p + self.equals

    @property
    def length(self) -> int:
        """Symbols in a string."""
        return 2 + self.equals

    def strings(self) -> np.ndarray:
        """Every pair in counting order: tokens [a, b, "="], (p^2, 3), int64; (p^2, 2) without "="."""
        a, b = np.divmod(np.arange(self.p**2), self.p)
        return np.stack([a, b, np.full_like(a, self.p)][: self.length], axis=1)

    def answers(self) -> np.ndarray:
        """The residue that each of :meth:`strings` asks for, (p^2,), int64."""
        a, b = np.divmod(np.arange(self.p**2), self.p)
        result = {"+": a + b, "-": a - b, "*": a * b}[self.op]
        return result % self.p

    def split(self, seed: int) -> tuple[np.ndarray, np.ndarray]:
        """Rows of :meth:`strings` to train and to validate on, both in random order.

        Raises
        ------
        ValueError
            If an answer never occurs in training: no model could learn to give it.
        """
        order = np.random.default_rng([seed, self.p]).permutation(self.p**2)
        train, validation = order[: self.n_train], order[self.n_train :]
        unseen = np.setdiff1d(self.answers(), self.answers()[train])
        if len(unseen):
            raise ValueError(
                f"the answers {unseen[:5].tolist()}{' and more' * (len(unseen) > 5)} do not occur among the "
                f"{self.n_train} pairs to train on: raise train_share, {self.train_share}, or change the seed"
            )
        return train, validation
