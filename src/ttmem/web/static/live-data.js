// What the views of the live page show, made from the document of `ttmem ps --json`. Nothing here draws.

import { KINDS } from "./history.js";

export { KINDS };

// -- where the page is -----------------------------------------------------------------------------------------------

/** "#/device/12?recording=file&at=12.5s" -> {name, id, recording, at}; what is not there is null. */
export function placeOf(hash) {
  const [path, query] = hash.replace(/^#\/?/, "").split("?", 2);
  const [name, id] = path.split("/").map((part) => decodeURIComponent(part));
  const given = new URLSearchParams(query ?? "");
  return { name, id: id ?? null, recording: given.get("recording"), at: given.get("at") };
}

export function hashOf({ name, id, recording, at }) {
  const given = Object.entries({ recording, at }).filter(([, value]) => value !== null && value !== undefined);
  const query = given.map(([key, value]) => `${key}=${encodeURIComponent(value).replaceAll("%3A", ":").replaceAll("%40", "@")}`).join("&");
  return `#/${name}${id === null || id === undefined ? "" : `/${encodeURIComponent(id)}`}${query ? `?${query}` : ""}`;
}

/** How the API is asked for an instant, `now` ns after the start: of a recording since its start, of a live host by the clock. */
export function instantText(span, now) {
  if (!span.live) return `${(now / 1e9).toFixed(9)}s`;
  return `@${BigInt(Math.round(span.started)) + BigInt(Math.round(now))}`;
}

const ROUNDING = 512; // ns: a time since 1970 is exact to 256 here, and an instant is the difference of two

/** The position at which a marker has taken effect: that of an event is before it. */
export function shownFrom({ position, kind }) {
  return position + (kind === "failure" || kind === "phase" ? 1 : 0);
}

/** The last marker up to an instant; of several at the same time, the failure. `position`: if the instant was given by it. */
export function markerAt(markers, now, position = -1) {
  const past = markers.filter((one) => one.since_start_ns <= now + ROUNDING || shownFrom(one) <= position);
  const rank = (one) => one.since_start_ns + (one.kind === "failure" ? ROUNDING : 0);
  return past.reduce((last, one) => (last && rank(last) > rank(one) ? last : one), null);
}

const SECOND = 1e9; // ns

// -- over time -------------------------------------------------------------------------------------------------------

const COLUMNS = ["dram", "l1", "l1_small", "trace", "cb"];
const NOTHING = { rows: 0, device: new Float64Array(), time: new Float64Array(), start: new Float64Array(), end: new Float64Array() };

/** One device for the charts of the report: samples of what it held since `started`, as {document, tables} of a `History`. */
export function asPayload(device, columns, markers, { started, ended }) {
  const rows = columns?.time_ns.length ?? 0;
  const steps = { rows, device: new Float64Array(rows), position: new Float64Array(rows).fill(-1) };
  steps.time = Float64Array.from(columns?.time_ns ?? [], (time) => Math.max(0, time - started));
  for (const name of COLUMNS) steps[name] = Float64Array.from(columns?.[name] ?? []);
  const length = Math.max(1, ended - started, rows ? steps.time[rows - 1] : 0);
  const { dram, l1_small: small, trace } = device.memory;
  const peaks = [
    ["dram", dram.peak, dram.peak_time_ns],
    ["l1_used", device.l1_peak, device.l1_peak_time_ns],
  ].filter(([, bytes, time]) => bytes && time >= started && time <= started + length);
  const document = {
    strings: [],
    length_ns: length,
    complete: [[0, length]],
    devices: [{ ...device, capacity: { dram: dram.capacity, l1_used: device.l1_capacity, l1_small: small.capacity, trace: trace.capacity }, banks: {} }],
    markers: markers.map((marker) => ({ ...marker, time: marker.since_start_ns })),
    peaks: peaks.map(([memory, bytes, time]) => ({ device: device.unique_id, memory, bytes, time: time - started })),
    processes: [],
    masks: [],
  };
  return { document, tables: { steps, origins: { rows: 0 }, buffers: NOTHING, circular: NOTHING, frontier: NOTHING, omitted: NOTHING } };
}

/** The device that is fullest at any time of the span, for the time bar: {times, values}, ns since the start and the share of its most. */
export function outlineOf(histories, { started }) {
  let best = null;
  for (const columns of histories.values()) {
    const from = columns.time_ns.findLastIndex((time) => time <= started);
    for (const name of ["l1_used", "dram"]) {
      const most = columns[name].reduce((highest, bytes, at) => (at < from ? highest : Math.max(highest, bytes)), 0);
      if (most && (!best || (name === "l1_used" && best.name === "dram") || (name === best.name && most > best.most))) best = { columns, name, most };
    }
  }
  if (!best) return null;
  const { columns, name, most } = best;
  return { times: columns.time_ns.map((time) => time - started), values: columns[name].map((bytes) => bytes / most) };
}

/** Whether a process holds anything. */
export function isUsed(snapshot) {
  return snapshot.processes.some((process) => Object.values(process.devices).some((amounts) => Object.values(amounts).some(Boolean)));
}

export const SENSORS = {
  temperature_c: ["temperature", "°C"],
  power_w: ["power", "W"],
  current_a: ["current", "A"],
  voltage_mv: ["core voltage", "mV"],
  aiclk_mhz: ["AI clock", "MHz"],
  axiclk_mhz: ["AXI clock", "MHz"],
  arcclk_mhz: ["ARC clock", "MHz"],
  fan_rpm: ["fan", "rpm"],
};

/** What the sensors of a device said, by sensor: [[time, value], ...], ten minutes of it. */
export function withReadings(readings, device, timeNs) {
  const found = readings ?? new Map();
  for (const name of Object.keys(SENSORS)) {
    const value = device.telemetry?.[name];
    if (typeof value !== "number") continue;
    const series = found.get(name) ?? [];
    if (!series.length || series.at(-1)[0] < timeNs) series.push([timeNs, value]);
    while (timeNs - series[0][0] > 600 * SECOND) series.shift();
    found.set(name, series);
  }
  return found;
}

// -- what views show -------------------------------------------------------------------------------------------------

/** "0 · p150": the number that applications use, and the board. */
export function deviceName(device) {
  const number = device.logical_id === null ? "?" : String(device.logical_id);
  return `${number} · ${device.position ? `${device.position} ` : ""}${device.board ?? device.arch ?? "unknown board"}`;
}

/** What the devices of a snapshot are called in tables: a number that no other has, or else the unique id. */
export function deviceNames(devices) {
  const count = new Map();
  for (const { logical_id: number } of devices) count.set(number, (count.get(number) ?? 0) + 1);
  return new Map(devices.map(({ unique_id: id, logical_id: number }) => [id, number !== null && count.get(number) === 1 ? number : shortId(id)]));
}

const shortId = (id) => (id.length > 9 ? `${id.slice(0, 4)}…${id.slice(-4)}` : `id ${id}`);

export const nameOf = (names, id) => String(names.get(id) ?? shortId(id));

/** "0-3,7,1234…5678", as in the terminal. */
export function namesOf(names, ids) {
  const numbers = ids.map((id) => names.get(id)).filter(Number.isInteger).sort((a, b) => a - b);
  const runs = [];
  for (const number of numbers) {
    if (number === runs.at(-1)?.at(-1) + 1) runs[runs.length - 1] = [runs.at(-1)[0], number];
    else runs.push([number]);
  }
  return [...runs.map((run) => run.join("-")), ...ids.filter((id) => !Number.isInteger(names.get(id))).map((id) => nameOf(names, id))].join(",");
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

/** One row for each process, or for what each dead one left behind: sums over its devices, or what it holds on one. */
export function processRows(snapshot, processes, device = null) {
  const names = deviceNames(snapshot.devices);
  return processes.filter((process) => device === null || device in process.devices).map((process) => {
    const sums = { dram: 0, l1: 0, l1_small: 0, trace: 0, cb: 0 };
    for (const [id, amounts] of Object.entries(process.devices)) {
      if (device === null || device === id) for (const kind of Object.keys(sums)) sums[kind] += amounts[kind];
    }
    const belongs = process.workload ?? {};
    return {
      pid: process.pid,
      user: process.user,
      command: shortCommand(process.command),
      devices: namesOf(names, Object.keys(process.devices)),
      pod: belongs.pod ? `${belongs.namespace}/${belongs.pod}` : belongs.pod_uid ?? (belongs.container ?? "").slice(0, 12),
      job: belongs.job ?? null,
      ...sums,
    };
  });
}

/** What live bytes are grouped by, as in `ttmem ps --by`: [title, how a group without a name is called]. */
export const BY = {
  site: ["call site", "no call site is known: start the program with ttmem run"],
  op: ["operation", "no operation is known"],
  phase: ["phase", "outside any phase"],
};
const UNNAMED = { "circular buffers": "circular buffers (shared)", "sums only": "processes known only by their totals" };

/** The groups of a snapshot, by key; `first`: those of when the page was opened, or null if they are not known. */
export function groupRows({ by, groups }, first) {
  const rows = new Map(groups.map(({ what, dram, l1_used, trace, count, [by]: name }) => [
    JSON.stringify([what, name]),
    { name: name ?? UNNAMED[what] ?? BY[by][1], held: dram + l1_used + trace, dram, l1_used, trace, count },
  ]));
  for (const [key, { name }] of first ?? []) {
    if (!rows.has(key)) rows.set(key, { name, held: 0, dram: 0, l1_used: 0, trace: 0, count: 0 });
  }
  for (const [key, row] of rows) row.growth = first ? row.held - (first.get(key)?.held ?? 0) : null;
  return rows;
}

/** Programs with the bytes of their kernels and circular buffers; null where that list was cut. */
export function programRows(snapshot) {
  const key = (row) => `${row.pid}/${row.device}/${row.program}`;
  const rows = new Map();
  const listed = (name) => (snapshot.limited?.includes(name) ? null : snapshot[name] ?? []);
  const [kernels, buffers] = [listed("kernels"), listed("circular_buffers")];
  const sums = { kernels: kernels && 0, footprint: kernels && 0, cb: buffers && 0 };
  for (const program of snapshot.programs ?? []) {
    rows.set(key(program), { ...program, ...sums, kernelNames: [] });
  }
  for (const kernel of kernels ?? []) {
    const row = rows.get(key(kernel));
    if (!row) continue;
    row.kernels += 1;
    row.footprint += kernel.footprint;
    if (kernel.name) row.kernelNames.push(kernel.name);
  }
  for (const buffer of buffers ?? []) {
    const row = rows.get(key(buffer));
    if (row && !buffer.global) row.cb += buffer.size * buffer.references;
  }
  return [...rows.values()];
}

// The words of the Events page of `ttmem top`; a test compares them.
const EVENTS = {
  ALLOC: "allocated", FREE: "freed", CB_ALLOC: "CB allocated", CB_FREE: "CB freed", KERNEL_LOAD: "kernel loaded", KERNEL_UNLOAD: "kernel unloaded",
  PROGRAM_DISPATCH: "dispatched", PROGRAM_DESTROY: "program destroyed", BINARY_STATUS: "binaries", RING: "kernel ring", COUNTERS: "counters",
  CACHE_ENTRIES: "cached programs", PROGRAM_NAME: "program named", DEVICE_OPENED: "device opened", DEVICE_CLOSED: "device closed", PROGRAM_CREATED: "program created",
  PROGRAM_COMPILED: "program compiled", PROGRAM_FINALIZED: "program finalized", TRACE_BEGUN: "trace begun", TRACE_CAPTURED: "trace captured",
  TRACE_REPLAYED: "trace replayed", TRACE_RELEASED: "trace released", ALLOCATION_FAILED: "allocation FAILED", PHASE_ENTERED: "phase entered", MARKED: "mark", CB_REFUSED: "CB did not fit",
};
const FLAGS = { GLOBAL: "global", DATAFLOW: "dataflow", RESENT: "resent", CACHE_HIT: "cache hit", CACHE_MISS: "cache miss", WITH_DEVICE: "with its device" };
const SIZED = ["ALLOC", "FREE", "CB_ALLOC", "CB_FREE", "KERNEL_LOAD", "ALLOCATION_FAILED", "CB_REFUSED"];
const PLACED = ["ALLOC", "CB_ALLOC"]; // `address` is one
const LOWER = ["KERNEL_LOAD", "PROGRAM_CREATED"];

function eventText({ op, kind, flags, text }) {
  if (!EVENTS[op]) return `unknown event ${op}`;
  const shown = op === "BINARY_STATUS" ? kind?.toLowerCase().replace(/(?:^|_)(.)/g, (_, letter) => letter.toUpperCase()) : LOWER.includes(op) ? kind?.toLowerCase() : kind;
  const said = [shown ? `${EVENTS[op]} ${shown}` : EVENTS[op], ...Object.keys(FLAGS).filter((name) => flags.includes(name)).map((name) => FLAGS[name])].join(", ");
  const lines = text?.trim() ? text.trim().split("\n") : [];
  return [said, ...lines.slice(lines.indexOf("info:") + 1, lines.indexOf("info:") + 2)].join(": "); // the reason stands below "info:"
}

const ONE_STEP = SECOND; // what a mesh does later than this after its first device is another step

/** Events, oldest first; what a process does on one device of a mesh after the other is one row. */
export function eventRows(events) {
  const rows = [];
  const latest = new Map(); // by pid: [row, what must be the same]
  for (const event of events) {
    const { op, kind, flags, id, size, name, site, text, pid, device } = event;
    const same = JSON.stringify([op, kind, flags, id, size, name, site, text]);
    const [row, before] = latest.get(pid) ?? [];
    if (row && device && row.devices.length && !row.devices.includes(device) && same === before && Math.abs(event.time_ns - row.time_ns) <= ONE_STEP) {
      row.devices.push(device);
      continue;
    }
    const bytes = op === "RING" ? id : (SIZED.includes(op) && size) || null; // the ring's is what is in it now
    const made = { ...event, event: eventText(event), devices: device ? [device] : [], bytes, place: PLACED.includes(op) ? event.address : null, failed: op === "ALLOCATION_FAILED" };
    rows.push(made);
    latest.set(pid, [made, same]);
  }
  return rows;
}

/** What lies in the L1 of one core: circular buffers of live programs from below, buffers from above, and the gap, null if not all are listed. */
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
  const gap = snapshot.limited?.includes("l1_buffers") ? null : lowest - highest;
  return { ranges, gap, base: map.base, end: map.end };
}

/** Bytes of circular buffers of live programs on each core, by "column,row". */
export function cachedByCore(snapshot, device) {
  const found = new Map();
  for (const set of snapshot.cores?.[device.unique_id] ?? []) {
    for (const [x, y] of set.cores) found.set(`${x},${y}`, (found.get(`${x},${y}`) ?? 0) + set.cached);
  }
  return found;
}

/** Appends a snapshot to the columns of `/api/v1/history`: every one of the last minute, one a second of the last hour. */
export function extended(history, device, timeNs) {
  const columns = history ?? { time_ns: [], dram: [], l1: [], l1_small: [], trace: [], cb: [], l1_used: [] };
  const times = columns.time_ns;
  if (times.length && timeNs <= times.at(-1)) return columns;
  const { dram, l1, l1_small: small, trace, cb } = device.memory;
  const sample = { time_ns: timeNs, dram: dram.held, l1: l1.held, l1_small: small.held, trace: trace.held, cb: cb.used, l1_used: device.l1_used };
  for (const [name, value] of Object.entries(sample)) columns[name].push(value);
  const drop = (at) => Object.keys(sample).forEach((name) => columns[name].splice(at, 1));
  while (timeNs - times[0] > 3600 * SECOND) drop(0);
  let at = times.findLastIndex((time) => timeNs - time > 60 * SECOND);
  for (; at > 0 && times[at] - times[at - 1] < 0.9 * SECOND; at -= 1) drop(at);
  return columns;
}
