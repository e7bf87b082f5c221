// Buffers as rectangles of time and address, and the gaps between them. Nothing here draws.

import { countUntil } from "./history.js";

/** Bytes that a buffer takes in each bank: it lies at the same address in all of them. */
export function inBank(held, banks) {
  return banks ? Math.ceil(held / banks) : held;
}

/** The addresses of a memory: [lowest, end] as declared, else as far as its buffers reach. */
export function reach(device, kind, name) {
  const map = device.l1_map;
  if (name === "l1" && map) return [map.base, map.small];
  if (name === "l1_small" && map && map.end > map.small) return [map.small, map.end];
  const { buffers } = device;
  const banks = device.banks[name];
  let [low, high] = [Infinity, 0];
  for (let row = 0; row < buffers.rows; row += 1) {
    if (buffers.kind[row] !== kind || buffers.address[row] < 0) continue;
    low = Math.min(low, buffers.address[row]);
    high = Math.max(high, buffers.address[row] + inBank(buffers.held[row], banks));
  }
  return high ? [low, high] : null;
}

/**
 * Rectangles of the buffers that are visible: {row, x, y, width, height} in pixels; y grows downwards, addresses upwards.
 *
 * Where several buffers are narrower than a pixel and meet in it, the first is drawn: `cells` remembers which pixels
 * are taken, so that a million short buffers cost as much as the picture has pixels.
 */
export function rectangles(device, kind, name, view, size, range) {
  const { buffers } = device;
  const banks = device.banks[name];
  const { start, end } = view;
  const [low, high] = range;
  const [scaleX, scaleY] = [size.width / (end - start), size.height / (high - low)];
  const taken = new Uint8Array(size.width * size.height);
  const until = countUntil(buffers.start, end);
  const found = [];
  for (let row = 0; row < until; row += 1) {
    if (buffers.kind[row] !== kind || buffers.address[row] < 0) continue;
    const last = buffers.end[row] < 0 ? end : Math.min(end, buffers.end[row]);
    if (last < start) continue;
    const x = Math.max(0, (buffers.start[row] - start) * scaleX);
    const width = (last - start) * scaleX - x;
    const top = buffers.address[row] + inBank(buffers.held[row], banks);
    const y = Math.max(0, (high - top) * scaleY);
    const height = Math.min(size.height, (high - buffers.address[row]) * scaleY) - y;
    if (height <= 0) continue;
    if (width < 1.5 || height < 1.5) {
      const cell = Math.min(size.height - 1, Math.floor(y)) * size.width + Math.min(size.width - 1, Math.floor(x));
      if (width < 1.5 && taken[cell]) continue;
      taken[cell] = 1;
    }
    found.push({ row, x, y, width: Math.max(1, width), height: Math.max(1, height) });
  }
  return found;
}

/**
 * When each range of addresses belonged to circular buffers of live programs: [{from, until, spans: [[start, end], ...]}].
 *
 * Programs use the same places again and again, so these are far fewer than buffers.
 */
export function circularSpans(device, length) {
  const { circular } = device;
  const places = new Map();
  for (let row = 0; row < circular.rows; row += 1) {
    if (!circular.counted[row] || circular.per_core[row] < 0) continue;
    const [from, until] = [circular.address[row], circular.address[row] + circular.per_core[row]];
    const key = `${from} ${until}`;
    if (!places.has(key)) places.set(key, { from, until, spans: [] });
    const { spans } = places.get(key); // rows are in the order of their start
    const [start, end] = [circular.start[row], circular.end[row] < 0 ? length : circular.end[row]];
    const last = spans[spans.length - 1];
    if (last && start <= last[1]) last[1] = Math.max(last[1], end);
    else spans.push([start, end]);
  }
  return [...places.values()];
}

/** Free ranges at an instant: [[from, until], ...] in ascending order. */
export function gaps(history, device, kind, name, time, range) {
  const { buffers } = device;
  const banks = device.banks[name];
  const taken = history
    .live(device, time, [kind])
    .filter((row) => buffers.address[row] >= 0)
    .map((row) => [buffers.address[row], buffers.address[row] + inBank(buffers.held[row], banks)])
    .sort((a, b) => a[0] - b[0]);
  const found = [];
  let at = range[0];
  for (const [from, until] of taken) {
    if (from > at) found.push([at, Math.min(from, range[1])]);
    at = Math.max(at, until);
  }
  if (at < range[1]) found.push([at, range[1]]);
  return found;
}

/** How far the program dispatched last reaches up in L1, and the lowest L1 buffer; null where one of them is unknown. */
export function clearance(device, time) {
  const { frontier } = device;
  const row = countUntil(frontier.time, time) - 1;
  if (row < 0) return null;
  const [reached, lowest] = [frontier.reached[row], frontier.lowest[row]];
  return {
    reached: reached < 0 ? null : reached,
    lowest: lowest < 0 ? null : lowest,
    distance: reached < 0 || lowest < 0 ? null : lowest - reached,
  };
}

/** The instant at which the two came closest: {time, distance}. */
export function closest(device) {
  const { frontier } = device;
  let best = null;
  for (let row = 0; row < frontier.rows; row += 1) {
    if (frontier.reached[row] < 0 || frontier.lowest[row] < 0) continue;
    const distance = frontier.lowest[row] - frontier.reached[row];
    if (best === null || distance < best.distance) best = { time: frontier.time[row], distance };
  }
  return best;
}
