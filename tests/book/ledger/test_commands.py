"""The commands ``python -m book run | ledger | lab``: what they print, store and refuse."""

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from book import __main__ as commands
from book import ledger
from book.ledger import places
from embviz import imports

TULIPS = """
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
EXPERIMENTS = """
import dataclasses

import pandas as pd

from book.ledger import Study, exact, experiment


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


@pytest.fixture
def plant(tmp_path, monkeypatch, results):
    """A function that writes the claims of another paper, and the module that measures them."""
    monkeypatch.setattr("book.ledger.claims.claims_folder", lambda: tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "tulip_experiments", raising=False)

    def write(claims=TULIPS, experiments=EXPERIMENTS):
        (tmp_path / "tulips.toml").write_text(claims)
        if experiments is not None:
            (tmp_path / "tulip_experiments.py").write_text(experiments)

    return write


def test_run_computes_what_is_missing_and_the_ledger_judges_it(plant, results, capsys):
    plant()
    assert commands.main(["run", "tulips", "--jobs", "1"]) == 0
    out = capsys.readouterr().out
    assert "3 of 3 cells" in out
    assert "tulips.red: reproduced (smaller scale); scale quick" in out
    assert len(list((results / "tulips" / "fields").glob("*.parquet"))) == 3
    assert commands.main(["run", "tulips.red"]) == 0
    assert "0 of 3 cells" in capsys.readouterr().out
    assert commands.main(["ledger", "tulips.red", "--json"]) == 0
    (record,) = json.loads(capsys.readouterr().out)
    assert (record["scale"], record["verdict"]) == ("quick", "reproduced")
    assert commands.main(["ledger"]) == 0
    assert "share of red ones" in capsys.readouterr().out


def test_the_ledger_of_a_whole_paper_is_a_table_with_a_row_a_claim(results, capsys):
    assert commands.main(["ledger", "--derive", "reflections"]) == 0
    derived = capsys.readouterr().out
    assert commands.main(["ledger", "reflections"]) == 0
    shown = capsys.readouterr().out
    assert shown == derived
    lines = shown.splitlines()
    assert lines[0].split() == ["claim", "verdict", "scale", "measurements", "title"]
    assert len(lines) == 1 + len(ledger.load_claims("reflections"))
    assert all("not tested" in line for line in lines[1:])


def test_data_that_is_not_at_hand_is_told_and_does_not_stop_other_claims(results, capsys, monkeypatch):
    monkeypatch.delenv("EMBVIZ_DATA_DIR", raising=False)
    assert commands.main(["run", "reflections.corpora", "--preset", "paper", "--jobs", "1"]) == 1
    error = capsys.readouterr().err
    assert "text8" in error
    assert "embedded" in error


def test_a_results_folder_that_cannot_be_written_is_found_before_a_cell_is_computed(
    plant, tmp_path, monkeypatch, capsys
):
    plant(experiments=EXPERIMENTS.replace("    return pd", "    1 / 0\n    return pd"))
    monkeypatch.setenv("EMBVIZ_RESULTS_DIR", str(tmp_path / "tulips.toml" / "results"))
    assert commands.main(["run", "tulips", "--jobs", "1"]) == 1
    assert "nothing can be written to" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("claims", "experiments", "says"),
    [
        (
            TULIPS.replace("says", "sings"),
            None,
            "says: Field required; there is no field 'sings'",
        ),
        (TULIPS.replace('"tulips"', '"roses"'), None, "tulips.red of paper 'roses'"),
        (TULIPS, None, "No module named 'tulip_experiments'"),
        (TULIPS, "x = 1", "tulip_experiments.py has no STUDIES, a dictionary"),
        (TULIPS, "STUDIES = {}", "no study of 'tulips.red': it is empty"),
        (TULIPS, "STUDIES = {'a.b': 1}", "no study of 'tulips.red': there are a.b"),
    ],
)
def test_what_is_amiss_in_a_papers_files_is_said(plant, capsys, claims, experiments, says):
    plant(claims, experiments)
    assert commands.main(["run", "all"]) == 1
    assert says in capsys.readouterr().err


@pytest.mark.parametrize(
    ("command", "message"),
    [
        ("run all --jobs -4", "-4 is not in the range x>=1"),
        ("run reflections.lemma9", "choose one of reflections.lemma1"),
        ("run reflections.lemma1 --preset huge", "'quick', 'laptop', 'paper'"),
        ("run reflections.lemma1 --scheduler a", "'a' is no address of a scheduler"),
        ("ledger --derive --scale quick", "--derive and --scale exclude each other"),
        ("ledger --port=9999", "No such option"),
    ],
)
def test_a_command_that_cannot_be_meant_is_told_first(command, message, results, capsys):
    assert commands.main(command.split()) in (1, 2)
    assert message in capsys.readouterr().err


def test_a_reader_who_has_seen_enough_gets_no_error():
    command = f"{sys.executable} -m book ledger reflections.lemma1 | true"  # gone before the first word
    done = subprocess.run(command, shell=True, capture_output=True, text=True, cwd=places.ROOT)
    assert done.stderr == ""


# --- chapters to work on ----------------------------------------------------------------------------


def chapter(words):
    """A notebook of these words."""
    cell = {"cell_type": "markdown", "id": "words", "metadata": {}, "source": [words]}
    return json.dumps({"cells": [cell], "metadata": {}, "nbformat": 4, "nbformat_minor": 5})


@pytest.fixture
def lab(tmp_path, monkeypatch):
    """A book with two chapters, and what `lab` starts JupyterLab with: commands, environments."""
    started = []
    monkeypatch.setattr(os, "execve", lambda program, *rest: started.append(rest) or 0)
    monkeypatch.setattr(Path, "home", lambda: tmp_path / "home")
    monkeypatch.setattr(places, "ROOT", tmp_path / "p")
    monkeypatch.setattr(places, "BOOK", tmp_path / "p" / "book")
    chapters = tmp_path / "p" / "book" / "flowers"
    chapters.mkdir(parents=True)
    (chapters.parent / "_toc.yml").write_text("root: index\n", encoding="utf-8")
    for name in ("red", "blue"):
        (chapters / f"{name}.ipynb").write_text(chapter(f"{name}, first edition"), encoding="utf-8")
    return started, chapters, tmp_path / "home" / "embviz" / "p"


def test_lab_opens_copies_of_the_chapters_and_takes_jupyterlabs_options(lab, capsys):
    started, chapters, copies = lab
    assert commands.main(["lab", "--no-browser", "--port", "9999"]) == 0
    command, environment = started[0]
    assert command[3] == str(copies)
    assert command[-3:] == ["--no-browser", "--port", "9999"]
    assert environment["PYTHONPATH"].split(os.pathsep)[0] == str(chapters.parent.parent)
    assert "red, first edition" in (copies / "flowers" / "red.ipynb").read_text(encoding="utf-8")
    assert f"chapters: {copies}, 2 copied now" in capsys.readouterr().out
    commands.main(["lab", "--in-place"])
    assert started[1][0][3] == str(chapters.parent)


def test_an_edited_copy_is_never_overwritten_and_an_unedited_one_follows_the_book(lab, capsys):
    _, chapters, copies = lab
    commands.main(["lab"])
    (copies / "flowers" / "red.ipynb").write_text("mine", encoding="utf-8")
    for name in ("red", "blue"):
        (chapters / f"{name}.ipynb").write_text(chapter(f"{name}, second edition"), encoding="utf-8")
    capsys.readouterr()
    commands.main(["lab"])
    assert (copies / "flowers" / "red.ipynb").read_text(encoding="utf-8") == "mine"
    assert "blue, second edition" in (copies / "flowers" / "blue.ipynb").read_text(encoding="utf-8")
    said = capsys.readouterr().out
    assert "1 copied now" in said
    assert "flowers/red.ipynb has changed in the book, your edited copy stays" in said


@pytest.mark.parametrize(
    ("installed", "arguments", "says"),
    [
        (True, ["--folder", "p/book/mine"], "choose another --folder"),
        (False, [], 'python -m book lab needs jupyterlab: pip install "embviz[book]"'),
    ],
)
def test_lab_refuses_what_it_cannot_open(lab, tmp_path, monkeypatch, capsys, installed, arguments, says):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(imports, "installed", lambda module: installed)
    assert commands.main(["lab", *arguments]) == 1
    assert says in capsys.readouterr().err


def test_what_ends_the_lab_ends_jupyterlab(tmp_path):
    environment = os.environ | {"JUPYTER_CONFIG_DIR": str(tmp_path), "JUPYTER_RUNTIME_DIR": str(tmp_path)}
    (tmp_path / "jupyter_server_config.json").write_text('{"ServerApp": {"allow_root": true}}')
    with subprocess.Popen(
        [sys.executable, "-m", "book", "lab", "--no-browser", "--folder", str(tmp_path / "copies")],
        env=environment,
        cwd=places.ROOT,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    ) as process:
        while not (files := list(tmp_path.glob("jpserver-*.json"))):
            assert process.poll() is None
            time.sleep(0.05)
        (file,) = files
        assert file.name == f"jpserver-{process.pid}.json"  # the server is the process itself
        process.terminate()
        process.wait(timeout=300)
