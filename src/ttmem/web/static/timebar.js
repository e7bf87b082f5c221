// The time bar: which instant the page shows, and what moves it. The page says where it is; the bar asks it to go elsewhere.

import { clock, duration } from "./sizes.js";
import { Picture, element, theme } from "./elements.js";
import { instantText, markerAt, shownFrom } from "./live-data.js";

export const SPEEDS = [0.1, 0.25, 0.5, 1, 2, 5, 10, 30, 100];
const FRAME_MS = 200; // between two snapshots while it plays
const SECOND = 1e9;

export class TimeBar {
  /** `go(at)` shows an instant ("live": the present), and returns a promise; `locate(at)` tells its position and time. */
  constructor({ go, locate }) {
    this.go = go;
    this.locate = locate;
    this.span = null; // {started, ended} in ns, {live: whether there is a present}
    this.now = 0; // ns since the start
    this.position = -1; // if the instant was given by it
    this.live = false;
    this.markers = [];
    this.outline = null; // {times, values}: ns since the start, share of the most
    this.playing = null;
    this.speed = 1;
    this.picture = new Picture((context, width, height) => this.draw(context, width, height));
    this.track = element("div.track", { role: "slider", tabindex: 0, "aria-label": "Instant", "aria-valuemin": 0 }, this.picture.canvas);
    this.play = element("button", { type: "button", onclick: () => this.toggle(), title: "play or pause (space)", "aria-label": "Play" }, "▶");
    this.label = element("output", {});
    this.said = element("span.quiet.said", {});
    this.back = element("button.live", { type: "button", onclick: () => this.leave("live"), title: "back to the present (End)" }, "Live");
    const speeds = SPEEDS.map((speed) => element("option", { value: speed, selected: speed === 1 }, `${speed}×`));
    const button = (text, title, work) => element("button", { type: "button", title, "aria-label": title, onclick: work }, text);
    this.element = element(
      "div",
      { id: "time", role: "group", "aria-label": "Time" },
      element("span.buttons", {},
        button("«", "marker before (<)", () => this.marker(-1)), button("‹", "one event back (,)", () => this.step(-1)), this.play,
        button("›", "one event forward (.)", () => this.step(1)), button("»", "marker after (>)", () => this.marker(1)),
        element("select", { "aria-label": "Speed", title: "speed (+ and -)", onchange: (event) => (this.speed = Number(event.target.value)) }, ...speeds)),
      this.track,
      this.label,
      this.back,
      this.said,
    );
    this.listen();
  }

  get length() {
    return this.span ? Math.max(1, this.span.ended - this.span.started) : 1;
  }

  /** What there is, and where in it the page is. */
  show({ span, now, position = -1, live, markers = this.markers, outline = this.outline }) {
    Object.assign(this, { span, position, live, markers, outline });
    this.now = Math.max(0, Math.min(this.length, now));
    this.paint();
  }

  paint() {
    const { span } = this;
    this.element.hidden = !span;
    if (!span) return;
    this.back.hidden = !span.live;
    this.back.setAttribute("aria-pressed", String(this.live));
    this.play.textContent = this.playing ? "❚❚" : "▶";
    this.play.setAttribute("aria-label", this.playing ? "Pause" : "Play");
    const since = (time) => clock(time, this.length < 10 * SECOND ? 1e6 : 1e8);
    this.label.textContent = this.live ? `live, ${duration(this.length)} are kept` : span.live ? `${duration(this.length - this.now)} ago` : `${since(this.now)} of ${since(this.length)}`;
    this.track.setAttribute("aria-valuemax", String(Math.round(this.length / 1e6)));
    this.track.setAttribute("aria-valuenow", String(Math.round(this.now / 1e6)));
    this.track.setAttribute("aria-valuetext", this.label.textContent);
    const last = markerAt(this.markers, this.now, this.position);
    this.said.textContent = !this.live && last ? `${last.kind}: ${last.text}` : "";
    this.picture.paint();
  }

  draw(context, width, height) {
    const colours = theme();
    const x = (time) => (time / this.length) * width;
    const bottom = height - 4;
    context.fillStyle = colours.others;
    context.fillRect(0, bottom, width, 3);
    if (this.outline) {
      const { times, values } = this.outline;
      context.globalAlpha = 0.45;
      context.fillStyle = colours.kinds[1];
      context.beginPath();
      context.moveTo(x(times[0] ?? 0), bottom);
      times.forEach((time, at) => {
        if (at) context.lineTo(x(time), bottom - values[at - 1] * (bottom - 2));
        context.lineTo(x(time), bottom - values[at] * (bottom - 2));
      });
      context.lineTo(width, bottom - (values.at(-1) ?? 0) * (bottom - 2));
      context.lineTo(width, bottom);
      context.fill();
      context.globalAlpha = 1;
    }
    for (const { since_start_ns: time, kind } of this.markers) {
      const failed = kind === "failure";
      const tall = failed || kind === "mark"; // of phases there may be many
      context.fillStyle = failed ? colours.alarm : tall ? colours.accent : colours.faint;
      context.fillRect(Math.round(x(time)) - 0.5, tall ? 0 : bottom - 6, failed ? 2 : 1, tall ? bottom : 6);
    }
    const here = Math.max(3, Math.min(width - 3, x(this.live ? this.length : this.now)));
    context.fillStyle = colours.accent;
    context.fillRect(0, bottom, here, 3);
    context.fillStyle = colours.ink;
    context.fillRect(here - 1, 0, 2, height);
    context.beginPath();
    context.arc(here, bottom + 1, 4, 0, 7);
    context.fill();
  }

  // -- moving --------------------------------------------------------------------------------------------------

  /** Goes to a time; only the latest one that was asked for meanwhile is shown. */
  async seek(time) {
    this.now = Math.max(0, Math.min(this.length, time));
    this.position = -1;
    this.live = false;
    this.paint();
    this.wanted = instantText(this.span, this.now);
    if (this.going) return;
    this.going = true;
    try {
      while (this.wanted) {
        const at = this.wanted;
        this.wanted = null;
        await this.go(at);
      }
    } finally {
      this.going = false;
    }
  }

  pause() {
    clearInterval(this.playing);
    this.playing = null;
  }

  leave(at) {
    this.pause();
    this.wanted = null;
    return this.go(at);
  }

  toggle() {
    if (this.playing) {
      this.pause();
      this.paint();
      return;
    }
    if (this.live) {
      this.seek(this.length); // pauses
      return;
    }
    if (this.now >= this.length) this.now = 0;
    let [time, reached] = [performance.now(), this.now];
    this.playing = setInterval(() => {
      const passed = performance.now() - time;
      time += passed;
      reached += passed * 1e6 * this.speed;
      if (reached < this.length) {
        this.seek(reached);
      } else if (this.span.live) {
        this.leave("live");
      } else {
        this.pause();
        this.seek(this.length);
      }
    }, FRAME_MS);
    this.paint();
  }

  /** By events: the position tells exactly where one is. */
  async step(by) {
    this.pause();
    const { position } = await this.locate(this.live ? "end" : null);
    await this.leave(`#${Math.max(0, position + by)}`);
  }

  async marker(by) {
    this.pause();
    const { position } = await this.locate(this.live ? "end" : null);
    const found = by > 0 ? this.markers.find((one) => shownFrom(one) > position) : this.markers.findLast((one) => shownFrom(one) < position);
    if (found) await this.leave(`#${shownFrom(found)}`);
  }

  faster(by) {
    const at = SPEEDS.indexOf(this.speed) + by;
    this.speed = SPEEDS[Math.max(0, Math.min(SPEEDS.length - 1, at))];
    this.element.querySelector("select").value = String(this.speed);
  }

  /** Whether the key belongs to the bar. */
  key(name) {
    const second = Math.min(SECOND, this.length / 20);
    const work = {
      " ": () => this.toggle(),
      ",": () => this.step(-1),
      ".": () => this.step(1),
      "<": () => this.marker(-1),
      ">": () => this.marker(1),
      "{": () => this.jump(this.now - second),
      "}": () => this.jump(this.now + second),
      "+": () => this.faster(1),
      "-": () => this.faster(-1),
      Home: () => this.jump(0),
      End: () => (this.span.live ? this.leave("live") : this.jump(this.length)),
    }[name];
    if (!this.span || !work) return false;
    work();
    return true;
  }

  jump(time) {
    this.pause();
    if (this.live) this.now = this.length;
    return this.seek(time);
  }

  listen() {
    const { track } = this;
    const timeAt = (event) => {
      const box = track.getBoundingClientRect();
      return ((event.clientX - box.left) / box.width) * this.length;
    };
    track.addEventListener("pointerdown", (event) => {
      if (event.button !== 0) return;
      track.setPointerCapture(event.pointerId);
      this.jump(timeAt(event));
    });
    track.addEventListener("pointermove", (event) => {
      if (event.buttons && track.hasPointerCapture(event.pointerId)) this.jump(timeAt(event));
    });
    track.addEventListener("keydown", (event) => {
      const by = { ArrowLeft: -1, ArrowRight: 1, PageUp: -10, PageDown: 10 }[event.key];
      if (!by) return;
      this.jump((this.live ? this.length : this.now) + (by * this.length) / 100);
      event.preventDefault();
    });
    new ResizeObserver(() => this.picture.paint()).observe(track);
  }
}
