"""The behavioural autoencoder: both terms by their definition, its start, its symmetries, what it says."""

import numpy as np
import pytest
import torch

from embviz.trajectories.autoencoders import Autoencoder, encode, encode_together, held_out_errors
from embviz.trajectories.nulls import shuffled_losses
from embviz.trajectories.weight_paths import rotate, weight_path

DEVICES = ["cpu", "cuda"] if torch.cuda.is_available() else ["cpu"]
QUICK = Autoencoder(bottleneck=3, hidden=16, n_epochs=150, learning_rate=1e-2)
UNTRAINED = Autoencoder(bottleneck=3, hidden=16, n_epochs=1, learning_rate=1e-12)
FLOAT = 1e-5  # of shares of variance, summed in float32 over 60 snapshots


def bent_path(n=60, dim=100, losses=None):
    """A curve that needs more than three straight axes, with a loss that follows it."""
    t, rng = np.linspace(0, 1, n), np.random.default_rng(0)
    waves = np.stack([np.cos(k * np.pi * t) / k for k in range(1, 9)], axis=1)  # (n, 8)
    weights = waves @ rng.standard_normal((8, dim)) + 0.01 * rng.standard_normal((n, dim))
    return weight_path("query", weights, np.arange(n), np.exp(-3 * t) if losses is None else losses)


def principal_error(weights, rank):
    squares = np.linalg.svd(weights - weights.mean(axis=0), compute_uv=False) ** 2
    return squares[rank:].sum() / squares.sum()


def test_before_training_it_is_the_principal_components_and_the_mean_loss():
    path = bent_path()
    behaviour = encode(path, UNTRAINED, seed=0)
    expected = principal_error(path.weights, 3)
    assert np.isclose(behaviour.principal, expected, atol=FLOAT)
    assert np.isclose(behaviour.errors.reconstruction, expected, atol=FLOAT)
    assert np.isclose(behaviour.errors.prediction, 1, atol=FLOAT)
    scores = rotate(path).weights[:, :3] / np.sqrt(path.total)
    np.testing.assert_allclose(behaviour.bottleneck, scores, atol=FLOAT)


@pytest.mark.parametrize("device", DEVICES)
def test_training_beats_principal_components_and_reads_the_loss_off_the_bottleneck(device):
    behaviour = encode(bent_path(), QUICK, seed=0, device=device)
    assert behaviour.errors.reconstruction < 0.5 * behaviour.principal
    assert behaviour.errors.prediction < 0.05


def test_the_prediction_error_is_the_share_of_the_losses_variance_it_misses():
    path = bent_path(losses=np.random.default_rng(1).standard_normal(60))
    behaviour = encode(path, QUICK, seed=0)
    missed = sum((a - b) ** 2 for a, b in zip(behaviour.predicted, path.losses, strict=True)) / 60
    assert np.isclose(behaviour.errors.prediction, missed / np.var(path.losses), atol=FLOAT)


def test_components_that_it_does_not_see_count_as_not_reconstructed():
    path = bent_path()
    config = Autoencoder(bottleneck=2, n_components=4, n_epochs=1, learning_rate=1e-12)  # untrained
    behaviour = encode(path, config, seed=0)
    assert np.isclose(behaviour.left_out, principal_error(path.weights, 4), atol=FLOAT)
    for error in (behaviour.principal, behaviour.errors.reconstruction):
        assert np.isclose(error, principal_error(path.weights, 2), atol=FLOAT)


def test_the_same_seed_gives_the_same_bits_and_another_one_others():
    first, again, other = (encode(bent_path(), QUICK, seed=seed).bottleneck for seed in (3, 3, 4))
    np.testing.assert_array_equal(first, again)
    assert np.abs(first - other).max() > 1e-3


def test_rotating_first_changes_nothing():
    first, second = (encode(each, QUICK, seed=0) for each in (bent_path(), rotate(bent_path())))
    np.testing.assert_array_equal(first.bottleneck, second.bottleneck)


def test_a_constant_loss_leaves_the_reconstruction_alone_and_says_so():
    behaviour = encode(bent_path(losses=np.full(60, 2.5)), QUICK, seed=0)
    assert behaviour.errors.prediction is None
    assert behaviour.predicted is None
    assert behaviour.notes == (
        "the loss is 2.5 at every snapshot: there is no prediction, only reconstruction",
    )
    assert behaviour.errors.reconstruction < behaviour.principal


def test_without_weight_the_prediction_is_not_learned():
    without = encode(bent_path(), Autoencoder(bottleneck=3, loss_weight=0, n_epochs=80), seed=0)
    assert np.isclose(without.errors.prediction, 1, atol=FLOAT)
    assert without.errors.loss_weight == 0


def test_held_out_losses_are_predicted_in_order_and_not_when_shuffled():
    path = bent_path(n=150)
    assert held_out_errors(path, QUICK, seed=0).prediction < 0.1
    shuffled = [shuffled_losses(path, seed=draw) for draw in range(3)]
    missed = [held_out_errors(each, QUICK, seed=0).prediction for each in shuffled]
    assert np.mean(missed) > 0.7  # 1 but for the variance of 3 x 150 skewed losses


def test_a_gap_is_harder_to_bridge_than_single_snapshots():
    single, gap = (held_out_errors(bent_path(), QUICK, seed=0, block=block) for block in (1, 10))
    assert gap.reconstruction > 2 * single.reconstruction


def test_held_out_errors_are_pooled_over_all_snapshots_each_held_out_once():
    path = bent_path()
    found = held_out_errors(path, UNTRAINED, seed=0, block=5)
    # an untrained one predicts the mean whatever it has seen
    assert found.prediction == pytest.approx(1, abs=FLOAT)
    assert found.reconstruction == pytest.approx(principal_error(path.weights, 3), abs=FLOAT)


def test_a_straight_path_has_fewer_coordinates_than_the_bottleneck():
    weights = np.linspace(0, 1, 30)[:, None] * np.ones(50)
    behaviour = encode(weight_path("query", weights, np.arange(30), np.linspace(2, 1, 30)), QUICK, seed=0)
    assert behaviour.bottleneck.shape == (30, 3)
    assert behaviour.errors.reconstruction < 1e-3


# --- one for several paths --------------------------------------------------------------------------


def other_path(dim=40):
    """Another matrix of the same run, wider spread in other directions."""
    rng = np.random.default_rng(5)
    weights = np.cumsum(rng.standard_normal((60, dim)), axis=0)
    return weight_path("key", weights, np.arange(60), bent_path().losses)


def test_an_autoencoder_of_one_path_is_the_paths_own():
    (one,) = encode_together([bent_path()], QUICK, seed=0)
    alone = encode(bent_path(), QUICK, seed=0)
    np.testing.assert_array_equal(one.bottleneck, alone.bottleneck)
    np.testing.assert_array_equal(one.predicted, alone.predicted)
    assert one.errors == alone.errors


def test_training_lowers_both_errors_of_paths_of_different_widths():
    paths = [bent_path(), other_path()]
    together = encode_together(paths, QUICK, seed=0)
    untrained = encode_together(paths, UNTRAINED, seed=0)
    for path, seen in zip(paths, untrained, strict=True):  # each has its own principal components
        assert np.isclose(seen.errors.reconstruction, principal_error(path.weights, 3), atol=FLOAT)
    means = [np.mean([one.errors.reconstruction for one in seen]) for seen in (together, untrained)]
    assert means[0] < means[1]
    assert all(one.errors.prediction < 0.5 for one in together)  # 1 before


def test_copies_of_a_path_are_encoded_alike_and_a_turned_matrix_as_before():
    path = bent_path()
    turn = np.linalg.qr(np.random.default_rng(1).standard_normal((100, 100))).Q
    turned = weight_path("turned", path.weights @ turn + 3.0, path.steps, path.losses)
    one, copy, again = encode_together([path, path, turned], UNTRAINED, seed=0)
    np.testing.assert_array_equal(one.bottleneck, copy.bottleneck)
    np.testing.assert_allclose(again.bottleneck, one.bottleneck, atol=1e-4)  # eigenvectors of a Gram matrix


def flat():
    return weight_path("flat", other_path().weights, np.arange(60), np.ones(60))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: held_out_errors(bent_path(), QUICK, seed=0, block=60), "holds out none, or all, of 60"),
        (lambda: encode_together([bent_path(), flat()], QUICK, seed=0), "flat has no loss that changes"),
    ],
)
def test_what_no_autoencoder_serves_is_refused(call, message):
    with pytest.raises(ValueError, match=message):
        call()
