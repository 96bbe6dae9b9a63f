"""What the chapter on growing a trained model measures and draws: ways to a wider one, and what they use."""

from __future__ import annotations

import copy
import functools
from collections.abc import Sequence

import altair as alt
import numpy as np
import pandas as pd
import torch

from book.resizing.experiments import bases, growing
from book.resizing.experiments.growing import FRESH, GAUSSIAN, ORTHOGONAL, SCRATCH, ZEROS, How
from embviz.ledger import studies
from embviz.ledger.cells import table_of
from embviz.models import resizing
from embviz.models.decoder import Decoder
from embviz.training.language import draw_batch, load_streams, next_token_losses, train_language_model
from embviz.view import charts, theme

CLAIM = "resizing.grow"
NARROW = "narrow, before"
WAYS: dict[How, str] = {
    ORTHOGONAL: "orthonormal columns",
    ZEROS: "zeros",
    FRESH: "fresh readers",
    SCRATCH: "from scratch",
}
UPDATES, PRODUCTS = AXES = ("updates at the new width", "all multiplications (10¹²)")
N_NAMES = 5
LEVELS = {"orthogonal": "orthonormal columns", "zeros": "zeros", "gaussian": "Gaussian columns"}
GROWN, ALONE, ON = SERIES = ("grown", "from scratch", "narrow, trained on")
WIDTHS = (20, 32, 48)  # of the live explorer, from 16
HERE: dict[str, str] = {
    "orthogonal": "orthonormal columns",
    "fresh": "fresh readers",
    "gaussian": "Gaussian columns",
}
HERE_STEPS, HERE_EVERY = 80, 8


def shown_preset() -> str:
    """The largest stored preset of the claim, or the quick one, which is computed where it is asked for."""
    return studies.find_study(CLAIM).largest_stored() or "quick"


def runs(preset: str, how: How) -> list[growing.GrowRun]:
    """Runs of one way that can be shown: all of the quick preset, else those stored."""
    every = growing.runs(preset, how)
    return every if preset == "quick" else [run for run in every if growing.growing.cell(run).stored()]


def data_note(preset: str) -> str:
    """Text, sizes and seeds, for a caption."""
    run = growing.runs(preset, ORTHOGONAL)[0]
    source = "Bundled documentation" if run.base.text.corpus == "embedded" else "Short stories"
    narrow, training = run.base.shape, run.base.training
    return (
        f"{source} in bytes, {narrow.n_layers} layers, {narrow.n_heads} heads of {narrow.head_width}, "
        f"{narrow.embedding_dim} to {run.width} dimensions, {training.n_steps:,} updates at each width; "
        + ", ".join(f"{name} {len(runs(preset, how))} seeds" for how, name in WAYS.items())
    )


# --- right after growing --------------------------------------------------------------------------------


def error_table(preset: str) -> pd.DataFrame:
    """Relative logit errors right after growing, by way: least and largest over seeds."""
    rows = {}
    for how, name in LEVELS.items():
        found = growing.errors(preset, how)
        rows[name] = {"least": f"{found.min():.1e}", "largest": f"{found.max():.1e}", "seeds": len(found)}
    return pd.DataFrame.from_dict(rows, orient="index").rename_axis("relative logit error")


# --- trained on -----------------------------------------------------------------------------------------


@functools.cache
def curves(preset: str) -> pd.DataFrame:
    """Losses of the narrow model and of every way, over updates and over multiplications.

    Returns
    -------
    DataFrame
        axis (one of AXES), way, seed, spent, log_perplexity. Updates of the narrow model are below 0.
    """
    parts = []
    for how, name in WAYS.items():
        for run in runs(preset, how):
            table = table_of(growing.growing.cell(run))
            parts.append(_of_width(table, run, run.width, name, before=how != SCRATCH))
            if how == ORTHOGONAL:
                parts.append(_of_width(table, run, run.base.shape.embedding_dim, NARROW, before=False))
    return pd.concat(parts, ignore_index=True)


def _of_width(
    table: pd.DataFrame, run: growing.GrowRun, width: int, name: str, *, before: bool
) -> pd.DataFrame:
    """A curve over both axes; with `before`, multiplications begin with those of the narrow model."""
    losses, training = growing.curve(table, width), run.base.training
    n_tokens = training.batch_size * training.length
    a_token = growing.curve(table, width, "products").iloc[0]
    start = 0.0
    if before:
        own = growing.curve(table, run.base.shape.embedding_dim, "products").iloc[0]
        start = training.n_steps * n_tokens * own
    steps = losses.index.to_numpy(dtype=float)
    products = 3 * (start + steps * n_tokens * a_token) / 1e12  # a backward pass takes two forward ones
    shift = training.n_steps if name == NARROW else 0
    columns = {"way": name, "seed": run.base.seed, "log_perplexity": losses.to_numpy()}
    return pd.concat(
        pd.DataFrame({"axis": axis, "spent": spent, **columns})
        for axis, spent in ((UPDATES, steps - shift), (PRODUCTS, products))
    )


def plot_curves(data: charts.Data, preset: str) -> alt.LayerChart:
    """Losses over what was spent, the first updates of new models cut off."""
    table = curves(preset)
    late = table[(table["way"] == NARROW) & (table["axis"] == UPDATES)]
    late = late[late["spent"] >= 0.8 * late["spent"].min()]
    low, high = table["log_perplexity"].min(), late["log_perplexity"].max()
    names = [name for name in (NARROW, *WAYS.values()) if (table["way"] == name).any()]
    limits = (low - 0.05 * (high - low), high)
    return _seed_lines(
        data, "spent", "log_perplexity", names, alt.Scale(domain=list(limits), nice=False), 320
    )


def _seed_lines(
    data: charts.Data, x: str, y: str, names: Sequence[str], scale: alt.Scale, height: int = theme.HEIGHT
) -> alt.LayerChart:
    """Every seed a thin line, their mean a thick one; three seeds' bands would hide one another."""
    colour, dash = theme.line_styles("way", list(names))
    across = alt.X(f"{x}:Q", axis=theme.axis(x, tick_count=6), scale=alt.Scale(nice=False))
    up = alt.Y(f"{y}:Q", axis=theme.axis(y), scale=scale)
    look = {"x": across, "color": colour, "strokeDash": dash}
    thin = (
        alt.Chart().mark_line(strokeWidth=0.8, opacity=0.4, clip=True).encode(y=up, detail="seed:N", **look)
    )
    thick = (
        alt.Chart()
        .transform_aggregate(centre=f"mean({y})", groupby=[x, "way"])
        .mark_line(strokeWidth=2.5, clip=True)
        .encode(y=alt.Y("centre:Q", scale=scale), tooltip=[f"{x}:Q", "way:N", "centre:Q"], **look)
    )
    return charts.layered(data, [thin, thick]).properties(width="container", height=height)


def ends(preset: str) -> pd.DataFrame:
    """Last losses and shares saved by way, means over seeds, and how many seeds there are."""
    scratch = {run.base.seed: table_of(growing.growing.cell(run)) for run in runs(preset, SCRATCH)}
    rows = {}
    for how, name in WAYS.items():
        own = [(run, table_of(growing.growing.cell(run))) for run in runs(preset, how)]
        if not own:
            continue
        last = [growing.curve(table, run.width).iloc[-1] for run, table in own]
        row = {"seeds": len(own), "last loss (nats)": f"{np.mean(last):.3f}"}
        if how != SCRATCH:
            saved = [growing.saving(table, scratch[run.base.seed], run) for run, table in own]
            row |= {
                "updates saved": f"{np.mean([one.steps for one in saved]):.0%}",
                "multiplications saved": f"{np.mean([one.products for one in saved]):.0%}",
            }
        rows[name] = row
    return pd.DataFrame.from_dict(rows, orient="index").rename_axis("way").fillna("")


def ends_finding(preset: str) -> str:
    """Last losses by way, in words."""
    said = ", ".join(f"{name} {row['last loss (nats)']}" for name, row in ends(preset).iterrows())
    return f"Nats a token after {growing.runs(preset, SCRATCH)[0].base.training.n_steps:,} updates: {said}"


def width_finding(preset: str) -> str:
    """What the new directions are worth: zeros, which never use them, less every other way."""
    table = curves(preset)
    table = table[(table["axis"] == UPDATES) & (table["spent"] == table["spent"].max())]
    last = table.pivot_table(index="seed", columns="way", values="log_perplexity")
    said = [
        f"{(last[WAYS[ZEROS]] - last[name]).dropna().mean():+.3f} nats ({name})"
        for how, name in WAYS.items()
        if how not in (ZEROS, SCRATCH) and WAYS[ZEROS] in last and name in last
    ]
    if not said:
        return "What the new directions are worth is not measured yet"
    return f"What the new directions are worth at the end, zeros less: {', '.join(said)}"


# --- which directions are used --------------------------------------------------------------------------


def outside(preset: str) -> pd.DataFrame:
    """Share of the hidden states' energy in new directions: way, seed, step, outside_share."""
    parts = []
    for how in (ORTHOGONAL, ZEROS, FRESH):
        for run in runs(preset, how):
            own = growing.curve(table_of(growing.growing.cell(run)), run.width, "outside")
            parts.append(
                pd.DataFrame(
                    {
                        "way": WAYS[how],
                        "seed": run.base.seed,
                        "step": own.index.to_numpy(),
                        "outside_share": np.where(own.to_numpy() > 1e-6, own.to_numpy(), 0.0),  # float32
                    }
                )
            )
    return pd.concat(parts, ignore_index=True)


def plot_outside(preset: str) -> alt.LayerChart:
    """Every seed and the mean."""
    table = outside(preset)
    names = list(dict.fromkeys(table["way"]))
    return _seed_lines(table, "step", "outside_share", names, alt.Scale(zero=True))


def outside_finding(preset: str) -> str:
    """Shares at the end, means over seeds."""
    table = outside(preset)
    end = table[table["step"] == table["step"].max()].groupby("way", sort=False)["outside_share"].mean()
    said = ", ".join(f"{name} {share:.1%}" for name, share in end.items())
    return f"Share of the hidden states' energy in new directions at the end: {said}"


@functools.cache
def narrow_here() -> Decoder:
    """A narrow model trained on the spot."""
    run = growing.runs("quick", ORTHOGONAL)[0]
    model, _ = growing.train_narrow(run.base, run.score_every)
    return model


def first_update() -> pd.DataFrame:
    """Share of the first gradient, and of Adam's first update, in directions that the map does not reach."""
    narrow, run = narrow_here(), growing.runs("quick", ORTHOGONAL)[0]
    streams = load_streams(run.base.text)
    tokens = draw_batch(streams.train, seed=0, step=0, batch_size=8, length=run.base.training.length)
    rows = {}
    for how in (ORTHOGONAL, ZEROS, FRESH):
        grown = resizing.grow(
            copy.deepcopy(narrow).double(),
            run.width,
            "orthogonal" if how == ORTHOGONAL else "zeros",
            fresh=how == FRESH,
        )
        model, basis = grown.model, torch.linalg.qr(torch.from_numpy(grown.projection.matrix))[0]
        next_token_losses(model, tokens).mean().backward()
        gradient = {name: array.grad for name, array in model.named_parameters() if array.grad is not None}
        # Adam's first step is the gradient over its own size, coordinate by coordinate
        update = {name: array / (array.abs() + 1e-8) for name, array in gradient.items()}
        rows[WAYS[how]] = {
            "gradient": _share(_outside(model, gradient, basis)),
            "Adam's update": _share(_outside(model, update, basis)),
        }
    return pd.DataFrame.from_dict(rows, orient="index").rename_axis("share in new directions")


def _share(share: float) -> str:
    """A share with two digits; what lies below float64's rounding is 0."""
    return "0" if share < 1e-20 else f"{share:.1e}" if share < 1e-3 else f"{share:.2f}"


def _outside(model: Decoder, arrays: dict[str, torch.Tensor], basis: torch.Tensor) -> float:
    """Share of squared entries outside the columns of `basis` (D, d), along the residual axes."""
    roles, left, whole = resizing.axes(model), 0.0, 0.0
    for name, array in arrays.items():
        if "residual" in roles[name]:
            rows = array.movedim(roles[name].index("residual"), -1)
            whole += float(rows.square().sum())
            left += float((rows - rows @ basis @ basis.T).square().sum())
    return left / whole


# --- grown here -----------------------------------------------------------------------------------------


def grow_here(how: str, wide: int) -> pd.DataFrame:
    """Grow a small model and train it on, beside two others at equal batches: series, step, log_perplexity.

    Parameters
    ----------
    how : str
        A key of HERE.
    wide : int
        From 16 to this many dimensions.
    """
    narrow = narrow_here()
    kind: resizing.Growth = "gaussian" if how == GAUSSIAN else "orthogonal" if how == ORTHOGONAL else "zeros"
    parts = {GROWN: _trained(how, wide, kind), ALONE: _trained(SCRATCH, wide), ON: _trained("on", 0)}
    table = pd.concat(
        pd.DataFrame({"series": name, "step": steps, "log_perplexity": losses})
        for name, (steps, losses) in parts.items()
    )
    note = f"from {narrow.config.embedding_dim} to {wide} dimensions, {HERE[how]}"
    return table.assign(note=note).reset_index(drop=True)


@functools.cache
def _trained(how: str, width: int, kind: resizing.Growth = "zeros") -> tuple[list[int], list[float]]:
    """Steps and losses of a small model trained here."""
    narrow, base = narrow_here(), growing.runs("quick", ORTHOGONAL)[0].base
    if how == SCRATCH:
        model = resizing.from_scratch(narrow, width, base.seed)
    elif how == "on":
        model = copy.deepcopy(narrow)
    else:
        model = resizing.grow(narrow, width, kind, base.seed, fresh=how == FRESH).model
    training = bases.training(
        HERE_STEPS, base.training.batch_size, base.training.length, base.training.optimizer.learning_rate
    )
    shots = train_language_model(
        model,
        load_streams(base.text),
        training,
        seed=base.seed + growing.OTHER_BATCHES,
        snapshot_every=HERE_EVERY,
        weights=dict,
    )
    scores = [(shot.step, float(shot.metrics["bits_per_token"])) for shot in shots]  # type: ignore[arg-type]
    return [step for step, _ in scores], [np.log(2) * bits for _, bits in scores]


def plot_here(data: charts.Data, names: Sequence[str] = SERIES) -> alt.LayerChart:
    """A line a model, what was grown written above."""
    colour, dash = theme.line_styles("series", list(names))
    lines = (
        alt.Chart(data)
        .mark_line(strokeWidth=2.5, clip=True)
        .encode(
            x=alt.X("step:Q", axis=theme.axis("step")),
            y=alt.Y(
                "log_perplexity:Q",
                axis=theme.axis("log_perplexity"),
                scale=alt.Scale(domain=list(_limits()), nice=False),
            ),
            color=colour,
            strokeDash=dash,
            tooltip=["series:N", "step:Q", alt.Tooltip("log_perplexity:Q", format=".3f")],
        )
    )
    note = (
        alt.Chart(data)
        .transform_aggregate(n="count()", groupby=["note"])
        .mark_text(align="right", fontSize=12)
        .encode(x=alt.value("width"), y=alt.value(-10), text="note:N")
    )
    return alt.LayerChart(layer=[lines, note]).properties(width="container", height=theme.HEIGHT)


@functools.cache
def _limits() -> tuple[float, float]:
    """Ends of the vertical axis: the first scores of new models lie above."""
    _, on = _trained("on", 0)
    return round(float(min(on)) - 0.35, 1), round(float(max(on)) + 0.6, 1)
