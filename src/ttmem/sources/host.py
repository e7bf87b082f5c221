"""Facts of a host at one instant: plain data, nothing judged. What is unknown is None."""

from __future__ import annotations

import os
import stat
from collections.abc import Collection, Iterable
from contextlib import closing
from dataclasses import dataclass, replace

from ttmem.clock import now_ns
from ttmem.events import DeviceSample, Remark
from ttmem.hw.cards import NODES, Card, cards
from ttmem.hw.runtimes import loaded_runtime
from ttmem.procfs import start_time_ns, user_id, user_name, visible_pids
from ttmem.sources.counters.proc_scan import CpuBudget, ProcScan, ProcScanner
from ttmem.sources.counters.source import CounterSource
from ttmem.sources.probe.region import ProbeRegion
from ttmem.sources.probe.region_file import BadRegion, ForeignRegion, RegionEntry, find_regions
from ttmem.sources.socket.knock import SocketFacts, knock


@dataclass(frozen=True, slots=True)
class CardFacts:
    """One card of the driver; `node` is its device file."""

    name: str
    board: str | None
    pci: str | None
    node: str | None
    usable: bool | None  # whether this user may open the node; None without a node


@dataclass(frozen=True, slots=True)
class RuntimeUse:
    """One installed ttnn, and the live processes that have it loaded."""

    version: str | None
    path: str
    pids: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class RegionFacts:
    """A region that could be read, and its file."""

    sample: DeviceSample
    size: int
    mode: int
    user: str | None
    mapped_by: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class FolderFacts:
    """Where regions lie, and the room that is left there."""

    path: str
    size: int | None
    free: int | None


@dataclass(frozen=True, slots=True)
class ProbeFacts:
    """A region of the probe. `features` is empty until the first device was opened."""

    path: str
    pid: int
    size: int
    user: str | None
    alive: bool
    version: int | None = None
    tracking: bool | None = None
    features: tuple[tuple[str, bool], ...] = ()
    problem: str | None = None  # why it cannot be read
    closed: bool = False  # the reason is that another user alone may read it
    foreign: bool = False  # the reason is that it names a process of another user

    @property
    def left_over(self) -> bool:
        """Of a dead process: only `ttmem dump` still wants it."""
        return not self.alive and self.problem is None


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What limits the view of this process."""

    host_pids: bool  # the pid namespace is that of the host
    host_ipc: bool  # so is the ipc namespace, and with it, as a rule, /dev/shm
    hidden_pids: bool  # /proc hides other users' processes from this user
    root: bool
    tracking_disabled: bool = False  # in the environment that processes started here inherit


@dataclass(frozen=True, slots=True)
class HostFacts:
    """All of it; `remarks` are of files that were skipped and processes that publish nothing."""

    time_ns: int
    driver: str | None
    cards: tuple[CardFacts, ...]
    runtimes: tuple[RuntimeUse, ...]
    folder: FolderFacts
    regions: tuple[RegionFacts, ...]
    remarks: tuple[Remark, ...]
    other_folders: tuple[tuple[int, str], ...]  # (pid, folder that it alone sees its region in)
    sockets: tuple[SocketFacts, ...]
    probes: tuple[ProbeFacts, ...]
    surroundings: Surroundings


def gather(folder: str, socket: str) -> HostFacts:
    """`folder`: where regions lie. `socket`: where the server should be."""
    watch = ProcScanner(period_s=float("inf"))
    scan = watch.latest()
    reading = CounterSource(folder, scanner=watch).read()
    probes = probe_facts(folder)
    watched = {probe.pid for probe in probes if probe.alive and probe.problem is None}
    regions = tuple(
        facts
        for sample in reading.devices
        if (facts := _region(_without_silence(sample, watched), scan)) is not None
    )
    return HostFacts(
        time_ns=now_ns(),
        driver=driver_version(),
        cards=card_facts(),
        runtimes=runtimes_in_use(),
        folder=_folder(folder),
        regions=regions,
        remarks=_of_unwatched(reading.remarks, watched),
        other_folders=tuple(_other_folders(scan)),
        sockets=(knock(socket),),
        probes=probes,
        surroundings=surroundings(),
    )


def _of_unwatched(remarks: Iterable[Remark], watched: Collection[int]) -> tuple[Remark, ...]:
    """Of a process that the probe watches it is known what it holds."""
    return tuple(one for one in remarks if not (one.of_silence and one.pid in watched))


def _without_silence(sample: DeviceSample, watched: Collection[int]) -> DeviceSample:
    return replace(sample, remarks=_of_unwatched(sample.remarks, watched))


def _region(sample: DeviceSample, scan: ProcScan) -> RegionFacts | None:
    try:
        status = os.lstat(sample.path)
    except OSError:
        return None  # gone meanwhile
    mappers = scan.mapped_by.get((status.st_dev, status.st_ino), frozenset())
    return RegionFacts(
        sample,
        status.st_size,
        stat.S_IMODE(status.st_mode),
        user_name(status.st_uid),
        tuple(sorted(mappers)),
    )


def _folder(path: str) -> FolderFacts:
    try:
        status = os.statvfs(path)
    except OSError:
        return FolderFacts(path, None, None)
    unit = status.f_frsize
    return FolderFacts(path, status.f_blocks * unit, status.f_bavail * unit)


def _other_folders(scan: ProcScan) -> list[tuple[int, str]]:
    """Processes, as a rule in containers, whose regions lie in a /dev/shm of their own."""
    ours = _identity("/dev/shm")
    found = []
    for process in scan.by_pid.values():
        folder = f"/proc/{process.pid}/root/dev/shm"
        if not process.mappings or _identity(folder) in (None, ours):
            continue
        if any(_identity(f"{folder}/{each.name}") == each.key for each in process.mappings):
            found.append((process.pid, folder))
    return found


def _identity(path: str) -> tuple[int, int] | None:
    try:
        status = os.stat(path)
    except OSError:
        return None
    return status.st_dev, status.st_ino


_DRIVER = "/sys/module/tenstorrent/version"


def driver_version(path: str = _DRIVER) -> str | None:
    """None if the driver is not loaded."""
    try:
        with open(path, encoding="ascii", errors="replace") as file:
            return file.read(64).strip() or None
    except OSError:
        return None


def card_facts(sysfs: str | None = None, nodes: str = NODES) -> tuple[CardFacts, ...]:
    """Those of sysfs with their device files, then device files without a card in sysfs."""
    there = set(_names(nodes))
    listed = {str(card.number): card for card in cards(sysfs)}
    numbers = [number for number in {*listed, *there} if number.isdigit()]
    numbers.sort(key=lambda number: (len(number), number))
    return tuple(
        _card_facts(number, listed.get(number), f"{nodes}/{number}" if number in there else None)
        for number in numbers
    )


def _card_facts(number: str, card: Card | None, node: str | None) -> CardFacts:
    return CardFacts(
        name=number,
        board=card.board.name if card and card.board else None,
        pci=card.pci if card else None,
        node=node,
        usable=None if node is None else os.access(node, os.R_OK | os.W_OK),
    )


def _names(folder: str) -> list[str]:
    try:
        return sorted(os.listdir(folder))
    except OSError:
        return []


MOST = 1024


def probe_facts(folder: str) -> tuple[ProbeFacts, ...]:
    """In the order of their names; a folder full of them is cut."""
    found = []
    for name, _ in zip(find_regions(folder), range(MOST), strict=False):
        facts = _probe_facts(name)
        if facts is not None:
            found.append(facts)
    return tuple(found)


def _probe_facts(name: RegionEntry) -> ProbeFacts | None:
    try:
        status = os.lstat(name.path)
    except OSError:
        return None  # gone meanwhile
    size, user = status.st_size, user_name(status.st_uid)
    try:
        with closing(ProbeRegion(name.path)) as region:
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
    alive = start_time_ns(name.pid) is not None
    return ProbeFacts(
        name.path, name.pid, size, user, alive, problem=reason, closed=closed, foreign=foreign
    )


def runtimes_in_use() -> tuple[RuntimeUse, ...]:
    """One for each installed ttnn; processes whose maps are hidden are not known."""
    users: dict[tuple[str, str | None], list[int]] = {}
    share = CpuBudget()
    for pid in visible_pids():
        loaded = share.ask(user_id(pid), loaded_runtime, pid)
        if loaded is not None:
            users.setdefault(loaded, []).append(pid)
    return tuple(
        RuntimeUse(version, path, tuple(sorted(pids)))
        for (path, version), pids in sorted(users.items(), key=lambda item: item[0][0])
    )


# The kernel gives its first namespaces these inode numbers, on every machine.
_FIRST_PID_NAMESPACE = 0xEFFFFFFC
_FIRST_IPC_NAMESPACE = 0xEFFFFFFF


def surroundings() -> Surroundings:
    """Of this process."""
    root = os.geteuid() == 0
    return Surroundings(
        host_pids=_namespace("pid") == _FIRST_PID_NAMESPACE,
        host_ipc=_namespace("ipc") == _FIRST_IPC_NAMESPACE,
        hidden_pids=not root and proc_hides(_mounts()),
        root=root,
        tracking_disabled=os.environ.get("TT_METAL_SHM_TRACKING_DISABLED", "").startswith("1"),
    )


def _namespace(kind: str) -> int | None:
    try:
        return os.stat(f"/proc/self/ns/{kind}").st_ino
    except OSError:
        return None


def _mounts() -> str:
    try:
        with open("/proc/self/mounts", encoding="utf-8", errors="replace") as file:
            return file.read(1 << 20)
    except OSError:
        return ""


def proc_hides(mounts: str) -> bool:
    """Whether hidepid is on, by /proc/self/mounts: device, folder, type, options, ..."""
    for line in mounts.splitlines():
        fields = line.split()
        if len(fields) > 3 and fields[1] == "/proc" and fields[2] == "proc":
            options = dict(option.partition("=")[::2] for option in fields[3].split(","))
            return options.get("hidepid", "0") not in ("0", "off")
    return False
