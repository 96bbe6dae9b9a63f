"""What captions call a text, and how many of its documents are trained on."""

import pytest

from embviz.training.language import TextConfig, load_streams
from embviz.view import text_titles


@pytest.mark.parametrize("change", [{}, {"n_documents": 41}, {"n_documents": 59, "held_out_every": 7}])
def test_documents_read_are_those_of_the_training_stream(change):
    text = TextConfig("embedded", **({"n_documents": 40} | change))
    assert text_titles.n_read(text) == len(load_streams(text).train.starts)


def test_a_text_with_a_validation_part_gives_no_training_documents_away():
    assert text_titles.n_read(TextConfig("tinystories", n_documents=300)) == 300
    assert text_titles.n_read(TextConfig("tinystories_5mb")) is None


def test_a_text_is_called_by_its_title_and_its_name():
    assert text_titles.titled(TextConfig("enwiki2018_raw")).endswith(
        "Wikipedia of 2018 as text (enwiki2018_raw)"
    )
    assert text_titles.titled(TextConfig("embedded", n_documents=200)).startswith(
        "200 documents of docstrings"
    )
