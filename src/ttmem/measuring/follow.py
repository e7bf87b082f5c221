"""Follows the probe's region of this process, and keeps what happens in a recording in memory.

The ring of a region has room for 131,072 events. A thread reads it twenty times a second, so that a program would have
to allocate two million times a second before anything is lost; if it is, that is known, and no figure is given.
"""

from __future__ import annotations

import os
import threading
from contextlib import suppress
from typing import TYPE_CHECKING

from ttmem.clock import now_ns
from ttmem.errors import BadInput
from ttmem.procfs import parent_pid

if TYPE_CHECKING:
    from ttmem.recording.recorder import Recorder
    from ttmem.snapshots import Snapshot
    from ttmem.sources.probe.reader import RegionReader

EVERY_S = 0.05
DEEP = 32  # generations of children


class MemoryFile:
    """A recording in memory: a sink while it is written, then a source."""

    name = "this measurement"

    def __init__(self) -> None:
        self.data = bytearray()

    def append(self, chunk: bytes) -> None:
        self.data += chunk

    def size(self) -> int:
        return len(self.data)

    def read(self, offset: int, size: int) -> bytes:
        return bytes(self.data[offset : offset + size])

    def close(self) -> None:
        """The data stays."""


class Follower:
    """Reads what this process allocates, and with `children` what those that it starts allocate."""

    def __init__(self, *, children: bool = False) -> None:
        from ttmem.feeds import LocalFeed

        self._pid = os.getpid()
        self._since = now_ns()
        self._children = children
        self._feed = LocalFeed(wanted=self._is_ours)
        self._lock = threading.Lock()  # of the feed
        self._thread: threading.Thread | None = None
        self._ended = threading.Event()

    def _is_ours(self, region: RegionReader) -> bool:
        if region.uid != os.geteuid():
            return False
        if region.facts.pid == self._pid:
            return region.alive()
        if not self._children or region.created_ns < self._since:
            return False
        return region.launcher == self._pid or _descends(region.facts.pid, self._pid)

    def begin(self, file: MemoryFile, about: str) -> Recorder:
        """Records from now on, beginning with what is alive."""
        from ttmem.recording.recorder import described

        if self._thread is not None:
            raise BadInput("something is measured already in this process; blocks cannot overlap")
        with self._lock:
            self._feed.poll()
            recorder = self._feed.record(file, described(about))
        self._ended.clear()
        self._thread = threading.Thread(target=self._follow, name="ttmem-watch", daemon=True)
        self._thread.start()
        return recorder

    def _follow(self) -> None:
        while not self._ended.wait(EVERY_S):
            with self._lock, suppress(Exception):  # the program that is watched goes on
                self._feed.poll()

    def snapshot(self) -> Snapshot:
        """What is alive now."""
        with self._lock:
            return self._feed.read(("buffers",))

    def end(self) -> None:
        """Takes the rest, and ends the recording."""
        self._ended.set()
        if self._thread is not None:
            self._thread.join()
            self._thread = None
        with self._lock:
            self._feed.poll()
            self._feed.end_recording()

    def close(self) -> None:
        self._feed.close()


def _descends(pid: int, ancestor: int) -> bool:
    for _ in range(DEEP):
        parent = parent_pid(pid)
        if parent is None or parent <= 1:
            return False
        if parent == ancestor:
            return True
        pid = parent
    return False


_followers: dict[int, Follower] = {}


def shared() -> Follower:
    """One for this process: opening a region and reading what is alive takes longer than to go on."""
    pid = os.getpid()
    if pid not in _followers:
        _followers.clear()  # of the process that forked this one
        _followers[pid] = Follower()
    return _followers[pid]
