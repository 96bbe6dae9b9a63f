"""embviz: instruments for the geometry of embeddings."""

import sys
from typing import Any

import lazy_loader

__version__ = "0.2.0"

__getattr__, __dir__, __all__ = lazy_loader.attach(
    __name__,
    submodules=[
        "corpora", "words", "models", "runs", "training", "inspection", "trajectories", "kernels", "ledger",
        "view", "metrics", "neighbors", "projections", "project", "storage", "memory", "imports",
    ],
    submod_attrs={"inspection": ["compare", "inspect", "patch"]},
)  # fmt: skip


def _show_inspections() -> None:
    """In a notebook an inspection shows itself as a page with widgets, where `embviz.view` is installed."""
    shell: Any = sys.modules["IPython"].get_ipython() if "IPython" in sys.modules else None
    if shell is None:
        return

    def show(report: Any) -> None:
        try:
            from embviz.view import live_inspection
        except ImportError:
            print(report.description)
        else:
            live_inspection(report)._ipython_display_()

    shown = shell.display_formatter.ipython_display_formatter
    shown.for_type_by_name("embviz.inspection.inspecting", "Inspection", show)


_show_inspections()
