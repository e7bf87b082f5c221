// The page of many hosts: #/hosts, #/devices, #/host/NAME. It asks for the rows of `ttmem ps --prometheus --json`.

import { ask, hasToken, login } from "./asking.js";
import { show } from "./drawing.js";
import { element } from "./elements.js";
import { Lists } from "./lists.js";
import { exact, human, moment, share } from "./sizes.js";

const EVERY_MS = 5000;
const view = document.getElementById("view");
const state = document.getElementById("state");
const lists = new Lists(draw);
let last = null; // the answer that is shown, and for which address
let asking = null;

const ratio = (used, capacity) => (used === null || !capacity ? null : used / capacity);
const unknown = (value) => value ?? "N/A";

function meter(part) {
  if (part === null || part === undefined) return element("span.quiet", {}, "N/A");
  const level = part >= 0.9 ? "full" : part >= 0.75 ? "warn" : "fine";
  const fill = element(`span.${level}`);
  fill.style.width = `${Math.min(100, 100 * part)}%`;
  return element("div.meter", {}, element("div.bar", { "aria-hidden": "true" }, fill), share(part, 1));
}

function pair(used, capacity) {
  return used === null && capacity === null ? "N/A" : `${human(used)} / ${human(capacity)}`;
}

const hostLink = (name) => element("a", { href: `#/host/${encodeURIComponent(name)}` }, name);
const boards = (host) => Object.entries(host.boards).map(([name, count]) => `${count} x ${name || "unknown"}`).join(", ") || "N/A";

function condition(host) {
  if (host.stale && host.seen_ns === null) return `no recent figures: ${host.stale}`;
  if (host.stale) return `stale since ${moment(host.seen_ns)}: ${host.stale}`;
  const facts = [];
  if (host.failed) facts.push(`${exact(host.failed)} ${host.failed === 1 ? "allocation" : "allocations"} failed`);
  if (host.anomalies) facts.push(`${host.anomalies} to look at`);
  return facts.join(", ") || "up";
}

// A column: [title, value to sort by (null: none), what is shown, class].
const HOSTS = [
  ["state", (host) => (host.stale ? 2 : host.failed ? 1 : 0), condition, (host) => (host.stale || host.failed ? "bad" : "")],
  ["host", (host) => host.name, (host) => hostLink(host.name), ""],
  ["L1 fullest", (host) => host.l1_share, (host) => meter(host.l1_share), "number"],
  ["DRAM fullest", (host) => host.dram_share, (host) => meter(host.dram_share), "number"],
  ["DRAM", (host) => host.dram_used, (host) => pair(host.dram_used, host.dram_capacity), "number"],
  ["devices", (host) => host.devices, (host) => exact(host.devices), "number"],
  ["processes", (host) => host.processes, (host) => exact(host.processes), "number"],
  ["boards", boards, boards, ""],
];
const DEVICE = [
  ["device", (one) => Number(one.id ?? Infinity), (one) => [one.id ?? "?", one.position, one.board ?? "unknown board"].filter(Boolean).join(" "), ""],
  ["L1", (one) => ratio(one.l1_used, one.l1_capacity), (one) => meter(ratio(one.l1_used, one.l1_capacity)), "number"],
  ["DRAM", (one) => ratio(one.dram_used, one.dram_capacity), (one) => meter(ratio(one.dram_used, one.dram_capacity)), "number"],
  ["L1 used", (one) => one.l1_used, (one) => pair(one.l1_used, one.l1_capacity), "number"],
  ["DRAM used", (one) => one.dram_used, (one) => pair(one.dram_used, one.dram_capacity), "number"],
  ["to look at", (one) => one.anomalies, (one) => exact(one.anomalies), "number"],
  ["unique id", (one) => one.unique_id, (one) => one.unique_id, ""],
  ["celsius", (one) => one.temperature_c, (one) => exact(one.temperature_c), "number"],
  ["watts", (one) => one.power_w, (one) => exact(one.power_w), "number"],
];
const DEVICES = [["host", (one) => one.host, (one) => hostLink(one.host), ""], ...DEVICE];
const bytes = (title, key) => [title, (row) => row[key], (row) => human(row[key]), "number"];
const PROCESSES = [
  ["program", (row) => row.program, (row) => unknown(row.program), ""],
  ["user", (row) => row.user, (row) => unknown(row.user), ""],
  bytes("DRAM", "dram"), bytes("L1", "l1"), bytes("CB", "cb"), bytes("L1_SMALL", "l1_small"), bytes("TRACE", "trace"),
  ["devices", (row) => row.devices, (row) => exact(row.devices), "number"],
  ["pod or container", (row) => row.pod, (row) => (row.pod ? `${row.namespace ?? "?"}/${row.pod}` : (row.container ?? "–").slice(0, 12)), ""],
  ["job", (row) => row.job, (row) => row.job ?? "–", ""],
];

const sum = (count, what, bad = false) => element(`span${bad ? ".bad" : ""}`, {}, element("b", {}, exact(count)), what);
const counted = (count, noun) => sum(count, count === 1 ? noun : `${noun}s`);

function drawFleet(fleet, name) {
  const stale = fleet.hosts.filter((host) => host.stale).length;
  const devices = fleet.hosts.reduce((total, host) => total + (host.devices ?? 0), 0);
  return [
    element("p.sums", {}, counted(fleet.hosts.length, "host"), counted(devices, "device"), stale ? sum(stale, "stale", true) : null),
    fleet.recorded ? null : element("p.quiet", {}, "The recording rules of ttmem are not installed in this Prometheus, which makes this page slow for hundreds of hosts: see docs/fleet.md."),
    lists.search(name === "hosts" ? "Search host, board, state" : "Search host, device, board"),
    ...(name === "hosts"
      ? lists.table("hosts", HOSTS, fleet.hosts, { texts: (host) => [host.name, boards(host), condition(host)] })
      : lists.table("devices", DEVICES, fleet.worst, { texts: (one) => [one.host, one.unique_id, one.board] })),
  ];
}

function drawHost({ host, devices, processes }) {
  return [
    element("h2", {}, host.name),
    host.stale ? element("p.bad", {}, `${condition(host)}; these are its last figures`) : element("p.quiet", {}, `${condition(host)} · ${moment(host.seen_ns)}`),
    element("p", {}, boards(host)),
    ...lists.table("host", DEVICE, devices),
    element("h2", {}, "Processes"),
    ...(processes === null ? [element("p.quiet", {}, "Not known: its exporter runs without --per-process.")] : lists.table("processes", PROCESSES, processes)),
  ];
}

function where() {
  const [name, id] = location.hash.replace(/^#\//, "").split("/");
  return name === "host" && id ? { name, id: decodeURIComponent(id) } : { name: name === "devices" ? "devices" : "hosts", id: null };
}

function draw() {
  if (!last) return;
  const { name, id } = where();
  if ((id !== null) !== Boolean(last.host) || (id !== null && last.asked !== id)) return; // its answer is not here yet
  document.getElementById("source").textContent = last.source;
  show(view, (id === null ? drawFleet(last, name) : drawHost(last)).filter(Boolean));
}

function say(message, bad = false) {
  state.textContent = message;
  state.className = bad ? "bad" : "";
}

async function refresh() {
  asking?.abort();
  const mine = asking = new AbortController();
  const { id } = where();
  try {
    const found = await ask(id === null ? "/api/v1/fleet" : `/api/v1/fleet/host?name=${encodeURIComponent(id)}`, { signal: mine.signal });
    last = { ...found, asked: id };
    say(`as of ${moment(found.time_ns)}`);
    draw();
  } catch (problem) {
    if (problem.name === "AbortError") return;
    say(problem instanceof TypeError ? "no connection; trying again" : problem.message, true);
    if (!last || last.asked !== id) view.replaceChildren(element("p.bad", {}, problem.message));
  }
}

function go() {
  const { name } = where();
  for (const link of document.querySelectorAll("#views a")) link.toggleAttribute("aria-current", link.getAttribute("href") === `#/${name}`);
  lists.wanted = "";
  const { id } = where();
  view.replaceChildren(...(id !== null && last?.asked !== id ? [element("p.quiet", {}, `Loading ${id} …`)] : []));
  draw();
  refresh();
}

async function start() {
  window.addEventListener("hashchange", async (event) => {
    if (hasToken()) await login(event.oldURL).catch((problem) => say(problem.message, true));
    go();
    view.focus({ preventScroll: true });
    scrollTo(0, 0);
  });
  if (hasToken()) await login("#/hosts").catch((problem) => say(problem.message, true));
  window.addEventListener("keydown", (event) => {
    if (event.target instanceof HTMLInputElement || event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.key === "1") location.hash = "#/hosts";
    else if (event.key === "2") location.hash = "#/devices";
    else if (event.key === "/") { event.preventDefault(); document.getElementById("search")?.focus(); }
  });
  go();
  setInterval(() => { if (!document.hidden) refresh(); }, EVERY_MS);
}

start();
