"""What the chapter on language models without queries measures and draws: gains, curves, shares, gaps."""

from __future__ import annotations

import dataclasses
import functools
import itertools
from collections.abc import Callable, Sequence

import altair as alt
import numpy as np
import pandas as pd

from book.geometry.experiments import language_models as models
from book.geometry.experiments import language_readings
from book.geometry.experiments.language_models import (
    BASELINE,
    CONTROLS,
    NO_Q,
    THIN,
    VARIANTS,
    LanguageRun,
    language_models,
)
from embviz import view
from embviz.ledger import findings
from embviz.ledger.cells import Cell, table_of
from embviz.ledger.findings import Finding
from embviz.ledger.studies import PRESETS
from embviz.view import charts, theme
from embviz.view.text_titles import n_read, titled

NOT_MEASURED = "not measured"
BITS = "bits_per_byte"
# Tables 5 and 6: loss over ln 2 of models that read bytes, there called bits per character
PUBLISHED = {"stories": {BASELINE: 1.0819, NO_Q: 1.0475}, "web": {BASELINE: 1.8942, NO_Q: 1.8518}}
PAPER_SHARE = 0.04  # of W_K's singular values, without queries; Figure 3, right
STEPS, PARAMETERS, PRODUCTS = EQUAL = ("steps", "parameters", "products")
HELD_OUT, TRAINING, GAP, SHARE, ALIGNED, GAIN = QUANTITIES = (
    "held-out bits a byte",
    "training bits a byte",
    "training minus held-out bits",
    "leading share of W_K",
    "|cosine| of W_Q's and W_K's leading directions",
    "gain in % of the reference",
)


# --- runs -----------------------------------------------------------------------------------------------


def story_runs(preset: str) -> list[LanguageRun]:
    """All variants on short stories."""
    return models.story_runs(preset)


def web_runs(preset: str) -> list[LanguageRun]:
    """With and without queries on web text."""
    return models.of_seeds(models.web(preset), (BASELINE, NO_Q), models.N_CONTROL_SEEDS[preset])


def few_runs(preset: str) -> list[LanguageRun]:
    """With and without queries on stories that are read over and over."""
    return models.of_seeds(models.few_stories(preset), (BASELINE, NO_Q), models.N_CONTROL_SEEDS[preset])


Runs = Callable[[str], list[LanguageRun]]
TRAINED_ON: dict[str, Runs] = {"all documents": story_runs, "few documents": few_runs}


def shown_preset(runs: Runs) -> str:
    """The largest preset stored as a whole, else in part; ``quick`` where nothing larger is.

    In part: a run of every text and rank of keys, since presets share cells.
    """
    parts = []
    for preset in reversed(PRESETS[1:]):
        stored = [run for run in runs(preset) if language_models.cell(run).stored()]
        if len(stored) == len(runs(preset)):
            return preset
        if {(run.text, run.key_rank) for run in stored} == {(run.text, run.key_rank) for run in runs(preset)}:
            parts.append(preset)
    return parts[0] if parts else PRESETS[0]


def scores(runs: Runs) -> pd.DataFrame:
    """Scores of the preset that is shown, as far as it is stored; quick runs are made on the spot.

    Returns
    -------
    DataFrame
        As :func:`.language_models.curves`; products: 10^12 of them so far, forward and backward.
    """
    preset = shown_preset(runs)
    quick = preset == PRESETS[0]
    cells = [language_models.cell(run) for run in runs(preset)]
    return pd.concat([_scored(cell, str(cell.path)) for cell in cells if quick or cell.stored()])


@functools.lru_cache(maxsize=256)
def _scored(cell: Cell, path: str) -> pd.DataFrame:
    """A run's scores from its cell, whose file's path is part of the key; a quick one may be made now."""
    run, table = cell.config, models.with_fields(cell.config, table_of(cell))
    shape = run.shape(256 if run.text.tokens == "bytes" else run.text.vocab_size)
    tokens = run.setting.batch_size * run.setting.length
    return table.assign(products=table["step"] * (3 * models.products_a_token(shape) * tokens / 1e12))


def example(runs: Runs) -> LanguageRun:
    """The first run of the preset that is shown."""
    return runs(shown_preset(runs))[0]


def note(runs: Runs, variants: Sequence[str] = VARIANTS) -> str:
    """Data, length and seeds of what is shown of some variants, for a caption."""
    run, table = example(runs), scores(runs)
    table = table[table["variant"].isin(variants)]
    seeds = table.groupby("variant", sort=False)["seed"].nunique()
    counts = ", ".join(f"{name} {n}" for name, n in seeds.items())
    small = " This is the quick preset, which shows how it is measured and no more." * (
        shown_preset(runs) == PRESETS[0]
    )
    return f"{titled(run.text)}; {run.setting.n_steps:,} steps. Seeds: {counts}.{small}"


# --- other readings of the setting ------------------------------------------------------------------------


def reading_gains() -> pd.DataFrame:
    """Gains under other readings of the setting: of the pairs stored, or else of quick ones made now."""
    return language_readings.gains(_reading_run(), make=_only_quick_readings())


def _only_quick_readings() -> bool:
    """Whether no reading is stored but the claim's own."""
    return bool(language_readings.gains(models.stories("laptop"))["reading"].nunique() < 2)


def _reading_run() -> LanguageRun:
    return models.stories("quick" if _only_quick_readings() else "laptop")


def reading_note() -> str:
    """Data and length of what :func:`reading_table` shows."""
    run = _reading_run()
    small = " This is the quick preset, which shows how it is measured and no more." * _only_quick_readings()
    return f"{titled(run.text)}; {run.setting.n_steps:,} steps, but for the reading with more.{small}"


def reading_table() -> pd.DataFrame:
    """Bits a byte with and without queries, and what is saved: a row a reading, means over its seeds."""
    rows = {}
    for name, own in reading_gains().groupby("reading", sort=False):
        rows[name] = {
            "seeds": len(own),
            "baseline (bits)": round(own["baseline"].mean(), 3),
            "no Q (bits)": round(own["no_q"].mean(), 3),
            "gain (%)": said(findings.over_seeds(own["gain"].to_numpy()), digits=1),
        }
    return pd.DataFrame.from_dict(rows, orient="index").rename_axis("reading")


def reading_finding() -> str:
    """Whether any reading turns the sign of what the claim's own reading has."""
    means = reading_gains().groupby("reading")["gain"].mean()
    better = int((means > 0).sum()) or "none"
    return (
        f"Of {len(means)} readings of the setting, {better} with fewer bits without queries; "
        f"gains from {means.min():+.1f}% to {means.max():+.1f}%"
    )


def spread_finding() -> str:
    """How far single pairs lie apart under the reading where the seed matters most."""
    groups = reading_gains().groupby("reading", sort=False)["gain"]
    spans = (groups.max() - groups.min())[groups.count() > 1]
    if spans.empty:
        return "No reading has several seeds yet"
    own = groups.get_group(spans.idxmax())
    return (
        f"Under “{spans.idxmax()}” single pairs gain from {own.min():+.1f}% to {own.max():+.1f}%, "
        f"and nothing but the seed differs between the {len(own)} of them"
    )


def plot_readings() -> alt.LayerChart:
    """Gains under each reading: a mark a seed, intervals where there are several; the paper's at its rate."""
    data = reading_gains().assign(kind="measured")[["reading", "kind", "seed", "gain"]]
    names, published = list(data["reading"].unique()), PUBLISHED["stories"]
    if language_readings.PAPER_RATE in names:
        gain = 100 * (1 - published[NO_Q] / published[BASELINE])
        row = {"reading": language_readings.PAPER_RATE, "kind": "paper", "seed": -1, "gain": gain}
        data = pd.concat([data, pd.DataFrame([row])], ignore_index=True)
    return plot_rows(data, "gain", names, row="reading")


def rate_finding() -> str:
    """Bits with and without queries, each at the learning rate that suits it best."""
    table, rates = reading_gains(), language_readings.rates(_reading_run())
    means = table[table["reading"].isin(rates)].groupby("reading")[["baseline", "no_q"]].mean()
    best = {column: str(means[column].idxmin()) for column in means}
    bits = {column: float(means[column].min()) for column in best}
    gain = 100 * (1 - bits["no_q"] / bits["baseline"])
    return (
        f"Of {len(means)} learning rates the baseline does best at {rates[best['baseline']]:g}, "
        f"{bits['baseline']:.3f} bits a byte, and the model without queries at {rates[best['no_q']]:g}, "
        f"{bits['no_q']:.3f}: a gain of {gain:+.1f}%"
    )


# --- numbers --------------------------------------------------------------------------------------------


def gain_of(table: pd.DataFrame, variant: str = NO_Q, against: str = BASELINE) -> Finding | None:
    """Bits that a variant saves at the end, in percent, over seeds that have both; None without any."""
    if not {variant, against} <= set(table["variant"]):
        return None
    values = models.gains(table, variant, against)
    return findings.over_seeds(values) if len(values) else None


def said(finding: Finding | None, digits: int = 2, unit: str = "") -> str:
    """A number with its interval, in words; one seed has none."""
    if finding is None:
        return NOT_MEASURED
    text = f"{finding.value:+.{digits}f}{unit}"
    if finding.n_seeds < 2:
        return f"{text} (one seed)"
    return f"{text} ({finding.low:+.{digits}f} to {finding.high:+.{digits}f})"


def _bits(table: pd.DataFrame, variant: str) -> str:
    if variant not in set(table["variant"]):
        return NOT_MEASURED
    found = findings.over_seeds(models.last_scores(table, BITS)[variant].dropna().to_numpy())
    span = f" ± {found.high - found.value:.3f}" if found.n_seeds > 1 else ""
    return f"{found.value:.3f}{span}"


def result_table(runs: Runs, where: str, variants: Sequence[str] = (BASELINE, NO_Q)) -> pd.DataFrame:
    """Bits a byte at the end beside the paper's, and gains: a row a variant.

    Parameters
    ----------
    runs : function of the preset
    where : "stories" or "web"
        Whose published numbers stand beside.
    variants : sequence of str
    """
    table, published, rows = scores(runs), PUBLISHED[where], {}
    end = table[table["step"] == table["step"].max()]
    for variant in variants:
        count = end.loc[end["variant"] == variant, "n_parameters"]
        theirs = published.get(variant)
        gain = 100 * (1 - theirs / published[BASELINE]) if theirs and variant != BASELINE else None
        rows[variant] = {
            "parameters": f"{count.iloc[0]:,}" if len(count) else "",
            "paper: bits": f"{theirs:.4f}" if theirs else "",
            "paper: gain %": "" if gain is None else f"{gain:+.2f}",
            "bits a byte": _bits(table, variant),
            "gain %": "" if variant == BASELINE else said(gain_of(table, variant)),
        }
    return pd.DataFrame.from_dict(rows, orient="index").rename_axis("variant")


def gain_finding(runs: Runs, what: str = "Without queries") -> str:
    """The gain over pairs, in words that its sign and interval bear."""
    gain = gain_of(scores(runs))
    if gain is None:
        return f"{what}: {NOT_MEASURED} yet"
    if gain.n_seeds < 2:
        return f"{what}, against the baseline: gain {said(gain, unit='%')}"
    if gain.low <= 0 <= gain.high:
        return f"{what}: no difference that the seeds could tell, gain {said(gain, unit='%')}"
    judged = "fewer bits" if gain.value > 0 else "more bits"
    return f"{what} a model needs {judged}: gain {said(gain, unit='%')}"


def control_finding() -> str:
    """Gains of all variants in falling order."""
    table = scores(story_runs)
    found = {name: gain_of(table, name) for name in VARIANTS if name != BASELINE}
    means = sorted(((gain.value, name) for name, gain in found.items() if gain is not None), reverse=True)
    said_ = ", ".join(f"{name} {value:+.2f}%" for value, name in means)
    return f"Gains on the baseline: {said_}" if means else f"The controls are {NOT_MEASURED} yet"


def equality_table(variant: str = NO_Q) -> pd.DataFrame:
    """The gain at the end at equal steps, equal parameters and equal products, in percent."""
    table, rows = scores(story_runs), {}
    for equal in EQUAL:
        values = last_gains(table, variant, equal)
        against = {PARAMETERS: THIN}.get(equal, BASELINE)
        found = findings.over_seeds(values) if len(values) else None
        rows[equal] = {"reference": against, "gain %": said(found)}
    return pd.DataFrame.from_dict(rows, orient="index").rename_axis("equal")


def last_gains(table: pd.DataFrame, variant: str, equal: str) -> np.ndarray:
    """The last gain of each seed that has the reference too."""
    own = gain_curves(table, variant, equal)
    return own.groupby("seed")["value"].last().to_numpy()


def size_table() -> pd.DataFrame:
    """Parameters that learn and products a token of each variant, at the paper's setting and as shown."""
    rows = {}
    ours = example(story_runs)
    paper = models.stories("paper")
    for variant in VARIANTS:
        row = {}
        for name, run in (("paper", paper), ("here", ours)):
            shape = dataclasses.replace(run, variant=variant).shape(256)
            row[f"{name}: parameters"] = f"{models.count_parameters(shape):,}"
            row[f"{name}: products a token"] = f"{models.products_a_token(shape):,}"
        rows[variant] = row
    return pd.DataFrame.from_dict(rows, orient="index").rename_axis("variant")


# --- curves ---------------------------------------------------------------------------------------------


def gain_curves(table: pd.DataFrame, variant: str, equal: str) -> pd.DataFrame:
    """Gain of a variant after so many steps, or products: `seed`, `step`, `spent`, `value` in percent.

    At equal products the reference is read between its scores, where it has used as many as the variant, on
    a logarithmic axis and from its first score after training began.
    """
    against = THIN if equal == PARAMETERS else BASELINE
    parts = [pd.DataFrame(columns=["seed", "step", "spent", "value"], dtype=float)]
    for seed, own in table.groupby("seed"):
        one, other = (own[own["variant"] == name].sort_values("step") for name in (variant, against))
        if one.empty or other.empty:
            continue
        if equal == PRODUCTS:  # curves are steep at first, and nearly straight over the logarithm later
            one, other = one[one["step"] > 0], other[other["step"] > 0]
            known = np.log(other["products"].to_numpy())
            reference = np.interp(
                np.log(one["products"].to_numpy()), known, other[BITS], left=np.nan, right=np.nan
            )
        else:
            reference = one["step"].map(other.set_index("step")[BITS]).to_numpy()
        where = one[spent(equal)].to_numpy(float)
        gain = 100 * (1 - one[BITS].to_numpy() / reference)
        part = pd.DataFrame({"seed": seed, "step": one["step"], "spent": where, "value": gain})
        parts.append(part.dropna())
    return pd.concat(parts, ignore_index=True)


def spent(equal: str) -> str:
    """The column in which two models are given as much."""
    return "products" if equal == PRODUCTS else "step"


NONE = -1  # the seed of a row that stands for a curve that there isn't


def seeds() -> list[str]:
    """What an explorer offers: all seeds, and each that is shown."""
    return ["all", *(str(seed) for seed in sorted(scores(story_runs)["seed"].unique()))]


def explored(variants: Sequence[str] = (NO_Q, *CONTROLS)) -> pd.DataFrame:
    """Rows of the explorer of curves on short stories, as :func:`measure_curves` gives them."""
    chosen = itertools.product(variants, seeds(), QUANTITIES, EQUAL)
    parts = [
        measure_curves(variant, seed, quantity, equal).assign(
            variant=variant, chosen_seed=seed, quantity=quantity, equal=equal
        )
        for variant, seed, quantity, equal in chosen
    ]
    return pd.concat(parts, ignore_index=True)


def measure_curves(
    variant: str, chosen_seed: str, quantity: str, equal: str, runs: Runs = story_runs
) -> pd.DataFrame:
    """Curves of a variant and its reference.

    Parameters
    ----------
    variant : str
    chosen_seed : "all" or a number
    quantity : one of QUANTITIES
    equal : one of EQUAL
        What both are given as much of; "parameters": the reference is the thin baseline, else the baseline.

    Returns
    -------
    DataFrame
        model ("chosen" or "reference"), seed, spent (steps, or 10^12 products), value. Where the chosen
        model has none of that, a row of seed -1 stands for it, at a point that others have.
    """
    table = scores(runs)
    if chosen_seed != "all":
        table = table[table["seed"] == int(chosen_seed)]
    if quantity == GAIN:
        parts = [gain_curves(table, variant, equal).assign(model="chosen")]
    else:
        parts = []
        for model, name in (("chosen", variant), ("reference", THIN if equal == PARAMETERS else BASELINE)):
            own = table[table["variant"] == name]
            rows = pd.DataFrame({"model": model, "seed": own["seed"], "spent": own[spent(equal)]})
            parts.append(rows.assign(value=_quantity(own, quantity)).dropna())
    found = pd.concat(parts, ignore_index=True)[["model", "seed", "spent", "value"]]
    if "chosen" not in set(found["model"]):  # a seed without this control, or a model without such a thing
        at = (
            found[["spent", "value"]].head(1)
            if len(found)
            else pd.DataFrame({"spent": [0.0], "value": [0.0]})
        )
        found = pd.concat([found, at.assign(model="chosen", seed=NONE)], ignore_index=True)
    return found.astype({"seed": int, "spent": float})


def _quantity(table: pd.DataFrame, quantity: str) -> pd.Series:
    if quantity == GAP:
        return table[f"train_{BITS}"] - table[BITS]
    columns = {HELD_OUT: BITS, TRAINING: f"train_{BITS}", SHARE: "key_share", ALIGNED: "alignment"}
    column = columns[quantity]
    return table[column] if column in table else pd.Series(np.nan, index=table.index)


def plot_curves(data: charts.Data) -> alt.LayerChart:
    """Curves of :func:`measure_curves`: each seed thin, means thick with their 95% intervals."""
    curves = view.plot_curves(data, "spent", "value", kind="model", names=["chosen", "reference"])
    words = (
        alt.Chart()
        .transform_filter(f"datum.seed === {NONE}")
        .transform_calculate(words="'no such curve of the chosen model'")
        .mark_text(align="right", dx=-6, fontSize=12)
        .encode(x=alt.value("width"), y=alt.value(12), text="words:N")
    )
    return curves + words


def web_grid() -> pd.DataFrame:
    """Rows of the explorer of curves on web text."""
    parts = [
        measure_curves(NO_Q, "all", quantity, equal, web_runs).assign(quantity=quantity, equal=equal)
        for quantity in (HELD_OUT, TRAINING, SHARE, GAIN)
        for equal in (STEPS, PRODUCTS)
    ]
    return pd.concat(parts, ignore_index=True)


# --- controls -------------------------------------------------------------------------------------------


def plot_gains() -> alt.LayerChart:
    """Gains of every variant at the end: a mark a seed, means with intervals, the paper's as a cross."""
    table, rows = scores(story_runs), []
    for variant in (NO_Q, *CONTROLS):
        if variant in set(table["variant"]) and BASELINE in set(table["variant"]):
            pairs = models.last_scores(table, BITS)[[variant, BASELINE]].dropna()
            gains = 100 * (1 - pairs[variant] / pairs[BASELINE])
            rows += [(variant, "measured", seed, gain) for seed, gain in gains.items()]
    published = PUBLISHED["stories"]
    rows.append((NO_Q, "paper", -1, 100 * (1 - published[NO_Q] / published[BASELINE])))
    data = pd.DataFrame(rows, columns=["variant", "kind", "seed", "gain"])
    return plot_rows(data, "gain", [NO_Q, *CONTROLS])


def plot_rows(data: pd.DataFrame, x: str, names: Sequence[str], row: str = "variant") -> alt.LayerChart:
    """A row a name: marks of seeds, their mean's interval, what the paper has, and zero."""
    colour, shape = theme.point_styles("kind", ["measured", "paper"])
    colour, shape = colour.legend(alt.Legend(title=None)), shape.legend(alt.Legend(title=None))
    across = alt.X(f"{x}:Q", axis=theme.axis(x, tick_count=6))
    up = alt.Y(f"{row}:N", scale=alt.Scale(domain=list(names)), axis=alt.Axis(title=None, labelLimit=200))
    marks = alt.Chart().mark_point(size=60, opacity=0.8).encode(
        x=across, y=up, color=colour, shape=shape,
        tooltip=[f"{row}:N", "kind:N", "seed:N", alt.Tooltip(f"{x}:Q", format="+.3f")],
    )  # fmt: skip
    bars = (
        alt.Chart()
        .transform_filter("datum.kind === 'measured'")
        .transform_aggregate(
            centre=f"mean({x})", spread=f"stdev({x})", n_seeds="count()", groupby=[row, "kind"]
        )
        .transform_calculate(
            half=charts.student_half("n_seeds", "spread"),
            low="datum.centre - datum.half",
            high="datum.centre + datum.half",
        )
        .mark_rule(strokeWidth=1.5)
        .encode(x=alt.X("low:Q"), x2="high:Q", y=up, color=colour)
    )
    zero = alt.Chart(alt.Data(values=[{}])).mark_rule(opacity=0.6).encode(x=alt.XDatum(0))
    return charts.layered(data, [zero, bars, marks]).properties(width="container", height=30 * len(names))


# --- keys -----------------------------------------------------------------------------------------------


def plot_key_shares() -> alt.LayerChart:
    """W_K's leading share through training, with and without queries; the paper's and the least there is."""
    table = scores(story_runs)
    table = table[table["variant"].isin([BASELINE, NO_Q])].dropna(subset=["key_share"])
    least = 1 / example(story_runs).setting.embedding_dim
    reference = {"paper, without queries": PAPER_SHARE, "all directions alike": least}
    return view.plot_curves(
        table,
        "step",
        "key_share",
        kind="variant",
        names=[BASELINE, NO_Q],
        reference=reference,
        limits=(0.0, 1.2 * max(PAPER_SHARE, table["key_share"].max())),
    )


def share_finding() -> str:
    """Where the leading share starts and ends, with and without queries."""
    table = scores(story_runs)
    texts = []
    for variant, name in ((NO_Q, "without queries"), (BASELINE, "with them")):
        own = table[table["variant"] == variant]
        if len(own):
            first, last = (own.loc[own["step"] == step, "key_share"].mean() for step in _ends(own))
            texts.append(f"{name} from {first:.3f} to {last:.3f}")
    return f"Leading share of W_K: {', '.join(texts)}" if texts else f"Shares are {NOT_MEASURED} yet"


def alignment_finding() -> str:
    """What Figure 3 draws of the model with queries: how W_Q and W_K lie, at the start and the end."""
    table = scores(story_runs)
    own = table[table["variant"] == BASELINE]
    if "alignment" not in own or own["alignment"].isna().all():
        return f"Where W_Q points is {NOT_MEASURED} yet"
    first, last = (own.loc[own["step"] == step, "alignment"].mean() for step in _ends(own))
    return f"{ALIGNED}, of the model with queries: from {first:.2f} to {last:.2f}"


def _ends(table: pd.DataFrame) -> tuple[int, int]:
    return int(table["step"].min()), int(table["step"].max())


# --- training against held-out text -----------------------------------------------------------------------


def gap_grid() -> pd.DataFrame:
    """Training minus held-out bits after every score: `trained_on`, `variant`, `seed`, `step`, `bits_gap`."""
    parts = []
    for trained_on, runs in TRAINED_ON.items():
        table = scores(runs)
        own = table[table["variant"].isin([BASELINE, NO_Q])]
        gaps = models.score_gaps(own).reset_index().melt(["seed", "step"], value_name="bits_gap")
        parts.append(gaps.dropna().assign(trained_on=trained_on))
    return pd.concat(parts, ignore_index=True)[["trained_on", "variant", "seed", "step", "bits_gap"]]


def plot_gaps(data: charts.Data) -> alt.LayerChart:
    """Curves of :func:`gap_grid` with zero: below it training documents are the easier ones."""
    names, level = [BASELINE, NO_Q], {"as hard": 0.0}
    return view.plot_curves(data, "step", "bits_gap", kind="variant", names=names, reference=level)


def gap_finding() -> str:
    """Share of scores at which training documents need fewer bits, by text and variant, where measured."""
    below = gap_grid().assign(below=lambda table: table["bits_gap"] < 0)
    shares = below.groupby(["trained_on", "variant"])["below"].mean()
    told = []
    for trained_on in TRAINED_ON:
        names = {NO_Q: "without queries", BASELINE: "with them"}
        known = [
            f"{shares[trained_on, one]:.0%} {name}"
            for one, name in names.items()
            if (trained_on, one) in shares
        ]
        told += [f"{trained_on} {', '.join(known)}"] if known else []
    return f"Scores at which training text needs fewer bits than held-out text: {'; '.join(told)}"


def gap_note() -> str:
    """Data, seeds and how much is read, of both texts."""
    told = [
        f"{trained_on.capitalize()}: training reads {reading_of(runs)}; {note(runs, (BASELINE, NO_Q))}"
        for trained_on, runs in TRAINED_ON.items()
    ]
    return " ".join(told)


def reading_of(runs: Runs) -> str:
    """How many bytes training reads, and of how many documents."""
    run = example(runs)
    n_bytes = run.setting.n_steps * run.setting.batch_size * run.setting.length
    n_documents = n_read(run.text)
    documents = "all that aren't held out" if n_documents is None else f"{n_documents:,} documents"
    return f"{n_bytes:,} bytes of {documents}"
