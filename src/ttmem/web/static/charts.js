// Charts over time: stacked totals, the address map, and the overview with its brush.

import { byteTicks, clock, exact, hex, human, share, shortSite, ticks } from "./sizes.js";
import { CHARTS, CIRCULAR, KINDS, LABELS, OTHERS } from "./history.js";
import { circularSpans, gaps, reach, rectangles } from "./addresses.js";
import { Picture, element, once, theme } from "./elements.js";

const GUTTER = 68; // pixels for the labels of the vertical axis
const EDGE = 10; // on the right
const STRIP = 18; // for phases, above a chart
const AXIS = 20; // for times, below it
const VEILED = 24; // columns without a sample, from which on that is shown
const LISTED = 7; // holders in the tooltip

/** What all charts of a page share: the window, the theme, and how the mouse and the keys move them. */
export class Board {
  constructor(history, view) {
    this.history = history;
    this.view = view;
    this.device = history.devices[0] ?? null;
    this.dimension = "site";
    this.clock = clock; // how times are written
    this.charts = [];
    this.tooltip = element("div.tooltip", { role: "status", hidden: true });
    this.colours = theme();
    this.hidden = new Set(); // elements that are far from the screen: drawn when they come near
    this.observer = new IntersectionObserver((entries) => this.notice(entries), { rootMargin: "300px" });
    this.redraw = once(() => this.charts.forEach((chart) => this.paint(chart)));
    this.recursor = once(() => this.charts.forEach((chart) => this.hidden.has(chart.element) || chart.paintCursor()));
    view.watch((what) => (what === "view" ? this.redraw() : this.recursor()));
  }

  add(chart) {
    this.charts.push(chart);
    this.observer.observe(chart.element);
    return chart;
  }

  paint(chart) {
    chart.stale = this.hidden.has(chart.element);
    if (!chart.stale) chart.paint();
  }

  notice(entries) {
    for (const { target, isIntersecting } of entries) {
      if (isIntersecting) this.hidden.delete(target);
      else this.hidden.add(target);
    }
    for (const chart of this.charts) if (chart.stale) this.paint(chart);
  }

  /** For paper, where everything is in sight. */
  paintAll() {
    for (const chart of this.charts) chart.paint();
  }

  remove(charts) {
    for (const chart of charts) this.observer.unobserve(chart.element);
    this.charts = this.charts.filter((chart) => !charts.includes(chart));
  }

  retheme() {
    this.colours = theme();
    this.redraw();
  }

  colour(name, number) {
    if (name === CIRCULAR) return this.colours.circular;
    if (name === OTHERS) return this.colours.others;
    if (this.dimension === "kind") return kindColour(this.colours, name);
    return this.colours.groups[number % this.colours.groups.length];
  }
}

/** Of a kind of memory, by its label. */
export function kindColour(colours, label) {
  return label === LABELS.cb ? colours.circular : colours.kinds[KINDS.findIndex((kind) => LABELS[kind] === label)];
}

/** A canvas over time with a cursor on top of it. Subclasses draw into the plot. */
export class TimeChart {
  constructor(board, label, height) {
    this.board = board;
    this.picture = new Picture((context, width, tall) => this.drawAll(context, width, tall));
    this.cursor = new Picture((context, width, tall) => this.drawCursor(context, width, tall));
    this.dragged = null; // the time at which a brush began
    this.element = element(
      "div.chart",
      { tabindex: 0, role: "group", "aria-label": `${label}. Arrow keys move the cursor, plus and minus zoom, 0 shows all.` },
      this.picture.canvas,
      this.cursor.canvas,
    );
    this.element.style.height = `${height}px`;
    listen(this);
  }

  plot(width, height) {
    return { left: GUTTER, right: width - EDGE, top: STRIP, bottom: height - AXIS, width: Math.max(1, Math.floor(width - EDGE - GUTTER)), height: height - AXIS - STRIP };
  }

  timeAt(x) {
    const { view } = this.board;
    const area = this.plot(this.picture.width, this.picture.height);
    return view.start + ((x - area.left) / area.width) * view.span;
  }

  xAt(time, area) {
    const { view } = this.board;
    return area.left + ((time - view.start) / view.span) * area.width;
  }

  paint() {
    this.picture.paint();
    this.cursor.paint();
  }

  paintCursor() {
    this.cursor.paint();
  }

  drawAll(context, width, height) {
    const area = this.plot(width, height);
    context.font = "11px system-ui, sans-serif";
    this.drawTimes(context, area);
    context.save();
    context.beginPath();
    context.rect(area.left, 0, area.width, height);
    context.clip();
    this.drawPlot(context, area);
    this.drawMarkers(context, area);
    context.restore();
    this.drawScale(context, area);
  }

  drawTimes(context, area) {
    const { view, colours } = this.board;
    const { step, values } = ticks(view.start, view.end, Math.max(2, Math.floor(area.width / 110)));
    context.fillStyle = colours.faint;
    context.strokeStyle = colours.line;
    context.textAlign = "center";
    context.textBaseline = "top";
    context.beginPath();
    for (const time of values) {
      const x = Math.round(this.xAt(time, area)) + 0.5;
      context.moveTo(x, area.top);
      context.lineTo(x, area.bottom);
      if (x > area.left + 12 && x < area.right - 24) context.fillText(this.board.clock(time, step), x, area.bottom + 5);
    }
    context.stroke();
  }

  /** Phases as a strip above, failures and marks as lines. */
  drawMarkers(context, area) {
    const { history, view, colours, device } = this.board;
    context.textBaseline = "middle";
    context.textAlign = "left";
    for (const { name, from, until, number } of history.phases) {
      if (until < view.start || from > view.end) continue;
      const [x, end] = [Math.max(area.left, this.xAt(from, area)), Math.min(area.right, this.xAt(until, area))];
      context.globalAlpha = 0.28;
      context.fillStyle = colours.groups[number % colours.groups.length];
      context.fillRect(x, 2, Math.max(1, end - x - 1), STRIP - 6);
      context.globalAlpha = 1;
      if (end - x > 34) {
        context.fillStyle = colours.ink;
        context.fillText(fitted(context, name, end - x - 8), x + 4, STRIP / 2 - 0.5);
      }
    }
    for (const marker of history.document.markers) {
      const failed = marker.kind === "failure";
      if (!failed && marker.kind !== "mark") continue;
      if (failed && marker.device && marker.device !== device.unique_id) continue;
      if (marker.time < view.start || marker.time > view.end) continue;
      const x = Math.round(this.xAt(marker.time, area)) + 0.5;
      context.strokeStyle = failed ? colours.alarm : colours.accent;
      context.fillStyle = context.strokeStyle;
      context.setLineDash(failed ? [] : [3, 3]);
      context.beginPath();
      context.moveTo(x, STRIP - 2);
      context.lineTo(x, area.bottom);
      context.stroke();
      context.setLineDash([]);
      context.beginPath();
      context.moveTo(x - 4, STRIP - 6);
      context.lineTo(x + 4, STRIP - 6);
      context.lineTo(x, STRIP + 1);
      context.fill();
    }
  }

  drawScale() {}

  drawPlot() {}

  drawCursor(context, width, height) {
    const { view, colours } = this.board;
    const area = this.plot(width, height);
    if (this.dragged !== null && this.brushed !== null) {
      const [from, until] = [this.dragged, this.brushed].sort((a, b) => a - b).map((time) => this.xAt(time, area));
      context.globalAlpha = 0.16;
      context.fillStyle = colours.accent;
      context.fillRect(from, area.top, until - from, area.height);
      context.globalAlpha = 1;
    }
    if (view.cursor < view.start || view.cursor > view.end) return;
    const x = Math.round(this.xAt(view.cursor, area)) + 0.5;
    context.strokeStyle = colours.ink;
    context.globalAlpha = view.pinned ? 0.9 : 0.5;
    context.beginPath();
    context.moveTo(x, area.top - 4);
    context.lineTo(x, area.bottom);
    context.stroke();
    context.globalAlpha = 1;
  }
}

/** Mouse, touch and keys of a chart. */
function listen(chart) {
  const { element: place, board } = chart;
  const { view } = board;
  const local = (event) => event.clientX - place.getBoundingClientRect().left;
  const snapped = (time) => board.history.snap(board.device, Math.max(0, Math.min(view.length, time)));
  place.addEventListener("pointermove", (event) => {
    const time = chart.timeAt(local(event));
    if (chart.dragged !== null && event.buttons) {
      chart.brushed = time;
      chart.paintCursor();
      return;
    }
    if (event.pointerType !== "mouse" || !view.pinned) view.moveTo(snapped(time), view.pinned);
    chart.explain?.(event, view.pinned ? snapped(time) : view.cursor);
  });
  place.addEventListener("pointerdown", (event) => {
    if (event.button !== 0) return;
    chart.dragged = event.pointerType === "mouse" ? chart.timeAt(local(event)) : null;
    chart.brushed = null;
    place.setPointerCapture(event.pointerId);
    if (event.pointerType !== "mouse") view.moveTo(snapped(chart.timeAt(local(event))), true);
  });
  place.addEventListener("pointerup", (event) => {
    const [from, until] = [chart.dragged, chart.brushed];
    chart.dragged = chart.brushed = null;
    if (from !== null && until !== null && Math.abs(until - from) > view.span / 150) {
      view.show(Math.min(from, until), Math.max(from, until));
    } else if (from !== null) {
      view.moveTo(snapped(chart.timeAt(local(event))), true);
    }
    chart.paintCursor();
  });
  place.addEventListener("pointercancel", () => {
    chart.dragged = chart.brushed = null;
    chart.paintCursor();
  });
  place.addEventListener("pointerleave", () => (board.tooltip.hidden = true));
  place.addEventListener("dblclick", () => view.showAll());
  place.addEventListener(
    "wheel",
    (event) => {
      const sideways = event.shiftKey ? event.deltaY || event.deltaX : event.deltaX;
      if (event.ctrlKey || event.metaKey || event.altKey) view.zoom(Math.exp(event.deltaY / 300), chart.timeAt(local(event)));
      else if (Math.abs(sideways) > Math.abs(event.shiftKey ? 0 : event.deltaY)) view.pan((sideways / chart.picture.width) * view.span);
      else return; // the page scrolls
      event.preventDefault();
    },
    { passive: false },
  );
  place.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const far = event.shiftKey ? 20 : 1;
    const to = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    if (to && far === 1) view.reveal(board.history.neighbour(board.device, view.cursor, to));
    else if (to) view.reveal(snapped(view.cursor + (to * view.span) / 20));
    else if (event.key === "Home") view.reveal(0);
    else if (event.key === "End") view.reveal(view.length);
    else if (event.key === "+" || event.key === "=") view.zoom(0.6);
    else if (event.key === "-") view.zoom(1 / 0.6);
    else if (event.key === "0") view.showAll();
    else if (event.key === "Escape") view.moveTo(view.cursor, false);
    else return;
    event.preventDefault();
  });
}

/** Bytes of one memory over time, stacked. */
export class Timeline extends TimeChart {
  constructor(board, chart) {
    const { label } = CHARTS[chart];
    super(board, `${label} over time`, 190);
    this.chart = chart;
    this.legend = element("div.legend");
    this.section = element("figure.timeline", { "data-chart": chart }, this.caption(), this.element, this.legend);
    this.fillLegend();
  }

  caption() {
    const { device, history } = this.board;
    const peak = history.document.peaks.find((one) => one.device === device.unique_id && one.memory === this.chart);
    const capacity = device.capacity[this.chart];
    const parts = [element("strong", {}, CHARTS[this.chart].label)];
    if (peak) {
      const text = `peak ${human(peak.bytes)}${capacity ? ` of ${human(capacity)} (${share(peak.bytes, capacity)})` : ""}`;
      const jump = () => this.board.view.reveal(peak.time);
      parts.push(element("button.link", { title: `${exact(peak.bytes)} B; go there`, onclick: jump }, `${text} at ${this.board.clock(peak.time)}`));
    }
    return element("figcaption", {}, ...parts);
  }

  /** After the history of the board has grown. */
  update() {
    const made = this.caption();
    if (made.textContent !== this.section.firstChild.textContent) this.section.firstChild.replaceWith(made);
  }

  fillLegend() {
    const { history, device, dimension } = this.board;
    const { names, others } = history.legend(device, this.chart, dimension);
    this.legend.replaceChildren(
      ...names.map((name, number) => {
        const swatch = element("i.swatch");
        swatch.style.background = this.board.colour(name, number);
        const text = name === OTHERS ? `${exact(others)} others` : dimension === "site" ? shortSite(name) : name;
        return element("span.key", { title: name }, swatch, text);
      }),
    );
  }

  get top() {
    const { history, device } = this.board;
    const [most, capacity] = [history.highest(device, this.chart), device.capacity[this.chart]];
    if (!most) return capacity || 1;
    return capacity && most >= 0.4 * capacity ? Math.max(capacity, most) * 1.06 : most * 1.12;
  }

  drawPlot(context, area) {
    const { history, device, dimension, view } = this.board;
    const top = this.top;
    const y = (value) => area.bottom - (value / top) * area.height;
    const made = history.columns(device, this.chart, dimension, view.start, view.end, area.width);
    const low = drawStack(context, area, made, y, (name, group) => this.board.colour(name, group));
    this.drawOutline(context, area, y, made.known, low);
    this.drawCapacity(context, area, y, top);
    this.drawPeak(context, area, y);
  }

  /**
   * The exact highest totals. Where events are left out, the space up to them is what the last sample did not hold, and nothing is
   * drawn above them; a veil lies over long stretches without a sample.
   */
  drawOutline(context, area, y, known, stacked) {
    const { history, device, view, colours } = this.board;
    const { high } = history.outline(device, this.chart, view.start, view.end, area.width);
    for (let column = 0; column < area.width; column += 1) {
      if (known[column] || high[column] === stacked[column]) continue;
      const more = high[column] > stacked[column];
      context.globalAlpha = more ? 0.5 : 1;
      context.fillStyle = more ? colours.others : colours.ground;
      const top = y(Math.max(high[column], stacked[column]));
      context.fillRect(area.left + column, top, 1, y(Math.min(high[column], stacked[column])) - top);
    }
    context.strokeStyle = colours.ink;
    context.globalAlpha = 0.55;
    context.beginPath();
    trace(context, high, area.left, y, false);
    context.stroke();
    context.globalAlpha = 0.35;
    context.fillStyle = colours.ground;
    for (const [from, until] of runs(known, 0)) {
      if (until - from >= VEILED) context.fillRect(area.left + from, area.top, until - from, area.height);
    }
    context.globalAlpha = 1;
  }

  drawCapacity(context, area, y, top) {
    const { colours, device } = this.board;
    const capacity = device.capacity[this.chart];
    if (!capacity || capacity > top) return;
    context.strokeStyle = colours.alarm;
    context.setLineDash([6, 4]);
    context.beginPath();
    context.moveTo(area.left, Math.round(y(capacity)) + 0.5);
    context.lineTo(area.right, Math.round(y(capacity)) + 0.5);
    context.stroke();
    context.setLineDash([]);
    context.fillStyle = colours.alarm;
    context.textAlign = "right";
    const above = y(capacity) - area.top > 15;
    context.textBaseline = above ? "bottom" : "top";
    const text = `capacity ${human(capacity)}`;
    const [width, at] = [context.measureText(text).width, y(capacity) + (above ? -3 : 3)];
    context.fillStyle = colours.ground; // readable over an area, too
    context.fillRect(area.right - width - 8, above ? at - 13 : at - 1, width + 8, 14);
    context.fillStyle = colours.alarm;
    context.fillText(text, area.right - 4, at);
  }

  drawPeak(context, area, y) {
    const { history, device, view, colours } = this.board;
    const peak = history.document.peaks.find((one) => one.device === device.unique_id && one.memory === this.chart);
    if (!peak || peak.time < view.start || peak.time > view.end) return;
    const [x, at] = [this.xAt(peak.time, area), y(peak.bytes)];
    context.fillStyle = colours.ink;
    context.beginPath();
    context.arc(x, at, 3.5, 0, 7);
    context.fill();
  }

  drawScale(context, area) {
    const { colours } = this.board;
    const top = this.top;
    context.fillStyle = colours.faint;
    context.strokeStyle = colours.line;
    context.textAlign = "right";
    context.textBaseline = "middle";
    for (const value of byteTicks(top, 4).values) {
      const at = area.bottom - (value / top) * area.height;
      context.fillText(human(value), area.left - 8, at);
    }
  }

  explain(event, time) {
    const { history, device, dimension, tooltip, view } = this.board;
    const totals = history.totals(device, time);
    const rows = history.holders(device, time, this.chart, dimension);
    const value = totals?.[this.chart] ?? 0;
    const listed = rows.slice(0, LISTED).map((row) =>
      element("tr", {}, element("td", {}, human(row.bytes)), element("td", {}, dimension === "site" ? shortSite(row.name) : row.name)),
    );
    const more = rows.length - listed.length;
    tooltip.replaceChildren(
      element("div", {}, element("b", {}, `${CHARTS[this.chart].label} ${human(value)}`), ` at ${this.board.clock(time, view.span / 1000)}`),
      element("table", {}, ...listed),
      ...(more > 0 ? [element("div.faint", {}, `and ${exact(more)} more`)] : []),
      ...(history.isComplete(time) ? [] : [element("div.faint", {}, "the nearest sample; small buffers are summed")]),
    );
    place(tooltip, event);
  }
}

/** Groups on top of one another, the first one uppermost; the heights that they reach together. */
export function drawStack(context, area, { names, groups, sums }, y, colour) {
  const low = new Float64Array(area.width);
  const high = new Float64Array(area.width);
  for (let group = groups - 1; group >= 0; group -= 1) {
    for (let column = 0; column < area.width; column += 1) high[column] = low[column] + sums[column * groups + group];
    context.fillStyle = colour(names[group], group);
    context.beginPath();
    trace(context, high, area.left, y, false);
    trace(context, low, area.left, y, true);
    context.fill();
    low.set(high);
  }
  return low;
}

/** [[from, until], ...] where an array has a value. */
function runs(values, wanted) {
  const found = [];
  for (let at = 0; at < values.length; at += 1) {
    if (values[at] !== wanted) continue;
    const from = at;
    while (at < values.length && values[at] === wanted) at += 1;
    found.push([from, at]);
  }
  return found;
}

/** Steps, not slopes: a value holds until the next. Only its changes are points, because points cost time. */
function trace(context, values, left, y, back) {
  const count = values.length;
  const end = (column) => left + column + (back ? 0 : 1);
  for (let at = 0; at < count; ) {
    const column = back ? count - 1 - at : at;
    const value = values[column];
    const height = y(value);
    context.lineTo(left + column + (back ? 1 : 0), height);
    let last = column;
    for (at += 1; at < count && values[back ? count - 1 - at : at] === value; at += 1) last = back ? count - 1 - at : at;
    context.lineTo(end(last), height);
  }
}

export function place(tooltip, event) {
  tooltip.hidden = false;
  const [width, height] = [tooltip.offsetWidth, tooltip.offsetHeight];
  const right = event.clientX + 16 + width < innerWidth;
  tooltip.style.left = `${Math.max(4, right ? event.clientX + 16 : event.clientX - width - 16)}px`;
  tooltip.style.top = `${Math.max(4, Math.min(event.clientY + 12, innerHeight - height - 8))}px`;
}

/** Each buffer a rectangle of time and address. */
export class AddressMap extends TimeChart {
  constructor(board) {
    super(board, "Addresses over time", 320);
    this.kind = 1;
    this.shown = [];
  }

  get name() {
    return KINDS[this.kind];
  }

  get range() {
    const { device } = this.board;
    return reach(device, this.kind, this.name);
  }

  drawPlot(context, area) {
    const { board, name } = this;
    const { history, device, view, dimension } = board;
    const range = this.range;
    this.shown = [];
    if (!range) return;
    const chart = name === "l1" ? "l1_used" : name;
    const { of, names } = history.legend(device, chart, dimension);
    const y = (address) => area.top + ((range[1] - address) / (range[1] - range[0])) * area.height;
    if (name === "l1") this.drawCircular(context, area, y);
    const size = { width: area.width, height: Math.floor(area.height) };
    this.shown = rectangles(device, this.kind, name, view, size, range);
    const { origin } = device.buffers;
    const grouped = names.map(() => []);
    for (const one of this.shown) grouped[of[origin[one.row]]]?.push(one);
    for (let group = 0; group < names.length; group += 1) {
      context.fillStyle = board.colour(names[group], group);
      for (const one of grouped[group]) {
        const [thin, flat] = [one.width > 3 ? 0.5 : 0, one.height > 3 ? 0.5 : 0];
        context.fillRect(area.left + one.x, area.top + one.y, one.width - thin, one.height - flat);
      }
    }
    if (name === "l1") this.drawFrontier(context, area, y);
  }

  /** Circular buffers of cached programs, from below. */
  drawCircular(context, area, y) {
    const { device, view, colours } = this.board;
    context.fillStyle = colours.circular;
    context.globalAlpha = 0.35;
    if (this.spansOf !== device) {
      this.spansOf = device;
      this.spans = circularSpans(device, view.length);
    }
    for (const { from, until, spans } of this.spans) {
      const [top, bottom] = [Math.round(y(until)), Math.round(y(from))];
      for (const [start, end] of spans) {
        if (end < view.start || start > view.end) continue;
        const x = Math.max(area.left, this.xAt(start, area));
        context.fillRect(x, top, Math.max(1, Math.min(area.right, this.xAt(end, area)) - x), Math.max(1, bottom - top));
      }
    }
    context.globalAlpha = 1;
  }

  /** How far the program dispatched last reaches up. */
  drawFrontier(context, area, y) {
    const { device, view, colours } = this.board;
    const { frontier } = device;
    context.strokeStyle = colours.alarm;
    context.beginPath();
    let column = -2;
    let highest = 0;
    for (let row = 0; row < frontier.rows && frontier.time[row] <= view.end; row += 1) {
      const until = row + 1 < frontier.rows ? frontier.time[row + 1] : view.end;
      if (until < view.start || frontier.reached[row] < 0) continue;
      const [x, end] = [Math.max(area.left, this.xAt(frontier.time[row], area)), Math.min(area.right, this.xAt(until, area))];
      if (Math.floor(x) === column && frontier.reached[row] <= highest) continue;
      highest = Math.floor(x) === column ? Math.max(highest, frontier.reached[row]) : frontier.reached[row];
      column = Math.floor(x);
      const height = y(frontier.reached[row]);
      context.moveTo(x, height);
      context.lineTo(Math.max(end, x + 1), height);
    }
    context.stroke();
  }

  drawScale(context, area) {
    const range = this.range;
    const { colours } = this.board;
    context.fillStyle = colours.faint;
    if (!range) {
      context.textAlign = "center";
      context.textBaseline = "middle";
      context.fillText("no addresses are known", (area.left + area.right) / 2, (area.top + area.bottom) / 2);
      return;
    }
    context.textAlign = "right";
    context.textBaseline = "middle";
    const { step } = byteTicks(range[1] - range[0], 6);
    const y = (address) => area.top + ((range[1] - address) / (range[1] - range[0])) * area.height;
    let last = Infinity;
    for (const address of [range[0], ...round(range, step), range[1]]) {
      const at = y(address);
      if (Math.abs(last - at) < 14) continue;
      context.fillText(hex(address), area.left - 6, at);
      last = at;
    }
  }

  explain(event, time) {
    const { board, name } = this;
    const { history, device, tooltip } = board;
    const box = this.element.getBoundingClientRect();
    const area = this.plot(this.picture.width, this.picture.height);
    const [x, y] = [event.clientX - box.left - area.left, event.clientY - box.top - area.top];
    const hit = this.shown.findLast((one) => one.x <= x && x <= one.x + one.width && one.y <= y && y <= one.y + one.height);
    const lines = [];
    if (hit) {
      const { buffers } = device;
      const { op, site, phase, process } = history.origin(buffers.origin[hit.row]);
      const per = device.banks[name] ? `, ${human(Math.ceil(buffers.held[hit.row] / device.banks[name]))} in each bank` : "";
      lines.push(element("div", {}, element("b", {}, `${LABELS[name]} ${human(buffers.held[hit.row])}`), `${per} at ${hex(buffers.address[hit.row])}`));
      for (const text of [op, site, phase && `phase ${phase}`, process && `pid ${process.pid}`]) if (text) lines.push(element("div", {}, text));
      const end = buffers.end[hit.row];
      lines.push(element("div.faint", {}, `${clock(buffers.start[hit.row])} to ${end < 0 ? "the end" : clock(end)}`));
    } else {
      const range = this.range;
      if (!range) return;
      const address = range[1] - (y / area.height) * (range[1] - range[0]);
      const free = gaps(history, device, this.kind, name, time, range).find(([from, until]) => from <= address && address < until);
      lines.push(element("div", {}, free && history.isComplete(time) ? `free: ${human(free[1] - free[0])} from ${hex(free[0])}` : hex(Math.max(0, Math.round(address)))));
    }
    tooltip.replaceChildren(...lines);
    place(tooltip, event);
  }
}

function round(range, step) {
  const found = [];
  for (let at = Math.ceil(range[0] / step) * step; at < range[1]; at += step) found.push(at);
  return found;
}

/** The whole run, and the part of it that the charts show. */
export class Overview {
  constructor(board) {
    this.board = board;
    this.picture = new Picture((context, width, height) => this.draw(context, width, height));
    this.element = element("div.overview", { tabindex: 0, role: "slider", "aria-label": "The visible part of the run", "aria-valuemin": 0, "aria-valuemax": 100 }, this.picture.canvas);
    this.listen();
  }

  paint() {
    this.picture.paint();
    const { view } = this.board;
    this.element.setAttribute("aria-valuenow", String(Math.round((100 * view.start) / view.length)));
    this.element.setAttribute("aria-valuetext", `${clock(view.start)} to ${clock(view.end)}`);
  }

  paintCursor() {
    this.paint();
  }

  draw(context, width, height) {
    const { history, device, view, colours } = this.board;
    const area = { left: GUTTER, width: Math.floor(width - GUTTER - EDGE) };
    const charts = ["dram", "l1_used"];
    if (this.drawnFor !== device || this.drawnWidth !== area.width) {
      [this.drawnFor, this.drawnWidth] = [device, area.width];
      this.outlines = charts.map((chart) => history.outline(device, chart, 0, view.length, Math.max(1, area.width)));
    }
    charts.forEach((chart, number) => {
      const most = history.highest(device, chart);
      if (!most) return;
      const { high } = this.outlines[number];
      const half = height / 2 - 3;
      const bottom = (number + 1) * (height / 2) - 1;
      context.fillStyle = colours.groups[number === 0 ? 0 : 2];
      context.globalAlpha = 0.5;
      context.beginPath();
      context.moveTo(area.left, bottom);
      trace(context, high, area.left, (value) => bottom - (value / most) * half, false);
      context.lineTo(area.left + area.width, bottom);
      context.fill();
      context.globalAlpha = 1;
      context.font = "10px system-ui, sans-serif";
      context.fillStyle = colours.faint;
      context.textAlign = "right";
      context.textBaseline = "middle";
      context.fillText(CHARTS[chart].label, area.left - 8, bottom - half / 2);
    });
    const x = (time) => area.left + (time / view.length) * area.width;
    context.fillStyle = colours.ground;
    context.globalAlpha = 0.65;
    context.fillRect(area.left, 0, x(view.start) - area.left, height);
    context.fillRect(x(view.end), 0, area.left + area.width - x(view.end), height);
    context.globalAlpha = 1;
    context.strokeStyle = colours.accent;
    context.strokeRect(x(view.start) + 0.5, 0.5, Math.max(2, x(view.end) - x(view.start) - 1), height - 1);
    context.strokeStyle = colours.ink;
    context.beginPath();
    context.moveTo(x(view.cursor), 0);
    context.lineTo(x(view.cursor), height);
    context.stroke();
  }

  listen() {
    const { view } = this.board;
    const place = this.element;
    const timeAt = (event) => {
      const box = place.getBoundingClientRect();
      return ((event.clientX - box.left - GUTTER) / (box.width - GUTTER - EDGE)) * view.length;
    };
    let grip = null; // where the window was taken
    place.addEventListener("pointerdown", (event) => {
      const time = timeAt(event);
      place.setPointerCapture(event.pointerId);
      const near = (view.length * 6) / Math.max(1, this.picture.width);
      if (Math.abs(time - view.start) < near) grip = (to) => view.show(Math.min(to, view.end - 1), view.end);
      else if (Math.abs(time - view.end) < near) grip = (to) => view.show(view.start, Math.max(to, view.start + 1));
      else {
        if (time < view.start || time > view.end) view.show(time - view.span / 2, time + view.span / 2);
        const offset = time - view.start;
        grip = (to) => view.show(to - offset, to - offset + view.span);
      }
    });
    place.addEventListener("pointermove", (event) => {
      if (grip && event.buttons) grip(timeAt(event));
    });
    for (const name of ["pointerup", "pointercancel"]) place.addEventListener(name, () => (grip = null));
    place.addEventListener("keydown", (event) => {
      const to = { ArrowLeft: -0.1, ArrowRight: 0.1, PageUp: -1, PageDown: 1 }[event.key];
      if (to) view.pan(to * view.span);
      else if (event.key === "+" || event.key === "=") view.zoom(0.6);
      else if (event.key === "-") view.zoom(1 / 0.6);
      else if (event.key === "0") view.showAll();
      else return;
      event.preventDefault();
    });
  }
}

export function fitted(context, text, width) {
  if (context.measureText(text).width <= width) return text;
  let [low, high] = [0, text.length];
  while (low < high) {
    const middle = (low + high + 1) >> 1;
    if (context.measureText(`${text.slice(0, middle)}…`).width <= width) low = middle;
    else high = middle - 1;
  }
  return low ? `${text.slice(0, low)}…` : "";
}
