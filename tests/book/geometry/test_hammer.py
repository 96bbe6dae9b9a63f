"""The chapter on the Sounding Hammer: baselines, what is said of made-up strikes, grids of explorers."""

import dataclasses
import math

import numpy as np
import pandas as pd
import pytest
import torch
from scipy import stats

from book.geometry import hammer as chapter
from book.geometry.experiments import hammer_language, hammer_modular, soundings
from book.geometry.experiments.grokking import Members
from book.geometry.experiments.soundings import spectra
from embviz.ledger import cells
from embviz.ledger.cells import Cell, Experiment
from embviz.training.fourier import sound
from embviz.view.explorers import Choice, Explorer, Range
from embviz.view.player import NOTE, Player
from tests.drawing import compiled, drawn

N_MODES = 11  # of the quick preset, p = 23
USED = (2, 3, 5, 7, 11)  # modes that the made-up embeddings end with
STARTS = {0: (2, 4, 6, 8, 10), 1: (1, 4, 6, 8, 9)}  # made-up gradients' modes before training, by seed
FRAMES = (0, 2, 4)


def store(cell: Cell, table: pd.DataFrame) -> None:
    made = Experiment(cell.experiment.name, cell.experiment.version, lambda config: table)
    cells.compute(Cell(made, cell.config))


def peaks(modes, *, height: float = 10.0) -> np.ndarray:
    """Powers of modes 0 to 11: `modes` in falling order, all others 1, and much in mode 0."""
    power = np.ones(N_MODES + 1)
    power[0] = 500
    power[list(modes)] = height + np.arange(len(modes), 0, -1)
    return power


def made_strikes(seed: int, *, memorized: bool = True) -> pd.DataFrame:
    rows = []
    moments = ["start", "memorized", "end"] if memorized else ["start", "end"]
    for moment in moments:
        named = STARTS[seed] if moment == "start" else USED
        quantities = {"gradient": peaks(named), "permuted": peaks(STARTS[seed]), "embedding": peaks(USED)}
        rows += [
            (moment, name, mode, float(value))
            for name, powers in quantities.items()
            for mode, value in enumerate(powers)
        ]
        single = {"regularity": 0.5, "flat": 0.4, "noise": 0.45, "z": 1.5, "epoch": moments.index(moment)}
        rows += [(moment, name, -1, float(value)) for name, value in single.items()]
    return pd.DataFrame(rows, columns=["moment", "quantity", "mode", "value"])


def made_soundings(rng: np.random.Generator, *, tied: bool) -> pd.DataFrame:
    """Gradients of noise, but for a circle along the rows of the embedding."""
    arrays = {
        "embedding": rng.normal(size=(24, 6))
        + 4 * np.outer(np.cos(2 * np.pi * 5 * np.arange(24) / 24), [1, 1, 1, 0, 0, 0])
        + 4 * np.outer(np.sin(2 * np.pi * 5 * np.arange(24) / 24), [0, 0, 0, 1, 1, 1]),
        "position": rng.normal(size=(3, 6)),
        "blocks.0.up.weight": rng.normal(size=(20, 6)),
        "blocks.0.down.weight": rng.normal(size=(6, 20)) + 4,
    }
    if not tied:
        arrays["free_head"] = rng.normal(size=(24, 6))
    return spectra({name: torch.from_numpy(a) for name, a in arrays.items()}, n_permutations=20)


def made_film(rng: np.random.Generator) -> pd.DataFrame:
    parts = []
    for frame in FRAMES:
        gradient = peaks(USED if frame else STARTS[0])
        part = {
            "frame": frame,
            "mode": np.arange(N_MODES + 1, dtype=np.int16),
            "training": np.float32(frame / 4),
        }
        part |= {"gradient": gradient / gradient.sum(), "embedding": peaks(USED) / peaks(USED).sum()}
        parts.append(pd.DataFrame(part | {"validation": np.float32(0.5)}))
    return pd.concat(parts, ignore_index=True)


def made_language(seed: int) -> pd.DataFrame:
    """Positions stand above permuted rows before training, nothing does after."""
    rows = []
    for moment in ("start", "trained"):
        for role, tensor, n_rows, rho, permuted in (
            ("positions", "position", 128, 0.8 if moment == "start" else 0.5, 0.5),
            ("MLP output", "blocks.0.down.weight", 128, 0.6, 0.6),
            ("tokens", "embedding", 128, 0.2, 0.2),
            ("tokens", "embedding", 512, 0.1, 0.05),
        ):
            row = {"moment": moment, "bits_per_character": 3.0 - 0.1 * seed, "role": role, "tensor": tensor}
            row |= {"rows": n_rows, "regularity": rho + 0.01 * seed, "flat": 0.06, "noise": 0.08}
            rows.append(row | {"permuted": permuted, "permuted_sd": 0.01, "modes": "0 1"})
    return pd.DataFrame(rows)


@pytest.fixture(scope="module", autouse=True)
def results(tmp_path_factory):
    """Made-up results, stored where the quick ones belong."""
    rng = np.random.default_rng(0)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("EMBVIZ_RESULTS_DIR", str(tmp_path_factory.mktemp("results")))
        for seed, cell in enumerate(hammer_modular.STUDIES[chapter.CLAIM].preset_cells("quick")):
            store(cell, made_strikes(seed))
        for seed, run in enumerate(hammer_language.hammer_runs("quick")):
            store(hammer_language.hammer_language.cell(run), made_language(seed))
        for model, cell in soundings.sounding_cells("quick").items():
            tied = model != soundings.MODULAR
            moments = ("start", "trained") if tied else ("start", "memorized", "end")
            parts = [made_soundings(rng, tied=tied).assign(moment=moment) for moment in moments]
            store(cell, pd.concat(parts, ignore_index=True))
        for cell in soundings.film_cells("quick").values():
            store(cell, made_film(rng))
        start = soundings.start_run("quick")
        powers = [
            {"seed": s, "mode": m, "power": p}
            for s in range(12)
            for m, p in enumerate(peaks((1, s % 11 + 1, 5)))
        ]
        store(soundings.starts.cell(start), pd.DataFrame(powers))
        yield
    chapter._table.cache_clear()


# --- baselines ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("rows", "top"), [(97, 5), (512, 16)])
def test_drawn_noise_lies_about_what_is_expected_and_above_flat(rows, top):
    table = chapter.noise_regularity(rows, top)
    flat = top / (rows // 2 + 1)
    for width, own in table.groupby("columns"):
        expected = own.loc[own["kind"] == "expected", "regularity"].item()
        draws = own.loc[own["kind"] == "drawn", "regularity"]
        assert own.loc[own["kind"] == "flat", "regularity"].item() == pytest.approx(flat)
        assert expected > flat
        # ten draws of one column scatter by some 0.03 each
        assert draws.mean() == pytest.approx(expected, abs=0.05 if width < 4 else 0.01)


def test_one_column_of_noise_is_a_sum_of_exponentials():
    table = chapter.noise_regularity(512, 16)
    share = 16 / 257
    one = table.query("kind == 'expected' and columns == 1")["regularity"].item()
    assert one == pytest.approx(share * (1 - math.log(share)), rel=1e-6)


def test_only_tensors_with_an_order_stand_above_permuted_rows():
    table = chapter.made_tensors(rows=128, columns=16, top=8)
    assert table.loc[["a wave", "neighbours alike"], "z"].min() > 10
    assert table.drop(index=["a wave", "neighbours alike"])["z"].abs().max() < 4
    assert table.loc["columns move together", "regularity"] > 1.3 * table.loc["white noise", "noise"]
    assert table.loc["a wave", "modes"].split()[0] == "7"
    assert table.loc["a common mean", "modes"].split()[0] == "0"


# --- strikes of modular arithmetic ----------------------------------------------------------------------


def test_the_chapter_shows_what_is_stored_and_counts_it(monkeypatch, tmp_path):
    assert chapter.stored_preset() == "quick"
    assert chapter.modular_note() == "(a + b) mod 23, batches of 64, 2 seeds."
    monkeypatch.setenv("EMBVIZ_RESULTS_DIR", str(tmp_path))
    with pytest.raises(FileNotFoundError, match=r"run geometry\.hammer_modular --preset quick"):
        chapter.stored_preset()
    with pytest.raises(FileNotFoundError, match="all_cells"):
        chapter.sounding_preset()
    with pytest.raises(FileNotFoundError, match=r"run geometry\.hammer_gpt2 --preset quick"):
        chapter.language_preset()
    first, _ = hammer_modular.STUDIES[chapter.CLAIM].preset_cells("quick")
    store(first, made_strikes(0))
    assert chapter.modular_note().endswith("1 seed; 1 more not measured yet.")


def test_moments_are_those_that_every_seed_has(monkeypatch):
    monkeypatch.setattr(chapter, "struck", lambda: {0: made_strikes(0), 1: made_strikes(1, memorized=False)})
    assert chapter.moments() == ["start", "end"]
    assert set(chapter.mode_grid()["moment"]) == {"before training", "at the end"}


def test_overlaps_are_counted_without_mode_0_and_judged_together():
    table = chapter.overlaps().set_index(["kind", "moment"])
    assert table["shared_modes"]["gradient"].to_dict() == {
        "before training": 1,
        "memorized": 10,
        "at the end": 10,
    }
    assert (table["shared_modes"]["gradient, rows permuted"] == 1).all()
    assert "at the end" not in table.loc["embedding itself"].index
    best = stats.hypergeom(N_MODES, 5, 5).pmf(5) ** 2
    assert table.loc[("gradient", "at the end"), "log10_p"] == pytest.approx(math.log10(best))
    assert table.loc[("gradient", "before training"), "log10_p"] == pytest.approx(0.0, abs=1e-2)
    said = chapter.overlap_finding()
    assert "before training 1, memorized 10, at the end 10" in said
    assert said.endswith(f"chance {2 * 25 / 11:.1f}")


def test_words_fit_the_numbers(monkeypatch):
    said = chapter.verdicts()
    assert said.startswith("Of 10 modes used the gradient names before training 1, as chance might (p = 1")
    assert "; memorized 10, more than chance would (p = 4.7e-06); at the end 10, more" in said
    assert chapter.early_finding() == (
        "Memorized, at epochs 1 to 1 of 2 to 2, the gradient names 10 of 10 modes that will be used, the "
        "embedding itself 10"
    )
    monkeypatch.setattr(chapter, "moments", lambda: ["start", "end"])
    assert chapter.early_finding() == "Not every seed memorized its training pairs"


def test_chances_are_those_of_drawing_two_sets():
    chance = chapter.chance_of_overlaps()
    one = stats.hypergeom(N_MODES, 5, 5).pmf(range(6))
    slow = [sum(one[i] * one[k - i] for i in range(6) if 0 <= k - i <= 5) for k in range(11)]
    np.testing.assert_allclose(chance, slow)


def test_shared_modes_are_in_brackets_and_marked_in_the_spectra():
    table = chapter.strongest_table()
    assert table.loc[("seed 0", "before training"), "strongest in the gradient"] == "[2] 4 6 8 10"
    assert table.loc[("seed 1", "before training"), "shared"] == 0
    grid = chapter.mode_grid()
    own = grid[(grid["seed"] == 0) & (grid["moment"] == "before training")]
    assert set(own.loc[own["shared"] == 1, "mode"]) == {2}
    up, down = own[own["side"] == "gradient"], own[own["side"] != "gradient"]
    assert up["power_share"].sum() == pytest.approx(1)
    assert down["power_share"].sum() == pytest.approx(-1)
    assert up.set_index("rank").loc[0, "mode"] == 2


def test_a_strike_s_epoch_and_z_are_tabulated():
    table = chapter.epochs_struck()
    assert table.loc[("seed 1", "memorized"), ["epoch", "z"]].tolist() == [1, 1.5]


# --- no mode is special ---------------------------------------------------------------------------------


def test_times_among_the_strongest_are_counted_over_seeds():
    table = chapter.start_counts()
    times = table.set_index("mode")["times"]
    assert times.sum() == 3 * 12
    assert times[1] == 12
    assert table.attrs["expected"] == pytest.approx(12 * 3 / 11)
    assert table.attrs["low"] <= table.attrs["expected"] <= table.attrs["high"]
    said = chapter.start_finding(table)
    assert said.startswith(f"{{1, 14, 41}} are among the 3 strongest {times[1]} times where chance has 10; ")


@pytest.mark.parametrize("factor", [2, 5])
def test_new_names_move_every_bar_to_another_place(factor):
    old = chapter.renamed_start(1, p=23).set_index("mode")
    new = chapter.renamed_start(factor, p=23)
    assert (old.index == old["was"]).all()
    assert new["strong"].sum() == 5
    for row in new.itertuples():
        assert (factor * row.mode % 23) in (row.was, 23 - row.was)
        # sums over pairs in another order, in float32
        assert row.power_share == pytest.approx(old.loc[row.was, "power_share"], rel=1e-3)


# --- films ----------------------------------------------------------------------------------------------


def test_films_leave_out_mode_0_and_count_what_both_spectra_share():
    frames = chapter.film_frames()
    assert frames["mode"].min() == 1
    sums = frames.groupby(["run", "frame"])[["gradient", "embedding"]].sum()
    np.testing.assert_allclose(sums, 1)
    shared = frames.groupby("frame")["shared"].first()
    assert shared.to_dict() == {0: 1, 2: 5, 4: 5}
    player = Player(
        frames,
        chapter.plot_film,
        title="t",
        caption="c",
        controls={"run": Choice(list(dict.fromkeys(frames["run"])), "run")},
        live=chapter.live_film,
        live_controls=chapter.live_controls(),
        curves=["training", "validation", "shared"],
    )
    compiled(player)


def test_a_live_run_gives_what_the_recording_has():
    torch.set_num_threads(1)
    recorded = chapter.film_frames()
    live = chapter.live_film(p=9, train_share=0.6, weight_decay=1.0, seed=3)
    first, second = next(live), next(live)
    assert set(recorded.columns) - {"run"} == set(first.columns)
    assert first["frame"].unique().tolist() == [0]
    assert second["frame"].unique().tolist() == [1]
    assert "9 is not prime" in first.attrs[NOTE]


# --- language -------------------------------------------------------------------------------------------


def test_every_tensor_has_a_name_and_bytes_come_in_once_they_are_stored():
    table = chapter.regularities()
    assert table["text"].unique().tolist() == ["byte pairs"]
    assert table["part"].unique().tolist() == [
        "positions, first 128",
        "MLP output, layer 1",
        "tokens, first 128",
        "tokens, all 512",
    ]
    assert (
        chapter.scores_note() == "2 seeds; held-out bits per character once trained: byte pairs 2.90 to 3.00."
    )


def test_the_order_is_said_with_what_permuted_rows_leave_of_it():
    said = chapter.order_finding()
    assert said.startswith("Regularity, trained: MLP outputs 0.60, positions 0.5")
    assert said.endswith("tokens 0.20; above permuted rows +0.00, +0.00, +0.00") or "+0.01" in said
    assert chapter.order_finding("start").startswith("Regularity, start: positions 0.8")


def test_the_excess_is_over_permuted_rows():
    table = chapter.excess_table()
    row = table.loc[("byte pairs", "positions, first 128")]
    assert row["start: above permuted"] == "+0.305 (+0.300 to +0.310)"
    assert row["trained: above permuted"] == "+0.005 (+0.000 to +0.010)"


def test_regularities_fit_an_explorer_with_the_papers_crosses_on_first_rows_alone():
    grid = chapter.regularity_grid()
    assert set(grid.loc[grid["kind"] == "GPT-2, paper", "regularity"]) == {0.82, 0.495, 0.42}
    assert "tokens, all 512" not in set(grid.loc[grid["kind"] == "GPT-2, paper", "part"])
    controls = {"text": Choice(["byte pairs"], "tokens"), "moment": Choice(["start", "trained"], "struck")}
    explorer = Explorer(None, controls, chapter.plot_regularities, title="t", caption="c", grid=grid)
    compiled(explorer)


def test_renumbered_units_change_neither_loss_nor_what_permuted_rows_give():
    table = chapter.renumbered_units(p=11, top=8)
    before, after = table.loc["as it is"], table.loc["units renumbered"]
    assert before["loss"] == after["loss"]
    assert before["rows permuted"] == pytest.approx(after["rows permuted"], abs=0.01)
    run = dataclasses.replace(chapter.BASE, p=11, train_share=0.6)
    members, same = Members(run, [0]), Members(run, [0])
    chapter._renumber(same, np.random.default_rng(0))
    assert not torch.equal(*(m.model.blocks[0].up.weight for m in (members, same)))


# --- any tensor -----------------------------------------------------------------------------------------


def sounding_explorer() -> Explorer:
    grid = chapter.sounding_grid()
    return Explorer(
        None, chapter.sounding_controls(grid), chapter.plot_sounding, title="t", caption="c", grid=grid
    )


def test_the_grid_holds_every_model_tensor_and_axis():
    grid = chapter.sounding_grid()
    assert grid["model"].unique().tolist() == [
        "(a + b) mod 23, start",
        "(a + b) mod 23, memorized",
        "(a + b) mod 23, end",
        "byte pairs, start",
        "byte pairs, trained",
        "bytes, start",
        "bytes, trained",
    ]
    assert set(grid["tensor"]) == {
        "embedding", "output embedding", "positions", "layer 1, MLP's way in", "layer 1, MLP's way out"
    }  # fmt: skip
    tied = grid[grid["model"] == "bytes, start"].set_index(["tensor", "axis"])
    one, other = (tied.loc[(name, "rows"), "power"].to_numpy() for name in ("embedding", "output embedding"))
    np.testing.assert_array_equal(one, other)
    assert sounding_explorer().grid().shape[0] == len(grid)


def test_the_drawn_words_are_the_sounding_of_the_tensor():
    """What the page computes in Vega, against the package."""
    spec = sounding_explorer().static_spec()
    spec["width"] = 600
    texts = [item["text"] for item in drawn(spec, "text") if "ρ" in str(item.get("text"))]
    (words,) = texts
    text = words if isinstance(words, str) else "|".join(words)
    cell = soundings.sounding_cells("quick")[soundings.MODULAR]
    table, _ = cells.read(cell)
    own = table[(table["tensor"] == "embedding") & (table["dim"] == 0) & (table["moment"] == "start")]
    assert f"all {len(own)} modes count" in text  # 13 modes, K = 16
    for param in spec["params"]:
        if param["name"] == "few":
            param["value"] = 3
    texts = [item["text"] for item in drawn(spec, "text") if "ρ" in str(item.get("text"))]
    text = texts[0] if isinstance(texts[0], str) else "|".join(texts[0])
    rho, at = own["power"].nlargest(3).sum(), own[own["mode"] == 2].iloc[0]
    assert f"ρ = {rho:.3f}" in text
    assert f"rows permuted {at['null']:.3f} ± {at['null_sd']:.3f}" in text
    assert f"white noise {at['noise']:.3f}" in text
    assert f"flat {3 / 13:.3f}" in text


def test_only_the_tensor_with_a_circle_stands_out():
    table = chapter.z_scores(3)
    out = table[table["z"] > 5]  # the others are noise
    assert set(out["tensor"]) == {"embedding, rows"}
    assert len(out) == 7
    said = chapter.z_finding(table, "bytes")
    assert said.startswith("Of 7 spectra of bytes, 1 stands out of permuted rows: ")
    assert "embedding, rows (z = " in said
    assert chapter.ring_finding(table).startswith(
        "Out of permuted rows stand 1 of 9 spectra of (a + b) mod 23, 1 of 7 spectra of byte pairs"
    )
    quiet = table[table["tensor"] != "embedding, rows"].assign(z=0.0)
    assert chapter.z_finding(quiet, "bytes") == "Not one of 6 spectra of bytes stands out of permuted rows"


def test_mode_0_has_its_own_column():
    table = chapter.mean_mode_table(top=3)
    way_out = table.loc[("bytes, start", "layer 1, MLP's way out")]
    assert way_out["share of mode 0"] > 0.5  # noise about 4
    assert way_out["regularity without mode 0"] < way_out["regularity"]
    made, _ = cells.read(soundings.sounding_cells("quick")[soundings.BYTES])
    own = made.query("tensor == 'embedding' and dim == 0 and moment == 'trained'")
    assert table.loc[("bytes, trained", "embedding"), "share of mode 0"] == pytest.approx(
        own["power"].iloc[0], abs=1e-3
    )


def test_all_charts_compile():
    compiled(chapter.plot_overlaps())
    compiled(chapter.plot_start_counts(chapter.start_counts()))
    scores = chapter.z_scores(3)
    models = {"model": Choice(list(dict.fromkeys(scores["model"])), "model")}
    compiled(Explorer(None, models, chapter.plot_z_scores, title="t", caption="c", grid=scores))
    controls = {"rows": Choice([97], "rows"), "top": Range(4, 8, 4, "K")}
    compiled(Explorer(chapter.noise_regularity, controls, chapter.plot_noise, title="t", caption="c"))
    controls = {
        "seed": Choice(list(chapter.struck()), "seed"),
        "moment": Choice([chapter.MODULAR_MOMENTS[moment] for moment in chapter.moments()], "moment"),
    }
    compiled(Explorer(None, controls, chapter.plot_modes, title="t", caption="c", grid=chapter.mode_grid()))
    renamed = chapter.renamed_start(2, p=11).assign(factor=2)
    factor = {"factor": Choice([2], "f")}
    compiled(Explorer(None, factor, chapter.plot_renamed, title="t", caption="c", grid=renamed))


def test_the_first_cell_s_strike_names_the_wave_of_the_data():
    generator = torch.Generator().manual_seed(0)
    weight, clock = torch.randn(64, 16, generator=generator), torch.arange(64)
    gradient = (weight.mean(1) - torch.sin(2 * torch.pi * 3 * clock / 64))[:, None] * torch.ones(16)
    assert sound(gradient, top=5).modes[0] == 3
