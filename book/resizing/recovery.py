"""The stored runs of the chapter on recovery as tables, and what a resized model writes."""

from __future__ import annotations

import functools
import itertools
import math
import textwrap

import altair as alt
import pandas as pd
import torch

from book.ledger.cells import table_of
from book.resizing import rules, story
from book.resizing.decoder import Decoder
from book.resizing.experiments import bases, recovery, several_bases
from book.resizing.experiments import widths as width_law
from book.resizing.experiments.recovery import PCA, PROJECTION, SCRATCH, TREATMENTS, when_recovered
from embviz.view.charts import Data

AFTER_PORT = "right after the port"
AFTER_400 = "after 400 updates"
OPENING = {"embedded": "Return ", "tinystories_5mb": "Once upon a time, there was a little girl named "}
N_STATES = 1_024  # that PCA sees before a model writes
N_WRITTEN, LINE = 120, 42  # characters that a model writes, and in a line
N_LINES = 14  # of two texts of that length, with headings
ORIGINAL = "the original"


@functools.cache
def curves(preset: str) -> pd.DataFrame:
    """All runs of the sweep, see :func:`.recovery.curves`."""
    return recovery.curves(recovery.sweep(preset), stored=preset != "quick")


AS_PRINTED, REPAIRED, UNTRAINED = "as printed", "our repairs", "random initialization"


def end_to_end(preset: str) -> pd.DataFrame:
    """Algorithm 1 beside our repairs, fine-tuned: rule, width, seed (the base model), step, lost (nats)."""
    parts = []
    for width, ratio in (("m = d / 2", 0.5), ("m = 3 d / 4", 0.75)):
        for rule, scratch in ((AS_PRINTED, False), (UNTRAINED, True)):
            for run in several_bases.their(preset, ratio, scratch=scratch, **several_bases.AS_PRINTED):
                table = table_of(several_bases.tuned.cell(run))
                lost = table["log_perplexity"] - table["original"]
                row = {"rule": rule, "width": width, "seed": run.seed, "step": table["step"], "lost": lost}
                parts.append(pd.DataFrame(row))
        for own in several_bases.ours(preset, ratio):
            table = recovery.curves([own], stored=False)[["step", "lost"]]
            parts.append(table.assign(rule=REPAIRED, width=width, seed=own.seed))
    return pd.concat(parts, ignore_index=True)


def by_updates(preset: str) -> pd.DataFrame:
    """What annealed fine-tunings leave at half the width: treatment, seed (of the base), updates, lost."""
    shares = sorted({1.0, *several_bases.FEWER_OR_MORE.values()})
    rows = [
        (how, run.seed, run.n_steps, recovery.curves([run], stored=False)["lost"].iloc[-1])
        for how, share in itertools.product((PROJECTION, SCRATCH), shares)
        for run in several_bases.ours(preset, 0.5, how, share)
    ]
    return pd.DataFrame(rows, columns=["treatment", "seed", "updates", "lost"])


def by_width(preset: str) -> pd.DataFrame:
    """Base models carried to half of their width: width, moment, treatment, seed, lost (nats)."""
    rows = []
    for width, seed in itertools.product(width_law.WIDTHS[preset], width_law.SEEDS):
        for treatment in (PROJECTION, SCRATCH):
            own = width_law.carried(width_law.run_of(preset, width, seed, treatment))
            for moment, lost in ((AFTER_PORT, own.lost), (AFTER_400, own.tuned)):
                rows.append((width, moment, treatment, seed, lost))
    return pd.DataFrame(rows, columns=["width", "moment", "treatment", "seed", "lost"])


def names(preset: str) -> list[str]:
    """Treatments that the sweep has, in the order in which they are drawn."""
    return [name for name in TREATMENTS if name in set(curves(preset)["treatment"])]


# --- architectures ------------------------------------------------------------------------------------


@functools.cache
def architecture_curves(preset: str) -> pd.DataFrame:
    """Runs of all architectures at half the width: architecture, and the columns of the sweep's curves."""
    parts = []
    for architecture in recovery.COMPARED:
        base = bases.base(preset, architecture)
        own = [run for run in recovery.architecture_runs(preset) if run.base == base]
        table = recovery.curves(own, stored=preset != "quick")
        table.insert(0, "architecture", architecture)
        parts.append(table)
    return pd.concat(parts, ignore_index=True)


def architecture_ends(preset: str, percent: float = 2) -> pd.DataFrame:
    """One row per run: architecture, seed, updates that trained the original, original (its held-out loss),
    lost (right after the port), left (at the end), steps_back (to within `percent`), back (whether it is)."""
    rows = []
    groups = architecture_curves(preset).groupby(["architecture", "seed"], sort=False)
    for (architecture, seed), own in groups:  # type: ignore[misc]
        found = when_recovered(own, math.log1p(percent / 100))
        rows.append(
            {
                "architecture": architecture,
                "seed": seed,
                "updates": bases.base(preset, str(architecture)).training.n_steps,
                "original": round(float(own["original"].iloc[0]), 3),
                "lost": round(float(own["lost"].iloc[0]), 3),
                "left": round(float(own["lost"].iloc[-1]), 3),
                "steps_back": round(found.steps, 1),
                "back": found.reached,
            }
        )
    return pd.DataFrame(rows)


# --- what it writes -----------------------------------------------------------------------------------


def text_base(preset: str) -> bases.Base:
    """The base model that writes."""
    return bases.load(bases.base(preset))


@torch.no_grad()
def write(model: Decoder, opening: str, n_bytes: int = N_WRITTEN) -> str:
    """The opening and the likeliest next byte, again and again; bytes that are no ASCII text as a dot."""
    tokens = list(opening.encode())
    for _ in range(n_bytes):
        seen = torch.tensor([tokens[-model.config.length :]])
        tokens.append(int(model(seen)[0, -1].argmax()))
    return "".join(chr(token) if 32 <= token < 127 else "·" for token in tokens)


@functools.cache
def written_by_original(preset: str) -> str:
    """What the original writes."""
    base = text_base(preset)
    return write(base.model, OPENING.get(base.config.text.corpus, "The "))


def written(preset: str, ratio: float, treatment: str, seed: int = 0) -> pd.DataFrame:
    """What a model writes right after its port, beside what the original writes.

    Returns
    -------
    DataFrame
        who, place (of the line), line; one row per line of text.
    """
    base = text_base(preset)
    width = round(ratio * base.model.config.embedding_dim)
    if treatment == PCA:  # of hidden states on the bundled text, so that no data set is needed
        states = bases.calibration(base, N_STATES, seed, streams=story.streams_for(base))
        model = rules.pca_slice(base.model, width, states).model.eval()
    else:
        model = recovery.resized(base, base.model, width, treatment, seed).eval()
    text = write(model, OPENING.get(base.config.text.corpus, "The "))
    who = f"{treatment}, m = {width}"
    rows = []
    for name, whole in ((ORIGINAL, written_by_original(preset)), (who, text)):
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
