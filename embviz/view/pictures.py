"""What explorers, players and maps share: how they show themselves in a cell and as a page."""

from __future__ import annotations

import functools
import os
from typing import Any

from embviz.project import NoProjectError, find_project
from embviz.view.pages import MIME, image, save_page

WIDGET = "application/vnd.jupyter.widget-view+json"


class Picture:
    """A picture that gives a specification, and where it has one a widget for the notebook."""

    @functools.cached_property
    def widget(self) -> Any:
        """The face in a notebook, made on first use; None where a kernel adds nothing."""
        raise NotImplementedError

    def static_spec(self) -> dict[str, Any]:
        """The Vega-Lite specification that pages without a kernel show."""
        raise NotImplementedError

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write a page that works offline; its size is about 1 MB and the picture's data.

        Parameters
        ----------
        path : path
            Of the .html file; a file of that name is replaced once the new one is whole.
        """
        save_page(self, path)

    def _repr_mimebundle_(self, **_: Any) -> dict[str, Any]:
        bundle: dict[str, Any] = {MIME: self.static_spec(), "text/plain": repr(self)}
        if self.widget is not None:
            bundle[WIDGET] = {"version_major": 2, "version_minor": 0, "model_id": self.widget.model_id}
        return with_image(bundle)


def with_image(bundle: dict[str, Any]) -> dict[str, Any]:
    """Outside a project, with an image for front ends that show neither Vega charts nor widgets."""
    if in_project():  # JupyterLab and the book draw its chapters, and a converter draws what it stores
        return bundle
    return {**bundle, **image(bundle[MIME])}


def in_project() -> bool:
    """Whether the working directory is one of a project of chapters, such as the book."""
    try:
        find_project()
    except NoProjectError:
        return False
    return True
