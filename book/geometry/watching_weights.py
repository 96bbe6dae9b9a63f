"""What the chapter on watching weights measures and draws: parameters, windows, units, sketches, films."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from dataclasses import replace

import altair as alt
import numpy as np
import pandas as pd

from book.geometry.experiments import language_models as language
from book.geometry.experiments import weight_films as films
from book.geometry.experiments.language_models import BASELINE, NO_Q, PAPER, LanguageRun, count_parameters
from book.geometry.experiments.weight_films import ABSENT, SETTING, WALKERS, WeightFilm
from embviz.ledger.cells import table_of
from embviz.models.transformer import TransformerConfig
from embviz.storage import results_folder
from embviz.training.language import (
    Streams,
    TextConfig,
    load_streams,
    make_stream,
    score_unigrams,
    windows,
)
from embviz.view import charts, theme
from embviz.view.explorers import Choice, Control, Number, Range
from embviz.view.player import HISTORY, NOTE

# Tables 5 and 6: layers, symbols that a sequence reads, parameters with queries and without, in millions.
PUBLISHED = {"short stories": (4, 256, "3.347", "3.085"), "web text": (5, 512, "4.200", "3.872")}
SHOWN_WINDOWS = 64  # tokens of the stream that the picture of windows has
PRESET = "laptop"  # of the films: seconds, and stored where somebody has stored them


# --- parameters -----------------------------------------------------------------------------------------


def paper_shape(setting: str, variant: str = BASELINE) -> TransformerConfig:
    """The shape of one of the paper's models, as read here; `setting` is a key of PUBLISHED."""
    n_layers, length, *_ = PUBLISHED[setting]
    run = LanguageRun(
        TextConfig("tinystories"), variant, setting=replace(PAPER, n_layers=n_layers, length=length)
    )
    return run.shape(256)


def parameter_table() -> pd.DataFrame:
    """Parameters of the paper's models, part by part, and beside their sum what the paper says of it.

    Returns
    -------
    DataFrame
        A row a part; a column a setting and variant.
    """
    columns = {}
    for setting, (*_, with_queries, without) in PUBLISHED.items():
        for variant, published in ((BASELINE, with_queries), (NO_Q, without)):
            shape = paper_shape(setting, variant)
            parts = parts_of(shape)
            if sum(parts.values()) != count_parameters(shape):
                raise AssertionError(f"the parts of {shape} don't add up to its parameters")
            rows = {part: f"{count:,}" if count else "" for part, count in parts.items()}
            rows |= {"all": f"{sum(parts.values()):,}", "published": f"{published} M"}
            columns[setting, variant] = rows
    return pd.DataFrame(columns).rename_axis("part")


def parts_of(shape: TransformerConfig) -> dict[str, int]:
    """Parameters of a transformer part by part, by arithmetic."""
    dim, layers, biases = shape.embedding_dim, shape.n_layers, int(shape.biases)
    square = dim * dim + biases * dim
    return {
        "token embedding, V D": shape.n_symbols * dim,
        "positions, T D": shape.length * dim if shape.positions == "learned" else 0,
        "queries, L D²": layers * square if shape.attention in ("standard", "identity_q") else 0,
        "keys, L D²": layers * square,
        "values, L D²": layers * square,
        "attention's output, L D²": layers * square,
        "MLPs, 2 L D M": layers * (2 * dim * shape.mlp_dim + biases * (dim + shape.mlp_dim)),
        "layer norms, (2 L + 1) 2 D": (2 * layers + 1) * 2 * dim,
        "head, V D": 0 if shape.tied else shape.n_symbols * dim,
    }


def conventions_table() -> pd.DataFrame:
    """Other readings of the paper's first model: their counts, and whether both fit the printed ones.

    Returns
    -------
    DataFrame
        A row a reading: parameters with queries, without, and "fits" where both round to Table 5's.
    """
    with_queries, without = (paper_shape("short stories", variant) for variant in (BASELINE, NO_Q))
    changes = {
        "as read here": {},
        "head tied to the embedding": {"tied": True},
        "positions as sines": {"positions": "sines"},
        "linear maps with biases": {"biases": True},
        "no layer norms": {"norm": "none"},
        "tied, with biases": {"tied": True, "biases": True},
        "positions for one symbol more": {"length": with_queries.length + 1},
    }
    rows = {}
    for reading, change in changes.items():
        counts = [count_parameters(replace(shape, **change)) for shape in (with_queries, without)]  # type: ignore[arg-type]
        printed = [f"{count / 1e6:.3f}" for count in counts]
        fits = printed == list(PUBLISHED["short stories"][2:])
        rows[reading] = {"with W_Q": counts[0], "without": counts[1], "fits": "yes" if fits else "no"}
    table = pd.DataFrame.from_dict(rows, orient="index").rename_axis("reading")
    return table.assign(**{name: table[name].map("{:,}".format) for name in ("with W_Q", "without")})


# --- scoring --------------------------------------------------------------------------------------------


def window_table(length: int, stride: int) -> pd.DataFrame:
    """Windows over a stream of 64 predicted tokens, and what each of them is for.

    Parameters
    ----------
    length : int
        Tokens that a window reads.
    stride : int
        As a share of it: 1 the whole length, 2 a half, and so on.

    Returns
    -------
    DataFrame
        A row a window and token: `window`, `token`, `role` ("counted" where the prediction enters the
        score, else "read again"); and of all counted ones, `context`, the mean number of tokens before
        them, and `reads`, tokens read for one counted.
    """
    starts, length, fresh = windows(SHOWN_WINDOWS, length, max(1, length // stride))
    rows = [
        (window, int(start) + place, "counted" if fresh[window, place] else "read again")
        for window, start in enumerate(starts)
        for place in range(length)
    ]
    context = float((np.arange(1, length + 1) * fresh).sum() / fresh.sum())
    table = pd.DataFrame(rows, columns=["window_number", "token", "role"])
    return table.assign(context=context, reads=fresh.size / fresh.sum())


def plot_windows(data: charts.Data) -> alt.LayerChart:
    """A row a window, its tokens as squares, those counted dark; what it comes to, above."""
    names = alt.Scale(domain=["counted", "read again"], range=list(theme.CATEGORIES[:2]))
    base = alt.Chart(data)
    cells = base.transform_calculate(right="datum.token + 0.9").mark_rect().encode(
        x=alt.X("token:Q", axis=theme.axis("stream_place"), scale=alt.Scale(domain=[0, 64], nice=False)),
        x2="right:Q",
        y=alt.Y("window_number:O", axis=theme.layout_axis("window_number")),
        color=alt.Color("role:N", scale=names, legend=alt.Legend(title=None)),
        opacity=alt.when("datum.role === 'counted'").then(alt.value(1)).otherwise(alt.value(0.35)),
    )  # fmt: skip
    words = (
        base.transform_aggregate(context="mean(context)", reads="mean(reads)")
        .transform_calculate(
            words="'on average ' + format(datum.context, '.1f') + ' tokens stand before a prediction; '"
            " + format(datum.reads, '.1f') + ' are read for one'"
        )
        .mark_text(align="left", fontSize=12, dy=-8)
        .encode(x=alt.value(0), y=alt.value(0), text="words:N")
    )
    return alt.LayerChart(layer=[cells, words]).properties(width="container", height=220)


def stride_table() -> pd.DataFrame:
    """What the last model of the baseline's film pays, by how far windows move: a row a stride."""
    table = table_of(films.sketched_cell(PRESET)).query("quantity == 'bits'")
    rows = {
        f"{int(stride)} of {SETTING.length}": {"bits a character": f"{bits:.2f}"}
        for stride, bits in zip(table["place"], table["value"], strict=True)
    }
    return pd.DataFrame.from_dict(rows, orient="index").rename_axis("windows move by")


def stride_finding() -> str:
    """How much a score falls by moving windows in small steps, of one model and text."""
    table = table_of(films.sketched_cell(PRESET)).query("quantity == 'bits'")
    bits = table.set_index("place")["value"]
    extra = 100 * (bits[bits.index.max()] / bits[bits.index.min()] - 1)
    if extra <= 0:
        return "One model, one text: windows that overlap gain nothing here"
    return f"One model, one text: windows side by side cost {extra:.1f}% more than windows that overlap most"


# --- units ----------------------------------------------------------------------------------------------

SENTENCES = {
    "English": "The cat sat on the mat.",
    "French": "L'été dernier, l'élève a mangé à la crêperie.",
    "Greek": "Η γάτα κάθισε στο χαλί.",
    "Japanese": "猫がマットの上に座った。",
}


def units_of_sentences() -> pd.DataFrame:
    """Characters and UTF-8 bytes of sentences, the end of each counted as one, and the price of a byte."""
    rows = {}
    for language_name, sentence in SENTENCES.items():
        stream = make_stream([sentence])
        n_characters, n_bytes = int(stream.n_characters.sum()), int(stream.n_bytes.sum())
        price = {"1 bit a byte is, a character": f"{n_bytes / n_characters:.2f}"}
        rows[language_name] = {"characters": n_characters, "bytes": n_bytes, **price}
    return pd.DataFrame.from_dict(rows, orient="index").rename_axis("text")


def units_of_tokens() -> pd.DataFrame:
    """The embedded text's held-out part in bytes and in byte pairs: what its frequencies pay in each unit."""
    rows = {}
    for name, config in (
        ("bytes", films.TEXT),
        ("512 byte pairs", replace(films.TEXT, tokens="byte pairs", vocab_size=512)),
        ("2,048 byte pairs", replace(films.TEXT, tokens="byte pairs", vocab_size=2048)),
    ):
        streams: Streams = load_streams(config)
        told = score_unigrams(streams)
        rows[name] = {
            "tokens": f"{told.n_tokens:,}",
            "bits a token": f"{told.bits_per_token:.2f}",
            "bits a character": f"{told.bits_per_character:.2f}",
            "bits a byte": f"{told.bits_per_byte:.2f}",
        }
    return pd.DataFrame.from_dict(rows, orient="index").rename_axis("frequencies alone, of")


# --- sketches -------------------------------------------------------------------------------------------


def sketch_grid() -> pd.DataFrame:
    """Histograms of sketched distances' errors, for an explorer over `size`.

    Returns
    -------
    DataFrame
        `size`; `left`, `right`, `share` of the pairs; `expected`, the spread 1 / sqrt(2 n) for one matrix
        with a sketch of that size, and `measured`, the spread of the pairs.
    """
    table = table_of(films.sketched_cell(PRESET)).query("quantity == 'error'")
    edges = np.linspace(-0.3, 0.3, 61)
    parts = []
    for size in films.SIZES:
        errors = table.loc[table["place"] == size, "value"].to_numpy()
        counts, _ = np.histogram(np.clip(errors, -0.2999, 0.2999), edges)
        part = pd.DataFrame({"left": edges[:-1], "right": edges[1:], "share": counts / counts.sum()})
        spread = float(np.sqrt(np.mean(errors**2)))
        parts.append(part.assign(size=size, expected=1 / math.sqrt(2 * size), measured=spread))
    return pd.concat(parts, ignore_index=True).round(4)


def plot_sketch(data: charts.Data) -> alt.LayerChart:
    """The histogram of :func:`sketch_grid`, with the spread expected of one matrix as two rules."""
    across = alt.Scale(domain=[-0.3, 0.3], nice=False)
    up = alt.Scale(domain=[0, 0.6], nice=False)
    bars = (
        alt.Chart(data)
        .mark_rect()
        .encode(
            x=alt.X(
                "left:Q", axis=theme.axis("distance_error", number_format="+.0%", tick_count=5), scale=across
            ),
            x2="right:Q",
            y=alt.Y("share:Q", axis=theme.axis("share_of_pairs", number_format=".0%"), scale=up),
            y2=alt.datum(0),
        )
    )
    ends = alt.Chart(data).transform_aggregate(expected="mean(expected)", measured="mean(measured)")
    rules = [
        ends.transform_calculate(at=f"{sign} * datum.expected")
        .mark_rule(strokeDash=list(theme.DASHES[1]), color=theme.CATEGORIES[1], strokeWidth=2)
        .encode(x=alt.X("at:Q", scale=across))
        for sign in (-1, 1)
    ]
    words = (
        ends.transform_calculate(
            words="'root mean square error: measured ' + format(datum.measured, '.1%')"
            " + ', one matrix expected ' + format(datum.expected, '.1%')"
        )
        .mark_text(align="left", fontSize=12)
        .encode(x=alt.value(6), y=alt.value(12), text="words:N")
    )
    return alt.LayerChart(layer=[bars, *rules, words]).properties(width="container", height=220)


def sketch_finding() -> str:
    """How far off the recorder's default sketch is on the run, in words."""
    grid = sketch_grid().drop_duplicates("size").set_index("size")
    size = film().sketch
    off = f"{grid['measured'][size]:.1%}"
    return f"With {size} numbers a matrix, distances of this run are off by {off} (root mean square)"


def storage_table() -> pd.DataFrame:
    """What snapshots of the paper's model take on disk, in full and as sketches: a row a way."""
    shape = paper_shape("short stories")
    sizes = matrix_sizes(shape)
    rows = {}
    for name, kept in (("in full", None), ("256 numbers a matrix", 256), ("64 numbers a matrix", 64)):
        n_bytes = 4 * sum(min(size, kept or size) for size in sizes)
        rows[name] = {
            "a snapshot": _in_bytes(n_bytes),
            "5,000 steps, each": _in_bytes(5_000 * n_bytes),
            "5,000 steps, every 10th": _in_bytes(500 * n_bytes),
        }
    return pd.DataFrame.from_dict(rows, orient="index").rename_axis(f"{len(sizes)} matrices")


def matrix_sizes(shape: TransformerConfig) -> list[int]:
    """Weights of each matrix of a transformer."""
    dim, one = shape.embedding_dim, shape.embedding_dim**2
    layer = [one, one, one, one, dim * shape.mlp_dim, dim * shape.mlp_dim]
    return [shape.n_symbols * dim, shape.length * dim, *layer * shape.n_layers, shape.n_symbols * dim]


def _in_bytes(n_bytes: int) -> str:
    for unit, size in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if n_bytes >= size:
            return f"{n_bytes / size:.1f} {unit}"
    return f"{n_bytes} B"


def cost_table() -> pd.DataFrame:
    """What recording adds to a training step, from the stored speed table: a row a way."""
    rows = {}
    for path in sorted((results_folder() / "bench").glob("a_training_step_of_*.json")):
        row = json.loads(path.read_text(encoding="utf-8"))
        way = row["job"].partition("recorded ")[2]
        more = f"{100 * (row['ratio'] - 1):+.1f}%"
        rows[way] = {"processor time of a step": more, "measured on": row["device"]}
    return pd.DataFrame.from_dict(rows, orient="index").rename_axis("recorded")


# --- films ----------------------------------------------------------------------------------------------

CURVES = ["loss", "bits_per_character", "key_share", *(f"walked_{name}" for name in WALKERS)]
ROW, HIGH = 580, 150  # pixels


def recorded_frames() -> pd.DataFrame:
    """The films for a player, by `variant`."""
    cells = films.film_cells(PRESET)
    parts = [table_of(cell).assign(variant=cell.config.run.variant) for cell in cells]
    return pd.concat(parts, ignore_index=True)


def film() -> WeightFilm:
    """The film of the baseline."""
    config: WeightFilm = films.film_cells(PRESET)[0].config
    return config


def film_note() -> str:
    """Data, sizes and seed of the films, for a caption."""
    setting = film().run.setting
    return (
        f"Recorded: bytes of the embedded text, {setting.n_layers} layers of {setting.embedding_dim} "
        f"dimensions, {setting.n_steps} steps of {setting.batch_size} x {setting.length} bytes, seed "
        f"{film().run.seed}; a snapshot every {film().record_every} steps, {film().sketch} numbers a matrix."
    )


def film_finding() -> str:
    """How far the matrices of the baseline's film walked for each length of way that they made good."""
    frames = recorded_frames().query("variant == @BASELINE and shown == 'moved'")
    end = frames[frames["frame"] == frames["frame"].max()]
    ratio = (end["y"] / end["x"]).agg(["min", "max"])
    return f"The baseline's matrices walk {ratio['min']:.1f} to {ratio['max']:.1f} times as far as they get"


def tempo_finding() -> str:
    """How fast the baseline's loss falls and its query paths grow: at first, just after, and at the end."""
    frames = recorded_frames().query("variant == @BASELINE").drop_duplicates("frame").set_index("frame")
    steps = frames.index.sort_values()
    eighth = max(1, (len(steps) - 1) // 8)
    told = []
    for first, last in ((0, eighth), (eighth, 2 * eighth), (-1 - eighth, -1)):
        start, end = (frames.loc[steps[place]] for place in (first, last))
        changes = (
            f"{end['loss'] - start['loss']:+.2f} nats and {end['walked_query'] - start['walked_query']:+.1f}"
        )
        told.append(f"from step {steps[first]} to {steps[last]} {changes}")
    return f"Loss and length of the query paths: {', '.join(told)}"


def film_table() -> pd.DataFrame:
    """How each film ends, beside how it began: a row a variant."""
    rows = {}
    for variant, frames in recorded_frames().groupby("variant", sort=False):
        ends = frames.drop_duplicates("frame").iloc[[0, -1]]
        rows[variant] = {
            name: f"{ends[column].iloc[0]:{spec}} to {ends[column].iloc[1]:{spec}}"
            for name, column, spec in (
                ("bits a character", "bits_per_character", ".2f"),
                ("leading share of W_K", "key_share", ".3f"),
            )
        }
    return pd.DataFrame.from_dict(rows, orient="index").rename_axis("variant")


def live_controls() -> dict[str, Control]:
    """What a reader may choose before a live run."""
    return {
        "attention": Choice([BASELINE, NO_Q, language.NO_K, language.FROZEN_Q], "variant"),
        "rate": Choice([5e-3, 2e-3, 1e-3, 2e-2], "learning rate", format="{:g}"),
        "decay": Range(0.0, 1.0, 0.1, "weight decay", initial=0.1),
        "n_steps": Number(10, 5_000, "steps", initial=SETTING.n_steps),
        "seed": Number(0, 999, "seed", initial=0),
    }


def live_frames(attention: str, rate: float, decay: float, n_steps: int, seed: int) -> Iterator[pd.DataFrame]:
    """Train in this kernel, record, and picture every 10 steps; parameters as of :func:`live_controls`."""
    setting = replace(SETTING, n_steps=n_steps, learning_rate=rate, weight_decay=decay)
    run = LanguageRun(films.TEXT, attention, seed, setting=setting)
    alone = score_unigrams(load_streams(films.TEXT)).bits_per_character
    for frame in films.pictures(WeightFilm(run)):
        bits = frame["bits_per_character"].iloc[0]
        frame.attrs[NOTE] = (
            f"Step {frame['frame'].iloc[0]}: {bits:.2f} bits a character; bytes' frequencies pay {alone:.2f}."
        )
        yield frame


def plot_frames(data: alt.NamedData) -> alt.VConcatChart:
    """Drawing function of a player: loss, bits, W_K's share and paths so far; spectra, and way made."""
    rows = [
        alt.hconcat(_curve("loss", [0, 6]), _curve("bits_per_character", [2, 8.2])),
        alt.hconcat(_curve("key_share", [0, 0.5]), _walked()),
        alt.hconcat(_spectra(data), _way(data)),
    ]
    apart = [
        row.resolve_scale(color="independent", strokeDash="independent", shape="independent") for row in rows
    ]
    chart: alt.VConcatChart = alt.vconcat(*apart, spacing=14).resolve_scale(
        color="independent", strokeDash="independent", shape="independent"
    )
    return chart


def _across() -> alt.X:
    """Steps; the axis doubles where a live run is longer."""
    end = {"expr": f"{SETTING.n_steps} * pow(2, max(0, ceil(log(max(frame, 1) / {SETTING.n_steps}) / LN2)))"}
    return alt.X(
        "frame:Q",
        axis=theme.axis("step", tick_count=4),
        scale=alt.Scale(domainMin=0, domainMax=end, nice=False),
    )


def _curve(field: str, limits: list[float]) -> alt.Chart:
    """One number over the steps so far."""
    return (
        alt.Chart(HISTORY)
        .transform_filter("datum.frame <= frame")
        .mark_line(clip=True, point=alt.OverlayMarkDef(size=9))
        .encode(
            x=_across(),
            y=alt.Y(
                f"{field}:Q", axis=theme.axis(field, tick_count=4), scale=alt.Scale(domain=limits, nice=False)
            ),
        )
        .properties(width=ROW // 2 - 31, height=HIGH)
    )


def _walked() -> alt.Chart:
    """Lengths of paths so far, by kind of matrix; a kind that the model hasn't is left out."""
    folded = [f"walked_{name}" for name in WALKERS]
    colour, dash = theme.line_styles("matrix", folded)
    key = alt.Legend(
        title=None,
        orient="top",
        columns=3,
        symbolType="stroke",
        symbolStrokeWidth=2.5,
        labelExpr=f"slice(datum.label, {len('walked_')})",
    )
    return (
        alt.Chart(HISTORY)
        .transform_fold([*folded], as_=["matrix", "walked"])
        .transform_filter(f"datum.frame <= frame && datum.walked > {ABSENT / 2}")
        .mark_line(clip=True)
        .encode(
            x=_across(),
            y=alt.Y("walked:Q", axis=theme.axis("walked", tick_count=4)),
            color=colour.legend(key),
            strokeDash=dash.legend(key),
        )
        .properties(width=ROW // 2 - 31, height=HIGH)
    )


def _spectra(data: alt.NamedData) -> alt.Chart:
    """Singular values of W_K by rank, a line a layer."""
    colour, dash = theme.line_styles("name", ["layer 1", "layer 2"])
    key = alt.Legend(title=None, orient="top", symbolType="stroke", symbolStrokeWidth=2.5)
    return (
        alt.Chart(data)
        .transform_filter("datum.shown === 'singular values'")
        .mark_line(clip=True, point=alt.OverlayMarkDef(size=12))
        .encode(
            x=alt.X(
                "x:Q", axis=theme.axis("rank"), scale=alt.Scale(domain=[1, SETTING.embedding_dim], nice=False)
            ),
            y=alt.Y(
                "y:Q", axis=theme.axis("key_value", tick_count=4), scale=alt.Scale(domain=[0, 3], nice=False)
            ),
            color=colour.legend(key),
            strokeDash=dash.legend(key),
        )
        .properties(width=ROW // 2 - 31, height=HIGH + 20)
    )


def _way(data: alt.NamedData) -> alt.LayerChart:
    """A mark a matrix: how far from its start it is, and how far it walked; the rule is a straight way."""
    limits = alt.Scale(type="symlog", constant=0.1, domain=[0, 40], nice=False)
    values = [0, 0.1, 0.3, 1, 3, 10, 30]
    points = (
        alt.Chart(data)
        .transform_filter("datum.shown === 'moved'")
        .mark_point(size=45, clip=True)
        .encode(
            x=alt.X(
                "x:Q",
                axis=alt.Axis(title=theme.title("away"), values=values, labelExpr="datum.value"),
                scale=limits,
            ),
            y=alt.Y(
                "y:Q",
                axis=alt.Axis(title=theme.title("walked"), values=values, labelExpr="datum.value"),
                scale=limits,
            ),
            tooltip=[
                alt.Tooltip("name:N", title="matrix"),
                alt.Tooltip("x:Q", title="away", format=".2f"),
                alt.Tooltip("y:Q", title="walked", format=".2f"),
            ],
        )
    )
    ends = alt.Data(values=[{"x": 0, "y": 0}, {"x": 40, "y": 40}])
    straight = (
        alt.Chart(ends)
        .mark_line(color=theme.INK, strokeDash=list(theme.DASHES[2]), strokeWidth=1.2)
        .encode(x=alt.X("x:Q", scale=limits), y=alt.Y("y:Q", scale=limits))
    )
    return alt.LayerChart(layer=[straight, points]).properties(width=ROW // 2 - 31, height=HIGH + 20)
