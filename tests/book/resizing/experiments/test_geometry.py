"""What random maps do to a model's vectors, in miniature: definitions, planted cases, every claim."""

import dataclasses

import numpy as np
import pytest

from book.language import load_streams
from book.ledger import cells
from book.resizing import angles
from book.resizing.experiments import bases, geometry


@pytest.fixture(scope="module")
def vectors():
    return geometry.vectors(bases.base("quick"))


# --- definitions ------------------------------------------------------------------------------------


def test_another_text_is_read_backwards_token_by_token():
    run = geometry.support_runs("quick")[0]
    straight, turned = load_streams(run.text).train, geometry.other_streams(run).train
    np.testing.assert_array_equal(turned.ids, straight.ids[::-1])
    assert geometry.other_streams(dataclasses.replace(run, backwards=False)).train is straight


# --- planted cases ----------------------------------------------------------------------------------


def test_measures_depart_from_closed_forms_by_rounding_only_and_a_planted_bug_is_seen(monkeypatch):
    run = geometry.measures_run("quick")
    assert geometry.departures(cells.table_of(geometry.measures.cell(run))).max() < 1e-9
    monkeypatch.setattr(angles, "angular_error", lambda x, y: float(np.abs(x[0, 0] - y[0, 0])))
    assert geometry.departures(geometry.measures.function(run)).max() > 0.01
