"""Finite languages, and how far two of their symbols are from equivalent: by meaning, and by place.

A language gives a probability to each of finitely many strings of one length; one place of a string is
masked, every maskable place as often. Two questions can then be answered by counting. Does it change what
is expected at the mask if u stands somewhere else in the string instead of v (semantic equivalence)? Is u
as likely as v at the mask itself (conditional equivalence)? The distributional hypothesis says of a pair
that both answers agree.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from book.tying.languages.exor import SYMBOLS, EXor
from embviz.arrays import check_array

LARGEST_LANGUAGE = 300_000  # strings: EXor in four spellings up to 9 bits
LARGEST_TABLE = 20_000_000  # context x symbol x symbol: the arrays then stay below a gigabyte

BOTH, NEITHER = "both", "neither"
SEMANTIC_ONLY, CONDITIONAL_ONLY = "semantic only", "conditional only"
NOT_COMPARABLE = "no shared context"

String = str | tuple[str, ...]


@dataclass(frozen=True, eq=False)
class FiniteLanguage:
    """A probability for each of finitely many strings of one length.

    Parameters
    ----------
    tokens : int array, shape (n, T)
        The strings, each once, as positions in `symbols`.
    probability : float array, shape (n,)
        Above 0; the sum is 1.
    symbols : tuple of str
        Each occurs in some string.
    maskable : tuple of int, default every place
        Places (from 0) that may be masked.

    Raises
    ------
    ValueError
        If a part contradicts another; :func:`make_language` merges, normalizes and leaves out as needed.
    """

    tokens: np.ndarray
    probability: np.ndarray
    symbols: tuple[str, ...]
    maskable: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        tokens = check_array(self.tokens, "tokens", 2, kind="integer").copy()
        probability = check_array(self.probability, "probability", 1).copy()
        if probability.shape != tokens.shape[:1]:
            raise ValueError(
                f"tokens must be (n, T) and probability (n,), got {tokens.shape}, {probability.shape}"
            )
        if not (probability > 0).all() or abs(probability.sum() - 1) > 1e-9:
            raise ValueError(
                f"probability must be above 0 with sum 1, here {probability.sum():.6g}: "
                "make_language(..., normalize=True) divides by the sum and drops zeros"
            )
        if len(set(self.symbols)) < len(self.symbols) or not np.array_equal(
            np.unique(tokens), np.arange(len(self.symbols))
        ):
            raise ValueError(f"tokens must use every position in symbols, 0 to {len(self.symbols) - 1}")
        if len(np.unique(tokens, axis=0)) < len(tokens):
            raise ValueError(
                "tokens: a string occurs twice: make_language adds up the weights of equal strings"
            )
        maskable = tuple(self.maskable) or tuple(range(tokens.shape[1]))
        if len(set(maskable)) < len(maskable) or not set(maskable) <= set(range(tokens.shape[1])):
            raise ValueError(
                f"maskable places must be different ones of 0 to {tokens.shape[1] - 1}: {maskable}"
            )
        for name, value in (("tokens", tokens), ("probability", probability)):
            value.setflags(write=False)
            object.__setattr__(self, name, value)
        object.__setattr__(self, "maskable", maskable)

    @property
    def texts(self) -> list[str]:
        """The strings, their symbols separated by spaces."""
        return [" ".join(self.symbols[token] for token in row) for row in self.tokens]

    def index(self, symbol: str) -> int:
        """Position of a symbol in `symbols`.

        Raises
        ------
        ValueError
            If it does not occur.
        """
        if symbol not in self.symbols:
            raise ValueError(f"{symbol!r} does not occur in this language, only {', '.join(self.symbols)}")
        return self.symbols.index(symbol)


# --- making languages -------------------------------------------------------------------------------


def make_language(
    strings: Mapping[str, float] | Mapping[tuple[str, ...], float] | Sequence[tuple[String, float]],
    *,
    normalize: bool = False,
    maskable: Sequence[int] = (),
) -> FiniteLanguage:
    """A language from strings with their probabilities, or with weights.

    Parameters
    ----------
    strings : mapping from string to number, or pairs of both
        A string is a tuple of symbols, or a text with spaces between them. Numbers of equal strings are
        added; strings of weight 0 are left out, and symbols that then do not occur.
    normalize : bool, default False
        Take the numbers as weights and divide them by their sum.
    maskable : sequence of int, default every place

    Returns
    -------
    FiniteLanguage
        Symbols in the order in which they first occur.

    Raises
    ------
    ValueError
        If there is nothing, a number is negative, infinite, or above 1 where probabilities are asked for,
        their sum is not 1, or the strings differ in length.

    Examples
    --------
    >>> language = make_language({"a cat sleeps": 3, "a dog sleeps": 1}, normalize=True)
    >>> language.texts, language.probability.tolist()
    (['a cat sleeps', 'a dog sleeps'], [0.75, 0.25])
    """
    pairs = list(strings.items() if isinstance(strings, Mapping) else strings)
    split = [tuple(text.split()) if isinstance(text, str) else tuple(text) for text, _ in pairs]
    weights = np.array([weight for _, weight in pairs], dtype=float)
    if not pairs or not (np.isfinite(weights) & (weights >= 0)).all() or weights.sum() == 0:
        raise ValueError(
            f"a language needs strings with weights from 0 up, one of them above 0: {weights.tolist()}"
        )
    other = next((one for one in split if len(one) != len(split[0])), None)
    if other is not None:
        raise ValueError(
            f"strings must have one length: {' '.join(split[0])!r} has {len(split[0])} symbols, "
            f"{' '.join(other)!r} has {len(other)}"
        )
    if not normalize and abs(weights.sum() - 1) > 1e-9:
        raise ValueError(
            f"the probabilities sum to {weights.sum():.6g}, not 1: correct them, or pass normalize=True to "
            "take them as weights"
        )
    symbols = list(dict.fromkeys(symbol for string in split for symbol in string))
    places = {symbol: position for position, symbol in enumerate(symbols)}
    tokens = np.array([[places[symbol] for symbol in string] for string in split]).reshape(len(split), -1)
    return _merged(tokens, weights / weights.sum(), symbols, tuple(maskable))


def _merged(
    tokens: np.ndarray, probability: np.ndarray, symbols: Sequence[str], maskable: tuple[int, ...]
) -> FiniteLanguage:
    """Equal rows of tokens (n, T) added up, rows of probability 0 and symbols without a row left out."""
    possible = probability > 0
    rows, first, which = np.unique(tokens[possible], axis=0, return_index=True, return_inverse=True)
    sums = np.bincount(which.reshape(-1), weights=probability[possible])
    order = np.argsort(first)  # as given, not sorted
    used, renumbered = np.unique(rows[order], return_inverse=True)
    names = tuple(symbols[token] for token in used)
    return FiniteLanguage(renumbered.reshape(rows.shape), sums[order], names, maskable)


def split_symbol(
    language: FiniteLanguage, symbol: str, *, into: tuple[str, str], p_first: float
) -> FiniteLanguage:
    """The same language with a symbol in two spellings, chosen independently at every place.

    Parameters
    ----------
    language : FiniteLanguage
    symbol : str
    into : two names
        One may be the old name.
    p_first : float
        Probability of the first; at 0 or 1 only one is left.

    Raises
    ------
    ValueError
        If a name is taken, `p_first` is no probability, or more than 300,000 strings would come out.

    Examples
    --------
    >>> one = make_language({"a cat": 1.0})
    >>> split_symbol(one, "cat", into=("cat", "Cat"), p_first=0.25).probability.tolist()
    [0.25, 0.75]
    """
    old = language.index(symbol)
    taken = set(into) & (set(language.symbols) - {symbol})
    if taken or into[0] == into[1] or not 0 <= p_first <= 1:
        raise ValueError(
            f"{symbol!r} can't be split into {into} at {p_first}: two new names and a probability are needed"
        )
    _refuse_large(int((2.0 ** (language.tokens == old).sum(axis=1)).sum()), "split it in fewer strings")
    tokens, probability = language.tokens.copy(), language.probability.copy()
    for place in range(tokens.shape[1]):
        here = tokens[:, place] == old
        second = tokens[here].copy()
        second[:, place] = len(language.symbols)
        again = probability[here] * (1 - p_first)
        probability[here] *= p_first
        tokens, probability = np.concatenate([tokens, second]), np.concatenate([probability, again])
    names = [into[0] if name == symbol else name for name in language.symbols]
    return _merged(tokens, probability, [*names, into[1]], language.maskable)


def exor_language(task: EXor, bits: np.ndarray | None = None) -> FiniteLanguage:
    """EXor as a finite language: every spelling of every bit string with its parity, which is never masked.

    Parameters
    ----------
    task : EXor
    bits : array, shape (n, N), optional
        Bit strings, each as likely and each once; by default all 2^N.

    Raises
    ------
    ValueError
        If there are more than 300,000 strings: up to 9 bits can be counted whole.

    Source
    ------
    Tying paper, section 5 and Table 1.
    """
    bits = None if bits is None else task.checked_bits(bits)
    n_strings = 2**task.n_bits if bits is None else len(bits)
    advice = f"take fewer than {task.n_bits} bits, or EXor.sample_contexts, which draws some"
    _refuse_large(n_strings * 2**task.n_bits, advice)
    bits = task.strings() if bits is None else bits
    spelled_b = EXor(task.n_bits).strings()  # which bits are spelled B, (2^N, N)
    symbols = 2 * bits[:, None, :] + spelled_b  # (n, 2^N, N)
    weights = task.spellings[bits[:, None, :], spelled_b[None]].prod(axis=2) / len(bits)
    parity = np.where(bits.sum(axis=1) % 2, SYMBOLS.index("D"), SYMBOLS.index("E"))
    parities = np.broadcast_to(parity[:, None, None], (*weights.shape, 1))
    tokens = np.concatenate([symbols, parities], axis=2).reshape(-1, task.n_bits + 1)
    return _merged(tokens.astype(np.int64), weights.reshape(-1), SYMBOLS, tuple(range(task.n_bits)))


def even_language(task: EXor) -> FiniteLanguage:
    """Every spelling of the bit strings with an even number of ones: the parity is a bit like the others.

    Each place may be masked, and no symbol names the parity.

    Parameters
    ----------
    task : EXor
        Its spellings; its strings have `task.n_bits` bits, the parity among them.

    Raises
    ------
    ValueError
        If there are more than 300,000 strings: up to 9 bits can be counted whole.

    Examples
    --------
    >>> even_language(EXor(2, p_0a=1.0)).texts
    ['0A 0A', '1A 1A', '1A 1B', '1B 1A', '1B 1B']
    """
    bits = task.strings()
    language = exor_language(task, bits[bits.sum(axis=1) % 2 == 0])
    return _merged(language.tokens[:, :-1], language.probability, language.symbols, ())


def _refuse_large(n: int, advice: str) -> None:
    if n > LARGEST_LANGUAGE:
        raise ValueError(f"{n:,} strings, and at most {LARGEST_LANGUAGE:,} are counted: {advice}")


# --- distances --------------------------------------------------------------------------------------


@dataclass(frozen=True)
class ContextDistance:
    """How far two symbols are apart over the contexts that count.

    Parameters
    ----------
    worst : float
        Largest difference in a context, from 0 to 1.
    mean : float
        Mean difference, contexts weighted by their probability.
    euclidean : float
        Of all differences as one vector, contexts unweighted: the paper's example of a distance. It grows
        with the number of contexts.
    n_contexts, n_left_out : int
        Contexts that count, and those that do not.
    share : float
        Probability of the former among both.
    """

    worst: float
    mean: float
    euclidean: float
    n_contexts: int
    n_left_out: int
    share: float


def semantic_distance(language: FiniteLanguage, u: str, v: str) -> ContextDistance:
    """Whether it matters to the other symbols that u stands in a place and not v.

    A context is a string with two holes: one that u or v fills, and a mask. In each, the expectations
    p(y | context, u) and p(y | context, v) of the masked symbol y are compared by total variation, half the
    sum of absolute differences. The definition quantifies over all contexts, but a conditional probability
    exists only where its condition may occur: contexts that admit one of the two alone are left out and
    counted, and `share` says what the others weigh, a context weighing as much as it occurs with u or v.

    Returns
    -------
    ContextDistance
        With `worst`, `mean` and `euclidean` NaN, and `share` 0, where no context admits both: then the
        definition compares nothing.

    Raises
    ------
    ValueError
        If a symbol does not occur, or the counts would not fit into memory.

    Source
    ------
    Tying paper, definitions 3.1 (`worst` is 0) and 3.2 (`euclidean` is at most epsilon).
    """
    return _semantic(language, np.array([[language.index(u), language.index(v)]]))[0]


def conditional_distance(language: FiniteLanguage, u: str, v: str) -> ContextDistance:
    """Whether u is as likely as v at the mask, whatever stands around it.

    A context is a string with one hole, the mask, that has positive probability; p(u | context) and
    p(v | context) always exist there. Contexts that admit neither agree at 0. They are left out of the mean,
    where they would make all rare symbols alike; `worst` and `euclidean` do not see them.

    Returns
    -------
    ContextDistance
        All distances 0 where neither symbol is ever masked.

    Raises
    ------
    ValueError
        If a symbol does not occur, or the counts would not fit into memory.

    Source
    ------
    Tying paper, definitions 3.3 (`worst` is 0) and 3.4 (`euclidean` is below epsilon).
    """
    return _conditional(language, np.array([[language.index(u), language.index(v)]]))[0][0]


def proportional_distance(language: FiniteLanguage, u: str, v: str) -> float:
    """Total variation between the contexts that u has at the mask and those that v has, from 0 to 1.

    It is 0 where p(u | context) is a constant times p(v | context): by Bayes' rule the contexts are then
    distributed alike. It is 1 where only one of the two is ever masked, and 0 where neither is.

    Source
    ------
    Tying paper, section 3, the remark after definition 3.6 (the constant; the distance is ours).
    """
    return float(_conditional(language, np.array([[language.index(u), language.index(v)]]))[1][0])


@dataclass(frozen=True)
class PairEquivalence:
    """Both distances of a pair of symbols, and what the distributional hypothesis makes of them.

    Parameters
    ----------
    u, v : str
    semantic_worst, semantic_mean, semantic_share : float
        As in :func:`semantic_distance`.
    conditional_worst, conditional_mean : float
        As in :func:`conditional_distance`.
    conditional_contexts : int
        Contexts that admit one of the two at the mask.
    proportional : float
        As in :func:`proportional_distance`.
    verdict : str
        Which equivalences hold: BOTH, SEMANTIC_ONLY, CONDITIONAL_ONLY, NEITHER; or NOT_COMPARABLE.
    """

    u: str
    v: str
    semantic_worst: float
    semantic_mean: float
    semantic_share: float
    conditional_worst: float
    conditional_mean: float
    conditional_contexts: int
    proportional: float
    verdict: str

    @property
    def holds(self) -> bool | None:
        """Whether the distributional hypothesis holds for the pair; None where nothing can be compared."""
        return None if self.verdict == NOT_COMPARABLE else self.verdict in (BOTH, NEITHER)


def equivalence_table(language: FiniteLanguage, *, epsilon: float = 1e-9) -> list[PairEquivalence]:
    """Every pair of symbols, in the order of `symbols`; ``pandas.DataFrame`` makes a table of the list.

    Parameters
    ----------
    language : FiniteLanguage
    epsilon : float, default 1e-9
        Worst distance up to which a pair counts as equivalent: more than rounding by default, the strong
        hypothesis; larger, the weak one.

    Raises
    ------
    ValueError
        If `epsilon` is negative, or the counts would not fit into memory.

    Source
    ------
    Tying paper, definitions 3.5 and 3.6.
    """
    if not epsilon >= 0:
        raise ValueError(f"epsilon is a distance from 0 up, got {epsilon}")
    pairs = np.stack(np.triu_indices(len(language.symbols), k=1), axis=1)  # (n_pairs, 2)
    by_place, proportional = _conditional(language, pairs)
    return [
        PairEquivalence(
            u=language.symbols[first],
            v=language.symbols[second],
            semantic_worst=meaning.worst,
            semantic_mean=meaning.mean,
            semantic_share=meaning.share,
            conditional_worst=place.worst,
            conditional_mean=place.mean,
            conditional_contexts=place.n_contexts,
            proportional=float(ratio),
            verdict=_verdict(meaning, place, epsilon),
        )
        for (first, second), meaning, place, ratio in zip(
            pairs, _semantic(language, pairs), by_place, proportional, strict=True
        )
    ]


def _verdict(meaning: ContextDistance, place: ContextDistance, epsilon: float) -> str:
    if meaning.n_contexts == 0:
        return NOT_COMPARABLE
    semantic, conditional = meaning.worst <= epsilon, place.worst <= epsilon
    if semantic:
        return BOTH if conditional else SEMANTIC_ONLY
    return CONDITIONAL_ONLY if conditional else NEITHER


def masked_contexts(language: FiniteLanguage) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Every string with one symbol masked, how often it occurs, and what stands behind its mask.

    Parameters
    ----------
    language : FiniteLanguage
        Each maskable place is masked as often as the others.

    Returns
    -------
    tokens : int array, shape (n_contexts, T)
        Each context once; the mask is V, one more than the last symbol.
    probability : float array, shape (n_contexts,)
        With sum 1.
    answers : float array, shape (n_contexts, V + 1)
        The exact distribution of the masked symbol; the mask itself has probability 0.

    Raises
    ------
    ValueError
        If the contexts would not fit into memory.

    Examples
    --------
    >>> language = make_language({"a cat sleeps": 3, "a dog sleeps": 1}, normalize=True, maskable=[1])
    >>> masked_contexts(language)[2]  # of "a ? sleeps": a, cat, sleeps, dog, ?
    array([[0.  , 0.75, 0.  , 0.25, 0.  ]])
    """
    n_symbols = len(language.symbols)
    rows, counts = [], []
    for place, joint in zip(language.maskable, _one_hole_tables(language), strict=True):
        context, _ = _contexts(language, [place])
        first = np.unique(context, return_index=True)[1]  # one string of each context
        tokens = language.tokens[first].copy()
        tokens[:, place] = n_symbols
        rows.append(tokens)
        counts.append(joint)
    joint = np.concatenate(counts) / len(language.maskable)
    probability = joint.sum(axis=1)
    return np.concatenate(rows), probability, np.pad(joint / probability[:, None], ((0, 0), (0, 1)))


# --- counting ---------------------------------------------------------------------------------------


class _Tally:
    """Differences of many pairs gathered over contexts."""

    def __init__(self, n_pairs: int) -> None:
        self.worst, self.weighted, self.squares = np.zeros((3, n_pairs))
        self.weight, self.all_weight = np.zeros((2, n_pairs))
        self.counted, self.all_contexts = np.zeros((2, n_pairs), dtype=np.int64)

    def add(self, pair: np.ndarray, distance: np.ndarray, square: np.ndarray, weight: np.ndarray) -> None:
        """Contexts that count, one entry each: index of the pair, its difference, square and weight."""
        size = len(self.worst)
        np.maximum.at(self.worst, pair, distance)
        self.weighted += np.bincount(pair, weights=weight * distance, minlength=size)
        self.squares += np.bincount(pair, weights=square, minlength=size)
        self.weight += np.bincount(pair, weights=weight, minlength=size)
        self.counted += np.bincount(pair, minlength=size)

    def distances(self, *, nothing: float) -> list[ContextDistance]:
        """One a pair; distances of a pair without a context are `nothing`."""
        found = []
        for pair, n_contexts in enumerate(self.counted):
            if n_contexts:
                worst, length = float(self.worst[pair]), math.sqrt(self.squares[pair])
                mean = float(self.weighted[pair] / self.weight[pair])
                share = float(self.weight[pair] / self.all_weight[pair])
            else:
                worst = mean = length = nothing
                share = 0.0
            left_out = int(self.all_contexts[pair] - n_contexts)
            found.append(ContextDistance(worst, mean, length, int(n_contexts), left_out, share))
        return found


def _semantic(language: FiniteLanguage, pairs: np.ndarray) -> list[ContextDistance]:
    """Definition 3.2 for pairs of tokens (n_pairs, 2)."""
    u, v = pairs.T
    tally = _Tally(len(pairs))
    for joint in _two_hole_tables(language):  # (n_contexts, V, V): context, symbol in place, masked symbol
        mass = joint.sum(axis=2)
        expected = joint / np.where(mass > 0, mass, 1.0)[:, :, None]
        possible = mass > 0
        shared = np.stack(np.nonzero(possible[:, u] & possible[:, v]), axis=1)
        for context, pair in _blocks(shared, joint.shape[2]):
            difference = expected[context, u[pair]] - expected[context, v[pair]]  # (block, V)
            weight = mass[context, u[pair]] + mass[context, v[pair]]
            tally.add(pair, np.abs(difference).sum(axis=1) / 2, (difference**2).sum(axis=1), weight)
        tally.all_weight += mass.sum(axis=0)[u] + mass.sum(axis=0)[v]
        tally.all_contexts += (possible[:, u] | possible[:, v]).sum(axis=0)
    return tally.distances(nothing=math.nan)


def _conditional(language: FiniteLanguage, pairs: np.ndarray) -> tuple[list[ContextDistance], np.ndarray]:
    """Definition 3.4 and the proportional distance for pairs of tokens (n_pairs, 2)."""
    u, v = pairs.T
    tally = _Tally(len(pairs))
    tables = list(_one_hole_tables(language))
    masked = sum(joint.sum(axis=0) for joint in tables)  # (V,), how often each symbol is at the mask
    apart = np.zeros(len(pairs))
    for joint in tables:  # (n_contexts, V)
        weight = joint.sum(axis=1)
        likely = joint / weight[:, None]
        context, pair = np.nonzero((joint[:, u] > 0) | (joint[:, v] > 0))
        distance = np.abs(likely[context, u[pair]] - likely[context, v[pair]])
        tally.add(pair, distance, distance**2, weight[context])
        tally.all_weight += weight.sum()
        tally.all_contexts += len(weight)
        placed = joint / np.where(masked > 0, masked, 1.0)  # p(context | symbol)
        differing = np.abs(placed[context, u[pair]] - placed[context, v[pair]])
        apart += np.bincount(pair, weights=differing, minlength=len(pairs)) / 2
    one_alone = (masked[u] > 0) != (masked[v] > 0)
    return tally.distances(nothing=0.0), np.where(one_alone, 1.0, apart)


def _one_hole_tables(language: FiniteLanguage) -> Iterator[np.ndarray]:
    """For each maskable place, the probability of (context, masked symbol), (n_contexts, V)."""
    for masked in language.maskable:
        context, n_contexts = _contexts(language, [masked])
        joint = np.zeros((n_contexts, len(language.symbols)))
        joint[context, language.tokens[:, masked]] = language.probability  # every string once
        yield joint


def _two_hole_tables(language: FiniteLanguage) -> Iterator[np.ndarray]:
    """For each place and another, masked one: probability of (context, symbol, masked symbol)."""
    n_places, n_symbols = language.tokens.shape[1], len(language.symbols)
    for masked in language.maskable:
        for place in (other for other in range(n_places) if other != masked):
            context, n_contexts = _contexts(language, [place, masked])
            joint = np.zeros((n_contexts, n_symbols, n_symbols))
            joint[context, language.tokens[:, place], language.tokens[:, masked]] = language.probability
            yield joint


def _contexts(language: FiniteLanguage, holes: list[int]) -> tuple[np.ndarray, int]:
    """Number of the context of each string once `holes` are cut out, (n,), and how many there are."""
    n_symbols, n_contexts = len(language.symbols), 1
    context = np.zeros(len(language.tokens), dtype=np.int64)
    for place in (other for other in range(language.tokens.shape[1]) if other not in holes):
        kinds, context = np.unique(context * n_symbols + language.tokens[:, place], return_inverse=True)
        n_contexts = len(kinds)
    if n_contexts * n_symbols**2 > LARGEST_TABLE:
        raise ValueError(
            f"{n_contexts:,} contexts for {n_symbols:,} symbols beside {n_symbols:,}: more than the "
            f"{LARGEST_TABLE:,} numbers that are counted at once; take fewer strings or symbols"
        )
    return context, n_contexts


def _blocks(found: np.ndarray, width: int) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Columns of `found` (n, 2), some rows at a time, so that a row of `width` numbers for each fits."""
    step = max(1, LARGEST_TABLE // width)
    for start in range(0, len(found), step):
        yield found[start : start + step, 0], found[start : start + step, 1]
