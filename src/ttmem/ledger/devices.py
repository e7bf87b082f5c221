"""A device: its identity, its declaration, and its capacities."""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import Any

from ttmem.events import DeviceDeclaration, DeviceSample, MemoryKind
from ttmem.fast_dataclasses import NamedTuple, dataclass, field, replace
from ttmem.hw.cards import NODES
from ttmem.ledger.context import DeviceContext, SampleContext
from ttmem.ledger.peaks import DeviceHistory, PolledPeaks
from ttmem.ledger.shares import TRUSTED
from ttmem.snapshots import Anomaly, Provenance

MOST_IGNORED = 4  # users who are named
MOST_NAMES = 4  # in a sentence
IDENTITY = ("board", "pci", "remote", "position")
HARDWARE = (*IDENTITY, "dram_base", "ring_base")  # not chosen by a process
UNKNOWN_BOARD = "no cluster descriptor, driver or board number identifies this device"
ASK_DRIVER = "; `--umd` asks the user-mode driver"


class Effective(NamedTuple):
    """What counts as the declaration of a device."""

    declaration: DeviceDeclaration
    by: str | None  # None: not declared, all capacities are unknown
    user: str | None = None  # who declared it; None: the host or the server's options
    # All processes whose declarations count divide its banks in the same way.
    one_layout: bool = True
    ignored: tuple[tuple[int, str], ...] = ()  # accounts that declare it differently, and in what


@dataclass(slots=True, eq=False)
class DeviceRecord:
    """A chip: its identity, its declaration, and where that came from.

    Processes of several users may have it open. The declarations of one of them count: of root and the user of this
    process, else of the user who has had it open for longest. Users are as in `Shares.key`.
    """

    index: int
    unique_id: str
    given: tuple[DeviceDeclaration, str | None]  # what is known if nobody declares it
    identity: Provenance
    known: Effective
    user: str | None = None  # owner of the process, or of the file, that reported it first
    opened: dict[int, str] = field(default_factory=dict)  # accounts, and their users
    declared: dict[int, tuple[DeviceDeclaration, str]] = field(default_factory=dict)
    users: dict[str, int] = field(default_factory=dict)  # numbers of accounts, the first user first
    authority: str | None = None  # whose declarations count
    host: tuple[DeviceDeclaration, str] | None = None  # as the host describes it
    stale: bool = False  # `known` has to be determined again
    sample: DeviceSample | None = None  # the latest reading of the counters
    counted_user: str | None = None  # whose live processes they list
    by_counters: bool = False  # only counters have reported it yet
    vacated: bool = False  # everything reported about it turned out to belong to another device
    history: DeviceHistory = field(default_factory=DeviceHistory)
    polled: PolledPeaks = field(default_factory=PolledPeaks)
    counted: bool = False  # counters have reported bytes on it since its peaks began
    l1_peak_missed: bool = False  # a watched process used it unobserved for a while
    largest: dict[MemoryKind, int] = field(default_factory=dict)  # capacities so far
    l1_banks: int = 0  # as the native ledger knows them; 0: unknown

    def open(self, account: int, user: str) -> None:
        """A process of that user has it open from now on."""
        if account not in self.opened:
            self.opened[account] = user
            self.users[user] = self.users.get(user, 0) + 1
            self.choose()

    def declare(self, account: int, user: str, declaration: DeviceDeclaration, by: str) -> None:
        """A client or the probe describes what was opened. Each process chooses its own region sizes."""
        self.open(account, user)
        self.declared.pop(account, None)
        self.declared[account] = declaration, by  # at the end: it is the latest
        self.stale = True
        if user == self.authority:
            for kind in MemoryKind:
                capacity = declaration.banks(kind).capacity or 0
                self.largest[kind] = max(self.largest.get(kind, 0), capacity)

    def withdraw(self, account: int) -> tuple[DeviceDeclaration, str] | None:
        """The process has ended; returns what it declared. What others declared stays, or else the last declaration."""
        user = self.opened.get(account)
        if user is None:
            return None
        if self.users[user] == 1:
            _ = self.effective  # as it is until now: the last declaration stays
            del self.users[user]
        else:
            self.users[user] -= 1
        del self.opened[account]
        declared = self.declared.pop(account, None)
        self.choose()
        return declared

    def choose(self) -> None:
        """Whose declarations count, now that others may have it open."""
        users = {**self.users, **({} if self.counted_user is None else {self.counted_user: 1})}
        self.stale = True
        if not users or (self.authority in users and TRUSTED not in users):
            return
        before, self.authority = self.authority, TRUSTED if TRUSTED in users else next(iter(users))
        if before not in (None, TRUSTED, self.authority):
            self.largest.clear()  # others' capacities explain nothing

    @property
    def effective(self) -> Effective:
        """What counts as its declaration now."""
        if self.stale:
            self.stale = False
            self.known = self._determined()
        return self.known

    def _determined(self) -> Effective:
        """All processes share the hardware; of each region, the largest that a live process has configured counts."""
        host, own = self.host, self.authority
        everything = self.declared.items()
        counted = [each for account, each in everything if self.opened[account] == own]
        # Who opened it first may have made up a chip whose real user is known only by counters.
        doubted = host is not None and own != TRUSTED and self.counted_user not in (None, own)
        if counted and not doubted:
            latest, by = counted[-1]
            declarations = [declaration for declaration, _ in counted]
            one_layout = len({_layout(each) for each in declarations}) == 1
            declaration = _together(latest, declarations)
            if host is not None:
                declaration = filled(declaration, host[0], own == TRUSTED)
            found = Effective(declaration, by, own, one_layout)
        elif self.known.user is not None and (
            (not self.users and self.counted_user is None)
            or (self.known.user in (own, TRUSTED) and not doubted)
        ):
            found = self.known._replace(ignored=())
        else:
            found = Effective(*(host or self.given))
        ignored: dict[str, tuple[int, str]] = {}
        for account, (theirs, _) in everything:
            user = self.opened[account]
            if user not in (found.user, *ignored) and len(ignored) < MOST_IGNORED:
                differing = _differing(theirs, found.declaration)
                if differing:
                    ignored[user] = account, differing
        return found._replace(ignored=tuple(ignored.values()))

    @property
    def declaration(self) -> DeviceDeclaration:
        return self.effective.declaration

    @property
    def shown(self) -> bool:
        """Whether there is anything to show. A counter file that was removed takes its device along."""
        return not self.vacated and (self.sample is not None or not self.by_counters)

    @property
    def logical_id(self) -> int | None:
        """The number that applications use, if known."""
        if self.by_counters:
            return None if self.sample is None else self.sample.logical_id
        return self.declaration.logical_id

    @property
    def capacity_provenance(self) -> Provenance:
        """Where the capacities come from."""
        declared = self.effective
        if declared.by is not None:
            return Provenance(declared.by, "declared", declared.declaration.note)
        if self.by_counters:
            more = ASK_DRIVER if os.path.isdir(NODES) else ""  # mock boards have no driver to ask
            return Provenance("none", "unknown", UNKNOWN_BOARD + more)
        missing = (
            "no client declared this device; give the server --board, --cluster or --l1-capacity"
        )
        return Provenance("none", "unknown", missing)

    def context(self, anomalies: Iterable[Anomaly], failed: int | None) -> DeviceContext:
        return DeviceContext(
            unique_id=self.unique_id,
            logical_id=self.logical_id,
            shown=self.shown,
            declaration=self.declaration,
            one_layout=self.effective.one_layout,
            identity=self.identity,
            capacity_provenance=self.capacity_provenance,
            by_counters=self.by_counters,
            counted=self.counted,
            l1_peak_missed=self.l1_peak_missed,
            largest=tuple(self.largest.get(kind, 0) for kind in MemoryKind),
            peaks=self.polled.context(),
            sample=None if self.sample is None else SampleContext.of(self.sample),
            anomalies=tuple(anomalies),
            failed_allocations=failed,
        )


_REGIONS = ("dram_bank_size", "trace_bank_size", "l1_bank_size", "l1_small_bank_size")


def _together(
    latest: DeviceDeclaration, declared: Iterable[DeviceDeclaration]
) -> DeviceDeclaration:
    largest: dict[str, Any] = {
        name: max(
            (size for each in declared if (size := getattr(each, name)) is not None),
            default=None,
        )
        for name in _REGIONS
    }
    return replace(latest, **largest)


def _differing(theirs: DeviceDeclaration, ours: DeviceDeclaration) -> str:
    """In what two users contradict each other, in words; each may number the chips in its own way."""
    names = [
        name
        for name in theirs.__match_args__
        if name not in ("logical_id", "unique_id", "note")
        and None not in (getattr(theirs, name), getattr(ours, name))
        and getattr(theirs, name) != getattr(ours, name)
    ]
    more = len(names) - MOST_NAMES
    return ", ".join(names[:MOST_NAMES]) + (f" and {more} more" if more > 0 else "")


def _layout(declared: DeviceDeclaration) -> tuple[Any, ...]:
    names = (*_REGIONS, "cb_base", "dram_base", "l1_banks", "dram_banks", "l1_per_core")
    return tuple(getattr(declared, name) for name in names)


def made_up_id(logical_id: int) -> str:
    """The unique id of a device that is known only by number: made from host and number."""
    return f"{os.uname().nodename}:{logical_id}"


def filled(
    declared: DeviceDeclaration, host: DeviceDeclaration, trusted: bool = True
) -> DeviceDeclaration:
    """Adds what the host knows about the hardware where the opener does not say, or may not be believed."""
    if None not in (declared.arch, host.arch) and declared.arch != host.arch:
        return declared if trusted else host
    believed = () if trusted else IDENTITY
    known: dict[str, Any] = {
        name: getattr(host, name)
        for name in HARDWARE
        if getattr(declared, name) is None or (name in believed and getattr(host, name) is not None)
    }
    return _with_ring(replace(declared, **known))


def _with_ring(declared: DeviceDeclaration) -> DeviceDeclaration:
    """The ring ends where circular buffers begin, which the process can choose."""
    base, end, banks = declared.ring_base, declared.cb_base, declared.l1_banks
    if declared.ring_per_core is not None or base is None or end is None or end < base:
        return declared
    ring = end - base
    return replace(declared, ring_per_core=ring, ring_capacity=ring * banks if banks else None)
