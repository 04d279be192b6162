// Where the reader is: one position, one selection, a few choices; everything else follows from them.

export const SPEEDS = [0.5, 1, 2, 5, 10, 20, 60];

// "#round=3&step=2&block=17" both ways; whatever else a link holds is ignored.
export function parseHash(hash) {
  const found = {};
  for (const part of hash.replace(/^#/, "").split("&")) {
    const match = /^(round|step|block)=(\d{1,9})$/.exec(part);
    if (match) found[match[1]] = Number(match[2]);
  }
  return found;
}

export function formatHash(place) {
  const parts = [`round=${place.round}`, `step=${place.step}`];
  if (place.block !== undefined) parts.push(`block=${place.block}`);
  return `#${parts.join("&")}`;
}

export class State {
  constructor(model) {
    this.model = model;
    this.position = 0;
    this.playing = false;
    this.speed = 2;
    this.chosen = null;
    this.windowStart = null;
    this.colourBy = "value";
    this.heads = new Map();
    this.notice = "";
    this.theme = "auto";
    this.shown = "light";
    this.listeners = [];
  }

  subscribe(listener) {
    this.listeners.push(listener);
  }

  set(patch) {
    Object.assign(this, patch);
    for (const listener of this.listeners) listener(this, patch);
  }

  get step() {
    return this.model.trace.steps[this.position];
  }

  // The block looked at: the one chosen by hand, or else the one this step writes.
  get selected() {
    return this.chosen ?? this.step.writes;
  }

  get last() {
    return this.model.nSteps - 1;
  }

  go(position, notice = "") {
    const to = Math.min(Math.max(position, 0), this.last);
    this.set({ position: to, chosen: null, windowStart: null, notice });
  }

  move(steps) {
    this.go(this.position + steps);
  }

  // Forward to the next round; back to the start of this one, and from there to the one before.
  moveRound(direction) {
    const { starts } = this.model;
    const r = this.model.roundIndex(this.position);
    if (direction > 0) this.go(starts[r + 1] ?? this.last);
    else this.go(this.position > starts[r] ? starts[r] : starts[Math.max(r - 1, 0)]);
  }

  goRound(round) {
    const to = this.model.nearest(round);
    const found = this.model.trace.steps[to].round;
    const there = round >= 1 && round <= this.model.trace.nRounds;
    const why = there ? `Round ${round} is not recorded in detail` : `There is no round ${round}`;
    this.go(to, found === round ? "" : `${why}; this is round ${found}.`);
  }

  choose(block) {
    this.set({ chosen: block === this.step.writes ? null : block, playing: false });
  }

  // To the block beside the selected one in the prompt, as far as it has grown.
  chooseBeside(direction) {
    const { model } = this;
    const place = model.placeOf[this.selected] + direction;
    if (place >= 0 && place < model.countAt(this.position)) this.choose(model.order[place]);
  }

  play(on) {
    if (on && this.position >= this.last) this.go(0);
    this.set({ playing: on && this.last > 0 });
  }

  changeSpeed(direction) {
    const k = SPEEDS.indexOf(this.speed) + direction;
    if (k >= 0 && k < SPEEDS.length) this.set({ speed: SPEEDS[k] });
  }

  place() {
    const { round, step } = this.model.describe(this.position);
    return { round, step, block: this.chosen ?? undefined };
  }

  // Goes where a link points, as near as the recording allows.
  restore(place) {
    if (place.round === undefined) return;
    const start = this.model.nearest(place.round);
    const r = this.model.roundIndex(start);
    const step = Math.min(Math.max(place.step ?? 1, 1), this.model.stepsOfRound(r));
    this.goRound(place.round);
    this.set({ position: start + step - 1 });
    const block = place.block;
    const there = block !== undefined && block < this.model.born.length;
    if (there && this.model.born[block] <= this.position) this.choose(block);
  }
}
