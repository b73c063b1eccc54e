"use strict";
// Nothing of a document becomes HTML: only text.

const LISTED = 100; // documents found that are listed
const REACH = 12; // pixels from a point at which it is shown
const FAR = 0.01; // share of the points that the first view may leave out at each side
const NARROW = 600; // pixels of a map below which a cluster is named by its first term only
const LEAST_ZOOM = 0.5, MOST_ZOOM = 200;
const $ = (id) => document.getElementById(id);
const canvas = $("map"), paint = canvas.getContext("2d");
const view = { zoom: 1, x: 0.5, y: 0.5, width: 1, height: 1 };
const state = { colouring: null, groups: [], marked: null, only: null, chosen: -1, due: false };
let data, xs, ys, hay, centres; // hay: the lower-case text of each document, for searches

/** Create an element with children: elements, or strings, which become text. */
function element(name, attributes = {}, ...children) {
  const node = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value);
  node.append(...children);
  return node;
}

async function start() {
  const bytes = Uint8Array.from(atob($("data").textContent), (letter) => letter.charCodeAt(0));
  const unpacked = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
  data = await new Response(unpacked).json();
  $("data").remove();
  xs = Float32Array.from(data.x, (x) => x / data.steps);
  ys = Float32Array.from(data.y, (y) => 1 - y / data.steps);
  hay = data.ids.map((id, i) => `${id} ${data.titles[i]} ${data.texts[i]}`.toLowerCase());
  centres = data.clusters.labels.map((_, code) => centre(code));
  const shown = xs.length.toLocaleString(), all = data.total.toLocaleString();
  $("count").textContent = xs.length < data.total ? `${shown} of ${all} documents` : `${all} documents`;
  const choices = [data.clusters, ...data.columns];
  $("colour").append(...choices.map((choice, i) => element("option", { value: i }, choice.name)));
  $("colour").addEventListener("change", () => colourBy(choices[$("colour").value]));
  new ResizeObserver(fit).observe($("stage"));
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => colourBy(state.colouring));
  colourBy(data.clusters);
  reset();
  document.body.dataset.ready = "true";
}

// ---- drawing ----------------------------------------------------------------------------------

const style = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

function colourOf(colouring, code) {
  const dark = matchMedia("(prefers-color-scheme: dark)").matches;
  if (["other values", "no value"].includes(colouring.labels[code]) && colouring !== data.clusters) {
    return style("--edge");
  }
  if (colouring.ordered) {
    const part = code / Math.max(colouring.labels.length - 1, 1);
    return `hsl(${50 + 200 * part} 75% ${dark ? 75 - 20 * part : 45 - 15 * part}%)`;
  }
  return `hsl(${(code * 137.5 + 210) % 360} 65% ${(dark ? 66 : 42) + (code % 3) * 5}%)`;
}

function colourBy(colouring) {
  state.colouring = colouring;
  state.groups = colouring.labels.map(() => []);
  colouring.codes.forEach((code, i) => state.groups[code].push(i));
  pick(null);
  $("legend").replaceChildren(...colouring.labels.map((label, code) => {
    const swatch = element("span", { class: "swatch" });
    swatch.style.background = colourOf(colouring, code);
    const number = element("span", { class: "number" }, state.groups[code].length.toLocaleString());
    const button = element("button", { type: "button", "aria-pressed": "false" }, swatch, label, number);
    button.addEventListener("click", () => pick(state.only === code ? null : code));
    return element("li", {}, button);
  }));
}

/** Show the points of one code in colour and dim all others; null shows all. */
function pick(code) {
  state.only = code;
  [...$("legend").querySelectorAll("button")].forEach((button, i) => {
    button.setAttribute("aria-pressed", String(i === code));
  });
  draw();
}

/** Fit the canvas to its place on the page. */
function fit() {
  const sharp = devicePixelRatio || 1;
  view.width = $("stage").clientWidth;
  view.height = $("stage").clientHeight;
  canvas.width = view.width * sharp;
  canvas.height = view.height * sharp;
  paint.setTransform(sharp, 0, 0, sharp, 0, 0);
  draw();
}

const scale = () => 0.94 * Math.min(view.width, view.height) * view.zoom;
const across = (i) => (xs[i] - view.x) * scale() + view.width / 2;
const down = (i) => (ys[i] - view.y) * scale() + view.height / 2;

/** Draw the map in the next frame, once for any number of calls until then. */
function draw() {
  if (state.due || !data) return;
  state.due = true;
  requestAnimationFrame(() => {
    state.due = false;
    paint.clearRect(0, 0, view.width, view.height);
    const size = Math.min(7, Math.max(1.6, 220 / Math.sqrt(xs.length)) * Math.min(3, view.zoom ** 0.4));
    const lit = (i) => !state.marked || state.marked[i];
    const isDim = (code) => state.only !== null && state.only !== code;
    // The dim points first, so that the others lie on top.
    const dim = state.groups.flatMap((group, code) => (isDim(code) ? group : group.filter((i) => !lit(i))));
    points(dim, style("--dim"), size);
    state.groups.forEach((group, code) => {
      if (!isDim(code)) points(state.marked ? group.filter(lit) : group, colourOf(state.colouring, code), size);
    });
    labels();
    if (state.chosen >= 0) ring(state.chosen, size);
  });
}

/** Draw some points that are in view: circles, or squares if they are tiny. */
function points(chosen, colour, size) {
  const by = scale(), left = view.width / 2 - view.x * by, top = view.height / 2 - view.y * by;
  const isRound = size > 2.5;
  paint.fillStyle = colour;
  for (const i of chosen) {
    const x = xs[i] * by + left, y = ys[i] * by + top;
    if (x < -size || y < -size || x > view.width + size || y > view.height + size) continue;
    if (!isRound) {
      paint.fillRect(x - size / 2, y - size / 2, size, size);
      continue;
    }
    paint.beginPath();
    paint.arc(x, y, size / 2, 0, 7);
    paint.fill();
  }
}

function ring(i, size) {
  paint.beginPath();
  paint.arc(across(i), down(i), size / 2 + 4, 0, 7);
  paint.lineWidth = 2;
  paint.strokeStyle = style("--ink");
  paint.stroke();
}

/** The median of a cluster's points; null if it has none. */
function centre(code) {
  const members = data.clusters.codes.flatMap((other, i) => (other === code ? [i] : []));
  const median = (values) => Float32Array.from(members, (i) => values[i]).sort()[members.length >> 1];
  return members.length ? [median(xs), median(ys)] : null;
}

/** Write the names of the clusters, largest first, leaving out those that would overlap. */
function labels() {
  const by = scale(), taken = [], height = 16;
  paint.font = "600 13px system-ui, sans-serif";
  paint.textAlign = "center";
  paint.lineJoin = "round";
  paint.lineWidth = 4;
  paint.strokeStyle = style("--paper");
  paint.fillStyle = style("--ink");
  centres.forEach((place, code) => {
    if (!place) return;
    const x = (place[0] - view.x) * by + view.width / 2, y = (place[1] - view.y) * by + view.height / 2;
    const label = data.clusters.labels[code], name = view.width < NARROW ? label.split(", ")[0] : label;
    const half = paint.measureText(name).width / 2 + 4;
    const meets = (other) => Math.abs(other.x - x) < other.half + half && Math.abs(other.y - y) < height;
    if (x < half || x > view.width - half || y < height || y > view.height - 8 || taken.some(meets)) return;
    taken.push({ x, y, half });
    paint.strokeText(name, x, y);
    paint.fillText(name, x, y);
  });
}

// ---- one document -----------------------------------------------------------------------------

/** Show the document of this number beside its point; -1 shows none. */
function show(i) {
  state.chosen = i;
  $("tip").hidden = i < 0;
  draw();
  if (i < 0) return;
  const title = data.titles[i] || data.ids[i];
  const columns = [data.clusters, ...data.columns].map((column) => `${column.name}: ${column.labels[column.codes[i]]}`);
  const facts = data.titles[i] && data.titles[i] !== data.ids[i] ? [data.ids[i], ...columns] : columns;
  $("tip").replaceChildren(
    element("strong", {}, title),
    element("span", { class: "quiet" }, facts.join(" · ")),
    element("div", {}, data.texts[i]),
  );
  const x = across(i), y = down(i), box = $("tip").getBoundingClientRect();
  $("tip").style.left = `${Math.max(4, Math.min(x + 12, view.width - box.width - 4))}px`;
  const isBelow = y + 12 + box.height < $("zoom").offsetTop; // so that it covers no button
  $("tip").style.top = `${isBelow ? y + 12 : Math.max(4, y - 12 - box.height)}px`;
}

/** The number of the point nearest to a place on the stage; -1 if none is within reach. */
function nearest(x, y) {
  const by = scale(), left = view.width / 2 - view.x * by, top = view.height / 2 - view.y * by;
  let best = -1, least = REACH * REACH;
  for (let i = 0; i < xs.length; i++) {
    const far = (xs[i] * by + left - x) ** 2 + (ys[i] * by + top - y) ** 2;
    if (far < least && (!state.marked || state.marked[i])) [best, least] = [i, far];
  }
  return best;
}

// ---- searching --------------------------------------------------------------------------------

/** Mark and list the documents that contain all words of the query. */
function search() {
  const words = $("query").value.toLowerCase().split(/\s+/).filter(Boolean);
  state.marked = words.length ? hay.map((text) => words.every((word) => text.includes(word))) : null;
  const matches = state.marked ? hay.flatMap((_, i) => (state.marked[i] ? [i] : [])) : [];
  show(-1);
  const listed = matches.length > LISTED ? `, ${LISTED} listed` : "";
  $("found").textContent = state.marked ? `${matches.length.toLocaleString()} found${listed}` : "";
  $("hits").replaceChildren(...matches.slice(0, LISTED).map((i) => {
    const button = element("button", { type: "button" }, data.titles[i] || data.ids[i]);
    button.addEventListener("click", () => {
      view.zoom = Math.max(view.zoom, 4);
      [view.x, view.y] = [xs[i], ys[i]];
      show(i);
    });
    return element("li", {}, button);
  }));
}

// ---- moving -----------------------------------------------------------------------------------

/** The middle of the map, with few far points beyond its edges. */
function reset() {
  const [left, right] = range(xs), [top, bottom] = range(ys);
  Object.assign(view, { zoom: 1, x: (left + right) / 2, y: (top + bottom) / 2 });
  view.zoom = Math.min(view.width / (right - left), view.height / (bottom - top), MOST_ZOOM * scale()) / scale();
  show(-1);
}

/** Where all but a few points begin and end, and some space. */
function range(values) {
  const sorted = Float32Array.from(values).sort(), few = Math.floor(sorted.length * FAR);
  const low = sorted[few], high = sorted[sorted.length - 1 - few], space = 0.06 * (high - low) + 0.001;
  return [low - space, high + space];
}

/** Zoom around a place of the stage, which stays where it is. */
function zoom(by, x = view.width / 2, y = view.height / 2) {
  const before = scale();
  view.zoom = Math.min(MOST_ZOOM, Math.max(LEAST_ZOOM, view.zoom * by));
  const change = 1 / before - 1 / scale();
  view.x += (x - view.width / 2) * change;
  view.y += (y - view.height / 2) * change;
  show(-1);
}

const pointers = new Map();
let moved = 0;

/** Position of a pointer on the stage, in pixels. */
function place(event) {
  const box = canvas.getBoundingClientRect();
  return { x: event.clientX - box.left, y: event.clientY - box.top };
}

canvas.addEventListener("pointerdown", (event) => {
  canvas.setPointerCapture(event.pointerId);
  pointers.set(event.pointerId, place(event));
  moved = 0;
});
canvas.addEventListener("pointermove", (event) => {
  if (!data) return;
  const to = place(event), from = pointers.get(event.pointerId);
  if (!from) {
    const i = nearest(to.x, to.y);
    if (i !== state.chosen) show(i);
    return;
  }
  // With a second finger, zoom around it; otherwise move the map.
  const other = [...pointers].find(([id]) => id !== event.pointerId)?.[1];
  if (other) {
    const wide = (point) => Math.hypot(point.x - other.x, point.y - other.y) || 1;
    zoom(wide(to) / wide(from), other.x, other.y);
  } else {
    view.x -= (to.x - from.x) / scale();
    view.y -= (to.y - from.y) / scale();
  }
  moved += Math.hypot(to.x - from.x, to.y - from.y);
  pointers.set(event.pointerId, to);
  if (moved > 4) show(-1);
});
canvas.addEventListener("pointerup", (event) => {
  pointers.delete(event.pointerId);
  const at = place(event);
  if (moved <= 4) show(nearest(at.x, at.y));
});
canvas.addEventListener("pointercancel", (event) => pointers.delete(event.pointerId));
canvas.addEventListener("pointerleave", (event) => {
  if (event.pointerType === "mouse" && !pointers.size) show(-1); // a finger leaves after each tap
});
canvas.addEventListener("wheel", (event) => {
  event.preventDefault();
  const at = place(event);
  zoom(Math.exp(-event.deltaY / 400), at.x, at.y);
}, { passive: false });
$("nearer").addEventListener("click", () => zoom(1.6));
$("farther").addEventListener("click", () => zoom(1 / 1.6));
$("reset").addEventListener("click", reset);
$("query").addEventListener("input", search);
$("search").addEventListener("submit", (event) => event.preventDefault());
document.addEventListener("keydown", (event) => event.key === "Escape" && show(-1));

start();
