"""Clusters of snapshots in the chapters on geometry: told apart by kind of colour, never by a ramp."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from book.execute import VEGA_LITE
from embviz.view import theme

CHAPTERS = sorted((Path(__file__).resolve().parents[3] / "book/geometry").glob("*.ipynb"))
CLUSTERED = {"phase", "cluster", "judged", "colour"}


def colours(part: Any) -> Iterator[dict[str, Any]]:
    """All encodings of colour in a specification, and those inside conditions."""
    if isinstance(part, dict):
        for name, value in part.items():
            if name in ("color", "fill", "stroke") and isinstance(value, dict):
                yield value
                yield from (one for one in [value.get("condition")] if isinstance(one, dict))
            if name != "datasets":
                yield from colours(value)
    elif isinstance(part, list):
        for value in part:
            yield from colours(value)


def ramps(specification: Any) -> list[dict[str, Any]]:
    """Colours of clusters that are not the clusters' own."""
    own = [one for one in colours(specification) if one.get("field") in CLUSTERED]
    return [
        one
        for one in own
        if one.get("type") != "nominal" or set(one.get("scale", {}).get("range", [])) != set(theme.CLUSTERS)
    ]


def specifications(chapter: Path) -> list[Any]:
    cells = json.loads(chapter.read_text(encoding="utf-8"))["cells"]
    outputs = [output for cell in cells for output in cell.get("outputs", [])]
    return [output["data"][VEGA_LITE] for output in outputs if VEGA_LITE in output.get("data", {})]


@pytest.mark.parametrize("chapter", CHAPTERS, ids=lambda path: path.stem)
def test_clusters_are_never_coloured_by_a_ramp(chapter):
    assert [one for specification in specifications(chapter) for one in ramps(specification)] == []


def test_a_ramp_would_be_found():
    colour = {"field": "phase", "type": "quantitative", "scale": {"scheme": "viridis"}}
    spec = {"layer": [{"encoding": {"color": {"condition": colour, "value": "grey"}}}]}
    assert ramps(spec) == [colour]
