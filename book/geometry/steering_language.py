"""Behind the chapter on steered language models: stored runs, recorded films, live runs."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from dataclasses import replace

import altair as alt
import pandas as pd

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
from embviz.ledger.cells import read
from embviz.ledger.studies import find_study, largest_stored
from embviz.models.transformer import Start
from embviz.view import plot_curves, plot_scatter, theme
from embviz.view.explorers import Choice, Control, Number
from embviz.view.player import HISTORY, NOTE

CLAIM = "geometry.fgp_language"
OWN, TIED, SMALL = KINDS = ("own head", "tied", "own head, small start")
UNITS = ("token", "character", "byte")
FREQUENCIES = "frequencies alone"
CURVES = (BASELINE, NEAR_NYQUIST, TOP_5, SUBSPACE, FROZEN, FREQUENCIES)  # five looks and a null
COST, MORE = "cost", "cost minus the baseline's"
LIVE_TOKENS = {"byte pairs": films.PAIRS, "bytes": films.BYTES}
LAST = films.SETTING.n_steps
PLAYER_CURVES = ["bits_per_token", "unigram", "uniform"]
LINES = {"bits_per_token": "this run", "unigram": "frequencies", "uniform": "all alike"}
# Of differences: linear within a tenth of a bit.
SCALE = alt.Scale(type="symlog", constant=0.1, domain=[-0.15, 12], nice=False)
ENDS = (1, 19)  # bits, of both axes of a cloud of tokens


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
    """Scores of every stored run on its way, as :func:`~.experiments.steering_language.steering_curves`."""
    return _curves(stored_preset())


def ends() -> pd.DataFrame:
    """The last score of every run."""
    table = curves()
    return table[table["step"] == table.groupby("tokens")["step"].transform("max")].reset_index(drop=True)


def differences() -> pd.DataFrame:
    """What each run pays at its end more than the baseline of its tokens, kind and seed, in every unit.

    Returns
    -------
    DataFrame
        `per` (a unit), `row` (tokens and variant), `tokens`, `variant`, `kind`, `seed`, `cost_difference`.
    """
    parts = [losses_to_baseline(curves(), f"bits_per_{unit}").assign(per=unit) for unit in UNITS]
    table = pd.concat(parts, ignore_index=True).rename(columns={"difference": "cost_difference"})
    short = table["tokens"].replace("byte pairs", "BPE")  # for a telephone
    names = table["variant"].replace(ON_HEAD, "head alone")
    table["row"] = short + ": " + names
    return table[["per", "row", "tokens", "variant", "kind", "seed", "cost_difference"]]


def courses() -> pd.DataFrame:
    """Learning curves for an explorer: costs, and what is paid more than the baseline of the seed.

    Returns
    -------
    DataFrame
        `tokens`, `kind`, `per` (a unit), `shown` (COST or MORE); `step`, `cost`, `variant` (of CURVES: the
        cost of token frequencies alone is one of them, of seed 0), `seed`.
    """
    table = curves()
    keys = ["tokens", "kind", "seed", "step"]
    parts = []
    for unit in UNITS:
        cost = table[[*keys, "variant"]].assign(cost=table[f"bits_per_{unit}"], per=unit)
        base = cost[cost["variant"] == BASELINE].set_index(keys)["cost"].rename("base")
        more = cost.join(base, on=keys)
        more = more.assign(cost=more["cost"] - more["base"], shown=MORE).drop(columns="base")
        alone = table["unigram"] * table[f"bits_per_{unit}"] / table["bits_per_character"]
        rule = cost[table["seed"] == 0].assign(cost=alone, variant=FREQUENCIES).drop_duplicates(keys)
        parts += [cost.assign(shown=COST), more, rule.assign(shown=COST)]
    whole = pd.concat(parts, ignore_index=True)
    return whole[whole["variant"].isin(CURVES)].reset_index(drop=True)


def note() -> str:
    """Data, steps and seeds of the stored runs, for a caption."""
    preset, table = stored_preset(), ends()
    pairs, _, setting = steering.texts_and_setting(preset)
    seeds = table.groupby(["kind", "tokens"])["seed"].nunique()
    counts = "; ".join(
        f"{kind} {seeds[kind, 'byte pairs']} of byte pairs, {seeds[kind, 'bytes']} of bytes"
        for kind in KINDS
        if (kind, "bytes") in seeds
    )
    return f"{pairs.corpus}, {setting.n_steps:,} steps. Seeds: {counts}."


# --- films and live runs --------------------------------------------------------------------------------


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
        f"the embedded text, {run.setting.n_steps} steps, seed {run.seed}. Hover over a point for its token."
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
    notes = []
    if run.tied and run.variant == ON_HEAD:
        notes = ["The head is the embedding: this is near-Nyquist."]
    for frame in films.pictures(run):
        cost, alone = frame["bits_per_token"].iloc[0], frame["unigram"].iloc[0]
        side = "above" if cost > alone else "below"
        now = (
            f"Step {frame['frame'].iloc[0]}: {cost:.2f} bits a token, {side} the {alone:.2f} of frequencies."
        )
        frame.attrs[NOTE] = " ".join([*notes, now])
        yield frame


def plot_frame(data: alt.NamedData) -> alt.HConcatChart:
    """Drawing function of the player: what tokens cost by frequency and by the model, and the cost so far."""
    cloud = plot_scatter(
        data,
        "frequency",
        "expected",
        equals=True,
        limits=ENDS,
        size="small",
        tooltip=["text"],
        x_title=theme.title("by_frequency"),
        y_title=theme.title("by_model"),
    )
    curve = plot_curves(
        HISTORY,
        "frame",
        "cost",
        kind="line",
        names=list(LINES.values()),
        seed=None,
        interval=False,
        limits=(0, 10),
        x_scale=alt.Scale(domainMin=0, domainMax={"expr": f"max({LAST}, frame)"}, nice=False),
        x_title="step",
        y_title="bits a token",
        kind_title="",
    )
    words = " : ".join(f"datum.of === '{column}' ? '{name}'" for column, name in LINES.items()) + " : ''"
    so_far = (
        curve.transform_filter("datum.frame <= frame")
        .transform_fold(list(LINES), as_=["of", "cost"])
        .transform_calculate(line=words)
    )
    side = theme.SQUARE
    both = alt.hconcat(
        cloud.properties(width=side, height=side), so_far.properties(width=side - 40, height=side)
    )
    return both.resolve_scale(color="independent", strokeDash="independent")
