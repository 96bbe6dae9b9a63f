"""Charts as Vega sees them."""

from __future__ import annotations

import warnings

import vl_convert


def compiled(chart) -> dict:
    """Vega's form of a chart, an explorer or a Vega-Lite specification; a warning is an error."""
    if not isinstance(chart, dict):
        chart = chart.to_dict() if hasattr(chart, "to_dict") else chart.static_spec()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        return vl_convert.vegalite_to_vega(chart, vl_version="6.4")


def drawn(spec: dict, marktype: str, role: str = "mark") -> list[dict]:
    """Everything of one mark type and role (a mark, an axis-label) that Vega draws, in drawing order."""
    found, waiting = [], [vl_convert.vegalite_to_scenegraph(spec, vl_version="6.4")]
    while waiting:
        node = waiting.pop(0)
        if isinstance(node, dict):
            if node.get("marktype") == marktype and role in str(node.get("role")):
                found += node["items"]
            waiting += [value for value in node.values() if isinstance(value, dict | list)]
        else:
            waiting += [value for value in node if isinstance(value, dict | list)]
    return found
