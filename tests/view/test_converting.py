"""Pages that nbconvert writes of notebooks with charts and widgets."""

import base64
import os
import re
import subprocess
import sys
from pathlib import Path

import nbformat

from embviz import view
from embviz.view.pages import MIME
from embviz.view.pictures import WIDGET
from tests.view.test_pages import HOSTILE, chart

CONFIGURED = Path(view.__file__).parent / "jupyter"  # an installed embviz has it in etc/jupyter


def converted(folder, bundle):
    """HTML of a notebook of one output, as `jupyter nbconvert --to html` writes it."""
    output = nbformat.v4.new_output("display_data", bundle)
    cell = nbformat.v4.new_code_cell("chart", outputs=[output])
    nbformat.write(nbformat.v4.new_notebook(cells=[cell]), folder / "x.ipynb")
    command = [sys.executable, "-m", "nbconvert", "--to", "html", "x.ipynb"]
    environment = os.environ | {"JUPYTER_CONFIG_PATH": str(CONFIGURED)}
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return (folder / "x.html").read_text(encoding="utf-8")


def test_a_stored_chart_is_an_image_and_its_words_are_text(tmp_path):
    spec = chart().to_dict()
    text = converted(tmp_path, {MIME: spec, WIDGET: {"model_id": "gone"}, "text/plain": "<explorer>"})
    (image,) = re.findall(r'<img[^>]+src="data:image/svg\+xml;base64,([^"]+)"', text)
    svg = base64.b64decode(image).decode()
    assert svg.count('aria-roledescription="point"') == 2
    assert HOSTILE not in text + svg
    assert "&lt;explorer&gt;" not in text


def test_an_output_without_a_chart_stays_as_it_is(tmp_path):
    assert "<b>bold</b>" in converted(tmp_path, {"text/html": "<b>bold</b>", "text/plain": "bold"})
