"""What the chapter on orthogonal embeddings measures and draws: cosines, a film of W, diagnostics."""

from __future__ import annotations

import functools
import math

import altair as alt
import numpy as np
import pandas as pd
from scipy import special, stats

from book.kernel.experiments import models, orthogonality
from book.kernel.experiments.extracted import off_diagonal, random_embeddings
from book.kernel.experiments.fits import cosines
from book.kernel.experiments.models import Trained
from book.kernel.experiments.runs import KernelRun, embedding, minigpt
from embviz import kernels
from embviz.ledger import findings, studies
from embviz.ledger.cells import table_of
from embviz.view import charts, plot_histogram, theme
from embviz.view.player import BACKGROUND, FRAME, HISTORY
from embviz.view.text_titles import in_short
from embviz.words.cooccurrence import pmi

RATIO, DIAGONAL, MEANING = QUANTITIES = (
    "mean |cosine| / random",
    "share on the diagonal",
    "rank correlation with PMI",
)
RANDOM, MOST = "random vectors", "most that is possible"
N_KINDS = 6  # two tied starts, an untied model's input and output, random vectors, a bound
DIAGNOSTICS = {
    "k0_fft": "cosine with the derived k0",
    "identity": "cosine with the identity's k0",
    "train_loss": "training loss",
    "weight_norm": "norm of all weights",
    "update_norm": "norm of the last update",
}
EARLY, CONVERGED = -0.55, 0.95  # the paper's section 7.2
N_SHOWN = 30  # words of the film
N_BINS = 60
N_UNTRAINED = 200
N_ORDERS = 4
N_RANDOM = 10
PANEL = 290  # pixels


# --- runs -----------------------------------------------------------------------------------------------


def shown_preset(claim: str = "kernel.orthogonal") -> str:
    """The largest preset of a claim that is stored; else the quick one, computed where it is asked for."""
    return studies.find_study(claim).largest_stored() or "quick"


def runs(preset: str) -> dict[str, KernelRun]:
    """The models compared, by what the charts call them; the main ones first."""
    main, other, untied = models.main(preset), models.other_start(preset), models.untied(preset)
    return {
        **{f"tied, start {models.STARTS[run.shape.start]}": run for run in (main, other)},
        "untied": untied,
    }


@functools.cache
def load(name: str, preset: str) -> Trained:
    """Models of a key of :func:`runs`."""
    return models.load(runs(preset)[name])


def main(preset: str) -> Trained:
    """The models of the main reading, every snapshot kept."""
    return load(next(iter(runs(preset))), preset)


def data_note(preset: str) -> str:
    """Text, sizes and seeds, for a caption."""
    run = models.main(preset)
    source = in_short(run.text.corpus, "Bundled documentation")
    shape = f"V = {main(preset).spectrum.vocab_size}, d = {run.shape.embedding_dim}"
    return (
        f"{source}, {models.SYMBOLS[run.text.symbols]}, {run.text.n_tokens:,} tokens, {run.n_epochs} epochs; "
        f"{shape}; {run.n_seeds} seeds"
    )


# --- random vectors -------------------------------------------------------------------------------------


def mean_random_cosine(dim: int) -> float:
    """Mean |cosine| of random directions, exactly: G(d/2) / (sqrt(pi) G((d + 1) / 2)); sqrt(2 / (pi d)) soon.

    >>> round(mean_random_cosine(2), 4)  # 2 / pi
    0.6366
    """
    return math.exp(math.lgamma(dim / 2) - math.lgamma((dim + 1) / 2)) / math.sqrt(math.pi)


def random_density(dim: int, edges: np.ndarray) -> np.ndarray:
    """Probability of a cosine of random directions between edges (n + 1,), shape (n,): a beta's."""
    return np.diff(special.betainc((dim - 1) / 2, (dim - 1) / 2, (1 + edges) / 2))


def random_cosines(dim: int, shared: float, *, n_words: int = 100, seed: int = 0) -> pd.DataFrame:
    """Cosines of random rows that may have a direction in common, as bins.

    Parameters
    ----------
    dim : int
        d.
    shared : float, in standard deviations of a coordinate
        Added to every coordinate of every row: 0 leaves all directions alike.
    n_words : int
    seed : int

    Returns
    -------
    DataFrame
        left, right, share_of_pairs; density, that of random directions in the same bin; and in every row
        measured, expected, approximate: the mean |cosine| of these rows, that of random directions, and
        sqrt(2 / (pi d)).
    """
    rows = random_embeddings(n_words, dim, 1, seed=seed)[0] + shared
    unit = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    found = np.clip(off_diagonal(models.gram(unit)), -1, 1)
    edges = np.linspace(-1, 1, N_BINS + 1)
    table = charts.bin_counts(found, n_bins=N_BINS, limits=(-1, 1)).drop(columns="count")
    return table.rename(columns={"share": "share_of_pairs"}).assign(
        density=random_density(dim, edges),
        measured=float(np.abs(found).mean()),
        expected=mean_random_cosine(dim),
        approximate=orthogonality.expected_cosine(dim),
    )


def plot_random_cosines(data: charts.Data) -> alt.LayerChart:
    """Bars of :func:`random_cosines`, the density stepped over them, both means written above."""
    bars = plot_histogram(data, "similarity", value="share_of_pairs")
    step = (
        alt.Chart(data)
        .mark_line(interpolate="step-after", color=theme.CATEGORIES[1], strokeDash=list(theme.DASHES[1]))
        .encode(x="left:Q", y="density:Q")
    )
    said = {
        "measured": "mean |cosine|, these vectors: ",
        "expected": "random directions (dashed): ",
        "approximate": "√(2/πd): ",
    }
    texts = [
        alt.Chart(data)
        .transform_aggregate(_means(*said))
        .transform_calculate(text=f"'{words}' + format(datum.{name}, '.3f')")
        .mark_text(align="left", fontSize=12)
        .encode(x=alt.value(2), y=alt.value(-40 + 16 * place), text="text:N")
        for place, (name, words) in enumerate(said.items())
    ]
    return alt.LayerChart(layer=[bars, step, *texts]).properties(width="container", height=theme.HEIGHT)


def _means(*fields: str) -> list[alt.AggregatedFieldDef]:
    """Means of columns under their own names: siblings that share a name would be merged into one."""
    return [alt.AggregatedFieldDef(op="mean", field=field, **{"as": field}) for field in fields]


def most_diagonal(vocab_size: int, dim: int) -> float:
    """The largest share of |W|_F on the diagonal that V equally long rows in d dimensions can have."""
    return min(1.0, math.sqrt(dim / vocab_size))


# --- before and after -----------------------------------------------------------------------------------


def pmi_correlation(embeddings: np.ndarray, counts: np.ndarray) -> np.ndarray:
    """Spearman's rho of the cosines of embeddings (..., V, D) with PMI, over pairs of words, shape (...)."""
    unit = embeddings / np.linalg.norm(embeddings, axis=-1, keepdims=True)
    found, target = off_diagonal(models.gram(unit)), off_diagonal(pmi(counts))
    flat = found.reshape(-1, found.shape[-1])
    rho = [float(stats.spearmanr(own, target).statistic) for own in flat]
    return np.array(rho).reshape(found.shape[:-1])


def quantities(embeddings: np.ndarray, counts: np.ndarray) -> dict[str, np.ndarray]:
    """All of QUANTITIES of embeddings (..., V, D), shape (...) each."""
    expected = orthogonality.expected_cosine(embeddings.shape[-1])  # as the claim has it
    return {
        RATIO: orthogonality.mean_cosines(embeddings) / expected,
        DIAGONAL: orthogonality.diagonal_shares(embeddings),
        MEANING: pmi_correlation(embeddings, counts),
    }


@functools.cache
def ends(preset: str) -> pd.DataFrame:
    """Every model before and after training, random vectors of its size, the largest share on a diagonal.

    Returns
    -------
    DataFrame
        quantity, kind, seed, before, after: an untied model's input and output are kinds of their own.
    """
    counts = main(preset).counts.pairs
    pairs: dict[str, tuple[np.ndarray, np.ndarray]] = {}
    for name, run in runs(preset).items():
        found = load(name, preset)
        kind = name if run.tied else f"{name}, input"
        pairs[kind] = (found.first, found.last)
        if not run.tied:
            pairs[f"{name}, output"] = (first_heads(run, found.met), found.output)
    V, dim = main(preset).last.shape[1:]
    made = random_embeddings(V, dim, N_RANDOM, seed=1)
    pairs[RANDOM] = (made, made)
    rows = []
    for kind, (first, last) in pairs.items():
        before, after = quantities(first, counts), quantities(last, counts)
        for quantity in QUANTITIES:
            own = {"before": before[quantity], "after": after[quantity]}
            rows.append(pd.DataFrame({"quantity": quantity, "kind": kind, "seed": range(len(first)), **own}))
    most = most_diagonal(V, dim)
    bound = {"quantity": DIAGONAL, "kind": MOST, "seed": 0, "before": most, "after": most}
    return pd.concat([*rows, pd.DataFrame([bound])], ignore_index=True)


def first_heads(run: KernelRun, met: np.ndarray) -> np.ndarray:
    """Output embeddings of an untied run's models before training, (R, V, D), of the words that are met."""
    table = table_of(minigpt.cell(run))
    return np.stack([embedding(table, member.seed, "first", output=True)[met] for member in run.members])


def ends_finding(preset: str) -> str:
    """How far training moves the mean |cosine| from each start, true of the models at hand."""
    table = ends(preset)
    own = table[(table["quantity"] == RATIO) & (table["kind"] != RANDOM)]
    means = own.groupby("kind", sort=False)[["before", "after"]].mean()
    said = "; ".join(f"{kind}: {row['before']:.2f} to {row['after']:.2f}" for kind, row in means.iterrows())
    return f"Mean |cosine| over that of random vectors, before and after training: {said}"


def plot_ends(data: charts.Data) -> alt.LayerChart:
    """A line a seed from before (open) to after training (filled), a row a kind."""
    x = alt.X("before:Q", axis=theme.axis("value"), scale=alt.Scale(zero=False))
    y = alt.Y("kind:N", sort=None, axis=alt.Axis(title=None, labelLimit=150))
    base = alt.Chart(data).encode(y=y, yOffset=alt.YOffset("seed:O"))
    tooltip = ["kind:N", "seed:O", *(alt.Tooltip(f"{f}:Q", format=".3f") for f in ("before", "after"))]
    line = base.mark_rule(strokeWidth=1.5, color=theme.CATEGORIES[0]).encode(x=x, x2="after:Q")
    before = base.mark_point(filled=False, size=30, color=theme.INK).encode(x=x, tooltip=tooltip)
    after = base.mark_point(size=45).encode(x=alt.X("after:Q"), tooltip=tooltip)
    return alt.LayerChart(layer=[line, before, after]).properties(width="container", height=46 * N_KINDS)


# --- a film of the Gram matrix --------------------------------------------------------------------------


def visible(token: str) -> str:
    """A token that can be seen: blanks and ends of lines by their signs."""
    return {" ": "␣", "\n": "⏎", "\t": "⇥"}.get(token, token)


def frames(preset: str, *, seed: int = 0) -> pd.DataFrame:
    """Cosines of the most frequent words at each kept snapshot.

    Returns
    -------
    DataFrame
        frame (updates), row, column, pair (both words), cosine, change (since the first frame); ratio (of all
        words' mean |cosine| to that of random vectors) and held_out_loss, one value a frame.
    """
    trained = main(preset)
    frequent = np.argsort(-trained.counts.pairs.sum(axis=1), kind="stable")[:N_SHOWN]
    names = [visible(trained.counts.tokens[index]) for index in frequent]
    shown = trained.path[:, seed, frequent]
    unit = shown / np.linalg.norm(shown, axis=-1, keepdims=True)
    found = np.round(models.gram(unit), 3)  # (S, n, n)
    rows, columns = (part.ravel() for part in np.indices(found.shape[1:]))
    table = path(preset)
    own = table[table["seed"] == trained.measures["seed"].unique()[seed]].set_index("step")
    parts = [
        pd.DataFrame(
            {
                FRAME: step,
                "row": rows,
                "column": columns,
                "pair": [f"{names[i]} {names[j]}" for i, j in zip(rows, columns, strict=True)],
                "cosine": cosine.ravel(),
                "change": (cosine - found[0]).ravel(),
                "ratio": own.loc[step, "ratio"],
                "held_out_loss": own.loc[step, "held_out_loss"],
            }
        )
        for step, cosine in zip(trained.steps, found, strict=True)
    ]
    return pd.concat(parts, ignore_index=True)


def film_background(preset: str) -> pd.DataFrame:
    """What random directions of the models' dimension would have: cosine, share in a bin of a tenth."""
    edges = np.linspace(-1, 1, 21)
    dim = main(preset).embedding_dim
    return pd.DataFrame({"cosine": edges[:-1], "expected": random_density(dim, edges)})


def draw_film(data: charts.Data) -> alt.VConcatChart:
    """Cosines, their change, their histogram over random vectors', and the held-out loss with the ratio."""
    matrices = [
        alt.Chart(data)
        .mark_rect()
        .encode(
            x=alt.X("column:O", axis=None),
            y=alt.Y("row:O", axis=None),
            color=alt.Color(f"{name}:Q", scale=theme.signed_scale(limit), legend=alt.Legend(title=title)),
            tooltip=["pair:N", alt.Tooltip(f"{name}:Q", format=".3f")],
        )
        .properties(width=PANEL, height=PANEL)
        for name, limit, title in (
            ("cosine", 1.0, "cosine of two words"),
            ("change", 0.5, "change since the start"),
        )
    ]
    below = alt.hconcat(_film_histogram(data), _film_history())
    return alt.vconcat(alt.hconcat(*matrices).resolve_scale(color="independent"), below)


def _film_histogram(data: charts.Data) -> alt.LayerChart:
    up = alt.Y("share:Q", axis=theme.axis("share_of_pairs"), scale=alt.Scale(domain=[0, 0.7]))
    n_pairs = N_SHOWN * (N_SHOWN - 1) / 2
    across = alt.Scale(domain=[-1, 1], nice=False)
    bars = (
        alt.Chart(data)
        .transform_filter("datum.row < datum.column")
        .transform_calculate(left="min(floor(datum.cosine * 10) / 10, 0.9)", right="datum.left + 0.1")
        .transform_aggregate(count="count()", groupby=["left", "right"])
        .transform_calculate(share=f"datum.count / {n_pairs}")
        .mark_bar(binSpacing=0, clip=True)
        .encode(
            x=alt.X("left:Q", bin="binned", axis=theme.axis("similarity", tick_count=5), scale=across),
            x2="right:Q",
            y=up,
        )
    )
    line = (
        alt.Chart(BACKGROUND)
        .mark_line(
            interpolate="step-after",
            color=theme.CATEGORIES[1],
            strokeDash=list(theme.DASHES[1]),
            clip=True,
        )
        .encode(x=alt.X("cosine:Q", scale=across), y="expected:Q")
    )
    return alt.LayerChart(layer=[bars, line]).properties(width=PANEL, height=150)


def _film_history() -> alt.LayerChart:
    across = alt.X(
        "held_out_loss:Q", axis=theme.axis("held_out_loss", tick_count=5), scale=alt.Scale(zero=False)
    )
    up = alt.Y("ratio:Q", axis=theme.axis("cosine_ratio", tick_count=4), scale=alt.Scale(zero=False))
    base = alt.Chart(HISTORY).encode(x=across, y=up, order="frame:Q")
    line = base.mark_line(strokeWidth=1.5, point=True)
    now = base.mark_point(size=120, color=theme.CATEGORIES[1], shape="square").transform_filter(
        "datum.frame <= frame && frame < datum.next_frame"
    )
    return alt.LayerChart(layer=[line, now]).properties(width=PANEL, height=150)


def film_finding(preset: str, *, seed: int = 0) -> str:
    """How far the cosines of one seed move, from the frames."""
    table = frames(preset, seed=seed)
    first, last = (table[table[FRAME] == step] for step in (table[FRAME].min(), table[FRAME].max()))
    moved = float(last.loc[last["row"] < last["column"], "change"].abs().mean())
    return (
        f"Over training, cosines of two frequent words move by {moved:.3f} on average; the mean |cosine| "
        f"of all goes from {first['ratio'].iloc[0]:.3f} to {last['ratio'].iloc[0]:.3f} times that of random "
        "vectors"
    )


# --- the diagnostic -------------------------------------------------------------------------------------


@functools.cache
def path(preset: str) -> pd.DataFrame:
    """See :func:`.orthogonality.along_training`, of the main models."""
    return orthogonality.along_training(main(preset))


def stages(preset: str) -> pd.DataFrame:
    """What the diagnostic and the losses say at each snapshot, mean over seeds, as text."""
    means = path(preset).groupby("step").mean()
    run = models.main(preset)
    per_epoch = means.index.max() / run.n_epochs
    shown = pd.DataFrame(
        {
            "epoch": [f"{step / per_epoch:.3g}" for step in means.index],
            **{
                title: means[name].map("{:.3f}".format)
                for name, title in {
                    "k0_fft": "cosine, FFT form",
                    "k0_eigen": "cosine, eigen form",
                    "identity": "cosine, identity",
                    "score": "circulant score",
                    "train_loss": "training loss",
                    "held_out_loss": "held-out loss",
                }.items()
            },
        }
    )
    shown.index.name = "updates"
    return shown


def diagnostics(preset: str) -> pd.DataFrame:
    """Each diagnostic beside the held-out loss: diagnostic, seed, step, value, held_out_loss, rho.

    Snapshots after the first; rho is the mean over seeds of the rank correlation of both.
    """
    table = path(preset)
    parts = [
        table.loc[table["step"] > 0, ["seed", "step", "held_out_loss"]].assign(
            diagnostic=title,
            value=table.loc[table["step"] > 0, name],
            rho=orthogonality.rank_correlations(table, name).mean(),
        )
        for name, title in DIAGNOSTICS.items()
    ]
    return pd.concat(parts, ignore_index=True)


def plot_diagnostic(data: charts.Data) -> alt.LayerChart:
    """The held-out loss over a diagnostic, a path a seed, its end a filled square, the correlation above."""
    up = alt.Y("held_out_loss:Q", axis=theme.axis("held_out_loss"), scale=alt.Scale(zero=False))
    across = alt.X("value:Q", axis=theme.axis("value", tick_count=6), scale=alt.Scale(zero=False))
    base = alt.Chart(data).encode(x=across, y=up)
    shown = ["seed:N", "step:Q", alt.Tooltip("value:Q", format=".4g"), "held_out_loss:Q"]
    line = base.mark_line(strokeWidth=1.2, opacity=0.6, color=theme.CATEGORIES[0]).encode(
        detail="seed:N", order="step:Q"
    )
    points = base.mark_point(size=30, filled=False, color=theme.CATEGORIES[0]).encode(tooltip=shown)
    last = (
        base.transform_joinaggregate(end="max(step)")
        .transform_filter("datum.step === datum.end")
        .mark_point(shape="square", size=80, color=theme.CATEGORIES[1])
        .encode(tooltip=shown)
    )
    text = (
        alt.Chart(data)
        .transform_aggregate(mean="mean(rho)")
        .transform_calculate(text="'mean rank correlation ' + format(datum.mean, '.2f')")
        .mark_text(align="right", dx=-6, fontSize=12)
        .encode(x=alt.value("width"), y=alt.value(14), text="text:N")
    )
    return alt.LayerChart(layer=[line, points, last, text]).properties(width="container", height=theme.HEIGHT)


def ranks(preset: str) -> pd.DataFrame:
    """Rank correlation of each diagnostic with the held-out loss: diagnostic, seed, correlation."""
    table = path(preset)
    parts = [
        pd.DataFrame({"diagnostic": title, "correlation": orthogonality.rank_correlations(table, name)})
        for name, title in DIAGNOSTICS.items()
    ]
    return pd.concat(parts).rename_axis("seed").reset_index()


def plot_ranks(preset: str) -> alt.LayerChart:
    """A mark a seed, a bar at the mean; -1 is what the paper expects of its cosine."""
    names = list(DIAGNOSTICS.values())
    scale = alt.Scale(domain=[-1.05, 1.05], nice=False)
    base = alt.Chart(ranks(preset).round(4)).encode(
        y=alt.Y("diagnostic:N", sort=names, axis=alt.Axis(title=None, labelLimit=180))
    )
    x = alt.X("correlation:Q", axis=theme.axis("rank_correlation", tick_count=5), scale=scale)
    seeds = base.mark_point(size=50, opacity=0.6).encode(x=x, tooltip=["seed:N", "correlation:Q"])
    mean = base.mark_tick(thickness=3, size=22, color=theme.CATEGORIES[1]).encode(x="mean(correlation):Q")
    zero = alt.Chart(alt.Data(values=[{}])).mark_rule(strokeDash=[2, 2]).encode(x=alt.XDatum(0, scale=scale))
    return alt.LayerChart(layer=[zero, seeds, mean]).properties(width="container", height=34 * len(names))


def ranks_finding(preset: str) -> str:
    """Which diagnostic follows the held-out loss most closely, and where the cosine comes."""
    means = ranks(preset).groupby("diagnostic")["correlation"].mean()
    order = means.abs().sort_values(ascending=False, kind="stable").index
    own = DIAGNOSTICS["k0_fft"]
    first = order[0]
    said = f"the {own} has {means[own]:.2f}"
    if first == own:
        return f"Of {len(means)} diagnostics {said}, which is closest to the held-out loss"
    closest = (
        f"The {first} follows the held-out loss most closely, with a rank correlation of {means[first]:.2f}"
    )
    return f"{closest}; {said}"


# --- models that never trained --------------------------------------------------------------------------


def orders(preset: str) -> dict[str, np.ndarray]:
    """Orders of the vocabulary, (V,) each: as it is, alphabetical, and some random ones."""
    tokens = main(preset).counts.tokens
    rng = np.random.default_rng(0)
    return {
        "by frequency": np.arange(len(tokens)),
        "alphabetical": np.array(sorted(range(len(tokens)), key=tokens.__getitem__)),
        **{f"random {number}": rng.permutation(len(tokens)) for number in range(1, N_ORDERS + 1)},
    }


def dimensions(preset: str) -> list[int]:
    """Dimensions of random embeddings to choose from, the models' own among them."""
    return sorted({4, 16, 64, 256, main(preset).embedding_dim})


def untrained(preset: str, order: str, dim: int, *, n_models: int = N_UNTRAINED) -> pd.DataFrame:
    """The diagnostic of embeddings drawn from N(0, 1), their D the text's in some order of its words.

    The spread of the draw doesn't matter: k0 grows with W, and a cosine doesn't see it.

    Returns
    -------
    DataFrame
        left, right, share_of_models, by their cosine with the derived k0; and in every row mean, expected
        (the root of kernels.expected_score) and trained (the mean of the trained models).
    """
    trained, arranged = main(preset), orders(preset)[order]
    spectrum = _arranged(preset, order)
    derived = kernels.k0_fft(spectrum)
    made = random_embeddings(spectrum.vocab_size, dim, n_models)
    drawn = [_first_rows(part, spectrum) for part in np.array_split(made, max(1, n_models // 20))]
    found = cosines(derived, np.concatenate(drawn))
    after = cosines(derived, _first_rows(trained.last[:, arranged], spectrum))
    expected = math.sqrt(float(kernels.expected_score(spectrum, 1 / math.sqrt(dim))))
    return (
        charts.bin_counts(np.clip(found, -1, 1), n_bins=50, limits=(-1, 1))
        .drop(columns="count")
        .rename(columns={"share": "share_of_models"})
        .assign(mean=float(found.mean()), expected=expected, trained=float(after.mean()))
    )


@functools.cache
def _arranged(preset: str, order: str) -> kernels.Spectrum:
    return main(preset).spectrum.permuted(orders(preset)[order])


def _first_rows(embeddings: np.ndarray, spectrum: kernels.Spectrum) -> np.ndarray:
    """k0 (n, V) of embeddings (n, V, D)."""
    return kernels.extract_kernel(models.gram(embeddings), spectrum, zeros="drop").k0


def plot_untrained(data: charts.Data) -> alt.LayerChart:
    """Bars of :func:`untrained`; dashed where the paper has early training, solid where training ended."""
    bars = plot_histogram(data, "similarity", value="share_of_models")
    early = alt.Chart(alt.Data(values=[{"at": EARLY}])).mark_rule(
        strokeDash=list(theme.DASHES[1]), strokeWidth=2
    )
    after = (
        alt.Chart(data)
        .transform_aggregate(at="mean(trained)")
        .mark_rule(strokeWidth=2, color=theme.CATEGORIES[1])
    )
    said = (
        "'untrained: ' + format(datum.mean, '.2f') + ', expected from D: ' + format(datum.expected, '.2f')",
        "'trained (solid line): ' + format(datum.trained, '.2f')",
    )
    names = ("mean", "expected", "trained")
    texts = [
        alt.Chart(data)
        .transform_aggregate(_means(*names))
        .transform_calculate(text=words)
        .mark_text(align="left", fontSize=12)
        .encode(x=alt.value(2), y=alt.value(-24 + 16 * place), text="text:N")
        for place, words in enumerate(said)
    ]
    rules = [early.encode(x="at:Q"), after.encode(x="at:Q")]
    return alt.LayerChart(layer=[bars, *rules, *texts]).properties(width="container", height=theme.HEIGHT)


def untrained_finding(preset: str) -> str:
    """Where the diagnostic of models before and after training lies, with the seeds' spread."""
    table = path(preset)
    first, last = (
        findings.over_seeds(table[table["step"] == step]["k0_fft"].to_numpy(), within=(-1, 1))
        for step in (table["step"].min(), table["step"].max())
    )
    means = table.groupby("step")[["k0_fft", "ratio"]].mean()
    least, where = means["k0_fft"].min(), means["k0_fft"].idxmin()
    return (
        f"The cosine with the derived k0 is {first.value:.2f} before the first update and {last.value:.2f} "
        f"after the last, and nowhere below {least:.2f}, which it has at update {where:,}; over the same "
        f"training the mean |cosine| of two words goes from {means['ratio'].iloc[0]:.2f} to "
        f"{means['ratio'].iloc[-1]:.2f} times that of random vectors, and up to {means['ratio'].max():.2f} "
        "on the way"
    )
