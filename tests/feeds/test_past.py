"""The recent past of a live feed, in memory."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from tests.patience import wait_until
from tests.probe.watched import Watched
from tests.server.conftest import Share, StartServer
from tests.server.conftest import open_to_everybody as open_to_everybody
from tests.server.conftest import start as start
from tests.server.harness import OldClient
from tests.server.test_bounds import BECOME
from ttmem.errors import NothingToRead, TtmemError
from ttmem.feeds import LocalFeed, PastFeed, ServerFeed, recorded
from ttmem.feeds.past import LIVE
from ttmem.snapshots import DETAILS, Snapshot, to_json

Watch = Callable[..., Watched]


def test_a_watched_process_is_recorded_until_it_ends(watch: Watch, tmp_path: Path) -> None:
    watched = watch(
        "mesh = lib.mesh_open(1); kept = buffer(mesh, 7, 0, 4000); say('made'); input()\n"
        "lib.buffer_free(kept); buffer(mesh, 8, 0, 2000); say('done')\n"
    )
    watched.wait_for("made")
    other = watch("mesh = lib.mesh_open(1); buffer(mesh, 9, 0, 1000); say('made'); input()")
    other.wait_for("made")

    class GoOn(threading.Event):
        """It is waited for between two looks, so the process goes on after the first one."""

        waited = False

        def wait(self, timeout: float | None = None) -> bool:
            if not self.waited:
                self.waited = True
                watched.go_on()
            return super().wait(timeout)

    with recorded(600, pid=watched.process.pid, shm=str(tmp_path), stop=GoOn()) as recording:
        held = recording.at("start", ["buffers"]).buffers
        assert held is not None
        assert [buffer.requested for buffer in held] == [4000]
        kinds = [(marker.kind, marker.pid) for marker in recording.markers]
        assert kinds == [("start", watched.process.pid), ("end", watched.process.pid)]
        ids = {process.pid for process in recording.processes}
        assert ids == {watched.process.pid}
        assert recording.at("end").processes == ()
        assert recording.info().closed


def test_a_recording_ends_after_its_time_or_when_told(watch: Watch, tmp_path: Path) -> None:
    watched = watch("mesh = lib.mesh_open(1); buffer(mesh, 7, 0, 4000); say('made'); input()")
    watched.wait_for("made")
    stop = threading.Event()
    stop.set()

    for seconds in (0.2, 600):
        with recorded(seconds, pid=watched.process.pid, shm=str(tmp_path), stop=stop) as recording:
            (process,) = recording.at("end").processes
            assert process.pid == watched.process.pid


def test_a_process_that_is_not_watched_cannot_be_recorded(tmp_path: Path) -> None:
    with pytest.raises(NothingToRead, match="ttmem run"):
        recorded(1, pid=os.getpid(), shm=str(tmp_path))


def kept(feed: PastFeed) -> None:
    """Reads the present until its past is being kept."""
    wait_until(lambda: feed.read() and not feed.missing)


def look_back(feed: PastFeed, at: str) -> Snapshot:
    feed.at = at
    try:
        return feed.read(DETAILS)
    finally:
        feed.at = LIVE


def test_a_local_feed_shows_an_instant_again_and_goes_on_recording_meanwhile(
    watch: Watch, tmp_path: Path
) -> None:
    watched = watch(
        "mesh = lib.mesh_open(1); kept = buffer(mesh, 7, 0, 4000); say('made'); input()\n"
        "lib.buffer_free(kept); buffer(mesh, 8, 0, 2000); say('freed'); input()"
    )
    watched.wait_for("made")
    local = LocalFeed(str(tmp_path))
    with closing(PastFeed(local, local)) as feed:
        kept(feed)
        before = feed.read(DETAILS)
        watched.go_on()
        watched.wait_for("freed")
        wait_until(lambda: before.time_ns == look_back(feed, f"@{before.time_ns}").time_ns)
        wait_until(lambda: _sizes(look_back(feed, "end")) == [2000])
        after = feed.read(DETAILS)

        again = look_back(feed, f"@{before.time_ns}")

        assert _sizes(after) == [2000]
        known: dict[str, object] = {"events": []}  # there were some before anything was kept
        assert to_json(again) | known == to_json(before) | known
        assert feed.note == ""
        start = look_back(feed, "@1000")
        assert feed.span is not None
        assert start.time_ns == feed.span.started_ns
        assert feed.note == "nothing was kept before"
        assert to_json(feed.read())["processes"] == to_json(after)["processes"]


def _sizes(snapshot: Snapshot) -> list[int]:
    return [buffer.requested for buffer in snapshot.buffers or ()]


def test_the_past_of_a_server_is_there_even_when_the_server_has_gone(start: StartServer) -> None:
    server = start("--no-shm")
    source = ServerFeed(server.path)
    with OldClient(server.path) as client, closing(PastFeed(source, source)) as feed:
        client.alloc(5000, id=1, kind=0)
        server.sees(lambda picture: bool(picture.devices))
        kept(feed)
        shown = feed.read(DETAILS)
        client.alloc(6000, id=2, kind=0)
        server.sees(lambda picture: picture.devices[0].memory.dram.requested == 11_000)
        wait_until(lambda: look_back(feed, "end").devices[0].memory.dram.requested == 11_000)
        server.stop()

        with pytest.raises(TtmemError):
            feed.read()
        again = look_back(feed, f"@{shown.time_ns}")

        assert to_json(again)["devices"] == to_json(shown)["devices"]
        assert to_json(again)["processes"] == to_json(shown)["processes"]
        assert feed.span is not None
        assert [marker.kind for marker in feed.span.markers] == ["start"]


def test_the_past_of_somebody_elses_server_is_not_kept_and_the_feed_says_why(
    start: StartServer, open_to_everybody: Share
) -> None:
    place = open_to_everybody(start("--no-shm"))
    program = (
        "import time, ttmem.feeds.past, ttmem.recording.received, ttmem.recording.memory\n"
        f"{BECOME}source = ttmem.feeds.ServerFeed({place!r})\n"
        "feed = ttmem.feeds.PastFeed(source, source)\n"
        "while 'only root' not in feed.missing: feed.read(); time.sleep(0.01)\n"
        "feed.at = 'start'; feed.read()\n"
        "print(feed.missing)\n"
    )

    done = subprocess.run([sys.executable, "-c", program], cwd="/", capture_output=True, text=True)

    assert done.stdout.startswith("the past is not kept: only root and user root")
