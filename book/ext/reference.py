"""The API reference: an entry for each public name of a room, and links between entries and chapters.

A room shows what it attaches; of the modules that it names and attaches nothing of, and of a room that
attaches nothing, every public function and class. To these come what they return, raise and refer to, and
what a chapter imports. Nothing is listed by hand.
"""

from __future__ import annotations

import ast
import importlib
import importlib.metadata
import inspect
import io
import itertools
import json
import re
import textwrap
import tokenize
from collections import Counter
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

from docutils import nodes
from docutils.statemachine import StringList
from sphinx.application import Sphinx
from sphinx.config import Config
from sphinx.ext.autodoc.mock import mock
from sphinx.util.docutils import SphinxDirective
from sphinx.util.nodes import make_refnode, nested_parse_with_titles

from embviz.imports import PACKAGES, installed

MODULES = {package: module for module, package in PACKAGES.items()}
FOLDED = {"hide-input", "hide-cell", "remove-input", "remove-cell"}
COMPILED = ("_numba", "_torch")  # loops behind the modules that call them


class Entry(NamedTuple):
    """A public name: where readers import it from, and the module that defines it."""

    name: str  # in full, as embviz.words.pmi
    module: str  # as embviz.words.cooccurrence
    node: ast.stmt

    @property
    def last(self) -> str:
        """The name alone."""
        return self.name.rsplit(".", 1)[1]

    @property
    def also(self) -> str:
        """Its name in the module that defines it."""
        return f"{self.module}.{self.last}"

    @property
    def directive(self) -> str:
        """Autodoc's, for what it is."""
        if isinstance(self.node, ast.FunctionDef):
            return "autofunction"
        return "autoclass" if isinstance(self.node, ast.ClassDef) else "autodata"


# --- what is public ---------------------------------------------------------------------------------


def definitions(module: ModuleType) -> dict[str, ast.stmt]:
    """Public names that a module's file defines, in its order."""
    found: dict[str, ast.stmt] = {}
    for node in ast.parse(inspect.getsource(module)).body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            found[node.name] = node
        elif isinstance(node, ast.Assign | ast.AnnAssign) and "TypeVar(" not in ast.unparse(node):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            found.update({name: node for target in targets for name in _stored(target)})
    return {name: node for name, node in found.items() if not name.startswith("_")}


def _stored(tree: ast.AST) -> list[str]:
    names = [node for node in ast.walk(tree) if isinstance(node, ast.Name)]
    return [name.id for name in names if isinstance(name.ctx, ast.Store)]


def modules(room: str) -> list[str]:
    """The modules of a room in full; a module by itself is its own."""
    folder = getattr(importlib.import_module(room), "__path__", None)
    if folder is None:
        return [room]
    names = sorted(path.stem for path in Path(folder[0]).glob("[!_]*.py"))
    return [f"{room}.{name}" for name in names if not name.endswith(COMPILED)]


def entries(room: str, used: frozenset[str] = frozenset()) -> list[Entry]:
    """Every entry of a room, in the order of its files.

    Parameters
    ----------
    room : str
        As ``embviz.words`` or ``embviz.metrics``.
    used : set of str
        Names in full that chapters import; those of the room are entries too.
    """
    place = importlib.import_module(room)
    names = set(getattr(place, "__all__", []))
    attached = {name for name in names if not inspect.ismodule(getattr(place, name))}
    public: list[Entry] = []
    hidden: list[Entry] = []
    for module in modules(room):
        found = importlib.import_module(module)
        named = definitions(found)
        ours = {name for name in attached & set(named) if getattr(place, name) is getattr(found, name)}
        attached -= ours
        whole = not ours and (not names or module.rsplit(".", 1)[1] in names)
        for name, node in named.items():
            entry = Entry(f"{room if name in ours else module}.{name}", module, node)
            code = isinstance(node, ast.FunctionDef | ast.ClassDef)
            shown = name in ours or (whole and code) or {entry.also, f"{room}.{name}"} & used
            (public if shown else hidden).append(entry)
    for name in sorted(attached):  # what the room attaches of another
        module = getattr(place, name).__module__
        node = definitions(importlib.import_module(module))[name]
        public.append(Entry(f"{room}.{name}", module, node))
    new = public
    while new:
        wanted = needed(new)
        new = [entry for entry in hidden if entry.last in wanted]
        hidden = [entry for entry in hidden if entry.last not in wanted]
        public = public + new
    return sorted(public, key=lambda entry: (entry.module, entry.node.lineno))


def needed(public: list[Entry]) -> set[str]:
    """What entries return and raise, and they and their modules refer to: last parts of names."""
    texts = [importlib.import_module(name).__doc__ or "" for name in {entry.module for entry in public}]
    wanted = set()
    for node in [node for entry in public for node in ast.walk(entry.node)]:
        if isinstance(node, ast.FunctionDef | ast.ClassDef) and not node.name.startswith("_"):
            texts.append(ast.get_docstring(node) or "")
        if isinstance(node, ast.FunctionDef) and node.returns:
            wanted |= {name.id for name in ast.walk(node.returns) if isinstance(name, ast.Name)}
    for text in texts:
        wanted |= set(re.findall(r":[a-z]+:`~?(?:\w+\.)*(\w+)`", text) + re.findall(r"\w+Error\b", text))
    return wanted


# --- what chapters use ------------------------------------------------------------------------------


def code_of(notebook: Path) -> tuple[str, str]:
    """Source of all code cells of a chapter, and of those that stand open on the page."""
    cells = json.loads(notebook.read_text(encoding="utf-8"))["cells"]
    code = [cell for cell in cells if cell["cell_type"] == "code"]
    shown = [cell for cell in code if not FOLDED & set(cell["metadata"].get("tags", []))]
    everything, open_cells = ("\n".join("".join(cell["source"]) for cell in some) for some in (code, shown))
    return everything, open_cells


def imported(source: str) -> dict[str, str]:
    """Names that code imports from the package and gives to nothing else, and what they stand for in full."""
    tree = ast.parse(source)
    others = set(_stored(tree)) | {node.arg for node in ast.walk(tree) if isinstance(node, ast.arg)}
    return {
        alias.asname or alias.name: f"{node.module}.{alias.name}"
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and (node.module or "").partition(".")[0] == "embviz"
        for alias in node.names
        if (alias.asname or alias.name) not in others
    }


def uses(source: str, names: dict[str, str]) -> set[str]:
    """Which of the names code says or imports, alone or with an attribute, in full."""
    found = [node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Name | ast.Attribute)]
    parts = [ast.unparse(node).partition(".") for node in found]
    said = {names[first] + dot + rest for first, dot, rest in parts if first in names}
    return said | set(imported(source).values())


# A name and its attributes, as Pygments writes them; no attribute of something else, no keyword.
DOT = '<span class="o">.</span>'
NAME = r'<span class="n">\w+</span>'
CHAIN = re.compile(rf'(?<!{DOT}){NAME}(?:{DOT}{NAME})*(?! ?<span class="o">=<)')


def linked(page: str, addresses: dict[str, str]) -> str:
    """A page's HTML with a link around each name in its code that has an address."""

    def link(chain: re.Match[str]) -> str:
        spans = chain[0].split(DOT)
        for n in range(len(spans), 0, -1):
            if address := addresses.get(re.sub("<[^>]*>", "", ".".join(spans[:n]))):
                said = f'<a class="instrument" href="{address}">{DOT.join(spans[:n])}</a>'
                return DOT.join([said, *spans[n:]])
        return chain[0]

    return CHAIN.sub(link, page)


# --- the pages --------------------------------------------------------------------------------------


class Reference:
    """What one build has collected: the rooms' entries, and the chapters that use them."""

    def __init__(self, app: Sphinx) -> None:
        self.book = Path(app.srcdir)
        self.pages: dict[str, list[str]] = {}  # page -> its rooms
        for page in app.config.external_site_map:
            if page.startswith("reference/") and page != "reference/index":
                text = (self.book / f"{page}.md").read_text(encoding="utf-8")
                self.pages[page.partition("/")[2]] = re.findall(r"(?m)^\.\. room:: (\S+)", text)
        self.names_in: dict[str, dict[str, str]] = {}  # chapter -> what its cells import
        self.used: dict[str, list[str]] = {}  # name in full -> chapters in whose open cells it stands
        for chapter in app.config.external_site_map:
            if (notebook := self.book / f"{chapter}.ipynb").is_file():
                everything, open_cells = code_of(notebook)
                self.names_in[chapter] = imported(everything)
                for name in uses(open_cells, self.names_in[chapter]):
                    self.used.setdefault(name, []).append(chapter)
        rooms = [room for found in self.pages.values() for room in found]
        self.entries = {room: entries(room, frozenset(self.used)) for room in rooms}
        self.names = {
            name: entry.name
            for found in self.entries.values()
            for entry in found
            for name in (entry.name, entry.also)
        }
        classes = [
            entry for found in self.entries.values() for entry in found if entry.directive == "autoclass"
        ]
        once = Counter(entry.last for entry in classes)
        self.classes = {entry.last: entry.name for entry in classes if once[entry.last] == 1}

    def used_in(self, name: str) -> list[str]:
        """Chapters whose open cells say an entry's name, in whichever way they import it."""
        found = {page for said, pages in self.used.items() if self.names.get(said) == name for page in pages}
        return sorted(found)


class Room(SphinxDirective):
    """``.. room:: embviz.words``: all entries of a room, by module."""

    required_arguments = 1

    def run(self) -> list[nodes.Node]:
        """Autodoc's directives, for what the room shows."""
        room = self.arguments[0]
        lines = [f".. automodule:: {room}", ""]
        found = self.env.app.reference.entries[room]  # type: ignore[attr-defined]
        for module, group in itertools.groupby(found, lambda entry: entry.module):
            listed = list(group)
            if module.startswith(f"{room}."):
                title = module.removeprefix("embviz.")
                lines += [title, "-" * len(title), "", f".. automodule:: {module}", ""]
            lines += [", ".join(f":py:obj:`~{entry.name}`" for entry in listed), ""]
            for entry in listed:
                lines += [f".. {entry.directive}:: {entry.name}"]
                if entry.directive == "autoclass":
                    lines += ["   :members:"]
                elif entry.node.end_lineno != entry.node.lineno and entry.directive == "autodata":
                    lines += ["   :no-value:"]
                lines += [""]
        for notebook in self.env.found_docs:
            self.env.note_dependency(self.env.doc2path(notebook))
        box = nodes.section()
        box.document = self.state.document
        nested_parse_with_titles(self.state, StringList(lines, source=room), box)
        return box.children


class Rooms(SphinxDirective):
    """``.. rooms::``: the pages, each with what its rooms say of themselves."""

    def run(self) -> list[nodes.Node]:
        """A list of links."""
        lines = []
        for page, rooms in self.env.app.reference.pages.items():  # type: ignore[attr-defined]
            said = [inspect.getdoc(importlib.import_module(room)) or "" for room in rooms]
            about = " ".join(text.split("\n\n")[0].replace("\n", " ") for text in said)
            lines += [f"* :doc:`{page}`: {about}", ""]
        box = nodes.section()
        box.document = self.state.document
        self.state.nested_parse(StringList(lines, source="rooms"), 0, box)
        return box.children


def field_comments(found: type) -> dict[str, str]:
    """What the trailing comments of a dataclass or a named tuple say of its fields."""
    source = textwrap.dedent(inspect.getsource(found))
    said = {
        token.start[0]: token.string.lstrip("# ")
        for token in tokenize.generate_tokens(io.StringIO(source).readline)
        if token.type == tokenize.COMMENT
    }
    body = ast.parse(source).body[0].body  # type: ignore[attr-defined]
    return {
        node.target.id: plain(said.get(node.end_lineno or 0, ""))
        for node in body
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name)
    }


def plain(text: str) -> str:
    """A text whose bars, stars and underscores are what they look like, outside of `code`."""
    parts = re.split(r"(`[^`]*`)", text)
    parts[::2] = [re.sub(r"[|*]|(?<=\w)_(?!\w)", r"\\\g<0>", part) for part in parts[::2]]
    return re.sub(r"^(\s*[A-Za-z])\.", r"\1\\.", "".join(parts))  # V. is no fifth item of a list


def read_as_written(app: Sphinx, what: str, _name: str, _found: Any, _options: Any, lines: list[str]) -> None:
    """Our docstrings are no reStructuredText but for `code` and roles, and examples need no heading."""
    if what == "property" and lines:  # napoleon takes what stands before a colon for a type
        lines[:1] = lines[0].replace(": ", ":\n", 1).split("\n")
    if what == "data":  # of its type, which everybody knows
        lines.clear()
    for i, line in enumerate(lines):
        if not line.lstrip().startswith((">>>", "...")):
            name, colon, said = line.rpartition(" : ")  # napoleon takes care of names
            heads = lines[i + 1 : i + 2] == ["-" * len(said)]
            known = None if heads else app.reference.classes.get(said.strip())  # type: ignore[attr-defined]
            lines[i] = name + colon + (f":class:`~{known}`" if known else plain(said))
    first = next((i for i, line in enumerate(lines) if line.startswith(">>>")), 0)
    if first and not any(line.startswith("Example") for line in lines):
        lines[first:first] = ["Examples", "--------"]


def add_fields(_app: Sphinx, what: str, _name: str, found: Any, _options: Any, lines: list[str]) -> None:
    """Say of a class's fields what stands beside them, unless its docstring does."""
    if what != "class" or "Parameters" in lines or found.__module__.partition(".")[0] != "embviz":
        return
    comments = {name: said for name, said in field_comments(found).items() if not name.startswith("_")}
    if any(comments.values()):
        lines += ["", "Parameters", "----------"]
        for name, said in comments.items():
            lines += [f"{name} : {inspect.get_annotations(found).get(name, '')}", f"    {said}"]


def add_chapters(app: Sphinx, _what: str, name: str, _found: Any, _options: Any, lines: list[str]) -> None:
    """Name the chapters that use an entry."""
    chapters = app.reference.used_in(name)  # type: ignore[attr-defined]
    if chapters:
        links = ", ".join(f":doc:`/{chapter}`" for chapter in chapters)
        lines += ["", ".. rst-class:: used-in", "", f"   Used in {links}", ""]


def skip_aliases(_app: Sphinx, _what: str, _name: str, found: Any, skip: bool, _options: Any) -> bool | None:
    """Fields of named tuples stand among the parameters."""
    return True if (getattr(found, "__doc__", None) or "").startswith("Alias for field number") else None


def find_entry(app: Sphinx, env: Any, node: Any, content: Any) -> Any:
    """Lead a reference by the defining module's name to the entry."""
    names = app.reference.names  # type: ignore[attr-defined]
    said = node["reftarget"]
    name = names.get(said) or next((names[name] for name in names if name.endswith(f".{said}")), None)
    found = env.domains["py"].objects.get(name)
    if node["refdomain"] != "py" or found is None:
        return None
    return make_refnode(app.builder, node["refdoc"], found.docname, found.node_id, content, name)


def link_cells(app: Sphinx, page: str, _template: str, context: dict[str, Any], _doctree: Any) -> None:
    """Lead names in a chapter's cells to their entries."""
    reference, addresses = app.reference, {}  # type: ignore[attr-defined]
    for short, full in reference.names_in.get(page, {}).items():
        for said, name in reference.names.items():
            entry = app.env.domains["py"].objects.get(name)  # type: ignore[attr-defined]
            if entry and f"{said}.".startswith(f"{full}."):
                place = app.builder.get_relative_uri(page, entry.docname)
                addresses[short + said.removeprefix(full)] = f"{place}#{entry.node_id}"
    if addresses:
        context["body"] = linked(context["body"], addresses)


def without_libraries(app: Sphinx, config: Config) -> None:
    """Let autodoc read modules whose libraries are not installed: the reference needs none of them."""
    names = {re.split(r"[^\w.-]", line)[0] for line in importlib.metadata.requires("embviz") or []}
    modules = {MODULES.get(name, name.replace("-", "_")) for name in names} - {"embviz"}
    config.autodoc_mock_imports = sorted(name for name in modules if not installed(name))


def as_defined(_app: Sphinx, what: str, _name: str, found: Any, *said: Any) -> tuple[str, None] | None:
    """The parameters of a class whose base is not installed, from the class."""
    if what != "class" or said[1] != "(*args, **kwargs)" or "__init__" not in vars(found):
        return None
    _self, *parameters = inspect.signature(found.__init__).parameters.values()
    return str(inspect.Signature([one.replace(annotation=one.empty) for one in parameters])), None


def prepare(app: Sphinx) -> None:
    """Gather entries and uses before a page is read."""
    with mock(app.config.autodoc_mock_imports):
        app.reference = Reference(app)  # type: ignore[attr-defined]


def setup(app: Sphinx) -> dict[str, bool]:
    """Sphinx's entry."""
    app.setup_extension("sphinx.ext.autodoc")
    app.setup_extension(
        "sphinx.ext.napoleon"
    )  # of Sphinx itself; it takes sections of ours, numpydoc doesn't
    app.add_directive("room", Room)
    app.add_directive("rooms", Rooms)
    app.connect("config-inited", without_libraries)
    app.connect("builder-inited", prepare)
    app.connect("autodoc-process-signature", as_defined)
    app.connect("autodoc-process-docstring", read_as_written, priority=300)
    app.connect("autodoc-process-docstring", add_fields, priority=400)  # before napoleon
    app.connect("autodoc-process-docstring", add_chapters, priority=600)
    app.connect("autodoc-skip-member", skip_aliases)
    app.connect("missing-reference", find_entry)
    app.connect("html-page-context", link_cells)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
