"""Regions that a broken runtime, or an enemy, might leave in shared memory."""

from __future__ import annotations

import random
import struct
import time

from fuzz.streams import EXTREMES, mutated

SIZE = 8576
KERNEL_SIZES = (9280, 9248)
READY = 0x52454459


def _counter(rng: random.Random) -> int:
    return rng.choice(EXTREMES) if rng.random() < 0.02 else rng.randrange(1 << 34)


def sound(rng: random.Random, number: int, pids: list[int]) -> bytes:
    """What the runtime writes, with totals that may disagree as they do."""
    version = rng.choice((1, 1, 2, 2, 3, 3, 3, 4, 4, 4))
    kernels = version == 1 and rng.random() < 0.5
    data = bytearray(rng.choice(KERNEL_SIZES) if kernels else SIZE)
    counted = 6 if kernels else 5
    chips_at, slots_at = (96, 992) if kernels else (88, 856)
    ids = (number >> 8, number & 0xFF) if version == 1 else (0, number)
    struct.pack_into("<IIQI", data, 0, version, 1, time.time_ns(), rng.randrange(5))
    struct.pack_into("<QQI", data, 24, *ids, rng.randrange(4))
    struct.pack_into(f"<{counted}Q", data, 48, *(_counter(rng) for _ in range(counted)))
    for chip in range(16):
        at = chips_at + (8 + 8 * counted) * chip
        struct.pack_into("<I", data, at, 0 if version == 1 else 0xFFFFFFFF)
    struct.pack_into(
        f"<II{counted}Q", data, chips_at, 0, 0, *(_counter(rng) for _ in range(counted))
    )
    for slot in rng.sample(range(64), rng.choice((0, 1, 2, 5, 20, 64))):
        at = slots_at + (80 + 8 * counted) * slot
        age = rng.choice((0, 1, 60, 10**6, 10**9)) * 1_000_000_000
        struct.pack_into("<i", data, at, rng.choice(pids))
        counters = [_counter(rng) for _ in range(counted)]
        struct.pack_into(f"<{counted}QQ", data, at + 8, *counters, time.time_ns() - age)
        name_at = at + 16 + 8 * counted
        data[name_at : name_at + 6] = b"python"
    if version == 4 and rng.random() < 0.98:
        struct.pack_into("<I", data, 8536, READY)
    return bytes(data)


def _words_changed(rng: random.Random, data: bytes) -> bytes:
    """Whole words, so that the size stays and the layout is still believed."""
    out = bytearray(data)
    for _ in range(rng.randrange(1, 12)):
        at = 4 * rng.randrange(len(out) // 4)
        out[at : at + 4] = struct.pack(
            "<I", rng.choice((0, 1, 2**31, 2**32 - 1, rng.getrandbits(32)))
        )
    return bytes(out)


def region(rng: random.Random, number: int, pids: list[int]) -> bytes:
    """One region: sound, with words or bytes changed, cut, grown, or noise."""
    data = sound(rng, number, pids)
    chance = rng.random()
    if chance < 0.2:
        return data
    if chance < 0.75:
        return _words_changed(rng, data)
    if chance < 0.9:
        return mutated(rng, data).ljust(len(data), b"\0")[: len(data)]
    return mutated(rng, data) if chance < 0.97 else rng.randbytes(len(data))
