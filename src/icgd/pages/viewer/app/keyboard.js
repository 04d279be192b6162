// The keyboard: one table that both acts and is shown as help.

const key = (keys, shown, title, act) => ({ keys, shown, title, act });

const recolour = (state) => state.set({ colourBy: state.colourBy === "value" ? "difference" : "value" });

export const KEYS = [
  key([" "], ["Space"], "play or pause", (state) => state.play(!state.playing)),
  key(["ArrowRight", "."], ["→", "."], "step forward", (state) => state.move(1)),
  key(["ArrowLeft", ","], ["←", ","], "step back", (state) => state.move(-1)),
  key(["Shift+ArrowRight", "PageDown", ">"], ["Shift →", ">"], "round forward", (state) => state.moveRound(1)),
  key(["Shift+ArrowLeft", "PageUp", "<"], ["Shift ←", "<"], "round back", (state) => state.moveRound(-1)),
  key(["Home"], ["Home"], "first step", (state) => state.go(0)),
  key(["End"], ["End"], "last step", (state) => state.go(state.last)),
  key(["]"], ["]"], "select the next block of the prompt", (state) => state.chooseBeside(1)),
  key(["["], ["["], "select the block before", (state) => state.chooseBeside(-1)),
  key(["d"], ["d"], "colour by value or by difference to the exact value", recolour),
  key(["+", "="], ["+"], "faster", (state) => state.changeSpeed(1)),
  key(["-"], ["−"], "slower", (state) => state.changeSpeed(-1)),
  key(["t"], ["t"], "theme: auto, light, dark", (_, page) => page.nextTheme()),
  key(["?"], ["?"], "this help", (_, page) => page.help.showModal()),
  key([], ["Tab"], "to blocks, heat maps and heads; arrow keys then move inside, Enter picks a head", null),
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
