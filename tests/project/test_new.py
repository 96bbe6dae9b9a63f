import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from embviz import cli
from embviz.project import find_project, new_project

ROOT = Path(__file__).resolve().parent.parent.parent


def files_of(folder):
    return {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}


def test_a_new_project_has_a_claim_an_experiment_a_chapter_and_a_test(outside, capsys):
    assert cli.main(["new", "red_tulips"]) == 0
    assert "cd red_tulips && embviz run red_tulips" in capsys.readouterr().out
    assert files_of(outside / "red_tulips") == {
        "README.md",
        "pyproject.toml",
        "book/__init__.py",
        "book/red_tulips/__init__.py",
        "book/red_tulips/experiments.py",
        "book/red_tulips/neighbours.ipynb",
        "data/claims/red_tulips.toml",
        "tests/test_red_tulips.py",
    }
    assert find_project(outside / "red_tulips" / "book" / "red_tulips").root == outside / "red_tulips"
    for file in (outside / "red_tulips").rglob("*.*"):
        assert "my_paper" not in file.read_text()
    assert 'title = "Red tulips"' in (outside / "red_tulips/data/claims/red_tulips.toml").read_text()


def test_its_code_is_in_the_projects_own_style(outside):
    new_project("tulips")
    for command in (["check", "--select", "E,F,I,B,UP,N,PT,SIM"], ["format", "--check"]):
        ruff = [sys.executable, "-m", "ruff", *command, "--isolated", "--line-length", "110", "."]
        subprocess.run(ruff, cwd=outside / "tulips", check=True)


def test_a_folder_with_other_files_is_used_and_one_of_these_files_is_kept(outside):
    (outside / "there").mkdir()
    (outside / "there" / "LICENSE").write_text("mine")
    new_project("tulips", "there")
    (outside / "there" / "README.md").write_text("altered")
    (outside / "there" / "pyproject.toml").unlink()
    with pytest.raises(ValueError, match="lies in the project"):
        new_project("tulips", "there")
    (outside / "other").mkdir()
    (outside / "other" / "README.md").write_text("mine")
    with pytest.raises(FileExistsError, match=r"README.md is there already: nothing was written"):
        new_project("tulips", "other")
    assert files_of(outside / "other") == {"README.md"}


NO_PACKAGE = "can't name a paper's package: use small letters"


@pytest.mark.parametrize(
    ("name", "message"),
    [(name, NO_PACKAGE) for name in ("my-paper", "My_paper", "2nd", "class", "", "../up", "ärger")]
    + [(name, f"'{name}' is taken, by a module") for name in ("embviz", "numpy", "sys", "book", "data")],
)
def test_a_name_that_no_package_can_have_or_that_is_taken_is_refused(outside, name, message):
    with pytest.raises(ValueError, match=message):
        new_project(name)
    assert not list(outside.iterdir())


# --- the wheel --------------------------------------------------------------------------------------


def run_in(folder, *command, ok=0):
    """Run a command with a clean environment of Python's; its standard output."""
    named = {"PYTHONPATH", "EMBVIZ_PROJECT", "EMBVIZ_RESULTS_DIR", "VIRTUAL_ENV"}
    environment = {name: value for name, value in os.environ.items() if name not in named}
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True)
    assert done.returncode == ok, done.stdout + done.stderr
    return done.stdout + done.stderr


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    """The wheel, built from the checkout with no network."""
    folder = tmp_path_factory.mktemp("wheel")
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "wheel", "--quiet", "--no-index"]
    run_in(ROOT, *pip, "--no-deps", "--no-build-isolation", "--wheel-dir", folder, ".")
    (file,) = folder.glob("embviz-*.whl")
    return file


@pytest.fixture(scope="module")
def installed(wheel, tmp_path_factory):
    """Python of an environment with the wheel: the present libraries but PyTorch, and no checkout."""
    folder = tmp_path_factory.mktemp("environment")
    run_in(folder, sys.executable, "-m", "venv", "--without-pip", folder)
    python = folder / "bin" / "python"
    (site,) = folder.glob("lib/python*/site-packages")
    for library in (one for path in sys.path if path.endswith("-packages") for one in Path(path).iterdir()):
        if not library.name.startswith(("torch", "embviz", "_editable", "__")) and library.suffix != ".pth":
            (site / library.name).symlink_to(library)
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--python", python]
    run_in(folder, *pip, "install", "--quiet", "--no-index", "--no-deps", "--ignore-installed", wheel)
    return python


@pytest.mark.slow
def test_the_wheel_has_the_instruments_alone(wheel):
    import zipfile

    stem = wheel.name.split("-py3")[0]
    names = zipfile.ZipFile(wheel).namelist()
    assert {name.split("/")[0] for name in names} == {"embviz", f"{stem}.data", f"{stem}.dist-info"}
    extension = f"{stem}.data/data/share/jupyter/labextensions/embviz"
    assert {f"{extension}/package.json", f"{extension}/static/remoteEntry.js"} <= set(names)
    assert f"{stem}.data/data/etc/jupyter/jupyter_nbconvert_config.json" in names
    assert "embviz/data/registry.toml" in names
    assert not [name for name in names if name.startswith("embviz/data/") and "registry" not in name]
    ours = {str(path.relative_to(ROOT)) for path in (ROOT / "embviz").rglob("*.py")}
    assert {name for name in names if name.endswith(".py")} == ours
    template = {name for name in names if "/template/" in name}
    assert len(template) == len(files_of(ROOT / "embviz" / "project" / "template"))


@pytest.mark.slow
def test_altair_finds_the_renderer_by_its_name(installed, outside):
    enable = "import altair; altair.renderers.enable('embviz'); print(altair.renderers.active)"
    assert run_in(outside, installed, "-c", enable).strip() == "embviz"


@pytest.mark.slow
def test_the_wheel_without_torch_and_the_book_draws_a_spectrum_and_a_map(installed, outside):
    rng = np.random.default_rng(0)
    words = [f"w{i}" for i in range(60)]
    (outside / "text.txt").write_text(" ".join(rng.choice(words, 5_000)))
    rows = [" ".join([word, *map(str, rng.normal(size=8).round(3))]) for word in words]
    (outside / "vectors.txt").write_text("\n".join(["60 8", *rows]))
    embviz = installed.with_name("embviz")
    assert "No module named 'torch'" in run_in(outside, installed, "-c", "import torch", ok=1)
    assert "spectrum" in run_in(outside, embviz, "--help")
    run_in(outside, embviz, "spectrum", "text.txt", "--html", "spectrum.html")
    run_in(outside, embviz, "map", "vectors.txt", "--html", "map.html")
    assert "eigenvalues" in (outside / "spectrum.html").read_text(encoding="utf-8")
    assert "w59" in (outside / "map.html").read_text(encoding="utf-8")


@pytest.mark.slow
def test_a_stranger_with_the_wheel_begins_measures_and_judges_a_project(installed, outside):
    embviz = installed.with_name("embviz")
    where = run_in(outside, installed, "-c", "import embviz; print(embviz.__file__)")
    assert Path(where.strip()).is_relative_to(installed.parent.parent)
    assert "No module named 'book'" in run_in(outside, installed, "-c", "import book", ok=1)
    assert "no project at" in run_in(outside, embviz, "run", "all", ok=1)
    assert "text8" in run_in(outside, embviz, "data", "list")
    run_in(outside, embviz, "new", "tulips")
    home = outside / "tulips"
    assert "4 of 4 cells" in run_in(home, embviz, "run", "tulips", "--jobs", "1")
    (entry,) = json.loads(run_in(home / "book" / "tulips", embviz, "ledger", "--json"))
    assert entry["verdict"] == "reproduced"
    assert entry["n_seeds"] == 4
    assert run_in(home, embviz, "ledger", "tulips.neighbours").startswith("tulips.neighbours: reproduced")
    assert not list(installed.parent.parent.rglob("*.parquet"))


@pytest.mark.slow
def test_the_tests_and_the_chapter_of_a_strangers_project_pass(installed, outside):
    run_in(outside, installed.with_name("embviz"), "new", "tulips")
    assert "3 passed" in run_in(outside / "tulips", installed, "-m", "pytest", "-q", "-p", "no:cacheprovider")
    chapter = outside / "tulips" / "book" / "tulips" / "neighbours.ipynb"
    code = (
        "import nbformat, sys\n"
        "from nbclient import NotebookClient\n"
        "notebook = nbformat.read(sys.argv[1], 4)\n"
        "NotebookClient(notebook, resources={'metadata': {'path': 'tulips/book/tulips'}}).execute()\n"
        "outputs = [cell.outputs for cell in notebook.cells if cell.cell_type == 'code']\n"
        "print(outputs[0][0].text, *outputs[2][0].data)\n"
    )
    shown = run_in(outside, installed, "-c", code, chapter)
    assert "shuffled: " in shown
    assert "application/vnd.vegalite" in shown
