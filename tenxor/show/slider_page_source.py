"""The source of a self-contained HTML page whose sliders map an index to its storage cell."""

from __future__ import annotations


def build_page_source(heading: str, storage_text: str, explanation: str, data: str) -> str:
    """Return the HTML page. `heading`, `storage_text` and `explanation` must be escaped; `explanation` is the layout in words.

    `data` is JSON for the page's script, and must be safe in a script element.
    """
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{heading}</title>
<style>{_STYLE}</style>
</head>
<body>
<main>
<svg id="thread" aria-hidden="true"><path/></svg>
<header><h1>{heading}</h1><p>{storage_text}</p></header>
<section id="sliders" aria-label="index"></section>
<section id="formula" aria-live="polite"></section>
<section><h2>tensor</h2><div id="tensor"></div></section>
<section><h2>storage</h2><div id="storage"></div></section>
<details><summary>the layout in words</summary><pre>{explanation}</pre></details>
<noscript>The sliders need JavaScript.</noscript>
</main>
<script type="application/json" id="data">{data}</script>
<script>{_SCRIPT}</script>
</body>
</html>
"""


_STYLE = """
:root {
  color-scheme: light dark;
  --paper: #ffffff; --ground: #f4f6fa; --ink: #1c2434; --muted: #667085; --border: #dfe3ea; --unused: #f2f4f7;
  --lit: #d6336c; --lightness: 88.5%; --chroma: 0.072;
}
@media (prefers-color-scheme: dark) {
  :root {
    --paper: #171c26; --ground: #0e1218; --ink: #e7eaf0; --muted: #98a2b3; --border: #2c3442;
    --unused: #1e2530; --lit: #e64980; --lightness: 40%; --chroma: 0.065;
  }
}
* { box-sizing: border-box; }
body {
  margin: 0; padding: 20px; background: var(--ground); color: var(--ink);
  font: 14px/1.45 Inter, system-ui, "Segoe UI", Roboto, Arial, sans-serif;
}
main {
  position: relative; max-width: 1080px; margin: auto; padding: 22px 28px; isolation: isolate;
  background: var(--paper); border: 1px solid var(--border); border-radius: 14px;
}
h1 { margin: 0; font-size: 19px; }
h2 { margin: 0 0 8px; font-size: 13px; font-weight: 600; color: var(--muted); }
header p { margin: 2px 0 0; color: var(--muted); }
section { margin-top: 22px; }
header p, pre, output, .box, .line, .place, button {
  font-family: ui-monospace, Menlo, Consolas, "DejaVu Sans Mono", monospace;
}
#sliders { display: grid; grid-template-columns: auto 1fr auto; gap: 8px 14px; align-items: center; }
#sliders label { font-weight: 600; }
#sliders output { min-width: 11ch; text-align: right; }
input[type=range] { width: 100%; margin: 0; accent-color: var(--axis, var(--lit)); }
button {
  padding: 2px 10px; color: var(--ink); background: var(--unused); border: 1px solid var(--border);
  border-radius: 6px; cursor: pointer;
}
#formula { padding: 12px 16px; background: var(--unused); border-radius: 10px; overflow-x: auto; }
.line { white-space: pre; font-size: 15px; }
.line b { color: var(--lit); }
.line .quiet { color: var(--muted); }
.axis { color: var(--axis); font-weight: 600; }
#tensor { display: flex; gap: 30px; }
.place { margin-bottom: 4px; color: var(--muted); font-size: 12px; }
.grid { display: grid; gap: 3px; justify-content: start; }
#storage { display: flex; gap: 3px; }
.box {
  min-width: var(--box); padding: 6px 7px; text-align: center; font-size: 12.5px; line-height: 18px;
  border-radius: 6px;
  background: var(--unused); color: var(--ink);
}
.box.used { background: oklch(var(--lightness) var(--chroma) var(--hue)); }
button.box { border: 0; }
.box small { display: block; font-size: 10px; line-height: 12px; color: var(--muted); }
.box.used small { color: inherit; opacity: 0.7; }
.box.lit { background: var(--lit); color: #fff; box-shadow: 0 0 0 2px var(--paper), 0 0 0 4px var(--lit); }
.gap { align-self: center; min-width: 20px; text-align: center; color: var(--muted); }
#thread { position: absolute; inset: 0; width: 100%; height: 100%; z-index: -1; pointer-events: none; }
#thread path { fill: none; stroke: var(--lit); stroke-width: 2; stroke-dasharray: 5 4; }
details { margin-top: 22px; color: var(--muted); }
pre { overflow-x: auto; color: var(--ink); }
"""

_SCRIPT = r"""
"use strict";
const data = JSON.parse(document.getElementById("data").textContent);
const ndim = data.shape.length;
const size = data.cells.length;
const names = data.shape.map((_, axis) => (axis < 13 ? "ijklmnpqrstuv"[axis] : "i" + axis));
const axisColour = axis => `oklch(62% 0.17 ${(255 + axis * 97) % 360})`;
const used = [...new Set(data.cells)].sort((a, b) => a - b);
const rank = new Map(used.map((cell, place) => [cell, place]));
const labelOf = new Map(data.cells.map((cell, number) => [cell, data.labels[number]]));
let index = data.shape.map(() => 0);
let timer = null;

// The room that a box takes, with the space after it: labels are monospaced.
const boxWidth = 3 + Math.max(38, 14 + 7.7 * data.labels.reduce(
  (most, label) => Math.max(most, label.length), String(data.storage).length));
const room = () => document.getElementById("storage").clientWidth;
const boxesAcross = () => Math.max(3, Math.floor((room() - 46) / boxWidth));

function make(tag, className = "", text = "") {
  const node = document.createElement(tag);
  node.className = className;
  node.textContent = text;
  return node;
}

function numberOf(at) { return at.reduce((sum, position, axis) => sum * data.shape[axis] + position, 0); }

function digits(number, shape) {
  const at = [];
  for (let axis = shape.length - 1; axis >= 0; axis--) {
    at[axis] = number % shape[axis];
    number = Math.floor(number / shape[axis]);
  }
  return at;
}

// At most `room` of `count` positions, those around `at`; null stands for what is left out.
function around(count, at, room) {
  const start = Math.max(0, Math.min(at - Math.floor(room / 2), count - room));
  const shown = [];
  for (let p = start; p < Math.min(count, start + room); p++) shown.push(p);
  return [...(start > 0 ? [null] : []), ...shown, ...(start + room < count ? [null] : [])];
}

function paint(box, cell) {
  if (!rank.has(cell)) return;
  box.classList.add("used");
  box.style.setProperty("--hue", 275 - (235 * rank.get(cell)) / Math.max(used.length - 1, 1));
}

function go(to) { index = to; show(); }

const steps = [];

function addSlider(text, last, colour, read, move) {
  const label = make("label", "", text);
  const range = make("input");
  Object.assign(range, { type: "range", min: 0, max: last, step: 1, id: "slider" + steps.length });
  label.htmlFor = range.id;
  if (colour) range.style.setProperty("--axis", colour);
  if (colour) label.style.color = colour;
  const output = make("output");
  range.addEventListener("input", () => { stop(); move(Number(range.value)); });
  document.getElementById("sliders").append(label, range, output);
  steps.push(() => {
    range.value = read();
    output.textContent = `${read()} of 0…${last}`;
  });
}

function addSliders() {
  data.shape.forEach((count, axis) => addSlider(
    `axis ${axis} · ${names[axis]}`, count - 1, axisColour(axis), () => index[axis],
    value => go(index.map((position, a) => (a === axis ? value : position)))));
  addSlider("every element", size - 1, null, () => numberOf(index), value => go(digits(value, data.shape)));
  const play = make("button", "", "▶ walk");
  play.id = "play";
  play.addEventListener("click", () => {
    if (timer) return stop();
    timer = setInterval(() => go(digits((numberOf(index) + 1) % size, data.shape)), 700);
    play.textContent = "❚❚ stop";
  });
  document.getElementById("sliders").append(play);
}

function stop() {
  clearInterval(timer);
  timer = null;
  document.getElementById("play").textContent = "▶ walk";
}

function coloured(line, axis, text) {
  const span = make("span", "axis", text);
  span.style.setProperty("--axis", axisColour(axis));
  line.append(span);
}

function showFormula() {
  const box = document.getElementById("formula");
  const cell = data.cells[numberOf(index)];
  const target = data.base ? "number" : "cell";
  const words = make("div", "line quiet", "");
  const numbers = make("div", "line", "");
  words.append(`${target} = offset`);
  numbers.append(`${" ".repeat(target.length)} = ${data.offset}`);
  let sum = data.offset;
  data.terms.forEach((term, axis) => {
    const table = Array.isArray(term);
    words.append(" + ");
    coloured(words, axis, table ? `table${axis}[${names[axis]}]` : `${names[axis]}·stride${axis}`);
    numbers.append(" + ");
    const step = table ? term[index[axis]] : term;
    const written = step < 0 ? `(${step})` : `${step}`;
    coloured(numbers, axis, table ? written : `${index[axis]}·${written}`);
    sum += table ? step : index[axis] * step;
  });
  if (ndim) numbers.append(" = ", data.base ? String(sum) : make("b", "", String(sum)));
  box.replaceChildren(words, numbers);
  if (data.base) {
    const chain = make("div", "line", "");
    const inner = digits(sum, data.base).join(", ");
    chain.append(`number ${sum} of shape (${data.base.join(", ")}) is [${inner}], in cell `);
    chain.append(make("b", "", String(cell)));
    box.append(chain);
  }
}

function grid(prefix) {
  const inner = index.slice(prefix.length);
  const rows = inner.length > 1 ? around(data.shape[ndim - 2], inner[0], 9) : [-1];
  const across = Math.min(boxesAcross(), 12);
  const columns = ndim ? around(data.shape[ndim - 1], index[ndim - 1], across) : [-1];
  const node = make("div", "grid");
  node.style.gridTemplateColumns = `repeat(${columns.length}, auto)`;
  for (const row of rows) for (const column of columns) {
    if (row === null || column === null) { node.append(make("div", "gap", "…")); continue; }
    const at = [...prefix, row, column].filter(position => position >= 0);
    const number = numberOf(at);
    const box = make("button", "box", data.labels[number]);
    box.title = `[${at.join(", ")}] in cell ${data.cells[number]}`;
    box.dataset.index = at.join(",");
    paint(box, data.cells[number]);
    box.classList.toggle("lit", number === numberOf(index));
    box.addEventListener("click", () => { stop(); go(at); });
    node.append(box);
  }
  return node;
}

function showTensor() {
  const outer = data.shape.slice(0, Math.max(ndim - 2, 0));
  const count = outer.reduce((product, n) => product * n, 1);
  const here = index.slice(0, outer.length).reduce((sum, p, axis) => sum * outer[axis] + p, 0);
  const columns = Math.min(data.shape[ndim - 1] ?? 1, 12);
  const across = Math.max(1, Math.floor((room() - 100) / (columns * boxWidth + 30)));
  const blocks = around(count, here, across).map(number => {
    if (number === null) return make("div", "gap", "…");
    const prefix = digits(number, outer);
    const block = make("div");
    if (outer.length) block.append(make("div", "place", `[${[...prefix, ":", ":"].join(", ")}]`));
    block.append(grid(prefix));
    return block;
  });
  document.getElementById("tensor").replaceChildren(...blocks);
}

function showStorage() {
  const lit = data.cells[numberOf(index)];
  const boxes = around(data.storage, lit, boxesAcross()).map(cell => {
    if (cell === null) return make("div", "gap", "…");
    const box = make("div", "box");
    box.append(make("small", "", String(cell)), labelOf.get(cell) ?? "·");
    box.dataset.cell = cell;
    paint(box, cell);
    box.classList.toggle("lit", cell === lit);
    return box;
  });
  document.getElementById("storage").replaceChildren(...boxes);
}

function showThread() {
  const frame = document.querySelector("main").getBoundingClientRect();
  const [from, to] = ["#tensor .lit", "#storage .lit"].map(
    lit => document.querySelector(lit).getBoundingClientRect());
  const x0 = from.x + from.width / 2 - frame.x, y0 = from.bottom - frame.y;
  const x1 = to.x + to.width / 2 - frame.x, y1 = to.y - frame.y, bend = (y1 - y0) / 2;
  document.querySelector("#thread path").setAttribute(
    "d", `M${x0} ${y0}C${x0} ${y0 + bend} ${x1} ${y1 - bend} ${x1} ${y1}`);
}

function show() {
  for (const step of steps) step();
  showFormula();
  showTensor();
  showStorage();
  showThread();
}

document.body.style.setProperty("--box", `${boxWidth - 3}px`);
addSliders();
show();
window.addEventListener("resize", show);
"""
