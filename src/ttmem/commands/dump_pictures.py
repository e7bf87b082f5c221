"""What `ttmem dump` shows: the picture of now, and what processes never freed that have ended."""

from __future__ import annotations

import argparse
import time
from dataclasses import replace

from ttmem.errors import NoServer
from ttmem.snapshots import Device, Losses, Snapshot
from ttmem.views.selection import NotThere, select


def pictures(options: argparse.Namespace) -> tuple[Snapshot, Snapshot | None]:
    """Now, and the ended processes as if they still held it; each cut to what was chosen.

    A watched process that ended and freed all is an answer too: nothing is left of it.
    """
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
    """Who names one server on the command line asks for nothing else."""
    if options.socket:
        return None
    from ttmem.feeds.ended_feed import never_freed

    return never_freed(options.shm, ("buffers",))


def _chosen(
    options: argparse.Namespace, now: Snapshot, ended: Snapshot | None
) -> tuple[Snapshot, Snapshot | None]:
    if ended is None:
        return select(now, options.device, options.pid), None
    endings = ended.detail["ended"]
    shown, problem = _part(options, _with_closed(now, ended))
    left, neither = _part(options, with_boards(ended, now))
    freed_all = bool(options.pid) and not options.device and endings.keys() >= set(options.pid)
    if problem and neither and not freed_all:
        raise problem
    return shown, replace(left, detail={**left.detail, "ended": endings})


def _with_closed(now: Snapshot, ended: Snapshot) -> Snapshot:
    """With the remarks on ended regions, unless the picture of now has them among all regions."""
    known = {remark.kind for remark in now.remarks}
    more = [remark for remark in ended.remarks if remark.kind not in known]
    return replace(now, remarks=(*now.remarks, *more))


def with_boards(ended: Snapshot, now: Snapshot) -> Snapshot:
    """A region of the probe names neither board nor PCI address; who lives on the chip may know."""
    return replace(ended, devices=tuple(_named(each, now) for each in ended.devices))


def _named(device: Device, now: Snapshot) -> Device:
    same = now.device(device.unique_id)
    if same is None:
        return device
    return replace(
        device,
        board=device.board or same.board,
        pci=device.pci or same.pci,
        remote=same.remote if device.remote is None else device.remote,
        position=device.position or same.position,
    )


def _part(options: argparse.Namespace, picture: Snapshot) -> tuple[Snapshot, NotThere | None]:
    """Nothing, and why, where it has nothing of what was chosen."""
    try:
        return select(picture, options.device, options.pid), None
    except NotThere as problem:
        empty = replace(picture, devices=(), processes=(), left_behind=(), detail={})
        return empty, problem
