"""What a cell costs beside its work, at home and on a dask cluster of this machine: ``sweep_cost 1000``."""

from __future__ import annotations

import os
import sys
import tempfile
import time

from book.ledger import cells
from tests.book.ledger.tiny_sweeps import Tiny, tiny


def cost(n_cells: int, *, on_cluster: bool) -> float:
    """Milliseconds a cell that does nothing, two workers."""
    with tempfile.TemporaryDirectory() as folder:
        os.environ["EMBVIZ_RESULTS_DIR"] = folder
        wanted = [tiny.cell(Tiny(seed)) for seed in range(n_cells + 2)]
        if not on_cluster:
            cells.run(wanted[:2], n_jobs=2, progress=False)  # workers start
            start = time.perf_counter()
            cells.run(wanted[2:], n_jobs=2, progress=False)
        else:
            from distributed import LocalCluster

            made = LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None)
            with made as cluster, cells.connected(cluster.scheduler_address):
                cells.run(wanted[:2], progress=False)
                start = time.perf_counter()
                cells.run(wanted[2:], progress=False)
        return 1e3 * (time.perf_counter() - start) / n_cells


if __name__ == "__main__":
    n = int(sys.argv[1]) if len(sys.argv) > 1 else 200
    for on_cluster in (False, True):
        where = "a dask cluster of this machine" if on_cluster else "processes of this machine"
        print(f"{n:,} cells on {where}: {cost(n, on_cluster=on_cluster):.1f} ms each")
