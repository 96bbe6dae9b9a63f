"""The examples in the docstrings of package and book run, and give what they say."""

import doctest
import importlib
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).parents[1]
FILES = [path for folder in ("embviz", "book") for path in sorted((ROOT / folder).rglob("*.py"))]
WITH_EXAMPLES = [
    ".".join(path.relative_to(ROOT).with_suffix("").parts)
    for path in FILES
    if ">>> " in path.read_text(encoding="utf-8") and "_build" not in path.parts
]


@pytest.mark.parametrize("name", WITH_EXAMPLES)
def test_the_examples_of_a_module_give_what_they_say(name):
    module = importlib.import_module(name.removesuffix(".__init__"))
    done = doctest.testmod(module, extraglobs={"np": np})
    assert done.failed == 0 < done.attempted
