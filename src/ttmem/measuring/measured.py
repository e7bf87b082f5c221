"""What happened between two instants: peaks, what was alive at them, what was not freed; limits, and baselines."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, fields
from functools import cached_property
from typing import Any

from ttmem.analysis.composition import Holder, Part, composition, grouped
from ttmem.analysis.history import L1_USED, MEMORIES, History
from ttmem.analysis.leaks import BINARIES
from ttmem.errors import BadInput
from ttmem.events import MemoryKind
from ttmem.notebook import Rows
from ttmem.recording import Recording
from ttmem.recording.memory import ChunkMemory, MemorySource
from ttmem.sizes import human, parse_size
from ttmem.snapshots import Buffer, Question, Snapshot
from ttmem.version import __version__

MOST_PLANS = 300  # different sets of circular buffers that are searched for the fullest core
PER_CORE = "l1_per_core"
FIELDS = ("op", "site", "stack", "phase", "pid", "part")
Identity = tuple[int | None, int, str | None, str]


@dataclass(frozen=True, slots=True)
class Peak:
    """The highest value at any instant, in bytes of one device; None: unknown, `Watch.why` says why."""

    dram: int | None = None
    l1: int | None = None  # buffers
    l1_small: int | None = None
    trace: int | None = None
    cb: int | None = None  # circular buffers: the union of their addresses in all cached programs
    l1_used: int | None = None  # L1 + L1_SMALL + circular buffers
    l1_per_core: int | None = None  # the same on the fullest core


PEAKS = tuple(each.name for each in fields(Peak))


class Measured:
    """A finished measurement. Bytes are reserved bytes, in all banks."""

    def __init__(self, memory: ChunkMemory) -> None:
        self._recording = Recording(MemorySource(memory, "this measurement"))
        first = self._recording.info().first
        start = self._recording.instant(f"#{first}")
        self.start: Snapshot = self._recording.snapshot(start, Question(("buffers",)))
        self.end: Snapshot = self._recording.at("end", ("buffers",))
        self._history = History(self._recording)

    @property
    def losses(self) -> tuple[str, ...]:
        """Why there are no figures; empty: nothing is missing."""
        return self._history.losses

    @cached_property
    def devices(self) -> Mapping[str, Peak]:
        """By unique id, without devices on which nothing was allocated."""
        found: dict[str, dict[str, int | None]] = {}
        for peak in self._history.peaks:
            zeros: dict[str, int | None] = dict.fromkeys((*MEMORIES, PER_CORE), 0)
            found.setdefault(peak.device, zeros)[peak.memory] = peak.bytes
        for device, figures in found.items():
            figures[PER_CORE] = self._fullest_core(device)
        return {device: Peak(**figures) for device, figures in found.items()}

    @property
    def peak(self) -> Peak:
        """The peak of the device that held most, for each memory separately."""
        figures: dict[str, int | None] = {}
        for name in PEAKS:
            values = [getattr(peak, name) for peak in self.devices.values()]
            figures[name] = None if None in values else max(values, default=0)
        return Peak(**figures)

    def _fullest_core(self, device: str) -> int | None:
        """Buffers take the same space on every core; circular buffers differ, but change seldom."""
        banks = self._recording.banks(device, MemoryKind.L1).number
        if not banks:
            return None
        plans: list[tuple[int, int, int]] = []  # position, bytes of buffers, bytes of CBs
        for position, _, where, amounts in self._recording.totals():
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
        return max((core_set.cached for core_set in cores), default=0)

    def at_peak(self, memory: str = L1_USED) -> list[Holder]:
        """What was alive at the peak, on the device that held most; largest first."""
        peaks = [peak for peak in self._history.peaks if peak.memory == memory]
        if not peaks:
            return []
        highest = max(peaks, key=lambda peak: peak.bytes)
        return list(composition(self._history, highest).holders)

    @cached_property
    def _kept(self) -> list[Buffer]:
        """Allocated since the start, and alive at the end."""
        known = identities(self.start)
        return [buffer for buffer in self.end.buffers or () if identity(buffer) not in known]

    def _is_cached(self, buffer: Buffer) -> bool:
        """Kernel binaries always; L1_SMALL, where programs keep tables, if programs were added to the cache."""
        if buffer.name == BINARIES:
            return True
        devices = (one.device(buffer.device or "") for one in (self.start, self.end))
        before, after = (device.kernels.cache_entries or 0 if device else 0 for device in devices)
        return buffer.kind == "L1_SMALL" and after > before

    @property
    def leaked(self) -> Rows[Holder]:
        """What was allocated and not freed, by call site, except what cached programs keep (`cached`)."""
        return self.leaked_since(frozenset())

    @property
    def cached(self) -> Rows[Holder]:
        """What programs that were added to the program cache keep: kernel binaries, and their tables in L1_SMALL."""
        return by_site(filter(self._is_cached, self._kept))

    def leaked_since(self, known: frozenset[Identity]) -> Rows[Holder]:
        """The part of `leaked` that was not alive at an instant after the start."""
        return by_site(
            buffer
            for buffer in self._kept
            if identity(buffer) not in known and not self._is_cached(buffer)
        )


def identity(buffer: Buffer) -> Identity:
    return buffer.pid, buffer.id, buffer.device, buffer.kind


def identities(snapshot: Snapshot) -> frozenset[Identity]:
    """The identities of everything alive."""
    return frozenset(map(identity, snapshot.buffers or ()))


def by_site(buffers: Iterable[Buffer]) -> Rows[Holder]:
    """A buffer of a mesh is on each of its chips; bytes are those of all chips."""
    holders = (
        Holder(b.kind, Part.PERSISTENT, b.pid, b.name, b.site, b.phase, 1, b.held) for b in buffers
    )
    return holder_rows(grouped(holders, "pid", "op", "site", "phase"))


def holder_rows(holders: Iterable[Holder]) -> Rows[Holder]:
    """With the columns of a notebook's table."""
    return Rows(
        holders,
        {
            "kind": lambda holder: holder.kind,
            "bytes": lambda holder: human(holder.bytes),
            "number": lambda holder: f"{holder.number:,}",
            "op": lambda holder: holder.op or "",
            "call site": lambda holder: holder.field("site") or "",
            "phase": lambda holder: holder.phase or "",
        },
    )


LEAKS = "leaks"
SCHEMA = "ttmem.baseline/1"


@dataclass(frozen=True, slots=True)
class Budget:
    """Bytes by name: peaks of one device, and leaks."""

    most: Mapping[str, int] = field(default_factory=dict)

    @classmethod
    def of(cls, given: Mapping[str, object]) -> Budget:
        """As in `@pytest.mark.ttmem(l1="20 MiB", leaks=0)`; BadInput if invalid."""
        most = {}
        for name, value in given.items():
            if name not in (*PEAKS, LEAKS):
                raise BadInput(
                    f"there is no limit {name!r}; known are {', '.join((*PEAKS, LEAKS))}"
                )
            if isinstance(value, bool) or not isinstance(value, int | str):
                raise BadInput(
                    f"{name}={value!r} is not a size; write bytes, or a text such as '20 MiB'"
                )
            size = parse_size(value) if isinstance(value, str) else value
            if size < 0:
                raise BadInput(f"{name}={value!r}: a limit cannot be negative")
            most[name] = size
        return cls(most)

    @classmethod
    def parse(cls, text: str) -> Budget:
        """'leaks=0,l1=20MiB'."""
        pairs = [part.partition("=") for part in text.replace(";", ",").split(",") if part.strip()]
        wrong = [name for name, sign, value in pairs if not sign or not value.strip()]
        if wrong or not pairs:
            raise BadInput(f"{text!r} has no limits; write them as leaks=0,l1=20MiB")
        return cls.of({name.strip(): value.strip() for name, _, value in pairs})

    def with_own(self, own: Budget) -> Budget:
        """`own` takes precedence where both have a limit."""
        return Budget({**self.most, **own.most})

    def exceeded(self, peak: Peak, leaked: int | None) -> Iterator[str]:
        """A sentence for each limit that was exceeded, or could not be checked."""
        for name, most in self.most.items():
            value = leaked if name == LEAKS else getattr(peak, name)
            if value is None:
                yield f"{name}: the limit of {human(most)} cannot be checked, because the value is N/A"
            elif value > most:
                found, allowed = _sizes(value, most)
                what = f"{found} were not freed" if name == LEAKS else f"the peak was {found}"
                yield f"{name}: {what}, {allowed} are allowed"


def _sizes(one: int, other: int) -> tuple[str, str]:
    """Sizes that look alike are shown to the byte."""
    if human(one) != human(other):
        return human(one), human(other)
    return f"{one:,} B", f"{other:,} B"


def parse_percent(text: str) -> float:
    """'2%' -> 0.02."""
    try:
        percent = float(text.strip().removesuffix("%"))
    except ValueError:
        percent = -1.0
    if not 0 <= percent < 1000:
        raise BadInput(f"{text!r} is not a percentage; write it as 2%")
    return percent / 100


@dataclass(slots=True)
class Baseline:
    """Peaks of an earlier run, by test."""

    file: str
    ttnn: str | None = None
    tests: dict[str, dict[str, Any]] = field(default_factory=dict)

    @classmethod
    def read(cls, file: str, *, may_be_missing: bool = False) -> Baseline:
        """BadInput if it cannot be used."""
        advice = "--ttmem-update-baseline writes it"
        try:
            with open(file, encoding="utf-8") as opened:
                document = json.load(opened)
        except FileNotFoundError:
            if may_be_missing:
                return cls(file)
            raise BadInput(f"there is no baseline {file}; {advice}") from None
        except OSError as problem:
            raise BadInput(f"the baseline {file} cannot be read: {problem.strerror}") from None
        except ValueError as problem:
            raise BadInput(f"{file} is not a baseline ({problem}); {advice} again") from None
        schema = document.get("schema") if isinstance(document, dict) else None
        if schema != SCHEMA or not isinstance(document.get("tests"), dict):
            told = f"its schema is {schema!r}, this ttmem reads {SCHEMA!r}"
            raise BadInput(
                f"{file} is not a baseline that ttmem {__version__} can read: {told}; {advice} again"
            )
        return cls(file, document.get("ttnn"), document["tests"])

    def write(self, ttnn: str | None) -> None:
        """Atomically, and sorted by name, so that diffs in a repository show what has changed."""
        tests = dict(sorted(self.tests.items()))
        document = {"schema": SCHEMA, "ttmem": __version__, "ttnn": ttnn, "tests": tests}
        folder = os.path.dirname(os.path.abspath(self.file))
        os.makedirs(folder, exist_ok=True)
        new = f"{self.file}.{os.getpid()}.new"
        with open(new, "w", encoding="utf-8") as opened:
            json.dump(document, opened, indent=1)
            opened.write("\n")
        os.replace(new, self.file)

    def increased(self, test: str, peak: Peak, board: str, share: float) -> Iterator[str]:
        """A sentence for each peak that is higher. BadInput if there is nothing to compare with."""
        known = self.tests.get(test)
        if known is None:
            raise BadInput(
                f"it is not in the baseline {self.file}; --ttmem-update-baseline adds it"
            )
        if known.get("board") != board:
            raise BadInput(
                f"its baseline was measured on {known.get('board')}, and this is {board}: not comparable."
                " Use a baseline file for each board, or --ttmem-update-baseline"
            )
        for name in PEAKS:
            before, now = known.get(name), getattr(peak, name)
            if type(before) is int and now is not None and now > before * (1 + share):
                more = f" ({(now - before) / before:+.1%})" if before else ""
                found, earlier = _sizes(now, before)
                yield f"{name}: the peak was {found}{more}, {earlier} in the baseline"
