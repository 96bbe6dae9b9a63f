"""Measure and store what the front page and the introduction show: ``python -m book.front [quick|paper]``."""

import sys

from book.front.glove import map_cells
from book.front.training import pair_cells, training_cells
from book.front.vectors import layout_cells, vector_cells
from book.ledger.cells import run

if __name__ == "__main__":
    preset = sys.argv[1] if len(sys.argv) > 1 else "quick"
    run(vector_cells(preset), n_jobs=1)
    run(layout_cells(preset), n_jobs=1)
    run(training_cells(preset), n_jobs=1)
    run(pair_cells(preset), n_jobs=1)
    if preset == "paper":  # needs released vectors
        run(map_cells(), n_jobs=1)
