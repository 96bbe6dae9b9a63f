"""The chapter on natural text: its tables against the cells of short runs."""

import numpy as np
import pytest
import torch

from book.tying import natural_text as chapter
from book.tying.experiments import natural
from embviz.ledger.cells import compute
from tests.book.tying.short_runs import store_short

CACHED = (chapter.scores, chapter.stored_distances, chapter.words, chapter.named_rows)


@pytest.fixture(scope="module", autouse=True)
def results(tmp_path_factory):
    """The quick preset's cells after a few steps on the embedded corpus."""
    n_threads, folder = torch.get_num_threads(), tmp_path_factory.mktemp("results")
    torch.set_num_threads(1)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("EMBVIZ_RESULTS_DIR", str(folder))
        patch.setenv("EMBVIZ_CACHE_DIR", str(folder / "cache"))
        with pytest.raises(ValueError, match=r"run `embviz run tying\.natural --preset quick`"):
            chapter.preset()
        *runs, words = natural.natural_cells("quick")
        for cell in runs:
            store_short(cell)
        compute(words)
        for function in CACHED:
            function.cache_clear()
        yield
    for function in CACHED:
        function.cache_clear()
    torch.set_num_threads(n_threads)


def test_distances_are_the_stored_means_and_ratios_those_of_one_moment():
    table, stored = chapter.stored_distances(), natural.curves_of(natural.natural_runs("quick"))
    for row in table.sample(40, random_state=0).itertuples():
        own = stored[(stored["step"] == row.step) & (stored["seed"] == row.seed)]
        own = own[own["spelling"] == chapter.SPELLINGS[row.spelling]]
        own = own[own["tied"] == (row.matrix == "tied")].iloc[0]
        name = chapter.MATRICES[row.matrix]
        assert row.distance == pytest.approx(own[f"{name}_{chapter.PAIRS[row.pair]}"])
        assert row.twin_ratio == pytest.approx(row.distance / own[f"{name}_unrelated"])
    unrelated = table[table["pair"] == "unrelated"]
    np.testing.assert_allclose(unrelated[["twin_ratio", "cosine_ratio"]], 1)


def test_rows_are_named_by_their_words_and_twins_by_a_prime():
    twinned = chapter.words().query("twin >= 0")["word"].to_list()
    for matrix in chapter.MATRICES:
        rows = chapter.named_rows(matrix, "mixed")
        assert rows.index.is_unique
        assert {word + chapter.PRIME for word in twinned} <= set(rows.index)
        run_of = chapter.run_of(matrix, "mixed")
        assert (run_of.tied, run_of.spelling) == (matrix == "tied", "mixed")


def test_pairs_at_the_end_are_the_distances_of_the_named_rows():
    pairs, rows = chapter.stored_pairs("tied", "mixed"), chapter.named_rows("tied", "mixed")
    unrelated = natural.stored_pairs(chapter.run_of("tied", "mixed")).query("kind == 'unrelated'")
    for row in pairs.sample(10, random_state=0).itertuples():
        u, v = row.word.split(" – ")
        distance = np.linalg.norm(rows.loc[u] - rows.loc[v]) / unrelated["distance"].mean()
        assert row.twin_ratio == pytest.approx(distance, rel=2e-3)  # rows are kept in half precision
    twins = pairs[pairs["pair"] == "twins"]
    assert twins["rank"].to_list() == list(range(1, len(twins) + 1))


def test_scores_have_a_row_for_each_run_and_snapshot():
    table = chapter.scores()
    assert not table.duplicated(["spelling", "tying", "seed", "step"]).any()
    assert set(table["tying"]) == {"tied", "untied"}
    assert (table["accuracy_either"] >= table["accuracy"]).all()


def test_the_settings_say_what_ran():
    here = chapter.settings_table()["here"]
    assert (here["text"], here["seeds"], here["steps"]) == ("embedded", "2", "60")
