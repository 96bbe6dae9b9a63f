"""The words of the ledger: what may be said of a figure, and of a claim."""

from __future__ import annotations

HOLDS, HOLDS_HERE = "holds", "holds here"
FAILS, FAILS_HERE = "fails", "fails here"
NULL_TOO = "null too"
UNDECIDED = "undecided"
NOT_MEASURED = "not measured"
YES, NO = "yes", "no"  # of a question that its paper leaves open
REPORTED = "reported"  # of a figure without an accepted range
FIRST_FIXED = "as first fixed"  # of a figure that an amendment has replaced

VERDICTS = (HOLDS, HOLDS_HERE, NULL_TOO, FAILS, FAILS_HERE, YES, NO, UNDECIDED, NOT_MEASURED)
UNSAID = (UNDECIDED, NOT_MEASURED)  # the two that claim nothing

_HERE = {HOLDS: HOLDS_HERE, FAILS: FAILS_HERE}
_ANSWERS = {HOLDS: YES, HOLDS_HERE: YES, FAILS: NO, FAILS_HERE: NO, NULL_TOO: UNDECIDED}


def here(verdict: str) -> str:
    """The verdict of a smaller scale, a stand-in text or a shorter training than the paper's.

    >>> here("fails"), here("undecided")
    ('fails here', 'undecided')
    """
    return _HERE.get(verdict, verdict)


def answer(verdict: str) -> str:
    """The verdict as an answer to a question that the paper leaves open.

    >>> answer("holds"), answer("fails here"), answer("null too")
    ('yes', 'no', 'undecided')
    """
    return _ANSWERS.get(verdict, verdict)
