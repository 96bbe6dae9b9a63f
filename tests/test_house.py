"""The house: imports point one way, the ground floors stay light, chapters compute in view."""

import ast
import functools
import json
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from importlinter.cli import lint_imports

from tests import budgets

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "embviz"

# Rooms that ask for an extra of pyproject.toml; the others are content with its dependencies.
EXTRA_OF = {
    "models": "torch",
    "runs": "torch",
    "training": "torch",
    "files": "torch",
    "inspection": "torch",
    "trajectories": "trajectories",
    "view": "view",
}
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
MODULES = {"scikit-learn": "sklearn", "umap-learn": "umap", "vl-convert-python": "vl_convert"}


@functools.cache
def tree_of(path):
    """Syntax of a file, read once for all tests."""
    return ast.parse(path.read_text(encoding="utf-8"))


@functools.cache
def nodes_of(path):
    """All nodes of a file's syntax."""
    return list(ast.walk(tree_of(path)))


def module_of(path):
    return path.relative_to(PACKAGE).parts[0].removesuffix(".py")


def imports_at_once(path):
    """Roots of the modules that a file imports when it is imported itself, and not for type checkers."""
    todo = [tree_of(path)]
    while todo:
        node = todo.pop()
        if isinstance(node, ast.Import | ast.ImportFrom):
            names = [node.module] if isinstance(node, ast.ImportFrom) else [name.name for name in node.names]
            yield from (name.split(".")[0] for name in names)
        elif isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            todo += node.orelse
        elif not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            todo += ast.iter_child_nodes(node)


def libraries(extra=None):
    """Modules of the packages that an installation brings, by the names they are imported by."""
    found = set()
    todo = [*PROJECT["dependencies"], *([f"embviz[{extra}]"] if extra else [])]
    while todo:
        name, _, inner = re.match(r"([\w-]+)(\[(.*)\])?", todo.pop()).groups(default="")
        if name == "embviz":
            todo += [need for one in inner.split(",") for need in PROJECT["optional-dependencies"][one]]
        else:
            found.add(MODULES.get(name, name.replace("-", "_")))
    return found


FILES = sorted(path for path in PACKAGE.rglob("*.py") if path != PACKAGE / "__init__.py")
BOOK_FILES = sorted(path for path in (ROOT / "book").rglob("*.py") if "_build" not in path.parts)


def test_imports_keep_the_contracts_of_pyproject(capsys):
    status = lint_imports(str(ROOT / "pyproject.toml"), no_cache=True, no_logo=True)
    assert status == 0, capsys.readouterr().out


def test_a_file_imports_no_library_that_its_room_does_not_ask_for():
    for path in FILES:
        extra = EXTRA_OF.get(module_of(path))
        own = {"embviz", "nbconvert"} if path.name == "converting.py" else {"embviz"}  # imported by nbconvert
        found = set(imports_at_once(path)) - set(sys.stdlib_module_names) - own
        assert found <= libraries(extra), path


def test_a_message_names_an_extra_that_brings_what_is_missing():
    asked = [
        [argument.value for argument in node.args]
        for path in FILES
        for node in nodes_of(path)
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "require"
    ]
    assert {extra for extra, *_ in asked} >= set(EXTRA_OF.values())
    for extra, *modules in asked:
        assert modules
        assert set(modules) <= libraries(extra) - libraries(), extra


def test_contributing_lists_every_room():
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    mapped = set(re.findall(r"`([a-z_]+)(?:\.py|/)`", text))
    assert {module_of(path) for path in FILES} <= mapped


def test_importing_embviz_loads_nothing_heavy():
    code = "import sys, embviz; print(*sorted({'torch', 'numpy', 'pandas', 'altair'} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == ""


FIRST_EXPLORER = """
import sys
import pandas as pd
from embviz.view import Explorer, plot_curves
measure = lambda k: pd.DataFrame({"t": [0, 1], "y": [0, k]})
Explorer(measure, {"k": range(4)}, lambda data: plot_curves(data, "t", "y"))._repr_mimebundle_()
heavy = "torch sklearn numba matplotlib transformers lightning umap pymde hdbscan scipy.stats"
print(*[name for name in heavy.split() if name in sys.modules])
"""


def test_a_first_explorer_is_drawn_without_heavy_libraries():
    done = subprocess.run([sys.executable, "-c", FIRST_EXPLORER], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == ""


def test_the_conda_file_installs_pyproject_and_names_nothing_else():
    lines = [line.strip(" -") for line in (ROOT / "environment.yml").read_text().splitlines()]
    after = lines[lines.index("dependencies:") + 1 :]
    assert [re.split("[=<>]", line)[0] for line in after[:3]] == ["python", "pip", "pip:"]
    assert after[3:] == ["constraint constraints.txt", "editable .[all]"]


def test_every_dependency_is_pinned_by_the_constraints():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = [name for group in project["optional-dependencies"].values() for name in group]
    wanted = {
        re.split(r"[\[=<>]", name)[0].lower().replace("_", "-") for name in project["dependencies"] + extras
    }
    pinned = {
        line.split("==")[0].lower().replace("_", "-")
        for line in (ROOT / "constraints.txt").read_text().splitlines()
        if "==" in line
    }
    assert wanted - {"embviz"} <= pinned


def test_what_a_process_prints_is_read_as_utf8_whatever_the_locale():  # ruff sees to files
    for path in {*FILES, *BOOK_FILES}:
        assert not re.search(r"\btext=True", path.read_text(encoding="utf-8")), path


def test_no_function_body_is_longer_than_fifty_lines():
    for path in FILES + BOOK_FILES:
        for node in nodes_of(path):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                body = node.body[1:] if ast.get_docstring(node) else node.body
                if body:
                    assert body[-1].end_lineno - body[0].lineno < 50, f"{path}: {node.name}"


TOC = re.findall(r"(?:file|root): (\S+)", (ROOT / "book" / "_toc.yml").read_text(encoding="utf-8"))
CHAPTERS = [path for name in TOC if (path := ROOT / "book" / f"{name}.ipynb").is_file()]
BEHIND = {"ledger", "view", "storage"}  # what a page shows and stores with; the other rooms are instruments


def code_cells(path):
    """Source of each code cell of a notebook, and whether it is open to the reader."""
    for cell in json.loads(path.read_text())["cells"]:
        if cell["cell_type"] == "code":
            tags = cell["metadata"].get("tags", [])
            yield "".join(cell["source"]), not any(tag.startswith(("hide", "remove")) for tag in tags)


def instruments(source, pictures):
    """Names that a cell imports to compute with: numpy, torch, instruments of the package or of its paper."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            yield from (name.asname or name.name for name in node.names if name.name in ("numpy", "torch"))
        elif isinstance(node, ast.ImportFrom):
            house, *rooms = (node.module or "").split(".")
            behind = {"embviz": BEHIND, "book": {"experiments", "view", *pictures}}.get(house)
            if behind and not {*rooms, *(name.name for name in node.names)} & behind:
                yield from (name.asname or name.name for name in node.names)


def faults_of(source, is_open):
    """What is too long in a cell."""
    lines = source.splitlines()
    if len(lines) > 20:
        yield f"{len(lines)} lines"
    if is_open and (width := max(map(len, lines), default=0)) > 88:
        yield f"{width} columns"
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.ClassDef):
            yield f"a class belongs into a module: {node.name}"
        if isinstance(node, ast.FunctionDef) and node.end_lineno - node.lineno >= 12:
            yield f"a long function belongs into a module: {node.name}"


@pytest.mark.parametrize("path", CHAPTERS, ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_a_chapter_computes_in_view_with_instruments_in_short_cells(path):
    cells = list(code_cells(path))
    assert [(source[:60], fault) for source, is_open in cells for fault in faults_of(source, is_open)] == []
    if "## Exercises" in path.read_text(encoding="utf-8"):  # no page about the book
        pictures = {page.stem for page in path.parent.glob("*.ipynb")}
        names = {name for source, _ in cells for name in instruments(source, pictures)}
        used = [source for source, is_open in cells if is_open and names & set(re.findall(r"\w+", source))]
        assert used, "no open cell computes"


def test_stored_results_stay_small():
    results = ROOT / "data" / "results"
    sizes = {path: path.stat().st_size for path in results.rglob("*") if path.is_file()}
    released = sum(size for path, size in sizes.items() if "released" in path.relative_to(results).parts)
    assert released < 8e6  # the part on released models has a limit for itself
    assert sum(sizes.values()) - released < 60e6


def test_no_folder_outgrows_its_budget_and_what_shrinks_lowers_it():
    assert budgets.faults() == []
