"""Language models with and without queries: shapes, shared weights and batches, measures, findings."""

import dataclasses
import math

import numpy as np
import pandas as pd
import pytest

from book.geometry.experiments import language_models as models
from book.geometry.experiments.language_models import (
    BASELINE,
    FROZEN_Q,
    IDENTITY_Q,
    NO_K,
    NO_Q,
    STUDIES,
    THIN,
    UNDECAYED_Q,
    VARIANTS,
    WIDE,
    LanguageRun,
    MultipleRun,
    attention_measures,
    gains,
    language_models,
    score_gaps,
    stories,
)
from book.geometry.experiments.steering_language import Setting
from book.language import TextConfig
from book.transformer import Transformer
from embviz.ledger import cells, studies

TINY = LanguageRun(
    TextConfig("embedded", n_documents=40, n_held_out=1),
    setting=Setting(16, 2, 2, 32, 16, 2, 4, 1e-2),
    n_scores=2,
)


def model_of(run: LanguageRun) -> Transformer:
    return Transformer(run.shape(256), seed=run.seed)


@pytest.fixture(scope="module")
def tables(tmp_path_factory) -> dict[str, pd.DataFrame]:
    """Every variant of one seed, trained for four steps."""
    with pytest.MonkeyPatch.context() as patch:
        begun = tmp_path_factory.mktemp("begun")
        patch.setattr(cells, "cache_folder", lambda: begun)  # of runs alone: the text stays where it is
        return {name: language_models.function(dataclasses.replace(TINY, variant=name)) for name in VARIANTS}


# --- models -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("run", [stories("laptop"), stories("paper"), TINY])
def test_a_thin_baseline_has_as_many_parameters_as_a_model_without_queries(run):
    thin, no_q = (dataclasses.replace(run, variant=name) for name in (THIN, NO_Q))
    assert models.count_parameters(thin.shape(256)) == models.count_parameters(no_q.shape(256))
    wide = dataclasses.replace(run, variant=WIDE)
    assert models.count_parameters(wide.shape(256)) == models.count_parameters(run.shape(256))
    assert models.products_a_token(wide.shape(256)) == models.products_a_token(run.shape(256))


def test_only_a_query_without_decay_changes_how_a_variant_is_trained():
    trained = {name: dataclasses.replace(TINY, variant=name).training for name in VARIANTS}
    assert {trained[name] for name in VARIANTS if name != UNDECAYED_Q} == {TINY.training}
    assert trained[UNDECAYED_Q].optimizer.undecayed == ("query.weight",)


def test_variants_of_one_seed_share_their_weights_and_first_loss_differs_by_attention_alone(tables):
    assert all(table["step"].tolist() == [0, 2, 4] for table in tables.values())
    first = {name: table["bits_per_byte"].iloc[0] for name, table in tables.items()}
    assert first[UNDECAYED_Q] == first[BASELINE]
    assert first[IDENTITY_Q] == pytest.approx(first[NO_Q], rel=1e-6)  # an identity is no query
    assert first[FROZEN_Q] == pytest.approx(first[BASELINE], rel=1e-6)  # before it could learn


# --- what attention looks like -------------------------------------------------------------------------


def test_shares_of_singular_values_are_their_definition():
    model = model_of(TINY)
    measured = attention_measures(model)
    shares, powers, cosines = [], [], []
    for block in model.blocks:
        key, query = (
            getattr(block.attention, name).weight.detach().numpy().astype(float) for name in ("key", "query")
        )
        values = np.sqrt(np.linalg.eigvalsh(key @ key.T)[::-1].clip(0))
        shares.append(values[0] / values.sum())
        powers.append(values[0] ** 2 / np.square(key).sum())
        leading = [np.linalg.eigh(matrix.T @ matrix)[1][:, -1] for matrix in (key, query)]
        cosines.append(abs(leading[0] @ leading[1]))
    assert measured["key_share"] == pytest.approx(np.mean(shares), rel=1e-4)
    assert measured["key_power"] == pytest.approx(np.mean(powers), rel=1e-4)
    assert measured["alignment"] == pytest.approx(np.mean(cosines), rel=1e-3)


def test_a_projection_that_is_not_there_is_not_measured():
    def names(**options):
        return set(attention_measures(model_of(dataclasses.replace(TINY, **options))))

    assert names(variant=NO_Q) == {"key_share", "key_power"}
    assert names(variant=NO_K) == {"query_share"}
    assert names(variant=FROZEN_Q) == {"key_share", "key_power", "query_share", "alignment"}


@pytest.mark.parametrize("start", [None, 0.5, 0.0])  # 0: keys are zero, as the judged runs start
def test_a_key_of_low_rank_is_measured_with_the_multiple_of_the_identity_that_it_is_added_to(start):
    run = dataclasses.replace(TINY, variant=NO_Q, key_rank=2)
    shape = (run if start is None else MultipleRun(run, start=start)).shape(256)
    found = attention_measures(Transformer(shape, seed=0))
    assert found["key_share"] == found["key_power"] == pytest.approx(1 / 16)  # the change starts at zero
    assert found.get("key_multiple") == start


# --- findings -----------------------------------------------------------------------------------------


def scores(variant: str, seed: int, ends: tuple[float, float]) -> pd.DataFrame:
    held_out, train = ends
    return pd.DataFrame(
        {"variant": variant, "seed": seed, "step": [0, 5, 10], "bits_per_byte": [8.0, 3.0, held_out],
         "train_bits_per_byte": [8.0, 3.5, train]}
    )  # fmt: skip


def test_a_gain_is_paired_by_seed_and_a_seed_without_a_pair_is_left_out():
    table = pd.concat(
        [
            scores(BASELINE, 0, (2.0, 2.0)),
            scores(NO_Q, 0, (1.5, 2.0)),
            scores(BASELINE, 1, (4.0, 2.0)),
            scores(NO_Q, 1, (4.4, 2.0)),
            scores(BASELINE, 2, (9.0, 2.0)),
        ]
    )
    np.testing.assert_allclose(gains(table), [25.0, -10.0])


def test_gaps_are_of_the_trained_model_or_of_the_untrained_one_alone():
    gaps = score_gaps(pd.concat([scores(BASELINE, 0, (2.0, 1.5)), scores(NO_Q, 0, (2.0, 2.25))]))
    assert gaps[BASELINE].tolist() == [0.5, -0.5]
    assert gaps[NO_Q].tolist() == [0.5, 0.25]
    table = scores(BASELINE, 0, (2.0, 1.5)).assign(train_bits_per_byte=[8.25, 1.0, 1.0])
    assert score_gaps(table, untrained=True)[BASELINE].tolist() == [0.25]


def fake(run: LanguageRun) -> pd.DataFrame:
    """Scores of a formula: without Q 10% less than 2 bits, and 1% more a doubling of the vocabulary."""
    few = {models.few_stories(preset).text.n_documents for preset in ("quick", "laptop")}
    last_gap = -0.2 if run.text.n_documents in few else 0.1
    bits = np.array([8.0, 3.0, 2.0 + run.seed / 10])
    if run.variant == NO_Q:
        bits[-1] *= 0.9 - 0.01 * math.log2(run.text.vocab_size / 256) + 0.001 * run.key_rank
    return pd.DataFrame(
        {
            "step": [0, 5, 10],
            "bits_per_byte": bits,
            "train_bits_per_byte": bits + np.array([0.0, 0.1, last_gap]),
            "key_share": [0.1, 0.07, 0.04],
            "key_power": 0.1,
            "alignment": 0.2,
        }
    )


@pytest.mark.parametrize("preset", ["quick", "laptop", "paper"])
def test_findings_follow_from_the_scores_and_are_the_claims_measurements(monkeypatch, preset):
    monkeypatch.setattr(models, "read", lambda cell: (fake(cell.config), {}))
    found = {name: study.findings(preset) for name, study in STUDIES.items()}
    assert found["geometry.noq_tinystories"]["gain"].value == pytest.approx(10.0)
    assert found["geometry.noq_tinystories"]["gain"].controls["thin"] == pytest.approx(0.0)
    over_untrained = found["geometry.k_alignment"]["share_over_untrained"]
    assert over_untrained.value == pytest.approx(0.04 / 0.1)
    assert over_untrained.controls == {"untrained": 1.0}
    assert found["geometry.train_above_val"]["below"].value == 0.0
    largest = math.log2(models.VOCABULARIES[preset][-1] / 256)
    assert found["geometry.open_bpe"]["growth"].value == pytest.approx(largest)
    lowest = models.KEY_RANKS[preset][0]
    assert found["geometry.open_lowrank_k"]["cost_low"].value == pytest.approx(100 * 0.001 * lowest / 0.9)


def test_a_learned_multiple_is_a_part_of_its_claim_that_no_other_figure_waits_for(monkeypatch):
    monkeypatch.setattr(models, "read", lambda cell: (fake(cell.config), {}))
    monkeypatch.setattr(models, "table_of", learned)
    study = STUDIES["geometry.open_lowrank_k"]
    assert "cost_multiple" not in study.findings("paper")  # nothing is stored
    assert models.multiple_scores("paper").empty
    for module in (models, studies):
        monkeypatch.setattr(module, "missing", lambda cells: [])
    found = study.findings("laptop")
    rank = models.KEY_RANKS["laptop"][1]
    assert found["cost_multiple"].value == pytest.approx(100 * 0.001 * rank / 0.9)
    assert found["multiple"].value == pytest.approx(0.3)


def learned(cell: cells.Cell) -> pd.DataFrame:
    return fake(cell.config.run).assign(key_multiple=[0.0, 0.1, 0.3])
