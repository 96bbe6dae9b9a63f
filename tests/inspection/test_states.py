"""Hidden states by layer: the last layer's lens is the model itself, and cosines are those of slow loops."""

import numpy as np
import pytest
import torch

from embviz.cli import main
from embviz.inspection import hidden_states, nearest_states, states
from tests.inspection.test_inspecting import LINES, V, gpt2, llama, marked, word_level

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
        found = model(STRINGS[:, :-1], output_hidden_states=True).hidden_states[1][:, 1:].double().numpy()
    for name, rows in (("mean cosine", found), ("mean cosine, centred", found - found.mean(axis=(0, 1)))):
        unit = rows / np.linalg.norm(rows, axis=-1, keepdims=True)
        n = unit.shape[1]
        slow = [np.mean([one[i] @ one[j] for i in range(n) for j in range(n) if i != j]) for one in unit]
        assert table.loc[(1, name), "value"] == pytest.approx(np.mean(slow), abs=1e-6)
    # after the embedding alone, the same token has the same state
    assert table.loc[(0, "nearest state is of the same token"), "value"] == 1
    assert table.loc[(0, "nearest state is of the same token"), "control"] < 0.2


def test_a_text_is_read_and_what_gives_no_states_is_refused():
    table = hidden_states(gpt2(), text=LINES, tokenizer=marked())
    assert set(table["layer"]) == {0, 1, 2}
    with pytest.raises(ValueError, match="there is no text"):
        hidden_states(gpt2())


def test_states_nearest_to_a_token_are_those_of_a_slow_loop(monkeypatch):
    for name, number in (("N_TOKENS", 20), ("N_PLACES", 2), ("N_NEIGHBORS", 3)):
        monkeypatch.setattr(states, name, number)
    model = llama().eval()
    text = " ".join(f"word{i * i % 23}" for i in range(120))
    table = nearest_states(model, "word4", text=text, tokenizer=word_level(), n_strings=2)
    assert len(table) == 3 * 2 * 3
    embedded = table[table["layer"] == 0]  # the same token has the same state
    assert embedded.loc[embedded["rank"] == 1, "neighbor"].str.contains(r"\[word4\]").all()
    (strings,) = {len(place.split()) for place in table["place"][:1]}
    assert strings <= 9
    ids = np.array([i * i % 23 for i in range(120)])
    cut = torch.from_numpy(np.stack([ids[first : first + 21] for first in (0, 99)]))
    with torch.no_grad():
        found = model(cut[:, :-1], output_hidden_states=True).hidden_states[2][:, 1:].double().numpy()
    rows = found.reshape(-1, found.shape[-1])
    rows = rows - rows.mean(axis=0)
    (place, *_) = np.flatnonzero(cut[:, 1:-1].numpy().ravel() == 4)
    cosines = [
        rows[place] @ row / np.linalg.norm(rows[place]) / np.linalg.norm(row)
        for row in np.delete(rows, place, 0)
    ]
    own = table[table["layer"] == 2]["cosine"][:3]
    np.testing.assert_allclose(own, sorted(cosines)[::-1][:3], atol=1e-6)
    assert (table["control"] < 1).all()
    with pytest.raises(ValueError, match="'word39' is no token of the"):
        nearest_states(model, "word39", text=text, tokenizer=word_level())


def test_the_command_prints_each_layer_and_writes_a_page(tmp_path, capsys):
    gpt2().save_pretrained(tmp_path / "tiny")
    marked().save(str(tmp_path / "tiny/tokenizer.json"))
    (tmp_path / "mine.txt").write_text(LINES, encoding="utf-8")
    asked = ["states", str(tmp_path / "tiny"), "--text", str(tmp_path / "mine.txt")]
    assert main([*asked, "--html", str(tmp_path / "page.html")]) == 0
    assert capsys.readouterr().out.count("logit lens, agreement") == 3
    assert "Hidden states by layer" in (tmp_path / "page.html").read_text(encoding="utf-8")
    assert main([*asked, "--token", "word4"]) == 0
    assert "[word4]" in capsys.readouterr().out
