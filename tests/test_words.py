"""A linter for words: expressions that readers did not understand, with what to write instead.

It reads what a person reads: Markdown, chapters' prose and headings, sentences in code (titles, captions,
messages, help), docstrings' first lines, and the text of claims. The rules are in words.toml.
`python -m tests.test_words FILE...` prints what it finds.
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

ROOT = Path(__file__).resolve().parent.parent


class Text(NamedTuple):
    """One line or sentence that a person reads."""

    line: int
    words: str
    kind: str


WORDS = tomllib.loads(Path(__file__).with_name("words.toml").read_text(encoding="utf-8"))
RULES = WORDS["rules"]
KINDS = ("prose", "heading", "claim")
SUSPECT = re.compile("|".join(f"(?:{rule['pattern']})" for rule in RULES), re.IGNORECASE)  # one look first
STANDARD = re.compile(  # sections that every chapter has
    r"^(?:Exercises?|References|The (?:question|papers|ledger)|Try it on your(?:s| own data)"
    r"|What surprised us|What was reproduced|Reflections|Tying|Geometry|Kernel|Resizing|Released)$"
)
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
    nodes = list(ast.walk(ast.parse(source)))
    bodies = [body for node in nodes if isinstance(body := getattr(node, "body", None), list) and body]
    opening = {body[0].value for body in bodies if isinstance(body[0], ast.Expr)}
    for node in nodes:
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            lines = node.value.strip().splitlines()[:1] if node in opening else node.value.split()
            words = " ".join(lines)
            if node in opening or re.search(r"[a-z]\w* \w+ \w+", words):
                yield Text(first + node.lineno - 1, plain(words), "prose")


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


def findings(name: str, source: str | None = None) -> Iterator[str]:
    """What to change in a file: its line, the words, and what to write instead."""
    source = (ROOT / name).read_text(encoding="utf-8") if source is None else source
    allowed = [words for file, words, _ in WORDS["allowed"] if re.match(file, name)]
    rules = [rule for rule in RULES if re.search(rule.get("files", ""), name)]
    for text in READERS[Path(name).suffix](source):
        for rule in rules if SUSPECT.search(text.words) else ():
            for match in re.finditer(rule["pattern"], text.words, re.IGNORECASE):
                right = any(words in match[0].lower() for words in allowed)
                if text.kind in rule.get("kinds", KINDS) and not right:
                    yield f"{name}:{text.line}: {match[0]!r} in {text.words[:100]!r}: write {rule['instead']}"


def test_a_reader_understands_every_word_and_what_is_allowed_occurs():
    texts = {name: (ROOT / name).read_text(encoding="utf-8") for name in files()}
    assert [found for name, text in texts.items() for found in findings(name, text)] == []
    for file, words, _ in WORDS["allowed"]:
        assert any(words in text.lower() for name, text in texts.items() if re.match(file, name)), words


def made_chapter(kind, source):
    """A notebook of one cell, as it is stored."""
    cell = {"cell_type": kind, "source": source.splitlines(keepends=True)}
    return json.dumps({"cells": [cell]}, indent=1, sort_keys=True)


def test_an_expression_is_found_with_its_line_and_what_to_write_and_plain_english_is_left_alone():
    for words, instead in WORDS["found"]:
        (found, *_) = findings("book/page.ipynb", made_chapter("markdown", f"First line.\n\n{words}\n"))
        assert found.startswith("book/page.ipynb:8: ")
        assert found.endswith(f": write {instead}")
    for words in WORDS["plain"]:
        assert list(findings("book/page.ipynb", made_chapter("markdown", words))) == []


def test_code_is_read_by_its_sentences_and_first_lines_and_claims_by_their_texts():
    code = '"""Numbers beside their null.\n\nA null may stand here."""\nsay(f"of {n}, a share of ours")\n'
    places = [line.split(": ")[0] for line in findings("embviz/page.py", code)]
    assert places == ["embviz/page.py:1", "embviz/page.py:4"]
    assert len(list(findings("book/page.ipynb", made_chapter("code", code)))) == 2
    claim = 'says = "Words that keep one company agree."\ncontrol = "shuffled"\n'
    places = [line.split(": ")[0] for line in findings("data/claims/page.toml", claim)]
    assert places == ["data/claims/page.toml:1"] * 2


if __name__ == "__main__":
    for name in sys.argv[1:] or files():
        print(*findings(name), sep="\n")
