"""What random maps do to a model's vectors, in miniature: definitions, planted cases, every claim."""

import dataclasses
import itertools

import numpy as np
import pandas as pd
import pytest

from book.language import load_streams
from book.resizing import angles
from book.resizing.experiments import bases, geometry
from book.resizing.experiments.geometry import STUDIES
from book.resizing.lemma import bound
from embviz import projections
from embviz.ledger import cells
from embviz.projections import FAMILIES


@pytest.fixture(scope="module")
def vectors():
    return geometry.vectors(bases.base("quick"))


# --- definitions ------------------------------------------------------------------------------------


def test_the_worst_pair_at_the_bound_is_that_of_slow_loops(vectors):
    table = cells.table_of(geometry.lemma.cell(geometry.lemma_run("quick")))
    row = table[(table["quantity"] == "at bound") & (table["vectors"] == "embeddings")].iloc[3]
    assert row["family"] == "gaussian"
    assert row["m"] == bound(0.5, len(vectors.embeddings), 0.05)
    image = projections.draw("gaussian", int(row["m"]), vectors.dim, seed=[0, 3]).apply(vectors.embeddings)
    worst = 0.0
    for i, j in itertools.combinations(range(len(image)), 2):
        before = ((vectors.embeddings[i] - vectors.embeddings[j]) ** 2).sum()
        worst = max(worst, abs(((image[i] - image[j]) ** 2).sum() / before - 1))
    assert row["value"] == pytest.approx(worst, rel=1e-6)  # stored as float32


def test_the_null_of_lengths_is_that_of_maps_with_unit_rows(vectors):
    run, found = geometry.maps_run("quick"), STUDIES["resizing.maps"].findings("quick")
    for family in FAMILIES:
        kept = []
        for i in range(run.n_lengths):
            token = vectors.embeddings[i % len(vectors.embeddings)]
            unit = projections.draw(family, vectors.dim // 2, vectors.dim, seed=[0, i], scaling="unit")
            kept.append((unit.apply(token) ** 2).sum() / (token**2).sum())
        # stored as float32
        assert found[family].controls["unscaled"] == pytest.approx(np.mean(kept), rel=1e-6)


def test_the_counts_are_those_of_enumeration():
    table = cells.table_of(geometry.capacity.cell(geometry.CountsRun())).set_index("n")
    for n in range(1, 13):
        patterns = list(itertools.product((0, 1), repeat=n))
        few = [p for p in patterns if 1 <= sum(p) <= n // 2]
        assert int(table.loc[n, "counted"]) == len(few)
        assert int(table.loc[n, "left_out"]) == len(patterns) - 1 - len(few)
        lines = {frozenset((p, tuple(1 - x for x in p))) for p in patterns if 0 < sum(p) < n}
        assert int(table.loc[n, "lines"]) == len(lines)
    assert int(table.loc[64, "counted"]) > 2**63 - 1  # a float or a 64-bit integer would have lost digits
    # the first term that Stirling's formula leaves out
    assert table.loc[64, "stirling"] == pytest.approx(1 - 1 / (4 * 64), abs=1e-4)


def test_another_text_is_read_backwards_token_by_token():
    run = geometry.support_run("quick")
    straight, turned = load_streams(run.text).train, geometry.other_streams(run).train
    np.testing.assert_array_equal(turned.ids, straight.ids[::-1])
    assert geometry.other_streams(dataclasses.replace(run, backwards=False)).train is straight


# --- planted cases ----------------------------------------------------------------------------------


def test_a_slope_is_found_where_it_was_planted():
    rows = [
        {"vectors": "embeddings", "quantity": "angular error", "family": family, "m": m, "draw": i,
         "value": (0.0 if family == "pca" and m == 32 else (1 + i) * m**-0.5)}
        for family in ("gaussian", "pca") for m in (4, 16, 32) for i in range(2)
    ]  # fmt: skip
    found = geometry.slopes(pd.DataFrame(rows), 32)
    np.testing.assert_allclose(found["embeddings", "gaussian"], -0.5)
    np.testing.assert_allclose(found["embeddings", "pca"], -0.5)  # its exact zero at m = d is left out


def test_a_ratio_of_means_is_no_mean_of_ratios():
    pairs = np.array([[1.0, 4.0], [4.0, 1.0]])
    found = geometry.ratio_of_means(pairs, root=False)
    assert found.value == 1.0  # the mean of the ratios would be 2.125
    assert found.low == 0.25
    assert found.high == 4.0
    assert geometry.ratio_of_means(np.array([[4.0, 1.0]] * 3), root=True).value == 2.0
    skewed = np.array([[1.0, 1.0], [2.0, 1.0], [9.0, 1.0]])
    assert geometry.ratio_of_means(skewed, root=False).value == 4  # of medians it would be 2


def test_measures_depart_from_closed_forms_by_rounding_only_and_a_planted_bug_is_seen(monkeypatch):
    run = geometry.measures_run("quick")
    assert geometry.departures(cells.table_of(geometry.measures.cell(run))).max() < 1e-9
    monkeypatch.setattr(angles, "angular_error", lambda x, y: float(np.abs(x[0, 0] - y[0, 0])))
    assert geometry.departures(geometry.measures.function(run)).max() > 0.01


# --- symmetries -------------------------------------------------------------------------------------


def test_gaussian_errors_follow_their_expectation_on_a_models_vectors(vectors):
    table = cells.table_of(geometry.geometry_curves.cell(geometry.curves_run("quick")))
    errors = table[(table["quantity"] == "angular error") & (table["m"] >= 32)]
    means = errors.groupby(["vectors", "m", "family"])["value"].mean().unstack("family")
    # five draws, whose pairs share the model's few strong directions
    np.testing.assert_allclose(means["gaussian"] / means["expected"], 1, atol=0.35)
