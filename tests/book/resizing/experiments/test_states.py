import numpy as np
import pandas as pd
import pytest

from book.resizing.experiments import bases, recovery, states


def test_cosines_are_of_mean_states_less_their_mean():
    tokens = np.array([ord(symbol) for symbol in " e e"])
    last = np.array([[2.0, 0], [0, 2.0], [4.0, 0], [0, 4.0]])  # means (3, 0) and (0, 3)
    assert states.cosines_of_symbols(last, tokens) == {(0, 1): pytest.approx(-1)}


def test_both_halves_of_the_similarities_have_their_characters():
    n = len(states.SYMBOLS)
    table = pd.DataFrame(
        {"quantity": ["cosine"] * 2, "moment": ["now", "then"], "index": [0 * n + 1, 2], "value": [0.5, 1.0]}
    )
    own = states.similarities(table, "now")
    assert own.to_numpy().tolist() == [["␣", "e", 0.5], ["e", "␣", 0.5]]


def test_a_rotation_leaves_all_angles_and_the_loss():
    run = recovery.run_of("quick", (1.0,), n_steps=1, learning_rate=1e-9)
    table = states.states.function(states.StatesRun(run))
    ported = table[table["moment"] == states.PORTED]
    of = {name: own["value"].to_numpy() for name, own in ported.groupby("quantity")}
    assert of["concordance"] == pytest.approx(1, abs=1e-5)
    assert of["angular_error"] == pytest.approx(0, abs=1e-2)
    original = table[table["moment"] == states.ORIGINAL]
    same = original.loc[original["quantity"] == "cosine", "value"].to_numpy()
    assert of["cosine"] == pytest.approx(same, abs=1e-4)
    assert of["log_perplexity"] == pytest.approx(bases.load(run.base).log_perplexity, rel=1e-5)
