"""What `ttmem dump` shows: the picture of now, and what processes never freed that have ended."""

from __future__ import annotations

import argparse
import os
import time
from dataclasses import replace

from ttmem.errors import NoServer
from ttmem.snapshots import Losses, Snapshot
from ttmem.views.moments import time_of_day
from ttmem.views.selection import NotThere, select
from ttmem.wire.socket_path import SOCKET_VARIABLE


def pictures(options: argparse.Namespace) -> tuple[Snapshot, Snapshot | None]:
    """Now, and the ended processes as if they still held it; each cut to what was chosen."""
    from ttmem import api

    ended = _ended(options)
    try:
        now = api.snapshot(options.socket, detail=("buffers", "programs"), shm=options.shm)
    except NoServer:
        if ended is None:
            raise
        now = Snapshot(time.time_ns(), ended.host, (), (), (), Losses(0, 0, 0))
    return _chosen(options, now, ended)


def _ended(options: argparse.Namespace) -> Snapshot | None:
    """Who asks one server asks for nothing else."""
    if options.socket or (os.environ.get(SOCKET_VARIABLE) and not options.shm):
        return None
    from ttmem.feeds.ended_feed import never_freed

    found = never_freed(options.shm, ("buffers",))
    return found and _with_endings(found)


def _with_endings(picture: Snapshot) -> Snapshot:
    """A region does not tell the command; when it ended is the next best thing to know it by."""
    endings = picture.detail["ended"]
    processes = tuple(
        replace(process, command=f"ended {time_of_day(endings[process.pid] or 0, None)}")
        for process in picture.processes
    )
    return replace(picture, processes=processes)


def _chosen(
    options: argparse.Namespace, now: Snapshot, ended: Snapshot | None
) -> tuple[Snapshot, Snapshot | None]:
    try:
        picture = select(now, options.device, options.pid)
    except NotThere:
        if ended is None:
            raise
        return replace(now, devices=(), processes=(), detail={}), select(
            ended, options.device, options.pid
        )
    try:
        return picture, ended and select(ended, options.device, options.pid)
    except NotThere:
        return picture, None
