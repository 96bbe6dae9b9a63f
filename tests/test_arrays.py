"""The one check of arrays: containers of the same numbers give the same array, everything else is refused."""

import math

import numpy as np
import pandas as pd
import pytest
import scipy.sparse
import torch

from embviz.arrays import (
    check_array,
    check_ids,
    check_int,
    check_matrix,
    check_number,
    check_pair,
    check_square,
    check_starts,
    in_blocks,
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
    "with a gradient": torch.tensor(NUMBERS, requires_grad=True),
    "bfloat16": torch.tensor(NUMBERS).bfloat16(),
}


@pytest.mark.parametrize("values", CONTAINERS.values(), ids=CONTAINERS)
def test_a_container_of_the_same_numbers_gives_the_same_array(values):
    found = check_array(values, "x", 2)
    assert type(found) is np.ndarray
    assert found.dtype == np.float64
    assert found.dtype.isnative
    np.testing.assert_array_equal(found, NUMBERS)


def test_a_plain_array_is_not_copied_and_small_types_are_kept_where_asked():
    assert check_array(NUMBERS, "x") is NUMBERS
    single, ids = NUMBERS.astype(np.float32), np.arange(4, dtype=np.uint8)
    assert check_array(single, "x", kind="floating") is single
    assert check_array(single.astype(np.float16), "x", kind="floating").dtype == np.float64
    assert check_array(ids, "x", kind="integer") is check_array(ids, "x", kind="number") is ids
    for kind in ("real", "number"):
        assert check_array(ids > 1, "x", kind=kind).tolist() == [0.0, 0.0, 1.0, 1.0]
    assert check_array([], "x", kind="integer", empty=True).dtype == np.int64
    assert check_ids(ids, 4).dtype == np.uint8
    assert check_ids([0, 2**40], 3, holes="above").tolist() == [0, 2**40]
    assert check_starts([0, 2], 3).dtype == np.int64
    assert check_square(np.eye(2), "Q").shape == (2, 2)
    assert check_int(np.int32(3), "window", 1) == 3
    assert check_number(np.float32(0.5), "share", 0, 1) == 0.5


def counted(values):
    return check_array(values, "x", 1, kind="integer", low=0, high=8)


REFUSED = [
    (lambda: check_array(np.array([1 + 0j]), "x"), "x has type complex128: give real numbers"),
    (lambda: check_array(torch.tensor(NUMBERS).to_sparse(), "x"), "x is a Tensor that makes no array"),
    (lambda: check_array(np.ma.masked_array([1.0, 2.0], mask=[True, False]), "x"), "x has masked values"),
    (lambda: check_array(np.array([1.0, np.nan, -np.inf]), "x"), r"x .*2 NaN or infinite value.* at \[1\]"),
    (lambda: check_array([[0.0, 1.0], [np.nan, 1.0]], "x"), r"x .*the first at \[1, 0\]"),
    (lambda: check_array([[1.0], [1.0, 2.0]], "x"), "x .*makes no array: .*inhomogeneous"),
    (lambda: check_array(pd.Series([1, None], dtype="Int64"), "x"), "x .*1 NaN or infinite"),
    (lambda: check_array(["1", "2"], "x"), "x has type <U1: give real numbers"),
    (lambda: check_array(pd.Series(pd.to_datetime(["2020-01-01"])), "x"), "x has type datetime64"),
    (lambda: check_array([1.0, pd.NA], "x"), "x has type object"),
    (lambda: check_array([10**30], "x"), "x has type object"),
    (lambda: check_array((x for x in (1.0, 2.0)), "x"), "x has type object"),
    (lambda: check_array(scipy.sparse.eye_array(2), "x"), "x has type object"),
    (lambda: check_array([], "x"), "x is empty"),
    (lambda: counted([1.0, 2.0]), "x has type float64: give integers"),
    (lambda: counted([True, False]), "x has type bool: give integers"),
    (lambda: counted(np.array([1, -2])), "x goes down to -2: it must be 0 or above"),
    (lambda: counted(np.array([1, 9])), "x goes up to 9: it must be 8 or below"),
    (lambda: counted([[1], [2]]), r"x has shape \(2, 1\): give an array with 1 axis"),
    (lambda: check_square(NUMBERS, "Q"), r"Q has shape \(3, 2\): it must be square"),
    (lambda: check_pair(NUMBERS, np.eye(2), 2), r"x has shape \(3, 2\) and y \(2, 2\): give two arrays"),
    (lambda: check_matrix(scipy.sparse.eye_array(2, 3), "counts"), r"counts has shape \(2, 3\): it must"),
    (lambda: check_ids([0, 4], 3), "ids goes up to 4: it must be 3 or below"),
    (lambda: check_ids([0, 2**31], 3), r"ids goes up to 2\.147"),
    (lambda: check_ids([0, -1], 3, holes="above"), "ids goes down to -1"),
    (lambda: check_ids([0.0, 1.0], 3), "ids has type float64: give integers"),
    (lambda: check_ids([], 3), "ids is empty"),
    (lambda: check_starts([0, 10.9], 30), "document_starts has type float64: give integers"),
    (lambda: check_starts([1], 3), "document_starts must start at 0"),
    (lambda: check_starts([0, 2, 1], 3), "document_starts must start at 0 and increase"),
    (lambda: check_starts([0, 3], 3), "document_starts goes up to 3: it must be 2 or below"),
    (lambda: check_starts([], 3), "document_starts is empty"),
]


@pytest.mark.parametrize(("call", "message"), REFUSED, ids=[message for _, message in REFUSED])
def test_what_is_no_plain_number_or_does_not_fit_is_refused_with_the_parameters_name(call, message):
    with pytest.raises(ValueError, match=f"^{message}"):
        call()


def test_single_numbers_are_whole_or_finite_and_in_range():
    for value in (0, 2.0, True, math.nan, "2", None):
        with pytest.raises(ValueError, match=r"window is .*: it must be a whole number, 1 to 9"):
            check_int(value, "window", 1, 9)
    for value in (-0.1, 1.1, math.nan, math.inf, "0.5", None, 1j):
        with pytest.raises(ValueError, match=r"share is .*: it must be a number, 0 to 1"):
            check_number(value, "share", 0, 1)


@pytest.mark.parametrize("kind", ["csr", "csc", "bsr"])
def test_a_sparse_array_whose_indices_lie_outside_its_shape_is_refused(kind):
    good = scipy.sparse.random_array((6, 6), density=0.5, format=kind, rng=np.random.default_rng(0))
    np.testing.assert_array_equal(check_matrix(good, "counts").toarray(), good.toarray())
    places = [("indices", -1, bad) for bad in (6, 2**31 - 1, -1)]
    for part, place, bad in [*places, *([("indptr", 2, 1000)] if kind != "bsr" else [])]:
        damaged = good.copy()
        getattr(damaged, part)[place] = bad
        with pytest.raises(ValueError, match="counts is a damaged sparse array, build it again"):
            check_matrix(damaged, "counts")


@pytest.mark.parametrize("kind", ["csr", "coo", "dok"])
def test_sparse_values_are_checked_as_dense_ones(kind):
    for bad, message in ((np.nan, "1 NaN"), (2j, "type complex"), (-1.0, "goes down to -1")):
        matrix = scipy.sparse.coo_array(([1.0, bad], ([0, 1], [1, 0])), shape=(2, 2)).asformat(kind)
        with pytest.raises(ValueError, match=f"counts .*{message}"):
            check_matrix(matrix, "counts", low=0)


def test_an_array_in_a_file_leaves_memory_block_by_block_and_keeps_what_was_written(tmp_path):
    stored = np.memmap(tmp_path / "ids", dtype=np.uint32, mode="w+", shape=(1000,))
    stored[:] = np.arange(1000)
    seen = [block.copy() for block in in_blocks(np.asarray(stored), 300)]
    assert [len(block) for block in seen] == [300, 300, 300, 100]
    np.testing.assert_array_equal(np.concatenate(seen), np.arange(1000))
    np.testing.assert_array_equal(stored, np.arange(1000))
