"""An LSTM language model and the one tied by signs that computes the same, trained side by side.

Source: Assylbekov & Takhanov (2019), Remark 4.3; the reflection of the top layer is ours.
"""

from __future__ import annotations

import dataclasses

import numpy as np
import pandas as pd
import torch

from book.ledger.cells import Cell, experiment, load
from book.reflections import slices
from book.reflections.lstm import LSTMConfig, LSTMLanguageModel

PLAIN, SAME_START, REFLECTED = "plain", "same_start", "reflected"


def reflected(model: LSTMLanguageModel, signs: torch.Tensor) -> LSTMLanguageModel:
    """A model tied through `signs` that computes what the plainly tied `model` computes.

    The top layer's candidate gate and recurrent columns change sign where q is -1. Cell and hidden state
    then change sign there too, since tanh is odd, and the decoder's q undoes it. Its weights are as likely
    at the start as `model`'s, if those were drawn from a distribution symmetric about zero.

    Parameters
    ----------
    model : LSTMLanguageModel
        Plainly tied; stays as it is.
    signs : tensor of +1 and -1, shape (D,)

    Raises
    ------
    ValueError
        If `model` is not plainly tied.
    """
    if model.config.tying != "plain":
        raise ValueError(f"the model is tied {model.config.tying!r}: start from one whose tying is 'plain'")
    twin = LSTMLanguageModel(dataclasses.replace(model.config, tying="signs"), seed=0)
    twin = twin.to(model.embedding.dtype)
    q = signs.to(model.embedding.dtype)
    weights = {**model.state_dict(), "signs": q}
    top, width = model.config.n_layers - 1, len(q)
    for name in ("weight_ih", "weight_hh", "bias_ih", "bias_hh"):
        gates = weights[f"lstm.{name}_l{top}"].clone()  # (4 D, D) or (4 D,): input, forget, candidate, output
        candidate = gates[2 * width : 3 * width]
        candidate.mul_(q[:, None] if candidate.dim() == 2 else q)
        weights[f"lstm.{name}_l{top}"] = gates
    weights[f"lstm.weight_hh_l{top}"] *= q  # columns: what the layer reads of its own past
    twin.load_state_dict(weights)
    return twin


def twin_models(*, vocab_size: int, embedding_dim: int, seed: int) -> dict[str, LSTMLanguageModel]:
    """A plainly tied model; one tied by signs from the same weights; one from reflected weights; float64."""
    config = LSTMConfig(vocab_size, embedding_dim, dropout=0.0)
    plain = LSTMLanguageModel(config, seed=seed).double()
    signed = LSTMLanguageModel(dataclasses.replace(config, tying="signs"), seed=seed).double()
    return {PLAIN: plain, SAME_START: signed, REFLECTED: reflected(plain, signed.signs)}


def train_losses(model: LSTMLanguageModel, columns: torch.Tensor, n_steps: int) -> np.ndarray:
    """Train on columns (T, B) of a text by gradient descent with clipped gradients, as the full runs do.

    Returns
    -------
    array, shape (n_steps,)
        Loss of each batch before its step, nats a word.
    """
    optimizer = torch.optim.SGD(model.parameters(), lr=5.0)
    state, losses, n_back = model.initial_state(columns.shape[1]), [], 10
    for step in range(n_steps):
        start = step * n_back % (len(columns) - n_back - 1)
        words, following = columns[start : start + n_back], columns[start + 1 : start + n_back + 1]
        logits, state = model(words, (state[0].detach(), state[1].detach()))
        loss = torch.nn.functional.cross_entropy(logits.flatten(0, 1), following.flatten())
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 0.25)
        optimizer.step()
        losses.append(float(loss.detach()))
    return np.array(losses)


@dataclasses.dataclass(frozen=True)
class Twins:
    """Three models on one text."""

    n_steps: int = 300
    embedding_dim: int = 32
    vocab_size: int = 300
    seed: int = 0


@experiment("reflections.reflected_twins")
def reflected_twins(config: Twins) -> pd.DataFrame:
    """Train the three on the same batches of the embedded corpus.

    Returns
    -------
    DataFrame
        model, step, loss (nats a word, of the training batch); and of each model at step `n_steps` the loss
        on held-out text.
    """
    text = slices.make_language_model_slice(
        "embedded", n_train=20_000, n_valid=2_000, n_test=500, vocab_size=config.vocab_size
    )
    columns = torch.from_numpy(text.train[: len(text.train) // 10 * 10].reshape(10, -1).T.astype(np.int64))
    held_out = torch.from_numpy(text.valid.astype(np.int64))[:, None]  # (T, 1)
    models = twin_models(vocab_size=config.vocab_size, embedding_dim=config.embedding_dim, seed=config.seed)
    tables = []
    for name, model in models.items():
        losses = train_losses(model, columns, config.n_steps)
        with torch.no_grad():
            logits, _ = model(held_out[:-1], model.initial_state(1))
            last = torch.nn.functional.cross_entropy(logits.flatten(0, 1), held_out[1:].flatten())
        steps = np.arange(config.n_steps + 1)
        tables.append(pd.DataFrame({"model": name, "step": steps, "loss": [*losses, float(last)]}))
    table = pd.concat(tables, ignore_index=True)
    table.attrs["data"] = {"embedded": text.checksum}
    return table


def twin_cells() -> list[Cell]:
    """The same at every preset: an identity needs no scale."""
    return [reflected_twins.cell(Twins())]


def held_out_gaps() -> dict[str, float]:
    """Perplexity on held-out text of both models tied by signs, over the plain one's, less one."""
    table = load(twin_cells())
    last = table[table["step"] == table["n_steps"]].set_index("model")["loss"]
    return {name: float(np.expm1(last[name] - last[PLAIN])) for name in (SAME_START, REFLECTED)}
