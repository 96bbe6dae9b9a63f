"""The words of the ledger: what may be said of a measurement, and of a claim."""

from __future__ import annotations

REPRODUCED = "reproduced"
NOT_REPRODUCED = "not reproduced"
NOT_SPECIFIC = "not specific"  # the controls come out as well
INCONCLUSIVE = "inconclusive"
NOT_TESTED = "not tested"
YES, NO = "yes", "no"  # of a question that its paper leaves open
REPORTED = "reported"  # of a measurement without an accepted range
SMALLER_SCALE = "smaller scale"  # the tag of what was measured at less than the paper's scale

VERDICTS = (REPRODUCED, NOT_SPECIFIC, NOT_REPRODUCED, YES, NO, INCONCLUSIVE, NOT_TESTED)
OPEN = (INCONCLUSIVE, NOT_TESTED)  # the two that claim nothing

_ANSWERS = {REPRODUCED: YES, NOT_REPRODUCED: NO, NOT_SPECIFIC: INCONCLUSIVE}


def answer(verdict: str) -> str:
    """The verdict as an answer to a question that the paper leaves open.

    >>> answer("reproduced"), answer("not reproduced"), answer("not specific")
    ('yes', 'no', 'inconclusive')
    """
    return _ANSWERS.get(verdict, verdict)


def tagged(verdict: str, smaller_scale: bool) -> str:
    """The verdict with the tag of a smaller scale where it applies.

    >>> tagged("not reproduced", True), tagged("reproduced", False)
    ('not reproduced (smaller scale)', 'reproduced')
    """
    return f"{verdict} ({SMALLER_SCALE})" if smaller_scale else verdict
