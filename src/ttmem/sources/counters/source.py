"""Samples of all counter files of a directory."""

from __future__ import annotations

import gc
import os
import time
from collections.abc import Iterable, Mapping, Sequence

from ttmem.events import DeviceDeclaration, DeviceSample, Owner, ProcessSample, Remark
from ttmem.fast_dataclasses import dataclass
from ttmem.hw.discovery import Capacities, Discovered
from ttmem.procfs import comm, sees_all_processes, user_name
from ttmem.sources.counters.declarations import declaration
from ttmem.sources.counters.files import Contents, CounterFile, counter_files, read_contents
from ttmem.sources.counters.layout import (
    CounterRegion,
    UnknownLayout,
    Unsettled,
    decode,
    meaning_of,
)
from ttmem.sources.counters.proc_scan import DRIVER, ProcScan, ProcScanner, open_cards
from ttmem.sources.counters.process_states import ProcessStates
from ttmem.sources.counters.remarks import (
    cross_checks,
    silent_mappings,
    silent_processes,
    table_remarks,
)
from ttmem.sources.counters.slots import SlotReader
from ttmem.sources.shm import DEFAULT_DIRECTORY, by_user

# How long to wait for files that are being initialised, all together.
ATTEMPTS = 4
PAUSE_S = 0.002
MAX_REMARKS = 64
MAX_DEVICES = 1024

_Opened = tuple[CounterFile, Contents, CounterRegion]


@dataclass(frozen=True, slots=True)
class CounterReading:
    """Devices by unique id, and a remark for each file that was skipped."""

    devices: tuple[DeviceSample, ...]
    remarks: tuple[Remark, ...]


class CounterSource:
    """Reads all counter files of a directory, repeatedly. It caches what it learned, so keep one object.

    `descriptor` is a cluster descriptor to take capacities from, before all other sources. `all_in_sight`: no process
    is hidden in another PID namespace; None: find out.
    """

    def __init__(
        self,
        folder: str = DEFAULT_DIRECTORY,
        *,
        descriptor: str | None = None,
        scanner: ProcScanner | None = None,
        capacities: Capacities | None = None,
        all_in_sight: bool | None = None,
    ) -> None:
        self._folder = folder
        self._all_in_sight = sees_all_processes() if all_in_sight is None else all_in_sight
        self._scanner = scanner or ProcScanner()
        self._capacities = capacities or Capacities(descriptor)
        self._states = ProcessStates()
        self._readers: dict[int, SlotReader] = {}
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
        regions = [(contents.uid, region) for _, contents, region in opened]
        scan = self._scanner.latest(lambda: needs_scan(regions, self._states, self._scanner.cards))
        self._forget_all_but({file.number for file, _, _ in opened})
        devices = []
        for each in opened:
            try:
                devices.append(self._sample(*each, scan))
            except Exception as problem:  # a bad file affects only its own device
                what = f"{type(problem).__name__}: {problem}"[:200]
                text = f"{each[0].path} cannot be read: {what}"
                remarks.append(Remark("unreadable", text, path=each[0].path))
        return CounterReading(
            tuple(devices),
            (*_bounded(by_user(remarks)), *silent_processes(scan, devices, self._states)),
        )

    def _forget_all_but(self, numbers: set[int]) -> None:
        self._readers = {
            number: self._readers.get(number) or SlotReader(self._all_in_sight)
            for number in numbers
        }
        self._declared = {n: known for n, known in self._declared.items() if n in numbers}
        self._capacities.forget_all_but(numbers)

    def _open(self, remarks: list[Remark]) -> list[_Opened]:
        found: list[_Opened] = []
        waiting: list[CounterFile] = []
        for entry in counter_files(self._folder):
            if isinstance(entry, Remark):
                remarks.append(entry)
            else:
                waiting.append(entry)
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
                    found.append((file, *result))
            if not again:
                break
            time.sleep(PAUSE_S)
            waiting = again
        found.sort(key=lambda each: each[0].number)
        if len(found) > MAX_DEVICES:
            text = f"{len(found):,} regions are too many; the first {MAX_DEVICES:,} are read"
            remarks.insert(0, Remark("too_many", text))
        return found[:MAX_DEVICES]

    def _sample(
        self, file: CounterFile, contents: Contents, region: CounterRegion, scan: ProcScan
    ) -> DeviceSample:
        reader = self._readers[file.number]
        processes, held, remarks = reader.read(
            region.slots, contents.key, self._states, scan, contents.uid
        )
        if region.kernels is not None:
            processes = _with_kernels(processes, region.kernels)
        discovered = self._capacities.of(
            file.number,
            ((p.pid, p.start_time_ns) for p in processes if p.owner in (Owner.LIVE, Owner.ROOT)),
        )
        meaning = meaning_of(region)
        remarks += table_remarks(region)
        remarks += silent_mappings(processes, file.name, contents.key, scan, self._states)
        if contents.copy.still:
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
            cb_method=meaning.cb_method,
            misses=meaning.misses,
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
        one._replace(kernels=kernels.get(one.container_pid or one.pid)) for one in processes
    )


def read_counter_file(file: CounterFile) -> tuple[Contents, CounterRegion] | Remark | None:
    """What is in a file, or why it was skipped; None if it no longer exists."""
    contents = read_contents(file)
    if not isinstance(contents, Contents):
        return contents
    name = file.name
    try:
        return contents, decode(contents.copy.data, file.number)
    except Unsettled:
        text = f"{name}: still being initialised by its first process"
        return Remark("initialising", text, path=file.path)
    except UnknownLayout as reason:
        return Remark("unknown_layout", f"{name}: {reason}; skipped", path=file.path)


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
        for pid, *_, updated_ns, name in region.slots:
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
