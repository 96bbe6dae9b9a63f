"""The reference names everything public, links lead both ways, and docstrings read as they were written."""

from __future__ import annotations

import ast
import html
import importlib
import inspect
import pkgutil
import re
from pathlib import Path
from types import SimpleNamespace

import pytest
from sphinx.ext.autodoc.mock import mock

import embviz
from tests.book.conftest import BOOK
from tests.book.scripts import load_script

reference = load_script("ext/reference")
ROOMS = re.findall(
    r"(?m)^\.\. room:: (\S+)", "".join(page.read_text("utf-8") for page in (BOOK / "reference").glob("*.md"))
)
EVERY_ROOM = pytest.mark.parametrize("room", ROOMS)


def test_every_room_and_every_module_that_the_package_names_has_its_place_once():
    folders = {found.name for found in pkgutil.iter_modules(embviz.__path__) if found.ispkg}
    assert sorted(ROOMS) == sorted(set(ROOMS))
    modules = {name for name in embviz.__all__ if inspect.ismodule(getattr(embviz, name))}
    assert {f"embviz.{name}" for name in folders | modules} <= set(ROOMS)


@EVERY_ROOM
def test_every_public_name_of_a_room_has_an_entry(room):
    place = importlib.import_module(room)
    names = {name for name in getattr(place, "__all__", []) if not inspect.ismodule(getattr(place, name))}
    if not names:  # nothing is attached: all that its files define
        paths = Path(place.__file__).parent.glob("*.py") if hasattr(place, "__path__") else [place.__file__]
        nodes = [node for path in paths for node in ast.parse(Path(path).read_text("utf-8")).body]
        names = {node.name for node in nodes if isinstance(node, ast.FunctionDef | ast.ClassDef)}
        names = {name for name in names if not name.startswith("_")}
    found = [entry.name for entry in reference.entries(room)]
    assert names
    assert names <= {name.rsplit(".", 1)[1] for name in found}
    assert len(found) == len(set(found))


def test_what_a_function_returns_and_what_a_chapter_imports_are_entries_too():
    names = {entry.name for entry in reference.entries("embviz.words")}
    assert "embviz.words.wordtests.SimilarityScore" in names
    assert "embviz.words.wordvectors.token_names" not in names
    used = frozenset({"embviz.words.wordvectors.token_names"})
    assert used <= {entry.name for entry in reference.entries("embviz.words", used)}


def test_bars_stars_and_underscores_are_what_they_look_like_but_in_code():
    assert reference.plain("|x_| 2 * 3 of `|a_|`") == r"\|x\_\| 2 \* 3 of `|a_|`"
    assert reference.plain("V.") == r"V\."


@pytest.fixture(scope="module")
def read(pages):
    """Text of a built page, read once."""
    texts: dict[str, str] = {}

    def text(name: str) -> str:
        if name not in texts:
            texts[name] = (pages / name).read_text(encoding="utf-8")
        return texts[name]

    return text


def test_every_entry_stands_on_its_page(pages, read):
    shown = "".join(read(f"reference/{page.name}") for page in (pages / "reference").glob("*.html"))
    ids = set(re.findall(r'id="(embviz\.[\w.]+)"', shown))
    for room in ROOMS:
        assert {entry.name for entry in reference.entries(room)} <= ids


def test_every_name_in_a_cell_leads_to_an_entry_that_leads_back(pages, read):
    n_links = 0
    for notebook in sorted(BOOK.glob("*/*.ipynb")):
        page = f"{notebook.parent.name}/{notebook.stem}"
        text = read(f"{page}.html")
        links = set(re.findall(r'<a class="instrument" href="\.\./(reference/\w+\.html)#([\w.]+)"', text))
        everything, open_cells = reference.code_of(notebook)
        said = reference.uses(open_cells, reference.imported(everything))
        for target, name in links:
            n_links += 1
            entry = read(target).split(f'id="{name}"')[1].split('<dt class="sig')[0]
            if said & {name, _defined_as(name)}:
                assert f'href="../{page}.html"' in entry, f"{name} does not lead back to {page}"
    assert n_links > 100


def _defined_as(name):
    module, _, last = name.rpartition(".")
    found = getattr(importlib.import_module(module), last)
    return f"{getattr(found, '__module__', module)}.{last}"


def test_sources_examples_and_comments_beside_fields_are_shown(read):
    entry = read("reference/words.html").split('id="embviz.words.pmi"')[1].split('id="embviz.words.ppmi"')[0]
    assert re.search(r'<p class="rubric">Source</p>\s*<p>Levy', entry)
    corpus = read("reference/corpora.html").split('id="embviz.corpora.corpus_from_tokens"')[1]
    assert 'class="doctest highlight-' in corpus.split('<dt class="sig')[0]
    fields = read("reference/words.html").split('id="embviz.words.SGNSSchedule"')[1].split("</dl>\n</dd>")[0]
    assert "on the mean loss of a batch" in html.unescape(fields)


def test_libraries_that_are_not_installed_are_mocked(monkeypatch):
    monkeypatch.setattr(reference, "installed", lambda module: module not in {"torch", "sklearn"})
    reference.without_libraries(None, config := SimpleNamespace())
    assert config.autodoc_mock_imports == ["sklearn", "torch"]


def test_a_class_whose_base_is_not_installed_shows_its_own_parameters():
    with mock(["not_installed"]):
        from not_installed import Module
    said = ({}, "(*args, **kwargs)", None)

    class Layer(Module):
        def __init__(self, n_in: int, *, bias: bool = True): ...

    class Same(Layer):
        """With the parameters of its base."""

    assert reference.as_defined(None, "class", "Layer", Layer, *said) == ("(n_in, *, bias=True)", None)
    assert reference.as_defined(None, "class", "Same", Same, *said) is None
    assert reference.as_defined(None, "class", "Layer", Layer, {}, "(n_in)", None) is None
