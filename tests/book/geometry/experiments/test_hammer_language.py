"""Language models under the hammer: mean gradients against loops, what a cell records, findings."""

from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
import torch
from torch import nn

from book.geometry.experiments import hammer_language as hammering
from book.geometry.experiments.hammer_language import (
    MLP,
    POSITIONS,
    TOKENS,
    Hammer,
    mean_gradients,
    parts_of,
)
from book.language import make_stream
from book.transformer import Transformer, TransformerConfig
from tests.book.geometry.conftest import DOCUMENTS

HAMMER = Hammer(n_documents=3, n_rows=16, top=3)

pytestmark = pytest.mark.usefixtures("made_text")


def small_model(tied: bool = True) -> Transformer:
    return Transformer(TransformerConfig(256, 16, 8, 2, 2, 24, tied=tied), seed=0)


# --- striking ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("tied", [True, False])
def test_regularities_are_those_of_a_loop_over_documents_and_modes(tied):
    model, stream = small_model(tied), make_stream(DOCUMENTS)
    found = HAMMER.strike(model, model, stream, parts_of(model)).set_index(["tensor", "rows"])
    for document in list(stream.documents())[:3]:
        tokens = torch.from_numpy(document[:17].astype(np.int64))
        log = model(tokens[None, :-1])[0].log_softmax(1)
        (-sum(log[i, tokens[i + 1]] for i in range(16)) / 16 / 3).backward()
    gradients = dict(model.named_parameters())
    for name, dim in (("position", 0), ("blocks.0.down.weight", 1), ("embedding", 0)):
        gradient = gradients[name].grad.movedim(dim, 0)[:16].double()
        power = [
            sum(
                abs(sum(gradient[n, d] * np.exp(-2j * np.pi * k * n / 16) for n in range(16))) ** 2
                for d in range(8)
            )
            for k in range(9)
        ]
        share = sum(sorted(power)[-3:]) / sum(power)
        # gradients are float32
        assert found.loc[(name, 16), "regularity"] == pytest.approx(float(share), rel=1e-4)
        assert found.loc[(name, 16), "flat"] == pytest.approx(3 / 9)


def test_long_axes_are_struck_twice_short_ones_once_and_gradients_of_the_model_stay_as_they_are():
    model = small_model()
    table = HAMMER.strike(model, model, make_stream(DOCUMENTS), parts_of(model))
    rows = table.groupby("tensor")["rows"].apply(list).to_dict()
    assert rows == {
        "position": [16],
        "blocks.0.down.weight": [16, 24],
        "blocks.1.down.weight": [16, 24],
        "embedding": [16, 256],
    }
    assert set(table["role"]) == {POSITIONS, MLP, TOKENS}
    assert table["modes"].str.split().str.len().tolist() == [3] * 7
    assert all(parameter.grad is None for parameter in model.parameters())


def test_every_document_weighs_the_same_and_only_the_first_are_used():
    model, stream = small_model(), make_stream(DOCUMENTS)
    struck, few = (HAMMER.strike(model, model, s, parts_of(model)) for s in (stream, stream.head(3)))
    pd.testing.assert_frame_equal(struck, few)
    one, other = (torch.tensor(value, requires_grad=True) for value in (2.0, 3.0))
    holder = nn.ParameterDict({"one": one, "other": other})
    losses = [holder["one"] * 6 + holder["other"], holder["one"] * 0 + holder["other"] * 3]
    assert [float(mean) for mean in mean_gradients(holder, losses, ["one", "other"])] == [3.0, 2.0]


def test_what_cannot_be_struck_is_named():
    model = small_model()
    with pytest.raises(ValueError, match="no parameter is called wpe; there are embedding"):
        mean_gradients(model, [], ["wpe"])
    with pytest.raises(ValueError, match="no document to compute a gradient from"):
        mean_gradients(model, [], ["embedding"])


def test_the_spread_of_permuted_rows_is_that_of_a_sample(monkeypatch):
    heard = SimpleNamespace(permuted=np.array([1.0, 2.0, 6.0]), regularity=0, flat=0, noise=0, modes=[1])
    monkeypatch.setattr(hammering, "sound", lambda *_, **__: heard)
    model = small_model()
    table = HAMMER.strike(model, model, make_stream(DOCUMENTS), parts_of(model))
    assert table["permuted_sd"].to_numpy() == pytest.approx(np.sqrt(7))
