"""Set a marker in the server's recording, and keep the minutes around it.

    ttmem mark "latency doubled"

Needs a `ttmem serve --record DIR` of the same user, or root. A minute later, the server copies the two minutes before
the mark and the minute after it to a new recording in DIR, and logs its name. Without --record, the mark is in what
`ttmem record` writes, and in the past that open pages show.

exit codes: 0 done, 1 refused, or the server does not record, 3 no server
"""

from __future__ import annotations

import argparse

from ttmem.commands.options import path
from ttmem.text import clean
from ttmem.wire.socket_path import socket_path


def prepare(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("text", metavar="TEXT", help="text of the marker")
    parser.add_argument(
        "--socket", metavar="PATH", type=path, help=f"the server's socket (default {socket_path()})"
    )


def run(options: argparse.Namespace) -> int:
    from ttmem.client.query import ServerConnection

    with ServerConnection(options.socket) as server:
        answer, _ = server.query("mark", text=options.text)
    folder = answer.get("folder")
    if isinstance(folder, str):
        where = f"in {clean(folder)}; a minute from now, a file kept-*-mark.ttmem there has the minutes around it"
    elif answer.get("in_file", True):  # absent: a server of an earlier version
        where = "in the recording that is made of this server"
    else:
        where = (
            "for an hour: pages of `ttmem web` and `ttmem top` that are open now show it in the past they keep;"
            " `ttmem serve --record DIR` keeps marks in files"
        )
    print(f"marked {where}")
    return 0
