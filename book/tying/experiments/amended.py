"""What the amended claims are judged by: criteria that an optimal model fulfils, on fresh seeds.

The first seeds, and the figures that they were judged by, stay in :mod:`book.tying.experiments.exor` and are
shown as first fixed. Each amendment stands with its reason in the claims file.

Source: tying paper, section 5 and appendices C.1-C.5.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Mapping, Sequence

import numpy as np
import pandas as pd

from book.tying.experiments import exor, natural, theorems
from book.tying.experiments.exor import cell_of, curves, first, last, steps_until
from book.tying.experiments.exor_runs import EXorRun, FreshRun, exor_ends
from book.tying.experiments.spellings import UNFAIR, best_accuracy, sweep_cells, sweep_curves
from book.tying.languages.exor import EXor
from embviz.ledger import findings
from embviz.ledger.cells import Cell, missing, read
from embviz.ledger.findings import Finding
from embviz.ledger.studies import Part, Study

SOLVED = 0.1  # loss above the optimum, in nats, at most which a run counts as one that solves the task
NEAR = 0.01  # the same for a run that counts as near the optimum, as a theorem about optimal models asks
RISE = 0.05  # of the loss on the twelve strings, in nats, from which on a run counts as one that overfits
ABSOLUTE = {"01": 0.1, "003": 0.03}  # Euclidean distances of a pair that is close

MAIN = FreshRun(n_seeds=20)
MORE_MAIN = FreshRun(n_seeds=40, first_seed=40)
AUTHORS = FreshRun(n_seeds=5, first_seed=42, drawn="program")
ONES = FreshRun(symbols="ones", n_seeds=20, first_seed=5)
ZEROS = FreshRun(symbols="zeros", n_seeds=20, first_seed=5)
MORE_ZEROS = FreshRun(symbols="zeros", n_seeds=20, first_seed=25)
NO_DECAY = FreshRun(weight_decay=0.0, n_seeds=20, first_seed=5)
RANK_3 = dataclasses.replace(NO_DECAY, rank=3)
MANY = dataclasses.replace(NO_DECAY, n_seeds=120, first_seed=25)
MANY_RANK_3 = dataclasses.replace(MANY, rank=3)
MIXER = FreshRun("mixer", n_seeds=20, first_seed=5)
LSTM = FreshRun("lstm", n_seeds=5, first_seed=5)
ONE_LAYER = FreshRun("lstm", "one layer", n_seeds=5, first_seed=5)
LARGER = FreshRun(size="medium", n_seeds=5, first_seed=2)
LARGER_PROGRAM = dataclasses.replace(LARGER, learning_rate=1e-4, n_steps=300_000)


def stored(run: EXorRun, preset: str) -> pd.DataFrame | None:
    """Curves of a run, or None where it is not stored."""
    return curves(run, preset) if cell_of(run, preset).stored() else None


def _tied(table: pd.DataFrame) -> pd.DataFrame:
    return table[table["tied"]]


def _untied(table: pd.DataFrame) -> pd.DataFrame:
    return table[~table["tied"]]


# --- numbers of one kind of run against those of another ------------------------------------------------


def difference(mine: pd.Series, theirs: pd.Series) -> Finding | None:
    """Difference of two means over seeds that are not paired, with a cautious 95% interval.

    Student's factor is that of the smaller group, which is wider than Welch's. None without two of each.
    """
    a, b = mine.to_numpy(float), theirs.to_numpy(float)
    n = min(len(a), len(b))
    if n < 2:
        return None
    half = findings.student(n) * math.sqrt(a.var(ddof=1) / len(a) + b.var(ddof=1) / len(b))
    value = float(a.mean() - b.mean())
    return Finding(value, value - half, value + half, n)


def ratio_of_medians(mine: pd.Series, theirs: pd.Series) -> Finding:
    """Median steps over median steps of seeds that are not paired, with a bootstrap over the seeds of each.

    Parameters
    ----------
    mine, theirs : Series of float
        Steps until something happens; infinite for a seed where it did not, so that a median counts such a
        seed as later than all others. Where both medians are infinite nothing is known, and the ratio is 1.
    """
    rng = np.random.default_rng(0)
    pair = [part.to_numpy(float) for part in (mine, theirs)]
    drawn = sorted(_ratio(*(rng.choice(part, len(part)) for part in pair)) for _ in range(2_000))
    value, low, high = _ratio(*pair), drawn[50], drawn[-51]  # no quantiles: between infinities there are none
    return Finding(value, min(low, value), max(high, value), min(map(len, pair)))


def _ratio(mine: np.ndarray, theirs: np.ndarray) -> float:
    a, b = float(np.median(mine)), float(np.median(theirs))
    return 1.0 if math.isinf(a) and math.isinf(b) else a / b


def arrivals(table: pd.DataFrame, columns: list[str], *, level: float = exor.CLOSE) -> pd.Series:
    """As :func:`~book.tying.experiments.exor.steps_until`, infinite for a seed that never gets there."""
    steps = steps_until(table, columns, level=level)
    ends = last(table).set_index("seed")[columns]
    there = (ends <= level).all(axis=1).reindex(steps.index)
    return steps.where((steps < table["step"].max()) | there, np.inf)


# --- runs that solve the task ---------------------------------------------------------------------------


def solved(table: pd.DataFrame, *, column: str = "loss_gap") -> pd.Series:
    """By seed: whether the loss ends at most :data:`SOLVED` above the optimum."""
    return last(table).set_index("seed")[column] <= SOLVED


def shares(table: pd.DataFrame) -> dict[str, Finding]:
    """Shares of untied and of tied runs that solve the task, and their difference, paired by seed."""
    tied, untied = solved(_tied(table)), solved(_untied(table))
    return {
        "untied_solved": findings.share(int(untied.sum()), len(untied)),
        "tied_solved": findings.share(int(tied.sum()), len(tied)),
        "more_solved": findings.over_seeds(untied.to_numpy(float) - tied.to_numpy(float), within=(-1, 1)),
    }


def _accuracy(preset: str) -> dict[str, Finding]:
    found: dict[str, Finding | None] = {}
    table = stored(MAIN, preset)
    if table is not None:
        found |= shares(table) | _of_those_that_solve(table)
    authors = stored(AUTHORS, preset)
    if authors is not None:
        found |= {f"authors_{name}": finding for name, finding in shares(authors).items()}
        del found["authors_more_solved"]
    return {name: finding for name, finding in found.items() if finding is not None}


def _of_those_that_solve(table: pd.DataFrame) -> dict[str, Finding | None]:
    """Accuracy over the last tenth, and its wobble over the last third, of the runs that solve the task."""
    best, accuracy, wobble, gaps = best_accuracy(EXor()), {}, {}, {}
    late = table[table["step"] >= 2 / 3 * table["step"].max()]
    for name, part, own in (("tied", _tied(table), _tied(late)), ("untied", _untied(table), _untied(late))):
        done = solved(part)
        scores = exor.late_accuracy(part)
        accuracy[name], gaps[name] = scores[done[scores.index]], best - scores
        moved = own.groupby("seed")["accuracy"].std(ddof=1) + 1e-6  # a model may stand still
        wobble[name] = moved[done[moved.index]].map(math.log10)
    done = solved(_untied(table))
    found: dict[str, Finding | None] = {
        "tied_minus_untied_solved": difference(accuracy["tied"], accuracy["untied"]),
        "instability_solved": difference(wobble["tied"], wobble["untied"]),
    }
    if done.any():
        others = gaps["untied"][~done[gaps["untied"].index]]
        nulls = {"unsolved": float(others.mean())} if len(others) else {}
        found["untied_gap_solved"] = findings.over_seeds(gaps["untied"][done].to_numpy(), nulls=nulls)
    return found


# --- apart, as an optimal model has it ------------------------------------------------------------------


def apart(table: pd.DataFrame, *, matrix: str = "output") -> dict[str, Finding]:
    """What keeps 0A and 0B apart in the output of one kind of model, each with its null.

    Returns
    -------
    dict
        ``logit_00``: how much the logit of 0B exceeds that of 0A where a 0 is asked for, ln 9 in an optimal
        model, with 1B's over 1A's as the null; ``ones_over_zeros``: the distance of 1A and 1B over that of
        0A and 0B in the same matrix, 0 in an optimal model, with its value before training as the null.
    """
    end, start = last(table), first(table)
    found = {}
    if "logit_00" in table:
        ones = {"ones": float(end["logit_11"].mean())} if "logit_11" in table else {}
        zero = {"start": float(start["logit_00"].mean())}
        found["logit_00"] = findings.over_seeds(end["logit_00"].to_numpy(), nulls={**ones, **zero})
    if f"{matrix}_11" in table and f"{matrix}_00" in table:
        ratios = [(part[f"{matrix}_11"] / part[f"{matrix}_00"]).to_numpy() for part in (end, start)]
        found["ones_over_zeros"] = exor.not_negative(
            findings.over_seeds(ratios[0], nulls={"start": float(ratios[1].mean())})
        )
    return found


def _untied_input(preset: str) -> dict[str, Finding]:
    """Of all forty seeds."""
    fresh = stored(MAIN, preset)
    if fresh is None:
        return {}
    untied = _untied(pd.concat([curves(exor.MAIN, preset), fresh]))
    return {f"ratio_{pair}": exor.ratio(untied, f"relative_input_{pair}") for pair in ("11", "00")}


def _untied_output(preset: str) -> dict[str, Finding]:
    table = stored(MAIN, preset)
    if table is None:
        return {}
    untied = _untied(table)
    return {**apart(untied), "fresh_ratio_11": exor.ratio(untied, "relative_output_11")}


def _fails(preset: str) -> dict[str, Finding]:
    table = stored(ZEROS, preset)
    if table is None:
        return {}
    found = {**exor.fails_findings(table), **shares(table)}
    del found["ratio_00_output"], found["ratio_00_tied"]  # as first fixed, of the first seeds
    found["logit_00"] = apart(_untied(table))["logit_00"]
    found["logit_00_tied"] = apart(_tied(table))["logit_00"]
    nulls = {}
    holding = stored(ONES, preset)
    if holding is not None:
        nulls["holds"] = float(_farther(holding, "11").mean())
    found["farther_tied"] = findings.over_seeds(_farther(table, "00").to_numpy(), nulls=nulls)
    return found


def _more_seeds(preset: str) -> dict[str, Finding]:
    """What tying costs where the hypothesis fails, over all fresh seeds; the null: where it holds."""
    failing = pd.concat([curves(run, preset) for run in (ZEROS, MORE_ZEROS)])
    costs, holding = (
        exor.late_accuracy(_untied(table)) - exor.late_accuracy(_tied(table))
        for table in (failing, curves(ONES, preset))
    )
    nulls = {"holds": float(holding.mean())}
    found = {"untied_minus_tied": findings.over_seeds(costs.to_numpy(), nulls=nulls), **shares(failing)}
    return {f"{name}_more": finding for name, finding in found.items()}


def _farther(table: pd.DataFrame, pair: str) -> pd.Series:
    """By seed: relative distance of a pair in the tied matrix minus that in the untied input."""
    column = f"relative_input_{pair}"
    tied, untied = (last(part).set_index("seed")[column] for part in (_tied(table), _untied(table)))
    return tied - untied


def _holds(preset: str) -> dict[str, Finding]:
    table = stored(ONES, preset)
    return {} if table is None else {**exor.holds_findings(table), **shares(table)}


# --- tied sooner, and by how much -----------------------------------------------------------------------


def _tied_sooner(preset: str) -> dict[str, Finding]:
    table = stored(MAIN, preset)
    if table is None:
        return {}
    tied, untied = _tied(table), _untied(table)
    spread = [last(part)[["input_00", "input_11"]].to_numpy() for part in (tied, untied)]
    free = exor.variance_ratio(last(untied)[["output_00", "output_11"]].to_numpy(), spread[1])
    over_null = exor.variance_ratio(*spread)
    arrived = {
        name: steps_until(part, [f"relative_{matrix}_11"])
        for name, part, matrix in (
            ("tied", tied, "input"),
            ("input", untied, "input"),
            ("output", untied, "output"),
        )
    }
    found = {
        "variance_over_null": over_null,
        "variance_over_output": dataclasses.replace(over_null, nulls={"output": free.value}),
        "variance_output": dataclasses.replace(free, nulls={}),
        "fresh_ratio_11": exor.ratio(tied, "relative_input_11"),
        "fresh_speed": findings.over_seeds((arrived["tied"] / arrived["input"]).to_numpy()),
        "speed_output": findings.over_seeds((arrived["tied"] / arrived["output"]).to_numpy()),
    }
    for name, level in ABSOLUTE.items():
        steps = [steps_until(part, ["input_11"], level=level) for part in (tied, untied)]
        found[f"speed_{name}"] = findings.over_seeds((steps[0] / steps[1]).to_numpy())
    return found


# --- overfitting ----------------------------------------------------------------------------------------


def overfitting(table: pd.DataFrame) -> pd.DataFrame:
    """Which runs of one kind overfit the twelve strings that the authors' program validates on.

    A run overfits where the loss on these strings, over the last tenth of training, has risen by
    :data:`RISE` over its lowest while the loss on the training strings has fallen. Both are means of five
    snapshots in a row, as the loss of twelve strings jumps.

    Returns
    -------
    DataFrame
        One row per seed: `overfits`, `lowest` (step of the lowest loss), `aligned` (step from which on 1A and
        1B are close in input and output; the last where they never are).
    """
    rows = {}
    for seed, part in table.sort_values("step").groupby("seed"):
        part = part.set_index("step")
        smooth = part[["sampled_loss", "train_loss_gap"]].rolling(5, min_periods=1, center=True).mean()
        steps, (strings, trained) = smooth.index.to_numpy(float), smooth.to_numpy(float).T
        lowest, late = int(strings.argmin()), steps >= 0.9 * steps.max()
        risen = strings[late].mean() - strings[lowest] >= RISE
        fallen = trained[late].mean() < trained[lowest]
        rows[seed] = {"overfits": bool(risen and fallen), "lowest": steps[lowest]}
    found = pd.DataFrame.from_dict(rows, orient="index").rename_axis("seed")
    return found.assign(aligned=steps_until(table, ["relative_input_11", "relative_output_11"]))


def _overfit(preset: str) -> dict[str, Finding]:
    table = stored(MAIN, preset)
    if table is None:
        return {}
    n_steps = table["step"].max()
    runs = {name: overfitting(part) for name, part in (("tied", _tied(table)), ("untied", _untied(table)))}
    counts = {name: (int(part["overfits"].sum()), len(part)) for name, part in runs.items()}
    nulls = {"tied": counts["tied"][0] / counts["tied"][1]}
    found = {"overfit_share": findings.share(*counts["untied"], nulls=nulls)}
    lags = {
        name: ((part["aligned"] - part["lowest"]) / n_steps)[part["overfits"]] for name, part in runs.items()
    }
    if len(lags["untied"]):
        tied = {"tied": float(lags["tied"].mean())} if len(lags["tied"]) else {}
        found["lag_overfit"] = findings.over_seeds(lags["untied"].to_numpy(), nulls=tied)
    return found


# --- architectures --------------------------------------------------------------------------------------


def _body(run: FreshRun, preset: str) -> dict[str, Finding]:
    """What an architecture's claim asks for, of its fresh seeds."""
    table = stored(run, preset)
    if table is None:
        return {}
    found = exor.six_ratios(table)
    del found["ratio_00_output"]  # as first fixed, of the first seeds
    gap = exor.late_accuracy(_tied(table)) - exor.late_accuracy(_untied(table))
    return {**found, **apart(_untied(table)), "tied_minus_untied": findings.over_seeds(gap.to_numpy())}


def _later(run: FreshRun, other: FreshRun, preset: str) -> Finding | None:
    """Steps until 1A and 1B are close in the untied input: median of one architecture over another's."""
    tables = [stored(one, preset) for one in (run, other)]
    if any(table is None for table in tables):
        return None
    return ratio_of_medians(*(arrivals(_untied(table), ["relative_input_11"]) for table in tables))  # type: ignore[arg-type]


def _lstm(preset: str) -> dict[str, Finding]:
    found: dict[str, Finding | None] = {**_body(LSTM, preset), "later": _later(LSTM, MAIN, preset)}
    single, double = stored(ONE_LAYER, preset), stored(LSTM, preset)
    if single is not None and double is not None:
        done = [solved(_untied(table), column="held_loss_gap") for table in (single, double)]
        nulls = {"two_layers": float(done[1].mean())}
        found["one_layer_generalizes"] = findings.share(int(done[0].sum()), len(done[0]), nulls=nulls)
    return {name: finding for name, finding in found.items() if finding is not None}


def _mixer(preset: str) -> dict[str, Finding]:
    later, sooner = _later(MIXER, MAIN, preset), _later(MIXER, LSTM, preset)
    found: dict[str, Finding | None] = {**_body(MIXER, preset), "later": later, "sooner": sooner}
    return {name: finding for name, finding in found.items() if finding is not None}


def _larger_cells(preset: str) -> list[Cell]:
    return [cell_of(LARGER if preset == "paper" else exor.LARGER, preset)]


def _larger(preset: str) -> dict[str, Finding]:
    """Of the fresh seeds at the paper's scale, beside the two that were stored before."""
    before = "laptop" if preset == "paper" else preset
    found: dict[str, Finding] = {}
    if stored(exor.LARGER, before) is not None:
        found = dict(exor.STUDIES["tying.larger"].findings(before))
    for suffix, run in (("", LARGER), ("_program", LARGER_PROGRAM)):
        table = stored(run, preset)
        if table is not None:
            own = _body(run, preset)
            del own["ratio_00_tied"]
            own |= {f"{name}_tied": finding for name, finding in apart(_tied(table)).items()}
            found |= {f"{name}{suffix}": finding for name, finding in own.items()}
    return found


# --- theorems -------------------------------------------------------------------------------------------


def _theorem_output(preset: str) -> dict[str, Finding]:
    """Of the twenty fresh seeds."""
    tables = {name: stored(run, preset) for name, run in (("full", NO_DECAY), ("rank_3", RANK_3))}
    ends = {name: last(_untied(table)) for name, table in tables.items() if table is not None}
    return near_optimum(**ends) if "full" in ends else {}


def near_optimum(full: pd.DataFrame, rank_3: pd.DataFrame | None = None) -> dict[str, Finding]:
    """Relative output distance of 1A and 1B in runs that end near the optimum, and the share of such runs.

    Parameters
    ----------
    full, rank_3 : DataFrame
        Ends of untied models without weight decay, a row a seed; of the null, whose encodings keep 3 of 4
        dimensions.
    """
    close = full[full["loss_gap"] <= NEAR]["relative_output_11"]
    found = {"near_share": findings.share(len(close), len(full))}
    if len(close):
        others = full[:0] if rank_3 is None else rank_3[rank_3["loss_gap"] <= NEAR]
        nulls = {"rank_3": float(others["relative_output_11"].mean())} if len(others) else {}
        found["near_ratio"] = exor.not_negative(findings.over_seeds(close.to_numpy(), nulls=nulls))
    return found


def ends_of(run: FreshRun, preset: str) -> Cell:
    """The cell of many untied models' ends at a preset."""
    return exor_ends.cell(exor.at_preset(run, preset))


def _many_cells(preset: str) -> list[Cell]:
    return [] if preset == "laptop" else [ends_of(run, preset) for run in (MANY, MANY_RANK_3)]


def _many_near(preset: str) -> dict[str, Finding]:
    """Of 120 seeds more, since one of twenty came near."""
    tables = [read(cell)[0] for cell in _many_cells(preset)]
    ends = (table.assign(relative_output_11=table["output_11"] / table["output_01"]) for table in tables)
    return {f"{name}_many": finding for name, finding in near_optimum(*ends).items()}


def _theorem_input(preset: str) -> dict[str, Finding]:
    """The triangle inequality: no pair of rows of any matrix can pass the bound, equivalent or not."""
    return {"possible_violations": findings.exact(0.0, nulls={"unrelated": 0.0})}


# --- the coin sweep -------------------------------------------------------------------------------------


def coin_costs(table: pd.DataFrame) -> pd.DataFrame:
    """Accuracy that tying costs, untied minus tied at the end, one row per seed and one column per coin."""
    end = last(table)
    gap = end.pivot(index=["p_0a", "seed"], columns="tied", values="accuracy_gap")
    return (gap[True] - gap[False]).unstack("p_0a")


def _coin_findings(preset: str) -> dict[str, Finding]:
    found: dict[str, Finding] = {}
    for prefix, fresh in (("first_", False), ("", True)):
        if missing(sweep_cells(preset, fresh=fresh)):
            continue
        costs = coin_costs(sweep_curves(preset, fresh=fresh))
        unfair = costs[[coin for coin in costs.columns.to_numpy(float) if coin <= UNFAIR]].mean(axis=1)
        found |= {
            f"{prefix}fair_gain": findings.over_seeds(-costs[0.5].to_numpy()),
            f"{prefix}unfair_cost": findings.over_seeds(
                unfair.to_numpy(), nulls={"fair": float(costs[0.5].mean())}
            ),
            f"{prefix}cost_growth": findings.over_seeds((unfair - costs[0.5]).to_numpy()),
        }
    return found


# --- studies --------------------------------------------------------------------------------------------

Measure = Callable[[str], dict[str, Finding]]
AMENDED: dict[str, tuple[Measure, tuple[FreshRun, ...]]] = {
    "tying.accuracy": (_accuracy, (MAIN, AUTHORS)),
    "tying.untied_input": (_untied_input, (MAIN,)),
    "tying.untied_output": (_untied_output, (MAIN,)),
    "tying.tied": (_tied_sooner, (MAIN,)),
    "tying.overfit_alignment": (_overfit, (MAIN,)),
    "tying.dh_holds": (_holds, (ONES,)),
    "tying.dh_fails": (_fails, (ZEROS, ONES)),
    "tying.mixer": (_mixer, (MIXER, MAIN, LSTM)),
    "tying.lstm": (_lstm, (LSTM, MAIN, ONE_LAYER)),
    "tying.theorem_output": (_theorem_output, (NO_DECAY, RANK_3)),
    "tying.theorem_input": (_theorem_input, ()),
}


def _fresh_cells(runs: Sequence[FreshRun], preset: str) -> list[Cell]:
    """Cells that no verdict waits for: without them the amended figures are not measured."""
    return [] if preset == "laptop" else [cell_of(run, preset) for run in runs]


def amended(claim: str, study: Study) -> Study:
    """A study with what its amendment decides by, measured as far as the fresh seeds are stored."""
    measure, runs = AMENDED[claim]
    return dataclasses.replace(
        study,
        measure=lambda preset: {**study.measure(preset), **measure(preset)},
        beside=lambda preset: _fresh_cells(runs, preset),
    )


def _fresh(found: Mapping[str, Finding]) -> dict[str, Finding]:
    return {f"fresh_{name}": finding for name, finding in found.items()}


def _more(found: Mapping[str, Finding]) -> dict[str, Finding]:
    return {f"more_{name}": finding for name, finding in found.items()}


def _fresh_texts(preset: str) -> list[Cell]:
    """Natural text's runs under the cosine, which no preset has but the laptop's."""
    runs = [] if preset == "quick" else natural.cosine_runs("laptop")
    return [natural.natural_text.cell(run) for run in runs]


_FIRST = {claim: amended(claim, {**exor.STUDIES, **theorems.STUDIES}[claim]) for claim in AMENDED}
STUDIES: dict[str, Study] = {
    **_FIRST,
    "tying.dh_fails": dataclasses.replace(
        _FIRST["tying.dh_fails"],
        parts=(Part(lambda preset: _fresh_cells((ZEROS, MORE_ZEROS, ONES), preset), _more_seeds),),
    ),
    "tying.theorem_output": dataclasses.replace(
        _FIRST["tying.theorem_output"], parts=(Part(_many_cells, _many_near),)
    ),
    "tying.larger": Study(
        _larger_cells, _larger, beside=lambda preset: _fresh_cells((LARGER, LARGER_PROGRAM), preset)
    ),
    "tying.tied_like_output": dataclasses.replace(
        theorems.STUDIES["tying.tied_like_output"],
        parts=(
            Part(
                lambda preset: _fresh_cells((MAIN,), preset),
                lambda preset: _fresh(theorems.exor_gains(preset, [MAIN])),
            ),
            Part(
                lambda preset: _fresh_cells((MAIN, MORE_MAIN), preset),
                lambda preset: _more(theorems.exor_gained(preset, [MAIN, MORE_MAIN])),
            ),
            Part(_fresh_texts, lambda preset: _fresh(theorems.natural_gains("laptop"))),
        ),
    ),
    "tying.tie_only_where": Study(
        # the paper has no such sweep, so none is at its scale
        lambda preset: [] if preset == "paper" else sweep_cells(preset),
        _coin_findings,
        beside=lambda preset: [] if preset == "paper" else sweep_cells(preset, fresh=True),
    ),
}
