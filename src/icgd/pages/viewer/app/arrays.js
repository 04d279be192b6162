// Pools of numbers: base64 to typed arrays, and references [pool, offset, ...shape] to views of them.

export class TraceError extends Error {}

const BYTES = { f8: 8, f4: 4 };
const LARGEST = 2 ** 30;

// Typed arrays have the byte order of the machine, the file is little-endian.
const LITTLE = new Uint8Array(new Uint16Array([1]).buffer)[0] === 1;

function fromBase64(name, data) {
  let text;
  try {
    text = atob(data);
  } catch {
    throw new TraceError(`Pool ${name} is not base64: the file is damaged.`);
  }
  const bytes = new Uint8Array(text.length);
  for (let i = 0; i < text.length; i++) bytes[i] = text.charCodeAt(i);
  return bytes;
}

// Unfolds zlib's format up to `size` bytes and not one more, whatever the file claims to hold.
async function inflate(name, bytes, size) {
  if (typeof DecompressionStream === "undefined") {
    throw new TraceError("This browser cannot unpack the numbers (no DecompressionStream). Use a newer one.");
  }
  const whole = new Uint8Array(size);
  let filled = 0;
  try {
    const reader = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate")).getReader();
    for (;;) {
      const { done, value } = await reader.read();
      if (done) break;
      if (filled + value.length > size) {
        await reader.cancel();
        filled += value.length;
        break;
      }
      whole.set(value, filled);
      filled += value.length;
    }
  } catch {
    throw new TraceError(`Pool ${name} does not unpack: the file is damaged.`);
  }
  return filled === size ? whole : new Uint8Array(filled > size ? 0 : filled);
}

// All first bytes, then all second bytes and so on: back to numbers one after the other.
function unshuffle(columns, size) {
  const count = columns.length / size;
  const bytes = new Uint8Array(columns.length);
  for (let k = 0; k < size; k++) {
    const from = k * count;
    for (let i = 0, to = k; i < count; i++, to += size) bytes[to] = columns[from + i];
  }
  return bytes;
}

export async function decodePool(name, pool) {
  const size = BYTES[name];
  const wanted = pool.count * size;
  if (wanted > LARGEST) throw new TraceError(`Pool ${name} claims ${pool.count} numbers: too many to be true.`);
  let bytes = fromBase64(name, pool.data);
  const packed = pool.encoding === "deflate";
  if (packed) bytes = await inflate(name, bytes, wanted);
  if (bytes.length !== wanted) {
    throw new TraceError(`Pool ${name} does not hold the ${pool.count} numbers it claims.`);
  }
  if (packed) bytes = unshuffle(bytes, size);
  if (!LITTLE) for (let i = 0; i < bytes.length; i += size) bytes.subarray(i, i + size).reverse();
  return size === 8 ? new Float64Array(bytes.buffer) : new Float32Array(bytes.buffer);
}

export function volume(shape) {
  return shape.reduce((product, n) => product * n, 1);
}

// A number or a reference as {data, shape}; the data is a view, never a copy.
export function tensor(pools, value) {
  if (typeof value === "number") return { data: Float64Array.of(value), shape: [] };
  const [name, offset, ...shape] = value;
  return { data: pools[name].subarray(offset, offset + volume(shape)), shape };
}

// How a tensor is laid out on paper: the last axis across, all others down; a vector is one row.
export function asMatrix({ data, shape }) {
  const cols = shape.length ? shape[shape.length - 1] : 1;
  const rows = cols ? data.length / cols : 0;
  return { data, shape, rows, cols: rows ? cols : 0 };
}

// Where entry i of a tensor stands, as written in Python: "[2, 0]", or "" for a number.
export function indexText(shape, i) {
  if (!shape.length) return "";
  const places = [];
  for (let axis = shape.length - 1; axis >= 0; axis--) {
    places.unshift(i % shape[axis]);
    i = Math.floor(i / shape[axis]);
  }
  return `[${places.join(", ")}]`;
}

export function largest(data) {
  let most = 0;
  for (let i = 0; i < data.length; i++) {
    const size = Math.abs(data[i]);
    if (size > most && size < Infinity) most = size;
  }
  return most;
}

export function countNotFinite(data) {
  let count = 0;
  for (let i = 0; i < data.length; i++) if (!Number.isFinite(data[i])) count++;
  return count;
}
