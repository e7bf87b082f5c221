"""Facts of a host at one instant: plain data, nothing judged. What is unknown is None."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from ttmem.events import DeviceSample, Remark


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


class SocketState(Enum):
    """What became of knocking at a socket."""

    ABSENT = "absent"
    SERVED = "served"
    STALE = "stale"  # a socket file, and nobody behind it
    CLOSED = "closed"  # somebody else's, not open to this user
    NO_SOCKET = "no socket"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class SocketFacts:
    """A place where a server may be."""

    path: str
    state: SocketState
    user: str | None = None
    server_pid: int | None = None
    server: str | None = None  # its command line


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
