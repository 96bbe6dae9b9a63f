"""Sentences that rest on verdicts: each names its claims and what the ledger says of them, or is refused."""

from __future__ import annotations

import html
import re
from collections.abc import Mapping
from typing import Any

from book import ledger
from book.ledger.verdicts import tagged
from book.view.ledger_view import ledger_address
from book.view.sentences import Quotation, say
from embviz.view import theme

_CITED = re.compile(r"\s*\[(?P<claim>\w+\.\w+): (?P<verdict>[a-z ]+?)(?P<scale>, smaller scale)?\]")


def as_judged(template: str, *named: Mapping[str, Any], root: str = "", **sources: Any) -> Quotation:
    """Sentences with the claims they rest on, each with a link to the ledger; refused when a verdict moved.

    Parameters
    ----------
    template : str
        Markdown. ``[paper.claim: verdict]`` or ``[paper.claim: verdict, smaller scale]`` stands at the end of
        the words that rest on that verdict. Numbers are filled in as :func:`book.view.say` does; the
        numbers of a cited claim have its name and their own, as in ``{paper.claim.share:.0%}``.
    root : str
        How to get from the page to the book's root: ``"../"`` in a chapter.
    *named, **sources
        As in :func:`book.view.say`.

    Raises
    ------
    ValueError
        If the ledger has another verdict than a sentence was written for: names the sentence.
    """
    cited = {found["claim"] for found in _CITED.finditer(template)}
    judged = {name: ledger.entry(name) for name in cited}
    moved = moved_sentences(template, {name: cited_as(item) for name, item in judged.items()})
    if moved:
        raise ValueError("\n".join(moved))

    def link(found: re.Match[str]) -> str:
        claim = judged[found["claim"]].claim
        address = ledger_address(claim, root)
        mark = theme.VERDICT_MARKS[found["verdict"]]
        title = html.escape(claim.title, quote=True)
        words = tagged(found["verdict"], bool(found["scale"])).replace(" ", "&nbsp;")
        return f' <small><a href="{address}" title="{title}">{mark}&nbsp;{words}</a></small>'

    measured: dict[str, dict[str, ledger.Entry]] = {}
    for name, item in judged.items():
        paper, claim = name.split(".")
        measured.setdefault(paper, {})[claim] = item
    return Quotation(_CITED.sub(link, say(template, measured, *named, **sources)))


def cited_as(item: ledger.Entry) -> str:
    """How a sentence cites an entry's verdict, such as "reproduced" or "reproduced, smaller scale"."""
    return f"{item.verdict}, {ledger.SMALLER_SCALE}" if item.smaller_scale else item.verdict


def moved_sentences(text: str, verdicts: Mapping[str, str]) -> list[str]:
    """The sentences of a template whose verdicts are others by now, each with what to do.

    >>> moved_sentences("It does. It is so [p.c: reproduced].", {"p.c": "inconclusive"})
    ["p.c is 'inconclusive' now, not 'reproduced'. Write the sentence again: It is so [p.c: reproduced]."]
    """
    found = []
    for sentence in re.split(r"(?<=[.?!])\s+|\n{2,}", text):
        for cited in _CITED.finditer(sentence):
            claim, written = cited["claim"], cited["verdict"] + (cited["scale"] or "")
            now = verdicts.get(claim, "no claim")
            if now != written:
                found.append(
                    f"{claim} is {now!r} now, not {written!r}. Write the sentence again: {sentence.strip()}"
                )
    return found
