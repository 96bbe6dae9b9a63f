"""The book's own scripts, which are no package, as modules."""

from __future__ import annotations

import importlib.util
from types import ModuleType

from tests.book.conftest import BOOK


def load_script(name: str) -> ModuleType:
    """``book/NAME.py`` as a module."""
    spec = importlib.util.spec_from_file_location(f"book_{name}", BOOK / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
