"""EXor's claims: which pairs of spellings close up, in which matrix, and what tying does to accuracy.

Source: tying paper, section 5 and appendices C.1-C.6.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping

import numpy as np
import pandas as pd

from book.tying.experiments.exor_runs import EXorRun, exor
from book.tying.languages.exor import EXor
from embviz.ledger import findings
from embviz.ledger.cells import Cell, experiment, load, read
from embviz.ledger.findings import Finding
from embviz.ledger.studies import Study

CLOSE = 0.2  # relative distance of a pair that counts as close

MAIN, ONES, ZEROS = EXorRun(n_seeds=20), EXorRun(symbols="ones"), EXorRun(symbols="zeros")
LARGER = EXorRun(size="medium")
LSTM, MIXER = EXorRun("lstm"), EXorRun("mixer")
BIGGER_LSTM, BIGGER_MIXER = EXorRun("lstm", "medium"), EXorRun("mixer", "medium")


def at_preset(run: EXorRun, preset: str) -> EXorRun:
    """A paper-sized run as far as a preset takes it.

    What the claims say of the end is not yet to be seen in shorter runs: of a difference that the loss does
    not see, weight decay leaves 2% after the paper's 150,000 steps and 47% after 30,000. So `laptop` makes
    all the steps, of two seeds.
    """
    if preset == "paper":
        return run
    if preset == "laptop":
        return dataclasses.replace(run, n_seeds=2)
    n_steps = 1_500 if run.size == "small" else 60
    return dataclasses.replace(run, n_steps=n_steps, n_seeds=2, learning_rate=5e-3)


def cell_of(run: EXorRun, preset: str) -> Cell:
    """The cell of a run at a preset."""
    return exor.cell(at_preset(run, preset))


# --- from stored cells to curves ------------------------------------------------------------------------


def curves(run: EXorRun, preset: str) -> pd.DataFrame:
    """What was measured along the way: seed, tied, step and a column for each quantity.

    Beside the stored quantities, ``relative_{matrix}_{pair}`` is the distance of a pair divided by that of
    the unrelated pair in the same matrix at the same step.
    """
    table, _ = read(cell_of(run, preset))
    scalar = table[~table["quantity"].str.contains("/")]
    wide = scalar.pivot(index=["seed", "tied", "step"], columns="quantity", values="value").astype(float)
    for matrix in ("input", "output"):
        for pair in ("11", "00"):
            if f"{matrix}_{pair}" in wide:
                wide[f"relative_{matrix}_{pair}"] = wide[f"{matrix}_{pair}"] / wide[f"{matrix}_01"]
    return wide.rename_axis(columns=None).reset_index()


def embeddings(
    run: EXorRun, preset: str, *, step: int | None = None
) -> dict[tuple[int, bool, str], np.ndarray]:
    """Embeddings (V, D) by seed, tied, and "input" or "output", at a kept step; by default the last."""
    table, _ = read(cell_of(run, preset))
    rows = table[table["quantity"].str.match("(input|output)/")]
    rows = rows[rows["step"] == (rows["step"].max() if step is None else step)]
    rows = rows.assign(matrix=rows["quantity"].str.split("/").str[0])
    found = {}
    for seed, tied, name in rows[["seed", "tied", "matrix"]].drop_duplicates().itertuples(index=False):
        part = rows[(rows["seed"] == seed) & (rows["tied"] == tied) & (rows["matrix"] == name)]
        # a cell stores coordinates symbol by symbol, axis by axis
        found[int(seed), bool(tied), str(name)] = part["value"].to_numpy(float).reshape(7, -1)
    return found


def last(table: pd.DataFrame) -> pd.DataFrame:
    """Rows of the last snapshot, in order of seed."""
    return table[table["step"] == table["step"].max()].sort_values("seed")


def first(table: pd.DataFrame) -> pd.DataFrame:
    """Rows before training."""
    return table[table["step"] == 0].sort_values("seed")


def late_accuracy(table: pd.DataFrame) -> pd.Series:
    """Mean accuracy over the last tenth of training, by seed."""
    late = table[table["step"] >= 0.9 * table["step"].max()]
    return late.groupby("seed")["accuracy"].mean()


def steps_until(table: pd.DataFrame, columns: list[str], *, level: float = CLOSE) -> pd.Series:
    """First step by seed at which all `columns` are at most `level`, there and at the next snapshot.

    A seed that never gets there counts as all steps.
    """
    steps = {}
    for seed, rows in table.sort_values("step").groupby("seed"):
        below = (rows[columns] <= level).all(axis=1).to_numpy(copy=True)
        below[:-1] &= below[1:]
        steps[seed] = rows["step"].to_numpy()[below.argmax()] if below.any() else rows["step"].max()
    return pd.Series(steps, dtype=float)


def _over_seeds(values: pd.Series, nulls: Mapping[str, float] | None = None) -> Finding:
    return findings.over_seeds(values.to_numpy(float), nulls=nulls)


def ratio(table: pd.DataFrame, column: str) -> Finding:
    """Relative distance at the end, with the same before training as its null."""
    return not_negative(_over_seeds(last(table)[column], {"start": float(first(table)[column].mean())}))


def not_negative(finding: Finding) -> Finding:
    """A finding about distances: the part of Student's interval below 0, which none can reach, is cut off."""
    return dataclasses.replace(finding, low=max(finding.low, 0.0))


# --- section 5 ------------------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class Drawn:
    """A sample of masked strings."""

    n_strings: int
    seed: int


@experiment("tying.exor_frequencies")
def exor_frequencies(config: Drawn) -> pd.DataFrame:
    """Count what the generator writes: trials and successes of each frequency with a closed form."""
    task = EXor()
    _, hidden = task.sample_contexts(config.n_strings, np.random.default_rng(config.seed))
    ones = hidden >= 2
    rows = [
        ("0A given 0", int((~ones).sum()), int((hidden == 0).sum()), task.p_0a),
        ("1A given 1", int(ones.sum()), int((hidden == 2).sum()), task.p_1a),
        ("1", len(hidden), int(ones.sum()), 0.5),
    ]
    return pd.DataFrame(rows, columns=["event", "n", "count", "expected"])


def _distribution_cells(preset: str) -> list[Cell]:
    return [exor_frequencies.cell(Drawn(20_000 if preset == "quick" else 200_000, 0))]


def _distribution_findings(preset: str) -> dict[str, Finding]:
    table = load(_distribution_cells(preset))
    deviations = _in_standard_errors(table["count"], table["n"], table["expected"])
    shifted = _in_standard_errors(table["count"], table["n"], table["expected"].replace(0.1, 0.11))
    nulls = {"shifted": float(shifted.max())}
    n_strings = int(table["n"].max())
    found = {"frequency_z": findings.in_errors(deviations.max(), n_strings, repeats="strings", nulls=nulls)}
    gap = 0.0
    for name, task in (("", EXor()), ("_ones", EXor(p_0a=1.0)), ("_zeros", EXor(p_1a=1.0))):
        tokens, probability = task.contexts()
        exact = task.conditional(tokens)
        entropy = -(probability[:, None] * exact * np.log(np.where(exact > 0, exact, 1.0))).sum()
        gap = max(gap, abs(probability @ exact.max(axis=1) - task.optimal_accuracy()))
        gap = max(gap, abs(entropy - task.optimal_loss()))
        found[f"optimal_accuracy{name}"] = findings.exact(task.optimal_accuracy())
    # beyond twelve digits the sums depend on the number of threads
    return {**found, "enumeration_gap": findings.exact(round(gap, 12))}


def _in_standard_errors(count: pd.Series, n: pd.Series, expected: pd.Series) -> pd.Series:
    return (count / n - expected).abs() / np.sqrt(expected * (1 - expected) / n)


def _input_findings(preset: str) -> dict[str, Finding]:
    untied = _untied(curves(MAIN, preset))
    return {f"ratio_{pair}": ratio(untied, f"relative_input_{pair}") for pair in ("11", "00")}


def _output_findings(preset: str) -> dict[str, Finding]:
    untied = _untied(curves(MAIN, preset))
    return {f"ratio_{pair}": ratio(untied, f"relative_output_{pair}") for pair in ("11", "00")}


def _tied_findings(preset: str) -> dict[str, Finding]:
    table = curves(MAIN, preset)
    tied, untied = _tied(table), _untied(table)
    spread = last(tied)[["input_00", "input_11"]].to_numpy()
    return {
        "speed": _speed(table),
        "ratio_11": ratio(tied, "relative_input_11"),
        "variance": variance_ratio(spread, last(untied)[["input_00", "input_11"]].to_numpy()),
    }


def variance_ratio(pairs: np.ndarray, control: np.ndarray) -> Finding:
    """log10 of the variances' ratio of two columns over seeds, with a bootstrap over seeds."""
    rng = np.random.default_rng(0)
    drawn = [_log_variances(pairs[rng.integers(len(pairs), size=len(pairs))]) for _ in range(2_000)]
    nulls = {"untied": _log_variances(control)}
    return findings.resampled(_log_variances(pairs), drawn, len(pairs), nulls=nulls)


def _log_variances(pairs: np.ndarray) -> float:
    # a resample of few seeds may repeat a single one: its variance is 0
    variances = pairs.var(axis=0) + 1e-12
    return float(np.log10(variances[0] / variances[1]))


def _speed(table: pd.DataFrame) -> Finding:
    """Steps until 1A-1B is close, tied over untied input, paired by seed; a seed with neither is 1."""
    column = ["relative_input_11"]
    return _over_seeds(steps_until(_tied(table), column) / steps_until(_untied(table), column))


def _accuracy_findings(preset: str) -> dict[str, Finding]:
    table = curves(MAIN, preset)
    accuracy = {
        name: late_accuracy(part) for name, part in (("tied", _tied(table)), ("untied", _untied(table)))
    }
    late = table[table["step"] >= 2 / 3 * table["step"].max()]
    wobble = late.groupby(["tied", "seed"])["accuracy"].std(ddof=1) + 1e-6  # a model may stand still
    found = {
        "untied_gap": _over_seeds(EXor().optimal_accuracy() - accuracy["untied"]),
        "tied_minus_untied": _over_seeds(accuracy["tied"] - accuracy["untied"]),
        "instability": _over_seeds(np.log10(wobble[True] / wobble[False])),
    }
    for name, part in (("tied", _tied(table)), ("untied", _untied(table))):
        found[f"{name}_sampled"] = _over_seeds(last(part)["sampled_accuracy"])
    return found


def _overfit_findings(preset: str) -> dict[str, Finding]:
    table = curves(MAIN, preset)
    n_steps = table["step"].max()
    lags, overfits = {}, {}
    for name, part in (("tied", _tied(table)), ("untied", _untied(table))):
        by_seed = part.sort_values("step").groupby("seed")["held_loss_gap"]
        lowest = part.loc[by_seed.idxmin()].set_index("seed")
        aligned = steps_until(part, ["relative_input_11", "relative_output_11"])
        lags[name] = (aligned - lowest["step"]) / n_steps
        overfits[name] = by_seed.last() - lowest["held_loss_gap"]
    return {
        "lag": _over_seeds(lags["untied"], {"tied": float(lags["tied"].mean())}),
        "overfit": _over_seeds(overfits["untied"], {"tied": float(overfits["tied"].mean())}),
    }


# --- appendix C -----------------------------------------------------------------------------------------


def holds_findings(table: pd.DataFrame) -> dict[str, Finding]:
    """Appendix C.1, of curves with 1A and 1B alone."""
    mean = table.groupby(["tied", "seed"])["accuracy"].mean()
    return {
        "tied_minus_untied": _over_seeds(mean[True] - mean[False]),
        "speed": _speed(table),
        "ratio_11_tied": ratio(_tied(table), "relative_input_11"),
        "ratio_11_input": ratio(_untied(table), "relative_input_11"),
        "ratio_11_output": ratio(_untied(table), "relative_output_11"),
    }


def fails_findings(table: pd.DataFrame) -> dict[str, Finding]:
    """Appendix C.2, of curves with 0A and 0B alone."""
    return {
        "untied_minus_tied": _over_seeds(late_accuracy(_untied(table)) - late_accuracy(_tied(table))),
        "ratio_00_input": ratio(_untied(table), "relative_input_00"),
        "ratio_00_output": ratio(_untied(table), "relative_output_00"),
        "ratio_00_tied": ratio(_tied(table), "relative_input_00"),
    }


def six_ratios(table: pd.DataFrame) -> dict[str, Finding]:
    """Final relative distances of both pairs in the input, output and tied matrices."""
    found = {}
    for pair in ("11", "00"):
        found[f"ratio_{pair}_input"] = ratio(_untied(table), f"relative_input_{pair}")
        found[f"ratio_{pair}_output"] = ratio(_untied(table), f"relative_output_{pair}")
        found[f"ratio_{pair}_tied"] = ratio(_tied(table), f"relative_input_{pair}")
    return found


def _larger_findings(preset: str) -> dict[str, Finding]:
    table = curves(LARGER, preset)
    difference = late_accuracy(_tied(table)) - late_accuracy(_untied(table))
    return {"tied_minus_untied": _over_seeds(difference), **six_ratios(table)}


def _slower(run: EXorRun, other: EXorRun, preset: str) -> Finding:
    """Steps until 1A-1B is close in the untied input: of one architecture over another's, by seed."""
    column = ["relative_input_11"]
    mine, theirs = (steps_until(_untied(curves(part, preset)), column) for part in (run, other))
    return _over_seeds((mine / theirs).dropna())


def _lstm_findings(preset: str) -> dict[str, Finding]:
    ratios = six_ratios(curves(LSTM, preset))
    return {**ratios, "slower": _slower(LSTM, MAIN, preset)}


def _mixer_findings(preset: str) -> dict[str, Finding]:
    ratios = six_ratios(curves(MIXER, preset))
    return {**ratios, "slower": _slower(MIXER, MAIN, preset), "faster": _slower(MIXER, LSTM, preset)}


def _bigger_runs(preset: str) -> dict[str, EXorRun]:
    # 150,000 steps of the LSTM take hours on two cores, of two seeds even
    lstm = {} if preset == "laptop" else {"lstm": BIGGER_LSTM}
    return {**lstm, "mixer": BIGGER_MIXER}


def _bigger_cells(preset: str) -> list[Cell]:
    return [cell_of(run, preset) for run in _bigger_runs(preset).values()]


def _bigger_findings(preset: str) -> dict[str, Finding]:
    found = {}
    for name, run in _bigger_runs(preset).items():
        table = curves(run, preset)
        ratios = six_ratios(table)
        gap = late_accuracy(_tied(table)) - late_accuracy(_untied(table))
        found[f"{name}_tied_minus_untied"] = _over_seeds(gap)
        for matrix in ("input", "tied", "output"):
            ones = ratios[f"ratio_11_{matrix}"]
            nulls = {**ones.nulls, "zeros": ratios["ratio_00_output"].value}
            found[f"{name}_11_{matrix}"] = dataclasses.replace(ones, nulls=nulls)
    return found


def _tied(table: pd.DataFrame) -> pd.DataFrame:
    return table[table["tied"]]


def _untied(table: pd.DataFrame) -> pd.DataFrame:
    return table[~table["tied"]]


def _study(measure: Callable[[str], dict[str, Finding]], *runs: EXorRun) -> Study:
    return Study(lambda preset: [cell_of(run, preset) for run in runs], measure)


STUDIES: dict[str, Study] = {
    "tying.exor_distribution": Study(_distribution_cells, _distribution_findings),
    "tying.untied_input": _study(_input_findings, MAIN),
    "tying.untied_output": _study(_output_findings, MAIN),
    "tying.tied": _study(_tied_findings, MAIN),
    "tying.accuracy": _study(_accuracy_findings, MAIN),
    "tying.overfit_alignment": _study(_overfit_findings, MAIN),
    "tying.dh_holds": _study(lambda preset: holds_findings(curves(ONES, preset)), ONES),
    "tying.dh_fails": _study(lambda preset: fails_findings(curves(ZEROS, preset)), ZEROS),
    "tying.larger": _study(_larger_findings, LARGER),
    "tying.lstm": _study(_lstm_findings, LSTM, MAIN),
    "tying.mixer": _study(_mixer_findings, MIXER, LSTM, MAIN),
    "tying.bigger": Study(_bigger_cells, _bigger_findings),
}
