import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from embviz import cli, imports, storage
from embviz.ledger import claims, studies
from embviz.project import NoProjectError, find_project, import_from, working_in

CLAIM = """
paper = "tulips"
experiments = "tulip_experiments"

[[claim]]
id = "tulips.red"
title = "Tulips are red"
where = "section 1"
chapter = "red"
says = "They are."
setting = "a field"
control = "roses"
measurements = [{ name = "share", label = "share of red ones", accept = [0.5, 1.0] }]
"""

SINGS = CLAIM.replace("says", "sings")
EXPERIMENTS = """
import dataclasses

import pandas as pd

from embviz.ledger import Study, exact, experiment, table_of


@dataclasses.dataclass(frozen=True)
class Field:
    n_red: int


@experiment("tulips.fields")
def field(config: Field) -> pd.DataFrame:
    return pd.DataFrame({"share": [config.n_red / 4]})


def cells(preset):
    return [field.cell(Field(n)) for n in (2, 3, 4)] if preset == "quick" else []


STUDIES = {"tulips.red": Study(cells, lambda preset: {"share": exact(0.75)})}
"""


def make_project(root, *, claim=CLAIM, experiments=EXPERIMENTS):
    (root / "data" / "claims").mkdir(parents=True)
    if claim:
        (root / "data" / "claims" / "tulips.toml").write_text(claim)
    if experiments:
        (root / "tulip_experiments.py").write_text(experiments)
    return root


# --- where it is ------------------------------------------------------------------------------------


def test_the_project_is_the_nearest_folder_upwards_with_claims(outside):
    outer = make_project(outside / "outer")
    inner = make_project(outer / "deep" / "inner")
    deepest = inner / "book" / "tulips"
    deepest.mkdir(parents=True)
    assert find_project(deepest).root == inner
    assert find_project(deepest).enclosing == outer
    assert find_project(outer / "deep").root == outer
    assert find_project(outer).enclosing is None


def test_a_named_folder_comes_before_the_nearest(outside, monkeypatch):
    near, far = make_project(outside / "near"), make_project(outside / "far")
    monkeypatch.chdir(near)
    assert find_project().root == near
    with working_in("../far"):
        assert find_project().root == far
        assert storage.claims_folder() == far / "data" / "claims"
        assert storage.results_folder() == far / "data" / "results"
    assert find_project().root == near
    monkeypatch.setenv("EMBVIZ_PROJECT", str(far))
    assert find_project().root == far


def test_without_a_project_one_is_told_how_to_get_one(outside, monkeypatch):
    for need in (find_project, storage.claims_folder, storage.results_folder, claims.load_claims):
        with pytest.raises(NoProjectError, match=r"no project at .*embviz new my_paper"):
            need()
    with pytest.raises(NoProjectError, match=r"roses is not a project: it has no folder data.claims"):
        working_in("roses").__enter__()
    assert "EMBVIZ_PROJECT" not in os.environ


# --- claims and their modules -----------------------------------------------------------------------


def test_a_claim_finds_its_study_in_the_project(outside, monkeypatch):
    monkeypatch.chdir(make_project(outside / "p"))
    study = studies.find_study("tulips.red")
    assert [cell.config.n_red for cell in study.preset_cells("quick")] == [2, 3, 4]


def test_a_claim_may_name_another_module_than_its_file_does(outside, monkeypatch):
    named = CLAIM.replace('chapter = "red"', 'chapter = "red"\nexperiments = "tulip_others"')
    root = make_project(outside / "p", claim=named)
    (root / "tulip_others.py").write_text("STUDIES = {'tulips.red': 'this one'}")
    monkeypatch.chdir(root)
    assert studies.find_study("tulips.red") == "this one"


@pytest.mark.parametrize(
    ("claim", "experiments", "error", "says"),
    [
        (None, None, ValueError, r"no claims in .*data.claims: write one"),
        (SINGS, None, ValueError, "tulips.red, says: Field required; there is no field 'sings'"),
        (CLAIM.replace('"tulips"', '"roses"'), None, ValueError, "tulips.red of paper 'roses'"),
        (CLAIM, None, ImportError, "tulip_experiments can't be imported in the project .*No module named"),
        (CLAIM, "import tulip_bulbs", ImportError, "project .*: No module named 'tulip_bulbs'"),
        (CLAIM, "x = 1", ValueError, "tulip_experiments.py has no STUDIES, a dictionary"),
        (CLAIM, "STUDIES = {}", ValueError, "no study of 'tulips.red': it is empty"),
        (CLAIM, "STUDIES = {'a.b': 1}", ValueError, "no study of 'tulips.red': there are a.b"),
    ],
)
def test_what_is_amiss_in_a_project_is_said(outside, monkeypatch, claim, experiments, error, says):
    monkeypatch.chdir(make_project(outside / "p", claim=claim, experiments=experiments))
    with pytest.raises(error, match=says):
        studies.find_study("tulips.red")


def test_a_module_of_the_same_name_from_elsewhere_is_refused(outside):
    first, second = make_project(outside / "first"), make_project(outside / "second")
    import_from(first, "tulip_experiments")
    with pytest.raises(ImportError, match=r"another one is loaded, .*first.tulip_experiments.py"):
        import_from(second, "tulip_experiments")


def test_a_project_of_another_user_is_refused_unless_it_is_named(outside, monkeypatch):
    project = make_project(outside / "p")
    below = project / "a" / "b"
    below.mkdir(parents=True)
    owner = os.getuid()
    monkeypatch.setattr(os, "getuid", lambda: owner + 1)
    with pytest.raises(
        NoProjectError, match=r"belongs to another user, and its modules run as code.*--project"
    ):
        find_project(below)
    with working_in(project):
        assert find_project().root == project


def test_no_file_of_a_project_stands_for_a_module_that_something_else_imports(outside):
    project = make_project(outside / "p")
    import_from(project, "tulip_experiments")
    assert sys.path[0] != str(project)
    assert sys.path[-1] == str(project)


def test_an_installed_module_may_measure_a_claim(outside):
    assert import_from(outside, "embviz.metrics").__name__ == "embviz.metrics"


# --- results ----------------------------------------------------------------------------------------


def test_running_a_project_from_a_folder_in_it_stores_its_results_there(outside, monkeypatch, capsys):
    root = make_project(outside / "p")
    (root / "notes").mkdir()
    monkeypatch.chdir(root / "notes")
    assert cli.main(["run", "tulips", "--jobs", "1"]) == 0
    assert "3 of 3 cells" in capsys.readouterr().out
    assert len(list((root / "data" / "results" / "tulips" / "fields").glob("*.parquet"))) == 3


@pytest.mark.slow
def test_a_worker_that_served_before_finds_a_project_that_came_later(outside, monkeypatch):
    code = """
import os, sys, joblib
from embviz.ledger import cells, find_study
joblib.Parallel(n_jobs=2)(joblib.delayed(abs)(n) for n in range(4))
os.chdir("p")
assert len(cells.run(find_study("tulips.red").preset_cells("quick"), n_jobs=2, progress=False)) == 3
"""
    make_project(outside / "p")
    subprocess.run([sys.executable, "-c", code], check=True)


def test_a_results_folder_that_cannot_be_written_is_found_before_a_cell_is_computed(
    outside, monkeypatch, capsys
):
    root = make_project(
        outside / "p", experiments=EXPERIMENTS.replace("    return pd", "    1 / 0\n    return pd")
    )
    monkeypatch.chdir(root)
    monkeypatch.setenv("EMBVIZ_RESULTS_DIR", str(root / "tulip_experiments.py" / "results"))
    assert cli.main(["run", "tulips", "--jobs", "1"]) == 1
    assert "nothing can be written to" in capsys.readouterr().err


# --- the command line -------------------------------------------------------------------------------


def test_the_command_line_takes_a_project_and_forgets_it_afterwards(outside, capsys):
    make_project(outside / "p")
    for command in (["run", "tulips.red"], ["ledger"]):
        assert cli.main(command) == 1
        assert "no project at" in capsys.readouterr().err
    assert cli.main(["run", "tulips.red", "--dry-run", "--project", "p"]) == 0
    assert "tulips.red: 3 of 3 cells" in capsys.readouterr().out
    assert "EMBVIZ_PROJECT" not in os.environ


def test_of_two_nested_projects_the_inner_one_is_worked_on_and_said(outside, monkeypatch, capsys):
    outer = make_project(outside / "outer")
    monkeypatch.chdir(make_project(outer / "inner"))
    assert cli.main(["run", "tulips", "--dry-run"]) == 0
    assert f"the project is {outer / 'inner'}, inside of another, {outer}" in capsys.readouterr().err
    assert cli.main(["run", "tulips", "--dry-run", "--project", "."]) == 0
    assert capsys.readouterr().err == ""


@pytest.fixture
def lab(outside, monkeypatch):
    """A project with two chapters, and what `embviz lab` starts JupyterLab with: commands, environments."""
    started = []
    monkeypatch.setattr(os, "execve", lambda program, *rest: started.append(rest) or 0)
    monkeypatch.setattr(Path, "home", lambda: outside / "home")
    chapters = make_project(outside / "p") / "book" / "flowers"
    chapters.mkdir(parents=True)
    for name in ("red", "blue"):
        (chapters / f"{name}.ipynb").write_text(f"{name}, first edition", encoding="utf-8")
    return started, chapters, outside / "home" / "embviz" / "p"


def test_lab_opens_copies_of_the_chapters_and_takes_jupyterlabs_options(lab, outside, capsys):
    started, chapters, copies = lab
    assert cli.main(["lab", "--project", "p", "--no-browser", "--port", "9999"]) == 0
    command, environment = started[0]
    assert command[3] == str(copies)
    assert command[-3:] == ["--no-browser", "--port", "9999"]
    assert environment["EMBVIZ_PROJECT"] == str((outside / "p").resolve())
    assert (copies / "flowers" / "red.ipynb").read_text(encoding="utf-8") == "red, first edition"
    assert f"chapters: {copies}, 2 copied now" in capsys.readouterr().out
    cli.main(["lab", "--project", "p", "--in-place"])
    assert started[1][0][3] == str(chapters.parent)


def test_an_edited_copy_is_never_overwritten_and_an_unedited_one_follows_the_book(lab, capsys):
    _, chapters, copies = lab
    cli.main(["lab", "--project", "p"])
    (copies / "flowers" / "red.ipynb").write_text("mine", encoding="utf-8")
    for name in ("red", "blue"):
        (chapters / f"{name}.ipynb").write_text(f"{name}, second edition", encoding="utf-8")
    capsys.readouterr()
    cli.main(["lab", "--project", "p"])
    assert (copies / "flowers" / "red.ipynb").read_text(encoding="utf-8") == "mine"
    assert (copies / "flowers" / "blue.ipynb").read_text(encoding="utf-8") == "blue, second edition"
    said = capsys.readouterr().out
    assert "1 copied now" in said
    assert "flowers/red.ipynb has changed in the book, your edited copy stays" in said


@pytest.mark.parametrize(
    ("installed", "arguments", "says"),
    [
        (True, ["--project", "q"], "no folder"),
        (True, ["--project", "p", "--folder", "p/book/mine"], "choose another --folder"),
        (False, ["--project", "p"], 'embviz lab needs jupyterlab: pip install "embviz[book]"'),
    ],
)
def test_lab_refuses_what_it_cannot_open(lab, outside, monkeypatch, capsys, installed, arguments, says):
    monkeypatch.setattr(imports, "installed", lambda module: installed)
    make_project(outside / "q")
    assert cli.main(["lab", *arguments]) == 1
    assert says in capsys.readouterr().err


LAB = """
import sys
from embviz import cli
sys.exit(cli.main(["lab", "--no-browser", "--in-place", "--project", sys.argv[1]]))
"""


def test_what_ends_embviz_lab_ends_jupyterlab(tmp_path):
    for folder in ("data/claims", "book", "state"):
        (tmp_path / folder).mkdir(parents=True)
    environment = {**os.environ, "JUPYTER_CONFIG_DIR": str(tmp_path / "state")}
    environment["JUPYTER_RUNTIME_DIR"] = str(tmp_path / "state")
    (tmp_path / "state" / "jupyter_server_config.json").write_text('{"ServerApp": {"allow_root": true}}')
    with subprocess.Popen(
        [sys.executable, "-c", LAB, str(tmp_path)],
        env=environment,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    ) as process:
        while not (files := list((tmp_path / "state").glob("jpserver-*.json"))):
            time.sleep(0.05)
        (file,) = files
        assert file.name == f"jpserver-{process.pid}.json"  # the server is the process itself
        process.terminate()
        process.wait(timeout=300)


# --- data sets --------------------------------------------------------------------------------------


def test_the_checkout_is_a_project_and_its_registry_the_packages():
    checkout = Path(__file__).resolve().parent.parent.parent
    assert storage.registry_files() == [checkout / "data" / "registry.toml"]
    with working_in(checkout):
        assert storage.registry_files() == [checkout / "data" / "registry.toml"]
        assert (storage.claims_folder() / "reflections.toml").is_file()
