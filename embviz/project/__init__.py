"""A project: a folder of claims, with the experiments, results and chapters that belong to them."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach(
    __name__,
    submodules=["copies", "folder", "new"],
    submod_attrs={
        "copies": ["Copies", "copy_chapters"],
        "folder": ["NoProjectError", "Project", "find_project", "import_from", "working_in"],
        "new": ["new_project"],
    },
)
