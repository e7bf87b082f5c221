"""The counters that stock ttnn publishes in /dev/shm, one region for each device."""

from ttmem.sources.shared_memory.holders import Holder, Holders, HoldersWatch, scan_holders
from ttmem.sources.shared_memory.source import Reading, SharedMemory

__all__ = ["Holder", "Holders", "HoldersWatch", "Reading", "SharedMemory", "scan_holders"]
