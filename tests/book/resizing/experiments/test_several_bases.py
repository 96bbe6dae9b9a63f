"""Claims over several base models: rules as printed, laws of width, geometry against loss, many vectors."""

import copy
import dataclasses
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
import torch

from book.resizing import experiments
from book.resizing.experiments import bases, fresh, geometry, growing, tuned, widths
from book.resizing.experiments.bases import BaseRun
from book.resizing.experiments.porting import Treatment
from book.resizing.experiments.tuned import PRINTED, TunedRun
from book.resizing.lemma import distortions
from embviz import projections
from embviz.models.resizing import logit_error
from tests.book.resizing.conftest import BASE

RUN = TunedRun(BASE, 0.5, n_steps=3, learning_rate=1e-2)

pytestmark = pytest.mark.usefixtures("own_runs")


# --- which models -------------------------------------------------------------------------------------


def test_fresh_base_models_leave_out_the_one_that_was_looked_at():
    assert [run.seed for run in bases.fresh("laptop", n=5)] == [1, 2, 3, 4, 5]
    assert bases.base("laptop") not in bases.fresh("laptop")
    assert not {run.seed for run in bases.unseen("laptop")} & {0, *range(1, 6)}
    assert {run.base.seed for run in growing.fresh_runs("laptop", "scratch")} == {3, 4, 5, 6, 7}
    assert not {run.base.seed for run in growing.runs("laptop", "scratch")} & {3, 4, 5, 6, 7}


def test_draws_are_averaged_within_a_base_model_and_base_models_are_what_is_repeated():
    found = fresh.over_bases([[1.0, 3.0], [2.0, 2.0], [5.0, 5.0]], "quick")
    assert (found.value, found.n_seeds, found.repeats) == (3.0, 3, "base models")


# --- Algorithm 1 as printed ---------------------------------------------------------------------------


def test_the_rule_as_printed_divides_by_the_new_width_and_has_narrower_heads_and_no_gains():
    base = bases.load(BASE)
    run = dataclasses.replace(RUN, treatment=PRINTED, family="gaussian", as_drawn=True)
    printed, ours = tuned.start(base, run), tuned.start(base, RUN)
    assert (printed.config.divisor, printed.config.head_width, printed.config.gains) == (4, 2, "none")
    assert printed.config.norm == "layer"
    assert (ours.config.head_width, ours.config.norm) == (4, "rms")


def test_the_printed_rule_is_what_its_lines_say_on_every_matrix():
    base = bases.load(BASE)
    run = dataclasses.replace(RUN, treatment=PRINTED, family="gaussian", as_drawn=True, seed=3)
    new, old = tuned.start(base, run).state_dict(), base.model.state_dict()
    T = projections.draw("gaussian", 4, 8, seed=3, scaling="isometric")
    plus, T = (torch.from_numpy(one).float() for one in (T.pseudo_inverse(), T.matrix))
    torch.testing.assert_close(new["embedding"], old["embedding"] @ T.T)
    torch.testing.assert_close(new["free_head"], old["embedding"] @ plus)
    for part in ("query", "key", "value", "out"):
        name = f"blocks.0.attention.{part}.weight"
        torch.testing.assert_close(new[name], T @ old[name] @ plus)
    up, down = (f"blocks.0.{part}.weight" for part in ("up", "down"))  # (outputs, inputs): transposed
    torch.testing.assert_close(new[up], (T @ old[up].T).T)
    torch.testing.assert_close(new[down], (old[down].T @ plus).T)


def test_random_weights_have_the_shape_of_the_port_and_our_repairs_are_exact_at_the_same_width():
    base = bases.load(BASE)
    run = dataclasses.replace(RUN, treatment=Treatment(attention="plain"))
    shapes = [
        {name: array.shape for name, array in tuned.start(base, one).state_dict().items()}
        for one in (run, dataclasses.replace(run, scratch=True))
    ]
    assert shapes[0] == shapes[1]
    tokens = torch.arange(16)[None]
    whole = dataclasses.replace(RUN, ratio=1.0)
    assert logit_error(tuned.start(base, whole)(tokens), base.model(tokens)) < 1e-4
    printed = dataclasses.replace(whole, treatment=PRINTED)
    assert logit_error(tuned.start(base, printed)(tokens), base.model(tokens)) > 0.01


@pytest.mark.parametrize("optimizer", ["adamw", "adafactor"])
def test_a_port_is_scored_from_its_start_to_its_last_update_and_learns(optimizer):
    run = dataclasses.replace(RUN, optimizer=optimizer, n_steps=20)
    table = tuned.tuned.function(run)
    assert table["step"].tolist()[0] == 0
    assert table["step"].tolist()[-1] == 20
    assert table["log_perplexity"].iloc[-1] < table["log_perplexity"].iloc[0]


# --- the law of width ---------------------------------------------------------------------------------


def test_a_law_is_the_slope_over_doublings_of_one_seeds_models(monkeypatch):
    def made(run):
        doublings = np.log2(run.base.shape.embedding_dim / 32)
        return widths.Carried(3.0 - 0.5 * doublings + 0.1 * run.seed, 1.0, 4.0**doublings, True)

    monkeypatch.setattr(widths, "carried", made)
    np.testing.assert_allclose(widths.laws("laptop", "lost"), -0.5)
    np.testing.assert_allclose(widths.laws("laptop", "tuned"), 0.0, atol=1e-9)
    np.testing.assert_allclose(widths.laws("laptop", "steps"), 2.0)


# --- geometry against loss ----------------------------------------------------------------------------


def made_ports(sign: float) -> pd.DataFrame:
    """Ports whose loss follows their error within a width, up or down, and the width across."""
    rows = [
        ("commuting rules", "made", m, i, 0.1 * i + 1 / m, sign * i - m) for m in (2, 4) for i in range(6)
    ]
    rows.append(("as printed", "made", 8, 0, 0.0, 1.0))
    return pd.DataFrame(rows, columns=["rule", "family", "m", "draw", "error", "lost"])


def test_correlations_are_within_widths_and_the_null_exchanges_losses_there():
    assert widths.within_widths(made_ports(1.0)) == pytest.approx(1.0)
    assert widths.within_widths(made_ports(-1.0)) == pytest.approx(-1.0)
    exchanged = [widths.within_widths(made_ports(1.0), seed=i) for i in range(200)]
    assert abs(np.mean(exchanged)) < 0.1  # standard error 0.02


def test_ports_are_measured_by_every_rule_and_rules_that_commute_lose_nothing_where_angles_are_kept():
    run = widths.LanguageRun(BASE, quarters=(2.0,), n_draws=1, n_calibration=64, n_probes=16)
    table = widths.language.function(run)
    narrow = table[table["m"] == 4]
    assert set(narrow["family"]) == set(widths.KINDS)
    kept = table[table["m"] == 8].set_index("rule")
    assert set(kept.index) == set(widths.ROTATED)
    assert (kept["error"] < 1e-6).all()
    assert kept["concordance"].min() > 1 - 1e-9
    assert abs(kept["lost"]["commuting rules"]) < 1e-4  # float32
    assert abs(kept["lost"]["as printed"]) > 1e-3


def made_losses(seed: int) -> pd.DataFrame:
    """Ports at six widths: random maps lose 2, principal directions 0.5 and coordinates 1.9 more or less."""
    lost = {"gaussian": 2.0, widths.ORTHONORMAL: 2.0, widths.PCA: 0.5, widths.COORDINATES: 1.9}
    rows = [
        ("commuting rules", family, 16 * quarters, draw, 0.1 * draw, of + 0.01 * seed - 0.1 * draw)
        for quarters in range(2, 8)
        for family, of in lost.items()
        for draw in range(3)
    ]
    rows.append(("commuting rules", widths.ORTHONORMAL, 128, 0, 0.0, 0.0))
    return pd.DataFrame(rows, columns=["rule", "family", "m", "draw", "error", "lost"])


def test_random_maps_are_held_against_principal_directions_and_against_coordinates(monkeypatch):
    monkeypatch.setattr(widths, "language", SimpleNamespace(cell=lambda run: run.base.seed))
    monkeypatch.setattr(widths, "table_of", made_losses)
    found = widths._principal_findings("laptop")
    assert {name for name in found if name.startswith("gap")} == {f"gap_{name}" for name in widths.GAPS}
    assert found["gap_half"].value == pytest.approx(1.5)
    assert found["gap_7_8"].controls[widths.COORDINATES] == pytest.approx(0.1)
    assert found["random_half"].value == pytest.approx(1.9 + 0.07)
    assert found["gap_half"].n_seeds == 3


def test_the_random_families_alone_decide_on_angles_and_loss(monkeypatch):
    monkeypatch.setattr(widths, "language", SimpleNamespace(cell=lambda run: run.base.seed))
    monkeypatch.setattr(widths, "table_of", made_losses)
    found = widths._random_findings("laptop")["within_width_random"]
    # with principal directions and coordinates it would be nearer to 0
    assert found.value == pytest.approx(-1.0)
    assert found.controls["exchanged"] > -0.5


# --- many vectors, and larger calibration sets --------------------------------------------------------


def test_a_map_of_many_vectors_misses_beyond_epsilon(monkeypatch):
    eps = geometry.EPS
    values = {"gaussian": [0.9 * eps, 1.1 * eps], geometry.COORDINATES: [3 * eps, 0.5 * eps]}
    table = pd.DataFrame([(family, 16, value) for family, own in values.items() for value in own])
    table.columns = ["family", "m", "value"]
    monkeypatch.setattr(geometry, "many_runs", lambda preset: [None])
    monkeypatch.setattr(geometry, "many_vectors", SimpleNamespace(cell=lambda run: table))
    monkeypatch.setattr(fresh, "table_of", lambda own: own)
    found = fresh._many_figures("quick")["failures_many"]
    assert (found.value, found.controls) == (0.5, {geometry.COORDINATES: 0.5})


def test_the_worst_pair_in_blocks_is_that_of_all_differences():
    x = np.random.default_rng(0).normal(size=(70, 12)).astype(np.float32) + 5
    projection = projections.draw("gaussian", 6, 12, seed=0)
    slow = np.abs(distortions(x, projection) - 1).max()
    image = projection.apply(x).astype(np.float32)
    for block in (16, 70, 1_000):
        assert geometry.worst_pair(x, image, block) == pytest.approx(slow, rel=1e-4)  # an image in float32


def test_states_that_are_the_same_twice_count_once():
    base = bases.load(BASE)
    states = geometry.different_states(base, 50, 0)
    assert len(np.unique(states, axis=0)) == 50
    constant = dataclasses.replace(base, model=copy.deepcopy(base.model))
    with torch.no_grad():
        for array in constant.model.parameters():
            array.zero_()
    with pytest.raises(ValueError, match="different ones, not"):
        geometry.different_states(constant, 50, 0)


def test_steering_directions_are_differences_of_means_of_states():
    base = bases.load(BASE)
    directions = geometry.steering(base, 3, seed=1)
    assert directions.shape == (3, 8)
    assert np.linalg.matrix_rank(directions) == 3


def test_maps_see_calibration_sets_of_both_kinds_and_the_blind_map_is_one_for_all():
    run = geometry.SizesRun(BASE, BASE.text, True, (16, 32), n_vectors=16, n_directions=4, n_draws=2)
    table = geometry.support_sizes.function(run)
    assert len(table) == 2 * 2 * 2 * 2 * 3  # draws, sizes, sets, families, vectors
    blind = table[table["family"] == "gaussian"]
    assert (blind.groupby(["draw", "vectors"])["value"].nunique() == 1).all()
    assert (table["value"] >= 0).all()
