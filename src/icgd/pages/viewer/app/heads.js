// A stage's heads: which bank, what its heads asked, how much of the certified range that uses, and
// what one of them attends to.

import { largest } from "./arrays.js";
import { createBump } from "./bump.js";
import { shareScale, signedScale } from "./colours.js";
import { el, keyed, setText } from "./dom.js";
import { createHeatmap } from "./heatmap.js";
import { full, plural, shapeText, short } from "./numbers.js";
import { answer, headWeights, softmax } from "./softmax.js";

export function useText(use, asked, radius) {
  const share = use ?? (radius ? asked / radius : null);
  if (share === null || radius === null) return "range unlimited";
  return `${short(100 * share, 2)} % of radius ${short(radius)}`;
}

function createGridHeads(tip, state) {
  const asked = createHeatmap(tip);
  const askedScale = el("span", { class: "soft" });
  const picker = el("input", { type: "number", min: "0", class: "head-picker", "aria-label": "Head" });
  const of = el("span", { class: "soft" });
  const fact = el("p", { class: "fact" });
  const fill = el("span", { class: "use-fill" });
  const use = el("span", { class: "soft" });
  const bump = createBump();
  const missing = el("p", { class: "unknown" }, "Neither weights nor the grid of this bank are recorded.");
  const element = el(
    "div",
    { class: "grid-heads" },
    el(
      "div",
      { class: "asked" },
      el("span", { class: "row-name" }, "asked"),
      asked.element,
      askedScale,
      el("span", { class: "use" }, el("span", { class: "use-bar", "aria-hidden": "true" }, fill), use),
    ),
    el("div", { class: "pick" }, el("label", {}, "head ", picker), of, fact),
    bump.element,
    missing,
  );
  let key = "";
  const pick = (head) => {
    state.heads.set(key, head);
    state.set({});
  };
  picker.addEventListener("input", () => picker.value !== "" && pick(Number(picker.value)));
  asked.element.addEventListener("click", () => pick(asked.current()));
  asked.element.addEventListener("keydown", (event) => event.key === "Enter" && pick(asked.current()));

  function update(entry, grid, look) {
    key = look.key;
    const n = entry.asked.data.length;
    const head = Math.min(Math.max(state.heads.get(key) ?? loudest(entry), 0), n - 1);
    const most = largest(entry.asked.data);
    const { radius } = state.model.trace.program;
    fill.style.width = `${100 * Math.min(1, entry.use ?? (radius ? most / radius : 0))}%`;
    setText(use, useText(entry.use, most, radius));
    use.title = `The largest |asked| is ${short(most)}; heads are certified up to the radius.`;
    asked.update({
      name: `asked by ${entry.bank}`, data: entry.asked.data, shape: [n], away: null,
      drawn: entry.asked.data, scale: signedScale(most), theme: look.theme, marked: head,
      box: { width: Math.max(look.width - 430, 140), height: 60, most: 16 },
    });
    setText(askedScale, `±${short(most)}`);
    picker.max = String(n - 1);
    if (document.activeElement !== picker || Number(picker.value) !== head) picker.value = String(head);
    setText(of, `of 0–${n - 1}`);
    show(entry, grid, look, head);
  }

  function show(entry, grid, look, head) {
    const found = entry.asked.data.length ? headWeights(entry, grid, head) : null;
    const levels = grid ? grid.levels : null;
    const drawable = found && levels && found.weights.length === levels.length;
    bump.element.hidden = !drawable;
    missing.hidden = drawable;
    const value = entry.asked.data[head];
    const given = entry.read && head < entry.read.data.length ? entry.read.data[head] : null;
    const read = given ?? (drawable ? answer(found.weights, grid.values) : null);
    setText(fact, `asks ${full(value)}${read === null ? "" : ` · reads ${full(read)}`}`);
    element.dataset.head = head;
    if (!drawable) return;
    // Recorded weights have single precision; their difference to another head's needs double.
    const rest = softmax(0, grid.linear, grid.offset);
    const tilt = softmax(value, grid.linear, grid.offset).map((w, k) => w - rest[k]);
    const size = { width: look.width, height: look.tall ? 180 : 92 };
    bump.update({ ...found, ...size, levels, tilt, asked: value, read });
  }
  return { element, update };
}

// A head that asks something shows more than one that asks 0; recorded weights come first.
function loudest(entry) {
  const { data } = entry.asked;
  const among = entry.heads.length ? entry.heads.filter((h) => h < data.length) : data.keys();
  let best = 0;
  let most = -1;
  for (const h of among) {
    if (Math.abs(data[h]) > most) [best, most] = [h, Math.abs(data[h])];
  }
  return best;
}

// "attention.inputs" is bank "inputs" of stage "attention", whose name is written above it.
export function bankName(bank, stage) {
  return bank.startsWith(`${stage}.`) ? bank.slice(stage.length + 1) : bank;
}

function createTokenHeads(tip) {
  const parts = ["scores", "attention", "read"].map((name) => {
    const map = createHeatmap(tip);
    const scale = el("span", { class: "soft" });
    const shape = el("span", { class: "slot-shape" });
    const label = el("span", { class: "slot-name" }, name);
    const head = el("div", { class: "slot-head" }, label, shape, scale);
    return { name, label, map, scale, shape, element: el("div", { class: "slot" }, head, map.element) };
  });
  const note = el("p", { class: "soft caption" });
  const element = el("div", { class: "token-heads" }, ...parts.map((p) => p.element), note);

  function update(entry, _grid, look) {
    const shown = { scores: entry.asked, attention: entry.weights, read: entry.read };
    const turned = entry.over === "units";
    const width = (look.width - 40) / 2;
    const height = look.roomy || look.tall ? 230 : 150;
    const box = turned ? { width, height: 60, most: 10, stretch: true } : { width, height, most: 14 };
    for (const part of parts) {
      const value = shown[part.name];
      part.element.hidden = !value || !value.data.length;
      if (part.element.hidden) continue;
      const most = largest(value.data);
      const positive = part.name === "attention" && !value.data.some((v) => v < 0);
      const scale = positive ? shareScale(most) : signedScale(most);
      setText(part.scale, positive ? `0 to ${short(most)}` : `±${short(most)}`);
      setText(part.shape, shapeText(value.shape));
      part.map.update({
        name: part.name, data: value.data, shape: value.shape, away: null, drawn: value.data, scale,
        theme: look.theme, turned, box,
      });
    }
    const n = plural(entry.heads.length, "token");
    const across = `${n} across, a head of the family per row; they ask with ${entry.slot}.`;
    setText(note, turned ? across : `Rows: ${n} that ask, with ${entry.slot}; columns: tokens they see.`);
    const [scores] = parts;
    setText(scores.label, turned ? "asked" : "scores");
  }
  return { element, update };
}

export function createHeads(tip, state, stage) {
  const tabs = el("div", { class: "banks", role: "group", "aria-label": "Bank of heads" });
  const body = el("div", { class: "heads-body" });
  // Made when first needed: most stages have heads of one form or none.
  const forms = { grid: null, other: null };
  const makers = { grid: () => createGridHeads(tip, state), other: () => createTokenHeads(tip) };
  body.append(tabs);
  // A stack has many stages: what their heads asked is folded away until asked for.
  const folded = state.model.trace.stages.length > 3;
  const word = el("summary", {});
  const element = folded ? el("details", { class: "heads" }, word, body) : el("div", { class: "heads" }, body);
  let chosen = 0;
  if (folded) element.addEventListener("toggle", () => state.set({}));

  function headline(entries) {
    const uses = entries.filter((entry) => entry.use !== null).map((entry) => entry.use);
    const most = uses.length ? `; they use up to ${short(100 * Math.max(...uses), 2)} % of their range` : "";
    return `${plural(entries.length, "family", "families")} of heads${most}`;
  }

  function update(entries, look) {
    element.hidden = !entries.length;
    if (!entries.length) return;
    if (folded) setText(word, headline(entries));
    if (folded && !element.open) return;
    const names = entries.map((entry, i) => `${i} ${entry.bank}`);
    const at = Math.min(chosen, entries.length - 1);
    keyed(tabs, names, (key) => {
      const i = Number(key.split(" ", 1)[0]);
      const name = key.slice(key.indexOf(" ") + 1);
      const choose = () => {
        chosen = i;
        state.set({});
      };
      return { element: el("button", { type: "button", class: "bank", onclick: choose }, bankName(name, stage)) };
    }).forEach(({ element: tab }, i) => {
      tab.setAttribute("aria-pressed", String(i === at));
      tab.title = `asks with ${entries[i].slot}`;
    });
    const entry = entries[at];
    const name = entry.over === "grid" ? "grid" : "other";
    if (!forms[name]) {
      forms[name] = makers[name]();
      body.append(forms[name].element);
    }
    for (const form of Object.values(forms)) if (form) form.element.hidden = form !== forms[name];
    element.dataset.bank = entry.bank;
    const { grids, trace } = state.model;
    const more = { key: `${stage}/${entry.bank}`, roomy: trace.stages.length < 3 };
    forms[name].update(entry, grids.get(entry.bank) ?? null, { ...look, ...more });
  }
  return { element, update };
}
