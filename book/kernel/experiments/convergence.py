"""Models that train until their loss is flat, from both starts, measured evenly along training."""

from __future__ import annotations

import dataclasses
import functools
import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
import torch

from book.kernel import theory
from book.kernel.experiments import chosen, fits, models, orthogonality
from book.kernel.experiments.chosen import Judged
from book.kernel.experiments.extracted import between_seeds
from book.kernel.experiments.fits import cosines
from book.kernel.experiments.models import Trained, gram
from book.kernel.experiments.orthogonality import diagonal_shares, expected_cosine, mean_cosines
from book.kernel.experiments.runs import KernelRun, Session, embedding, measures, rows_of
from book.kernel.experiments.texts import load as load_text
from book.kernel.minigpt import Start
from book.ledger import findings
from book.ledger.cells import Cell, experiment, missing, table_of, training_run
from book.ledger.findings import Finding
from book.ledger.studies import Part, Study
from embviz import kernels
from embviz.words.cooccurrence import count_pairs

STARTS: dict[str, Start] = {"narrow": "small", "wide": "pytorch"}
FLAT = 0.05  # nats: a training loss that falls by less over the last two fifths of the updates
AT_PLATEAU = "seeds whose loss is flat"
FIRST_SEED, N_SEEDS = 410, 3  # from the narrow start; of seeds 400 to 404, trained less, few losses were flat
N_SNAPSHOTS = 21  # the start among them
N_UPDATES = 18_000
SMALL_VOCABULARY, WIDE = 50, 96  # more dimensions than words: W can be cI


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
    text = load_text(config.text)
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
                "score": theory.circulant_scores(extraction.kernel)[:, None],
                "k0": extraction.k0,
            }
            parts += [
                rows_of(seeds, step, name, torch.from_numpy(values)) for name, values in measured.items()
            ]
    table = pd.concat(parts, ignore_index=True)
    table.attrs |= {"data": data, "slices": slices}
    return table


# --- which ------------------------------------------------------------------------------------------


def settings(preset: str = "paper") -> dict[str, KernelRun]:
    """Runs of the narrow start and the first seed, in the order in which they are computed.

    "wide" has more dimensions than words; "text" is the text that decides, with its 100 words.
    """
    if preset == "quick":
        run = dataclasses.replace(chosen.judged("quick"), n_snapshots=6, first_seed=FIRST_SEED)
        small = dataclasses.replace(run.text, vocab_size=12)
        return {"wide": dataclasses.replace(run, text=small), "text": run}
    deciding = chosen.run(chosen.TEXT, *chosen.DECIDING, (FIRST_SEED, N_SEEDS))
    wide = dataclasses.replace(
        deciding,
        text=dataclasses.replace(chosen.TEXT, vocab_size=SMALL_VOCABULARY),
        shape=dataclasses.replace(deciding.shape, embedding_dim=WIDE),
    )
    return {"wide": _of_updates(wide, N_UPDATES), "text": _of_updates(deciding, N_UPDATES)}


def _of_updates(run: KernelRun, n_updates: int) -> KernelRun:
    n_blocks = (run.text.n_tokens - 1) // run.shape.length
    n_epochs = n_updates // -(-n_blocks // run.batch_size)
    return dataclasses.replace(run, n_epochs=n_epochs, n_snapshots=N_SNAPSHOTS)


def runs_of(run: KernelRun) -> list[KernelRun]:
    """A run a seed and start, both starts of a seed after one another."""
    both = [
        dataclasses.replace(run, shape=dataclasses.replace(run.shape, start=one)) for one in STARTS.values()
    ]
    return [
        dataclasses.replace(own, n_seeds=1, first_seed=own.first_seed + index)
        for index in range(run.n_seeds)
        for own in both
    ]


def cells(preset: str, *names: str, starts: Sequence[str] = tuple(STARTS)) -> list[Cell]:
    """Of the settings of these names, or of all: counts, then models in the order of :func:`settings`."""
    own = [run for name, run in settings(preset).items() if not names or name in names]
    kinds = [STARTS[start] for start in starts]
    return [models.counts_cell(run) for run in own] + [
        to_convergence.cell(one) for run in own for one in runs_of(run) if one.shape.start in kinds
    ]


# --- reading them -----------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Path:
    """Models of one setting and start along training, and which of them have a flat loss at its end."""

    models: Trained  # of the first snapshot and the last
    along: pd.DataFrame  # see :func:`load`
    fall: np.ndarray  # of the training loss with dropout over the last two fifths of the updates, (R,), nats

    @property
    def flat(self) -> np.ndarray:
        """Whether that fall is small, (R,)."""
        return self.fall < FLAT

    @property
    def judged(self) -> Trained:
        """The models whose loss is flat; all where no model's is."""
        if not self.flat.any():
            return self.models
        own = self.models
        return dataclasses.replace(own, path=own.path[:, self.flat], output=own.output[self.flat])

    @property
    def judged_path(self) -> pd.DataFrame:
        """Of :attr:`along` the seeds whose loss is flat; all where no model's is."""
        seeds = self.along["seed"].unique()
        return self.along[self.along["seed"].isin(seeds[self.flat] if self.flat.any() else seeds)]

    def counting(self, found: Mapping[str, Finding]) -> dict[str, Finding]:
        """Findings on :attr:`judged`; shown without deciding anything where no loss is flat."""
        if self.flat.any():
            return dict(found)
        return {
            name: Finding(one.value, one.value, one.value, 0, one.controls, one.corpus, AT_PLATEAU)
            for name, one in found.items()
        }


@functools.lru_cache(maxsize=16)
def load(run: KernelRun, start: Start) -> Path:
    """What is stored of a setting from one start, or computed here.

    `along` has a row per seed and snapshot: seed, step, the columns of
    :func:`book.kernel.experiments.runs.measures` with ratio, diagonal, score; k0_fft, identity, untrained
    (cosines of k0 with the formula's row, the identity matrix's and the same model's before training), and
    agreement (mean cosine of k0 with the other seeds').
    """
    counts, met = models.met_counts(run)
    spectrum = theory.decompose(kernels.log_counts(counts.pairs))
    own = [one for one in runs_of(run) if one.shape.start == start]
    tables = [table_of(to_convergence.cell(one)) for one in own]
    seeds = [one.first_seed for one in own]
    both = list(zip(tables, seeds, strict=True))
    first = np.stack([embedding(table, seed, "first")[met] for table, seed in both])
    last = np.stack([embedding(table, seed, "last")[met] for table, seed in both])
    every = pd.concat(tables, ignore_index=True)
    numbers = measures(every[every["quantity"] != "k0"])
    of_k0 = every[every["quantity"] == "k0"].sort_values(["seed", "step", "index"])
    k0 = of_k0["value"].to_numpy(float).reshape(len(own), -1, met.sum())  # (R, S, V)
    steps = sorted(numbers["step"].unique())
    between = np.stack([between_seeds(k0[:, index]) for index in range(len(steps))], axis=1)  # (R, S, R)
    along = numbers.sort_values(["seed", "step"]).assign(
        k0_fft=cosines(theory.k0_fft(spectrum), k0).ravel(),
        identity=cosines(theory.row_identity(spectrum), k0).ravel(),
        untrained=cosines(k0[:, :1], k0).ravel(),
        agreement=((between.sum(-1) - 1) / max(1, len(own) - 1)).ravel(),
    )
    losses = along["dropout_loss"].to_numpy().reshape(len(own), -1)
    fall = losses[:, round(0.6 * (len(steps) - 1))] - losses[:, -1]
    ends = np.stack([first, last])
    trained = Trained(run.text.corpus, [steps[0], steps[-1]], ends, last, numbers, counts, met)
    return Path(trained, along, fall)


def curves(preset: str = "paper") -> pd.DataFrame:
    """`along` of all settings and starts that are stored; columns setting and start ("narrow", "wide")."""
    parts = []
    for (name, run), (start, kind) in itertools.product(settings(preset).items(), STARTS.items()):
        if preset == "quick" or not missing(cells(preset, name, starts=(start,))):
            parts.append(load(run, kind).along.assign(setting=name, start=start))
    return pd.concat(parts, ignore_index=True)


# --- claims -----------------------------------------------------------------------------------------


def _orthogonal(preset: str) -> dict[str, Finding]:
    """How orthogonal models of each setting end, from each start."""
    found: dict[str, Finding] = {}
    for setting, start, key in (
        ("wide", "narrow", "long"),
        ("wide", "wide", "wide_other"),
        ("text", "narrow", "end"),
        ("text", "wide", "end_other"),
    ):
        path = load(settings(preset)[setting], STARTS[start])
        ends = path.counting(orthogonality.ends(path.judged))
        found |= {f"{quantity}_{key}": one for quantity, one in ends.items()}
    return found


def at_end(preset: str = "paper", *, flat: bool = False) -> Judged:
    """Models of the text that decides, from the narrow start, or those whose loss is flat.

    Formulas are read as for the models that chose.
    """
    path = load(settings(preset)["text"], STARTS["narrow"])
    own = path.judged if flat else path.models
    return Judged(own, models.load(chosen.choosing(preset)[chosen.DECIDING]))


def _text_cells(preset: str) -> list[Cell]:
    return cells(preset, "text", starts=("narrow",)) + models.cells_of(
        chosen.choosing(preset)[chosen.DECIDING]
    )


def _at_end(measure: Callable[[Judged], dict[str, Finding]]) -> Study:
    """What a table comes to at a flat loss, from the start that decides."""

    def measured(preset: str) -> dict[str, Finding]:
        path = load(settings(preset)["text"], STARTS["narrow"])
        found = path.counting(measure(at_end(preset, flat=True)))
        return {f"{name}_end": one for name, one in found.items()}

    return Study(_text_cells, measured)


def _diagnostic(preset: str) -> dict[str, Finding]:
    """Section 7.2 over evenly spaced snapshots."""
    path = load(settings(preset)["text"], STARTS["narrow"])
    own = path.judged_path
    found = orthogonality.of_gauge(own, path.models.corpus)
    found["correlation_training"] = models.of_cosines(
        orthogonality.rank_correlations(own, "k0_fft", "train_loss"), corpus=path.models.corpus
    )
    return {f"{name}_end": one for name, one in path.counting(found).items()}


STUDIES: dict[str, Study] = {
    "kernel.orthogonal": Study(
        cells,
        _orthogonal,
        beside=lambda preset: models.cells_of(models.untied(preset), models.other_start(preset)),
    ),
    "kernel.diagnostic": Study(
        lambda preset: [orthogonality.untrained_cell(preset)],
        orthogonality.out_of_sample,
        parts=(Part(lambda preset: cells(preset, "text", starts=("narrow",)), _diagnostic),),
    ),
    "kernel.table1": _at_end(chosen.table_1),
    "kernel.table2": _at_end(chosen.table_2),
    "kernel.table3": _at_end(chosen.table_3),
    "kernel.table4": _at_end(chosen.table_4),
    "kernel.pmi_fit": _at_end(chosen.pmi_fit),
}
