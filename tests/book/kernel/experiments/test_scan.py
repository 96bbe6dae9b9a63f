"""The scan over slices: what is read of a text, and how far that lies from the paper."""

import dataclasses

import numpy as np
import pytest

from book.kernel import theory
from book.kernel.experiments import chosen, models, scan, texts
from book.kernel.experiments.texts import Slice, TextReading


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


def test_texts_reading_and_setting_are_those_nearest_to_the_paper():
    near = scan.nearest(scan.table("paper"), 3)
    found = [(text.symbols, text.n_tokens, text.offset) for text in chosen.TEXTS]
    assert found == list(near[["symbols", "n_tokens", "offset"]].itertuples(index=False, name=None))
    for runs, taken in ((models.readings, models.MAIN.label), (chosen.choosing, chosen.DECIDING)):
        losses = {name: models.final_losses(models.load(run)).mean() for name, run in runs("paper").items()}
        assert min(losses, key=lambda name: abs(losses[name] - 1.404)) == taken  # of Table 4


def test_the_printed_ratio_is_compared_as_a_ratio():
    assert scan._nearest_to_printed({"a quarter": 10.0, "twice": 81.0}) == "twice"
