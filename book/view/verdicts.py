"""What the last chapter on a paper shows of its ledger, whichever paper it is."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence

import pandas as pd

from book.view import ledger_view
from book.view.ledger_view import ClaimsTable
from embviz import ledger
from embviz.ledger.findings import Finding
from embviz.view import sentences, theme
from embviz.view.sentences import number


def entries(paper: str) -> list[ledger.Entry]:
    """Every claim of the paper, judged on what is stored."""
    return ledger.entries(paper)


def claims_table(paper: str) -> ClaimsTable:
    """One row per claim, leading to its place in the ledger."""
    return ClaimsTable(entries(paper), root="../")


def tally(paper: str) -> str:
    """How many claims have each verdict, in words."""
    counts = {name: sum(entry.verdict == name for entry in entries(paper)) for name in ledger.VERDICTS}
    said = ", ".join(f"{n} {name}" for name, n in counts.items() if n)
    return f"Of {len(entries(paper))} claims: {said}"


def by_claim(paper: str) -> Mapping[str, ledger.Entry]:
    """Entries by the claim's name without the paper's."""
    return {entry.claim.id.split(".")[1]: entry for entry in entries(paper)}


# --- what would change our mind -------------------------------------------------------------------------


def as_found(found: Finding) -> Finding:
    """The finding itself."""
    return found


def over(control: str) -> Callable[[Finding], Finding]:
    """A finding less its control, which is taken as exact."""

    def less(found: Finding) -> Finding:
        base = found.controls[control]
        return dataclasses.replace(
            found, value=found.value - base, low=found.low - base, high=found.high - base
        )

    return less


def between_controls(control: str, other: str) -> Callable[[Finding], Finding]:
    """One control less another, in a finding's place."""

    def difference(found: Finding) -> Finding:
        value = found.controls[control] - found.controls[other]
        return dataclasses.replace(found, value=value, low=value, high=value)

    return difference


@dataclasses.dataclass(frozen=True)
class Change:
    """Something that would change our mind, as a number of the ledger that all of an interval must reach.

    `limit` is the largest that the measurement can be, such as 1 for a cosine: where the measurement less its
    control falls short even then, no model could meet the test, and the table says so.
    """

    claim: str
    measurement: str
    words: str  # what is compared
    least: float | None = None  # of the interval's lower end
    most: float | None = None  # or of its upper end
    of: Callable[[Finding], Finding] = as_found
    limit: float | None = None

    @property
    def threshold(self) -> str:
        """In words."""
        ends = (("at least", self.least), ("at most", self.most))
        return " and ".join(f"interval {side} {number(end)}" for side, end in ends if end is not None)

    def met(self, found: Finding) -> bool:
        """Whether the whole interval lies where it would change our mind."""
        own = self.of(found)
        above = self.least is None or own.low >= self.least
        return above and (self.most is None or own.high <= self.most)

    def state(self, found: Finding) -> str:
        """One of :data:`STATES`: "open" is an interval with only one end where it would change our mind."""
        if self.met(found):
            return MET
        if self.limit is not None and self.least is not None:
            best = self.of(dataclasses.replace(found, value=self.limit, low=self.limit, high=self.limit))
            if best.value < self.least:
                return OUT_OF_REACH
        own = self.of(found)
        below = self.least is not None and own.high < self.least
        return NOT_MET if below or (self.most is not None and own.low > self.most) else OPEN


STATES = MET, NOT_MET, OUT_OF_REACH, OPEN = "met", "not met", "out of reach", "open"
_MARKS = dict(
    zip(
        STATES,
        (ledger.REPRODUCED, ledger.NOT_REPRODUCED, ledger.NOT_SPECIFIC, ledger.INCONCLUSIVE),
        strict=True,
    )
)


def outcome(test: Change, entry: ledger.Entry) -> dict[str, str]:
    """A test beside what is measured; whether it is met is told by a mark and in words.

    Raises
    ------
    ValueError
        If an amendment has replaced the test's measurement: its range or its runs were unfit.
    """
    if test.measurement in entry.claim.replaced:
        raise ValueError(
            f"{entry.claim.id}: {test.measurement} was replaced: test what its amendment decides by"
        )
    found = {row.measurement.name: row.finding for row in entry.rows}[test.measurement]
    row = {"what": test.words, "would change our mind": test.threshold}
    if found is None:
        mark = theme.VERDICT_MARKS[ledger.NOT_TESTED]
        return row | {"measured": "–", "interval": "–", "": f"{mark} {ledger.NOT_TESTED}"}
    own = test.of(found)
    row |= {"measured": number(own.value), "interval": sentences.interval(own.low, own.high)}
    if not found.decides:
        mark = theme.VERDICT_MARKS[ledger.INCONCLUSIVE]
        return row | {"": f"{mark} {ledger.INCONCLUSIVE}, {ledger.repetitions(found)}, {entry.scale}"}
    state = test.state(found)
    return row | {"": f"{theme.VERDICT_MARKS[_MARKS[state]]} {state}, {entry.scale}"}


def changes_table(tests: Sequence[Change], paper: str) -> pd.DataFrame:
    """All tests, held against the paper's entries by claim (without the paper's name)."""
    own = by_claim(paper)
    return pd.DataFrame([outcome(test, own[test.claim]) for test in tests]).set_index("what")


def changes_finding(tests: Sequence[Change], paper: str) -> str:
    """How many of the tests are met, and how many are in each of the other states."""
    states = [said.split(" ", 1)[1].split(",")[0] for said in changes_table(tests, paper)[""]]
    n_met = states.count(MET)
    others = (NOT_MET, OUT_OF_REACH, OPEN, ledger.INCONCLUSIVE, ledger.NOT_TESTED)
    rest = "".join(f", {states.count(one)} {one}" for one in others if one in states)
    return f"{n_met} of {len(states)} tests {'is' if n_met == 1 else 'are'} met{rest}"
