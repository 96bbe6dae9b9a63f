"""Soundings: spectra of every tensor against loops, films against the run they show, cells."""

import numpy as np
import pandas as pd
import pytest
import torch

from book.geometry.experiments import soundings
from book.geometry.experiments.grokking import GrokkingRun, Members, Setting, grok
from book.geometry.experiments.hammer_language import Hammer, HammerRun, hammer_language
from book.geometry.experiments.soundings import (
    HammerFilm,
    LanguageSoundings,
    Soundings,
    Starts,
    gradients_now,
    hammer_film,
    language_soundings,
    spectra,
    starts,
)
from book.geometry.experiments.steering_language import Setting as LanguageSetting
from embviz.corpora import corpus as corpora
from embviz.models.transformer import Transformer
from embviz.training.fourier import sound
from embviz.training.language import TextConfig, load_streams

RUN = GrokkingRun(p=11, train_share=0.6, n_epochs=3, setting=Setting(n_layers=1, batch_size=32))


pytestmark = pytest.mark.usefixtures("one_thread")

# --- spectra ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("dim", [0, 1])
def test_spectra_are_those_of_a_loop_over_rows_and_columns(dim):
    array = np.random.default_rng(0).normal(size=(7, 6))
    table = spectra({"a": torch.from_numpy(array)}, n_permutations=3)
    own = table[table["dim"] == dim]
    rows = array if dim == 0 else array.T
    n = len(rows)
    power = []
    for k in range(n // 2 + 1):
        columns = [
            sum(rows[r, c] * np.exp(-2j * np.pi * k * r / n) for r in range(n)) for c in range(len(rows[0]))
        ]
        power.append(sum(abs(value) ** 2 for value in columns))
    np.testing.assert_allclose(own["power"], np.array(power) / sum(power), rtol=1e-6)  # stored in float32
    assert own["mode"].tolist() == list(range(n // 2 + 1))


def test_baselines_by_rank_are_those_of_a_sounding_with_as_many_modes():
    gradient = torch.from_numpy(np.random.default_rng(1).normal(size=(20, 4)))
    own = spectra({"a": gradient}, n_permutations=40).query("dim == 0")
    for top in (1, 3, 10):
        heard = sound(gradient, top=top, n_permutations=40, seed=0)
        at = own.iloc[top - 1]
        assert own["power"].nlargest(top).sum() == pytest.approx(heard.regularity, rel=1e-5)
        assert at["noise"] == pytest.approx(heard.noise, rel=1e-5)
        # the orders are the same ones: both draw them from seed 0
        assert at["null"] == pytest.approx(heard.permuted.mean(), rel=1e-5)
        assert at["null_sd"] == pytest.approx(heard.permuted.std(ddof=1), rel=1e-4)
    assert own.iloc[-1][["null", "noise"]].tolist() == pytest.approx([1, 1])  # all modes have all power
    assert own["permuted"].sum() == pytest.approx(1)


def test_vectors_and_silent_tensors_are_left_out_and_long_axes_cut():
    gradients = {"bias": torch.ones(4), "silent": torch.zeros(4, 4), "long": torch.randn(12, 3)}
    table = spectra(gradients, n_rows=8, n_permutations=2)
    assert table["tensor"].unique().tolist() == ["long"]
    assert table.groupby("dim")["rows"].first().tolist() == [8, 3]


# --- modular arithmetic -----------------------------------------------------------------------------


def test_gradients_are_those_of_all_training_pairs_and_change_nothing():
    members = Members(RUN, [2])
    before = {name: value.clone() for name, value in members.model.state_dict().items()}
    found = gradients_now(members)
    single = Transformer(RUN.shape, seed=2)
    rows = members.train[0]
    logits = single.last(members.strings[rows])
    torch.nn.functional.cross_entropy(logits, members.answers[rows]).backward()
    torch.testing.assert_close(found["embedding"], single.embedding.grad[:11], rtol=1e-4, atol=1e-7)
    assert found["free_head"].shape == (11, 128)
    assert found.keys() == {name for name, _ in single.named_parameters()}
    assert all(parameter.grad is None for parameter in members.model.parameters())
    for name, value in members.model.state_dict().items():
        assert torch.equal(value, before[name])


def test_soundings_hear_the_start_the_memory_and_the_end_of_the_run_that_a_plain_loop_makes(monkeypatch):
    for memorized, struck in ((2.0, {"start": 0, "end": 3}), (0.0, {"start": 0, "memorized": 1, "end": 3})):
        monkeypatch.setattr(soundings, "MEMORIZED", memorized)
        table = soundings.soundings.function(Soundings(RUN, n_permutations=2))
        assert table.groupby("moment", sort=False)["epoch"].first().to_dict() == struck
    members = Members(RUN, [0])
    for epoch in range(4):
        list(members.frames(epoch))
    fresh = spectra(gradients_now(members), n_permutations=2)
    end = table[table["moment"] == "end"].drop(columns=["moment", "epoch"]).reset_index(drop=True)
    pd.testing.assert_frame_equal(end, fresh)


def test_starts_are_strikes_of_fresh_models_by_seed():
    table = starts.function(Starts(RUN, 2))
    assert table.groupby("seed")["power"].sum().to_numpy() == pytest.approx(1)
    gradient = gradients_now(Members(RUN, [1]))["embedding"]
    heard = sound(gradient, top=1, n_permutations=2).power
    np.testing.assert_allclose(table.loc[table["seed"] == 1, "power"], heard / heard.sum(), rtol=1e-4)


def test_a_film_shows_the_run_undisturbed_by_its_strikes():
    table = hammer_film.function(HammerFilm(RUN))
    assert table["frame"].unique().tolist() == [0, 2]  # every second epoch
    frames = {frame.epoch: frame for frame in grok(RUN, device="cpu")}
    for epoch, rows in table.groupby("frame"):
        spectrum = frames[epoch].spectrum
        np.testing.assert_allclose(rows["embedding"], spectrum / spectrum.sum(), rtol=1e-5)
        assert rows["training"].unique().tolist() == [np.float32(frames[epoch].train_accuracy)]
        assert rows["gradient"].sum() == pytest.approx(1)
    assert frames[0].validation_accuracy == pytest.approx(table["validation"].iloc[0])


def peaks(*modes: int) -> np.ndarray:
    """Powers of modes 0 to 11: `modes` in falling order, all others 1, and much in mode 0."""
    power = np.ones(12)
    power[0] = 500
    power[list(modes)] = 10 + np.arange(len(modes), 0, -1)
    return power / power.sum()


def test_films_leave_out_mode_0_and_count_what_both_spectra_share():
    used, named = (2, 3, 5, 7, 11), (2, 4, 6, 8, 10)
    film = {"mode": np.arange(12), "embedding": peaks(*used), "training": 0.5, "validation": 0.5}
    parts = [
        pd.DataFrame({**film, "frame": n, "gradient": peaks(*own)}) for n, own in ((0, named), (2, used))
    ]
    frames = soundings.filmed(pd.concat(parts, ignore_index=True))
    assert frames["mode"].min() == 1
    np.testing.assert_allclose(frames.groupby("frame")[["gradient", "embedding"]].sum(), 1)
    assert frames.groupby("frame")["shared"].first().to_dict() == {0: 1, 2: 5}
    strong = frames[frames["strong"] == soundings.BOTH].groupby("frame")["mode"].apply(set)
    assert strong.to_dict() == {0: {2}, 2: set(used)}


def test_a_live_run_has_the_columns_of_a_film_from_before_the_first_update_and_says_what_is_not_prime():
    live = soundings.live_frames(p=9, train_share=0.6, weight_decay=1.0, seed=3)
    frames = [next(live) for _ in range(3)]
    assert [frame["frame"].unique().tolist() for frame in frames] == [[0], [1], [2]]
    assert set(frames[0]) == set(soundings.filmed(hammer_film.function(HammerFilm(RUN))))
    assert "9 is not prime" in frames[0].attrs["note"]
    assert not next(soundings.live_frames(p=7, train_share=0.6, weight_decay=1.0, seed=3)).attrs["note"]


# --- language ---------------------------------------------------------------------------------------


def test_language_soundings_agree_with_the_claims_strikes(monkeypatch):
    documents = [f"The cat number {n} sat on mat {n * n}. Then it slept{'!' * n}" for n in range(12)]
    monkeypatch.setattr(corpora, "load_text", lambda name, *, part=None: "<|endoftext|>".join(documents))
    load_streams.cache_clear()
    setting = LanguageSetting(8, 2, 2, 24, 16, 4, 6, 1e-2)
    run = HammerRun(TextConfig("embedded", held_out_every=3), setting=setting, hammer=Hammer(3, 16, 3))
    try:
        table = language_soundings.function(LanguageSoundings(run, 4))
        struck = hammer_language.function(run)
    finally:
        load_streams.cache_clear()
    assert set(table["tensor"]) >= {"embedding", "position", "blocks.1.attention.key.weight"}
    for name, dim in (("position", 0), ("blocks.0.down.weight", 1), ("embedding", 0)):
        for moment in ("start", "trained"):
            own = table[(table["tensor"] == name) & (table["dim"] == dim) & (table["moment"] == moment)]
            row = struck[(struck["tensor"] == name) & (struck["rows"] == 16) & (struck["moment"] == moment)]
            assert own["power"].nlargest(3).sum() == pytest.approx(row["regularity"].item(), rel=1e-4)
