"""Run chapters and store their outputs in the form that the book shows and nbval compares.

``python book/execute.py`` runs every chapter; name some to run only those; ``--check`` runs none and says
what isn't in the stored form. A second run writes the same bytes. ``--compute`` computes what `in_view` shows
again and stores it; otherwise the stored results are shown.
"""

from __future__ import annotations

import argparse
import os
import re
import sys
from pathlib import Path
from typing import Any

import nbformat
from nbclient import NotebookClient

from embviz.storage import whole_file

BOOK = Path(__file__).resolve().parent
VEGA_LITE = "application/vnd.vegalite.v5+json"
WIDGET = "application/vnd.jupyter.widget-view+json"
SIZE_LIMIT = 2_000_000  # bytes a chapter: what a reader with a slow line still waits for
KERNEL = {"display_name": "Python 3", "language": "python", "name": "python3"}
CELL_METADATA = {"tags", "mystnb"}  # what an author writes; the rest is a program's memory


def chapters(folder: Path = BOOK) -> list[Path]:
    """Every notebook of the book, in order of path."""
    hidden = {"_build", ".ipynb_checkpoints", "assets"}
    return sorted(
        path for path in folder.rglob("*.ipynb") if not hidden & set(path.relative_to(folder).parts)
    )


def execute(notebook: nbformat.NotebookNode, folder: Path, *, timeout: int) -> None:
    """Run all cells in a fresh kernel that works in `folder`; outputs are stored in the notebook.

    Raises
    ------
    nbclient.exceptions.CellExecutionError
        If a cell raises; the message has its source and traceback.
    """
    NotebookClient(
        notebook,
        timeout=timeout,
        kernel_name="python3",
        resources={"metadata": {"path": str(folder)}},
        record_timing=False,
        store_widget_state=False,
    ).execute()


def clean(notebook: nbformat.NotebookNode) -> None:
    """Leave only what readers and nbval need, in place.

    Where a Vega-Lite twin stands beside a widget's view, the view goes: a page without a kernel would show
    a widget that was not found instead of the twin.
    """
    notebook.metadata = nbformat.from_dict({"kernelspec": KERNEL, "language_info": {"name": "python"}})
    count = 0
    for cell in notebook.cells:
        cell.metadata = nbformat.from_dict({k: v for k, v in cell.metadata.items() if k in CELL_METADATA})
        if cell.cell_type != "code":
            continue
        count += 1
        cell.execution_count = count
        for output in cell.outputs:
            if "execution_count" in output:
                output.execution_count = count
            if "data" in output:
                output.metadata = nbformat.from_dict({})
                if VEGA_LITE in output.data:
                    output.data.pop(WIDGET, None)
        cell.outputs = joined_streams(cell.outputs)


def joined_streams(outputs: list[nbformat.NotebookNode]) -> list[nbformat.NotebookNode]:
    """The same outputs with neighbouring pieces of one stream joined, since where they're cut is chance."""
    joined: list[nbformat.NotebookNode] = []
    for output in outputs:
        last = joined[-1] if joined else None
        if (
            last is not None
            and output.output_type == "stream" == last.output_type
            and output.name == last.name
        ):
            last.text += output.text
        else:
            joined.append(output)
    return joined


def faults(notebook: nbformat.NotebookNode, text: str) -> list[str]:
    """What keeps a stored chapter from being shown or compared, a sentence each."""
    found = []
    size = len(text.encode())
    if size > SIZE_LIMIT:
        found.append(f"{size:,} bytes, more than {SIZE_LIMIT:,}: show fewer points, or a coarser grid")
    for index, cell in enumerate(notebook.cells):
        if cell.cell_type != "code":
            continue
        if cell.source.strip() and cell.execution_count is None:
            found.append(f"cell {index} has not been run")
        for output in cell.outputs:
            found += [f"cell {index} {fault}" for fault in output_faults(output, cell)]
    if text != serialized(cleaned_copy(notebook)):
        found.append("not in the stored form (metadata, widget views or counts): run book/execute.py on it")
    return found


def output_faults(output: Any, cell: Any) -> list[str]:
    """Faults of one output: an error nobody announced, a widget without a twin, a warning."""
    if output.output_type == "error" and "raises-exception" not in cell.metadata.get("tags", []):
        return [f"raised {output.ename}: {output.evalue}"]
    if output.output_type == "stream" and output.name == "stderr":
        return [f"wrote to stderr: {output.text.strip()[:120]}"]
    meta = output.get("data", {}).get(VEGA_LITE, {}).get("usermeta", {}).get("embviz", {})
    if "gaps" in meta:
        return [f"shows an explorer that could not be measured at some values: {meta['gaps'][0]['message']}"]
    if "first" in meta:
        return ["shows an explorer's first picture alone: run book/execute.py on the chapter"]
    if WIDGET in output.get("data", {}) and VEGA_LITE not in output.data:
        return ["shows a widget that a page without a kernel can't: give it a Vega-Lite twin"]
    return []


def cleaned_copy(notebook: nbformat.NotebookNode) -> nbformat.NotebookNode:
    """A cleaned copy; the argument stays as it is."""
    copy = nbformat.reads(nbformat.writes(notebook), as_version=4)
    clean(copy)
    return copy


def serialized(notebook: nbformat.NotebookNode) -> str:
    """The file's text: keys sorted, lists of numbers on one line (a third of the size)."""
    text: str = nbformat.writes(notebook, version=4, indent=1, sort_keys=True)
    # a newline never stands inside a JSON string, so what matches is a list, and of numbers alone
    text = re.sub(r'\[\n([^][{}"]*)\n *\]', lambda found: f"[{' '.join(found[1].split())}]", text)
    return text.rstrip("\n") + "\n"


def store(path: Path, *, timeout: int) -> list[str]:
    """Run one chapter and write it back; returns its faults (it's written all the same)."""
    notebook = nbformat.read(path, as_version=4)
    execute(notebook, path.parent, timeout=timeout)
    clean(notebook)
    nbformat.validate(notebook)
    text = serialized(notebook)
    with whole_file(path) as temporary:
        temporary.write_text(text, encoding="utf-8")
    return faults(notebook, text)


def check(path: Path) -> list[str]:
    """Faults of one chapter as it is stored."""
    text = path.read_text(encoding="utf-8")
    return faults(nbformat.reads(text, as_version=4), text)


def main(arguments: list[str] | None = None) -> int:
    """Command line; the exit status is 1 when a chapter has a fault."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("chapters", nargs="*", type=Path, help="notebooks; by default all of the book")
    parser.add_argument(
        "--check", action="store_true", help="run nothing, say what is not in the stored form"
    )
    parser.add_argument(
        "--compute", action="store_true", help="compute what in_view shows again, and store it"
    )
    parser.add_argument("--timeout", type=int, default=600, help="seconds a cell may take (default 600)")
    chosen = parser.parse_args(arguments)
    if not chosen.check:
        # one thread sums in one order; nbval compares on machines with other counts
        os.environ.setdefault("OMP_NUM_THREADS", "1")
        os.environ["EMBVIZ_GRIDS"] = "1"  # pages have no kernel to measure with
        os.environ["EMBVIZ_COMPUTE"] = "store" if chosen.compute else ""
    status = 0
    for path in chosen.chapters or chapters():
        found = check(path) if chosen.check else store(path, timeout=chosen.timeout)
        print(f"{path}: {'; '.join(found) or 'as stored' if chosen.check else '; '.join(found) or 'stored'}")
        status |= bool(found)
    return int(status)


if __name__ == "__main__":
    sys.exit(main())
