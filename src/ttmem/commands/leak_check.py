"""The rule of `ttmem dump --exit-code`: what grows, and what killed processes left."""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterator
from typing import TYPE_CHECKING

from ttmem.analysis.leftovers import Check, Limits, Place
from ttmem.errors import TtmemError
from ttmem.events import Amounts
from ttmem.procfs import user_name
from ttmem.sizes import human
from ttmem.snapshots import Snapshot

if TYPE_CHECKING:
    from ttmem.feeds.ended_feed import Ended
    from ttmem.recording import Recording

LATER = "`ttmem run -o FILE -- COMMAND`, then `ttmem leaks FILE`, judges it"


def growth_check(
    options: argparse.Namespace,
    snapshot: Snapshot,
    ended: Ended | None,
    mine: set[int],
    limits: Limits,
) -> Check:
    """`mine`: ended processes of this user. What is held by a process that runs is no leak in itself."""
    reasons, unknown = [*_left_behind(snapshot, limits)], list[str]()
    if options.file is not None:
        from ttmem.recording import Recording

        with Recording(options.file) as recording:
            _judge(recording, options.file, limits, reasons, unknown)
    for process in ended.snapshot.processes if ended else ():
        held = Amounts.total(process.devices.values()).all
        if process.pid not in mine or held < max(1, limits.min_bytes):
            continue
        if ended and process.pid in ended.killed:
            reasons.append(f"pid {process.pid} was killed, and left {human(held)}")
        else:
            _judge_ended(options, process.pid, limits, reasons, unknown)
    return Check("growth", tuple(reasons), tuple(unknown))


def _left_behind(snapshot: Snapshot, limits: Limits) -> Iterator[str]:
    user = user_name(os.geteuid())
    for left in snapshot.left_behind:
        held = Amounts.total(left.devices.values()).all
        if left.user in (None, user) and held >= max(1, limits.min_bytes):
            yield f"pid {left.pid} died, and left {human(held)}"


def _judge_ended(
    options: argparse.Namespace, pid: int, limits: Limits, reasons: list[str], unknown: list[str]
) -> None:
    from ttmem.feeds import of_ended

    recording = of_ended(pid, options.shm)
    if recording is None:
        unknown.append(f"of pid {pid} the events are gone, and with them whether it leaks; {LATER}")
        return
    with recording:
        _judge(recording, f"pid {pid}", limits, reasons, unknown)


def _judge(
    recording: Recording, name: str, limits: Limits, reasons: list[str], unknown: list[str]
) -> None:
    from ttmem.analysis.history import History
    from ttmem.analysis.leaks import Verdict, find_leaks

    try:
        found = find_leaks(
            History(recording), min_bytes=limits.min_bytes, ignore_phases=tuple(limits.phases)
        )
    except TtmemError as problem:
        unknown.append(str(problem))
        return
    for leak in found.of(Verdict.LEAK):
        place = Place(leak.line.kind, leak.line.site, leak.line.op)
        reasons.append(f"{name} leaks {place}: {leak.evidence}")
