"""What the last chapter on the resizing paper shows: its ledger, its rule by component, and what it mixes."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import dataclass

import altair as alt
import numpy as np
import pandas as pd

from embviz import ledger, projections
from embviz.ledger.findings import Finding
from embviz.view import charts, theme, verdicts
from embviz.view.verdicts import Change

PAPER = "resizing"
WIDTH = 64  # D of the explorer of heads
TWO_HEADS = "two heads"
KINDS = {
    "rotation": "rotation of all coordinates (the text's rule)",
    "within": "a rotation within each head",
    "permutation": "coordinates in random order",
    "identity": "none",
}


# --- the ledger -----------------------------------------------------------------------------------------


entries = functools.partial(verdicts.entries, PAPER)
claims_table = functools.partial(verdicts.claims_table, PAPER)
tally = functools.partial(verdicts.tally, PAPER)
plot_figures = functools.partial(verdicts.plot_figures, PAPER)


def _found(judged: Mapping[str, ledger.Entry], claim: str, figure: str) -> Finding | None:
    return {row.figure.name: row.finding for row in judged[claim].rows}[figure]


# --- the rule, a component at a time --------------------------------------------------------------------


@dataclass(frozen=True)
class Component:
    """What the text does with a part of the model, and when that commutes with a rotation, m = d."""

    name: str
    rule: str  # of the text
    commutes: str  # when
    figure: str = ""  # of the claim on porting, where it is measured


COMPONENTS = (
    Component("residual sums, embeddings", "T x; E T'", "always", "commuting"),
    Component("RMSNorm without gains", "kept", "always, lengths being kept", "commuting"),
    Component("one gain a norm", "the mean of the gains", "if it was one gain before", "gains_one"),
    Component("a gain for each dimension", "dropped", "never, but folded into readers", "gains_dropped"),
    Component("LayerNorm's centering", "kept", "never, but folded into writers", "centering"),
    Component("attention, one head", "T W T+ four times", "always", "one_head"),
    Component("attention, several heads", "T W T+ four times", "never, but with heads kept", "plain_heads"),
    Component(
        "MLP, its hidden units kept", "T W_in; W_out T+", "if T T' = I: else T, T+ are swapped", "as_written"
    ),
    Component("rotary positions", "T W T+ before the turn", "never, but with heads kept", "rotary"),
    Component("ALiBi", "kept", "always, heads kept", "alibi"),
    Component("learned positions", "not mentioned", "always, carried like embeddings", "commuting"),
)


def component_table(judged: Mapping[str, ledger.Entry] | None = None) -> pd.DataFrame:
    """COMPONENTS with the measured relative logit errors."""
    own, rows = judged or verdicts.by_claim(PAPER), []
    for part in COMPONENTS:
        found = _found(own, "porting", part.figure)
        rows.append(
            {
                "component": part.name,
                "the text's rule": part.rule,
                "commutes with a rotation": part.commutes,
                "logit error": "not measured" if found is None else f"{found.value:.1e}",
            }
        )
    return pd.DataFrame(rows).set_index("component")


# --- heads ----------------------------------------------------------------------------------------------


def mixing(kind: str, n_heads: int, ratio: float) -> pd.DataFrame:
    """Where a new head's products of queries and keys come from, under the rule T W T+.

    New head h has the coordinates T_h of q and k, so its product is q' T_h' T_h k: a sum over pairs of old
    heads. With independent coordinates of equal variance, the block (i, j) of T_h' T_h contributes its
    squared Frobenius norm to the product's variance.

    Parameters
    ----------
    kind : str
        A key of KINDS.
    n_heads : int
        H, of both models.
    ratio : float
        m / d.

    Returns
    -------
    DataFrame
        new_head, old_head (a number, or "two heads" for all pairs of different ones), share_of_variance;
        note, in words.
    """
    m = round(WIDTH * ratio)
    blocks = _map(kind, n_heads, m).reshape(n_heads, m // n_heads, n_heads, WIDTH // n_heads)
    rows, within = [], []
    for new, own in enumerate(blocks):
        energy = np.array(
            [[np.sum((own[:, i].T @ own[:, j]) ** 2) for j in range(n_heads)] for i in range(n_heads)]
        )
        same = np.diag(energy) / energy.sum()
        within.append(same.sum())
        shares = {str(old + 1): share for old, share in enumerate(same)} | {TWO_HEADS: 1 - same.sum()}
        rows += [
            {"new_head": str(new + 1), "old_head": old, "share_of_variance": max(0.0, share)}
            for old, share in shares.items()
        ]
    note = f"{np.mean(within):.0%} of the variance: within one old head"
    return pd.DataFrame(rows).assign(note=note)


def _map(kind: str, n_heads: int, m: int) -> np.ndarray:
    """T (m, WIDTH) with orthonormal rows."""
    wide, narrow = WIDTH // n_heads, m // n_heads
    if kind == "rotation":
        return projections.draw("orthonormal", m, WIDTH, seed=0, scaling="unit").matrix
    T = np.zeros((m, WIDTH))
    if kind == "permutation":
        T[np.arange(m), np.random.default_rng(0).permutation(WIDTH)[:m]] = 1
        return T
    for head in range(n_heads):
        drawn = projections.draw("orthonormal", narrow, wide, seed=head, scaling="unit").matrix
        own = drawn if kind == "within" else np.eye(narrow, wide)
        T[head * narrow : (head + 1) * narrow, head * wide : (head + 1) * wide] = own
    return T


def plot_mixing(data: charts.Data) -> alt.LayerChart:
    """A row a new head, a column an old one and one for pairs of two; shares written in."""
    base = alt.Chart(data).encode(
        x=alt.X(
            "old_head:N", sort=None, axis=alt.Axis(title=theme.title("old_head"), labelAngle=0, orient="top")
        ),
        y=alt.Y("new_head:N", sort=None, axis=theme.axis("new_head")),
    )
    shade = alt.Opacity(  # so light that words on it are read in both schemes
        "share_of_variance:Q",
        scale=alt.Scale(domain=[0, 1], range=[0.03, 0.6]),
        legend=alt.Legend(title=theme.title("share_of_variance"), format=".0%", orient="bottom"),
    )
    cells = base.mark_rect(color=theme.CATEGORIES[0]).encode(opacity=shade)
    texts = base.mark_text(fontSize=11).encode(text=alt.Text("share_of_variance:Q", format=".0%"))
    note = (
        alt.Chart(data)
        .transform_aggregate(n="count()", groupby=["note"])
        .mark_text(align="left", fontSize=12)
        .encode(x=alt.value(0), y=alt.value(-48), text="note:N")
    )
    return alt.LayerChart(layer=[cells, texts, note]).properties(width="container", height=theme.HEIGHT)


# --- what would change our mind -------------------------------------------------------------------------


CHANGES = (
    Change("jl_bound", "width", "m that the lemma asks for (C = 8, eps = 0.5), over d", most=1.0),
    Change("out_of_support", "ratio", "distortion outside / inside the calibration set", 1.05),
    Change("heads", "plain_kept_half", "plain rule - heads kept, m = d / 2 (nats)", most=-0.01),
    Change("gains", "dropped_folded_half", "gains dropped - folded, m = d / 2 (nats)", most=-0.01),
    Change("perplexity", "pca_half", "PCA slice - random projection, m = d / 2 (nats)", 0.01),
    Change(
        "perplexity", "truncated_half", "truncated dimensions - random projection, m = d / 2 (nats)", 0.01
    ),
    Change("perplexity", "steps_half", "steps to recover, m = d / 2, over the original's", most=0.1),
    Change("architecture", "normalized", "steps, normalized GPT / LayerNorm", most=0.95),
    Change("staged", "staged", "staged - one step, m = d / 4 (nats)", most=-0.001),
    Change("grow", "saved_flops", "multiplications saved by growing, the narrow model's counted", 0.01),
    Change("quantization", "int4_channel", "int4 a channel, rotated - not (nats)", most=-0.01),
)


changes_table = functools.partial(verdicts.changes_table, CHANGES, PAPER)
changes_finding = functools.partial(verdicts.changes_finding, CHANGES, PAPER)
