// The report: puts the page together once its data is read.

import { clock, duration, exact, human, shortSite } from "./sizes.js";
import { unpack } from "./payload.js";
import { Window } from "./window.js";
import { CHARTS, DIMENSIONS, History, KINDS, LABELS } from "./history.js";
import { reach } from "./addresses.js";
import { bytes, element, once, settled } from "./elements.js";
import { AddressMap, Board, Overview, Timeline } from "./charts.js";
import { CoreMap, DeviceStrip, Holders, Icicle, Readout, answersSection, clearanceText, deviceName, failuresSection, lossesSection, meaningsSection, peaksSection, programsSection, section, sitesSection } from "./panels.js";

const SECTIONS = [
  ["peaks", "Peaks"],
  ["timeline", "Timeline"],
  ["holders", "At the cursor"],
  ["addresses", "Addresses"],
  ["icicle", "Stacks"],
  ["cores", "Cores"],
  ["failures", "Failures"],
  ["leaks", "Leaks"],
  ["sizes", "Sizes"],
  ["programs", "Programs"],
  ["sites", "Call sites"],
  ["losses", "Missing"],
  ["meanings", "Numbers"],
];

async function start() {
  const data = document.getElementById("data");
  const history = new History(await unpack(data.textContent));
  data.remove(); // megabytes that nobody needs any more
  show(history);
  requestAnimationFrame(() => setTimeout(() => {
    performance.mark("drawn"); // the first picture is on the screen
    document.documentElement.dataset.ready = "true";
  }));
}

export function show(history) {
  const view = new Window(history.length);
  document.getElementById("loading")?.remove();
  document.body.append(header(history));
  if (!history.devices.length) {
    document.body.append(element("main", {}, element("p.note", {}, "No device appears in this recording, so there is nothing to show."), lossesSection({ history }), meaningsSection()));
    return;
  }
  const board = new Board(history, view);
  const timelines = element("div", { id: "timelines" });
  const readout = new Readout(board);
  const strip = new DeviceStrip(board);
  const overview = board.add(new Overview(board));
  const addresses = new Addresses(board);
  const [holders, icicle, cores] = [new Holders(board), new Icicle(board), new CoreMap(board)];
  let shown = [];

  const bar = toolbar(board, readout);
  const main = element(
    "main",
    {},
    banner(history),
    peaksSection(board),
    section("timeline", "Timeline", null, strip.element, bar, overview.element, timelines, hint()),
    holders.element,
    addresses.element,
    icicle.element,
    cores.element,
    failuresSection(board),
    partsSection(history),
    leaksSection(history),
    sizesSection(history),
    programsSection(board),
    sitesSection(board),
    lossesSection(board),
    meaningsSection(),
  );

  const panels = settled(() => {
    holders.update();
    icicle.update();
    cores.update();
    addresses.update();
  }, 60);
  const numbers = once(() => readout.update());
  view.watch((what) => {
    if (what === "cursor") {
      numbers();
      panels();
    }
  });

  function rebuild() {
    board.remove(shown);
    const held = Object.keys(CHARTS).filter((chart) => history.highest(board.device, chart));
    const used = held.length ? held : ["dram", "l1_used"];
    shown = used.map((chart) => board.add(new Timeline(board, chart)));
    timelines.replaceChildren(...shown.map((chart) => chart.section));
    addresses.rebuild();
    board.redraw();
    strip.paint();
    numbers();
    panels();
  }

  board.choose = (index) => {
    if (board.device === history.devices[index]) return;
    board.device = history.devices[index];
    for (const select of document.querySelectorAll("select.device")) select.value = String(index);
    view.moveTo(history.snap(board.device, view.cursor));
    rebuild();
  };
  board.stack = (dimension) => {
    board.dimension = dimension;
    rebuild();
  };

  document.body.append(main, board.tooltip);
  const there = SECTIONS.filter(([id]) => document.getElementById(id));
  document.querySelector("nav").append(...there.map(([id, name]) => element("a", { href: `#${id}` }, name)));
  board.device = busiest(history);
  for (const select of document.querySelectorAll("select.device")) select.value = String(board.device.index);
  const [first, last] = history.busy;
  if (last - first < 0.8 * view.length) view.show(first - 0.03 * (last - first), last + 0.03 * (last - first));
  const peak = firstOfInterest(history, board.device);
  icicle.chart = peak.chart;
  view.moveTo(peak.time, true);
  rebuild();
  for (const panel of [holders, icicle, cores, addresses]) panel.update();
  const repaint = () => {
    board.retheme();
    shown.forEach((chart) => chart.fillLegend());
    strip.paint();
    icicle.paint();
    cores.paint();
  };
  new ResizeObserver(once(repaint)).observe(main);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", repaint);
  addEventListener("beforeprint", () => {
    paper(true, repaint);
    board.paintAll();
  });
  addEventListener("afterprint", () => paper(false, repaint));
  document.addEventListener("ttmem-theme", repaint);
}

/** Paper is white, whatever the screen shows. */
function paper(on, repaint) {
  document.documentElement.classList.toggle("paper", on);
  repaint();
}

/** The device that came closest to being full. */
function busiest(history) {
  const fullness = (device) =>
    Math.max(0, ...history.document.peaks.filter((peak) => peak.device === device.unique_id && peak.memory in CHARTS).map((peak) => peak.bytes / (device.capacity[peak.memory] || Infinity)));
  const failed = history.document.markers.find((marker) => marker.kind === "failure" && marker.device)?.device;
  const named = history.devices.find((device) => device.unique_id === failed);
  return named ?? history.devices.reduce((best, device) => (fullness(device) > fullness(best) ? device : best));
}

/** Where the cursor begins: the first failure, else the peak of the fullest memory. */
function firstOfInterest(history, device) {
  const failed = history.document.markers.find((marker) => marker.kind === "failure");
  const peaks = history.document.peaks.filter((peak) => peak.device === device.unique_id && peak.memory in CHARTS && peak.memory !== "l1_small");
  const fullest = peaks.sort((a, b) => b.bytes / (device.capacity[b.memory] || Infinity) - a.bytes / (device.capacity[a.memory] || Infinity) || b.bytes - a.bytes)[0];
  return { time: failed?.time ?? fullest?.time ?? 0, chart: fullest?.memory ?? "dram" };
}

function header(history) {
  const { document: about } = history;
  const { host, command, started_ns: started, records, ttmem, bytes: size } = about.about;
  const facts = [
    ["host", host],
    ["started", `${new Date(Number(BigInt(started) / 1000000n)).toISOString().replace("T", " ").slice(0, 19)} UTC`],
    ["length", duration(history.length)],
    ["records", exact(records)],
    ["devices", exact(history.devices.length)],
    ["processes", exact(about.processes.length)],
    ["recording", human(size)],
    ["ttmem", ttmem],
  ].filter(([, value]) => value);
  const nav = element("nav", { "aria-label": "sections" });
  return element(
    "header",
    {},
    element("div.title", {}, element("div", {}, element("p.brand", {}, "ttmem report"), element("h1", {}, about.name)), themeButton()),
    command ? element("p.command", { title: command }, command) : null,
    element("dl.facts", {}, ...facts.map(([label, value]) => element("div", {}, element("dt", {}, label), element("dd", {}, value)))),
    nav,
  );
}

function themeButton() {
  const root = document.documentElement;
  const dark = () => root.dataset.theme === "dark" || (!root.dataset.theme && matchMedia("(prefers-color-scheme: dark)").matches);
  return element(
    "button.theme",
    {
      title: "light or dark",
      "aria-label": "switch between light and dark",
      onclick: () => {
        root.dataset.theme = dark() ? "light" : "dark";
        document.dispatchEvent(new Event("ttmem-theme"));
      },
    },
    "◐",
  );
}

/** What must not be overlooked. */
function banner(history) {
  const { losses, failures, about } = history.document;
  const lines = [];
  if (about.unfinished) lines.push(element("p", {}, element("b", {}, "The recording is incomplete. "), `${about.unfinished}.`));
  if (losses.length) lines.push(element("p", {}, element("b", {}, "Events are missing. "), `${losses.join("; ")}. Totals after a gap may be wrong, and ttmem gives no verdict on leaks or sizes.`));
  if (failures?.length) lines.push(element("p", {}, element("b", {}, `${exact(failures.length)} failed allocation${failures.length > 1 ? "s" : ""}. `), element("a", { href: "#failures" }, failures[0].headline)));
  return lines.length ? element("div.banner", { role: "alert" }, ...lines) : null;
}

function toolbar(board, readout) {
  const { history, view } = board;
  const option = (value, text) => element("option", { value }, text);
  const device = element("select.device", { "aria-label": "device", onchange: (event) => board.choose(Number(event.target.value)) }, ...history.devices.map((one) => option(one.index, deviceName(one))));
  const stack = element("select", { id: "stack-by", "aria-label": "stack by", onchange: (event) => board.stack(event.target.value) }, ...Object.entries(DIMENSIONS).map(([key, name]) => option(key, `by ${name}`)));
  stack.value = board.dimension;
  const button = (text, title, act) => element("button", { title, "aria-label": title, onclick: act }, text);
  return element(
    "div.toolbar",
    {},
    element("div.tools", {}, history.devices.length > 1 ? device : null, stack, jumps(board), button("−", "zoom out", () => view.zoom(1 / 0.5)), button("+", "zoom in", () => view.zoom(0.5)), button("all", "show the whole run", () => view.showAll())),
    readout.element,
  );
}

/** Instants worth going to. */
function jumps(board) {
  const { history, view } = board;
  const { peaks, markers } = history.document;
  const of = new Map(history.devices.map((device) => [device.unique_id, device]));
  const places = [
    ...markers.filter((one) => one.kind === "failure").map((one) => ({ time: one.time, device: one.device, text: `failure: ${one.text || "an allocation"}` })),
    ...peaks.filter((one) => one.memory in CHARTS).map((one) => ({ ...one, text: `peak of ${CHARTS[one.memory].label}${history.devices.length > 1 ? `, ${deviceName(of.get(one.device))}` : ""}` })),
    ...markers.filter((one) => one.kind === "mark").map((one) => ({ time: one.time, text: `mark: ${one.text}` })),
    ...markers.filter((one) => one.kind === "phase" && one.text).slice(0, 200).map((one) => ({ time: one.time, text: `phase: ${one.text}, ${clock(one.time)}` })),
    { time: 0, text: "start" },
    { time: view.length, text: "end" },
  ];
  const select = element("select", { id: "go-to", "aria-label": "go to" }, element("option", { value: "" }, "go to…"), ...places.map((one, at) => element("option", { value: at }, one.text)));
  select.addEventListener("change", () => {
    const chosen = places[Number(select.value)];
    if (select.value === "" || !chosen) return;
    if (chosen.device && of.has(chosen.device)) board.choose(of.get(chosen.device).index);
    view.reveal(chosen.time);
    select.value = "";
  });
  return select;
}

function hint() {
  return element("p.about.hint", {}, "Click to hold the cursor, Escape to release it. Drag to zoom in, double-click for the whole run; Shift and the wheel pan, Ctrl and the wheel zoom. With the keyboard: arrows, Shift and arrows, +, −, 0.");
}

class Addresses {
  constructor(board) {
    this.board = board;
    this.map = board.add(new AddressMap(board));
    this.select = element("select", { "aria-label": "memory", onchange: () => this.choose(Number(this.select.value)) });
    this.about = element("p.about", { id: "clearance" });
    this.note = element("p.about");
    this.element = section("addresses", "Addresses over time", null, element("div.tools", {}, this.select), this.about, this.map.element, this.note);
  }

  choose(kind) {
    this.map.kind = kind;
    this.update();
    this.map.paint();
  }

  rebuild() {
    const { device } = this.board;
    const known = KINDS.map((name, kind) => ({ name, kind })).filter(({ name, kind }) => kind < 2 || (reach(device, kind, name) && this.board.history.highest(device, name)));
    if (!known.some(({ kind }) => kind === this.map.kind)) this.map.kind = known[0].kind;
    this.select.replaceChildren(...known.map(({ name, kind }) => element("option", { value: kind, selected: kind === this.map.kind }, LABELS[name])));
    this.update();
  }

  update() {
    const { device, history, view } = this.board;
    const name = KINDS[this.map.kind];
    const banks = device.banks[name];
    const where = banks ? `one of ${exact(banks)} banks; all of them look the same, because allocation is in lock-step` : "all banks; their number is not known";
    this.about.textContent = name === "l1" ? `L1 of one core: buffers from above, circular buffers of cached programs from below (grey); the line is how far the program dispatched last reaches. ${clearanceText(device, view.cursor)}` : `${LABELS[name]} of ${where}. What is blank is free.`;
    this.note.textContent = history.complete.length === 1 && history.isComplete(0) && history.isComplete(history.length) ? "" : "Between peaks, failures and marks only the largest buffers are drawn.";
  }
}

function partsSection(history) {
  const amount = (title, key) => ({ title, number: true, value: (row) => row[key], cell: (row) => (row[key] === null ? element("span.faint", {}, "N/A") : bytes(row[key])) });
  return answersSection("parts", "What the peaks are made of", history.document.parts, [
    { title: "memory", value: (row) => row.memory },
    { title: "devices", value: (row) => row.devices },
    amount("peak", "bytes"),
    amount("circular", "circular"),
    amount("intermediates", "intermediate"),
    amount("persistent", "persistent"),
    amount("stale", "stale"),
  ]);
}

function leaksSection(history) {
  return answersSection("leaks", "Leaks", history.document.leaks, [
    { title: "verdict", value: (row) => row.verdict },
    { title: "grows by", value: (row) => row.growth },
    { title: "memory", value: (row) => row.memory },
    { title: "allocated by", value: (row) => row.where, cell: (row) => element("span.wrap", { title: row.site }, row.site ? `${row.op ?? ""} ${shortSite(row.site)}`.trim() : row.where) },
    { title: "confidence", value: (row) => row.confidence },
    { title: "evidence", value: (row) => row.evidence },
  ]);
}

function sizesSection(history) {
  return answersSection("sizes", "Sizes to set", history.document.sizes, [
    { title: "setting", value: (row) => row.setting },
    { title: "advised", number: true, value: (row) => row.advice },
    { title: "needed", number: true, value: (row) => row.observed },
    { title: "configured", number: true, value: (row) => row.configured },
    { title: "unit", value: (row) => row.unit },
    { title: "remarks", value: (row) => row.remarks },
  ]);
}

if (globalThis.document?.getElementById("data")) {
  start().catch((problem) => {
    const place = document.getElementById("loading") ?? document.body.appendChild(element("p"));
    place.textContent = `This report cannot be shown: ${problem.message}. It needs a browser of 2023 or later.`;
    document.documentElement.dataset.ready = "failed";
    throw problem;
  });
}
