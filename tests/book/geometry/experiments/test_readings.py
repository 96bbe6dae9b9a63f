"""Readings of the geometry paper's setting."""

import dataclasses

import pandas as pd

from book.geometry.experiments import readings
from book.geometry.experiments.grokking import Setting


def test_every_reading_changes_one_thing_and_the_first_is_the_setting_as_used():
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
