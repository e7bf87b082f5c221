"""Recording a live process for a while, in memory."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.probe.watched import Watched
from ttmem.errors import NothingToRead
from ttmem.feeds import recorded

Watch = Callable[..., Watched]


def test_a_watched_process_is_recorded_until_it_ends(watch: Watch, tmp_path: Path) -> None:
    watched = watch(
        "mesh = lib.mesh_open(1); kept = buffer(mesh, 7, 0, 4000); say('made'); input()\n"
        "lib.buffer_free(kept); buffer(mesh, 8, 0, 2000); say('done')\n"
    )
    watched.wait_for("made")
    other = watch("mesh = lib.mesh_open(1); buffer(mesh, 9, 0, 1000); say('made'); input()")
    other.wait_for("made")
    threading.Timer(0.3, watched.go_on).start()

    with recorded(600, pid=watched.process.pid, shm=str(tmp_path)) as recording:
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
