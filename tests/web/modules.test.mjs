// The modules of the page that draw nothing, as specifications. `node --test` runs them.

import assert from "node:assert/strict";
import test from "node:test";

import { byteTicks, clock, exact, hex, human, share, shortSite, ticks } from "../../src/ttmem/web/static/sizes.js";
import { integers } from "../../src/ttmem/web/static/payload.js";
import { Window } from "../../src/ttmem/web/static/window.js";
import { CIRCULAR, History, countUntil, phasesOf } from "../../src/ttmem/web/static/history.js";
import { ancestors, boxes, found, path, tree } from "../../src/ttmem/web/static/icicle.js";
import { circularSpans, clearance, closest, gaps, reach, rectangles } from "../../src/ttmem/web/static/addresses.js";
import { coreMap, coresOf, union } from "../../src/ttmem/web/static/cores.js";
import { filtered, sorted } from "../../src/ttmem/web/static/tables.js";

const MIB = 1 << 20;

/** Columns from rows, as `payload.js` gives them. */
function table(names, rows) {
  const made = { rows: rows.length };
  names.forEach((name, at) => (made[name] = Float64Array.from(rows, (row) => row[at])));
  return made;
}

/** A run of 100 ns on one device: weights from 10 on, two activations, circular buffers from 40 on. */
function run(changes = {}) {
  const document = {
    length_ns: 100,
    complete: [[0, 100]],
    strings: ["load", "model.py:7 load\nmain.py:1 main", "matmul", "model.py:42 forward\nmain.py:1 main", "decode"],
    processes: [{ pid: 41, command: "python main.py" }],
    peaks: [],
    markers: [],
    masks: ["3", "100000001"],
    devices: [
      {
        unique_id: "1001",
        grid: [2, 2],
        capacity: { dram: 100 * MIB, l1_used: 16 * MIB },
        banks: { dram: 2, l1: 4, l1_small: 4, trace: 2 },
        l1_map: { base: 0x1000, small: 0x1000 + MIB, end: 0x1000 + MIB },
      },
    ],
    ...changes.document,
  };
  const tables = {
    origins: table(["op", "site", "phase", "process"], [[0, 1, -1, 0], [2, 3, 4, 0]]),
    buffers: table(
      ["device", "kind", "start", "end", "address", "held", "requested", "origin"],
      [
        [0, 0, 10, -1, 0, 8 * MIB, 8 * MIB, 0],
        [0, 1, 20, 30, 0x1000 + MIB / 2, 4 * MIB / 4, MIB, 1],
        [0, 1, 50, 60, 0x1000 + MIB / 2, 4 * MIB / 2, MIB, 1],
      ],
    ),
    steps: table(
      ["device", "position", "time", "dram", "l1", "l1_small", "trace", "cb"],
      [
        [0, 1, 10, 8 * MIB, 0, 0, 0, 0],
        [0, 2, 20, 8 * MIB, MIB, 0, 0, 0],
        [0, 3, 30, 8 * MIB, 0, 0, 0, 0],
        [0, 4, 40, 8 * MIB, 0, 0, 0, 4096],
        [0, 5, 50, 8 * MIB, 2 * MIB, 0, 0, 4096],
        [0, 6, 60, 8 * MIB, 0, 0, 0, 4096],
      ],
    ),
    omitted: table(["device", "time", "kind", "origin", "bytes", "count"], []),
    circular: table(
      ["device", "start", "end", "address", "per_core", "mask", "name", "counted"],
      [
        [0, 40, -1, 0x1000, 1024, 0, -1, 1],
        [0, 40, -1, 0x1200, 1024, 1, -1, 1],
        [0, 40, -1, 0x9000, 512, 0, -1, 0],
        [0, 40, -1, 0x1000, -1, -1, -1, 1],
      ],
    ),
    frontier: table(["device", "time", "reached", "lowest"], [[0, 40, 0x1600, -1], [0, 50, 0x1600, 0x1000 + MIB / 2], [0, 60, 0x1600, -1]]),
    ...changes.tables,
  };
  return new History({ document, tables });
}

/** The same with its middle left out: one sample at 20, where the activation is only in a sum. */
function thinned() {
  return run({
    document: { complete: [[0, 10], [45, 100]] },
    tables: {
      buffers: table(
        ["device", "kind", "start", "end", "address", "held", "requested", "origin"],
        [[0, 0, 10, -1, 0, 8 * MIB, 8 * MIB, 0], [0, 1, 50, 60, 0, 2 * MIB, MIB, 1]],
      ),
      omitted: table(["device", "time", "kind", "origin", "bytes", "count"], [[0, 20, 1, 1, MIB, 1], [0, 30, 0, 0, 0, 0]]),
    },
  });
}

test("sizes and times are spelled as in the other views", () => {
  assert.deepEqual([0, 512, 1536, 1023.96 * 1024, 5 * 2 ** 30, null].map(human), ["0 B", "512 B", "1.5 KiB", "1.0 MiB", "5.0 GiB", "N/A"]);
  assert.deepEqual([1234567, 0, undefined].map(exact), ["1,234,567", "0", "N/A"]);
  assert.deepEqual([hex(4096), hex(-1)], ["0x1000", "N/A"]);
  assert.deepEqual([share(0, 9), share(1, 1000), share(7, 1000), share(1, 2), share(999, 1000), share(9, 9), share(10, 9), share(1, 0)], ["0%", "<1%", "1%", "50%", ">99%", "100%", "over", ""]);
  assert.deepEqual([clock(1.5e9, 1e8), clock(3723e9, 1e9), clock(3723.5e9, 1), clock(NaN)], ["1.5 s", "01:02:03", "01:02:03.500000", "N/A"]);
  assert.equal(shortSite("/src/deep/model.py:42 forward\n/src/main.py:9 main"), "model.py:42 forward");
  assert.equal(shortSite("load weights"), "load weights");
});

test("an axis has round marks, and never more than asked for", () => {
  assert.deepEqual(ticks(0, 100, 5).values, [0, 20, 40, 60, 80, 100]);
  assert.deepEqual(byteTicks(1000, 4).values, [0, 256, 512, 768]);
  for (const span of [1, 7, 123, 9.9e9]) assert.ok(ticks(0, span, 6).values.length <= 7);
  assert.deepEqual(ticks(5, 5, 3).values, []);
});

test("columns come back as they were written", () => {
  const bytes = Uint8Array.of(2, 1, 0x80, 0x02, 0xff, 0x01);
  assert.deepEqual([...integers(bytes, 4)], [1, 0, 128, 0]);
});

test("the window stays inside the run, and zooming keeps an instant in its place", () => {
  const view = new Window(1000);
  const heard = [];
  view.watch((what) => heard.push(what));
  view.zoom(0.5, 250);
  assert.deepEqual([view.start, view.end], [125, 625]);
  view.pan(-500);
  assert.deepEqual([view.start, view.end], [0, 500]);
  view.zoom(10);
  assert.deepEqual([view.start, view.end], [0, 1000]);
  view.moveTo(2000);
  assert.equal(view.cursor, 1000);
  view.show(0, 200);
  view.reveal(900);
  assert.ok(view.start <= 900 && 900 <= view.end);
  assert.deepEqual(new Set(heard), new Set(["view", "cursor"]));
});

test("counting finds the last of equal values", () => {
  assert.deepEqual([0, 1, 2, 3, 9].map((wanted) => countUntil([1, 2, 2, 3], wanted)), [0, 1, 3, 4, 4]);
});

test("holders add up to the total at every instant", () => {
  const history = run();
  const [device] = history.devices;
  for (let time = 10; time <= 100; time += 1) {
    const totals = history.totals(device, time);
    for (const chart of ["dram", "l1_used"]) {
      for (const dimension of ["op", "site", "phase", "process"]) {
        const sum = history.holders(device, time, chart, dimension).reduce((bytes, one) => bytes + one.bytes, 0);
        assert.equal(sum, totals[chart], `${chart} by ${dimension} at ${time}`);
      }
    }
  }
  assert.equal(history.totals(device, 9), null);
  assert.equal(history.totals(device, 55).position, 6);
});

test("a buffer is alive from its allocation to before its end", () => {
  const history = run();
  const [device] = history.devices;
  assert.deepEqual([19, 20, 29, 30].map((time) => history.live(device, time, [1]).length), [0, 1, 1, 0]);
});

test("each column of a chart shows its highest instant, whatever its width", () => {
  const history = run();
  const [device] = history.devices;
  for (const width of [1, 2, 3, 7, 100]) {
    const { best } = history.columns(device, "l1_used", "site", 0, 100, width);
    const { high } = history.outline(device, "l1_used", 0, 100, width);
    assert.equal(Math.max(...best), 2 * MIB + 4096);
    assert.equal(Math.max(...high), 2 * MIB + 4096);
  }
  const { sums, groups, names } = history.columns(device, "l1_used", "site", 0, 100, 10);
  const column = (at) => Object.fromEntries(names.map((name, group) => [name, sums[at * groups + group]]));
  assert.deepEqual(column(7), { "model.py:42 forward\nmain.py:1 main": 0, [CIRCULAR]: 4096 });
  assert.equal(column(5)["model.py:42 forward\nmain.py:1 main"], 2 * MIB);
});

test("a window in the middle of the run begins with what was alive before it", () => {
  const history = run();
  const [device] = history.devices;
  const { best } = history.columns(device, "dram", "site", 70, 80, 5);
  assert.deepEqual([...best], Array(5).fill(8 * MIB));
});

test("where events are left out, the cursor stays on samples, and sums are still exact", () => {
  const history = thinned();
  const [device] = history.devices;
  assert.deepEqual([5, 19, 24, 26, 41, 50].map((time) => history.snap(device, time)), [5, 20, 20, 30, 30, 50]);
  const holders = history.holders(device, 20, "l1_used", "op");
  assert.deepEqual(holders, [{ name: "matmul", bytes: MIB, count: 1 }]);
  assert.deepEqual(history.holders(device, 30, "dram", "op"), [{ name: "load", bytes: 8 * MIB, count: 1 }]);
  const { sums, groups, known, names } = history.columns(device, "l1_used", "op", 0, 100, 20);
  assert.equal(sums[4 * groups + names.indexOf("matmul")], MIB);
  assert.deepEqual([known[4], known[5], known[10]], [1, 0, 1]);
});

test("a page begins with the part of the run in which something happens", () => {
  assert.deepEqual(run().busy, [10, 60]);
});

test("arrow keys go from event to event", () => {
  const history = run();
  const [device] = history.devices;
  assert.deepEqual([history.neighbour(device, 25, 1), history.neighbour(device, 25, -1), history.neighbour(device, 20, -1)], [30, 20, 10]);
  assert.equal(history.neighbour(device, 60, 1), 60);
});

test("phases last until their process enters another, or ends", () => {
  const mark = (kind, time, text, pid) => ({ kind, time, text, pid });
  const spans = phasesOf([mark("phase", 0, "a", 1), mark("phase", 5, "b", 1), mark("phase", 6, "a", 2), mark("end", 8, "", 1)], 10);
  assert.deepEqual(
    spans.map(({ name, from, until }) => [name, from, until]),
    [["a", 0, 5], ["b", 5, 8], ["a", 6, 10]],
  );
});

test("the icicle holds every byte once, from phase to stack to operation", () => {
  const history = run();
  const [device] = history.devices;
  const root = tree(history, device, 55, "l1_used");
  assert.equal(root.bytes, history.totals(device, 55).l1_used);
  assert.deepEqual(path(history.origin(1)).map(([name]) => name), ["decode", "main.py:1 main", "model.py:42 forward", "matmul"]);
  assert.equal(found(root, "FORWARD"), 2 * MIB);
  assert.equal(found(root, "m"), 2 * MIB, "main.py contains model.py: counted once");
  assert.equal(found(root, "  "), null);
  const widest = boxes(root).filter((one) => one.depth === 1);
  assert.equal(widest.reduce((sum, one) => sum + one.width, 0), 1);
  assert.deepEqual(ancestors(root.children[0].children[0]).map((one) => one.name), ["all", "decode", "main.py:1 main"]);
});

test("the address map has a rectangle per buffer, and the gaps between them", () => {
  const history = run();
  const [device] = history.devices;
  const range = reach(device, 1, "l1");
  assert.deepEqual(range, [0x1000, 0x1000 + MIB]);
  const shown = rectangles(device, 1, "l1", { start: 0, end: 100 }, { width: 100, height: 100 }, range);
  assert.deepEqual(
    shown.map(({ row, x, width, y, height }) => [row, x, width, y, height]),
    [[1, 20, 10, 25, 25], [2, 50, 10, 0, 50]],
  );
  assert.deepEqual(gaps(history, device, 1, "l1", 25, range), [[0x1000, 0x1000 + MIB / 2], [0x1000 + (3 * MIB) / 4, 0x1000 + MIB]]);
  assert.deepEqual(gaps(history, device, 1, "l1", 45, range), [range]);
});

test("a million buffers in one pixel are one rectangle", () => {
  const rows = Array.from({ length: 10000 }, (_, at) => [0, 1, at / 1e6, (at + 0.5) / 1e6, 0x1000, 4096, 4096, 0]);
  const history = run({ tables: { buffers: table(["device", "kind", "start", "end", "address", "held", "requested", "origin"], rows) } });
  const [device] = history.devices;
  const shown = rectangles(device, 1, "l1", { start: 0, end: 100 }, { width: 100, height: 100 }, reach(device, 1, "l1"));
  assert.equal(shown.length, 1);
});

test("circular buffers at the same place are one strip", () => {
  const [device] = run().devices;
  assert.deepEqual(circularSpans(device, 100), [
    { from: 0x1000, until: 0x1400, spans: [[40, 100]] },
    { from: 0x1200, until: 0x1600, spans: [[40, 100]] },
  ]);
});

test("the distance to a clash is that of the program dispatched last", () => {
  const [device] = run().devices;
  assert.equal(clearance(device, 39), null);
  assert.deepEqual(clearance(device, 45), { reached: 0x1600, lowest: null, distance: null });
  assert.equal(clearance(device, 55).distance, 0x1000 + MIB / 2 - 0x1600);
  assert.deepEqual(closest(device), { time: 50, distance: 0x1000 + MIB / 2 - 0x1600 });
});

test("a core holds the union of the circular buffers on it", () => {
  const history = run();
  const [device] = history.devices;
  assert.deepEqual(coresOf("100000001"), [[0, 0], [0, 1]]);
  assert.equal(union([[0, 10], [5, 8], [20, 30]]), 20);
  const map = coreMap(history, device, 55);
  assert.deepEqual([...map.circular], [1536, 1024, 1024, 0]);
  assert.deepEqual([map.buffers, map.unplaced], [MIB / 2, 1]);
});

test("tables sort with unknown values last, and filter by all words", () => {
  const rows = [{ n: 2, t: "Matmul forward" }, { n: null, t: "add" }, { n: 5, t: "matmul load" }];
  assert.deepEqual(sorted(rows, (row) => row.n, true).map((row) => row.n), [5, 2, null]);
  assert.deepEqual(sorted(rows, (row) => row.n, false).map((row) => row.n), [2, 5, null]);
  assert.deepEqual(filtered(rows, (row) => [row.t], "matmul LOAD").map((row) => row.n), [5]);
});
