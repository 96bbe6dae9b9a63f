"""The ledger: what each paper claims, what was measured, and the verdict that follows.

A claim is read from ``data/claims/<paper>.toml``, which fixes an accepted range for each of its measurements.
What was measured comes from stored cells. The verdict is derived here and nowhere else.

A measurement decides if it is exact, or has an interval over at least three independent repetitions. Then it
is **reproduced** when its whole interval lies in the accepted range and its control lies outside, **not
specific** when the control lies in the range as well, and **not reproduced** when the interval lies wholly
outside. It is **inconclusive** when the interval covers a border of the range, when its control was not
measured, or when there were fewer repetitions.

The verdict of a claim follows from all its measurements, in this order:

1. it is **not reproduced** when one measurement is not, whatever the others are;
2. else it is **inconclusive** when one measurement is, or was not tested, for that one may yet fail;
3. else it is **not specific** when one control comes out as well: the numbers are right, and one of them is
   no evidence for the claim;
4. else it is **reproduced**.

"Not reproduced" stands first since no further repetition could change it. "Not specific" stands after
"inconclusive" since it says that all numbers come out, which is not known while one is open. An entry says
how many of its measurements agree with the claim, and names those that do not.

A claim about a named text is judged on a true part of it where one is stored, beside another text of the
paper's size. A measurement on which the two disagree is **inconclusive**; a value that the paper publishes
follows its own text where the other one is inconclusive. Ratios and relative errors are judged on logarithms
(``scale = "log"``). Where repetitions were added after an inconclusive result, the reason says so.

A verdict has the tag **smaller scale** when it rests on less than the paper's scale, or on another text,
unless the claim, or a measurement, says why it does not depend on scale. A question that its paper leaves
open is answered **yes**, **no** or **inconclusive**; where a control comes out as well, nothing is answered.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from book.ledger.claims import PRESETS, PUBLISHED, Claim, Measurement
from book.ledger.findings import LEAST_REPETITIONS, Finding
from book.ledger.verdicts import (
    INCONCLUSIVE,
    NO,
    NOT_REPRODUCED,
    NOT_SPECIFIC,
    NOT_TESTED,
    OPEN,
    REPORTED,
    REPRODUCED,
    YES,
    answer,
)

_ORDER = (NOT_REPRODUCED, NO, INCONCLUSIVE, NOT_TESTED, NOT_SPECIFIC, YES, REPRODUCED)
TEXTS_DISAGREE = "two texts disagree"
OWN_SCALE = "paper"  # the preset that is the paper's own setting


# --- what was measured -----------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class Results:
    """What was found for a claim."""

    scale: str | None  # the preset; None where nothing was measured
    findings: Mapping[str, Finding]  # by name
    why_not: str = ""  # why nothing was measured
    own_corpora: tuple[str, ...] | None = None  # data sets of the paper's own preset; None: there is none
    # on a true part of the claim's corpus, where `findings` come from another text
    on_part: Mapping[str, Finding] = dataclasses.field(default_factory=dict)


def measure(claim: Claim, scale: str | None = None) -> Results:
    """Read the claim's cells and compute its findings, at `scale` or else at the largest that is stored.

    Raises
    ------
    FileNotFoundError
        If findings read a cell that the study does not list, and it is not stored: nothing is computed here.
    """
    from book.ledger.cells import stored_alone  # they bring pandas, which reading the ledger does without
    from book.ledger.studies import find_study

    study = find_study(claim.id)
    own = study.preset_cells(OWN_SCALE)
    own_corpora = tuple(sorted(corpora(cell.config for cell in own))) if own else None
    chosen = scale or study.largest_stored()
    if chosen is None or not study.complete(chosen):
        return Results(None, {}, study.why_not_measured(scale), own_corpora)
    with stored_alone():
        found = dict(study.findings(chosen))
        smaller = [] if scale else [name for name in PRESETS[: PRESETS.index(chosen)] if study.complete(name)]
        on_part: dict[str, Finding] = {}
        if claim.corpus_part and not any(one.corpus == claim.corpus_part for one in found.values()):
            for preset in smaller:  # the largest comes last
                others = study.findings(preset).items()
                on_part |= {name: one for name, one in others if one.corpus == claim.corpus_part}
        return Results(chosen, found, own_corpora=own_corpora, on_part=on_part)


def corpora(configs: Iterable[Any]) -> set[str]:
    """Names of data sets that configurations read: every field called ``corpus``, at any depth."""
    found: set[str] = set()
    for config in configs:
        if dataclasses.is_dataclass(config):
            for field in dataclasses.fields(config):
                value = getattr(config, field.name)
                found |= {value} if field.name == "corpus" and value else corpora([value])
    return found


# --- rows and entries ------------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class Row:
    """A measurement of a claim beside what was found."""

    measurement: Measurement
    finding: Finding | None
    verdict: str
    reason: str
    smaller_scale: bool = False  # than the paper's, or on another text
    on_part: Finding | None = None  # on a true part of the claim's text, where `finding` is on another text


@dataclasses.dataclass(frozen=True)
class Entry:
    """A claim beside its rows, at the largest scale that was measured."""

    claim: Claim
    verdict: str
    scale: str | None
    reason: str
    rows: tuple[Row, ...]
    elsewhere: str = ""  # how the runs differ from the paper's, and the command for those that would not
    smaller_scale: bool = (
        False  # whether the verdict rests on less than the paper's scale, or on another text
    )
    agree: str = ""  # such as "12 of 13 measurements"; empty where there is one, or none was tested
    disagree: tuple[str, ...] = ()  # labels of the measurements that do not agree

    @property
    def deciding(self) -> Row | None:
        """The measurement that the verdict rests on; None if nothing decides.

        Of measurements that are not reproduced the one of most repetitions, since any of them is enough; of
        others, all of which the verdict needs, the one of fewest.
        """
        judged = [row for row in _judged(self.rows) if row.finding]
        own = [row for row in judged if row.verdict == self.verdict]
        if not own and self.verdict == INCONCLUSIVE:  # of a question whose control comes out as well
            own = [row for row in judged if row.verdict == NOT_SPECIFIC]
        if not own:
            return None
        if self.verdict in (NOT_REPRODUCED, NO):
            return max(own, key=_weight)
        return min(own, key=_weight)


def _weight(row: Row) -> float:
    assert row.finding is not None
    return float("inf") if row.finding.exact else row.finding.n_seeds


def _judged(rows: Sequence[Row]) -> list[Row]:
    return [row for row in rows if row.measurement.accept]


# --- one measurement -------------------------------------------------------------------------------------


def judge(measurement: Measurement, finding: Finding | None) -> Row:
    """Hold a finding against its measurement's accepted range and control, whatever the scale.

    Parameters
    ----------
    measurement : Measurement
    finding : Finding or None
        None when nothing was measured.

    Returns
    -------
    Row
        With the verdict, and the reason for any but "reproduced".
    """
    if finding is None:
        return Row(measurement, None, NOT_TESTED, "not tested")
    if measurement.scale == "log":
        finding = finding.on_log_scale()
    finding = dataclasses.replace(finding, on_logs=None)
    if measurement.accept is None:
        return Row(measurement, finding, REPORTED, "reported, not judged: it has no accepted range")
    if not finding.decides:
        return Row(measurement, finding, INCONCLUSIVE, _too_few(finding))
    if measurement.control and measurement.control not in finding.controls:
        return Row(measurement, finding, INCONCLUSIVE, f"its control, {measurement.control}, is missing")
    verdict, reason = _against_range(measurement, finding)
    if verdict == REPRODUCED and measurement.control:
        control = finding.controls[measurement.control]
        if measurement.accept[0] <= control <= measurement.accept[1]:
            verdict = NOT_SPECIFIC
            reason = f"the control ({measurement.control}: {control:.4g}) lies in the range as well"
    return Row(measurement, finding, verdict, reason)


def _against_range(measurement: Measurement, finding: Finding) -> tuple[str, str]:
    assert measurement.accept is not None
    least, most = measurement.accept
    meets = finding.high >= least and finding.low <= most
    inside = finding.low >= least and finding.high <= most
    if inside or (measurement.rule == "meets" and meets):
        return REPRODUCED, ""
    span = _span(finding)
    border = f"[{_end(least)}, {_end(most)}]"
    if meets:
        over = f"the interval {span} over {finding.n_seeds} {finding.repeats}"
        return INCONCLUSIVE, f"{over} covers a border of the range {border}"
    return NOT_REPRODUCED, f"{span} lies outside the range {border}"


def _span(finding: Finding) -> str:
    low, high = finding.low, finding.high
    return f"[{_end(low)}, {_end(high)}]" if low != high else _end(low)


def _end(value: float) -> str:
    return f"{value:.4g}".replace("inf", "∞")


def _too_few(finding: Finding) -> str:
    """Why two repetitions or fewer decide nothing."""
    n, least, repeats = finding.n_seeds, LEAST_REPETITIONS, finding.repeats
    if n == 0:
        return f"no {repeats} yet; at least {least} are needed"
    if n > 1:
        return f"{n} {repeats}; at least {least} are needed"
    items = "" if finding.low == finding.high else ", with an interval over the items of that one"
    return f"measured once{items}; at least {least} {repeats} are needed, {least - 1} more"


def judge_texts(claim: Claim, row: Row, on_part: Finding | None) -> Row:
    """The row of another text beside the finding on a true part of the claim's own."""
    if on_part is None or row.finding is None or row.verdict == REPORTED:
        return row
    part = judge(row.measurement, on_part)
    row = dataclasses.replace(row, on_part=part.finding)
    if part.verdict == row.verdict or part.verdict in OPEN:
        return row
    assert part.finding is not None
    texts = " and ".join(
        f"{_span(one.finding)} on {one.finding.corpus or 'another text'} ({one.verdict})"
        for one in (part, row)
        if one.finding
    )
    if row.verdict not in OPEN:
        return dataclasses.replace(row, verdict=INCONCLUSIVE, reason=f"{TEXTS_DISAGREE}: {texts}")
    if row.measurement.target == PUBLISHED:
        reason = f"published for {claim.corpus}, and judged on a part of it: {texts}"
        return dataclasses.replace(row, verdict=part.verdict, reason=reason)
    return row


# --- a claim ----------------------------------------------------------------------------------------


def conclude(rows: Sequence[Row]) -> tuple[str, str]:
    """Verdict of a claim, and its reason, from the rows of its measurements: the order is the module's."""
    judged = _judged(rows)
    measured = [row for row in judged if row.verdict != NOT_TESTED]
    if not measured:
        return NOT_TESTED, "no judged measurement was tested"
    verdict = next(one for one in _ORDER if any(row.verdict == one for row in judged))
    own = [row for row in measured if row.verdict == verdict and row.reason]
    reasons = [f"{row.measurement.label}: {row.reason}" for row in own]
    absent = [row.measurement.label for row in judged if row.verdict == NOT_TESTED]
    if absent:
        reasons.append(f"not tested: {', '.join(absent)}")
    return INCONCLUSIVE if verdict == NOT_TESTED else verdict, "; ".join(reasons)


def _agreement(rows: Sequence[Row]) -> tuple[str, tuple[str, ...]]:
    """How many of several judged measurements agree with the claim, and the labels of the others."""
    judged = _judged(rows)
    if len(judged) < 2 or all(row.verdict == NOT_TESTED for row in judged):
        return "", ()
    others = tuple(row.measurement.label for row in judged if row.verdict not in (REPRODUCED, YES))
    return f"{len(judged) - len(others)} of {len(judged)} measurements", others


def _rests_on_smaller_scale(rows: Sequence[Row], verdict: str) -> bool:
    """One measurement at full scale is enough for a claim not to be reproduced; else all must be."""
    judged = [row for row in _judged(rows) if row.finding]
    if verdict in (NOT_REPRODUCED, NO):
        return all(row.smaller_scale for row in judged if row.verdict == verdict)
    return any(row.smaller_scale for row in judged)


def derive(claim: Claim, *, scale: str | None = None) -> Entry:
    """Judge `claim` on stored cells, whatever the ledger file says.

    Parameters
    ----------
    scale : {"quick", "laptop", "paper"}, optional
        The preset to judge on; by default the largest whose cells are all stored.
    """
    return entry_of(claim, measure(claim, scale))


def entry_of(claim: Claim, measured: Results) -> Entry:
    """Judge `claim` on what was measured."""
    unknown = set(measured.findings) - {_source(measurement) for measurement in claim.measurements}
    if unknown:
        raise ValueError(f"{claim.id}: findings {sorted(unknown)} have no measurement in the claims file")
    found = [
        judge_texts(
            claim, judge(one, measured.findings.get(_source(one))), measured.on_part.get(_source(one))
        )
        for one in claim.measurements
    ]
    differs = _difference(claim, measured, found)
    rows = tuple(_at_scale(claim, row, bool(differs)) for row in found)
    if measured.scale is None:
        return Entry(claim, NOT_TESTED, None, measured.why_not, rows)
    verdict, reason = conclude(rows)
    smaller = _rests_on_smaller_scale(rows, verdict)
    if not smaller:
        differs = ""
    agree, disagree = _agreement(rows)
    if claim.question and verdict == NOT_SPECIFIC:
        verdict = INCONCLUSIVE
    reason = "; ".join(filter(None, [reason, _sequential(claim), differs]))
    return Entry(claim, verdict, measured.scale, reason, rows, differs, smaller, agree, disagree)


def _source(measurement: Measurement) -> str:
    return measurement.of or measurement.name


def _sequential(claim: Claim) -> str:
    """That repetitions were added after an inconclusive result and are judged with the first ones."""
    if claim.sequential is None:
        return ""
    day = f"{claim.sequential:%-d %B %Y}"
    return f"sequential testing: repetitions were added on {day} after an inconclusive result"


def _at_scale(claim: Claim, row: Row, smaller: bool) -> Row:
    """The row with its scale, and its verdict as an answer where the claim is a question."""
    answered = claim.question and row.verdict != NOT_SPECIFIC
    return dataclasses.replace(
        row,
        verdict=answer(row.verdict) if answered else row.verdict,
        smaller_scale=smaller and row.finding is not None and not row.measurement.any_scale,
    )


def _difference(claim: Claim, measured: Results, rows: Sequence[Row]) -> str:
    """How the runs differ from the paper's, and the command for those that would not; empty if in nothing."""
    if claim.any_scale or measured.scale is None:
        return ""
    used = {row.finding.corpus for row in rows if row.finding and row.finding.corpus}
    others = sorted(used - {claim.corpus}) if claim.corpus else []
    said = [f"measured on {', '.join(others)}, not on {claim.corpus}"] if others else []
    if measured.scale != OWN_SCALE:
        own, run = measured.own_corpora, f"`python -m book run {claim.id} --preset {OWN_SCALE}`"
        again = f", on {', '.join(own)} again" if claim.corpus and own and claim.corpus not in own else ""
        said.append(f"at the paper's scale: {run}{again}" if own is not None else "no preset is its scale")
    elif others:
        said.append(f"no preset reads {claim.corpus}")
    return "; ".join(said)
