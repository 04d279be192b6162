// Attention over a grid, as the layer computes it: score of token k = asked * linear_k + offset_k.

export function softmax(asked, linear, offset) {
  const weights = new Float64Array(linear.length);
  let top = -Infinity;
  for (let k = 0; k < linear.length; k++) {
    weights[k] = asked * linear[k] + offset[k];
    if (weights[k] > top) top = weights[k];
  }
  let sum = 0;
  for (let k = 0; k < linear.length; k++) {
    weights[k] = Math.exp(weights[k] - top);
    sum += weights[k];
  }
  for (let k = 0; k < linear.length; k++) weights[k] /= sum;
  return weights;
}

export function answer(weights, values) {
  let sum = 0;
  for (let k = 0; k < values.length; k++) sum += weights[k] * values[k];
  return sum;
}

// Weights of one head: as recorded, or computed here from the grid, or null where neither is known.
export function headWeights(entry, grid, head) {
  const row = entry.heads.indexOf(head);
  const p = entry.weights && entry.weights.shape.length === 2 ? entry.weights.shape[1] : 0;
  if (row >= 0 && p && (row + 1) * p <= entry.weights.data.length) {
    return { weights: entry.weights.data.subarray(row * p, (row + 1) * p), recomputed: false };
  }
  if (!grid || head >= entry.asked.data.length) return null;
  return { weights: softmax(entry.asked.data[head], grid.linear, grid.offset), recomputed: true };
}

// Grids list their levels in pairs; a curve wants them from left to right.
export function ascending(levels) {
  return Array.from(levels.keys()).sort((a, b) => levels[a] - levels[b]);
}
