"""Client processes that send prepared bytes to a socket, all starting together."""

from __future__ import annotations

import multiprocessing
import os
import socket
import time
from multiprocessing.synchronize import Barrier
from typing import Any

from benchmarks.ground import PATIENCE_S
from ttmem.events import DeviceDeclaration, Event, KernelType, MemoryKind, Op
from ttmem.hw import device_spec
from ttmem.wire import frames
from ttmem.wire.frames import Frame
from ttmem.wire.historical import Head, encode

CHUNK = 64 << 10
BOARD = device_spec("p150")


def historical_chunk(record_size: int = 144) -> tuple[bytes, int]:
    """64 KiB of records that end where they began: buffers, circular buffers, repeated kernel loads."""
    records: list[bytes] = []
    for number in range(CHUNK // record_size // 5):
        buffer, cb, kernel = 0x10000 + 64 * number, 0x500 + 32 * number, 1 + number % 20
        records += [
            encode(record_size, Head(Op.ALLOC, 0, 4096, number % 2, 0, buffer)),
            encode(record_size, Head(Op.CB_ALLOC, 0, 2048, 0, 0, cb)),
            encode(record_size, Head(Op.KERNEL_LOAD, 0, 57344, KernelType.FABRIC, 0, kernel)),
            encode(record_size, Head(Op.CB_FREE, 0, 2048, 0, 0, cb)),
            encode(record_size, Head(Op.FREE, 0, 0, 0, 0, buffer)),
        ]
    return b"".join(records), len(records)


def framed_chunk(devices: int = 1) -> tuple[bytes, int]:
    """The same story in ttmem's own framing, one frame of 64 KiB; on so many devices in turn."""
    events: list[bytes] = []
    for number in range(CHUNK // 64 // 5):
        buffer, cb, kernel = 0x10000 + 64 * number, 0x500 + 32 * number, 1 + number % 20
        kind = (MemoryKind.DRAM, MemoryKind.L1)[number % 2]
        story = [
            Event(Op.ALLOC, kind, id=buffer, size=4096, address=buffer),
            Event(Op.CB_ALLOC, id=cb, size=2048),
            Event(
                Op.KERNEL_LOAD, KernelType.FABRIC, id=kernel, size=57344, extra=kernel, number=16
            ),
            Event(Op.CB_FREE, id=cb, size=2048),
            Event(Op.FREE, kind, flags=1, id=buffer),
        ]
        events += [event._replace(device=number % devices).pack() for event in story]
    return frames.frame(Frame.EVENTS, b"".join(events)), len(events)


def greeting(devices: int = 0) -> bytes:
    """What opens a stream in ttmem's own framing, and declares so many p150."""
    hello = {"pid": 0, "name": "benchmark", "role": "application"}
    return b"".join(
        [
            frames.preamble(),
            frames.json_frame(Frame.HELLO, hello),
            *(frames.json_frame(Frame.DEVICE, declaration(n)) for n in range(devices)),
        ]
    )


def declaration(number: int) -> dict[str, Any]:
    """A p150; everybody who declares this number means the same chip."""
    unique_id, pci = f"{4_096_000_000 + number}", f"0000:{number + 1:02x}:00.0"
    return DeviceDeclaration.from_spec(BOARD, number, unique_id, pci).to_json()


def _send(
    path: str, opening: bytes, chunk: bytes, step: int, repeats: int, start: Barrier, done: Barrier
) -> None:
    connection = socket.socket(socket.AF_UNIX)
    connection.connect(path)
    if opening:
        connection.sendall(opening)
    start.wait()
    if step == 0:
        for _ in range(repeats):
            connection.sendall(chunk)
    else:
        pieces = [chunk[at : at + step] for at in range(0, len(chunk), step)]
        send = connection.send
        for _ in range(repeats):
            for piece in pieces:
                send(piece)
    done.wait()
    done.wait()  # the books are compared while everyone still holds what it holds
    connection.close()


class Senders:
    """`count` processes, each sending `repeats` chunks: whole, or `step` bytes per send."""

    def __init__(
        self,
        path: str,
        count: int,
        chunk: bytes,
        repeats: int,
        *,
        opening: bytes = b"",
        step: int = 0,
    ) -> None:
        context = multiprocessing.get_context("fork")
        self._start = context.Barrier(count + 1, timeout=PATIENCE_S)
        self._done = context.Barrier(count + 1, timeout=PATIENCE_S)
        arguments = (path, opening, chunk, step, repeats, self._start, self._done)
        self._children = [
            context.Process(target=_send, args=arguments, daemon=True) for _ in range(count)
        ]
        for child in self._children:
            child.start()

    def pin(self, cores: set[int]) -> None:
        for child in self._children:
            os.sched_setaffinity(child.pid or 0, cores)

    def go(self) -> float:
        """Starts them all; returns the time."""
        self._start.wait()
        return time.perf_counter()

    def sent(self) -> None:
        """Waits until every byte is in a socket."""
        self._done.wait()

    def end(self) -> None:
        """Lets them close and go."""
        self._done.wait()
        for child in self._children:
            child.join()

    def stop(self) -> None:
        """Ends them wherever they are."""
        for child in self._children:
            child.kill()
            child.join()
