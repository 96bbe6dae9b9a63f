"""The list of lies follows the code: each can be planted, and names tests that are there."""

import shlex
from collections import Counter

import pytest

from tests.mutants.planting import ROOT, Lie, lies, planted

ALL = lies()


@pytest.mark.parametrize("lie", ALL, ids=str)
def test_a_lie_can_be_planted_and_is_still_python(lie):
    told = lie.tell((ROOT / lie.path).read_text(encoding="utf-8"))
    compile(told, lie.path, "exec")
    assert lie.old != lie.new
    files = [word for word in shlex.split(lie.tests) if word.startswith("tests/")]
    assert files
    assert all((ROOT / file.partition("::")[0]).is_file() for file in files)


def test_the_list_is_long_enough_and_says_nothing_twice():
    assert len(ALL) >= 100
    assert len(set(ALL)) == len(ALL)
    papers = Counter(lie.path.split("/")[1] for lie in ALL if "/experiments/" in lie.path)
    assert papers.total() >= 60
    assert set(papers) == {"geometry", "kernel", "reflections", "resizing", "tying"}


def test_a_lie_is_taken_back_to_the_byte_and_the_second(tmp_path):
    path = tmp_path / "code.py"
    path.write_text("a = 1\nb = 2\n")
    before = path.stat().st_mtime_ns
    with planted(tmp_path, Lie("code.py", "b = 2", "b = 3", "tests/test_code.py")):
        assert path.read_text() == "a = 1\nb = 3\n"
    assert path.read_text() == "a = 1\nb = 2\n"
    assert path.stat().st_mtime_ns == before
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize(("old", "n"), [("c = 1", 0), (" = ", 2)])
def test_text_that_is_not_found_exactly_once_is_an_error(tmp_path, old, n):
    (tmp_path / "code.py").write_text("a = 1\nb = 2\n")
    with (
        pytest.raises(ValueError, match=rf"{n} times, not once"),
        planted(tmp_path, Lie("code.py", old, "x", "tests/test_code.py")),
    ):
        pass
    assert (tmp_path / "code.py").read_text() == "a = 1\nb = 2\n"
