"""Runs stored inside Hugging Face's Trainer and Lightning, against the libraries themselves."""

import logging
import sys
import warnings

import numpy as np
import pytest
import torch
from torch import nn

from embviz.runs import Sketch, read_run
from embviz.training.adapters import lightning_callback, trainer_callback

N_ROWS, N_SYMBOLS = 24, 11


pytestmark = pytest.mark.usefixtures("one_thread")


class Rows(torch.utils.data.Dataset):
    def __len__(self):
        return N_ROWS

    def __getitem__(self, place):
        ids = torch.arange(5) * (place + 1) % N_SYMBOLS
        return {"ids": ids, "labels": ids.roll(1)}


class Model(nn.Module):
    """Bigrams; its call gives a loss first, as Hugging Face's Trainer likes it."""

    def __init__(self):
        super().__init__()
        generator = torch.Generator().manual_seed(0)
        self.table = nn.Parameter(torch.randn(N_SYMBOLS, N_SYMBOLS, generator=generator))
        self.bias = nn.Parameter(torch.zeros(N_SYMBOLS))

    def forward(self, ids, labels):
        logits = self.table[ids] + self.bias
        return {"loss": nn.functional.cross_entropy(logits.flatten(0, 1), labels.flatten())}


def plain(n_steps, batch_size, rate=0.1):
    """SGD without shuffling: losses, and tables after each step."""
    model, rows, losses, tables = Model(), Rows(), [], []
    for step in range(n_steps):
        places = [(step * batch_size + i) % N_ROWS for i in range(batch_size)]
        batch = torch.utils.data.default_collate([rows[place] for place in places])
        loss = model(**batch)["loss"]
        model.zero_grad()
        loss.backward()
        with torch.no_grad():
            for parameter in model.parameters():
                parameter -= rate * parameter.grad
        losses.append(loss.item())
        tables.append(model.table.detach().clone())
    return losses, tables


def assert_recorded(folder, steps, expected, name="table"):
    """Weights and losses are those of the plain loop."""
    run = read_run(folder)
    assert list(run.shapes) == [name]
    assert run.steps == list(steps)
    losses, tables = expected
    for place, step in enumerate(steps):
        # float32, the same operations but for the way gradients are accumulated
        np.testing.assert_allclose(run.tensor(name)[place], tables[step - 1], atol=1e-6)
        assert run.metrics()["loss"][place] == pytest.approx(losses[step - 1], rel=1e-5)


# --- Hugging Face -----------------------------------------------------------------------------------


@pytest.fixture
def hugging(tmp_path, monkeypatch):
    """A function that trains with callbacks, for some steps, from a checkpoint or not."""
    transformers = pytest.importorskip("transformers")
    pytest.importorskip("accelerate")
    monkeypatch.setenv("ACCELERATE_USE_CPU", "true")

    class Ordered(transformers.Trainer):
        def _get_train_sampler(self, dataset=None):
            return torch.utils.data.SequentialSampler(self.train_dataset)

    def train(callback, n_steps, *, resume=None, model=None, **settings):
        defaults = {
            "output_dir": str(tmp_path / "out"), "max_steps": n_steps, "per_device_train_batch_size": 4,
            "learning_rate": 0.1, "lr_scheduler_type": "constant", "optim": "sgd", "max_grad_norm": 0.0,
            "logging_steps": 1, "report_to": [], "disable_tqdm": True, "save_strategy": "no",
            "remove_unused_columns": False, "use_cpu": True, "dataloader_pin_memory": False,
        }  # fmt: skip
        arguments = transformers.TrainingArguments(**(defaults | settings))
        trainer = Ordered(model or Model(), arguments, train_dataset=Rows(), callbacks=[callback])
        trainer.remove_callback(transformers.trainer_callback.PrinterCallback)
        trainer.train(resume_from_checkpoint=resume)
        return trainer

    return train


def test_a_trainer_is_recorded_with_the_losses_that_it_logs(hugging, tmp_path):
    callback = trainer_callback(tmp_path / "recording", every=2, config={"seed": 0})
    hugging(callback, 7, logging_steps=2)
    losses, tables = plain(7, 4)
    means = [sum(losses[step - 2 : step]) / 2 for step in range(1, 8)]  # since it last logged
    assert_recorded(tmp_path / "recording", [2, 4, 6], (means, tables))
    assert read_run(tmp_path / "recording").config == {"seed": 0}


def test_accumulated_batches_are_one_update_of_a_trainer(hugging, tmp_path):
    callback = trainer_callback(tmp_path / "recording")
    hugging(callback, 3, gradient_accumulation_steps=2, per_device_train_batch_size=2)
    assert_recorded(tmp_path / "recording", [1, 2, 3], plain(3, 4))


def test_steps_without_a_logged_loss_are_recorded_without_one_after_a_warning(hugging, tmp_path):
    with pytest.warns(UserWarning, match="most snapshots will have no loss.*logging_steps=1"):
        hugging(trainer_callback(tmp_path / "recording", sketch=Sketch(16)), 5, logging_steps=3)
    run = read_run(tmp_path / "recording")
    assert run.steps == [1, 2, 3, 4, 5]
    assert np.isnan(run.metrics()["loss"]).tolist() == [True, True, False, True, True]
    assert run.tensor("table").shape == (5, 16)
    with pytest.warns(UserWarning, match="most snapshots"):
        hugging(trainer_callback(tmp_path / "epochs"), 8, logging_strategy="epoch")
    assert read_run(tmp_path / "epochs").steps == list(range(1, 9))


def test_a_trainer_that_resumes_from_a_checkpoint_goes_on_with_its_recording(hugging, tmp_path):
    def make():
        return trainer_callback(tmp_path / "recording")

    saving = {"save_strategy": "steps", "save_steps": 3}
    hugging(make(), 5, **saving)
    checkpoint = str(tmp_path / "out" / "checkpoint-3")
    hugging(make(), 6, resume=checkpoint, **saving)
    assert_recorded(tmp_path / "recording", range(1, 7), plain(6, 4))
    with pytest.raises(ValueError, match="holds a run of steps 1 to 6"):
        hugging(make(), 5)


def test_a_trainer_that_breaks_off_can_be_started_again_with_the_same_callback(hugging, tmp_path):
    class Fails(Model):
        def forward(self, ids, labels):
            self.calls = getattr(self, "calls", 0) + 1
            if self.calls == 5:
                raise RuntimeError("out of memory")
            return super().forward(ids, labels)

    callback = trainer_callback(tmp_path / "recording")
    saving = {"save_strategy": "steps", "save_steps": 2}
    with pytest.raises(RuntimeError, match="out of memory"):
        hugging(callback, 6, model=Fails(), **saving)
    assert read_run(tmp_path / "recording").steps == [1, 2, 3, 4]
    hugging(callback, 6, resume=str(tmp_path / "out" / "checkpoint-2"), **saving)
    assert_recorded(tmp_path / "recording", range(1, 7), plain(6, 4))


# --- Lightning --------------------------------------------------------------------------------------


@pytest.fixture
def lightning(tmp_path):
    """A function that fits with callbacks, for some steps, from a checkpoint or not."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the library's own, on loading
        pl = pytest.importorskip("lightning.pytorch")
    for name in ("lightning.pytorch", "lightning.fabric"):
        logging.getLogger(name).setLevel(logging.ERROR)

    class Module(pl.LightningModule):
        def __init__(self):
            super().__init__()
            self.model = Model()

        def training_step(self, batch, batch_idx):
            return self.model(**batch)["loss"]

        def configure_optimizers(self):
            return torch.optim.SGD(self.parameters(), lr=0.1)

    def fit(callback, n_steps, *, resume=None, batch_size=4, every_checkpoint=None, **settings):
        loader = torch.utils.data.DataLoader(Rows(), batch_size)
        checkpoints = pl.callbacks.ModelCheckpoint(
            tmp_path / "out", "{step}", every_n_train_steps=every_checkpoint, save_top_k=-1
        )
        trainer = pl.Trainer(
            max_steps=n_steps, accelerator="cpu", logger=False, enable_progress_bar=False,
            enable_model_summary=False, default_root_dir=tmp_path,
            enable_checkpointing=bool(every_checkpoint),
            callbacks=[checkpoints, callback] if every_checkpoint else [callback], **settings,
        )  # fmt: skip
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # advice on workers, checkpoints
            trainer.fit(Module(), loader, ckpt_path=resume)

    return fit


def test_lightning_is_recorded_with_the_losses_of_its_steps(lightning, tmp_path):
    lightning(lightning_callback(tmp_path / "recording", every=3), 10)
    assert_recorded(tmp_path / "recording", [3, 6, 9], plain(10, 4), "model.table")


def test_accumulated_batches_are_one_update_of_lightning(lightning, tmp_path):
    callback = lightning_callback(tmp_path / "recording", tensors="model.table")
    lightning(callback, 5, batch_size=2, accumulate_grad_batches=2)
    assert_recorded(tmp_path / "recording", range(1, 6), plain(5, 4), "model.table")


def test_lightning_that_resumes_from_a_checkpoint_goes_on_with_its_recording(lightning, tmp_path):
    def make():
        return lightning_callback(tmp_path / "recording", sketch=Sketch(200))

    lightning(make(), 8, every_checkpoint=6)  # after an epoch: batches are those of the plain loop
    lightning(make(), 9, resume=tmp_path / "out" / "step=6.ckpt", every_checkpoint=6)
    assert_recorded(tmp_path / "recording", range(1, 10), plain(9, 4), "model.table")
    with pytest.raises(ValueError, match="holds a run of steps 1 to 9"):
        lightning(make(), 5)


def test_lightning_that_breaks_off_frees_the_folder(lightning, tmp_path):
    def fail(*_):
        raise RuntimeError("out of memory")

    callback = lightning_callback(tmp_path / "recording")
    callback.on_train_epoch_end = fail
    with pytest.raises(RuntimeError, match="out of memory"):
        lightning(callback, 9)
    assert_recorded(tmp_path / "recording", range(1, 7), plain(6, 4), "model.table")


# --- without them -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("make", "module"), [(trainer_callback, "transformers"), (lightning_callback, "lightning")]
)
def test_without_the_library_the_message_says_what_to_install(monkeypatch, tmp_path, make, module):
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(ImportError, match=rf'needs {module}: pip install "embviz\[adapters\]"'):
        make(tmp_path / "recording")
    assert not (tmp_path / "recording").exists()
