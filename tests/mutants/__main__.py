"""Plant lies, one at a time, and report those that no test notices.

    python -m tests.mutants            # all of them, about two hours on one core, half of it on two
    python -m tests.mutants ledger     # those whose file or text holds the word
    python -m tests.mutants --trust    # the tests are known to pass without a lie: saves a third of the time
    python -m tests.mutants --jobs 1   # lies planted at the same time, by default one for each core

Lies are planted in temporary copies of the sources; the checkout is never touched. A process in which the
libraries are imported already is forked for each, so that a lie costs little more than its tests. The tests
must pass without the lie, and fail with it.
"""

from __future__ import annotations

import argparse
import importlib
import multiprocessing
import os
import shlex
import shutil
import signal
import sys
import tempfile
import time
import traceback
from concurrent.futures import ProcessPoolExecutor, as_completed
from pathlib import Path

import pytest

from tests.mutants.planting import ROOT, Lie, lies, planted

LIBRARIES = (
    "altair hypothesis joblib numba numpy pandas pyarrow.parquet safetensors.numpy scipy.stats"
    " scipy.sparse.linalg sklearn.neighbors threadpoolctl torch"
)
SECONDS = 900  # after that long a lie counts as noticed: the tests no longer end
BAR = 0.97  # share of the lies to be noticed
PASSED, FAILED, BROKEN = 0, 1, 2  # of pytest: all passed, some failed, a file could not be imported

_folder: Path  # of this process of the pool: its copy of the sources


def copy_of_sources(folder: Path) -> None:
    """What the tests of instruments and ledger read, times of files included: compiled functions stay."""
    unread = shutil.ignore_patterns("_build", "assets", "*.ipynb", ".ipynb_checkpoints")
    for name, ignored in (("embviz", None), ("tests", None), ("book", unread)):
        shutil.copytree(ROOT / name, folder / name, ignore=ignored)
    shutil.copy2(ROOT / "pyproject.toml", folder)
    (folder / "data").symlink_to(ROOT / "data")


def run_tests(folder: Path, arguments: str) -> tuple[int, str]:
    """Exit status of pytest on the sources in `folder`, and what it printed; status 1 if it never ends."""
    printed = folder / "printed.txt"
    child = os.fork()
    if child == 0:
        os.setpgid(0, 0)
        _run_here(folder, arguments, printed)
    began = time.monotonic()
    while True:
        ended, status = os.waitpid(child, os.WNOHANG)
        if ended:
            return os.waitstatus_to_exitcode(status), printed.read_text()
        if time.monotonic() - began > SECONDS:
            os.killpg(child, signal.SIGKILL)
            os.waitpid(child, 0)
            return FAILED, f"FAILED {SECONDS} s were over"
        time.sleep(0.05)


def _run_here(folder: Path, arguments: str, printed: Path) -> None:
    """Run pytest in this process, which ends with it."""
    output = os.open(printed, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    os.dup2(output, 1)
    os.dup2(output, 2)
    for name in [name for name in sys.modules if name.split(".")[0] == "tests"]:
        del sys.modules[name]  # the copy's are meant from here on
    sys.dont_write_bytecode = True
    sys.path.insert(0, str(folder))
    os.environ["PYTHONPATH"] = str(folder)
    os.chdir(folder)
    os.environ["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"
    options = "-x -q -rf --tb=no -p no:cacheprovider -p _hypothesis_pytestplugin --hypothesis-seed=0"
    status = 3
    try:
        status = int(pytest.main([*shlex.split(options), *shlex.split(arguments)]))
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)


def noticed_by(folder: Path, lie: Lie) -> str | None:
    """The first test that fails when the lie is planted; None if all pass."""
    with planted(folder, lie):
        status, printed = run_tests(folder, lie.tests)
    if status < 0:  # compiled code may end the process
        return f"ended by signal {-status}"
    if status not in (PASSED, FAILED, BROKEN):
        raise RuntimeError(f"pytest {lie.tests} ended with status {status}:\n{printed[-2000:]}")
    failed = [line for line in printed.splitlines() if line.startswith(("FAILED", "ERROR"))]
    return None if status == PASSED else (failed or ["FAILED"])[0].split(" - ")[0]


def _own_copy(parent: Path) -> None:
    """Give this process of the pool a copy of the sources of its own."""
    global _folder
    _folder = parent / str(os.getpid())
    _folder.mkdir()
    copy_of_sources(_folder)


def _without_lie(arguments: str) -> str:
    """What is wrong with these tests where no lie is planted; empty if they pass."""
    status, printed = run_tests(_folder, arguments)
    complaint = f"pytest {arguments} ends with status {status} without any lie:\n{printed[-2000:]}"
    return "" if status == PASSED else complaint


def _with_lie(lie: Lie) -> tuple[Lie, str | None, float]:
    """The lie, the test that noticed it, and the seconds that this took."""
    began = time.monotonic()
    noticed = noticed_by(_folder, lie)
    return lie, noticed, time.monotonic() - began


def main(arguments: list[str]) -> int:
    """Plant those lies whose file or text holds one of the words, or all; 1 if too many live."""
    parser = argparse.ArgumentParser(prog="python -m tests.mutants", description=__doc__.splitlines()[0])
    parser.add_argument("words", nargs="*", help="only lies whose file or text holds one of these")
    parser.add_argument("--trust", action="store_true", help="do not run the tests without a lie first")
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), help="lies at the same time")
    options = parser.parse_args(arguments)
    chosen = [lie for lie in lies() if not options.words or any(word in str(lie) for word in options.words)]
    for name in LIBRARIES.split():
        importlib.import_module(name)
    assert not any(name.split(".")[0] == "embviz" for name in sys.modules), "the copy's is meant"
    alive: list[Lie] = []
    fork = multiprocessing.get_context("fork")
    with (
        tempfile.TemporaryDirectory() as temporary,
        ProcessPoolExecutor(options.jobs, fork, _own_copy, (Path(temporary),)) as pool,
    ):
        tests = list(dict.fromkeys(lie.tests for lie in chosen if not options.trust))
        complaints = dict(zip(tests, pool.map(_without_lie, tests), strict=True))
        failing = [name for name, complaint in complaints.items() if complaint]
        for name in failing:
            print(complaints[name], flush=True)
        chosen = [lie for lie in chosen if lie.tests not in failing]
        planted_ones = as_completed(pool.submit(_with_lie, lie) for lie in chosen)
        for number, done in enumerate(planted_ones, start=1):
            lie, noticed, seconds = done.result()
            print(f"{number}/{len(chosen)} {lie}: {noticed or 'LIVES'} ({seconds:.0f} s)", flush=True)
            alive += [] if noticed else [lie]
    print(f"{len(chosen) - len(alive)} of {len(chosen)} lies were noticed", *alive, sep="\n  lives: ")
    for name in failing:
        print(f"not planted, since these tests fail without a lie: {name}")
    return int(bool(failing) or len(chosen) - len(alive) < BAR * len(chosen))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
