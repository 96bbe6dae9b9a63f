"""Larger vocabularies: the formula at 15,000 words, trained models at 1,000 and 5,000 (an open question)."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass

import numpy as np
import pandas as pd

from book.kernel import theory
from book.kernel.experiments import models
from book.kernel.experiments.fits import best_over_eps, best_sum, cosines, with_counts
from book.kernel.experiments.orthogonality import diagonal_shares, expected_cosine, mean_cosines
from book.kernel.experiments.runs import KernelRun, Session, embedding, measures, prepare
from book.kernel.experiments.texts import TextReading, load
from book.kernel.minigpt import MiniGPTConfig, Start
from book.kernel.theory import Spectrum
from book.ledger import findings
from book.ledger.cells import Cell, experiment, table_of, training_run
from book.ledger.findings import Finding
from book.ledger.studies import Part, Study
from embviz import kernels
from embviz.training.loop import Metrics
from embviz.words.cooccurrence import count_pairs

WINDOW = 5
SIZES = {"quick": (40, 60, 80), "full": (1_000, 5_000, 15_000)}  # two with models, one without
FLAT = 0.02  # of its value: a loss that falls by less over the last two fifths of the updates is at a plateau
AT_PLATEAU = "seeds whose loss is flat"
STARTS: dict[str, Start] = {"wide": "pytorch", "small": "small"}


@dataclass(frozen=True)
class ScaledText:
    """A text of a large vocabulary, for the formula alone."""

    text: TextReading


@experiment("kernel.formula_at_scale", threads=2)
def formula_at_scale(config: ScaledText) -> pd.DataFrame:
    """What the formula gives for one text.

    Returns
    -------
    DataFrame
        One row: vocab_size, n_negative (eigenvalues of D), condition (largest / smallest |fft2(D)|), n_zeros
        (frequencies at 0 or below rounding), clamped (share of k0, eigen form), listings (cosine of the two),
        fft_identity and eigen_identity (cosines with the identity matrix's deconvolution).
    """
    text = load(config.text)
    spectrum = _spectrum(text.ids, len(text.vocabulary))
    table = pd.DataFrame([formula_measures(spectrum)])
    table.attrs["data"] = {config.text.corpus: text.checksum}
    return table


def _spectrum(ids: np.ndarray, vocab_size: int) -> Spectrum:
    return theory.decompose(kernels.log_counts(count_pairs(ids, vocab_size, window=WINDOW)))


def formula_measures(spectrum: Spectrum) -> dict[str, float]:
    """See :func:`formula_at_scale`."""
    eigen, fft = theory.k0_eigen(spectrum), theory.k0_fft(spectrum, safe=theory.SAFE)
    identity = theory.row_identity(spectrum, safe=theory.SAFE)  # zeros are counted below
    size = np.abs(spectrum.transform)
    lost = size <= np.finfo(float).eps * len(size) * size.max()
    clamped = spectrum.values < theory.FLOOR
    energy = (theory.spectral_power(spectrum.values, theory.EPS - 1) * spectrum.vectors[0]) ** 2
    return {
        "vocab_size": spectrum.vocab_size,
        "n_negative": spectrum.n_negative,
        "condition": float(size.max() / size[~lost].min()),
        "n_zeros": int(lost.sum()),  # of the half plane that a real matrix needs
        "clamped": float((energy * clamped).sum() / energy.sum()),
        "listings": float(cosines(eigen, fft)),
        "fft_identity": float(cosines(fft, identity)),
        "eigen_identity": float(cosines(eigen, identity)),
    }


@dataclass(frozen=True)
class ScaledRun:
    """Models of a large vocabulary, of which measures alone are kept."""

    run: KernelRun
    n_orders: int = 3  # random ones, beside the order by frequency


@experiment("kernel.models_at_scale", version=2)
def models_at_scale(config: ScaledRun) -> pd.DataFrame:
    """Train, and hold the kernels against the formula.

    Returns
    -------
    DataFrame
        One row per seed and order of the words (0: by frequency), before and after training: seed, step,
        order, held_out_loss, ratio (mean |cosine| of words to that of random directions), diagonal (share of
        |W|_F), score (circulant); cosines with k0: eigen and fft (best over epsilons 0.001 to 0.02),
        identity, with_counts (best of aI + bD), with_mean (best of aI + b11'); and the columns of
        :func:`formula_at_scale`, of the order by frequency.
    """
    session = prepare(config.run)
    spectrum = _spectrum(session.text.ids, len(session.text.vocabulary))
    parts = []
    for snapshot in session.snapshots(
        session.n_steps,
        measure=lambda step: {"held_out_loss": session.held_out_losses().tolist()},
        weights=lambda: {"embedding": session.model.embedding},
    ):
        embeddings = snapshot.weights["embedding"].double().cpu().numpy()
        parts += _measured(config, spectrum, snapshot.step, embeddings, snapshot.metrics)
    table = pd.concat(parts, ignore_index=True).assign(**formula_measures(spectrum))
    table.attrs["data"] = {config.run.text.corpus: session.text.checksum}
    return table


def _measured(
    config: ScaledRun,
    spectrum: Spectrum,
    step: int,
    embeddings: np.ndarray,
    of_losses: Metrics,
) -> list[pd.DataFrame]:
    """Rows of :func:`models_at_scale` of one snapshot, embeddings (R, V, D); a table an order."""
    shared = {
        "seed": [member.seed for member in config.run.members],
        "step": step,
        **of_losses,
        "ratio": np.array([mean_cosines(E) for E in embeddings]) / expected_cosine(embeddings.shape[2]),
        "diagonal": np.array([diagonal_shares(E) for E in embeddings]),
    }
    return [
        pd.DataFrame(shared | {"order": number} | _fits(embeddings[:, order], spectrum.permuted(order)))
        for number, order in enumerate(_orders(spectrum.vocab_size, config.n_orders))
    ]


@experiment("kernel.models_at_plateau")
def models_at_plateau(config: ScaledRun) -> pd.DataFrame:
    """The same for longer training, which goes on after a kill.

    Returns
    -------
    DataFrame
        The columns of :func:`models_at_scale`, before and after training; dropout_loss, on training blocks,
        nats; and fall, the share by which it fell since the last snapshot but one, after three fifths of the
        updates (0 before training).
    """
    session = prepare(config.run)
    spectrum = _spectrum(session.text.ids, len(session.text.vocabulary))
    data = {config.run.text.corpus: session.text.checksum}
    with training_run(models_at_plateau.cell(config), data) as (run, slices):
        session.train(run)
        path = _losses_and_ends(session, session.table(run))
    parts = []
    for step, (embeddings, of_losses) in path.items():
        parts += _measured(config, spectrum, step, embeddings, of_losses)
    table = pd.concat(parts, ignore_index=True).assign(**formula_measures(spectrum))
    table.attrs |= {"data": data, "slices": slices}
    return table


def _losses_and_ends(session: Session, table: pd.DataFrame) -> dict[int, tuple[np.ndarray, Metrics]]:
    """Embeddings (R, V, D) and losses of each seed by step, of the first snapshot and the last."""
    wide = measures(table).pivot(index="step", columns="seed")
    steps = list(wide.index)
    found: dict[int, tuple[np.ndarray, Metrics]] = {}
    for step, before in ((steps[0], steps[0]), (steps[-1], steps[-2])):
        embeddings = np.stack([embedding(table, member.seed, step) for member in session.config.members])
        dropout = wide["dropout_loss"]
        found[step] = (
            embeddings,
            {
                "held_out_loss": wide["held_out_loss"].loc[step].to_numpy(),
                "dropout_loss": dropout.loc[step].to_numpy(),
                "fall": 1 - dropout.loc[step].to_numpy() / dropout.loc[before].to_numpy(),
            },
        )
    return found


def _orders(V: int, n: int) -> list[np.ndarray]:
    """The words as they are, then n random orders of them."""
    rng = np.random.default_rng(0)
    return [np.arange(V), *(rng.permutation(V) for _ in range(n))]


def _fits(embeddings: np.ndarray, spectrum: Spectrum) -> dict[str, np.ndarray]:
    """Kernels of embeddings (R, V, D) against the formula, (R,) each."""
    rows, scores = [], []
    for E in embeddings:  # a kernel at a time: they are large
        extraction = kernels.extract_kernel(models.gram(E), spectrum.matrix, zeros="drop")
        rows.append(extraction.k0)
        scores.append(float(theory.circulant_scores(extraction.kernel)))
    k0, identity = np.array(rows), theory.row_identity(spectrum)
    return {
        "score": np.array(scores),
        "eigen": best_over_eps(spectrum, k0, "eigen")[0],
        "fft": best_over_eps(spectrum, k0, "fft")[0],
        "identity": cosines(identity, k0),
        "with_counts": with_counts(spectrum, k0),
        "with_mean": best_sum(np.stack([identity, np.ones_like(identity)]), k0),
    }


# --- which ------------------------------------------------------------------------------------------


def runs(preset: str) -> dict[int, KernelRun]:
    """Models by the vocabulary of the full sizes that they are, or stand for."""
    run = models.main(preset)
    full, sizes = SIZES["full"], SIZES["quick" if preset == "quick" else "full"]
    if preset == "quick":
        text = dataclasses.replace(run.text, n_tokens=3_000)
        return {
            name: dataclasses.replace(run, text=dataclasses.replace(text, vocab_size=size), keep_all=False)
            for name, size in zip(full[:2], sizes, strict=False)
        }
    lengths = {1_000: (200_000, 20, 5), 5_000: (500_000, 8, 2)}  # tokens, epochs, seeds
    return {
        size: KernelRun(
            TextReading(vocab_size=size, n_tokens=n_tokens),
            MiniGPTConfig(size, start=run.shape.start),
            n_epochs=n_epochs,
            n_seeds=n_seeds,
        )
        for size, (n_tokens, n_epochs, n_seeds) in lengths.items()
    }


def plateau_runs(preset: str) -> dict[str, KernelRun]:
    """Models of 1,000 words that train until their loss is flat, by their start."""
    if preset == "quick":
        run = runs("quick")[1_000]
        return {
            name: dataclasses.replace(run, shape=dataclasses.replace(run.shape, start=start), first_seed=100)
            for name, start in STARTS.items()
        }
    text = TextReading(vocab_size=1_000, n_tokens=50_000)
    return {
        name: KernelRun(
            text, MiniGPTConfig(1_000, start=start), batch_size=8, n_seeds=3, first_seed=100
        )  # 200 epochs of 98 updates
        for name, start in STARTS.items()
    }


def _plateau_cells(preset: str) -> list[Cell]:
    return [models_at_plateau.cell(ScaledRun(run)) for run in plateau_runs(preset).values()]


def formula_texts(preset: str) -> list[TextReading]:
    """Texts of the models, and the largest text, which has no model."""
    own = [run.text for run in runs(preset).values()]
    if preset == "quick":
        return [*own, dataclasses.replace(own[0], vocab_size=SIZES["quick"][-1], n_tokens=4_000)]
    return [*own, TextReading(vocab_size=SIZES["full"][-1], n_tokens=2_000_000)]


def formula_cells(preset: str) -> list[Cell]:
    """The formula on each of them."""
    return [formula_at_scale.cell(ScaledText(text)) for text in formula_texts(preset)]


def cells(preset: str) -> list[Cell]:
    """Models, then the formula alone."""
    models_of_it = [models_at_scale.cell(ScaledRun(run)) for run in runs(preset).values()]
    return models_of_it + formula_cells(preset)


def table(preset: str) -> pd.DataFrame:
    """Trained models' measures of both vocabularies, stored or computed here; `name` is the full size."""
    parts = [
        table_of(models_at_scale.cell(ScaledRun(run))).assign(name=name) for name, run in runs(preset).items()
    ]
    return pd.concat(parts, ignore_index=True)


def at_plateau(preset: str) -> dict[str, Finding]:
    """What trained models of 1,000 words say from either start; of models whose loss still falls, nothing."""
    found: dict[str, Finding] = {}
    for (name, run), cell in zip(plateau_runs(preset).items(), _plateau_cells(preset), strict=True):
        table = table_of(cell)
        given = table[table["order"] == 0].assign(formula=lambda rows: rows[["eigen", "fft"]].max(axis=1))
        first, last = given[given["step"] == 0], given[given["step"] > 0]
        corpus, flat = run.text.corpus, (last["fall"] < FLAT).to_numpy()
        formula = last["formula"].to_numpy()
        controls = {"identity": float(last["identity"].mean()), "untrained": float(first["formula"].mean())}
        if flat.any():
            cosine = models.of_cosines(formula[flat], controls=controls, corpus=corpus)
        else:  # shown, and nothing is decided by it
            mean = float(formula.mean())
            cosine = Finding(mean, mean, mean, 0, controls, corpus, AT_PLATEAU)
        found |= {
            f"cosine_{name}": cosine,
            f"fall_{name}": findings.over_seeds(100 * last["fall"].to_numpy(), corpus=corpus),
            f"loss_{name}": findings.over_seeds(last["dropout_loss"].to_numpy(), corpus=corpus),
        }
    return found


STUDIES: dict[str, Study] = {"kernel.open_scale": Study(_plateau_cells, at_plateau, beside=cells)}
