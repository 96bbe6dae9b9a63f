"""The list of lies follows the code: each can be planted, is taken back, and names tests that are there."""

import shlex

import pytest

from tests.mutants.planting import ROOT, Lie, lies, planted


def test_every_lie_can_be_planted_is_still_python_and_names_tests_that_are_there():
    for lie in (everything := lies()):
        told = lie.tell((ROOT / lie.path).read_text(encoding="utf-8"))
        compile(told, lie.path, "exec")
        files = [word.partition("::")[0] for word in shlex.split(lie.tests) if word.startswith("tests/")]
        assert lie.old != lie.new, lie
        assert files, lie
        assert all((ROOT / file).is_file() for file in files), lie
    assert len(set(everything)) == len(everything) >= 100


def test_a_lie_is_taken_back_to_the_byte_and_the_second(tmp_path):
    path = tmp_path / "code.py"
    path.write_text("a = 1\nb = 2\n")
    before = path.stat().st_mtime_ns
    with planted(tmp_path, Lie("code.py", "b = 2", "b = 3", "tests/test_code.py")):
        assert path.read_text() == "a = 1\nb = 3\n"
    for old, n in (("c = 1", 0), (" = ", 2)):
        lie = Lie("code.py", old, "x", "tests/test_code.py")
        with pytest.raises(ValueError, match=rf"{n} times, not once"), planted(tmp_path, lie):
            pass
    assert path.read_text() == "a = 1\nb = 2\n"
    assert path.stat().st_mtime_ns == before
    assert list(tmp_path.iterdir()) == [path]
