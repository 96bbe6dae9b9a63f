"""Phases: planted clusters, why all is noise, transitions, drops of the loss, grids."""

import dataclasses
import itertools

import numpy as np
import pandas as pd
import pytest
from scipy import ndimage, signal, stats
from scipy.spatial.distance import cdist
from sklearn.metrics import adjusted_rand_score

from embviz.trajectories.phases import (
    Clustering,
    couple,
    find_phases,
    phase_grid,
    sharpness,
    transition_activity,
    transitions,
    visits,
)
from tests.trajectories.conftest import noise

SMALL = Clustering(min_cluster_size=10, min_samples=3)


def two_clouds(n=40, apart=20.0):
    """The later cloud first in space, so that numbers by time differ from numbers by place."""
    return noise(2 * n, 2) + np.repeat([[apart, 0.0], [0.0, 0.0]], n, axis=0)


# --- density clusters -------------------------------------------------------------------------------


def test_two_clouds_are_two_phases_numbered_by_time():
    found = find_phases(two_clouds(), SMALL)
    assert found.n_phases == 2
    assert set(found.labels[:40]) <= {0, -1}
    assert set(found.labels[40:]) <= {1, -1}
    assert found.noise < 0.2
    assert found.dbcv > 0.5  # 1 at best; the clouds lie 20 standard deviations apart
    assert found.explanation.startswith("2 phases; ")
    repeated = two_clouds()
    repeated[1:6] = repeated[0]  # as in layouts that are stored in grains
    assert find_phases(repeated, SMALL).dbcv > 0.5


def test_clusters_closer_than_epsilon_stay_one():
    near = np.repeat([[0.0, 0.0], [3.0, 0.0], [30.0, 0.0]], 40, axis=0) + 0.2 * noise(120, 2)
    apart = find_phases(near, SMALL)
    together = find_phases(near, dataclasses.replace(SMALL, cluster_selection_epsilon=5.0))
    assert (apart.n_phases, together.n_phases) == (3, 2)
    assert len(set(together.labels[:80]) - {-1}) == 1


@pytest.mark.parametrize("min_samples", [1, 4])
def test_reachability_is_the_spanning_tree_of_mutual_reachability_distances(min_samples):
    points = noise(40, 2)
    distances = cdist(points, points)
    core = np.sort(distances, axis=1)[:, min_samples]  # 0 is the point itself
    mutual = np.maximum(distances, np.maximum(core[:, None], core[None]))
    inside, edges = {0}, []
    while len(inside) < 40:  # Prim
        length, joined = min((mutual[i, j], j) for i in inside for j in range(40) if j not in inside)
        inside.add(joined)
        edges.append(length)
    found = find_phases(points, Clustering(min_cluster_size=5, min_samples=min_samples))
    np.testing.assert_allclose(found.reachability, np.sort(edges), rtol=1e-9)


@pytest.mark.parametrize("seed", range(2))
def test_the_largest_split_is_the_largest_cluster_size_that_finds_phases(seed):
    points = noise(60, 2, seed=seed)
    largest = find_phases(points, Clustering(min_cluster_size=30, min_samples=3)).largest_split
    assert 2 <= largest <= 30
    for size in range(max(2, largest - 2), min(largest + 3, 31)):
        found = find_phases(points, Clustering(min_cluster_size=size, min_samples=3))
        assert (found.n_phases > 0) == (size <= largest)


def test_if_all_is_noise_the_explanation_says_why():
    found = find_phases(noise(60, 2), Clustering(min_cluster_size=30, min_samples=5))
    assert found.n_phases == 0
    assert found.dbcv is None
    assert found.noise == 1
    assert found.explanation.startswith("all 60 snapshots are noise: wherever the tree of mutual reach")
    assert f"at most {found.largest_split} snapshots come off, and a phase needs 30" in found.explanation
    assert f"longest {found.reachability[-1]:.3g}" in found.explanation


# --- transitions ------------------------------------------------------------------------------------

LABELS = [-1, 0, 0, -1, 0, 1, 1, -1, -1, 2, 0]
STEPS = [0, 10, 20, 30, 40, 50, 60, 70, 80, 90, 100]


def slow_visits(labels, steps):
    kept = [(label, step) for label, step in zip(labels, steps, strict=True) if label >= 0]
    for phase, group in itertools.groupby(kept, key=lambda pair: pair[0]):
        members = [step for _, step in group]
        yield phase, members[0], members[-1], len(members)


@pytest.mark.parametrize("labels", [LABELS, [-1] * 11, [0] * 11, [0, 1] * 5 + [-1]])
def test_visits_are_runs_of_a_phase_whatever_noise_lies_between(labels):
    table = visits(labels, STEPS)
    assert [tuple(row) for row in table.to_numpy()] == list(slow_visits(labels, STEPS))


def test_a_transition_lies_in_the_middle_of_its_noise():
    table = transitions(LABELS, STEPS)
    assert table.to_dict("list") == {
        "before": [0, 1, 2],
        "after": [1, 2, 0],
        "leaves": [40, 60, 90],
        "enters": [50, 90, 100],
        "step": [45.0, 75.0, 95.0],
    }
    active = np.flatnonzero(transition_activity(LABELS, STEPS))
    assert [(STEPS[i], STEPS[i + 1]) for i in active] == [(40, 50), (70, 80), (90, 100)]
    assert transitions([-1] * 5, range(5)).empty


def test_an_even_path_is_as_sharp_as_its_baseline_and_a_jump_is_sharper():
    even = np.arange(101.0)[:, None]
    assert sharpness(even).share == sharpness(even).even == 0.05
    jump = np.where(np.arange(101) < 50, 0.0, 900.0)[:, None] + even
    assert np.isclose(sharpness(jump).share, (5 + 900) / 1000)


# --- drops of the loss ------------------------------------------------------------------------------


def test_correlations_are_those_of_ranks_at_each_lag():
    activity, losses = noise(40, seed=1), noise(41, seed=2)
    found = couple(activity, losses, seed=0, max_lag=3, block=5, n_permutations=9)
    ranks = [stats.zscore(stats.rankdata(values)) for values in (activity, -np.diff(losses))]
    for lag, value in zip(found.lags, found.correlations, strict=True):
        pairs = [ranks[0][t] * ranks[1][t + lag] for t in range(40) if 0 <= t + lag < 40]
        assert np.isclose(value, sum(pairs) / 40)
    assert np.isclose(found.correlations[3], stats.spearmanr(activity, -np.diff(losses)).statistic)
    assert found.lag == found.lags[found.correlations.argmax()]


@pytest.mark.parametrize("lag", [-4, 3])
def test_drops_that_follow_movement_are_found_at_their_lag(lag):
    activity = np.abs(noise(200)) + 0.1
    losses = -np.cumsum(np.concatenate([[0.0], np.roll(activity, lag)]))
    found = couple(activity, losses, seed=0)
    assert found.lag == lag
    assert found.correlation > 0.9
    assert found.p == 1 / 1000  # none of 999 permutations


def test_rises_that_follow_movement_are_no_drops():
    activity = np.abs(noise(200)) + 0.1
    found = couple(activity, np.cumsum(np.concatenate([[0.0], activity])), seed=0, max_lag=0)
    assert found.p > 0.9


def test_p_values_are_uniform_when_nothing_is_coupled():
    p = [
        couple(noise(60, seed=2 * i), noise(61, seed=2 * i + 1).cumsum(), seed=i, block=5, n_permutations=49)
        for i in range(300)
    ]
    for name in ("p", "p_at_zero"):
        values = [getattr(one, name) for one in p]
        assert stats.kstest(values, stats.uniform(0.01, 0.99).cdf).pvalue > 0.01, name


def autoregressive(n, seed, memory=0.8):
    return signal.lfilter([1], [1, -memory], noise(n, seed=seed))


def test_blocks_keep_what_neighbours_share_and_single_snapshots_do_not():
    rejected = {}
    for block in (1, 25):
        p = [
            couple(
                autoregressive(200, seed=2 * i),
                autoregressive(201, seed=2 * i + 1).cumsum(),
                seed=i,
                max_lag=0,
                block=block,
                n_permutations=39,
            ).p
            for i in range(100)
        ]
        rejected[block] = np.mean(np.array(p) <= 0.05)
    # 5% expected; 100 series: a standard error of 2%. Memory .8 makes correlations 2.1 times as wide
    assert rejected[25] < 0.12 < 0.14 < rejected[1]


def test_a_common_decline_alone_couples_until_a_running_median_is_taken_off():
    decline = np.exp(-np.arange(400) / 60)
    activity = decline * (1 + 0.2 * np.abs(noise(400, seed=1)))
    drops = decline * (1 + 0.2 * np.abs(noise(400, seed=2)))
    assert couple(activity, -np.append(0, drops.cumsum()), seed=0).p < 0.01
    left, drops = (one - ndimage.median_filter(one, 21, mode="nearest") for one in (activity, drops))
    assert couple(left, -np.append(0, drops.cumsum()), seed=0).p > 0.05


# --- grids and refusals -----------------------------------------------------------------------------


def test_a_grid_holds_every_setting_and_the_rand_index_of_each_pair():
    layouts = {"one": two_clouds(), "turned": two_clouds()[:, ::-1], "none": noise(80, 2, seed=3)}
    clusterings = [SMALL, Clustering(min_cluster_size=35, min_samples=3)]
    grid = phase_grid(layouts, clusterings)
    assert grid.table[["layout", "min_cluster_size"]].to_numpy().tolist() == [
        [name, size] for name in layouts for size in (10, 35)
    ]
    for i, j in itertools.product(range(6), repeat=2):
        assert np.isclose(grid.agreement[i, j], adjusted_rand_score(grid.labels[i], grid.labels[j]))
    assert grid.agreement[0, 2] == 1  # turning changes nothing
    assert grid.n_without == (grid.table["n_phases"] == 0).sum() > 0
    assert grid.table.loc[0, "dbcv"] == find_phases(layouts["one"], SMALL).dbcv
    quicker = phase_grid(layouts, clusterings, validity=False)
    pd.testing.assert_frame_equal(quicker.table, grid.table.drop(columns="dbcv"))


def test_settings_that_find_nothing_do_not_count_as_stable():
    strict = [Clustering(min_cluster_size=size, min_samples=5) for size in (35, 38, 40)]
    grid = phase_grid({"noise": noise(80, 2)}, strict)
    assert grid.n_without == 3
    assert grid.stability is None
    assert phase_grid({"clouds": two_clouds()}, strict[:2]).stability > 0.95


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: find_phases(noise(49, 2)), r"49 snapshots are too few for Clustering.*take 50 at least"),
        # HDBSCAN's own
        (
            lambda: find_phases(noise(60, 2), Clustering(selection="dbscan")),
            "Invalid Cluster Selection",
        ),
        (lambda: find_phases(noise(60, 2), Clustering(min_cluster_size=1)), "must be greater than one"),
        (
            lambda: find_phases(noise(60, 2), Clustering(cluster_selection_epsilon=-0.1)),
            "greater than or equal",
        ),
        (lambda: phase_grid({"a": noise(30, 2), "b": noise(40, 2)}, [SMALL]), "of the same snapshots"),
        (lambda: visits([0, 1], [0, 1, 2]), "give one a snapshot"),
        (lambda: visits([0, 1], [1, 0]), "steps must increase"),
        (lambda: couple(noise(40), np.ones(41), seed=0, block=5), "drops are constant over 40 intervals"),
        (lambda: couple(noise(40), noise(40), seed=0), "activity has 40 intervals, losses 40"),
        (lambda: couple(noise(40), noise(41), seed=0, block=20), "blocks take a quarter at most"),
    ],
)
def test_what_has_no_phases_or_no_drops_is_refused(call, message):
    with pytest.raises(ValueError, match=message):
        call()
