"""The theme: readable by everybody, titled from one table, portable between viewers."""

import itertools
import json
import subprocess
import sys

import numpy as np
import pytest

from embviz import labels
from embviz.view import pages, theme

WHITE, DARK_PAGE = (255, 255, 255), (20, 24, 30)
# Viénot, Brettel and Mollon (1999): linear RGB as seen without long, or without middle cones
PROTAN = np.array([[0.1124, 0.8876, 0.0], [0.1124, 0.8876, 0.0], [0.0040, -0.0040, 1.0]])
DEUTAN = np.array([[0.2928, 0.7072, 0.0], [0.2928, 0.7072, 0.0], [-0.0223, 0.0223, 1.0]])


def rgb(colour: str) -> tuple[int, ...]:
    return tuple(int(colour[i : i + 2], 16) for i in (1, 3, 5))


def linear(colour: tuple[int, ...]) -> np.ndarray:
    parts = np.array(colour) / 255
    return np.where(parts <= 0.04045, parts / 12.92, ((parts + 0.055) / 1.055) ** 2.4)


def contrast(one: tuple[int, ...], other: tuple[int, ...]) -> float:
    weights = np.array([0.2126, 0.7152, 0.0722])
    light = sorted((linear(one) @ weights, linear(other) @ weights))
    return float((light[1] + 0.05) / (light[0] + 0.05))


def colours() -> list[str]:
    return [colour for colour in theme.CATEGORIES if colour.startswith("#")]


@pytest.mark.parametrize("colour", colours()[:3])
def test_line_colours_stand_out_on_white_and_on_the_dark_page(colour):
    assert contrast(rgb(colour), WHITE) >= 3
    assert contrast(rgb(colour), DARK_PAGE) >= 3


# Vega's own points are more transparent than the theme's marks, and controls are always the latter.
@pytest.mark.parametrize(
    ("colour", "share"),
    [*((colour, 0.7) for colour in colours()), (theme.NULL_COLOUR, theme.OPACITY["mark"])],
)
def test_transparent_marks_stand_out_on_the_dark_page(colour, share):
    shown = rgb(theme.ON_DARK.get(colour, colour))
    blended = tuple(share * one + (1 - share) * other for one, other in zip(shown, DARK_PAGE, strict=True))
    assert contrast(blended, DARK_PAGE) >= 3


def test_pages_and_maps_show_the_lighter_colours_on_a_dark_page():
    chart, map_ = pages.style("explorer.css"), pages.script("maps.js")
    for colour, lighter in theme.ON_DARK.items():
        for attribute in ("fill", "stroke"):
            rule = f'[{attribute}="{colour}" i] {{ {attribute}: {lighter.lower()}; }}'
            assert chart.count(rule) == 2  # a page that names its theme, and one that follows the system
        assert f'"{colour}": "{lighter.lower()}"' in map_


@pytest.mark.parametrize("seen", [np.eye(3), PROTAN, DEUTAN], ids=["typical", "protan", "deutan"])
@pytest.mark.parametrize(("ink", "page"), [(0, {}), (255, theme.ON_DARK)], ids=["light", "dark"])
def test_colours_stay_apart_whoever_looks(seen, ink, page):
    drawn = [page.get(colour, colour) for colour in colours()]
    shown = [np.clip(seen @ linear(rgb(colour)), 0, 1) ** (1 / 2.2) * 255 for colour in drawn]
    apart = [np.linalg.norm(a - b) for a, b in itertools.combinations([*shown, np.full(3, float(ink))], 2)]
    assert min(apart) > 35  # of 442 from black to white; tableau10, and its first five, come as near as 11


def test_controls_are_grey_and_dotted_by_their_names():
    colour, dash = (
        one.to_dict()["scale"] for one in theme.line_styles("k", ["baseline", "new", "random walk"])
    )
    assert colour["domain"] == dash["domain"] == ["new", "baseline", "random walk"]
    assert colour["range"] == [theme.CATEGORIES[0], theme.NULL_COLOUR, theme.NULL_COLOUR]
    assert dash["range"] == [[1, 0], [2, 2], [1, 4]]
    colour, shape = (one.to_dict()["scale"] for one in theme.point_styles("k", ["a", "b"], null="b"))
    assert (colour["range"][1], shape["range"][1]) == (theme.NULL_COLOUR, "triangle-down")
    alone = theme.line_styles("k", ["shuffled", "untrained"])[0].to_dict()["scale"]["range"]
    assert theme.NULL_COLOUR not in alone  # nothing to be a control of


def test_a_column_of_your_own_has_its_name_until_it_gets_words(monkeypatch):
    assert theme.title("my_gap") == "my gap"
    monkeypatch.setitem(labels.LABELS, "my_gap", labels.Label("gap of the losses", "nats"))
    assert theme.axis("my_gap").to_dict() == {"title": "gap of the losses (nats)"}


STRANGER = """
import json
import pandas as pd
from embviz.view import plot_curves, plot_scatter, theme
columns = ["pairs", "case", "of", "value", "text", "which", "loss_gap"]
table = pd.DataFrame({name: [1.0, 2.0] for name in columns})
charts = [plot_scatter(table, x, y, tooltip=columns) for x, y in zip(columns, columns[1:])]
charts.append(plot_curves(table.assign(which=["a", "b"]), "value", "of", kind="which", seed=None))
specs = json.dumps([chart.to_dict()["layer"] for chart in charts])
titles = sorted({part.split('"')[1] for part in specs.split('"title": ')[1:]})
import book
print(json.dumps([titles, [theme.title(name) for name in columns]]))
"""


def test_only_the_book_has_words_of_its_own_for_columns():
    done = subprocess.run([sys.executable, "-c", STRANGER], capture_output=True, text=True, check=True)
    strangers, books = json.loads(done.stdout)
    assert strangers == ["case", "loss gap", "of", "pairs", "seeds", "text", "value", "which"]
    assert books[:3] == ["share of the pairs that co-occur", "word", "share of"]


def test_signed_colours_are_centred_on_zero():
    scale = theme.signed_scale(2.0).to_dict()
    assert (scale["scheme"], scale["domain"], scale["domainMid"]) == ("blueorange", [-2.0, 2.0], 0)
