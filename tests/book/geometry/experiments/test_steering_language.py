"""Projected embeddings of language models: what a run changes, its cells, findings on made-up scores."""

import dataclasses

import numpy as np
import pytest
import torch

from book.geometry.experiments import steering_language as steering
from book.geometry.experiments.steering_language import (
    BASELINE,
    FROZEN,
    LOWEST,
    NEAR_NYQUIST,
    ON_HEAD,
    SUBSPACE,
    TOP_5,
    VARIANTS,
    Setting,
    SteeringRun,
    make_model,
)
from book.language import Stream, Streams, TextConfig, draw_batch, load_streams, next_token_losses
from book.projected import Adaptive, Prescribed
from embviz.training.fourier import power_spectrum

TEXT = TextConfig("embedded", "byte pairs", 290, held_out_every=4)
TINY = Setting(8, 1, 2, 16, 8, 4, 20, 1e-2)
RUN = SteeringRun(TEXT, setting=TINY)

pytestmark = pytest.mark.usefixtures("made_text", "own_runs", "own_results")


def run_of(variant: str, **changes) -> SteeringRun:
    return dataclasses.replace(RUN, variant=variant, **changes)


def gradient_after_projection(run: SteeringRun) -> tuple[torch.Tensor, torch.Tensor]:
    """The embedding's gradient of one batch, and what the run makes of it."""
    streams = load_streams(run.text)
    model, after_backward = make_model(run, streams)
    next_token_losses(
        model, draw_batch(streams.train, seed=0, step=0, batch_size=4, length=8)
    ).mean().backward()
    whole = model.embedding.grad.clone()
    after_backward(0)
    return whole, model.embedding.grad


# --- what a variant is ------------------------------------------------------------------------------


def test_near_nyquist_modes_are_the_five_highest_as_in_the_paper():
    assert RUN.projection(50_257) is None
    assert run_of(NEAR_NYQUIST).projection(50_257) == Prescribed((25_124, 25_125, 25_126, 25_127, 25_128))
    assert run_of(NEAR_NYQUIST).projection(256) == Prescribed((124, 125, 126, 127, 128))
    assert run_of(TOP_5).projection(256) == Adaptive(5)
    assert run_of(LOWEST).projection(256) == Prescribed((1, 2, 3, 4, 5))


@pytest.mark.parametrize(
    "run", [run_of(NEAR_NYQUIST), run_of(TOP_5), run_of(NEAR_NYQUIST, tied=True, start="small")]
)
def test_only_the_five_highest_or_strongest_modes_of_the_embeddings_gradient_are_kept(run):
    before, after = map(power_spectrum, gradient_after_projection(run))
    chosen = np.argsort(-before)[:5] if run.variant == TOP_5 else np.arange(len(before))[-5:]
    np.testing.assert_allclose(after[chosen], before[chosen], rtol=1e-4)  # float32 there and back
    assert np.delete(after, chosen).max() < 1e-9 * before.max()


def test_a_random_subspace_has_ten_dimensions_and_follows_the_seed():
    _, kept = gradient_after_projection(run_of(SUBSPACE))
    assert torch.linalg.matrix_rank(kept) <= 8  # an embedding of 8 dimensions
    one, other = (run_of(SUBSPACE, seed=seed).projection(290) for seed in (0, 1))
    eye = torch.eye(290)
    assert torch.linalg.matrix_rank(one.apply(eye)) == 10
    assert not torch.allclose(one.apply(eye), other.apply(eye))


@pytest.mark.parametrize("variant", steering.REORDERED)
def test_only_the_lowest_modes_along_a_sorted_vocabulary_are_kept(variant):
    whole, kept = gradient_after_projection(run_of(variant))
    order = steering.token_order(load_streams(TEXT), variant)
    assert sorted(order) == list(range(len(whole)))
    before, after = power_spectrum(whole[order]), power_spectrum(kept[order])
    np.testing.assert_allclose(after[1:6], before[1:6], rtol=1e-4)
    assert after[6:].max() < 1e-9 * before.max()
    assert np.abs(power_spectrum(kept)[6:]).max() > 1e-3 * before.max()  # not along the tokens' own numbers


def test_tokens_are_sorted_by_frequency_or_so_that_neighbours_in_text_are_near():
    ids = np.tile(
        [1, 2, 1, 2, 1, 0, 4, 3, 4, 3], 20
    )  # 1 and 2 stand together, and so do 3 and 4; 5 is unseen
    stream = Stream(ids, np.array([1]), np.array([1]), np.array([1]))
    streams = Streams(stream, stream, 6, "")
    by_frequency = steering.token_order(streams, steering.BY_FREQUENCY).tolist()
    assert by_frequency == [1, 2, 3, 4, 0, 5]
    place = np.argsort(steering.token_order(streams, steering.BY_NEIGHBORS))
    assert place[5] == 5
    assert max(place[[1, 2]]) < min(place[[3, 4]]) or max(place[[3, 4]]) < min(place[[1, 2]])


def test_on_the_head_alone_the_embedding_s_gradient_is_left_whole():
    streams = load_streams(TEXT)
    kept = {}
    for variant in (NEAR_NYQUIST, ON_HEAD):
        model, after_backward = make_model(run_of(variant), streams)
        batch = draw_batch(streams.train, seed=0, step=0, batch_size=4, length=8)
        next_token_losses(model, batch).mean().backward()
        whole = {name: getattr(model, name).grad.clone() for name in ("embedding", "free_head")}
        after_backward(0)
        kept[variant] = {name: torch.equal(getattr(model, name).grad, whole[name]) for name in whole}
    assert kept == {
        NEAR_NYQUIST: {"embedding": False, "free_head": True},
        ON_HEAD: {"embedding": True, "free_head": False},
    }


def test_variants_of_a_seed_start_from_the_same_weights_and_without_a_projection_no_gradient_is_changed():
    made = {variant: make_model(run_of(variant), load_streams(TEXT)) for variant in VARIANTS}
    for model, _ in made.values():
        for name, array in model.state_dict().items():
            assert torch.equal(array, made[BASELINE][0].state_dict()[name])
    for variant in (BASELINE, FROZEN):
        model, after_backward = made[variant]
        assert after_backward is None
        assert model.embedding.requires_grad == (variant == BASELINE)
        assert model.free_head.requires_grad
