"""Stored strikes as the chapter on the Sounding Hammer shows them: shared modes, films, every tensor."""

import dataclasses

import numpy as np
import pandas as pd
import pytest
import torch

from book.geometry import hammer as chapter
from book.geometry.experiments import hammer_language, hammer_modular, soundings
from book.geometry.experiments.grokking import GrokkingRun, Members
from book.geometry.experiments.soundings import spectra
from book.geometry.modular import ModularArithmetic
from embviz.ledger import cells
from embviz.ledger.cells import Cell, Experiment
from embviz.ledger.studies import Study
from embviz.models.transformer import Transformer
from embviz.view.explorers import Choice
from embviz.view.player import NOTE, Player
from tests.drawing import compiled

CLAIM = "geometry.hammer_modular"
N_MODES = 11  # of the quick preset, p = 23
USED = (2, 3, 5, 7, 11)  # modes that the made-up embeddings end with
NAMED = ((2, 4, 6, 8, 10), (1, 4, 6, 8, 9))  # by the gradients before training, one row per seed
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


def made_strikes(named) -> pd.DataFrame:
    rows = []
    for number, moment in enumerate(hammer_modular.MOMENTS):
        gradient = named if moment == "start" else USED
        quantities = {"gradient": peaks(gradient), "permuted": peaks(named), "embedding": peaks(USED)}
        rows += [
            (moment, name, mode, float(value))
            for name, powers in quantities.items()
            for mode, value in enumerate(powers)
        ]
        single = {"regularity": 0.5, "flat": 0.4, "noise": 0.45, "z": 1.5, "epoch": 7 * number}
        rows += [(moment, name, -1, float(value)) for name, value in single.items()]
    return pd.DataFrame(rows, columns=["moment", "quantity", "mode", "value"])


def made_soundings(rng: np.random.Generator, *, tied: bool) -> pd.DataFrame:
    """Gradients of noise, but for a circle along the rows of the embedding."""
    angles = 2 * np.pi * 5 * np.arange(24) / 24
    arrays = {
        "embedding": rng.normal(size=(24, 6))
        + 4 * np.outer(np.cos(angles), [1, 1, 1, 0, 0, 0])
        + 4 * np.outer(np.sin(angles), [0, 0, 0, 1, 1, 1]),
        "position": rng.normal(size=(3, 6)),
        "blocks.0.down.weight": rng.normal(size=(6, 20)) + 4,
        "norm": rng.normal(size=(4, 6)),
    }
    if not tied:
        arrays["free_head"] = rng.normal(size=(24, 6))
    return spectra({name: torch.from_numpy(a) for name, a in arrays.items()}, n_permutations=20)


def made_film() -> pd.DataFrame:
    parts = []
    for frame in FRAMES:
        gradient, embedding = peaks(USED if frame else NAMED[0]), peaks(USED)
        part = {
            "frame": frame,
            "mode": np.arange(N_MODES + 1, dtype=np.int16),
            "gradient": gradient / gradient.sum(),
            "embedding": embedding / embedding.sum(),
            "training": np.float32(frame / 4),
            "validation": np.float32(0.5),
        }
        parts.append(pd.DataFrame(part))
    return pd.concat(parts, ignore_index=True)


def made_language(seed: int) -> pd.DataFrame:
    rows = []
    for moment in ("start", "trained"):
        for role, tensor, n_rows in (
            ("positions", "position", 128),
            ("MLP output", "blocks.0.down.weight", 128),
            ("tokens", "embedding", 128),
            ("tokens", "embedding", 512),
        ):
            row = {"moment": moment, "bits_per_character": 3.0, "role": role, "tensor": tensor}
            row |= {"rows": n_rows, "regularity": 0.1 * seed, "flat": 0.06, "noise": 0.08}
            rows.append(row | {"permuted": 0.05, "permuted_sd": 0.01, "modes": "0 1"})
    return pd.DataFrame(rows)


@pytest.fixture(scope="module", autouse=True)
def results(tmp_path_factory):
    """Made-up results, stored where the quick ones belong."""
    rng = np.random.default_rng(0)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("EMBVIZ_RESULTS_DIR", str(tmp_path_factory.mktemp("results")))
        patch.setattr(chapter, "PRESET", "quick")
        patch.setattr(chapter, "SMALLER", "quick")
        made = zip(NAMED, hammer_modular.STUDIES[CLAIM].preset_cells("quick"), strict=False)
        for named, cell in made:
            store(cell, made_strikes(named))
        for runs in (hammer_language.hammer_runs, hammer_language.byte_runs):
            for seed, run in enumerate(runs("quick")):
                store(hammer_language.hammer_language.cell(run), made_language(seed))
        for model, cell in soundings.sounding_cells("quick").items():
            tied = model != soundings.MODULAR
            moments = ("start", "trained") if tied else ("start", "memorized", "end")
            parts = [made_soundings(rng, tied=tied).assign(moment=moment) for moment in moments]
            store(cell, pd.concat(parts, ignore_index=True))
        for cell in soundings.film_cells("quick").values():
            store(cell, made_film())
        yield
    chapter.table_of.cache_clear()


# --- strikes of modular arithmetic ----------------------------------------------------------------------


def test_the_strike_on_the_page_is_that_of_the_stored_runs():
    run = GrokkingRun(p=11)
    task = ModularArithmetic(p=11)
    model, seen = Transformer(run.shape, seed=3), task.split(3)[0]
    logits = model.last(torch.tensor(task.strings())[seen])
    loss = torch.nn.functional.cross_entropy(logits, torch.tensor(task.answers())[seen])
    (gradient,) = torch.autograd.grad(loss, [model.embedding])
    members = Members(run, [3])
    members.scores(members.train)[0].sum().backward()
    # two float32 computations that add the pairs up in another order
    torch.testing.assert_close(gradient, members.embedding_gradients()[0], rtol=1e-3, atol=1e-6)


def test_modes_are_ranked_without_mode_0_and_marked_if_the_trained_embedding_uses_them():
    table = chapter.struck()
    assert table["mode"].min() == 1
    sums = table.groupby(["start", "seed", "moment", "spectrum"])["power_share"].sum()
    np.testing.assert_allclose(sums, 1)
    assert len(sums) == 2 * 3 * 3
    assert set(table.loc[table["used"], "mode"]) == set(USED)
    first = table[table["rank"] == 0].set_index(["seed", "moment", "spectrum"])["mode"]
    assert first[0, "before training", "gradient"] == 2
    assert first[1, "before training", "gradient, rows permuted"] == 1


def test_shared_modes_are_those_that_the_claim_counts():
    table = chapter.struck()
    shared = table[table["rank"] < 5].groupby(["spectrum", "moment", "seed"])["used"].sum()
    tables = [chapter.table_of(cell) for cell in chapter.strike_cells()]
    for quantity, spectrum in chapter.KINDS.items():
        for moment, words in chapter.MOMENTS.items():
            assert shared[spectrum, words].tolist() == hammer_modular._shared(tables, moment, quantity)
    assert shared["gradient", "before training"].tolist() == [1, 0]
    assert shared["gradient", "memorized"].tolist() == [5, 5]


def test_a_strike_s_epochs_are_tabulated_by_moment():
    table = chapter.strike_epochs().set_index("seed")
    assert table.loc[1, list(chapter.MOMENTS.values())].tolist() == [0, 7, 14]


def test_seeds_that_nobody_looked_at_displace_the_first_ones(monkeypatch):
    run = chapter.strike_cells()[0].config.run
    setting = dataclasses.replace(run.setting, start="pytorch")
    other = dataclasses.replace(run, first_seed=run.first_seed + 2, setting=setting)
    fresh = hammer_modular.strikes.cell(hammer_modular.Strike(other))
    store(fresh, made_strikes(NAMED[1]))
    first = chapter.strike_cells()
    monkeypatch.setattr(chapter, "STUDIES", {CLAIM: Study(lambda preset: [*first, fresh], dict)})
    assert chapter.strike_cells() == [fresh]
    assert chapter.struck()["start"].unique().tolist() == ["N(0, 1/d)"]
    assert chapter.strike_epochs()["seed"].tolist() == [2]


# --- films ----------------------------------------------------------------------------------------------


def test_films_leave_out_mode_0_and_count_what_both_spectra_share():
    frames = chapter.film_frames()
    assert frames["mode"].min() == 1
    np.testing.assert_allclose(frames.groupby(["run", "frame"])[["gradient", "embedding"]].sum(), 1)
    assert frames.groupby("frame")["shared"].first().to_dict() == {0: 1, 2: 5, 4: 5}
    one = frames[(frames["run"] == "plain, seed 0") & (frames["strong"] == chapter.BOTH)]
    assert set(one.loc[one["frame"] == 0, "mode"]) == {2}
    assert set(one.loc[one["frame"] == 4, "mode"]) == set(USED)
    player = Player(
        frames,
        chapter.plot_film,
        title="t",
        caption="c",
        controls={"run": Choice(list(dict.fromkeys(frames["run"])), "run")},
        live=chapter.live_film,
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
    assert not next(chapter.live_film(p=7, train_share=0.6, weight_decay=1.0, seed=3)).attrs[NOTE]


# --- language models, every tensor ----------------------------------------------------------------------


def test_what_is_struck_has_a_name_that_a_row_of_a_figure_can_have():
    table = chapter.regularities()
    assert table["text"].unique().tolist() == ["byte pairs", "bytes"]
    assert table["struck"].unique().tolist() == [
        "positions",
        "MLP out, layer 1",
        "tokens",
        "tokens, all 512",
    ]
    assert table["moment"].unique().tolist() == ["before training", "trained"]
    assert not table.duplicated(["text", "seed", "moment", "struck"]).any()


def test_only_the_tensor_with_a_circle_stands_out_of_permuted_rows():
    table = chapter.sounded()
    assert set(table["tensor"]) == {
        "embedding, rows", "embedding, columns", "positions, rows", "positions, columns",
        "layer 1, MLP's way out, rows", "layer 1, MLP's way out, columns",
        "output embedding, rows", "output embedding, columns",
    }  # fmt: skip
    assert table.groupby("model")["moment"].nunique().to_dict() == {
        "(a + b) mod p": 3,
        "byte pairs": 2,
        "bytes": 2,
    }
    for (_, _, tensor), own in table.groupby(["model", "moment", "tensor"]):
        strongest, at = own["power"].max(), own[own["mode"] == 0].iloc[0]
        if tensor == "embedding, rows":
            assert strongest > at["null"] + 5 * at["null_sd"]
        elif len(own) > 2:
            # the highest of 20 orders' standard scores, for tensors of noise
            assert strongest < at["null"] + 5 * at["null_sd"]
