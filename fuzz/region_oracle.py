"""What a region must be read as, decided word by word and without the reader's code."""

from __future__ import annotations

import os
import struct
import time

Five = tuple[int, ...]


def _u32(data: bytes, at: int) -> int:
    return int.from_bytes(data[at : at + 4], "little")


def _u64(data: bytes, at: int) -> int:
    return int.from_bytes(data[at : at + 8], "little")


def in_use(data: bytes, number: int) -> Five | None:
    """Bytes by kind over the slots that count; None if it is not to be read at all."""
    if not _is_known(data, number):
        return None
    sums = [0] * 5
    slots, update = (
        (range(856, 8536, 120), 48) if len(data) == 8576 else (range(992, 9184, 128), 56)
    )
    for at in slots:
        (pid,) = struct.unpack_from("<i", data, at)
        counters = [_u64(data, at + 8 * (1 + kind)) for kind in range(5)]
        if pid > 0 and max(counters) < 1 << 44 and _owns(pid, _u64(data, at + update)):
            sums = [one + other for one, other in zip(sums, counters, strict=True)]
    return tuple(sums)


def _is_known(data: bytes, number: int) -> bool:
    version, parts = _u32(data, 0), (_u64(data, 24), _u64(data, 32))
    in_two = parts == (number >> 8, number & 0xFF)
    if len(data) in (9280, 9248):
        return version == 1 and in_two and not _marked(data, range(96, 992, 56))
    if len(data) != 8576:
        return False
    if version in (1, 2) and in_two:  # of numbers above 255; below, version 2 may be marked
        return not _marked(data, range(88, 856, 48)) or (version == 2 and number < 256)
    if version not in (2, 3, 4) or parts != (0, number):
        return False
    return version < 4 or _u32(data, 8536) == 0x52454459


def _marked(data: bytes, chips: range) -> bool:
    """Whether free chip slots are marked as in version 2 and later."""
    return any(_u32(data, at) == 0xFFFFFFFF for at in chips)


def _owns(pid: int, updated_ns: int) -> bool:
    """Alive, no zombie, and started (to a tick) before its update."""
    try:
        with open(f"/proc/{pid}/stat") as stat:
            fields = stat.read().rpartition(")")[2].split()
    except OSError:
        return False
    if fields[0] in "ZX":
        return False
    if updated_ns == 0:
        return True
    booted = time.time() - time.clock_gettime(time.CLOCK_BOOTTIME)
    started = booted + int(fields[19]) / os.sysconf("SC_CLK_TCK")
    if updated_ns < 1 << 58:
        updated_ns += int((time.time() - time.monotonic()) * 1e9)
    return started <= updated_ns / 1e9 + 0.01
