// Reads a trace with every doubt: what passes here leads nowhere but to numbers and text.
//
// Fields this file does not know are ignored, so that a later writer may add some.

import { TraceError, countNotFinite, decodePool, tensor, volume } from "./arrays.js";

export const FORMAT = "icgd-trace/1";
const STAGE_KINDS = ["feed_forward", "softmax", "relu", "tanh", "sigmoid", "linear", "product"];
const ORIGINS = ["prompt", "arrival", "step", "earlier"];

export function clip(text, length = 80) {
  const plain = String(text);
  return plain.length > length ? `${plain.slice(0, length - 1)}…` : plain;
}

function fail(where, what) {
  throw new TraceError(`This is not a valid trace: ${clip(where, 120)} ${what}.`);
}

const isObject = (value) => typeof value === "object" && value !== null && !Array.isArray(value);
const isCount = (value) => Number.isSafeInteger(value) && value >= 0;

function object(value, where) {
  if (!isObject(value)) fail(where, "is missing or no object");
  return value;
}

function list(value, where) {
  if (!Array.isArray(value)) fail(where, "is missing or no list");
  return value;
}

function text(value, where, fallback) {
  if (value === undefined && fallback !== undefined) return fallback;
  if (typeof value !== "string") fail(where, "is missing or no text");
  return value;
}

function count(value, where, least = 0) {
  if (!isCount(value) || value < least) fail(where, `is no whole number from ${least} on`);
  return value;
}

function choice(value, where, options) {
  if (!options.includes(value)) fail(where, `is not one of ${options.join(", ")}`);
  return value;
}

// One reader per file: it knows the pools, so that every reference is checked where it is met.
class Reader {
  constructor(pools) {
    this.pools = pools;
    this.nNotFinite = 0;
  }

  reference(value, where) {
    if (!Array.isArray(value) || value.length < 2 || value.length > 6) fail(where, "is no reference");
    const [name, ...places] = value;
    const pool = Object.hasOwn(this.pools, name) ? this.pools[name] : null;
    if (!pool || !places.every(isCount)) fail(where, "is no reference");
    if (places[0] + volume(places.slice(1)) > pool.length) {
      fail(where, `points behind the end of pool ${name}`);
    }
    return tensor(this.pools, value);
  }

  maybe(value, where) {
    return value === undefined || value === null ? null : this.reference(value, where);
  }

  // slot -> tensor; a Map, because a slot may be called "__proto__" or "constructor".
  slots(value, where) {
    const found = new Map();
    for (const [name, entry] of Object.entries(object(value ?? {}, where))) {
      if (typeof entry === "number") found.set(name, tensor(this.pools, entry));
      else found.set(name, this.reference(entry, `${where}.${name}`));
    }
    return found;
  }

  // In differences NaN says "not known for this entry"; among values it is worth a warning.
  values(value, where) {
    const found = this.slots(value, where);
    for (const { data } of found.values()) this.nNotFinite += countNotFinite(data);
    return found;
  }

  heads(value, where) {
    object(value, where);
    const over = choice(value.over, `${where}.over`, ["grid", "tokens", "units"]);
    return {
      bank: text(value.bank, `${where}.bank`),
      slot: text(value.slot, `${where}.slot`),
      over,
      asked: this.reference(value.asked, `${where}.asked`),
      read: this.maybe(value.read, `${where}.read`),
      heads: list(value.heads, `${where}.heads`).map((h) => count(h, `${where}.heads`)),
      weights: this.maybe(value.weights, `${where}.weights`),
      use: typeof value.use === "number" ? value.use : null,
    };
  }

  stage(value, where, info) {
    object(value, where);
    const open = text(value.open, `${where}.open`, "");
    if (!/^[01]*$/.test(open) || (open && open.length !== info.gates.length)) {
      fail(where, `tells ${open.length} gates of ${info.gates.length}`);
    }
    return {
      open,
      slots: this.values(value.slots, `${where}.slots`),
      heads: list(value.heads ?? [], `${where}.heads`).map((h, i) =>
        this.heads(h, `${where}.heads[${i}]`),
      ),
    };
  }

  step(value, where, known) {
    object(value, where);
    const step = {
      round: count(value.round, `${where}.round`, 1),
      place: count(value.place, `${where}.place`),
      reads: list(value.reads, `${where}.reads`),
      writes: count(value.writes, `${where}.writes`),
    };
    for (const block of [...step.reads, step.writes]) {
      if (!isCount(block) || block >= known.nBlocks) fail(where, "names a block that is not there");
    }
    if (step.place >= known.schedule.length) fail(where, "is not in the schedule");
    if (!known.rounds.has(step.round)) fail(where, `belongs to round ${step.round}, which is not listed`);
    const stages = list(value.stages ?? [], `${where}.stages`);
    if (stages.length && stages.length !== known.stages.length) {
      fail(where, `has ${stages.length} stages of ${known.stages.length}`);
    }
    step.stages = stages.map((s, i) => this.stage(s, `${where}.stages[${i}]`, known.stages[i]));
    return step;
  }

  block(value, where) {
    object(value, where);
    return {
      kind: text(value.kind, `${where}.kind`),
      layer: count(value.layer, `${where}.layer`),
      round: count(value.round, `${where}.round`),
      origin: choice(value.origin, `${where}.origin`, ORIGINS),
      slots: this.values(value.slots, `${where}.slots`),
      away: this.slots(value.away, `${where}.away`),
      tokens: count(value.tokens ?? 1, `${where}.tokens`, 1),
      shown: count(value.shown ?? 1, `${where}.shown`, 1),
    };
  }
}

function slotInfo(value, where) {
  object(value, where);
  return {
    name: text(value.name, `${where}.name`),
    shape: list(value.shape, `${where}.shape`).map((n) => count(n, `${where}.shape`, 1)),
    meaning: text(value.meaning, `${where}.meaning`, ""),
    each: value.each === true,
  };
}

const slotList = (value, where) => list(value, where).map((s, i) => slotInfo(s, `${where}[${i}]`));

function programInfo(value) {
  object(value, "program");
  const program = { radius: null, head_error: null };
  for (const name of ["construction", "title", "dtype", "executor"]) {
    program[name] = text(value[name], `program.${name}`);
  }
  program.feed = choice(value.feed, "program.feed", ["append", "replace"]);
  for (const name of ["problem", "optimizer", "options"]) {
    program[name] = object(value[name], `program.${name}`);
  }
  for (const name of ["radius", "head_error"]) {
    if (Number.isFinite(value[name])) program[name] = value[name];
  }
  return program;
}

function address(value, where) {
  if (!Array.isArray(value) || value.length !== 2) fail(where, "is no pair of kind and layer");
  return [text(value[0], where), count(value[1], where)];
}

function scheduledStep(value, i) {
  const where = `schedule[${i}]`;
  object(value, where);
  return {
    kind: text(value.kind, `${where}.kind`),
    title: text(value.title, `${where}.title`),
    writes: address(value.writes, `${where}.writes`),
    reads: list(value.reads, `${where}.reads`).map((a) => address(a, `${where}.reads`)),
  };
}

function stageInfo(value, i) {
  const where = `stages[${i}]`;
  object(value, where);
  return {
    name: text(value.name, `${where}.name`),
    kind: choice(value.kind, `${where}.kind`, STAGE_KINDS),
    title: text(value.title, `${where}.title`),
    slots: slotList(value.slots, `${where}.slots`),
    gates: list(value.gates ?? [], `${where}.gates`).map((g) => text(g, `${where}.gates`)),
  };
}

function gridInfo(reader, value, i) {
  const where = `grids[${i}]`;
  object(value, where);
  const grid = { bank: text(value.bank, `${where}.bank`) };
  for (const name of ["levels", "linear", "offset", "values"]) {
    grid[name] = reader.reference(value[name], `${where}.${name}`).data;
    if (grid[name].length !== grid.levels.length) fail(where, "has tables of different lengths");
  }
  return grid;
}

function curvesOf(reader, value, nRounds) {
  object(value, "curves");
  const curves = { loss_title: text(value.loss_title, "curves.loss_title", "loss") };
  for (const name of ["error", "loss", "exact_loss", "range_use"]) {
    const curve = reader.maybe(value[name], `curves.${name}`);
    if (curve && (curve.shape.length !== 1 || curve.shape[0] !== nRounds)) {
      fail(`curves.${name}`, `has ${curve.data.length} numbers for ${nRounds} rounds`);
    }
    curves[name] = curve ? curve.data : null;
  }
  return curves;
}

function roundsOf(value, nRounds) {
  const rounds = list(value, "rounds").map((r) => count(r, "rounds", 1));
  if (rounds.some((r, i) => r > nRounds || (i > 0 && r <= rounds[i - 1]))) {
    fail("rounds", "are not ascending, or beyond the last one");
  }
  return rounds;
}

function parse(source) {
  let raw;
  try {
    raw = JSON.parse(source);
  } catch (error) {
    throw new TraceError(
      `The trace is not valid JSON: truncated or damaged (${clip(error.message, 120)}). ` +
        "Record it again: icgd run ... --trace.",
    );
  }
  if (!isObject(raw) || typeof raw.format !== "string") {
    throw new TraceError("This is not a trace: it names no format.");
  }
  if (raw.format !== FORMAT) {
    throw new TraceError(
      `The trace has format “${clip(raw.format, 60)}”; this viewer reads “${FORMAT}”. ` +
        "Record it again, or open it with the version of icgd that wrote it.",
    );
  }
  return raw;
}

// The trace with every reference resolved to a view of its pool; `warnings` is for the reader's eye.
export async function readTrace(source) {
  const raw = parse(source);
  const pools = {};
  for (const [name, pool] of Object.entries(object(raw.arrays, "arrays"))) {
    choice(name, "arrays", ["f8", "f4"]);
    object(pool, `arrays.${name}`);
    count(pool.count, `arrays.${name}.count`);
    text(pool.data, `arrays.${name}.data`);
    choice(pool.encoding ?? "raw", `arrays.${name}.encoding`, ["raw", "deflate"]);
    pools[name] = await decodePool(name, pool);
  }
  const reader = new Reader(pools);
  const nRounds = count(raw.n_rounds, "n_rounds", 1);
  const trace = {
    version: text(raw.icgd_version, "icgd_version"),
    program: programInfo(raw.program),
    layout: slotList(raw.layout, "layout"),
    kinds: list(raw.kinds, "kinds").map((k, i) => ({
      kind: text(object(k, `kinds[${i}]`).kind, `kinds[${i}].kind`),
      title: text(k.title, `kinds[${i}].title`),
    })),
    schedule: list(raw.schedule, "schedule").map(scheduledStep),
    stages: list(raw.stages, "stages").map(stageInfo),
    grids: list(raw.grids ?? [], "grids").map((g, i) => gridInfo(reader, g, i)),
    nRounds,
    rounds: roundsOf(raw.rounds, nRounds),
    curves: curvesOf(reader, raw.curves, nRounds),
    blocks: list(raw.blocks, "blocks").map((b, i) => reader.block(b, `blocks[${i}]`)),
    notes: list(raw.notes ?? [], "notes").map((n) => text(n, "notes")),
  };
  const known = { ...trace, nBlocks: trace.blocks.length, rounds: new Set(trace.rounds) };
  trace.steps = list(raw.steps, "steps").map((s, i) => reader.step(s, `steps[${i}]`, known));
  trace.warnings = reader.nNotFinite
    ? [`${reader.nNotFinite} recorded values are not finite numbers; their cells are drawn in magenta.`]
    : [];
  return trace;
}
