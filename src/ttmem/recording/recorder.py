"""Records books: their journal, and changes to everything else that a snapshot needs."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from ttmem.clock import now_ns
from ttmem.events import EVENT_SIZE, Event, MemoryKind, Notice
from ttmem.events.record import NO_POSITION, Control, of_source
from ttmem.ledger import Books, ProcessRecord
from ttmem.ledger.context import Context
from ttmem.ledger.journal import NamedPage
from ttmem.recording.context import changes, strings_without_secrets, without_secrets
from ttmem.recording.format import ChunkType
from ttmem.recording.writer import BUDGET, PIECE, Sink, Writer, Written
from ttmem.sizes import human
from ttmem.version import __version__

# A key frame costs a save of the whole ledger and bytes in the file; too few make seeking slow.
KEY_FRAME_RECORDS = 1 << 20  # least number between two of them; replaying as many takes 0.1 s
LOOK_RECORDS = 1 << 14  # between two checks whether one is due
SEEK_RECORDS = 1 << 22  # from here on, a larger part of the file may be key frames
SHARE, LARGE_SHARE = 10, 4  # a key frame is at most a 10th, or a 4th, of the bytes since the last
MOST_DELTAS = 256  # between two complete contexts
MOVED_NS = (
    10**9
)  # between contexts that tell only the positions of processes, which readers know from batches
MOST_MARKS = 1000  # in one batch
EVENTS_BYTES = (PIECE - 1) * EVENT_SIZE  # after one BATCH record
MARKED = {
    Notice.PHASE_ENTERED: "phase",
    Notice.ALLOCATION_FAILED: "failure",
    Notice.MARKED: "mark",
}


def described(command: str | None = None, *, confidential: bool = False) -> dict[str, Any]:
    """Who records, where and when: the first chunk of a file."""
    system = os.uname()
    try:
        with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
            boot_id: str | None = file.read().strip()
    except OSError:
        boot_id = None
    return {
        "ttmem": __version__,
        "host": system.nodename,
        "boot_id": boot_id,
        "kernel": system.release,
        "uid": os.getuid(),
        "command": None if confidential else command,
        "confidential": confidential,
    }


class Recorder:
    """Records the journal of books until `close`. Nothing here raises or waits for the disk.

    `host` is how snapshots of these books describe their host. `confidential` leaves out command lines and directories.
    """

    def __init__(
        self,
        books: Books,
        sink: Sink,
        about: Mapping[str, Any],
        *,
        host: Mapping[str, Any] | None = None,
        confidential: bool = False,
        budget: int = BUDGET,
    ) -> None:
        now = now_ns()
        self.failures = 0  # failed allocations so far
        self.failed: set[str | None] = set()  # the users of the latest; whoever reads it empties it
        self._started = now
        self._books = books
        self._followed = books.native.followed
        self._about = dict(about)
        self._host = dict(host or {})
        self._confidential = confidential
        self._writer = Writer(
            sink,
            stream=int.from_bytes(os.urandom(8), "little"),
            started_ns=now,
            budget=budget,
        )
        self._serials: dict[int, int] = {}  # serial numbers of open accounts, by ledger index
        self._next_serial = 1
        self._strings: dict[int, dict[int, str]] = {}  # not yet written, by serial
        self._accounts: dict[int, dict[str, Any]] = {}  # as they were written, by serial
        self._marks: list[list[Any]] = []
        self._sampled: dict[str, int] = {}  # the last sample of the history that was written
        self._changed: set[int] = set()  # accounts that changed since the context was written
        self._context: Context | None = None  # as it was written
        self._messages: dict[str, Any] = {}
        self._deltas = 0  # since it was last written completely
        self._context_ns = 0  # when it was written
        self._key_frame_at = self._look_at = 0
        for index in books.processes:
            self._open(index)
        self._begin_file(now)
        books.native.attach(self)

    def _begin_file(self, now: int) -> None:
        self._writer.document(ChunkType.FILE, self._about, now)
        self._repeat_names(now)
        self._key_frame(now)

    def _repeat_names(self, now: int) -> None:
        self._writer.forgetful = False
        for index, process in self._books.processes.items():
            if index in self._serials:
                self._strings[self._serials[index]] = dict(process.strings)
        if self._accounts:
            self._writer.document(ChunkType.ACCOUNTS, self._accounts, now)

    def begin_file(self, now: int, *, anew: bool = False) -> None:
        """Ends a file, and starts one that can be read on its own, for a sink with several files.

        `anew`: with the history of the last hour, which takes long, for a reader that has nothing before it.
        """
        self.end_file(now)
        self._begin_file(now)
        if anew:
            self._sampled.clear()
            self._write_history(now)

    def end_file(self, now: int) -> None:
        """Passes everything so far to the sink, followed by an END chunk; the recording continues."""
        self._context_ns = 0
        self._write_strings(now)
        self._write_context(now)
        self._write_marks(now)
        self._writer.document(ChunkType.END, {}, now)

    @property
    def ready(self) -> bool:
        """See `Writer.ready`."""
        return self._writer.ready

    @property
    def position(self) -> int:
        return self._writer.position

    def written(self) -> Written:
        return self._writer.written()

    def close(self, seconds: float = 30.0) -> Written:
        """Ends the file; first writes what is waiting, if that takes no longer than `seconds`."""
        self._books.native.detach(self)
        self.end_file(now_ns())
        return self._writer.close(seconds)

    # -- the journal ---------------------------------------------------------------------------------------------

    def control(self, records: bytes, /) -> None:
        """See `Journal`."""
        try:
            self._control(Event.unpack(records), records)
        except Exception:  # such as MemoryError
            self._writer.interrupt()

    def _control(self, control: Event, records: bytes) -> None:
        if control.op == Control.OPEN_PROCESS:
            self._open(control.device)
        if control.op in (Control.OPEN_PROCESS, Control.RELEASE_PROCESS):
            serial = self._serials.get(control.device, 0)
            records = control._replace(extra=serial).pack()
            process = self._books.processes.get(control.device)
            if control.op == Control.RELEASE_PROCESS and process is not None:
                # A process may fail, or lose events, and end between two ticks.
                if process.messages or process.lost:
                    self._write_context(now_ns())
                self._mark_process(process, "end", now_ns())
        if control.op == Control.RELEASE_PROCESS:
            self._accounts.pop(self._serials.pop(control.device, 0), None)
        self._writer.records(records)
        if control.op in (Control.OPEN_PROCESS, Control.RELEASE_PROCESS, Control.BIND):
            self._changed.add(control.device)

    def batch(
        self, account: int, arrived_ns: int, position: int, data: bytes, begin: int, end: int, /
    ) -> NamedPage | None:
        """See `Journal`. The server's loop waits for it."""
        failures = self.failures
        try:
            if self._strings or self._changed or account in self._followed:
                self._prepare(account, arrived_ns, position, data[begin:end])
            serial, writer = self._serials.get(account, 0), self._writer
            while begin + EVENTS_BYTES < end:
                until = begin + EVENTS_BYTES
                writer.batch(account, arrived_ns, position, serial, data, begin, until)
                if position != NO_POSITION:
                    position += of_source(data, begin, until)
                begin = until
            page = writer.batch(account, arrived_ns, position, serial, data, begin, end)
            # The books count a failure after its events: no context may be written in between.
            if self.failures == failures and (writer.gap or writer.position >= self._look_at):
                self._look_at = writer.position + LOOK_RECORDS
                self._key_frame_if_due(arrived_ns)
            if self._marks:
                self._write_marks(arrived_ns)
            return None if page is None else (page, serial)
        except Exception:  # such as MemoryError
            self._writer.interrupt()
            return None

    def _prepare(self, account: int, arrived: int, position: int, events: bytes) -> None:
        self._write_strings(arrived)
        if self._changed:  # events come after the context of their account and device
            marks = len(self._marks)
            self._write_context(arrived)
            self._start_with(account, marks, Event.unpack(events).time_by(arrived))
        if position != NO_POSITION and account in self._followed:
            self._find_marks(account, arrived, events)

    def _start_with(self, account: int, first: int, time: int) -> None:
        """Dates the marker of a process that has just appeared, among those from `first` on, by its first event."""
        pid = getattr(self._books.processes.get(account), "pid", None)
        for mark in self._marks[first:]:
            if (mark[2], mark[3]) == ("start", pid):
                mark[1] = min(mark[1], max(time, self._started))

    def interrupted(self) -> None:
        """See `Journal`."""
        self._writer.interrupt()

    def string(self, index: int, number: int, text: str) -> None:
        """A process has defined a string."""
        serial = self._serials.get(index)
        if serial is not None:
            self._strings.setdefault(serial, {})[number] = text

    def _open(self, index: int) -> None:
        self._serials[index] = self._next_serial
        self._next_serial += 1

    # -- what else a snapshot needs ------------------------------------------------------------------------------

    def tick(self, now: int) -> None:
        """To be called after each reading of the sources: writes what has changed, and a key frame when one is due."""
        self._write_strings(now)
        self._write_context(now)
        self._write_history(now)
        self._write_marks(now)
        self._key_frame_if_due(now)

    def telemetry(self, document: Mapping[str, Any], now: int) -> None:
        """Writes a sample of the sensors, read at that time."""
        self._writer.document(
            ChunkType.TELEMETRY, without_secrets(document) if self._confidential else document, now
        )

    def _write_history(self, now: int) -> None:
        samples: dict[str, list[list[int]]] = {}
        for record in self._books.devices:
            if record.history and (last := record.history.last())[0] > self._sampled.get(
                record.unique_id, 0
            ):
                known = record.unique_id in self._sampled
                columns = record.history.columns  # an hour of it costs milliseconds
                past = [last] if known else [list(one) for one in zip(*columns(), strict=True)]
                samples[record.unique_id] = past
                self._sampled[record.unique_id] = last[0]
        if samples:
            self._writer.document(ChunkType.HISTORY, samples, now)

    def _find_marks(self, account: int, arrived: int, events: bytes) -> None:
        """Phases and failed allocations. Their positions count the BATCH record of each piece."""
        ops = events[::EVENT_SIZE]
        process = self._books.processes.get(account)
        for op, kind in MARKED.items():
            at = ops.find(op)
            while at >= 0 and process is not None and len(self._marks) < MOST_MARKS:
                event = Event.unpack(events, at * EVENT_SIZE)
                position = self.position + at + at // (PIECE - 1) + 1
                text, device = process.strings.get(event.name, ""), None
                if op == Notice.ALLOCATION_FAILED:
                    self.failures += 1
                    self.failed.add(process.facts.user)
                    text, device = _failure(event), process.devices.get(event.device)
                time = event.time_by(arrived)
                self._marks.append([position, time, kind, process.pid, device, text])
                at = ops.find(op, at + 1)

    def _mark_process(self, process: ProcessRecord, kind: str, now: int) -> None:
        if process.part_of is None:  # otherwise it is another reporter of a process
            text = f"pid {process.pid}" if self._confidential else process.title
            self._marks.append([self.position, now, kind, process.pid, None, text])

    def mark(self, text: str, now: int, pid: int | None = None) -> None:
        """Adds a user's marker."""
        self._marks.append([self.position, now, "mark", pid, None, text])
        self._write_marks(now)

    def _write_context(self, now: int) -> None:
        """Writes what has changed, and occasionally everything, so that no reader needs a long chain of changes."""
        self._write_accounts(now)
        self._changed.clear()
        if self._deltas >= MOST_DELTAS:
            self._context, self._messages, self._deltas = None, {}, 0
        context = self._books.context(self._host)
        document: dict[str, Any] = {"full": self._context is None}
        document |= changes(self._context, context)
        messages = {
            str(index): {str(time): text for time, text in one.messages.items()}
            for index, one in self._books.processes.items()
            if one.messages
        }
        if messages != self._messages:
            document["messages"] = {**dict.fromkeys(self._messages), **messages}
        if now < self._context_ns + MOVED_NS and self._tells_positions(document, context):
            return
        self._context, self._messages = context, messages
        if len(document) > 1:
            self._context_ns = now
            self._deltas += 1
            if self._confidential:
                document = without_secrets(document)
            self._writer.document(ChunkType.CONTEXT, document, now)

    def _tells_positions(self, document: Mapping[str, Any], context: Context) -> bool:
        """Whether the changes to the context are nothing but positions of processes."""
        if document.keys() != {"full", "processes"} or self._context is None:
            return False
        pairs = zip(self._context.processes, context.processes, strict=False)
        return len(self._context.processes) == len(context.processes) and all(
            one == old or one == replace(old, position=one.position) for old, one in pairs
        )

    def _write_accounts(self, now: int) -> None:
        changed = {}
        for index in self._changed if self._accounts else self._serials:
            process, serial = self._books.processes.get(index), self._serials.get(index)
            if process is None or serial is None:
                continue  # about to be opened, or released
            facts = process.facts
            known = {
                "index": index,
                "pid": facts.pid,
                "start_time_ns": facts.start_time_ns,
                "user": facts.user,
                "command": None if self._confidential else facts.command,
                "devices": dict(process.devices),
            }
            if serial not in self._accounts:
                self._mark_process(process, "start", now)
            if self._accounts.get(serial) != known:
                changed[serial] = self._accounts[serial] = known
        if changed:
            self._writer.document(ChunkType.ACCOUNTS, changed, now)

    def _key_frame(self, now: int) -> None:
        self._write_strings(now)
        self._deltas = MOST_DELTAS
        self._write_context(now)
        self._writer.payload(ChunkType.STATE, self._books.native.save(), now)
        self._key_frame_at = self.position
        self._look_at = self.position + KEY_FRAME_RECORDS

    def _write_strings(self, now: int) -> None:
        if self._strings:
            strings: Any = self._strings
            if self._confidential:
                strings = strings_without_secrets(strings)
            self._writer.document(ChunkType.STRINGS, strings, now)
            self._strings = {}

    def _write_marks(self, now: int) -> None:
        marks = without_secrets(self._marks) if self._confidential else self._marks
        if marks and self._writer.document(ChunkType.MARKS, marks, now):
            self._marks = []
        del self._marks[MOST_MARKS:]  # the sink is stuck

    def _key_frame_if_due(self, now: int) -> None:
        if not self._writer.ready:
            return
        records, written = self.position - self._key_frame_at, self._writer.written()
        share = LARGE_SHARE if records >= SEEK_RECORDS else SHARE
        due = records >= KEY_FRAME_RECORDS and written.bytes_since >= share * written.state_bytes
        if self._writer.forgetful:
            self._repeat_names(now)
            self._key_frame(now)
        elif due or self._writer.gap:
            self._key_frame(now)


def _failure(event: Event) -> str:
    """'1.5 MiB of L1'; the size of circular buffers is unknown."""
    try:
        kind = MemoryKind(event.kind).name
    except ValueError:
        kind = "memory"
    return f"{human(event.size)} of {kind}" if event.size else kind
