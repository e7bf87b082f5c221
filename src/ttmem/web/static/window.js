// The part of the run that all charts show, and the instant under the cursor. Nothing here draws.

const CLOSEST = 100; // ns: what a chart shows at most closely

export class Window {
  constructor(length) {
    this.length = Math.max(1, length); // ns, of the run
    this.start = 0;
    this.end = this.length;
    this.cursor = 0;
    this.pinned = false;
    this.watchers = [];
  }

  /** `watcher` hears "view" when the window has changed, and "cursor" when the instant has. */
  watch(watcher) {
    this.watchers.push(watcher);
  }

  tell(what) {
    for (const watcher of this.watchers) watcher(what);
  }

  get span() {
    return this.end - this.start;
  }

  show(start, end) {
    const span = Math.min(this.length, Math.max(Math.min(CLOSEST, this.length), end - start));
    const first = Math.max(0, Math.min(this.length - span, start));
    if (first === this.start && first + span === this.end) return;
    this.start = first;
    this.end = first + span;
    this.tell("view");
  }

  showAll() {
    this.show(0, this.length);
  }

  /** `factor` below 1 comes closer; `time` stays where it is on the screen. */
  zoom(factor, time = this.centre()) {
    const before = (time - this.start) / this.span;
    const span = this.span * factor;
    this.show(time - before * span, time + (1 - before) * span);
  }

  /** Around the cursor where that is visible. */
  centre() {
    return this.cursor >= this.start && this.cursor <= this.end ? this.cursor : (this.start + this.end) / 2;
  }

  pan(time) {
    this.show(this.start + time, this.end + time);
  }

  moveTo(time, pinned = this.pinned) {
    const to = Math.max(0, Math.min(this.length, time));
    if (to === this.cursor && pinned === this.pinned) return;
    this.cursor = to;
    this.pinned = pinned;
    this.tell("cursor");
  }

  /** Moves the cursor, and the window where the cursor would leave it. */
  reveal(time) {
    this.moveTo(time, true);
    if (this.cursor < this.start || this.cursor > this.end) {
      this.show(this.cursor - this.span / 2, this.cursor + this.span / 2);
    }
  }
}
