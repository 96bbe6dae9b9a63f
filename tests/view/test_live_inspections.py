"""An inspection in a notebook: what is typed and chosen is measured again."""

from __future__ import annotations

from types import SimpleNamespace

import nbformat
import numpy as np
import pytest
from nbclient import NotebookClient

from embviz.inspection import inspect
from embviz.view.inspection_pages import plot_spectrum_by_rank
from embviz.view.live_inspections import explore_matrices, find_token, nearest_tokens, token_finder

pytestmark = pytest.mark.usefixtures("one_thread")
V, D = 60, 12


@pytest.fixture(scope="module")
def report():
    rng = np.random.default_rng(0)
    model = {"wte.weight": rng.normal(size=(V, D)) + 1}
    for layer in range(3):
        model |= {f"h.{layer}.attn.{kind}_proj.weight": rng.normal(size=(D, D)) for kind in "qkv"}
    tokens = [f"▁w{row}" if row % 2 else f"w{row}" for row in range(V)]
    return inspect(model, tokens, n_heads=2, n_draws=2)


def test_nearest_tokens_are_those_of_brute_force(report):
    table = report.weights.arrays["wte.weight"].read().astype(float)
    for centred in (True, False):
        rows = table - table.mean(axis=0) if centred else table
        unit = rows / np.linalg.norm(rows, axis=1, keepdims=True)
        expected = [one for one in np.argsort(-(unit @ unit[5])) if one != 5][:12]
        found = nearest_tokens(report, 5, centred=centred)
        assert found["token"].tolist()[:-1] == [report.vocabulary[row] for row in expected]
        assert found["cosine"].iloc[0] == pytest.approx(float(unit[5] @ unit[expected[0]]), abs=1e-5)


def test_a_typed_token_is_found_as_it_is_written_or_as_the_word_that_it_begins(report):
    assert find_token(report, "▁w7") == find_token(report, "w7") == 7
    assert find_token(report, "nothing") is None
    box = token_finder(report)
    box.children[0].children[0].value = "w7"
    assert "w" in box.children[1].value
    box.children[0].children[0].value = "<b>"
    assert "<b>" not in box.children[1].value


def test_a_chosen_head_has_its_own_spectrum(report):
    explorer = explore_matrices(report)
    table = explorer.measure("V", 2, "1", "entries in random places")
    head = report.weights.arrays["h.2.attn.v_proj.weight"].read()[6:]
    values = table[table["kind"] == "matrix"]["singular_value"]
    np.testing.assert_allclose(values, np.linalg.svd(head, compute_uv=False), rtol=1e-5)


@pytest.mark.slow
def test_an_inspection_shows_itself_in_a_notebook():
    code = (
        "import warnings; warnings.simplefilter('ignore')\n"
        "import numpy as np\nfrom embviz.inspection import inspect\n"
        "inspect({'wte.weight': np.random.default_rng(0).normal(size=(60, 8))}, [f'w{i}' for i in range(60)])"
    )
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(code)])
    NotebookClient(notebook, kernel_name="python3", timeout=200).execute()
    shown = [
        output["data"] for output in notebook.cells[0].outputs if output["output_type"] == "display_data"
    ]
    text = " ".join(data.get("text/html", "") for data in shown)
    assert "Its vocabulary has 60 tokens" in text
    assert any("application/vnd.jupyter.widget-view+json" in data for data in shown)


def test_singular_values_that_are_nearly_zero_have_no_place_on_the_logarithmic_axis():
    spectra = {"embedding": (np.array([2.0, 1.0, 3e-6, 0.0]), np.ones(4))}
    (columns,) = plot_spectrum_by_rank(SimpleNamespace(name="m", spectra=spectra)).to_dict()["data"]["values"]
    assert columns["singular_value"] == [2.0, 1.0, 1.0, 1.0, 1.0, 1.0]
