"""Larger vocabularies: the formula at 15,000 words, trained models at 1,000 and 5,000 (an open question)."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass

import numpy as np
import pandas as pd
import torch

from embviz import findings, kernels
from embviz.cells import Cell, experiment, table_of
from embviz.cooccurrence import count_pairs
from embviz.experiments.kernel import models
from embviz.experiments.kernel.fits import best_over_eps, cosines
from embviz.experiments.kernel.orthogonality import diagonal_shares, expected_cosine, mean_cosines
from embviz.experiments.kernel.runs import KernelRun, prepare
from embviz.experiments.kernel.texts import TextReading, load
from embviz.findings import Finding
from embviz.kernels import Spectrum
from embviz.models.minigpt import MiniGPTConfig
from embviz.studies import Study

WINDOW = 5
SIZES = {"quick": (40, 60, 80), "full": (1_000, 5_000, 15_000)}  # two with models, one without


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
    return kernels.decompose(kernels.log_counts(count_pairs(ids, vocab_size, window=WINDOW)))


def formula_measures(spectrum: Spectrum) -> dict[str, float]:
    """See :func:`formula_at_scale`."""
    eigen, fft = kernels.k0_eigen(spectrum), kernels.k0_fft(spectrum)
    identity = kernels.row_identity(spectrum)
    size = np.abs(spectrum.transform)
    lost = size <= np.finfo(float).eps * len(size) * size.max()
    clamped = spectrum.values < kernels.FLOOR
    energy = (kernels.spectral_power(spectrum.values, kernels.EPS - 1) * spectrum.vectors[0]) ** 2
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


@experiment("kernel.models_at_scale")
def models_at_scale(config: ScaledRun) -> pd.DataFrame:
    """Train, and hold the kernels against the formula.

    Returns
    -------
    DataFrame
        A row a seed, before and after training: seed, step, held_out_loss, score (circulant), eigen and fft
        (best cosines over epsilons 0.001 to 0.02), identity, ratio (mean |cosine| of words to that of random
        directions), diagonal (share of |W|_F); and the columns of :func:`formula_at_scale`.
    """
    session = prepare(config.run)
    spectrum = _spectrum(session.text.ids, len(session.text.vocabulary))
    formula, rows = formula_measures(spectrum), []
    for snapshot in session.snapshots(
        session.n_steps,
        measure=lambda step: {"held_out_loss": session.held_out_losses().tolist()},
        weights=lambda: {"embedding": session.model.embedding},
    ):
        embeddings = snapshot.weights["embedding"].double().cpu()
        for index, member in enumerate(config.run.members):
            own = _fit(embeddings[index], spectrum)
            losses = snapshot.metrics["held_out_loss"]
            assert isinstance(losses, list)
            own |= {"seed": member.seed, "step": snapshot.step, "held_out_loss": losses[index]}
            rows.append(own | formula)
    table = pd.DataFrame(rows)
    table.attrs["data"] = {config.run.text.corpus: session.text.checksum}
    return table


def _fit(embeddings: torch.Tensor, spectrum: Spectrum) -> dict[str, float]:
    """One model's kernel against the formula."""
    E = embeddings.numpy()
    extraction = kernels.extract_kernel(models.gram(E), spectrum, zeros="drop")
    k0 = extraction.k0[None]
    return {
        "score": float(kernels.circulant_scores(extraction.kernel)),
        "eigen": float(best_over_eps(spectrum, k0, "eigen")[0][0]),
        "fft": float(best_over_eps(spectrum, k0, "fft")[0][0]),
        "identity": float(cosines(kernels.row_identity(spectrum), k0)[0]),
        "ratio": float(mean_cosines(E)) / expected_cosine(E.shape[1]),
        "diagonal": float(diagonal_shares(E)),
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


def formula_texts(preset: str) -> list[TextReading]:
    """Those of the models, and the largest, which has none."""
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


def _open_scale(preset: str) -> dict[str, Finding]:
    every, found = table(preset), {}
    corpus = runs(preset)[1_000].text.corpus
    for name, own in every[every["step"] > 0].groupby("name"):
        nulls = {"identity": float(own["identity"].mean())}
        better = own[["eigen", "fft"]].max(axis=1).to_numpy()
        found[f"cosine_{name}"] = models.of_cosines(better, nulls=nulls, corpus=corpus)
        found[f"score_{name}"] = models.of_cosines(own["score"].to_numpy(), corpus=corpus)
    alone = table_of(formula_cells(preset)[-1]).iloc[0]
    return found | {
        "clamped_15000": findings.exact(float(alone["clamped"]), corpus=corpus),
        "listings_15000": findings.exact(float(alone["listings"]), corpus=corpus),
    }


STUDIES: dict[str, Study] = {"kernel.open_scale": Study(cells, _open_scale)}
