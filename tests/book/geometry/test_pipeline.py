"""The chapter on the pipeline: its random walk against the closed form."""

import ast
import json

import numpy as np
import pytest

from tests.book.conftest import BOOK


@pytest.fixture(scope="module")
def page():
    """The functions that the chapter's cells define, by name."""
    cells = json.loads((BOOK / "geometry" / "pipeline.ipynb").read_text(encoding="utf-8"))["cells"]
    names: dict = {"np": np}
    for cell in cells:
        if cell["cell_type"] == "code":
            for node in ast.parse("".join(cell["source"])).body:
                if isinstance(node, ast.FunctionDef) and node.name in {"cosine", "closed_form"}:
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
