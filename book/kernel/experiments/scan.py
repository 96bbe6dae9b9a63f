"""Which text the kernel paper's tables come from: a scan over slices, by what depends on the text alone.

Section 4.2 and Table 5 print figures for which no model is needed: the spread of two k0, the cosine of the
two, and five cosines between k0 of different epsilons. :func:`distance` holds a text against them. What is
read of models that were never trained stands beside and chooses nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pandas as pd

from book.kernel import theory
from book.kernel.experiments import extracted, fits, models
from book.kernel.experiments.extracted import N_RESAMPLED
from book.kernel.experiments.fits import PAIRS_OF_EPS, cosines
from book.kernel.experiments.texts import Slice, Symbols, cut, words
from book.kernel.theory import Spectrum
from book.ledger import findings
from book.ledger.cells import Cell, experiment, table_of
from book.ledger.findings import Finding
from book.ledger.studies import Study
from embviz import kernels
from embviz.words.cooccurrence import count_pairs

SD_IDENTITY, SD_POWER, MUTUAL = 0.0007, 0.0278, 0.247  # section 4.2
TABLE_5 = (0.9998, 0.9955, 0.9802, 0.9973, 0.9841)  # of PAIRS_OF_EPS
PRINTED_RATIO = 40.0  # of the log term to the identity term, Appendix A step 6
N_UNTRAINED = 5  # embeddings from N(0, 1), of seed 0
N_NEAREST = 20  # texts nearest by one half of it, on which the other half is judged
PAIRS = [f"cosine_{a:.3f}_{b:.3f}" for a, b in PAIRS_OF_EPS]


@dataclass(frozen=True)
class Scan:
    """Slices of one form: `n_offsets` beginnings, `stride` words apart, each at every length."""

    symbols: Symbols = "unk"
    corpus: str = "enwiki2018"
    lengths: tuple[int, ...] = (1_000, 1_500, 2_000, 3_000, 5_000, 10_000, 20_000, 50_000)  # tokens
    n_offsets: int = 100
    stride: int = 165_000
    vocab_size: int = 100
    embedding_dim: int = 64  # of models never trained

    @property
    def slices(self) -> list[Slice]:
        """All of them."""
        offsets = range(0, self.n_offsets * self.stride, self.stride)
        return [
            Slice(self.corpus, self.symbols, self.vocab_size, length, offset=offset)
            for offset in offsets
            for length in self.lengths
        ]


@experiment("kernel.scan")
def scanned(config: Scan) -> pd.DataFrame:
    """Count every slice's pairs as the paper's pipeline does, and read what needs no trained model.

    Returns
    -------
    DataFrame
        One row per slice: offset, n_tokens; the columns of :func:`of_text`; score_untrained and
        cosine_untrained, circulant score and better form's best cosine of embeddings from N(0, 1), mean of 5.
    """
    source = words(config.corpus)
    drawn = extracted.random_embeddings(config.vocab_size, config.embedding_dim, N_UNTRAINED)
    rows = []
    for one in config.slices:
        text = cut(one, source)
        spectrum = theory.decompose(kernels.log_counts(count_pairs(text.ids, one.vocab_size, window=5)))
        extraction = kernels.extract_kernel(models.gram(drawn), spectrum.matrix, zeros="drop")
        rows.append(
            {"offset": one.offset, "n_tokens": one.n_tokens}
            | of_text(spectrum)
            | {
                "score_untrained": theory.circulant_scores(extraction.kernel).mean(),
                "cosine_untrained": fits.better_form(spectrum, extraction.k0).mean(),
            }
        )
    table = pd.DataFrame(rows)
    table.attrs["data"] = {config.corpus: source.checksum}
    return table


def of_text(D: Spectrum) -> dict[str, float]:
    """What section 4.2 and Table 5 print, of one D in the FFT form; zeros as the listing has them.

    Returns
    -------
    dict
        sd_identity and sd_power, standard deviations of ifft2(1 / fft2(D)) and of k0 at epsilon = 0.003;
        mutual, their cosine; cosine_a_b of k0 at epsilons a and b; eigen, the last in the eigen form.
    """
    written = theory.impulse_row(D, safe=theory.SAFE)
    eps = sorted({theory.EPS, *(one for pair in PAIRS_OF_EPS for one in pair)})
    rows = dict(zip(eps, theory.alpha_scan(D, eps, safe=theory.SAFE), strict=True))
    power = rows[theory.EPS]
    eigen = theory.alpha_scan(D, PAIRS_OF_EPS[-1], form="eigen")
    found = {"sd_identity": written.std(), "sd_power": power.std(), "mutual": cosines(power, written)}
    found |= {name: cosines(rows[a], rows[b]) for name, (a, b) in zip(PAIRS, PAIRS_OF_EPS, strict=True)}
    found["eigen"] = cosines(eigen[0], eigen[1])
    return {name: float(value) for name, value in found.items()}


@dataclass(frozen=True)
class NearestTexts:
    """The texts of some scans that lie nearest by Table 5."""

    scans: tuple[Scan, ...]
    n_texts: int = N_NEAREST
    shuffled: bool = False  # the tokens of each in random order


@experiment("kernel.log_terms", version=2)
def log_terms(config: NearestTexts) -> pd.DataFrame:
    """Spreads of the terms of D^eps = I + eps log D + ..., deconvolved, on each of those texts.

    Returns
    -------
    DataFrame
        One row per text, nearest first: symbols, offset, n_tokens; sd_log (of the log term, without epsilon,
        the listings' clamp), sd_identity (of the identity term as written), sd_matrix (of the identity
        matrix's).
    """
    every = [table_of(scanned.cell(scan)).assign(symbols=scan.symbols) for scan in config.scans]
    near = nearest(pd.concat(every, ignore_index=True), config.n_texts, "Table 5")
    (corpus,), (vocab_size,) = (
        {getattr(scan, name) for scan in config.scans} for name in ("corpus", "vocab_size")
    )
    source, rows = words(corpus), []
    places = zip(near["symbols"], near["n_tokens"].astype(int), near["offset"].astype(int), strict=True)
    for symbols, n_tokens, offset in places:
        one = Slice(corpus, symbols, vocab_size, n_tokens, offset=offset, shuffled=config.shuffled)
        text = cut(one, source)
        D = theory.decompose(kernels.log_counts(count_pairs(text.ids, vocab_size, window=5)))
        terms = theory.taylor_terms(D, safe=theory.SAFE)
        written = theory.impulse_row(D, safe=theory.SAFE)
        power = theory.k0_fft(D, safe=theory.SAFE)
        spreads = {"log": terms.log.real, "power": power, "identity": written, "matrix": terms.identity}
        rows.append({f"sd_{name}": float(row.std()) for name, row in spreads.items()})
    table = pd.concat([near[["symbols", "offset", "n_tokens"]], pd.DataFrame(rows)], axis=1)
    table.attrs["data"] = {corpus: source.checksum}
    return table


def distance(table: pd.DataFrame, part: str = "all") -> pd.Series:
    """How far a row of :func:`of_text` lies from the paper.

    Root mean square of four departures: logarithms of the two standard deviations over the paper's, their
    cosine less the paper's in shares of it, and one for Table 5, itself the root mean square of the
    logarithms of 1 - cosine over the paper's. The printed ratio of 40 is that of the standard deviations.
    Of `part` "section 4.2" the first three alone, of "Table 5" the last.
    """
    first = np.stack(
        [
            np.log(table["sd_identity"] / SD_IDENTITY),
            np.log(table["sd_power"] / SD_POWER),
            table["mutual"] / MUTUAL - 1,
        ]
    )
    last = np.sqrt((departures_of_table_5(table) ** 2).mean(axis=1))
    found = {"section 4.2": first, "Table 5": last[None], "all": np.vstack([first, last])}[part]
    return pd.Series(np.sqrt((found**2).mean(axis=0)), index=table.index)


def departures_of_table_5(table: pd.DataFrame) -> np.ndarray:
    """Logarithms of 1 - cosine over the paper's, (n, 5)."""
    found: np.ndarray = np.log(np.maximum(1 - table[PAIRS].to_numpy(), 1e-12) / (1 - np.array(TABLE_5)))
    return found


def nearest(table: pd.DataFrame, n: int, part: str = "all") -> pd.DataFrame:
    """The n rows that lie nearest, no two of them from one offset and form, by rising distance."""
    ranked = table.assign(distance=distance(table, part)).sort_values("distance", kind="stable")
    return ranked.drop_duplicates(["symbols", "offset"]).head(n).reset_index(drop=True)


def cells(preset: str) -> list[Cell]:
    """A scan for each form: words and one symbol for the rest, and words with the rest dropped."""
    scans = [Scan(), Scan("drop")]
    if preset == "quick":
        scans = [
            Scan(symbols, "embedded", (300, 600), n_offsets=3, stride=400, vocab_size=30, embedding_dim=16)
            for symbols in ("unk", "drop")
        ]
    return [scanned.cell(scan) for scan in scans]


def table(preset: str) -> pd.DataFrame:
    """All slices, stored or scanned here: symbols, and the columns of :func:`scanned`."""
    return pd.concat(
        [table_of(cell).assign(symbols=cell.config.symbols) for cell in cells(preset)], ignore_index=True
    )


# --- claims -----------------------------------------------------------------------------------------


def median_of(values: pd.Series, corpus: str, controls: dict[str, float] | None = None) -> Finding:
    """The median over texts, its interval by drawing texts again."""
    own = values.to_numpy(dtype=float)
    drawn = np.random.default_rng(0).choice(own, (N_RESAMPLED, len(own)))
    value, replicates = np.median(own), np.median(drawn, axis=1)
    return findings.resampled(value, replicates, len(own), repeats="texts", controls=controls, corpus=corpus)


def _identity(preset: str) -> dict[str, Finding]:
    near, corpus = nearest(table(preset), N_NEAREST, "Table 5"), _corpus(preset)
    near["spread"] = near["sd_power"] / near["sd_identity"]
    names = ("mutual", "spread")
    found = {f"{name}_text": median_of(near[name], corpus) for name in names}
    trained = models.trained(preset)
    sizes = {"sd_identity": theory.impulse_row(trained.spectrum), "sd_power": theory.k0_fft(trained.spectrum)}
    return found | {name: findings.exact(row.std(), corpus=trained.corpus) for name, row in sizes.items()}


def _table_5(preset: str) -> dict[str, Finding]:
    near, corpus = nearest(table(preset), N_NEAREST, "section 4.2"), _corpus(preset)
    found = {
        f"text_{a:.3f}-{b:.3f}": median_of(near[name], corpus)
        for name, (a, b) in zip(PAIRS, PAIRS_OF_EPS, strict=True)
    }
    slopes = np.exp(departures_of_table_5(near).mean(axis=1))
    return found | {"text_slope": median_of(pd.Series(slopes), corpus)}


def log_terms_cell(preset: str, *, shuffled: bool = False) -> Cell:
    """Of the texts nearest by Table 5, or of their tokens in random order."""
    scans = tuple(cell.config for cell in cells(preset))
    return log_terms.cell(NearestTexts(scans, N_NEAREST if preset != "quick" else 4, shuffled))


def _ratios(table: pd.DataFrame) -> dict[str, pd.Series]:
    """The log term over the identity term, in four readings, and section 4.2's ratio; one number per text."""
    plain, matrix = (table["sd_log"] / table[name] for name in ("sd_identity", "sd_matrix"))
    return {
        "magnitude": plain,
        "magnitude_eps": theory.EPS * plain,
        "magnitude_matrix": matrix,
        "magnitude_matrix_eps": theory.EPS * matrix,
        "magnitude_power": table["sd_power"] / table["sd_identity"],
    }


def _nearest_to_printed(medians: Mapping[str, float]) -> str:
    return min(medians, key=lambda name: abs(np.log(medians[name] / PRINTED_RATIO)))


def _active(preset: str) -> dict[str, Finding]:
    corpus = _corpus(preset)
    own, shuffled = (
        _ratios(table_of(log_terms_cell(preset, shuffled=shuffled))) for shuffled in (False, True)
    )
    of_shuffled = {name: float(values.median()) for name, values in shuffled.items()}
    found = {name: median_of(values, corpus) for name, values in own.items()}
    nearest_one = _nearest_to_printed({name: one.value for name, one in found.items()})
    controls = {"shuffled": of_shuffled[_nearest_to_printed(of_shuffled)]}
    return found | {"nearest_of_five": median_of(own[nearest_one], corpus, controls)}


def _corpus(preset: str) -> str:
    return str(cells(preset)[0].config.corpus)


STUDIES: dict[str, Study] = {
    "kernel.identity": Study(lambda preset: models.main_cells(preset) + cells(preset), _identity),
    "kernel.active": Study(
        lambda preset: [*cells(preset), log_terms_cell(preset), log_terms_cell(preset, shuffled=True)],
        _active,
    ),
    "kernel.table5": Study(lambda preset: models.main_cells(preset) + cells(preset), _table_5),
}
