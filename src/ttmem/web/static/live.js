// The page: a stream of snapshots, or one of a recording, drawn by the view that the address names (#/devices, #/device/ID?at=12.5s).

import { BY, KINDS, SENSORS, asPayload, bars, cachedByCore, coreMap, deviceName, deviceNames, eventRows, extended, groupRows, hashOf, inOrder, isUsed, nameOf, namesOf, outlineOf, placeOf, processRows, programRows, withReadings } from "./live-data.js";
import { ask, hasToken, login } from "./asking.js";
import { Board, Timeline, drawStack, kindColour } from "./charts.js";
import { keep, show } from "./drawing.js";
import { Picture, element, theme } from "./elements.js";
import { History } from "./history.js";
import { Lists } from "./lists.js";
import { TimeBar } from "./timebar.js";
import { Window } from "./window.js";
import { clock, duration, exact, hex, human, moment, share, shortSite, timeOfDay } from "./sizes.js";

const LIST = "/api/v1/recording";
const MOST_ROWS = 20_000; // of a list
const AGAIN_MS = 2000; // until a lost stream is opened again
const page = document.getElementById("view");
const state = document.getElementById("state");
const narrow = matchMedia("(max-width: 50rem)");
const LEADS = { processes: [-1], left: [-1], holders: [-1], sites: [-1], programs: [-6, -2] }; // columns that say what a row is: on phones the first ones
const readings = new Map(); // of sensors, by device
const lists = new Lists(draw);
let chosenCore = "0,0";
let last = null; // the latest snapshot
let stream = null;
let source = null; // what is shown: {id: null or that of a recording, name, span, markers, histories}
let uploads = { most_bytes: 0, recordings: [] };
let drawing = 0; // the number of the latest instant that was asked for
let view = ""; // the address of what the page shows, at whatever instant
let findings = null; // of doctor, while its view is open

function meter({ parts, capacity }) {
  const made = element("div", { class: capacity ? "bar" : "bar unknown", "aria-hidden": "true" });
  for (const [kind, bytes] of parts) {
    const part = element("span", { class: kind });
    part.style.width = capacity ? `${Math.min(100, (100 * bytes) / capacity)}%` : "0";
    made.append(part);
  }
  return made;
}

function figure(one) {
  const percent = share(one.used, one.capacity);
  return [
    element(
      "div",
      { class: "figure" },
      element("span", {}, one.name),
      element("span", { title: `${exact(one.used)} of ${exact(one.capacity)} bytes; largest free block ${human(one.largest)}` },
        `${human(one.used)} / ${human(one.capacity)}${percent ? `  ${percent}` : ""}`),
    ),
    meter(one),
  ];
}

const FIRST = { memory: [0, false], core: [0, false] }; // order of tables, [column, descending]; of others, by the first number

function table(name, columns, rows, texts = () => [], most = undefined) {
  const leads = narrow.matches ? (LEADS[name] ?? []).map((at) => columns.length + at) : [];
  return lists.table(name, columns, rows, { texts, most, leads, first: FIRST[name] ?? [columns.findIndex(([, , , kind]) => kind === "number"), true] });
}

const number = (name, key, shown = human) => [name, (row) => row[key], (row) => shown(row[key]), "number"];
const word = (name, key, shown = (value) => value ?? "N/A") => [name, (row) => row[key], (row) => shown(row[key]), ""];
const text = (name, key, shown = (value) => value ?? "N/A") => [name, (row) => row[key], (row) => shown(row[key]), "text"];

// -- charts --------------------------------------------------------------------------------------------------------

/** Of one device: {board, charts, ...}, which live as long as that device is looked at. */
let shown = null;

function historyOf(device) {
  const columns = source.histories.get(device.unique_id);
  const span = { started: columns?.time_ns[0] ?? source.span?.started ?? last.time_ns, ended: last.time_ns };
  return new History(asPayload(device, columns, source.id ? source.markers : [], source.id ? source.span : span));
}

/** A small chart of L1, for a card. */
function spark(device) {
  const made = new Picture((context, width, height) => {
    const history = historyOf(device);
    const [of] = history.devices;
    const area = { left: 0, width: Math.max(1, Math.floor(width)) };
    const most = Math.max(history.highest(of, "l1_used") * 1.2, device.l1_capacity && history.highest(of, "l1_used") > device.l1_capacity / 3 ? device.l1_capacity : 1);
    const colours = theme();
    drawStack(context, area, history.columns(of, "l1_used", "kind", 0, history.length, area.width), (bytes) => height - (bytes / most) * height, (name) => kindColour(colours, name));
  }, "L1 over time");
  requestAnimationFrame(() => made.paint());
  return made.canvas;
}

/** Charts of the report, over what is known of this device: they keep their zoom while the device is looked at. */
function timelines(device) {
  const history = historyOf(device);
  const held = ["dram", "l1_used", "l1_small", "trace"].filter((name) => history.highest(history.devices[0], name));
  const names = held.length ? held : ["dram", "l1_used"];
  const key = [source.id, device.unique_id, ...names].join(" ");
  if (shown?.key !== key) {
    shown?.board.tooltip.remove();
    shown = newCharts(key, history, names);
  }
  const { board, view, charts } = shown;
  const whole = view.span >= view.length;
  const started = source.id ? source.span.started : source.histories.get(device.unique_id)?.time_ns[0] ?? last.time_ns;
  Object.assign(board, { history, device: history.devices[0], clock: source.id ? clock : (time) => timeOfDay(started + time) });
  view.length = history.length;
  if (whole) view.showAll();
  shown.moving = true;
  if (place().at !== null) view.moveTo(last.time_ns - started, true);
  else if (!charts.some((chart) => chart.element.matches(":hover"))) view.moveTo(view.length, false);
  shown.moving = false;
  shown.started = started;
  for (const chart of charts) chart.update();
  requestAnimationFrame(() => board.retheme());
  return charts.map((chart) => chart.section);
}

function newCharts(key, history, names) {
  const view = new Window(history.length);
  const board = new Board(history, view);
  board.dimension = "kind";
  const charts = names.map((name) => board.add(new Timeline(board, name)));
  for (const chart of charts) keep(chart.section);
  document.body.append(board.tooltip);
  const made = { key, board, view, charts, moving: false, started: 0 };
  view.watch((what) => {
    if (what === "cursor" && view.pinned && !made.moving && source.span) bar.jump(made.started + view.cursor - source.span.started);
  });
  return made;
}

/** What a sensor said, as a line. */
function line(series, label) {
  const made = new Picture((context, width, height) => {
    const colours = theme();
    const values = series.map(([, value]) => value);
    const [least, most] = [Math.min(...values), Math.max(...values)];
    const [from, until] = [series[0][0], series.at(-1)[0]];
    context.strokeStyle = colours.accent;
    context.lineWidth = 1.5;
    context.beginPath();
    for (const [time, value] of series) {
      context.lineTo(until > from ? ((time - from) / (until - from)) * width : width, most > least ? height - 3 - ((value - least) / (most - least)) * (height - 6) : height / 2);
    }
    context.stroke();
  }, label);
  requestAnimationFrame(() => made.paint());
  return made.canvas;
}

function sensors(device) {
  const { telemetry } = device;
  if (!telemetry) return [element("p.quiet", {}, source.id ? "N/A: the recording has none" : place().at !== null ? "N/A: it is not kept for the past hour" : "N/A: start ttmem web or ttmem serve with --telemetry")];
  const series = readings.get(device.unique_id) ?? new Map();
  const rows = Object.entries(SENSORS).map(([name, [title, unit]]) => {
    const value = telemetry[name];
    const limit = telemetry.limits?.[name];
    const known = typeof value === "number";
    return element("div.sensor", {}, element("div.figure", {}, element("span", {}, title),
      element("span", { title: known ? null : telemetry.reasons?.[name] }, known ? `${value} ${unit}${limit ? ` of ${limit}` : ""}` : "N/A")),
    known && series.get(name)?.length > 1 ? line(series.get(name), `${title} over time`) : element("p.quiet", {}, known ? "" : telemetry.reasons?.[name] ?? ""));
  });
  const about = [telemetry.firmware ? `firmware ${telemetry.firmware}` : null, telemetry.source ? `from ${telemetry.source}` : null, telemetry.stale ? "the heartbeat has stopped" : null].filter(Boolean);
  return [element("div.sensors", {}, ...rows), element("p", { class: telemetry.stale ? "bad" : "quiet" }, about.join(", "))];
}

/** The L1 of one core: what lies where, from the lowest address on the left. */
function addressBar(map) {
  const kinds = { cb: "circular buffers", l1: "L1", l1_small: "L1_SMALL" };
  const made = new Picture((context, width, height) => {
    const colours = theme();
    const x = (address) => ((address - map.base) / (map.end - map.base)) * width;
    context.fillStyle = colours.line;
    context.fillRect(0, 0, width, height);
    for (const { from, to, kind } of map.ranges) {
      context.fillStyle = kindColour(colours, kinds[kind]);
      context.globalAlpha = 0.85;
      context.fillRect(x(from), 0, Math.max(1, x(to) - x(from)), height);
    }
    context.globalAlpha = 1;
  }, `L1 addresses from ${hex(map.base)} to ${hex(map.end)}`);
  requestAnimationFrame(() => made.paint());
  return element("div.addresses", {}, made.canvas, element("div.figure.quiet", {}, element("span", {}, hex(map.base)), element("span", {}, hex(map.end))));
}

// -- views ---------------------------------------------------------------------------------------------------------

const VIEWS = {
  devices: { title: "Devices", detail: "", draw: drawDevices },
  processes: { title: "Processes", detail: "", draw: drawProcesses },
  sites: { title: "Sites", detail: "", draw: drawSites },
  cores: { title: "Cores", detail: "cores", draw: drawCores },
  programs: { title: "Programs", detail: "programs", draw: drawPrograms },
  events: { title: "Events", detail: "events", draw: drawEvents },
  doctor: { title: "Doctor", detail: "", draw: drawDoctor },
  device: { detail: "", draw: drawDevice },
};

/** What the address names. */
function place() {
  const found = placeOf(location.hash);
  return { ...found, name: VIEWS[found.name] ? found.name : "devices" };
}

/** The address of a view at the same instant. */
function link(name, id = null) {
  const { recording, at } = place();
  return hashOf({ name, id, recording, at });
}

function drawDevices(snapshot) {
  if (!snapshot.devices.length) return [source.id ? element("p", {}, "No device is in use at this time; use the time bar to go to another.") : element("p", {}, "No device is in use. Try ", element("code", {}, "ttmem run -- python model.py"), " or ", element("code", {}, "ttmem demo"), ".")];
  const cards = inOrder(snapshot.devices).map((device) => element(
    "a",
    { class: "card", href: link("device", device.unique_id), "data-device": device.unique_id },
    element("div", { class: "title" }, element("span", {}, deviceName(device)),
      device.anomalies.length ? element("span", { class: "bad", title: device.anomalies.map((one) => one.text).join("\n") }, `${device.anomalies.length} to look at`) : ""),
    element("div", { class: "quiet" }, [device.unique_id, device.pci].filter(Boolean).join(" · ")),
    ...bars(device).flatMap(figure),
    spark(device),
  ));
  return [...remarks(snapshot), element("div", { class: "cards" }, ...cards)];
}

function remarks(snapshot) {
  const { dropped_events: dropped, rejected_records: rejected } = snapshot.losses;
  const losses = dropped || rejected ? [`${exact(dropped)} events were lost and ${exact(rejected)} records rejected; totals of watched processes stay exact`] : [];
  return [...losses, ...snapshot.remarks.map((one) => one.text)].map((line) => element("p", { class: "bad" }, line));
}

function drawDevice(snapshot, id) {
  const device = snapshot.devices.find((one) => one.unique_id === id);
  if (!device) return [element("p", {}, "This device is not in use at this time. ", element("a", { href: link("devices") }, "All devices"))];
  const { memory, kernels } = device;
  const rows = KINDS.map((kind) => ({ kind: kind.toUpperCase(), ...memory[kind] }));
  const holders = processRows(snapshot, snapshot.processes, id);
  return [
    element("h2", {}, deviceName(device)),
    element("p", { class: "quiet" }, [device.unique_id, device.arch, device.pci, device.grid ? `${device.grid[0]} x ${device.grid[1]} cores` : null].filter(Boolean).join(" · ")),
    ...bars(device).flatMap(figure),
    element("p.actions", {}, element("a", { href: link("cores", device.unique_id) }, "Cores of this device")),
    ...timelines(device),
    element("h2", {}, "Memory"),
    ...table("memory", [word("kind", "kind"), number("used", "held"), number("requested", "requested"), number("reserved", "reserved"), number("capacity", "capacity"),
      number("largest free block", "largest_free"), number("peak", "peak"), number("buffers", "count", exact)], rows),
    element("h2", {}, "Processes"),
    ...(holders.length ? table("holders", [PID, word("user", "user"), ...HELD, ...BELONGS, COMMAND], holders) : [element("p.quiet", {}, "No process holds anything here.")]),
    element("h2", {}, "Circular buffers"),
    element("p", {}, `resident ${human(memory.cb.resident)}, cached ${human(memory.cb.cached)}, demand ${human(memory.cb.demand)}, inside L1 buffers ${human(memory.cb.shared)}; L1 used includes ${human(memory.cb.used)}`),
    element("h2", {}, "Kernel code, part of no total"),
    element("p", {}, `ring ${human(kernels.ring.occupied)} / ${human(kernels.ring.capacity)}; binaries in DRAM ${human(kernels.dram_binaries)}; if resident everywhere: application ${human(kernels.footprint.application)}, fabric ${human(kernels.footprint.fabric)}, dispatch ${human(kernels.footprint.dispatch)}; cache ${exact(kernels.cache_entries)} programs, ${exact(kernels.cache_hits)} hits, ${exact(kernels.cache_misses)} misses`),
    ...(device.anomalies.length ? [element("h2", {}, "What does not add up"), ...device.anomalies.map((one) => element("p", { class: "bad" }, one.text))] : []),
    element("h2", {}, "Telemetry"),
    ...sensors(device),
    element("h2", {}, "Where the numbers come from"),
    ...Object.entries(device.provenance).map(([name, one]) => element("p", { class: "quiet" }, `${name}: ${one.source}, ${one.method}${one.misses ? `; ${one.misses}` : ""}`)),
  ];
}

const PID = ["pid", (row) => row.pid, (row) => String(row.pid), ""];
const DEVICES = ["devices", (row) => row.devices, (row) => row.devices, "list"];
const HELD = [number("DRAM", "dram"), number("L1", "l1"), number("L1_SMALL", "l1_small"), number("TRACE", "trace"), number("CB", "cb")];
const BELONGS = [text("pod or container", "pod", (value) => value || "–"), word("job", "job", (value) => value ?? "–")];
const COMMAND = text("command", "command", (value) => value ?? "shown to its owner and to root");

function drawProcesses(snapshot) {
  const left = processRows(snapshot, snapshot.left_behind);
  return [
    lists.search("Search user, command, pod, job"),
    ...table("processes", [PID, word("user", "user"), DEVICES, ...HELD, ...BELONGS, COMMAND],
      processRows(snapshot, snapshot.processes), (row) => [String(row.pid), row.user, row.command, row.pod, row.job]),
    ...(left.length ? [element("h2", {}, "Left behind by dead processes, not part of any total"),
      ...table("left", [PID, word("user", "user"), DEVICES, ...HELD, COMMAND], left, (row) => [String(row.pid), row.user, row.command])] : []),
  ];
}

function drawSites(snapshot, id) {
  const by = groupedBy(id);
  const chips = Object.entries(BY).map(([name, [title]]) => element("a", { href: link("sites", name), "aria-current": name === by ? "page" : null }, `by ${title}`));
  const nav = element("nav", { "aria-label": "Group by" }, ...chips);
  if (snapshot.by !== by) return [nav, element("p", { class: "quiet" }, "Loading …")];
  const { total } = snapshot;
  return [
    nav,
    lists.search(`Search ${BY[by][0]}`),
    ...table("sites", [number("held", "held"), number("since opened", "growth", (bytes) => (bytes > 0 ? `+${human(bytes)}` : human(bytes))), number("DRAM", "dram"), number("L1 used", "l1_used"), number("TRACE", "trace"),
      number("buffers", "count", exact), text(BY[by][0], "name", shortSite)], [...groupRows(snapshot, source.first[by]).values()], (row) => [row.name]),
    element("p.quiet", {}, `together: DRAM ${human(total.dram)}, L1 used ${human(total.l1_used)}, TRACE ${human(total.trace)}`),
  ];
}

function drawPrograms(snapshot) {
  const names = deviceNames(snapshot.devices);
  return [
    ...(snapshot.limited ? [element("p.bad", {}, `Not everything is listed here: more than ${exact(MOST_ROWS)} ${snapshot.limited.join(", ").replaceAll("_", " ")} are alive. ttmem ps --json --detail programs has them all.`)] : []),
    lists.search("Search program, kernel, call site"),
    ...table("programs", [number("circular buffers", "cb"), number("kernel footprint", "footprint"), number("kernels", "kernels", exact), number("dispatches", "dispatches", exact), number("cache hits", "cache_hits", exact),
      ["program", (row) => row.program, (row) => String(row.program), ""], ["device", (row) => names.get(row.device), (row) => nameOf(names, row.device), ""], ["pid", (row) => row.pid, (row) => String(row.pid), ""], word("binaries", "status"), word("operation", "name"), text("call site", "site", (value) => (value ? shortSite(value) : "N/A"))],
    programRows(snapshot), (row) => [row.name, row.site, String(row.program), ...row.kernelNames]),
  ];
}

function drawEvents(snapshot) {
  const names = deviceNames(snapshot.devices);
  return [
    lists.search("Search event, operation, call site"),
    ...table("events", [["ago", (row) => row.time_ns, (row) => duration(Math.max(0, snapshot.time_ns - row.time_ns)), "number"],
      ["event", (row) => row.event, (row) => row.event, (row) => (row.failed ? "text bad" : "text")],
      ["devices", (row) => namesOf(names, row.devices), (row) => namesOf(names, row.devices) || "–", "list"],
      number("size", "bytes", (value) => (value === null ? "–" : human(value))), number("address", "place", (value) => (value ? hex(value) : "–")), PID,
      word("operation", "name", (value) => value ?? "–"), text("call site", "site", (value) => (value ? shortSite(value) : "–"))],
    eventRows(snapshot.events ?? []).reverse(), (row) => [row.event, row.op, row.name, row.site], 200),
  ];
}

function drawCores(snapshot) {
  const devices = inOrder(snapshot.devices).filter((device) => device.grid);
  const all = inOrder(source.devices ?? []).filter((device) => device.grid);
  if (!devices.length) return [element("p", {}, "No device has reported its grid of cores. Programs that run under ", element("code", {}, "ttmem run"), " do.")];
  const id = place().id ?? devices[0].unique_id;
  const device = devices.find((one) => one.unique_id === id) ?? devices[0];
  const [width, height] = device.grid;
  const cached = cachedByCore(snapshot, device);
  const most = device.l1_map ? device.l1_map.end - device.l1_map.base : Math.max(1, ...cached.values());
  const grid = element("div", { class: "grid", role: "group", "aria-label": "Cores" });
  grid.style.gridTemplateColumns = `repeat(${width}, 1fr)`;
  const [column, row] = chosenCore.split(",").map(Number);
  if (column >= width || row >= height) chosenCore = "0,0"; // it was chosen on a larger device
  for (let y = 0; y < height; y += 1) {
    for (let x = 0; x < width; x += 1) {
      const name = `${x},${y}`;
      const fill = element("span", { class: "cb" });
      fill.style.height = `${Math.min(100, (100 * (cached.get(name) ?? 0)) / most)}%`;
      grid.append(element("button", {
        "aria-pressed": String(name === chosenCore), "data-core": name, tabindex: name === chosenCore ? 0 : -1, title: `core ${name}: ${human(cached.get(name) ?? 0)} of circular buffers`, "aria-label": `core ${name}`,
        onclick: () => { chosenCore = name; draw(); },
      }, fill));
    }
  }
  const map = coreMap(snapshot, device, ...chosenCore.split(",").map(Number));
  const rows = map ? map.ranges.map((range) => ({ ...range, size: range.to - range.from })) : [];
  const chips = all.map((one) => element("a", { href: link("cores", one.unique_id), "aria-current": one.unique_id === device.unique_id ? "page" : null, title: one.unique_id }, deviceName(one)));
  return [
    element("nav", { "aria-label": "Devices" }, ...chips),
    element("div", { class: "columns" },
      element("section", {}, element("h2", {}, "Circular buffers of live programs, by core"), grid),
      element("section", {}, element("h2", {}, `Core ${chosenCore}`),
        element("p", { class: map && map.gap < 0 ? "bad" : "" }, map?.gap === null ? `N/A: more than ${exact(MOST_ROWS)} L1 buffers are allocated, and not all are listed` : map ? (map.gap < 0 ? `circular buffers and buffers overlap by ${human(-map.gap)}: such a program cannot run now` : `${human(map.gap)} between circular buffers and the lowest L1 buffer`) : "N/A: the addresses of L1 are not known"),
        map ? addressBar(map) : null,
        ...table("core", [["from", (row) => row.from, (row) => hex(row.from), "number"], ["to", (row) => row.to, (row) => hex(row.to), "number"], number("size", "size"),
          ["what", (row) => row.kind, (row) => element("span", { title: row.text }, element("span", { class: `dot ${row.kind}` }), shortSite(row.text)), "text"]], rows))),
  ];
}

const STEPS = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] };

/** Arrow keys choose another core; true if there is one. */
function moveCore(key) {
  const name = chosenCore.split(",").map((at, axis) => Number(at) + (STEPS[key]?.[axis] ?? 0)).join(",");
  const core = page.querySelector(`[data-core="${name}"]`);
  if (!STEPS[key] || !core) return false;
  chosenCore = name;
  core.focus();
  draw();
  return true;
}

function drawDoctor() {
  findings ??= keep(examined());
  return [findings];
}

function examined() {
  const made = element("div", {}, element("p", { class: "quiet" }, "Examining …"));
  ask("/api/v1/doctor").then((document) => {
    const found = document.findings.map((one) => element("div", {}, element("h2", { class: one.level === "info" ? "" : "bad" }, `${one.level}: ${one.kind.replaceAll("_", " ")}`),
      element("p", {}, one.text), one.advice ? element("p", {}, one.advice) : "", one.command ? element("p", {}, element("code", {}, one.command)) : ""));
    made.replaceChildren(...(found.length ? found : [element("p", {}, "Nothing is wrong.")]));
  }, (problem) => made.replaceChildren(element("p", { class: "bad" }, problem.message)));
  return made;
}

// -- the loop ------------------------------------------------------------------------------------------------------

function draw() {
  const { name, id } = place();
  if (!last || !source) return;
  document.getElementById("host").textContent = source.id ? source.name : last.host.name ?? "";
  const address = hashOf({ ...place(), at: null });
  if (address !== view) {
    view = address;
    findings = null;
    page.replaceChildren();
  }
  show(page, VIEWS[name].draw(last, id));
  showTime();
}

function say(message, bad = false) {
  state.textContent = message;
  state.className = bad ? "bad" : "";
}

// -- time ----------------------------------------------------------------------------------------------------------

const bar = new TimeBar({
  go: async (at) => {
    history.replaceState(null, "", hashOf({ ...place(), at: at === "live" ? null : at }));
    await follow();
  },
  locate: (at) => ask(`${LIST}/${source.id ?? "past"}/instant?${new URLSearchParams({ at: at ?? place().at ?? source.at })}`),
});

function showTime() {
  const { span } = source;
  if (!span) return bar.show({ span: null, now: 0, live: true });
  const live = !source.id && place().at === null;
  if (live) span.ended = Math.max(span.ended, last.time_ns);
  const position = Number(/^#(\d+)$/.exec(place().at ?? "")?.[1] ?? -1);
  bar.show({ span, now: live ? span.ended - span.started : last.time_ns - span.started, position, live, markers: source.markers, outline: outlineOf(source.histories, span) });
}

/** A recording, or the host with its past. */
async function open(id) {
  uploads = await ask(LIST);
  const about = uploads.recordings.find((one) => one.id === (id ?? "past"));
  if (id && !about) throw new Error("This recording is no longer open.");
  if (about?.problem && id) throw new Error(about.problem);
  const span = about?.started_ns ? { started: about.started_ns, ended: about.ended_ns, live: !id } : null;
  const made = { id, name: about?.name?.replace(/^.*\//, ""), kind: about?.kind, span, markers: [], histories: new Map(), missing: about?.problem, looked: Date.now(), first: {}, at: "end", growing: Boolean(about?.growing) };
  const past = await ask(id ? `${LIST}/${id}/history` : "/api/v1/history");
  for (const [device, columns] of Object.entries(past.devices)) made.histories.set(device, columns);
  if (id || span) made.markers = (await ask(`${LIST}/${id ?? "past"}/markers`)).markers;
  return made;
}

/** What of the past is there changes: its beginning goes, and markers come. */
async function lookAtPast(of) {
  of.looked = Date.now();
  try {
    uploads = await ask(LIST);
    const past = uploads.recordings.find((one) => one.id === "past");
    of.missing = past?.problem;
    if (!past?.started_ns) return;
    of.span = { started: past.started_ns, ended: Math.max(past.ended_ns, of.span?.ended ?? 0), live: true };
    of.markers = (await ask(`${LIST}/past/markers`)).markers;
  } catch {
    // the stream says that there is no connection
  }
}

/** Most recordings end after their processes: then the last instant of a process is shown, or the peak. */
async function firstInstant(of) {
  const ends = of.markers.filter((marker) => marker.kind === "end").map((marker) => [`#${marker.position}`, "just before the last process ended"]);
  for (const [at, where] of [["end", ""], ...ends.slice(-1), ["peak:dram", "at the peak of DRAM"], ["peak:l1_used", "at the peak of L1"]]) {
    const found = await ask(`${LIST}/${of.id}/snapshot?${new URLSearchParams({ at })}`);
    if (isUsed(found)) return { at, opened: where && `, opened ${where}: nothing is allocated at the end` };
  }
  return { at: "end", opened: "" };
}

const groupedBy = (id) => (Object.hasOwn(BY, id) ? id : "site");

/** What each group held when `of` was opened: growth counts from there. */
async function remember(of, by) {
  const [base, at] = of.id ? [`${LIST}/${of.id}`, { at: of.at }] : ["/api/v1", {}];
  of.first[by] ??= groupRows(await ask(`${base}/snapshot?${new URLSearchParams({ ...at, by })}`), null);
}

function question(name, id) {
  const { detail } = VIEWS[name];
  const parameters = new URLSearchParams(detail ? { detail, limit: name === "events" ? 1000 : MOST_ROWS } : {});
  if (name === "sites") parameters.set("by", groupedBy(id));
  if (name === "cores" && id) parameters.set("device", id);
  return parameters;
}

// -- following -----------------------------------------------------------------------------------------------------

/** Takes a snapshot; one of the cores of a device has no other devices. */
function take(snapshot, isNarrow) {
  last = snapshot;
  if (!isNarrow) source.devices = snapshot.devices;
}

/** Shows what the address names. */
async function follow() {
  const { name, id, recording, at } = place();
  const number = (drawing += 1);
  stream?.close();
  stream = null;
  for (const anchor of document.querySelectorAll("#views a")) {
    anchor.toggleAttribute("aria-current", anchor.dataset.view === (name === "device" ? "devices" : name));
    anchor.href = link(anchor.dataset.view);
    anchor.hidden = anchor.dataset.view === "doctor" && recording !== null;
  }
  document.title = `ttmem · ${VIEWS[name].title ?? "Device"}`;
  try {
    if (!source || source.id !== recording) {
      const opened = await open(recording);
      if (opened.id) Object.assign(opened, await firstInstant(opened));
      if (number !== drawing) return;
      source = opened;
      last = null;
      shown = null;
      drawFiles();
      if (!source.id) for (const by of Object.keys(BY)) remember(source, by).catch(() => null); // the stream tells about problems
    }
    if (name === "sites" && source.id) await remember(source, groupedBy(id));
    const isLive = recording === null && at === null;
    const base = isLive ? "/api/v1" : `${LIST}/${recording ?? "past"}`;
    const parameters = question(name, id);
    const isNarrow = parameters.has("device");
    if (isNarrow && !source.devices) source.devices = (await ask(`${base}/snapshot`)).devices;
    if (isLive) return listen(name, id, isNarrow);
    parameters.set("at", at ?? source.at);
    const found = await ask(`${base}/snapshot?${parameters}`);
    if (number !== drawing) return;
    take(found, isNarrow);
    if (source.growing && parameters.get("at") === "end") {
      source.span.ended = Math.max(source.span.ended, last.time_ns);
      setTimeout(() => number === drawing && followWriter(), 1000);
    }
    say(`${moment(last.time_ns)}${source.growing ? ", still being written" : ""}${at === null ? source.opened ?? "" : ""}`);
    draw();
  } catch (problem) {
    if (number !== drawing) return;
    say(problem.message, true);
    if (!last) page.replaceChildren(element("p.bad", {}, problem.message), element("p", {}, element("a", { href: "#/devices" }, "This host, live")));
  }
}

/** At the end of a file that is still being written. Its history may take a second to make, so that is asked for less often. */
async function followWriter() {
  if (Date.now() - source.looked > 10_000) {
    const { id, at, devices, first } = source;
    try {
      source = { ...(await open(id)), at, devices, first };
    } catch {
      // as before
    }
  }
  follow();
}

function listen(name, id, isNarrow) {
  draw();
  stream = new EventSource(`/api/v1/events?${question(name, id)}`);
  stream.addEventListener("snapshot", (event) => {
    take(JSON.parse(event.data), isNarrow);
    for (const device of last.devices) {
      source.histories.set(device.unique_id, extended(source.histories.get(device.unique_id), device, last.time_ns));
      readings.set(device.unique_id, withReadings(readings.get(device.unique_id), device, last.time_ns));
    }
    if (Date.now() - source.looked > (source.span ? 20_000 : 2000)) lookAtPast(source);
    say(`live · ${timeOfDay(last.time_ns)} UTC`);
    draw();
  });
  stream.addEventListener("problem", (event) => say(JSON.parse(event.data), true));
  stream.addEventListener("open", () => catchUp(source));
  const number = drawing;
  stream.addEventListener("error", ({ target }) => {
    say("no connection; trying again", true);
    if (target.readyState === EventSource.CLOSED) reopen(number);
  });
}

/** What happened while there was no stream, or one of a single device, is in the history of the server. */
async function catchUp(of) {
  try {
    const past = await ask("/api/v1/history");
    for (const [device, columns] of Object.entries(past.devices)) of.histories.set(device, columns);
  } catch {
    // the stream says that there is no connection
  }
}

/** A browser gives up on a stream that was refused. Says why, or opens it again. */
async function reopen(number) {
  const problem = await ask(LIST).then(() => null, (one) => one);
  if (number !== drawing) return;
  if (problem?.status === 401) say(problem.message, true);
  else setTimeout(() => number === drawing && follow(), AGAIN_MS);
}

// -- files ---------------------------------------------------------------------------------------------------------

function drawFiles() {
  const input = element("input", { type: "file", accept: ".ttmem", hidden: true, onchange: () => input.files.length && upload(input.files[0]) });
  const others = uploads.recordings.filter((one) => one.kind !== "past" && one.id !== source.id);
  const parts = [
    ...(source.id ? [element("a", { href: "#/devices" }, "this host, live")] : []),
    ...others.map((one) => element("a", { href: hashOf({ name: "devices", recording: one.id }), title: one.name }, one.name.replace(/^.*\//, ""))),
    ...(uploads.most_bytes ? [element("button", { type: "button", onclick: () => input.click(), title: "or drop a file anywhere on the page" }, "Open a recording"), input] : []),
    ...(source.kind === "upload" ? [element("button", { type: "button", onclick: close }, "Close it")] : []),
  ];
  document.getElementById("files").replaceChildren(...parts);
}

async function upload(file) {
  if (file.size > uploads.most_bytes) {
    say(`${file.name} has ${human(file.size)}, and ${human(uploads.most_bytes)} are allowed: use ttmem web FILE`, true);
    return;
  }
  say(`sending ${file.name} …`);
  try {
    const made = await ask(`${LIST}?${new URLSearchParams({ name: file.name })}`, { method: "POST", body: file });
    location.hash = hashOf({ name: "devices", recording: made.id });
  } catch (problem) {
    say(problem.message, true);
  }
}

async function close() {
  try {
    await ask(`${LIST}/${source.id}`, { method: "DELETE" });
    location.hash = "#/devices";
  } catch (problem) {
    say(problem.message, true);
  }
}

function acceptDrops() {
  const over = (event) => {
    if (!event.dataTransfer?.types.includes("Files")) return;
    event.preventDefault();
    document.body.classList.toggle("dropping", event.type === "dragover");
    if (event.type === "drop" && event.dataTransfer.files.length) upload(event.dataTransfer.files[0]);
  };
  for (const name of ["dragover", "dragleave", "drop"]) window.addEventListener(name, over);
}

// -- start ---------------------------------------------------------------------------------------------------------

function press(event) {
  if (event.target.closest?.("input, select, textarea") || event.ctrlKey || event.metaKey || event.altKey) return;
  const names = Object.keys(VIEWS).filter((name) => VIEWS[name].title);
  const view = names[Number(event.key) - 1];
  const inChart = event.target.closest?.(".chart, .track");
  const isButton = event.key === " " && event.target.closest?.("button, a");
  if (event.target.closest?.(".grid") && moveCore(event.key)) return event.preventDefault();
  if (view) location.hash = link(view);
  else if (event.key === "/") document.getElementById("search")?.focus();
  else if (inChart && !" ,.<>{}".includes(event.key)) return;
  else if (isButton) return;
  else if (!source?.span && " ,.<>{}".includes(event.key) && source?.missing) say(source.missing, true);
  else if (!bar.key(event.key)) return;
  event.preventDefault();
}

async function start() {
  window.addEventListener("hashchange", async (event) => {
    if (hasToken()) {
      await login(event.oldURL).then(() => location.reload(), (problem) => say(problem.message, true));
      return;
    }
    lists.wanted = "";
    bar.pause();
    follow();
    window.scrollTo(0, 0);
    page.focus({ preventScroll: true });
  });
  if (hasToken()) await login("#").catch((problem) => say(problem.message, true));
  const views = document.getElementById("views");
  for (const [name, view] of Object.entries(VIEWS)) {
    if (view.title) views.append(element("a", { href: `#/${name}`, "data-view": name }, view.title));
  }
  document.querySelector("header").after(bar.element);
  try {
    uploads = await ask(LIST);
  } catch (problem) {
    page.replaceChildren(element("p.bad", {}, problem.message));
    if (problem.status === 401) return;
  }
  if (!location.hash) {
    const given = uploads.recordings.find((one) => one.kind === "file");
    history.replaceState(null, "", hashOf({ name: "devices", recording: given?.id ?? null }));
  }
  window.addEventListener("keydown", press);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => {
    shown?.board.retheme();
    shown?.charts.forEach((chart) => chart.fillLegend());
    draw();
  });
  acceptDrops();
  await follow();
}

start();
