"""Language models tied by signs: reflection is exact, stored tables are paired, logits follow the signs."""

import itertools

import numpy as np
import pandas as pd
import pytest
import torch

from book.reflections import language_models as lm
from embviz.models.recurrent import LSTMConfig, LSTMLanguageModel
from tests.drawing import compiled


def plain_model(*, width=6, n_layers=2, seed=0) -> LSTMLanguageModel:
    config = LSTMConfig(vocab_size=11, embedding_dim=width, n_layers=n_layers, dropout=0.0)
    return LSTMLanguageModel(config, seed=seed).double()


WORDS = torch.tensor([[1, 2], [3, 4], [10, 0], [5, 5], [1, 9]])  # (T, B)


# --- reflection ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("n_layers", [1, 2, 3])
@pytest.mark.parametrize("seed", range(4))
def test_a_reflected_model_has_the_same_logits_to_the_bit(seed, n_layers):
    model = plain_model(n_layers=n_layers, seed=seed)
    signs = torch.from_numpy(np.random.default_rng(seed).choice([-1.0, 1.0], size=6))
    twin = lm.reflected(model, signs=signs)
    ours, theirs = (one(WORDS, one.initial_state(2))[0] for one in (model, twin))
    torch.testing.assert_close(theirs, ours, rtol=0, atol=0)


def test_signs_without_reflected_weights_change_the_logits():
    models = lm.twin_models(vocab_size=11, embedding_dim=6, seed=0)
    plain, signed = (
        models[name](WORDS, models[name].initial_state(2))[0] for name in (lm.PLAIN, lm.SAME_WEIGHTS)
    )
    assert float((plain - signed).detach().abs().max()) > 1e-3


def test_reflecting_leaves_the_model_and_the_size_of_its_weights_as_they_were():
    model = plain_model()
    before = {name: weight.clone() for name, weight in model.state_dict().items()}
    twin = lm.reflected(model, signs=-torch.ones(6))
    for name, weight in model.state_dict().items():
        torch.testing.assert_close(weight, before[name], rtol=0, atol=0)
        torch.testing.assert_close(twin.state_dict()[name].abs(), weight.abs(), rtol=0, atol=0)


def test_one_clipped_step_keeps_the_twins_equal():
    models = lm.twin_models(vocab_size=11, embedding_dim=6, seed=1)
    text = torch.from_numpy(np.random.default_rng(0).integers(11, size=(60, 3)))
    losses = {name: lm._train(model, text, 8) for name, model in models.items()}
    np.testing.assert_array_equal(losses[lm.REFLECTED], losses[lm.PLAIN])
    assert not np.allclose(losses[lm.SAME_WEIGHTS], losses[lm.PLAIN], rtol=1e-6)


def test_a_model_tied_through_signs_is_not_reflected_again():
    twin = lm.reflected(plain_model(), signs=-torch.ones(6))
    with pytest.raises(ValueError, match="tied 'signs': start from one whose tying is 'plain'"):
        lm.reflected(twin, signs=torch.ones(6))


def test_the_logit_table_tells_the_twins_apart():
    table = lm.largest_logit_difference(vocab_size=20, embedding_dim=8).set_index("model")["difference"]
    assert table[lm.REFLECTED] == 0.0
    assert table[lm.SAME_WEIGHTS] > 0.1


# --- live logits ----------------------------------------------------------------------------------------


@pytest.fixture
def made_directions(monkeypatch):
    rows = np.random.default_rng(0).standard_normal((50, lm.DIMENSION))
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    monkeypatch.setattr(lm, "_word_directions", lambda: ([f"word{i}" for i in range(50)], rows))


def own_logit(table: pd.DataFrame) -> float:
    return float(table[table["kind"] == "h is made from it"]["logit"].iloc[0])


@pytest.mark.parametrize(("flipped", "logit"), [(0.0, 1.0), (1.0, -1.0)])
def test_a_words_own_logit_goes_from_one_to_minus_one(made_directions, flipped, logit):
    table = lm.signed_logits("word7", flipped, False)
    assert own_logit(table) == pytest.approx(logit)
    assert table["label"].iloc[-1 if flipped else 0] == ("50. word7" if flipped else "1. word7")


@pytest.mark.parametrize("flipped", [0.0, 0.3, 0.5, 1.0])
def test_reflected_outputs_bring_the_plain_logits_back(made_directions, flipped):
    pd.testing.assert_frame_equal(
        lm.signed_logits("word7", flipped, True), lm.signed_logits("word7", 0.0, False)
    )


def test_flipping_more_signs_flips_the_same_ones_and_more(made_directions):
    logits = [own_logit(lm.signed_logits("word3", flipped, False)) for flipped in np.linspace(0, 1, 21)]
    assert all(later < earlier for earlier, later in itertools.pairwise(logits))


def test_an_unknown_word_is_refused(made_directions):
    with pytest.raises(ValueError, match="'zebra' is not among the 500 most frequent words"):
        lm.signed_logits("zebra", 0.5, False)


def test_the_logits_are_drawn(made_directions):
    assert compiled(lm.plot_signed_logits(lm.signed_logits("word1", 0.4, False)))


# --- stored runs ---------------------------------------------------------------------------------------


@pytest.fixture
def made_runs(monkeypatch):
    perplexities = {("plain", 0): 100.0, ("plain", 1): 110.0, ("signs", 0): 101.0, ("signs", 1): 104.5}
    rows = [("made", 8, tying, seed, value) for (tying, seed), value in perplexities.items()]
    table = pd.DataFrame(rows, columns=["corpus", "embedding_dim", "tying", "seed", "perplexity"])
    monkeypatch.setattr(lm, "stored_preset", lambda: "laptop")
    monkeypatch.setattr(lm.language, "final_perplexities", lambda preset: table)


def test_gaps_are_paired_by_seed(made_runs):
    assert lm.final_table()["gap in %"].tolist() == [1.0, -5.0]


def test_the_null_pairs_plain_models_both_ways_round(made_runs):
    gaps = lm.seed_gaps()
    assert gaps[gaps["comparison"] == lm.SAME_SEED]["gap"].tolist() == [1.0, -5.0]
    assert gaps[gaps["comparison"] == lm.TWO_SEEDS]["gap"].tolist() == [10.0, -9.09]
    assert compiled(lm.plot_seed_gaps(gaps))


def test_the_papers_gaps_come_from_the_claims_file():
    assert lm.paper_gaps()["gap in %"].tolist() == [0.46, 0.26, 0.8, 0.12]


def test_nothing_stored_gives_empty_tables(monkeypatch):
    monkeypatch.setattr(lm, "stored_preset", lambda: None)
    assert lm.final_table().empty
    assert lm.seed_gaps().empty
    assert lm.perplexity_curves().empty


def test_curves_are_drawn_without_zero():
    table = pd.DataFrame({"epoch": [1, 2], "perplexity": [100.0, 90.0], "tying": "WT (plain)", "seed": 0})
    spec = lm.plot_perplexity_curves(table).to_dict()
    assert spec["layer"][0]["encoding"]["y"]["scale"]["zero"] is False
