"""What recorded trajectories say: Q beside the other matrices, and one shape or many; with their studies.

Source: geometry paper, sections 4.2 and 7.1, Figures 2 and 6 to 9, which show one run and give no numbers.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import numpy as np
import pandas as pd
from scipy import stats

from book.geometry.experiments import covariance_walks, layout_shapes, trajectory_runs
from book.geometry.experiments.trajectory_drawings import DATA, SHUFFLED
from book.geometry.experiments.trajectory_recordings import (
    DECAY,
    EMBEDDING,
    JOINT,
    PARAMETERS,
    STORIES,
    TrajectoryRun,
)
from book.ledger import findings
from book.ledger.cells import Cell
from book.ledger.findings import Finding
from book.ledger.places import results_folder
from book.ledger.studies import Study
from embviz.metrics import procrustes_disparity

OTHERS = tuple(kind for kind in PARAMETERS if kind != "Q")
WALK = "random walk"
# how sharply the paper sees kinds of matrices move, the sharpest last; MLP-up and MLP-down count as one
ORDER = ("MLP", "V", "K", "Q")
# what a number can be: an interval that reaches further is cut there
SHARE, CORRELATION, NOT_NEGATIVE = (0.0, 1.0), (-1.0, 1.0), (0.0, math.inf)
NAMES = {"Q": "q", "K": "k", "V": "v", "MLP-up": "mlp_up", "MLP-down": "mlp_down"}


# --- Q beside the others ----------------------------------------------------------------------------


def kinds_table(runs: Sequence[TrajectoryRun], column: str, path: str = DATA) -> pd.DataFrame:
    """A measure of every matrix, under the judged setting.

    Parameters
    ----------
    runs : sequence of TrajectoryRun
    column : str
        Of :func:`trajectory_runs.measures`, or of :func:`trajectory_runs.tensor_measures`.
    path : str
        "data", or "random walk": the mean of its draws.

    Returns
    -------
    DataFrame
        seed, kind, layer, value; the token embedding and the joint path among them. Without what was not
        measured.
    """
    parts = []
    for run in runs:
        table = trajectory_runs.measures(run)
        if column in table:
            judged = (table["method"] == "pymde") & (table["n_neighbors"] == run.pipeline.neighbors[0])
            table = table[judged]
        else:
            table = trajectory_runs.tensor_measures(run)
        own = table[table["path"].str.startswith(path)].dropna(subset=[column])
        values = own.groupby(["kind", "layer"], sort=False)[column].mean()
        parts.append(values.rename("value").reset_index().assign(seed=run.seed))
    return pd.concat(parts, ignore_index=True)[["seed", "kind", "layer", "value"]]


def of_kinds(runs: Sequence[TrajectoryRun], column: str, path: str = DATA) -> pd.DataFrame:
    """The same as means over layers: one row per seed, one column per kind."""
    return kinds_table(runs, column, path).pivot_table(index="seed", columns="kind", values="value")


def q_minus_others(runs: Sequence[TrajectoryRun], column: str, path: str = DATA) -> np.ndarray:
    """Mean over layers of Q, less the mean over K, V, MLP-up and MLP-down; one number per seed."""
    table = of_kinds(runs, column, path)
    return (table["Q"] - table[list(OTHERS)].mean(axis=1)).to_numpy()


def order_agreement(runs: Sequence[TrajectoryRun], column: str, path: str = DATA) -> np.ndarray:
    """Kendall's tau of each seed's kinds with the paper's order, Q above K above V above MLP."""
    table = of_kinds(runs, column, path)
    table = table.assign(MLP=table[["MLP-up", "MLP-down"]].mean(axis=1))[list(ORDER)]
    return np.array([_tau(row) for row in table.to_numpy()])


def _tau(values: np.ndarray) -> float:
    """0 where all are equal: they agree with no order."""
    tau = float(stats.kendalltau(np.arange(len(values)), values).statistic)
    return tau if np.ptp(values) > 0 else 0.0


def _corpus(runs: Sequence[TrajectoryRun]) -> str:
    return runs[0].source.corpus


def contrasts(runs: Sequence[TrajectoryRun]) -> dict[str, Finding]:
    """Q minus the others: phases, their separation, sharpness; each beside the random walks' value."""
    columns = {"phases": "n_phases", "separation": "dbcv", "sharp": "layout_sharpness"}
    found = {}
    for name, column in columns.items():
        controls = {"random_walk": float(q_minus_others(runs, column, WALK).mean())}
        found[name] = findings.over_seeds(
            q_minus_others(runs, column), controls=controls, corpus=_corpus(runs)
        )
    return found


def _q_findings(preset: str) -> dict[str, Finding]:
    runs = trajectory_runs.story_runs(preset)
    over = functools.partial(findings.over_seeds, corpus=_corpus(runs))
    found = contrasts(runs)
    walk = order_agreement(runs, "layout_sharpness", WALK).mean()
    order = order_agreement(runs, "layout_sharpness")
    found["order"] = over(order, controls={"random_walk": float(walk)}, within=CORRELATION)
    for name, column in (("separation_walks", "dbcv"), ("sharp_walks", "layout_sharpness")):
        found[name] = over((of_kinds(runs, column) - of_kinds(runs, column, WALK))["Q"].to_numpy())
    return found | _drop_findings(runs, over) | _stability(runs, over)


def _drop_findings(runs: Sequence[TrajectoryRun], over: Callable[..., Finding]) -> dict[str, Finding]:
    """Do drops of the loss coincide with Q's movement and with its transitions, more than with its walks'?"""
    columns = {"drops": "detrended_correlation", "transitions": "transition_correlation"}
    found = {}
    for name, column in columns.items():
        walks = of_kinds(runs, column, WALK)["Q"]
        excess = (of_kinds(runs, column) - of_kinds(runs, column, WALK))[[*OTHERS, "Q"]]
        controls = {"others": float(excess[list(OTHERS)].to_numpy().mean())}
        if len(shuffled := _of_q(runs, column, SHUFFLED)):
            controls["shuffled"] = float((shuffled - walks.to_numpy()).mean())
        found[name] = over(
            excess["Q"].to_numpy(), controls=controls, within=(-2.0, 2.0)
        )  # of two correlations
    significant = {}
    for path in (DATA, WALK):
        table = pd.concat([_significant(run, path) for run in runs])
        significant[path] = table.groupby("seed")["low"].mean().to_numpy()
    controls = {"random_walk": float(significant[WALK].mean())}
    found["significant"] = over(significant[DATA], controls=controls, within=SHARE)
    return found


def _significant(run: TrajectoryRun, path: str) -> pd.DataFrame:
    """Of each Q and draw, whether transitions coincide with drops at p < 0.05."""
    table = trajectory_runs.measures(run)
    judged = (table["method"] == "pymde") & (table["n_neighbors"] == run.pipeline.neighbors[0])
    own = table[judged & (table["kind"] == "Q") & table["path"].str.startswith(path)]
    return pd.DataFrame({"seed": run.seed, "low": own["transition_p"] < 0.05})


def _stability(runs: Sequence[TrajectoryRun], over: Callable[..., Finding]) -> dict[str, Finding]:
    """Agreement of Q's phases over settings, where they were tried."""
    values, walks = (_of_q(runs, "stability", path) for path in (DATA, WALK))
    if not len(values):
        return {}
    controls = {"random_walk": float(walks.mean())} if len(walks) else None
    return {"stable": over(values, controls=controls, within=CORRELATION)}  # an index may be < 0


def _of_q(runs: Sequence[TrajectoryRun], column: str, path: str) -> np.ndarray:
    """Mean over layers of Q, one number per seed; empty where there is no measurement."""
    table = kinds_table(runs, column, path)
    means: np.ndarray = table[table["kind"] == "Q"].groupby("seed")["value"].mean().to_numpy()
    return means


# --- one shape or many ------------------------------------------------------------------------------


def disparity_matrix(
    run: TrajectoryRun, *, path: str = DATA, method: str = "pymde", others: TrajectoryRun | None = None
) -> pd.DataFrame:
    """Procrustes disparity between the layouts of all tensors; columns are another run's tensors if given.

    Returns
    -------
    DataFrame, tensors on both axes; in 0..1
    """
    rows = _planes(run, path, method)
    columns = rows if others is None else _planes(others, path, method)
    square = [[procrustes_disparity(one, other) for other in columns.values()] for one in rows.values()]
    return pd.DataFrame(square, index=list(rows), columns=list(columns))


def _planes(
    run: TrajectoryRun, path: str = DATA, method: str = "pymde", n_neighbors: int = 0
) -> dict[str, np.ndarray]:
    """The layout of each tensor, (S, 2), of PyMDE and UMAP the judged one by default.

    Read once, not to be changed in place.
    """
    if method != "pca" and not n_neighbors:
        n_neighbors = run.pipeline.neighbors[0]
    return _planes_once(run, method, n_neighbors, results_folder())[path]


@functools.lru_cache(maxsize=32)
def _planes_once(
    run: TrajectoryRun, method: str, n_neighbors: int, folder: Path
) -> dict[str, dict[str, np.ndarray]]:
    table = trajectory_runs.drawings(run)
    drawn = table[(table["method"] == method) & (table["n_neighbors"] == n_neighbors)]
    planes: dict[str, dict[str, np.ndarray]] = {}
    for (path, tensor), own in drawn.groupby(["path", "tensor"], sort=False):
        planes.setdefault(str(path), {})[str(tensor)] = own[["x", "y"]].to_numpy(dtype=float)
    return planes


def shape_table(runs: Sequence[TrajectoryRun], method: str = "pymde") -> pd.DataFrame:
    """How near each tensor's layout is to the embedding's, and to what it should be farther from.

    Parameters
    ----------
    runs : sequence of TrajectoryRun
        Seeds of one setting, two at least.
    method : str
        "pymde"; or "pca" and "umap", of which walks aren't drawn.

    Returns
    -------
    DataFrame, one row per seed and a tensor
        ``disparity`` to the embedding's drawing; ``between_runs``: to those of embeddings of other seeds, the
        mean; of "pymde" besides ``walks``: of its walk to the embedding's walk, mean over draws;
        ``own_walks``: of its drawing to its own walks', ``among_walks``: of these to each other; and of its
        two-arm figure ``two_arms`` (the cosine share), ``two_arms_walks`` and ``two_arms_left``.
    """
    if len({run.seed for run in runs}) < 2:
        raise ValueError("give runs of two seeds at least: a run is held against independent ones")
    others = [tuple(other for other in runs if other.seed != run.seed) for run in runs]
    folder = results_folder()
    parts = [_shape_of_run(run, rest, method, folder) for run, rest in zip(runs, others, strict=True)]
    return pd.concat(parts, ignore_index=True)


@functools.lru_cache(maxsize=64)
def _shape_of_run(
    run: TrajectoryRun, others: tuple[TrajectoryRun, ...], method: str, folder: Path
) -> pd.DataFrame:
    planes = _planes(run, method=method)
    embeddings = [_planes(other, method=method)[EMBEDDING] for other in others]
    walks = [_planes(run, f"{WALK} {i}") for i in range(run.pipeline.n_walks)] if method == "pymde" else []
    arms = _two_arms(run) if walks else pd.DataFrame()
    rows = []
    for tensor, plane in planes.items():
        row: dict[str, object] = {"seed": run.seed, "tensor": tensor, "kind": tensor.split(" ")[0]}
        row["disparity"] = procrustes_disparity(plane, planes[EMBEDDING])
        row["between_runs"] = _mean_disparity((plane, embedding) for embedding in embeddings)
        if walks:
            row["walks"] = _mean_disparity((walk[tensor], walk[EMBEDDING]) for walk in walks)
            row["own_walks"] = _mean_disparity((plane, walk[tensor]) for walk in walks)
            drawn = [walk[tensor] for walk in walks]
            row["among_walks"] = _mean_disparity(itertools.combinations(drawn, 2))
            row |= {str(name): value for name, value in arms.loc[tensor].items()}
        rows.append(row)
    return pd.DataFrame(rows)


def _mean_disparity(pairs: object) -> float:
    found = [procrustes_disparity(one, other) for one, other in pairs]  # type: ignore[attr-defined]
    return float(np.mean(found)) if found else float("nan")


def _two_arms(run: TrajectoryRun) -> pd.DataFrame:
    """Cosine share of each tensor's layout, of its walks', and what is left of it after them."""
    table = trajectory_runs.measures(run)
    judged = table[(table["method"] == "pymde") & (table["n_neighbors"] == run.pipeline.neighbors[0])]
    rows = {}
    for tensor, own in judged.groupby("tensor", sort=False):
        share = float(own.loc[own["path"] == DATA, "cosine_share"].iloc[0])
        walks = own.loc[own["path"].str.startswith(WALK), "cosine_share"].astype(float)
        mean = float(np.mean(walks.tolist()))
        left = (share - mean) / (1 - mean)  # 0 where the path has as much of the shape as its walks
        rows[tensor] = {"two_arms": share, "two_arms_walks": float(walks.mean()), "two_arms_left": left}
    return pd.DataFrame(rows).T


def _of_matrices(table: pd.DataFrame) -> pd.DataFrame:
    """Rows of single matrices: neither the embedding nor all tensors together."""
    return table[~table["tensor"].isin((EMBEDDING, JOINT))]


def shape_findings(runs: Sequence[TrajectoryRun]) -> dict[str, Finding]:
    """One shape: a figure each for how near, against independent runs, and against random walks."""
    over = functools.partial(findings.over_seeds, corpus=_corpus(runs))
    table = _of_matrices(shape_table(runs))
    means = table.groupby("seed")[["disparity", "between_runs", "walks", "two_arms_left"]].mean()
    controls = {
        "random_walk": float(means["walks"].mean()),
        "independent": float(means["between_runs"].mean()),
    }
    return {
        "disparity": over(means["disparity"].to_numpy(), controls=controls, within=SHARE),
        "against_runs": over((means["disparity"] / means["between_runs"]).to_numpy(), within=NOT_NEGATIVE),
        "against_walks": over((means["disparity"] / means["walks"]).to_numpy(), within=NOT_NEGATIVE),
        "two_arms_left": over(means["two_arms_left"].to_numpy(), within=(-math.inf, 1.0)),
    }


def _shape_findings(preset: str) -> dict[str, Finding]:
    runs = trajectory_runs.story_runs(preset)
    over = functools.partial(findings.over_seeds, corpus=_corpus(runs), within=SHARE)
    found = {"two_arms_left": shape_findings(runs)["two_arms_left"]}
    table = _of_matrices(shape_table(runs))
    found["two_arms"] = over(table.groupby("seed")["two_arms"].mean().to_numpy())
    flat = _of_matrices(shape_table(runs, "pca")).groupby("seed")[["disparity", "between_runs"]].mean()
    found["disparity_pca"] = over(flat["disparity"].to_numpy())
    ratio = (flat["disparity"] / flat["between_runs"]).to_numpy()
    found["against_runs_pca"] = findings.over_seeds(ratio, within=NOT_NEGATIVE)
    if runs[0].pipeline.alternatives:
        others = {"disparity_30": ("pymde", 30), "disparity_umap": ("umap", 0)}
        found |= {name: over(_disparities(runs, *how)) for name, how in others.items()}
    return found


def _disparities(runs: Sequence[TrajectoryRun], method: str, n_neighbors: int) -> np.ndarray:
    """Mean disparity of matrices to the embedding under another layout, one number per run."""
    means = []
    for run in runs:
        planes = dict(_planes(run, method=method, n_neighbors=n_neighbors))
        embedding = planes.pop(EMBEDDING)
        means.append(_mean_disparity((planes[name], embedding) for name in planes if name != JOINT))
    return np.array(means)


def _web_findings(preset: str) -> dict[str, Finding]:
    runs = trajectory_runs.web_runs(preset)
    shape = shape_findings(runs)
    return contrasts(runs) | {name: shape[name] for name in ("disparity", "against_runs", "against_walks")}


# --- studies ----------------------------------------------------------------------------------------


def _cells(*lists: Sequence[TrajectoryRun]) -> list[Cell]:
    """Recordings first: whoever draws then needn't wait for another process that records."""
    of_runs = [trajectory_runs.cells_of(run) for runs in lists for run in runs]
    return [own[0] for own in of_runs] + [cell for own in of_runs for cell in own[1:]]


def _q_cells(preset: str) -> list[Cell]:
    return _cells(trajectory_runs.story_runs(preset), [trajectory_runs.decay_run(preset)])


def _shape_cells(preset: str) -> list[Cell]:
    return _cells(trajectory_runs.story_runs(preset), trajectory_runs.no_query_runs(preset))


NEEDS = "the paper's setting needs 200,000 stories of TinyStories and a GPU"


def _codes(preset: str) -> list[Cell]:
    return [] if preset == "quick" else trajectory_runs.code_cells(trajectory_runs.story_runs(preset)[0])


STUDIES: Mapping[str, Study] = {
    "geometry.trajectories_q": Study(
        _q_cells, _q_findings, NEEDS, beside=_codes, parts=(covariance_walks.PART,)
    ),
    "geometry.trajectories_shape": Study(_shape_cells, _shape_findings, NEEDS, parts=(layout_shapes.PART,)),
    "geometry.trajectories_fineweb": Study(
        lambda preset: _cells(trajectory_runs.web_runs(preset)), _web_findings, NEEDS
    ),
}


# --- what the chapter on one shape shows ----------------------------------------------------------------

KINDS = tuple(PARAMETERS)
OWN, OTHER, WALKS = AGAINST = ("its own run", "another run", "random walks")
MEASURES = {  # columns of shape_table, by what they are held against, and the layout
    "disparity to the embedding": ({OWN: "disparity", OTHER: "between_runs", WALKS: "walks"}, "pymde"),
    "the same, principal components": ({OWN: "disparity", OTHER: "between_runs"}, "pca"),
    "two arms": ({OWN: "two_arms", WALKS: "two_arms_walks"}, "pymde"),
    "to its own walks": ({OWN: "own_walks", WALKS: "among_walks"}, "pymde"),
}


@functools.cache
def groups() -> dict[str, list[TrajectoryRun]]:
    """Stored runs by text and variant, two seeds or more."""
    stored: dict[str, list[TrajectoryRun]] = {}
    for run in trajectory_runs.stored_runs().values():
        if run.variant != DECAY:
            stored.setdefault(run.name.rpartition(", ")[0], []).append(run)
    return stored


@functools.cache
def shapes(group: str, method: str = "pymde") -> pd.DataFrame:
    """Of the matrices of a group of runs, what :func:`shape_table` has."""
    return _of_matrices(shape_table(groups()[group], method))


def compared() -> pd.DataFrame:
    """Every kind of matrix beside its controls: measure, runs, kind, seed, against (of AGAINST), value."""
    parts = []
    for group in groups():
        for measure, (columns, method) in MEASURES.items():
            means = shapes(group, method).groupby(["kind", "seed"], sort=False)[list(columns.values())].mean()
            long = (
                means.astype(float)
                .set_axis(list(columns), axis=1)
                .melt(ignore_index=False, var_name="against")
            )
            parts.append(long.reset_index().assign(measure=measure, runs=group))
    return pd.concat(parts, ignore_index=True)


def over_layouts() -> pd.DataFrame:
    """One run under five layouts, means over matrices: layout, against (of AGAINST), seed, disparity.

    Empty where no seed of the layouts is stored.
    """
    table = layout_shapes.shapes("laptop")
    named = {"disparity": OWN, "between_runs": OTHER, "walks": WALKS}
    means = table.groupby(["layout", "against", "seed"], sort=False)["value"].mean()
    return means.rename("disparity").reset_index().replace({"against": named})


def squares() -> pd.DataFrame:
    """Disparities between all tensors' layouts of the first run: against, row, column, disparity."""
    first, second, *_ = groups()[STORIES]
    tables = {
        "the same run": disparity_matrix(first),
        "another seed": disparity_matrix(first, others=second),
        "random walks": disparity_matrix(first, path="random walk 0"),
    }
    parts = [
        square.rename_axis("row")
        .reset_index()
        .melt("row", var_name="column", value_name="disparity")
        .assign(against=against)
        for against, square in tables.items()
    ]
    return pd.concat(parts, ignore_index=True)


def ratio(group: str, null: str, kinds: Sequence[str] = KINDS) -> Finding:
    """Disparity to the embedding over the control's ("between_runs" or "walks"), seed by seed."""
    table = shapes(group)
    means = table[table["kind"].isin(kinds)].groupby("seed")[["disparity", null]].mean()
    return findings.over_seeds((means["disparity"] / means[null]).to_numpy(), within=(0, math.inf))
