// Puts the page together, plays it, and keeps link, theme and drawing in step with the state.

import { TraceError } from "./arrays.js";
import { createCurves } from "./curves.js";
import { el } from "./dom.js";
import { createHeader } from "./header.js";
import { listen } from "./keyboard.js";
import { createLayer } from "./layer.js";
import { Model } from "./model.js";
import { createSlots } from "./slots.js";
import { State, formatHash, parseHash } from "./state.js";
import { createStrip } from "./strip.js";
import { createTimeline } from "./timeline.js";
import { createTip } from "./tip.js";
import { clip, readTrace } from "./trace.js";

function complain(error) {
  const known = error instanceof TraceError;
  const odd = `The viewer met something it did not expect: ${clip(error?.message ?? error, 200)}.`;
  const text = known ? error.message : odd;
  const told = text.includes("Record it again");
  const remedy = "Record it again with icgd run … --trace, or check that the file was copied completely.";
  document.body.replaceChildren(
    el(
      "main",
      { class: "failure", id: "failure", role: "alert" },
      el("h1", {}, "This trace cannot be shown"),
      el("p", {}, text),
      !told && el("p", { class: "soft" }, remedy),
    ),
  );
  document.body.dataset.ready = "failed";
}

// Rewriting the address at every step of a film would be refused by browsers: wait for rest.
function keepLink(state) {
  let timer = 0;
  let own = "";
  state.subscribe(() => {
    clearTimeout(timer);
    timer = setTimeout(() => {
      own = formatHash(state.place());
      if (own !== location.hash) history.replaceState(null, "", own);
    }, 250);
  });
  addEventListener("hashchange", () => {
    if (location.hash !== own) state.restore(parseHash(location.hash));
  });
}

function keepTheme(state) {
  const dark = matchMedia("(prefers-color-scheme: dark)");
  const apply = () => {
    const shown = state.theme === "auto" ? (dark.matches ? "dark" : "light") : state.theme;
    document.documentElement.dataset.theme = shown;
    if (state.shown !== shown) state.set({ shown });
  };
  state.subscribe((_, patch) => {
    if (!("theme" in patch)) return;
    // Pages without an address of their own may have no storage; the choice then lasts for the page.
    try {
      localStorage.setItem("icgd-theme", state.theme);
    } catch {
      /* not kept */
    }
    apply();
  });
  dark.addEventListener("change", apply);
  try {
    const kept = localStorage.getItem("icgd-theme");
    if (["light", "dark"].includes(kept)) state.theme = kept;
  } catch {
    /* not kept */
  }
  apply();
}

function keepPlaying(state) {
  let timer = 0;
  const tick = () => {
    timer = 0;
    if (!state.playing) return;
    if (state.position >= state.last) return void state.set({ playing: false });
    timer = setTimeout(tick, 1000 / state.speed);
    return void state.move(1);
  };
  state.subscribe((_, patch) => {
    if (!("playing" in patch) && !("speed" in patch)) return;
    clearTimeout(timer);
    timer = state.playing ? setTimeout(tick, 1000 / state.speed) : 0;
  });
}

function build(model) {
  const state = new State(model);
  keepTheme(state);
  const tip = createTip();
  const header = createHeader(state);
  if (!model.nSteps) {
    const words = el("main", { class: "failure", id: "failure" }, el("p", {}, model.coverage()));
    document.body.replaceChildren(header.element, words);
    return null;
  }
  const [timeline, strip] = [createTimeline(state), createStrip(state)];
  const [slots, layer, curves] = [createSlots(tip, state), createLayer(tip, state), createCurves(state)];
  const parts = [header, timeline, strip, slots, layer, curves];
  const main = el("main", { class: "panels" }, slots.element, layer.element, curves.element);
  document.body.replaceChildren(header.element, timeline.element, strip.element, main, tip.element, tip.spoken);
  // A title given to the page stays.
  if (document.title === "icgd trace") document.title = `${clip(model.trace.program.title, 60)} – icgd trace`;
  const draw = () => parts.forEach((part) => part.update());
  // Sizes and colours are asked of the browser here only: asking between writes would make it lay out
  // the page several times a step.
  const measure = () => parts.forEach((part) => part.measure?.());
  const redraw = () => {
    measure();
    draw();
  };
  state.restore(parseHash(location.hash));
  state.subscribe((_, patch) => ("shown" in patch ? redraw() : draw()));
  keepLink(state);
  keepPlaying(state);
  listen(state, header);
  addEventListener("resize", redraw);
  redraw();
  // A scrollbar that comes with the first drawing takes room without a resize of the window.
  let width = document.body.clientWidth;
  new ResizeObserver(() => {
    if (document.body.clientWidth === width) return;
    width = document.body.clientWidth;
    redraw();
  }).observe(document.body);
  return state;
}

async function start() {
  const holder = document.getElementById("trace");
  try {
    const source = holder.textContent;
    const trace = await readTrace(source);
    // The text is megabytes and no longer needed.
    holder.remove();
    const state = build(new Model(trace));
    performance.mark("icgd-ready");
    document.body.dataset.ready = state ? "yes" : "empty";
    if (state) state.subscribe(() => (document.body.dataset.position = state.position));
    if (state) document.body.dataset.position = state.position;
  } catch (error) {
    complain(error);
    if (!(error instanceof TraceError)) throw error;
  }
}

start();
