"""The chapter on the theorems: its bounds, its algebra, its directions, decay alone, drawings."""

import dataclasses
import itertools
import math

import numpy as np
import pandas as pd
import pytest
import torch
import vl_convert
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy import optimize, stats

from book.tying import theorems as chapter
from book.tying.experiments import exor, natural, theorems
from book.tying.experiments.exor_runs import load_model
from embviz.ledger import cells
from embviz.ledger.cells import read
from embviz.ledger.studies import Study
from embviz.tasks.exor import EVEN, MASK, ODD, ONE_A, ONE_B, ZERO_A, ZERO_B, EXor
from embviz.training.loop import AdamW
from embviz.view import theme
from embviz.view.explorers import Choice, Explorer, Range
from tests.drawing import compiled

BITS = range(4)


@pytest.fixture(scope="module")
def tiny(tmp_path_factory):
    """The three kinds of run, four steps of two seeds each, stored where nothing else is."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("EMBVIZ_RESULTS_DIR", str(tmp_path_factory.mktemp("results")))
        patch.setenv("EMBVIZ_CACHE_DIR", str(tmp_path_factory.mktemp("cache")))
        patch.setattr(exor, "at_preset", shortened)
        threads = torch.get_num_threads()
        torch.set_num_threads(1)
        forget()
        cells.run(
            [exor.cell_of(config, "quick") for config in chapter.RUNS.values()], n_jobs=1, progress=False
        )
        yield "quick"
        torch.set_num_threads(threads)
    forget()


def shortened(config, preset):
    if preset != "quick":
        return config
    return dataclasses.replace(config, n_steps=4, n_seeds=2, learning_rate=5e-2)


def forget() -> None:
    chapter._curves.cache_clear()
    chapter.trained.cache_clear()


@pytest.fixture
def made_curves(monkeypatch):
    """Replaces the stored curves of all runs by a function of run and preset."""

    def replace(function):
        monkeypatch.setattr(chapter, "_curves", function)

    return replace


# --- stored runs --------------------------------------------------------------------------------------


def test_the_preset_is_the_largest_with_all_three_runs(tiny):
    assert chapter.stored_preset() == "quick"


def test_without_stored_runs_the_command_is_named(tmp_path, monkeypatch):
    monkeypatch.setenv("EMBVIZ_RESULTS_DIR", str(tmp_path))
    with pytest.raises(ValueError, match=r"embviz run tying\.theorem_output --preset quick"):
        chapter.stored_preset()


def test_an_unknown_run_is_refused():
    with pytest.raises(ValueError, match="no run 'dropout': choose one of weight decay, no weight decay"):
        chapter.curves("dropout", "paper")


def test_curves_keep_both_ends_the_tying_and_the_seeds_asked_for(tiny):
    table = chapter.curves("weight decay", tiny, tied=True, n_seeds=1, n_points=3)
    assert table["tied"].all()
    assert table["seed"].unique().tolist() == [0]
    assert table["step"].tolist() == [0, 2, 4]
    assert len(chapter.curves("weight decay", tiny, n_points=None)) == 5 * 2


# --- curves on a logarithmic axis ---------------------------------------------------------------------


def test_a_band_is_students_about_the_geometric_mean():
    table = pd.DataFrame({"step": [0, 0, 0, 5], "kind": "a", "x": [1.0, 10.0, 1000.0, 7.0]})
    band = chapter.log_bands(table, "x", by="kind").set_index("step")
    logs = np.log([1, 10, 1000])
    half = stats.t.ppf(0.975, 2) * logs.std(ddof=1) / math.sqrt(3)
    assert band.loc[0, "centre"] == pytest.approx(10 ** (4 / 3))
    assert band.loc[0, ["low", "high"]].tolist() == pytest.approx(
        np.exp([logs.mean() - half, logs.mean() + half])
    )
    assert band.loc[5, ["centre", "low", "high"]].tolist() == pytest.approx([7, 7, 7]), "one seed: no width"


def test_a_logarithm_of_zero_is_refused():
    table = pd.DataFrame({"step": [0], "kind": "a", "x": [0.0]})
    with pytest.raises(ValueError, match="x has values that are not above 0: clip them"):
        chapter.log_bands(table, "x", by="kind")


def test_what_lies_below_a_logarithmic_axis_is_drawn_on_its_end():
    table = pd.DataFrame({"step": [0, 1], "seed": 0, "run": "a", "span": [0.0, 0.5]})
    spec = chapter.plot_log_curves(table, "span", by="run", names=["a"], limits=(1e-3, 1.0)).to_dict()
    (packed,) = spec["layer"][0]["data"]["values"]
    assert packed["span"] == [0.001, 0.5]
    assert chapter.log_axis("span", 1e-3, 1.0).values == pytest.approx([1e-3, 1e-2, 0.1, 1])
    assert chapter.log_axis("span", 2e-3, 3.0).values == pytest.approx([1e-2, 0.1, 1])


# --- Theorem 4.1 --------------------------------------------------------------------------------------


def path(run: str, seed: int, *ends: tuple[float, float]) -> pd.DataFrame:
    rows = [(run, seed, step, gap, ratio) for step, (gap, ratio) in enumerate(ends)]
    return pd.DataFrame(rows, columns=["run", "seed", "step", "loss_gap", "relative_distance"])


def test_the_ends_of_paths_are_counted():
    first, second, third = chapter.RUNS
    table = pd.concat(
        [
            path(first, 0, (1.0, 1.0), (0.5, 0.1)),
            path(first, 1, (0.001, 0.1), (0.5, 0.9)),  # near and close, but not at the end
            path(second, 0, (1.0, 1.0), (0.01, 0.2)),  # both borders count
            path(second, 1, (1.0, 1.0), (0.005, 0.9)),
            path(third, 0, (1.0, 1.0), (0.0, 0.21)),
            path(third, 1, (1.0, 1.0), (0.011, 0.0)),
        ]
    )
    counts = chapter.near_the_optimum(table)
    assert counts["seeds"].tolist() == [2, 2, 2]
    assert counts["near the optimum"].tolist() == [0, 2, 1]
    assert counts["close"].tolist() == [1, 1, 1]
    assert counts["near and close"].tolist() == [0, 1, 0]
    assert chapter.paths_finding(table) == (
        "Seeds that end with 1A and 1B close: weight decay: 1 of 2, no weight decay: 1 of 2, "
        "no decay, 3 of 4 dimensions: 1 of 2. Without decay, 3 runs end within 0.01 nats of the optimum, "
        "1 of them with a close pair"
    )


def test_paths_hold_the_stored_loss_and_distance_of_untied_models(tiny):
    table = chapter.paths(tiny)
    assert table.groupby("run").size().to_dict() == dict.fromkeys(chapter.RUNS, 2 * 5)
    for run, config in chapter.RUNS.items():
        stored = exor.curves(config, tiny).query("not tied and seed == 1").sort_values("step")
        mine = table[(table["run"] == run) & (table["seed"] == 1)]
        assert mine["relative_distance"].tolist() == stored["relative_output_11"].tolist()
        assert mine["loss_gap"].tolist() == stored["loss_gap"].clip(lower=1e-5).tolist()


def test_a_distance_that_falls_with_time_tracks_any_falling_loss(made_curves):
    steps = np.arange(20)
    table = pd.DataFrame(
        {"seed": 0, "tied": False, "step": steps, "relative_output_11": 0.9**steps, "loss_gap": 30.0 - steps}
    )
    made_curves(lambda run, preset: table)
    assert (chapter.tracking_table("quick") == 1.0).all(axis=None)
    made_curves(lambda run, preset: table.assign(loss_gap=steps + 1.0))
    found = chapter.tracking_table("quick")
    assert (found["with the loss"] == -1).all()
    assert (found["with the step, sign turned"] == 1).all()


@pytest.mark.parametrize("task", [EXor(), EXor(p_0a=0.3, p_1a=0.8)])
def test_counted_contexts_are_all_contexts_put_in_order(task):
    tokens, probability = chapter.counted_contexts(task)
    everything, chances = task.contexts()
    summed = {}
    for row, chance in zip(everything.tolist(), chances.tolist(), strict=True):
        key = (*sorted(symbol for symbol in row if symbol <= ONE_B), row[-1])
        summed[key] = summed.get(key, 0.0) + chance
    assert len(tokens) == len(summed) == 168
    for row, chance in zip(tokens.tolist(), probability.tolist(), strict=True):
        assert row[0] == MASK
        assert chance == pytest.approx(summed[(*row[1:7], row[7])], rel=1e-9)


@pytest.mark.parametrize("value", [0, 1])
def test_weights_of_what_is_asked_are_of_contexts_with_that_bit_masked(value):
    tokens, probability = chapter.counted_contexts()
    weights = chapter.asked_weights(value)
    for row, weight, chance in zip(tokens, weights, probability, strict=True):
        n_ones = int(np.isin(row, [ONE_A, ONE_B]).sum())
        masked = (n_ones + (row[-1] == ODD)) % 2  # what makes the whole string's parity right
        assert weight == pytest.approx(2 * chance if masked == value else 0.0)


def test_a_stored_model_reads_strings_in_any_order_alike(tiny):
    model = chapter.trained("no weight decay", tiny, 1)
    cell = exor.cell_of(theorems.NO_DECAY, tiny)
    encoder = load_model(cell.config, read(cell)[0], seed=1, tied=False)
    tokens, _ = chapter.counted_contexts()
    rng = np.random.default_rng(0)
    for index in rng.integers(len(tokens), size=5):
        order = rng.permutation(8)
        place = int(np.flatnonzero(order == 0)[0])
        with torch.no_grad():
            expected = encoder.encode(torch.from_numpy(tokens[index][order])[None])[0, place]
        np.testing.assert_allclose(model.encodings[index], expected, atol=2e-6)  # sums in another order
    np.testing.assert_array_equal(model.output, encoder.output_embedding.detach())


def test_the_difference_along_all_directions_is_the_whole_difference(tiny):
    table = chapter.weak_directions(tiny)
    weights = chapter.asked_weights(1)
    for (run, seed), part in table.groupby(["run", "seed"]):
        model = chapter.trained(run, tiny, seed)
        difference = model.output[ONE_A] - model.output[ONE_B]
        assert (part["distance"] ** 2).sum() == pytest.approx(difference @ difference)
        total = sum(w * (g @ g) for w, g in zip(weights, model.encodings, strict=True))
        assert (part["size"] ** 2).sum() == pytest.approx(total)
        # sum over directions of (size times part)² is the mean square of the two logits' difference
        asked = sum(w * (g @ difference) ** 2 for w, g in zip(weights, model.encodings, strict=True))
        assert ((part["size"] * part["distance"]) ** 2).sum() == pytest.approx(asked)
        assert part["size"].is_monotonic_decreasing
    deficient = table[table["run"] == "no decay, 3 of 4 dimensions"]
    assert (deficient.loc[deficient["direction"] == 4, "size"] < 1e-12).all()


def test_models_with_most_of_the_difference_along_the_weakest_direction_are_counted():
    rows = [("a", 0, k, 1.0, k / 4) for k in range(1, 5)] + [("a", 1, k, 1.0, 1 / k) for k in range(1, 5)]
    table = pd.DataFrame(rows, columns=["run", "seed", "direction", "size", "distance"])
    assert chapter.largest_along_weakest(table) == "1 of 2"


def test_logits_are_compared_where_a_bit_is_masked(tiny):
    found = chapter.left_over(tiny).loc[("weight decay", 0)]
    model = chapter.trained("weight decay", tiny, 0)
    tokens, probability = chapter.counted_contexts()
    for name, value in (("a 1 is masked", 1), ("a 0 is masked", 0)):
        total = weight = 0.0
        for row, chance, encoding in zip(tokens, probability, model.encodings, strict=True):
            if (np.isin(row, [ONE_A, ONE_B]).sum() + (row[-1] == ODD)) % 2 == value:
                logits = model.output @ encoding
                total, weight = total + chance * abs(logits[ONE_A] - logits[ONE_B]), weight + chance
        assert float(found[f"logits differ, {name}"]) == pytest.approx(total / weight, rel=0.06)  # 2 digits


def test_a_coordinate_that_no_encoding_has_stays_as_it_was_born(tiny):
    table = chapter.outside_the_plane(tiny)
    assert table["before training"].tolist() == table["at the end"].tolist()
    assert (table.abs() > 0.01).all(axis=None)
    ends = [exor.embeddings(theorems.RANK_3, tiny, step=step)[0, False, "output"] for step in (0, 4)]
    assert (ends[0][:ONE_B, :3] != ends[1][:ONE_B, :3]).all(), "the others do learn"


def test_encodings_before_training_lie_in_the_plane_of_layer_norm(tiny):
    table = chapter.spans(tiny)
    assert set(table["run"]) == {"weight decay", "no weight decay"}
    assert (table.loc[table["step"] == 0, "span"] < 1e-6).all()
    assert (table.loc[table["step"] == 4, "span"] > 1e-6).all()


# --- weight decay alone -------------------------------------------------------------------------------


def test_decay_alone_is_what_adamw_does_to_a_weight_without_gradient():
    optimizer = AdamW()
    weight = torch.nn.Parameter(torch.ones(1, dtype=torch.float64))
    adam = torch.optim.AdamW([weight], weight_decay=optimizer.weight_decay, eps=optimizer.eps)
    seen = [1.0]
    for step in range(40):
        adam.param_groups[0]["lr"] = optimizer.rate(step)
        weight.grad = torch.zeros_like(weight)
        adam.step()
        seen.append(weight.item())
    assert chapter.decay_alone(range(41)).tolist() == pytest.approx(seen, rel=1e-12)
    assert chapter.decay_alone([0]).tolist() == [1.0]


@pytest.mark.parametrize("power", [0.0, 1.0, 2.5])
def test_a_rate_is_the_power_of_decay_that_a_distance_follows(made_curves, power):
    steps = np.arange(0, 15_001, 500)
    left = chapter.decay_alone(steps)
    parts = []
    for seed, tied in itertools.product(range(3), (False, True)):
        columns = {f"{m}_{p}": (seed + 2) * left**power for m in ("input", "output") for p in chapter.PAIRS}
        parts.append(pd.DataFrame({"seed": seed, "tied": tied, "step": steps, **columns}))
    made_curves(lambda run, preset: pd.concat(parts))
    table = chapter.shrink_rates("paper")
    assert len(table) == 9
    assert (table == power).all(axis=None)


def test_what_is_kept_starts_at_one_and_both_causes_are_beside_the_sum(tiny):
    table = chapter.shrinking(tiny)
    assert (table.loc[table["step"] == 0, "kept"] == 1).all()
    config = theorems.NO_DECAY
    stored = (
        exor.curves(config, tiny).query("not tied").pivot(index="step", columns="seed", values="input_11")
    )
    kept = stored.loc[4] / stored.loc[0]
    mine = table[(table["run"] == "no weight decay") & (table["step"] == 4)]
    assert mine["kept"].tolist() == pytest.approx(kept.tolist())
    found = chapter.closing_table(tiny)["share of the distance kept"].astype(float)
    assert found["gradient alone, no weight decay"] == pytest.approx(math.sqrt(kept.prod()), rel=0.06)
    assert found["weight decay alone, no gradient"] == pytest.approx(
        (1 - 0.1 * 5e-2) ** 4, rel=0.06
    )  # two digits; four steps of a period of 20,000
    assert chapter.decay_curve(tiny)["name"].tolist().count("weight decay alone") == 1


# --- Theorem 4.2 --------------------------------------------------------------------------------------


def slow_bound(embedding: np.ndarray, u: int, v: int) -> float:
    """Theorem 4.2 as it is written: every context, both matrices, numpy's spectral norm."""
    least = math.inf
    for five in itertools.combinations_with_replacement(BITS, 5):
        for parity in (EVEN, ODD):
            norms = [np.linalg.norm(embedding[[MASK, w, *five, parity]], ord=2) for w in (u, v)]
            least = min(least, max(norms))
    return 2 * least


@pytest.mark.parametrize("dimension", [1, 4, 11])
def test_the_bound_is_the_theorems_right_side(dimension):
    embedding = np.random.default_rng(dimension).standard_normal((7, dimension))
    for u, v in ((ONE_A, ONE_B), (ZERO_A, ONE_B)):
        assert chapter.theorem_bound(embedding, u, v) == pytest.approx(slow_bound(embedding, u, v))
        assert chapter.theorem_bound(embedding, v, u) == chapter.theorem_bound(embedding, u, v)


def test_the_bound_is_the_one_that_runs_store(tiny):
    start = exor.first(chapter.curves("weight decay", tiny)).set_index("seed")
    embedding = exor.embeddings(exor.MAIN, tiny, step=0)[1, False, "input"]
    for pair, codes in zip(chapter.PAIRS, chapter.CODES.values(), strict=True):
        stored = start.loc[1, f"bound_{pair}"]
        assert chapter.theorem_bound(embedding, *codes) == pytest.approx(stored, rel=1e-5)  # float32


finite = st.floats(-100, 100)


@settings(max_examples=40, deadline=None)
@given(arrays(float, (7, 3), elements=finite), st.sampled_from(list(itertools.combinations(BITS, 2))))
def test_no_embedding_breaks_the_bound_nor_the_sharper_sum_of_norms(embedding, pair):
    u, v = pair
    bound = chapter.theorem_bound(embedding, u, v)
    norms = np.linalg.norm(embedding[u]) + np.linalg.norm(embedding[v])
    distance = np.linalg.norm(embedding[u] - embedding[v])
    slack = 1e-6 * (1 + np.abs(embedding).max())  # a square root of a sum's rounding
    assert distance <= norms + slack
    assert norms <= bound + slack


@given(st.floats(0.01, 100))
@settings(max_examples=10, deadline=None)
def test_the_bound_scales_with_the_embeddings(size):
    embedding = np.random.default_rng(3).standard_normal((7, 4))
    expected = size * chapter.theorem_bound(embedding, ZERO_A, ONE_B)
    assert chapter.theorem_bound(size * embedding, ZERO_A, ONE_B) == pytest.approx(expected)


def test_moving_a_symbol_moves_its_pair_and_no_other_pair_of_the_rest():
    still, moved = (chapter.random_bounds(4, share, 1.0) for share in (0.0, 0.9))
    assert len(still) == 5 * 6
    pair = still["pair"] == "1A-1B"
    assert pair.sum() == 5
    shrunk = moved.loc[pair, "distance"] / still.loc[pair, "distance"]
    assert shrunk.tolist() == pytest.approx([0.1] * 5)
    zeros = still.index % 6 == 0  # 0A and 0B come first in each matrix
    assert moved.loc[zeros, "distance"].tolist() == still.loc[zeros, "distance"].tolist()
    assert (still["distance"] < still["bound"]).all()


# --- the proof's algebra ------------------------------------------------------------------------------


def attention(rows: np.ndarray) -> np.ndarray:
    """Weights that the first row, the mask's, pays to all rows (equation 4)."""
    weights = np.exp(rows @ rows[0])
    return weights / weights.sum()


def two_spellings(seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """X_u, X_v and m for two different embeddings in the last row that are read alike.

    E(v) lies on the line from the context's mean m through E(u), where p_v (E(v) - m) = p_u (E(u) - m).
    """
    rng = np.random.default_rng(seed)
    rows = 0.6 * rng.standard_normal((8, 3))
    others = np.exp(rows[:-1] @ rows[0])
    m = others @ rows[:-1] / others.sum()
    along = rows[-1] - m
    # toward less attention, so that a point farther out can balance it
    along *= -0.5 / (along @ rows[0])
    rows[-1] = m + along

    def share(r: float) -> float:
        weight = math.exp(rows[0] @ (m + r * along))
        return weight / (weight + others.sum())

    peak = optimize.minimize_scalar(lambda r: -r * share(r), bounds=(0, 100), method="bounded").x
    ends = (peak, 1_000) if peak > 1 else (0.0, peak)  # r * share(r) rises up to the peak, then falls
    r = optimize.brentq(lambda r: r * share(r) - share(1.0), *ends, xtol=1e-14)
    other = rows.copy()
    other[-1] = m + r * along
    return rows, other, m


@pytest.mark.parametrize("seed", range(6))
def test_two_embeddings_can_be_read_alike_in_one_context_and_obey_equations_28_and_37(seed):
    rows, other, m = two_spellings(seed)
    attend, attend_other = attention(rows), attention(other)
    np.testing.assert_allclose(attend @ rows, attend_other @ other, atol=1e-9)
    difference = rows[-1] - other[-1]
    assert np.linalg.norm(difference) > 1e-3, "and they are different"
    np.testing.assert_allclose(
        difference, (attend_other - attend) @ rows / attend_other[-1], atol=1e-7
    )  # equation 28
    change = np.linalg.norm(attend_other - attend)
    norms = [np.linalg.norm(x, ord=2) for x in (rows, other)]
    bound = min(change * norms[0] / attend_other[-1], change * norms[1] / attend[-1])
    assert np.linalg.norm(difference) <= bound + 1e-9  # equation 37
    assert bound <= change / max(attend[-1], attend_other[-1]) * max(norms) + 1e-9  # equation 38
    assert np.linalg.matrix_rank(np.stack([difference, rows[-1] - m]), tol=1e-9) == 1, "m is on their line"


@pytest.mark.parametrize("seed", range(3))
def test_what_is_read_is_the_others_mean_moved_toward_the_open_place(seed):
    rows = np.random.default_rng(seed).standard_normal((8, 3))
    weights = attention(rows)
    m = weights[:-1] @ rows[:-1] / weights[:-1].sum()
    np.testing.assert_allclose(weights @ rows, m + weights[-1] * (rows[-1] - m), atol=1e-12)


def test_in_a_second_context_off_the_line_the_two_are_told_apart():
    rows, other, _ = two_spellings(0)
    rows[1] = other[1] = rows[1] + [0.3, -0.5, 0.4]
    assert np.abs(attention(rows) @ rows - attention(other) @ other).max() > 1e-3


# --- the theorem's own model --------------------------------------------------------------------------


def slow_logits(embeddings: np.ndarray, tokens: np.ndarray) -> np.ndarray:
    read, answer = embeddings
    return np.array([attention(read[row]) @ read[row] @ answer.T for row in tokens])


def test_a_fits_loss_and_accuracy_are_those_of_the_equations():
    fit = chapter.fit_attention(1)
    tokens, probability = chapter.counted_contexts()
    exact = EXor().conditional(tokens)
    logits = slow_logits(fit.embeddings, tokens)
    log_f = logits - np.log(np.exp(logits).sum(axis=1, keepdims=True))
    loss = -probability @ (exact * log_f).sum(axis=1)
    assert fit.loss_gap == pytest.approx(loss - EXor().optimal_loss(), abs=1e-9)
    # 1A and 1B are equally right, so that a tie changes nothing
    assert fit.accuracy == pytest.approx(probability @ exact[np.arange(168), logits.argmax(axis=1)], abs=1e-9)


@given(arrays(float, (2, 7, 3), elements=st.floats(-2, 2)), st.sampled_from([EVEN, ODD]))
@settings(max_examples=40, deadline=None)
def test_bare_attention_changes_its_mind_once_as_ones_are_added(embeddings, parity):
    tokens = np.array([[MASK, *[ONE_B] * k, *[ZERO_B] * (6 - k), parity] for k in range(7)])
    logits = slow_logits(embeddings, tokens)
    lead = logits[:, ONE_B] - logits[:, ZERO_B]
    signs = np.sign(lead[np.abs(lead) > 1e-9])  # what is 0 but for rounding has no sign
    assert (np.diff(signs) != 0).sum() <= 1
    masked = (np.arange(7) + (parity == ODD)) % 2
    assert (np.diff(masked) != 0).sum() == 6, "and the masked bit changes six times"


def test_frequencies_alone_are_one_bit_above_the_optimum():
    task = EXor()
    frequencies = task.spellings.ravel() / 2
    loss = -(frequencies * np.log(frequencies)).sum()
    assert loss - task.optimal_loss() == pytest.approx(math.log(2))
    table = chapter.attention_table(1, dimensions=(2,))
    assert table.loc["frequencies alone"].tolist() == [0.45, 0.69]
    assert table.loc["optimum"].tolist() == [0.7, 0.0]
    assert table.iloc[0, 0] < 0.5


# --- the explorers and the rest -----------------------------------------------------------------------


def test_bound_curves_are_the_stored_ones(tiny):
    table = chapter.bound_curves(tiny)
    stored = exor.curves(exor.MAIN, tiny).set_index(["seed", "tied", "step"])
    for row in table.to_dict("records"):
        code = {"1A-1B": "11", "0A-0B": "00", "0A-1B": "01"}[row["pair"]]
        expected = stored.loc[(row["seed"], row["tied"], row["step"])]
        assert row["distance"] == expected[f"input_{code}"]
        assert row["bound"] == expected[f"bound_{code}"]
        assert row["tight"] == max(expected[f"tight_{code}"], 1e-5)
    assert "exceeded nowhere" in chapter.bounds_finding(table)
    worse = table.assign(bound=0.0, tight=table["distance"])
    assert chapter.bounds_finding(worse) == (
        f"Theorem 4.2's bound is exceeded {len(table)} times, equation 37's at 0% of the snapshots"
    )


def test_looseness_is_bound_over_distance(tiny):
    table = chapter.looseness(tiny)
    stored = exor.curves(exor.MAIN, tiny).query("not tied").set_index(["seed", "step"])
    names = {words: code for code, words in chapter.PAIRS.items()}
    for row in table.to_dict("records"):
        expected = stored.loc[(row["seed"], row["step"])]
        code = names[row["pair"]]
        assert row["bound_ratio"] == expected[f"bound_{code}"] / expected[f"input_{code}"]


def disparities(*rows: tuple[int, float, float]) -> pd.DataFrame:
    table = pd.DataFrame(rows, columns=["seed", "to_input", "to_output"])
    return pd.concat([table.assign(measure="procrustes"), table.assign(measure="order")], ignore_index=True)


def test_resemblance_has_natural_text_where_it_is_stored(tmp_path, monkeypatch):
    ends = {None: disparities((0, 0.3, 0.1), (1, 0.2, 0.4)), 0: disparities((0, 0.2, 0.3))}
    monkeypatch.setattr(theorems, "exor_resemblance", lambda preset, step=None: ends[step])
    monkeypatch.setitem(natural.STUDIES, "tying.natural", Study(lambda preset: [], lambda preset: {}))
    table = chapter.resemblance("paper")
    assert chapter.nearer_output(table) == {"EXor, trained": "1 of 2", "EXor, before training": "0 of 1"}
    stored = Study(lambda preset: [], lambda preset: {})
    monkeypatch.setattr(Study, "largest_stored", lambda self: "laptop" if self is stored else None)
    monkeypatch.setitem(natural.STUDIES, "tying.natural", stored)
    monkeypatch.setattr(natural, "resemblance", lambda preset: disparities((0, 0.9, 0.8)))
    table = chapter.resemblance("paper")
    assert len(table) == 4
    assert chapter.nearer_output(table)["natural text, trained"] == "1 of 1"
    compiled(chapter.plot_resemblance(table))


def test_every_chart_compiles(tiny):
    names = list(chapter.RUNS)[:2]
    loose = chapter.looseness(tiny)
    for chart in (
        chapter.plot_paths(chapter.paths(tiny)),
        chapter.plot_log_curves(
            chapter.spans(tiny), "span", by="run", names=names, limits=(chapter.SPAN_FLOOR, 1.0)
        ),
        chapter.plot_weak_directions(chapter.weak_directions(tiny)),
        chapter.plot_log_curves(
            chapter.shrinking(tiny),
            "kept",
            by="run",
            names=names,
            limits=(3e-3, 3.0),
            reference=chapter.decay_curve(tiny),
        ),
        chapter.plot_log_curves(
            loose,
            "bound_ratio",
            by="pair",
            names=list(chapter.PAIRS.values()),
            limits=(0.7, 300.0),
            reference=chapter.level("bound_ratio", 1.0, "distance = bound", n_steps=4),
        ),
    ):
        compiled(theme.captioned(chart, finding="A finding", caption="A caption."))


def test_the_explorers_have_static_twins(tiny):
    drawn = Explorer(
        chapter.random_bounds,
        {
            "dimension": Choice([1, 4], "dimension"),
            "moved": Choice([0.0, 0.99], "moved"),
            "size": Choice([1.0], "size"),
        },
        chapter.plot_random_bounds,
        title="A title",
        caption="A caption.",
    )
    assert len(drawn.static_spec()["data"]["values"]) == 4
    stored = Explorer(
        None,
        {
            "pair": Choice(list(chapter.CODES), "pair"),
            "tied": Choice([False, True], "tied"),
            "seed": Range(0, 1, 1, "seed"),
        },
        chapter.plot_bounds,
        title="A title",
        caption="A caption.",
        grid=chapter.bound_curves(tiny),
    )
    assert len(stored.static_spec()["data"]["values"]) == 3 * 2 * 2
    vl_convert.vegalite_to_vega(stored.static_spec(), vl_version="6.4")


def test_captions_name_the_data(tiny):
    assert chapter.data_note(tiny) == "EXor, transformer, d = 4, 2 seeds, 4 steps"
    assert chapter.data_note("paper", n_seeds=5) == "EXor, transformer, d = 4, 5 seeds, 150,000 steps"
