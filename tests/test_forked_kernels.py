"""Kernels forked for the chapters: fresh, each by itself, interrupted and ended as any other."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import nbformat
import psutil
import pytest
from nbclient import NotebookClient

from tests import forked_kernels

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="kernels are forked on Linux alone")
SERVE = """
from tests import forked_kernels
forked_kernels.LIBRARIES = "ipykernel.kernelapp ipykernel.ipkernel colorsys"
forked_kernels.serve()
"""


@pytest.fixture
def process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[subprocess.Popen]:
    """The process from which kernels are forked, with a few libraries."""
    specification = tmp_path / "kernels" / forked_kernels.NAME / "kernel.json"
    specification.parent.mkdir(parents=True)
    argv = [sys.executable, forked_kernels.__file__, "kernel", "{connection_file}"]
    specification.write_text(json.dumps({"argv": argv, "display_name": "", "language": "python"}))
    monkeypatch.setenv("JUPYTER_PATH", str(tmp_path))
    monkeypatch.setenv(forked_kernels.ADDRESS, str(tmp_path / "socket"))
    root = Path(forked_kernels.__file__).parents[1]
    process = subprocess.Popen([sys.executable, "-c", SERVE], stdin=subprocess.PIPE, cwd=root)
    yield process
    process.stdin.close()
    assert process.wait(60) == 0


def kernels_of(process: subprocess.Popen) -> list[psutil.Process]:
    return psutil.Process(process.pid).children()


CELLS = [
    "import os, sys; found = 'it' in dir(), 'colorsys' in sys.modules, 'embviz' in sys.modules; it = 1",
    "print(found, os.environ['SAID'], os.getcwd())",
    "print(it)",
    "import time; time.sleep(600)",
    "print(it)",
]


@pytest.mark.slow
def test_a_forked_kernel_is_fresh_interrupted_and_ended_as_any_other(process, tmp_path, monkeypatch):
    monkeypatch.setenv("SAID", "later")
    for sources in (
        CELLS[:3],
        CELLS,
    ):  # the second is interrupted, when it has taken longer than busy machines
        notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell) for cell in sources])
        notebook = NotebookClient(
            notebook,
            kernel_name=forked_kernels.NAME,
            timeout=10,
            interrupt_on_timeout=True,
            allow_errors=True,
            resources={"metadata": {"path": str(tmp_path)}},
        ).execute()
        assert notebook.cells[1].outputs[0].text == f"(False, True, False) later {tmp_path}\n"
        assert notebook.cells[2].outputs[0].text == "1\n"
        assert psutil.wait_procs(kernels_of(process), timeout=60)[1] == []
    assert notebook.cells[3].outputs[0].ename == "KeyboardInterrupt"
    assert notebook.cells[4].outputs[0].text == "1\n"


def test_a_kernel_ends_with_the_one_that_asked_and_with_the_one_it_comes_from(process, tmp_path):
    for ended in ("who asked", "where it comes from"):
        file = tmp_path / f"{ended}.json"  # a kernel takes the ports of a file that is there
        asked = [sys.executable, forked_kernels.__file__, "kernel", str(file)]
        with subprocess.Popen(asked, stderr=subprocess.DEVNULL) as stand_in:
            while not (kernels := kernels_of(process)):
                assert stand_in.poll() is None, "the kernel ended, or there was none"
                time.sleep(0.05)
            if ended == "who asked":
                stand_in.kill()
            else:
                process.stdin.close()
            assert psutil.wait_procs(kernels, timeout=60)[1] == []
            stand_in.wait(60)
