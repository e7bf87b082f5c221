import assert from "node:assert/strict";
import { test } from "node:test";

import { asPayload, bars, cachedByCore, coreMap, deviceNames, eventRows, extended, groupRows, hashOf, inOrder, instantText, markerAt, namesOf, outlineOf, placeOf, processRows, programRows, shortCommand, withReadings } from "../../src/ttmem/web/static/live-data.js";
import { History } from "../../src/ttmem/web/static/history.js";

const memory = (held, capacity) => ({ held, capacity, largest_free: null });
const device = {
  unique_id: "77", logical_id: 1, l1_used: 60, l1_capacity: 100, grid: [2, 1],
  l1_map: { banks: 2, ring_base: 0, base: 100, small_base: 900, end: 1000 },
  memory: { dram: memory(5, 10), l1: memory(30, 80), l1_small: memory(10, 20), trace: memory(0, null), cb: { used: 20 } },
};

test("the parts of the L1 bar add up to what is used", () => {
  const [dram, l1, ...more] = bars(device);

  assert.deepEqual(more, []); // no trace region
  assert.equal(dram.used, 5);
  assert.equal(l1.parts.reduce((sum, [, bytes]) => sum + bytes, 0), device.l1_used);
});

test("devices come by number, unnumbered ones last", () => {
  const ids = [{ logical_id: null, unique_id: "a" }, { logical_id: 10, unique_id: "b" }, { logical_id: 2, unique_id: "c" }];

  assert.deepEqual(inOrder(ids).map((one) => one.unique_id), ["c", "b", "a"]);
});

test("a device is called by its number, unless another has the same", () => {
  const named = (...pairs) => deviceNames(pairs.map(([unique_id, logical_id]) => ({ unique_id, logical_id })));

  assert.equal(namesOf(named(["a", 2], ["b", 0], ["c", 1], ["d", 7]), ["a", "b", "c", "d"]), "0-2,7");
  const two = named(["5987688938464050098", 0], ["9698029722847477907", 0], ["c", 1], ["d", null]);
  assert.equal(namesOf(two, ["5987688938464050098", "c"]), "1,5987…0098");
  assert.equal(namesOf(two, ["d", "1234567890123"]), "id d,1234…0123");
});

test("what a process does on all devices of a mesh is one event", () => {
  const event = (device, time_ns, more = {}) => ({ op: "ALLOC", kind: "L1", flags: [], id: 1, size: 8, address: 64, name: "add", site: null, text: null, pid: 9, device, time_ns, ...more });

  const rows = eventRows([event("a", 1), event("b", 2), event("a", 3), event("b", 4, { size: 9 }), event("c", 5e9)]);

  assert.deepEqual(rows.map((row) => [row.devices, row.time_ns]), [[["a", "b"], 1], [["a"], 3], [["b"], 4], [["c"], 5e9]]);
});

test("figures of events that are neither sizes nor addresses are not shown as such", () => {
  const event = (op, more) => eventRows([{ op, kind: null, flags: [], id: 1, size: 2, address: 3, name: null, site: null, text: null, pid: 9, device: "a", time_ns: 1, ...more }])[0];

  assert.deepEqual([event("RING").bytes, event("RING").place], [1, null]); // what is in it, and syncs
  assert.deepEqual([event("COUNTERS").bytes, event("COUNTERS").place], [null, null]);
  assert.deepEqual([event("ALLOC").bytes, event("ALLOC").place], [2, 3]);
  assert.equal(event("ALLOCATION_FAILED", { text: "at file:3\ninfo:\nOut of memory\nbacktrace" }).event, "allocation FAILED: Out of memory");
});

test("a command is its script and arguments", () => {
  assert.equal(shortCommand("/usr/bin/python3.12 -u /home/a/serve.py --port 80"), "serve.py --port 80");
  assert.equal(shortCommand("python -m vllm serve"), "vllm serve");
  assert.equal(shortCommand("python -c import ttnn"), "python -c import ttnn");
  assert.equal(shortCommand("/opt/bin/model"), "model");
  assert.equal(shortCommand(null), null);
});

test("a process holds the sum over its devices", () => {
  const amounts = { dram: 1, l1: 2, l1_small: 3, trace: 4, cb: 5 };
  const process = { pid: 9, user: "ann", command: null, sources: [], devices: { 77: amounts, 78: amounts }, workload: null };

  const [row] = processRows({ devices: [device] }, [process]);
  const [here] = processRows({ devices: [device] }, [process], "77");

  assert.deepEqual([row.dram, row.l1, row.l1_small, row.trace, row.cb], [2, 4, 6, 8, 10]);
  assert.deepEqual([here.dram, here.l1, here.l1_small, here.trace, here.cb], [1, 2, 3, 4, 5]);
  assert.deepEqual(processRows({ devices: [device] }, [process], "79"), []);
});

test("growth counts from when the page was opened; new groups come from nothing, and freed ones stay", () => {
  const group = (site, dram, what = "buffers") => ({ site, what, dram, l1_used: 1, trace: 0, count: 1 });
  const first = groupRows({ by: "site", groups: [group("a.py:1", 10), group("c.py:3", 7), group(null, 5, "circular buffers")] }, null);

  const rows = groupRows({ by: "site", groups: [group("a.py:1", 26), group("b.py:2", 9), group(null, 5, "circular buffers")] }, first);

  assert.deepEqual([...rows.values()].map((row) => [row.name, row.held, row.growth]), [
    ["a.py:1", 27, 16], ["b.py:2", 10, 10], ["circular buffers (shared)", 6, 0], ["c.py:3", 0, -8],
  ]);
});

test("a program has the bytes of its kernels and of its own circular buffers", () => {
  const key = { pid: 1, device: "77", program: 3 };
  const snapshot = {
    devices: [device], programs: [{ ...key, dispatches: 2 }], kernels: [{ ...key, footprint: 7, name: "reader" }, { ...key, footprint: 8, name: null }],
    circular_buffers: [{ ...key, size: 100, references: 2, global: false }, { ...key, size: 50, references: 1, global: true }],
  };

  const [row] = programRows(snapshot);

  assert.deepEqual([row.kernels, row.footprint, row.cb], [2, 15, 200]);
  const [cut] = programRows({ ...snapshot, limited: ["kernels"] });
  assert.deepEqual([cut.kernels, cut.footprint, cut.cb], [null, null, 200]);
});

test("the gap in a core lies between its circular buffers and the lowest buffer", () => {
  const snapshot = {
    cores: { 77: [{ pid: 1, cores: [[0, 0]], cached: 50, regions: [[100, 150]] }] },
    l1_buffers: [{ device: "77", kind: "L1", address: 700, requested: 10, reserved: 200, site: null, name: "add", pid: 1 }, { device: "78", kind: "L1", address: 0, requested: 9, reserved: 9 }],
  };

  assert.equal(coreMap(snapshot, device, 0, 0).gap, 550);
  assert.equal(coreMap(snapshot, device, 1, 0).gap, 600);
  assert.equal(coreMap({ ...snapshot, limited: ["l1_buffers"] }, device, 1, 0).gap, null);
  assert.deepEqual(coreMap(snapshot, device, 0, 0).ranges.map((one) => [one.from, one.to]), [[100, 150], [700, 800]]);
  assert.equal(cachedByCore(snapshot, device).get("0,0"), 50);
  assert.equal(coreMap(snapshot, { ...device, l1_map: null }, 0, 0), null);
});

test("history goes on where the server's ends, and never back", () => {
  let columns;
  for (const at of [3, 4, 5, 4]) columns = extended(columns, device, at);

  assert.deepEqual(columns.time_ns, [3, 4, 5]);
  assert.deepEqual(columns.l1_used, [60, 60, 60]);
});

test("an hour is kept at any rate: all of the last minute, before that a sample a second", () => {
  let columns;
  for (let tenth = 0; tenth <= 40_000; tenth += 1) columns = extended(columns, device, 1e18 + tenth * 1e8);
  const ago = columns.time_ns.map((time) => (1e18 + 40_000 * 1e8 - time) / 1e9);

  assert.equal(Math.round(ago[0]), 3600);
  assert.equal(ago.filter((seconds) => seconds < 60).length, 600);
  assert.equal(ago.filter((seconds) => seconds > 60).length, 3540 / 0.9 | 0); // 1 Hz is never quite regular
  assert.deepEqual(new Set(Object.values(columns).map((column) => column.length)), new Set([columns.dram.length]));
});

test("of sensors ten minutes are kept at any rate", () => {
  let found;
  for (let half = 0; half <= 2000; half += 1) found = withReadings(found, { telemetry: { power_w: half } }, half * 5e8);

  assert.equal(found.get("power_w").length, 1201);
});

test("an address names view, device, recording and instant, and is made from them", () => {
  for (const place of [
    { name: "devices", id: null, recording: null, at: null },
    { name: "device", id: "vm:0 a/b", recording: "file", at: "12.5s" },
    { name: "cores", id: "77", recording: null, at: "@1794990827049510021" },
    { name: "events", id: null, recording: "ab12", at: "#1234" },
  ]) {
    assert.deepEqual(placeOf(hashOf(place)), place);
  }
});

test("an instant of a recording is named since its start, one of a live host by the clock", () => {
  assert.equal(instantText({ started: 1e18, live: false }, 1_500_000_000), "1.500000000s");
  assert.equal(instantText({ started: 1_794_990_000_000_000_000, live: true }, 512), "@1794990000000000512");
});

test("samples of a device become charts of the report, stacked by kind", () => {
  const columns = { time_ns: [1000, 2000, 3000], dram: [0, 5, 1], l1: [0, 2, 2], l1_small: [0, 1, 1], trace: [0, 0, 0], cb: [0, 4, 1], l1_used: [0, 7, 4] };
  const memory = { dram: { capacity: 100, peak: 5, peak_time_ns: 2000 }, l1: {}, l1_small: { capacity: 4 }, trace: { capacity: 0 }, cb: {} };
  const device = { unique_id: "7", memory, l1_capacity: 10, l1_peak: 7, l1_peak_time_ns: 500 };
  const history = new History(asPayload(device, columns, [], { started: 1000, ended: 4000 }));
  const [of] = history.devices;

  assert.equal(history.length, 3000);
  assert.equal(history.highest(of, "l1_used"), 7);
  assert.deepEqual(history.holders(of, 1500, "l1_used", "kind").map(({ name, bytes }) => [name, bytes]), [["L1", 2], ["L1_SMALL", 1], ["circular buffers", 4]]);
  const { names, groups, sums } = history.columns(of, "l1_used", "kind", 0, 3000, 3);
  assert.deepEqual(names, ["L1", "L1_SMALL", "circular buffers"]);
  assert.deepEqual([...sums.subarray(groups, 2 * groups)], [2, 1, 4]);
  assert.deepEqual(history.document.peaks, [{ device: "7", memory: "dram", bytes: 5, time: 1000 }]); // the other was before
});

test("the time bar shows the device that was fullest", () => {
  const empty = { time_ns: [10, 20], l1_used: [0, 0], dram: [9, 9] };
  const full = { time_ns: [10, 20], l1_used: [4, 8], dram: [1, 1] };

  assert.deepEqual(outlineOf(new Map([["0", empty], ["1", full]]), { started: 10 }), { times: [0, 10], values: [0.5, 1] });
  assert.equal(outlineOf(new Map(), { started: 0 }), null);
  const before = { time_ns: [1, 2, 3], l1_used: [90, 90, 0], dram: [0, 0, 0] };
  assert.deepEqual(outlineOf(new Map([["0", before], ["1", full]]), { started: 5 }).values, [0.5, 1]);
});

test("readings of sensors are kept, and what is unknown is left out", () => {
  const device = (value) => ({ telemetry: { temperature_c: value, power_w: null } });

  let found = withReadings(null, device(40), 1);
  found = withReadings(found, device(41), 2);
  found = withReadings(found, device(41), 2);

  assert.deepEqual([...found], [["temperature_c", [[1, 40], [2, 41]]]]);
});

test("the marker of an instant is the last one, and of several at the same time the failure", () => {
  const one = (position, since_start_ns, kind) => ({ position, since_start_ns, kind });
  const markers = [one(25, 876_135_286, "start"), one(162, 962_609_995, "failure"), one(162, 962_609_995, "phase"), one(219, 1_210_026_805, "end")];

  assert.equal(markerAt(markers, 962_609_995 - 256).kind, "failure"); // a time since 1970 is rounded
  assert.equal(markerAt(markers, 962_000_000).kind, "start");
  assert.equal(markerAt(markers, 1_209_561_685).kind, "failure");
  assert.equal(markerAt(markers, 1_209_561_685, 219).kind, "end"); // later than the event before it
  assert.equal(markerAt(markers, 0), null);
});
