"""The gradients into a tied matrix: through the output, through the input, and what the second changes.

Source: Lopardo, Harish, Arnett and Gupta (2026), arXiv 2603.26663; the question of which matrix a tied one
resembles, asked of EXor and of a small masked language model.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from book.ledger import findings
from book.ledger.cells import Cell, experiment, read
from book.ledger.findings import Finding
from book.ledger.studies import Part, Study
from book.tying.experiments import natural
from book.tying.experiments.exor_runs import FreshRun, prepare
from book.tying.experiments.theorems import jackknifed
from book.tying.models.masked import MaskedLanguageModel
from embviz import metrics
from embviz.training.loop import AdamW, train

N_BITS = 4  # EXor's symbols whose rows are compared
N_TOKENS = 500  # of the text, the most frequent
N_BINS = 50  # of the training, over which norms are averaged
FACTORS = {"as they are": 1.0, "scaled": 5.0, "weakened": 0.2}  # of the gradients through the input


@dataclasses.dataclass(frozen=True)
class GradientRun:
    """Models of seeds `first_seed` and following; tied ones with the input's gradients times `factor`."""

    task: str = "exor"  # or a setting of natural text
    tied: bool = True
    factor: float = 1.0  # ignored where untied
    n_seeds: int = 8
    first_seed: int = 200
    n_steps: int = 10_000
    learning_rate: float = 1.5e-3


class GradientParts:
    """Keeps the norms of the gradients through both embeddings, and lets an untied model learn as a tied one.

    Tied, the two matrices start equal and get one gradient: through the output plus `factor` times through
    the input. AdamW then keeps them equal.

    Parameters
    ----------
    into, out_of : Parameter, shape (V, D) or (R, V, D)
        The input and output embedding of an untied model.
    factor : float or None
        None: untied, and nothing is changed.
    n_steps : int
    """

    def __init__(
        self, into: torch.nn.Parameter, out_of: torch.nn.Parameter, factor: float | None, n_steps: int
    ) -> None:
        self.into, self.out_of, self.factor = into, out_of, factor
        if factor is not None:
            with torch.no_grad():
                out_of.copy_(into)
        n_members = into.shape[0] if into.ndim == 3 else 1
        self.norms = np.zeros((n_steps, 2, n_members))  # through the input, through the output

    def __call__(self, step: int) -> None:
        """To be called between the backward pass and the update."""
        inner, outer = self.into.grad, self.out_of.grad
        assert inner is not None
        assert outer is not None
        self.norms[step] = [part.flatten(-2).norm(dim=-1).reshape(-1).numpy() for part in (inner, outer)]
        if self.factor is not None:
            joined = self.factor * inner + outer
            self.into.grad, self.out_of.grad = joined, joined.clone()

    def ratios(self) -> np.ndarray:
        """log of the norm through the output over that through the input, means by bin, (R, bins)."""
        logs = np.log(self.norms[:, 1] / self.norms[:, 0])
        return np.stack([part.mean(axis=0) for part in np.array_split(logs, min(N_BINS, len(logs)))], axis=1)


@experiment("tying.gradients", threads=1)
def gradients(config: GradientRun) -> pd.DataFrame:
    """Train, and tabulate the quotients of the two gradients and the embeddings at the end.

    Returns
    -------
    DataFrame
        seed, quantity, index, value: "ratio", the log of the norm through the output over that through the
        input, by bin of the training; "input" and "output", the rows that are compared, number by number.
    """
    learn = _learn_exor if config.task == "exor" else _learn_text
    parts = []
    for seed, tables in learn(config):
        for quantity, values in tables.items():
            flat = np.ravel(values)
            parts.append(
                pd.DataFrame(
                    {"seed": seed, "quantity": quantity, "index": np.arange(len(flat)), "value": flat}
                )
            )
    table = pd.concat(parts, ignore_index=True)
    table = table.astype({"seed": np.int16, "index": np.int32, "value": np.float32})
    if config.task != "exor":
        setting = natural.SETTINGS[config.task]
        table.attrs["data"] = {setting.source: natural.load_twinned_text(config.task).checksum}
    return table


def _learn_exor(config: GradientRun) -> list[tuple[int, dict[str, np.ndarray]]]:
    """All seeds side by side."""
    run = FreshRun(
        n_steps=config.n_steps,
        n_seeds=config.n_seeds,
        first_seed=config.first_seed,
        learning_rate=config.learning_rate,
    )
    session = prepare(run, tyings=(False,))
    model, rate = session.model, config.learning_rate
    into, out_of = model.arrays["input_embedding"], model.arrays["free_output"]
    adam = AdamW(rate, rate / 50, half_period=config.n_steps, weight_decay=run.weight_decay, eps=1e-12)
    ratios = _train(config, model, lambda step: model.losses(*session.batches.at(step)), adam, into, out_of)
    matrices = {"input": into, "output": out_of}
    return [
        (seed, {"ratio": ratios[at], **{n: E[at, :N_BITS].detach().numpy() for n, E in matrices.items()}})
        for at, seed in enumerate(run.seeds)
    ]


def _learn_text(config: GradientRun) -> list[tuple[int, dict[str, np.ndarray]]]:
    """One seed after the other."""
    setting, text = natural.SETTINGS[config.task], natural.load_twinned_text(config.task)
    frequent = np.argsort(-text.counts, kind="stable")[:N_TOKENS]
    rate, found = config.learning_rate, []
    for seed in range(config.first_seed, config.first_seed + config.n_seeds):
        run = natural.NaturalRun(config.task, tied=False, seed=seed, n_steps=config.n_steps, length=32)
        shape = setting.shape(text.vocab_size, positions=run.positions, length=run.length)
        model = MaskedLanguageModel(shape, tied=False, seed=seed)
        into, out_of = model.input_embedding, model.output_embedding
        adam = AdamW(
            rate, setting.last_rate * rate, half_period=config.n_steps, weight_decay=setting.weight_decay
        )
        gauge = natural.TextGauge(model, text, run)

        def loss(step: int, gauge: natural.TextGauge = gauge, run: natural.NaturalRun = run) -> Tensor:
            rng = np.random.default_rng([run.seed, step])
            return gauge.loss(natural.draw_batch(text, run, rng, n=run.batch_size))

        ratios = _train(config, model, loss, adam, into, out_of)
        matrices = {"input": into, "output": out_of}
        rows = {name: E[frequent].detach().numpy() for name, E in matrices.items()}
        found.append((seed, {"ratio": ratios[0], **rows}))
    return found


def _train(
    config: GradientRun,
    model: torch.nn.Module,
    losses: Callable[[int], Tensor],
    adam: AdamW,
    into: torch.nn.Parameter,
    out_of: torch.nn.Parameter,
) -> np.ndarray:
    """Train, tied as the configuration says; the gradients' quotients, (R, bins)."""
    factor = config.factor if config.tied else None
    parts = GradientParts(into, out_of, factor, config.n_steps)
    for _ in train(
        model,
        losses,
        adam,
        n_steps=config.n_steps,
        snapshot_at=config.n_steps,
        weights="none",
        after_backward=parts,
    ):
        pass
    return parts.ratios()


# --- from stored cells to findings ------------------------------------------------------------------------


def gradient_cells(preset: str) -> dict[tuple[str, str], Cell]:
    """Cells by task ("exor", "natural") and kind: "untied", or one of :data:`FACTORS`."""
    if preset == "quick":
        bases = {
            "exor": GradientRun(n_seeds=3, n_steps=20, learning_rate=5e-3),
            "natural": GradientRun("embedded", n_seeds=3, first_seed=20, n_steps=20, learning_rate=1e-2),
        }
    elif preset == "laptop":
        corpus = "novels in 2,000 pieces"
        text = GradientRun(corpus, n_seeds=3, first_seed=20, n_steps=3_000, learning_rate=4e-3)
        bases = {"exor": GradientRun(), "natural": text}
    else:
        return {}
    found = {}
    for task, base in bases.items():
        found[task, "untied"] = gradients.cell(dataclasses.replace(base, tied=False))
        for kind, factor in FACTORS.items():
            found[task, kind] = gradients.cell(dataclasses.replace(base, factor=factor))
    return found


def cells_for(task: str, preset: str) -> list[Cell]:
    """The cells of one task."""
    return [cell for (name, _), cell in gradient_cells(preset).items() if name == task]


def ratio_table(preset: str = "laptop", task: str = "exor") -> pd.DataFrame:
    """Norm of the gradient through the output over that through the input: kind, seed, ratio, and in `done`
    the share of the training."""
    parts = []
    for (name, kind), cell in gradient_cells(preset).items():
        if name != task:
            continue
        table = read(cell)[0].query("quantity == 'ratio'")
        n_bins = table["index"].max() + 1
        done = (table["index"] + 0.5) / n_bins
        columns = {"seed": table["seed"], "done": done, "ratio": np.exp(table["value"])}
        parts.append(pd.DataFrame(columns).assign(kind=kind))
    return pd.concat(parts, ignore_index=True)


def rows_of(cell: Cell) -> dict[str, list[np.ndarray]]:
    """Rows that a cell keeps, (V, D) for each seed, by "input" and "output"; of a tied model both are one."""
    table, n_rows = read(cell)[0], N_BITS if cell.config.task == "exor" else N_TOKENS
    return {
        name: [
            part["value"].to_numpy(float).reshape(n_rows, -1)
            for _, part in table[table["quantity"] == name].groupby("seed")
        ]
        for name in ("input", "output")
    }


def biases(preset: str, task: str) -> dict[str, pd.DataFrame]:
    """How much nearer tied matrices are to untied outputs than to untied inputs, by kind: `own` and `others`,
    as :func:`book.tying.experiments.theorems.jackknifed` takes them."""
    cells = gradient_cells(preset)
    untied = rows_of(cells[task, "untied"])
    found = {}
    for kind in FACTORS:
        tied = rows_of(cells[task, kind])["input"]
        found[kind] = _gains(natural.likeness(tied, untied, metrics.procrustes_disparity))
    return found


def _gains(table: pd.DataFrame) -> pd.DataFrame:
    return pd.DataFrame(
        {
            "own": table["to_input"] - table["to_output"],
            "others": table["from_input"] - table["from_output"],
        }
    )


def gradient_findings(preset: str, task: str) -> dict[str, Finding]:
    """Which gradient is larger early, and what scaling the input's does to the bias."""
    own = ratio_table(preset, task).query("kind == 'as they are'")
    early, late = (
        np.exp(np.log(part["ratio"]).groupby(part["seed"]).mean())
        for part in (own[own["done"] < 0.1], own[own["done"] > 0.9])
    )
    bias = biases(preset, task)
    change = {kind: bias[kind] - bias["as they are"] for kind in ("scaled", "weakened")}
    corpus = "" if task == "exor" else gradient_cells(preset)[task, "untied"].config.task
    return {
        f"{task}_early": findings.over_seeds(
            early.to_numpy(), controls={"late": float(np.exp(np.log(late).mean()))}, corpus=corpus
        ),
        f"{task}_scaled": findings.over_seeds(
            jackknifed(change["scaled"]),
            controls={"weakened": float(change["weakened"]["own"].mean())},
            corpus=corpus,
        ),
    }


def _of(task: str) -> Part:
    return Part(lambda preset: cells_for(task, preset), lambda preset: gradient_findings(preset, task))


STUDIES: dict[str, Study] = {
    "tying.output_gradients": Study(
        lambda preset: cells_for("exor", preset),
        lambda preset: gradient_findings(preset, "exor"),
        parts=(_of("natural"),),
    ),
}
