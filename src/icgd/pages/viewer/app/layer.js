// The layer as a picture: what it sees, its stages in order with what they hand on, what it writes.

import { largest } from "./arrays.js";
import { signedScale } from "./colours.js";
import { el, keyed, setText } from "./dom.js";
import { createGates } from "./gates.js";
import { createHeads } from "./heads.js";
import { createHeatmap } from "./heatmap.js";
import { plural, short } from "./numbers.js";

const KIND_TEXT = {
  feed_forward: "feed-forward", softmax: "softmax attention", relu: "ReLU attention",
  tanh: "tanh attention", sigmoid: "sigmoid attention", linear: "linear attention", product: "product",
};

function createMini(tip) {
  const map = createHeatmap(tip);
  const name = el("span", { class: "mini-name" });
  const range = el("span", { class: "mini-scale" });
  const element = el("figure", { class: "mini" }, map.element, el("figcaption", {}, name, range));
  function update(slot, value, theme, scale) {
    const most = largest(value.data);
    // Slots of many tokens lie down, tokens across, as in the state matrix.
    const turned = slot.each === true && value.shape.length > 0 && value.shape[0] > 1;
    setText(name, slot.name);
    setText(range, value.data.length === 1 ? short(value.data[0]) : `±${short(most, 2)}`);
    element.title = slot.meaning;
    map.update({
      name: slot.name, data: value.data, shape: value.shape, away: null, drawn: value.data,
      scale: signedScale(most), theme, turned,
      box: turned
        ? { width: 176 * scale, height: 40 * scale, most: 9 * scale, least: 0.5, stretch: true }
        : { width: 66 * scale, height: 34 * scale, most: 12 * scale, least: 2 },
    });
  }
  return { element, update };
}

// "Feed-forward: gates …" stands behind a label that says feed-forward.
export function stageTitle({ kind, title }) {
  const prefix = `${KIND_TEXT[kind]}: `;
  return title.toLowerCase().startsWith(prefix.toLowerCase()) ? title.slice(prefix.length) : title;
}

function createStage(info, i, tip, state) {
  const gates = createGates(info.gates);
  const carried = el("p", { class: "soft rest" });
  const heads = createHeads(tip, state, info.name);
  const minis = el("div", { class: "minis" });
  // A few units without groups stand in the headline, a router has lines of its own.
  const inline = info.gates.length < 5 && !info.gates.some((name) => name.includes(":"));
  const element = el(
    "li",
    { class: "stage", "data-stage": i, "data-stage-kind": info.kind },
    el(
      "div",
      { class: "stage-head" },
      el("span", { class: "stage-name" }, info.name),
      el("span", { class: "stage-kind" }, KIND_TEXT[info.kind]),
      el("span", { class: "soft stage-title" }, stageTitle(info)),
      inline && gates.element,
    ),
    !inline && gates.element,
    heads.element,
    el("div", { class: "hands-on" }, minis, carried),
  );

  // What the last stage gives back is the block that is written; it is not stored twice.
  function update(entry, { kind, width, tall, slots, before, cleared }) {
    if (info.gates.length) gates.update(entry.open, kind);
    gates.element.hidden = !info.gates.length;
    heads.update(entry.heads, { theme: state.shown, width, tall });
    const known = new Map(info.slots.map((slot) => [slot.name, slot]));
    const filled = [...slots].filter(([, value]) => value.data.length && largest(value.data) > 0);
    const [fresh, same] = [[], []];
    for (const pair of filled) (sameAs(before?.get(pair[0]), pair[1]) ? same : fresh).push(pair);
    keyed(minis, fresh.map(([name]) => name), () => createMini(tip)).forEach((mini, k) => {
      const [name, value] = fresh[k];
      mini.update(known.get(name) ?? { name, meaning: "" }, value, state.shown, tall ? 1.8 : 1);
    });
    const zero = [...slots].filter(([, value]) => value.data.length && largest(value.data) === 0);
    const names = { unchanged: same.map(([name]) => name), "zero now": [...zero.map(([name]) => name), ...cleared] };
    const lines = Object.entries(names).filter(([, list]) => list.length);
    const told = lines.map(([what, list]) => `${what}: ${list.join(", ")}`).join(" · ");
    setText(carried, told || (slots.size ? "" : "no change recorded"));
  }
  return { element, update };
}

// Equal tensors share their place in the file, so a view of the same place is the same tensor.
function sameAs(a, b) {
  if (!a || a.data.length !== b.data.length) return false;
  const place = a.data.buffer === b.data.buffer && a.data.byteOffset === b.data.byteOffset;
  return place || (a.data.length === 1 && a.data[0] === b.data[0]);
}

function badges(container, blocks, state) {
  // Of a long row its two ends say enough; the strip above shows the rest.
  const shown = blocks.length > 5 ? [...blocks.slice(0, 2), "…", blocks[blocks.length - 1]] : blocks;
  keyed(container, shown, (b) => {
    const onclick = () => state.choose(b);
    if (b === "…") return { element: el("span", {}, b) };
    const hue = state.model.hue(state.model.trace.blocks[b].kind);
    const label = state.model.label(b);
    const title = `${label}, ${state.model.originText(b)}`;
    return {
      element: el("button", { type: "button", class: "block-badge", ...hue, onclick, title }, label),
    };
  });
}

export function createLayer(tip, state) {
  const { stages } = state.model.trace;
  const kind = el("span", { class: "type" });
  const sees = el("span", { class: "badges" });
  const writes = el("span", { class: "badges" });
  const count = el("span", { class: "soft" }, plural(stages.length, "stage"));
  const list = el("ol", { class: "stages" });
  const none = el("p", { class: "unknown" }, "What happened inside the layer is not recorded for this step.");
  const element = el(
    "section",
    { class: "panel", id: "layer-panel", "aria-label": "The layer" },
    el(
      "header",
      { class: "panel-head" },
      el("h2", {}, stages.length > 3 ? "The frozen layers" : "The frozen layer"),
      count,
      el("span", { class: "flow" }, "sees ", sees, " does ", kind, " writes ", writes),
    ),
    el("div", { class: "panel-scroll" }, list, none),
  );
  const parts = stages.map((info, i) => createStage(info, i, tip, state));
  list.append(...parts.map((part) => part.element));
  let width = 480;
  let tall = false;
  function measure() {
    tall = innerHeight > 940 && innerWidth > 1400;
    width = Math.max(list.clientWidth - 26, 240);
  }

  function update() {
    const { step, model } = state;
    const at = model.describe(state.position);
    setText(kind, at.type);
    badges(sees, [...new Set(step.reads)], state);
    badges(writes, [step.writes], state);
    none.hidden = step.stages.length > 0;
    list.hidden = !none.hidden;
    const written = model.trace.blocks[step.writes].slots;
    const appends = model.trace.program.feed === "append";
    const touched = new Set();
    let before = null;
    step.stages.forEach((entry, i) => {
      const last = i === parts.length - 1;
      const slots = last && appends && !entry.slots.size ? written : entry.slots;
      // A stack's last stage clears what its others left behind: gone from the block that is written.
      const cleared = last && !appends ? [...touched].filter((name) => !written.has(name)) : [];
      parts[i].update(entry, { kind: at.kind, width, tall, slots, before, cleared });
      for (const name of entry.slots.keys()) touched.add(name);
      before = entry.slots;
    });
  }
  return { element, measure, update };
}
