import itertools

import numpy as np
import pytest
from scipy.stats import spearmanr

from embviz.words import WordVectors, probe_groups


def vectors_of(points, *, n_others=400, seed=0, dim=None):
    """The points as the first words of a vocabulary whose other words are Gaussian."""
    random = np.random.default_rng(seed)
    n, flat = points.shape
    dim = dim or 20
    basis = np.linalg.qr(random.normal(size=(dim, flat)))[0].T
    noise = random.normal(size=(n, dim)) / np.sqrt(dim)
    rows = np.concatenate([3 * points @ basis + 0.3 * noise, random.normal(size=(n_others, dim))])
    names = [f"w{i}" for i in range(n)] + [f"other{i}" for i in range(n_others)]
    return WordVectors(names, rows.astype(np.float32)), names[:n]


def along(n, turns):
    angles = 2 * np.pi * turns * np.arange(n) / n
    return np.stack([np.cos(angles), np.sin(angles)], axis=1)


def random_points(n, seed):
    points = np.random.default_rng(seed).normal(size=(n, 3))
    return points / np.linalg.norm(points, axis=1, keepdims=True)


LINE = np.stack([np.linspace(-1, 1, 12), np.full(12, 2.0)], axis=1)
PLANTED = {
    "circle": along(12, 1),
    "arc": along(12, 0.5),
    "line": LINE,
    "periodic": along(30, 3),
    "none": random_points(12, 5),
    "cluster": np.array([[4.0, 0, 0]]) + np.random.default_rng(3).normal(size=(12, 3)),
}


@pytest.mark.parametrize("shape", PLANTED)
def test_a_planted_shape_is_found(shape):
    vectors, words = vectors_of(PLANTED[shape])
    assert probe_groups(vectors, {"list": words})["list"].shape == shape


def test_seven_words_on_a_circle_are_enough():
    vectors, words = vectors_of(along(7, 1))
    assert probe_groups(vectors, {"list": words})["list"].shape == "circle"


def test_order_is_found_in_few_of_many_lists_without_any():
    n_found = 0
    for seed in range(40):
        vectors, words = vectors_of(random_points(12, seed), seed=seed)
        n_found += probe_groups(vectors, {"list": words}, n_controls=199)["list"].shape in (
            "circle",
            "arc",
            "line",
        )
    assert n_found <= 4  # each of two tests at the 1% level: 0.8 expected, 4 in one of two hundred


def test_an_order_and_its_reverse_count_as_equal():
    random = np.random.default_rng(2)
    names, rows = list("abcde"), random.normal(size=(5, 7)).astype(np.float32)
    orders = [list(order) for order in itertools.permutations(names) if order[0] < order[-1]]
    vectors = WordVectors(names, rows)
    first = [probe_groups(vectors, {"": order}, n_controls=99)[""].value("first mode") for order in orders]
    strongest = probe_groups(vectors, {"": orders[int(np.argmax(first))]}, n_controls=3_999)[""]
    p = strongest.table.set_index("quantity")["p"]["first mode"]
    assert p == pytest.approx(2 / 120, abs=0.006)  # 3 standard errors


@pytest.mark.parametrize("n", [11, 12])
def test_quantities_are_those_of_slow_loops(n):
    vectors, words = vectors_of(along(n, 0.7))
    probe = probe_groups(vectors, {"list": words}, center=False)["list"]
    points = vectors.word[:n].astype(float)
    points /= np.linalg.norm(points, axis=1, keepdims=True)
    pairs = [(i, j) for i in range(n) for j in range(i)]
    assert probe.value("mean cosine") == pytest.approx(np.mean([points[i] @ points[j] for i, j in pairs]))
    centered = points - points.mean(axis=0)
    slopes = [np.polyfit(np.arange(n), centered[:, d], 1) for d in range(20)]
    fitted = np.stack([np.polyval(slope, np.arange(n)) for slope in slopes], axis=1)
    assert probe.value("linear trend") == pytest.approx((fitted**2).sum() / (centered**2).sum())
    rest, power = centered - fitted, []
    for k in range(1, n // 2 + 1):
        wave = np.exp(-2j * np.pi * k * np.arange(n) / n)
        twice = 1 if 2 * k == n else 2  # the fastest wave of an even number is its own mirror image
        power.append(twice * sum(abs(wave @ rest[:, d]) ** 2 for d in range(20)))
    assert probe.power["power"].to_numpy() == pytest.approx(np.array(power) / sum(power))
    far = [(i, j) for i, j in pairs if i - j >= 6]
    distances = [np.linalg.norm(points[i] - points[j]) for i, j in far]
    assert probe.value("closing") == pytest.approx(spearmanr(distances, [i - j for i, j in far]).statistic)


def test_the_plane_of_a_circle_shows_it_round():
    vectors, words = vectors_of(along(12, 1))
    plane = probe_groups(vectors, {"list": words})["list"].plane
    radii = np.hypot(plane["u"], plane["v"])
    assert radii.std() / radii.mean() < 0.1
    assert plane["word"].tolist() == words


def test_a_common_direction_makes_a_cluster_only_where_nothing_is_centred():
    random = np.random.default_rng(0)
    names = [f"w{i}" for i in range(400)]
    vectors = WordVectors(names, (random.normal(size=(400, 20)) + 3).astype(np.float32))
    raw = probe_groups(vectors, {"list": names[:12]}, center=False)["list"]
    centered = probe_groups(vectors, {"list": names[:12]})["list"]
    assert raw.value("mean cosine") > 0.8
    assert abs(centered.value("mean cosine")) < 0.1
    assert raw.table.set_index("quantity").loc["mean cosine", "control"] > 0.8


@pytest.mark.parametrize(
    ("vocabulary", "words", "message"),
    [
        ("abcdef", "abxyz", "'list' has 2 of its 5 words in the vocabulary, where 5 at least"),
        ("abcdef", "aabde", "'list' has the word 'a' twice"),
        ([f"▁{letter}" for letter in "abcdef"], "abcde", "5 of them are with '▁' before the word"),
        ("abcdef", "abcdef", "the vector of 'f' is zero"),
    ],
)
def test_lists_that_cannot_be_probed_are_refused(vocabulary, words, message):
    vectors = WordVectors(list(vocabulary), np.eye(6, 5, dtype=np.float32))
    with pytest.raises(ValueError, match=message):
        probe_groups(vectors, {"list": list(words)}, center=False)


def test_unknown_words_are_left_out_and_named():
    vectors, words = vectors_of(along(12, 1))
    probe = probe_groups(vectors, {"list": [*words, "nobody"]})["list"]
    assert probe.missing == ["nobody"]
    assert probe.words == words


def test_vectors_of_one_dimension_lie_on_a_line():
    words = [f"w{i}" for i in range(9)]
    vectors = WordVectors(words, np.linspace(-1, 2, 9, dtype=np.float32)[:, None])
    plane = probe_groups(vectors, {"all": words}, center=False)["all"].plane
    assert (plane["v"] == 0).all()
    assert plane["u"].nunique() > 1
