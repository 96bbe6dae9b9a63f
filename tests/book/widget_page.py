"""A live widget on an empty page, without JupyterLab: what the page asks, the widget answers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import anywidget
from playwright.sync_api import Page

from embviz.view.pages import vega_runtime
from embviz.view.pictures import Picture

# In the page: what anywidget gives a view, over a function of the test's.
RENDER = """
async ([code, state]) => {
  const hearers = new Map();
  const tell = (event, what) => [...(hearers.get(event) ?? [])].forEach((hear) => hear(what));
  let unsent = {};
  globalThis.receive = (name, value) => {
    if (JSON.stringify(state[name]) === JSON.stringify(value)) return;
    state[name] = value;
    tell(`change:${name}`);
  };
  const model = {
    get: (name) => state[name],
    set: (name, value) => {
      if (JSON.stringify(state[name]) !== JSON.stringify(value)) unsent[name] = value;
      receive(name, value);
    },
    save_changes: () => {
      if (Object.keys(unsent).length) tellKernel(unsent);
      unsent = {};
    },
    on: (event, hear) => hearers.set(event, (hearers.get(event) ?? new Set()).add(hear)),
    off: (event, hear) => hearers.get(event)?.delete(hear),
    send: async (message) => {
      const reply = await askKernel(message);
      if (reply !== null) tell("msg:custom", reply);
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


def show_widget(page: Page, widget: Picture, ask: Ask = lambda _: None, around: str = "<div>") -> Page:
    """Put the view of a picture on an empty page; `ask` answers, None for never; the picture hears the page.

    In the page, ``receive(name, value)`` is a value that the kernel sent.
    """
    names = {"spec", "value", "step", "computes", "selected"} & set(widget.keys)
    state = {name: getattr(widget, name) for name in names}
    page.expose_function("askKernel", ask)
    page.expose_function("tellKernel", widget.set_state)
    page.set_content(f"{around}<div id=el></div>")
    page.add_style_tag(content=str(widget._css))
    page.add_script_tag(content=f"(() => {{{vega_runtime()}\n}})()")
    page.evaluate(RENDER, [str(widget._esm), state])
    return page
