// Answers questions about the data of a page with the page's own modules; see decoded.py.
import { readFileSync } from "node:fs";
import { unpack } from "../../src/ttmem/web/static/payload.js";
import { History } from "../../src/ttmem/web/static/history.js";
import { coreMap } from "../../src/ttmem/web/static/cores.js";
const [file, wanted] = JSON.parse(readFileSync(0, "utf8"));
const history = new History(await unpack(readFileSync(file, "utf8")));
const answers = wanted.map(([number, position]) => {
  const device = history.devices[number];
  const { steps } = device;
  let row = -1;
  while (row + 1 < steps.rows && steps.position[row + 1] < position) row += 1;
  const time = row < 0 ? 0 : steps.time[row];
  const totals = history.totals(device, time);
  const cores = coreMap(history, device, time);
  return {
    totals,
    exact: history.isComplete(time) || history.snap(device, time) === time,
    complete: history.isComplete(time),
    sites: Object.fromEntries(["dram", "l1_used", "trace"].map((chart) => [chart, history.holders(device, time, chart, "site")])),
    buffers: history.live(device, time).map((at) => [device.buffers.kind[at], device.buffers.address[at], device.buffers.held[at]]),
    onCores: cores.unplaced ? null : cores.circular.reduce((sum, bytes) => sum + bytes, 0),
  };
});
console.log(JSON.stringify({ document: history.document, answers }));
