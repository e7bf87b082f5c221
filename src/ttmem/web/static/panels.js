// Everything beside the charts: what is alive at the cursor, and what the run as a whole tells.

import { clock, duration, exact, hex, human, share, shortSite } from "./sizes.js";
import { CHARTS, DIMENSIONS, KINDS, LABELS } from "./history.js";
import { clearance, closest } from "./addresses.js";
import { ancestors, boxes, found, matches, tree } from "./icicle.js";
import { coreMap } from "./cores.js";
import { filtered, sorted } from "./tables.js";
import { Picture, bytes, element } from "./elements.js";
import { fitted, place } from "./charts.js";

const FIRST = 12; // rows of a table before "show all"

/** A section with a title that can be linked to. */
export function section(id, title, about, ...children) {
  const head = about ? [element("p.about", {}, about)] : [];
  return element("section", { id, "aria-labelledby": `${id}-title` }, element("h2", { id: `${id}-title` }, title), ...head, ...children);
}

/**
 * A table that sorts by a click on its titles, and shows its first rows until asked for all.
 *
 * `columns`: [{title, value(row), cell(row), number}]; `texts(row)`: what its search looks at; `order`: the column to sort
 * by at first, null for the order of `rows`.
 */
export function dataTable(columns, rows, { order = 0, descending = true, texts = null, first = FIRST, empty = "none" } = {}) {
  let state = { order, descending, all: false, wanted: "" };
  const body = element("tbody");
  const more = element("button.link", { onclick: () => fill({ all: !state.all }) });
  const heads = columns.map((column, number) =>
    element(
      `th${column.number ? ".number" : ""}`,
      { scope: "col" },
      element("button.sort", { onclick: () => fill({ order: number, descending: state.order === number ? !state.descending : Boolean(column.number) }) }, column.title),
    ),
  );
  function fill(change) {
    state = { ...state, ...change };
    const wanted = texts ? filtered(rows, texts, state.wanted) : rows;
    const chosen = state.order === null ? wanted : sorted(wanted, columns[state.order].value, state.descending);
    const shown = state.all ? chosen : chosen.slice(0, first);
    heads.forEach((head, number) => head.setAttribute("aria-sort", number !== state.order ? "none" : state.descending ? "descending" : "ascending"));
    body.replaceChildren(
      ...shown.map((row) => element("tr", {}, ...columns.map((column) => element(`td${column.number ? ".number" : ""}`, {}, column.cell ? column.cell(row) : text(column.value(row)))))),
    );
    if (!chosen.length) body.append(element("tr", {}, element("td.faint", { colspan: columns.length }, rows.length ? "nothing matches" : empty)));
    more.hidden = chosen.length <= first;
    more.textContent = state.all ? `show the first ${first} only` : `show all ${exact(chosen.length)}`;
  }
  fill({});
  const search = texts && rows.length > first ? element("input", { type: "search", placeholder: "filter", "aria-label": "filter the rows", oninput: (event) => fill({ wanted: event.target.value }) }) : null;
  return element("div.table", {}, search, element("div.scroll", { tabindex: 0, role: "region", "aria-label": "table" }, element("table", {}, element("thead", {}, element("tr", {}, ...heads)), body)), more);
}

function text(value) {
  if (value === null || value === undefined) return element("span.faint", {}, "N/A");
  return typeof value === "number" ? exact(value) : value;
}

function site(value) {
  return value ? element("span.site", { title: value }, shortSite(value)) : element("span.faint", {}, "N/A");
}

export function deviceName(device) {
  const number = device.logical_id === null ? device.unique_id : `device ${device.logical_id}`;
  return device.board ? `${number} (${device.board})` : number;
}

// -- at the cursor ---------------------------------------------------------------------------------------------------

/** Totals at the cursor, in the bar that stays in sight. */
export class Readout {
  constructor(board) {
    this.board = board;
    this.element = element("output.readout", { id: "readout", "aria-live": "polite" });
    this.update();
  }

  update() {
    const { history, device, view } = this.board;
    const totals = history.totals(device, view.cursor);
    const position = totals?.position ?? history.document.about.first;
    const parts = [element("span.when", { id: "cursor-time", "data-ns": view.cursor, "data-position": position }, clock(view.cursor, Math.min(1e6, view.span / 2000)))];
    for (const chart of ["dram", "l1_used", "l1_small", "trace"]) {
      if (!totals || (chart !== "dram" && chart !== "l1_used" && !totals[chart])) continue;
      const figure = bytes(totals[chart]);
      figure.id = `total-${chart}`;
      parts.push(element("span.total", {}, `${CHARTS[chart].label} `, figure));
    }
    if (!totals) parts.push(element("span.faint", {}, "before the first event"));
    this.element.replaceChildren(...parts);
  }
}

/** Who holds what at the cursor, and the buffers one by one. */
export class Holders {
  constructor(board) {
    this.board = board;
    this.body = element("div");
    this.element = section("holders", "Alive at the cursor", null, this.body);
  }

  update() {
    const { history, device, view, dimension } = this.board;
    const time = view.cursor;
    const totals = history.totals(device, time);
    const charts = Object.keys(CHARTS).filter((chart) => chart !== "l1_small" && (chart !== "trace" || totals?.trace));
    const groups = new Map();
    for (const chart of charts) {
      for (const { name, bytes: held, count } of history.holders(device, time, chart, dimension)) {
        const row = groups.get(name) ?? { name, count: 0 };
        row[chart] = held;
        row.count += count ?? 0;
        groups.set(name, row);
      }
    }
    const columns = [
      ...charts.map((chart) => ({ title: CHARTS[chart].label, number: true, value: (row) => row[chart] ?? 0, cell: (row) => (row[chart] ? bytes(row[chart]) : element("span.faint", {}, "-")) })),
      { title: "buffers", number: true, value: (row) => row.count, cell: (row) => (row.count ? exact(row.count) : element("span.faint", {}, "-")) },
      { title: DIMENSIONS[dimension], value: (row) => row.name, cell: (row) => element("span.site", { title: row.name }, dimension === "site" ? shortSite(row.name) : row.name) },
    ];
    const order = totals && totals.l1_used / (device.capacity.l1_used || Infinity) > totals.dram / (device.capacity.dram || Infinity) ? 1 : 0;
    const table = dataTable(columns, [...groups.values()], { order, empty: "nothing is allocated", first: 10 });
    table.id = "groups";
    this.body.replaceChildren(...[this.command(totals), this.completeness(time)].filter(Boolean), element("div.columns", {}, element("div", {}, element("h3", {}, `By ${DIMENSIONS[dimension]}`), table), element("div", {}, element("h3", {}, "Largest buffers"), this.buffers(time))));
  }

  /** How to see the same in a terminal. */
  command(totals) {
    const { history } = this.board;
    const position = totals?.position === null ? `${(totals.time / 1e9).toFixed(3)}s` : `'#${totals?.position ?? history.document.about.first}'`;
    return element("p.about", {}, "The same in a terminal: ", element("code", { id: "command" }, `ttmem ps ${history.document.name} --at ${position}`));
  }

  completeness(time) {
    const { history, device } = this.board;
    if (history.isComplete(time)) return null;
    const rows = history.omitted(device, time);
    const count = rows.reduce((sum, row) => sum + device.omitted.count[row], 0);
    return element("p.note", {}, `This run is too long for all of it to be in one page. Around peaks, failures and marks every buffer is listed; here ${exact(count)} of the smaller ones appear only in the sums.`);
  }

  buffers(time) {
    const { history, device } = this.board;
    const rows = history.live(device, time);
    const { buffers } = device;
    const named = (key) => (row) => history.origin(buffers.origin[row])[key];
    const table = dataTable(
      [
        { title: "size", number: true, value: (row) => buffers.held[row], cell: (row) => bytes(buffers.held[row]) },
        { title: "kind", value: (row) => LABELS[KINDS[buffers.kind[row]]] },
        { title: "address", number: true, value: (row) => buffers.address[row], cell: (row) => hex(buffers.address[row]) },
        { title: "age", number: true, value: (row) => time - buffers.start[row], cell: (row) => duration(time - buffers.start[row]) },
        { title: "operation", value: named("op") },
        { title: "call site", value: named("site"), cell: (row) => site(named("site")(row)) },
      ],
      rows,
      { texts: (row) => [LABELS[KINDS[buffers.kind[row]]], named("op")(row), named("site")(row), named("phase")(row)], empty: "nothing is allocated", first: 10 },
    );
    table.id = "buffers";
    return table;
  }
}

/** Live memory by phase, stack and operation. */
export class Icicle {
  constructor(board) {
    this.board = board;
    this.chart = "dram";
    this.wanted = "";
    this.top = null; // names from the root: survives a move of the cursor
    this.picture = new Picture((context, width) => this.draw(context, width), "live memory by phase, call stack and operation");
    this.shown = [];
    this.summary = element("p.about", { id: "icicle-summary" });
    this.select = element("select", { "aria-label": "memory", onchange: () => this.choose(this.select.value) });
    const search = element("input", { type: "search", id: "icicle-search", placeholder: "search", "aria-label": "search phases, call sites and operations", oninput: (event) => this.seek(event.target.value) });
    const reset = element("button", { onclick: () => this.zoomTo(null) }, "show all");
    this.box = element("div.icicle", { tabindex: 0, role: "group", "aria-label": "Icicle. Enter goes into the widest part, Escape goes back." }, this.picture.canvas);
    this.element = section("icicle", "By phase, call stack and operation", "Every box is as wide as the bytes alive at the cursor that were allocated below it. Click a box to enlarge it.", element("div.tools", {}, this.select, search, reset), this.box, this.summary);
    this.box.addEventListener("click", (event) => this.hit(event, (one) => this.zoomTo(one.node)));
    this.box.addEventListener("pointermove", (event) => this.hover(event));
    this.box.addEventListener("pointerleave", () => (board.tooltip.hidden = true));
    this.box.addEventListener("keydown", (event) => this.key(event));
  }

  choose(chart) {
    this.chart = chart;
    this.top = null;
    this.update();
  }

  seek(wanted) {
    this.wanted = wanted;
    this.paint();
  }

  zoomTo(node) {
    this.top = node && node.parent ? ancestors(node).slice(1).map((one) => one.name) : null;
    this.update();
  }

  key(event) {
    if (event.key === "Escape") this.zoomTo(this.current?.parent ?? null);
    else if (event.key === "Enter" && this.current?.children.length) this.zoomTo(this.current.children[0]);
    else return;
    event.preventDefault();
  }

  update() {
    const { history, device, view } = this.board;
    const totals = history.totals(device, view.cursor);
    const charts = Object.keys(CHARTS).filter((chart) => chart !== "l1_small" && (totals?.[chart] || chart === this.chart));
    this.select.replaceChildren(...charts.map((chart) => element("option", { value: chart, selected: chart === this.chart }, CHARTS[chart].label)));
    this.root = tree(history, device, view.cursor, this.chart);
    this.current = this.root;
    for (const name of this.top ?? []) this.current = this.current.children.find((child) => child.name === name) ?? this.current;
    this.shown = boxes(this.current);
    const depth = Math.max(0, ...this.shown.map((one) => one.depth));
    this.box.style.height = `${(depth + 1) * 24 + 2}px`;
    this.paint();
  }

  paint() {
    this.picture.paint();
    const matched = this.root ? found(this.root, this.wanted) : null;
    const all = `${CHARTS[this.chart].label} at the cursor: ${human(this.root?.bytes ?? 0)}`;
    this.summary.textContent = matched === null ? all : `${all}; matching “${this.wanted.trim()}”: ${human(matched)} (${share(matched, this.root.bytes) || "0%"})`;
    this.summary.dataset.bytes = this.root?.bytes ?? 0;
    this.summary.dataset.matched = matched ?? "";
  }

  draw(context, width) {
    const { colours } = this.board;
    context.font = "12px system-ui, sans-serif";
    context.textBaseline = "middle";
    const palette = { root: colours.others, phase: colours.groups[3], frame: colours.groups[0], op: colours.groups[1], circular: colours.circular };
    for (const { node, depth, x, width: wide } of this.shown) {
      const [left, top, across] = [x * width, depth * 24, wide * width - 1];
      const hit = matches(node, this.wanted);
      context.globalAlpha = this.wanted.trim() ? (hit ? 0.85 : 0.12) : 0.42;
      context.fillStyle = palette[node.sort];
      context.fillRect(left, top, Math.max(0.5, across), 22);
      context.globalAlpha = 1;
      if (across > 30) {
        context.fillStyle = colours.ink;
        const name = node.sort === "frame" ? shortSite(node.name) : node.sort === "root" ? CHARTS[this.chart].label : node.name;
        context.fillText(fitted(context, `${name}  ${human(node.bytes)}`, across - 10), left + 5, top + 11);
      }
    }
  }

  hit(event, act) {
    const box = this.picture.canvas.getBoundingClientRect();
    const [x, depth] = [(event.clientX - box.left) / box.width, Math.floor((event.clientY - box.top) / 24)];
    const one = this.shown.find((shown) => shown.depth === depth && shown.x <= x && x < shown.x + shown.width);
    if (one) act(one);
    return one;
  }

  hover(event) {
    const { tooltip } = this.board;
    const one = this.hit(event, ({ node }) => {
      tooltip.replaceChildren(
        element("div", {}, element("b", {}, human(node.bytes)), ` ${share(node.bytes, this.root.bytes)}, ${exact(node.count)} buffers`),
        ...ancestors(node).slice(1).map((each) => element("div", {}, each.name)),
      );
      place(tooltip, event);
    });
    if (!one) tooltip.hidden = true;
  }
}

/** L1 on each core at the cursor. */
export class CoreMap {
  constructor(board) {
    this.board = board;
    this.picture = new Picture((context, width, height) => this.draw(context, width, height), "L1 on each core: circular buffers from below, L1 buffers from above");
    this.box = element("div.cores", {}, this.picture.canvas);
    this.about = element("p.about");
    this.element = section("cores", "L1 on each core", null, this.about, this.box);
    this.box.addEventListener("pointermove", (event) => this.hover(event));
    this.box.addEventListener("pointerleave", () => (board.tooltip.hidden = true));
  }

  update() {
    const { history, device, view } = this.board;
    this.map = coreMap(history, device, view.cursor);
    const { columns, rows, buffers, circular, unplaced } = this.map;
    const most = Math.max(0, ...circular);
    const parts = [];
    parts.push(buffers === null ? "How many banks L1 has is not known, so what buffers take on a core is N/A." : `L1 buffers take ${human(buffers)} on every core, because allocation is in lock-step.`);
    parts.push(columns ? `Circular buffers of all cached programs take up to ${human(most)} on a core.` : "No circular buffer is alive, or their cores are not known.");
    if (columns) parts.push("A core fills with circular buffers from below, and with L1 buffers from above.");
    if (unplaced) parts.push(`${exact(unplaced)} circular buffers are not shown: their cores are not known.`);
    this.about.textContent = parts.join(" ");
    this.box.style.height = columns ? `${Math.min(420, rows * 34)}px` : "0";
    this.box.style.maxWidth = `${columns * 64}px`;
    this.paint();
  }

  paint() {
    this.picture.paint();
  }

  draw(context, width, height) {
    const { colours } = this.board;
    const { columns, rows, circular, buffers } = this.map;
    if (!columns) return;
    const [wide, high] = [width / columns, height / rows];
    const map = this.board.device.l1_map;
    const size = map ? map.end - map.base : Math.max(1, ...circular) + (buffers ?? 0);
    context.font = "10px system-ui, sans-serif";
    context.textAlign = "center";
    context.textBaseline = "middle";
    for (let core = 0; core < columns * rows; core += 1) {
      const [x, y] = [(core % columns) * wide, Math.floor(core / columns) * high];
      const fill = (bytes, colour, alpha, above) => {
        const part = ((high - 2) * Math.min(bytes, size)) / size;
        context.globalAlpha = alpha;
        context.fillStyle = colour;
        context.fillRect(x + 1, above ? y + 1 : y + high - 1 - part, wide - 2, part);
      };
      fill(size, colours.line, 1, true);
      fill(circular[core], colours.groups[0], 0.6, false);
      fill(buffers ?? 0, colours.groups[2], 0.6, true);
      context.globalAlpha = 1;
      if (wide > 44 && high > 14 && circular[core]) {
        context.fillStyle = colours.ink;
        context.fillText(human(circular[core]).replace("iB", ""), x + wide / 2, y + high / 2);
      }
    }
  }

  hover(event) {
    const { tooltip, device } = this.board;
    const box = this.picture.canvas.getBoundingClientRect();
    const { columns, rows, circular, buffers } = this.map;
    const [x, y] = [Math.floor(((event.clientX - box.left) / box.width) * columns), Math.floor(((event.clientY - box.top) / box.height) * rows)];
    if (!(x >= 0 && y >= 0 && x < columns && y < rows)) return;
    const map = device.l1_map;
    tooltip.replaceChildren(
      element("div", {}, element("b", {}, `core ${x},${y}`)),
      element("div", {}, `circular buffers ${human(circular[y * columns + x])}`),
      element("div", {}, `L1 buffers ${human(buffers)}`),
      ...(map ? [element("div.faint", {}, `of ${human(map.end - map.base)} that can be allocated`)] : []),
    );
    place(tooltip, event);
  }
}

/** The distance between circular buffers and L1 buffers, in words. */
export function clearanceText(device, time) {
  const now = clearance(device, time);
  const least = closest(device);
  const parts = [];
  if (now?.distance !== null && now) {
    parts.push(`At the cursor the program dispatched last reaches up to ${hex(now.reached)}, and the lowest L1 buffer begins at ${hex(now.lowest)}: ${human(now.distance)} apart.`);
  }
  if (least) parts.push(`The closest they came was ${human(least.distance)}, at ${clock(least.time)}.`);
  return parts.join(" ");
}

// -- of the whole run ------------------------------------------------------------------------------------------------

export function peaksSection(board) {
  const { history, view } = board;
  const { document } = history;
  const names = new Map(history.devices.map((device) => [device.unique_id, device]));
  const rows = document.peaks
    .filter((peak) => peak.memory in CHARTS)
    .map((peak) => ({ ...peak, of: names.get(peak.device) }));
  const go = (row) => {
    board.choose(row.of.index);
    view.reveal(row.time);
  };
  const columns = [
    { title: "device", value: (row) => row.of.index, cell: (row) => deviceName(row.of) },
    { title: "memory", value: (row) => CHARTS[row.memory].label },
    { title: "peak", number: true, value: (row) => row.bytes, cell: (row) => bytes(row.bytes) },
    { title: "of capacity", number: true, value: (row) => row.bytes / (row.of.capacity[row.memory] ?? Infinity), cell: (row) => meter(row.bytes, row.of.capacity[row.memory]) },
    { title: "when", number: true, value: (row) => row.time, cell: (row) => element("button.link", { onclick: () => go(row), title: "show what was alive" }, clock(row.time)) },
    { title: "largest holders", value: () => null, cell: (row) => holdersAt(history, row) },
  ];
  const table = dataTable(columns, rows, { order: 3, first: 8, texts: (row) => [deviceName(row.of), CHARTS[row.memory].label], empty: "nothing was allocated" });
  table.id = "peaks-table";
  return section("peaks", "Peaks", "The most that was held at one time. The capacity is what can be allocated.", table);
}

function holdersAt(history, row) {
  const [most] = [history.holders(row.of, row.time, row.memory, "site").slice(0, 3)];
  return element("span.holders", {}, ...most.map((one) => element("span", { title: one.name }, `${human(one.bytes)} ${shortSite(one.name)}`)));
}

function meter(value, whole) {
  if (!whole) return element("span.faint", {}, "N/A");
  const bar = element("i.bar");
  bar.style.width = `${Math.min(100, (100 * value) / whole)}%`;
  return element("span.meter", { title: `${exact(value)} of ${exact(whole)} B` }, element("span.track", {}, bar), share(value, whole));
}

export function failuresSection(board) {
  const { history, view } = board;
  const failures = history.document.failures ?? [];
  const unknown = history.document.failures_unknown;
  if (!failures.length) return section("failures", "Failed allocations", null, element("p", {}, unknown ? `Unknown: ${unknown}.` : "No allocation failed."));
  const cards = failures.map((one) =>
    element(
      "article.failure",
      {},
      element("h3", {}, one.headline, " ", element("button.link", { onclick: () => view.reveal(one.time) }, clock(one.time))),
      element("dl", {}, ...one.facts.flatMap(([label, value]) => [element("dt", {}, label), element("dd", {}, value)])),
    ),
  );
  return section("failures", `Failed allocations (${exact(failures.length)})`, null, ...cards);
}

/** Verdicts and advice: lists that say where they come from, or why there are none. */
export function answersSection(id, title, answer, columns) {
  if (!answer) return null;
  const children = [];
  if (answer.refused) children.push(element("p.note", {}, answer.refused));
  if (answer.about) children.push(element("p.about", {}, answer.about));
  if (answer.rows?.length) children.push(dataTable(columns, answer.rows, { order: null }));
  else if (!answer.refused) children.push(element("p", {}, answer.none));
  for (const note of answer.notes ?? []) children.push(element("p.about", {}, note));
  return section(id, title, null, ...children);
}

export function programsSection({ history }) {
  const rows = history.document.programs;
  const count = (key) => ({ number: true, value: (row) => row[key] });
  const table = dataTable(
    [
      { title: "dispatches", ...count("dispatches") },
      { title: "cache hits", ...count("hits") },
      { title: "misses", ...count("misses") },
      { title: "programs", ...count("programs") },
      { title: "kernels", ...count("kernels") },
      { title: "binaries", number: true, value: (row) => row.binaries, cell: (row) => bytes(row.binaries) },
      { title: "CBs on a core", number: true, value: (row) => row.per_core, cell: (row) => (row.per_core === null ? element("span.faint", {}, "N/A") : bytes(row.per_core)) },
      { title: "operation", value: (row) => row.op },
      { title: "call site", value: (row) => row.site, cell: (row) => site(row.site) },
    ],
    rows,
    { texts: (row) => [row.op, row.site], empty: "no program was reported" },
  );
  return section("programs", "Programs, kernels and cache hits", "Of all devices together, in the whole run. Programs count if they had kernels or circular buffers, or ran. Dispatches that are neither hit nor miss were replayed from a trace. Binaries count one copy of each kernel.", table);
}

export function sitesSection({ history }) {
  const label = (row) => LABELS[KINDS[row.kind]];
  const table = dataTable(
    [
      { title: "most at once", number: true, value: (row) => row.peak, cell: (row) => bytes(row.peak) },
      { title: "not freed", number: true, value: (row) => row.at_end, cell: (row) => bytes(row.at_end) },
      { title: "allocated in all", number: true, value: (row) => row.allocated, cell: (row) => bytes(row.allocated) },
      { title: "allocations", number: true, value: (row) => row.allocations },
      { title: "largest", number: true, value: (row) => row.largest, cell: (row) => bytes(row.largest) },
      { title: "mean lifetime", number: true, value: (row) => row.lifetime, cell: (row) => duration(row.lifetime) },
      { title: "memory", value: label },
      { title: "operation", value: (row) => history.text(row.op) },
      { title: "call site", value: (row) => history.text(row.site), cell: (row) => site(history.text(row.site)) },
    ],
    history.document.sites,
    { texts: (row) => [history.text(row.site), history.text(row.op), label(row)], empty: "no buffer was allocated" },
  );
  table.id = "sites-table";
  return section("sites", "Call sites", "Of all devices together; a mesh of four chips counts each buffer four times. Not freed: alive when the recording ended, or never freed by a program that had ended.", table);
}

export function lossesSection({ history }) {
  const { losses, sums_only: sumsOnly, remarks, about, buffers, buffers_listed: listed, markers_omitted: marks, circular_omitted: circular } = history.document;
  const items = [];
  if (losses.length) items.push(`Events are missing: ${losses.join("; ")}. Figures after a gap may be wrong, and no verdicts are given.`);
  else if (!about.unfinished) items.push("No event was lost: every allocation and free that was reported is in this recording.");
  if (!about.closed && !about.unfinished) items.push("The recording was still being written.");
  if (sumsOnly.length) items.push(`Of ${sumsOnly.map((pid) => `pid ${pid}`).join(", ")} only the counters of the runtime are known: they are not in the charts.`);
  if (listed < buffers) items.push(`This page lists ${exact(listed)} of ${exact(buffers)} buffers one by one: all around peaks, failures and marks, elsewhere the largest. The others are in all sums. \`ttmem ps FILE --at\` and \`ttmem export\` have everything.`);
  if (circular) items.push(`${exact(circular)} short-lived circular buffers are not drawn in the address map.`);
  if (marks) items.push(`${exact(marks)} further markers are left out.`);
  for (const device of history.devices) for (const text of device.misses) items.push(`${deviceName(device)}: ${text}`);
  items.push(...remarks);
  return section("losses", "What is missing", null, element("ul", {}, ...[...new Set(items)].map((item) => element("li", {}, item))));
}

const MEANINGS = [
  ["held", "Reserved bytes where they are known, else requested ones. All totals of this page are held bytes."],
  ["requested, reserved", "What the program requested, and what the allocator took: the same block in every bank, because allocation is in lock-step."],
  ["DRAM, L1, L1_SMALL, TRACE", "Live buffers of that kind of memory."],
  ["circular buffers", "The union of the address ranges of all live programs, core by core: what programs in the cache take when they run. Dataflow buffers are included."],
  ["L1 used", "L1 + L1_SMALL + circular buffers."],
  ["capacity", "What can be allocated: L1 above firmware and kernel ring, DRAM above its reserved part."],
  ["peak", "The first time at which the most was held."],
  ["cursor", "Everything that is shown at the cursor is the state after the last event up to that time; the terminal command above gives the same figures."],
  ["sample", "Where a run is too long to be in the page as a whole: an instant with the highest total of its part of the run. The cursor stays on samples there."],
  ["distance to a clash", "From the end of the circular buffers of the program dispatched last to the lowest L1 buffer. A program that needs more fails."],
  ["N/A", "Not known. Nothing on this page is 0 because it is unknown."],
];

export function meaningsSection() {
  return section("meanings", "What the numbers mean", null, element("dl.meanings", {}, ...MEANINGS.flatMap(([term, text]) => [element("dt", {}, term), element("dd", {}, text)])));
}

/** All devices side by side; a click chooses one. */
export class DeviceStrip {
  constructor(board) {
    this.board = board;
    this.pictures = board.history.devices.map((device) => new Picture((context, width, height) => this.draw(device, context, width, height)));
    this.buttons = board.history.devices.map((device, index) =>
      element("button.device", { onclick: () => board.choose(index), title: device.unique_id }, element("span", {}, deviceName(device)), this.pictures[index].canvas),
    );
    this.element = element("div.devices", { role: "group", "aria-label": "devices" }, ...this.buttons);
    this.element.hidden = board.history.devices.length < 2;
  }

  paint() {
    this.buttons.forEach((button, index) => button.setAttribute("aria-pressed", String(index === this.board.device.index)));
    this.pictures.forEach((picture) => picture.paint());
  }

  draw(device, context, width, height) {
    const { history, colours } = this.board;
    ["dram", "l1_used"].forEach((chart, number) => {
      const most = Math.max(...history.devices.map((one) => history.highest(one, chart)));
      if (!most) return;
      const { high } = history.outline(device, chart, ...history.busy, Math.floor(width));
      const half = height / 2 - 1;
      context.fillStyle = colours.groups[number === 0 ? 0 : 2];
      context.globalAlpha = 0.7;
      for (let x = 0; x < high.length; x += 1) {
        const tall = (high[x] / most) * half;
        context.fillRect(x, (number + 1) * (height / 2) - tall, 1, tall);
      }
    });
    context.globalAlpha = 1;
  }
}
