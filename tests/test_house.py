"""The house: imports point one way, the ground floors stay light, the doors agree with each other."""

import ast
import functools
import json
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from tests.conftest import VIEW_LIBRARIES

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "embviz"

# Top to bottom as in CONTRIBUTING's table of rooms: a room or a file imports only from lines above, or from
# its own.
FLOORS = [
    "project storage compiling memory imports pausing arrays labels",
    "metrics neighbors projections kernels",
    "corpora",
    "words",
    "models",
    "runs",
    "training",
    "inspection",
    "trajectories",
    "ledger",
    "view",
    "cli",
]
FLOOR_OF = {name: floor for floor, names in enumerate(FLOORS) for name in names.split()}
LIGHT = FLOOR_OF["ledger"]
# Rooms that ask for an extra of pyproject.toml; the others are content with its dependencies.
EXTRA_OF = {
    "models": "torch",
    "runs": "torch",
    "training": "torch",
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


def imports(path):
    """Modules that a file imports, wherever in it: embviz's by their first name, others by their root."""
    for node in nodes_of(path):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module == "embviz":
            names = [f"embviz.{alias.name}" for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            names = [node.module]
        else:
            continue
        yield from names


def import_statements(path, *, inside_functions):
    """Imports of a file that can be executed: all but those for type checkers, with or without functions'."""
    todo = [tree_of(path)]
    while todo:
        node = todo.pop()
        if isinstance(node, ast.Import | ast.ImportFrom):
            yield node
        elif isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            todo += node.orelse
        elif inside_functions or not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            todo += ast.iter_child_nodes(node)


def module_imports(path):
    """Modules, in full, that a file imports, inside its functions too."""
    for node in import_statements(path, inside_functions=True):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        else:
            names = {f"{node.module}.{alias.name}" for alias in node.names}
            yield from {name for name in names if (ROOT / (name.replace(".", "/") + ".py")).is_file()} or {
                node.module
            }


def imports_at_once(path):
    """Roots of the modules that a file imports when it is imported, not when a function is called."""
    for node in import_statements(path, inside_functions=False):
        names = [node.module] if isinstance(node, ast.ImportFrom) else [alias.name for alias in node.names]
        yield from (name.split(".")[0] for name in names)


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


PAPERS = sorted({path.parent.name for path in (ROOT / "book").glob("*/__init__.py")} - {"view"})
BOOK_FILES = sorted(path for path in (ROOT / "book").rglob("*.py") if "_build" not in path.parts)


def test_every_file_has_a_floor():
    assert {module_of(path) for path in FILES} == set(FLOOR_OF)


def test_imports_point_up_the_map_only_and_the_package_knows_no_book():
    for path in FILES:
        for name in imports(path):
            root, *rooms = name.split(".")
            assert root != "book", f"{path} imports {name}"
            if root == "embviz" and rooms and rooms[0] in FLOOR_OF:
                below = FLOOR_OF[rooms[0]] > FLOOR_OF[module_of(path)]
                assert not below, f"{path} imports {name}, which lies below it"


def test_a_paper_imports_no_other_papers_modules():
    for path in BOOK_FILES:
        own = path.relative_to(ROOT / "book").parts[0]
        others = {name.split(".")[1] for name in imports(path) if name.startswith("book.")} & set(PAPERS)
        assert others <= {own}, path


def test_no_module_imports_itself_by_a_detour():
    graph = {}
    for path in FILES:
        name = ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")
        graph[name] = {found for found in module_imports(path) if found.startswith("embviz.")} - {name}
    done = set()
    while ready := [
        name for name, wanted in graph.items() if name not in done and wanted & set(graph) <= done
    ]:
        done |= set(ready)
    assert not set(graph) - done


def test_nothing_up_to_the_ledger_needs_charts_or_widgets():
    for path in FILES:
        if FLOOR_OF[module_of(path)] <= LIGHT:
            assert not {name.split(".")[0] for name in imports(path)} & VIEW_LIBRARIES, path


def test_a_file_imports_no_library_that_its_room_does_not_ask_for():
    for path in FILES:
        extra = "torch" if path.name == "skipgram_torch.py" else EXTRA_OF.get(module_of(path))
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
    assert set(FLOOR_OF) <= mapped


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


def test_every_lazy_name_can_be_imported():
    import embviz

    for name in embviz.__all__:
        assert getattr(embviz, name) is not None


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


def reads_or_writes_text(call):
    """Whether a call opens a file, or a process, as text (binary modes say so in a constant)."""
    name = call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")
    given = {keyword.arg for keyword in call.keywords}
    if name in ("read_text", "write_text"):
        return True
    if name in ("run", "Popen", "check_output"):
        return bool({"text", "universal_newlines"} & given)
    if name != "open" or not (isinstance(call.func, ast.Name) or ast.unparse(call.func) == "io.open"):
        return False
    mode = [argument.value for argument in call.args[1:2] if isinstance(argument, ast.Constant)]
    mode += [keyword.value.value for keyword in call.keywords if keyword.arg == "mode"]
    return "b" not in "".join(mode)


def test_text_is_read_and_written_as_utf8_whatever_the_locale():
    for path in {*FILES, *BOOK_FILES}:
        for node in nodes_of(path):
            if isinstance(node, ast.Call) and reads_or_writes_text(node):
                said = [ast.unparse(word.value) for word in node.keywords if word.arg == "encoding"]
                assert said in (["'utf-8'"], ["encoding"]), f"{path}:{node.lineno} says no encoding"


def test_functions_are_compiled_by_our_own_decorator():
    for path in FILES + BOOK_FILES:
        from_numba = {
            alias.name
            for node in nodes_of(path)
            if isinstance(node, ast.ImportFrom) and node.module == "numba"
            for alias in node.names
        }
        assert not from_numba & {"njit", "jit", "vectorize", "guvectorize"}, (
            f"{path}: take njit from embviz.compiling"
        )


def test_no_function_body_is_longer_than_fifty_lines():
    for path in FILES + BOOK_FILES:
        for node in nodes_of(path):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                body = node.body[1:] if ast.get_docstring(node) else node.body
                if body:
                    assert body[-1].end_lineno - body[0].lineno < 50, f"{path}: {node.name}"


CHAPTERS = sorted(
    path
    for path in (ROOT / "book").rglob("*.ipynb")
    if not {"_build", ".ipynb_checkpoints"} & set(path.parts)
)
# Chapters that compute in view: the list grows as chapters are rewritten, until it has all of them.
IN_VIEW = [
    "book/forms.ipynb",
    "book/geometry/grokking.ipynb",
    "book/geometry/hammer.ipynb",
    "book/geometry/no_query.ipynb",
    "book/geometry/no_query_bpe.ipynb",
    "book/geometry/no_query_language.ipynb",
    "book/geometry/one_shape.ipynb",
    "book/geometry/phases.ipynb",
    "book/geometry/pipeline.ipynb",
    "book/geometry/steering.ipynb",
    "book/geometry/steering_language.ipynb",
    "book/geometry/trajectories.ipynb",
    "book/geometry/watching_weights.ipynb",
    "book/geometry/which_modes.ipynb",
    "book/geometry/your_run.ipynb",
    "book/introduction.ipynb",
    "book/kernel/algebra.ipynb",
    "book/kernel/clamp.ipynb",
    "book/kernel/extracting.ipynb",
    "book/kernel/formulas.ipynb",
    "book/kernel/head_start.ipynb",
    "book/kernel/orthogonal.ipynb",
    "book/kernel/the_text.ipynb",
    "book/kernel/verdict.ipynb",
    "book/reflections/counting_words.ipynb",
    "book/reflections/flipped_axes.ipynb",
    "book/reflections/half_the_dimensions.ipynb",
    "book/reflections/language_models.ipynb",
    "book/reflections/spectrum.ipynb",
    "book/reflections/theorem.ipynb",
    "book/reflections/tying_by_signs.ipynb",
    "book/tying/architectures.ipynb",
    "book/released/counts.ipynb",
    "book/released/isotropy.ipynb",
    "book/released/numbers.ipynb",
    "book/released/queries.ipynb",
    "book/released/shrinking.ipynb",
    "book/released/twins.ipynb",
    "book/released/vocabulary.ipynb",
    "book/resizing/carrying.ipynb",
    "book/resizing/growing.ipynb",
    "book/resizing/projections.ipynb",
    "book/resizing/quantization.ipynb",
    "book/resizing/recovery.ipynb",
    "book/resizing/verdict.ipynb",
    "book/tying/distributional_hypothesis.ipynb",
    "book/tying/exor.ipynb",
    "book/tying/exor_accuracy.ipynb",
    "book/tying/natural_text.ipynb",
    "book/tying/theorems.ipynb",
    "book/yours/yours.ipynb",
    "embviz/project/template/book/my_paper/neighbours.ipynb",
]
BEHIND = {"ledger", "view", "storage"}  # what a page shows and stores with; the other rooms are instruments


def code_cells(path):
    """Source of each code cell of a notebook, and whether it is open to the reader."""
    for cell in json.loads(path.read_text())["cells"]:
        if cell["cell_type"] == "code":
            tags = cell["metadata"].get("tags", [])
            yield "".join(cell["source"]), not any(tag.startswith("hide") for tag in tags)


def instruments(source, pictures):
    """Names that a cell imports from the package's instruments, or from those of its paper."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.ImportFrom):
            house, *rooms = (node.module or "").split(".")
            behind = {"embviz": BEHIND, "book": {"experiments", *pictures}}.get(house)
            rooms = rooms[house == "book" :][:1] or [alias.name for alias in node.names]
            if behind and not set(rooms) & behind:
                yield from (alias.asname or alias.name for alias in node.names)


@pytest.mark.parametrize("path", CHAPTERS, ids=lambda path: str(path.relative_to(ROOT / "book")))
def test_cells_are_short_and_so_are_the_functions_in_them(path):
    for source, _ in code_cells(path):
        assert len(source.splitlines()) <= 20, source
        for node in ast.walk(ast.parse(source)):
            assert not isinstance(node, ast.ClassDef), f"a class belongs into a module: {node.name}"
            if isinstance(node, ast.FunctionDef):
                assert node.end_lineno - node.lineno < 12, (
                    f"a long function belongs into a module: {node.name}"
                )


@pytest.mark.parametrize("chapter", IN_VIEW)
def test_a_chapter_computes_in_view_with_instruments_in_lines_that_fit(chapter):
    cells = list(code_cells(ROOT / chapter))
    pictures = {path.stem for path in (ROOT / chapter).parent.glob("*.ipynb")}
    names = {name for source, _ in cells for name in instruments(source, pictures)}
    used = [source for source, is_open in cells if is_open and names & set(re.findall(r"\w+", source))]
    assert used, "no open cell calls an instrument of the package"
    for source, is_open in cells:
        if is_open:
            assert max(map(len, source.splitlines()), default=0) <= 88, source


def test_stored_results_stay_small():
    results = ROOT / "data" / "results"
    sizes = {path: path.stat().st_size for path in results.rglob("*") if path.is_file()}
    released = sum(size for path, size in sizes.items() if "released" in path.relative_to(results).parts)
    assert released < 8e6  # the part on released models has a limit for itself
    assert sum(sizes.values()) - released < 60e6
