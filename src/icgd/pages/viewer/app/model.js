// What follows from a trace: when each block came, where rounds begin, what a step is called.

import { volume } from "./arrays.js";
import { blockLabel, plural, ranges, whole } from "./numbers.js";

// "update: one step of …" stands behind the word "update" already.
function withoutPrefix(text, prefix) {
  return text.startsWith(prefix) ? text.slice(prefix.length) : text;
}

function firstStep(steps, test) {
  const found = steps.findIndex(test);
  return found < 0 ? steps.length : found;
}

// The step at which a block is there: those of the prompt before all, those written when written.
function births(trace) {
  const { steps, blocks } = trace;
  const born = new Float64Array(blocks.length).fill(-1);
  const firstOf = new Map();
  const arrivals = (round, strictly) => {
    const key = strictly ? round + 0.5 : round;
    if (!firstOf.has(key)) firstOf.set(key, firstStep(steps, (s) => s.round >= key));
    return firstOf.get(key);
  };
  blocks.forEach((block, i) => {
    if (block.origin === "arrival") born[i] = arrivals(block.round, false);
    else if (block.origin === "earlier") born[i] = arrivals(block.round, true);
    else if (block.origin === "step") born[i] = steps.length;
  });
  for (let i = steps.length - 1; i >= 0; i--) {
    if (blocks[steps[i].writes].origin === "step") born[steps[i].writes] = i;
  }
  return born;
}

export class Model {
  constructor(trace) {
    this.trace = trace;
    this.nSteps = trace.steps.length;
    this.born = births(trace);
    // What was kept of an earlier round, then what this round brings, then what is written.
    const later = { prompt: 0, earlier: 0, arrival: 0.25, step: 0.5 };
    const rank = (b) => this.born[b] + later[trace.blocks[b].origin];
    this.order = trace.blocks.map((_, b) => b).sort((a, b) => rank(a) - rank(b) || a - b);
    this.placeOf = new Int32Array(trace.blocks.length);
    this.order.forEach((b, place) => (this.placeOf[b] = place));
    this.starts = [];
    trace.steps.forEach((step, i) => {
      if (i === 0 || step.round !== trace.steps[i - 1].round) this.starts.push(i);
    });
    this.width = trace.layout.reduce((sum, slot) => sum + volume(slot.shape), 0);
    this.kindTitles = new Map(trace.kinds.map((k) => [k.kind, k.title]));
    this.kindPlaces = new Map(trace.kinds.map((k, i) => [k.kind, i % 8]));
    this.grids = new Map(trace.grids.map((grid) => [grid.bank, grid]));
  }

  // How many blocks of `order` are there once step i has written.
  countAt(i) {
    let low = 0;
    let high = this.order.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (this.born[this.order[middle]] <= i) low = middle + 1;
      else high = middle;
    }
    return low;
  }

  // Index into `starts` of the round that step i belongs to.
  roundIndex(i) {
    let low = 0;
    let high = this.starts.length;
    while (high - low > 1) {
      const middle = (low + high) >> 1;
      if (this.starts[middle] <= i) low = middle;
      else high = middle;
    }
    return low;
  }

  stepsOfRound(r) {
    return (this.starts[r + 1] ?? this.nSteps) - this.starts[r];
  }

  // The first step of the recorded round nearest to `round`.
  nearest(round) {
    let best = 0;
    for (const start of this.starts) {
      const away = Math.abs(this.trace.steps[start].round - round);
      if (away < Math.abs(this.trace.steps[best].round - round)) best = start;
    }
    return best;
  }

  // Rounds left out between recorded round r - 1 and r, in the order of `starts`.
  missingBefore(r) {
    const round = this.trace.steps[this.starts[r]].round;
    const before = r > 0 ? this.trace.steps[this.starts[r - 1]].round : 0;
    return Math.max(0, round - before - 1);
  }

  missingAfter() {
    const last = this.nSteps ? this.trace.steps[this.nSteps - 1].round : 0;
    return this.trace.nRounds - last;
  }

  // Attributes that give an element the colour of a kind: by name, or by its place if the name has none.
  hue(kind) {
    return { "data-kind": kind, "data-kind-place": this.kindPlaces.get(kind) ?? 0 };
  }

  label(b) {
    const block = this.trace.blocks[b];
    return blockLabel(block.kind, block.layer);
  }

  describe(i) {
    const step = this.trace.steps[i];
    const planned = this.trace.schedule[step.place];
    const r = this.roundIndex(i);
    const [, layer] = planned.writes;
    return {
      round: step.round,
      step: i - this.starts[r] + 1,
      ofSteps: this.stepsOfRound(r),
      kind: planned.kind,
      layer,
      type: layer > 0 ? `${planned.kind}, layer ${layer}` : planned.kind,
      title: withoutPrefix(planned.title, `${planned.kind}: `),
    };
  }

  sentence(i) {
    const at = this.describe(i);
    return (
      `round ${whole(at.round)} of ${whole(this.trace.nRounds)} · ` +
      `step ${at.step} of ${at.ofSteps} · ${at.type}`
    );
  }

  // What is not recorded, in words.
  coverage() {
    const { rounds, nRounds } = this.trace;
    if (!this.nSteps) return "No step of this run is recorded in detail; only its curves are.";
    if (rounds.length === nRounds) return `All ${plural(nRounds, "round")} are recorded in detail.`;
    return (
      `${whole(rounds.length)} of ${plural(nRounds, "round")} are recorded in detail: ` +
      `${ranges(rounds)}. The curves cover all rounds.`
    );
  }

  originText(b) {
    const block = this.trace.blocks[b];
    const round = whole(block.round);
    if (block.origin === "prompt") return "in the prompt from the start";
    if (block.origin === "arrival") return `given in round ${round}`;
    if (block.origin === "earlier") return `written in round ${round}, which is not recorded`;
    const i = this.born[b];
    return i < this.nSteps
      ? `written in round ${round}, step ${this.describe(i).step}`
      : `written in round ${round}`;
  }
}
