// The keyboard: one table that both acts and is shown as help.

export const KEYS = [
  { keys: [" "], shown: ["Space"], title: "play or pause", act: (s) => s.play(!s.playing) },
  { keys: ["ArrowRight", "."], shown: ["→", "."], title: "step forward", act: (s) => s.move(1) },
  { keys: ["ArrowLeft", ","], shown: ["←", ","], title: "step back", act: (s) => s.move(-1) },
  { keys: ["Shift+ArrowRight", "PageDown", ">"], shown: ["Shift →", ">"], title: "round forward", act: (s) => s.moveRound(1) },
  { keys: ["Shift+ArrowLeft", "PageUp", "<"], shown: ["Shift ←", "<"], title: "round back", act: (s) => s.moveRound(-1) },
  { keys: ["Home"], shown: ["Home"], title: "first step", act: (s) => s.go(0) },
  { keys: ["End"], shown: ["End"], title: "last step", act: (s) => s.go(s.last) },
  { keys: ["]"], shown: ["]"], title: "select the next block of the prompt", act: (s) => s.chooseBeside(1) },
  { keys: ["["], shown: ["["], title: "select the block before", act: (s) => s.chooseBeside(-1) },
  { keys: ["d"], shown: ["d"], title: "colour by value or by difference to the exact value", act: (s) => s.set({ colourBy: s.colourBy === "value" ? "difference" : "value" }) },
  { keys: ["+", "="], shown: ["+"], title: "faster", act: (s) => s.changeSpeed(1) },
  { keys: ["-"], shown: ["−"], title: "slower", act: (s) => s.changeSpeed(-1) },
  { keys: ["t"], shown: ["t"], title: "theme: auto, light, dark", act: (_, page) => page.nextTheme() },
  { keys: ["?"], shown: ["?"], title: "this help", act: (_, page) => page.help.showModal() },
  { keys: [], shown: ["Tab"], title: "to heat maps, blocks, heads and plots; arrow keys then move inside, Enter picks a head" },
];

export function actionFor(event) {
  if (event.ctrlKey || event.metaKey || event.altKey) return null;
  const plain = event.key.length === 1 ? event.key.toLowerCase() : event.key;
  const name = event.shiftKey && plain.startsWith("Arrow") ? `Shift+${plain}` : plain;
  return KEYS.find((entry) => entry.keys.includes(name)) ?? null;
}

export function listen(state, page) {
  document.addEventListener("keydown", (event) => {
    // A widget that used the key has said so; fields and open dialogs keep theirs.
    if (event.defaultPrevented || document.querySelector("dialog[open]")) return;
    const field = event.target.closest?.("select, input[type=number]");
    if (field) return;
    const radio = event.target.closest?.("input");
    const onButton = event.target.closest?.("button");
    if (radio && event.key.startsWith("Arrow")) return;
    if (event.key === " " && (onButton || radio)) return;
    const action = actionFor(event);
    if (!action) return;
    event.preventDefault();
    if (action.act !== KEYS[0].act && state.playing && !["t", "?", "d", "+", "-"].includes(event.key)) {
      state.set({ playing: false });
    }
    action.act(state, page);
  });
}
