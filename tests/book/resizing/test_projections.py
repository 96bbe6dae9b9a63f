"""The stored runs of the chapter on random projections, as tables."""

from types import SimpleNamespace

import numpy as np
import pytest

from book.resizing import projections as runs
from book.resizing.experiments import bases, geometry
from embviz.ledger import studies

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
    monkeypatch.setattr(runs.story, "streams_for", lambda base: None)
    monkeypatch.setattr(bases, "calibration", _calibration)
    cells = {  # seeds that nobody else takes: tables are kept by configuration while tests run
        "lemma_run": geometry.LemmaRun(base, n_draws=20, n_curve=8, seed=901),
        "maps_run": geometry.MapsRun(base, n_lengths=400, n_errors=6, seed=901),
        "support_run": geometry.SupportRun(
            base, base.text, backwards=True, n_vectors=12, n_draws=4, seed=901
        ),
    }
    for name, run in cells.items():
        monkeypatch.setattr(geometry, name, lambda preset, run=run: run)
    runs.model_vectors.cache_clear()
    yield
    runs.model_vectors.cache_clear()


def _calibration(base, n, seed=0, *, streams=None):
    spread = np.geomspace(4, 0.1, D) if streams is None else 1.0  # what PCA has seen, and what it has not
    return np.random.default_rng([n, seed, streams is None]).normal(size=(n, D)) * spread


def test_the_worst_pairs_drop_widths_at_which_nothing_is_lost():
    table = runs.worst_pairs("quick").set_index("family")
    widths = geometry.widths(D)
    assert table.loc["Gaussian", "new_width"].tolist() == widths
    assert table.loc["row-orthonormal", "new_width"].max() < D
    assert table.loc["Hadamard", "new_width"].max() < D
    own = table.loc["Gaussian"].set_index("new_width")["worst_change"]
    assert own[widths[0]] > own[widths[-1]]


def test_orthogonal_rows_keep_every_pair_at_their_own_width():
    least = runs.least_widths("quick")
    assert list(least) == [runs.NAMES[family] for family in runs.FAMILIES]
    assert max(least["row-orthonormal"], least["Hadamard"]) <= D < least["Gaussian"]


def test_errors_of_families_are_the_ledgers():
    table = runs.error_ratios("quick").set_index("family")
    found = studies.find_study("resizing.maps").findings("quick")
    assert table.loc["row-orthonormal", "error_ratio"] == found["error_orthonormal"].value
    assert len(table) == 5
    assert (table["low"] <= table["high"]).all()


def test_sets_lie_on_the_line_for_a_map_that_saw_none_and_above_it_for_pca():
    table = runs.support_changes("quick").groupby("map_kind")[["inside_change", "outside_change"]].mean()
    ratio = table["outside_change"] / table["inside_change"]
    assert ratio["Gaussian"] == pytest.approx(1, abs=0.3)  # four draws
    assert ratio["PCA of the calibration set"] > 1.5
    assert "backwards" in runs.support_note("quick")
