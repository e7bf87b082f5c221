"""Remove what dead processes left behind in shared memory; without --yes only say what would be done.

A region that a live process uses keeps all but the rows of dead processes; its totals stay as they
are. A region that nobody uses is removed, and so are sockets that nobody listens at, and regions of
the probe whose process is dead (`ttmem dump` knows nothing of it then). Everything is backed up
first: --undo brings it back.
Other users' files, unknown layouts and whatever is no plain file are left alone.

With neither --shm nor --socket both usual places are cleaned, else only those that are named.

exit codes: 0 done, or nothing to do, 1 a step failed, or something changed meanwhile, 2 wrong
arguments, 4 something was left alone (the output says why)
"""

from __future__ import annotations

import argparse
import sys

from ttmem.commands.source_options import named
from ttmem.views.ink import Line, paint
from ttmem.views.terminal import as_json, spelled, wants_color, width

FAILED = 1
LEFT_ALONE = 4
_LATEST = ""


def prepare(parser: argparse.ArgumentParser) -> None:
    """Options of `ttmem clean`."""
    what = parser.add_mutually_exclusive_group()
    what.add_argument("--yes", action="store_true", help="do it")
    what.add_argument(
        "--undo",
        metavar="ID",
        nargs="?",
        const=_LATEST,
        help="bring back what the run ID (default: the latest) took away",
    )
    parser.add_argument("--shm", metavar="DIR", type=named, help="clean the regions in this folder")
    parser.add_argument("--socket", metavar="PATH", type=named, help="clean this socket")
    parser.add_argument(
        "--force",
        action="store_true",
        help="take pids that are not here for dead, even where containers make that doubtful",
    )
    parser.add_argument("--json", action="store_true", help="one JSON document instead of text")
    parser.add_argument("--no-color", action="store_true", help="no colour, as with NO_COLOR=1")


def run(options: argparse.Namespace) -> int:
    """Prints the plan, or what became of it."""
    return _clean(options) if options.undo is None else _undo(options)


def _clean(options: argparse.Namespace) -> int:
    from ttmem.clean import Backups, Scope, carry_out, make_plan
    from ttmem.clean.document import plan_document
    from ttmem.sources.probe_folder import check_folders
    from ttmem.sources.shared_memory.folder import shm_folder
    from ttmem.views.clean_sheet import clean_lines
    from ttmem.wire.socket_path import socket_path

    usual = not (options.shm or options.socket)
    if usual or options.shm:
        check_folders(options.shm)
    folder = shm_folder(options.shm) if usual or options.shm else None
    socket = socket_path(options.socket) if usual or options.socket else None
    plan = make_plan(Scope(folder, socket, options.force))
    outcomes, backup = carry_out(plan, Backups()) if options.yes else (None, None)
    if options.json:
        print(as_json(plan_document(plan, outcomes, backup), sys.stdout.isatty()))
    else:
        _print(options, clean_lines(plan, outcomes, backup, width(sys.stdout)))
    if any(outcome.problem for outcome in outcomes or ()):
        return FAILED
    return LEFT_ALONE if plan.left else 0


def _undo(options: argparse.Namespace) -> int:
    from ttmem.clean import Backups, undo
    from ttmem.clean.document import undo_document
    from ttmem.views.clean_sheet import undo_lines

    backup = Backups().open(options.undo or None)
    outcomes = undo(backup)
    if options.json:
        print(as_json(undo_document(backup, outcomes), sys.stdout.isatty()))
    else:
        _print(options, undo_lines(backup, outcomes, width(sys.stdout)))
    return FAILED if any(outcome.problem for outcome in outcomes) else 0


def _print(options: argparse.Namespace, lines: list[Line]) -> None:
    color = wants_color(sys.stdout, options.no_color)
    print(spelled(paint(lines, width(sys.stdout), color), sys.stdout))
