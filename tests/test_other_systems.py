"""Without the modules that only Unix has, as on Windows: embviz imports, locks, stores, knows its memory."""

import subprocess
import sys

import pytest

HIDDEN = """
import builtins

UNIX = {"fcntl", "resource", "pwd", "grp", "termios"}
real = builtins.__import__


def without_unix(name, globals=None, *rest, **named):
    asker = (globals or {}).get("__name__", "")
    if name in UNIX and asker.partition(".")[0] in ("embviz", "book"):
        raise ImportError(f"no {name} on this system", name=name)
    return real(name, globals, *rest, **named)


builtins.__import__ = without_unix
"""

EVERYTHING = """
import importlib, pkgutil
import embviz, book.geometry.experiments.trajectory_recordings

for module in pkgutil.walk_packages(embviz.__path__, "embviz."):
    if not module.name.endswith("__main__"):
        importlib.import_module(module.name)
print("resource" in vars(embviz.memory) and embviz.memory.resource)
"""

WORK = """
import os
import sys
import torch
from embviz.memory import available_memory
from embviz.storage import BusyRunError
from embviz.runs import Run, read_run

folder = sys.argv[1]
print(available_memory() > 2**20)
run = Run.open(folder, config={"seed": 0})
try:
    Run.open(folder, config={"seed": 0})
except BusyRunError as refusal:
    print(f"process {os.getpid()}:" in str(refusal))
run.append(0, {"weight": torch.ones(2, 3)}, {"loss": 1.0})
run.close()
print(read_run(folder).weights(0)["weight"].sum().item())
"""


def without_unix(code, *arguments):
    done = subprocess.run(
        [sys.executable, "-c", HIDDEN + code, *map(str, arguments)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.split("\n")[:-1]


@pytest.mark.slow
def test_everything_imports():
    assert without_unix(EVERYTHING) == ["None"]


@pytest.mark.slow
def test_runs_are_locked_and_memory_known(tmp_path):
    assert without_unix(WORK, tmp_path / "run") == ["True", "True", "6.0"]
