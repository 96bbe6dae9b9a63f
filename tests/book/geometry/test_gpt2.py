"""GPT-2 under the hammer: a small one from a folder, against PyTorch's autograd document by document."""

import copy

import numpy as np
import pytest
import torch

from book.geometry.experiments.hammer_language import (
    MLP,
    POSITIONS,
    TOKENS,
    Hammer,
    load_gpt2_model,
    strike_gpt2_model,
)
from book.language import make_stream, train_byte_pairs

DOCUMENTS = [f"The cat number {n} sat on mat {n * n}. Then it slept{'!' * n}" for n in range(6)]
N_SYMBOLS, LENGTH, DIM, N_HEADS, N_LAYERS = 300, 24, 32, 2, 2
HAMMER = Hammer(n_documents=4, n_rows=16, top=3)
PARTS = {
    "transformer.wpe.weight": POSITIONS,
    "transformer.h.0.mlp.c_proj.weight": MLP,
    "transformer.h.1.mlp.c_proj.weight": MLP,
    "transformer.wte.weight": TOKENS,
}


pytestmark = pytest.mark.usefixtures("one_thread")


@pytest.fixture(scope="module")
def pairs():
    """300 byte pairs for GPT-2's vocabulary."""
    return train_byte_pairs(" ".join(DOCUMENTS), vocab_size=N_SYMBOLS)


@pytest.fixture(scope="module")
def model():
    """GPT-2 with random weights, a mean and biases other than at the start, so that each of them matters."""
    transformers = pytest.importorskip("transformers")
    config = transformers.GPT2Config(
        vocab_size=N_SYMBOLS, n_positions=LENGTH, n_embd=DIM, n_layer=N_LAYERS, n_head=N_HEADS,
        bos_token_id=0, eos_token_id=0,
    )  # fmt: skip
    made = transformers.GPT2LMHeadModel(config)
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for parameter in made.parameters():
            parameter += 0.2 * torch.randn(parameter.shape, generator=generator)
    return made


@pytest.fixture
def struck(model, pairs, tmp_path):
    """A function that measures the model, read from a folder, with documents."""
    model.save_pretrained(tmp_path / "gpt2")

    def strike(documents=DOCUMENTS, hammer=HAMMER):
        return strike_gpt2_model(
            load_gpt2_model(str(tmp_path / "gpt2")), make_stream(documents, pairs), hammer
        )

    return strike


def mean_gradients(model, pairs) -> dict[str, np.ndarray]:
    """Of the parts, in float64: documents one by one, each as heavy as any other."""
    exact = copy.deepcopy(model).double().eval()
    losses = []
    end = pairs.token_to_id("<|endoftext|>")
    for text in DOCUMENTS[: HAMMER.n_documents]:
        ids = torch.tensor([end, *pairs.encode(text).ids, end])[: HAMMER.n_rows + 1]
        log = exact(ids[None, :-1]).logits[0].log_softmax(1)
        losses.append(-log[torch.arange(len(ids) - 1), ids[1:]].mean())
    weights = dict(exact.named_parameters())
    found = torch.autograd.grad(sum(losses) / len(losses), [weights[name] for name in PARTS])
    return dict(zip(PARTS, (gradient.numpy() for gradient in found), strict=True))


def regularity(gradient: np.ndarray, n_rows: int) -> float:
    """Share of the strongest modes of the first rows in their power."""
    power = (np.abs(np.fft.rfft(gradient[:n_rows], axis=0)) ** 2).sum(1)
    return float(np.sort(power)[-HAMMER.top :].sum() / power.sum())


def test_gpt2_from_a_folder_sounds_as_autograd_says(model, struck, pairs):
    table = struck()
    assert dict(zip(table["tensor"], table["role"], strict=True)) == PARTS
    gradients = mean_gradients(model, pairs)
    heard = {(row.tensor, row.rows): row.regularity for row in table.itertuples()}
    whole = {name: len(gradient) for name, gradient in gradients.items()}
    assert set(heard) == {(name, n) for name in PARTS for n in {HAMMER.n_rows, whole[name]}}
    for (name, n_rows), found in heard.items():
        # gradients in float32 beside float64
        assert found == pytest.approx(regularity(gradients[name], n_rows), rel=1e-4), (name, n_rows)
    assert whole == {
        "transformer.wpe.weight": LENGTH,
        "transformer.h.0.mlp.c_proj.weight": 4 * DIM,  # rows are hidden units
        "transformer.h.1.mlp.c_proj.weight": 4 * DIM,
        "transformer.wte.weight": N_SYMBOLS,
    }


def test_dropout_is_off_and_documents_longer_than_its_positions_are_cut_to_them(model, struck):
    assert model.config.resid_pdrop > 0
    assert struck().equals(struck())
    table = struck([" ".join(DOCUMENTS)] * 2, Hammer(2, n_rows=LENGTH, top=3))
    assert table["regularity"].between(table["flat"], 1).all()
