"""nbval compares chapters as the book stores them: explorers with their whole grids."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import pytest


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[Any]:
    """Measure grids in the kernels of chapters, and not in the tests that run beside them."""
    with pytest.MonkeyPatch.context() as patch:
        if item.path.suffix == ".ipynb":
            patch.setenv("EMBVIZ_GRIDS", "1")
            patch.setenv("EMBVIZ_CHAPTER", os.path.relpath(item.path))
        return (yield)
