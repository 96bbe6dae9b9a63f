"""What is measured on released models, on data whose answers are known."""

import numpy as np
import torch
from torch import nn

from book.released.experiments import counts, numbers, queries, shrinking, shrunk, slices
from embviz.metrics import nearest_neighbors


def test_power_by_mode_is_that_of_a_plain_transform_without_a_linear_trend():
    rng = np.random.default_rng(0)
    points, time = rng.normal(size=(12, 5)), np.arange(12.0)
    design = np.stack([np.ones(12), time], axis=1)
    rest = points - design @ np.linalg.lstsq(design, points, rcond=None)[0]
    by_hand = np.array([np.abs(np.exp(-2j * np.pi * k * time / 12) @ rest) ** 2 for k in range(1, 7)])
    by_hand = by_hand.sum(axis=1) * [2, 2, 2, 2, 2, 1]
    np.testing.assert_allclose(numbers.mode_power(points), by_hand / by_hand.sum(), rtol=1e-10)
    moved = points + np.outer(3 * time, rng.normal(size=5))
    np.testing.assert_allclose(numbers.mode_power(moved), numbers.mode_power(points), rtol=1e-8)


def test_a_period_of_ten_is_found_and_another_is_not():
    time, rng = np.arange(200), np.random.default_rng(0)
    noise = rng.normal(size=(200, 20))
    digits, elevens = rng.normal(size=(10, 20))[time % 10], rng.normal(size=(11, 20))[time % 11]
    with_ten, other = numbers.peak(numbers.mode_power(noise + digits), 200)
    assert with_ten > 3 > other
    assert numbers.peak(numbers.mode_power(noise + elevens), 200)[0] < 2


def test_lists_are_in_a_models_own_tokens():
    gemma = numbers.lists_of("gemma3_270m")
    assert gemma["months"][0] == "▁January"
    assert gemma["digits"][:2] == ["0", "1"]
    assert "numbers" not in gemma
    assert set(numbers.lists_of("glove_6b_100d")) == {"months", "days of the week", "number words"}
    assert numbers.lists_of("minilm_l6")["years"][-1] == "2019"


def test_stored_rows_come_back():
    rows = np.random.default_rng(0).normal(size=(3, 7))
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    back = slices.vectors_of(slices.stored(["a", "b", "c"], rows))
    assert back.vocabulary == ["a", "b", "c"]
    np.testing.assert_allclose(back.word, rows, atol=1.6e-5)


def test_neighbors_kept_are_all_where_nothing_is_lost():
    rng = np.random.default_rng(0)
    flat = np.zeros((60, 8))
    flat[:, :4] = rng.normal(size=(60, 4))  # half of the width is enough
    table = {(row["map"], row["share"]): row["kept"] for row in shrinking.kept_rows(flat, center=False)}
    assert table["principal", 0.5] == 1.0
    assert table["random", 0.5] < 1.0
    x = rng.normal(size=(50, 6))
    cosine = (x @ x.T) / np.linalg.norm(x, axis=1)[:, None] / np.linalg.norm(x, axis=1)
    np.fill_diagonal(cosine, -2)
    np.testing.assert_array_equal(shrinking.nearest(x), np.argsort(-cosine, axis=1)[:, :8])
    assert nearest_neighbors(x, 8)[0].shape == (50, 8)


def test_the_stream_is_changed_after_the_embedding_and_each_layer_and_then_left_alone():
    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.model = nn.Module()
            self.model.embed_tokens = nn.Embedding(5, 2)
            self.model.layers = nn.ModuleList([nn.Identity(), nn.Identity()])

        def forward(self, ids):
            x = self.model.embed_tokens(ids)
            for layer in self.model.layers:
                x = layer(x)
            return x

    model, ids = Model(), torch.tensor([[1, 2]])
    with torch.no_grad():
        plain = model(ids)
        with shrunk.on_stream(model, lambda x: 2 * x):
            torch.testing.assert_close(model(ids), 8 * plain)
        torch.testing.assert_close(model(ids), plain)


def test_the_most_frequent_tokens_are_numbered_and_others_are_holes():
    chosen, text = counts.most_frequent(np.array([7, 3, 7, 9, -1, 3, 7]), 2)
    assert chosen.tolist() == [7, 3]
    assert text.tolist() == [0, 1, 0, 2, 2, 1, 0]


def test_a_matrix_power_is_of_eigenvalues():
    D = np.array([[2.0, 1.0], [1.0, 2.0]])
    np.testing.assert_allclose(counts.matrix_power(D, 2), D @ D)
    np.testing.assert_allclose(counts.matrix_power(D, 0.5) @ counts.matrix_power(D, 0.5), D)


def test_agreement_is_with_the_counts_that_the_rows_were_made_of():
    rng = np.random.default_rng(0)
    half = np.triu(rng.poisson(30, size=(40, 40)), 1)
    C = half + half.T
    W = counts.pmi(C)
    found = counts.agreements(W, C)
    assert found["PMI"] > 0.999
    assert abs(counts.agreements(rng.permutation(W), C)["PMI"]) < 0.2


def test_other_places_hold_the_same_entries():
    matrix = np.arange(12.0).reshape(3, 4)
    other = queries.other_places(matrix)
    assert not np.array_equal(other, matrix)
    np.testing.assert_array_equal(np.sort(other.ravel()), matrix.ravel())
