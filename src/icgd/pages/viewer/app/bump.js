// The attention of one head over the grid tokens: a bar per token at its level, the asked number marked.
//
// On a wide grid the bump hardly moves with the number asked; the second drawing subtracts the bump
// of a head that asks 0, and shows the tilt that carries the number.

import { largest } from "./arrays.js";
import { el, setText, svg } from "./dom.js";
import { niceTicks, short } from "./numbers.js";
import { ascending } from "./softmax.js";

const SIDE = { left: 44, right: 14 };

function bars(xs, values, half, y) {
  let path = "";
  const zero = y(0).toFixed(1);
  xs.forEach((x, i) => {
    path += `M${(x - half).toFixed(1)} ${zero}V${y(values[i]).toFixed(1)}h${(2 * half).toFixed(1)}V${zero}z`;
  });
  return path;
}

// Room between neighbours decides how wide bars may be.
export function barHalf(xs) {
  let least = Infinity;
  for (let i = 1; i < xs.length; i++) least = Math.min(least, xs[i] - xs[i - 1]);
  return Math.min(Math.max((Number.isFinite(least) ? least : 24) * 0.36, 0.6), 12);
}

const clamp = (x, low, high) => Math.min(Math.max(x, low), high);

const text = (x, y, content, anchor = "middle", more = {}) =>
  svg("text", { x: x.toFixed(1), y: y.toFixed(1), "text-anchor": anchor, ...more }, content);

export function createBump() {
  const main = svg("svg", { class: "bump", role: "img" });
  const tilt = svg("svg", { class: "bump tilt", role: "img" });
  const caption = el("p", { class: "soft caption" });
  const element = el("div", { class: "bump-frame" }, el("div", { class: "bumps" }, main, tilt), caption);

  let height = 100;

  function axis(width, x, ticks) {
    const base = height - 28;
    const nodes = [svg("path", { class: "axis", d: `M${SIDE.left} ${base}H${width - SIDE.right}` })];
    for (const t of ticks) {
      nodes.push(svg("path", { class: "axis", d: `M${x(t).toFixed(1)} ${base}v4` }));
      nodes.push(text(x(t), base + 14, short(t)));
    }
    nodes.push(text((SIDE.left + width - SIDE.right) / 2, height - 3, "level of the grid token"));
    return nodes;
  }

  // tilt: weights minus those of a head that asks 0, or null where the grid is not known
  function update({ levels, weights, tilt: change, asked, read, width: room, height: tall, recomputed }) {
    height = tall;
    // Side by side where there is room for two.
    const width = change && room > 460 ? Math.floor((room - 12) / 2) : room;
    element.classList.toggle("narrow", width === room);
    const order = ascending(levels);
    const sorted = order.map((k) => levels[k]);
    const low = Math.min(sorted[0], asked);
    const high = Math.max(sorted[sorted.length - 1], asked);
    // Few tokens have wide bars, which need room at the ends.
    const pad = (high - low) * (levels.length > 8 ? 0.02 : 0.12) || 1;
    const span = high - low + 2 * pad;
    const x = (v) => SIDE.left + ((v - low + pad) / span) * (width - SIDE.left - SIDE.right);
    const top = largest(weights) || 1;
    const base = height - 28;
    const y = (w) => base - (w / top) * (base - 16);
    const xs = sorted.map(x);
    const half = barHalf(xs);
    const at = x(asked);
    const ticks = niceTicks(low, high, 5);
    main.setAttribute("viewBox", `0 0 ${width} ${height}`);
    main.setAttribute("width", width);
    main.setAttribute("height", height);
    const spoken = `largest weight ${short(top)}, asked ${short(asked)}`;
    main.setAttribute("aria-label", `Attention over ${levels.length} grid tokens, ${spoken}`);
    main.replaceChildren(
      svg("path", { class: "bars", d: bars(xs, order.map((k) => weights[k]), half, y) }),
      ...axis(width, x, ticks),
      text(SIDE.left - 6, 20, short(top, 2), "end"),
      text(SIDE.left - 6, base + 1, "0", "end"),
      svg("path", { class: "asked-line", d: `M${at.toFixed(1)} 11V${base}` }),
      text(clamp(at, 60, width - 60), 9, `asked ${short(asked)}`, "middle", { class: "asked-text" }),
    );
    const sortedChange = change && order.map((k) => change[k]);
    drawTilt({ change: sortedChange, xs, half, at, width, axis: () => axis(width, x, ticks) });
    const how = recomputed ? "recomputed: softmax(asked · linear + offset)" : "as recorded";
    const what = `Attention weights over ${levels.length} grid tokens`;
    // A reader looks for a peak that moves; it is the mean that does.
    const wide = levels.length > 8 ? " The bump is wide on purpose: its mean is the number, not its peak." : "";
    setText(caption, `${what}, ${how}; together they read ${short(read, 6)}.${wide}`);
    caption.dataset.recomputed = recomputed ? "1" : "0";
  }

  function drawTilt({ change, xs, half, at, width, axis: axisOf }) {
    tilt.toggleAttribute("hidden", !change);
    if (!change) return;
    const top = largest(change);
    const middle = (height - 28 + 14) / 2;
    const y = (w) => middle - (top ? (w / top) * (middle - 16) : 0);
    tilt.setAttribute("viewBox", `0 0 ${width} ${height}`);
    tilt.setAttribute("width", width);
    tilt.setAttribute("height", height);
    tilt.setAttribute("aria-label", `The same weights minus those of a head that asks 0, up to ${short(top)}`);
    tilt.replaceChildren(
      text(SIDE.left, 9, top ? "minus the weights of a head that asks 0" : "asks 0: no difference", "start"),
      svg("path", { class: "axis", d: `M${SIDE.left} ${middle}H${width - SIDE.right}` }),
      svg("path", { class: "bars tilted", d: bars(xs, change, half, y) }),
      text(SIDE.left - 6, 20, top ? short(top, 1) : "", "end"),
      text(SIDE.left - 6, height - 28, top ? short(-top, 1) : "", "end"),
      svg("path", { class: "asked-line", d: `M${at.toFixed(1)} 14V${height - 28}` }),
      ...axisOf(),
    );
  }
  return { element, update };
}
