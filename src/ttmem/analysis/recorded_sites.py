"""Which processes under the probe record the operation and the line of an allocation."""

from __future__ import annotations

from collections.abc import Collection
from contextlib import closing, suppress

from ttmem.probe.layout import Option
from ttmem.sources.probe.region import ProbeRegion
from ttmem.sources.probe.region_file import BadRegion, find_regions


def recorded_sites(folder: str, pids: Collection[int]) -> dict[int, bool]:
    """False: told not to (`--no-sites`). A process whose region cannot be read from here is left out."""
    found = {}
    for name in find_regions(folder):
        with suppress(BadRegion), closing(ProbeRegion(name.path)) as region:
            if region.pid in pids and region.process_alive():
                found[region.pid] = bool(region.header().options & Option.CALL_SITES)
    return found
