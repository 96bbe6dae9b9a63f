"""Clusters of snapshots in the chapters on geometry: told apart by kind of colour, never by a ramp."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from embviz.view import theme
from tests.book.conftest import BOOK

CLUSTERED = {"phase", "cluster", "judged", "colour"}


def ramps(part: Any) -> Iterator[dict[str, Any]]:
    """Encodings of colour within JSON that give clusters others than their own colours."""
    for name, value in part.items() if isinstance(part, dict) else enumerate(part):
        if not isinstance(value, dict | list) or name == "datasets":
            continue
        colours = name in ("color", "fill", "stroke", "condition") and isinstance(value, dict)
        if colours and value.get("field") in CLUSTERED:
            own = set(value.get("scale", {}).get("range", []))
            yield from [value] if value.get("type") != "nominal" or own != set(theme.CLUSTERS) else []
        yield from ramps(value)


def test_clusters_are_never_coloured_by_a_ramp():
    colour = {"field": "phase", "type": "quantitative", "scale": {"scheme": "viridis"}}
    assert list(ramps([{"encoding": {"color": {"condition": colour, "value": "grey"}}}])) == [colour]
    for chapter in (BOOK / "geometry").glob("*.ipynb"):
        assert list(ramps(json.loads(chapter.read_text(encoding="utf-8")))) == [], chapter.stem
