from pathlib import Path

import pytest

from embviz.trajectories.checkpoint_steps import steps_of

READ = {
    "Lightning, with the loss in the name": (
        ["epoch=0-step=100-val_loss=2.50.ckpt", "epoch=1-step=200-val_loss=1.75.ckpt"],
        [100, 200],
    ),
    "Trainer": (["checkpoint-500", "checkpoint-1000"], [500, 1000]),
    "global step before step": (["step1-global_step300", "step2-global_step600"], [300, 600]),
    "thousands": (["model_step_5k.pt", "model_step_2.5k.pt"], [5000, 2500]),
    "powers": (["step1e3.pt", "step2e3.pt"], [1000, 2000]),
    "the number that differs": (["gpt2-124m-b8-10.pt", "gpt2-124m-b8-20.pt"], [10, 20]),
    "iterations": (["iter_0001000", "iter_0002000"], [1000, 2000]),
    "a plain number": (["7.safetensors", "8.safetensors"], [7, 8]),
}


@pytest.mark.parametrize("kind", READ)
def test_steps_are_read_from_names(kind):
    names, steps = READ[kind]
    assert steps_of([Path(name) for name in names]) == steps


@pytest.mark.parametrize(
    ("names", "message"),
    [
        (["a1-b5", "a2-b7", "a3-b9"], "cannot be told from the names .a1-b5: 1, 5; a2-b7: 2, 7; a3-b9: 3, 9"),
        (["first.pt", "last.pt"], "first has no number that could be its step: give steps="),
        (["step=100-a.pt", "step=100-b.pt"], "step=100-a and step=100-b are both read as step 100"),
        (["step_0.5.pt", "step_1.pt"], "step_0.5: its step would be 0.5, which is no whole number"),
        (["lr0.1-loss2.5", "lr0.2-loss1.5"], "cannot be told"),
        (["val_loss=2.5", "val_loss=1.5"], "which is no whole number"),
    ],
)
def test_what_is_ambiguous_is_refused_with_the_names(names, message):
    with pytest.raises(ValueError, match=message):
        steps_of([Path(name) for name in names])


def test_trainers_own_state_tells_the_step_where_names_do_not(tmp_path):
    for name, step in {"best-3-1": 40, "last-2-9": 60}.items():
        (tmp_path / name).mkdir()
        (tmp_path / name / "trainer_state.json").write_text(f'{{"global_step": {step}}}', encoding="utf-8")
    assert steps_of(sorted(tmp_path.iterdir())) == [40, 60]
