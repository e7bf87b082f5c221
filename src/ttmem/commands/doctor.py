"""Say what is on this host, what is wrong with it, and which command mends it.

Looks at cards, driver, the ttnn versions that processes have loaded, the regions in shared memory
and who maps them, regions of the probe, and the server's socket. Changes nothing. docs/doctor.md
explains each finding.

exit codes: 0 nothing is wrong, 1 there is a warning or an error, 2 wrong arguments
"""

from __future__ import annotations

import argparse
import sys

from ttmem.commands.source_options import named
from ttmem.views.terminal import as_json, spelled, wants_color, width


def prepare(parser: argparse.ArgumentParser) -> None:
    """Options of `ttmem doctor`."""
    parser.add_argument("--json", action="store_true", help="one JSON document instead of text")
    parser.add_argument("--shm", metavar="DIR", type=named, help="look for regions in this folder")
    parser.add_argument(
        "--socket", metavar="PATH", type=named, help="look for a server at this socket"
    )
    parser.add_argument("--no-color", action="store_true", help="no colour, as with NO_COLOR=1")


def run(options: argparse.Namespace) -> int:
    """Prints facts and findings."""
    from ttmem.clean import Scope, make_plan
    from ttmem.doctor import Level, document, examine, worst
    from ttmem.sources.host import gather
    from ttmem.sources.probe_folder import check_folders
    from ttmem.sources.shared_memory.folder import shm_folder
    from ttmem.views.doctor_sheet import doctor_sheet
    from ttmem.wire.socket_path import socket_path

    check_folders(options.shm)
    folder, socket = shm_folder(options.shm), socket_path(options.socket)
    facts = gather(folder, socket)
    findings = examine(facts, make_plan(Scope(folder, socket)))
    if options.json:
        print(as_json(document(facts, findings), sys.stdout.isatty()))
    else:
        color = wants_color(sys.stdout, options.no_color)
        text = doctor_sheet(facts, findings, width=width(sys.stdout), color=color)
        print(spelled(text, sys.stdout))
    return 1 if (worst(findings) or Level.INFO) > Level.INFO else 0
