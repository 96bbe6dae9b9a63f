"""Tell the browser on every page that it may ask this book, and no other host, for anything."""

from __future__ import annotations

from typing import Any

from sphinx.application import Sphinx

# A page from the file system has no host: there "file:" stands for the book itself. Vega compiles the
# expressions of a chart ('unsafe-eval'), and Sphinx writes small scripts and styles into its pages.
SOURCES = {
    "default-src": "'self' file:",
    "script-src": "'self' file: 'unsafe-inline' 'unsafe-eval'",
    "style-src": "'self' file: 'unsafe-inline'",
    "img-src": "'self' file: data: blob:",
    "font-src": "'self' file: data:",
    "object-src": "'none'",
    "base-uri": "'none'",
    "form-action": "'self' file:",
}
POLICY = "; ".join(f"{kind} {sources}" for kind, sources in SOURCES.items())


def add_policy(
    _app: Sphinx, _page: str, _template: str, context: dict[str, Any], _doctree: object | None
) -> None:
    """Put the policy before everything else in a page's head: what stands above it would escape it."""
    meta = f'<meta http-equiv="Content-Security-Policy" content="{POLICY}" />'
    context["metatags"] = meta + context.get("metatags", "")


def setup(app: Sphinx) -> dict[str, bool]:
    """Sphinx's entry."""
    app.connect("html-page-context", add_policy)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
