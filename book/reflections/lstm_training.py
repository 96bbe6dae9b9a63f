"""Training LSTM language models, an epoch at a time."""

from __future__ import annotations

import hashlib
import json
import math
import os
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Literal, Protocol, get_args

import numpy as np
import pandas as pd
import safetensors
import torch
from safetensors.torch import save_file
from torch import Tensor, nn

from book.reflections.lstm import LSTMConfig, LSTMLanguageModel, State
from embviz.storage import whole_file
from embviz.training.loop import keep_freed_memory

Precision = Literal["float32", "bfloat16"]


class LanguageModelData(Protocol):
    """Three runs of word ids below ``len(vocabulary)``, each (N,) of any integer type."""

    @property
    def train(self) -> np.ndarray: ...
    @property
    def valid(self) -> np.ndarray: ...
    @property
    def test(self) -> np.ndarray: ...
    @property
    def vocabulary(self) -> list[str]: ...


@dataclass(frozen=True)
class LanguageModelTraining:
    """How a language model is trained; the defaults are from the paper's footnote 12."""

    n_epochs: int = 40
    batch_size: int = 20  # columns that the text is read in side by side
    n_steps_back: int = 35  # words through which gradients flow back
    learning_rate: float = 20.0  # of plain gradient descent, on the mean loss in nats
    annealing: float = 4.0  # divides the rate after an epoch whose validation is no better than the best...
    n_flat_epochs: int | None = None  # ...or, where given, after each epoch from this one on, for short runs
    max_grad_norm: float = 0.25  # of all gradients together
    precision: Precision = "float32"  # "bfloat16": LSTM and large products; weights, softmax, evaluation not
    eval_batch_size: int = 10  # columns for validation and test

    def __post_init__(self) -> None:
        if min(self.n_epochs, self.batch_size, self.n_steps_back, self.eval_batch_size) < 1:
            raise ValueError(f"epochs, batch sizes and steps back must be at least 1, got {self}")
        if min(self.learning_rate, self.max_grad_norm) <= 0 or self.annealing < 1:
            raise ValueError(f"rate and gradient norm must be above 0, annealing at least 1, got {self}")
        if self.n_flat_epochs is not None and self.n_flat_epochs < 1:
            raise ValueError(f"n_flat_epochs counts epochs from 1, got {self.n_flat_epochs}")
        if self.precision not in get_args(Precision):
            raise ValueError(
                f"precision is {self.precision!r}: choose one of {', '.join(get_args(Precision))}"
            )


@dataclass(frozen=True)
class Epoch:
    """One pass over the training text, and the model measured after it."""

    epoch: int  # from 1
    learning_rate: float
    train_loss: float  # mean over the epoch, with dropout, nats a word
    valid_perplexity: float
    test_perplexity: float  # of the epoch with the best validation so far
    seconds: float  # wall time, evaluation included


def language_model_perplexity(
    data: LanguageModelData,
    model_config: LSTMConfig,
    training_config: LanguageModelTraining,
    *,
    seed: int,
    checkpoint: str | os.PathLike[str] | None = None,
) -> pd.DataFrame:
    """Train one language model from its seed and tabulate its epochs.

    Parameters
    ----------
    data : LanguageModelData
    model_config : LSTMConfig
    training_config : LanguageModelTraining
    seed : int
        Of the initial weights, the signs and dropout.
    checkpoint : path ending in .safetensors, optional
        Written whole after each epoch. Where it exists already, the run goes on from it and, on one
        machine with the same number of threads, ends with the bits of an unbroken run; it is kept.

    Returns
    -------
    DataFrame, one row an :class:`Epoch`
        The last row's `test_perplexity` is the run's result. All but `seconds` repeats exactly.

    Raises
    ------
    ValueError
        As :func:`train_language_model`; or if `checkpoint` is damaged or belongs to another run.
    FloatingPointError
        As :func:`train_language_model`.
    """
    model = LSTMLanguageModel(model_config, seed=seed)
    run = _describe_run(data, model_config, training_config, seed)
    path = None if checkpoint is None else Path(checkpoint)
    records = _load_checkpoint(path, model, run) if path is not None and path.exists() else []
    for record in train_language_model(model, data, training_config, seed=seed, done=records.copy()):
        records.append(record)
        if path is not None:
            _save_checkpoint(path, model, run, records)
    return pd.DataFrame([asdict(record) for record in records])


def bfloat16_on_cpu() -> bool:
    """Whether an LSTM runs in half precision here: oneDNN, where it is there, needs AVX-512 for that."""
    if not torch.backends.mkldnn.is_available():  # PyTorch's own LSTM
        return True
    return bool(torch.ops.mkldnn._is_mkldnn_bf16_supported())


def train_language_model(
    model: LSTMLanguageModel,
    data: LanguageModelData,
    config: LanguageModelTraining,
    *,
    seed: int,
    done: Sequence[Epoch] = (),
) -> Iterator[Epoch]:
    """Train by truncated back-propagation through time, one :class:`Epoch` at a time.

    Parameters
    ----------
    model : LSTMLanguageModel
        Changed in place; its weights are those of the epoch just yielded.
    data : LanguageModelData
    config : LanguageModelTraining
    seed : int
        Of dropout; epoch k draws from (seed, k) alone, so a resumed run repeats the unbroken one.
    done : sequence of Epoch, default none
        The epochs that brought `model` to its present weights; training goes on after them.

    Yields
    ------
    Epoch

    Raises
    ------
    ValueError
        If an id lies outside the model's vocabulary, a text is too short for its batch size, or the
        processor has no LSTM in bfloat16.
    FloatingPointError
        If loss or gradient stops being finite; names the step and the seed.
    """
    device = model.embedding.device
    if config.precision == "bfloat16" and device.type == "cpu" and not bfloat16_on_cpu():
        raise ValueError(
            'precision "bfloat16" needs a processor with AVX-512, or a GPU, for an LSTM: choose "float32"'
        )
    keep_freed_memory()
    sizes = {"train": config.batch_size, "valid": config.eval_batch_size, "test": config.eval_batch_size}
    train, valid_text, test_text = (
        _load_columns(name, getattr(data, name), size, model.config.vocab_size).to(device)
        for name, size in sizes.items()
    )
    records = list(done)
    test = records[-1].test_perplexity if records else math.nan  # the first epoch always measures it
    for epoch in range(len(records) + 1, config.n_epochs + 1):
        start = time.perf_counter()
        rate = _learning_rate(records, config)
        train_loss = _train_epoch(model, train, config, rate, seed=seed, epoch=epoch)
        valid = evaluate_perplexity(model, valid_text, config.n_steps_back)
        if valid < min((record.valid_perplexity for record in records), default=math.inf):
            test = evaluate_perplexity(model, test_text, config.n_steps_back)
        records.append(Epoch(epoch, rate, train_loss, valid, test, time.perf_counter() - start))
        yield records[-1]


def arrange_columns(ids: Tensor, batch_size: int) -> Tensor:
    """Cut ids (N,) into `batch_size` equal runs, side by side: (N // B, B); a rest is left out.

    Raises
    ------
    ValueError
        If a column would hold fewer than two words, which leaves nothing to predict.
    """
    length = len(ids) // batch_size
    if length < 2:
        raise ValueError(
            f"{len(ids)} words in {batch_size} columns leave nothing to predict: "
            f"give at least {2 * batch_size} words or a smaller batch size"
        )
    return ids[: length * batch_size].view(batch_size, length).t().contiguous()


def evaluate_perplexity(model: LSTMLanguageModel, columns: Tensor, n_steps: int) -> float:
    """Perplexity of columns (T, B) under the model, in float32 and without dropout.

    The state runs through a column; its first word is given, not predicted. Columns are read
    `n_steps` rows at a time, which changes memory and not the result.
    """
    was_training = model.training
    model.eval()
    total, state = 0.0, model.initial_state(columns.shape[1])
    with torch.no_grad():
        for tokens, targets in _segments(columns, n_steps):
            logits, state = model(tokens, state)  # (T, B, V)
            total += nn.functional.cross_entropy(
                logits.flatten(0, 1), targets.flatten(), reduction="sum"
            ).item()
    model.train(was_training)
    return math.exp(total / ((len(columns) - 1) * columns.shape[1]))


def _train_epoch(
    model: LSTMLanguageModel,
    columns: Tensor,
    config: LanguageModelTraining,
    learning_rate: float,
    *,
    seed: int,
    epoch: int,
) -> float:
    """One pass over columns (T, B) by clipped gradient descent; the mean loss in nats."""
    model.train()
    total, state = 0.0, model.initial_state(columns.shape[1])
    device = columns.device
    with torch.random.fork_rng(devices=[device] if device.type == "cuda" else []):
        # torch's dropout takes no generator of its own
        torch.manual_seed(int(np.random.SeedSequence([seed, epoch]).generate_state(1, np.uint64)[0]))
        for step, (tokens, targets) in enumerate(_segments(columns, config.n_steps_back)):
            state = (state[0].detach(), state[1].detach())
            loss, state, norm = _descend(model, tokens, targets, state, config, learning_rate)
            if not (math.isfinite(loss) and math.isfinite(norm)):
                raise FloatingPointError(
                    f"loss {loss}, gradient norm {norm} at step {step} of epoch {epoch}, seed {seed}: "
                    f"lower the learning rate (now {learning_rate:g}) or max_grad_norm"
                )
            total += loss * len(tokens)
    return total / (len(columns) - 1)


def _descend(
    model: LSTMLanguageModel,
    tokens: Tensor,
    targets: Tensor,
    state: State,
    config: LanguageModelTraining,
    learning_rate: float,
) -> tuple[float, State, float]:
    """One clipped gradient step; loss in nats, new state, gradient norm before clipping."""
    with torch.autocast(tokens.device.type, torch.bfloat16, enabled=config.precision == "bfloat16"):
        loss, state = model.loss(tokens, targets, state)
    parameters = list(model.parameters())
    gradients = torch.autograd.grad(loss, parameters)
    norm = nn.utils.get_total_norm(gradients).item()
    # clipping scales every gradient alike, so it goes into the step and saves a pass over them
    step_size = learning_rate * min(1.0, config.max_grad_norm / (norm + 1e-6))
    with torch.no_grad():
        for parameter, gradient in zip(parameters, gradients, strict=True):
            parameter.add_(gradient, alpha=-step_size)
    return loss.item(), state, norm


def _segments(columns: Tensor, n_steps: int) -> Iterator[tuple[Tensor, Tensor]]:
    """Consecutive (tokens, targets) of at most `n_steps` rows of columns (T, B), targets a row later."""
    for start in range(0, len(columns) - 1, n_steps):
        stop = min(start + n_steps, len(columns) - 1)
        yield columns[start:stop], columns[start + 1 : stop + 1]


def _learning_rate(records: Sequence[Epoch], config: LanguageModelTraining) -> float:
    """Rate of the epoch after `records`, by the plateau or by the fixed plan."""
    if config.n_flat_epochs is not None:
        return config.learning_rate / config.annealing ** max(0, len(records) - config.n_flat_epochs + 1)
    rate, best = config.learning_rate, math.inf
    for record in records:
        if record.valid_perplexity < best:
            best = record.valid_perplexity
        else:
            rate /= config.annealing
    return rate


def _describe_run(
    data: LanguageModelData, model_config: LSTMConfig, training_config: LanguageModelTraining, seed: int
) -> dict[str, object]:
    """What makes a run the same run, as plain JSON."""
    digest = hashlib.sha256()
    for ids in (data.train, data.valid, data.test):
        digest.update(len(ids).to_bytes(8, "little") + ids.astype("<i8").tobytes())
    training = asdict(training_config)
    return {"model": asdict(model_config), "training": training, "seed": seed, "data": digest.hexdigest()}


def _save_checkpoint(
    path: Path, model: LSTMLanguageModel, run: dict[str, object], records: Sequence[Epoch]
) -> None:
    """Weights, and in the header the run and its epochs: one file, so they cannot disagree."""
    header = {"run": json.dumps(run), "epochs": json.dumps([asdict(record) for record in records])}
    weights = {name: tensor.detach().cpu().contiguous() for name, tensor in model.state_dict().items()}
    with whole_file(path) as temporary:
        save_file(weights, temporary, metadata=header)


def _load_checkpoint(path: Path, model: LSTMLanguageModel, run: dict[str, object]) -> list[Epoch]:
    """Give `model` the weights of `path`; the epochs that made them."""
    try:
        with safetensors.safe_open(path, framework="pt") as file:
            header = file.metadata() or {}
            weights = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 (not a dict)
        stored_run, epochs = json.loads(header["run"]), json.loads(header["epochs"])
    except (safetensors.SafetensorError, KeyError, ValueError, RecursionError) as error:
        raise ValueError(
            f"{path} is not a whole checkpoint ({error}): move it away to start again"
        ) from error
    if stored_run != run:
        differing = ", ".join(key for key in run if stored_run.get(key) != run[key])
        raise ValueError(f"{path} belongs to a run with other {differing}: name another file or move it away")
    model.load_state_dict(weights)
    return [Epoch(**epoch) for epoch in epochs]


def _load_columns(name: str, ids: np.ndarray, batch_size: int, vocab_size: int) -> Tensor:
    """The text `name` as columns (T, B), or a refusal that names it."""
    if len(ids) and not 0 <= int(ids.min()) <= int(ids.max()) < vocab_size:
        raise ValueError(
            f"{name} holds ids from {int(ids.min())} to {int(ids.max())}, the model's vocabulary ends at "
            f"{vocab_size - 1}: make both from the same vocabulary"
        )
    try:
        return arrange_columns(torch.from_numpy(ids.astype(np.int64)), batch_size)
    except ValueError as error:
        raise ValueError(f"{name}: {error}") from error
