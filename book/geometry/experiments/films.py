"""Films of grokking: pictures of one run along the way, to be played where nobody trains.

The same pictures are drawn from a run that trains while the reader watches.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd
import torch

from book.geometry.experiments.grokking import Frame, GrokkingRun, Members, Setting, circle
from book.ledger.cells import Cell, experiment, read
from embviz.training.fourier import power_spectrum

N_CIRCLES = 3
SHARES = 10_000  # power shares are whole ten-thousandths
RMS = 45  # of a circle's coordinates, which are whole numbers up to 100: few bytes in a page
NOT_MEASURED = -1.0  # a validation that was not due
SCORES = ("train_accuracy", "train_loss", "validation_accuracy", "validation_loss")
LAST = 200  # epochs of a film
STEPS = ((30, 2), (80, 5), (LAST, 10))  # up to which epoch they are shown how far apart


@dataclass(frozen=True)
class Film:
    """One run's pictures at the epochs of :func:`film_epochs`; its seed is the run's first."""

    run: GrokkingRun
    by_powers: bool = False  # residues in the order of a primitive root's powers, without 0


SETTING = Setting(batch_size=512)  # groks in seconds
NEAR, LOW = (30, 35, 40, 45, 48), (6, 7, 11, 19, 20)
RUNS = {
    "near-Nyquist": GrokkingRun(modes=NEAR, setting=SETTING),
    "plain": GrokkingRun(setting=SETTING),
    "{1, 14, 41}": GrokkingRun(modes=(1, 14, 41), setting=SETTING),
    "{1, ..., 5}": GrokkingRun(modes=(1, 2, 3, 4, 5), setting=SETTING),
    "near-Nyquist, residues renamed": GrokkingRun(modes=LOW, setting=SETTING),
    "plain, no weight decay": GrokkingRun(setting=replace(SETTING, weight_decay=0.0)),
}
FILMS = {name: Film(replace(run, n_epochs=LAST)) for name, run in RUNS.items()}
OPERATIONS = {
    "a - b": Film(replace(RUNS["plain"], op="-", n_epochs=LAST)),
    "a · b": Film(replace(RUNS["plain"], op="*", n_epochs=LAST)),
    "a · b, in the order of powers": Film(replace(RUNS["plain"], op="*", n_epochs=LAST), by_powers=True),
}


def film_epochs(n_epochs: int) -> list[int]:
    """Epochs that a film shows: every second one at first, then every fifth, then every tenth."""
    shown, start = [0], 0
    for stop, step in STEPS:
        shown += range(start + step, stop + 1, step)
        start = stop
    return [epoch for epoch in shown if epoch <= n_epochs]


def is_prime(n: int) -> bool:
    """Whether `n` is a prime number.

    >>> [n for n in range(12) if is_prime(n)]
    [2, 3, 5, 7, 11]
    """
    return n > 1 and all(n % d for d in range(2, int(n**0.5) + 1))


def powers_of_a_root(p: int) -> np.ndarray:
    """1, g, g², ... mod p for the least primitive root g: every residue but 0, once, (p - 1,).

    In this order a product of residues is a sum of places, by Fermat and Gauss.

    Raises
    ------
    ValueError
        If `p` is not prime: then products of residues other than 0 need not go around one circle.

    >>> powers_of_a_root(7).tolist()
    [1, 3, 2, 6, 4, 5]
    """
    if not is_prime(p):
        raise ValueError(f"p = {p} is not prime, so there may be no order of powers: choose a prime p")
    for root in range(1, p):
        powers = [pow(root, place, p) for place in range(p - 1)]
        if len(set(powers)) == p - 1:
            return np.array(powers)
    raise AssertionError("every prime has a primitive root")


def picture(frame: Frame, run: GrokkingRun, *, by_powers: bool = False) -> pd.DataFrame:
    """What a player shows of one epoch.

    Returns
    -------
    DataFrame
        `frame`, the epoch. `rank` -1: one row per mode, `place`, whose share of the embedding's power is `v`
        ten-thousandths. `rank` 0, 1, 2: one row per residue, `place`, at `u`, `v` of the plane of the
        strongest modes but 0, scaled to a root mean square radius of 45 and cut off at 100. In each row: the
        run's scores, -1 where a validation was not due; `kept`, the modes prescribed, as text; `n_places`;
        and the modes `mode_0` to `mode_2` of the planes.
    """
    embedding = frame.embedding[powers_of_a_root(run.p)] if by_powers else frame.embedding
    power = power_spectrum(torch.from_numpy(embedding)).astype(float)
    strongest = 1 + np.argsort(-power[1:], kind="stable")[:N_CIRCLES]
    n, n_modes = len(embedding), len(power)
    planes = np.concatenate([_scaled(circle(embedding, int(mode))) for mode in strongest])
    columns: dict[str, object] = {
        "frame": frame.epoch,
        "rank": np.repeat([-1, *range(len(strongest))], [n_modes] + [n] * len(strongest)),
        "place": np.concatenate([np.arange(n_modes), np.tile(np.arange(n), len(strongest))]),
        "u": np.concatenate([np.zeros(n_modes, dtype=int), planes[:, 0]]),
        "v": np.concatenate([np.rint(SHARES * power / power.sum()).astype(int), planes[:, 1]]),
    }
    for name in SCORES:
        value = getattr(frame, name)
        columns[name] = NOT_MEASURED if value is None else value
    columns |= {"kept": "" if by_powers else " ".join(map(str, run.modes)), "n_places": n}
    columns |= {f"mode_{rank}": int(mode) for rank, mode in enumerate(strongest)}
    return pd.DataFrame(columns)


def _scaled(points: np.ndarray) -> np.ndarray:
    centred = points - points.mean(axis=0)
    radius = float(np.sqrt((centred**2).sum(axis=1).mean())) or 1.0
    return np.rint(np.clip(RMS * centred / radius, -100, 100)).astype(int)


@experiment("geometry.grokking_film")
def grokking_film(config: Film) -> pd.DataFrame:
    """The pictures of a run, as :func:`picture` has them, validation measured in each."""
    shown = set(film_epochs(config.run.n_epochs))
    parts = []
    members = Members(config.run, [config.run.first_seed])
    for epoch in range(config.run.n_epochs + 1):
        members.going = {config.run.first_seed}
        (frame,) = members.frames(epoch)
        if epoch in shown:
            with torch.no_grad():
                loss, right = members.scores(members.validation)
            frame = replace(frame, validation_accuracy=right.item(), validation_loss=loss.item())
            parts.append(picture(frame, config.run, by_powers=config.by_powers))
    table = pd.concat(parts, ignore_index=True)
    small = {"rank": np.int8, "place": np.int16, "u": np.int16, "v": np.int16}
    return table.astype({**small, **dict.fromkeys(SCORES, np.float32)})


def film_cells(preset: str) -> list[Cell]:
    """One cell per film; the `quick` ones have a small modulus and a few epochs, to look at the machinery."""
    films = [*FILMS.values(), *OPERATIONS.values()]
    return [grokking_film.cell(at_preset(film, preset)) for film in films]


def at_preset(film: Film, preset: str) -> Film:
    """A film as far as a preset takes it."""
    if preset != "quick":
        return film
    modes = tuple(sorted({round(mode * 11 / 48) for mode in film.run.modes}))
    setting = replace(film.run.setting, batch_size=64, n_layers=1)
    small = replace(film.run, p=23, modes=modes, train_share=0.6, n_epochs=12, setting=setting)
    return replace(film, run=small)


def recorded_frames(chosen: Mapping[str, Film] = FILMS) -> pd.DataFrame:
    """Stored films for a player, by `run`."""
    parts = [read(grokking_film.cell(film))[0].assign(run=name) for name, film in chosen.items()]
    return pd.concat(parts, ignore_index=True)
