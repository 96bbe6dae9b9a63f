"""The chapter on EXor: what it reads from stored cells, its levels, strings, coins and players."""

import dataclasses
import itertools
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
import torch

from book.tying import exor as chapter
from book.tying.experiments import exor, exor_runs, spellings
from embviz import metrics
from embviz.ledger import cells
from embviz.ledger.cells import Cell, Experiment
from embviz.tasks.exor import ONE_A, SYMBOLS, ZERO_A, ZERO_B, EXor
from embviz.view.explorers import Choice, Explorer, Toggle
from embviz.view.player import Player
from tests.drawing import compiled

N_STEPS = 10
CACHED = (chapter._curves, chapter._sweep, chapter.stored_model)


@pytest.fixture(scope="module", autouse=True)
def results(tmp_path_factory):
    """Real cells of a few steps, stored where the quick ones belong."""
    folder = tmp_path_factory.mktemp("results")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("EMBVIZ_RESULTS_DIR", str(folder))
        patch.setenv("EMBVIZ_CACHE_DIR", str(folder / "cache"))
        for run in chapter.TASKS.values():
            store_short(exor.cell_of(run, "quick"))
        for cell in spellings.sweep_cells("quick"):
            store_short(cell)
        for cached in CACHED:
            cached.cache_clear()
        yield folder
    for cached in CACHED:
        cached.cache_clear()


def store_short(cell: Cell) -> None:
    """What a few steps give, as the result of a cell that has more."""
    table = cell.experiment.function(dataclasses.replace(cell.config, n_steps=N_STEPS))
    short = Experiment(cell.experiment.name, cell.experiment.version, lambda config: table)
    cells.compute(Cell(short, cell.config))


def unpacked(chart) -> pd.DataFrame:
    """The table inside a chart of plot_curves, without the transforms."""
    return pd.DataFrame(chart.to_dict()["data"]["values"][0])


# --- from cells to tables -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("task", "pair"), [("both pairs", "11"), ("both pairs", "00"), ("only 0A and 0B", "00")]
)
@pytest.mark.parametrize("matrix", chapter.MATRICES)
def test_relative_distances_are_those_of_the_stored_embeddings(task, pair, matrix):
    table = chapter.relative_distances(matrix, task)
    end = table[(table["step"] == N_STEPS) & (table["pair"] == chapter.PAIRS[pair])].set_index("seed")
    stored = exor.embeddings(chapter.TASKS[task], "quick")
    u, v = {"11": (2, 3), "00": (0, 1)}[pair]
    one = 2 if task == "only 0A and 0B" else 3  # which spelling of 1 there is
    for seed in (0, 1):
        E = stored[seed, matrix == "tied", "output" if matrix == "untied output" else "input"]
        ratio = np.linalg.norm(E[u] - E[v]) / np.linalg.norm(E[0] - E[one])
        # cells hold single precision, about seven digits
        assert end.loc[seed, "relative_distance"] == pytest.approx(ratio, rel=1e-5)


def test_a_pair_that_a_task_leaves_out_has_no_line():
    assert set(chapter.relative_distances("tied", "only 1A and 1B")["pair"]) == {"1A and 1B"}
    raw = chapter.raw_distances()
    assert (raw.loc[raw["task"] == "only 1A and 1B", "00"] == -1).all()
    assert (raw.loc[raw["task"] == "both pairs", list(chapter.PAIRS)] > 0).all(axis=None)


def test_one_pair_holds_what_the_three_matrices_hold():
    table = chapter.one_pair("11")
    for matrix in chapter.MATRICES:
        own = chapter.relative_distances(matrix)
        expected = own.loc[own["pair"] == "1A and 1B", "relative_distance"]
        assert table.loc[table["matrix"] == matrix, "relative_distance"].tolist() == expected.tolist()


def test_thin_curves_keep_every_fifth_snapshot_and_both_ends():
    assert chapter.curves()["step"].unique().tolist() == [0, 5, 10]
    assert len(chapter.curves(thin=False)["step"].unique()) == N_STEPS + 1


def test_a_packed_chart_holds_the_table_and_names_its_kinds():
    table = chapter.accuracies()
    chart = chapter.plot_curves(table, "accuracy", by="tying", names=chapter.TYINGS)
    packed = unpacked(chart)
    assert [chapter.TYINGS[code] for code in packed["code"]] == table["tying"].tolist()
    np.testing.assert_allclose(packed["accuracy"], table["accuracy"], rtol=5e-4)  # four digits
    data = compiled(chart)["data"]
    assert any(part.get("as") == "tying" for source in data for part in source.get("transform", []))


def test_kinds_that_are_not_named_are_refused():
    with pytest.raises(ValueError, match=r"tying has values that are none of \['tied'\]"):
        chapter.plot_curves(chapter.accuracies(), "accuracy", by="tying", names=["tied"])


def test_closed_and_parted_count_seeds(monkeypatch):
    rows = [(seed, "tied", "0A and 0B", ratio) for seed, ratio in enumerate([0.1, 0.2, 0.21, 0.5])]
    made = pd.DataFrame(rows, columns=["seed", "matrix", "pair", "relative_distance"])
    monkeypatch.setattr(chapter, "final_table", lambda task: made)
    assert chapter.closed("tied", "00") == "2 of 4"
    assert chapter.parted("tied", "00") == "1 of 4"


def test_the_last_distances_and_the_alignment_are_those_of_slow_loops():
    final, table = chapter.final_table(), chapter.curves(thin=False)
    for row in final.itertuples():
        own = table[(table["seed"] == row.seed) & (table["tied"] == (row.matrix == "tied"))].iloc[-1]
        name = "output" if row.matrix == "untied output" else "input"
        pair = {"1A and 1B": "11", "0A and 0B": "00"}[row.pair]
        assert row.relative_distance == own[f"relative_{name}_{pair}"]
    for row in chapter.alignment_table().itertuples():
        own = table[(table["seed"] == row.seed) & (table["tied"] == (row.tying == "tied"))]
        losses = dict(zip(own["step"], own["held_loss_gap"], strict=True))
        assert losses[row.lowest] == min(losses.values())
        assert row.overfit == pytest.approx(losses[N_STEPS] - min(losses.values()))
        assert row.steps_until == N_STEPS  # nothing is close so soon


def test_what_is_not_there_is_refused_with_what_there_is(monkeypatch, tmp_path):
    with pytest.raises(ValueError, match="no task 'none': choose one of both pairs"):
        chapter.curves("none")
    with pytest.raises(ValueError, match="no matrix 'E': choose one of untied input"):
        chapter.relative_distances("E")
    monkeypatch.setenv("EMBVIZ_RESULTS_DIR", str(tmp_path))
    with pytest.raises(ValueError, match=r"run tying\.dh_fails --preset quick"):
        chapter.stored_preset("only 0A and 0B")
    with pytest.raises(FileNotFoundError, match="no sweep over coins is stored"):
        spellings.stored_preset()


# --- accuracy -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("task", chapter.TASKS)
def test_the_best_accuracy_is_that_of_the_exact_distribution_on_the_strings_of_the_runs(task):
    exor_task = exor_runs.SYMBOL_SETS[chapter.TASKS[task].symbols]
    strings = [bits for bits in itertools.product((0, 1), repeat=7) if not all(bits)]
    tokens, probability = exor_task.contexts(np.array(strings))
    expected = probability @ exor_task.conditional(tokens).max(axis=1)
    assert chapter.best_accuracy(task) == pytest.approx(expected)


@pytest.mark.parametrize("wrong", [(), (0,), (1, 6), (0, 2, 3)])
def test_levels_are_accuracies_of_models_that_answer_by_counts(wrong):
    tokens, probability = EXor().contexts(EXor().strings()[:-1])
    exact = EXor().conditional(tokens)
    counts = (
        (tokens[:, :-1] >= ONE_A).sum(1) - 1 + (tokens[:, -1] == SYMBOLS.index("D"))
    )  # the mask is no one
    bit = counts % 2
    answer = np.where(np.isin(counts, wrong), 1 - bit, bit)
    guess = np.where(answer == 1, ONE_A, ZERO_B)
    accuracy = probability @ exact[np.arange(len(exact)), guess]
    levels = chapter.count_levels()
    nearest = levels.loc[(levels["accuracy"] - accuracy).abs().idxmin()]
    assert nearest["accuracy"] == pytest.approx(accuracy)
    assert (", ".join(map(str, wrong)) or "none") in nearest["wrong"].split(" or ")


def test_runs_are_placed_on_their_levels(monkeypatch):
    best = chapter.best_accuracy()
    rows = [(0, False, best), (0, True, best - 0.9 / 127), (1, True, best - 0.9 / 127), (1, False, 0.6999)]
    made = pd.DataFrame(rows, columns=["seed", "tied", "accuracy"]).assign(step=N_STEPS)
    monkeypatch.setattr(chapter, "curves", lambda: made)
    table = chapter.levels_table()
    assert table["counts gone wrong"].tolist() == ["none", "0", ""]
    assert table[["untied", "tied"]].to_numpy().tolist() == [[1, 0], [0, 2], [1, 0]]
    assert table.index[-1] == "between levels"


def test_the_choices_of_five_seeds_are_all_of_them(monkeypatch):
    late = pd.DataFrame({"untied": np.zeros(7), "tied": [-3.0, -1, 0, 1, 2, 5, 8]})
    monkeypatch.setattr(chapter, "final_accuracies", lambda: late)
    slow = sorted(sum(late["tied"][list(five)]) / 5 for five in itertools.combinations(range(7), 5))
    np.testing.assert_allclose(chapter.differences_of_five(), slow)
    compiled(chapter.plot_differences(chapter.differences_of_five()))
    with pytest.raises(ValueError, match="7 seeds are stored, fewer than 8"):
        chapter.differences_of_five(n_seeds=8)


@pytest.mark.parametrize(("shift", "said"), [(0.1, "above"), (-0.1, "below"), (0.0, "do not tell")])
def test_the_sentence_on_accuracy_says_what_the_seeds_say(monkeypatch, shift, said):
    noise = np.array([-0.001, 0.0, 0.001, 0.0005])
    best = chapter.best_accuracy()
    late = pd.DataFrame({"untied": best - 0.005 + noise, "tied": best - 0.005 + shift + noise[::-1]})
    monkeypatch.setattr(chapter, "final_accuracies", lambda task: late)
    sentence = chapter.accuracy_finding()
    assert said in sentence
    assert sentence.startswith("Of 4 seeds 4 end within 0.01")


def test_an_optimal_model_scores_what_counting_says(monkeypatch):
    answers = ["0A", "0B", "0B", "0B", "1A", "1A", "1B"]
    gauge = SimpleNamespace(answers=torch.tensor([SYMBOLS.index(symbol) for symbol in answers]))
    monkeypatch.setattr(chapter, "prepare", lambda run: SimpleNamespace(gauge=gauge))
    table = chapter.sample_scores()
    assert table["right"].tolist() == [5, 4, 6]
    assert table["strings"].tolist() == [7, 7, 7]


def test_the_authors_sample_has_twelve_strings():
    assert set(chapter.sample_scores()["strings"]) == {12}


def test_sampled_accuracies_are_the_stored_ones():
    table = chapter.accuracies(sampled=True)
    assert (np.round(table["accuracy"] * 12, 4) % 1 == 0).all()
    assert (table["accuracy"] != chapter.accuracies()["accuracy"]).any()


# --- strings --------------------------------------------------------------------------------------------


def test_a_model_that_answers_exactly_has_every_bit_right_and_one_that_says_0b_the_zeros(monkeypatch):
    monkeypatch.setattr(chapter, "stored_model", lambda seed, tied: EXor().conditional)
    np.testing.assert_allclose(chapter.right_bits()["probability"], 1)
    always = np.eye(len(SYMBOLS))[ZERO_B]
    monkeypatch.setattr(
        chapter, "stored_model", lambda seed, tied: lambda tokens: np.tile(always, (len(tokens), 1))
    )
    table = chapter.right_bits()
    np.testing.assert_allclose(table["probability"], 1 - table["ones"] % 2)
    assert sorted(set(zip(table["ones"], table["parity"], strict=True))) == [
        (0, "E"), *((m, p) for m in range(1, 7) for p in "DE"),
    ]  # fmt: skip


def test_a_stored_model_answers_as_the_model_that_was_measured():
    table, _ = cells.read(exor.cell_of(exor.MAIN, "quick"))
    gauge = exor_runs.prepare(dataclasses.replace(exor.MAIN, n_seeds=1)).gauge
    for seed, tied in itertools.product((0, 1), (False, True)):
        guess = chapter.stored_model(seed, tied)(gauge.sample.numpy()).argmax(1)
        share = (guess == gauge.answers.numpy()).mean()
        rows = table[(table["seed"] == seed) & (table["tied"] == tied) & (table["step"] == N_STEPS)]
        stored = rows.loc[rows["quantity"] == "sampled_accuracy", "value"].item()
        assert share == pytest.approx(stored, abs=1e-6)


def test_the_strings_to_choose_from_are_distinct_and_of_the_task():
    strings = chapter.masked_strings()
    tokens = np.concatenate([chapter.read_string(text) for text in strings])
    assert len({tuple(row) for row in tokens}) == len(strings) == 28


def test_a_context_shows_the_exact_answer_beside_the_models():
    table = chapter.context_table("1A 0B 0B ? 1B 0A 1B D")  # three ones, D: a zero is missing
    assert table["exact"].to_dict() | {} == {"0A": 0.1, "0B": 0.9, **dict.fromkeys(SYMBOLS[2:], 0.0)}
    np.testing.assert_allclose(table.sum(), 1, atol=0.04)  # seven numbers of two digits
    measured = chapter.measured_context("1A 0B 0B ? 1B 0A 1B D", 1)
    assert measured["symbol"].tolist() == ["0A", "0B", "1A", "1B", "other"]
    assert measured["tied"].tolist()[:4] == table["tied, seed 1"].tolist()[:4]


@pytest.mark.parametrize(
    ("text", "message"),
    [("1A 0C ?", "'0C' is no symbol"), ("1A ? E", "tokens must be"), ("1A " * 7 + "E", "one mask")],
)
def test_strings_that_are_none_are_refused(text, message):
    with pytest.raises(ValueError, match=message):
        chapter.read_string(text)


def test_exchanging_zeros_and_ones_turns_the_text_s_task_of_c2_into_the_program_s():
    text, program = EXor(p_1a=1.0), EXor(p_0a=1.0, p_1a=0.1)
    tokens, _ = text.contexts()
    exchange = np.array([2, 3, 0, 1, 5, 4, 6])  # 0A and 1A, 0B and 1B, E and D: 7 bits turn the parity
    np.testing.assert_array_equal(
        text.conditional(tokens)[:, exchange], program.conditional(exchange[tokens])
    )


# --- coins ----------------------------------------------------------------------------------------------


def test_a_sweep_of_the_paper_s_coin_is_the_paper_s_run_at_another_rate(monkeypatch):
    sweep = spellings.Sweep(0.1, n_steps=20, n_seeds=1, learning_rate=5e-3)
    run = exor_runs.EXorRun(n_steps=20, n_seeds=1, learning_rate=5e-3)
    session = exor_runs.prepare(run)
    session.optimizer = dataclasses.replace(session.optimizer, half_period=20)
    monkeypatch.setattr(exor_runs, "prepare", lambda config: session)
    swept, stored = spellings.exor_sweep.function(sweep), exor_runs.exor.function(run)
    keys = ["seed", "tied", "step", "quantity"]
    both = swept.merge(stored, on=keys, suffixes=("", "_stored"))
    assert len(both) == len(swept)
    np.testing.assert_array_equal(both["value"], both["value_stored"])


def test_the_rate_of_a_sweep_only_falls():
    optimizer = spellings.sweep_session(spellings.Sweep(n_steps=100, n_seeds=1)).optimizer
    rates = [optimizer.rate(step) for step in range(101)]
    assert rates == sorted(rates, reverse=True)
    assert rates[0] == pytest.approx(50 * rates[-1])  # as far as the paper's falls


def test_sweep_pictures_are_the_embeddings_whose_distances_the_curves_hold():
    table = spellings.sweep_curves("quick")
    assert sorted(table["p_0a"].unique()) == [0.1, 0.5]
    for (coin, tied, matrix), (steps, E) in spellings.sweep_pictures("quick").items():
        own = table[(table["p_0a"] == coin) & (table["tied"] == tied) & (table["seed"] == 0)]
        assert steps == own["step"].tolist() == list(range(N_STEPS + 1))
        distance = np.linalg.norm(E[:, ZERO_A] - E[:, ZERO_B], axis=1)
        np.testing.assert_allclose(own[f"{matrix}_00"], distance, rtol=1e-5)  # single precision
        unrelated = np.linalg.norm(E[:, 0] - E[:, 3], axis=1)
        np.testing.assert_allclose(own[f"relative_{matrix}_00"], distance / unrelated, rtol=1e-5)


def test_coins_at_the_end_are_the_last_rows_of_the_curves():
    table = spellings.sweep_curves("quick")
    last = table[(table["step"] == N_STEPS) & (table["p_0a"] == 0.5) & table["tied"]].iloc[0]
    untied = table[(table["step"] == N_STEPS) & (table["p_0a"] == 0.5) & ~table["tied"]].iloc[0]
    ends = chapter.coins_at_the_end("relative_distance", "11")
    for matrix, row, name in (
        ("tied", last, "input"), ("untied input", untied, "input"), ("untied output", untied, "output")
    ):  # fmt: skip
        own = ends[(ends["p_0a"] == 0.5) & (ends["matrix"] == matrix)]
        assert own["relative_distance"].tolist() == [row[f"relative_{name}_11"]]
    gaps = chapter.coins_at_the_end("accuracy_gap")
    tied = gaps[(gaps["p_0a"] == 0.5) & (gaps["tying"] == "tied")]
    # with two fair coins the best accuracy is one half, whatever the strings
    assert tied["accuracy_gap"].tolist() == pytest.approx([0.5 - last["accuracy"]])
    assert chapter.coins() == [0.5, 0.1]


def test_the_sentence_on_close_pairs_counts_them_by_coin_and_matrix(monkeypatch):
    distances = {
        0.5: {"untied input": [0.1, 0.1], "untied output": [0.2, 0.9], "tied": [0.3, 0.9]},
        0.1: {"untied input": [0.1, 0.3], "untied output": [0.9, 0.9], "tied": [0.0, 0.9]},
    }
    made = [
        {"p_0a": coin, "matrix": matrix, "seed": seed, "relative_distance": distance}
        for coin, by_matrix in distances.items() for matrix, row in by_matrix.items()
        for seed, distance in enumerate(row)
    ]  # fmt: skip
    monkeypatch.setattr(chapter, "coins_at_the_end", lambda quantity: pd.DataFrame(made))
    assert chapter.coins_closed_finding() == (
        "Seeds of 2 that end with 0A and 0B close: under p(0A) = 0.5 input 2, output 1, tied 0; "
        "under p(0A) = 0.1 input 1, output 0, tied 1"
    )


def test_the_sentence_on_coins_pairs_each_seed_and_averages_over_coins(monkeypatch):
    tied = {0.5: [0.1, 0.3], 0.1: [0.2, 0.6]}  # by coin, a number a seed; untied models miss nothing
    made = [
        {"p_0a": coin, "seed": seed, "tying": tying, "accuracy_gap": gap if tying == "tied" else 0.0}
        for coin, gaps in tied.items() for seed, gap in enumerate(gaps) for tying in ("tied", "untied")
    ]  # fmt: skip
    monkeypatch.setattr(chapter, "coins_at_the_end", lambda quantity: pd.DataFrame(made))
    # seeds: (0.1 + 0.2) / 2 and (0.3 + 0.6) / 2, of mean 0.3; half the interval is 12.706 times 0.15
    assert chapter.coins_finding() == (
        "Over all coins the tied model is 0.30 farther from the best accuracy (-1.61 to 2.21), "
        "under the fair one 0.20 (-1.07 to 1.47)"
    )


# --- players --------------------------------------------------------------------------------------------


def made_plane(S=3, seed=0) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=(S, len(SYMBOLS), 2))


def frames_of(plane) -> pd.DataFrame:
    curves = pd.DataFrame({"accuracy": np.linspace(0, 0.7, len(plane)), "loss_gap": 0.5})
    return chapter.plane_frames({"input": plane, "output": 2 * plane}, range(len(plane)), curves)


def test_every_frame_is_centred_on_its_bits_and_scaled_by_their_spread():
    plane = made_plane()
    table = frames_of(plane)
    for frame, rows in table.groupby("frame"):
        bits = plane[frame, :4] - plane[frame, :4].mean(axis=0)
        spread = np.sqrt((bits**2).sum(axis=1).mean())
        shown = rows[["x_input", "y_input"]].to_numpy()[:4]
        np.testing.assert_allclose(shown, np.clip(bits / spread, -chapter.EDGE, chapter.EDGE))
    assert table[["x_input", "y_input"]].abs().to_numpy().max() <= chapter.EDGE


def test_a_matrix_that_shrinks_or_moves_as_a_whole_draws_the_same_picture():
    plane = made_plane()
    moved = plane * np.array([1.0, 0.1, 0.01])[:, None, None] + 7.0
    columns = ["x_input", "y_input", "x_output", "y_output"]
    np.testing.assert_allclose(frames_of(moved)[columns], frames_of(plane)[columns], atol=1e-9)


def test_turning_a_plane_back_finds_the_frame_before():
    plane = made_plane(1)
    angle = 2.0
    turn = np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])
    for turned in (plane @ turn, plane @ turn * [1, -1]):
        np.testing.assert_allclose(chapter.turned_to(turned, plane), plane, atol=1e-12)


@pytest.mark.parametrize("tied", [False, True])
def test_live_frames_fit_the_recording_and_show_the_runs_start(tied):
    recording = chapter.coin_frames([0.5, 0.1])
    live = chapter.live_frames(0.3, tied, every=5)
    first, second = next(live), next(live)
    live.close()
    assert [frame["frame"].unique().tolist() for frame in (first, second)] == [[0], [5]]
    assert set(first.columns) == set(recording.columns) - {"p_0a", "tied"}
    assert np.isfinite(second.select_dtypes("number")).all(axis=None)
    if tied:  # one matrix in both planes
        np.testing.assert_array_equal(second[["x_input", "y_input"]], second[["x_output", "y_output"]])


def test_recorded_frames_hold_each_run_s_own_curves():
    frames, table = chapter.recorded_frames(every=3), chapter.curves(thin=False)
    own = frames[(frames["seed"] == 1) & frames["tied"] & (frames["symbol"] == "E")]
    expected = table[(table["seed"] == 1) & table["tied"]]
    expected = expected[expected["step"].isin([1, 4, 7, 10])]  # every third, counted from the last
    assert own["frame"].tolist() == expected["step"].tolist() == [1, 4, 7, 10]
    assert own["accuracy"].tolist() == expected["accuracy"].tolist()
    E = exor.embeddings(chapter.TASKS["both pairs"], "quick")[1, True, "input"]  # (V, 4), last step
    plane = metrics.principal_plane(E[None])[0]
    bits = plane[:4] - plane[:4].mean(axis=0)
    shown = frames[(frames["frame"] == 10) & (frames["seed"] == 1) & frames["tied"]]
    expected_x = np.clip(bits[:, 0] / np.sqrt((bits**2).sum(axis=1).mean()), -chapter.EDGE, chapter.EDGE)
    np.testing.assert_allclose(shown["x_input"].to_numpy()[:4], expected_x, atol=1e-9)


def test_players_and_explorers_can_be_drawn():
    tied = Toggle("tied")
    for frames, control, live in (
        (chapter.recorded_frames(), {"seed": Choice([1, 0], "seed")}, None),
        (chapter.coin_frames([0.5, 0.1]), {"p_0a": Choice(chapter.coins(), "coin")}, chapter.live_frames),
    ):
        player = Player(
            frames, chapter.plot_frames(N_STEPS), title="t", caption="c", controls={**control, "tied": tied},
            curves=["accuracy", "loss_gap"], live=live, digits=3,
        )  # fmt: skip
        compiled(player)
    for controls, draw, grid in (
        ({"task": Choice(list(chapter.TASKS), "task")}, chapter.plot_raw, chapter.raw_distances()),
        (
            {"p_0a": Choice(chapter.coins(), "coin"), "matrix": Choice(list(chapter.MATRICES), "matrix")},
            chapter.plot_coin,
            chapter.coin_curves(),
        ),
    ):
        compiled(Explorer(None, controls, draw, title="t", caption="c", grid=grid))
    strings = Choice(chapter.masked_strings()[:3], "string")
    controls = {"string": strings, "seed": Choice([0, 1], "seed")}
    compiled(Explorer(chapter.measured_context, controls, chapter.plot_context, title="t", caption="c"))


def test_every_chart_can_be_drawn():
    compiled(chapter.plot_relative(chapter.relative_distances("tied"), by="pair"))
    compiled(chapter.plot_relative(chapter.one_pair("00", "only 0A and 0B"), by="matrix"))
    compiled(chapter.plot_accuracy(chapter.accuracies(sampled=True), best=0.7))
    compiled(chapter.plot_final())
    compiled(chapter.plot_torn())
    compiled(chapter.plot_final_accuracies())
    compiled(chapter.plot_alignment(chapter.alignment_table()))
    compiled(chapter.plot_right_bits(chapter.right_bits()))
    for quantity, by in (("relative_distance", "matrix"), ("accuracy_gap", "tying")):
        compiled(chapter.plot_at_the_end(chapter.coins_at_the_end(quantity), by=by))


# --- parity symbols, readings ---------------------------------------------------------------------------


def test_a_parity_symbol_that_lies_on_its_bit_has_distance_zero(monkeypatch):
    E = np.zeros((7, 4))
    E[[0, 1], 0] = [1.0, 3.0]  # zeros about 2
    E[[2, 3], 0] = [-1.0, -3.0]  # ones about -2
    E[4, 0], E[5, 0] = 2.0, 0.0  # E on the zeros, D halfway
    made = {(0, tied, name): E for tied in (False, True) for name in ("input", "output")}
    monkeypatch.setattr(exor, "embeddings", lambda run, preset: made)
    table = chapter.parity_table()
    assert table.index.tolist() == list(chapter.MATRICES)
    assert table.loc["tied"].to_dict() == {"E and 0": 0.0, "D and 1": 0.5, "E and 1": 1.0, "D and 0": 0.5}


def test_readings_that_are_not_stored_say_so_and_others_show_what_is_stored():
    table = chapter.readings_table("quick")
    assert table.index.tolist() == list(exor_runs.READINGS)
    assert (table["seeds"].iloc[1:] == "not stored").all()
    late = chapter.final_accuracies()
    gap = chapter.best_accuracy() - late["tied"].mean()
    assert float(table.loc["program", "accuracy gap, tied"]) == pytest.approx(gap, abs=6e-4)
    final = chapter.final_table()
    rows = final[(final["matrix"] == "tied") & (final["pair"] == "0A and 0B")]
    expected = rows["relative_distance"].mean()
    assert float(table.loc["program", "0A and 0B, tied"]) == pytest.approx(expected, abs=6e-3)
