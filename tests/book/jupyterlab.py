"""A JupyterLab server for tests and benchmarks: on this machine alone, with folders of its own."""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

from playwright.sync_api import Page

from book.__main__ import LAB_OPTIONS

CHECKOUT = Path(__file__).resolve().parents[2]  # whose claims the copied chapters show
SETTINGS = (
    "--no-browser",
    "--allow-root",  # containers run tests as root
    "--IdentityProvider.token=",
    "--LabApp.expose_app_in_browser=True",  # gives window.jupyterapp, to run commands
    *LAB_OPTIONS,  # as `python -m book lab` starts it
)


@contextlib.contextmanager
def running_lab(folder: Path, state: Path) -> Iterator[str]:
    """Start JupyterLab over `folder`, its settings and workspaces under `state`; gives the address.

    Raises
    ------
    RuntimeError
        If it doesn't answer within 60 seconds; the message has the end of its log.
    """
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    quiet = state / "jupyterlab_settings_dir" / "@jupyterlab" / "apputils-extension"
    quiet.mkdir(parents=True)
    no_news = '{"fetchNews": "false", "checkForUpdates": false}'
    (quiet / "notification.jupyterlab-settings").write_text(no_news)
    names = ("JUPYTER_CONFIG_DIR", "JUPYTER_RUNTIME_DIR", "JUPYTERLAB_SETTINGS_DIR", "IPYTHONDIR")
    folders = {name: str(state / name.lower()) for name in (*names, "JUPYTERLAB_WORKSPACES_DIR")}
    command = [sys.executable, "-m", "jupyterlab", *SETTINGS]
    command += [f"--ServerApp.root_dir={folder}", f"--ServerApp.port={port}", "--ServerApp.port_retries=0"]
    log = state / "jupyterlab.log"
    with open(log, "w", encoding="utf-8") as sink:
        environment = {**os.environ, **folders, "PYTHONPATH": str(CHECKOUT)}
        server = subprocess.Popen(command, env=environment, stdout=sink, stderr=subprocess.STDOUT)
    address = f"http://127.0.0.1:{port}/"
    try:
        _wait(address, server, log)
        yield address
    finally:
        server.terminate()
        try:
            server.wait(20)
        except subprocess.TimeoutExpired:
            server.kill()
            server.wait()


def _wait(address: str, server: subprocess.Popen[bytes], log: Path) -> None:
    for _ in range(240):
        if server.poll() is not None:
            break
        with contextlib.suppress(urllib.error.URLError, ConnectionError):
            urllib.request.urlopen(f"{address}api", timeout=5).close()
            return
        time.sleep(0.25)
    raise RuntimeError(f"JupyterLab did not answer at {address}: {log.read_text(encoding='utf-8')[-1500:]}")


def open_notebook(page: Page, address: str, name: str) -> None:
    """Open a notebook and wait until its kernel can be asked."""
    workspace = name.removesuffix(".ipynb")  # one each, or the last test's tabs are restored too
    page.goto(f"{address}lab/workspaces/{workspace}/tree/{name}")
    page.wait_for_function("window.jupyterapp?.shell?.currentWidget?.context?.isReady", timeout=60_000)
    page.wait_for_function(
        "['idle'].includes(window.jupyterapp.shell.currentWidget.sessionContext.session?.kernel?.status)",
        timeout=60_000,
    )


def run_all(page: Page) -> None:
    """Run every cell of the open notebook and wait for the last."""
    page.evaluate("window.jupyterapp.commands.execute('notebook:run-all-cells')")
