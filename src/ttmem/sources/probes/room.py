"""Room for the regions of a new run: in a container's /dev/shm of 64 MiB three dead ones leave none."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import closing, suppress
from dataclasses import dataclass

from ttmem.probe.layout import LiveType
from ttmem.sources.owned_files import Key, remove_own
from ttmem.sources.probe_region import BadRegion, ProbeRegion, find_regions
from ttmem.sources.probes.ended import ended_regions

MOST_KEPT = 64 << 20  # three whole regions
KEPT_SHARE = 4  # and no more than a quarter of what they could have at all


@dataclass(frozen=True, slots=True)
class _Dead:
    path: str
    key: Key
    pid: int
    size: int
    changed_ns: int


def make_room(folder: str) -> list[int]:
    """Removes our own regions of dead processes: first of those that freed all, then the oldest.

    What stays is for `ttmem dump`. Returns the pids of removed ones that had not freed all: what
    they leaked is known to nobody from now on.
    """
    dead = list(_dead_regions(folder))
    taken = sum(one.size for one in dead)
    most = _most_kept(folder, taken)
    if taken <= most:
        return []
    leaky = _leaky(folder, [one.path for one in dead])
    kept, forgotten = 0, []
    for one in sorted(dead, key=lambda one: (one.path in leaky, one.changed_ns), reverse=True):
        kept += one.size
        if kept > most and remove_own(one.path, one.key):
            forgotten += [one.pid] * (one.path in leaky)
    return sorted(forgotten)


def free_and_size(folder: str) -> tuple[int, int] | None:
    """Bytes of the file system; None if it does not tell."""
    try:
        room = os.statvfs(folder)
    except OSError:
        return None
    return room.f_bavail * room.f_frsize, room.f_blocks * room.f_frsize


def _most_kept(folder: str, taken: int) -> int:
    room = free_and_size(folder)
    return MOST_KEPT if room is None else min(MOST_KEPT, (room[0] + taken) // KEPT_SHARE)


def _dead_regions(folder: str) -> Iterator[_Dead]:
    for name in find_regions(folder):
        with suppress(OSError, BadRegion), closing(ProbeRegion(name.path)) as region:
            status = os.lstat(name.path)
            ours = region.uid == os.geteuid()
            if ours and not region.process_alive() and not _summary_to_come(region):
                yield _Dead(name.path, region.key, region.pid, status.st_size, status.st_mtime_ns)


def _leaky(folder: str, paths: list[str]) -> set[str]:
    """Those of which `ttmem dump` lists something that was never freed.

    The table tells, in 10 ms. Only where it had no room for all, the ring is read too: 0.4 s.
    """
    told = {path: _left_something(path) for path in paths}
    leaky = {path for path, left in told.items() if left}
    if None in told.values():
        leaky |= {one.news.path for one in ended_regions(folder) if one.news.live}
    return leaky


def _left_something(path: str) -> bool | None:
    """None: its table does not tell."""
    with suppress(BadRegion), closing(ProbeRegion(path)) as region:
        losses = region.losses()
        if losses.live_uncounted or losses.forgotten or region.gone_with_device():
            return True
        if any(thing.type is LiveType.BUFFER for thing in region.live()):
            return True
        return None if losses.live_without_room else False
    return False


def _summary_to_come(region: ProbeRegion) -> bool:
    """Another `ttmem run` reads the regions of its children when the last of them has ended."""
    launcher = region.header().launcher
    return launcher is not None and os.path.exists(f"/proc/{launcher}")
