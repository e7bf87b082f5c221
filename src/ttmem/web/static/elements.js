// Elements of the page. Text only ever becomes text: what a recording says is never read as HTML.

import { exact, human } from "./sizes.js";

/** `element("td.number", {title: "..."}, "text", child, ...)`. */
export function element(what, attributes = {}, ...children) {
  const [tag, ...classes] = what.split(".");
  const made = document.createElement(tag);
  if (classes.length) made.className = classes.join(" ");
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) made[name] = value;
    else if (value !== null && value !== undefined && value !== false) made.setAttribute(name, value === true ? "" : value);
  }
  made.append(...children.filter((child) => child !== null && child !== undefined));
  return made;
}

/** A size for people, with the exact number where a mouse or a program looks. */
export function bytes(value, tag = "span") {
  const known = value !== null && value !== undefined;
  return element(`${tag}.bytes`, { title: known ? `${exact(value)} B` : null, "data-bytes": known ? value : null }, human(value));
}

/** A canvas that is as sharp as the screen; `draw(context, width, height)` works in CSS pixels. */
export class Picture {
  constructor(draw, label = null) {
    this.draw = draw;
    this.canvas = element("canvas", label ? { role: "img", "aria-label": label } : { "aria-hidden": "true" });
    this.context = this.canvas.getContext("2d");
    this.width = this.height = 0;
  }

  /** Only if it is on the screen: the browser tells its size. */
  paint() {
    const { clientWidth: width, clientHeight: height } = this.canvas;
    if (!width || !height) return;
    const ratio = globalThis.devicePixelRatio || 1;
    const [wide, high] = [Math.round(width * ratio), Math.round(height * ratio)];
    if (this.canvas.width !== wide || this.canvas.height !== high) {
      this.canvas.width = wide;
      this.canvas.height = high;
    }
    this.width = width;
    this.height = height;
    this.context.setTransform(ratio, 0, 0, ratio, 0, 0);
    this.context.clearRect(0, 0, width, height);
    this.draw(this.context, width, height);
  }
}

const COLOURS = ["ink", "faint", "line", "ground", "alarm", "accent", "circular", "others"];
const GROUPS = Array.from({ length: 9 }, (_, number) => `group-${number}`);
const KINDS = ["dram", "l1", "l1-small", "trace"]; // as numbered in history.js
for (const name of [...COLOURS, ...GROUPS, ...KINDS]) {
  // Canvases need colours, not the text of light-dark().
  globalThis.CSS?.registerProperty({ name: `--${name}`, syntax: "<color>", inherits: true, initialValue: "gray" });
}

/** The colours of the theme, as canvases need them. */
export function theme() {
  const style = getComputedStyle(document.documentElement);
  const read = (name) => style.getPropertyValue(`--${name}`);
  return { ...Object.fromEntries(COLOURS.map((name) => [name, read(name)])), groups: GROUPS.map(read), kinds: KINDS.map(read) };
}

/** Runs `work` in the next frame, once, however often it is asked for. */
export function once(work) {
  let waiting = false;
  return () => {
    if (waiting) return;
    waiting = true;
    requestAnimationFrame(() => {
      waiting = false;
      work();
    });
  };
}

/** Runs `work` when nobody has asked for it for a while. */
export function settled(work, milliseconds) {
  let timer = 0;
  return () => {
    clearTimeout(timer);
    timer = setTimeout(work, milliseconds);
  };
}
