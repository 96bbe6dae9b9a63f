"""Every public function that takes arrays, called with what should never be passed.

The functions are found by their annotations: a new one is tested from its first day. In each call one array
parameter gets a hostile value, the others the valid ones of :mod:`tests.examples`. A value that is no number
is refused with the parameter's name; the same numbers in another container give the same result.
"""

import collections.abc
import dataclasses
import importlib
import inspect
import math
import pkgutil
import re
import typing
import warnings

import numpy as np
import pandas as pd
import pytest
import scipy.sparse
import torch

import embviz
from tests.examples import EXAMPLES, example

ARRAYS = re.compile(r"ndarray|NDArray|_SupportsArray|ArrayLike|csr_array|sparray|\bMatrix\b")
SPARSE = re.compile(r"sparse|csr_array|sparray|\bMatrix\b")


# --- which functions --------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class Target:
    """A function and one of its array parameters."""

    name: str  # as "cosines" or "EXor.spell"
    function: typing.Callable
    parameter: str
    annotation: str

    def call(self, replace=None):
        """The result with valid arguments; `replace` turns the parameter's array into another value."""
        signature = inspect.signature(self.function).parameters
        arguments = {
            key: example(self.name, key)
            for key, found in signature.items()
            if key == self.parameter or found.default is found.empty or f"{self.name}.{key}" in EXAMPLES
        }
        if replace is not None:
            valid = arguments[self.parameter]
            if isinstance(valid, dict):  # a mapping to arrays: the first is hostile
                valid = {**valid, next(iter(valid)): replace(next(iter(valid.values())))}
            else:
                valid = [*valid[:-1], replace(valid[-1])] if isinstance(valid, list) else replace(valid)
            arguments[self.parameter] = valid
        by_place = [key for key, found in signature.items() if found.kind == found.POSITIONAL_ONLY]
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            return collected(self.function(*map(arguments.pop, by_place), **arguments))


def callables(module):
    """Public functions, methods, and classes that check what they are made of."""
    for name, found in sorted(vars(module).items()):
        if name.startswith("_") or getattr(found, "__module__", None) != module.__name__:
            continue
        if inspect.isfunction(found):
            yield name, found
        if inspect.isclass(found) and not getattr(found, "_is_protocol", False):
            if "__post_init__" in vars(found):
                yield name, found
            for key, method in vars(found).items():
                if not key.startswith("_") and inspect.isfunction(method):
                    yield f"{name}.{key}", method


def takes_arrays(annotation, module):
    """Whether an annotation names numpy's or scipy's arrays, by itself or by an alias."""
    if isinstance(annotation, str):
        text = re.sub(r"Callable\[\[.*?\],.*?\]", "", annotation)
        if ARRAYS.search(text):
            return True
        try:
            annotation = eval(text, vars(module))
        except (NameError, TypeError, SyntaxError, AttributeError):
            return False
    if isinstance(annotation, typing.TypeVar):
        return any(takes_arrays(part, module) for part in annotation.__constraints__)
    origin, parts = typing.get_origin(annotation), typing.get_args(annotation)
    if origin is collections.abc.Callable or origin is typing.Literal:
        return False
    return bool(ARRAYS.search(str(origin or annotation))) or any(takes_arrays(part, module) for part in parts)


# Parts of `inspect`, which hands them arrays of its own making.
NOT_AT_THE_CALL = {
    *("isotropy_measures", "large_spectrum_measures", "length_measures", "nearest_measures"),
    *("inverse_lengths", "measure_table", "nearest_rows", "twin_measures", "GGUFFile.read"),
    *("normalize", "mean_cosine", "procrustes_map"),
    "plot_distances",  # measures the pairs that are shown, when they are shown: its own tests look at them
}


def targets():
    """Every array parameter of every public function, except functions that only the package itself calls."""
    names = [found.name for found in pkgutil.walk_packages(embviz.__path__, "embviz.")]
    return [
        Target(name, function, key, str(parameter.annotation))
        for module in map(importlib.import_module, names)
        if not module.__name__.endswith(("_numba", "_torch", ".sketches"))
        for name, function in callables(module)
        if name not in NOT_AT_THE_CALL
        for key, parameter in inspect.signature(function).parameters.items()
        if takes_arrays(parameter.annotation, module)
        and (name, key) != ("map_of_neighbors", "control")  # a pair
    ]


# --- what is passed ---------------------------------------------------------------------------------


def with_first(array, value):
    changed = array.astype(float if isinstance(value, float) else object)
    changed.flat[0] = value
    return changed


def masked(array):
    return np.ma.masked_array(array, mask=np.arange(array.size).reshape(array.shape) == 0)


def damaged(array):
    matrix = scipy.sparse.csr_array(array)
    matrix.indices[-1] = 2**31 - 1
    return matrix


REFUSED = {  # no function can compute with these
    "complex": lambda a: a + 1j,
    "one masked": masked,
    "NaN": lambda a: with_first(a, math.nan),
    "infinity": lambda a: with_first(a, -math.inf),
    "NaN in a tensor": lambda a: torch.tensor(with_first(a, math.nan)),
    "missing in pandas": lambda a: pd.Series(with_first(a, math.nan).ravel(), dtype="Float64"),
    "text": lambda a: a.astype(str),
    "None": lambda a: with_first(a, None).tolist(),
    "dates": lambda a: np.zeros(a.shape, "M8[s]"),
    "ragged": lambda a: [[1.0, 2.0], [3.0]],
    "a damaged sparse array": damaged,
}
FINITE = {  # may be refused; a result must be finite
    "all zeros": np.zeros_like,
    "negative": lambda a: -a - 1,
    "empty": lambda a: a[:0],
    "an axis more": lambda a: a[None],
    "an axis less": lambda a: a[0],
    "an entry less": lambda a: a[:-1],
    "beyond 32 bits": lambda a: np.rint(a).astype(np.int64) + 2**31,
}
EQUAL = {  # the same numbers in another container, as the plain array on the right
    "lists": (lambda a: a.tolist(), lambda a: a),
    "strided": (lambda a: np.repeat(a, 2, axis=-1)[..., ::2], lambda a: a),
    "other byte order": (lambda a: a.astype(a.dtype.newbyteorder(">")), lambda a: a),
    "tensor with a gradient": (lambda a: torch.tensor(a.astype(float), requires_grad=True), lambda a: a),
    "bfloat16": (lambda a: torch.tensor(a).bfloat16(), lambda a: torch.tensor(a).bfloat16().double().numpy()),
    "float32": (lambda a: a.astype(np.float32), lambda a: a.astype(np.float32).astype(float)),
    "sparse": (scipy.sparse.csr_array, lambda a: a),
}


def collected(result, depth=0):
    """All numbers in a result, in one array."""
    if scipy.sparse.issparse(result):
        result = result.toarray()
    if isinstance(result, torch.Tensor):
        result = result.detach().double().numpy()
    if isinstance(result, pd.DataFrame):
        result = {key: result[key].to_numpy() for key in result}
    if isinstance(result, np.ndarray | np.generic | int | float):
        array = np.asarray(result).ravel()
        return array.astype(float) if array.dtype.kind in "biuf" else np.empty(0)
    if hasattr(result, "to_dict") and not isinstance(result, dict):  # a chart
        result = result.to_dict()
    elif hasattr(result, "__dict__") and not isinstance(result, type):
        result = vars(result)
    if depth > 6 or not isinstance(result, dict | list | tuple):
        return np.empty(0)
    parts = result.values() if isinstance(result, dict) else result
    return np.concatenate([np.empty(0), *(collected(part, depth + 1) for part in parts)])


def may_be(target, hostile):
    """Whether a function's own words take a value that others refuse."""
    text = inspect.getdoc(target.function) or ""
    return (
        (hostile == "complex" and "complex" in text)
        or (hostile == "infinity" and "may be infinite" in text)
        or (hostile in FINITE and "may be missing" in text)
        or (hostile in ("NaN", "NaN in a tensor", "missing in pandas") and "All NaN" in text)
    )


def names(error, target):
    """Whether a message says which parameter is wrong."""
    words = {target.parameter, target.parameter.removesuffix("s"), target.parameter.removesuffix("es")}
    words |= {"first"} if target.parameter.endswith("s") else set()
    return any(re.search(rf"(?<![a-zA-Z_]){word}(?![a-zA-Z_])", str(error)) for word in words)


def outcome(target, replace):
    """A result or an error."""
    try:
        return target.call(replace)
    except Exception as error:
        return error


HOSTILE = [*REFUSED, *FINITE, *EQUAL]


def complaints(target, chosen=HOSTILE):
    """What is wrong about a target's calls: silent ones, and refusals that name no parameter."""
    plain = target.call()
    silent, confusing, n_refused = [], [], 0
    takes_sparse = bool(SPARSE.search(target.annotation))
    for hostile in (name for name in chosen if name not in EQUAL):
        found = outcome(target, {**REFUSED, **FINITE}[hostile])
        if isinstance(found, Exception):
            n_refused += 1
            if not names(found, target):
                confusing.append(f"{hostile}: {found!r}")
        elif hostile in REFUSED:
            silent += [] if may_be(target, hostile) else [f"{hostile}: returned"]
        elif np.isnan(found).sum() > np.isnan(plain).sum() and not may_be(target, hostile):
            silent.append(f"{hostile}: NaN")
    for hostile in (name for name in chosen if name in EQUAL):
        replace, twin = EQUAL[hostile]
        found = outcome(target, replace)
        if isinstance(found, Exception):
            continue
        if hostile == "sparse" and not takes_sparse:
            silent.append("sparse: returned")
            continue
        expected = outcome(target, twin)
        same = isinstance(expected, np.ndarray) and found.shape == expected.shape
        # float32's rounding, through an eigenvalue or two
        tolerance = 1e-3 if hostile in ("float32", "bfloat16") else 1e-9
        if not same or not np.allclose(found, expected, tolerance, tolerance, equal_nan=True):
            silent.append(f"{hostile}: other numbers than the array's")
    return silent, confusing, n_refused


TARGETS = targets()
CASES = [  # five of the values quickly, others for the next parameter; all of them where there is time
    pytest.param(target, values, id=f"{target.name}-{target.parameter}{said}", marks=marks)
    for place, target in enumerate(TARGETS)
    for values, said, marks in ((HOSTILE[place % 5 :: 5], "", []), (HOSTILE, "-all", pytest.mark.slow))
]


def test_every_public_function_that_takes_arrays_is_found():
    assert len(TARGETS) > 80
    assert {"cosines", "pmi", "WordVectors", "visits"} <= {target.name for target in TARGETS}


@pytest.mark.parametrize(("target", "values"), CASES)
@pytest.mark.usefixtures("one_thread")
def test_a_hostile_value_gives_the_plain_arrays_numbers_or_a_refusal(target, values):
    silent, confusing, n_refused = complaints(target, values)
    assert not silent
    assert len(confusing) <= max(1, n_refused // 3), confusing


def test_a_function_without_a_check_is_caught():
    """The judge itself: a function that averages whatever numpy makes of its argument."""

    def mean(values):
        return float(np.mean(np.asarray(values, dtype=float)))

    silent, _, _ = complaints(Target("mean", mean, "values", "ndarray"))
    caught = {line.partition(":")[0] for line in silent}
    assert {"one masked", "NaN", "infinity", "text", "dates"} <= caught
