"""D, W and the kernel of a model's tokens are those made by hand from the ids of a text."""

import numpy as np
import pytest

from embviz.inspection import inspect, model_vectors, token_kernel
from embviz.kernels import extract_kernel, log_counts
from embviz.metrics import circulant_score
from embviz.words import count_pairs
from tests.inspection.test_inspecting import LINES, gpt2, neox, word_level

pytestmark = pytest.mark.usefixtures("one_thread")


def test_a_kernel_of_a_model_is_that_of_counts_and_rows_taken_by_hand():
    model = gpt2()
    found = token_kernel(model, LINES, word_level())
    ids = np.array([i * i % 23 for i in range(900)])
    order = [int(token.removeprefix("word")) for token in found.tokens]
    counts = np.bincount(ids)
    assert sorted(order) == np.flatnonzero(counts).tolist()
    assert (np.diff(counts[order]) <= 0).all()
    place = np.argsort(order)[np.searchsorted(sorted(order), ids)]
    D = log_counts(count_pairs(place, len(order), window=5))
    rows = model.transformer.wte.weight.detach().double().numpy()[order]
    np.testing.assert_array_equal(found.D, D)
    np.testing.assert_allclose(found.W, rows @ rows.T, rtol=1e-12)
    kernel = extract_kernel(rows @ rows.T, D, zeros="drop").kernel
    assert found.score == pytest.approx(circulant_score(kernel))
    table = inspect(model, word_level(), LINES).table
    row = table[table["quantity"] == "circulant score"].iloc[0]
    assert row["value"] == found.score
    assert row["null"] == pytest.approx(found.controls.mean())


def test_a_model_that_is_not_tied_has_no_kernel_and_a_folder_brings_its_tokenizer(tmp_path):
    with pytest.raises(ValueError, match="defined for tied ones"):
        token_kernel(neox(), LINES, word_level())
    table = inspect(neox(), word_level(), LINES).table
    assert "tied" in table[table["quantity"] == "circulant score"]["note"].iloc[0]
    gpt2().save_pretrained(tmp_path)
    with pytest.raises(ValueError, match="no tokenizer beside"):
        token_kernel(tmp_path, LINES)
    word_level().save(str(tmp_path / "tokenizer.json"))
    assert len(token_kernel(tmp_path, LINES, n_words=8).tokens) == 8
    with pytest.raises(ValueError, match="are tokens of the model"):
        token_kernel(tmp_path, "word1 word1")


def test_the_tables_of_a_model_are_word_and_context_vectors():
    names = [f"word{i}" for i in range(40)]
    model = neox()
    tied, untied = model_vectors(gpt2(), names), model_vectors(model, names)
    assert tied.context is None
    np.testing.assert_array_equal(untied.word, model.get_input_embeddings().weight.detach())
    np.testing.assert_array_equal(untied.context, model.get_output_embeddings().weight.detach())
    with pytest.raises(ValueError, match=r"no tokenizer\.json"):
        model_vectors(gpt2())
