// The map of a whole vocabulary. Stands behind embedding_maps.js in its scope and alters three of its parts:
// the data come packed, hundreds of thousands of points are written into the canvas's pixels, regions have names.

const HALF = 32767; // steps from the plane's middle to its farthest point
const DISCS = 15000; // points in sight up to which they are drawn as discs
const REGION_FONTS = ["700 16px system-ui, sans-serif", "600 13px system-ui, sans-serif"];
const REGION_GAP = 5; // pixels about the name of a region in which no other name stands
const NARROW_MAP = 500; // pixels of width below which continents are named in small letters
const REGION_ZOOMS = [[0, 4], [2.5, 24]]; // zooms at which continents and regions are named
const ROOM_AMONG_REGIONS = 9000; // square pixels of the map for each word's label while regions are named
const MOST_TRIED = 5000; // points for which room for a label is looked for
const FAINT_ALPHA = 0.12; // of kinds that are not the chosen one
const GREY = "#8a8a8a";
const WITHOUT_KIND = new Set(["others", "no cluster"]);

/** The bytes of a gzip stream in base64. */
async function inflated(text) {
  const letters = atob(text);
  const bytes = new Uint8Array(letters.length);
  for (let place = 0; place < letters.length; place += 1) bytes[place] = letters.charCodeAt(place);
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
  return new Uint8Array(await new Response(stream).arrayBuffer());
}

/** What `packed` holds, as the one row of a map. */
async function unpackedRow(about) {
  const bytes = await inflated(about.packed);
  let at = 0;
  const whole = (n, planes) => {
    const numbers = new Int32Array(n);
    for (let plane = 0; plane < planes; plane += 1, at += n) {
      for (let place = 0; place < n; place += 1) numbers[place] |= bytes[at + place] << (8 * plane);
    }
    return numbers;
  };
  const { n_words: n, n_neighbors: k } = about;
  const row = {};
  about.names.forEach((_, show) => {
    row[`x${show}`] = whole(n, 2).map((x) => x - HALF);
    row[`y${show}`] = whole(n, 2).map((y) => y - HALF);
    row[`near${show}`] = whole(n * k, 3);
    row[`far${show}`] = bytes.slice(at, (at += n * k));
    row[`kept${show}`] = bytes.slice(at, (at += n));
  });
  about.columns.forEach((_, place) => {
    row[`column${place}`] = bytes.slice(at, (at += n));
  });
  row.word = JSON.parse(new TextDecoder().decode(bytes.subarray(at)));
  return row;
}

class VocabularyData extends MapData {
  constructor(row, about) {
    const none = about.names.map(() => "");
    super(row, { ...about, near: none, far: none });
    this.shows.forEach((show, place) => Object.assign(show, { near: row[`near${place}`], far: row[`far${place}`] }));
    this.lower = this.words.map((word) => word.toLowerCase());
  }

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

  /** Places of tokens that a typed text may mean: itself, its twin inside words, other letters, beginnings, parts. */
  find(text, most = SUGGESTIONS) {
    return this.findSaid(text, most).map(({ place }) => place);
  }

  /** Which token a search took, and whether its twin is there too. */
  took(word, how) {
    const twin = word[0] === "-" ? word.slice(1) : `-${word}`;
    const where = word[0] === "-" ? "at the beginning of a word" : "as a piece inside words";
    const other = this.index.has(twin) ? ` There is also “${twin}”, ${where}.` : "";
    return how || other ? `Found “${word}”${how ? `, ${how}` : ""}.${other} Nearest to ` : "";
  }

  findSaid(text, most = SUGGESTIONS) {
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
      const same = this.lower[place].length === small.length || this.lower[place] === `-${small}`;
      if (same) add(place, "with other capitals");
      else if (at === 0 && begin.length < most) begin.push(place);
      else if (at > 0 && inside.length < most) inside.push(place);
    }
    for (const place of begin) add(place, "which begins with it");
    for (const place of inside) add(place, "which contains it");
    return [...found.values()].slice(0, most);
  }
}

const coloured = (text) => {
  const [red, green, blue] = text[0] === "#" ? [1, 3, 5].map((from) => parseInt(text.slice(from, from + 2), 16)) : text.match(/\d+/g).map(Number);
  return (255 << 24) | (blue << 16) | (green << 8) | red; // as the bytes of a picture lie
};

class VocabularyCanvas extends WordMap {
  constructor(panel, data, look, told) {
    super(panel, data, look, told);
    this.only ??= null; // the one kind that is not faint
    this.within = []; // points in the lasso
    this.listenToLasso();
  }

  /** The middle nine hundred and ninety-nine of a thousand points fill the map; the rest lie outside. */
  edgesOf(show) {
    const ends = (name) => {
      const sorted = Float64Array.from(this.data.shows[show][name]).sort();
      const rest = sorted.length > 5000 ? Math.floor(sorted.length / 1000) : 0;
      return [sorted[rest], sorted[sorted.length - 1 - rest]];
    };
    this.ends ??= [];
    return (this.ends[show] ??= [ends("x"), ends("y")]);
  }

  get edges() {
    return this.edgesOf(this.show);
  }

  /** As high as the points are, seen as wide as the map; a little over half of the width at least. */
  get fullHeight() {
    const [[left, right], [bottom, top]] = this.edgesOf(0);
    return Math.min(this.width, Math.max((this.width * (top - bottom)) / (right - left || 1) + MARGIN, 0.6 * this.width));
  }

  /** A colour for each value of the column. */
  colours() {
    const kept = this.column === KEPT_COLUMN;
    const column = this.data.columns.get(this.column);
    const { palette, ramp } = this.look;
    if (!kept && column?.kinds) {
      return column.kinds.map((kind, place) => (WITHOUT_KIND.has(kind) ? GREY : palette[place % palette.length]));
    }
    const most = kept ? this.data.k : 255;
    return Array.from({ length: most + 1 }, (_, value) => mixed(ramp, value / most));
  }

  get values() {
    if (this.column === null) return null;
    return this.column === KEPT_COLUMN ? this.data.shows[this.show].kept : this.data.columns.get(this.column).values;
  }

  get radius() {
    return this.data.words.length < 2e4 ? super.radius : Math.min(0.5 + 0.55 * Math.log2(Math.max(this.zoom, 1)), 4.5);
  }

  drawPoints() {
    const { pen, ratio, values, only } = this;
    const colours = values ? this.colours() : [this.look.palette[0]];
    const { x, y } = this.places[this.show];
    const scale = this.view.scale * ratio;
    const { width, height } = this.canvas;
    const [left, top] = [width / 2 - this.view.x * scale, height / 2 + this.view.y * scale];
    const seen = [];
    for (let point = x.length - 1; point >= 0; point -= 1) {
      const px = left + x[point] * scale;
      const py = top - y[point] * scale;
      if (px >= -9 && py >= -9 && px < width + 9 && py < height + 9) seen.push(point);
    }
    this.inSight = seen;
    if (seen.length <= DISCS) return this.drawDiscs(seen, values, colours);
    const inks = Uint32Array.from(colours, coloured);
    const faint = Uint32Array.from(inks, (ink) => (ink & 0xffffff) | ((255 * FAINT_ALPHA) << 24));
    if (this.picture?.width !== width || this.picture.height !== height) {
      this.picture = pen.createImageData(width, height);
      this.pixels = new Uint32Array(this.picture.data.buffer);
    }
    const { pixels } = this;
    pixels.fill(0);
    const side = Math.max(1, Math.round(2 * this.radius * ratio * 0.8));
    const paint = (point, ink) => {
      const px = Math.round(left + x[point] * scale - side / 2);
      const py = Math.round(top - y[point] * scale - side / 2);
      if (px < 0 || py < 0 || px + side > width || py + side > height) return;
      for (let down = 0, from = py * width + px; down < side; down += 1, from += width) pixels.fill(ink, from, from + side);
    };
    if (only != null && values) {
      for (const point of seen) if (values[point] !== only) paint(point, faint[values[point]]);
      for (const point of seen) if (values[point] === only) paint(point, inks[only]);
    } else if (side === 1) {
      for (const point of seen) {
        const px = Math.round(left + x[point] * scale);
        const py = Math.round(top - y[point] * scale);
        if (px >= 0 && py >= 0 && px < width && py < height) pixels[py * width + px] = inks[values ? values[point] : 0];
      }
    } else for (const point of seen) paint(point, inks[values ? values[point] : 0]);
    pen.putImageData(this.picture, 0, 0);
  }

  drawDiscs(seen, values, colours) {
    const { pen, radius } = this;
    const paths = colours.map(() => new Path2D());
    for (const point of seen) {
      const [px, py] = this.screen(this.show, point);
      trace(paths[values ? values[point] : 0], "circle", px, py, radius);
    }
    paths.forEach((path, place) => {
      pen.globalAlpha = this.only == null || this.only === place ? ALPHA : FAINT_ALPHA;
      pen.fillStyle = colours[place];
      pen.fill(path);
    });
    pen.globalAlpha = 1;
  }

  drawLabels() {
    const regions = this.show === 0 ? this.data.about.regions : []; // in a control they are anywhere
    const named = regions.filter(({ level }) => this.zoom >= REGION_ZOOMS[level][0] && this.zoom < REGION_ZOOMS[level][1]);
    this.regionBoxes = named.length ? this.drawRegions(named) : [];
    super.drawLabels();
    this.drawLasso();
  }

  drawRegions(named) {
    const { pen } = this;
    const taken = new Taken();
    const boxes = [];
    pen.textBaseline = "middle";
    pen.lineJoin = "round";
    pen.lineWidth = 4;
    pen.strokeStyle = this.ground;
    pen.fillStyle = this.ink;
    for (const { text, x, y, level } of named) {
      let px = this.width / 2 + (x - this.view.x) * this.view.scale;
      const py = this.height / 2 - (y - this.view.y) * this.view.scale;
      if (px < 0 || py < 0 || px > this.width || py > this.height) continue;
      pen.font = REGION_FONTS[this.width < NARROW_MAP ? 1 : level];
      const half = pen.measureText(cut(text)).width / 2;
      px = Math.max(half, Math.min(px, this.width - half)); // not over the edge
      const box = [px - half - REGION_GAP, py - 8 - REGION_GAP, px + half + REGION_GAP, py + 8 + REGION_GAP];
      if (!taken.take(...box)) continue;
      boxes.push(box);
      pen.strokeText(cut(text), px - half, py);
      pen.fillText(cut(text), px - half, py);
    }
    return boxes;
  }

  *labelled() {
    const { inSight } = this;
    for (let tried = 0; tried < Math.min(inSight.length, MOST_TRIED); tried += 1) yield inSight[inSight.length - 1 - tried];
  }

  get roomALabel() {
    const overview = this.show > 0 && this.zoom < REGION_ZOOMS[0][1];
    return this.regionBoxes?.length || overview ? ROOM_AMONG_REGIONS : ROOM_A_LABEL;
  }

  hit(px, py) {
    const { x, y } = this.places[this.show];
    const { scale } = this.view;
    const [wx, wy, reach] = [this.view.x + (px - this.width / 2) / scale, this.view.y - (py - this.height / 2) / scale, REACH / scale];
    let best = null;
    let least = reach ** 2;
    for (const point of this.inSight ?? []) {
      const square = (x[point] - wx) ** 2 + (y[point] - wy) ** 2;
      if (square < least) [best, least] = [point, square];
    }
    return best === null ? null : { point: best, show: this.show };
  }

  // --- the lasso ---

  listenToLasso() {
    const { canvas } = this;
    const at = (event) => {
      const box = canvas.getBoundingClientRect();
      const [px, py] = [event.clientX - box.left, event.clientY - box.top];
      return [this.view.x + (px - this.width / 2) / this.view.scale, this.view.y - (py - this.height / 2) / this.view.scale];
    };
    const caught = (name, act) =>
      canvas.addEventListener(name, (event) => this.lassoing && (act(event), event.stopImmediatePropagation(), event.preventDefault()), true);
    let drawing = false;
    caught("pointerdown", (event) => {
      drawing = true;
      this.lasso = [at(event)];
      canvas.setPointerCapture(event.pointerId);
    });
    caught("pointermove", (event) => {
      if (!drawing) return;
      this.lasso.push(at(event));
      this.ask();
    });
    const end = () => {
      if (drawing) this.enclose(this.lasso);
      drawing = false;
    };
    caught("pointerup", end);
    caught("pointercancel", end);
  }

  /** The points within a polygon of the plane are chosen; what was drawn stays until the next one. */
  enclose(corners) {
    const { x, y } = this.places[this.show];
    const inside = (px, py) => {
      let odd = false;
      for (let one = 0, other = corners.length - 1; one < corners.length; other = one, one += 1) {
        const [[ax, ay], [bx, by]] = [corners[one], corners[other]];
        if (ay > py !== by > py && px < ((bx - ax) * (py - ay)) / (by - ay) + ax) odd = !odd;
      }
      return odd;
    };
    this.lasso = corners;
    this.within = [];
    for (let point = 0; point < x.length; point += 1) if (inside(x[point], y[point])) this.within.push(point);
    this.told.within(this.within);
    this.ask();
  }

  drawLasso() {
    if (!this.lasso?.length) return;
    const { pen } = this;
    pen.strokeStyle = this.look.categories[1];
    pen.lineWidth = 2;
    pen.beginPath();
    for (const [x, y] of this.lasso) pen.lineTo(this.width / 2 + (x - this.view.x) * this.view.scale, this.height / 2 - (y - this.view.y) * this.view.scale);
    pen.closePath();
    pen.stroke();
  }
}

/** The lasso's switch, and the list that it gives. */
function offerLasso(tools, map) {
  const button = child(tools, "button", "");
  Object.assign(button, { type: "button", textContent: "lasso", title: "Draw round tokens to list them" });
  button.setAttribute("aria-pressed", "false");
  button.addEventListener("click", () => {
    map.lassoing = !map.lassoing;
    button.setAttribute("aria-pressed", String(map.lassoing));
    map.canvas.dataset.lasso = map.lassoing;
  });
  const save = child(tools, "button", "");
  Object.assign(save, { type: "button", textContent: "save list", hidden: true });
  save.addEventListener("click", () => {
    const link = document.createElement("a");
    link.href = URL.createObjectURL(new Blob([map.within.map((point) => map.data.words[point]).join("\n")], { type: "text/plain" }));
    link.download = "tokens.txt";
    link.click();
    URL.revokeObjectURL(link.href);
  });
  map.told.within = (chosen) => {
    save.hidden = !chosen.length;
    const some = chosen.slice(0, 40).map((point) => map.data.words[point]);
    map.told.say(`${chosen.length.toLocaleString("en")} tokens in the lasso: ${some.join(", ")}${chosen.length > some.length ? ", …" : ""}`);
  };
}

/** A legend whose kinds are buttons: the chosen one stays, the others are faint. */
function fillKinds(legend, map, column) {
  const colours = map.colours();
  column.kinds.forEach((kind, place) => {
    const button = child(legend, "button", "");
    button.type = "button";
    button.setAttribute("aria-pressed", "false");
    child(button, "i", "embviz-dot").style.background = colours[place];
    button.append(kind);
    child(button, "small", "").textContent = ` ${column.counts[place].toLocaleString("en")}`;
    button.addEventListener("click", () => {
      map.only = map.only === place ? null : place;
      for (const one of legend.querySelectorAll("button")) one.setAttribute("aria-pressed", String(one === button && map.only === place));
      map.ask();
    });
  });
}

export default { unpackedRow };
