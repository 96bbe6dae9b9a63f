"""A table says what was measured, of how many, beside which control, and what was not measured at all."""

import numpy as np
import pandas as pd
import pytest

from book.view import figures_table, say


def runs() -> pd.DataFrame:
    rows = [
        {"run": run, "seed": seed, "accuracy": start + 0.01 * seed, "grok": grok[seed]}
        for run, start, grok in (("plain", 0.5, (80, 120, 1500)), ("steered", 0.9, (8, 9, 10)))
        for seed in range(3)
    ]
    return pd.DataFrame(rows)


def column(table, name):
    return table.texts[name].to_dict()


def test_a_cell_has_the_mean_and_the_range_over_seeds():
    table = figures_table(runs(), "accuracy", "run")
    assert column(table, "accuracy") == {
        "plain": "0.510 (0.500 to 0.520)",
        "steered": "0.910 (0.900 to 0.920)",
    }
    assert column(table, "seeds") == {"plain": 3, "steered": 3}
    assert "least and the largest" in repr(table)


def test_what_the_table_lacks_is_not_measured():
    table = figures_table(runs(), "accuracy", "run", rows=["steered", "tied"])
    assert column(table, "accuracy") == {"steered": "0.910 (0.900 to 0.920)", "tied": "not measured"}
    assert column(table, "seeds")["tied"] == 0
    gaps = runs().assign(accuracy=lambda table: table["accuracy"].where(table["run"] == "plain"))
    assert column(figures_table(gaps, "accuracy", "run"), "accuracy")["steered"] == "not measured"


def test_a_seed_that_was_not_measured_is_left_out_of_the_mean():
    gaps = runs().assign(accuracy=lambda table: table["accuracy"].where(table["seed"] < 2))
    assert figures_table(gaps, "accuracy", "run")["plain"].value == pytest.approx(0.505)


def test_nobody_waited_beyond_the_limit():
    table = figures_table(runs(), {"grok": "epochs"}, "run", statistic="median", limit=1500)
    assert column(table, "epochs") == {"plain": "120 (80 to > 1,500)", "steered": "9 (8 to 10)"}
    with pytest.raises(ValueError, match="take the median"):
        figures_table(runs(), "grok", "run", limit=1500)


def test_truths_are_counted_and_words_shown():
    own = runs().assign(grokked=lambda table: table["grok"] < 1500, rule="sum", size=1024)
    table = figures_table(own, ["grokked", "rule", "size"], "run")
    assert table.texts.loc["plain"].to_list() == ["2 of 3", "sum", "1,024", 3]


def test_two_rows_of_one_seed_are_refused():
    with pytest.raises(ValueError, match="several rows for run plain, seed 0: choose one"):
        figures_table(pd.concat([runs(), runs()]), "accuracy", "run")


def test_words_of_a_vocabulary_are_text():
    own = runs().replace({"run": {"plain": "<script>alert(1)</script>"}})
    html = figures_table(own, "accuracy", "run")._repr_html_()
    assert "<script>" not in html


def test_sentences_take_numbers_from_the_table():
    table = figures_table(runs(), ["accuracy", "grok"], "run", published={"grok": {"plain": 100}})
    text = say("{t[steered].accuracy:percent} after {t[steered].grok}, not {t[plain].grok:paper}", t=table)
    assert text == "91.0% after 9.0, not 100"
    with pytest.raises(ValueError, match="no 'tied': choose from plain, steered"):
        say("{t[tied].grok}", t=table)


def test_the_text_is_the_same_whatever_the_order_of_rows():
    rng = np.random.default_rng(0)
    shuffled = runs().iloc[rng.permutation(6)]
    rows = ["plain", "steered"]
    one, other = (figures_table(table, "accuracy", "run", rows=rows) for table in (runs(), shuffled))
    assert repr(one) == repr(other)
