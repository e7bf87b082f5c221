"""What happened between two instants: peaks, what was alive at them, and what was allocated and not freed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields
from functools import cached_property

from ttmem.analysis.composition import Holder, Part, composition, grouped
from ttmem.analysis.history import L1_USED, MEMORIES, History
from ttmem.analysis.leaks import BINARIES
from ttmem.events import MemoryKind
from ttmem.html import Rows
from ttmem.measuring.follow import MemoryFile
from ttmem.recording import Recording
from ttmem.sizes import human
from ttmem.snapshots import Buffer, Snapshot

MOST_PLANS = 300  # different sets of circular buffers in which the fullest core is sought
PER_CORE = "l1_per_core"
FIELDS = ("op", "site", "stack", "phase", "pid", "part")
Identity = tuple[int | None, int, str | None, str]


@dataclass(frozen=True, slots=True)
class Peak:
    """The most that was held at any instant, in bytes of one device; None: unknown, `Watch.why` says why."""

    dram: int | None = None
    l1: int | None = None  # buffers
    l1_small: int | None = None
    trace: int | None = None
    cb: int | None = None  # circular buffers: the union of their addresses in all cached programs
    l1_used: int | None = None  # L1 + L1_SMALL + circular buffers
    l1_per_core: int | None = None  # the same on the fullest core


class Measured:
    """A measurement that has ended. Bytes are reserved ones, in all banks."""

    def __init__(self, file: MemoryFile) -> None:
        self._recording = Recording(file)
        first = self._recording.info().first
        start = self._recording.instant(f"#{first}")
        self.start: Snapshot = self._recording.snapshot(start, ("buffers",))
        self.end: Snapshot = self._recording.at("end", ("buffers",))
        before = self.start.losses.dropped_events
        self._history = History(self._recording, lost_before=before)

    @property
    def losses(self) -> tuple[str, ...]:
        """Why no figure can be given; empty: nothing is missing."""
        return self._history.losses

    @cached_property
    def devices(self) -> Mapping[str, Peak]:
        """By unique id; devices that held nothing are left out."""
        found: dict[str, dict[str, int | None]] = {}
        for peak in self._history.peaks:
            zeros: dict[str, int | None] = dict.fromkeys((*MEMORIES, PER_CORE), 0)
            found.setdefault(peak.device, zeros)[peak.memory] = peak.bytes
        for device, figures in found.items():
            figures[PER_CORE] = self._fullest_core(device)
        return {device: Peak(**figures) for device, figures in found.items()}

    @property
    def peak(self) -> Peak:
        """Of the device that held most, for each memory by itself."""
        if not self.devices:
            return Peak(*[0] * len(fields(Peak)))
        figures: dict[str, int | None] = {}
        for field in fields(Peak):
            values = [getattr(one, field.name) for one in self.devices.values()]
            figures[field.name] = None if None in values else max(values)
        return Peak(**figures)

    def _fullest_core(self, device: str) -> int | None:
        """Buffers take the same of every core; circular buffers differ, but change seldom."""
        banks = self._recording.banks(device, MemoryKind.L1).number
        if not banks:
            return None
        plans: list[tuple[int, int, int]] = []  # position, bytes of buffers, bytes of CBs
        for position, _, where, amounts in self._history.totals():
            if where != device:
                continue
            held = amounts.l1 + amounts.l1_small
            if not plans or plans[-1][2] != amounts.cb:
                plans.append((position + 1, held, amounts.cb))
            elif held > plans[-1][1]:
                plans[-1] = position + 1, held, amounts.cb
        if sum(1 for _, _, cb in plans if cb) > MOST_PLANS:
            return None
        return max(
            (held // banks + (self._largest_cb(device, at) if cb else 0) for at, held, cb in plans),
            default=0,
        )

    def _largest_cb(self, device: str, position: int) -> int:
        cores = (self._history.at(position, "cores").cores or {}).get(device, ())
        return max((one.cached for one in cores), default=0)

    def at_peak(self, memory: str = L1_USED) -> list[Holder]:
        """What was alive when the most was held, on the device that held most; largest first."""
        peaks = [one for one in self._history.peaks if one.memory == memory]
        if not peaks:
            return []
        highest = max(peaks, key=lambda one: one.bytes)
        return list(composition(self._history, highest).holders)

    @cached_property
    def _kept(self) -> list[Buffer]:
        """Allocated since the start, and alive at the end."""
        known = identities(self.start)
        return [one for one in self.end.buffers or () if identity(one) not in known]

    def _is_cached(self, buffer: Buffer) -> bool:
        """Kernel binaries always; L1_SMALL, where programs keep tables, if programs were added to the cache."""
        if buffer.name == BINARIES:
            return True
        before, after = (
            device.kernels.cache_entries or 0 if device else 0
            for device in (one.device(buffer.device or "") for one in (self.start, self.end))
        )
        return buffer.kind == "L1_SMALL" and after > before

    @property
    def leaked(self) -> Rows[Holder]:
        """What was allocated and not freed, by call site; what programs in the program cache keep is `cached`."""
        return by_site(one for one in self._kept if not self._is_cached(one))

    @property
    def cached(self) -> Rows[Holder]:
        """What programs that were added to the program cache keep: kernel binaries, and their tables in L1_SMALL."""
        return by_site(filter(self._is_cached, self._kept))

    def leaked_since(self, known: frozenset[Identity]) -> Rows[Holder]:
        """Of `leaked`, what was not alive at a later instant than the start."""
        return by_site(
            one for one in self._kept if identity(one) not in known and not self._is_cached(one)
        )


def identity(buffer: Buffer) -> Identity:
    return buffer.pid, buffer.id, buffer.device, buffer.kind


def identities(snapshot: Snapshot) -> frozenset[Identity]:
    """Of everything that is alive."""
    return frozenset(map(identity, snapshot.buffers or ()))


def by_site(buffers: Iterable[Buffer]) -> Rows[Holder]:
    """A buffer of a mesh is on each of its chips; bytes are those of all of them."""
    holders = [
        Holder(one.kind, Part.PERSISTENT, one.pid, one.name, one.site, one.phase, 1, one.held)
        for one in buffers
    ]
    return holder_rows(grouped(holders, "pid", "op", "site", "phase"))


def holder_rows(holders: Iterable[Holder]) -> Rows[Holder]:
    """With the columns of a notebook's table."""
    return Rows(
        holders,
        {
            "kind": lambda one: one.kind,
            "bytes": lambda one: human(one.bytes),
            "number": lambda one: f"{one.number:,}",
            "op": lambda one: one.op or "",
            "call site": lambda one: one.field("site") or "",
            "phase": lambda one: one.phase or "",
        },
    )
