"""The smallest paper that works: one claim, one experiment with a control, one chapter, a test."""

from __future__ import annotations

import keyword
import re
from pathlib import Path

from book.ledger.places import ROOT

TEMPLATE = Path(__file__).with_name("template")  # its files end in .txt, so that nothing counts them
PAPER = "my_paper"  # the name that the template's files have
PART = "- caption: {title}\n  numbered: 1\n  chapters:\n  - file: {name}/neighbours\n"
LAST_PART = "- caption: Back matter\n"


def new_paper(name: str, root: Path = ROOT) -> list[Path]:
    """Write the files of a paper called `name` into the checkout `root`, and its part into ``_toc.yml``.

    Parameters
    ----------
    name : str
        Key of the paper, and its folder in ``book``: small letters, digits, underscores.

    Returns
    -------
    list of Path
        The files written, below `root`; ``book/_toc.yml`` is the last.

    Raises
    ------
    FileExistsError
        If the name is taken. Nothing was written then.
    """
    if not re.fullmatch("[a-z][a-z0-9_]*", name) or keyword.iskeyword(name):
        raise ValueError(
            f"{name!r} cannot be a module's name: use small letters, digits and underscores, and no "
            "keyword of Python, such as my_paper"
        )
    for taken in (f"book/{name}", f"book/{name}.py", f"data/claims/{name}.toml", f"tests/book/{name}"):
        if (root / taken).exists():
            raise FileExistsError(f"{root / taken} is there already: nothing was written")
    title = name.replace("_", " ").capitalize()
    contents = {}
    for file in sorted(path for path in TEMPLATE.rglob("*.txt")):
        place = str(file.relative_to(TEMPLATE)).removesuffix(".txt").replace(PAPER, name)
        text = file.read_text(encoding="utf-8")
        contents[Path(place)] = text.replace(PAPER, name).replace("My paper", title)
    before, last, after = (root / "book" / "_toc.yml").read_text(encoding="utf-8").partition(LAST_PART)
    contents[Path("book", "_toc.yml")] = before + PART.format(title=title, name=name) + last + after
    for written, text in contents.items():
        (root / written).parent.mkdir(parents=True, exist_ok=True)
        (root / written).write_text(text, encoding="utf-8")
    return list(contents)
