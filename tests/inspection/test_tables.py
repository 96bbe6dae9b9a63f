"""Tables measured whole, against brute force over all pairs of rows."""

import numpy as np
import pytest

from embviz.files.weights import StoredArray
from embviz.inspection import inspect, measures, tables

pytestmark = pytest.mark.usefixtures("one_thread")


def table_of(rows):
    rows = np.asarray(rows, dtype=np.float32)
    return StoredArray(rows.shape, lambda chosen: rows if chosen is None else rows[chosen])


@pytest.fixture
def rows(monkeypatch):
    """Rows with a common direction, clusters, a zero row and one twice; read in many blocks."""
    monkeypatch.setattr(tables, "BLOCK_ROWS", 37)
    rng = np.random.default_rng(0)
    found = 0.6 + rng.normal(size=(40, 12))[rng.integers(40, size=300)] + 0.3 * rng.normal(size=(300, 12))
    found[5] = 0
    found[7] = found[250]
    return found.astype(np.float32)


def cosines_of(rows):
    lengths = np.linalg.norm(rows.astype(float), axis=1, keepdims=True)
    unit = rows / np.where(lengths > 0, lengths, 1)
    cosines = unit @ unit.T
    np.fill_diagonal(cosines, -2)
    return cosines


def test_nearest_rows_are_those_of_brute_force_over_all_rows(rows):
    asked = np.array([0, 7, 36, 37, 120, 299])
    found = tables.nearest_rows(table_of(rows), rows[asked], asked, rows.mean(axis=0), n=4)
    cosines = cosines_of(rows)[asked]
    np.testing.assert_allclose(found.cosines, np.sort(cosines)[:, ::-1][:, :4], atol=2e-6)
    np.testing.assert_allclose(
        np.take_along_axis(cosines, found.rows, 1), found.cosines, atol=2e-6
    )  # the rows are those with these cosines
    assert found.rows[1, 0] == 250
    centred = cosines_of(rows - rows.mean(axis=0))[asked]
    np.testing.assert_allclose(found.centred, centred.max(axis=1), atol=2e-6)
    free = tables.nearest_rows(table_of(rows), rows[asked], np.full(6, -1), rows.mean(axis=0))
    np.testing.assert_allclose(free.cosines[:, 0], 1, atol=2e-6)  # each finds itself


def test_sums_over_blocks_are_those_of_the_whole_table(rows):
    found = tables.table_moments(table_of(rows))
    exact = rows.astype(float)
    np.testing.assert_allclose(found.gram, exact.T @ exact, rtol=1e-5)
    centred = exact - exact.mean(axis=0)
    np.testing.assert_allclose(found.centred_gram, centred.T @ centred, rtol=1e-4, atol=1e-3)
    np.testing.assert_allclose(found.lengths, np.linalg.norm(exact, axis=1), rtol=1e-6)
    assert (found.std, found.mean_entry) == (pytest.approx(exact.std()), pytest.approx(exact.mean()))
    fourth = ((exact - exact.mean()) ** 4).mean()
    assert found.kurtosis == pytest.approx(fourth / exact.var() ** 2, rel=1e-5)
    assert found.largest == pytest.approx(np.abs(exact - exact.mean()).max(), rel=1e-6)


def test_each_number_of_a_table_is_that_of_its_definition(rows):
    found = tables.measure_table(table_of(rows), np.arange(300), n_draws=3, seed=0)
    raw = {one.quantity: one for one in found.raw}
    centred = {one.quantity: one for one in found.centred}
    kept = np.delete(rows, 5, axis=0)
    for numbers, table in ((raw, kept), (centred, rows - rows.mean(axis=0))):
        cosines = cosines_of(table)
        off = cosines[~np.eye(len(table), dtype=bool)]
        one = numbers["mean cosine"]
        assert one.value == pytest.approx(off.mean(), abs=1e-5)
        assert one.interval[0] < one.value < one.interval[1]
        values = np.linalg.svd(rows if numbers is raw else table, compute_uv=False)
        assert numbers["stable rank"].value == pytest.approx((values**2).sum() / values[0] ** 2, rel=1e-4)
    best = cosines_of(kept).max(axis=1)
    assert raw["cosine with the nearest"].value == pytest.approx(best.mean(), abs=1e-5)
    lengths = np.linalg.norm(rows, axis=1)
    assert raw["spread of row lengths"].value == pytest.approx(lengths.std() / lengths.mean(), rel=1e-5)
    assert raw["mean cosine"].null.mean() > 0.1  # the mean of the entries stays where they are permuted
    assert abs(centred["mean cosine"].value) < 0.05 < raw["mean cosine"].value
    assert raw["cosine with the nearest"].value > raw["cosine with the nearest"].null.max()


def test_a_large_table_has_the_spectrum_of_a_small_one(rows, monkeypatch):
    """The sums of a table that is too large to be read whole give what the whole table gives."""
    draws = {"n_draws": 2, "seed": 0}
    small = tables.measure_table(table_of(rows), np.arange(300), **draws)
    monkeypatch.setattr(tables, "SMALL", 0)
    large = tables.measure_table(table_of(rows), np.arange(300), **draws)
    for kind in ("raw", "centred"):
        np.testing.assert_allclose(large.spectra[kind][0], small.spectra[kind][0], rtol=2e-3)
        for one, other in zip(getattr(large, kind), getattr(small, kind), strict=True):
            assert one.value == pytest.approx(other.value, rel=1e-3, abs=1e-6)
            assert one.null.mean() == pytest.approx(other.null.mean(), rel=0.15, abs=0.02)


def test_rows_of_independent_numbers_are_at_each_control():
    """The controls are what a table without structure has."""
    rows = np.random.default_rng(1).normal(size=(2_000, 80)) + 0.3
    found = tables.measure_table(table_of(rows), np.arange(0, 2_000, 4), n_draws=4, seed=0)
    for one in [*found.raw, *found.centred]:
        assert one.value == pytest.approx(one.null.mean(), rel=0.04, abs=2e-3), one.quantity


def test_equal_lengths_and_a_long_row_are_told_from_random_ones():
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(500, 30))
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    equal = tables.measure_table(table_of(rows), np.arange(500), n_draws=2, seed=0).raw[-1]
    assert equal.value < 1e-6 < 0.05 < equal.null[0]
    rows[123] *= 4
    rows[77] /= 3
    report = inspect({"wte.weight": rows}, [f"word{i}" for i in range(500)])
    assert report.extremes.iloc[[0, -1]]["token"].tolist() == ["word77", "word123"]
    assert report.extremes.iloc[-1]["length"] == pytest.approx(4, rel=1e-6)


def test_all_layers_are_measured():
    rng = np.random.default_rng(0)
    model = {"wte.weight": rng.normal(size=(50, 8))}
    for layer in range(15):
        model |= {f"h.{layer}.attn.{kind}_proj.weight": rng.normal(size=(8, 8)) for kind in "qkv"}
    assert sorted(set(inspect(model).table["layer"].dropna())) == list(range(15))


@pytest.mark.parametrize(
    ("shape", "mean", "spike"),
    [((900, 200), 0, 0), ((128, 320), 0, 0), ((300, 700), 0.2, 0), ((400, 400), 0, 60)],
)
def test_the_spectrum_of_independent_entries_is_that_of_the_formula(shape, mean, spike):
    rng = np.random.default_rng(0)
    drawn = []
    for _ in range(4):
        matrix = rng.normal(mean, 1, size=shape)
        matrix[3, 4] = spike or matrix[3, 4]
        squares = np.linalg.svd(matrix, compute_uv=False) ** 2
        end = matrix.std() * (np.sqrt(shape[0]) + np.sqrt(shape[1]))
        drawn.append([(squares > end**2).mean(), squares.sum() / squares[0], squares.std() / squares.mean()])
    largest = np.abs(matrix - matrix.mean()).max()
    found = measures.random_spectrum(*shape, matrix.std(), matrix.mean(), largest)
    assert found[0] == pytest.approx(np.mean(drawn, axis=0)[0], abs=1 / min(shape))
    np.testing.assert_allclose(found[1:], np.mean(drawn, axis=0)[1:], rtol=0.03)  # of finite matrices


def test_normal_singular_values_without_the_matrix_have_its_distribution():
    without = np.array([measures.normal_spectrum(150, 90, 2.0, seed=seed) for seed in range(20)])
    rng = np.random.default_rng(0)
    drawn = [np.linalg.svd(rng.normal(0, 2, size=(150, 90)), compute_uv=False) for _ in range(20)]
    np.testing.assert_allclose(without.mean(axis=0), np.mean(drawn, axis=0), rtol=0.06)


def test_nan_is_named_with_its_row_and_rows_that_do_not_rise_are_refused():
    with pytest.raises(ValueError, match="do not rise"):
        table_of(np.eye(4)).read(np.array([2, 1]))
    rows = np.eye(50)
    rows[31, 2] = np.nan
    with pytest.raises(ValueError, match="row 31 "):
        tables.table_moments(table_of(rows))
