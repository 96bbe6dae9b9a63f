"""What captions call a text."""

from book.geometry import text_titles
from embviz.training.language import TextConfig


def test_a_text_is_called_by_its_title_and_its_name():
    assert text_titles.titled(TextConfig("enwiki2018_raw")).endswith(
        "Wikipedia of 2018 as text (enwiki2018_raw)"
    )
    assert text_titles.titled(TextConfig("embedded", n_documents=200)).startswith(
        "200 documents of docstrings"
    )
