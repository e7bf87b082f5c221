"""The single entries under a group of a dump: size, age, id, address and origin."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from ttmem.sizes import human
from ttmem.views.ages import age
from ttmem.views.dump_columns import DumpColumns
from ttmem.views.dump_groups import CB, Entry, Group
from ttmem.views.grid import Column, Grid
from ttmem.views.ink import Line, clip_line, faint, indent, ink

INDENT = 5


def entry_lines(group: Group, columns: DumpColumns, width: int) -> list[Line]:
    """The largest entries of a group, and how many more there are."""
    if not group.largest:
        return []
    titled = _columns(group, columns)
    rows = [[cell(entry) for _, cell in titled] for entry in group.largest]
    grid = Grid([column for column, _ in titled], rows)
    room = width - INDENT - (grid.width - grid.widths[-1])
    last = min(grid.widths[-1], max(room, len(grid.columns[-1].title)))
    lines = [clip_line(line, width - INDENT) for line in grid.lines(last)]
    more = (group.count or 0) - len(group.largest)
    if more:
        lines.append(faint(f"… {more:,} more, {human(group.rest)}; --top 0 lists all"))
    return indent(lines, INDENT)


def known(text: str | None) -> Line:
    """The text, or N/A."""
    return faint("N/A") if text is None else ink(text)


Cell = Callable[[Entry], Line]


def _columns(group: Group, columns: DumpColumns) -> list[tuple[Column, Cell]]:
    """Ids and addresses have columns of their own; ids that are addresses are not repeated."""
    ids = any(entry.get("id") not in (None, entry.get("address")) for entry in group.largest)
    addresses = group.kind == CB or any(entry.get("address") for entry in group.largest)
    size = "FOOTPRINT" if "footprint" in group.largest[0] else "SIZE"
    return [
        (Column(size, right=True), _size),
        (Column(columns.age, right=True), partial(_age, columns.until_ns(group))),
        *([(Column("ID", right=True), _id)] if ids else []),
        *([(Column("ADDRESS", right=True), _address)] if addresses else []),
        *([(Column("ORIGIN"), _origin_cell)] if any(map(_origin, group.largest)) else []),
    ]


def _size(entry: Entry) -> Line:
    return ink(human(int(entry.get("footprint", entry.get("requested", entry.get("size", 0))))))


def _age(until_ns: int | None, entry: Entry) -> Line:
    time_ns = int(entry.get("time_ns") or 0)
    return faint(age(until_ns - time_ns) if time_ns and until_ns else "N/A")


def _id(entry: Entry) -> Line:
    return known(None if entry.get("id") is None else f"{int(entry['id']):#x}")


def _address(entry: Entry) -> Line:
    return known(None if entry.get("address") is None else f"{int(entry['address']):#x}")


def _origin_cell(entry: Entry) -> Line:
    return faint(_origin(entry))


def _origin(entry: Entry) -> str:
    """References, name and call site, as far as they are known."""
    program, references = entry.get("program"), int(entry.get("references") or 1)
    texts = [
        f"{references:,} references" if references > 1 else None,
        entry.get("name"),
        f"program {program}" if program else None,
        f"{entry['cores']} cores" if entry.get("cores") else None,
        "on an L1 buffer" if entry.get("global") else None,
        entry.get("site"),
    ]
    return "  ".join(str(text) for text in texts if text)
