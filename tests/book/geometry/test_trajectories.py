"""The chapter on trajectories: its walks against their closed form."""

import ast
import json

import numpy as np
import pandas as pd
import pytest

from tests.book.conftest import BOOK


@pytest.fixture(scope="module")
def page():
    """The functions that the chapter's cells define, by name."""
    cells = json.loads((BOOK / "geometry" / "trajectories.ipynb").read_text(encoding="utf-8"))["cells"]
    names: dict = {"np": np, "pd": pd}
    for cell in cells:
        if cell["cell_type"] == "code":
            for node in ast.parse("".join(cell["source"])).body:
                if isinstance(node, ast.FunctionDef) and node.name in {"walk", "cosine", "closed_form"}:
                    exec(ast.unparse(node), names)
    return names


def test_the_pages_closed_form_is_the_spectrum_of_a_walks_covariance(page):
    n = 30
    covariance = np.minimum.outer(np.arange(n), np.arange(n)).astype(float)  # of a walk that starts at 0
    centre = np.eye(n) - 1 / n
    values, vectors = np.linalg.eigh(centre @ covariance @ centre)
    np.testing.assert_allclose(page["closed_form"](n), values[:0:-1] / values.sum(), atol=1e-12)
    for k in range(1, 5):
        wave = page["cosine"](k, n)
        assert np.mean(wave**2) == pytest.approx(1)
        assert abs(vectors[:, -k] @ wave) / np.sqrt(n) == pytest.approx(1)


def test_shares_go_to_those_of_an_endless_walk(page):
    shares = page["closed_form"](20_000)
    for k in range(1, 5):
        assert shares[k - 1] == pytest.approx(6 / (np.pi * k) ** 2, rel=1e-3)  # 1 / n is left out


def test_the_pages_walk_has_the_momentum_that_it_is_given(page):
    steps = np.diff(page["walk"](2_000, 0.9, seed=1), axis=0)
    lengths = np.linalg.norm(steps, axis=1)
    cosines = (steps[1:] * steps[:-1]).sum(axis=1) / lengths[1:] / lengths[:-1]
    assert cosines.mean() == pytest.approx(0.9, abs=0.01)  # 2,000 dimensions: 0.5% each
    assert lengths.mean() == pytest.approx(np.sqrt(2_000), rel=0.02)
