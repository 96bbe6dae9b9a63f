"""Chromium for the tests: found, started, kept from the network."""

from __future__ import annotations

import contextlib
import functools
import http.server
import shutil
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from playwright.sync_api import Browser, BrowserContext, ConsoleMessage, Page, Request, sync_playwright

DESKTOP = {"width": 1280, "height": 900}
PROBES = Path(__file__).with_name("probes.js")

FLAGS = [
    *("--no-sandbox", "--disable-gpu", "--no-first-run"),
    *("--disable-quic", "--disable-background-networking", "--disable-component-update", "--disable-sync"),
    "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1",  # no test reaches another host
]


def find_chromium() -> str | None:
    """Path of a Chromium of this machine, or None."""
    return next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)


@contextlib.contextmanager
def running_chromium() -> Iterator[Browser]:
    """A headless Chromium with a fresh profile, closed at the end.

    Raises
    ------
    RuntimeError
        If none is installed; the message says what to install.
    """
    path = find_chromium()
    if path is None:
        raise RuntimeError("no Chromium on PATH: install Debian's `chromium` (apt-get install chromium)")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=FLAGS)
        try:
            yield browser
        finally:
            browser.close()


class _QuietHandler(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *_: object) -> None:
        pass


@contextlib.contextmanager
def served(folder: Path) -> Iterator[str]:
    """Serve a folder on this machine alone; gives the address, ending in a slash."""
    handler = functools.partial(_QuietHandler, directory=str(folder))
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


@dataclass
class Watch:
    """What a page did that it should not: errors on its console, requests to other hosts, missing files."""

    errors: list[str] = field(default_factory=list)
    strangers: list[str] = field(default_factory=list)

    def follow(self, context: BrowserContext, home: str) -> None:
        """Record errors, and requests that are not for `home` (an address or ``file://``); none is answered.

        A request that the page's own policy refused is not recorded: it was never sent.
        """

        def record(request: Request) -> None:
            if not request.url.startswith((home, "data:", "blob:")) and request.url not in self.strangers:
                self.strangers.append(request.url)

        def forget(request: Request) -> None:
            if request.failure == "csp" and request.url in self.strangers:
                self.strangers.remove(request.url)

        def hear(message: ConsoleMessage) -> None:
            if message.type in ("error", "warning"):
                self.errors.append(f"{message.location['url']}: {message.text}")

        context.set_default_timeout(60_000)  # a busy machine is not a wrong page
        context.on("weberror", lambda error: self.errors.append(str(error.error)))
        context.on("console", hear)
        context.on("request", record)
        context.on("requestfailed", forget)

    @property
    def faults(self) -> list[str]:
        """Both, as sentences."""
        return [*self.errors, *(f"asked {address}" for address in self.strangers)]


@contextlib.contextmanager
def tab(chromium: Browser, home: str, watch: Watch | None = None, **options: Any) -> Iterator[Page]:
    """A page in a window of its own, with the probes; at its end it must have done nothing wrong.

    Parameters
    ----------
    chromium : Browser
        The browser.
    home : str
        The only address that may be asked, or ``file://`` or ``about:``.
    watch : Watch, optional
        Records what the page does; then the test checks that itself.
    options
        Of the window, in place of a desktop's.
    """
    context = chromium.new_context(**{"viewport": DESKTOP, "color_scheme": "light", **options})
    own = watch or Watch()
    try:
        own.follow(context, home)
        context.add_init_script(path=PROBES)
        page = context.new_page()
        yield page
        if watch is None:
            page.evaluate("0")  # what the page has said until now is heard
            assert not own.faults, own.faults
    finally:
        context.close()


def settle(page: Page) -> None:
    """Wait until charts are drawn and formulas set."""
    page.wait_for_function("probes.isReady()")
    page.evaluate("window.MathJax?.startup?.promise?.then(() => true) ?? true")


def until(page: Page, condition: Callable[[], bool]) -> None:
    """Let a page and what it says to the test go on until a condition holds here."""
    limit = time.monotonic() + 60
    while not condition():
        if time.monotonic() > limit:
            raise AssertionError("waited for a minute")
        page.wait_for_timeout(10)
