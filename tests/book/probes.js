// What the tests ask of a page, by name: each gives what is wrong, and an empty list if nothing is.
globalThis.probes = (() => {
  const all = (selector, within = document) => [...within.querySelectorAll(selector)];
  const begin = (one) => (one.innerText ?? one.textContent).trim().slice(0, 60);
  const folds = () => all("details.ev-depth");
  const outputs = () => all(".embviz-output");
  const frame = () => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)));

  // --- contrasts, as WCAG has them ---

  const parts = (colour) => (colour.match(/[\d.]+/g) ?? [0, 0, 0, 0]).map(Number);
  const light = (rgb) => rgb.slice(0, 3).map((c) => c / 255)
    .map((c) => (c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4))
    .reduce((sum, c, i) => sum + c * [0.2126, 0.7152, 0.0722][i], 0);

  /** How far colours stand out from the ground of an element; grounds are looked up once. */
  const contrasts = () => {
    const grounds = new Map();
    const ground = (element) => {
      if (element === null) return [255, 255, 255];
      if (!grounds.has(element)) {
        const colour = parts(getComputedStyle(element).backgroundColor);
        grounds.set(element, colour.length < 4 || colour[3] > 0.5 ? colour : ground(element.parentElement));
      }
      return grounds.get(element);
    };
    const contrast = (colour, element) => {
      const [a, b] = [light(parts(colour)), light(ground(element))];
      return (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
    };
    return { ground, contrast };
  };

  /** Words of a chart or near it that stand out less than 3:1 from the page's ground, but for numbers in the
   *  cells of a heat map, which repeat what the cells say and lie on their colours. */
  const faintWords = () => {
    const { contrast } = contrasts();
    const words = ".embviz text:not([aria-hidden=true] *), .embviz-title, .embviz-caption, .embviz label, .bd-content p";
    return all(words).filter((one) => one.textContent.trim()).map((one) => {
      const style = getComputedStyle(one);
      return [contrast(one.tagName === "text" ? style.fill : style.color, one), one.textContent.slice(0, 40)];
    }).filter(([ratio]) => ratio < 3);
  };

  /** Marks neither of whose colours, of area and of outline, is 3:1 from the page's ground. Where a legend
   *  grades a colour, cells touch each other. */
  const faintMarks = () => {
    const { ground, contrast } = contrasts();
    const drawn = (mark, kind) => {
      const style = getComputedStyle(mark);
      const seen = parts(style[kind])[3] !== 0 && Number(style.opacity) * Number(style[`${kind}Opacity`]) > 0;
      if (style[kind] === "none" || !seen || (kind === "stroke" && style.strokeWidth === "0px")) return [];
      return [style[kind]];
    };
    const ratios = new Map();
    const ratio = (colour, chart) => {
      const key = `${colour} on ${ground(chart)}`;
      if (!ratios.has(key)) ratios.set(key, contrast(colour, chart));
      return ratios.get(key);
    };
    const found = new Set();
    for (const chart of outputs()) {
      const graded = chart.querySelector(".role-legend-gradient");
      for (const group of all(".role-mark:not(.mark-text, .mark-group), .role-legend-symbol", chart)) {
        if (graded && group.matches(".mark-rect")) continue;
        for (const mark of all("path, line, rect, circle", group)) {
          const box = mark.getBBox();
          if (box.width + box.height === 0) continue;
          const colours = ["fill", "stroke"].flatMap((kind) => drawn(mark, kind));
          if (!colours.length || Math.max(...colours.map((one) => ratio(one, chart))) >= 3) continue;
          found.add(`${begin(chart)}: ${colours}`);
        }
      }
    }
    return [...found];
  };

  /** Outputs that do not lie on the ground of what is around them. */
  const otherGrounds = () => {
    const { ground } = contrasts();
    return all(".cell .text_html").filter((one) => `${ground(one)}` !== `${ground(one.closest("details, .cell"))}`).map(begin);
  };

  // --- sizes ---

  /** Code, pictures, equations and tables that go on beyond the column, and by how many pixels. */
  const cut = () => {
    const edge = document.querySelector("article").getBoundingClientRect().right;
    const scrolled = all(".bd-content :is(div.highlight pre, mjx-container[display=true], .cell_output)");
    const beyond = all(".bd-content :is(.embviz-output, img, table)");
    return [
      ...scrolled.map((one) => [one.scrollWidth - one.clientWidth, begin(one)]),
      ...beyond.map((one) => [Math.round(one.getBoundingClientRect().right - edge), begin(one)]),
    ].filter(([over]) => over > 2);
  };

  /** What is wider than a narrow screen. A chart of fixed width may scroll in its box; one that fills it must not. */
  const cutOnPhone = () => [
    ...(document.documentElement.scrollWidth > innerWidth ? [["the page", document.documentElement.scrollWidth]] : []),
    ...all(".bd-content :is(.embviz-output svg, .embviz-output canvas, img)")
      .map((one) => [Math.round(one.getBoundingClientRect().width), begin(one.closest("div"))])
      .filter(([width]) => width > innerWidth),
    ...all(".embviz-chart.fit-x, .embviz-controls, .embviz-player, .embviz-map, .embviz-map-bar, .embviz-near")
      .filter((one) => one.scrollWidth > one.clientWidth + 1).map((one) => [one.scrollWidth, begin(one)]),
  ];

  /** Wait until the charts fill their boxes, whose widths have changed. */
  const chartsFollow = async () => {
    for (let round = 0; round < 3; round++) {
      await frame();
      await Promise.all(outputs().filter((one) => one.view).map((one) => one.view.runAsync()));
    }
  };

  const heightFolded = () => {
    const open = folds().filter((fold) => fold.open);
    open.forEach((fold) => (fold.open = false));
    const height = document.documentElement.scrollHeight;
    open.forEach((fold) => (fold.open = true));
    return height;
  };

  // --- words ---

  /** Markup that shows and should have been drawn: dollar signs, backticks, asterisks. */
  const rawMarkup = () => {
    const found = [];
    const walker = document.createTreeWalker(document.querySelector(".bd-content article"), NodeFilter.SHOW_TEXT);
    while (walker.nextNode()) {
      const node = walker.currentNode;
      if (node.parentElement.closest("pre, code, script, style, mjx-container, .math, kbd, textarea")) continue;
      const hit = node.textContent.match(/.{0,25}(`|\$[^\s$][^$]*\$|\*\*).{0,25}/);
      if (hit) found.push(hit[0]);
    }
    return found;
  };

  const brokenFormulas = () => {
    const [written, set] = ["span.math, div.math", "mjx-container"].map((one) => all(`.bd-content :is(${one})`).length);
    const wrong = all("[data-mjx-error], mjx-merror").map((one) => `wrong formula: ${begin(one)}`);
    return set < written ? [`${set} of ${written} formulas are set`, ...wrong] : wrong;
  };

  // --- controls ---

  /** Controls that change nothing in their drawing, whatever value they are given: all, or the first of a kind. */
  const stuckControls = async (everyOne) => {
    const stuck = [];
    const kinds = new Set();
    for (const output of outputs()) {
      const drawing = () => output.querySelector(".embviz-chart").innerHTML;
      const inputs = all(".embviz-controls :is(input, select)", output);
      for (const name of new Set(inputs.map((input) => input.name))) {
        const own = inputs.filter((input) => input.name === name);
        if (!everyOne && kinds.has(own[0].type)) continue;
        kinds.add(own[0].type);
        const [before, first] = [drawing(), output.view.signal(name)];
        let moved = false;
        for (const [input, value] of own.flatMap((input) => values(input).map((value) => [input, value]))) {
          if (moved) break;
          set(input, value);
          await output.view.runAsync();
          moved = drawing() !== before;
        }
        if (!moved) stuck.push(name);
        await output.view.signal(name, first).runAsync();
      }
    }
    return stuck;
  };
  const values = (input) => {
    if (input.type === "range") return [input.min, input.max];
    return input.tagName === "SELECT" ? [...input.options].map((_, index) => index) : [true, false];
  };
  const set = (input, value) => {
    if (input.type === "range") input.value = value;
    else if (input.tagName === "SELECT") input.selectedIndex = value;
    else input.checked = value;
    input.dispatchEvent(new Event("input", { bubbles: true }));
    input.dispatchEvent(new Event("change", { bubbles: true }));
  };

  // --- events ---

  /** What will be: an object whose `wait` is kept once the text of an element has some words in it. */
  const willSay = (selector, words) => ({
    wait: new Promise((done) => {
      const element = document.querySelector(selector);
      new MutationObserver(() => element.textContent.includes(words) && done(true))
        .observe(element, { childList: true, characterData: true, subtree: true });
    }),
  });
  const willScroll = () => ({ wait: new Promise((done) => document.addEventListener("scrollend", () => done(true), { once: true })) });

  return {
    openFolds: () => folds().forEach((fold) => (fold.open = true)),
    isReady: () => outputs().every((one) => one.dataset.ready),
    faint: () => [...faintWords(), ...faintMarks(), ...otherGrounds()],
    wrong: (isProse) => [...brokenFormulas(), ...cut(), ...(isProse ? rawMarkup() : [])],
    ...{ faintWords, cut, cutOnPhone, chartsFollow, heightFolded, stuckControls, frame, willSay, willScroll },
  };
})();
