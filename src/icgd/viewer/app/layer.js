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
  const scale = el("span", { class: "mini-scale" });
  const element = el("figure", { class: "mini" }, map.element, el("figcaption", {}, name, scale));
  function update(slot, value, theme) {
    const most = largest(value.data);
    setText(name, slot.name);
    setText(scale, value.data.length === 1 ? short(value.data[0]) : `±${short(most, 2)}`);
    element.title = slot.meaning;
    map.update({
      name: slot.name, data: value.data, shape: value.shape, away: null, drawn: value.data,
      scale: signedScale(most), theme, box: { width: 66, height: 34, most: 12, least: 2 },
    });
  }
  return { element, update };
}

function createStage(info, i, tip, state) {
  const gates = createGates(info.gates);
  const heads = createHeads(tip, state, info.name);
  const minis = el("div", { class: "minis" });
  const rest = el("p", { class: "soft rest" });
  const element = el(
    "li",
    { class: "stage", "data-stage": i, "data-kind": info.kind },
    el("div", { class: "stage-head" }, el("span", { class: "stage-name" }, info.name), el("span", { class: "stage-kind" }, KIND_TEXT[info.kind]), el("span", { class: "soft stage-title" }, info.title)),
    gates.element,
    heads.element,
    minis,
    rest,
  );

  // What the last stage gives back is the block that is written; it is not stored twice.
  function update(entry, kind, width, slots) {
    if (info.gates.length) gates.update(entry.open, kind);
    gates.element.hidden = !info.gates.length;
    heads.update(entry.heads, { theme: state.shown, width });
    const known = new Map(info.slots.map((slot) => [slot.name, slot]));
    const shown = [...slots].filter(([, value]) => value.data.length && largest(value.data) > 0);
    const names = shown.map(([name]) => name);
    keyed(minis, names, () => createMini(tip)).forEach((mini, k) => {
      const [name, value] = shown[k];
      mini.update(known.get(name) ?? { name, meaning: "" }, value, state.shown);
    });
    const zero = info.slots.filter((slot) => !names.includes(slot.name));
    setText(rest, zero.length && names.length ? restText(zero, state) : "");
    rest.title = zero.map((slot) => slot.name).join(", ");
  }
  return { element, update };
}

function restText(zero, state) {
  const same = state.model.trace.stages.length > 3;
  const names = zero.slice(0, 6).map((slot) => slot.name).join(", ");
  const more = zero.length > 6 ? `, … (${zero.length} in all)` : "";
  return same ? "" : `zero: ${names}${more}`;
}

function badges(container, blocks, state) {
  keyed(container, blocks, (b) => {
    const kind = (state.model.kindIndex.get(state.model.trace.blocks[b].kind) ?? 0) % 8;
    return {
      element: el("button", { type: "button", class: "block-badge", "data-kind": kind, onclick: () => state.choose(b), title: `${state.model.label(b)}, ${state.model.originText(b)}` }, state.model.label(b)),
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
    el("header", { class: "panel-head" }, el("h2", {}, "The frozen layer"), count, el("span", { class: "flow" }, "sees ", sees, " does ", kind, " writes ", writes)),
    el("div", { class: "panel-scroll" }, list, none),
  );
  const parts = stages.map((info, i) => createStage(info, i, tip, state));
  list.append(...parts.map((part) => part.element));

  function update() {
    const { step, model } = state;
    const at = model.describe(state.position);
    setText(kind, at.type);
    badges(sees, [...new Set(step.reads)], state);
    badges(writes, [step.writes], state);
    none.hidden = step.stages.length > 0;
    list.hidden = !none.hidden;
    const width = Math.max(list.clientWidth - 26, 240);
    step.stages.forEach((entry, i) => {
      const last = i === parts.length - 1;
      parts[i].update(entry, at.kind, width, last && !entry.slots.size ? model.trace.blocks[step.writes].slots : entry.slots);
    });
  }
  return { element, update };
}
