"""Maps of a whole vocabulary: which words, what the page holds, and what it says of its neighbours."""

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

from embviz.neighbors import find_neighbors
from embviz.view import vocabulary_maps
from embviz.view.pages import MIME, page
from embviz.view.vocabulary_maps import HALF, VocabularyMap, map_of, map_of_neighbors
from embviz.words.wordvectors import WordVectors

N = 300
MARKED = ["<bos>", "<unused7>", "▁king", "king", "▁King", "▁queen", "</script>", "царь", "▁", "12"]


def vectors(n: int = N, seed: int = 0) -> WordVectors:
    random = np.random.default_rng(seed)
    centers = random.normal(size=(6, 12))
    table = centers[random.integers(6, size=n)] + 0.3 * random.normal(size=(n, 12)) + 1
    names = [*MARKED, *(f"▁word{place}" for place in range(n - len(MARKED)))]
    return WordVectors(names, table.astype(np.float32))


def plane(n: int = N) -> np.ndarray:
    return np.random.default_rng(1).normal(size=(n, 2))


def made(words="all", **changes) -> VocabularyMap:
    given = vectors()
    picture = map_of(given, words, **{"layout": plane(), **changes})
    assert isinstance(picture, VocabularyMap)
    return picture


def unpacked(picture: VocabularyMap) -> dict:
    """What the page's script reads, byte for byte."""
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
        row = {"x": whole(n, 2) - HALF, "y": whole(n, 2) - HALF, "near": whole(n * k, 3).reshape(n, k)}
        states.append(row | {"far": whole(n * k, 1).reshape(n, k) * about["unit"], "kept": whole(n, 1)})
    row = states[0] | {"states": states}
    row |= {column["name"]: whole(n, 1) for column in about["columns"]}
    return row | {"words": json.loads(data[at:].tobytes()), "about": about}


def test_neighbours_are_those_of_the_centred_rows_and_exact_for_a_word():
    picture = made()
    table = vectors().word.astype(float)
    for center, one in ((True, picture), (False, made(center=False))):
        rows = table - table.mean(axis=0) * center
        rows /= np.linalg.norm(rows, axis=1, keepdims=True)
        cosines = rows @ rows[2]
        cosines[2] = -2
        best = np.argsort(-cosines)[:8]
        shown = one.neighbors("▁king")
        assert shown["word"].tolist() == [one.words[place] for place in best]
        np.testing.assert_allclose(shown["distance"], 1 - cosines[best], atol=1e-5)
    assert "100% were found" in picture.caption
    assert f"a random plane {8 / (N - 1):.2%}" in picture.caption
    assert "less their mean" in picture.caption


def test_the_page_holds_places_neighbours_and_columns_of_each_word():
    picture = made()
    row = unpacked(picture)
    shown = dict(zip(picture.shown, range(N), strict=True))
    rows = [shown[name] for name in row["words"]]
    assert sorted(rows) == list(range(N))
    np.testing.assert_array_equal(np.stack([row["x"], row["y"]], axis=1), picture.placed[0].plane[rows])
    np.testing.assert_array_equal(np.array(rows)[row["near"]], picture.placed[0].near[rows])
    np.testing.assert_allclose(row["far"], picture.placed[0].distances[rows], atol=row["about"]["unit"])
    np.testing.assert_array_equal(row["kept"], np.rint(picture.placed[0].kept[rows] * 8))
    names = [column["name"] for column in row["about"]["columns"]]
    assert names == ["cluster", "kind", "length"]  # nine in ten are word starts
    kinds = row["about"]["columns"][1]["kinds"]
    assert [kinds[at] for at in row["kind"]] == [picture.columns["kind"][at] for at in rows]
    assert row["about"]["columns"][1]["counts"] == [Counter(picture.columns["kind"])[one] for one in kinds]


def test_tokens_are_shown_without_marks_and_words_are_labelled_before_signs():
    picture = made()
    shown = ["<bos>", "<unused7>", "king", "-king", "King", "queen", "</script>", "царь", " ", "12"]
    assert picture.shown[:10] == shown
    row = unpacked(picture)
    assert row["words"][:3] == ["king", "King", "queen"]
    assert row["words"][-5:] == ["<bos>", "<unused7>", "</script>", " ", "12"]
    html = page(picture)
    assert "</script>" not in html.split("<script type")[1].split("</script>")[0]
    assert len(html) < 200_000  # without Vega


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("^king|^queen$", ["▁king", "king", "▁queen"]),
        (re.compile("(?i)^king$"), ["▁king", "king", "▁King"]),
        (["queen", "▁king", "nowhere"], ["▁queen", "▁king"]),
        ({"word3": 4, "queen": 9, "nowhere": 10}, ["▁queen", "▁word3"]),
        (4, MARKED[:4]),
        (Path("text.txt"), ["▁word5", "▁queen", "▁word7"]),  # the most frequent ones first
    ],
)
def test_words_are_chosen_by_expression_list_count_number_or_text(words, expected, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("text.txt").write_text("word5 queen word5 nothing word7 word5 queen", encoding="utf-8")
    given = vectors()
    rows, _ = vocabulary_maps._chosen(given, words)
    assert [given.vocabulary[row] for row in rows] == expected


def test_points_are_coloured_by_what_is_asked_for_first():
    ranks = pd.Series(range(N), name="rank")
    assert list(made(color=ranks).columns) == ["rank", "kind", "cluster", "length"]
    assert next(iter(made(color="length").columns)) == "length"
    many = made(color={"first": [f"kind {place % 40}" for place in range(N)]})
    column = unpacked(many)["about"]["columns"][0]
    assert (len(column["kinds"]), column["kinds"][-1]) == (16, "others")


def test_regions_are_named_after_their_central_words():
    random = np.random.default_rng(0)
    own = random.integers(3, size=N)
    far = np.array([[0, 0], [40, 0], [0, 40]])[own] + random.normal(size=(N, 2))
    table = np.eye(3, 12)[own] + 0.1 * random.normal(size=(N, 12))
    given = WordVectors(vectors().vocabulary, table.astype(np.float32))
    picture = map_of(given, "all", layout=far)
    named = {}
    for region in picture.regions:
        for name in region["text"].split(", "):
            named.setdefault(region["text"], set()).add(own[picture.shown.index(name)])
    assert len({text for text in named}) >= 3
    assert all(len(owners) == 1 for owners in named.values())


@pytest.mark.parametrize(
    ("words", "changes", "message"),
    [
        ("zebra", {}, "no token matches 'zebra'"),
        ("[", {}, r"'\[' is no regular expression: unterminated"),
        (0, {}, "words is 0: it must be a whole number, 1 or more"),
        (["zebra", "gnu"], {}, "none of the 2 words is in the vocabulary, such as 'zebra'"),
        (["king", "queen"], {}, "2 words with vectors are too few"),
        ("all", {"layout": "tsne"}, 'use "neighbors", "pca"'),
        ("all", {"layout": plane(4)}, "do not place 300 points"),
        ("all", {"focus": "emperor"}, "'emperor', to be pointed at first"),
        ("all", {"color": "colour"}, "color is 'colour': use kind"),
        ("all", {"color": {"rank": [1]}}, "has 1 values for 300 words"),
        ("all", {"color": {"rank": [None] * N}}, "has missing values"),
        ("all", {"color": {"rank": [np.inf] * N}}, "has an infinite value"),
    ],
)
def test_what_cannot_be_mapped_is_refused(words, changes, message):
    with pytest.raises(ValueError, match=message):
        map_of(vectors(), words, **{"layout": "pca", **changes}).static_spec()


def test_the_command_writes_the_page_of_a_file_of_vectors(tmp_path, capsys):
    from embviz.cli import main

    given, file, html = vectors(), tmp_path / "mine.vec", tmp_path / "map.html"
    plain = [f"word{place}" for place in range(N)]
    WordVectors(plain, given.word).save_word2vec(file)
    command = ["map", str(file), "--layout", "pca", "--html", str(html)]
    assert main([*command, "--matching", "7$", "--color", "length", "--focus", "word17"]) == 0
    said = capsys.readouterr().out
    assert said.startswith("30 vectors of 12 numbers, less their mean. Of 8 true neighbours of a token 100%")
    assert '"focus": "word17"' in html.read_text(encoding="utf-8")
    assert main([*command, "--matching", "zebra"]) == 1
    assert "no token matches 'zebra'" in capsys.readouterr().err


def test_words_are_chosen_by_token_or_by_the_name_that_is_shown():
    picture = made(focus="▁king")
    assert picture.selected == ["king"]
    picture.selected = ["▁King", "-king", "queen", "▁queen"]
    assert picture.selected == ["King", "-king", "queen"]
    with pytest.raises(traitlets.TraitError, match="'emperor' is not among the 300 words"):
        picture.selected = ["emperor"]


def test_a_notebook_stores_no_picture_larger_than_a_page_of_the_book(monkeypatch):
    assert MIME in made()._repr_mimebundle_()
    monkeypatch.setattr(vocabulary_maps, "SIZE_LIMIT", 1_000)
    assert MIME not in made()._repr_mimebundle_()


def test_a_control_travels_beside_the_vectors_with_its_own_places_neighbours_and_title():
    given, random = vectors(), np.random.default_rng(1).normal(size=(300, 5)).astype(np.float32)
    found, control = find_neighbors(given.word, 8, recall=1.0), find_neighbors(random, 8, recall=1.0)
    topic = ["even" if row % 2 == 0 else "odd" for row in range(300)]
    titles = ("Trained", "Before training")
    picture = map_of_neighbors(
        given.vocabulary,
        found,
        plane(),
        control=(control, random[:, :2].astype(float)),
        names=("trained", "untrained"),
        color={"topic": topic},
        title=titles,
    )
    row = unpacked(picture)
    assert row["about"]["names"] == ["trained", "untrained"]
    assert picture.static_spec()["usermeta"]["embviz"]["titles"] == list(titles)
    order = picture.order
    for state, of, points in zip(row["states"], (found, control), (plane(), random[:, :2]), strict=True):
        assert np.array_equal(order[state["near"]], of.ids[order])
        for name, axis in (("x", 0), ("y", 1)):
            assert np.corrcoef(state[name], points[order, axis])[0, 1] > 0.9999
    named = {one["text"]: one for one in row["about"]["regions"] if one["level"] == 0}
    assert set(named) == {"even", "odd"}
    of_even = picture.placed[0].plane[::2]
    assert (named["even"]["x"], named["even"]["y"]) == tuple(np.median(of_even, axis=0).astype(int))


def test_a_map_of_stored_neighbours_is_that_of_the_vectors_without_them():
    given = vectors()
    found = find_neighbors(given.word, 8, recall=1.0)
    stored = map_of_neighbors(given.vocabulary, found, plane(), focus="▁king")
    own = made()
    assert stored.selected == ["king"]
    assert np.array_equal(stored.placed[0].plane, own.placed[0].plane)
    assert np.array_equal(stored.placed[0].near, own.placed[0].near)
    assert stored.columns["kind"] == own.columns["kind"]
    expected = own.neighbors("▁king")
    pd.testing.assert_frame_equal(stored.neighbors("▁king"), expected, rtol=1e-5, check_dtype=False)
    fewer = {"control": (find_neighbors(given.word, 5), plane())}
    for words, changes, message in (
        (given.vocabulary[1:], {}, "299 words and the neighbours of 300"),
        (given.vocabulary, {"focus": "▁queens"}, "not among the words"),
        (given.vocabulary, fewer, "8 neighbours, and 5 of the control"),
    ):
        with pytest.raises(ValueError, match=message):
            map_of_neighbors(words, found, plane(), **changes)
