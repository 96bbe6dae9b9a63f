"""Other readings of the geometry paper's setting, for the chapters on steering and on queries."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from typing import Any

import altair as alt
import numpy as np
import pandas as pd

from book.geometry.experiments import readings, steering
from book.geometry.experiments.readings import SEEDED, SEEDED_RUNS, WITHOUT_QUERIES
from book.geometry.experiments.steering import GROKKED, MAIN, STRICT
from book.geometry.steering import (
    BASELINE,
    NEAR,
    NOT_MEASURED,
    PAPER,
    median_time,
    plot_time_marks,
    spread,
)
from embviz.ledger.findings import Finding, over_seeds

# --- one seed of every reading --------------------------------------------------------------------------


def readings_table() -> pd.DataFrame:
    """Table 1's two main rows and Table 2's baseline under other readings of the text, seed 0.

    Returns
    -------
    DataFrame
        Index reading; epochs to grok (0.95) of the three runs and to memorize of the first two, as text;
        speed-up of near-Nyquist modes in percent.
    """
    table = readings.readings_table()
    rows = {}
    for reading, runs in table.groupby("reading", sort=False):
        own = {str(row["run"]): row for row in runs.to_dict("records") if row["stored"]}
        base, near = own.get(BASELINE), own.get(NEAR)
        speedup = NOT_MEASURED if not (base and near) else f"{100 * (1 - near['grok'] / base['grok']):.1f}"
        rows[reading] = {
            **{
                f"{name}: to grok": moment(own.get(name), "grok") for name in (BASELINE, NEAR, readings.P_113)
            },
            **{f"{name}: to memorize": moment(own.get(name), "memorize") for name in (BASELINE, NEAR)},
            "speed-up %": speedup,
        }
    paper = {name: str(PAPER[name][0]) for name in (BASELINE, NEAR)}
    rows["the paper"] = {
        **{f"{name}: to grok": epochs for name, epochs in paper.items()},
        f"{readings.P_113}: to grok": str(PAPER["p = 113, baseline"][0]),
        **{f"{name}: to memorize": str(PAPER[name][1]) for name in (BASELINE, NEAR)},
        "speed-up %": "",
    }
    return pd.DataFrame.from_dict(rows, orient="index").rename_axis("reading")


def moment(row: Mapping[Hashable, Any] | None, column: str) -> str:
    """Epochs of one run of :func:`~.geometry.readings.readings_table` to grok or to memorize, as text."""
    if row is None:
        return NOT_MEASURED
    reached = row["grokked" if column == "grok" else "memorized"]
    return f"{row[column]:,.0f}" if reached else f"> {readings.N_EPOCHS:,}"


def readings_finding() -> str:
    """Which reading comes closest to both of the paper's baselines, and how steering fares over all."""
    table = readings.readings_table()
    known = table[table["stored"]].pivot(index="reading", columns="run", values="grok")
    if (
        not {BASELINE, NEAR, readings.P_113} <= {*known}
        or known[[BASELINE, NEAR, readings.P_113]].dropna().empty
    ):
        return f"The readings are {NOT_MEASURED} yet"
    known = known[[BASELINE, NEAR, readings.P_113]].dropna()
    published = {BASELINE: PAPER[BASELINE][0], readings.P_113: PAPER["p = 113, baseline"][0]}
    off = known[list(published)].div(pd.Series(published, dtype=float)).apply(np.log).abs().sum(axis=1)
    speedups = 100 * (1 - known[NEAR] / known[BASELINE])
    return (
        f"Of {len(known)} readings “{off.idxmin()}” comes closest to both of the paper's baselines; over all "
        f"of them near-Nyquist modes save {speedups.min():.0f}% to {speedups.max():.0f}% of the epochs"
    )


def query_readings_table() -> pd.DataFrame:
    """Pairs with and without queries under other readings of the paper's setting, seed 0, threshold 0.99.

    Returns
    -------
    DataFrame
        Index reading; epochs to grok with queries and without, as text; speed-up in percent.
    """
    rows = {}
    for reading, runs in readings.readings_table(STRICT).groupby("reading", sort=False):
        own = {str(row["run"]): row for row in runs.to_dict("records") if row["stored"]}
        base, without = own.get("baseline"), own.get(readings.WITHOUT_QUERIES)
        speedup = f"{100 * (1 - without['grok'] / base['grok']):.1f}" if base and without else NOT_MEASURED
        rows[reading] = {
            "with queries": moment(base, "grok"),
            "without queries": moment(without, "grok"),
            "speed-up %": speedup,
        }
    return pd.DataFrame.from_dict(rows, orient="index").rename_axis("reading")


def query_readings_finding() -> str:
    """Under how many readings the run without queries is sooner, as far as pairs are stored."""
    speedups = pd.to_numeric(query_readings_table()["speed-up %"], errors="coerce").dropna()
    if speedups.empty:
        return f"Pairs under other readings are {NOT_MEASURED} yet"
    sooner = int((speedups > 0).sum())
    return (
        f"Without queries the run groks sooner under {sooner} of {len(speedups)} readings; speed-ups lie "
        f"between {speedups.min():.0f}% and {speedups.max():.0f}%, their median is {speedups.median():.0f}%"
    )


# --- several seeds of four readings ---------------------------------------------------------------------


def savings(run: str, threshold: float = GROKKED) -> dict[str, Finding]:
    """Mean percent of the epochs of the same seed's baseline that a run saves, by reading; stored pairs.

    Parameters
    ----------
    run : str
        A key of SEEDED_RUNS.
    threshold : float
    """
    table = readings.seeded_times(threshold)
    found = {}
    for reading, own in table.groupby("reading", sort=False):
        base, steered = (own[own["run"] == name] for name in (BASELINE, run))
        pairs = steered[steered["seed"].isin(base["seed"])]
        if len(pairs):
            found[str(reading)] = steering.capped(over_seeds(steering.speedups(pairs, base)))
    return found


def seeded_table(runs: Sequence[str] = tuple(SEEDED_RUNS), threshold: float = GROKKED) -> pd.DataFrame:
    """Epochs to grok and what is saved, with 95% intervals over seeds: a row a reading and run."""
    table = readings.seeded_times(threshold)
    saved = {name: savings(name, threshold) for name in runs if name != BASELINE}
    rows = {}
    for reading in SEEDED:
        for name in runs:
            own = table[(table["run"] == name) & (table["reading"] == reading)]
            saving = saved.get(name, {}).get(reading)
            nothing = "" if name == BASELINE else NOT_MEASURED
            rows[reading, name] = {
                "seeds": len(own),
                "to grok": median_time(own),
                "all seeds": spread(own, "grok"),
                "to memorize": median_time(own, "memorize"),
                "saved %": said(saving) if saving else nothing,
            }
    return pd.DataFrame.from_dict(rows, orient="index").rename_axis(["reading", "run"])


def said(saving: Finding) -> str:
    """A saving with its interval, as text."""
    value, low, high = (round(end) for end in (saving.value, saving.low, saving.high))  # no -0
    return f"{value} [{low}, {high}]" if saving.n_seeds > 1 else f"{value}"


def seeded_finding() -> str:
    """Under how many of the readings Table 1's order comes out, and what its first row saves."""
    saved = savings(NEAR)
    if not saved:
        return f"The readings with several seeds are {NOT_MEASURED} yet"
    table = readings.seeded_times()
    orders = []
    for _, own in table[table["run"].isin(list(MAIN))].groupby("reading", sort=False):
        medians = own.groupby("run")["grok"].median()
        if len(medians) == len(MAIN):
            orders.append(bool(np.all(np.diff(medians.reindex(list(MAIN))) > 0)))
    return (
        f"Near-Nyquist modes save {_by_reading(saved)} percent of the epochs; Table 1's rows come in the "
        f"paper's order under {sum(orders)} of {len(orders)} readings"
    )


def seeded_query_finding() -> str:
    """What leaving out the query saves under each reading, at the threshold of Table 8."""
    saved = savings(WITHOUT_QUERIES, STRICT)
    if not saved:
        return f"The readings with several seeds are {NOT_MEASURED} yet"
    above = sum(saving.low > 0 for saving in saved.values())
    return (
        f"Percent of the epochs saved without queries: {_by_reading(saved)}; the interval lies above zero "
        f"under {above} of {len(saved)} readings"
    )


def _by_reading(saved: Mapping[str, Finding]) -> str:
    return ", ".join(f"{said(saving)} ({reading})" for reading, saving in saved.items())


def plot_seeded(runs: Sequence[str] = tuple(SEEDED_RUNS), threshold: float = GROKKED) -> alt.LayerChart:
    """Epochs to grok of every seed, a row a run, readings by colour; crosses are the paper's means."""
    table = readings.seeded_times(threshold)
    table = table[table["run"].isin(list(runs))]
    published = {name: float(known) for name in runs if (known := PAPER.get(name, (None, None))[0])}
    return plot_time_marks(table, list(runs), by="reading", kinds=SEEDED, published=published)
