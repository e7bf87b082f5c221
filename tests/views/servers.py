"""A real server in a process of its own, and a client that speaks the historical records to it."""

from __future__ import annotations

import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from tests.patience import PATIENCE_S, wait_until
from ttmem.analysis.failures import explain
from ttmem.events import MemoryKind
from ttmem.events.device import DeviceDeclaration
from ttmem.probe.layout import Counted
from ttmem.probe.report import (
    DeviceReport,
    FailedAllocation,
    HighWater,
    Holding,
    Origin,
    ProcessReport,
)
from ttmem.views.analysis.failures import render_failure
from ttmem.views.summary import render_summary
from ttmem.wire.historical import Head, Message, encode

_SERVE = """
import argparse, sys
from ttmem.commands import serve
parser = argparse.ArgumentParser()
serve.prepare(parser)
serve.run(parser.parse_args(sys.argv[1:]))
"""


@contextmanager
def serving(path: Path, *options: str) -> Iterator[None]:
    """`ttmem serve` at that socket, until the block ends; the host's own devices are not in it."""
    command = [sys.executable, "-c", _SERVE, "--socket", str(path), "--quiet", "--no-shm", *options]
    server = subprocess.Popen(command)
    try:
        wait_until(lambda: _answers(path))
        yield
    finally:
        server.terminate()
        server.wait(PATIENCE_S)


def _answers(path: Path) -> bool:
    with socket.socket(socket.AF_UNIX) as probe:
        return probe.connect_ex(str(path)) == 0


@contextmanager
def reporting(path: Path, *heads: Head) -> Iterator[None]:
    """A connection that has reported these messages, open while the block runs."""
    with socket.socket(socket.AF_UNIX) as client:
        client.connect(str(path))
        client.sendall(b"".join(encode(144, head) for head in heads))
        client.sendall(encode(144, Head(Message.QUERY)))
        assert len(client.recv(144)) == 144  # all before it is accounted
        yield


# -- Processes under `ttmem run` whose summaries and failures are kept as pictures


MIB = 1 << 20
DEVICE = DeviceDeclaration(
    logical_id=0,
    arch="blackhole",
    l1_banks=110,
    l1_per_core=1_572_864,
    l1_bank_size=1_444_736,
    l1_small_bank_size=16_384,
    cb_base=111_744,
    dram_banks=8,
    dram_bank_size=4_277_010_304,
    trace_bank_size=131_072,
)
DEEP = "/opt/tenstorrent/tt-metal/models/tt_transformers/tt"
ATTENTION = Origin(
    "ttnn.transformer.scaled_dot_product_attention",
    f"{DEEP}/attention.py:412 forward_decode",
    "decode/attention",
)
LINEAR = Origin("ttnn.linear", f"{DEEP}/mlp.py:98 forward")
WEIGHTS = Origin("ttnn.as_tensor", f"{DEEP}/load.py:31 weight", "load")
NOBODY = Origin()


def process() -> ProcessReport:
    marks = (
        HighWater(MemoryKind.DRAM, 12_345 * MIB, WEIGHTS),
        HighWater(MemoryKind.L1, 88 * MIB, ATTENTION),
        HighWater(MemoryKind.L1_SMALL, 110 * 4_096, LINEAR),
        HighWater(MemoryKind.TRACE, 0, NOBODY),
        HighWater(Counted.CB_DEMAND, 211 * MIB, LINEAR),
    )
    return ProcessReport(
        pid=41_235,
        running=False,
        in_order=True,
        devices=(DeviceReport(DEVICE, marks),),
        never_freed=tuple(
            Holding(MemoryKind.DRAM, (0,), size * MIB, size, origin)
            for size, origin in ((512, WEIGHTS), (256, WEIGHTS), (64, NOBODY), (32, ATTENTION))
        ),
        failures=0,
        losses=(),
    )


def mesh() -> ProcessReport:
    report = process().devices[0]
    others = [replace(report, declaration=replace(DEVICE, logical_id=chip)) for chip in range(4)]
    lonely = HighWater(MemoryKind.DRAM, 13_000 * MIB, LINEAR)
    last = replace(others[3], peaks=(lonely, *report.peaks[1:]))
    return replace(
        process(),
        pid=41_300,
        in_order=False,
        devices=(*others[:3], last),
        failures=17,
        losses=("12 events were lost: sums are right, lists may miss something",),
    )


def out_of_memory() -> FailedAllocation:
    message = (
        "Out of Memory: Not enough space to allocate 67108864 B L1 buffer across 110 banks, where each bank needs to "
        "store 610304 B, but bank size is 1444736 B (allocated: 741376 B, free: 703360 B, largest free block: 77824 B)."
    )
    origins = (
        LINEAR,
        ATTENTION,
        WEIGHTS,
        NOBODY,
        *(replace(LINEAR, phase=str(n)) for n in range(3)),
    )
    holdings = tuple(
        Holding(MemoryKind.L1, (0,), (20 - at) * MIB, at, origin)
        for at, origin in enumerate((*origins, LINEAR))
    )
    return FailedAllocation("buffer", MemoryKind.L1, (0,), 67_108_864, message, ATTENTION, holdings)


def clash() -> FailedAllocation:
    message = (
        "Statically allocated circular buffers in program 2 clash with L1 buffers on core range [0-0 - 10-9]. L1 "
        "buffer allocated at 155648 and static circular buffer region ends at 666752"
    )
    lowest = Holding(MemoryKind.L1, (0,), 110 * 1_400_832, 155_648, LINEAR)
    return FailedAllocation(
        "circular buffers", MemoryKind.L1, (0,), None, message, ATTENTION, (lowest,)
    )


def summary(width: int) -> str:
    return render_summary([process(), mesh()], width=width, color=False)


def failures(width: int) -> str:
    return "\n".join(
        render_failure(41_235, explain(replace(failure, device=DEVICE)), width=width, color=False)
        for failure in (out_of_memory(), clash())
    )
