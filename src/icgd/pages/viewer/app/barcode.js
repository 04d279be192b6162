// A block at a glance: its slots side by side, sampled, each coloured on its own scale.

import { largest } from "./arrays.js";
import { palette, signedScale } from "./colours.js";

const WIDTH = 40;
const HEIGHT = 12;

// Which part of the barcode each slot of a layout gets: room grows with the root of its size.
export function shares(layout, sizes) {
  const weights = layout.map((slot) => Math.sqrt(sizes(slot)));
  const sum = weights.reduce((a, b) => a + b, 0) || 1;
  let start = 0;
  return weights.map((weight) => {
    const from = Math.round((start / sum) * WIDTH);
    start += weight;
    return [from, Math.max(Math.round((start / sum) * WIDTH), from + 1)];
  });
}

export function drawBarcode(canvas, layout, block, theme) {
  canvas.width = WIDTH;
  canvas.height = HEIGHT;
  const context = canvas.getContext("2d");
  const colours = palette(theme);
  const image = context.createImageData(WIDTH, HEIGHT);
  const places = shares(layout, (slot) => slot.shape.reduce((a, b) => a * b, 1));
  layout.forEach((slot, s) => {
    const value = block.slots.get(slot.name);
    if (!value || !value.data.length) return;
    const scale = signedScale(largest(value.data));
    const [from, to] = places[s];
    const columns = to - from;
    for (let y = 0; y < HEIGHT; y++) {
      for (let x = from; x < Math.min(to, WIDTH); x++) {
        const cell = ((y + 0.5) / HEIGHT) * columns + (x - from);
        const entry = Math.floor((cell / (columns + columns)) * value.data.length);
        const i = value.data.length === 1 ? 0 : Math.min(entry, value.data.length - 1);
        const k = Math.max(scale.index(value.data[i]), 0);
        const at = 4 * (y * WIDTH + x);
        image.data.set(colours.signed.subarray(3 * k, 3 * k + 3), at);
        image.data[at + 3] = 255;
      }
    }
  });
  context.putImageData(image, 0, 0);
}
