"""Claims, cells, studies, findings, and the verdicts that follow."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach(
    __name__,
    submod_attrs={
        "cells": [
            "Cell",
            "connected",
            "experiment",
            "load",
            "missing",
            "read",
            "run",
            "table_of",
        ],
        "claims": [
            "Measurement",
            "find_claim",
            "load_claims",
            "papers",
            "published",
        ],
        "findings": ["Finding", "exact", "over_seeds"],
        "judging": ["Entry", "Row", "derive"],
        "ledger_file": ["as_json", "changed_since", "entries", "entry", "store_entries"],
        "stored": ["load_runs"],
        "studies": ["Study", "find_study"],
        "tables": [
            "measurement_texts",
            "repetitions",
            "summary",
            "tally",
        ],
        "verdicts": [
            "INCONCLUSIVE",
            "NOT_REPRODUCED",
            "NOT_TESTED",
            "SMALLER_SCALE",
            "VERDICTS",
            "YES",
            "tagged",
        ],
    },
)
