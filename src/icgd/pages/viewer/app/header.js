// The head of the page: what was run, its key numbers, notes, help and theme.

import { el, setText } from "./dom.js";
import { KEYS } from "./keyboard.js";
import { plural, short, whole } from "./numbers.js";

const THEMES = ["auto", "light", "dark"];

// One sentence on what one sees, made from what the trace says about itself.
export function summary(trace) {
  const perRound = trace.schedule.length;
  const calls = perRound === 1 ? "one call is a round" : `${perRound} calls make a round`;
  return trace.program.feed === "append"
    ? `Each call reads the lit blocks and appends the next one; ${calls}.`
    : `Each call reads the whole state and replaces it; ${calls}.`;
}

export function keyNumbers(model) {
  const { trace } = model;
  const numbers = [
    ["rounds", whole(trace.nRounds)],
    ["steps recorded", whole(model.nSteps)],
    ["token width", whole(model.width)],
  ];
  const grid = [...new Set(trace.grids.map((g) => g.levels.length))];
  if (grid.length) numbers.push(["grid tokens", grid.map(whole).join(", ")]);
  const { error } = trace.curves;
  if (error && error.length) numbers.push(["final error", short(error[error.length - 1], 2)]);
  if (trace.program.head_error !== null) numbers.push(["head error ≤", short(trace.program.head_error, 2)]);
  return numbers;
}

function capital(text) {
  return text.slice(0, 1).toUpperCase() + text.slice(1);
}

function dialog(id, title, ...content) {
  const box = el("dialog", { id, "aria-labelledby": `${id}-title` });
  const shut = () => box.close();
  const close = el("button", { type: "button", class: "tool", "aria-label": "Close", onclick: shut }, "×");
  box.append(el("header", {}, el("h2", { id: `${id}-title` }, title), close), ...content.filter(Boolean));
  box.addEventListener("click", (event) => event.target === box && box.close());
  return box;
}

const pair = (name, value) => el("tr", {}, el("th", { scope: "row" }, name), el("td", {}, value));

const HELP = [
  "Top: the prompt. Lit blocks are those the mask lets this step see; the framed one is new. Left: the " +
    "selected block, slot by slot. Middle: the layer, stage by stage; its weights never change, the flags " +
    "of the blocks decide which gates open. Right: the whole run.",
  "Blue is negative, orange positive, grey zero; each picture has its own scale, shown beside it. " +
    "“Difference” colours by the distance to the exact optimizer instead. Indices count from 0, as in Python.",
];

function helpDialog() {
  const rows = KEYS.map(({ shown, title }) =>
    pair(shown.flatMap((key) => [el("kbd", {}, key), " "]), title),
  );
  return dialog(
    "help",
    "How to read this page",
    ...HELP.map((paragraph) => el("p", {}, paragraph)),
    el("table", { class: "keys" }, el("tbody", {}, ...rows)),
  );
}

function aboutDialog(trace) {
  const { program } = trace;
  const facts = [
    ["construction", program.construction],
    ["problem", JSON.stringify(program.problem)],
    ["optimizer", JSON.stringify(program.optimizer)],
    ["options", JSON.stringify(program.options)],
    ["arithmetic", `${program.dtype}, executor ${program.executor}`],
    ["certified radius", program.radius === null ? "unlimited" : short(program.radius)],
    ["recorded by", `icgd ${trace.version}`],
  ];
  const rows = facts.map(([name, value]) => pair(name, value));
  const notes = [...trace.warnings, ...trace.notes].map((note) => el("li", {}, note));
  return dialog(
    "about",
    "Notes",
    notes.length > 0 && el("ul", { class: "notes" }, ...notes),
    notes.length === 0 && el("p", { class: "soft" }, "The recording has no notes."),
    el("table", { class: "facts" }, el("tbody", {}, ...rows)),
  );
}

export function createHeader(state) {
  const { model } = state;
  const { trace } = model;
  const help = helpDialog();
  const about = aboutDialog(trace);
  const nNotes = trace.notes.length + trace.warnings.length;
  const fact = ([name, value]) => el("div", {}, el("dt", {}, name), el("dd", {}, value));
  const numbers = el("dl", { class: "numbers" }, ...keyNumbers(model).map(fact));
  const button = (id, title, name, act) =>
    el("button", { type: "button", class: "tool wide", id, title, onclick: act }, name);
  const theme = button("theme", "Theme (t)", "", nextTheme);
  const element = el(
    "header",
    { class: "top" },
    el("h1", {}, capital(trace.program.title)),
    el(
      "div",
      { class: "tools" },
      button("open-about", "Notes and settings", nNotes ? plural(nNotes, "note") : "about", () => about.showModal()),
      theme,
      button("open-help", "Help (?)", "help", () => help.showModal()),
    ),
    el("div", { class: "facts-line" }, el("p", { class: "soft" }, summary(trace)), numbers),
    help,
    about,
  );
  if (trace.warnings.length) {
    element.append(el("p", { class: "warning", role: "alert" }, trace.warnings.join(" ")));
  }

  function nextTheme() {
    state.set({ theme: THEMES[(THEMES.indexOf(state.theme) + 1) % THEMES.length] });
  }

  function update() {
    setText(theme, `theme: ${state.theme}`);
  }
  return { element, update, help, nextTheme };
}
