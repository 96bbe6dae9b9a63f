"""Libraries that import torchvision, where it is broken, works or isn't there."""

import sys

import pytest

from embviz import imports

PACKAGE = "needs_torchvision"
SOURCE = """
import torchvision
from torchvision.models.vision import resnet
import torchvision.transforms as transforms
found = torchvision.__name__
"""
OPTIONAL = """
try:
    import torchvision
except ImportError:
    found = None
else:
    found = torchvision.__name__
"""


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A folder of modules to import, with nothing imported from it yet or left behind."""
    monkeypatch.syspath_prepend(tmp_path)
    kept = {name: module for name, module in sys.modules.items() if name.startswith("torchvision")}
    for name in kept:
        monkeypatch.delitem(sys.modules, name)
    imports.works.cache_clear()
    yield tmp_path
    imports.works.cache_clear()
    for name in list(sys.modules):
        if name.startswith(("torchvision", PACKAGE)):
            del sys.modules[name]


def write_torchvision(folder, text):
    package = folder / "torchvision"
    (package / "models").mkdir(parents=True)
    (package / "__init__.py").write_text(text)
    (package / "transforms.py").write_text("")
    (package / "models" / "__init__.py").write_text("")
    (package / "models" / "vision.py").write_text("class resnet: pass")


BROKEN = "raise RuntimeError('operator torchvision::nms does not exist')"


def test_a_broken_torchvision_is_stood_in_for_and_taken_away_again(folder):
    write_torchvision(folder, BROKEN)
    (folder / f"{PACKAGE}.py").write_text(SOURCE)
    module = imports._import(PACKAGE, imports._StandIn("torchvision"))
    assert module.found == "torchvision"
    assert module.resnet is not None
    assert not [name for name in sys.modules if name.startswith("torchvision")]
    assert not [finder for finder in sys.meta_path if isinstance(finder, imports._StandInFinder)]


def test_a_torchvision_that_works_is_the_one_that_is_imported(folder):
    write_torchvision(folder, "real = True")
    (folder / f"{PACKAGE}.py").write_text(SOURCE)
    module = imports._import(PACKAGE, imports._StandIn("torchvision"))
    assert module.torchvision.real
    assert sys.modules["torchvision"].real


def test_hidden_it_counts_as_not_installed(folder):
    write_torchvision(folder, BROKEN)
    (folder / f"{PACKAGE}.py").write_text(OPTIONAL)
    assert imports._import(PACKAGE, None).found is None


def test_missing_libraries_are_named_with_the_command(monkeypatch):
    monkeypatch.setitem(sys.modules, "sklearn", None)  # as if it were not installed
    message = 'phases needs scikit-learn and no_such_module: pip install "embviz[trajectories]"'
    with pytest.raises(imports.MissingExtraError) as caught:
        imports.require("trajectories", "numpy", "sklearn", "no_such_module", purpose="phases")
    assert str(caught.value) == message
    assert caught.value.name == "sklearn"


def test_libraries_are_looked_for_without_being_imported(folder):
    (folder / f"{PACKAGE}.py").write_text("raise RuntimeError('imported')")
    imports.require("view", PACKAGE, purpose="nothing")
    assert imports.installed(PACKAGE)
    assert PACKAGE not in sys.modules


def test_what_a_library_misses_itself_is_not_taken_for_the_library(folder):
    (folder / f"{PACKAGE}.py").write_text("import needs_torchvision_and_more")
    with pytest.raises(ModuleNotFoundError, match="needs_torchvision_and_more"):
        imports._import(PACKAGE, None)
