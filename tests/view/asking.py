"""Stands for a page: says something to a picture's widget and hears what it answers."""

from __future__ import annotations

from typing import Any

from embviz.view.pictures import Picture


def replies(picture: Picture, message: Any) -> list[dict[str, Any]]:
    """All that a picture sends after a message of the page."""
    heard: list[dict[str, Any]] = []
    picture.widget.send = heard.append
    picture.widget._hear(picture.widget, message, [])
    return heard
