"""Language models under the hammer: mean gradients against loops, GPT-2's names on a stand-in, findings."""

import sys
import types

import numpy as np
import pandas as pd
import pytest
import torch
from torch import Tensor, nn

from book.geometry.experiments import hammer_language as hammering
from book.geometry.experiments.hammer_language import (
    MLP,
    POSITIONS,
    TOKENS,
    Gpt2Run,
    Hammer,
    HammerRun,
    hammer_gpt2,
    hammer_language,
    mean_gradients,
    parts_of,
    regularities,
    strike_gpt2,
)
from book.geometry.experiments.steering_language import Setting
from embviz import ledger
from embviz.corpora import bytepairs
from embviz.corpora import corpus as corpora
from embviz.ledger import cells
from embviz.models.transformer import Transformer, TransformerConfig
from embviz.training.language import TextConfig, load_streams, make_stream

DOCUMENTS = [f"The cat number {n} sat on mat {n * n}. Then it slept{'!' * n}" for n in range(12)]
TEXT = TextConfig("embedded", held_out_every=3)
HAMMER = Hammer(n_documents=3, n_rows=16, top=3)
RUN = HammerRun(TEXT, setting=Setting(8, 2, 2, 24, 16, 4, 6, 1e-2), hammer=HAMMER)


pytestmark = pytest.mark.usefixtures("one_thread")


@pytest.fixture(autouse=True)
def made_text(monkeypatch):
    monkeypatch.setattr(corpora, "load_text", lambda name, *, part=None: "<|endoftext|>".join(DOCUMENTS))
    load_streams.cache_clear()
    yield
    load_streams.cache_clear()


def small_model(tied: bool = True) -> Transformer:
    return Transformer(TransformerConfig(256, 16, 8, 2, 2, 24, tied=tied), seed=0)


class StandIn(nn.Module):
    """GPT-2's parameter names on a model without attention; weights of c_proj are (hidden, D)."""

    def __init__(self, n_symbols: int = 300, length: int = 24, dim: int = 6) -> None:
        super().__init__()
        generator = torch.Generator().manual_seed(0)

        def array(*shape: int) -> nn.Module:
            holder = nn.Module()
            holder.weight = nn.Parameter(torch.randn(shape, generator=generator))
            return holder

        def layer() -> nn.Module:
            return nn.ModuleDict({"mlp": nn.ModuleDict({"c_fc": array(dim, 40), "c_proj": array(40, dim)})})

        tables = {"wte": array(n_symbols, dim), "wpe": array(length, dim)}
        self.transformer = nn.ModuleDict({**tables, "h": nn.ModuleList(layer() for _ in range(2))})
        self.lm_head = nn.Linear(dim, n_symbols, bias=False)
        self.lm_head.weight = self.transformer["wte"].weight

    def forward(self, tokens: Tensor) -> types.SimpleNamespace:
        body = self.transformer
        x = body["wte"].weight[tokens] + body["wpe"].weight[: tokens.shape[1]]
        for layer in body["h"]:
            x = x + torch.relu(x @ layer["mlp"]["c_fc"].weight) @ layer["mlp"]["c_proj"].weight
        return types.SimpleNamespace(logits=self.lm_head(x))


@pytest.fixture
def gpt2(monkeypatch) -> StandIn:
    """The stand-in behind `transformers`, and 300 byte pairs for GPT-2's vocabulary."""
    model, asked = StandIn(), []

    def from_pretrained(folder: str) -> StandIn:
        asked.append(folder)
        return model

    fake = types.ModuleType("transformers")
    fake.GPT2LMHeadModel = types.SimpleNamespace(from_pretrained=from_pretrained)
    monkeypatch.setitem(sys.modules, "transformers", fake)
    pairs = bytepairs.train_byte_pairs(" ".join(DOCUMENTS), vocab_size=300, min_count=1)
    monkeypatch.setattr(bytepairs, "load_gpt2", lambda: pairs)
    model.asked = asked
    return model


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


def test_long_axes_are_struck_twice_and_short_ones_once():
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


def test_striking_leaves_the_models_gradients_alone():
    model = small_model()
    HAMMER.strike(model, model, make_stream(DOCUMENTS), parts_of(model))
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


# --- GPT-2 ------------------------------------------------------------------------------------------


def test_gpt2_is_struck_by_its_own_names_and_axes(gpt2):
    table = strike_gpt2("a folder", DOCUMENTS, hammer=HAMMER)
    assert gpt2.asked == ["a folder"]
    assert not gpt2.training
    rows = {POSITIONS: [16, 24], MLP: [16, 40, 16, 40], TOKENS: [16, 300]}
    assert table.groupby("role")["rows"].apply(list).to_dict() == rows
    assert table["tensor"].iloc[2] == "transformer.h.0.mlp.c_proj.weight"
    assert table["regularity"].between(table["flat"], 1).all()


def test_without_transformers_the_message_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "transformers", None)
    with pytest.raises(ImportError, match=r'pip install "embviz\[adapters\]"'):
        strike_gpt2("gpt2", DOCUMENTS)


def test_a_cell_of_gpt2_records_which_weights_it_struck(gpt2):
    run = Gpt2Run("here", TextConfig("embedded", "gpt2", held_out_every=3), HAMMER)
    first = hammer_gpt2.function(run).attrs["data"]
    with torch.no_grad():
        gpt2.transformer["wpe"].weight[0, 0] += 1
    second = hammer_gpt2.function(run).attrs["data"]
    assert first.keys() == second.keys() == {"embedded", "here"}
    assert first["embedded"] == second["embedded"]
    assert first["here"] != second["here"]


# --- cells and findings -----------------------------------------------------------------------------


def test_a_cell_strikes_before_and_after_training():
    table = hammer_language.function(RUN)
    assert table["moment"].unique().tolist() == ["start", "trained"]
    assert table.groupby("moment", sort=False)["bits_per_character"].first().is_monotonic_decreasing
    streams = load_streams(TEXT)
    shape = TransformerConfig(256, 16, 8, 2, 2, 24, tied=True, start="small")
    model = Transformer(shape, seed=0)
    fresh = HAMMER.strike(model, model, streams.held_out, parts_of(model))
    at_start = table[table["moment"] == "start"].drop(columns=["moment", "bits_per_character"])
    pd.testing.assert_frame_equal(fresh, at_start, check_exact=True)


def test_only_the_paper_preset_asks_for_gpt2():
    assert all(cell.experiment is hammer_language for cell in hammering.hammer_cells("laptop"))
    assert hammering.hammer_cells("paper")[-1].experiment is hammer_gpt2
    keys = [cell.key for preset in ("quick", "laptop", "paper") for cell in hammering.hammer_cells(preset)]
    assert len(set(keys)) == len(keys)


def made_cells(monkeypatch) -> None:
    """Once trained: positions 0.8, MLPs 0.4 and 0.6, tokens 0.3; permuted 0.2, 0.3, 0.25."""
    rows = {
        "role": [POSITIONS, MLP, MLP, TOKENS, TOKENS],
        "rows": [16, 16, 16, 16, 10_000],
        "regularity": [0.8, 0.4, 0.6, 0.3, 0.9],
        "permuted": [0.2, 0.3, 0.3, 0.25, 0.7],
    }
    trained = pd.DataFrame(rows).assign(moment="trained")

    def stored(cell: cells.Cell) -> tuple[pd.DataFrame, dict]:
        if cell.experiment is hammer_gpt2:
            return trained.drop(columns="moment"), {}
        off = 0.01 * cell.config.seed
        shift = trained.assign(regularity=trained["regularity"] + off * (trained["role"] == POSITIONS))
        return pd.concat([trained.assign(regularity=0.1, moment="start"), shift], ignore_index=True), {}

    monkeypatch.setattr(hammering, "read", stored)


def test_findings_compare_what_first_rows_exceed_permuted_ones_by(monkeypatch):
    made_cells(monkeypatch)
    study = hammering.STUDIES["geometry.hammer_gpt2"]
    found = study.findings("laptop")
    assert found["positions_excess_trained"].value == pytest.approx(0.8 - 0.2 + 0.01 - (0.5 - 0.3))
    assert found["mlp_excess_trained"].value == pytest.approx(0.5 - 0.3 - (0.3 - 0.25))
    assert found["positions_excess_trained"].n_seeds == 3
    # before training all regularities are 0.1 here
    assert found["positions_excess"].value == pytest.approx(0.3 - 0.2)
    assert found["mlp_excess"].value == pytest.approx(0.25 - 0.3)
    assert found["mlp_excess"].n_seeds == 5
    judged = {run.seed for run in hammering.start_runs("laptop")}
    assert judged.isdisjoint(run.seed for run in hammering.hammer_runs("laptop"))
    paper = study.measure("paper")
    assert {*paper, *found} == ledger.find_claim("geometry.hammer_gpt2").finding_names
    assert [paper[name].value for name in ("wpe", "mlp", "wte")] == pytest.approx([0.8, 0.5, 0.3])


def test_the_table_of_regularities_tells_readings_apart(monkeypatch):
    made_cells(monkeypatch)
    table = regularities("laptop")
    assert table.groupby("reading")["rows"].unique().to_dict() == {"first rows": [16], "whole axis": [10_000]}
    assert table.groupby("seed").size().to_dict() == {0: 10, 1: 10, 2: 10}
