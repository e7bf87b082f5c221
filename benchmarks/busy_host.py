"""A host at work: 64 processes on 32 devices with 1,000 live programs, each of them reporting changes."""

from __future__ import annotations

import multiprocessing
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager

from benchmarks.ground import amount, wait_until
from benchmarks.senders import declaration, greeting
from ttmem.api import snapshot
from ttmem.events import Event, Flag, KernelType, MemoryKind, Op
from ttmem.wire import frames
from ttmem.wire.frames import Frame

DEVICES, PROCESSES, PROGRAMS = 32, amount(64, 8), 1000
EACH = 4  # devices of a process
CHANGES = 10  # per second and process
HELD = 100  # buffers of a process that live at a time


def _program(device: int, number: int) -> list[Event]:
    address = 0x19D60 + 2048 * (number % 64)
    return [
        Event(Op.CB_ALLOC, device=device, id=address, size=4096, extra=number, address=address),
        Event(
            Op.KERNEL_LOAD,
            KernelType.APPLICATION,
            device=device,
            id=number,
            size=5600,
            extra=number,
            address=number,
            number=64,
        ),
    ]


def _work(path: str, rank: int) -> None:
    connection = socket.socket(socket.AF_UNIX)
    connection.connect(path)
    connection.sendall(greeting())
    mine = [(rank * EACH + at) % DEVICES for at in range(EACH)]
    connection.sendall(b"".join(frames.json_frame(Frame.DEVICE, declaration(n)) for n in mine))
    first = 1 + rank * PROGRAMS // PROCESSES
    last = 1 + (rank + 1) * PROGRAMS // PROCESSES
    events = [event for n in range(first, last) for event in _program(mine[n % EACH], n)]
    connection.sendall(frames.frame(Frame.EVENTS, b"".join(event.pack() for event in events)))
    frees: dict[int, Event] = {}
    step = 0
    while True:  # until it is killed
        step += 1
        buffer = Event(
            Op.ALLOC,
            (MemoryKind.DRAM, MemoryKind.L1)[step % 2],
            device=mine[step % EACH],
            id=step,
            size=4096 * (1 + step % 50),
        )
        events = [buffer] if step <= HELD else [buffer, frees[step % HELD]]
        frees[step % HELD] = buffer._replace(op=Op.FREE, flags=Flag.KIND_KNOWN)
        connection.sendall(frames.frame(Frame.EVENTS, b"".join(e.pack() for e in events)))
        time.sleep(1 / CHANGES)


@contextmanager
def busy_host(path: str) -> Iterator[None]:
    """All of them report to the server at that socket while the block runs."""
    context = multiprocessing.get_context("fork")
    workers = [
        context.Process(target=_work, args=(path, rank), daemon=True) for rank in range(PROCESSES)
    ]
    for worker in workers:
        worker.start()
    try:
        wait_until(lambda: len(snapshot(path).processes) == PROCESSES, "not all report", 0.1)
        yield
    finally:
        for worker in workers:
            worker.kill()
            worker.join()
