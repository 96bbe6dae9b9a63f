"""The examples in the docstrings of charts, maps, tables and players run and give what they say."""

import doctest
import importlib
from pathlib import Path

import numpy as np
import pytest

from embviz import view

FILES = sorted(Path(view.__file__).parent.glob("*.py"))
NAMES = [path.stem for path in FILES if ">>>" in path.read_text(encoding="utf-8")]


@pytest.mark.parametrize("name", NAMES)
def test_the_examples_of_a_module_run(name):
    done = doctest.testmod(importlib.import_module(f"embviz.view.{name}"), extraglobs={"np": np})
    assert done.attempted
    assert not done.failed
