"""Your model in one call: a table of measurements of its weights, each beside its control."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import torch
from torch import Tensor, nn
from tqdm.auto import tqdm

from embviz.arrays import check_int
from embviz.corpora.tokens import token_kinds
from embviz.files.pretrained import evaluating
from embviz.files.weights import Weights
from embviz.inspection import causal_models, findings, measures, roles, vocabulary
from embviz.inspection.measures import Measured
from embviz.inspection.model_texts import (
    ModelText,
    cut_strings,
    first_token,
    model_text,
    tokens_per_byte,
)
from embviz.inspection.tables import MeasuredTable, measure_table
from embviz.inspection.token_kernels import kernel_of
from embviz.inspection.weight_files import read_weights
from embviz.metrics import bootstrap_interval
from embviz.words.wordvectors import token_names

EMBEDDING, OUTPUT, POSITIONS, BOTH = "embedding", "output", "positions", "embedding and output"
NOT = "not applicable: "
COLUMNS = (
    *("part", "layer", "head", "quantity", "value", "low", "high"),
    *("null", "null_low", "null_high", "n_rows", "note"),
)
UNDERTRAINED = "under-trained tokens"
N_DRAWS = 5  # of each control that is drawn
N_SHOWN = 12  # tokens whose neighbours are shown
N_EXTREMES = 10  # rows of each end
N_TWINS = 100  # pairs of each sort
NEAREST = "cosine with the nearest"
N_NEIGHBORS = 5  # nearest rows of a token that are shown
LONGEST = 60  # letters of a token that are shown
TYING = ("LMHeadModel", "ForCausalLM", "ForMaskedLM", "ForConditionalGeneration", "ForPreTraining")


@dataclass(frozen=True, eq=False)
class Inspection:
    """What :func:`inspect` found.

    Parameters
    ----------
    name : str
        Of the model.
    vocab_size, embedding_dim : int
        V and D of the embedding; 0 without one.
    tied : bool or None
        Whether input and output embedding are one; None where there is no saying.
    why : str
        How that is known.
    table : DataFrame
        A row a number: part, layer, head, quantity, value, its 95% interval over rows (low, high) where it
        is a mean over rows, the control's mean and range over draws (null, null_low, null_high; one number
        where it is known by formula), the rows that were measured, and a note: what does not apply says so
        there, and a loss whether a first token was given. "embedding, centred" is the embedding with its mean
        row taken off.
    neighbors : DataFrame
        token, neighbor, cosine, and the control: the mean largest cosine of rows that take each column from
        another random row.
    extremes : DataFrame
        token, row, length and deviation of the shortest and the longest rows of the embedding: how far the
        length is from the median, in median absolute deviations.
    spectra : dict of str to pair of arrays
        Singular values of the embedding and the output matrix, as they are and centred, over their edge, and
        those of independent entries.
    lengths : array, (V,)
        Of all rows of the embedding.
    rows : array of int
        Rows of the embedding whose nearest rows were looked for among all rows.
    vectors : array, (len(rows), D)
    tokens : list of str
        Of these rows.
    kinds : DataFrame
        Kinds of tokens with their rows' lengths and isotropy, see
        :func:`~embviz.inspection.vocabulary.kinds_table`; empty without a tokenizer.
    undertrained : DataFrame
        token, row, kind and distance of tokens in use whose rows are as near to the unused tokens' as these
        are to each other, the nearest first.
    twins : DataFrame
        Pairs of tokens that differ by a leading space, a capital or a plural's s: sort, token, twin, cosine,
        and whether each is the other's nearest among all rows (mutual).
    distances : dict of str to array
        Cosine distances from the unused tokens, of "tokens in use" and of "unused tokens, held out".
    vocabulary : list of str
        Tokens of all rows; empty without a tokenizer.
    counts : array, (V,)
        How often each token comes in the text; empty without a text.
    facts : dict
        What `describe` says: numbers, family, layers, heads.
    weights : Weights, optional
        The model's arrays, to measure more.
    names : dict of str to str or None
        Names of the embedding and the output matrix among them.
    """

    name: str
    vocab_size: int
    embedding_dim: int
    tied: bool | None
    why: str
    table: pd.DataFrame
    neighbors: pd.DataFrame
    extremes: pd.DataFrame
    spectra: dict[str, tuple[np.ndarray, np.ndarray]]
    lengths: np.ndarray
    rows: np.ndarray
    vectors: np.ndarray
    tokens: list[str]
    kinds: pd.DataFrame = field(default_factory=pd.DataFrame)
    undertrained: pd.DataFrame = field(default_factory=pd.DataFrame)
    twins: pd.DataFrame = field(default_factory=pd.DataFrame)
    distances: dict[str, np.ndarray] = field(default_factory=dict)
    vocabulary: list[str] = field(default_factory=list)
    counts: np.ndarray = field(default_factory=lambda: np.empty(0, dtype=np.int64))
    facts: dict[str, Any] = field(default_factory=dict)
    weights: Weights | None = None
    names: dict[str, str | None] = field(default_factory=dict)

    @property
    def description(self) -> str:
        """What the model is, in plain words."""
        return findings.describe(self)

    @property
    def terms(self) -> dict[str, str]:
        """What each quantity and term of the report is, in one or two sentences."""
        return findings.TERMS

    @property
    def headlines(self) -> list[findings.Headline]:
        """The five quantities that matter most, each with its control."""
        return findings.headlines(self.table)

    @property
    def unusual(self) -> list[tuple[str, float]]:
        """The three most unusual findings, and by how many median deviations."""
        return findings.unusual(self)

    @property
    def sentence(self) -> str:
        """What the model is, in a few words."""
        if not self.vocab_size:
            return f"{self.name}: {self.why}."
        how = {True: "tied", False: "not tied", None: "tied or without a head, which cannot be told"}[
            self.tied
        ]
        rows = len(self.rows)
        sample = (
            ""
            if rows == self.vocab_size
            else f"; the nearest row was found for {rows:,} of them, drawn at random"
        )
        return (
            f"{self.name}: {self.vocab_size:,} tokens in {self.embedding_dim:,} dimensions, {how} "
            f"({self.why}). All rows of the embedding were measured{sample}."
        )

    def summary(self) -> pd.DataFrame:
        """The table to read: intervals, ranges of controls, without single heads."""
        rows = self.table[self.table["head"].isna()]
        found = [
            {
                "part": row.part if pd.isna(row.layer) else f"{row.part} of layer {row.layer}",
                "quantity": row.quantity,
                "value": row.note if row.note.startswith(NOT) else _with_note(row),
                "control": ""
                if row.note.startswith(NOT)
                else _written(row.null, row.null_low, row.null_high),
                "rows": "" if row.note.startswith(NOT) else f"{row.n_rows:,}",
            }
            for row in (
                SimpleNamespace(**{str(k): v for k, v in record.items()})
                for record in rows.to_dict("records")
            )
        ]
        return pd.DataFrame(found)

    def _ipython_display_(self) -> None:
        """In a notebook the page of :func:`embviz.view.inspection_page`; without charts the description."""
        try:
            from embviz.view import inspection_page
        except ImportError:
            print(self.description)
        else:
            inspection_page(self, progress=True)._ipython_display_()


def _with_note(row: Any) -> str:
    """A number with its interval, and its note behind it."""
    number = _written(row.value, row.low, row.high)
    return f"{number}; {row.note}" if row.note else number


def _written(value: float, low: float, high: float) -> str:
    """A number and its range, three digits."""
    return f"{value:.3g}" if math.isnan(low) or low == high else f"{value:.3g} ({low:.3g} to {high:.3g})"


@dataclass
class _Table:
    """Rows of the table as they come."""

    seed: int
    progress: bool = False
    rows: list[dict[str, Any]] = field(default_factory=list)

    def add(
        self,
        part: str,
        found: Iterable[Measured],
        n_rows: int,
        *,
        layer: float = math.nan,
        head: float = math.nan,
        note: str = "",
    ) -> None:
        for one in found:
            null = one.null
            self.rows.append(
                {
                    "part": part,
                    "layer": layer,
                    "head": head,
                    "quantity": one.quantity,
                    "value": one.value,
                    "low": one.interval[0],
                    "high": one.interval[1],
                    "null": float(null.mean()),
                    "null_low": float(null.min()),
                    "null_high": float(null.max()),
                    "n_rows": n_rows,
                    "note": note,
                }
            )

    def refuse(self, part: str, quantity: str, why: object, *, layer: float = math.nan) -> None:
        """A number that isn't there, and why."""
        self.rows.append({"part": part, "layer": layer, "quantity": quantity, "note": f"{NOT}{why}"})

    def measure(
        self,
        part: str,
        name: str,
        measure: Callable[..., list[Measured]],
        *tables: np.ndarray,
        layer: float = math.nan,
        head: float = math.nan,
    ) -> None:
        try:
            found = measure(*tables, n_draws=N_DRAWS, seed=self.seed)
        except (ValueError, MemoryError) as error:  # NaN, all zeros: of this part alone
            self.refuse(part, name, error, layer=layer)
        else:
            self.add(part, found, len(tables[0]), layer=layer, head=head)

    @property
    def frame(self) -> pd.DataFrame:
        numbers = dict.fromkeys(("layer", "head", "n_rows"), "Int64")
        return pd.DataFrame(self.rows, columns=list(COLUMNS)).astype(numbers)


def inspect(
    model: Any,
    tokenizer: Any = None,
    corpus: Any = None,
    *,
    n_heads: int | None = None,
    max_rows: int = 500,
    n_batches: int = 8,
    n_tokens: int = 256,
    seed: int = 0,
    progress: bool = False,
) -> Inspection:
    """The weights of a model: what is there beyond numbers in random places?

    Parameters
    ----------
    model : nn.Module, mapping of names to arrays, or path
        As for :func:`~embviz.inspection.weight_files.read_weights`: a module of any kind, a folder of Hugging
        Face, a file of safetensors, of GGUF, of PyTorch.
    tokenizer : a tokenizer of Hugging Face or ``tokenizers``, or a list of tokens, optional
        Names the rows; neighbours are shown with it.
    corpus : text, path or Corpus, optional
        For the kernel of tied embeddings, and for the next-token loss where the model is a causal language
        model: a module from ids to logits, or a folder of Hugging Face with safetensors or a GGUF file, which
        Transformers loads, in the precision in which it is stored. A text needs a tokenizer that cuts it, a
        Corpus one that knows its words.
    n_heads : int, optional
        Heads of queries, where neither configuration nor module says.
    max_rows : int
        Rows whose nearest rows are looked for among all rows; of larger tables so many are drawn. All else is
        measured on all rows.
    n_batches, n_tokens : int
        Strings of the text, evenly spread, whose next-token loss is taken, and tokens of each. Its control is
        the loss of the tokens' shares of the text. Where the tokenizer puts a token before a text
        (Gemma's ``<bos>``), every string begins with it.
    seed : int
        Of drawn rows, of controls and of intervals.
    progress : bool, default False
        Whether bars show how far it is.

    Returns
    -------
    Inspection

    Raises
    ------
    ValueError
        If the model can't be read.
    FileNotFoundError
        If there is no such file.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> found = inspect({"wte.weight": rng.normal(size=(50, 8)), "lm_head.weight": rng.normal(size=(50, 8))})
    >>> found.tied, found.table.loc[0, "quantity"]
    (False, 'beyond the edge')
    """
    weights = read_weights(model)
    table = _Table(seed, progress)
    embedding = roles.find_embedding(weights)
    names = {EMBEDDING: embedding, OUTPUT: roles.find_output(weights, embedding)}
    V, D = weights.arrays[embedding].shape if embedding else (0, 0)
    rows = _sample(V, check_int(max_rows, "max_rows", low=4), seed)
    tied, why = _tied(weights, embedding, names[OUTPUT], rows)
    known = None if tokenizer is None or embedding is None else token_names(tokenizer, V)
    n_batches, n_tokens = check_int(n_batches, "n_batches", low=1), check_int(n_tokens, "n_tokens", low=2)
    with tqdm(total=4, disable=not progress, leave=False) as bar:
        bar.set_description("all rows of the embedding")
        found = _measure_tables(table, weights, names, rows, tied)
        _measure_positions(table, weights)
        _next(bar, "layers")
        n_layers = _measure_attention(table, weights, n_heads)
        _next(bar, "kinds of tokens, twins")
        own = found.get(EMBEDDING)
        neighbors = _neighbors(table, own, known, embedding)
        of_tokens = _measure_vocabulary(table, weights, names, found, known)
        _next(bar, "text")
        text = model_text(weights, embedding, tokenizer, corpus)
        _measure_kernel(table, weights, embedding, tied, text)
        _measure_text(table, weights, model, text, tokenizer, (n_batches, n_tokens))
    spectra = {
        part if kind == "raw" else f"{part}, {kind}": values
        for part, one in found.items()
        for kind, values in one.spectra.items()
    }
    nothing = np.empty(0)
    return Inspection(
        weights.name, V, D, tied, why, table.frame, neighbors,
        extremes=_extremes(nothing if own is None else own.moments.lengths, known),
        spectra=spectra,
        lengths=nothing if own is None else own.moments.lengths,
        rows=nothing.astype(int) if own is None else own.rows,
        vectors=np.empty((0, D)) if own is None else own.vectors,
        tokens=[] if own is None else [_name_of(known, row) for row in own.rows.tolist()],
        vocabulary=[_name_of(known, row) for row in range(V)] if known else [],
        counts=_counts(text, V),
        facts=findings.facts_of(weights, n_layers, *_heads(weights, n_heads)),
        weights=weights,
        names=names,
        **of_tokens,
    )  # fmt: skip


def _next(bar: Any, name: str) -> None:
    bar.update()
    bar.set_description(name)


def _counts(text: ModelText | str, vocab_size: int) -> np.ndarray:
    """How often each row's token comes in the text; empty without one."""
    if isinstance(text, str):
        return np.empty(0, dtype=np.int64)
    found = np.zeros(vocab_size, dtype=np.int64)
    found[: len(text.counts)] = text.counts
    return found


def _sample(n: int, most: int, seed: int) -> np.ndarray:
    """Sorted rows, all of them or so many drawn."""
    if n <= most:
        return np.arange(n)
    return np.sort(np.random.default_rng(seed).choice(n, size=most, replace=False))


def _tied(
    weights: Weights, embedding: str | None, output: str | None, rows: np.ndarray
) -> tuple[bool | None, str]:
    if embedding is None:
        return None, roles.no_embedding(weights)
    if output is not None:
        first, second = weights.arrays[embedding], weights.arrays[output]
        if first is second or (first.key is not None and first.key == second.key):
            return True, "one array in memory"
        if first.shape != second.shape:
            return False, f"shapes {first.shape} and {second.shape} differ"
        same = np.array_equal(first.read(rows), second.read(rows))
        return same, f"the {len(rows):,} rows looked at are {'equal' if same else 'different'}"
    if (said := weights.config.get("tie_word_embeddings")) is not None and _has_head(weights):
        if said:
            return True, "the configuration says so"
        return None, "the configuration says it is not tied, and no output matrix was found"
    if _has_head(weights):
        return True, "the architecture has a head, the weights hold no matrix for it"
    return None, "no output matrix was found"


def _has_head(weights: Weights) -> bool:
    architectures = weights.config.get("architectures") or [type(weights.module).__name__]
    if "architectures" not in weights.config and weights.module is None:
        return weights.config.get("tie_word_embeddings") is True  # GGUF
    return any(name.endswith(TYING) for name in architectures)


# --- tables -----------------------------------------------------------------------------------------


def _measure_tables(
    table: _Table, weights: Weights, names: Mapping[str, str | None], rows: np.ndarray, tied: bool | None
) -> dict[str, MeasuredTable]:
    """Embedding and output matrix, of all rows."""
    found: dict[str, MeasuredTable] = {}
    for part in (EMBEDDING, OUTPUT):
        name = names[part]
        if name is None or (part == OUTPUT and tied):
            table.refuse(
                part, "all", "the model is tied, see the embedding" if tied else f"no {part} matrix found"
            )
            continue
        array, V = weights.arrays[name], weights.arrays[names[EMBEDDING] or name].shape[0]
        own = rows if array.shape[0] == V else _sample(array.shape[0], max(len(rows), 4), table.seed)
        try:
            one = measure_table(array, own, n_draws=N_DRAWS, seed=table.seed, n_neighbors=N_NEIGHBORS)
        except (ValueError, MemoryError) as error:  # NaN, all zeros: of this part alone
            table.refuse(part, "all", error)
            continue
        found[part] = one
        for label, measured in ((part, one.raw), (f"{part}, centred", one.centred)):
            for each in measured:
                sampled = each.quantity == NEAREST
                table.add(label, [each], len(one.rows) if sampled else array.shape[0])
    if len(found) == 2:
        pair = [weights.arrays[str(names[part])].read(found[EMBEDDING].rows) for part in (EMBEDDING, OUTPUT)]
        table.measure(BOTH, "rows compared", measures.paired_measures, *pair)
    else:
        table.refuse(BOTH, "rows compared", "there are no two matrices")
    return found


def _measure_spectrum(
    table: _Table, part: str, matrix: np.ndarray, *, layer: float = math.nan, head: float = math.nan
) -> None:
    def measure(rows: np.ndarray, *, n_draws: int, seed: int) -> list[Measured]:
        return measures.spectrum_measures(rows, n_draws=n_draws, seed=seed, with_control=False)[0]

    table.measure(part, "spectrum", measure, matrix, layer=layer, head=head)


def _measure_positions(table: _Table, weights: Weights) -> None:
    name = roles.find_positions(weights)
    if name is None:
        return table.refuse(POSITIONS, "all", "no table of positions found")
    positions = weights.arrays[name].read()
    _measure_spectrum(table, POSITIONS, positions)
    return table.measure(POSITIONS, "smoothness", measures.order_measures, positions)


def _heads(weights: Weights, n_heads: int | None) -> tuple[int | None, int | None]:
    """Heads of queries, and of keys and values; what is given goes first."""
    known, n_kv = roles.heads_of(weights)
    return n_heads or known, n_kv or n_heads or known


def _measure_attention(table: _Table, weights: Weights, n_heads: int | None) -> int:
    """Queries, keys and values, a layer at a time; how many layers there are."""
    try:
        maps = roles.attention_maps(weights, *_heads(weights, n_heads))
    except ValueError as error:
        table.refuse("Q, K, V", "all", error)
        return 0
    if not maps:
        table.refuse("Q, K, V", "all", "no queries, keys and values recognised by their names")
        return 0
    n_layers = max(one.layer for one in maps) + 1
    for one in _shown(table, maps, "Q, K, V"):
        matrix = one.array.read()
        _measure_spectrum(table, one.kind, matrix, layer=one.layer)
        if not one.n_heads or len(matrix) % one.n_heads:
            table.refuse(
                one.kind, "by head", "the number of heads is not known: give n_heads", layer=one.layer
            )
            continue
        if one.n_heads > 1:
            for head, part in enumerate(np.split(matrix, one.n_heads)):
                _measure_spectrum(table, one.kind, part, layer=one.layer, head=head)
    for one in _shown(table, roles.layer_matrices(weights, n_layers), "O, MLP"):
        _measure_spectrum(table, one.kind, one.array.read(), layer=one.layer)
    return n_layers


def _shown(table: _Table, maps: list[roles.AttentionMap], name: str) -> Iterable[roles.AttentionMap]:
    """The matrices one after the other, with a bar."""
    return tqdm(maps, desc=name, disable=not table.progress, leave=False)  # type: ignore[no-any-return]


# --- tokens, kernel, loss ------------------------------------------------------------------------------


def _name_of(known: list[str] | None, row: int) -> str:
    return f"[row {row}]" if known is None else _legible(known[row], row)


def _neighbors(
    table: _Table, found: MeasuredTable | None, known: list[str] | None, name: str | None
) -> pd.DataFrame:
    """Nearest rows of some tokens among all rows, beside the mean of the control."""
    empty = pd.DataFrame(columns=["token", "neighbor", "cosine", "control"])
    if known is None or found is None:
        table.refuse(
            "tokens", "neighbours", "no embedding found" if name is None else "no tokenizer was given"
        )
        return empty
    rows = found.rows.tolist()
    words = [place for place, row in enumerate(rows) if sum(map(str.isalpha, known[row])) >= 4]
    words = words or list(range(len(rows)))
    rng = np.random.default_rng(table.seed)
    asked = np.sort(rng.choice(words, size=min(N_SHOWN, len(words)), replace=False)).tolist()
    control = float(found.control.cosines[:, 0].mean())
    near = [
        {
            "token": _name_of(known, rows[place]),
            "neighbor": _name_of(known, other),
            "cosine": cosine,
            "control": control,
        }
        for place in asked
        for other, cosine in zip(
            found.nearest.rows[place].tolist(), found.nearest.cosines[place].tolist(), strict=True
        )
    ]
    return pd.DataFrame(near, columns=empty.columns)


def _measure_vocabulary(
    table: _Table,
    weights: Weights,
    names: Mapping[str, str | None],
    found: Mapping[str, MeasuredTable],
    known: list[str] | None,
) -> dict[str, Any]:
    """Kinds of tokens, under-trained tokens and twins: fields of an `Inspection`."""
    if known is None or EMBEDDING not in found:
        return {}
    array, moments = weights.arrays[str(names[EMBEDDING])], found[EMBEDDING].moments
    kinds = token_kinds(known)
    shown: dict[str, Any] = {"kinds": vocabulary.kinds_table(array, moments, kinds)}
    output = found.get(OUTPUT)
    fitting = output is not None and output.moments.n_rows == moments.n_rows
    judged = (weights.arrays[str(names[OUTPUT])], output.moments) if output and fitting else (array, moments)
    try:
        rare = vocabulary.undertrained_tokens(*judged, kinds, n_draws=N_DRAWS, seed=table.seed)
    except ValueError as error:
        table.refuse(UNDERTRAINED, "unused tokens told apart", error)
    else:
        table.add(
            UNDERTRAINED,
            [rare.auc],
            int(rare.held_out.sum()),
            note=f"{len(rare.candidates):,} tokens in use are as near",
        )
        rows = rare.candidates
        shown["distances"] = {
            "tokens in use": rare.distances[rare.in_use],
            "unused tokens, held out": rare.distances[rare.held_out],
        }
        shown["undertrained"] = pd.DataFrame(
            {
                "token": [_name_of(known, row) for row in rows.tolist()],
                "row": rows,
                "kind": [kinds[row] for row in rows.tolist()],
                "distance": rare.distances[rows],
            }
        )
    pairs = vocabulary.twin_pairs(known, most=N_TWINS, seed=table.seed)
    shares, twins = vocabulary.twin_measures(array, moments, pairs)
    for share, n_pairs in shares:
        table.add("twins", [share], n_pairs)
    named = {
        column: [_name_of(known, row) for row in twins[place].tolist()]
        for column, place in (("token", "first"), ("twin", "second"))
    }
    shown["twins"] = twins.assign(**named)[["sort", "token", "twin", "cosine", "mutual"]]
    return shown


def _extremes(lengths: np.ndarray, known: list[str] | None) -> pd.DataFrame:
    """The shortest and the longest rows, and how far their lengths are from the median."""
    order = np.argsort(lengths, kind="stable")
    rows = np.concatenate([order[:N_EXTREMES], order[max(N_EXTREMES, len(order) - N_EXTREMES) :]])[
        : len(order)
    ]
    middle = float(np.median(lengths)) if len(lengths) else math.nan
    scale = float(np.median(np.abs(lengths - middle))) if len(lengths) else math.nan
    return pd.DataFrame(
        {
            "token": [_name_of(known, row) for row in rows.tolist()],
            "row": rows,
            "length": lengths[rows],
            "deviation": (lengths[rows] - middle) / scale if scale else np.zeros(len(rows)),
        }
    )


def _legible(token: str, row: int) -> str:
    """A token that a page can show: a long one is cut, half a character is spelled out."""
    legible = token.encode("utf-8", "backslashreplace").decode()
    return token if legible == token and len(token) <= LONGEST else f"{legible[:LONGEST]}… [row {row}]"


def _measure_kernel(
    table: _Table,
    weights: Weights,
    name: str | None,
    tied: bool | None,
    text: ModelText | str,
) -> None:
    """The kernel between log counts and the Gram matrix of the most frequent tokens."""
    if name is None or tied is False:
        text = "the kernel is defined for tied embeddings"
    if isinstance(text, str):
        return table.refuse("kernel", "circulant score", text)
    try:
        found = kernel_of(text, weights.arrays[str(name)], seed=table.seed)
    except (ValueError, MemoryError) as error:
        return table.refuse("kernel", "circulant score", error)
    return table.add("kernel", [Measured("circulant score", found.score, found.controls)], len(found.rows))


def _measure_text(
    table: _Table,
    weights: Weights,
    source: Any,
    text: ModelText | str,
    tokenizer: Any,
    sizes: tuple[int, int],
) -> None:
    """The next-token loss on a text."""
    try:
        if isinstance(text, str):
            raise ValueError(text)
        causal_models.require_room(weights, sizes[1])
        first = first_token(tokenizer)
        strings = cut_strings(text, weights, *sizes, first)
        module = causal_models.causal_model(weights, source, stored_precision=True)
        losses = _losses_of(table, module, strings)
    except Exception as error:
        why = (str(error).strip() or type(error).__name__).splitlines()[0]
        return table.refuse("next token", "loss", why)
    bits = _loss_in_bits(losses, strings, text.counts, table.seed)
    per_byte = tokens_per_byte(tokenizer, strings)
    each = [bits, *([_scaled(bits, per_byte, "next-token loss, bits a byte")] if per_byte else [])]
    note = "no first token was given"
    if first is not None:
        token = token_names(tokenizer, first + 1)[first]
        note = f"each string begins with {token!r}, as the tokenizer asks"
    note += f"; perplexity {2**bits.value:.1f} a token"
    return table.add("next token", each, sum(string.shape[1] - 1 for string in strings), note=note)


def _losses_of(table: _Table, module: nn.Module, strings: list[Tensor]) -> list[float]:
    """The next-token loss of each string, in nats."""
    device = next(module.parameters()).device
    with evaluating(module):
        causal_models.require_causal(module, strings[0][:, 1:].to(device))
        with torch.no_grad():
            return [
                causal_models.next_token_loss(module, string.to(device)).item()
                for string in tqdm(strings, desc="loss", disable=not table.progress, leave=False)
            ]


def _scaled(one: Measured, factor: float, quantity: str) -> Measured:
    low, high = one.interval
    return Measured(quantity, one.value * factor, one.null * factor, (low * factor, high * factor))


def _loss_in_bits(losses: list[float], strings: list[Tensor], counts: np.ndarray, seed: int) -> Measured:
    """Losses of strings, in nats, and the loss of the text's own token frequencies, as a control."""
    bits = np.array(losses) / math.log(2)
    targets = torch.cat([string[0, 1:] for string in strings]).numpy()
    null = -np.log2(counts[targets] / counts.sum()).mean()
    interval = bootstrap_interval(bits, seed=seed) if len(bits) > 1 else (math.nan, math.nan)
    return Measured("next-token loss, bits a token", float(bits.mean()), np.array([null]), interval)
