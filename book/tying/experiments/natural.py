"""Natural text: common tokens with a second spelling, in a masked language model.

Source: tying paper, appendix C.7 and Figure 11.
"""

from __future__ import annotations

import base64
import dataclasses
import functools
from collections.abc import Callable, Mapping, Sequence

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from book.ledger import findings
from book.ledger.cells import Cell, experiment, load, missing, read, training_run
from book.ledger.findings import Finding
from book.ledger.studies import Part, Study
from book.tying import wordpieces
from book.tying.experiments.parity import WEAK, even_cells, even_curves
from book.tying.experiments.spellings import FAIR
from book.tying.models.masked import MaskedConfig, MaskedLanguageModel
from embviz import metrics
from embviz.corpora import corpus as corpora
from embviz.training.loop import AdamW, train

P_MASK = 0.15
N_KEPT = 2_000  # most frequent tokens whose rows are stored
N_POINTS = 30  # snapshots of a run
N_NEIGHBOURS = 10


@dataclasses.dataclass(frozen=True)
class Setting:
    """A text in its tokens, and the sizes of the model for it."""

    source: str  # in the registry
    max_vocab: int | None  # the most frequent tokens, others are left out; None: the published vocabulary
    n_twins: int
    n_held: int  # last documents, for validation
    n_layers: int = 3
    embedding_dim: int = 128
    n_heads: int = 4
    hidden_dim: int = 512
    last_rate: float = 0.1  # over the first, by a cosine; the text names no schedule: 1
    weight_decay: float = 0.01

    def shape(self, vocab_size: int, *, positions: bool, length: int) -> MaskedConfig:
        return MaskedConfig(
            vocab_size,
            self.n_layers,
            self.embedding_dim,
            self.n_heads,
            self.hidden_dim,
            positions=positions,
            length=length,
        )


# "novels" has the paper's sizes. The small setting is one that a laptop can train for long enough: of a
# difference that the loss does not see, AdamW leaves exp(-weight decay * sum of the rates). That product is
# 0.7 in the authors' program (three passes over BookCorpus, about 1.2 million steps), 2 or more in the text
# (ten), 1.0 in the laptop's 25,000 steps at 4e-3, and 0.01 in 2,000 steps at 1e-3, where nothing moves yet.
SETTINGS = {
    "novels": Setting("novels", None, 100, 4),
    "novels in 2,000 pieces": Setting("novels", 2_000, 100, 4, 2, 32, 4, 128, last_rate=1.0),
    # 100,000 steps of it, the rate going down by one cosine: the product is 2.2
    "novels in 2,000 pieces, cosine": Setting("novels", 2_000, 100, 4, 2, 32, 4, 128),
    "embedded": Setting("embedded", 1_000, 20, 200, 1, 32, 2, 64),
}
UNDECAYED = ", no weight decay"
SETTINGS |= {
    name + UNDECAYED: dataclasses.replace(setting, weight_decay=0.0) for name, setting in SETTINGS.items()
}


@dataclasses.dataclass(frozen=True)
class NaturalRun:
    """One masked language model."""

    corpus: str  # a key of SETTINGS
    tied: bool
    seed: int
    spelling: str = "mixed"  # each occurrence in either spelling; "fixed": one spelling a document
    n_steps: int = 2_000
    batch_size: int = 16  # sequences
    length: int = 64  # tokens in a sequence
    learning_rate: float = 1e-3  # the paper's 1e-4 could move a coordinate by no more than 0.2 in 2,000 steps
    positions: bool = False
    precision: str = "float32"  # of the large products in training; evaluation is float32

    @property
    def setting(self) -> Setting:
        if self.corpus not in SETTINGS:
            raise ValueError(f"no setting {self.corpus!r}: choose one of {', '.join(SETTINGS)}")
        return SETTINGS[self.corpus]


@dataclasses.dataclass(frozen=True, eq=False)
class TwinnedText:
    """A text in which common tokens have twins: token ``common[i]`` and token ``first_twin + i``."""

    train: np.ndarray  # ids (N,) int32, unspelled: no twins yet
    valid: np.ndarray
    document: np.ndarray  # of each place of train, then of valid, (N + N_valid,)
    vocab_size: int  # twins included
    mask: int
    common: np.ndarray  # ids of the twinned tokens, (n,), by falling count
    counts: np.ndarray  # of every token in train, (V,)
    checksum: str

    @property
    def first_twin(self) -> int:
        return self.vocab_size - len(self.common)

    def spell(self, ids: np.ndarray, primed: np.ndarray) -> np.ndarray:
        """`ids` with common tokens replaced by their twins where `primed`, of the same shape, are true."""
        twin_of = np.arange(self.vocab_size, dtype=np.int32)
        twin_of[self.common] = np.arange(self.first_twin, self.vocab_size)
        return np.where(primed, twin_of[ids], ids)

    def unspell(self, ids: np.ndarray) -> np.ndarray:
        """`ids` with twins replaced by the tokens they stand for."""
        original = np.arange(self.vocab_size, dtype=np.int32)
        original[self.first_twin :] = self.common
        return original[ids]


@functools.lru_cache(maxsize=2)
def load_twinned_text(name: str) -> TwinnedText:
    """The text of a setting with its most common words twinned, its last documents held out.

    The paper curated a list of 100 common tokens that it does not print; here they are the most frequent
    ones that are whole alphabetic words.
    """
    setting, corpus = SETTINGS[name], _load_tokens(name)
    ids, vocabulary = corpus.ids.astype(np.int32), corpus.vocabulary
    cut = int(corpus.document_starts[-setting.n_held])
    document = np.repeat(np.arange(len(corpus.document_starts)), np.diff([*corpus.document_starts, len(ids)]))
    vocab_size = len(vocabulary) + setting.n_twins
    counts = np.bincount(ids[:cut], minlength=vocab_size)
    words = [i for i in np.argsort(-counts, kind="stable") if counts[i] and vocabulary[i].isalpha()]
    return TwinnedText(
        ids[:cut],
        ids[cut:],
        document.astype(np.int32),
        vocab_size,
        vocabulary.index(wordpieces.MASK),
        np.array(words[: setting.n_twins]),
        counts,
        corpus.checksum,
    )


def _load_tokens(name: str) -> corpora.Corpus:
    """The text of a setting in its vocabulary, the mask among it; no twins yet."""
    setting = SETTINGS[name]
    corpus = (
        corpora.load_corpus("embedded")
        if setting.source == "embedded"
        else wordpieces.load_pieces(setting.source)
    )
    if setting.max_vocab is not None:
        corpus = _keep_frequent(corpus, setting.max_vocab)
    if wordpieces.MASK in corpus.vocabulary:
        return corpus
    return dataclasses.replace(
        corpus, vocabulary=[*corpus.vocabulary, wordpieces.MASK], counts=np.append(corpus.counts, 0)
    )


def _keep_frequent(corpus: corpora.Corpus, n_tokens: int) -> corpora.Corpus:
    """The most frequent tokens, numbered by falling count; the places of the others are taken out."""
    order = np.argsort(-corpus.counts, kind="stable")
    rank = np.argsort(order, kind="stable")
    ranked = dataclasses.replace(
        corpus,
        ids=rank[corpus.ids],
        vocabulary=[corpus.vocabulary[i] for i in order],
        counts=corpus.counts[order],
    )
    return ranked.restrict(max_vocab=n_tokens, rare="drop")


@dataclasses.dataclass(frozen=True)
class MaskedBatch:
    """Sequences with some tokens masked."""

    tokens: Tensor  # (B, T)
    asked: Tensor  # where the model is asked, (B, T)
    answers: Tensor  # the tokens there, (n,)


def draw_batch(
    text: TwinnedText, run: NaturalRun, rng: np.random.Generator, *, n: int, held_out: bool = False
) -> MaskedBatch:
    """`n` sequences from random places, spelled and masked.

    As BERT's: of the places asked, 80% show the mask, 10% a random token, 10% the token itself.
    """
    ids = text.valid if held_out else text.train
    starts = rng.integers(len(ids) - run.length, size=n)
    places = starts[:, None] + np.arange(run.length)
    if run.spelling == "fixed":
        documents = text.document[places + (len(text.train) if held_out else 0)]
        primed = _document_spellings(len(text.common), int(text.document[-1]) + 1)
        rank = np.full(text.vocab_size, len(text.common))
        rank[text.common] = np.arange(len(text.common))
        spelled = text.spell(ids[places], primed[documents, rank[ids[places]]])
    else:
        spelled = text.spell(ids[places], rng.random(places.shape) < 0.5)
    asked = rng.random(places.shape) < P_MASK
    asked[0, 0] = True  # a batch that asks nothing has no loss
    kind = rng.random(places.shape)
    shown = np.where(asked & (kind < 0.8), text.mask, spelled)
    anything = rng.integers(text.vocab_size, size=places.shape)
    shown = np.where(asked & (kind >= 0.9), anything, shown)
    tokens, where = torch.from_numpy(shown.astype(np.int64)), torch.from_numpy(asked)
    return MaskedBatch(tokens, where, torch.from_numpy(spelled.astype(np.int64))[where])


def held_out_batches(text: TwinnedText, run: NaturalRun) -> list[MaskedBatch]:
    """The questions of validation, the same for every run of a spelling."""
    n = 16 if run.setting.source == "embedded" else 256
    rng = np.random.default_rng([7, 0])
    return [draw_batch(text, run, rng, n=16, held_out=True) for _ in range(n // 16)]


@functools.cache
def _document_spellings(n_common: int, n_documents: int) -> np.ndarray:
    """Whether a document writes the twin of a common token, (documents, common + 1); the last: no twin."""
    primed = np.random.default_rng(0).random((n_documents, n_common + 1)) < 0.5
    primed[:, -1] = False
    return primed


def twin_pairs(text: TwinnedText) -> dict[str, np.ndarray]:
    """Pairs of ids, (n, 2): twins; tokens that are not twins but nearly as frequent as each other
    (`matched`: neighbours in the order of counts); common tokens paired at random (`unrelated`)."""
    n = len(text.common)
    twins = np.stack([text.common, np.arange(text.first_twin, text.vocab_size)], axis=1)
    order = np.random.default_rng(0).permutation(n)
    return {
        "twins": twins,
        "matched": np.stack([text.common, np.roll(text.common, -1)], axis=1)[:-1],
        "unrelated": np.stack([text.common[order], text.common[np.roll(order, 1)]], axis=1),
    }


@experiment("tying.natural_text", threads=1)
def natural_text(config: NaturalRun) -> pd.DataFrame:
    """Train one model, and tabulate its snapshots and the rows of its embeddings at the end.

    Returns
    -------
    DataFrame
        step, quantity, value, row: scores and mean distances by step; at the end each pair's distance
        (``pair/input/twins/3``); and rows of the embeddings (``row/input``, value: the token's id, row: its
        coordinates as float16 in base 64) of the most frequent tokens and the twins.
    """
    text = load_twinned_text(config.corpus)
    shape = config.setting.shape(text.vocab_size, positions=config.positions, length=config.length)
    model = MaskedLanguageModel(shape, tied=config.tied, seed=config.seed)
    gauge = TextGauge(model, text, config)
    rate, last_rate = config.learning_rate, config.setting.last_rate * config.learning_rate
    decay = config.setting.weight_decay
    optimizer = AdamW(rate, last_rate, half_period=config.n_steps, weight_decay=decay, eps=1e-8)

    def losses(step: int) -> Tensor:
        rng = np.random.default_rng([config.seed, step])
        batch = draw_batch(text, config, rng, n=config.batch_size)
        with torch.autocast("cpu", torch.bfloat16, enabled=config.precision == "bfloat16"):
            return gauge.loss(batch)

    every = max(1, config.n_steps // N_POINTS)
    with training_run(natural_text.cell(config), {config.setting.source: text.checksum}) as (run, slices):
        for _ in train(
            model,
            losses,
            optimizer,
            n_steps=config.n_steps,
            snapshot_at=every,
            measure=lambda step: gauge.measure(),
            weights="none",  # the rows of interest are read off at the end
            names=[f"seed {config.seed}, {'tied' if config.tied else 'untied'}"],
            run=run,
        ):
            pass
        table = run.metrics().melt("step", var_name="quantity").assign(row="")
    table = pd.concat([table, gauge.final_rows(config.n_steps)], ignore_index=True)
    table = table.astype({"value": np.float32, "step": np.int32})
    table.attrs |= {"data": {config.setting.source: text.checksum}, "slices": slices}
    return table


class TextGauge:
    """Validation scores, and distances of pairs, of a model as it is now."""

    def __init__(self, model: MaskedLanguageModel, text: TwinnedText, config: NaturalRun) -> None:
        self.model, self.text, self.pairs = model, text, twin_pairs(text)
        self.valid = held_out_batches(text, config)

    def loss(self, batch: MaskedBatch) -> Tensor:
        """Mean cross entropy of the answers, nats, ()."""
        return torch.nn.functional.cross_entropy(self.model(batch.tokens, batch.asked), batch.answers)

    def measure(self) -> dict[str, float]:
        """Validation loss and accuracies, and mean distances raw and as cosines."""
        return {**self.scores(), **self.distances()}

    def scores(self) -> dict[str, float]:
        """On held-out text: loss (nats), accuracy, and accuracy where either spelling is right."""
        losses, right, either = [], [], []
        for batch in self.valid:
            logits = self.model(batch.tokens, batch.asked)
            guesses, answers = logits.argmax(1).numpy(), batch.answers.numpy()
            losses.append(torch.nn.functional.cross_entropy(logits, batch.answers, reduction="none"))
            right.append(guesses == answers)
            either.append(self.text.unspell(guesses) == self.text.unspell(answers))
        means = (torch.cat(losses).mean(), np.concatenate(right).mean(), np.concatenate(either).mean())
        return dict(zip(("loss", "accuracy", "accuracy_either"), map(float, means), strict=True))

    def matrices(self) -> dict[str, np.ndarray]:
        """The embeddings (V, D) by name: "tied", or "input" and "output"."""
        model = self.model
        if model.free_output is None:
            return {"tied": model.input_embedding.detach().numpy()}
        return {"input": model.input_embedding.detach().numpy(), "output": model.free_output.detach().numpy()}

    def distances(self) -> dict[str, float]:
        """Mean over pairs: Euclidean distance, and 1 - cosine."""
        found = {}
        for matrix, rows in self.matrices().items():
            for name, pairs in self.pairs.items():
                u, v = rows[pairs[:, 0]], rows[pairs[:, 1]]
                found[f"{matrix}_{name}"] = float(np.linalg.norm(u - v, axis=1).mean())
                found[f"{matrix}_{name}_cosine"] = float(1 - metrics.cosines(u, v).mean())
        return found

    def final_rows(self, step: int) -> pd.DataFrame:
        """Each pair's distance, and rows of the embeddings, as rows of the cell's table."""
        rows: list[tuple[int, str, float, str]] = []
        frequent = np.argsort(-self.text.counts, kind="stable")[:N_KEPT]
        kept = [*frequent, *range(self.text.first_twin, self.text.vocab_size)]
        for matrix, table in self.matrices().items():
            for name, pairs in self.pairs.items():
                apart = np.linalg.norm(table[pairs[:, 0]] - table[pairs[:, 1]], axis=1)
                rows += [(step, f"pair/{matrix}/{name}/{i}", float(d), "") for i, d in enumerate(apart)]
            packed = table[kept].astype("<f2")
            texts = [base64.b64encode(row.tobytes()).decode() for row in packed]
            rows += [
                (step, f"row/{matrix}", float(token), row) for token, row in zip(kept, texts, strict=True)
            ]
        return pd.DataFrame(rows, columns=["step", "quantity", "value", "row"])


@dataclasses.dataclass(frozen=True)
class Words:
    """The words of a text."""

    corpus: str  # a key of SETTINGS


@experiment("tying.natural_words", threads=1)
def natural_words(config: Words) -> pd.DataFrame:
    """The most frequent tokens as they are written, so that stored rows can be read without the text.

    Returns
    -------
    DataFrame
        token, word, count (in the training documents), twin (the id of its twin, -1 without one), by
        falling count.
    """
    text, vocabulary = load_twinned_text(config.corpus), _load_tokens(config.corpus).vocabulary
    frequent = np.argsort(-text.counts, kind="stable")[: min(N_KEPT, len(vocabulary))]
    twin = np.full(text.vocab_size, -1)
    twin[text.common] = np.arange(text.first_twin, text.vocab_size)
    table = pd.DataFrame({"token": frequent, "count": text.counts[frequent], "twin": twin[frequent]})
    table = table.astype(np.int32)
    table.insert(1, "word", [vocabulary[token] for token in frequent])
    table.attrs["data"] = {SETTINGS[config.corpus].source: text.checksum}
    return table


# --- from stored cells to findings ------------------------------------------------------------------------


def natural_runs(preset: str = "laptop") -> list[NaturalRun]:
    """Runs of a preset: both tyings, paired seeds; and the control that never mixes the spellings."""
    if preset == "quick":
        base = NaturalRun("embedded", False, 0, n_steps=60, batch_size=8, length=32, learning_rate=1e-2)
        seeds, fixed = (0, 1), (0,)
    elif preset == "laptop":
        base = NaturalRun("novels in 2,000 pieces", False, 0, n_steps=25_000, length=32, learning_rate=4e-3)
        seeds, fixed = (0, 1), (0,)
    else:  # a GPU's work for a day: as many steps as the authors' program makes, at the paper's rate
        base = NaturalRun(
            "novels", False, 0, n_steps=1_200_000, batch_size=128, length=128, learning_rate=1e-4
        )
        seeds, fixed = (0, 1), (0,)
    grid = [(seed, "mixed") for seed in seeds] + [(seed, "fixed") for seed in fixed]
    return [
        dataclasses.replace(base, tied=tied, seed=seed, spelling=spelling)
        for seed, spelling in grid
        for tied in (False, True)
    ]


def cosine_runs(preset: str = "laptop") -> list[NaturalRun]:
    """Runs of fresh seeds under one cosine, four times as long; none where the preset has a cosine anyway."""
    if preset != "laptop":
        return []
    base = NaturalRun(
        "novels in 2,000 pieces, cosine", False, 2, n_steps=100_000, length=32, learning_rate=4e-3
    )
    grid = [(seed, "mixed") for seed in (2, 3, 4)] + [(2, "fixed")]
    return [
        dataclasses.replace(base, tied=tied, seed=seed, spelling=spelling)
        for seed, spelling in grid
        for tied in (False, True)
    ]


def more_cosine_runs(preset: str = "laptop") -> list[NaturalRun]:
    """The same with mixed spellings from three seeds more, 5 to 7."""
    mixed = [run for run in cosine_runs(preset) if run.spelling == "mixed"]
    return [dataclasses.replace(run, seed=run.seed + 3) for run in mixed]


def judged_runs(preset: str = "laptop") -> list[NaturalRun]:
    """Runs under the cosine, once they are stored; until then the preset's."""
    fresh = cosine_runs(preset)
    waits = not fresh or missing([natural_text.cell(run) for run in fresh])
    return natural_runs(preset) if waits else fresh


def undecayed_runs(preset: str = "laptop") -> list[NaturalRun]:
    """The first runs of a preset without weight decay, for their first 25,000 steps at most."""
    return [
        dataclasses.replace(run, corpus=run.corpus + UNDECAYED, n_steps=min(run.n_steps, 25_000))
        for run in natural_runs(preset)
        if run.seed == 0 and run.spelling == "mixed"
    ]


def natural_cells(preset: str) -> list[Cell]:
    """Cells of a preset: its runs, those without weight decay, and the words of their text."""
    runs = [*natural_runs(preset), *undecayed_runs(preset)]
    return [*(natural_text.cell(run) for run in runs), natural_words.cell(Words(runs[0].corpus))]


def curves_of(runs: Sequence[NaturalRun]) -> pd.DataFrame:
    """Scores and mean distances along the way: one row per run and step, one column per quantity."""
    table = load([natural_text.cell(run) for run in runs])
    scalar = table[~table["quantity"].str.contains("/")]
    keys = ["corpus", "spelling", "tied", "seed", "step"]
    return (
        scalar.pivot(index=keys, columns="quantity", values="value").rename_axis(columns=None).reset_index()
    )


def stored_rows(run: NaturalRun) -> dict[str, np.ndarray]:
    """Embedding rows that a run's cell keeps, (2,000 + twins, D), by "input" and "output", or "tied"."""
    table, _ = read(natural_text.cell(run))
    found = {}
    for name, part in table[table["quantity"].str.startswith("row/")].groupby("quantity"):
        rows = [np.frombuffer(base64.b64decode(text), dtype="<f2") for text in part["row"]]
        found[str(name).removeprefix("row/")] = np.stack(rows).astype(float)
    return found


def stored_tokens(run: NaturalRun) -> np.ndarray:
    """Tokens whose rows :func:`stored_rows` returns, in the same order, (2,000 + twins,)."""
    table, _ = read(natural_text.cell(run))
    quantity = "row/tied" if run.tied else "row/input"
    return table.loc[table["quantity"] == quantity, "value"].to_numpy(dtype=np.int64)


def stored_pairs(run: NaturalRun) -> pd.DataFrame:
    """Distance of each pair at the end.

    Returns
    -------
    DataFrame
        matrix, kind ("twins", "matched" or "unrelated"), index (as in :func:`twin_pairs`), distance.
    """
    table, _ = read(natural_text.cell(run))
    pairs = table[table["quantity"].str.startswith("pair/")]
    parts = pairs["quantity"].str.split("/", expand=True)
    columns = {
        "matrix": parts[1],
        "kind": parts[2],
        "index": parts[3].astype(int),
        "distance": pairs["value"].astype(float),
    }
    return pd.DataFrame(columns).reset_index(drop=True)


def _gains(table: pd.DataFrame) -> pd.DataFrame:
    """Validation accuracy, tied minus untied, in points: one row per step, one column per seed."""
    tied, untied = (
        table[table["tied"] == tied].pivot(index="step", columns="seed", values="accuracy")
        for tied in (True, False)
    )
    return 100 * (tied - untied)


def _ratios(runs: Sequence[NaturalRun]) -> dict[str, Finding]:
    """Distance of twins over the distance of unrelated tokens at the end, by matrix."""
    table = curves_of(runs)
    corpus, found = str(table["corpus"].iloc[0]), {}
    end = table[table["step"] == table["step"].max()]
    for matrix, tied in (("input", False), ("output", False), ("tied", True)):
        rows = end[end["tied"] == tied].set_index("spelling")
        unrelated = rows[f"{matrix}_unrelated"]
        twins, matched = rows[f"{matrix}_twins"] / unrelated, rows[f"{matrix}_matched"] / unrelated
        controls = {"matched": float(matched["mixed"].mean()), "fixed": float(twins["fixed"].mean())}
        found[f"ratio_{matrix}"] = findings.over_seeds(
            twins["mixed"].to_numpy(), controls=controls, corpus=corpus
        )
    return found


def _cosine_cells(preset: str) -> list[Cell]:
    return [natural_text.cell(run) for run in cosine_runs(preset)]


def _cosine_findings(preset: str) -> dict[str, Finding]:
    runs = cosine_runs(preset)
    return {f"cosine_{name}": finding for name, finding in _ratios(runs).items()}


def _lead(runs: Sequence[NaturalRun]) -> dict[str, Finding]:
    """How far tied is ahead in accuracy a tenth in, and what is lost of that by the end; in points."""
    table = curves_of(runs)
    gain, corpus = _gains(table[table["spelling"] == "mixed"]), str(table["corpus"].iloc[0])
    early = gain.iloc[_a_tenth_in(gain)]
    return {
        "early_gain": findings.over_seeds(early.to_numpy(), corpus=corpus),
        "caught_up": findings.over_seeds((early - gain.iloc[-1]).to_numpy(), corpus=corpus),
    }


def _more_cells(preset: str) -> list[Cell]:
    return [natural_text.cell(run) for run in more_cosine_runs(preset)]


def _more_findings(preset: str) -> dict[str, Finding]:
    """Of the later seeds alone."""
    return {f"later_{name}": finding for name, finding in _lead(more_cosine_runs(preset)).items()}


def _a_tenth_in(gain: pd.DataFrame) -> int:
    """The row of the step next to a tenth of training."""
    return int(np.abs(gain.index.to_numpy() - gain.index.max() / 10).argmin())


def early_and_late(gain: pd.DataFrame) -> tuple[np.ndarray, np.ndarray]:
    """Means of gains (steps by runs) over the first tenth of training and over the last, (R,) each."""
    share = gain.index.to_numpy() / gain.index.max()
    early, late = (gain[at].mean().to_numpy() for at in ((share > 0) & (share <= 0.1), share > 0.9))
    return early, late


def _cosine_early_and_late(preset: str) -> dict[str, Finding]:
    """What tying gains early and costs late, in points of validation accuracy, where spellings are mixed."""
    early, late = early_and_late(text_gains(preset))
    corpus = cosine_runs(preset)[0].corpus
    return {
        "natural_early_gain": findings.over_seeds(early, corpus=corpus),
        "natural_late_cost": findings.over_seeds(-late, corpus=corpus),
    }


def even_gains(preset: str = "laptop") -> dict[str, pd.DataFrame]:
    """Accuracy on even strings, tied minus untied, in points, over steps (rows) and seeds (columns).

    Where the hypothesis is true strictly, and where it is true of 0A and 0B in its weak form alone.
    """
    table = even_curves(preset, [FAIR, WEAK])
    gains = {}
    for name, share in (("strictly true", FAIR), ("weakly true", WEAK)):
        rows = table[table["p_0a"] == share]
        untied, tied = (
            part.pivot(index="step", columns="seed", values="accuracy")
            for part in (rows[~rows["tied"]], rows[rows["tied"]])
        )
        gains[name] = 100 * (tied - untied)
    return gains


def text_gains(preset: str = "laptop") -> pd.DataFrame:
    """The same on natural text with mixed spellings; under the cosine, once those runs are stored."""
    table = curves_of(judged_runs(preset))
    return _gains(table[table["spelling"] == "mixed"])


def _weak_findings(preset: str) -> dict[str, Finding]:
    """What tying gains early where the hypothesis is weakly true; the control: strictly."""
    (fair_early, _), (early, _) = map(early_and_late, even_gains(preset).values())
    return {"even_early_gain": findings.over_seeds(early, controls={"strict": float(fair_early.mean())})}


def resemblance(runs: Sequence[NaturalRun], *, exchanged: bool = False) -> pd.DataFrame:
    """How a tied matrix compares with the matrices of untied models of the other seeds, spellings mixed.

    With `exchanged`, the rows of the tied matrix are in a random order: what unrelated rows have in common.

    Returns
    -------
    DataFrame
        seed, measure and the means of :func:`likeness`. "procrustes" is a disparity (small: alike),
        "neighbours" the number shared among the ten nearest by cosine (large: alike).
    """
    mixed = [run for run in runs if run.spelling == "mixed"]
    stored = {(run.seed, run.tied): stored_rows(run) for run in mixed}
    seeds = sorted({run.seed for run in mixed})
    tied = [stored[seed, True]["tied"] for seed in seeds]
    if exchanged:
        tied = [np.random.default_rng(seed).permutation(E) for seed, E in zip(seeds, tied, strict=True)]
    untied = {matrix: [stored[seed, False][matrix] for seed in seeds] for matrix in ("input", "output")}
    shapes = likeness(tied, untied, metrics.procrustes_disparity)
    near = {matrix: [nearest_rows(E) for E in tables] for matrix, tables in untied.items()}
    neighbours = likeness([nearest_rows(E) for E in tied], near, shared_neighbours)
    parts = [shapes.assign(measure="procrustes"), neighbours.assign(measure="neighbours")]
    return pd.concat([part.assign(seed=seeds) for part in parts], ignore_index=True)


def likeness(
    tied: Sequence[np.ndarray],
    untied: Mapping[str, Sequence[np.ndarray]],
    compare: Callable[[np.ndarray, np.ndarray], float],
) -> pd.DataFrame:
    """A measure of likeness between tied matrices and the untied input and output matrices of other seeds.

    Parameters
    ----------
    tied, untied : sequence of array, (V, D)
        One per seed, in the same order; untied ones by "input" and "output".

    Returns
    -------
    DataFrame
        A row per seed. ``to_input``, ``to_output``: means of its tied matrix over the untied ones of the
        other seeds; ``from_input``, ``from_output``: of its untied one over the others' tied matrices.
    """
    columns: dict[str, np.ndarray] = {}
    for matrix, others in untied.items():
        pairs = np.array([[compare(mine, other) for other in others] for mine in tied])
        np.fill_diagonal(pairs, np.nan)  # a seed's two models share their first weights
        columns |= {f"to_{matrix}": np.nanmean(pairs, 1), f"from_{matrix}": np.nanmean(pairs, 0)}
    return pd.DataFrame(columns)


def nearest_rows(rows: np.ndarray) -> np.ndarray:
    """The :data:`N_NEIGHBOURS` rows of (n, D) nearest to each by cosine, itself left out, (n, k)."""
    unit = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    cosines = unit @ unit.T
    np.fill_diagonal(cosines, -np.inf)
    return np.argpartition(-cosines, N_NEIGHBOURS, axis=1)[:, :N_NEIGHBOURS]


def shared_neighbours(one: np.ndarray, other: np.ndarray) -> float:
    """Mean number of nearest rows, (n, k) in any order, that two matrices have in common."""
    return float((one[:, :, None] == other[:, None, :]).sum(axis=(1, 2)).mean())


STUDIES: dict[str, Study] = {
    "tying.natural": Study(
        _cosine_cells,
        _cosine_findings,
        needs="BookCorpus is not published any more: 42 novels stand in",
        beside=natural_cells,
        parts=(Part(_more_cells, _more_findings),),
    ),
    "tying.weakly_held": Study(
        lambda preset: even_cells(preset, [FAIR, WEAK]),
        _weak_findings,
        parts=(Part(_cosine_cells, _cosine_early_and_late),),
    ),
}
