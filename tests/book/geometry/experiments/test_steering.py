"""Findings on grokking against slow loops on made-up runs: times, pairs, order, overlaps."""

import dataclasses
import itertools
import math
import statistics

import numpy as np
import pandas as pd
import pytest
import torch
from scipy import stats

from book.geometry.experiments import STUDIES, crossed, hammer_modular, queries, steering, variants
from book.geometry.experiments.grokking import GrokkingRun, grok
from book.transformer import Transformer, n_parameters
from embviz.ledger.cells import Cell
from embviz.training.fourier import power_spectrum

LIMIT = steering.LIMITS["paper"]


SHELF: dict[str, pd.DataFrame] = {}  # made-up results by cell key


@pytest.fixture(autouse=True)
def made_up_results(monkeypatch):
    SHELF.clear()
    monkeypatch.setattr(steering, "read", lambda cell: (SHELF[cell.key], {}))


def store(cell: Cell, grok: int | None, memorize: int | None = 10, strict: int | None = None) -> None:
    """Shelve a run with 95% at epoch `grok`, 99% at `strict`, 99% in training at `memorize`; None: never."""
    strict = grok if strict is None else strict
    end = cell.config.n_epochs
    epochs = sorted({0, end, *(epoch for epoch in (grok, memorize, strict) if epoch is not None)})
    rows = []
    for epoch in epochs:
        validated = 0.96 if grok is not None and epoch >= grok else 0.3
        validated = 1.0 if strict is not None and epoch >= strict else validated
        trained = 1.0 if memorize is not None and epoch >= memorize else 0.5
        seed = cell.config.first_seed
        rows += [(seed, epoch, "validation_accuracy", validated), (seed, epoch, "train_accuracy", trained)]
    SHELF[cell.key] = pd.DataFrame(rows, columns=["seed", "epoch", "quantity", "value"])


def made_up(todo, seed: int, latest: int = 2000) -> dict[Cell, tuple[int, int]]:
    """Store random times for every cell; those beyond the limit are never reached."""
    rng = np.random.default_rng(seed)
    found = {}
    for cell in {cell.key: cell for cell in todo}.values():
        grok, memorize = rng.integers(20, latest), rng.integers(5, 900)
        store(cell, *(int(x) if x <= LIMIT else None for x in (grok, memorize)))
        found[cell] = min(int(grok), LIMIT), int(memorize)
    return found


# --- times ----------------------------------------------------------------------------------------------


def test_times_are_the_first_epochs_at_the_thresholds_at_least_1_and_the_limit_where_they_are_not_reached():
    todo = steering.cells_of(steering.BASE, "paper", 3)
    store(todo[0], 700, 450, strict=720)
    store(todo[1], None, None)
    store(todo[2], 0, 0)
    assert steering.times(todo).values.tolist() == [
        [0, 700, True, 450, True],
        [1, LIMIT, False, LIMIT, False],
        [2, 1, True, 1, True],
    ]
    assert steering.times(todo, steering.STRICT)["grok"].tolist() == [720, LIMIT, 1]


def test_speedups_pair_runs_with_the_baseline_of_their_own_seed_in_any_order():
    base = pd.DataFrame({"seed": [2, 0, 1], "grok": [400, 100, 200], "memorize": [450, 9, 9]})
    run = pd.DataFrame({"seed": [1, 2, 0, 0], "grok": [50, 100, 100, 200], "memorize": 9})
    assert steering.speedups(run, base).tolist() == [75.0, 75.0, 0.0, -100.0]
    assert steering.speedups(run, base, "memorize").tolist() == [0.0, 98.0, 0.0, 0.0]


def test_a_run_without_a_baseline_of_its_seed_is_refused():
    base = pd.DataFrame({"seed": [0], "grok": [100]})
    run = pd.DataFrame({"seed": [0, 3], "grok": [50, 50]})
    with pytest.raises(ValueError, match="no baseline of seed 3"):
        steering.speedups(run, base)


# --- cells ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("run", [steering.NEAR, steering.NEAR_113], ids=["97", "113"])
def test_quick_modes_keep_their_places_between_0_and_half_of_p(run):
    quick = steering.at_preset(run, "quick", 0)
    assert quick.p == steering.SMALL_P[run.p]
    shares = [mode / (quick.p // 2) for mode in quick.modes]
    expected = [mode / (run.p // 2) for mode in run.modes]
    assert shares == pytest.approx(expected, abs=0.5 / (quick.p // 2))  # to the nearest mode
    lowest = steering.at_preset(steering.VARIANTS["{1}"], "quick", 0)
    assert lowest.modes == (1,)  # mode 0, the mean, is no mode of a circle


# --- what the chapters show of stored runs --------------------------------------------------------------


def test_savings_are_on_the_baseline_of_the_same_seed_and_reading_and_unknown_where_there_is_none():
    rows = [("as used", "baseline", 200), ("as used", "steered", 50), ("ReLU", "baseline", 100)]
    rows += [("ReLU", "steered", 150), ("biases", "steered", 10)]
    table = pd.DataFrame(rows, columns=["reading", "run", "grok"]).assign(seed=0)
    saved = steering.saved(table, "baseline", on=["reading", "seed"])
    assert saved.tolist() == pytest.approx([0, 75, 0, -50, np.nan], nan_ok=True)


def test_power_shares_are_of_all_modes_but_the_mean(monkeypatch):
    rows = [(0, 9, f"power/{mode}", power) for mode, power in enumerate((500.0, 1.0, 3.0))]
    table = pd.DataFrame(rows, columns=["seed", "epoch", "quantity", "value"])
    monkeypatch.setattr(steering, "table_of", lambda cell: table)
    assert steering.powers(None).to_dict("index") == {9: {1: 0.25, 2: 0.75}}


# --- Tables 1 and 2, Figure 1 ---------------------------------------------------------------------------


def slow_speedup(runs, found, column=0, base=steering.BASE):
    """Mean and its Student interval of 100 (1 - own / baseline's) over seeds, in plain loops."""
    values = []
    for run in runs:
        own = dataclasses.replace(base, first_seed=run.config.first_seed, n_epochs=LIMIT)
        (partner,) = [cell for cell in found if cell.config == own]
        values.append(100 * (1 - found[run][column] / found[partner][column]))
    return statistics.mean(values), values


def test_table_1_is_what_slow_loops_give():
    todo = STUDIES["geometry.pfft_speed"].cells("paper")
    found = made_up(todo, 0)
    findings = STUDIES["geometry.pfft_speed"].measure("paper")
    names = {"near_nyquist": steering.NEAR, "nanda": steering.MAIN["{1, 14, 41}"], **steering.CONTROLS}
    for name, run in names.items():
        n_seeds = 10 if name == "near_nyquist" else 5
        mean, values = slow_speedup(steering.cells_of(run, "paper", n_seeds), found)
        assert findings[name].value == pytest.approx(mean)
        half = stats.t.ppf(0.975, n_seeds - 1) * statistics.stdev(values) / math.sqrt(n_seeds)
        assert findings[name].high == pytest.approx(min(100.0, mean + half))
    drawn = steering.random_cells(97, "paper")
    assert findings["near_nyquist"].controls["random_modes"] == pytest.approx(slow_speedup(drawn, found)[0])
    mean, _ = slow_speedup(steering.cells_of(steering.NEAR, "paper", 10), found, column=1)
    assert findings["memorization"].value == pytest.approx(mean)
    assert findings["memorization"].controls["random_modes"] == pytest.approx(
        slow_speedup(drawn, found, column=1)[0]
    )
    base = [found[cell][0] for cell in steering.cells_of(steering.BASE, "paper", 10)]
    assert findings["baseline"].value == pytest.approx(statistics.mean(base))


def test_order_is_kendall_s_tau_with_the_paper_s_order_seed_by_seed():
    found = made_up(STUDIES["geometry.pfft_speed"].cells("paper"), 1, latest=LIMIT)
    taus = []
    for seed in range(5):
        epochs = [found[steering.cells_of(run, "paper")[seed]][0] for run in steering.MAIN.values()]
        pairs = list(itertools.combinations(epochs, 2))
        assert len(set(epochs)) == 5  # tau is then this plain count
        taus.append(sum(1 if one < other else -1 for one, other in pairs) / len(pairs))
    assert STUDIES["geometry.pfft_speed"].measure("paper")["order"].value == pytest.approx(
        statistics.mean(taus)
    )


def test_the_paper_s_own_order_agrees_wholly_its_reverse_not_at_all_and_censored_runs_have_none():
    tables = [pd.DataFrame({"seed": [0, 1], "grok": [57 * n, 60 * n]}) for n in range(1, 6)]
    assert steering.order_agreement(tables).value == pytest.approx(1.0)
    assert steering.order_agreement(tables[::-1]).value == pytest.approx(-1.0)
    assert steering.order_agreement([tables[0].assign(grok=LIMIT)] * 5).value == 0.0


def test_the_correlation_of_the_variants_is_that_of_their_medians():
    found = made_up(STUDIES["geometry.fourteen_variants"].cells("paper"), 2)
    findings = STUDIES["geometry.fourteen_variants"].measure("paper")
    medians = {}
    for name, run in steering.VARIANTS.items():
        own = [found[cell] for cell in steering.cells_of(run, "paper", 3)]
        medians[name] = [statistics.median(times) for times in zip(*own, strict=True)]
    both = [np.argsort(np.argsort([own[column] for own in medians.values()])) for column in (0, 1)]
    # medians of three random times hardly ever tie; a censored median may
    assert findings["correlation"].value == pytest.approx(np.corrcoef(both)[0, 1], abs=0.05)
    assert findings["variants"].value == len(steering.VARIANTS)


# --- drawn sets, and few modes --------------------------------------------------------------------------


def test_renaming_residues_permutes_the_modes_of_an_embedding():
    p, modes, u = 11, (1, 4), 3
    rng = np.random.default_rng(0)
    rows = np.fft.irfft(
        np.isin(np.arange(p // 2 + 1), modes)[:, None] * rng.standard_normal((p // 2 + 1, 2)), n=p, axis=0
    )
    renamed = rows[u * np.arange(p) % p]  # residue a now stands where u a stood
    power = power_spectrum(torch.from_numpy(renamed))
    assert tuple(np.flatnonzero(power > 1e-9)) in variants.renamings(modes, p)


def test_single_modes_are_one_variant_and_adaptive_ones_are_several():
    runs = [GrokkingRun(modes=(mode,)) for mode in (1, 20, 48)]
    assert variants.n_distinct(runs) == 1
    assert variants.n_distinct([*runs, GrokkingRun(top_k=1), GrokkingRun(top_k=5), GrokkingRun()]) == 4
    assert variants.n_distinct([GrokkingRun(modes=(1, 2)), GrokkingRun(modes=(1, 3))]) == 2


def test_fresh_draws_are_none_of_those_that_were_looked_at():
    drawn = [steering.random_cells(97, "paper"), variants.five_drawn("paper"), variants.more_drawn("paper")]
    sets = [{cell.config.modes for cell in cells} for cells in drawn]
    seeds = [{cell.config.first_seed for cell in cells} for cells in drawn]
    assert [len(own) for own in sets] == [20, 20, 40]
    for looked_at, fresh in itertools.combinations(sets, 2):
        assert not looked_at & fresh
    assert not seeds[0] & seeds[1]
    assert seeds[2] == set(range(10, 20))
    first, *struck = (
        {cell.config.run.first_seed for cell in cells}
        for cells in (
            hammer_modular.first_cells("paper"),
            hammer_modular.fresh_cells(hammer_modular.USED, "paper"),
            hammer_modular.fresh_cells(hammer_modular.TABLE_1S, "paper"),
        )
    )
    assert not first & struck[0]
    assert struck[0] == struck[1]


def near_and_drawn(near, drawn) -> pd.DataFrame:
    rows = [("near-Nyquist", *one) for one in near] + [("drawn", *one) for one in drawn]
    return pd.DataFrame(rows, columns=["modes", "seed", "grok"])


def test_ahead_counts_drawn_sets_no_later_than_near_nyquist_of_their_seed_each_seed_once():
    table = near_and_drawn([(5, 60), (6, 90)], [(5, 60), (5, 61), (6, 89), (6, 90)])
    finding = variants.ahead(table, "grok")
    assert (finding.value, finding.n_seeds) == (0.75, 2)
    assert finding.controls["by_lot"] == 0.5  # of two different times one is no later than the other
    many_sets = [(5, 50), (5, 55), (5, 60), (5, 70), (6, 80), (7, 90)]
    finding = variants.ahead(near_and_drawn([(5, 60), (6, 60), (7, 60)], many_sets), "grok")
    assert (finding.value, finding.n_seeds, finding.low) == (0.25, 3, 0.0)


def test_near_nyquist_saves_what_the_drawn_sets_of_its_seed_need_more():
    table = near_and_drawn([(5, 60), (6, 90), (7, 70)], [(5, 60), (5, 80), (6, 80), (7, 90)])
    saved = variants.epochs_saved(table, "grok")
    assert (saved.value, saved.n_seeds) == (pytest.approx((10 - 10 + 20) / 3), 3)


def test_a_network_that_uses_prescribed_modes_has_not_found_its_own(monkeypatch):
    def powers(cell):
        modes = cell.config.modes or (1, 14, 41, 30, 2 + cell.config.first_seed)
        at_end = pd.Series(0.1 / 43, index=range(1, 49))
        at_end[list(modes)] = 0.9 / 5
        return at_end.to_frame().T

    monkeypatch.setattr(steering, "powers", powers)
    found = STUDIES["geometry.own_modes"].measure("paper")
    assert (found["correct"].value, found["correct"].controls) == (0.0, {"baseline": 1.0})
    assert (found["shared"].value, found["shared"].controls) == (1.0, {"other_seeds": 1.0})
    assert found["outside"].value == pytest.approx(0.1)
    assert found["outside_baseline"].value == pytest.approx(1 - 0.18 - 4 * 0.1 / 43)


def test_the_share_of_runs_with_few_modes_counts_those_that_grokked():
    for size, cells in variants.few_cells("paper").items():
        for index, cell in enumerate(cells):
            store(cell, 300 if index < size else None)
    findings = STUDIES["geometry.three_modes"].findings("paper")
    assert [findings[name].value for name in ("one", "two", "three")] == [1 / 9, 0.2, 0.3]
    assert findings["two_epochs"].value == (2 * 300 + 8 * LIMIT) / 10


# --- one setting for both columns -----------------------------------------------------------------------


def store_crossed(epochs_of) -> None:
    for (batch_size, start, name), cells in crossed.crossed_cells("paper").items():
        for cell in cells:
            store(cell, epochs_of(batch_size, start, name))


def test_columns_from_two_settings_are_no_setting_with_both():
    def epochs_of(batch_size, start, name):
        if name == "baseline":
            return 782 if start == "N(0, 1/d)" else 391
        return 57 if start == "small" else 114

    store_crossed(epochs_of)
    findings = STUDIES["geometry.one_setting"].findings("paper")
    assert findings["miss"].value == pytest.approx(2.0)
    assert findings["mixed"].value == pytest.approx(1.0)


def test_a_run_that_did_not_grok_is_off_by_what_its_limit_says_at_least():
    store_crossed(lambda batch_size, start, name: None)
    off = crossed.factors_off(crossed.crossed_times("paper"))
    assert off.loc[(64, "small"), "near-Nyquist"] == pytest.approx(300 / 57)
    assert off.loc[(0, "small"), "baseline"] == pytest.approx(1500 / 782)


def test_table_2_is_what_slow_loops_give():
    found = made_up(STUDIES["geometry.cross_p"].cells("paper"), 3)
    findings = STUDIES["geometry.cross_p"].measure("paper")
    mean, _ = slow_speedup(steering.cells_of(steering.NEAR_113, "paper"), found, base=steering.BASE_113)
    assert findings["speedup_113"].value == pytest.approx(mean)
    null, _ = slow_speedup(steering.random_cells(113, "paper"), found, base=steering.BASE_113)
    assert findings["speedup_113"].controls["random_modes"] == pytest.approx(null)
    bases = [
        [found[cell][0] for cell in steering.cells_of(run, "paper")]
        for run in (steering.BASE_113, steering.BASE)
    ]
    ratios = [one / other for one, other in zip(*bases, strict=True)]
    assert findings["baseline_113"].value == pytest.approx(statistics.mean(ratios))
    single = steering.cells_of(steering.SINGLES["single"], "paper")
    assert findings["single"].value == sum(found[cell][0] < LIMIT for cell in single) / len(single)


# --- without queries ------------------------------------------------------------------------------------


def test_the_wider_mlp_takes_as_many_weights_as_the_query_projection():
    both, wide = (
        n_parameters(Transformer(run.shape, seed=0)) for run in (steering.BASE, queries.VARIANTS["wide_no_q"])
    )
    assert wide == both


def test_findings_without_queries_are_what_slow_loops_give(monkeypatch):
    variants = queries.variant_cells("paper")
    monkeypatch.setattr(queries, "missing", lambda cells: [])
    found = made_up(
        STUDIES["geometry.noq_grokking"].cells("paper")
        + [one for cells in variants.values() for one in cells],
        4,
    )
    findings = STUDIES["geometry.noq_grokking"].measure("paper")
    without = steering.cells_of(queries.NO_Q, "paper", 10)
    base = steering.cells_of(steering.BASE, "paper", 10)
    pairs = [(found[one], found[other]) for one, other in zip(without, base, strict=True)]
    for name in ("speedup_99", "speedup_95"):
        expected = statistics.mean(100 * (1 - one[0] / other[0]) for one, other in pairs)
        assert findings[name].value == pytest.approx(expected)
        controls = steering.cells_of(queries.CONTROLS["no_k"], "paper")
        null = slow_speedup(controls, found)[0]
        assert findings[name].controls["no_k"] == pytest.approx(null)
    for name, cells in variants.items():
        assert findings[name].value == pytest.approx(slow_speedup(cells, found)[0])
    assert findings["restricted_mean"].value == pytest.approx(
        statistics.mean(one[0] - other[0] for one, other in pairs)
    )
    assert findings["memorization"].value == pytest.approx(
        statistics.mean(one[1] / other[1] for one, other in pairs)
    )


def test_a_pair_shown_is_of_one_seed_that_both_runs_have(monkeypatch):
    base, without = steering.cells_of(steering.BASE, "paper", 3), steering.cells_of(queries.NO_Q, "paper", 2)
    monkeypatch.setattr(
        queries, "stored", lambda names: dict(zip(queries.PAIR, (base, without), strict=True))
    )
    for cell, epoch in zip([*base, *without], [9, 10, 8, 6, None], strict=True):
        store(cell, epoch, 4)
    pairs = queries.pairs(0.95)
    assert pairs[["seed", *queries.PAIR]].to_numpy().tolist() == [[0, 9, 6], [1, 10, LIMIT]]
    assert pairs["reached"].tolist() == [True, False]
    assert queries.pairs(0.95, "memorize")[list(queries.PAIR)].to_numpy().tolist() == [[4, 4], [4, 4]]


def test_runs_of_a_pair_start_from_the_same_weights_but_for_the_projection_that_is_gone():
    whole = dict(Transformer(queries.RUNS["with queries"].shape, seed=3).named_parameters())
    for name in ("without queries", "without keys"):
        weights = dict(Transformer(queries.RUNS[name].shape, seed=3).named_parameters())
        gone = {key.split(".")[-2] for key in whole.keys() - weights.keys()}
        assert gone == {"query" if name == "without queries" else "key"}
        assert all(torch.equal(weight, whole[key]) for key, weight in weights.items())


def test_both_together_are_compared_with_the_faster_one_of_each_seed():
    found = made_up(STUDIES["geometry.open_combination"].cells("paper"), 5)
    both, near, without = (
        [found[cell][0] for cell in steering.cells_of(run, "paper", 5)]
        for run in (queries.BOTH, steering.NEAR, queries.NO_Q)
    )
    expected = statistics.mean(b / min(n, w) for b, n, w in zip(both, near, without, strict=True))
    assert STUDIES["geometry.open_combination"].measure("paper")["ratio_95"].value == pytest.approx(expected)


# --- the hammer -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("overlaps", [(0,), (1, 0), (1, 2)])
def test_the_chance_of_an_overlap_is_that_of_counting_all_sets(overlaps):
    n_modes, top = 6, 2
    counts = [len({0, 1} & {*chosen}) for chosen in itertools.combinations(range(n_modes), top)]
    sums = [sum(drawn) for drawn in itertools.product(counts, repeat=len(overlaps))]
    share = sum(total >= sum(overlaps) for total in sums) / len(sums)
    found = hammer_modular.log_overlap_p(overlaps, n_modes, top)
    assert found == pytest.approx(math.log10(share), abs=1e-12)


def struck(gradient, embedding, permuted=None) -> pd.DataFrame:
    """A strike at the start and the end, from powers of modes 0, 1, 2 ..."""
    powers = {
        ("start", "gradient"): gradient,
        ("start", "permuted"): permuted or gradient,
        ("end", "embedding"): embedding,
    }
    rows = [(*key, mode, float(value)) for key, own in powers.items() for mode, value in enumerate(own)]
    return pd.DataFrame(rows, columns=["moment", "quantity", "mode", "value"])


def test_a_gradient_that_names_the_circuit_shares_all_its_strongest_modes_and_the_permuted_one_none():
    high, low = ([0.0] * 44 + [5, 4, 3, 2, 1], [0.0] + [5, 4, 3, 2, 1] + [0.0] * 43)
    tables = [struck(high, high, low)] * 3
    assert hammer_modular.strongest(struck([99, 1, 5, 3], [0] * 4), "start", "gradient", 2) == [2, 3]
    shared = hammer_modular.shared_before(tables)
    assert shared["gradient"].tolist() == [5, 5, 5]
    assert shared["permuted"].tolist() == [0, 0, 0]


def test_the_share_of_the_named_modes_counts_those_among_the_three_strongest():
    powers = np.zeros(49)
    powers[[1, 14, 20, 0]] = 3, 2, 1, 50
    assert hammer_modular.share_of_nanda(struck(powers, powers), "gradient") == pytest.approx(2 / 3)


def test_a_strike_hears_the_start_and_the_end_of_a_run_and_changes_nothing_of_it():
    run = GrokkingRun(p=11, train_share=0.6, n_epochs=4)
    torch.set_num_threads(1)
    table = hammer_modular.strikes.function(hammer_modular.Strike(run))
    *_, last = grok(run, device="cpu")
    heard = table[(table["moment"] == "end") & (table["quantity"] == "embedding")]
    assert heard["value"].tolist() == power_spectrum(torch.from_numpy(last.embedding)).tolist()
