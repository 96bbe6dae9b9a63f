"""The ledger file: what follows from stored cells, read back as it was, and short words where it can't be."""

import dataclasses
import json
import subprocess
import sys

import pytest

from book import __main__ as cli
from book import ledger
from book.ledger import ledger_file
from book.ledger.places import ledger_path
from tests.conftest import VIEW_LIBRARIES

DERIVE = """
import sys
for name in {libraries}: sys.modules[name] = None
from book import ledger
from book.ledger.ledger_file import differences
for item, claim in zip(ledger.entries({paper!r}), ledger.load_claims({paper!r}), strict=True):
    for difference in differences(item, ledger.derive(claim)): print(difference)
"""


@pytest.mark.parametrize("paper", ledger.papers())
def test_the_ledger_file_is_what_follows_from_the_stored_cells_without_charts_or_widgets_installed(paper):
    code = DERIVE.format(libraries=sorted(VIEW_LIBRARIES), paper=paper)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert not done.stdout, (
        f"`python -m book ledger --derive {paper}` writes what follows now:\n{done.stdout}"
    )


def test_the_ledger_file_has_every_claim_in_the_order_of_the_claims(stored_ledger):
    assert [item.claim.id for item in stored_ledger] == [claim.id for claim in ledger.load_claims()]


def test_reading_the_ledger_imports_neither_pandas_nor_torch():
    code = (
        "import sys\n"
        "from book import __main__ as cli\n"
        "cli.main(['ledger'])\n"
        "cli.main(['ledger', 'kernel.eigen_table'])\n"
        "cli.main(['ledger', 'kernel.eigen_table', '--json'])\n"
        "heavy = {'torch', 'pandas', 'pyarrow', 'altair', 'numba', 'joblib', 'scipy'}\n"
        "print(sorted(heavy & set(sys.modules)))\n"
    )
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert done.stdout.splitlines()[-1] == "[]"


@pytest.fixture
def own(monkeypatch, tmp_path, stored_ledger):
    """A folder of results with a ledger of its own, which has two claims."""
    monkeypatch.setenv("EMBVIZ_RESULTS_DIR", str(tmp_path))
    items = [item for item in stored_ledger if item.claim.paper == "kernel"][:2]
    ledger.store_entries(reversed(items))
    return items


def test_entries_come_back_as_they_were_in_the_order_of_the_claims(own):
    assert ledger.entries() == ledger.entries("kernel") == own
    assert ledger.entry(own[1].claim.id) == own[1]


def test_infinite_ends_and_nulls_come_back(own):
    finding = ledger.Finding(1.0, -float("inf"), float("inf"), 4, {"a": 0.1 + 0.2}, "text", "draws")
    row = dataclasses.replace(own[0].rows[0], finding=finding)
    item = dataclasses.replace(own[0], rows=(row, *own[0].rows[1:]))
    ledger.store_entries([item])
    assert ledger.entry(item.claim.id) == item


def times(item, factor):
    """The entry with the first of its measured numbers multiplied."""
    row, *rest = item.rows
    found = {name: getattr(row.finding, name) * factor for name in ("value", "low", "high")}
    row = dataclasses.replace(row, finding=dataclasses.replace(row.finding, **found))
    return dataclasses.replace(item, rows=(row, *rest))


def test_rounding_leaves_the_file_as_it_is_and_what_moves_is_written_and_named(own):
    before, other = ledger_path().read_bytes(), own[1]
    ledger.store_entries([times(other, 1 + 1e-9)])
    assert ledger_path().read_bytes() == before
    for moved in (times(other, 1 + 1e-4), dataclasses.replace(other, verdict="not reproduced")):
        ledger.store_entries([moved])
        assert ledger.entries() == [own[0], moved]
    assert list(ledger_file.differences(other, moved)) == [
        f"{moved.claim.id}, verdict: {other.verdict!r} is 'not reproduced' now"
    ]


def test_a_claim_or_a_paper_that_the_file_lacks_is_told_with_the_command_that_writes_it(own, capsys):
    assert cli.main(["ledger", "kernel.open_scale"]) + cli.main(["ledger", "tying"]) == 2
    said = capsys.readouterr().err
    assert "`python -m book run kernel.open_scale`" in said
    assert "`python -m book ledger --derive tying`" in said


def test_no_file_and_no_such_claim_are_told_apart(own, capsys):
    assert cli.main(["ledger", "kernel.nothing"]) == 1
    assert "no claim 'kernel.nothing': choose one of kernel." in capsys.readouterr().err
    ledger_path().unlink()
    assert cli.main(["ledger", "kernel.exact"]) == 1
    assert "there is no ledger" in capsys.readouterr().err


def test_a_claim_that_was_edited_after_its_verdict_is_named(own, capsys, monkeypatch):
    assert cli.main(["ledger"]) == 0
    assert not capsys.readouterr().err
    edited = dataclasses.replace(own[0].claim, says="Something else.")
    monkeypatch.setattr(ledger_file, "load_claims", lambda: [edited, own[1].claim])
    assert cli.main(["ledger"]) == 0
    assert f"{edited.id} changed since its verdict" in capsys.readouterr().err


@pytest.mark.parametrize(
    "damage",
    [
        lambda text: text[: len(text) // 2],
        lambda text: json.dumps({"claims": []}),
        lambda text: text.replace('"verdict"', '"verdikt"', 1),
        lambda text: text.replace('"value": ', '"value": "large", "low": ', 1),
    ],
    ids=["cut", "an object", "unknown field", "text for a number"],
)
def test_a_damaged_file_is_refused_in_one_sentence(own, capsys, damage):
    ledger_path().write_text(damage(ledger_path().read_text()))
    assert cli.main(["ledger"]) == 1
    assert "is damaged" in capsys.readouterr().err
