// Bytes, times and names for people, spelled as the other views of ttmem spell them.

const UNITS = ["B", "KiB", "MiB", "GiB", "TiB"];

/** 1536 -> "1.5 KiB"; unknown is "N/A". */
export function human(bytes) {
  if (bytes === null || bytes === undefined || !Number.isFinite(bytes)) return "N/A";
  let value = Math.abs(bytes);
  let unit = 0;
  while (value >= 1023.95 && unit < UNITS.length - 1) {
    value /= 1024;
    unit += 1;
  }
  const sign = bytes < 0 ? "-" : "";
  return unit === 0 ? `${sign}${value} B` : `${sign}${value.toFixed(1)} ${UNITS[unit]}`;
}

/** 1234567 -> "1,234,567"; unknown is "N/A". */
export function exact(number) {
  if (number === null || number === undefined || !Number.isFinite(number)) return "N/A";
  return String(Math.round(number)).replace(/\B(?=(\d{3})+(?!\d))/g, ",");
}

/** Addresses are hexadecimal everywhere in ttmem. */
export function hex(address) {
  return address === null || address === undefined || address < 0 ? "N/A" : `0x${address.toString(16)}`;
}

/** "12%"; "<1%" is not nothing, ">99%" is not all, and more than there is is "over". Nothing where there is no whole. */
export function share(part, whole) {
  if (!whole || part === null || part === undefined) return "";
  if (part > whole) return "over";
  const rounded = Math.round((100 * part) / whole);
  if (part > 0 && rounded === 0) return "<1%";
  return part < whole && rounded === 100 ? ">99%" : `${rounded}%`;
}

/** Nanoseconds since the start of the recording, as fine as `step` needs. */
export function clock(ns, step = 1e6) {
  if (!Number.isFinite(ns)) return "N/A";
  const digits = Math.max(0, Math.min(9, Math.ceil(9 - Math.log10(Math.max(1, step)))));
  const sign = ns < 0 ? "-" : "";
  const total = Math.abs(ns) / 1e9;
  if (total < 120) return `${sign}${total.toFixed(digits)} s`;
  const whole = Math.floor(total);
  const parts = [Math.floor(whole / 3600), Math.floor(whole / 60) % 60].map((part) => String(part).padStart(2, "0"));
  const fine = Math.min(digits, 6);
  const seconds = (total - Math.floor(total / 60) * 60).toFixed(fine).padStart(fine ? fine + 3 : 2, "0");
  return `${sign}${parts.join(":")}:${seconds}`;
}

/** A moment, as in the terminal: "2026-11-19 05:21:44 UTC". */
export function moment(ns) {
  return Number.isFinite(ns) ? `${new Date(ns / 1e6).toISOString().slice(0, 19).replace("T", " ")} UTC` : "N/A";
}

/** Its time of day: "05:21:44". */
export const timeOfDay = (ns) => moment(ns).slice(11, 19);

/** How long something lived. */
export function duration(ns) {
  if (!Number.isFinite(ns)) return "N/A";
  if (ns < 1e3) return `${Math.round(ns)} ns`;
  if (ns < 1e6) return `${(ns / 1e3).toFixed(1)} µs`;
  if (ns < 1e9) return `${(ns / 1e6).toFixed(1)} ms`;
  if (ns < 120e9) return `${(ns / 1e9).toFixed(2)} s`;
  return `${(ns / 60e9).toFixed(1)} min`;
}

/** Round steps between two values, at most `most` of them, for the marks of an axis. */
export function ticks(first, last, most, bases = [1, 2, 5, 10]) {
  const span = last - first;
  if (!(span > 0) || most < 1) return { step: 1, values: [] };
  const power = 10 ** Math.floor(Math.log10(span / most));
  const step = power * (bases.find((base) => power * base * most >= span) ?? 10);
  return { step, values: multiples(first, last, step) };
}

/** The same in powers of two, for bytes. */
export function byteTicks(last, most) {
  if (!(last > 0) || most < 1) return { step: 1, values: [] };
  const step = 2 ** Math.max(0, Math.ceil(Math.log2(last / most)));
  return { step, values: multiples(0, last, step) };
}

function multiples(first, last, step) {
  const values = [];
  for (let at = Math.ceil(first / step); at * step <= last; at += 1) values.push(at * step);
  return values;
}

/** The end of a call site: "/long/path/model.py:42 forward" -> "model.py:42 forward". */
export function shortSite(site) {
  const first = String(site).split("\n", 1)[0];
  return first.replace(/^.*\/(?=[^/]*:\d+)/, "");
}
