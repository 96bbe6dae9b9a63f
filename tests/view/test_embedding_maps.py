"""Maps of embeddings: neighbours of the full space, a plane that owns up, pages the same everywhere."""

import numpy as np
import pandas as pd
import pytest
import traitlets
import vl_convert

from embviz.view import embedding_maps
from embviz.view.embedding_maps import (
    EmbeddingMap,
    SideBySide,
    embedding_map,
    pick_a_word,
    side_by_side,
    stress,
)
from embviz.view.vocabulary_maps import map_of
from embviz.words.wordvectors import WordVectors


def vectors(n: int = 60, D: int = 7, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=(n, D)) * np.linspace(2, 0.5, D)


def words(n: int = 60) -> list[str]:
    return [f"word{place}" for place in range(n)]


def made(table=None, listed=None, **changes) -> EmbeddingMap:
    table = vectors() if table is None else table
    listed = words(len(table)) if listed is None else listed
    return embedding_map(table, listed, **{"title": "Words lie apart", "caption": "Made.", **changes})


def picked(states=None, **changes) -> SideBySide:
    states = states or {"early": vectors(seed=1), "late": vectors()}
    null = {name: vectors(seed=7) for name in states}
    given = {"names": ("trained", "drawn"), "over": "updates", "title": "Words meet", "caption": "Made."}
    return pick_a_word(states, words(), **{"null": null, **given, **changes})


def slow_neighbors(table: np.ndarray, row: int, k: int, distance) -> list[tuple[float, int]]:
    far = [(distance(table[row], other), place) for place, other in enumerate(table) if place != row]
    return sorted(far)[:k]


def cosine_distance(x, y) -> float:
    return 1 - float(x @ y) / float(np.linalg.norm(x) * np.linalg.norm(y))


def unit(table: np.ndarray) -> np.ndarray:
    return table / np.linalg.norm(table, axis=1, keepdims=True)


def row(picture) -> dict:
    return picture.static_spec()["data"]["values"][0]


# --- neighbours and trust --------------------------------------------------------------------------------


def test_neighbours_are_those_of_the_full_space_and_the_share_kept_is_that_of_a_slow_count():
    table = vectors()
    picture = made(table)
    columns = row(picture)
    plane = np.array([columns["x0"], columns["y0"]], dtype=float).T
    for place in range(0, len(table), 7):
        slow = slow_neighbors(table, place, 8, cosine_distance)
        shown = picture.neighbors(f"word{place}")
        assert shown["word"].tolist() == [f"word{other}" for _, other in slow]
        # neighbours are told apart at a millionth of the longest vector
        np.testing.assert_allclose(shown["distance"], [far for far, _ in slow], atol=1e-5)
        # whole coordinates tie now and then: the earlier row first, as in the map
        near = slow_neighbors(plane, place, 8, lambda x, y: float(((x - y) ** 2).sum()))
        assert columns["kept0"][place] == len({other for _, other in slow} & {other for _, other in near})


def test_a_plane_that_is_the_whole_space_keeps_everything_and_noise_keeps_what_chance_gives():
    flat = made(vectors(D=2, seed=1))
    assert flat.placed[0].kept.min() == 1  # 5,000 steps tell these 60 points' neighbours apart
    assert "it keeps 100% of the variance" in flat.caption
    n = 800
    noise = made(vectors(n), layout=np.random.default_rng(1).normal(size=(n, 2)))
    mean, spread = noise.placed[0].kept.mean(), noise.placed[0].kept.std() / np.sqrt(n)
    assert abs(mean - 8 / (n - 1)) < 4 * spread


def test_the_caption_says_what_the_plane_keeps():
    table = unit(vectors())
    spread = np.linalg.eigvalsh(np.cov(table.T))
    picture = made(table)
    kept = f"{picture.placed[0].kept.mean():.0%}"
    assert f"it keeps {spread[-2:].sum() / spread.sum():.0%} of the variance." in picture.caption
    assert f"Made. Of 8 true neighbours the 2-D map keeps {kept}, a random layout 13.6%;" in picture.caption
    flat = unit(vectors(D=2))
    assert "relative error of its distances 0.00 (Kruskal's stress)" in made(flat, layout=flat).caption


def test_stress_is_kruskals_at_the_best_scale():
    table, points = vectors(12), vectors(12, D=2, seed=3)
    pairs = [(i, j) for i in range(12) for j in range(i)]
    true = np.array([np.linalg.norm(table[i] - table[j]) for i, j in pairs])
    shown = np.array([np.linalg.norm(points[i] - points[j]) for i, j in pairs])
    tried = [
        np.sqrt(((true - scale * shown) ** 2).sum() / (true**2).sum()) for scale in np.linspace(0, 9, 9001)
    ]
    assert stress(table, points) == pytest.approx(min(tried), abs=1e-4)
    assert stress(table, 5 * points) == pytest.approx(stress(table, points))


# --- the plane -------------------------------------------------------------------------------------------


def test_the_plane_is_that_of_the_principal_components_at_one_scale():
    table = unit(vectors())
    picture = made(table)
    centered = table - table.mean(axis=0)
    left, scales, _ = np.linalg.svd(centered, full_matrices=False)
    expected = np.linalg.norm((left[:, None, :2] - left[None, :, :2]) * scales[:2], axis=2)
    plane = np.array([row(picture)["x0"], row(picture)["y0"]]).T * picture.scale
    found = np.linalg.norm(plane[:, None] - plane[None], axis=2)
    np.testing.assert_allclose(found, expected, atol=2 * picture.scale)  # whole coordinates


def test_coordinates_of_ones_own_stay_where_they_are_up_to_one_scale_and_shift():
    places = vectors(D=2, seed=5)
    picture = made(layout=places)
    plane = np.array([row(picture)["x0"], row(picture)["y0"]], dtype=float).T
    ratio = (plane - plane[0])[1:] / (places - places[0])[1:]
    np.testing.assert_allclose(ratio, ratio.mean(), rtol=0.05)  # whole coordinates of near points are coarse
    assert picture.scale is None


def test_a_map_of_word_vectors_shows_their_first_words_and_contexts_without_empty_ones():
    table, contexts = vectors().astype(np.float32), vectors(seed=1).astype(np.float32)
    table[3] = 0
    picture = map_of(WordVectors(words(), table, contexts), 50, focus="word7")
    assert picture.words == [word for word in words(50) if word != "word3"]
    assert [part.name for part in picture.placed] == ["word vectors", "context vectors"]
    np.testing.assert_array_equal(
        picture.placed[1].near[:3], made(np.delete(contexts[:50], 3, axis=0)).placed[0].near[:3]
    )
    assert picture.title == "The first 49 words"
    assert picture.caption.startswith("60 vectors of 7 numbers. 1 words without a vector are left out.")
    tied = map_of(WordVectors(words(), contexts, contexts.copy()), title="Mine")
    assert (tied.title, len(tied.words), len(tied.placed)) == ("Mine", 60, 1)


def test_two_embeddings_share_a_plane_and_a_moved_word_lies_elsewhere():
    table = vectors()
    moved = table.copy()
    moved[3] = -moved[3]
    columns = row(made(table, other=moved, names=("before", "after")))
    same = [place for place in range(60) if place != 3]
    assert [columns["x0"][place] for place in same] == [columns["x1"][place] for place in same]
    assert columns["x0"][3] != columns["x1"][3]
    columns = row(made(table, other=table, layout=np.stack([vectors(D=2), vectors(D=2, seed=1)])))
    assert columns["x1"] != columns["x0"]


def test_small_errors_of_rounding_change_nothing_in_the_page():
    table = vectors()
    table[10:14] = table[10]  # ties
    noise = 1 + 1e-13 * np.random.default_rng(0).normal(size=table.shape)
    assert made(table).static_spec() == made(table * noise).static_spec()


# --- colours ---------------------------------------------------------------------------------------------


def test_a_map_without_columns_is_coloured_by_clusters_named_by_a_central_word():
    groups = np.arange(60) % 5
    table = 20 * np.eye(8)[groups] + np.random.default_rng(0).normal(size=(60, 8))
    picture = made(table)
    (name, column), *others = picture.columns.items()
    assert (name, others) == ("cluster", [])
    pairs = set(zip(groups, column, strict=True))
    assert len(pairs) == len(set(column)) == 5  # each group is a cluster
    names = words(60)
    assert all(groups[names.index(label.removeprefix("near "))] == group for group, label in pairs)
    assert made(table, color={"kind": ["a"] * 60}).columns == {"kind": ["a"] * 60}
    few = np.eye(8)[np.arange(60) % 3]
    assert len(set(made(few).columns["cluster"])) == 3


def test_columns_are_kinds_or_numbers():
    kinds = ["noun" if place % 3 else "verb" for place in range(60)]
    frame = pd.DataFrame(
        {"kind": kinds, "count": np.arange(60) * 1.5, "odd": [i % 2 == 1 for i in range(60)]}
    )
    known, alone = (
        made(color=color).static_spec()["usermeta"]["embviz"]["maps"][0]["columns"]
        for color in (frame, frame["kind"])
    )
    assert known == [
        {"name": "kind", "kinds": ["verb", "noun"]},
        {"name": "count", "low": 0.0, "high": 88.5},
        {"name": "odd", "kinds": ["False", "True"]},
    ]
    assert alone == known[:1]


# --- refusals -------------------------------------------------------------------------------------------


NAMED = {"other": vectors(seed=1), "names": ("words", "contexts")}
NO_DIRECTION = np.eye(60) * (np.arange(60) > 0)
STATES = {"late": vectors(), "early": vectors()}


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: made(vectors(), words(59)), r"shape \(60, 7\) don't give 59 words a row each"),
        (lambda: made(vectors(2)), "3 to 20,000 words, not 2"),
        (lambda: made(vectors(6)), "at most 5 neighbours each, not 8"),
        (lambda: made(listed=[*words(59), "word3"]), "'word3' comes twice"),
        (lambda: made(listed=[*words(59), 7]), "7 is not a word but int"),
        (lambda: made(NO_DIRECTION), "zero and has no direction"),
        (lambda: made(np.ones((60, 3))), "all points lie in one place"),
        (lambda: made(layout=vectors(59, 2)), "don't place 1 x 60 points"),
        (lambda: made(layout=np.full((60, 2), np.nan)), "layout has 120 NaN"),
        (lambda: made(other=vectors(D=4)), "differ in dimension"),
        (lambda: made(focus="king"), "'king', to be pointed at first"),
        (lambda: made(**NAMED).neighbors("king"), "not among the 60 words"),
        (lambda: side_by_side(made(), made(**NAMED)), "give both maps the same names"),
        (lambda: made(color={"part": [str(place % 6) for place in range(60)]}), "6 kinds, but only 5 looks"),
        (lambda: made(color={"part": [1.0] * 59}), "59 values for 60 words"),
        (lambda: made(color={"part": [np.nan, *[1.0] * 59]}), "missing values"),
        (lambda: made(color={"part": [np.inf, *[1.0] * 59]}), "infinite"),
        (lambda: picked({"only": vectors()}), "must be two or more"),
        (lambda: picked(null=STATES), "the control's"),
        (lambda: picked(first="never"), "'never', to be shown at first, is none of the states"),
        (lambda: picked(title={"early": "Apart"}), "give each its own"),
        (lambda: picked(focus="king"), "'king', to be pointed at first"),
        (lambda: picked(compared={"before": vectors(59)}), "compared of shape"),
        (lambda: picked({"early": vectors(59), "late": vectors()}), r"states\['early'\] of shape"),
    ],
)
def test_what_cannot_be_a_map_is_refused(make, message):
    with pytest.raises(ValueError, match=message):
        make()


def test_a_map_too_heavy_for_a_page_is_refused_with_its_size(monkeypatch):
    monkeypatch.setattr(embedding_maps, "SIZE_LIMIT", 10_000)
    with pytest.raises(ValueError, match=r"takes 2\d,\d{3} bytes, more than a page's 10,000"):
        made(listed=["x" * 200 + word for word in words()]).static_spec()


# --- one declaration, two faces --------------------------------------------------------------------------


def test_other_viewers_draw_a_scatter_of_all_words():
    pair = side_by_side(made(), made(vectors(seed=2)), title="Two", caption="Made.")
    for picture, n_maps in ((made(), 1), (pair, 2), (picked(), 2)):
        svg = vl_convert.vegalite_to_svg(picture.static_spec(), vl_version="6.4")
        assert svg.count(">word12<") == n_maps


# --- a word picked in several states ---------------------------------------------------------------------


def test_each_state_has_its_own_neighbours_in_one_plane():
    states = {"early": vectors(seed=1), "late": vectors()}
    trained, drawn = picked(states).maps
    assert [part.name for part in trained.placed] == [part.name for part in drawn.placed] == ["early", "late"]
    for part, table in zip(trained.placed, states.values(), strict=True):
        assert part.near[3].tolist() == [row for _, row in slow_neighbors(table, 3, 8, cosine_distance)]
    by_length, _ = picked(states, metric="euclidean").maps[0].placed
    slow = slow_neighbors(states["early"], 3, 8, lambda x, y: float(np.linalg.norm(x - y)))
    assert by_length.near[3].tolist() == [row for _, row in slow]
    both = np.concatenate([part.plane for part in trained.placed])
    assert np.abs(both).max() == 5_000  # one scale for all states
    shared = np.concatenate([unit(table) for table in states.values()])
    shared -= shared.mean(axis=0)
    axes = np.linalg.svd(shared, full_matrices=False)[2][:2]
    lengths = np.linalg.norm(both - both.mean(axis=0), axis=1)
    assert np.corrcoef(lengths, np.linalg.norm(shared @ axes.T, axis=1))[0, 1] > 0.999


def test_a_state_that_is_only_turned_lies_where_the_other_does():
    table = vectors()
    turn = np.linalg.qr(np.random.default_rng(0).normal(size=(9, 9)))[0][:7]  # into nine dimensions
    before, after = picked({"turned": table @ turn, "before": table}).maps[0].placed
    assert np.abs(before.plane - after.plane).max() <= 1
    assert np.array_equal(before.near, after.near)


def test_planes_of_ones_own_stay_what_they_are():
    given = np.random.default_rng(0).uniform(-1, 1, size=(2, 2, 60, 2))
    for map_, planes in zip(picked(planes=given).maps, given, strict=True):
        drawn = np.stack([part.plane for part in map_.placed])
        assert np.corrcoef(drawn[..., 0].ravel(), planes[..., 0].ravel())[0, 1] > 0.999999


# --- what is chosen --------------------------------------------------------------------------------------


def test_what_is_chosen_can_be_read_set_and_observed():
    picture = made(focus="word3")
    seen: list[list[str]] = []
    picture.observe(lambda change: seen.append(change.new), "selected")
    assert picture.selected == ["word3"]
    picture.selected = ["word1", "word2", "word1"]
    assert picture.selected == ["word1", "word2"]
    assert seen == [["word1", "word2"]]
    with pytest.raises(traitlets.TraitError, match="'nobody' is not among the 60 words of this map"):
        picture.selected = ["word1", "nobody"]
    assert picture.selected == ["word1", "word2"]


def test_a_word_of_either_map_can_be_chosen_in_two():
    longer = made(vectors(61), words(61))
    pair = side_by_side(made(), longer)
    assert pair.selected == []
    pair.selected = ["word60"]
    assert pair.selected == ["word60"]
    assert repr(pair) == "<maps>"
    assert pair.static_spec()["usermeta"]["embviz"]["title"] == ""
