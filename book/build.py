"""Build the book's pages on all cores, warnings as errors.

``jupyter-book build book`` writes the same pages on one core; it has no option for more.
"""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

from jupyter_book.sphinx import build_sphinx

BOOK = Path(__file__).resolve().parent


def build(source: Path, output: Path, *, jobs: int) -> int:
    """Build a book's pages into ``output/_build/html``; gives the exit status.

    Parameters
    ----------
    source : Path
        Folder with ``_config.yml`` and ``_toc.yml``.
    output : Path
        Folder in which ``_build`` is made.
    jobs : int
        Processes; Sphinx forks them, and takes one where that is not to be had.
    """
    complete = output / "_build" / "complete"  # there if the last build was not interrupted
    fresh = not complete.exists()
    complete.unlink(missing_ok=True)
    status = build_sphinx(
        source,
        output / "_build" / "html",
        noconfig=True,
        path_config=source / "_config.yml",
        confoverrides={
            "external_toc_path": (source / "_toc.yml").as_posix(),
            "latex_individualpages": False,
            "nitpicky": True,
        },
        warningiserror=True,
        quiet=True,
        freshenv=fresh,  # an interrupted build leaves a search index that no later build can complete
        jobs=jobs,
    )
    if status == 0:
        complete.touch()
    return status if isinstance(status, int) else 1  # an exception, which is already printed


def main(arguments: list[str] | None = None) -> int:
    """Command line; the exit status is 1 when something is wrong with a page."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("source", nargs="?", type=Path, default=BOOK, help="by default this book")
    parser.add_argument("--output", type=Path, help="folder for _build, by default the source")
    parser.add_argument(
        "--jobs", type=int, default=os.cpu_count() or 1, help="processes, by default all cores"
    )
    chosen = parser.parse_args(arguments)
    source = chosen.source.resolve()
    return build(source, (chosen.output or source).resolve(), jobs=chosen.jobs)


if __name__ == "__main__":
    sys.exit(main())
