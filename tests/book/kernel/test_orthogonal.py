"""The chapter on orthogonal embeddings: random cosines, before and after, the film, diagnostics."""

import dataclasses
import math

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from book.kernel import orthogonal as chapter
from book.kernel.experiments import models
from book.kernel.experiments.counts import Counts
from book.kernel.experiments.models import Trained
from embviz import kernels
from embviz.view.explorers import Choice, Explorer
from embviz.view.player import Player
from embviz.words.cooccurrence import pmi
from tests.drawing import compiled, drawn

V, D, R = 12, 8, 2
STEPS = [0, 5, 40]
CACHED = (chapter.ends, chapter.path, chapter._arranged)
NAMES = ("tied, start N(0, 1)", "tied, start N(0, 0.02²)", "untied")


def made(seed: int) -> Trained:
    """Models that drift from random embeddings, on random counts; their held-out loss falls."""
    rng = np.random.default_rng(seed)
    half = np.random.default_rng(0).integers(1, 50, (V, V)).astype(float)
    start = rng.standard_normal((R, V, D))
    path = np.stack([start + weight * rng.standard_normal(start.shape) for weight in (0, 0.1, 0.5)])
    rows = [
        {
            "seed": s,
            "step": step,
            "train_loss": 3.0 - step / 20,
            "dropout_loss": 3.1,
            "held_out_loss": 3.2 - step / 25,
            "weight_norm": 10 - step / 10,
            "update_norm": np.nan if step == 0 else 0.1 / step,
        }
        for s in range(R)
        for step in STEPS
    ]
    tokens = ["the", " ", "\n", *(f"w{i}" for i in range(3, V))]
    return Trained(
        "embedded", STEPS, path, path[-1], pd.DataFrame(rows), Counts(tokens, half + half.T), np.ones(V, bool)
    )


@pytest.fixture(autouse=True)
def trained(monkeypatch):
    """Three kinds of made models in place of trained ones."""
    found = {name: made(seed) for seed, name in enumerate(NAMES)}
    monkeypatch.setattr(chapter, "load", lambda name, preset: found[name])
    monkeypatch.setattr(chapter, "first_heads", lambda run, met: found["untied"].path[1])
    clear()
    yield found[NAMES[0]]
    clear()


def clear() -> None:
    for cached in CACHED:
        cached.cache_clear()


def test_the_mean_cosine_of_random_directions_is_that_of_a_circle_a_ball_and_a_drawing():
    assert chapter.mean_random_cosine(1) == pytest.approx(1)
    assert chapter.mean_random_cosine(2) == pytest.approx(2 / math.pi)
    assert chapter.mean_random_cosine(3) == pytest.approx(1 / 2)
    rows = np.random.default_rng(0).standard_normal((2, 200_000, 5))
    x, y = rows / np.linalg.norm(rows, axis=2, keepdims=True)
    # 200,000 values of a spread of about 0.25
    assert np.abs((x * y).sum(1)).mean() == pytest.approx(chapter.mean_random_cosine(5), abs=0.003)
    # 1 / (4 d) apart
    assert chapter.mean_random_cosine(400) == pytest.approx(math.sqrt(2 / (math.pi * 400)), rel=1e-3)


def test_the_density_is_level_on_a_sphere_and_has_the_mean_that_is_said():
    edges = np.linspace(-1, 1, 20_001)
    assert chapter.random_density(3, edges[::1000]) == pytest.approx(np.full(20, 1 / 20))
    middles = (edges[1:] + edges[:-1]) / 2
    for dim in (2, 3, 16, 64):
        density = chapter.random_density(dim, edges)
        assert density.sum() == pytest.approx(1)
        # narrow bins: the middle stands for the bin
        assert (np.abs(middles) * density).sum() == pytest.approx(chapter.mean_random_cosine(dim), rel=1e-4)


def test_a_shared_direction_raises_cosines_to_its_share():
    plain, shared = (chapter.random_cosines(256, s) for s in (0.0, 1.0))
    assert plain["share_of_pairs"].sum() == pytest.approx(1)
    assert plain["measured"].iloc[0] == pytest.approx(plain["expected"].iloc[0], rel=0.05)
    # s^2 / (1 + s^2) = 1 / 2, up to the draw
    assert shared["measured"].iloc[0] == pytest.approx(0.5, abs=0.03)


def test_no_equally_long_rows_have_more_on_the_diagonal_than_the_bound():
    rng = np.random.default_rng(0)
    E = rng.standard_normal((30, 10, 4))
    unit = E / np.linalg.norm(E, axis=2, keepdims=True)
    assert chapter.orthogonality.diagonal_shares(unit).max() < chapter.most_diagonal(10, 4)
    twice = np.concatenate([np.eye(4), np.eye(4)])  # a tight frame attains it
    assert chapter.orthogonality.diagonal_shares(twice) == pytest.approx(chapter.most_diagonal(8, 4))
    assert chapter.most_diagonal(3, 8) == 1


def test_the_correlation_with_pmi_is_that_of_a_loop():
    trained = made(0)
    found = chapter.pmi_correlation(trained.path, trained.counts.pairs)
    target, E = pmi(trained.counts.pairs), trained.path[2, 1]
    pairs = [(i, j) for i in range(V) for j in range(i + 1, V)]
    own = [E[i] @ E[j] / np.linalg.norm(E[i]) / np.linalg.norm(E[j]) for i, j in pairs]
    slow = stats.spearmanr(own, [target[pair] for pair in pairs]).statistic
    assert found.shape == (len(STEPS), R)
    assert found[2, 1] == pytest.approx(slow)


def test_before_and_after_are_those_of_each_model_and_the_nulls_do_not_move(trained):
    table = chapter.ends("quick")
    own = table[(table["quantity"] == chapter.RATIO) & (table["kind"] == NAMES[0])]
    expected = np.sqrt(2 / (np.pi * D))  # as the claim divides
    assert own["before"].to_numpy() * expected == pytest.approx(
        chapter.orthogonality.mean_cosines(trained.first)
    )
    assert own["after"].to_numpy() * expected == pytest.approx(
        chapter.orthogonality.mean_cosines(trained.last)
    )
    kinds = [*NAMES[:2], "untied, input", "untied, output", chapter.RANDOM, chapter.MOST]
    assert list(dict.fromkeys(table["kind"])) == kinds
    assert len(kinds) == chapter.N_KINDS
    nulls = table[table["kind"].isin([chapter.RANDOM, chapter.MOST])]
    assert (nulls["before"] == nulls["after"]).all()
    said = chapter.ends_finding("quick")
    assert f"{NAMES[0]}: {own['before'].mean():.2f} to {own['after'].mean():.2f}" in said
    assert chapter.RANDOM not in said.split("training:")[1]


def test_the_film_has_every_snapshot_and_its_changes_begin_at_zero(trained):
    frames = chapter.frames("quick")
    assert frames["frame"].unique().tolist() == STEPS
    assert (frames.loc[frames["frame"] == 0, "change"] == 0).all()
    diagonal = frames[frames["row"] == frames["column"]]
    assert diagonal["cosine"].to_numpy() == pytest.approx(np.ones(len(diagonal)))
    last = frames[frames["frame"] == STEPS[-1]]
    moved = last.loc[last["row"] < last["column"], "change"].abs().mean()
    assert f"move by {moved:.3f} on average" in chapter.film_finding("quick")
    frequent = int(trained.counts.pairs.sum(axis=1).argmax())
    assert frames["pair"].iloc[0] == " ".join([chapter.visible(trained.counts.tokens[frequent])] * 2)
    assert {"␣ ␣", "⏎ ⏎"} <= set(frames["pair"])
    assert chapter.film_background("quick")["expected"].sum() == pytest.approx(1)


def test_a_diagnostic_that_falls_with_the_loss_has_rank_one_and_the_closest_is_named(monkeypatch):
    means = chapter.ranks("quick").groupby("diagnostic")["correlation"].mean()
    assert means["training loss"] == pytest.approx(1)
    said = chapter.ranks_finding("quick")
    assert said.startswith("The ")
    assert "rank correlation of 1.00; the cosine with the derived k0 has" in said
    table = chapter.path("quick")
    own = table.assign(k0_fft=-table["held_out_loss"], train_loss=0.0, weight_norm=0.0, update_norm=0.0)
    monkeypatch.setattr(chapter, "path", lambda preset: own.assign(identity=0.0))
    assert "has -1.00, which is closest to the held-out loss" in chapter.ranks_finding("quick")
    drawn = chapter.diagnostics("quick")
    assert drawn["step"].min() > 0
    assert not drawn.isna().any().any()


def test_stages_are_means_over_seeds():
    table, shown = chapter.path("quick"), chapter.stages("quick")
    mean = table.loc[table["step"] == STEPS[1], "k0_fft"].mean()
    assert shown.loc[STEPS[1], "cosine, FFT form"] == f"{mean:.3f}"
    assert shown["epoch"].iloc[-1] == str(models.main("quick").n_epochs)


def test_untrained_models_have_the_cosine_that_d_makes_one_expect():
    found = chapter.untrained("quick", "by frequency", 64)
    assert found["share_of_models"].sum() == pytest.approx(1)
    # an approximation, and 200 draws
    assert found["mean"].iloc[0] == pytest.approx(found["expected"].iloc[0], abs=0.1)
    assert set(chapter.orders("quick")) == {
        "by frequency",
        "alphabetical",
        *(f"random {i}" for i in range(1, 5)),
    }
    means = [chapter.untrained("quick", order, 64)["mean"].iloc[0] for order in chapter.orders("quick")]
    assert np.ptp(means) > 0.01


def test_the_diagnostic_does_not_see_the_spread_of_the_draw(trained):
    wide = trained.first
    rows = [chapter._first_rows(E, trained.spectrum) for E in (wide, 0.02 * wide)]
    derived = kernels.k0_fft(trained.spectrum)
    assert chapter.cosines(derived, rows[0]) == pytest.approx(chapter.cosines(derived, rows[1]))


def test_an_order_of_the_words_renumbers_models_and_counts_alike(trained):
    order = chapter.orders("quick")["random 1"]
    mixed = trained.counts.pairs[np.ix_(order, order)]
    other = dataclasses.replace(trained, path=trained.path[:, :, order], counts=Counts([], mixed))
    expected = chapter.cosines(kernels.k0_fft(other.spectrum), other.k0).mean()
    assert chapter.untrained("quick", "random 1", 4)["trained"].iloc[0] == pytest.approx(expected)


def test_the_means_that_are_written_are_those_of_the_table():
    controls = {"dim": Choice([8], "d"), "shared": Choice([0.5], "s")}
    explorer = Explorer(chapter.random_cosines, controls, chapter.plot_random_cosines, title="t", caption="c")
    row = chapter.random_cosines(8, 0.5).iloc[0]
    written = [item["text"] for item in drawn(explorer.static_spec(), "text")]
    assert written[-3:] == [
        f"mean |cosine|, these vectors: {row['measured']:.3f}",
        f"random directions (dashed): {row['expected']:.3f}",
        f"√(2/πd): {row['approximate']:.3f}",
    ]
    orders = {"order": Choice(["random 1"], "o"), "dim": Choice([4], "d")}
    explorer = Explorer(
        lambda order, dim: chapter.untrained("quick", order, dim),
        orders,
        chapter.plot_untrained,
        title="t",
        caption="c",
    )
    row = chapter.untrained("quick", "random 1", 4).iloc[0]
    written = [item["text"] for item in drawn(explorer.static_spec(), "text")]
    assert written[-2:] == [
        f"untrained: {row['mean']:.2f}, expected from D: {row['expected']:.2f}",
        f"trained (solid line): {row['trained']:.2f}",
    ]


def test_all_charts_explorers_and_the_film_compile():
    controls = {"dim": Choice([2, 64], "d"), "shared": Choice([0.0, 0.5], "s")}
    compiled(Explorer(chapter.random_cosines, controls, chapter.plot_random_cosines, title="t", caption="c"))
    ends = {"quantity": Choice(list(chapter.QUANTITIES), "q")}
    compiled(Explorer(None, ends, chapter.plot_ends, title="t", caption="c", grid=chapter.ends("quick")))
    names = {"diagnostic": Choice(list(chapter.DIAGNOSTICS.values()), "d")}
    grid = chapter.diagnostics("quick")
    compiled(Explorer(None, names, chapter.plot_diagnostic, title="t", caption="c", grid=grid))
    compiled(chapter.plot_ranks("quick"))
    orders = {"order": Choice(["by frequency", "random 1"], "o"), "dim": Choice([4, 64], "d")}
    compiled(
        Explorer(
            lambda order, dim: chapter.untrained("quick", order, dim),
            orders,
            chapter.plot_untrained,
            title="t",
            caption="c",
        )
    )
    compiled(
        Player(
            chapter.frames("quick"),
            chapter.draw_film,
            title="t",
            caption="c",
            curves=["ratio", "held_out_loss"],
            background=chapter.film_background("quick"),
        )
    )


def test_captions_name_the_text_and_the_sizes():
    assert chapter.data_note("quick").startswith("Bundled documentation, words, others dropped, 1,500 tokens")
    assert chapter.dimensions("quick") == [4, 8, 16, 64, 256]
    assert list(chapter.runs("quick")) == list(NAMES)
    assert [run.tied for run in chapter.runs("paper").values()] == [True, True, False]
