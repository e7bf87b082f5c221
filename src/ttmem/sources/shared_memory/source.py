"""Reads every region of a folder: never raises, never waits long."""

from __future__ import annotations

import gc
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from ttmem.events import DeviceSample, ProcessSample, Remark
from ttmem.process_identity import sees_all_processes, user_name
from ttmem.sources.closed_files import by_user
from ttmem.sources.shared_memory.capacity import Capacities
from ttmem.sources.shared_memory.files import Contents, RegionFile, read_contents, region_files
from ttmem.sources.shared_memory.findings import cross_checks, table_remarks
from ttmem.sources.shared_memory.holder_findings import silent_holders, silent_mappings
from ttmem.sources.shared_memory.holders import Holders, HoldersWatch
from ttmem.sources.shared_memory.layout import Region, UnknownLayout, Unsettled, decode
from ttmem.sources.shared_memory.lives import Lives
from ttmem.sources.shared_memory.meaning import meaning_of
from ttmem.sources.shared_memory.puzzles import is_puzzling
from ttmem.sources.shared_memory.slots import SlotReader

# A region that is being initialised gets this long, together with all others of the same reading.
LOOKS = 4
PAUSE_S = 0.002
MAX_REMARKS = 64
MAX_DEVICES = 1024


@dataclass(frozen=True, slots=True)
class Reading:
    """What one look gave: devices by unique id, and one line for each file that was skipped."""

    devices: tuple[DeviceSample, ...]
    remarks: tuple[Remark, ...]


class SharedMemory:
    """Reads regions again and again; keep one object, it remembers what it learned.

    `descriptor` is a cluster descriptor to take capacities from, before all other sources. `all_in_sight`: no process
    of another PID namespace can be hidden; None: find out.
    """

    def __init__(
        self,
        folder: str = "/dev/shm",
        *,
        descriptor: str | None = None,
        holders: HoldersWatch | None = None,
        capacities: Capacities | None = None,
        all_in_sight: bool | None = None,
    ) -> None:
        self._folder = folder
        self._all_in_sight = sees_all_processes() if all_in_sight is None else all_in_sight
        self._holders = holders or HoldersWatch()
        self._capacities = capacities or Capacities(descriptor)
        self._lives = Lives()
        self._readers: dict[int, SlotReader] = {}

    def read(self) -> Reading:
        """One look at every region."""
        # 64 processes on 32 devices are 4,000 new objects, and none of them is part of a cycle: without
        # the collector, which would walk all others for them, it takes 3.7 ms instead of 6.
        collects = gc.isenabled()
        gc.disable()
        try:
            return self._read()
        finally:
            if collects:
                gc.enable()

    def _read(self) -> Reading:
        remarks: list[Remark] = []
        regions = self._regions(remarks)
        self._lives.renew()
        holders = self._holders.picture(
            lambda: is_puzzling(
                [(c.uid, r) for _, c, r in regions], self._lives, self._holders.cards
            )
        )
        self._forget_all_but({file.number for file, _, _ in regions})
        devices = []
        for each in regions:
            try:
                devices.append(self._sample(*each, holders))
            except Exception as problem:  # whatever a region holds, it is that region's alone
                what = f"{type(problem).__name__}: {problem}"[:200]
                text = f"{each[0].path} cannot be read: {what}"
                remarks.append(Remark("unreadable", text, path=each[0].path))
        return Reading(
            tuple(devices),
            (*_bounded(by_user(remarks)), *silent_holders(holders, devices, self._lives)),
        )

    def _forget_all_but(self, numbers: set[int]) -> None:
        self._readers = {
            number: self._readers.get(number) or SlotReader(self._all_in_sight)
            for number in numbers
        }
        self._capacities.forget_all_but(numbers)

    def _regions(self, remarks: list[Remark]) -> list[tuple[RegionFile, Contents, Region]]:
        found: list[tuple[RegionFile, Contents, Region]] = []
        waiting: list[RegionFile] = []
        for entry in region_files(self._folder):
            if isinstance(entry, Remark):
                remarks.append(entry)
            else:
                waiting.append(entry)
        for attempt in range(LOOKS):
            last = attempt == LOOKS - 1
            again: list[RegionFile] = []
            for file in waiting:
                result = read_region(file)
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
        self,
        file: RegionFile,
        contents: Contents,
        region: Region,
        holders: Holders,
    ) -> DeviceSample:
        reader = self._readers[file.number]
        processes, held, remarks = reader.read(
            region.slots, contents.key, self._lives, holders, contents.uid
        )
        if region.kernels is not None:
            processes = _with_kernels(processes, region.kernels)
        capacity = self._capacities.of(file.number, region.logical_id, processes)
        meaning = meaning_of(region)
        remarks += table_remarks(region)
        remarks += silent_mappings(processes, file.name, contents.key, holders, self._lives)
        if contents.copy.still:
            remarks += cross_checks(held, region)
        return DeviceSample(
            unique_id=str(file.number),
            declaration=capacity.declaration,
            path=file.path,
            version=region.version,
            logical_id=region.logical_id,
            processes=processes,
            stored=region.totals,
            chips=region.chips,
            cb_method=meaning.cb_method,
            misses=meaning.misses,
            capacity_source=capacity.source,
            remarks=tuple(remarks),
            references=region.references,
            user=user_name(contents.uid),
            counts_kernels=region.kernels is not None,
        )


def _with_kernels(
    processes: Iterable[ProcessSample], kernels: Mapping[int, int | None]
) -> tuple[ProcessSample, ...]:
    """By the pid that each published."""
    return tuple(
        one._replace(kernels=kernels.get(one.container_pid or one.pid)) for one in processes
    )


def read_region(file: RegionFile) -> tuple[Contents, Region] | Remark | None:
    """The region in a file, or why there is none; None if the file is gone meanwhile."""
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
