"""What explorers, players and maps share: how they show themselves in a cell, and as a page of their own."""

from __future__ import annotations

import os
from typing import Any

from embviz.project import NoProjectError, find_project


class Picture:
    """A picture that gives a specification, and what else a notebook can show it as."""

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write a page of its own, about 1 MB and what the picture weighs, which asks no other host.

        Parameters
        ----------
        path : path
            Of the .html file; a file of that name is replaced once the new one is whole.
        """
        from embviz.view.pages import save_page

        save_page(self, path)

    def _bundle(self) -> dict[str, Any]:
        raise NotImplementedError

    def _repr_mimebundle_(self, **_: Any) -> dict[str, Any]:
        return with_html(self._bundle(), self)


def with_html(bundle: dict[str, Any], picture: Any) -> dict[str, Any]:
    """Outside a project with HTML beside it, for front ends that know neither Vega nor our widgets."""
    if in_project():  # JupyterLab and the book draw its chapters, where 1 MB a cell would be too much
        return bundle
    from embviz.view.pages import frame

    return {**bundle, "text/html": frame(picture)}


def in_project() -> bool:
    """Whether the working directory is one of a project of chapters, such as the book."""
    try:
        find_project()
    except NoProjectError:
        return False
    return True
