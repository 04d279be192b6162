// The prompt: a window of blocks around the current step, and a thin bar of all of them.

import { drawBarcode } from "./barcode.js";
import { el, keyed, rove, setText, svg } from "./dom.js";
import { plural, whole } from "./numbers.js";

const PITCH = 54;
const ARCS = 26;

// The window of places to draw: the new block at its right end, or wherever the reader moved it.
export function windowOf({ count, room, start }) {
  const size = Math.min(room, count);
  const last = Math.max(count - size, 0);
  const from = start === null ? last : Math.min(Math.max(start, 0), last);
  return { from, to: from + size };
}

function createBlock(b, state) {
  const { model } = state;
  const block = model.trace.blocks[b];
  const canvas = el("canvas", { "aria-hidden": "true" });
  const tag = el("span", { class: "tag" });
  const above = el("span", { class: "round-mark" });
  const button = el(
    "button",
    {
      type: "button", class: "block", role: "option", "data-block": b,
      ...model.hue(block.kind),
      onclick: () => state.choose(b),
    },
    el("span", { class: "letter" }, model.label(b)),
    canvas,
    tag,
  );
  const element = el("div", { class: "block-place", role: "none" }, above, button);
  let drawnFor = null;

  function update(look) {
    if (drawnFor !== look.theme) drawBarcode(canvas, model.trace.layout, block, (drawnFor = look.theme));
    setText(above, look.mark);
    element.classList.toggle("after-gap", look.gap);
    button.dataset.lit = look.lit ? "1" : "0";
    button.dataset.new = look.isNew ? "1" : "0";
    button.tabIndex = look.selected ? 0 : -1;
    button.setAttribute("aria-selected", String(look.selected));
    setText(tag, look.isNew ? "new" : look.lit ? "seen" : "");
    const seen = look.isNew ? "written in this step" : look.lit ? "visible" : "masked";
    button.setAttribute("aria-label", `${model.label(b)}, ${model.originText(b)}, ${seen}`);
  }
  return { element, button, update };
}

export function createStrip(state) {
  const { model } = state;
  const replace = model.trace.program.feed === "replace";
  const count = el("span", { class: "soft" });
  const legend = el("span", { class: "kind-legend" });
  const arcs = svg("svg", { class: "arcs", "aria-hidden": "true" });
  const track = el("div", {
    class: "track", role: "listbox", "aria-label": "Blocks of the prompt", "aria-orientation": "horizontal",
  });
  const outside = el("div", { class: "outside" });
  const about = "All blocks of the recording; the frame marks those drawn above";
  const bar = el("canvas", { class: "overview", role: "img", "aria-label": about });
  const element = el(
    "section",
    { class: "strip", id: "strip", "aria-label": "Prompt" },
    el("header", { class: "strip-head" }, el("h2", {}, replace ? "States" : "Prompt"), count, outside, legend),
    el("div", { class: "track-frame" }, arcs, track),
    bar,
  );
  for (const { kind, title } of model.trace.kinds) {
    const badge = el("span", { class: "block-badge", ...model.hue(kind) }, kind);
    legend.append(el("span", { class: "legend-entry", title }, badge, el("span", {}, title.split(":", 1)[0])));
  }

  track.addEventListener("keydown", (event) => {
    const n = model.countAt(state.position);
    const at = model.placeOf[state.selected];
    const to = rove(event, { at, count: n });
    if (to === null) return;
    state.choose(model.order[to]);
    reveal(to);
    track.querySelector('[aria-selected="true"]')?.focus();
  });
  let width = 600;
  let colours = { ink: "#000", kinds: new Map() };
  const room = () => Math.max(Math.floor(width / PITCH), 3);
  let shownWindow = { from: 0, to: 0 };

  function measure() {
    width = track.clientWidth || 600;
    const style = getComputedStyle(bar);
    const kinds = new Map();
    for (const [kind, place] of model.kindPlaces) {
      const own = /^\w+$/.test(kind) ? style.getPropertyValue(`--kind-${kind}`) : "";
      kinds.set(kind, own || style.getPropertyValue(`--other-${place}`));
    }
    colours = { ink: style.getPropertyValue("--ink"), kinds };
    overviewDrawn = "";
  }

  function reveal(place) {
    if (place < shownWindow.from) state.set({ windowStart: place });
    else if (place >= shownWindow.to) state.set({ windowStart: place - room() + 1 });
  }

  function fromPointer(event) {
    const box = bar.getBoundingClientRect();
    const place = Math.round(((event.clientX - box.left) / box.width) * model.order.length);
    state.set({ windowStart: Math.max(place - Math.floor(room() / 2), 0) });
  }
  bar.addEventListener("pointerdown", (event) => {
    bar.setPointerCapture(event.pointerId);
    fromPointer(event);
  });
  bar.addEventListener("pointermove", (event) => event.buttons && fromPointer(event));

  function update() {
    const n = model.countAt(state.position);
    const { from, to } = (shownWindow = windowOf({ count: n, room: room(), start: state.windowStart }));
    const lit = new Set(state.step.reads);
    const shown = model.order.slice(from, to);
    const parts = keyed(track, shown, (b) => createBlock(b, state));
    shown.forEach((b, i) => parts[i].update(lookOf(b, from + i, lit)));
    // One block must stay reachable by Tab even if the selected one is outside the window.
    if (!shown.includes(state.selected) && parts.length) parts[parts.length - 1].button.tabIndex = 0;
    drawArcs(shown, lit);
    listOutside(shown, lit);
    setText(count, countText(n, shown.length));
    drawOverview(from, to, n, lit);
  }

  function lookOf(b, place, lit) {
    const block = model.trace.blocks[b];
    const before = place > 0 ? model.trace.blocks[model.order[place - 1]] : null;
    const fresh = !before || before.round !== block.round || before.origin !== block.origin;
    const starts = fresh && (!before || before.round !== block.round || block.origin === "earlier");
    const gap = block.origin === "earlier" && before !== null && before.origin !== "earlier";
    return {
      theme: state.shown, lit: lit.has(b), isNew: b === state.step.writes,
      selected: b === state.selected, gap, mark: starts ? markOf(block) : "",
    };
  }

  function markOf(block) {
    if (block.origin === "prompt") return replace ? "start" : "given";
    // Neighbours may both carry a mark: it must not be wider than a block.
    return `${block.round < 1000 ? "round" : "r."} ${whole(block.round)}`;
  }

  const arc = (d) => svg("path", { d, class: "arc" });

  function drawArcs(shown, lit) {
    const target = shown.indexOf(state.step.writes);
    const paths = [];
    arcs.setAttribute("viewBox", `0 0 ${width} ${ARCS}`);
    if (target >= 0) {
      shown.forEach((b, i) => {
        if (!lit.has(b) || i === target) return;
        const x0 = i * PITCH + 26;
        const x1 = target * PITCH + 26;
        const top = Math.max(-4, ARCS - 12 - Math.abs(target - i) * 3);
        paths.push(arc(`M${x0} ${ARCS} C${x0} ${top},${x1} ${top},${x1} ${ARCS - 1}`));
      });
      const x = target * PITCH + 26;
      if (paths.length) paths.push(arc(`M${x - 4} ${ARCS - 6} L${x} ${ARCS - 1} L${x + 4} ${ARCS - 6}`));
    }
    arcs.replaceChildren(...paths);
  }

  // Blocks the step sees or writes that the window does not show: named, with a way to get there.
  function listOutside(shown, lit) {
    const hidden = [...lit].filter((b) => !shown.includes(b));
    keyed(outside, hidden, (b) => {
      const button = el("button", {
        type: "button", class: "outside-block", "data-block": b, "data-lit": "1", "data-new": "0",
        onclick: () => {
          state.choose(b);
          reveal(model.placeOf[b]);
        },
      });
      return { element: button };
    }).forEach(({ element: button }, i) => {
      const back = shown.length ? Math.abs(model.placeOf[hidden[i]] - model.placeOf[state.step.writes]) : 0;
      setText(button, `sees ${model.label(hidden[i])}, ${plural(back, "block")} back`);
    });
  }

  function countText(n, drawn) {
    const complete = model.missingAfter() === 0 && model.starts.every((_, r) => model.missingBefore(r) === 0);
    const what = (replace ? plural(n, "state") : plural(n, "block")) + (complete ? "" : " recorded");
    const seen = plural(state.step.reads.length, replace ? "state" : "block");
    return `${what} so far${drawn < n ? `, ${drawn} drawn` : ""} · this step sees ${seen}`;
  }

  // All blocks as they will be, drawn once; each step then adds what has come, is seen and is shown.
  const all = el("canvas");
  let overviewDrawn = "";

  function drawAll(scale) {
    all.width = width;
    all.height = 5;
    const context = all.getContext("2d");
    const total = model.order.length;
    // At most one rectangle per pixel, however many blocks there are.
    const stride = Math.max(1, Math.floor(1 / scale));
    for (let place = 0; place < total; place += stride) {
      const block = model.trace.blocks[model.order[place]];
      context.fillStyle = colours.kinds.get(block.kind) ?? colours.ink;
      context.fillRect(place * scale, 0, Math.max(scale * stride - (scale > 4 ? 1 : 0), 0.8), 5);
    }
  }

  function drawOverview(from, to, n, lit) {
    const scale = width / model.order.length;
    const key = `${width} ${state.shown}`;
    if (overviewDrawn !== key) {
      drawAll(scale);
      bar.width = width;
      bar.height = 10;
      overviewDrawn = key;
    }
    const context = bar.getContext("2d");
    context.clearRect(0, 0, width, 10);
    context.globalAlpha = 0.16;
    context.drawImage(all, 0, 3);
    context.globalAlpha = 0.75;
    const grown = Math.max(n * scale, 1);
    context.drawImage(all, 0, 0, grown, 5, 0, 3, grown, 5);
    context.globalAlpha = 1;
    context.fillStyle = context.strokeStyle = colours.ink;
    for (const b of lit) context.fillRect(model.placeOf[b] * scale, 0, Math.max(scale - 1, 1.5), 2);
    context.strokeRect(from * scale + 0.5, 1.5, Math.max((to - from) * scale - 1, 3), 8);
  }
  return { element, measure, update };
}
