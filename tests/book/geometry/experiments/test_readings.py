"""Readings of the geometry paper's setting."""

import dataclasses

import pandas as pd

from book.geometry.experiments import readings
from book.geometry.experiments.grokking import Setting


def test_every_reading_is_a_run_of_its_own_and_the_first_is_the_paper_preset():
    keys = [cell.key for cell in readings.reading_cells()]
    assert len(set(keys)) == len(keys) == len(readings.RUNS) * len(readings.READINGS)
    assert readings.READINGS["as used"] == Setting()
    for setting in readings.READINGS.values():
        changed = [
            field.name
            for field in dataclasses.fields(Setting)
            if getattr(setting, field.name) != getattr(Setting(), field.name)
        ]
        assert len(changed) <= 1 or changed == ["start", "embedding_sd"]


def test_readings_not_stored_are_said_to_be_and_stored_ones_hold_their_times(monkeypatch, tmp_path):
    monkeypatch.setenv("EMBVIZ_RESULTS_DIR", str(tmp_path))
    assert not readings.readings_table()["stored"].any()

    cell = readings.reading_cell("biases", readings.RUNS["baseline"])
    monkeypatch.setattr(readings, "missing", lambda cells: [] if cells[0].key == cell.key else cells)
    row = {"seed": 0, "grok": 300, "grokked": True, "memorize": 80, "memorized": True}
    monkeypatch.setattr(readings, "times", lambda cells, threshold: pd.DataFrame([row]))
    table = readings.readings_table()
    (found,) = table[table["stored"]].to_dict("records")
    assert found == {"reading": "biases", "run": "baseline", "stored": True, **row}


def test_five_seeds_are_kept_of_four_readings_and_one_of_them_is_the_first_of_the_others(
    monkeypatch, tmp_path
):
    found = readings.seeded_cells()
    keys = [cell.key for cells in found.values() for cell in cells]
    assert len(set(keys)) == len(keys) == 4 * 6 * 5
    singles = {cell.key for cell in readings.reading_cells()}
    for (_, run), cells in found.items():
        assert (cells[0].key in singles) == (run in readings.RUNS)
    monkeypatch.setenv("EMBVIZ_RESULTS_DIR", str(tmp_path))
    table = readings.seeded_times()
    assert table.empty
    assert {"reading", "run", "grok", "grokked"} <= {*table}
