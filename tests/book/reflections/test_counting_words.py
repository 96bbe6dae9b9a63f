"""The chapter on counting words: what its figures measure, on made counts and on the embedded corpus."""

import numpy as np
import pandas as pd
import pytest
import vl_convert

from book.reflections import counting_words as chapter
from embviz.corpora import make_corpus
from embviz.words.cooccurrence import count_pairs, pmi
from tests.drawing import compiled

ODD = ["<script>alert(1)</script>", 'quo"te', "new\nline", "שלום", "🙂", "datum.x", "{{x}}"]


@pytest.fixture
def made_corpus(monkeypatch):
    """A small text in place of the embedded corpus, with thresholds of its own."""
    text = "sun moon sun moon sun star moon sun star sky sun moon"
    made = make_corpus(text, name="made")
    monkeypatch.setattr(chapter.corpora, "load_corpus", lambda name: made)
    monkeypatch.setattr(chapter, "PARTNERS_FROM", 2)
    cached = (chapter.frequent_words, chapter.embedded_counts, chapter._strengths)
    for function in cached:
        function.cache_clear()
    yield made
    for function in cached:
        function.cache_clear()


def test_the_laws_have_as_many_tokens_as_the_text_and_the_flat_one_is_flat():
    counts = np.array([50, 20, 10, 5, 5])
    table = chapter.rank_frequency(counts, n_points=200)
    for law, rows in table.groupby("law"):
        assert rows["frequency"].sum() == pytest.approx(counts.sum(), abs=0.5), law
    assert table[table["law"] == "α = 1 (all equal)"]["frequency"].nunique() == 1
    zipf = table[table["law"] == "α = 0 (Zipf)"].set_index("rank")["frequency"]
    assert zipf[1] / zipf[4] == pytest.approx(4, rel=0.02)


@pytest.mark.parametrize("counts", [[], [1, 2], [3, 0]])
def test_counts_that_do_not_fall_or_reach_zero_are_refused(counts):
    with pytest.raises(ValueError, match="must fall from rank to rank"):
        chapter.rank_frequency(counts)


def test_threshold_shares_count_what_a_loop_counts():
    counts = np.array([9, 5, 5, 1])
    table = chapter.threshold_shares(counts, [1, 5, 6, 10]).set_index(["threshold", "of"])["kept"]
    for threshold in (1, 5, 6, 10):
        kept = [count for count in counts if count >= threshold]
        assert table[threshold, "tokens"] == pytest.approx(sum(kept) / 20)
        assert table[threshold, "types"] == pytest.approx(len(kept) / 4)


def test_labelled_counts_carry_their_words():
    corpus = make_corpus("a rose is a rose", name="rose")
    table = chapter.labelled(count_pairs(corpus.ids, 3, window=1), corpus.vocabulary)
    assert table.loc["a", "rose"] == table.loc["rose", "a"] == 2
    assert table.loc["a", "a"] == 0


def test_shuffling_keeps_every_words_count_but_not_its_company(made_corpus):
    text, shuffled = (chapter.embedded_counts(1, 1, flag) for flag in (False, True))
    assert text.sum() == shuffled.sum()  # one document: as many neighbours
    assert (text != shuffled).nnz > 0


def test_partners_are_the_largest_entries_of_the_words_row(made_corpus):
    vocabulary = chapter.frequent_words(2).vocabulary
    counts = chapter.embedded_counts(2, 2)
    for measure, matrix in {
        "PMI": pmi(counts).toarray(),
        "contexts to the power 0.75": pmi(counts, context_power=0.75).toarray(),
        "1 added to every count": pmi(counts.toarray(), smoothing=1.0),
        "counts alone": counts.toarray(),
    }.items():
        found = chapter.strongest_partners("sun", 2, measure, False)
        row = dict(zip(vocabulary, matrix[vocabulary.index("sun")], strict=True))
        expected = sorted((value for value in row.values() if value), reverse=True)
        assert found["strength"].tolist() == pytest.approx(expected, abs=1e-6)
        assert [row[name] for name in found["partner"]] == pytest.approx(expected, abs=1e-6)


def test_a_rare_word_and_an_unknown_measure_are_refused(made_corpus):
    with pytest.raises(ValueError, match="'sky' is not among the words with at least 2 tokens"):
        chapter.strongest_partners("sky", 1, "PMI", False)
    with pytest.raises(ValueError, match="use one of PMI"):
        chapter.strongest_partners("sun", 1, "luck", False)


def test_more_pairs_meet_in_wider_windows_and_pmi_shares_add_up(made_corpus):
    met = chapter.met_shares([1, 3], 1).set_index(["text", "window"])["met"]
    assert met[chapter.AS_WRITTEN, 3] > met[chapter.AS_WRITTEN, 1]
    shares = chapter.pmi_histograms(2, 1, limit=20.0).groupby("text")["pairs"].sum()
    assert shares.tolist() == pytest.approx([1, 1], abs=1e-3)


def test_partners_with_odd_names_are_drawn_as_the_text_they_are():
    table = pd.DataFrame({"partner": ODD, "strength": np.arange(7.0), "met": range(7)})
    svg = vl_convert.vegalite_to_svg(chapter.plot_partners(table).properties(width=400).to_dict(), "6.4")
    assert "&lt;script&gt;" in svg
    assert "<script" not in svg
    assert all(word in svg for word in ("שלום", "🙂", "datum.x", "{{x}}"))


def test_every_chart_compiles(made_corpus):
    compiled(chapter.plot_rank_frequency(chapter.rank_frequency([5, 3, 1])))
    compiled(chapter.plot_threshold_shares(chapter.threshold_shares([5, 3, 1], [1, 2])))
    compiled(chapter.plot_met_shares(chapter.met_shares([1, 2], 1)))
    compiled(chapter.plot_pmi_histograms(chapter.pmi_histograms(2, 1)))
    compiled(chapter.plot_partners(chapter.strongest_partners("sun", 2, "PMI", False)))
