"""The verdict on the kernel paper: what would change our mind, vocabularies, the formula alone."""

import dataclasses

import numpy as np
import pandas as pd
import pytest

from book.kernel import verdict as chapter
from book.kernel.experiments import scale
from book.kernel.experiments.counts import Counts
from book.kernel.experiments.models import Trained
from embviz import kernels, ledger
from embviz.ledger import cells
from embviz.ledger.findings import Finding, exact
from embviz.view import verdicts
from embviz.view.explorers import Choice, Explorer
from tests.drawing import compiled

V, D, R = 10, 8, 2


@pytest.fixture(autouse=True)
def nothing_stored(monkeypatch, tmp_path):
    monkeypatch.setenv("EMBVIZ_RESULTS_DIR", str(tmp_path))
    clear()
    yield
    clear()


CACHED = (chapter.verdicts.entries, chapter.sizes)


def clear() -> None:
    for cached in CACHED:
        cached.cache_clear()


def judged(change: chapter.Change, finding: Finding | None) -> ledger.Entry:
    """An entry of its claim in which its figure has a finding, and no other has."""
    entry = ledger.entry(ledger.find_claim(f"kernel.{change.claim}"))
    rows = tuple(
        dataclasses.replace(row, finding=finding if row.figure.name == change.figure else None)
        for row in entry.rows
    )
    return dataclasses.replace(entry, rows=rows, scale="quick")


NULLS = dict.fromkeys(("untrained", "permuted", "untrained permuted", "identity", "counts"), 0.5)
BY_FIGURE = {(change.claim, change.figure, change.words): change for change in chapter.CHANGES}


@pytest.mark.parametrize("change", BY_FIGURE.values(), ids=[" ".join(key[:2]) for key in BY_FIGURE])
def test_each_change_of_mind_can_be_met_and_missed(change):
    good, bad = (20.0, 0.5) if change.figure != "change" else (0.3, 0.905)
    if change.claim == "diagnostic":
        good, bad = 0.1, -0.1
    nulls = [{**NULLS, "permuted": 0.9 if "in random order" in change.words else 0.5}, NULLS]
    met, missed = (
        Finding(value, value - 0.01, value + 0.01, 5, known)
        for value, known in zip((good, bad), nulls, strict=True)
    )
    assert verdicts.outcome(change, judged(change, met))[""].startswith("✓ met, quick")
    assert verdicts.outcome(change, judged(change, missed))[""].startswith("✗ not met, quick")
    absent = verdicts.outcome(change, judged(change, None))
    assert absent["measured"] == "–"
    assert "not measured" in absent[""]


def test_an_interval_that_reaches_the_threshold_is_not_enough():
    change = next(change for change in chapter.CHANGES if change.claim == "table4")
    wide, narrow = (Finding(0.6, 0.6 - half, 0.6 + half, 5, NULLS) for half in (0.09, 0.07))
    assert "not met" in verdicts.outcome(change, judged(change, wide))[""]
    assert "not met" not in verdicts.outcome(change, judged(change, narrow))[""]
    assert verdicts.outcome(change, judged(change, wide))["measured"] == "0.1"  # over the identity's 0.5


def test_met_and_open_tests_are_counted():
    entries = {change.claim: judged(change, None) for change in chapter.CHANGES}
    n = len(chapter.CHANGES)
    assert chapter.changes_finding(entries) == f"0 of {n} tests are met, {n} not measured"
    change = next(change for change in chapter.CHANGES if change.claim == "listings")
    entries["listings"] = judged(change, exact(1.0))
    assert chapter.changes_finding(entries) == f"1 of {n} tests are met, {n - 1} not measured"
    entries["listings"] = judged(change, exact(0.5))
    assert chapter.changes_finding(entries) == f"0 of {n} tests are met, {n - 1} not measured"
    assert len(chapter.changes_table(entries)) == n


def test_all_claims_are_counted_and_drawn():
    assert chapter.tally() == f"Of {len(chapter.entries())} claims: {len(chapter.entries())} not measured"
    assert {entry.claim.paper for entry in chapter.entries()} == {"kernel"}
    assert "kernel/verdict.html#kernel.open_scale" in chapter.claims_table()._repr_html_()
    compiled(chapter.plot_figures())


def test_roots_of_the_papers_scores_are_near_its_cosines():
    table, paper = chapter.table_4(), ledger.published("kernel.seeds")
    for seed, (score, cosine) in enumerate(zip(paper["score"], paper["cosine"], strict=True)):
        assert table.loc[seed, "its root"] ** 2 == pytest.approx(score, abs=0.001)
        assert table.loc[seed, "difference"] == pytest.approx(cosine - score**0.5, abs=0.0006)
    assert table["difference"].abs().max() < 0.011


def test_the_formula_alone_is_what_its_parts_give():
    table = chapter.formula_alone(25, 5_000, 16).set_index("name")["value"]
    spectrum = chapter._spectrum(25, 5_000)
    fft, identity = kernels.k0_fft(spectrum), kernels.row_identity(spectrum)
    own = fft @ identity / np.linalg.norm(fft) / np.linalg.norm(identity)
    assert table[chapter.PARTS["fft_identity"]] == pytest.approx(own)
    assert table[chapter.PARTS["expected"]] == pytest.approx(float(kernels.expected_score(spectrum, 0.25)))
    more = chapter.formula_alone(25, 5_000, 256).set_index("name")["value"]
    assert more[chapter.PARTS["expected"]] > table[chapter.PARTS["expected"]]
    assert more[chapter.PARTS["listings"]] == table[chapter.PARTS["listings"]]  # of the text alone
    # four draws, and an approximation
    assert more[chapter.PARTS["random"]] == pytest.approx(more[chapter.PARTS["expected"]], abs=0.25)


def made() -> Trained:
    """Random embeddings that are a multiple of the identity after training."""
    rng = np.random.default_rng(0)
    half = rng.integers(1, 50, (V, V)).astype(float)
    path = np.stack([rng.standard_normal((R, V, V)), np.broadcast_to(np.eye(V), (R, V, V))])
    counts = Counts([str(i) for i in range(V)], half + half.T)
    return Trained("embedded", [0, 1], path, path[-1], pd.DataFrame(), counts, np.ones(V, bool))


def test_vocabularies_stand_beside_each_other_before_and_after(monkeypatch):
    rows = [
        {
            "name": name,
            "seed": 0,
            "step": step,
            "order": 0,
            "eigen": 0.2,
            "fft": 0.3 + step,
            "identity": 0.1,
            "with_counts": 0.7,
            "score": 0.4,
        }
        for name in (1_000, 5_000)
        for step in (0, 0.5)
    ]
    monkeypatch.setattr(scale, "table", lambda preset: pd.DataFrame(rows))
    monkeypatch.setattr(chapter, "main", lambda preset: made())
    table = chapter.sizes().set_index(["vocab_size", "when", "series"])["value"].sort_index()
    assert sorted(set(chapter.sizes()["vocab_size"])) == [V, 40, 60]
    assert table.loc[[(60, "after training", chapter.FIT)]].tolist() == [0.8]
    assert table.loc[[(60, "before training", chapter.FIT)]].tolist() == [0.3]
    assert table.loc[(V, "after training", chapter.NO_FORMULA)].to_numpy() == pytest.approx([1, 1])
    assert table.loc[(V, "after training", chapter.SCORE)].to_numpy() == pytest.approx([1, 1])
    assert "V = 40: 0.80, 0.10, 0.70; V = 60: 0.80, 0.10, 0.70" in chapter.sizes_finding()
    assert table.loc[(V, "after training", chapter.SUM)].to_numpy() == pytest.approx([1, 1])
    assert chapter.sizes_note().startswith(
        f"V = {V}: 1,500 words of bundled documentation, 10 epochs, 2 seeds;"
    )
    compiled(chapter.plot_sizes())


def test_costs_are_those_that_cells_were_stored_with():
    before = chapter.costs()
    assert before.index.tolist() == ["40", "60", "80"]
    assert set(before["seconds"]) == {"–"}  # computed here: no run that could be quoted
    cells.run(scale.formula_cells("quick"), n_jobs=1, progress=False)
    after = chapter.costs()
    assert float(after["memory (GB)"].iloc[0]) > 0
    unchanged = [name for name in after if name not in ("seconds", "memory (GB)")]
    assert after[unchanged].equals(before[unchanged])


def test_the_explorer_of_the_formula_compiles():
    controls = {
        "n_words": Choice([25, 50], "V"),
        "n_tokens": Choice([5_000], "N"),
        "dim": Choice([16, 64], "d"),
    }
    explorer = Explorer(chapter.formula_alone, controls, chapter.plot_formula, title="t", caption="c")
    compiled(explorer)
    assert explorer.grid()["value"].between(-1, 1.000001).all()
