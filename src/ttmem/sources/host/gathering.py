"""All facts of a host in one go: half a second on a large one, so not for a monitor."""

from __future__ import annotations

import os
import stat
from collections.abc import Collection, Iterable
from dataclasses import replace

from ttmem.clock import now_ns
from ttmem.events import DeviceSample, Remark
from ttmem.process_identity import user_name
from ttmem.sources.host.card_facts import card_facts, driver_version
from ttmem.sources.host.facts import FolderFacts, HostFacts, RegionFacts
from ttmem.sources.host.probe_facts import probe_facts
from ttmem.sources.host.runtimes import runtimes_in_use
from ttmem.sources.host.server_sockets import knock
from ttmem.sources.host.surroundings import surroundings
from ttmem.sources.shared_memory import Holders, HoldersWatch, SharedMemory


def gather(folder: str, socket: str) -> HostFacts:
    """`folder`: where regions lie. `socket`: where the server should be."""
    watch = HoldersWatch(period_s=float("inf"))
    holders = watch.picture()
    reading = SharedMemory(folder, holders=watch).read()
    probes = probe_facts(folder)
    watched = {probe.pid for probe in probes if probe.alive and probe.problem is None}
    regions = tuple(
        facts
        for sample in reading.devices
        if (facts := _region(_without_silence(sample, watched), holders)) is not None
    )
    return HostFacts(
        time_ns=now_ns(),
        driver=driver_version(),
        cards=card_facts(),
        runtimes=runtimes_in_use(),
        folder=_folder(folder),
        regions=regions,
        remarks=_of_unwatched(reading.remarks, watched),
        other_folders=tuple(_other_folders(holders)),
        sockets=(knock(socket),),
        probes=probes,
        surroundings=surroundings(),
    )


def _of_unwatched(remarks: Iterable[Remark], watched: Collection[int]) -> tuple[Remark, ...]:
    """Of a process that the probe watches it is known what it holds."""
    return tuple(one for one in remarks if not (one.of_silence and one.pid in watched))


def _without_silence(sample: DeviceSample, watched: Collection[int]) -> DeviceSample:
    return replace(sample, remarks=_of_unwatched(sample.remarks, watched))


def _region(sample: DeviceSample, holders: Holders) -> RegionFacts | None:
    try:
        status = os.lstat(sample.path)
    except OSError:
        return None  # gone meanwhile
    mappers = holders.mapped_by.get((status.st_dev, status.st_ino), frozenset())
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


def _other_folders(holders: Holders) -> list[tuple[int, str]]:
    """Processes, as a rule in containers, whose regions lie in a /dev/shm of their own."""
    ours = _identity("/dev/shm")
    found = []
    for holder in holders.by_pid.values():
        folder = f"/proc/{holder.pid}/root/dev/shm"
        if not holder.mappings or _identity(folder) in (None, ours):
            continue
        if any(_identity(f"{folder}/{each.name}") == each.key for each in holder.mappings):
            found.append((holder.pid, folder))
    return found


def _identity(path: str) -> tuple[int, int] | None:
    try:
        status = os.stat(path)
    except OSError:
        return None
    return status.st_dev, status.st_ino
