"""Films of small language models: what a projected gradient leaves them to learn, token by token.

The same pictures are drawn from a model that trains while the reader watches.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pandas as pd
import torch
from torch import nn

from book.geometry.experiments.steering_language import (
    BASELINE,
    FROZEN,
    LOWEST,
    NEAR_NYQUIST,
    ON_HEAD,
    TOP_5,
    Setting,
    SteeringRun,
    make_model,
)
from embviz.ledger.cells import Cell, experiment, read
from embviz.models.transformer import Start
from embviz.training.language import Streams, TextConfig, load_streams, score_unigrams, train_language_model

EVERY = 30  # steps between two pictures
# a second a hundred steps; the rates sum to what they do in the runs that are judged
SETTING = Setting(32, 1, 2, 128, 32, 16, 600, 5e-3)
PAIRS = TextConfig("embedded", "byte pairs", 512, n_documents=600, n_held_out=10)
BYTES = TextConfig("embedded", n_documents=600, n_held_out=10)
SHOWN = (BASELINE, NEAR_NYQUIST, LOWEST, TOP_5, FROZEN)


def film_run(variant: str, *, tied: bool, n_steps: int = SETTING.n_steps) -> SteeringRun:
    """A run small enough to be watched; tied embeddings start small, as in the runs that are judged."""
    start: Start = "small" if tied else "pytorch"
    return SteeringRun(PAIRS, variant, tied=tied, start=start, setting=replace(SETTING, n_steps=n_steps))


def pictures(run: SteeringRun) -> Iterator[pd.DataFrame]:
    """Train a model and picture it every 30 steps, from before the first.

    Yields
    ------
    DataFrame
        One row per token: `frame`, the step; `text`, the token's; `frequency`, the bits that it costs by its
        frequency in the training text, 1 added to each count; `expected`, those that it costs by the
        model's mean prediction over the held-out text; and of the model as a whole `bits_per_token`, with
        `unigram` and `uniform`, which frequencies alone and no knowledge at all would pay.
    """
    streams, setting = load_streams(run.text), run.setting
    model, after_backward = make_model(run, streams)
    model.cpu()
    counts = 1.0 + np.bincount(streams.train.ids[1:], minlength=streams.vocab_size)
    fixed = {
        "text": [streams.text(token) for token in range(streams.vocab_size)],
        "frequency": np.round(-np.log2(counts / counts.sum()), 2),
        "unigram": score_unigrams(streams).bits_per_token,
        "uniform": float(np.log2(streams.vocab_size)),
    }
    steps = train_language_model(
        model,
        streams,
        setting.training,
        seed=run.seed,
        snapshot_at=EVERY,
        after_backward=after_backward,
        weights="none",
    )
    for snapshot in steps:
        expected = np.round(-np.log2(mean_prediction(model, streams, setting.length)), 2)
        scores = {"expected": expected, "bits_per_token": snapshot.metrics["bits_per_token"]}
        yield pd.DataFrame({"frame": snapshot.step, **scores, **fixed})


@torch.no_grad()
def mean_prediction(model: nn.Module, streams: Streams, length: int) -> np.ndarray:
    """Probability of each token, (V,), averaged over windows of the held-out text side by side."""
    ids = streams.held_out.ids
    windows = torch.from_numpy(ids[: len(ids) // length * length].astype(np.int64)).view(-1, length)
    whole: np.ndarray = model(windows).softmax(-1).mean((0, 1)).double().numpy()
    return whole


@experiment("geometry.language_film")
def language_film(config: SteeringRun) -> pd.DataFrame:
    """The pictures of a run, as :func:`pictures` has them."""
    table = pd.concat(list(pictures(config)), ignore_index=True)
    table.attrs["data"] = {config.text.corpus: load_streams(config.text).checksum}
    small = dict.fromkeys(("expected", "frequency", "bits_per_token", "unigram", "uniform"), np.float32)
    return table.astype(small)


def film_cells(preset: str) -> list[Cell]:
    """A cell for each variant shown, with a separate head and tied; `quick` ones are 60 steps long."""
    n_steps = 60 if preset == "quick" else SETTING.n_steps
    return [
        language_film.cell(film_run(variant, tied=tied, n_steps=n_steps))
        for tied in (False, True)
        for variant in SHOWN
    ]


def recorded_frames() -> pd.DataFrame:
    """The stored films for a player, by `head` ("own head" or "tied") and `variant`."""
    parts = []
    for cell in film_cells("laptop"):
        run = cell.config
        parts.append(read(cell)[0].assign(head="tied" if run.tied else "own head", variant=run.variant))
    table = pd.concat(parts, ignore_index=True)
    columns = ["expected", "frequency", "bits_per_token", "unigram", "uniform"]
    return table.assign(**{name: table[name].astype(float).round(3) for name in columns})


def live_frames(text: str, output: str, projection: str, n_steps: int, seed: int) -> Iterator[pd.DataFrame]:
    """Train in this kernel and picture it every 30 steps, with a note on what the tokens cost by now.

    Parameters
    ----------
    text : {"byte pairs", "bytes"}
    output : {"own head", "tied", "own head, small start"}
    projection : str
        A variant of :class:`.steering_language.SteeringRun`.
    """
    start: Start = "pytorch" if output == "own head" else "small"
    tokens = PAIRS if text == "byte pairs" else BYTES
    run = SteeringRun(tokens, projection, seed, output == "tied", start, replace(SETTING, n_steps=n_steps))
    notes = []
    if run.tied and run.variant == ON_HEAD:
        notes = ["The head is the embedding: this is near-Nyquist."]
    for frame in pictures(run):
        step, cost, alone = (frame[name].iloc[0] for name in ("frame", "bits_per_token", "unigram"))
        side = "above" if cost > alone else "below"
        now = f"Step {step}: {cost:.2f} bits a token, {side} the {alone:.2f} of frequencies."
        frame.attrs["note"] = " ".join([*notes, now])
        yield frame
