"""Other readings of the language models' setting: one change each, and the claim's own cells for none."""

import dataclasses

import pytest

from book.geometry.experiments import language_models
from book.geometry.experiments.language_models import BASELINE, NO_Q
from book.geometry.experiments.language_readings import (
    AS_USED,
    READINGS,
    ReadingRun,
    pair,
)
from tests.book.geometry.experiments.test_language_models import TINY


def test_the_reading_as_used_is_read_from_the_claims_own_cells():
    own = {
        name: language_models.language_models.cell(dataclasses.replace(TINY, variant=name))
        for name in (BASELINE, NO_Q)
    }
    assert {name: cell.key for name, cell in pair(TINY, READINGS[AS_USED]).items()} == {
        name: cell.key for name, cell in own.items()
    }


@pytest.mark.parametrize("name", [name for name in READINGS if name != AS_USED])
def test_every_other_reading_changes_one_thing_alone(name):
    under = ReadingRun(TINY, READINGS[name])
    shape, setting = dataclasses.asdict(under.shape(256)), dataclasses.asdict(under.trained.setting)
    plain = dataclasses.asdict(TINY.shape(256)), dataclasses.asdict(TINY.setting)
    changed = [field for field in shape if shape[field] != plain[0][field]]
    changed += [field for field in setting if setting[field] != plain[1][field]]
    assert len(changed) == 1
