"""Soundings: what the hammer hears of every tensor of a model, of many models at the start, and along a run.

Kept as spectra, to be looked at where nobody trains.
"""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from book.geometry.experiments.films import LAST, SETTING, film_epochs, is_prime
from book.geometry.experiments.grokking import MEMORIZED, Frame, GrokkingRun, Members
from book.geometry.experiments.hammer_language import (
    TRAINED,
    HammerRun,
    byte_runs,
    hammer_runs,
    mean_gradients,
    train_and_visit,
)
from book.geometry.experiments.hammer_modular import END, MEMORY, MOMENT_NAMES, START, TOP, ranked
from book.geometry.experiments.steering import BASE, NEAR, at_preset
from embviz.ledger.cells import Cell, experiment, read
from embviz.training.fourier import noise_share, power_spectrum

N_ROWS = 512  # of each axis, the first ones
N_PERMUTATIONS = 100
MODULAR, PAIRS, BYTES = MODELS = ("(a + b) mod p", "byte pairs", "bytes")
COLUMNS = ["tensor", "dim", "rows", "mode", "power", "permuted", "null", "null_sd", "noise"]
SMALL = {"dim": np.int8, "rows": np.int16, "mode": np.int16}


@dataclass(frozen=True)
class Soundings:
    """A grokking run of one seed: every tensor is measured at the start, once memorized, and at the end."""

    run: GrokkingRun
    n_permutations: int = N_PERMUTATIONS


@dataclass(frozen=True)
class LanguageSoundings:
    """A language model of which every tensor is measured before and after it is trained."""

    run: HammerRun
    n_permutations: int = N_PERMUTATIONS


@dataclass(frozen=True)
class Starts:
    """Models of many seeds, measured before any is trained."""

    run: GrokkingRun
    n_seeds: int = 200


@dataclass(frozen=True)
class HammerFilm:
    """One run, its embedding measured again and again; its seed is the run's first."""

    run: GrokkingRun


# --- spectra ----------------------------------------------------------------------------------------


def spectra(gradients: Mapping[str, Tensor], *, n_rows: int = N_ROWS, n_permutations: int) -> pd.DataFrame:
    """Spectra of matrices along both axes, with their baselines.

    Parameters
    ----------
    gradients : mapping of name to Tensor
        Those with two axes are taken, if not zero.
    n_rows : int
        Of each axis, the first ones.
    n_permutations : int
        Random orders of the rows, from a seed of their own.

    Returns
    -------
    DataFrame
        tensor, dim, rows; one row per mode: `mode`, and its share of the `power`; `permuted`, likewise with
        the rows in one random order. By rank, which is mode + 1: `null` and `null_sd`, mean and standard
        deviation over the orders of the share of the `rank` strongest modes; `noise`, that share in white
        noise.
    """
    parts = []
    for name, gradient in gradients.items():
        for dim in range(2) if gradient.ndim == 2 and bool(gradient.any()) else ():
            part = _spectrum(gradient.movedim(dim, 0)[:n_rows], n_permutations)
            parts.append(part.assign(tensor=name, dim=dim, rows=min(n_rows, gradient.shape[dim])))
    return pd.concat(parts, ignore_index=True)[COLUMNS].astype(SMALL)


def _spectrum(rows: Tensor, n_permutations: int) -> pd.DataFrame:
    rng = np.random.default_rng(0)
    rows = rows.detach().double() / rows.abs().max()
    orders = (torch.from_numpy(rng.permutation(len(rows))) for _ in range(n_permutations))
    permuted = np.stack([_shares(rows[order]) for order in orders])  # (orders, modes)
    strongest = np.cumsum(-np.sort(-permuted, axis=1), axis=1)
    power = _shares(rows)
    noise = [noise_share(len(power), rows.shape[1], top + 1) for top in range(len(power))]
    columns = {
        "power": power,
        "permuted": permuted[0],
        "null": strongest.mean(axis=0),
        "null_sd": strongest.std(axis=0, ddof=1),
        "noise": noise,
    }
    table = pd.DataFrame({name: np.asarray(values, np.float32) for name, values in columns.items()})
    return table.assign(mode=range(len(power)))


def _shares(rows: Tensor) -> np.ndarray:
    power = power_spectrum(rows).astype(float)
    shares: np.ndarray = power / power.sum()
    return shares


# --- modular arithmetic -----------------------------------------------------------------------------


def gradients_now(members: Members) -> dict[str, Tensor]:
    """Gradients of the loss over all training pairs; neither weights nor optimizer change.

    Rows of the embeddings are the residues, without "=".
    """
    members.model.zero_grad(set_to_none=True)
    loss, _ = members.scores(members.train)
    loss.sum().backward()
    p, found = members.config.p, {}
    for name, parameter in members.model.named_parameters():
        if parameter.grad is not None:
            whole = name not in ("embedding", "free_head")
            found[name] = parameter.grad.clone() if whole else parameter.grad[:p].clone()
    members.model.zero_grad(set_to_none=True)
    return found


def _lone(run: GrokkingRun, seed: int | None = None) -> Members:
    """A member by itself, on the CPU, whose parameters have a transformer's own names."""
    return Members(run, [run.first_seed if seed is None else seed])


@experiment("geometry.soundings")
def soundings(config: Soundings) -> pd.DataFrame:
    """Train, and measure every tensor at three moments: `moment`, `epoch`, and columns of :func:`spectra`."""
    members = _lone(config.run)
    parts: list[pd.DataFrame] = []

    def strike(moment: str, epoch: int) -> None:
        table = spectra(gradients_now(members), n_permutations=config.n_permutations)
        table.insert(0, "epoch", epoch)
        table.insert(0, "moment", moment)
        parts.append(table)

    memorized = False
    for epoch in range(config.run.n_epochs + 1):
        frame = next(iter(members.frames(epoch)))
        if epoch == 0:
            strike(START, epoch)
        elif not memorized and frame.train_accuracy >= MEMORIZED:
            memorized = True
            strike(MEMORY, epoch)
        if not members.going:
            break
    strike(END, epoch)
    return pd.concat(parts, ignore_index=True)


@experiment("geometry.start_soundings")
def starts(config: Starts) -> pd.DataFrame:
    """Power of the gradient of the residues' embedding before training: seed, mode, power (a share)."""
    parts = []
    for seed in range(config.n_seeds):
        shares = _shares(gradients_now(_lone(config.run, seed))["embedding"])
        columns = {"seed": seed, "mode": range(len(shares)), "power": shares}
        parts.append(pd.DataFrame(columns))
    return pd.concat(parts, ignore_index=True).astype(
        {"seed": np.int16, "mode": np.int16, "power": np.float32}
    )


def picture(frame: Frame, members: Members) -> pd.DataFrame:
    """What the hammer hears after an epoch.

    Returns
    -------
    DataFrame
        `frame`, the epoch; a row a `mode`: shares of power of the residues' embedding, `embedding`, and of
        its `gradient` over all training pairs; in each row both accuracies, `training` and `validation`.
    """
    with torch.no_grad():
        _, right = members.scores(members.validation)
    gradient = _shares(gradients_now(members)["embedding"])
    columns: dict[str, object] = {
        "frame": frame.epoch,
        "mode": np.arange(len(gradient), dtype=np.int16),
        "gradient": gradient.astype(np.float32),
        "embedding": _shares(torch.from_numpy(frame.embedding)).astype(np.float32),
        "training": np.float32(frame.train_accuracy),
        "validation": np.float32(right.item()),
    }
    return pd.DataFrame(columns)


def film_frames(run: GrokkingRun, shown: Container[int]) -> Iterator[pd.DataFrame]:
    """Train, and yield a :func:`picture` after each epoch that is to be shown, number 0 before any."""
    members = _lone(run)
    for epoch in range(run.n_epochs + 1):
        members.going = {run.first_seed}  # a film goes on where a run would stop
        (frame,) = members.frames(epoch)
        if epoch in shown:
            yield picture(frame, members)


@experiment("geometry.hammer_film")
def hammer_film(config: HammerFilm) -> pd.DataFrame:
    """Pictures of a run at the epochs of a film."""
    shown = film_epochs(config.run.n_epochs)
    return pd.concat(list(film_frames(config.run, shown)), ignore_index=True)


# --- language ---------------------------------------------------------------------------------------


@experiment("geometry.language_soundings")
def language_soundings(config: LanguageSoundings) -> pd.DataFrame:
    """Train, and measure every tensor before and after: `moment`, and the columns of :func:`spectra`."""
    hammer, parts = config.run.hammer, []
    for moment, model, streams, _ in train_and_visit(config.run):
        names = [name for name, parameter in model.named_parameters() if parameter.ndim == 2]
        device = model.embedding.device
        means = mean_gradients(model, hammer.losses(model, streams.held_out, device), names)
        gradients = {name: mean.cpu() for name, mean in zip(names, means, strict=True)}
        table = spectra(gradients, n_rows=hammer.n_rows, n_permutations=config.n_permutations)
        table.insert(0, "moment", moment)
        parts.append(table)
    table = pd.concat(parts, ignore_index=True)
    table.attrs["data"] = {config.run.text.corpus: streams.checksum}
    return table


# --- cells ------------------------------------------------------------------------------------------


def modular_run(preset: str, seed: int = 0) -> GrokkingRun:
    """The plain run in batches, which groks in minutes; at `quick` of a small modulus."""
    return at_preset(BASE, "quick" if preset == "quick" else "laptop", seed)


def film_runs(preset: str) -> dict[str, GrokkingRun]:
    """Runs that are filmed, by what a reader calls them."""
    films = {f"plain, seed {seed}": modular_run(preset, seed) for seed in range(3)}
    films["near-Nyquist, seed 0"] = at_preset(NEAR, "quick" if preset == "quick" else "laptop", 0)
    return {name: replace(run, n_epochs=min(run.n_epochs, LAST)) for name, run in films.items()}


def start_run(preset: str) -> Starts:
    """Many seeds before training."""
    return Starts(modular_run(preset), 12 if preset == "quick" else 200)


def sounding_cells(preset: str) -> dict[str, Cell]:
    """Cells with the spectra of every tensor, by model."""
    few = 10 if preset == "quick" else N_PERMUTATIONS
    return {
        MODULAR: soundings.cell(Soundings(modular_run(preset), few)),
        PAIRS: language_soundings.cell(LanguageSoundings(hammer_runs(preset)[0], few)),
        BYTES: language_soundings.cell(LanguageSoundings(byte_runs(preset)[0], few)),
    }


def film_cells(preset: str) -> dict[str, Cell]:
    """Cells with a film, by run."""
    return {name: hammer_film.cell(HammerFilm(run)) for name, run in film_runs(preset).items()}


# --- what the chapter shows -------------------------------------------------------------------------

LIMIT = 300  # epochs of a live run
SIDES = ("gradient", "embedding")  # of a film
BOTH = "5 strongest of both"
TENSORS = {
    "embedding": "embedding",
    "free_head": "output embedding",
    "position": "positions",
    **{
        f"blocks.{layer}.{inner}.weight": f"layer {layer + 1}, {words}"
        for layer in range(2)
        for inner, words in {
            "attention.query": "query",
            "attention.key": "key",
            "attention.value": "value",
            "attention.out": "attention's way out",
            "up": "MLP's way in",
            "down": "MLP's way out",
        }.items()
    },
}
AXES = {0: "rows", 1: "columns"}


def recorded_frames(preset: str) -> pd.DataFrame:
    """Stored films for a player, by `run`, as :func:`filmed` has them."""
    return pd.concat([filmed(read(cell)[0]).assign(run=name) for name, cell in film_cells(preset).items()])


def filmed(table: pd.DataFrame) -> pd.DataFrame:
    """A film without mode 0.

    Returns
    -------
    DataFrame
        frame (epochs), mode, gradient and embedding (shares of power without mode 0), strong: BOTH for modes
        among the `TOP` strongest of both in this frame, shared: how many these are, and training and
        validation accuracy.
    """
    table = table.astype({name: float for name in (*SIDES, "training", "validation")})
    ranks = {name: ranked(table, ["frame"], name) for name in SIDES}
    both = (ranks["gradient"]["rank"] < TOP) & (ranks["embedding"]["rank"] < TOP)
    shares = {name: own[name] for name, own in ranks.items()}
    table = table[table["mode"] > 0].assign(**shares, strong=np.where(both, BOTH, "other modes"))
    return table.assign(shared=both.groupby(table["frame"]).transform("sum").astype(int))


def live_frames(p: int, train_share: float, weight_decay: float, seed: int) -> Iterator[pd.DataFrame]:
    """Train in this kernel, and measure after each epoch; frames as :func:`filmed` has them, with a note."""
    setting = replace(SETTING, batch_size=512 if p > 50 else 64, weight_decay=weight_decay)
    run = GrokkingRun(p=p, train_share=train_share, n_epochs=LIMIT, first_seed=seed, setting=setting)
    for frame in film_frames(run, range(LIMIT + 1)):
        table = filmed(frame)
        table.attrs["note"] = "" if is_prime(p) else f"p = {p} is not prime: some waves take few values."
        yield table


def stored_spectra(preset: str) -> pd.DataFrame:
    """Spectra of every tensor of one model each, along both axes, before, while and after it was trained.

    Returns
    -------
    DataFrame
        model, moment, tensor (with its axis), and the columns of :func:`spectra` from mode on.
    """
    cells = sounding_cells(preset)
    table = pd.concat([read(cell)[0].assign(model=model) for model, cell in cells.items()], ignore_index=True)
    table = table[table["tensor"].isin(TENSORS)]
    table["tensor"] = table["tensor"].map(TENSORS) + ", " + table["dim"].map(AXES)
    columns = ["model", "moment", "tensor", "mode", "power", "permuted", "null", "null_sd", "noise"]
    return table[columns].replace({"moment": {**MOMENT_NAMES, TRAINED: MOMENT_NAMES[END]}})
