"""The one check of arrays that callers pass: plain, finite numbers, or an error that says what is wrong.

Public functions that take arrays pass them through :func:`check_array`, sparse ones through
:func:`check_matrix`, and a text through :func:`check_ids` and :func:`check_starts`. Compiled loops,
which look at no bounds, rely on it. All raise ValueError, with the parameter's name first.
"""

from __future__ import annotations

import math
import mmap
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

if TYPE_CHECKING:
    from scipy import sparse

Kind = Literal["real", "floating", "integer", "number"]

KEPT = {"real": "", "floating": "f", "integer": "iu", "number": "iuf"}  # numpy's letters for kinds of types


# --- dense arrays -----------------------------------------------------------------------------------


def check_array(
    values: Any,
    name: str,
    n_axes: int | None = None,
    *,
    kind: Kind = "real",
    low: float = -math.inf,
    high: float = math.inf,
    empty: bool = False,
    infinite: bool = False,
) -> np.ndarray:
    """A plain array of finite numbers, without a copy where `values` is one already.

    Parameters
    ----------
    values : array, nested lists, torch tensor (with a gradient, bfloat16, or on a GPU), pandas object
    name : str
        The parameter's name, with which messages begin.
    n_axes : int, optional
        How many axes there must be; any number without it.
    kind : "real", "floating", "integer" or "number"
        "real" gives float64; "floating" keeps float32 and float64 and gives float64 for the others; "integer"
        keeps integer types and refuses the others; "number" keeps every type (float16 and longer ones
        excepted). Truth values count as 0.0 and 1.0, but are no integers: True is no place in a table.
    low, high : float
        Range of the numbers, ends included.
    empty : bool
        Whether an array without an entry is taken.
    infinite : bool
        Whether infinity is a value, such as the epoch of what never happened.

    Returns
    -------
    array in the machine's byte order

    Examples
    --------
    >>> check_array([1, 2], "x", 1)
    array([1., 2.])
    >>> check_array([1.0, float("nan")], "x")
    Traceback (most recent call last):
        ...
    ValueError: x has 1 NaN or infinite value(s), the first at [1]: find where they come from
    """
    array = _plain(values, name)
    if array.size == 0:
        if not empty:
            raise ValueError(f"{name} is empty: its shape is {array.shape}")
        array = array.astype(np.int64 if kind == "integer" else np.float64)
    if array.dtype.kind not in ("iu" if kind == "integer" else "biuf"):
        wanted = "integers" if kind == "integer" and array.dtype.kind in "bf" else "real numbers"
        raise ValueError(f"{name} has type {array.dtype}: give {wanted}")
    if n_axes is not None and array.ndim != n_axes:
        axes = "1 axis" if n_axes == 1 else f"{n_axes} axes"
        raise ValueError(f"{name} has shape {array.shape}: give an array with {axes}")
    _require_range(array, name, low, high, infinite)
    if array.dtype.kind not in KEPT[kind] or (array.dtype.kind == "f" and array.dtype.itemsize not in (4, 8)):
        return array.astype(np.float64, copy=False)
    return array.astype(array.dtype.newbyteorder("="), copy=False)


def check_square(values: Any, name: str) -> np.ndarray:
    """A square matrix, checked as :func:`check_array` does."""
    return _require_square(check_array(values, name, 2), name)


def check_pair(
    x: Any, y: Any, n_axes: int, names: tuple[str, str] = ("x", "y")
) -> tuple[np.ndarray, np.ndarray]:
    """Two arrays of one shape, each checked as :func:`check_array` does."""
    first, second = (check_array(values, name, n_axes) for values, name in zip((x, y), names, strict=True))
    if first.shape != second.shape:
        raise ValueError(
            f"{names[0]} has shape {first.shape} and {names[1]} {second.shape}: "
            "give two arrays of the same shape"
        )
    return first, second


def _require_square(array: Any, name: str) -> Any:
    if array.ndim != 2 or array.shape[0] != array.shape[1] or array.shape[0] == 0:
        raise ValueError(f"{name} has shape {array.shape}: it must be square")
    return array


def _plain(values: Any, name: str) -> np.ndarray:
    """`values` as an array of whatever type; no mask is dropped."""
    if np.ma.is_masked(values):
        raise ValueError(f"{name} has masked values: fill them, or leave them out")
    try:
        if type(values).__module__ == "torch" and hasattr(values, "detach"):
            values = values.detach().cpu()
            values = values.float() if str(values.dtype) == "torch.bfloat16" else values
        return np.asarray(values)
    except Exception as error:  # a ragged list, or a sparse tensor
        raise ValueError(f"{name} is a {type(values).__name__} that makes no array: {error}") from error


def _require_range(array: np.ndarray, name: str, low: float, high: float, infinite: bool) -> None:
    """Refuse NaN, infinity, and what lies outside low..high; no array of truth values is made for it."""
    if not array.size or (array.dtype.kind in "iub" and (low, high) == (-math.inf, math.inf)):
        return
    with np.errstate(invalid="ignore"):
        smallest, largest = _extremes(array)  # NaN comes out of both
    if low <= smallest and largest <= high and (infinite or max(-smallest, largest) < math.inf):
        return
    wrong = np.isnan(array) if infinite else ~np.isfinite(array)
    if n_wrong := int(wrong.sum()):
        first = np.argwhere(wrong)[0].tolist()
        raise ValueError(
            f"{name} has {n_wrong} NaN or infinite value(s), the first at {first}: find where they come from"
        )
    if smallest < low:
        raise ValueError(f"{name} goes down to {smallest:g}: it must be {low:g} or above")
    raise ValueError(f"{name} goes up to {largest:g}: it must be {high:g} or below")


def _extremes(array: np.ndarray) -> tuple[Any, Any]:
    if array.ndim != 1:
        return array.min().item(), array.max().item()
    ends = [(block.min(), block.max()) for block in in_blocks(array)]
    lows, highs = zip(*ends, strict=True)
    return np.min(lows).item(), np.max(highs).item()


def in_blocks(array: Any, size: int = 1 << 22) -> Iterator[np.ndarray]:
    """Parts of a checked array along its first axis; of one in a file no more than a part is in memory.

    >>> [part.tolist() for part in in_blocks(np.arange(5), 2)]
    [[0, 1], [2, 3], [4]]
    """
    for first in range(0, len(array), size):
        yield array[first : first + size]
        release_pages(array)


def release_pages(array: Any) -> None:
    """Take an array's pages out of memory, where it lies in a file; they are read when they are asked for."""
    owner: Any = array
    while isinstance(owner, np.ndarray):
        owner = owner.base
    if isinstance(owner, mmap.mmap) and hasattr(mmap, "MADV_DONTNEED"):
        owner.madvise(mmap.MADV_DONTNEED)


# --- sparse arrays ----------------------------------------------------------------------------------


def check_matrix(
    matrix: Any, name: str, *, low: float = -math.inf, high: float = math.inf
) -> np.ndarray | sparse.csr_array:
    """A square matrix of the type that it has: dense, or as a csr_array of which no index leaves its shape.

    Takes what :func:`check_array` does, and scipy's sparse arrays of any format. Entries of one place are not
    yet added up. `low` and `high` are the range of the entries, ends included.
    """
    if not (type(matrix).__module__.startswith("scipy.sparse") and hasattr(matrix, "nnz")):
        return _require_square(check_array(matrix, name, low=low, high=high, kind="number"), name)
    from scipy import sparse  # whoever has a sparse array has imported it

    if matrix.format in ("csr", "csc", "bsr"):
        try:
            matrix.check_format(full_check=True)  # compiled loops write where the indices point
        except ValueError as error:
            raise ValueError(f"{name} is a damaged sparse array, build it again: {error}") from error
    csr = sparse.csr_array(matrix)
    _require_square(csr, name)
    data = check_array(csr.data, name, 1, low=low, high=high, kind="number", empty=True)
    return csr if data is csr.data else sparse.csr_array((data, csr.indices, csr.indptr), shape=csr.shape)


# --- texts ------------------------------------------------------------------------------------------


def check_ids(ids: Any, vocab_size: int, *, holes: Literal["V", "above"] = "V") -> np.ndarray:
    """A text (N,) as ids of words, 0 to V - 1, and of holes: V alone, or everything above the words.

    Examples
    --------
    >>> check_ids([0, 2, 1], 2).tolist()
    [0, 2, 1]
    """
    return check_array(ids, "ids", 1, kind="integer", low=0, high=vocab_size if holes == "V" else math.inf)


def check_starts(document_starts: Any, n_places: int) -> np.ndarray:
    """Places where documents start, int64, shape (documents,): they rise from 0 and lie in the text."""
    name = "document_starts"
    starts = check_array(document_starts, name, 1, kind="integer", high=n_places - 1).astype(np.int64)
    if starts[0] != 0 or (np.diff(starts) <= 0).any():
        raise ValueError(f"{name} must start at 0 and increase strictly")
    return starts


# --- single numbers ---------------------------------------------------------------------------------


def check_int(value: Any, name: str, low: int, high: int | None = None) -> int:
    """A whole number in low..high; 2.0 and True are none.

    Examples
    --------
    >>> check_int(2.5, "window", 1)
    Traceback (most recent call last):
        ...
    ValueError: window is 2.5: it must be a whole number, 1 or more
    """
    if (
        isinstance(value, int | np.integer)
        and not isinstance(value, bool)
        and value >= low
        and (high is None or value <= high)
    ):
        return int(value)
    range_ = f"{low} or more" if high is None else f"{low} to {high}"
    raise ValueError(f"{name} is {value!r}: it must be a whole number, {range_}")


def check_number(value: Any, name: str, low: float, high: float = math.inf) -> float:
    """A finite number in low..high, ends included."""
    if (
        isinstance(value, int | float | np.integer | np.floating)
        and low <= value <= high
        and value < math.inf
    ):
        return float(value)
    range_ = f"{low:g} or more" if high == math.inf else f"{low:g} to {high:g}"
    raise ValueError(f"{name} is {value!r}: it must be a number, {range_}")
