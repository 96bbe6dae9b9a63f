"""A plugin for pytest: kernels of chapters are forked from a process that has imported the libraries.

    python -m pytest -p tests.forked_kernels --nbval book/kernel/clamp.ipynb

Each chapter has a kernel of its own, and importing the libraries takes some five seconds of CPU. Here one
process imports them for all workers of a session. It imports nothing of this project. Where a process cannot
be forked safely (macOS, Windows) kernels start as usual.

At the end it says which chapters took most of the processor, without that import. The session fails if one
took more than the budget in tests/budgets.toml, which counts in imports: machines differ in their seconds.
Chapters that compute what is stored (EMBVIZ_COMPUTE=1) have no budget.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import selectors
import signal
import socket
import subprocess
import sys
import tempfile
import time
import tomllib
from pathlib import Path
from typing import Any, NoReturn

LIBRARIES = (
    "ipykernel.kernelapp ipykernel.ipkernel altair anywidget ipywidgets joblib numba pandas pyarrow.parquet"
    " pydantic safetensors.numpy scipy.stats scipy.sparse.linalg"
    " sklearn.cluster sklearn.neighbors torch torch._dynamo hdbscan"
)
NAME = "embviz_forked"  # of the kernel, in this session only
ADDRESS = "EMBVIZ_FORKED_KERNELS"  # path of the socket on which the process listens
SAFE_THREADS = {"jemalloc_bg_thd"}  # pyarrow's allocator, which knows how to be forked
CHAPTER = "EMBVIZ_CHAPTER"  # path of the chapter whose kernel it is
SLOWEST = 5  # chapters that are named
IMPORT = "import"  # in place of a chapter
BUDGETS = Path(__file__).with_name("budgets.toml")
REQUEST = 1 << 20  # bytes, more than an environment takes

_session = contextlib.ExitStack()


# --- in pytest --------------------------------------------------------------------------------------


def pytest_configure(config: Any) -> None:
    """Start the process, in the first pytest of a session with chapters; its workers find it."""
    chapters = any(".ipynb" in str(argument) for argument in config.args)
    if ADDRESS not in os.environ and chapters and sys.platform == "linux":
        folder = Path(_session.enter_context(tempfile.TemporaryDirectory(prefix="kernels-")))
        kernel = folder / "kernels" / NAME
        kernel.mkdir(parents=True)
        argv = [sys.executable, __file__, "kernel", "{connection_file}"]
        specification = {"argv": argv, "display_name": NAME, "language": "python"}
        (kernel / "kernel.json").write_text(json.dumps(specification))
        others = [os.environ["JUPYTER_PATH"]] if "JUPYTER_PATH" in os.environ else []
        os.environ["JUPYTER_PATH"] = os.pathsep.join([str(folder), *others])
        os.environ[ADDRESS] = str(folder / "socket")
        process = subprocess.Popen([sys.executable, __file__, "serve"], stdin=subprocess.PIPE)
        assert process.stdin is not None
        _session.callback(process.wait)
        _session.callback(process.stdin.close)  # which ends it
        _session.callback(os.environ.pop, ADDRESS)
    if ADDRESS in os.environ:
        config.option.nbval_kernel_name = NAME


def _seconds() -> dict[str, float]:
    """CPU seconds of each chapter so far, and of the import; none in a worker, or without forked kernels."""
    file = Path(os.environ.get(ADDRESS, "none")).with_name("seconds")
    if "PYTEST_XDIST_WORKER" in os.environ or not file.is_file():
        return {}
    lines = [line.split(maxsplit=1) for line in file.read_text().splitlines()]
    return {name: float(seconds) for seconds, name in lines}


def _slowest() -> tuple[str, float, float]:
    """The chapter that took longest, how many imports it took, and how many it may take."""
    took = _seconds()
    unit = took.pop(IMPORT)
    budget = tomllib.loads(BUDGETS.read_text(encoding="utf-8"))["time"]["imports of the slowest chapter"]
    budget = float("inf") if os.environ.get("EMBVIZ_COMPUTE") == "1" else budget
    chapter = max(took, key=took.__getitem__)
    return chapter, took[chapter] / unit, budget


def pytest_sessionfinish(session: Any) -> None:
    """Fail if a chapter takes longer than it may."""
    if len(_seconds()) > 1:
        _, n_imports, budget = _slowest()
        if n_imports > budget:
            session.exitstatus = session.exitstatus or 1


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """The chapters that took most of the processor."""
    took = _seconds()
    if len(took) > 1:
        unit = took.pop(IMPORT)
        most = sorted(took, key=took.__getitem__, reverse=True)[:SLOWEST]
        named = ", ".join(f"{chapter} {took[chapter]:.1f}" for chapter in most)
        terminalreporter.line(f"chapters, CPU seconds: {sum(took.values()):.0f} in all; {named}")
        chapter, n_imports, budget = _slowest()
        said = f"{chapter} took {n_imports:.2f} imports of the libraries ({unit:.1f} s), {budget} allowed"
        terminalreporter.line(said, red=n_imports > budget)


def pytest_unconfigure() -> None:
    """End the process, in the pytest that started it."""
    _session.close()


# --- the process that Jupyter starts for a kernel and watches ---------------------------------------


def stand_for_kernel(connection_file: str) -> None:
    """Ask for a kernel and end with it; an interrupt goes on to it."""
    with socket.socket(socket.AF_UNIX) as line:
        for _ in range(600):
            with contextlib.suppress(FileNotFoundError, ConnectionRefusedError):
                line.connect(os.environ[ADDRESS])
                break
            time.sleep(0.1)
        signal.signal(signal.SIGINT, lambda *_: line.send(b"interrupt"))
        request = {"file": connection_file, "folder": os.getcwd(), "environment": dict(os.environ)}
        socket.send_fds(line, [json.dumps(request).encode()], [0, 1, 2])
        line.recv(1)  # nothing comes but the end


# --- the process from which kernels are forked ------------------------------------------------------


def serve() -> None:
    """Fork kernels until standard input ends."""
    os.environ["JPY_PARENT_PID"] = str(os.getpid())  # a kernel ends when this process does
    with socket.socket(socket.AF_UNIX) as door, selectors.DefaultSelector() as waiting:
        door.bind(os.environ[ADDRESS])
        door.listen()
        for name in LIBRARIES.split():
            importlib.import_module(name)
        _note_seconds(IMPORT, time.process_time())
        threads = {path.read_text().strip() for path in Path("/proc/self/task").glob("[0-9]*/comm")}
        assert len(threads - SAFE_THREADS) == 1, f"a process with threads is forked: {threads}"
        waiting.register(sys.stdin, selectors.EVENT_READ)
        waiting.register(door, selectors.EVENT_READ)
        kernels: dict[socket.socket, int] = {}
        chapters: dict[int, str] = {}
        while True:
            for key, _ in waiting.select():
                if key.fileobj is sys.stdin:
                    for kernel in kernels.values():
                        os.kill(kernel, signal.SIGKILL)
                    return
                if key.fileobj is door:
                    line, _ = door.accept()
                    kernels[line], chapter = _forked(line)
                    chapters[kernels[line]] = chapter
                    waiting.register(line, selectors.EVENT_READ)
                    waiting.register(os.pidfd_open(kernels[line]), selectors.EVENT_READ, line)
                elif key.data is not None:  # a kernel has ended
                    used = os.wait4(kernels[key.data], 0)[2]
                    _note_seconds(chapters.pop(kernels.pop(key.data)), used.ru_utime + used.ru_stime)
                    waiting.unregister(key.fileobj)
                    os.close(key.fd)
                    waiting.unregister(key.data)
                    key.data.close()
                elif isinstance(key.fileobj, socket.socket) and key.fileobj in kernels:
                    said = key.fileobj.recv(100)
                    os.kill(kernels[key.fileobj], signal.SIGINT if said else signal.SIGKILL)


def _note_seconds(name: str, seconds: float) -> None:
    if name:
        with Path(os.environ[ADDRESS]).with_name("seconds").open("a") as file:
            file.write(f"{seconds:.2f} {name}\n")


def _forked(line: socket.socket) -> tuple[int, str]:
    """The process of a new kernel, as asked for on the line, and its chapter."""
    text, descriptors, _, _ = socket.recv_fds(line, REQUEST, 3)
    request = json.loads(text)
    process = os.fork()
    if process == 0:
        _become_kernel(request, descriptors)
    for descriptor in descriptors:
        os.close(descriptor)
    return process, request["environment"].get(CHAPTER, "")


def _become_kernel(request: dict[str, Any], descriptors: list[int]) -> NoReturn:
    from ipykernel.kernelapp import IPKernelApp

    try:
        os.setsid()
        for place, descriptor in enumerate(descriptors):
            os.dup2(descriptor, place)
        os.closerange(3, 1024)
        os.environ.clear()
        os.environ.update(request["environment"])
        os.chdir(request["folder"])
        sys.path[0] = request["folder"]
        IPKernelApp.launch_instance(argv=["-f", request["file"]])
    finally:
        os._exit(0)


if __name__ == "__main__":
    if sys.argv[1] == "serve":
        serve()
    else:
        stand_for_kernel(sys.argv[2])
