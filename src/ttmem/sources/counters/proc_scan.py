"""Which processes map a counter file or have a card open, and which pids they have in containers: a scan of /proc.

It takes some tenths of a millisecond per process of the host, so it is repeated less often than counters are read. Maps
and open files of another user's process are hidden from us; its name and pids are not.
"""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable, Iterator
from typing import TypeVar

from ttmem.fast_dataclasses import dataclass, field
from ttmem.hw.cards import NODES
from ttmem.procfs import (
    content,
    environ,
    maps,
    name_and_inner_pid,
    shared_files,
    start_time_ns,
    user_id,
    visible_pids,
)
from ttmem.sources.listing import CpuBudget

DRIVER = "/proc/driver/tenstorrent"
_MARK = b"/tt_device_"
_DISABLED = b"TT_METAL_SHM_TRACKING_DISABLED"

# For the processes of one user (other than root) in one scan: a hundred processes take 20 ms.
CPU_SECONDS_PER_USER = 0.5

RegionKey = tuple[int, int]
_Answer = TypeVar("_Answer")


class ProcBudget(CpuBudget):
    """For questions about processes; those of root are unlimited."""

    def __init__(self, seconds: float = CPU_SECONDS_PER_USER) -> None:
        super().__init__(seconds, [0])
        self.skipped: dict[int | None, int] = {}

    def ask(self, uid: int | None, question: Callable[[int], _Answer], pid: int) -> _Answer | None:
        """None if the budget of the user is spent."""
        if self.is_spent(uid):
            self.skipped[uid] = self.skipped.get(uid, 0) + 1
            return None
        with self.of(uid):
            return question(pid)


@dataclass(frozen=True, slots=True)
class Mapping:
    """A counter file in the maps of a process; `key` is (device, inode)."""

    key: RegionKey
    name: str
    writable: bool  # as the runtime maps it


@dataclass(frozen=True, slots=True)
class AttachedProcess:
    """A process that maps a counter file or has a card open."""

    pid: int
    start_time_ns: int | None
    name: str
    mappings: tuple[Mapping, ...]
    cards: tuple[str, ...]
    tracking_disabled: bool | None  # None: its environment is hidden


@dataclass(frozen=True, slots=True)
class ProcScan:
    by_pid: dict[int, AttachedProcess] = field(default_factory=dict)
    names: dict[int, str] = field(default_factory=dict)
    in_containers: dict[int, tuple[int, ...]] = field(default_factory=dict)  # by the pid inside
    mapped_by: dict[RegionKey, frozenset[int]] = field(default_factory=dict)
    keys_of: dict[str, frozenset[RegionKey]] = field(default_factory=dict)  # by file name
    skipped: dict[int | None, int] = field(default_factory=dict)  # processes, by uid

    def maps(self, pid: int, region: RegionKey) -> bool:
        return pid in self.mapped_by.get(region, ())

    def name(self, pid: int) -> str | None:
        return self.names.get(pid)


class ProcScanner:
    """The latest scan, repeated when it is older than `period_s`.

    `hurried`: the first one is omitted if the counters can be explained without it.
    """

    def __init__(self, period_s: float = 5.0, cards: str = NODES, *, hurried: bool = False) -> None:
        self._period_s = period_s
        self.cards = cards
        self._hurried = hurried
        self._taken: float | None = None
        self._scan = ProcScan()

    def latest(self, needed: Callable[[], bool] = lambda: True) -> ProcScan:
        hurried, self._hurried = self._hurried, False
        if hurried and not needed():
            return self._scan
        now = time.monotonic()
        if self._taken is None or now - self._taken >= self._period_s:
            self._scan = scan_proc(self.cards, ProcBudget())
            self._taken = time.monotonic()
        return self._scan


def scan_proc(cards: str = NODES, budget: ProcBudget | None = None) -> ProcScan:
    """Leaves out processes that end meanwhile. Without `budget` it takes any time."""
    budget = budget or ProcBudget(math.inf)
    by_driver = open_cards(cards)
    card_folder = os.path.isdir(cards)  # without it, 30 readlinks per process are saved
    found: list[AttachedProcess] = []
    names: dict[int, str] = {}
    inside: dict[int, list[int]] = {}

    def look(pid: int) -> tuple[tuple[Mapping, ...], tuple[str, ...]]:
        return _mappings(maps(pid) or b""), tuple(_cards_of(pid, cards)) if card_folder else ()

    for pid in visible_pids():
        name, container_pid = name_and_inner_pid(pid)
        if name is None:
            continue
        names[pid] = name
        if container_pid is not None:
            inside.setdefault(container_pid, []).append(pid)
        mappings, own = budget.ask(user_id(pid), look, pid) or ((), ())
        held = tuple(sorted({*own, *by_driver.get(pid, ())}))
        if mappings or held:
            started = start_time_ns(pid)
            found.append(
                AttachedProcess(pid, started, name, mappings, held, _tracking_disabled(pid))
            )
    mapped_by: dict[RegionKey, set[int]] = {}
    keys_of: dict[str, set[RegionKey]] = {}
    for process in found:
        for mapping in process.mappings:
            mapped_by.setdefault(mapping.key, set()).add(process.pid)
            keys_of.setdefault(mapping.name, set()).add(mapping.key)
    return ProcScan(
        {process.pid: process for process in found},
        names,
        {number: tuple(pids) for number, pids in inside.items()},
        {key: frozenset(pids) for key, pids in mapped_by.items()},
        {name: frozenset(keys) for name, keys in keys_of.items()},
        budget.skipped,
    )


def mapped_regions(pid: int) -> frozenset[RegionKey] | None:
    """What the process maps now; None if that is hidden."""
    shared = shared_files(pid)
    if shared is not None:
        return shared
    data = maps(pid)
    return None if data is None else frozenset(each.key for each in _mappings(data))


def _mappings(data: bytes) -> tuple[Mapping, ...]:
    return tuple(dict.fromkeys(_mapped(data)))


def _mapped(data: bytes) -> Iterator[Mapping]:
    """Most lines are of other files, so they are not taken apart."""
    at = data.find(_MARK)
    while at >= 0:
        end = data.find(b"\n", at)
        end = len(data) if end < 0 else end
        # start-end, permissions, offset, major:minor, inode, path
        fields = data[data.rfind(b"\n", 0, at) + 1 : end].split(None, 5)
        if len(fields) == 6 and _MARK in fields[5]:
            major, _, minor = fields[3].partition(b":")
            path = fields[5].removesuffix(b" (deleted)").decode("utf-8", "replace")
            yield Mapping(
                (os.makedev(int(major, 16), int(minor, 16)), int(fields[4])),
                os.path.basename(path),
                b"w" in fields[1],
            )
        at = data.find(_MARK, end)


def _cards_of(pid: int, cards: str) -> Iterator[str]:
    folder = f"/proc/{pid}/fd"
    try:
        descriptors = os.listdir(folder)
    except OSError:
        return
    for descriptor in descriptors:
        try:
            target = os.readlink(f"{folder}/{descriptor}")
        except OSError:
            continue
        if target.startswith(f"{cards}/"):
            yield target


def open_cards(cards: str) -> dict[int, list[str]]:
    """Device files by pid, from the driver: everybody may read it, and it includes other users' processes."""
    found: dict[int, list[str]] = {}
    try:
        numbers = os.listdir(DRIVER)
    except OSError:
        return found
    for number in numbers:
        for word in (content(f"{DRIVER}/{number}/pids") or b"").split():
            if word.isdigit():
                found.setdefault(int(word), []).append(f"{cards}/{number}")
    return found


def _tracking_disabled(pid: int) -> bool | None:
    values = environ(pid)
    return None if values is None else values.get(_DISABLED, b"").startswith(b"1")
