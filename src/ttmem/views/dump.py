"""`ttmem dump` as text: a row for each call site, or for each single entry."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import tzinfo
from functools import partial

from ttmem.analysis.leftovers import Check
from ttmem.events import CLOSED
from ttmem.probe.report import Origin
from ttmem.sizes import human, several
from ttmem.snapshots import Buffer, CircularBuffer, Kernel, Snapshot
from ttmem.text import short_command
from ttmem.views.dump_groups import CB, DeviceDump, Entry, Group, entry_id, entry_size, references
from ttmem.views.failures import made_by
from ttmem.views.figures import Units, amount, counted, known
from ttmem.views.ink import EMPTY, Line, Style, faint, flow, indent, ink, paint
from ttmem.views.names import DeviceNames, age, model, pids_text, short_pci, time_of_day
from ttmem.views.notes import (
    Note,
    blind_notes,
    loss_notes,
    note_lines,
    remark_notes,
    unlisted_notes,
)
from ttmem.views.processes import LEFT_REMARK, left_behind_table
from ttmem.views.selection import without_idle
from ttmem.views.table import Cell, Column, Table, page, section, title_lines

NOTHING = "nothing is allocated"
NOTHING_READ = "nothing is allocated, as far as you may read"
SHARED = (
    "CB: REQUESTED is the sum over all cached programs, HELD what they occupy together, since they share "
    "addresses (docs/circular-buffers.md)"
)
SHARED_CBS = "circular buffers of cached programs"
TOTALS_ONLY = "known only as a total"
LEAST_SITE = len("attention.py:123 forward")
LEAST_COMMAND = len("generate.py")


@dataclass(slots=True)
class Row:
    """What one line of code holds on all devices, or one single entry."""

    kind: str
    of: Group  # for its process
    by: Origin | str | None
    held: int = 0
    requested: int | None = 0
    devices: dict[str, None] = field(default_factory=dict)
    copies: dict[object, int] = field(default_factory=dict)  # of each: references
    entry: Entry | None = None  # the single one

    @property
    def count(self) -> int | None:
        """Copies of one tensor on the chips of a mesh count once."""
        return sum(self.copies.values()) or None

    def add(self, device: str, entry: Entry, held: int) -> None:
        self.devices[device] = None
        self.held += held
        times = references(entry) if isinstance(entry, CircularBuffer) else 1
        self.requested = (self.requested or 0) + entry_size(entry) * times
        where = None if isinstance(entry, Kernel) else entry.address
        part_of = entry.program if isinstance(entry, CircularBuffer) else entry_id(entry)
        self.copies[part_of, where, entry_size(entry)] = times


def rows(dumps: Iterable[DeviceDump], kernels: bool = False, single: bool = False) -> list[Row]:
    """The memory, or the kernel code, of groups with all their entries; largest first."""
    found: dict[object, Row] = {}

    def row(key: object, group: Group, by: Origin | str | None) -> Row:
        return found.setdefault(key, Row(group.kind, group, by))

    for dump in dumps:
        device = dump.device.unique_id
        for group in dump.kernels if kernels else dump.memory:
            owner = group.kind, group.pid
            listed = 0
            for entry in group.largest:
                held = entry.held if isinstance(entry, Buffer) else entry_size(entry)
                listed += held
                key, by = (*owner, *_site(entry)), _by(entry)
                if single:
                    key, by = (device, *owner, id(entry)), _described(entry)
                one = row(key, group, by)
                one.add(device, entry, 0 if group.kind == CB and not single else held)
                one.entry = entry if single else None
            if group.kind == CB and group.largest and not single:
                row((*owner, *_site(group.largest[0])), group, SHARED_CBS).held += group.held
            elif (group.kind != CB and group.held > listed) or not group.largest:
                rest = row((*owner, TOTALS_ONLY), group, TOTALS_ONLY)
                rest.held += group.held - listed
                rest.devices[device] = None
                rest.requested = _plus(rest.requested, None if listed else group.requested)
    return sorted(found.values(), key=lambda one: -one.held)


def _plus(one: int | None, other: int | None) -> int | None:
    return None if one is None or other is None else one + other


def _site(entry: Entry) -> tuple[str | None, ...]:
    """What entries of one row have in common, besides kind and process."""
    if not isinstance(entry, Buffer):
        return ()
    return entry.name, entry.site and entry.site.partition("\n")[0], entry.phase


def _by(entry: Entry) -> Origin | str | None:
    if isinstance(entry, CircularBuffer):
        return SHARED_CBS
    if isinstance(entry, Kernel):
        return ""
    if not (entry.name or entry.site):
        return entry.phase and f"in {entry.phase}"
    return Origin(entry.name, entry.site, entry.phase)


def _described(entry: Entry) -> Origin | str | None:
    """A single entry also says what it belongs to."""
    if isinstance(entry, Buffer) and entry.references <= 1:
        return _by(entry)
    texts = [
        f"{references(entry):,} references" if references(entry) > 1 else None,
        None if isinstance(entry, CircularBuffer) else entry.name,
        f"program {entry.program}" if not isinstance(entry, Buffer) and entry.program else None,
        f"{entry.cores} cores" if isinstance(entry, Kernel) and entry.cores else None,
        None if isinstance(entry, CircularBuffer) else entry.site and entry.site.partition("\n")[0],
    ]
    return "  ".join(text for text in texts if text) or None


@dataclass(frozen=True, slots=True)
class Owners:
    """How the table of live processes differs from that of ended ones."""

    owner: str
    owner_of: Callable[[Group], str | None]
    age: str
    until_ns: Callable[[Group], int | None]


def render_dump(
    snapshot: Snapshot,
    dumps: Sequence[DeviceDump],
    *,
    never_freed: Sequence[DeviceDump] = (),
    single: bool = False,
    top: int = 0,
    user: str | None = None,
    unlisted: Mapping[int, int] | None = None,
    width: int,
    color: bool,
    zone: tzinfo | None = None,
    chosen: bool = False,
) -> str:
    """What is allocated, what the dead left behind or never freed, and what was lost.

    `dumps` and `never_freed` have all their entries. `single`: a row for each of them instead of one for
    each call site. `top`: only so many rows, 0 for all. `user`: the caller; what others never freed is marked.
    `unlisted`: by pid, how many buffers were never freed and are in no list. `chosen`: a part was selected.
    """
    shown = replace(snapshot, devices=tuple(dump.device for dump in dumps))
    live = Owners(
        "COMMAND",
        lambda group: group.command and short_command(group.command),
        "AGE",
        lambda _: snapshot.time_ns,
    )
    ended = Owners(
        "ENDED",
        lambda group: None if group.ended_ns is None else time_of_day(group.ended_ns, zone),
        "LIVED",
        lambda group: group.ended_ns,
    )
    what = "largest first" if single else "by call site; --all lists single buffers"
    gone = "by processes that have ended, not part of any total"
    code = "not part of any total; FOOTPRINT: if resident everywhere"
    memory = partial(_memory, single=single, top=top, width=width)
    sections = [
        title_lines(snapshot if chosen else without_idle(snapshot)[0], width, zone),
        section("ALLOCATED", what, memory(dumps, live)) or [ink(_nothing(snapshot))],
        section("NEVER FREED", gone, memory(never_freed, ended)),
        section("LEFT BEHIND", LEFT_REMARK, left_behind_table(snapshot, width)),
        section("KERNEL CODE", code, _kernels(dumps, live, single, top, width)),
        note_lines(
            [
                *remark_notes(snapshot),
                *unlisted_notes(unlisted or {}),
                *loss_notes(snapshot, chosen),
                *_shared_notes(dumps),
                *_unseen_ends(never_freed),
                *_of_others(never_freed, user),
                *blind_notes(shown),
            ],
            width,
        ),
    ]
    return page(sections, width, color)


def _memory(
    dumps: Sequence[DeviceDump], style: Owners, *, single: bool, top: int, width: int
) -> list[Line]:
    found = rows(dumps, single=single)
    if not found:
        return []
    differs = any(row.requested not in (None, row.held) for row in found)
    columns: list[tuple[Column, Callable[[Row], Cell]]] = [
        (Column("KIND"), lambda row: ink(row.kind, Style.TITLE))
    ]
    if single:
        columns += [
            (Column("SIZE", right=True), lambda row: amount(Units.BINARY, row.requested)),
            (Column(style.age, right=True, rank=2), lambda row: _age(row, style)),
            (Column("ADDRESS", right=True, rank=2), lambda row: _hex(row)),
        ]
    else:
        columns += [(Column("HELD", right=True), lambda row: ink(human(row.held)))]
        if differs:
            requested = Column("REQUESTED", right=True, rank=3)
            columns += [(requested, lambda row: amount(Units.BINARY, row.requested))]
        columns += [(Column("COUNT", right=True), lambda row: counted(row.count))]
    total = sum(group.held for dump in dumps for group in dump.memory if group.counted)
    return [
        *_devices(dumps, width),
        *_lines(dumps, found, columns, style, top, width),
        *([] if single else [_total(total, found)]),
    ]


def _total(total: int, found: Sequence[Row]) -> Line:
    places = several(len(found), "row")
    return (*ink(" total ", Style.TITLE), *ink(human(total)), *faint(f" in {places}"))


def _kernels(
    dumps: Sequence[DeviceDump], style: Owners, single: bool, top: int, width: int
) -> list[Line]:
    found = rows(dumps, kernels=True, single=single)
    columns: list[tuple[Column, Callable[[Row], Cell]]] = [
        (Column("KIND"), lambda row: ink(row.kind, Style.TITLE)),
        (Column("FOOTPRINT", right=True), lambda row: ink(human(row.held))),
        *([] if single else [(Column("COUNT", right=True), lambda row: counted(row.count))]),
    ]
    return _lines(dumps, found, columns, style, top, width, "KERNEL" * single) if found else []


def _lines(
    dumps: Sequence[DeviceDump],
    found: Sequence[Row],
    columns: list[tuple[Column, Callable[[Row], Cell]]],
    style: Owners,
    top: int,
    width: int,
    site: str = "ALLOCATED BY",
) -> list[Line]:
    names = DeviceNames(dump.device for dump in dumps)
    columns += [
        (Column("CHIPS"), lambda row: ink(names.some(row.devices))),
        (Column("PID", right=True), lambda row: known(str(row.of.pid) if row.of.pid else None)),
    ]
    if site:
        origin = Column(site, least=LEAST_SITE, grow=3)
        columns += [(origin, lambda row: _allocated_by(row.by))]
    ended = style.owner == "ENDED"
    owner = Column(style.owner, least=LEAST_COMMAND, grow=0 if ended else 2, rank=0 if ended else 1)
    columns += [(owner, lambda row: known(style.owner_of(row.of)))]
    shown = found[: top or None]
    cells = [[cell(row) for _, cell in columns] for row in shown]
    lines = Table([column for column, _ in columns], cells).fitted_lines(width)
    hidden = found[len(shown) :]
    if hidden:
        rest = human(sum(row.held for row in hidden))
        lines.append(faint(f" and {several(len(hidden), 'more row')}, {rest}; --top 0 lists all"))
    return lines


def _devices(dumps: Sequence[DeviceDump], width: int) -> list[Line]:
    """Which chips the numbers stand for: each by its ids, or many of one model together."""
    names = DeviceNames(dump.device for dump in dumps)
    models: dict[str, list[DeviceDump]] = {}
    for dump in dumps:
        models.setdefault(model(dump.device), []).append(dump)
    facts = []
    for name, same in models.items():
        ids = [dump.device.unique_id for dump in same]
        one = same[0].device
        more = (short_pci(one), one.unique_id) if len(same) == 1 else ()
        facts.append(faint(" ".join([names.sentence(ids), name, *filter(None, more)])))
    return indent(flow(facts, width - 1), 1)


def _allocated_by(by: Origin | str | None) -> Cell:
    if isinstance(by, Origin):
        return lambda width: ink(made_by(by, width, unknown_op=""))
    return faint("N/A" if by is None else by)


def _age(row: Row, style: Owners) -> Line:
    until = style.until_ns(row.of)
    known = row.entry and row.entry.time_ns and until
    return faint(age(until - row.entry.time_ns) if known and row.entry and until else "N/A")


def _hex(row: Row) -> Line:
    """The address; the id of what has none."""
    entry = row.entry
    number = None if entry is None or isinstance(entry, Kernel) else entry.address
    if number is None and entry is not None:
        number = entry_id(entry)
    return known(None if number is None else f"{number:#x}")


def _nothing(snapshot: Snapshot) -> str:
    closed = any(remark.kind in CLOSED for remark in snapshot.remarks)
    return NOTHING_READ if closed else NOTHING


def _shared_notes(dumps: Sequence[DeviceDump]) -> list[Note]:
    circular = [group for dump in dumps for group in dump.memory if group.kind == CB]
    shared = any(one.requested is not None and one.requested > one.held for one in circular)
    return [Note("-", Style.FAINT, SHARED)] if shared else []


def _unseen_ends(never_freed: Sequence[DeviceDump]) -> list[Note]:
    groups = (group for dump in never_freed for group in dump.memory)
    pids = sorted({group.pid for group in groups if group.ended_ns is None and group.pid})
    text = f"{pids_text(pids)}: killed while nobody was watching, so the time is unknown"
    return [Note("-", Style.FAINT, text)] if pids else []


def _of_others(never_freed: Sequence[DeviceDump], user: str | None) -> list[Note]:
    found = {
        (group.user, group.pid)
        for dump in never_freed
        for group in dump.memory
        if user and group.user and group.user != user and group.pid
    }
    return [
        Note("-", Style.FAINT, f"pid {pid}: belongs to user {other}; --exit-code ignores it")
        for other, pid in sorted(found)
    ]


def render_check(check: Check, width: int, color: bool) -> str:
    """What the check of --exit-code found."""
    failed = f"leak check ({check.rule}): {several(len(check.reasons), 'problem')}"
    head = ink(failed, Style.ALARM) if check.failed else ink(f"leak check ({check.rule}): passed")
    notes = [
        *(Note("!", Style.WARN, reason) for reason in check.reasons),
        *(Note("-", Style.FAINT, f"not judged: {reason}") for reason in check.not_judged),
    ]
    return paint([EMPTY, head, *note_lines(notes, width)], width, color)
