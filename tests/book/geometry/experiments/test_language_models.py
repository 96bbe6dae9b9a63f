"""Language models with and without queries: shapes, shared weights and batches, measures, findings."""

import dataclasses

import numpy as np
import pytest

from book.geometry.experiments import language_models as models
from book.geometry.experiments.language_models import (
    NO_Q,
    THIN,
    UNDECAYED_Q,
    VARIANTS,
    WIDE,
    LanguageRun,
    MultipleRun,
    attention_measures,
    stories,
)
from book.geometry.experiments.steering_language import Setting
from book.language import TextConfig
from book.transformer import Transformer

TINY = LanguageRun(
    TextConfig("embedded", n_documents=40, n_held_out=1),
    setting=Setting(16, 2, 2, 32, 16, 2, 4, 1e-2),
    n_scores=2,
)


def model_of(run: LanguageRun) -> Transformer:
    return Transformer(run.shape(256), seed=run.seed)


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


@pytest.mark.parametrize("start", [None, 0.5, 0.0])  # 0: keys are zero, as the judged runs start
def test_a_key_of_low_rank_is_measured_with_the_multiple_of_the_identity_that_it_is_added_to(start):
    run = dataclasses.replace(TINY, variant=NO_Q, key_rank=2)
    shape = (run if start is None else MultipleRun(run, start=start)).shape(256)
    found = attention_measures(Transformer(shape, seed=0))
    assert found["key_share"] == found["key_power"] == pytest.approx(1 / 16)  # the change starts at zero
    assert found.get("key_multiple") == start
