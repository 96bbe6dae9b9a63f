"""A matrix replaced: the loss is the one that Transformers gives, and the model is as it was."""

import copy

import numpy as np
import pytest
import torch

from embviz.cli import main
from embviz.inspection import patch
from tests.inspection.test_inspecting import LINES, H, V, gpt2, llama, marked, word_level

pytestmark = pytest.mark.usefixtures("one_thread")
STRINGS = torch.randint(V, (4, 12), generator=torch.Generator().manual_seed(0))


def slow(model, strings=STRINGS):
    """Transformers' loss, bits a token, string by string."""
    with torch.no_grad():
        losses = [model.eval()(one[None], labels=one[None]).loss.item() for one in strings]
    return np.array(losses) / np.log(2)


def repeated(keys):
    """Two heads of keys, each for two heads of queries."""
    return keys.view(2, 4, -1).repeat_interleave(2, 0).view(16, -1)


@pytest.mark.parametrize(
    ("how", "change"),
    [
        ("zero", lambda attention: attention.q_proj.weight.zero_()),
        ("key", lambda attention: attention.q_proj.weight.copy_(repeated(attention.k_proj.weight))),
        ("without head 2", lambda attention: attention.q_proj.weight[8:12].zero_()),
    ],
)  # fmt: skip
def test_the_loss_of_a_patched_model_is_that_of_a_model_with_the_matrix_replaced(how, change):
    model = llama()
    with torch.no_grad():
        for value in model.parameters():
            value.mul_(3)
    before = copy.deepcopy(model.state_dict())
    found = patch(model, "layers.1.q_proj", how, strings=STRINGS).set_index("how")
    assert found.loc["unchanged", "loss"] == pytest.approx(slow(model).mean(), rel=1e-5)
    other = copy.deepcopy(model)
    with torch.no_grad():
        change(other.model.layers[1].self_attn)
    assert found.loc[how, "loss"] == pytest.approx(slow(other).mean(), rel=1e-5)
    difference = (slow(other) - slow(model)).mean()
    assert found.loc[how, "difference"] == pytest.approx(difference, abs=1e-5)
    assert found.loc[how, "low"] <= difference + 1e-6
    assert found.loc[how, "high"] >= difference - 1e-6
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())


def test_full_rank_changes_nothing_and_an_output_matrix_loses_columns():
    model = llama()
    found = patch(model, "layers.0.o_proj", ["rank 16", "without head 0"], strings=STRINGS).set_index("how")
    assert abs(found.loc["rank 16", "difference"]) < 1e-5
    other = copy.deepcopy(model)
    with torch.no_grad():
        other.model.layers[0].self_attn.o_proj.weight[:, : 16 // H].zero_()
    assert found.loc["without head 0", "loss"] == pytest.approx(slow(other).mean(), rel=1e-5)
    assert found.index[-1] == "permuted"


def test_a_text_is_cut_by_the_tokenizer_and_a_function_replaces():
    table = patch(gpt2(), "h.1.mlp.c_fc", lambda matrix: 0 * matrix, text=LINES, tokenizer=marked())
    assert table.loc[0, "difference"] == 0
    assert table["loss"].notna().all()


def test_what_cannot_be_patched_is_named():
    with pytest.raises(ValueError, match="2 matrices fit the name 'q_proj'"):
        patch(llama(), "q_proj", "zero", strings=STRINGS)
    with pytest.raises(ValueError, match="it has no heads"):
        patch(gpt2(), "h.0.attn.c_attn", "without head 0", strings=STRINGS)
    with pytest.raises(ValueError, match="is no replacement"):
        patch(llama(), "layers.0.q_proj", "ones", strings=STRINGS)
    with pytest.raises(ValueError, match="there is no text"):
        patch(llama(), "layers.0.q_proj", "zero", tokenizer=word_level())


def test_the_command_prints_losses(tmp_path, capsys):
    llama().save_pretrained(tmp_path / "tiny")
    word_level().save(str(tmp_path / "tiny/tokenizer.json"))
    (tmp_path / "mine.txt").write_text(LINES, encoding="utf-8")
    asked = ["patch", str(tmp_path / "tiny"), "layers.1.q_proj", "--how", "key", "rank 2"]
    assert main([*asked, "--text", str(tmp_path / "mine.txt")]) == 0
    rows = [line.split("  ")[0] for line in capsys.readouterr().out.splitlines()[1:5]]
    assert rows == ["unchanged", "key", "rank 2", "permuted"]
