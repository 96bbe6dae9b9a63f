"""Carrying a model to another width: what is exact, the rules by the letter, other ways, and refusals."""

import dataclasses

import numpy as np
import pytest
import torch

from book.resizing.decoder import Decoder, DecoderConfig
from book.resizing.rules import fold, from_scratch, grow, logit_error, pca_slice, resize, truncate
from embviz import projections
from tests.book.resizing.test_decoder import CONFIGS, EVERY_CONFIG, SMALL, livened, made_tokens

EXACT = 1e-12  # float64: some dozen sums after one another in another order, over logits of size 1
MOVED = 0.01  # an error that no rounding makes
PLAIN = dataclasses.replace(SMALL, norm="rms", gains="none")  # an architecture that commutes as it is
D = SMALL.embedding_dim


def made(config: DecoderConfig, seed: int = 3) -> Decoder:
    return livened(Decoder(config, seed=seed))


def error(new, old) -> float:
    tokens = made_tokens(old.config)
    return logit_error(new(tokens), old(tokens))


def rotation(seed: int = 0) -> projections.Projection:
    return projections.draw("orthonormal", D, D, seed=seed, scaling="unit")


# --- exactness --------------------------------------------------------------------------------------


@EVERY_CONFIG
def test_folding_keeps_the_logits(config):
    model = made(config)
    folded = fold(model)
    assert error(folded, model) < EXACT
    assert folded.config.norm == "rms"
    assert folded.config.gains != "each"


@EVERY_CONFIG
def test_a_rotation_of_the_stream_keeps_the_logits_and_rotates_every_hidden_state(config):
    model, tokens = made(config), made_tokens(config)
    carried = resize(model, D, projection=rotation())
    assert error(carried.model, model) < EXACT
    before, after = fold(model).states(tokens), carried.model.states(tokens)
    T = torch.from_numpy(carried.projection.matrix)
    for x, z in zip(before, after, strict=True):
        torch.testing.assert_close(z, x @ T.T, rtol=1e-10, atol=1e-11)


@EVERY_CONFIG
@pytest.mark.parametrize("how", ["zeros", "orthogonal"])
def test_growing_keeps_the_logits(config, how):
    model = made(config)
    grown = grow(model, 20, how)
    assert grown.model.config.embedding_dim == 20
    assert error(grown.model, model) < EXACT


@EVERY_CONFIG
def test_float32_keeps_the_logits_and_so_do_dimensions_in_another_order(config):
    model = made(config)
    assert error(truncate(model, [*range(5, D), *range(5)]).model, model) < EXACT
    for carried in (resize(model.float(), D), grow(model.float(), 31)):
        assert error(carried.model, model) < 1e-5


def test_a_model_grown_is_cut_back_exactly_by_its_principal_directions():
    model, tokens = fold(made(CONFIGS["LayerNorm"])), made_tokens(SMALL, 6)
    wide = grow(model, 20, seed=5).model
    states = torch.cat([state.flatten(0, 1) for state in wide.states(tokens)]).detach().numpy()
    assert error(pca_slice(wide, D, states).model, model) < EXACT


@pytest.mark.parametrize("config", [dataclasses.replace(PLAIN, tied=False), CONFIGS["sphere"]])
def test_the_length_of_an_orthonormal_map_does_not_matter_where_no_tied_head_shows_it(config):
    maps = (projections.draw("orthonormal", 7, D, seed=1, scaling=scale) for scale in ("unit", "isometric"))
    assert error(*(resize(made(config), 7, projection=T).model for T in maps)) < EXACT


# --- the rules, by the letter -------------------------------------------------------------------------


def test_the_plain_rule_is_the_sandwich_of_the_text():
    model = made(dataclasses.replace(PLAIN, tied=False))
    T = projections.draw("gaussian", 6, D, seed=1)
    found = resize(model, 6, projection=T, attention="plain", reading="written").model
    assert found.config.n_heads == 3
    assert found.config.head_width == 2
    assert found.config.scale == pytest.approx(2**-0.5)
    old = {name: array.numpy() for name, array in model.state_dict().items()}
    new = {name: array.numpy() for name, array in found.state_dict().items()}
    matrix, inverse = T.matrix, T.matrix.T @ np.linalg.inv(T.matrix @ T.matrix.T)  # equation 3
    block = "blocks.1."
    expected = {
        "embedding": old["embedding"] @ matrix.T,
        "position": old["position"] @ matrix.T,
        "free_head": old["free_head"] @ inverse,
        block + "up.weight": (matrix @ old[block + "up.weight"].T).T,  # W_in is the text's, inputs first
        block + "down.weight": (old[block + "down.weight"].T @ inverse).T,
    }
    for name in ("query", "key", "value", "out"):
        key = f"{block}attention.{name}.weight"
        expected[key] = matrix @ old[key] @ inverse
    for name, array in expected.items():
        np.testing.assert_allclose(new[name], array, rtol=1e-10, atol=1e-12, err_msg=name)


def test_readings_agree_for_orthonormal_rows_of_unit_length():
    for config in (PLAIN, CONFIGS["rotary"]):
        for m, rule in ((7, "kept"), (6, "within")):
            first, other = (
                resize(made(config), m, reading=reading, attention=rule).model
                for reading in ("inverse", "written")
            )
            assert error(other, first) < EXACT


ROTARY = dataclasses.replace(PLAIN, positions="rotary")


@pytest.mark.parametrize(
    ("config", "options", "exact"),
    [
        (dataclasses.replace(PLAIN, n_heads=1), {"attention": "plain"}, True),
        (PLAIN, {"attention": "within"}, True),
        (PLAIN, {"attention": "plain"}, False),
        (ROTARY, {"attention": "within"}, False),
        (PLAIN, {"mlp": "plain"}, False),  # what an activation keeps apart
        (dataclasses.replace(SMALL, gains="none"), {"centering": "keep"}, False),
    ],
)
def test_at_the_same_width_a_rule_is_exact_or_mixes_what_is_kept_apart(config, options, exact):
    model = made(config)
    found = error(resize(model, D, **options).model, model)
    assert found < EXACT if exact else found > MOVED
    assert error(resize(model, D).model, model) < EXACT


def test_the_scale_of_products_follows_the_width_of_a_head():
    for scale in (0.0, 0.7):  # by default, and named
        model = made(dataclasses.replace(PLAIN, attention_scale=scale))
        for rule, ratio in (("kept", 1.0), ("within", 2.0), ("plain", 2.0)):  # heads of 4, then of 2
            found = resize(model, 6, attention=rule).model.config
            assert found.scale == pytest.approx(model.config.scale * ratio**0.5)


def test_gains_follow_each_rule():
    config = dataclasses.replace(SMALL, norm="rms", tied=False)
    model, T = made(config), rotation()
    gain, matrix = model.state_dict()["blocks.0.before.1.weight"], torch.from_numpy(T.matrix)
    expected = {"one": gain.mean(), "project": matrix @ gain, "dense": matrix @ torch.diag(gain) @ matrix.T}
    for rule, array in expected.items():
        found = resize(model, D, projection=T, gains=rule).model
        torch.testing.assert_close(found.state_dict()["blocks.0.before.1.weight"], array)
        assert (error(found, model) < EXACT) == (rule == "dense")
    dropped = resize(model, D, projection=T, gains="drop").model
    assert not any("before" in name for name in dropped.state_dict())
    with torch.no_grad():
        for name, array in model.named_parameters():
            if name.endswith(("before.0.weight", "before.1.weight", "norm.weight")):
                array.fill_(1.0)
    assert error(dropped, model) < EXACT


def test_axes_go_by_their_role_where_all_sizes_are_equal():
    config = DecoderConfig(8, 8, 8, 2, 1, mlp_dim=8, norm="rms", gains="none", biases=True)
    model = made(config)
    T = projections.draw("orthonormal", 8, 8, seed=0, scaling="unit")
    assert error(resize(model, 8, projection=T).model, model) < EXACT
    small = resize(model, 5).model.state_dict()
    assert small["blocks.0.up.weight"].shape == (8, 5)
    assert small["blocks.0.down.weight"].shape == (5, 8)


# --- other ways to another width ----------------------------------------------------------------------


def test_truncation_keeps_the_entries_of_its_dimensions():
    model = made(CONFIGS["LayerNorm"])
    old, new = model.state_dict(), truncate(model, [7, 2]).model.state_dict()
    assert torch.equal(new["embedding"], old["embedding"][:, [7, 2]])
    assert torch.equal(new["blocks.0.down.weight"], old["blocks.0.down.weight"][[7, 2]])
    assert torch.equal(new["blocks.0.before.0.weight"], old["blocks.0.before.0.weight"][[7, 2]])
    assert torch.equal(new["norm.bias"], old["norm.bias"][[7, 2]])


@pytest.mark.parametrize("how", ["zeros", "orthogonal"])
def test_fresh_readers_leave_the_logits_and_let_gradients_through(how):
    model = made(CONFIGS["LayerNorm"])
    for fresh in (False, True):
        grown = grow(model, 20, how, fresh=fresh)
        assert error(grown.model, model) < EXACT
        grown.model(made_tokens(SMALL)).square().sum().backward()
        T = torch.from_numpy(grown.projection.matrix)
        beyond = torch.linalg.qr(T, mode="complete")[0][:, D:]  # directions that T doesn't reach
        reached = (grown.model.embedding.grad @ beyond).norm() > 1e-6
        assert reached == fresh


def test_a_model_from_scratch_has_the_shape_of_a_carried_one():
    model = fold(made(CONFIGS["LayerNorm"]))
    new = from_scratch(model, 7, seed=1)
    assert new.config == resize(model, 7).model.config
    assert new.embedding.dtype == torch.float64
    assert not torch.equal(new.embedding, from_scratch(model, 7, seed=2).embedding)


# --- refusals -------------------------------------------------------------------------------------------


def test_tied_weights_come_apart_only_where_the_rules_ask_for_it():
    gains = made(dataclasses.replace(SMALL, norm="rms"))
    found = resize(gains, 6)
    assert not found.model.config.tied
    assert resize(gains, 6, gains="dense").model.config.tied
    assert not resize(made(PLAIN), 6, projection="gaussian").model.config.tied
    assert resize(made(PLAIN), 6).model.config.tied


FLAT = projections.Projection.from_matrix(np.eye(12)[[0, 1, 2, 2]])


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda m: resize(m, 6, attention="mixed"), "no rule 'mixed': choose one of kept, within, plain"),
        (lambda m: resize(m, 6, gains="keep"), "choose one of fold, drop, one, project, dense"),
        (lambda m: resize(m, 6, projection="normal"), "no family 'normal'"),
        (lambda m: resize(m, 17, projection="hadamard"), "a Hadamard map of 12 coordinates has 16"),
        (lambda m: resize(m, 7, projection=FLAT), "4 x 12, and must be 7 x 12"),
        (lambda m: resize(m, 4, projection=FLAT), "has rank 3, not 4"),
        (lambda m: resize(m, 7, attention="plain"), "m = 7 can't be divided among 3 heads: keep them"),
        (lambda m: resize(made(CONFIGS["sphere"]), 6, attention="plain"), "on the sphere each coordinate"),
        (lambda m: pca_slice(m, 13, states=np.eye(12)), "m can be 12 at most"),
        (lambda m: truncate(m, [1, 1]), "has rank 1, not 2"),
    ],
)
def test_a_width_or_a_rule_that_does_not_fit_is_refused(call, message):
    with pytest.raises(ValueError, match=message):
        call(made(PLAIN))


def test_carrying_changes_neither_the_model_nor_the_global_random_state():
    torch.manual_seed(5)
    model, random_state = made(CONFIGS["LayerNorm"]), torch.random.get_rng_state()
    before = {name: array.clone() for name, array in model.state_dict().items()}
    resize(model, 6), fold(model), grow(model, 20), truncate(model, range(4)), grow(model, 20, fresh=True)
    assert all(torch.equal(array, before[name]) for name, array in model.state_dict().items())
    assert torch.equal(torch.random.get_rng_state(), random_state)
