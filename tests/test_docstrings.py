"""The examples in the docstrings of package and book run, and give what they say."""

import doctest
import importlib
import sys
from pathlib import Path

import numpy as np
import pytest

from embviz import labels

ROOT = Path(__file__).parents[1]
FILES = [path for folder in ("embviz", "book") for path in sorted((ROOT / folder).rglob("*.py"))]
WITH_EXAMPLES = [
    ".".join(path.relative_to(ROOT).with_suffix("").parts)
    for path in FILES
    if ">>> " in path.read_text(encoding="utf-8") and "_build" not in path.parts
]


@pytest.mark.parametrize("name", WITH_EXAMPLES)
def test_the_examples_of_a_module_give_what_they_say(name, monkeypatch):
    module = importlib.import_module(name.removesuffix(".__init__"))
    if name.startswith("embviz.") and "book.labels" in sys.modules:  # without the book's axis titles
        for title in sys.modules["book.labels"].LABELS:
            monkeypatch.delitem(labels.LABELS, title, raising=False)
    done = doctest.testmod(module, extraglobs={"np": np})
    assert done.failed == 0 < done.attempted
