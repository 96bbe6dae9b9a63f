"""Which models the claims on the kernel are held against, and what a claim reads of them.

The paper's own setting fits a laptop, so `laptop` and `paper` are the same runs. What the paper leaves open
is tried in READINGS; the main reading is the one whose final training loss lies nearest to the paper's.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd

from book.kernel import theory
from book.kernel.experiments.counts import CountedText, Counts, counted, load_counts
from book.kernel.experiments.runs import KernelRun, embedding, measures, minigpt
from book.kernel.experiments.texts import Symbols, TextReading
from book.kernel.minigpt import MiniGPTConfig, Start
from book.kernel.theory import Spectrum
from book.ledger import findings
from book.ledger.cells import Cell, missing, table_of
from embviz import kernels

N_READING_SEEDS = 1  # of a reading that is neither the main one nor one of WORDS
STARTS: dict[Start, str] = {"pytorch": "N(0, 1)", "small": "N(0, 0.02²)"}
SYMBOLS: dict[Symbols, str] = {
    "drop": "words, others dropped",
    "unk": "words, others one symbol",
    "characters": "characters",
}
N_TOKENS = (5_000, 20_000, 50_000)
VOCABULARIES = (50, 100, 150, 300)
DIMENSIONS = (16, 32, 48, 64, 96)
N_EPOCHS = (20, 50, 100, 500)  # beside 200
WINDOWS = (2, 10)  # of the counts, beside 5


@dataclass(frozen=True)
class Reading:
    """One way to read what the paper leaves open."""

    symbols: Symbols
    n_tokens: int
    start: Start
    batch_size: int = 32  # blocks; with 8, four times as many updates

    @property
    def label(self) -> str:
        """What a table calls it."""
        batches = "" if self.batch_size == 32 else f"; batches of {self.batch_size}"
        return f"{SYMBOLS[self.symbols]}; {self.n_tokens:,} tokens; start {STARTS[self.start]}{batches}"

    @property
    def run(self) -> KernelRun:
        """V = 100, d = 64, 200 epochs, under this reading."""
        corpus = "enwiki2018_raw" if self.symbols == "characters" else "enwiki2018"
        text = TextReading(corpus, self.symbols, n_tokens=self.n_tokens)
        shape = MiniGPTConfig(text.vocab_size, start=self.start)
        return KernelRun(text, shape, batch_size=self.batch_size, n_seeds=N_READING_SEEDS)


READINGS = [
    Reading(symbols, n_tokens, start)
    for symbols, n_tokens, start in itertools.product(SYMBOLS, N_TOKENS, STARTS)
] + [Reading(symbols, 20_000, start, 8) for symbols, start in itertools.product(SYMBOLS, STARTS)]
MAIN = Reading("characters", 50_000, "small")  # see tests: its loss lies nearest to the paper's
WORDS = [  # of the word readings the one with the most text, and the one whose loss lies nearest
    Reading("drop", 50_000, "small"),
    Reading("unk", 20_000, "small", 8),
]
GRID = Reading("unk", 20_000, MAIN.start)  # a short text doesn't have 300 different characters
QUICK = KernelRun(
    TextReading("embedded", vocab_size=30, n_tokens=1_500),
    MiniGPTConfig(30, embedding_dim=16, n_heads=2, length=16),
    n_epochs=10,
    batch_size=16,
    n_seeds=2,
    n_snapshots=6,
    keep_all=True,
)


def main(preset: str = "paper") -> KernelRun:
    """The main reading, every snapshot's embeddings kept."""
    return QUICK if preset == "quick" else dataclasses.replace(MAIN.run, n_seeds=5, keep_all=True)


def shuffled(preset: str = "paper") -> KernelRun:
    """The main reading on its tokens in random order."""
    run = main(preset)
    text = dataclasses.replace(run.text, shuffled=True)
    return dataclasses.replace(run, text=text, keep_all=False)


def untied(preset: str = "paper") -> KernelRun:
    """The main reading with a separate output embedding."""
    return dataclasses.replace(main(preset), tied=False, keep_all=False)


def other_start(preset: str = "paper") -> KernelRun:
    """The main reading with the other spread of initial weights."""
    run = main(preset)
    start: Start = "small" if run.shape.start == "pytorch" else "pytorch"
    return dataclasses.replace(run, shape=dataclasses.replace(run.shape, start=start), keep_all=False)


def words(preset: str = "paper") -> dict[str, KernelRun]:
    """Readings whose tokens are words, by their labels, with as many seeds as the main one."""
    if preset == "quick":
        return readings("quick")
    return {reading.label: dataclasses.replace(reading.run, n_seeds=5) for reading in WORDS}


def readings(preset: str) -> dict[str, KernelRun]:
    """Every reading's run by its label; the main one's has the seeds of the main run."""
    if preset == "quick":
        return {f"quick, start {STARTS[run.shape.start]}": run for run in (QUICK, other_start("quick"))}
    runs = {reading.label: reading.run for reading in READINGS}
    return runs | words(preset) | {MAIN.label: main(preset)}


def grid(preset: str = "paper") -> list[KernelRun]:
    """Sizes of the paper's section 3: vocabularies, dimensions, layers, heads and epochs."""
    if preset == "quick":
        return []
    run, runs = GRID.run, []
    for vocab_size, dim in itertools.product(VOCABULARIES, DIMENSIONS):
        text = dataclasses.replace(run.text, vocab_size=vocab_size)
        shape = dataclasses.replace(run.shape, embedding_dim=dim)
        runs.append(dataclasses.replace(run, text=text, shape=shape))
    for n_layers, n_heads in ((2, 2), (3, 2), (3, 4)):
        shape = dataclasses.replace(run.shape, n_layers=n_layers, n_heads=n_heads)
        runs.append(dataclasses.replace(run, shape=shape))
    return runs + [dataclasses.replace(run, n_epochs=n) for n in N_EPOCHS]


of_cosines = functools.partial(findings.over_seeds, within=(-1.0, 1.0))  # and of shares and correlations


# --- what is read of them -----------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Trained:
    """Models of one run before and after training, the counts of their text, and what follows from both."""

    corpus: str
    steps: list[int]  # at which embeddings are kept, the first and the last among them
    path: np.ndarray  # embeddings, (S, R, V, D)
    output: np.ndarray  # output embeddings after training, (R, V, D): the input's where tied
    measures: pd.DataFrame  # see runs.measures
    counts: Counts
    met: np.ndarray  # (V,) of the whole vocabulary: the symbols that the text has, which alone are left

    @property
    def first(self) -> np.ndarray:
        """Embeddings before training, (R, V, D)."""
        return self.path[0]

    @property
    def last(self) -> np.ndarray:
        """Embeddings after it, (R, V, D)."""
        return self.path[-1]

    @property
    def embedding_dim(self) -> int:
        """D."""
        return int(self.last.shape[-1])

    @functools.cached_property
    def spectrum(self) -> Spectrum:
        """Of D = log(1 + counts)."""
        return theory.decompose(kernels.log_counts(self.counts.pairs))

    @functools.cached_property
    def extraction(self) -> kernels.Extraction:
        """Kernels after training, (R, V, V)."""
        return self.extracted(self.last)

    @property
    def k0(self) -> np.ndarray:
        """First rows after training, (R, V)."""
        return self.extraction.k0

    @functools.cached_property
    def identity(self) -> np.ndarray:
        """First row of the identity's deconvolution, (V,)."""
        return theory.row_identity(self.spectrum)

    def extracted(self, embeddings: np.ndarray) -> kernels.Extraction:
        """Kernels of embeddings (..., V, D)."""
        return kernels.extract_kernel(gram(embeddings), self.spectrum.matrix, zeros="drop")

    def k0_of(self, embeddings: np.ndarray) -> np.ndarray:
        """First rows of their kernels, (..., V)."""
        return self.extracted(embeddings).k0

    def scores(self, embeddings: np.ndarray, *, direction: int = 1) -> np.ndarray:
        """Circulant scores of their kernels, (...)."""
        kernel = self.extracted(embeddings).kernel
        return theory.circulant_scores(kernel, direction=direction)


def gram(embeddings: np.ndarray) -> np.ndarray:
    """W = E E' of embeddings (..., V, D)."""
    return embeddings @ np.swapaxes(embeddings, -1, -2)


def counts_cell(run: KernelRun) -> Cell:
    """The counts of the text that a run reads."""
    return counted.cell(CountedText(run.text))


def other_windows(preset: str) -> dict[int, Cell]:
    """The counts of the main reading's text by other windows than the paper's pipeline has."""
    return {window: counted.cell(CountedText(main(preset).text, window)) for window in WINDOWS}


def cells_of(*runs: KernelRun) -> list[Cell]:
    """Runs, and the counts of their texts."""
    return [cell for run in runs for cell in (counts_cell(run), minigpt.cell(run))]


def met_counts(run: KernelRun) -> tuple[Counts, np.ndarray]:
    """The counts of a run's text, and which symbols (V,) it has: one without a pair has no row in D."""
    counts = load_counts(counts_cell(run))
    met: np.ndarray = counts.pairs.sum(axis=1) > 0
    tokens = [token for token, there in zip(counts.tokens, met, strict=True) if there]
    return Counts(tokens, counts.pairs[np.ix_(met, met)]), met


def spectrum_of(run: KernelRun) -> Spectrum:
    """The spectrum of D of a run's text."""
    return theory.decompose(kernels.log_counts(met_counts(run)[0].pairs))


def load(run: KernelRun) -> Trained:
    """A run's models and its text's counts: stored, or else computed here."""
    paths = [cell.path for cell in cells_of(run)]
    return _loaded(run, tuple((path, path.stat().st_mtime_ns if path.is_file() else 0) for path in paths))


@functools.lru_cache(maxsize=32)  # most claims read the same models
def _loaded(run: KernelRun, files: tuple[tuple[Path, int], ...]) -> Trained:
    """The same, read once as long as its files stay what they are."""
    counts, met = met_counts(run)
    table = table_of(minigpt.cell(run))
    own = table[table["quantity"] == "embedding"].sort_values(["step", "seed", "index"])
    steps, seeds = (sorted(set(own[name].tolist())) for name in ("step", "seed"))
    n_words = int(table.loc[table["quantity"] == "vocab_size", "value"].iloc[0])
    path = own["value"].to_numpy(dtype=np.float64).reshape(len(steps), len(seeds), n_words, -1)
    path = path[:, [seeds.index(member.seed) for member in run.members]]
    heads = path[-1]
    if not run.tied:
        heads = np.stack([embedding(table, member.seed, output=True) for member in run.members])
    return Trained(run.text.corpus, steps, path[:, :, met], heads[:, met], measures(table), counts, met)


def main_cells(preset: str) -> list[Cell]:
    """The main reading's, which most claims need."""
    return cells_of(main(preset))


def trained(preset: str = "paper") -> Trained:
    """The main reading's models."""
    return load(main(preset))


def final_losses(found: Trained) -> np.ndarray:
    """Training loss at the end as a log shows it, with dropout, (R,), nats."""
    table = found.measures
    return table[table["step"] == table["step"].max()]["dropout_loss"].to_numpy()
