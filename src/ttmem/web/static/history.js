// What was alive when: the tables of a page, asked for an instant or for the columns of a chart. Nothing here draws.

export const KINDS = ["dram", "l1", "l1_small", "trace"]; // as numbered in the table of buffers
export const LABELS = { dram: "DRAM", l1: "L1", l1_small: "L1_SMALL", trace: "TRACE", cb: "circular buffers", l1_used: "L1 used" };
export const CHARTS = {
  dram: { label: "DRAM", kinds: [0], circular: false },
  l1_used: { label: "L1 used", kinds: [1, 2], circular: true },
  l1_small: { label: "L1_SMALL", kinds: [2], circular: false },
  trace: { label: "TRACE", kinds: [3], circular: false },
};
/** What a chart can be stacked by; "kind" is possible, too, where only totals are known. */
export const DIMENSIONS = { op: "operation", site: "call site", phase: "phase", process: "process" };
const UNNAMED = {
  op: "outside any operation, or unknown",
  site: "no call site is known",
  phase: "outside any phase",
  process: "unknown process",
};
export const CIRCULAR = "circular buffers (shared)";
export const OTHERS = "others";
export const SUMS = "known only by counters";

/** The number of values that are not above `wanted`, in an ascending array. */
export function countUntil(values, wanted) {
  let low = 0;
  let high = values.length;
  while (low < high) {
    const middle = (low + high) >>> 1;
    if (values[middle] <= wanted) low = middle + 1;
    else high = middle;
  }
  return low;
}

export class History {
  constructor({ document, tables }) {
    this.document = document;
    this.strings = document.strings;
    this.origins = tables.origins;
    this.length = document.length_ns;
    this.complete = document.complete; // [[from, until], ...]: here every event is in the page
    this.devices = document.devices.map((device, index) => ({
      ...device,
      index,
      steps: part(tables.steps, index),
      buffers: part(tables.buffers, index),
      circular: part(tables.circular, index),
      frontier: part(tables.frontier, index),
      omitted: part(tables.omitted, index),
    }));
    for (const device of this.devices) device.samples = distinct(device.omitted.time);
    this.phases = phasesOf(document.markers, this.length);
    this.sweeps = new Map();
    this.keys = new Map();
    this.most = new Map();
  }

  /** From the first change to the last, of all devices. */
  get busy() {
    const times = this.devices.map(({ steps }) => steps.time).filter((time) => time.length);
    if (!times.length) return [0, this.length];
    return [Math.min(...times.map((time) => time[0])), Math.max(...times.map((time) => time[time.length - 1]))];
  }

  text(number) {
    return number < 0 ? null : this.strings[number];
  }

  origin(number) {
    const { op, site, phase, process } = this.origins;
    const one = process[number] < 0 ? null : this.document.processes[process[number]];
    return { op: this.text(op[number]), site: this.text(site[number]), phase: this.text(phase[number]), process: one };
  }

  /** What a buffer of this origin is counted under, in a view by `dimension`. */
  group(number, dimension) {
    if (dimension === "process") return processName(this.origin(number).process);
    return this.text(this.origins[dimension][number]) ?? UNNAMED[dimension];
  }

  isComplete(time) {
    return this.complete.some(([from, until]) => from <= time && time <= until);
  }

  /** The instant nearest to `time` of which everything is known: any instant, where no events are left out. */
  snap(device, time) {
    if (this.isComplete(time)) return time;
    const { samples } = device;
    const after = countUntil(samples, time);
    const [left, right] = [samples[after - 1], samples[after]];
    if (left === undefined && right === undefined) return time;
    if (left === undefined) return right;
    if (right === undefined) return left;
    return time - left <= right - time ? left : right;
  }

  /** The next or previous instant at which something changed; `time` itself at the ends of the run. */
  neighbour(device, time, direction) {
    const times = device.steps.time;
    const at = countUntil(times, time);
    if (direction > 0) return times[at] ?? time;
    const here = times[at - 1] === time ? at - 2 : at - 1;
    return times[here] ?? time;
  }

  /** Bytes by kind, and the position for `ttmem ps --at '#POSITION'` (null: by time); null before the first event. */
  totals(device, time) {
    const { steps } = device;
    const row = countUntil(steps.time, time) - 1;
    if (row < 0) return null;
    const known = steps.position[row] >= 0; // else it is a sample of counters, which no event reports
    const found = { time: steps.time[row], position: known ? steps.position[row] + 1 : null };
    for (const kind of [...KINDS, "cb"]) found[kind] = steps[kind][row];
    found.l1_used = found.l1 + found.l1_small + found.cb;
    return found;
  }

  /** Rows of `device.buffers` that are alive, of these kinds; those that the page leaves out are in `omitted`. */
  live(device, time, kinds = [0, 1, 2, 3]) {
    const { buffers } = device;
    const wanted = flags(kinds);
    const until = countUntil(buffers.start, time);
    const found = [];
    for (let row = 0; row < until; row += 1) {
      if ((buffers.end[row] < 0 || buffers.end[row] > time) && wanted[buffers.kind[row]]) found.push(row);
    }
    return found;
  }

  /** Rows of `device.omitted`: sums of the buffers that the page does not list one by one, at a sample. */
  omitted(device, time, kinds = [0, 1, 2, 3]) {
    const { omitted } = device;
    const wanted = flags(kinds);
    const found = [];
    for (let row = countUntil(omitted.time, time) - 1; row >= 0 && omitted.time[row] === time; row -= 1) {
      if (wanted[omitted.kind[row]] && omitted.count[row]) found.push(row);
    }
    return found;
  }

  /** Who holds the memory of a chart: [{name, bytes, count}], the largest first. Its sum is the total. */
  holders(device, time, chart, dimension) {
    const { kinds, circular } = CHARTS[chart];
    if (dimension === "kind") {
      const totals = this.totals(device, time);
      return kindsOf(chart).map((kind) => ({ name: LABELS[kind], bytes: totals?.[kind] ?? 0, count: null }));
    }
    const sums = new Map();
    const add = (name, bytes, count) => {
      const sum = sums.get(name) ?? { name, bytes: 0, count: 0 };
      sum.bytes += bytes;
      sum.count += count;
      sums.set(name, sum);
    };
    for (const row of this.live(device, time, kinds)) {
      add(this.group(device.buffers.origin[row], dimension), device.buffers.held[row], 1);
    }
    for (const row of this.omitted(device, time, kinds)) {
      add(this.group(device.omitted.origin[row], dimension), device.omitted.bytes[row], device.omitted.count[row]);
    }
    const totals = this.totals(device, time);
    if (circular && totals?.cb) add(CIRCULAR, totals.cb, null);
    const rest = totals && totals.position === null ? totals[chart] - (circular ? totals.cb : 0) : 0;
    if (rest) add(SUMS, rest, null);
    return [...sums.values()].sort((a, b) => b.bytes - a.bytes || (a.name < b.name ? -1 : 1));
  }

  /** The groups of a stacked chart, those that ever hold the most first, and which one each origin belongs to. */
  legend(device, chart, dimension, most = 9) {
    const key = `${device.index} ${chart} ${dimension} ${most}`;
    if (!this.keys.has(key)) this.keys.set(key, this.makeLegend(device, chart, dimension, most));
    return this.keys.get(key);
  }

  makeLegend(device, chart, dimension, most) {
    if (dimension === "kind") return { names: kindsOf(chart).map((kind) => LABELS[kind]), others: 0 };
    const { kinds, circular } = CHARTS[chart];
    const wanted = flags(kinds);
    const weights = new Map();
    const { buffers } = device;
    for (let row = 0; row < buffers.rows; row += 1) {
      if (!wanted[buffers.kind[row]]) continue;
      const name = this.group(buffers.origin[row], dimension);
      const end = buffers.end[row] < 0 ? this.length : buffers.end[row];
      weights.set(name, (weights.get(name) ?? 0) + buffers.held[row] * (1 + end - buffers.start[row]));
    }
    const { omitted } = device;
    for (let row = 0; row < omitted.rows; row += 1) {
      if (!wanted[omitted.kind[row]]) continue;
      const name = this.group(omitted.origin[row], dimension);
      weights.set(name, (weights.get(name) ?? 0) + omitted.bytes[row]);
    }
    const ordered = [...weights.entries()].sort((a, b) => b[1] - a[1] || (a[0] < b[0] ? -1 : 1)).map(([name]) => name);
    const names = ordered.slice(0, ordered.length > most ? most - 1 : most);
    const rest = ordered.length > names.length ? names.push(OTHERS) - 1 : -1;
    const cb = circular ? names.push(CIRCULAR) - 1 : -1;
    const numbers = new Map(names.map((name, number) => [name, number]));
    const of = new Int32Array(this.origins.rows);
    for (let origin = 0; origin < of.length; origin += 1) {
      of[origin] = numbers.get(this.group(origin, dimension)) ?? rest;
    }
    return { names, of, cb, others: ordered.length - (names.length - (rest >= 0 ? 1 : 0) - (cb >= 0 ? 1 : 0)) };
  }

  /** The highest and lowest total of a chart in each of `width` columns: no maximum is lost. */
  outline(device, chart, start, end, width) {
    const { steps } = device;
    const value = valueOf(steps, chart);
    const high = new Float64Array(width);
    const low = new Float64Array(width);
    const scale = (end - start) / width;
    let row = countUntil(steps.time, start) - 1;
    let now = row >= 0 ? value(row) : 0;
    row += 1;
    for (let column = 0; column < width; column += 1) {
      const until = start + (column + 1) * scale;
      let [most, least] = [now, now];
      for (; row < steps.rows && steps.time[row] < until; row += 1) {
        now = value(row);
        if (now > most) most = now;
        if (now < least) least = now;
      }
      high[column] = most;
      low[column] = least;
    }
    return { high, low };
  }

  /** The highest total of a chart in the whole run. */
  highest(device, chart) {
    const key = `${device.index} ${chart}`;
    if (!this.most.has(key)) {
      const value = valueOf(device.steps, chart);
      let most = 0;
      for (let row = 0; row < device.steps.rows; row += 1) most = Math.max(most, value(row));
      this.most.set(key, most);
    }
    return this.most.get(key);
  }

  /** Allocations and frees of a chart in their order: time, and the row of the buffer (~row where it is freed). */
  sweep(device, chart) {
    const key = `${device.index} ${chart}`;
    if (!this.sweeps.has(key)) this.sweeps.set(key, makeSweep(device.buffers, CHARTS[chart].kinds));
    return this.sweeps.get(key);
  }

  /**
   * What a stacked chart shows in each of `width` columns: the composition at the highest instant in it.
   *
   * `sums[column * groups + group]` are bytes. `known[column]` is 0 where the column lies between two samples of a
   * part whose events are left out, and repeats the sample before it.
   */
  columns(device, chart, dimension, start, end, width) {
    if (dimension === "kind") return kindColumns(device.steps, chart, start, end, width);
    const { names, of, cb } = this.legend(device, chart, dimension);
    const groups = names.length;
    const { buffers, omitted, steps } = device;
    const { times, rows } = this.sweep(device, chart);
    const wanted = flags(CHARTS[chart].kinds);
    const sums = new Float64Array(width * groups);
    const known = new Uint8Array(width);
    const best = new Float64Array(width).fill(-1);
    const now = new Float64Array(groups);
    const held = new Float64Array(groups); // with what the page leaves out
    const scale = width / (end - start);
    let [event, step, sample] = [0, 0, 0];
    let before = null; // the last sample before the first column

    const apply = (time) => {
      for (; event < times.length && times[event] <= time; event += 1) {
        const freed = rows[event] < 0;
        const row = freed ? ~rows[event] : rows[event];
        now[of[buffers.origin[row]]] += freed ? -buffers.held[row] : buffers.held[row];
      }
      if (cb < 0) return;
      while (step < steps.rows && steps.time[step] <= time) step += 1;
      now[cb] = step > 0 ? steps.cb[step - 1] : 0;
    };
    const columnOf = (time) => Math.min(width - 1, Math.max(0, Math.floor((time - start) * scale)));
    const offer = (column, values) => {
      let total = 0;
      for (let group = 0; group < groups; group += 1) total += values[group];
      if (total > best[column]) {
        best[column] = total;
        sums.set(values, column * groups);
      }
      known[column] = 1;
    };
    const sampled = (until) => {
      // Sums of buffers that are not listed, at the samples up to here.
      while (sample < omitted.rows && omitted.time[sample] <= until) {
        const time = omitted.time[sample];
        apply(time);
        held.set(now);
        for (; sample < omitted.rows && omitted.time[sample] === time; sample += 1) {
          if (wanted[omitted.kind[sample]] && omitted.count[sample]) held[of[omitted.origin[sample]]] += omitted.bytes[sample];
        }
        if (time >= start) offer(columnOf(time), held);
        else before = held.slice();
      }
    };

    for (const [from, until] of this.complete) {
      if (from > end) break;
      sampled(Math.min(from, end) - 1);
      if (until < start) continue;
      const stop = Math.min(until, end);
      apply(Math.max(from, start));
      let reached = columnOf(Math.max(from, start)); // columns up to here have the state that they begin with
      offer(reached, now);
      const advance = (column) => {
        while (reached < column) offer((reached += 1), now);
      };
      for (;;) {
        const change = cb >= 0 && step < steps.rows ? steps.time[step] : Infinity;
        const time = Math.min(event < times.length ? times[event] : Infinity, change);
        if (time > stop) break;
        advance(columnOf(time));
        apply(time);
        offer(reached, now);
      }
      advance(columnOf(stop));
    }
    sampled(end);
    carry(sums, best, groups, width, before);
    return { names, groups, sums, known, best };
  }
}

/** The kinds of memory that a chart adds up. */
function kindsOf(chart) {
  const { kinds, circular } = CHARTS[chart];
  return [...kinds.map((kind) => KINDS[kind]), ...(circular ? ["cb"] : [])];
}

/** As `History.columns`, from totals alone, which samples of a live host have too. */
function kindColumns(steps, chart, start, end, width) {
  const kinds = kindsOf(chart);
  const value = valueOf(steps, chart);
  const sums = new Float64Array(width * kinds.length);
  const best = new Float64Array(width);
  const scale = (end - start) / width;
  let row = countUntil(steps.time, start) - 1;
  for (let column = 0; column < width; column += 1) {
    let highest = row;
    for (; row + 1 < steps.rows && steps.time[row + 1] < start + (column + 1) * scale; row += 1) {
      if (highest < 0 || value(row + 1) > value(highest)) highest = row + 1;
    }
    if (highest < 0) continue;
    kinds.forEach((kind, group) => (sums[column * kinds.length + group] = steps[kind][highest]));
    best[column] = value(highest);
  }
  return { names: kinds.map((kind) => LABELS[kind]), groups: kinds.length, sums, known: new Uint8Array(width).fill(1), best };
}

function carry(sums, best, groups, width, before) {
  let previous = before;
  for (let column = 0; column < width; column += 1) {
    if (best[column] >= 0) previous = sums.subarray(column * groups, (column + 1) * groups);
    else if (previous) sums.set(previous, column * groups);
  }
}

function valueOf(steps, chart) {
  if (chart === "l1_used") return (row) => steps.l1[row] + steps.l1_small[row] + steps.cb[row];
  const column = steps[chart];
  return (row) => column[row];
}

function makeSweep(buffers, kinds) {
  const wanted = flags(kinds);
  const events = [];
  for (let row = 0; row < buffers.rows; row += 1) {
    if (!wanted[buffers.kind[row]]) continue;
    events.push(row);
    if (buffers.end[row] >= 0) events.push(~row);
  }
  const time = (event) => (event < 0 ? buffers.end[~event] : buffers.start[event]);
  events.sort((a, b) => time(a) - time(b));
  return { times: Float64Array.from(events, time), rows: Int32Array.from(events) };
}

/** Phases as spans: each lasts until its process enters another one. */
export function phasesOf(markers, length) {
  const open = new Map();
  const numbers = new Map();
  const spans = [];
  const close = (pid, time) => {
    const one = open.get(pid);
    if (one && one.name && time > one.from) spans.push({ ...one, until: time });
    open.delete(pid);
  };
  for (const { kind, time, text, pid } of markers) {
    if (kind === "end") close(pid, time);
    if (kind !== "phase") continue;
    close(pid, time);
    if (text && !numbers.has(text)) numbers.set(text, numbers.size);
    open.set(pid, { name: text, pid, from: time, number: numbers.get(text) ?? 0 });
  }
  for (const pid of [...open.keys()]) close(pid, length);
  return spans;
}

export function processName(process) {
  if (!process) return UNNAMED.process;
  return process.command ? `${process.pid}  ${process.command}` : `${process.pid}`;
}

function flags(kinds) {
  const wanted = new Uint8Array(8);
  for (const kind of kinds) wanted[kind] = 1;
  return wanted;
}

/** The rows of one device: tables are sorted by device, then by time. */
function part(table, device) {
  const first = countUntil(table.device, device - 1);
  const end = countUntil(table.device, device);
  const found = { rows: end - first };
  for (const [name, column] of Object.entries(table)) {
    if (name !== "rows") found[name] = column.subarray(first, end);
  }
  return found;
}

function distinct(sorted) {
  return sorted.filter((value, at) => at === 0 || value !== sorted[at - 1]);
}
