"""Words instead of characters: what training adds to W there, and which simple matrices add the same."""

import numpy as np
import pandas as pd
import pytest

from book.kernel import words as chapter
from book.kernel.experiments import models
from book.kernel.experiments.counts import Counts
from book.kernel.experiments.models import Trained
from embviz import kernels
from embviz.view.explorers import Choice, Explorer
from embviz.words.cooccurrence import pmi
from tests.drawing import compiled, drawn

V, N_SEEDS, DIM = 24, 2, 40
CACHED = ("readings", "seed_table", "order_table")


def made(part: float) -> Trained:
    """Models whose W is 1.5 times the identity and so much PMI after training, N(0, 1) before."""
    rng = np.random.default_rng(0)
    weights = rng.pareto(2, V) + 0.3
    pairs = rng.poisson(20 * np.outer(weights, weights) * np.exp(rng.normal(0, 0.7, (V, V)))) + 1.0
    pairs = np.round(pairs + pairs.T)
    values, vectors = np.linalg.eigh(1.5 * np.eye(V) + part * pmi(pairs) * (1 - np.eye(V)))
    E = vectors * np.sqrt(np.maximum(values, 0))
    E = np.stack([np.pad(E, ((0, 0), (0, DIM - V)))] * N_SEEDS)
    path = np.stack([rng.standard_normal(E.shape), E])
    counts = Counts([f"w{i}" for i in range(V)], pairs)
    return Trained("made", [0, 1], path, E, pd.DataFrame(), counts, np.ones(V, bool))


@pytest.fixture(autouse=True)
def two_readings(monkeypatch):
    """One reading whose models learned PMI, one whose models learned nothing that is not the identity."""
    found = [made(0.25), made(0.0)]
    runs = list(models.words("quick").values())
    monkeypatch.setattr(models, "load", lambda run: found[runs.index(run)])
    clear()
    yield found
    clear()


def clear() -> None:
    for name in CACHED:
        getattr(chapter, name).cache_clear()


def names() -> list[str]:
    return list(chapter.readings("quick"))


def test_a_made_matrix_has_as_much_beside_its_diagonal_as_asked_with_the_least_share():
    rng = np.random.default_rng(1)
    half = rng.standard_normal((V, V))
    part = half + half.T
    for ratio in (0.3, 1.5):
        W = chapter.with_ratio(np.eye(V), part, ratio)
        beside = W - np.diag(np.diag(W))
        assert np.linalg.norm(beside) / np.linalg.norm(np.diag(W)) == pytest.approx(ratio)
        assert chapter.off_ratio(W) == pytest.approx(ratio)
        share = (W - np.eye(V))[0, 1] / part[0, 1]
        fewer = np.linspace(0, share, 50)[:-1]
        assert all(chapter.off_ratio(np.eye(V) + a * part) < ratio for a in fewer)
    assert np.array_equal(
        chapter.with_ratio(part, np.eye(V), 1e9), part
    )  # nothing on the diagonal adds beside


def test_d_added_to_w_is_a_single_entry_of_the_kernel(two_readings):
    spectrum = two_readings[0].spectrum
    K = kernels.extract_kernel(np.eye(V) + 0.3 * spectrum.matrix, spectrum).kernel
    difference = K - kernels.extract_kernel(np.eye(V), spectrum).kernel
    assert difference[0, 0] == pytest.approx(0.3)
    difference[0, 0] = 0
    assert np.abs(difference).max() < 1e-10


def test_cosines_are_those_of_slow_transforms_in_every_order(two_readings):
    found, table = two_readings[0], chapter.order_table("quick", 3)
    order = np.random.default_rng(0).permutation(V)  # the first one
    D = np.log1p(found.counts.pairs)[np.ix_(order, order)]
    eps, (values, Q) = kernels.EPS, np.linalg.eigh(D)
    power = (Q * np.maximum(values, 1e-15) ** eps) @ Q.T
    fft = np.fft.ifft2(np.fft.fft2(power) / np.fft.fft2(D)).real[0]
    same = np.fft.ifft2(np.fft.fft2(np.eye(V)) / np.fft.fft2(D)).real[0]
    eigen = (Q * np.maximum(values, 1e-15) ** (eps - 1) @ Q.T)[0]
    expected: dict[str, list[float]] = {name: [] for name in chapter.QUANTITIES}
    for E in found.first:
        W = (E @ E.T)[np.ix_(order, order)]
        k0 = np.fft.ifft2(np.fft.fft2(W) / np.fft.fft2(D)).real[0]

        def cosine(x, y):
            return x @ y / np.linalg.norm(x) / np.linalg.norm(y)

        expected[chapter.OVER].append(cosine(fft, k0) - cosine(same, k0))
        expected[chapter.EIGEN].append(cosine(eigen, k0))
        expected[chapter.ONE].append(k0[0] / np.linalg.norm(k0))
        expected[chapter.REST].append(cosine(eigen[1:], k0[1:]))
    own = table[(table["reading"] == names()[0]) & (table["kind"] == chapter.BEFORE) & (table["order"] == 0)]
    for name, values_ in expected.items():
        # clamped eigenvalues have weights near 1e15: what is left of other entries is good to some digits
        assert own.set_index("quantity")["value"][name] == pytest.approx(np.mean(values_), abs=1e-6)


def test_pmi_is_found_where_it_was_put_and_nothing_where_nothing_was(two_readings):
    learned, still = names()
    assert chapter.PLUS_PMI in chapter.matched("quick", learned)
    for kind in (chapter.LESS_D, chapter.PLUS_MEAN, chapter.OTHER_PMI):
        assert kind not in chapter.matched("quick", learned)
    first, second = chapter.explained("quick").split(f". **{still}**")
    assert f"come {chapter.PLUS_PMI}" in first
    assert "but not" in first
    assert "too little to ask" in second


def test_candidates_none_of_which_comes_near_leave_it_open(monkeypatch):
    monkeypatch.setattr(chapter, "matched", lambda preset, reading: [])
    assert "stays open" in chapter.explained("quick")


def test_every_candidate_has_what_the_trained_models_have_beside_the_diagonal(two_readings):
    found = chapter.candidates(two_readings[0])
    asked = float(chapter.off_ratio(models.gram(two_readings[0].last)).mean())
    for kind in (chapter.PLUS_PMI, chapter.PLUS_D, chapter.LESS_D, chapter.PLUS_MEAN):
        assert chapter.off_ratio(found[kind]).mean() == pytest.approx(asked)
    assert set(found) == set(chapter.GROUPS)


def test_findings_say_the_means_and_medians_of_their_tables():
    learned, still = names()
    table = chapter.seed_table("quick")
    own = table[(table["formula"] == f"{still}: {chapter.IDENTITY}") & (table["kind"] == chapter.AFTER)]
    assert own["k0_cosine"].tolist() == pytest.approx([1.0] * N_SEEDS)
    assert f"{chapter.IDENTITY} 1.00 (" in chapter.seed_finding("quick")
    middle = chapter.medians("quick")[learned, chapter.ONE, chapter.AFTER]
    assert f"{chapter.ONE} {middle:.2f} and" in chapter.order_finding("quick")
    assert f"over {chapter.N_ORDERS} orders" in chapter.order_finding("quick")


def test_without_stored_words_the_quick_models_are_shown(monkeypatch):
    monkeypatch.setattr(chapter, "missing", lambda cells: cells)
    assert chapter.stored_preset() == "quick"
    assert len(chapter.readings("quick")) == 2
    assert chapter.readings("paper") == {}
    assert "1,500 tokens of the package's own docstrings" in chapter.data_note("quick")


def test_charts_have_a_mark_a_seed_and_a_mark_an_order():
    strips = chapter.seed_strips("quick")
    assert len(drawn(strips.to_dict(), "symbol")) == 2 * len(chapter.ROWS) * 2 * N_SEEDS
    compiled(strips)
    controls = {
        "reading": Choice(names(), "text"),
        "quantity": Choice(list(chapter.QUANTITIES), "q", format=chapter.QUANTITIES.get),
    }
    explorer = Explorer(
        None, controls, chapter.plot_orders, title="t", caption="c", grid=chapter.grid("quick")
    )
    compiled(explorer)
    assert len(drawn(explorer.static_spec(), "symbol")) == chapter.N_ORDERS * len(chapter.GROUPS)
