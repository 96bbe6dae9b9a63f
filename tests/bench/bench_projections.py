"""The fast Hadamard map beside the product with its matrix, on one thread."""

import numpy as np
import pytest
import threadpoolctl

from embviz.projections import draw
from tests.bench.speed_table import fastest

N_VECTORS = 256


@pytest.mark.parametrize(
    ("dim", "bar"),
    [(512, ""), (2_048, "at least 3 times the peer"), (8_192, "at least 8 times the peer")],
)
def test_a_hadamard_map_beside_its_matrix(speed_table, dim, bar):
    fast = draw("hadamard", dim // 2, dim, seed=0)
    x = np.random.default_rng(0).normal(size=(N_VECTORS, dim))
    matrix = fast.matrix.T.copy()
    # sums of thousands in another order
    np.testing.assert_allclose(fast.apply(x), x @ matrix, atol=1e-11 * np.abs(x).max())
    with threadpoolctl.threadpool_limits(1):
        ours, peer = fastest(lambda: fast.apply(x)), fastest(lambda: x @ matrix)
    speed_table(
        job=f"Hadamard map of {N_VECTORS:,} vectors, {dim:,} to {dim // 2:,} coordinates",
        ours=N_VECTORS / ours,
        peer=N_VECTORS / peer,
        unit="vectors/s",
        bar=bar,
        peer_name="a product with its matrix",
    )
