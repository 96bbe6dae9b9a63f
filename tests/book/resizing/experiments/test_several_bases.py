"""Claims over several base models: rules as printed, laws of width, geometry against loss, many vectors."""

import copy
import dataclasses

import numpy as np
import pytest
import torch

from book.resizing.experiments import bases, geometry, tuned
from book.resizing.experiments.porting import Treatment
from book.resizing.experiments.tuned import PRINTED, TunedRun
from book.resizing.lemma import distortions
from book.resizing.rules import logit_error
from embviz import projections
from tests.book.resizing.conftest import BASE

RUN = TunedRun(BASE, 0.5, n_steps=3, learning_rate=1e-2)

pytestmark = pytest.mark.usefixtures("own_runs")


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


# --- many vectors, and larger calibration sets --------------------------------------------------------


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
