"""What the chapter on grokking measures and draws: tables to complete, waves, live runs and films."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import altair as alt
import numpy as np
import pandas as pd
import torch

from book.geometry.experiments import films, steering
from book.geometry.experiments.films import NEAR, NOT_MEASURED, RMS, SETTING, SHARES
from book.geometry.experiments.grokking import MEMORIZED, GrokkingRun, Members, Setting, grok
from book.geometry.experiments.steering import GROKKED
from embviz.ledger.cells import Cell, read
from embviz.ledger.studies import PRESETS, largest_stored
from embviz.tasks.modular import ModularArithmetic
from embviz.view import charts, theme
from embviz.view.explorers import Choice, Control, Number, Numbers, Range
from embviz.view.player import HISTORY, NOTE

LIMIT = 400  # epochs of a live run
SMALL_P = 23  # where numbers must be read
SPLITS = {"train": "training", "validation": "validation"}
OPERATIONS = {"+": "a + b", "-": "a - b", "*": "a · b"}
ORDERS = ("0, 1, 2, ...", "1, g, g², ...")
CURVES = ["train_accuracy", "train_loss", "validation_accuracy", "validation_loss"]
CURVES += ["kept", "n_places", "mode_0", "mode_1", "mode_2"]
KEPT, OTHER = "kept in the gradient", "other modes"
SIDE, BESIDE = 290, 1.13  # pixels of a square; how far out on a clock the names stand
ROW, HIGH = 580, 110  # pixels: width of a player, height of its spectrum


# --- the task -------------------------------------------------------------------------------------------


def answer_table(op: str, share: float) -> pd.DataFrame:
    """The table of answers mod 23, and which of its cells one split gives to training.

    Returns
    -------
    DataFrame
        `a`, `b`, `answer`, and `known`, 1 where the pair is trained on.
    """
    task = ModularArithmetic(SMALL_P, op, share)  # type: ignore[arg-type]
    order = np.random.default_rng([0, SMALL_P]).permutation(SMALL_P**2)
    known = np.zeros(SMALL_P**2, dtype=int)
    known[order[: task.n_train]] = 1
    a, b = task.strings()[:, :2].T
    return pd.DataFrame({"a": a, "b": b, "answer": task.answers(), "known": known})


def plot_answers(data: charts.Data) -> alt.LayerChart:
    """The table as coloured squares: filled where the pair is trained on, else only a dot."""
    ticks = list(range(0, SMALL_P, 2))
    base = alt.Chart(data).encode(
        x=alt.X("a:O", axis=alt.Axis(title=theme.title("a"), values=ticks, labelAngle=0)),
        y=alt.Y("b:O", axis=alt.Axis(title=theme.title("b"), values=ticks, labelAngle=0)),
        color=alt.Color("answer:Q", scale=theme.sequential_scale(), legend=theme.legend("answer")),
        tooltip=["a:O", "b:O", "answer:Q"],
    )
    known = base.transform_filter("datum.known === 1").mark_rect()
    hidden = base.transform_filter("datum.known === 0").mark_point(size=9, opacity=0.6)
    return alt.LayerChart(layer=[known, hidden]).properties(width=SIDE, height=SIDE)


# --- waves ----------------------------------------------------------------------------------------------


def wave(mode: int, step: int) -> pd.DataFrame:
    """The residues mod 23 on the circle of a mode, and where `step` takes each of them.

    Returns
    -------
    DataFrame
        `residue`; `x`, `y`, its place; `to_x`, `to_y`, the place of residue + step.
    """
    residues = np.arange(SMALL_P)
    angles = 2 * np.pi * mode * residues / SMALL_P
    x, y = np.sin(angles), np.cos(angles)  # 0 at the top, clockwise, as on a clock
    goal = (residues + step) % SMALL_P
    return pd.DataFrame({"residue": residues, "x": x, "y": y, "to_x": x[goal], "to_y": y[goal]})


def plot_wave(data: charts.Data) -> alt.LayerChart:
    """A clock of residues with a chord from each to its sum, the first one thick."""
    scale = alt.Scale(domain=[-1.25, 1.25], nice=False)
    base = alt.Chart(data).encode(
        x=alt.X("x:Q", scale=scale, axis=theme.layout_axis("sine_part")),
        y=alt.Y("y:Q", scale=scale, axis=theme.layout_axis("cosine_part")),
    )
    chords = base.mark_rule(opacity=0.25).encode(x2="to_x:Q", y2="to_y:Q")
    first = base.transform_filter("datum.residue === 0").mark_rule(
        strokeWidth=3, color=theme.CATEGORIES[1]
    ).encode(x2="to_x:Q", y2="to_y:Q")  # fmt: skip
    points = base.mark_point(size=90, opacity=1).encode(
        color=alt.Color("residue:Q", scale=theme.sequential_scale(), legend=None)
    )
    names = (
        base.transform_calculate(x=f"{BESIDE} * datum.x", y=f"{BESIDE} * datum.y")
        .mark_text(fontSize=11)
        .encode(text="residue:Q")
    )
    return alt.LayerChart(layer=[chords, first, points, names]).properties(width=SIDE, height=SIDE)


def renamed(modes: Sequence[int], factor: int, p: int = 97) -> tuple[int, ...]:
    """The modes when residue a is called `factor` a: in order, each as the one of k and p - k up to p/2.

    Raises
    ------
    ValueError
        If two residues would get one name.
    """
    if np.gcd(factor, p) != 1:
        raise ValueError(f"{factor} and {p} have a common factor, so two residues would get the same name")
    inverse = pow(factor, -1, p)
    return tuple(sorted(min(inverse * mode % p, -inverse * mode % p) for mode in modes))


def renaming(modes: Sequence[int], goal: Sequence[int], p: int = 97) -> int | None:
    """The least factor that renames one set of modes into another, or None."""
    factors = (factor for factor in range(1, p) if np.gcd(factor, p) == 1)
    return next((factor for factor in factors if renamed(modes, factor, p) == tuple(sorted(goal))), None)


def margin(modes: Sequence[int], p: int = 97) -> float:
    """How far the right answer stands above the next best, if answers are told by circles of equal weight.

    The score of the answer c to a + b is the mean over `modes` of cos(2 pi k (a + b - c) / p); it is 1 where
    c is right. A set of modes under new names has the same margin.
    """
    wrong = np.arange(1, p)[:, None]
    scores = np.cos(2 * np.pi * wrong * np.asarray(modes) / p).mean(axis=1)
    return float(1 - scores.max())


def margin_table(*, n_draws: int = 2000) -> pd.DataFrame:
    """Margins of sets of modes at p = 97, beside those of random sets.

    Returns
    -------
    DataFrame
        Indexed by the set: its margin, and how many random sets of as many modes out of 1 to 48 have a
        smaller one.
    """
    rng = np.random.default_rng(97)
    sets = [NEAR, films.LOW, (1, 2, 3, 4, 5), (44, 45, 46, 47, 48), (1, 14, 41), (48,), (1,)]
    drawn = {
        size: np.array([margin(_drawn_set(rng, size)) for _ in range(n_draws)])
        for size in {len(modes) for modes in sets if len(modes) > 1}
    }
    rows = {}
    for modes in sets:
        name, own = f"{{{', '.join(map(str, modes))}}}", margin(modes)
        below = "all alike"
        if len(modes) > 1:
            below = f"{(drawn[len(modes)] < own - 1e-9).mean():.0%}"  # but for the order of a sum
        rows[name] = {"margin": f"{own:.3f}", "random sets below": below}
    return pd.DataFrame.from_dict(rows, orient="index").rename_axis("modes")


def _drawn_set(rng: np.random.Generator, size: int) -> list[int]:
    modes: list[int] = rng.choice(np.arange(1, 49), size, replace=False).tolist()
    return modes


def renamed_losses(factor: int = 5, *, n_epochs: int = 10) -> pd.DataFrame:
    """Train a model mod 23, and the same model with renamed residues and modes, side by side.

    Returns
    -------
    DataFrame
        Training loss in nats, a row an epoch, three digits: columns for both models, and for a third with
        the residues renamed and the modes left as they were.
    """
    run = GrokkingRun(p=SMALL_P, modes=(9, 10, 11), train_share=0.6, n_epochs=n_epochs, setting=Setting())
    new = replace(run, modes=renamed(run.modes, factor, run.p))
    models = {
        "as it is": Members(run, [0]),
        "renamed": with_new_names(Members(new, [0]), factor),
        "renamed, old modes": with_new_names(Members(run, [0]), factor),
    }
    losses = {
        name: [round(model.train_epoch(epoch)[0].item(), 3) for epoch in range(1, n_epochs + 1)]
        for name, model in models.items()
    }
    return pd.DataFrame(losses, index=pd.RangeIndex(1, n_epochs + 1, name="epoch"))


@torch.no_grad()
def with_new_names(members: Members, factor: int) -> Members:
    """The same members with residue a called `factor` a mod p: in place, and returned."""
    p = members.config.p
    goal = torch.arange(p) * factor % p
    for matrix in (members.model.embedding, members.model.head):
        old: torch.Tensor = matrix[:p].clone()  # type: ignore[index, operator, assignment]
        matrix[goal] = old  # type: ignore[index, operator]
    for name in ("train", "validation"):
        a, b = getattr(members, name) // p, getattr(members, name) % p
        setattr(members, name, a * factor % p * p + b * factor % p)
    return members


# --- stored runs ----------------------------------------------------------------------------------------


def stored_cells(name: str) -> tuple[str, list[Cell]]:
    """The largest preset at which a run of Table 1 has a seed stored, and its cells; "" and none else."""
    for preset in reversed(PRESETS):
        cells = [cell for cell in steering.cells_of(steering.MAIN[name], preset) if cell.stored()]
        if cells:
            return preset, cells
    return "", []


def stored_curves(name: str = "baseline", *, n_points: int = 120) -> pd.DataFrame:
    """Accuracies of a run of Table 1, whatever seeds are stored: seed, epoch, split, accuracy.

    Parameters
    ----------
    name : str
        A key of ``steering.MAIN``.
    n_points : int
        Epochs kept of each seed, at about equal ratios.
    """
    parts = []
    for cell in stored_cells(name)[1]:
        table, _ = read(cell)
        for split, words in SPLITS.items():
            rows = table[(table["quantity"] == f"{split}_accuracy") & (table["epoch"] > 0)]
            kept = np.unique(np.geomspace(1, len(rows), n_points).round().astype(int)) - 1
            part = rows.sort_values("epoch").iloc[kept]
            parts.append(part[["seed", "epoch"]].assign(split=words, accuracy=part["value"].round(4)))
    return pd.concat(parts, ignore_index=True) if parts else pd.DataFrame()


def plot_stored(table: pd.DataFrame) -> alt.Chart:
    """Accuracies over the epochs, on a logarithmic axis: a line a seed and split."""
    key = alt.Legend(title=theme.title("split"), symbolType="stroke", symbolOpacity=1, symbolStrokeWidth=2.5)
    colour, dash = (style.legend(key) for style in theme.line_styles("split", list(SPLITS.values())))
    return (
        alt.Chart(table)
        .mark_line(opacity=0.8, strokeWidth=1.5)
        .encode(
            x=alt.X("epoch:Q", axis=theme.axis("epoch"), scale=alt.Scale(type="log", nice=False)),
            y=alt.Y("accuracy:Q", axis=theme.axis("accuracy"), scale=alt.Scale(domain=[0, 1])),
            color=colour,
            strokeDash=dash,
            detail="seed:N",
        )
        .properties(width="container", height=230)
    )


def stored_note(name: str = "baseline") -> str:
    """Data, seeds and batch of :func:`stored_curves`, for a caption."""
    preset, cells = stored_cells(name)
    if not cells:
        return f"No seed of {name!r} is stored: not measured."
    run: GrokkingRun = cells[0].config
    batch = f"batches of {run.setting.batch_size}" if run.setting.batch_size else "one full batch an epoch"
    seeds = f"{len(cells)} seed{'s' * (len(cells) > 1)}"
    return (
        f"(a + b) mod {run.p}, {run.train_share:.0%} of the pairs to train on, {name}, {batch}; {seeds} "
        f"stored ({preset}), a line each."
    )


def stored_finding(name: str = "baseline") -> str:
    """One sentence on how much later the validation pairs come out right, true of the drawn data."""
    _, cells = stored_cells(name)
    if not cells:
        return "Not measured"
    times = steering.times(cells)
    both = times[times["grokked"] & times["memorized"]]
    late = f"{len(times) - len(both)} of {len(times)} seeds did not grok within the limit"
    if both.empty:
        return late[0].upper() + late[1:]
    ratio = float((both["grok"] / both["memorize"]).median())
    text = f"The pairs never seen come out right {ratio:.1f} times as late as those trained on"
    return text + (f"; {late}" if len(both) < len(times) else "")


# --- films ----------------------------------------------------------------------------------------------


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
        "no films are stored: run embviz.ledger.run(films.film_cells('quick')), or 'laptop' in some minutes"
    )


def recorded_frames() -> pd.DataFrame:
    """The films of ``films.FILMS`` for a player, by `run`."""
    preset = film_preset()
    parts = []
    for name, film in films.FILMS.items():
        table, _ = read(films.grokking_film.cell(films.at_preset(film, preset)))
        parts.append(table.assign(run=name))
    return pd.concat(parts, ignore_index=True)


def film_table(names: Sequence[str] | None = None) -> pd.DataFrame:
    """What became of each film's run, to the frame: a row a film.

    Returns
    -------
    DataFrame
        Indexed by run: the first epochs shown with 99% of the training pairs and 95% of the validation
        pairs right; the share of the embedding's power in its five strongest modes but 0, and which they
        are, at the film's end.
    """
    preset, every = film_preset(), {**films.FILMS, **films.OPERATIONS}
    rows = {}
    for name in names or list(every):
        table, _ = read(films.grokking_film.cell(films.at_preset(every[name], preset)))
        epochs = table.drop_duplicates("frame")
        last = table[(table["frame"] == table["frame"].max()) & (table["rank"] == -1) & (table["place"] > 0)]
        top = last.nlargest(5, "v")
        rows[name] = {
            "memorized by": _first(epochs, "train_accuracy", MEMORIZED),
            "grokked by": _first(epochs, "validation_accuracy", GROKKED),
            "strongest modes": ", ".join(map(str, top["place"])),
            "their power": f"{top['v'].sum() / SHARES:.0%}",
        }
    return pd.DataFrame.from_dict(rows, orient="index").rename_axis("run")


def _first(epochs: pd.DataFrame, score: str, threshold: float) -> str:
    reached = epochs.loc[epochs[score] >= threshold, "frame"]
    return f"{reached.iloc[0]}" if len(reached) else f"not by {epochs['frame'].max()}"


def film_note() -> str:
    """Data and seed of the films, for a caption."""
    film = films.at_preset(films.FILMS["plain"], film_preset())
    run = film.run
    return (
        f"Recorded: (a + b) mod {run.p}, {run.train_share:.0%} of the pairs to train on, batches of "
        f"{run.setting.batch_size}, {run.n_epochs} epochs, seed {run.first_seed}."
    )


# --- live runs ------------------------------------------------------------------------------------------


def live_controls() -> dict[str, Control]:
    """What a reader may choose before a live run."""
    return {
        "p": Number(7, 199, "modulus p", initial=97),
        "op": Choice(list(OPERATIONS), "answer", format=lambda op: OPERATIONS[op]),
        "train_share": Range(0.05, 0.9, 0.05, "share to train on", initial=0.4),
        "weight_decay": Range(0.0, 2.0, 0.25, "weight decay", initial=1.0),
        "modes": Numbers(
            "modes kept (click bars, or type; none: no projection)",
            initial=" ".join(map(str, NEAR)),
            click="mode",
            recorded="kept",
        ),
        "order": Choice(list(ORDERS), "residues drawn in the order"),
        "seed": Number(0, 999, "seed", initial=0),
    }


def live_frames(
    p: int, op: str, train_share: float, weight_decay: float, modes: str, order: str, seed: int
) -> Iterator[pd.DataFrame]:
    """Train in this kernel, and yield a picture after each epoch, with a note on what has happened.

    Parameters are those of :func:`live_controls`.
    """
    by_powers = order == ORDERS[1]
    outside = [mode for mode in map(int, modes.split()) if mode > p // 2]
    if outside:
        raise ValueError(f"{p} residues have the modes 0 to {p // 2}; take out {outside[0]}")
    run = GrokkingRun(
        p=p,
        op=op,  # type: ignore[arg-type]
        train_share=train_share,
        modes=tuple(map(int, modes.split())),
        n_epochs=LIMIT,
        first_seed=seed,
        setting=replace(SETTING, weight_decay=weight_decay),
    )
    told = about(run)
    memorized = grokked = False
    for frame in grok(run, device="cpu"):
        table = films.picture(frame, run, by_powers=by_powers)
        if not memorized and frame.train_accuracy >= MEMORIZED:
            memorized = True
            told.append(f"Epoch {frame.epoch}: {MEMORIZED:.0%} of the training pairs are right.")
        if not grokked and (frame.validation_accuracy or 0.0) >= GROKKED:
            grokked = True
            told.append(f"Epoch {frame.epoch}: {GROKKED:.0%} of the validation pairs are right.")
        if frame.epoch == LIMIT and not grokked:
            told.append(f"Not grokked within {LIMIT} epochs; it may still do so later.")
        table.attrs[NOTE] = " ".join(told)
        yield table


def about(run: GrokkingRun) -> list[str]:
    """What a reader should know of a run before it starts, a sentence each."""
    if films.is_prime(run.p):
        return []
    factor = next(d for d in range(2, run.p) if run.p % d == 0)
    said = f"p = {run.p} is not prime: a wave of mode {factor} takes each value {factor} times"
    if run.op == "*":
        said = f"p = {run.p} is not prime: products have divisors of zero, and some answers are frequent"
    return [f"{said}."]


# --- the player -----------------------------------------------------------------------------------------


def plot_frames(data: alt.NamedData) -> alt.VConcatChart:
    """Drawing function of a player: accuracy and loss so far, the spectrum, the three strongest circles."""
    history = alt.hconcat(
        _history("accuracy", alt.Scale(domain=[0, 1], nice=False)),
        _history("loss", alt.Scale(type="log", domain=[1e-3, 20], nice=False, clamp=True), legend=False),
    )
    circles = alt.hconcat(*(_circle(data, rank) for rank in range(films.N_CIRCLES)))
    rows = (_apart(history), _spectrum(data), _apart(circles))
    chart: alt.VConcatChart = _apart(alt.vconcat(*rows, spacing=14))
    return chart


def _apart(chart: Any) -> Any:
    """Panels with their own colours and dashes."""
    return chart.resolve_scale(color="independent", strokeDash="independent")


def _history(score: str, scale: alt.Scale, *, legend: bool = True) -> alt.LayerChart:
    """Training and validation over the epochs so far; the axis doubles where they no longer fit."""
    names = {f"{split}_{score}": words for split, words in SPLITS.items()}
    end = {"expr": "25 * pow(2, max(0, ceil(log(max(frame, 1) / 25) / LN2)))"}
    colour, dash = theme.line_styles("split", list(names.values()))
    key = alt.Legend(title=None, orient="top", symbolType="stroke", symbolStrokeWidth=2.5) if legend else None
    curve = (
        alt.Chart(HISTORY)
        .transform_filter("datum.frame <= frame")
        .transform_fold(list(names), as_=["which", score])
        .transform_filter(f"datum.{score} > {NOT_MEASURED / 2}")
        .transform_calculate(split=f"{json.dumps(names)}[datum.which]")
        .mark_line(clip=True, point=alt.OverlayMarkDef(size=12))
        .encode(
            x=alt.X(
                "frame:Q",
                axis=theme.axis("epoch", tick_count=5),
                scale=alt.Scale(domainMin=0, domainMax=end, nice=False),
            ),
            y=alt.Y(f"{score}:Q", axis=theme.axis(score, tick_count=4), scale=scale),
            color=colour.legend(key),
            strokeDash=dash.legend(key),
        )
    )
    return alt.LayerChart(layer=[curve]).properties(width=ROW // 2 - 31, height=130)


def _spectrum(data: alt.NamedData) -> alt.LayerChart:
    """Power by mode; a mark above the modes kept, an open one above those picked for the next live run."""
    rows = (
        alt.Chart(data)
        .transform_filter("datum.rank === -1")
        .transform_calculate(
            mode="datum.place",
            left="datum.place - 0.4",
            right="datum.place + 0.4",
            power_share=f"datum.v / {SHARES}",
            role=f"indexof(split(datum.kept, ' '), '' + datum.place) >= 0 ? '{KEPT}' : '{OTHER}'",
        )
    )
    across = alt.Scale(nice=False, zero=False, padding=4)
    wide = rows.encode(
        x=alt.X("left:Q", axis=alt.Axis(title=theme.title("mode"), grid=False), scale=across), x2="right:Q"
    )
    power = alt.Y(
        "power_share:Q",
        axis=alt.Axis(title=theme.title("power_share"), format=".0%", values=[0.02, 0.1, 0.3, 0.6, 1]),
        scale=alt.Scale(type="sqrt", domain=[0, 1], nice=False),
    )
    names = alt.Scale(domain=[OTHER, KEPT], range=list(theme.CATEGORIES[:2]))
    role = alt.Color("role:N", scale=names, legend=alt.Legend(title=None, orient="top"))
    bars = wide.mark_rect(clip=True).encode(y=power, y2=alt.datum(0), color=role)
    # hidden marks, not fewer rows: of none the axis would have no extent
    above = rows.mark_point(shape="triangle-down").encode(x=alt.X("mode:Q", scale=across), y=alt.value(7))
    kept = above.encode(
        opacity=_where(f"datum.role === '{KEPT}'"), color=alt.value(theme.CATEGORIES[1]), size=alt.value(40)
    )
    picked = above.encode(
        opacity=_where("indexof(split(modes, regexp('[ ,;]+')), '' + datum.place) >= 0"),
        fill=alt.value("transparent"),
        stroke=alt.value(theme.INK),
        size=alt.value(90),
    )
    hit = wide.mark_rect(opacity=0, cursor="pointer").encode(
        y=alt.value(0), y2=alt.value(HIGH), tooltip=["mode:Q", alt.Tooltip("power_share:Q", format=".1%")]
    )
    layers = [bars, kept, picked, hit]
    return alt.LayerChart(layer=layers).properties(width=ROW, height=HIGH)


def _where(test: str) -> Any:
    return alt.when(test).then(alt.value(1)).otherwise(alt.value(0))


def _circle(data: alt.NamedData, rank: int) -> alt.LayerChart:
    """The residues in the plane of one mode, coloured by where on its circle they belong."""
    scale = alt.Scale(domain=[-100 / RMS - 0.1, 100 / RMS + 0.1], nice=False)
    rows = (
        alt.Chart(data)
        .transform_filter(f"datum.rank === {rank}")
        .transform_calculate(
            cosine_part=f"datum.u / {RMS}",
            sine_part=f"datum.v / {RMS}",
            turn=f"(datum.mode_{rank} * datum.place) % datum.n_places",
        )
    )
    points = rows.mark_point(size=22, opacity=0.9).encode(
        x=alt.X("cosine_part:Q", scale=scale, axis=theme.layout_axis("cosine_part")),
        y=alt.Y("sine_part:Q", scale=scale, axis=theme.layout_axis("sine_part")),
        color=alt.Color("turn:Q", scale=theme.sequential_scale(), legend=None),
        tooltip=[alt.Tooltip("place:Q", title="residue")],
    )
    name = (
        rows.transform_filter("datum.place === 0")
        .transform_calculate(words=f"'mode ' + datum.mode_{rank}")
        .mark_text(align="left", fontSize=12)
        .encode(x=alt.value(5), y=alt.value(11), text="words:N")
    )
    side = (ROW - 2 * 40) // 3
    return alt.LayerChart(layer=[points, name]).properties(width=side, height=side)
