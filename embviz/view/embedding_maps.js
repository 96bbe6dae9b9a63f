// Maps of embeddings on a plain canvas. Stands behind explorer.js, whose `child` it uses; the book's
// extension takes it without its export. Words are only ever set as text or drawn, and looked up in a Map.

const LABEL = { font: "12px system-ui, sans-serif", bold: "600 13px system-ui, sans-serif", height: 14, letters: 28 };
const ROOM_A_LABEL = 2200; // square pixels of the map
const MARGIN = 16; // pixels around the points
const NAME_ROOM = 70; // pixels beside a neighbour for its name
const HEIGHTS = { map: 560, states: 380, null: 220 }; // pixels at most
const REACH = 16; // pixels from a point within which it is pointed at
const TURN = 350; // milliseconds of a change of view
const LONG_TURN = 900; // of thousands of points that go to other places
const SUGGESTIONS = 12;
const BOTH = -1; // shown: both embeddings, joined by lines
const KEPT_COLUMN = "neighbours kept";
const RAMP_STEPS = 24;
const LINES = 5; // above and below a neighbour where its name may stand
const ALPHA = 0.8; // of points
const CORNERS = { "triangle-up": [[0, -1.2], [1.1, 0.8], [-1.1, 0.8]], diamond: [[0, -1.35], [1, 0], [0, 1.35], [-1, 0]] };

const cut = (word) => {
  const flat = word.replace(/\s+/gu, " ");
  const letters = Array.from(flat.slice(0, 4 * LABEL.letters));
  return letters.length > LABEL.letters ? `${letters.slice(0, LABEL.letters - 1).join("")}…` : flat || "␣";
};
const unpacked = (text) => new Uint16Array(Uint8Array.from(atob(text), (one) => one.charCodeAt(0)).buffer);
const tidy = (number) => number.toLocaleString("en", { maximumSignificantDigits: 3 });
const twoDigits = (number) => (number < 10 ? number.toPrecision(2) : Math.round(number).toLocaleString("en"));

/** The words of one map, their places, neighbours and columns, as the page holds them. */
class MapData {
  constructor(row, about) {
    this.words = row.word;
    this.index = new Map(row.word.map((word, place) => [word, place]));
    this.about = about;
    this.k = about.n_neighbors;
    this.shows = about.names.map((name, place) => ({
      name,
      x: Float64Array.from(row[`x${place}`]),
      y: Float64Array.from(row[`y${place}`]),
      kept: row[`kept${place}`],
      near: unpacked(about.near[place]),
      far: unpacked(about.far[place]),
    }));
    this.compared = about.compared && unpacked(about.compared);
    this.columns = new Map(about.columns.map((one, place) => [one.name, { ...one, values: row[`column${place}`] }]));
  }

  neighbours(show, point) {
    const { near, far } = this.shows[show];
    const of = (_, place) => {
      const at = point * this.k + place;
      return { point: near[at], distance: far[at] * this.about.unit };
    };
    return Array.from({ length: this.k }, of);
  }

  /** The neighbours that a point has where these are compared with, if they are. */
  former(point) {
    return this.compared && Array.from(this.compared.subarray(point * this.k, (point + 1) * this.k));
  }

  /** Points no farther in the plane than the k-th nearest there. */
  nearInPlane(show, point) {
    const { x, y } = this.shows[show];
    const squares = Float64Array.from(x, (other, place) => (other - x[point]) ** 2 + (y[place] - y[point]) ** 2);
    squares[point] = Infinity;
    const limit = squares.slice().sort()[this.k - 1];
    return (other) => squares[other] <= limit;
  }

  /** Places of words that a typed text may mean: the word, those that begin with it, those that have it. */
  find(text, most = SUGGESTIONS) {
    const wanted = text.trim().toLowerCase();
    if (!wanted) return [];
    const begin = [];
    const inside = [];
    for (let place = 0; place < this.words.length; place += 1) {
      const at = this.words[place].toLowerCase().indexOf(wanted);
      if (at === 0 && this.words[place].length === wanted.length) begin.unshift(place);
      else if (at === 0) begin.push(place);
      else if (at > 0 && inside.length < most) inside.push(place);
    }
    const same = this.index.get(text) ?? this.index.get(text.trim());
    return [...new Set([...(same === undefined ? [] : [same]), ...begin, ...inside])].slice(0, most);
  }
}

/** Add a symbol of one kind to a path. */
function trace(path, shape, x, y, r) {
  if (shape === "square") path.rect(x - 0.9 * r, y - 0.9 * r, 1.8 * r, 1.8 * r);
  else if (shape === "cross") {
    path.rect(x - 1.2 * r, y - 0.4 * r, 2.4 * r, 0.8 * r);
    path.rect(x - 0.4 * r, y - 1.2 * r, 0.8 * r, 2.4 * r);
  } else if (shape === "circle") {
    path.moveTo(x + r, y);
    path.arc(x, y, r, 0, 2 * Math.PI);
  } else {
    const corners = CORNERS[shape];
    path.moveTo(x + corners[0][0] * r, y + corners[0][1] * r);
    for (const [across, down] of corners) path.lineTo(x + across * r, y + down * r);
    path.closePath();
  }
}

/** A symbol on a canvas of its own, for the legend. */
function symbol(shape, colour) {
  const canvas = document.createElement("canvas");
  canvas.width = canvas.height = 28;
  const path = new Path2D();
  trace(path, shape, 14, 14, 9);
  const pen = canvas.getContext("2d");
  pen.fillStyle = colour;
  pen.fill(path);
  return canvas;
}

function mixed(ramp, share) {
  const at = Math.min(Math.max(share, 0), 1) * (ramp.length - 1);
  const low = Math.min(Math.floor(at), ramp.length - 2);
  const parts = (colour) => [1, 3, 5].map((from) => parseInt(colour.slice(from, from + 2), 16));
  const [a, b] = [parts(ramp[low]), parts(ramp[low + 1])];
  return `rgb(${a.map((one, place) => Math.round(one + (at - low) * (b[place] - one))).join(",")})`;
}

const ON_DARK = { "#0072B2": "#56b4e9", "#D55E00": "#e66100" }; // as explorer.css has it for charts
/** A colour of the theme on a page whose text is `ink`. */
function shownAs(colour, ink) {
  if (colour === "currentColor") return ink;
  const [red, green, blue] = ink.match(/\d+/g).map(Number);
  return (red + green + blue > 3 * 128 && ON_DARK[colour]) || colour;
}

/** The colour behind an element: the first opaque one going up. */
function groundOf(element) {
  for (let one = element; one; one = one.parentElement) {
    const colour = getComputedStyle(one).backgroundColor;
    if (colour && !/^rgba\(.*, 0(\.\d+)?\)$|transparent/.test(colour)) return colour;
  }
  return "#fff";
}

/** One canvas: draws, moves, and says which point is pointed at. */
class WordMap {
  constructor(panel, data, look, told) {
    Object.assign(this, { data, look, told });
    this.box = child(panel, "div", "embviz-map-box");
    this.canvas = child(this.box, "canvas", "");
    this.pen = this.canvas.getContext("2d");
    this.canvas.tabIndex = 0;
    this.canvas.dataset.lmSuppressShortcuts = "true";
    this.canvas.setAttribute("role", "img");
    this.show = data.about.first ?? 0;
    this.column = data.about.columns[0]?.name ?? null; // the first of those that were given
    this.pointed = null; // { point, show }
    this.chosen = []; // the points of the words that are chosen
    this.widths = new Map();
    this.view = { scale: 1, x: 0, y: 0 }; // the point of the plane in the middle
    this.places = data.shows.map(({ x, y }) => ({ x: x.slice(), y: y.slice() }));
    this.labels = []; // those drawn last
    new ResizeObserver(() => this.resize()).observe(this.box);
    this.listen();
    this.resize();
  }

  // --- sizes and places ---

  resize() {
    const width = this.box.clientWidth;
    if (!width || (width === this.width && devicePixelRatio === this.ratio)) return;
    const first = this.width === undefined;
    const before = first ? 1 : this.fitted;
    this.ratio = devicePixelRatio;
    this.width = width;
    const { over, below } = this.data.about;
    const most = parseFloat(getComputedStyle(this.box).maxHeight); // a page may have less room
    this.height = Math.round(Math.min(this.fullHeight, most || HEIGHTS[over ? (below ? "null" : "states") : "map"]));
    this.canvas.style.height = `${this.height}px`;
    this.canvas.width = Math.round(width * this.ratio);
    this.canvas.height = Math.round(this.height * this.ratio);
    if (first) this.fit();
    else this.view.scale *= this.fitted / before;
    this.draw(); // a canvas that changes its size is empty
  }

  /** Pixels of height beyond which a map would only have empty bands. */
  get fullHeight() {
    return this.width;
  }

  /** Pixels a step at which all points that are shown are seen. */
  get fitted() {
    return Math.min((this.width - 2 * MARGIN) / (this.frame.width || 1), (this.height - 2 * MARGIN) / (this.frame.height || 1));
  }

  get zoom() {
    return this.view.scale / this.fitted;
  }

  fit() {
    const ends = (name) => {
      const shown = this.data.about.over ? this.data.shows.keys() : this.drawn; // all states, so that axes stay
      const values = Array.from(shown).flatMap((show) => Array.from(this.data.shows[show][name]));
      return values.reduce(([low, high], one) => [Math.min(low, one), Math.max(high, one)], [Infinity, -Infinity]);
    };
    const [[left, right], [bottom, top]] = this.edges ?? [ends("x"), ends("y")];
    this.frame = { width: right - left, height: top - bottom };
    this.view = { scale: this.fitted, x: (left + right) / 2, y: (bottom + top) / 2 };
    this.ask();
  }

  screen(show, point) {
    const { x, y } = this.places[show];
    const { scale } = this.view;
    return [this.width / 2 + (x[point] - this.view.x) * scale, this.height / 2 - (y[point] - this.view.y) * scale];
  }

  get drawn() {
    return this.show === BOTH ? [0, 1] : [this.show];
  }

  zoomBy(factor, px = this.width / 2, py = this.height / 2) {
    const { view } = this;
    const scale = Math.min(Math.max(view.scale * factor, this.fitted / 2), this.fitted * 400);
    const shift = 1 / view.scale - 1 / scale; // the point under the cursor stays there
    view.x += (px - this.width / 2) * shift;
    view.y -= (py - this.height / 2) * shift;
    view.scale = scale;
    this.ask();
  }

  moveBy(dx, dy) {
    this.view.x -= dx / this.view.scale;
    this.view.y += dy / this.view.scale;
    this.ask();
  }

  /** Bring a point to the middle, near enough that its surroundings have labels and far enough that its
   *  neighbours are seen; where axes are to stay, only one that is out of sight. */
  centre(point) {
    const [px, py] = this.screen(Math.max(this.show, 0), point);
    if (this.data.about.over && px > 0 && px < this.width && py > 0 && py < this.height) return;
    const { x, y } = this.data.shows[Math.max(this.show, 0)];
    const from = { ...this.view };
    const around = this.data.neighbours(Math.max(this.show, 0), point).map(({ point: other }) => other);
    const across = Math.max(...around.map((other) => Math.abs(x[other] - x[point]))) / (this.width / 2 - NAME_ROOM);
    const up = Math.max(...around.map((other) => Math.abs(y[other] - y[point]))) / (this.height / 2 - MARGIN);
    const near = this.data.words.length > 20000 ? 40 : 4;
    const scale = Math.min(Math.max(from.scale, this.fitted * near), 1 / Math.max(across, up, 1e-9));
    this.turn((share) => {
      this.view = {
        scale: from.scale * (scale / from.scale) ** share,
        x: from.x + (x[point] - from.x) * share,
        y: from.y + (y[point] - from.y) * share,
      };
    });
  }

  turnTo(show) {
    const from = this.places[Math.max(this.show, 0)];
    this.show = show;
    for (const at of this.drawn) {
      const to = this.data.shows[at];
      this.places[at] = { x: to.x.slice(), y: to.y.slice() };
    }
    if (this.pointed) this.pointed.show = this.drawn[0];
    if (!this.data.about.over) this.fit();
    if (show === BOTH) return;
    const to = this.data.shows[show];
    const place = this.places[show];
    this.turn((share) => {
      for (let point = 0; point < to.x.length; point += 1) {
        place.x[point] = from.x[point] + (to.x[point] - from.x[point]) * share;
        place.y[point] = from.y[point] + (to.y[point] - from.y[point]) * share;
      }
    }, this.data.about.packed ? LONG_TURN : TURN);
  }

  /** Change something step by step, or at once for who wants little motion. */
  turn(step, lasts = TURN) {
    cancelAnimationFrame(this.turning);
    const since = performance.now();
    const still = matchMedia("(prefers-reduced-motion: reduce)").matches;
    const go = () => {
      const share = still ? 1 : Math.min((performance.now() - since) / lasts, 1);
      step(share < 1 ? share * share * (3 - 2 * share) : 1);
      this.ask();
      if (share < 1) this.turning = requestAnimationFrame(go);
    };
    go();
  }

  // --- drawing ---

  ask() {
    this.asked ??= requestAnimationFrame(() => {
      this.asked = undefined;
      if (this.width) this.draw();
    });
  }

  draw() {
    const { pen } = this;
    const style = getComputedStyle(this.canvas);
    const follows = this.ink !== style.color;
    this.ink = style.color;
    this.ground = groundOf(this.box);
    if (follows) this.told.inked();
    pen.setTransform(this.ratio, 0, 0, this.ratio, 0, 0);
    pen.clearRect(0, 0, this.width, this.height);
    if (this.show === BOTH) this.drawPairs();
    for (const show of this.drawn) this.drawPoints(show);
    if (this.pointed) this.drawNeighbours();
    this.drawChosen();
    this.drawLabels();
    if (this.data.about.scale) this.drawScale(this.data.about.scale);
  }

  /** For each look its colour and shape, and for each point the number of its look. */
  looks(show) {
    const { categories, shapes, ramp } = this.look;
    const inked = (colour) => shownAs(colour, this.ink);
    const plain = (place) => ({ of: () => 0, looks: [[inked(categories[place]), shapes[place]]] });
    const own = this.data.about.over ? 0 : show;
    if (this.column === null) return plain(own);
    const kept = this.column === KEPT_COLUMN;
    const column = this.data.columns.get(this.column);
    if (!kept && column.kinds) {
      const place = new Map(column.kinds.map((kind, at) => [kind, at]));
      const looks = column.kinds.map((_, at) => [inked(categories[at]), shapes[at]]);
      return { of: (point) => place.get(column.values[point]), looks };
    }
    const values = kept ? this.data.shows[show].kept : column.values;
    const [low, high] = kept ? [0, this.data.k] : [column.low, column.high];
    const steps = RAMP_STEPS - 1;
    const looks = Array.from({ length: RAMP_STEPS }, (_, at) => [mixed(ramp, at / steps), shapes[own]]);
    return { of: (point) => Math.round(((values[point] - low) / (high - low || 1)) * steps), looks };
  }

  get radius() {
    const each = Math.sqrt((this.width * this.height) / this.data.words.length);
    const few = Math.min(Math.max((each - 20) / 40, 0), 2); // where there is room, shapes can be told apart
    const base = Math.min(Math.max(each / 5, 1.4), 2) + few;
    return Math.min(base + 0.5 * Math.log2(Math.max(this.zoom, 1)), 4.5);
  }

  drawPoints(show) {
    const { pen, width, height, radius } = this;
    const { of, looks } = this.looks(show);
    const paths = looks.map(() => new Path2D());
    const { x, y } = this.places[show];
    const { scale } = this.view;
    const [left, top] = [width / 2 - this.view.x * scale, height / 2 + this.view.y * scale];
    const dots = looks.length === 1 && radius < 2.5; // squares this small look round, and take half the time
    pen.globalAlpha = ALPHA;
    pen.fillStyle = looks[0][0];
    for (let point = x.length - 1; point >= 0; point -= 1) {
      const px = left + x[point] * scale;
      const py = top - y[point] * scale;
      if (px < -9 || py < -9 || px > width + 9 || py > height + 9) continue;
      if (dots) pen.fillRect(px - radius, py - radius, 2 * radius, 2 * radius);
      else trace(paths[of(point)], looks[of(point)][1], px, py, radius);
    }
    looks.forEach(([colour], place) => {
      pen.fillStyle = colour;
      pen.fill(paths[place]);
    });
    pen.globalAlpha = 1;
  }

  drawPairs() {
    const { pen } = this;
    pen.strokeStyle = this.ink;
    pen.globalAlpha = 0.16;
    pen.lineWidth = 1;
    pen.beginPath();
    for (let point = 0; point < this.data.words.length; point += 1) {
      pen.moveTo(...this.screen(0, point));
      pen.lineTo(...this.screen(1, point));
    }
    pen.stroke();
    pen.globalAlpha = 1;
  }

  /** Lines from the word pointed at to its true neighbours, wherever the plane put them. */
  drawNeighbours() {
    const { pen } = this;
    const { point, show } = this.pointed;
    const from = this.screen(show, point);
    pen.strokeStyle = this.look.categories[1];
    pen.lineWidth = 1.4;
    pen.beginPath();
    for (const { point: other } of this.data.neighbours(show, point)) {
      pen.moveTo(...from);
      pen.lineTo(...this.screen(show, other));
    }
    pen.stroke();
    this.ring(...from);
    if (this.show !== BOTH) return;
    pen.setLineDash([4, 3]);
    pen.beginPath();
    pen.moveTo(...this.screen(0, point));
    pen.lineTo(...this.screen(1, point));
    pen.stroke();
    pen.setLineDash([]);
  }

  /** A ring about each chosen word. */
  drawChosen() {
    const { pen } = this;
    for (const point of this.chosen) this.ring(...this.screen(this.drawn[0], point));
  }

  /** A ring that stands out among thousands of points: on the colour of the page. */
  ring(x, y) {
    const { pen } = this;
    for (const [colour, width] of [[this.ground, 7], [this.look.categories[1], 3]]) {
      pen.strokeStyle = colour;
      pen.lineWidth = width;
      pen.beginPath();
      pen.arc(x, y, this.radius + 4, 0, 2 * Math.PI);
      pen.stroke();
    }
  }

  /** A bar as long as a round distance in the plane. */
  drawScale(unit) {
    const { pen } = this;
    const most = (90 / this.view.scale) * unit;
    const ten = 10 ** Math.floor(Math.log10(most));
    const length = [5, 2, 1].find((one) => one * ten <= most) * ten;
    const pixels = (length / unit) * this.view.scale;
    const y = this.height - 10;
    pen.font = LABEL.font;
    pen.fillStyle = this.ground;
    pen.fillRect(4, y - 18, pixels + 12, 24);
    pen.fillStyle = this.ink;
    pen.fillRect(10, y, pixels, 2);
    pen.fillText(tidy(length), 10, y - 8);
  }

  widthOf(point) {
    if (!this.widths.has(point)) this.widths.set(point, this.pen.measureText(cut(this.data.words[point])).width);
    return this.widths.get(point);
  }

  /** Labels that fit, the word pointed at and its neighbours first, then the words in their order. */
  drawLabels() {
    const { pen } = this;
    pen.font = LABEL.font;
    pen.textBaseline = "middle";
    pen.lineJoin = "round";
    pen.lineWidth = 3;
    pen.strokeStyle = this.ground;
    pen.fillStyle = this.ink;
    const taken = new Taken();
    for (const box of this.regionBoxes ?? []) taken.take(...box);
    const most = (this.width * this.height) / (this.roomALabel ?? ROOM_A_LABEL);
    const shown = [];
    const named = new Set();
    const put = (show, point, bold = false, places = 1) => {
      const [x, y] = this.screen(show, point);
      if (named.has(point) || x < -40 || y < 0 || x > this.width || y > this.height) return;
      const wide = this.widthOf(point) * (bold ? 1.2 : 1);
      const gap = this.radius + (bold ? 11 : 2);
      const [after, before] = [x + gap, x - gap - wide];
      const beside = after + wide < this.width ? [after, before] : [before, after];
      const spots = [[beside[0], y], [beside[1], y]];
      for (let line = 1; line <= LINES; line += 1) {
        for (const way of [-1, 1]) for (const left of [...beside, x - wide / 2]) spots.push([left, y + way * line * LABEL.height]);
      }
      for (const [left, at] of spots.slice(0, places)) {
        const right = left + wide;
        if (places > 1 && (left < 0 || right > this.width)) continue; // cut at the edge
        if (!taken.take(left - 3, at - LABEL.height / 2, right + 3, at + LABEL.height / 2)) continue;
        shown.push({ word: this.data.words[point], left, right, y: at, bold });
        return;
      }
    };
    if (this.pointed) {
      put(this.pointed.show, this.pointed.point, true, Infinity);
      named.add(this.pointed.point);
      for (const { point } of this.data.neighbours(this.pointed.show, this.pointed.point)) {
        put(this.pointed.show, point, false, Infinity); // wherever there is room about it
        named.add(point);
      }
    }
    const first = this.drawn[0];
    for (const point of this.chosen) {
      put(first, point, true, Infinity);
      named.add(point);
    }
    for (const point of this.labelled()) {
      if (shown.length >= most) break;
      put(first, point);
    }
    for (const { word, left, right, y, bold } of shown) {
      if (bold) this.plate(word, left, right, y);
      else {
        pen.strokeText(cut(word), left, y);
        pen.fillText(cut(word), left, y);
      }
    }
    this.labels = shown;
  }

  /** The name of a word that is pointed at or chosen, in the page's ink on its ground, turned over. */
  plate(word, left, right, y) {
    const { pen } = this;
    pen.fillRect(left - 4, y - LABEL.height / 2 - 2, right - left + 8, LABEL.height + 4);
    pen.font = LABEL.bold;
    pen.fillStyle = this.ground;
    pen.fillText(cut(word), left, y);
    pen.font = LABEL.font;
    pen.fillStyle = this.ink;
  }

  /** Points in the order in which they are labelled. */
  labelled() {
    return this.data.words.keys();
  }

  // --- pointing and moving ---

  /** The point within reach of a place of the canvas, or null. */
  hit(px, py) {
    let best = null;
    let least = REACH ** 2;
    for (const show of this.drawn) {
      for (let point = 0; point < this.data.words.length; point += 1) {
        const [x, y] = this.screen(show, point);
        const square = (x - px) ** 2 + (y - py) ** 2;
        if (square < least) [best, least] = [{ point, show }, square];
      }
    }
    return best;
  }

  listen() {
    const { canvas } = this;
    const at = (event) => {
      const box = canvas.getBoundingClientRect();
      return [event.clientX - box.left, event.clientY - box.top];
    };
    const held = new Map();
    let moved = 0;
    canvas.addEventListener("pointerdown", (event) => {
      held.set(event.pointerId, at(event));
      moved = 0;
      canvas.setPointerCapture(event.pointerId);
    });
    canvas.addEventListener("pointermove", (event) => {
      const now = at(event);
      if (!held.has(event.pointerId)) return this.told.hover(this.hit(...now));
      const before = [...held.values()];
      const was = held.get(event.pointerId);
      held.set(event.pointerId, now);
      moved += Math.hypot(now[0] - was[0], now[1] - was[1]);
      if (moved < 4) return;
      canvas.dataset.dragged = "true";
      if (held.size === 2) this.pinch(before, [...held.values()]);
      else if (event.pointerType !== "touch") this.moveBy(now[0] - was[0], now[1] - was[1]);
    });
    const release = (event) => {
      if (event.type === "pointerup" && held.size === 1 && moved < 4) this.told.pin(this.hit(...at(event)), event.shiftKey);
      held.delete(event.pointerId);
      delete canvas.dataset.dragged;
    };
    canvas.addEventListener("pointerup", release);
    canvas.addEventListener("pointercancel", release);
    canvas.addEventListener("pointerleave", () => this.told.hover(null));
    canvas.addEventListener("dblclick", (event) => this.zoomBy(2, ...at(event)));
    // the wheel scrolls the page until the map is chosen
    const wheel = (event) => {
      if (!event.ctrlKey && document.activeElement !== canvas && canvas.getRootNode().activeElement !== canvas) return this.told.wheel();
      event.preventDefault();
      this.zoomBy(2 ** (-event.deltaY / (event.deltaMode ? 12 : 300)), ...at(event));
    };
    canvas.addEventListener("wheel", wheel, { passive: false });
    canvas.addEventListener("keydown", (event) => this.press(event));
  }

  pinch(before, now) {
    const span = ([a, b]) => Math.hypot(a[0] - b[0], a[1] - b[1]);
    const middle = ([a, b]) => [(a[0] + b[0]) / 2, (a[1] + b[1]) / 2];
    const [from, to] = [middle(before), middle(now)];
    this.moveBy(to[0] - from[0], to[1] - from[1]);
    if (span(before) > 0) this.zoomBy(span(now) / span(before), ...to);
  }

  press(event) {
    const moves = { ArrowLeft: [40, 0], ArrowRight: [-40, 0], ArrowUp: [0, 40], ArrowDown: [0, -40] };
    if (event.key in moves) this.moveBy(...moves[event.key]);
    else if (event.key === "+" || event.key === "=") this.zoomBy(1.4);
    else if (event.key === "-") this.zoomBy(1 / 1.4);
    else if (event.key === "0") this.fit();
    else if (event.key === "Escape") this.told.pin(null);
    else return;
    event.preventDefault();
  }
}

/** Rectangles that are taken; cells of a grid keep the question short. */
class Taken {
  constructor() {
    this.cells = new Map();
  }

  take(left, top, right, bottom) {
    const keys = [];
    for (let column = Math.floor(left / 64); column <= Math.floor(right / 64); column += 1) {
      for (let row = Math.floor(top / 28); row <= Math.floor(bottom / 28); row += 1) {
        const key = column * 4096 + row;
        const there = this.cells.get(key);
        if (there?.some(([l, t, r, b]) => left < r && right > l && top < b && bottom > t)) return false;
        keys.push(key);
      }
    }
    const one = [left, top, right, bottom];
    for (const key of keys) {
      if (this.cells.has(key)) this.cells.get(key).push(one);
      else this.cells.set(key, [one]);
    }
    return true;
  }
}

/** Maps beside each other with one search, one switch and the same words chosen; `onChoice` hears which. */
class MapGroup {
  constructor({ figure, bar, row }, rows, meta, say, onChoice) {
    this.say = say;
    this.chosen = []; // the last one's neighbours are shown
    this.onChoice = () => {}; // what a page shows at first nobody has chosen
    const { maps: abouts, look } = meta;
    this.entitle = (place) => meta.titles && entitle(figure, meta.titles[place]);
    bar.addEventListener("submit", (event) => event.preventDefault());
    row.classList.add("embviz-maps");
    row.dataset.null = Boolean(abouts[0].over); // the second map is a control, below the first
    const made = (about, place) => new (about.packed ? VocabularyData : MapData)(rows[place], { ...about, below: place > 0 });
    this.panels = abouts.map((about, place) => this.makePanel(row, made(about, place), look, abouts.length > 1));
    this.fillBar(bar, abouts[0], look);
    const focus = abouts.find((about) => about.focus)?.focus;
    this.point(focus ?? null, true);
    this.onChoice = onChoice;
    this.followTheme();
  }

  get maps() {
    return this.panels.map(({ map }) => map);
  }

  makePanel(row, data, look, named) {
    const panel = child(row, "section", "embviz-map");
    if (named) child(panel, "div", "embviz-map-name").textContent = data.about.title;
    const told = {
      hover: (hit) => this.hover(hit && data.words[hit.point], hit?.show),
      pin: (hit, adds) => this.pin(hit && data.words[hit.point], hit?.show, adds),
      say: (text) => this.say(text),
      inked: () => this.legend && this.fillLegend(),
      wheel: () => this.hint("Click the map first, then the wheel zooms. Drag to move."),
    };
    const map = new (data.about.packed ? VocabularyCanvas : WordMap)(panel, data, look, told);
    const label = `Map of ${data.words.length.toLocaleString("en")} words: ${data.about.title}`;
    map.canvas.setAttribute("aria-label", `${label}. Arrow keys move, plus and minus zoom, 0 shows all.`);
    return { map, data, near: child(panel, "div", "embviz-near") };
  }

  fillBar(bar, about, look) {
    this.search = this.makeSearch(bar);
    if (about.over) this.makeSlider(bar, about);
    else if (about.packed && about.names.length > 1) this.makeSwitch(bar, about.names);
    else if (about.names.length > 1) {
      const names = [...about.names, "both, joined"];
      const select = this.select(bar, "show", names, (place) => {
        for (const map of this.maps) map.turnTo(place === about.names.length ? BOTH : place);
        this.point(this.pinned, true);
      });
    }
    const columns = [...(about.packed ? [] : ["nothing"]), ...about.columns.map(({ name }) => name), KEPT_COLUMN];
    this.look = look;
    this.legend = document.createElement("div");
    this.legend.className = "embviz-legend";
    const colours = this.select(bar, "colour by", columns, (place) => {
      for (const map of this.maps) {
        map.column = columns[place] === "nothing" ? null : columns[place];
        map.only = null;
        map.ask();
      }
      this.fillLegend();
    });
    colours.value = columns.indexOf(this.maps[0].column ?? "nothing");
    this.fillLegend();
    const tools = child(bar, "span", "embviz-map-tools");
    const tool = (sign, label, act) => {
      const button = child(tools, "button", "");
      Object.assign(button, { type: "button", textContent: sign, title: label });
      button.setAttribute("aria-label", label);
      button.addEventListener("click", () => this.maps.forEach(act));
    };
    tool("+", "Zoom in", (map) => map.zoomBy(1.6));
    tool("−", "Zoom out", (map) => map.zoomBy(1 / 1.6));
    tool("⤢", "Show all", (map) => map.fit());
    if (about.packed) offerLasso(tools, this.maps[0]);
    bar.after(this.legend);
  }

  /** Buttons of which one is pressed: the vectors, or their control. */
  makeSwitch(bar, names) {
    const box = child(bar, "span", "embviz-switch");
    const group = `embviz-switch-${Math.random().toString(36).slice(2)}`;
    names.forEach((name, place) => {
      const label = child(box, "label", "");
      const button = child(label, "input", "");
      Object.assign(button, { type: "radio", name: group, checked: place === 0 });
      label.append(name);
      button.addEventListener("change", () => {
        this.entitle(place);
        for (const map of this.maps) map.turnTo(place);
        this.point(this.pinned, true);
      });
    });
  }

  select(bar, label, names, act) {
    const box = child(bar, "label", "");
    box.append(label);
    const select = child(box, "select", "");
    select.dataset.lmSuppressShortcuts = "true";
    names.forEach((name, place) => select.add(new Option(name, place)));
    select.addEventListener("change", () => act(Number(select.value)));
    return select;
  }

  /** A slider over the states of one embedding; axes and what is pointed at stay. */
  makeSlider(bar, about) {
    const box = child(bar, "label", "");
    box.append(about.over);
    const slider = child(box, "input", "");
    const told = child(box, "output", "");
    Object.assign(slider, { type: "range", min: 0, max: about.names.length - 1, step: 1, value: about.first });
    slider.dataset.lmSuppressShortcuts = "true";
    const tell = () => {
      told.textContent = about.names[slider.value];
      slider.setAttribute("aria-valuetext", about.names[slider.value]);
    };
    slider.addEventListener("input", () => {
      tell();
      this.entitle(Number(slider.value));
      for (const map of this.maps) map.turnTo(Number(slider.value));
      this.point(this.pinned, true);
    });
    tell();
  }

  makeSearch(bar) {
    const box = child(bar, "label", "");
    box.append("find");
    const input = child(box, "input", "");
    const list = child(box, "datalist", "");
    list.id = `embviz-words-${Math.random().toString(36).slice(2)}`;
    Object.assign(input, { type: "search", autocomplete: "off", spellcheck: false, placeholder: "a word" });
    input.setAttribute("list", list.id);
    input.dataset.lmSuppressShortcuts = "true";
    const { data } = this.panels[0];
    input.addEventListener("input", () => {
      const found = data.find(input.value);
      list.replaceChildren(...found.map((place) => new Option("", data.words[place])));
      if (this.panels.some((panel) => panel.data.index.has(input.value))) this.goTo(input.value);
    });
    input.addEventListener("keydown", (event) => {
      if (event.key !== "Enter") return;
      event.preventDefault();
      const [best] = data.find(input.value, 1);
      if (best !== undefined) this.goTo(data.words[best], data.findSaid?.(input.value, 1)[0].how);
      else if (input.value.trim()) this.say(`None of the ${data.words.length.toLocaleString("en")} words has “${input.value.trim()}” in it.`);
    });
    return input;
  }

  /** Point at a word, bring it to the middle of each map, and say its neighbours. */
  goTo(word, how = "") {
    this.choose([word]);
    const said = [];
    for (const { map, data } of this.panels) {
      const place = data.index.get(word);
      if (place === undefined) continue;
      map.centre(place);
      said.push(data.neighbours(map.pointed.show, place).map(({ point }) => data.words[point]).join(", "));
    }
    const took = this.panels[0].data.took?.(word, how) ?? "";
    this.say(`${took}${word}: ${said.join("; ")}`, false, !took);
  }

  get pinned() {
    return this.chosen.at(-1) ?? null;
  }

  /** Choose a word alone, or add it to those that are chosen, or take it away. */
  pin(word, show, adds) {
    if (!adds) return this.choose(word === null ? [] : [word], show);
    if (word === null) return;
    const others = this.chosen.filter((one) => one !== word);
    this.choose(others.length < this.chosen.length ? others : [...others, word], show);
  }

  choose(words, show) {
    this.chosen = words;
    for (const { map, data } of this.panels) map.chosen = words.map((word) => data.index.get(word)).filter((point) => point !== undefined);
    this.say("");
    this.onChoice(words);
    this.point(this.pinned, false, show);
  }

  hover(word, show) {
    if (word === null && this.pinned === null) this.point(null, false);
    else if (word === null) this.point(this.pinned, false);
    else this.point(word, false, show);
  }

  point(word, stays, show) {
    if (stays && word !== this.pinned) return this.choose(word === null ? [] : [word], show);
    if (stays) this.say("");
    if (document.activeElement !== this.search) this.search.value = word ?? ""; // not while somebody types
    for (const panel of this.panels) {
      const place = word === null ? undefined : panel.data.index.get(word);
      const drawn = show === undefined || !panel.map.drawn.includes(show) ? panel.map.drawn[0] : show;
      panel.map.pointed = place === undefined ? null : { point: place, show: drawn };
      panel.map.ask();
      this.fillNear(panel, word);
    }
  }

  fillNear({ map, data, near }, word) {
    near.replaceChildren();
    if (map.pointed === null) {
      const absent = "This word is not on this map.";
      const hint = `Point at a word: its ${data.k} nearest in the full space, with their ${data.about.distance}.`;
      near.textContent = word === null ? hint : absent;
      return;
    }
    const { point, show } = map.pointed;
    const head = child(near, "div", "");
    child(head, "b", "").textContent = data.words[point];
    const over = data.about.over ? `${data.about.over} ` : "";
    const name = data.shows.length > 1 ? `${over}${data.shows[show].name}, ` : "";
    const kept = `${data.shows[show].kept[point]} of these ${data.k} words are also among the ${data.k} nearest points on the map (solid frames)`;
    const former = data.former(point);
    const left = data.neighbours(show, point).filter(({ point: other }) => former?.includes(other)).length;
    const held = former ? `; ${left} are among the ${data.k} nearest ${data.about.former} (bold)` : "";
    child(head, "small", "").textContent = ` ${name}${data.about.distance}; ${kept}${held}`;
    const list = child(near, "ul", "");
    const inPlane = data.nearInPlane(show, point);
    for (const { point: other, distance } of data.neighbours(show, point)) {
      const button = child(child(list, "li", ""), "button", "");
      button.type = "button";
      button.dataset.kept = inPlane(other);
      button.dataset.held = former?.includes(other) ?? false;
      button.title = `${inPlane(other) ? "" : "not "}among the ${data.k} nearest on the map`;
      button.append(`${data.words[other]} `);
      child(button, "small", "").textContent = twoDigits(distance);
      button.addEventListener("click", () => this.goTo(data.words[other]));
    }
  }

  fillLegend() {
    const { look } = this;
    const { column: name, data, ink } = this.maps[0];
    this.legend.replaceChildren();
    if (name === null || !ink) return; // a map that is not on a page yet has no ink: its first drawing asks again
    const column = name === KEPT_COLUMN ? { low: 0, high: data.k } : data.columns.get(name);
    if (!column.kinds) {
      const box = child(this.legend, "span", "");
      box.append(tidy(column.low));
      child(box, "i", "").style.background = `linear-gradient(90deg, ${look.ramp.join(", ")})`;
      box.append(`${tidy(column.high)}${name === KEPT_COLUMN ? ` of ${data.k} nearest are among the ${data.k} nearest on the map too` : ""}`);
      return;
    }
    if (data.about.packed) return fillKinds(this.legend, this.maps[0], column);
    column.kinds.forEach((kind, place) => {
      const box = child(this.legend, "span", "");
      box.append(symbol(look.shapes[place], shownAs(look.categories[place], ink)), kind);
    });
  }

  hint(text) {
    clearTimeout(this.hinted);
    this.say(text);
    this.hinted = setTimeout(() => this.say(""), 4000);
  }

  followTheme() {
    const again = () => this.maps.forEach((map) => map.ask());
    const watch = new MutationObserver(again);
    for (const one of [document.documentElement, document.body]) watch.observe(one, { attributes: true });
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", again);
    this.leave = () => watch.disconnect();
  }
}

/** Draw the maps of a specification inside `element`. */
async function drawMaps(element, spec, onChoice = () => {}) {
  const meta = spec.usermeta.embviz;
  const { figure, controls, chart, say } = framed(element, meta, "map", "embviz-map-bar");
  const views = spec.hconcat ?? [spec];
  try {
    const rows = await Promise.all(views.map((view, place) => (meta.maps[place].packed ? unpackedRow(meta.maps[place]) : view.data.values[0])));
    element.maps = new MapGroup({ figure, bar: controls, row: chart }, rows, meta, say, onChoice);
    element.dataset.ready = "true";
    return element.maps;
  } catch (error) {
    say(`This map could not be drawn: ${error.message}`, true);
    throw error;
  }
}

async function renderMaps({ model, el }) {
  const tell = (words) => {
    model.set("selected", words);
    model.save_changes();
  };
  const maps = await drawMaps(el, model.get("spec"), tell);
  const follow = () => {
    const words = model.get("selected");
    if (JSON.stringify(words) !== JSON.stringify(maps.chosen)) maps.choose(words);
  };
  model.on("change:selected", follow);
  follow();
  return () => {
    model.off("change:selected", follow);
    maps.leave();
  };
}

export default { render: renderMaps };
