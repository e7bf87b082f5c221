"""What several pages share: facts about a device, rows of details, the table of processes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import TypeVar

from ttmem.events import KINDS, Amounts
from ttmem.snapshots import CircularBuffer, Device, Kernel, Program, Snapshot
from ttmem.snapshots.rows import Row
from ttmem.text import columns, short_command
from ttmem.views.analysis.call_sites import short_site
from ttmem.views.figures import AMOUNT, Units, fact
from ttmem.views.ink import Line, Style, clip_line, faint, flow, indent, ink, paragraph
from ttmem.views.monitor.listing import Listing
from ttmem.views.monitor.state import Look
from ttmem.views.names import age, logical, model, short_pci
from ttmem.views.processes import ProcessRow
from ttmem.views.selection import is_recorded
from ttmem.views.table import UNKNOWN, ListColumn, number, phrase

ProgramKey = tuple[int | None, str | None, int | None]  # pid, device, program
SUMS_ONLY = "shared memory"  # what the source of such a process is called
R = TypeVar("R", bound=Row)
E = TypeVar("E")  # a row of a table


def amount_fact(label: str, count: int | None, look: Look, style: Style = Style.PLAIN) -> Line:
    """'DRAM 4.5 GiB' in the user's units."""
    return fact(label, None if count is None else look.state.units.text(count), style)


def counter_fact(label: str, count: int | None, style: Style = Style.PLAIN) -> Line:
    """'dispatches 48,120'."""
    return fact(label, None if count is None else f"{count:,}", style)


def fact_lines(facts: Iterable[Line], look: Look, most: int) -> list[Line]:
    """The facts in at most `most` lines of the page's width."""
    lines = indent(flow(facts, max(look.width - 1, 1)), 1)[: max(most, 0)]
    return [clip_line(line, look.width) for line in lines]


def sentence(text: str, look: Look, style: Style = Style.PLAIN) -> list[Line]:
    """One column in from the left, in as many lines as it needs."""
    return indent(paragraph(text, max(look.width - 1, 1), style), 1)


def device_title(device: Device, look: Look) -> Line:
    """' device 0  n300 wormhole  9223372036854000000  01:00.0  1 of 4 (Tab)'."""
    devices = look.snapshot.devices
    parts = [model(device), device.unique_id, *filter(None, [short_pci(device)])]
    place = f"{devices.index(device) + 1} of {len(devices)} (Tab)" if len(devices) > 1 else ""
    line = (
        *ink(f" device {logical(device)}", Style.LABEL),
        *ink("".join(f"  {part}" for part in parts)),
        *faint(f"  {place}" if place else ""),
    )
    return clip_line(line, look.width)


def on_device(rows: Sequence[R] | None, device: str | None) -> Sequence[R] | None:
    """The rows of one device if named; None if the snapshot came without them."""
    if rows is None or device is None:
        return rows
    return [row for row in rows if row.device == device]


def program_key(row: Program | Kernel | CircularBuffer) -> ProgramKey:
    """Which program on which device it belongs to."""
    return row.pid, row.device, row.program


SITE_WIDTHS = 14, 36  # columns for file and line, at least and at most


def site_column(
    title: str, get: Callable[[E], str | None], rows: Sequence[E], *, rank: int
) -> ListColumn[E]:
    """Lines of code; file and line are whole in the width that the table gives it at least."""
    names = [(get(row) or "").partition(" ")[0].rpartition("/")[2] for row in rows]
    least, most = SITE_WIDTHS
    width = min(max([least, *map(columns, names)]), most)

    def draw(row: E, space: int) -> Line:
        site = get(row)
        return UNKNOWN if site is None else ink(short_site(site.partition("\n")[0], space))

    return replace(phrase(title, get, width=width, grow=2, rank=rank), draw=draw)


def owners(snapshot: Snapshot) -> dict[int | None, str]:
    """The commands of the processes, by pid; without those that are unknown."""
    known = ((process.pid, process.command) for process in snapshot.processes)
    return {pid: short_command(command) for pid, command in known if command}


def device_names(look: Look) -> dict[str, str]:
    """What each device is called in a cell, by unique id."""
    names = look.names
    return {one.unique_id: names.some([one.unique_id]) for one in look.snapshot.devices}


def why_none(snapshot: Snapshot, what: str, listed: bool, device: str | None = None) -> str:
    """Why the list is empty, and what to do. `listed`: a source lists them."""
    if not snapshot.devices:
        return f"no {what}: no device has been seen yet"
    if blind := sums_only(snapshot, device):
        return (
            f"{what} N/A: {', '.join(blind)} reports only totals;"
            " start the program with `ttmem run` to see each one"
        )
    if is_recorded(snapshot) and not snapshot.processes:
        return f"no {what} at this instant of the recording; g goes to another, such as peak:dram"
    if ended := _ended(snapshot, device):
        return f"no {what} now: {ended} ended; `ttmem dump` lists what was never freed"
    if not listed:
        return f"{what} N/A: this source does not list them; start the program with `ttmem run`"
    return f"no {what} now"


def sums_only(snapshot: Snapshot, device: str | None) -> list[str]:
    """The sources of the processes there that report only totals."""
    there = [one.sources for one in snapshot.processes if device is None or device in one.devices]
    return sorted({one for sources in filter(is_blind, there) for one in sources})


def is_blind(sources: Iterable[str]) -> bool:
    """Whether a process with these sources reports only totals."""
    return all(one.startswith(SUMS_ONLY) for one in sources)


def _ended(snapshot: Snapshot, device: str | None) -> str:
    """'process 41235 has', of those that died with memory allocated."""
    pids = [
        left.pid
        for left in snapshot.left_behind
        if not left.ghost and left.died_ns and (device is None or device in left.devices)
    ]
    if len(pids) > 1:
        return f"{len(pids):,} processes have"
    return f"process {pids[0]} has" if pids else ""


BY_DRAM = 3  # DRAM sorts until the user chooses
Key = TypeVar("Key")

RANKS = {"DRAM": 0, "L1": 0, "CB": 1, "L1_SMALL": 6, "TRACE": 7}


def _process_columns(units: Units, rows: Sequence[ProcessRow]) -> list[ListColumn[ProcessRow]]:
    """The command takes the remaining width; dead processes are last in every order."""
    user = max((columns(row.user or "") for row in rows), default=0)
    devices = max((columns(row.devices) for row in rows), default=0)

    def sums(title: str, name: str) -> ListColumn[ProcessRow]:
        def cell(row: ProcessRow) -> Line:
            return row.ink(units.text(getattr(row.held, name)))

        key = _alive(lambda row: getattr(row.held, name))
        return number(title, cell, key, width=AMOUNT, rank=RANKS[title])

    def text(
        title: str, get: Callable[[ProcessRow], str], width: int, rank: int, grow: int = 0
    ) -> ListColumn[ProcessRow]:
        cell, key = (lambda row: row.ink(get(row))), _alive(get)
        return ListColumn(title, cell, key, width=width, rank=rank, grow=grow)

    return [
        ListColumn("PID", _pid, _alive(lambda row: row.pid), right=True, width=7),
        ListColumn("USER", _user, _alive(lambda row: row.user), width=min(user, 12), rank=4),
        text("DEVICES", lambda row: row.devices, width=devices, rank=2),
        *(sums(name.upper(), name) for name in KINDS),
        number("AGE", _age, _alive(lambda row: row.age_ns), width=6, rank=5),
        text("COMMAND", _command, width=16, grow=1, rank=3),
    ]


def process_listing(
    page: str, rows: Sequence[ProcessRow], look: Look, empty: str
) -> Listing[ProcessRow]:
    columns, state = _process_columns(look.state.units, rows), look.state
    return Listing(page, columns, rows, state, first=BY_DRAM, empty=empty, noun="process")


def process_totals(rows: Sequence[ProcessRow], look: Look) -> Line:
    """'PROCESSES 2  DRAM 18.0 GiB  ...': what the live ones hold together; in a narrow window
    'L1 used' stands for L1 + L1_SMALL + CB."""
    live = [row for row in rows if not row.dead]
    held = Amounts.total(row.held for row in live)
    title = (*ink("PROCESSES ", Style.TITLE), *ink(f"{len(live):,}"))
    if not live:
        return clip_line(title, look.width)
    sums = [amount_fact(name, n, look) for name, n in held.by_label().items()]
    short = (("DRAM", held.dram), ("TRACE", held.trace), ("L1 used", held.l1_used))
    line = flow([title, *sums], look.width)
    if len(line) > 1:
        line = flow([title, *(amount_fact(name, count, look) for name, count in short)], 1 << 30)
    return clip_line(line[0], look.width)


def _alive(key: Callable[[ProcessRow], Key | None]) -> Callable[[ProcessRow], Key | None]:
    return lambda row: None if row.dead else key(row)


def _pid(row: ProcessRow) -> Line:
    mark = ink(row.mark, Style.WARN) if row.mark.strip() else ink(row.mark)
    return (*row.ink(str(row.pid)), *mark)


def _user(row: ProcessRow) -> Line | None:
    if row.dead:
        return ink("")
    return None if row.user is None else row.ink(row.user)


def _command(row: ProcessRow) -> str:
    return f"left behind: {row.command}" if row.dead else row.command


def _age(row: ProcessRow) -> Line | None:
    return None if row.age_ns is None else row.ink(age(row.age_ns))
