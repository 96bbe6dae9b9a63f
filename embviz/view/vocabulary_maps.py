"""The map of a whole vocabulary: hundreds of thousands of tokens in one page, by kind and by region.

A :class:`VocabularyMap` is an :class:`~embviz.view.embedding_maps.EmbeddingMap` whose numbers travel packed
(gzip, 23 bytes a token), and whose points are written into the pixels of a plain canvas, so that it needs no
WebGL.
"""

from __future__ import annotations

import base64
import gzip
import json
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import altair as alt
import numpy as np
import pandas as pd
import traitlets

from embviz.arrays import check_array, check_int
from embviz.corpora.tokens import token_kinds, token_texts
from embviz.imports import require
from embviz.metrics import neighbors_kept
from embviz.neighbors import (
    Neighbors,
    find_neighbors,
    lay_out_neighbors,
    neighbors_in_plane,
    unit_rows,
)
from embviz.view import theme
from embviz.view.embedding_maps import SIZE_LIMIT, EmbeddingMap, Placed, color_columns, embedding_map
from embviz.view.pages import MIME, portable
from embviz.words.wordvectors import WordVectors

Words = int | Literal["all"] | str | re.Pattern[str] | Sequence[str] | Mapping[str, int] | Path
HALF = 32_767  # steps from the plane's middle to its farthest point
N_SHOWN_KINDS = 15  # beside "other"
TWIN_WORDS = 400  # in viewers without our script
SAMPLE = 15_000  # points among which regions are looked for
LEVELS = (0.02, 0.003)  # least share of the points in a region: of continents, of regions
ONE_KIND = 0.9  # share of the tokens of one kind from which kinds are no colour
CANDIDATES = 200  # most frequent tokens of a region among which its names are chosen
PLAIN = {"special", "unused", "byte", "white space", "punctuation", "digit"}  # named after all others
# The theme's colours, then others that can be seen on white and on black.
PALETTE = (
    "#0072B2", "#D55E00", "#009E73", "#CC79A7", "#B8860B", "#6A5ACD", "#8C564B", "#17A2B8", "#C2185B",
    "#7A9A01", "#4682B4", "#E07A5F", "#2E8B57", "#A0522D", "#9467BD", "#8A8A8A",
)  # fmt: skip


class VocabularyMap(EmbeddingMap):
    """A map made by :func:`map_of`; shows itself in a notebook and in the book, and saves itself as a page.

    Attributes
    ----------
    words : list of str, length V
        Tokens as the vocabulary writes them, in its order.
    placed : list of Placed
        The plane in whole steps (V, 2), and the neighbours that were found; with a control two.
    columns : dict from name to list
        To colour by: kind, cluster, row length, and those that were given.
    titles : list of str
        With a control, a title for each position of the switch.
    recall : float
        Share of the true neighbours among those of `placed`, measured on random tokens.
    selected : list of str
        As in other maps, by the names that the page shows: ``king`` for ``▁king``. Tokens that no
        name is equal to are taken too.
    """

    def __init__(
        self,
        words: list[str],
        shown: list[str],
        order: np.ndarray,
        unit: np.ndarray | None,
        found: Neighbors,
        plane: np.ndarray,
        columns: dict[str, list[Any]],
        regions: list[dict[str, Any]],
        *,
        names: Sequence[str] = ("vectors",),
        control: tuple[Neighbors, Any] | None = None,
        titles: Sequence[str] = (),
        **said: Any,
    ) -> None:
        self.shown, self.order, self.unit = shown, order, unit
        self.recall, self.regions, self.titles = found.recall, regions, list(titles)
        states = [(found, plane)] if control is None else [(found, plane), control]
        placed = [_placed(name, *state) for name, state in zip(names, states, strict=True)]
        super().__init__(words, placed, columns, **said)

    @traitlets.default("selected")
    def _first_selected(self) -> list[str]:
        return [self.shown[self.words.index(self.focused)]] if self.focused else []

    @traitlets.validate("selected")
    def _known_words(self, proposal: Any) -> list[str]:
        shown = dict(zip(self.words, self.shown, strict=True)) | {name: name for name in self.shown}
        unknown = [word for word in proposal["value"] if word not in shown]
        if unknown:
            raise traitlets.TraitError(
                f"{unknown[0]!r} is not among the {len(self.words):,} words of this map"
            )
        return list(dict.fromkeys(shown[word] for word in proposal["value"]))

    def _repr_mimebundle_(self, **options: Any) -> dict[str, Any]:  # type: ignore[override]
        bundle = super()._repr_mimebundle_(**options)
        if len(self.spec["usermeta"]["embviz"]["maps"][0]["packed"]) > SIZE_LIMIT:
            del bundle[MIME]  # a notebook stores no picture of this size: the widget and an image are there
        return bundle

    def neighbors(self, word: str) -> pd.DataFrame:
        """The nearest tokens of one token among all: embedding, word, distance.

        Exactly; of a map without vectors, those that were given.
        """
        if word not in self.words:
            raise ValueError(f"{word!r} is not among the {len(self.words):,} words of this map")
        if self.unit is None:
            return super().neighbors(word)
        row = self.words.index(word)
        cosines = self.unit @ self.unit[row]
        cosines[row] = -2
        nearest = np.argsort(-cosines, kind="stable")[: self.placed[0].near.shape[1]]
        return pd.DataFrame(
            {
                "embedding": "vectors",
                "word": [self.words[other] for other in nearest],
                "distance": np.maximum(1 - cosines[nearest], 0),
            }
        )

    def static_spec(self) -> dict[str, Any]:
        """Vega-Lite specification whose packed numbers our script draws; other viewers show some words."""
        order, shown = self.order, self.shown
        some = [int(place) for place in order[:TWIN_WORDS]]
        plane = self.placed[0].plane
        twin = pd.DataFrame(
            {"word": [shown[i] for i in some], "x": plane[some, 0].tolist(), "y": plane[some, 1].tolist()}
        )
        place = alt.Chart(twin).encode(x=alt.X("x:Q", axis=None), y=alt.Y("y:Q", axis=None))
        chart = place.mark_text(fontSize=9).encode(text="word:N").properties(width=480, height=480)
        spec = theme.captioned(chart, finding=self.title, caption=self.caption).to_dict()
        spec["description"] = f"{self.title}. {self.caption}"
        spec["usermeta"]["embviz"]["maps"] = [self._about(order, shown)]
        if self.titles:
            spec["usermeta"]["embviz"]["titles"] = self.titles
        spec["usermeta"]["embviz"]["look"] = {"palette": list(PALETTE), "ramp": list(theme.RAMP)} | {
            "categories": list(theme.CATEGORIES),
            "shapes": list(theme.SHAPES),
        }
        return portable(spec)

    def _about(self, order: np.ndarray, shown: list[str]) -> dict[str, Any]:
        place_of = np.empty(len(order), dtype=np.int64)
        place_of[order] = np.arange(len(order))
        k = self.placed[0].near.shape[1]
        unit = max(float(part.distances.max()) for part in self.placed) / 255 or 1.0
        columns = [_packed_column(name, values) for name, values in self.columns.items()]
        focus = shown[self.words.index(self.focused)] if self.focused else ""
        level = 6 if len(order) < SAMPLE else 9  # 1% smaller, in seconds more
        bytes_ = []
        for part in self.placed:
            bytes_ += [
                _planes(part.plane[order, 0] + HALF, 2),
                _planes(part.plane[order, 1] + HALF, 2),
                _planes(place_of[part.near[order]], 3),
                _planes(np.rint(part.distances[order] / unit), 1),
                _planes(np.rint(part.kept[order] * k), 1),
            ]
        bytes_ += [
            *(_planes(values[order], 1) for _, values in columns),
            json.dumps([shown[i] for i in order], ensure_ascii=False).encode("utf-8", "replace"),
        ]
        return {
            "title": self.title,
            "names": [part.name for part in self.placed],
            "n_words": len(order),
            "n_neighbors": k,
            "columns": [about for about, _ in columns],
            "regions": self.regions,
            "focus": focus,
            "distance": "cosine distance",
            "unit": float(f"{unit:.6g}"),
            "packed": base64.b64encode(gzip.compress(b"".join(bytes_), level, mtime=0)).decode("ascii"),
        }


def map_of(
    vectors: WordVectors,
    words: Words = 3_000,
    *,
    layout: Literal["neighbors", "pca"] | np.ndarray | None = None,
    color: Any = None,
    center: bool = True,
    focus: str | None = None,
    title: str | None = None,
    seed: int = 0,
    progress: bool = False,
) -> EmbeddingMap:
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
    color : "kind", "cluster", "length", or mapping from name to values, DataFrame or Series, optional
        What the points are coloured by first; all are among the choices. By default the kind, or the
        cluster where nine tokens in ten are of one kind.
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
    EmbeddingMap
        A :class:`VocabularyMap`, unless `layout` is "pca" for at most 20,000 words.

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
    'The first 30 words'
    """
    if layout is None:
        layout = "pca" if isinstance(words, int) else "neighbors"
    if isinstance(layout, str) and layout not in ("neighbors", "pca"):
        raise ValueError(f'layout is {layout!r}: use "neighbors", "pca", or coordinates')
    if isinstance(layout, str) and layout == "pca" and isinstance(words, int):
        return _first_words(vectors, words, focus, title)
    chosen, said = _chosen(vectors, words)
    table = vectors.word
    table = table if len(chosen) == len(table) and said == "all" else table[chosen]
    there = table.any(axis=1)
    if not there.all():
        table, chosen = table[there], chosen[there]
    if len(chosen) < 3:
        raise ValueError(f"{len(chosen)} words with vectors are too few for a map: three are needed")
    names = [vectors.vocabulary[row] for row in chosen]
    if focus is not None and focus not in names:
        raise ValueError(f"{focus!r}, to be pointed at first, is not among the words")
    if isinstance(layout, str) and layout == "neighbors":
        require("trajectories", "umap", purpose="a layout by neighbours")
    found = find_neighbors(table, min(8, len(names) - 2), center=center, seed=seed, progress=progress)
    unit = unit_rows(table, center=center)
    start = _principal(unit)
    plane = _plane(layout, start, found, seed=seed, progress=progress)
    kinds, shown = token_kinds(vectors.vocabulary), _shown_names(vectors.vocabulary)
    kinds, shown = [kinds[row] for row in chosen], [shown[row] for row in chosen]
    regions, cluster = _regions(plane, unit, shown, kinds)
    columns = {"kind": kinds, "cluster": cluster, "length": np.linalg.norm(table, axis=1).tolist()}
    columns = _first(columns, _default_color(kinds) if color is None else color, len(names))
    empty = f" {(~there).sum():,} words without a vector are left out." if not there.all() else ""
    k, mean = found.ids.shape[1], ", less their mean" if center else ""
    picture = VocabularyMap(
        names,
        shown,
        _label_order(kinds),
        unit,
        found,
        plane,
        columns,
        regions,
        title=title or _title(len(names), len(vectors.vocabulary)),
        caption=f"{len(names):,} vectors of {table.shape[1]:,} numbers{mean}.{empty}",
        focus=focus,
    )
    other = neighbors_kept(found.ids, neighbors_in_plane(start, k)).mean()
    picture.faith = _faith(k, found.recall, picture.placed[0].kept.mean(), other, k / (len(names) - 1))
    picture.caption = f"{picture.caption} {picture.faith}"
    return picture


def map_of_neighbors(
    words: Sequence[str],
    neighbors: Neighbors,
    layout: np.ndarray,
    *,
    control: tuple[Neighbors, Any] | None = None,
    names: tuple[str, str] = ("vectors", "control"),
    color: Any = None,
    focus: str | None = None,
    title: str | tuple[str, str] = "",
    caption: str = "",
) -> VocabularyMap:
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
        As in :func:`map_of`. If kinds are given as a mapping, each is named on the map, at the median of its
        points. With a control, two titles are taken, one for each position of the switch.
    caption : str

    Returns
    -------
    VocabularyMap
    """
    words, titles = list(words), (title, title) if isinstance(title, str) else title
    for found, _ in [(neighbors, layout), *([control] if control else [])]:
        if len(found.ids) != len(words):
            raise ValueError(f"{len(words):,} words and the neighbours of {len(found.ids):,}")
        if found.ids.shape[1] != neighbors.ids.shape[1]:
            raise ValueError(f"{neighbors.ids.shape[1]} neighbours, and {found.ids.shape[1]} of the control")
    if focus is not None and focus not in words:
        raise ValueError(f"{focus!r}, to be pointed at first, is not among the words")
    plane = _coordinates(layout, len(words))
    kinds, shown = token_kinds(words), _shown_names(words)
    regions, cluster = _regions(plane, None, shown, kinds)
    columns = _first(
        {"kind": kinds, "cluster": cluster}, _default_color(kinds) if color is None else color, len(words)
    )
    if isinstance(color, Mapping) and isinstance((given := next(iter(columns.values())))[0], str):
        regions = [*_named_kinds(plane, given), *(one for one in regions if one["level"])]
    order = _label_order(kinds)
    return VocabularyMap(
        words,
        shown,
        order,
        None,
        neighbors,
        plane,
        columns,
        regions,
        names=names if control else ("vectors",),
        control=control and (control[0], _coordinates(control[1], len(words))),
        titles=titles if control else (),
        title=titles[0] or f"{len(words):,} tokens",
        caption=caption,
        focus=focus,
    )


def _placed(name: str, found: Neighbors, plane: np.ndarray) -> Placed:
    """Neighbours and places as a page holds them."""
    kept = neighbors_kept(found.ids, neighbors_in_plane(plane, found.ids.shape[1]))
    return Placed(name, _whole_steps(plane), found.ids, np.maximum(1 - found.cosines, 0), kept)


def _plane(
    layout: str | np.ndarray, start: np.ndarray, found: Neighbors, *, seed: int, progress: bool
) -> np.ndarray:
    """Coordinates as `layout` names or gives them; `start` is the plane of principal components."""
    if not isinstance(layout, str):
        return _coordinates(layout, len(start))
    return start if layout == "pca" else lay_out_neighbors(found, start, seed=seed, progress=progress)


def _faith(k: int, recall: float, kept: float, principal: float, random: float) -> str:
    """How far the plane's distances can be trusted: shares of each token's k neighbours."""
    return (
        f"Of {k} true neighbours of a token {recall:.0%} were found. The plane keeps {kept:.1%} of them, the "
        f"plane of the principal components {principal:.1%}, a random plane {random:.2%}."
    )


def _coordinates(layout: np.ndarray, n: int) -> np.ndarray:
    """A reader's own coordinates of n points."""
    plane = check_array(layout, "layout", 2)
    if plane.shape != (n, 2):
        raise ValueError(f"layout: coordinates of shape {plane.shape} do not place {n:,} points")
    return plane


def _default_color(kinds: Sequence[str]) -> str:
    """The kind of token, or the cluster where almost all are of one kind."""
    return "kind" if Counter(kinds).most_common(1)[0][1] < ONE_KIND * len(kinds) else "cluster"


def _first_words(vectors: WordVectors, n_words: int, focus: str | None, title: str | None) -> EmbeddingMap:
    first = vectors.head(check_int(n_words, "words", 1))
    tables = [table for table in (first.word, first.context) if table is not None]
    if len(tables) == 2 and np.array_equal(tables[0], tables[1]):  # tied
        del tables[1]
    there = np.all([table.any(axis=1) for table in tables], axis=0)
    words = [word for word, kept in zip(first.vocabulary, there, strict=True) if kept]
    empty = f" {(~there).sum():,} words without a vector are left out." if not there.all() else ""
    return embedding_map(
        tables[0][there],
        words,
        other=tables[1][there] if len(tables) > 1 else None,
        names=("word vectors", "context vectors"),
        n_neighbors=max(1, min(8, len(words) - 2)),
        focus=focus,
        title=title or f"The first {len(words):,} words",
        caption=f"{len(vectors.vocabulary):,} vectors of {first.word.shape[1]:,} numbers.{empty}",
    )


def _title(n_words: int, n_all: int) -> str:
    return f"All {n_words:,} tokens" if n_words == n_all else f"{n_words:,} of {n_all:,} tokens"


# --- which words ------------------------------------------------------------------------------------


def _chosen(vectors: WordVectors, words: Words) -> tuple[np.ndarray, str]:
    """Rows of the chosen words, in the order in which they are labelled; "all" if all."""
    if isinstance(words, str) and words == "all":
        return np.arange(len(vectors.vocabulary)), "all"
    if isinstance(words, int):
        return np.arange(min(check_int(words, "words", 1), len(vectors.vocabulary))), "first"
    if isinstance(words, str | re.Pattern):
        try:
            pattern = re.compile(words)
        except re.error as error:
            raise ValueError(f"{words!r} is no regular expression: {error}") from error
        texts = token_texts(vectors.vocabulary)
        rows = [row for row, text in enumerate(texts) if pattern.search(text.removeprefix(" "))]
        if not rows:
            raise ValueError(f"no token matches {pattern.pattern!r}")
        return np.array(rows), "matching"
    if isinstance(words, Path):
        words = Counter(re.findall(r"\w+", words.read_text(encoding="utf-8")))
    listed = words if not isinstance(words, Mapping) else [word for word, _ in Counter(words).most_common()]
    texts = token_texts(vectors.vocabulary)
    beginning = {text[1:]: row for row, text in enumerate(texts) if text.startswith(" ")}
    rows = [vectors.index.get(word, beginning.get(word, -1)) for word in listed]
    if not isinstance(words, Mapping) and -1 in rows:
        missing = [word for word, row in zip(listed, rows, strict=True) if row < 0]
        if len(missing) == len(rows):
            raise ValueError(f"none of the {len(rows):,} words is in the vocabulary, such as {missing[0]!r}")
    return np.array(list(dict.fromkeys(row for row in rows if row >= 0)), dtype=np.int64), "listed"


# --- the plane, its regions, its colours ------------------------------------------------------------


def _principal(unit: np.ndarray) -> np.ndarray:
    mean = unit.mean(axis=0, dtype=np.float64)
    second = np.zeros((unit.shape[1], unit.shape[1]))
    for first in range(0, len(unit), 16_384):
        block = unit[first : first + 16_384]
        second += block.T @ block
    _, axes = np.linalg.eigh(second - len(unit) * np.outer(mean, mean))  # rising
    points = (unit @ axes[:, :-3:-1].astype(np.float32)).astype(float)
    points = np.pad(points, ((0, 0), (0, 2 - points.shape[1])))
    extreme = points[np.abs(points).argmax(axis=0), [0, 1]]
    signed: np.ndarray = points * np.where(extreme < 0, -1, 1)
    return signed


def _whole_steps(plane: np.ndarray) -> np.ndarray:
    """Whole coordinates; the few points farther out than a hundred times the median are drawn in."""
    middle = (plane.max(axis=0) + plane.min(axis=0)) / 2
    span = np.abs(plane - middle).max()
    if span == 0:
        raise ValueError("all points lie in one place: there is nothing to see")
    return np.rint((plane - middle) * (HALF / span)).astype(np.int32)


def _regions(
    plane: np.ndarray, unit: np.ndarray | None, names: list[str], kinds: list[str]
) -> tuple[list[dict[str, Any]], list[str]]:
    """Named regions in two levels, and the finer region of each point."""
    from scipy.spatial import cKDTree
    from sklearn.cluster import HDBSCAN

    V = len(plane)
    whole_plane = _whole_steps(plane)
    sample = np.unique(np.linspace(0, V - 1, min(V, SAMPLE)).astype(int))
    nearest = cKDTree(plane[sample]).query(plane)[1]
    # Among equal distances the sort of the processor at hand would choose: no two are equal after this.
    apart = np.random.default_rng(0).normal(scale=1e-6 * np.ptp(plane), size=(len(sample), plane.shape[1]))
    named = np.array([kind not in PLAIN for kind in kinds])
    regions: list[dict[str, Any]] = []
    cluster = ["no cluster"] * V
    for level, share in enumerate(LEVELS):
        least = max(10, round(share * len(sample)))
        if least * 3 > len(sample):
            continue
        found = HDBSCAN(min_cluster_size=least, min_samples=5, copy=True).fit(plane[sample] + apart).labels_
        labels = found[nearest]
        for label in range(labels.max() + 1):
            rows = np.flatnonzero(labels == label)
            text = _region_name(rows, unit, names, named)
            middle = np.median(whole_plane[rows], axis=0)
            regions.append(
                {"text": text, "x": int(middle[0]), "y": int(middle[1]), "level": level, "size": len(rows)}
            )
            if level == len(LEVELS) - 1:
                for row in rows:
                    cluster[row] = text
    return sorted(regions, key=lambda one: -one["size"]), cluster


def _named_kinds(plane: np.ndarray, kinds: Sequence[str]) -> list[dict[str, Any]]:
    """A region for each kind of the points, at their median."""
    whole_plane, of = _whole_steps(plane), np.array(kinds)
    regions = []
    for text, size in Counter(kinds).most_common(N_SHOWN_KINDS):
        x, y = np.median(whole_plane[of == text], axis=0)
        regions.append({"text": text, "x": int(x), "y": int(y), "level": 0, "size": size})
    return regions


def _region_name(rows: np.ndarray, unit: np.ndarray | None, names: list[str], named: np.ndarray) -> str:
    """The two tokens nearest to a region's mean direction, among its most frequent ones; without vectors the
    two most frequent ones.
    """
    first = rows[named[rows]][:CANDIDATES]
    if not len(first):
        first = rows[:CANDIDATES]
    best = first
    if unit is not None:
        mean = unit[rows[:: max(1, len(rows) // 5_000)]].mean(axis=0)
        best = first[np.argsort(-(unit[first] @ mean), kind="stable")]
    chosen: dict[str, str] = {}
    for row in best:
        chosen.setdefault(names[row].strip("-").lower(), names[row])
    return ", ".join(list(chosen.values())[:2])


def _first(columns: dict[str, list[Any]], color: Any, n_words: int) -> dict[str, list[Any]]:
    """The columns to colour by, the wanted one first."""
    if isinstance(color, str):
        if color not in columns:
            raise ValueError(f"color is {color!r}: use {', '.join(columns)}, or a column of values")
        return {color: columns[color], **{name: values for name, values in columns.items() if name != color}}
    given = color_columns(color, n_words, most_kinds=n_words)  # the page joins the rarer ones
    return {**given, **{name: values for name, values in columns.items() if name not in given}}


# --- what goes into the page ------------------------------------------------------------------------


def _label_order(kinds: Sequence[Any]) -> np.ndarray:
    """Places in the order in which they are labelled: words before signs, frequent ones first."""
    ranks = [0 if kind == "word start" else 2 if kind in PLAIN else 1 for kind in kinds]
    return np.argsort(ranks, kind="stable")


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


def _packed_column(name: str, values: list[Any]) -> tuple[dict[str, Any], np.ndarray]:
    """What the script is told of a column, and a byte for each word."""
    if not isinstance(values[0], str):
        numbers = np.array(values, dtype=float)
        if not np.isfinite(numbers).all():
            raise ValueError(f"the column {name!r} has an infinite value")
        low, high = float(numbers.min()), float(numbers.max())
        steps = np.rint((numbers - low) / ((high - low) or 1) * 255)
        return {"name": name, "low": float(f"{low:.3g}"), "high": float(f"{high:.3g}")}, steps
    counts = Counter(values)
    kinds = [kind for kind, _ in counts.most_common()]
    if len(kinds) > N_SHOWN_KINDS + 1:
        kinds = [*kinds[:N_SHOWN_KINDS], "others"]
    place = {kind: at for at, kind in enumerate(kinds)}
    steps = np.array([place.get(value, len(kinds) - 1) for value in values])
    sizes = np.bincount(steps, minlength=len(kinds)).tolist()
    return {"name": name, "kinds": kinds, "counts": sizes}, steps


def _planes(numbers: np.ndarray, n_bytes: int) -> bytes:
    """Whole numbers as their low bytes, then the next ones: the high ones are alike and shrink."""
    integers = np.asarray(numbers).ravel().astype(np.int64)
    return b"".join(((integers >> (8 * place)) & 255).astype(np.uint8).tobytes() for place in range(n_bytes))
