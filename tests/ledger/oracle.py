"""The accounts again, as plainly as possible: dictionaries, and every sum made anew."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from ttmem.events import (
    EVENT_SIZE,
    Amounts,
    DeviceSample,
    Event,
    Flag,
    MemoryKind,
    Op,
    Owner,
    ProcessSample,
    Remark,
)
from ttmem.ledger import Books, ProcessRecord
from ttmem.procfs import ProcessFacts

Cores = frozenset[tuple[int, int]]
Where = tuple[int, int]  # process, device


@dataclass
class Cb:
    where: Where
    event: Event
    cores: Cores | None
    count: int

    @property
    def counted(self) -> bool:
        return not self.event.flags & Flag.GLOBAL

    def ranges(self) -> dict[tuple[int, int], tuple[int, int]]:
        if not self.cores or not self.counted:
            return {}
        start = self.event.address or self.event.id
        return dict.fromkeys(self.cores, (start, start + self.event.size // len(self.cores)))


@dataclass
class Kernel:
    where: Where
    event: Event
    program: int

    @property
    def whole(self) -> bool:
        return bool(self.event.flags & Flag.FOOTPRINT) or self.event.number == 0

    @property
    def footprint(self) -> int:
        return self.event.size if self.whole else self.event.size * self.event.number


@dataclass
class Program:
    where: Where
    number: int
    status: int | None = None
    dispatches: int = 0
    had_kernels: bool = False
    cores: set[tuple[int, int]] = field(default_factory=set)
    per_core: Counter[tuple[int, int]] = field(
        default_factory=Counter
    )  # CB bytes, as last laid out


def union_length(ranges: list[tuple[int, int]]) -> int:
    """Bytes covered, counted one range after the other."""
    total, reached = 0, 0
    for start, end in sorted(ranges):
        total += max(0, end - max(start, reached))
        reached = max(reached, end)
    return total


class Oracle:
    """Same events in, same numbers out, or one of the two is wrong."""

    def __init__(self, core_sets: dict[int, Cores], l1_banks: int = 0) -> None:
        self.core_sets = core_sets
        self.l1_banks = l1_banks
        self.buffers: dict[
            tuple[Where, int, int], list[int]
        ] = {}  # (where, kind, id) -> [size, held, references, address, reserved]
        self.cbs: list[Cb] = []
        self.kernels: dict[tuple[Where, int], Kernel] = {}
        self.programs: dict[tuple[Where, int], Program] = {}
        self.resident: dict[
            tuple[int, tuple[int, int]], tuple[Where, int]
        ] = {}  # (device, core) -> program
        self.counters: Counter[tuple[str, int]] = Counter()

    # -- events --------------------------------------------------------------------------------------------

    def apply(self, process: int, event: Event) -> None:
        where = (process, event.device)
        getattr(self, Op(event.op).name.lower())(where, event)

    def alloc(self, where: Where, event: Event) -> None:
        key = (where, event.kind, event.id)
        known = self.buffers.get(key)
        if known and known[0] == event.size:
            known[2] += 1
            return
        self.buffers.pop(key, None)  # so that the new one stands last: the latest
        held = event.extra or event.size
        self.buffers[key] = [event.size, held, 1, event.address, event.extra]

    def free(self, where: Where, event: Event) -> None:
        named = event.flags & Flag.KIND_KNOWN
        matches = [
            key
            for key in self.buffers
            if key[0] == where and key[2] == event.id and (not named or key[1] == event.kind)
        ]
        if not matches:
            return
        key = matches[-1]
        self.buffers[key][2] -= 1
        if self.buffers[key][2] == 0:
            del self.buffers[key]

    def cb_alloc(self, where: Where, event: Event) -> None:
        same = self._exact(where, event)
        if same:
            same.count += 1
            return
        cores = self.core_sets.get(event.cores)
        self.cbs.append(Cb(where, event, cores, 1))
        if event.extra:
            self._program(where, event.extra).cores |= cores or set()

    def _exact(self, where: Where, event: Event) -> Cb | None:
        def identity(e: Event) -> tuple[int, ...]:
            return (e.id, e.size, e.extra, e.cores, e.flags & (Flag.GLOBAL | Flag.DATAFLOW))

        return next(
            (c for c in self.cbs if c.where == where and identity(c.event) == identity(event)), None
        )

    def cb_free(self, where: Where, event: Event) -> None:
        cb = self._exact(where, event)
        if cb is None:
            for other in reversed(self.cbs):
                same = other.where == where and other.event.id == event.id
                if (
                    same
                    and event.extra in (0, other.event.extra)
                    and event.size in (0, other.event.size)
                ):
                    cb = other
                    break
        if cb is None:
            return
        cb.count -= 1
        if cb.count == 0:
            self._remove_cb(cb)

    def _remove_cb(self, cb: Cb) -> None:
        self.cbs.remove(cb)
        if cb.event.extra:
            program = self.programs[cb.where, cb.event.extra]
            if self._runs(program):
                self._lay_out(program)
            self._drop_if_empty(program)

    def kernel_load(self, where: Where, event: Event) -> None:
        known = self.kernels.get((where, event.id))
        new = Kernel(where, event, event.extra)
        if known and known.footprint == new.footprint:
            self._dispatched(where, known.program, None)
            return
        if known:
            self._remove_kernel(known)
        self.counters["loads", where[1]] += 1
        self.kernels[where, event.id] = new
        if event.extra:
            program = self._program(where, event.extra)
            program.had_kernels = True
            program.cores |= self.core_sets.get(event.cores, set())

    def kernel_unload(self, where: Where, event: Event) -> None:
        known = self.kernels.get((where, event.id))
        if known:
            self.counters["unloads", where[1]] += 1
            self._remove_kernel(known)

    def _remove_kernel(self, kernel: Kernel) -> None:
        del self.kernels[kernel.where, kernel.event.id]
        if kernel.program:
            self._drop_if_empty(self.programs[kernel.where, kernel.program])

    def program_dispatch(self, where: Where, event: Event) -> None:
        self._program(where, event.id)
        self._dispatched(where, event.id, self.core_sets.get(event.cores))

    def _dispatched(self, where: Where, number: int, cores: Cores | None) -> None:
        self.counters["dispatches", where[1]] += 1
        if not number:
            return
        program = self._program(where, number)
        program.dispatches += 1
        taken = cores if cores is not None else program.cores
        for core in taken:
            self.resident[where[1], core] = (where, number)
        if taken:
            self._lay_out(program)

    def program_destroy(self, where: Where, event: Event) -> None:
        program = self.programs.pop((where, event.id), None)
        if program is None:
            return
        self.resident = {at: who for at, who in self.resident.items() if who != (where, event.id)}
        self.cbs = [cb for cb in self.cbs if not (cb.where == where and cb.event.extra == event.id)]
        for key in [
            key
            for key, kernel in self.kernels.items()
            if kernel.where == where and kernel.program == event.id
        ]:
            self.counters["unloads", where[1]] += 1
            del self.kernels[key]

    def binary_status(self, where: Where, event: Event) -> None:
        self._program(where, event.id).status = event.kind

    def die(self, process: int) -> None:
        """A dead process holds nothing."""
        self.buffers = {key: value for key, value in self.buffers.items() if key[0][0] != process}
        self.cbs = [cb for cb in self.cbs if cb.where[0] != process]
        self.kernels = {key: value for key, value in self.kernels.items() if key[0][0] != process}
        self.programs = {key: value for key, value in self.programs.items() if key[0][0] != process}
        self.resident = {at: who for at, who in self.resident.items() if who[0][0] != process}

    # -- programs ------------------------------------------------------------------------------------------

    def _program(self, where: Where, number: int) -> Program:
        return self.programs.setdefault((where, number), Program(where, number))

    def _runs(self, program: Program) -> bool:
        return (program.where, program.number) in self.resident.values()

    def _lay_out(self, program: Program) -> None:
        program.per_core = Counter()
        for core, ranges in self._ranges(program.where, program.number).items():
            program.per_core[core] = union_length(ranges)

    def _drop_if_empty(self, program: Program) -> None:
        where, number = program.where, program.number
        bare = not any(
            k.where == where and k.program == number for k in self.kernels.values()
        ) and not any(cb.where == where and cb.event.extra == number for cb in self.cbs)
        never_used = program.status is None and program.dispatches == 0
        if bare and (program.had_kernels or never_used):
            del self.programs[where, number]
            self.resident = {at: who for at, who in self.resident.items() if who != (where, number)}

    def _ranges(
        self, where: Where, program: int | None = None, dataflow: bool = False
    ) -> dict[tuple[int, int], list[tuple[int, int]]]:
        out: dict[tuple[int, int], list[tuple[int, int]]] = {}
        for cb in self.cbs:
            right_sort = not dataflow or cb.event.flags & Flag.DATAFLOW
            if cb.where == where and program in (None, cb.event.extra) and right_sort:
                for core, reach in cb.ranges().items():
                    out.setdefault(core, []).append(reach)
        return out

    # -- sums, made anew -----------------------------------------------------------------------------------

    def held(self, where: Where, kind: MemoryKind) -> int:
        return sum(v[1] for (w, k, _), v in self.buffers.items() if w == where and k == kind)

    def demand(self, where: Where) -> int:
        return sum(cb.event.size * cb.count for cb in self.cbs if cb.where == where and cb.counted)

    def unplaced(self, where: Where) -> int:
        return sum(
            cb.count for cb in self.cbs if cb.where == where and cb.counted and cb.cores is None
        )

    def cached(self, where: Where, dataflow: bool = False) -> int:
        return sum(union_length(ranges) for ranges in self._ranges(where, None, dataflow).values())

    def shared(self, where: Where) -> int | None:
        """Bytes of circular buffers inside L1 buffers; None: some addresses are unknown."""
        in_l1 = (MemoryKind.L1, MemoryKind.L1_SMALL)
        held = [v for (w, kind, _), v in self.buffers.items() if w == where and kind in in_l1]
        if not held or not any(cb.where == where and cb.counted for cb in self.cbs):
            return 0
        if self.unplaced(where) or not all(reserved for *_, reserved in held):
            return None
        blocks = [
            (address, address + reserved // self.l1_banks)
            for *_, address, reserved in held
            if address and reserved % self.l1_banks == 0
        ]
        return sum(
            union_length(ranges) + union_length(blocks) - union_length([*ranges, *blocks])
            for ranges in self._ranges(where).values()
        )

    def resident_bytes(self, where: Where) -> int:
        return sum(
            self.programs[owner].per_core[core]
            for (device, core), owner in self.resident.items()
            if owner[0] == where and device == where[1]
        )

    def footprint(self, where: Where, kind: int) -> int:
        return sum(
            k.footprint for k in self.kernels.values() if k.where == where and k.event.kind == kind
        )

    def binaries(self, where: Where) -> tuple[int, int]:
        """(bytes of copies in DRAM, kernels of which nobody knows)."""
        known = unknown = 0
        for kernel in self.kernels.values():
            if kernel.where != where:
                continue
            program = self.programs.get((where, kernel.program))
            if kernel.whole or program is None or program.status is None:
                unknown += 1
            elif program.status > 0:
                known += -(-kernel.event.size // 2048) * 2048
        return known, unknown

    def distinct(self, device: int) -> tuple[int, int]:
        """(different binaries, kernels whose content is unknown)."""
        here = [k for k in self.kernels.values() if k.where[1] == device]
        known = {k.event.address for k in here if k.event.address and not k.whole}
        return len(known), sum(1 for k in here if not k.event.address or k.whole)


# -- Readings of counters, made by hand


BORN = 1_700_000_000_000_000_000
NOW = BORN + 1_000_000_000


def facts(pid: int) -> ProcessFacts:
    return ProcessFacts(pid, BORN, "alice", f"python worker.py {pid}")


def alloc(size: int, id: int = 1, device: int = 0, kind: MemoryKind = MemoryKind.DRAM) -> Event:
    return Event(Op.ALLOC, kind, device=device, id=id, size=size)


def slot(
    pid: int,
    held: Amounts,
    owner: Owner = Owner.LIVE,
    *,
    started: int | None = BORN,
    name: str = "python",
) -> ProcessSample:
    known = owner in (Owner.LIVE, Owner.ROOT, Owner.UNVERIFIED)
    return ProcessSample(pid, started if known else None, name, owner, held, BORN + 9)


def region(
    unique_id: str,
    *slots: ProcessSample,
    version: int = 3,
    number: int | None = 0,
    remarks: tuple[Remark, ...] = (),
) -> DeviceSample:
    return DeviceSample(
        unique_id=unique_id,
        declaration=None,
        path=f"tt_device_{unique_id}_memory",
        version=version,
        logical_id=number,
        processes=slots,
        stored=Amounts(),
        chips=None,
        cb_method="what its version means",
        misses="other threads",
        remarks=remarks,
    )


def report(books: Books, process: ProcessRecord, *events: Event) -> None:
    data = b"".join(event.pack() for event in events)
    books.apply(process, data, 0, len(events) * EVENT_SIZE, BORN + 10)
