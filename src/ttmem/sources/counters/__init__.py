"""The counters that stock ttnn publishes in /dev/shm, one file for each device."""

from ttmem.sources.counters.source import CounterReading, CounterSource

__all__ = ["CounterReading", "CounterSource"]
