"""The chapter on other architectures: parameters, arrivals of pairs, order of bits, side by side."""

import json

import altair as alt
import numpy as np
import pandas as pd
import pytest
import torch

from book.tying import architectures as chapter
from book.tying.experiments import exor
from book.tying.experiments.exor_runs import SIZES, EXorRun
from embviz.ledger import findings
from embviz.models.stacked import StackedEncoder
from embviz.tasks.exor import MASK, EXor
from embviz.view.explorers import Choice, Explorer
from tests.drawing import compiled, drawn

STEPS = np.arange(0, 1010, 10)


def made_curves(fall: dict[str, float], *, n_seeds: int = 3, jitter: float = 0.0) -> pd.DataFrame:
    """Curves as the cells give them: each distance 2 exp(-fall * step), a row a seed, tying and step."""
    rng = np.random.default_rng(0)
    parts = []
    for seed in range(n_seeds):
        for tied in (False, True):
            part = {"seed": seed, "tied": tied, "step": STEPS, "accuracy": 0.5 + 0.1 * tied + 0.001 * seed}
            for matrix in ("input", "output"):
                for pair in chapter.PAIRS:
                    name = "tied" if tied else matrix
                    rate = fall.get(f"{name}_{pair}", 0.0)
                    noise = np.exp(jitter * rng.standard_normal(len(STEPS)))
                    part[f"{matrix}_{pair}"] = 2 * np.exp(-rate * STEPS) * noise
            parts.append(pd.DataFrame(part))
    return pd.concat(parts, ignore_index=True)


@pytest.fixture
def stored(monkeypatch):
    """Puts made curves in place of the stored ones, the same for every model."""

    def put(table: pd.DataFrame) -> None:
        monkeypatch.setattr(chapter, "stored_preset", lambda model: "paper")
        monkeypatch.setattr(chapter, "stored_models", lambda: list(chapter.MODELS))
        monkeypatch.setattr(chapter, "_curves", lambda model, preset: table)

    return put


@pytest.fixture
def one_model(monkeypatch):
    """The Mixer alone, since six models take six times as long."""
    monkeypatch.setattr(chapter, "MODELS", {"Mixer": exor.MIXER})


# --- the models ---------------------------------------------------------------------------------------


def weights_by_hand(architecture: str, layers: int, d: int, h: int, t: int) -> int:
    """Parameters between the embeddings, counted from the equations; strings have 8 symbols."""
    if architecture == "transformer":
        attention, feed_forward, norms = 4 * (d * d + d), d * h + h + h * d + d, 2 * 2 * d
        return layers * (attention + feed_forward + norms)
    if architecture == "mixer":
        tokens, channels, norms = 8 * t + t + t * 8 + 8, d * h + h + h * d + d, 2 * 2 * d
        return layers * (tokens + channels + norms)
    inputs = [d] + [2 * h] * (layers - 1)
    # four gates, each with two bias vectors, in two directions
    return sum(2 * 4 * (i * h + h * h + 2 * h) for i in inputs) + 2 * h * d + d


@pytest.mark.parametrize(("architecture", "size"), SIZES)
def test_parameters_are_those_of_the_equations_and_tying_saves_one_embedding(architecture, size):
    shape = SIZES[architecture, size]
    d = shape.embedding_dim
    between = weights_by_hand(architecture, shape.n_layers, d, shape.hidden_dim, shape.token_dim)
    assert chapter.count_parameters(shape, tied=False) == between + 2 * 7 * d
    assert chapter.count_parameters(shape, tied=True) == between + 7 * d


def test_the_six_models_are_those_of_appendix_c():
    table = chapter.models_table()
    assert table["layers"].tolist() == [1, 2, 1, 2, 4, 2]
    assert table["d"].tolist() == [4, 4, 4, 32, 32, 32]
    assert table["where"].tolist() == ["5", "C.4", "C.5", "C.3", "C.6", "C.6"]
    assert table.loc["LSTM", "not in the text"] == "state of 8 a direction"


# --- stored runs --------------------------------------------------------------------------------------


def test_a_model_without_stored_runs_is_refused_with_the_command_that_makes_them(monkeypatch, tmp_path):
    monkeypatch.setenv("EMBVIZ_RESULTS_DIR", str(tmp_path))
    with pytest.raises(ValueError, match=r"no run of the larger LSTM is stored: `embviz run tying\.larger"):
        chapter.stored_preset("larger LSTM")
    with pytest.raises(ValueError, match="no model 'GRU': choose one of transformer, LSTM, Mixer"):
        chapter.stored_preset("GRU")


def test_what_is_not_stored_is_called_so_and_left_out(monkeypatch, tmp_path):
    monkeypatch.setenv("EMBVIZ_RESULTS_DIR", str(tmp_path))
    assert chapter.stored_models() == []
    assert set(chapter.settings_table()["steps, ours"]) == {"not run"}
    for chart in (chapter.plot_accuracy("LSTM"), chapter.plot_distances("larger LSTM")):
        compiled(chart)
        assert chart.to_dict()["usermeta"]["embviz"]["title"].endswith(": not measured")


def test_a_caption_says_where_a_run_stops_short(monkeypatch):
    monkeypatch.setattr(chapter, "stored_models", lambda: list(chapter.MODELS))
    monkeypatch.setattr(chapter, "stored_preset", lambda model: "paper")
    assert chapter.scale_note("transformer") == "EXor, 5 seeds, the paper's 150,000 steps"
    assert set(chapter.settings_table()["steps, ours"]) == {"150,000"}
    short = EXorRun("lstm", "medium", n_steps=15_000, n_seeds=2)
    monkeypatch.setattr(exor, "at_preset", lambda run, preset: short)
    note = "EXor, 2 of the paper's 5 seeds, the first 15,000 of the paper's 150,000 steps"
    assert chapter.scale_note("larger LSTM") == note


@pytest.mark.parametrize("n_points", [2, 7, 101, 500])
def test_thinning_keeps_both_ends_and_no_more_than_asked(n_points):
    table = chapter.thinned(pd.DataFrame({"step": STEPS}), n_points)
    assert table["step"].iloc[[0, -1]].tolist() == [0, 1000]
    assert len(table) == min(n_points, len(STEPS))


def test_each_matrix_shows_its_own_distances(stored):
    stored(made_curves({"input_11": 0.01, "output_11": 0.02, "tied_11": 0.03, "output_01": 0.001}))
    table = chapter.distance_table("LSTM", n_points=None)
    for matrix, name in (("untied input", "input"), ("untied output", "output"), ("tied", "tied")):
        rows = table[(table["matrix"] == matrix) & (table["seed"] == 1)]
        rate = {"input": 0.01, "output": 0.02, "tied": 0.03}[name]
        assert rows["11"].to_numpy() == pytest.approx(2 * np.exp(-rate * STEPS))
        unrelated = 0.001 if name == "output" else 0.0
        assert rows["01"].to_numpy() == pytest.approx(2 * np.exp(-unrelated * STEPS))


# --- what the curves come to ----------------------------------------------------------------------------


def test_the_finding_names_the_matrices_that_are_close_and_those_that_are_apart(stored):
    stored(
        made_curves(
            {"input_11": 0.01, "output_11": 0.01, "tied_11": 0.01, "input_00": 0.01, "tied_00": 0.001}
        )
    )
    assert chapter.distances_finding("LSTM") == (
        "LSTM, at the end: 1A-1B close in all three matrices; 0A-0B close in the untied input matrix and "
        "apart in the untied output matrix"
    )


@pytest.mark.parametrize(
    ("spread", "shift", "said"),
    [
        (0.0001, 0.05, "tied ends ahead of untied; the better mean comes within 0.01"),
        (0.0001, -0.05, "tied ends behind untied; neither mean comes within"),
        (0.1, 0.001, "the seeds do not tell tied from untied"),
    ],
)
def test_accuracies_are_told_apart_only_where_their_seeds_are(stored, spread, shift, said):
    table = made_curves({}, n_seeds=5)
    table["accuracy"] = 0.65 + table["tied"] * (shift + spread * (table["seed"] - 2))
    stored(table)
    assert said in chapter.accuracy_finding("Mixer")


def test_the_best_accuracy_is_the_mean_over_all_masked_strings():
    strings = EXor().strings()[:-1]
    best = [0.5 if bit else 0.9 for string in strings for bit in string]
    assert chapter.best_accuracy() == pytest.approx(np.mean(best))


# --- how soon -------------------------------------------------------------------------------------------


def slow_arrival(share: np.ndarray) -> tuple[int, bool]:
    """The definition: the first snapshot at which a pair is close, there and at the next one."""
    for index, value in enumerate(share):
        following = share[index + 1] if index + 1 < len(share) else value
        if value <= 0.2 and following <= 0.2:
            return int(STEPS[index]), True
    return int(STEPS[-1]), False


def test_arrivals_are_those_of_a_loop_over_the_snapshots(stored, one_model):
    curves = made_curves(
        {"input_11": 0.002, "output_11": 0.003, "tied_11": 0.0016, "input_01": 3e-4}, jitter=0.3
    )
    stored(curves)
    table = chapter.closing_table().set_index(["model", "matrix", "pair", "measure", "seed"])
    n_reached = 0
    for seed in range(3):
        for matrix, name, tied in (("untied input", "input", False), ("tied", "output", True)):
            rows = curves[(curves["seed"] == seed) & (curves["tied"] == tied)]
            pair = rows[f"{name if not tied else 'input'}_11"].to_numpy()
            unrelated = rows[f"{name if not tied else 'input'}_01"].to_numpy()
            for measure, share in (("relative", pair / unrelated), ("raw", pair / pair[0])):
                row = table.loc[("Mixer", matrix, "1A-1B", measure, seed)]
                assert (row["steps_until"], row["reached"]) == slow_arrival(share)
                n_reached += bool(row["reached"])
    assert 0 < n_reached < 12  # both cases occur


def test_shrinking_all_distances_alike_moves_no_relative_arrival_and_fools_the_raw_one(stored, one_model):
    falls = {f"{matrix}_{pair}": 0.003 for matrix in ("input", "output", "tied") for pair in chapter.PAIRS}
    stored(made_curves(falls))
    reached = chapter.closing_table().groupby("measure")["reached"].mean()
    assert reached.to_dict() == {"relative": 0.0, "raw": 1.0}


def test_the_summary_says_when_the_median_lies_beyond_the_run():
    base = {"model": "LSTM", "pair": "1A-1B", "measure": "relative"}
    rows = [
        {**base, "matrix": matrix, "seed": seed, "steps_until": steps, "reached": reached}
        for matrix, times in (
            ("untied input", [(10, True), (20, True), (900, False)]),
            ("untied output", [(10, True), (900, False), (900, False)]),
            ("tied", [(900, True), (900, True), (900, False)]),
        )
        for seed, (steps, reached) in enumerate(times)
    ]
    summary = chapter.closing_summary(pd.DataFrame(rows))
    assert summary.iloc[0].tolist() == ["20 (2/3)", ">900 (1/3)", "900 (2/3)"]


def test_the_order_of_arrival_counts_who_never_arrives_as_last():
    rows = [
        {"model": model, "matrix": "untied input", "pair": "1A-1B", "measure": "relative", "seed": 0,
         "steps_until": steps, "reached": reached}
        for model, steps, reached in (("transformer", 500, True), ("LSTM", 100, False), ("Mixer", 300, True))
    ]  # fmt: skip
    finding = chapter.closing_finding(pd.DataFrame(rows))
    assert "the Mixer is first" in finding
    assert finding.endswith("then the transformer; never: the LSTM")


# --- panels -------------------------------------------------------------------------------------------


def panel_spec(shown: str) -> dict:
    spec = chapter.plot_distances("LSTM").to_dict()
    for param in spec["params"]:
        if param["name"] == "shown":
            param["value"] = shown
    return spec


@pytest.mark.parametrize("shown", ["relative", "raw"])
def test_the_panels_draw_means_and_students_intervals_where_the_axis_says(stored, shown):
    stored(made_curves({"input_11": 0.003, "output_00": 0.002, "tied_11": 0.001}, jitter=0.1))
    spec = panel_spec(shown)
    table = chapter.distance_table("LSTM").query("step == 1000")
    top = 2.0 if shown == "relative" else 4.0
    per_unit = spec["height"] / (3 * chapter.PANEL + 0.2)
    ends = {}
    for corner in drawn(spec, "area"):
        words = dict(part.split(": ") for part in corner["description"].split("; "))
        if words["step"] in ("1000", "1,000"):
            heights = [(spec["height"] - corner[side]) / per_unit for side in ("y", "y2")]
            ends[words["matrix"], words["pair"]] = heights
    assert len(ends) == 9
    for (matrix, pair), heights in ends.items():
        code = {name: code for code, name in chapter.PAIRS.items()}[pair]
        rows = table[table["matrix"] == matrix]
        values = rows[code] / rows["01"] if shown == "relative" else rows[code]
        finding = findings.over_seeds(values.to_numpy())
        base = chapter.PANEL * (2 - chapter.MATRICES.index(matrix))
        expected = [base + np.clip(end / top, 0, 1) for end in (finding.low, finding.high)]
        assert heights == pytest.approx(expected, abs=1e-3)  # values are kept to four digits


def test_the_explorer_lays_the_three_architectures_over_each_other(stored):
    stored(made_curves({"input_11": 0.003}))
    explorer = Explorer(
        chapter.architectures_curves,
        {"size": Choice(["small", "medium"], "size")},
        chapter.plot_architectures,
        title="t",
        caption="c",
    )
    spec = explorer.static_spec()
    compiled(spec)
    lines = {line["description"].split("architecture: ")[1].split(";")[0] for line in drawn(spec, "line")}
    assert lines == set(chapter.ARCHITECTURES)
    with pytest.raises(ValueError, match="no size 'huge': choose small or medium"):
        chapter.architectures_curves("huge")


def test_every_other_chart_compiles(stored, one_model):
    stored(made_curves({"input_11": 0.003}))
    compiled(chapter.plot_accuracy("Mixer"))
    closing = chapter.plot_closing_steps(chapter.closing_table())
    compiled(closing)
    assert isinstance(closing, alt.LayerChart)


# --- order ----------------------------------------------------------------------------------------------


def test_shuffling_keeps_the_counts_the_mask_and_the_parity():
    tokens = chapter.shuffled_strings(5, 12)
    assert (np.sort(tokens[:, :, :-1], axis=2) == np.sort(tokens[:, :1, :-1], axis=2)).all()
    assert ((tokens == MASK).sum(axis=2) == 1).all()
    assert (tokens[:, :, -1] == tokens[:, :1, -1]).all()
    own = EXor().conditional(tokens[:, 0])
    assert len({tuple(row) for row in tokens[0]}) > 6
    for order in range(12):
        assert EXor().conditional(tokens[:, order]) == pytest.approx(own)


def test_no_order_of_the_bits_changes_what_a_transformer_says_and_some_change_the_others():
    tokens = chapter.shuffled_strings(3, 20)
    spans = {}
    for model in chapter.ARCHITECTURES:
        encoder = chapter.small_encoder(model, trained=False)
        answers = chapter.probability_of_one(encoder, tokens.reshape(-1, 8)).reshape(3, 20)
        spans[model] = np.ptp(answers, axis=1).max()
    assert spans["transformer"] < 1e-6  # sums in another order
    assert spans["LSTM"] > 1e-3
    assert spans["Mixer"] > 0.05


def test_the_probability_of_a_one_is_that_of_both_spellings_at_the_mask():
    encoder = chapter.small_encoder("LSTM", trained=False, tied=True)
    tokens, _ = EXor().sample_contexts(4, np.random.default_rng(3))
    answers = chapter.probability_of_one(encoder, tokens)
    for row, answer in zip(tokens, answers, strict=True):
        place = row.tolist().index(MASK)
        weights = np.exp(encoder(torch.tensor(row[None].astype(int))).detach().numpy()[0, place])
        assert answer == pytest.approx((weights[2] + weights[3]) / weights.sum(), abs=1e-6)


def test_larger_models_are_not_kept_whole():
    with pytest.raises(ValueError, match="the larger LSTM is not kept whole: choose one of transformer"):
        chapter.small_encoder("larger LSTM", trained=True)


def test_the_finding_on_order_says_for_whom_it_matters():
    rows = [
        {"model": model, "state": state, "string": 0, "probability": probability}
        for model, change in (("transformer", 0.0), ("LSTM", 0.2), ("Mixer", 0.3))
        for state in ("untrained", "trained")
        for probability in (0.5, 0.5 + change)
    ]
    table = pd.DataFrame(rows)
    assert chapter.order_summary(table)["untrained"].tolist() == [0.0, 0.2, 0.3]
    assert chapter.order_finding(table).startswith("No order of the bits changes the transformer's answer")
    assert chapter.order_finding(table).endswith("it does change the LSTM's and the Mixer's")
    compiled(chapter.plot_orders(table))


# --- side by side ---------------------------------------------------------------------------------------


def test_models_side_by_side_are_what_each_is_alone():
    assert (chapter.side_by_side(4) == "yes").all(axis=None)


def test_models_that_mix_are_noticed(monkeypatch):
    honest = StackedEncoder.forward

    def mixing(self, tokens, places):
        encoded = honest(self, tokens, places)
        return type(encoded)(encoded.encodings, encoded.logits + 0.1 * encoded.logits.mean(0))

    monkeypatch.setattr(StackedEncoder, "forward", mixing)
    assert (chapter.side_by_side(4) == "no").all(axis=None)


def test_speeds_come_from_the_stored_table_or_are_called_not_measured(monkeypatch, tmp_path):
    monkeypatch.setenv("EMBVIZ_RESULTS_DIR", str(tmp_path))
    assert "not measured" in chapter.speed_rows().index[0]
    row = {"job": "EXor, 10 runs", "ours": 1200.0, "peer": 100.0, "ratio": 12.0, "unit": "steps/s"}
    (tmp_path / "bench").mkdir()
    stored_row = {**row, "peer_name": "one after the other", "bar": "6 times"}
    (tmp_path / "bench" / "EXor__10_runs.json").write_text(json.dumps(stored_row))
    table = chapter.speed_rows()
    assert table.loc["EXor, 10 runs", "ratio"] == "12"
    assert table.loc["EXor, 10 runs", "ours"] == "1,200 steps/s"
