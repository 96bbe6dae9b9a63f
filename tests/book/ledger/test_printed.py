import pytest

from book import ledger
from book.ledger.claims import load_claims, printed_tables
from tests.book.ledger.conftest import WHOLE


@pytest.fixture
def mine(write_claims):
    write_claims(WHOLE)


def test_a_figures_published_value_is_the_claims(mine):
    assert ledger.published("mine.first", "score") == 0.5
    assert ledger.published("mine.first") == {"score": 0.5}  # what is not printed is no number


def test_a_printed_table_stands_beside_the_claims(mine):
    assert ledger.published("mine.table2", "score") == [0.5, 0.25]
    assert ledger.published("mine.table2") == {"score": [0.5, 0.25]}
    assert [claim.id for claim in load_claims("mine")] == ["mine.first"]


def test_an_absent_number_is_refused_with_the_names_there_are(mine):
    with pytest.raises(ValueError, match=r"mine.first has no published 'other': choose from score"):
        ledger.published("mine.first", "other")
    with pytest.raises(ValueError, match=r"no claim 'mine.table9'"):
        ledger.published("mine.table9")


def test_all_published_numbers_of_the_book_can_be_read():
    for claim in load_claims():
        numbers = ledger.published(claim.id)
        assert None not in numbers.values()
        assert set(numbers) <= {
            measurement.name for measurement in claim.measurements if measurement.target == "published"
        }
        tables = printed_tables(claim.paper)
        assert claim.id.partition(".")[2] not in tables, "a table of a claim's name would hide the claim"
        assert all("where" in table for table in tables.values())
