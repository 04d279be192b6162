// Transport and the slider of steps: rounds as segments, rounds that were not recorded as breaks.

import { el, setText } from "./dom.js";
import { plural, whole } from "./numbers.js";
import { SPEEDS } from "./state.js";

const BREAK = 14;

// Where steps and breaks stand along `width` pixels: each break takes as much room as it needs to be
// seen, steps share the rest equally.
export function tracks(model, width) {
  const breaks = model.starts.map((_, r) => model.missingBefore(r) > 0);
  const tail = model.missingAfter() > 0;
  const nBreaks = breaks.filter(Boolean).length + (tail ? 1 : 0);
  const gap = Math.min(BREAK, (width * 0.4) / Math.max(nBreaks, 1));
  const pitch = (width - gap * nBreaks) / Math.max(model.nSteps, 1);
  const segments = [];
  const gaps = [];
  let x = 0;
  model.starts.forEach((start, r) => {
    if (breaks[r]) {
      gaps.push({ x, width: gap, missing: model.missingBefore(r) });
      x += gap;
    }
    const n = model.stepsOfRound(r);
    segments.push({ x, width: n * pitch, start, n, round: model.trace.steps[start].round });
    x += n * pitch;
  });
  if (tail) gaps.push({ x, width: gap, missing: model.missingAfter() });
  return { segments, gaps, pitch };
}

export function xOfStep({ segments, pitch }, model, i) {
  const segment = segments[model.roundIndex(i)];
  return segment.x + (i - segment.start + 0.5) * pitch;
}

export function stepAtX({ segments, pitch }, x) {
  let found = 0;
  for (const segment of segments) {
    if (segment.x > x) break;
    const within = Math.min(Math.max(Math.floor((x - segment.x) / pitch), 0), segment.n - 1);
    found = segment.start + within;
  }
  return found;
}

function icon(path) {
  // Drawn by CSS from a name, so that no markup is ever built from text.
  return el("span", { class: `icon icon-${path}`, "aria-hidden": "true" });
}

export function createTimeline(state) {
  const { model } = state;
  const button = (name, title, keys, act) =>
    el(
      "button",
      {
        type: "button", class: "tool", id: `to-${name}`, title: `${title} (${keys})`, "aria-label": title,
        onclick: act,
      },
      icon(name),
    );
  const play = button("play", "Play", "Space", () => state.play(!state.playing));
  const speed = el(
    "select",
    {
      id: "speed", "aria-label": "Speed", title: "Speed (+ and −)",
      onchange: () => state.set({ speed: Number(speed.value) }),
    },
    ...SPEEDS.map((s) => el("option", { value: String(s) }, `${s} step${s === 1 ? "" : "s"}/s`)),
  );
  const sentence = el("p", { id: "where", class: "where", "aria-live": "polite", "aria-atomic": "true" });
  const place = el("span", { class: "place" });
  const kind = el("span", { class: "type", id: "step-type" });
  const title = el("span", { class: "soft step-title", id: "step-title" });
  sentence.append(place, kind, title);
  const notice = el("p", { id: "notice", class: "notice", role: "status" });
  const canvas = el("canvas", { "aria-hidden": "true" });
  const thumb = el("div", { class: "thumb" });
  const slider = el(
    "div",
    {
      class: "slider", id: "slider", role: "slider", tabindex: "0", "aria-label": "Step",
      "aria-valuemin": "1", "aria-valuemax": model.nSteps,
    },
    canvas,
    thumb,
  );
  const element = el(
    "section",
    { class: "timeline", "aria-label": "Timeline" },
    el(
      "div",
      { class: "transport" },
      button("first", "First step", "Home", () => state.go(0)),
      button("back-round", "Round back", "Shift ←", () => state.moveRound(-1)),
      button("back", "Step back", "←", () => state.move(-1)),
      play,
      button("on", "Step forward", "→", () => state.move(1)),
      button("on-round", "Round forward", "Shift →", () => state.moveRound(1)),
      button("last", "Last step", "End", () => state.go(state.last)),
      speed,
    ),
    el("div", { class: "where-frame" }, sentence, notice),
    slider,
  );

  let lines = null;
  const point = (event) => {
    const x = event.clientX - slider.getBoundingClientRect().left;
    state.go(stepAtX(lines, x));
  };
  slider.addEventListener("pointerdown", (event) => {
    slider.setPointerCapture(event.pointerId);
    state.set({ playing: false });
    point(event);
  });
  slider.addEventListener("pointermove", (event) => event.buttons && point(event));
  slider.addEventListener("keydown", (event) => {
    if (event.key === "ArrowUp") state.move(1);
    else if (event.key === "ArrowDown") state.move(-1);
    else return;
    event.preventDefault();
  });

  function drawRounds(width) {
    const ratio = window.devicePixelRatio || 1;
    canvas.width = Math.round(width * ratio);
    canvas.height = Math.round(26 * ratio);
    canvas.style.width = `${width}px`;
    const context = canvas.getContext("2d");
    context.scale(ratio, ratio);
    const style = getComputedStyle(slider);
    const colours = ["--ink", "--soft", "--fill", "--line"].map((name) => style.getPropertyValue(name));
    const [ink, soft, fill, line] = colours;
    context.font = `11px ${style.fontFamily}`;
    let free = 0;
    const lastRound = model.trace.nRounds;
    lines.segments.forEach(({ x, width: w, round, n }) => {
      context.fillStyle = fill;
      context.fillRect(x, 4, Math.max(w - (w > 3 ? 1 : 0), 0.5), 8);
      if (lines.pitch >= 6) {
        context.fillStyle = line;
        for (let k = 1; k < n; k++) context.fillRect(x + k * lines.pitch - 0.5, 4, 1, 8);
      }
      const text = whole(round);
      const room = context.measureText(text).width;
      const left = Math.min(x, width - room);
      if (left < free) return;
      context.fillStyle = round === 1 || round === lastRound ? ink : soft;
      context.fillText(text, left, 24);
      free = left + room + 10;
    });
    for (const { x, width: w } of lines.gaps) {
      context.strokeStyle = soft;
      context.lineWidth = 1;
      context.save();
      context.beginPath();
      context.rect(x, 2, Math.max(w - 1, 1), 12);
      context.clip();
      for (let k = -12; k < w + 12; k += 4) {
        context.beginPath();
        context.moveTo(x + k, 14);
        context.lineTo(x + k + 12, 2);
        context.stroke();
      }
      context.restore();
    }
  }

  let width = 600;
  function measure() {
    width = slider.clientWidth || 600;
  }

  let drawn = "";
  function update() {
    const look = `${width} ${state.shown}`;
    if (look !== drawn) {
      lines = tracks(model, width);
      drawRounds(width);
      drawn = look;
    }
    const at = model.describe(state.position);
    thumb.style.transform = `translateX(${xOfStep(lines, model, state.position)}px)`;
    setText(place, model.sentence(state.position).slice(0, -at.type.length));
    setText(kind, at.type);
    setText(title, at.title);
    slider.setAttribute("aria-valuenow", String(state.position + 1));
    slider.setAttribute("aria-valuetext", model.sentence(state.position));
    setText(notice, state.notice || gapText(at));
    play.firstChild.className = `icon icon-${state.playing ? "pause" : "play"}`;
    play.setAttribute("aria-label", state.playing ? "Pause" : "Play");
    play.setAttribute("aria-pressed", String(state.playing));
    // Reading every step of a film aloud would drown the reader.
    sentence.setAttribute("aria-live", state.playing ? "off" : "polite");
    speed.value = String(state.speed);
  }

  // Said where a gap lies just before or behind.
  function gapText(at) {
    const r = model.roundIndex(state.position);
    const before = model.missingBefore(r);
    const last = r === model.starts.length - 1;
    const after = last ? model.missingAfter() : model.missingBefore(r + 1);
    if (at.step === 1 && before) return `${plural(before, "round")} before this one not recorded in detail`;
    if (at.step === at.ofSteps && after) return `the next ${plural(after, "round")} not recorded in detail`;
    return "";
  }
  return { element, measure, update };
}
