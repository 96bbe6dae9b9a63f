"""The chapter on byte pairs without queries: vocabularies of equal size, gains, units; keys of low rank."""

import dataclasses

import numpy as np
import pandas as pd
import pytest

from book.geometry import no_query_bpe as chapter
from book.geometry import no_query_language as language
from book.geometry.experiments import language_models as models
from book.geometry.experiments.language_models import BASELINE, NO_Q, LanguageRun, language_models
from embviz.ledger.cells import Cell, Experiment, compute
from embviz.models.transformer import Transformer
from embviz.view.explorers import Choice, Explorer
from tests.drawing import compiled

SIZES = (256, 1_024, 4_096)


def made(run: LanguageRun) -> pd.DataFrame:
    """Without queries 1% less, and 1% more a vocabulary four times as large; each rank costs 1 / rank."""
    bits = 2 + run.seed / 10
    if run.variant == NO_Q:
        bits *= 0.99 - 0.01 * SIZES.index(run.text.vocab_size)
        bits *= 1 + (1 / run.key_rank / 100 if run.key_rank else 0)
    curve = np.array([8.0, 3.0, bits])
    n = 1 if run.text.tokens == "bytes" else 3
    table = pd.DataFrame({"step": [0, 5, 10], "bits_per_character": curve, "bits_per_byte": curve})
    return table.assign(bits_per_token=n * curve, key_share=[0.1, 0.07, 0.04], n_parameters=1)


def store(runs: list[LanguageRun]) -> None:
    for run in runs:
        own = language_models.cell(run)
        compute(Cell(Experiment(own.experiment.name, own.experiment.version, made), own.config))


@pytest.fixture(autouse=True)
def results(tmp_path, monkeypatch):
    """Made-up runs where the laptop's belong."""
    monkeypatch.setenv("EMBVIZ_RESULTS_DIR", str(tmp_path))
    language._scored.cache_clear()
    store([*models.vocabulary_runs("laptop"), *models.rank_runs("laptop")])
    yield
    language._scored.cache_clear()


def test_models_are_equal_but_for_embedding_and_head_whatever_the_vocabulary():
    sizes = set()
    for n_tokens, run in chapter.vocabularies().items():
        model = Transformer(run.shape(n_tokens), seed=0)
        named = {name: tuple(tensor.shape) for name, tensor in model.named_parameters()}
        sizes.add(frozenset((name, shape) for name, shape in named.items() if n_tokens not in shape))
        assert sum(n_tokens in shape for shape in named.values()) == 2
        assert run.training == models.stories("laptop").training
    assert len(sizes) == 1


def test_the_table_of_vocabularies_counts_parameters_and_text():
    table = chapter.vocabulary_table()
    assert table.index.tolist() == ["256 bytes", "1,024 byte pairs", "4,096 byte pairs"]
    assert table["the rest"].nunique() == table["the rest, no Q"].nunique() == 1
    rest, without = (int(table[name].iloc[0].replace(",", "")) for name in ("the rest", "the rest, no Q"))
    assert rest - without == 4 * 128**2
    for n_tokens, run in chapter.vocabularies().items():
        full, no_q = (
            models.count_parameters(dataclasses.replace(run, variant=name).shape(n_tokens))
            for name in (BASELINE, NO_Q)
        )
        saved = next(table.loc[name] for name in table.index if name.startswith(f"{n_tokens:,} "))
        assert float(saved["saved without Q, %"]) == pytest.approx(
            100 * (1 - no_q / full), abs=0.05
        )  # a digit
    assert table.loc["4,096 byte pairs", "embedding and head"] == f"{2 * 4_096 * 128:,}"
    assert table["characters a token"].tolist() == ["1.00", "3.00", "3.00"]
    assert table["characters read"].tolist() == ["5.1 M", "15 M", "15 M"]


def test_gains_grow_as_they_were_made_to_and_the_sentence_says_so():
    assert [round(chapter.gains(size).mean(), 6) for size in SIZES] == [1.0, 2.0, 3.0]
    assert chapter.vocabulary_finding().startswith("From bytes to 4,096 tokens the gain grows: +2.00")


@pytest.mark.parametrize(
    ("growth", "words"),
    [((1.0, 1.1), "grows"), ((-1.0, -1.1), "shrinks"), ((-1.0, 1.0), "neither grows nor shrinks")],
)
def test_the_sentence_on_growth_follows_the_interval(monkeypatch, growth, words):
    monkeypatch.setattr(chapter, "gains", lambda size: pd.Series(growth if size == SIZES[-1] else (0.0, 0.0)))
    assert words in chapter.vocabulary_finding()


def test_growth_is_told_for_the_end_and_for_where_it_is_least():
    table = chapter.courses()
    assert set(table["step"]) == {5, 10}  # not before the first update
    ends = table[table["step"] == 10].groupby("n_tokens")["gain"].mean()
    assert ends.round(6).tolist() == [1.0, 2.0, 3.0]
    assert chapter.course_finding() == (
        "From bytes to 4,096 tokens the gain changes by +2.0 percentage points at the end, and by +0.0 after "
        "5 of 10 steps"
    )
    compiled(chapter.plot_courses())


def test_savings_do_not_depend_on_the_unit_and_bits_do():
    saved = [chapter.measure_curves(1_024, chapter.GAIN, unit)["value"].to_numpy() for unit in chapter.UNITS]
    np.testing.assert_allclose(saved[0], saved[1])
    np.testing.assert_allclose(saved[0], saved[2])
    tokens, characters = (
        chapter.measure_curves(1_024, chapter.BITS, unit)["value"].to_numpy()
        for unit in ("token", "character")
    )
    np.testing.assert_allclose(tokens, 3 * characters)


def test_the_sentence_on_units_has_the_baselines_last_bits():
    seeds = {run.seed for run in models.vocabulary_runs("laptop")}
    bits = 2 + np.mean(list(seeds)) / 10
    assert chapter.unit_finding() == (
        f"From 256 to 4,096 tokens the baseline pays {bits:.2f} to {3 * bits:.2f} bits a token, "
        f"{bits:.2f} to {bits:.2f} a character"
    )


def test_costs_of_low_rank_are_paired_by_seed():
    costs = chapter.rank_costs()
    assert chapter.ranks() == [4, 16, 64]
    np.testing.assert_allclose(costs["cost_percent"], 1 / costs["key_rank"])
    assert len(costs) == 3 * len({run.seed for run in models.rank_runs("laptop")})
    assert chapter.rank_finding().endswith("rank 4 +0.25%, rank 16 +0.06%, rank 64 +0.02%")
    table = chapter.rank_table()
    assert table.loc["64 of 128", "numbers in the maps of keys"] == table.loc["full"].iloc[0]


def test_what_is_not_stored_is_called_so(tmp_path, monkeypatch):
    monkeypatch.setenv("EMBVIZ_RESULTS_DIR", str(tmp_path / "none"))
    vocabularies, ranks = models.vocabulary_runs("laptop"), models.rank_runs("laptop")
    assert {run.variant for run in ranks} == {NO_Q}  # full keys are the other study's, too
    store([run for run in vocabularies if run.variant == BASELINE])
    store([run for run in ranks if bool(run.key_rank) == (run.seed == 0)])  # no pair of one seed
    assert "not measured" in chapter.vocabulary_finding()
    assert "not measured" in chapter.course_finding()
    compiled(chapter.plot_courses())
    assert "not measured" in chapter.rank_finding()
    compiled(chapter.plot_vocabularies())
    compiled(chapter.plot_ranks())
    assert set(chapter.grid()["n_tokens"]) == set(SIZES)


def test_a_run_that_studies_share_does_not_begin_one_of_them(tmp_path, monkeypatch):
    monkeypatch.setenv("EMBVIZ_RESULTS_DIR", str(tmp_path / "none"))
    store(models.story_runs("laptop")[:2])
    assert language.shown_preset(models.story_runs) == "laptop"
    assert language.shown_preset(models.vocabulary_runs) == language.shown_preset(models.rank_runs) == "quick"


def test_charts_and_explorer_compile():
    compiled(chapter.plot_vocabularies())
    compiled(chapter.plot_ranks())
    controls = {
        "n_tokens": Choice(list(chapter.vocabularies()), "t"),
        "quantity": Choice(list(chapter.QUANTITIES), "q"),
        "per": Choice(list(chapter.UNITS), "u"),
    }
    explorer = Explorer(
        chapter.measure_curves, controls, chapter.plot_curves, title="t", caption="c", grid=chapter.grid()
    )
    compiled(explorer)
