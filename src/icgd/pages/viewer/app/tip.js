// The readout of one cell: value, exact value and difference, with every digit.

import { el, setText } from "./dom.js";
import { full } from "./numbers.js";

export function createTip() {
  const title = el("div", { class: "tip-title" });
  const rows = ["value", "exact", "difference"].map((name) => {
    const cell = el("td");
    const row = el("tr", {}, el("th", { scope: "row" }, name), cell);
    return { row, cell };
  });
  const note = el("div", { class: "tip-note" });
  const element = el(
    "div",
    { id: "tip", class: "tip", hidden: true, "aria-hidden": "true" },
    title,
    el("table", {}, el("tbody", {}, ...rows.map((r) => r.row))),
    note,
  );
  const spoken = el("div", { class: "visually-hidden", "aria-live": "polite", id: "spoken" });

  function fillIn({ name, value, away }) {
    const known = away !== null && away !== undefined && !Number.isNaN(away);
    const texts = [full(value), known ? full(value - away) : "", known ? full(away) : ""];
    setText(title, name);
    rows.forEach(({ row, cell }, i) => {
      row.hidden = i > 0 && !known;
      setText(cell, texts[i]);
    });
    setText(note, known ? "" : "no exact value is known for this entry");
    note.hidden = known;
    element.dataset.value = texts[0];
    element.dataset.exact = texts[1];
    element.dataset.difference = texts[2];
    return known ? `${name}: ${texts[0]}, exact ${texts[1]}, difference ${texts[2]}` : `${name}: ${texts[0]}`;
  }

  function place(box) {
    element.hidden = false;
    const { offsetWidth: w, offsetHeight: h } = element;
    const left = Math.min(Math.max(box.left + box.width / 2 - w / 2, 6), innerWidth - w - 6);
    const above = box.top - h - 8;
    element.style.left = `${left}px`;
    element.style.top = `${above > 6 ? above : Math.min(box.bottom + 8, innerHeight - h - 6)}px`;
  }

  return {
    element,
    spoken,
    // `aloud`: the keyboard asked, so a screen reader should hear it.
    show(reading, box, aloud) {
      const sentence = fillIn(reading);
      place(box);
      if (aloud) setText(spoken, sentence);
    },
    hide() {
      element.hidden = true;
    },
  };
}
