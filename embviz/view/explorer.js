// One way to draw a chart and its controls, for the live notebook and for the static book.
// The book's extension takes this file without its last line and adds a start-up of its own.

const ESCAPES = { "&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;", "'": "&#39;" };
const escapeHtml = (value) => String(value).replace(/[&<>"']/g, (character) => ESCAPES[character]);

// A tooltip is the one place where Vega writes HTML: every name and value goes in as text, and no field
// (Vega-Tooltip knows "image" and "title") gets a meaning of its own, since words come from vocabularies.
function tooltipHtml(value) {
  if (value === null || typeof value !== "object") return escapeHtml(value);
  const rows = Object.entries(value).map(
    ([name, shown]) => `<tr><td class="key">${escapeHtml(name)}</td><td class="value">${escapeHtml(shown)}</td></tr>`,
  );
  return `<table>${rows.join("")}</table>`;
}

// A link may leave a chart, to a page of the book or the web; nothing else is ever asked for by one.
const LINK = /^(https?:\/\/|[\w./-]*\.html|#)/;
const refuse = () => Promise.reject(new Error("charts fetch nothing"));
const offlineLoader = {
  load: refuse,
  http: refuse,
  file: refuse,
  sanitize: (uri, options) => (options?.context === "href" && LINK.test(uri) ? Promise.resolve({ href: uri }) : refuse()),
};

function child(parent, tag, className) {
  const element = parent.appendChild(document.createElement(tag));
  element.className = className;
  return element;
}

// Vega looks some words up in plain objects, which inherit "constructor" and the like: there a vocabulary has an
// invisible sign before them, and a value that goes to the kernel has none.
const INHERITED = new Set(Object.getOwnPropertyNames(Object.prototype));
const SIGN = "\u2060"; // word joiner
const NAMED = new Set(["values", "value", "options", "domain", "sort", "datasets"]); // what holds words
const unguarded = (value) => (typeof value === "string" && value[0] === SIGN ? value.slice(1) : value);
function guarded(part) {
  if (typeof part === "string") return INHERITED.has(part) ? SIGN + part : part;
  return mapped(part, guarded);
}
function mapped(part, change) {
  if (Array.isArray(part)) return part.map((one) => change(one));
  if (part === null || typeof part !== "object") return part;
  return Object.fromEntries(Object.entries(part).map(([name, value]) => [name, change(value, name)]));
}
const guardedSpec = (part, name) => (NAMED.has(name) ? guarded(part) : mapped(part, guardedSpec));

// Vega's own class of views, which the bundle of its libraries names nowhere: taken from an empty drawing.
let plainView;
const viewClass = (vegaEmbed) =>
  (plainView ??= vegaEmbed(document.createElement("div"), { marks: [] }, { mode: "vega", actions: false }).then(
    ({ view }) => view.constructor,
  ));

// Vega tells an error in the midst of drawing to its log alone, and an empty chart is all that one sees.
function tellingView(View, say) {
  const error = (...parts) => {
    console.warn(...parts);
    say(`This chart could not be drawn: ${parts.map((part) => part?.message ?? part).join(" ")}`, true);
  };
  const quiet = () => {};
  const logger = { level: quiet, error, warn: console.warn, info: quiet, debug: quiet };
  return class extends View {
    constructor(runtime, options) {
      super(runtime, { ...options, logger, logLevel: null });
    }
  };
}

const same = (one, other) => one === other || Math.abs(one - other) < 1e-9;

// A title may follow the controls: one sentence for each combination of those that change it.
function followTitle(figure, view, titles) {
  const names = Object.keys(titles[0]).filter((name) => name !== "title");
  const follow = () => {
    const found = titles.find((one) => names.every((name) => same(one[name], unguarded(view.signal(name)))));
    if (found) entitle(figure, found.title);
  };
  for (const name of names) view.addSignalListener(name, follow);
  return follow;
}

function entitle(figure, title) {
  figure.querySelector(".embviz-title").textContent = title;
  if (title) figure.setAttribute("aria-label", title);
}

// Where a measurement failed, its message stands in place of the drawing.
function tellGaps(view, gaps, say) {
  const names = Object.keys(gaps[0]).filter((name) => name !== "message");
  const look = () => {
    const gap = gaps.find((one) => names.every((name) => same(one[name], unguarded(view.signal(name)))));
    say(gap?.message ?? "", Boolean(gap));
  };
  for (const name of names) view.addSignalListener(name, look);
}

// Back to where all controls stood at first; there only while one of them stands elsewhere.
function offerReset(controls, view, params) {
  const bound = params.filter((param) => param.bind && "value" in param);
  if (!bound.length) return;
  const button = child(controls, "button", "embviz-reset");
  button.type = "button";
  button.textContent = "reset";
  const moved = () => bound.filter(({ name, value }) => String(view.signal(name)) !== String(value));
  const look = () => (button.style.visibility = moved().length ? "" : "hidden");
  button.addEventListener("click", () => {
    for (const { name, value } of moved()) view.signal(name, value);
    view.runAsync();
    controls.querySelector("input, select")?.focus(); // the button is about to go
  });
  for (const { name } of bound) view.addSignalListener(name, look);
  look();
}

// States worth a look: a button sets the controls that it names, and leaves the others where they are.
function offerTries(controls, view, tries) {
  if (!tries.length) return;
  const row = child(controls, "div", "embviz-tries");
  row.append("try");
  for (const { name, values } of tries) {
    const button = child(row, "button", "");
    button.type = "button";
    button.textContent = name;
    button.addEventListener("click", () => {
      for (const [control, value] of Object.entries(values)) view.signal(control, guarded(value));
      view.runAsync();
    });
  }
}

// Vega binds native inputs, so the keyboard works; what it leaves out is said here.
function finishControls(controls) {
  // JupyterLab would take the arrow keys; it asks the focused element first
  for (const input of controls.elements) input.dataset.lmSuppressShortcuts = "true";
  for (const group of controls.querySelectorAll(".vega-bind-radio")) {
    group.setAttribute("role", "radiogroup");
    group.setAttribute("aria-label", group.previousElementSibling.textContent);
  }
}

// Vega follows the window alone; a box also changes while the page settles, or when a fold is opened.
function followWidth(chart, view) {
  let width = chart.clientWidth;
  new ResizeObserver(() => {
    if (chart.clientWidth === 0 || Math.abs(chart.clientWidth - width) < 2) return;
    width = chart.clientWidth;
    view.signal("width", width).runAsync();
  }).observe(chart);
}

// Panels share the page's width: what all their axes leave over is divided among those that may grow. On a
// phone they stand below each other.
const LEAST_PANEL = 80; // pixels
async function fitPanels(chart, view, { width, fluid }) {
  const names = Object.entries(view.getState({ signals: (name) => /width$/i.test(name) }).signals)
    .filter(([, value]) => value === width)
    .map(([name]) => name);
  let shown = width;
  let fitting = false;
  const fit = async () => {
    if (fitting || chart.clientWidth === 0) return;
    fitting = true;
    for (let round = 0; round < 3; round++) {
      // labels of the axes come and go with the width: measure again
      const over = Number(chart.querySelector("svg").getAttribute("width")) - chart.clientWidth; // a phone shrinks it
      const wanted = Math.max(LEAST_PANEL, shown - Math.ceil(over / fluid));
      if (wanted === shown) break;
      shown = wanted;
      for (const name of names) view.signal(name, shown);
      await view.resize().runAsync();
    }
    fitting = false;
  };
  await fit();
  new ResizeObserver(fit).observe(chart);
}

// A title that is longer than its axis stands in two lines.
const LONG_TITLE = { y: 40, x: 32 }; // letters; of a level axis on a phone alone
const halves = (text) => {
  const at = text.lastIndexOf(" ", Math.ceil(text.length / 2) + 4);
  return at < 0 ? text : [text.slice(0, at), text.slice(at + 1)];
};
function broken(axes) {
  const change = (part, name) => {
    const title = axes.includes(name) && part?.axis?.title;
    if (typeof title === "string" && title.length > LONG_TITLE[name]) return { ...part, axis: { ...part.axis, title: halves(title) } };
    return name === "data" || name === "datasets" ? part : mapped(part, change);
  };
  return change;
}

// On a phone long labels leave the drawing its room: those of an upright axis stand in two lines, and those of a
// legend in one column.
const NARROW = 480; // pixels
const NARROW_LABEL = 150;
const TWO_COLUMNS = 18; // letters of a legend's label up to which two stand beside each other
const LINE = "lastindexof(slice(datum.label, 0, 25), ' ')";
const TWO_LINES = `length(datum.label) > 24 && ${LINE} > 0 ? [slice(datum.label, 0, ${LINE}), slice(datum.label, ${LINE} + 1)] : datum.label`;
function narrowed(part, name) {
  if (Array.isArray(part)) return part.map((one) => narrowed(one));
  if (part === null || typeof part !== "object") return part;
  const entries = Object.entries(part).map(([key, value]) => {
    if (key === "data" || key === "datasets") return [key, value];
    return [key, key === "labelLimit" ? Math.min(value, NARROW_LABEL) : narrowed(value, key)];
  });
  const shown = Object.fromEntries(entries);
  if (name === "y" && shown.type === "nominal" && shown.axis !== null && !shown.axis?.labelExpr) {
    shown.axis = { ...shown.axis, labelExpr: TWO_LINES, labelLineHeight: 11 };
  }
  const labels = shown.legend && shown.scale?.domain;
  if (Array.isArray(labels) && Math.max(...labels.map((one) => String(one).length)) > TWO_COLUMNS) {
    shown.legend = { ...shown.legend, columns: 1, labelLimit: 300 };
  }
  return shown;
}

/** A figure with its title, a form for controls, room for the drawing, a message and the caption. */
function framed(element, { title, caption = "" }, kind, bar) {
  const figure = child(element, "figure", "embviz");
  child(figure, "div", "embviz-title").textContent = title ?? "";
  const controls = child(figure, "form", bar); // a form keeps its radio buttons apart from others'
  const chart = child(figure, "div", "embviz-chart");
  const status = child(figure, "div", "embviz-status");
  status.setAttribute("role", "status");
  child(figure, "figcaption", "embviz-caption").textContent = caption;
  figure.setAttribute("aria-label", title || kind);
  const say = (text, wrong = false, hidden = false) => {
    status.textContent = text;
    status.classList.toggle("embviz-wrong", wrong);
    status.classList.toggle("embviz-unseen", hidden);
  };
  return { figure, controls, chart, say };
}

/** Draw `spec` inside `element`; resolves to the Vega view and a function that shows a message below. */
async function mount(element, spec, vegaEmbed) {
  const meta = spec.usermeta?.embviz ?? {};
  const { figure, controls, chart, say } = framed(element, meta, "chart", "embviz-controls");
  // as text of the page title and caption wrap, so the chart needs none of its own
  const narrow = element.clientWidth > 0 && element.clientWidth < NARROW;
  const safe = broken(narrow ? ["x", "y"] : ["y"])(guardedSpec(spec));
  const shown = { ...(narrow ? narrowed(safe) : safe), $schema: undefined };
  if ("title" in meta) delete shown.title;
  if (meta.fluid) shown.width = "container";
  if (meta.panels && narrow) shown.columns = 1;
  try {
    const { view } = await vegaEmbed(chart, shown, {
      mode: "vega-lite",
      actions: false,
      renderer: "svg",
      bind: controls,
      loader: offlineLoader,
      viewClass: tellingView(await viewClass(vegaEmbed), say),
      tooltip: { formatTooltip: tooltipHtml },
      config: {
        legend: { symbolOpacity: 1, ...(narrow && { columns: 2 }) }, // the kind, though its seeds are drawn faint
        axisY: narrow ? { labelLimit: NARROW_LABEL } : {},
      },
    });
    offerReset(controls, view, shown.params ?? []);
    offerTries(controls, view, meta.tries ?? []);
    finishControls(controls);
    if (meta.gaps) tellGaps(view, meta.gaps, say);
    const follow = meta.titles ? followTitle(figure, view, meta.titles) : null;
    if (shown.width === "container") followWidth(chart, view);
    if (meta.panels) await fitPanels(chart, view, narrow ? { ...meta.panels, fluid: 1 } : meta.panels);
    element.view = view;
    element.dataset.ready = "true";
    return { view, say, follow };
  } catch (error) {
    say(`This chart could not be drawn: ${error.message}`, true);
    throw error;
  }
}

// Every explorer brings Vega along, since a kernel busy with later cells could not be asked for it; the
// first one on a page loads it for all.
function runtime(model) {
  globalThis.embvizRuntime ??= (async () => {
    const url = URL.createObjectURL(new Blob([model.get("runtime")], { type: "text/javascript" }));
    await import(/* webpackIgnore: true */ url);
    URL.revokeObjectURL(url);
    return globalThis.embvizVegaEmbed;
  })();
  return globalThis.embvizRuntime;
}

const PATIENCE = 20_000; // milliseconds without an answer after which the next move asks again

/** Ask the kernel for rows whenever a control moves: one question at a time, and then only the latest. */
function converse(model, view, names, say) {
  const reader = Math.random().toString(36).slice(2); // several views of one model share its messages
  let asked = 0; // questions
  let waiting = false;
  let stale = false;
  let lost = false; // the last question had no answer in time
  let timers = [];
  const rest = () => timers.forEach(clearTimeout);
  const giveUp = () => {
    waiting = false;
    lost = true;
    say("no answer yet: the kernel is busy or was restarted; if it was restarted, run this cell again");
    if (stale) ask();
  };
  const ask = () => {
    if (waiting) {
      stale = true;
      return;
    }
    waiting = true;
    stale = false;
    rest();
    timers = [setTimeout(() => lost || say("measuring …"), 400), setTimeout(giveUp, PATIENCE)];
    const values = Object.fromEntries(names.map((name) => [name, unguarded(view.signal(name))]));
    asked += 1;
    model.send({ kind: "measure", request: `${reader}:${asked}`, values });
  };
  const hear = async (message) => {
    if (message.kind !== "rows" || message.request !== `${reader}:${asked}`) return; // others', or given up
    rest();
    waiting = false;
    lost = false;
    if (stale) ask(); // before drawing: the kernel measures while the page draws
    if (message.error) {
      say(message.error, true); // the chart keeps the last frame that was measured
      return;
    }
    say("");
    if (message.title !== undefined) entitle(view.container().closest("figure"), message.title);
    for (const [name, rows] of Object.entries(message.tables)) view.data(name, guarded(rows));
    await view.runAsync();
  };
  model.on("msg:custom", hear);
  for (const name of names) view.addSignalListener(name, ask);
  return () => {
    rest();
    model.off("msg:custom", hear);
  };
}

/** Where the controls stand is the model's value: it learns of every move, and whoever sets it moves them. */
function shareValue(model, view) {
  const names = Object.keys(model.get("value"));
  const tell = () => {
    model.set("value", Object.fromEntries(names.map((name) => [name, unguarded(view.signal(name))])));
    model.save_changes();
  };
  const follow = () => {
    const moved = Object.entries(model.get("value")).filter(([name, value]) => !same(unguarded(view.signal(name)), value));
    for (const [name, value] of moved) view.signal(name, guarded(value));
    if (moved.length) view.runAsync();
  };
  for (const name of names) view.addSignalListener(name, tell);
  model.on("change:value", follow);
  follow();
  return () => model.off("change:value", follow);
}

async function render({ model, el }) {
  const spec = structuredClone(model.get("spec"));
  const { controls, stored } = spec.usermeta.embviz;
  const { view, say } = await mount(el, spec, await runtime(model));
  const leave = stored ? () => {} : converse(model, view, controls, say);
  const forget = shareValue(model, view);
  return () => {
    leave();
    forget();
    view.finalize();
  };
}

export default { render };
