"""What the page of kernels and programs shows, and how each number is made."""

from __future__ import annotations

HELP = (
    (
        "ring",
        "kernel-config ring: occupied / capacity in bytes of the whole device, as the last client"
        " that wrote said; it lies below the memory that can be allocated and is in no L1 sum",
    ),
    ("wraps, syncs", "how often the ring began anew, and how often the host had to wait for room"),
    (
        "footprint",
        "by type, with the number of kernels: binary x cores over all live kernels, if they were"
        " resident everywhere; cached programs are not, so this is no L1 in use",
    ),
    ("binaries in DRAM", "padded binaries of the live programs: a part of the DRAM buffers"),
    ("TYPE", "application, fabric or dispatch"),
    ("BINARY", "bytes of one copy; N/A where the client told only the product with the cores"),
    ("CORES", "cores that the kernel runs on"),
    ("FOOTPRINT", "binary x cores"),
    (
        "STATUS",
        "how far the program's binaries have come on this device: NotSent, InFlight, Committed",
    ),
    ("DISPATCHES", "runs of the program, or of the kernel, since it was seen"),
    ("HITS, MISSES", "runs that found the program in the program cache, and that did not"),
    (
        "loads",
        "of all kernels of the device; a live kernel is loaded once, to load it again is a run",
    ),
    ("CBS, CB BYTES", "circular buffers of the program, all cores together, as in the demand"),
    (
        "RESIDENT, CORES",
        "bytes of circular buffers on the cores where this program was the last to be dispatched,"
        " and how many cores those are",
    ),
    ("LAST", "time since the last dispatch"),
    ("CALL SITE", "the line that made the program; LAST CALLER: the line that ran it last"),
)
