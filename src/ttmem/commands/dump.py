"""Show what is still allocated, by call site, largest first.

Each row shows what one line of code holds: kind of memory, bytes held (reserved in all banks, where
known), the number of buffers, the chips, and the process. Copies of a tensor on the chips of a mesh
count once. --all lists single buffers with age and address instead. Processes known only from shared
memory have totals but no call sites. After that comes what dead processes left behind.

For processes that ran under the probe and have ended, it shows what they never freed, with the
operation and line that allocated it. This is kept for an hour, until `ttmem clean`, or until a new
`ttmem run` needs the space.

For leak checks there is --exit-code. It fails for what grew from iteration to iteration (`ttmem leaks`
explains the rule) and for what a killed process left. It does not fail for what a program keeps until its
end, such as weights. --baseline FILE instead fails for what is more than in an earlier `ttmem dump --json
--top 0`; --strict for everything that is allocated or was never freed. Only processes of this user count;
--pid checks one of them, whatever ran before.

exit codes: 0 done, 1 failed (with --exit-code: or the check failed, or nothing can be read), 2 wrong
arguments, 3 neither server nor shared memory, 4 the server refused
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from contextlib import closing
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Any

from ttmem.analysis.leftovers import Check, Limits, baseline_check, read_baseline, strict_check
from ttmem.clock import now_ns
from ttmem.commands.options import add_snapshot_options, path, size
from ttmem.errors import BadInput, NoServer, TtmemError
from ttmem.events import CLOSED
from ttmem.procfs import user_name
from ttmem.snapshots import Device, Losses, Snapshot, to_json
from ttmem.snapshots.convert import write
from ttmem.views.dump import render_check, render_dump
from ttmem.views.dump_groups import DeviceDump, Group, dump_groups
from ttmem.views.selection import NotThere, select
from ttmem.views.terminal import as_json, spelled, wants_color, width

if TYPE_CHECKING:
    from ttmem.feeds.ended_feed import Ended

SCHEMA = "ttmem.dump/1"
TOP = 10  # rows, or in JSON entries per group


def prepare(parser: argparse.ArgumentParser) -> None:
    add_snapshot_options(parser)
    parser.add_argument(
        "--all", action="store_true", help="a row for each buffer instead of each call site"
    )
    parser.add_argument(
        "--top",
        metavar="N",
        type=int,
        help="how many rows to show (default 10, with --all all of them; 0: all); with --json, single"
        " entries per group",
    )
    parser.add_argument(
        "--exit-code",
        action="store_true",
        help="exit with 1 on a leak, or if a killed process left something",
    )
    rule = parser.add_mutually_exclusive_group()
    rule.add_argument(
        "--strict",
        action="store_true",
        help="with --exit-code: 1 if anything is allocated or was never freed",
    )
    rule.add_argument(
        "--baseline",
        metavar="DUMP",
        type=path,
        help="with --exit-code: 1 if more is held than in this file, which `ttmem dump --json --top 0` wrote",
    )
    parser.add_argument(
        "--min-bytes",
        metavar="SIZE",
        type=size,
        default=0,
        help="with --exit-code: ignore less than this of one line",
    )
    parser.add_argument(
        "--ignore-phase",
        metavar="NAME",
        action="append",
        default=[],
        help="with --exit-code: ignore what this phase allocated; may be repeated",
    )


def run(options: argparse.Namespace) -> int:
    top = (0 if options.all else TOP) if options.top is None else options.top
    if top < 0:
        raise BadInput("--top must be 0 (all) or more")
    if not options.exit_code and (options.strict or options.baseline):
        raise BadInput("--strict and --baseline choose the rule of --exit-code; give that, too")
    snapshot, ended = _snapshots(options)
    entries = top if options.json else 0  # text groups them itself
    dumps = dump_groups(snapshot, entries)
    never_freed = dump_groups(ended.snapshot, entries, ended.ended_ns) if ended else []
    left = ended.snapshot.processes if ended else ()
    unlisted = {one.pid: one.overflow for one in left if one.overflow}
    check = _check(options, snapshot, ended) if options.exit_code else None
    if options.json:
        document = _document(snapshot, dumps, never_freed, sum(unlisted.values()))
        if check is not None:
            document["check"] = asdict(check)
        print(as_json(document, sys.stdout.isatty()))
    else:
        color = wants_color(sys.stdout, options.no_color)
        text = render_dump(
            snapshot,
            dumps,
            never_freed=never_freed,
            single=options.all,
            top=top,
            user=user_name(os.geteuid()),
            unlisted=unlisted,
            width=width(sys.stdout),
            color=color,
            chosen=bool(options.device or options.pid),
        )
        print(spelled(text, sys.stdout))
        if check is not None:
            print(spelled(render_check(check, width(sys.stdout), color), sys.stdout))
    if check is None:
        return 0
    if not check.failed and _is_blind(snapshot, ended):
        raise TtmemError(
            "whether anything is allocated is not known: no region here is yours to read"
        )
    return 1 if check.failed else 0


def _check(options: argparse.Namespace, snapshot: Snapshot, ended: Ended | None) -> Check:
    from ttmem.commands.leak_check import growth_check

    limits = Limits(options.min_bytes, frozenset(options.ignore_phase))
    mine = _of_this_user(ended)
    states = [snapshot]
    if ended is not None:
        held = ended.snapshot
        states.append(
            replace(
                held.with_rows_of(mine),
                processes=tuple(one for one in held.processes if one.pid in mine),
            )
        )
    if options.strict:
        return strict_check(states, limits)
    if options.baseline:
        return baseline_check(states, limits, read_baseline(options.baseline))
    return growth_check(options, snapshot, ended, mine, limits)


def _of_this_user(ended: Ended | None) -> set[int]:
    """What other users never freed is shown, but it does not fail this user's check."""
    user = user_name(os.geteuid())
    return {one.pid for one in ended.snapshot.processes if one.user == user} if ended else set()


def _is_blind(snapshot: Snapshot, ended: Ended | None) -> bool:
    """Whether there is something to read, but all of it is closed to this user."""
    closed = any(remark.kind in CLOSED for remark in snapshot.remarks)
    seen = snapshot.devices or snapshot.processes or (ended and ended.ended_ns)
    return closed and not seen


def _document(
    snapshot: Snapshot,
    dumps: Sequence[DeviceDump],
    never_freed: Sequence[DeviceDump],
    unlisted: int,
) -> dict[str, Any]:
    whole = to_json(snapshot)
    return {
        "schema": SCHEMA,
        "time_ns": snapshot.time_ns,
        "host": whole["host"],
        "devices": _devices(dumps),
        "never_freed": _devices(never_freed, counted=False),
        "never_freed_unlisted": unlisted,
        "left_behind": whole["left_behind"],
        "losses": whole["losses"],
        "remarks": whole["remarks"],
    }


def _devices(dumps: Sequence[DeviceDump], **own: bool) -> list[dict[str, Any]]:
    return [
        {
            "unique_id": dump.device.unique_id,
            "logical_id": dump.device.logical_id,
            "board": dump.device.board,
            "memory": [_group(group) | own for group in dump.memory],
            "kernels": [_group(group) for group in dump.kernels],
        }
        for dump in dumps
    ]


def _group(group: Group) -> dict[str, Any]:
    return asdict(group) | {"largest": [write(row) for row in group.largest]}


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
    """None if the command line names a server or a recording, which is then the only source."""
    if options.socket or options.file:
        return None
    from ttmem.feeds.ended_feed import never_freed

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


def _part(options: argparse.Namespace, snapshot: Snapshot) -> tuple[Snapshot, NotThere | None]:
    """An empty snapshot, and the reason, if it contains nothing that was chosen."""
    try:
        return select(snapshot, options.device, options.pid), None
    except NotThere as problem:
        empty = replace(snapshot.without_details(), devices=(), processes=(), left_behind=())
        return empty, problem
