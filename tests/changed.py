"""The tests beside what changed, as arguments of pytest: `python -m tests.changed [COMMIT]`.

Without a commit, what changed since the branch left main, uncommitted and new files included; on main, since
the commit before the last. A smoke test of the whole comes first.
"""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

from tests.mutants.planting import lies

ROOT = Path(__file__).resolve().parent.parent
SMOKE = ("tests/test_house.py", "tests/mutants", "tests/test_metrics.py")


def git(root: Path, *arguments: str) -> list[str]:
    """Lines that git prints; none where it fails, as without a branch of that name."""
    done = subprocess.run(["git", *arguments], cwd=root, capture_output=True, text=True, check=False)
    return done.stdout.splitlines() if done.returncode == 0 else []


def changed_files(root: Path, since: str | None = None) -> list[str]:
    """Files of the working tree that differ from a commit, those that git does not know yet included."""
    if since is None:
        left_main = [
            *git(root, "merge-base", "HEAD", "main"),
            *git(root, "merge-base", "HEAD", "origin/main"),
        ]
        (head,) = git(root, "rev-parse", "HEAD")
        since = next((commit for commit in left_main if commit != head), "HEAD~1")
    new = git(root, "ls-files", "--others", "--exclude-standard")
    return sorted({*git(root, "diff", "--name-only", "--diff-filter=d", since), *new})


def tests_of(root: Path, changed: str) -> Iterator[Path]:
    """Test files and chapters that a changed file may break, by its place and name.

    A chapter is its own test. Python code has `test_<name>.py` in the folder of tests that mirrors its own,
    the tests that lies about it name, and the chapter beside it. Without a file of that name, for what tests
    share and for other files, those are taken that mention the name.
    """
    path = Path(changed)
    if path.suffix == ".ipynb" or path.name.startswith("test_"):
        yield path
    elif path.suffix != ".py":
        yield from _mentions(root, root / "tests", path.name)
    else:
        if (root / (chapter := path.with_suffix(".ipynb"))).is_file():
            yield chapter
        for lie in lies():
            if lie.path == changed:
                words = (word.partition("::")[0] for word in shlex.split(lie.tests))
                yield from (Path(word) for word in words if word.endswith(".py"))
        rooms = path.parts[path.parts[0] != "book" : -1]
        folder = Path("tests", *rooms)
        while not (root / folder).is_dir():
            folder = folder.parent
        own = folder / f"test_{path.stem}.py"
        yield from [own] if (root / own).is_file() else _mentions(root, root / folder, path.stem)


def _mentions(root: Path, folder: Path, word: str) -> Iterator[Path]:
    for file in sorted(folder.rglob("test_*.py")):
        if re.search(rf"\b{re.escape(word)}\b", file.read_text(encoding="utf-8")):
            yield file.relative_to(root)


def chosen(root: Path, files: Iterable[str]) -> list[str]:
    """Arguments of pytest for these changed files: the smoke test, then each test file and chapter once."""
    found = [path.as_posix() for file in files for path in tests_of(root, file)]
    return list(dict.fromkeys([*SMOKE, *found]))


if __name__ == "__main__":
    print(*chosen(ROOT, changed_files(ROOT, *sys.argv[1:2])))
