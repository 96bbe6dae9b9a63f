"""What explorers, players and maps share: a widget, an output of a cell, a page."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path
from typing import Any

import anywidget
import traitlets

from embviz.view.main_thread import answer_between_cells
from embviz.view.pages import MIME, image, save_page

WIDGET = "application/vnd.jupyter.widget-view+json"


class Picture(anywidget.AnyWidget):
    """A picture that is a widget in a notebook, and a specification for pages without a kernel."""

    spec = traitlets.Dict(help="what the widget draws").tag(sync=True)

    @property
    def widget(self) -> Any:
        """The picture itself: it can stand in ipywidgets' boxes, as in ``VBox([picture])``."""
        return self

    def open(self) -> None:
        """Nothing yet: a page learns of the picture when it is shown, alone or in another widget."""

    @property
    def model_id(self) -> str:
        """Name of the picture's model in a page, which is opened at first use."""
        if self.comm is None:
            super().open()
        model_id: str = super().model_id
        return model_id

    def set_state(self, sync_data: dict[str, Any]) -> None:
        """Take values that a page sent, between two cells: observers run where cells run."""

        def take() -> None:
            with contextlib.suppress(traitlets.TraitError):  # the page says itself what is wrong
                super(Picture, self).set_state(sync_data)

        answer_between_cells(take)

    def static_spec(self) -> dict[str, Any]:
        """The Vega-Lite specification that pages without a kernel show."""
        raise NotImplementedError

    def output_spec(self) -> dict[str, Any]:
        """The specification that a cell's output stores beside the widget."""
        return self.static_spec()

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write a page that works offline; its size is about 1 MB and the picture's data.

        Parameters
        ----------
        path : path
            Of the .html file; a file of that name is replaced once the new one is whole.
        """
        save_page(self, path)

    def _repr_mimebundle_(self, **_: Any) -> dict[str, Any]:  # type: ignore[override]
        bundle: dict[str, Any] = {MIME: self.output_spec(), "text/plain": repr(self)}
        bundle[WIDGET] = {"version_major": 2, "version_minor": 0, "model_id": self.model_id}
        return with_image(bundle)


def with_image(bundle: dict[str, Any]) -> dict[str, Any]:
    """Outside a book, with an image for front ends that show neither Vega charts nor widgets."""
    if in_book():  # JupyterLab and Jupyter Book draw its chapters, and a converter draws what it stores
        return bundle
    return {**bundle, **image(bundle[MIME])}


def in_book() -> bool:
    """Whether the working directory lies in a Jupyter Book: a folder above it has a table of contents."""
    here = Path.cwd()
    return any((folder / "_toc.yml").is_file() for folder in (here, here / "book", *here.parents))
