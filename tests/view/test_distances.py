import numpy as np
import pytest
from scipy import stats
from scipy.spatial.distance import pdist, squareform

from embviz.view import Explorer, plot_distances
from embviz.view.distances import ALL, SAME, SHUFFLED

WORDS = [f"word {i}" for i in range(12)]


def rows(n=12, dim=5, seed=0):
    return np.random.default_rng(seed).normal(size=(n, dim))


def measured(explorer: Explorer, **values):
    start = {name: control.initial for name, control in explorer.controls.items()}
    return explorer.measure(**{**start, **values})


@pytest.mark.parametrize(("distance", "metric"), [("Euclidean", "euclidean"), ("cosine", "cosine")])
def test_each_mark_is_a_pair_of_tokens_at_its_distance_in_both(distance, metric):
    first, second = rows(), rows(dim=3, seed=1)
    marks = measured(plot_distances(first, second, tokens=WORDS), distance=distance)["marks"]
    own = marks[marks["which"] == SAME]
    squares = [squareform(pdist(table, metric)) for table in (first, second)]
    assert len(own) == own["pair"].nunique() == 66, "all pairs, each once"
    for _, mark in own.iterrows():
        i, j = (WORDS.index(word) for word in mark["pair"].split(" – "))
        assert mark["across"] == pytest.approx(squares[0][i, j])
        assert mark["up"] == pytest.approx(squares[1][i, j])


def test_agreement_is_spearmans_of_the_pairs():
    first, second = rows(), rows(seed=4)
    found = measured(plot_distances(first, second, tokens=WORDS))["agreement"]["same"].iloc[0]
    assert found == pytest.approx(stats.spearmanr(pdist(first), pdist(second)).statistic)


def test_a_rotation_agrees_fully_and_the_control_does_not():
    first = rows(200)
    turned = first @ np.linalg.qr(rows(5, 5, seed=2))[0]
    explorer = plot_distances(first, turned, tokens=list(map(str, range(200))))
    agreement = measured(explorer)["agreement"].iloc[0]
    assert agreement["same"] == pytest.approx(1)
    assert abs(agreement["shuffled"]) < 0.15  # three standard errors of 400 pairs
    assert "rank correlation 1.00, with tokens shuffled" in explorer.first_title


def test_the_control_has_the_same_vectors_for_other_tokens():
    first, second = rows(), rows(seed=1)
    marks = measured(plot_distances(first, second, tokens=WORDS))["marks"]
    own, control = (marks[marks["which"] == kind] for kind in (SAME, SHUFFLED))
    assert own["across"].tolist() == control["across"].tolist()
    assert sorted(own["up"].round(9)) == sorted(control["up"].round(9)), "of all pairs"
    assert own["up"].tolist() != control["up"].tolist()


def test_pairs_with_a_chosen_token_are_those_with_all_others():
    explorer = plot_distances(rows(), rows(seed=1), tokens=WORDS, chosen=["word 7"])
    assert list(explorer.controls["token"].values) == [ALL, "word 7"]
    marks = measured(explorer, token="word 7")["marks"]
    own = marks[marks["which"] == SAME]
    others = {word for word in WORDS if word != "word 7"}
    assert set(own["pair"]) == {f"word 7 – {word}" for word in others}


def test_pairs_of_many_tokens_are_distinct_and_each_draw_has_others():
    n = 5_000
    explorer = plot_distances(rows(n), rows(n, seed=1), tokens=list(map(str, range(n))))
    drawn = [set(measured(explorer, draw=draw)["marks"]["pair"]) for draw in (0, 0, 1)]
    assert len(drawn[0]) == 400
    assert drawn[0] == drawn[1] != drawn[2]


def test_a_matrix_has_the_chosen_tokens_over_the_mean_distance_and_a_shuffled_twin():
    table = rows(400)
    table[:4] *= 0.1  # four tokens near the origin
    words = list(map(str, range(400)))
    explorer = plot_distances(table, tokens=words, chosen=words[:4])
    found = measured(explorer)
    matrix = found["matrix"].pivot(index="row", columns="column", values="relative").loc[words[:4], words[:4]]
    mean = pdist(table).mean()
    np.testing.assert_allclose(matrix, squareform(pdist(table[:4])) / mean, rtol=0.05)  # 2,000 pairs
    off = found["shuffled"].query("row != column")["relative"]
    assert matrix.to_numpy()[np.triu_indices(4, 1)].max() < 0.3
    assert off.mean() > 0.6
    assert "the chosen tokens are 0.1" in explorer.first_title


def test_both_are_drawn_live_and_in_the_page():
    for explorer in (
        plot_distances(rows(), rows(seed=1), tokens=WORDS, chosen=["word 1"]),
        plot_distances(rows(), tokens=WORDS),
    ):
        page, live = explorer.static_spec(), explorer.live_spec()
        bound = {part["name"] for part in page["params"] if "bind" in part}
        assert "distance" in bound
        assert "draw" not in bound, "a page has one draw"
        assert "draw" in {part["name"] for part in live["params"] if "bind" in part}
        title = explorer.answer({name: one.initial for name, one in explorer.controls.items()})["title"]
        assert title == explorer.first_title


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"tokens": WORDS[:5]}, "12 rows, and there are 5 tokens"),
        ({"second": rows(7)}, "second has 7 rows"),
        ({"first": rows()[0]}, "give a matrix, one row a token"),
        ({"first": rows(2), "tokens": WORDS[:2]}, "three at least"),
        ({"chosen": ["absent"]}, "'absent' is absent"),
        ({"chosen": ["word 1", "word 1"]}, "at most can be told apart, each once"),
        ({"tokens": [*WORDS[:11], "word 1"], "chosen": ["word 1"]}, "there more than once"),
        ({"chosen": [f"word {i}" for i in range(21)]}, "21 tokens: 20 at most"),
    ],
)
def test_what_cannot_be_drawn_is_refused(arguments, message):
    given = {"first": rows(), "tokens": WORDS, **arguments}
    with pytest.raises(ValueError, match=message):
        plot_distances(**given)


HOLES, ZERO = rows(), rows()
HOLES[4, 2], ZERO[3] = np.nan, 0.0


@pytest.mark.parametrize(
    ("tables", "distance", "message"),
    [
        ((rows(), HOLES), "Euclidean", "second"),
        ((rows(), ZERO), "cosine", "row 3 of second is all zeros"),
        ((np.ones((12, 3)),), "Euclidean", "all tokens lie in one place"),
    ],
)
def test_holes_and_rows_without_a_direction_are_refused_when_they_are_measured(tables, distance, message):
    with pytest.raises(ValueError, match=message):
        measured(plot_distances(*tables, tokens=WORDS), distance=distance)
