"""Streams against the server: no exception escapes, the laws hold, memory stays bounded."""

from __future__ import annotations

import logging
import random
import resource
import time
from pathlib import Path

from fuzz.streams import stream
from fuzz.target import target

CHECK_EVERY = 2000
MAX_GROWTH_KIB = 200 << 10


def run(streams: int, seed: int) -> int:
    """Prints how far it came, and what broke."""
    logging.disable(logging.CRITICAL)
    begun = time.monotonic()
    with target() as fed:
        before = 0
        for number in range(streams):
            rng = random.Random(seed * 1_000_003 + number)
            data = stream(rng)
            try:
                fed.feed(rng, data)
                if number % CHECK_EVERY == 0:
                    fed.check()
            except Exception:
                Path("fuzz-failure.bin").write_bytes(data)
                print(f"stream {number} of seed {seed} broke it; its bytes are in fuzz-failure.bin")
                raise
            if number == streams // 10:
                before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
            if number % 10_000 == 0 and number:
                print(f"{number:,} streams, {time.monotonic() - begun:.0f} s", flush=True)
        fed.check()
        growth = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
        rejected = fed.server.books.snapshot(1).losses.rejected_records
    print(
        f"{streams:,} streams, {rejected:,} records rejected, memory grew by {growth:,} KiB after the first tenth"
    )
    if growth > MAX_GROWTH_KIB:
        print("memory is not bounded")
        return 1
    return 0
