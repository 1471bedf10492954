"use strict";

// The map of texts. A point is an index into the lists of `data`; a label below 0 is no cluster.

const data = JSON.parse(document.getElementById("data").textContent);
const byId = (id) => document.getElementById(id);
const canvas = byId("map");
const context = canvas.getContext("2d");
const shapes = data.shapes.map((path) => new Path2D(path));
const buttons = [...document.querySelectorAll("[data-cluster]")];
const MARGIN = 18;
const NEAR = 14; // how far from a point the pointer finds it, in pixels
const MOST_LISTED = 100;
const MOST_NUMBERED = 40; // more numbers of clusters would hide the points

// What is chosen: a cluster, and a point that is held; `over` is the point under the pointer.
const state = { cluster: -1, held: -1, over: -1 };
let places = []; // of each point, [x, y] in pixels
let size = [0, 0];
let colours = {};

function make(kind, attributes, ...children) {
  const element = Object.assign(document.createElement(kind), attributes);
  element.append(...children);
  return element;
}

function readColours() {
  const style = getComputedStyle(document.documentElement);
  const value = (name) => style.getPropertyValue(name).trim();
  colours = { page: value("--page"), text: value("--text"), none: value("--c10") };
  colours.clusters = data.colors.map((color) => value(`--c${color}`));
}

function nameOf(cluster) {
  return cluster < 0 ? "in no cluster" : `${cluster}: ${data.names[cluster] || "(no words of its own)"}`;
}

// === Map ===

function layOut() {
  const width = byId("frame").clientWidth;
  const spanX = Math.max(1, ...data.x), spanY = Math.max(1, ...data.y);
  const scale = (width - 2 * MARGIN) / spanX;
  const height = Math.round(Math.min(Math.max(spanY * scale + 2 * MARGIN, 220), 640));
  const step = Math.min(scale, (height - 2 * MARGIN) / spanY);
  const left = (width - spanX * step) / 2, top = (height - spanY * step) / 2;
  places = data.x.map((x, point) => [left + x * step, height - top - data.y[point] * step]);
  size = [width, height];
  const ratio = window.devicePixelRatio || 1;
  canvas.width = width * ratio;
  canvas.height = height * ratio;
  canvas.style.width = `${width}px`;
  canvas.style.height = `${height}px`;
}

function drawPoint(point, factor) {
  const [x, y] = places[point];
  const label = data.labels[point];
  context.save();
  context.translate(x, y);
  context.scale(factor, factor);
  if (label < 0) {
    context.fillStyle = colours.none;
    context.fillRect(-2.5, -2.5, 5, 5);
  } else {
    context.fillStyle = colours.clusters[label];
    context.fill(shapes[label]);
  }
  context.restore();
}

function draw() {
  const ratio = window.devicePixelRatio || 1;
  context.setTransform(ratio, 0, 0, ratio, 0, 0);
  context.clearRect(0, 0, ...size);
  const factor = (places.length > 1500 ? 0.55 : 0.8) * (size[0] < 500 ? 0.7 : 1);
  const isChosen = (point) => state.cluster < 0 || data.labels[point] === state.cluster;
  const order = [...places.keys()];
  // What is in no cluster lies below, what is chosen above all others.
  const depth = (point) => (data.labels[point] < 0 ? 0 : 1) + (isChosen(point) ? 2 : 0);
  order.sort((one, other) => depth(one) - depth(other) || one - other);
  for (const point of order) {
    context.globalAlpha = isChosen(point) ? 0.8 : 0.12;
    drawPoint(point, factor);
  }
  context.globalAlpha = 1;
  drawNumbers();
  for (const point of new Set([state.held, state.over]))
    if (point >= 0) {
      drawPoint(point, 1.3);
      context.strokeStyle = colours.text;
      context.lineWidth = 2;
      context.beginPath();
      context.arc(...places[point], 11, 0, 2 * Math.PI);
      context.stroke();
    }
}

// The number of each cluster, in the middle of its points.
function drawNumbers() {
  const sums = data.names.map(() => [0, 0, 0]);
  data.labels.forEach((label, point) => {
    if (label < 0) return;
    const [x, y] = places[point];
    sums[label][0] += x;
    sums[label][1] += y;
    sums[label][2] += 1;
  });
  context.font = "bold 13px system-ui, sans-serif";
  context.textAlign = "center";
  context.textBaseline = "middle";
  context.lineJoin = "round";
  sums.forEach(([x, y, count], cluster) => {
    const isShown = state.cluster < 0 ? cluster < MOST_NUMBERED : cluster === state.cluster;
    if (!count || !isShown) return;
    context.lineWidth = 4;
    context.strokeStyle = colours.page;
    context.strokeText(cluster, x / count, y / count);
    context.fillStyle = colours.text;
    context.fillText(cluster, x / count, y / count);
  });
}

function nearest(event) {
  const box = canvas.getBoundingClientRect();
  const [x, y] = [event.clientX - box.left, event.clientY - box.top];
  let best = -1, least = NEAR * NEAR;
  places.forEach(([px, py], point) => {
    if (state.cluster >= 0 && data.labels[point] !== state.cluster) return;
    const distance = (px - x) ** 2 + (py - y) ** 2;
    if (distance < least) [best, least] = [point, distance];
  });
  return best;
}

// === Texts ===

function showText() {
  const point = state.over >= 0 ? state.over : state.held;
  if (point < 0) {
    const note = "Point at the map to read a text; click to keep it.";
    byId("text").replaceChildren(make("p", { className: "note" }, note));
    return;
  }
  const label = data.labels[point];
  const told = [`Text ${data.numbers[point]}, ${label < 0 ? "" : "cluster "}${nameOf(label)}`];
  if (label >= 0) told.push(`, similarity ${data.similarities[point].toFixed(3)}`);
  byId("text").replaceChildren(
    make("p", { className: "note" }, ...told),
    make("p", { dir: "auto" }, data.texts[point]),
  );
}

function listMembers() {
  const cluster = state.cluster;
  byId("members").hidden = cluster < 0;
  if (cluster < 0) return;
  const points = [...places.keys()].filter((point) => data.labels[point] === cluster);
  points.sort((one, other) => data.similarities[other] - data.similarities[one] || one - other);
  const listed = points.slice(0, MOST_LISTED);
  byId("members-heading").textContent = `Cluster ${nameOf(cluster)}`;
  const all = data.sizes[cluster];
  byId("members-note").textContent =
    listed.length < all
      ? `${listed.length} of its ${all} texts: of those on the map the nearest to its centre.`
      : `${all} texts, the nearest to its centre first.`;
  byId("members-list").replaceChildren(
    ...listed.map((point) => {
      const button = make(
        "button",
        { type: "button" },
        make("span", { className: "count" }, data.similarities[point].toFixed(3)),
        make("span", { className: "words", dir: "auto" }, data.texts[point]),
      );
      button.dataset.point = point;
      button.setAttribute("aria-pressed", "false");
      button.addEventListener("click", () => hold(state.held === point ? -1 : point));
      return make("li", {}, button);
    }),
  );
}

// === The page ===

function hold(point) {
  state.held = point;
  for (const button of byId("members-list").querySelectorAll("button"))
    button.setAttribute("aria-pressed", Number(button.dataset.point) === point);
  showText();
  draw();
}

function chooseCluster(cluster) {
  state.cluster = cluster;
  state.over = -1;
  for (const button of buttons)
    button.setAttribute("aria-pressed", Number(button.dataset.cluster) === cluster);
  listMembers();
  // A text that is held is of the cluster that is chosen.
  hold(cluster < 0 || data.labels[state.held] === cluster ? state.held : -1);
}

function connect() {
  for (const button of buttons)
    button.addEventListener("click", () => {
      const cluster = Number(button.dataset.cluster);
      chooseCluster(cluster === state.cluster ? -1 : cluster);
    });
  canvas.addEventListener("mousemove", (event) => {
    const point = nearest(event);
    if (point === state.over) return;
    state.over = point;
    showText();
    draw();
  });
  canvas.addEventListener("mouseleave", () => {
    state.over = -1;
    showText();
    draw();
  });
  canvas.addEventListener("click", (event) => hold(nearest(event)));
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => {
    readColours();
    draw();
  });
  addEventListener("resize", () => {
    layOut();
    draw();
  });
}

readColours();
layOut();
connect();
showText();
draw();
document.documentElement.dataset.ready = "true";
