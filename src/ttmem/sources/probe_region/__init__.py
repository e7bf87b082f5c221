"""Regions of the probe: what stock ttnn processes did, event by event, and what they hold."""

from ttmem.sources.probe_region.cursor import Batch
from ttmem.sources.probe_region.names import MOST_OF_A_USER, RegionName, RegionScan, find_regions
from ttmem.sources.probe_region.region import Losses, ProbeRegion, switch
from ttmem.sources.probe_region.region_file import BadRegion, ForeignRegion, NotReady, TooMuch
from ttmem.sources.probe_region.tables import Activity, Counter, Failure, LiveThing

__all__ = [
    "MOST_OF_A_USER",
    "Activity",
    "BadRegion",
    "Batch",
    "Counter",
    "Failure",
    "ForeignRegion",
    "LiveThing",
    "Losses",
    "NotReady",
    "ProbeRegion",
    "RegionName",
    "RegionScan",
    "TooMuch",
    "find_regions",
    "switch",
]
