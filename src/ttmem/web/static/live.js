// The live page: one stream of snapshots, drawn by the view that the address names (#/devices, #/device/ID, ...).

import { KINDS, bars, cachedByCore, coreMap, deviceName, extended, inOrder, processRows, programRows, siteRows } from "./live-data.js";
import { duration, exact, hex, human, share, shortSite } from "./sizes.js";
import { filtered, sorted } from "./tables.js";

const page = document.getElementById("view");
const state = document.getElementById("state");
const histories = new Map();
const firstSites = new Map();
const order = new Map([["memory", [0, false]]]); // of tables: [column, descending]; else by the first number
let wanted = ""; // what the search field of a table says
let chosenCore = null;
let last = null; // the latest snapshot
let stream = null;

// -- elements: text never becomes markup ---------------------------------------------------------------------------

function element(name, attributes = {}, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (key.startsWith("on")) made.addEventListener(key.slice(2), value);
    else made.setAttribute(key, value === true ? "" : value);
  }
  made.append(...children.filter((child) => child !== null).map((child) => (child instanceof Node ? child : String(child))));
  return made;
}

function bar({ parts, capacity }) {
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
    bar(one),
  ];
}

/** `columns`: [name, value for sorting, what is shown, class]; sorted by the column that its user chose. */
function table(name, columns, rows, texts, most = 500) {
  const [column, descending] = order.get(name) ?? [columns.findIndex(([, , , kind]) => kind === "number"), true];
  const found = sorted(filtered(rows, texts, wanted), columns[Math.max(0, column)][1], descending);
  const heads = columns.map(([title, , , kind], at) =>
    element(
      "th",
      { class: kind, scope: "col", "aria-sort": at === column ? (descending ? "descending" : "ascending") : null },
      element("button", { onclick: () => { order.set(name, [at, at === column ? !descending : kind === "number"]); draw(); } }, title),
    ));
  const body = found.slice(0, most).map((row) =>
    element("tr", {}, ...columns.map(([, , shown, kind]) => element("td", { class: kind }, shown(row)))));
  const rest = found.length > most ? element("p", { class: "quiet" }, `and ${exact(found.length - most)} more; search to narrow the list`) : null;
  const made = element("div", { class: "scroll" }, element("table", {}, element("thead", {}, element("tr", {}, ...heads)), element("tbody", {}, ...body)));
  return rest ? [made, rest] : [made];
}

function search(hint) {
  return element("input", {
    type: "search", id: "search", placeholder: hint, "aria-label": hint, value: wanted,
    oninput: (event) => { wanted = event.target.value; draw(); },
  });
}

const number = (name, key, shown = human) => [name, (row) => row[key], (row) => shown(row[key]), "number"];
const word = (name, key, shown = (value) => value ?? "N/A") => [name, (row) => row[key], (row) => shown(row[key]), ""];
const text = (name, key, shown = (value) => value ?? "N/A") => [name, (row) => row[key], (row) => shown(row[key]), "text"];

// -- charts --------------------------------------------------------------------------------------------------------

function chart(columns, kinds, capacity, label) {
  const canvas = element("canvas", { role: "img", "aria-label": label });
  requestAnimationFrame(() => paint(canvas, columns, kinds, capacity));
  return canvas;
}

/** Kinds on top of one another, and a line for the capacity. */
function paint(canvas, columns, kinds, capacity) {
  const ratio = window.devicePixelRatio || 1;
  const [width, height] = [canvas.clientWidth * ratio, canvas.clientHeight * ratio];
  canvas.width = width;
  canvas.height = height;
  const times = columns?.time_ns ?? [];
  if (times.length < 2 || !width) return;
  const context = canvas.getContext("2d");
  const style = getComputedStyle(document.documentElement);
  const sums = times.map((_, at) => kinds.reduce((sum, kind) => sum + columns[kind][at], 0));
  const most = Math.max(1, ...sums, Math.max(...sums) > (capacity ?? Infinity) / 3 ? capacity : 0) * 1.2; // room for the text
  const x = (at) => ((times[at] - times[0]) / (times.at(-1) - times[0])) * width;
  const y = (bytes) => height - (bytes / most) * height;
  const base = times.map(() => 0);
  for (const kind of kinds) {
    const top = base.map((bytes, at) => bytes + columns[kind][at]);
    context.beginPath();
    top.forEach((bytes, at) => { if (at) context.lineTo(x(at), y(top[at - 1])); context.lineTo(x(at), y(bytes)); });
    for (let at = times.length - 1; at >= 0; at -= 1) { context.lineTo(x(at), y(base[at])); if (at) context.lineTo(x(at), y(base[at - 1])); }
    context.fillStyle = style.getPropertyValue(`--${kind === "l1_small" ? "small" : kind}`);
    context.fill();
    top.forEach((bytes, at) => { base[at] = bytes; });
  }
  context.fillStyle = style.getPropertyValue("--quiet");
  context.font = `${11 * ratio}px system-ui, sans-serif`;
  if (canvas.clientHeight > 60) context.fillText(`${human(Math.max(...sums))} at most, over ${duration(times.at(-1) - times[0])}`, 6 * ratio, 14 * ratio);
  if (capacity && capacity <= most) {
    context.strokeStyle = style.getPropertyValue("--bad");
    context.setLineDash([4 * ratio, 4 * ratio]);
    context.beginPath();
    context.moveTo(0, y(capacity));
    context.lineTo(width, y(capacity));
    context.stroke();
  }
}

// -- views ---------------------------------------------------------------------------------------------------------

const VIEWS = {
  devices: { title: "Devices", detail: "", draw: drawDevices },
  processes: { title: "Processes", detail: "", draw: drawProcesses },
  sites: { title: "Sites", detail: "buffers", draw: drawSites },
  cores: { title: "Cores", detail: "cores", draw: drawCores },
  programs: { title: "Programs", detail: "programs", draw: drawPrograms },
  events: { title: "Events", detail: "events", draw: drawEvents },
  doctor: { title: "Doctor", detail: "", draw: drawDoctor },
  device: { detail: "", draw: drawDevice },
};

function where() {
  const [name, id] = location.hash.replace(/^#\//, "").split("/");
  return { name: VIEWS[name] ? name : "devices", id: id ? decodeURIComponent(id) : null };
}

function drawDevices(snapshot) {
  if (!snapshot.devices.length) return [element("p", {}, "No device is in use. Try ", element("code", {}, "ttmem run -- python model.py"), " or ", element("code", {}, "ttmem demo"), ".")];
  const cards = inOrder(snapshot.devices).map((device) => element(
    "a",
    { class: "card", href: `#/device/${encodeURIComponent(device.unique_id)}`, "data-device": device.unique_id },
    element("div", { class: "title" }, element("span", {}, deviceName(device)),
      device.anomalies.length ? element("span", { class: "bad", title: device.anomalies.map((one) => one.text).join("\n") }, `${device.anomalies.length} to look at`) : ""),
    element("div", { class: "quiet" }, [device.unique_id, device.pci].filter(Boolean).join(" · ")),
    ...bars(device).flatMap(figure),
    chart(histories.get(device.unique_id), ["l1", "l1_small", "cb"], device.l1_capacity, "L1 over time"),
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
  if (!device) return [element("p", {}, "This device is not in use now. ", element("a", { href: "#/devices" }, "All devices"))];
  const columns = histories.get(id);
  const { memory, kernels } = device;
  const rows = KINDS.map((kind) => ({ kind: kind.toUpperCase(), ...memory[kind] }));
  const telemetry = device.telemetry ? Object.entries(device.telemetry).filter(([, value]) => ["number", "string"].includes(typeof value)) : [];
  return [
    element("h2", {}, deviceName(device)),
    element("p", { class: "quiet" }, [device.unique_id, device.arch, device.pci, device.grid ? `${device.grid[0]} x ${device.grid[1]} cores` : null].filter(Boolean).join(" · ")),
    ...bars(device).flatMap(figure),
    element("h2", {}, "L1 over time"),
    element("p", { class: "quiet" }, key("l1", "L1"), key("l1_small", "L1_SMALL"), key("cb", "circular buffers")),
    chart(columns, ["l1", "l1_small", "cb"], device.l1_capacity, "L1 over time"),
    element("h2", {}, "DRAM over time"),
    chart(columns, ["dram"], memory.dram.capacity, "DRAM over time"),
    element("h2", {}, "Memory"),
    ...table("memory", [word("kind", "kind"), number("used", "held"), number("requested", "requested"), number("reserved", "reserved"), number("capacity", "capacity"),
      number("largest free block", "largest_free"), number("peak", "peak"), number("buffers", "count", exact)], rows, () => []),
    element("h2", {}, "Circular buffers"),
    element("p", {}, `resident ${human(memory.cb.resident)}, cached ${human(memory.cb.cached)}, demand ${human(memory.cb.demand)}; L1 used includes ${human(memory.cb.used)}`),
    element("h2", {}, "Kernel code, part of no total"),
    element("p", {}, `ring ${human(kernels.ring.occupied)} / ${human(kernels.ring.capacity)}; binaries in DRAM ${human(kernels.dram_binaries)}; if resident everywhere: application ${human(kernels.footprint.application)}, fabric ${human(kernels.footprint.fabric)}, dispatch ${human(kernels.footprint.dispatch)}; cache ${exact(kernels.cache_entries)} programs, ${exact(kernels.cache_hits)} hits, ${exact(kernels.cache_misses)} misses`),
    ...(device.anomalies.length ? [element("h2", {}, "What does not add up"), ...device.anomalies.map((one) => element("p", { class: "bad" }, one.text))] : []),
    ...(telemetry.length ? [element("h2", {}, "Telemetry"), element("p", {}, telemetry.map(([name, value]) => `${name} ${value}`).join(", "))] : []),
    element("h2", {}, "Where the numbers come from"),
    ...Object.entries(device.provenance).map(([name, one]) => element("p", { class: "quiet" }, `${name}: ${one.source}, ${one.method}${one.misses ? `; ${one.misses}` : ""}`)),
  ];
}

function key(kind, title) {
  return element("span", {}, element("span", { class: `key ${kind}` }), `${title}   `);
}

function drawProcesses(snapshot) {
  const rows = processRows(snapshot);
  return [
    search("Search user, command, pod, job"),
    ...table("processes", [
      ["pid", (row) => row.pid, (row) => String(row.pid), ""], word("user", "user"), word("devices", "devices"), number("DRAM", "dram"), number("L1", "l1"),
      number("L1_SMALL", "l1_small"), number("TRACE", "trace"), number("CB", "cb"), text("pod or container", "pod", (value) => value || "–"), word("job", "job", (value) => value ?? "–"),
      text("command", "command", (value) => value ?? "shown to its owner and to root"),
    ], rows, (row) => [String(row.pid), row.user, row.command, row.pod, row.job]),
    ...(snapshot.left_behind.length ? [element("h2", {}, "Left behind by dead processes, in no total")] : []),
    ...snapshot.left_behind.map((left) => element("p", {}, `pid ${left.pid} ${left.command ?? ""}`)),
  ];
}

function drawSites(snapshot) {
  if (!snapshot.buffers) return [element("p", { class: "quiet" }, "Loading …")];
  const rows = siteRows(snapshot, firstSites);
  return [
    search("Search call site, operation, phase"),
    ...table("sites", [number("held", "bytes"), number("since opened", "growth", (bytes) => (bytes > 0 ? `+${human(bytes)}` : human(bytes))), number("buffers", "count", exact), number("devices", "devices", exact),
      word("kind", "kind"), word("operation", "op"), word("phase", "phase", (value) => value ?? "–"), text("call site", "site", (value) => (value === null ? "N/A: start the program with ttmem run" : shortSite(value)))],
    rows, (row) => [row.site, row.op, row.phase, row.kind]),
  ];
}

function drawPrograms(snapshot) {
  return [
    search("Search program, kernel, call site"),
    ...table("programs", [number("circular buffers", "cb"), number("kernel footprint", "footprint"), number("kernels", "kernels", exact), number("dispatches", "dispatches", exact), number("cache hits", "cache_hits", exact),
      ["program", (row) => row.program, (row) => String(row.program), ""], word("device", "number"), ["pid", (row) => row.pid, (row) => String(row.pid), ""], word("binaries", "status"), word("operation", "name"), text("call site", "site", (value) => (value ? shortSite(value) : "N/A"))],
    programRows(snapshot), (row) => [row.name, row.site, String(row.program), ...row.kernelNames]),
  ];
}

function drawEvents(snapshot) {
  const rows = [...(snapshot.events ?? [])].reverse();
  return [
    search("Search event, operation, call site"),
    ...table("events", [["ago", (row) => row.time_ns, (row) => duration(Math.max(0, snapshot.time_ns - row.time_ns)), "number"], word("event", "op", String), word("kind", "kind", (value) => value ?? "–"),
      number("size", "size"), ["address", (row) => row.address, (row) => (row.address ? hex(row.address) : "–"), "number"], ["pid", (row) => row.pid, (row) => String(row.pid), ""],
      word("operation", "name", (value) => value ?? "–"), text("call site", "site", (value) => (value ? shortSite(value) : "–"))],
    rows, (row) => [String(row.op), row.name, row.site, row.kind], 200),
  ];
}

function drawCores(snapshot) {
  const devices = inOrder(snapshot.devices).filter((device) => device.grid);
  if (!devices.length) return [element("p", {}, "No device has told its grid of cores. Programs that run under ", element("code", {}, "ttmem run"), " do.")];
  const id = where().id ?? devices[0].unique_id;
  const device = devices.find((one) => one.unique_id === id) ?? devices[0];
  const [width, height] = device.grid;
  const cached = cachedByCore(snapshot, device);
  const most = device.l1_map ? device.l1_map.end - device.l1_map.base : Math.max(1, ...cached.values());
  const grid = element("div", { class: "grid", role: "group", "aria-label": "Cores" });
  grid.style.gridTemplateColumns = `repeat(${width}, 1fr)`;
  chosenCore ??= "0,0";
  for (let y = 0; y < height; y += 1) {
    for (let x = 0; x < width; x += 1) {
      const name = `${x},${y}`;
      const fill = element("span", { class: "cb" });
      fill.style.height = `${Math.min(100, (100 * (cached.get(name) ?? 0)) / most)}%`;
      grid.append(element("button", {
        "aria-pressed": String(name === chosenCore), title: `core ${name}: ${human(cached.get(name) ?? 0)} of circular buffers`, "aria-label": `core ${name}`,
        onclick: () => { chosenCore = name; draw(); },
      }, fill));
    }
  }
  const map = coreMap(snapshot, device, ...chosenCore.split(",").map(Number));
  const rows = map ? map.ranges.map((range) => ({ ...range, size: range.to - range.from })) : [];
  const chips = devices.map((one) => element("a", { href: `#/cores/${encodeURIComponent(one.unique_id)}`, "aria-current": one === device ? "page" : null }, deviceName(one)));
  return [
    element("nav", { "aria-label": "Devices" }, ...chips),
    element("div", { class: "columns" },
      element("section", {}, element("h2", {}, "Circular buffers of live programs, by core"), grid),
      element("section", {}, element("h2", {}, `Core ${chosenCore}`),
        element("p", { class: map && map.gap < 0 ? "bad" : "" }, map ? (map.gap < 0 ? `circular buffers and buffers overlap by ${human(-map.gap)}: such a program cannot run now` : `${human(map.gap)} between circular buffers and the lowest L1 buffer`) : "N/A: the addresses of L1 are not known"),
        ...table("core", [["from", (row) => row.from, (row) => hex(row.from), "number"], ["to", (row) => row.to, (row) => hex(row.to), "number"], number("size", "size"),
          ["what", (row) => row.kind, (row) => element("span", {}, element("span", { class: `key ${row.kind}` }), row.text), "text"]], rows, () => []))),
  ];
}

function drawDoctor() {
  const made = element("div", {}, element("p", { class: "quiet" }, "Examining …"));
  ask("/api/v1/doctor").then((document) => {
    const found = document.findings.map((one) => element("div", {}, element("h2", { class: one.level === "info" ? "" : "bad" }, `${one.level}: ${one.kind.replaceAll("_", " ")}`),
      element("p", {}, one.text), one.advice ? element("p", {}, one.advice) : "", one.command ? element("p", {}, element("code", {}, one.command)) : ""));
    made.replaceChildren(...(found.length ? found : [element("p", {}, "Nothing is wrong.")]));
  }, (problem) => made.replaceChildren(element("p", { class: "bad" }, problem.message)));
  return [made];
}

// -- the loop ------------------------------------------------------------------------------------------------------

function draw() {
  const { name, id } = where();
  if (!last) return;
  const focused = document.activeElement?.id === "search" ? [document.activeElement.selectionStart, document.activeElement.selectionEnd] : null;
  document.getElementById("host").textContent = last.host.name ?? "";
  page.replaceChildren(...VIEWS[name].draw(last, id));
  const field = document.getElementById("search");
  if (focused && field) {
    field.focus();
    field.setSelectionRange(...focused);
  }
}

function say(message, bad = false) {
  state.textContent = message;
  state.className = bad ? "bad" : "";
}

async function ask(path) {
  const answer = await fetch(path);
  if (answer.ok) return answer.json();
  const told = await answer.text();
  let message = told;
  try {
    message = JSON.parse(told).error ?? told;
  } catch {
    // it is no JSON
  }
  throw new Error(message.trim());
}

function follow() {
  stream?.close();
  const { name, id } = where();
  for (const link of document.querySelectorAll("#views a")) link.toggleAttribute("aria-current", link.dataset.view === name);
  document.title = `ttmem · ${VIEWS[name].title ?? "Device"}`;
  const { detail } = VIEWS[name];
  const parameters = new URLSearchParams(detail ? { detail, limit: name === "events" ? "1000" : "20000" } : {});
  if (name === "cores" && id) parameters.set("device", id);
  draw();
  if (name === "doctor" && last) return;
  stream = new EventSource(`/api/v1/events?${parameters}`);
  stream.addEventListener("snapshot", (event) => {
    last = JSON.parse(event.data);
    for (const device of last.devices) histories.set(device.unique_id, extended(histories.get(device.unique_id), device, last.time_ns));
    say(`live · ${new Date(last.time_ns / 1e6).toLocaleTimeString()}`);
    if (where().name !== "doctor" || !page.querySelector("h2")) draw();
  });
  stream.addEventListener("problem", (event) => say(JSON.parse(event.data), true));
  stream.addEventListener("error", () => say("no connection; trying again", true));
}

async function start() {
  const token = /^#token=(.+)$/.exec(location.hash)?.[1];
  if (token) {
    await fetch("/login", { method: "POST", body: token });
    history.replaceState(null, "", "#/devices");
  }
  const views = document.getElementById("views");
  for (const [name, view] of Object.entries(VIEWS)) {
    if (view.title) views.append(element("a", { href: `#/${name}`, "data-view": name }, view.title));
  }
  try {
    const past = await ask("/api/v1/history");
    for (const [id, columns] of Object.entries(past.devices)) histories.set(id, columns);
  } catch (problem) {
    page.replaceChildren(element("p", { class: "bad" }, problem.message));
    if (/token/.test(problem.message)) return;
  }
  window.addEventListener("hashchange", () => { wanted = ""; follow(); page.focus(); });
  window.addEventListener("keydown", (event) => {
    if (event.target instanceof HTMLInputElement || event.ctrlKey || event.metaKey || event.altKey) return;
    const at = Number(event.key) - 1;
    const names = Object.keys(VIEWS).filter((name) => VIEWS[name].title);
    if (names[at]) location.hash = `#/${names[at]}`;
    else if (event.key === "/") { event.preventDefault(); document.getElementById("search")?.focus(); }
  });
  follow();
}

start();
