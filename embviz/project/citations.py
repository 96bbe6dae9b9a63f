"""Citations of a chapter as plain text: JupyterLab shows the keys of a bibliography that it does not read."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from pathlib import Path

ROLE = re.compile(r"\{cite(:\w+)?\}`([^`\n]+)`")
TEXTUAL = ":t"  # Author (year), a part of the sentence; other citations stand in parentheses


def read_references(paths: Iterable[Path]) -> dict[str, tuple[str, str]]:
    """Authors and year of every entry of BibTeX files, by its key.

    Parameters
    ----------
    paths : iterable of Path

    Returns
    -------
    dict of str to pair of str
        Authors as in a text ("Levy and Goldberg", "Levy et al."), and the year.

    Raises
    ------
    OSError, pybtex.exceptions.PybtexError
        If a file can't be read, or is not BibTeX.
    """
    from pybtex.database import parse_file
    from pybtex.richtext import Text

    references = {}
    for path in paths:
        for key, entry in parse_file(str(path), bib_format="bibtex").entries.items():
            people = entry.persons.get("author") or entry.persons.get("editor") or []
            names = [str(Text.from_latex(" ".join([*one.prelast_names, *one.last_names]))) for one in people]
            if len(names) > 2:
                names = [f"{names[0]} et al."]
            references[key] = (" and ".join(names) or key, entry.fields.get("year", "no year"))
    return references


def written_out(notebook: str, references: dict[str, tuple[str, str]]) -> str:
    """The JSON of a notebook with its citations as text; a key without an entry stays as it is.

    >>> written_out("{cite:t}`levy2014` and {cite}`levy2014`", {"levy2014": ("Levy and Goldberg", "2014")})
    'Levy and Goldberg (2014) and (Levy and Goldberg, 2014)'
    """

    def text(role: re.Match[str]) -> str:
        kind, keys = role[1], [key.strip() for key in role[2].split(",")]
        if not set(keys) <= set(references):
            return role[0]
        found = [references[key] for key in keys]
        if kind == TEXTUAL:
            said = ", ".join(f"{authors} ({year})" for authors, year in found)
        else:
            said = "(" + "; ".join(f"{authors}, {year}" for authors, year in found) + ")"
        return json.dumps(said, ensure_ascii=False)[1:-1]

    return ROLE.sub(text, notebook)
