"""Sums over the kernel code of a device."""

from __future__ import annotations

from ttmem.snapshots import Device
from ttmem.views.ink import Line, faint
from ttmem.views.kernel_table import TYPES
from ttmem.views.monitor.entries import entries, words
from ttmem.views.monitor.facts import amount, counter
from ttmem.views.monitor.page import Look


def type_facts(device: Device, look: Look) -> list[Line]:
    """'if resident everywhere: application 53.5 MiB in 210 kernels  fabric ...'."""
    listed = entries(look.snapshot, "kernels", device.unique_id) or []
    kernels = device.kernels
    facts = [faint("if resident everywhere:")]
    for kind in TYPES:
        one = amount(kind, getattr(kernels.footprint, kind), look)
        # A list that was cut to the largest would give too low a count.
        if len(listed) == kernels.count:
            count = sum(1 for entry in listed if words(entry, "type") == kind)
            one = (*one, *faint(f" in {count:,}"))
        facts.append(one)
    return [*facts, counter("kernels", kernels.count)]


def counter_facts(device: Device, look: Look) -> list[Line]:
    """Where the binaries are, and how often they were loaded, run and found in the program cache."""
    kernels = device.kernels
    return [
        amount("binaries in DRAM", kernels.dram_binaries, look),
        counter("distinct", kernels.distinct_binaries),
        counter("loads", kernels.loads),
        counter("dispatches", kernels.dispatches),
        counter("cached programs", kernels.cache_entries),
        counter("hits", kernels.cache_hits),
        counter("misses", kernels.cache_misses),
    ]
