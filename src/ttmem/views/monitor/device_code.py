"""Circular buffers and kernel code of one device, in labelled numbers."""

from __future__ import annotations

from ttmem.snapshots import Device, Kernels
from ttmem.views.device_facts import cb_measure
from ttmem.views.ink import Line, faint, ink
from ttmem.views.monitor.code_facts import counter_facts, partial_lines, type_facts
from ttmem.views.monitor.device_parts import DeviceParts
from ttmem.views.monitor.facts import amount, counter, fact_lines
from ttmem.views.monitor.page import Look
from ttmem.views.monitor.ring_line import ring_facts

ALL = 99  # lines


def code_lines(device: Device, look: Look) -> list[Line]:
    """Each subject from a new line."""
    kernels = device.kernels
    more = [counter("unloads", kernels.unloads), _hit_rate(kernels)]
    code = (
        ring_facts(kernels.ring, look),
        [*counter_facts(device, look), *more],
        type_facts(device, look),
    )
    return [
        *fact_lines(circular_facts(device, look), look, ALL),
        *partial_lines(device, look),
        *(line for facts in code for line in fact_lines(facts, look, ALL)),
    ]


def circular_facts(device: Device, look: Look) -> list[Line]:
    """The three numbers, what of them is dataflow buffers, and which one is in the sum."""
    cb = device.memory.cb
    measure = cb_measure(cb)
    said = [(*faint("in L1 used: "), *ink(measure))] if measure else []
    three = DeviceParts(look, device).circular_facts()
    return [*three, amount("dataflow", cb.dataflow, look), *said]


def _hit_rate(kernels: Kernels) -> Line:
    hits, misses = kernels.cache_hits, kernels.cache_misses
    if hits is None or misses is None or hits + misses <= 0:
        return (*faint("hit rate "), *faint("N/A"))
    return (*faint("hit rate "), *ink(_share(hits, hits + misses)))


def _share(part: int, whole: int) -> str:
    """'99.6 %'; what is not quite all or nothing is not called so."""
    text = f"{100 * part / whole:.1f} %"
    if text == "100.0 %" and part < whole:
        return ">99.9 %"
    return "<0.1 %" if text == "0.0 %" and part > 0 else text
