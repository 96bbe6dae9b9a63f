"""Pages of pictures and what a notebook outside the book shows: whole, offline, and safe with any name."""

import html
import json
import re
import subprocess
import sys

import altair as alt
import numpy as np
import pandas as pd
import pytest

from embviz.view import Explorer, plot_scatter, save_page, theme
from embviz.view.embedding_maps import embedding_map, side_by_side
from embviz.view.pages import frame, page
from tests.made_player import make_player

HOSTILE = "</script><script>alert(1)</script>"
POINTS = pd.DataFrame({"x": [1.0, 2.0], "y": [0.0, 1.0], "name": ["one", HOSTILE]})


def chart():
    return theme.captioned(plot_scatter(POINTS, "x", "y", tooltip=["name"]), finding="Two", caption="Made.")


def a_map():
    table = np.random.default_rng(0).normal(size=(30, 4))
    return embedding_map(table, [HOSTILE, *map(str, range(29))], title="Map", caption="Made.")


def explorer():
    return Explorer(
        lambda size: pd.DataFrame({"x": [1.0, size], "y": [0.0, 1.0]}),
        {"size": range(1, 4)},
        lambda data: alt.Chart(data).mark_point().encode(x="x:Q", y="y:Q"),
        title="Points move",
        caption="Made.",
    )


def specifications(text):
    found = re.findall(r'<script type="application/json">(.*?)</script>', text, re.DOTALL)
    return [json.loads(each) for each in found]


PICTURES = {
    "map": a_map,
    "maps": lambda: side_by_side(a_map(), a_map(), title="Two", caption="Made."),
    "explorer": explorer,
    "player": lambda: make_player(20),
}


@pytest.mark.parametrize("kind", PICTURES)
def test_each_picture_saves_itself_as_a_page_that_asks_no_other_host(kind, tmp_path):
    picture = PICTURES[kind]()
    picture.save(tmp_path / "x.html")
    text = (tmp_path / "x.html").read_text(encoding="utf-8")
    assert specifications(text) == [json.loads(json.dumps(picture.static_spec()))]
    assert HOSTILE not in text
    assert not re.search(r"<(script|link)[^>]+(src|href)=", text)
    assert "default-src 'none'" in text
    assert text.count("</script>") == 2
    assert len(text) < 3_000_000


def test_a_page_holds_charts_and_tables_in_order(tmp_path):
    save_page([chart(), explorer()], tmp_path / "two.html", tables={"Names & numbers": POINTS})
    text = (tmp_path / "two.html").read_text(encoding="utf-8")
    first, second = specifications(text)
    assert first["usermeta"]["embviz"]["title"] == "Two"
    assert second["usermeta"]["embviz"]["title"] == "Points move"
    assert "<h2>Names &amp; numbers</h2>" in text
    assert "&lt;/script&gt;" in text
    assert "<title>two</title>" in text


def test_what_is_no_picture_is_refused_and_nothing_written(tmp_path):
    with pytest.raises(TypeError, match="int is no chart, explorer, player or map"):
        save_page([chart(), 3], tmp_path / "x.html")
    assert list(tmp_path.iterdir()) == []


def test_a_frame_holds_the_whole_page():
    source = re.fullmatch(r'<iframe srcdoc="(.*?)" style="[^"]*"></iframe>', frame(a_map()), re.DOTALL)[1]
    assert html.unescape(source) == page(a_map(), fit=True)


CELL = """
import altair as alt
import pandas as pd
before = alt.renderers.active
from embviz.view import Explorer, theme
chart = alt.Chart(pd.DataFrame({"x": [1.0]})).mark_point().encode(x="x:Q")
explorer = Explorer(lambda a: pd.DataFrame({"x": [a]}), {"a": range(1, 3)},
                    lambda data: alt.Chart(data).mark_point().encode(x="x:Q"), title="t", caption="c")
print(alt.renderers.active == before, "text/html" in explorer._repr_mimebundle_())
alt.renderers.enable("embviz")
print("text/html" in chart._repr_mimebundle_())
"""


@pytest.mark.parametrize(
    ("inside", "said"), [(False, ["True True", "True"]), (True, ["False False", "False"])]
)
def test_the_readers_renderer_stays_and_html_stands_beside_a_picture_outside_a_project(
    tmp_path, inside, said
):
    if inside:
        (tmp_path / "data" / "claims").mkdir(parents=True)
    done = subprocess.run(
        [sys.executable, "-c", CELL], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.stdout.splitlines() == said, done.stderr
