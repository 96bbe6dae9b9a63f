"""The stored runs of the chapter on recovery as tables, and what a resized model writes."""

from __future__ import annotations

import functools
import math
import textwrap
from typing import Any

import altair as alt
import numpy as np
import pandas as pd
import torch

from book.ledger import load_runs
from book.resizing import rules, story
from book.resizing.decoder import Decoder
from book.resizing.experiments import bases, recovery
from book.resizing.experiments.recovery import PCA, PROJECTION, SCRATCH, when_recovered
from embviz.view.charts import Data

AFTER_PORT = "right after the port"
AFTER_400 = "after 400 updates"
OPENING = {"embedded": "Return ", "tinystories_5mb": "Once upon a time, there was a little girl named "}
N_STATES = 1_024  # that PCA sees before a model writes
N_WRITTEN, LINE = 120, 42  # characters that a model writes, and in a line
N_LINES = 14  # of two texts of that length, with headings
ORIGINAL = "the original"


def fine_tunings(**fields: Any) -> pd.DataFrame:
    """Stored fine-tunings at one width: their configurations, ratio (m / d), step, lost (nats)."""
    table = load_runs("resizing.recovery", **fields)
    table["ratio"] = table["ratios"].str.strip("(,)").astype(float)
    table["lost"] = table["log_perplexity"].astype(float) - table["original"].astype(float)
    return table


def sweep() -> pd.DataFrame:
    """All widths and treatments of one base model, three seeds."""
    return fine_tunings(n_steps=400, **{"base.seed": 0})


AS_PRINTED, REPAIRED, UNTRAINED = "as printed", "our repairs", "random initialization"
THREE = {"base.seed": [1, 2, 3], "norm": "layer", "embedding_dim": 128}  # base models, fine-tuned once each


def end_to_end() -> pd.DataFrame:
    """Algorithm 1 beside our repairs, fine-tuned: rule, width, seed (the base model), step, lost (nats)."""
    printed = load_runs("resizing.tuned", as_drawn=True)
    printed["lost"] = printed["log_perplexity"] - printed["original"]
    printed["rule"] = np.where(printed["scratch"], UNTRAINED, AS_PRINTED)
    ours = fine_tunings(n_steps=400, ratios=["(0.5,)", "(0.75,)"], treatment=PROJECTION, **THREE)
    ours = ours[ours["seed"] == ours["base.seed"]].assign(rule=REPAIRED)
    both = pd.concat([printed, ours], ignore_index=True)
    both = both.sort_values("ratio", kind="stable")
    both["width"] = both["ratio"].map({0.5: "m = d / 2", 0.75: "m = 3 d / 4"})
    return both[["rule", "width", "seed", "step", "lost"]]


def by_updates() -> pd.DataFrame:
    """What annealed fine-tunings leave at half the width: treatment, seed (of the base), updates, lost."""
    table = fine_tunings(n_steps=[100, 200, 400, 800], ratios="(0.5,)", **THREE)
    own = table[(table["seed"] == table["base.seed"]) & (table["step"] == table["n_steps"])]
    return own.rename(columns={"n_steps": "updates"})[["treatment", "seed", "updates", "lost"]]


def by_width() -> pd.DataFrame:
    """Base models carried to half of their width: width, moment, treatment, seed, lost (nats)."""
    table = fine_tunings(n_steps=1_200)
    moments = {0: AFTER_PORT, 400: AFTER_400}
    own = table[table["step"].isin(moments)].assign(moment=lambda rows: rows["step"].map(moments))
    own = own.assign(width=own["embedding_dim"]).sort_values(["width", "seed", "treatment", "step"])
    return own[["width", "moment", "treatment", "seed", "lost"]].reset_index(drop=True)


def architecture_ends(percent: float = 2) -> pd.DataFrame:
    """One row per run: architecture, seed, updates that trained the original, original (its held-out loss),
    lost (right after the port), left (at the end), steps_back (to within `percent`), back (whether it is)."""
    rows = []
    for run in recovery.architecture_runs():
        own = recovery.curves([run], stored=False)
        found = when_recovered(own, math.log1p(percent / 100))
        rows.append(
            {
                "architecture": next(
                    name for name in recovery.COMPARED if bases.base(architecture=name) == run.base
                ),
                "seed": run.seed,
                "updates": run.base.training.n_steps,
                "original": round(float(own["original"].iloc[0]), 3),
                "lost": round(float(own["lost"].iloc[0]), 3),
                "left": round(float(own["lost"].iloc[-1]), 3),
                "steps_back": round(found.steps, 1),
                "back": found.reached,
            }
        )
    return pd.DataFrame(rows)


# --- what it writes -----------------------------------------------------------------------------------


@torch.no_grad()
def write(model: Decoder, opening: str, n_bytes: int = N_WRITTEN) -> str:
    """The opening and the likeliest next byte, again and again; bytes that are no ASCII text as a dot."""
    tokens = list(opening.encode())
    for _ in range(n_bytes):
        seen = torch.tensor([tokens[-model.config.length :]])
        tokens.append(int(model(seen)[0, -1].argmax()))
    return "".join(chr(token) if 32 <= token < 127 else "·" for token in tokens)


@functools.cache
def written_by_original() -> str:
    """What the original writes."""
    base = bases.load(bases.base())
    return write(base.model, OPENING.get(base.config.text.corpus, "The "))


def written(ratio: float, treatment: str, seed: int = 0) -> pd.DataFrame:
    """What a model writes right after its port, beside what the original writes.

    Returns
    -------
    DataFrame
        who, place (of the line), line; one row per line of text.
    """
    base = bases.load(bases.base())
    width = round(ratio * base.model.config.embedding_dim)
    if treatment == PCA:  # of hidden states on the bundled text, so that no data set is needed
        states = bases.calibration(base, N_STATES, seed, streams=story.streams_for(base))
        model = rules.pca_slice(base.model, width, states).model.eval()
    else:
        model = recovery.resized(base, base.model, width, treatment, seed).eval()
    text = write(model, OPENING.get(base.config.text.corpus, "The "))
    who = f"{treatment}, m = {width}"
    rows = []
    for name, whole in ((ORIGINAL, written_by_original()), (who, text)):
        rows.append((name, True))
        rows += [(line, False) for line in textwrap.wrap(whole, LINE)]
        rows.append(("", False))
    return pd.DataFrame(
        [(place, line, heading) for place, (line, heading) in enumerate(rows)],
        columns=["place", "line", "heading"],
    )


def plot_written(data: Data) -> alt.LayerChart:
    """Lines of text, in letters of one width."""
    down = alt.Scale(domain=[-0.5, N_LINES - 0.5], reverse=True, nice=False)
    base = alt.Chart(data).encode(x=alt.value(0), y=alt.Y("place:Q", axis=None, scale=down), text="line:N")
    body = base.transform_filter("!datum.heading").mark_text(
        align="left", fontSize=12, limit=600, font="monospace"
    )
    head = base.transform_filter("datum.heading").mark_text(
        align="left", fontSize=12, limit=600, fontWeight="bold"
    )
    return alt.LayerChart(layer=[body, head]).properties(width="container", height=19 * N_LINES)
