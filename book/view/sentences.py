"""Numbers in words: how a number and an interval are written, and sentences filled from the results.

A chapter writes its sentences itself and leaves their numbers open; :func:`say` fills them from a table, from
findings, from seeds' values or from claims of the ledger, so that none is ever typed. Words that rest on a
verdict name it, and are refused once it has moved.
"""

from __future__ import annotations

import dataclasses
import html
import math
import numbers
import re
from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd

from book import ledger
from book.ledger.findings import Finding, over_seeds
from book.ledger.verdicts import tagged
from book.view import looks
from embviz.view.typesetting import number

NOT_MEASURED = "not measured"
SENTENCE = "the sentence"
MOST_DIGITS = 7  # of a number in a table


# --- numbers as text ----------------------------------------------------------------------------------


def digits_for(low: float, high: float) -> int:
    """Significant digits of an interval's ends: three, or more until rounding is small beside its width."""
    digits, width = 3, high - low
    if not 0 < width < math.inf or number(low) != number(high):
        return digits
    while digits < MOST_DIGITS and any(abs(float(f"{x:.{digits}g}") - x) > width / 20 for x in (low, high)):
        digits += 1
    return digits


def interval(low: float, high: float) -> str:
    """An interval as text; one number when both ends agree.

    >>> interval(0.1, 0.25), interval(2.0, 2.0), interval(0.10255, 0.10265)
    ('0.1 to 0.25', '2', '0.10255 to 0.10265')
    """
    digits = digits_for(low, high)
    texts = [number(end, digits=digits) for end in (low, high)]
    return texts[0] if low == high else " to ".join(texts)


def format_for(low: float, high: float) -> str:
    """Python's format of numbers known as well as an interval says: a tenth of its width is the last digit.

    Empty where it has no width: :func:`number` then has the say.

    >>> format_for(0.951, 0.972), format_for(98.0, 131.0), format_for(1.1e-6, 1.3e-6), format_for(2.0, 2.0)
    (',.3f', ',.0f', '.3g', '')
    """
    width = high - low
    if not 0 < width < math.inf:
        return ""
    n_decimals = max(0, -math.floor(math.log10(width / 10) + 1e-9))
    return f",.{n_decimals}f" if n_decimals <= MOST_DIGITS - 1 else ".3g"


# --- a number with what is known about it ---------------------------------------------------------------

# What a field may end with: a format of Python's for numbers, or "percent".
_NUMBER_FORMAT = re.compile(r"[+\- ]?,?(\.\d+)?[deEfFgG%]?|percent")


@dataclasses.dataclass(frozen=True)
class Amount:
    """A number with its interval, its range over seeds, its controls and the published value.

    A field of a sentence names the number and, after a colon, what is wanted of it:

    >>> share = Amount(0.9634, 0.951, 0.972, 0.950, 0.974, 5, paper=0.936, controls={"shuffled": 0.5})
    >>> f"{share} ({share:interval}), seeds {share:range}, {share:percent}, control {share:shuffled}"
    '0.963 (0.951 to 0.972), seeds 0.950 to 0.974, 96.3%, control 0.5'
    >>> f"the paper has {share:paper}; {share:.2f} over {share:seeds}; {Amount(None)}"
    'the paper has 0.936; 0.96 over 5; not measured'
    """

    value: float | None  # None: not measured
    low: float | None = None  # end of its 95% interval, as is high
    high: float | None = None
    least: float | None = None  # over seeds, as is most
    most: float | None = None
    n_seeds: int = 1
    unit: str = ""
    paper: float | None = None  # the published value
    controls: Mapping[str, float] = dataclasses.field(default_factory=dict)
    verdict: str = ""
    accept: tuple[float, float] | None = None
    limit: float = math.inf  # values from here on were not waited for: they are written > limit

    def __format__(self, spec: str) -> str:
        if "|" in spec:
            return self._counted(*spec.split("|", 1))
        part, how = self._read(spec)
        if part == "paper":
            return self._write(self.paper, how, self.unit, fine=False)
        if part == "verdict":
            return self.verdict
        if part == "accepted":
            return interval(*self.accept) if self.accept else "–"
        if self.value is None:
            return NOT_MEASURED
        if part in ("interval", "range"):
            low, high = (self.low, self.high) if part == "interval" else (self.least, self.most)
            texts = [self._write(end, how) for end in (low, high)]
            return texts[0] if texts[0] == texts[1] else " to ".join(texts)
        if part == "seeds":
            return str(self.n_seeds)
        fine = part not in self.controls
        return self._write(self._numbers()[part], how, self.unit if fine else "", fine=fine)

    def __str__(self) -> str:
        return format(self, "")

    def text(self, *, spread: bool = True) -> str:
        """The number with its range over seeds in brackets, as a table shows it.

        >>> Amount(0.9634, least=0.950, most=0.974).text(), Amount(3.0).text(), Amount(None).text()
        ('0.963 (0.950 to 0.974)', '3', 'not measured')
        """
        around = format(self, "range") if spread and self.value is not None else ""
        bare = dataclasses.replace(self, unit="")
        return f"{bare} ({around})" if " to " in around else str(bare)

    def _numbers(self) -> dict[str, float | None]:
        own = {"": self.value, "value": self.value, "low": self.low, "high": self.high}
        return own | {"least": self.least, "most": self.most} | dict(self.controls)

    def _read(self, spec: str) -> tuple[str, str]:
        """What is wanted, and how it is to be written."""
        known = [*self._numbers(), "interval", "range", "seeds", "paper", "verdict", "accepted"]
        part, _, how = spec.rpartition(" ")
        if spec in known:
            part, how = spec, ""
        elif not _NUMBER_FORMAT.fullmatch(how):
            part = spec
        if part not in known and self.value is not None:
            raise ValueError(f"a number has no {part!r}: choose from {', '.join(known[1:])}")
        return part, how

    def _write(self, value: float | None, how: str, unit: str = "", *, fine: bool = True) -> str:
        if value is None:
            return "–"
        if math.isinf(value):
            return number(value)
        if value >= self.limit:
            return f"> {number(self.limit, unit)}"
        scale, unit = (100.0, "") if how == "percent" else (1.0, unit)
        if not how or how in ("percent", "+"):
            auto = self._format(scale) if fine and math.isfinite(value) else ""
            text = format(_no_minus(scale * value, auto), auto) if auto else number(scale * value)
            text = f"+{text}" if how == "+" and value > 0 else text
            return f"{text}%" if how == "percent" else f"{text} {unit}".strip()
        return format(int(value) if how[-1] == "d" else _no_minus(value, how), how)

    def _format(self, scale: float) -> str:
        """How finely the interval, or else the range over seeds, lets the number be written."""
        low, high = (self.low, self.high) if self.low != self.high else (self.least, self.most)
        if self.value is None or low is None or high is None:
            return ""
        whole = all(float(scale * x).is_integer() for x in (self.value, low, high))
        return ",.0f" if whole else format_for(scale * low, scale * high)

    def _counted(self, one: str, many: str) -> str:
        return f"{self} {one if self.value == 1 else many}"


def _no_minus(value: float, how: str) -> float:
    """The value, or 0 where it is written as minus nothing, such as -0.00."""
    return 0.0 if re.fullmatch(r"-0(\.0*)?%?", format(value, how)) else value


def amount(
    values: Any,
    *,
    statistic: str = "mean",
    paper: float | None = None,
    limit: float = math.inf,
) -> Amount:
    """Mean or median of seeds' values, with Student's interval of the mean and the range over seeds.

    A median has no interval here. Values that reach `limit` were not waited for, and have no mean.

    >>> f"{amount([1.0, 2.0, 3.0]):interval}"
    '-0.5 to 4.5'
    >>> str(amount([80, 120, 1500], statistic="median", limit=1500)), str(amount([]))
    ('120', 'not measured')
    """
    own = np.asarray(values, dtype=float)
    known: dict[str, Any] = {"paper": paper, "limit": limit}
    if own.size == 0:
        return Amount(None, n_seeds=0, **known)
    ends: dict[str, Any] = {"least": float(own.min()), "most": float(own.max()), "n_seeds": own.size}
    if statistic == "median":
        return Amount(float(np.median(own)), **ends, **known)
    if own.max() >= limit:
        raise ValueError(
            f"values reach the limit of {limit:g}, so their mean is not defined: take the median"
        )
    if not np.isfinite(own).all():
        return Amount(float(own.mean()), **ends, **known)
    found = over_seeds(own)
    return Amount(found.value, found.low, found.high, **ends, **known)


# --- sentences ------------------------------------------------------------------------------------------


class Quotation(str):
    """A sentence whose numbers come from the results: text anywhere, and drawn as Markdown.

    >>> Quotation("12 *seeds*") + "."
    '12 *seeds*.'
    """

    __slots__ = ()

    def __repr__(self) -> str:
        return str(self)

    def _repr_markdown_(self) -> str:
        return str(self)


# A claim and the verdict that the words before it were written for.
_CITED = re.compile(r"\s*\[(?P<claim>\w+\.\w+): (?P<verdict>[a-z ]+?)(?P<scale>, smaller scale)?\]")


class Named(Mapping[str, Any]):
    """Numbers by name, ``{table[kind]}`` or ``{row.column}`` in a sentence; a missing name lists the rest."""

    def __init__(self, name: str, parts: Mapping[Any, Any]) -> None:
        self._name = name
        self._parts = {_key(key): value for key, value in parts.items()}

    def __getitem__(self, key: str) -> Any:
        if key not in self._parts:
            raise ValueError(f"{self._name} has no {key!r}: choose from {', '.join(map(str, self._parts))}")
        return _source(self._parts[key], key if self._name == SENTENCE else f"{self._name}[{key}]")

    def __getattr__(self, key: str) -> Any:
        if key.startswith("_"):
            raise AttributeError(key)
        return self[key]

    def __iter__(self) -> Any:
        return iter(self._parts)

    def __len__(self) -> int:
        return len(self._parts)

    def __format__(self, spec: str) -> str:
        raise ValueError(f"{self._name} is no number: name one of {', '.join(map(str, self._parts))}")


class Fields(Named):
    """What a sentence can name: its own numbers, the claims of a paper, and counts of the ledger."""

    def __getitem__(self, key: str) -> Any:
        if key in self._parts:
            return super().__getitem__(key)
        if key == "ledger":
            items = ledger.entries()
            verdicts = [item.verdict for item in items]
            counts = {name: verdicts.count(name) for name in ledger.VERDICTS} | {"claims": len(items)}
            return Named(key, counts | {"revised": sum(bool(item.claim.amended) for item in items)})
        if key in ledger.papers():
            return Named(key, {item.claim.id.partition(".")[2]: item for item in ledger.entries(key)})
        return super().__getitem__(key)


def say(template: str, *, claim: str = "", root: str = "../", **sources: Any) -> Quotation:
    """Fill numbers into sentences, and cite the claims that they rest on.

    Parameters
    ----------
    template : str
        Markdown with fields: ``{name}`` of `sources` or of a measurement of `claim`; ``{paper.claim.name}``
        a measurement of any claim; ``{name[row]}`` a row of a table and ``{name[row].column}`` a cell; of
        `claim` also ``{verdict}``, ``{scale}`` and ``{corpus}``. After a colon stands what is wanted of the
        number (``low``, ``high``, ``interval``, ``least``, ``most``, ``range``, ``seeds``, ``paper``,
        ``verdict``, ``accepted``, the name of a control), how it is written (``percent``, or Python's
        ``.2f``, ``+.1f``, ``.0%``), or both, as in ``{share:interval percent}``.
        ``{n:seed|seeds}`` adds the word in its number. ``{ledger[not tested]}`` counts claims of a verdict,
        ``{ledger.claims}`` all, ``{ledger.revised}`` those with an amendment. Other braces are doubled.
        ``[paper.claim: verdict]`` or ``[paper.claim: verdict, smaller scale]``, at the end of the words that
        rest on that verdict, becomes a link to the ledger.
    claim : str
        Such as ``reflections.spectrum_symmetry``.
    root : str
        How to get from the page to the book's root.
    **sources : number, text, seeds' values, Finding, Row, Entry, FiguresTable, DataFrame, Series or mapping
        Of a DataFrame the index names the rows (a frame of one row names its columns), of a Series the index.
        Keys of several parts are joined by ", ".

    Raises
    ------
    ValueError
        If a field names nothing (the message lists the names there are), or the ledger has another verdict
        than a sentence was written for (it has the sentence).

    >>> times = pd.DataFrame({"grok": [780.0, 60.0]}, index=["baseline", "near-Nyquist"])
    >>> say("{t[baseline].grok} epochs, steered {t[near-Nyquist].grok}; {n:seed|seeds}.", t=times, n=5)
    780 epochs, steered 60; 5 seeds.
    >>> say("A share of {share:percent} ({share:range percent}).", share=[0.25, 0.35])
    A share of 30% (25% to 35%).
    >>> say("{share}", part=1)
    Traceback (most recent call last):
    ValueError: the sentence has no 'share': choose from part
    """
    if moved := moved_sentences(template):
        raise ValueError("\n".join(moved))
    fields = (_of_entry(ledger.entry(claim)) if claim else {}) | sources
    text = template.format_map(Fields(claim or SENTENCE, fields))
    return Quotation(_CITED.sub(lambda found: _link(found, root), text))


def _link(cited: re.Match[str], root: str) -> str:
    """A verdict behind the words that rest on it; a click leads to the claim."""
    claim = ledger.entry(cited["claim"]).claim
    words = tagged(cited["verdict"], bool(cited["scale"])).replace(" ", "&nbsp;")
    return (
        f' <small><a href="{root}ledger.html#{claim.id}" title="{html.escape(claim.title, quote=True)}">'
        f"{looks.MARKS[cited['verdict']]}&nbsp;{words}</a></small>"
    )


def moved_sentences(text: str) -> list[str]:
    """The sentences of a template whose verdicts are others by now, each with what to do."""
    found = []
    for sentence in re.split(r"(?<=[.?!])\s+|\n{2,}", text):
        for cited in _CITED.finditer(sentence):
            written, item = cited["verdict"] + (cited["scale"] or ""), ledger.entry(cited["claim"])
            now = f"{item.verdict}, {ledger.SMALLER_SCALE}" if item.smaller_scale else item.verdict
            if now != written:
                found.append(
                    f"{item.claim.id} is {now!r} now, not {written!r}. Write the sentence again: "
                    f"{sentence.strip()}"
                )
    return found


def _of_entry(item: ledger.Entry) -> dict[str, Any]:
    used = {row.finding.corpus for row in item.rows if row.finding and row.finding.corpus}
    said = {"verdict": item.verdict, "scale": item.scale or "none", "corpus": ", ".join(sorted(used))}
    return {row.measurement.name: row for row in item.rows} | said


def _key(key: Any) -> str:
    return ", ".join(map(str, key)) if isinstance(key, tuple) else str(key)


def _source(value: Any, name: str) -> Any:
    """What a field stands for: something that can be written, or named further."""
    if value is None or value is pd.NA or (isinstance(value, float) and math.isnan(value)):
        return Amount(None)
    if isinstance(value, Amount | Named | str):
        return value
    if isinstance(value, bool | np.bool):
        return str(value)
    if isinstance(value, numbers.Real):
        return Amount(float(value))
    if isinstance(value, ledger.Row):
        of, found = value.measurement, _source(value.finding, name)
        return dataclasses.replace(
            found, verdict=value.verdict, unit=of.unit, paper=of.paper, accept=of.accept
        )
    if isinstance(value, Finding):
        controls = dict(value.controls)
        return Amount(value.value, value.low, value.high, n_seeds=value.n_seeds, controls=controls)
    if isinstance(value, ledger.Entry):
        return Named(value.claim.id, _of_entry(value))
    if isinstance(value, pd.DataFrame):
        if len(value) == 1 and isinstance(value.index, pd.RangeIndex):
            return Named(name, value.iloc[0].to_dict())
        return Named(name, {key: value.iloc[place].to_dict() for place, key in enumerate(value.index)})
    if isinstance(value, pd.Series) and not isinstance(value.index, pd.RangeIndex):
        return Named(name, value.to_dict())
    if isinstance(value, Mapping):
        return Named(name, value)
    return _listed(value, name)


def _listed(value: Any, name: str) -> Any:
    parts = list(value) if hasattr(value, "__iter__") else [value]
    if all(isinstance(part, str) for part in parts):
        return ", ".join(parts)
    if all(isinstance(part, numbers.Real) for part in parts):
        return amount(parts)
    raise ValueError(
        f"{name} is a {type(value).__name__}: give a number, seeds' values, a table or a mapping"
    )
