"""The Sounding Hammer on language models: positions, outputs of the MLPs, tokens.

Source: geometry paper, sections 3.1 and 3.2, Table 3. It strikes GPT-2 small with 200 short stories and takes
"the top 16 of 257 frequency bins", which only an axis of 512 rows has: positions up to 512, as it says, but
3,072 hidden units of an MLP and 50,257 tokens. The reading here: the first 512 rows of each axis, so that
tensors compare; beside it the whole axis, where it is longer. Of an MLP's output the axis is the hidden
units, rows of GPT-2's `c_proj.weight` and columns of a PyTorch linear map.
"""

from __future__ import annotations

import hashlib
import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd
import torch
from torch import Tensor, nn

from book.geometry.experiments.steering_language import Setting
from book.language import Stream, Streams, TextConfig, load_streams, next_token_losses, train_language_model
from book.ledger import findings, studies
from book.ledger.cells import Cell, experiment, read
from book.ledger.findings import Finding
from book.ledger.studies import Study
from book.transformer import Transformer
from embviz.imports import require
from embviz.training.fourier import sound
from embviz.training.loop import Snapshot

POSITIONS, MLP, TOKENS = "positions", "MLP output", "tokens"
START, TRAINED = MOMENTS = "start", "trained"
SIZE = Setting(mlp_dim=512, length=512, batch_size=2, n_steps=600, learning_rate=5e-3)
N_PERMUTATIONS = 100
GPT2_TEXT = TextConfig("tinystories_5mb", "gpt2", n_held_out=200)


@dataclass(frozen=True)
class Part:
    """A tensor to measure: what it is, its name, and its axis."""

    role: str
    tensor: str
    dim: int = 0


@dataclass(frozen=True)
class Hammer:
    """How tensors are measured: with documents one by one, each as heavy as any other."""

    n_documents: int = 200
    n_rows: int = 512  # of each axis, the first ones; and most tokens of a document
    top: int = 16  # modes that count as few

    def strike(
        self, predict: Callable[[Tensor], Tensor], module: nn.Module, stream: Stream, parts: Sequence[Part]
    ) -> pd.DataFrame:
        """Regularity of the parts' mean gradients.

        Parameters
        ----------
        predict : from tokens (B, T) to logits (B, T, V)
        module : nn.Module
            That holds the parts, and is used by `predict`.
        stream : Stream
        parts : sequence of Part

        Returns
        -------
        DataFrame
            role, tensor, rows (of the axis), regularity, flat, noise, permuted, permuted_sd, modes: as in
            :class:`~embviz.training.Sounding`. A row for each part's first rows, and one for its whole axis
            where that is longer.
        """
        device = next(module.parameters()).device
        rows = []
        means = mean_gradients(module, self.losses(predict, stream, device), [part.tensor for part in parts])
        for part, mean in zip(parts, means, strict=True):
            whole = mean.shape[part.dim]
            for n_rows in sorted({min(self.n_rows, whole), whole}):
                heard = sound(
                    mean, dim=part.dim, n_rows=n_rows, top=self.top, n_permutations=N_PERMUTATIONS, seed=0
                )
                rows.append(
                    {
                        "role": part.role,
                        "tensor": part.tensor,
                        "rows": n_rows,
                        "regularity": heard.regularity,
                        "flat": heard.flat,
                        "noise": heard.noise,
                        "permuted": float(heard.permuted.mean()),
                        "permuted_sd": float(heard.permuted.std(ddof=1)),
                        "modes": " ".join(map(str, heard.modes[: self.top])),
                    }
                )
        return pd.DataFrame(rows)

    def losses(
        self, predict: Callable[[Tensor], Tensor], stream: Stream, device: torch.device
    ) -> Iterator[Tensor]:
        """Mean cross entropy of each document, nats a token, to be averaged by :func:`mean_gradients`."""
        for ids in itertools.islice(stream.documents(), self.n_documents):
            tokens = torch.from_numpy(ids[None, : self.n_rows + 1].astype(np.int64)).to(device)
            yield next_token_losses(predict, tokens).mean()


def mean_gradients(module: nn.Module, losses: Iterable[Tensor], names: Sequence[str]) -> list[Tensor]:
    """Gradients of the mean of `losses` for the parameters called `names`; the module's own stay as they are.

    Raises
    ------
    ValueError
        If a name is unknown, or there is no loss.
    """
    parameters = dict(module.named_parameters(remove_duplicate=False))
    if unknown := [name for name in names if name not in parameters]:
        raise ValueError(f"no parameter is called {', '.join(unknown)}; there are {', '.join(parameters)}")
    tensors = [parameters[name] for name in names]
    sums, n_losses = [torch.zeros_like(tensor) for tensor in tensors], 0
    for loss in losses:
        for total, gradient in zip(sums, torch.autograd.grad(loss, tensors), strict=True):
            total += gradient
        n_losses += 1
    if not n_losses:
        raise ValueError("there is no document to compute a gradient from")
    return [total / n_losses for total in sums]


# --- a model trained here ---------------------------------------------------------------------------


@dataclass(frozen=True)
class HammerRun:
    """A language model that is measured before and after it is trained; tied as GPT-2 is, or not."""

    text: TextConfig
    seed: int = 0
    tied: bool = True
    setting: Setting = SIZE
    hammer: Hammer = Hammer()


def parts_of(model: Transformer) -> list[Part]:
    """A transformer's learned positions, its MLPs' ways out, and its token embedding."""
    down = [Part(MLP, f"blocks.{layer}.down.weight", 1) for layer in range(model.config.n_layers)]
    return [Part(POSITIONS, "position"), *down, Part(TOKENS, "embedding")]


def train_and_visit(run: HammerRun) -> Iterator[tuple[str, Transformer, Streams, Snapshot]]:
    """Train the run's model, and stop before and after: moment, model, text, and the scores then."""
    streams, setting = load_streams(run.text), run.setting
    shape = setting.shape(streams.vocab_size, tied=run.tied, start="small")
    model = Transformer(shape, seed=run.seed).to("cuda" if torch.cuda.is_available() else "cpu")
    steps = train_language_model(model, streams, setting.training, seed=run.seed, snapshot_at=setting.n_steps)
    for moment, snapshot in zip(MOMENTS, steps, strict=True):
        yield moment, model, streams, snapshot


@experiment("geometry.hammer_language")
def hammer_language(config: HammerRun) -> pd.DataFrame:
    """Train a model, and measure it with held-out documents before and after.

    Returns
    -------
    DataFrame
        moment ("start" or "trained"), bits_per_character of the held-out text then, and the columns of
        :meth:`Hammer.strike`.
    """
    tables = []
    for moment, model, streams, snapshot in train_and_visit(config):
        table = config.hammer.strike(model, model, streams.held_out, parts_of(model))
        table.insert(0, "bits_per_character", snapshot.metrics["bits_per_character"])
        table.insert(0, "moment", moment)
        tables.append(table)
    table = pd.concat(tables, ignore_index=True)
    table.attrs["data"] = {config.text.corpus: streams.checksum}
    return table


# --- GPT-2 ------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Gpt2Run:
    """Published weights, and the stories to measure them with."""

    weights: str = "gpt2"  # a folder, or a name that `transformers` knows
    text: TextConfig = GPT2_TEXT
    hammer: Hammer = Hammer()


@experiment("geometry.hammer_gpt2")
def hammer_gpt2(config: Gpt2Run) -> pd.DataFrame:
    """Measure GPT-2; the columns are the same as in :meth:`Hammer.strike`."""
    streams, model = load_streams(config.text), load_gpt2_model(config.weights)
    table = strike_gpt2_model(model, streams.held_out, config.hammer)
    weights = hashlib.sha256()
    for name, parameter in model.named_parameters():
        weights.update(name.encode() + parameter.detach().numpy().tobytes())
    table.attrs["data"] = {config.text.corpus: streams.checksum, config.weights: weights.hexdigest()}
    return table


def load_gpt2_model(folder_or_name: str) -> nn.Module:
    """GPT-2 with its head, for evaluation.

    Raises
    ------
    MissingExtraError
        If `transformers` is not installed.
    """
    require("adapters", "transformers", purpose="GPT-2")
    import transformers

    model: nn.Module = transformers.GPT2LMHeadModel.from_pretrained(folder_or_name)
    return model.eval()


def strike_gpt2_model(model: nn.Module, stream: Stream, hammer: Hammer) -> pd.DataFrame:
    """Measure a module with GPT-2's parameter names, whose call gives an object with `logits`."""
    names = [name for name, _ in model.named_parameters()]
    down = [Part(MLP, name) for name in names if name.endswith("mlp.c_proj.weight")]
    parts = [Part(POSITIONS, "transformer.wpe.weight"), *down, Part(TOKENS, "transformer.wte.weight")]
    return hammer.strike(lambda tokens: model(tokens).logits, model, stream, parts)


# --- cells and findings -----------------------------------------------------------------------------


def hammer_runs(preset: str = "laptop") -> list[HammerRun]:
    """Tied models, as GPT-2 is."""
    text, setting, hammer = GPT2_TEXT, SIZE, Hammer()
    if preset == "quick":
        text = TextConfig("embedded", "byte pairs", 512, n_documents=600)
        setting, hammer = Setting(32, 2, 2, 128, 128, 2, 100, 1e-2), Hammer(20, 128, 4)
    elif preset == "laptop":
        text = TextConfig("tinystories_5mb", "byte pairs", 4_096, n_held_out=200)
    else:
        setting = Setting(256, 4, 4, 1_024, 512, 32, 10_000, 3e-4, bfloat16=True)
    seeds = 2 if preset == "quick" else 3
    return [HammerRun(text, seed, True, setting, hammer) for seed in range(seeds)]


def byte_runs(preset: str = "laptop") -> list[HammerRun]:
    """The same models on the same text in bytes, shown beside byte pairs; no claim uses them."""
    runs = hammer_runs(preset)
    return [replace(run, text=replace(run.text, tokens="bytes", vocab_size=256)) for run in runs]


def hammer_cells(preset: str) -> list[Cell]:
    """Cells of our models, of byte pairs and of bytes; the preset "paper" has GPT-2's too."""
    cells = [hammer_language.cell(run) for run in [*hammer_runs(preset), *byte_runs(preset)]]
    return [*cells, hammer_gpt2.cell(Gpt2Run())] if preset == "paper" else cells


def regularities(preset: str = "laptop", runs: Sequence[HammerRun] | None = None) -> pd.DataFrame:
    """Stored regularities of our models.

    Parameters
    ----------
    preset : str
    runs : sequence of HammerRun, optional
        By default those of byte pairs.

    Returns
    -------
    DataFrame
        seed, reading ("first rows" or "whole axis"), then the columns of the cells.
    """
    tables = []
    for run in hammer_runs(preset) if runs is None else runs:
        table, _ = read(hammer_language.cell(run))
        reading = np.where(table["rows"] <= run.hammer.n_rows, "first rows", "whole axis")
        table.insert(0, "reading", reading)
        table.insert(0, "seed", run.seed)
        tables.append(table)
    return pd.concat(tables, ignore_index=True)


def _by_role(table: pd.DataFrame, column: str, keys: Sequence[str] = ()) -> pd.DataFrame:
    """Means over the layers, one column per role."""
    return table.groupby([*keys, "role"])[column].mean().unstack("role")


N_FRESH = {"quick": 2, "laptop": 5, "paper": 3}  # seeds after those of :func:`hammer_runs`


def start_runs(preset: str) -> list[HammerRun]:
    """Fresh models, measured before their first update and stopped after it."""
    like = hammer_runs(preset)
    setting = replace(like[0].setting, n_steps=1)
    seeds = range(len(like), len(like) + N_FRESH[preset])
    return [replace(like[0], seed=seed, setting=setting) for seed in seeds]


def _excess(preset: str) -> dict[str, Finding]:
    """Differences between roles of what their regularities exceed permuted rows by, on the first rows."""
    runs = start_runs(preset)
    table = regularities(preset, runs)
    chosen = table[(table["moment"] == START) & (table["reading"] == "first rows")]
    over = chosen.assign(excess=chosen["regularity"] - chosen["permuted"])
    excess = _by_role(over, "excess", ["seed"])
    corpus = runs[0].text.corpus
    return {
        f"{name}_excess": findings.over_seeds((excess[more] - excess[less]).to_numpy(), corpus=corpus)
        for name, more, less in (("positions", POSITIONS, MLP), ("mlp", MLP, TOKENS))
    }


def _hammer_findings(preset: str) -> dict[str, Finding]:
    if preset != "paper":
        return {}
    cell = hammer_gpt2.cell(Gpt2Run())
    struck, _ = read(cell)
    means = struck[struck["rows"] <= cell.config.hammer.n_rows].groupby("role")["regularity"].mean()
    return {
        name: findings.exact(means[role], corpus=cell.config.text.corpus)
        for name, role in (("wpe", POSITIONS), ("mlp", MLP), ("wte", TOKENS))
    }


STUDIES = {
    "geometry.hammer_gpt2": Study(
        hammer_cells,
        _hammer_findings,
        needs="GPT-2 small's weights are not available: a small model made here takes their place",
        parts=(
            studies.Part(
                lambda preset: [hammer_language.cell(run) for run in start_runs(preset)],
                _excess,
            ),
        ),
    )
}
