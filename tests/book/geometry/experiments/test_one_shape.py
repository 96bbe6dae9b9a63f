"""Behind the chapter on one shape or many: stored drawings beside both nulls."""

import numpy as np
import pandas as pd
import pytest

from book.geometry.experiments import trajectory_findings as findings
from book.geometry.experiments import trajectory_runs
from book.geometry.experiments.trajectory_findings import STUDIES
from embviz.ledger import cells
from embviz.metrics import procrustes_disparity
from tests.tiny_runs import tiny_runs

WITHOUT = "short stories, no Q"


def clear() -> None:
    findings.groups.cache_clear()
    findings.shapes.cache_clear()


@pytest.fixture(scope="module", autouse=True)
def folder(tmp_path_factory):
    """Tiny runs, stored where the quick ones belong."""
    folder = tmp_path_factory.mktemp("shapes")
    with tiny_runs(folder):
        cells.run(STUDIES["geometry.trajectories_shape"].preset_cells("quick"), n_jobs=1, progress=False)
        clear()
        yield folder
    clear()


def test_runs_are_grouped_by_text_and_variant():
    assert {name: len(own) for name, own in findings.groups().items()} == {findings.STORIES: 2, WITHOUT: 2}


def test_every_kind_stands_beside_both_nulls_as_the_mean_of_its_layers():
    table, own = findings.compared(), findings.shapes(findings.STORIES)
    assert set(table["measure"]) == set(findings.MEASURES)
    assert set(own["kind"]) == set(findings.KINDS)  # neither the embedding nor all tensors together
    chosen = table[(table["measure"] == "disparity to the embedding") & (table["runs"] == findings.STORIES)]
    for against, column in {"its own run": "disparity", "random walks": "walks"}.items():
        found = chosen[chosen["against"] == against].set_index(["kind", "seed"])["value"]
        for (kind, seed), value in found.items():
            rows = own[(own["kind"] == kind) & (own["seed"] == seed)]
            assert value == pytest.approx(rows[column].astype(float).mean())
    assert not table.duplicated(["measure", "runs", "kind", "seed", "against"]).any()


def test_the_matrix_is_symmetric_within_a_run_and_not_between_runs():
    table = findings.squares()
    squares = {
        against: own.pivot(index="row", columns="column", values="disparity").to_numpy()
        for against, own in table.groupby("against")
    }
    for against in ("the same run", "random walks"):
        np.testing.assert_allclose(squares[against], squares[against].T, atol=1e-12)
        np.testing.assert_allclose(np.diag(squares[against]), 0, atol=1e-12)
    assert np.diag(squares["another seed"]).min() > 1e-3
    run = findings.groups()[findings.STORIES][0]
    planes = [trajectory_runs.layout(run, name)[["x", "y"]].to_numpy() for name in ("Q 1", "K 1")]
    named = table[table["against"] == "the same run"].set_index(["row", "column"])["disparity"]
    assert named["Q 1", "K 1"] == pytest.approx(procrustes_disparity(*planes))


def test_layouts_are_means_over_matrices_and_there_may_be_none(monkeypatch):
    assert findings.over_layouts().empty
    rows = [("PCA", tensor, "walks", value, 100) for tensor, value in (("Q 1", 0.1), ("K 1", 0.3))]
    table = pd.DataFrame(rows, columns=["layout", "tensor", "against", "value", "seed"])
    monkeypatch.setattr(findings.layout_shapes, "shapes", lambda preset: table)
    assert findings.over_layouts()["disparity"].tolist() == [pytest.approx(0.2)]
    assert findings.over_layouts()["against"].tolist() == ["random walks"]


def test_a_ratio_is_of_means_seed_by_seed():
    own = findings.shapes(WITHOUT)
    by_seed = own[own["kind"] != "Q"].groupby("seed")[["disparity", "walks"]].mean()
    ratio = findings.ratio(WITHOUT, "walks", ["K", "V", "MLP-up", "MLP-down"])
    assert ratio.value == pytest.approx((by_seed["disparity"] / by_seed["walks"]).mean())
