"""How the figures of the Device page are made."""

from __future__ import annotations

HELP = (
    ("charts", "the highest second of each column; a gap is a time without samples"),
    ("scale", "up to the capacity; smaller while less than a quarter of it was ever used"),
    (
        "◆",
        "the peak with its time, also between two samples; 'in sight': the peak is not in the chart",
    ),
    ("HELD", "reserved bytes where they are known, else requested ones; all sums use it"),
    ("CAPACITY", "what can be allocated; N/A if nobody declared it"),
    ("REQUESTED", "the bytes that applications asked for"),
    ("RESERVED", "the block in one bank times all banks, because banks allocate in lock step"),
    (
        "FREE, LARGEST",
        "free memory and its largest block, where the source tells them; of L1 by the"
        " allocator of buffers: circular buffers are not taken off",
    ),
    ("COUNT", "live buffers"),
    ("PEAK, AT", "the highest held value since the device was first seen, and when"),
    ("TRACE", "buffers of traces; DRAM that is set apart, not part of the DRAM row"),
    ("CB", "circular buffers as they stand in L1 used: cached, else demand"),
    ("L1 used", "L1 + L1_SMALL + CB; its peak is not the sum of the parts' peaks"),
    ("CB resident", "what lies there now: the last dispatched program on each core"),
    ("cached", "per core, the union of address ranges over a process's live programs"),
    ("demand", "the plain sum; it may exceed L1, because programs share addresses"),
    ("dataflow", "the part of cached that dataflow buffers and scratchpads take"),
    ("ring", "where kernel code lies while it runs: occupied / capacity, in no sum"),
    ("binaries in DRAM", "the part of the DRAM buffers that holds kernel code"),
    ("distinct", "how many different binaries there are"),
    ("loads, dispatches", "counters: they only grow"),
    ("hits, misses, rate", "of the program cache of the runtime"),
    ("footprint", "binary x cores by type, if resident everywhere; cached programs are not"),
    ("counted", "kernel code by the counter of a prototype of the runtime; in no sum"),
    ("processes", "what each holds on this device; x, ! and * as on the Overview"),
    ("WHERE FROM", "source and method of each number, and what it is known to miss"),
)
