"""Facts about a host, for `ttmem doctor` and `clean`: cards, runtimes, counter files, probe regions, sockets, limits.

Nothing is judged here. What is unknown is None. Gathering takes half a second on a large host.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import closing
from itertools import chain, islice

from ttmem.clock import now_ns
from ttmem.events import DeviceSample, Remark
from ttmem.fast_dataclasses import dataclass, replace
from ttmem.hw.cards import NODES, cards, names
from ttmem.hw.runtimes import loaded_runtime
from ttmem.procfs import (
    comm,
    command_line,
    content,
    in_initial_namespace,
    start_time_ns,
    user_id,
    user_name,
    visible_pids,
)
from ttmem.sources.containers import Container, ContainerFacts, Containers, containers_beside
from ttmem.sources.counters.proc_scan import (
    DRIVER,
    ProcBudget,
    ProcScan,
    ProcScanner,
    open_cards,
)
from ttmem.sources.counters.source import CounterSource
from ttmem.sources.listing import shared_status
from ttmem.sources.probe.cleanup import free_and_total
from ttmem.sources.probe.region import ProbeRegion
from ttmem.sources.probe.region_file import BadRegion, ForeignRegion, RegionEntry, find_regions
from ttmem.sources.socket.listener import SocketFacts, knock
from ttmem.text import printable

_DRIVER = "/sys/module/tenstorrent/version"
MOST = 1024  # probe regions


@dataclass(frozen=True, slots=True)
class CardFacts:
    """One card of the driver; `node` is its device file."""

    name: str
    board: str | None
    pci: str | None
    node: str | None
    usable: bool | None  # whether this user may open `node`; None without one


@dataclass(frozen=True, slots=True)
class RuntimeUse:
    """One installed ttnn, and the live processes that have it loaded."""

    version: str | None
    path: str
    pids: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class RegionFacts:
    """A counter file that could be read."""

    sample: DeviceSample
    size: int
    mode: int
    user: str | None
    mapped_by: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class FolderFacts:
    """The directory of counter files and regions, and the space in it."""

    path: str
    size: int | None
    free: int | None


@dataclass(frozen=True, slots=True)
class HiddenFacts:
    """A process of which this user may not know whether it is in a container."""

    pid: int
    command: str | None
    has_card: bool | None  # whether it has a card open; None if nobody says


@dataclass(frozen=True, slots=True)
class ProbeFacts:
    """A region of the probe. `features` is empty before the first device was opened."""

    path: str
    pid: int
    size: int
    user: str | None
    alive: bool
    version: int | None = None
    tracking: bool | None = None
    features: tuple[tuple[str, bool], ...] = ()
    problem: str | None = None  # why it cannot be read
    closed: bool = False  # because only its owner, another user, may read it
    foreign: bool = False  # because it names a process of another user

    @property
    def left_over(self) -> bool:
        """Whether its process is dead, so that only `ttmem dump` still needs it."""
        return not self.alive and self.problem is None


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What this process cannot see."""

    host_pids: bool  # it is in the pid namespace of the host
    host_ipc: bool  # and in its ipc namespace, which usually implies the same /dev/shm
    hidden_pids: bool  # /proc hides other users' processes from this user
    root: bool
    tracking_disabled: bool = False  # in the environment of processes started here
    may_trace: bool = True  # it has CAP_SYS_PTRACE


@dataclass(frozen=True, slots=True)
class HostFacts:
    """`remarks` are on skipped files and on processes that publish nothing."""

    time_ns: int
    driver: str | None
    cards: tuple[CardFacts, ...]
    runtimes: tuple[RuntimeUse, ...]
    folder: FolderFacts
    regions: tuple[RegionFacts, ...]
    remarks: tuple[Remark, ...]
    containers: tuple[ContainerFacts, ...]
    hidden: tuple[HiddenFacts, ...]
    sockets: tuple[SocketFacts, ...]
    probes: tuple[ProbeFacts, ...]
    surroundings: Surroundings


def gather(folder: str, socket: str) -> HostFacts:
    """From the directory of regions and the socket of the server."""
    watch = ProcScanner(period_s=float("inf"))
    scan = watch.latest()
    containers = containers_beside(folder)
    reading = CounterSource(folder, scanner=watch, containers=containers).read()
    inside = (
        {} if containers is None else {container.path: container for container in containers.look()}
    )
    probes = (*probe_facts(folder), *chain.from_iterable(map(probe_facts, inside.values())))
    watched = {probe.pid for probe in probes if probe.alive and probe.problem is None}
    regions = tuple(
        facts
        for sample in reading.devices
        if (facts := _region(sample, watched, scan, inside)) is not None
    )
    free, size = free_and_total(folder) or (None, None)
    return HostFacts(
        time_ns=now_ns(),
        driver=driver_version(),
        cards=card_facts(),
        runtimes=runtimes_in_use(),
        folder=FolderFacts(folder, size, free),
        regions=regions,
        remarks=_of_unwatched(reading.remarks, watched),
        containers=() if containers is None else tuple(_container_facts(containers, scan)),
        hidden=() if containers is None else tuple(map(_hidden_facts, containers.hidden)),
        sockets=(knock(socket),),
        probes=probes,
        surroundings=surroundings(),
    )


def _of_unwatched(remarks: Iterable[Remark], watched: Collection[int]) -> tuple[Remark, ...]:
    """Leaves out that a process publishes nothing if the probe watches it."""
    return tuple(remark for remark in remarks if not (remark.of_silence and remark.pid in watched))


def _region(
    sample: DeviceSample,
    watched: Collection[int],
    scan: ProcScan,
    inside: Mapping[str, Container],
) -> RegionFacts | None:
    try:
        status = shared_status(sample.path, inside.get(os.path.dirname(sample.path)))
    except OSError:
        return None  # gone meanwhile
    mappers = scan.mapped_by.get((status.st_dev, status.st_ino), frozenset())
    return RegionFacts(
        replace(sample, remarks=_of_unwatched(sample.remarks, watched)),
        status.st_size,
        stat.S_IMODE(status.st_mode),
        user_name(status.st_uid),
        tuple(sorted(mappers)),
    )


def _container_facts(containers: Containers, scan: ProcScan) -> Iterator[ContainerFacts]:
    for container in containers.look():
        yield ContainerFacts(
            container.path, tuple(sorted(container.pids)), container.counters, container.regions
        )
    for unread in containers.unread():
        yield replace(unread, in_use=not scan.by_pid.keys().isdisjoint(unread.pids))


def driver_version(path: str = _DRIVER) -> str | None:
    """None if the driver is not loaded."""
    return (content(path) or b"")[:64].decode("ascii", "replace").strip() or None


def card_facts(sysfs: str | None = None, nodes: str = NODES) -> tuple[CardFacts, ...]:
    """Cards in sysfs and device files, matched by number."""
    there = set(names(nodes))
    listed = {str(card.number): card for card in cards(sysfs)}
    found = []
    for number in sorted({*listed, *there}, key=lambda number: (len(number), number)):
        if number.isdigit():
            card, node = listed.get(number), f"{nodes}/{number}" if number in there else None
            board = card.board.name if card and card.board else None
            usable = None if node is None else os.access(node, os.R_OK | os.W_OK)
            found.append(CardFacts(number, board, card.pci if card else None, node, usable))
    return tuple(found)


def probe_facts(folder: str | Container) -> tuple[ProbeFacts, ...]:
    """In the order of their names, up to a limit."""
    found = map(_probe_facts, islice(find_regions(folder), MOST))
    return tuple(facts for facts in found if facts is not None)


def _probe_facts(name: RegionEntry) -> ProbeFacts | None:
    try:
        status = shared_status(name.path, name.container)
    except OSError:
        return None  # gone meanwhile
    size, user = status.st_size, user_name(status.st_uid)
    try:
        with closing(ProbeRegion(name.path, container=name.container)) as region:
            header = region.header()
            return ProbeFacts(
                name.path,
                region.pid,
                size,
                user,
                region.process_alive(),
                header.version,
                header.tracking,
                tuple(sorted(region.features().items())),
            )
    except (BadRegion, OSError, ValueError) as problem:
        reason = str(problem)
        closed = isinstance(problem.__cause__, PermissionError)
        foreign = isinstance(problem, ForeignRegion)
    alive = name.container is None and start_time_ns(name.pid) is not None
    return ProbeFacts(
        name.path, name.pid, size, user, alive, problem=reason, closed=closed, foreign=foreign
    )


def runtimes_in_use() -> tuple[RuntimeUse, ...]:
    """One for each installed ttnn; processes with hidden maps are left out."""
    users: dict[tuple[str, str | None], list[int]] = {}
    budget = ProcBudget()
    for pid in visible_pids():
        loaded = budget.ask(user_id(pid), loaded_runtime, pid)
        if loaded is not None:
            users.setdefault(loaded, []).append(pid)
    return tuple(
        RuntimeUse(version, path, tuple(sorted(pids)))
        for (path, version), pids in sorted(users.items(), key=lambda item: item[0][0])
    )


def _hidden_facts(pid: int) -> HiddenFacts:
    """The driver lists who has a card open, in pids of the host; without cards nobody has one."""
    has_card: bool | None = None
    if os.path.isdir(DRIVER) and in_initial_namespace("pid"):
        has_card = pid in open_cards(NODES)
    elif not os.path.isdir(NODES):
        has_card = False
    return HiddenFacts(pid, command_line(pid) or printable(comm(pid)) or None, has_card)


_PTRACE = 1 << 19


def _may_trace() -> bool:
    status = content("/proc/self/status") or b""
    found = re.search(rb"^CapEff:\s*([0-9a-f]+)", status, re.MULTILINE)
    return found is None or bool(int(found[1], 16) & _PTRACE)


def surroundings() -> Surroundings:
    root = os.geteuid() == 0
    return Surroundings(
        host_pids=bool(in_initial_namespace("pid")),
        host_ipc=bool(in_initial_namespace("ipc")),
        hidden_pids=not root and proc_hides(content("/proc/self/mounts") or b""),
        root=root,
        tracking_disabled=os.environ.get("TT_METAL_SHM_TRACKING_DISABLED", "").startswith("1"),
        may_trace=_may_trace(),
    )


def proc_hides(mounts: bytes) -> bool:
    """Whether hidepid is on, according to /proc/self/mounts: device, directory, type, options, ..."""
    for line in mounts.splitlines():
        fields = line.split()
        if len(fields) > 3 and fields[1:3] == [b"/proc", b"proc"]:
            options = dict(option.partition(b"=")[::2] for option in fields[3].split(b","))
            return options.get(b"hidepid", b"0") not in (b"0", b"off")
    return False
