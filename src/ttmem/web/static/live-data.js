// What the views of the live page show, made from the document of `ttmem ps --json`. Nothing here draws.

export const KINDS = ["dram", "l1", "l1_small", "trace"];

/** "0 · p150": the number that applications use, and the board. */
export function deviceName(device) {
  const number = device.logical_id === null ? "?" : String(device.logical_id);
  return `${number} · ${device.position ? `${device.position} ` : ""}${device.board ?? device.arch ?? "unknown board"}`;
}

/** Bars of a device: parts with their bytes, and of what. */
export function bars(device) {
  const { dram, l1, l1_small: small, trace, cb } = device.memory;
  const found = [
    { name: "DRAM", used: dram.held, capacity: dram.capacity, largest: dram.largest_free, parts: [["dram", dram.held]] },
    {
      name: "L1",
      used: device.l1_used,
      capacity: device.l1_capacity,
      largest: l1.largest_free,
      parts: [["l1", l1.held], ["l1_small", small.held], ["cb", cb.used]],
    },
  ];
  if (trace.capacity || trace.held) {
    found.push({ name: "TRACE", used: trace.held, capacity: trace.capacity, largest: trace.largest_free, parts: [["trace", trace.held]] });
  }
  return found;
}

/** Devices by number, then by unique id. */
export function inOrder(devices) {
  const key = (device) => device.logical_id ?? Number.MAX_SAFE_INTEGER;
  return [...devices].sort((a, b) => key(a) - key(b) || (a.unique_id < b.unique_id ? -1 : 1));
}

/** "node.serve.py --port 80" without interpreter and directories; null where this user may not know it. */
export function shortCommand(command) {
  if (command === null) return null;
  const words = command.split(" ");
  const isPython = /^(?:.*\/)?(?:python|pypy)[\d.]*$/.test(words[0]);
  let at = 0;
  if (isPython) {
    at = 1;
    while (at < words.length && words[at].startsWith("-") && !["-m", "-c", "-"].includes(words[at])) at += 1;
    if (words[at] === "-m") at += 1;
    if (at >= words.length || words[at] === "-c" || words[at] === "-") at = 0;
  }
  return [words[at].replace(/^.*\//, ""), ...words.slice(at + 1)].join(" ");
}

/** One row for each process: sums over its devices. */
export function processRows(snapshot) {
  const names = new Map(snapshot.devices.map((device) => [device.unique_id, device.logical_id]));
  return snapshot.processes.map((process) => {
    const sums = { dram: 0, l1: 0, l1_small: 0, trace: 0, cb: 0 };
    for (const amounts of Object.values(process.devices)) {
      for (const kind of Object.keys(sums)) sums[kind] += amounts[kind];
    }
    const belongs = process.workload ?? {};
    return {
      pid: process.pid,
      user: process.user,
      command: shortCommand(process.command),
      devices: Object.keys(process.devices).map((id) => names.get(id) ?? "?").sort((a, b) => a - b).join(", "),
      pod: belongs.pod ? `${belongs.namespace}/${belongs.pod}` : belongs.pod_uid ?? (belongs.container ?? "").slice(0, 12),
      job: belongs.job ?? null,
      sources: process.sources.join(", "),
      ...sums,
    };
  });
}

/** Live buffers by call site and kind; `first` remembers what each held when the page was opened. */
export function siteRows(snapshot, first) {
  const rows = new Map();
  for (const buffer of snapshot.buffers ?? []) {
    if (buffer.kind === "SYSTEM_MEMORY") continue;
    const key = JSON.stringify([buffer.site, buffer.name, buffer.kind, buffer.phase]);
    let row = rows.get(key);
    if (!row) {
      row = { site: buffer.site, op: buffer.name, kind: buffer.kind, phase: buffer.phase, count: 0, bytes: 0, devices: new Set() };
      rows.set(key, row);
    }
    row.count += 1;
    row.bytes += buffer.reserved ?? buffer.requested;
    row.devices.add(buffer.device);
  }
  const opened = first.size === 0;
  for (const [key, row] of rows) {
    if (!first.has(key)) first.set(key, opened ? row.bytes : 0);
    row.growth = row.bytes - first.get(key);
    row.devices = row.devices.size;
  }
  return [...rows.values()];
}

/** Programs with the bytes of their kernels and circular buffers. */
export function programRows(snapshot) {
  const key = (row) => `${row.pid}/${row.device}/${row.program}`;
  const numbers = new Map(snapshot.devices.map((device) => [device.unique_id, device.logical_id]));
  const rows = new Map();
  for (const program of snapshot.programs ?? []) {
    rows.set(key(program), { ...program, number: numbers.get(program.device) ?? null, kernels: 0, footprint: 0, cb: 0, kernelNames: [] });
  }
  for (const kernel of snapshot.kernels ?? []) {
    const row = rows.get(key(kernel));
    if (!row) continue;
    row.kernels += 1;
    row.footprint += kernel.footprint;
    if (kernel.name) row.kernelNames.push(kernel.name);
  }
  for (const buffer of snapshot.circular_buffers ?? []) {
    const row = rows.get(key(buffer));
    if (row && !buffer.global) row.cb += buffer.size * buffer.references;
  }
  return [...rows.values()];
}

/** What lies in the L1 of one core: circular buffers of live programs from below, buffers from above, and the gap. */
export function coreMap(snapshot, device, column, row) {
  const map = device.l1_map;
  if (!map) return null;
  const below = [];
  for (const set of snapshot.cores?.[device.unique_id] ?? []) {
    if (!set.cores.some(([x, y]) => x === column && y === row)) continue;
    for (const [from, to] of set.regions) below.push({ from, to, kind: "cb", text: `circular buffers of pid ${set.pid}` });
  }
  const above = [];
  for (const buffer of snapshot.l1_buffers ?? []) {
    if (buffer.device !== device.unique_id || buffer.address === null) continue;
    const size = Math.ceil((buffer.reserved ?? buffer.requested) / map.banks);
    const kind = buffer.kind === "L1" ? "l1" : "l1_small";
    above.push({ from: buffer.address, to: buffer.address + size, kind, text: buffer.site ?? buffer.name ?? `pid ${buffer.pid}` });
  }
  const ranges = [...below, ...above].sort((a, b) => a.from - b.from);
  const highest = Math.max(map.base, ...below.map((range) => range.to));
  const lowest = Math.min(map.small_base, ...above.filter((range) => range.kind === "l1").map((range) => range.from));
  return { ranges, gap: lowest - highest, base: map.base, end: map.end };
}

/** Bytes of circular buffers of live programs on each core, by "column,row". */
export function cachedByCore(snapshot, device) {
  const found = new Map();
  for (const set of snapshot.cores?.[device.unique_id] ?? []) {
    for (const [x, y] of set.cores) found.set(`${x},${y}`, (found.get(`${x},${y}`) ?? 0) + set.cached);
  }
  return found;
}

/** Appends a snapshot to the columns of `/api/v1/history`; at most an hour is kept. */
export function extended(history, device, timeNs, most = 3600) {
  const columns = history ?? { time_ns: [], dram: [], l1: [], l1_small: [], trace: [], cb: [], l1_used: [] };
  if (columns.time_ns.length && timeNs <= columns.time_ns.at(-1)) return columns;
  const { dram, l1, l1_small: small, trace, cb } = device.memory;
  const sample = { time_ns: timeNs, dram: dram.held, l1: l1.held, l1_small: small.held, trace: trace.held, cb: cb.used, l1_used: device.l1_used };
  for (const [name, value] of Object.entries(sample)) {
    columns[name].push(value);
    if (columns[name].length > most) columns[name].shift();
  }
  return columns;
}
