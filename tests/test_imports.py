"""Libraries that are missing, and PyMDE, which imports torchvision."""

import sys
import types

import pytest

from embviz import imports


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A folder of modules to import, with a PyMDE of which nothing stays imported."""
    monkeypatch.syspath_prepend(tmp_path)
    for name in [name for name in sys.modules if name.partition(".")[0] in ("pymde", "torchvision")]:
        monkeypatch.delitem(sys.modules, name)
    (tmp_path / "pymde.py").write_text("import torchvision")
    yield tmp_path
    sys.modules.pop("pymde", None)


def test_an_empty_torchvision_stands_in_for_a_broken_one_and_is_taken_away_again(folder):
    (folder / "torchvision.py").write_text("raise RuntimeError('operator torchvision::nms does not exist')")
    assert vars(imports.import_pymde().torchvision)["__spec__"] is None
    assert "torchvision" not in sys.modules


def test_it_is_taken_away_where_pymde_cannot_be_imported(folder):
    (folder / "pymde.py").write_text("import no_such_module")
    with pytest.raises(ModuleNotFoundError, match="no_such_module"):
        imports.import_pymde()
    assert "torchvision" not in sys.modules


def test_a_torchvision_that_is_imported_already_stays(folder, monkeypatch):
    real = types.ModuleType("torchvision")
    monkeypatch.setitem(sys.modules, "torchvision", real)
    assert imports.import_pymde().torchvision is real
    assert sys.modules["torchvision"] is real


def test_missing_libraries_are_named_with_the_command(monkeypatch):
    monkeypatch.setitem(sys.modules, "sklearn", None)  # as if it were not installed
    message = 'phases needs scikit-learn and no_such_module: pip install "embviz[trajectories]"'
    with pytest.raises(imports.MissingExtraError) as caught:
        imports.require("trajectories", "numpy", "sklearn", "no_such_module", purpose="phases")
    assert str(caught.value) == message
    assert caught.value.name == "sklearn"


def test_libraries_are_looked_for_without_being_imported(folder):
    imports.require("view", "pymde", purpose="nothing")
    assert imports.installed("pymde")
    assert "pymde" not in sys.modules
