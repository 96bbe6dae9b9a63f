"""How large the project is, beside the budgets of budgets.toml.

`python -m tests.budgets` prints today's counts; with `--write` they become the budgets.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
FILE = Path(__file__).with_name("budgets.toml")
BUDGETS = tomllib.loads(FILE.read_text(encoding="utf-8"))


def listed(*patterns: str) -> list[Path]:
    """Files that git knows by these patterns, and that are there."""
    names = subprocess.check_output(["git", "ls-files", "--", *patterns], cwd=ROOT, encoding="utf-8")
    return [path for name in names.splitlines() if (path := ROOT / name).is_file()]


def lines(folders: str) -> int:
    """Lines of all *.py in some folders, or of a pattern with a star."""
    patterns = [f":(glob){name}" if "*" in name else f":(glob){name}/**/*.py" for name in folders.split()]
    return sum(path.read_bytes().count(b"\n") for path in listed(*patterns))


def book() -> dict[str, float]:
    """What the book consists of."""
    cells = [
        cell
        for path in listed("book/*.ipynb")
        for cell in json.loads(path.read_text(encoding="utf-8"))["cells"]
    ]
    code = ["".join(cell["source"]) for cell in cells if cell["cell_type"] == "code"]
    prose = ["".join(cell["source"]) for cell in cells if cell["cell_type"] == "markdown"]
    prose += [path.read_text(encoding="utf-8") for path in listed("book/*.md")]
    toc = (ROOT / "book" / "_toc.yml").read_text(encoding="utf-8")
    numbered = [part for part in toc.split("- caption:") if "numbered:" in part]
    claims = json.loads((ROOT / "data" / "ledger.json").read_text(encoding="utf-8"))
    rows = [row for claim in claims for row in claim["rows"]]
    return {
        "numbered pages": sum(len(re.findall(r"- file:", part)) for part in numbered),
        "code cells": len(code),
        "lines of code in cells": sum(len(source.splitlines()) for source in code),
        "words": sum(len(source.split()) for source in prose),
        "claims": len(claims),
        "deciding measurements": sum("accept" in row["measurement"] for row in rows),
        "MB of results": round(sum(path.stat().st_size for path in listed("data/results")) / 1e6, 1),
    }


def counts() -> dict[str, tuple[float, float]]:
    """What is there now, and its budget, by name."""
    now = {folders: lines(folders) for folders in BUDGETS["lines"]} | book()
    return {name: (now[name], budget) for name, budget in (BUDGETS["lines"] | BUDGETS["book"]).items()}


def faults() -> list[str]:
    """What is above its budget, or more than 5% below it."""
    return [
        f"{name}: {now:,} is above {budget:,}" if now > budget else f"{name}: lower the budget to {now}"
        for name, (now, budget) in counts().items()
        if not 0.95 * budget <= now <= budget
    ]


if __name__ == "__main__":
    text = FILE.read_text(encoding="utf-8")
    for name, (now, budget) in counts().items():
        print(f"{now:>10,} of {budget:>10,}  {name}")
        text = text.replace(f'"{name}" = {budget}', f'"{name}" = {now}')
    if "--write" in sys.argv:
        FILE.write_text(text, encoding="utf-8")
