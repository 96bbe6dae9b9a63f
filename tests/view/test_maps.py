"""Maps: neighbours of the full space, a plane that owns up, names of regions, pages the same everywhere."""

import base64
import gzip
import json
import re
from collections import Counter
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import traitlets
import vl_convert

from embviz.neighbors import Neighbors, find_neighbors
from embviz.view import maps
from embviz.view.maps import (
    HALF_SPAN,
    Map,
    embedding_map,
    map_of,
    map_of_neighbors,
    pick_a_word,
    side_by_side,
)
from embviz.view.pages import MIME, page
from embviz.words.wordvectors import WordVectors

N = 300
MARKED = ["<bos>", "<unused7>", "▁king", "king", "▁King", "▁queen", "</script>", "царь", "▁", "12"]


def vectors(n: int = 60, D: int = 7, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=(n, D)) * np.linspace(2, 0.5, D)


def words(n: int = 60) -> list[str]:
    return [f"word{place}" for place in range(n)]


def made(table=None, listed=None, **changes) -> Map:
    table = vectors() if table is None else table
    listed = words(len(table)) if listed is None else listed
    return embedding_map(table, listed, **{"title": "Words lie apart", "caption": "Made.", **changes})


def picked(states=None, **changes) -> Map:
    states = states or {"early": vectors(seed=1), "late": vectors()}
    null = {name: vectors(seed=7) for name in states}
    given = {"names": ("trained", "drawn"), "over": "updates", "title": "Words meet", "caption": "Made."}
    return pick_a_word(states, words(), **{"null": null, **given, **changes})


def vocabulary() -> WordVectors:
    random = np.random.default_rng(0)
    centers = random.normal(size=(6, 12))
    table = centers[random.integers(6, size=N)] + 0.3 * random.normal(size=(N, 12)) + 1
    names = [*MARKED, *(f"▁word{place}" for place in range(N - len(MARKED)))]
    return WordVectors(names, table.astype(np.float32))


def plane(n: int = N) -> np.ndarray:
    return np.random.default_rng(1).normal(size=(n, 2))


def mapped(chosen="all", **changes) -> Map:
    return map_of(vocabulary(), chosen, **{"layout": plane(), **changes})


def slow_neighbors(table: np.ndarray, row: int, k: int, distance) -> list[tuple[float, int]]:
    far = [(distance(table[row], other), place) for place, other in enumerate(table) if place != row]
    return sorted(far)[:k]


def cosine_distance(x, y) -> float:
    return 1 - float(x @ y) / float(np.linalg.norm(x) * np.linalg.norm(y))


def unit(table: np.ndarray) -> np.ndarray:
    return table / np.linalg.norm(table, axis=1, keepdims=True)


def unpacked(picture: Map) -> dict:
    """What the page's script reads of the first panel, byte for byte."""
    about = picture.static_spec()["usermeta"]["embviz"]["maps"][0]
    data = np.frombuffer(gzip.decompress(base64.b64decode(about["packed"])), dtype=np.uint8)
    n, k, at = about["n_words"], about["n_neighbors"], 0

    def whole(size: int, n_bytes: int) -> np.ndarray:
        nonlocal at
        parts = [data[at + p * size : at + (p + 1) * size].astype(int) << 8 * p for p in range(n_bytes)]
        at += size * n_bytes
        return sum(parts)

    states = []
    for _ in about["names"]:
        row = {
            "x": whole(n, 2) - HALF_SPAN,
            "y": whole(n, 2) - HALF_SPAN,
            "near": whole(n * k, 3).reshape(n, k),
        }
        far = whole(n * k, about["distance_bytes"]).reshape(n, k) * about["unit"]
        states.append(row | {"far": far, "kept": whole(n, 1)})
    row = states[0] | {"states": states}
    row |= {column["name"]: whole(n, 1) for column in about["columns"]}
    return row | {"words": json.loads(data[at:].tobytes()), "about": about}


def test_neighbours_are_those_of_the_full_space_and_the_share_kept_is_that_of_a_slow_count():
    table = vectors()
    picture = made(table)
    part = picture.placed[0]
    for place in range(0, len(table), 7):
        slow = slow_neighbors(table, place, 8, cosine_distance)
        shown = picture.neighbors(f"word{place}")
        assert shown["word"].tolist() == [f"word{other}" for _, other in slow]
        # neighbours are told apart at a millionth of the longest vector
        np.testing.assert_allclose(shown["distance"], [far for far, _ in slow], atol=1e-5)
        near = slow_neighbors(part.plane.astype(float), place, 8, lambda x, y: float(((x - y) ** 2).sum()))
        assert 8 * part.kept[place] == len({other for _, other in slow} & {other for _, other in near})


def test_a_plane_that_is_the_whole_space_keeps_everything_and_noise_keeps_what_chance_gives():
    flat = made(vectors(D=2, seed=1))
    assert flat.placed[0].kept.min() == 1
    n = 800
    noise = made(vectors(n), layout=plane(n))
    mean, spread = noise.placed[0].kept.mean(), noise.placed[0].kept.std() / np.sqrt(n)
    assert abs(mean - 8 / (n - 1)) < 4 * spread
    assert noise.caption == f"Made. On the map a word keeps {8 * mean:.1f} of its 8 nearest; by chance 0.08."


def test_the_plane_is_that_of_the_principal_components_at_one_scale():
    table = unit(vectors())
    picture = made(table)
    left, scales, _ = np.linalg.svd(table - table.mean(axis=0), full_matrices=False)
    expected = np.linalg.norm((left[:, None, :2] - left[None, :, :2]) * scales[:2], axis=2)
    places = picture.placed[0].plane * picture.panels[0].scale
    found = np.linalg.norm(places[:, None] - places[None], axis=2)
    np.testing.assert_allclose(found, expected, atol=2 * picture.panels[0].scale)  # whole coordinates


def test_two_embeddings_share_a_plane_and_a_moved_word_lies_elsewhere():
    table = vectors()
    moved = table.copy()
    moved[3] = -moved[3]
    first, second = (part.plane for part in made(table, other=moved, names=("before", "after")).placed)
    assert np.flatnonzero((first != second).any(axis=1)).tolist() == [3]


def test_small_errors_of_rounding_change_nothing_in_the_page():
    table = vectors()
    table[10:14] = table[10]  # ties
    noise = 1 + 1e-13 * np.random.default_rng(0).normal(size=table.shape)
    assert made(table).static_spec() == made(table * noise).static_spec()


def test_neighbours_of_a_vocabulary_are_those_of_the_centred_rows():
    table = vocabulary().word.astype(float)
    for center in (True, False):
        rows = unit(table - table.mean(axis=0) * center)
        cosines = rows @ rows[2]
        cosines[2] = -2
        best = np.argsort(-cosines)[:8]
        picture = mapped(center=center)
        shown = picture.neighbors("▁king")
        assert shown["word"].tolist() == [picture.words[place] for place in best]
        np.testing.assert_allclose(shown["distance"], 1 - cosines[best], atol=1e-5)
        assert ("less their mean" in picture.caption) == center


def test_the_page_holds_places_neighbours_and_columns_of_each_word():
    picture = mapped(color="kind")
    row = unpacked(picture)
    shown = dict(zip(picture.panels[0].shown, range(N), strict=True))
    rows = [shown[name] for name in row["words"]]
    assert sorted(rows) == list(range(N))
    part = picture.placed[0]
    np.testing.assert_array_equal(np.stack([row["x"], row["y"]], axis=1), part.plane[rows])
    np.testing.assert_array_equal(np.array(rows)[row["near"]], part.near[rows])
    np.testing.assert_allclose(row["far"], part.distances[rows], atol=row["about"]["unit"])
    np.testing.assert_array_equal(row["kept"], np.rint(part.kept[rows] * 8))
    column = row["about"]["columns"][0]
    assert [column["kinds"][at] for at in row["kind"]] == [picture.columns["kind"][at] for at in rows]
    assert column["counts"] == [Counter(picture.columns["kind"])[one] for one in column["kinds"]]


def test_words_are_shown_without_marks_and_labelled_before_signs():
    picture = mapped()
    shown = ["<bos>", "<unused7>", "king", "-king", "King", "queen", "</script>", "царь", " ", "12"]
    assert picture.panels[0].shown[:10] == shown
    row = unpacked(picture)
    assert row["words"][:3] == ["king", "King", "queen"]
    assert row["words"][-5:] == ["<bos>", "<unused7>", "</script>", " ", "12"]
    html = page(picture)
    assert "</script>" not in html.split("<script type")[1].split("</script>")[0]
    assert len(html) < 200_000  # without Vega


def test_a_control_travels_beside_the_vectors_with_its_own_places_neighbours_and_title():
    given, random = vocabulary(), np.random.default_rng(1).normal(size=(N, 5)).astype(np.float32)
    found, control = find_neighbors(given.word, 8, recall=1.0), find_neighbors(random, 8, recall=1.0)
    names, titles = ("trained", "untrained"), ("Trained", "Before training")
    picture = map_of_neighbors(
        given.vocabulary, found, plane(), control=(control, random[:, :2]), names=names, title=titles
    )
    row = unpacked(picture)
    assert picture.static_spec()["usermeta"]["embviz"]["titles"] == list(titles)
    order = picture.panels[0].order
    for state, of, points in zip(row["states"], (found, control), (plane(), random[:, :2]), strict=True):
        assert np.array_equal(order[state["near"]], of.ids[order])
        for name, axis in (("x", 0), ("y", 1)):
            assert np.corrcoef(state[name], points[order, axis])[0, 1] > 0.9999


def test_a_map_of_stored_neighbours_is_that_of_the_vectors_without_them():
    given, own = vocabulary(), mapped()
    same = map_of_neighbors(given.vocabulary, find_neighbors(given.word, 8), plane(), focus="▁king")
    assert same.selected == ["king"]
    assert same.panels[0].regions == own.panels[0].regions
    pd.testing.assert_frame_equal(same.neighbors("▁king"), own.neighbors("▁king"))


def test_a_notebook_stores_no_picture_larger_than_a_page_of_the_book(monkeypatch):
    assert MIME in made()._repr_mimebundle_()
    monkeypatch.setattr(maps, "NOTEBOOK_LIMIT", 1_000)
    assert MIME not in made()._repr_mimebundle_()


def test_other_viewers_draw_a_scatter_of_all_words():
    pair = side_by_side(made(), made(vectors(seed=2)), title="Two", caption="Made.")
    for picture, n_maps in ((made(), 1), (pair, 2), (picked(), 2)):
        svg = vl_convert.vegalite_to_svg(picture.static_spec(), vl_version="6.4")
        assert svg.count(">word12<") == n_maps


def test_columns_are_kinds_or_numbers_and_rare_kinds_are_joined():
    kinds = ["noun" if place % 3 else "verb" for place in range(60)]
    frame = pd.DataFrame({"kind": kinds, "count": np.arange(60) * 1.5})
    first, second = unpacked(made(color=frame))["about"]["columns"]
    assert (first["name"], first["kinds"], second["high"]) == ("kind", ["noun", "verb"], 88.5)
    assert next(iter(mapped(color="length").columns)) == "length"
    many = mapped(color={"first": [f"kind {place % 40}" for place in range(N)]})
    kinds = unpacked(many)["about"]["columns"][0]["kinds"]
    assert (len(kinds), kinds[-1]) == (16, "others")


def test_a_region_is_named_by_its_most_central_frequent_words_where_it_is_pure():
    random, n = np.random.default_rng(0), 360
    own, meant = random.integers(4, size=n), random.integers(3, size=n)
    far = np.array([[0, 0], [40, 0], [0, 40], [40, 40]])[own] + random.normal(size=(n, 2))
    meant[own < 3] = own[own < 3]  # those of the last group lie together in the plane alone
    apart = np.linspace(0.02, 0.2, n)[:, None]  # the first words lie in the middle
    table = np.eye(3, 12)[meant] + apart * random.normal(size=(n, 12))
    panel = embedding_map(table, [f"{'abcd'[of]}{at:03d}" for at, of in enumerate(own)], layout=far).panels[0]
    groups = [{name[0] for name in region["text"].split(", ")} for region in panel.regions]
    assert sorted(map(sorted, groups)) in (
        [["a"], ["b"]],
        [["a"], ["b"], ["c"]],
    )  # its two hubs share no word
    column = np.array(panel.columns["region"])
    assert set(column[own == 3]) == {"others"}
    for region in panel.regions:
        middle = np.median(panel.placed[0].plane[column == region["text"]], axis=0)
        assert (region["x"], region["y"]) == tuple(middle.astype(int))


def test_a_region_of_one_kind_of_token_has_its_name_and_one_of_common_or_mixed_words_has_none():
    near = np.array([[other for other in range(8) if other != row] for row in range(8)])
    shown, rows = ["the", "and", "votes", "vote", "election", "ballot", "x1", "x2"], np.arange(8)
    for kinds, chosen, of, name in (
        (["Cyrillic"] * 8, rows, near, "Cyrillic"),
        (["Cyrillic", "byte"] * 4, rows, near, ""),
        (["word start"] * 8, rows, near, "the, and"),
        (["word start"] * 8, rows, np.tile(near, (125, 1)), ""),  # the most frequent of many words
        (["word start"] * 8, rows[2:], near, "votes, election"),
        (["word start"] * 8, rows[4:], near, ""),  # more of their neighbours lie outside
    ):
        assert maps._region_name(chosen, of, shown, kinds) == name


def test_each_state_has_its_own_neighbours_in_one_plane():
    states = {"early": vectors(seed=1), "late": vectors()}
    trained, drawn = picked(states).panels
    assert [part.name for part in trained.placed] == [part.name for part in drawn.placed] == ["early", "late"]
    for part, table in zip(trained.placed, states.values(), strict=True):
        assert part.near[3].tolist() == [row for _, row in slow_neighbors(table, 3, 8, cosine_distance)]
    by_length, _ = picked(states, metric="euclidean").placed
    slow = slow_neighbors(states["early"], 3, 8, lambda x, y: float(np.linalg.norm(x - y)))
    assert by_length.near[3].tolist() == [row for _, row in slow]
    both = np.concatenate([part.plane for part in trained.placed])
    assert np.abs(both).max() == HALF_SPAN  # one scale for all states


def test_a_state_that_is_only_turned_lies_where_the_other_does():
    table = vectors()
    turn = np.linalg.qr(np.random.default_rng(0).normal(size=(9, 9)))[0][:7]  # into nine dimensions
    before, after = picked({"turned": table @ turn, "before": table}).placed
    assert np.abs(before.plane - after.plane).max() <= 8
    assert np.array_equal(before.near, after.near)


@pytest.mark.parametrize(
    ("chosen", "expected"),
    [
        ("^king|^queen$", ["▁king", "king", "▁queen"]),
        (re.compile("(?i)^king$"), ["▁king", "king", "▁King"]),
        (["queen", "▁king", "nowhere"], ["▁queen", "▁king"]),
        ({"word3": 4, "queen": 9, "nowhere": 10}, ["▁queen", "▁word3"]),
        (4, MARKED[:4]),
        (Path("text.txt"), ["▁word5", "▁queen", "▁word7"]),  # the most frequent ones first
    ],
)
def test_words_are_chosen_by_expression_list_count_number_or_text(chosen, expected, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("text.txt").write_text("word5 queen word5 nothing word7 word5 queen", encoding="utf-8")
    given = vocabulary()
    assert [given.vocabulary[row] for row in maps._chosen(given, chosen)] == expected


def test_what_is_chosen_can_be_read_set_and_observed():
    picture = mapped(focus="▁king")
    seen: list[list[str]] = []
    picture.observe(lambda change: seen.append(change.new), "selected")
    assert picture.selected == ["king"]
    picture.selected = ["▁King", "-king", "queen", "▁queen"]  # by token, or by the name that is shown
    assert picture.selected == ["King", "-king", "queen"]
    with pytest.raises(traitlets.TraitError, match="'emperor' is not among"):
        picture.selected = ["emperor"]
    assert seen == [["King", "-king", "queen"]]
    pair = side_by_side(made(), made(vectors(61), words(61)))
    pair.selected = ["word60"]  # a word of either map
    assert (pair.selected, repr(pair)) == (["word60"], "<maps>")


def test_words_without_a_vector_are_left_out_and_counted():
    given = vocabulary()
    given.word[3] = 0
    picture = map_of(given, 50, focus="▁king")
    assert picture.words == [word for word in given.vocabulary[:50] if word != "king"]
    assert picture.title == "49 of 300 tokens"
    assert "1 words without a vector are left out." in picture.caption


def test_the_command_writes_the_page_of_a_file_of_vectors(tmp_path, capsys):
    from embviz.cli import main

    file, html = tmp_path / "mine.vec", tmp_path / "map.html"
    WordVectors(words(N), vocabulary().word).save_word2vec(file)
    command = ["map", str(file), "--layout", "pca", "--html", str(html)]
    assert main([*command, "--matching", "7$", "--color", "length", "--focus", "word17"]) == 0
    said = capsys.readouterr().out
    assert said.startswith("30 vectors of 12 numbers, less their mean. On the map a word keeps ")
    assert '"focus": "word17"' in html.read_text(encoding="utf-8")
    assert main([*command, "--matching", "zebra"]) == 1
    assert "no token matches 'zebra'" in capsys.readouterr().err


def found(k: int = 8) -> Neighbors:
    return find_neighbors(vectors(), k)


def stored(listed=None, **changes) -> Map:
    return map_of_neighbors(words() if listed is None else listed, found(), vectors(D=2), **changes)


NAMED = {"other": vectors(seed=1), "names": ("words", "contexts")}
NO_DIRECTION = np.eye(60) * (np.arange(60) > 0)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: made(vectors(), words(59)), r"shape \(60, 7\) don't give 59 words a row each"),
        (lambda: made(vectors(2)), "3 words or more, not 2"),
        (lambda: made(listed=[*words(59), "word3"]), "'word3' comes twice"),
        (lambda: made(NO_DIRECTION), "zero and has no direction"),
        (lambda: made(layout=vectors(59, 2)), "don't place 1 x 60 points"),
        (lambda: made(other=vectors(D=4)), "differ in dimension"),
        (lambda: made(focus="king"), "'king', to be pointed at first"),
        (lambda: made(**NAMED).neighbors("king"), "not among the 60 words"),
        (lambda: side_by_side(made(), made(**NAMED)), "give both maps the same names"),
        (lambda: made(color="colour"), "color is 'colour': use a column"),
        (lambda: made(color={"part": [np.nan, *[1.0] * 59]}), "missing values"),
        (lambda: made(color={"part": [np.inf, *[1.0] * 59]}), "infinite"),
        (lambda: picked({"only": vectors()}), "must be two or more"),
        (lambda: picked(first="never"), "'never', to be shown at first, is none of the states"),
        (lambda: picked(title={"early": "Apart"}), "give each its own"),
        (lambda: picked(compared={"before": vectors(59)}), "compared of shape"),
        (lambda: mapped(["zebra", "gnu"]), "none of the 2 words is in the vocabulary, such as 'zebra'"),
        (lambda: mapped(["king", "queen"]), "2 words with vectors are too few"),
        (lambda: mapped(layout="tsne"), 'use "neighbors", "pca"'),
        (lambda: stored(words(59)), "59 words and the neighbours of 60"),
        (lambda: stored(control=(found(5), plane(60))), "8 neighbours, and 5 of the control"),
    ],
)
def test_what_cannot_be_a_map_is_refused(make, message):
    with pytest.raises(ValueError, match=message):
        make()
