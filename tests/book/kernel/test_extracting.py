"""The chapter on extracting kernels: pictures, scores with their nulls, orders, seeds, readings and sizes."""

import dataclasses
import functools

import numpy as np
import pandas as pd
import pytest

from book.kernel import algebra
from book.kernel import extracting as chapter
from book.kernel.experiments import extracted, fits, models
from book.kernel.experiments.counts import Counts
from book.kernel.experiments.models import Trained
from embviz import kernels
from embviz.view.explorers import Choice, Explorer, Range
from tests.drawing import compiled, drawn

V, DIM, N_SEEDS = 12, 16, 3
WORDS = [*"thequickbrw", "\n"]
STEPS = [0, 4, 60]


def made(seed: int, *, steps: list[int] = STEPS) -> Trained:
    """Models of three seeds on random counts; what stands for training turns rows a little."""
    rng = np.random.default_rng(seed)
    half = rng.integers(1, 50, (V, V)).astype(float)
    start = rng.standard_normal((N_SEEDS, V, DIM))
    path = np.stack([start + 0.1 * place * rng.standard_normal(start.shape) for place in range(len(steps))])
    rows = [
        {
            "seed": s,
            "step": step,
            "train_loss": 3.0 - place,
            "dropout_loss": 3.25 - place,
            "held_out_loss": 3.5 - place,
        }
        for place, step in enumerate(steps)
        for s in range(N_SEEDS)
    ]
    counts = Counts(WORDS, half + half.T)
    return Trained("made", steps, path, path[-1], pd.DataFrame(rows), counts, np.ones(V, bool))


@pytest.fixture(autouse=True)
def models_made(monkeypatch):
    """Every run is made up, its own for each configuration."""
    kept: dict[object, Trained] = {}

    def load(run):
        if run not in kept:
            kept[run] = made(len(kept), steps=STEPS if run.keep_all else [0, 60])
        return kept[run]

    monkeypatch.setattr(models, "load", load)
    clear()
    yield load
    clear()


def clear() -> None:
    algebra.trained.cache_clear()
    chapter._loaded.cache_clear()


def score_by_loops(W, D, direction=1):
    """The paper's section 3.3, word for word."""
    K = np.fft.ifft2(np.fft.fft2(W) / np.fft.fft2(D)).real
    cosines = []
    for i in range(len(K)):
        rolled = np.roll(K[0], direction * i)
        cosines.append(K[i] @ rolled / np.linalg.norm(K[i]) / np.linalg.norm(rolled))
    return float(np.median(cosines))


def test_cosines_of_rows_have_the_score_as_median_in_both_directions(models_made):
    found = chapter.trained("quick")
    for direction in (1, -1):
        median = np.median(chapter.row_cosines(found.extraction.kernel[0], direction))
        assert median == pytest.approx(
            score_by_loops(found.last[0] @ found.last[0].T, found.spectrum.matrix, direction)
        )


def test_a_picture_has_the_corner_the_rows_the_step_and_the_loss():
    shades = chapter.seen("quick", 1, 2, "random 2", "W")["shade"].tolist()
    found, ids = chapter.trained("quick"), chapter.order_of("quick", "random 2")
    W = (found.path[1, 2] @ found.path[1, 2].T)[np.ix_(ids, ids)]
    assert len(shades) == V * V + 2 * V + 2
    assert shades[: V * V] == algebra.shades(W).ravel().tolist()
    D = found.spectrum.matrix[np.ix_(ids, ids)]
    for place, direction in ((V * V, 1), (V * V + V, -1)):
        score = np.median(shades[place : place + V]) / 1000
        assert score == pytest.approx(score_by_loops(W, D, direction), abs=0.001)  # thousandths
    assert shades[-2:] == [4, 2000]


def test_a_large_picture_is_cut_to_a_corner_scaled_by_the_whole(monkeypatch):
    monkeypatch.setattr(chapter, "CORNER", 5)
    shades = chapter.seen("quick", 0, 0, "frequency", "W")["shade"].to_numpy()
    W = models.gram(chapter.trained("quick").first[0])
    assert len(shades) == 25 + 2 * V + 2
    assert np.array_equal(shades[:25].reshape(5, 5), algebra.shades(W)[:5, :5])
    assert chapter.words_by_order("quick")["frequency"] == WORDS[:5]


def test_blanks_are_made_visible():
    assert chapter.words_by_order("quick")["alphabetical"][0] == "↵"  # the line's end sorts first


def test_scores_are_those_of_slow_loops_and_each_control_has_its_marks():
    table, found = chapter.score_table("quick"), chapter.trained("quick")
    D = found.spectrum.matrix
    slow = {
        "trained": [score_by_loops(E @ E.T, D) for E in found.last],
        "trained, rolled left": [score_by_loops(E @ E.T, D, -1) for E in found.last],
        "before training": [score_by_loops(E @ E.T, D) for E in found.first],
        "identity": [1.0],
    }
    for name, scores in slow.items():
        assert table.loc[table["control"] == name, "score"].tolist() == pytest.approx(scores)
    sizes = table.groupby("control").size()
    assert sizes["random embeddings"] == extracted.N_RANDOM
    assert sizes["trained, random orders"] == extracted.N_RANDOM * N_SEEDS
    assert f"{np.mean(slow['before training']):.3f} before" in chapter.score_finding(table)
    renumbered = table.loc[table["control"] == "trained, random orders", "score"].mean()
    assert renumbered == pytest.approx(extracted.permuted_scores(found).mean())  # as the claim's null


def test_controls_are_other_models():
    runs = [chapter.trained("quick"), chapter.shuffled("quick"), chapter.untied("quick")]
    assert len({id(found) for found in runs}) == 3


def test_orders_are_paired_and_without_training_nothing_changes(monkeypatch, models_made):
    table = chapter.paired_orders("quick", 5)
    assert table["kind"].tolist() == ["by frequency", *["random order"] * 5]
    found = chapter.trained("quick")
    assert table["trained"][0] == pytest.approx(found.scores(found.last).mean())
    assert table["untrained"][0] == pytest.approx(found.scores(found.first).mean())
    order = np.random.default_rng(0).permutation(V)  # the first of the random ones
    D = found.spectrum.matrix[np.ix_(order, order)]
    slow = [score_by_loops((E @ E.T)[np.ix_(order, order)], D) for E in found.last]
    assert table["trained"][1] == pytest.approx(np.mean(slow))
    still = dataclasses.replace(found, path=np.stack([found.first, found.first]), steps=[0, 1])
    monkeypatch.setattr(chapter, "trained", lambda preset: still)
    table = chapter.paired_orders("quick", 5)
    assert table["trained"].tolist() == table["untrained"].tolist()
    assert "changes the score by +0.000 in the median" in chapter.paired_finding(table)


def test_orthogonal_embeddings_lie_above_the_line_of_the_untrained(monkeypatch):
    found = chapter.trained("quick")
    turned = np.linalg.qr(np.random.default_rng(1).standard_normal((N_SEEDS, DIM, DIM)))[0][:, :V]
    monkeypatch.setattr(
        chapter, "trained", lambda preset: dataclasses.replace(found, path=np.stack([found.first, turned]))
    )
    table = chapter.paired_orders("quick", 10)
    assert table["trained"].to_numpy() == pytest.approx(np.ones(11))
    assert (table["trained"] > table["untrained"]).all()


def test_the_path_pairs_every_snapshots_score_with_its_loss():
    table, found = chapter.training_path("quick"), chapter.trained("quick")
    own = table[table["run"] == "start N(0, 1)"]
    assert len(own) == len(STEPS) * N_SEEDS
    middle = own[own["step"] == 4].sort_values("seed")
    assert middle["score"].tolist() == pytest.approx(found.scores(found.path[1]).tolist())
    assert middle["held_out_loss"].unique().tolist() == [2.5]
    assert "start N(0, 1): loss 3.50 to 1.50 nats" in chapter.path_finding(table)
    assert "start N(0, 0.02²)" in chapter.path_finding(table)


def test_agreement_is_between_different_seeds_and_k0_only_where_it_says_so():
    table, found = chapter.agreement_table("quick"), chapter.trained("quick")
    own = table[table["control"] == "trained"]
    assert len(own) == N_SEEDS * (N_SEEDS - 1) // 2
    x, y = found.k0[:2]
    assert own["cosine"].iloc[0] == pytest.approx(x @ y / np.linalg.norm(x) / np.linalg.norm(y))
    assert set(table.loc[table["control"].str.startswith("W"), "kind"]) == {chapter.OFF_DIAGONAL}
    assert f"{own['cosine'].mean():.3f} after training" in chapter.agreement_finding(table)


def test_two_random_k0_agree_as_the_closed_form_says():
    found = chapter.trained("quick")
    rng = np.random.default_rng(0)
    k0 = found.k0_of(rng.standard_normal((200, V, DIM)))
    unit = k0 / np.linalg.norm(k0, axis=1, keepdims=True)
    mean = (unit @ unit.T)[np.triu_indices(200, 1)].mean()
    assert mean == pytest.approx(chapter.expected_agreement("quick"), abs=0.1)  # lengths are taken by means


def test_readings_come_nearest_loss_first(models_made):
    table = chapter.reading_table("quick")
    assert len(table) == len(models.readings("quick"))
    assert (table["loss"] - models.PAPER_LOSS).abs().is_monotonic_increasing
    shown = chapter.readings_shown("quick")
    assert shown["loss"].tolist() == table["loss"].tolist()
    spreads = {label: chapter.SPREADS[run.shape.start] for label, run in models.readings("quick").items()}
    assert shown["start's sd"].tolist() == [spreads[label] for label in table.index]
    note = chapter.reading_note("quick")
    assert f"{len(table)} of {len(table)} readings measured" in note
    assert note.endswith("The claims judge: quick, start N(0, 1).")


def test_a_reading_has_the_formula_and_the_identity_of_its_own_models(models_made):
    table = chapter.reading_table("quick")
    for label, run in models.readings("quick").items():
        found = models_made(run)
        row = table.loc[label]
        trained, untrained = (found.k0_of(E) for E in (found.last, found.first))
        assert row["formula"] == pytest.approx(fits.better_form(found.spectrum, trained).mean(), abs=6e-4)
        assert row["untrained formula"] == pytest.approx(
            fits.better_form(found.spectrum, untrained).mean(), abs=6e-4
        )  # three decimals
        assert row["identity"] == pytest.approx(fits.cosines(found.identity, trained).mean(), abs=6e-4)
    said = chapter.reading_finding("quick")
    for label in table.index:
        assert f"scores from {table['score'][label]:.2f} to {table['score'][label]:.2f}" in said


def test_the_note_counts_the_symbols_that_the_text_has():
    assert f"V = {V} of them occur in the 1,500 tokens" in chapter.vocabulary_note("quick")


def test_settings_that_differ_in_their_batches_alone_are_told_apart():
    run = models.QUICK
    other = dataclasses.replace(run, batch_size=run.batch_size // 2)
    assert chapter._setting(run, V) != chapter._setting(other, V)
    assert chapter._setting(run, V).startswith(f"V = {V},")


def test_sizes_have_both_moments_of_every_setting_and_the_filter_counts_settings():
    table = chapter.size_table("quick")
    assert (table.groupby("setting").size() == 2).all()
    passed = (table.loc[table["kind"] == "trained", "score"] >= 0.85).sum()
    assert f"{passed} of {len(table) // 2} settings pass" in chapter.size_finding(table)
    found = chapter.trained("quick")
    expected = float(kernels.expected_score(found.spectrum, DIM**-0.5))
    assert expected in table["expected"].tolist()


def test_the_change_by_training_is_that_of_the_scores():
    found = chapter.trained("quick")
    change = (found.scores(found.last) - found.scores(found.first)).mean()
    assert f"{change:+.4f}" in chapter.direct_finding("quick")


def test_all_charts_and_the_explorer_compile_and_show_the_words():
    scores, agreement = chapter.score_table("quick"), chapter.agreement_table("quick")
    compiled(chapter.plot_strips(scores, "score", title="circulant_score", rules={"filter": 0.85}))
    compiled(chapter.plot_strips(agreement, "cosine", title="cosine_of_seeds", rules={"paper": 0.974}))
    compiled(chapter.plot_paired(chapter.paired_orders("quick", 3)))
    compiled(chapter.plot_path(chapter.training_path("quick")))
    compiled(chapter.plot_sizes(chapter.size_table("quick")))
    controls = {
        "snapshot": Range(0, 2, 1, "snapshot", initial=2),
        "seed": Choice(range(2), "seed"),
        "order": Choice(chapter.ORDERS[:2], "order"),
        "shown": Choice(chapter.SHOWN, "show"),
    }
    draw = functools.partial(chapter.plot_seen, preset="quick")
    explorer = Explorer(functools.partial(chapter.seen, "quick"), controls, draw, title="t", caption="c")
    compiled(explorer)
    spec = explorer.static_spec()
    assert len(drawn(spec, "rect")) == V * V
    assert len(drawn(spec, "symbol")) == 2 * V
    words = [item["text"] for item in drawn(spec, "text")]
    assert any("after 60 updates, training loss 1.000 nats" in str(text) for text in words)
