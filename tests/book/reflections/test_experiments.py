"""Experiments: replicates by pairs, reflected twins, centred matrices, graphs."""

import dataclasses
import itertools
import math

import numpy as np
import pandas as pd
import pytest
import torch
from scipy import stats

from book.reflections.experiments import scores, spectrum, theory, twins
from book.reflections.lstm import LSTMConfig, LSTMLanguageModel


def test_pair_replicates_weigh_a_question_by_its_pairs():
    pairs = [(f"a{i}", f"b{i}") for i in range(7)]
    table = pd.DataFrame([(*p, *q) for p, q in itertools.permutations(pairs, 2)], columns=list("abcd"))
    correct = np.arange(len(table)) % 3 == 0
    found = scores.pair_replicates(correct, table)
    for replicate, times in zip(found, scores._draws(7), strict=True):
        by_pair = dict(zip(pairs, times.tolist(), strict=True))
        rows = zip(table.itertuples(index=False), correct, strict=True)
        weights = [(by_pair[row[:2]] * by_pair[row[2:]], right) for row, right in rows]
        total = sum(weight for weight, _ in weights)
        assert replicate == pytest.approx(sum(weight for weight, right in weights if right) / total)


def test_pairs_vary_more_than_questions_taken_as_independent():
    rng = np.random.default_rng(0)
    known = rng.random(40) < 0.5  # a question is answered where both of its pairs are known
    asked = list(itertools.permutations(range(40), 2))
    table = pd.DataFrame([(f"a{p}", f"b{p}", f"a{q}", f"b{q}") for p, q in asked], columns=list("abcd"))
    correct = np.array([known[p] and known[q] for p, q in asked])
    alone = math.sqrt(correct.mean() * (1 - correct.mean()) / len(correct))
    assert scores.pair_replicates(correct, table).std() > 5 * alone


# --- reflected twins --------------------------------------------------------------------------------------


def test_the_reflected_twin_computes_the_plain_models_logits_and_losses_to_the_bit():
    models = twins.twin_models(vocab_size=40, embedding_dim=6, seed=1)
    words = torch.from_numpy(np.random.default_rng(0).integers(40, size=(60, 3)))
    logits = {name: model(words, model.initial_state(3))[0] for name, model in models.items()}
    assert torch.equal(logits[twins.REFLECTED], logits[twins.PLAIN])
    assert not torch.allclose(logits[twins.SAME_START], logits[twins.PLAIN])
    losses = {name: twins.train_losses(model, words, 8) for name, model in models.items()}
    assert losses[twins.REFLECTED].tolist() == losses[twins.PLAIN].tolist()


def test_a_reflected_model_leaves_the_plain_one_and_the_size_of_its_weights_as_they_were():
    config = LSTMConfig(vocab_size=11, embedding_dim=6, n_layers=2, dropout=0.0)
    model = LSTMLanguageModel(config, seed=0).double()
    before = {name: weight.clone() for name, weight in model.state_dict().items()}
    twin = twins.reflected(model, torch.tensor([1, -1, 1, -1, -1, 1]))
    words = torch.tensor([[1, 2], [3, 4], [10, 0], [5, 5], [1, 9]])
    ours, theirs = (one(words, one.initial_state(2))[0] for one in (model, twin))
    assert torch.equal(ours, theirs)
    for name, weight in model.state_dict().items():
        assert torch.equal(weight, before[name])
        if name != "signs":
            assert torch.equal(twin.state_dict()[name].abs(), weight.abs())


def test_a_model_that_is_not_tied_plainly_is_refused():
    model = twins.twin_models(vocab_size=10, embedding_dim=4, seed=0)[twins.SAME_START]
    with pytest.raises(ValueError, match="start from one whose tying is 'plain'"):
        twins.reflected(model, model.signs)


# --- spectra ----------------------------------------------------------------------------------------------


def test_the_middle_of_a_semicircle_is_compared_with_the_middle_of_a_semicircle():
    places = (np.arange(4_000) + 0.5) / 4_000
    semicircle, normal = 3 * stats.semicircular.ppf(places), stats.norm.ppf(places)
    assert spectrum.semicircle_distance_of_bulk(semicircle) < 1e-3
    # the whole semicircle lies 0.0027 from its middle 99%, which was the distance of every random matrix
    assert spectrum.semicircle_distance(spectrum.bulk(semicircle)) > 2e-3
    inside = normal[20:-20]
    middle = stats.semicircular.ppf(0.005 + 0.99 * (np.arange(200_000) + 0.5) / 200_000)
    one, other = (values / np.sqrt((values**2).mean()) for values in (inside, middle))
    found = spectrum.semicircle_distance_of_bulk(normal)
    assert found == pytest.approx(stats.ks_2samp(one, other).statistic, abs=1e-3)
    assert found > 0.02


# --- lemmas -----------------------------------------------------------------------------------------------


def test_joint_asymmetry_agrees_with_loops():
    config = theory.RecoveredMap(12, 4, 0.25, "orthogonal", 0)
    rng = np.random.default_rng(0)
    w, q = theory.draw_vectors(12, 4, rng), theory.draw_orthogonal(4, "orthogonal", rng)
    p = theory.unigram(12, 0.25)
    joint = np.zeros((12, 12))
    for j in range(12):
        terms = [p[i] * math.exp(w[j] @ (q @ w[i])) for i in range(12)]
        for i in range(12):
            joint[i, j] = terms[i] / sum(terms) * p[j]
    expected = np.abs(joint - joint.T).sum() / 2
    assert theory.joint_asymmetry.function(config)["asymmetry"].item() == pytest.approx(expected)


def test_triples_agree_with_loops_over_distinct_words():
    matrix = theory.simulated_pmi(7, 3, 2, seed=0)
    triples = [matrix[i, j] * matrix[j, k] * matrix[k, i] for i, j, k in itertools.permutations(range(7), 3)]
    assert theory.entry_moments(matrix)["triples"] == pytest.approx(np.mean(triples))


def test_weights_of_one_half_factorize_what_a_weighted_least_squares_fits():
    rng = np.random.default_rng(0)
    matrix, counts = rng.standard_normal((9, 9)), np.arange(9.0, 0.0, -1.0)
    matrix = matrix + matrix.T
    scaled = spectrum.weighted(matrix, counts, 0.5).toarray()
    values, axes = np.linalg.eigh(scaled)
    best = np.argsort(-np.abs(values))[:4]
    weights = np.outer(counts, counts) / counts.mean() ** 2
    low = (axes[:, best] * values[best]) @ axes[:, best].T / np.sqrt(weights)  # back to PMI's own scale

    def loss(fitted: np.ndarray) -> float:
        return float((weights * (matrix - fitted) ** 2).sum())

    plain = np.linalg.eigh(matrix)
    leading = np.argsort(-np.abs(plain[0]))[:4]
    unweighted = (plain[1][:, leading] * plain[0][leading]) @ plain[1][:, leading].T
    assert loss(low) == pytest.approx((np.sort(values**2)[:5]).sum())
    assert loss(low) < loss(unweighted)
    assert np.array_equal(spectrum.weighted(matrix, counts, 0.0).toarray(), matrix)


def test_the_excess_of_the_partition_function_is_that_of_the_worst_setting(monkeypatch):
    judged = theory._partition_cells("laptop")
    assert {cell.config.seed for cell in judged} == set(range(5, 10)), "0 to 4 were seen before"
    excess = {("uniform", 1_000, 0.25): 0.8, ("uniform", 3_000, 1.0): 1.2, ("tied_frequent", 1_000, 0.5): 9.0}
    rows = [
        {
            **dataclasses.asdict(cell.config),
            "mean": 1 + excess.get((cell.config.case, cell.config.n, cell.config.alpha), 1.0) / 200,
            "conditional_variance": 1 / cell.config.n,
            "total_variance": 1 / cell.config.n,
        }
        for cell in judged
    ]
    monkeypatch.setattr(theory, "load", lambda found: pd.DataFrame(rows))
    found = theory._partition_findings("laptop")
    assert found["excess_ratio"].value == pytest.approx(0.8), "farther from 1 than 1.2, on logarithms"
    assert found["excess_ratio"].controls["tied_frequent"] == pytest.approx(9.0)
    assert found["slope_100"].value == pytest.approx(-1.0)
