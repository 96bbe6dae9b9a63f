"""The chapter on steered gradients: times and tables from what is stored, spectra, Adam's first steps."""

import dataclasses
import math
import statistics

import numpy as np
import pandas as pd
import pytest
import torch

from book.geometry import steering as chapter
from book.geometry.experiments import queries, steering
from book.geometry.experiments.grokking import spectrum_epochs
from embviz.ledger import cells
from embviz.ledger.cells import Cell, Experiment
from embviz.models.transformer import Transformer
from embviz.training.fourier import Prescribed, power_spectrum
from embviz.view.explorers import Choice, Explorer, Range
from embviz.view.player import Player
from tests.drawing import compiled

LIMIT = steering.LIMITS["quick"]
# epochs to grok and to memorize by seed, None where it never happens
MADE = {
    "near-Nyquist": [(3, 2), (4, 3)],
    "adaptive 5": [(6, 2)],
    "{1, 14, 41}": [(5, 4), (7, 4)],
    "baseline": [(9, 5), (None, 6)],
}


@pytest.fixture(scope="module", autouse=True)
def results(tmp_path_factory):
    """Made-up runs, stored where the quick ones belong; of some variants only."""
    folder = tmp_path_factory.mktemp("results")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("EMBVIZ_RESULTS_DIR", str(folder))
        for name, times in MADE.items():
            for cell, (grok, memorize) in zip(chapter.cells_of(name, "quick"), times, strict=False):
                store(cell, made_table(cell.config, grok, memorize))
        yield folder
    chapter._table.cache_clear()


def made_table(config, grok, memorize) -> pd.DataFrame:
    seed, rows = config.first_seed, []
    rng = np.random.default_rng([seed, config.top_k, *config.modes])
    for epoch in range(LIMIT + 1):
        accuracies = [
            (0.97 if event is not None and epoch >= event else 0.2) + 0.001 * epoch
            for event in (grok, memorize)
        ]
        accuracies[1] += 0.02  # above 0.99 once memorized
        for name, value in zip(("validation_accuracy", "train_accuracy"), accuracies, strict=True):
            rows.append((seed, epoch, name, value))
        if epoch in spectrum_epochs(LIMIT):
            embedding = embedding_of(config, rng)
            powers = power_spectrum(torch.from_numpy(embedding))
            rows += [(seed, epoch, f"power/{mode}", float(power)) for mode, power in enumerate(powers)]
    rows += [(seed, LIMIT, f"embedding/{i}", float(x)) for (i, _), x in np.ndenumerate(embedding)]
    return pd.DataFrame(rows, columns=["seed", "epoch", "quantity", "value"])


def embedding_of(config, rng) -> np.ndarray:
    """What decay left of the start, and something random that the projection keeps."""
    start = Transformer(config.shape, seed=config.first_seed).embedding.detach()[: config.p]
    added = 3 * start.std().double() * torch.from_numpy(rng.normal(size=tuple(start.shape)))
    if config.modes:
        added = Prescribed(config.modes).apply(added)
    updates = LIMIT * config.steps_per_epoch
    return ((1 - 1e-3) ** updates * start + added).numpy()


def store(cell: Cell, table: pd.DataFrame) -> None:
    made = Experiment(cell.experiment.name, cell.experiment.version, lambda config: table)
    cells.compute(Cell(made, cell.config))


# --- what is stored -------------------------------------------------------------------------------------


def test_the_chapter_shows_the_runs_that_are_stored_and_counts_them():
    assert chapter.stored_preset() == "quick"
    assert chapter.stored_names([*chapter.VARIANTS, *chapter.CONTROLS]) == list(MADE)
    assert [len(chapter.stored(name)) for name in MADE] == [2, 1, 2, 2]
    note = chapter.seeds_note(chapter.MAIN)
    assert note.startswith("1 to 2 seeds each, batches of 64 pairs, at most 12 epochs")
    assert "1 of 5 runs not measured yet" in note


def test_the_largest_preset_with_any_run_is_taken(monkeypatch, tmp_path):
    monkeypatch.setenv("EMBVIZ_RESULTS_DIR", str(tmp_path))
    with pytest.raises(FileNotFoundError, match=r"run geometry\.pfft_speed --preset quick"):
        chapter.stored_preset()
    for preset in ("quick", "laptop", "paper"):
        _, cell = chapter.cells_of("adaptive 5", preset)[:2]
        store(cell, pd.DataFrame({"seed": [1], "epoch": [0], "quantity": ["train_loss"], "value": [1.0]}))
        assert chapter.stored_preset() == preset


def test_a_run_that_there_is_not_is_refused():
    with pytest.raises(ValueError, match="no run 'None': choose one of near-Nyquist"):
        chapter.cells_of("None", "quick")


def test_kinds_follow_from_the_modes():
    kinds = {name: chapter.kind_of(name) for name in [*chapter.RUNS, chapter.RANDOM]}
    assert set(kinds.values()) == set(chapter.KINDS)
    for name in ("near-Nyquist", "{48}", "{44, ..., 48}", "p = 113, near-Nyquist"):
        assert kinds[name] == "high modes"
    for name in ("{1}", "{1, 14, 41}", "{8, 16, ..., 40}", "{22, ..., 26}"):
        assert kinds[name] == "other modes"


# --- tables ---------------------------------------------------------------------------------------------


def test_tables_hold_medians_censored_ones_as_later_than_the_limit_and_gaps_by_name():
    table = chapter.table_of_times(list(chapter.MAIN))
    assert table.loc["near-Nyquist", "to grok"] == "4"  # of 3 and 4, to even
    assert table.loc["near-Nyquist", "all seeds"] == "3 to 4"
    assert table.loc["near-Nyquist", "to grok, paper"] == 57
    assert table.loc["baseline", "all seeds"] == "9 to > 12"
    assert table.loc["{1, ..., 5}", ["to grok", "to memorize", "speed-up %"]].tolist() == ["not measured"] * 3
    pairs = [(3, 9), (4, LIMIT)]  # the second baseline counts as its limit
    slow = statistics.mean(100 * (1 - own / base) for own, base in pairs)
    assert table.loc["near-Nyquist", "speed-up %"] == f"{slow:.1f}"


def test_a_median_at_the_limit_is_said_to_be_later():
    made = pd.DataFrame({"grok": [5, LIMIT, LIMIT]})
    assert chapter.median_time(made) == f"> {LIMIT}"
    assert chapter.median_time(made.head(0)) == "not measured"


def test_updates_are_epochs_times_batches(monkeypatch, tmp_path):
    monkeypatch.setenv("EMBVIZ_RESULTS_DIR", str(tmp_path))
    for preset, grok in (("laptop", 30), ("paper", 60)):
        (cell, *_) = chapter.cells_of("near-Nyquist", preset)
        rows = [
            (0, epoch, name, float(epoch >= grok))
            for epoch in (0, grok)
            for name in ("validation_accuracy", "train_accuracy")
        ]
        store(cell, pd.DataFrame(rows, columns=["seed", "epoch", "quantity", "value"]))
    table = chapter.updates_table()
    n_train = chapter.MAIN["near-Nyquist"].task.n_train
    assert table["updates an epoch"].tolist() == [math.ceil(n_train / 512), 1]
    assert table["updates to grok"].tolist() == [str(30 * math.ceil(n_train / 512)), "60"]


# --- sentences ------------------------------------------------------------------------------------------


def test_the_order_is_said_to_be_the_paper_s_only_if_it_is(monkeypatch):
    said = chapter.order_finding()
    assert said.startswith("Median epochs to grok: near-Nyquist 4, adaptive 5 6, {1, 14, 41} 6, baseline")
    assert said.endswith("; the paper's order")
    swapped = {name: list(chapter.MAIN.values())[i] for i, name in enumerate(reversed(chapter.MAIN))}
    monkeypatch.setattr(chapter, "RUNS", swapped)
    assert chapter.order_finding().endswith("; not the paper's order")


def test_other_sentences_are_true_of_the_stored_runs():
    assert chapter.control_finding() == "The controls are not measured yet"
    said = chapter.memorization_finding()
    assert "training pairs are right at epoch 2" in said  # of 2 and 3, to even
    assert "validation pairs at epoch 4" in said
    assert chapter.rank_finding() == ("Of 4 variants near-Nyquist groks first, adaptive 5 memorizes first")
    assert chapter.slower_finding() == (
        "Slower than the baseline of its own seed: near-Nyquist 0 of 2, adaptive 5 0 of 1, {1, 14, 41} 0 of 2"
    )
    assert chapter.strict_finding() == "No run reached both thresholds"


# --- charts ---------------------------------------------------------------------------------------------


def test_censored_runs_are_drawn_as_such_and_in_the_data():
    chart = chapter.plot_times(list(chapter.MAIN))
    data = compiled(chart)["data"]
    rows = next(source["values"] for source in data if "grokked" in str(source.get("values", [""])[0]))
    assert [row["label"] for row in rows if row["run"] == "baseline"] == ["9", f"> {LIMIT}"]
    filters = [str(layer.get("transform")) for layer in chart.to_dict()["layer"]]
    assert sum("!datum.grokked" in text for text in filters) == 1


def test_survival_curves_are_those_of_each_run():
    table = chapter.survival_table(chapter.times(chapter.MAIN))
    for name in MADE:
        own = chapter.times([name])
        slow = queries.survival(own)
        assert table.loc[table["run"] == name, "waiting"].tolist() == slow["share"].tolist()
    compiled(chapter.plot_survival(table, list(chapter.MAIN)))


def test_all_charts_compile_with_runs_missing():
    compiled(chapter.plot_memorization([*chapter.VARIANTS, chapter.RANDOM]))
    compiled(chapter.plot_kept_shares(chapter.kept_shares()))
    compiled(chapter.plot_times([chapter.RANDOM, "random subspace"]))  # not one stored
    none = chapter.survival_table(chapter.times(["random subspace"]))
    assert none.empty
    compiled(chapter.plot_survival(none, ["random subspace"]))


def test_accuracy_curves_end_at_the_last_epoch_and_hold_stored_values():
    table = chapter.accuracy_curves(chapter.found(MADE))
    for (name, seed, which), rows in table.groupby(["run", "seed", "which"]):
        assert rows["epoch"].max() == LIMIT
        assert rows["epoch"].is_unique
        if which == "validation":
            grok = MADE[name][seed][0] or LIMIT + 1
            assert ((rows["accuracy"] > 0.9) == (rows["epoch"] >= grok)).all()
    explorer = Explorer(
        None, {"run": Choice(list(MADE), "run")}, chapter.plot_accuracy, title="t", caption="c", grid=table
    )
    compiled(explorer)


# --- spectra --------------------------------------------------------------------------------------------


def test_power_shares_are_of_all_modes_but_the_mean():
    (cell, _) = chapter.stored("near-Nyquist")
    rng = np.random.default_rng([0, 0, *cell.config.modes])
    for _ in spectrum_epochs(LIMIT):
        embedding = embedding_of(cell.config, rng)
    slow = np.abs(np.fft.rfft(embedding, axis=0)) ** 2
    slow = slow.sum(1)[1:] / slow[1:].sum()
    table = chapter.power_shares("near-Nyquist")
    end = table[table["epoch"] == LIMIT]
    np.testing.assert_allclose(end["power_share"], slow, rtol=1e-4)  # stored in single precision
    assert end["mode"].tolist() == list(range(1, 12))


def test_kept_shares_compare_the_same_modes_of_steered_and_plain():
    table = chapter.kept_shares()
    assert set(table["run"]) == {"near-Nyquist", "{1, 14, 41}"}
    modes = chapter.stored("near-Nyquist")[0].config.modes
    for model, name in (("steered", "near-Nyquist"), ("baseline, same modes", "baseline")):
        own = table[(table["run"] == "near-Nyquist") & (table["model"] == model) & (table["seed"] == 1)]
        end = chapter.power_shares(name, 1).query(f"epoch == {LIMIT}")
        assert own["power_share"].item() == pytest.approx(
            sum(end.loc[end["mode"] == mode, "power_share"].item() for mode in modes)
        )
    assert (table.loc[table["run"] == "near-Nyquist", "flat"] == len(modes) / 11).all()
    assert "of their power in the near-Nyquist modes, the baseline's with" in chapter.kept_finding(table)


def test_what_updates_added_inside_the_modes_is_found_to_lie_inside():
    # the made-up embeddings are a decayed start and something inside, to single precision
    assert (chapter.added_shares()["share inside"] == 1.0).all()
    cell = chapter.stored("near-Nyquist")[0]
    whole = torch.from_numpy(chapter.last_embedding(chapter._table(cell), 0))
    assert chapter._inside(whole, Prescribed(cell.config.modes)) < 0.95  # with the start left in


def test_strongest_modes_of_a_steered_run_are_those_that_were_prescribed():
    table = chapter.strongest_modes(["near-Nyquist"], top=3)
    modes = set(chapter.stored("near-Nyquist")[0].config.modes)
    assert table.columns.tolist() == ["seed 0", "seed 1"]
    for text in table.loc["near-Nyquist"]:
        assert {int(mode) for mode in text.split(", ")} <= modes
    assert chapter.strongest_modes(chapter.MAIN).loc["adaptive 5", "seed 1"] == ""


def test_frames_are_the_same_for_every_run_and_make_a_player():
    frames = chapter.spectrum_frames(list(MADE))
    for _, rows in frames.groupby("run"):
        assert rows["frame"].unique().tolist() == spectrum_epochs(LIMIT)
        assert rows.groupby("frame")["power_share"].sum().to_numpy() == pytest.approx(1)
        assert len(rows) == 11 * rows["frame"].nunique()
    near = frames[frames["run"] == "near-Nyquist"]
    modes = chapter.stored("near-Nyquist")[0].config.modes
    assert set(near.loc[near["chosen"] == "prescribed", "mode"]) == set(modes)
    assert (near.loc[near["frame"] >= 3, "validation"] > 0.9).all()
    player = Player(
        frames,
        chapter.plot_spectrum_frames(frames),
        title="t",
        caption="c",
        controls={"run": Choice(list(MADE), "run")},
        curves=["training", "validation"],
    )
    assert player.steps == spectrum_epochs(LIMIT)


# --- Adam -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kept", [1, 20, 48])
def test_adam_s_first_update_has_the_odd_harmonics_of_a_square_wave(kept):
    table = chapter.first_update(kept).set_index("mode")
    for n in range(1, 6, 2):
        folded = min(n * kept % 97, -n * kept % 97)
        # 128 columns have phases of their own; beyond, harmonics that fold onto one mode add a little
        assert table.loc[folded, "power_share"] == pytest.approx(8 / (math.pi * n) ** 2, abs=2e-3)
        assert table.loc[folded, "source"] == ("the mode" if n == 1 else "odd multiples")
    assert table["power_share"].sum() == pytest.approx(1)


def test_the_sign_is_adam_s_first_update_divided_by_the_rate():
    gradient = Prescribed((5,)).apply(chapter.first_gradient())
    weight = torch.zeros_like(gradient, requires_grad=True)
    weight.grad = gradient
    torch.optim.Adam([weight], 1e-3).step()
    # epsilon, 1e-8, against gradients of which few are below 1e-6
    share = (weight.detach() / -1e-3 - torch.sign(gradient)).abs().mean()
    assert share < 2e-3


def test_the_gradient_is_the_engine_s_own():
    members = chapter.Members(chapter.GrokkingRun(), [0])
    members.scores(members.train)[0].sum().backward()
    own = members.embedding_gradients()[0, :97].double()
    # single against double precision
    torch.testing.assert_close(chapter.first_gradient(), own, rtol=1e-3, atol=1e-8)


def test_gradient_descent_stays_in_the_subspace_and_adam_does_not():
    for projection in chapter.FEW_MODES:
        table = chapter.leaving(projection, n_updates=2)
        descent = table.loc[table["optimizer"] == "gradient descent", "inside"]
        np.testing.assert_allclose(descent, 1, atol=1e-9)  # rounding of a weight that is far larger
        adam = table.loc[table["optimizer"] == "Adam", "inside"]
        assert adam.between(0.5, 0.95).all(), projection
    assert chapter.leaving("one mode", n_updates=1)["inside"].iloc[-1] == pytest.approx(
        8 / math.pi**2, abs=0.01
    )


def test_shares_of_the_first_update_lie_between_noise_and_one_wave():
    table = chapter.first_shares()
    assert (table["gradient after"] == 1).all()
    assert table["Adam's first update"].between(2 / math.pi, 8 / math.pi**2 + 0.02).all()
    wider = table.loc["{1, ..., 10}", "gradient before"]
    assert table.loc["{1, ..., 5}", "gradient before"] < wider


def test_the_explorers_of_adam_compile():
    explorer = Explorer(
        chapter.first_update,
        {"kept": Range(46, 48, 1, "mode that is kept")},
        chapter.plot_first_update,
        title="t",
        caption="c",
    )
    compiled(explorer)
    short = chapter.leaving("one mode", n_updates=2).assign(projection="one mode")
    controls = {"projection": Choice(["one mode"], "projection")}
    compiled(Explorer(None, controls, chapter.plot_leaving, title="t", caption="c", grid=short))


def test_the_small_model_is_the_paper_s_but_for_its_size():
    changed = dataclasses.replace(chapter.SMALL, p=97, train_share=0.4, setting=chapter.Setting())
    assert changed == steering.BASE
