"""Films of grokking: what a picture shows of an embedding, and which epochs a film has."""

import dataclasses

import numpy as np
import pytest

from book.geometry.experiments import films
from book.geometry.experiments.grokking import Frame, GrokkingRun


def made_frame(embedding: np.ndarray, **changes) -> Frame:
    return dataclasses.replace(Frame(0, 3, 12, 0.5, 2.0, None, None, embedding.astype(np.float32)), **changes)


def on_circles(p: int, amplitudes: dict[int, float], *, dim: int = 16, seed: int = 0) -> np.ndarray:
    """An embedding made of circles: modes and their radii, in random planes."""
    rng = np.random.default_rng(seed)
    total = np.zeros((p, dim))
    for mode, radius in amplitudes.items():
        plane = np.linalg.qr(rng.normal(size=(dim, 2)))[0].T
        angles = 2 * np.pi * mode * np.arange(p) / p
        total += radius * np.stack([np.cos(angles), np.sin(angles)], axis=1) @ plane
    return total


def test_a_picture_of_circles_has_their_modes_powers_and_places():
    p = 23
    table = films.picture(
        made_frame(on_circles(p, {7: 1.0, 3: 2.0, 11: 0.5})), GrokkingRun(p=p, modes=(3, 7))
    )
    bars = table[table["rank"] == -1].set_index("place")["v"] / films.SHARES
    assert len(bars) == p // 2 + 1
    # power goes with the squared radius, to a whole ten-thousandth
    assert bars[[3, 7, 11]].tolist() == pytest.approx([4 / 5.25, 1 / 5.25, 0.25 / 5.25], abs=2e-4)
    assert table.loc[0, ["mode_0", "mode_1", "mode_2"]].tolist() == [3, 7, 11]
    points = table[table["rank"] == 0]
    angles = np.arctan2(points["v"], points["u"])
    turn = np.angle(np.exp(1j * (angles - 2 * np.pi * 3 * points["place"] / p)))
    # planes overlap a little, and places are whole numbers out of 45
    assert np.abs(turn - turn.mean()).max() < 0.6
    assert (table["validation_accuracy"] == -1).all()
    assert set(table["kept"]) == {"3 7"}


def test_powers_of_a_root_turn_products_into_sums():
    p = 23
    powers = films.powers_of_a_root(p)
    assert sorted(powers) == list(range(1, p))
    place = {int(residue): index for index, residue in enumerate(powers)}
    for a in range(1, p):
        for b in range(1, p):
            assert place[a * b % p] == (place[a] + place[b]) % (p - 1)
    with pytest.raises(ValueError, match="p = 15 is not prime"):
        films.powers_of_a_root(15)


def test_in_the_order_of_powers_a_circle_of_powers_shows_as_one_mode():
    p = 23
    embedding = np.zeros((p, 16))
    embedding[films.powers_of_a_root(p)] = on_circles(p - 1, {4: 1.0})
    run = GrokkingRun(p=p, op="*")
    by_powers = films.picture(made_frame(embedding), run, by_powers=True)
    natural = films.picture(made_frame(embedding), run)
    assert by_powers.loc[by_powers["v"].idxmax(), "place"] == 4
    assert by_powers.loc[0, "n_places"] == p - 1
    assert natural.loc[natural["rank"] == -1, "v"].max() < films.SHARES / 2
