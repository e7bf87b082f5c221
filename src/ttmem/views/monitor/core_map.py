"""The addresses of one core's L1, from 0 to the end: what lies where, and how far it is to a clash."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum

from ttmem.snapshots import Device, L1Map, Snapshot
from ttmem.views.monitor.address_ranges import Range
from ttmem.views.monitor.core_circular import CircularPart, circular_parts, owner_label
from ttmem.views.monitor.core_details import Core, L1Buffer, Unknown, block, l1_buffers
from ttmem.views.monitor.core_pressure import small_in_use
from ttmem.views.monitor.core_sizes import core_size
from ttmem.views.monitor.state import Units


class Sort(Enum):
    """What a piece of L1 is."""

    RESERVED = "reserved"
    RING = "ring"
    CB = "circular buffer"
    DATAFLOW = "dataflow buffer"
    CACHED = "cached circular buffers"
    FREE = "free"
    BUFFER = "buffer"
    SMALL = "L1_SMALL"
    OVERLAP = "overlap"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Piece:
    """Addresses from `start` to before `end`."""

    start: int
    end: int
    sort: Sort
    label: str

    @property
    def size(self) -> int:
        """In bytes."""
        return self.end - self.start


@dataclass(frozen=True, slots=True)
class CoreMap:
    """The pieces from the lowest to the highest address, in groups: a small window joins those of one group."""

    below: tuple[Piece, ...]  # firmware and ring
    growing_up: tuple[Piece, ...]  # circular buffers, with holes between
    between: Piece  # the gap, the overlap, or what is not known
    growing_down: tuple[Piece, ...]  # buffers, with holes between
    above: tuple[Piece, ...]  # what is higher than the buffers that were told, and L1_SMALL
    end: int
    highest_cb: int | None  # end of the highest circular buffer; None: there is none
    lowest_buffer: int | None
    remarks: tuple[str, ...]  # what is not known, and why

    @property
    def distance(self) -> int | None:
        """From the highest circular buffer to the lowest buffer; negative: they overlap; None: unknown."""
        if self.between.sort is Sort.UNKNOWN:
            return None
        return -self.between.size if self.between.sort is Sort.OVERLAP else self.between.size


def core_map(snapshot: Snapshot, device: Device, core: Core) -> CoreMap:
    """Unknown if there is no map of the device; parts that are unknown are so in the map."""
    layout = _layout(device)
    remarks: list[str] = []
    circular: tuple[CircularPart, ...] | None = None
    buffers: tuple[Piece, ...] | None = None
    try:
        circular = circular_parts(snapshot, device, core, layout)
    except Unknown as why:
        remarks.append(f"circular buffers: N/A, {why}")
    try:
        buffers = _buffers(snapshot, device, layout)
    except Unknown as why:
        remarks.append(f"L1 buffers: N/A, {why}")
    up = _filled(layout.base, _circular_pieces(circular or ()))
    top = up[-1].end if up else layout.base
    lowest = min((piece.start for piece in buffers or ()), default=layout.small_base)
    down = _filled(lowest, buffers or ())
    rest = _rest(snapshot, device, down[-1].end, layout) if down else ()
    known = circular is not None and buffers is not None
    return CoreMap(
        _below(layout),
        up,
        _between(top, lowest, known, bool(up and buffers)),
        down,
        (*rest, *_small(snapshot, device, layout)),
        layout.end,
        top if up else None,
        lowest if buffers else None,
        tuple(remarks),
    )


def _layout(device: Device) -> L1Map:
    found = device.l1_map
    if found is None:
        raise Unknown("nobody declared where L1 begins and ends on this device, or two disagree")
    if not (found.ring_base or 0) <= found.base <= found.small_base <= found.end or found.base < 0:
        raise Unknown("the declared boundaries of L1 are impossible")
    return found


def _below(layout: L1Map) -> tuple[Piece, ...]:
    ring = layout.ring_base
    if ring is None or ring < 0:
        return (Piece(0, layout.base, Sort.RESERVED, "firmware and kernel ring"),)
    return (
        Piece(0, ring, Sort.RESERVED, "firmware, mailboxes"),
        Piece(ring, layout.base, Sort.RING, "kernel ring"),
    )


def _circular_pieces(parts: Iterable[CircularPart]) -> list[Piece]:
    def sort(part: CircularPart) -> Sort:
        if not part.resident:
            return Sort.CACHED
        return Sort.DATAFLOW if part.dataflow else Sort.CB

    return [Piece(part.start, part.end, sort(part), part.label) for part in parts]


def _between(top: int, lowest: int, known: bool, clash: bool) -> Piece:
    if not known:
        return Piece(min(top, lowest), max(top, lowest), Sort.UNKNOWN, "unknown")
    if top > lowest:
        return Piece(lowest, top, Sort.OVERLAP, "OVERLAP")
    return Piece(top, lowest, Sort.FREE, "free, to a clash" if clash else "free")


def _buffers(snapshot: Snapshot, device: Device, layout: L1Map) -> tuple[Piece, ...]:
    placed: list[tuple[Range, L1Buffer]] = []
    for one in l1_buffers(snapshot, device):
        found = block(one, layout.banks)
        if found is None:
            raise Unknown("some came without address or reserved size")
        start, end = found
        if start < layout.base or end > layout.small_base:
            raise Unknown(f"one lies at {start:#x}, outside of what can be allocated")
        placed.append((found, one))
    if not placed and device.memory.l1.count:
        raise Unknown(f"none of {device.memory.l1.count:,} is told")
    return tuple(_apart(placed))


def _apart(placed: Iterable[tuple[Range, L1Buffer]]) -> list[Piece]:
    """Two processes may use the same addresses: what is behind another is counted there, the rest shows."""
    shown: list[tuple[Range, L1Buffer, list[int | None]]] = []
    for (start, end), one in sorted(placed, key=lambda each: each[0]):
        if shown and start < shown[-1][0][1]:
            pids = shown[-1][2]
            pids += [] if one.pid in pids else [one.pid]
            start = shown[-1][0][1]
        if start < end:
            shown.append(((start, end), one, [one.pid]))
    return [
        Piece(*where, Sort.BUFFER, f"{one.name or f'buffer {one.id}'}{owner_label(pids)}")
        for where, one, pids in shown
    ]


def _filled(start: int, pieces: Iterable[Piece]) -> tuple[Piece, ...]:
    """The pieces with the holes before and between them."""
    out: list[Piece] = []
    for piece in pieces:
        if piece.start > start:
            out.append(Piece(start, piece.start, Sort.FREE, "free"))
        out.append(piece)
        start = piece.end
    return tuple(out)


def _rest(snapshot: Snapshot, device: Device, start: int, layout: L1Map) -> tuple[Piece, ...]:
    """What is above the highest buffer that was told: those that were not, or nothing."""
    if start == layout.small_base:
        return ()
    count = device.memory.l1.count
    missing = 0 if count is None else count - len(l1_buffers(snapshot, device))
    if missing > 0:
        return (Piece(start, layout.small_base, Sort.BUFFER, f"{missing} more buffers"),)
    return (Piece(start, layout.small_base, Sort.FREE, "free"),)


def _small(snapshot: Snapshot, device: Device, layout: L1Map) -> tuple[Piece, ...]:
    if layout.small_base == layout.end:
        return ()
    used = small_in_use(snapshot, device, layout.banks)
    text = "N/A" if used is None else core_size(Units.BINARY, used)
    return (Piece(layout.small_base, layout.end, Sort.SMALL, f"L1_SMALL, {text} in use"),)
