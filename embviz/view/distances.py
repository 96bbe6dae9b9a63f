"""Embedding-distance plots: pairs of tokens in one embedding against another, or a matrix of distances."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import altair as alt
import numpy as np
import pandas as pd
from numpy.typing import ArrayLike
from scipy import stats

from embviz import metrics
from embviz.arrays import check_array
from embviz.view.charts import Axis
from embviz.view.explorers import Choice, Explorer
from embviz.view.forms import panels, plot_heat_map, plot_scatter

DISTANCES = ("Euclidean", "cosine")
ALL = "all tokens"
SAME, SHUFFLED = "same tokens", "tokens shuffled"
MOST_CHOSEN = 20  # rows and columns of a matrix that can be read
FEW = 10  # up to which a matrix has its numbers written into it
N_PAIRS = 400  # of two embeddings, drawn at random
N_MEAN = 2_000  # pairs that the mean distance is taken over
LIVE_DRAWS = range(200)  # draws of pairs, or of the shuffling, that a kernel offers


def plot_distances(
    first: ArrayLike,
    second: ArrayLike | None = None,
    *,
    tokens: Sequence[str],
    chosen: Sequence[str] = (),
    names: tuple[str, str] = ("the first embedding", "the second embedding"),
    caption: str = "",
) -> Explorer:
    """Distances of pairs of tokens in two embeddings, or of chosen tokens in one, beside a shuffled control.

    Of two embeddings each mark is a pair of tokens at its distance in both. The control pairs every token of
    the first with a random token of the second. Of one embedding it is a matrix of distances. There the
    control has the values of each coordinate shuffled over all tokens.

    Parameters
    ----------
    first : array, shape (V, D)
        One row a token. Cosines need rows that aren't zero.
    second : array, shape (V, E), optional
        Another embedding of the same tokens in the same order. Its dimension and unit may differ.
    tokens : sequence of str, length V, three at least
        What the rows are.
    chosen : sequence of str, at most 20
        Tokens of interest. Of two embeddings, a control shows the pairs with one of them. Of one, they are
        the rows of the matrix; by default the first ten tokens.
    names : pair of str
        What the embeddings are called.
    caption : str, optional
        Further words on data and model.

    Returns
    -------
    Explorer
        Its controls choose the distance (Euclidean in the unit of the embedding, or 1 - cosine), the
        tokens and, with a kernel, the draw of pairs. Its title has the rank correlation of the distances, or
        the mean distance, beside the control's.

    Examples
    --------
    >>> import numpy as np
    >>> rows = np.random.default_rng(0).normal(size=(30, 8))
    >>> words = [f"word {i}" for i in range(30)]
    >>> picture = plot_distances(rows, rows @ np.diag(range(1, 9)), tokens=words, chosen=["word 3"])
    >>> picture = plot_distances(rows, tokens=words, chosen=words[:5])
    """
    tables = [_table(first, "first", tokens)]
    words, own = [str(token) for token in tokens], [str(token) for token in chosen]
    places = _places(words, own)
    if second is None:
        places = places or [words.index(word) for word in list(dict.fromkeys(words))[:FEW]]
        return _matrix(tables[0], [words[place] for place in places], places, names[0], caption)
    tables.append(_table(second, "second", tokens))
    return _pairs(tables, words, dict(zip(own, places, strict=True)), names, caption)


def _table(rows: Any, name: str, tokens: Sequence[str]) -> Any:
    """The rows as an array, nothing copied: of a vocabulary only those that are shown are read."""
    rows = rows if hasattr(rows, "shape") else np.asarray(rows)
    if len(rows.shape) != 2:
        raise ValueError(f"{name} has shape {tuple(rows.shape)}: give a matrix, one row a token")
    if not 3 <= len(rows) == len(tokens):
        raise ValueError(
            f"{name} has {len(rows):,} rows, and there are {len(tokens):,} tokens: one each, three at least"
        )
    return rows


def _places(words: list[str], chosen: list[str]) -> list[int]:
    """The row of each chosen token."""
    if len(chosen) > MOST_CHOSEN or len(set(chosen)) < len(chosen):
        raise ValueError(
            f"chosen has {len(chosen)} tokens: {MOST_CHOSEN} at most can be told apart, each once"
        )
    for word in chosen:
        if (n := words.count(word)) != 1:
            raise ValueError(f"the token {word!r} is {'there more than once' if n else 'absent'}")
    return [words.index(word) for word in chosen]


def _distances(rows: Any, i: np.ndarray, j: np.ndarray, distance: str, name: str) -> np.ndarray:
    """Distance of the rows `i` from the rows `j`, one each."""
    a, b = (check_array(np.asarray(rows[place]), name, 2).astype(float) for place in (i, j))
    if distance == "Euclidean":
        return np.linalg.norm(a - b, axis=1)
    for part, place in ((a, i), (b, j)):
        if not (directed := part.any(axis=1)).all():
            raise ValueError(
                f"row {int(place[np.argmin(directed)])} of {name} is all zeros: it has no direction"
            )
    a, b = (part / np.linalg.norm(part, axis=1, keepdims=True) for part in (a, b))
    return ((a - b) ** 2).sum(axis=1) / 2  # accurate where 1 - u'v would round to nothing


def _random_pairs(n: int, n_pairs: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Distinct pairs i < j of n rows, all of them where there are no more than asked for."""
    n_all = n * (n - 1) // 2
    if n_all <= 2 * n_pairs:
        i, j = np.triu_indices(n, 1)
        kept = np.sort(rng.permutation(n_all)[:n_pairs])
        return i[kept], j[kept]
    found: dict[tuple[int, int], None] = {}
    while len(found) < n_pairs:
        drawn = np.sort(rng.integers(n, size=(n_pairs, 2)), axis=1)
        found |= dict.fromkeys((int(a), int(b)) for a, b in drawn if a < b)
    pairs = np.array(list(found)[:n_pairs])
    return pairs[:, 0], pairs[:, 1]


# --- two embeddings ---------------------------------------------------------------------------------


def _pairs(
    tables: list[Any], words: list[str], chosen: dict[str, int], names: tuple[str, str], caption: str
) -> Explorer:
    n = len(words)

    def measure(distance: str, token: str, draw: int) -> dict[str, pd.DataFrame]:
        rng = np.random.default_rng(draw)
        if token == ALL:
            i, j = _random_pairs(n, N_PAIRS, rng)
        else:
            others = np.delete(np.arange(n), chosen[token])
            j = np.sort(rng.permutation(others)[:N_PAIRS])
            i = np.full(len(j), chosen[token])
        shuffled = rng.permutation(n)
        across = _distances(tables[0], i, j, distance, "first")
        up = {
            SHUFFLED: _distances(tables[1], shuffled[i], shuffled[j], distance, "second"),
            SAME: _distances(tables[1], i, j, distance, "second"),
        }
        labels = [f"{words[a]} – {words[b]}" for a, b in zip(i, j, strict=True)]
        marks = [
            pd.DataFrame({"across": across, "up": own, "pair": labels, "which": kind})
            for kind, own in up.items()
        ]
        agreement = {kind: [_rank_correlation(across, own)] for kind, own in up.items()}
        return {
            "marks": pd.concat(marks, ignore_index=True),
            "agreement": pd.DataFrame({"same": agreement[SAME], "shuffled": agreement[SHUFFLED]}),
        }

    def draw(marks: Any) -> alt.LayerChart:
        axes = [Axis(f, title=f"distance in {own}") for f, own in zip(("across", "up"), names, strict=True)]
        return plot_scatter(
            marks, *axes, kind="which", names=[SAME, SHUFFLED], null=SHUFFLED, tooltip=["pair"],
            size="small", kind_title="",
        )  # fmt: skip

    def title(agreement: pd.DataFrame) -> str:
        same, shuffled = agreement.iloc[0][["same", "shuffled"]]
        return (
            f"{{distance}} distances in {names[0]} and {names[1]}, {{token}}: rank correlation {same:.2f}, "
            f"with tokens shuffled {shuffled:.2f}"
        )

    about = f"Each mark is a pair of {n:,} tokens, {N_PAIRS} pairs at most, drawn at random. Grey: every "
    about += f"token of {names[0]} has the vector of a random token of {names[1]}."
    controls = {
        "distance": Choice(DISTANCES, "distance"),
        "token": Choice([ALL, *chosen], "pairs with"),
        "draw": Choice([0], "draw of pairs", live_values=LIVE_DRAWS),
    }
    return Explorer(measure, controls, draw, title=title, caption=f"{about} {caption}".strip())


def _rank_correlation(x: np.ndarray, y: np.ndarray) -> float:
    """Spearman's, 0 where all distances of one are equal."""
    return float(stats.spearmanr(x, y).statistic) if np.ptp(x) and np.ptp(y) else 0.0


# --- one embedding ----------------------------------------------------------------------------------


def _matrix(rows: Any, words: list[str], places: list[int], name: str, caption: str) -> Explorer:
    n, at = len(rows), np.array(places)

    def measure(distance: str, draw: int) -> dict[str, pd.DataFrame]:
        rng = np.random.default_rng(draw)
        own = check_array(np.asarray(rows[at]), "first", 2).astype(float)
        # a coordinate's values over all tokens in a random order: of those tokens that are shown
        drawn = [rng.permutation(n)[: len(at)] for _ in range(own.shape[1])]
        mixed = np.stack([np.asarray(rows[drawn[k], k], float) for k in range(own.shape[1])], axis=1)
        pairs = _random_pairs(n, min(N_MEAN, n * (n - 1) // 2), rng)
        mean = _distances(rows, *pairs, distance, "first").mean()
        if mean == 0:
            raise ValueError("all tokens lie in one place: their distances have no unit")
        cells = pd.DataFrame([(row, column) for row in words for column in words], columns=["row", "column"])
        found = {}
        for key, part in {"matrix": own, "shuffled": mixed}.items():
            square = metrics.pairwise_distances(part, metric=distance.lower())  # type: ignore[arg-type]
            found[key] = cells.assign(relative=square.ravel() / mean)
        return found

    def draw(matrix: Any, shuffled: Any) -> alt.ConcatChart:
        axes = Axis("column", title=""), Axis("row", title="")
        value = Axis("relative", limits=(0, 2), title="distance / mean distance")
        labels = ".2f" if len(words) <= FEW else None
        return panels(
            {
                above: plot_heat_map(
                    data, *axes, value, x_names=words, y_names=words, labels=labels, height="tall"
                )
                for above, data in ((name, matrix), ("control: coordinates shuffled", shuffled))
            }
        )

    def title(matrix: pd.DataFrame, shuffled: pd.DataFrame) -> str:
        near, far = (one.loc[one["row"] != one["column"], "relative"].mean() for one in (matrix, shuffled))
        return (
            f"{{distance}} distances in {name}: the chosen tokens are {near:.2f} of the mean distance apart, "
            f"with coordinates shuffled {far:.2f}"
        )

    about = f"Distances of {len(words)} of {n:,} tokens, over the mean distance of random pairs. Right: each "
    about += "coordinate has its values of all tokens in a random order."
    controls = {
        "distance": Choice(DISTANCES, "distance"),
        "draw": Choice([0], "draw of the shuffling", live_values=LIVE_DRAWS),
    }
    return Explorer(measure, controls, draw, title=title, caption=f"{about} {caption}".strip())
