"""Each door gives what its script by hand gives."""

import inspect

import gensim
import numpy as np
import pandas as pd
import pytest
import torch

from book.yours import by_hand, in_one_call
from embviz.imports import import_transformers
from embviz.words import WordVectors

WORDS = [letter * 3 for letter in "abcdefghijklmnop"]


def draw_text(n_words, seed=0):
    rng = np.random.default_rng(seed)
    return " ".join(rng.choice(WORDS, size=n_words, p=np.arange(len(WORDS), 0, -1) / 136))


def test_every_door_has_its_script_by_hand():
    names = {name for name, one in vars(in_one_call).items() if inspect.isfunction(one)}
    own = {name for name in names if getattr(in_one_call, name).__module__ == in_one_call.__name__}
    assert own == {
        name for name, one in vars(by_hand).items() if getattr(one, "__module__", "") == by_hand.__name__
    }


def test_a_spectrum_is_that_of_its_counts_by_hand(tmp_path):
    (tmp_path / "text.txt").write_text(draw_text(3_000))
    ours, theirs = in_one_call.spectrum(tmp_path / "text.txt"), by_hand.spectrum(tmp_path / "text.txt")
    keys = ["matrix", "seed"]
    pd.testing.assert_frame_equal(
        ours.sort_values(keys, ignore_index=True), theirs.sort_values(keys, ignore_index=True)
    )


@pytest.fixture
def glove(tmp_path):
    words = [f"w{row}" for row in range(60)]
    rows = np.random.default_rng(0).normal(size=(60, 8)).astype(np.float32)
    WordVectors(words, rows).save_glove(tmp_path / "glove.txt")
    return tmp_path / "glove.txt"


def test_nearest_words_are_those_of_the_largest_cosines(glove):
    found = in_one_call.nearest(glove, "w7")
    assert found == by_hand.nearest(glove, "w7")
    assert len(found) == 10


def test_a_map_of_a_file_is_that_of_its_rows(glove):
    np.testing.assert_allclose(in_one_call.word_map(glove), by_hand.word_map(glove))


def test_reflections_of_a_gensim_model_are_those_of_its_two_tables():
    sentences = [draw_text(40, seed).split() for seed in range(60)]
    model = gensim.models.Word2Vec(sentences, vector_size=6, min_count=1, workers=1, epochs=2, seed=0)
    ours, theirs = in_one_call.reflections(model), by_hand.reflections(model)
    pd.testing.assert_frame_equal(ours, theirs, check_names=False)


def test_heads_of_gpt2_are_the_slices_of_its_fused_matrix(tmp_path):
    tf = import_transformers()
    config = tf.GPT2Config(
        vocab_size=40, n_positions=8, n_embd=24, n_layer=2, n_head=3, bos_token_id=0, eos_token_id=0
    )
    torch.manual_seed(0)
    model = tf.GPT2LMHeadModel(config)
    with torch.no_grad():  # one direction stronger than chance, so that something lies beyond the edge
        model.transformer.h[1].attn.c_attn.weight += 0.3 * torch.outer(torch.ones(24), torch.arange(72) % 2)
    model.save_pretrained(tmp_path)
    ours, theirs = in_one_call.heads(tmp_path), by_hand.heads(tmp_path)
    assert ours.shape == (18, 2)
    assert ours[:, 0].max() > 0
    np.testing.assert_allclose(ours, theirs, atol=1e-9)


def test_a_llama_as_a_decoder_has_the_logits_of_the_original():
    tf = import_transformers()
    config = tf.LlamaConfig(
        vocab_size=30, hidden_size=24, intermediate_size=40, num_hidden_layers=2, num_attention_heads=6,
        num_key_value_heads=3, max_position_embeddings=16, bos_token_id=0, eos_token_id=0,
    )  # fmt: skip
    torch.manual_seed(0)
    model, tokens = tf.LlamaForCausalLM(config).eval(), torch.randint(30, (2, 9))
    with torch.no_grad():
        ours, theirs, original = (
            in_one_call.logits(model, tokens),
            by_hand.logits(model, tokens),
            model(tokens),
        )
    torch.testing.assert_close(ours, theirs)
    torch.testing.assert_close(ours, original.logits, atol=1e-5, rtol=1e-4)


def test_a_path_through_trainers_checkpoints_is_that_of_its_files(tmp_path):
    tf = import_transformers()
    torch.manual_seed(0)
    config = tf.GPT2Config(
        vocab_size=20, n_positions=8, n_embd=8, n_layer=1, n_head=2, bos_token_id=0, eos_token_id=0
    )
    rows = [
        {"input_ids": torch.arange(i, i + 8) % 20, "labels": torch.arange(i, i + 8) % 20} for i in range(24)
    ]
    options = tf.TrainingArguments(
        output_dir=str(tmp_path), max_steps=12, save_steps=4, logging_steps=4, report_to=[],
        disable_tqdm=True, use_cpu=True, per_device_train_batch_size=4,
    )  # fmt: skip
    tf.Trainer(tf.GPT2LMHeadModel(config), options, train_dataset=rows).train()
    name = "transformer.h.0.attn.c_attn.weight"
    ours, theirs = in_one_call.path_of(tmp_path, name), by_hand.path_of(tmp_path, name)
    assert ours[0].shape == (3, 8 * 24)
    assert np.ptp(ours[1]) > 0
    for one, other in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-6)
