"""Installations with fewer libraries: what works without an extra, and what is said where it doesn't."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
VIEW = ["altair", "anywidget", "ipywidgets", "traitlets", "vl_convert"]
TORCH = [
    "torch",
    "tokenizers",
    "sklearn",
    "pymde",
    "hdbscan",
    "umap",
    "transformers",
    "lightning",
]
HIDE = """
import sys

class Without:
    def __init__(self, finder):
        self.finder = finder

    def __getattr__(self, name):
        return getattr(self.finder, name)

    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] not in {libraries}:
            return self.finder.find_spec(name, path, target)

sys.meta_path[:] = map(Without, sys.meta_path)
"""


def run_without(libraries, code, folder=ROOT):
    """Run code in a process that doesn't find these libraries."""
    done = subprocess.run(
        [sys.executable, "-c", HIDE.replace("{libraries}", repr(libraries)) + code],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=240,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.slow
def test_the_spectrum_of_a_text_is_the_same_without_any_extra():
    page = (ROOT / "book" / "using.md").read_text(encoding="utf-8")
    snippet = re.search(r"```python\n(.*?)```", page, re.DOTALL)[1]
    sentence = run_without(VIEW + TORCH, snippet)
    assert sentence == run_without([], snippet)
    assert "random orders" in sentence


def test_commands_of_texts_and_data_need_no_extra_and_a_page_says_what_it_needs(tmp_path):
    (tmp_path / "mine.txt").write_text("a rose is a rose and a thorn is no rose but it is red or white " * 9)
    code = """
from embviz.cli import main

text = ["spectrum", "mine.txt", "--min-count", "1", "--window", "2"]
assert main(["data", "list"]) == main(text) == 0
sys.stderr = sys.stdout
print(main([*text, "--html", "page.html"]))
"""
    *_, line, code = run_without(VIEW + TORCH, code, tmp_path).splitlines()
    assert line.startswith("embviz: embviz.view needs ")
    assert code == "1"


@pytest.mark.parametrize(
    ("room", "hidden", "needs", "extra"),
    [
        ("training", ["torch"], "torch", "torch"),
        ("trajectories", ["sklearn"], "scikit-learn", "trajectories"),
        ("view", ["altair", "vl_convert", "anywidget"], "altair, vl-convert-python and anywidget", "view"),
    ],
)
def test_a_room_without_its_extra_says_what_to_install(room, hidden, needs, extra):
    code = (
        "import embviz\n"
        f"try: embviz.{room}\n"
        "except ImportError as error: print(error)\n"
        f"try: import embviz.{room}\n"
        "except ImportError as error: print(error)\n"
    )
    sentence = f'embviz.{room} needs {needs}: pip install "embviz[{extra}]"'
    assert run_without(hidden, code).splitlines() == [sentence] * 2
