"""Maps of embeddings: thousands of words as points, with neighbours that the plane may have lost.

An :class:`EmbeddingMap` puts words into a plane and says of each how far it can be trusted there: which
words are nearest *in the full space*, and how many of them are nearest in the plane too. One declaration is
drawn by one script on a plain canvas, in the notebook and in the static book. Without a GPU it zoomed 5,000
points at 31 to 41 frames a second, where regl-scatterplot and deck.gl drew 4 to 5; it has a tenth of their
weight, and it needs no WebGL.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import altair as alt
import numpy as np
import pandas as pd
import traitlets
from numpy.typing import ArrayLike

from embviz.arrays import check_array
from embviz.metrics import nearest_neighbors, neighbors_kept, procrustes_map
from embviz.view import theme
from embviz.view.named_tables import short_repr
from embviz.view.pages import map_script, portable, script, style
from embviz.view.pictures import Picture

Metric = Literal["cosine", "euclidean"]

HALF_SPAN = 5_000  # steps from the plane's middle to its farthest point: coordinates are whole numbers
SIZE_LIMIT = 2_000_000  # bytes of JSON: what a page may weigh
WORD_LIMIT = 20_000
TWIN_LABELS = 60  # in viewers that aren't ours
KEPT = "neighbours kept"
DISTANCES = {"cosine": "cosine distance", "euclidean": "Euclidean distance"}


@dataclass(frozen=True, eq=False)
class Placed:
    """One embedding of the words: its 2-D map, and its neighbours in all dimensions."""

    name: str  # what it is called beside others of the same words
    plane: np.ndarray  # (V, 2), whole steps from -5,000 to 5,000: a stored page is the same everywhere
    near: np.ndarray  # (V, k), rows nearest in the full space, nearest first
    distances: np.ndarray  # (V, k), how far they are there
    kept: np.ndarray  # (V,), share of them that are among the k nearest in the plane


@dataclass(frozen=True, eq=False)
class States:
    """What a map needs whose embeddings are one embedding in several states, chosen by a slider."""

    over: str  # words before the slider
    first: int  # the state shown at first
    former: str = ""  # what neighbours are compared with: the end of "5 are among the 8 nearest ..."
    near: np.ndarray | None = None  # (V, k), the rows nearest there


class MapPicture(Picture):
    """What one map and two share. The widget asks the kernel nothing, so it stays alive without one.

    Attributes
    ----------
    selected : list of str
        The words that are chosen: a click chooses one, and a click with the shift key adds one or takes it
        away. The last one's neighbours are shown. Setting it chooses words in the page, and a word that is
        not on the map raises ``traitlets.TraitError``. ``map.observe(function, "selected")`` calls a function
        at every choice.
    """

    _esm = script("explorer.js") + map_script() + "\nexport default { render: renderMaps };\n"
    _css = style("explorer.css", "embedding_maps.css")
    selected = traitlets.List(traitlets.Unicode(), help="the words that are chosen").tag(sync=True)

    def _maps(self) -> Sequence[EmbeddingMap]:
        raise NotImplementedError

    @traitlets.default("spec")
    def _first_spec(self) -> dict[str, Any]:
        return self.static_spec()

    @traitlets.default("selected")
    def _first_selected(self) -> list[str]:
        return [map_.focused for map_ in self._maps() if map_.focused is not None][:1]

    @traitlets.validate("selected")
    def _known_words(self, proposal: Any) -> list[str]:
        known = {word for map_ in self._maps() for word in map_.words}
        words: list[str] = list(dict.fromkeys(proposal["value"]))
        unknown = [word for word in words if word not in known]
        if unknown:
            raise traitlets.TraitError(f"{unknown[0]!r} is not among the {len(known):,} words of this map")
        return words


class EmbeddingMap(MapPicture):
    """A map made by :func:`embedding_map`; shows itself in a notebook and in the book.

    Attributes
    ----------
    selected : list of str
        The words that are chosen, as in :class:`MapPicture`.
    words : list of str, length V
    placed : list of Placed
        One, or two of the same words, or one in each of `states`.
    columns : dict from name to list
        To colour by.
    faith : str
        How far the plane can be trusted, in a sentence; stands at the end of the caption.
    scale : float or None
        The vectors' units in a step of the plane, where the plane has a unit.
    states : States or None
    """

    def __init__(
        self,
        words: list[str],
        placed: list[Placed],
        columns: dict[str, list[Any]],
        *,
        title: str = "",
        caption: str = "",
        faith: str = "",
        metric: Metric = "cosine",
        scale: float | None = None,
        focus: str | None = None,
        states: States | None = None,
    ) -> None:
        self.states = states
        self.words, self.placed, self.columns, self.scale = words, placed, columns, scale
        self.title, self.faith = title, faith
        self.caption = f"{caption} {faith[:1].upper()}{faith[1:]}".strip()
        self.metric, self.focused = metric, focus
        super().__init__()

    def __repr__(self) -> str:
        return short_repr("map", self.title)

    def _maps(self) -> Sequence[EmbeddingMap]:
        return [self]

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
        """Vega-Lite specification that our script draws as a map, and other viewers as a scatter chart.

        Raises
        ------
        ValueError
            If it takes more than 2 MB of JSON; the message has the number.
        """
        return _specification([self], title=self.title, caption=self.caption)


class SideBySide(MapPicture):
    """Two maps made by :func:`side_by_side`: a word pointed at in one is pointed at in both.

    Of :func:`pick_a_word` the second stands below the first, and `titles` has a title for each state.
    """

    def __init__(
        self,
        maps: Sequence[EmbeddingMap],
        *,
        title: str = "",
        caption: str = "",
        titles: Sequence[str] = (),
    ) -> None:
        self.maps, self.title, self.caption, self.titles = list(maps), title, caption, list(titles)
        super().__init__()

    def __repr__(self) -> str:
        return short_repr("maps", self.title)

    def _maps(self) -> Sequence[EmbeddingMap]:
        return self.maps

    def static_spec(self) -> dict[str, Any]:
        """As :meth:`EmbeddingMap.static_spec`, the maps beside each other."""
        spec = _specification(self.maps, title=self.title, caption=self.caption)
        if self.titles:
            spec["usermeta"]["embviz"]["titles"] = self.titles
        return spec


# --- making a map -----------------------------------------------------------------------------------


def embedding_map(
    vectors: ArrayLike,
    words: Sequence[str],
    *,
    other: ArrayLike | None = None,
    names: Sequence[str] = ("vectors", "other vectors"),
    color: Mapping[str, Sequence[Any]] | pd.DataFrame | pd.Series | None = None,
    layout: ArrayLike | None = None,
    n_neighbors: int = 8,
    focus: str | None = None,
    title: str = "",
    caption: str = "",
) -> EmbeddingMap:
    """Words as points in a plane, with their nearest neighbours in the full space.

    Parameters
    ----------
    vectors : array, shape (V, D)
        One row per word, none of zeros.
    words : sequence of str, length V
        Distinct, 3 to 20,000. Where labels don't all fit, earlier words are labelled first: give frequent
        words first.
    other : array, shape (V, D), optional
        A second embedding of the same words: context vectors, output rows, the vectors after training. A
        switch shows the one, the other, or both joined by lines.
    names : two str
        What the embeddings are called.
    color : mapping of name to V values, DataFrame or Series, optional
        Columns to colour by, one at a time, the first of them from the start: up to five kinds (told apart by
        shape too), or numbers. By default five clusters of the vectors (k-means), each named by its most
        central word. The share of neighbours kept is always among the choices.
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
    EmbeddingMap

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> map_ = embedding_map(rng.normal(size=(40, 5)), [f"w{i}" for i in range(40)],
    ...                      title="Noise has neighbours too", caption="Made vectors.")
    >>> map_.neighbors("w0").shape
    (8, 3)
    """
    tables = [_checked(vectors, words, "vectors")]
    if other is not None:
        tables.append(_checked(other, words, "other"))
    words = _distinct(words)
    if tables[0].shape[1] != tables[-1].shape[1] and layout is None:
        raise ValueError("the embeddings differ in dimension, so they share no plane: give coordinates")
    if focus is not None and focus not in words:
        raise ValueError(f"{focus!r}, to be pointed at first, is not among the words")
    shown = [_unit(table) for table in tables]
    plane, step = _plane(shown, layout)
    placed = [
        _placed(name, table, points, "cosine", n_neighbors)
        for name, table, points in zip(names, tables, plane, strict=False)
    ]
    return EmbeddingMap(
        words,
        placed,
        color_columns(_clusters(shown[0], words) if color is None else color, len(words)),
        title=title,
        caption=caption,
        faith=_faith(placed, shown, layout),
        scale=step if layout is None else None,
        focus=focus,
    )


def side_by_side(
    first: EmbeddingMap, second: EmbeddingMap, *, title: str = "", caption: str = ""
) -> SideBySide:
    """Two maps with one search and one switch: what is pointed at in one is shown in both.

    Parameters
    ----------
    first, second : EmbeddingMap
        Their titles stand above them; words they share are linked. Their embeddings have the same names.
    title, caption : str, optional
        Of the pair. How far each plane can be trusted is added.
    """
    names = [[part.name for part in map_.placed] for map_ in (first, second)]
    if names[0] != names[1]:
        raise ValueError(f"one switch can't serve {names[0]} and {names[1]}: give both maps the same names")
    faith = " ".join(f"{map_.title}: {map_.faith}" for map_ in (first, second))
    return SideBySide([first, second], title=title, caption=f"{caption} {faith}".strip())


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
) -> SideBySide:
    """A map to pick a word in, and a slider over an embedding's states; its control stands below it.

    Search, hover and neighbours are those of :func:`embedding_map`. The states (moments of training, widths,
    modes) share one plane, whose axes stay as the slider moves. Below it the null is drawn in the same
    states.

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
    color, n_neighbors, focus
        As in :func:`embedding_map`.
    metric : "cosine" or "euclidean"
        Of neighbours. With "cosine" the rows are scaled to length 1 before they are laid out.
    title : str, or mapping of each state's name to str, optional
        The finding; with a mapping it follows the slider.
    caption : str, optional
        Data and seeds. How far the planes can be trusted is added.

    Returns
    -------
    SideBySide

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
    words = _distinct(words)
    if focus is not None and focus not in words:
        raise ValueError(f"{focus!r}, to be pointed at first, is not among the words")
    start = len(states) - 1 if first is None else list(states).index(first)
    if compared is not None and len(compared) != 1:
        raise ValueError(f"compared holds {len(compared)} embeddings: give one, under the words that name it")
    than, near = "", None
    if compared:
        ((than, table),) = compared.items()
        near = nearest_neighbors(_checked(table, words, "compared"), n_neighbors, metric=metric)[0]
    shown = States(over, start, than, near)
    maps = []
    for place, (name, given) in enumerate(zip(names, ("states", "null"), strict=True)):
        tables = states if given == "states" else null
        checked_ = {one: _checked(table, words, f"{given}[{one!r}]") for one, table in tables.items()}
        layout = None if planes is None else check_array(planes[place], "planes", 3)
        placed, faith = _in_states(checked_, start, layout, metric, n_neighbors)
        maps.append(
            EmbeddingMap(
                words,
                placed,
                color_columns(color, len(words)),
                title=name,
                caption="",
                faith=faith,
                metric=metric,
                focus=focus,
                states=shown,
            )
        )
    titles = [] if isinstance(title, str) else [title[state] for state in states]
    faith = " ".join(f"{map_.title}: {map_.faith}" for map_ in maps)
    sentence = titles[start] if titles else str(title)
    return SideBySide(maps, title=sentence, caption=f"{caption} {faith}".strip(), titles=titles)


def _in_states(
    tables: dict[str, np.ndarray], start: int, layout: Any, metric: Metric, k: int
) -> tuple[list[Placed], str]:
    """The states of one embedding in one plane, and how far that can be trusted."""
    given = list(tables.values())
    shown = [_unit(table) if metric == "cosine" else table for table in given]
    if layout is None and len({table.shape[1] for table in shown}) > 1:
        layout = _common_plane(shown, start)
    plane, _ = _plane(shown, layout, "planes")
    placed = [
        _placed(name, table, points, metric, k)
        for name, table, points in zip(tables, given, plane, strict=True)
    ]
    kept = [f"{part.kept.mean():.0%}" for part in placed]
    ends = sorted({kept[0], kept[-1]}, key=[kept[0], kept[-1]].index)
    return placed, (
        f"of {k} true neighbours the 2-D map keeps {' to '.join(ends)} from the first state to the last, a "
        f"random layout {k / (len(given[0]) - 1):.1%}."
    )


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


def _placed(name: str, table: np.ndarray, points: np.ndarray, metric: Metric, k: int) -> Placed:
    near, distances = nearest_neighbors(table, k, metric=metric)
    kept = neighbors_kept(near, nearest_neighbors(points, k)[0])
    return Placed(name, points, near, distances, kept)


def _checked(vectors: ArrayLike, words: Sequence[str], name: str) -> np.ndarray:
    table = check_array(vectors, name, 2)
    if len(table) != len(words):
        raise ValueError(f"{name} of shape {table.shape} don't give {len(words):,} words a row each")
    if len(words) < 3 or len(words) > WORD_LIMIT:
        raise ValueError(f"a map needs 3 to {WORD_LIMIT:,} words, not {len(words):,}")
    return table


def _distinct(words: Sequence[str]) -> list[str]:
    seen: set[str] = set()
    for word in words:
        if not isinstance(word, str):
            raise ValueError(f"{word!r} is not a word but {type(word).__name__}: give texts")
        if word in seen:
            raise ValueError(f"the word {word!r} comes twice: search could not tell them apart")
        seen.add(word)
    return list(words)


def _unit(table: np.ndarray) -> np.ndarray:
    norms = np.linalg.norm(table, axis=1, keepdims=True)
    if not norms.all():
        raise ValueError(f'row {int(np.argmin(norms))} is zero and has no direction: use metric="euclidean"')
    unit: np.ndarray = table / norms
    return unit


# --- the plane --------------------------------------------------------------------------------------


def _plane(
    tables: list[np.ndarray], layout: ArrayLike | None, name: str = "layout"
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
    whole = np.rint(points * (HALF_SPAN / span)).astype(int)
    return [whole[place * V : (place + 1) * V] for place in range(len(tables))], float(span / HALF_SPAN)


def _principal_plane(table: np.ndarray) -> np.ndarray:
    centered = table - table.mean(axis=0)
    _, axes = np.linalg.eigh(centered.T @ centered)  # rising
    points = centered @ axes[:, :-3:-1]
    points = np.pad(points, ((0, 0), (0, 2 - points.shape[1])))
    extreme = points[np.abs(points).argmax(axis=0), [0, 1]]
    signed: np.ndarray = points * np.where(extreme < 0, -1, 1)
    return signed


def _faith(placed: list[Placed], tables: list[np.ndarray], layout: ArrayLike | None) -> str:
    """How far the plane can be trusted, in a sentence."""
    V, k = placed[0].near.shape
    whose = [f" ({part.name})" if len(placed) > 1 else "" for part in placed]
    kept = " and ".join(f"{part.kept.mean():.0%}{name}" for part, name in zip(placed, whose, strict=True))
    words = f"of {k} true neighbours the 2-D map keeps {kept}, a random layout {k / (V - 1):.1%}; "
    if layout is None:
        table = np.concatenate(tables)
        centered = table - table.mean(axis=0)
        spread = np.linalg.eigvalsh(centered.T @ centered)  # rising
        return f"{words}it keeps {spread[-2:].sum() / spread.sum():.0%} of the variance."
    strains = [f"{stress(table, part.plane):.2f}" for table, part in zip(tables, placed, strict=True)]
    return f"{words}relative error of its distances {' and '.join(strains)} (Kruskal's stress)."


def stress(table: ArrayLike, points: ArrayLike) -> float:
    """Kruskal's first stress of a layout, at the layout's best scale: 0 keeps all distances.

    Of tables with more than 1,000 rows so many are looked at, at equal steps.

    Parameters
    ----------
    table : array, shape (V, D)
    points : array, shape (V, 2)

    Returns
    -------
    float, from 0 to 1

    Source
    ------
    Kruskal (1964), stress formula 1, with distances themselves in place of their monotone fit.
    """
    from scipy.spatial.distance import pdist

    table, points = check_array(table, "table", 2), check_array(points, "points", 2)
    if len(table) != len(points):
        raise ValueError(f"table has {len(table)} rows and points {len(points)}: give each row a point")
    rows = np.unique(np.linspace(0, len(table) - 1, min(1_000, len(table))).astype(int))
    true, shown = pdist(table[rows]), pdist(points[rows])
    if not true.any():
        raise ValueError("all rows of table are the same: there is no distance to keep")
    if not shown.any():
        return 1.0
    scale = (true @ shown) / (shown @ shown)
    return float(np.sqrt(((true - scale * shown) ** 2).sum() / (true**2).sum()))


# --- colours ----------------------------------------------------------------------------------------

CLUSTERED = 20_000  # rows, at most, from which the clusters are computed; the others join the nearest


def _clusters(table: np.ndarray, words: Sequence[str]) -> dict[str, list[str]]:
    """Clusters of vectors by k-means, as many as there are looks, each named by its most central word."""
    from sklearn.cluster import KMeans

    table = np.round(table / (np.abs(table).max() or 1), 9)  # the same clusters on every machine
    rows = table[np.unique(np.linspace(0, len(table) - 1, min(CLUSTERED, len(table))).astype(int))]
    n_clusters = min(len(theme.CATEGORIES), len(np.unique(rows, axis=0)))
    means = KMeans(n_clusters, n_init=1, random_state=0).fit(rows)
    names = [f"near {words[place][:20]}" for place in means.transform(table).argmin(axis=0)]
    return {"cluster": [names[label] for label in means.predict(table)]}


def color_columns(
    color: Any, n_words: int, *, most_kinds: int = len(theme.CATEGORIES)
) -> dict[str, list[Any]]:
    """Columns to colour by, as plain lists: of texts where they name kinds, of numbers otherwise."""
    if color is None:
        return {}
    if isinstance(color, pd.Series):
        color = {str(color.name or "colour"): color}
    columns: dict[str, list[Any]] = {}
    for name, values in color.items():
        column = pd.Series(list(values))
        if len(column) != n_words:
            raise ValueError(f"the column {name!r} has {len(column):,} values for {n_words:,} words")
        if column.isna().any():
            raise ValueError(f"the column {name!r} has missing values: name them, or leave the words out")
        if pd.api.types.is_numeric_dtype(column) and not pd.api.types.is_bool_dtype(column):
            if not np.isfinite(column.to_numpy(dtype=float)).all():
                raise ValueError(f"the column {name!r} has an infinite value")
            columns[str(name)] = [float(f"{value:.3g}") for value in column]
            continue
        kinds = column.map(str)
        if kinds.nunique() > most_kinds:
            raise ValueError(
                f"the column {name!r} has {kinds.nunique()} kinds, but only {most_kinds} looks "
                "that everybody can tell apart: join the rarer ones into one kind"
            )
        columns[str(name)] = kinds.tolist()
    return columns


# --- what goes into the page --------------------------------------------------------------------------


def _specification(maps: Sequence[EmbeddingMap], *, title: str, caption: str) -> dict[str, Any]:
    parts = [_twin(map_, title=map_.title if len(maps) > 1 else "") for map_ in maps]
    chart = parts[0] if len(maps) == 1 else alt.hconcat(*parts)
    spec = theme.captioned(chart, finding=title, caption=caption).to_dict()
    for place, map_ in enumerate(maps):
        view = spec if len(maps) == 1 else spec["hconcat"][place]
        view["data"] = {"name": f"words{place}", "values": [_row(map_)]}
    spec["description"] = f"{title}. {caption}" if title else caption
    spec["usermeta"]["embviz"]["maps"] = [_about(map_) for map_ in maps]
    spec["usermeta"]["embviz"]["look"] = {
        "categories": list(theme.CATEGORIES),
        "shapes": list(theme.SHAPES),
        "ramp": list(theme.RAMP),
    }
    spec = portable(spec)
    size = len(json.dumps(spec))
    if size > SIZE_LIMIT:
        raise ValueError(
            f"the map {title!r} takes {size:,} bytes, more than a page's {SIZE_LIMIT:,}: show fewer words, "
            "fewer neighbours of each, or one embedding"
        )
    return spec


def _row(map_: EmbeddingMap) -> dict[str, list[Any]]:
    """All of a map's columns as lists, the one row of its data."""
    row: dict[str, list[Any]] = {"word": map_.words}
    k = map_.placed[0].near.shape[1]
    for place, part in enumerate(map_.placed):
        row[f"x{place}"], row[f"y{place}"] = part.plane[:, 0].tolist(), part.plane[:, 1].tolist()
        row[f"kept{place}"] = np.rint(part.kept * k).astype(int).tolist()
    return row | {f"column{place}": values for place, values in enumerate(map_.columns.values())}


def _about(map_: EmbeddingMap) -> dict[str, Any]:
    """What the script needs beside the columns; neighbours in base64, two bytes each."""
    unit = max(float(part.distances.max()) for part in map_.placed) / 65_535 or 1.0
    about: dict[str, Any] = {
        "title": map_.title,
        "names": [part.name for part in map_.placed],
        "columns": [_about_column(name, values) for name, values in map_.columns.items()],
        "focus": map_.focused or "",
        "distance": DISTANCES[map_.metric],
        "n_neighbors": map_.placed[0].near.shape[1],
        "near": [_packed(part.near) for part in map_.placed],
        "far": [_packed(np.rint(part.distances / unit)) for part in map_.placed],
        "unit": float(f"{unit:.9g}"),
        "scale": None if map_.scale is None else float(f"{map_.scale:.4g}"),
    }
    if (states := map_.states) is not None:
        near = None if states.near is None else _packed(states.near)
        about |= {"over": states.over, "first": states.first, "former": states.former, "compared": near}
    return about


def _about_column(name: str, values: list[Any]) -> dict[str, Any]:
    if isinstance(values[0], str):
        return {"name": name, "kinds": list(dict.fromkeys(values))}
    return {"name": name, "low": min(values), "high": max(values)}


def _packed(numbers: np.ndarray) -> str:
    return base64.b64encode(numbers.astype("<u2").tobytes()).decode("ascii")


def _twin(map_: EmbeddingMap, *, title: str) -> alt.LayerChart:
    """The map for viewers without our script: points with words on hover, the first words labelled."""
    ends = [-1.05 * HALF_SPAN, 1.05 * HALF_SPAN]
    place = {axis: f"{axis}{map_.states.first if map_.states else 0}:Q" for axis in "xy"}
    base = alt.Chart(alt.NamedData("words")).encode(
        x=alt.X(place["x"], axis=None).scale(domain=ends), y=alt.Y(place["y"], axis=None).scale(domain=ends)
    )
    points = base.mark_point(opacity=0.6, size=12).encode(tooltip=[alt.Tooltip("word:N", title="word")])
    first = base.transform_window(row="row_number()").transform_filter(f"datum.row <= {TWIN_LABELS}")
    side = 300 if title else 480
    chart = alt.layer(points, first.mark_text(dy=-7, fontSize=10).encode(text="word:N"))
    chart = chart.properties(width=side, height=side, **({"title": title} if title else {}))
    flat: alt.LayerChart = chart.transform_flatten(list(_row(map_)))  # type: ignore[arg-type, assignment]
    return flat
