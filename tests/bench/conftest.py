"""A fixture that collects rows of the speed table, and writes them beside the other results."""

from collections.abc import Callable

import pytest

from tests.bench.speed_table import store_row


@pytest.fixture
def speed_table() -> Callable[..., None]:
    """Record one row: job, ours, peer (None where there is none), unit, bar, peer_name."""
    return store_row
