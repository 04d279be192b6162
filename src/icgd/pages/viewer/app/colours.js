// Two scales that stay apart for colour-blind eyes: blue–neutral–orange for signed values, and one
// dark-to-bright ramp for sizes of differences. Both are tables of 256 RGB triples per theme.

const STOPS = {
  light: {
    signed: ["#0a3d73", "#2f7fbf", "#a9cce6", "#f1efeb", "#f2bd8d", "#d2691e", "#7d2f06"],
    size: ["#e9eef0", "#b9d3d3", "#79b3ab", "#3f8a86", "#1f5f6b", "#123a4f", "#0a1f33"],
    blank: "#f1efeb",
    odd: "#ff00aa",
  },
  dark: {
    signed: ["#9fd2ff", "#4a9fe0", "#23578a", "#2b2f33", "#8a4a1c", "#e08a3c", "#ffd7a3"],
    size: ["#22303a", "#24505c", "#2d7478", "#4a9a8c", "#80bf9d", "#c0dfb4", "#f4f7d8"],
    blank: "#2b2f33",
    odd: "#ff4fc3",
  },
};

function rgb(hex) {
  return [1, 3, 5].map((at) => parseInt(hex.slice(at, at + 2), 16));
}

function table(stops) {
  const colours = stops.map(rgb);
  const lut = new Uint8Array(256 * 3);
  for (let i = 0; i < 256; i++) {
    const at = (i / 255) * (colours.length - 1);
    const k = Math.min(Math.floor(at), colours.length - 2);
    for (let c = 0; c < 3; c++) {
      lut[3 * i + c] = Math.round(colours[k][c] + (at - k) * (colours[k + 1][c] - colours[k][c]));
    }
  }
  return lut;
}

const tables = {};

export function palette(theme) {
  if (!tables[theme]) {
    const stops = STOPS[theme];
    tables[theme] = {
      signed: table(stops.signed),
      size: table(stops.size),
      blank: rgb(stops.blank),
      odd: rgb(stops.odd),
    };
  }
  return tables[theme];
}

// A scale turns a number into an index of its table; -1: nothing there, -2: not a finite number.
export function signedScale(reach) {
  const to = reach > 0 ? reach : 1;
  return {
    name: "signed",
    low: -reach,
    high: reach,
    index(value) {
      if (!Number.isFinite(value)) return -2;
      const t = (value / to + 1) / 2;
      return Math.round(255 * Math.min(1, Math.max(0, t)));
    },
  };
}

// Sizes on a log scale from `low` to `high`. An exact zero has no logarithm, and NaN says that the
// difference is not known: both stay blank.
export function sizeScale(low, high) {
  const from = Math.log10(low);
  const span = Math.max(Math.log10(high) - from, 1e-9);
  return {
    name: "size",
    low,
    high,
    index(value) {
      if (value === 0 || Number.isNaN(value)) return -1;
      const t = (Math.log10(Math.abs(value)) - from) / span;
      return Math.round(255 * Math.min(1, Math.max(0, t)));
    },
  };
}

// Shares from 0 to the largest, linear: attention weights.
export function shareScale(high) {
  const index = (value) => (Number.isFinite(value) ? Math.round((255 * value) / (high || 1)) : -2);
  return { name: "size", low: 0, high, index };
}

// The decades that hold every non-zero size of some arrays, or null if all are exactly zero.
export function decades(arrays) {
  let low = Infinity;
  let high = 0;
  for (const data of arrays) {
    for (let i = 0; i < data.length; i++) {
      const size = Math.abs(data[i]);
      if (size > 0 && size < low) low = size;
      if (size > high && size < Infinity) high = size;
    }
  }
  if (!(high > 0)) return null;
  const top = 10 ** Math.ceil(Math.log10(high) - 1e-9);
  return sizeScale(Math.min(10 ** Math.floor(Math.log10(low) + 1e-9), top / 10), top);
}

// Pixels of a scale over data, written to `pixels` (RGBA).
export function paint(pixels, data, scale, colours) {
  const lut = colours[scale.name];
  for (let i = 0; i < data.length; i++) {
    const k = scale.index(data[i]);
    const at = 4 * i;
    if (k >= 0) {
      pixels[at] = lut[3 * k];
      pixels[at + 1] = lut[3 * k + 1];
      pixels[at + 2] = lut[3 * k + 2];
    } else {
      const [r, g, b] = k === -1 ? colours.blank : colours.odd;
      pixels[at] = r;
      pixels[at + 1] = g;
      pixels[at + 2] = b;
    }
    pixels[at + 3] = 255;
  }
}
