"""Kernels and programs of one device: what code is loaded, how large it is, how often it ran."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

from ttmem.snapshots import CircularBuffer, Device, Kernel, Program, Ring, Snapshot
from ttmem.text import clean, clip, columns
from ttmem.views.figures import AMOUNT, Units
from ttmem.views.ink import Line, Style, clip_line, faint, ink
from ttmem.views.kernels import TYPES, partial_sentence
from ttmem.views.meter import PERCENT, is_over, meter
from ttmem.views.monitor.listing import Listing, ListPage
from ttmem.views.monitor.pages.rows import (
    ProgramKey,
    R,
    amount_fact,
    counter_fact,
    device_title,
    fact_lines,
    on_device,
    owners,
    program_key,
    site_column,
    why_none,
)
from ttmem.views.monitor.state import Drawn, Look, Page, terms
from ttmem.views.names import age
from ttmem.views.table import ListColumn, figure, label, phrase

BAR = 24  # columns of the bar with its percentage, where it fits


def ring_facts(ring: Ring, look: Look) -> list[Line]:
    """'ring ████···· 38% 2.0 MiB / 4.3 MiB', its programs, wraps and syncs."""
    if ring.occupied is None and ring.capacity is None:
        return [faint("ring N/A: its source does not report it")]
    write = look.state.units.text
    occupied = faint("N/A") if ring.occupied is None else _filled(ring.occupied, ring, look)
    amounts = (*faint("ring "), *occupied, *faint(f" / {write(ring.capacity)}"))
    return [
        amounts,
        counter_fact("programs", ring.programs),
        counter_fact("wraps", ring.wraps),
        counter_fact("syncs", ring.syncs),
    ]


def _filled(occupied: int, ring: Ring, look: Look) -> Line:
    # A ring that is full is at work: programs overwrite the oldest. Only more than full is wrong.
    style = Style.ALARM if is_over(occupied, ring.capacity) else Style.RING
    text = ink(look.state.units.text(occupied), style)
    space = min(BAR, look.width // 4)
    if ring.capacity is None or space <= PERCENT:
        return text
    return (*meter(occupied, ring.capacity, space, style), *ink("  "), *text)


def partial_lines(device: Device, look: Look) -> list[Line]:
    """Why the figures below are not all there is, in one line."""
    sentence = partial_sentence(device)
    return [] if sentence is None else [clip_line(ink(f" {sentence}", Style.WARN), look.width)]


def type_facts(device: Device, look: Look) -> list[Line]:
    """'footprint: application 53.5 MiB (210)  fabric 896.0 KiB (1)  ...', with how many kernels."""
    listed = on_device(look.snapshot.kernels, device.unique_id) or []
    kernels = device.kernels
    facts = [faint("footprint:")]
    whole = len(listed) == kernels.count  # a list of the largest gives too low a count
    for kind in TYPES:
        one = amount_fact(kind, getattr(kernels.footprint, kind), look)
        count = sum(1 for kernel in listed if kernel.type == kind)
        facts.append((*one, *faint(f" ({count:,})")) if whole else one)
    return facts if whole else [*facts, counter_fact("kernels", kernels.count)]


def counter_facts(device: Device, look: Look) -> list[Line]:
    """Where the binaries are, and how often they were loaded, run and found in the program cache."""
    kernels = device.kernels
    counted = [] if kernels.counted is None else [amount_fact("counted", kernels.counted, look)]
    return [
        *counted,
        amount_fact("binaries in DRAM", kernels.dram_binaries, look),
        counter_fact("distinct", kernels.distinct_binaries),
        counter_fact("loads", kernels.loads),
        counter_fact("dispatches", kernels.dispatches),
        counter_fact("cached programs", kernels.cache_entries),
        counter_fact("hits", kernels.cache_hits),
        counter_fact("misses", kernels.cache_misses),
    ]


BY_FOOTPRINT = 3  # sorted by FOOTPRINT until the user chooses


def kernel_columns(
    units: Units, programs: Iterable[Program], kernels: Iterable[Kernel]
) -> list[ListColumn[Kernel]]:
    """`programs`: those of the kernels, as far as they are listed."""
    by_key = {program_key(one): one for one in programs}

    def program(row: Kernel) -> Program | None:
        return by_key.get(program_key(row))

    named = any(of.name for row in kernels if (of := program(row)))
    operation: ListColumn[Kernel] = phrase(
        "OPERATION", lambda row: (of := program(row)) and of.name, width=16, grow=1, rank=1
    )
    return [
        phrase("TYPE", lambda row: row.type, width=11, rank=2),
        figure("BINARY", lambda row: row.binary, units.text, width=AMOUNT, rank=7),
        figure("CORES", lambda row: row.cores, rank=9),
        figure("FOOTPRINT", lambda row: row.footprint, units.text),
        phrase("STATUS", lambda row: (of := program(row)) and of.status, width=9, rank=3),
        figure("DISPATCHES", lambda row: row.dispatches, rank=4),
        figure("HITS", lambda row: (of := program(row)) and of.cache_hits, width=7, rank=6),
        label("PROGRAM", lambda row: row.program, rank=5),
        label("PID", lambda row: row.pid, width=7, rank=8),
        *([operation] if named else []),
        replace(phrase("KERNEL", lambda row: row.name, width=20, grow=2), draw=_kernel_name),
    ]


def _kernel_name(row: Kernel, width: int) -> Line:
    """'reader_bmm_tile_layo…/brisc': what it does and its processor, if it has to be cut."""
    if row.name is None:
        return faint("N/A")
    name = clean(row.name)
    stem, slash, processor = name.rpartition("/")
    rest = width - columns(processor) - 1
    if not slash or columns(name) <= width or rest < 2:
        return ink(clip(name, width))
    return ink(f"{clip(stem, rest)}/{processor}")


BY_DISPATCHES = 3  # sorted by DISPATCHES until the user chooses


def _by_program(buffers: Sequence[CircularBuffer]) -> dict[ProgramKey, tuple[int, int]]:
    """Count and bytes of circular buffers, as in the device's demand."""
    found: dict[ProgramKey, tuple[int, int]] = defaultdict(lambda: (0, 0))
    for one in buffers:
        if one.is_global:  # it lies on an L1 buffer that is counted itself
            continue
        times = one.references or 1
        count, total = found[program_key(one)]
        found[program_key(one)] = (count + times, total + one.size * times)
    return found


def program_columns(
    units: Units, rows: Sequence[Program], snapshot: Snapshot, device: str
) -> list[ListColumn[Program]]:
    """What is shown of a program; operation and call site if any of them is known."""
    buffers = on_device(snapshot.circular_buffers, device)
    by_program = _by_program(buffers or [])
    commands = owners(snapshot)

    def circular(row: Program) -> tuple[int | None, int | None]:
        return (None, None) if buffers is None else by_program[program_key(row)]

    def idle(row: Program) -> int | None:
        last = row.last_dispatch_ns
        return None if last is None else max(snapshot.time_ns - last, 0)

    origin: list[ListColumn[Program]] = [
        phrase("OPERATION", lambda row: row.name, width=16, grow=1),
        site_column("CALL SITE", lambda row: row.site, rows, rank=1),
        site_column("LAST CALLER", lambda row: row.last_site, rows, rank=12),
    ]
    return [
        label("PROGRAM", lambda row: row.program),
        label("PID", lambda row: row.pid, width=7, rank=6),
        phrase("STATUS", lambda row: row.status, width=9, rank=5),
        figure("DISPATCHES", lambda row: row.dispatches),
        figure("HITS", lambda row: row.cache_hits, width=7, rank=7),
        figure("MISSES", lambda row: row.cache_misses, rank=9),
        figure("CBS", lambda row: circular(row)[0], rank=10),
        figure("CB BYTES", lambda row: circular(row)[1], units.text, width=AMOUNT, rank=2),
        label("LAST", idle, age, width=6, rank=3),
        figure("RESIDENT", lambda row: row.resident, units.text, rank=8),
        figure("CORES", lambda row: row.resident_cores, rank=11),
        *(origin if any(row.name or row.site for row in rows) else []),
        phrase("OWNER", lambda row: commands.get(row.pid), width=12, grow=1, rank=13),
    ]


HELP = terms("""
ring | kernel-config ring: occupied / capacity in bytes of the whole device, as reported last; it is
    below the memory that can be allocated and not part of L1 used
wraps, syncs | how often the ring wrapped, and how often the host had to wait for space
footprint | by type, with the number of kernels: binary x cores over all live kernels, if they were resident
    everywhere; cached programs are not, so this is not L1 in use
binaries in DRAM | padded binaries of the live programs: a part of the DRAM buffers
TYPE | application, fabric or dispatch
BINARY | bytes of one copy; N/A where the client reports only binary x cores
CORES | cores that the kernel runs on
FOOTPRINT | binary x cores
STATUS | of the program's binaries on this device: NotSent, InFlight or Committed
DISPATCHES | runs of the program, or of the kernel, since it was seen
HITS, MISSES | runs that found the program in the program cache, and that did not
loads | of all kernels of the device; a live kernel is loaded once, loading it again counts as a run
CBS, CB BYTES | circular buffers of the program, all cores together, as in the demand
RESIDENT, CORES | bytes of circular buffers on the cores where this program was the last to be dispatched, and how
    many cores those are
LAST | time since the last dispatch
CALL SITE | the line that made the program; LAST CALLER: the line that ran it last
""")


PROGRAMS = "Programs"  # the choices in the table of programs are its own


class KernelsPage(Page):
    """Two tables of one device: kernels, and the programs that they belong to."""

    name = "Kernels"
    keys = (("t", "kernels/programs"), ("s", "sort"), ("enter", "its program"))
    details = ("programs",)  # programs bring their kernels and circular buffers
    help = HELP

    def __init__(self) -> None:
        self._programs = False  # the table of programs is shown
        self._crossed = False  # Enter led from the other table

    def draw(self, look: Look) -> Drawn:
        device = look.device
        if device is None:
            return Drawn(fact_lines([faint(why_none(look.snapshot, "kernels", True))], look, 2))
        return self._page(device, look).draw()

    def key(self, key: str, look: Look) -> str | None:
        """`t` changes the table; Enter goes from a kernel to its program and back."""
        device = look.device
        if device is None:
            return None
        page = self._page(device, look)
        if key == "t":
            self._programs, self._crossed = not self._programs, False
        elif key == "enter":
            self._other_side(page.table.chosen, device, look)
        else:
            page.key(key)
        return None

    def back(self) -> bool:
        """From the other side to where Enter was pressed."""
        crossed, self._crossed = self._crossed, False
        self._programs ^= crossed
        return crossed

    def _page(self, device: Device, look: Look) -> ListPage[Any]:
        table = self._program_table if self._programs else self._kernel_table
        above = [
            device_title(device, look),
            *partial_lines(device, look),
            *fact_lines(ring_facts(device.kernels.ring, look), look, 2),
            *fact_lines(type_facts(device, look), look, 2),
            *fact_lines(counter_facts(device, look), look, 2),
        ]
        return ListPage(above, table(device, look), look)

    def _kernel_table(self, device: Device, look: Look) -> Listing[Any]:
        unique_id = device.unique_id
        rows = on_device(look.snapshot.kernels, unique_id)
        programs = on_device(look.snapshot.programs, unique_id) or ()
        columns = kernel_columns(look.state.units, programs, rows or ())
        return _listing(self.name, "kernels", columns, rows, BY_FOOTPRINT, device, look)

    def _program_table(self, device: Device, look: Look) -> Listing[Any]:
        rows = on_device(look.snapshot.programs, device.unique_id)
        columns = program_columns(look.state.units, rows or (), look.snapshot, device.unique_id)
        return _listing(PROGRAMS, "programs", columns, rows, BY_DISPATCHES, device, look)

    def _other_side(self, chosen: Kernel | Program | None, device: Device, look: Look) -> None:
        """Shows the other table, with the cursor on what belongs to the chosen row."""
        if chosen is None:
            return
        other = self._kernel_table if self._programs else self._program_table
        rows, wanted = other(device, look).rows, program_key(chosen)
        found = [at for at, row in enumerate(rows) if program_key(row) == wanted]
        if found:
            self._programs, self._crossed = not self._programs, not self._crossed
            look.state.of(PROGRAMS if self._programs else self.name).cursor = found[0]


def _listing(
    table: str,
    what: str,
    columns: Sequence[ListColumn[R]],
    rows: Sequence[R] | None,
    first: int,
    device: Device,
    look: Look,
) -> Listing[R]:
    empty = why_none(look.snapshot, what, rows is not None, device.unique_id)
    return Listing(table, columns, rows or (), look.state, first=first, empty=empty)
