"""A live widget on an empty page, without JupyterLab: what the page asks, the widget answers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import anywidget
from playwright.sync_api import BrowserContext, Page

from embviz.view.pages import vega_runtime
from tests.book.browser import Watch

# In the page: what anywidget gives a view, over a function of the test's.
RENDER = """
async ([code, state]) => {
  const hearers = new Set();
  const model = {
    get: (name) => state[name],
    on: (_, hear) => hearers.add(hear),
    off: (_, hear) => hearers.delete(hear),
    send: async (message) => {
      const reply = await askKernel(message);
      if (reply === null) return;
      for (const hear of hearers) hear(reply);
    },
  };
  globalThis.embvizRuntime = Promise.resolve(globalThis.embvizVegaEmbed);
  const {default: widget} = await import(URL.createObjectURL(new Blob([code], {type: "text/javascript"})));
  globalThis.leave = await widget.render({model, el: document.querySelector("#el")});
}
"""
Ask = Callable[[dict[str, Any]], dict[str, Any] | None]


def kernel_of(widget: anywidget.AnyWidget, asked: list[dict[str, Any]]) -> Ask:
    """Answers as the widget does, and writes down what was asked."""
    heard: list[dict[str, Any]] = []
    widget.send = heard.append

    def answer(message: dict[str, Any]) -> dict[str, Any]:
        asked.append(message)
        widget._hear(widget, message, [])
        return heard.pop()

    return answer


def show_widget(context: BrowserContext, watch: Watch, code: str, state: dict[str, Any], ask: Ask) -> Page:
    """A page with the view of a widget whose state is `state`; `ask` answers, None for never."""
    page = context.new_page()
    watch.follow(page)
    page.expose_function("askKernel", ask)
    page.set_content("<div id=el></div>")
    page.add_script_tag(content=f"(() => {{{vega_runtime()}\n}})()")
    page.evaluate(RENDER, [code, state])
    return page
