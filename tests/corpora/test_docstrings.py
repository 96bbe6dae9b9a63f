import subprocess
import sys

import pytest

from embviz.corpora import docstrings

SOURCE = '''"""Module words."""
X = """not a docstring"""
class A:
    """Class words."""
    def f(self):
        """Method words.

            Indented words.
        """
        def inner():
            """Inner words."""
if X:
    async def g():
        """Under a condition."""
try:
    def h():
        "No triple quotes, but beside some."
except ImportError:
    pass
def same():
    """Class words."""
'''


@pytest.fixture
def libraries(monkeypatch, tmp_path):
    """One made library in the place of the five, and an empty cache."""
    root = tmp_path / "site" / "made"
    (root / "tests").mkdir(parents=True)
    (root / "b.py").write_text(SOURCE)
    (root / "a.py").write_text('"""First by name."""\n"\\d"\n')  # an invalid escape warns when parsed
    (root / "broken.py").write_text('"""Never seen."""\nif:')
    (root / "tests" / "c.py").write_text('"""A test."""')
    monkeypatch.syspath_prepend(str(tmp_path / "site"))
    monkeypatch.setenv("EMBVIZ_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setattr(docstrings, "LIBRARIES", ("made",))
    versions = {"made": "1.0"}
    monkeypatch.setattr(docstrings.importlib.metadata, "version", versions.__getitem__)
    return versions, root


def test_docstrings_are_gathered_once_each_in_reading_order(libraries):
    assert docstrings.gather_docstrings() == [
        "First by name.",
        "Module words.",
        "Class words.",
        "Method words.\n\nIndented words.",
        "Inner words.",
        "Under a condition.",
        "No triple quotes, but beside some.",
    ]


def test_a_changed_version_is_gathered_anew_and_an_unchanged_one_is_read_from_the_cache(libraries):
    versions, root = libraries
    before = docstrings.load_docstrings(separator="|")
    (root / "a.py").write_text('"""Changed."""')
    assert docstrings.load_docstrings(separator="|") == before
    versions["made"] = "1.1"
    assert docstrings.load_docstrings(separator="|").startswith("Changed.\n|\nModule words.")


def test_a_cache_that_is_damaged_or_cannot_be_written_costs_nothing_but_time(
    libraries, tmp_path, monkeypatch
):
    before = docstrings.load_docstrings(separator="|")
    (path,) = (tmp_path / "cache" / "embedded").iterdir()
    path.write_bytes(path.read_bytes()[:-70])
    assert docstrings.load_docstrings(separator="|") == before
    monkeypatch.setenv("EMBVIZ_CACHE_DIR", str(path / "cache"))
    assert docstrings.load_docstrings(separator="|") == before


def test_a_library_that_is_not_installed_is_named(monkeypatch):
    monkeypatch.setattr(docstrings, "LIBRARIES", ("no-such-library",))
    message = r'reads docstrings of no-such-library: pip install "embviz\[trajectories\]"'
    with pytest.raises(ImportError, match=message):
        docstrings.fingerprint()


def test_no_library_is_imported_to_find_its_files():
    code = (
        "import sys; from embviz.corpora import docstrings;"
        "[docstrings._source_files(name) for name in docstrings.LIBRARIES]; docstrings.fingerprint();"
        "print(sorted({'torch', 'numpy', 'scipy', 'sklearn', 'pandas'} & set(sys.modules)))"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "[]"
