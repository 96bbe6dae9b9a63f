"""EXor: strings whose optimum is known exactly, their conditional distributions and Bayes-optimal scores."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy import special

from embviz.arrays import check_array

SYMBOLS = ("0A", "0B", "1A", "1B", "E", "D", "?")
ZERO_A, ZERO_B, ONE_A, ONE_B, EVEN, ODD, MASK = range(7)
LARGEST_ENUMERATION = 2_000_000  # masked strings: up to 9 bits in two spellings


@dataclass(frozen=True)
class EXor:
    """Extended Xor: fill in the masked bit of a string whose parity is given.

    A string of `n_bits` bits ends with E if it holds an even number of ones, else with D. Each 0 is spelled
    0A or 0B, each 1 spelled 1A or 1B, at random; one bit is masked. Its value follows from the others, its
    spelling does not. Two spellings of a bit are semantically equivalent, whatever their probabilities, and
    conditionally equivalent only where these are equal.

    Parameters
    ----------
    n_bits : int
        N; a string has N + 1 symbols.
    p_0a, p_1a : float
        Probability that a 0 is spelled 0A, and a 1 spelled 1A. 1 removes the other spelling.

    Raises
    ------
    ValueError
        If a probability lies outside [0, 1] or there are fewer than two bits.

    Source
    ------
    Tying paper, section 5 and Table 1; appendix C.1 is ``EXor(p_0a=1.0)``, C.2 ``EXor(p_1a=1.0)``.

    Examples
    --------
    >>> EXor().optimal_accuracy(), EXor(p_0a=1.0).optimal_accuracy(), EXor(p_1a=1.0).optimal_accuracy()
    (0.7, 0.75, 0.95)
    """

    n_bits: int = 7
    p_0a: float = 0.1
    p_1a: float = 0.5

    def __post_init__(self) -> None:
        for name in ("p_0a", "p_1a"):
            if not 0.0 <= getattr(self, name) <= 1.0:
                raise ValueError(f"{name} is a probability between 0 and 1, got {getattr(self, name)}")
        if self.n_bits < 2:
            raise ValueError(
                f"n_bits must be at least 2, so that a bit is left beside the mask: {self.n_bits}"
            )

    @property
    def spellings(self) -> np.ndarray:
        """Probability of each spelling (row: bit 0, bit 1; column: A, B), (2, 2)."""
        return np.array([[self.p_0a, 1 - self.p_0a], [self.p_1a, 1 - self.p_1a]])

    def strings(self) -> np.ndarray:
        """Every bit string in counting order, (2^N, N), uint8; the last is all ones.

        Raises
        ------
        ValueError
            If there are too many; draw some instead.
        """
        _refuse_large(2**self.n_bits, self.n_bits, "rng.integers(2, size=(n, n_bits)) draws some")
        numbers = np.arange(2**self.n_bits)
        return (numbers[:, None] >> np.arange(self.n_bits)[::-1] & 1).astype(np.uint8)

    def spell(self, bits: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """Symbols of `bits` (..., N) in random spellings, parity last: (..., N + 1), uint8."""
        bits = self.checked_bits(bits)
        p_a = self.spellings[:, 0][bits]
        symbols = 2 * bits + (rng.random(bits.shape) >= p_a)
        return np.concatenate([symbols, _parity_symbol(bits)], axis=-1).astype(np.uint8)

    def conditional(self, tokens: np.ndarray) -> np.ndarray:
        """Exact distribution of the masked symbol given the rest, (n, 7), for tokens (n, N + 1).

        Raises
        ------
        ValueError
            If a row does not hold exactly one mask, at a bit, with parity at its end.
        """
        tokens = check_array(tokens, "tokens", kind="integer")
        if tokens.ndim != 2 or tokens.shape[1] != self.n_bits + 1:
            raise ValueError(f"tokens must be (n, {self.n_bits + 1}), got {tokens.shape}")
        masked = tokens == MASK
        bits, parity = tokens[:, :-1], tokens[:, -1]
        spelled = np.isin(bits, (ZERO_A, ZERO_B, ONE_A, ONE_B)) | masked[:, :-1]
        whole = np.isin(parity, (EVEN, ODD)) & spelled.all(1)
        if not ((masked.sum(1) == 1) & whole).all():
            raise ValueError(
                "tokens: each row needs one mask ?, other bits spelled 0A, 0B, 1A or 1B, and E or D last"
            )
        ones = ((bits >= ONE_A) & (bits <= ONE_B)).sum(1)
        missing = (ones + (parity == ODD)) % 2  # the bit that makes the parity right
        result = np.zeros((len(tokens), len(SYMBOLS)))
        rows = np.arange(len(tokens))
        for spelling in (0, 1):
            result[rows, 2 * missing + spelling] = self.spellings[missing, spelling]
        return result

    def optimal_accuracy(self, bits: np.ndarray | None = None) -> float:
        """Accuracy of the best guess, a place of `bits` (n, N) masked at random; all strings by default."""
        ones = 0.5 if bits is None else float(self.checked_bits(bits).mean())
        best = self.spellings.max(axis=1)
        return float((1 - ones) * best[0] + ones * best[1])

    def optimal_loss(self, bits: np.ndarray | None = None) -> float:
        """Cross entropy of the exact distribution, nats, as :meth:`optimal_accuracy`."""
        ones = 0.5 if bits is None else float(self.checked_bits(bits).mean())
        entropy = special.entr(self.spellings).sum(axis=1)
        return float((1 - ones) * entropy[0] + ones * entropy[1])

    def contexts(self, bits: np.ndarray | None = None) -> tuple[np.ndarray, np.ndarray]:
        """Every masked string that can occur, and its probability.

        Parameters
        ----------
        bits : array, shape (n, N), optional
            Strings to spell and mask; by default all of them.

        Returns
        -------
        tokens : uint8 array, shape (n_contexts, N + 1)
            For each string in turn, for each place in turn, every spelling of the other bits.
        probability : array, shape (n_contexts,)
            Sums to 1; contexts of probability 0 are left out.

        Raises
        ------
        ValueError
            If there are more than two million; the message names the sampled alternative.
        """
        bits = self.strings() if bits is None else self.checked_bits(bits)
        per_mask = 2 ** (self.n_bits - 1)
        advice = "sample_contexts draws some of them"
        _refuse_large(len(bits) * self.n_bits * per_mask, self.n_bits, advice)
        tokens, weights = [], []
        choices = EXor(self.n_bits).strings()[
            :per_mask, 1:
        ]  # A or B for each of the other bits, (2^(N-1), N-1)
        for place in range(self.n_bits):
            others = np.delete(bits, place, axis=1)[:, None, :]  # (n, 1, N-1)
            spelled = 2 * others + choices  # (n, 2^(N-1), N-1)
            rows = np.insert(spelled, place, MASK, axis=2)
            parity = np.broadcast_to(_parity_symbol(bits)[:, None], (*rows.shape[:2], 1))
            tokens.append(np.concatenate([rows, parity], axis=2))
            weights.append(self.spellings[others, choices[None]].prod(axis=2))
        probability = np.stack(weights, axis=1).reshape(-1) / (len(bits) * self.n_bits)
        flat = np.stack(tokens, axis=1).reshape(-1, self.n_bits + 1).astype(np.uint8)
        possible = probability > 0
        return flat[possible], probability[possible]

    def sample_contexts(
        self, n: int, rng: np.random.Generator, bits: np.ndarray | None = None
    ) -> tuple[np.ndarray, np.ndarray]:
        """`n` masked strings drawn as they occur, (n, N + 1), and the masked symbols, (n,)."""
        if bits is None:
            chosen = rng.integers(2, size=(n, self.n_bits), dtype=np.uint8)
        else:
            chosen = self.checked_bits(bits)[rng.integers(len(bits), size=n)]
        return hide(self.spell(chosen, rng), rng.integers(self.n_bits, size=n))

    def every_mask(self, bits: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """Each of `bits` (n, N) masked at each place, in one random spelling each: (n N, N + 1)."""
        repeated = np.repeat(self.checked_bits(bits), self.n_bits, axis=0)
        places = np.tile(np.arange(self.n_bits), len(bits))
        return hide(self.spell(repeated, rng), places)[0]

    def checked_bits(self, bits: np.ndarray) -> np.ndarray:
        """Strings of bits (..., N) as uint8, or a refusal of what is none."""
        bits = check_array(bits, "bits", kind="number")
        if bits.shape[-1:] != (self.n_bits,) or not np.isin(bits, (0, 1)).all():
            raise ValueError(f"bits must be 0 or 1, {self.n_bits} to a string, got shape {bits.shape}")
        return bits.astype(np.uint8)  # True and 1.0 index nothing


def hide(tokens: np.ndarray, places: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Tokens (..., T) with a mask at `places` (...), and the symbols that it hides (...)."""
    tokens = check_array(tokens, "tokens", kind="integer")
    places = check_array(
        places, "places", kind="integer", low=0, high=tokens.shape[-1] - 1 if tokens.ndim else 0
    )
    if tokens.shape[:-1] != places.shape or not tokens.ndim:
        raise ValueError(
            f"tokens has shape {tokens.shape} and places {places.shape}: give one place a string"
        )
    hidden = np.take_along_axis(tokens, places[..., None], axis=-1)
    masked = tokens.copy()
    np.put_along_axis(masked, places[..., None], MASK, axis=-1)
    return masked, hidden[..., 0]


def split_strings(
    task: EXor, *, seed: int, n_train: int = 114, all_ones: bool = False
) -> tuple[np.ndarray, np.ndarray]:
    """Bit strings to train on, and those held out.

    Parameters
    ----------
    task : EXor
    seed : int
        Of the shuffle; one split serves all runs that are to be compared.
    n_train : int
        The paper's training set has 114 strings, nine tenths of 127.
    all_ones : bool, default False
        Whether the string 11...1 is among them: the text counts all 128 strings of 7 bits, the size 114
        and the authors' program 127.

    Returns
    -------
    train, held_out : uint8 arrays, shapes (n_train, N) and (the rest, N)

    Raises
    ------
    ValueError
        If `n_train` leaves nothing to train on or nothing to hold out.
    """
    strings = task.strings()
    strings = strings if all_ones else strings[:-1]
    if not 0 < n_train < len(strings):
        raise ValueError(
            f"n_train is {n_train}: choose from 1 to {len(strings) - 1} of {len(strings)} strings"
        )
    order = np.random.default_rng([seed, task.n_bits]).permutation(len(strings))
    return strings[order[:n_train]], strings[order[n_train:]]


@dataclass(frozen=True, eq=False)
class EXorStream:
    """The batches of a run: all of its strings at each step, spelled and masked at random.

    What is drawn follows from (seed, step) alone, so a resumed run goes on with the same batches and runs
    side by side see what each would see by itself.

    Parameters
    ----------
    task : EXor
    bits : array, shape (B, N)
    redraw_spelling, redraw_mask : bool
        Anew at each step, as the authors' program does, or once for the whole run, which is another
        reading of the text.
    block : int
        Steps drawn at once; part of what makes a stream the same stream.
    """

    task: EXor
    bits: np.ndarray
    redraw_spelling: bool = True
    redraw_mask: bool = True
    block: int = 256

    def batches(self, seed: int, index: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Steps ``index * block`` and following of the run `seed`.

        Returns
        -------
        tokens : uint8 array, shape (block, B, N + 1)
        places : int64 array, shape (block, B)
            Where the mask stands.
        targets : uint8 array, shape (block, B)
            The masked symbols.
        """
        shape = (self.block, *self.bits.shape)
        changing, fixed = np.random.default_rng([seed, 1 + index]), np.random.default_rng([seed, 0])
        once = self.task.spell(self.bits, fixed)
        once_places = fixed.integers(self.task.n_bits, size=len(self.bits))
        tokens = np.broadcast_to(once, (*shape[:2], shape[2] + 1))
        if self.redraw_spelling:
            tokens = self.task.spell(np.broadcast_to(self.bits, shape), changing)
        places = np.broadcast_to(once_places, shape[:2])
        if self.redraw_mask:
            places = changing.integers(self.task.n_bits, size=shape[:2])
        tokens, targets = hide(tokens, places)
        return tokens, places, targets


def _parity_symbol(bits: np.ndarray) -> np.ndarray:
    """E or D for bits (..., N), (..., 1)."""
    return np.where(bits.sum(axis=-1, keepdims=True) % 2, ODD, EVEN)


def _refuse_large(n: int, n_bits: int, advice: str) -> None:
    if n > LARGEST_ENUMERATION:
        raise ValueError(
            f"{n_bits} bits make {n:,} strings, and at most {LARGEST_ENUMERATION:,} are enumerated: {advice}"
        )
