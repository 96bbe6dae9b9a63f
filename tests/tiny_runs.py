"""Tiny recorded runs in the quick ones' place, with results and recordings in folders of their own."""

import contextlib
import dataclasses
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from book.geometry.experiments import trajectory_recordings, trajectory_runs
from book.geometry.experiments.steering_language import Setting
from book.geometry.experiments.trajectory_recordings import WEB, Pipeline, TrajectoryRun
from book.language import TextConfig
from embviz.ledger import cells

SETTING = Setting(8, 1, 2, 16, 8, 2, 80, 1e-2)
PIPELINE = Pipeline((8,), (8, 5), n_walks=2, n_epochs=3, max_iter=5, n_permutations=5, alternatives=False)
SOURCE = TextConfig("embedded", n_documents=40, n_held_out=1)
TINY = TrajectoryRun(SOURCE, setting=SETTING, sketch=32, pipeline=PIPELINE)
STORIES_AT, WEB_AT = trajectory_runs.stories, trajectory_runs.web


def tiny(preset: str) -> TrajectoryRun:
    return TINY if preset == "quick" else STORIES_AT(preset)


def tiny_web(preset: str) -> TrajectoryRun:
    return dataclasses.replace(TINY, text=WEB) if preset == "quick" else WEB_AT(preset)


@contextlib.contextmanager
def tiny_runs(folder: Path) -> Iterator[pytest.MonkeyPatch]:
    """Within the block: one thread, tiny quick runs, and nothing stored in `folder` at first."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("EMBVIZ_RESULTS_DIR", str(folder / "results"))
        patch.setattr(trajectory_recordings, "cache_folder", lambda: folder / "cache")
        patch.setattr(cells, "cache_folder", lambda: folder / "cache")  # of what is being trained
        patch.setattr(trajectory_runs, "stories", tiny)
        patch.setattr(trajectory_runs, "web", tiny_web)
        yield patch
    torch.set_num_threads(threads)
