"""Natural text with twins: spelling, masking, and the gauge against loops."""

import dataclasses
import itertools

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from book.tying import wordpieces
from book.tying.experiments import natural, natural_words
from book.tying.experiments.natural import (
    MaskedLanguageModel,
    NaturalRun,
    Setting,
    TextGauge,
    TwinnedText,
    draw_batch,
    twin_pairs,
)
from embviz.corpora import corpus as corpora

MADE = Setting("made", None, 3, 1, n_layers=1, embedding_dim=8, n_heads=2, hidden_dim=12)
RUN = NaturalRun("made", False, 0, n_steps=6, batch_size=4, length=10, learning_rate=1e-2)
FIXED = dataclasses.replace(RUN, spelling="fixed")
N_SHARES = 400  # sequences behind a share


def made_text() -> TwinnedText:
    """12 tokens: 0 to 7 of the text, the mask 8, and 9, 10, 11, twins of 2, 0, 5; five documents."""
    rng = np.random.default_rng(0)
    ids = rng.choice(8, p=[0.2, 0.05, 0.3, 0.1, 0.05, 0.15, 0.1, 0.05], size=700).astype(np.int32)
    document = np.repeat(np.arange(5), [100, 200, 150, 150, 100]).astype(np.int32)
    counts = np.bincount(ids[:600], minlength=12)
    return TwinnedText(ids[:600], ids[600:], document, 12, 8, np.array([2, 0, 5]), counts, "made")


TEXT = made_text()


@pytest.fixture(autouse=True)
def made_settings(monkeypatch):
    """The made text's sizes among the settings."""
    monkeypatch.setitem(natural.SETTINGS, "made", MADE)


def made_gauge(tied: bool, run: NaturalRun = RUN) -> TextGauge:
    shape = MADE.shape(TEXT.vocab_size, positions=False, length=run.length)
    return TextGauge(MaskedLanguageModel(shape, tied=tied, seed=1), TEXT, run)


def rng_of(*seeds: int) -> np.random.Generator:
    return np.random.default_rng(seeds)


# --- settings ---------------------------------------------------------------------------------------


def test_the_large_setting_has_the_papers_sizes_and_a_run_names_a_setting_that_exists():
    config = natural.SETTINGS["novels"].shape(30_622, positions=False, length=64)
    assert config == natural.MaskedConfig(30_622, 3, 128, 4, 512, init_sd=0.3, positions=False, length=64)
    with pytest.raises(ValueError, match="no setting 'bookcorpus': choose one of novels, "):
        _ = dataclasses.replace(RUN, corpus="bookcorpus").setting


@pytest.fixture
def made_novels(monkeypatch):
    """Three documents in word pieces of a published order, loaded through the settings."""
    vocabulary = ["[UNK]", "[MASK]", "tea", "##s", "the", ".", "of", "cup"]
    ids = np.array([4, 2, 3, 5, 4, 7, 6, 2, 5, 4, 2, 0, 4, 7], dtype=np.int32)
    corpus = corpora.Corpus(
        "novels", ids, vocabulary, np.bincount(ids, minlength=8), np.array([0, 5, 10]), "made"
    )
    monkeypatch.setattr(wordpieces, "load_pieces", lambda name: corpus)
    natural.load_twinned_text.cache_clear()
    yield corpus
    natural.load_twinned_text.cache_clear()


def test_twins_are_the_most_frequent_whole_words_of_the_training_documents(made_novels, monkeypatch):
    monkeypatch.setitem(natural.SETTINGS, "made", Setting("novels", None, 2, 1))
    text = natural.load_twinned_text("made")
    assert text.train.tolist() == made_novels.ids[:10].tolist()  # the last document is held out
    assert text.valid.tolist() == made_novels.ids[10:].tolist()
    assert text.document.tolist() == [0] * 5 + [1] * 5 + [2] * 4
    assert (text.vocab_size, text.mask, text.first_twin) == (10, 1, 8)
    assert [made_novels.vocabulary[i] for i in text.common] == ["the", "tea"]  # not "." and not "##s"
    assert text.counts.tolist() == [0, 0, 2, 1, 3, 2, 1, 1, 0, 0]


def test_a_small_vocabulary_leaves_the_other_tokens_out(made_novels, monkeypatch):
    monkeypatch.setitem(natural.SETTINGS, "made", Setting("novels", 3, 2, 1))
    text = natural.load_twinned_text("made")
    # the, tea, "." by falling count: 4 2 3 5 4 | 7 6 2 5 4 | 2 0 4 7 without 0, 3, 6, 7
    assert text.train.tolist() == [0, 1, 2, 0, 1, 2, 0]
    assert text.valid.tolist() == [1, 0]
    assert text.document.tolist() == [0, 0, 0, 0, 1, 1, 1, 2, 2]
    assert (text.mask, text.vocab_size, text.common.tolist()) == (3, 6, [0, 1])


# --- spelling and masking ---------------------------------------------------------------------------


@given(st.lists(st.tuples(st.integers(0, 8), st.booleans()), min_size=1, max_size=20))
@settings(max_examples=50)
def test_spelling_replaces_common_tokens_by_their_twins_where_the_coin_says_and_unspelling_undoes_it(drawn):
    ids, coins = (np.array(part) for part in zip(*drawn, strict=True))
    spelled = TEXT.spell(ids, coins)
    twin_of = {2: 9, 0: 10, 5: 11}
    assert spelled.tolist() == [twin_of.get(i, i) if coin else i for i, coin in drawn]
    assert TEXT.unspell(spelled).tolist() == ids.tolist()


def test_a_batch_is_a_function_of_its_generator():
    first, again, other = (draw_batch(TEXT, RUN, rng_of(0, step), n=4) for step in (3, 3, 4))
    for field in ("tokens", "asked", "answers"):
        assert torch.equal(getattr(first, field), getattr(again, field))
    assert not torch.equal(first.tokens, other.tokens)


@pytest.mark.parametrize("held_out", [False, True])
def test_what_is_not_asked_is_a_stretch_of_the_right_part_of_the_text(held_out):
    batch = draw_batch(TEXT, RUN, rng_of(1), n=30, held_out=held_out)
    whole = batch.tokens.clone()
    whole[batch.asked] = batch.answers
    part = TEXT.valid if held_out else TEXT.train
    stretches = {tuple(part[start : start + 10].tolist()) for start in range(len(part) - 10)}
    assert all(tuple(row) in stretches for row in TEXT.unspell(whole.numpy()).tolist())


def test_fifteen_places_in_a_hundred_are_asked_and_shown_as_berts_collator_does():
    run = dataclasses.replace(RUN, length=50)
    batch = draw_batch(TEXT, run, rng_of(2), n=N_SHARES)
    # 20,000 places: 4 standard errors of a share of 15% are 0.01
    assert float(batch.asked.float().mean()) == pytest.approx(0.15, abs=0.01)
    shown = batch.tokens[batch.asked]
    masked, kept = (shown == TEXT.mask).numpy(), (shown == batch.answers).numpy()
    # 3,000 asked places: 4 standard errors are 0.03; a random token is the mask, or right, 1 time in 12
    assert masked.mean() == pytest.approx(0.8 + 0.1 / 12, abs=0.03)
    assert kept.mean() == pytest.approx(0.1 + 0.1 / 12, abs=0.025)
    others = np.bincount(shown.numpy()[~masked & ~kept], minlength=12)
    assert (others > 0).sum() == 11  # every token but the mask, twins too


def test_mixed_spelling_is_a_fair_coin_for_every_word_and_drawn_anew():
    run = dataclasses.replace(RUN, length=50)
    batch = draw_batch(TEXT, run, rng_of(3), n=N_SHARES)
    for token, twin in ((2, 9), (0, 10), (5, 11)):
        n_twins, n_both = int((batch.answers == twin).sum()), int(np.isin(batch.answers, [token, twin]).sum())
        assert n_both > 300
        assert n_twins / n_both == pytest.approx(0.5, abs=0.12)  # 4 standard errors of 300 coins


def test_fixed_spelling_writes_a_word_one_way_in_a_document_and_not_all_documents_alike():
    run = dataclasses.replace(FIXED, length=90)
    coins = natural._document_spellings(3, 5)
    for held_out, part, documents in (
        (False, TEXT.train, TEXT.document[:600]),
        (True, TEXT.valid, TEXT.document[600:]),
    ):
        for step in range(20):
            batch = draw_batch(TEXT, run, rng_of(4, step), n=1, held_out=held_out)
            whole = batch.tokens.clone()
            whole[batch.asked] = batch.answers
            spelled = whole[0].numpy()
            found = TEXT.unspell(spelled)
            (start,) = [s for s in range(len(part) - 90) if np.array_equal(part[s : s + 90], found)]
            for place, (original, token) in enumerate(zip(found, spelled, strict=True)):
                rank = np.flatnonzero(TEXT.common == original)
                twinned = bool(coins[documents[start + place], rank[0]]) if len(rank) else False
                assert (token != original) == twinned
    assert 0 < coins[:, :3].mean() < 1
    assert not coins[:, 3].any()  # a word without a twin has one spelling


def test_pairs_are_twins_neighbours_in_count_and_common_tokens_at_random():
    pairs = twin_pairs(TEXT)
    assert pairs["twins"].tolist() == [[2, 9], [0, 10], [5, 11]]
    assert pairs["matched"].tolist() == [[2, 0], [0, 5]]
    assert sorted(pairs["unrelated"][:, 0].tolist()) == sorted(pairs["unrelated"][:, 1].tolist()) == [0, 2, 5]
    assert all(first != second for first, second in pairs["unrelated"])


# --- the gauge --------------------------------------------------------------------------------------


@pytest.mark.parametrize("tied", [True, False])
def test_scores_are_those_of_a_loop_over_the_held_out_questions(tied):
    gauge = made_gauge(tied)
    twin_of = {9: 2, 10: 0, 11: 5}
    losses, right, either = [], [], []
    for batch in gauge.valid:
        with torch.no_grad():
            logits = gauge.model(batch.tokens, batch.asked).double().numpy()
        for row, answer in zip(logits, batch.answers.tolist(), strict=True):
            losses.append(np.log(np.exp(row).sum()) - row[answer])
            guess = int(row.argmax())
            right.append(guess == answer)
            either.append(twin_of.get(guess, guess) == twin_of.get(answer, answer))
    with torch.no_grad():
        scores = gauge.scores()
    assert scores["loss"] == pytest.approx(np.mean(losses), rel=1e-5)  # float32 against float64
    assert (scores["accuracy"], scores["accuracy_either"]) == (np.mean(right), np.mean(either))
    assert 0 < scores["accuracy"] < scores["accuracy_either"]
    assert len(gauge.valid) * 16 == 256


@pytest.mark.parametrize("tied", [True, False])
def test_distances_are_means_over_pairs_raw_and_by_angle(tied):
    gauge = made_gauge(tied)
    found = gauge.distances()
    matrices = gauge.matrices()
    assert list(matrices) == (["tied"] if tied else ["input", "output"])
    for matrix, rows in matrices.items():
        for name, pairs in gauge.pairs.items():
            apart = [np.sqrt(((rows[i] - rows[j]) ** 2).sum()) for i, j in pairs]
            turned = [
                1 - rows[i] @ rows[j] / np.linalg.norm(rows[i]) / np.linalg.norm(rows[j]) for i, j in pairs
            ]
            assert found[f"{matrix}_{name}"] == pytest.approx(np.mean(apart), rel=1e-5)
            assert found[f"{matrix}_{name}_cosine"] == pytest.approx(np.mean(turned), rel=1e-4, abs=1e-6)
    assert len(found) == 6 * len(matrices)


def test_every_run_of_a_spelling_is_asked_the_same_questions():
    for run in (RUN, FIXED):
        one, other = made_gauge(True, run), made_gauge(False, dataclasses.replace(run, seed=5))
        for first, second in zip(one.valid, other.valid, strict=True):
            assert torch.equal(first.tokens, second.tokens)
            assert torch.equal(first.answers, second.answers)


def test_shared_neighbours_are_those_of_brute_force(monkeypatch):
    monkeypatch.setattr(natural, "N_NEIGHBOURS", 5)
    nearest = []
    tables = [np.random.default_rng(0).normal(size=(30, dim)) for dim in (4, 6)]
    for rows in tables:
        unit = rows / np.linalg.norm(rows, axis=1, keepdims=True)
        cosines = unit @ unit.T - 2 * np.eye(30)
        nearest.append([set(own[-5:]) for own in cosines.argsort(axis=1)])
    shared = np.mean([len(one & other) for one, other in zip(*nearest, strict=True)])
    assert natural.shared_neighbours(*map(natural.nearest_rows, tables)) == pytest.approx(shared)


# --- word counts ------------------------------------------------------------------------------------


def slow_loss(left: np.ndarray, answers: np.ndarray) -> float:
    """By Witten and Bell's rule, one question after the other."""
    train, total = TEXT.train.tolist(), 0.0
    smoothed = {word: train.count(word) + 1 for word in range(8)}
    original = dict(enumerate(range(8))) | {9: 2, 10: 0, 11: 5}
    for seen, answer in zip(left.tolist(), answers.tolist(), strict=True):
        word = original[answer]
        p = smoothed[word] / sum(smoothed.values())
        after = [b for a, b in itertools.pairwise(train) if a == original.get(seen)]
        if after:
            p = (after.count(word) + len(set(after)) * p) / (len(after) + len(set(after)))
        total -= np.log(p / 2 if word in (2, 0, 5) else p)
    return total / len(answers)


def test_losses_of_word_counts_are_those_of_a_slow_loop():
    rng = np.random.default_rng(1)
    answers = rng.choice([0, 1, 2, 3, 4, 5, 6, 7, 9, 10, 11], 60)
    left = rng.choice([-1, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11], 60)  # none, the mask and twins among them
    for seen in (left, np.full(60, -1)):
        assert natural_words.count_loss(TEXT, seen, answers) == pytest.approx(slow_loss(seen, answers))
