"""The stored runs of the chapter on carrying a transformer, as tables."""

import numpy as np
import pytest

from book.resizing import carrying as runs
from book.resizing.experiments import bases, porting
from embviz.ledger import cells
from tests.book.resizing.experiments.test_porting import tiny

pytestmark = pytest.mark.usefixtures("one_thread")


@pytest.fixture(scope="module", autouse=True)
def small(tmp_path_factory):
    """Tiny base models in place of the presets', trained once."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("EMBVIZ_RESULTS_DIR", str(tmp_path_factory.mktemp("results")))
        patch.setattr(bases, "base", tiny)
        runs.component_errors.cache_clear()
        architectures = {component.architecture for component in porting.COMPONENTS.values()}
        cells.run(
            bases.base_cells(*(tiny("quick", name) for name in architectures)), n_jobs=1, progress=False
        )
        yield
    runs.component_errors.cache_clear()


def test_a_part_is_exact_under_a_rotation_unless_a_cause_is_named():
    table = runs.component_errors("quick")
    errors = table.pivot(index="part", columns="map_kind", values="logit_error")
    components = {**porting.COMPONENTS, **porting.MORE_COMPONENTS}
    assert list(errors.index.sort_values()) == sorted(runs.NAMES.values())
    for name, component in components.items():
        row = errors.loc[runs.NAMES[name]]
        assert (row[porting.ROTATION] < 1e-10) == (component.cause == ""), name
        assert row[porting.GAUSSIAN] > 1e-3, name


def test_gains_carried_as_a_vector_lose_most_of_each_base_model():
    table = runs.gain_losses("quick")
    assert len(table) == 3 * 3 * 3  # rules, places, base models
    means = table[table["where"] == "m = d / 2"].groupby("rule")["lost"].mean()
    assert means.idxmax() == "as a vector"
    dense = table[(table["rule"] == "as a matrix") & (table["where"] == "m = d")]
    assert dense["lost"].to_numpy() == pytest.approx(np.zeros(3), abs=1e-5)


def test_heads_and_rotary_bases_are_compared_on_base_models_that_were_not_looked_at():
    heads = runs.head_losses("quick")
    assert len(heads) == 2 * 2 * 3 * 3  # widths, moments, rules, base models
    assert set(heads["base_model"]) == {1, 2, 3}
    means = heads[heads["where"] == "m = d / 2"].groupby("rule")["lost"].mean()
    assert means.idxmin() != "plain, not trained before"
    rotary = runs.rotary_losses("quick")
    assert len(rotary) == 2 * 3 * 3 + 3  # widths, base models, factors; and heads kept, with one factor
    assert runs.other_widths("quick")["works"].sum() == 14


def test_the_text_to_read_is_one_string_of_characters():
    ids, letters = runs.reading("quick")
    assert ids.shape == (1, len(letters))
    assert runs.model_of("quick").config.embedding_dim == bases.base("quick").shape.embedding_dim
