"""A session under the probe: its region beside what the runtime says of itself."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable

from tests.ttnn.bench.answers import Views
from tests.ttnn.bench.boards import Sizes
from tests.ttnn.bench.machine import Machine
from tests.ttnn.bench.session import Session
from ttmem.events import MemoryKind
from ttmem.probe import environment
from ttmem.probe.layout import LiveType
from ttmem.sources.probe.region import ProbeRegion
from ttmem.sources.probe.region_file import find_regions
from ttmem.sources.probe.tables import Rectangle

SIZES = Sizes(l1_small_size=32_768, trace_region_size=1 << 20)
KINDS = {
    "dram": MemoryKind.DRAM,
    "l1": MemoryKind.L1,
    "l1_small": MemoryKind.L1_SMALL,
    "trace": MemoryKind.TRACE,
}


def start(
    there: Machine, *, opened: bool = True, worker_dispatch: bool = False, **variables: str
) -> Session:
    """A session whose region lies in the machine's own folder."""
    folder = {"TTMEM_REGION_DIR": str(there.folder)}
    preload = environment({"LD_PRELOAD": os.environ.get("LD_PRELOAD", "")})
    return there.session(
        SIZES,
        opened=opened,
        worker_dispatch=worker_dispatch,
        variables=preload | folder | variables,
    )


def region_of(there: Machine, session: Session) -> ProbeRegion:
    """The region of that session's process."""
    session.run("None")  # it has one when its device is open
    found = [name for name in find_regions(str(there.folder)) if name.pid == session.pid]
    return ProbeRegion(found[0].path)


def by_runtime(seen: Views) -> dict[str, int]:
    """Reserved bytes of a chip, as the runtime's memory view has them."""
    return {
        kind: view["total_bytes_allocated_per_bank"] * view["num_banks"]
        for kind, view in seen["kinds"].items()
    }


def by_probe(region: ProbeRegion) -> list[dict[str, int]]:
    """The same of every chip, as the probe counted them."""
    return [
        {kind: row[number].reserved for kind, number in KINDS.items()} for row in region.counters()
    ]


def addresses(seen: Views) -> Counter[tuple[str, int]]:
    """Where the runtime says that buffers are."""
    chips = {one["device_id"] for one in seen["buffers"]}
    return Counter(
        (one["buffer_type"], one["address"])
        for one in seen["buffers"]
        if one["device_id"] == min(chips)
    )


def live_addresses(region: ProbeRegion) -> Counter[tuple[str, int]]:
    """Where the probe saw them."""
    return Counter(
        (MemoryKind(thing.kind).name, thing.address)
        for thing in region.live()
        if thing.type is LiveType.BUFFER
    )


def per_core(region: ProbeRegion, cores: dict[int, list[Rectangle]]) -> Counter[tuple[int, int]]:
    """Circular and dataflow buffers of live programs: bytes on each core."""
    held: Counter[tuple[int, int]] = Counter()
    for thing in region.live():
        if thing.type is not LiveType.CIRCULAR_BUFFER or thing.flags & 2:
            continue
        places = [
            (x, y)
            for x0, y0, x1, y1 in cores[thing.cores]
            for x in range(x0, x1 + 1)
            for y in range(y0, y1 + 1)
        ]
        for place in places:
            held[place] += thing.requested // len(places)
    return held


Machines = Callable[[str], Machine]
