"""The recent past of this host, recorded in memory."""

from __future__ import annotations

import threading
import time
from contextlib import closing

from ttmem.errors import NothingToRead
from ttmem.feeds.local_feed import LocalFeed
from ttmem.recording import Recording
from ttmem.recording.memory import Memory, MemorySource

POLL_S = 0.1


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
