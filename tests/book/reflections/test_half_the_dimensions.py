"""The chapters on reflections with another text in place of their own."""

from pathlib import Path

import nbformat
import pytest

from tests.book.conftest import BOOK

ITS_OWN = 'load_corpus("embedded", n_tokens=600_000).restrict(min_count=20, rare="drop")'
README = f'make_corpus(Path({str(BOOK.parent / "README.md")!r})).restrict(min_count=2, rare="drop")'


@pytest.mark.slow
@pytest.mark.parametrize(
    ("chapter", "last_cell"),
    [("half_the_dimensions", "def nearest_reflection("), ("flipped_axes", "def in_a_plane(")],
)
def test_the_cells_on_its_text_run_on_the_readme_in_fewer_dimensions(
    chapter, last_cell, tmp_path, monkeypatch
):
    monkeypatch.setenv("EMBVIZ_RESULTS_DIR", str(tmp_path))  # nothing is stored: the cells compute
    cells = nbformat.read(BOOK / "reflections" / f"{chapter}.ipynb", as_version=4).cells
    sources = [cell.source for cell in cells if cell.cell_type == "code"]
    (first,) = (place for place, source in enumerate(sources) if ITS_OWN in source)
    (last,) = (place for place, source in enumerate(sources) if last_cell in source)
    (yours,) = (source for source in sources if "yours = WordVectors(" in source)
    exchanged = sources[first].replace(ITS_OWN, README).replace("embedding_dim=50", "embedding_dim=30")
    scope = {"Path": Path}
    exec("from embviz.corpora import make_corpus", scope)
    for source in (*sources[: min(first, 1)], exchanged, *sources[first + 1 : last + 1], yours):
        exec(source, scope)
    assert scope["W"].shape == (len(scope["corpus"].vocabulary), 30)
    assert "array" not in scope["corpus"].vocabulary  # a word of its own text
