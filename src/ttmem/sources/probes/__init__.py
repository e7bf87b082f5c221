"""Follows the regions of the probe: what each watched process has done since the last look."""

from ttmem.sources.probes.ended import EndedRegion, closed_regions, ended_regions, remove_expired
from ttmem.sources.probes.follower import Follower
from ttmem.sources.probes.refusals import take_refusals
from ttmem.sources.probes.room import free_and_size, make_room
from ttmem.sources.probes.watcher import ProbeReading, ProbeWatcher

__all__ = [
    "EndedRegion",
    "Follower",
    "ProbeReading",
    "ProbeWatcher",
    "closed_regions",
    "ended_regions",
    "free_and_size",
    "make_room",
    "remove_expired",
    "take_refusals",
]
