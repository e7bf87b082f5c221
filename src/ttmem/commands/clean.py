"""Remove what dead processes left behind in shared memory; without --yes, only show what would be done.

In a region that a live process uses, only the rows of dead processes are cleared; its totals stay
as they are. Removed are: regions in use by nobody, sockets on which nobody listens, and probe
regions of dead processes (after which `ttmem dump` no longer shows what they never freed).
Everything is backed up first, and --undo restores it.
Files of other users, unknown layouts and anything that is not a regular file are left alone.

Without --shm and --socket, both default places are cleaned; otherwise only those given.

exit codes: 0 done or nothing to do, 1 a step failed or something changed in the meantime, 2 wrong
arguments, 4 something was left alone (the output says why)
"""

from __future__ import annotations

import argparse
import sys

from ttmem.commands.options import add_output_options, path
from ttmem.views.ink import Line, paint
from ttmem.views.terminal import as_json, spelled, wants_color, width

FAILED = 1
LEFT_ALONE = 4
_LATEST = ""


def prepare(parser: argparse.ArgumentParser) -> None:
    what = parser.add_mutually_exclusive_group()
    what.add_argument("--yes", action="store_true", help="do it")
    what.add_argument(
        "--undo",
        metavar="ID",
        nargs="?",
        const=_LATEST,
        help="restore what the run with this ID (default: the latest) removed",
    )
    parser.add_argument(
        "--shm", metavar="DIR", type=path, help="clean the regions in this directory"
    )
    parser.add_argument("--socket", metavar="PATH", type=path, help="clean this socket")
    parser.add_argument(
        "--force",
        action="store_true",
        help="treat processes that are not visible here as dead, even if they may be alive in a container",
    )
    add_output_options(parser)


def run(options: argparse.Namespace) -> int:
    return _clean(options) if options.undo is None else _undo(options)


def _clean(options: argparse.Namespace) -> int:
    from ttmem.clean import Backups, Scope, carry_out, make_plan
    from ttmem.clean.document import plan_document
    from ttmem.sources.shm import check_directories, counter_directory
    from ttmem.views.doctor import clean_lines
    from ttmem.wire.socket_path import socket_path

    usual = not (options.shm or options.socket)
    if usual or options.shm:
        check_directories(options.shm)
    folder = counter_directory(options.shm) if usual or options.shm else None
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
    from ttmem.views.doctor import undo_lines

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
