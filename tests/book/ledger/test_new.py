"""A new paper, from one command to its page, in a copy of the checkout; and taken away again."""

import os
import shutil
import subprocess
import sys

import pytest

from book.ledger import new, places

FILES = [
    "book/my_paper/__init__.py",
    "book/my_paper/experiments.py",
    "book/my_paper/neighbours.ipynb",
    "data/claims/my_paper.toml",
    "tests/book/my_paper/__init__.py",
    "tests/book/my_paper/test_experiments.py",
    "book/_toc.yml",
]


@pytest.fixture
def checkout(tmp_path):
    """What git knows of the checkout but stored results, and a function that runs a command in it."""
    names = subprocess.check_output(["git", "ls-files"], cwd=places.ROOT, encoding="utf-8").splitlines()
    for name in names:
        if not name.startswith("data/results") and (places.ROOT / name).is_file():
            (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(places.ROOT / name, tmp_path / name)

    def call(*words):
        environment = os.environ | {"PYTHONPATH": str(tmp_path)}
        command = [sys.executable, *words]
        return subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True)

    return tmp_path, call


def contents(root):
    return {
        str(path.relative_to(root)): path.read_bytes()
        for path in root.rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }


@pytest.mark.slow
def test_a_new_paper_is_measured_judged_shown_and_deleted_again(checkout):
    root, call = checkout
    before = contents(root)
    made = call("-m", "book", "new", "my_paper")
    assert made.stdout.splitlines()[: len(FILES)] == FILES, made.stderr
    new_paper = contents(root)
    assert {name for name in new_paper if new_paper[name] != before.get(name)} == set(FILES)
    ran = call("-m", "book", "run", "my_paper", "--jobs", "1")
    assert "my_paper.neighbours: 4 of 4 cells to compute" in ran.stdout, ran.stderr
    assert "my_paper.neighbours: reproduced" in call("-m", "book", "ledger", "my_paper").stdout
    chapter = "book/my_paper/neighbours.ipynb"
    shown = call("book/execute.py", chapter)
    assert shown.returncode == 0, shown.stderr
    # a new claim with its chapter: claims, experiments, chapter, _toc.yml, stored cells, ledger.json
    moved = {name for name, text in contents(root).items() if text != before.get(name)}
    kinds = {name if "results" not in name else "stored cells" for name in moved - set(FILES)}
    assert kinds == {"stored cells", "data/ledger.json"}
    tests = ["tests/book/my_paper", "tests/book/test_chapters.py", "tests/test_house.py"]
    chosen = "my_paper or every_claim_has_its_line or neighbours or new_claim"
    judged = call("-m", "pytest", "-q", "-p", "no:cacheprovider", *tests, "-k", chosen)
    assert judged.returncode == 0, judged.stdout
    for name in moved:
        if name in before:
            (root / name).write_bytes(before[name])
        else:
            (root / name).unlink()
    assert contents(root) == before


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("My-paper", "use small letters"),
        ("class", "no keyword of Python"),
        ("kernel", "book/kernel is there already: nothing was written"),
        ("tour", "data/claims/tour.toml is there already: nothing was written"),
    ],
)
def test_a_name_that_is_none_or_is_taken_is_refused_and_nothing_is_written(tmp_path, name, says):
    (tmp_path / "book" / "kernel").mkdir(parents=True)
    (tmp_path / "data" / "claims").mkdir(parents=True)
    (tmp_path / "data" / "claims" / "tour.toml").touch()
    before = contents(tmp_path)
    with pytest.raises((ValueError, FileExistsError), match=says):
        new.new_paper(name, tmp_path)
    assert contents(tmp_path) == before
