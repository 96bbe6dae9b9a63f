"""Phases of training as states of a hidden Markov model: it looks at time, and needs no layout."""

from __future__ import annotations

import numpy as np

from embviz.trajectories.phases import path_steps


def markov_states(weights: np.ndarray, *, seed: int) -> np.ndarray:
    """States (S,) of snapshots (S, P), told apart by how far each is from the first and the one before.

    Other simple statistics are not kept by sketched weights. The Bayesian information criterion chooses among
    one to six states.
    """
    from hmmlearn.hmm import GaussianHMM  # here: most chapters show stored states

    moved = path_steps(weights)
    from_start = np.linalg.norm(weights - weights[0], axis=1)
    values = np.column_stack([from_start, np.concatenate([moved[:1], moved])])
    values = (values - values.mean(axis=0)) / values.std(axis=0)
    models = [
        GaussianHMM(n_components=n, covariance_type="diag", n_iter=200, random_state=seed).fit(values)
        for n in range(1, 7)
    ]
    states: np.ndarray = min(models, key=lambda model: model.bic(values)).predict(values)
    return states
