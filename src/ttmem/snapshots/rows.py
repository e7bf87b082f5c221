"""The rows of a snapshot's details: one buffer, circular buffer, kernel, program, core set or event each.

There may be a million buffers, so rows are named tuples: making a frozen dataclass with slots takes five times as long.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from ttmem.fast_dataclasses import NamedTuple
from ttmem.wire.frames import GRID_LIMIT

Core = tuple[int, int]  # column, row
Range = tuple[int, int]  # the first address, and the one after the last


class MadeBy(NamedTuple):
    """The process and the line of code that allocated a buffer, and the kind of memory."""

    pid: int | None
    kind: str
    name: str | None  # of the op
    site: str | None
    phase: str | None


class Buffer(NamedTuple):
    """A live buffer."""

    pid: int | None
    device: str | None  # unique id
    kind: str  # DRAM, L1, L1_SMALL, TRACE or SYSTEM_MEMORY (host memory, part of no total)
    id: int = 0
    address: int | None = None
    requested: int = 0
    reserved: int | None = None  # in all banks
    references: int = 1
    time_ns: int = 0  # when it was allocated
    name: str | None = None
    site: str | None = None
    phase: str | None = None

    @property
    def held(self) -> int:
        """Reserved where it is known, else requested, as in all totals."""
        return self.reserved or self.requested

    @property
    def call_site(self) -> str | None:
        """The innermost line of `site`, which has one line per caller below it where stacks are recorded."""
        return self.site and self.site.partition("\n")[0]

    @property
    def made_by(self) -> MadeBy:
        """What the buffers of one row have in common where they are listed by call site."""
        return MadeBy(self.pid, self.kind, self.name, self.call_site, self.phase)

    @property
    def allocation(self) -> tuple[int | None, int, int | None, int]:
        """The same for the copies of one buffer on the chips of a mesh, which count as one buffer.

        An address is not enough: two submeshes may each have a tensor of the same size at the same address.
        """
        return self.pid, self.id, self.address, self.requested


def count_allocations(buffers: Iterable[Buffer]) -> int:
    """The copies of a buffer on the chips of a mesh count once."""
    return len({buffer.allocation for buffer in buffers})


class CircularBuffer(NamedTuple):
    """A circular or dataflow buffer of a live program."""

    pid: int | None
    device: str | None
    program: int | None = None
    address: int = 0
    size: int = 0  # on all its cores
    per_core: int | None = None
    is_global: bool = False  # lies on an L1 buffer, which is counted itself
    dataflow: bool = False
    references: int = 1
    time_ns: int = 0


class Kernel(NamedTuple):
    pid: int | None
    device: str | None
    type: str  # application, fabric or dispatch
    id: int = 0
    program: int | None = None
    name: str | None = None
    binary: int | None = None  # bytes of one copy
    cores: int | None = None
    footprint: int = 0  # binary x cores
    content: str | None = None  # a hash of the binary
    loads: int | None = None
    dispatches: int | None = None
    time_ns: int = 0
    site: str | None = None


class Program(NamedTuple):
    pid: int | None
    device: str | None
    program: int = 0
    status: str | None = None  # of its binaries: NotSent, InFlight or Committed
    dispatches: int | None = None
    cache_hits: int | None = None
    cache_misses: int | None = None
    last_dispatch_ns: int | None = None
    resident: int | None = None  # bytes of circular buffers where it was dispatched last
    resident_cores: int | None = None
    name: str | None = None
    site: str | None = None  # created it
    last_site: str | None = None  # dispatched it last


class LoggedEvent(NamedTuple):
    """An event with the names its numbers stand for."""

    time_ns: int
    pid: int | None
    device: str | None
    op: str | int  # a number if this version does not know the event
    kind: str | None = None  # its meaning depends on `op`
    flags: tuple[str, ...] = ()
    id: int = 0
    size: int | None = None
    extra: int = 0
    address: int = 0
    number: int = 0
    cores: int = 0
    phase: str | None = None
    text: str | None = None  # the runtime's message about a failed allocation
    name: str | None = None
    site: str | None = None


class Cores:
    """A set of cores: bit 32 * row + column for each."""

    __slots__ = ("bits",)

    def __init__(self, bits: int = 0) -> None:
        self.bits = bits

    @classmethod
    def of(cls, cores: Iterable[Iterable[int]]) -> Cores:
        """ValueError if one of them is beyond every grid."""
        bits = 0
        for x, y in cores:
            if type(x) is not int or type(y) is not int:
                raise ValueError(f"({x!r:.20}, {y!r:.20}) is not a core")
            if not (0 <= x < GRID_LIMIT and 0 <= y < GRID_LIMIT):
                raise ValueError(f"there is no core ({x}, {y})")
            bits |= 1 << (y * GRID_LIMIT + x)
        return cls(bits)

    @classmethod
    def from_mask(cls, mask: bytes) -> Cores:
        """From the 128-byte mask of events."""
        return cls(int.from_bytes(mask, "little"))

    def __contains__(self, core: Core) -> bool:
        x, y = core
        inside = 0 <= x < GRID_LIMIT and 0 <= y < GRID_LIMIT
        return inside and bool(self.bits >> (y * GRID_LIMIT + x) & 1)

    def __iter__(self) -> Iterator[Core]:
        """Row by row."""
        bits = self.bits
        while bits:
            at = (bits & -bits).bit_length() - 1
            yield at % GRID_LIMIT, at // GRID_LIMIT
            bits &= bits - 1

    def __len__(self) -> int:
        return self.bits.bit_count()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Cores) and self.bits == other.bits

    def __hash__(self) -> int:
        return hash(self.bits)

    def __repr__(self) -> str:
        return f"Cores.of({list(self)})"


class CoreSet(NamedTuple):
    """Cores on which the circular buffers of a process's live programs occupy the same addresses."""

    pid: int | None
    cores: Cores
    cached: int = 0  # bytes on each of them
    regions: tuple[Range, ...] = ()
    highest_program: int | None = None  # the one that reaches the highest address


class ResidentBuffer(NamedTuple):
    """A circular or dataflow buffer of the program dispatched last on these cores."""

    pid: int | None
    program: int | None
    cores: Cores
    start: int
    end: int
    dataflow: bool = False


class MemoryHistory(NamedTuple):
    """Bytes held on one device: columns with one sample a second, oldest first, an hour at most."""

    time_ns: tuple[int, ...]
    dram: tuple[int, ...]
    l1: tuple[int, ...]
    l1_small: tuple[int, ...]
    trace: tuple[int, ...]
    cb: tuple[int, ...]
    l1_used: tuple[int, ...]


Row = Buffer | CircularBuffer | Kernel | Program | LoggedEvent
ROWS = (Buffer, CircularBuffer, Kernel, Program, LoggedEvent, CoreSet, ResidentBuffer)
