"""Pages of reports: whole, offline, and safe with any name."""

import json
import re
from dataclasses import replace

import numpy as np
import pytest

from embviz.cli import main
from embviz.corpora import make_corpus
from embviz.trajectories import Layout, Recipe, trace, weight_path
from embviz.view import plot_spectrum, plot_trace, save_page
from embviz.words import spectrum_report
from tests import drawing

WORDS = ["the", "cat", "sat", "on", "a", "mat", "and", "dog", "by", "it", "all", "day", "so", "we", "fed"]
HOSTILE = "</script><script>alert(1)</script>"


@pytest.fixture
def text():
    return " ".join(WORDS[(7 * i * i + i // 5) % len(WORDS)] for i in range(4_000))


def test_a_page_asks_no_other_host_and_runs_no_name(tmp_path, text):
    report = spectrum_report(make_corpus(text, name=HOSTILE))
    save_page(plot_spectrum(report), tmp_path / "page.html")
    page = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert HOSTILE not in page
    assert not re.search(r"<(script|link)[^>]+(src|href)=", page)
    assert len(page) < 3_000_000


def test_the_command_prints_scores_and_a_sentence_and_writes_a_page(tmp_path, text, capsys):
    (tmp_path / "mine.txt").write_text(text, encoding="utf-8")
    page = tmp_path / "out.html"
    assert main(["spectrum", str(tmp_path / "mine.txt"), "--window", "2", "--html", str(page)]) == 0
    printed = capsys.readouterr().out
    assert "tokens shuffled" in printed
    assert "words of 'mine'" in printed
    assert page.is_file()


def test_a_file_that_is_not_there_or_not_utf8_is_one_line(tmp_path, capsys):
    assert main(["spectrum", str(tmp_path / "none.txt")]) == 1
    assert "none.txt" in capsys.readouterr().err
    (tmp_path / "old.txt").write_bytes("größer".encode("latin-1"))
    assert main(["spectrum", str(tmp_path / "old.txt")]) == 1
    assert 'Decode it with errors="replace", or name its encoding' in capsys.readouterr().err


@pytest.fixture(scope="module")
def short_trace():
    rng = np.random.default_rng(0)
    weights = np.concatenate([rng.normal(size=(40, 6)), 40 + rng.normal(size=(40, 6))]).astype(np.float32)
    recipe = Recipe(autoencoder=None, layout=Layout("pca"))
    return trace(weight_path("query", weights, np.arange(80)), recipe, seed=3)


def test_a_trace_is_drawn_by_its_phases_and_says_how_many(short_trace):
    drawn = plot_trace(short_trace).to_dict()
    assert drawn["title"]["text"] == ["query: 2 phases in 80 snapshots"]
    phases = drawn["data"]["values"][0]["phase"]  # by columns, in order of the steps
    assert {mark["text"] for mark in drawing.drawn(drawn, "text")} >= {"0", "1"}
    assert (set(phases[:40]) - {-1}, set(phases[40:]) - {-1}) == ({0}, {1})


def test_losses_stand_beside_a_trace_where_they_are_known(short_trace):
    known = replace(short_trace, path=replace(short_trace.path, losses=np.linspace(2, 1, 80)))
    assert "loss" not in json.dumps(plot_trace(short_trace).to_dict())
    assert "loss" in json.dumps(plot_trace(known).to_dict())


def test_others_are_drawn_below_a_trace_each_in_its_own_colours(short_trace):
    known = replace(short_trace, path=replace(short_trace.path, losses=np.linspace(2, 1, 80)))
    assert len(plot_trace(short_trace, short_trace).to_dict()["concat"]) == 2
    drawn = plot_trace(known, known).to_dict()
    assert len(drawn["concat"]) == 4
    assert drawn["resolve"]["scale"]["color"] == "independent"
    assert drawn["title"]["text"] == ["query: 2 phases in 80 snapshots; query: 2 phases"]
