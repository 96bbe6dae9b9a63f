"""Experiments: replicates by pairs, reflected twins, centred matrices, graphs."""

import dataclasses
import itertools
import math

import numpy as np
import pandas as pd
import pytest
import torch
from scipy import stats

from book.reflections.experiments import scores, spectrum, theory, twins, vectors
from book.reflections.experiments.scores import rows_of
from book.reflections.lstm import LSTMConfig, LSTMLanguageModel
from embviz.ledger import cells
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


def test_moments_of_simulated_pmi_are_in_their_units_and_plain_tying_differs_on_the_diagonal(
    monkeypatch, tmp_path
):
    monkeypatch.setenv("EMBVIZ_RESULTS_DIR", str(tmp_path / "results"))
    cells.run(theory._random_pmi_cells("quick"), n_jobs=1, progress=False)
    found = theory._random_pmi_findings("quick")
    for name, expected, plain in (
        ("offdiag_mean_sd", 0.0, 0.0),
        ("offdiag_variance_ratio", 1.0, 1.0),
        ("diag_mean_sd", 0.0, math.sqrt(50)),
        ("diag_variance_ratio", 1.0, 51.0),
        ("row_correlation", 0.0, 0.0),
        ("triples_sd", 0.0, 0.1),
    ):
        assert found[name].value == pytest.approx(expected, abs=0.03), name
        assert found[name].controls["plain"] == pytest.approx(plain, rel=0.02, abs=0.02), name
        assert found[name].low < found[name].high, name
    assert {cell.config.seed for cell in theory._random_pmi_cells("paper")} == {1}


def test_a_random_maps_involution_error_is_that_of_its_symmetric_part():
    q = theory.draw_orthogonal(200, "orthogonal", np.random.default_rng(0))
    half = (q + q.T) / 2
    error = np.linalg.norm(half @ half - np.eye(200)) / math.sqrt(200)
    assert error == pytest.approx(math.sqrt(3 / 8), abs=0.02)


def mapped(eigenvalues: list[complex], control: str, seed: int) -> pd.DataFrame:
    """Stored eigenvalues of a map, as a cell has them."""
    values = np.array(eigenvalues)
    parts = {"eigenvalue_real": values.real, "eigenvalue_imaginary": values.imag}
    tables = [rows_of(name, part, control) for name, part in parts.items()]
    return pd.concat(tables, ignore_index=True).assign(seed=seed)


def test_a_reflected_dimension_has_an_eigenvalue_that_is_negative_and_nearly_real():
    table = pd.concat(
        [
            mapped([-1, -0.5 + 0.05j, -0.5 - 0.05j, 1], "", 1),
            mapped([-1 + 0.3j, -1 - 0.3j, -0.5, 1], "", 2),  # a spiral is no reflection
            mapped([-0.1 + 1j, -0.1 - 1j, 0.2, 1], "random_rotation", 1),
        ]
    )
    shares = vectors.reflected_shares(table)
    assert shares.loc[1].to_dict() == {"": 0.75, "random_rotation": 0.0}
    assert shares.loc[2, ""] == 0.25


def test_gaps_are_drawn_again_over_the_same_items_and_over_seeds():
    rng = np.random.default_rng(0)
    items = rng.normal(size=(200, 1)) * 0.1  # what drawing items anew does to every model alike
    names = {"quantity": "frequent_replicate", "control": "men"}
    factors = pd.DataFrame({"value": 0.5 + items[:, 0], **names})
    alike = [pd.DataFrame({"value": 0.4 + items[:, 0], "seed": seed, **names}) for seed in (1, 2, 3)]
    drawn = vectors._gap_replicates(factors, pd.concat(alike), "men")
    assert drawn == pytest.approx(np.full(200, 0.1)), "items that all models share cancel"
    apart = [table.assign(value=table["value"] + 0.1 * seed) for seed, table in enumerate(alike)]
    spread = vectors._gap_replicates(factors, pd.concat(apart), "men").std()
    assert spread == pytest.approx(np.std([0, 0.1, 0.2]) / np.sqrt(3), rel=0.15)


def test_what_a_half_pulls_is_taken_over_a_half_at_random_by_seed(monkeypatch):
    rows = [
        (seed, control, "pull", value + seed / 100)
        for seed in (4, 5, 6)
        for control, value in (("", 0.5), ("random_split", 0.2))
    ]
    table = pd.DataFrame(rows, columns=["seed", "control", "item", "value"]).assign(quantity="halves")
    monkeypatch.setattr(vectors, "load", lambda found: table)
    finding = vectors._pull_findings("laptop")["pull_over_random"]
    assert (finding.value, finding.n_seeds) == (pytest.approx(0.3), 3)


def test_items_are_counted_as_the_scores_take_them(monkeypatch):
    similar = pd.DataFrame({"word1": ["a", "b", "a"], "word2": ["b", "z", "a"]})
    analogies = pd.DataFrame({"a": ["a", "a"], "b": ["b", "b"], "c": ["a", "z"], "d": ["b", "b"]})
    data_sets = set(scores.SIMILARITY_TESTS.values())
    monkeypatch.setattr(
        scores.corpora, "load_word_test", lambda name: similar if name in data_sets else analogies
    )
    found = scores.frequent_items({"a", "b"})
    assert found == {name: 2 if name in scores.SIMILARITY_TESTS else 1 for name in scores.TESTS}


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


def test_leading_signs_of_a_small_text_are_counted():
    config = spectrum.WeightedSigns("embedded", 5, 2_000, "pmi", 0.5)
    table = spectrum.weighted_signs.function(config)
    text = spectrum.corpora.load_corpus("embedded").restrict(min_count=2_000, rare="hole")
    counts = spectrum.count_pairs(
        text.ids, len(text.vocabulary), window=5, document_starts=text.document_starts
    )
    whole = np.linalg.eigvalsh(spectrum.weighted(spectrum.pmi(counts), text.counts, 0.5).toarray())
    expected = np.sort(whole[np.argsort(-np.abs(whole))[: spectrum.N_SIGNS]])
    assert table["eigenvalue"].to_numpy() == pytest.approx(expected, abs=1e-4)
