"""Every public function that takes arrays, called with what should never have been handed in.

The functions are found by importing the package and reading annotations: none is known by its name. In each
call one array parameter gets a hostile value, the others the valid ones of :mod:`tests.drills.examples`.

    python -m tests.drills.hostile_inputs

prints how many calls were right (the numbers of the plain array, or a refusal that names the parameter), how
many confusing (another error, or one that does not say which parameter), and how many silent (a result where
there is none, other numbers than those of the plain array, NaN, or no end).
"""

from __future__ import annotations

import collections.abc
import dataclasses
import importlib
import inspect
import itertools
import json
import math
import os
import pkgutil
import re
import signal
import sys
import typing
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from decimal import Decimal
from typing import Any

import numpy as np
import pandas as pd
import scipy.sparse
import torch

import embviz
from tests.drills.examples import example

SECONDS = 20  # of the processor, after which a call counts as one that never ends
ARRAYS = re.compile(r"ndarray|NDArray|_SupportsArray|ArrayLike|csr_array|sparray|\bMatrix\b")
SPARSE = re.compile(r"sparse|csr_array|sparray|\bMatrix\b")


# --- which functions --------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class Target:
    """A function and one of its array parameters."""

    name: str  # as "cosines" or "EXor.spell"
    module: str
    function: Callable[..., Any]
    parameter: str
    takes_sparse: bool

    def arguments(self) -> dict[str, Any]:
        """Valid values of this parameter, and of all that have no default."""
        return {
            key: example(self.name, key)
            for key, found in inspect.signature(self.function).parameters.items()
            if key == self.parameter or found.default is found.empty
        }

    def call(self, value: Any) -> Any:
        """The result with `value` for the parameter."""
        arguments = self.arguments()
        plain = arguments[self.parameter]
        if isinstance(plain, dict):  # a mapping to arrays: the first is hostile
            value = {**plain, next(iter(plain)): value}
        elif isinstance(plain, list):
            value = [*plain[:-1], value]
        arguments[self.parameter] = value
        signature = inspect.signature(self.function)
        by_place = [key for key, found in signature.parameters.items() if found.kind == found.POSITIONAL_ONLY]
        first = [arguments.pop(key) for key in by_place]
        return self.function(*first, **arguments)

    def plain(self) -> Any:
        """The valid value that hostile ones are made from: an array."""
        value = self.arguments()[self.parameter]
        if isinstance(value, dict):
            return next(iter(value.values()))
        return value[-1] if isinstance(value, list) else value


def modules() -> Iterator[Any]:
    """Modules of the package. Compiled loops stand behind their doors, and have a test of their own."""
    for found in pkgutil.walk_packages(embviz.__path__, "embviz."):
        if not found.name.endswith(("_numba", "_torch")):
            yield importlib.import_module(found.name)


def callables(module: Any) -> Iterator[tuple[str, Callable[..., Any]]]:
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


def takes_arrays(annotation: Any, module: Any) -> bool:
    """Whether an annotation speaks of numpy's or scipy's arrays, by itself or by a name that they have."""
    if isinstance(annotation, str):
        text = re.sub(r"Callable\[\[.*?\],.*?\]", "", annotation)
        if ARRAYS.search(text):
            return True
        try:
            annotation = eval(text, vars(module))
        except (NameError, TypeError, SyntaxError, AttributeError):
            return False
    if isinstance(annotation, typing.TypeVar):
        return any(takes_arrays(found, module) for found in annotation.__constraints__)
    origin, parts = typing.get_origin(annotation), typing.get_args(annotation)
    if origin is collections.abc.Callable or origin is typing.Literal:
        return False
    return bool(ARRAYS.search(str(origin or annotation))) or any(
        takes_arrays(found, module) for found in parts
    )


def targets() -> list[Target]:
    """Every array parameter of every public function."""
    found = []
    for module in modules():
        for name, function in callables(module):
            for key, parameter in inspect.signature(function).parameters.items():
                if takes_arrays(parameter.annotation, module):
                    takes_sparse = bool(SPARSE.search(str(parameter.annotation)))
                    found.append(Target(name, module.__name__, function, key, takes_sparse))
    return found


# --- hostile values ---------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class Hostile:
    """A value, and what may be done with it."""

    name: str
    value: Any
    twin: np.ndarray | None = None  # the same numbers as a plain array; None: there are none to return
    exact: bool = True  # False where a narrower type may round what is computed
    only_finite: bool = False  # any finite result is right: there is no plain array to hold it against


def _with(array: np.ndarray, place: int, value: Any) -> np.ndarray:
    changed = array.astype(object if not isinstance(value, float) else float)
    changed.flat[place] = value
    return changed


def refused(a: np.ndarray) -> Iterator[Hostile]:
    """Values that no function can compute with."""
    last = a.size - 1
    yield Hostile("complex", a + 0j)
    yield Hostile("complex with an imaginary part", a + 1j)
    yield Hostile("complex list", (a + 1j).tolist())
    yield Hostile("complex tensor", torch.tensor(a + 1j))
    yield Hostile("one masked", np.ma.masked_array(a, mask=np.arange(a.size).reshape(a.shape) == 0))
    yield Hostile("all masked", np.ma.masked_array(a, mask=True))
    yield Hostile("rows masked", [np.ma.masked_array(row, mask=True) for row in np.atleast_1d(a)])
    for name, bad in (("NaN", math.nan), ("inf", math.inf), ("-inf", -math.inf)):
        yield Hostile(f"{name} first", _with(a, 0, bad))
        yield Hostile(f"{name} last", _with(a, last, bad))
        yield Hostile(f"all {name}", np.full(a.shape, bad))
    yield Hostile("NaN in float32", _with(a, last, math.nan).astype(np.float32))
    yield Hostile("NaN in a tensor", torch.tensor(_with(a, last, math.nan)))
    yield Hostile("NaN in a list", _with(a, last, math.nan).tolist())
    yield Hostile("ragged", [[1.0, 2.0], [3.0]])
    yield Hostile("ragged rows", [*np.atleast_1d(a)[:-1].tolist(), [[1.0]]])
    yield Hostile("array of text", a.astype(str))
    yield Hostile("list of text", a.astype(str).tolist())
    yield Hostile("bytes", a.astype("S8"))
    yield Hostile("a text", "hostile")
    yield Hostile("an object None", _with(a, 0, None))
    yield Hostile("a list with None", _with(a, 0, None).tolist())
    yield Hostile("decimals", _with(a, 0, Decimal(1)))
    yield Hostile("dates", np.zeros(a.shape, "M8[s]"))
    yield Hostile("time spans", np.ones(a.shape, "m8[s]"))
    yield Hostile("records", np.zeros(a.shape, [("a", float)]))
    yield Hostile("a number type", float)
    yield Hostile("a dictionary", {"a": 1.0})
    yield Hostile("a generator", (value for value in a.ravel()))
    if a.ndim in (1, 2):
        frame = pd.DataFrame(a) if a.ndim == 2 else pd.Series(a)
        yield Hostile("missing in pandas", frame.astype("Float64").mask(frame == a.flat[0]))
        yield Hostile("text in pandas", frame.astype(str))


def finite_at_best(a: np.ndarray) -> Iterator[Hostile]:
    """Numbers that a function may refuse; what it returns of them must be finite."""
    yield Hostile("huge", a * 1e300, only_finite=True)
    yield Hostile("one huge", _with(a.astype(float), 0, 1e300), only_finite=True)
    yield Hostile("tiny", a * 1e-170, only_finite=True)
    yield Hostile("all zeros", np.zeros_like(a), only_finite=True)
    yield Hostile("negative", -a - 1, only_finite=True)
    yield Hostile("truth values", a > np.median(a), only_finite=True)
    yield Hostile("empty", np.empty(0), only_finite=True)
    yield Hostile("empty rows", np.empty((0, *a.shape[1:])), only_finite=True)
    yield Hostile("a number", np.float64(0.5), only_finite=True)
    yield Hostile("0 axes", np.array(0.5), only_finite=True)
    yield Hostile("an axis more", a[None], only_finite=True)
    yield Hostile("an axis less", a[0] if a.ndim else a, only_finite=True)
    yield Hostile("an entry less", a[:-1] if a.ndim else a, only_finite=True)
    yield Hostile("fractions", a + 0.5, only_finite=True)
    yield Hostile("beyond 32 bits", a.astype(float) + 2.0**31, only_finite=True)
    yield Hostile("whole beyond 32 bits", np.rint(a).astype(np.int64) + 2**31, only_finite=True)
    yield Hostile("whole and negative", -np.rint(np.abs(a)).astype(np.int64) - 10**6, only_finite=True)


def containers(a: np.ndarray) -> Iterator[Hostile]:
    """The same numbers in another container."""
    strided = np.repeat(a, 2, axis=-1)[..., ::2]
    backward = np.ascontiguousarray(a[..., ::-1])[..., ::-1]
    read_only = a.copy()
    read_only.flags.writeable = False
    yield Hostile("nested lists", a.tolist(), a)
    yield Hostile("tuple of rows", tuple(a), a)
    yield Hostile("strided", strided, a)
    yield Hostile("backward", backward, a)
    yield Hostile("by columns", np.asfortranarray(a), a)
    yield Hostile("read-only", read_only, a)
    yield Hostile("other byte order", a.astype(a.dtype.newbyteorder(">")), a)
    yield Hostile("nothing masked", np.ma.masked_array(a, mask=False), a)
    yield Hostile("long double", a.astype(np.longdouble), a)
    yield Hostile("tensor", torch.tensor(a), a)
    yield Hostile("list of tensors", [torch.tensor(row) for row in np.atleast_1d(a)], np.atleast_1d(a))
    if a.ndim in (1, 2):
        frame = pd.DataFrame(a) if a.ndim == 2 else pd.Series(a)
        yield Hostile("pandas", frame, a)
        yield Hostile("pandas, other labels", frame.set_axis(frame.index[::-1] + 5), a)
        yield Hostile("pandas' own type", frame.astype("Int64" if a.dtype.kind == "i" else "Float64"), a)
    if a.ndim == 2:
        yield Hostile("matrix", np.asmatrix(a), a)
    whole = np.rint(np.abs(a))
    if a.dtype.kind in "iu":
        yield Hostile("int32", a.astype(np.int32), a)
        if a.min() >= 0 and a.max() < 256:
            yield Hostile("uint8", a.astype(np.uint8), a)
        yield Hostile("floats", a.astype(float), a)
        return
    yield Hostile("tensor with a gradient", torch.tensor(a.astype(float), requires_grad=True), a)
    for name, kind in (("bfloat16", torch.bfloat16), ("float16", torch.float16), ("float32", torch.float32)):
        tensor = torch.tensor(a.astype(float)).to(kind)
        yield Hostile(f"{name} tensor", tensor, tensor.double().numpy(), exact=False)
        rows = [row.clone().requires_grad_() for row in torch.atleast_1d(tensor)]
        yield Hostile(f"list of {name} tensors", rows, np.atleast_1d(tensor.double().numpy()), exact=False)
    yield Hostile("float32", a.astype(np.float32), a.astype(np.float32).astype(float), exact=False)
    yield Hostile("float16", a.astype(np.float16), a.astype(np.float16).astype(float), exact=False)
    yield Hostile("uint8", whole.astype(np.uint8), whole.astype(np.uint8).astype(float), exact=False)
    yield Hostile("int64", whole.astype(np.int64), whole)


def sparse_values(a: np.ndarray, takes_sparse: bool) -> Iterator[Hostile]:
    """Sparse arrays: the same numbers where a function takes them, or damaged."""
    if a.ndim != 2:
        return
    for kind in ("csr", "csc", "coo", "lil"):
        yield Hostile(f"sparse {kind}", scipy.sparse.csr_array(a).asformat(kind), a if takes_sparse else None)
    yield Hostile("sparse tensor", torch.tensor(a).to_sparse())
    if not takes_sparse:
        return
    for name, place in (("above", a.shape[1]), ("far above", 2**31 - 1), ("below", -1)):
        damaged = scipy.sparse.csr_array(a)
        damaged.indices[-1] = place
        yield Hostile(f"sparse, an index {name}", damaged)
    damaged = scipy.sparse.csr_array(a)
    damaged.indptr[1] = 10**6
    yield Hostile("sparse, rows beyond the end", damaged)
    for bad in (math.nan, math.inf):
        yield Hostile(f"sparse, {bad}", scipy.sparse.csr_array(_with(a, 0, bad)))
    yield Hostile("sparse, complex", scipy.sparse.csr_array(a + 1j))


def hostile_values(target: Target) -> Iterator[Hostile]:
    """All of them, made from the target's valid value."""
    plain = np.asarray(target.plain())
    told = inspect.getdoc(target.function) or ""
    annotation = str(inspect.signature(target.function).parameters[target.parameter].annotation)
    for hostile in refused(plain):
        by_design = ("complex" in told and "complex" in hostile.name) or (
            "may be infinite" in told and "inf" in hostile.name
        )
        by_design |= (
            hostile.name in ("a text", "a dictionary") and "Null" in annotation
        )  # a control by its name
        if not by_design:
            yield hostile
    yield from finite_at_best(plain)
    yield from containers(plain)
    yield from sparse_values(plain, target.takes_sparse)


# --- what came of it --------------------------------------------------------------------------------


class EndlessError(BaseException):
    """A call took longer than :data:`SECONDS`."""


def _stop(*_: Any) -> None:
    raise EndlessError


def numbers(result: Any, depth: int = 0) -> Iterator[np.ndarray]:
    """All numbers in a result, as float or complex arrays."""
    if depth > 6 or result is None or isinstance(result, str | bytes | type):
        return
    if scipy.sparse.issparse(result):
        yield np.asarray(result.toarray(), dtype=complex if np.iscomplexobj(result) else float).ravel()
    elif isinstance(result, torch.Tensor):
        yield result.detach().double().numpy().ravel()
    elif isinstance(result, pd.DataFrame | pd.Series):
        yield from numbers(
            [result[key].to_numpy() for key in result] if result.ndim == 2 else result.to_numpy()
        )
    elif isinstance(result, np.ndarray | np.generic | int | float | complex):
        array = np.asarray(result)
        if array.dtype.kind in "biufc":
            yield array.ravel() if array.dtype.kind == "c" else array.ravel().astype(float)
    elif isinstance(result, dict):
        for key in result:
            yield from numbers(result[key], depth + 1)
    elif isinstance(result, list | tuple):
        for part in result:
            yield from numbers(part, depth + 1)
    elif hasattr(result, "to_dict"):  # a chart
        yield from numbers(result.to_dict(), depth + 1)
    elif hasattr(result, "__dict__"):
        yield from numbers({key: value for key, value in vars(result).items() if key != "self"}, depth + 1)


def collected(result: Any) -> np.ndarray:
    """The numbers of a result in one array."""
    return np.concatenate([np.empty(0), *numbers(result)])


def _names(error: BaseException, parameter: str) -> bool:
    names = (
        {parameter, parameter.removesuffix("s"), parameter.removesuffix("es"), "first"}
        if parameter.endswith("s")
        else {parameter}
    )
    return any(re.search(rf"(?<![a-zA-Z_]){name}(?![a-zA-Z_])", str(error)) for name in names)


@dataclasses.dataclass(frozen=True)
class Outcome:
    """How one call ended."""

    target: Target
    hostile: str
    verdict: str  # "right", "confusing" or "silent"
    said: str  # the error, or what was returned

    def __str__(self) -> str:
        module = self.target.module.removeprefix("embviz.")
        return f"{module}.{self.target.name}({self.target.parameter} = {self.hostile}): {self.said}"


def _call(target: Target, value: Any) -> np.ndarray:
    signal.setitimer(signal.ITIMER_PROF, SECONDS)
    try:
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            return collected(target.call(value))
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)


def _twin_result(target: Target, twin: np.ndarray, known: dict[bytes, Any]) -> Any:
    key = repr((twin.dtype, twin.shape)).encode() + twin.tobytes()
    if key not in known:
        try:
            known[key] = _call(target, twin)
        except (Exception, EndlessError) as error:
            known[key] = error
    return known[key]


def judge(target: Target, hostile: Hostile, known: dict[bytes, Any]) -> Outcome:
    """One call and its verdict; `known` keeps results of plain arrays."""
    try:
        found = _call(target, hostile.value)
    except (ValueError, TypeError) as error:
        verdict = "right" if _names(error, target.parameter) else "confusing"
        return Outcome(target, hostile.name, verdict, f"{type(error).__name__}: {error}"[:160])
    except EndlessError:
        return Outcome(target, hostile.name, "silent", "no end")
    except Exception as error:
        return Outcome(target, hostile.name, "confusing", f"{type(error).__name__}: {error}"[:160])
    if hostile.twin is None:
        # what the plain value itself gives may hold NaN by design, such as an interval that is open
        usual = _twin_result(target, np.asarray(target.plain()), known)
        by_design = "may be missing" in (inspect.getdoc(target.function) or "")
        strange = np.isnan(found).sum() > np.isnan(usual).sum() and not by_design
        if re.search("beyond|huge|tiny", hostile.name):  # not of repeated points, whose density is infinite
            strange |= np.isinf(found).sum() > np.isinf(usual).sum()
        wrong = not hostile.only_finite or strange
        return Outcome(target, hostile.name, "silent" if wrong else "right", "returned")
    expected = _twin_result(target, hostile.twin, known)
    if isinstance(expected, BaseException):
        return Outcome(target, hostile.name, "silent", f"returned; the plain array: {expected}"[:160])
    tolerance = 1e-9 if hostile.exact else 1e-3  # float32's rounding, through an eigenvalue or two
    same = found.shape == expected.shape and np.allclose(
        found, expected, tolerance, tolerance, equal_nan=True
    )
    return Outcome(
        target, hostile.name, "right" if same else "silent", "returned other numbers than the array"
    )


def outcomes(chosen: list[Target], *, every: int = 1, start: int = 0) -> Iterator[Outcome]:
    """Every hostile value for each of these parameters, or one in so many."""
    signal.signal(signal.SIGPROF, _stop)
    for target in chosen:
        known: dict[bytes, Any] = {}
        plain = _twin_result(target, np.asarray(target.plain()), known)
        if isinstance(plain, BaseException):
            raise AssertionError(
                f"{target.module}.{target.name} cannot be called with the values of tests/drills/examples.py "
                f"({plain!r}): correct them, or add '{target.name}.<parameter>' there"
            ) from plain
        with warnings.catch_warnings():
            warnings.simplefilter(
                "ignore"
            )  # numpy's of its matrix class, and of numbers too large for a type
            hostiles = list(itertools.islice(hostile_values(target), start, None, every))
        for hostile in hostiles:
            yield judge(target, hostile, known)


def lines_of_a_child(target: Target) -> Iterator[tuple[str, str]]:
    """Verdict and text of each outcome, from a process of its own: a call may end the process."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        with open(writer, "w", buffering=1) as out:
            try:
                for outcome in outcomes([target]):
                    out.write(json.dumps([outcome.verdict, str(outcome)]) + "\n")
            except Exception as error:
                out.write(json.dumps(["no call", str(error)]) + "\n")
        os._exit(0)
    os.close(writer)
    with open(reader) as lines:
        yield from (tuple(json.loads(line)) for line in lines)
    _, status = os.waitpid(child, 0)
    if status:
        yield "silent", f"{target.module}.{target.name}({target.parameter}): the process ended, {status}"


def main() -> None:
    """Print what came of every call, function by function, and the totals."""
    torch.set_num_threads(1)
    total: Counter[str] = Counter()
    wanted = set(sys.argv[1:])
    for target in targets():
        if wanted and target.name not in wanted:
            continue
        for verdict, said in lines_of_a_child(target):
            total[verdict] += 1
            if verdict != "right":
                print(f"{verdict:9} {said}", flush=True)
    n = sum(total[verdict] for verdict in ("right", "confusing", "silent"))
    print(
        f"{n:,} calls of {len(targets())} array parameters: {total['silent']} silent, "
        f"{total['confusing']} confusing ({total['confusing'] / max(1, n):.1%}); "
        f"{total['no call']} parameters not called"
    )


if __name__ == "__main__":
    main()
