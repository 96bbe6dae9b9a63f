"""The chapter on random projections: clouds, worst pairs, closed forms, curves and counts; what they draw."""

import itertools
import math
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

from book.resizing import projections as chapter
from book.resizing.experiments import bases, geometry
from embviz import metrics, projections
from embviz.projections import FAMILIES
from embviz.view.explorers import Choice, Explorer
from tests.drawing import compiled, drawn

N, D = 20, 16


def made_vectors(*_, seed=0, streams=None) -> geometry.Vectors:
    rng = np.random.default_rng(seed)
    return geometry.Vectors(rng.normal(size=(N, D)), rng.normal(size=(N, D)) + 1)


@pytest.fixture(autouse=True)
def _made_model(monkeypatch):
    """Random vectors in place of a model's, in small cells of their own."""
    base = bases.base("quick")
    shape = SimpleNamespace(embedding_dim=D, n_symbols=N, n_layers=1)
    loaded = SimpleNamespace(
        streams=SimpleNamespace(checksum="made"), config=SimpleNamespace(shape=shape), length=8
    )
    monkeypatch.setattr(geometry, "vectors", made_vectors)
    monkeypatch.setattr(bases, "load", lambda run: loaded)
    monkeypatch.setattr(chapter.story, "streams_for", lambda base: None)
    monkeypatch.setattr(bases, "calibration", _calibration)
    runs = {  # seeds that nobody else takes: tables are kept by configuration while tests run
        "lemma_run": geometry.LemmaRun(base, n_draws=20, n_curve=8, seed=901),
        "maps_run": geometry.MapsRun(base, n_lengths=400, n_errors=6, seed=901),
        "measures_run": geometry.MeasuresRun(12, 8, 6, n_draws=3, seed=901),
        "curves_run": geometry.CurvesRun(base, n_draws=3, seed=901),
        "support_run": geometry.SupportRun(
            base, base.text, backwards=True, n_vectors=12, n_draws=4, seed=901
        ),
    }
    for name, run in runs.items():
        monkeypatch.setattr(geometry, name, lambda preset, run=run: run)
    chapter.model_vectors.cache_clear()
    yield
    chapter.model_vectors.cache_clear()


def _calibration(base, n, seed=0, *, streams=None):
    spread = np.geomspace(4, 0.1, D) if streams is None else 1.0  # what PCA has seen, and what it has not
    return np.random.default_rng([n, seed, streams is None]).normal(size=(n, D)) * spread


# --- one cloud --------------------------------------------------------------------------------------


def test_made_points_have_distances_of_mean_square_one_and_axes_of_falling_share():
    x = chapter.points(32, 64)
    squares = [((a - b) ** 2).sum() for a, b in itertools.combinations(x, 2)]
    assert np.mean(squares) == pytest.approx(1, rel=1e-12)
    wide = chapter.points(128, 64)
    shares = (wide**2).mean(axis=0) / (wide**2).mean(axis=0)[0]
    # a mean of 128 squares has a standard error of 12%, and so has the one it is divided by
    np.testing.assert_allclose(shares[:8] * np.arange(1, 9), 1, atol=0.7)


@pytest.mark.parametrize("family", chapter.KINDS)
def test_a_cloud_holds_pairs_with_the_worst_among_them_and_the_lemmas_lines(family):
    found = chapter.cloud(32, 64, 16, family)
    pairs = found[found["part"] == chapter.PAIR]
    said = found[found["part"] == chapter.SAID].iloc[0]
    assert chapter.N_PAIRS <= len(pairs) <= chapter.N_PAIRS + 2
    moved = (pairs["after"] / pairs["before"]) ** 2 - 1
    image = chapter.made_map(family, 16, 64)
    worst = np.abs(projections.distortions(chapter.points(32, 64), image) - 1).max()
    assert said["after"] == pytest.approx(worst)
    assert np.abs(moved).max() == pytest.approx(worst)
    assert said["before"] == pytest.approx(math.sqrt(8 * math.log(32 / 0.05) / 16))
    assert chapter.UPPER not in set(found["part"])  # beyond 1 the lemma says nothing
    wide = chapter.cloud(32, 64, 256, family)
    upper, lower = (wide[wide["part"] == part].iloc[-1] for part in (chapter.UPPER, chapter.LOWER))
    eps = chapter.lemma_eps(256, 32)
    assert (upper["after"] / upper["before"]) ** 2 == pytest.approx(1 + eps)
    assert (lower["after"] / lower["before"]) ** 2 == pytest.approx(1 - eps)


def test_a_rotation_and_a_padded_hadamard_map_leave_every_pair_on_the_diagonal():
    for family, d, m in (("orthonormal", 64, 64), ("orthonormal", 64, 256), ("hadamard", 64, 256)):
        found = chapter.cloud(8, d, m, family)
        assert found[found["part"] == chapter.SAID]["after"].iloc[0] < 1e-12


def test_the_lemmas_tolerance_is_the_one_at_which_its_width_comes_out():
    for m in (50, 300):
        eps = chapter.lemma_eps(m, 256)
        if eps < 1:
            assert projections.bound(eps * (1 + 1e-9), 256, chapter.DELTA) == m


def test_the_cloud_is_drawn_live_and_static_with_the_numbers_in_words():
    explorer = Explorer(
        chapter.cloud,
        {
            "n": Choice((8, 32), "N", initial=32),
            "d": Choice((64,), "d"),
            "m": Choice((16, 64), "m"),
            "family": Choice(("gaussian", "coordinates"), "map", format=chapter.name),
        },
        chapter.plot_cloud,
        title="A cloud",
        caption="Made.",
    )
    said = [item["text"] for item in drawn(explorer.static_spec(), "text")]
    found = chapter.cloud(32, 64, 16, "gaussian")
    worst = found[found["part"] == chapter.SAID]["after"].iloc[0]
    assert {f"largest change of a squared distance {worst:.0%}", "the lemma is silent here"} <= set(said)
    marks = [item for item in drawn(explorer.static_spec(), "symbol") if "x" in item]
    assert len(marks) >= chapter.N_PAIRS
    sent = {"n": 8, "d": 64, "m": 64, "family": "coordinates"}
    (answer,) = explorer.answer(sent)["tables"]["measured"]
    assert len(answer["part"]) == 28 + 7
    compiled(explorer.live_spec())


# --- the worst pair, families -----------------------------------------------------------------------


def test_the_worst_pairs_drop_widths_at_which_nothing_is_lost():
    table = chapter.worst_table("quick").set_index("family")
    widths = geometry.widths(D)
    assert table.loc["Gaussian", "new_width"].tolist() == widths
    assert table.loc["row-orthonormal", "new_width"].max() < D
    assert table.loc["Hadamard", "new_width"].max() < D
    own = table.loc["Gaussian"].set_index("new_width")["worst"]
    assert own[widths[0]] > own[widths[-1]]
    titles = {axis.get("title") for axis in compiled(chapter.plot_worst("quick"))["axes"]}
    assert "new width m" in titles
    assert "190 pairs" in chapter.worst_finding("quick")


def test_constants_are_widths_over_what_the_lemma_multiplies():
    table = chapter.constants("quick")
    unit = math.log(N / 0.05) / 0.25
    for family in FAMILIES:
        row = table.loc[chapter.name(family)]
        assert row["C"] == pytest.approx(row["least m"] / unit, abs=0.005)
    assert table.loc["row-orthonormal", "least m"] <= D
    assert table.loc["asked for", "least m"] == math.ceil(8 * unit)


def test_the_proved_width_makes_the_union_of_all_tails_small_enough():
    eps, n, delta = 0.5, 256, 0.05
    m = chapter.proved_width(eps, n, delta)

    def union(m):
        return n**2 / 2 * 2 * math.exp(-m * (eps**2 / 4 - eps**3 / 6))

    assert union(m) <= delta < union(m - 1)


def test_closed_forms_of_spreads_are_those_of_drawn_maps():
    table = chapter.length_table("quick")
    # 400 draws know a spread to 4%, a little less well where tails are heavier
    for family in FAMILIES:
        own = table.loc[chapter.name(family)]
        assert own["spread"] == pytest.approx(own["spread, closed form"], rel=0.2), family
    assert chapter.length_spread("orthonormal", D, D, 0.1) == 0
    assert chapter.length_spread("rademacher", 5, D, 1.0) == 0  # one-hot


def test_errors_of_families_are_the_ledgers():
    table = chapter.error_table("quick")
    assert table["family"].tolist() == [chapter.name(family) for family in (*FAMILIES[1:], chapter.PCA)]
    assert (table["low"] <= table["error_ratio"]).all()
    least = table.loc[table["error_ratio"].idxmin(), "family"]
    assert chapter.error_finding(table).startswith(f"At half the width {least} turns angles")
    compiled(chapter.plot_errors(table, 0.5))


def test_conventions_keep_lengths_or_make_the_pseudo_inverse_the_transpose_never_both():
    table = chapter.conventions("quick", n_draws=400)
    half = (D // 2) / D
    expected = {
        "Gaussian, N(0, 1/m)": (1, half, 1 + (D + 1) / (D // 2)),
        "row-orthonormal, times √(d/m)": (1, half, 1 / half),
        "row-orthonormal, T T' = I": (half, half, half),
    }
    for name, values in expected.items():
        np.testing.assert_allclose(table.loc[name].to_numpy(float), values, rtol=0.04)  # 400 draws


# --- measures, angles, sets, counts -----------------------------------------------------------------


def test_the_table_of_measures_has_a_dash_where_none_is_defined():
    table = chapter.measure_table("quick")
    assert table.loc["reflected through the origin", "feature alignment"] == -1
    assert table.loc["other vectors, d = 6", "feature alignment"] == "–"
    assert table.loc["turned at random", "angular error"] == 0
    assert table.loc["turned at random", "kurtosis shift"] == "–"


def test_curves_of_angles_hold_draws_the_closed_form_and_pca_of_the_same_vectors():
    x = made_vectors().embeddings
    found = chapter.angles("quick", "embeddings", "gaussian")
    widths = geometry.widths(D)
    measured = found[found["series"] == "measured"]
    assert measured["new_width"].tolist() == sorted(widths * chapter.N_ANGLES)
    expected = found[found["series"] == "expected"].set_index("new_width")
    assert expected.loc[D, "angular_error"] == metrics.expected_angular_error(x, D)
    assert found[found["series"] == "PCA"]["new_width"].max() < D
    turned = chapter.angles("quick", "hidden states", "orthonormal")
    assert turned[turned["series"] == "measured"]["new_width"].max() < D


def test_the_curves_of_angles_are_drawn_live_and_static():
    explorer = Explorer(
        lambda which, family: chapter.angles("quick", which, family),
        {"which": Choice(chapter.VECTORS, "vectors"), "family": Choice(("gaussian", "orthonormal"), "map")},
        lambda data: chapter.plot_angles(data, dim=D),
        title=chapter.slope_note("quick"),
        caption="Made.",
    )
    assert "−0.5" in explorer.title
    marks = drawn(explorer.static_spec(), "symbol")
    assert len(marks) >= 2 * chapter.N_ANGLES * len(geometry.widths(D))
    compiled(explorer.live_spec())


def test_sets_lie_on_the_line_for_a_map_that_saw_none_and_above_it_for_pca():
    table = chapter.support_table("quick")
    means = table.groupby("map_kind")[["inside_change", "outside_change"]].mean()
    assert (
        means.loc["PCA of the calibration set", "outside_change"]
        > 2 * (means.loc["PCA of the calibration set", "inside_change"])
    )
    assert "under PCA of that set" in chapter.support_finding("quick")
    assert "read backwards, m = d / 2" in chapter.support_note("quick")
    titles = {axis.get("title") for axis in compiled(chapter.plot_support(table))["axes"]}
    assert "change of squared distances, inside" in titles


def test_counts_are_written_in_full():
    table = chapter.count_table((4, 64))
    assert table.loc[4].tolist() == ["10", "0", "5", "7", pytest.approx(0.94, abs=0.01)]
    assert table.loc[64, "lines"] == f"{2**63 - 1:,}"


def test_patterns_of_zeros_and_ones_are_half_alike_and_less_their_mean_they_are_not():
    table = chapter.pattern_cosines()
    assert table.loc["0 and 1", "mean cosine"] == pytest.approx(0.5, abs=0.03)
    assert table.loc["less their mean", "mean cosine"] == pytest.approx(0, abs=0.02)
    assert isinstance(table, pd.DataFrame)
