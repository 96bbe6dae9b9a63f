"""Compare the pictures of chapters whose exact numbers differ between processors, by what must hold anyway.

A plugin for nbval: ``pytest --nbval -p tests.tolerated_pictures``. Cells with the tag ``nbval-ignore-output``
are run, and nbval compares nothing of them. Here each Vega-Lite picture that they draw is compared with the
stored one: what is drawn and how, letter by letter but for numbers within texts; the names, columns and
counts of its data; the numbers of each column within a tolerance. The tag ``nbval-layout`` says that
coordinates or clusters come from a layout, which another processor draws elsewhere, or losses from a training
whose course another processor changes: there the range and the spread of a column must agree, and not each
number. Clusters, whole numbers from -1, may be others and more. Of a map, whose clusters depend on how a
processor sorts equal numbers, the groups, their sizes and the packed bytes are compared within a tolerance.
"""

from __future__ import annotations

import base64
import gzip
import re
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

VEGA_LITE = "application/vnd.vegalite.v5+json"
IGNORED, LAYOUT = "nbval-ignore-output", "nbval-layout"
NUMBER = re.compile(r"[-+−]?\d+(?:[.,]\d+)*(?:e[-+]?\d+)?")
PACKED = ("far", "near", "packed")  # of a map: distances, neighbours, places, written as characters
OF_MAPS = ("columns", "regions")  # of a map: sizes and names of groups, and where their names stand
HASHED = re.compile(r"data-[0-9a-f]{8,}")  # what Altair calls a table, by its numbers
NEAR = 0.1  # of a column's spread: how far a number may lie from the stored one
MOST = 0.05  # share of a column's numbers that may lie farther
MIDDLE = 0.35  # of a layout's column: how far the middle of its range may lie, as a share of the range
SPREAD = 2.5  # ratio of ranges and of standard deviations; two processors had 2.0 in a random walk
CLUSTERS = 3.0  # of a layout: ratio of their numbers; two processors found 18 and 9 in one random walk


def faults(stored: dict[str, Any], drawn: dict[str, Any], *, layout: bool = False) -> list[str]:
    """Where a picture is another than the stored one, a sentence each; none if it holds."""
    found = list(_differences("", _frame(stored), _frame(drawn)))
    before, now = _columns(stored), _columns(drawn)
    if layout:  # a legend names the clusters found
        before, now = (
            {name: own for name, own in columns.items() if ".legend." not in name}
            for columns in (before, now)
        )
    if set(before) != set(now):
        found.append(f"other columns: {sorted(set(before) ^ set(now))}")
    for pair in zip(_maps(stored), _maps(drawn), strict=False):  # others are missing columns
        found += _map_faults(*pair, layout=layout)
    for name in sorted(set(before) & set(now)):
        fault = _column_fault(before[name], now[name], layout=layout)
        if fault:
            found.append(f"column {name}: {fault}")
    return found


def _masked(value: Any) -> Any:
    """The same with every number in a text left out."""
    return NUMBER.sub("#", HASHED.sub("data", value)) if isinstance(value, str) else value


def _is_data(key: str) -> bool:
    return key in ("datasets", "values", "titles", *PACKED)


def _frame(spec: Any) -> Any:
    """What is drawn and how: the specification without its data, texts without their numbers."""
    if isinstance(spec, dict):
        left_out = OF_MAPS if "n_neighbors" in spec else ()
        return {
            key: _frame(value) for key, value in spec.items() if not _is_data(key) and key not in left_out
        }
    if isinstance(spec, list):
        return [_frame(value) for value in spec]
    return _masked(spec)


def _differences(where: str, stored: Any, drawn: Any) -> Iterator[str]:
    if isinstance(stored, dict) and isinstance(drawn, dict):
        for key in sorted({*stored, *drawn}):
            if key not in stored or key not in drawn:
                yield f"{where}.{key} is only in {'the stored' if key in stored else 'the new'} picture"
            else:
                yield from _differences(f"{where}.{key}", stored[key], drawn[key])
    elif isinstance(stored, list) and isinstance(drawn, list):
        if _wrapped(stored) and _wrapped(drawn):  # one text, in lines that are cut by its length
            stored, drawn = " ".join(stored), " ".join(drawn)
            if stored != drawn:
                yield f"{where} is {drawn!r}, stored {stored!r}"
        elif len(stored) != len(drawn):
            yield f"{where} has {len(drawn)} parts, stored {len(stored)}"
        else:
            for place, pair in enumerate(zip(stored, drawn, strict=True)):
                yield from _differences(f"{where}[{place}]", *pair)
    elif is_number(stored) and is_number(drawn):
        if abs(stored - drawn) > NEAR * max(abs(stored), abs(drawn)):
            yield f"{where} is {drawn}, stored {stored}"
    elif stored != drawn:
        yield f"{where} is {drawn!r}, stored {stored!r}"


def _wrapped(value: list[Any]) -> bool:
    return bool(value) and all(isinstance(line, str) for line in value)


def is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _columns(spec: Any, where: str = "") -> dict[str, list[Any]]:
    """Every column of every table in a specification: its values in order, lists inside rows unfolded."""
    found: dict[str, list[Any]] = {}
    if isinstance(spec, dict):
        for key, value in spec.items():
            if key == "datasets":
                for name, rows in value.items():
                    own = HASHED.sub("data", name)
                    fields = ",".join(
                        sorted({field for row in rows if isinstance(row, dict) for field in row})
                    )
                    _gather(found, f"{where}.{own}({fields})", rows)
            elif _is_data(key) and key not in PACKED and isinstance(value, list):
                _gather(found, f"{where}.{key}", value)
            elif not _is_data(key):
                for name, values in _columns(value, f"{where}.{key}").items():
                    found.setdefault(name, []).extend(values)
    elif isinstance(spec, list):
        for place, value in enumerate(spec):
            for name, values in _columns(value, f"{where}[{place}]").items():
                found.setdefault(name, []).extend(values)
    return found


def _maps(spec: dict[str, Any]) -> list[dict[str, Any]]:
    return spec.get("usermeta", {}).get("embviz", {}).get("maps", [])


def _map_faults(stored: dict[str, Any], drawn: dict[str, Any], *, layout: bool) -> Iterator[str]:
    """Where the groups of a map are others, or its packed numbers; of a layout, how many groups there are."""
    before, now = (one.get("columns", []) for one in (stored, drawn))
    if [one["name"] for one in before] != [one["name"] for one in now]:
        yield f"columns of the map: {[one['name'] for one in now]}, stored {[one['name'] for one in before]}"
        return
    for one, other in zip(before, now, strict=True):
        if "kinds" not in one or "kinds" not in other:
            continue  # numbers, which are packed
        name, kinds = one["name"], (one["kinds"], other["kinds"])
        if layout and name == "cluster":
            yield from _number_fault(f"kinds of {name}", *map(len, kinds))
            continue
        if len(set(kinds[0]) & set(kinds[1])) < (1 - NEAR) * max(map(len, kinds)):
            yield f"{name} has the kinds {kinds[1]}, stored {kinds[0]}"
        sizes = [
            dict(zip(column["kinds"], column.get("counts", []), strict=False)) for column in (one, other)
        ]
        moved = sum(abs(sizes[0].get(kind, 0) - sizes[1].get(kind, 0)) for kind in {*sizes[0], *sizes[1]})
        if moved / 2 > MOST * sum(sizes[0].values()):
            yield f"{name} has the sizes {sizes[1]}, stored {sizes[0]}"
    yield from _number_fault("regions", len(stored.get("regions", [])), len(drawn.get("regions", [])))
    if not layout:
        for key in sorted({*stored, *drawn} & {*PACKED}):
            one, other = (_bytes(side.get(key, [])) for side in (stored, drawn))
            if one.shape != other.shape or (one != other).mean() > MOST:
                yield f"{key} of the map: more than {MOST:.0%} of its bytes are others"


def _bytes(written: str | list[str]) -> np.ndarray:
    raw = b"".join(base64.b64decode(one) for one in ([written] if isinstance(written, str) else written))
    return np.frombuffer(gzip.decompress(raw) if raw.startswith(b"\x1f\x8b") else raw, np.uint8)


def _number_fault(what: str, stored: int, drawn: int) -> Iterator[str]:
    if not 1 / CLUSTERS <= (drawn + 1) / (stored + 1) <= CLUSTERS:
        yield f"{drawn} {what}, stored {stored}"


def _gather(found: dict[str, list[Any]], where: str, rows: list[Any]) -> None:
    for row in rows:
        for column, value in (row if isinstance(row, dict) else {"": row}).items():
            own = found.setdefault(f"{where}:{column}", [])
            own.extend(value if isinstance(value, list) else [value])


def _column_fault(stored: list[Any], drawn: list[Any], *, layout: bool) -> str:
    if len(stored) != len(drawn):
        return f"{len(drawn)} values, stored {len(stored)}"
    if not all(is_number(value) for value in [*stored, *drawn]):
        unlike = [(a, b) for a, b in zip(stored, drawn, strict=True) if _masked(a) != _masked(b)]
        return f"{unlike[0][1]!r}, stored {unlike[0][0]!r}" if unlike else ""
    before, now = np.array(stored, float), np.array(drawn, float)
    if not layout:
        far = np.abs(before - now) > NEAR * _unit(before)
        return f"{far.mean():.0%} of its values lie elsewhere" if far.mean() > MOST else ""
    ends = [(float(side.min()), float(side.max())) for side in (before, now)]
    if _are_clusters(before) and _are_clusters(now):
        more = (ends[1][1] + 2) / (ends[0][1] + 2)  # -1 is none, 0 the first
        return "" if 1 / CLUSTERS <= more <= CLUSTERS else f"clusters to {ends[1][1]}, stored {ends[0][1]}"
    lengths = [max(high - low, NEAR * abs(low)) or 1.0 for low, high in ends]
    apart = abs(sum(ends[0]) - sum(ends[1])) / 2
    if apart > MIDDLE * max(lengths) or not 1 / SPREAD <= lengths[1] / lengths[0] <= SPREAD:
        return f"from {ends[1][0]:.4g} to {ends[1][1]:.4g}, stored {ends[0][0]:.4g} to {ends[0][1]:.4g}"
    spreads = [max(float(side.std()), 1e-12 * _unit(before)) for side in (before, now)]
    if not 1 / SPREAD <= spreads[1] / spreads[0] <= SPREAD:
        return f"standard deviation {spreads[1]:.4g}, stored {spreads[0]:.4g}"
    return ""


def _are_clusters(values: np.ndarray) -> bool:
    return bool((values == np.round(values)).all() and values.min() in (-1, 0))


def _unit(values: np.ndarray) -> float:
    """The spread of a column, or its size where all of it is one number."""
    return float(values.std()) or float(np.abs(values).max()) or 1.0


class PictureError(AssertionError):
    """A picture that is not the stored one."""


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Any:
    """After a chapter's cell has run: its pictures against the stored ones, where nbval compares nothing."""
    result = yield
    cell = getattr(item, "cell", None)
    tags = cell.metadata.get("tags", []) if cell is not None else []
    if IGNORED in tags and cell.outputs:  # a claim's cell stores none
        stored, drawn = (
            _pictures(outputs) for outputs in (cell.outputs, getattr(item, "test_outputs", None))
        )
        if len(stored) != len(drawn):
            raise PictureError(f"{len(drawn)} pictures, stored {len(stored)}")
        for pair in zip(stored, drawn, strict=True):
            found = faults(*pair, layout=LAYOUT in tags)
            if found:
                raise PictureError("the picture is not the stored one:\n" + "\n".join(found[:12]))
    return result


def _pictures(outputs: Any) -> list[dict[str, Any]]:
    return [one["data"][VEGA_LITE] for one in outputs or [] if VEGA_LITE in one.get("data", {})]
