"""The diagram of a transformer: one table joined with its second use, or two tables."""

from book.front.transformer import boxes

WORDS = ["ids", "input", "blocks", "output", "softmax"]


def test_a_tied_model_shows_one_table_twice_and_joins_both_places():
    table = boxes(WORDS, tied=True).set_index("words")
    assert table.loc["input", "kind"] == table.loc["output", "kind"] == "first table"
    assert table.index[table["joined"] == 1].tolist() == ["input", "output"]


def test_an_untied_model_shows_two_tables_and_joins_none():
    table = boxes(WORDS, tied=False).set_index("words")
    assert table.loc[["input", "output"], "kind"].tolist() == ["first table", "second table"]
    assert not table["joined"].any()


def test_boxes_lie_below_each_other_and_the_last_has_no_arrow():
    table = boxes(WORDS, tied=True)
    assert (table["below"][:-1] == table["top"][1:].to_numpy()).all()
    assert (table["bottom"] < table["top"].shift(-1, fill_value=99)).all()
    assert table["below"].iloc[-1] == table["bottom"].iloc[-1]
