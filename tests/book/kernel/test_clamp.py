"""The chapter on the clamp, the order and the row: shares, rows, orders, Table 5, invariances, charts."""

import dataclasses

import numpy as np
import pandas as pd
import pytest

from book.kernel import clamp as chapter
from book.kernel import formulas
from book.kernel.experiments import fits, hyperparameters, models
from book.kernel.experiments.counts import Counts
from book.kernel.experiments.models import QUICK, Trained
from embviz import kernels
from embviz.view.explorers import Choice, Explorer, Range
from tests.drawing import compiled, drawn

V, DIM, SEEDS = 14, 20, 2
CACHED = ("grounds", "_turned", "_columns", "table_5_readings", "order_table", "row_table", "best_eps")
TEXT = "1,500 tokens"
BEST_EPS = {
    "setting": [0, 0, 1, 1],
    "learning_rate": 3e-4,
    "weight_decay": 0.01,
    "start": ["pytorch", "pytorch", "small", "small"],
    "seed": [0, 1, 0, 1],
    "eps": [0.003, 0.004, 0.5, 0.4],
    "cosine": 0.9,
    "range": 0.1,
    "at_end": [False, False, True, False],
}


@pytest.fixture(autouse=True)
def found(monkeypatch):
    """Random embeddings on random counts, half of whose eigenvalues are negative, instead of trained ones."""
    rng = np.random.default_rng(3)
    half = rng.integers(1, 50, (V, V)).astype(float)
    path = rng.standard_normal((2, SEEDS, V, DIM))
    table = pd.DataFrame({"seed": range(SEEDS), "step": 1, "dropout_loss": 1.0})
    tokens = [f"w{(7 * i) % V:02d}" for i in range(V)]
    made = Trained("made", [0, 1], path, path[1], table, Counts(tokens, half + half.T), np.ones(V, bool))
    monkeypatch.setattr(models, "trained", lambda preset: made)
    monkeypatch.setattr(models, "load", lambda run: made)
    monkeypatch.setattr(hyperparameters, "settings", lambda preset: [QUICK, models.other_start("quick")])
    monkeypatch.setattr(hyperparameters, "best_eps", lambda preset: pd.DataFrame(BEST_EPS))
    clear()
    yield made
    clear()


def clear() -> None:
    formulas.trained.cache_clear()
    for name in CACHED:
        getattr(chapter, name).cache_clear()


def listed(D: np.ndarray, eps: float, clamp: float, row: int, *, fft: bool) -> np.ndarray:
    """The two listings, in our own steps, all in full."""
    values, Q = np.linalg.eigh(D)
    values = np.array([max(value, clamp) for value in values])
    if not fft:
        return (Q @ np.diag(values ** (eps - 1)) @ Q.T)[row]
    power = Q @ np.diag(values**eps) @ Q.T
    return np.fft.ifft2(np.fft.fft2(power) / np.fft.fft2(D)).real[row]


@pytest.mark.parametrize("form", ["eigen", "fft"])
@pytest.mark.parametrize(
    ("order", "row"), [("frequency", "first"), ("alphabetical", "last"), ("random 4", "middle")]
)
def test_the_explorers_rows_are_the_listings(found, form, order, row):
    table = chapter.derived_row("quick", -2.0, -6.0, "clamp", form, order, TEXT, row)
    place = chapter.order_for(order, found.counts.tokens)
    D = np.log1p(found.counts.pairs)[np.ix_(place, place)]
    index = chapter.place_of(row, V)
    expected = listed(D, 0.01, 1e-6, index, fft=form == "fft")
    np.testing.assert_allclose(table["derived"], expected / np.linalg.norm(expected), atol=1e-9)
    E = found.last[0][place]
    kernel = np.fft.ifft2(np.fft.fft2(E @ E.T) / np.fft.fft2(D)).real[index]
    np.testing.assert_allclose(table["extracted"], kernel / np.linalg.norm(kernel), atol=1e-9)
    identity = np.fft.ifft2(np.fft.fft2(np.eye(V)) / np.fft.fft2(D)).real[index]
    np.testing.assert_allclose(table["identity"], identity / np.linalg.norm(identity), atol=1e-9)


def test_a_power_of_one_leaves_a_spike_where_the_chapter_says(found):
    spike = np.eye(V)[0]
    for form, negative in (("fft", "signed"), ("eigen", "clamp")):
        row = chapter.derived_row("quick", 0.0, -15.0, negative, form, "frequency", TEXT, "first")
        np.testing.assert_allclose(row["derived"], spike, atol=1e-8)


def test_rows_and_orders_have_names(found):
    assert [chapter.place_of(row, 101) for row in chapter.ROWS] == [0, 1, 50, 100]
    tokens = [found.counts.tokens[i] for i in chapter.order_for("alphabetical", found.counts.tokens)]
    assert tokens == sorted(tokens)
    assert sorted(chapter.order_for("random 2", tokens)) == list(range(V))
    with pytest.raises(ValueError, match="no row 'third': choose one of first, second, middle, last"):
        chapter.place_of("third", V)


def test_more_values_are_offered_and_read_with_a_kernel_alone():
    choice = chapter.LiveChoice(["a"], "text", more=["b", "c"])
    assert choice.values == ["a"]
    assert choice.binding(live=False)["options"] == ["a"]
    assert choice.binding(live=True)["options"] == ["a", "b", "c"]
    assert choice.read("c") == "c"
    with pytest.raises(ValueError, match="'d' is not among"):
        choice.read("d")
    assert chapter.LiveChoice(["a", "b"], "text").binding(live=True)["options"] == ["a", "b"]


def test_the_papers_epsilon_can_be_chosen_without_a_kernel():
    choice = chapter.eps_choice()
    assert 10.0**choice.initial == pytest.approx(kernels.EPS, rel=1e-5)  # six decimals of a logarithm
    assert choice.binding(live=False)["labels"] == ["0.003", "0.05", "1"]
    assert "0.02" in choice.binding(live=True)["labels"]


def test_texts_of_other_lengths_are_those_that_differ_in_length_alone(monkeypatch):
    assert list(chapter.grounds("quick")) == ["500 tokens", TEXT, "4,500 tokens"]
    assert chapter.main_label("quick") == TEXT
    assert chapter.length_choice("quick").more == ["500 tokens", "4,500 tokens"]
    monkeypatch.setattr(chapter, "missing", lambda cells: [])
    main = models.main("paper")
    runs = chapter._other_lengths("paper")
    assert main.text.n_tokens not in runs
    assert set(runs) == set(models.N_TOKENS) - {main.text.n_tokens}
    for n, run in runs.items():
        text = dataclasses.replace(main.text, n_tokens=n)
        assert (run.text, run.shape, run.batch_size) == (text, main.shape, main.batch_size)
    monkeypatch.setattr(chapter, "missing", lambda cells: list(cells))
    assert chapter._other_lengths("paper") == {}


def test_texts_of_words_have_the_main_models_shape_and_several_vocabularies(monkeypatch):
    assert chapter._word_texts("quick") == {}
    monkeypatch.setattr(chapter, "missing", lambda cells: [])
    runs = chapter._word_texts("paper")
    assert list(runs) == ["50 words", "100 words", "150 words", "300 words"]
    main = models.main("paper")
    for run in runs.values():
        assert (run.shape.embedding_dim, run.shape.n_layers) == (main.shape.embedding_dim, 2)
        assert run.text.symbols == "unk"


def test_the_eigenvalues_that_are_not_clamped_have_what_a_slow_sum_leaves_them(found):
    spectrum = found.spectrum
    weights = [
        max(value, 0.5) ** (0.003 - 1) * q
        for value, q in zip(spectrum.values, spectrum.vectors[0], strict=True)
    ]
    rest = sum(w**2 for w, value in zip(weights, spectrum.values, strict=True) if value >= 0.5)
    assert chapter.unclamped_share(spectrum, 0.5) == pytest.approx(rest / sum(w**2 for w in weights))
    assert 0 < chapter.unclamped_share(spectrum, 1e-15) < 1e-25
    shares = chapter.clamped_shares("quick")
    own = shares[(shares["form"] == "eigen") & (shares["epsilon"] == "0.003")]
    complement = [1 - chapter.unclamped_share(spectrum, 10.0**log) for log in own["log_clamp"]]
    assert own["value"].tolist() == pytest.approx(complement)


def test_clamped_eigenvalues_have_the_largest_weights_whatever_the_clamp(found):
    values = found.spectrum.values
    for clamp in (1e-15, 0.1, 3.0):
        weights = kernels.spectral_power(values, 0.003 - 1, floor=clamp)
        assert weights[values < clamp].min() >= weights[values >= clamp].max()


def test_the_curves_over_the_clamp_have_the_listings_cosines(found):
    curves = chapter.clamp_curves("quick", "random 1", 0.02)
    place = chapter.order_for("random 1", found.counts.tokens)
    D, E = np.log1p(found.counts.pairs)[np.ix_(place, place)], found.last[1][place]
    k0 = np.fft.ifft2(np.fft.fft2(E @ E.T) / np.fft.fft2(D)).real[0]
    for form, name in chapter.FORMS.items():
        own = curves[(curves["kind"] == name) & (curves["seed"] == 1) & (curves["log_clamp"] == -3)]
        row = listed(D, 0.02, 1e-3, 0, fft=form == "fft")
        assert own["k0_cosine"].item() == pytest.approx(row @ k0 / np.linalg.norm(row) / np.linalg.norm(k0))
    assert chapter.clamp_finding("quick").startswith("Cosines: eigen form")


def test_small_distances_are_exact_and_the_eigen_form_has_none(found):
    for form in chapter.FORMS:
        for pair, distance in zip(
            fits.PAIRS_OF_EPS, chapter.mutual_distances(found.spectrum, form, "signed", 1e-15), strict=True
        ):
            a, b = kernels.alpha_scan(found.spectrum, pair, form=form, negative="signed")
            # a difference of numbers near 1 is good to a few rounding errors
            assert distance == pytest.approx(1 - float(fits.cosines(a, b)), abs=1e-14)
    assert chapter.mutual_distances(found.spectrum, "eigen", "clamp", 1e-15).max() < 1e-20
    table = chapter.table_5("quick", -15.0, "clamp")
    assert (table[table["kind"] == "eigen form"]["log_distance"] == -16).all()
    assert len(chapter.table_5_readings("quick")) == 10
    assert chapter.table_5_readings("quick")["factor"].is_monotonic_increasing
    assert len(chapter.table_5_shown("quick")) == 10


def test_the_papers_five_figures_are_one_number_to_their_rounding():
    squares = np.array([(b - a) ** 2 for a, b in fits.PAIRS_OF_EPS])
    distances = 1 - np.array(chapter.paper_table_5())
    half = 0.5e-4 / squares  # what the fourth decimal leaves open
    assert (np.abs(distances / squares - 54.95) <= half).all()
    assert chapter.table_5_scales("quick")["paper"].tolist()[2] == "54.8"
    assert chapter.table_5_finding("quick").startswith(
        "The least cosine of Table 5 is 0.9802; the listings give"
    )


def test_orders_move_the_cosine_and_a_shift_of_all_words_does_not(found):
    table = chapter.order_table("quick")
    assert len(table) == chapter.N_ORDERS + 2
    assert table["k0_cosine"].max() - table["k0_cosine"].min() > 0.2
    row = table.set_index("order").loc["random 3"]
    order = chapter.order_for("random 3", found.counts.tokens)
    D, E = np.log1p(found.counts.pairs)[np.ix_(order, order)], found.last[0][order]
    k0 = np.fft.ifft2(np.fft.fft2(E @ E.T) / np.fft.fft2(D)).real[0]
    assert row["k0_cosine"] == pytest.approx(
        float(fits.cosines(listed(D, 0.003, 1e-15, 0, fft=True), k0)), abs=1e-4
    )
    assert f"{chapter.N_ORDERS} orders" in chapter.order_finding("quick")


def test_every_row_is_that_of_the_listing_with_another_first_word(found):
    table = chapter.row_table("quick")
    D = np.log1p(found.counts.pairs)
    for form, name in chapter.FORMS.items():
        row = listed(D, 0.003, 1e-15, 5, fft=form == "fft")
        expected = fits.cosines(row, found.extraction.kernel[:, 5]).mean()
        own = table[(table["kind"] == name) & (table["word_id"] == 5)]["k0_cosine"].item()
        assert own == pytest.approx(float(expected), abs=1e-4)  # rounded to four decimals
    assert chapter.row_finding("quick").startswith("Cosines: eigen form:")


def test_the_panel_has_a_mark_and_words_in_every_cell_and_shows_what_holds():
    panel = chapter.invariance_panel("quick")
    assert panel.cell("embeddings rotated", "k0, extracted") == "✓ same"
    assert panel.cell("words in random order, first row", "k0, fft form").startswith("✗ ")
    assert panel.cell("row for column", "circulant score") == ""
    page = panel._repr_html_()
    assert page.count("✓") + page.count("✗") == len(panel.table)
    held = int(panel.table["holds"].sum())
    assert repr(panel) == f"<invariances: {held} of {len(panel.table)} hold>"


def test_ways_to_count_are_compared_with_the_papers_and_the_identity_moves_along():
    table = chapter.convention_rows()
    assert set(table["text"]) == set(chapter.BUNDLED)
    assert chapter.AS_LISTED not in set(table["formula"])
    wide = table.pivot_table(index=["text", "formula"], columns="kind", values="counting_cosine")
    together = np.corrcoef(wide["FFT form"], wide[chapter.IDENTITY])[0, 1]
    assert together > 0.9  # the sentence above the figure, on two texts that are always there


def test_ways_to_count_that_follow_from_counts_are_tabulated_for_models(found):
    table = chapter.convention_table("quick")
    assert table.loc["as the listing", "negative eigenvalues"] == found.spectrum.n_negative
    expected = fits.cosines(kernels.k0_fft(found.spectrum), found.k0).mean()
    assert table.loc["as the listing", "FFT form"] == f"{expected:.3f}"
    windows = table.loc[["as the listing", "window of 2", "window of 10"], "FFT form"]
    assert windows.nunique() > 1  # other pairs, another D
    listings = chapter.listings_table("quick")
    assert listings.loc[TEXT, "the two listings"] == f"{fits.listings_cosine(found.spectrum):.3f}"


def test_best_epsilons_have_their_setting_and_the_sentence_its_null():
    table = chapter.best_eps("quick")
    assert table["name"].unique().tolist() == ["rate 0.0003, decay 0.01"]
    assert table["setting"].nunique() == 2
    logs = np.log(BEST_EPS["eps"])
    within = ((logs[:2] - logs[:2].mean()) ** 2).sum() + ((logs[2:] - logs[2:].mean()) ** 2).sum()
    share = 1 - within / ((logs - logs.mean()) ** 2).sum()
    assert chapter.eps_finding("quick").startswith(f"{share:.0%} of the variance of log epsilon")
    assert "; 25% of the best epsilons lie at an end" in chapter.eps_finding("quick")
    assert chapter.eps_note("quick").startswith("1,500 tokens of the package's own docstrings in 30 words;")
    assert len(drawn(chapter.plot_best_eps("quick").to_dict(), "symbol")) == len(table)


def test_all_charts_and_explorers_compile():
    for chart in (chapter.plot_spectrum, chapter.plot_orders, chapter.plot_row_cosines):
        compiled(chart("quick"))
    assert "of 14 eigenvalues of D are negative" in chapter.spectrum_finding("quick")
    assert "at the clamp that leaves them most" in chapter.share_finding("quick")
    grids = (
        ({"form": Choice(list(chapter.SHARES), "f")}, chapter.plot_shares, chapter.clamped_shares("quick")),
        ({"text": Choice(list(chapter.BUNDLED), "t")}, chapter.plot_conventions, chapter.convention_rows()),
    )
    for controls, draw, grid in grids:
        compiled(Explorer(None, controls, draw, title="t", caption="c", grid=grid))
    clamp = Range(-15, -1, 14, "c")
    measured = (
        (
            chapter.clamp_measure("quick"),
            {"order": Choice(["frequency"], "o"), "eps": Choice([0.003], "e")},
            chapter.plot_clamp_curves,
        ),
        (
            chapter.table_5_measure("quick"),
            {"log_clamp": clamp, "negative": Choice(["clamp", "shift"], "n")},
            chapter.plot_table_5,
        ),
        (
            chapter.row_measure("quick"),
            {
                "log_eps": Range(-3, 0, 3, "e"),
                "log_clamp": clamp,
                "negative": Choice(["clamp", "positive"], "n"),
                "form": Choice(list(chapter.FORMS), "f"),
                "order": chapter.LiveChoice(["frequency"], "o", more=["random 1"]),
                "text": chapter.length_choice("quick"),
                "row": chapter.LiveChoice(["first"], "r", more=["last"]),
            },
            chapter.plot_derived_row,
        ),
    )
    for measure, controls, draw in measured:
        explorer = Explorer(measure, controls, draw, title="t", caption="c")
        compiled(explorer)
        compiled(explorer.live_spec())


def test_logarithmic_places_survive_the_rounding_of_an_explorer():
    controls = {"form": Choice(list(chapter.SHARES), "f")}
    grid = chapter.clamped_shares("quick")
    spec = Explorer(None, controls, chapter.plot_shares, title="t", caption="c", grid=grid).static_spec()
    assert min(spec["data"]["values"][0]["log_clamp"]) == -15
