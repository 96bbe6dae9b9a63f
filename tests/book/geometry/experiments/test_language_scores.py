"""Language models without queries: gains at equal spending, and products."""

import dataclasses

import numpy as np
import pandas as pd
import pytest

from book.geometry.experiments import language_models as models
from book.geometry.experiments.language_models import (
    CONTROLS,
    NO_K,
    NO_Q,
    THIN,
    VARIANTS,
    LanguageRun,
    language_models,
)
from book.ledger import cells
from book.ledger.cells import Cell, Experiment
from book.transformer import Attention, Transformer

STEPS = (0, 5, 10)
SAVED = {NO_Q: 0.05, THIN: 0.02, NO_K: 0.0}  # of the baseline's bits, at the end


def made(run: LanguageRun) -> pd.DataFrame:
    """Scores of a formula."""
    end = (2 + run.seed / 10) * (1 - SAVED.get(run.variant, -0.01)) * (1 + run.key_rank / 1000)
    bits = np.array([8.0, 3.0, end])
    units = {f"bits_per_{unit}": bits for unit in ("token", "character", "byte")}
    return pd.DataFrame({"step": STEPS, **units})


def store(chosen: list[LanguageRun]) -> None:
    for run in chosen:
        cell = language_models.cell(run)
        experiment = Experiment(cell.experiment.name, cell.experiment.version, made)
        cells.compute(Cell(experiment, cell.config))


@pytest.fixture
def stories(tmp_path, monkeypatch):
    """Made-up runs, stored where the laptop's belong: two whole seeds of pairs, one of controls."""
    monkeypatch.setenv("EMBVIZ_RESULTS_DIR", str(tmp_path))
    store([run for run in models.story_runs("laptop") if run.seed < (1 if run.variant in CONTROLS else 2)])
    models.scores.cache_clear()
    yield models.scores(models.story_runs)
    models.scores.cache_clear()


@pytest.mark.parametrize(("variant", "key_rank"), [*((name, 0) for name in VARIANTS), (NO_Q, 4)])
def test_products_are_those_of_every_map_and_of_attention(variant, key_rank):
    """Each linear map by its weight, scores and sums by their definition, one by one."""
    run = dataclasses.replace(models.stories("quick"), variant=variant, key_rank=key_rank)
    shape = run.shape(50)
    model, n = Transformer(shape, seed=0), 50 * shape.embedding_dim  # the head
    for module in model.modules():
        weight = getattr(module, "weight", None)
        if weight is not None and weight.dim() == 2:
            n += weight.numel()
        if isinstance(module, Attention):
            n += 2 * sum(shape.embedding_dim // shape.n_heads * shape.length for _ in range(shape.n_heads))
    assert models.products_a_token(shape) == n
