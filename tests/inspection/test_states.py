"""Hidden states by layer: the last layer's lens is the model itself, and cosines are those of slow loops."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from embviz.cli import main
from embviz.inspection import hidden_states
from tests.inspection.test_inspecting import LINES, V, gpt2, llama, marked

pytestmark = pytest.mark.usefixtures("one_thread")
STRINGS = torch.randint(V, (4, 14), generator=torch.Generator().manual_seed(0))


@pytest.mark.parametrize("make", [gpt2, llama])
def test_the_lens_of_the_last_layer_is_the_model_and_of_the_first_its_embedding(make):
    model = make().eval()
    table = hidden_states(model, strings=STRINGS).set_index(["layer", "quantity"])
    with torch.no_grad():
        logits = model(STRINGS[:, :-1]).logits[:, 1:]
    own = torch.nn.functional.cross_entropy(logits.flatten(0, 1), STRINGS[:, 2:].flatten()) / np.log(2)
    assert table.loc[(2, "logit lens, bits a token"), "value"] == pytest.approx(float(own), rel=1e-5)
    assert table.loc[(2, "logit lens, agreement"), "value"] == 1
    assert table.loc[(2, "logit lens, agreement"), "control"] < 1
    assert table.loc[(0, "logit lens, agreement"), "value"] < 1


def test_cosines_and_nearest_states_are_those_of_slow_loops():
    model = llama().eval()
    table = hidden_states(model, strings=STRINGS).set_index(["layer", "quantity"])
    with torch.no_grad():
        states = model(STRINGS[:, :-1], output_hidden_states=True).hidden_states[1][:, 1:].double().numpy()
    for name, rows in (("mean cosine", states), ("mean cosine, centred", states - states.mean(axis=(0, 1)))):
        unit = rows / np.linalg.norm(rows, axis=-1, keepdims=True)
        n = unit.shape[1]
        slow = [np.mean([one[i] @ one[j] for i in range(n) for j in range(n) if i != j]) for one in unit]
        assert table.loc[(1, name), "value"] == pytest.approx(np.mean(slow), abs=1e-6)
    # after the embedding alone, the same token has the same state
    assert table.loc[(0, "nearest state is of the same token"), "value"] == 1
    assert table.loc[(0, "nearest state is of the same token"), "control"] < 0.2


def test_a_text_is_read_and_what_gives_no_states_is_refused():
    table = hidden_states(gpt2(), text=LINES, tokenizer=marked(), n_tokens=20)
    assert set(table["layer"]) == {0, 1, 2}
    with pytest.raises(ValueError, match="there is no text"):
        hidden_states(gpt2())


def test_the_command_prints_each_layer_and_writes_a_page(tmp_path, capsys):
    gpt2().save_pretrained(tmp_path / "tiny")
    marked().save(str(tmp_path / "tiny/tokenizer.json"))
    (tmp_path / "mine.txt").write_text(LINES, encoding="utf-8")
    asked = ["states", str(tmp_path / "tiny"), "--text", str(tmp_path / "mine.txt")]
    assert main([*asked, "--html", str(tmp_path / "page.html")]) == 0
    assert capsys.readouterr().out.count("logit lens, agreement") == 3
    assert "Hidden states by layer" in (tmp_path / "page.html").read_text(encoding="utf-8")
