// Bytes on each core at an instant: L1 buffers, which lie on all cores alike, and circular buffers. Nothing here draws.

import { inBank } from "./addresses.js";
import { countUntil } from "./history.js";

const WIDTH = 32; // columns of a mask: bit 32 * row + column

/** The cores of a mask written in hexadecimal, as [column, row]. */
export function coresOf(mask) {
  const found = [];
  for (let digit = 0; digit < mask.length; digit += 1) {
    const bits = parseInt(mask[mask.length - 1 - digit], 16);
    for (let bit = 0; bit < 4; bit += 1) {
      if (bits & (1 << bit)) found.push([(4 * digit + bit) % WIDTH, Math.floor((4 * digit + bit) / WIDTH)]);
    }
  }
  return found;
}

/** The length of the union of ranges [from, until]. */
export function union(ranges) {
  let [sum, end] = [0, -Infinity];
  for (const [from, until] of [...ranges].sort((a, b) => a[0] - b[0])) {
    if (until > end) {
      sum += until - Math.max(from, end);
      end = until;
    }
  }
  return sum;
}

/**
 * What each core holds: {columns, rows, buffers, circular: Float64Array, unplaced}.
 *
 * `buffers` is the same on all cores. `circular` is the union of the address ranges of all live programs on that core.
 * `unplaced` counts circular buffers whose cores nobody knows.
 */
export function coreMap(history, device, time) {
  const circularRows = liveCircular(device, time);
  const sets = new Map();
  let unplaced = 0;
  const ranges = new Map(); // by mask
  for (const row of circularRows) {
    const { mask, address, per_core: perCore } = device.circular;
    if (mask[row] < 0) {
      unplaced += 1;
      continue;
    }
    if (!ranges.has(mask[row])) ranges.set(mask[row], []);
    ranges.get(mask[row]).push([address[row], address[row] + perCore[row]]);
    if (!sets.has(mask[row])) sets.set(mask[row], coresOf(history.document.masks[mask[row]]));
  }
  const [columns, rows] = gridOf(device, sets);
  const onCore = Array.from({ length: columns * rows }, () => []);
  for (const [mask, cores] of sets) for (const [x, y] of cores) onCore[y * columns + x]?.push(mask);
  const known = new Map(); // many cores have the same programs
  const circular = Float64Array.from(onCore, (masks) => {
    const key = masks.join(" ");
    if (!known.has(key)) known.set(key, union(masks.flatMap((mask) => ranges.get(mask))));
    return known.get(key);
  });
  const { buffers } = device;
  const held = [1, 2].map((kind) =>
    history.live(device, time, [kind]).reduce((sum, row) => sum + inBank(buffers.held[row], device.banks[kind === 1 ? "l1" : "l1_small"]), 0),
  );
  return { columns, rows, buffers: device.banks.l1 ? held[0] + held[1] : null, circular, unplaced };
}

function gridOf(device, sets) {
  if (device.grid) return device.grid;
  let [columns, rows] = [0, 0];
  for (const cores of sets.values()) {
    for (const [x, y] of cores) [columns, rows] = [Math.max(columns, x + 1), Math.max(rows, y + 1)];
  }
  return [columns, rows];
}

/** Rows of circular buffers that are counted and alive. */
export function liveCircular(device, time) {
  const { circular } = device;
  const until = countUntil(circular.start, time);
  const found = [];
  for (let row = 0; row < until; row += 1) {
    if (circular.counted[row] && (circular.end[row] < 0 || circular.end[row] > time)) found.push(row);
  }
  return found;
}
