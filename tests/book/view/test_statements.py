import dataclasses

import pytest

from book import ledger
from book.view import statements
from book.view.statements import as_judged
from tests.book.view.test_ledger_view import entry

SENTENCES = "It is {share} here. The control\ndoes it too [p.c: not specific]. A third."


@pytest.fixture(autouse=True)
def judged(monkeypatch):
    monkeypatch.setattr(ledger, "entry", lambda name: {"p.c": entry(control=0.5)}[name])


def test_a_sentence_leads_to_the_row_of_the_claim_that_it_rests_on_and_shows_its_verdict():
    said = as_judged(SENTENCES, share=0.25)
    assert said.startswith("It is 0.25 here. The control\ndoes it too <small><a href=")
    assert 'href="ledger.html#p.c" title="A title"' in said
    assert said.endswith("not&nbsp;specific</a></small>. A third.")
    assert "[" not in said
    assert 'href="../ledger.html#p.c"' in as_judged(SENTENCES, root="../", share=0.25)


def test_a_number_of_a_cited_claim_is_filled_in_by_its_full_name():
    row = entry(control=0.5).rows[0]
    said = as_judged(f"It is {{p.c.{row.measurement.name}:.3f}} [p.c: not specific].")
    assert said.startswith(f"It is {row.finding.value:.3f} <small>")
    with pytest.raises(ValueError, match="has no 'q'"):
        as_judged("It is {q.c.share} [p.c: not specific].")


def test_a_sentence_whose_verdict_has_moved_is_refused_by_name(monkeypatch):
    moved = dataclasses.replace(entry(), verdict=ledger.NOT_REPRODUCED)
    monkeypatch.setattr(ledger, "entry", lambda name: moved)
    with pytest.raises(ValueError, match=r"p\.c is 'not reproduced' now, not 'not specific'") as refused:
        as_judged(SENTENCES, share=0.25)
    assert "The control\ndoes it too" in str(refused.value)
    assert "A third" not in str(refused.value)


def test_a_claim_that_is_gone_is_named():
    assert "no claim" in statements.moved_sentences("So it is [p.d: reproduced].", {})[0]
