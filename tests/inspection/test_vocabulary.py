"""Kinds of tokens, under-trained tokens and twins, against brute force and where they are planted."""

import numpy as np
import pytest
import torch

from embviz.inspection import inspect, roles, tables, vocabulary
from embviz.inspection.weight_files import read_weights
from tests.inspection.test_tables import cosines_of, table_of

pytestmark = pytest.mark.usefixtures("one_thread")

N_UNUSED, N_WORDS, D = 40, 400, 24
TOKENS = [f"<unused{i}>" for i in range(N_UNUSED)] + [f"▁word{i}" for i in range(N_WORDS)]
FORGOTTEN = [N_UNUSED + 3, N_UNUSED + 77]  # words whose rows training has not touched


@pytest.fixture
def rows(monkeypatch):
    """Unused tokens share a direction, as do two words; all vary most along another."""
    monkeypatch.setattr(tables, "BLOCK_ROWS", 50)
    rng = np.random.default_rng(0)
    found = rng.normal(size=(N_UNUSED + N_WORDS, D)) + 0.4
    still = [*range(N_UNUSED), *FORGOTTEN]
    found[still] = 2 * rng.normal(size=D) + 0.3 * rng.normal(size=(len(still), D))
    found += 3 * rng.normal(size=(len(found), 1)) * rng.normal(size=D)  # the first principal component
    return found.astype(np.float32)


def test_each_kind_has_the_isotropy_of_its_own_rows(rows):
    kinds = ["unused"] * N_UNUSED + ["word start"] * N_WORDS
    table = vocabulary.kinds_table(table_of(rows), tables.table_moments(table_of(rows)), kinds)
    assert table["kind"].tolist() == ["word start", "unused"]
    for name, chosen in (("unused", rows[:N_UNUSED]), ("word start", rows[N_UNUSED:])):
        row = table.set_index("kind").loc[name]
        off = ~np.eye(len(chosen), dtype=bool)
        assert row["tokens"] == len(chosen)
        assert row["length"] == pytest.approx(np.linalg.norm(chosen, axis=1).mean(), rel=1e-5)
        assert row["mean_cosine"] == pytest.approx(cosines_of(chosen)[off].mean(), abs=1e-5)
        apart = chosen - rows.mean(axis=0)
        assert row["centred_mean_cosine"] == pytest.approx(cosines_of(apart)[off].mean(), abs=1e-5)


def test_words_that_training_left_alone_are_found_and_no_others(rows):
    kinds = ["unused"] * N_UNUSED + ["word start"] * N_WORDS
    moments = tables.table_moments(table_of(rows))
    found = vocabulary.undertrained_tokens(table_of(rows), moments, kinds, n_draws=4, seed=0)
    assert sorted(found.candidates.tolist()) == FORGOTTEN
    assert found.auc.value > 0.99
    assert abs(found.auc.null.mean() - 0.5) < 0.1
    assert found.held_out.sum() == N_UNUSED // 2
    # the definition, with the principal component of the whole table
    centred = rows - rows.mean(axis=0)
    component = np.linalg.svd(centred.astype(float))[2][0]
    without = rows - np.outer(rows @ component, component)
    given = np.setdiff1d(np.arange(N_UNUSED), np.flatnonzero(found.held_out))
    mean = without[given].mean(axis=0)
    cosines = without @ mean / np.linalg.norm(without, axis=1) / np.linalg.norm(mean)
    np.testing.assert_allclose(found.distances, 1 - cosines, atol=1e-5)


@pytest.mark.parametrize("n_unused", [300, 0])
def test_unused_tokens_without_a_direction_are_at_chance_and_without_any_nothing_is_told(n_unused):
    rows = table_of(np.random.default_rng(0).normal(size=(900, 30)))
    moments, kinds = tables.table_moments(rows), ["unused"] * n_unused + ["word start"] * (900 - n_unused)
    if n_unused:
        found = vocabulary.undertrained_tokens(rows, moments, kinds, n_draws=2, seed=0)
        assert found.auc.value == pytest.approx(0.5, abs=0.1)
    else:
        with pytest.raises(ValueError, match="0 tokens are known to be unused: at least 20"):
            vocabulary.undertrained_tokens(rows, moments, kinds, n_draws=2, seed=0)


def test_the_area_is_the_share_of_pairs_in_order():
    low, high = np.array([1.0, 2.0, 2.0]), np.array([2.0, 3.0, 0.0])
    pairs = [(a < b) + (a == b) / 2 for a in low for b in high]
    assert vocabulary._auc(low, high) == pytest.approx(np.mean(pairs))


def test_twins_are_pairs_of_one_word_and_their_share_is_that_of_a_loop():
    names = ["▁king", "king", "▁King", "▁kings", "▁cat", "▁cats", "cats", "▁a", "▁as", "▁Zug", "x"]
    pairs = vocabulary.twin_pairs(names, most=10, seed=0)
    named = {sort: {(names[a], names[b]) for a, b in each} for sort, each in pairs.items()}
    assert named == {
        "leading space": {("▁king", "king"), ("▁cats", "cats")},
        "capital": {("▁king", "▁King")},
        "plural": {("▁king", "▁kings"), ("▁cat", "▁cats")},
    }
    rows = np.random.default_rng(1).normal(size=(len(names), 6))
    rows[4] = rows[5] + 0.01
    shares, table = vocabulary.twin_measures(table_of(rows), tables.table_moments(table_of(rows)), pairs)
    cosines = cosines_of(rows.astype(np.float32))
    near = cosines.argmax(axis=1)
    for share in shares:
        each = pairs[share.quantity.removeprefix("nearest twins, ")]
        assert share.n_rows == len(each)
        assert share.value == np.mean([near[a] == b and near[b] == a for a, b in each])
        assert share.interval[0] <= share.value <= share.interval[1]
    assert table.loc[table["mutual"], ["first", "second"]].to_numpy().tolist() == [[4, 5]]
    np.testing.assert_allclose(table["cosine"], cosines[table["first"], table["second"]], atol=1e-6)


def test_inspect_names_the_tokens(rows):
    report = inspect({"wte.weight": rows}, TOKENS)
    assert sorted(report.undertrained["row"]) == FORGOTTEN
    assert report.undertrained["token"].str.startswith("▁word").all()
    row = report.table[report.table["quantity"] == "unused tokens told apart"].iloc[0]
    assert row["note"] == "2 tokens in use are as near"
    assert report.kinds["tokens"].sum() == len(rows)
    assert inspect({"wte.weight": rows}).kinds.empty


# --- matrices of a layer beside queries, keys and values -------------------------------------------------


@pytest.mark.parametrize(
    ("family", "kinds"),
    [
        ("GPT2", {"O": "attn.c_proj", "MLP in": "mlp.c_fc", "MLP out": "mlp.c_proj"}),
        ("Llama", {"O": "o_proj", "MLP gate": "gate_proj", "MLP in": "up_proj", "MLP out": "down_proj"}),
        ("GPTNeoX", {"O": "attention.dense", "MLP in": "dense_h_to_4h", "MLP out": "dense_4h_to_h"}),
        ("Bert", {"O": "attention.output.dense", "MLP in": "intermediate.dense", "MLP out": "output.dense"}),
    ],
)
def test_output_and_mlp_matrices_of_each_layer_are_found(family, kinds):
    import transformers as tf

    sizes = {"vocab_size": 30, "hidden_size": 16, "num_hidden_layers": 3, "num_attention_heads": 4}
    config = getattr(tf, f"{family}Config")(
        **sizes, **({} if family == "GPT2" else {"intermediate_size": 24})
    )
    torch.manual_seed(0)
    weights = read_weights(getattr(tf, f"{family}Model")(config))
    every = roles.layer_maps(weights, *roles.heads_of(weights))
    found = [one for one in every if one.kind not in roles.SEPARATE]
    named = {(one.kind, one.layer): one.place for one in found}
    assert set(named) == {(kind, layer) for kind in kinds for layer in range(3)}
    for (kind, layer), name in named.items():
        assert name.endswith(f"{kinds[kind]}.weight")
        assert f".{layer}." in f".{name}"
        assert kind != "MLP out" or "attention" not in name


def test_experts_of_which_a_layer_has_several_are_left_out():
    names = [f"{layer}.attn.{kind}_proj.weight" for layer in range(3) for kind in "qkv"]
    names += [f"{layer}.experts.{expert}.w1.weight" for layer in range(3) for expert in range(2)]
    maps = roles.layer_maps(read_weights({name: np.eye(4) for name in names}), 1, 1)
    assert [one.kind for one in maps] == [*"QKV"] * 3
