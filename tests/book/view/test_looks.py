"""Verdicts are told apart by everybody, on white and on the dark page."""

import pytest

from book import ledger
from book.view import looks
from tests.view.test_theme import DARK_PAGE, WHITE, contrast, rgb


@pytest.mark.parametrize("verdict", ledger.VERDICTS)
def test_every_verdict_has_a_look_that_stands_out_on_white_and_on_the_dark_page(verdict):
    colour, mark = looks.LOOKS[verdict]
    assert contrast(rgb(colour), WHITE) >= 3
    assert contrast(rgb(colour), DARK_PAGE) >= 3
    for other in set(ledger.VERDICTS) - {verdict}:
        assert not {colour, mark} & set(looks.LOOKS[other])
