// One tensor as a picture: a pixel per entry on a canvas, scaled up; a cell at a time to read.

import { asMatrix, indexText } from "./arrays.js";
import { paint, palette } from "./colours.js";
import { el, rove } from "./dom.js";
import { shapeText } from "./numbers.js";

const LARGEST_SIDE = 4096;

// Rows, columns and size of a cell in a box. Vectors too long for one line are wrapped.
export function fit(matrix, box) {
  let { rows, cols } = matrix;
  if (box.cell) return { rows, cols, ...box.cell, wrapped: false };
  let wrapped = false;
  const least = box.least ?? 3;
  const vector = matrix.rows === 1 || matrix.cols === 1;
  const n = rows * cols;
  if (vector && n * least > box.width) {
    cols = Math.max(1, Math.min(n, Math.floor(box.width / Math.max(least, 5))));
    rows = Math.ceil(n / cols);
    wrapped = true;
  } else if (vector) {
    [rows, cols] = [1, n];
  }
  const most = box.most ?? 18;
  let w = Math.min(most, box.width / cols);
  let h = Math.min(most, box.height / rows);
  if (rows > 1 && cols > 1 && !box.stretch) w = h = Math.min(w, h);
  if (vector && !wrapped) h = Math.min(most, Math.max(w, 10));
  // Whole pixels keep cells equally large; below one pixel there is nothing to keep.
  if (w >= 2) w = Math.floor(w);
  if (h >= 2) h = Math.floor(h);
  if (box.tall) h = Math.max(h, box.tall);
  return { rows, cols, w, h, wrapped };
}

// The same tensor with its first axis to the right and all others down.
function turn({ data, shape }) {
  const cols = shape[0] ?? 1;
  return { rows: cols ? data.length / cols : 0, cols, shape };
}

function transposed(data, rows, cols) {
  const turned = new Float64Array(data.length);
  for (let r = 0; r < rows; r++) for (let c = 0; c < cols; c++) turned[c * rows + r] = data[r * cols + c];
  return turned;
}

export function createHeatmap(tip) {
  const canvas = el("canvas");
  const cursor = el("div", { class: "cell-cursor", hidden: true });
  const mark = el("div", { class: "cell-mark", hidden: true });
  const element = el(
    "div",
    { class: "map", tabindex: "0", role: "application", "aria-roledescription": "heat map" },
    canvas,
    mark,
    cursor,
  );
  const context = canvas.getContext("2d");
  let now = null;
  let at = 0;

  const count = () => (now ? now.data.length : 0);

  // Entry i stands in row and column; across tokens (`turned`) the first axis runs to the right.
  function placeOf(i) {
    const { grid, turned } = now;
    const along = turned ? grid.rows : grid.cols;
    const [slow, fast] = [Math.floor(i / along), i % along];
    return turned ? { row: fast, col: slow } : { row: slow, col: fast };
  }

  function frame(box, i) {
    const { grid } = now;
    const { row, col } = placeOf(i);
    box.hidden = false;
    box.style.left = `${col * grid.w - 1}px`;
    box.style.top = `${row * grid.h - 1}px`;
    box.style.width = `${Math.max(grid.w, 3) + 2}px`;
    box.style.height = `${Math.max(grid.h, 3) + 2}px`;
  }

  function show(i, aloud) {
    at = i;
    const { grid, name, shape, data, away } = now;
    const { row, col } = placeOf(i);
    const left = col * grid.w;
    const top = row * grid.h;
    frame(cursor, i);
    const whole = element.getBoundingClientRect();
    const box = { left: whole.left + left, top: whole.top + top, width: grid.w };
    box.bottom = box.top + grid.h;
    const reading = { name: name + indexText(shape, i), value: data[i], away: away ? away[i] : null };
    tip.show(reading, box, aloud);
  }

  function hide() {
    cursor.hidden = true;
    tip.hide();
  }

  function cellUnder(event) {
    const { grid } = now;
    const box = element.getBoundingClientRect();
    const col = Math.min(Math.max(Math.floor((event.clientX - box.left) / grid.w), 0), grid.cols - 1);
    const row = Math.min(Math.max(Math.floor((event.clientY - box.top) / grid.h), 0), grid.rows - 1);
    return Math.min(now.turned ? col * grid.rows + row : row * grid.cols + col, count() - 1);
  }

  element.addEventListener("pointermove", (event) => count() && show(cellUnder(event), false));
  element.addEventListener("pointerleave", hide);
  element.addEventListener("focus", () => {
    if (count() && element.matches(":focus-visible")) show(Math.min(at, count() - 1), true);
  });
  element.addEventListener("blur", hide);
  element.addEventListener("keydown", (event) => {
    if (event.key === "Escape") return hide();
    if (!count()) return undefined;
    const { grid, turned } = now;
    const strides = turned ? { columns: 1, rows: grid.rows } : { columns: grid.cols, rows: 1 };
    const to = rove(event, { at, count: count(), ...strides });
    if (to !== null) show(to, true);
    return undefined;
  });

  // spec: {name, data, shape, away, scale, drawn, box, theme, turned}; `drawn` is what is coloured,
  // `turned` runs the first axis to the right.
  function update(spec) {
    const grid = fit(spec.turned ? turn(spec) : asMatrix(spec), spec.box);
    if (grid.rows > LARGEST_SIDE || grid.cols > LARGEST_SIDE) grid.rows = grid.cols = 0;
    now = { ...spec, grid };
    element.setAttribute("aria-label", `${spec.name}, ${shapeText(spec.shape)}. Arrow keys read cells.`);
    element.dataset.slot = spec.name;
    element.dataset.shape = spec.shape.join("x");
    element.classList.toggle("lined", grid.w >= 7 && grid.h >= 7);
    element.classList.toggle("fine", grid.w < 1 || grid.h < 1);
    element.style.setProperty("--w", `${grid.w}px`);
    element.style.setProperty("--h", `${grid.h}px`);
    element.style.width = `${grid.cols * grid.w}px`;
    element.style.height = `${grid.rows * grid.h}px`;
    draw(grid, spec);
    mark.hidden = true;
    if (spec.marked !== undefined && spec.marked < count()) frame(mark, spec.marked);
    if (!cursor.hidden && document.activeElement === element) show(Math.min(at, count() - 1), false);
  }

  function draw(grid, spec) {
    // Setting a size clears a canvas and is not free: only where it changes.
    if (canvas.width !== grid.cols) canvas.width = Math.max(grid.cols, 1);
    if (canvas.height !== grid.rows) canvas.height = Math.max(grid.rows, 1);
    if (!grid.rows || !grid.cols) return context.clearRect(0, 0, canvas.width, canvas.height);
    const image = context.createImageData(grid.cols, grid.rows);
    if (spec.drawn) {
      const drawn = spec.turned ? transposed(spec.drawn, grid.cols, grid.rows) : spec.drawn;
      paint(image.data, drawn, spec.scale, palette(spec.theme));
    }
    context.putImageData(image, 0, 0);
    return undefined;
  }

  return { element, update, current: () => at };
}

// The scale in numbers: its two ends around a strip of its colours.
export function drawLegend(canvas, scale, theme) {
  canvas.width = 64;
  canvas.height = 1;
  const context = canvas.getContext("2d");
  const image = context.createImageData(64, 1);
  const lut = palette(theme)[scale.name];
  for (let i = 0; i < 64; i++) {
    const k = Math.round((i / 63) * 255);
    image.data.set([lut[3 * k], lut[3 * k + 1], lut[3 * k + 2], 255], 4 * i);
  }
  context.putImageData(image, 0, 0);
}
