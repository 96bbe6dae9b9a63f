"""What the papers' modules refuse, each with what its message says."""

import dataclasses
import math
import re

import numpy as np
import pytest
import torch
from torch import nn

from book.geometry.experiments.grokking import SHUFFLED, GrokkingRun, Setting
from book.geometry.experiments.language_models import LanguageRun
from book.geometry.experiments.steering_language import SteeringRun
from book.geometry.experiments.trajectory_recordings import TrajectoryRun
from book.geometry.grokfast import amplify_slow_gradients
from book.geometry.modular import ModularArithmetic
from book.kernel import theory
from book.kernel.experiments.runs import KernelRun, Session
from book.kernel.experiments.starts import StartRun
from book.kernel.experiments.texts import Slice, TextReading, load
from book.kernel.minigpt import MiniGPTConfig, StackedMiniGPT
from book.language import TextConfig
from book.members import Member
from book.reflections import simulated
from book.reflections.lstm import LSTMConfig
from book.reflections.lstm_training import LanguageModelTraining
from book.resizing import rounded_weights
from book.resizing.experiments import bases, growing, quantized, recovery, tuned
from book.tying.experiments import exor_runs, natural
from book.tying.languages import equivalences
from book.tying.languages.exor import EVEN, MASK, ODD, EXor, split_strings
from book.tying.models.encoders import EncoderConfig
from book.tying.models.masked import MaskedConfig
from tests.made_counts import made_log_counts, made_text

SOURCE = TextConfig("embedded", n_documents=40, n_held_out=1)
READING = TextReading("embedded", vocab_size=10, n_tokens=600)
KERNEL = KernelRun(READING, MiniGPTConfig(10, 8, 1, 2, 16))
STACK = StackedMiniGPT(MiniGPTConfig(11, 16, 2, 2, 6), [Member(0)])
BASE = bases.base("quick")
RECOVERY = recovery.RecoveryRun(BASE, (0.5,))
D = made_log_counts()
TWO, HALF = np.array([[0, 1], [1, 0]]), np.array([0.5, 0.5])
ROW = [2, 0, 1, MASK, 3, 0, 0, EVEN]  # of EXor; each change makes it no masked string


def grokking(**changed):
    return lambda: GrokkingRun(**{"p": 11, "train_share": 0.6, **changed})


def exor_run(**changed):
    return lambda: exor_runs.prepare(exor_runs.EXorRun(n_steps=4, n_seeds=3, **changed))


def language(*tokens):
    return lambda: equivalences.FiniteLanguage(*tokens)


def strings(**weights):
    return lambda: equivalences.make_language({name.replace("_", " "): w for name, w in weights.items()})


def lied(place, symbol):
    return lambda: EXor().conditional(np.array([ROW, [*ROW[:place], symbol, *ROW[place + 1 :]]]))


def changed(config, **fields):
    return lambda: dataclasses.replace(config, **fields)


REFUSALS = [
    # geometry
    (grokking(modes=(1,), top_k=2), "give modes, top_k or subspace, one of them at most"),
    (grokking(control="other"), "control is 'other': choose one of shuffled, matched norm"),
    (grokking(control=SHUFFLED), "'shuffled' changes a projection: give modes, top_k or subspace too"),
    (grokking(modes=(1, 6)), "modes [6] lie outside 0..5"),
    (grokking(n_epochs=0), "n_epochs and n_seeds must be at least 1"),
    (grokking(setting=Setting(batch_size=-1)), "batch_size at least 0"),
    (grokking(train_share=1.0), "at least one pair to train and one to validate on"),
    (grokking(attention="other"), "attention is 'other': choose one of standard, no_q"),
    (lambda: ModularArithmetic(train_share=0.001063).split(0), "do not occur among the 10 pairs"),
    (lambda: ModularArithmetic(train_share=1e-9), "at least one pair to train and one to validate on"),
    (lambda: ModularArithmetic(op="/"), "op is '/': choose one of +, -, *"),
    (lambda: ModularArithmetic(p=1), "p must be at least 2"),
    (lambda: amplify_slow_gradients({}, {}, decay=1.0), "decay must lie in"),
    (lambda: amplify_slow_gradients({}, {}, gain=-1.0), "decay must lie in"),
    (lambda: LanguageRun(SOURCE, variant="no V"), "choose one of baseline, no Q"),
    (lambda: SteeringRun(SOURCE, variant="nyquist"), "choose one of baseline, near-Nyquist"),
    (lambda: TrajectoryRun(SOURCE, variant="no V"), "choose one of standard, no Q, decay only"),
    (lambda: TrajectoryRun(SOURCE, text="tweets"), "choose one of short stories, web text"),
    (lambda: TrajectoryRun(SOURCE, every=7), "would miss the last of"),
    # kernel
    (lambda: StartRun(KERNEL, "svd"), "log counts"),
    (changed(Slice("embedded", "unk", 30, 300), offset=-1), "a slice is of words and begins at 0 or later"),
    (lambda: Slice("embedded", "characters", 30, 300), "a slice is of words and begins at 0 or later"),
    (changed(READING, symbols="bytes"), "choose one of drop, unk, characters"),
    (changed(READING, order="random"), "choose one of frequency, alphabetical, appearance"),
    (changed(READING, vocab_size=1), "two symbols and two tokens"),
    (changed(KERNEL, n_epochs=0), "epochs, batches and seeds must be at least 1"),
    (
        lambda: Session(changed(KERNEL, shape=MiniGPTConfig(10, 8, 1, 2, 700))(), load(READING)),
        "a text of 600 tokens has no block of 701: lower the shape's length",
    ),
    (lambda: MiniGPTConfig(11, 18, 2, 2, 6), "must be a multiple of 4; the nearest is 16"),
    (lambda: STACK.set_embeddings(torch.zeros(11, 16)), "shape (11, 16): give"),
    (lambda: STACK.set_embeddings(torch.full((1, 11, 16), math.nan)), "NaN or an infinity"),
    (lambda: STACK(torch.zeros(1, 1, 7, dtype=torch.long)), "sequences of 7 tokens: this model reads 6"),
    (lambda: theory.matrix_power(D, 0.5, negative="absolute"), "negative is 'absolute': use one of clamp"),
    (lambda: theory.matrix_power(D, 0.5, floor=0.0), "floor is 0: it must be above 0"),
    (lambda: theory.log_values(np.ones(2), "real"), "kind is 'real': use one of clamp, magnitude, complex"),
    (lambda: theory.matrix_power(D, 0.0), ": D^eps is defined here above 0 and up to 1"),
    (lambda: theory.k0_eigen(D, 1.5), ": D^eps is defined here above 0 and up to 1"),
    (lambda: theory.k0_fft(D, math.nan), ": D^eps is defined here above 0 and up to 1"),
    (lambda: theory.alpha_scan(D, [0.5, 0.0]), ": D^eps is defined here above 0 and up to 1"),
    (lambda: theory.training_free_embeddings(made_text(), 11, 12), "is 12: 11 words span 1 to 11"),
    # reflections
    (lambda: LSTMConfig(10, tying="random"), "tying is 'random': choose one of none, plain, signs"),
    (lambda: LSTMConfig(0), "must be at least 1"),
    (lambda: LSTMConfig(10, dropout=1.0), "dropout is a probability below 1, got 1.0"),
    (lambda: LanguageModelTraining(precision="float16"), "choose one of float32, bfloat16"),
    (lambda: LanguageModelTraining(n_steps_back=0), "must be at least 1"),
    (lambda: LanguageModelTraining(learning_rate=0.0), "must be above 0"),
    (lambda: LanguageModelTraining(n_flat_epochs=0), "n_flat_epochs counts epochs from 1"),
    (lambda: simulated.simulated_pmi_spectrum(10, 1.5), "share 1.5: d must be at least 1"),
    # resizing
    (lambda: bases.base("large"), "no preset 'large': choose quick, laptop or paper"),
    (lambda: bases.base("quick", "GPT-5"), "architecture is 'GPT-5': choose one of 'LayerNorm'"),
    (
        changed(BASE, training=bases.training(6, 4, 64, 1e-2)),
        "sequences of 64 tokens don't fit a model of 32 places",
    ),
    (lambda: growing.GrowRun(growing.narrow_base("quick"), "glue", 32), "choose one of orthogonal, zeros"),
    (lambda: growing.GrowRun(growing.narrow_base("quick"), "zeros", 16), "does not grow to 16"),
    (lambda: quantized.QuantizedRun(BASE, "massage", 0), "choose one of none, rotation, permutation"),
    (changed(RECOVERY, treatment="prayer"), "treatment is 'prayer': choose one of projection"),
    (changed(RECOVERY, treatment=recovery.PCA, ratios=(2.0,)), "PCA slice can't lead to 2 of the width"),
    (changed(RECOVERY, treatment=recovery.ZEROS), "zeros appended can't lead to 0.5 of the width"),
    (changed(RECOVERY, ratios=()), "ratios of widths must be above 0"),
    (changed(RECOVERY, ratios=(0.5, 0.25), n_steps=1), "2 stages need as many updates at least, got 1"),
    (lambda: tuned.TunedRun(BASE, 0.0), "are needed"),
    (lambda: tuned.TunedRun(BASE, 0.5, n_steps=0), "are needed"),
    (lambda: tuned.TunedRun(BASE, 0.5, optimizer="sgd"), "are needed"),
    (lambda: rounded_weights.round_to_grid([1.0], 1), "whole number from 2 to 24"),
    (lambda: rounded_weights.round_to_grid([1.0], True), "whole number from 2 to 24"),
    (lambda: rounded_weights.quantize(nn.Linear(2, 2), 25), "whole number from 2 to 24"),
    (lambda: rounded_weights.quantize(nn.LayerNorm(3), 4), "LayerNorm has no parameter"),
    (lambda: rounded_weights.round_to_grid([1.0, math.nan], 4), "values has 1 NaN"),
    (lambda: rounded_weights.round_to_grid([], 4), "empty"),
    (lambda: rounded_weights.round_to_grid([1.0, 2.0], 4, "channel"), "two axes"),
    (lambda: rounded_weights.round_to_grid([1.0], 4, "row"), "choose one of tensor, channel"),
    (lambda: rounded_weights.relative_error(np.zeros(3), 4), "all values are 0"),
    (lambda: rounded_weights.rotated_kurtosis(np.zeros((2, 2))), "no kurtosis"),
    # tying
    (exor_run(architecture="gru"), "no ('gru', 'small'): choose one of ('transformer', 'small'), "),
    (exor_run(symbols="none"), "no 'none': choose one of both, ones, zeros"),
    (exor_run(reading="mine"), "no 'mine': choose one of program, fixed, fixed spelling, "),
    (exor_run(rank=5), "rank must lie between 0 and embedding_dim"),
    (exor_run(learning_rate=-1.0), "rates must be above 0"),
    (lambda: natural.NaturalRun("bookcorpus", False, 0).setting, "no setting 'bookcorpus': choose one of"),
    (lambda: EncoderConfig("gru"), "architecture is 'gru': choose one of transformer, lstm, mixer"),
    (lambda: MaskedConfig(0), "every size must be at least 1"),
    (lambda: MaskedConfig(9, n_heads=3), "and embedding_dim a multiple"),
    (lambda: EXor(p_0a=-0.1), "p_0a is a probability between 0 and 1, got -0.1"),
    (lambda: EXor(p_1a=math.nan), "p_1a is a probability between 0 and 1, got nan"),
    (lied(3, 1), "each row needs one mask ?"),
    (lied(1, MASK), "each row needs one mask ?"),
    (lied(7, MASK), "each row needs one mask ?"),
    (lied(7, 1), "each row needs one mask ?"),
    (lied(1, ODD), "other bits spelled 0A, 0B, 1A or 1B"),
    (lambda: EXor(30).strings(), "30 bits make 1,073,741,824 strings"),
    (lambda: EXor(10).contexts(), "10 bits make 5,242,880 strings"),
    (lambda: split_strings(EXor(), seed=0, n_train=0), "n_train is 0: choose from 1 to 126 of 127 strings"),
    (lambda: split_strings(EXor(), seed=0, n_train=127), "choose from 1 to 126 of 127 strings"),
    (strings(), "weights from 0 up"),
    (strings(a_b=-1.0, b_a=2.0), "weights from 0 up"),
    (strings(a_b=0.0), "one of them above 0"),
    (strings(a_b=0.5, b_a=0.4), "sum to 0.9, not 1"),
    (strings(a_b=0.5, a_b_c=0.5), "'a b' has 2 symbols, 'a b c' has 3"),
    (lambda: equivalences.make_language({"": 1.0}), "tokens is empty"),
    (language(TWO, np.ones(3) / 3, ("a", "b")), "probability"),
    (language(TWO, np.array([0.5, 0.4]), ("a", "b")), "sum 1, here 0.9"),
    (language(TWO, HALF, ("a", "b", "c")), "every position"),
    (language(np.array([[0, 1], [0, 1]]), HALF, ("a", "b")), "occurs twice"),
    (language(TWO, HALF, ("a", "b"), (2,)), "different ones of 0 to 1"),
]


@pytest.mark.parametrize(("call", "message"), REFUSALS, ids=[message for _, message in REFUSALS])
def test_what_makes_no_sense_is_refused_in_words(call, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        call()
