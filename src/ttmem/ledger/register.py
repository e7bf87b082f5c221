"""The known devices: every chip once, however many processes and sources name it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from ttmem._native import Ledger
from ttmem.events import DeviceDeclaration, DeviceSample
from ttmem.fast_dataclasses import replace
from ttmem.ledger.devices import DeviceRecord, Effective, made_up_id
from ttmem.ledger.shares import DEVICES, Shares
from ttmem.snapshots import Provenance

MAX_DEVICES = 256
MAX_LOGICAL_ID = 1023
MAX_L1_BANKS = 0xFFFF
FULL = f"the table of devices is full: all {MAX_DEVICES} are in use"
OWN_FULL = f"user {{}} has {DEVICES} devices in use, which is the limit"
SHARED_ID = Provenance("shared memory", "chip unique id, the name of its region")
DECLARED_ID = Provenance("declaration", "chip unique id")
MADE_UP_ID = "made from host and logical id"


def made_up_identity(declared_by: str | None) -> Provenance:
    """The identity of a device that is known only by number, and who reported it."""
    if declared_by == "probe":
        return Provenance(
            "probe", MADE_UP_ID, "this runtime does not expose the unique ids of chips"
        )
    return Provenance("socket", MADE_UP_ID, "the client sent no chip unique id")


class DeviceDefaults(Protocol):
    """What to assume about a device that its client does not declare."""

    def declaration(self, logical_id: int) -> DeviceDeclaration | None:
        """None: nothing is known."""
        return None

    def known_ids(self) -> list[int]:
        """Devices to show before anyone reports them."""
        return []

    def chips(self) -> int:
        """The least number of devices, numbered from 0."""
        return 0


class NoDefaults(DeviceDefaults):
    """Devices without a declaration have no capacities."""


class DeviceRegister:
    """Every device once, by its unique id; its position in `devices` is its index in the native ledger."""

    def __init__(self, native: Ledger, defaults: DeviceDefaults, shares: Shares) -> None:
        self.devices: list[DeviceRecord] = []
        # Users whose device was refused, and why: trying again at every event would be expensive.
        self.full: dict[str | None, str] = {}
        self._native = native
        self._shares = shares
        self._defaults = defaults
        self._by_unique_id: dict[str, DeviceRecord] = {}
        for logical_id in defaults.known_ids():
            self.by_number(logical_id)
        self._given = frozenset(self._by_unique_id)

    def find(self, unique_id: str) -> DeviceRecord | None:
        return self._by_unique_id.get(unique_id)

    def declared(
        self, declaration: DeviceDeclaration, by: str, user: str | None = None
    ) -> DeviceRecord | None:
        """The device that a process has declared, charged to its user if it is new; None if there are too many."""
        blank = DeviceDeclaration(declaration.logical_id, declaration.unique_id)
        return self._reported(blank, None, made_up_identity(by), user)

    def by_number(self, logical_id: int, user: str | None = None) -> DeviceRecord | None:
        """The device of a client that knows only its number; None if there is no such number."""
        if logical_id > MAX_LOGICAL_ID:
            return None
        given = self._defaults.declaration(logical_id)
        by = None if given is None else "server option"
        given = given or DeviceDeclaration(logical_id)
        return self._reported(given, by, made_up_identity(by), user)

    def _reported(
        self, given: DeviceDeclaration, by: str | None, made_up: Provenance, user: str | None
    ) -> DeviceRecord | None:
        unique_id = given.unique_id or made_up_id(given.logical_id)
        record = self._by_unique_id.get(unique_id)
        if record is None:
            identity = made_up if given.unique_id is None else DECLARED_ID
            return self._added(unique_id, given, by, identity, user)
        record.by_counters = False
        if by is not None and record.given[1] is None:
            record.given, record.stale = (given, by), True
        return record

    def count(self) -> int:
        """How many numbers have a device, or are expected to have one."""
        seen = {d.logical_id for d in self.devices if d.shown and d.logical_id is not None}
        return max(self._defaults.chips(), len(seen))

    def expected(self, logical_id: int) -> DeviceDeclaration | None:
        """What the options say about a number that nobody has reported."""
        return self._defaults.declaration(logical_id) if 0 <= logical_id <= MAX_LOGICAL_ID else None

    def sampled(
        self, samples: Iterable[DeviceSample]
    ) -> tuple[list[tuple[DeviceRecord, DeviceSample]], int]:
        """The devices that the counters list now, and how many were refused."""
        for record in self.devices:
            record.sample = None
        found, beyond = [], 0
        for sample in samples:
            known = self._by_unique_id.get(sample.unique_id) or self._seen(sample)
            if known is None:
                beyond += 1
                continue
            known.sample = sample if known.sample is None else _joined(known.sample, sample)
            self._learn(known, sample)
            found.append((known, sample))
        for record in self.devices:
            user = None if record.sample is None else self._counted_user(record.sample)
            if user != record.counted_user:
                record.counted_user = user
                record.choose()
        return found, beyond

    def _counted_user(self, sample: DeviceSample) -> str | None:
        live = any(process.owner.counts for process in sample.processes)
        return self._shares.key(sample.user) if live and sample.user is not None else None

    def _seen(self, sample: DeviceSample) -> DeviceRecord | None:
        blank = DeviceDeclaration(sample.logical_id or 0)
        record = self._added(sample.unique_id, blank, None, SHARED_ID, sample.user)
        if record is not None:
            record.by_counters = True
        return record

    def _learn(self, record: DeviceRecord, sample: DeviceSample) -> None:
        """The opener's declaration wins, then what the host knows, then the server's options."""
        if sample.declaration is not None:
            host = sample.declaration, sample.capacity_source or "shared memory"
            if host != record.host:
                record.host, record.stale = host, True
        elif record.given[1] is None and sample.logical_id is not None:
            given = self._defaults.declaration(sample.logical_id)
            if given is not None:
                record.given, record.stale = (given, "server option"), True

    def tell_banks(self, record: DeviceRecord) -> bool:
        """Tells the native ledger in how many banks L1 buffers lie; False if it knew."""
        banks = record.declaration.l1_banks or 0
        if banks == record.l1_banks or banks > MAX_L1_BANKS:
            return False
        self._native.set_l1_banks(record.index, banks)
        record.l1_banks = banks
        return True

    def tell_changed_banks(self) -> None:
        """Of one device: the ledger walks over what is allocated, and anyone may declare something else."""
        any(self.tell_banks(record) for record in self.devices)

    def _added(
        self,
        unique_id: str,
        given: DeviceDeclaration,
        by: str | None,
        identity: Provenance,
        user: str | None,
    ) -> DeviceRecord | None:
        index = self._place(user)
        if index is None:
            return None
        known = Effective(given, by)
        record = DeviceRecord(index, unique_id, (given, by), identity, known, user)
        if index == len(self.devices):
            self.devices.append(record)
        else:
            del self._by_unique_id[self.devices[index].unique_id]
            self.devices[index] = record
        self._by_unique_id[unique_id] = record
        return record

    def _place(self, user: str | None) -> int | None:
        """A new index; else that of a device that nobody has open, or else of one without allocations.

        A user whose share is used up gets the index of one of its own devices.
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
            self._shares.refuse(user, f"a device was left out: {DEVICES} is the limit per user")
        return None

    def _kept(self, record: DeviceRecord) -> bool:
        """Whether it is shown even if nobody reports it."""
        return record.sample is not None or record.unique_id in self._given


def _joined(one: DeviceSample, other: DeviceSample) -> DeviceSample:
    """Of two files about one device, here and in a container; what can only be said once is that of the first."""
    processes, remarks = one.processes + other.processes, one.remarks + other.remarks
    return replace(one, processes=processes, remarks=remarks)
