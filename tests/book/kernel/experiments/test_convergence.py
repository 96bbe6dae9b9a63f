import numpy as np
import pytest

from book.kernel.experiments import convergence, orthogonality, runs
from book.kernel.experiments.texts import load


@pytest.fixture(scope="module")
def run():
    return convergence.settings("quick")["text"]


def path_with(run, fall):
    path = convergence.load(run, "small")
    return convergence.Path(path.models, path.along, np.array(fall))


def test_snapshots_are_evenly_spaced(run):
    session = convergence.EvenSession(run, load(run.text))
    assert len(set(np.diff(session.snapshot_steps))) == 1
    assert session.snapshot_steps[-1] == session.n_steps


def test_stored_measures_are_those_of_the_stored_embeddings(run):
    path = convergence.load(run, "small")
    last = path.along[path.along["step"] == path.models.steps[-1]]
    expected = orthogonality.mean_cosines(path.models.last) / orthogonality.expected_cosine(
        path.models.embedding_dim
    )
    assert last["ratio"].to_numpy() == pytest.approx(expected, rel=1e-5)
    assert last["score"].to_numpy() == pytest.approx(path.models.scores(path.models.last), rel=1e-4)
    assert path.along.loc[path.along["step"] == 0, "untrained"].to_numpy() == pytest.approx(1)


def test_models_whose_loss_falls_decide_nothing(run):
    found = orthogonality.ends(convergence.load(run, "small").models)
    falling = path_with(run, [1.0, 0.2]).counting(found)
    assert {one.n_seeds for one in falling.values()} == {0}
    assert falling["ratio"].value == found["ratio"].value
    half = path_with(run, [1.0, 0.01])
    assert half.counting(found) == found
    assert half.judged.last.shape[0] == 1
