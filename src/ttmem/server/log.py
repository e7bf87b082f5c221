"""What the server prints: its log on stderr; event lines and dumps on stdout. Whoever reads them may be slow, stuck or
gone: the loop never waits for a reader."""

from __future__ import annotations

import logging
import os
import select
import threading
from collections import Counter, OrderedDict, deque
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from time import monotonic

from ttmem.clock import log_line
from ttmem.ledger import Books, ProcessRecord
from ttmem.ledger.shares import unlimited_users
from ttmem.sizes import human, several
from ttmem.snapshots import LeftBehind, Snapshot
from ttmem.text import printable
from ttmem.wire.rows import AccountRow

LIMIT = 32 << 20  # bytes that may wait for their reader; about 400,000 event lines
LOG_LIMIT = 4 << 20
BLOCK = 256 << 10  # bytes to collect at most before they are passed to the thread
MAX_KEYS = 10_000
LINES, LINES_PERIOD = 60, 60.0  # of the log about the processes of one user, in so many seconds
MAX_USERS = 64  # with lines of their own; further ones share theirs
MAX_SENTENCE = 1000  # characters
_MB = 1 << 20


class Output:
    """Whole lines, written in blocks by a thread. Lines beyond `limit` bytes are dropped and counted.

    `file` is a descriptor; None drops everything.
    """

    def __init__(self, file: int | None, limit: int = LIMIT) -> None:
        self.dropped = 0  # lines
        self._file = file
        self._limit = limit
        self._collected: list[bytes] = []
        self._collected_bytes = 0
        self._changed = threading.Condition()  # guards everything below
        self._blocks: deque[bytes] = deque()
        self._waiting = 0  # bytes passed to the thread and not written yet
        self._closing = False
        self._gap = 0  # lines dropped since the last block
        self._reason = ""
        self._reported = 0
        self._thread: threading.Thread | None = None

    def write(self, text: bytes) -> None:
        """Adds whole lines; `flush` passes them to the thread."""
        self._collected.append(text)
        self._collected_bytes += len(text)
        if self._collected_bytes > BLOCK:
            self.flush()

    def flush(self) -> None:
        """Passes everything added so far to the thread, without waiting."""
        if not self._collected:
            return
        text = b"".join(self._collected)
        self._collected.clear()
        self._collected_bytes = 0
        with self._changed:
            if self._file is None:
                self._drop(text, "there is none")
            elif self._waiting + len(text) > self._limit:
                self._drop(text, "it is read too slowly, or not at all")
            else:
                self._pass_on(text)
        if self._thread is None and self._file is not None:
            self._thread = threading.Thread(
                target=self._run, args=(self._file,), name="output", daemon=True
            )
            self._thread.start()

    def report_losses(self, what: str, report: Callable[[str, str], None]) -> None:
        """Calls `report(key, sentence)` if lines for `what` were dropped since the last call."""
        if self.dropped != self._reported:
            self._reported = self.dropped
            report(what, f"{self.dropped:,} lines for {what} were dropped so far: {self._reason}")

    def close(self, patience: float) -> None:
        """Writes the rest, as far as that is possible in so many seconds."""
        self.flush()
        with self._changed:
            self._changed.wait_for(lambda: self._waiting == 0, patience)
            self._closing = True
            self._changed.notify_all()

    # -- with the lock held --------------------------------------------------------------------------------------

    def _pass_on(self, text: bytes) -> None:
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
        """The next blocks; not all of them, so that new lines are accepted before everything is written."""
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
    """Writes everything; returns how many bytes were written, and what was wrong with the rest."""
    rest = memoryview(text)
    while rest:
        try:
            rest = rest[os.write(file, rest) :]
        except BlockingIOError:  # another process has made it non-blocking
            writable = select.poll()
            writable.register(file, select.POLLOUT)
            writable.poll(1000)
        except OSError as problem:
            return len(text) - len(rest), problem.strerror or str(problem)
    return len(text), ""


class LogHandler(logging.Handler):
    """Passes log lines to an `Output`."""

    def __init__(self, output: Output) -> None:
        super().__init__()
        self._output = output

    def emit(self, record: logging.LogRecord) -> None:
        self._output.write(f"{self.format(record)}\n".encode("utf-8", "replace"))
        self._output.flush()


class Log:
    """Logs a problem the 1st, 10th, 100th, ... time; in between, it only counts.

    What it says about processes of a user is limited; root and the server's user have no limit.
    """

    def __init__(self) -> None:
        self._logger = logging.getLogger("ttmem.server")
        self._times: OrderedDict[str, int] = OrderedDict()
        self._unlimited = unlimited_users()
        self._lines: Counter[str] = Counter()  # by user, since the period began
        self._period_ends = monotonic() + LINES_PERIOD

    def info(self, sentence: str, user: str | None = None) -> None:
        """`user`: whose process it is about."""
        self._write(logging.INFO, sentence[:MAX_SENTENCE], user)

    def problem(self, key: str, sentence: str, user: str | None = None) -> None:
        """Problems with the same key are repetitions. `user`: whose process it is about."""
        times = self._times.get(key, 0) + 1
        self._times[key] = times
        self._times.move_to_end(key)
        if len(self._times) > MAX_KEYS:
            self._times.popitem(last=False)
        if str(times).strip("0") == "1":
            often = f" ({times} times)" if times > 1 else ""
            self._write(logging.WARNING, sentence[:MAX_SENTENCE] + often, user)

    def tick(self) -> None:
        """To be called once a second: begins a new period when the last one is over."""
        if monotonic() >= self._period_ends:
            self._period_ends = monotonic() + LINES_PERIOD
            self.say_omitted()

    def say_omitted(self) -> None:
        """Logs how many lines were left out in this period, and begins another."""
        for user, lines in self._lines.items():
            if lines > LINES:
                self._write(
                    logging.WARNING,
                    f"{lines - LINES:,} more lines about processes of {user} were left out:"
                    f" {LINES} in {LINES_PERIOD:.0f} s is the limit per user",
                )
        self._lines.clear()

    def _write(self, level: int, sentence: str, user: str | None = None) -> None:
        if not self._logger.isEnabledFor(level):
            return
        if user is not None and user not in self._unlimited:
            whose = f"user {user}"
            if whose not in self._lines and len(self._lines) >= MAX_USERS:
                whose = "other users"
            self._lines[whose] += 1
            if self._lines[whose] > LINES:
                return
        log_line(partial(self._logger.log, level), "%s", printable(sentence))


class EventLines:
    """Accounts events with a line for each, as the original server printed them; off by default.

    ✓ [KERNEL_LOAD] Fabric kernel on Device 0: +0.875 MB (Total: 0.875 MB)

    The lines are made in C++: 200,000 per second are too many for Python.
    """

    def __init__(self, books: Books, started_ns: int, output: Output, dispatches: bool) -> None:
        self._books = books
        self._started = started_ns
        self._output = output
        self._dispatches = dispatches

    def apply(
        self, process: ProcessRecord, data: bytes, offset: int, length: int, now: int
    ) -> None:
        elapsed_ms = max(0, now - self._started) // 1_000_000

        def apply_in_words(
            index: int, events: bytes, at: int, length: int, now: int, position: int
        ) -> int:
            done, lines = self._books.native.apply_in_words(
                index,
                events,
                at,
                length,
                now,
                process.pid,
                elapsed_ms,
                self._dispatches,
                position,
            )
            self._output.write(lines)
            return done

        self._books.apply(process, data, offset, length, now, apply_in_words)

    def died(self, pid: int, rows: Sequence[AccountRow]) -> None:
        """The release of a dead process; `rows` are its accounts."""
        removed = {
            "buffers": (sum(sum(r.counts) for r in rows), sum(sum(r.requested) for r in rows)),
            "CBs": (sum(r.cb_count for r in rows), sum(r.cb_demand for r in rows)),
            "kernels": (sum(sum(r.kernels) for r in rows), sum(sum(r.footprint) for r in rows)),
        }
        lines = [f"⚠ PID {pid} is dead, removing its buffers..."]
        lines += [
            f"   ✓ Removed {count} {what} ({size / _MB:g} MB) from PID {pid}"
            for what, (count, size) in removed.items()
            if count
        ]
        self._output.write("".join(f"{line}\n" for line in lines).encode())


def summary(snapshot: Snapshot, connections: int, live: int, lost_lines: int) -> Iterator[str]:
    """A sentence about everything, then one for each device."""
    losses = snapshot.losses
    yield (
        f"summary: {several(len(snapshot.devices), 'device')},"
        f" {several(len(snapshot.processes), 'process', 'processes')},"
        f" {several(connections, 'connection')}, {several(live, 'live entry', 'live entries')},"
        f" {several(losses.rejected_records, 'record')} rejected,"
        f" {several(losses.dropped_events, 'event')} dropped"
        + (f", {several(lost_lines, 'line')} of output dropped" if lost_lines else "")
    )
    for device in snapshot.devices:
        memory = device.memory
        yield (
            f"device {device.logical_id} ({device.unique_id}): DRAM {human(memory.dram.held)},"
            f" L1 used {human(device.l1_used)} of {human(device.l1_capacity)}"
            f" (L1 {human(memory.l1.held)}, L1_SMALL {human(memory.l1_small.held)},"
            f" CB {human(memory.cb.used)}), TRACE {human(memory.trace.held)};"
            f" kernels, not included: {human(device.kernels.footprint.total)} if resident everywhere"
        )


def released(left: LeftBehind | None, rows: Sequence[AccountRow] = ()) -> str:
    """What a dead process held, and by its accounts how many kernels it had loaded."""
    parts = [
        f"{human(held.dram)} DRAM, {human(held.l1_used)} L1 used, {human(held.trace)} TRACE on device {device}"
        for device, held in (left.devices.items() if left else ())
    ]
    if kernels := sum(sum(row.kernels) for row in rows):
        footprint = human(sum(sum(row.footprint) for row in rows))
        parts.append(f"{several(kernels, 'kernel')}, {footprint} if resident everywhere")
    return "; ".join(parts) or "nothing"
