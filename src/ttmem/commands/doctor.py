"""Check this host: what was found, what is wrong, and which command fixes it.

Examines cards, driver, the ttnn versions loaded by processes, the regions in shared memory and the
processes that map them, probe regions, and the server's socket. Changes nothing. docs/doctor.md
explains each finding.

exit codes: 0 nothing is wrong, 1 there is a warning or an error, 2 wrong arguments
"""

from __future__ import annotations

import argparse
from functools import partial

from ttmem.commands.options import add_output_options, path, print_answer


def prepare(parser: argparse.ArgumentParser) -> None:
    add_output_options(parser)
    parser.add_argument(
        "--shm", metavar="DIR", type=path, help="look for regions in this directory"
    )
    parser.add_argument(
        "--socket", metavar="PATH", type=path, help="look for a server at this socket"
    )


def run(options: argparse.Namespace) -> int:
    from ttmem.doctor.examination import examine_host
    from ttmem.doctor.finding import Level, document, worst
    from ttmem.sources.shm import check_directories, counter_directory
    from ttmem.views.doctor import doctor_sheet
    from ttmem.wire.socket_path import socket_path

    check_directories(options.shm)
    about = examine_host(counter_directory(options.shm), socket_path(options.socket))
    print_answer(options, lambda: document(*about), partial(doctor_sheet, *about))
    return 1 if (worst(about[1]) or Level.INFO) > Level.INFO else 0
