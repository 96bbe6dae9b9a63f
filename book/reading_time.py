"""How long a chapter takes: minutes from its words, its open lines of code and its pictures.

``python book/reading_time.py`` names the chapters whose head says otherwise; ``--write`` corrects them.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from pathlib import Path

BOOK = Path(__file__).resolve().parent
WORDS_A_MINUTE = 200  # of technical prose, formulas included
LINES_A_MINUTE = 12  # of code that is open to the reader
PICTURES_A_MINUTE = 1
STEP = 5  # minutes; a chapter's head says no finer
SLACK = 0.25  # of the minutes: readers differ by more, and small edits need no new head
SOLUTIONS = re.compile(r"^(`{3,})\{dropdown\} Solutions.*?^\1$", re.MULTILINE | re.DOTALL)
HEAD = re.compile(r"\*\*Prerequisites:\*\* (.+)\. \*\*Time:\*\* about (\d+) minutes\.")


def minutes(notebook: Path) -> float:
    """The time that a chapter takes, without its exercises' solutions and without folded code."""
    words = lines = pictures = 0
    for cell in json.loads(notebook.read_text(encoding="utf-8"))["cells"]:
        source = "".join(cell["source"])
        if cell["cell_type"] == "markdown":
            words += len(SOLUTIONS.sub("", source).split())
            continue
        if not any(tag.startswith(("hide", "remove")) for tag in cell["metadata"].get("tags", [])):
            lines += sum(bool(line.strip()) for line in source.splitlines())
        pictures += any("vega" in kind for output in cell["outputs"] for kind in output.get("data", {}))
    return words / WORDS_A_MINUTE + lines / LINES_A_MINUTE + pictures / PICTURES_A_MINUTE


def estimated_minutes(notebook: Path) -> int:
    """The same, in steps of five minutes, as a chapter's head says it."""
    return max(STEP, STEP * round(minutes(notebook) / STEP))


def differs(notebook: Path) -> bool:
    """Whether the head of a chapter that has one is off by more than five minutes and a quarter."""
    found = HEAD.search(notebook.read_text(encoding="utf-8"))
    estimate = minutes(notebook)
    return found is not None and abs(int(found[2]) - estimate) > max(STEP, SLACK * estimate)


def corrected(notebook: Path) -> str:
    """The text of a notebook whose head says the estimated minutes."""
    text = notebook.read_text(encoding="utf-8")
    says = f"about {estimated_minutes(notebook)} minutes."
    return HEAD.sub(lambda found: re.sub(r"about \d+ minutes\.$", says, found[0]), text, count=1)


def main(arguments: list[str] | None = None) -> int:
    """Command line; the exit status is 1 where a head is off and was not corrected."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--write", action="store_true", help="correct the heads")
    write = parser.parse_args(arguments).write
    off = [path for path in sorted(BOOK.rglob("*.ipynb")) if "_build" not in path.parts and differs(path)]
    for path in off:
        print(f"{path.relative_to(BOOK)}: {minutes(path):.0f} minutes")
        if write:
            path.write_text(corrected(path), encoding="utf-8")
    return int(bool(off) and not write)


if __name__ == "__main__":
    sys.exit(main())
