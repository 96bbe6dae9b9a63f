"""A hidden Markov model finds the phases of weights that move by longer and shorter steps."""

import numpy as np
import pytest
from sklearn.metrics import adjusted_rand_score

from book.geometry.markov import markov_states


@pytest.mark.filterwarnings("default")  # the library's own
def test_planted_phases_of_quick_and_slow_movement_are_states():
    planted = np.repeat([0, 1, 2], 80)
    steps = np.random.default_rng(0).standard_normal((240, 30)) * np.array([0.1, 3.0, 0.1])[planted, None]
    states = markov_states(steps.cumsum(axis=0), seed=0)
    assert adjusted_rand_score(planted, states) > 0.8
