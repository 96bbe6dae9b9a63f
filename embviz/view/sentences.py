"""Numbers in words: how a number and an interval are written, and sentences filled from the results."""

from __future__ import annotations

import math

from embviz import ledger
from embviz.ledger.judging import Row

MOST_DIGITS = 7  # of a number in a table


def number(value: float | None, unit: str = "", *, digits: int = 3) -> str:
    """A number at so many significant digits, whole counts in full; a dash when there is none.

    >>> number(0.123456), number(17005207.0, "tokens"), number(None), number(float("inf"))
    ('0.123', '17,005,207 tokens', '–', '∞')
    """
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return "–"
    if math.isinf(value):
        return "∞" if value > 0 else "-∞"
    whole = float(value).is_integer() and abs(value) >= 1000
    text = f"{value:,.0f}" if whole else f"{value:,.1f}" if abs(value) >= 1000 else f"{value:.{digits}g}"
    return f"{text} {unit}".strip()


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


class Quotation:
    """A sentence whose numbers come from the ledger, drawn as Markdown."""

    def __init__(self, text: str) -> None:
        self.text = text

    def __repr__(self) -> str:
        return self.text

    def _repr_markdown_(self) -> str:
        return self.text


class _Quoted:
    """A figure inside a template: ``{name}`` ours, ``{name:paper}`` theirs, ``{name:ppmi}`` a null."""

    def __init__(self, row: Row) -> None:
        self.row = row

    def __format__(self, what: str) -> str:
        figure, finding = self.row.figure, self.row.finding
        if what == "paper":
            return number(figure.paper, figure.unit)
        if what == "verdict":
            return self.row.verdict
        if what == "accepted":
            return interval(*figure.accept) if figure.accept else "–"
        if finding is None:
            return "(not measured)"
        if what == "interval":
            return interval(finding.low, finding.high)
        values = {"": finding.value, "low": finding.low, "high": finding.high, "seeds": finding.n_seeds}
        values |= finding.nulls
        if what not in values:
            raise ValueError(f"figure {figure.name} has no {what!r}: choose from {', '.join(values)}, paper")
        return number(values[what], figure.unit if what in ("", "low", "high") else "")


def quote(claim_id: str, template: str) -> Quotation:
    """Fill `template` with numbers of one claim from the ledger.

    Parameters
    ----------
    claim_id : str
        Such as ``reflections.spectrum_symmetry``.
    template : str
        Markdown with fields: ``{figure}`` our value, ``{figure:paper}``, ``{figure:interval}``,
        ``{figure:low}``, ``{figure:high}``, ``{figure:seeds}``, ``{figure:accepted}``,
        ``{figure:verdict}``, ``{figure:NULL}`` a null by its name; and ``{verdict}``, ``{scale}``,
        ``{corpus}`` of the claim.

    Raises
    ------
    ValueError
        If a field names no figure of the claim.
    """
    item = ledger.entry(ledger.find_claim(claim_id))
    fields: dict[str, object] = {row.figure.name: _Quoted(row) for row in item.rows}
    used = {row.finding.corpus for row in item.rows if row.finding and row.finding.corpus}
    fields |= {"verdict": item.verdict, "scale": item.scale or "none", "corpus": ", ".join(sorted(used))}
    try:
        return Quotation(template.format(**fields))
    except KeyError as error:
        raise ValueError(f"{claim_id} has no figure {error}: choose from {', '.join(fields)}") from error
