"""The recent past of a live feed, recorded in memory."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable, Sequence
from contextlib import closing
from typing import TYPE_CHECKING, NamedTuple, Protocol

from ttmem.errors import NothingToRead, Refused
from ttmem.events import EVENT_SIZE, Op
from ttmem.feeds.feed import Feed, checked
from ttmem.feeds.opening import HostFeed
from ttmem.feeds.server_feed import ServerFeed
from ttmem.snapshots import Snapshot

if TYPE_CHECKING:  # loaded when there is something to keep, after the first picture of a monitor
    from ttmem.feeds.local_feed import LocalFeed
    from ttmem.recording import Instant, Marker, Recording
    from ttmem.recording.memory import Memory, MemorySource

POLL_S = 0.1
LIVE = "live"
LAST_EVENT, LAST_MARKER = "last event", "last marker"
KEEP_AFTER_S = 0.8  # the first picture of a monitor comes first
RETRY_S = 5.0  # after a server that could not be recorded
NOT_YET = "the past is not kept yet"
FORGOTTEN = "what was before is forgotten: an hour is kept, and at most 256 MiB"


def recorded(
    seconds: float,
    *,
    pid: int | None = None,
    shm: str | None = None,
    stop: threading.Event | None = None,
) -> Recording:
    """What happens on this host from now on, for so long, in memory; or what one process under `ttmem run` does.

    It ends early with that process, or when `stop` is set. Of more than 256 MiB (about 30 million events), the
    beginning is lost. NothingToRead if there is no such process.
    """
    from ttmem.feeds.local_feed import LocalFeed
    from ttmem.recording import Recording
    from ttmem.recording.memory import Memory, MemorySource

    stop = stop or threading.Event()
    memory = Memory()
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


def of_ended(pid: int, shm: str | None = None) -> Recording | None:
    """All that a watched process did which has ended, from its region; None if the region has not all of it.

    That is so for a minute, and if it made no more events than the ring holds.
    """
    from ttmem.feeds.local_feed import LocalFeed
    from ttmem.recording import Recording
    from ttmem.recording.memory import Memory, MemorySource

    memory = Memory()
    with closing(LocalFeed(shm, wanted=lambda region: region.facts.pid == pid)) as feed:
        recorder = feed.remember(memory)
        feed.poll()
        recorder.close()
    recording = Recording(MemorySource(memory))
    told, listed = False, False  # events as they happened; entries of the live table instead
    for batch in recording.batches():
        allocates = Op.ALLOC in bytes(batch.events[::EVENT_SIZE])
        told |= batch.source_position is not None
        listed |= batch.source_position is None and allocates
    return recording if told and not listed else None


class _Kept(Protocol):
    """What is recorded of a feed."""

    feed: ServerFeed | LocalFeed
    memory: Memory
    problem: str  # why it is not, or no more

    @property
    def over(self) -> bool:
        """Nothing more comes."""

    def go_on(self) -> None:
        """Records the present while the past is shown."""

    def close(self) -> None: ...


class _LocalMemory:
    """What this process reads itself."""

    problem = ""

    def __init__(self, feed: LocalFeed) -> None:
        from ttmem.recording.memory import Memory

        self.feed: ServerFeed | LocalFeed = feed
        self.memory = Memory()
        self._local = feed
        self._recorder = feed.remember(self.memory)

    @property
    def over(self) -> bool:
        return self._local.recorder is not self._recorder  # the feed was closed

    def go_on(self) -> None:
        if not self.over:
            self._local.poll()

    def close(self) -> None:
        pass


class _ServerMemory:
    """What a server sees; a thread receives it."""

    def __init__(self, feed: ServerFeed) -> None:
        from ttmem.recording.memory import Memory

        self.feed: ServerFeed | LocalFeed = feed
        self.memory = Memory()
        self.problem = ""
        self._given = feed.given
        self._begun = time.monotonic()
        self._refused = False
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name="ttmem-past", daemon=True)
        self._thread.start()

    @property
    def over(self) -> bool:
        """Another attempt is worth while."""
        ended = not self._thread.is_alive() and not self._refused
        return ended and time.monotonic() > self._begun + RETRY_S

    def go_on(self) -> None:
        pass

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
        """It ends within a second; nobody waits for that."""
        self._ended.set()


class Span(NamedTuple):
    """The part of the past that is there."""

    started_ns: int
    ended_ns: int
    markers: Sequence[Marker]
    forgotten: bool  # there was more before it


class PastFeed:
    """A live feed that can be asked for its recent past: `at` is LIVE, or an instant as in `Recording.instant`.

    LAST_EVENT and LAST_MARKER are instants, too, and "@" and a number of ns: the beginning of the past moves.
    `live` may be `source` with something around it that only the present has.
    """

    growing = False  # the present is not shown as the end of a file

    def __init__(self, live: Feed, source: HostFeed | ServerFeed | LocalFeed) -> None:
        self.at: str | float = LIVE
        self.reached: tuple[int, int] | None = None  # position and time of the last snapshot
        self.span: Span | None = None  # of the past, as it was when it was last looked at
        self.note = ""  # what there is to say about the instant
        self.missing = NOT_YET  # why there is no past; empty: there is
        self._live, self._source = live, source
        self._since = 0.0  # the first reading
        self._kept: _Kept | None = None
        self._opened: tuple[MemorySource, Recording] | None = None
        self._shown: tuple[object, Snapshot] | None = None  # what was asked, and the answer

    @property
    def name(self) -> str:
        return self._live.name

    def read(
        self,
        detail: Iterable[str] = (),
        *,
        device: str | None = None,
        limit: int | None = None,
    ) -> Snapshot:
        """See `Feed.read`."""
        wanted = checked(detail)
        if self.at != LIVE and self._kept is not None and self._kept.memory.end:
            self._kept.go_on()
            return self._read_past(self._kept.memory, wanted, device, limit)
        snapshot = self._live.read(wanted, device=device, limit=limit)
        now = time.monotonic()
        self._since = self._since or now
        if now >= self._since + KEEP_AFTER_S:
            self._keep()
        self.reached, self.note = (0, snapshot.time_ns), ""
        self._opened = self._shown = None
        return snapshot

    def _keep(self) -> None:
        """Begins to record what was just read, unless that is being done."""
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

    def _read_past(
        self, memory: Memory, wanted: list[str], device: str | None, limit: int | None
    ) -> Snapshot:
        recording, span = self._recording(memory)
        question = str(self.at), tuple(wanted), device, limit
        if self._shown is not None and self._shown[0] == question:
            return self._shown[1]
        instant = self._instant(recording, span, question[0])
        found = recording.snapshot(instant, wanted, device=device, limit=limit)
        self.reached = instant.position, instant.time_ns
        # The past does not change, but its end comes half a second late.
        self._shown = (question, found) if instant.time_ns < span.ended_ns else None
        return found

    def _instant(self, recording: Recording, span: Span, at: str) -> Instant:
        from ttmem.recording import Instant

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
        return Instant(recording.position_at(time_ns), time_ns, time_ns)

    def _recording(self, memory: Memory) -> tuple[Recording, Span]:
        """What is there now; its beginning goes from time to time."""
        from ttmem.recording import Recording
        from ttmem.recording.memory import MemorySource

        new = self._opened is None or not self._opened[0].current
        if self._opened is None or new:
            source = MemorySource(memory)
            self._opened = source, Recording(source)
        recording = self._opened[1]
        if recording.refresh() or new or self.span is None:
            info = recording.info()
            markers = recording.markers
            self.span = Span(info.started_ns, info.ended_ns, markers, memory.forgotten)
        return recording, self.span


def _begun(feed: ServerFeed | LocalFeed) -> _Kept:
    return _ServerMemory(feed) if isinstance(feed, ServerFeed) else _LocalMemory(feed)
