"""Other readings of the geometry paper's setting, as its chapters show them."""

import pandas as pd
import pytest

from book.geometry import readings as chapter
from book.geometry.experiments import readings
from tests.drawing import compiled

# --- one seed of every reading --------------------------------------------------------------------------


def made_readings(known: dict[tuple[str, str], tuple[int, bool]]) -> pd.DataFrame:
    rows = []
    for run in readings.RUNS:
        for reading in ("as used", "ReLU", "biases"):
            row = {"reading": reading, "run": run, "stored": (reading, run) in known}
            if row["stored"]:
                grok, grokked = known[reading, run]
                row |= {"seed": 0, "grok": grok, "grokked": grokked, "memorize": 50, "memorized": True}
            rows.append(row)
    return pd.DataFrame(rows)


def test_readings_stand_beside_the_paper_with_gaps_and_censored_runs_by_name(monkeypatch):
    known = {
        ("as used", "baseline"): (400, True),
        ("as used", "near-Nyquist"): (100, True),
        ("ReLU", "baseline"): (1500, False),
    }
    monkeypatch.setattr(readings, "readings_table", lambda: made_readings(known))
    table = chapter.readings_table()
    assert table.loc["as used", "speed-up %"] == "75.0"
    assert table.loc["ReLU", ["baseline: to grok", "speed-up %"]].tolist() == ["> 1,500", "not measured"]
    assert table.loc["the paper", "baseline, p = 113: to grok"] == "321"
    assert "not measured yet" in chapter.readings_finding()


def test_the_closest_reading_is_that_of_the_least_sum_of_log_ratios(monkeypatch):
    # 782 and 321 are the paper's; the last run is of another chapter
    epochs = {"as used": (400, 40, 300, 9), "ReLU": (800, 400, 300, 9)}
    known = {
        (reading, run): (value, True)
        for reading, values in epochs.items()
        for run, value in zip(readings.RUNS, values, strict=True)
    }
    monkeypatch.setattr(readings, "readings_table", lambda: made_readings(known))
    finding = chapter.readings_finding()
    assert finding.startswith("Of 2 readings “ReLU” comes closest")
    assert finding.endswith("save 50% to 90% of the epochs")


def test_pairs_under_other_readings_are_compared_and_gaps_named(monkeypatch):
    def made(threshold):
        assert threshold == 0.99
        times = {("as used", "baseline"): 400, ("as used", "without queries"): 300, ("ReLU", "baseline"): 200}
        rows = [
            {"reading": reading, "run": run, "stored": (reading, run) in times, "grokked": True}
            | {"grok": times.get((reading, run), 0)}
            for run in readings.RUNS
            for reading in ("as used", "ReLU")
        ]
        return pd.DataFrame(rows)

    monkeypatch.setattr(readings, "readings_table", made)
    table = chapter.query_readings_table()
    assert table.loc["as used"].tolist() == ["400", "300", "25.0"]
    assert table.loc["ReLU"].tolist() == ["200", "not measured", "not measured"]
    assert "sooner under 1 of 1 readings" in chapter.query_readings_finding()


# --- several seeds of four readings -----------------------------------------------------------------------


def made_times(rows: list[tuple[str, str, list[int]]]) -> pd.DataFrame:
    """Epochs to grok of seeds 0, 1, ...; 1,500 is the limit."""
    made = [
        {"reading": reading, "run": run, "seed": seed, "grok": grok, "grokked": grok < 1500}
        for reading, run, epochs in rows
        for seed, grok in enumerate(epochs)
    ]
    return pd.DataFrame(made).assign(memorize=30, memorized=True)


@pytest.fixture
def seeded(monkeypatch):
    """Rows of two readings; the second has one pair and no seed of most runs."""
    monkeypatch.setattr("book.geometry.steering.limit", lambda: 1500)
    orders = {"near-Nyquist": 50, "adaptive 5": 100, "{1, 14, 41}": 150, "{1, ..., 5}": 160}
    rows = [("as used", run, [epochs, epochs + 1]) for run, epochs in orders.items()]
    rows += [("as used", "baseline", [200, 400]), ("as used", "without queries", [300, 100])]
    rows += [(readings.SMALL_BATCHES, "baseline", [100]), (readings.SMALL_BATCHES, "near-Nyquist", [150])]
    monkeypatch.setattr(readings, "seeded_times", lambda threshold=0.95: made_times(rows))


def test_savings_are_of_pairs_of_one_seed(seeded):
    saved = chapter.savings("near-Nyquist")
    assert saved["as used"].value == pytest.approx(100 * (1 - (50 / 200 + 51 / 400) / 2))
    assert saved[readings.SMALL_BATCHES].value == pytest.approx(-50)
    assert readings.TABLE_1S not in saved
    assert chapter.said(saved[readings.SMALL_BATCHES]) == "-50"


def test_the_table_of_seeds_names_gaps_and_says_nothing_of_what_the_baseline_saves(seeded):
    table = chapter.seeded_table()
    assert table.loc[("as used", "near-Nyquist"), ["to grok", "all seeds"]].tolist() == ["50", "50 to 51"]
    assert table.loc[(readings.SMALL_BATCHES, "adaptive 5"), "to grok"] == "not measured"
    assert table.loc[(readings.TABLE_1S, "adaptive 5"), "saved %"] == "not measured"
    assert (table.xs("baseline", level="run")["saved %"] == "").all()


def test_the_order_of_table_1_counts_only_where_all_its_rows_are_stored(seeded):
    assert chapter.seeded_finding().endswith("the paper's order under 1 of 1 readings")
    said = chapter.seeded_query_finding()
    assert "(as used)" in said
    assert said.endswith("above zero under 0 of 1 readings")
    compiled(chapter.plot_seeded())


def test_readings_without_seeds_are_said_not_to_be_measured(monkeypatch):
    nothing = made_times([("as used", "baseline", [200])]).head(0)
    monkeypatch.setattr(readings, "seeded_times", lambda threshold=0.95: nothing)
    assert "not measured yet" in chapter.seeded_finding()
    assert "not measured yet" in chapter.seeded_query_finding()
