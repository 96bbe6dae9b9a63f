"""The chapter on language models without queries: what is shown, gains, sentences, charts."""

import dataclasses

import numpy as np
import pandas as pd
import pytest

from book.geometry import no_query_language as chapter
from book.geometry.experiments import language_models as models
from book.geometry.experiments.language_models import (
    BASELINE,
    CONTROLS,
    FROZEN_Q,
    NO_K,
    NO_Q,
    THIN,
    VARIANTS,
    LanguageRun,
    language_models,
)
from embviz.ledger import cells
from embviz.ledger.cells import Cell, Experiment
from embviz.models.transformer import Attention, Transformer
from embviz.view.explorers import Choice, Explorer
from tests.drawing import compiled

STEPS = (0, 5, 10)
GAPS = np.array([0.0, 0.1, -0.2])
SAVED = {NO_Q: 0.05, THIN: 0.02, NO_K: 0.0}  # of the baseline's bits, at the end


def made(run: LanguageRun) -> pd.DataFrame:
    """Scores of a formula; without queries a seed's training text becomes the easier one."""
    end = (2 + run.seed / 10) * (1 - SAVED.get(run.variant, -0.01)) * (1 + run.key_rank / 1000)
    bits = np.array([8.0, 3.0, end])
    table = pd.DataFrame(
        {
            "step": STEPS,
            **{f"bits_per_{unit}": bits for unit in ("token", "character", "byte")},
            **{f"train_bits_per_{unit}": bits + GAPS for unit in ("token", "character", "byte")},
            "n_parameters": models.count_parameters(run.shape(run.text.vocab_size)),
        }
    )
    return table if run.variant == NO_K else table.assign(key_share=[0.1, 0.07, 0.04], key_power=0.1)


def store(runs: list[LanguageRun]) -> None:
    for run in runs:
        cell = language_models.cell(run)
        experiment = Experiment(cell.experiment.name, cell.experiment.version, made)
        cells.compute(Cell(experiment, cell.config))


@pytest.fixture(autouse=True)
def results(tmp_path, monkeypatch):
    """Made-up runs, stored where the laptop's belong: two whole seeds of pairs, one of controls."""
    monkeypatch.setenv("EMBVIZ_RESULTS_DIR", str(tmp_path))
    store([run for run in chapter.story_runs("laptop") if run.seed < (1 if run.variant in CONTROLS else 2)])
    store([run for runs in (chapter.web_runs, chapter.few_runs) for run in runs("laptop") if run.seed < 2])
    chapter._scored.cache_clear()
    yield
    chapter._scored.cache_clear()


# --- what is shown ------------------------------------------------------------------------------------


def test_the_largest_preset_that_is_whole_is_shown_else_the_largest_begun(tmp_path, monkeypatch):
    assert chapter.shown_preset(chapter.story_runs) == "laptop"  # begun
    store([chapter.web_runs("paper")[0]])
    assert chapter.shown_preset(chapter.web_runs) == "paper"
    store(chapter.web_runs("laptop"))
    assert chapter.shown_preset(chapter.web_runs) == "laptop"  # whole
    monkeypatch.setenv("EMBVIZ_RESULTS_DIR", str(tmp_path / "none"))
    assert chapter.shown_preset(chapter.story_runs) == "quick"


def test_quick_runs_are_made_on_the_spot_and_not_stored(tmp_path, monkeypatch):
    monkeypatch.setenv("EMBVIZ_RESULTS_DIR", str(tmp_path / "none"))
    fake = dataclasses.replace(language_models, function=made)
    monkeypatch.setattr(chapter, "language_models", fake)
    table = chapter.scores(chapter.story_runs)
    assert set(table["variant"]) == {BASELINE, NO_Q, *CONTROLS}
    assert "This is the quick preset" in chapter.note(chapter.story_runs)
    assert not (tmp_path / "none").exists()


def test_a_stored_part_is_shown_without_what_is_missing():
    table = chapter.scores(chapter.story_runs)
    assert table.groupby("variant")["seed"].nunique().to_dict() == {
        name: 2 if name in (BASELINE, NO_Q) else 1 for name in (BASELINE, NO_Q, *CONTROLS)
    }
    assert "baseline 2" in chapter.note(chapter.story_runs)
    assert "quick" not in chapter.note(chapter.story_runs)


# --- numbers ------------------------------------------------------------------------------------------


def test_gains_and_sentences_follow_from_the_scores():
    table = chapter.result_table(chapter.story_runs, "stories", VARIANTS)
    assert table.loc[NO_Q, "paper: gain %"] == "+3.18"
    assert table.loc[THIN, "gain %"] == "+2.97 (one seed)"  # baselines pay 1% more than the formula's 2
    assert table.loc[NO_K, "bits a byte"] == "2.000"
    assert "fewer bits: gain +5.94%" in chapter.gain_finding(chapter.story_runs)
    assert chapter.control_finding().startswith("Gains on the baseline: no Q +5.94%, thin MLP +2.97%, no K")
    assert "without queries from 0.100 to 0.040" in chapter.share_finding()


def test_a_gain_whose_interval_holds_zero_is_called_none(monkeypatch):
    said = {
        (0.0, 1.0): "On web text: no difference that the seeds could tell, gain +0.50% (-5.85 to +6.85)",
        (1.0, 1.0): "On web text a model needs fewer bits: gain +1.00% (+1.00 to +1.00)",
        (-1.0, -1.0): "On web text a model needs more bits: gain -1.00% (-1.00 to -1.00)",
        (1.0,): "On web text, against the baseline: gain +1.00% (one seed)",
    }
    for values, words in said.items():
        monkeypatch.setattr(models, "gains", lambda *_, values=values: np.array(values))
        assert chapter.gain_finding(chapter.story_runs, "On web text") == words


def test_without_a_pair_everything_says_so(tmp_path, monkeypatch):
    monkeypatch.setenv("EMBVIZ_RESULTS_DIR", str(tmp_path / "none"))
    store([chapter.story_runs("laptop")[0]])
    chapter._scored.cache_clear()
    assert "not measured" in chapter.gain_finding(chapter.story_runs)
    assert "not measured" in chapter.control_finding()
    assert (chapter.equality_table()["gain %"] == "not measured").all()
    assert chapter.result_table(chapter.story_runs, "stories").loc[NO_Q, "bits a byte"] == "not measured"
    compiled(chapter.plot_gains())
    compiled(chapter.plot_key_shares())


@pytest.mark.parametrize("variant", VARIANTS)
def test_products_are_those_of_every_map_and_of_attention(variant):
    """Each linear map by its weight, scores and sums by their definition, one by one."""
    run = dataclasses.replace(models.stories("quick"), variant=variant)
    shape = run.shape(50)
    model, n = Transformer(shape, seed=0), 50 * shape.embedding_dim  # the head
    for module in model.modules():
        weight = getattr(module, "weight", None)
        if weight is not None and weight.dim() == 2:
            n += weight.numel()
        if isinstance(module, Attention):
            n += 2 * sum(shape.embedding_dim // shape.n_heads * shape.length for _ in range(shape.n_heads))
    assert models.products_a_token(shape) == n


def test_products_with_keys_of_low_rank_and_without_queries_are_fewer_and_a_thin_baseline_has_as_many():
    run = models.stories("laptop")
    full, no_q, thin = (dataclasses.replace(run, variant=name).shape(256) for name in (BASELINE, NO_Q, THIN))
    saved = run.setting.n_layers * run.setting.embedding_dim**2
    assert models.products_a_token(full) - models.products_a_token(no_q) == saved
    assert models.products_a_token(thin) == models.products_a_token(no_q)
    low = dataclasses.replace(no_q, key_rank=4)
    changed = run.setting.n_layers * (128**2 - 2 * 128 * 4)
    assert models.products_a_token(no_q) - models.products_a_token(low) == changed


def test_equal_steps_parameters_and_products_compare_with_the_right_reference():
    table = chapter.scores(chapter.story_runs)
    steps, thin, products = (chapter.last_gains(table, NO_Q, equal) for equal in chapter.EQUAL)
    base, own, others = 2 * 1.01, 2 * 0.95, 2 * 0.98
    assert steps[0] == pytest.approx(100 * (1 - own / base))
    assert thin == pytest.approx([100 * (1 - own / others)])  # one seed has the thin baseline
    run = models.stories("laptop")
    full, no_q = (dataclasses.replace(run, variant=name).shape(256) for name in (BASELINE, NO_Q))
    share = models.products_a_token(no_q) / models.products_a_token(full)
    place = np.log(10 * share / 5) / np.log(2)  # between the last two scores
    assert products[0] == pytest.approx(100 * (1 - own / (3 + place * (base - 3))))
    frozen = chapter.gain_curves(table, FROZEN_Q, chapter.PRODUCTS)["value"]
    np.testing.assert_allclose(frozen, chapter.gain_curves(table, FROZEN_Q, chapter.STEPS)["value"][1:])


def test_gaps_are_training_minus_held_out_and_their_shares_are_told():
    grid = chapter.gap_grid()
    assert sorted(grid["bits_gap"].round(6).unique()) == [-0.2, 0.1]
    assert "all documents 50% without queries, 50% with them; few" in chapter.gap_finding()


def test_gaps_of_models_that_are_not_stored_are_left_out(tmp_path, monkeypatch):
    monkeypatch.setenv("EMBVIZ_RESULTS_DIR", str(tmp_path / "none"))
    store([run for run in chapter.story_runs("laptop") if run.seed == 0])
    store([run for run in chapter.few_runs("laptop") if run.seed == 0 and run.variant == BASELINE])
    chapter._scored.cache_clear()
    assert chapter.gap_finding().endswith("50% without queries, 50% with them; few documents 50% with them")


def test_the_caption_of_gaps_says_what_both_texts_are_and_how_often_they_are_read():
    note = chapter.gap_note()
    whole, few = note.split("Few documents")
    assert "5,120,000 bytes of all that aren't held out" in whole
    assert "baseline 2, no Q 2." in whole
    assert "thin" not in whole
    assert "5,120,000 bytes of 665 documents" in few
    assert "700 documents of 6,235 distinct TinyStories" in few


def test_bits_are_those_that_the_ledger_has(monkeypatch):
    table = chapter.scores(chapter.story_runs)
    told = table.assign(bits_per_byte=2 * table["bits_per_byte"])  # what a character of two bytes would do
    monkeypatch.setattr(chapter, "scores", lambda runs: told)
    own = models.last_scores(told)[BASELINE].mean()
    assert chapter.result_table(chapter.web_runs, "web").loc[BASELINE, "bits a byte"].startswith(f"{own:.3f}")
    curves = chapter.measure_curves(NO_Q, "0", chapter.HELD_OUT, chapter.STEPS)
    assert curves["value"].max() == 16


def test_the_cosine_of_leading_directions_is_of_models_with_both_projections(monkeypatch):
    assert "not measured" in chapter.alignment_finding()
    table = chapter.scores(chapter.story_runs)
    table["alignment"] = (0.1 + table["step"] / 20).where(~table["variant"].isin([NO_Q, NO_K]))
    monkeypatch.setattr(chapter, "scores", lambda runs: table)
    assert chapter.alignment_finding().endswith("of the model with queries: from 0.10 to 0.60")
    curves = chapter.measure_curves(NO_Q, "all", chapter.ALIGNED, chapter.STEPS)
    assert curves.loc[curves["model"] == "chosen", "seed"].tolist() == [chapter.NONE]
    curves = curves[curves["model"] == "reference"]
    assert set(curves["value"].round(6)) == {0.1, 0.35, 0.6}


# --- charts -------------------------------------------------------------------------------------------


def test_the_explorer_of_curves_has_a_row_for_all_that_can_be_chosen_and_compiles():
    variants = [NO_Q, FROZEN_Q]
    controls = {
        "variant": Choice(variants, "v"),
        "quantity": Choice(list(chapter.QUANTITIES), "q"),
        "equal": Choice(list(chapter.EQUAL), "e"),
        "chosen_seed": Choice(chapter.seeds(), "s"),
    }
    grid = chapter.explored(variants)
    explorer = Explorer(
        chapter.measure_curves, controls, chapter.plot_curves, title="t", caption="c", grid=grid
    )
    compiled(explorer)
    live = chapter.measure_curves(FROZEN_Q, "all", chapter.GAP, chapter.STEPS)
    assert sorted(live["model"].unique()) == ["chosen", "reference"]
    assert np.isfinite(live["value"]).all()


def test_keys_that_are_not_projected_have_no_share_and_a_seed_without_a_control_no_line():
    shares = chapter.measure_curves(NO_K, "all", chapter.SHARE, chapter.STEPS)
    said = shares[shares["model"] == "chosen"]
    assert said["seed"].tolist() == [chapter.NONE]
    same = shares[(shares["model"] == "reference") & (shares["value"] == said["value"].item())]
    assert said["spent"].item() in set(same["spent"])  # the axes don't change with it
    nothing = chapter.measure_curves(FROZEN_Q, "1", chapter.GAIN, chapter.STEPS)
    assert nothing[["model", "seed"]].values.tolist() == [["chosen", chapter.NONE]]


def test_all_other_charts_compile():
    compiled(chapter.plot_gains())
    compiled(chapter.plot_key_shares())
    gaps = {"trained_on": Choice(list(chapter.TRAINED_ON), "r")}
    compiled(Explorer(None, gaps, chapter.plot_gaps, title="t", caption="c", grid=chapter.gap_grid()))
    grid = chapter.web_grid()
    web = {name: Choice(list(grid[name].unique()), name) for name in ("quantity", "equal")}
    compiled(Explorer(None, web, chapter.plot_curves, title="t", caption="c", grid=grid))


# --- other readings -----------------------------------------------------------------------------------


def made_gains(rows: list[tuple[str, int, float, float]]) -> pd.DataFrame:
    table = pd.DataFrame(rows, columns=["reading", "seed", "baseline", "no_q"])
    return table.assign(gain=100 * (1 - table["no_q"] / table["baseline"]))


def test_readings_are_quick_until_pairs_are_stored_and_then_those_alone(monkeypatch):
    quick = made_gains([("as used", 0, 4.0, 4.1), ("positions as sines", 0, 4.0, 3.9)])
    monkeypatch.setattr(
        chapter.language_readings, "gains", lambda run, make=False: quick if make else quick[:1]
    )
    assert "quick preset" in chapter.reading_note()
    assert chapter.reading_table()["gain (%)"].tolist() == ["-2.5 (one seed)", "+2.5 (one seed)"]
    assert "1 with fewer bits" in chapter.reading_finding()
    assert chapter.spread_finding() == "No reading has several seeds yet"
    monkeypatch.setattr(chapter.language_readings, "gains", lambda run, make=False: quick)
    assert "tinystories_5mb" in chapter.reading_note()
    compiled(chapter.plot_readings())


def test_readings_are_means_over_their_seeds_and_each_model_gets_the_rate_that_suits_it(monkeypatch):
    low, high = "learning rate 3e-4, the paper's", "learning rate 3e-3"
    made = made_gains(
        [
            ("as used", 0, 2.0, 2.2),
            (low, 0, 3.0, 2.1),
            (high, 0, 4.0, 2.4),
            (high, 1, 4.0, 1.0),
            ("positions as sines", 0, 1.0, 1.0),  # changes more than the rate: not among the rates
        ]
    )
    monkeypatch.setattr(chapter.language_readings, "gains", lambda run, make=False: made)
    table = chapter.reading_table()
    assert table["seeds"].tolist() == [1, 1, 2, 1]
    drawn = pd.DataFrame(chapter.plot_readings().to_dict()["data"]["values"][0])
    assert drawn.query("kind == 'paper'")[["reading", "gain"]].to_numpy().tolist() == [
        [low, pytest.approx(3.18, abs=0.01)]
    ]
    assert table.loc[high, "no Q (bits)"] == pytest.approx(1.7)
    assert table.loc[high, "gain (%)"].startswith("+57.5 (")
    assert "single pairs gain from +40.0% to +75.0%" in chapter.spread_finding()
    assert "2 with fewer bits without queries; gains from -10.0% to +57.5%" in chapter.reading_finding()
    assert "baseline does best at 0.001, 2.000" in chapter.rate_finding()
    assert "without queries at 0.003, 1.700: a gain of +15.0%" in chapter.rate_finding()
