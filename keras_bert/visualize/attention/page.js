"use strict";

// Attention of one text. Shapes: n tokens, L layers, A heads. A matrix of a head has n rows of n + 1
// numbers, the last for what goes to tokens that are not on the page.
//
// A unit is what is shown as one: a token, or a word where pieces are joined.

const data = JSON.parse(document.getElementById("data").textContent);
const n = data.pieces.length;
const WINDOW = 64; // units on a side that lines and matrix show at a time
const MOST_LINES = 800;
const RANKED = 12;
const ROW = 26; // height of a token beside the lines, as in the style
const VIEWS = ["words", "lines", "matrix", "heads"];
const MEAN = "mean";

const state = {
  view: "words",
  layer: data.layers - 1,
  head: MEAN,
  lastHead: 0,
  direction: "from",
  pair: "all",
  threshold: 5,
  join: false,
  hide: true,
  token: null, // chosen token: its unit is the word that looks
  target: null, // chosen token that is looked at
  pinned: null, // of the lines: {side, token}
  window: 0, // of lines and matrix
};

let bytes; // Uint8Array [L, A, n, n + 1]
const cache = new Map();
const byId = (id) => document.getElementById(id);
const panel = byId("panel");

// === Numbers ===

// A byte q stands for (q / 255)^2.
const VALUES = Float32Array.from({ length: 256 }, (_, q) => (q / 255) ** 2);

async function decode() {
  const packed = Uint8Array.from(atob(data.probabilities), (c) => c.charCodeAt(0));
  const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("deflate"));
  return new Uint8Array(await new Response(stream).arrayBuffer());
}

// One row of a head, [n + 1], divided by its sum: bytes are rounded.
function addRow(layer, head, from, sums, at, scale) {
  const start = ((layer * data.heads + head) * n + from) * (n + 1);
  let total = 0;
  for (let to = 0; to <= n; to++) total += VALUES[bytes[start + to]];
  if (total === 0) return;
  for (let to = 0; to <= n; to++) sums[at + to] += (scale * VALUES[bytes[start + to]]) / total;
}

const chosen = (value, count) => (value === MEAN ? [...Array(count).keys()] : [value]);

// Float32Array [n, n + 1] of a head, or the mean of several.
function tokenMatrix(layer, head) {
  const layers = chosen(layer, data.layers);
  const heads = chosen(head, data.heads);
  const matrix = new Float32Array(n * (n + 1));
  const scale = 1 / (layers.length * heads.length);
  for (const l of layers)
    for (const h of heads)
      for (let from = 0; from < n; from++) addRow(l, h, from, matrix, from * (n + 1), scale);
  return matrix;
}

// All units, hidden ones too; a unit knows its tokens.
function allUnits() {
  const units = [];
  for (let token = 0; token < n; token++) {
    const last = units[units.length - 1];
    if (state.join && last && data.wordOf[last.tokens[0]] === data.wordOf[token]) {
      last.tokens.push(token);
      continue;
    }
    units.push({
      label: state.join ? data.words[data.wordOf[token]] : data.pieces[token],
      segment: data.segments[token],
      special: Boolean(data.special[token]),
      tokens: [token],
      index: units.length,
    });
  }
  return units;
}

// What is on show: units, the unit of each token, and weight(from, to) between indices of units.
function current() {
  const key = `${state.layer} ${state.head} ${state.join}`;
  if (!cache.has(key)) {
    if (cache.size > 8) cache.clear();
    const units = allUnits();
    const unitOf = new Array(n);
    for (const unit of units) for (const token of unit.tokens) unitOf[token] = unit.index;
    const matrix = tokenMatrix(state.layer, state.head);
    const width = units.length;
    // Attention to a word is the sum over its pieces, from a word the mean over them.
    const weights = new Float32Array(width * width);
    for (const unit of units)
      for (const from of unit.tokens)
        for (let to = 0; to < n; to++)
          weights[unit.index * width + unitOf[to]] += matrix[from * (n + 1) + to] / unit.tokens.length;
    const elsewhere = units.map(
      (unit) => unit.tokens.reduce((sum, from) => sum + matrix[from * (n + 1) + n], 0) / unit.tokens.length,
    );
    cache.set(key, { units, unitOf, elsewhere, weight: (from, to) => weights[from * width + to] });
  }
  return cache.get(key);
}

const isVisible = (unit) => !(state.hide && unit.special);
// Whether a unit may look (side 0) or be looked at (side 1).
const isOnSide = (unit, side) => state.pair === "all" || unit.segment === +state.pair[side];
const isLink = (from, to) => isOnSide(from, 0) && isOnSide(to, 1);

// The weight between two units in every head: [L][A].
function weightsOfPair(from, to) {
  const row = new Float32Array(n + 1);
  return Array.from({ length: data.layers }, (_, layer) =>
    Array.from({ length: data.heads }, (_, head) => {
      row.fill(0);
      for (const token of from.tokens) addRow(layer, head, token, row, 0, 1 / from.tokens.length);
      return to.tokens.reduce((sum, token) => sum + row[token], 0);
    }),
  );
}

// Where a head looks on the whole, as a sentence; those of means stand behind the others.
function describe(layer, head) {
  const row = data.sentences[layer === MEAN ? data.layers : layer];
  return row[head === MEAN ? data.heads : head];
}

const percent = (value) => `${(100 * value).toFixed(value < 0.0995 ? 1 : 0)}\u00a0%`;

// === Colours ===

let colours;

function readColours() {
  const style = getComputedStyle(document.documentElement);
  const triple = (name) => style.getPropertyValue(name).split(",").map(Number);
  const word = (name) => style.getPropertyValue(name).trim();
  colours = { page: triple("--page"), heat: triple("--heat"), chosen: word("--chosen"), text: word("--text") };
}

// Grows faster at first, so that small weights can be told from none.
const strength = (weight, most) => (most > 0 ? Math.min(weight / most, 1) ** 0.6 : 0);

function shade(weight, most) {
  const part = strength(weight, most);
  return colours.page.map((value, i) => Math.round(value + part * (colours.heat[i] - value)));
}

// Black or white, whichever can be read on a colour (WCAG 2, relative luminance).
function textOn(rgb) {
  const [r, g, b] = rgb.map((value) => {
    const part = value / 255;
    return part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4;
  });
  return 0.2126 * r + 0.7152 * g + 0.0722 * b > 0.179 ? "#000" : "#fff";
}

const css = (rgb) => `rgb(${rgb.join(",")})`;

function paint(element, weight, most) {
  const rgb = shade(weight, most);
  element.style.background = css(rgb);
  element.style.color = textOn(rgb);
}

function showLegend(most, shown) {
  const legend = byId("legend");
  legend.replaceChildren();
  legend.hidden = !shown;
  for (const part of [0, 1 / 16, 1 / 4, 1 / 2, 1]) {
    const swatch = make("i");
    swatch.style.background = css(shade(part * most, most));
    const entry = make("span", { className: "number" }, swatch, percent(part * most));
    legend.append(entry);
  }
}

// === Elements ===

function make(name, properties = {}, ...children) {
  const element = Object.assign(document.createElement(name), properties);
  element.append(...children);
  return element;
}

// One stop of the Tab key for a group of buttons; arrows move inside it.
function rove(group, items, start, columns = 1, across = false) {
  items.forEach((item, index) => (item.tabIndex = index === start ? 0 : -1));
  group.addEventListener("keydown", (event) => {
    const index = items.indexOf(document.activeElement);
    if (index < 0) return;
    const sideways = across || columns > 1;
    // In a text from right to left the next word stands to the left.
    const right = items[index].parentElement.dir === "rtl" ? -1 : 1;
    const steps = {
      ArrowRight: sideways ? right : null,
      ArrowLeft: sideways ? -right : null,
      ArrowDown: columns,
      ArrowUp: -columns,
      Home: -index,
      End: items.length - 1 - index,
    };
    const step = steps[event.key];
    if (step === undefined || step === null) return;
    event.preventDefault();
    const next = items[index + step];
    if (!next) return;
    items[index].tabIndex = -1;
    next.tabIndex = 0;
    next.focus();
  });
}

// A piece or word as a button; the signs of "##ing" stand where its own script begins.
const tokenButton = (unit, properties = {}) =>
  make("button", { className: "token", type: "button", dir: "auto", ...properties }, unit.label);
// The name of a unit in a sentence, whose order a script from right to left leaves as it is.
const named = (unit) => make("bdi", {}, `“${unit.label}”`);
const segmentName = (segment) => make("span", { className: "segment-name" }, segment ? "B" : "A");
const isPair = data.segments.includes(1);

// === Words: which word does this one look at ===

// The chosen unit, or where none is chosen yet (or it is hidden now) one in the middle.
function lookingUnit({ units, unitOf }) {
  const now = state.token === null ? null : units[unitOf[state.token]];
  if (now && isVisible(now)) return now;
  const visible = units.filter(isVisible);
  return visible[Math.floor(visible.length / 2)] ?? null;
}

function drawWords() {
  const shown = current();
  const unit = lookingUnit(shown);
  if (!unit) return nothing();
  const isFrom = state.direction === "from";
  const weightOf = (other) =>
    isFrom ? shown.weight(unit.index, other.index) : shown.weight(other.index, unit.index);
  const counts = (other) => isVisible(other) && (isFrom ? isLink(unit, other) : isLink(other, unit));
  const others = shown.units.filter(counts);
  const ranked = [...others].sort((a, b) => weightOf(b) - weightOf(a));
  const most = ranked.length ? weightOf(ranked[0]) : 0;

  const text = make("div", { className: "text", id: "text" });
  text.setAttribute("role", "group");
  text.setAttribute("aria-label", "The text: choose a word");
  const buttons = [];
  let line = null;
  let segment = null;
  for (const other of shown.units.filter(isVisible)) {
    if (other.segment !== segment) {
      segment = other.segment;
      line = make("div", { dir: data.directions[segment] });
      if (isPair) line.append(segmentName(segment));
      text.append(line);
    }
    const button = tokenButton(other);
    button.dataset.token = other.tokens[0];
    button.setAttribute("aria-pressed", other === unit);
    if (counts(other)) {
      paint(button, weightOf(other), most);
      button.title = `${percent(weightOf(other))}`;
    } else button.classList.add("uncounted");
    button.addEventListener("click", () => choose({ token: other.tokens[0], target: null }, true));
    buttons.push(button);
    line.append(button);
  }
  rove(text, buttons, buttons.findIndex((b) => b.getAttribute("aria-pressed") === "true"), 1, true);

  const target = ranked.find((other) => other.tokens.includes(state.target)) ?? ranked[0];
  const list = make("ol", { className: "ranking", id: "ranking" });
  const entries = ranked.slice(0, RANKED).map((other) => {
    const bar = make("span", { className: "bar" });
    bar.style.width = `${most ? (100 * weightOf(other)) / most : 0}%`;
    const entry = make(
      "button",
      { type: "button" },
      make("span", { className: "name", dir: "auto" }, other.label),
      bar,
      make("span", { className: "number" }, percent(weightOf(other))),
    );
    entry.setAttribute("aria-pressed", other === target);
    entry.dataset.token = other.tokens[0];
    entry.addEventListener("click", () => choose({ token: unit.tokens[0], target: other.tokens[0] }));
    list.append(make("li", {}, entry));
    return entry;
  });
  rove(list, entries, Math.max(0, entries.findIndex((e) => e.getAttribute("aria-pressed") === "true")));

  const left = make(
    "section",
    {},
    make("h2", {}, named(unit), isFrom ? " looks at" : " is looked at by"),
    list,
  );
  const side = isFrom ? 0 : 1;
  const note = [];
  if (!isOnSide(unit, side)) {
    const does = isFrom ? "looks" : "is looked at";
    note.push(named(unit), ` is not in segment ${"AB"[state.pair[side]]}, which ${does} here: choose a word of it.`);
  } else if (isFrom) {
    const counted = others.reduce((sum, other) => sum + weightOf(other), 0);
    note.push(restOf(shown, unit, 1 - counted));
  } else note.push("Each weight is a part of that word's own 100 %.");
  left.append(make("p", { className: "note", id: "rest" }, ...note));
  const columns = make("div", { className: "columns" }, left);
  if (target) columns.append(isFrom ? pairGrid(unit, target) : pairGrid(target, unit));
  panel.replaceChildren(text, columns);
  setStatus(describe(state.layer, state.head));
  showLegend(most, ranked.length > 0);
}

// What the weights on show leave of 100 %.
function restOf(shown, unit, rest) {
  const special = shown.units
    .filter((other) => other.special && state.hide)
    .reduce((sum, other) => sum + shown.weight(unit.index, other.index), 0);
  const outside = shown.elsewhere[unit.index];
  const parts = [];
  if (special > 0.0005) parts.push(`${percent(special)} goes to [CLS] and [SEP], hidden here`);
  if (outside > 0.0005) parts.push(`${percent(outside)} to tokens beyond this page`);
  if (rest - special - outside > 0.0005)
    parts.push(`${percent(rest - special - outside)} to segment ${"BA"[state.pair[1]]}`);
  return parts.length ? `${parts.join("; ")}.` : "These weights sum to 100 %.";
}

// The weight of one link in every head; a cell chooses layer and head.
function pairGrid(from, to) {
  const weights = weightsOfPair(from, to);
  const most = Math.max(...weights.map((row) => Math.max(...row)));
  const grid = headGrid("values", 0, (button, layer, head) => {
    paint(button, weights[layer][head], most);
    button.title = `layer ${layer}, head ${head}: ${percent(weights[layer][head])}`;
    button.setAttribute("aria-label", button.title);
    button.addEventListener("click", () => choose({ layer, head }));
  });
  grid.id = "pair-grid";
  return make(
    "section",
    {},
    make("h2", {}, named(from), " → ", named(to), " in every head"),
    grid,
    make("p", { className: "note" }, `Layers down, heads across; the strongest has ${percent(most)}.`),
  );
}

function headGrid(className, least, fill) {
  const grid = make("div", { className: `grid ${className}` });
  grid.setAttribute("role", "group");
  grid.setAttribute("aria-label", "Layers down, heads across");
  grid.style.gridTemplateColumns = `1.4rem repeat(${data.heads}, minmax(${least}px, 1fr))`;
  grid.append(make("span", { className: "corner" }));
  for (let head = 0; head < data.heads; head++) grid.append(make("span", { className: "axis" }, String(head)));
  const buttons = [];
  for (let layer = 0; layer < data.layers; layer++) {
    grid.append(make("span", { className: "axis" }, String(layer)));
    for (let head = 0; head < data.heads; head++) {
      const button = make("button", { type: "button" });
      button.dataset.layer = layer;
      button.dataset.head = head;
      button.setAttribute("aria-pressed", layer === state.layer && head === state.head);
      fill(button, layer, head);
      buttons.push(button);
      grid.append(button);
    }
  }
  const pressed = buttons.findIndex((button) => button.getAttribute("aria-pressed") === "true");
  rove(grid, buttons, Math.max(0, pressed), data.heads);
  return grid;
}

// === Lines ===

// The units of both sides that are on show: [those that look, those that are looked at]. Of all
// tokens both sides are the same window. Between two segments each side has windows of its own, and
// every pair of them follows in turn, so that each weight can be reached.
function windowed(shown) {
  const visible = shown.units.filter(isVisible);
  const sides = [0, 1].map((side) => visible.filter((unit) => isOnSide(unit, side)));
  if (!sides.every((units) => units.length)) return null;
  const isAll = state.pair === "all";
  const [lookers, looked] = sides.map((units) => Math.ceil(units.length / WINDOW));
  const count = isAll ? lookers : lookers * looked;
  state.window = Math.max(0, Math.min(state.window, count - 1));
  const windows = isAll
    ? [state.window, state.window]
    : [Math.floor(state.window / looked), state.window % looked];
  const firsts = windows.map((window) => window * WINDOW);
  const shownUnits = sides.map((units, side) => units.slice(firsts[side], firsts[side] + WINDOW));
  const ranges = shownUnits.map(
    (units, side) => `${firsts[side] + 1} to ${firsts[side] + units.length} of ${sides[side].length}`,
  );
  byId("window-field").hidden = count === 1;
  byId("window-range").value = `${state.join ? "words" : "tokens"} ${isAll ? ranges[0] : ranges.join(" → ")}`;
  byId("window-back").disabled = state.window === 0;
  byId("window-on").disabled = state.window === count - 1;
  return shownUnits;
}

function drawLines() {
  const shown = current();
  const units = windowed(shown);
  if (!units) return nothing();
  const [fromUnits, toUnits] = units;
  const height = ROW * Math.max(fromUnits.length, toUnits.length);
  const svg = document.createElementNS("http://www.w3.org/2000/svg", "svg");
  svg.setAttribute("viewBox", `0 0 100 ${height}`);
  svg.setAttribute("preserveAspectRatio", "none");
  svg.setAttribute("aria-hidden", "true");
  svg.style.height = `${height}px`;

  const links = [];
  fromUnits.forEach((from, row) =>
    toUnits.forEach((to, column) => {
      const weight = shown.weight(from.index, to.index);
      if (weight > 0 && weight >= state.threshold / 100) links.push({ from, to, row, column, weight });
    }),
  );
  links.sort((a, b) => b.weight - a.weight);
  const columns = { left: column("left", "from", fromUnits), right: column("right", "to", toUnits) };

  function column(side, title, members) {
    const list = make("ol");
    const buttons = members.map((unit, index) => {
      const button = tokenButton(unit, { title: unit.label });
      button.dataset.token = unit.tokens[0];
      const number = make("span", { className: "number" });
      const begins = isPair && unit.segment !== members[index - 1]?.segment;
      const parts = [button, ...(begins ? [segmentName(unit.segment)] : []), number];
      const entry = make("li", {}, ...(side === "left" ? parts.reverse() : parts));
      const at = { side, token: unit.tokens[0] };
      button.addEventListener("mouseenter", () => emphasize(at));
      button.addEventListener("mouseleave", () => emphasize(state.pinned));
      button.addEventListener("focus", () => emphasize(at));
      button.addEventListener("blur", () => emphasize(state.pinned));
      button.addEventListener("click", () => {
        const same = state.pinned && state.pinned.side === side && state.pinned.token === at.token;
        state.pinned = same ? null : at;
        emphasize(state.pinned);
      });
      list.append(entry);
      return { button, number, unit };
    });
    rove(list, buttons.map((entry) => entry.button), 0);
    const element = make("div", { className: side }, make("h2", {}, title), list);
    return { element, buttons };
  }

  // All lines, or those of one token with their weights beside the other tokens.
  function emphasize(at) {
    const unit = at && shown.units[shown.unitOf[at.token]];
    const isFrom = at && at.side === "left";
    const own = unit ? links.filter((link) => (isFrom ? link.from : link.to) === unit) : links;
    const drawn = own.slice(0, MOST_LINES);
    const most = drawn.length ? drawn[0].weight : 0;
    const paths = drawn.map((link) => {
      const [y1, y2] = [(link.row + 0.5) * ROW, (link.column + 0.5) * ROW];
      const part = link.weight / most;
      const path = document.createElementNS("http://www.w3.org/2000/svg", "path");
      path.setAttribute("d", `M0,${y1}C40,${y1} 60,${y2} 100,${y2}`);
      path.setAttribute("stroke-opacity", (0.12 + 0.83 * part).toFixed(2));
      path.setAttribute("stroke-width", (0.5 + 4 * part).toFixed(2));
      return path;
    });
    svg.replaceChildren(...paths.reverse()); // the strongest on top
    for (const side of ["left", "right"])
      for (const { button, number, unit: other } of columns[side].buttons) {
        const isChosen = Boolean(unit) && at.side === side && other === unit;
        button.setAttribute("aria-pressed", isChosen);
        const weight =
          unit && at.side !== side ? shown.weight(...(isFrom ? [unit.index, other.index] : [other.index, unit.index])) : 0;
        const counts = weight > 0 && weight >= state.threshold / 100;
        number.textContent = counts ? percent(weight) : "";
        if (counts) paint(button, weight, most);
        else button.style.background = button.style.color = "";
      }
    const cut = own.length > drawn.length ? `the ${drawn.length} strongest of ${own.length}` : own.length;
    const what = unit ? [isFrom ? "from " : "to ", named(unit)] : ["in this head"];
    setStatus(`${describe(state.layer, state.head)}. Lines `, ...what, `: ${cut}.`);
  }

  const middle = make("div", { className: "middle" }, make("h2", {}, "\u00a0"), svg);
  panel.replaceChildren(
    make("div", { className: "lines", id: "lines" }, columns.left.element, middle, columns.right.element),
  );
  // What was pinned may be hidden by now: on another part of the text, or by a choice.
  const held = state.pinned && shown.units[shown.unitOf[state.pinned.token]];
  if (state.pinned && !columns[state.pinned.side].buttons.some(({ unit }) => unit === held)) state.pinned = null;
  emphasize(state.pinned);
  showLegend(0, false);
}

// === Matrix ===

function drawMatrix() {
  const shown = current();
  const units = windowed(shown);
  if (!units) return nothing();
  const [fromUnits, toUnits] = units;
  const font = "12px system-ui, sans-serif";
  const canvas = make("canvas", { id: "matrix", tabIndex: 0 });
  const frame = make("div", { className: "matrix" }, canvas);
  panel.replaceChildren(frame);
  const context = canvas.getContext("2d");
  context.font = font;
  const widest = Math.max(...units.flat().map((unit) => context.measureText(unit.label).width));
  const margin = Math.ceil(Math.min(widest, 120)) + 10;
  const cell = Math.max(13, Math.min(30, Math.floor((frame.clientWidth - margin - 2) / toUnits.length)));
  const [height, width] = units.map((side) => margin + cell * side.length + 2);
  const ratio = window.devicePixelRatio || 1;
  canvas.width = width * ratio;
  canvas.height = height * ratio;
  canvas.style.width = `${width}px`;
  canvas.style.height = `${height}px`;
  canvas.setAttribute("role", "img");
  canvas.setAttribute("aria-label", "Matrix of weights: from rows to columns; arrow keys move, the weight is read out above");

  let most = 0;
  for (const from of fromUnits)
    for (const to of toUnits) most = Math.max(most, shown.weight(from.index, to.index));
  // Where the chosen words are, as the other views know them.
  const find = (side, token) => Math.max(0, side.findIndex((unit) => unit.tokens.includes(token)));
  const cursor = { row: find(fromUnits, state.token), column: find(toUnits, state.target) };

  function draw() {
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    context.clearRect(0, 0, width, height);
    context.font = font;
    context.textBaseline = "middle";
    const middle = (index) => margin + (index + 0.5) * cell;
    fromUnits.forEach((unit, row) => label(unit.label, margin - 6, middle(row), false, row === cursor.row));
    toUnits.forEach((unit, column) => label(unit.label, middle(column), margin - 6, true, column === cursor.column));
    fromUnits.forEach((from, row) =>
      toUnits.forEach((to, column) => {
        context.fillStyle = css(shade(shown.weight(from.index, to.index), most));
        context.fillRect(margin + column * cell, margin + row * cell, cell, cell);
      }),
    );
    context.strokeStyle = colours.text;
    context.globalAlpha = 0.25;
    context.strokeRect(margin, margin, cell * toUnits.length, cell * fromUnits.length);
    context.globalAlpha = 1;
    context.strokeStyle = colours.chosen;
    context.lineWidth = 3;
    context.strokeRect(margin + cursor.column * cell, margin + cursor.row * cell, cell, cell);
    context.lineWidth = 1;
    const [from, to] = [fromUnits[cursor.row], toUnits[cursor.column]];
    const weight = percent(shown.weight(from.index, to.index));
    setStatus(named(from), " → ", named(to), `: ${weight}. ${describe(state.layer, state.head)}.`);
  }

  function label(text, x, y, upright, strong) {
    context.save();
    context.translate(x, y);
    if (upright) context.rotate(Math.PI / 2);
    context.textAlign = "right";
    context.fillStyle = strong ? colours.chosen : colours.text;
    if (strong) context.font = `bold ${font}`;
    let shownText = text;
    while (shownText.length > 1 && context.measureText(shownText).width > margin - 8)
      shownText = `${shownText.replace(/…$/, "").slice(0, -1)}…`;
    context.fillText(shownText, 0, 0);
    context.restore();
  }

  function move(row, column) {
    if (row < 0 || column < 0 || row >= fromUnits.length || column >= toUnits.length) return;
    Object.assign(cursor, { row, column });
    state.token = fromUnits[row].tokens[0];
    state.target = toUnits[column].tokens[0];
    draw();
  }

  const toCell = (event) => {
    const box = canvas.getBoundingClientRect();
    return [event.clientY - box.top, event.clientX - box.left].map((at) => Math.floor((at - margin) / cell));
  };
  canvas.addEventListener("mousemove", (event) => move(...toCell(event)));
  canvas.addEventListener("click", (event) => move(...toCell(event)));
  canvas.addEventListener("keydown", (event) => {
    const steps = { ArrowDown: [1, 0], ArrowUp: [-1, 0], ArrowRight: [0, 1], ArrowLeft: [0, -1] };
    const step = steps[event.key];
    if (!step) return;
    event.preventDefault();
    move(cursor.row + step[0], cursor.column + step[1]);
  });
  draw();
  showLegend(most, true);
}

// === All heads ===

function drawHeads() {
  // More pixels than these cannot be seen; a pixel shows the largest weight that falls into it.
  const least = data.heads > 8 ? 24 : 32;
  if (!current().units.some(isVisible)) return nothing();
  const kept = [...Array(n).keys()].filter((token) => !(state.hide && data.special[token]));
  const side = Math.min(kept.length, 64);
  const grid = headGrid("thumbnails", least, (button, layer, head) => {
    const matrix = tokenMatrix(layer, head);
    const pixels = new Float32Array(side * side);
    let most = 0;
    kept.forEach((from, row) =>
      kept.forEach((to, column) => {
        if (state.pair !== "all" && (data.segments[from] !== +state.pair[0] || data.segments[to] !== +state.pair[1])) return;
        const weight = matrix[from * (n + 1) + to];
        const at = Math.floor((row * side) / kept.length) * side + Math.floor((column * side) / kept.length);
        pixels[at] = Math.max(pixels[at], weight);
        most = Math.max(most, weight);
      }),
    );
    const canvas = make("canvas", { width: side, height: side });
    const context = canvas.getContext("2d");
    const image = context.createImageData(side, side);
    pixels.forEach((weight, index) => image.data.set([...shade(weight, most), 255], 4 * index));
    context.putImageData(image, 0, 0);
    const sentence = describe(layer, head);
    button.append(canvas);
    button.title = sentence;
    button.setAttribute("aria-label", sentence);
    for (const kind of ["mouseenter", "focus"]) button.addEventListener(kind, () => setStatus(sentence));
    button.addEventListener("click", () => choose({ layer, head, view: "lines" }));
  });
  grid.id = "heads";
  const note = "Layers down, heads across; in each, from rows to columns, the full colour is its largest weight. Choose one to open it.";
  panel.replaceChildren(make("p", { className: "note" }, note), grid);
  setStatus(`${data.layers * data.heads} heads. Point at one to see where it looks.`);
  showLegend(0, false);
}

// === The page ===

function nothing() {
  panel.replaceChildren(make("p", {}, "There is nothing to show: no tokens are here, or special ones alone, which are hidden."));
  setStatus("");
  showLegend(0, false);
}

function setStatus(...parts) {
  byId("status").replaceChildren(...parts);
}

const DRAW = { words: drawWords, lines: drawLines, matrix: drawMatrix, heads: drawHeads };

function render() {
  for (const name of VIEWS) {
    const tab = byId(`tab-${name}`);
    tab.setAttribute("aria-selected", name === state.view);
    tab.tabIndex = name === state.view ? 0 : -1;
  }
  panel.setAttribute("aria-labelledby", `tab-${state.view}`);
  for (const name of ["layer", "head", "direction", "pair", "threshold"]) byId(name).value = state[name];
  byId("join").checked = state.join;
  byId("hide").checked = state.hide;
  byId("threshold-value").value = `${state.threshold} %`;
  for (const field of document.querySelectorAll("[data-only]")) field.hidden = field.dataset.only !== state.view;
  for (const field of document.querySelectorAll(".step")) field.hidden = state.view === "heads";
  byId("join").closest(".field").hidden = state.view === "heads";
  byId("window-field").hidden = true;
  DRAW[state.view]();
}

// Changes the state and draws; where the focus was on a token, it stays on the same one.
function choose(changes, keepFocus = false) {
  const active = document.activeElement;
  const place = active && panel.contains(active) ? active.closest("[id]")?.id : null;
  const focused = place && { place, ...active.dataset };
  if (changes.head !== undefined && changes.head !== MEAN) state.lastHead = changes.head;
  Object.assign(state, changes);
  render();
  if (!focused) return;
  const key = ["token", "layer"].find((name) => focused[name] !== undefined);
  const group = byId(focused.place);
  if (!group) return panel.focus();
  const same = [...group.querySelectorAll("button")].find((button) =>
    key === "layer"
      ? button.dataset.layer === focused.layer && button.dataset.head === focused.head
      : button.dataset.token === focused[key],
  );
  (same ?? (group.tabIndex >= 0 ? group : panel)).focus({ preventScroll: true });
}

function step(kind, by) {
  const count = data[`${kind}s`];
  // The mean stands behind the last: 0, 1, ..., mean, 0.
  const now = state[kind] === MEAN ? count : state[kind];
  const next = (now + by + count + 1) % (count + 1);
  choose({ [kind]: next === count ? MEAN : next });
}

function pageBy(by) {
  if (byId("window-field").hidden) return;
  choose({ window: state.window + by });
}

const KEYS = {
  j: () => step("layer", 1),
  k: () => step("layer", -1),
  l: () => step("head", 1),
  h: () => step("head", -1),
  m: () => choose({ head: state.head === MEAN ? state.lastHead : MEAN }),
  w: () => choose({ join: !state.join }),
  s: () => choose({ hide: !state.hide }),
  p: () => pageBy(-1),
  n: () => pageBy(1),
};
VIEWS.forEach((view, index) => (KEYS[index + 1] = () => choose({ view })));

function connect() {
  for (const kind of ["layer", "head"]) {
    const select = byId(kind);
    for (let index = 0; index < data[`${kind}s`]; index++) select.append(new Option(String(index), index));
    select.append(new Option("mean", MEAN));
    select.addEventListener("change", () => choose({ [kind]: select.value === MEAN ? MEAN : Number(select.value) }));
  }
  for (const field of document.querySelectorAll(".step"))
    for (const button of field.querySelectorAll("button"))
      button.addEventListener("click", () => step(field.dataset.for, Number(button.dataset.step)));
  byId("direction").addEventListener("change", () => choose({ direction: byId("direction").value }));
  byId("pair").addEventListener("change", () => choose({ pair: byId("pair").value, window: 0 }));
  byId("threshold").addEventListener("input", () => choose({ threshold: Number(byId("threshold").value) }));
  for (const name of ["join", "hide"]) byId(name).addEventListener("change", () => choose({ [name]: byId(name).checked }));
  byId("window-back").addEventListener("click", () => pageBy(-1));
  byId("window-on").addEventListener("click", () => pageBy(1));
  byId("controls").addEventListener("submit", (event) => event.preventDefault());
  const tabs = VIEWS.map((view) => byId(`tab-${view}`));
  for (const tab of tabs) tab.addEventListener("click", () => choose({ view: tab.dataset.view }));
  rove(document.querySelector(".tabs"), tabs, 0, 1, true);
  document.addEventListener("keydown", (event) => {
    // In a list of options, keys choose among these.
    const isList = event.target.tagName === "SELECT";
    if (event.ctrlKey || event.metaKey || event.altKey || isList || !KEYS[event.key]) return;
    event.preventDefault();
    KEYS[event.key]();
  });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => {
    readColours();
    render();
  });
  let width = innerWidth;
  addEventListener("resize", () => {
    if (innerWidth !== width) {
      width = innerWidth;
      render();
    }
  });
}

async function start() {
  const parts = [data.model, `${data.layers} layers × ${data.heads} heads`];
  parts.push(n < data.total ? `tokens ${data.start + 1} to ${data.start + n} of ${data.total}` : `${n} tokens`);
  if (data.cutPieces) parts.push(`${data.cutPieces} more pieces did not fit the model`);
  byId("about").textContent = parts.join(" · ");
  byId("pair-field").hidden = !isPair;
  readColours();
  try {
    bytes = await decode();
  } catch (error) {
    panel.textContent = `This browser cannot unpack the weights (${error}): use one of 2023 or newer.`;
    return;
  }
  connect();
  render();
  document.documentElement.dataset.ready = "true";
}

start();
