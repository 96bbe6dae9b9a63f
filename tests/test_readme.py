"""The README: short, and every command and program in it works, in the order of the reader's needs."""

import re
import shlex
from pathlib import Path

import numpy as np
import pytest

from book import __main__ as book
from embviz import cli
from embviz.corpora import registry

ROOT = Path(__file__).resolve().parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")
CODE = re.compile(r"```\w*\n(.*?)```|`([^`\n]+)`", re.DOTALL)
MAKES = {  # what a command or a program writes
    "sine.html",
    "spectrum.html",
    "map.html",
    "model.html",
    "moved.html",
    "smaller/model.safetensors",
    "run/weights",
}


def commands(text):
    """Commands in blocks and in backticks: variables set in front, the program, and arguments."""
    for line in "\n".join(block or words for block, words in CODE.findall(text)).splitlines():
        if found := re.match(r"((?:[A-Z_]+=\S+ )*)(embviz|python -m book) (.*)", line):
            variables, program, arguments = found.groups()
            yield dict(word.split("=") for word in variables.split()), program, shlex.split(arguments)


@pytest.fixture
def reader(tmp_path, monkeypatch):
    """A folder with what a reader has: a text, word vectors, a model."""
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    words = ["king", *(f"w{i}" for i in range(60))]
    Path("mine.txt").write_text(" ".join(rng.choice(words, 5_000)), encoding="utf-8")
    rows = (f"{word} {' '.join(map('{:.4f}'.format, rng.normal(size=8)))}" for word in words)
    Path("glove.6B.100d.txt").write_text("\n".join(rows) + "\n", encoding="utf-8")
    import transformers as tf

    config = tf.GPT2Config(
        vocab_size=256, n_positions=32, n_embd=768, n_layer=1, n_head=12, bos_token_id=0, eos_token_id=0
    )
    tf.GPT2LMHeadModel(config).save_pretrained("gpt2")
    return tmp_path


@pytest.mark.slow
@pytest.mark.usefixtures("one_thread")
@pytest.mark.filterwarnings("ignore:Tensorflow not installed:ImportWarning")
def test_what_the_readme_shows_works(reader, monkeypatch):
    programs = re.findall(r"```python\n(.*?)```", README, re.DOTALL)
    for program in programs:
        exec(compile(program.replace("201", "31"), "README.md", "exec"), {})  # fewer updates
    listed = list(commands(README))
    assert len(programs) == 3
    assert {words[0] for _, _, words in listed} == {
        "ledger",
        "run",
        "spectrum",
        "data",
        "inspect",
        "compare",
        "resize",
        "trace",
        "new",
    }
    for variables, program, words in listed:
        with monkeypatch.context() as patch:
            for name, value in variables.items():
                patch.setenv(name, value)
            if words[0] == "new":  # in the checkout; tests/book/ledger/test_new.py makes one in a copy
                continue
            if words[0] == "trace":  # half a minute; tests/trajectories/test_reports.py traces a run
                assert cli.trace.make_context("trace", words[1:]).params["folder"] == "run"
            elif words[0] == "data":  # a download
                assert set(words[2:]) <= set(registry.load_registry())
            else:
                main = cli.main if program == "embviz" else book.main
                assert main([*words, "--jobs", "1"] if words[0] == "run" else words) == 0, words
    assert {str(path.relative_to(reader)) for path in reader.rglob("*")} >= MAKES


def test_the_readme_stays_short_and_names_files_that_are_there():
    assert len(README.splitlines()) <= 80
    for target in re.findall(r"\]\(([^)#]+)\)", README):
        assert (ROOT / target).exists(), target
