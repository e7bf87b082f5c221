"""Samples of all counter files of a directory."""

from __future__ import annotations

import gc
import os
import time
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from itertools import zip_longest

from ttmem.events import DeviceDeclaration, DeviceSample, Owner, ProcessSample, Remark
from ttmem.fast_dataclasses import dataclass, replace
from ttmem.hw.boards import Board
from ttmem.hw.discovery import Capacities, Discovered
from ttmem.hw.l1_map import NEWEST
from ttmem.hw.spec import device_spec
from ttmem.procfs import comm, sees_all_processes, user_name
from ttmem.sizes import human
from ttmem.sources.containers import Container, Containers
from ttmem.sources.counters.files import (
    MOST_PER_USER,
    UNKNOWN_USER,
    Contents,
    CounterFile,
    counter_scan,
    no_directory,
    read_counter_file,
)
from ttmem.sources.counters.layout import CounterRegion, meaning_of
from ttmem.sources.counters.proc_scan import (
    DRIVER,
    ProcScan,
    ProcScanner,
    RegionKey,
    open_cards,
)
from ttmem.sources.counters.process_states import ProcessStates
from ttmem.sources.counters.remarks import (
    cross_checks,
    silent_mappings,
    silent_processes,
    table_remarks,
)
from ttmem.sources.counters.slots import SlotReader, opened_only
from ttmem.sources.listing import DirectoryScan
from ttmem.sources.shm import DEFAULT_DIRECTORY, by_user, fault

_NOT_PUBLISHED = "L1 depends on dispatch_core_config and worker_l1_size, which are not published"
_SHARED = "DRAM includes the trace region"
_USUAL = "harvesting as usual for the board"


def declaration(found: Discovered, number: int, logical_id: int) -> DeviceDeclaration:
    """What is known about a device that only its counters report.

    Compute cores, allocatable L1 and the kernel ring depend on how the device was opened, which nothing publishes. They
    stay unknown; what they would be with the defaults is given separately.
    """
    spec = found.spec
    ttnn = found.environment.ttnn if found.environment else None
    full = DeviceDeclaration.from_spec(
        spec, logical_id, str(number), found.pci, remote=found.remote, position=found.position
    )
    note = "; ".join(part for part in (spec.note, _l1_note(found, ttnn), _SHARED) if part)
    declared = replace(
        full,
        grid=None,
        l1_banks=None,
        l1_total=None,
        l1_capacity=None,
        l1_capacity_default=spec.l1_capacity,
        l1_bank_size=None,
        l1_small_bank_size=None,
        ring_base=full.ring_base if ttnn else None,
        cb_base=None,
        trace_bank_size=None,
        ring_per_core=None,
        ring_capacity=None,
        note=note,
    )
    board = found.board
    if board is None:
        return declared
    l1_most = _l1_most(board)
    if board.note is None:
        return replace(declared, l1_most=l1_most, note=f"{_USUAL}; {note}")
    return replace(
        declared,
        l1_most=l1_most,
        l1_capacity_default=None,
        note=f"{_USUAL}, but {board.note}; {note}",
    )


@lru_cache(maxsize=64)
def _l1_most(board: Board) -> int:
    return device_spec(board, tensix_harvested=0).l1_most


def _l1_note(found: Discovered, ttnn: str | None) -> str:
    runtime = f"ttnn {ttnn}" if ttnn else f"ttnn, if it is {NEWEST},"
    capacity = found.spec.l1_capacity
    slow = found.environment is not None and found.environment.slow_dispatch
    dispatch = " under slow dispatch" * slow
    return (
        f"{_NOT_PUBLISHED}; with the defaults of {runtime} it is {human(capacity)} ({capacity:,} B)"
        f"{dispatch}"
    )


# How long to wait for files that are being initialised, all together.
ATTEMPTS = 4
PAUSE_S = 0.002
MAX_REMARKS = 64
MAX_DEVICES = 1024


@dataclass(frozen=True, slots=True)
class CounterReading:
    """Devices by unique id, and a remark for each file that was skipped."""

    devices: tuple[DeviceSample, ...]
    remarks: tuple[Remark, ...]


class CounterSource:
    """Reads all counter files of a directory, repeatedly. It caches what it learned, so keep one object.

    `all_in_sight`: no process is hidden in another PID namespace; None: find out. `containers`: whose counters are
    read as well.
    """

    def __init__(
        self,
        folder: str = DEFAULT_DIRECTORY,
        *,
        scanner: ProcScanner | None = None,
        capacities: Capacities | None = None,
        all_in_sight: bool | None = None,
        containers: Containers | None = None,
    ) -> None:
        self._folder = folder
        self._all_in_sight = sees_all_processes() if all_in_sight is None else all_in_sight
        self._scanner = scanner or ProcScanner()
        self._capacities = capacities or Capacities()
        self._states = ProcessStates()
        self._containers = containers
        self._scans: dict[Container | None, DirectoryScan[CounterFile]] = {}
        self._readers: dict[tuple[Container | None, int], SlotReader] = {}
        self._keys: set[RegionKey] = set()  # of all files that could be read
        self._declared: dict[int, tuple[Discovered, int, DeviceDeclaration]] = {}

    def read(self) -> CounterReading:
        """Never raises, and never waits long."""
        # 64 processes on 32 devices are 4,000 new objects, none of them part of a cycle. With the garbage collector,
        # which would walk all other objects because of them, this takes 6 ms instead of 3.7.
        collects = gc.isenabled()
        gc.disable()
        try:
            return self._read()
        finally:
            if collects:
                gc.enable()

    def _read(self) -> CounterReading:
        remarks: list[Remark] = []
        opened = self._open(remarks)
        self._states.renew()
        regions = [(each.uid, each.region) for each in opened if each.file.container is None]
        scan = self._scanner.latest(lambda: needs_scan(regions, self._states, self._scanner.cards))
        self._forget_all_but({(each.file.container, each.file.number) for each in opened})
        self._keys = {each.key for each in opened}
        devices = []
        for each in opened:
            try:
                devices.append(self._sample(each, scan))
            except Exception as problem:
                remarks.append(fault("unreadable", each.file.path, problem))
        return CounterReading(
            tuple(devices),
            (*_bounded(by_user(remarks)), *silent_processes(scan, devices, self._states)),
        )

    def _forget_all_but(self, files: set[tuple[Container | None, int]]) -> None:
        self._readers = {
            file: self._readers.get(file) or SlotReader(self._all_in_sight, file[0])
            for file in files
        }
        numbers = {number for _, number in files}
        self._declared = {n: known for n, known in self._declared.items() if n in numbers}
        self._capacities.forget_all_but(numbers)

    def _open(self, remarks: list[Remark]) -> list[Contents]:
        found: list[Contents] = []
        waiting = self._files(remarks)
        for attempt in range(ATTEMPTS):
            last = attempt == ATTEMPTS - 1
            again: list[CounterFile] = []
            for file in waiting:
                result = read_counter_file(file)
                if isinstance(result, Remark):
                    if result.kind == "initialising" and not last:
                        again.append(file)
                    else:
                        remarks.append(result)
                elif result is not None:
                    found.append(result)
            if not again:
                break
            time.sleep(PAUSE_S)
            waiting = again
        # Within a number those of this host's directory come first.
        found.sort(key=lambda each: (each.file.number, each.file.container is not None))
        return found

    def _files(self, remarks: list[Remark]) -> list[CounterFile]:
        """Those to read: so many of each user, and of each container of root, where others may have started them."""
        inside = () if self._containers is None else self._containers.look()
        there = (None, *(container for container in inside if container.counters))
        scans = self._scans
        self._scans = {at: scans.get(at) or counter_scan(at or self._folder) for at in there}
        of_each: dict[tuple[int, Container | None], list[CounterFile]] = {}
        left_out: Counter[int] = Counter()
        for at, scan in self._scans.items():
            listing = scan.look()
            left_out.update(listing.left_out)
            if scan.problem is not None and at is None:
                remarks.append(no_directory(self._folder, scan.problem))
            for file in listing.found.values():
                of_each.setdefault((file.uid, None if file.uid else at), []).append(file)
        for files in of_each.values():
            files.sort(key=lambda file: (not file.fits, file.number))
        in_turn = [file for one_of_each in zip_longest(*of_each.values()) for file in one_of_each]
        chosen = [file for file in in_turn if file is not None]
        left_out.update(file.uid for file in chosen[MAX_DEVICES:])
        remarks += (_left_out(uid, count) for uid, count in left_out.items() if count)
        return chosen[:MAX_DEVICES]

    def _sample(self, contents: Contents, scan: ProcScan) -> DeviceSample:
        file, region, key = contents.file, contents.region, contents.key
        reader = self._readers[file.container, file.number]
        processes, held, remarks = reader.read(region.slots, key, self._states, scan, contents.uid)
        processes += opened_only(processes, region, key, contents.uid, self._states, scan)
        if region.kernels is not None:
            processes = _with_kernels(processes, region.kernels)
        discovered = self._capacities.of(
            file.number,
            ((p.pid, p.start_time_ns) for p in processes if p.owner in (Owner.LIVE, Owner.ROOT)),
        )
        cb_method, misses = meaning_of(region)
        remarks += table_remarks(region)
        remarks += silent_mappings(processes, file.name, key, scan, self._states, self._keys)
        if contents.still:
            remarks += cross_checks(held, region)
        return DeviceSample(
            unique_id=str(file.number),
            declaration=self._declaration(discovered, file.number, region.logical_id),
            path=file.path,
            version=region.version,
            logical_id=region.logical_id,
            processes=processes,
            stored=region.totals,
            chips=region.chips,
            cb_method=cb_method,
            misses=misses,
            capacity_source=None if discovered is None else discovered.source,
            remarks=tuple(remarks),
            references=region.references,
            user=user_name(contents.uid),
            counts_kernels=region.kernels is not None,
        )

    def _declaration(
        self, discovered: Discovered | None, number: int, logical_id: int
    ) -> DeviceDeclaration | None:
        if discovered is None:
            return None
        known = self._declared.get(number)
        if known is None or known[0] is not discovered or known[1] != logical_id:
            declared = declaration(discovered, number, logical_id)
            known = self._declared[number] = (discovered, logical_id, declared)
        return known[2]


def _with_kernels(
    processes: Iterable[ProcessSample], kernels: Mapping[int, int | None]
) -> tuple[ProcessSample, ...]:
    """`kernels` is by the pid that each process published."""
    return tuple(
        process._replace(kernels=kernels.get(process.container_pid or process.pid))
        for process in processes
    )


def _left_out(uid: int, count: int) -> Remark:
    whose = "with several names" if uid == UNKNOWN_USER else f"of user {user_name(uid)}"
    text = (
        f"{count:,} more files tt_device_*_memory {whose} are not read:"
        f" the limits are {MOST_PER_USER} of each user, and {MAX_DEVICES:,} in all"
    )
    return Remark("too_many", text)


def _bounded(remarks: list[Remark]) -> tuple[Remark, ...]:
    if len(remarks) <= MAX_REMARKS:
        return tuple(remarks)
    more = len(remarks) - MAX_REMARKS + 1
    return (*remarks[: MAX_REMARKS - 1], Remark("more", f"and {more:,} more files were skipped"))


def needs_scan(
    regions: Sequence[tuple[int, CounterRegion]], states: ProcessStates, cards: str
) -> bool:
    """Whether a slot may belong to another process than it says, or a process may have no slot.

    Otherwise `ttmem ps` can do without the scan of /proc, which takes 0.2 ms per process of the host. `regions` come
    with the uid of the file's owner.
    """
    names: dict[int, bytes] = {}
    for uid, region in regions:
        if region.references > len(region.slots):
            return True
        for pid, _, _, _, _, _, updated_ns, name in region.slots:
            if pid <= 0 or not states.fits(pid, updated_ns):
                return True
            # A process in a container publishes its pid from there, which here belongs to another process.
            if names.setdefault(pid, name) != name or states[pid].uid != uid:
                return True
    if any(comm(pid) != name.partition(b"\0")[0] for pid, name in names.items()):
        return True
    if os.path.isdir(cards) and not os.path.isdir(DRIVER):
        return True
    return not names.keys() >= open_cards(cards).keys()
