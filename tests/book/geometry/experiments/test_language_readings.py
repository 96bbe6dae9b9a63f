"""Other readings of the language models' setting: one change each, and the claim's own cells for none."""

import dataclasses

import pandas as pd
import pytest

from book.geometry.experiments import language_models, language_readings
from book.geometry.experiments.language_models import BASELINE, NO_Q
from book.geometry.experiments.language_readings import (
    AS_USED,
    READINGS,
    Reading,
    ReadingRun,
    pair,
)
from embviz.ledger import cells
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


def test_gains_are_those_of_stored_pairs_and_a_pair_that_is_half_stored_is_left_out(tmp_path, monkeypatch):
    monkeypatch.setenv("EMBVIZ_RESULTS_DIR", str(tmp_path))
    monkeypatch.setattr(cells, "cache_folder", lambda: tmp_path / "begun")
    assert language_readings.gains(TINY).empty
    sines = pair(TINY, Reading(positions="sines"))
    started = pair(TINY, Reading(start="pytorch"))
    cells.run([*sines.values(), started[BASELINE]], n_jobs=1, progress=False)
    table = language_readings.gains(TINY)
    assert list(table["reading"]) == ["positions as sines"]
    bits = {name: cells.read(cell)[0]["bits_per_byte"].iloc[-1] for name, cell in sines.items()}
    assert table["gain"].item() == pytest.approx(100 * (1 - bits[NO_Q] / bits[BASELINE]))


def test_seeds_are_read_while_they_follow_one_another(monkeypatch):
    score = pd.DataFrame({"bits_per_byte": [2.0]})
    stored = {
        cell for seed in (0, 1, 3) for cell in pair(dataclasses.replace(TINY, seed=seed), Reading()).values()
    }
    monkeypatch.setattr(
        language_readings, "missing", lambda cells: [one for one in cells if one not in stored]
    )
    monkeypatch.setattr(language_readings, "table_of", lambda cell: score)
    table = language_readings.gains(TINY)
    assert table[["reading", "seed"]].to_numpy().tolist() == [[AS_USED, 0], [AS_USED, 1]]


def test_the_claim_is_judged_at_the_papers_rate_which_is_its_own_at_the_papers_size(monkeypatch):
    def made(cell):
        run = getattr(cell.config, "run", cell.config)
        rate = cell.config.reading.learning_rate if hasattr(cell.config, "reading") else 1.0
        bits = 2.0 - (0.1 + 0.1 * rate) * (run.variant == NO_Q)
        return pd.DataFrame({"bits_per_byte": [8.0, bits]})

    monkeypatch.setattr(language_readings, "table_of", made)
    found = language_readings.PART.measure("laptop")
    assert found["gain_paper_rate"].value == pytest.approx(100 * (0.1 + 0.1 * 3e-4) / 2)
    assert found["gain_longer"].value == pytest.approx(5.0)
    assert {one.n_seeds for one in found.values()} == {3}
    paper = language_readings.PART.measure("paper")
    assert paper.keys() == {"gain_paper_rate"}
    assert paper["gain_paper_rate"].value == pytest.approx(10.0)
