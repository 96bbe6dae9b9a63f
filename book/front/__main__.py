"""Train the front page's word vectors and store them: ``python -m book.front [quick|paper]``."""

import sys

from book.front.vectors import vector_cells
from embviz.ledger.cells import run

if __name__ == "__main__":
    run(vector_cells(sys.argv[1] if len(sys.argv) > 1 else "quick"), n_jobs=1)
