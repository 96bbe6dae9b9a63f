"""The report of a model: its description, five quantities beside their controls, and what is unusual."""

from __future__ import annotations

import functools
import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd

from embviz.files.weights import Weights
from embviz.inspection.measures import Measured

NOT = "not applicable: "
COLUMNS = (
    *("part", "layer", "head", "quantity", "value", "low", "high"),
    *("null", "null_low", "null_high", "n_rows", "note"),
)
LEAST_CHANGE = 0.05  # of a length, as a share of the median
LEAST = 5  # values of one sort that are needed before one of them can be unusual

# What each quantity is, in words for somebody who meets it for the first time.
TERMS = {
    "next-token loss, bits a token": "How many bits the model needs on average to encode the next token of "
    "the text. Lower is better. The control depends on the tokens' frequencies in the text alone.",
    "next-token loss, bits a byte": "The same loss divided by the bytes of the text, so that models with "
    "different tokenizers can be compared.",
    "mean cosine": "The average cosine of two different rows. 0: rows point in all directions alike "
    "(isotropy). Above 0: rows share a direction, which is often their mean. The control has the same "
    "entries in random places.",
    "stable rank": "The sum of all squared singular values over the largest one: roughly in how many "
    "directions a matrix is large. The control is the stable rank of independent entries, by formula.",
    "beyond the edge": "The share of singular values that are larger than a matrix of independent "
    "entries of the same variance has (Marchenko and Pastur, 1967). Training made these directions.",
    "from orthogonal": "The spread of the squared singular values over their mean: 0 for a matrix that keeps "
    "all lengths and angles, up to a factor.",
    "cosine with the nearest": "The average cosine of a row with its nearest row among all rows. The control "
    "is a made row that takes each number from another random row.",
    "spread of row lengths": "The standard deviation of the lengths of all rows over their mean. The control "
    "has independent entries of the same distribution.",
    "unused tokens told apart": "The chance that a token that was never used lies nearer to other unused "
    "tokens than a token in use does (Land and Bartolo, 2024). 0.5: they cannot be told apart.",
    "cosine of a token's two rows": "The average cosine of a token's row in the input embedding and its row "
    "in the output matrix. The control compares rows of different tokens.",
    "nearest twins, leading space": "The share of words whose two tokens, with and without a space before "
    "them, are each other's nearest among all tokens. The control is the chance of a random pair.",
    "circulant score": "How near the kernel between log counts and the Gram matrix is to a circulant matrix; "
    "1 is exact. The control has its rows in random order.",
    "layers and heads": "A transformer is a stack of layers. In each one, heads of attention compare tokens "
    "by queries (Q) and keys (K), and move values (V), which O writes back; then an MLP works on each token "
    "alone.",
    "centred": "The mean of all rows is taken off every row first. A direction that all rows share would "
    "otherwise decide cosines and the largest singular value.",
    "singular values": "How much a matrix stretches space along its main directions, the largest first. A "
    "few large ones mean that few directions matter.",
    "row length": "The Euclidean length of a token's vector. Tokens that training hardly touched often have "
    "unusual lengths.",
    "kind of token": "What the token's text is: the beginning of a word, a continuation, a digit, a single "
    "byte, a special or unused entry, or letters of another script.",
    "under-trained token": "A token that training has hardly touched. Its row is as near to the rows of "
    "unused tokens as these are to each other; models answer such tokens strangely.",
    "twins": "Two tokens that differ only by a leading space, a capital or a plural's s.",
    "control": "The same measurement where the structure is missing: entries in random places, rows in "
    "random order, or what a random matrix tends to by formula. A value near its control says nothing.",
}

# Parts and quantities of the table, the first five of which stand first; their names there.
FIRST = (
    ("next token", "next-token loss, bits a token", "Loss on the text, bits a token"),
    ("embedding", "mean cosine", "Shared direction of all tokens: mean cosine"),
    ("embedding, centred", "stable rank", "Directions in use: stable rank, centred"),
    ("embedding, centred", "cosine with the nearest", "Nearest token: cosine, centred"),
    ("embedding", "spread of row lengths", "Spread of token lengths"),
    ("under-trained tokens", "unused tokens told apart", "Unused tokens told apart: chance"),
    ("embedding and output", "cosine of a token's two rows", "Input and output row of a token: cosine"),
    ("embedding, centred", "beyond the edge", "Singular values beyond chance: share"),
    ("twins", "nearest twins, leading space", "Twins that are nearest: share"),
    ("Q", "beyond the edge", "Queries beyond chance: share, median of layers"),
    ("V", "beyond the edge", "Values beyond chance: share, median of layers"),
    ("Q", "stable rank", "Directions of queries: stable rank, median of layers"),
    ("MLP in", "stable rank", "Directions of the MLP: stable rank, median of layers"),
)


@dataclass(frozen=True)
class Headline:
    """A quantity that stands first: its name, its control, and in a sentence or two what it is."""

    name: str
    value: float
    control: float
    meaning: str


@dataclass(frozen=True, eq=False)
class Inspection:
    """What :func:`~embviz.inspection.inspect` found."""

    name: str  # of the model
    vocab_size: int  # V of the embedding; 0 without one
    embedding_dim: int  # D
    tied: bool | None  # whether input and output embedding are one; None where there is no saying
    why: str  # how that is known
    measured: list[Measured]  # in the order of the model; what does not apply says so in its note
    neighbors: pd.DataFrame  # token, neighbor, cosine, control (of rows mixed column by column)
    extremes: pd.DataFrame  # token, row, length, deviation (in median absolute ones): shortest and longest
    spectra: dict[str, tuple[np.ndarray, np.ndarray]]  # singular values and a control's, over the edge
    lengths: np.ndarray  # (V,) of all rows of the embedding
    rows: np.ndarray  # whose nearest rows were looked for among all rows
    kinds: pd.DataFrame = field(default_factory=pd.DataFrame)  # lengths and isotropy by kind of token
    undertrained: pd.DataFrame = field(default_factory=pd.DataFrame)  # token, row, kind, distance
    twins: pd.DataFrame = field(default_factory=pd.DataFrame)  # sort, token, twin, cosine, mutual
    distances: dict[str, np.ndarray] = field(default_factory=dict)  # from unused tokens: in use, held out
    vocabulary: list[str] = field(default_factory=list)  # tokens of all rows; empty without a tokenizer
    counts: np.ndarray = field(default_factory=lambda: np.empty(0, dtype=np.int64))  # (V,) in the text
    facts: dict[str, Any] = field(default_factory=dict)  # what `description` says
    weights: Weights | None = None  # the model's arrays, to measure more
    names: dict[str, str | None] = field(default_factory=dict)  # of embedding and output matrix among them

    @functools.cached_property
    def table(self) -> pd.DataFrame:
        """A row a number: where it was measured, its interval, and the range of its control over draws.

        "embedding, centred" is the embedding with its mean row taken off. low and high: the 95% interval over
        rows of a mean over rows. null, null_low, null_high: the control's mean and range, one number where it
        is known by formula.
        """
        rows = [
            (one.part, one.layer, one.head, one.quantity, one.value, *one.interval, one.control)
            + ((one.null.min(), one.null.max()) if one.null.size else (math.nan, math.nan))
            + (one.n_rows, one.note)
            for one in self.measured
        ]
        table = pd.DataFrame(rows, columns=list(COLUMNS))
        return table.astype(dict.fromkeys(("layer", "head", "n_rows"), "Int64"))

    @property
    def description(self) -> str:
        """What the model is, in plain words."""
        facts = self.facts
        kind = "a causal language model" if facts.get("causal") else "a model"
        kind = kind if facts.get("n_layers") else "a table of vectors"
        words = [f"{self.name} is {kind} of {_amount(facts.get('n_numbers', 0))} numbers"]
        if family := facts.get("family"):
            words[0] += f" of the family {family}"
        if self.vocab_size:
            words.append(
                f"Its vocabulary has {self.vocab_size:,} tokens, each a vector of {self.embedding_dim:,} "
                "numbers"
            )
            if self.tied:
                words.append("The same matrix reads tokens and predicts the next one (tied embeddings)")
            elif self.tied is False:
                words.append("One matrix reads tokens, another predicts them (embeddings that are not tied)")
            elif facts.get("n_layers"):
                words.append("It has no output matrix, so it gives vectors and predicts no tokens")
        else:
            words.append(self.why[:1].upper() + self.why[1:])
        if n_layers := facts.get("n_layers"):
            heads, n_kv = facts.get("n_heads"), facts.get("n_kv")
            several = f", each with {heads} heads" if heads else ""
            shared = f" of queries and {n_kv} of keys and values" if heads and n_kv and n_kv != heads else ""
            words.append(f"It has {n_layers} layers of attention{several}{shared}")
        return ". ".join(words) + "."

    @property
    def terms(self) -> dict[str, str]:
        """What each quantity and term of the report is, in one or two sentences."""
        return TERMS

    @property
    def headlines(self) -> list[Headline]:
        """The five quantities that matter most among those that were measured, each with its control."""
        found = []
        for part, quantity, name in FIRST:
            rows = [
                one
                for one in self.measured
                if one.part == part and one.quantity == quantity and one.head is None and one.null.size
            ]
            if rows:
                value = float(np.median([one.value for one in rows]))
                control = float(np.median([one.control for one in rows]))
                found.append(Headline(name, value, control, TERMS[quantity]))
        return found[:5]

    @property
    def unusual(self) -> list[tuple[str, float]]:
        """The three most unusual findings, one of each sort: matrices, heads, row lengths, kinds of tokens.

        Each is a sentence and a deviation from the median of its like, in median absolute deviations; the
        largest comes first.
        """
        sorts = (
            _matrices(self),
            _matrices(self, by_head=True),
            _lengths(self),
            _kinds(self),
            _undertrained(self),
        )
        each = [max(sort, key=lambda one: one[1], default=None) for sort in sorts]
        return sorted((best for best in each if best), key=lambda one: -one[1])[:3]

    @property
    def sentence(self) -> str:
        """What the model is, in a few words."""
        if not self.vocab_size:
            return f"{self.name}: {self.why}."
        how = "tied or without a head, which cannot be told"
        if self.tied is not None:
            how = "tied" if self.tied else "not tied"
        rows = len(self.rows)
        sample = (
            ""
            if rows == self.vocab_size
            else (f"; the nearest row was found for {rows:,} of them, drawn at random")
        )
        return (
            f"{self.name}: {self.vocab_size:,} tokens in {self.embedding_dim:,} dimensions, {how} "
            f"({self.why}). All rows of the embedding were measured{sample}."
        )

    def summary(self) -> pd.DataFrame:
        """The table to read: intervals, ranges of controls, without single heads."""
        rows = []
        for one in self.measured:
            value, control, n_rows = one.note, "", ""
            if one.null.size:
                value = "; ".join(filter(None, [_with_range(one.value, *one.interval), one.note]))
                control = _with_range(one.control, one.null.min(), one.null.max())
                n_rows = f"{one.n_rows:,}"
            if one.head is None:
                part = one.part if one.layer is None else f"{one.part} of layer {one.layer}"
                rows.append((part, one.quantity, value, control, n_rows))
        return pd.DataFrame(rows, columns=["part", "quantity", "value", "control", "rows"])

    def _ipython_display_(self) -> None:
        """In a notebook the page of :func:`embviz.view.inspection_page`; without charts the description."""
        try:
            from embviz.view import inspection_page
        except ImportError:
            print(self.description)
        else:
            inspection_page(self, progress=True)._ipython_display_()


def first_screen(report: Inspection) -> str:
    """What stands first in a terminal: description, quantities beside their controls, and what is unusual."""
    first = report.headlines
    width = max((len(one.name) for one in first), default=0)
    lines = [f"{one.name:<{width}}  {one.value:>8.3g}   control {one.control:.2g}" for one in first]
    found = [f"- {sentence}" for sentence, _ in report.unusual]
    blocks = [report.description, "\n".join(lines), "\n".join(["Most unusual:", *found] if found else [])]
    return "\n\n".join(block for block in blocks if block)


def _with_range(value: float, low: float, high: float) -> str:
    """A number and its range, three digits."""
    return f"{value:.3g}" if math.isnan(low) or low == high else f"{value:.3g} ({low:.3g} to {high:.3g})"


def _amount(n: int) -> str:
    """A large number in words.

    >>> _amount(268_098_176), _amount(4_096)
    ('268 million', '4,096')
    """
    for size, name in ((1e9, "billion"), (1e6, "million")):
        if n >= size:
            return f"{n / size:.3g} {name}"
    return f"{n:,}"


# --- what is unusual ------------------------------------------------------------------------------------


def _deviations(values: np.ndarray) -> np.ndarray:
    """How far each value is from the median, in median absolute deviations; 0 where all are equal.

    >>> _deviations(np.array([1.0, 2.0, 3.0, 4.0, 13.0])).tolist()
    [-2.0, -1.0, 0.0, 1.0, 10.0]
    """
    values = np.asarray(values, dtype=float)
    off = values - np.median(values)
    scale = float(np.median(np.abs(off)))
    found: np.ndarray = off / scale if scale > 0 else np.zeros(len(values))
    return found


def _matrices(report: Inspection, *, by_head: bool = False) -> Iterator[tuple[str, float]]:
    table = report.table
    chosen = table["layer"].notna() & table["value"].notna() & table["head"].notna().eq(by_head)
    chosen &= table["quantity"].isin(["stable rank", "beyond the edge"])
    for (part, quantity), rows in table[chosen].groupby(["part", "quantity"], sort=False):
        if len(rows) < LEAST:
            continue
        away = np.abs(_deviations(rows["value"].to_numpy(dtype=float)))
        place = int(away.argmax())
        row: Any = rows.iloc[place]
        where, like = f"{part} of layer {row.layer}", "layers"
        if by_head:
            where, like = f"Head {row['head']} of {part} in layer {row.layer}", "heads"
        named = "share beyond the edge" if quantity == "beyond the edge" else quantity
        yield (
            f"{where}: {named} {row.value:.3g}; the median of its {len(rows)} {like} is "
            f"{rows['value'].median():.3g}, the control {row['null']:.3g}.",
            float(away[place]),
        )


def _lengths(report: Inspection) -> Iterator[tuple[str, float]]:
    row: Any
    for row in report.extremes.itertuples():
        longer = "longer" if row.deviation > 0 else "shorter"
        middle = float(np.median(report.lengths))
        if abs(row.length - middle) < LEAST_CHANGE * middle:
            continue
        yield (
            f"The vector of {row.token!r} is {longer} than others: length {row.length:.4g}, the median of "
            f"all tokens is {middle:.4g}.",
            abs(float(row.deviation)),
        )


def _kinds(report: Inspection) -> Iterator[tuple[str, float]]:
    if not len(report.kinds):
        return
    kinds = report.kinds[(report.kinds["tokens"] >= LEAST) & report.kinds["centred_mean_cosine"].notna()]
    if len(kinds) < LEAST:
        return
    away = _deviations(kinds["centred_mean_cosine"].to_numpy())
    middle = float(kinds["centred_mean_cosine"].median())
    for row, off in zip(kinds.itertuples(), away, strict=True):
        yield (
            f"The {row.tokens:,} tokens of the kind {row.kind!r} have a mean cosine of "
            f"{row.centred_mean_cosine:.2f} with each other, centred; the median of {len(kinds)} kinds is "
            f"{middle:.2f}.",
            abs(float(off)),
        )


def _undertrained(report: Inspection) -> Iterator[tuple[str, float]]:
    in_use = report.distances.get("tokens in use", np.empty(0))
    if len(in_use) < LEAST or not len(report.undertrained):
        return
    first = report.undertrained.iloc[0]
    middle = float(np.median(in_use))
    scale = float(np.median(np.abs(in_use - middle)))
    if scale > 0:
        yield (
            f"{len(report.undertrained):,} tokens in use look never trained, the first of them "
            f"{first['token']!r}: distance {first['distance']:.2g} from the unused tokens; the median of "
            f"tokens in use is {middle:.2g}.",
            (middle - float(first["distance"])) / scale,
        )
