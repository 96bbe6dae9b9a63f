"""Pages of pictures and what a notebook outside the book shows: whole, offline, and safe with any name."""

import ast
import base64
import json
import re
import subprocess
import sys

import altair as alt
import numpy as np
import pandas as pd
import pytest

from embviz.view import Explorer, plot_scatter, save_page, theme
from embviz.view.maps import embedding_map, side_by_side
from embviz.view.pages import MIME, SVG_LIMIT, image, vega_runtime
from embviz.view.pictures import WIDGET
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
    bundle = picture._repr_mimebundle_()
    assert set(bundle) == {MIME, WIDGET, "text/plain"}
    assert bundle["text/plain"].startswith("<")
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


def test_the_runtime_is_made_once_and_kept_in_the_cache_folder(tmp_path, monkeypatch):
    monkeypatch.setenv("EMBVIZ_CACHE_DIR", str(tmp_path / "cache"))
    made = vega_runtime.__wrapped__()
    monkeypatch.setattr("vl_convert.javascript_bundle", lambda snippet: pytest.fail("made again"))
    assert vega_runtime.__wrapped__() == made
    (kept,) = (tmp_path / "cache").iterdir()
    assert kept.read_text(encoding="utf-8") == made
    (tmp_path / "file").write_text("a file")  # where nothing can be kept
    monkeypatch.undo()
    monkeypatch.setenv("EMBVIZ_CACHE_DIR", str(tmp_path / "file"))
    assert "embvizVegaEmbed" in vega_runtime.__wrapped__()


def test_an_image_has_names_as_text_and_the_pages_colour():
    svg = image(chart().to_dict())["image/svg+xml"]
    assert svg.count("&lt;/script&gt;&lt;script&gt;alert(1)") > 0
    assert HOSTILE not in svg
    assert "currentColor" in svg


def test_an_image_of_very_many_marks_is_a_png():
    many = pd.DataFrame({"x": range(6_000), "y": range(6_000)})
    shown = image(plot_scatter(many, "x", "y").to_dict())
    assert set(shown) == {"image/png"}
    assert base64.b64decode(shown["image/png"])[1:4] == b"PNG"
    assert len(shown["image/png"]) < SVG_LIMIT


def test_an_image_reads_no_file_and_no_address(tmp_path):
    (tmp_path / "x.csv").write_text("x\n1\n")
    local = image(alt.Chart((tmp_path / "x.csv").as_uri()).mark_point().encode(x="x:Q").to_dict())
    assert 'aria-roledescription="point"' not in local.get("image/svg+xml", "")
    assert image(alt.Chart("http://127.0.0.1:9/x.csv").mark_point().encode(x="x:Q").to_dict()) == {}


CELL = """
import altair as alt
import pandas as pd
if {chosen!r}:
    alt.renderers.enable({chosen!r})
from embviz import view
from embviz.view import Explorer, plot_scatter
chart = plot_scatter(pd.DataFrame({{"x": [1.0], "y": [2.0]}}), "x", "y")
explorer = Explorer(lambda a: pd.DataFrame({{"x": [a]}}), {{"a": range(1, 3)}},
                    lambda data: alt.Chart(data).mark_point().encode(x="x:Q"), title="t", caption="c")
for shown in (chart, explorer):
    print(sorted(shown._repr_mimebundle_()))
print(10 * len(str(chart._repr_mimebundle_())))
import sys
print("scipy.stats" in sys.modules)
"""


@pytest.mark.parametrize(
    ("in_a_book", "chosen", "chart", "explorer"),
    [
        (False, "", [MIME, "image/svg+xml", "text/plain"], [WIDGET, MIME, "image/svg+xml", "text/plain"]),
        (True, "", [MIME, "text/plain"], [WIDGET, MIME, "text/plain"]),
        (False, "svg", None, None),
    ],
)
def test_pictures_have_images_outside_a_book_and_a_renderer_that_was_chosen_stays(
    tmp_path, in_a_book, chosen, chart, explorer
):
    if in_a_book:
        (tmp_path / "_toc.yml").touch()
    command = [sys.executable, "-c", CELL.format(chosen=chosen)]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    shown, explored, size, slow = map(ast.literal_eval, done.stdout.splitlines())
    assert slow is False  # a second more before the first picture
    assert (MIME in shown) == (not chosen)
    if not chosen:
        assert (shown, explored) == (chart, explorer)
        assert size < len(vega_runtime()) / 4  # ten charts hold no runtime
