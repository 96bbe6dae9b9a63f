"""Skip-gram training: its gradient, its examples, its models, its refusals."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from embviz.corpora import make_corpus
from embviz.corpora.corpus import Corpus
from embviz.words import skipgram_numba as kernels
from embviz.words.skipgram import (
    Examples,
    SGNSConfig,
    SGNSSchedule,
    make_signature,
    train_sgns,
)
from embviz.words.skipgram_numba import NumbaSteps, Tables

D, V = 6, 12


def made_text(n_words: int = 3000, seed: int = 0) -> Corpus:
    """Words of three topics: neighbours share a topic, so that vectors have something to learn."""
    rng = np.random.default_rng(seed)
    topics = np.repeat(rng.integers(3, size=n_words // 10), 10)
    return make_corpus(" ".join("xyz"[t] + "abcdefghij"[rng.integers(10)] for t in topics), name="made")


def letters(number: int) -> str:
    """A distinct word of letters for each number below 26^3."""
    return "".join(chr(ord("a") + number // 26**k % 26) for k in range(3))


def small_config(**changes) -> SGNSConfig:
    schedule = SGNSSchedule(n_epochs=3, batch_size=8, learning_rate=0.4)
    return replace(
        SGNSConfig(embedding_dim=10, window=3, n_negative=6, subsample=0, schedule=schedule), **changes
    )


def random_tables(model: str, bias: bool, seed: int = 0) -> Tables:
    rng = np.random.default_rng(seed)
    word = rng.normal(size=(V, D)).astype(np.float32)
    context = rng.normal(size=(V, D)).astype(np.float32) if model == "free" else word
    signature = rng.choice([-1, 1], D) if model == "signs" else np.ones(D)
    transform = rng.normal(size=(D, D)) if model == "learned" else np.zeros((0, 0))
    biases = rng.normal(size=V if bias else 0)
    return Tables(word, context, *(part.astype(np.float32) for part in (biases, signature, transform)))


# two batches: repeated centres, a centre that comes back, a centre and a target among the noise words
CENTERS = np.array([0, 0, 0, 1, 2, 0, 5], dtype=np.int32)
TARGETS = np.array([1, 2, 1, 0, 7, 3, 5], dtype=np.int32)
NEGATIVES = np.array([[2, 4, 6, 0, 9], [5, 1, 11, 3, 8]], dtype=np.int32)
RATE, BATCH = 0.1, 4


def loss_by_slow_loops(word, context, bias, signature, transform, centers, targets, negatives):
    """The batch's summed loss, straight from the objective, for autograd."""
    total = torch.zeros((), dtype=torch.float64)
    for center, target in zip(centers, targets, strict=True):
        for other, sign in [(target, 1), *((noise, -1) for noise in negatives)]:
            vector = signature * context[other] if transform is None else transform @ context[other]
            logit = word[center] @ vector + (0 if bias is None else bias[other])
            total = total - torch.nn.functional.logsigmoid(sign * logit)
    return total


def step_by_autograd(tables: Tables, centers, targets, negatives) -> list[np.ndarray]:
    """Word, context, bias and transform after one step of gradient descent on the slow loops."""
    leaf = {name: torch.tensor(getattr(tables, name), dtype=torch.float64) for name in vars(tables)}
    if tables.context is tables.word:
        leaf["context"] = leaf["word"]
    for name in ("word", "context", "bias", "transform"):
        leaf[name].requires_grad_()
    bias = leaf["bias"] if leaf["bias"].numel() else None
    transform = leaf["transform"] if leaf["transform"].numel() else None
    loss_by_slow_loops(
        leaf["word"], leaf["context"], bias, leaf["signature"], transform, centers, targets, negatives
    ).backward()
    rates = {"transform": RATE * kernels.TRANSFORM_SHARE}
    return [
        (leaf[name] - rates.get(name, RATE) * (0 if leaf[name].grad is None else leaf[name].grad))
        .detach()
        .numpy()
        for name in ("word", "context", "bias", "transform")
    ]


OF_CENTERS = {"repeated": CENTERS, "distinct": np.arange(7, dtype=np.int32), "one": np.full(7, 3, np.int32)}


@pytest.mark.parametrize("centers", OF_CENTERS.values(), ids=OF_CENTERS)
@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("model", ["free", "signs", "learned"])
def test_a_step_is_autograds_step_on_the_slow_loops(model, bias, centers):
    tables = random_tables(model, bias)
    expected = tables
    for batch in range(2):
        pairs = slice(batch * BATCH, (batch + 1) * BATCH)
        word, context, biases, transform = step_by_autograd(
            expected, centers[pairs], TARGETS[pairs], NEGATIVES[batch]
        )
        context = word if model != "free" else context
        expected = Tables(word, context, biases, tables.signature, transform)
    steps = NumbaSteps(tables, BATCH)
    steps.train(centers, TARGETS, NEGATIVES, RATE)
    for name in ("word", "context", "bias", "transform"):
        # float32 against float64
        np.testing.assert_allclose(getattr(steps.tables(), name), getattr(expected, name), atol=2e-6)


@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("signature", ["free", "random"])
@pytest.mark.parametrize("n_negative", [3, 5])
def test_steps_of_one_pair_have_the_bits_of_numba_steps_of_many(signature, bias, n_negative):
    rng = np.random.default_rng(0)
    word, free, biases = (rng.normal(size=size).astype(np.float32) for size in ((V, 37), (V, 37), V))
    context = free if signature == "free" else word  # the same array where they are tied
    signs, no_transform = make_signature(signature, 37, rng), np.zeros((0, 0), np.float32)
    centers, targets = rng.integers(V, size=(2, 60)).astype(np.int32)
    negatives = rng.integers(V, size=(60, n_negative)).astype(np.int32)  # repeats, centres and targets too
    one, many = (
        NumbaSteps(Tables(word, context, biases[: V * bias].copy(), signs, no_transform), size)
        for size in (1, 4)
    )
    one.train(centers, targets, negatives, RATE)
    for pair in range(60):
        many.train(*(part[pair : pair + 1] for part in (centers, targets, negatives)), RATE)
    for name in ("word", "context", "bias"):
        np.testing.assert_array_equal(getattr(one.tables(), name), getattr(many.tables(), name))


def test_the_sigmoid_is_exact_to_its_stated_accuracy():
    x = np.linspace(-40, 40, 20001).astype(np.float32)
    exact = 1 / (1 + np.exp(-x.astype(float)))
    assert max(abs(kernels.sigmoid(a) - b) for a, b in zip(x, exact, strict=True)) < 5e-7


# --- examples ---------------------------------------------------------------------------------------


def blocks_of(corpus: Corpus, config: SGNSConfig) -> list[tuple[np.ndarray, ...]]:
    examples = Examples(corpus, config, 0, len(corpus.ids), 7)
    return [tuple(part.copy() for part in block) for block in examples.blocks()]


def test_with_window_one_the_pairs_are_the_neighbours():
    corpus = made_text(200)
    ((centers, targets, _),) = blocks_of(corpus, small_config(window=1))
    ids = corpus.ids.astype(int)
    expected = [(ids[i], ids[j]) for i in range(200) for j in (i - 1, i + 1) if 0 <= j < 200]
    assert list(zip(centers, targets, strict=True)) == expected


def test_reach_is_uniform_over_one_to_the_window():
    corpus = make_corpus(" ".join(letters(i) for i in range(4000)), name="distinct")
    ((centers, targets, _),) = blocks_of(corpus, small_config(window=4))
    distance = np.abs(centers.astype(int) - targets)
    share = np.bincount(distance)[1:] / (2 * 4000)
    # a reach of at least k has the probability (5 - k) / 4; 4 standard errors of 4,000 draws
    np.testing.assert_allclose(share, [1, 0.75, 0.5, 0.25], atol=4 * 0.5 / 4000**0.5)


def test_no_pair_crosses_a_document_or_holds_a_hole():
    corpus = make_corpus("a b c <|endoftext|> d e f a b c d e f", name="two")
    corpus = replace(
        corpus, ids=np.minimum(corpus.ids, 5), vocabulary=corpus.vocabulary[:5], counts=corpus.counts[:5]
    )
    assert len(corpus.document_starts) == 2
    ((centers, targets, _),) = blocks_of(corpus, small_config(window=2, n_negative=2))
    names = corpus.vocabulary
    pairs = {(names[i], names[j]) for i, j in zip(centers, targets, strict=True)}
    assert ("c", "d") in pairs  # inside the second document
    assert max(centers.max(), targets.max()) < 5
    counted = sum(names[i] == "d" and names[j] == "c" for i, j in zip(centers, targets, strict=True))
    assert counted == 1  # not across the boundary


@pytest.mark.parametrize("unique", [True, False])
def test_noise_words_come_with_their_probability(unique):
    probabilities = np.array([0.4, 0.3, 0.15, 0.1, 0.05, 0.0])
    threshold, alias = kernels.alias_table(probabilities)
    negatives = np.empty((20000, 1), dtype=np.int32)
    targets = np.full((20000, 1), kernels.HOLE, dtype=np.int32)
    state, stamps = np.array([3], dtype=np.uint64), np.zeros(7, dtype=np.int64)
    kernels.draw_negatives(threshold, alias, targets, unique, state, stamps, negatives)
    share = np.bincount(negatives[:, 0], minlength=6) / 20000
    np.testing.assert_allclose(share, probabilities, atol=4 * 0.5 / 20000**0.5)  # 4 standard errors
    assert share[5] == 0


def test_a_words_share_of_the_noise_is_its_count_to_the_noise_power():
    corpus = make_corpus(" ".join("a" * 81 + "b" * 16 + "c"), name="skewed")
    config = small_config(n_negative=1, window=5, noise_power=0.75, schedule=SGNSSchedule(40, 1))
    examples = Examples(corpus, config, 0, 98, 1)
    drawn = np.concatenate([block[2].ravel() for _ in range(40) for block in examples.blocks()])
    share = np.bincount(drawn, minlength=3) / drawn.size
    expected = np.array([27, 8, 1]) / 36
    np.testing.assert_allclose(share, expected, atol=4 * 0.5 / drawn.size**0.5)  # 4 standard errors


def test_shared_noise_words_differ_and_independent_ones_miss_the_target():
    corpus = made_text()
    shared = blocks_of(corpus, small_config(n_negative=20))[0][2]
    assert all(len(set(row)) == 20 for row in shared)
    config = small_config(unique_negatives=False, schedule=SGNSSchedule(batch_size=1))
    _, targets, negatives = blocks_of(corpus, config)[0]
    assert (negatives != targets[:, None]).all()


def test_subsampling_keeps_the_stated_share_of_each_word():
    corpus = make_corpus("a a a a a a a a a b " * 2000, name="two words")
    keep = (1 / 18) ** 0.5 + 1 / 18  # of "a"; "b" always stays
    config = small_config(window=1, subsample=0.05, n_negative=1)
    corpus = replace(corpus, vocabulary=["a", "b", "c"], counts=np.append(corpus.counts, 0))
    examples = Examples(corpus, config, 0, 20000, 1)
    assert list(examples.blocks())
    assert examples.n_kept == pytest.approx(18000 * keep + 2000, abs=4 * 18000**0.5 / 2)


# --- models and training ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("signature", "n_positive"), [("half", 5), (0.3, 3), ("ones", 10), (0.0, 0), ("free", 10)]
)
def test_a_signature_has_its_number_of_plus_ones(signature, n_positive):
    signs = make_signature(signature, 10, np.random.default_rng(0))
    assert set(signs) <= {-1, 1}
    assert (signs == 1).sum() == n_positive


def test_random_signs_are_about_half_and_follow_the_seed():
    config = small_config(signature="random", embedding_dim=400, schedule=SGNSSchedule(n_epochs=1))
    first, second = (train_sgns(made_text(300), replace(config, seed=seed)).signature for seed in (1, 2))
    assert 160 < (first == 1).sum() < 240
    assert (first != second).any()


def test_tied_and_learned_contexts_are_the_signed_and_the_transformed_word_vectors():
    for signature in ("half", "random", "ones", 0.25):
        vectors = train_sgns(made_text(), small_config(signature=signature))
        np.testing.assert_array_equal(vectors.context, vectors.word * vectors.signature)
    vectors = train_sgns(made_text(), small_config(signature="learned"))
    np.testing.assert_allclose(vectors.context, vectors.word @ vectors.transform.T, atol=1e-6)


def topic_gap(word: np.ndarray, vocabulary: list[str]) -> float:
    """Mean cosine of words of one topic less that of words of two."""
    unit = word / np.linalg.norm(word, axis=1, keepdims=True)
    topics = np.array([name[0] for name in vocabulary])
    same = topics[:, None] == topics
    return float((unit @ unit.T)[same].mean() - (unit @ unit.T)[~same].mean())


def test_vectors_are_as_good_as_gensims_at_the_same_settings():
    gensim = pytest.importorskip("gensim.models")
    corpus = made_text(6000)
    words = np.array(corpus.vocabulary)[corpus.ids].tolist()
    ours, theirs = [], []
    for seed in range(4):
        config = replace(SGNSConfig.word2vec(n_epochs=10), seed=seed, embedding_dim=10, window=3, subsample=0)
        ours.append(topic_gap(train_sgns(corpus, config).word, corpus.vocabulary))
        model = gensim.Word2Vec(
            [words], vector_size=10, window=3, sg=1, hs=0, negative=5, sample=0, alpha=0.025,
            min_count=1, workers=1, epochs=10, seed=seed + 1,
        )  # fmt: skip
        theirs.append(topic_gap(model.wv.vectors, model.wv.index_to_key))
    # 4 standard errors of the difference of two means of 4 seeds
    assert np.mean(ours) == pytest.approx(np.mean(theirs), abs=4 * np.hypot(np.std(ours), np.std(theirs)) / 2)


def test_one_thread_gives_the_same_bits_and_another_seed_does_not():
    corpus = made_text()
    first, again, other = (train_sgns(corpus, small_config(seed=seed)).word for seed in (5, 5, 6))
    assert first.tobytes() == again.tobytes()
    assert np.abs(first - other).max() > 1e-3


def test_two_threads_learn_as_well_as_one():
    corpus = made_text(6000)
    config = small_config(schedule=SGNSSchedule(6, 8, 0.4))

    def gap(seed: int, **options) -> float:
        return topic_gap(train_sgns(corpus, replace(config, seed=seed), **options).word, corpus.vocabulary)

    alone = [gap(seed) for seed in range(4)]
    # four standard deviations over seeds
    assert gap(9, n_threads=2) == pytest.approx(np.mean(alone), abs=4 * np.std(alone))


def test_a_faster_decay_reaches_its_floor_early_and_kept_words_slow_it():
    schedule = SGNSSchedule(learning_rate=0.2, decay=1.2)
    assert schedule.rate(0.5) == pytest.approx(0.2 * 0.4)
    assert schedule.rate(0.9) == pytest.approx(0.2e-4)
    config = small_config(subsample=0.01, schedule=SGNSSchedule(2, 8, 0.4, progress="kept"))
    for progress, low, high in (("kept", 0.02, 0.95), ("text", 1, 1)):
        config = replace(config, schedule=replace(config.schedule, progress=progress))
        examples = Examples(made_text(), config, 0, 3000, 1)
        for _ in range(2):
            assert list(examples.blocks())
        assert low <= examples.progress() <= high


def test_presets_are_the_papers_and_word2vecs_settings():
    half, free, word2vec = SGNSConfig.reference("half"), SGNSConfig.reference(), SGNSConfig.word2vec()
    assert (half.embedding_dim, half.window, half.n_negative) == (200, 5, 100)
    assert (half.schedule.n_epochs, half.schedule.batch_size, half.schedule.learning_rate) == (15, 16, 0.2)
    assert (half.schedule.decay, free.schedule.decay, half.bias, free.bias) == (1.2, 1.0, False, True)
    schedule = word2vec.schedule
    assert (word2vec.n_negative, schedule.batch_size, schedule.learning_rate) == (5, 1, 0.025)


# --- refusals ---------------------------------------------------------------------------------------


def trained(text=None, **options):
    """Vectors of the made text; options of `train_sgns` come first, all others change the configuration."""
    own = {name: options.pop(name) for name in ("n_threads", "state") if name in options}
    return train_sgns(text or made_text(), small_config(**options), **own)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda _: trained(n_negative=29), "n_negative is 29: it must be a whole number, 1 to 28"),
        (lambda _: trained(signature="quarter"), "signature is 'quarter'; choose \"free\""),
        (lambda _: trained(signature=1.5), "share of \\+1 as a number in 0..1"),
        (lambda _: trained(unique_negatives=False), "set batch_size=1, or unique_negatives=True"),
        (lambda _: trained(make_corpus("word word", name="one")), "skip-gram needs two words"),
        (lambda state: trained(embedding_dim=12, state=state), "the state's word has shape"),
        (lambda state: trained(state=state, n_threads=2), "several threads share the tables"),
    ],
)
def test_what_does_not_fit_is_refused(call, message):
    state, *_ = states_of(made_text(), small_config())
    with pytest.raises(ValueError, match=message):
        call(state)


def test_overflow_stops_with_the_epoch_and_the_remedy():
    schedule = SGNSSchedule(n_epochs=3, batch_size=8, learning_rate=1e6)
    with pytest.raises(
        FloatingPointError, match=r"after epoch [123] of 3: train again with a lower learning"
    ):
        train_sgns(made_text(), small_config(signature="ones", schedule=schedule))


# --- a training that is killed ---------------------------------------------------------------------------


def states_of(corpus, config) -> list[dict[str, np.ndarray]]:
    """The state after each block of a training."""
    kept = []

    def keep(state) -> None:
        kept.append({name: array.copy() for name, array in state().items()})

    train_sgns(corpus, config, keep=keep)
    return kept


@pytest.mark.parametrize("signature", ["free", "half", "random", "learned"])
def test_a_training_killed_after_any_block_ends_with_the_bits_of_an_unbroken_one(monkeypatch, signature):
    monkeypatch.setattr("embviz.words.skipgram.BLOCK", 1100)  # three blocks an epoch, the last one shorter
    corpus, config = made_text(), small_config(signature=signature, subsample=1e-1, bias=True)
    whole, states = train_sgns(corpus, config), states_of(corpus, config)
    assert len(states) == 9
    for place, state in enumerate(states):
        resumed = train_sgns(corpus, config, state=state)
        for name in ("word", "context", "bias"):
            assert getattr(resumed, name).tobytes() == getattr(whole, name).tobytes(), (name, place)
