"""The ledger: what each paper claims, what was measured, and the verdict that follows.

A claim is read from ``data/claims/<paper>.toml``, where the accepted range of each of its figures was
fixed before anything was measured. What was measured comes from stored cells. The verdict is derived
here and nowhere else.

A figure decides if it is exact, or has an interval over at least three independent repetitions. Then it
**holds** when its whole interval lies in the accepted range and its null lies outside, is **null too** when
the null lies inside as well, and **fails** when the interval lies wholly outside. It is **undecided** when
the interval reaches over a border, when its null was not measured, or when there were fewer repetitions.

A claim is all its figures together, which gives the order:

1. it **fails** when one figure fails, whatever the others do;
2. else it is **undecided** when one figure is undecided or was not measured, for that one may yet fail;
3. else it is **null too** when one null passes: the numbers come out, and one of them is no evidence;
4. else it **holds**.

"Fails" stands above "undecided" since no further repetition could mend it; "null too" stands below, since
it says that all numbers came out, which is not known while one is open.

What was measured at a smaller scale than the paper's, or on another text, **holds here** or **fails here**,
unless the claim, or a figure, says why it depends on no scale. A question that its paper leaves open is
answered **yes**, **no** or **undecided**; a null that passes too answers nothing.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from embviz.ledger.claims import Claim, Figure
from embviz.ledger.findings import LEAST_REPETITIONS, Finding, repetitions_needed
from embviz.ledger.measuring import OWN_SCALE, Measurement, measure
from embviz.ledger.verdicts import (
    FAILS,
    FAILS_HERE,
    HOLDS,
    HOLDS_HERE,
    NO,
    NOT_MEASURED,
    NULL_TOO,
    REPORTED,
    UNDECIDED,
    YES,
    answer,
    here,
)

_ORDER = (FAILS, NO, FAILS_HERE, UNDECIDED, NOT_MEASURED, NULL_TOO, HOLDS_HERE, YES, HOLDS)


@dataclasses.dataclass(frozen=True)
class Row:
    """A figure beside what was measured for it."""

    figure: Figure
    finding: Finding | None
    verdict: str
    reason: str
    replaced: bool = False  # by an amendment: shown as first fixed, decides nothing


@dataclasses.dataclass(frozen=True)
class Entry:
    """A claim beside its rows, at the largest scale that was measured."""

    claim: Claim
    verdict: str
    scale: str | None
    reason: str
    rows: tuple[Row, ...]
    elsewhere: str = ""  # how what was measured differs from the paper's own, and the run that would not

    @property
    def deciding(self) -> Row | None:
        """The figure that the verdict rests on; None if nothing decides.

        Of figures that fail the one of most repetitions, since any of them is enough; of others, all of
        which the verdict needs, the one of fewest.
        """
        judged = [row for row in _judged(self.rows) if row.finding]
        own = [row for row in judged if row.verdict == self.verdict]
        if not own and self.verdict == UNDECIDED:  # of a question whose null passes too
            own = [row for row in judged if row.verdict == NULL_TOO]
        if not own:
            return None
        if self.verdict in (FAILS, FAILS_HERE, NO):
            return max(own, key=_weight)
        return min(own, key=_weight)


def _weight(row: Row) -> float:
    assert row.finding is not None
    return float("inf") if row.finding.exact else row.finding.n_seeds


def _judged(rows: Sequence[Row]) -> list[Row]:
    return [row for row in rows if row.figure.accept and not row.replaced]


# --- one figure -------------------------------------------------------------------------------------


def judge(figure: Figure, finding: Finding | None) -> Row:
    """Hold a finding against its figure's accepted range and null, whatever the scale.

    Parameters
    ----------
    figure : Figure
    finding : Finding or None
        None when nothing was measured.

    Returns
    -------
    Row
        With the verdict, and the reason for any but "holds".
    """
    if finding is None:
        return Row(figure, None, NOT_MEASURED, "not measured")
    if figure.accept is None:
        return Row(figure, finding, REPORTED, "no accepted range was set: reported, not judged")
    if not finding.decides:
        return Row(figure, finding, UNDECIDED, _too_few(finding, figure.accept))
    if figure.null and figure.null not in finding.nulls:
        return Row(figure, finding, UNDECIDED, f"its null, {figure.null}, was not measured")
    verdict, reason = _against_range(figure, finding)
    if verdict == HOLDS and figure.null:
        null = finding.nulls[figure.null]
        if figure.accept[0] <= null <= figure.accept[1]:
            verdict, reason = NULL_TOO, f"the null ({figure.null}: {null:.4g}) lies in the range too"
    return Row(figure, finding, verdict, reason)


def _against_range(figure: Figure, finding: Finding) -> tuple[str, str]:
    assert figure.accept is not None
    least, most = figure.accept
    meets = finding.high >= least and finding.low <= most
    inside = finding.low >= least and finding.high <= most
    if inside or (figure.rule == "meets" and meets):
        return HOLDS, ""
    low, high = finding.low, finding.high
    span = f"[{_end(low)}, {_end(high)}]" if low != high else _end(low)
    border = f"[{_end(least)}, {_end(most)}]"
    if meets:
        over = f"the interval {span} over {finding.n_seeds} {finding.repeats}"
        more = _how_many_more(finding, figure.accept)
        return UNDECIDED, f"{over} reaches over the border of {border}; {more}"
    return FAILS, f"{span} lies outside {border}"


def _end(value: float) -> str:
    return f"{value:.4g}".replace("inf", "∞")


def _too_few(finding: Finding, accept: tuple[float, float]) -> str:
    """Why two repetitions or fewer decide nothing, and how many would."""
    n, least, repeats = finding.n_seeds, LEAST_REPETITIONS, finding.repeats
    if n == 0:
        return f"no {repeats} yet, where {least} at least are needed"
    if n > 1:
        return f"{n} {repeats}, where {least} at least are needed; {_how_many_more(finding, accept)}"
    items = "" if finding.low == finding.high else ", its interval being over the items of one of them"
    return f"measured once{items}, where {least} {repeats} at least are needed: {least - 1} more"


def _how_many_more(finding: Finding, accept: tuple[float, float]) -> str:
    if accept[0] == accept[1]:
        return "how many more would decide, the spread doesn't tell"  # of a range that is a border
    needed = repetitions_needed(finding, accept)
    if needed is None:
        return "no number of them would decide"
    return f"about {max(needed - finding.n_seeds, 1):,} more would decide, if the mean stays"


# --- a claim ----------------------------------------------------------------------------------------


def conclude(rows: Sequence[Row]) -> tuple[str, str]:
    """Verdict of a claim, and its reason, from the rows of its figures: the order is the module's."""
    judged = _judged(rows)
    measured = [row for row in judged if row.verdict != NOT_MEASURED]
    if not measured:
        return NOT_MEASURED, "no judged figure was measured"
    verdict = next(one for one in _ORDER if any(row.verdict == one for row in judged))
    own = [row for row in measured if row.verdict == verdict and row.reason]
    reasons = [f"{row.figure.label}: {row.reason}" for row in own]
    absent = [row.figure.label for row in judged if row.verdict == NOT_MEASURED]
    if absent:
        reasons.append(f"not measured: {', '.join(absent)}")
    return UNDECIDED if verdict == NOT_MEASURED else verdict, "; ".join(reasons)


def derive(claim: Claim, *, scale: str | None = None) -> Entry:
    """Judge `claim` on stored cells, whatever the ledger file says.

    Parameters
    ----------
    scale : {"quick", "laptop", "paper"}, optional
        The preset to judge on; by default the largest whose cells are all stored.
    """
    return entry_of(claim, measure(claim, scale))


def entry_of(claim: Claim, measured: Measurement) -> Entry:
    """Judge `claim` on what was measured.

    Raises
    ------
    ValueError
        If a finding has no figure in the claims file, or one that an amendment has replaced.
    """
    unknown = set(measured.findings) - ({figure.name for figure in claim.figures} - claim.replaced)
    if unknown:
        raise ValueError(f"{claim.id}: findings {sorted(unknown)} have no figure in the claims file")
    found = [judge(figure, _finding(claim, figure, measured)) for figure in claim.figures]
    smaller = _smaller(claim, measured, found)
    rows = tuple(_localized(claim, row, bool(smaller)) for row in found)
    if measured.scale is None:
        return Entry(claim, NOT_MEASURED, None, measured.why_not, rows)
    verdict, reason = conclude(rows)
    if verdict in (HOLDS, FAILS):  # by figures that depend on no scale
        smaller = ""
    if claim.question and verdict == NULL_TOO:
        verdict = UNDECIDED
    said = "; ".join(filter(None, [reason, smaller]))
    return Entry(claim, verdict, measured.scale, said, rows, smaller)


def _finding(claim: Claim, figure: Figure, measured: Measurement) -> Finding | None:
    """What was measured for a figure; of one that an amendment replaced, what the claims file stores."""
    one = claim.superseded.get(figure.name)
    if one is None:
        return measured.findings.get(figure.name)
    low, high = one.interval or (one.value, one.value)
    repeats = "" if one.exact else one.repeats
    return Finding(one.value, low, high, one.n, one.nulls, one.corpus, repeats, one.exact)


def _localized(claim: Claim, row: Row, smaller: bool) -> Row:
    """The row with its verdict in the words of the claim and of its scale."""
    verdict = row.verdict
    if superseded := claim.superseded.get(row.figure.name):  # at the scale of its own
        smaller = bool(_smaller(claim, Measurement(superseded.scale, {}), [row]))
    if smaller and not row.figure.any_scale:
        verdict = here(verdict)
    if claim.question and verdict != NULL_TOO:
        verdict = answer(verdict)
    return dataclasses.replace(row, verdict=verdict, replaced=row.figure.name in claim.replaced)


def _smaller(claim: Claim, measured: Measurement, rows: Sequence[Row]) -> str:
    """Why this is not the paper's own scale, and the run that is; empty if it is, or if scale is nothing."""
    if claim.any_scale or measured.scale is None:
        return ""
    used = {row.finding.corpus for row in rows if row.finding and row.finding.corpus}
    others = sorted(used - {claim.corpus}) if claim.corpus else []
    said = [f"measured on {', '.join(others)}, not on {claim.corpus}"] if others else []
    if measured.scale != OWN_SCALE:
        own, run = measured.own_corpora, f"`embviz run {claim.id} --preset {OWN_SCALE}`"
        again = f", on {', '.join(own)} again" if claim.corpus and own and claim.corpus not in own else ""
        said.append(f"at the paper's scale: {run}{again}" if own is not None else "no preset is its scale")
    elif others:
        said.append(f"no preset reads {claim.corpus}")
    return "; ".join(said)
