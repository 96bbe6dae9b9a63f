"""The map of the five papers: from a text to a resized model, and where on that path each paper acts."""

from __future__ import annotations

import dataclasses
import functools
import html
import re
from pathlib import Path

from pybtex.database import Entry, parse_file

from book.view.sentences import say

# Each stage of the path: its name, and its drawing in a box of 56 x 40.
STAGES = {
    "text": "<path d='M6 8h44M6 16h36M6 24h44M6 32h24'/>",
    "co-occurrence counts": "<path d='M10 4h36v32H10zM22 4v32M34 4v32M10 15h36M10 26h36'/>",
    "PMI": "<path d='M10 4h36v32H10z'/>"
    "<path class='ev-full' d='M10 4h12v11H10zM22 15h12v11H22zM34 26h12v10H34zM34 4h12v11H34z'/>",
    "word and context vectors": "<path d='M28 36 8 12m0 8V12h8M28 36 48 12m0 8V12h-8'/>",
    "tied embedding": "<path d='M18 4h20v32H18zM18 12h20M18 20h20M18 28h20M4 20h14M38 20h14'/>",
    "transformer": "<path d='M14 3h28v8H14zM14 16h28v8H14zM14 29h28v8H14zM28 11v5M28 24v5'/>",
    "its weights during training": "<path d='M4 34C10 2 20 4 26 20s14 18 26-14'/>"
    "<circle class='ev-full' cx='4' cy='34' r='2.5'/><circle class='ev-full' cx='52' cy='6' r='2.5'/>",
    "resized model": "<path d='M3 4h26v32H3zM41 12h12v16H41zM31 20h7m-3-3 3 3-3 3'/>",
}


@dataclasses.dataclass(frozen=True)
class Paper:
    """One paper: where it acts on the path, what it asks, and what we found."""

    part: str  # of the book, and the paper's key in the ledger
    key: str  # in references.bib
    opens: str  # the part's first chapter
    stages: tuple[int, int]  # first and last stage of the path that it is about, from 1
    question: str
    answer: str  # a template of `say`: it is refused once one of its verdicts has moved


PAPERS = (
    Paper(
        "reflections",
        "assylbekov2019",
        "reflections/counting_words",
        (3, 4),
        "Does a context vector differ from its word vector by the signs of half of its coordinates?",
        "In a suitable basis the two vectors differ mainly in signs, but on Wikipedia "
        "{reflections.half_reflected.reflected_share:.0%} of the signs differ and not half of them "
        "[reflections.half_reflected: not reproduced, smaller scale]. The paper derives the half from PMI, "
        "whose eigenvalues lie symmetrically around 0. But the eigenvalues of a shuffled text do so as well "
        "[reflections.spectrum_symmetry: not specific, smaller scale].",
    ),
    Paper(
        "tying",
        "bertolotti2024",
        "tying/distributional_hypothesis",
        (5, 5),
        "When should a model use the same matrix as its input and its output embedding?",
        "In an artificial language, words of the same meaning become close in the input embedding "
        "[tying.untied_input: reproduced]. In the output embedding they become close only if they are also "
        "equally likely in each context [tying.untied_output: reproduced]. One matrix cannot do both. It "
        "is inconclusive whether a model with one matrix is therefore less accurate [tying.dh_fails: "
        "inconclusive].",
    ),
    Paper(
        "geometry",
        "rigoni2026",
        "geometry/grokking",
        (6, 7),
        "Does a transformer learn sooner if the gradient of its embedding is restricted to a few Fourier "
        "modes, or if attention has no query matrix?",
        "A small model that adds numbers memorizes its examples first, and generalizes many epochs later. "
        "In its embedding, row n is the vector of the number n, and a Fourier mode is a wave from row to "
        "row. If only modes of the highest frequencies are kept, they save "
        "{geometry.pfft_speed.near_nyquist_ten:.0f}% of the epochs, but random modes save "
        "{geometry.pfft_speed.near_nyquist_ten:random_modes .0f}%, and the other choices save less than "
        "reported or nothing [geometry.pfft_speed: not reproduced]. Attention without a query matrix is said "
        "to save half of the epochs; we do not find this [geometry.noq_grokking: not reproduced].",
    ),
    Paper(
        "kernel",
        "mobley2026kernel",
        "kernel/algebra",
        (2, 5),
        "Can a tied embedding be computed from co-occurrence counts, without training?",
        "The paper's formula transforms the counts by one matrix, the kernel. Each row of the kernel is the "
        "row above, shifted by one (a circulant matrix). The kernel of a trained model is nearly circulant, "
        "with a score of {kernel.circulant.score:.2f}. But a model that was never trained has the score "
        "{kernel.circulant.score:untrained .2f} [kernel.circulant: not specific]. The paper's formula for "
        "the kernel fits models whose loss is flat with a cosine of {kernel.table4.cosine_end:.2f}, and "
        "untrained models with {kernel.table4.cosine_end:untrained .2f} [kernel.table4: not specific].",
    ),
    Paper(
        "resizing",
        "anonymous2025lgpt",
        "resizing/projections",
        (8, 8),
        "Can one random projection change the number of dimensions of a trained transformer?",
        "A random projection keeps the lengths of vectors on average [resizing.maps: reproduced]. But the "
        "paper's algorithm changes the predictions of a model even if the projection is a rotation, which "
        "loses nothing [resizing.porting: no]. After a short further training our small models "
        "predict text worse than before [resizing.perplexity: not reproduced, smaller scale].",
    ),
)


def papers_map(part: str | None, root: str) -> str:
    """The path with the papers pinned to it; below it each paper, or the one of a part."""
    if part not in {None, *(paper.part for paper in PAPERS)}:
        raise ValueError(f"no paper has the part {part!r}: choose from {', '.join(p.part for p in PAPERS)}")
    stages = "".join(
        f"<li class='ev-stage' style='--at:{place}'><svg viewBox='0 0 56 40' width='56' height='40' "
        f"aria-hidden='true'>{drawing}</svg><span>{name}</span></li>"
        for place, (name, drawing) in enumerate(STAGES.items(), 1)
    )
    pins = "".join(_pin(number, paper, part, root) for number, paper in enumerate(PAPERS, 1))
    shown = "".join(
        _described(number, paper, root)
        for number, paper in enumerate(PAPERS, 1)
        if part in (None, paper.part)
    )
    return (
        "<figure class='ev-papers' aria-label='Where the papers act between a text and a resized model'>"
        f"<ol class='ev-path'>{stages}{pins}</ol><ol class='ev-paper-list'>{shown}</ol></figure>"
    )


def _pin(number: int, paper: Paper, part: str | None, root: str) -> str:
    first, last = paper.stages
    lane = 3 if paper.part == "kernel" else 2  # its stages are those of two others as well
    look = "" if part in (None, paper.part) else " ev-other"
    here = " aria-current='true'" if part == paper.part else ""
    return (
        f"<li class='ev-pin{look}' style='--from:{first};--to:{last + 1};--lane:{lane}'>"
        f"<a href='{root}{paper.opens}.html'{here}><b>{number}</b> {paper.part.capitalize()}</a></li>"
    )


def _described(number: int, paper: Paper, root: str) -> str:
    """A paper's place in the list: its title, who wrote it and when, its question and our answer."""
    title, authors, year = cited(paper.key)
    return (
        f"<li><p><a href='{root}{paper.opens}.html'><b>{number}</b> {paper.part.capitalize()}</a></p>"
        f"<div><p><strong>{html.escape(paper.question)}</strong></p>"
        f"<p><cite>{html.escape(title)}</cite><br><small>{html.escape(authors)}, {year}</small></p></div>"
        f"<p>{say(paper.answer, root=root)}</p></li>"
    )


def cited(key: str) -> tuple[str, str, str]:
    """A paper's title, authors and year, as the bibliography has them."""
    entry = _bibliography()[key]
    authors = [
        " ".join(person.first_names + person.middle_names + person.last_names)
        for person in entry.persons["author"]
    ]
    return _plain(entry.fields["title"]), _plain(" and ".join(authors)), entry.fields["year"]


@functools.cache
def _bibliography() -> dict[str, Entry]:
    return dict(parse_file(Path(__file__).parents[1] / "references.bib").entries)


def _plain(text: str) -> str:
    return re.sub(r"[{}]", "", text)
