"""The recent past of a live feed, recorded in memory."""

from __future__ import annotations

import threading
import time
from abc import ABC, abstractmethod
from contextlib import closing
from typing import TYPE_CHECKING

from ttmem.errors import NothingToRead, Refused
from ttmem.feeds.feed import Feed
from ttmem.feeds.opening import HostFeed
from ttmem.feeds.server_feed import ServerFeed
from ttmem.snapshots import Question, Snapshot

if TYPE_CHECKING:  # loaded after the first screen of a monitor
    from ttmem.feeds.local_feed import LocalFeed
    from ttmem.feeds.recording_feed import PastSpan
    from ttmem.recording import Instant, Recording
    from ttmem.recording.memory import ChunkMemory, MemorySource


POLL_S = 0.1
LIVE = "live"
LAST_EVENT, LAST_MARKER = "last event", "last marker"
KEEP_AFTER_S = 0.8  # the first screen of a monitor comes first
RETRY_S = 5.0  # before retrying a server that could not be recorded
NOT_YET = "the past is not kept yet"
FORGOTTEN = "what was before is forgotten: an hour is kept, and at most 256 MiB"


def recorded(
    seconds: float,
    *,
    pid: int | None = None,
    shm: str | None = None,
    stop: threading.Event | None = None,
) -> Recording:
    """Records in memory what happens on this host, or in one process under `ttmem run`, for that long.

    Ends early with that process, or when `stop` is set. Beyond 256 MiB (about 30 million events), the beginning is
    dropped. NothingToRead if there is no such process.
    """
    from ttmem.feeds.local_feed import LocalFeed
    from ttmem.recording import Recording
    from ttmem.recording.memory import ChunkMemory, MemorySource

    stop = stop or threading.Event()
    memory = ChunkMemory()
    wanted = None if pid is None else lambda region: region.facts.pid == pid
    with closing(LocalFeed(shm, wanted=wanted)) as feed:
        recorder = feed.remember(memory)
        feed.poll()
        if pid is not None and not feed.watches(pid):
            recorder.close()
            raise NothingToRead(
                f"process {pid} is not watched, or is another user's;"
                " start it with `ttmem run`, and its events are known"
            )
        end = time.monotonic() + seconds
        while (left := end - time.monotonic()) > 0 and (pid is None or feed.watches(pid)):
            if stop.wait(min(POLL_S, left)):
                break
            feed.poll()
        feed.poll()
        recorder.close()
    return Recording(MemorySource(memory))


class _Kept(ABC):
    """A recording of a feed, in memory."""

    problem = ""  # why there is none, or no longer one

    def __init__(self, feed: ServerFeed | LocalFeed) -> None:
        from ttmem.recording.memory import ChunkMemory

        self.feed = feed
        self.memory = ChunkMemory()

    @property
    @abstractmethod
    def over(self) -> bool:
        """Whether nothing more will come."""

    def go_on(self) -> None:  # noqa: B027
        """Keeps recording while the past is shown."""

    def close(self) -> None:  # noqa: B027
        """Ends it."""


class _LocalMemory(_Kept):
    """Records what this process reads itself."""

    def __init__(self, feed: LocalFeed) -> None:
        super().__init__(feed)
        self._local, self._recorder = feed, feed.remember(self.memory)

    @property
    def over(self) -> bool:
        return self._local.recorder is not self._recorder  # the feed was closed

    def go_on(self) -> None:
        if not self.over:
            self._local.poll()


class _ServerMemory(_Kept):
    """Records what a server sees; a thread receives it."""

    def __init__(self, feed: ServerFeed) -> None:
        super().__init__(feed)
        self._given = feed.given
        self._begun = time.monotonic()
        self._refused = False
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name="ttmem-past", daemon=True)
        self._thread.start()

    @property
    def over(self) -> bool:
        """Another attempt is worthwhile."""
        ended = not self._thread.is_alive() and not self._refused
        return ended and time.monotonic() > self._begun + RETRY_S

    def _run(self) -> None:
        from ttmem.client.query import ServerConnection
        from ttmem.recording.received import Received

        received = Received(self.memory)
        try:
            with ServerConnection(self._given) as server:
                server.record(ring=True)
                while not self._ended.is_set() and (chunk := server.chunk(1.0)) != b"":
                    if chunk:
                        received.take(chunk)
        except Exception as problem:
            self.problem = str(problem) or type(problem).__name__
            self._refused = isinstance(problem, Refused)

    def close(self) -> None:
        """The thread ends within a second; nobody waits for it."""
        self._ended.set()


class PastFeed(Feed):
    """A live feed that can also show its recent past: `at` is LIVE, or an instant as in `Recording.instant`.

    LAST_EVENT and LAST_MARKER are instants too, and so is "@" with a number of ns: relative ones would move with the
    beginning of the past. `live` may be a wrapper of `source` with data that exists only live.
    """

    growing = False  # the present is not shown as the end of a file

    def __init__(self, live: Feed, source: HostFeed | ServerFeed | LocalFeed) -> None:
        self.at: str | float = LIVE
        self.reached: tuple[int, int] | None = None  # position and time of the last snapshot
        self.span: PastSpan | None = None  # the available past, as of the last check
        self.note = ""  # remark about the instant
        self.missing = NOT_YET  # why there is no past; empty: there is
        self._live, self._source = live, source
        self._since = 0.0  # the first reading
        self._kept: _Kept | None = None
        self._opened: tuple[MemorySource, Recording] | None = None
        self._shown: tuple[object, Snapshot] | None = None  # the query, and its answer

    @property
    def name(self) -> str:
        return self._live.name

    @property
    def memory(self) -> ChunkMemory | None:
        """What is kept; None if nothing is. Another thread may read it."""
        return None if self._kept is None else self._kept.memory

    def answer(self, question: Question) -> Snapshot:
        if self.at != LIVE and self._kept is not None and self._kept.memory.end:
            self._kept.go_on()
            return self._read_past(self._kept.memory, question)
        snapshot = self._live.answer(question)
        now = time.monotonic()
        self._since = self._since or now
        if now >= self._since + KEEP_AFTER_S:
            self._keep()
        self.reached, self.note = (0, snapshot.time_ns), ""
        self._opened = self._shown = None
        return snapshot

    def follow(self) -> None:
        if self._kept is None or self._kept.over:
            self.answer(Question())
        else:
            self._kept.go_on()

    def _keep(self) -> None:
        """Starts recording what was just read, unless that has been done."""
        source, kept = self._source, self._kept
        current = source.current if isinstance(source, HostFeed) else source
        if kept is not None and (kept.feed is not current or kept.over):
            kept.close()
            kept = None
        if kept is None:
            kept = self._kept = _begun(current)
        there = "" if kept.memory.end else NOT_YET
        self.missing = f"the past is not kept: {kept.problem}" if kept.problem else there

    def close(self) -> None:
        self._live.close()
        if self._kept is not None:
            self._kept.close()
        self._kept = self._opened = self._shown = None
        self.missing = NOT_YET

    def _read_past(self, memory: ChunkMemory, question: Question) -> Snapshot:
        recording, span = self._recording(memory)
        asked = str(self.at), question
        if self._shown is not None and self._shown[0] == asked:
            return self._shown[1]
        instant = self._instant(recording, span, asked[0])
        found = recording.snapshot(instant, question)
        self.reached = instant.position, instant.time_ns
        # The past does not change, but its end is half a second late.
        self._shown = (asked, found) if instant.time_ns < span.ended_ns else None
        return found

    def _instant(self, recording: Recording, span: PastSpan, at: str) -> Instant:
        self.note = ""
        if at == LAST_EVENT:
            return recording.instant(f"#{max(recording.info().end - 1, 0)}")
        if at == LAST_MARKER and span.markers:
            return recording.instant(f"#{span.markers[-1].position}")
        if not at.startswith("@"):
            return recording.instant("end" if at == LAST_MARKER else at)
        time_ns = min(max(int(at[1:]), span.started_ns), span.ended_ns)
        if int(at[1:]) < span.started_ns:
            self.note = FORGOTTEN if span.forgotten else "nothing was kept before"
        return recording.instant(f"@{time_ns}")

    def _recording(self, memory: ChunkMemory) -> tuple[Recording, PastSpan]:
        """The current recording; its beginning is dropped from time to time."""
        from ttmem.recording import Recording
        from ttmem.recording.memory import MemorySource

        new = self._opened is None or not self._opened[0].current
        if self._opened is None or new:
            source = MemorySource(memory)
            self._opened = source, Recording(source)
        recording = self._opened[1]
        if recording.refresh() or new or self.span is None:
            from ttmem.feeds.recording_feed import PastSpan

            self.span = PastSpan(*recording.span, recording.markers, memory.forgotten)
        return recording, self.span


def _begun(feed: ServerFeed | LocalFeed) -> _Kept:
    return _ServerMemory(feed) if isinstance(feed, ServerFeed) else _LocalMemory(feed)
