"""Every public function that takes arrays, with every hostile value: none silent, few confusing."""

from collections import Counter

from tests.drills import hostile_inputs


def test_no_call_is_silent_and_few_are_confusing():
    total: Counter[str] = Counter()
    wrong = []
    for target in hostile_inputs.targets():
        for verdict, said in hostile_inputs.lines_of_a_child(target):
            total[verdict] += 1
            if verdict in ("silent", "no call"):
                wrong.append(said)
    assert not wrong
    assert total["confusing"] < 0.02 * total.total()
    assert total.total() >= 4_000
