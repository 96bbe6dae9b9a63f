"""Train the front page's word vectors, lay them out, store both: ``python -m book.front [quick|paper]``."""

import sys

from book.front.vectors import layout_cells, vector_cells
from embviz.ledger.cells import run

if __name__ == "__main__":
    preset = sys.argv[1] if len(sys.argv) > 1 else "quick"
    run(vector_cells(preset), n_jobs=1)
    run(layout_cells(preset), n_jobs=1)
