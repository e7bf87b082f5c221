"""The address map of one core: its pieces, a strip to scale, and a row for each, the highest address first."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from enum import Enum
from typing import NamedTuple

from ttmem.snapshots import Buffer, CoreSet, Device, L1Map, Snapshot
from ttmem.snapshots.rows import Core, Range
from ttmem.views.figures import Units
from ttmem.views.ink import Line, Span, Style, clip_line, faint, ink
from ttmem.views.monitor.pages.core_data import (
    Owned,
    Unknown,
    block,
    core_sets,
    core_size,
    l1_buffers,
    small_in_use,
    union,
)


class Sort(Enum):
    """What a piece of L1 is: its sign, the same in ASCII, and its colour. The sign alone tells it, too."""

    RESERVED = "░", "-", Style.FAINT
    RING = "▒", "r", Style.RING
    CB = "▚", "c", Style.CB
    DATAFLOW = "▞", "d", Style.CB
    CACHED = "╱", "/", Style.CB
    FREE = "·", ".", Style.FAINT
    BUFFER = "█", "b", Style.L1
    SMALL = "▓", "s", Style.L1_SMALL
    OVERLAP = "!", "!", Style.ALARM
    UNKNOWN = "?", "?", Style.FAINT


QUIET = (Sort.FREE, Sort.RESERVED, Sort.UNKNOWN)


class Piece(NamedTuple):
    """Addresses from `start` to before `end`."""

    start: int
    end: int
    sort: Sort
    label: str

    @property
    def size(self) -> int:
        return self.end - self.start


class CoreMap(NamedTuple):
    """The pieces from the lowest to the highest address, in groups: a small window joins those of one group."""

    below: tuple[Piece, ...]  # firmware and ring
    growing_up: tuple[Piece, ...]  # circular buffers, with holes between
    between: Piece  # the gap, the overlap, or what is not known
    growing_down: tuple[Piece, ...]  # buffers, with holes between
    above: tuple[Piece, ...]  # above the listed buffers, and L1_SMALL
    end: int
    highest_cb: int | None  # end of the highest circular buffer; None: there is none
    running: (
        int | None
    )  # the same of the program that ran last here; None: there is none, or it is not known
    lowest_buffer: int | None
    unknown: tuple[tuple[str, str], ...]  # what is not known, and why

    @property
    def pieces(self) -> tuple[Piece, ...]:
        return self.below + self.growing_up + (self.between,) + self.growing_down + self.above

    @property
    def distance(self) -> int | None:
        """From the highest circular buffer to the lowest buffer; negative: they overlap; None: unknown.

        Those of cached programs may lie below buffers while they do not run, so the program that ran last decides.
        """
        if self.between.sort is Sort.UNKNOWN:
            return None
        if self.top is None or self.lowest_buffer is None:
            return self.between.size
        return self.lowest_buffer - self.top

    @property
    def top(self) -> int | None:
        """Where the circular buffers end that decide the distance."""
        return self.highest_cb if self.running is None else self.running


def core_map(snapshot: Snapshot, device: Device, core: Core) -> CoreMap:
    """Unknown without a map of the device; unknown parts are marked in the map."""
    layout = _layout(device)
    unknown: list[tuple[str, str]] = []
    circular: list[Piece] | None = None
    buffers: list[Piece] | None = None
    try:
        circular = _circular(snapshot, device, core, layout)
    except Unknown as why:
        unknown.append(("circular buffers", str(why)))
    try:
        buffers = _buffers(snapshot, device, layout)
    except Unknown as why:
        unknown.append(("L1 buffers", str(why)))
    up = _filled(layout.base, circular or ())
    top = up[-1].end if up else layout.base
    lowest = min((piece.start for piece in buffers or ()), default=layout.small_base)
    down = _filled(lowest, buffers or ())
    rest = _rest(snapshot, device, down[-1].end, layout) if down else ()
    known = circular is not None and buffers is not None
    running = max((piece.end for piece in up if piece.sort in _RUNNING), default=None)
    return CoreMap(
        _below(layout),
        up,
        _between(top, lowest, known, bool(up and buffers) and running in (None, top), running),
        down,
        (*rest, *_small(snapshot, device, layout)),
        layout.end,
        top if up else None,
        running,
        lowest if buffers else None,
        tuple(unknown),
    )


def _layout(device: Device) -> L1Map:
    found = device.l1_map
    if found is None:
        raise Unknown("no client declared where L1 begins and ends on this device, or two disagree")
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


def _circular(snapshot: Snapshot, device: Device, core: Core, layout: L1Map) -> list[Piece]:
    """Of the program that ran last, and what cached programs would use; Unknown if they are not reported."""
    sets = [one for one in core_sets(snapshot, device) if core in one.cores]
    regions = [region for one in sets for region in one.regions]
    for start, end in regions:
        if start < layout.base or end > layout.end:
            raise Unknown(f"one lies at {start:#x} to {end:#x}, outside of what can be allocated")
    resident = (snapshot.resident or {}).get(device.unique_id, ())
    here = [one for one in resident if core in one.cores]
    pieces: list[Piece] = []
    for one in sorted(here, key=lambda one: (one.start, one.end)):
        # Buffers may share addresses; each address is shown once.
        start = max(one.start, pieces[-1].end if pieces else layout.base)
        if start < one.end <= layout.end:
            sort, what = (Sort.DATAFLOW, "dataflow") if one.dataflow else (Sort.CB, "CB")
            whose = _whose(one.pid, _owners(start, one.end, sets))
            pieces.append(Piece(start, one.end, sort, what + whose + _program(one.program)))
    for start, end in _without(union(regions), pieces):
        owners = _owners(start, end, sets)
        top = next((one for one in owners if one.regions and one.regions[-1][1] == end), None)
        whose = _whose(top and top.pid, owners) + _program(top and top.highest_program)
        pieces.append(Piece(start, end, Sort.CACHED, f"cached{whose}"))
    return sorted(pieces, key=lambda piece: piece.start)


def _owners(start: int, end: int, sets: Iterable[CoreSet]) -> list[CoreSet]:
    return [one for one in sets if any(low < end and start < high for low, high in one.regions)]


def _whose(first: int | None, owners: Iterable[CoreSet]) -> str:
    others = {one.pid for one in owners if one.pid is not None} - {first}
    return _pids([*([] if first is None else [first]), *sorted(others)])


def _pids(pids: Sequence[int | None]) -> str:
    """' pid 41235 +2': whose, and how many others have something at the same addresses."""
    if not pids:
        return ""
    return f" pid {pids[0]}" + (f" +{len(pids) - 1}" if len(pids) > 1 else "")


def _program(program: int | None) -> str:
    return "" if program is None else f" program {program}"


def _without(regions: Iterable[Range], pieces: Sequence[Piece]) -> list[Range]:
    """What of the regions is in none of the pieces, which are in order."""
    out: list[Range] = []
    for start, end in regions:
        for piece in pieces:
            if piece.end <= start or piece.start >= end:
                continue
            if piece.start > start:
                out.append((start, piece.start))
            start = max(start, piece.end)
        if start < end:
            out.append((start, end))
    return out


_RUNNING = (Sort.CB, Sort.DATAFLOW)


def _between(top: int, lowest: int, known: bool, clash: bool, running: int | None) -> Piece:
    if not known:
        return Piece(min(top, lowest), max(top, lowest), Sort.UNKNOWN, "unknown")
    if top > lowest:
        clashes = running is not None and running > lowest
        label = "OVERLAP" if clashes else "cached programs, not running"
        return Piece(lowest, top, Sort.OVERLAP if clashes else Sort.CACHED, label)
    return Piece(top, lowest, Sort.FREE, "free, to a clash" if clash else "free")


def _buffers(snapshot: Snapshot, device: Device, layout: L1Map) -> list[Piece]:
    placed: list[tuple[Range, Buffer]] = []
    for one in l1_buffers(snapshot, device):
        found = block(one, layout.banks)
        if found is None:
            raise Unknown("some came without address or reserved size")
        start, end = found
        if start < layout.base or end > layout.small_base:
            raise Unknown(f"one lies at {start:#x}, outside of what can be allocated")
        placed.append((found, one))
    if not placed and device.memory.l1.count:
        raise Unknown(f"none of {device.memory.l1.count:,} is listed")
    return _apart(placed)


def _apart(placed: Iterable[tuple[Range, Buffer]]) -> list[Piece]:
    """Two processes may use the same addresses: what is behind another is counted there, the rest shows."""
    shown: list[tuple[Range, Buffer, list[int | None]]] = []
    for (start, end), one in sorted(placed, key=lambda each: each[0]):
        if shown and start < shown[-1][0][1]:
            pids = shown[-1][2]
            pids += [] if one.pid in pids else [one.pid]
            start = shown[-1][0][1]
        if start < end:
            shown.append(((start, end), one, [one.pid]))
    return [
        Piece(*where, Sort.BUFFER, f"{one.name or one.site or f'buffer {one.id}'}{_pids(pids)}")
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
    """Above the highest listed buffer: buffers that are not listed, or nothing."""
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


LEAST_TITLED = 8  # lines


def strip(found: CoreMap, width: int, ascii: bool) -> Line:
    """The whole L1 from address 0 on the left to its end; each column shows what fills most of it."""
    shares: list[Counter[Sort]] = [Counter() for _ in range(width)]
    for piece in found.pieces:
        first = piece.start * width // found.end if found.end else 0
        last = -(-piece.end * width // found.end) if found.end else 0
        for column in range(max(first, 0), min(last, width)):
            low = max(piece.start, column * found.end // width)
            high = min(piece.end, (column + 1) * found.end // width)
            shares[column][piece.sort] += max(high - low, 0)
    return tuple(_mark(_most(share), ascii) for share in shares)


def _most(share: Counter[Sort]) -> Sort:
    if share[Sort.OVERLAP]:
        return Sort.OVERLAP
    return share.most_common(1)[0][0] if share else Sort.FREE


def rows(
    found: CoreMap, space: int, width: int, units: Units, ascii: bool, own: Owned | None = None
) -> list[Line]:
    """At most `space` lines: neighbours of one group are joined until they fit; `own` is marked."""
    titled = space >= LEAST_TITLED
    pieces = _fitting(found, space - titled)[:space]
    address = len(f"{found.end:#x}")
    size = max((len(core_size(units, piece.size)) for piece in pieces), default=0)
    gutter = "" if own is None else "  "
    title = faint(f"  {'from'.ljust(address)}  {'size'.rjust(size)}  {gutter}what")
    return [
        *([clip_line(title, width)] if titled else []),
        *(_row(piece, address, size, width, units, ascii, own) for piece in pieces),
    ]


def _row(
    piece: Piece, address: int, size: int, width: int, units: Units, ascii: bool, own: Owned | None
) -> Line:
    quiet = piece.sort in QUIET
    loud = Style.ALARM if piece.sort is Sort.OVERLAP else Style.PLAIN
    # Free space has no owner, though it may have been merged with ranges that have.
    mark = " " if own is None or quiet else own.mark(piece.start, piece.end)
    line = (
        _mark(piece.sort, ascii),
        Span(" "),
        *faint(f"0x{piece.start:0{address - 2}x}"),
        *ink(f"  {core_size(units, piece.size).rjust(size)}  ", loud),
        *(() if own is None else ink(f"{mark} ", Style.LABEL)),
        *(faint(piece.label) if quiet else ink(piece.label, loud)),
    )
    return clip_line(line, width)


def _mark(sort: Sort, ascii: bool) -> Span:
    sign, plain, style = sort.value
    return Span(plain if ascii else sign, style)


def _fitting(found: CoreMap, space: int) -> list[Piece]:
    """From the highest to the lowest. What is nearest to the gap stays apart longest."""
    fixed = len(found.below) + len(found.above) + 1
    spare = max(space - fixed, 2)
    up, down = len(found.growing_up), len(found.growing_down)
    kept_down = min(down, max(spare - up, spare // 2, 1))
    kept_up = min(up, max(spare - kept_down, 1))
    return [
        *reversed(found.above),
        *reversed(_joined(found.growing_down, kept_down)),
        found.between,
        *_joined(found.growing_up[::-1], kept_up),
        *found.below[::-1],
    ]


def _joined(pieces: Sequence[Piece], most: int) -> list[Piece]:
    """The first ones unchanged, the rest as one piece."""
    if len(pieces) <= most:
        return list(pieces)
    apart, rest = list(pieces[: most - 1]), pieces[most - 1 :]
    start, end = min(piece.start for piece in rest), max(piece.end for piece in rest)
    used = [piece for piece in rest if piece.sort is not Sort.FREE]
    free = sum(piece.size for piece in rest if piece.sort is Sort.FREE)
    sort = used[0].sort if used else Sort.FREE
    return [*apart, Piece(start, end, sort, _summary(used, len(rest) - len(used), free))]


def _summary(used: Iterable[Piece], holes: int, free: int) -> str:
    names = {Sort.BUFFER: "buffer", Sort.DATAFLOW: "dataflow buffer"}
    count = Counter(names.get(piece.sort, "CB range") for piece in used)
    parts = [f"{number} {word}{'s' * (number > 1)}" for word, number in count.items()]
    if holes:
        parts.append(
            f"{holes} {'hole' if holes == 1 else 'holes'} of {core_size(Units.BINARY, free)}"
        )
    return ", ".join(parts)
