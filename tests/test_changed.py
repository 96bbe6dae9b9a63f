"""`make quick` runs the tests beside what changed."""

import shlex
import subprocess

import pytest

from tests.changed import ROOT, SMOKE, changed_files, chosen
from tests.mutants.planting import lies


@pytest.mark.parametrize(
    ("changed", "tests"),
    [
        ("embviz/words/spectra.py", ["tests/words/test_spectra.py"]),
        ("embviz/words/skipgram_numba.py", ["tests/words/test_skipgram.py"]),  # mentioned, not mirrored
        ("book/ext/depth.py", ["tests/book/test_depth.py"]),
        ("tests/book/browser.py", ["tests/book/test_explorer_live.py"]),
        ("book/kernel/algebra.ipynb", ["book/kernel/algebra.ipynb"]),
        ("embviz/view/explorer.js", ["tests/view/test_page_code.py"]),
        ("data/registry.toml", ["tests/corpora/test_registry.py"]),
        ("LICENSE", []),
    ],
)
def test_a_changed_file_brings_the_tests_beside_it(changed, tests):
    found = chosen(ROOT, [changed])
    assert found[: len(SMOKE)] == list(SMOKE)
    assert set(tests) <= set(found)
    assert len(found) == len(set(found)) < len(SMOKE) + 20, "a quick loop stays quick"
    assert all((ROOT / path).exists() for path in found)


@pytest.mark.parametrize("lie", {lie.path: lie for lie in lies()}.values(), ids=lambda lie: lie.path)
def test_code_with_a_planted_lie_brings_the_tests_that_notice_it(lie):
    tests = {word.partition("::")[0] for word in shlex.split(lie.tests) if word.startswith("tests/")}
    assert tests <= set(chosen(ROOT, [lie.path]))


def test_changes_are_those_since_the_branch_left_main_and_new_files(tmp_path):
    def git(*arguments):
        subprocess.run(
            ["git", "-c", "user.name=a", "-c", "user.email=a@b", *arguments], cwd=tmp_path, check=True
        )

    git("init", "-q", "-b", "main")
    for name in ("old.py", "first.py", "second.py"):
        (tmp_path / name).write_text(name)
        git("add", name)
        git("commit", "-q", "-m", name)
    assert changed_files(tmp_path) == ["second.py"]  # on main: the last commit
    git("checkout", "-q", "-b", "branch")
    (tmp_path / "third.py").write_text("c")
    git("add", "third.py")
    git("commit", "-q", "-m", "third")
    (tmp_path / "first.py").write_text("changed")
    (tmp_path / "new.py").write_text("new")
    (tmp_path / "old.py").unlink()
    assert changed_files(tmp_path) == ["first.py", "new.py", "third.py"]
    assert changed_files(tmp_path, "HEAD") == ["first.py", "new.py"]
