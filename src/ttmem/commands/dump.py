"""Show what is still allocated, by call site, largest first.

Each row is a call site: kind of memory, bytes held (reserved in all banks, where known), number of
buffers, devices, process. The copies of a tensor on the devices of a mesh count once. --all lists single
buffers with age and address. Processes known only from the counters have totals but no call sites.
What dead processes left behind follows.

For processes that ran under the probe and have ended, it shows what they never freed, with the op and
line that allocated it. This is kept for an hour, until `ttmem clean`, or until a new `ttmem run` needs
the space. With FILE it shows what was never freed by processes that had ended at that instant.

--exit-code makes it a leak check: it fails if memory grew from iteration to iteration (see `ttmem
leaks --help`) or if a killed process left any, but not for memory that a program keeps to its end, such
as weights. It also fails if memory was never freed and there is no verdict, because events are missing
or the run was too short. With --baseline FILE it fails if more is held than in an earlier `ttmem dump
--json --top 0`, with --strict if anything is allocated or was never freed. It covers all processes of
this user that ended within the last hour, or only the one that --pid names. To check a single run,
use `ttmem run --check-leaks`.

exit codes: 0 done, 1 failed (with --exit-code: or the check failed, or you may not read any of the
memory), 2 wrong arguments, 3 nothing is running: neither server nor shared memory, 4 the server refused
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Container, Iterator
from contextlib import closing
from dataclasses import asdict, replace
from functools import partial
from typing import TYPE_CHECKING

from ttmem.analysis.leftovers import (
    CUT_SHORT,
    Check,
    Ignored,
    baseline_check,
    read_baseline,
    strict_check,
)
from ttmem.clock import now_ns
from ttmem.commands.options import add_check_options, add_snapshot_options, drawn, flag, path
from ttmem.errors import BadInput, NoServer, TtmemError
from ttmem.events import CLOSED, Amounts
from ttmem.procfs import user_name
from ttmem.sizes import human
from ttmem.snapshots import Losses, Snapshot
from ttmem.views.dump import render_check, render_dump
from ttmem.views.dump_document import dump_document
from ttmem.views.selection import NotThere, select
from ttmem.views.terminal import as_json

if TYPE_CHECKING:
    from ttmem.feeds.ended import Ended

LATER = "`ttmem run --check-leaks -- COMMAND` judges a run of any length"
TOP = 10  # rows, or in JSON entries per group


def prepare(parser: argparse.ArgumentParser) -> None:
    add_snapshot_options(parser)
    flag(parser, "--all", "a row for each buffer instead of each call site")
    parser.add_argument(
        "--top",
        metavar="N",
        type=int,
        help="rows to show (default 10, with --all all of them; 0: all); with --json, single"
        " entries per group",
    )
    flag(parser, "--exit-code", "exit with 1 if memory leaks, or if a killed process left any")
    rule = parser.add_mutually_exclusive_group()
    flag(rule, "--strict", "with --exit-code: fail if anything is allocated or was never freed")
    rule.add_argument(
        "--baseline",
        metavar="DUMP",
        type=path,
        help="with --exit-code: fail if more is held than in this output of `ttmem dump --json --top 0`",
    )
    add_check_options(parser, "--exit-code")


def run(options: argparse.Namespace) -> int:
    top = (0 if options.all else TOP) if options.top is None else options.top
    if top < 0:
        raise BadInput("--top must be 0 (all) or more")
    if not options.exit_code and (options.strict or options.baseline):
        raise BadInput("--strict and --baseline need --exit-code")
    snapshot, ended = _snapshots(options)
    check = _check(options, snapshot, ended) if options.exit_code else None
    gone = (ended.snapshot, ended.ended_ns) if ended else (None, {})
    if options.json:
        document = dump_document(snapshot, *gone, top=top)
        if check is not None:
            document["check"] = asdict(check)
        print(as_json(document, sys.stdout.isatty()))
    else:
        draw = partial(
            render_dump,
            snapshot,
            *gone,
            single=options.all,
            top=top,
            user=user_name(os.geteuid()) if options.file is None else None,
            chosen=bool(options.device or options.pid),
        )
        print(drawn(options, draw))
        if check is not None:
            print(drawn(options, partial(render_check, check)))
    if check is None:
        return 0
    if not check.failed and _is_blind(snapshot, ended):
        raise TtmemError(
            "it is unknown whether anything is allocated: you may not read any of the regions here"
        )
    return 1 if check.failed else 0


def _check(options: argparse.Namespace, snapshot: Snapshot, ended: Ended | None) -> Check:
    limits = Ignored(options.min_bytes, frozenset(options.ignore_phase))
    if options.file is not None or ended is None:
        mine = set(ended.ended_ns if ended else ())
    else:  # what other users never freed is shown, but it does not fail this user's check
        user = user_name(os.geteuid())
        mine = {process.pid for process in ended.snapshot.processes if process.user == user}
    states = [snapshot]
    if ended is not None:
        held = ended.snapshot
        states.append(
            replace(
                held.with_rows_of(mine),
                processes=tuple(process for process in held.processes if process.pid in mine),
            )
        )
    if options.strict:
        return strict_check(states, limits)
    if options.baseline:
        return baseline_check(states, limits, read_baseline(options.baseline))
    return growth_check(options, snapshot, ended, mine, limits)


def _is_blind(snapshot: Snapshot, ended: Ended | None) -> bool:
    """Whether there are regions, but this user may read none of them."""
    closed = any(remark.kind in CLOSED for remark in snapshot.remarks)
    seen = snapshot.devices or snapshot.processes or (ended and ended.ended_ns)
    return closed and not seen


def _snapshots(options: argparse.Namespace) -> tuple[Snapshot, Ended | None]:
    """The current state, and ended processes as if they still held what they never freed; both filtered.

    A watched process that ended and freed everything is a valid answer, too: nothing is left.
    """
    from ttmem.feeds import open_feed

    ended = _ended(options)
    try:
        feed = open_feed(options.socket, options.shm, file=options.file, at=options.at)
        with closing(feed):
            now = feed.read(("buffers", "programs"))
    except NoServer:
        if ended is None:
            raise
        now = Snapshot(now_ns(), ended.snapshot.host, (), (), (), Losses(0, 0, 0))
    return _chosen(options, now, ended)


def _ended(options: argparse.Namespace) -> Ended | None:
    """None if the command line names a server, which is then the only source."""
    if options.socket:
        return None
    from ttmem.feeds.ended import never_freed, never_freed_in

    if options.file is not None:
        from ttmem.recording import Recording

        with Recording(options.file) as recording:
            return never_freed_in(recording, "end" if options.at is None else options.at)
    return never_freed(options.shm, ("buffers",))


def _chosen(
    options: argparse.Namespace, now: Snapshot, ended: Ended | None
) -> tuple[Snapshot, Ended | None]:
    if ended is None:
        return select(now, options.device, options.pid), None
    shown, problem = _part(options, _with_closed(now, ended.snapshot))
    left, neither = _part(options, with_boards(ended.snapshot, now))
    known = ended.ended_ns.keys() >= set(options.pid)
    freed_all = bool(options.pid) and not options.device and known
    if problem and neither and not freed_all:
        raise problem
    return shown, ended._replace(snapshot=left)


def _with_closed(now: Snapshot, ended: Snapshot) -> Snapshot:
    """Adds the remarks about regions of ended processes, unless the current snapshot already has them."""
    known = {remark.kind for remark in now.remarks}
    more = [remark for remark in ended.remarks if remark.kind not in known]
    return replace(now, remarks=(*now.remarks, *more))


def with_boards(ended: Snapshot, now: Snapshot) -> Snapshot:
    """Takes board and PCI address, which a probe region does not have, from live processes on the same chip."""
    devices = []
    for device in ended.devices:
        same = now.device(device.unique_id) or device
        devices.append(
            replace(
                device,
                board=device.board or same.board,
                pci=device.pci or same.pci,
                remote=same.remote if device.remote is None else device.remote,
                position=device.position or same.position,
            )
        )
    return replace(ended, devices=tuple(devices))


def _part(options: argparse.Namespace, snapshot: Snapshot) -> tuple[Snapshot, NotThere | None]:
    """If nothing matches the selection: an empty snapshot, and the reason."""
    try:
        return select(snapshot, options.device, options.pid), None
    except NotThere as problem:
        empty = replace(snapshot.without_details(), devices=(), processes=(), left_behind=())
        return empty, problem


def growth_check(
    options: argparse.Namespace,
    snapshot: Snapshot,
    ended: Ended | None,
    mine: set[int],
    limits: Ignored,
) -> Check:
    """`mine`: ended processes of this user. Memory of a running process is not a leak in itself."""
    # What counters still list of a process is in its region, too.
    known = {process.pid for process in ended.snapshot.processes} if ended else set()
    check = Check("growth", tuple(_left_behind(snapshot, limits, known)))
    if options.file is not None:
        from ttmem.analysis.history import History
        from ttmem.analysis.leaks import growth
        from ttmem.recording import Recording

        with Recording(options.file) as recording:
            return check + growth(History(recording), limits)
    for process in ended.snapshot.processes if ended else ():
        held = Amounts.total(process.devices.values()).all
        if process.pid not in mine or held < max(1, limits.min_bytes):
            continue
        if ended and process.pid in ended.killed:
            check += Check("growth", (f"pid {process.pid} {CUT_SHORT}, and left {human(held)}",))
        else:
            check += _judge_ended(options.shm, process.pid, held, limits)
    return check


def _left_behind(snapshot: Snapshot, limits: Ignored, known: Container[int]) -> Iterator[str]:
    user = user_name(os.geteuid())
    for left in snapshot.left_behind:
        held = Amounts.total(left.devices.values()).all
        mine = left.user in (None, user) and left.pid not in known
        if mine and held >= max(1, limits.min_bytes):
            yield f"pid {left.pid} died, and left {human(held)}"


def _judge_ended(shm: str | None, pid: int, held: int, limits: Ignored) -> Check:
    from ttmem.analysis.history import History
    from ttmem.analysis.leaks import growth
    from ttmem.feeds import of_ended

    recording = of_ended(pid, shm)
    if recording is None:
        text = (
            f"pid {pid} never freed {human(held)}, and too few of its events are left to tell"
            f" whether that is a leak; {LATER}"
        )
        return Check("growth", not_judged=(text,))
    with recording:
        return growth(History(recording, pid=pid), limits)
