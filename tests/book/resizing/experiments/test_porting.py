"""What commutes with a map, measured on models that were trained for a moment."""

import numpy as np
import pytest
import torch

from book.language import TextConfig
from book.ledger import cells
from book.resizing.experiments import bases, porting
from book.resizing.experiments.porting import COMPONENTS, GAUSSIAN, PERMUTATION, ROTATION, SIGNED, STUDIES

EXACT, MOVED = 1e-12, 1e-4  # float64 roundings; an error that none of them makes, after 12 updates


def tiny(preset: str = "quick", architecture: str = bases.LAYER, seed: int = 0) -> bases.BaseRun:
    """A base model of 16 dimensions that sees a dozen batches."""
    options = bases.ARCHITECTURES[architecture]
    shape = bases.DecoderConfig(256, 16, 16, 1, mlp_dim=16, **{"n_heads": 2, **options})
    text = TextConfig("embedded", n_documents=40, n_held_out=1)
    return bases.BaseRun(text, shape, bases.training(12, 4, 16, 3e-2), seed, n_scores=1)


@pytest.fixture(scope="module", autouse=True)
def results(tmp_path_factory):
    """A folder with all cells of the four claims, of tiny models."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("EMBVIZ_RESULTS_DIR", str(tmp_path_factory.mktemp("results")))
        patch.setattr(bases, "base", tiny)
        studies = STUDIES.values()
        todo = [cell for study in studies for cell in study.preset_cells("quick") + study.beside("quick")]
        cells.run(todo, n_jobs=1, progress=False)
        yield


@pytest.mark.parametrize("name", [*COMPONENTS, *porting.MORE_COMPONENTS])
def test_a_component_commutes_with_rotations_unless_a_cause_is_named(name):
    component = {**COMPONENTS, **porting.MORE_COMPONENTS}[name]
    error = porting.errors(name, ROTATION, "quick")
    assert len(error) == porting.QUICK_DRAWS
    assert (error.min() > MOVED) if component.cause else (error.max() < EXACT)


def test_what_belongs_to_a_basis_commutes_with_another_order_of_it():
    for name in ("centering", "gains_projected"):
        assert porting.errors(name, PERMUTATION, "quick").max() < EXACT
        assert porting.errors(name, SIGNED, "quick").max() > MOVED


def test_no_architecture_commutes_with_a_gaussian_map():
    for name in COMPONENTS:
        assert porting.errors(name, GAUSSIAN, "quick").min() > MOVED


def test_a_changed_model_has_the_other_component_and_the_same_weights_for_the_rest():
    base = bases.load(tiny("quick"))
    alibi, one = porting.changed(base, "ALiBi"), porting.changed(base, "one head")
    assert alibi.config.positions == "alibi"
    assert alibi.position is None
    assert one.config.n_heads == 1
    assert torch.equal(one.blocks[0].up.weight, base.model.blocks[0].up.weight.double())
    assert torch.equal(porting.changed(base).embedding, base.model.embedding.double())


def test_sampled_strings_are_held_out_text():
    base = bases.load(tiny("quick"))
    tokens = porting.sample_tokens(base, 3)
    ids = base.streams.held_out.ids.tolist()
    assert tokens.shape == (3, 16)
    assert tokens[0].tolist() == ids[:16]
    assert tokens[-1].tolist() == ids[-16:]


def test_losses_after_a_port_are_those_of_the_carried_model():
    dense, dropped = (porting.gain_runs(rule, "quick")[0] for rule in ("dense", "dropped"))
    base = bases.load(dense.base)
    assert porting.losses(dense, 4) == pytest.approx(np.full(2, base.log_perplexity), abs=1e-5)  # float32
    assert porting.losses(dense, 2).std() > 0
    assert np.abs(porting.losses(dropped, 4) - base.log_perplexity).min() > 1e-4


def test_the_base_as_it_is_is_the_ported_model():
    run = porting.rotary_runs("quick", 2)[0]
    table = cells.table_of(porting.rotary_bases.cell(run))
    base = bases.load(run.base)
    own = porting.Treatment(attention="within").carry(base.model, 8, "orthonormal", 1).model
    found = table[(table["draw"] == 1) & (table["factor"] == 1.0)]["held_out"].iloc[0]
    assert found == pytest.approx(bases.held_out_loss(own, base), rel=1e-6)
