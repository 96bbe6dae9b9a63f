import pandas as pd
import pytest

from book.reflections.arrows import plot_arrows
from tests import drawing


def test_an_arrow_runs_from_the_origin_to_its_two_numbers_and_its_head_points_there():
    table = pd.DataFrame({"u": [1.0, -1.0], "v": [0.0, 1.0], "which": ["x", "y"], "name": ["east", ""]})
    named = {"kind": "which", "names": ["x", "y"], "label": "name", "x_title": "u", "y_title": "v"}
    spec = plot_arrows(table, "u", "v", limit=2, **named).properties(width=100, height=100).to_dict()
    shafts = drawing.drawn(spec, "rule")[-2:]
    assert [(line["x"], line["y"], line["x2"], line["y2"]) for line in shafts] == [
        (75, 50, 50, 50),
        (25, 25, 50, 50),
    ]
    assert [head["angle"] for head in drawing.drawn(spec, "symbol")] == pytest.approx([90, -45])
    assert [item["text"] for item in drawing.drawn(spec, "text")] == ["east", ""]
    assert shafts[0]["stroke"] != shafts[1]["stroke"]
