"""The player of the chapter on grokking: its live runs."""

import numpy as np
import pytest

from book.geometry import grokking_player
from book.geometry.experiments import films
from book.geometry.experiments.grokking import GrokkingRun
from embviz.view.explorers import Choice
from embviz.view.player import NOTE, Player
from tests.book.geometry.experiments.test_films import made_frame


def make_player() -> Player:
    frames = films.recorded_frames()
    runs = Choice(list(dict.fromkeys(frames["run"])), "recording")
    return Player(
        frames, grokking_player.plot_frame, title="t", caption="c", controls={"run": runs},
        live=grokking_player.live_frames,
        live_controls=grokking_player.live_controls(), curves=grokking_player.CURVES, digits=3,
    )  # fmt: skip


def live(**changes):
    chosen = {name: control.initial for name, control in grokking_player.live_controls().items()}
    return make_player().begin({**chosen, "p": 23, "train_share": 0.6, "modes": "9 10 11", **changes})


def test_a_live_run_s_frames_fit_the_recording_and_are_marked_as_computed():
    run = live()
    first, second = run.next_row(), run.next_row()
    run.close()
    assert [first["frame"], second["frame"]] == [0, 1]
    assert first["computed"] is True
    assert first["kept"] == "9 10 11"
    assert set(grokking_player.CURVES) <= set(first)
    assert len(first["place"]) == 12 + 3 * 23


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"modes": "3 12"}, "23 residues have the modes 0 to 11; take out 12"),
        ({"modes": "three"}, "'three' is not a whole number"),
        ({"p": "6"}, "modulus p: 6 is outside 7 to 199"),
        ({"p": "23.5"}, "modulus p: 23.5 is not a whole number"),
        ({"p": 97, "train_share": 0.05, "modes": ""}, "among the 470 pairs to train on: raise train_share"),
        ({"p": 21, "modes": "", "order": grokking_player.ORDERS[1]}, "p = 21 is not prime"),
    ],
)  # fmt: skip
def test_what_can_t_be_trained_is_refused_in_words_for_the_reader(changes, message):
    with pytest.raises(ValueError, match=message):
        live(**changes).next_row()


def test_a_modulus_that_is_not_prime_is_allowed_and_said():
    row = live(p=15, modes="").next_row()
    assert row["note"] == "p = 15 is not prime: a wave of mode 3 takes each value 3 times."
    (said,) = grokking_player.about(GrokkingRun(p=15, op="*"))
    assert "divisors of zero" in said
    assert grokking_player.about(GrokkingRun(p=97)) == []


def test_the_note_tells_when_pairs_come_out_right_and_when_a_limit_was_too_short(monkeypatch):
    embedding = np.random.default_rng(0).normal(size=(23, 8))
    scores = [(0.1, None), (0.995, 0.2), (1.0, 0.96), (1.0, 0.97)]

    def made(config, device):
        for epoch, (train, validation) in enumerate(scores):
            yield made_frame(embedding, epoch=epoch, train_accuracy=train, validation_accuracy=validation)

    monkeypatch.setattr(grokking_player, "grok", made)
    notes = [
        frame.attrs[NOTE]
        for frame in grokking_player.live_frames(23, "+", 0.6, 1.0, "", grokking_player.ORDERS[0], 0)
    ]
    assert notes[0] == ""
    assert notes[1] == "Epoch 1: 99% of the training pairs are right."
    assert notes[2] == notes[3] == notes[1] + " Epoch 2: 95% of the validation pairs are right."
    monkeypatch.setattr(grokking_player, "LIMIT", 1)
    *_, last = (
        f.attrs[NOTE]
        for f in grokking_player.live_frames(23, "+", 0.6, 1.0, "", grokking_player.ORDERS[0], 0)
    )
    assert "Not grokked within 1 epochs" in last
