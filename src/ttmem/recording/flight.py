"""The flight recorder of a server: always on, in a directory of bounded size.

One journal is written to a ring of files. Each starts with a key frame and can be read alone; consecutive files can be
read as one recording. The minutes around a failed allocation or a mark are copied to a file that stays when the ring
moves on.
"""

from __future__ import annotations

import errno
import fcntl
import os
import re
import stat
import threading
import time
from bisect import bisect_right
from collections import Counter, deque
from collections.abc import Callable, Mapping
from contextlib import suppress
from datetime import datetime, timezone
from itertools import accumulate
from typing import Any, NamedTuple, Protocol

from ttmem.clock import now_ns
from ttmem.errors import BadInput, TtmemError
from ttmem.ledger import Books
from ttmem.recording.chunks import FileSource
from ttmem.recording.cut import cut
from ttmem.recording.files import FileSink
from ttmem.recording.format import ChunkType
from ttmem.recording.recorder import Recorder, described
from ttmem.recording.recording import Recording
from ttmem.recording.times import SECOND_NS
from ttmem.recording.writer import Written

PARTS = 8  # a file of the ring ends after this share of all bytes
FILE_NS = 300 * SECOND_NS  # or after this time
BEFORE_NS, AFTER_NS = 120 * SECOND_NS, 60 * SECOND_NS  # kept around an incident
LONGEST_TEXT = 200  # characters of the log that name incidents
LONGEST_NS = 180 * SECOND_NS  # from the first incident to the end of its file
SETTLE_NS = 2 * SECOND_NS  # until the writer has written that
MOST_KEPT = 32  # files; they take at most half of all bytes
_RING = re.compile(r"ring-\d{8}T\d{6}\.\d{3}Z\.ttmem")
_KEPT = re.compile(r"kept-\d{8}T\d{6}\.\d{3}Z-[a-z]+\.ttmem")


class _Stored(NamedTuple):
    path: str
    size: int
    begun_ns: int
    users: frozenset[str | None] = frozenset((None,))  # whose incidents it keeps, if that is known


class _Store:
    """A directory of recordings, and the sink of the current one: every FILE chunk starts a new file.

    All files together never exceed `keep` bytes: the oldest of the ring are removed for new ones. Only threads that
    write use it; the server's loop reads plain attributes.
    """

    def __init__(self, folder: str, keep: int, age_ns: int) -> None:
        self.folder = folder
        self.keep = keep
        self.broken = False  # there is no file to write to: start another
        self.size = 0  # of the current file
        self.lock = threading.Lock()
        self._age_ns = age_ns
        self._handle = _private_folder(folder)
        self._current: FileSink | None = None
        self._begun_ns = 0
        self.bytes = 0
        self._ours: deque[_Stored] = deque()  # of this journal, without the current one
        self._older = self._found(_RING)
        self._kept = self._found(_KEPT)

    def _found(self, pattern: re.Pattern[str]) -> deque[_Stored]:
        """What earlier servers left, oldest first."""
        found = deque[_Stored]()
        for name in sorted(filter(pattern.fullmatch, os.listdir(self.folder))):
            path = os.path.join(self.folder, name)
            with suppress(OSError):
                facts = os.lstat(path)
                found.append(_Stored(path, facts.st_size, facts.st_mtime_ns))
                self.bytes += facts.st_size
        return found

    def append(self, chunk: bytes) -> None:
        """See `Sink`."""
        with self.lock:
            if chunk[4] == ChunkType.FILE:
                self._begin()
            if self._current is None:
                raise OSError(errno.EIO, "the file could not be created")
            self._reserve(len(chunk))
            self._current.append(chunk)
            self.bytes += len(chunk)
            self.size = self._current.size

    def _begin(self) -> None:
        self._end()
        self.broken = True
        now = now_ns()
        while self._older and self._older[0].begun_ns < now - self._age_ns:
            self._remove(self._older)
        while not self._older and self._ours and self._ours[0].begun_ns < now - self._age_ns:
            self._remove(self._ours)
        try:
            self._current = FileSink(os.path.join(self.folder, f"ring-{_stamp(now)}.ttmem"))
        except TtmemError as problem:
            raise OSError(errno.EIO, str(problem)) from None
        self._begun_ns, self.size, self.broken = now, 0, False

    def _end(self) -> None:
        if self._current is not None:
            self._current.close()
            self._ours.append(_Stored(self._current.path, self._current.size, self._begun_ns))
            self._current = None

    def _reserve(self, size: int) -> None:
        while self.bytes + size > self.keep and (self._older or self._ours):
            self._remove(self._older or self._ours)
        if self.bytes + size > self.keep:
            raise OSError(errno.ENOSPC, "--keep is too small for what happens here")

    def _remove(self, files: deque[_Stored]) -> None:
        with suppress(FileNotFoundError):
            os.unlink(files[0].path)
        self.bytes -= files.popleft().size

    def close(self) -> None:
        with self.lock:
            self._end()
            os.close(self._handle)

    # -- kept files ----------------------------------------------------------------------------------------------

    def since(self, time_ns: int) -> Recording:
        """What the ring has since a time, as one recording."""
        with self.lock:
            files = [*self._ours]
            if self._current is not None:
                files.append(_Stored(self._current.path, self._current.size, self._begun_ns))
            while len(files) > 1 and files[1].begun_ns <= time_ns:
                del files[0]
            return Recording(_Joined([file.path for file in files]))

    def kept_file(self, reason: str, time_ns: int, users: frozenset[str | None]) -> _KeptFile:
        path = os.path.join(self.folder, f"kept-{_stamp(time_ns)}-{reason}.ttmem")
        with self.lock:
            while len(self._kept) >= MOST_KEPT:
                self._remove_kept(lambda file: 1)
            while self.kept_bytes > self.keep // 4:
                self._remove_kept(lambda file: file.size)
            return _KeptFile(path, self, users)

    def _remove_kept(self, measure: Callable[[_Stored], int]) -> None:
        """The oldest of the user with most, so that nobody pushes out what is kept for others."""
        taken: Counter[str | None] = Counter()
        for file in self._kept:
            taken.update(dict.fromkeys(file.users, measure(file)))
        most = max(self._kept, key=lambda file: min(taken[user] for user in file.users))
        self._kept.remove(most)
        self._remove(deque((most,)))

    @property
    def kept_bytes(self) -> int:
        return sum(file.size for file in self._kept)

    def take_kept(self, chunk: bytes, size: int) -> None:
        """With the lock held: makes space for a kept file of `size` bytes."""
        if self.kept_bytes + size + len(chunk) > self.keep // 2:
            raise OSError(errno.ENOSPC, "half of --keep is reached")
        self._reserve(len(chunk))

    def kept(self, path: str, size: int, users: frozenset[str | None]) -> None:
        with self.lock:
            self._kept.append(_Stored(path, size, now_ns(), users))


class _KeptFile(FileSink):
    """Counts towards --keep while it is written."""

    def __init__(self, path: str, store: _Store, users: frozenset[str | None]) -> None:
        super().__init__(path)
        self._store = store
        self._users = users

    def append(self, chunk: bytes) -> None:
        with self._store.lock:
            self._store.take_kept(chunk, self.size)
            super().append(chunk)
            self._store.bytes += len(chunk)

    def discard(self) -> None:
        """It could not be written: it is gone, and its bytes are free again."""
        with suppress(OSError):
            os.unlink(self.path)
        super().close()
        with self._store.lock:
            self._store.bytes -= self.size

    def close(self) -> None:
        super().close()
        self._store.kept(self.path, self.size, self._users)


class _Joined:
    """Consecutive files as one source. They are open, so the ring may remove them meanwhile."""

    def __init__(self, paths: list[str]) -> None:
        self._files = [FileSource(path) for path in paths]
        self._ends = list(accumulate(file.size() for file in self._files))
        self.name = self._files[0].name if self._files else "the flight recorder"

    def size(self) -> int:
        return self._ends[-1] if self._ends else 0

    def read(self, offset: int, size: int) -> bytes:
        parts = []
        size = max(0, min(size, self.size() - offset))
        while size:
            number = bisect_right(self._ends, offset)
            begin = self._ends[number - 1] if number else 0
            part = self._files[number].read(offset - begin, min(size, self._ends[number] - offset))
            if not part:
                break
            parts.append(part)
            offset, size = offset + len(part), size - len(part)
        return b"".join(parts)

    def close(self) -> None:
        for file in self._files:
            file.close()


class _Incident(NamedTuple):
    """One or several, of which each has its minutes before and after in the same file."""

    reason: str
    text: str
    first_ns: int
    last_ns: int
    users: frozenset[str | None]  # whose; None: root's or the server's user's


class Sampler(Protocol):
    """Reads the sensors in a thread of its own; `write` passes on the latest sample, and so does `close`."""

    def write(self) -> None: ...

    def close(self) -> None: ...


class FlightRecorder:
    """Records books into a directory until `close`. Nothing here raises or waits for the disk.

    `sampler` makes one that writes to the recording. `info` and `problem` write to the server's log.
    """

    def __init__(
        self,
        books: Books,
        folder: str,
        keep: int,
        age_ns: int,
        *,
        host: Mapping[str, Any],
        sampler: Callable[[Callable[[Mapping[str, Any], int], None]], Sampler],
        info: Callable[[str], None],
        problem: Callable[[str, str], None],
    ) -> None:
        """BadInput if the directory cannot be used."""
        self._info, self._problem = info, problem
        self.folder = os.path.abspath(folder)
        self._store = _Store(folder, keep, age_ns)
        self._recorder = Recorder(books, self._store, described(), host=host)
        self._sampler = sampler(self._recorder.telemetry)
        self._begun_ns = now_ns()
        self._failures = 0
        self._lost = 0
        self._incidents: deque[_Incident] = deque()  # not yet kept, in their order
        self._keeping: threading.Thread | None = None

    def tick(self, now: int) -> None:
        self._sampler.write()
        self._recorder.tick(now)
        written = self._recorder.written()
        if self._recorder.ready and self._is_full(written, now):
            self._begun_ns = now
            self._recorder.begin_file(now)
        if written.lost > self._lost or written.problem:
            self._lost = written.lost
            why = written.reason or "the disk is too slow"
            self._problem("flight recorder", f"the flight recorder loses events: {why}")
        self._look_for_failures(now)
        if self._incidents and now >= self._incidents[0].last_ns + AFTER_NS + SETTLE_NS:
            self._keep()

    def _look_for_failures(self, now: int) -> None:
        if self._recorder.failures > self._failures:
            self._failures = self._recorder.failures
            users, self._recorder.failed = frozenset(self._recorder.failed), set()
            self._note("failure", "an allocation failed", now, users)

    def _is_full(self, written: Written, now: int) -> bool:
        size = self._store.size
        full = size >= self._store.keep // PARTS and size >= 2 * written.state_bytes
        return self._store.broken or full or now >= self._begun_ns + FILE_NS

    def mark(self, text: str, now: int, pid: int | None = None) -> None:
        """Adds a user's marker; the minutes around it are kept."""
        self._recorder.mark(text, now, pid)
        self._note("mark", f"mark {text!r}", now)

    def _note(
        self, reason: str, text: str, now: int, users: frozenset[str | None] = frozenset((None,))
    ) -> None:
        """What happens before an incident is over belongs to it, so a loop of failures makes a file every two minutes.

        A file that would become longer ends, so that the ring still has its beginning.
        """
        last = self._incidents[-1] if self._incidents else None
        if last is None or now + AFTER_NS > last.first_ns + LONGEST_NS:
            self._incidents.append(_Incident(reason, text, now, now, users))
            return
        more = text not in last.text and len(last.text) < LONGEST_TEXT
        text = f"{last.text}, {text}" if more else last.text
        self._incidents[-1] = last._replace(text=text, last_ns=now, users=last.users | users)

    def _keep(self) -> None:
        if self._incidents and (self._keeping is None or not self._keeping.is_alive()):
            self._keeping = threading.Thread(
                target=self._copy,
                args=(self._incidents.popleft(),),
                name="flight recorder",
                daemon=True,
            )
            self._keeping.start()

    def _copy(self, incident: _Incident) -> None:
        try:
            first, last = incident.first_ns - BEFORE_NS, incident.last_ns + AFTER_NS
            with self._store.since(first) as recording:
                started = recording.info().started_ns
                # Events may be older than a recording: its start is a position, not a time.
                since = first - started
                start = recording.instant(f"{since / SECOND_NS:.3f}s" if since > 0 else "#0")
                end = recording.instant(f"{(last - started) / SECOND_NS:.3f}s")
                sink = self._store.kept_file(incident.reason, incident.first_ns, incident.users)
                try:
                    cut(recording, start, end, sink)
                except BaseException:
                    sink.discard()
                    raise
                sink.close()
            self._info(f"{incident.text}; the minutes around it are kept in {sink.path}")
        except (TtmemError, OSError, MemoryError) as problem:
            self._problem("kept", f"{incident.text}, but the minutes around it are lost: {problem}")

    def written(self) -> Written:
        return self._recorder.written()

    def close(self, seconds: float) -> Written:
        """Ends the ring, and keeps what belongs to incidents that are not over."""
        self._sampler.close()
        written = self._recorder.close(seconds)
        if written.lost:
            self._problem("recording", f"the flight recorder lost {written.lost:,} records")
        self._look_for_failures(now_ns())
        end = time.monotonic() + seconds
        self._keep()
        while self._keeping is not None:
            self._keeping.join(max(0.0, end - time.monotonic()))
            if self._keeping.is_alive() or not self._incidents:
                break
            self._keep()
        return written


def _stamp(time_ns: int) -> str:
    """20261118T140530.250Z: names sort by time."""
    moment = datetime.fromtimestamp(time_ns // 10**6 / 1000, timezone.utc)
    return f"{moment:%Y%m%dT%H%M%S}.{moment.microsecond // 1000:03}Z"


def _private_folder(folder: str) -> int:
    """Holds a lock on the directory while it is open. BadInput unless it is the user's own, and closed to others."""
    try:
        with suppress(FileExistsError):
            os.mkdir(folder, 0o700)
        handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError as problem:
        raise BadInput(f"{folder} cannot be used for recordings: {problem.strerror}") from None
    try:
        found = os.fstat(handle)
        if found.st_uid != os.geteuid() or stat.S_IMODE(found.st_mode) & 0o077:
            raise BadInput(f"{folder} must be yours and closed to others: chmod 700 {folder}")
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise BadInput(f"another server records in {folder}") from None
    except BaseException:
        os.close(handle)
        raise
    return handle
