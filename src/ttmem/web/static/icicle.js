// Live memory as a tree of phase, call stack and operation, sized by bytes. Nothing here draws.

import { CHARTS, CIRCULAR } from "./history.js";

export const ROOT = "all";

/** The tree at an instant; children are sorted, the largest first. Its root holds the total of the chart. */
export function tree(history, device, time, chart) {
  const root = node(ROOT, "root");
  const { kinds, circular } = CHARTS[chart];
  const add = (origin, bytes, count) => {
    let at = root;
    grow(at, bytes, count);
    for (const [name, sort] of path(history.origin(origin))) {
      const key = `${sort} ${name}`;
      if (!at.named.has(key)) {
        at.named.set(key, node(name, sort, at));
        at.children.push(at.named.get(key));
      }
      at = at.named.get(key);
      grow(at, bytes, count);
    }
  };
  for (const row of history.live(device, time, kinds)) add(device.buffers.origin[row], device.buffers.held[row], 1);
  for (const row of history.omitted(device, time, kinds)) {
    add(device.omitted.origin[row], device.omitted.bytes[row], device.omitted.count[row]);
  }
  const cb = circular ? (history.totals(device, time)?.cb ?? 0) : 0;
  if (cb) {
    grow(root, cb, 0);
    const child = node(CIRCULAR, "circular", root);
    grow(child, cb, 0);
    root.children.push(child);
  }
  order(root);
  return root;
}

/** From the outside in: the phase, the frames of the call stack, the operation. */
export function path({ op, site, phase }) {
  const frames = site ? site.split("\n").reverse() : ["no call site"];
  return [...(phase ? [[phase, "phase"]] : []), ...frames.map((frame) => [frame, "frame"]), ...(op ? [[op, "op"]] : [])];
}

function node(name, sort, parent = null) {
  return { name, sort, parent, bytes: 0, count: 0, children: [], named: new Map() };
}

function grow(at, bytes, count) {
  at.bytes += bytes;
  at.count += count;
}

function order(at) {
  at.children.sort((a, b) => b.bytes - a.bytes || (a.name < b.name ? -1 : 1));
  at.children.forEach(order);
}

/** The boxes of the tree below `top`, from left to right: {node, depth, x, width}, in parts of the whole width. */
export function boxes(top, least = 0.001) {
  const found = [];
  const place = (at, depth, x) => {
    const width = top.bytes ? at.bytes / top.bytes : 0;
    if (width < least && depth > 0) return;
    found.push({ node: at, depth, x, width });
    let left = x;
    for (const child of at.children) {
      place(child, depth + 1, left);
      left += top.bytes ? child.bytes / top.bytes : 0;
    }
  };
  place(top, 0, 0);
  return found;
}

/** Bytes of everything whose name contains `text`, each byte once; null for an empty text. */
export function found(root, text) {
  const wanted = text.trim().toLowerCase();
  if (!wanted) return null;
  const sum = (at) => (matches(at, wanted) ? at.bytes : at.children.reduce((bytes, child) => bytes + sum(child), 0));
  return sum(root);
}

export function matches(at, text) {
  const wanted = text.trim().toLowerCase();
  return wanted !== "" && at.sort !== "root" && at.name.toLowerCase().includes(wanted);
}

/** From the root to a node. */
export function ancestors(at) {
  return at.parent ? [...ancestors(at.parent), at] : [at];
}
