"""The Sounding Hammer as its chapter shows it: the modes that strikes share, and films."""

import numpy as np
import pandas as pd
import pytest
import torch

from book.geometry.experiments import hammer_modular, soundings
from book.geometry.experiments.grokking import GrokkingRun, Members
from book.geometry.modular import ModularArithmetic
from embviz.models.transformer import Transformer

pytestmark = pytest.mark.usefixtures("one_thread")

N_MODES = 11
USED = (2, 3, 5, 7, 11)  # modes that the made-up embeddings end with
NAMED = ((2, 4, 6, 8, 10), (1, 4, 6, 8, 9))  # by the gradients before training, one row per seed
FRAMES = (0, 2, 4)


def peaks(modes, *, height: float = 10.0) -> np.ndarray:
    """Powers of modes 0 to 11: `modes` in falling order, all others 1, and much in mode 0."""
    power = np.ones(N_MODES + 1)
    power[0] = 500
    power[list(modes)] = height + np.arange(len(modes), 0, -1)
    return power


def made_strikes(named) -> pd.DataFrame:
    rows = []
    for number, moment in enumerate(hammer_modular.MOMENTS):
        gradient = named if moment == "start" else USED
        quantities = {"gradient": peaks(gradient), "permuted": peaks(named), "embedding": peaks(USED)}
        rows += [
            (moment, name, mode, float(value))
            for name, powers in quantities.items()
            for mode, value in enumerate(powers)
        ]
        single = {"regularity": 0.5, "flat": 0.4, "noise": 0.45, "z": 1.5, "epoch": 7 * number}
        rows += [(moment, name, -1, float(value)) for name, value in single.items()]
    return pd.DataFrame(rows, columns=["moment", "quantity", "mode", "value"])


def made_film() -> pd.DataFrame:
    parts = []
    for frame in FRAMES:
        gradient, embedding = peaks(USED if frame else NAMED[0]), peaks(USED)
        part = {
            "frame": frame,
            "mode": np.arange(N_MODES + 1, dtype=np.int16),
            "gradient": gradient / gradient.sum(),
            "embedding": embedding / embedding.sum(),
            "training": np.float32(frame / 4),
            "validation": np.float32(0.5),
        }
        parts.append(pd.DataFrame(part))
    return pd.concat(parts, ignore_index=True)


def test_the_strike_on_the_page_is_that_of_the_stored_runs():
    run = GrokkingRun(p=11)
    task = ModularArithmetic(p=11)
    model, seen = Transformer(run.shape, seed=3), task.split(3)[0]
    logits = model.last(torch.tensor(task.strings())[seen])
    loss = torch.nn.functional.cross_entropy(logits, torch.tensor(task.answers())[seen])
    (gradient,) = torch.autograd.grad(loss, [model.embedding])
    members = Members(run, [3])
    members.scores(members.train)[0].sum().backward()
    # two float32 computations that add the pairs up in another order
    torch.testing.assert_close(gradient, members.embedding_gradients()[0], rtol=1e-3, atol=1e-6)


def spectra_of_seeds() -> pd.DataFrame:
    parts = [made_strikes(named).assign(start="small start", seed=seed) for seed, named in enumerate(NAMED)]
    return hammer_modular.struck_spectra(pd.concat(parts, ignore_index=True))


def test_modes_are_ranked_without_mode_0_and_marked_if_the_trained_embedding_uses_them():
    table = spectra_of_seeds()
    assert table["mode"].min() == 1
    sums = table.groupby(["start", "seed", "moment", "spectrum"])["power_share"].sum()
    np.testing.assert_allclose(sums, 1)
    assert len(sums) == 2 * 3 * 3
    assert set(table.loc[table["used"], "mode"]) == set(USED)
    first = table[table["rank"] == 0].set_index(["seed", "moment", "spectrum"])["mode"]
    assert first[0, "before training", "gradient"] == 2
    assert first[1, "before training", "gradient, rows permuted"] == 1


def test_shared_modes_are_those_that_the_claim_counts():
    table = spectra_of_seeds()
    shared = table[table["rank"] < 5].groupby(["spectrum", "moment", "seed"])["used"].sum()
    counted = hammer_modular.shared_before([made_strikes(named) for named in NAMED])
    for quantity, spectrum in hammer_modular.SPECTRA.items():
        assert shared[spectrum, "before training"].tolist() == counted[quantity].tolist()
    assert shared["gradient", "before training"].tolist() == [1, 0]
    assert shared["gradient", "memorized"].tolist() == [5, 5]


def test_films_leave_out_mode_0_and_count_what_both_spectra_share():
    frames = soundings.filmed(made_film())
    assert frames["mode"].min() == 1
    np.testing.assert_allclose(frames.groupby("frame")[["gradient", "embedding"]].sum(), 1)
    assert frames.groupby("frame")["shared"].first().to_dict() == {0: 1, 2: 5, 4: 5}
    strong = frames[frames["strong"] == soundings.BOTH]
    assert set(strong.loc[strong["frame"] == 0, "mode"]) == {2}
    assert set(strong.loc[strong["frame"] == 4, "mode"]) == set(USED)


def test_a_live_run_gives_what_the_recording_has():
    live = soundings.live_frames(p=9, train_share=0.6, weight_decay=1.0, seed=3)
    first, second = next(live), next(live)
    assert set(soundings.filmed(made_film()).columns) == set(first.columns)
    assert first["frame"].unique().tolist() == [0]
    assert second["frame"].unique().tolist() == [1]
    assert "9 is not prime" in first.attrs["note"]
    assert not next(soundings.live_frames(p=7, train_share=0.6, weight_decay=1.0, seed=3)).attrs["note"]
