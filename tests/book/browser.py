"""Chromium for the tests: found, started, kept from the network; and the time from a key press to pixels."""

from __future__ import annotations

import contextlib
import functools
import http.server
import shutil
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from playwright.sync_api import Browser, BrowserContext, Page, Request, sync_playwright

FLAGS = [
    *("--no-sandbox", "--disable-gpu", "--no-first-run"),
    *("--disable-quic", "--disable-background-networking", "--disable-component-update", "--disable-sync"),
    "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1",  # no test reaches another host
]

# What readers wait for: from the key's own time stamp to the frame after the last change of the drawing.
LATENCY = """
(element) => new Promise((resolve) => {
  let pressed, drawn, timer;
  const drawing = element.closest(".embviz").querySelector(".embviz-chart");
  const finish = () => { observer.disconnect(); resolve(drawn === undefined ? null : drawn - pressed); };
  const observer = new MutationObserver(() => requestAnimationFrame(() => setTimeout(() => {
    drawn = performance.now(); clearTimeout(timer); timer = setTimeout(finish, 120);
  })));
  element.addEventListener("keydown", (event) => {
    pressed = event.timeStamp; timer = setTimeout(finish, 3000);
    observer.observe(drawing, {subtree: true, childList: true, attributes: true, characterData: true});
  }, {once: true});
})
"""


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

    def follow(self, page: Page) -> None:
        """Record from now on."""
        page.on("pageerror", lambda error: self.errors.append(f"{page.url}: {error}"))
        page.on(
            "console",
            lambda message: (
                self.errors.append(f"{page.url}: {message.text}")
                if message.type in ("error", "warning")
                else None
            ),
        )

    def follow_requests(self, source: BrowserContext | Page, home: str) -> None:
        """Record each request that isn't for `home` (an address or ``file://``); none of them is answered.

        A request that the page's own policy refused is not recorded: it was never sent.
        """
        source.set_default_timeout(60_000)  # a busy machine is not a wrong page

        def record(request: Request) -> None:
            if not request.url.startswith((home, "data:", "blob:")) and request.url not in self.strangers:
                self.strangers.append(request.url)

        def forget(request: Request) -> None:
            if request.failure == "csp" and request.url in self.strangers:
                self.strangers.remove(request.url)

        source.on("request", record)
        source.on("requestfailed", forget)


def measure_latency(page: Page, slider: str, *, n_moves: int = 40) -> list[float]:
    """Milliseconds from each arrow-key press on a slider to the frame after the last redraw.

    Parameters
    ----------
    page : Page
        With an explorer drawn on it, in the book or in JupyterLab.
    slider : str
        Selector of one range input of an explorer.
    n_moves : int, default 40
        Presses, back and forth, each after the last one's drawing has come to rest.

    Raises
    ------
    RuntimeError
        If a press changed nothing within 3 seconds.
    """
    element = page.locator(slider).first
    element.scroll_into_view_if_needed()
    element.focus()
    times = []
    for move in range(n_moves):
        handle = element.evaluate_handle(f"(element) => ({{ wait: ({LATENCY})(element) }})")
        page.keyboard.press("ArrowRight" if move % 8 < 4 else "ArrowLeft")
        took = handle.evaluate("(armed) => armed.wait")
        if took is None:
            raise RuntimeError(f"move {move} of {slider} changed nothing within 3 s")
        times.append(float(took))
    return times
