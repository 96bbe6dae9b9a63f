"""Language models tied by signs: stored runs, and why an LSTM cannot tell the signs apart.

Stored results come from :mod:`book.reflections.experiments.language`; what is measured live needs the
embedded corpus alone.
"""

from __future__ import annotations

import functools
import itertools

import altair as alt
import numpy as np
import pandas as pd
import torch

from book.reflections.experiments import language
from embviz import ledger
from embviz.corpora import corpus as corpora
from embviz.ledger import studies
from embviz.ledger.cells import load
from embviz.models.recurrent import LSTMConfig, LSTMLanguageModel
from embviz.view import plot_curves, theme
from embviz.view.charts import Data
from embviz.words.cooccurrence import count_pairs, pmi
from embviz.words.wordvectors import factorize_pmi

TYINGS = {"plain": "WT (plain)", "signs": "WTQ (signs)"}
SAME_SEED, TWO_SEEDS = "WTQ - WT, one seed", "null: WT, two seeds"
PLAIN, SAME_WEIGHTS, REFLECTED = "WT", "WTQ, same start", "WTQ, reflected start"
EXAMPLES = ("array", "file", "matrix", "random", "string", "time")
N_WORDS, DIMENSION = 500, 100  # of the live logits


# --- stored runs ----------------------------------------------------------------------------------------


def stored_preset() -> str | None:
    """The largest scale whose language models are all stored."""
    return studies.find_study("reflections.lstm").largest_stored()


def perplexity_curves() -> pd.DataFrame:
    """Validation perplexity after each epoch of the stored runs: epoch, perplexity, tying, seed, run."""
    preset = stored_preset()
    if preset is None:
        return pd.DataFrame(columns=["epoch", "perplexity", "tying", "seed", "run"])
    table = load(language.language_model_cells(preset))
    table = table.assign(tying=table["tying"].map(TYINGS), perplexity=table["valid_perplexity"].round(2))
    table["run"] = table["corpus"] + ", d = " + table["embedding_dim"].astype(str)
    return table[["epoch", "perplexity", "tying", "seed", "run"]]


def plot_perplexity_curves(table: pd.DataFrame) -> alt.LayerChart:
    """Every seed thin, the mean thick, on an axis that need not start at zero.

    Parameters
    ----------
    table : DataFrame from :func:`perplexity_curves`
    """
    return plot_curves(table, "epoch", "perplexity", kind="tying", interval=False)


def final_table() -> pd.DataFrame:
    """Test perplexity by run and seed, a column a tying, and the gap in percent of WT's."""
    preset = stored_preset()
    if preset is None:
        return pd.DataFrame(columns=[*TYINGS.values(), "gap in %"])
    table = language.final_perplexities(preset)
    wide = table.pivot(index=["corpus", "embedding_dim", "seed"], columns="tying", values="perplexity")
    wide = wide.rename(columns=TYINGS)[list(TYINGS.values())]
    plain, signs = (wide[name] for name in TYINGS.values())
    return wide.assign(**{"gap in %": 100 * (signs - plain) / plain}).round(2).rename_axis(columns=None)


def seed_gaps() -> pd.DataFrame:
    """Relative gaps in percent: WTQ against WT of the same seed, and WT against WT of another seed.

    Returns
    -------
    DataFrame
        comparison, pair (which seeds), gap.
    """
    table = final_table().reset_index()
    rows = [
        (SAME_SEED, f"seed {seed}", gap) for seed, gap in zip(table["seed"], table["gap in %"], strict=True)
    ] if len(table) else []  # fmt: skip
    for _, runs in table.groupby(["corpus", "embedding_dim"]) if len(table) else ():
        plain = runs.set_index("seed")[TYINGS["plain"]]
        for one, other in itertools.permutations(plain.index, 2):
            gap = 100 * (plain[other] - plain[one]) / plain[one]
            rows.append((TWO_SEEDS, f"seed {other} against {one}", round(gap, 2)))
    return pd.DataFrame(rows, columns=["comparison", "pair", "gap"])


def plot_seed_gaps(table: pd.DataFrame) -> alt.LayerChart:
    """Every gap as a point, by comparison; the accepted range of the claim shaded, zero as a line."""
    colour, shape = theme.point_styles("comparison", [SAME_SEED, TWO_SEEDS])
    figure = next(f for f in ledger.find_claim("reflections.lstm").figures if f.name == "relative_gap")
    low, high = figure.accept or (0.0, 0.0)
    accepted = (
        alt.Chart(alt.Data(values=[{"left": 100 * low, "right": 100 * high}]))
        .mark_rect(opacity=0.15, color=theme.CATEGORIES[0])
        .encode(x="left:Q", x2="right:Q")
    )
    zero = alt.Chart(alt.Data(values=[{}])).mark_rule(strokeDash=[2, 2]).encode(x=alt.XDatum(0))
    points = (
        alt.Chart(table)
        .mark_point(size=90, opacity=0.8)
        .encode(
            x=alt.X("gap:Q", axis=theme.axis("gap")),
            y=alt.Y("comparison:N", axis=None, sort=[SAME_SEED, TWO_SEEDS]),
            color=colour,
            shape=shape,
            tooltip=["comparison:N", "pair:N", "gap:Q"],
        )
    )
    return alt.LayerChart(layer=[accepted, zero, points]).properties(width="container", height=110)


def paper_gaps() -> pd.DataFrame:
    """Table 3 of the paper from the claims file: run, WT, WTQ, gap in percent."""
    figures = ledger.find_claim("reflections.lstm").figures
    published = {figure.name: figure.paper for figure in figures if figure.paper is not None}
    rows = []
    for corpus, name in (("ptb", "PTB"), ("wikitext2", "WikiText-2")):
        for dimension in (200, 650):
            plain, signs = (published[f"{corpus}_{dimension}_{tying}"] for tying in ("wt", "wtq"))
            rows.append((f"{name}, d = {dimension}", plain, signs, round(100 * (signs / plain - 1), 2)))
    return pd.DataFrame(rows, columns=["run", "LSTM + WT", "LSTM + WTQ", "gap in %"]).set_index("run")


# --- an LSTM absorbs the signs -------------------------------------------------------------------------


def reflected(model: LSTMLanguageModel, *, signs: torch.Tensor) -> LSTMLanguageModel:
    """A model tied through `signs` that computes what the plainly tied `model` computes.

    The top layer's candidate gate and recurrent columns change sign where q is -1. Cell and hidden
    state then change sign there too, since tanh is odd, and the decoder's q undoes it.

    Parameters
    ----------
    model : LSTMLanguageModel
        Plainly tied.
    signs : tensor of +1 and -1, shape (D,)

    Returns
    -------
    LSTMLanguageModel
        New weights; `model` stays as it is. Its initial weights are as likely as `model`'s, if those
        were drawn from a distribution symmetric about zero.

    Raises
    ------
    ValueError
        If `model` is not plainly tied.
    """
    config = model.config
    if config.tying != "plain":
        raise ValueError(f"the model is tied {config.tying!r}: start from one whose tying is 'plain'")
    sizes = config.vocab_size, config.embedding_dim, config.n_layers, config.dropout
    twin = LSTMLanguageModel(LSTMConfig(*sizes, tying="signs"), seed=0).to(model.embedding.dtype)
    twin.load_state_dict({**model.state_dict(), "signs": signs.to(model.embedding.dtype)})
    top, width = config.n_layers - 1, config.embedding_dim
    candidate = slice(2 * width, 3 * width)  # torch's order of gates: input, forget, candidate, output
    with torch.no_grad():
        for name in (f"weight_ih_l{top}", f"weight_hh_l{top}", f"bias_ih_l{top}", f"bias_hh_l{top}"):
            weight = getattr(twin.lstm, name)  # (4 D, D) or (4 D,)
            rows = weight[candidate]
            rows.mul_(twin.signs[:, None] if rows.dim() == 2 else twin.signs)
        getattr(twin.lstm, f"weight_hh_l{top}").mul_(twin.signs)  # columns: what it reads of its own past
    return twin


def twin_models(*, vocab_size: int, embedding_dim: int, seed: int) -> dict[str, LSTMLanguageModel]:
    """A plainly tied model; one tied by signs from the same weights; one from reflected weights.

    In float64 and without dropout.
    """
    plain = LSTMLanguageModel(LSTMConfig(vocab_size, embedding_dim, dropout=0.0), seed=seed).double()
    signed = LSTMLanguageModel(
        LSTMConfig(vocab_size, embedding_dim, dropout=0.0, tying="signs"), seed=seed
    ).double()
    return {PLAIN: plain, SAME_WEIGHTS: signed, REFLECTED: reflected(plain, signs=signed.signs)}


def largest_logit_difference(
    *, vocab_size: int = 200, embedding_dim: int = 32, seed: int = 0
) -> pd.DataFrame:
    """How far the logits of each tied-by-signs twin lie from the plain model's, in units of their spread.

    Returns
    -------
    DataFrame
        model, difference: the largest over a text of 20 random words, divided by the standard deviation
        of the plain model's logits, rounded to 6 digits.
    """
    models = twin_models(vocab_size=vocab_size, embedding_dim=embedding_dim, seed=seed)
    words = torch.from_numpy(np.random.default_rng(seed).integers(vocab_size, size=(20, 1)))  # (T, B)
    with torch.no_grad():
        logits = {name: model(words, model.initial_state(1))[0] for name, model in models.items()}
    plain = logits.pop(PLAIN)
    rows = [(name, float((other - plain).abs().max() / plain.std())) for name, other in logits.items()]
    return pd.DataFrame(rows, columns=["model", "difference"]).round(6)


def twin_losses(*, n_steps: int = 60, embedding_dim: int = 32, seed: int = 0) -> pd.DataFrame:
    """How the training losses of both signed twins differ from the plain model's, on the same batches.

    Returns
    -------
    DataFrame
        step, model, loss_difference: thousandths of a nat a word, mean of five steps, every fifth step.
    """
    text = corpora.make_language_model_slice(
        "embedded", n_train=20_000, n_valid=500, n_test=500, vocab_size=300
    )
    columns = text.train[: len(text.train) // 10 * 10].reshape(10, -1).T.astype(np.int64)  # (N / B, B)
    models = twin_models(vocab_size=300, embedding_dim=embedding_dim, seed=seed)
    losses = {name: _train(model, torch.from_numpy(columns), n_steps) for name, model in models.items()}
    rows = []
    for name in (SAME_WEIGHTS, REFLECTED):
        apart = 1000 * (losses[name] - losses[PLAIN]).reshape(-1, 5).mean(axis=1)
        rows += [(5 * (at + 1), name, round(float(gap), 1) + 0.0) for at, gap in enumerate(apart)]
    return pd.DataFrame(rows, columns=["step", "model", "loss_difference"])


def _train(model: LSTMLanguageModel, columns: torch.Tensor, n_steps: int, n_back: int = 10) -> np.ndarray:
    """Losses (n_steps,) of plain gradient descent with clipped gradients, as in the full runs."""
    optimizer = torch.optim.SGD(model.parameters(), lr=5.0)
    state, losses = model.initial_state(columns.shape[1]), []
    for step in range(n_steps):
        start = step * n_back % (len(columns) - n_back - 1)
        words, following = columns[start : start + n_back], columns[start + 1 : start + n_back + 1]
        logits, state = model(words, (state[0].detach(), state[1].detach()))
        loss = torch.nn.functional.cross_entropy(logits.flatten(0, 1), following.flatten())
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 0.25)
        optimizer.step()
        losses.append(float(loss.detach()))
    return np.array(losses)


def plot_twin_losses(table: pd.DataFrame) -> alt.LayerChart:
    """Differences from the plain model's loss: zero, if a twin is the same model."""
    names = [SAME_WEIGHTS, REFLECTED]
    colour, dash = theme.line_styles("model", names)
    lines = (
        alt.Chart(table)
        .mark_line(point=True)
        .encode(
            x=alt.X("step:Q", axis=theme.axis("step")),
            y=alt.Y("loss_difference:Q", axis=theme.axis("loss_difference")),
            color=colour,
            strokeDash=dash,
            tooltip=["model:N", "step:Q", "loss_difference:Q"],
        )
    )
    return alt.LayerChart(layer=[lines]).properties(width="container", height=theme.HEIGHT)


# --- what signs do to the logits, live -------------------------------------------------------------------


@functools.lru_cache(maxsize=1)
def _word_directions() -> tuple[list[str], np.ndarray]:
    """Frequent words of the embedded corpus and their unit vectors (V, D), from factorized PMI."""
    corpus = corpora.load_corpus("embedded").restrict(max_vocab=N_WORDS, rare="hole")
    counts = count_pairs(corpus.ids, N_WORDS, window=5, document_starts=corpus.document_starts)
    vectors = factorize_pmi(pmi(counts), DIMENSION, seed=0, vocabulary=corpus.vocabulary)
    rows = vectors.word.astype(float)
    return corpus.vocabulary, rows / np.linalg.norm(rows, axis=1, keepdims=True)


def signed_logits(word: str, flipped: float, absorbed: bool, *, n_shown: int = 10) -> pd.DataFrame:
    """The largest logits h . (q * e) for h made from a word's own vector.

    Parameters
    ----------
    word : str
        The model's wish: h is its unit vector e.
    flipped : float between 0 and 1
        Share of the signs q that are -1; a larger share flips the same signs and more.
    absorbed : bool
        Whether the layers before the decoder have learned to give q * e instead of e.
    n_shown : int
        Words with the largest logits; the wished-for word is added when it is not among them.

    Returns
    -------
    DataFrame
        label (rank and word), place (the row in the chart), logit, kind (whether h is made from it).

    Raises
    ------
    ValueError
        If the word is not among the frequent ones.
    """
    vocabulary, rows = _word_directions()
    if word not in vocabulary:
        raise ValueError(f"{word!r} is not among the {N_WORDS} most frequent words of the embedded corpus")
    chosen = vocabulary.index(word)
    order = np.random.default_rng(0).permutation(DIMENSION)
    signs = np.ones(DIMENSION)
    signs[order[: round(flipped * DIMENSION)]] = -1.0
    hidden = rows[chosen] * signs if absorbed else rows[chosen]  # h, (D,)
    logits = (rows * signs) @ hidden  # (V,)
    ranking = np.argsort(-logits, kind="stable")
    shown = list(ranking[:n_shown])
    if chosen not in shown:
        shown.append(chosen)
    ranks = np.empty(len(logits), dtype=int)
    ranks[ranking] = np.arange(1, len(logits) + 1)
    return pd.DataFrame(
        {
            "label": [f"{ranks[at]}. {vocabulary[at]}" for at in shown],
            "place": np.arange(len(shown)),
            "logit": logits[shown],
            "kind": ["h is made from it" if at == chosen else "another word" for at in shown],
        }
    )


def plot_signed_logits(data: Data) -> alt.LayerChart:
    """Bars of the largest logits, the wished-for word told apart by colour and its words."""
    colour, _ = theme.line_styles("kind", ["h is made from it", "another word"])
    y = alt.Y("label:N", sort=alt.EncodingSortField("place", order="ascending"), axis=alt.Axis(title=None))
    x = alt.X("logit:Q", axis=theme.axis("logit"), scale=alt.Scale(domain=[-1, 1]))
    bars = alt.Chart(data).mark_bar().encode(x=x, y=y, color=colour)
    zero = alt.Chart(alt.Data(values=[{}])).mark_rule().encode(x=alt.XDatum(0))
    return alt.LayerChart(layer=[bars, zero]).properties(width="container", height=theme.HEIGHT)
