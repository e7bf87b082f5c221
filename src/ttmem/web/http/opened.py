"""Recordings that pages can show: the one on the command line, uploads, and the past hour of the live feed."""

from __future__ import annotations

import secrets
import threading
import time
from abc import ABC, abstractmethod
from typing import Any, BinaryIO

from starlette.exceptions import HTTPException

from ttmem.errors import BadInput, TtmemError
from ttmem.feeds.past import NOT_YET, PastFeed
from ttmem.recording import Recording
from ttmem.recording.memory import ChunkMemory, MemorySource
from ttmem.web.http.fair_thread import Turns
from ttmem.web.http.readings import Child, LimitReached, ReadLimits, Work

READING_S = 60  # CPU time per question to an upload or to the past hour
WALL_S = 600.0  # on a machine that is busy with something else
OF_FILE = ReadLimits(memory=8 << 30, cpu_s=10 * READING_S, wall_s=10 * WALL_S)
OF_UPLOAD = ReadLimits(memory=1 << 30, cpu_s=READING_S, wall_s=WALL_S)
READERS = 2  # uploads that are read at a time, of all users
MOST_IDLE = 2  # processes that wait for further questions about an upload
IDLE_BYTES = 128 << 20  # a larger one ends with its answer
GONE = "there is no such recording; it may have been closed"
ANYBODY = -1  # owner of the past hour; each user sees a filtered part of it


class Opened(ABC):
    """A recording that answers one question at a time."""

    kind = "file"

    def __init__(self, name: str, owner: int) -> None:
        self.id = self.kind  # in addresses: there is one of each kind, but for uploads
        self.name = name
        self.owner = owner
        self.entry: dict[str, Any] | None = None  # in the list, if it never changes
        self._turns = Turns("ttmem-recording")

    def is_for(self, uid: int) -> bool:
        return uid in (0, self.owner) or self.owner == ANYBODY

    async def ask(self, uid: int, work: Work) -> str:
        """The answer, made for that user in turn."""
        try:
            return await self._turns.do(uid, lambda: self.answer(work))
        except LimitReached as problem:
            raise HTTPException(413, f"{self.name}: {problem}{self.instead}") from problem

    instead = ""  # what to do if reading takes too much

    @abstractmethod
    def answer(self, work: Work) -> str:
        """Called for one question at a time."""

    def close(self) -> None:
        self._turns.close(self.end, wait=False)

    def end(self) -> None:  # noqa: B027
        """After the last answer."""


class File(Opened):
    """That of the command line, read by a process of its own."""

    limits = OF_FILE
    instead = "; try ttmem report FILE"

    def __init__(self, file: str | BinaryIO, name: str, owner: int) -> None:
        super().__init__(name, owner)
        self._file = file
        self._child: Child | None = None
        self._closed = False

    def answer(self, work: Work) -> str:
        if self._child is None:
            self._child = Child(self._file, self.name, self.limits)
        try:
            return self._child.ask(work)
        except LimitReached:
            self.end()
            if self._closed:
                raise HTTPException(404, GONE) from None
            raise

    def close(self) -> None:
        """Ends what reads it, too."""
        self._closed = True
        super().close()
        if (child := self._child) is not None:
            child.kill()

    def end(self) -> None:
        child, self._child = self._child, None
        if child is not None:
            child.close()


class Uploads:
    """What is shared by the uploads of all users: places to read them, and processes that wait."""

    def __init__(self) -> None:
        self.places = threading.Semaphore(READERS)
        self._idle: list[Upload] = []
        self._lock = threading.RLock()  # `end` of a closed one comes back

    def begin(self, upload: Upload) -> None:
        with self._lock:
            if upload in self._idle:
                self._idle.remove(upload)

    def done(self, upload: Upload) -> None:
        with self._lock:
            self._idle.append(upload)
            while len(self._idle) > MOST_IDLE:
                self._idle.pop(0).end()


class Upload(File):
    """A recording in an unnamed temporary file, which disappears when it is closed or the process dies.

    `turn` is held while it is read: the uploads of one user use at most one CPU, and each question a limited time.
    """

    kind = "upload"
    limits = OF_UPLOAD
    instead = "; open it with `ttmem web FILE`"

    def __init__(
        self, name: str, owner: int, file: BinaryIO, turn: threading.Lock, uploads: Uploads
    ) -> None:
        super().__init__(file, name, owner)
        self.id = secrets.token_hex(8)
        self.bytes = 0  # as announced, or as received if that is more
        self._data = file
        self._turn = turn
        self._uploads = uploads

    def answer(self, work: Work) -> str:
        with self._turn, self._uploads.places:
            self._uploads.begin(self)
            try:
                return super().answer(work)
            finally:
                if self._child is not None and self._child.memory > IDLE_BYTES:
                    self.end()
                if self._child is not None:
                    self._uploads.done(self)

    def end(self) -> None:
        super().end()
        if self._closed:
            self._uploads.begin(self)
            self._data.close()


class LivePast(Opened):
    """The last hour of the live feed, as far as it was kept, with the same visibility as the present."""

    kind = "past"

    def __init__(self, feed: PastFeed) -> None:
        super().__init__("the past hour", ANYBODY)
        self._feed = feed
        self._recording: Recording | None = None
        self._source: tuple[ChunkMemory, _Past] | None = None

    def answer(self, work: Work) -> str:
        try:
            return work(self._current())
        except TtmemError as problem:
            if isinstance(problem, LimitReached):
                self._recording = None  # it has stopped in the middle of reading
            raise
        except Exception as problem:
            what = f"{type(problem).__name__}: {problem}"[:200]
            raise BadInput(f"{self.name} cannot be used ({what})") from problem

    def _current(self) -> Recording:
        """Including what was written since the last question."""
        memory = self._feed.memory
        if memory is None or not memory.end:
            raise NotKept(self._feed.missing or NOT_YET)
        kept = self._source
        if kept is None or kept[0] is not memory or not kept[1].current:
            kept, self._recording = (memory, _Past(memory)), None
        self._source = kept
        kept[1].until_s = time.thread_time() + READING_S
        if self._recording is None:
            self._recording = Recording(kept[1])
        else:
            self._recording.refresh()
        if not self._recording.info().key_frames:
            raise NotKept(NOT_YET)  # it has just begun
        return self._recording


class _Past(MemorySource):
    """Reading stops when its time is up."""

    until_s = 0.0  # of the processor time of the thread that reads

    def read(self, offset: int, size: int) -> bytes:
        if time.thread_time() > self.until_s:
            raise LimitReached("reading it took too much time")
        return super().read(offset, size)


class NotKept(TtmemError):
    """There is no past (yet)."""
