"""Write the README's picture, the front page's map with its control: ``python -m book.front.readme``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import altair as alt
import pandas as pd
import vl_convert

from book.front.glove import TRAINED, UNTRAINED, map_cells
from embviz.ledger.cells import table_of
from embviz.view.vocabulary_maps import PALETTE

PICTURE = Path(__file__).parent.parent / "assets" / "front.png"
WIDTH, HEIGHT = 520, 400
EDGE = 0.001  # share of the points beyond each edge


def panel(table: pd.DataFrame, title: str, *, named: bool) -> Any:
    """Words as points, coloured by topic; topics are named at their medians."""
    scale = {
        axis: alt.Scale(domain=table[axis].quantile([EDGE, 1 - EDGE]).tolist(), nice=False) for axis in "xy"
    }
    place = {
        "x": alt.X("x:Q", axis=None, scale=scale["x"]),
        "y": alt.Y("y:Q", axis=None, scale=scale["y"]),
    }
    topics = table["topic"].value_counts().index.tolist()
    colour = alt.Color("topic:N", legend=None).scale(domain=topics, range=list(PALETTE[: len(topics)]))
    points = alt.Chart(table[["x", "y", "topic"]]).mark_circle(size=7, opacity=0.8, clip=True)
    layers = [points.encode(**place, color=colour)]
    if named:
        middle = table.groupby("topic", as_index=False)[["x", "y"]].median()
        looks: list[dict[str, Any]] = [{"stroke": "white", "strokeWidth": 3}, {}]
        for look in looks:
            name = alt.Chart(middle).mark_text(fontSize=12, fontWeight=600, **look)
            layers.append(name.encode(**place, text="topic:N"))
    return alt.layer(*layers).properties(width=WIDTH, height=HEIGHT, title=alt.Title(title, fontSize=15))


if __name__ == "__main__":
    trained, untrained = (table_of(cell) for cell in map_cells())
    chart = alt.hconcat(
        panel(trained, f"{TRAINED}: related words lie together", named=True),
        panel(
            untrained.assign(topic=trained["topic"]), f"{UNTRAINED}: neighbours are arbitrary", named=False
        ),
    ).configure_view(stroke="#bbb")
    with alt.data_transformers.disable_max_rows():
        PICTURE.write_bytes(vl_convert.vegalite_to_png(chart.to_json(), scale=1))
