"""Frames a second while a map of 5,000 words is zoomed, beside Vega's canvas; the page's own weight.

Measured once beside libraries that draw points, all in one run (Chromium 156, GL in software, two cores
with a load of 10 to 15, so that the frames compare with each other alone):

================================  ==============  ==========  =============================================
drawn by                          minified, gzip  frames/s    without WebGL
================================  ==============  ==========  =============================================
this canvas (labels by zoom)      18 KB, 7 KB     31 to 41    the same
Vega on a canvas, 150 labels      0.9 MB, 0.3 MB  33 to 39    the same
Vega as SVG                       0.9 MB, 0.3 MB  6           the same
regl-scatterplot 1.16, no labels  220 KB, 77 KB   5           an error, nothing drawn
deck.gl 9.4, with labels or not   840 KB, 242 KB  4 to 5      an error, nothing drawn
EmbeddingView, embedding-atlas    2.3 MB, 0.7 MB  none        needs WebGPU: nothing drawn, WebGL or not
================================  ==============  ==========  =============================================

embedding-atlas 0.26; jupyter-scatter draws with regl-scatterplot.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path

import numpy as np
from playwright.sync_api import Page

from embviz.view.embedding_maps import embedding_map
from embviz.view.pages import map_script, script, vega_runtime
from tests.book.browser import running_chromium

N_WORDS, SECONDS = 5_000, 3
FRAMES = """
async ([draw, seconds]) => {
  const zoomed = new Function("view", "zoom", draw);
  const times = [];
  const since = performance.now();
  await new Promise((done) => {
    const step = (now) => {
      times.push(now);
      zoomed(window.shown, Math.exp(2.5 * Math.abs(Math.sin((now - since) / 700))));
      if (now - since < 1000 * seconds) requestAnimationFrame(step);
      else done();
    };
    requestAnimationFrame(step);
  });
  return 1000 * (times.length - 1) / (times.at(-1) - times[0]);
}
"""


def frames(page: Page, body: str, script: str, draw: str) -> float:
    """Frames a second of a page whose script sets ``window.shown``, redrawn at each."""
    page.set_content(f"<body style='width:700px'>{body}</body>")
    page.evaluate(script)
    page.wait_for_function("window.shown")
    return float(page.evaluate(FRAMES, [draw, SECONDS]))


def test_zooming(speed_table: Callable[..., None], tmp_path: Path) -> None:
    points = np.random.default_rng(0).normal(size=(N_WORDS, 2))
    words = [f"word{place}" for place in range(N_WORDS)]
    spec = embedding_map(points, words, metric="euclidean", title="Made", caption="Made.").static_spec()
    ours = f"""async () => {{ {script("explorer.js")} {map_script()}
        const maps = await drawMaps(document.querySelector("#map"), {json.dumps(spec)});
        window.shown = maps.maps[0]; }}"""
    vega = f"""async () => {{ {vega_runtime()}
        const spec = {json.dumps(_scatter(points, words))};
        const made = await embvizVegaEmbed("#map", spec, {{renderer: "canvas", actions: false}});
        window.shown = made.view; }}"""
    with running_chromium() as browser:
        page = browser.new_page(viewport={"width": 800, "height": 900})
        own = frames(page, "<div id=map></div>", ours, "view.view.scale = view.fitted * zoom; view.draw();")
        page = browser.new_page(viewport={"width": 800, "height": 900})
        peer = frames(page, "<div id=map></div>", vega, "view.signal('k', 1 / zoom).run();")
    print(f"zooming {N_WORDS:,} words: {own:.0f} frames/s, Vega {peer:.0f}, load {os.getloadavg()[0]:.1f}")
    speed_table(
        job=f"zooming a map of {N_WORDS:,} words",
        ours=own,
        peer=peer,
        unit="frames/s",
        bar="at least 30",
        peer_name="Vega's canvas, 150 labels",
    )


def _scatter(points: np.ndarray, words: list[str]) -> dict:
    rows = [{"x": x, "y": y, "w": w} for (x, y), w in zip(points.round(4).tolist(), words, strict=True)]
    scale = {"domain": {"expr": "[-4 * k, 4 * k]"}}
    place = {axis: {"field": axis, "type": "quantitative", "scale": scale, "axis": None} for axis in "xy"}
    first = [{"window": [{"op": "row_number", "as": "n"}]}, {"filter": "datum.n <= 150"}]
    labels = {
        "transform": first,
        "mark": {"type": "text", "clip": True},
        "encoding": {"text": {"field": "w"}},
    }
    dots = {"mark": {"type": "point", "filled": True, "size": 12, "clip": True}}
    return {
        "$schema": "https://vega.github.io/schema/vega-lite/v5.json",
        "data": {"values": rows},
        "params": [{"name": "k", "value": 1}],
        "width": 700,
        "height": 560,
        "encoding": place,
        "layer": [dots, labels],
    }
