"""The chapter on grokking: films, live runs, and the picture that its player draws of them."""

import dataclasses

import numpy as np
import pandas as pd
import pytest

from book.geometry import grokking as chapter
from book.geometry.experiments import films
from book.geometry.experiments.grokking import Frame, GrokkingRun, Setting, circle, grok
from embviz.ledger import cells
from embviz.ledger.cells import Cell, Experiment
from embviz.view import theme
from embviz.view.explorers import Choice
from embviz.view.player import NOTE, Player
from tests.drawing import compiled, drawn

N_EPOCHS = 4


@pytest.fixture(scope="module", autouse=True)
def results(tmp_path_factory):
    """Real cells of a few epochs, stored where the quick ones belong."""
    folder = tmp_path_factory.mktemp("results")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("EMBVIZ_RESULTS_DIR", str(folder))
        for cell in films.film_cells("quick"):
            run = dataclasses.replace(cell.config.run, n_epochs=N_EPOCHS)
            store_as(cell, films.grokking_film.function(dataclasses.replace(cell.config, run=run)))
        yield folder


def store_as(cell: Cell, table: pd.DataFrame) -> None:
    """A table as the result of a cell."""
    cells.compute(
        Cell(Experiment(cell.experiment.name, cell.experiment.version, lambda _: table), cell.config)
    )


def make_player() -> Player:
    frames = chapter.recorded_frames()
    runs = Choice(list(dict.fromkeys(frames["run"])), "recording")
    return Player(
        frames, chapter.plot_frame, title="t", caption="c", controls={"run": runs}, live=chapter.live_frames,
        live_controls=chapter.live_controls(), curves=chapter.CURVES, digits=3,
    )  # fmt: skip


# --- pictures -------------------------------------------------------------------------------------------


def made_frame(embedding: np.ndarray, **changes) -> Frame:
    return dataclasses.replace(Frame(0, 3, 12, 0.5, 2.0, None, None, embedding.astype(np.float32)), **changes)


def on_circles(p: int, amplitudes: dict[int, float], *, dim: int = 16, seed: int = 0) -> np.ndarray:
    """An embedding made of circles: modes and their radii, in random planes."""
    rng = np.random.default_rng(seed)
    total = np.zeros((p, dim))
    for mode, radius in amplitudes.items():
        plane = np.linalg.qr(rng.normal(size=(dim, 2)))[0].T
        angles = 2 * np.pi * mode * np.arange(p) / p
        total += radius * np.stack([np.cos(angles), np.sin(angles)], axis=1) @ plane
    return total


def test_a_picture_of_circles_has_their_modes_powers_and_places():
    p = 23
    table = films.picture(
        made_frame(on_circles(p, {7: 1.0, 3: 2.0, 11: 0.5})), GrokkingRun(p=p, modes=(3, 7))
    )
    bars = table[table["rank"] == -1].set_index("place")["v"] / films.SHARES
    assert len(bars) == p // 2 + 1
    # power goes with the squared radius, to a whole ten-thousandth
    assert bars[[3, 7, 11]].tolist() == pytest.approx([4 / 5.25, 1 / 5.25, 0.25 / 5.25], abs=2e-4)
    assert table.loc[0, ["mode_0", "mode_1", "mode_2"]].tolist() == [3, 7, 11]
    points = table[table["rank"] == 0]
    angles = np.arctan2(points["v"], points["u"])
    turn = np.angle(np.exp(1j * (angles - 2 * np.pi * 3 * points["place"] / p)))
    # planes overlap a little, and places are whole numbers out of 45
    assert np.abs(turn - turn.mean()).max() < 0.6
    assert (table["validation_accuracy"] == -1).all()
    assert set(table["kept"]) == {"3 7"}


def test_a_picture_s_planes_are_those_of_circle_scaled_to_one_radius():
    embedding = np.random.default_rng(1).normal(size=(23, 8)).astype(np.float32)
    table = films.picture(made_frame(embedding), GrokkingRun(p=23))
    for rank in range(3):
        own = circle(embedding, table.loc[0, f"mode_{rank}"])
        own = own - own.mean(axis=0)
        own *= films.RMS / np.sqrt((own**2).sum(axis=1).mean())
        shown = table.loc[table["rank"] == rank, ["u", "v"]].to_numpy()
        np.testing.assert_allclose(shown, np.clip(own, -100, 100), atol=0.51)  # rounded


def test_powers_of_a_root_turn_products_into_sums():
    p = 23
    powers = films.powers_of_a_root(p)
    assert sorted(powers) == list(range(1, p))
    place = {int(residue): index for index, residue in enumerate(powers)}
    for a in range(1, p):
        for b in range(1, p):
            assert place[a * b % p] == (place[a] + place[b]) % (p - 1)
    with pytest.raises(ValueError, match="p = 15 is not prime"):
        films.powers_of_a_root(15)


def test_in_the_order_of_powers_a_circle_of_powers_shows_as_one_mode():
    p = 23
    embedding = np.zeros((p, 16))
    embedding[films.powers_of_a_root(p)] = on_circles(p - 1, {4: 1.0})
    run = GrokkingRun(p=p, op="*")
    by_powers = films.picture(made_frame(embedding), run, by_powers=True)
    natural = films.picture(made_frame(embedding), run)
    assert by_powers.loc[by_powers["v"].idxmax(), "place"] == 4
    assert by_powers.loc[0, "n_places"] == p - 1
    assert natural.loc[natural["rank"] == -1, "v"].max() < films.SHARES / 2


def test_a_film_shows_every_epoch_that_it_promises_and_what_a_run_had_there():
    film = films.at_preset(films.FILMS["plain"], "quick")
    run = dataclasses.replace(film.run, n_epochs=N_EPOCHS)
    table, _ = cells.read(films.grokking_film.cell(film))
    frames = {frame.epoch: frame for frame in grok(run, device="cpu")}
    assert table["frame"].unique().tolist() == films.film_epochs(N_EPOCHS) == [0, 2, 4]
    for epoch, rows in table.groupby("frame"):
        expected = films.picture(frames[epoch], run)
        columns = ["rank", "place", "u", "v", "mode_0"]
        np.testing.assert_array_equal(rows[columns], expected[columns])
        assert rows["train_loss"].iloc[0] == pytest.approx(frames[epoch].train_loss)
        assert rows["validation_accuracy"].min() >= 0  # measured in each
    assert films.film_epochs(200)[-1] == 200


# --- what is stored -------------------------------------------------------------------------------------


def test_without_films_the_message_says_how_to_get_them(monkeypatch, tmp_path):
    monkeypatch.setenv("EMBVIZ_RESULTS_DIR", str(tmp_path))
    with pytest.raises(FileNotFoundError, match=r"film_cells\('quick'\)"):
        chapter.recorded_frames()


# --- live -----------------------------------------------------------------------------------------------


def live(**changes):
    chosen = {name: control.initial for name, control in chapter.live_controls().items()}
    return make_player().begin({**chosen, "p": 23, "train_share": 0.6, "modes": "9 10 11", **changes})


def test_a_live_run_s_frames_fit_the_recording_and_are_marked_as_computed():
    run = live()
    first, second = run.next_row(), run.next_row()
    run.close()
    assert [first["frame"], second["frame"]] == [0, 1]
    assert first["computed"] is True
    assert first["kept"] == "9 10 11"
    assert set(chapter.CURVES) <= set(first)
    assert len(first["place"]) == 12 + 3 * 23


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"modes": "3 12"}, "23 residues have the modes 0 to 11; take out 12"),
        ({"modes": "three"}, "'three' is not a whole number"),
        ({"p": "6"}, "modulus p: 6 is outside 7 to 199"),
        ({"p": "23.5"}, "modulus p: 23.5 is not a whole number"),
        ({"p": 97, "train_share": 0.05, "modes": ""}, "among the 470 pairs to train on: raise train_share"),
        ({"p": 21, "modes": "", "order": chapter.ORDERS[1]}, "p = 21 is not prime"),
    ],
)  # fmt: skip
def test_what_can_t_be_trained_is_refused_in_words_for_the_reader(changes, message):
    with pytest.raises(ValueError, match=message):
        live(**changes).next_row()


def test_a_modulus_that_is_not_prime_is_allowed_and_said():
    row = live(p=15, modes="").next_row()
    assert row["note"] == "p = 15 is not prime: a wave of mode 3 takes each value 3 times."
    (said,) = chapter.about(GrokkingRun(p=15, op="*"))
    assert "divisors of zero" in said
    assert chapter.about(GrokkingRun(p=97)) == []


def test_the_note_tells_when_pairs_come_out_right_and_when_a_limit_was_too_short(monkeypatch):
    embedding = np.random.default_rng(0).normal(size=(23, 8))
    scores = [(0.1, None), (0.995, 0.2), (1.0, 0.96), (1.0, 0.97)]

    def made(config, device):
        for epoch, (train, validation) in enumerate(scores):
            yield made_frame(embedding, epoch=epoch, train_accuracy=train, validation_accuracy=validation)

    monkeypatch.setattr(chapter, "grok", made)
    notes = [frame.attrs[NOTE] for frame in chapter.live_frames(23, "+", 0.6, 1.0, "", chapter.ORDERS[0], 0)]
    assert notes[0] == ""
    assert notes[1] == "Epoch 1: 99% of the training pairs are right."
    assert notes[2] == notes[3] == notes[1] + " Epoch 2: 95% of the validation pairs are right."
    monkeypatch.setattr(chapter, "LIMIT", 1)
    *_, last = (f.attrs[NOTE] for f in chapter.live_frames(23, "+", 0.6, 1.0, "", chapter.ORDERS[0], 0))
    assert "Not grokked within 1 epochs" in last


def test_weight_decay_and_seed_reach_the_run(monkeypatch):
    seen = []
    monkeypatch.setattr(chapter, "grok", lambda config, device: seen.append(config) or iter(()))
    list(chapter.live_frames(23, "-", 0.5, 0.25, "1 2", chapter.ORDERS[0], 7))
    setting = dataclasses.replace(Setting(batch_size=512), weight_decay=0.25)
    run = GrokkingRun(p=23, op="-", train_share=0.5, modes=(1, 2), first_seed=7, setting=setting)
    assert seen == [dataclasses.replace(run, n_epochs=chapter.LIMIT)]


# --- the picture ----------------------------------------------------------------------------------------


def test_the_picture_has_every_mode_and_the_three_strongest_planes_of_the_frame_shown():
    player = make_player()
    compiled(player)
    spec = player.static_spec()
    frames = chapter.recorded_frames()
    table = frames[(frames["run"] == "near-Nyquist") & (frames["frame"] == 0)]  # shown at first
    modes = [f"mode {table[f'mode_{rank}'].iloc[0]}" for rank in range(3)]
    words = [item["text"] for item in drawn(spec, "text") if str(item.get("text")).startswith("mode ")]
    assert words == modes
    bars = [item for item in drawn(spec, "rect") if item.get("ariaRoleDescription") == "bar"]
    assert len(bars) == 23 // 2 + 1
    kept = table["kept"].iloc[0].split()
    assert sum(item["fill"] == theme.CATEGORIES[1] for item in bars) == len(kept)
