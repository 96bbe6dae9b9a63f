"""Experiments: replicates by pairs, a training that pauses, reflected twins, centred matrices, graphs."""

import itertools
import math

import numpy as np
import pandas as pd
import pytest
import torch

from book.reflections.experiments import scores, spectrum, theory, twins, vectors
from embviz.corpora import make_corpus
from embviz.ledger import cells
from embviz.models.recurrent import LSTMConfig, LSTMLanguageModel
from embviz.pausing import Paused, pausing_at
from embviz.words.wordvectors import WordVectors


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


def test_a_cell_that_pauses_goes_on_and_ends_with_the_same_table(monkeypatch, tmp_path):
    monkeypatch.setenv("EMBVIZ_RESULTS_DIR", str(tmp_path / "results"))
    monkeypatch.setenv("EMBVIZ_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setattr("embviz.words.skipgram.BLOCK", 700)
    words = np.random.default_rng(0).choice(list("abcdefghijklmnopqrst"), 3000)
    made = make_corpus(" ".join(words), name="made")
    monkeypatch.setattr(vectors.corpora, "load_corpus", lambda name: made)
    size = {"embedding_dim": 8, "n_epochs": 2, "n_negative": 5, "min_count": 1, "word_tests": False}
    cell = vectors.skipgram.cell(vectors.SkipGram("made", "half", 0, **size))
    n_pauses = 0
    for _ in range(30):  # a slice that is over at once still does a block
        try:
            with pausing_at(0.0):
                cells.compute(cell)
            break
        except Paused:
            n_pauses += 1
    assert n_pauses == 10  # five blocks an epoch
    pd.testing.assert_frame_equal(cells.read(cell)[0], vectors.skipgram.function(cell.config))
    assert not list((tmp_path / "cache" / "runs").glob(f"{cell.key}*"))


def test_halves_of_made_vectors_pull_and_push_and_random_ones_do_neither():
    text = vectors.corpora.load_corpus("embedded").restrict(max_vocab=300, rare="hole")
    counts = vectors.count_pairs(text.ids, 300, window=5, document_starts=text.document_starts)
    values, columns = np.linalg.eigh(vectors.pmi(counts).toarray())
    kept = np.r_[0:20, 280:300]
    word = (columns[:, kept] * np.sqrt(np.abs(values[kept]))).astype(np.float32)
    signs = np.sign(values[kept])
    made = WordVectors(text.vocabulary, word, word * signs.astype(np.float32), signs)
    table = vectors._halves(text, made, seed=0).set_index(["control", "item"])["value"]
    assert table["", "pull"] > 0.3
    assert table["", "push"] < -0.3
    assert table["random_split", "pull"] > table["", "push"]


def test_a_copy_passes_the_test_of_the_square_and_reflects_nothing():
    word = np.random.default_rng(0).standard_normal((60, 6)).astype(np.float32)
    half = np.array([1, 1, 1, -1, -1, -1], dtype=np.float32)
    model = WordVectors([f"w{i}" for i in range(60)], word, 0.8 * word * half)
    table = vectors.map_statistics(model, seed=0)
    summary = table[table["quantity"] == "map"].set_index(["control", "item"])["value"]
    assert summary["", "negative_share"] == 0.5
    assert summary["", "diag_mean"] == pytest.approx(0.64)
    assert (summary["copy", "diag_mean"], summary["copy", "negative_share"]) == (pytest.approx(1.0), 0.0)


# --- reflected twins --------------------------------------------------------------------------------------


def test_the_reflected_twin_computes_the_plain_models_logits_and_losses_to_the_bit():
    models = twins.twin_models(vocab_size=40, embedding_dim=6, seed=1)
    words = torch.from_numpy(np.random.default_rng(0).integers(40, size=(60, 3)))
    logits = {name: model(words, model.initial_state(3))[0] for name, model in models.items()}
    assert torch.equal(logits[twins.REFLECTED], logits[twins.PLAIN])
    assert not torch.allclose(logits[twins.SAME_START], logits[twins.PLAIN])
    losses = {name: twins.train_losses(model, words, 8) for name, model in models.items()}
    assert losses[twins.REFLECTED].tolist() == losses[twins.PLAIN].tolist()


@pytest.mark.parametrize("n_layers", [1, 2, 3])
def test_a_reflected_model_leaves_the_plain_one_and_the_size_of_its_weights_as_they_were(n_layers):
    config = LSTMConfig(vocab_size=11, embedding_dim=6, n_layers=n_layers, dropout=0.0)
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


def test_the_stored_twins_have_no_gap_and_the_null_has_one():
    gaps = twins.held_out_gaps()
    assert gaps[twins.REFLECTED] == 0
    assert abs(gaps[twins.SAME_START]) > 0.001


# --- spectra ----------------------------------------------------------------------------------------------


def test_a_centred_matrix_has_no_mean_in_any_row():
    noise = np.random.default_rng(0).standard_normal((20, 20)) + 3
    centred = spectrum.centred(noise + noise.T)
    assert np.abs(centred.mean(axis=0)).max() < 1e-5  # float32
    assert np.abs(centred - centred.T).max() < 1e-5


def test_a_scale_free_graph_has_its_edges_and_triangles_where_they_are_asked_for():
    with_triangles, without = (spectrum.scale_free_graph(400, 4, chance, seed=0) for chance in (1.0, 0.0))
    for graph in (with_triangles, without):
        assert (graph == graph.T).all()
        assert not graph.diagonal().any()
        assert graph.sum() == 2 * 4 * 396
        assert graph.sum(axis=0).max() > 10 * 4  # a hub
    triangles = [np.trace(graph @ graph @ graph) for graph in (with_triangles, without)]
    assert triangles[0] > 2 * triangles[1]


def test_a_semicircle_is_at_no_distance_from_itself_and_other_shapes_are():
    noise = np.random.default_rng(0).standard_normal((500, 500))
    values = np.linalg.eigvalsh(noise + noise.T)
    assert spectrum.bulk_distance(values) < 0.02
    assert spectrum.bulk_distance(values, 5 * values + 1) == pytest.approx(0)  # shift and scale don't count
    assert spectrum.bulk_distance(values**3) > 0.2


def test_leading_shares_agree_with_sorting_by_hand():
    values = np.random.default_rng(0).standard_normal(50)
    by_size = sorted(values.tolist(), key=abs, reverse=True)[:7]
    assert spectrum.leading_share(values, 7) == sum(value > 0 for value in by_size) / 7


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


def test_the_floor_is_the_variance_of_the_mean_given_the_word():
    d = 100
    norms = np.random.default_rng(0).chisquare(d, 200_000) / d
    # a fourth-moment standard error of 0.3%, and terms of relative order 1/d left out of 1/(2 d^3)
    assert np.exp(norms / (2 * d)).var() == pytest.approx(1 / (2 * d**3), rel=0.03)


def test_a_random_maps_involution_error_is_that_of_its_symmetric_part():
    q = theory.draw_orthogonal(200, "orthogonal", np.random.default_rng(0))
    half = (q + q.T) / 2
    error = np.linalg.norm(half @ half - np.eye(200)) / math.sqrt(200)
    assert error == pytest.approx(math.sqrt(3 / 8), abs=0.02)
