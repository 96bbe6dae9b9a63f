"""What the chapter on byte pairs without queries measures and draws; and keys of low rank."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Sequence

import altair as alt
import pandas as pd

from book.geometry.experiments import language_models as models
from book.geometry.experiments.language_models import BASELINE, NO_Q, LanguageRun
from book.geometry.no_query_language import NOT_MEASURED, example, note, said, scores, shown_preset
from embviz import view
from embviz.ledger import findings
from embviz.ledger.findings import Finding
from embviz.view import charts, theme

UNITS = ("character", "token", "byte")
BITS, GAIN, SHARE = QUANTITIES = ("held-out bits", "bits saved (%)", "leading share of W_K")


# --- vocabularies ---------------------------------------------------------------------------------------


def vocabularies() -> dict[int, LanguageRun]:
    """The baseline of seed 0 in tokens of each kind that is shown: 256 are bytes."""
    runs = models.vocabulary_runs(shown_preset(models.vocabulary_runs))
    return {run.text.vocab_size: run for run in runs if run.variant == BASELINE and run.seed == 0}


def of_vocabulary(n_tokens: int) -> pd.DataFrame:
    """Scores of the runs in tokens of one kind; empty where none is stored."""
    table = scores(models.vocabulary_runs)
    return table[table["vocab_size"] == n_tokens]


def gains(n_tokens: int) -> pd.Series:
    """Bits a character saved without queries, in percent, by seed; of bits a token or byte it is the same."""
    table = of_vocabulary(n_tokens)
    if not {BASELINE, NO_Q} <= set(table["variant"]):
        return pd.Series(dtype=float)
    end = models.last_scores(table, "bits_per_character")[[BASELINE, NO_Q]].dropna()
    return 100 * (1 - end[NO_Q] / end[BASELINE])


def _gain(n_tokens: int) -> Finding | None:
    values = gains(n_tokens).to_numpy()
    return findings.over_seeds(values) if len(values) else None


def vocabulary_table() -> pd.DataFrame:
    """A row a vocabulary: parameters in and outside of embedding and head, text a token and read, gains.

    What is saved is the share of all parameters that a model without queries hasn't.
    """
    rows = {}
    for n_tokens, run in vocabularies().items():
        setting = run.setting
        without = dataclasses.replace(run, variant=NO_Q)
        in_embeddings = 2 * n_tokens * setting.embedding_dim
        inside = [models.count_parameters(one.shape(n_tokens)) - in_embeddings for one in (run, without)]
        n_read = setting.n_steps * setting.batch_size * setting.length
        scored = of_vocabulary(n_tokens).tail(1)
        spelled = float((scored["bits_per_token"] / scored["bits_per_character"]).sum())  # held-out text
        rows[f"{n_tokens:,} {'bytes' if run.text.tokens == 'bytes' else 'byte pairs'}"] = {
            "embedding and head": f"{in_embeddings:,}",
            "the rest": f"{inside[0]:,}",
            "the rest, no Q": f"{inside[1]:,}",
            "saved without Q, %": f"{100 * (inside[0] - inside[1]) / (in_embeddings + inside[0]):.1f}",
            "characters a token": f"{spelled:.2f}" if spelled else NOT_MEASURED,
            "characters read": f"{n_read * spelled / 1e6:.2g} M" if spelled else NOT_MEASURED,
            "gain %": said(_gain(n_tokens)),
        }
    return pd.DataFrame.from_dict(rows, orient="index").rename_axis("vocabulary")


def vocabulary_finding() -> str:
    """How the gain changes from bytes to the largest vocabulary, over seeds that have both."""
    first, *_, last = vocabularies()
    growth = (gains(last) - gains(first)).dropna().to_numpy()
    if not len(growth):
        return f"How the gain changes with the vocabulary is {NOT_MEASURED} yet"
    found = findings.over_seeds(growth)
    if found.n_seeds < 2:
        judged = "changes"
    elif found.low <= 0 <= found.high:
        judged = "neither grows nor shrinks beyond the spread of seeds"
    else:
        judged = "grows" if found.value > 0 else "shrinks"
    return (
        f"From bytes to {last:,} tokens the gain {judged}: {said(found)} percentage points "
        f"to {said(_gain(last), unit='%')}"
    )


def courses() -> pd.DataFrame:
    """Gains while models learn, from the first update on: `n_tokens`, `seed`, `step`, `gain` (percent)."""
    parts = [
        measure_curves(n_tokens, GAIN, UNITS[0]).rename(columns={"value": "gain"}).assign(n_tokens=n_tokens)
        for n_tokens in vocabularies()
    ]
    table = pd.concat(parts, ignore_index=True)
    return table.loc[table["step"] > 0, ["n_tokens", "seed", "step", "gain"]]


def course_finding() -> str:
    """How the change of the gain from bytes to the largest vocabulary depends on when one looks."""
    first, *_, last = vocabularies()
    by_step = courses().pivot_table(index="step", columns="n_tokens", values="gain")
    if not {first, last} <= set(by_step):
        return f"How the gain changes while models learn is {NOT_MEASURED} yet"
    growth = by_step[last] - by_step[first]
    return (
        f"From bytes to {last:,} tokens the gain changes by {growth.iloc[-1]:+.1f} percentage points at the "
        f"end, and by {growth.min():+.1f} after {growth.idxmin():,} of {growth.index[-1]:,} steps"
    )


def plot_courses() -> alt.LayerChart:
    """Gains of :func:`courses`, a colour a vocabulary: seeds thin, means thick with their 95% intervals."""
    names = {n_tokens: f"{n_tokens:,}" for n_tokens in vocabularies()}
    table = courses()
    table["n_tokens"] = table["n_tokens"].map(names)
    return view.plot_curves(table, "step", "gain", kind="n_tokens", names=list(names.values()))


def unit_finding() -> str:
    """What the baseline pays at the end with the least and the largest vocabulary, by token and character."""
    ends = {}
    for size in (min(vocabularies()), max(vocabularies())):
        table = of_vocabulary(size)
        last = table[(table["step"] == table["step"].max()) & (table["variant"] == BASELINE)]
        if last.empty:
            return f"What tokens of all kinds cost is {NOT_MEASURED} yet"
        ends[size] = last[["bits_per_token", "bits_per_character"]].mean()
    (small, few), (large, many) = ends.items()
    pays = [f"{few[f'bits_per_{per}']:.2f} to {many[f'bits_per_{per}']:.2f}" for per in UNITS[:2]]
    return (
        f"From {small:,} to {large:,} tokens the baseline pays {pays[1]} bits a token, {pays[0]} a character"
    )


def plot_vocabularies() -> alt.LayerChart:
    """Gain over vocabulary: a mark a seed, their mean's interval, zero."""
    parts = [
        gains(n_tokens).rename("gain").rename_axis("seed").reset_index().assign(n_tokens=n_tokens)
        for n_tokens in vocabularies()
    ]
    data = pd.concat(parts, ignore_index=True)
    return plot_marks(data, "n_tokens", "gain", list(vocabularies()))


def plot_marks(data: pd.DataFrame, x: str, y: str, values: Sequence[int]) -> alt.LayerChart:
    """Seeds as marks over a logarithmic axis that names `values`; means joined, intervals, zero."""
    ends = alt.Scale(type="log", base=2, domain=[min(values) / 1.5, max(values) * 1.5], nice=False)
    axis = alt.Axis(title=theme.title(x), values=list(values), format=",d")
    across = alt.X(f"{x}:Q", scale=ends, axis=axis)
    means = (
        alt.Chart()
        .transform_aggregate(centre=f"mean({y})", spread=f"stdev({y})", n_seeds="count()", groupby=[x])
        .transform_calculate(
            half=charts.student_half("n_seeds", "spread"),
            low="datum.centre - datum.half",
            high="datum.centre + datum.half",
        )
    )
    bars = means.mark_rule(strokeWidth=1.5, opacity=0.7).encode(x=across, y=alt.Y("low:Q"), y2="high:Q")
    line = means.mark_line(strokeWidth=2.5).encode(x=across, y="centre:Q")
    marks = (
        alt.Chart()
        .mark_point(size=60)
        .encode(
            x=across,
            y=alt.Y(f"{y}:Q", axis=theme.axis(y)),
            tooltip=[f"{x}:Q", "seed:N", alt.Tooltip(f"{y}:Q", format="+.3f")],
        )
    )
    zero = alt.Chart(alt.Data(values=[{}])).mark_rule(opacity=0.6).encode(y=alt.YDatum(0))
    return charts.layered(data, [zero, bars, line, marks]).properties(width="container", height=260)


def measure_curves(n_tokens: int, quantity: str, per: str) -> pd.DataFrame:
    """Curves with and without queries in tokens of one kind.

    Parameters
    ----------
    n_tokens : int
        256: bytes.
    quantity : one of QUANTITIES
    per : "character", "token" or "byte"
        What bits are counted for; shares don't depend on it, and savings neither.

    Returns
    -------
    DataFrame
        variant, seed, step, value.
    """
    table, column = of_vocabulary(n_tokens), f"bits_per_{per}"
    if quantity == GAIN:
        both = table.pivot(index=["seed", "step"], columns="variant", values=column)
        both = both.reindex(columns=[BASELINE, NO_Q])
        found = both.assign(value=100 * (1 - both[NO_Q] / both[BASELINE])).reset_index().assign(variant=NO_Q)
    else:
        found = table.assign(value=table["key_share" if quantity == SHARE else column])
    found = found[["variant", "seed", "step", "value"]].dropna()
    if found.empty:  # a grid wants a row, and a point draws no line
        return pd.DataFrame({"variant": [NO_Q], "seed": [-1], "step": [0], "value": [0.0]})
    return found


def grid() -> pd.DataFrame:
    """Rows of the explorer of :func:`measure_curves`."""
    chosen = itertools.product(vocabularies(), QUANTITIES, UNITS)
    parts = [
        measure_curves(n, quantity, per).assign(n_tokens=n, quantity=quantity, per=per)
        for n, quantity, per in chosen
    ]
    return pd.concat(parts, ignore_index=True)


def plot_curves(data: charts.Data) -> alt.LayerChart:
    """Curves of :func:`measure_curves`: each seed thin, means thick with their 95% intervals."""
    return view.plot_curves(data, "step", "value", kind="variant", names=[BASELINE, NO_Q])


def vocabulary_note() -> str:
    """Data and seeds, for a caption."""
    return note(models.vocabulary_runs)


# --- keys of low rank -----------------------------------------------------------------------------------


def ranks() -> list[int]:
    """Ranks that are shown, in rising order, without the full projection."""
    return sorted(int(rank) for rank in scores(models.rank_runs)["key_rank"].unique() if rank)


def rank_costs() -> pd.DataFrame:
    """`key_rank`, `seed`, `cost_percent`: bits at the end above those of the full projection of that seed."""
    table = scores(models.rank_runs)
    end = table[table["step"] == table["step"].max()]
    bits = end.pivot(index="seed", columns="key_rank", values="bits_per_byte")
    if 0 not in bits:
        return pd.DataFrame({"key_rank": [], "seed": [], "cost_percent": []})
    costs = 100 * (bits.drop(columns=0).div(bits[0], axis=0) - 1)
    return costs.reset_index().melt("seed", value_name="cost_percent").dropna().astype({"key_rank": int})


def rank_table() -> pd.DataFrame:
    """A row a rank: numbers in the keys' maps, cost at the end."""
    costs, run = rank_costs(), example(models.rank_runs)
    dim, n_layers = run.setting.embedding_dim, run.setting.n_layers
    rows = {"full": {"numbers in the maps of keys": f"{n_layers * dim**2:,}", "cost %": ""}}
    for rank in ranks():
        values = costs.loc[costs["key_rank"] == rank, "cost_percent"].to_numpy()
        rows[f"{rank} of {dim}"] = {
            "numbers in the maps of keys": f"{n_layers * 2 * dim * rank:,}",
            "cost %": said(findings.over_seeds(values) if len(values) else None),
        }
    return pd.DataFrame.from_dict(rows, orient="index").rename_axis("rank of the change")


def rank_finding() -> str:
    """Cost of each rank, in words."""
    means = rank_costs().groupby("key_rank")["cost_percent"].mean()
    texts = [f"rank {rank} {cost:+.2f}%" for rank, cost in means.items()]
    if not texts:
        return f"What a low rank costs is {NOT_MEASURED} yet"
    return f"Cost of keys that are the hidden state and a change of low rank: {', '.join(texts)}"


def plot_ranks() -> alt.LayerChart:
    """Cost over rank: a mark a seed, their mean's interval, zero."""
    return plot_marks(rank_costs(), "key_rank", "cost_percent", ranks())


def rank_note() -> str:
    """Data and seeds, for a caption."""
    return note(models.rank_runs)
