"""Remove what dead processes left in shared memory; without --yes, only show what would be done.

Removes regions that no process uses, sockets without a listener, and probe regions of dead processes
(after which `ttmem dump` no longer shows what they never freed). In a region that a live process uses,
only the rows of dead processes are cleared; its totals stay unchanged. Everything is backed up first,
and --undo restores it. Files of other users, unknown layouts and anything but regular files are left
alone.

Without --shm and --socket, both default locations are cleaned; otherwise only those given.

exit codes: 0 done or nothing to do, 1 a step failed or something changed in the meantime, 2 wrong
arguments, 4 something was left alone (the output says why)
"""

from __future__ import annotations

import argparse
from functools import partial

from ttmem.commands.options import add_output_options, flag, path, print_answer

FAILED = 1
LEFT_ALONE = 4
_LATEST = ""


def prepare(parser: argparse.ArgumentParser) -> None:
    what = parser.add_mutually_exclusive_group()
    flag(what, "--yes", "do it")
    what.add_argument(
        "--undo",
        metavar="ID",
        nargs="?",
        const=_LATEST,
        help="restore what the cleanup with this ID removed (default: the latest)",
    )
    parser.add_argument(
        "--shm", metavar="DIR", type=path, help="clean the regions in this directory"
    )
    parser.add_argument("--socket", metavar="PATH", type=path, help="clean this socket")
    flag(
        parser,
        "--force",
        "treat processes that are not visible here as dead, even if they may be alive in a container",
    )
    add_output_options(parser)


def run(options: argparse.Namespace) -> int:
    return _clean(options) if options.undo is None else _undo(options)


def _clean(options: argparse.Namespace) -> int:
    from ttmem.clean.backup import Backups
    from ttmem.clean.document import plan_document
    from ttmem.clean.execution import carry_out
    from ttmem.clean.planning import make_plan
    from ttmem.sources.shm import check_directories, counter_directory
    from ttmem.views.doctor import clean_text
    from ttmem.wire.socket_path import socket_path

    usual = not (options.shm or options.socket)
    if usual or options.shm:
        check_directories(options.shm)
    folder = counter_directory(options.shm) if usual or options.shm else None
    socket = socket_path(options.socket) if usual or options.socket else None
    plan = make_plan(folder, socket, options.force)
    outcomes, backup = carry_out(plan, Backups()) if options.yes else (None, None)
    about = plan, outcomes, backup
    print_answer(options, lambda: plan_document(*about), partial(clean_text, *about))
    if any(outcome.problem for outcome in outcomes or ()):
        return FAILED
    return LEFT_ALONE if plan.left else 0


def _undo(options: argparse.Namespace) -> int:
    from ttmem.clean.backup import Backups
    from ttmem.clean.document import undo_document
    from ttmem.clean.execution import undo
    from ttmem.views.doctor import undo_text

    backup = Backups().open(options.undo or None)
    outcomes = undo(backup)
    about = backup, outcomes
    print_answer(options, lambda: undo_document(*about), partial(undo_text, *about))
    return FAILED if any(outcome.problem for outcome in outcomes) else 0
