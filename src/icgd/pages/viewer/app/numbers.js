// Numbers and names as a reader wants to see them.

const MINUS = "\u2212";
const SUBSCRIPTS = "₀₁₂₃₄₅₆₇₈₉";
const SUPERSCRIPTS = "⁰¹²³⁴⁵⁶⁷⁸⁹";

export function subscript(n) {
  return String(n).replace(/\d/g, (digit) => SUBSCRIPTS[digit]);
}

export function power(exponent) {
  const digits = String(Math.abs(exponent)).replace(/\d/g, (digit) => SUPERSCRIPTS[digit]);
  return `10${exponent < 0 ? "⁻" : ""}${digits}`;
}

// Three digits are enough for a label: 0.482, 1,024, 2.7·10⁻¹⁵.
export function short(value, digits = 3) {
  if (!Number.isFinite(value)) return Number.isNaN(value) ? "NaN" : value > 0 ? "∞" : `${MINUS}∞`;
  if (value === 0) return "0";
  const size = Math.abs(value);
  const sign = value < 0 ? MINUS : "";
  if (size >= 1e-3 && size < 1e5) return sign + plain(size, digits);
  const [mantissa, exponent] = size.toExponential(digits - 1).split("e");
  const kept = String(Number(mantissa));
  return sign + (kept === "1" ? "" : `${kept}·`) + power(Number(exponent));
}

function plain(size, digits) {
  if (size >= 1000) return whole(Math.round(size));
  return String(Number(size.toPrecision(digits)));
}

export function whole(n) {
  return String(n).replace(/\B(?=(\d{3})+$)/g, ",");
}

// Every digit there is: the shortest text that reads back as the same number.
export function full(value) {
  if (Object.is(value, -0)) return "-0";
  return String(value);
}

export function plural(n, one, many = `${one}s`) {
  return `${whole(n)} ${n === 1 ? one : many}`;
}

export function shapeText(shape) {
  return shape.length ? shape.map(whole).join(" × ") : "number";
}

// F and 2 make F₂; a kind longer than a letter or two is cut, its title says the rest.
export function blockLabel(kind, layer) {
  const name = kind.length > 4 ? `${kind.slice(0, 3)}…` : kind || "·";
  return layer > 0 ? name + subscript(layer) : name;
}

// 1, 2, 3, 7, 9, 10 -> "1–3, 7, 9–10"; long lists are cut in the middle.
export function ranges(numbers, most = 6) {
  const parts = [];
  for (let i = 0; i < numbers.length; i++) {
    const start = numbers[i];
    while (i + 1 < numbers.length && numbers[i + 1] === numbers[i] + 1) i++;
    parts.push(numbers[i] === start ? whole(start) : `${whole(start)}–${whole(numbers[i])}`);
  }
  if (parts.length <= most) return parts.join(", ");
  const half = most / 2;
  return [...parts.slice(0, half), "…", ...parts.slice(parts.length - half)].join(", ");
}

// Ticks of a linear axis: 1, 2 or 5 times a power of ten, about `about` of them.
export function niceTicks(low, high, about = 4) {
  if (!(high > low)) return [low];
  const raw = (high - low) / about;
  const base = 10 ** Math.floor(Math.log10(raw));
  const unit = [1, 2, 5, 10].map((m) => m * base).find((u) => u >= raw) ?? raw;
  const ticks = [];
  for (let k = Math.ceil(low / unit - 1e-9); k * unit <= high + unit * 1e-9; k++) ticks.push(k * unit);
  return ticks;
}
