"""Compact regions: all that the region of a dead process is still needed for, in a hundredth of the space.

A whole region takes 21 MiB, nearly all of it for the ring and the hash table of live entries. A compact one has the
same header and records (version `layout.COMPACT_VERSION`) and keeps what `ttmem dump` needs: counters, live entries,
strings, devices, core sets, features and failed allocations, each table cut to what is used. There are no events; the
time of the last one is in the header.
"""

from __future__ import annotations

import os
import secrets
import stat
from contextlib import closing, suppress

from ttmem.events import EVENT_SIZE, Event
from ttmem.probe import _records, layout
from ttmem.probe.layout import Section
from ttmem.sources.owned_files import Changed, key_of, opened_folder, write_whole
from ttmem.sources.probe.region import ProbeRegion
from ttmem.sources.probe.region_file import U64, BadRegion
from ttmem.sources.probe.ring import PIECE
from ttmem.sources.probe.tables import whole_records

SMALLEST = 512 << 10  # what is smaller is not worth the effort
_ENTRY, _KEY_AT = layout.LIVE.size, 8


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
        if ours and status.st_size >= SMALLEST and is_compactable(region):
            data = compacted(region)
            if len(data) < status.st_size // 2:
                _replace(folder, name, status, data)
                return True
    return False


def is_compactable(region: ProbeRegion) -> bool:
    """Not if the live table was full: then the ring is needed to tell what was never freed."""
    return (
        region.header().version == layout.VERSION
        and not region.process_alive()
        and not region.losses().live_not_listed
    )


def compacted(region: ProbeRegion) -> bytes:
    """The compact form of a region."""
    file, (devices, sets, cores, _) = region.file, region.table_counts()
    entries = b"".join(
        _records.whole_live(*pair) for pair in file.pieces(Section.LIVE_KEYS, Section.LIVE)
    )
    keys = [entries[at : at + 8] for at in range(_KEY_AT, len(entries), _ENTRY)]
    strings = file.word(layout.STRINGS_AT)
    contents = {
        Section.COUNTERS: file.records(Section.COUNTERS, 0, devices * layout.KINDS),
        Section.ACTIVITY: file.records(Section.ACTIVITY, 0, devices),
        Section.RING: b"",
        Section.LIVE_KEYS: b"".join(keys),
        Section.LIVE: entries,
        Section.STRINGS: file.records(Section.STRINGS, 0, strings & 0xFFFFFFFF),
        Section.TEXT: file.records(Section.TEXT, 0, strings >> 32),
        Section.DEVICES: file.records(Section.DEVICES, 0, devices),
        Section.SETS: file.records(Section.SETS, 0, sets),
        Section.CORES: file.records(Section.CORES, 0, cores),
        Section.FEATURES: file.records(Section.FEATURES, 0, file.count(Section.FEATURES)),
        Section.FAILURES: b"".join(
            whole_records(file, Section.FAILURES, layout.LARGEST[Section.FAILURES])
        ),
    }
    header = bytearray(file.read(0, layout.HEADER_SIZE))
    size = layout.HEADER_SIZE
    for section, data in contents.items():
        stride = layout.STRIDES[section]
        at = layout.SECTIONS_AT + section * layout.SECTION.size
        layout.SECTION.pack_into(header, at, size, len(data) // stride, stride)
        size += len(data)
    header[8:12] = layout.COMPACT_VERSION.to_bytes(4, "little")
    U64.pack_into(header, layout.SIZE_AT, size)
    U64.pack_into(header, layout.TICKETS_AT, 0)
    U64.pack_into(header, layout.LAST_EVENT_AT, _last_event_ns(region))
    return b"".join((header, *contents.values()))


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
