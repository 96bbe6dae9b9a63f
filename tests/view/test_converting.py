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


def test_a_stored_chart_is_an_image_its_words_are_text_and_other_outputs_stay_as_they_are(tmp_path):
    spec = chart().to_dict()
    stored = [
        {MIME: spec, WIDGET: {"model_id": "gone"}, "text/plain": "<explorer>"},
        {"text/html": "<b>bold</b>", "text/plain": "bold"},
    ]
    outputs = [nbformat.v4.new_output("display_data", bundle) for bundle in stored]
    cells = [nbformat.v4.new_code_cell("chart", outputs=outputs)]
    nbformat.write(nbformat.v4.new_notebook(cells=cells), tmp_path / "x.ipynb")
    command = [sys.executable, "-m", "nbconvert", "--to", "html", "x.ipynb"]
    environment = os.environ | {"JUPYTER_CONFIG_PATH": str(CONFIGURED)}
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    text = (tmp_path / "x.html").read_text(encoding="utf-8")
    (image,) = re.findall(r'<img[^>]+src="data:image/svg\+xml;base64,([^"]+)"', text)
    svg = base64.b64decode(image).decode()
    assert svg.count('aria-roledescription="point"') == 2
    assert HOSTILE not in text + svg
    assert "&lt;explorer&gt;" not in text
    assert "<b>bold</b>" in text
