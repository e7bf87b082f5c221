"""The map of a core as lines: a strip to scale, and a row for each piece, the highest address first."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from ttmem.views.ink import Line, Span, Style, clip_line, faint, ink
from ttmem.views.monitor.core_map import CoreMap, Piece, Sort
from ttmem.views.monitor.core_owner import Owned
from ttmem.views.monitor.core_sizes import core_size
from ttmem.views.monitor.state import Units

# Each sort can be told by its sign alone, where there is no colour.
_LOOKS: dict[Sort, tuple[str, str, Style]] = {
    Sort.RESERVED: ("░", "-", Style.FAINT),
    Sort.RING: ("▒", "r", Style.RING),
    Sort.CB: ("▚", "c", Style.CB),
    Sort.DATAFLOW: ("▞", "d", Style.CB),
    Sort.CACHED: ("╱", "/", Style.CB),
    Sort.FREE: ("·", ".", Style.FAINT),
    Sort.BUFFER: ("█", "b", Style.L1),
    Sort.SMALL: ("▓", "s", Style.L1_SMALL),
    Sort.OVERLAP: ("!", "!", Style.ALARM),
    Sort.UNKNOWN: ("?", "?", Style.FAINT),
}
ROOM_FOR_TITLES = 8  # lines
_QUIET = (Sort.FREE, Sort.RESERVED, Sort.UNKNOWN)


def strip(found: CoreMap, width: int, ascii: bool) -> Line:
    """The whole L1 from address 0 on the left to its end; each column shows what fills most of it."""
    shares: list[Counter[Sort]] = [Counter() for _ in range(width)]
    for piece in _pieces(found):
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
    found: CoreMap, room: int, width: int, units: Units, ascii: bool, own: Owned | None = None
) -> list[Line]:
    """At most `room` lines: neighbours of one group are joined until they fit; `own` is marked."""
    titled = room >= ROOM_FOR_TITLES
    pieces = _fitting(found, room - titled)[:room]
    address = len(f"{found.end:#x}")
    size = max((len(core_size(units, piece.size)) for piece in pieces), default=0)
    gutter = "" if own is None else "  "
    title = faint(f"  {'from'.ljust(address)}  {'size'.rjust(size)}  {gutter}what")
    return [
        *([clip_line(title, width)] if titled else []),
        *(_row(piece, address, size, width, units, ascii, own) for piece in pieces),
    ]


def _row(
    piece: Piece,
    address: int,
    size: int,
    width: int,
    units: Units,
    ascii: bool,
    own: Owned | None,
) -> Line:
    quiet = piece.sort in _QUIET
    loud = Style.ALARM if piece.sort is Sort.OVERLAP else Style.PLAIN
    line = (
        _mark(piece.sort, ascii),
        Span(" "),
        *faint(f"0x{piece.start:0{address - 2}x}"),
        *ink(f"  {core_size(units, piece.size).rjust(size)}  ", loud),
        *(() if own is None else ink(f"{_owner_mark(piece, own)} ", Style.LABEL)),
        *(faint(piece.label) if quiet else ink(piece.label, loud)),
    )
    return clip_line(line, width)


def _owner_mark(piece: Piece, own: Owned) -> str:
    """What is free is nobody's, though ranges of the chosen may be among those that were joined to it."""
    return " " if piece.sort in _QUIET else own.mark(piece.start, piece.end)


def _mark(sort: Sort, ascii: bool) -> Span:
    sign, plain, style = _LOOKS[sort]
    return Span(plain if ascii else sign, style)


def _pieces(found: CoreMap) -> list[Piece]:
    groups = (found.below, found.growing_up, (found.between,), found.growing_down, found.above)
    return [piece for group in groups for piece in group]


def _fitting(found: CoreMap, room: int) -> list[Piece]:
    """From the highest to the lowest. What is nearest to the gap stays apart longest."""
    fixed = len(found.below) + len(found.above) + 1
    spare = max(room - fixed, 2)
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
    """The first ones as they are, the rest as one piece."""
    if len(pieces) <= most:
        return list(pieces)
    apart, rest = list(pieces[: most - 1]), pieces[most - 1 :]
    start, end = min(piece.start for piece in rest), max(piece.end for piece in rest)
    used = [piece for piece in rest if piece.sort is not Sort.FREE]
    free = sum(piece.size for piece in rest if piece.sort is Sort.FREE)
    sort = used[0].sort if used else Sort.FREE
    return [*apart, Piece(start, end, sort, _summary(used, len(rest) - len(used), free))]


def _summary(used: Iterable[Piece], holes: int, free: int) -> str:
    words = {Sort.BUFFER: "buffer", Sort.DATAFLOW: "dataflow buffer"}
    count = Counter(words.get(piece.sort, "CB range") for piece in used)
    parts = [f"{number} {word}{'s' * (number > 1)}" for word, number in count.items()]
    if holes:
        parts.append(
            f"{holes} {'hole' if holes == 1 else 'holes'} of {core_size(Units.BINARY, free)}"
        )
    return ", ".join(parts)
