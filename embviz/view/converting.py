"""For nbconvert, which draws neither Vega charts nor widgets: an image of each picture of a notebook."""

from __future__ import annotations

from typing import Any

from nbconvert.preprocessors import Preprocessor

from embviz.view.pages import MIME, image
from embviz.view.pictures import WIDGET


class ChartImages(Preprocessor):
    """Puts an image beside each stored chart. An installed embviz configures nbconvert's HTML to use it.

    The image shows the controls' first values. It replaces a live widget, which has no model in a page.
    """

    def preprocess_cell(self, cell: Any, resources: Any, index: int) -> tuple[Any, Any]:
        """One cell with images, as nbconvert asks for it."""
        for output in cell.get("outputs", []):
            data = output.get("data", {})
            if MIME in data:
                data.update(image(data[MIME]))
                data.pop(WIDGET, None)
        return cell, resources
