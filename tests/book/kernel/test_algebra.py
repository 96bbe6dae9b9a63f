"""The chapter on the kernel's algebra: any W, circulants, noise, orders, five printed values."""

import functools
import math

import numpy as np
import pandas as pd
import pytest

from book.kernel import algebra as chapter
from book.kernel.experiments import fits, models
from book.kernel.experiments.counts import Counts
from book.kernel.experiments.models import Trained
from embviz import kernels
from embviz.ledger import published
from embviz.view.explorers import Choice, Explorer, Range
from tests.drawing import compiled, drawn

V, DIM = 12, 16
WORDS = list("thequickbrwn")  # distinct, and not in alphabetical order


@pytest.fixture(autouse=True)
def models_made(monkeypatch):
    """Two models before and after what stands for training, on random counts."""
    rng = np.random.default_rng(0)
    half = rng.integers(1, 50, (V, V)).astype(float)
    path = rng.standard_normal((2, 2, V, DIM))
    table = pd.DataFrame({"seed": [0, 1], "step": 1, "dropout_loss": 1.0})
    made = Trained("made", [0, 1], path, path[-1], table, Counts(WORDS, half + half.T), np.ones(V, bool))
    monkeypatch.setattr(models, "trained", lambda preset: made)
    clear()
    yield made
    clear()


def clear() -> None:
    chapter.trained.cache_clear()
    chapter.order_scores.cache_clear()


def test_orders_are_orders_of_the_words():
    for name in chapter.ORDERS:
        assert sorted(chapter.order_of("quick", name)) == list(range(V))
    words = [WORDS[place] for place in chapter.order_of("quick", "alphabetical")]
    assert words == sorted(words)
    assert len({tuple(chapter.order_of("quick", name)) for name in chapter.ORDERS}) == len(chapter.ORDERS)
    with pytest.raises(ValueError, match="no order 'random 9': choose one of frequency, alphabetical"):
        chapter.order_of("quick", "random 9")


def test_shades_keep_signs_and_order_and_give_entries_back():
    entries = np.array([[0.0, -4.0], [1.0, 0.0025]])
    assert chapter.shades(entries).tolist() == [[0, -100], [50, 2]]  # root of 0.0025 / 4 is 0.025
    assert chapter.shades(np.zeros((2, 2))).tolist() == [[0, 0], [0, 0]]


@pytest.mark.parametrize("which", chapter.MATRICES)
def test_a_picture_holds_the_matrix_then_its_scores_and_the_error(which, models_made):
    W = chapter.matrix("quick", which)
    K = kernels.extract_kernel(W, models_made.spectrum).kernel
    for shown, entries in (("W", W), ("K", K), ("W from K", W)):
        shades = chapter.pictured("quick", which, shown)["shade"].to_numpy()
        assert len(shades) == V * V + 3
        assert np.abs(shades[: V * V] - chapter.shades(entries).ravel()).max() <= 1  # a rounded tie
        assert shades[-3] == round(1000 * float(kernels.circulant_scores(K)))
        assert shades[-1] == -12  # a condition of a few hundred times rounding stays far below


def test_the_identity_scores_one_and_an_unknown_matrix_is_refused():
    assert chapter.pictured("quick", chapter.IDENTITY, "K")["shade"].iloc[-3] == 1000
    with pytest.raises(ValueError, match="no matrix 'unit': choose one of a trained model"):
        chapter.matrix("quick", "unit")


def test_a_drawing_is_no_gram_matrix():
    face = chapter.face(30)
    assert set(np.unique(face)) == {0.0, 1.0}
    assert np.array_equal(face, face[:, ::-1])  # its left half is its right
    assert not np.array_equal(face, face.T)


def test_kernels_are_circulant_where_gram_matrices_are_and_the_finding_says_so():
    table = chapter.share_table("quick")
    whole = table["share_k"] > 1 - 1e-9  # rounding
    assert set(table.loc[whole, "kind"]) == {chapter.CIRCULANTS}
    assert whole.sum() == (table["kind"] == chapter.CIRCULANTS).sum()
    assert chapter.share_finding(table).startswith(f"{whole.sum()} of {len(table)} kernels are circulant")
    lie = table.assign(share_k=table["share_k"].where(~whole, 0.5))
    assert chapter.share_finding(lie).startswith(
        f"{whole.sum()} of {len(table)} kernels are circulant where W"
    )


def test_random_rows_are_those_of_slow_loops():
    table = chapter.random_rows("quick", "random 1", 8, 3)
    D = chapter.in_order("quick", "random 1").matrix
    E = np.random.default_rng(0).standard_normal((3, V, 8))
    for draw in range(3):
        K = np.fft.ifft2(np.fft.fft2(E[draw] @ E[draw].T) / np.fft.fft2(D)).real
        row = np.fft.ifft2(np.fft.fft2(np.eye(V)) / np.fft.fft2(D)).real[0]
        rolled = [np.roll(K[0], i) for i in range(V)]
        cosines = [K[i] @ rolled[i] / np.linalg.norm(K[i]) / np.linalg.norm(rolled[i]) for i in range(V)]
        assert table["score"][draw] == pytest.approx(np.median(cosines))
        assert table["cosine"][draw] == pytest.approx(K[0] @ row / np.linalg.norm(K[0]) / np.linalg.norm(row))


def test_the_closed_form_follows_random_embeddings_over_dimensions_and_orders():
    table = chapter.by_dimension("quick")
    assert len(table) == len(chapter.ORDERS) * len(chapter.DIMENSIONS)
    # 40 draws leave some 0.03; the closed form takes lengths by their means, which costs up to 0.15
    assert (table["score"] - table["expected"]).abs().median() < 0.05
    assert (table["score"] - table["expected"]).abs().max() < 0.2
    for _, own in table.groupby("order"):
        assert own["expected"].is_monotonic_increasing
    assert "in the median" in chapter.dimension_finding(table)


def test_the_explorers_expectation_is_a_point_of_the_root():
    table = chapter.drawn("quick", "frequency", 32)
    mean = table[table["kind"] == "expected"]
    assert len(mean) == 1
    assert len(table) == chapter.N_DRAWN + 1
    assert mean["cosine"].item() ** 2 == pytest.approx(mean["score"].item())


def test_scores_of_orders_are_shares_and_the_finding_counts_them():
    scores = chapter.order_scores("quick", n=50)
    assert scores.shape == (50,)
    assert ((scores > 0) & (scores < 1)).all()
    order = np.random.default_rng(0).permutation(V)  # the first of them
    gain = kernels.noise_gain(models.trained("quick").spectrum.matrix[np.ix_(order, order)])
    assert scores[0] == pytest.approx(1 / (1 + gain / 64))
    every = chapter.order_scores("quick")
    share = np.mean(every >= np.mean(published("kernel.seeds", "score")))
    assert f"{share:.0%} reach the paper's mean" in chapter.order_finding("quick")


def test_the_gain_that_the_paper_needs_gives_its_score_back():
    needed = float(chapter.gain_note("quick").split("a gain of ")[1].split()[0])
    assert 1 / (1 + needed / 64) == pytest.approx(
        np.mean(published("kernel.seeds", "score")), abs=0.001
    )  # one decimal


def test_the_papers_table_is_printed_and_its_roots_are_roots():
    table = chapter.table_4()
    assert table["circulant score"].mean() == pytest.approx(0.936, abs=0.0005)  # the paper's own mean
    assert table["cosine"].mean() == pytest.approx(0.965, abs=0.0005)
    assert table["root of the score"].tolist() == [
        round(math.sqrt(x), 3) for x in published("kernel.seeds", "score")
    ]
    assert f"{table['cosine - root'].abs().max():.3f} at most" in chapter.table_4_finding()


def test_the_formula_is_held_against_the_identity_matrix(models_made):
    D = models_made.spectrum.matrix
    row = np.fft.ifft2(np.fft.fft2(np.eye(V)) / np.fft.fft2(D)).real[0]
    values, vectors = np.linalg.eigh(D)
    power = (vectors * np.maximum(values, 1e-15) ** 0.003) @ vectors.T
    k0 = np.fft.ifft2(np.fft.fft2(power) / np.fft.fft2(D)).real[0]
    cosine = k0 @ row / np.linalg.norm(k0) / np.linalg.norm(row)
    assert f"a cosine of {cosine:.4f} with" in chapter.formula_note("quick")


def test_printed_eigenvalues_agree_where_they_were_made_and_nowhere_at_the_papers_epsilon(monkeypatch):
    at_paper = chapter.eigenvalues(0.003).set_index("eigenvalue")["kind"]
    assert at_paper["1"] == chapter.AGREES
    assert (at_paper.drop("1") == chapter.DIFFERS).all()
    values = np.array(list(fits.EIGENVALUES.values())) ** (0.007 - 1)
    monkeypatch.setattr(fits, "PRINTED", tuple(round(value, 4) for value in values))
    assert (chapter.eigenvalues(0.007)["kind"] == chapter.AGREES).all()
    assert (chapter.eigenvalues(0.012)["kind"] == chapter.DIFFERS).sum() == 4


def test_the_epsilons_that_printed_values_ask_for_give_them():
    table = chapter.eps_ranges()
    for (name, row), printed in zip(table.iterrows(), fits.PRINTED, strict=True):
        if name != "1":
            assert float(name) ** (float(row["epsilon"]) - 1) == pytest.approx(printed, rel=1e-4)
            assert float(row["from"]) <= float(row["epsilon"]) <= float(row["to"])
    low, high = table.drop("1")["from"].astype(float).max(), table.drop("1")["to"].astype(float).min()
    assert low > high  # no epsilon is in all ranges


def test_all_charts_and_explorers_compile_and_draw_every_cell():
    compiled(chapter.plot_shares(chapter.share_table("quick")))
    compiled(chapter.plot_by_dimension(chapter.by_dimension("quick")))
    compiled(chapter.plot_orders("quick"))
    explorers = [
        Explorer(
            functools.partial(chapter.pictured, "quick"),
            {"which": Choice(chapter.MATRICES, "w"), "shown": Choice(chapter.SHOWN, "s")},
            functools.partial(chapter.plot_pictured, n=V),
            title="t",
            caption="c",
        ),
        Explorer(
            functools.partial(chapter.drawn, "quick"),
            {"dim": Choice(chapter.DIMENSIONS, "d", initial=64), "order": Choice(chapter.ORDERS, "o")},
            chapter.plot_drawn,
            title="t",
            caption="c",
        ),
        Explorer(
            chapter.eigenvalues,
            {"eps": Range(0.0, 0.02, 0.005, "e")},
            chapter.plot_eigenvalues,
            title="t",
            caption="c",
        ),
    ]
    for explorer in explorers:
        compiled(explorer)
    spec = explorers[0].static_spec()
    assert len(drawn(spec, "rect")) == V * V
    words = [item["text"] for item in drawn(spec, "text")]
    assert any("circulant score" in str(text) for text in words)
