"""What stands first in a report: quantities with controls, and what is unusual among planted matrices."""

import numpy as np
import pytest

from embviz.inspection import inspect
from embviz.inspection.findings import TERMS, first_screen

pytestmark = pytest.mark.usefixtures("one_thread")


def planted(n_layers=8, D=24, V=120):
    """A model in which V of layer 3 has rank 2 and one row is ten times as long as the others."""
    rng = np.random.default_rng(0)
    model = {name: rng.normal(size=(V, D)) for name in ("wte.weight", "lm_head.weight")}
    model["wte.weight"][7] *= 10
    for layer in range(n_layers):
        model |= {f"h.{layer}.attn.{kind}_proj.weight": rng.normal(size=(D, D)) for kind in "qkv"}
    model["h.3.attn.v_proj.weight"] = rng.normal(size=(D, 2)) @ rng.normal(size=(2, D))
    return inspect(model, [f"word{row}" for row in range(V)], n_heads=1)


def test_what_is_planted_is_found_and_stands_first():
    report = planted()
    found = " ".join(sentence for sentence, _ in report.unusual)
    assert "V of layer 3: " in found
    assert "The vector of 'word7' is longer than others" in found
    away = [off for _, off in report.unusual]
    assert away == sorted(away, reverse=True)
    assert len(away) <= 3


def test_five_quantities_stand_first_each_with_its_control_and_meaning():
    report = planted()
    assert len(report.headlines) == 5
    table = report.table
    row = table[table["part"].eq("embedding") & table["quantity"].eq("mean cosine")].iloc[0]
    (first,) = [one for one in report.headlines if "mean cosine" in one.name]
    assert (first.value, first.control) == (row["value"], row["null"])
    assert all(one.meaning in TERMS.values() for one in report.headlines)
    printed = first_screen(report)
    assert "Its vocabulary has 120 tokens, each a vector of 24 numbers." in printed
    assert "embeddings that are not tied" in printed
