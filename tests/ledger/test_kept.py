import contextlib
import dataclasses
import json
import os
import subprocess
import sys

import pandas as pd
import pytest

from embviz import ledger, storage
from embviz.ledger import claims, holders, kept, measuring, sources, studies
from embviz.ledger.cells import compute, experiment
from embviz.ledger.findings import Finding, exact, over_seeds
from embviz.ledger.studies import Study

CLAIMS = """
paper = "made"
experiments = "made_experiments"
title = "Made"
cite = "made"

[[claim]]
id = "made.claim"
title = "It is so"
where = "Table 1"
chapter = "made/chapter"
says = "So it is."
setting = "made"
null = "none"
figure = [{ name = "f", label = "a figure", accept = [-1.0, 1.0] }]
"""


@dataclasses.dataclass(frozen=True)
class Run:
    seed: int


@experiment("made.runs")
def runs(config: Run) -> pd.DataFrame:
    return pd.DataFrame({"value": [config.seed / 10]})


class Project:
    """A project of one claim and three cells, and how often its findings were computed."""

    def __init__(self, folder, monkeypatch):
        self.folder, self.n_measured = folder, 0
        self.cells = [runs.cell(Run(seed)) for seed in range(3)]
        self.claims = folder / "claims" / "made.toml"
        self.code = folder / "made_experiments.py"
        for path, text in ((self.claims, CLAIMS), (self.code, "STUDIES = {}\n")):
            path.parent.mkdir(exist_ok=True)
            path.write_text(text)
        monkeypatch.syspath_prepend(folder)
        monkeypatch.setenv("EMBVIZ_RESULTS_DIR", str(folder / "results"))
        monkeypatch.setattr(claims, "claims_folder", lambda: folder / "claims")
        study = Study(lambda preset: self.cells if preset == "quick" else [], self.findings)
        monkeypatch.setattr(studies, "find_study", lambda claim_id: study)
        for cell in self.cells:
            compute(cell)

    def findings(self, preset):
        self.n_measured += 1
        return {"f": over_seeds([ledger.read(cell)[0]["value"].iloc[0] for cell in self.cells])}

    def entry(self):
        return ledger.entry(ledger.find_claim("made.claim"))

    def kept_file(self):
        (path,) = kept.cache_folder().rglob("*.json")
        return path


@pytest.fixture
def project(tmp_path, monkeypatch):
    folder = tmp_path / "project"
    folder.mkdir()
    return Project(folder, monkeypatch)


def test_what_did_not_change_is_computed_once_and_judged_the_same(project):
    first, second = project.entry(), project.entry()
    assert first == second
    assert project.n_measured == 1
    assert first.rows[0].finding.value == pytest.approx(0.1)


def test_a_cell_that_changed_is_noticed_whatever_its_time_says(project):
    before = project.entry()
    path = project.cells[0].path
    times = path.stat()
    other = pd.DataFrame({"value": [0.3]})
    changed = dataclasses.replace(runs, function=lambda config: other)
    compute(changed.cell(Run(0)), path)
    os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))
    after = project.entry()
    assert project.n_measured == 2
    assert before.rows[0].finding.value != after.rows[0].finding.value


def test_a_cell_that_goes_or_comes_is_noticed(project):
    project.entry()
    content = project.cells[0].path.read_bytes()
    project.cells[0].path.unlink()
    assert project.entry().verdict == ledger.NOT_MEASURED
    project.cells[0].path.write_bytes(content)
    assert project.entry().verdict == ledger.HOLDS_HERE


def test_a_claim_that_changed_is_noticed(project):
    assert project.entry().verdict == ledger.HOLDS_HERE
    project.claims.write_text(CLAIMS.replace("[-1.0, 1.0]", "[2.0, 3.0]"))
    assert project.entry().verdict == ledger.FAILS_HERE


def test_code_that_changed_is_noticed_and_charts_are_not_code_that_measures(project, monkeypatch, tmp_path):
    project.entry()
    project.code.write_text("STUDIES = {}  # changed\n")
    project.entry()
    assert project.n_measured == 2
    package = tmp_path / "package"
    (package / "view").mkdir(parents=True)
    (package / "metrics.py").write_text("one = 1\n")
    monkeypatch.setattr(kept, "PACKAGE", package)
    project.entry()
    assert project.n_measured == 3
    (package / "view" / "theme.py").write_text("RED = 'red'\n")
    project.entry()
    assert project.n_measured == 3
    (package / "metrics.py").write_text("one = 2\n")
    project.entry()
    assert project.n_measured == 4


def test_code_edited_since_it_was_imported_keeps_nothing(project, monkeypatch):
    monkeypatch.setitem(sources.LOADED, project.folder, project.code.stat().st_mtime)
    project.entry()
    project.kept_file()
    project.code.write_text("STUDIES = {}  # edited while this process runs the code from before\n")
    later = project.code.stat().st_mtime + 5
    os.utime(project.code, (later, later))
    before = project.kept_file().read_text()
    project.entry()
    assert project.n_measured == 2
    assert project.kept_file().read_text() == before, "a new process would have taken it for its own"


def test_what_another_process_measures_is_waited_for_and_read(project, monkeypatch):
    claim = ledger.find_claim("made.claim")
    path = kept._path(claim, None)
    monkeypatch.setattr(kept.time, "sleep", lambda seconds: done())
    key = f"{path.parent.name}.{path.stem}"
    other = contextlib.ExitStack()
    assert other.enter_context(holders.held(key, by=1))

    def done():  # the other process: it keeps its findings, then lets go
        kept._write(path, kept._State().key(claim, ("made",)), dataclasses.replace(measured, scale="quick"))
        other.close()

    measured = measuring.measure(claim)
    before = project.n_measured
    assert kept.measurements([claim]) == [measured]
    assert project.n_measured == before, "the other's findings were read"


def test_a_process_that_never_lets_go_is_waited_for_no_longer_than_patience(project, monkeypatch):
    claim = ledger.find_claim("made.claim")
    path = kept._path(claim, None)
    monkeypatch.setattr(kept, "PATIENCE", 0.3)
    with holders.held(f"{path.parent.name}.{path.stem}", by=1):
        assert kept.measurements([claim])[0].scale == "quick"
    assert project.n_measured == 1


def test_a_folder_counts_as_imported_when_its_first_module_was(tmp_path, monkeypatch):
    (tmp_path / "made_paper").mkdir()
    for name in ("__init__", "experiments", "other"):
        (tmp_path / "made_paper" / f"{name}.py").write_text("STUDIES = {}\n")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(sources, "LOADED", dict(sources.LOADED))
    sources.note_import("made_paper.experiments")
    first = sources.LOADED[tmp_path / "made_paper"]
    assert first > sources.LOADED[sources.PACKAGE], "nothing of it was imported before"
    assert sources.is_as_imported(tmp_path / "made_paper")
    del sources.LOADED[tmp_path / "made_paper"]
    monkeypatch.setitem(sys.modules, "made_paper.other", None)
    sources.note_import("made_paper.experiments")
    assert sources.LOADED[tmp_path / "made_paper"] == sources.LOADED[sources.PACKAGE]


def test_another_folder_of_results_has_findings_of_its_own(project, monkeypatch):
    project.entry()
    monkeypatch.setenv("EMBVIZ_RESULTS_DIR", str(project.folder / "other"))
    assert project.entry().verdict == ledger.NOT_MEASURED
    monkeypatch.setenv("EMBVIZ_RESULTS_DIR", str(project.folder / "results"))
    project.entry()
    assert project.n_measured == 1


@pytest.mark.parametrize(
    "damage",
    [
        lambda text: text[: len(text) // 2],
        lambda text: "",
        lambda text: "[]",
        lambda text: text.replace('"value": 0.1', '"value": 0.2'),
        lambda text: json.dumps({**json.loads(text), "measurement": None}),
    ],
    ids=["cut", "empty", "a list", "altered", "without findings"],
)
def test_a_damaged_file_is_ignored_and_written_anew(project, damage):
    before = project.entry()
    path = project.kept_file()
    text = path.read_text()
    path.write_text(damage(text))
    assert path.read_text() != text
    assert project.entry() == before
    assert project.n_measured == 2
    assert path.read_text() == text


def test_a_cache_folder_that_cannot_be_written_to_costs_time_alone(project, monkeypatch):
    def refuse(path):
        raise PermissionError("no")

    monkeypatch.setattr(storage, "whole_file", refuse)
    assert project.entry() == project.entry()
    assert project.n_measured == 2


def test_findings_come_back_from_their_file_as_they_were(project):
    infinite = Finding(1.0, -float("inf"), float("inf"), 4, {"a": 0.1 + 0.2}, "text", "draws")
    found = measuring.Measurement("quick", {"f": infinite, "g": exact(3)}, own_corpora=(), folders=("made",))
    claim, state = ledger.find_claim("made.claim"), kept._State()
    path = kept._path(claim, None)
    kept._write(path, state.key(claim, found.folders), found)
    assert kept._read(path, claim, state) == found


@pytest.mark.parametrize("claim_id", ["reflections.lemma1", "kernel.eigen_table", "resizing.throughput"])
def test_kept_findings_are_those_computed_afresh(claim_id):
    claim = ledger.find_claim(claim_id)
    (computed,) = kept.measurements([claim])
    (read,) = kept.measurements([claim])
    assert read == computed == ledger.measure(claim)


def test_reading_what_is_kept_imports_neither_torch_nor_the_books_modules():
    code = (
        "import sys\n"
        "from embviz import cli\n"
        "sys.argv[1:] and cli.main(['ledger', 'kernel.eigen_table', '--json'])\n"
        "cli.main(['ledger', 'kernel.eigen_table'])\n"
        "heavy = {'torch', 'pandas', 'pyarrow', 'altair', 'numba', 'joblib', 'scipy.stats', 'book.kernel'}\n"
        "print(*sorted(heavy & set(sys.modules)), sep=',')\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, capture_output=True)  # now it is kept
    done = subprocess.run([sys.executable, "-c", code, "--json"], check=True, capture_output=True, text=True)
    assert done.stdout.splitlines()[-1] == ""


def test_a_papers_folder_is_found_without_importing_it():
    folder = sources.module_folder("book.kernel.experiments")
    assert folder.parts[-2:] == ("book", "kernel")
    assert sources.module_folder("nothing.of.the.kind") is None
    assert sources.module_folder("book.nothing") is None


def test_a_tree_is_another_when_a_file_changes_its_name_or_its_content(tmp_path):
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "one.py").write_text("x = 1\n")
    digests = {sources.tree_digest(tmp_path)}
    (tmp_path / "a" / "notes.md").write_text("no code\n")
    (tmp_path / ".hidden").mkdir()
    (tmp_path / ".hidden" / "two.py").write_text("no code of ours\n")
    assert {sources.tree_digest(tmp_path)} == digests
    (tmp_path / "a" / "one.py").write_text("x = 2\n")
    digests.add(sources.tree_digest(tmp_path))
    (tmp_path / "a" / "one.py").rename(tmp_path / "a" / "other.py")
    digests.add(sources.tree_digest(tmp_path))
    assert len(digests) == 3
