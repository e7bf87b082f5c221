"""The last failed allocation of each process that lives, explained."""

from __future__ import annotations

from collections.abc import Collection
from contextlib import closing, suppress
from dataclasses import dataclass

from ttmem.analysis.explanation import Explanation
from ttmem.analysis.region_reading import RegionReading
from ttmem.sources.probe.region import ProbeRegion
from ttmem.sources.probe.region_file import BadRegion, find_regions


@dataclass(frozen=True, slots=True)
class LastFailure:
    """`count` allocations of the process failed so far; this is the last of them."""

    pid: int
    count: int
    time_ns: int
    explanation: Explanation


class LastFailures:
    """Looks again and again: a whole region is read only when something new has failed in it."""

    def __init__(self, folder: str) -> None:
        self._folder = folder
        self._known: dict[str, LastFailure] = {}

    def of(self, pids: Collection[int]) -> list[LastFailure]:
        """Of these processes, where they live and their regions can be read; by pid."""
        found = []
        for name in find_regions(self._folder):
            with suppress(BadRegion), closing(ProbeRegion(name.path)) as region:
                if region.pid in pids and region.process_alive() and region.failure_count():
                    found.append(self._last(region))
        return sorted((one for one in found if one is not None), key=lambda one: one.pid)

    def _last(self, region: ProbeRegion) -> LastFailure | None:
        count = region.failure_count()
        known = self._known.get(region.path)
        if known is not None and known.count == count:
            return known
        reading = RegionReading(region)
        failures = reading.failures(0)
        if not failures:  # the first is being written at this moment
            return None
        time_ns, failure = failures[-1]
        last = LastFailure(region.pid, count, time_ns, reading.explained(failure))
        self._known[region.path] = last
        return last
