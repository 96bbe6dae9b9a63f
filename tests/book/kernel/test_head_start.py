"""The chapter on derived beginnings: what is saved, what a derived embedding is, losses before training."""

import dataclasses

import numpy as np
import pandas as pd
import pytest

from book.kernel import head_start as chapter
from book.kernel.experiments import models, starts
from book.kernel.experiments.counts import Counts
from book.kernel.experiments.runs import prepare
from book.kernel.experiments.texts import load
from embviz import kernels
from embviz.view.explorers import Choice, Explorer, Range
from embviz.words.cooccurrence import count_pairs
from tests.drawing import compiled

STEPS = np.arange(0, 31)
SHIFTS = {"derived": 6, "derived, FFT form": 0, "permuted": -3, "log counts": 30, "PMI": 3}
CACHED = (chapter.curves, chapter.savings_grid, chapter.embedding, chapter._counts, chapter.two_starts)
V = 13


def made_curves() -> pd.DataFrame:
    """Losses that fall by 0.1 an update; a beginning is so many updates ahead of the random one."""
    parts = [
        pd.DataFrame(
            {
                "beginning": kind,
                "seed": seed,
                "step": STEPS,
                "held_out_loss": 9 + seed - 0.1 * (STEPS + ahead),
            }
        )
        for kind, ahead in {"random": 0, **SHIFTS}.items()
        for seed in (0, 1)
    ]
    return pd.concat(parts, ignore_index=True)


@pytest.fixture(autouse=True)
def made(monkeypatch):
    """Made curves, and the counts of a made text, in place of the main one's."""
    rng = np.random.default_rng(0)
    ids = rng.choice(V, size=400, p=np.arange(V, 0, -1) / np.arange(V + 1).sum())
    pairs = count_pairs(ids, V, window=5).toarray().astype(float)
    spectrum = kernels.decompose(kernels.log_counts(pairs))
    clear()
    monkeypatch.setattr(chapter, "curves", lambda preset: made_curves())
    monkeypatch.setattr(chapter, "_counts", lambda: (Counts([f"w{i}" for i in range(V)], pairs), spectrum))
    yield ids
    clear()


def clear() -> None:
    for cached in CACHED:
        cached.cache_clear()


def test_a_beginning_that_is_ahead_by_some_updates_saves_just_these():
    table = made_curves()
    for parts in (1, 2, 3):
        budget = STEPS[-1] / parts
        for kind in ("derived", "PMI"):
            expected = [100 * SHIFTS[kind] / budget] * 2
            assert chapter.savings_at(table, kind, parts) == pytest.approx(expected)
        assert chapter.savings_at(table, "derived, FFT form", parts) == pytest.approx([0, 0], abs=1e-9)
    assert chapter.savings_at(table, "log counts", 3) == pytest.approx([100, 100])  # there at once


def test_at_its_target_a_saving_is_that_of_the_claim():
    table = made_curves()
    for kind in SHIFTS:
        assert chapter.savings_at(table, kind, starts.TARGET) == pytest.approx(starts.savings(table, kind))


def test_no_interval_reaches_beyond_what_can_be_saved_or_lost():
    table = made_curves()
    late = table["held_out_loss"].where(table["beginning"] != "permuted", 20.0)
    table = table.assign(held_out_loss=late.where(table["seed"] == 0, table["held_out_loss"]))
    found = chapter.saving(table, "permuted", 3)
    assert found.value == pytest.approx((-200 - 30) / 2)
    assert (found.low, found.high) == (-200, 100)
    assert chapter.said(found) == "-115% [-200, 100]"


def test_a_chosen_curve_is_shown_beside_the_random_one_and_the_null():
    shown = chapter.shown_curves("quick", "PMI", 3)
    assert set(shown["beginning"]) == set(chapter.SHOWN)
    own = shown[(shown["beginning"] == "as chosen") & (shown["seed"] == 0)]
    assert own["held_out_loss"].iloc[0] == pytest.approx(9 - 0.3)
    assert shown["target"].iloc[0] == pytest.approx(9.5 - 1.0)
    assert shown["text"].iloc[0].startswith("PMI saves 30% [30, 30]")
    assert shown["null"].iloc[0] == "derived, rows permuted: -30% [-30, -30]"


def test_every_beginning_and_target_has_its_savings_and_the_sentence_names_the_largest():
    grid = chapter.savings_grid("quick")
    assert len(grid) == len(chapter.PARTS) * len(SHIFTS) * 2
    own = grid[(grid["parts"] == 3) & (grid["beginning"] == "derived")]
    assert own["mean"].iloc[0] == pytest.approx(own["saving"].mean())
    assert chapter.savings_finding("quick") == (
        "The derived beginning saves 60% [60, 60] of the steps, with its rows permuted -30% [-30, -30]; "
        "most is saved by log counts, 100% [100, 100]"
    )


@pytest.mark.parametrize("form", ["eigen", "fft"])
def test_waves_have_the_products_of_the_listing(form, made):
    _, spectrum = chapter._counts()
    for dim in (V - 1, V):
        listing = kernels.training_free_embeddings(made, V, dim, form=form)
        if listing.gap > 1e-9:  # else the cut parts a pair, and the listing's choice is arbitrary
            E = chapter.waves(spectrum, dim, form).E
            assert E.shape == (V, dim)
            largest = np.abs(listing.E @ listing.E.T).max()
            assert E @ E.T / largest == pytest.approx(listing.E @ listing.E.T / largest, abs=1e-9)


def test_columns_of_waves_are_cosines_and_sines_of_the_id():
    own = chapter.waves(chapter._counts()[1], 7)
    places = np.arange(V)
    for column, k in zip(own.E.T, own.frequencies, strict=True):
        basis = np.stack([np.cos(2 * np.pi * k * places / V), np.sin(2 * np.pi * k * places / V)], axis=1)
        left = column - basis @ np.linalg.lstsq(basis, column, rcond=None)[0]
        assert np.abs(left).max() <= 1e-9 * max(np.abs(column).max(), 1e-300)
    assert own.values.tolist() == sorted(own.values, reverse=True)


def test_the_neighbourhood_of_a_word_slides_along_with_its_id():
    around = chapter.similar(chapter.embedding(chapter.DERIVED))
    for word in range(1, V):
        assert around[word] == pytest.approx(np.roll(around[0], word), abs=1e-9)
    own = chapter.similar(chapter.embedding(chapter.FACTORS))
    assert np.abs(own[1] - np.roll(own[0], 1)).max() > 0.01
    table = chapter.neighbours(chapter.FACTORS, 2)
    assert 2 not in table["word_id"].tolist()
    nearest = table.loc[table["rank"] == 1].iloc[0]
    assert (
        nearest["similarity"]
        == table["similarity"].max()
        == pytest.approx(np.delete(own[2], 2).max(), abs=1e-6)
    )


def test_the_table_has_one_set_of_distances_for_all_words():
    table = chapter.neighbour_table(5)
    assert len(set(table["derived: ids away"])) == 1
    assert table.index.tolist() == [f"w{i}" for i in range(5)]


def test_two_columns_say_how_often_they_turn():
    own = chapter.two_columns(chapter.DERIVED, 1)
    k = chapter.waves(chapter._counts()[1], 2).frequencies
    assert own["text"].iloc[0].startswith(f"{min(k)} turn")
    assert len(own) == 2 * V
    assert chapter.two_columns(chapter.FACTORS, 1)["text"].iloc[0].startswith("no wave")


def test_losses_without_a_model_are_those_of_the_counts(monkeypatch):
    level = Counts(["a", "b", "c", "d"], np.ones((4, 4)))
    monkeypatch.setattr(models, "met_counts", lambda run: (level, np.ones(4, bool)))
    assert set(chapter.levels().values()) == {1.3863}  # ln 4


def test_the_start_that_begins_lower_is_named_and_how_long_the_other_needs(monkeypatch):
    steps = [0, 10, 20]
    parts = [
        pd.DataFrame({"beginning": name, "seed": 0, "step": steps, "held_out_loss": losses})
        for name, losses in {"random, N(0, 1)": [9, 5, 1], "random, N(0, 0.02²)": [3, 2.5, 2]}.items()
    ]
    monkeypatch.setattr(chapter, "two_starts", lambda: pd.concat(parts))
    said = chapter.two_starts_finding()
    assert "N(0, 0.02²) start has a held-out loss of 3.00 nats, the N(0, 1) start one of 9.00" in said
    assert said.endswith("takes 15 updates to get there")
    compiled(chapter.plot_two_starts())
    monkeypatch.setattr(chapter, "two_starts", lambda: pd.concat(parts[::-1]))
    assert chapter.two_starts_finding() == said


def test_losses_before_training_are_those_of_the_session():
    run = dataclasses.replace(starts.small("quick"), n_seeds=1)
    table = chapter.first_losses(n_orders=1, run=run)
    session = prepare(run, embeddings=starts.beginnings(prepare(run), "PMI"))
    assert table.loc["PMI", "in place"] == pytest.approx(float(session.held_out_losses().mean()))
    assert table["gained"].to_numpy() == pytest.approx((table["permuted"] - table["in place"]).to_numpy())
    assert chapter.NAMES["permuted"] not in table.index
    assert len(load(run.text).vocabulary) == run.text.vocab_size


def test_a_larger_vocabulary_that_is_not_stored_is_said_to_be_so(monkeypatch, tmp_path):
    monkeypatch.setenv("EMBVIZ_RESULTS_DIR", str(tmp_path))
    assert "not stored" in repr(chapter.plot_large())
    assert chapter.kinds("paper")[-1] == "skip-gram"
    assert "every beginning of the norm of the random one" in chapter.data_note("quick")


def test_all_charts_and_explorers_compile():
    kinds = {"kind": Choice(["derived", "PMI"], "k"), "parts": Choice([3, 1], "p")}
    compiled(
        Explorer(
            lambda kind, parts: chapter.shown_curves("quick", kind, parts),
            kinds,
            chapter.plot_curves,
            title="t",
            caption="c",
        )
    )
    parts = {"parts": Choice(list(chapter.PARTS), "p")}
    grid = chapter.savings_grid("quick")
    compiled(Explorer(None, parts, chapter.plot_savings, title="t", caption="c", grid=grid))
    methods = Choice(list(chapter.METHODS), "m")
    pair = {"method": methods, "pair": Range(1, 3, 1, "p")}
    compiled(Explorer(chapter.two_columns, pair, chapter.plot_two_columns, title="t", caption="c"))
    word = {"chosen": Range(0, 5, 1, "w"), "method": methods}
    compiled(Explorer(chapter.neighbours, word, chapter.plot_neighbours, title="t", caption="c"))
