"""Changed regions against their reader: `BadRegion` or what was really there, nothing else, and soon."""

from __future__ import annotations

import gzip
import random
import tempfile
import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from fuzz.probe_regions import Bench
from ttmem.events.record import EVENT_SIZE
from ttmem.sources.probe.region import ProbeRegion
from ttmem.sources.probe.region_file import BadRegion

GOLDEN = Path(__file__).parents[1] / "tests" / "data" / "probe_regions" / "version-1.gz"
SLOWEST_S = 5.0


@dataclass(frozen=True)
class Contents:
    """All that carries a checksum. Chips are left out: a live thing names them by the number of a set."""

    events: frozenset[bytes]
    live: frozenset[object]
    texts: frozenset[object]
    cores: frozenset[object]
    devices: frozenset[object]
    failures: frozenset[object]


def _contents(path: Path) -> Contents:
    region = ProbeRegion(str(path))
    try:
        region.header()
        region.process_alive()
        region.counters()
        region.activity()
        region.features()
        region.losses()
        batch = region.new_events()
        starts = range(0, len(batch.events), EVENT_SIZE)
        return Contents(
            # A set of chips becomes an event for each of them: which ones is the set's business.
            frozenset(_without_device(batch.events[at : at + EVENT_SIZE]) for at in starts),
            frozenset(
                (entry.type, entry.id, entry.requested, entry.address) for entry in region.live()
            ),
            frozenset(region.new_strings().values()),
            frozenset(map(tuple, region.new_cores().values())),
            frozenset(filter(None, region.devices())),
            frozenset((failure.requested, failure.message) for failure in region.failures()),
        )
    finally:
        region.close()


def _without_device(event: bytes) -> bytes:
    return event[:4] + event[8:]


def _made_up(found: Contents, sound: Contents) -> Iterable[object]:
    for name in Contents.__dataclass_fields__:
        yield from getattr(found, name) - getattr(sound, name)


def run(count: int, seed: int) -> int:
    """Prints how far it came, and what broke."""
    begun = time.monotonic()
    refused = 0
    with tempfile.TemporaryDirectory(prefix="ttmem-fuzz-", dir="/dev/shm") as folder:
        bench = Bench(Path(folder, "ttmem_1_1"), gzip.decompress(GOLDEN.read_bytes()))
        sound = _contents(bench.path)
        for number in range(count):
            bench.change(random.Random(seed * 1_000_003 + number))
            started = time.monotonic()
            try:
                made_up = list(_made_up(_contents(bench.path), sound))
                assert not made_up, made_up
            except BadRegion:
                refused += 1
            except Exception:
                Path("fuzz-failure.bin").write_bytes(bench.path.read_bytes())
                print(f"region {number} of seed {seed} broke it; it is in fuzz-failure.bin")
                raise
            assert time.monotonic() - started < SLOWEST_S
            bench.restore()
            if number % 10_000 == 0 and number:
                print(f"{number:,} probe regions, {time.monotonic() - begun:.0f} s", flush=True)
    print(f"{count:,} probe regions, {refused:,} of them refused, nothing made up")
    return 0
