"""The scan over slices: what is read of a text, and how far that lies from the paper."""

import dataclasses

import numpy as np
import pandas as pd
import pytest

from book.kernel import theory
from book.kernel.experiments import chosen, models, scan, texts
from book.kernel.experiments.texts import Slice, TextReading
from embviz.ledger.cells import missing

LINE = {"sd_identity": scan.SD_IDENTITY, "sd_power": scan.SD_POWER, "mutual": scan.MUTUAL} | dict(
    zip(scan.PAIRS, scan.TABLE_5, strict=True)
)


def listing(D: np.ndarray, eps: float) -> np.ndarray:
    """The paper's second listing, its first row."""
    values, vectors = np.linalg.eigh(D)
    power = vectors @ np.diag(np.maximum(values, 1e-15) ** eps) @ vectors.T
    transform = np.fft.fft2(D)
    row: np.ndarray = np.real(
        np.fft.ifft2(np.fft.fft2(power) / np.where(np.abs(transform) > 1e-10, transform, 1e-10))
    )[0]
    return row


def test_a_text_is_read_as_the_listing_would():
    half = np.random.default_rng(0).random((12, 12))
    D = half + half.T
    found = scan.of_text(theory.decompose(D))
    identity, power, other = np.real(np.fft.ifft2(1 / np.fft.fft2(D)))[0], listing(D, 0.003), listing(D, 0.02)
    assert found["sd_identity"] == pytest.approx(identity.std())
    assert found["sd_power"] == pytest.approx(power.std())
    assert found["mutual"] == pytest.approx(
        identity @ power / np.linalg.norm(identity) / np.linalg.norm(power)
    )
    expected = power @ other / np.linalg.norm(power) / np.linalg.norm(other)
    assert found["cosine_0.003_0.020"] == pytest.approx(expected)


def test_the_paper_lies_at_distance_zero_from_itself_and_each_part_counts():
    off = {
        "sd_power": LINE | {"sd_power": scan.SD_POWER * np.e},
        "Table 5": LINE | {name: 1 - (1 - LINE[name]) * np.e for name in scan.PAIRS},
        "mutual": LINE | {"mutual": 0.0},
    }
    table = pd.DataFrame([LINE, *off.values()])
    assert scan.distance(table).tolist() == pytest.approx([0, 0.5, 0.5, 0.5])
    assert scan.distance(table, "Table 5").tolist() == pytest.approx([0, 0, 1, 0])
    assert scan.distance(table, "section 4.2").tolist() == pytest.approx([0, 3**-0.5, 0, 3**-0.5])


def test_of_texts_with_one_beginning_the_nearest_alone_is_kept():
    rows = [LINE | {"offset": offset, "mutual": mutual} for offset, mutual in ((0, 0.3), (0, 0.25), (9, 0.4))]
    found = scan.nearest(pd.DataFrame(rows).assign(symbols="unk"), 2)
    assert found["mutual"].tolist() == [0.25, 0.4]


def test_a_slice_reads_on_where_it_begins():
    slice_ = Slice("embedded", "unk", 30, 300, offset=200)
    source = texts.words("embedded")
    text = texts.load(slice_)
    own = source.ids[200:500]
    known = np.isin(own, [source.names.index(name) for name in text.vocabulary if name in source.names])
    unknown = text.vocabulary.index(texts.UNKNOWN_WORD)
    assert [text.vocabulary[i] for i in text.ids[known]] == [source.names[i] for i in own[known]]
    assert (text.ids[~known] == unknown).all()
    whole = texts.load(TextReading("embedded", "unk", 30, 300))
    at_zero = texts.load(dataclasses.replace(slice_, offset=0))
    np.testing.assert_array_equal(at_zero.ids, whole.ids)


def test_each_half_of_the_distance_chooses_texts_for_the_other(monkeypatch):
    rows = [
        LINE | {"symbols": "unk", "offset": offset, "mutual": mutual, scan.PAIRS[-1]: cosine}
        for offset, mutual, cosine in ((0, 0.9, scan.TABLE_5[-1]), (1, scan.MUTUAL, 0.5))
    ]
    monkeypatch.setattr(scan, "table", lambda preset: pd.DataFrame(rows))
    monkeypatch.setattr(scan, "N_NEAREST", 1)
    assert scan._identity("quick")["mutual_text"].value == 0.9
    assert scan._table_5("quick")["text_0.003-0.020"].value == 0.5


def test_the_texts_that_models_read_are_the_three_nearest(monkeypatch):
    monkeypatch.delenv("EMBVIZ_RESULTS_DIR", raising=False)
    if missing(scan.cells("paper")):
        pytest.skip("the scan is not stored")
    near = scan.nearest(scan.table("paper"), 3)
    found = [(text.symbols, text.n_tokens, text.offset) for text in chosen.TEXTS]
    assert found == list(near[["symbols", "n_tokens", "offset"]].itertuples(index=False, name=None))


def test_the_setting_that_decides_is_the_one_whose_loss_lies_nearest_to_the_papers(monkeypatch):
    monkeypatch.delenv("EMBVIZ_RESULTS_DIR", raising=False)
    runs = chosen.choosing("paper")
    if missing(models.cells_of(*runs.values())):
        pytest.skip("not all settings are stored")
    distance = {
        setting: abs(models.final_losses(models.load(run)).mean() - 1.404)  # Table 4
        for setting, run in runs.items()
    }
    assert min(distance, key=distance.get) == chosen.DECIDING


def test_settings_are_both_starts_and_three_batches_on_seeds_that_no_other_run_has():
    runs = chosen.choosing("paper")
    assert {(run.shape.start, run.batch_size) for run in runs.values()} == set(runs)
    assert len(runs) == 6
    seeds = {member.seed for run in runs.values() for member in run.members}
    judged = {member.seed for member in chosen.run(chosen.TEXT, "small", 8).members}
    assert not seeds & judged
    assert not (seeds | judged) & {member.seed for member in models.main("paper").members}
