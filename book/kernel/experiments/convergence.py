"""Models that train until their loss is flat, from both starts, looked at evenly along training (section 7.2)."""

from __future__ import annotations

import dataclasses

import numpy as np
import pandas as pd
import torch

from book.kernel.experiments import chosen
from book.kernel.experiments.models import gram
from book.kernel.experiments.orthogonality import diagonal_shares, expected_cosine, mean_cosines
from book.kernel.experiments.runs import KernelRun, Session, rows_of
from book.kernel.experiments.texts import load
from book.kernel.minigpt import MiniGPTConfig
from embviz import kernels
from embviz.ledger.cells import Cell, experiment, training_run
from embviz.words.cooccurrence import count_pairs

FIRST_SEED, N_SEEDS = 400, 3  # fresh ones
N_SNAPSHOTS = 21  # the start among them
N_UPDATES = 9_600
SMALL_VOCABULARY, WIDE, N_UPDATES_WIDE = 50, 96, 6_000  # more dimensions than words: W can be cI


class EvenSession(Session):
    """A run with evenly spaced snapshots."""

    @property
    def snapshot_steps(self) -> list[int]:
        """Updates made at each snapshot."""
        return [round(float(step)) for step in np.linspace(0, self.n_steps, self.config.n_snapshots)]


@experiment("kernel.to_convergence")
def to_convergence(config: KernelRun) -> pd.DataFrame:
    """Train, and measure at evenly spaced snapshots.

    Returns
    -------
    DataFrame
        The table of :func:`book.kernel.experiments.runs.minigpt`, with "ratio" (mean |cosine| of distinct
        words over that of random directions), "diagonal" (share of |W|_F), "score" (circulant) and "k0"
        (first row of the kernel, index i for word i that the text has) at every snapshot.
    """
    text = load(config.text)
    session = EvenSession(config, text)
    data = {config.text.corpus: text.checksum}
    counts = count_pairs(text.ids, len(text.vocabulary), window=5).toarray()
    met = counts.sum(axis=1) > 0
    D = kernels.log_counts(counts[np.ix_(met, met)])
    seeds = [member.seed for member in config.members]
    with training_run(to_convergence.cell(config), data) as (run, slices):
        session.train(run)
        parts = [session.table(run)]
        for step in session.snapshot_steps:
            rows = run.weights(step)["arrays.embedding"].double().numpy()[:, met]
            extraction = kernels.extract_kernel(gram(rows), D, zeros="drop")
            measured = {
                "ratio": mean_cosines(rows)[:, None] / expected_cosine(rows.shape[2]),
                "diagonal": diagonal_shares(rows)[:, None],
                "score": kernels.circulant_scores(extraction.kernel)[:, None],
                "k0": extraction.k0,
            }
            parts += [
                rows_of(seeds, step, name, torch.from_numpy(values)) for name, values in measured.items()
            ]
    table = pd.concat(parts, ignore_index=True)
    table.attrs |= {"data": data, "slices": slices}
    return table


# --- which ------------------------------------------------------------------------------------------


def settings(preset: str) -> dict[str, list[KernelRun]]:
    """Runs of both starts by what they train on, a run a seed, in the order in which they are computed."""
    if preset == "quick":
        quick = dataclasses.replace(chosen.judged("quick"), n_snapshots=5)
        return {"text": _runs(quick)}
    narrow = {text: chosen.run(text, "small", 8) for text in chosen.TEXTS}
    small = dataclasses.replace(chosen.TEXT, vocab_size=SMALL_VOCABULARY)
    shape = MiniGPTConfig(SMALL_VOCABULARY, embedding_dim=WIDE, start="small")
    wide = dataclasses.replace(narrow[chosen.TEXT], text=small, shape=shape)
    shortest, deciding, longest = chosen.TEXTS[2], chosen.TEXT, chosen.TEXTS[0]
    return {
        "wide": _runs(_of_updates(wide, N_UPDATES_WIDE)),
        "shortest": _runs(_of_updates(narrow[shortest], N_UPDATES)),
        "text": _runs(_of_updates(narrow[deciding], N_UPDATES)),
        "longest": _runs(_of_updates(narrow[longest], N_UPDATES)),
    }


def _of_updates(run: KernelRun, n_updates: int) -> KernelRun:
    n_blocks = (run.text.n_tokens - 1) // run.shape.length
    n_epochs = n_updates // -(-n_blocks // run.batch_size)
    return dataclasses.replace(run, n_epochs=n_epochs, n_snapshots=N_SNAPSHOTS)


def _runs(run: KernelRun) -> list[KernelRun]:
    """A seed each, both starts of a seed after one another."""
    return [
        dataclasses.replace(
            run, shape=dataclasses.replace(run.shape, start=start), n_seeds=1, first_seed=seed
        )
        for seed in range(FIRST_SEED, FIRST_SEED + N_SEEDS)
        for start in ("small", "pytorch")
    ]


def cells(preset: str) -> list[Cell]:
    """Of all runs, in the order of :func:`settings`."""
    return [to_convergence.cell(run) for runs in settings(preset).values() for run in runs]
