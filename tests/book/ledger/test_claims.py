"""Files of claims: whatever is amiss in one is said in a sentence that names the claim and the field."""

import contextlib
import datetime

import pytest

from book.ledger.claims import load_claims
from tests.book.ledger.conftest import WHOLE

DEEP = "[" * 3_000 + "]" * 3_000


def test_a_whole_file_is_read(write_claims):
    write_claims(WHOLE)
    (claim,) = load_claims()
    assert claim.measurements[0].accept == (0.4, float("inf"))
    assert claim.amended == ("2026-01-02, inconclusive before: it was unfair",)
    assert claim.sequential == datetime.date(2026, 1, 2)


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ('label = "score", paper', "label = 5, paper", "first, measurements, score, label: .* string, not 5"),
        ("paper = 0.5", 'paper = "0.5"', "measurements, score, paper: .* number, not '0.5'"),
        ("paper = 0.5", "paper = nan", "measurement score: paper must be a finite number, not nan"),
        ("[0.4, inf]", "[0.4]", "measurements, score, accept, 2: Field required"),
        (
            'control = "shuffled"',
            'rule = "near"',
            "measurements, score, rule: .*'inside' or 'meets', not 'near'",
        ),
        ('control = "shuffled"', 'nul = "shuffled"', "measurements, score, nul: Unexpected keyword"),
        ('{ name = "score", ', "{ ", "mine.first, measurements, 1, name: Field required"),
        ('name = "other"', 'name = "score"', "mine.first: two measurements of one name"),
        ('id = "mine.first"', 'id = "other.first"', "ids begin with the file's name and a dot"),
        ("[[claim]]", "[claim]", r"the file needs claims, each below a line \[\[claim\]\]"),
        ("measurements = [", "measurements = []\nmore = [", "first(, more: Unexpected| has no measurement)"),
        ('[\n  { name = "score"', '["text", { name = "score"', "mine.first, measurements, 1: .* not 'text'"),
        ("= 2026-01-02", '= "yesterday"', "mine.first, sequential: .* date"),
        ("2026-01-02, inc", "later, inc", "mine.first: .*amended begins with a date and the verdict before"),
        (", inconclusive", ", perhaps", "mine.first: .*amended begins with a date and the verdict before"),
        ("[[claim]]", f"x = {DEEP}\n[[claim]]", "recursion"),
    ],
)
def test_what_is_amiss_in_a_claim_is_said_with_its_claim_and_field(write_claims, old, new, says):
    assert WHOLE.count(old) == 1
    write_claims(WHOLE.replace(old, new))
    with pytest.raises(ValueError, match=rf"mine\.toml: .*({says})"):
        load_claims()


def test_two_claims_of_one_id_and_a_file_that_is_no_text_are_refused(write_claims):
    write_claims(WHOLE + WHOLE[WHOLE.index("[[claim]]") :])
    with pytest.raises(ValueError, match=r"two claims are called mine\.first"):
        load_claims()
    write_claims(WHOLE.replace("so", "\xe9").encode("latin-1"))
    with pytest.raises(ValueError, match=r"mine\.toml: 'utf-8' codec can't decode"):
        load_claims()


@pytest.mark.parametrize("share", [0.1 * n for n in range(1, 10)])
def test_a_file_cut_short_is_refused_or_whole_as_far_as_it_goes(write_claims, share):
    write_claims(WHOLE[: int(share * len(WHOLE))])
    with contextlib.suppress(ValueError):
        assert [claim.id for claim in load_claims()] == ["mine.first"]
