"""Sums over the kernel code of a device."""

from __future__ import annotations

from ttmem.snapshots import Device
from ttmem.views.ink import Line, Style, clip_line, faint, ink
from ttmem.views.kernel_table import TYPES, partial_sentence
from ttmem.views.monitor.entries import entries, words
from ttmem.views.monitor.facts import amount, counter
from ttmem.views.monitor.page import Look


def partial_lines(device: Device, look: Look) -> list[Line]:
    """Why the figures below are not all there is, in one line."""
    sentence = partial_sentence(device)
    return [] if sentence is None else [clip_line(ink(f" {sentence}", Style.WARN), look.width)]


def type_facts(device: Device, look: Look) -> list[Line]:
    """'footprint: application 53.5 MiB (210)  fabric 896.0 KiB (1)  ...', with how many kernels."""
    listed = entries(look.snapshot, "kernels", device.unique_id) or []
    kernels = device.kernels
    facts = [faint("footprint:")]
    whole = len(listed) == kernels.count  # a list of the largest gives too low a count
    for kind in TYPES:
        one = amount(kind, getattr(kernels.footprint, kind), look)
        count = sum(1 for entry in listed if words(entry, "type") == kind)
        facts.append((*one, *faint(f" ({count:,})")) if whole else one)
    return facts if whole else [*facts, counter("kernels", kernels.count)]


def counter_facts(device: Device, look: Look) -> list[Line]:
    """Where the binaries are, and how often they were loaded, run and found in the program cache."""
    kernels = device.kernels
    counted = [] if kernels.counted is None else [amount("counted", kernels.counted, look)]
    return [
        *counted,
        amount("binaries in DRAM", kernels.dram_binaries, look),
        counter("distinct", kernels.distinct_binaries),
        counter("loads", kernels.loads),
        counter("dispatches", kernels.dispatches),
        counter("cached programs", kernels.cache_entries),
        counter("hits", kernels.cache_hits),
        counter("misses", kernels.cache_misses),
    ]
