"""The devices that somebody has told about: identity, declarations, capacities."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from typing import Any, Protocol

from ttmem._native import Ledger
from ttmem.events import DeviceDeclaration, DeviceSample, MemoryKind
from ttmem.fast_dataclasses import dataclass, field, replace
from ttmem.ledger.context import Declared, DeviceContext, SampleContext
from ttmem.ledger.peaks import DeviceHistory, PolledPeaks
from ttmem.ledger.shares import DEVICES, Shares
from ttmem.snapshots import Anomaly, Provenance


@dataclass(slots=True, eq=False)
class DeviceRecord(Declared):
    """A chip: its identity, and its declaration with where that came from."""

    index: int
    unique_id: str
    declaration: DeviceDeclaration
    declared_by: str | None  # None: nobody, all capacities are unknown
    identity: Provenance
    user: str | None = None  # of the process, or the file, that told of it first
    by_process: dict[int, DeviceDeclaration] = field(default_factory=dict)
    sample: DeviceSample | None = None  # what counters said of it last
    by_counters: bool = False  # nothing but counters has told of it yet
    vacated: bool = False  # all that was reported of it turned out to belong to another device
    history: DeviceHistory = field(default_factory=DeviceHistory)
    polled: PolledPeaks = field(default_factory=PolledPeaks)
    counted: bool = False  # counters have told of bytes in it, since its peaks began
    l1_peak_missed: bool = False  # a watched process came to it, or went on, unseen for a while
    one_layout: bool = True  # all that have the device open have split its banks in the same way
    largest: dict[MemoryKind, int] = field(default_factory=dict)  # capacities that were in force

    def declare(self, process: int, declaration: DeviceDeclaration, by: str) -> None:
        """A client or the probe says what was opened. Each process chooses its own region sizes."""
        self.by_process[process] = declaration
        self._join(declaration)
        self.declared_by = by

    def withdraw(self, process: int) -> None:
        """The process is gone; what others declared holds, or what was known last."""
        if self.by_process.pop(process, None) is not None and self.by_process:
            self._join(list(self.by_process.values())[-1])

    def _join(self, latest: DeviceDeclaration) -> None:
        self.declaration = _together(latest, self.by_process)
        self.one_layout = len({_layout(each) for each in self.by_process.values()}) == 1
        for kind in MemoryKind:
            self.largest[kind] = max(self.largest.get(kind, 0), self.capacity(kind) or 0)

    @property
    def shown(self) -> bool:
        """Is there anything to say of it? A region that was removed takes its device along."""
        return not self.vacated and (self.sample is not None or not self.by_counters)

    @property
    def logical_id(self) -> int | None:
        """The number that applications use, where anybody knows it."""
        if self.by_counters:
            return None if self.sample is None else self.sample.logical_id
        return self.declaration.logical_id

    @property
    def capacity_provenance(self) -> Provenance:
        """Who said how large the memories are."""
        if self.declared_by is None and self.by_counters:
            return Provenance("none", "unknown", UNKNOWN_BOARD)
        if self.declared_by is None:
            missing = "no client declared this device; give the server --board, --cluster or --l1-capacity"
            return Provenance("none", "unknown", missing)
        return Provenance(self.declared_by, "declared", self.declaration.note)

    def context(self, anomalies: Iterable[Anomaly], failed: int | None) -> DeviceContext:
        """As it is now."""
        return DeviceContext(
            unique_id=self.unique_id,
            logical_id=self.logical_id,
            shown=self.shown,
            declaration=self.declaration,
            one_layout=self.one_layout,
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
    latest: DeviceDeclaration, declared: Mapping[int, DeviceDeclaration]
) -> DeviceDeclaration:
    """The hardware is one; of each region the largest that a live process has set aside counts."""
    largest: dict[str, Any] = {
        name: max(
            (size for d in declared.values() if (size := getattr(d, name)) is not None),
            default=None,
        )
        for name in _REGIONS
    }
    return replace(latest, **largest)


def _layout(declared: DeviceDeclaration) -> tuple[Any, ...]:
    names = (*_REGIONS, "cb_base", "dram_base", "l1_banks", "dram_banks", "l1_per_core")
    return tuple(getattr(declared, name) for name in names)


def made_up_id(logical_id: int) -> str:
    """The unique id of a device that is known by number only: host and number."""
    return f"{os.uname().nodename}:{logical_id}"


UNKNOWN_BOARD = (
    "no cluster descriptor, driver or board number tells what this device is;"
    " `pip install 'ttmem[umd]'` and `--umd` let ttmem ask the driver"
)
SHARED_ID = Provenance("shared memory", "chip unique id, the name of its region")
DECLARED_ID = Provenance("declaration", "chip unique id")
MADE_UP_ID = "made from host and logical id"


def made_up_identity(declared_by: str | None) -> Provenance:
    """Of a device that is known by number only; who told of it?"""
    if declared_by == "probe":
        return Provenance("probe", MADE_UP_ID, "this runtime does not show chip unique ids")
    return Provenance("socket", MADE_UP_ID, "the client sent no chip unique id")


MAX_DEVICES = 256
MAX_LOGICAL_ID = 1023
FULL = f"the table of devices is full: all {MAX_DEVICES} are in use"
OWN_FULL = f"user {{}} has {DEVICES} devices in use, and may not have more"


OPENERS = ("client", "probe")  # who tells of a device because a process has it open
HARDWARE = (
    "board",
    "pci",
    "remote",
    "position",
    "dram_base",
    "ring_base",
)  # not a choice of a process


class DeviceDefaults(Protocol):
    """What to take for a device that its client does not declare."""

    def declaration(self, logical_id: int) -> DeviceDeclaration | None:
        """None: nothing is known."""

    def known_ids(self) -> list[int]:
        """Devices to show before anyone reports them."""

    def chips(self) -> int:
        """How many devices there are at least, numbered from 0 on."""


class NoDefaults:
    """Devices without a declaration have no capacities."""

    def declaration(self, logical_id: int) -> DeviceDeclaration | None:
        """Nothing is known."""
        return None

    def known_ids(self) -> list[int]:
        """None."""
        return []

    def chips(self) -> int:
        """None."""
        return 0


class DeviceRegister:
    """Every device once, by its unique id; the place in `devices` is its index in the native ledger."""

    def __init__(self, native: Ledger, defaults: DeviceDefaults, shares: Shares) -> None:
        self.devices: list[DeviceRecord] = []
        # Users for whom no place was found, and why; looking for one at each event would be dear.
        self.full: dict[str | None, str] = {}
        self._native = native
        self._shares = shares
        self._defaults = defaults
        self._by_unique_id: dict[str, DeviceRecord] = {}
        for logical_id in defaults.known_ids():
            self.by_number(logical_id)
        self._given = frozenset(self._by_unique_id)

    def find(self, unique_id: str) -> DeviceRecord | None:
        """The device with that id."""
        return self._by_unique_id.get(unique_id)

    def declared(
        self, declaration: DeviceDeclaration, declared_by: str | None, user: str | None = None
    ) -> DeviceRecord | None:
        """The device that somebody described, of that user if it is new; None if there are too many."""
        unique_id = declaration.unique_id or made_up_id(declaration.logical_id)
        record = self._by_unique_id.get(unique_id)
        if record is None:
            told = declaration.unique_id is not None
            identity = DECLARED_ID if told else made_up_identity(declared_by)
            return self._added(unique_id, declaration, declared_by, identity, user)
        if record.by_counters:
            record.by_counters = False
            record.declaration, record.declared_by = declaration, declared_by
        elif record.declared_by is None:
            record.declaration, record.declared_by = declaration, declared_by
        return record

    def by_number(self, logical_id: int, user: str | None = None) -> DeviceRecord | None:
        """The device of a client that knows no more of it; None if there is no such number."""
        if logical_id > MAX_LOGICAL_ID:
            return None
        given = self._defaults.declaration(logical_id)
        declared_by = "server option" if given else None
        return self.declared(given or DeviceDeclaration(logical_id), declared_by, user)

    def count(self) -> int:
        """How many numbers have a device, or are expected to have one."""
        seen = {d.logical_id for d in self.devices if d.shown and d.logical_id is not None}
        return max(self._defaults.chips(), len(seen))

    def expected(self, logical_id: int) -> DeviceDeclaration | None:
        """What the options say of a number that nobody has reported."""
        return self._defaults.declaration(logical_id) if 0 <= logical_id <= MAX_LOGICAL_ID else None

    def sampled(
        self, samples: Iterable[DeviceSample]
    ) -> tuple[list[tuple[DeviceRecord, DeviceSample]], int]:
        """The devices that counters tell of now, and how many more there would be."""
        for record in self.devices:
            record.sample = None
        found, beyond = [], 0
        for sample in samples:
            known = self._by_unique_id.get(sample.unique_id) or self._seen(sample)
            if known is None:
                beyond += 1
                continue
            known.sample = sample
            self._learn(known, sample)
            found.append((known, sample))
        return found, beyond

    def _seen(self, sample: DeviceSample) -> DeviceRecord | None:
        blank = DeviceDeclaration(sample.logical_id or 0)
        record = self._added(sample.unique_id, blank, None, SHARED_ID, sample.user)
        if record is not None:
            record.by_counters = True
        return record

    def _learn(self, record: DeviceRecord, sample: DeviceSample) -> None:
        """Who opened it knows best; then what the host tells; then the server's options."""
        if record.declared_by in OPENERS:
            if sample.declaration is not None:
                record.declaration = _filled(record.declaration, sample.declaration)
            return
        if sample.declaration is not None:
            record.declaration = sample.declaration
            record.declared_by = sample.capacity_source or "shared memory"
        elif record.declared_by is None and sample.logical_id is not None:
            given = self._defaults.declaration(sample.logical_id)
            if given is not None:
                record.declaration, record.declared_by = given, "server option"

    def _added(
        self,
        unique_id: str,
        declaration: DeviceDeclaration,
        declared_by: str | None,
        identity: Provenance,
        user: str | None,
    ) -> DeviceRecord | None:
        index = self._place(user)
        if index is None:
            return None
        record = DeviceRecord(index, unique_id, declaration, declared_by, identity, user)
        if index == len(self.devices):
            self.devices.append(record)
        else:
            del self._by_unique_id[self.devices[index].unique_id]
            self.devices[index] = record
        self._by_unique_id[unique_id] = record
        return record

    def _place(self, user: str | None) -> int | None:
        """A new index, or that of a device which nobody has open, or else on which nothing is held.

        Who has its share of devices gets the place of one of its own.
        """
        if user in self.full:
            return None
        records = list(self._by_unique_id.values())  # the oldest first
        own = [record for record in records if record.user == user]
        enough = self._shares.limited(user) and len(own) >= DEVICES
        if not enough and len(self.devices) < MAX_DEVICES:
            return self._native.add_device()
        for unbind in (False, True):
            for record in own if enough else records:
                if not self._kept(record) and self._native.clear_device(record.index, unbind):
                    return record.index
        self.full[user] = OWN_FULL.format(user) if enough else FULL
        if enough:
            self._shares.refuse(user, f"a device was left out: it has {DEVICES}, its share of them")
        return None

    def _kept(self, record: DeviceRecord) -> bool:
        """Is it there whether anybody reports of it or not?"""
        return record.sample is not None or record.unique_id in self._given


def _filled(declared: DeviceDeclaration, host: DeviceDeclaration) -> DeviceDeclaration:
    """With what the host knows of the hardware, and who opened it does not say."""
    if None not in (declared.arch, host.arch) and declared.arch != host.arch:
        return declared
    known: dict[str, Any] = {
        name: getattr(host, name) for name in HARDWARE if getattr(declared, name) is None
    }
    return _with_ring(replace(declared, **known))


def _with_ring(declared: DeviceDeclaration) -> DeviceDeclaration:
    """Its ring ends where circular buffers begin, which is for the process to choose."""
    base, end, banks = declared.ring_base, declared.cb_base, declared.l1_banks
    if declared.ring_per_core is not None or base is None or end is None or end < base:
        return declared
    ring = end - base
    return replace(declared, ring_per_core=ring, ring_capacity=ring * banks if banks else None)
