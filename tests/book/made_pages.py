"""A small book of made pages, set as the real one: words that are markup, maps, and players."""

from __future__ import annotations

import shutil
from pathlib import Path

import altair as alt
import nbformat
import numpy as np
import pandas as pd

from embviz.view import theme
from embviz.view.explorers import Choice, Explorer, Range
from embviz.view.maps import Map, embedding_map, pick_a_word, side_by_side
from embviz.view.pages import MIME
from embviz.view.typesetting import typeset
from tests.made_player import EVERY, make_player

BOOK = Path(__file__).resolve().parents[2] / "book"

# --- words --------------------------------------------------------------------------------------------------

HOSTILE = [
    "<script>window.hurt = 1</script>",
    "</script><img src=x onerror='window.hurt = 2'>",
    "\"quoted\" & 'quoted'",
    "🦉 owl",
    "שלום",
    "two\nlines",
    "<b>bold</b>",
    "{{ hurt }} ${hurt}",
]
IMAGE = "https://elsewhere.invalid/picture.png"


def named(chosen: str) -> pd.DataFrame:
    return pd.DataFrame({"word": [chosen], "image": [IMAGE], "score": [float(len(chosen))]})


def draw(data: alt.NamedData) -> alt.Chart:
    whole = alt.Axis(title=theme.title("word"), labelLimit=0)
    look = {"x": alt.X("score:Q", axis=theme.axis("score")), "y": alt.Y("word:N", axis=whole)}
    return alt.Chart(data).mark_bar(height=20).encode(**look, tooltip=["word:N", "image:N", "score:Q"])


def explorer() -> Explorer:
    words = Choice(HOSTILE, HOSTILE[0], format=lambda word: f"{word}!")
    return Explorer(named, {"chosen": words}, draw, title=HOSTILE[1], caption=HOSTILE[0])


def two_controls() -> Explorer:
    controls = {"power": Choice([1, 2]), "scale": Range(1, 3, 1)}
    return Explorer(
        lambda power, scale: pd.DataFrame({"x": [1.0, 2.0], "y": [scale, scale * 2.0**power]}),
        controls,
        lambda data: alt.Chart(data).mark_point().encode(x="x:Q", y="y:Q"),
        title="Two controls",
        caption="Made.",
    )


# --- maps ---------------------------------------------------------------------------------------------------

AWKWARD = [
    "<script>window.hurt = 1</script>",
    "</script><img src=x onerror='window.hurt = 2'>",
    "__proto__",
    "constructor",
    "שלום",
    "two\nlines",
    "\"quoted\" & 'quoted'",
    "x" * 300,
]
N_WORDS = 400
WORDS = [*AWKWARD, *(f"word{place}" for place in range(N_WORDS - len(AWKWARD)))]


def vectors(seed: int) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=(N_WORDS, 6)) * np.linspace(2, 0.5, 6)


def made(seed: int) -> Map:
    kinds = ["odd" if place % 2 else "even" for place in range(N_WORDS)]
    return embedding_map(
        vectors(seed),
        WORDS,
        other=vectors(seed + 10),
        names=("word vectors", "context vectors"),
        color={"kind": kinds, "place": list(range(N_WORDS))},
        focus="word7",
        title=f"Map number {seed}",
        caption="Made.",
    )


def picked() -> Map:
    """A map over three states, the middle one first, with its null."""
    states = {f"step {step}": vectors(20 + step) for step in range(3)}
    return pick_a_word(
        states,
        WORDS,
        null={name: vectors(30) for name in states},
        names=("trained", "drawn"),
        over="update",
        first="step 1",
        compared={"at the end": vectors(22)},
        focus="word7",
        title={name: f"Title of {name}" for name in states},
        caption="Made.",
    )


# --- the book -----------------------------------------------------------------------------------------------


def write_page(path: Path, title: str, *pictures: object) -> None:
    """A chapter of stored outputs: pictures, mappings of a type to its text, or Markdown."""
    cells = [nbformat.v4.new_markdown_cell(f"# {title}")]
    for picture in pictures:
        if isinstance(picture, str):
            cells.append(nbformat.v4.new_markdown_cell(picture))
            continue
        bundle = (
            picture if isinstance(picture, dict) else {MIME: picture.static_spec(), "text/plain": "picture"}
        )
        output = nbformat.v4.new_output("display_data", data=bundle)
        cells.append(nbformat.v4.new_code_cell("shown", outputs=[output]))
    notebook = nbformat.v4.new_notebook(cells=cells, metadata={"language_info": {"name": "python"}})
    nbformat.write(notebook, path)


def write_book(folder: Path) -> None:
    """Pages `words`, `maps`, `players`, `folds`, with extensions, assets and settings of the real book."""
    shutil.copytree(BOOK / "ext", folder / "ext", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copytree(BOOK / "assets", folder / "assets")
    for name in ("_config.yml", "references.bib"):
        shutil.copy(BOOK / name, folder)
    (folder / "_toc.yml").write_text(
        "format: jb-book\nroot: words\nchapters: [{file: maps}, {file: players}, {file: folds}]\n"
    )
    table = pd.DataFrame({"word": HOSTILE * 3, "score": range(len(HOSTILE) * 3)})
    html = {"text/html": typeset(table)._repr_html_(), "text/plain": "table"}
    write_page(folder / "words.ipynb", "Words", explorer(), explorer(), html)
    large = embedding_map(
        points := np.random.default_rng(0).normal(size=(5_000, 2)),
        [f"token{place}" for place in range(5_000)],
        layout=points,
        title="Five thousand words",
        caption="Made.",
    )
    pair = side_by_side(made(0), made(1), title="Two maps of the same words", caption="Made vectors.")
    write_page(folder / "maps.ipynb", "Maps", pair, large, picked())
    again = make_player(n_frames=3, title="Another run", initial=2 * EVERY)
    write_page(folder / "players.ipynb", "A run", make_player(), again)
    folds = [f"## {name}\n\n<!-- depth: the same once more -->" for name in ("Deeper", "Deepest")]
    write_page(folder / "folds.ipynb", "Folds", two_controls(), folds[0], two_controls(), folds[1], "Words.")
