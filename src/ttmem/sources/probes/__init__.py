"""Follows the regions of the probe: what each watched process has done since the last look."""

from ttmem.sources.probes.ended import EndedRegion, ended_regions, remove_expired
from ttmem.sources.probes.follower import Follower
from ttmem.sources.probes.watcher import ProbeReading, ProbeWatcher

__all__ = [
    "EndedRegion",
    "Follower",
    "ProbeReading",
    "ProbeWatcher",
    "ended_regions",
    "remove_expired",
]
