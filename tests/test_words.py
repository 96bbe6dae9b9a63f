"""A linter for words: expressions that readers did not understand, with what to write instead.

It reads what a person reads: Markdown, chapters' prose and headings, sentences in code (titles, captions,
messages, help), docstrings' first lines, and the text of claims. `python -m tests.test_words FILE...` prints
what it finds.
"""

from __future__ import annotations

import ast
import json
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).resolve().parent.parent


class Text(NamedTuple):
    """One line or sentence that a person reads."""

    line: int
    words: str
    kind: str  # "prose", "heading" or "claim"


class Rule(NamedTuple):
    """An expression, what to write instead, and in which texts and files it is looked for."""

    pattern: str
    instead: str
    kinds: tuple[str, ...] = ("prose", "heading", "claim")
    files: str = ""  # a regular expression for the path; all files where it is empty

    def found(self, text: Text, path: str) -> list[str]:
        """The expressions of this rule in a text."""
        if text.kind not in self.kinds or not re.search(self.files, path):
            return []
        return [match[0] for match in re.finditer(self.pattern, text.words, re.IGNORECASE)]


CHAPTERS = (("heading",), r"^book/(?!forms).*\.ipynb$")  # headings of chapters
RULES = [
    # one word for one thing
    Rule(r"\bcompany\b", "context, or co-occurrence"),
    Rule(r"\bwords? (?:that )?keeps? (?:one|the same|a) ", "occur in"),
    Rule(r"\b(?:words|pairs|that|ever|never) (?:ever |never )?(?:meet|met)\b", "co-occur"),
    Rule(
        r"\bmirrors?\b(?! (?:image|distance))",
        "the linear map Q, or a reflection",
        files="^(?:book|data/claims)",
    ),
    Rule(r"\bwalks? like (?:it|them|these)\b|\bnull walks?\b", "random walk"),
    Rule(r"\bdrawings?\b", "layout, or trajectory", files="geometry|embviz/trajectories/reports"),
    Rule(r"\b(?:in|on|of|into) the plane\b", "layout, or 2-D map"),
    Rule(r"\bnulls?\b(?! (?:model|hypothes|distribution|space))", "control, or its name"),
    Rule(
        r"\b(?:published|deciding|judged|stored|printed|replaced|its|each|every|other)"
        r" figures?\b(?! \d)"
        r"|\bfigures? (?:that|which)? ?(?:decid|hold|fail|lie)\w*|\bfigures? of (?:a|the|its|each) claims?\b",
        "measurement, value or quantity",
    ),
    Rule(r"\bby heart\b", "memorized"),
    Rule(r"\b(?:gets?|got|getting) there\b", "reaches 95% validation accuracy, or generalizes"),
    Rule(r"\b(?:comes?|came) (?:right|out right)\b", "generalizes, or agrees"),
    Rule(r"\bdoors?\b", "function, or command"),
    # verdicts
    Rule(r"\bnull too\b", "not specific"),
    Rule(r"\b(?:holds?|fails?) here\b", "reproduced, or not reproduced, and the scale"),
    Rule(r"\*+(?:holds?|fails?)\*+", "reproduced, or not reproduced"),
    Rule(r"\bundecided\b", "inconclusive"),
    Rule(r"\bnot measured\b", "not tested"),
    Rule(r"\bas told\b", "reproduced"),
    Rule(
        r"\b(?:nulls?|controls?)(?: \w+)? (?:does|do|passes|pass)\b(?! not)",
        "the control gives the same value",
    ),
    # habits
    Rule(
        r"\b(?:of|with|by|from|for) (?:ours|yours|mine|theirs|(?:its|one's|our|your|their) own(?! \w))\b",
        "my, your or its and the noun",
    ),
    Rule(r"(?<!all )\b(?:that|those) of\b", "the noun again"),
    Rule(r"\bknows? (?:no|nothing|of|neither|both|only)\b|\bknows\b", "what it computes or depends on"),
    Rule(r"\b(?:torn|tears) (?:apart|it|them)\b", "separated"),
    Rule(r"\bgo(?:es)? (?:together )?with\b|\bgo together\b", "correlates with, or belongs to"),
    Rule(r"\bturns? round\b", "is reversed"),
    Rule(
        r"\bstrikes?\b|\bstruck\b",
        "the gradient spectrum of",
        files="geometry|embviz/training|inspection|yours",
    ),
    Rule(r"\ball the same\b(?=[.,;:])|\bno more\b(?=[.,;:])", "what is the case"),
    Rule(r"\bat hand\b", "available, or on this machine"),
    Rule(r"\bin disorder\b", "in random order"),
    Rule(r"\banew\b", "again"),
    # headings of chapters: a question or a result, without symbols
    Rule(
        r"^(?:what|how|which|whom?|whose|where|when|why|whether)\b.*[^?]$",
        "a question, or a result",
        *CHAPTERS,
    ),
    Rule(r"^(?:\S+ )?\S+(?<!\?)$", "a question, or a result", *CHAPTERS),
    Rule(r"\b(?:computed|trained|made|steered) here$|\bin (?:view|small)$", "what is computed", *CHAPTERS),
    Rule(r"\$|=|(?-i:\bWTR?\b|\b\w_\w\b)", "words instead of symbols", *CHAPTERS),
    # digits that follow the interval
    Rule(
        r"(?<![\w.,])0*[1-9]\d?\.\d{4,}(?![\d.])|\b0\.0*[1-9]\d{4,}|\d\.\d+e-[12]\d\b",
        "at most 4 digits, or 0",
    ),
]
SUSPECT = re.compile("|".join(f"(?:{rule.pattern})" for rule in RULES), re.IGNORECASE)  # one look first
STANDARD = re.compile(  # sections that every chapter has
    r"^(?:Exercises?|References|The (?:question|papers|ledger)|Try it on your(?:s| own data)"
    r"|What surprised us|What was reproduced|Reflections|Tying|Geometry|Kernel|Resizing|Released)$"
)
# Expressions that are right where they stand: the file, the words, the reason.
ALLOWED = [
    (r"embviz/view/explorers\.py", "0.30000000000000004", "the number is the point: a sum in floating point"),
    (r"embviz/ledger/tables\.py", "null", "JSON's own word"),
    (r"book/forms\.ipynb", "not measured", "what a table prints where a value is missing"),
    (r"CONTRIBUTING\.md|tests/", "figure", "files and functions are named so"),
]

CODE = re.compile(
    r"`[^`]*`|\$\$.*?\$\$|\$[^$\n]+\$|\{[a-z:]+\}`[^`]*`|<!--.*?-->|<[^>]+>|\]\([^)]*\)|https?://\S+"
)


def files() -> list[str]:
    """Files in which people read: pages, chapters, code, claims."""
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True)
    wanted = re.compile(
        r"(?:README|CONTRIBUTING)\.md|(?:book|embviz)/.*\.(?:md|py|ipynb|toml)|data/(?:README.md|claims/.*)"
    )
    return [name for name in listed.stdout.splitlines() if wanted.fullmatch(name) and (ROOT / name).is_file()]


def markdown(source: str, first: int = 1) -> Iterator[Text]:
    """Lines of Markdown without code, formulas and addresses."""
    fence = ""
    for line, words in enumerate(source.splitlines(), first):
        mark = re.match(r"\s*(```+|:::+|\$\$)", words)
        if mark and not re.match(
            r"\s*(?:```+|:::+)\{(?:dropdown|glossary|admonition|paper-card|container)", words
        ):
            if fence and mark[1].startswith(fence):
                fence = ""
            elif not fence and mark[1][0] != ":" and not (mark[1] == "$$" and words.count("$$") > 1):
                fence = mark[1]
        elif not fence:
            heading = re.match(r"#{2,6} +(.*)", words)
            plain = CODE.sub(
                lambda match: "](" if match[0].startswith("](") else "x", heading[1] if heading else words
            )
            yield Text(line, plain.strip(), "heading" if heading and not STANDARD.match(plain) else "prose")


def strings(source: str, first: int = 1) -> Iterator[Text]:
    """Sentences in Python code: constants of several words, and docstrings' first lines."""
    tree = ast.parse(source)
    docstrings = set()
    for node in ast.walk(tree):
        body = getattr(node, "body", None)
        if isinstance(body, list) and body and isinstance(body[0], ast.Expr):
            constant = body[0].value
            if isinstance(constant, ast.Constant) and isinstance(constant.value, str):
                docstrings.add(constant)
                yield Text(
                    first + constant.lineno - 1, plain(constant.value.strip().partition("\n")[0]), "prose"
                )
    for node in ast.walk(tree):
        if not isinstance(node, ast.Constant) or not isinstance(node.value, str) or node in docstrings:
            continue
        if re.search(r"[a-z]\w* +\w+ +\w+", node.value):
            yield Text(first + node.lineno - 1, plain(" ".join(node.value.split())), "prose")


def plain(words: str) -> str:
    """Words without code and fields."""
    return re.sub(r"``?[^`]*``?|\{[^{}]*\}", "x", words)


def notebook(source: str) -> Iterator[Text]:
    """Prose, headings and sentences in the code of a notebook, by their lines in the file."""
    lines, at = source.splitlines(), 0
    for cell in json.loads(source)["cells"]:
        text = "".join(cell["source"])
        stored = json.dumps(text.splitlines(keepends=True)[:1], ensure_ascii=False)[1:-2]
        while text and stored not in lines[at]:
            at += 1
        yield from (markdown if cell["cell_type"] == "markdown" else strings)(text, at + 1)


def claims(source: str) -> Iterator[Text]:
    """Statements, labels and reasons of a file of claims."""
    tomllib.loads(source)
    for line, words in enumerate(source.splitlines(), 1):
        for value in re.findall(r'"((?:[^"\\]|\\.)*)"', words):
            if value.count(" ") > 1:
                yield Text(line, value, "claim")


READERS = {".md": markdown, ".py": strings, ".ipynb": notebook, ".toml": claims}


def findings(name: str, source: str | None = None) -> list[str]:
    """What to change in a file: its line, the words, and what to write instead."""
    source = (ROOT / name).read_text(encoding="utf-8") if source is None else source
    return [
        f"{name}:{text.line}: {words!r} in {text.words[:100]!r}: write {rule.instead}"
        for text in READERS[Path(name).suffix](source)
        if SUSPECT.search(text.words)
        for rule in RULES
        for words in rule.found(text, name)
        if not any(re.match(file, name) and allowed in words.lower() for file, allowed, _ in ALLOWED)
    ]


@pytest.mark.parametrize("name", files())
def test_a_reader_understands_the_words_of(name):
    found = findings(name)
    assert not found, "\n".join(found)


def test_every_allowed_expression_still_occurs():
    for file, allowed, _ in ALLOWED:
        paths = [name for name in files() if re.match(file, name)]
        assert any(allowed in (ROOT / name).read_text(encoding="utf-8").lower() for name in paths), allowed


EXAMPLES = [
    ("Words that keep the same company are near each other.", "context, or co-occurrence"),
    ("Beside its null, the value is small.", "control, or its name"),
    ("A matrix of yours goes in.", "my, your or its and the noun"),
    ("The spectrum agrees with that of a shuffled text.", "the noun again"),
    ("The verdict is undecided.", "inconclusive"),
    ("The control passes too.", "the control gives the same value"),
    ("Known by heart.", "memorized"),
    ("The deciding figures lie in their range.", "measurement, value or quantity"),
    ("The error is 2.07e-18.", "at most 4 digits, or 0"),
    ("A share of 0.5924976 is negative.", "at most 4 digits, or 0"),
    ("## What squaring hides", "a question, or a result"),
    ("## Gains", "a question, or a result"),
    ("## Q = x, computed", "words instead of symbols"),
]


@pytest.mark.parametrize(("words", "instead"), EXAMPLES)
def test_an_expression_is_found_with_its_line_and_what_to_write(words, instead):
    (found, *_) = findings("book/page.ipynb", made_chapter("markdown", f"First line.\n\n{words}\n"))
    assert found.endswith(f": write {instead}")
    assert found.startswith("book/page.ipynb:8: ")


GOOD = [
    "Use `null` and $\\mathrm{that of}$; a null model rejects the null hypothesis.",
    "Figure 2 shows your own text, 262,144 tokens and version 1.2.34567.",
    "## Does training make embeddings orthogonal?",
    "## Training lowers the orthogonality first",
    "## Try it on yours",
    "```\na null of ours\n```",
]


@pytest.mark.parametrize("words", GOOD)
def test_plain_english_code_and_formulas_are_left_alone(words):
    assert findings("book/page.ipynb", made_chapter("markdown", words)) == []


def test_sentences_in_code_and_first_lines_of_docstrings_are_read():
    code = '"""Numbers beside their null.\n\nA null may stand here."""\nsay(f"of {n}, a share of ours")\n'
    assert [line.split(": ")[0] for line in findings("embviz/page.py", code)] == [
        "embviz/page.py:1",
        "embviz/page.py:4",
    ]
    assert len(findings("book/page.ipynb", made_chapter("code", code))) == 2


def test_claims_are_read_by_their_texts():
    found = findings(
        "data/claims/page.toml", 'says = "Words that keep one company agree."\ncontrol = "shuffled"\n'
    )
    assert [line.split(": ")[0] for line in found] == ["data/claims/page.toml:1"] * 2


def made_chapter(kind, source):
    """A notebook of one cell, as it is stored."""
    cell = {"cell_type": kind, "source": source.splitlines(keepends=True)}
    return json.dumps({"cells": [cell]}, indent=1, sort_keys=True)


if __name__ == "__main__":
    for name in sys.argv[1:] or files():
        print(*findings(name), sep="\n")
