"""Claims, cells, studies, findings, and the verdicts that follow."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach(
    __name__,
    submodules=["cells", "claims", "findings", "judging", "made_here", "printed", "studies"],
    submod_attrs={
        "cells": [
            "Cell",
            "Experiment",
            "compute",
            "device",
            "experiment",
            "load",
            "missing",
            "read",
            "run",
            "table_digest",
            "table_of",
            "training_run",
        ],
        "claims": ["Claim", "Figure", "claim_files", "find_claim", "load_claims", "papers"],
        "findings": ["Finding", "exact", "over_seeds"],
        "judging": [
            "Entry",
            "FAILS",
            "HOLDS",
            "NOT_MEASURED",
            "REPORTED",
            "Row",
            "UNCLEAR",
            "VERDICTS",
            "as_record",
            "conclude",
            "entries",
            "entry",
            "judge",
            "summary",
            "table",
            "tally",
        ],
        "printed": ["printed_tables", "published"],
        "studies": ["Study", "find_study", "largest_stored"],
    },
)
