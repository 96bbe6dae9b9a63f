"""How fast resized models read and train, and how much memory they take, beside the original."""

from __future__ import annotations

import dataclasses
import time
import weakref
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import pandas as pd
import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from book.language import draw_batch, load_streams, next_token_losses
from book.ledger.cells import Cell, experiment, read
from book.ledger.findings import Finding, exact, once
from book.ledger.studies import Study
from book.resizing import rules
from book.resizing.decoder import Decoder
from book.resizing.experiments import bases
from book.resizing.experiments.bases import BaseRun
from book.transformer import n_parameters
from embviz.training.loop import keep_freed_memory

ORIGINAL, KEPT, PLAIN = "original", "kept heads", "plain rule"


@dataclass(frozen=True)
class ThroughputRun:
    """A base model beside what becomes of it at several widths; its weights play no part and are random."""

    base: BaseRun
    ratios: tuple[float, ...] = (0.25, 0.5, 0.75, 0.9, 1.0, 1.25, 1.5, 2.0)
    n_rounds: int = 7  # of all models in turn
    n_steps: int = 5  # updates a round, and batches scored


@experiment("resizing.throughput")
def throughput(config: ThroughputRun) -> pd.DataFrame:
    """Time updates and scoring of each model, all models in turn, round after round.

    Returns
    -------
    DataFrame
        One row per round and model: round, rule ("original", "kept heads", or "plain rule", which narrows
        heads and MLPs with the width), ratio, training and scoring (tokens a second), n_parameters,
        peak_bytes of all tensors alive during two updates (see :class:`PeakMemory`).
    """
    streams, shape = load_streams(config.base.text), config.base.training
    batches = [
        draw_batch(streams.train, seed=0, step=step, batch_size=shape.batch_size, length=shape.length)
        for step in range(config.n_steps)
    ]
    keep_freed_memory()
    models = _models(config)
    sizes = {key: (n_parameters(model), peak_bytes(model, batches[0])) for key, model in models.items()}
    steppers = {key: _stepper(model) for key, model in models.items()}
    rows = []
    for round_ in range(config.n_rounds):
        for (rule, ratio), model in models.items():
            training = _rate(steppers[rule, ratio], batches)
            with torch.no_grad():
                scoring = _rate(model, [batch[:, :-1] for batch in batches])
            rows.append((round_, rule, ratio, training, scoring, *sizes[rule, ratio]))
    names = ["round", "rule", "ratio", "training", "scoring", "n_parameters", "peak_bytes"]
    table = pd.DataFrame(rows, columns=names)
    table.attrs["data"] = {config.base.text.corpus: streams.checksum}
    return table


def _models(config: ThroughputRun) -> dict[tuple[str, float], Decoder]:
    """The original, and its ports by rule and ratio."""
    original = Decoder(config.base.shape, seed=0)
    models = {(ORIGINAL, 1.0): original}
    for rule in (KEPT, PLAIN):
        for ratio in config.ratios:
            width = round(ratio * original.config.embedding_dim)
            if rule == KEPT:
                models[rule, ratio] = rules.resize(original, width).model
            elif width % original.config.n_heads == 0:
                models[rule, ratio] = rules.resize(original, width, attention="plain", mlp="plain").model
    device = "cuda" if torch.cuda.is_available() else "cpu"
    return {key: model.to(device).train() for key, model in models.items()}


def _stepper(model: nn.Module) -> Callable[[Tensor], object]:
    """One update of the model on a batch (B, T + 1)."""
    adam = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)

    def step(batch: Tensor) -> None:
        adam.zero_grad(set_to_none=True)
        next_token_losses(model, batch).mean().backward()
        adam.step()

    return step


def _rate(function: Callable[[Tensor], object], batches: list[Tensor]) -> float:
    """Tokens a second, after one call that isn't counted."""
    device = "cuda" if torch.cuda.is_available() else "cpu"
    batches = [batch.to(device) for batch in batches]
    function(batches[0])
    _wait()
    start = time.perf_counter()
    for batch in batches:
        function(batch)
    _wait()
    return sum(batch.numel() for batch in batches) / (time.perf_counter() - start)


def _wait() -> None:
    if torch.cuda.is_available():
        torch.cuda.synchronize()


class PeakMemory(TorchDispatchMode):
    """Bytes of tensors alive at once, at most, while the block runs: those given, and those made in it.

    Counted from the storages that operations return, so the number is the same wherever it is taken; what an
    operation uses within itself is not seen.
    """

    def __init__(self, *tensors: Tensor) -> None:
        super().__init__()
        self._alive: dict[int, int] = {}  # bytes by storage
        self.now = self.peak = 0
        for tensor in tensors:
            self._add(tensor)

    def _add(self, tensor: Tensor) -> None:
        storage = tensor.untyped_storage()
        key = storage._cdata
        if key in self._alive:
            return
        self._alive[key] = storage.nbytes()
        self.now += self._alive[key]
        self.peak = max(self.peak, self.now)
        weakref.finalize(storage, self._remove, key).atexit = False

    def _remove(self, key: int) -> None:
        self.now -= self._alive.pop(key)

    def __torch_dispatch__(
        self, func: Callable[..., Any], types: Any, args: Any = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        result = func(*args, **(kwargs or {}))
        for leaf in tree_leaves(result):
            if isinstance(leaf, Tensor):
                self._add(leaf)
        return result


def peak_bytes(model: nn.Module, batch: Tensor) -> int:
    """Most bytes of parameters, gradients, moments and activations at once, in two updates on a batch.

    The model's weights are left as they were.
    """
    device = next(model.parameters()).device
    before = {name: array.clone() for name, array in model.state_dict().items()}
    step = _stepper(model)
    with PeakMemory(*model.parameters()) as memory:
        for _ in range(2):
            step(batch.to(device))
    model.zero_grad(set_to_none=True)
    model.load_state_dict(before)
    return memory.peak


# --- the claim ----------------------------------------------------------------------------------------


def run_of(preset: str) -> ThroughputRun:
    """The LayerNorm base of a preset."""
    run = ThroughputRun(bases.base(preset))
    return dataclasses.replace(run, ratios=(0.5, 1.0), n_rounds=3) if preset == "quick" else run


def ratios_to_original(table: pd.DataFrame) -> pd.DataFrame:
    """What every model has over the original.

    Returns
    -------
    DataFrame
        rule, ratio; training, scoring: of the best rounds; training_low, training_high, scoring_low,
        scoring_high: the least and the largest of the rounds' own ratios; parameters, memory.
    """
    original = table[table["rule"] == ORIGINAL].set_index("round")
    rows = []
    for (rule, ratio), part in table.groupby(["rule", "ratio"], sort=False):
        own = part.set_index("round")
        row: dict[str, Any] = {"rule": rule, "ratio": ratio}
        for name in ("training", "scoring"):
            each = own[name] / original[name]
            row[name] = own[name].max() / original[name].max()
            row[f"{name}_low"] = min(each.min(), row[name])
            row[f"{name}_high"] = max(each.max(), row[name])
        row["parameters"] = own["n_parameters"].iloc[0] / original["n_parameters"].iloc[0]
        row["memory"] = own["peak_bytes"].iloc[0] / original["peak_bytes"].iloc[0]
        rows.append(row)
    return pd.DataFrame(rows)


def _cells(preset: str) -> list[Cell]:
    return [throughput.cell(run_of(preset))]


def _findings(preset: str) -> dict[str, Finding]:
    table, _ = read(throughput.cell(run_of(preset)))
    found = ratios_to_original(table)
    corpus = bases.base(preset).text.corpus
    n_rounds, repeats = table["round"].nunique(), "rounds of timing on one machine"
    half, same = (
        found[(found["rule"] == rule) & (found["ratio"] == ratio)].iloc[0]
        for rule, ratio in ((KEPT, 0.5), (KEPT, 1.0))
    )

    def speed(row: pd.Series, name: str, controls: Mapping[str, float] | None = None) -> Finding:
        low, high = float(row[f"{name}_low"]), float(row[f"{name}_high"])
        return Finding(float(row[name]), low, high, n_rounds, controls or {}, corpus, repeats)

    return {
        "speed_half": speed(half, "training", {"same": float(same["training"])}),
        "parameters_half": exact(
            half["parameters"], controls={"same": float(same["parameters"])}, corpus=corpus
        ),
    }


STUDIES: dict[str, Study] = {"resizing.throughput": Study(_cells, _findings)}
