import pytest

from embviz import ledger
from embviz.ledger import printed
from embviz.ledger.claims import load_claims

CLAIMS = """
paper = "mine"
title = "A paper"
cite = "mine2026"
experiments = "mine"

[printed.table2]
where = "Table 2, page 3"
score = [0.5, 0.25]

[[claim]]
id = "mine.first"
title = "It is so"
where = "section 1"
chapter = "mine"
says = "so"
setting = "as is"
control = "none"
measurements = [
  { name = "score", label = "score", paper = 0.5 },
  { name = "other", label = "not printed" },
  { name = "gap", label = "ours", paper = 0.0, target = "implied", why = "no gap" },
  { name = "first", label = "score, as first fixed", paper = 0.4 },
]

[[claim.amended]]
date = 2026-01-02
reason = "it was unfair"
decides = ["score"]
was = "inconclusive"
replaces = ["first"]
"""


@pytest.fixture
def mine(tmp_path, monkeypatch):
    (tmp_path / "mine.toml").write_text(CLAIMS, encoding="utf-8")
    monkeypatch.setattr("embviz.ledger.claims.claims_folder", lambda: tmp_path)


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
        tables = printed.printed_tables(claim.paper)
        assert claim.id.partition(".")[2] not in tables, "a table of a claim's name would hide the claim"
        assert all("where" in table for table in tables.values())
