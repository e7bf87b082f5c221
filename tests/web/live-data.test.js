import assert from "node:assert/strict";
import { test } from "node:test";

import { bars, cachedByCore, coreMap, extended, inOrder, processRows, programRows, shortCommand, siteRows } from "../../src/ttmem/web/static/live-data.js";

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

  const [row] = processRows({ devices: [device], processes: [process] });

  assert.deepEqual([row.dram, row.l1, row.l1_small, row.trace, row.cb], [2, 4, 6, 8, 10]);
});

test("growth counts from when the page was opened, and new sites from nothing", () => {
  const buffer = (site, requested, reserved = null) => ({ site, name: "add", kind: "L1", phase: null, device: "77", requested, reserved });
  const first = new Map();

  siteRows({ buffers: [buffer("a.py:1", 10)] }, first);
  const rows = siteRows({ buffers: [buffer("a.py:1", 10), buffer("a.py:1", 10, 16), buffer("b.py:2", 5)] }, first);

  assert.deepEqual(rows.map((row) => [row.site, row.count, row.bytes, row.growth]), [["a.py:1", 2, 26, 16], ["b.py:2", 1, 5, 5]]);
});

test("a program has the bytes of its kernels and of its own circular buffers", () => {
  const key = { pid: 1, device: "77", program: 3 };
  const snapshot = {
    devices: [device], programs: [{ ...key, dispatches: 2 }], kernels: [{ ...key, footprint: 7, name: "reader" }, { ...key, footprint: 8, name: null }],
    circular_buffers: [{ ...key, size: 100, references: 2, global: false }, { ...key, size: 50, references: 1, global: true }],
  };

  const [row] = programRows(snapshot);

  assert.deepEqual([row.number, row.kernels, row.footprint, row.cb], [1, 2, 15, 200]);
});

test("the gap in a core lies between its circular buffers and the lowest buffer", () => {
  const snapshot = {
    cores: { 77: [{ pid: 1, cores: [[0, 0]], cached: 50, regions: [[100, 150]] }] },
    l1_buffers: [{ device: "77", kind: "L1", address: 700, requested: 10, reserved: 200, site: null, name: "add", pid: 1 }, { device: "78", kind: "L1", address: 0, requested: 9, reserved: 9 }],
  };

  assert.equal(coreMap(snapshot, device, 0, 0).gap, 550);
  assert.equal(coreMap(snapshot, device, 1, 0).gap, 600);
  assert.deepEqual(coreMap(snapshot, device, 0, 0).ranges.map((one) => [one.from, one.to]), [[100, 150], [700, 800]]);
  assert.equal(cachedByCore(snapshot, device).get("0,0"), 50);
  assert.equal(coreMap(snapshot, { ...device, l1_map: null }, 0, 0), null);
});

test("history goes on where the server's ends, an hour at most, and never back", () => {
  let columns;
  for (let at = 1; at <= 5; at += 1) columns = extended(columns, device, at, 3);
  columns = extended(columns, device, 4, 3);

  assert.deepEqual(columns.time_ns, [3, 4, 5]);
  assert.deepEqual(columns.l1_used, [60, 60, 60]);
});
