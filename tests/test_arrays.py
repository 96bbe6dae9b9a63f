"""The one check of arrays: containers of the same numbers give the same array, everything else is refused."""

import math

import numpy as np
import pandas as pd
import pytest
import scipy.sparse

from embviz.arrays import (
    checked,
    checked_ids,
    checked_matrix,
    checked_starts,
    in_blocks,
    matched,
    number,
    square,
    whole,
)

NUMBERS = np.array([[1.0, -2.5], [0.25, 3.0], [7.0, 0.0]])
CONTAINERS = {
    "list": NUMBERS.tolist(),
    "tuple of arrays": tuple(NUMBERS),
    "float32": NUMBERS.astype(np.float32),
    "big endian": NUMBERS.astype(">f8"),
    "not contiguous": np.repeat(NUMBERS, 2, axis=1)[:, ::2],
    "by columns": np.asfortranarray(NUMBERS),
    "objects of pandas": pd.DataFrame(NUMBERS),
    "nothing masked": np.ma.masked_array(NUMBERS, mask=False),
    "matrix": np.asmatrix(NUMBERS),
}


@pytest.mark.parametrize("values", CONTAINERS.values(), ids=CONTAINERS)
def test_a_container_of_the_same_numbers_gives_the_same_array(values):
    found = checked(values, "x", 2)
    assert type(found) is np.ndarray
    assert found.dtype == np.float64
    assert found.dtype.isnative
    np.testing.assert_array_equal(found, NUMBERS)


def test_tensors_with_gradients_and_bfloat16_give_the_same_array():
    torch = pytest.importorskip("torch")
    plain = torch.tensor(NUMBERS)
    for tensor in (plain, plain.requires_grad_(), plain.detach().bfloat16(), plain.to(torch.float16)):
        np.testing.assert_array_equal(checked(tensor, "x"), NUMBERS)
    with pytest.raises(ValueError, match="x is a Tensor that makes no array"):
        checked(plain.detach().to_sparse(), "x")
    with pytest.raises(ValueError, match="x holds complex numbers"):
        checked(torch.tensor([1j]), "x")


def test_a_plain_array_is_not_copied_and_small_types_are_kept_where_asked():
    assert checked(NUMBERS, "x") is NUMBERS
    single = NUMBERS.astype(np.float32)
    assert checked(single, "x", kind="floating") is single
    assert checked(single.astype(np.float16), "x", kind="floating").dtype == np.float64
    ids = np.arange(4, dtype=np.uint8)
    assert checked(ids, "x", kind="integer") is ids
    assert checked(ids, "x", kind="number") is ids
    assert (
        checked(ids > 1, "x").tolist()
        == checked(ids > 1, "x", kind="number").tolist()
        == [0.0, 0.0, 1.0, 1.0]
    )
    assert checked([], "x", kind="integer", empty=True).dtype == np.int64


REFUSED = {
    "complex numbers: take the real part": np.array([1 + 0j]),
    "1 masked value": np.ma.masked_array([1.0, 2.0], mask=[True, False]),
    r"2 NaN or infinite value\(s\), the first at \[1\]": np.array([1.0, np.nan, -np.inf]),
    r"the first at \[1, 0\]": [[0.0, 1.0], [np.nan, 1.0]],
    "makes no array: .*inhomogeneous": [[1.0], [1.0, 2.0]],
    "1 NaN or infinite": pd.Series([1, None], dtype="Int64"),
    "text: convert it": ["1", "2"],
    "bytes": np.array([b"1"]),
    "dates": pd.Series(pd.to_datetime(["2020-01-01"])),
    "time spans": np.array([1], dtype="m8[s]"),
    "records": np.zeros(2, dtype=[("a", float)]),
    "objects such as None": None,
    "objects such as <NA>": [1.0, pd.NA],
    "holds objects such as 1000": [10**30],
    "objects such as <generator": (x for x in (1.0, 2.0)),
    "is empty": [],
    "sparse array": scipy.sparse.eye_array(2),
}


@pytest.mark.parametrize(("message", "values"), REFUSED.items())
def test_what_is_no_plain_number_is_refused_with_the_parameters_name(message, values):
    with pytest.raises(ValueError, match=f"^x .*{message}"):
        checked(values, "x")


def test_integers_are_whole_by_type_and_no_truth_values():
    for values, message in [
        ([1.0, 2.0], "x has type float64: give integers"),
        ([True, False], "x has type bool: give integers"),
        (np.array([1, -2]), "x goes down to -2: it must be 0 or above"),
        (np.array([1, 9]), "x goes up to 9: it must be 8 or below"),
        ([[1], [2]], r"x has shape \(2, 1\): give an array with 1 axis"),
    ]:
        with pytest.raises(ValueError, match=message):
            checked(values, "x", 1, kind="integer", low=0, high=8)


def test_squares_and_pairs_of_arrays_fit():
    assert square(np.eye(2), "Q").shape == (2, 2)
    with pytest.raises(ValueError, match=r"Q has shape \(3, 2\): it must be square"):
        square(NUMBERS, "Q")
    with pytest.raises(ValueError, match=r"x has shape \(3, 2\) and y \(2, 2\): give two arrays"):
        matched(NUMBERS, np.eye(2), 2)


@pytest.mark.parametrize("kind", ["csr", "csc", "bsr"])
def test_a_sparse_array_whose_indices_lie_outside_its_shape_is_refused(kind):
    good = scipy.sparse.random_array((6, 6), density=0.5, format=kind, rng=np.random.default_rng(0))
    found = checked_matrix(good, "counts")
    np.testing.assert_array_equal(found.toarray(), good.toarray())
    for bad in (6, 2**31 - 1, -1):
        damaged = good.copy()
        damaged.indices[-1] = bad
        with pytest.raises(ValueError, match="counts is a damaged sparse array, build it again"):
            checked_matrix(damaged, "counts")
    if kind in ("csr", "csc"):
        damaged = good.copy()
        damaged.indptr[2] = 1000
        with pytest.raises(ValueError, match="counts is a damaged sparse array"):
            checked_matrix(damaged, "counts")


@pytest.mark.parametrize("kind", ["csr", "coo", "dok"])
def test_sparse_values_are_checked_as_dense_ones(kind):
    for bad, message in [
        (np.nan, "1 NaN"),
        (2j, "complex"),
        (-1.0, "goes down to -1"),
    ]:
        matrix = scipy.sparse.coo_array(([1.0, bad], ([0, 1], [1, 0])), shape=(2, 2)).asformat(kind)
        with pytest.raises(ValueError, match=f"counts .*{message}"):
            checked_matrix(matrix, "counts", low=0)
    with pytest.raises(ValueError, match=r"counts has shape \(2, 3\): it must be square"):
        checked_matrix(scipy.sparse.eye_array(2, 3), "counts")


def test_ids_outside_the_vocabulary_are_refused():
    assert checked_ids(np.array([0, 3, 2], np.uint8), 3).dtype == np.uint8
    assert checked_ids([0, 2**40], 3, holes="above").tolist() == [0, 2**40]
    for ids, message in [
        ([0, 4], "ids goes up to 4: words are 0 to 2, and a hole is 3"),
        ([0, 2**31], "ids goes up to 2147483648"),
        ([0, -1], "ids goes down to -1"),
        ([0.0, 1.0], "ids has type float64: give integers"),
        ([], "ids is empty"),
    ]:
        with pytest.raises(ValueError, match=message):
            checked_ids(ids, 3)


def test_documents_start_at_rising_places_of_the_text():
    assert checked_starts([0, 2], 3).dtype == np.int64
    for starts, message in [
        ([0, 10.9], "document_starts has type float64: give integers"),
        ([1], "document_starts must start at 0"),
        ([0, 2, 1], "document_starts must start at 0 and increase"),
        ([0, 3], "a document starts at 3, and the text has 3 places"),
        ([], "document_starts is empty"),
    ]:
        with pytest.raises(ValueError, match=message):
            checked_starts(starts, 3)


def test_single_numbers_are_whole_or_finite_and_in_range():
    assert whole(np.int32(3), "window", 1) == 3
    assert number(np.float32(0.5), "share", 0, 1) == 0.5
    for value in (0, 2.0, True, math.nan, "2", None):
        with pytest.raises(ValueError, match=r"window is .*: it must be a whole number, 1 to 9"):
            whole(value, "window", 1, 9)
    for value in (-0.1, 1.1, math.nan, math.inf, "0.5", None, 1j):
        with pytest.raises(ValueError, match=r"share is .*: it must be a number, 0 to 1"):
            number(value, "share", 0, 1)


def test_an_array_in_a_file_leaves_memory_block_by_block_and_keeps_what_was_written(tmp_path):
    stored = np.memmap(tmp_path / "ids", dtype=np.uint32, mode="w+", shape=(1000,))
    stored[:] = np.arange(1000)
    seen = [block.copy() for block in in_blocks(np.asarray(stored), 300)]
    assert [len(block) for block in seen] == [300, 300, 300, 100]
    np.testing.assert_array_equal(np.concatenate(seen), np.arange(1000))
    np.testing.assert_array_equal(stored, np.arange(1000))
