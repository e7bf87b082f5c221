"""Show what is still allocated, grouped by device, kind and process, largest first.

For each group: how many, bytes requested, bytes held (reserved in all banks, where that is known),
and the share of what is held of that kind on that device. Below it the largest single entries:
size, age, id, address, and their origin: references, name, program, cores, call site. An id that is
the address is not repeated. Then what dead processes left behind. Of processes that only shared
memory tells of there are sums, and no entries.

Of processes that ran under the probe and have ended: what they never freed, with the operation and
the line that made it, and how long it lived. That is kept for an hour, until `ttmem clean`, or
until a new `ttmem run` needs the room.

For leak checks, --exit-code counts both: what is allocated now, and what watched processes of this
user never freed. --pid asks for one of them, whatever ran before.

exit codes: 0 done, 1 failed (with --exit-code: or something is allocated or was never freed, or all
there is to read is closed to you), 2 wrong arguments, 3 neither server nor shared memory, 4 the server refused
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from ttmem.commands.dump_pictures import pictures
from ttmem.commands.picture_options import add_picture_options
from ttmem.errors import BadInput, TtmemError
from ttmem.process_identity import user_name
from ttmem.snapshots import Snapshot, to_json
from ttmem.sources.closed_files import CLOSED
from ttmem.views.dump_groups import DeviceDump, dump_groups
from ttmem.views.dump_table import render_dump
from ttmem.views.terminal import as_json, spelled, wants_color, width

SCHEMA = "ttmem.dump/1"


def prepare(parser: argparse.ArgumentParser) -> None:
    """Options of `ttmem dump`."""
    add_picture_options(parser)
    parser.add_argument(
        "--top",
        metavar="N",
        type=int,
        default=10,
        help="single entries per group (default %(default)s; 0 lists all)",
    )
    parser.add_argument(
        "--exit-code",
        action="store_true",
        help="exit with 1 if anything is allocated or was never freed (for leak checks)",
    )


def run(options: argparse.Namespace) -> int:
    """Prints the dump."""
    if options.top < 0:
        raise BadInput("--top must be 0 (all) or more")
    picture, ended = pictures(options)
    dumps = dump_groups(picture, options.top)
    never_freed = dump_groups(ended, options.top) if ended else []
    unlisted = {one.pid: one.overflow for one in ended.processes if one.overflow} if ended else {}
    if options.json:
        document = _document(picture, dumps, never_freed, sum(unlisted.values()))
        print(as_json(document, sys.stdout.isatty()))
    else:
        color = wants_color(sys.stdout, options.no_color)
        text = render_dump(
            picture,
            dumps,
            never_freed=never_freed,
            user=user_name(os.geteuid()),
            unlisted=unlisted,
            width=width(sys.stdout),
            color=color,
            chosen=bool(options.device or options.pid),
        )
        print(spelled(text, sys.stdout))
    if not options.exit_code:
        return 0
    ours = _of_this_user(ended)
    found = (
        any(dump.memory for dump in dumps)
        or any(group.pid in ours for dump in never_freed for group in dump.memory)
        or bool(ours & unlisted.keys())
    )
    if not found and _is_blind(picture, ended):
        raise TtmemError(
            "whether anything is allocated is not known: no region here is yours to read"
        )
    return 1 if found else 0


def _of_this_user(ended: Snapshot | None) -> set[int]:
    """What others never freed is shown, but it is no leak of whoever checks."""
    user = user_name(os.geteuid())
    return {one.pid for one in ended.processes if one.user == user} if ended else set()


def _is_blind(picture: Snapshot, ended: Snapshot | None) -> bool:
    """There is something to read, and all of it is closed to us."""
    closed = any(remark.kind in CLOSED for remark in picture.remarks)
    seen = picture.devices or picture.processes or (ended and ended.detail["ended"])
    return closed and not seen


def _document(
    picture: Snapshot,
    dumps: Sequence[DeviceDump],
    never_freed: Sequence[DeviceDump],
    unlisted: int,
) -> dict[str, Any]:
    whole = to_json(picture)
    return {
        "schema": SCHEMA,
        "time_ns": picture.time_ns,
        "host": whole["host"],
        "devices": _devices(dumps),
        "never_freed": _devices(never_freed, counted=False),
        "never_freed_unlisted": unlisted,
        "left_behind": whole["left_behind"],
        "losses": whole["losses"],
        "remarks": whole["remarks"],
    }


def _devices(dumps: Sequence[DeviceDump], **own: bool) -> list[dict[str, Any]]:
    """With keys of one's own: what was never freed is in no sum."""
    return [
        {
            "unique_id": dump.device.unique_id,
            "logical_id": dump.device.logical_id,
            "memory": [asdict(group) | own for group in dump.memory],
            "kernels": [asdict(group) for group in dump.kernels],
        }
        for dump in dumps
    ]
