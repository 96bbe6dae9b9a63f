"""Natural text: the stored runs of appendix C.7 as tidy tables, their rows and words."""

from __future__ import annotations

import functools
from collections.abc import Sequence

import numpy as np
import pandas as pd

from book.ledger.cells import missing, read
from book.tying.experiments import natural
from book.tying.experiments.natural import NaturalRun

# The matrices of the stored runs, and what a run calls them.
MATRICES = {"untied input": "input", "untied output": "output", "tied": "tied"}
SPELLINGS = {"mixed": "mixed", "one spelling a document": "fixed"}
PAIRS = {"twins": "twins", "matched in count": "matched", "unrelated": "unrelated"}
PRIME = "\u2032"  # marks a twin's name


def judged_runs() -> list[NaturalRun]:
    """The stored runs that the chapter is about."""
    return natural.judged_runs()


def settings_table() -> pd.DataFrame:
    """What the paper says, what its authors' program does, and what was run here."""
    runs = judged_runs()
    run, model = runs[0], runs[0].setting
    rates = run.n_steps * run.learning_rate * (1 + model.last_rate) / 2
    here = {
        "text": model.source,
        "vocabulary": f"{model.max_vocab or 30_522:,} tokens",
        "layers, width": f"{model.n_layers}, {model.embedding_dim}",
        "batch, length": f"{run.batch_size}, {run.length}",
        "rate": f"{run.learning_rate:g}" + (", constant" if model.last_rate == 1 else ", falling"),
        "steps": f"{run.n_steps:,}",
        "tokens read": f"{run.n_steps * run.batch_size * run.length / 1e6:.1f} million",
        "decay x sum of rates": f"{model.weight_decay * rates:.2g}",
        "seeds": str(len({run.seed for run in runs})),
    }
    paper = {
        "text": "BookCorpus",
        "vocabulary": "30,522 tokens",
        "layers, width": "3, 128",
        "batch, length": "not given",
        "rate": "1e-4",
        "steps": "10 passes",
        "tokens read": "10 billion words",
        "decay x sum of rates": "2.2 to 4.0",
        "seeds": "not given",
    }
    program = paper | {
        "batch, length": "128, 128",
        "rate": "1e-4 to 1e-5 and back, by cosines",
        "steps": "3 passes, 1.2 million",
        "tokens read": "2 billion words",
        "decay x sum of rates": "0.67",
        "seeds": "1",
    }
    return pd.DataFrame({"paper": paper, "its program": program, "here": here}).rename_axis("")


@functools.cache
def scores() -> pd.DataFrame:
    """Validation scores along the way: spelling (of SPELLINGS), tying, seed, step, loss, accuracy,
    accuracy_either; of the three seeds more too, once they are stored."""
    more = natural.more_cosine_runs()
    if missing([natural.natural_text.cell(run) for run in more]):
        more = []
    table = natural.curves_of([*judged_runs(), *more])
    table = table.assign(tying=np.where(table["tied"], "tied", "untied"), spelling=_words_of(table))
    kept = ["spelling", "tying", "seed", "step", "loss", "accuracy", "accuracy_either"]
    return table[kept].astype({name: float for name in kept[4:]})


def _words_of(table: pd.DataFrame) -> pd.Series:
    return table["spelling"].map({name: words for words, name in SPELLINGS.items()})


@functools.cache
def stored_distances() -> pd.DataFrame:
    """:func:`distances` of all runs of the claim."""
    return distances(judged_runs())


def distances(runs: Sequence[NaturalRun]) -> pd.DataFrame:
    """Mean distances along the way, of kinds of pairs.

    Returns
    -------
    DataFrame
        spelling, matrix, pair (keys of SPELLINGS, MATRICES, PAIRS), seed, step, distance,
        cosine_distance, and each over that of unrelated pairs of the same moment, twin_ratio and
        cosine_ratio.
    """
    table = natural.curves_of(runs)
    parts = []
    for matrix, name in MATRICES.items():
        rows = table[table["tied"] == (name == "tied")]
        for pair, kind in PAIRS.items():
            columns = {
                "spelling": _words_of(rows),
                "matrix": matrix,
                "pair": pair,
                "seed": rows["seed"],
                "step": rows["step"],
                "distance": rows[f"{name}_{kind}"],
                "cosine_distance": rows[f"{name}_{kind}_cosine"],
                "twin_ratio": rows[f"{name}_{kind}"] / rows[f"{name}_unrelated"],
                "cosine_ratio": rows[f"{name}_{kind}_cosine"] / rows[f"{name}_unrelated_cosine"],
            }
            parts.append(pd.DataFrame(columns))
    table = pd.concat(parts, ignore_index=True)
    return table.astype({name: float for name in table.columns[5:]})


@functools.cache
def words() -> pd.DataFrame:
    """Frequent tokens of the text: token, word, count, twin (-1 without one), by falling count."""
    corpus = natural.natural_runs()[0].corpus
    return read(natural.natural_words.cell(natural.Words(corpus)))[0]


def run_of(matrix: str, spelling: str) -> NaturalRun:
    """The first stored run that has a matrix (a key of MATRICES), of a spelling (a key of SPELLINGS)."""
    wanted = (matrix == "tied", SPELLINGS[spelling])
    return next(run for run in judged_runs() if (run.tied, run.spelling) == wanted)


@functools.lru_cache(maxsize=16)
def named_rows(matrix: str, spelling: str) -> pd.DataFrame:
    """Rows of a stored matrix at the end, one row per word; a twin's name has a prime."""
    run, table = run_of(matrix, spelling), words()
    names = dict(zip(table["token"].tolist(), table["word"], strict=True))
    twins = table[table["twin"] >= 0]
    names |= {twin: word + PRIME for twin, word in zip(twins["twin"].tolist(), twins["word"], strict=True)}
    rows = pd.DataFrame(natural.stored_rows(run)[MATRICES[matrix]], index=natural.stored_tokens(run))
    rows = rows[rows.index.isin(list(names)) & ~rows.index.duplicated()]  # a small text keeps twins twice
    return rows.set_axis(rows.index.map(names))


def stored_pairs(matrix: str, spelling: str) -> pd.DataFrame:
    """Every pair at the end, of the first seed, by the rank of its first word.

    Returns
    -------
    DataFrame
        rank (1: the most frequent of the twinned words), pair ("twins" or "matched in count"), word (both),
        twin_ratio (distance over the mean of unrelated pairs).
    """
    pairs = natural.stored_pairs(run_of(matrix, spelling))
    pairs = pairs[pairs["matrix"] == MATRICES[matrix]]
    twinned = words().loc[words()["twin"] >= 0, "word"].to_list()
    unrelated = pairs.loc[pairs["kind"] == "unrelated", "distance"].mean()
    parts = []
    for pair in ("twins", "matched in count"):  # unrelated ones are paired at random: none comes first
        own = pairs[pairs["kind"] == PAIRS[pair]].sort_values("index")
        first = [twinned[i] for i in own["index"]]
        second = [w + PRIME for w in first] if pair == "twins" else [twinned[i + 1] for i in own["index"]]
        columns = {
            "rank": own["index"].to_numpy() + 1,
            "pair": pair,
            "word": [f"{u} – {v}" for u, v in zip(first, second, strict=True)],
            "twin_ratio": (own["distance"] / unrelated).to_numpy(),
        }
        parts.append(pd.DataFrame(columns))
    return pd.concat(parts, ignore_index=True)
