"""Two tables that differ by what was planted: a rotation, a token that moved, a change of low rank."""

import numpy as np
import pytest

from embviz import view
from embviz.cli import main
from embviz.inspection import compare
from embviz.words import WordVectors

pytestmark = pytest.mark.usefixtures("one_thread")
V, D = 400, 12


def base(seed=0):
    rng = np.random.default_rng(seed)
    model = {"wte.weight": rng.normal(size=(V, D)) @ np.diag(np.geomspace(3, 0.3, D))}
    for layer in range(3):
        model |= {f"h.{layer}.attn.{kind}_proj.weight": rng.normal(size=(96, 96)) for kind in "qkv"}
    return model


def values(found):
    return {row.quantity: (row.value, row.control) for row in found.table.itertuples()}


def test_a_rotation_is_undone_and_all_neighbours_are_kept():
    model = base()
    turn = np.linalg.qr(np.random.default_rng(1).normal(size=(D, D)))[0]
    found = values(compare(model, {"wte.weight": model["wte.weight"] @ turn + 3}))
    aligned, control = found["cosine of a token's two rows, aligned"]
    assert aligned == pytest.approx(1, abs=1e-6)
    assert abs(control) < 0.2
    assert found["share of 10 neighbours kept"][0] == 1
    assert found["share of 10 neighbours kept"][1] < 0.1
    assert found["correlation of pair cosines"][0] == pytest.approx(1, abs=1e-5)
    assert found["cosine without alignment"][0] < 0.5


def test_tokens_that_moved_come_first_and_random_tables_are_at_their_control():
    model, other = base(), base()
    other["wte.weight"][17] = -other["wte.weight"][17]
    found = compare(model, other, tokenizer=[f"w{i}" for i in range(V)])
    assert found.moved.loc[0, "token"] == "w17"
    apart = values(compare(model, base(seed=9)))
    assert abs(apart["correlation of pair cosines"][0]) < 0.05
    assert apart["share of 10 neighbours kept"][0] < 0.06


def test_neighbours_kept_are_those_of_brute_force():
    model, other = base(), base()
    other["wte.weight"] = other["wte.weight"] + np.random.default_rng(2).normal(size=(V, D))
    found = values(compare(model, other))["share of 10 neighbours kept"][0]
    near = []
    for table in (model["wte.weight"], other["wte.weight"]):
        unit = table - table.mean(axis=0)
        unit /= np.linalg.norm(unit, axis=1, keepdims=True)
        near.append([set(np.argsort(-np.delete(row, i))[:10] + (np.argsort(-np.delete(row, i))[:10] >= i))
                     for i, row in enumerate(unit @ unit.T)])  # fmt: skip
    slow = np.mean([len(one & two) / 10 for one, two in zip(*near, strict=True)])
    assert found == pytest.approx(slow, abs=1e-6)


def test_a_change_of_rank_two_is_found_in_its_matrix_and_no_other():
    model, other = base(), base()
    rng = np.random.default_rng(3)
    other["h.1.attn.v_proj.weight"] = model["h.1.attn.v_proj.weight"] + 0.1 * (
        rng.normal(size=(96, 2)) @ rng.normal(size=(2, 96))
    )
    changes = compare(model, other).changes.set_index(["part", "layer"])
    assert changes.loc[("V", 1), "rank"] <= 2
    assert changes.loc[("V", 1), "rank_of_random"] > 40
    norm = np.linalg.norm(other["h.1.attn.v_proj.weight"] - model["h.1.attn.v_proj.weight"])
    expected = norm / np.linalg.norm(model["h.1.attn.v_proj.weight"])
    assert changes.loc[("V", 1), "change"] == pytest.approx(expected, rel=1e-5)
    assert (changes.drop(index=("V", 1))["change"] == 0).all()


def test_words_are_found_in_a_vocabulary_that_marks_their_beginnings():
    rng = np.random.default_rng(0)
    words = [f"word{chr(97 + i % 26)}{chr(97 + i // 26)}" for i in range(60)]
    plain = WordVectors(words, rng.normal(size=(60, 5)))
    marked = WordVectors([*(f"▁{word}" for word in reversed(words)), *"abcdefgh"], rng.normal(size=(68, 9)))
    assert compare(plain, marked).tokens == words
    with pytest.raises(ValueError, match="share 0 tokens: at least 10 are needed"):
        compare(plain, WordVectors([f"x{i}" for i in range(60)], rng.normal(size=(60, 5))))


def test_the_command_compares_two_files_of_vectors_and_writes_a_page(tmp_path, capsys):
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(50, 6))
    words = ["<img src=x onerror=alert(1)>", *(f"w{i}" for i in range(49))]
    for name, table in (("a", rows), ("b", rows + rng.normal(size=rows.shape) / 9)):
        WordVectors([word.replace(" ", "_") for word in words], table).save_glove(tmp_path / f"{name}.txt")
    page = tmp_path / "page.html"
    assert main(["compare", str(tmp_path / "a.txt"), str(tmp_path / "b.txt"), "--html", str(page)]) == 0
    printed = capsys.readouterr().out
    assert "50 tokens that a (50 tokens) and b (50 tokens) share." in printed
    text = page.read_text(encoding="utf-8")
    assert "<img_src" not in text
    assert "Which tokens moved" in text


def test_a_page_of_models_has_a_slider_and_a_heat_map_of_changes():
    model, other = base(), base()
    other = {name: table + 0.01 for name, table in other.items()}
    page = view.comparison_page(compare(model, other))
    kinds = [type(part).__name__ for part in page.parts]
    assert kinds.count("Map") == 1
    assert kinds.count("Explorer") == 1
