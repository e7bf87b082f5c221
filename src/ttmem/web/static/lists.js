// Tables that their user sorts and searches.

import { element } from "./elements.js";
import { exact } from "./sizes.js";
import { filtered, sorted } from "./tables.js";

const MOST = 500; // rows

/** `draw` is called when the user has chosen. A column: [title, value to sort by, what is shown, class or what gives it]. */
export class Lists {
  constructor(draw) {
    this.draw = draw;
    this.order = new Map(); // of tables, once chosen: [column, descending]
    this.wanted = ""; // what the search field says
  }

  search(hint) {
    const oninput = (event) => { this.wanted = event.target.value; this.draw(); };
    return element("input", { type: "search", id: "search", placeholder: hint, "aria-label": hint, value: this.wanted, oninput });
  }

  /** `texts`: of a row, what is searched. `first`: the order until one is chosen, or as they come. `leads`: columns that stand before the others. */
  table(name, columns, rows, { texts = () => [], most = MOST, first = [null, false], leads = [] } = {}) {
    const [column, descending] = this.order.get(name) ?? first;
    const matching = filtered(rows, texts, this.wanted);
    const found = column === null ? matching : sorted(matching, columns[column][1], descending);
    const placed = [...new Set([...leads, ...columns.keys()])].map((at) => [columns[at], at]);
    const heads = placed.map(([[title, , , kind], at]) => {
      const isNumber = kind === "number";
      const onclick = () => { this.order.set(name, [at, at === column ? !descending : isNumber]); this.draw(); };
      const direction = at === column ? (descending ? "descending" : "ascending") : null;
      return element("th", { class: isNumber ? kind : null, scope: "col", "aria-sort": direction }, element("button", { onclick }, title));
    });
    const cell = (row, [, , shown, kind]) => element("td", { class: (typeof kind === "function" ? kind(row) : kind) || null }, shown(row));
    const body = found.slice(0, most).map((row) => element("tr", { class: row.stale ? "stale" : null }, ...placed.map(([one]) => cell(row, one))));
    const rest = found.length > most ? [element("p.quiet", {}, `and ${exact(found.length - most)} more; search to narrow the list`)] : [];
    return [element("div.scroll", {}, element("table", {}, element("thead", {}, element("tr", {}, ...heads)), element("tbody", {}, ...body))), ...rest];
  }
}
