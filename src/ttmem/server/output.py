"""What the server prints. Who reads it may be slow, stuck or gone: the loop never waits for it."""

from __future__ import annotations

import os
import select
import threading
from collections import deque
from collections.abc import Callable

LIMIT = 32 << 20  # bytes that wait; about 400,000 lines of events
BLOCK = 256 << 10  # bytes that are gathered at most before they are handed over
LAST_PATIENCE = 0.3  # seconds: a server that is told to stop does so within one


class Output:
    """Whole lines, written in blocks by a thread. What has no room is dropped and counted.

    `file` is a descriptor; None: nobody reads. `limit`: bytes that may wait for who does.
    """

    def __init__(self, file: int | None, limit: int = LIMIT) -> None:
        self.dropped = 0  # lines
        self._file = file
        self._limit = limit
        self._gathered: list[bytes] = []
        self._gathered_bytes = 0
        self._changed = threading.Condition()  # guards everything below
        self._blocks: deque[bytes] = deque()
        self._waiting = 0  # bytes that were handed over and not written yet
        self._closing = False
        self._gap = 0  # lines that were dropped since the last block
        self._reason = ""
        self._told = 0
        self._thread: threading.Thread | None = None

    def write(self, text: bytes) -> None:
        """Adds whole lines; `flush` hands them over."""
        self._gathered.append(text)
        self._gathered_bytes += len(text)
        if self._gathered_bytes > BLOCK:
            self.flush()

    def flush(self) -> None:
        """Hands over what was added, without waiting."""
        if not self._gathered:
            return
        text = b"".join(self._gathered)
        self._gathered.clear()
        self._gathered_bytes = 0
        with self._changed:
            if self._file is None:
                self._drop(text, "there is none")
            elif self._waiting + len(text) > self._limit:
                self._drop(text, "nobody reads it, or too slowly")
            else:
                self._hand_over(text)
        if self._thread is None and self._file is not None:
            self._thread = threading.Thread(
                target=self._run, args=(self._file,), name="output", daemon=True
            )
            self._thread.start()

    def tell_losses(self, what: str, say: Callable[[str, str], None]) -> None:
        """Says it, with a key, if lines for `what` were dropped since the last time."""
        if self.dropped != self._told:
            self._told = self.dropped
            say(what, f"{self.dropped:,} lines for {what} were dropped so far: {self._reason}")

    def close(self) -> None:
        """Writes what is left, unless that takes long."""
        self.flush()
        with self._changed:
            self._changed.wait_for(lambda: self._waiting == 0, LAST_PATIENCE)
            self._closing = True
            self._changed.notify_all()

    # -- with the lock held --------------------------------------------------------------------------------------

    def _hand_over(self, text: bytes) -> None:
        if self._gap:
            text = _missing(self._gap) + text
            self._gap = 0
        self._blocks.append(text)
        self._waiting += len(text)
        self._changed.notify_all()

    def _drop(self, text: bytes, reason: str) -> None:
        lines = text.count(b"\n")
        self.dropped += lines
        self._gap += lines
        self._reason = reason

    def _take(self) -> bytes:
        """The next blocks; not all, so that there is room again before all are written."""
        taken = [self._blocks.popleft()]
        size = len(taken[0])
        while self._blocks and size < BLOCK:
            taken.append(self._blocks.popleft())
            size += len(taken[-1])
        return b"".join(taken)

    # -- the thread ----------------------------------------------------------------------------------------------

    def _run(self, file: int) -> None:
        lead = b""
        missing = 0
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._blocks or self._closing)
                if not self._blocks:
                    return
                text = self._take()
            written, problem = _put(file, lead + text)
            lost = text[max(0, written - len(lead)) :].count(b"\n") if problem else 0
            missing = lost + (missing if written < len(lead) else 0)
            torn = written > 0 and (lead + text)[written - 1] != ord("\n")
            lead = (b"\n" if torn else b"") + (_missing(missing) if missing else b"")
            with self._changed:
                self.dropped += lost
                self._reason = problem or self._reason
                self._waiting -= len(text)
                self._changed.notify_all()


def _missing(lines: int) -> bytes:
    return f"⚠ {lines:,} lines are missing here\n".encode()


def _put(file: int, text: bytes) -> tuple[int, str]:
    """Writes all of it; how many bytes were written, and what went wrong with the rest."""
    rest = memoryview(text)
    while rest:
        try:
            rest = rest[os.write(file, rest) :]
        except BlockingIOError:  # somebody else has made it non-blocking
            writable = select.poll()
            writable.register(file, select.POLLOUT)
            writable.poll(1000)
        except OSError as problem:
            return len(text) - len(rest), problem.strerror or str(problem)
    return len(text), ""
