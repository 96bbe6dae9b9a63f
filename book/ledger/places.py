"""Where the book's claims, results and ledger lie: in this checkout.

==================  ==========================  =======================
what                named by                    default
==================  ==========================  =======================
claims              nothing                     ``data/claims``
stored results      ``EMBVIZ_RESULTS_DIR``      ``data/results``
ledger              ``EMBVIZ_RESULTS_DIR``      ``data/ledger.json``
==================  ==========================  =======================
"""

from __future__ import annotations

import os
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
BOOK = ROOT / "book"


def claims_folder() -> Path:
    """Folder of the claims, a TOML file a paper."""
    return ROOT / "data" / "claims"


def results_folder() -> Path:
    """Folder of stored results: ``EMBVIZ_RESULTS_DIR``, or ``data/results``."""
    named = os.environ.get("EMBVIZ_RESULTS_DIR")
    return Path(named).expanduser() if named else ROOT / "data" / "results"


def ledger_path() -> Path:
    """File of the ledger: ``ledger.json`` in ``EMBVIZ_RESULTS_DIR``, or in ``data``."""
    named = os.environ.get("EMBVIZ_RESULTS_DIR")
    return Path(named).expanduser() / "ledger.json" if named else ROOT / "data" / "ledger.json"
