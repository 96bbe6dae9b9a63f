"""What each experiment computes: a small cell of it, beside what quick.json says of that cell.

    python -m tests.book.test_quick_cells [WORD ...]    # makes quick.json again, or cells named with a word

Experiments that train and lay out nothing are compared to rounding. Trainings come out a little differently
on every processor: their numbers may move by a share of their size, which covers what they moved by with
other kernels (ATEN_CPU_CAPABILITY=default MKL_ENABLE_INSTRUCTIONS=SSE4_2 OPENBLAS_CORETYPE=Prescott
NUMBA_CPU_NAME=generic); where nothing is compared, the numbers are finite and as many as they were.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import hashlib
import importlib
import json
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from book.front import training, vectors
from book.geometry.experiments import crossed, films, trajectory_drawings, trajectory_recordings
from book.ledger import cells
from book.ledger.cells import Cell, table_of
from book.reflections.experiments import language, spectrum
from book.reflections.experiments import vectors as reflections
from book.tying.experiments import natural_words, parity

FILE = Path(__file__).with_name("quick.json")
STORED = json.loads(FILE.read_text(encoding="utf-8")) if FILE.is_file() else {}
PAPERS = ("reflections", "tying", "kernel", "resizing", "geometry")
FEWER = {"n_steps": 12, "n_epochs": 2, "n_draws": 4}  # than the quick preset's, at any depth
CHANGED: dict[str, dict[str, int]] = {
    "geometry.covariance_walks": {"n_steps": 60, "n_epochs": 5},
    "geometry.trajectory_drawings": {"n_steps": 60, "n_epochs": 5},
    "reflections.partition": {"n_draws": 64},
    "reflections.skipgram": {"embedding_dim": 8, "n_epochs": 1},
}
EXACT = {  # they train and lay out nothing
    "front": "pairs",
    "kernel": "counts formula_at_scale log_terms scan untrained",
    "reflections": "corpus_count factorized_pmi joint_asymmetry partition quadratic_form random_pmi"
    " recovered_map spectrum weighted_signs",
    "resizing": "capacity measures",
    "tying": "exor_frequencies natural_baselines natural_words",
}
ROUNDING, TRAINED, FINITE = 1e-6, 0.01, float("inf")
WITHIN = {"resizing.throughput": FINITE}  # seconds
ROWS_AS_TEXT = ("tying.natural_text",)  # of trained numbers


def fewer(config: Any, changed: dict[str, int]) -> Any:
    """The same configuration with less training and fewer draws, and what else is changed."""
    new = {}
    for field in dataclasses.fields(config):
        value = getattr(config, field.name)
        if dataclasses.is_dataclass(value):
            new[field.name] = fewer(value, changed)
        elif field.name in FEWER:
            new[field.name] = min(value, changed.get(field.name, FEWER[field.name]))
        elif field.name in changed:
            new[field.name] = changed[field.name]
    return dataclasses.replace(config, **new)


@functools.cache
def small_cells() -> dict[str, Cell]:
    """The last quick cell of each experiment that a claim reads, and one of most others, made small."""
    found: dict[str, Cell] = {}
    for paper in PAPERS:
        studies = importlib.import_module(f"book.{paper}.experiments").STUDIES
        for cell in (cell for study in studies.values() for cell in study.every_cell("quick")):
            found[cell.experiment.name] = cell
    small = {
        name: cell.experiment.cell(fewer(cell.config, CHANGED.get(name, {})))
        for name, cell in sorted(found.items())
    }
    return small | {
        cell.experiment.name: cell for cell in beside({name: small[name].config for name in small})
    }


def beside(small: dict[str, Any]) -> list[Cell]:
    """Cells of experiments whose studies have none at the quick preset, on the configurations of others."""
    of_words = vectors.FrontVectors("embedded", False, n_words=200, embedding_dim=8, n_epochs=1, n_negative=5)
    run = small["geometry.grokking"]
    return [
        vectors.word_vectors.cell(of_words),
        training.pairs.cell(of_words),
        training.training.cell(training.WordsWhileTraining(of_words, (0, 100_000))),
        crossed.first_times.cell(run),
        films.grokking_film.cell(films.Film(run)),
        trajectory_drawings.codes_of_tensor.cell(small["geometry.trajectory_drawings"]),
        spectrum.corpus_count.cell(spectrum.CorpusCount("embedded", 100)),
        reflections.factorized_pmi.cell(reflections.FactorizedPMI("embedded", 2, 50, False, 16, False)),
        parity.even_search.cell(small["tying.even_runs"]),
        natural_words.natural_baselines.cell(small["tying.natural_text"]),
    ]


def summary(table: pd.DataFrame, n_digits: int = 16) -> dict[str, Any]:
    """Rows, columns, a digest of the texts, and mean, spread, first and last number by kind of row."""
    texts = [name for name in table if table[name].dtype.kind not in "fiu"]
    numbers = [name for name in table if name not in texts]
    digest = hashlib.sha256(table[texts].to_csv(index=False).encode()).hexdigest()[:8]
    kinds = table[texts].astype(str).agg(" ".join, axis=1) if texts else pd.Series("", index=table.index)
    shown = list(dict.fromkeys(kinds))
    shown = shown if len(shown) <= 6 else [*shown[:3], *shown[-3:]]
    return {
        "rows": len(table),
        "columns": " ".join(table),
        "texts": digest,
        "numbers": {
            f"{kind}|{name}": [
                float(f"{x:.{n_digits}g}") for x in (own.mean(), own.std(ddof=0), own.iloc[0], own.iloc[-1])
            ]
            for kind in shown
            for name, own in table.loc[kinds == kind, numbers].astype(float).items()
        },
    }


def is_exact(name: str) -> bool:
    """Whether its numbers are the same on every processor, but for rounding."""
    paper, _, short = name.partition(".")
    return short in EXACT.get(paper, "").split()


def within(name: str) -> float:
    """Share of its size by which a number may move."""
    return WITHIN.get(name, ROUNDING if is_exact(name) else TRAINED)


def moved(found: dict[str, list[float]], stored: dict[str, list[float]]) -> pd.Series:
    """By which share of its size the farthest of each four numbers moved; below 1e-9 all is rounding."""
    sizes = {name: max(np.abs(own).max(), 1e-9) for name, own in stored.items()}
    return pd.Series(
        {name: np.abs(np.subtract(found[name], stored[name])).max() / sizes[name] for name in stored}
    )


@contextlib.contextmanager
def empty_folders(folder: Path) -> Iterator[None]:
    """Nothing stored and nothing begun."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("EMBVIZ_RESULTS_DIR", str(folder / "results"))
        for module in (cells, language, trajectory_recordings):
            patch.setattr(module, "cache_folder", lambda: folder)
        yield


@pytest.fixture(scope="module", autouse=True)
def own_folders(tmp_path_factory):
    """Folders of these tests alone."""
    with empty_folders(tmp_path_factory.mktemp("cells")):
        yield


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[] if is_exact(name) else pytest.mark.slow) for name in STORED]
)
def test_a_small_cell_holds_what_it_held(name):
    table, stored = table_of(small_cells()[name]), STORED[name]
    found = summary(table) | ({"texts": stored["texts"]} if name in ROWS_AS_TEXT else {})
    assert found | {"numbers": {}} == stored | {"numbers": {}}
    assert np.isfinite(table.select_dtypes("number")).all(axis=None)
    far = moved(found["numbers"], stored["numbers"])
    far = far[far > within(name)]
    assert far.empty, f"moved by more than {within(name):.0e} of their size:\n{far.to_string()}"


def test_every_experiment_with_a_quick_cell_is_here():
    assert set(small_cells()) == set(STORED)
    exact = {f"{paper}.{name}" for paper, names in EXACT.items() for name in names.split()}
    assert exact | set(WITHIN) <= set(small_cells())


def write(*words: str) -> None:
    """Compute the cells whose names hold a word; print how far their numbers moved, and write them down."""
    found = dict(STORED)
    with tempfile.TemporaryDirectory() as folder, empty_folders(Path(folder)):
        for name, cell in small_cells().items():
            if not words or any(word in name for word in words):
                found[name] = summary(table_of(cell), 8 if is_exact(name) else 4)
                if name in STORED and STORED[name]["numbers"].keys() == found[name]["numbers"].keys():
                    far = moved(found[name]["numbers"], STORED[name]["numbers"]).max()
                    print(f"{name}: {far:.0e}", flush=True)
                lines = [f"{json.dumps(own)}: {json.dumps(found[own])}" for own in sorted(found)]
                FILE.write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")


if __name__ == "__main__":
    write(*sys.argv[1:])
