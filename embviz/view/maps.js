// Maps of words on a plain canvas: a few words or hundreds of thousands, whose numbers come packed. Stands behind
// explorer.js, whose `child`, `entitle` and `framed` it uses; the book's extension takes it without its export.
// Words are only ever set as text or drawn, and looked up in a Map.

const LABEL = { font: "12px system-ui, sans-serif", bold: "600 13px system-ui, sans-serif", height: 14, letters: 28 };
const REGION = { font: "700 14px system-ui, sans-serif", small: "600 13px system-ui, sans-serif", half: 8, gap: 5, above: 12 };
const REGIONS_UP_TO = 12; // zoom at which regions are no longer named
const ROOM_A_LABEL = 2200; // square pixels of the map
const ROOM_AMONG_REGIONS = 9000; // while many regions are named
const MANY_REGIONS = 10;
const MOST_TRIED = 5000; // points for which room for a label is looked for
const MARGIN = 16; // pixels around the points
const NAME_ROOM = 70; // pixels beside a neighbour for its name
const HEIGHTS = { one: 560, several: 440 }; // pixels at most
const NARROW_MAP = 500; // pixels of width below which regions are named in small letters
const FIRST_VIEW = 0.98; // of the points, where the others would shrink the picture
const SHRINKS = 1.2; // times, at least
const HALF_SPAN = 32767; // steps from the plane's middle to its farthest point
const REACH = 16; // pixels from a point within which it is pointed at
const TURN = 350; // milliseconds of a change of view
const LONG_TURN = 900; // of thousands of points that go to other places
const SUGGESTIONS = 12;
const KEPT_COLUMN = "neighbours kept";
const PLAIN = "nothing";
const OTHERS = "others";
const GREY = "#8a8a8a";
const LINES = 5; // above and below a neighbour where its name may stand
const ALPHA = 0.8; // of points
const FAINT_ALPHA = 0.12; // of kinds that are not the chosen one
const DISCS = 15000; // points in sight up to which they are drawn as symbols, beyond as pixels
const MANY = 20000; // words
const CORNERS = { "triangle-up": [[0, -1.2], [1.1, 0.8], [-1.1, 0.8]], diamond: [[0, -1.35], [1, 0], [0, 1.35], [-1, 0]] };

const cut = (word) => {
  const flat = word.replace(/\s+/gu, " ");
  const letters = Array.from(flat.slice(0, 4 * LABEL.letters));
  return letters.length > LABEL.letters ? `${letters.slice(0, LABEL.letters - 1).join("")}…` : flat || "␣";
};
const tidy = (number) => number.toLocaleString("en", { maximumSignificantDigits: 3 });
const twoDigits = (number) => (number < 10 ? number.toPrecision(2) : Math.round(number).toLocaleString("en"));
const counted = (number) => number.toLocaleString("en");

// --- the words, as the page holds them ---

/** The bytes of a gzip stream in base64. */
async function inflated(text) {
  const letters = atob(text);
  const bytes = new Uint8Array(letters.length);
  for (let place = 0; place < letters.length; place += 1) bytes[place] = letters.charCodeAt(place);
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
  return new Uint8Array(await new Response(stream).arrayBuffer());
}

/** The words of one map, their places, neighbours and columns. */
class MapData {
  static async of(about) {
    return new MapData(about, await inflated(about.packed));
  }

  constructor(about, bytes) {
    const { n_words: n, n_neighbors: k } = about;
    let at = 0;
    const whole = (length, planes) => {
      const numbers = new Int32Array(length);
      for (let plane = 0; plane < planes; plane += 1, at += length) {
        for (let place = 0; place < length; place += 1) numbers[place] |= bytes[at + place] << (8 * plane);
      }
      return numbers;
    };
    const places = () => Float64Array.from(whole(n, 2), (step) => step - HALF_SPAN);
    this.about = about;
    this.k = k;
    this.shows = about.names.map((name) => ({
      name, x: places(), y: places(), near: whole(n * k, 3), far: whole(n * k, about.distance_bytes), kept: whole(n, 1),
    }));
    this.compared = about.compared ? whole(n * k, 3) : null;
    this.columns = new Map(about.columns.map((one) => [one.name, { ...one, values: whole(n, 1) }]));
    this.words = JSON.parse(new TextDecoder().decode(bytes.subarray(at)));
    this.index = new Map(this.words.map((word, place) => [word, place]));
    this.lower = this.words.map((word) => word.toLowerCase());
  }

  neighbours(show, point) {
    const { near, far } = this.shows[show];
    const of = (_, place) => ({ point: near[point * this.k + place], distance: far[point * this.k + place] * this.about.unit });
    return Array.from({ length: this.k }, of);
  }

  /** The neighbours that a point has where these are compared with, if they are. */
  former(point) {
    return this.compared && Array.from(this.compared.subarray(point * this.k, (point + 1) * this.k));
  }

  /** Points no farther in the plane than the k-th nearest there. */
  nearInPlane(show, point) {
    const { x, y } = this.shows[show];
    const nearest = new Float64Array(this.k).fill(Infinity); // rising
    const square = (other) => (x[other] - x[point]) ** 2 + (y[other] - y[point]) ** 2;
    for (let other = 0; other < x.length; other += 1) {
      const far = square(other);
      if (far >= nearest[this.k - 1] || other === point) continue;
      let place = this.k - 1;
      for (; place > 0 && nearest[place - 1] > far; place -= 1) nearest[place] = nearest[place - 1];
      nearest[place] = far;
    }
    return (other) => square(other) <= nearest[this.k - 1];
  }

  /** Words that a typed text may mean, and how: itself, its twin inside words, other letters, beginnings, parts. */
  find(text, most = SUGGESTIONS) {
    const wanted = text.trim();
    if (!wanted) return [];
    const small = wanted.toLowerCase();
    const found = new Map();
    const add = (place, how) => place !== undefined && !found.has(place) && found.set(place, { place, how });
    add(this.index.get(text), "");
    add(this.index.get(wanted), "");
    add(this.index.get(`-${wanted}`), "as a piece inside words");
    add(this.index.get(wanted.replace(/^-/u, "")), "at the beginning of a word");
    const begin = [];
    const inside = [];
    for (let place = 0; place < this.lower.length; place += 1) {
      const at = this.lower[place].indexOf(small);
      if (at < 0) continue;
      if (this.lower[place].length === small.length || this.lower[place] === `-${small}`) add(place, "with other capitals");
      else if (at === 0 && begin.length < most) begin.push(place);
      else if (at > 0 && inside.length < most) inside.push(place);
    }
    for (const place of begin) add(place, "which begins with it");
    for (const place of inside) add(place, "which contains it");
    return [...found.values()].slice(0, most);
  }

  /** Which word a search took where it is not the one that was typed, and whether its twin is there too. */
  took(word, how) {
    const twin = word[0] === "-" ? word.slice(1) : `-${word}`;
    const where = word[0] === "-" ? "at the beginning of a word" : "as a piece inside words";
    const other = this.index.has(twin) ? ` There is also “${twin}”, ${where}.` : "";
    return how || other ? `Found “${word}”${how ? `, ${how}` : ""}.${other}` : "";
  }
}

const middle = (values) => values.slice().sort()[values.length >> 1];

/** How far values lie from their middle, by their typical distance from it. */
function away(values) {
  const at = middle(values);
  const far = values.map((one) => Math.abs(one - at));
  const typical = middle(far) || 1;
  return far.map((one) => one / typical);
}

/** The box about all points, or about a share of them: the others lie farthest from the middle. */
function boxOf(parts, share) {
  const all = ["x", "y"].map((name) => Float64Array.from(parts.flatMap((part) => Array.from(part[name]))));
  const [across, up] = all.map(away);
  const far = across.map((one, place) => Math.max(one, up[place]));
  const limit = far.slice().sort()[Math.ceil(share * far.length) - 1];
  const [x, y] = all.map((values) => values.filter((_, place) => far[place] <= limit));
  const ends = (values) => values.reduce(([low, high], one) => [Math.min(low, one), Math.max(high, one)], [Infinity, -Infinity]);
  const [[left, right], [bottom, top]] = [ends(x), ends(y)];
  return { left, bottom, width: right - left || 1, height: top - bottom || 1, outside: far.length - x.length };
}

// --- looks ---

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
function symbol([colour, shape]) {
  const canvas = document.createElement("canvas");
  canvas.width = canvas.height = 28;
  const path = new Path2D();
  trace(path, shape, 14, 14, 9);
  const pen = canvas.getContext("2d");
  pen.fillStyle = colour;
  pen.fill(path);
  return canvas;
}

const rgb = (colour) => (colour[0] === "#" ? [1, 3, 5].map((from) => parseInt(colour.slice(from, from + 2), 16)) : colour.match(/\d+/g).map(Number));
const pixel = (colour) => {
  const [red, green, blue] = rgb(colour);
  return (255 << 24) | (blue << 16) | (green << 8) | red; // as the bytes of a picture lie
};

function mixed(ramp, share) {
  const at = Math.min(Math.max(share, 0), 1) * (ramp.length - 1);
  const low = Math.min(Math.floor(at), ramp.length - 2);
  const [a, b] = [rgb(ramp[low]), rgb(ramp[low + 1])];
  return `rgb(${a.map((one, place) => Math.round(one + (at - low) * (b[place] - one))).join(",")})`;
}

const ON_DARK = { "#0072B2": "#56b4e9", "#D55E00": "#e66100" }; // as explorer.css has it for charts
/** A colour of the theme on a page whose text is `ink`. */
function shownAs(colour, ink) {
  const [red, green, blue] = rgb(ink);
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

// --- one canvas ---

/** Draws, moves, and says which point is pointed at. */
class WordMap {
  constructor(panel, data, group) {
    Object.assign(this, { data, group, look: group.look });
    this.box = child(panel, "div", "embviz-map-box");
    this.canvas = child(this.box, "canvas", "");
    this.pen = this.canvas.getContext("2d");
    this.canvas.tabIndex = 0;
    this.canvas.dataset.lmSuppressShortcuts = "true";
    this.canvas.setAttribute("role", "img");
    this.show = data.about.first ?? 0;
    this.column = data.about.columns[0]?.name ?? null; // the first of those that were given
    this.only = null; // the one kind that is not faint
    this.pointed = null; // a point
    this.chosen = []; // the points of the words that are chosen
    this.widths = new Map();
    this.boxes = new Map();
    this.whole = false; // all points were asked for
    this.view = { scale: 1, x: 0, y: 0 }; // the point of the plane in the middle
    const { x, y } = data.shows[this.show];
    this.places = { x: x.slice(), y: y.slice() }; // where the points are drawn: between two states while they move
    this.inSight = []; // the points within the canvas
    this.labels = []; // those drawn last
    new ResizeObserver(() => this.resize()).observe(this.box);
    this.listen();
    this.listenToLasso();
  }

  // --- sizes and places ---

  resize() {
    const width = this.box.clientWidth;
    if (!width || (width === this.width && devicePixelRatio === this.ratio)) return;
    const first = this.width === undefined;
    const before = first ? 1 : this.fitted;
    this.ratio = devicePixelRatio;
    this.width = width;
    const most = parseFloat(getComputedStyle(this.box).maxHeight); // a page may have less room
    this.height = Math.round(Math.min(this.group.heightOf(width), most || Infinity));
    this.canvas.style.height = `${this.height}px`;
    this.canvas.width = Math.round(width * this.ratio);
    this.canvas.height = Math.round(this.height * this.ratio);
    if (first) this.fit();
    else this.view.scale *= this.fitted / before;
    this.draw(); // a canvas that changes its size is empty
  }

  /** The states whose points the view is to hold: all where axes are to stay. */
  get framed() {
    return this.data.about.over ? [...this.data.shows.keys()] : [this.show];
  }

  boxOf(shows, share) {
    const key = `${shows} ${share}`;
    if (!this.boxes.has(key)) this.boxes.set(key, boxOf(shows.map((show) => this.data.shows[show]), share));
    return this.boxes.get(key);
  }

  /** What the first view holds: all points, or 98% of them where the others would shrink the picture. */
  firstBox(shows = this.framed) {
    const [all, most] = [this.boxOf(shows, 1), this.boxOf(shows, FIRST_VIEW)];
    return Math.max(all.width / most.width, all.height / most.height) > SHRINKS ? most : all;
  }

  scaleOf({ width, height }) {
    return Math.min((this.width - 2 * MARGIN) / width, (this.height - 2 * MARGIN) / height);
  }

  /** Pixels a step of the first view. */
  get fitted() {
    return this.scaleOf(this.firstBox());
  }

  get zoom() {
    return this.view.scale / this.fitted;
  }

  /** Show the first view, or all points. */
  fit(whole = false) {
    this.whole = whole;
    const box = whole ? this.boxOf(this.framed, 1) : this.firstBox();
    this.view = { scale: this.scaleOf(box), x: box.left + box.width / 2, y: box.bottom + box.height / 2 };
    this.ask();
  }

  screen(point) {
    return this.onScreen(this.places.x[point], this.places.y[point]);
  }

  onScreen(x, y) {
    const { scale } = this.view;
    return [this.width / 2 + (x - this.view.x) * scale, this.height / 2 - (y - this.view.y) * scale];
  }

  inPlane(px, py) {
    const { scale } = this.view;
    return [this.view.x + (px - this.width / 2) / scale, this.view.y - (py - this.height / 2) / scale];
  }

  zoomBy(factor, px = this.width / 2, py = this.height / 2) {
    const { view } = this;
    const least = Math.min(this.fitted, this.scaleOf(this.boxOf(this.framed, 1))) / 2;
    const scale = Math.min(Math.max(view.scale * factor, least), this.fitted * 400);
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
    const { show } = this;
    const [px, py] = this.screen(point);
    if (this.data.about.over && px > 0 && px < this.width && py > 0 && py < this.height) return;
    const { x, y } = this.data.shows[show];
    const from = { ...this.view };
    const around = this.data.neighbours(show, point).map(({ point: other }) => other);
    const across = Math.max(...around.map((other) => Math.abs(x[other] - x[point]))) / (this.width / 2 - NAME_ROOM);
    const up = Math.max(...around.map((other) => Math.abs(y[other] - y[point]))) / (this.height / 2 - MARGIN);
    const near = this.data.words.length > MANY ? 40 : 4;
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
    const from = { x: this.places.x.slice(), y: this.places.y.slice() };
    const to = this.data.shows[show];
    this.show = show;
    if (!this.data.about.over) this.fit();
    this.turn((share) => {
      for (const axis of ["x", "y"]) {
        for (let point = 0; point < to.x.length; point += 1) this.places[axis][point] = from[axis][point] + (to[axis][point] - from[axis][point]) * share;
      }
    }, to.x.length > 5000 ? LONG_TURN : TURN);
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
    if (follows) this.group.fillLegend();
    pen.setTransform(this.ratio, 0, 0, this.ratio, 0, 0);
    pen.clearRect(0, 0, this.width, this.height);
    this.drawPoints();
    if (this.pointed !== null) this.drawNeighbours();
    for (const point of this.chosen) this.ring(...this.screen(point));
    this.drawNames();
    if (this.data.about.scale) this.drawScale(this.data.about.scale);
    this.drawLasso();
  }

  /** For each look its colour and shape, and the number of each point's look. */
  looks() {
    const { palette, shapes, ramp } = this.look;
    const own = this.data.about.over ? 0 : this.show;
    if (this.column === null) return { looks: [[shownAs(palette[own], this.ink), shapes[own]]], values: null };
    const kept = this.column === KEPT_COLUMN;
    const column = this.data.columns.get(this.column);
    if (!kept && column.kinds) {
      const told = column.kinds.length <= shapes.length; // few enough to be told apart by shape too
      const look = (kind, at) => [kind === OTHERS ? GREY : shownAs(palette[at % palette.length], this.ink), told ? shapes[at] : shapes[own]];
      return { looks: column.kinds.map(look), values: column.values };
    }
    const most = kept ? this.data.k : 255;
    const looks = Array.from({ length: most + 1 }, (_, at) => [mixed(ramp, at / most), shapes[own]]);
    return { looks, values: kept ? this.data.shows[this.show].kept : column.values };
  }

  /** Pixels of a point, the same in maps that stand beside each other. */
  get radius() {
    const { mostWords } = this.group;
    const closer = Math.log2(Math.max(this.zoom, 1));
    if (mostWords > MANY) return Math.min(0.5 + 0.55 * closer, 4.5);
    const each = Math.sqrt((this.width * this.height) / mostWords);
    const few = Math.min(Math.max((each - 20) / 40, 0), 2); // where there is room, shapes can be told apart
    return Math.min(Math.min(Math.max(each / 5, 1.4), 2) + few + 0.5 * closer, 4.5);
  }

  drawPoints() {
    const { width, height } = this;
    const { x, y } = this.places;
    const { scale } = this.view;
    const [left, top] = [width / 2 - this.view.x * scale, height / 2 + this.view.y * scale];
    const seen = [];
    for (let point = x.length - 1; point >= 0; point -= 1) {
      const px = left + x[point] * scale;
      const py = top - y[point] * scale;
      if (px >= -9 && py >= -9 && px < width + 9 && py < height + 9) seen.push(point);
    }
    this.inSight = seen;
    const { looks, values } = this.looks();
    if (seen.length <= DISCS) return this.drawSymbols(seen, looks, values);
    this.drawPixels(seen, looks, values);
  }

  drawSymbols(seen, looks, values) {
    const { pen, radius } = this;
    const paths = looks.map(() => new Path2D());
    for (const point of seen) {
      const look = values ? values[point] : 0;
      trace(paths[look], looks[look][1], ...this.screen(point), radius);
    }
    paths.forEach((path, place) => {
      pen.globalAlpha = this.only === null || this.only === place ? ALPHA : FAINT_ALPHA;
      [pen.fillStyle] = looks[place];
      pen.fill(path);
    });
    pen.globalAlpha = 1;
  }

  /** Squares written into the canvas's pixels, the chosen kind last. */
  drawPixels(seen, looks, values) {
    const { pen, only } = this;
    const { x, y } = this.places;
    const { width, height } = this.canvas;
    const inks = Uint32Array.from(looks, ([colour]) => pixel(colour));
    const faint = inks.map((ink) => (ink & 0xffffff) | ((255 * FAINT_ALPHA) << 24));
    if (this.picture?.width !== width || this.picture.height !== height) {
      this.picture = pen.createImageData(width, height);
      this.pixels = new Uint32Array(this.picture.data.buffer);
    }
    const { pixels } = this;
    pixels.fill(0);
    const side = Math.max(1, Math.round(2 * this.radius * this.ratio * ALPHA));
    const scale = this.view.scale * this.ratio;
    const [left, top] = [(width - side) / 2 - this.view.x * scale, (height - side) / 2 + this.view.y * scale];
    const paint = (colours, chosen) => {
      for (const point of seen) {
        const look = values ? values[point] : 0;
        if (only !== null && (look === only) !== chosen) continue;
        const px = Math.round(left + x[point] * scale);
        const py = Math.round(top - y[point] * scale);
        if (px < 0 || py < 0 || px + side > width || py + side > height) continue;
        if (side === 1) pixels[py * width + px] = colours[look];
        else for (let row = 0, from = py * width + px; row < side; row += 1, from += width) pixels.fill(colours[look], from, from + side);
      }
    };
    if (only !== null) paint(faint, false);
    paint(inks, true);
    pen.putImageData(this.picture, 0, 0);
  }

  stroke(colour, width, draw) {
    const { pen } = this;
    Object.assign(pen, { strokeStyle: colour, lineWidth: width });
    pen.beginPath();
    draw(pen);
    pen.stroke();
  }

  /** Lines from the word pointed at to its true neighbours, wherever the plane put them. */
  drawNeighbours() {
    const from = this.screen(this.pointed);
    this.stroke(this.look.palette[1], 1.4, (pen) => {
      for (const { point } of this.data.neighbours(this.show, this.pointed)) {
        pen.moveTo(...from);
        pen.lineTo(...this.screen(point));
      }
    });
    this.ring(...from);
  }

  /** A ring that stands out among thousands of points: on the colour of the page. */
  ring(x, y) {
    for (const [colour, width] of [[this.ground, 7], [this.look.palette[1], 3]]) {
      this.stroke(colour, width, (pen) => pen.arc(x, y, this.radius + 4, 0, 2 * Math.PI));
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

  // --- names ---

  /** Whether regions are named: they are those of the first embedding. */
  get namesRegions() {
    return this.data.about.regions.length > 0 && this.zoom < REGIONS_UP_TO;
  }

  /** Names of regions where there is room, the largest first. */
  drawRegions(taken) {
    const { pen } = this;
    Object.assign(pen, { textBaseline: "middle", lineJoin: "round", lineWidth: 4, strokeStyle: this.ground, fillStyle: this.ink });
    pen.font = this.width < NARROW_MAP ? REGION.small : REGION.font;
    for (const { text, x, y } of this.data.about.regions) {
      let [px, py] = this.onScreen(x, y);
      py -= REGION.above; // a small region is not hidden by its name
      if (px < 0 || py < 0 || px > this.width || py > this.height) continue;
      const half = pen.measureText(cut(text)).width / 2;
      const high = REGION.half + REGION.gap;
      px = Math.max(half + REGION.gap, Math.min(px, this.width - half - REGION.gap)); // not over the edge
      py = Math.max(high, Math.min(py, this.height - high));
      if (!taken.take(px - half - REGION.gap, py - high, px + half + REGION.gap, py + high)) continue;
      pen.strokeText(cut(text), px - half, py);
      pen.fillText(cut(text), px - half, py);
    }
  }

  widthOf(point) {
    if (!this.widths.has(point)) this.widths.set(point, this.pen.measureText(cut(this.data.words[point])).width);
    return this.widths.get(point);
  }

  /** Names that fit: of the word pointed at and its neighbours, of regions, of the words in their order. */
  drawNames() {
    const { pen, width, height } = this;
    pen.font = LABEL.font;
    const taken = new Taken();
    const crowded = this.namesRegions && this.data.about.regions.length >= MANY_REGIONS;
    const most = (width * height) / (crowded ? ROOM_AMONG_REGIONS : ROOM_A_LABEL);
    const half = LABEL.height / 2;
    const shown = [];
    const named = new Set();
    const put = (point, bold = false, places = 1) => {
      const [x, y] = this.screen(point);
      if (named.has(point) || x < 0 || y < 0 || x > width || y > height) return;
      const wide = this.widthOf(point) * (bold ? 1.2 : 1);
      const gap = this.radius + (bold ? 11 : 2);
      const [after, before] = [x + gap, x - gap - wide];
      const beside = after + wide < width ? [after, before] : [before, after];
      const spots = [[beside[0], y], [beside[1], y]];
      for (let line = 1; line <= LINES; line += 1) {
        for (const way of [-1, 1]) for (const left of [...beside, x - wide / 2]) spots.push([left, y + way * line * LABEL.height]);
      }
      for (const [left, at] of spots.slice(0, places)) {
        const right = left + wide;
        if (left < 0 || right > width || at < half || at > height - half) continue; // cut at the edge
        if (!taken.take(left - 3, at - half, right + 3, at + half)) continue;
        shown.push({ word: this.data.words[point], left, right, y: at, bold });
        return;
      }
    };
    const wherever = (point, bold) => {
      put(point, bold, Infinity); // there is room about it
      named.add(point);
    };
    if (this.pointed !== null) {
      wherever(this.pointed, true);
      for (const { point } of this.data.neighbours(this.show, this.pointed)) wherever(point, false);
    }
    for (const point of this.chosen) wherever(point, true);
    if (this.namesRegions && this.show === 0) this.drawRegions(taken);
    pen.font = LABEL.font;
    const seen = this.inSight;
    for (let tried = 1; tried <= Math.min(seen.length, MOST_TRIED) && shown.length < most; tried += 1) put(seen[seen.length - tried]);
    Object.assign(pen, { textBaseline: "middle", lineJoin: "round", lineWidth: 3, strokeStyle: this.ground, fillStyle: this.ink });
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

  // --- pointing and moving ---

  /** The word within reach of the pointer, or null. */
  hit(event) {
    const [px, py] = this.inPlane(...this.at(event));
    const { x, y } = this.places;
    let best = null;
    let least = (REACH / this.view.scale) ** 2;
    for (const point of this.inSight) {
      const square = (x[point] - px) ** 2 + (y[point] - py) ** 2;
      if (square < least) [best, least] = [this.data.words[point], square];
    }
    return best;
  }

  at(event) {
    const box = this.canvas.getBoundingClientRect();
    return [event.clientX - box.left, event.clientY - box.top];
  }

  listen() {
    const { canvas, group } = this;
    const held = new Map();
    let moved = 0;
    canvas.addEventListener("pointerdown", (event) => {
      held.set(event.pointerId, this.at(event));
      moved = 0;
      canvas.setPointerCapture(event.pointerId);
    });
    canvas.addEventListener("pointermove", (event) => {
      if (!held.has(event.pointerId)) return group.hover(this.hit(event));
      const now = this.at(event);
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
      if (event.type === "pointerup" && held.size === 1 && moved < 4) group.pin(this.hit(event), event.shiftKey);
      held.delete(event.pointerId);
      delete canvas.dataset.dragged;
    };
    canvas.addEventListener("pointerup", release);
    canvas.addEventListener("pointercancel", release);
    canvas.addEventListener("pointerleave", () => group.hover(null));
    canvas.addEventListener("dblclick", (event) => this.zoomBy(2, ...this.at(event)));
    // the wheel scrolls the page until the map is chosen
    const wheel = (event) => {
      if (!event.ctrlKey && document.activeElement !== canvas && canvas.getRootNode().activeElement !== canvas) {
        return group.hint("Click the map first, then the wheel zooms. Drag to move; key 0 shows all points.");
      }
      event.preventDefault();
      this.zoomBy(2 ** (-event.deltaY / (event.deltaMode ? 12 : 300)), ...this.at(event));
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
    else if (event.key === "0") this.group.showAll();
    else if (event.key === "Escape") this.group.pin(null);
    else return;
    event.preventDefault();
  }

  // --- the lasso ---

  listenToLasso() {
    const { canvas, group } = this;
    const caught = (name, act) =>
      canvas.addEventListener(name, (event) => group.lassoing && (act(event), event.stopImmediatePropagation(), event.preventDefault()), true);
    let drawing = false;
    caught("pointerdown", (event) => {
      drawing = true;
      this.lasso = [this.inPlane(...this.at(event))];
      canvas.setPointerCapture(event.pointerId);
    });
    caught("pointermove", (event) => {
      if (!drawing) return;
      this.lasso.push(this.inPlane(...this.at(event)));
      this.ask();
    });
    const end = () => {
      if (drawing) this.enclose(this.lasso);
      drawing = false;
    };
    caught("pointerup", end);
    caught("pointercancel", end);
  }

  /** The words within a polygon of the plane are listed; what was drawn stays until the next one. */
  enclose(corners) {
    const { x, y } = this.places;
    const inside = (px, py) => {
      let odd = false;
      for (let one = 0, other = corners.length - 1; one < corners.length; other = one, one += 1) {
        const [[ax, ay], [bx, by]] = [corners[one], corners[other]];
        if (ay > py !== by > py && px < ((bx - ax) * (py - ay)) / (by - ay) + ax) odd = !odd;
      }
      return odd;
    };
    this.lasso = corners;
    this.group.within(this.data.words.filter((_, point) => inside(x[point], y[point])));
    this.ask();
  }

  drawLasso() {
    if (!this.lasso?.length) return;
    this.stroke(this.look.palette[1], 2, (pen) => {
      for (const [x, y] of this.lasso) pen.lineTo(...this.onScreen(x, y));
      pen.closePath();
    });
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

// --- maps beside each other ---

/** Maps with one search, one switch and the same words chosen, drawn at one size; `onChoice` hears which words. */
class MapGroup {
  constructor({ figure, bar, row }, datas, { look, titles }, say, onChoice) {
    this.say = say;
    this.look = look;
    this.chosen = []; // the last one's neighbours are shown
    this.onChoice = () => {}; // what a page shows at first nobody has chosen
    this.entitle = (place) => titles && entitle(figure, titles[place]);
    this.mostWords = Math.max(...datas.map(({ words }) => words.length));
    bar.addEventListener("submit", (event) => event.preventDefault());
    row.classList.add("embviz-maps");
    this.panels = datas.map((data) => this.makePanel(row, data, datas.length > 1));
    this.fillBar(bar, datas[0].about);
    for (const map of this.maps) map.resize();
    this.tellOutside();
    const focus = datas.find(({ about }) => about.focus)?.about.focus;
    this.choose(focus ? [focus] : []);
    this.onChoice = onChoice;
    this.followTheme();
  }

  get maps() {
    return this.panels.map(({ map }) => map);
  }

  /** As high as the points of the highest map are, seen as wide as it; a little over half of the width at least. */
  heightOf(width) {
    this.aspect ??= Math.max(
      ...this.maps.map((map) => {
        const box = map.firstBox(map.data.about.over ? map.framed : [0]); // a switch leaves the height
        return box.height / box.width;
      }),
    );
    const high = Math.min(width, Math.max(width * this.aspect + MARGIN, 0.6 * width));
    return Math.min(high, this.panels.length > 1 ? HEIGHTS.several : HEIGHTS.one);
  }

  makePanel(row, data, named) {
    const panel = child(row, "section", "embviz-map");
    if (named) child(panel, "div", "embviz-map-name").textContent = data.about.title;
    const map = new WordMap(panel, data, this);
    const label = `Map of ${counted(data.words.length)} words: ${data.about.title}`;
    const keys = "Arrow keys move, plus and minus zoom, 0 shows all points and then the first view again.";
    map.canvas.setAttribute("aria-label", `${label}. ${keys}`);
    return { map, data, near: child(panel, "div", "embviz-near") };
  }

  fillBar(bar, about) {
    this.search = this.makeSearch(bar);
    if (about.over) this.makeSlider(bar, about);
    else if (about.names.length > 1) this.makeSwitch(bar, about.names);
    const columns = [PLAIN, ...about.columns.map(({ name }) => name), KEPT_COLUMN];
    this.legend = document.createElement("div");
    this.legend.className = "embviz-legend";
    const box = child(bar, "label", "");
    box.append("colour by");
    const select = child(box, "select", "");
    select.dataset.lmSuppressShortcuts = "true";
    for (const name of columns) select.add(new Option(name, name));
    select.value = this.maps[0].column ?? PLAIN;
    select.addEventListener("change", () => {
      for (const map of this.maps) Object.assign(map, { column: select.value === PLAIN ? null : select.value, only: null }).ask();
      this.fillLegend();
    });
    const tools = child(bar, "span", "embviz-map-tools");
    this.tool(tools, "+", "Zoom in", () => this.maps.forEach((map) => map.zoomBy(1.6)));
    this.tool(tools, "−", "Zoom out", () => this.maps.forEach((map) => map.zoomBy(1 / 1.6)));
    this.all = this.tool(tools, "", "", () => this.showAll());
    this.offerLasso(tools);
    bar.after(this.legend);
  }

  tool(tools, sign, label, act) {
    const button = child(tools, "button", "");
    Object.assign(button, { type: "button", textContent: sign, title: label });
    button.setAttribute("aria-label", label);
    button.addEventListener("click", act);
    return button;
  }

  /** Outliers, that the first view leaves out: all points, or the first view again where nothing was moved since. */
  showAll() {
    const whole = this.outside > 0 && !this.maps[0].whole;
    for (const map of this.maps) map.fit(whole);
    this.tellOutside();
  }

  /** How many points the first view of a map leaves out, at most. */
  get outside() {
    return Math.max(...this.maps.map((map) => map.firstBox().outside));
  }

  tellOutside() {
    const left = `${counted(this.outside)} outside`;
    const [text, told] = this.outside === 0 ? ["all", "Show all"] : this.maps[0].whole ? ["first view", "The first view again"] : [left, `Show also the points outside: ${left}`];
    Object.assign(this.all, { textContent: `${text} (0)`, title: `${told}, key 0`, ariaLabel: `${told}, key 0` });
  }

  offerLasso(tools) {
    const button = this.tool(tools, "lasso", "Draw round words to list them", () => {
      this.lassoing = !this.lassoing;
      button.setAttribute("aria-pressed", String(this.lassoing));
      for (const map of this.maps) map.canvas.dataset.lasso = this.lassoing;
    });
    button.setAttribute("aria-pressed", "false");
    let listed = [];
    const save = this.tool(tools, "save list", "Save the words in the lasso", () => {
      const link = document.createElement("a");
      link.href = URL.createObjectURL(new Blob([listed.join("\n")], { type: "text/plain" }));
      link.download = "words.txt";
      link.click();
      URL.revokeObjectURL(link.href);
    });
    save.hidden = true;
    this.within = (words) => {
      listed = words;
      save.hidden = !words.length;
      this.say(`${counted(words.length)} words in the lasso: ${words.slice(0, 40).join(", ")}${words.length > 40 ? ", …" : ""}`);
    };
  }

  /** Show another embedding or state: points go there, the word that is chosen stays. */
  turnTo(show) {
    this.entitle(show);
    for (const map of this.maps) map.turnTo(show);
    if (!this.panels[0].data.about.over) this.tellOutside();
    this.say("");
    this.point(this.pinned);
  }

  /** Buttons of which one is pressed: an embedding, and the other or its control. */
  makeSwitch(bar, names) {
    const box = child(bar, "span", "embviz-switch");
    const group = `embviz-switch-${Math.random().toString(36).slice(2)}`;
    names.forEach((name, place) => {
      const label = child(box, "label", "");
      const button = child(label, "input", "");
      Object.assign(button, { type: "radio", name: group, checked: place === 0 });
      label.append(name);
      button.addEventListener("change", () => this.turnTo(place));
    });
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
      this.turnTo(Number(slider.value));
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
    this.answer = child(bar, "output", "embviz-found"); // beside the box
    const { data } = this.panels[0];
    input.addEventListener("input", () => {
      const found = data.find(input.value);
      list.replaceChildren(...found.map(({ place }) => new Option("", data.words[place])));
      if (this.panels.some((panel) => panel.data.index.has(input.value))) this.goTo(input.value);
      else if (input.value.trim() && !found.length) this.missing(input.value.trim());
      else this.answer.textContent = "";
    });
    input.addEventListener("keydown", (event) => {
      if (event.key !== "Enter") return;
      event.preventDefault();
      const [best] = data.find(input.value, 1);
      if (best) this.goTo(data.words[best.place], best.how);
      else if (input.value.trim()) this.missing(input.value.trim());
    });
    return input;
  }

  /** A word that is on no map: said beside the box, and no other word's neighbours stand below. */
  missing(text) {
    this.choose([]);
    this.answer.textContent = `None of the ${counted(this.panels[0].data.words.length)} words has “${text}” in it.`;
  }

  /** Point at a word, bring it to the middle of each map, and say its neighbours. */
  goTo(word, how = "") {
    this.choose([word]);
    const said = [];
    for (const { map, data } of this.panels) {
      const place = data.index.get(word);
      if (place === undefined) continue;
      map.centre(place);
      said.push(data.neighbours(map.show, place).map(({ point }) => data.words[point]).join(", "));
    }
    this.answer.textContent = this.panels[0].data.took(word, how);
    this.say(`${word}: ${said.join("; ")}`, false, true);
  }

  get pinned() {
    return this.chosen.at(-1) ?? null;
  }

  /** Choose a word alone, or add it to those that are chosen, or take it away. */
  pin(word, adds) {
    if (!adds) return this.choose(word === null ? [] : [word]);
    if (word === null) return;
    const others = this.chosen.filter((one) => one !== word);
    this.choose(others.length < this.chosen.length ? others : [...others, word]);
  }

  choose(words) {
    this.chosen = words;
    for (const { map, data } of this.panels) map.chosen = words.map((word) => data.index.get(word)).filter((point) => point !== undefined);
    this.say("");
    this.answer.textContent = "";
    this.onChoice(words);
    this.point(this.pinned);
  }

  hover(word) {
    this.point(word ?? this.pinned);
  }

  point(word) {
    if (document.activeElement !== this.search) this.search.value = word ?? ""; // not while somebody types
    for (const panel of this.panels) {
      panel.map.pointed = (word === null ? null : panel.data.index.get(word)) ?? null;
      panel.map.ask();
      this.fillNear(panel, word);
    }
  }

  fillNear({ map, data, near }, word) {
    near.replaceChildren();
    if (map.pointed === null) {
      const hint = `Point at a word: its ${data.k} nearest in the full space, with their ${data.about.distance}.`;
      near.textContent = word === null ? hint : "This word is not on this map.";
      return;
    }
    const { pointed: point, show } = map;
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
    const { column: name, data, ink } = this.maps[0];
    this.legend.replaceChildren();
    if (name === null || !ink) return; // a map that is not on a page yet has no ink: its first drawing asks again
    const column = name === KEPT_COLUMN ? { low: 0, high: data.k } : data.columns.get(name);
    if (column.on_map) return this.legend.append("Regions that have a name are coloured.");
    if (column.kinds) return this.fillKinds(column);
    const box = child(this.legend, "span", "");
    box.append(tidy(column.low));
    child(box, "i", "").style.background = `linear-gradient(90deg, ${this.look.ramp.join(", ")})`;
    box.append(`${tidy(column.high)}${name === KEPT_COLUMN ? ` of ${data.k} nearest are among the ${data.k} nearest on the map too` : ""}`);
  }

  /** Kinds are buttons: the chosen one stays, the others are faint. */
  fillKinds(column) {
    const { looks } = this.maps[0].looks();
    column.kinds.forEach((kind, place) => {
      const button = child(this.legend, "button", "");
      button.type = "button";
      button.setAttribute("aria-pressed", "false");
      button.append(symbol(looks[place]), kind);
      child(button, "small", "").textContent = ` ${counted(column.counts[place])}`;
      button.addEventListener("click", () => {
        const only = this.maps[0].only === place ? null : place;
        for (const map of this.maps) Object.assign(map, { only }).ask();
        for (const one of this.legend.querySelectorAll("button")) one.setAttribute("aria-pressed", String(one === button && only === place));
      });
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
  try {
    const datas = await Promise.all(meta.maps.map(MapData.of));
    element.maps = new MapGroup({ figure, bar: controls, row: chart }, datas, meta, say, onChoice);
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
