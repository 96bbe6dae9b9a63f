"""Models on the texts that the scan chose: both starts, batches of three sizes, fresh seeds.

What Tables 1 to 4 and section 6 say is measured here, beside the same models before training; it is judged on
models of this setting that train until their loss is flat, see :mod:`book.kernel.experiments.convergence`.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from book.kernel import theory
from book.kernel.experiments import extracted, fits, models
from book.kernel.experiments.fits import cosines
from book.kernel.experiments.models import QUICK, STARTS, Trained
from book.kernel.experiments.runs import KernelRun
from book.kernel.experiments.texts import Slice
from book.kernel.minigpt import MiniGPTConfig, Start
from book.kernel.theory import Spectrum
from book.ledger import findings
from book.ledger.cells import Cell
from book.ledger.findings import Finding
from book.ledger.studies import Part, Study

TEXTS = (  # see tests: the scan's three nearest
    Slice("enwiki2018", "unk", 100, 10_000, offset=3_795_000),
    Slice("enwiki2018", "unk", 100, 3_000, offset=13_860_000),
    Slice("enwiki2018", "drop", 100, 1_500, offset=10_230_000),
)
TEXT = TEXTS[1]  # which decides: nearly as near as the first, and a third as long
BATCH_SIZES = (4, 8, 32)  # blocks
CHOOSING, JUDGED = (100, 3), (200, 5)  # first seed and how many
SETTINGS: list[tuple[Start, int]] = list(itertools.product(STARTS, BATCH_SIZES))
DECIDING: tuple[Start, int] = ("small", 8)  # see tests: its loss lies nearest to the paper's


def run(text: Slice, start: Start, batch_size: int, seeds: tuple[int, int] = JUDGED) -> KernelRun:
    """V = 100, d = 64, 200 epochs on a slice."""
    first_seed, n_seeds = seeds
    shape = MiniGPTConfig(text.vocab_size, start=start)
    return KernelRun(text, shape, batch_size=batch_size, n_seeds=n_seeds, first_seed=first_seed)


def choosing(preset: str) -> dict[tuple[Start, int], KernelRun]:
    """The settings on the text that decides, on the seeds that choose among them."""
    if preset == "quick":
        return {DECIDING: dataclasses.replace(_quick(), first_seed=CHOOSING[0])}
    return {setting: run(TEXT, *setting, CHOOSING) for setting in SETTINGS}


def judged(preset: str = "paper") -> KernelRun:
    """The setting that decides, on seeds that chose nothing."""
    return _quick() if preset == "quick" else run(TEXT, *DECIDING)


def _quick() -> KernelRun:
    text = Slice("embedded", "unk", QUICK.text.vocab_size, 1_500, offset=400)
    return dataclasses.replace(QUICK, text=text, first_seed=JUDGED[0], keep_all=False)


# --- what is judged -------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Judged:
    """The models that are judged, and those that chose how to read formulas."""

    models: Trained
    chosen_by: Trained

    @property
    def before(self) -> np.ndarray:
        """First rows of the judged models before training, (R, V)."""
        return self.models.k0_of(self.models.first)

    def rows(self, values: np.ndarray) -> Finding:
        """Of one row's cosines with the models; its controls the identity matrix's row and the untrained."""
        trained = self.models
        controls = {
            "untrained": cosines(values, self.before),
            "identity": cosines(trained.identity, trained.k0),
        }
        return self.found(cosines(values, trained.k0), controls)

    def over(self, values: np.ndarray) -> dict[str, Finding]:
        """What a row's cosine with a model has over the same model before training, and over the identity."""
        trained = self.models
        own = cosines(values, trained.k0)
        rest = {"untrained": cosines(values, self.before), "identity": cosines(trained.identity, trained.k0)}
        return {
            f"over_{name}": findings.over_seeds(own - other, corpus=trained.corpus, within=(-2.0, 2.0))
            for name, other in rest.items()
        }

    def found(self, values: np.ndarray, controls: Mapping[str, np.ndarray]) -> Finding:
        """A finding over seeds, its controls as means."""
        means = {name: float(np.mean(null)) for name, null in controls.items()}
        return models.of_cosines(values, controls=means, corpus=self.models.corpus)


def load(preset: str = "paper") -> Judged:
    """Both, stored or trained here."""
    return Judged(models.load(judged(preset)), models.load(choosing(preset)[DECIDING]))


def table_1(both: Judged) -> dict[str, Finding]:
    """Table 1's thirteen cosines, their order, and what the power law has over its controls."""
    own, chooser = both.models, both.chosen_by
    table, untrained = fits.table_1(own), fits.table_1(own, both.before)
    labels = fits.nearest_readings(fits.table_1(chooser))
    of_untrained = fits.nearest_readings(fits.table_1(chooser, chooser.k0_of(chooser.first)))
    identity = cosines(own.identity, own.k0)
    found = {
        name: both.found(table[label], {"untrained": untrained[of_untrained[name]], "identity": identity})
        for name, label in labels.items()
    }
    order = both.found(
        fits.order_agreement(table, labels), {"untrained": fits.order_agreement(untrained, of_untrained)}
    )
    return found | {"order": order} | both.over(theory.k0_fft(own.spectrum))


def table_2(both: Judged) -> dict[str, Finding]:
    """Table 2's trend, and its best power."""
    own = both.models
    scan = theory.alpha_scan(own.spectrum, theory.TABLE_2, form="fft")
    trends = [
        np.array([fits.rank_correlation(theory.TABLE_2, column) for column in found.T])
        for found in (cosines(scan[:, None], k0[None]) for k0 in (own.k0, both.before))
    ]
    power = theory.k0_fft(own.spectrum)
    return {
        "trend": both.found(trends[0], {"untrained": trends[1]}),
        "power_0.003": both.rows(power),
    } | both.over(power)


def table_3(both: Judged) -> dict[str, Finding]:
    """Table 3's two terms and their sum."""
    spectrum = both.models.spectrum
    terms = theory.taylor_terms(spectrum)
    rows = {"identity": theory.impulse_row(spectrum), "log": terms.log.real, "both": terms.both}
    return {name: both.rows(row) for name, row in rows.items()} | both.over(terms.both)


def table_4(both: Judged) -> dict[str, Finding]:
    """Table 4's cosine in the better form at each seed's best epsilon."""
    own = both.models
    trained, before = (fits.better_form(own.spectrum, rows) for rows in (own.k0, both.before))
    controls = {"untrained": before, "identity": cosines(own.identity, own.k0)}
    return {"cosine": both.found(trained, controls)}


def pmi_fit(both: Judged) -> dict[str, Finding]:
    """Section 6's two cosines."""
    own = both.models
    pmi = theory.candidates(own.counts.pairs, own.spectrum)["H5 (as written)"].values
    power = theory.k0_fft(own.spectrum)
    return {"pmi": both.rows(pmi), "power": both.rows(power)} | both.over(power)


def _between_seeds(preset: str) -> dict[str, Finding]:
    both = load(preset)
    controls = {"untrained": extracted.mean_between(both.before)}
    return {"cosine_text": extracted.resampled(both.models.k0, both.models.corpus, controls)}


def _text_cells(preset: str) -> list[Cell]:
    return models.cells_of(*choosing(preset).values(), judged(preset))


STUDIES: dict[str, Study] = {  # what judges Tables 1 to 4 and section 6 is in convergence
    "kernel.data_determined": Study(_text_cells, _between_seeds)
}
