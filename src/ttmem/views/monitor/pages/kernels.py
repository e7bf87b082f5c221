"""Kernels and programs of one device: what code is loaded, how large it is, how often it ran."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from ttmem.snapshots import CircularBuffer, Device, Kernel, Program, Ring, Snapshot
from ttmem.text import clean, clip, columns
from ttmem.views.figures import AMOUNT, Units
from ttmem.views.ink import Line, Style, clip_line, faint, ink
from ttmem.views.kernels import TYPES, partial_sentence
from ttmem.views.meter import PERCENT, is_over, meter
from ttmem.views.monitor.listing import Listing, ListPage
from ttmem.views.monitor.pages.rows import (
    ProgramKey,
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
from ttmem.views.monitor.state import Drawn, Look, terms
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


class KernelEntry(NamedTuple):
    """A kernel, and its program where that is listed."""

    kernel: Kernel
    program: Program | None


def kernel_entries(snapshot: Snapshot, device: str) -> list[KernelEntry] | None:
    """The kernels of a device; None if the snapshot came without them."""
    kernels = on_device(snapshot.kernels, device)
    if kernels is None:
        return None
    programs = {program_key(one): one for one in on_device(snapshot.programs, device) or ()}
    return [KernelEntry(kernel, programs.get(program_key(kernel))) for kernel in kernels]


def kernel_columns(units: Units, named: bool) -> list[ListColumn[KernelEntry]]:
    """`named`: the operation of some program is known."""
    operation: ListColumn[KernelEntry] = phrase(
        "OPERATION", lambda row: row.program and row.program.name, width=16, grow=1, rank=1
    )
    return [
        phrase("TYPE", lambda row: row.kernel.type, width=11, rank=2),
        figure("BINARY", lambda row: row.kernel.binary, units.text, width=AMOUNT, rank=7),
        figure("CORES", lambda row: row.kernel.cores, rank=9),
        figure("FOOTPRINT", lambda row: row.kernel.footprint, units.text),
        phrase("STATUS", lambda row: row.program and row.program.status, width=9, rank=3),
        figure("DISPATCHES", lambda row: row.kernel.dispatches, rank=4),
        figure("HITS", lambda row: row.program and row.program.cache_hits, width=7, rank=6),
        label("PROGRAM", lambda row: row.kernel.program, rank=5),
        label("PID", lambda row: row.kernel.pid, width=7, rank=8),
        *([operation] if named else []),
        replace(phrase("KERNEL", lambda row: row.kernel.name, width=20, grow=2), draw=_kernel_name),
    ]


def _kernel_name(row: KernelEntry, width: int) -> Line:
    """'reader_bmm_tile_layo…/brisc': what it does and its processor, if it has to be cut."""
    if row.kernel.name is None:
        return faint("N/A")
    name = clean(row.kernel.name)
    stem, slash, processor = name.rpartition("/")
    rest = width - columns(processor) - 1
    if not slash or columns(name) <= width or rest < 2:
        return ink(clip(name, width))
    return ink(f"{clip(stem, rest)}/{processor}")


BY_DISPATCHES = 3  # sorted by DISPATCHES until the user chooses


class ProgramEntry(NamedTuple):
    """A program on one device; None: unknown."""

    program: Program
    owner: str | None
    cb_count: int | None
    cb_bytes: int | None
    idle: int | None  # nanoseconds since its last dispatch


def program_entries(snapshot: Snapshot, device: str) -> list[ProgramEntry] | None:
    """The programs of a device; None if the snapshot came without them."""
    programs = on_device(snapshot.programs, device)
    if programs is None:
        return None
    buffers = on_device(snapshot.circular_buffers, device)
    by_program = _by_program(buffers or [])
    commands = owners(snapshot)
    made = []
    for program in programs:
        count, size = (None, None) if buffers is None else by_program[program_key(program)]
        last = program.last_dispatch_ns
        idle = None if last is None else max(snapshot.time_ns - last, 0)
        made.append(ProgramEntry(program, commands.get(program.pid), count, size, idle))
    return made


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


def program_columns(units: Units, rows: Sequence[ProgramEntry]) -> list[ListColumn[ProgramEntry]]:
    """What is shown of a program; operation and call site if any of them is known."""
    origin: list[ListColumn[ProgramEntry]] = [
        phrase("OPERATION", lambda row: row.program.name, width=16, grow=1),
        site_column("CALL SITE", lambda row: row.program.site, rows, rank=1),
        site_column("LAST CALLER", lambda row: row.program.last_site, rows, rank=12),
    ]
    return [
        label("PROGRAM", lambda row: row.program.program),
        label("PID", lambda row: row.program.pid, width=7, rank=6),
        phrase("STATUS", lambda row: row.program.status, width=9, rank=5),
        figure("DISPATCHES", lambda row: row.program.dispatches),
        figure("HITS", lambda row: row.program.cache_hits, width=7, rank=7),
        figure("MISSES", lambda row: row.program.cache_misses, rank=9),
        figure("CBS", lambda row: row.cb_count, rank=10),
        figure("CB BYTES", lambda row: row.cb_bytes, units.text, width=AMOUNT, rank=2),
        label("LAST", lambda row: row.idle, age, width=6, rank=3),
        figure("RESIDENT", lambda row: row.program.resident, units.text, rank=8),
        figure("CORES", lambda row: row.program.resident_cores, rank=11),
        *(origin if any(row.program.name or row.program.site for row in rows) else []),
        phrase("OWNER", lambda row: row.owner, width=12, grow=1, rank=13),
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


class KernelsPage:
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

    def _kernel_table(self, device: Device, look: Look) -> Listing[KernelEntry]:
        rows = kernel_entries(look.snapshot, device.unique_id)
        return Listing(
            self.name,
            kernel_columns(look.state.units, any(r.program and r.program.name for r in rows or ())),
            rows or [],
            look.state,
            first=BY_FOOTPRINT,
            empty=why_none(look.snapshot, "kernels", rows is not None, device.unique_id),
        )

    def _program_table(self, device: Device, look: Look) -> Listing[ProgramEntry]:
        rows = program_entries(look.snapshot, device.unique_id)
        return Listing(
            PROGRAMS,
            program_columns(look.state.units, rows or []),
            rows or [],
            look.state,
            first=BY_DISPATCHES,
            empty=why_none(look.snapshot, "programs", rows is not None, device.unique_id),
        )

    def _other_side(self, chosen: object, device: Device, look: Look) -> None:
        """Shows the other table, with the cursor on what belongs to the chosen row."""
        if isinstance(chosen, KernelEntry):
            wanted = program_key(chosen.kernel)
            programs = self._program_table(device, look).rows
            found = [at for at, row in enumerate(programs) if program_key(row.program) == wanted]
        elif isinstance(chosen, ProgramEntry):
            wanted = program_key(chosen.program)
            kernels = self._kernel_table(device, look).rows
            found = [at for at, row in enumerate(kernels) if program_key(row.kernel) == wanted]
        else:
            return
        if found:
            self._programs, self._crossed = not self._programs, not self._crossed
            look.state.of(PROGRAMS if self._programs else self.name).cursor = found[0]
