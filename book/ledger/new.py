"""The smallest project that works: one claim, one experiment with a control, one chapter, a test."""

from __future__ import annotations

import importlib.util
import keyword
import os
import re
import sys
from pathlib import Path

TEMPLATE = Path(__file__).with_name("template")
PAPER = "my_paper"  # the name that the template's files have


def new_project(name: str, folder: str | os.PathLike[str] | None = None) -> list[Path]:
    """Write a project for the paper `name`.

    Parameters
    ----------
    name : str
        Key of the paper, and name of its Python package below ``book``: small letters, digits, underscores.
    folder : path, optional
        Where to write it; by default a folder called `name` in the working directory.

    Returns
    -------
    list of Path
        The files written.

    Raises
    ------
    ValueError
        If the name is none that a module can have, or that of an installed one; if the folder lies inside
        of a project.
    FileExistsError
        If one of the files is there already. Nothing was written then.
    """
    _check_name(name)
    root = Path(name if folder is None else folder).expanduser().resolve()
    contents = _contents(name)
    for file in contents:
        if (root / file).exists():
            raise FileExistsError(
                f"{root / file} is there already: nothing was written, choose another folder"
            )
    for file, text in contents.items():
        (root / file).parent.mkdir(parents=True, exist_ok=True)
        (root / file).write_text(text, encoding="utf-8")
    return [root / file for file in contents]


def _contents(name: str) -> dict[Path, str]:
    """The template's files under the paper's name; in the template Python files end in .txt."""
    texts = {
        str(file.relative_to(TEMPLATE)).removesuffix(".txt"): file.read_text(encoding="utf-8")
        for file in sorted(TEMPLATE.rglob("*"))
        if file.is_file()
    }
    return {Path(_named(file, name)): _named(text, name) for file, text in texts.items()}


def _named(text: str, name: str) -> str:
    title = name.replace("_", " ")
    return text.replace(PAPER, name).replace("My paper", title[0].upper() + title[1:])


def _check_name(name: str) -> None:
    if not re.fullmatch("[a-z][a-z0-9_]*", name) or keyword.iskeyword(name):
        raise ValueError(
            f"{name!r} can't name a paper's package: use small letters, digits and underscores, and no word "
            "of Python's own, such as my_paper"
        )
    if name in {"book", "data", "tests"} | sys.stdlib_module_names or _installed(name):
        raise ValueError(
            f"{name!r} is taken, by a module or by a folder that each project has: choose another"
        )


def _installed(name: str) -> bool:
    spec = importlib.util.find_spec(name)
    return spec is not None and spec.origin is not None  # a mere folder has no origin
