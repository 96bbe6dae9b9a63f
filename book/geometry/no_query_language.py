"""Stored language models behind the chapters on models without queries, and what one saves on another."""

from __future__ import annotations

import functools
from collections.abc import Callable

import numpy as np
import pandas as pd

from book.geometry.experiments import language_models as models
from book.geometry.experiments.language_models import BASELINE, NO_Q, THIN, LanguageRun, language_models
from embviz.ledger.studies import largest_stored
from embviz.view.text_titles import titled

BITS = "bits_per_byte"
STEPS, PARAMETERS, PRODUCTS = EQUAL = ("steps", "parameters", "products")
Runs = Callable[[str], list[LanguageRun]]  # of a preset


def web_runs(preset: str) -> list[LanguageRun]:
    """With and without queries on web text."""
    return models.of_seeds(models.web(preset), (BASELINE, NO_Q), models.N_CONTROL_SEEDS[preset])


def few_runs(preset: str) -> list[LanguageRun]:
    """The same on stories that are read over and over."""
    return models.of_seeds(models.few_stories(preset), (BASELINE, NO_Q), models.N_CONTROL_SEEDS[preset])


def stored(runs: Runs) -> list[LanguageRun]:
    """Runs of the largest preset that is stored as a whole, or those of the laptop's that are."""
    preset = largest_stored(lambda name: [language_models.cell(run) for run in runs(name)]) or "laptop"
    return [run for run in runs(preset) if language_models.cell(run).stored()]


@functools.cache
def scores(runs: Runs) -> pd.DataFrame:
    """Scores of stored runs on their way: the columns of :func:`.language_models.curves`, and products.

    Those are 10^12 multiplications so far, forward and backward.
    """
    own = stored(runs)
    table = models.curves(own)
    keys = ["vocab_size", "variant", "key_rank", "seed"]
    spent = {}
    for run in own:
        shape = run.shape(256 if run.text.tokens == "bytes" else run.text.vocab_size)
        products = 3 * models.products_a_token(shape) * run.setting.batch_size * run.setting.length
        spent[run.text.vocab_size, run.variant, run.key_rank, run.seed] = products / 1e12
    a_step = pd.Series(spent).rename_axis(keys).rename("products").reset_index()
    table = table.merge(a_step, on=keys)
    return table.assign(products=table["step"] * table["products"])


def gain_curves(table: pd.DataFrame, variant: str = NO_Q, equal: str = STEPS) -> pd.DataFrame:
    """Bits that a variant saves after so many steps, or products, in percent of a reference of its seed.

    The reference is the baseline; at equal parameters the thin one. At equal products the reference is read
    between its scores, where it has used as many as the variant, over the logarithm, in which curves are
    nearly straight, and from its first score after training began.

    Returns
    -------
    DataFrame
        seed, step, spent (steps, or 10^12 products), gain.
    """
    against = THIN if equal == PARAMETERS else BASELINE
    parts = [pd.DataFrame({"seed": [], "step": [], "spent": [], "gain": []})]
    for seed, own in table.groupby("seed"):
        one, other = (own[own["variant"] == name].sort_values("step") for name in (variant, against))
        if one.empty or other.empty:
            continue
        if equal == PRODUCTS:
            one, other = one[one["step"] > 0], other[other["step"] > 0]
            known, wanted = (np.log(part["products"].to_numpy()) for part in (other, one))
            reference = np.interp(wanted, known, other[BITS], left=np.nan, right=np.nan)
        else:
            reference = one["step"].map(other.set_index("step")[BITS]).to_numpy()
        spent = one["products" if equal == PRODUCTS else "step"].to_numpy(float)
        gain = 100 * (1 - one[BITS].to_numpy() / reference)
        part = pd.DataFrame({"seed": seed, "step": one["step"], "spent": spent, "gain": gain})
        parts.append(part.dropna())
    return pd.concat(parts[1:] or parts, ignore_index=True)


def note(runs: Runs) -> str:
    """Text, size and length of stored runs, for a caption."""
    run = stored(runs)[0]
    setting = run.setting
    return f"{titled(run.text)}; width {setting.embedding_dim}, {setting.n_steps:,} steps."
