"""The one check of what callers hand in: numbers come out as a plain array, or an error says what is wrong.

Every public function that takes arrays passes them through :func:`checked`, sparse ones through
:func:`checked_matrix`, and a text through :func:`checked_ids` and :func:`checked_starts`. Nothing behind
this door meets NaN, infinity, a complex number, a hidden mask, text, or an index that lies outside its table;
compiled loops, which look at no bounds, rely on it.
"""

from __future__ import annotations

import math
import mmap
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

if TYPE_CHECKING:
    from scipy import sparse

Kind = Literal["real", "floating", "integer", "number", "complex"]

LARGEST = 1e100  # squares and products of such numbers, and sums of them, stay finite in float64
SMALLEST = 1e-100  # and do not vanish; what is not 0 must reach it somewhere
FOURTH_POWERS = 1e70  # the largest where fourth powers are taken
NO_NUMBERS = {
    "c": "complex numbers: take the real part, or the absolute value, if that is what you mean",
    "U": "text: convert it to numbers first",
    "S": "bytes: convert them to numbers first",
    "M": "dates: convert them to numbers first",
    "m": "time spans: convert them to numbers first",
    "V": "records: take one field",
}


# --- dense arrays -----------------------------------------------------------------------------------


def checked(
    values: Any,
    name: str,
    n_axes: int | None = None,
    *,
    kind: Kind = "real",
    low: float = -LARGEST,
    high: float = LARGEST,
    empty: bool = False,
    infinite: bool = False,
) -> np.ndarray:
    """What a caller handed in as a plain array of finite numbers, without a copy where it is one already.

    Parameters
    ----------
    values : array, nested lists, torch tensor (with a gradient, bfloat16, or on a GPU), pandas object
    name : str
        The parameter's name, with which messages begin.
    n_axes : int, optional
        How many axes there must be; any number without it.
    kind : "real", "floating", "integer", "number" or "complex"
        "real" gives float64; "floating" leaves float32 and float64 as they are and gives float64 for the
        others; "integer" leaves whole types as they are and refuses the others; "number" leaves every type
        as it is (float16 and longer ones excepted), and so does "complex", which takes complex numbers too.
        Truth values count as 0.0 and 1.0, but are no integers: True is no place in a table.
    low, high : float
        Range of the numbers, ends included. Within the default one squares neither overflow nor all vanish;
        where none are taken, infinite ends let every finite number through.
    empty : bool
        Whether an array without an entry is taken.
    infinite : bool
        Whether infinity is a value, such as the epoch of what never happened.

    Returns
    -------
    array in the machine's byte order

    Raises
    ------
    ValueError
        If the values are not numbers (complex, text, objects, ragged lists), some are masked, NaN, infinite
        or out of range, or the array is empty or has another number of axes.

    Examples
    --------
    >>> checked([1, 2], "x", 1)
    array([1., 2.])
    >>> checked([1.0, float("nan")], "x")
    Traceback (most recent call last):
        ...
    ValueError: x has 1 NaN or infinite value(s): find where they come from
    """
    array = _plain(values, name)
    _require_numbers(array, name, "biufc" if kind == "complex" else "biuf")
    if array.size == 0:
        if not empty:
            raise ValueError(f"{name} is empty: its shape is {array.shape}")
        array = array.astype(np.int64 if kind == "integer" else np.float64)
    if n_axes is not None and array.ndim != n_axes:
        axes = "1 axis" if n_axes == 1 else f"{n_axes} axes"
        raise ValueError(f"{name} has shape {array.shape}: give an array with {axes}")
    if kind == "integer":
        _require_integers(array, name)
    for part in (array.real, array.imag) if array.dtype.kind == "c" else (array,):
        finite = part[np.isfinite(part)] if infinite and not np.isnan(part).any() else part
        _require_range(finite, name, low, high, least=0.0 if infinite else SMALLEST)
    keeps = {"floating": ("float32", "float64"), "real": ("float64",)}.get(kind)
    odd = array.dtype.kind == "b" or (array.dtype.kind == "f" and array.dtype.itemsize not in (4, 8))
    if odd or (keeps and array.dtype.name not in keeps):
        return array.astype(np.float64, copy=False)
    return array.astype(array.dtype.newbyteorder("="), copy=False)


def square(values: Any, name: str, *, kind: Kind = "real", low: float = -LARGEST) -> np.ndarray:
    """A square matrix, checked as :func:`checked` does."""
    return _require_square(checked(values, name, 2, kind=kind, low=low), name)


def matched(
    x: Any, y: Any, n_axes: int, names: tuple[str, str] = ("x", "y")
) -> tuple[np.ndarray, np.ndarray]:
    """Two arrays of one shape, each checked as :func:`checked` does."""
    first, second = (checked(values, name, n_axes) for values, name in zip((x, y), names, strict=True))
    if first.shape != second.shape:
        raise ValueError(
            f"{names[0]} has shape {first.shape} and {names[1]} {second.shape}: row i of one is held against "
            "row i of the other"
        )
    return first, second


def _require_square(array: Any, name: str) -> Any:
    if array.ndim != 2 or array.shape[0] != array.shape[1] or array.shape[0] == 0:
        raise ValueError(f"{name} has shape {array.shape}: it must be square")
    return array


def _plain(values: Any, name: str) -> np.ndarray:
    """`values` as an array of whatever type; no mask, no gradient and no ragged row is lost in silence."""
    root = type(values).__module__.partition(".")[0]
    if _is_sparse(values):
        raise ValueError(f"{name} is a sparse array: give a dense one, {name}.toarray()")
    if isinstance(values, np.ma.MaskedArray):
        if n_masked := int(np.ma.count_masked(values)):
            raise ValueError(f"{name} has {n_masked} masked value(s): fill them, or leave them out")
        return np.asarray(values.data)
    if isinstance(values, list | tuple):
        return _from_sequence(values, name)
    if root == "torch" and hasattr(values, "detach"):
        return _from_torch(values, name)
    if root == "pandas" and hasattr(values, "to_numpy"):
        return _from_pandas(values)
    try:
        array = np.asarray(values)
    except Exception as error:
        raise ValueError(f"{name} is a {type(values).__name__} that makes no array: {error}") from error
    return array.astype(np.float32) if array.dtype.name == "bfloat16" else array


def _from_sequence(values: list | tuple, name: str) -> np.ndarray:
    if not all(isinstance(value, int | float | np.number | np.bool | str) for value in values):
        values = [_plain(value, name) for value in values]
        for value in values:
            _require_no_objects(value, name)
        shapes = dict.fromkeys(value.shape for value in values)
        if len(shapes) > 1:
            raise ValueError(f"{name} is ragged: its rows have shapes {', '.join(map(str, [*shapes][:3]))}")
    return np.asarray(values)


def _from_torch(tensor: Any, name: str) -> np.ndarray:
    if str(tensor.layout) != "torch.strided":
        raise ValueError(f"{name} is a sparse tensor: give a dense one, {name}.to_dense()")
    tensor = tensor.detach().cpu().resolve_conj().resolve_neg()
    array: np.ndarray = (tensor.float() if str(tensor.dtype) == "torch.bfloat16" else tensor).numpy()
    return array


def _from_pandas(values: Any) -> np.ndarray:
    dtypes = values.dtypes if values.ndim == 2 else [values.dtype]
    kinds = {getattr(dtype, "kind", "O") for dtype in dtypes}
    array: np.ndarray = values.to_numpy()
    if array.dtype.kind == "O" and kinds <= set("biuf"):  # pandas' own numbers, which know missing ones
        array = values.to_numpy(dtype=float, na_value=np.nan)
    return array


def _require_numbers(array: np.ndarray, name: str, kinds: str) -> None:
    _require_no_objects(array, name)
    if array.dtype.kind not in kinds:
        raise ValueError(f"{name} holds {NO_NUMBERS[array.dtype.kind]}")


def _require_no_objects(array: np.ndarray, name: str) -> None:
    if array.dtype.kind == "O":
        first = repr(next(iter(array.flat), None))
        raise ValueError(f"{name} holds objects such as {first:.40}: give numbers that all fit one type")


def _require_integers(array: np.ndarray, name: str) -> None:
    if array.dtype.kind == "b":
        raise ValueError(
            f"{name} holds truth values: give whole numbers (np.flatnonzero says where they hold)"
        )
    if array.dtype.kind == "f":
        _require_range(array, name, -np.inf, np.inf)
        fractions = array[array % 1 != 0]
        like = f"holds {fractions.flat[0]:g}" if fractions.size else f"has type {array.dtype}"
        raise ValueError(f"{name} {like}: give integers")


def _require_range(array: np.ndarray, name: str, low: float, high: float, least: float = SMALLEST) -> None:
    """Refuse NaN, infinity, and what lies outside low..high; no array of truth values is made for it."""
    if not array.size:
        return
    with np.errstate(invalid="ignore"):
        smallest, largest = _extremes(array)  # NaN comes out of both
    magnitude = max(-smallest, largest)
    in_range = low <= smallest and largest <= high and magnitude < math.inf
    if in_range and (magnitude >= least or magnitude == 0 or high > LARGEST):
        return
    if n_bad := int((~np.isfinite(array)).sum()):
        raise ValueError(f"{name} has {n_bad} NaN or infinite value(s): find where they come from")
    if magnitude > LARGEST and high <= LARGEST:
        raise ValueError(f"{name} reaches {magnitude:g}: squares of it would overflow, scale it down")
    if in_range:
        raise ValueError(f"{name} reaches {magnitude:g} at most: squares of it would vanish, scale it up")
    if smallest < low:
        raise ValueError(f"{name} goes down to {smallest:g}: it must be {low:g} or above")
    if largest > high:
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
        let_go(array)


def let_go(array: Any) -> None:
    """Take an array's pages out of memory, where it lies in a file; they are read when they are asked for."""
    owner: Any = array
    while isinstance(owner, np.ndarray):
        owner = owner.base
    if isinstance(owner, mmap.mmap) and hasattr(mmap, "MADV_DONTNEED"):
        owner.madvise(mmap.MADV_DONTNEED)


# --- sparse arrays ----------------------------------------------------------------------------------


def checked_matrix(
    matrix: Any, name: str, *, low: float = -LARGEST, high: float = LARGEST
) -> np.ndarray | sparse.csr_array:
    """A square matrix, dense or sparse; of a sparse one the structure is checked before it is read.

    Parameters
    ----------
    matrix : whatever :func:`checked` takes, or a sparse array of scipy's, of any format
    name : str
    low, high : float
        Range of the entries, ends included.

    Returns
    -------
    array of the type that it has, or csr_array, whose entries of one place are not yet added up

    Raises
    ------
    ValueError
        As :func:`checked`; and if an index of a sparse array lies outside its shape.
    """
    if not _is_sparse(matrix):
        return _require_square(checked(matrix, name, low=low, high=high, kind="number"), name)
    from scipy import sparse  # whoever has a sparse array has imported it

    _require_structure(matrix, name)
    csr = sparse.csr_array(matrix)
    _require_square(csr, name)
    data = checked(csr.data, name, 1, low=low, high=high, kind="number", empty=True)
    return csr if data is csr.data else sparse.csr_array((data, csr.indices, csr.indptr), shape=csr.shape)


def _is_sparse(values: Any) -> bool:
    return type(values).__module__.startswith("scipy.sparse") and hasattr(values, "nnz")


def _require_structure(matrix: Any, name: str) -> None:
    """Refuse indices outside the shape; scipy's own conversions write where they point."""
    try:
        if matrix.format in ("csr", "csc", "bsr"):
            matrix.check_format(full_check=True)
        elif matrix.format == "coo":
            for ends, size in zip(matrix.coords, matrix.shape, strict=True):
                if len(ends) != len(matrix.data):
                    raise ValueError(f"{len(ends)} indices for {len(matrix.data)} entries")
                checked(ends, "an index", 1, kind="integer", low=0, high=size - 1, empty=True)
    except ValueError as error:
        raise ValueError(f"{name} is a damaged sparse array, build it again: {error}") from error


# --- texts ------------------------------------------------------------------------------------------


def checked_ids(ids: Any, vocab_size: int, *, holes: Literal["V", "above"] = "V") -> np.ndarray:
    """A text as ids of words, 0 to V - 1, and of holes: V alone, or everything above the words.

    Parameters
    ----------
    ids : array of integers, shape (N,)
    vocab_size : int
        V.
    holes : "V" or "above"

    Returns
    -------
    integer array, shape (N,), in the type it has

    Raises
    ------
    ValueError
        If the text is empty, is no list of integers, or an id lies out of range.

    Examples
    --------
    >>> checked_ids([0, 2, 1], 2).tolist()
    [0, 2, 1]
    """
    if _plain(ids, "ids").size == 0:
        raise ValueError("ids is empty: the text has no token")
    array = checked(ids, "ids", 1, kind="integer", low=-np.inf, high=np.inf)
    lowest, highest = _extremes(array)
    rule = f"words are 0 to {vocab_size - 1}, and a hole is {vocab_size}"
    if lowest < 0:
        raise ValueError(f"ids goes down to {lowest}: {rule}{' or above' if holes == 'above' else ''}")
    if highest > vocab_size and holes == "V":
        raise ValueError(f"ids goes up to {highest}: {rule}")
    return array


def checked_starts(document_starts: Any, n_places: int) -> np.ndarray:
    """Places where documents start, int64, shape (documents,): they rise from 0 and lie in the text.

    Raises
    ------
    ValueError
        If they don't, or are no integers.
    """
    name = "document_starts"
    starts = checked(document_starts, name, 1, kind="integer", low=-np.inf, high=np.inf).astype(np.int64)
    if starts[0] != 0 or (np.diff(starts) <= 0).any():
        raise ValueError(f"{name} must rise from 0, without repeats")
    if starts[-1] >= n_places:
        raise ValueError(f"{name}: a document starts at {starts[-1]}, and the text has {n_places} places")
    return starts


# --- single numbers ---------------------------------------------------------------------------------


def whole(value: Any, name: str, low: int, high: int | None = None) -> int:
    """A whole number in low..high; 2.0 and True are none.

    Raises
    ------
    ValueError
        If it is not.

    Examples
    --------
    >>> whole(2.5, "window", 1)
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


def number(value: Any, name: str, low: float, high: float = math.inf) -> float:
    """A finite number in low..high, ends included.

    Raises
    ------
    ValueError
        If it is not.
    """
    if (
        isinstance(value, int | float | np.integer | np.floating)
        and low <= value <= high
        and value < math.inf
    ):
        return float(value)
    range_ = f"{low:g} or more" if high == math.inf else f"{low:g} to {high:g}"
    raise ValueError(f"{name} is {value!r}: it must be a number, {range_}")
