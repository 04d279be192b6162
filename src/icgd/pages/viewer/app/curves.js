// One number per round: loss and error of the whole run, with a cursor at the round looked at.

import { el, setText, svg } from "./dom.js";
import { niceTicks, power, short, whole } from "./numbers.js";

const HEIGHT = 96;
const PAD = { left: 44, right: 10, top: 8, bottom: 28 };

// For each of at most `columns` groups of rounds its least and largest value: no peak is lost.
export function thin(data, columns) {
  const n = data.length;
  const points = [];
  const group = Math.max(1, Math.ceil(n / columns));
  for (let start = 0; start < n; start += group) {
    let low = -1;
    let high = -1;
    for (let i = start; i < Math.min(start + group, n); i++) {
      if (!Number.isFinite(data[i])) continue;
      if (low < 0 || data[i] < data[low]) low = i;
      if (high < 0 || data[i] > data[high]) high = i;
    }
    if (low < 0) points.push([start + 1, NaN]);
    else for (const i of new Set([Math.min(low, high), Math.max(low, high)])) points.push([i + 1, data[i]]);
  }
  return points;
}

// Least and largest finite value; on a log scale only positive ones count.
export function extent(series, log) {
  let low = Infinity;
  let high = -Infinity;
  for (const data of series) {
    for (let i = 0; i < data.length; i++) {
      const v = data[i];
      if (!Number.isFinite(v) || (log && v <= 0)) continue;
      if (v < low) low = v;
      if (v > high) high = v;
    }
  }
  return low <= high ? [low, high] : null;
}

export function isWide(range) {
  return range !== null && range[0] > 0 && range[1] / range[0] > 30;
}

function yAxis(range, log) {
  const bottom = HEIGHT - PAD.bottom;
  const span = bottom - PAD.top;
  if (log) {
    let from = Math.floor(Math.log10(range[0]));
    const to = Math.max(Math.ceil(Math.log10(range[1])), from + 1);
    if (to - from > 40) from = to - 40;
    const stride = Math.max(1, Math.ceil((to - from) / 4));
    const ticks = [];
    for (let e = from; e <= to; e += stride) ticks.push([10 ** e, power(e)]);
    const y = (v) => bottom - (Math.max(Math.log10(v) - from, -0.06) / (to - from)) * span;
    return { ticks, y };
  }
  const low = Math.min(range[0], 0);
  const high = range[1] > low ? range[1] : low + 1;
  const ticks = niceTicks(low, high, 3).map((t) => [t, short(t, 2)]);
  return { ticks, y: (v) => bottom - ((v - low) / (high - low)) * span };
}

function pathOf(points, x, y, log) {
  let path = "";
  let pen = "M";
  for (const [round, value] of points) {
    if (!Number.isFinite(value)) {
      pen = "M";
      continue;
    }
    // A difference of exactly 0 has no logarithm: it lies on the floor of the plot.
    const at = log && value <= 0 ? HEIGHT - PAD.bottom + 3 : y(value);
    path += `${pen}${x(round).toFixed(1)} ${at.toFixed(1)}`;
    pen = "L";
  }
  return path;
}

const label = (x, y, content, anchor) => svg("text", { x, y, "text-anchor": anchor }, content);

function createPlot(state, spec) {
  const { model } = state;
  const { nRounds } = model.trace;
  const picture = svg("svg", { class: "curve", height: HEIGHT, role: "img", "aria-label": spec.title });
  const cursor = svg("path", { class: "cursor" });
  const dots = svg("g");
  // What moves lies over what does not: a long curve is laid out once, not at every step.
  const moving = svg("svg", { class: "curve moving", height: HEIGHT, "aria-hidden": "true" }, cursor, dots);
  const reading = el("span", { class: "reading" });
  const unit = el("p", { class: "curve-unit" });
  const element = el(
    "figure",
    { class: "curve-frame" },
    el("figcaption", {}, el("span", { class: "curve-title" }, spec.title), reading),
    unit,
    el("div", { class: "curve-box" }, picture, moving),
  );
  let axes = null;

  picture.addEventListener("click", (event) => {
    const at = event.clientX - picture.getBoundingClientRect().left;
    state.set({ playing: false });
    state.goRound(Math.round(axes.roundAt(at)));
  });

  function build(width) {
    const series = spec.lines.map((line) => line.data);
    const range = extent(series, spec.log) ?? (spec.log ? [1e-17, 1e-16] : [0, 1]);
    const log = spec.log || (spec.auto && isWide(range));
    const { ticks, y } = yAxis(range, log);
    const right = width - PAD.right;
    const scale = (right - PAD.left) / Math.max(nRounds - 1, 1);
    const x = (round) => (nRounds === 1 ? (PAD.left + right) / 2 : PAD.left + (round - 1) * scale);
    const roundAt = (at) => Math.min(Math.max(1 + (at - PAD.left) / scale, 1), nRounds);
    axes = { x, y, log, roundAt };
    const bottom = HEIGHT - PAD.bottom;
    picture.setAttribute("viewBox", `0 0 ${width} ${HEIGHT}`);
    const nodes = ticks.flatMap(([value, name]) => [
      svg("path", { class: "rule", d: `M${PAD.left} ${y(value).toFixed(1)}H${right}` }),
      label(PAD.left - 5, (y(value) + 3.5).toFixed(1), name, "end"),
    ]);
    nodes.push(...coverage(x, bottom, scale));
    nodes.push(
      label(PAD.left, HEIGHT - 4, "1", "middle"),
      label((PAD.left + right) / 2, HEIGHT - 4, "round", "middle"),
      label(right, HEIGHT - 4, whole(nRounds), "end"),
    );
    setText(unit, `${spec.unit}${log ? ", log scale" : ""}`);
    unit.title = unit.textContent;
    for (const line of spec.lines) {
      const d = pathOf(thin(line.data, width), x, y, log);
      nodes.push(svg("path", { class: `line ${line.name}`, d }));
    }
    moving.setAttribute("viewBox", `0 0 ${width} ${HEIGHT}`);
    picture.replaceChildren(...nodes);
  }

  // Under the axis: rounds recorded in detail as a bar, the rest left open.
  function coverage(x, bottom, scale) {
    let path = "";
    const { rounds } = model.trace;
    for (let i = 0; i < rounds.length; i++) {
      const start = rounds[i];
      while (i + 1 < rounds.length && rounds[i + 1] === rounds[i] + 1) i++;
      const w = Math.max((rounds[i] - start) * scale, 0) + Math.max(Math.min(scale * 0.6, 6), 1.5);
      path += `M${(x(start) - 1).toFixed(1)} ${bottom + 7}h${w.toFixed(1)}v5h${(-w).toFixed(1)}z`;
    }
    const track = svg("path", { class: "gap-track", d: `M${PAD.left} ${bottom + 9.5}H${x(nRounds)}` });
    return [track, svg("path", { class: "recorded", d: path }, svg("title", {}, "rounds recorded in detail"))];
  }

  let builtFor = 0;
  function update(width) {
    if (width !== builtFor) build((builtFor = width));
    const { round } = model.describe(state.position);
    const x = axes.x(round);
    cursor.setAttribute("d", `M${x.toFixed(1)} ${PAD.top - 4}V${HEIGHT - PAD.bottom + 12}`);
    const marks = spec.lines.flatMap((line) => {
      const v = line.data[round - 1];
      if (!Number.isFinite(v)) return [];
      const y = axes.log && v <= 0 ? HEIGHT - PAD.bottom + 3 : axes.y(v);
      const r = line.name === "exact" ? 4.5 : 2.5;
      return [svg("circle", { class: `dot ${line.name}`, cx: x.toFixed(1), cy: y.toFixed(1), r })];
    });
    dots.replaceChildren(...marks);
    setText(reading, spec.lines.map((line) => `${line.title}${short(line.data[round - 1], 4)}`).join(" · "));
  }
  return { element, update };
}

// What there is to plot; a curve that is not recorded, or a range never used, has no plot.
function plotsOf({ curves, program }) {
  const plots = [];
  const losses = [];
  if (curves.exact_loss) losses.push({ name: "exact", title: "exact ", data: curves.exact_loss });
  if (curves.loss) losses.push({ name: "ours", title: "transformer ", data: curves.loss });
  if (losses.length) plots.push({ title: "Loss", unit: curves.loss_title, lines: losses, auto: true });
  if (curves.error) {
    const lines = [{ name: "error", title: "", data: curves.error }];
    plots.push({ title: "Error", unit: "largest |weight − exact weight|", lines, log: true });
  }
  if (curves.range_use && curves.range_use.some((v) => v !== 0)) {
    const lines = [{ name: "use", title: "", data: curves.range_use }];
    const radius = program.radius ? ` (${short(program.radius)})` : "";
    plots.push({ title: "Range use", unit: `largest |asked| / radius${radius}`, lines, auto: true });
  }
  return plots;
}

function createKey() {
  const [ours, exact] = ["key ours", "key exact"].map((name) => el("span", { class: name }));
  return el("p", { class: "soft curve-key" }, ours, "transformer ", exact, "exact optimizer");
}

export function createCurves(state) {
  const plots = plotsOf(state.model.trace);
  const parts = plots.map((spec) => createPlot(state, spec));
  const frame = el(
    "div",
    { class: "panel-scroll" },
    plots.some((plot) => plot.lines.length > 1) && createKey(),
    !parts.length && el("p", { class: "unknown" }, "No curves are recorded."),
    ...parts.map((part) => part.element),
    el("p", { class: "soft coverage" }, state.model.coverage()),
  );
  const hint = parts.length ? "click to go to a round" : "";
  const element = el(
    "section",
    { class: "panel", id: "curves-panel", "aria-label": "Curves" },
    el("header", { class: "panel-head" }, el("h2", {}, "The whole run"), el("span", { class: "soft" }, hint)),
    frame,
  );

  let width = 280;
  function measure() {
    width = Math.max(frame.clientWidth - 16, 220);
  }

  function update() {
    for (const part of parts) part.update(width);
  }
  return { element, measure, update };
}
