// Modules without a page: what follows from a trace, scales, numbers, the softmax, links.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import test from "node:test";

const app = (name) => import(`../../../src/icgd/pages/viewer/app/${name}.js`);
const { asMatrix, indexText } = await app("arrays");
const { decades, paint, palette, signedScale } = await app("colours");
const { extent, thin } = await app("curves");
const { groupGates } = await app("gates");
const { fit } = await app("heatmap");
const { actionFor } = await app("keyboard");
const { Model } = await app("model");
const { blockLabel, full, niceTicks, ranges, short } = await app("numbers");
const { slotViews } = await app("slots");
const { answer, headWeights, softmax } = await app("softmax");
const { State, formatHash, parseHash } = await app("state");
const { cellSize } = await app("statematrix");
const { windowOf } = await app("strip");
const { stepAtX, tracks, xOfStep } = await app("timeline");
const { readTrace } = await app("trace");

const sample = async (name) => readTrace(readFileSync(`${process.env.ICGD_SAMPLES}/${name}.json`, "utf-8"));
const trace = await sample("network");
const model = new Model(trace);

test("the prompt grows: given blocks first, then arrivals, then what is written", () => {
  const labels = (i) => model.order.slice(0, model.countAt(i)).map((b) => model.label(b)).join(" ");
  assert.equal(labels(0), "B₁ B₂ X Y F₁");
  assert.equal(labels(3), "B₁ B₂ X Y F₁ F₂ B₂ B₁");
  assert.equal(model.countAt(model.nSteps - 1), trace.blocks.length);
  trace.steps.forEach((step, i) => {
    const there = new Set(model.order.slice(0, model.countAt(i)));
    assert.ok([...step.reads, step.writes].every((b) => there.has(b)));
    assert.equal(model.order[model.countAt(i) - 1], step.writes);
  });
});

test("rounds, steps and gaps are told in words", () => {
  assert.equal(model.sentence(6), "round 2 of 6 · step 3 of 4 · y, layer 2");
  assert.equal(model.coverage(), "4 of 6 rounds are recorded in detail: 1–2, 5–6. The curves cover all rounds.");
  assert.deepEqual(model.starts.map((_, r) => model.missingBefore(r)), [0, 0, 2, 0]);
  assert.equal(model.nearest(4), 8);
  assert.equal(model.originText(model.order.find((b) => trace.blocks[b].origin === "earlier")), "written in round 4, which is not recorded");
});

test("the slider has a place for every step and every gap", () => {
  const lines = tracks(model, 600);
  assert.equal(lines.gaps.length, 1);
  assert.equal(lines.gaps[0].missing, 2);
  for (let i = 0; i < model.nSteps; i++) assert.equal(stepAtX(lines, xOfStep(lines, model, i)), i);
  assert.equal(stepAtX(lines, -5), 0);
  assert.equal(stepAtX(lines, 1e9), model.nSteps - 1);
});

test("moving by steps and rounds stays within the recording", () => {
  const state = new State(model);
  state.move(-1);
  assert.equal(state.position, 0);
  state.moveRound(1);
  assert.equal(state.position, 4);
  state.move(2);
  state.moveRound(-1);
  assert.equal(state.position, 4);
  state.moveRound(-1);
  assert.equal(state.position, 0);
  state.go(1e9);
  assert.equal(state.position, 15);
  state.goRound(3);
  assert.equal(state.step.round, 2);
  assert.match(state.notice, /Round 3 is not recorded in detail/);
});

test("links lead back, and nonsense in them is ignored", () => {
  const state = new State(model);
  state.go(6);
  state.choose(model.order[0]);
  const link = formatHash(state.place());
  assert.equal(link, `#round=2&step=3&block=${model.order[0]}`);
  const other = new State(model);
  other.restore(parseHash(link));
  assert.equal(other.position, 6);
  assert.equal(other.selected, state.selected);
  assert.deepEqual(parseHash("#round=<script>&step=-1&block=1e9&x=2"), {});
  other.restore(parseHash("#round=999999999&step=999&block=999999"));
  assert.equal(other.position, 15);
});

test("a block's slots: value, difference and what is exactly zero", () => {
  const { views, zero } = slotViews(trace.layout, trace.blocks[0]);
  assert.deepEqual(zero, ["weight", "not_backward"]);
  assert.deepEqual(views.map((v) => v.name), ["out", "not_forward"]);
  const away = new Map([["weight", { data: Float32Array.of(0, 2), shape: [2] }]]);
  const odd = slotViews(trace.layout, { slots: new Map(), away });
  assert.deepEqual(Array.from(odd.views[0].value.data), [0, 0]);
});

test("recorded weights are taken, others recomputed and equal to them", () => {
  const [entry] = trace.steps[0].stages[1].heads;
  const grid = model.grids.get(entry.bank);
  const recorded = headWeights(entry, grid, 1);
  assert.equal(recorded.recomputed, false);
  const again = softmax(entry.asked.data[1], grid.linear, grid.offset);
  recorded.weights.forEach((w, k) => assert.ok(Math.abs(w - again[k]) < 1e-7));
  const other = headWeights(entry, grid, 0);
  assert.equal(other.recomputed, true);
  assert.ok(Math.abs(answer(other.weights, grid.values) - entry.read.data[0]) < 1e-12);
  assert.equal(headWeights(entry, null, 0), null);
  assert.deepEqual(Array.from(softmax(1e6, [1, -1], [0, 0])), [1, 0]);
});

test("the colour of zero is the neutral one, of either sign apart, of NaN neither", () => {
  for (const theme of ["light", "dark"]) {
    const pixels = new Uint8ClampedArray(16);
    paint(pixels, [0, -2, 2, NaN], signedScale(2), palette(theme));
    const [zero, minus, plus, odd] = [0, 4, 8, 12].map((at) => Array.from(pixels.slice(at, at + 3)));
    const neutral = palette(theme).blank;
    assert.ok(zero.every((c, i) => Math.abs(c - neutral[i]) <= 2));
    assert.ok(minus[2] > minus[0] && plus[0] > plus[2]);
    assert.deepEqual(odd, palette(theme).odd);
  }
});

test("a scale of differences spans whole decades", () => {
  const scale = decades([[0, 3e-17], [-2e-15, NaN]]);
  assert.ok(Math.abs(scale.low / 1e-17 - 1) < 1e-9 && Math.abs(scale.high / 1e-14 - 1) < 1e-9);
  assert.equal(scale.index(0), -1);
  assert.equal(decades([[0, 0]]), null);
});

test("heat maps fit their box; long vectors wrap", () => {
  assert.deepEqual(fit({ rows: 4, cols: 4 }, { width: 300, height: 160, most: 20 }).w, 20);
  const wide = fit(asMatrix({ data: new Float64Array(442), shape: [442] }), { width: 266, height: 160 });
  assert.ok(wide.wrapped && wide.rows * wide.cols >= 442 && wide.cols * wide.w <= 266);
  const big = fit({ rows: 64, cols: 64 }, { width: 266, height: 168 });
  assert.ok(big.w === big.h && big.w >= 2 && big.w * 64 <= 266);
  assert.deepEqual(cellSize({ tokens: 442, entries: 10, width: 266, height: 300 }), { w: 2, h: 13 });
  assert.equal(indexText([2, 3], 5), "[1, 2]");
  assert.equal(indexText([], 0), "");
});

test("curves are thinned without losing peaks, and gaps stay gaps", () => {
  const data = new Float64Array(10000).fill(1);
  data[7777] = 50;
  const points = thin(data, 100);
  assert.ok(points.length <= 200 && points.some(([round, v]) => round === 7778 && v === 50));
  assert.deepEqual(extent([[0, 2, NaN, Infinity]], true), [2, 2]);
  assert.equal(extent([[0]], true), null);
});

test("the window of blocks ends with the newest unless moved", () => {
  assert.deepEqual(windowOf({ count: 100, room: 20, start: null }), { from: 80, to: 100 });
  assert.deepEqual(windowOf({ count: 5, room: 20, start: null }), { from: 0, to: 5 });
  assert.deepEqual(windowOf({ count: 100, room: 20, start: 95 }), { from: 80, to: 100 });
});

test("gates are grouped by the kind of step", () => {
  assert.deepEqual([...groupGates(["x:a>b", "x:c", "plain", ":odd"]).keys()], ["x", ""]);
});

test("numbers are short where read at a glance and full where exact", () => {
  assert.equal(short(2.7e-15), "2.7·10⁻¹⁵");
  assert.equal(short(-0.48213), "−0.482");
  assert.equal(short(1024), "1,024");
  assert.equal(short(1e-5), "10⁻⁵");
  assert.equal(short(NaN), "NaN");
  assert.equal(full(0.1 + 0.2), "0.30000000000000004");
  assert.equal(full(-0), "-0");
  assert.equal(blockLabel("F", 12), "F₁₂");
  assert.equal(blockLabel("X", 0), "X");
  assert.equal(ranges([1, 2, 3, 7, 9, 10]), "1–3, 7, 9–10");
  assert.deepEqual(niceTicks(-4200, 4200, 5), [-4000, -2000, 0, 2000, 4000]);
});

test("keys act as the help says", () => {
  const action = (key, shiftKey = false) => actionFor({ key, shiftKey })?.title;
  assert.equal(action("ArrowRight"), "step forward");
  assert.equal(action("ArrowRight", true), "round forward");
  assert.equal(action("?", true), "this help");
  assert.equal(actionFor({ key: "r", ctrlKey: true }), null);
});
