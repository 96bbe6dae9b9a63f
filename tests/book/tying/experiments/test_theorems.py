"""EXor's findings: every formula against a slow loop over a made-up table, its controls, and gaps."""

import dataclasses
import itertools
import math

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from book.tying.experiments import exor as study
from book.tying.experiments import full_support, natural, theorems
from book.tying.experiments.exor_runs import SIZES, EXorRun
from book.tying.languages.exor import SYMBOLS
from book.tying.models.encoders import Encoder
from embviz.ledger.cells import Cell, Experiment, compute, run
from embviz.metrics import procrustes_disparity

PRESET, N_STEPS, SEEDS = "quick", 300, (0, 1, 2)
STEPS = range(0, N_STEPS + 1, 20)
PAIRS = ("11", "00", "01")
QUANTITIES = [
    *(f"{what}_{pair}" for what in ("input", "output", "bound", "tight") for pair in PAIRS),
    *("accuracy", "sampled_accuracy", "loss_gap", "held_loss_gap", "span", "logit_00", "logit_11"),
]
pytestmark = pytest.mark.usefixtures("own_results")


def made(run: EXorRun, *, seeds=SEEDS, extra: pd.DataFrame | None = None) -> dict:
    """Store a made-up table as a run's cell; returns its values by (seed, tied, step, quantity)."""
    cell = study.cell_of(run, PRESET)
    rng = np.random.default_rng(int(cell.key, 16))
    keys = list(itertools.product(seeds, (False, True), STEPS, QUANTITIES))
    values = rng.uniform(0.05, 1.0, len(keys))
    table = pd.DataFrame(keys, columns=["seed", "tied", "step", "quantity"]).assign(value=values)
    store(cell, table if extra is None else pd.concat([table, extra], ignore_index=True))
    return dict(zip(keys, values, strict=True))


def store(cell: Cell, table: pd.DataFrame) -> None:
    told = Experiment(cell.experiment.name, cell.experiment.version, lambda config: table)
    compute(Cell(told, cell.config), cell.path)


def found(claim: str):
    studies = {**study.STUDIES, **theorems.STUDIES}
    return studies[f"tying.{claim}"].findings(PRESET)


def same(
    finding, per_seed: list[float], *, controls: dict[str, float] | None = None, floor=-math.inf
) -> None:
    """A finding is the mean of one number per seed, with Student's interval; its nulls are as told."""
    n = len(per_seed)
    mean = sum(per_seed) / n
    half = stats.t.ppf(0.975, n - 1) * np.std(per_seed, ddof=1) / math.sqrt(n)
    assert finding.value == pytest.approx(mean)
    assert (finding.low, finding.high) == pytest.approx((max(mean - half, floor), mean + half))
    assert finding.n_seeds == n
    assert dict(finding.controls) == pytest.approx(controls or {})


def ratios(values: dict, tied: bool, matrix: str, pair: str, step: int) -> list[float]:
    return [
        values[seed, tied, step, f"{matrix}_{pair}"] / values[seed, tied, step, f"{matrix}_01"]
        for seed in SEEDS
    ]


def same_ratio(finding, values: dict, tied: bool, matrix: str, pair: str, **controls: float) -> None:
    start = np.mean(ratios(values, tied, matrix, pair, 0))
    end = ratios(values, tied, matrix, pair, N_STEPS)
    same(finding, end, controls={"start": start, **controls}, floor=0.0)


def slow_steps_until(values: dict, seed: int, tied: bool, names: list[str]) -> int:
    """The first step at which all are close, there and at the next snapshot; all steps if there is none."""
    pairs = [name.rsplit("_", 1) for name in names]

    def close(step: int) -> bool:
        return all(
            values[seed, tied, step, f"{matrix}_{pair}"] <= 0.2 * values[seed, tied, step, f"{matrix}_01"]
            for matrix, pair in pairs
        )

    for step, after in itertools.pairwise(STEPS):
        if close(step) and close(after):
            return step
    return N_STEPS


# --- curves -------------------------------------------------------------------------------------------


def test_curves_are_the_stored_quantities_and_distances_over_the_unrelated_pairs():
    values = made(study.MAIN)
    table = study.curves(study.MAIN, PRESET)
    assert len(table) == len(SEEDS) * 2 * len(STEPS)
    for row in table.to_dict("records"):
        key = row["seed"], row["tied"], row["step"]
        for quantity in QUANTITIES:
            assert row[quantity] == values[*key, quantity]
        for matrix, pair in itertools.product(("input", "output"), ("11", "00")):
            expected = values[*key, f"{matrix}_{pair}"] / values[*key, f"{matrix}_01"]
            assert row[f"relative_{matrix}_{pair}"] == pytest.approx(expected)


def coordinates(step: int, seeds=SEEDS, *, seed_of_values: int = 0) -> tuple[pd.DataFrame, dict]:
    """Rows of made-up embeddings as a run stores them, and the arrays (7, 4) by seed, tied and matrix."""
    rng = np.random.default_rng([seed_of_values, step])
    rows, arrays = [], {}
    for seed, tied in itertools.product(seeds, (False, True)):
        shared = rng.standard_normal((len(SYMBOLS), 4))
        for matrix in ("input", "output"):
            array = shared if tied else rng.standard_normal((len(SYMBOLS), 4))
            arrays[seed, tied, matrix] = array
            for (index, symbol), axis in itertools.product(enumerate(SYMBOLS), range(4)):
                rows.append((seed, tied, step, f"{matrix}/{symbol}/{axis}", array[index, axis]))
    return pd.DataFrame(rows, columns=["seed", "tied", "step", "quantity", "value"]), arrays


def test_embeddings_come_back_as_they_were_stored_at_the_step_asked_for():
    (start, first), (end, last) = coordinates(0, seeds=(0, 1)), coordinates(N_STEPS)
    made(study.MAIN, extra=pd.concat([start, end]))
    for step, expected in ((0, first), (None, last), (N_STEPS, last)):
        arrays = study.embeddings(study.MAIN, PRESET, step=step)
        assert set(arrays) == set(expected)
        for key, array in expected.items():
            np.testing.assert_array_equal(arrays[key], array)


# --- pieces -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("distances", "expected"),
    [
        ([0.9, 0.1, 0.1, 0.9, 0.1], 10),  # close and close again
        ([0.9, 0.1, 0.9, 0.1, 0.1], 30),  # a single close snapshot doesn't count
        ([0.9, 0.9, 0.9, 0.9, 0.1], 40),  # at the last there is none after it
        ([0.9, 0.9, 0.9, 0.9, 0.9], 40),  # never: all steps
        ([0.2, 0.2, 0.9, 0.9, 0.9], 0),  # the border is close
    ],
)
def test_steps_until_close_asks_for_two_snapshots_in_a_row(distances, expected):
    table = pd.DataFrame({"seed": 3, "step": [0, 10, 20, 30, 40], "x": distances})
    assert study.steps_until(table, ["x"]).to_dict() == {3: expected}
    assert study.steps_until(table[::-1], ["x"]).to_dict() == {3: expected}, "rows in any order"


def test_steps_until_close_asks_all_columns_at_once():
    table = pd.DataFrame({"seed": 0, "step": range(4), "x": 0.1, "y": [0.9, 0.1, 0.1, 0.9]})
    assert study.steps_until(table, ["x", "y"])[0] == 1
    assert study.steps_until(table, ["x", "y"], level=0.05)[0] == 3


def test_a_variance_ratio_is_in_powers_of_ten_and_its_bootstrap_holds_it():
    rng = np.random.default_rng(1)
    pairs = rng.standard_normal((40, 2)) * [10.0, 1.0]
    finding = study.variance_ratio(pairs, pairs[:, ::-1])
    expected = math.log10(np.var(pairs[:, 0]) / np.var(pairs[:, 1]))
    # 1e-12 is added to variances near 1 and 100
    assert finding.value == pytest.approx(expected, abs=1e-9)
    assert finding.controls["untied"] == pytest.approx(-expected, abs=1e-9)
    assert finding.low < 2 < finding.high, "the truth, a hundred times"
    assert 0.2 < finding.high - finding.low < 1.2  # some 0.4 either side: sqrt(2 * 2 / 40) / ln 10 twice over


def test_a_seed_drawn_by_itself_does_not_divide_by_zero():
    pairs = np.array([[1.0, 2.0], [3.0, 2.5]])  # half of the resamples hold one of them alone
    finding = study.variance_ratio(pairs, pairs)
    assert np.isfinite([finding.low, finding.high]).all()
    assert finding.value == pytest.approx(math.log10(1 / 0.0625), abs=1e-9)


# --- section 5 ----------------------------------------------------------------------------------------


def test_tied_findings_are_paired_by_seed():
    values = made(study.FRESH_MAIN)
    result = found("tied")
    for name, matrix in (("fresh_speed", "input_11"), ("speed_output", "output_11")):
        speed = [
            slow_steps_until(values, seed, True, ["input_11"])
            / slow_steps_until(values, seed, False, [matrix])
            for seed in SEEDS
        ]
        same(result[name], speed)
    same_ratio(result["fresh_ratio_11"], values, True, "input", "11")

    def log_ratio(tied: bool, matrix: str) -> float:
        ends = ([values[seed, tied, N_STEPS, f"{matrix}_{pair}"] for seed in SEEDS] for pair in ("00", "11"))
        return math.log10(np.var(next(ends)) / np.var(next(ends)))

    # 1e-12 is added to variances of a hundredth
    assert result["variance_over_output"].value == pytest.approx(log_ratio(True, "input"), abs=1e-6)
    free = log_ratio(False, "output")
    assert result["variance_over_output"].controls == {"output": pytest.approx(free, abs=1e-6)}
    assert result["variance_output"].value == pytest.approx(free, abs=1e-6)


def test_frequencies_are_counted_and_held_against_a_shifted_coin():
    run(study.STUDIES["tying.exor_distribution"].preset_cells(PRESET), n_jobs=1, progress=False)
    result = found("exor_distribution")
    frequency = result["frequency_ratio"]
    assert 0.9 < frequency.low <= frequency.value <= frequency.high < 1.1
    assert frequency.controls["shifted"] == pytest.approx(1 / 1.1, abs=0.05)
    assert result["enumeration_gap"].value < 1e-9
    best = [result[f"optimal_accuracy{name}"].value for name in ("", "_ones", "_zeros")]
    assert best == pytest.approx([(0.9 + 0.5) / 2, (1 + 0.5) / 2, (0.9 + 1) / 2])


# --- appendix C ---------------------------------------------------------------------------------------


def test_where_it_fails_the_untied_model_leads():
    values = [made(run) for run in (study.ZEROS, study.ONES)]
    later = made(study.MORE_ZEROS, seeds=(3, 4, 5))
    more = {(seed - 3, *key): value for (seed, *key), value in later.items()}
    result = found("dh_fails")
    more_solved = [
        [
            float(one[seed, False, N_STEPS, "loss_gap"] <= 0.1)
            - (one[seed, True, N_STEPS, "loss_gap"] <= 0.1)
            for seed in SEEDS
        ]
        for one in (more, values[1])
    ]
    later = result["later_more_solved"]
    assert later.value == pytest.approx(np.mean(more_solved[0]))
    assert (later.n_seeds, later.controls) == (3, {"holds": pytest.approx(np.mean(more_solved[1]))})
    same_ratio(result["ratio_00_input"], values[0], False, "input", "00")
    farther = [
        np.subtract(*(ratios(one, tied, "input", pair, N_STEPS) for tied in (True, False)))
        for one, pair in ((values[0], "00"), (values[1], "11"))
    ]
    same(result["farther_tied"], list(farther[0]), controls={"holds": float(farther[1].mean())})


# --- the theorems -------------------------------------------------------------------------------------


def slow_rank_correlation(x: list[float], y: list[float]) -> float:
    """Spearman's, without ties: 1 - 6 sum d² / (n (n² - 1))."""
    ranks = [[sorted(values).index(value) for value in values] for values in (x, y)]
    n = len(x)
    return 1 - 6 * sum((a - b) ** 2 for a, b in zip(*ranks, strict=True)) / (n * (n * n - 1))


def test_theorem_4_2_counts_snapshots_beyond_its_bounds():
    values = made(study.MAIN)
    result = found("theorem_input")

    def share(pair: str, seed: int) -> float:
        beyond = [
            values[seed, tied, step, f"input_{pair}"] > values[seed, tied, step, f"tight_{pair}"]
            for tied, step in itertools.product((False, True), STEPS)
        ]
        return sum(beyond) / len(beyond)

    equivalent = [(share("11", seed) + share("00", seed)) / 2 for seed in SEEDS]
    unrelated = float(np.mean([share("01", seed) for seed in SEEDS]))
    same(result["tight_violations"], equivalent, controls={"unrelated": unrelated})
    loose = {
        pair: [
            values[seed, False, N_STEPS, f"bound_{pair}"] / values[seed, False, N_STEPS, f"input_{pair}"]
            for seed in SEEDS
        ]
        for pair in PAIRS
    }
    same(result["looseness"], loose["11"], controls={"unrelated": float(np.mean(loose["01"]))})


# --- which matrix a tied one resembles ----------------------------------------------------------------


def test_resemblance_is_the_mean_over_the_other_seeds_untied_matrices():
    rows, arrays = coordinates(N_STEPS)
    made(study.MAIN, extra=rows)
    table = theorems.exor_resemblance(PRESET, runs=[study.MAIN]).set_index(["seed", "measure"])
    for seed, matrix in itertools.product(SEEDS, ("input", "output")):
        mine = arrays[seed, True, "input"][:4]
        others = [arrays[other, False, matrix][:4] for other in SEEDS if other != seed]
        disparity = np.mean([procrustes_disparity(mine, other) for other in others])
        order = np.mean([slow_rank_correlation(distances(mine), distances(other)) for other in others])
        assert table.loc[(seed, "procrustes"), f"to_{matrix}"] == pytest.approx(disparity)
        assert table.loc[(seed, "order"), f"to_{matrix}"] == pytest.approx(order)
        theirs = [arrays[other, True, "input"][:4] for other in SEEDS if other != seed]
        disparity = np.mean([procrustes_disparity(own, arrays[seed, False, matrix][:4]) for own in theirs])
        assert table.loc[(seed, "procrustes"), f"from_{matrix}"] == pytest.approx(disparity)


def distances(rows: np.ndarray) -> list[float]:
    return [float(np.linalg.norm(rows[u] - rows[v])) for u, v in itertools.combinations(range(4), 2)]


def resembling(matrix: str) -> pd.DataFrame:
    """Embeddings whose tied matrices are the untied `matrix` of all seeds, turned and scaled."""
    rng = np.random.default_rng(5)
    shapes = {name: rng.standard_normal((7, 4)) for name in ("input", "output")}
    rows = []
    for seed, tied, name in itertools.product(SEEDS, (False, True), ("input", "output")):
        turn = np.linalg.qr(rng.standard_normal((4, 4)))[0]
        array = shapes[matrix if tied else name] @ turn * rng.uniform(0.5, 2.0)
        rows += [
            (seed, tied, step, f"{name}/{symbol}/{axis}", array[index, axis])
            for (index, symbol), axis, step in itertools.product(enumerate(SYMBOLS), range(4), (0, N_STEPS))
        ]
    return pd.DataFrame(rows, columns=["seed", "tied", "step", "quantity", "value"])


@pytest.mark.parametrize(("matrix", "sign"), [("input", -1), ("output", 1)])
def test_a_turned_and_scaled_copy_of_one_matrix_resembles_that_one(matrix, sign):
    made(study.MAIN, extra=resembling(matrix))
    table = theorems.exor_resemblance(PRESET, runs=[study.MAIN])
    perfect = table.groupby("measure")[f"to_{matrix}"].mean()
    assert perfect["procrustes"] == pytest.approx(0, abs=1e-9)
    assert perfect["order"] == pytest.approx(1)
    gains = theorems._gains(table)
    assert set(gains) == {"procrustes", "order"}
    assert all((gain["own"] * sign > 0.1).all() for gain in gains.values())


def test_tied_models_of_two_cells_are_compared_with_untied_ones_of_both():
    runs = [study.FRESH_MAIN, study.MORE_MAIN]
    shape = resembling("output")
    for config, seeds in zip(runs, (0, 100), strict=True):
        made(config, extra=shape.assign(seed=shape["seed"] + seeds))
    table = theorems.exor_resemblance(PRESET, runs=runs)
    table = table[table["measure"] == "procrustes"].set_index("seed")
    assert list(table.index) == [*SEEDS, *(100 + seed for seed in SEEDS)]
    assert table["to_output"].to_numpy() == pytest.approx(0, abs=1e-9), "the same shape in both cells"
    alone = theorems.exor_resemblance(PRESET, runs=runs[:1]).set_index(["measure", "seed"])
    assert (alone.loc["procrustes"]["to_input"] - table["to_input"]).abs().max() < 1e-9


def test_what_training_adds_is_likeness_at_the_end_less_that_of_the_same_seeds_drawn_again():
    config = dataclasses.replace(study.FRESH_MAIN, first_seed=0)
    made(config, extra=resembling("output").query("seed < 2"))  # quick runs have two seeds
    result = theorems.exor_gained(PRESET, [config])
    shape = SIZES["transformer", "small"]
    keys = itertools.product((0, 1), (True, False))
    model = {(seed, tied): Encoder(shape, tied=tied, seed=seed) for seed, tied in keys}
    before = theorems.resemblance(
        {
            (*key, name): getattr(one, f"{name}_embedding").detach().numpy()
            for key, one in model.items()
            for name in ("input", "output")
        }
    )
    after = theorems.exor_resemblance(PRESET, runs=[config])
    for measure, sign in (("procrustes", 1), ("order", -1)):
        gains = [
            sign * (rows["to_input"] - rows["to_output"]).to_numpy()
            for rows in (table[table["measure"] == measure] for table in (after, before))
        ]
        same(result[f"later_exor_{measure}"], list(gains[0] - gains[1]))


def test_natural_text_under_the_cosine_stands_beside_exchanged_rows(monkeypatch):
    rows = [(seed, m, 0.6, 0.2 + seed / 10) for seed in (2, 3, 4) for m in ("procrustes", "neighbours")]
    table = pd.DataFrame(rows, columns=["seed", "measure", "to_input", "to_output"])
    table = table.assign(from_input=0.6, from_output=0.5)

    def resemblance(runs, *, exchanged):
        assert {run.seed for run in runs} == {2, 3, 4}
        return table.assign(to_output=table["to_input"] - 0.01) if exchanged else table

    monkeypatch.setattr(natural, "resemblance", resemblance)
    result = theorems.natural_gains("laptop")
    # the pseudo-values of (0.2, 0.1, 0.0), with 0.1 of the others for each seed
    same(result["fresh_natural_procrustes"], [0.3, 0.1, -0.1], controls={"exchanged": 0.01})
    same(result["fresh_natural_neighbours"], [-0.3, -0.1, 0.1], controls={"exchanged": -0.01})


def test_spread_is_that_of_leaving_out_whole_seeds():
    n = 5
    pairs = np.random.default_rng(3).normal(size=(n, n))
    np.fill_diagonal(pairs, np.nan)
    table = pd.DataFrame({"own": np.nanmean(pairs, 1), "others": np.nanmean(pairs, 0)})
    without = [np.nanmean(np.delete(np.delete(pairs, i, 0), i, 1)) for i in range(n)]
    expected = n * np.nanmean(pairs) - (n - 1) * np.array(without)
    assert theorems.jackknifed(table) == pytest.approx(expected)
    assert theorems.jackknifed(table).mean() == pytest.approx(np.nanmean(pairs))
