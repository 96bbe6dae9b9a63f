"""Films of small language models: pictures against slow sums, the same run as the judged ones."""

import math

import numpy as np
import pytest
import torch

from book.geometry.experiments import language_films as films
from book.geometry.experiments.steering_language import (
    BASELINE,
    NEAR_NYQUIST,
    ON_HEAD,
    TOP_5,
    make_model,
)
from embviz.corpora import corpus as corpora
from embviz.training.language import END_OF_BYTES, TextConfig, load_streams

STORIES = "<|endoftext|>".join(f"The cat number {n} sat on mat {n * n}. Then it slept." for n in range(40))


@pytest.fixture(autouse=True)
def made(monkeypatch):
    """A made text for the embedded one, in few byte pairs; one thread."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    monkeypatch.setattr(corpora, "load_text", lambda name, *, part=None: STORIES)
    monkeypatch.setattr(films, "PAIRS", TextConfig("embedded", "byte pairs", 290, held_out_every=4))
    load_streams.cache_clear()
    yield
    torch.set_num_threads(before)
    load_streams.cache_clear()


def test_a_film_starts_before_the_first_step_and_ends_with_the_last():
    table = films.language_film.function(films.film_run(BASELINE, tied=False, n_steps=60))
    assert table["frame"].unique().tolist() == [0, 30, 60]
    assert (table.groupby("frame")["text"].nunique() == 290).all()
    scores = table.drop_duplicates("frame")
    assert scores["bits_per_token"].is_monotonic_decreasing
    assert scores["uniform"].tolist() == pytest.approx([math.log2(290)] * 3)


def test_frequencies_are_counted_with_one_added():
    run = films.film_run(BASELINE, tied=False, n_steps=30)
    table = next(films.pictures(run))
    ids = load_streams(run.text).train.ids.tolist()[1:]
    slow = [-math.log2((1 + ids.count(token)) / (290 + len(ids))) for token in range(290)]
    np.testing.assert_allclose(table["frequency"], slow, atol=0.0051)  # rounded to hundredths


def test_the_mean_prediction_is_over_all_windows_of_the_held_out_text():
    run = films.film_run(BASELINE, tied=False, n_steps=30)
    streams = load_streams(run.text)
    model, _ = make_model(run, streams)
    ids, total, n = torch.from_numpy(streams.held_out.ids.astype(np.int64)), torch.zeros(290), 0
    for start in range(0, len(ids) - 31, 32):
        for logits in model(ids[start : start + 32][None])[0]:
            total += logits.softmax(0)
            n += 1
    slow = (total / n).detach().numpy()
    np.testing.assert_allclose(films.mean_prediction(model, streams, 32), slow, rtol=1e-4)  # float32
    table = next(films.pictures(run))
    np.testing.assert_allclose(table["expected"], -np.log2(slow), atol=0.006)


def test_adam_may_move_a_number_as_far_as_in_the_runs_that_are_judged():
    optimizer = films.SETTING.training.optimizer
    assert sum(map(optimizer.rate, range(films.SETTING.n_steps))) == pytest.approx(1.65, rel=0.01)


def test_a_live_run_is_the_one_chosen_starts_before_the_first_step_and_says_what_it_costs(monkeypatch):
    frame = next(films.live_frames("byte pairs", "own head", BASELINE, 30, 0))
    assert (frame["frame"] == 0).all()
    assert frame.attrs["note"].startswith("Step 0: ")
    assert "above the" in frame.attrs["note"]
    runs = []
    monkeypatch.setattr(films, "pictures", lambda run: runs.append(run) or iter([frame]))
    tied = next(films.live_frames("byte pairs", "tied", ON_HEAD, 30, 0))
    assert tied.attrs["note"].startswith("The head is the embedding: this is near-Nyquist. Step 0")
    next(films.live_frames("bytes", "own head, small start", TOP_5, 90, 7))
    run = runs[-1]
    assert (run.kind, run.variant, run.seed, run.setting.n_steps) == ("own head, small start", TOP_5, 7, 90)
    assert run.text.tokens == "bytes"


def test_tokens_of_bytes_are_named_too(monkeypatch):
    monkeypatch.setattr(films, "PAIRS", TextConfig("embedded", held_out_every=4))
    table = next(films.pictures(films.film_run(NEAR_NYQUIST, tied=True, n_steps=30)))
    assert table.loc[[END_OF_BYTES, ord("T")], "text"].tolist() == ["end", "'T'"]
