"""Carrying a model to another width: what is exact, the rules by the letter, other ways, and refusals."""

import dataclasses

import numpy as np
import pytest
import torch

from embviz import projections
from embviz.models import resizing
from embviz.models.decoder import Decoder, DecoderConfig
from embviz.models.resizing import fold, grow, logit_error, pca_slice, resize, truncate
from embviz.models.transformer import Transformer, TransformerConfig
from tests.models.test_decoder import CONFIGS, EVERY_CONFIG, SMALL, livened, made_tokens

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


def test_float32_keeps_the_logits_to_a_part_in_100_000():
    for config in CONFIGS.values():
        model = made(config).float()
        assert error(resize(model, D).model, model) < 1e-5, config
        assert error(grow(model, 31).model, model) < 1e-5, config


def test_a_transformer_of_ours_is_carried_exactly():
    config = TransformerConfig(11, 5, 12, 2, 3, 20, tied=True)
    model = livened(Transformer(config, seed=0))
    tokens = made_tokens(SMALL)
    assert logit_error(resize(model, D).model(tokens), model(tokens)) < EXACT


def test_the_model_itself_is_not_changed():
    model = made(CONFIGS["GPT-2"])
    before = {name: array.clone() for name, array in model.state_dict().items()}
    resize(model, 6), fold(model), grow(model, 20), truncate(model, 4)
    assert all(torch.equal(array, before[name]) for name, array in model.state_dict().items())


def test_a_model_grown_is_cut_back_exactly_by_its_principal_directions():
    model, tokens = fold(made(CONFIGS["GPT-2"])), made_tokens(SMALL, 6)
    wide = grow(model, 20, seed=5).model
    states = torch.cat([state.flatten(0, 1) for state in wide.states(tokens)]).detach().numpy()
    assert error(pca_slice(wide, D, states).model, model) < EXACT


def test_dimensions_in_another_order_are_the_same_model():
    for config in CONFIGS.values():
        model = made(config)
        assert error(truncate(model, [*range(5, D), *range(5)]).model, model) < EXACT, config


@pytest.mark.parametrize(
    "config",
    [dataclasses.replace(PLAIN, tied=False), CONFIGS["sphere"]],
    ids=["RMSNorm, free head", "sphere"],
)
def test_the_length_of_an_orthonormal_map_does_not_matter_where_no_tied_head_shows_it(config):
    model = made(config)
    short = projections.draw("orthonormal", 7, D, seed=1, scaling="unit")
    long = projections.draw("orthonormal", 7, D, seed=1, scaling="isometric")
    found = [resize(model, 7, projection=T).model for T in (short, long)]
    assert error(*found) < EXACT


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


def test_the_public_program_multiplies_every_axis_of_the_stream_by_t():
    model = made(PLAIN)
    T = projections.draw("gaussian", 6, D, seed=1)
    found = resize(model, 6, projection=T, reading="transpose").model
    old, new = model.state_dict(), found.state_dict()
    assert found.config.tied
    matrix = torch.from_numpy(T.matrix)
    for name, array in (
        ("embedding", old["embedding"] @ matrix.T),
        ("blocks.0.attention.query.weight", old["blocks.0.attention.query.weight"] @ matrix.T),
        ("blocks.0.down.weight", matrix @ old["blocks.0.down.weight"]),
    ):
        torch.testing.assert_close(new[name], array)


@EVERY_CONFIG
@pytest.mark.parametrize("m", [6, D, 15])
@pytest.mark.parametrize("rule", ["kept", "within"])
def test_readings_agree_for_orthonormal_rows_of_unit_length(config, m, rule):
    model = made(config)
    if m % 6 and config.positions == "rotary" and rule == "within":
        return  # heads of odd width can't turn pairs
    first, *others = (
        resize(model, m, reading=reading, attention=rule).model
        for reading in ("inverse", "written", "transpose")
    )
    assert all(error(other, first) < EXACT for other in others)


def test_the_plain_rule_is_exact_for_one_head_and_mixes_three():
    one = made(dataclasses.replace(PLAIN, n_heads=1))
    assert error(resize(one, D, attention="plain").model, one) < EXACT
    three = made(PLAIN)
    mixed = resize(three, D, attention="plain")
    assert error(mixed.model, three) > MOVED
    assert any("heads are mixed" in note for note in mixed.notes)


def test_maps_within_heads_are_exact_at_the_same_width_but_not_with_rotary_positions():
    model = made(PLAIN)
    assert error(resize(model, D, attention="within").model, model) < EXACT
    rotary = made(dataclasses.replace(PLAIN, positions="rotary"))
    assert error(resize(rotary, D, attention="within").model, rotary) > MOVED


def test_the_scale_of_products_follows_the_width_of_a_head():
    for scale in (0.0, 0.7):  # by default, and named
        model = made(dataclasses.replace(PLAIN, attention_scale=scale))
        for rule, ratio in (("kept", 1.0), ("within", 2.0), ("plain", 2.0)):  # heads of 4, then of 2
            found = resize(model, 6, attention=rule).model.config
            assert found.scale == pytest.approx(model.config.scale * ratio**0.5)


def test_mapping_hidden_units_mixes_what_an_activation_keeps_apart():
    model = made(PLAIN)
    found = resize(model, 6, mlp="plain")
    assert found.model.config.mlp_dim == 10
    assert error(resize(model, D, mlp="plain").model, model) > MOVED


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


def test_centering_that_is_kept_takes_another_direction_away():
    model = made(dataclasses.replace(SMALL, gains="none"))
    kept = resize(model, D, centering="keep")
    assert kept.model.config.norm == "layer"
    assert error(kept.model, model) > MOVED
    assert any("centering is kept" in note for note in kept.notes)
    assert error(resize(model, D).model, model) < EXACT


def test_axes_go_by_their_role_where_all_sizes_are_equal():
    config = DecoderConfig(8, 8, 8, 2, 1, mlp_dim=8, norm="rms", gains="none", biases=True, gated=True)
    model = made(config)
    T = projections.draw("orthonormal", 8, 8, seed=0, scaling="unit")
    assert error(resize(model, 8, projection=T).model, model) < EXACT
    small = resize(model, 5).model.state_dict()
    assert small["blocks.0.up.weight"].shape == (8, 5)
    assert small["blocks.0.down.weight"].shape == (5, 8)


@EVERY_CONFIG
def test_every_parameter_has_a_role_for_each_axis_and_its_size(config):
    model = made(config)
    sizes = {
        "vocabulary": config.n_symbols,
        "position": config.length,
        "residual": config.embedding_dim,
        "head": config.n_heads * config.head_width,
        "hidden": config.mlp_dim,
    }
    for name, roles in resizing.axes(model).items():
        assert tuple(sizes[role] for role in roles) == tuple(model.state_dict()[name].shape), name


# --- other ways to another width ----------------------------------------------------------------------


def test_truncation_keeps_the_entries_of_its_dimensions():
    model = made(CONFIGS["GPT-2"])
    old, new = model.state_dict(), truncate(model, [7, 2]).model.state_dict()
    assert torch.equal(new["embedding"], old["embedding"][:, [7, 2]])
    assert torch.equal(new["blocks.0.down.weight"], old["blocks.0.down.weight"][[7, 2]])
    assert torch.equal(new["blocks.0.before.0.weight"], old["blocks.0.before.0.weight"][[7, 2]])
    assert truncate(model, 2).model.state_dict()["norm.bias"].tolist() == old["norm.bias"][:2].tolist()


@pytest.mark.parametrize("how", ["zeros", "orthogonal"])
def test_fresh_readers_leave_the_logits_and_let_gradients_through(how):
    model = made(CONFIGS["GPT-2"])
    for fresh in (False, True):
        grown = grow(model, 20, how, fresh=fresh)
        assert error(grown.model, model) < EXACT
        grown.model(made_tokens(SMALL)).square().sum().backward()
        T = torch.from_numpy(grown.projection.matrix)
        beyond = torch.linalg.qr(T, mode="complete")[0][:, D:]  # directions that T doesn't reach
        reached = (grown.model.embedding.grad @ beyond).norm() > 1e-6
        assert reached == fresh


def test_a_model_from_scratch_has_the_shape_of_a_carried_one():
    model = fold(made(CONFIGS["GPT-2"]))
    new = resizing.from_scratch(model, 7, seed=1)
    assert new.config == resize(model, 7).model.config
    assert new.embedding.dtype == torch.float64
    assert not torch.equal(new.embedding, resizing.from_scratch(model, 7, seed=2).embedding)


# --- types of numbers -----------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_is_computed_in_float32_and_comes_back_in_its_type(dtype):
    model = made(CONFIGS["GPT-2"]).to(dtype)
    found = resize(model, 6).model
    assert {array.dtype for array in found.state_dict().values()} == {dtype}
    full = resize(model.float(), 6).model.state_dict()
    for name, array in found.state_dict().items():  # rounded once, at the end
        torch.testing.assert_close(array, full[name].to(dtype), rtol=0, atol=0)


# --- refusals -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("rule", ["plain", "within"])
def test_a_width_that_heads_do_not_divide_is_refused_with_those_that_they_do(rule):
    with pytest.raises(ValueError, match=r"m = 7 can't be divided among 3 heads: take m = 6 or 9"):
        resize(made(PLAIN), 7, attention=rule)
    assert resize(made(PLAIN), 7).model.config.head_width == 4


def test_another_number_of_heads_is_offered_and_taken():
    with pytest.raises(ValueError, match=r"or n_heads=1 or 2 or 5, or attention='kept'"):
        resize(made(PLAIN), 10, attention="plain")
    assert resize(made(PLAIN), 10, attention="plain", n_heads=5).model.config.n_heads == 5
    rotary = made(dataclasses.replace(PLAIN, positions="rotary"))
    with pytest.raises(ValueError, match=r"3 heads in pairs of coordinates: take m = 6 or 12"):
        resize(rotary, 9, attention="plain")
    with pytest.raises(ValueError, match="'kept' keeps the model's 3 heads"):
        resize(made(PLAIN), 10, n_heads=5)


@pytest.mark.parametrize("reading", ["inverse", "transpose"])
def test_a_map_without_full_rank_is_refused_by_its_rank(reading):
    T = np.eye(12)[[0, 1, 2, 2]]
    with pytest.raises(ValueError, match="has rank 3, not 4"):
        resize(made(PLAIN), 4, projection=projections.given(T), reading=reading)


def test_a_layer_that_is_not_known_is_refused_by_its_name():
    class Adapter(torch.nn.Module):
        pass

    model = made(PLAIN)
    model.blocks[1].adapter = Adapter()
    for way in (fold, lambda m: resize(m, 6), lambda m: grow(m, 20), lambda m: truncate(m, 3)):
        with pytest.raises(ValueError, match=r"layer blocks\.1\.adapter is a Adapter"):
            way(model)
    with pytest.raises(ValueError, match="a Linear can't be carried"):
        fold(torch.nn.Linear(2, 2))


def test_tied_weights_come_apart_only_where_the_rules_ask_for_it():
    gains = made(dataclasses.replace(SMALL, norm="rms"))
    found = resize(gains, 6)
    assert not found.model.config.tied
    assert any("no longer tied, because the last norm's gains" in note for note in found.notes)
    assert resize(gains, 6, gains="dense").model.config.tied
    assert not resize(made(PLAIN), 6, projection="gaussian").model.config.tied
    assert resize(made(PLAIN), 6).model.config.tied


@pytest.mark.parametrize(
    ("carry", "name", "m", "options", "message"),
    [
        (resize, "plain", 6, {"attention": "mixed"}, "no rule 'mixed': choose one of kept, within, plain"),
        (resize, "plain", 6, {"gains": "keep"}, "choose one of fold, drop, one, project, dense"),
        (resize, "plain", 6, {"projection": "normal"}, "no family 'normal'"),
        (resize, "plain", 0, {}, "m is 0: a model needs one dimension"),
        (resize, "plain", 17, {"projection": "hadamard"}, "a Hadamard map of 12 coordinates has 16"),
        (resize, "plain", 7, {"projection": projections.given(np.eye(12)[:6])}, "6 x 12, and must be 7 x 12"),
        (resize, "ALiBi, wide heads", 6, {"attention": "plain"}, "the 3 heads of 6 are not 12 wide"),
        (grow, "plain", 20, {"how": "ones"}, "choose one of zeros, orthogonal, gaussian"),
        (grow, "plain", 6, {}, "m = 6 is below the model's width 12"),
        (grow, "sphere", 20, {"fresh": True}, "on the sphere fresh weights"),
        (pca_slice, "plain", 13, {"states": np.eye(12)}, "m can be 12 at most"),
        (truncate, "plain", 0, {}, "different ones of 0 to 11"),
        (truncate, "plain", [1, 1], {}, "different ones of 0 to 11"),
        (truncate, "plain", [12], {}, "different ones of 0 to 11"),
    ],
)
def test_a_width_or_a_rule_that_is_not_there_is_refused(carry, name, m, options, message):
    with pytest.raises(ValueError, match=message):
        carry(made({"plain": PLAIN, **CONFIGS}[name]), m, **options)


def test_carrying_does_not_touch_the_global_random_state():
    torch.manual_seed(5)
    before = torch.random.get_rng_state()
    resize(made(PLAIN), 6), grow(made(PLAIN), 20, fresh=True)
    assert torch.equal(torch.random.get_rng_state(), before)
