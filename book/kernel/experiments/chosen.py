"""Models on the texts that the scan chose: both starts, batches of three sizes, fresh seeds.

What Tables 1 to 3 and section 6 say is judged on them, beside the same models before training.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Callable, Mapping
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
from embviz.ledger import findings
from embviz.ledger.cells import Cell
from embviz.ledger.findings import Finding
from embviz.ledger.studies import Part, Study

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


def judged(preset: str) -> KernelRun:
    """The setting that decides, on seeds that chose nothing."""
    return _quick() if preset == "quick" else run(TEXT, *DECIDING)


def others(preset: str) -> list[KernelRun]:
    """The same setting on the other texts."""
    return [] if preset == "quick" else [run(text, *DECIDING) for text in TEXTS if text != TEXT]


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


def load(preset: str) -> Judged:
    """Both, stored or trained here."""
    return Judged(models.load(judged(preset)), models.load(choosing(preset)[DECIDING]))


def _table_1(preset: str) -> dict[str, Finding]:
    both = load(preset)
    own, chooser = both.models, both.chosen_by
    table, untrained = fits.table_1(own), fits.table_1(own, both.before)
    labels = fits.nearest_readings(fits.table_1(chooser))
    of_untrained = fits.nearest_readings(fits.table_1(chooser, chooser.k0_of(chooser.first)))
    identity = cosines(own.identity, own.k0)
    found = {
        f"{name}_text": both.found(
            table[label], {"untrained": untrained[of_untrained[name]], "identity": identity}
        )
        for name, label in labels.items()
    }
    order = both.found(
        fits.order_agreement(table, labels), {"untrained": fits.order_agreement(untrained, of_untrained)}
    )
    unclamped = both.rows(complex_power_row(own.spectrum))
    return found | {"order_text": order, "H12_complex": unclamped} | both.over(theory.k0_fft(own.spectrum))


def complex_power_row(D: Spectrum, eps: float = theory.EPS) -> np.ndarray:
    """k0 in the FFT form from the real part of D^eps without the clamp, (V,).

    The principal power of a negative eigenvalue is |l|^eps exp(i pi eps): nothing needs a floor.
    """
    powers = (D.values.astype(complex) ** eps).real
    row: np.ndarray = theory.responses(D, "fft") @ powers
    return row


def _table_2(preset: str) -> dict[str, Finding]:
    both = load(preset)
    own = both.models
    scan = theory.alpha_scan(own.spectrum, theory.TABLE_2, form="fft")
    trends = [
        np.array([fits.rank_correlation(theory.TABLE_2, column) for column in found.T])
        for found in (cosines(scan[:, None], k0[None]) for k0 in (own.k0, both.before))
    ]
    rows = {f"power_{alpha:g}_text": both.rows(row) for alpha, row in zip(theory.TABLE_2, scan, strict=True)}
    power = theory.k0_fft(own.spectrum)
    return rows | {"trend_text": both.found(trends[0], {"untrained": trends[1]})} | both.over(power)


def _table_3(preset: str) -> dict[str, Finding]:
    both = load(preset)
    spectrum = both.models.spectrum
    terms = theory.taylor_terms(spectrum)
    rows = {"identity": theory.impulse_row(spectrum), "log": terms.log.real, "both": terms.both}
    return {f"{name}_text": both.rows(row) for name, row in rows.items()} | both.over(terms.both)


def _pmi_fit(preset: str) -> dict[str, Finding]:
    both = load(preset)
    own = both.models
    pmi = theory.candidates(own.counts.pairs, own.spectrum)["H5 (as written)"].values
    power = theory.k0_fft(own.spectrum)
    return {"pmi_text": both.rows(pmi), "power_text": both.rows(power)} | both.over(power)


def _table_4(preset: str) -> dict[str, Finding]:
    both = load(preset)
    own = both.models
    trained, before = (fits.better_form(own.spectrum, rows) for rows in (own.k0, both.before))
    controls = {"untrained": before, "identity": cosines(own.identity, own.k0)}
    over = findings.over_seeds(trained - before, corpus=own.corpus, within=(-2.0, 2.0))
    return {"cosine_text": both.found(trained, controls), "over_untrained_text": over}


def _between_seeds(preset: str) -> dict[str, Finding]:
    both = load(preset)
    controls = {"untrained": extracted.mean_between(both.before)}
    return {"cosine_text": extracted.resampled(both.models.k0, both.models.corpus, controls)}


def _with_text(first: Study, measure: Callable[[str], Mapping[str, Finding]]) -> Study:
    """A study of the main reading, with what it comes to on the text that the scan chose."""
    return dataclasses.replace(first, parts=(*first.parts, Part(_text_cells, measure)))


def _text_cells(preset: str) -> list[Cell]:
    return models.cells_of(*choosing(preset).values(), judged(preset))


def _other_cells(preset: str) -> list[Cell]:
    return models.cells_of(*others(preset))


def _study(
    first: Callable[[str], Mapping[str, Finding]],
    own: Callable[[str], Mapping[str, Finding]],
    more: Callable[[str], list[Cell]] = lambda preset: [],
) -> Study:
    """What is reported of a claim on the main reading, and what judges it."""
    return Study(
        lambda preset: models.main_cells(preset) + _text_cells(preset) + more(preset),
        lambda preset: {**first(preset), **own(preset)},
        beside=_other_cells,
    )


STUDIES: dict[str, Study] = {
    "kernel.table1": Study(_text_cells, _table_1, beside=_other_cells),
    "kernel.table2": _study(fits.table_2_of_main, _table_2),
    "kernel.table4": _with_text(fits.STUDIES["kernel.table4"], _table_4),
    "kernel.data_determined": _with_text(extracted.STUDIES["kernel.data_determined"], _between_seeds),
    "kernel.table3": _study(fits.table_3_of_main, _table_3),
    "kernel.pmi_fit": _study(fits.pmi_fit_of_main, _pmi_fit, fits.vector_cells),
}
