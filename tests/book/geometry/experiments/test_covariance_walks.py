"""Query matrices beside two kinds of walks: a tiny run, and findings on made-up measures."""

from dataclasses import replace

import pandas as pd
import pytest

from book.geometry.experiments import covariance_walks as walks
from book.language import TextConfig
from embviz import ledger


def test_a_run_has_each_query_matrix_beside_its_walks_of_both_kinds():
    (run, _) = walks.walked_runs("quick")
    text, setting = TextConfig("embedded", n_documents=40, n_held_out=1), replace(run.setting, n_steps=60)
    table = walks.covariance_walks.function(replace(run, text=text, setting=setting, n_epochs=5))
    assert table.groupby("layer")["kind"].apply(list).to_list() == [list(walks.KINDS)] * 2
    assert table["dbcv"].between(-1, 1).all()
    assert table["layout_sharpness"].between(0.05, 1).all()


def test_findings_are_what_a_matrix_has_above_each_kind_of_walk(monkeypatch):
    def made(cell):
        level = {walks.DATA: 0.5 + 0.1 * cell.config.seed, walks.ISOTROPIC: 0.3, walks.COVARIANCE: 0.45}
        rows = [
            (layer, kind, draw, 3, level[kind] + shift, 2 * level[kind])
            for layer, shift in ((1, -0.1), (2, 0.1))
            for kind, n in zip(walks.KINDS, (1, 3, 3), strict=True)
            for draw in range(n)
        ]
        columns = ["layer", "kind", "draw", "n_phases", "dbcv", "layout_sharpness"]
        return pd.DataFrame(rows, columns=columns), {}

    monkeypatch.setattr(walks, "read", made)
    found = walks.PART.measure("laptop")
    assert found["separation_isotropic"].value == pytest.approx(0.7 - 0.3)
    assert found["separation_covariance"].value == pytest.approx(0.7 - 0.45)
    assert found["sharp_covariance"].value == pytest.approx(2 * (0.7 - 0.45))
    assert {one.n_seeds for one in found.values()} == {5}
    assert found.keys() <= ledger.find_claim("geometry.trajectories_q").finding_names
