"""Maps: words as points in a plane, with the neighbours that the plane may have lost.

A :class:`Map` says of each word which are nearest to it *in the full space*, and how many of these are
nearest in the plane too. The numbers of three words or of 262,144 tokens travel packed (gzip, some 40 bytes a
word), and one script draws them on a plain canvas, in the notebook and in a page. Without a GPU it zoomed
5,000 points at 31 to 41 frames a second, where regl-scatterplot and deck.gl drew 4 to 5; it has a tenth of
their weight, and it needs no WebGL.
"""

from __future__ import annotations

import base64
import gzip
import json
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import altair as alt
import numpy as np
import pandas as pd
import traitlets
from numpy.typing import ArrayLike

from embviz.arrays import check_array, check_int
from embviz.corpora.tokens import token_kinds, token_texts
from embviz.imports import require
from embviz.metrics import nearest_neighbors, neighbors_kept, procrustes_map
from embviz.neighbors import (
    Neighbors,
    find_neighbors,
    lay_out_neighbors,
    neighbors_in_plane,
    unit_rows,
)
from embviz.view import theme
from embviz.view.named_tables import short_repr
from embviz.view.pages import MIME, map_script, portable, script, style
from embviz.view.pictures import Picture
from embviz.words.wordvectors import WordVectors

Metric = Literal["cosine", "euclidean"]
Words = int | Literal["all"] | str | re.Pattern[str] | Sequence[str] | Mapping[str, int] | Path
Color = str | Mapping[str, Sequence[Any]] | pd.DataFrame | pd.Series | None

HALF_SPAN = (
    32_767  # steps from the plane's middle to its farthest point: a stored page is the same everywhere
)
NOTEBOOK_LIMIT = 2_000_000  # bytes of packed numbers that a notebook stores
TWIN_WORDS = 100  # in viewers without our script
FEW = 5_000  # words whose distances travel in two bytes; beyond, in one
N_SHOWN_KINDS = 15  # beside "others"
DISTANCES = {"cosine": "cosine distance", "euclidean": "Euclidean distance"}
WORD = "word start"  # the kind of token that is a word
PLAIN = {"special", "unused", "byte", "white space", "punctuation", "digit"}  # labelled after all others
# The theme's colours, then others that can be seen on white and on black.
PALETTE = (
    "#0072B2", "#D55E00", "#009E73", "#CC79A7", "#B8860B", "#6A5ACD", "#8C564B", "#17A2B8", "#C2185B",
    "#7A9A01", "#4682B4", "#E07A5F", "#2E8B57", "#A0522D", "#9467BD", "#8A8A8A",
)  # fmt: skip

SAMPLE = 15_000  # points among which regions are looked for
LEAST_SHARE = 0.003  # of the points, in a region
LEAST_SIZE = 10
PURE = 0.65  # of the neighbours of a region's words, the share that lie in it: below, it has no name
ONE_KIND = 0.9  # share of the tokens of one kind from which that kind is their name
MOSTLY_WORDS = 0.75
MOST_SHARE, MOST_SIZE = 0.1, 100  # of the points, or so many of few: a larger region is no one thing
CANDIDATES = 200  # most frequent words of a region among which its name is chosen
COMMON = 100  # words (one in a hundred, at most) that are met everywhere, and name nothing
OTHERS = "others"


@dataclass(frozen=True, eq=False)
class Placed:
    """One embedding of the words: its places in the layout, and its neighbours in all dimensions."""

    name: str  # what it is called beside others of the same words
    plane: np.ndarray  # (V, 2), whole steps from -32,767 to 32,767
    near: np.ndarray  # (V, k), rows nearest in the full space, nearest first
    distances: np.ndarray  # (V, k), how far they are there
    kept: np.ndarray  # (V,), share of them that are among the k nearest in the plane


@dataclass(eq=False)
class Panel:
    """One canvas: words in one plane, with one embedding, two, or one in each of several states."""

    words: list[str]
    placed: list[Placed]
    shown: list[str]  # the words without a tokenizer's marks, distinct
    order: np.ndarray  # (V,), rows in the order in which they are labelled
    title: str = ""
    columns: dict[str, list[Any]] = field(default_factory=dict)  # to colour by, the first from the start
    regions: list[dict[str, Any]] = field(default_factory=list)  # their names and places
    scale: float | None = None  # the vectors' units in a step of the plane, where it has a unit


class Map(Picture):
    """A map, or two beside each other: shows itself in a notebook and in the book, and is saved as a page.

    Made by :func:`embedding_map`, :func:`map_of`, :func:`map_of_neighbors`, :func:`pick_a_word` and
    :func:`side_by_side`. The widget asks the kernel nothing, so it stays alive without one.

    Attributes
    ----------
    panels : list of Panel
        One, or two with one search and one switch.
    words, placed, columns
        Those of the first panel.
    title, caption : str
        The caption ends with how far the plane can be trusted.
    titles : list of str
        A title for each position of the switch or slider, if they differ.
    selected : list of str
        The words that are chosen, by the names that the page shows (``king`` for ``▁king``; tokens are taken
        too): a click chooses one, and a click with the shift key adds one or takes it away. The last one's
        neighbours are shown. Setting it chooses words in the page, and a word that is not on the map raises
        ``traitlets.TraitError``. ``map.observe(function, "selected")`` calls a function at every choice.
    """

    _esm = script("explorer.js") + map_script() + "\nexport default { render: renderMaps };\n"
    _css = style("explorer.css", "maps.css")
    selected = traitlets.List(traitlets.Unicode(), help="the words that are chosen").tag(sync=True)

    def __init__(
        self,
        panels: Sequence[Panel],
        *,
        title: str = "",
        caption: str = "",
        titles: Sequence[str] = (),
        focus: str | None = None,
        told: Mapping[str, Any] | None = None,
        compared: np.ndarray | None = None,
        metric: Metric = "cosine",
    ) -> None:
        """`told` is what the script hears beside the words: over, first, former; `compared` (V, k) are
        the rows with which neighbours are compared.
        """
        self.panels, self.title, self.caption, self.titles = list(panels), title, caption, list(titles)
        self.words, self.placed, self.columns = panels[0].words, panels[0].placed, panels[0].columns
        self.metric, self.told, self.compared = metric, dict(told or {}), compared
        if focus is not None and focus not in self.words:
            raise ValueError(f"{focus!r}, to be pointed at first, is not among the words")
        self.focus = "" if focus is None else panels[0].shown[self.words.index(focus)]
        self.focused = focus
        super().__init__()

    def __repr__(self) -> str:
        return short_repr("map" if len(self.panels) == 1 else "maps", self.title)

    @traitlets.default("spec")
    def _first_spec(self) -> dict[str, Any]:
        return self.static_spec()

    @traitlets.default("selected")
    def _first_selected(self) -> list[str]:
        return [self.focus] if self.focus else []

    @traitlets.validate("selected")
    def _known_words(self, proposal: Any) -> list[str]:
        pairs = [(word, name) for one in self.panels for word, name in zip(one.words, one.shown, strict=True)]
        shown = dict(pairs) | {name: name for _, name in pairs}
        for word in proposal["value"]:
            if word not in shown:
                raise traitlets.TraitError(f"{word!r} is not among the {len(shown):,} words of this map")
        return list(dict.fromkeys(shown[word] for word in proposal["value"]))

    def _repr_mimebundle_(self, **options: Any) -> dict[str, Any]:  # type: ignore[override]
        bundle = super()._repr_mimebundle_(**options)
        if sum(len(one["packed"]) for one in self.spec["usermeta"]["embviz"]["maps"]) > NOTEBOOK_LIMIT:
            del bundle[MIME]  # the widget and an image are there
        return bundle

    def neighbors(self, word: str) -> pd.DataFrame:
        """The nearest words of one word in the full space: embedding, word, distance."""
        if word not in self.words:
            raise ValueError(f"{word!r} is not among the {len(self.words):,} words of this map")
        row = self.words.index(word)
        tables = [
            pd.DataFrame(
                {
                    "embedding": part.name,
                    "word": [self.words[other] for other in part.near[row]],
                    "distance": part.distances[row],
                }
            )
            for part in self.placed
        ]
        return pd.concat(tables, ignore_index=True)

    def static_spec(self) -> dict[str, Any]:
        """Vega-Lite specification whose packed numbers our script draws; other viewers show some words."""
        several = len(self.panels) > 1
        first = self.told.get("first", 0)
        twins = [_twin(one, first, title=one.title if several else "") for one in self.panels]
        chart = alt.hconcat(*twins) if several else twins[0]
        spec = theme.captioned(chart, finding=self.title, caption=self.caption).to_dict()
        spec["description"] = f"{self.title}. {self.caption}" if self.title else self.caption
        meta = spec["usermeta"]["embviz"]
        meta["maps"] = [self._about(panel) for panel in self.panels]
        meta["look"] = {"palette": PALETTE, "shapes": theme.SHAPES, "ramp": theme.RAMP}
        if self.titles:
            meta["titles"] = self.titles
        return portable(spec)

    def _about(self, panel: Panel) -> dict[str, Any]:
        """What the script needs of one panel: its numbers in rows as they are labelled, byte by byte."""
        order, placed = panel.order, panel.placed
        place_of = np.empty(len(order), dtype=np.int64)
        place_of[order] = np.arange(len(order))
        k = placed[0].near.shape[1]
        n_bytes = 2 if len(order) <= FEW else 1
        unit = max(float(part.distances.max()) for part in placed) / (256**n_bytes - 1) or 1.0
        named = {region["text"] for region in panel.regions}
        columns = [_packed_column(name, values, named) for name, values in panel.columns.items()]
        parts = []
        for part in placed:
            parts += [
                _low_bytes_first(part.plane[order, 0] + HALF_SPAN, 2),
                _low_bytes_first(part.plane[order, 1] + HALF_SPAN, 2),
                _low_bytes_first(place_of[part.near[order]], 3),
                _low_bytes_first(np.rint(part.distances[order] / unit), n_bytes),
                _low_bytes_first(np.rint(part.kept[order] * k), 1),
            ]
        if self.compared is not None:
            parts.append(_low_bytes_first(place_of[self.compared[order]], 3))
        parts += [_low_bytes_first(values[order], 1) for _, values in columns]
        names = [panel.shown[row] for row in order]
        parts.append(json.dumps(names, ensure_ascii=False).encode("utf-8", "replace"))
        level = 6 if len(order) < SAMPLE else 9  # 1% smaller, in seconds more
        return {
            "title": panel.title,
            "names": [part.name for part in placed],
            "n_words": len(order),
            "n_neighbors": k,
            "columns": [about for about, _ in columns],
            "regions": panel.regions,
            "focus": self.focus if self.focus in panel.shown else "",
            "distance": DISTANCES[self.metric],
            "unit": float(f"{unit:.6g}"),
            "scale": None if panel.scale is None else float(f"{panel.scale:.4g}"),
            "compared": self.compared is not None,
            "distance_bytes": n_bytes,
            "packed": base64.b64encode(gzip.compress(b"".join(parts), level, mtime=0)).decode("ascii"),
            **self.told,
        }


# --- making a map -----------------------------------------------------------------------------------


def embedding_map(
    vectors: ArrayLike,
    words: Sequence[str],
    *,
    other: ArrayLike | None = None,
    names: Sequence[str] = ("vectors", "other vectors"),
    color: Color = None,
    layout: ArrayLike | None = None,
    n_neighbors: int = 8,
    focus: str | None = None,
    title: str = "",
    caption: str = "",
) -> Map:
    """Words as points in a plane, with their nearest neighbours in the full space.

    All pairs are compared: 20,000 words take seconds. :func:`map_of` is for whole vocabularies.

    Parameters
    ----------
    vectors : array, shape (V, D)
        One row per word, none of zeros.
    words : sequence of str, length V
        Distinct, three or more. Where labels don't all fit, earlier words are labelled first: give frequent
        words first.
    other : array, shape (V, D), optional
        A second embedding of the same words: context vectors, output rows, the vectors after training. A
        switch shows the one or the other.
    names : two str
        What the embeddings are called.
    color : "kind", "region", or mapping of name to V values, DataFrame or Series, optional
        Columns to colour by, one at a time, the first of them from the start: kinds (the first 15 have a
        colour), or numbers. By default the kind of token, or the regions of the map that have a name. The
        share of neighbours kept is always among the choices.
    layout : array of shape (V, 2), or with `other` (2, V, 2), optional
        Coordinates; by default the plane of the principal components, the same on every machine. That of
        :func:`embviz.trajectories.lay_out` keeps more neighbours, and differs between processors.
    n_neighbors : int, default 8
        k, at most V - 2, shown for each word: those with the largest cosines.
    focus : str, optional
        A word pointed at from the start.
    title : str, optional
        The finding, in one sentence.
    caption : str, optional
        Data and seeds. How far the plane can be trusted is added to it.

    Returns
    -------
    Map

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> map_ = embedding_map(rng.normal(size=(40, 5)), [f"w{i}" for i in range(40)],
    ...                      title="Noise has neighbours too", caption="Made vectors.")
    >>> map_.neighbors("w0").shape
    (8, 3)
    """
    words = _distinct(words)
    tables = [_checked(vectors, words, "vectors")]
    if other is not None:
        tables.append(_checked(other, words, "other"))
    if tables[0].shape[1] != tables[-1].shape[1] and layout is None:
        raise ValueError("the embeddings differ in dimension, so they share no plane: give coordinates")
    shown = [_unit(table) for table in tables]
    planes, scale = _plane(shown, layout, "layout")
    placed = [
        _placed(name, *nearest_neighbors(table, n_neighbors, metric="cosine"), points)
        for name, table, points in zip(names, tables, planes, strict=False)
    ]
    panel = _panel(words, placed, color, scale=scale if layout is None else None)
    return Map([panel], title=title, caption=f"{caption} {_faith(panel)}".strip(), focus=focus)


def side_by_side(first: Map, second: Map, *, title: str = "", caption: str = "") -> Map:
    """Two maps with one search and one switch: what is pointed at in one is shown in both.

    Parameters
    ----------
    first, second : Map
        Their titles stand above them; words they share are linked. Their embeddings have the same names.
    title, caption : str, optional
        Of the pair. How far each plane can be trusted is added.
    """
    names = [[part.name for part in map_.placed] for map_ in (first, second)]
    if names[0] != names[1]:
        raise ValueError(f"one switch can't serve {names[0]} and {names[1]}: give both maps the same names")
    panels = [*first.panels, *second.panels]
    for panel, map_ in zip(panels, (first, second), strict=True):
        panel.title = map_.title
    said = f"{caption} {_faith(*panels)}".strip()
    return Map(panels, title=title, caption=said, focus=first.focused)


def pick_a_word(
    states: Mapping[str, ArrayLike],
    words: Sequence[str],
    *,
    null: Mapping[str, ArrayLike],
    names: tuple[str, str],
    over: str,
    first: str | None = None,
    compared: Mapping[str, ArrayLike] | None = None,
    planes: tuple[ArrayLike, ArrayLike] | None = None,
    color: Mapping[str, Sequence[Any]] | pd.DataFrame | pd.Series | None = None,
    metric: Metric = "cosine",
    n_neighbors: int = 8,
    focus: str | None = None,
    title: str | Mapping[str, str] = "",
    caption: str = "",
) -> Map:
    """A map to pick a word in, and a slider over an embedding's states; its control stands beside it.

    Search, hover and neighbours are those of :func:`embedding_map`. The states (moments of training, widths,
    modes) share one plane, whose axes stay as the slider moves. Beside it the null is drawn in the same
    states, at the same size.

    Parameters
    ----------
    states : mapping of two names or more to array, shape (V, D)
        One row per word. Where D differs between states, each is turned onto the first one shown (Procrustes)
        and drawn as wide as the others.
    words : sequence of str, length V
        Distinct; earlier words are labelled first.
    null : mapping of the same names to array, shape (V, D)
        What the picture shows of an embedding that knows nothing.
    names : two str
        What stands above the map, and above its null.
    over : str
        Words before the slider, such as "updates".
    first : str, optional
        The state shown at first; by default the last.
    compared : mapping of one text to array, shape (V, D), optional
        Each state's neighbours are compared with those in this embedding; those of both are bold. The text
        ends the sentence "5 are among the 8 nearest ...", such as "before training".
    planes : two arrays, shape (S, V, 2), optional
        Coordinates for each state, of the map and of its null; by default both have the plane of their
        principal components, of all states together.
    color : mapping of name to V values, DataFrame or Series, optional
        As in :func:`embedding_map`; by default all points look alike.
    metric : "cosine" or "euclidean"
        Of neighbours. With "cosine" the rows are scaled to length 1 before they are laid out.
    n_neighbors, focus
        As in :func:`embedding_map`.
    title : str, or mapping of each state's name to str, optional
        The finding; with a mapping it follows the slider.
    caption : str, optional
        Data and seeds. How far the planes of the first state shown can be trusted is added.

    Returns
    -------
    Map

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> made = {f"width {m}": rng.normal(size=(40, m)) for m in (20, 10, 5)}
    >>> words = [f"w{i}" for i in range(40)]
    >>> pick_a_word(made, words, null=made, names=("noise", "noise"), over="width", focus="w0",
    ...             title="Noise has neighbours too", caption="Made vectors.")
    <maps: Noise has neighbours too>
    """
    if len(states) < 2 or list(null) != list(states):
        raise ValueError(
            f"the states {list(states)} must be two or more, and the control's {list(null)} the same"
        )
    if first is not None and first not in states:
        raise ValueError(f"{first!r}, to be shown at first, is none of the states {list(states)}")
    if not isinstance(title, str) and set(title) != set(states):
        raise ValueError(f"titles for {list(title)} don't serve the states {list(states)}: give each its own")
    if compared is not None and len(compared) != 1:
        raise ValueError(f"compared holds {len(compared)} embeddings: give one, under the words that name it")
    words = _distinct(words)
    start = len(states) - 1 if first is None else list(states).index(first)
    former, near = "", None
    if compared:
        ((former, table),) = compared.items()
        near = nearest_neighbors(_checked(table, words, "compared"), n_neighbors, metric=metric)[0]
    panels = []
    for place, (name, given) in enumerate((("states", states), ("null", null))):
        tables = [_checked(table, words, f"{name}[{one!r}]") for one, table in given.items()]
        shown = [_unit(table) for table in tables] if metric == "cosine" else tables
        layout = None if planes is None else check_array(planes[place], "planes", 3)
        if layout is None and len({table.shape[1] for table in shown}) > 1:
            layout = _common_plane(shown, start)
        placed = [
            _placed(one, *nearest_neighbors(table, n_neighbors, metric=metric), points)
            for one, table, points in zip(given, tables, _plane(shown, layout, "planes")[0], strict=True)
        ]
        panels.append(_panel(words, placed, color, title=names[place], named=False))
    titles = [] if isinstance(title, str) else [title[state] for state in states]
    return Map(
        panels,
        title=titles[start] if titles else str(title),
        caption=f"{caption} {_faith(*panels, of=start)}".strip(),
        titles=titles,
        focus=focus,
        told={"over": over, "first": start, "former": former},
        compared=near,
        metric=metric,
    )


def map_of(
    vectors: WordVectors,
    words: Words = 3_000,
    *,
    layout: Literal["neighbors", "pca"] | np.ndarray | None = None,
    color: Color = None,
    center: bool = True,
    focus: str | None = None,
    title: str | None = None,
    seed: int = 0,
    progress: bool = False,
) -> Map:
    """A map of word vectors, or of all tokens of a model, as they come out of a file.

    Parameters
    ----------
    vectors : WordVectors
    words : int, "all", str, re.Pattern, sequence of str, mapping from str to int, or Path
        Which words: so many of the first, the frequent ones in most files; the whole vocabulary; those in
        which a regular expression is found; a list; the words of a count, the most frequent first; the words
        of a text file, the most frequent first. The words of a list, count or text are looked for as they
        are and as the beginning of a word (``▁king`` for king). Words whose vector is zero are left out, and
        counted in the caption.
    layout : "neighbors", "pca" or array of shape (n, 2), optional
        UMAP from nearest neighbours, principal components, or coordinates of the chosen words. By default
        the principal components of a number of first words, and "neighbors" otherwise.
    color : "kind", "region", "length", or mapping from name to values, DataFrame or Series, optional
        What the points are coloured by first; all are among the choices. By default the kind, or the region
        where nine tokens in ten are of one kind.
    center : bool, default True
        Whether the mean of the chosen vectors is subtracted first.
    focus : str, optional
        A word pointed at from the start.
    title : str, optional
        The finding; without it the map says how many words it shows.
    seed : int, default 0
        Of neighbours and layout.
    progress : bool, default False
        Whether bars show how far it is. Interrupted (Ctrl-C), it draws what there is.

    Returns
    -------
    Map

    Raises
    ------
    ValueError
        If fewer than three of the words have vectors, or as :func:`embedding_map` does.
    MissingExtraError
        If a layout by neighbours is asked for, and UMAP is not installed.

    Examples
    --------
    >>> vectors = WordVectors([f"w{i}" for i in range(40)], np.random.default_rng(0).normal(size=(40, 5)))
    >>> map_of(vectors, 30).title
    '30 of 40 tokens'
    """
    if layout is None:
        layout = "pca" if isinstance(words, int) else "neighbors"
    if isinstance(layout, str) and layout not in ("neighbors", "pca"):
        raise ValueError(f'layout is {layout!r}: use "neighbors", "pca", or coordinates')
    chosen = _chosen(vectors, words)
    table = vectors.word if len(chosen) == len(vectors.word) else vectors.word[chosen]
    there = table.any(axis=1)
    if not there.all():
        table, chosen = table[there], chosen[there]
    if len(chosen) < 3:
        raise ValueError(f"{len(chosen)} words with vectors are too few for a map: three are needed")
    if isinstance(layout, str) and layout == "neighbors":
        require("trajectories", "umap", purpose="a layout by neighbours")
    names = [vectors.vocabulary[row] for row in chosen]
    found = find_neighbors(table, min(8, len(names) - 2), center=center, seed=seed, progress=progress)
    points = layout
    if isinstance(layout, str):
        points = _principal_plane(unit_rows(table, center=center))
        if layout == "neighbors":
            points = lay_out_neighbors(found, points, seed=seed, progress=progress)
    lengths = {"length": np.linalg.norm(table, axis=1).tolist()}
    panel = _panel(
        names, [_found("vectors", found, points)], color, more=lengths, whole=vectors.vocabulary, rows=chosen
    )
    parts = [f"{len(names):,} vectors of {table.shape[1]:,} numbers{', less their mean' if center else ''}."]
    if not there.all():
        parts.append(f"{(~there).sum():,} words without a vector are left out.")
    parts.append(_faith(panel))
    if found.recall < 1:
        parts.append(f"{found.recall:.0%} of the nearest were found.")
    whole = len(names) == len(vectors.vocabulary)
    said = f"All {len(names):,} tokens" if whole else f"{len(names):,} of {len(vectors.vocabulary):,} tokens"
    return Map([panel], title=title or said, caption=" ".join(parts), focus=focus)


def map_of_neighbors(
    words: Sequence[str],
    neighbors: Neighbors,
    layout: ArrayLike,
    *,
    control: tuple[Neighbors, ArrayLike] | None = None,
    names: tuple[str, str] = ("vectors", "control"),
    color: Color = None,
    focus: str | None = None,
    title: str | tuple[str, str] = "",
    caption: str = "",
) -> Map:
    """A map of tokens whose neighbours and places are known, such as stored ones, without their vectors.

    Parameters
    ----------
    words : sequence of str, length V
        Tokens as a vocabulary writes them, the most frequent first.
    neighbors : Neighbors
        Of these V tokens.
    layout : array, shape (V, 2)
    control : pair of Neighbors and coordinates (V, 2), optional
        As many neighbours, and places, of the same tokens in a control, such as an untrained table. A switch
        moves the points there.
    names : two str
        What stands beside the switch: the vectors, and the control.
    color, focus, title
        As in :func:`embedding_map`. With a control, two titles are taken, one for each position of the
        switch.
    caption : str

    Returns
    -------
    Map
    """
    words, titles = _distinct(words), [title] if isinstance(title, str) else list(title)
    placed = []
    for name, (found, points) in zip(
        names, [(neighbors, layout), *([control] if control else [])], strict=False
    ):
        if len(found.ids) != len(words):
            raise ValueError(f"{len(words):,} words and the neighbours of {len(found.ids):,}")
        if found.ids.shape[1] != neighbors.ids.shape[1]:
            raise ValueError(f"{neighbors.ids.shape[1]} neighbours, and {found.ids.shape[1]} of the control")
        placed.append(_found(name, found, points))
    said = titles[0] or f"{len(words):,} tokens"
    switched = titles if control and len(titles) > 1 else []
    return Map([_panel(words, placed, color)], title=said, caption=caption, titles=switched, focus=focus)


# --- what all makers do -----------------------------------------------------------------------------


def _distinct(words: Sequence[str]) -> list[str]:
    seen: set[str] = set()
    for word in words:
        if not isinstance(word, str):
            raise ValueError(f"{word!r} is not a word but {type(word).__name__}: give texts")
        if word in seen:
            raise ValueError(f"the word {word!r} comes twice: search could not tell them apart")
        seen.add(word)
    return list(words)


def _checked(vectors: ArrayLike, words: Sequence[str], name: str) -> np.ndarray:
    table = check_array(vectors, name, 2)
    if len(table) != len(words):
        raise ValueError(f"{name} of shape {table.shape} don't give {len(words):,} words a row each")
    if len(words) < 3:
        raise ValueError(f"a map needs 3 words or more, not {len(words):,}")
    return table


def _unit(table: np.ndarray) -> np.ndarray:
    norms = np.linalg.norm(table, axis=1, keepdims=True)
    if not norms.all():
        raise ValueError(f'row {int(np.argmin(norms))} is zero and has no direction: use metric="euclidean"')
    unit: np.ndarray = table / norms
    return unit


def _placed(name: str, near: np.ndarray, distances: np.ndarray, points: np.ndarray) -> Placed:
    kept = neighbors_kept(near, neighbors_in_plane(points, near.shape[1]))
    return Placed(name, points, near, distances, kept)


def _found(name: str, found: Neighbors, points: ArrayLike) -> Placed:
    [plane], _ = _plane([found.ids], points, "layout")
    return _placed(name, found.ids, np.maximum(1 - found.cosines, 0), plane)


def _panel(
    words: list[str],
    placed: list[Placed],
    color: Color,
    *,
    title: str = "",
    scale: float | None = None,
    named: bool = True,
    more: Mapping[str, list[Any]] | None = None,
    whole: Sequence[str] = (),
    rows: np.ndarray | None = None,
) -> Panel:
    """A panel with its columns; if `named`, with regions. `whole` is the vocabulary of which `words` are the
    `rows`: what a token's marks mean can be seen in all of it.
    """
    kinds, shown = token_kinds(whole or words), _shown_names(whole or words)
    if rows is not None:
        kinds, shown = [kinds[row] for row in rows], [shown[row] for row in rows]
    ranks = [0 if kind == WORD else 2 if kind in PLAIN else 1 for kind in kinds]  # words before signs
    panel = Panel(words, placed, shown, np.argsort(ranks, kind="stable"), title, scale=scale)
    known: dict[str, list[Any]] = {}
    if named:
        panel.regions, region = _regions(placed[0], shown, kinds)
        known = {"kind": kinds, "region": region}
        if Counter(kinds).most_common(1)[0][1] >= ONE_KIND * len(words):
            known = {"region": region, "kind": kinds}
        known = {name: values for name, values in known.items() if len(set(values)) > 1}
    known |= more or {}
    if isinstance(color, str):
        if color not in known:
            choices = ", ".join(known) or "nothing to choose"
            raise ValueError(f"color is {color!r}: use a column of values, or one of {choices}")
        color = {color: known[color]}
    given = {} if color is None else color_columns(color, len(words))
    panel.columns = given | {name: values for name, values in known.items() if name not in given}
    return panel


def color_columns(color: Any, n_words: int) -> dict[str, list[Any]]:
    """Columns to colour by, as plain lists: of texts where they name kinds, of numbers otherwise."""
    if isinstance(color, pd.Series):
        color = {str(color.name or "colour"): color}
    columns: dict[str, list[Any]] = {}
    for name, values in color.items():
        column = pd.Series(list(values))
        if len(column) != n_words:
            raise ValueError(f"the column {name!r} has {len(column):,} values for {n_words:,} words")
        if column.isna().any():
            raise ValueError(f"the column {name!r} has missing values: name them, or leave the words out")
        numeric = pd.api.types.is_numeric_dtype(column) and not pd.api.types.is_bool_dtype(column)
        if numeric and not np.isfinite(column.to_numpy(dtype=float)).all():
            raise ValueError(f"the column {name!r} has an infinite value")
        columns[str(name)] = (column.astype(float) if numeric else column.map(str)).tolist()
    return columns


def _faith(*panels: Panel, of: int | None = None) -> str:
    """How far the plane can be trusted: the true neighbours that a word keeps in it, and by chance."""
    said = []
    for panel in panels:
        V, k = panel.placed[0].near.shape
        parts = panel.placed if of is None else [panel.placed[of]]
        kept = " and ".join(
            f"{k * part.kept.mean():.1f}{f' ({part.name})' if len(panel.placed) > 1 else ''}"
            for part in parts
        )
        where = f"{panel.title}: on" if len(panels) > 1 else "On"
        said.append(
            f"{where} the map a word keeps {kept} of its {k} nearest; by chance {k * k / (V - 1):.2g}."
        )
    return " ".join(said)


# --- the plane --------------------------------------------------------------------------------------


def _plane(
    tables: Sequence[np.ndarray], layout: ArrayLike | None, name: str
) -> tuple[list[np.ndarray], float]:
    """Whole coordinates (V, 2) of each embedding, all in one plane, and the length of their step."""
    V = len(tables[0])
    if layout is None:
        points = _principal_plane(np.concatenate(tables))
    else:
        given = check_array(layout, name)
        if given.shape not in {(V, 2)} | ({(len(tables), V, 2)} if len(tables) > 1 else set()):
            raise ValueError(
                f"{name}: coordinates of shape {given.shape} don't place {len(tables)} x {V:,} points"
            )
        points = np.concatenate([given.reshape(-1, 2)] * (1 if given.ndim == 3 else len(tables)))
    points = points - (points.max(axis=0) + points.min(axis=0)) / 2
    span = np.abs(points).max()
    if span == 0:
        raise ValueError(f"{name}: all points lie in one place, there is nothing to see")
    whole = np.rint(points * (HALF_SPAN / span)).astype(np.int32)
    return [whole[place * V : (place + 1) * V] for place in range(len(tables))], float(span / HALF_SPAN)


def _principal_plane(table: np.ndarray) -> np.ndarray:
    """Coordinates on the two main axes of the rows, or of 15,000 of them at equal steps."""
    mean = table.mean(axis=0, dtype=np.float64)
    some = table[:: -(-len(table) // SAMPLE)] - mean
    _, axes = np.linalg.eigh(some.T @ some)  # rising
    points = (table @ axes[:, :-3:-1].astype(table.dtype)).astype(float) - mean @ axes[:, :-3:-1]
    points = np.pad(points, ((0, 0), (0, 2 - points.shape[1])))
    extreme = points[np.abs(points).argmax(axis=0), [0, 1]]
    signed: np.ndarray = points * np.where(extreme < 0, -1, 1)
    return signed


def _common_plane(tables: list[np.ndarray], start: int) -> np.ndarray:
    """Coordinates (S, V, 2) of tables that differ in D: turned onto one of them, all equally wide."""
    onto = tables[start] - tables[start].mean(axis=0)
    turned = []
    for table in tables:
        centered = table - table.mean(axis=0)
        turned.append(centered @ procrustes_map(onto, centered))
    planes = _principal_plane(np.concatenate(turned)).reshape(len(tables), -1, 2)
    scaled: np.ndarray = planes / np.linalg.norm(planes, axis=(1, 2), keepdims=True)
    return scaled


# --- regions and their names ------------------------------------------------------------------------


def _regions(placed: Placed, shown: list[str], kinds: list[str]) -> tuple[list[dict[str, Any]], list[str]]:
    """Regions of the layout that have a name, the largest first, and the name of each point's region."""
    from scipy.spatial import cKDTree
    from sklearn.cluster import HDBSCAN

    V, plane = len(shown), placed.plane.astype(float)
    region = [OTHERS] * V
    sample = np.unique(np.linspace(0, V - 1, min(V, SAMPLE)).astype(int))
    least = max(LEAST_SIZE, round(LEAST_SHARE * len(sample)))
    if 3 * least > V:
        return [], region
    # Among equal distances the sort of the processor at hand would choose: no two are equal after this.
    apart = np.random.default_rng(0).uniform(-0.4, 0.4, size=(len(sample), 2))
    most = max(MOST_SIZE, round(MOST_SHARE * len(sample)))
    found = HDBSCAN(min_cluster_size=least, max_cluster_size=most, min_samples=5, copy=True)
    labels = found.fit(plane[sample] + apart).labels_
    if len(sample) < V:
        labels = labels[cKDTree(plane[sample]).query(plane)[1]]
    regions: dict[str, dict[str, Any]] = {}
    for label in np.argsort(-np.bincount(labels[labels >= 0]), kind="stable") if labels.max() >= 0 else ():
        rows = np.flatnonzero(labels == label)
        text = _region_name(rows, placed.near, shown, kinds)
        if not text:
            continue
        x, y = np.median(plane[rows], axis=0)
        regions.setdefault(text, {"text": text, "x": int(x), "y": int(y)})
        for row in rows:
            region[row] = text
    return list(regions.values()), region


def _region_name(rows: np.ndarray, near: np.ndarray, shown: list[str], kinds: list[str]) -> str:
    """What a region may be called: its kind of token, or its two most central frequent words; "" if it is
    not pure.

    It is pure where the neighbours of its words lie in it too, in the full space, and where these two words
    are neighbours or share one. A word is as central as the region's words have it among their neighbours.
    """
    V = len(near)
    inside = np.zeros(V, dtype=bool)
    inside[rows] = True
    if inside[near[rows]].mean() < PURE:
        return ""
    kind, n = Counter(kinds[row] for row in rows).most_common(1)[0]
    if kind != WORD:
        return kind if n >= ONE_KIND * len(rows) else ""
    if n < MOSTLY_WORDS * len(rows):
        return ""
    named = np.bincount(near[rows].ravel(), minlength=V)
    frequent = rows[: max(LEAST_SIZE, len(rows) // 2)][:CANDIDATES]
    whole = [row for row in frequent if kinds[row] == WORD and len(shown[row]) > 2]
    chosen: dict[str, int] = {}  # by their beginnings: "vote" and "votes" say one thing
    for row in sorted(whole, key=lambda row: -named[row]):
        chosen.setdefault(shown[row][:4].lower(), row)
    first = list(chosen.values())[:2]
    if len(first) < 2 or min(first) < min(COMMON, V // 100):
        return ""
    one, other = ({row, *near[row]} for row in first)
    if not one & other:
        return ""
    return ", ".join(shown[row] for row in first)


# --- which words ------------------------------------------------------------------------------------


def _chosen(vectors: WordVectors, words: Words) -> np.ndarray:
    """Rows of the chosen words, in the order in which they are labelled."""
    if isinstance(words, str) and words == "all":
        return np.arange(len(vectors.vocabulary))
    if isinstance(words, int):
        return np.arange(min(check_int(words, "words", 1), len(vectors.vocabulary)))
    texts = token_texts(vectors.vocabulary)
    if isinstance(words, str | re.Pattern):
        try:
            pattern = re.compile(words)
        except re.error as error:
            raise ValueError(f"{words!r} is no regular expression: {error}") from error
        rows = [row for row, text in enumerate(texts) if pattern.search(text.removeprefix(" "))]
        if not rows:
            raise ValueError(f"no token matches {pattern.pattern!r}")
        return np.array(rows)
    if isinstance(words, Path):
        words = Counter(re.findall(r"\w+", words.read_text(encoding="utf-8")))
    listed = words if not isinstance(words, Mapping) else [word for word, _ in Counter(words).most_common()]
    beginning = {text[1:]: row for row, text in enumerate(texts) if text.startswith(" ")}
    rows = [vectors.index.get(word, beginning.get(word, -1)) for word in listed]
    if listed and max(rows) < 0:
        raise ValueError(
            f"none of the {len(rows):,} words is in the vocabulary, such as {next(iter(listed))!r}"
        )
    return np.array(list(dict.fromkeys(row for row in rows if row >= 0)), dtype=np.int64)


def _shown_names(words: Sequence[str]) -> list[str]:
    """Distinct names without a tokenizer's marks: a word's beginning is bare, a piece inside has a hyphen."""
    texts = token_texts(words)
    marked = any(text.startswith(" ") for text in texts)
    seen: set[str] = set()
    names = []
    for word, text in zip(words, texts, strict=True):
        name = text
        if marked and text.startswith(" ") and text.strip():
            name = text[1:]
        elif marked and text[:1].isalpha() and text[:1].isascii():
            name = f"-{text}"
        while name in seen:
            name = f"{name} ({word})" if f"({word})" not in name else f"{name}'"
        seen.add(name)
        names.append(name)
    return names


# --- what goes into the page ------------------------------------------------------------------------


def _packed_column(name: str, values: list[Any], on_map: set[str]) -> tuple[dict[str, Any], np.ndarray]:
    """What the script is told of a column, and a byte for each word; `on_map` are the names of regions."""
    if not isinstance(values[0], str):
        numbers = np.array(values, dtype=float)
        low, high = float(numbers.min()), float(numbers.max())
        steps = np.rint((numbers - low) / ((high - low) or 1) * 255)
        return {"name": name, "low": float(f"{low:.3g}"), "high": float(f"{high:.3g}")}, steps
    kinds = [kind for kind, _ in Counter(values).most_common() if kind != OTHERS]
    named = set(kinds) == on_map
    kinds = kinds[: 255 if named else N_SHOWN_KINDS]
    place = {kind: at for at, kind in enumerate(kinds)}
    steps = np.array([place.get(value, len(kinds)) for value in values])
    if steps.max() == len(kinds):
        kinds.append(OTHERS)
    return {"name": name, "kinds": kinds, "counts": np.bincount(steps).tolist(), "on_map": named}, steps


def _low_bytes_first(numbers: np.ndarray, n_bytes: int) -> bytes:
    """Whole numbers as all their low bytes, then the next ones: the high ones are alike and shrink."""
    integers = np.asarray(numbers).ravel().astype(np.int64)
    return b"".join(((integers >> (8 * place)) & 255).astype(np.uint8).tobytes() for place in range(n_bytes))


def _twin(panel: Panel, first: int, *, title: str) -> alt.Chart:
    """The map for viewers without our script: the words that are labelled first."""
    rows = panel.order[:TWIN_WORDS]
    points = panel.placed[first].plane[rows]
    words = pd.DataFrame(
        {"word": [panel.shown[row] for row in rows], "x": points[:, 0].tolist(), "y": points[:, 1].tolist()}
    )
    side = 300 if title else 480
    names = alt.Chart(words, title=title or alt.Undefined).mark_text(fontSize=9)
    place = {"x": alt.X("x:Q", axis=None), "y": alt.Y("y:Q", axis=None)}
    return names.encode(**place, text="word:N").properties(width=side, height=side)
