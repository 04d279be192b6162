// The selected block: its slots as heat maps with meaning and scale, its numbers as chips.

import { asMatrix, largest, volume } from "./arrays.js";
import { decades, palette, signedScale } from "./colours.js";
import { el, keyed, setText } from "./dom.js";
import { createHeatmap, drawLegend } from "./heatmap.js";
import { full, plural, shapeText, short } from "./numbers.js";
import { createStateMatrix } from "./statematrix.js";

const noScale = { name: "size", low: 0, high: 0, index: () => -1 };

// Value and difference of every slot a block holds; slots it does not mention are exactly zero.
export function slotViews(layout, block) {
  const views = [];
  const zero = [];
  const names = new Set(layout.map((slot) => slot.name));
  const infos = [...layout];
  for (const name of [...block.slots.keys(), ...block.away.keys()]) {
    if (!names.has(name)) infos.push({ name, shape: [], meaning: "", each: false });
    names.add(name);
  }
  for (const info of infos) {
    const away = block.away.get(info.name) ?? null;
    let value = block.slots.get(info.name) ?? null;
    const off = away && largest(away.data) > 0;
    if (!value && !off) {
      zero.push(info.name);
      continue;
    }
    if (!value) value = { data: new Float64Array(away.data.length), shape: away.shape };
    const fits = away && away.data.length === value.data.length;
    views.push({ ...info, value, away: fits ? away.data : null });
  }
  return { views, zero };
}

export function largestDifference(views) {
  let most = null;
  for (const { away } of views) if (away) most = Math.max(most ?? 0, largest(away));
  return most;
}

function createRow(tip) {
  const map = createHeatmap(tip);
  const name = el("span", { class: "slot-name" });
  const shape = el("span", { class: "slot-shape" });
  const meaning = el("span", { class: "slot-meaning" });
  const range = el("span", { class: "slot-range" });
  const element = el(
    "section",
    { class: "slot" },
    el("div", { class: "slot-head" }, name, shape, meaning, range),
    el("div", { class: "map-scroll" }, map.element),
  );

  function update(view, look) {
    const byDifference = look.colourBy === "difference";
    const scale = byDifference ? look.scale : signedScale(largest(view.value.data));
    setText(name, view.name);
    setText(shape, shapeText(view.value.shape));
    setText(meaning, view.meaning);
    meaning.title = view.meaning;
    element.dataset.slot = view.name;
    setText(range, byDifference ? differenceText(view.away) : rangeText(scale.high));
    const matrix = asMatrix(view.value);
    // Many rows of few entries scroll; large squares get all the width there is.
    const long = matrix.rows > 64 && matrix.rows > 2 * matrix.cols;
    const height = matrix.rows > 32 ? look.width : look.height;
    map.update({
      name: view.name,
      data: view.value.data,
      shape: view.value.shape,
      away: view.away,
      drawn: byDifference ? view.away : view.value.data,
      scale,
      theme: look.theme,
      box: { width: look.width, height, most: look.most, tall: long ? 3 : 0, stretch: long },
    });
  }
  return { element, update };
}

function rangeText(most) {
  return most ? `±${short(most)}` : "all 0";
}

function differenceText(away) {
  if (!away) return "exact value not known";
  const most = largest(away);
  return most ? `≤ ${short(most, 2)}` : "exact";
}

// What colours mean, once for all slots: their own range, or one scale of differences.
function createLegend() {
  const low = el("span");
  const high = el("span");
  const bar = el("canvas", { "aria-hidden": "true" });
  const words = el("span", { class: "legend-words" });
  const element = el("p", { class: "legend" }, low, bar, high, words);
  function update(look) {
    const byDifference = look.colourBy === "difference";
    const known = !byDifference || look.scale.high > 0;
    for (const node of [low, bar, high]) node.hidden = !known;
    setText(low, byDifference ? short(look.scale.low) : "−r");
    setText(high, byDifference ? short(look.scale.high) : "+r");
    const aboutDifference = known ? "log; blank: 0 or unknown" : "no difference other than 0";
    setText(words, byDifference ? aboutDifference : "r beside each slot as ±r");
    if (known) drawLegend(bar, byDifference ? look.scale : signedScale(1), look.theme);
  }
  return { element, update };
}

function createChip(tip) {
  const name = el("span", { class: "chip-name" });
  const value = el("span", { class: "chip-value" });
  const swatch = el("span", { class: "swatch", "aria-hidden": "true" });
  const element = el("span", { class: "chip", tabindex: "0" }, swatch, name, value);
  let now = null;
  const show = (aloud) => tip.show(now, element.getBoundingClientRect(), aloud);
  element.addEventListener("pointerenter", () => show(false));
  element.addEventListener("pointerleave", tip.hide);
  element.addEventListener("focus", () => element.matches(":focus-visible") && show(true));
  element.addEventListener("blur", tip.hide);

  function update(view, look) {
    const number = view.value.data[0];
    const away = view.away ? view.away[0] : null;
    now = { name: view.name, value: number, away };
    const byDifference = look.colourBy === "difference";
    const drawn = byDifference && Number.isNaN(away) ? null : byDifference ? away : number;
    const scale = byDifference ? look.scale : signedScale(Math.max(Math.abs(number), 1));
    const k = drawn === null ? -1 : scale.index(drawn);
    const { blank, odd, [scale.name]: lut } = palette(look.theme);
    const [r, g, b] = k >= 0 ? lut.subarray(3 * k, 3 * k + 3) : k === -1 ? blank : odd;
    swatch.style.background = `rgb(${r} ${g} ${b})`;
    setText(name, view.name);
    setText(value, drawn === null ? "–" : short(drawn));
    element.title = view.meaning;
    element.setAttribute("aria-label", `${view.name} = ${full(number)}. ${view.meaning}`);
    element.dataset.slot = view.name;
  }
  return { element, update };
}

export function createSlots(tip, state) {
  const label = el("span", { class: "block-badge" });
  const origin = el("span", { class: "soft" });
  const kind = el("p", { class: "soft kind-title" });
  const away = el("p", { class: "away" });
  const chips = el("div", { class: "chips" });
  const rows = el("div", { class: "slot-rows" });
  const zeros = el("p", { class: "soft zeros" });
  const matrix = createStateMatrix(tip);
  const legend = createLegend();
  const radio = (value, title) =>
    el("label", {}, el("input", {
      type: "radio", name: "colour-by", value, checked: value === "value",
      onchange: () => state.set({ colourBy: value }),
    }), el("span", {}, title));
  const values = radio("value", "value");
  const differences = radio("difference", "difference");
  const element = el(
    "section",
    { class: "panel", id: "block-panel", "aria-label": "Selected block" },
    el(
      "header",
      { class: "panel-head" },
      el("h2", {}, "Block ", label),
      el("fieldset", { class: "segmented", "aria-label": "Colour by" }, values, differences),
    ),
    el("p", { class: "origin" }, origin),
    kind,
    away,
    legend.element,
    el("div", { class: "panel-scroll", tabindex: "-1" }, chips, matrix.element, rows, zeros),
  );

  let width = 266;
  let tall = false;
  function measure() {
    tall = innerHeight > 940 && innerWidth > 1400;
    width = Math.max(element.clientWidth - 34, 120);
  }

  function update() {
    const { model } = state;
    const b = state.selected;
    const block = model.trace.blocks[b];
    const { views, zero } = slotViews(model.trace.layout, block);
    const scalars = views.filter((view) => view.value.shape.length === 0);
    const own = views.filter((view) => block.tokens > 1 && view.each && view.value.shape[0] === block.shown);
    const drawable = (view) => view.value.shape.length > 0 && volume(view.value.shape) > 0;
    const tensors = views.filter((view) => !own.includes(view) && drawable(view));
    const room = tall ? { height: 300, tall: 420, most: 30 } : { height: 168, tall: 300, most: 20 };
    const look = { colourBy: state.colourBy, theme: state.shown, width, ...room, scale: noScale };
    if (state.colourBy === "difference") {
      look.scale = decades(views.filter((v) => v.away).map((v) => v.away)) ?? noScale;
    }
    element.dataset.block = b;
    setText(label, model.label(b));
    for (const [name, value] of Object.entries(model.hue(block.kind))) label.setAttribute(name, value);
    setText(origin, model.originText(b) + tokensText(block));
    setText(kind, model.kindTitles.get(block.kind) ?? "");
    kind.title = kind.textContent;
    const most = largestDifference(views);
    setText(away, most === null ? "No exact values recorded for this block." : awayText(most));
    legend.update(look);
    matrix.update(own, look);
    const fill = (parent, shown, create) =>
      keyed(parent, shown.map((v) => v.name), create).forEach((part, i) => part.update(shown[i], look));
    fill(chips, scalars, () => createChip(tip));
    fill(rows, tensors, () => createRow(tip));
    setText(zeros, zero.length ? `Exactly zero: ${zero.join(", ")}` : "");
    const checked = state.colourBy === "value" ? values : differences;
    checked.firstChild.checked = true;
  }
  return { element, measure, update };
}

function awayText(most) {
  if (most === 0) return "Equal to the exact values to the last bit.";
  return `Largest difference to the exact values: ${short(most)}`;
}

function tokensText(block) {
  if (block.tokens === 1) return "";
  const kept = block.shown < block.tokens ? `, first ${block.shown} kept` : "";
  return ` · ${plural(block.tokens, "token")}${kept}`;
}
