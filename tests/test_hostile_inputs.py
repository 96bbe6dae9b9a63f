"""All public functions with the same hostile arguments; a new function is among them from its first day."""

import zlib

import pytest

from tests.drills import hostile_inputs

TARGETS = hostile_inputs.targets()
SHARE = 5  # of a function's hostile values one in so many is tried here, all in the drill


def test_every_public_function_that_takes_arrays_is_found():
    assert len(TARGETS) > 100
    named = {target.name for target in TARGETS}
    assert {"cosines", "pmi", "WordVectors", "visits"} <= named


@pytest.mark.parametrize("target", TARGETS, ids=lambda target: f"{target.name}-{target.parameter}")
@pytest.mark.usefixtures("one_thread")
def test_a_hostile_value_gives_the_plain_arrays_numbers_or_a_refusal(target):
    start = zlib.crc32(f"{target.name} {target.parameter}".encode()) % SHARE
    found = list(hostile_inputs.outcomes([target], every=SHARE, start=start))
    assert not [str(outcome) for outcome in found if outcome.verdict == "silent"]
    assert sum(outcome.verdict == "confusing" for outcome in found) <= max(1, len(found) // 5)


def test_a_function_without_a_check_is_caught():
    """The judge itself: a function that averages whatever numpy makes of its argument."""

    def mean(values):
        import numpy as np

        return float(np.mean(np.asarray(values, dtype=float)))

    target = hostile_inputs.Target("mean", __name__, mean, "values", takes_sparse=False)
    verdicts = {outcome.hostile: outcome.verdict for outcome in hostile_inputs.outcomes([target])}
    assert verdicts["nested lists"] == "right"
    assert {verdicts[name] for name in ("one masked", "NaN first", "list of text", "inf last")} == {"silent"}
    assert verdicts["tensor with a gradient"] == "confusing"


def test_a_function_of_which_no_valid_call_is_known_says_how_to_add_one():
    def fresh(never_seen):
        return 0.0

    target = hostile_inputs.Target("fresh", __name__, fresh, "never_seen", takes_sparse=False)
    with pytest.raises(LookupError, match=r"fresh has a parameter 'never_seen' .*: add one to EXAMPLES in"):
        next(hostile_inputs.outcomes([target]))
