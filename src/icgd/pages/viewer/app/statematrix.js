// What every token of a block has to itself, as one matrix: tokens across, entries of slots down.

import { largest } from "./arrays.js";
import { signedScale } from "./colours.js";
import { el, keyed, setText } from "./dom.js";
import { createHeatmap } from "./heatmap.js";
import { plural, short } from "./numbers.js";

const NAMES = 98;

// Size of a cell so that `tokens` fit across and all entries down; tokens never fall below 2 pixels.
export function cellSize({ tokens, entries, width, height }) {
  const w = Math.min(Math.max(Math.floor((width - NAMES) / tokens), 2), 18);
  const h = Math.min(Math.max(Math.floor(height / Math.max(entries, 1)), 3), 13);
  return { w, h };
}

function createSlotRow(tip) {
  const map = createHeatmap(tip);
  const name = el("span", { class: "slot-name" });
  const range = el("span", { class: "mini-scale" });
  const label = el("div", { class: "state-name" }, name, range);
  const element = el("div", { class: "state-row" }, label, map.element);

  function update(view, look, cell) {
    const byDifference = look.colourBy === "difference";
    const scale = byDifference ? look.scale : signedScale(largest(view.value.data));
    setText(name, view.name);
    const difference = view.away ? `≤ ${short(largest(view.away), 1)}` : "–";
    setText(range, byDifference ? difference : `±${short(scale.high, 2)}`);
    element.title = view.meaning;
    map.update({
      name: view.name, data: view.value.data, shape: view.value.shape, away: view.away, turned: true,
      drawn: byDifference ? view.away : view.value.data, scale, theme: look.theme,
      box: { width: 0, height: 0, cell },
    });
  }
  return { element, update };
}

export function createStateMatrix(tip) {
  const caption = el("p", { class: "soft caption" });
  const rows = el("div", { class: "state-rows" });
  const frame = el("div", { class: "map-scroll wide" }, rows);
  const element = el("section", { class: "state-matrix", "aria-label": "State matrix" }, caption, frame);

  function update(views, look) {
    element.hidden = !views.length;
    if (!views.length) return;
    const tokens = views[0].value.shape[0];
    const entries = views.reduce((sum, view) => sum + view.value.data.length / tokens, 0);
    const cell = cellSize({ tokens, entries, width: look.width, height: look.tall });
    setText(caption, `State matrix: ${plural(tokens, "token")} across, entries of slots down`);
    const parts = keyed(rows, views.map((v) => v.name), () => createSlotRow(tip));
    parts.forEach((row, i) => row.update(views[i], look, cell));
  }
  return { element, update };
}
