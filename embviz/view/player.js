// A run as a moving picture: the explorers' chart with play, pause, step and a slider over its frames.
// Stands behind explorer.js, whose functions it uses; the book's extension takes both without their exports.

const SPEEDS = [2, 5, 10, 20, 40]; // frames a second
const WHOLE_RUN = 12; // seconds that a recording takes at the speed chosen at first
const ICONS = {
  restart: "M5 5h2.5v14H5zM19 5v14L8.5 12z",
  play: "M7 4.5v15L19.5 12z",
  pause: "M6.5 5h4v14h-4zM13.5 5h4v14h-4z",
  step: "M5 5v14l9-7zM15.5 5H18v14h-2.5z",
};
const NAMES = { restart: "Back to the start", play: "Play", pause: "Pause", step: "One frame on" };
const UNANSWERED = "no answer yet: the kernel is busy or was restarted; if it was restarted, run this cell again";

const sleep = (milliseconds) => new Promise((resolve) => setTimeout(resolve, Math.max(0, milliseconds)));

// Panels in a row shrink a little to fit the page, or else stand below each other, none wider than it. A row may
// hold columns of panels; rows below each other are each arranged so.
const ROOM_FOR_AXIS = 62; // pixels beside each panel
const EDGE = 16; // beside rows that stand below each other, whose axes are lined up
const LEAST = 0.8; // of its width, before a row is given up
const column = (part) => part.vconcat?.map((panel) => fed(panel, part)) ?? [part];
const widest = (part) => Math.max(...column(part).map((panel) => panel.width));
function arranged(spec, room) {
  const { hconcat, ...rest } = spec;
  if (spec.vconcat && room) {
    const inside = room - EDGE;
    const alone = inside - ROOM_FOR_AXIS;
    const fit = (row) => (row.width > 0 ? shrunk(row, alone / row.width) : arranged(row, inside));
    return { ...spec, vconcat: spec.vconcat.map(fit) };
  }
  if (!hconcat || !room || !hconcat.every((part) => widest(part) > 0)) return spec;
  const wanted = hconcat.reduce((sum, part) => sum + widest(part), 0);
  const share = (room - ROOM_FOR_AXIS * hconcat.length) / wanted;
  if (share >= LEAST) return { ...rest, hconcat: hconcat.map((part) => shrunk(part, share)) };
  const alone = room - ROOM_FOR_AXIS;
  return { ...rest, vconcat: hconcat.flatMap(column).map((panel) => shrunk(panel, alone / panel.width)) };
}

/** A panel by itself: Altair names the data that a column's panels share once, on the column. */
function fed(panel, { data, transform = [] }) {
  if (panel.data || !data) return panel;
  return { ...panel, data, transform: [...transform, ...(panel.transform ?? [])] };
}

function shrunk(panel, share) {
  if (share >= 1) return panel;
  if (panel.vconcat) return { ...panel, vconcat: panel.vconcat.map((one) => shrunk(one, share)) };
  const width = Math.floor(share * panel.width);
  return panel.height === panel.width ? { ...panel, width, height: width } : { ...panel, width }; // a square stays one
}

function show(button, act) {
  button.dataset.act = act;
  button.setAttribute("aria-label", NAMES[act]);
  button.title = NAMES[act];
  button.innerHTML = `<svg viewBox="0 0 24 24" aria-hidden="true"><path d="${ICONS[act]}"/></svg>`;
}

function choose(parent, label, values, say) {
  const select = child(parent, "select", "");
  select.setAttribute("aria-label", label);
  select.title = label;
  for (const value of values) {
    const option = child(select, "option", "");
    option.value = value;
    option.textContent = say(value);
  }
  return select;
}

/** The row of buttons over a chart; nothing in it does anything yet. */
function playerBar(figure, label, withKernel, nFrames) {
  const row = document.createElement("div");
  row.className = "embviz-player";
  row.setAttribute("role", "group");
  row.setAttribute("aria-label", "player");
  figure.querySelector(".embviz-chart").before(row);
  const parts = { row };
  for (const act of ["restart", "play", "step"]) {
    parts[act] = child(row, "button", "");
    parts[act].type = "button";
    show(parts[act], act);
  }
  parts.slider = child(row, "input", "");
  Object.assign(parts.slider, { type: "range", min: 0, step: 1 });
  parts.slider.setAttribute("aria-label", label);
  parts.number = child(row, "span", "embviz-step");
  parts.speed = choose(row, "frames a second", SPEEDS, (speed) => `${speed}/s`);
  const still = matchMedia("(prefers-reduced-motion: reduce)").matches;
  const quick = SPEEDS.find((speed) => nFrames / speed <= WHOLE_RUN) ?? SPEEDS.at(-2);
  parts.speed.value = still ? SPEEDS[0] : quick;
  if (withKernel) {
    const words = { live: "computed here", recorded: "recorded" };
    parts.source = choose(row, "which frames", ["live", "recorded"], (value) => words[value]);
  }
  // JupyterLab would take the arrow keys and the space bar; it asks the focused element first
  for (const part of row.querySelectorAll("button, input, select")) part.dataset.lmSuppressShortcuts = "true";
  return parts;
}

const COMPUTED_TITLE = "A run that is computed while you watch";
const numbersIn = (text) => (String(text ?? "").match(/\d+/g) ?? []).map(Number);
const stepsOf = (rows) => [...new Set(rows.map((row) => row.frame))];

/** Plays the frames of a recording, or those that a kernel computed so far. */
class Playback {
  constructor(view, say, bar, meta, recorded, ask, follow, onStep) {
    Object.assign(this, { view, say, bar, meta, recorded, ask, follow, onStep });
    this.steps = stepsOf(recorded);
    this.place = this.steps.indexOf(view.signal("frame")); // of the frame that is shown, or is about to be
    this.drawing = null;
    this.turn = 0; // a later press makes an earlier loop leave
    this.playing = false;
    this.run = 0;
    this.asks = meta.player.asks?.map(({ name }) => name) ?? meta.controls; // the controls of a live run
    this.forget();
    this.showControls();
    if (this.isLive) this.load(this.rows());
    else this.paint();
    this.listen();
  }

  get last() {
    return this.steps.length - 1;
  }

  get widest() {
    return `${this.meta.player.label} ${this.steps.at(-1).toLocaleString("en")}`.length;
  }

  get isLive() {
    return this.bar.source?.value === "live";
  }

  get isBorrowed() {
    return this.isLive && this.kept.length === 0; // before the first frame the recording's stands there
  }

  get computes() {
    return this.isLive && !this.over;
  }

  get isOver() {
    return this.place === this.last && !this.computes;
  }

  rows() {
    if (!this.isLive) return this.recorded;
    return this.isBorrowed ? this.recorded.filter((row) => row.frame === this.recorded[0].frame) : this.kept;
  }

  listen() {
    const { bar } = this;
    bar.play.addEventListener("click", () => this.toggle());
    bar.restart.addEventListener("click", () => this.restart());
    bar.step.addEventListener("click", () => {
      this.pause();
      this.told(this.forward());
    });
    bar.slider.addEventListener("input", () => {
      this.pause();
      this.told(this.go(Number(bar.slider.value)));
    });
    bar.slider.addEventListener("keydown", (event) => {
      if (event.key !== " ") return;
      event.preventDefault(); // the page would scroll
      this.toggle();
    });
    bar.source?.addEventListener("change", () => this.turnSource());
    for (const { control, field, recorded } of this.meta.player.clicks ?? []) {
      this.view.addEventListener("click", (_, item) => {
        const number = item?.datum?.[field];
        if (number === undefined) return;
        if (this.isLive) this.pick(control, number);
        else this.told(this.findRecording(recorded, number));
      });
    }
    for (const name of this.asks) {
      // Vega is in the midst of its own redrawing
      this.view.addSignalListener(name, () => this.isLive && sleep(0).then(() => this.anew(this.playing)));
    }
    for (const name of this.meta.controls) this.view.addSignalListener(name, () => this.entitle());
  }

  /** A title that follows the recordings says nothing of frames that are computed. */
  entitle() {
    if (!this.follow) return;
    this.follow();
    if (this.isLive) entitle(this.bar.row.closest("figure"), COMPUTED_TITLE);
  }

  /** Where live runs have controls of their own, only those of the frames that are shown stand there. */
  showControls() {
    if (!this.meta.player.asks) return;
    const form = this.bar.row.closest("figure").querySelector(".embviz-controls");
    for (const [names, shown] of [[this.asks, this.isLive], [this.meta.controls, !this.isLive]]) {
      for (const name of names) {
        const input = form.querySelector(`[name="${name}"]`);
        if (input) input.closest(".vega-bind").style.display = shown ? "" : "none";
      }
    }
  }

  /** Put a number into a set of numbers, or take it out; that begins another run. */
  pick(control, number) {
    const picked = numbersIn(this.view.signal(control));
    const changed = picked.includes(number) ? picked.filter((one) => one !== number) : [...picked, number];
    this.told(this.view.signal(control, changed.sort((a, b) => a - b).join(" ")).runAsync());
  }

  /** Turn to the first recording whose set has the number, unless the one shown has it. */
  async findRecording(curve, number) {
    const has = this.recorded.filter((row) => numbersIn(row[curve]).includes(number));
    const { controls } = this.meta;
    if (has.some((row) => controls.every((name) => row[name] === this.view.signal(name)))) return;
    const among = has.length ? "" : `No recording with ${number}: with a kernel, any can be computed.`;
    this.say(among);
    if (!has.length) return;
    for (const name of controls) this.view.signal(name, has[0][name]);
    await this.view.runAsync();
  }

  /** A failure that nobody awaits is told in the page. */
  told(promise) {
    promise.catch((error) => this.say(error.message, true));
  }

  paint() {
    const { slider, number, restart } = this.bar;
    const step = `${this.meta.player.label} ${this.steps[this.place].toLocaleString("en")}`;
    number.style.minWidth = `${this.widest}ch`; // or the slider would change its length while it plays
    slider.max = this.last; // before the value, which it cuts
    slider.value = this.place;
    slider.disabled = this.last === 0;
    slider.setAttribute("aria-valuetext", step);
    number.textContent = this.isBorrowed ? `${step}, recorded` : step;
    this.onStep(this.steps[this.place]);
    restart.title = this.isLive ? "Begin anew" : NAMES.restart;
    restart.setAttribute("aria-label", restart.title);
  }

  /** Show the recording, or what is computed, as was chosen. */
  turnSource() {
    this.pause();
    this.say(this.isLive ? this.note : "");
    this.showControls();
    this.entitle();
    this.told(this.load(this.rows()));
  }

  /** Turn to a step that the kernel set: of the frames that are shown, or else of the recording. */
  turnTo(step) {
    if (!this.steps.includes(step) && this.isLive) {
      this.bar.source.value = "recorded";
      this.turnSource();
    }
    const place = this.steps.indexOf(step);
    if (place < 0 || place === this.place) return;
    this.pause();
    this.told(this.go(place));
  }

  /** Show the frame at a place; resolves when it's drawn. Of many wanted meanwhile only the last is. */
  go(place) {
    this.place = Math.min(Math.max(place, 0), this.last);
    this.paint();
    this.drawing ??= this.draw();
    return this.drawing;
  }

  async draw() {
    try {
      let step;
      do {
        step = this.steps[this.place];
        await this.view.signal("frame", step).runAsync();
      } while (step !== this.steps[this.place]);
    } finally {
      this.drawing = null; // in the same breath as the last look at the place
    }
  }

  load(rows) {
    this.steps = stepsOf(rows);
    this.view.data("measured", guarded(rows)); // a copy: Vega marks the rows it's given
    return this.go(0);
  }

  /** One frame on, computed if need be; resolves to whether there was one, and nobody pressed anything. */
  async forward() {
    const { turn, run, isBorrowed } = this;
    if (this.place === this.last) {
      if (!this.computes) return false;
      const seen = this.kept.length;
      await this.compute();
      if (turn !== this.turn || run !== this.run || seen === this.kept.length) return false;
    }
    await this.go(isBorrowed ? 0 : this.place + 1);
    return true;
  }

  toggle() {
    if (this.playing) this.pause();
    else this.start();
  }

  pause() {
    this.turn += 1;
    this.playing = false;
    show(this.bar.play, "play");
  }

  async start() {
    const turn = (this.turn += 1);
    this.playing = true;
    show(this.bar.play, "pause");
    const wait = (since) => sleep(since + 1000 / Number(this.bar.speed.value) - performance.now());
    try {
      if (this.isOver) {
        await this.go(0);
        await wait(performance.now());
      }
      while (turn === this.turn && this.bar.row.isConnected) {
        const since = performance.now();
        if (!(await this.forward()) || this.isOver) break;
        await wait(since);
      }
    } catch (error) {
      this.say(error.message, true);
    }
    if (turn === this.turn) this.pause();
  }

  restart() {
    const { playing } = this;
    if (this.isLive) {
      this.anew(playing);
      if (!playing) this.told(this.forward());
      return;
    }
    this.pause();
    this.told(this.go(0));
    if (playing) this.start();
  }

  /** Leave the live run for another, at the controls' values. */
  anew(playing) {
    this.pause();
    this.forget();
    this.say("");
    this.told(this.load(this.rows()));
    if (playing) this.start();
  }

  forget() {
    Object.assign(this, { run: this.run + 1, kept: [], over: false, asked: null, note: "" });
    delete this.bar.number.dataset.waiting;
  }

  /** Ask the kernel for one frame and keep it; several who wait, wait for the same. */
  compute() {
    this.asked ??= this.question(this.run);
    return this.asked;
  }

  async question(run) {
    const { number } = this.bar;
    const timers = [
      setTimeout(() => (number.dataset.waiting = "true"), 400),
      setTimeout(() => this.giveUp(), PATIENCE),
    ];
    const values = Object.fromEntries(this.asks.map((name) => [name, unguarded(this.view.signal(name))]));
    const reply = await this.ask({ run, seen: this.kept.length, values });
    timers.forEach(clearTimeout);
    if (run !== this.run) return; // begun anew meanwhile
    delete number.dataset.waiting;
    this.asked = null;
    if (reply.row) this.keep(reply.row);
    else this.over = true;
    this.note = reply.row?.note ?? this.note;
    const ended = reply.end ? `The run has ended; all its frames (${this.kept.length}) are kept.` : "";
    this.say(reply.error ?? [this.note, ended].filter(Boolean).join(" "), Boolean(reply.error));
  }

  /** The buttons are free again; an answer that comes late is kept all the same. */
  giveUp() {
    this.pause();
    this.say(UNANSWERED);
  }

  keep(row) {
    this.kept.push(row);
    if (!this.isLive) return; // the recording was chosen meanwhile
    if (this.kept.length === 1) {
      this.told(this.load(this.kept));
      return;
    }
    this.steps.push(row.frame);
    this.view.insert("measured", guarded([row]));
    this.paint();
  }
}

/** Draw a run and its buttons inside `element`; with `ask`, a kernel computes frames; `onStep` hears each step. */
async function play(element, spec, vegaEmbed, ask = null, onStep = () => {}) {
  const meta = spec.usermeta.embviz;
  const recorded = ask ? structuredClone(spec.datasets.measured) : spec.datasets.measured;
  const own = new Map(ask ? meta.player.asks?.map((param) => [param.name, param]) : []);
  const params = spec.params.map(({ bind, ...rest }) => {
    return own.get(rest.name) ?? (rest.name === "frame" || !bind ? rest : { ...rest, bind });
  });
  const drawn = { ...arranged(spec, element.clientWidth), params };
  const { view, say, follow } = await mount(element, drawn, vegaEmbed);
  const figure = element.querySelector("figure");
  const bar = playerBar(figure, meta.player.label, ask !== null, stepsOf(recorded).length);
  return new Playback(view, say, bar, meta, recorded, ask, follow, onStep);
}

/** Questions to a kernel, each answered by one message; several views of one model share its messages. */
function correspondence(model) {
  const reader = Math.random().toString(36).slice(2);
  const waiting = new Map();
  const hear = (message) => {
    if (message.kind !== "frame" || message.reader !== reader) return;
    waiting.get(message.run)?.(message);
    waiting.delete(message.run);
  };
  model.on("msg:custom", hear);
  const ask = (question) =>
    new Promise((resolve) => {
      waiting.set(question.run, resolve);
      model.send({ kind: "frame", reader, ...question });
    });
  return { ask, leave: () => model.off("msg:custom", hear) };
}

async function renderPlayer({ model, el }) {
  const { ask, leave } = correspondence(model);
  const spec = structuredClone(model.get("spec"));
  const chosen = model.get("step");
  let shown = false; // what a page shows at first nobody has chosen
  const tell = (step) => {
    if (!shown) return;
    model.set("step", step);
    model.save_changes();
  };
  const playback = await play(el, spec, await runtime(model), model.get("computes") ? ask : null, tell);
  const follow = () => playback.turnTo(model.get("step"));
  model.on("change:step", follow);
  if (chosen !== spec.params.find(({ name }) => name === "frame").value) playback.turnTo(chosen);
  shown = true;
  tell(playback.steps[playback.place]);
  return () => {
    playback.pause();
    leave();
    model.off("change:step", follow);
    playback.view.finalize();
  };
}

export default { render: renderPlayer };
