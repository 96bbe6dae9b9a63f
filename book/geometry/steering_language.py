"""What the chapter on steered language models measures and draws: costs in three units, curves, live runs."""

from __future__ import annotations

import functools
from collections.abc import Hashable, Iterator, Mapping
from dataclasses import replace

import altair as alt
import numpy as np
import pandas as pd
import torch

from book.geometry.experiments import language_films as films
from book.geometry.experiments import steering_language as steering
from book.geometry.experiments.steering_language import (
    BASELINE,
    FROZEN,
    LOWEST,
    NEAR_NYQUIST,
    ON_HEAD,
    SUBSPACE,
    TOP_5,
    VARIANTS,
    SteeringRun,
    losses_to_baseline,
)
from embviz.ledger import findings
from embviz.ledger.cells import read
from embviz.ledger.studies import find_study, largest_stored
from embviz.models.transformer import Start
from embviz.training.fourier import project_gradients
from embviz.training.language import draw_batch, load_streams, next_token_losses
from embviz.view import charts, theme
from embviz.view.explorers import Choice, Control, Number
from embviz.view.player import HISTORY, NOTE

CLAIM = "geometry.fgp_language"
OWN, TIED, SMALL = KINDS = ("own head", "tied", "own head, small start")
UNITS = ("character", "token", "byte")
BITS = {unit: f"bits_per_{unit}" for unit in UNITS}
SHOWN = ("cost", "cost minus the baseline's")
CURVES = (BASELINE, NEAR_NYQUIST, TOP_5, FROZEN, ON_HEAD)  # five looks
PROJECTED = (NEAR_NYQUIST, TOP_5, SUBSPACE, FROZEN, ON_HEAD)
# Table 4 and section 3.3, in what the paper calls bits per character.
PUBLISHED = {
    ("byte pairs", BASELINE): "2.90",
    ("byte pairs", NEAR_NYQUIST): "9.47",
    ("byte pairs", TOP_5): "4.0",
    ("bytes", BASELINE): "1.005",
    ("bytes", NEAR_NYQUIST): "1.003",
}
PAPER = {  # minus the baseline
    (tokens, variant): float(bits) - float(PUBLISHED[tokens, BASELINE])
    for (tokens, variant), bits in PUBLISHED.items()
    if variant != BASELINE
}
GPT2_VOCAB = 50_257
LINEAR = 0.1  # bits up to which the axis of differences is linear


# --- stored runs ----------------------------------------------------------------------------------------


def stored_preset() -> str:
    """The largest preset whose runs are all stored.

    Raises
    ------
    FileNotFoundError
        If there is none; the message has the command.
    """
    preset = find_study(CLAIM).largest_stored()
    if preset is None:
        raise FileNotFoundError(f"no preset is stored: `embviz run {CLAIM} --preset quick` does one")
    return preset


@functools.cache
def _curves(preset: str) -> pd.DataFrame:
    table = steering.steering_curves(steering.all_runs(preset))
    return table.assign(tokens=table["tokens"].replace("gpt2", "byte pairs"))


def curves() -> pd.DataFrame:
    """Scores of every stored run on its way, as :func:`~.geometry.steering_language.steering_curves`."""
    return _curves(stored_preset())


def ends() -> pd.DataFrame:
    """The last score of every run."""
    table = curves()
    return table[table["step"] == table.groupby("tokens")["step"].transform("max")]


def differences(unit: str = "character") -> pd.DataFrame:
    """What each run pays more than the baseline of its tokens, kind and seed: bits a unit, at the end."""
    return losses_to_baseline(curves(), BITS[unit])


def difference_of(unit: str, tokens: str, kind: str, variant: str) -> findings.Finding | None:
    """Mean difference to the baseline over seeds, with its interval; None where no run is stored."""
    table = differences(unit)
    chosen = (table["tokens"] == tokens) & (table["kind"] == kind) & (table["variant"] == variant)
    values = table.loc[chosen, "difference"].to_numpy()
    return findings.over_seeds(values) if len(values) else None


def said(finding: findings.Finding | None) -> str:
    """A difference with its interval, in words; one seed has none."""
    if finding is None:
        return "not measured"
    text = f"{finding.value:+.3f}" if abs(finding.value) < 1 else f"{finding.value:+.2f}"
    if finding.n_seeds < 2:
        return f"{text} (one seed)"
    return f"{text} ({finding.low:+.3f} to {finding.high:+.3f})"


def note() -> str:
    """Data, sizes and seeds of the stored runs, for a caption."""
    preset = stored_preset()
    pairs, _, setting = steering.texts_and_setting(preset)
    table = ends()
    seeds = table.groupby(["kind", "tokens"])["seed"].nunique()
    counts = "; ".join(
        f"{kind} {seeds[kind, 'byte pairs']} of byte pairs, {seeds[kind, 'bytes']} of bytes"
        for kind in KINDS
        if (kind, "bytes") in seeds
    )
    return f"{pairs.corpus}, {setting.n_steps:,} steps. Seeds: {counts}."


# --- the twin of Table 4 --------------------------------------------------------------------------------


def table_4(unit: str = "token") -> pd.DataFrame:
    """What held-out text costs at the end: a row a kind of token and variant, a column a kind of model.

    Means over seeds, in bits a unit; beside them the paper's number, in whatever unit that is.
    """
    table = ends()
    means = table.groupby(["tokens", "variant", "kind"])[BITS[unit]].mean().unstack()
    order = [
        (tokens, variant)
        for tokens in ("byte pairs", "bytes")
        for variant in (*VARIANTS, ON_HEAD)
        if (tokens, variant) in means.index
    ]
    shown = means.reindex(pd.MultiIndex.from_tuples(order, names=["tokens", "variant"]), columns=list(KINDS))
    shown = shown.map(lambda bits: "" if np.isnan(bits) else f"{bits:.2f}")
    shown.insert(0, "paper", [PUBLISHED.get(key, "") for key in order])
    return shown.rename_axis(None, axis="columns")


def row_name(tokens: str, variant: str) -> str:
    """What a row of the chart of differences is called, short enough for a telephone."""
    short = "BPE" if tokens == "byte pairs" else tokens
    return f"{short}: {'head alone' if variant == ON_HEAD else variant}"


def row_names(table: pd.DataFrame) -> list[str]:
    """Of every row of a table with `tokens` and `variant`."""
    return [row_name(*key) for key in zip(table["tokens"], table["variant"], strict=True)]


def difference_grid() -> pd.DataFrame:
    """Rows of an explorer over units: every run's difference to its baseline, and the paper's numbers.

    Returns
    -------
    DataFrame
        `per` (the unit), `row` (tokens and variant), `kind` ("paper": the same in every unit),
        `seed`, `cost_difference`.
    """
    parts = []
    for unit in UNITS:
        table = differences(unit)
        table["row"] = row_names(table)
        table = table[["row", "kind", "seed", "difference"]].rename(columns={"difference": "cost_difference"})
        theirs = [(row_name(*key), "paper", -1, extra) for key, extra in PAPER.items()]
        parts.append(pd.concat([table, pd.DataFrame(theirs, columns=table.columns)]).assign(per=unit))
    return pd.concat(parts, ignore_index=True)


def plot_differences(data: charts.Data) -> alt.LayerChart:
    """Marks of :func:`difference_grid`: a row a variant, a mark a seed, ticks at means, intervals across."""
    names = set(row_names(differences()))
    rows = [row_name(tokens, variant) for tokens in ("byte pairs", "bytes") for variant in PROJECTED]
    rows = [name for name in rows if name in names]
    colour, shape = theme.point_styles("kind", [*KINDS, "paper"])
    colour, shape = colour.legend(alt.Legend(title=None)), shape.legend(alt.Legend(title=None))
    ends = alt.Scale(type="symlog", constant=LINEAR, domain=[-0.15, 12], nice=False)
    values = [-0.1, 0, 0.1, 0.3, 1, 3, 10]
    axis = alt.Axis(title=theme.title("cost_difference"), values=values, format="~g")
    across = alt.X("cost_difference:Q", scale=ends, axis=axis)
    up = alt.Y("row:N", scale=alt.Scale(domain=rows), axis=alt.Axis(title=None, labelLimit=230))
    marks = (
        alt.Chart()
        .mark_point(size=60, opacity=0.8)
        .encode(
            x=across,
            y=up,
            color=colour,
            shape=shape,
            tooltip=["row:N", "kind:N", "seed:N", alt.Tooltip("cost_difference:Q", format="+.3f")],
        )
    )
    means = (
        alt.Chart()
        .transform_filter("datum.kind !== 'paper'")
        .transform_aggregate(
            centre="mean(cost_difference)",
            spread="stdev(cost_difference)",
            n_seeds="count()",
            groupby=["row", "kind"],
        )
        .transform_calculate(
            half=charts.student_half("n_seeds", "spread"),
            low="datum.centre - datum.half",
            high="datum.centre + datum.half",
        )
    )
    bars = means.mark_rule(strokeWidth=1.5, clip=True).encode(
        x=alt.X("low:Q", scale=ends), x2="high:Q", y=up, color=colour
    )
    zero = alt.Chart(alt.Data(values=[{}])).mark_rule(opacity=0.6).encode(x=alt.XDatum(0, scale=ends))
    return charts.layered(data, [zero, bars, marks]).properties(width="container", height=26 * len(rows))


# --- curves ---------------------------------------------------------------------------------------------


def curve_grid() -> pd.DataFrame:
    """Rows of an explorer over tokens, kind of model, unit and what is shown: the learning curves.

    Returns
    -------
    DataFrame
        `tokens`, `kind`, `per` (the unit), `shown` (of SHOWN); `step`, `cost`, `variant`, `seed`; and
        `level`: empty, or the name of a cost that no run but a rule has.
    """
    table = curves()
    parts = []
    for (tokens, kind), runs in table[table["variant"].isin(CURVES)].groupby(["tokens", "kind"], sort=False):
        baseline = runs[runs["variant"] == BASELINE].set_index(["seed", "step"])
        places = pd.MultiIndex.from_frame(runs[["seed", "step"]])
        for unit, column in BITS.items():
            part = runs[["step", "variant", "seed"]].assign(cost=runs[column], level="")
            less = part.assign(cost=runs[column] - baseline[column].reindex(places).to_numpy())
            known = _rules(rules_of_thumb(str(tokens))[unit].to_dict())
            whole = pd.concat([part, known]).assign(shown=SHOWN[0])
            zero = _rules({"the baseline": 0.0})
            both = pd.concat([whole, pd.concat([less, zero]).assign(shown=SHOWN[1])])
            parts.append(both.assign(tokens=str(tokens), kind=str(kind), per=unit))
    return pd.concat(parts, ignore_index=True)


def _rules(levels: Mapping[Hashable, float]) -> pd.DataFrame:
    """Rows of a chart that draws each of these costs across, and no run."""
    rows = [(0, BASELINE, -1, float(cost), name) for name, cost in levels.items()]
    return pd.DataFrame(rows, columns=["step", "variant", "seed", "cost", "level"])


def rules_of_thumb(tokens: str) -> pd.DataFrame:
    """What the held-out text costs without a model: a column a unit, a row for each of two rules.

    The rules: every token is as likely; every token as likely as it is frequent.
    """
    row = ends().query("tokens == @tokens").iloc[0]
    per = {unit: row[column] / row["bits_per_character"] for unit, column in BITS.items()}
    vocab_size = 256 if tokens == "bytes" else GPT2_VOCAB
    config = next(run.text for run in steering.all_runs(stored_preset()) if _tokens(run) == tokens)
    if config.tokens == "byte pairs":
        vocab_size = config.vocab_size
    a_character = {
        "all tokens alike": np.log2(vocab_size) / per["token"],
        "frequencies alone": row["unigram"],
    }
    return pd.DataFrame(
        {unit: {name: bits * per[unit] for name, bits in a_character.items()} for unit in UNITS}
    )


def _tokens(run: SteeringRun) -> str:
    return "bytes" if run.text.tokens == "bytes" else "byte pairs"


def plot_curves(data: charts.Data) -> alt.LayerChart:
    """Curves of :func:`curve_grid`: each seed thin, means thick, rules named."""
    colour, dash = theme.line_styles("variant", list(CURVES))
    key = alt.Legend(title=None, symbolType="stroke", symbolOpacity=1, symbolStrokeWidth=2.5)
    colour, dash = colour.legend(key), dash.legend(key)
    scale = alt.Scale(zero=False)
    # room for the widest numbers: the page lays a chart out once, whatever is chosen
    up = alt.Y("cost:Q", axis=alt.Axis(title=theme.title("cost"), minExtent=32), scale=scale)
    across = alt.X("step:Q", axis=theme.axis("step", tick_count=6), scale=alt.Scale(nice=False))
    runs = alt.Chart().transform_filter("datum.level === ''")
    thin = runs.mark_line(strokeWidth=0.8, opacity=0.4).encode(
        x=across, y=up, color=colour, strokeDash=dash, detail="seed:N"
    )
    thick = (
        runs.transform_aggregate(cost="mean(cost)", n_seeds="count()", groupby=["step", "variant"])
        .mark_line(strokeWidth=2.5)
        .encode(
            x=across,
            y=up,
            color=colour,
            strokeDash=dash,
            tooltip=["variant:N", "step:Q", alt.Tooltip("cost:Q", format=".3f"), "n_seeds:Q"],
        )
    )
    levels = alt.Chart().transform_filter("datum.level !== ''")
    rules = levels.mark_rule(strokeDash=list(theme.DASHES[2]), opacity=0.7).encode(y=up)
    names = levels.mark_text(align="right", baseline="bottom", dx=-3, dy=-2, fontSize=11).encode(
        x=alt.value("width"), y=up, text="level:N"
    )
    return charts.layered(data, [rules, names, thin, thick]).properties(width="container", height=280)


# --- units ----------------------------------------------------------------------------------------------


def units_table() -> pd.DataFrame:
    """What known and published costs are in each unit, on our text: a row a cost.

    Characters a token are those of our byte pairs; the paper's tokens are a little longer.
    """
    whole, pairs = rules_of_thumb("bytes"), rules_of_thumb("byte pairs")
    ours = ends().query("tokens == 'byte pairs' and variant == @BASELINE").groupby("kind")[[*BITS.values()]]
    rows = {f"bytes: {name}": costs for name, costs in whole.iterrows()}
    rows |= {f"byte pairs: {name}": costs for name, costs in pairs.iterrows()}
    means = ours.mean().set_axis(list(UNITS), axis="columns")
    rows |= {f"byte pairs: our baseline, {kind}": costs for kind, costs in means.iterrows()}
    table = pd.DataFrame(rows).T[list(UNITS)].sort_values("character", kind="stable", ascending=False)
    return table.map("{:.2f}".format).rename_axis("bits a").loc[:, list(UNITS)]


def characters_a_token() -> float:
    """Of our byte pairs, over the held-out text."""
    row = ends().query("tokens == 'byte pairs'").iloc[0]
    return float(row["bits_per_token"] / row["bits_per_character"])


def unit_finding() -> str:
    """How the paper's numbers compare with two rules that need no model, if they were bits a character."""
    frequencies = float(rules_of_thumb("byte pairs")["character"]["frequencies alone"])
    worst, base = (PUBLISHED["byte pairs", variant] for variant in (NEAR_NYQUIST, BASELINE))
    side = "more" if frequencies < float(base) else "less"
    return (
        f"{worst} bits a character are more than the 8 of guessing bytes; {base}, the "
        f"published baseline, are {side} than the {frequencies:.2f} that the frequencies of tokens cost here"
    )


# --- sentences true of the stored runs ------------------------------------------------------------------


def own_finding() -> str:
    """What projecting costs with a head of its own, beside not training the embedding at all."""
    parts = [
        f"{variant} {said(difference_of('character', 'byte pairs', OWN, variant))}"
        for variant in (NEAR_NYQUIST, TOP_5, FROZEN)
    ]
    return f"With a head of its own, bits a character more than the baseline: {', '.join(parts)}"


def tied_finding() -> str:
    """What projecting costs a tied model, in bits a token, beside the paper's numbers."""
    parts = []
    for variant in (NEAR_NYQUIST, TOP_5, SUBSPACE, FROZEN):
        paper = PAPER.get(("byte pairs", variant))
        published = f", published {paper:+.2f}" if paper else ""
        parts.append(f"{variant} {said(difference_of('token', 'byte pairs', TIED, variant))}{published}")
    return f"With a tied head, bits a token more than the baseline: {'; '.join(parts)}"


def head_finding() -> str:
    """Where the damage is done: near-Nyquist modes on the embedding's gradient alone, and on the head's."""
    on_embedding, on_head = (
        difference_of("token", "byte pairs", SMALL, variant) for variant in (NEAR_NYQUIST, ON_HEAD)
    )
    return (
        "Two matrices that start alike, bits a token more than the baseline: "
        f"the embedding's gradient projected {said(on_embedding)}, the head's {said(on_head)}"
    )


def byte_finding() -> str:
    """What the same modes cost on bytes, for each kind of model."""
    parts = [f"{kind} {said(difference_of('byte', 'bytes', kind, NEAR_NYQUIST))}" for kind in KINDS]
    return f"On bytes near-Nyquist modes change the cost by, bits a byte: {', '.join(parts)}"


def order_finding() -> str:
    """Whether a subspace that knows no order of the tokens costs anything else than the highest modes."""
    table = differences("character").query("tokens == 'byte pairs' and kind == @OWN")
    wide = table.pivot(index="seed", columns="variant", values="difference")
    if not {NEAR_NYQUIST, SUBSPACE} <= set(wide):
        return "The random subspace is not measured"
    gap = findings.over_seeds((wide[NEAR_NYQUIST] - wide[SUBSPACE]).to_numpy())
    return (
        "The highest modes against a random subspace of ten dimensions, with a head of its own: "
        f"{said(gap)} bits a character"
    )


# --- what a projection leaves -----------------------------------------------------------------------------


def moved_table() -> pd.DataFrame:
    """How far training moved the embedding, over its norm at the start, beside what the run pays.

    Returns
    -------
    DataFrame
        Indexed by kind and variant, of byte pairs: means over seeds of `moved` and of the difference to the
        baseline in bits a token.
    """
    table = ends().query("tokens == 'byte pairs'")
    moved = table.groupby(["kind", "variant"])["moved"].mean()
    costs = differences("token").query("tokens == 'byte pairs'").groupby(["kind", "variant"])["difference"]
    order = [
        (kind, variant)
        for kind in KINDS
        for variant in (*VARIANTS, ON_HEAD)
        if (kind, variant) in moved.index
    ]
    index = pd.MultiIndex.from_tuples(order, names=["model", "variant"])
    more = [f"{extra:+.2f}" if np.isfinite(extra) else "" for extra in costs.mean().reindex(index)]
    shown = moved.reindex(index).map("{:.2f}".format)
    return pd.DataFrame({"embedding moved": shown, "bits a token more": more})


def first_step(variant: str, *, tied: bool) -> dict[str, float]:
    """What a variant makes of a small model's first gradient, and Adam of that.

    Returns
    -------
    dict
        Shares: tokens whose row of the gradient isn't 0 before and after the projection; squared length
        that the projection keeps; and of Adam's first step, the sign, the part inside the subspace.
    """
    run = films.film_run(variant, tied=tied)
    streams, setting = load_streams(run.text), run.setting
    model, _ = steering.make_model(replace(run, variant=BASELINE), streams)
    model = model.cpu().double()
    batch = draw_batch(streams.train, seed=0, step=0, batch_size=setting.batch_size, length=setting.length)
    next_token_losses(model, batch).mean().backward()
    projection = run.projection(streams.vocab_size)
    assert projection is not None
    assert model.embedding.grad is not None
    before = model.embedding.grad.clone()
    project_gradients(model.embedding, projection)
    after = model.embedding.grad
    # rounding of the transform leaves 1e-17 where nothing is
    sign = torch.sign(after) * (after.abs() > 1e-12 * after.abs().max())
    inside = projection.apply(sign)
    return {
        "tokens with a gradient": _touched(before),
        "after projection": _touched(after),
        "gradient kept": float(after.square().sum() / before.square().sum()),
        "Adam's step inside": float(inside.square().sum() / sign.square().sum()),
    }


def _touched(gradient: torch.Tensor) -> float:
    rows = gradient.norm(dim=1)
    return float((rows > 1e-12 * rows.max()).double().mean())


def first_steps() -> pd.DataFrame:
    """Table of :func:`first_step`: a row a model and projection, in percent."""
    rows = {
        (kind, variant): first_step(variant, tied=kind == TIED)
        for kind in (OWN, TIED)
        for variant in (NEAR_NYQUIST, TOP_5, SUBSPACE)
    }
    return (
        pd.DataFrame.from_dict(rows, orient="index").map("{:.0%}".format).rename_axis(["model", "projection"])
    )


# --- films and live runs --------------------------------------------------------------------------------

LIVE_TOKENS = {"byte pairs": films.PAIRS, "bytes": films.BYTES}
LAST = films.SETTING.n_steps
PLAYER_CURVES = ["bits_per_token", "unigram", "uniform"]
SIDE = 290  # pixels of a square


def film_preset() -> str:
    """The largest preset at which all films are stored.

    Raises
    ------
    FileNotFoundError
        If there is none; the message says how to get one.
    """
    if preset := largest_stored(films.film_cells, ("quick", "laptop")):
        return preset
    raise FileNotFoundError(
        "no films are stored: run embviz.ledger.run(language_films.film_cells('laptop')), a minute or two"
    )


def recorded_frames() -> pd.DataFrame:
    """The stored films for a player, by `head` and `variant`."""
    parts = []
    for cell in films.film_cells(film_preset()):
        run = cell.config
        parts.append(read(cell)[0].assign(head=TIED if run.tied else OWN, variant=run.variant))
    table = pd.concat(parts, ignore_index=True)
    columns = ["expected", "frequency", *PLAYER_CURVES]
    return table.assign(**{name: table[name].astype(float).round(3) for name in columns})


def film_note() -> str:
    """Data and seed of the films, for a caption."""
    run = films.film_cells(film_preset())[0].config
    return (
        f"Recorded: one layer of {run.setting.embedding_dim} dimensions, {run.text.vocab_size} byte pairs of "
        f"the embedded text, {run.setting.n_steps} steps, seed {run.seed}."
    )


def film_table() -> pd.DataFrame:
    """Where each film's cloud ends: a row a variant, for each head the cost and the slope of the cloud.

    The slope is that of a straight line through the points of all tokens, by least squares: 1 where the model
    knows their frequencies, 0 where it expects all alike. Costs are in bits a token.
    """
    frames = recorded_frames()
    rows: dict[str, dict[tuple[str, str], str]] = {}
    for (head, variant), end in frames[frames["frame"] == frames["frame"].max()].groupby(["head", "variant"]):
        slope = np.polyfit(end["frequency"], end["expected"], 1)[0]
        own = rows.setdefault(str(variant), {})
        own[str(head), "cost"] = f"{end['bits_per_token'].iloc[0]:.2f}"
        own[str(head), "slope"] = f"{slope:.2f}"
    table = pd.DataFrame.from_dict(rows, orient="index").loc[list(films.SHOWN)]
    return table[[(head, name) for head in (OWN, TIED) for name in ("cost", "slope")]]


def frequency_shares() -> pd.DataFrame:
    """How much of the tokens' log frequencies lies in what a projection keeps, of the films' byte pairs.

    Returns
    -------
    DataFrame
        A row a projection: the share of the variance over tokens, in percent; beside it the share of the
        tokens' dimensions, which is what noise would have.
    """
    run = films.film_run(BASELINE, tied=True)
    streams = load_streams(run.text)
    counts = 1.0 + np.bincount(streams.train.ids[1:], minlength=streams.vocab_size)
    centred = torch.from_numpy(np.log(counts) - np.log(counts).mean())[:, None]
    rows = {}
    for variant in (NEAR_NYQUIST, LOWEST, SUBSPACE):
        projection = replace(run, variant=variant).projection(streams.vocab_size)
        assert projection is not None
        share = float(projection.apply(centred).square().sum() / centred.square().sum())
        dimensions = torch.linalg.matrix_rank(projection.apply(torch.eye(streams.vocab_size).double()))
        rows[variant] = {"frequencies kept": share, "noise kept": int(dimensions) / streams.vocab_size}
    return pd.DataFrame.from_dict(rows, orient="index").map("{:.1%}".format).rename_axis("projection")


def film_finding() -> str:
    """What each film's run pays at its end, beside what token frequencies alone cost."""
    frames = recorded_frames()
    end = frames[frames["frame"] == frames["frame"].max()].drop_duplicates(["head", "variant"])
    costs = end.set_index(["head", "variant"])["bits_per_token"]
    parts = [
        f"{head} {costs[head, NEAR_NYQUIST]:.1f} against {costs[head, BASELINE]:.1f}" for head in (OWN, TIED)
    ]
    return (
        f"Bits a token with near-Nyquist modes and without: {', '.join(parts)}; frequencies alone pay "
        f"{end['unigram'].iloc[0]:.1f}"
    )


def live_controls() -> dict[str, Control]:
    """What a reader may choose before a live run."""
    return {
        "text": Choice(list(LIVE_TOKENS), "tokens"),
        "output": Choice(list(KINDS), "output layer", initial=TIED),
        "projection": Choice([*VARIANTS, LOWEST, ON_HEAD], "variant", initial=NEAR_NYQUIST),
        "n_steps": Number(30, 3_000, "steps", initial=LAST),
        "seed": Number(0, 999, "seed", initial=0),
    }


def live_run(text: str, output: str, projection: str, n_steps: int, seed: int) -> SteeringRun:
    """The run that a reader has chosen; parameters as :func:`live_controls` has them."""
    start: Start = "pytorch" if output == OWN else "small"
    setting = replace(films.SETTING, n_steps=n_steps)
    return SteeringRun(LIVE_TOKENS[text], projection, seed, output == TIED, start, setting)


def live_frames(text: str, output: str, projection: str, n_steps: int, seed: int) -> Iterator[pd.DataFrame]:
    """Train in this kernel and picture it every 30 steps, with a note on what the tokens cost by now.

    Parameters are those of :func:`live_controls`.
    """
    run = live_run(text, output, projection, n_steps, seed)
    told = []
    if run.tied and run.variant == ON_HEAD:
        told = ["The head is the embedding: this is near-Nyquist."]
    for frame in films.pictures(run):
        cost, alone = frame["bits_per_token"].iloc[0], frame["unigram"].iloc[0]
        side = "above" if cost > alone else "below"
        now = (
            f"Step {frame['frame'].iloc[0]}: {cost:.2f} bits a token, {side} the {alone:.2f} of frequencies."
        )
        frame.attrs[NOTE] = " ".join([*told, now])
        yield frame


def plot_frames(data: alt.NamedData) -> alt.HConcatChart:
    """Drawing function of a player: what tokens cost by frequency and by the model, and the cost so far."""
    scale = alt.Scale(domain=[1, 19], nice=False, clamp=True)
    points = (
        alt.Chart(data)
        .mark_point(size=28, opacity=0.55)
        .encode(
            x=alt.X("frequency:Q", axis=theme.axis("by_frequency", tick_count=6), scale=scale),
            y=alt.Y("expected:Q", axis=theme.axis("by_model", tick_count=6), scale=scale),
            tooltip=[
                alt.Tooltip("text:N", title="token"),
                alt.Tooltip("frequency:Q", format=".1f"),
                alt.Tooltip("expected:Q", format=".1f"),
            ],
        )
    )
    ends = alt.Data(values=[{"x": 1, "y": 1}, {"x": 19, "y": 19}])
    diagonal = (
        alt.Chart(ends)
        .mark_line(color=theme.INK, strokeDash=list(theme.DASHES[2]), strokeWidth=1.2)
        .encode(x=alt.X("x:Q", scale=scale), y=alt.Y("y:Q", scale=scale))
    )
    cloud = alt.LayerChart(layer=[diagonal, points]).properties(width=SIDE, height=SIDE)
    return alt.hconcat(cloud, _history()).resolve_scale(color="independent", strokeDash="independent")


def _history() -> alt.LayerChart:
    names = {"bits_per_token": "this run", "unigram": "frequencies", "uniform": "all alike"}
    colour, dash = theme.line_styles("which", list(names.values()))
    key = alt.Legend(title=None, orient="top", symbolType="stroke", symbolStrokeWidth=2.5)
    said = " : ".join(f"datum.of === '{column}' ? '{name}'" for column, name in names.items()) + " : ''"
    end = {"expr": f"max({LAST}, frame)"}
    lines = (
        alt.Chart(HISTORY)
        .transform_filter("datum.frame <= frame")
        .transform_fold(list(names), as_=["of", "cost"])
        .transform_calculate(which=said)
        .mark_line(clip=True)
        .encode(
            x=alt.X(
                "frame:Q",
                axis=theme.axis("step", tick_count=4),
                scale=alt.Scale(domainMin=0, domainMax=end, nice=False),
            ),
            y=alt.Y("cost:Q", axis=theme.axis("bits_per_token"), scale=alt.Scale(domain=[0, 10], nice=False)),
            color=colour.legend(key),
            strokeDash=dash.legend(key),
        )
    )
    return alt.LayerChart(layer=[lines]).properties(width=SIDE - 40, height=SIDE)
