"""What the chapter on the distributional hypothesis measures and draws: small languages, and EXor exactly."""

from __future__ import annotations

import itertools
from collections import Counter

import altair as alt
import numpy as np
import pandas as pd

from embviz.tasks import equivalences
from embviz.tasks.equivalences import NOT_COMPARABLE, FiniteLanguage, PairEquivalence
from embviz.tasks.exor import SYMBOLS, ZERO_A, ZERO_B, EXor
from embviz.view import charts, plot_curves, theme

VERDICTS = [
    equivalences.BOTH,
    equivalences.SEMANTIC_ONLY,
    equivalences.CONDITIONAL_ONLY,
    equivalences.NEITHER,
]
WORST, MEAN = "worst context", "mean over contexts"
NAMED_PAIRS = {"is–was", "empty–full", "glass–cup", "moon–street", "cold–wet"}
CELL = 34  # pixels a word of the mirror picture
# Table 1 of the paper: a masked string a row.
TABLE_1 = ("0B 0A 0A 0B ? 0A E", "1A ? 0A 0A 0B 1A D", "1A 1B ? 0A 0B 1A D", "0B 0A 0A 0B ? 0A D")


# --- a language of a few sentences ------------------------------------------------------------------


def small_language(full_share: float = 0.5, moon: float = 0.0, rare: float = 0.2) -> FiniteLanguage:
    """Sentences about a glass, a cup, the moon and a street, in the present or the past by a fair coin.

    Parameters
    ----------
    full_share : float, default 0.5
        How often "full" stands where "empty" may stand too; 0 to 1.
    moon : float, default 0
        Weight of "the moon is full", where "empty" never stands; "the moon is bright" weighs 1.
    rare : float, default 0.2
        Weight of "the moon is cold", and of "the street is wet".

    Raises
    ------
    ValueError
        If a weight is negative or a share is none.
    """
    sentences = {
        "the glass is empty": 2 * (1 - full_share),
        "the glass is full": 2 * full_share,
        "the cup is empty": 1 - full_share,
        "the cup is full": full_share,
        "the moon is full": moon,
        "the moon is bright": 1.0,
        "the street is bright": 1.0,
        "the moon is cold": rare,
        "the street is wet": rare,
    }
    language = equivalences.make_language(sentences, normalize=True)
    return equivalences.split_symbol(language, "is", into=("is", "was"), p_first=0.5)


def sentence_table(language: FiniteLanguage) -> pd.DataFrame:
    """Every string with its probability, the likeliest first."""
    table = pd.DataFrame({"sentence": language.texts, "probability": language.probability})
    return table.sort_values("probability", ascending=False, kind="stable").set_index("sentence").round(4)


def pair_table(language: FiniteLanguage, *, epsilon: float = 1e-9) -> pd.DataFrame:
    """Distances and verdict of every pair that can be compared, for a reader's eye."""
    pairs = [pair for pair in equivalences.equivalence_table(language, epsilon=epsilon) if _comparable(pair)]
    columns = {
        "semantic, worst": [pair.semantic_worst for pair in pairs],
        "semantic, mean": [pair.semantic_mean for pair in pairs],
        "share compared": [pair.semantic_share for pair in pairs],
        "conditional, worst": [pair.conditional_worst for pair in pairs],
        "conditional, mean": [pair.conditional_mean for pair in pairs],
        "proportional": [pair.proportional for pair in pairs],
        "equivalent": [pair.verdict for pair in pairs],
    }
    return pd.DataFrame(columns, index=[_unbroken(pair) for pair in pairs]).round(10).round(3)


def _comparable(pair: PairEquivalence) -> bool:
    return pair.verdict != NOT_COMPARABLE


def _name(pair: PairEquivalence) -> str:
    return f"{pair.u}–{pair.v}"


def _unbroken(pair: PairEquivalence) -> str:
    """Name with word joiners, so that a narrow table doesn't break it at the dash."""
    return _name(pair).replace("–", "\u2060–\u2060")


# --- the mirror picture -----------------------------------------------------------------------------


def mirror_table(language: FiniteLanguage) -> pd.DataFrame:
    """Cells of a square of words: semantic distance above the diagonal, conditional distance below.

    Returns
    -------
    DataFrame
        `row`, `column` (words, ordered by the place where they stand), `kind`, `context_distance` (worst)
        and `text`; pairs that no context admits both of, and the diagonal, have no row.
    """
    words = mirror_order(language)
    rows = []
    for pair in equivalences.equivalence_table(language):
        if not _comparable(pair):
            continue
        first, second = sorted((pair.u, pair.v), key=words.index)
        rows.append((first, second, "semantic", pair.semantic_worst))
        rows.append((second, first, "conditional", pair.conditional_worst))
    table = pd.DataFrame(rows, columns=["row", "column", "kind", "context_distance"]).round(10).round(3)
    return table.assign(text=[f"{value:.2g}" for value in table["context_distance"]])


def mirror_order(language: FiniteLanguage) -> list[str]:
    """Words by the first place where they may stand."""
    first = [int(np.argmax((language.tokens == token).any(0))) for token in range(len(language.symbols))]
    return [language.symbols[token] for token in np.argsort(first, kind="stable")]


def plot_mirror(language: FiniteLanguage) -> alt.LayerChart:
    """The square of :func:`mirror_table`; were it its own mirror image, the hypothesis would hold."""
    table = mirror_table(language)
    words = [word for word in mirror_order(language) if word in set(table["row"])]
    scale = alt.Scale(domain=words)
    top = alt.Axis(title=None, orient="top", ticks=False, domain=False, labelAngle=-45)
    left = alt.Axis(title=None, ticks=False, domain=False)
    cells = alt.Chart(table).encode(
        x=alt.X("column:N", scale=scale, axis=top), y=alt.Y("row:N", scale=scale, axis=left)
    )
    kinds = alt.Scale(domain=["semantic", "conditional"], range=list(theme.CATEGORIES[:2]))
    colour = alt.Color("kind:N", scale=kinds, legend=theme.legend("context_distance"))
    strength = alt.Opacity(
        "context_distance:Q", scale=alt.Scale(domain=[0, 1], range=[0.08, 0.8]), legend=None
    )
    filled = cells.mark_rect().encode(
        color=colour, opacity=strength, tooltip=["row:N", "column:N", "kind:N", "context_distance:Q"]
    )
    numbers = cells.mark_text(fontSize=10).encode(text="text:N")
    return alt.LayerChart(layer=[filled, numbers]).properties(width="container", height=CELL * len(words))


# --- pairs as dots ----------------------------------------------------------------------------------


def measured_pairs(full_share: float, moon: float, rare: float, distance: str) -> pd.DataFrame:
    """Every comparable pair of :func:`small_language` as a dot, for the explorer.

    Parameters
    ----------
    full_share, moon, rare
        As there.
    distance : {"worst context", "mean over contexts"}

    Returns
    -------
    DataFrame as from :func:`dots`
    """
    pairs = equivalences.equivalence_table(small_language(full_share, moon, rare))
    return dots(pairs, distance, named=NAMED_PAIRS)


def dots(pairs: list[PairEquivalence], distance: str, *, named: set[str] | None = None) -> pd.DataFrame:
    """Pairs by their two distances; those that fall on one point make one dot.

    Parameters
    ----------
    pairs : list from :func:`embviz.tasks.equivalences.equivalence_table`
        Pairs that can't be compared are left out.
    distance : {"worst context", "mean over contexts"}
    named : set of str, optional
        Pairs that get a label; by default all.

    Returns
    -------
    DataFrame
        `pairs` (all of the dot), `label`, `semantic`, `conditional`, `equivalent` (the verdict), `below`
        (the label goes under the dot, since another labelled dot lies close above).
    """
    if distance not in (WORST, MEAN):
        raise ValueError(f"no distance {distance!r}: choose {WORST!r} or {MEAN!r}")
    part = "worst" if distance == WORST else "mean"
    groups: dict[tuple[float, float, str], list[str]] = {}
    for pair in filter(_comparable, pairs):
        values = [getattr(pair, f"{kind}_{part}") for kind in ("semantic", "conditional")]
        place = np.round(np.round(values, 10), 3).tolist()  # first the last bits, so that 0.0625 is a tie
        groups.setdefault((place[0], place[1], pair.verdict), []).append(_name(pair))
    rows = [
        (", ".join(names), ", ".join(n for n in names if named is None or n in named), *place)
        for place, names in groups.items()
    ]
    table = pd.DataFrame(rows, columns=["pairs", "label", "semantic", "conditional", "equivalent"])
    return table.assign(below=_crowded(table))


def _crowded(table: pd.DataFrame) -> list[bool]:
    """Whether a labelled dot lies so little above each dot that two labels would overlap."""
    labelled = table.loc[table["label"] != "", ["semantic", "conditional"]].to_numpy()
    gaps = labelled[None] - table[["semantic", "conditional"]].to_numpy()[:, None]  # (dots, labelled, 2)
    above = (gaps[:, :, 1] > 0) & (gaps[:, :, 1] < 0.09)
    crowded = (above & (np.abs(gaps[:, :, 0]) < 0.3)).any(axis=1)
    return [bool(found) for found in crowded & (table["conditional"] > 0.08)]  # the axis lies under the rest


def plot_dots(data: charts.Data) -> alt.LayerChart:
    """Dots of :func:`dots`: to the right they differ in meaning, upwards in how likely they are."""
    side, height = (alt.Scale(domain=[-0.04, end], nice=False) for end in (1.04, 1.1))
    across, up = (
        theme.axis("semantic_distance", tick_count=5),
        theme.axis("conditional_distance", tick_count=5),
    )
    across.grid = up.grid = False
    base = alt.Chart(data).encode(
        x=alt.X("semantic:Q", scale=side, axis=across), y=alt.Y("conditional:Q", scale=height, axis=up)
    )
    colour, shape = theme.point_styles("equivalent", VERDICTS)
    strength = alt.when("datum.label !== ''").then(alt.value(0.95)).otherwise(alt.value(0.4))
    points = base.mark_point(size=90).encode(
        color=colour,
        shape=shape,
        opacity=strength,
        tooltip=["pairs:N", "semantic:Q", "conditional:Q", "equivalent:N"],
    )
    labels = [
        base.mark_text(align="right" if right else "left", dx=-6 if right else 6, dy=11 if below else -9)
        .transform_filter(f"datum.semantic {'>' if right else '<='} 0.5 && {'' if below else '!'}datum.below")
        .encode(text="label:N")
        for right, below in itertools.product((False, True), (False, True))
    ]
    edge = alt.Chart(alt.Data(values=[{}])).mark_rule(strokeDash=list(theme.DASHES[2]), opacity=0.5)
    edges = [edge.encode(x=alt.XDatum(0)), edge.encode(y=alt.YDatum(0))]
    return alt.LayerChart(layer=[*edges, points, *labels]).properties(width="container", height=300)


# --- what follows from what -------------------------------------------------------------------------


def verdicts_of_every_language(n_symbols: int, n_places: int) -> pd.DataFrame:
    """Verdicts over all languages of equally likely strings, with each place masked, and with the last never.

    Parameters
    ----------
    n_symbols, n_places : int
        Every non-empty set of the ``n_symbols ** n_places`` strings is a language, 511 for 9 strings.

    Returns
    -------
    DataFrame
        Indexed by verdict: number of pairs of symbols, over all languages.

    Raises
    ------
    ValueError
        If there are more than 10 strings, thus more than 1,023 languages.
    """
    n_strings = n_symbols**n_places
    if n_strings > 10:
        raise ValueError(
            f"{n_strings} strings make 2^{n_strings} - 1 languages: take at most 10 strings, such as "
            "3 symbols in 2 places"
        )
    strings = list(itertools.product("uvwxyz"[:n_symbols], repeat=n_places))
    columns = {}
    for name, maskable in (
        ("every place masked", range(n_places)),
        ("last place never masked", range(n_places - 1)),
    ):
        found: Counter[str] = Counter()
        for chosen in itertools.product((0, 1), repeat=n_strings):
            if any(chosen):
                language = equivalences.make_language(
                    list(zip(strings, chosen, strict=True)), normalize=True, maskable=maskable
                )
                found.update(pair.verdict for pair in equivalences.equivalence_table(language))
        columns[name] = [found[verdict] for verdict in [*VERDICTS, NOT_COMPARABLE]]
    return pd.DataFrame(columns, index=pd.Index([*VERDICTS, NOT_COMPARABLE], name="pairs that are"))


def rare_pair(weights: np.ndarray) -> pd.DataFrame:
    """Distances (worst) of cold and wet, as the sentences that hold them get rarer.

    Returns
    -------
    DataFrame with `rare_weight`, `kind` and `context_distance`
    """
    rows = []
    for weight in weights:
        language = small_language(rare=float(weight))
        for kind, distance in (
            ("semantic", equivalences.semantic_distance(language, "cold", "wet").worst),
            ("conditional", equivalences.conditional_distance(language, "cold", "wet").worst),
            ("proportional", equivalences.proportional_distance(language, "cold", "wet")),
        ):
            rows.append((float(weight), kind, distance))
    return pd.DataFrame(rows, columns=["rare_weight", "kind", "context_distance"]).round(4)


def plot_rare_pair(table: pd.DataFrame, *, epsilon: float) -> alt.LayerChart:
    """Lines of :func:`rare_pair` over the weight, with a rule at `epsilon`."""
    colour, dash = theme.line_styles("kind", ["semantic", "conditional", "proportional"])
    scale, decades = alt.Scale(type="log", nice=False), theme.axis("rare_weight")
    decades.values = [float(10.0**power) for power in range(-6, 7)]
    lines = (
        alt.Chart(table)
        .mark_line()
        .encode(
            x=alt.X("rare_weight:Q", scale=scale, axis=decades),
            y=alt.Y(
                "context_distance:Q", scale=alt.Scale(domain=[0, 1.05]), axis=theme.axis("context_distance")
            ),
            color=colour,
            strokeDash=dash,
        )
    )
    rule = alt.Chart(alt.Data(values=[{}])).mark_rule(strokeDash=list(theme.DASHES[2]))
    return alt.LayerChart(layer=[lines, rule.encode(y=alt.YDatum(epsilon))]).properties(
        width="container", height=theme.HEIGHT
    )


# --- EXor -------------------------------------------------------------------------------------------


def counted_table_1(epsilon: float = 0.1) -> pd.DataFrame:
    """The rows of the paper's Table 1, each distribution counted over all strings of 6 bits.

    Parameters
    ----------
    epsilon : float, default 0.1
        Probability that a 0 is spelled 0A.

    Returns
    -------
    DataFrame
        Indexed by the masked string: probability of each spelling of the masked bit.
    """
    task = EXor(n_bits=6, p_0a=epsilon)
    language = equivalences.exor_language(task)
    rows = {}
    for text in TABLE_1:
        symbols = text.split()
        place = symbols.index("?")
        rest = np.delete(np.arange(len(symbols)), place)
        wanted = [language.index(symbols[other]) for other in rest]
        fitting = (language.tokens[:, rest] == wanted).all(axis=1)
        counted = np.bincount(
            language.tokens[fitting, place], weights=language.probability[fitting], minlength=4
        )
        rows[text] = dict(zip(language.symbols, counted[:4] / counted.sum(), strict=False))
    return pd.DataFrame.from_dict(rows, orient="index").rename_axis("x").round(6)


def exor_pairs(task: EXor) -> pd.DataFrame:
    """Counted distances of EXor's symbols beside their closed forms.

    Returns
    -------
    DataFrame
        Indexed by pair: `semantic` and `conditional` (worst), each counted and in closed form, `equivalent`.
    """
    pairs = filter(_comparable, equivalences.equivalence_table(equivalences.exor_language(task)))
    rows = {}
    for pair in pairs:
        semantic, conditional = closed_form(task, pair.u, pair.v)
        rows[_unbroken(pair)] = {
            "semantic, counted": pair.semantic_worst,
            "semantic, closed form": semantic,
            "conditional, counted": pair.conditional_worst,
            "conditional, closed form": conditional,
            "equivalent": pair.verdict,
        }
    return pd.DataFrame.from_dict(rows, orient="index").round(6)


def closed_form(task: EXor, u: str, v: str) -> tuple[float, float]:
    """Worst semantic and conditional distance of two spellings, or of the two parities, in EXor.

    The parity fixes the masked bit: two spellings of one bit never change it, spellings of unlike bits, or
    unlike parities, always do. At the mask one bit is possible at a time: its two spellings differ by the
    difference of their probabilities, spellings of unlike bits by the larger of theirs.

    Raises
    ------
    ValueError
        If a spelling is compared with a parity: they never stand in one place.
    """
    probability = dict(zip(SYMBOLS, task.spellings.ravel(), strict=False))
    if {u, v} == {"E", "D"}:
        return 1.0, 0.0
    if u not in probability or v not in probability:
        raise ValueError(f"{u} and {v} are not two of {', '.join(probability)}, nor E and D")
    if u[0] == v[0]:
        return 0.0, float(abs(probability[u] - probability[v]))
    return 1.0, float(max(probability[u], probability[v]))


def measured_exor(p_0a: float, p_1a: float) -> pd.DataFrame:
    """EXor's pairs as dots, for the explorer; 3 bits, since the distances do not depend on their number.

    Returns
    -------
    DataFrame as from :func:`dots`, with `note`, the best accuracy, in its first row
    """
    task = EXor(n_bits=3, p_0a=p_0a, p_1a=p_1a)
    table = dots(equivalences.equivalence_table(equivalences.exor_language(task)), WORST)
    note = f"best accuracy {task.optimal_accuracy():.3f}"
    return table.assign(note=[note, *[""] * (len(table) - 1)])


def plot_exor(data: charts.Data) -> alt.LayerChart:
    """Dots of :func:`measured_exor` with the best accuracy above them."""
    note = (
        alt.Chart(data)
        .transform_filter("datum.note !== ''")
        .mark_text(align="center")
        .encode(x=alt.XDatum(0.5), y=alt.YDatum(1.05), text="note:N")
    )
    return alt.LayerChart(layer=[plot_dots(data), note]).properties(width="container", height=300)


# --- drawing from EXor ------------------------------------------------------------------------------


def drawn_deviations(
    supposed: float, *, n_most: int = 200_000, n_points: int = 20, n_seeds: int = 5
) -> pd.DataFrame:
    """How far the share of 0A among masked zeros lies from a supposed probability, as draws accumulate.

    Parameters
    ----------
    supposed : float
        0.1 is the task's own; another is a null.
    n_most, n_points : int
        Masked strings drawn in the end, and at how many sizes on the way the share is taken.
    n_seeds : int
        Independent repetitions.

    Returns
    -------
    DataFrame
        `drawn` (masked strings), `seed`, `deviation` (standard errors of a share of `supposed`).
    """
    task, parts = EXor(), []
    sizes = np.linspace(n_most / n_points, n_most, n_points).astype(int)
    for seed in range(n_seeds):
        _, hidden = task.sample_contexts(n_most, np.random.default_rng(seed))
        zeros = np.cumsum(hidden <= ZERO_B)[sizes - 1]
        share = np.cumsum(hidden == ZERO_A)[sizes - 1] / zeros
        deviation = (share - supposed) / np.sqrt(supposed * (1 - supposed) / zeros)
        parts.append(pd.DataFrame({"drawn": sizes, "seed": seed, "deviation": deviation}))
    return pd.concat(parts, ignore_index=True).round(3)


def plot_deviations(table: pd.DataFrame) -> alt.LayerChart:
    """Deviations of :func:`drawn_deviations` for each `supposed` value; grey: 3 standard errors."""
    return plot_curves(table, "drawn", "deviation", kind="supposed", interval=False, null=(-3, 3))
