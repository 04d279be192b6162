// What trace.js accepts and refuses, judged without the Python reader.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import test from "node:test";

import { TraceError } from "../../../src/icgd/pages/viewer/app/arrays.js";
import { readTrace } from "../../../src/icgd/pages/viewer/app/trace.js";

const read = (name) => readFileSync(`${process.env.ICGD_SAMPLES}/${name}.json`, "utf-8");
const network = () => JSON.parse(read("network"));
const refused = (content, pattern) =>
  assert.rejects(readTrace(typeof content === "string" ? content : JSON.stringify(content)), (error) => {
    assert.ok(error instanceof TraceError, String(error.stack));
    assert.match(error.message, pattern);
    assert.ok(error.message.length < 500);
    return true;
  });

test("a sample is read, and references become views of the pools", async () => {
  const trace = await readTrace(read("network"));
  assert.equal(trace.steps.length, 16);
  assert.equal(trace.blocks[2].slots.get("out").data.length, 3);
  assert.deepEqual(trace.grids[0].levels.length, 6);
  assert.deepEqual(trace.warnings, []);
});

test("packed and raw pools hold the same numbers", async () => {
  const packed = await readTrace(read("network"));
  const raw = network();
  for (const [name, view] of [["f8", packed.grids[0].levels], ["f4", packed.steps[0].stages[1].heads[0].weights.data]]) {
    const bytes = Buffer.from(view.buffer);
    raw.arrays[name] = { count: view.buffer.byteLength / (name === "f8" ? 8 : 4), data: bytes.toString("base64") };
  }
  const again = await readTrace(JSON.stringify(raw));
  assert.deepEqual(again.blocks[5].slots.get("out").data, packed.blocks[5].slots.get("out").data);
});

test("unknown fields are ignored", async () => {
  const content = { ...network(), later: { any: [1] } };
  content.steps[0].later = true;
  assert.equal((await readTrace(JSON.stringify(content))).steps.length, 16);
});

test("truncated, foreign and later files are refused with a reason", async () => {
  await refused(read("network").slice(0, 5000), /not valid JSON: truncated/);
  await refused("", /not valid JSON/);
  await refused("[]", /names no format/);
  await refused("null", /names no format/);
  await refused({ ...network(), format: "icgd-trace/2" }, /icgd-trace\/2.*reads.*icgd-trace\/1/);
  await refused("[".repeat(200000), /not valid JSON/);
  await refused(read("network").replace('"n_rounds": 6', '"n_rounds": NaN'), /not valid JSON/);
});

test("references must stay within their pool", async () => {
  for (const bad of [["f8", 1e9, 3], ["f8", 0, 1e9], ["f8", -1, 3], ["f8", 0.5], ["f9", 0, 3], ["f8"], ["constructor", 0], ["f8", 0, 2 ** 52, 2 ** 52], "f8"]) {
    const content = network();
    content.blocks[3].slots.out = bad;
    await refused(content, /block.*(no reference|behind the end)/);
  }
});

test("pools must hold what they claim, and no bomb unfolds", async () => {
  const content = network();
  content.arrays.f8.count += 1;
  await refused(content, /does not hold the/);
  content.arrays.f8.count = 3;
  await refused(content, /does not hold the/);
  content.arrays.f8.count = 1e12;
  await refused(content, /too many/);
  content.arrays.f8 = { count: 1, encoding: "deflate", data: "AAAA" };
  await refused(content, /does not unpack/);
  content.arrays.f8 = { count: 1, data: "*" };
  await refused(content, /not base64/);
  content.arrays.f8 = { count: 1, encoding: "zip", data: "" };
  await refused(content, /encoding is not one of/);
});

test("indices must lead somewhere", async () => {
  const change = async (edit, pattern) => {
    const content = network();
    edit(content);
    await refused(content, pattern);
  };
  await change((t) => (t.steps[3].writes = 1e9), /block that is not there/);
  await change((t) => (t.steps[3].reads = [-1]), /block that is not there/);
  await change((t) => (t.steps[3].place = 99), /not in the schedule/);
  await change((t) => (t.steps[3].round = 4), /round 4, which is not listed/);
  await change((t) => (t.steps[3].stages = [{}]), /1 stages of 3/);
  await change((t) => (t.steps[3].stages[0].open = "1"), /1 gates of 8/);
  await change((t) => (t.rounds = [2, 1]), /not ascending/);
  await change((t) => (t.n_rounds = 1e9), /6 numbers for 1000000000 rounds/);
  await change((t) => (t.steps = { length: 1e9 }), /steps is missing or no list/);
  await change((t) => delete t.blocks, /blocks is missing/);
  await change((t) => (t.program.title = 3), /program.title/);
});

test("names of the language itself are ordinary slot names", async () => {
  const source = read("network").replaceAll('"out":', '"__proto__":');
  const trace = await readTrace(source);
  assert.equal(trace.blocks[0].slots.get("__proto__").data.length, 3);
  assert.equal({}.data, undefined);
});

test("values that are not finite are counted, unknown differences are not", async () => {
  const trace = await readTrace(read("replaced"));
  assert.deepEqual(trace.warnings, []);
  assert.ok(trace.blocks[1].away.get("u").data.some(Number.isNaN));
  const content = network();
  content.arrays.f4.count = 1e3;
  content.arrays.f4 = { count: 400, data: Buffer.from(new Float32Array(400).fill(NaN).buffer).toString("base64") };
  content.blocks[2].slots.out = ["f4", 0, 3];
  assert.match((await readTrace(JSON.stringify(content))).warnings[0], /^3 recorded values/);
});
