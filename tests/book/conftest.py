"""The book, built once into a temporary folder, and a browser to read it with."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from filelock import FileLock
from playwright.sync_api import Browser

from tests.book.browser import find_chromium, running_chromium, served
from tests.book.made_pages import BOOK, write_book


@pytest.fixture(scope="session")
def chromium() -> Iterator[Browser]:
    """Headless Chromium, or a skip that says what to install."""
    if find_chromium() is None:
        pytest.skip("NO BROWSER TEST WAS RUN: install Debian's chromium (apt-get install chromium)")
    with running_chromium() as browser:
        yield browser


@pytest.fixture(scope="module", autouse=True)
def _one_thread() -> Iterator[None]:
    """PyTorch on one thread: with more, sums have other bits, and waiting threads spin."""
    torch = sys.modules.get("torch")  # tests of pages do without
    before = torch.get_num_threads() if torch else 0
    if torch:
        torch.set_num_threads(1)
    yield
    if torch:
        torch.set_num_threads(before)


@pytest.fixture
def own_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An empty folder for what is begun; texts stay where they are."""
    monkeypatch.setattr("book.ledger.cells.cache_folder", lambda: tmp_path)


@pytest.fixture
def own_results(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An empty folder for results."""
    monkeypatch.setenv("EMBVIZ_RESULTS_DIR", str(tmp_path))


def build(source: Path, target: Path) -> Path:
    """Build a book as `make book` does, warnings as errors; gives the folder of its pages."""
    command = [sys.executable, BOOK / "build.py", source, "--output", target]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    pages = target / "_build" / "html"
    lines = (done.stdout + done.stderr).splitlines()
    complaints = [line for line in lines if "Warning" in line or "WARNING" in line or "Error" in line]
    assert done.returncode == 0, "\n".join(complaints or lines[-20:])
    assert (pages / "index.html").is_file(), "the build wrote no page"
    return pages


@pytest.fixture(scope="session")
def vendored() -> None:
    """The browser libraries, which `make setup` fetches."""
    if not (BOOK / "assets" / "vendor" / "mathjax").is_dir():
        pytest.fail("the browser libraries are missing: run `make setup` (or `python book/vendor.py`)")


def _built_once(factory: pytest.TempPathFactory, name: str, source: Path | None = None) -> Path:
    """Pages of a book, this one or the made one, which the workers of a session build once."""
    folder = factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        folder = folder.parent
    with FileLock(folder / f"{name}.lock"):
        if not (folder / f"{name}_is_built").exists():
            if source is None:
                source = folder / f"{name}_source"
                source.mkdir()
                write_book(source)
            build(source, folder / name)
            (folder / f"{name}_is_built").touch()
    return folder / name / "_build" / "html"


@pytest.fixture(scope="session")
def pages(tmp_path_factory: pytest.TempPathFactory, vendored: None) -> Path:
    """Folder of the built book."""
    return _built_once(tmp_path_factory, "book", BOOK)


@pytest.fixture(scope="session")
def made_pages(tmp_path_factory: pytest.TempPathFactory, vendored: None) -> Path:
    """Folder of the made book, see :func:`tests.book.made_pages.write_book`."""
    return _built_once(tmp_path_factory, "made_book")


@pytest.fixture(scope="session")
def site(pages: Path) -> Iterator[str]:
    """Address of the built book, served on this machine."""
    with served(pages) as address:
        yield address
