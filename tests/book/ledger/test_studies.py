"""Studies: which preset a claim is judged on."""

from types import SimpleNamespace

import pytest

from book.ledger.claims import PRESETS
from book.ledger.studies import Part, Study, largest_stored


def cells_of(stored, sizes=(1, 2, 3)):
    """A preset's cells: those of the presets named are stored; a size of 0 means that it has none."""
    numbers = dict(zip(PRESETS, sizes, strict=True))
    return lambda preset: [
        SimpleNamespace(path=f"{preset}/{i}", stored=lambda preset=preset: preset in stored)
        for i in range(numbers[preset])
    ]


@pytest.mark.parametrize(
    ("stored", "largest"),
    [
        (("quick", "laptop", "paper"), "paper"),
        (("quick", "paper"), "paper"),
        ((), None),
    ],
)
def test_a_claim_is_judged_on_the_largest_preset_that_is_stored(stored, largest):
    assert largest_stored(cells_of(stored)) == largest


def test_a_preset_without_cells_measures_nothing_and_one_that_lacks_a_cell_is_not_stored():
    assert largest_stored(cells_of(PRESETS, sizes=(1, 1, 0))) == "laptop"
    partly = cells_of(("quick", "laptop"))

    def cells(preset):
        own = partly(preset)
        if preset == "laptop":
            own[-1].stored = lambda: False
        return own

    assert largest_stored(cells) == "quick"
    study = Study(cells, lambda preset: {})
    assert study.largest_stored() == "quick"
    assert not study.complete("laptop")
    assert study.why_not_measured("laptop") == "laptop: 1 of 2 cells stored"


def test_a_part_is_judged_once_its_cells_are_stored_and_the_rest_does_not_wait_for_it():
    stored = {"main": True, "part": False}

    def cells(name):
        return lambda preset: [SimpleNamespace(path=name, stored=lambda: stored[name])]

    part = Part(cells("part"), lambda preset: {"new": 2})
    study = Study(cells("main"), lambda preset: {"old": 1}, beside=lambda preset: ["beside"], parts=(part,))
    assert study.complete("paper")
    assert study.findings("paper") == {"old": 1}
    stored["part"] = True
    assert study.findings("paper") == {"old": 1, "new": 2}
    stored["main"] = False
    assert not study.complete("paper")
    assert [getattr(cell, "path", cell) for cell in study.every_cell("paper")] == ["main", "part", "beside"]
