"""The chapter on carrying a transformer: tables, heads that are mixed, ports, and its charts."""

import numpy as np
import pytest
import torch

from book.resizing import carrying as chapter
from book.resizing.experiments import bases, porting
from embviz.ledger import cells
from embviz.view.explorers import Choice, Explorer
from tests.book.resizing.experiments.test_porting import tiny
from tests.drawing import compiled

pytestmark = pytest.mark.usefixtures("one_thread")
CACHED = (chapter.component_errors, chapter.base)


@pytest.fixture(scope="module", autouse=True)
def small(tmp_path_factory):
    """Tiny base models in place of the presets', trained once."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("EMBVIZ_RESULTS_DIR", str(tmp_path_factory.mktemp("results")))
        patch.setattr(bases, "base", tiny)
        for cached in CACHED:
            cached.cache_clear()
        architectures = {component.architecture for component in porting.COMPONENTS.values()}
        cells.run(
            bases.base_cells(*(tiny("quick", name) for name in architectures)), n_jobs=1, progress=False
        )
        yield
    for cached in CACHED:
        cached.cache_clear()


def test_the_table_calls_exact_what_no_cause_is_named_for():
    table = chapter.component_table("quick")
    assert len(table) == len(porting.COMPONENTS) + len(porting.MORE_COMPONENTS)
    for part, row in table.iterrows():
        assert (row[porting.ROTATION] == "exact") == (row["cause"] == ""), part
        assert row[porting.GAUSSIAN] != "exact", part
    assert list(table.index) == [chapter.NAMES[name] for name in chapter.components("quick")]


def test_the_finding_counts_the_rows_that_stay_exact():
    table = chapter.component_table("quick")
    exact = (table[porting.ROTATION] == "exact").sum()
    assert f"Of {len(table)} ways to port, {exact} keep the logits" in chapter.components_finding("quick")


def test_heads_come_from_themselves_unless_a_map_mixes_them():
    assert chapter.head_shares("kept", 3, np.ones((6, 6))).tolist() == np.eye(3).tolist()
    assert chapter.head_shares("plain", 3, np.eye(6)).tolist() == np.eye(3).tolist()
    swapped = np.eye(6)[[2, 3, 0, 1, 4, 5]]
    assert chapter.head_shares("plain", 3, swapped)[0].tolist() == [0, 1, 0]
    T = np.random.default_rng(0).standard_normal((4, 6))
    shares = chapter.head_shares("plain", 2, T)
    assert shares.sum(1) == pytest.approx([1, 1])
    assert shares[1, 0] == pytest.approx((T[2:, :3] ** 2).sum() / (T[2:] ** 2).sum())


@pytest.mark.parametrize(("rule", "same"), [("heads kept", True), ("within heads", True), ("plain", False)])
def test_attention_is_what_it_was_unless_heads_are_mixed(rule, same):
    table = chapter.mixed("quick", rule, 1.0, 1, 2)
    before, after = (table[table["panel"] == panel] for panel in (chapter.BEFORE, chapter.AFTER))
    assert before["value"].groupby(before["row"]).sum().to_numpy() == pytest.approx(np.ones(chapter.N_PLACES))
    assert np.allclose(before["value"].to_numpy(), after["value"].to_numpy(), atol=1e-10) == same
    assert (table["panel"] == "heads").sum() == 4


def test_a_rotation_leaves_cosines_and_logits_alone():
    table = chapter.port("quick", "row-orthonormal", 1.0, "folded", "heads kept")
    assert len(table) == chapter.N_PLACES * (chapter.N_PLACES - 1) / 2
    assert table["after"].to_numpy() == pytest.approx(table["before"].to_numpy(), abs=1e-10)
    assert table["error"].sum() == 0
    assert table["concordance"].sum() == pytest.approx(1)
    narrow = chapter.port("quick", "row-orthonormal", 0.5, "folded", "heads kept")
    assert narrow["error"].iloc[0] > 1e-3
    assert narrow["before"].to_numpy() == pytest.approx(table["before"].to_numpy(), abs=1e-12)
    assert f"error of {narrow['error'].iloc[0]:.2f}" in chapter.port_finding("quick")


def test_folded_gains_lose_nothing_at_the_same_width():
    table = chapter.gain_losses("quick")
    own = table[(table["rule"] == "folded") & (table["width"] == "m = d")]
    assert own["lost"].to_numpy() == pytest.approx(np.zeros(2), abs=1e-5)
    means = table[table["width"] == "m = d / 2"].groupby("rule")["lost"].mean()
    most = means.drop("trained without gains").max()
    assert f"the most by gains projected ({most:.2f})" in chapter.gains_finding("quick")


def test_heads_and_rotary_bases_are_compared_at_all_their_widths():
    heads = chapter.head_losses("quick")
    assert sorted(set(heads["ratio"])) == [0.25, 0.5, 0.75, 1.0, 2.0]
    same = heads[(heads["ratio"] == 1.0) & (heads["rule"] == "heads kept")]
    assert same["lost"].abs().max() < 1e-5
    rotary = chapter.rotary_losses("quick")
    assert len(rotary) == 3 * 2 * 3  # widths, draws, factors
    assert "14 have a model" in chapter.widths_note("quick")
    assert "with a map within each head" in chapter.kept_note("quick")


def test_what_is_read_by_the_transpose_is_louder_by_the_ratio_of_widths():
    table = chapter.projected_twice(32, 64, n_draws=50).set_index(["family", "product"])
    by_inverse, by_transpose = (table.loc[("row-orthonormal", product)] for product in ("T⁺T", "TᵀT"))
    assert by_transpose.to_numpy(float) == pytest.approx(2 * by_inverse.to_numpy(float))
    # on average T+ T keeps m / d of a vector along itself, T'T all; four standard errors
    for family in chapter.FAMILIES.values():
        for product, share in (("T⁺T", 0.5), ("TᵀT", 1.0)):
            row = table.loc[(family, product)]
            assert abs(row["along"] - share) < 4 * row["sd"] / np.sqrt(50), (family, product)
    gaussian = table.loc[("Gaussian", "T⁺T")]
    assert gaussian["beside"] == pytest.approx(0.5, abs=0.05)  # sqrt(m / d - (m / d)^2)


def test_charts_and_explorers_compile():
    compiled(chapter.plot_components("quick"))
    compiled(chapter.plot_losses(chapter.gain_losses("quick"), "rule"))
    compiled(chapter.plot_rotary(chapter.rotary_losses("quick")))
    compiled(
        Explorer(
            lambda rule: chapter.mixed("quick", rule, 1.0, 1, 1),
            {"rule": Choice(["plain", "heads kept"], "heads:")},
            chapter.plot_mixed,
            title=chapter.mixed_finding("quick"),
            caption="",
        )
    )
    compiled(
        Explorer(
            lambda ratio: chapter.port("quick", "Gaussian", ratio, "gains dropped", "plain"),
            {"ratio": Choice([0.5, 1.0], "m / d:")},
            chapter.plot_port,
            title=chapter.port_finding("quick"),
            caption="",
        )
    )


def test_finding_sentences_are_of_the_models_at_hand():
    assert chapter.heads_finding("quick").startswith("Nats lost at m = d: heads kept 0.00")
    assert "where 2 equal parts would be 50%" in chapter.mixed_finding("quick")
    assert "Nats gained by the base" in chapter.rotary_finding("quick")
    assert "2 layers" not in chapter.data_note("quick")
    assert chapter.places("quick")[0].dtype == torch.int64
