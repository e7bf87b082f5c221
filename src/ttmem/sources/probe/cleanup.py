"""Tidying up after dead processes: their regions are compacted, kept for an hour, and removed when there are too many.

A whole region takes 21 MiB, so three of them fill the 64 MiB that a container has in /dev/shm. A compact one has the
same header and records (version `layout.COMPACT_VERSION`), and keeps what `ttmem dump` needs in a hundredth of the
space: counters, live entries, strings, devices, core sets, features and failed allocations, each table cut to what is
used. The events are kept if a leak check needs them: if something was never freed, the ring has all of them, and
there are at most MOST_EVENTS. The time of the last event is in the header.
"""

from __future__ import annotations

import os
import re
import secrets
import stat
from collections.abc import Container, Iterator
from contextlib import closing, suppress

from ttmem.clock import now_ns
from ttmem.events import EVENT_SIZE, Event
from ttmem.fast_dataclasses import NamedTuple
from ttmem.probe import _records, layout
from ttmem.probe.layout import LiveType, Section
from ttmem.sources.owned_files import (
    Changed,
    Key,
    key_of,
    opened,
    opened_folder,
    remove_own,
    write_whole,
)
from ttmem.sources.probe.ended import ended_process, ended_processes
from ttmem.sources.probe.reader import RegionReader
from ttmem.sources.probe.region import ProbeRegion
from ttmem.sources.probe.region_file import U64, BadRegion, find_regions
from ttmem.sources.probe.ring import PIECE

KEPT_NS = 3_600_000_000_000
WHOLE_NS = 60_000_000_000  # for readers that still want the events
MOST_KEPT = 64 << 20  # hundreds of compact regions, or three whole ones
KEPT_SHARE = 4  # at most a quarter of the space that regions could take
MOST_DEAD = 192  # of the 256 regions that are read per user
SMALLEST = 512 << 10  # what is smaller is not worth the effort
MOST_EVENTS = 1 << 14  # 1.4 MiB, so that 64 MiB hold at least 40 of them
_ENTRY, _KEY_AT = layout.LIVE.size, 8

_UNWATCHED = re.compile(r"ttmem_no_room_([0-9]{1,10})_([0-9]{1,10})\Z")


def remove_expired(folder: str | None = None) -> None:
    """Removes this user's regions of processes that ended more than an hour ago, and compacts younger ones."""
    now = now_ns()
    for path, status in _own_regions(folder):
        with suppress(OSError, BadRegion):
            # A region was created before its process ended, so most need not be opened here.
            age = now - status.st_mtime_ns
            if age > KEPT_NS:
                _remove_if_expired(path, now - KEPT_NS)
            elif age > WHOLE_NS and status.st_size >= SMALLEST:
                with closing(ProbeRegion(path)) as region:
                    done = not region.process_alive() and not _summary_to_come(region)
                if done:
                    compact(path)


def _own_regions(folder: str | None) -> Iterator[tuple[str, os.stat_result]]:
    for entry in find_regions(folder):
        if entry.uid == os.geteuid():
            with suppress(OSError):
                yield entry.path, os.lstat(entry.path)


def _remove_if_expired(path: str, oldest: int) -> None:
    with closing(RegionReader(path)) as reader:
        ended = None if reader.alive() else ended_process(reader)
    if ended is not None and (ended.ended_ns or ended.last_ns) < oldest:
        remove_own(path, reader.region.key)


class _DeadRegion(NamedTuple):
    path: str
    key: Key
    pid: int
    size: int
    changed_ns: int


def prune_dead_regions(folder: str) -> list[int]:
    """Compacts this user's regions of dead processes, and removes those beyond the limits.

    Regions of processes that freed everything go first, then the oldest. Returns the pids of removed ones that had
    not: `ttmem dump` no longer knows what they leaked.
    """
    for dead in _dead_regions(folder):
        compact(dead.path)
    dead_regions = list(_dead_regions(folder))
    taken = sum(dead.size for dead in dead_regions)
    most = _most_kept(folder, taken)
    if taken <= most and len(dead_regions) <= MOST_DEAD:
        return []
    leaky = _leaky(folder, [dead.path for dead in dead_regions])
    kept, forgotten = 0, []
    dead_regions.sort(key=lambda dead: (dead.path in leaky, dead.changed_ns), reverse=True)
    for count, dead in enumerate(dead_regions, 1):
        kept += dead.size
        if (kept > most or count > MOST_DEAD) and remove_own(dead.path, dead.key):
            forgotten += [dead.pid] * (dead.path in leaky)
    return sorted(forgotten)


def free_and_total(folder: str) -> tuple[int, int] | None:
    """Bytes of the file system; None if it does not say."""
    try:
        space = os.statvfs(folder)
    except OSError:
        return None
    return space.f_bavail * space.f_frsize, space.f_blocks * space.f_frsize


def _most_kept(folder: str, taken: int) -> int:
    space = free_and_total(folder)
    return MOST_KEPT if space is None else min(MOST_KEPT, (space[0] + taken) // KEPT_SHARE)


def _dead_regions(folder: str) -> Iterator[_DeadRegion]:
    for path, status in _own_regions(folder):
        with suppress(OSError, BadRegion), closing(ProbeRegion(path)) as region:
            ours = region.uid == os.geteuid()
            if ours and not region.process_alive() and not _summary_to_come(region):
                yield _DeadRegion(path, region.key, region.pid, status.st_size, status.st_mtime_ns)


def _leaky(folder: str, paths: list[str]) -> set[str]:
    """Those of which `ttmem dump` lists something that was never freed.

    The live table says so in 10 ms. Only if it was full, the ring is read as well, which takes 0.4 s.
    """
    answers = {path: _left_something(path) for path in paths}
    leaky = {path for path, left in answers.items() if left}
    if None in answers.values():
        leaky |= {ended.news.path for ended in ended_processes(folder) if ended.news.live}
    return leaky


def _left_something(path: str) -> bool | None:
    """None if the live table cannot tell."""
    with suppress(BadRegion), closing(ProbeRegion(path)) as region:
        losses = region.losses()
        if losses.live_uncounted or losses.forgotten or region.gone_with_device():
            return True
        if any(entry.type is LiveType.BUFFER for entry in region.live()):
            return True
        return None if losses.live_not_listed else False
    return False


def _summary_to_come(region: ProbeRegion) -> bool:
    """Whether a running `ttmem run` will read the region when the last of its children has ended."""
    launcher = region.header().launcher
    return launcher is not None and os.path.exists(f"/proc/{launcher}")


def take_unwatched(folder: str, launcher: int) -> list[int]:
    """The processes of a `ttmem run` that found no space for a region.

    Each left an empty file, `ttmem_no_room_LAUNCHER_PID`. They are removed, and so are those of launchers that died.
    """
    pids = []
    for name in _listed(folder):
        match = _UNWATCHED.match(name)
        if match is None:
            continue
        ours = int(match[1]) == launcher
        if not ours and os.path.exists(f"/proc/{match[1]}"):
            continue
        # This user's launcher started no process of another user.
        with suppress(Changed, OSError), opened(os.path.join(folder, name)) as file:
            if file.status.st_uid == os.geteuid() and file.status.st_size == 0:
                os.unlink(name, dir_fd=file.folder)
                pids += [int(match[2])] * ours
    return sorted(pids)


def names_taken(folder: str, pids: Container[int]) -> list[str]:
    """Files of other users that have the name of a region of one of these processes."""
    taken = []
    for name in _listed(folder):
        with suppress(ValueError, IndexError, OSError):
            if name.startswith("ttmem_") and int(name.split("_")[1]) in pids:
                path = os.path.join(folder, name)
                taken += [path] * (os.lstat(path).st_uid != os.geteuid())
    return sorted(taken)


def _listed(folder: str) -> list[str]:
    try:
        return os.listdir(folder)
    except OSError:
        return []


def compact(path: str) -> bool:
    """Replaces this user's region of a dead process by a compact one; False if it was left as it is."""
    with (
        suppress(BadRegion, OSError, Changed),
        opened_folder(os.path.dirname(path)) as folder,
        closing(ProbeRegion(path)) as region,
    ):
        name = os.path.basename(path)
        status = os.stat(name, dir_fd=folder, follow_symlinks=False)
        ours = region.uid == os.geteuid() and key_of(status) == region.key
        whole = region.header().version == layout.VERSION and status.st_size >= SMALLEST
        # Not if the live table was full: then the ring is needed to tell what was never freed.
        listed = not region.losses().live_not_listed
        if ours and whole and listed and not region.process_alive():
            data = compacted(region)
            if len(data) < status.st_size // 2:
                _replace(folder, name, status, data)
                return True
    return False


def compacted(region: ProbeRegion) -> bytes:
    devices, sets, cores, _ = region.table_counts()
    entries = b"".join(
        _records.whole_live(*pair) for pair in region.pieces(Section.LIVE_KEYS, Section.LIVE)
    )
    keys = [entries[at : at + 8] for at in range(_KEY_AT, len(entries), _ENTRY)]
    strings = region.word(layout.STRINGS_AT)
    ring = _needed_events(region)
    contents = {
        Section.COUNTERS: region.records(Section.COUNTERS, 0, devices * layout.KINDS),
        Section.ACTIVITY: region.records(Section.ACTIVITY, 0, devices),
        Section.RING: ring,
        Section.LIVE_KEYS: b"".join(keys),
        Section.LIVE: entries,
        Section.STRINGS: region.records(Section.STRINGS, 0, strings & 0xFFFFFFFF),
        Section.TEXT: region.records(Section.TEXT, 0, strings >> 32),
        Section.DEVICES: region.records(Section.DEVICES, 0, devices),
        Section.SETS: region.records(Section.SETS, 0, sets),
        Section.CORES: region.records(Section.CORES, 0, cores),
        Section.FEATURES: region.records(Section.FEATURES, 0, region.count(Section.FEATURES)),
        Section.FAILURES: b"".join(
            region.whole_records(Section.FAILURES, layout.LARGEST[Section.FAILURES])
        ),
    }
    header = bytearray(region.read(0, layout.HEADER_SIZE))
    size = layout.HEADER_SIZE
    for section, data in contents.items():
        stride = layout.STRIDES[section]
        at = layout.SECTIONS_AT + section * layout.SECTION.size
        layout.SECTION.pack_into(header, at, size, len(data) // stride, stride)
        size += len(data)
    header[8:12] = layout.COMPACT_VERSION.to_bytes(4, "little")
    U64.pack_into(header, layout.SIZE_AT, size)
    if not ring:
        U64.pack_into(header, layout.TICKETS_AT, 0)
    U64.pack_into(header, layout.LAST_EVENT_AT, _last_event_ns(region))
    return b"".join((header, *contents.values()))


def _needed_events(region: ProbeRegion) -> bytes:
    """The ring, cut to a power of two: all events of a process that left memory, or none."""
    tickets = region.word(layout.TICKETS_AT)
    slots = 1 << max(0, tickets - 1).bit_length()
    if not 0 < slots <= min(MOST_EVENTS, region.count(Section.RING)):
        return b""
    buffers = any(entry.type is LiveType.BUFFER for entry in region.live())
    if not buffers and not region.gone_with_device():
        return b""
    return region.records(Section.RING, 0, slots)


def _last_event_ns(region: ProbeRegion) -> int:
    events = region.latest_events(PIECE * EVENT_SIZE).events
    return Event.unpack(events, len(events) - EVENT_SIZE).time if events else 0


def _replace(folder: int, name: str, status: os.stat_result, data: bytes) -> None:
    """With the same owner, group, mode and age. Whoever has the old file open can go on reading it."""
    fresh = f".ttmem-compact-{secrets.token_hex(8)}"
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    file = os.open(fresh, flags, 0o600, dir_fd=folder)
    try:
        write_whole(file, data, 0)
        if status.st_gid != os.fstat(file).st_gid:
            os.fchown(file, -1, status.st_gid)
        os.fchmod(file, stat.S_IMODE(status.st_mode))
        os.utime(file, ns=(status.st_atime_ns, status.st_mtime_ns))
        if key_of(os.stat(name, dir_fd=folder, follow_symlinks=False)) != key_of(status):
            raise Changed("has been replaced")
        os.rename(fresh, name, src_dir_fd=folder, dst_dir_fd=folder)
    except BaseException:
        with suppress(OSError):
            os.unlink(fresh, dir_fd=folder)
        raise
    finally:
        os.close(file)
